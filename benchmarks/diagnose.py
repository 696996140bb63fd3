"""How fast logs are diagnosed, beside what must be waited for anyway.

Large: a log of SIZE megabytes (default 1024) against ``grep -cE`` (with -a: the banner is not ASCII) with a dozen words on it (bar: 6 times), and the
memory that it takes (bar: 150 MB). Small: 300 kB against ``vllm-wizard --help`` (bar: 1.5 times). Runs in pairs, so
that a busy moment hits both; exits 1 when a bar is missed.

    python benchmarks/diagnose.py [SIZE_MB] [--kind serving|crashes|both] [--pairs N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LARGE_BAR, SMALL_BAR, MEMORY_BAR_MB = 6.0, 1.5, 150.0
WORDS = "Error|ERROR|Exception|Traceback|Killed|failed|died|assert|out of memory|NCCL WARN|SIGTERM|unrecognized"

START = """(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.31.0
(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:233] non-default args: {'model': '/home/user/models/some', 'max_model_len': 65536}
(EngineCore pid=90) INFO 11-05 03:10:20 [gpu_model_runner.py:4000] Starting to load model /home/user/models/some...
(EngineCore pid=90) INFO 11-05 03:11:20 [gpu_model_runner.py:4100] Model loading took 15.2 GiB memory and 61.2 seconds
"""
SERVING = """(APIServer pid=1) INFO 11-05 04:{m:02d}:{s:02d} [loggers.py:257] Engine 000: Avg prompt throughput: {n}.5 tokens/s, Avg generation throughput: {n}.1 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.{s}%
(APIServer pid=1) INFO:     127.0.0.1:{n} - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""
FRAMES = "".join(
    f'(EngineCore pid=90) ERROR 11-05 03:12:00 [core.py:900]   File "/opt/vllm/vllm/v1/engine/part_{i}.py", line {i}, in step_{i}\n'
    f"(EngineCore pid=90) ERROR 11-05 03:12:00 [core.py:900]     result = self.next_part(argument_{i}, other={i})\n"
    for i in range(25)
)
CRASH = f"""(EngineCore pid=90) ERROR 11-05 03:12:00 [core.py:900] EngineCore failed to start.
(EngineCore pid=90) ERROR 11-05 03:12:00 [core.py:900] Traceback (most recent call last):
{FRAMES}(EngineCore pid=90) ERROR 11-05 03:12:00 [core.py:900] ValueError: To serve at least one request with the model's max seq len (65536), (9.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.1 GiB). Based on the available memory, the estimated maximum model length is 22528.
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""


def write_log(path: Path, size_bytes: int, kind: str) -> None:
    """``serving``: one long healthy run, then a start that fails; ``crashes``: nothing but failed starts."""
    block = START + CRASH if kind == "crashes" else "".join(SERVING.format(m=i // 60 % 60, s=i % 60, n=1000 + i) for i in range(2000))
    data = block.encode()
    with path.open("wb") as out:
        if kind == "serving":
            out.write((START + "INFO:     Application startup complete.\n").encode())
        for _turn in range(max(1, size_bytes // len(data))):
            out.write(data)
        out.write((START + CRASH).encode())


def timed(argv: list[str], env: dict[str, str] | None = None) -> float:
    started = time.perf_counter()
    # A pipe: grep stops at the first hit when its output goes to /dev/null.
    subprocess.run(argv, check=False, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=env)
    return time.perf_counter() - started


def peak_mb(argv: list[str]) -> float:
    """The most memory that the command takes, in MB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    return float(subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True).stdout)


def wizard() -> list[str]:
    beside = Path(sys.executable).with_name("vllm-wizard")
    found = str(beside) if beside.exists() else shutil.which("vllm-wizard")
    return [found] if found else [sys.executable, "-m", "wizard"]


def large(folder: Path, size_mb: int, kind: str, pairs: int) -> bool:
    log = folder / f"{kind}.log"
    write_log(log, size_mb << 20, kind)
    grep, ours = ["grep", "-acE", WORDS, str(log)], [*wizard(), "diagnose", "--json", str(log)]
    timed(grep)
    rows = [(timed(grep), timed(ours)) for _pair in range(pairs)]
    ratio = statistics.median(b / a for a, b in rows)
    memory = peak_mb(ours)
    print(f"{kind:<8} {size_mb} MB: grep {statistics.median(a for a, _b in rows):.2f} s, diagnose {statistics.median(b for _a, b in rows):.2f} s, ratio {ratio:.2f} (bar {LARGE_BAR}); {memory:.0f} MB (bar {MEMORY_BAR_MB:.0f})")
    log.unlink()
    return ratio <= LARGE_BAR and memory <= MEMORY_BAR_MB


def small(folder: Path, pairs: int) -> bool:
    log = folder / "small.log"
    write_log(log, 300_000, "serving")
    log.write_bytes(log.read_bytes()[-300_000:])
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("PYTHONPYCACHEPREFIX", str(folder / "pyc"))
    help_, ours = [*wizard(), "--help"], [*wizard(), "diagnose", str(log)]
    timed(help_, env), timed(ours, env)
    rows = [(timed(help_, env), timed(ours, env)) for _pair in range(pairs)]
    ratio = statistics.median(b / a for a, b in rows)
    print(f"small 300 kB: --help {statistics.median(a for a, _b in rows) * 1000:.1f} ms, diagnose {statistics.median(b for _a, b in rows) * 1000:.1f} ms, ratio {ratio:.2f} (bar {SMALL_BAR})")
    return ratio <= SMALL_BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size_mb", nargs="?", type=int, default=1024)
    parser.add_argument("--kind", choices=("serving", "crashes", "both"), default="both")
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    kinds = ("serving", "crashes") if args.kind == "both" else (args.kind,)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = [small(folder, max(10, args.pairs * 4))]
        good += [large(folder, args.size_mb, kind, args.pairs) for kind in kinds]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
