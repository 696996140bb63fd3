"""A stand-in for ``vllm serve``: prints a start-up log in vLLM's form and answers a few routes.

FAKE_MODE chooses what goes wrong: "" (nothing), "fail:<text>" (prints the text as an engine error and exits 1),
"hang" (never ready), "die" (exits 0 a while after it is ready), "deaf" (ignores SIGINT and SIGTERM), "engine-gone"
(its engine process vanishes, the API process stays), "kv" (refuses a length over FAKE_KV_TOKENS), "poison" (dies of the first request), "flag" (refuses
``--single-process``). FAKE_DELAY_S stretches the start.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODE = os.environ.get("FAKE_MODE", "")
DELAY_S = float(os.environ.get("FAKE_DELAY_S", "0.05"))
ARGS = sys.argv[1:]


def say(text: str, who: str = "APIServer", level: str = "INFO") -> None:
    print(f"({who} pid={os.getpid()}) {level} 11-30 04:40:05 [fake.py:1] {text}", flush=True)


def option(name: str, default: str | None = None) -> str | None:
    return ARGS[ARGS.index(name) + 1] if name in ARGS else default


def names() -> list[str]:
    out = [option("--served-model-name") or "model"]
    if "--lora-modules" in ARGS:
        for word in ARGS[ARGS.index("--lora-modules") + 1 :]:
            if word.startswith("--"):
                break
            out.append(word.split("=")[0] if "=" in word else json.loads(word)["name"])
    return out


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        print('INFO:     127.0.0.1:1 - "' + self.requestline + '" 200 OK', flush=True)

    def answer(self, data: object, code: int = 200) -> None:
        raw = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def allowed(self) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        if key and self.headers.get("Authorization") != f"Bearer {key}":
            self.answer({"error": "Unauthorized"}, 401)
            return False
        return True

    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer({})
        elif self.path == "/v1/models" and self.allowed():
            self.answer({"object": "list", "data": [{"id": n} for n in names()]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.allowed():
            return
        if MODE == "poison":
            say("EngineCore encountered a fatal error.", "EngineCore", "ERROR")
            say("Traceback (most recent call last):", "EngineCore", "ERROR")
            say('  File "/venv/vllm/v1/attention/backends/cpu_attn.py", line 1, in forward', "EngineCore", "ERROR")
            say("RuntimeError: Unsupported CPU attention configuration: head_dim=16 isa=2", "EngineCore", "ERROR")
            self.answer({"error": {"message": "EngineCore encountered an issue."}}, 500)
            threading.Timer(0.3, lambda: os._exit(0)).start()
            return
        if self.path == "/v1/audio/transcriptions":
            self.answer({"text": "silence" if b"RIFF" in body else ""})
            return
        data = json.loads(body)
        if "model" in data and data["model"] not in names():
            self.answer({"error": {"message": f"The model `{data['model']}` does not exist."}}, 404)
        elif self.path == "/v1/chat/completions":
            content = data["messages"][0]["content"]
            if os.environ.get("FAKE_NO_TEMPLATE"):
                self.answer({"error": {"message": "no chat template: default chat template is no longer allowed"}}, 400)
                return
            text = "a red picture" if isinstance(content, list) else f"Hello from {data['model']}."
            self.answer({"choices": [{"message": {"role": "assistant", "content": text}}], "usage": {"completion_tokens": 4}})
        elif self.path == "/v1/completions":
            self.answer({"choices": [{"text": " and so on"}], "usage": {"completion_tokens": 3}})
        elif self.path == "/v1/embeddings":
            self.answer({"data": [{"embedding": [0.0, 1.0, 0.5]}]})
        elif self.path == "/v1/rerank":
            self.answer({"results": [{"index": 0, "relevance_score": 0.5}]})
        else:
            self.answer({"error": "?"}, 404)


def engine_error(text: str) -> None:
    who = "EngineCore"
    say("EngineCore failed to start.", who, "ERROR")
    for line in ("Traceback (most recent call last):", '  File "/venv/vllm/v1/engine/core.py", line 1, in run_engine_core', *text.split("\\n")):
        say(line, who, "ERROR")
    for line in (
        "Traceback (most recent call last):",
        '  File "/venv/vllm/v1/engine/utils.py", line 1431, in wait_for_engine_startup',
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
    ):
        print(f"(APIServer pid={os.getpid()}) {line}", flush=True)
    sys.exit(1)


def main() -> None:
    port = int(option("--port", "8000") or 8000)
    if MODE == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "flag" and "--single-process" in ARGS:
        print("usage: vllm serve [model_tag] [options]", flush=True)
        print("vllm: error: unrecognized arguments: --single-process", flush=True)
        sys.exit(2)
    say(f"non-default args: {{'model_tag': '/m/tiny', 'port': {port}, 'model': '/m/tiny', 'max_model_len': 2048}}")
    say("Initializing a V1 LLM engine (v0.32.0) with config: model='/m/tiny', speculative_config=None", "EngineCore")
    # A worker that outlives its parent unless somebody ends it.
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "VLLM::Worker"])
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) if MODE != "engine-gone" else None
    time.sleep(DELAY_S)
    say("Starting to load model /m/tiny...", "Worker")
    for percent, n in ((0, 0), (50, 1), (100, 2)):
        print(f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {n}/2 [00:00<00:00, 9.1it/s]", end="", flush=True)
        time.sleep(DELAY_S / 4)
    print(flush=True)
    say("Loading weights took 0.50 seconds", "Worker")
    say("Model loading took 1.50 GiB memory and 0.600000 seconds", "Worker")
    if MODE.startswith("fail:"):
        worker.kill()
        engine_error(MODE[5:])
    if MODE == "kv":
        length, room = int(option("--max-model-len", "0") or 0), int(os.environ["FAKE_KV_TOKENS"])
        if length > room:
            worker.kill()
            engine_error(
                f"ValueError: To serve at least one request with the model's max seq len ({length}), (9.0 GiB KV cache is needed, which is "
                f"larger than the available KV cache memory (3.1 GiB). Based on the available memory, the estimated maximum model length is {room}."
            )
    say("torch.compile takes 3.20 s in total", "Worker")
    say("Available KV cache memory: 3.00 GiB", "Worker")
    say("GPU KV cache size: 22,528 tokens", "EngineCore")
    print("Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 4/4 [00:00<00:00, 9.0it/s]", flush=True)
    say("Graph capturing finished in 1 secs, took 0.25 GiB", "Worker")
    say("init engine (profile, create kv cache, warmup model) took 4.00 s", "EngineCore")
    if MODE in ("hang", "engine-gone"):
        time.sleep(600)
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("INFO:     Application startup complete.", flush=True)
    if MODE == "die":
        threading.Timer(float(os.environ.get("FAKE_DIE_S", "1.5")), lambda: os._exit(0)).start()
    if MODE != "deaf":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        worker.kill()
        if engine:
            engine.kill()


main()
