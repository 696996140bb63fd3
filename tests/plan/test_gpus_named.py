"""Which GPUs to use: by number, held against those that are there, on machines with one as with several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plan.conftest import MACHINES, session_of
from wizard.cli import run
from wizard.errors import BadInput
from wizard.faces.help_topics import _answers
from wizard.plan import plan


@pytest.mark.parametrize("machine", ["wsl2-rtx3060-model-on-d", "wsl2-2x-rtx3090"])
@pytest.mark.parametrize("given", ["7", "abc"])
def test_a_gpu_that_is_not_there_is_bad_input(machine: str, given: str) -> None:
    with pytest.raises(BadInput) as fault:
        run(["plan", "--machine", str(MACHINES / machine), "--set", f"gpus={given}"])
    assert f"gpus={given}: There is no GPU {given}; there are: 0" in str(fault.value)


def test_a_machine_without_one_says_so_in_the_plan() -> None:
    blockers = {b.title: b.detail for b in plan(session_of("cpu-only-laptop", gpus=("7",))).blockers}
    assert "has none that can be used" in blockers["The answer “gpus” cannot be “7”."]


def test_none_named_are_all_of_them() -> None:
    made = plan(session_of("wsl2-2x-rtx3090", gpus=()))
    decision = made.decision("gpus")
    assert decision is not None
    assert (decision.value, decision.source) == (("0", "1"), "detected")
    assert plan(session_of("wsl2-2x-rtx3090", gpus=("1",))).gpus == (1,)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gpus = 3", "gpus=3: There is no GPU 3; there are: 0, 1."),
        ("gpus = [0, 3]", "There is no GPU 3"),
        ("max_model_len = true", "of the wrong kind. What can stand there: whole number."),
        ("nope = 1", "There is no answer called “nope”."),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_words_and_with_its_name(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "answers.toml"
    file.write_text(f"[answers]\n{line}\n")
    with pytest.raises(BadInput) as fault:
        run(["plan", "--machine", str(MACHINES / "wsl2-2x-rtx3090"), "--answers", str(file)])
    assert str(fault.value).startswith(str(file))
    assert told in str(fault.value)


def test_the_help_says_what_is_taken() -> None:
    assert "gpus: numbers, separated by commas" in _answers()
