"""How long ``vllm-wizard --help`` takes beside ``python -c pass``: at most three times as long.

Runs both in pairs, one after the other, so that a busy moment hits both; prints the medians and the median
of the ratios, and exits 1 when that is over the bar.

    python benchmarks/help.py [pairs]
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

BAR = 3.0


def seconds(argv: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    beside = Path(sys.executable).with_name("vllm-wizard")
    program = str(beside) if beside.exists() else shutil.which("vllm-wizard")
    command = [program] if program else [sys.executable, "-m", "wizard"]
    empty = [sys.executable, "-c", "pass"]
    worst = 0.0
    for words in (["--help"], ["--version"], ["generate", "--help"]):
        seconds(empty), seconds([*command, *words])  # fill the caches
        rows = [(seconds(empty), seconds([*command, *words])) for _pair in range(pairs)]
        ratio = statistics.median(b / a for a, b in rows)
        print(
            f"{' '.join(words):<16} {statistics.median(b for _a, b in rows) * 1000:6.1f} ms"
            f"   python -c pass {statistics.median(a for a, _b in rows) * 1000:6.1f} ms   ratio {ratio:.2f}"
        )
        if words == ["--help"]:
            worst = ratio
    print(f"--help: {worst:.2f} of at most {BAR}")
    return 0 if worst <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
