"""Time from the start of the process to the first picture, beside a minimal Textual application.

Both run in a pseudo-terminal, in turns, so that the machine's load meets both alike; the median of the ratios
is what counts. ``python -m benchmarks.first_paint [--runs N] [--limit 1.3]``
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("first-paint-mark")
Minimal().run()
"""
TIMEOUT_S = 30.0


def first_paint_s(argv: list[str], mark: bytes) -> float:
    """Seconds until ``mark`` appears on the terminal that ``argv`` draws on."""
    ours, theirs = pty.openpty()
    _set_size(theirs, 100, 30)
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "VLLM_WIZARD_CONFIG_DIR": folder}
        env.pop("NO_COLOR", None)
        started = time.perf_counter()
        process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True)
        os.close(theirs)
        seen = b""
        try:
            while mark not in seen:
                left = started + TIMEOUT_S - time.perf_counter()
                if left <= 0 or not select.select([ours], [], [], left)[0]:
                    raise TimeoutError(f"{argv} painted nothing with {mark!r} within {TIMEOUT_S:g} s")
                seen += os.read(ours, 65536)
            return time.perf_counter() - started
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ours)


def _set_size(terminal: int, columns: int, rows: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--limit", type=float, default=1.3)
    args = parser.parse_args(argv)
    minimal = [sys.executable, "-c", MINIMAL]
    wizard = [sys.executable, "-m", "wizard"]
    for warm_up in (minimal, wizard):
        first_paint_s(warm_up, b"first-paint-mark" if warm_up is minimal else b"This machine")
    pairs = [(first_paint_s(minimal, b"first-paint-mark"), first_paint_s(wizard, b"This machine")) for _n in range(args.runs)]
    ratio = statistics.median(w / m for m, w in pairs)
    print(f"minimal Textual application  {statistics.median(m for m, _w in pairs) * 1000:6.0f} ms (median of {args.runs})")
    print(f"vllm-wizard                  {statistics.median(w for _m, w in pairs) * 1000:6.0f} ms")
    print(f"median ratio                 {ratio:6.2f}    (limit {args.limit})")
    return 0 if ratio <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
