"""Commands that are too long for a line: what stands on the screen, typed or copied, is the command."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.plan.conftest import session_of
from wizard.faces.tui import look, text
from wizard.plan import plan

KEY = """curl -s -H "Authorization: Bearer $(sed -n 's/^VLLM_API_KEY=//p' /home/user/a/rather/long/folder/vllm.env)" http://127.0.0.1:8000/v1/models"""
SOURCES = (
    "curl -s -L https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list"
    " | sed 's#deb https://#deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] https://#g'"
    " | sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list"
)


def folded(line: str, width: int) -> list[str]:
    return text.typed(line, width, 5, " \\", "").plain.split("\n")


def read_by_bash(script: str) -> list[str]:
    """The words that the commands in ``script`` are given, by a real shell in which each of them prints its words."""
    head = "show() { printf '%s\\0' \"$@\"; }; curl() { show curl \"$@\"; }; sudo() { show sudo \"$@\"; cat; }; sed() { show sed \"$@\"; cat; }\n"
    ran = subprocess.run(["bash", "-c", head + script], capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return ran.stdout.decode().split("\0")


@pytest.mark.parametrize("line", [KEY, SOURCES])
@pytest.mark.parametrize("width", [40, 58, 74])
def test_a_shell_reads_the_lines_as_the_one_command(line: str, width: int) -> None:
    lines = folded(line, width)
    assert len(lines) > 1
    assert all(cell_len(part) <= width for part in lines)
    assert all(part.endswith("\\") for part in lines[:-1])
    assert read_by_bash("\n".join(lines)) == read_by_bash(line)


@settings(max_examples=40)
@given(st.lists(st.text("ab'\"/- $=:\\é", min_size=1, max_size=70), min_size=1, max_size=4), st.integers(24, 60))
def test_any_words_come_back(words: Sequence[str], width: int) -> None:
    line = shlex.join(["show", *words])
    assert read_by_bash("\n".join(folded(line, width))) == [*words, ""]


def test_the_cures_of_a_problem_go_on_with_a_backslash() -> None:
    machine = plan(session_of("wsl2-interop-off-custom-root")).machine
    for problem in machine.problems:
        if not problem.commands or problem.where != "linux":
            continue
        shown = text.problem(problem, look.UNICODE, 74).plain.split("\n")
        for number, line in enumerate(shown):
            if line.startswith("    ") and line.rstrip().endswith("\\"):
                assert shown[number + 1].strip()
        joined = "\n".join(shown).replace("\\\n", "")
        for command in problem.commands:
            for row in command.splitlines():
                assert " ".join(row.split()) in " ".join(joined.replace("''", "").split())
