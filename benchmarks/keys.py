"""How long the full-screen walk is busy with each key press of a whole walk, until what it does is drawn.

``python -m benchmarks.keys [--limit-ms 50] [--machine NAME] [--size 80x24 ...]``: walks to the last step by Enter, back
by Esc, and there again, with arrows, Tab and typing in each step, at the pace of a quick reader; exit 1 when a key
press takes longer than the limit. Only the time of this program's own thread counts, so that what else
runs on the machine does not; drawing is to a terminal that takes everything at once.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any

from benchmarks.replan import MACHINES, percentile
from wizard.host import open_host
from wizard.session import Answers, gather

READ_S = 1.0  # on a step before the next key
PAUSE_S = 0.15  # between the keys within one
WITHIN = ("tab", "down", "up", "tab", "shift+tab")


class Watch:
    """When the application last drew something, in seconds of its thread's own time."""

    def __init__(self) -> None:
        from textual.app import App

        self.drawn: list[float] = []
        draw = App._display

        def told(app: Any, screen: Any, renderable: Any) -> None:
            draw(app, screen, renderable)
            if renderable is not None:
                self.drawn.append(time.thread_time())

        App._display = told  # type: ignore[method-assign]


async def press(app: Any, watch: Watch, key: str, wait_s: float) -> float | None:
    """Seconds of the thread from the key to the first picture after it; None when nothing had to be drawn."""
    from textual import events

    watch.drawn.clear()
    started = time.thread_time()
    app.post_message(events.Key(key, key if len(key) == 1 else None))
    await asyncio.sleep(wait_s)
    return watch.drawn[0] - started if watch.drawn else None


async def walk(machine: str, size: tuple[int, int]) -> list[tuple[float, str, str]]:
    """(seconds, key, step) of each key press."""
    from wizard.faces.tui.app import Start, WizardApp

    watch = Watch()
    session = gather(open_host(MACHINES / machine), Answers())
    start = Start(open_host(MACHINES / machine), Answers(), out_dir="/home/user/vllm")
    app = WizardApp(lambda: start, prepared=session)
    taken: list[tuple[float, str, str]] = []

    async def one(key: str, wait_s: float) -> None:
        at = app.walk.step_id
        seconds = await press(app, watch, key, wait_s)
        if seconds is not None:
            taken.append((seconds, key, at))

    async def there_and_back(key: str, last: str) -> None:
        while app.walk.step_id != last:
            for each in WITHIN:
                await one(each, PAUSE_S)
            app.walk_screen.query_one("#next").focus()
            await asyncio.sleep(PAUSE_S)
            await one(key, READ_S)

    async with app.run_test(size=size):
        while app.wizard is None or app.walk.plan is None or any(not w.is_finished for w in app.workers):
            await asyncio.sleep(0.02)
        await asyncio.sleep(3 * READ_S)
        first, *_others, last = [s.id for s in app.walk.steps()]
        await there_and_back("enter", last)
        await there_and_back("escape", first)
        await there_and_back("enter", last)
    return taken


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit-ms", type=float, default=50.0)
    parser.add_argument("--machine", default="wsl2-rtx4090-desktop", metavar="NAME")
    parser.add_argument("--size", action="append", metavar="COLUMNSxROWS")
    args = parser.parse_args(argv)
    slow = 0
    print(f"{'size':<10}{'keys':>6}{'median':>10}{'p95':>10}{'p99':>10}{'of limit':>10}{'worst':>10}")
    for size in args.size or ["80x24", "120x36"]:
        columns, rows = (int(n) for n in size.split("x"))
        taken = asyncio.run(walk(args.machine, (columns, rows)))
        times = [seconds * 1000 for seconds, _key, _step in taken]
        worst = max(taken)
        p99 = percentile(times, 0.99)
        slow += worst[0] * 1000 > args.limit_ms
        print(
            f"{size:<10}{len(times):>6}{statistics.median(times):>7.1f} ms{percentile(times, 0.95):>7.1f} ms{p99:>7.1f} ms{worst[0] * 1000 / args.limit_ms:>9.2f}x"
            f"{worst[0] * 1000:>7.1f} ms  ({worst[1]} in {worst[2]})"
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
