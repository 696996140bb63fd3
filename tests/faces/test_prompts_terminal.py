"""The plain walk's prompts in a real terminal of 80 columns: nothing is cut, no word is broken at the edge."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")
if os.name == "nt":
    pytest.skip("needs a POSIX terminal", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
LONG = (
    "Qwen3-VL-8B-Instruct-AWQ-4bit: here: folder, on a slow drive, 7.0 GiB, INT4, images, 256k tokens "
    "(but: does not fit: a context of 15360 tokens does not surely fit)"
)
PROGRAM = f"""
from wizard.faces.prompts import Option, Questionary
LONG = {LONG!r}
asks = Questionary()
picked = asks.choose("Which of the models that lie on this machine or that a recipe knows should be served by vLLM from now on",
    [Option("a", "short"), Option("b", LONG), Option("c", "also short", "it cannot be, for a reason that takes more than one line to be told")], "b", "")
print("PICKED", picked)
typed = asks.text("How much of the memory of this machine may the virtual machine of WSL 2 take for itself at the most", "12", lambda t: None, "")
print("TYPED", typed)
sure = asks.confirm("Should everything that was found out about this machine be written into the folder that was named above", True, "")
print("SURE", sure)
"""


class Terminal:
    """80 columns that are drawn on, and somebody who answers where the cursor is."""

    def __init__(self, width: int = 80) -> None:
        self.screen = pyte.Screen(width, 40)
        self.stream = pyte.Stream(self.screen)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
        self.child: Any = pexpect.spawn(sys.executable, ["-c", PROGRAM], env=environment, dimensions=(40, width), timeout=60, encoding="utf-8")
        # prompt_toolkit asks where the cursor is.
        self.screen.write_process_input = self.child.send

    def until(self, *wanted: str) -> str:
        """What stands on the screen once all of ``wanted`` stands there, its lines joined."""
        for _turn in range(600):
            shown = " ".join(" ".join(self.screen.display).split())
            if all(w in shown for w in wanted):
                return shown
            try:
                self.stream.feed(self.child.read_nonblocking(100_000, 0.1))
            except pexpect.TIMEOUT:
                continue
            except pexpect.EOF:
                break
        raise AssertionError("\n".join(line.rstrip() for line in self.screen.display))


def test_long_choices_and_questions_are_wrapped_between_words() -> None:
    terminal = Terminal()
    shown = terminal.until(LONG, "for a reason that takes more than one line to be told", "that a recipe knows should be served by vLLM from now on")
    assert "also short" in shown
    terminal.child.send("\r")
    shown = terminal.until(LONG, "PICKED b", "How much of the memory of this machine may the virtual machine of WSL 2 take for itself at the most")
    assert "also short" not in shown, "the list goes once it is answered"
    terminal.child.send("\r")
    terminal.until("TYPED 12", "be written into the folder that was named above")
    terminal.child.send("\r")
    terminal.until("SURE True")
