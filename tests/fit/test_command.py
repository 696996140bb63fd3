"""``vllm-wizard fit``: the prescribed fields, settings of vllm serve, and start-up logs taken in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fit.published import MODELS
from wizard.cli import run
from wizard.errors import BadInput, WizardError
from wizard.fit import GIB, FitRequest, fit
from wizard.fit_calibrate import compare, load, read_log, save, solve, verdict
from wizard.fit_command import apply_settings, bar
from wizard.host import FakeHost, RealHost
from wizard.models.inspect import from_config

FIELDS = ("weights_gib", "activation_gib", "non_torch_gib", "cuda_graph_gib")


def folder(tmp_path: Path, name: str, **files: Any) -> str:
    path = tmp_path / name
    path.mkdir()
    (path / "config.json").write_text(json.dumps(MODELS[name]))
    for file, content in files.items():
        (path / file.replace("__", ".")).write_text(json.dumps(content))
    return str(path)


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["fit", "--json", *words]) == 0
    out: dict[str, Any] = json.loads(capsys.readouterr().out)
    return out


def test_the_prescribed_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = ask(
        capsys, "--model", folder(tmp_path, "Llama-3.1-8B"), "--gpu", "H100", "--gpu-memory-gib", "79.19", "--release", "0.19.0", "--tp", "1",
        "--gpu-memory-utilization", "0.95", "--max-model-len", "8192",
    )  # fmt: skip
    assert all(isinstance(got[f], float) for f in FIELDS)
    assert [got[f] for f in FIELDS] == pytest.approx([14.99, 1.89, 0.25, 0.0], abs=0.01)
    assert got["kv_cache_gib"]["best"] == pytest.approx(58.11, abs=0.02)
    assert got["kv_cache_gib"]["low"] < got["kv_cache_gib"]["best"] < got["kv_cache_gib"]["high"]
    assert got["kv_cache_tokens"]["best"] == pytest.approx(476_000, abs=100)
    assert (got["fits"], got["max_model_len_that_fits"], got["max_model_len"]) == (True, 131_072, 8192)


def test_a_config_and_an_index_are_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = 16_060_522_496
    path = folder(tmp_path, "Llama-3.1-8B", model__safetensors__index__json={"metadata": {"total_size": total}, "weight_map": {"a": "model-00001-of-00004.safetensors"}})
    got = ask(capsys, "--model", path, "--gpu", "RTX 4090")
    assert got["weight_source"] == "index"
    assert got["weights_gib"] == pytest.approx(14.99, abs=0.02)
    assert got["gpu_total_gib"] == pytest.approx(23.52)
    assert got["release"].count(".") == 2


def test_what_does_not_fit_says_why_and_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = ask(capsys, "--model", folder(tmp_path, "Qwen3-32B"), "--gpu", "RTX 4090")
    assert got["fits"] is False
    assert got["problems"]
    assert 1 <= len(got["ways_out"]) <= 3
    assert run(["fit", "--model", str(tmp_path / "Qwen3-32B"), "--gpu", "RTX 4090"]) == 0
    text = capsys.readouterr().out
    assert "It does not fit." in text
    assert "1. " in text
    assert all(len(line) <= 79 or str(tmp_path) in line for line in text.splitlines())


def test_a_nominal_size_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path, "Qwen3-8B")
    got = ask(capsys, "--model", path, "--gpu-memory-gib", "24")
    assert got["gpu_total_gib"] == pytest.approx(23.52)
    assert any("nominal" in n for n in got["notes"])
    exact = ask(capsys, "--model", path, "--gpu-memory-gib", "23.99", "--gpu-free-gib", "20")
    assert exact["gpu_total_gib"] == pytest.approx(23.99)
    assert exact["fits"] is False
    assert "utilization" in [w["kind"] for w in exact["ways_out"]]


def test_several_gpus_are_used_when_one_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path, "Qwen3-14B")
    assert ask(capsys, "--model", path, "--gpu", "RTX 3090", "--gpus", "2", "--max-model-len", "16k")["tensor_parallel_size"] == 2
    assert ask(capsys, "--model", path, "--gpu", "H100", "--gpus", "2", "--max-model-len", "16k")["tensor_parallel_size"] == 1
    assert ask(capsys, "--model", path, "--gpu", "RTX 3090", "--gpus", "4", "--tp", "4")["tensor_parallel_size"] == 4


@pytest.mark.parametrize(
    ("settings_", "changes"),
    [
        (["dtype=float32"], {"dtype": "float32"}),
        (["--quantization=fp8"], {"quantization": "fp8"}),
        (["max-num-seqs=64", "max_num_batched_tokens=4k"], {"max_num_seqs": 64, "max_num_batched_tokens": 4000}),
        (["enforce-eager"], {"enforce_eager": True}),
        (["enforce_eager=false"], {"enforce_eager": False}),
        (["no-enable-prefix-caching"], {"enable_prefix_caching": False}),
        (['limit-mm-per-prompt={"image": 2, "video": 0}'], {"limit_mm_per_prompt": {"image": 2, "video": 0}}),
        (['limit-mm-per-prompt={"image": {"count": 1, "width": 512}}'], {"limit_mm_per_prompt": {"image": 1}}),
        (["limit_mm_per_prompt=image=0,video=0"], {"limit_mm_per_prompt": {"image": 0, "video": 0}}),
        (["limit-mm-per-prompt.video=0", "limit-mm-per-prompt.image=1"], {"limit_mm_per_prompt": {"video": 0, "image": 1}}),
        (["cpu-offload-gb=4"], {"cpu_offload_bytes": 4 * GIB}),
        (["enable-lora", "max-loras=4", "max-lora-rank=64"], {"lora_slots": 4, "max_lora_rank": 64}),
        (['speculative-config={"method": "mtp", "num_speculative_tokens": 3}'], {"num_speculative_tokens": 3}),
        (["kv-cache-memory=2G"], {"kv_cache_memory_bytes": 2 * GIB}),
        (["VLLM_CPU_KVCACHE_SPACE=4"], {"extra": {"VLLM_CPU_KVCACHE_SPACE": "4"}}),
        (["device=cpu"], {"cpu": True}),
        (["mamba-ssm-cache-dtype=float32"], {"mamba_ssm_cache_dtype": "float32"}),
    ],
)
def test_settings(settings_: list[str], changes: dict[str, Any]) -> None:
    notes: list[str] = []
    got = apply_settings(FitRequest("0.33.0", GIB), settings_, notes)
    for key, value in changes.items():
        assert getattr(got, key) == value
    assert notes == []


def test_a_setting_without_effect_is_noted() -> None:
    notes: list[str] = []
    assert apply_settings(FitRequest("0.33.0", GIB), ["port=8001"], notes).extra == {"port": "8001"}
    assert "port" in notes[0]


@pytest.mark.parametrize("setting", ["=1", "max_num_seqs=many", "enforce_eager=perhaps", "limit_mm_per_prompt=lots", "limit_mm_per_prompt={", "cpu_offload_gb=x", "gpu_memory_utilization=7", "speculative_config={", "a b=1"])
def test_bad_settings_are_named(setting: str) -> None:
    with pytest.raises(BadInput) as fault:
        apply_settings(FitRequest("0.33.0", GIB), [setting], [])
    assert str(fault.value)


@pytest.mark.parametrize(
    "words",
    [["--model", "/nowhere/at/all"], ["--model", "not a model"], [], ["--model", "x", "--gpu", "Voodoo 2"], ["--model", "x", "--release", "newest"], ["--model", "x", "--tp", "0"], ["--model", "x", "--gpu-memory-gib", "-3"]],
)
def test_bad_input_is_named(words: list[str]) -> None:
    with pytest.raises(WizardError) as fault:
        run(["fit", "--gpu", "H100", *words] if "--gpu" not in words and "--gpu-memory-gib" not in words else ["fit", *words])
    assert str(fault.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--gpus", "4", "--tp", "3"], "--tp: 32 attention heads cannot be divided by 3. Take a tensor parallel size that divides them, such as 2."),
        (["--gpus", "2", "--tp", "4"], "--tp: Tensor parallel size 4 needs as many GPUs; 2 can be used."),
        (["--gpus", "2", "--tp", "2", "--pp", "2"], "sizes 2 x 2 x 1 need as many GPUs; 2 can be used."),
        (["--gpus", "2", "--set", "tensor_parallel_size=4"], "--set: Tensor parallel size 4"),
        (["--kv-cache-dtype", "foo"], "--kv-cache-dtype foo: Must be one of: auto"),
        (["--max-model-len", "0"], "--max-model-len 0: Must be at least 1."),
        (["--set", "dtype=int3"], "--set dtype=int3: 'int3' is not one of"),
        (["--set", "max_num_seqs=0"], "--set max_num_seqs=0: It must be at least 1."),
        (["--set", "nope=1"], "--set nope=1: No vLLM release has --nope."),
        (["--set", "swap_space=4"], "--swap-space was removed in"),
        (["--set", "enforce_eager=perhaps"], "--set enforce_eager=perhaps: It must be yes or no."),
        (["--gpu-free-gib", "200"], "--gpu-free-gib: 200 GiB cannot be free of 79.2 GiB."),
    ],
)
def test_what_the_release_or_the_plan_refuses_is_no_fit(tmp_path: Path, words: list[str], told: str) -> None:
    with pytest.raises(BadInput) as fault:
        run(["fit", "--model", folder(tmp_path, "Qwen3-8B"), "--gpu", "H100", *words])
    assert told in str(fault.value)


def test_what_the_release_takes_is_fitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path, "Qwen3-8B")
    for words in (["--tp", "4"], ["--set", "no-enable-prefix-caching"], ["--set", "max_model_len=auto"], ["--set", "kv-cache-memory=20G"], ["--set", "device=cpu"], ["--set", "VLLM_X=1"]):
        assert ask(capsys, "--model", path, "--gpu", "H100", *words)
    full = ask(capsys, "--model", path, "--gpu-memory-gib", "80", "--gpu-free-gib", "80")
    assert full["gpu_free_gib"] == full["gpu_total_gib"]


def test_the_bar_reads_in_black_and_white() -> None:
    result = fit(from_config(MODELS["Qwen3-8B"], source="x"), FitRequest("0.21.0", int(23.5 * GIB), gpu_name="RTX 4090"))
    drawn = bar(result, int(23.5 * GIB))
    assert len(drawn) == 62
    for letter in "WangK":
        assert letter in drawn
    assert drawn.count("W") > drawn.count("K") > drawn.count("a")


# --- logs ----------------------------------------------------------------------------------------------------

LOG_0_19 = """\
(APIServer pid=1) INFO 04-22 16:04:09 [entrypoints/utils.py:299]  version 0.19.0
(APIServer pid=1) INFO 04-22 16:04:09 [entrypoints/utils.py:233] non-default args: {'model_tag': 'org/gemma', 'model': 'org/gemma', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95, 'enable_prefix_caching': False}
(EngineCore pid=510) INFO 04-22 16:04:33 [v1/engine/core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: model='org/gemma', speculative_config=None
(EngineCore pid=510) DEBUG [gpu_worker.py:284] worker init memory snapshot: torch_peak=0.0GiB, free_memory=78.68GiB, total_memory=79.19GiB
(EngineCore pid=510) INFO [gpu_model_runner.py:4820] Model loading took 23.31 GiB memory and 61.511970 seconds
(EngineCore pid=510) INFO [gpu_model_runner.py:5955] Estimated CUDA graph memory: 1.02 GiB total
(EngineCore pid=510) DEBUG [gpu_worker.py:424] Initial free memory: 78.68 GiB; Requested memory: 0.950000 (util), 75.23 GiB
(EngineCore pid=510) DEBUG [gpu_worker.py:435] Memory profiling takes 33.32 seconds. Total non KV cache memory: 27.51GiB; torch peak memory increase: 3.94GiB; non-torch forward increase memory: 0.25GiB; weights memory: 23.31GiB.
(EngineCore pid=510) INFO [gpu_worker.py:436] Available KV cache memory: 47.72 GiB
(EngineCore pid=510) INFO [kv_cache_utils.py:1319] GPU KV cache size: 130,304 tokens
(EngineCore pid=510) INFO [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 15.88x
"""
LOG_0_30 = """\
(APIServer pid=1) INFO [api_server.py:1] vLLM API server version 0.30.0
(EngineCore pid=7) INFO [model_runner.py:1] Model loading took 14.2 GiB memory and 4.1 seconds
(EngineCore pid=7) INFO [gpu_worker.py:1] Available KV cache memory: 12.26 GiB
(EngineCore pid=7) INFO [kv_cache_utils.py:1] GPU KV cache size: 302,921 tokens, Maximum concurrency for 131,072 tokens per request: 2.31x
(EngineCore pid=7) INFO [gpu_worker.py:1] CUDA graph pool memory: 0.09 GiB (actual), 0.13 GiB (estimated), difference: 0.04 GiB (51.1%).
(EngineCore pid=7) INFO [gpu_worker.py:1] Free memory on device (30.27/31.4 GiB) on startup. Desired GPU memory utilization is (0.92, 28.88 GiB). Actual usage is 15.03 GiB for consumed memory (weights + non-torch), 1.59 GiB for peak activation, and 0.09 GiB for CUDAGraph memory.
"""
LOG_V0 = """\
INFO 12-13 19:54:18 worker.py:243] total_gpu_memory     79.22GiB
INFO 12-13 19:54:18 worker.py:243] the current vLLM instance can use    71.29GiB
INFO 12-13 19:54:18 worker.py:243] model weights take   14.96GiB
INFO 12-13 19:54:18 worker.py:243] non_torch_memory     1.79GiB
INFO 12-13 19:54:18 worker.py:243] PyTorch activation peak memory       1.26GiB
INFO 12-13 19:54:18 worker.py:243] available_kv_cache_memory    53.29GiB
INFO 12-13 19:54:18 executor.py:1] # GPU blocks: 27283, # CPU blocks: 2048
"""
LOG_CPU = """\
(APIServer pid=1) INFO vLLM API server version 0.32.0
(Worker pid=2) INFO [cpu_worker.py:260] Explicitly set (1.0/16.96) GiB for KV cache on node 0.
(EngineCore pid=3) INFO [kv_cache_utils.py:2327] CPU KV cache size: 2,097,152 tokens, Maximum concurrency for 2,048 tokens per request: 1024.00x
"""
LOG_TOO_LONG = "ValueError: To serve at least one request with the model's max seq len (4096), (0.5 GiB KV cache is needed ... Based on the available memory, the estimated maximum model length is 1920. Try"


def gib(value: int | None) -> float | None:
    return None if value is None else round(value / GIB, 2)


def test_a_log_of_0_19() -> None:
    f = read_log(LOG_0_19)
    assert (f.release, f.model, f.utilization) == ("0.19.0", "org/gemma", 0.95)
    assert [gib(x) for x in (f.weights_bytes, f.activation_bytes, f.non_torch_bytes, f.cuda_graph_bytes, f.kv_cache_bytes, f.total_bytes, f.budget_bytes)] == [23.31, 3.94, 0.25, 1.02, 47.72, 79.19, 75.23]
    assert (f.kv_cache_tokens, f.concurrency) == (130_304, 15.88)


def test_a_log_of_0_30() -> None:
    f = read_log("\x1b[32m" + LOG_0_30.replace("\n", "\x1b[0m\r\n"))
    assert f.release == "0.30.0"
    assert [gib(x) for x in (f.weights_bytes, f.activation_bytes, f.non_torch_bytes, f.cuda_graph_bytes, f.kv_cache_bytes, f.total_bytes)] == [14.2, 1.59, 0.83, 0.13, 12.26, 31.4]
    assert f.kv_cache_tokens == 302_921


def test_logs_of_the_old_engine_the_cpu_and_a_failed_start() -> None:
    old = read_log(LOG_V0)
    assert [gib(x) for x in (old.weights_bytes, old.activation_bytes, old.non_torch_bytes, old.kv_cache_bytes)] == [14.96, 1.26, 1.79, 53.29]
    assert old.kv_cache_tokens == 27_283 * 16
    cpu = read_log(LOG_CPU)
    assert (cpu.cpu, gib(cpu.kv_cache_bytes), cpu.kv_cache_tokens) == (True, 1.0, 2_097_152)
    assert read_log(LOG_TOO_LONG).longest == 1920
    assert read_log("nothing of the kind").empty


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.sampled_from([LOG_0_19, LOG_0_30, LOG_V0, LOG_CPU, LOG_TOO_LONG]), st.integers(0, 900))
def test_any_text_is_read_without_error(noise: str, log: str, at: int) -> None:
    read_log(log[:at] + noise + log[at + len(noise) :])


def test_log_and_prediction_are_compared() -> None:
    info = from_config(MODELS["gemma-3-12b"], source="x")
    request = FitRequest("0.19.0", int(79.19 * GIB), gpu_name="H100", gpu_memory_utilization=0.95, max_model_len=8192)
    pairs = compare(read_log(LOG_0_19), fit(info, request))
    assert {p.key for p in pairs} == {"weights", "activation", "non_torch", "kv_cache", "kv_cache_tokens"}
    assert verdict(pairs)[0]
    wrong = compare(read_log(LOG_0_19.replace("47.72", "40.00").replace("130,304", "109,000")), fit(info, request))
    good, words = verdict(wrong)
    assert not good
    assert "%" in words


def test_the_missing_figure_is_solved_and_makes_the_prediction_match() -> None:
    info = from_config(MODELS["gemma-3-12b"], source="x")
    request = FitRequest("0.19.0", int(79.19 * GIB), gpu_name="H100", gpu_memory_utilization=0.95, max_model_len=8192)
    log = "\n".join(line for line in LOG_0_19.splitlines() if "DEBUG" not in line).replace("47.72", "45.72")
    first = fit(info, request)
    solved = solve(read_log(log), request, first)
    assert solved.activation_bytes is not None
    assert solved.activation_bytes / GIB == pytest.approx(5.94, abs=0.03)
    again = fit(info, request, solved)
    assert again.kv_cache_bytes.best / GIB == pytest.approx(45.72, abs=0.03)
    assert again.kv_cache_bytes.high - again.kv_cache_bytes.low < first.kv_cache_bytes.high - first.kv_cache_bytes.low + GIB


def test_calibrations_are_kept_by_card_release_and_model() -> None:
    host = RealHost()
    request = FitRequest("0.19.0", 24 * GIB, gpu_name="RTX 4090")
    solved = solve(read_log(LOG_0_19), request, fit(from_config(MODELS["gemma-3-12b"], source="x"), request))
    save(host, request, "org/gemma", solved)
    kept = load(host, request, "/models/gemma")
    assert kept is not None
    assert kept.non_torch_bytes == solved.non_torch_bytes
    assert load(host, FitRequest("0.20.0", 24 * GIB, gpu_name="RTX 4090"), "org/gemma") is None
    assert load(host, request, "org/other") is None
    host.cache_put("fit-calibration", "not json")
    assert load(host, request, "org/gemma") is None


def test_calibrate_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(tmp_path, "gemma-3-12b")
    log = tmp_path / "start.log"
    log.write_text(LOG_0_19)
    got = ask(capsys, "--calibrate", str(log), "--model", path, "--gpu", "H100")
    assert got["match"] is True
    assert got["figures"]["kv_cache"]["logged"] == pytest.approx(47.72, abs=0.01)
    assert abs(got["figures"]["kv_cache"]["percent"]) < 0.2
    assert run(["fit", "--calibrate", str(log), "--model", path, "--gpu", "H100"]) == 0
    assert "match" in capsys.readouterr().out
    log.write_text("nothing")
    with pytest.raises(WizardError):
        run(["fit", "--calibrate", str(log), "--model", path, "--gpu", "H100"])
    with pytest.raises(BadInput):
        run(["fit", "--calibrate", str(tmp_path / "gone"), "--model", path, "--gpu", "H100"])


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_size", -4), ("num_hidden_layers", "x"), ("num_attention_heads", 0), ("vocab_size", 1.5), ("head_dim", True)],
)
def test_a_size_that_cannot_be_is_named(field: str, value: object, tmp_path: Path) -> None:
    path = folder(tmp_path, next(name for name in MODELS if "text_config" not in MODELS[name]))
    config = Path(path) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), field: value}))
    with pytest.raises(BadInput, match=field):
        run(["fit", "--model", path, "--gpu", "RTX 4090"])


def test_a_weights_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = folder(tmp_path, next(iter(MODELS)))
    (Path(path) / "model.safetensors").write_bytes(b"abc")
    with pytest.raises(BadInput, match=r"model\.safetensors"):
        run(["fit", "--model", path, "--gpu", "RTX 4090"])


def test_a_file_that_is_no_model_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").write_text("x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WizardError) as told:
        run(["fit", "--model", "bin", "--gpu", "RTX 4090"])
    assert "bin/bin" not in str(told.value)


def test_a_folder_that_may_not_be_read_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = tmp_path / "machine"
    recorded.mkdir()
    data = json.loads((Path(__file__).parent.parent / "machines" / "native-t4" / "host.json").read_text())
    data["entries"]["/models/closed"] = {"dir": True}
    listed = FakeHost.list_dir

    def closed(host: FakeHost, path: str) -> Any:
        if path == "/models/closed":
            raise PermissionError(13, "Permission denied")
        return listed(host, path)

    monkeypatch.setattr(FakeHost, "list_dir", closed)
    (recorded / "host.json").write_text(json.dumps(data))
    (recorded / "commands.json").write_text("[]")
    with pytest.raises(WizardError, match="may not be read"):
        run(["fit", "--machine", str(recorded), "--model", "/models/closed", "--gpu", "RTX 4090"])


def test_on_a_cpu_fit_and_plan_leave_the_same_ram_to_vllms_own_processes(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = ["--machine", str(Path(__file__).parents[1] / "machines" / "cpu-only-laptop")]
    asked = [*recorded, "--model", "Qwen/Qwen3-0.6B", "--max-model-len", "4096"]
    # 9.8 of 15.3 GiB are available, and 3.5 of them are the processes': 0.6 asks for 9.2, 0.4 for 6.1.
    assert ask(capsys, *asked, "--gpu-memory-utilization", "0.6")["fits"] is False
    assert ask(capsys, *asked, "--gpu-memory-utilization", "0.4")["fits"] is True
    assert run(["plan", *recorded, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    lines = {line["key"]: line["bytes"] / 2**30 for line in plan["fit"]["lines"]}
    assert lines["processes"] == pytest.approx(3.5)
    assert lines["held_by_others"] == pytest.approx(15.3 - 9.8, abs=0.1)
    assert "other programs hold 5.5 GiB of RAM" in next(d["reason"] for d in plan["decisions"] if d["key"] == "gpu_memory_utilization")


@pytest.mark.parametrize(("length", "said"), [("262144", "It does not fit."), ("16384", "It fits, also at the pessimistic end.")])
def test_it_says_of_a_length_what_the_plan_says(length: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(Path(__file__).parent.parent / "machines" / "wsl2-rtx4090-desktop")
    assert run(["fit", "--machine", where, "--model", "Qwen/Qwen3-VL-8B-Instruct", "--max-model-len", length]) == 0
    out = capsys.readouterr().out
    assert said in out
    assert "does not surely fit" not in out
