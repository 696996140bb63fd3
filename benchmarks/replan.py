"""Time of planning anew after a change, on the recorded machines, and of a key press in the full-screen walk.

``python -m benchmarks.replan [--limit-ms 16] [--machine NAME ...]``: exit 1 when the 95th percentile of planning is
above the limit. The first plan over new facts ranks every model; it is made in a thread and told apart here.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from wizard.host import open_host
from wizard.plan import plan
from wizard.session import Answers, Session, gather

MACHINES = Path(__file__).resolve().parents[1] / "tests" / "machines"
DEFAULT = ("wsl2-rtx4090-desktop", "wsl2-2x-rtx3090", "native-4x-h200", "native-t4")


def changes(session: Session) -> list[Session]:
    """Sessions as they come up while someone changes one field after the other."""
    made = plan(session)
    out = [session.answer("port", port) for port in range(8001, 8011)]
    out += [session.answer("max_model_len", 1024 * n) for n in range(2, 22)]
    out += [session.answer("max_num_seqs", n) for n in range(1, 21)]
    out += [session.answer("gpu_memory_utilization", n / 100) for n in range(75, 93)]
    for key in ("intent", "runtime", "access", "kv_cache_dtype"):
        out += [session.answer(key, c.value) for c in made.choices.get(key, ()) if not c.disabled]
    out += [session.answer("release", c.value) for c in made.choices.get("release", ())[:6]]
    return out


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def measure(name: str) -> tuple[float, list[float]]:
    """(seconds of the first plan, seconds of each later one)."""
    session = gather(open_host(MACHINES / name), Answers())
    started = time.perf_counter()
    plan(session)
    first = time.perf_counter() - started
    sessions = changes(session)
    for each in sessions[:3]:
        plan(each)
    times: list[float] = []
    for each in sessions:
        started = time.perf_counter()
        plan(each)
        times.append(time.perf_counter() - started)
    return first, times


async def key_presses(name: str, presses: int = 40) -> list[float]:
    """Seconds that the application is busy with one key press in a field, planning and drawing included."""
    from wizard.faces.tui.app import Start, WizardApp

    session = gather(open_host(MACHINES / name), Answers())
    start = Start(open_host(MACHINES / name), Answers(), out_dir="/home/user/vllm")
    app: Any = WizardApp(lambda: start, prepared=session)
    times: list[float] = []
    async with app.run_test(size=(120, 36)) as pilot:
        while app.wizard is None or app.walk.plan is None or any(not w.is_finished for w in app.workers):
            await asyncio.sleep(0.02)
        app.walk_screen.go_to("flags")
        await pilot.pause(0.5)
        field = app.walk_screen.view.field_of("max_num_seqs")
        field.control.focus()
        await pilot.pause(0.3)
        for n in range(presses):
            field.control.value = str(2 + n)
            started = time.process_time()
            app.walk_screen.settle()
            times.append(time.process_time() - started)
            await pilot.pause(0.05)
    return times


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-ms", type=float, default=16.0)
    parser.add_argument("--key-limit-ms", type=float, default=50.0)
    parser.add_argument("--machine", action="append", metavar="NAME")
    args = parser.parse_args(argv)
    slow = 0
    print(f"{'machine':<28}{'first':>10}{'median':>10}{'p95':>10}")
    for name in args.machine or DEFAULT:
        first, times = measure(name)
        p95 = percentile(times, 0.95)
        slow += p95 * 1000 > args.limit_ms
        print(f"{name:<28}{first * 1000:>7.0f} ms{statistics.median(times) * 1000:>7.1f} ms{p95 * 1000:>7.1f} ms")
    keys = asyncio.run(key_presses((args.machine or DEFAULT)[0]))
    p95 = percentile(keys, 0.95)
    slow += p95 * 1000 > args.key_limit_ms
    print(f"{'a key press, planned, drawn':<28}{'':>10}{statistics.median(keys) * 1000:>7.1f} ms{p95 * 1000:>7.1f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
