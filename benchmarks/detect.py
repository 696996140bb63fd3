"""How long the detection takes, and that it is no longer than its slowest probe plus 20 %.

``python benchmarks/detect.py [--machine DIR] [--runs N]``: on this machine, or on a recorded one with the delays
that its programs really had. Each run asks everything side by side; the slowest probe's own time in that run is
what the whole is held against. Prints a table; exit 1 when the bar is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from wizard.host import open_host
from wizard.probes import run_all

BAR = 1.20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", type=Path, help="a recorded machine; this one without")
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    wholes, slowest, by_probe = [], [], {}
    # The first run pays for imports and is thrown away, as a warm-up.
    for number in range(args.runs + 1):
        host = open_host(args.machine, delays=True)
        started = time.perf_counter()
        machine = run_all(host)
        whole = time.perf_counter() - started
        if number == 0:
            print(f"first run, with imports: {whole * 1000:.0f} ms")
            continue
        wholes.append(whole)
        slowest.append(max(run.seconds for run in machine.runs))
        for run in machine.runs:
            by_probe.setdefault(run.name, []).append(run.seconds)
    for name, seconds in sorted(by_probe.items(), key=lambda item: -statistics.median(item[1])):
        print(f"{name:10} {statistics.median(seconds) * 1000:8.1f} ms")
    ratios = [whole / slow for whole, slow in zip(wholes, slowest, strict=True)]
    print(
        f"{'sum':10} {sum(statistics.median(s) for s in by_probe.values()) * 1000:8.1f} ms, if one came after the other"
    )
    print(
        f"{'whole':10} {statistics.median(wholes) * 1000:8.1f} ms, {statistics.median(ratios):.2f} times the slowest (bar {BAR})"
    )
    return 0 if statistics.median(ratios) <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
