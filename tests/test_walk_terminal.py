"""The walks in a real terminal, by the keyboard alone: the files are those of ``generate --yes``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")
if os.name == "nt":
    pytest.skip("needs a POSIX terminal", allow_module_level=True)

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ROOT / "tests" / "machines"
# prompt_toolkit asks the terminal where its cursor is, and goes on sooner when it is told.
WHERE = r"\x1b\[6n"
QUIET_S = 0.12  # nothing drawn for so long: a prompt is waiting, or the machine is being looked at


def environment(tmp_path: Path, term: str) -> dict[str, str]:
    more = {
        "TERM": term,
        "VLLM_WIZARD_CONFIG_DIR": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    return {**os.environ, **more, "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}


def spawn(
    tmp_path: Path, machine: str, *words: str, term: str = "xterm-256color", size: tuple[int, int] = (24, 80)
) -> Any:
    argv = ["-m", "wizard", "--machine", str(MACHINES / machine), *words]
    return pexpect.spawn(
        sys.executable,
        argv,
        env=environment(tmp_path, term),
        dimensions=size,
        timeout=60,
        encoding="utf-8",
        cwd=str(tmp_path),
    )


def enter_alone(child: Any) -> str:
    """Press Enter whenever the terminal is quiet, until the program ends; all that was drawn.

    An Enter that comes too early waits for the next prompt, where it means the same.
    """
    drawn = ""
    for _press in range(600):
        seen = child.expect([pexpect.EOF, WHERE, pexpect.TIMEOUT], timeout=QUIET_S)
        drawn += child.before if seen != 2 else ""
        if seen == 0:
            child.close()
            return drawn
        child.send("\x1b[1;1R" if seen == 1 else "\r")
    raise AssertionError("the walk does not end")


def until(child: Any, text: str) -> None:
    """Wait until ``text`` is drawn and the terminal is quiet."""
    while child.expect([text, WHERE]) == 1:
        child.send("\x1b[1;1R")
    while child.expect([WHERE, pexpect.TIMEOUT], timeout=QUIET_S) == 0:
        child.send("\x1b[1;1R")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def generated(tmp_path: Path, machine: str) -> tuple[int, dict[str, bytes]]:
    out = tmp_path / "batch"
    words = ["generate", "--yes", "--machine", str(MACHINES / machine), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "wizard", *words],
        env=environment(tmp_path, "dumb"),
        capture_output=True,
        cwd=tmp_path,
    )
    return done.returncode, files(out)


def check(tmp_path: Path, machine: str) -> None:
    code, wanted = generated(tmp_path, machine)
    child = spawn(tmp_path, machine, "--plain", "--out", str(tmp_path / "walk"))
    enter_alone(child)
    assert child.exitstatus == code
    assert files(tmp_path / "walk") == wanted
    assert bool(wanted) is (code == 0)


@pytest.mark.parametrize("machine", ["wsl2-rtx3060-model-on-d", "wsl1"])
def test_enter_alone(machine: str, tmp_path: Path) -> None:
    check(tmp_path, machine)


@pytest.mark.slow
@pytest.mark.parametrize("machine", sorted(p.name for p in MACHINES.iterdir() if (p / "host.json").exists()))
def test_enter_alone_on_every_recorded_machine(machine: str, tmp_path: Path) -> None:
    check(tmp_path, machine)


def test_a_dumb_terminal_gets_numbered_lines(tmp_path: Path) -> None:
    child = spawn(tmp_path, "native-rtx5090", "--plain", "--out", str(tmp_path / "walk"), term="dumb")
    drawn = enter_alone(child)
    assert child.exitstatus == 0
    assert "\x1b" not in drawn
    assert "(proposed)" in drawn
    assert (tmp_path / "walk" / "launch.sh").exists()


def test_ctrl_c_leaves_without_a_trace(tmp_path: Path) -> None:
    child = spawn(tmp_path, "native-rtx5090", "--plain", "--out", str(tmp_path / "walk"))
    child.expect("Model:")
    child.send("\x03")
    while child.expect([pexpect.EOF, WHERE]) == 1:
        child.send("\x1b[1;1R")
    child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in child.before
    assert "answers are kept" in child.before
    assert not (tmp_path / "walk").exists()


def test_arrow_keys_choose(tmp_path: Path) -> None:
    """Down and Enter change "How to run it"; there they take the local environment."""
    child = spawn(tmp_path, "native-rtx5090", "--plain", "--out", str(tmp_path / "walk"))
    until(child, "Model:")
    child.send("\r")
    until(child, "How to run it:")
    child.send("\x1b[B")
    until(child, "> How to run it:")
    child.send("\r")
    until(child, "How to run it:")
    child.send("\x1b[B")
    child.expect("> Local")
    child.send("\r")
    enter_alone(child)
    assert child.exitstatus == 0
    assert 'runtime = "local"' in (tmp_path / "walk" / "answers.toml").read_text()


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("", 1)])
def test_generate_asks_on_a_terminal(typed: str, code: int, tmp_path: Path) -> None:
    child = spawn(tmp_path, "native-rtx5090", "generate", "--out", str(tmp_path / "walk"), term="dumb")
    child.expect(r"\[y/N\] ")
    assert "+set -euo pipefail" in child.before
    child.send(typed + "\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    assert (tmp_path / "walk").exists() is (code == 0)


def check_full_screen(tmp_path: Path, machine: str, size: tuple[int, int]) -> None:
    """Enter alone through the full-screen walk, pressed whenever nothing more is being drawn."""
    code, wanted = generated(tmp_path, machine)
    assert code == 0
    child = spawn(tmp_path, machine, "--out", str(tmp_path / "walk"), size=size)
    screen = pyte.Screen(size[1], size[0])
    stream = pyte.Stream(screen)
    deadline = time.monotonic() + 150
    ended = False
    while not ended and time.monotonic() < deadline:
        before = list(screen.display)
        ended = child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=0.4) == 0
        stream.feed(child.before or "")
        if not ended:
            # What has been read is not to be fed again.
            child.expect([r"(?s).+", pexpect.TIMEOUT], timeout=0)
            if screen.display == before:
                child.send("\r")
    child.close()
    assert ended, "\n".join(screen.display)
    assert child.exitstatus == 0, "\n".join(screen.display)
    assert files(tmp_path / "walk") == wanted


def test_enter_alone_in_full_screen(tmp_path: Path) -> None:
    check_full_screen(tmp_path, "wsl2-rtx3060-model-on-d", (24, 80))


def test_a_field_that_the_palette_leads_to_is_seen(tmp_path: Path) -> None:
    child = spawn(tmp_path, "wsl2-rtx4090-desktop", "--out", str(tmp_path / "walk"))
    screen = pyte.Screen(80, 24)
    stream = pyte.Stream(screen)

    def shows(text: str) -> bool:
        """Whether ``text`` comes to stand on the screen."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and text not in "\n".join(screen.display):
            child.expect([r"(?s).+", pexpect.TIMEOUT], timeout=0.2)
            stream.feed(child.match.group() if child.match is not pexpect.TIMEOUT else "")
        return text in "\n".join(screen.display)

    assert shows("step 1 of 7")
    child.send("\x10")
    assert shows("Enter goes there")
    for key in "name of the model":
        child.send(key)
        time.sleep(0.05)
    assert shows("Name of the model in the API")
    child.send("\r")
    assert shows("4 Flags")
    assert shows("▌ Name of the model in the API")
    child.close(force=True)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(30, 100), (50, 160)])
@pytest.mark.parametrize("machine", ["wsl2-rtx4090-desktop", "native-4x-h200", "wsl2-2x-rtx3090"])
def test_enter_alone_in_full_screen_everywhere(machine: str, size: tuple[int, int], tmp_path: Path) -> None:
    check_full_screen(tmp_path, machine, size)


STUCK = """
import sys, threading
from textual.drivers.linux_driver import LinuxDriver
LinuxDriver.disable_input = lambda self: threading.Event().wait()  # as where the output is no longer taken
from wizard.faces.tui import app
app.GRACE_S = 1.0
from wizard.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_walk_whose_terminal_is_gone_ends_even_where_its_screen_cannot_be_left(tmp_path: Path) -> None:
    import signal

    program = tmp_path / "stuck.py"
    program.write_text(STUCK)
    child = pexpect.spawn(
        sys.executable,
        [str(program), "--machine", str(MACHINES / "wsl2-no-gpu")],
        env=environment(tmp_path, "xterm-256color"),
        dimensions=(24, 80),
        timeout=60,
        encoding="utf-8",
        cwd=str(tmp_path),
    )
    child.expect("What was found")
    child.kill(signal.SIGHUP)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 128 + signal.SIGHUP
