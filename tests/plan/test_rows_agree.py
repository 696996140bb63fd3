"""What a row of the model list says of a model is what choosing it gives; nothing useless is proposed."""

from __future__ import annotations

import pytest

from tests.plan.conftest import NAMES, bare, session_of
from wizard.faces.batch import fit_rows
from wizard.faces.tui.look import ASCII
from wizard.faces.tui.text import memory_bar
from wizard.plan import plan
from wizard.session import look_at_model

SMALL = "wsl2-rtx3060-model-on-d"


@pytest.mark.parametrize("name", NAMES)
def test_row_choice_and_plan_agree(name: str) -> None:
    session = bare(name)
    here = {found.path for found in session.found}
    for choice in plan(session).choices.get("model", ()):
        if choice.value not in here:
            continue
        assert session.host is not None
        made = plan(look_at_model(session.answer("model", choice.value), session.host, choice.value))
        codes = {b.code for b in made.blockers}
        assert any(words in choice.against for words in ("does not fit", "not sure to fit")) == ("does_not_fit" in codes), choice
        assert ("in RAM" in choice.against) == bool(made.offload_gib), choice
        if made.offload_gib:
            assert f"{made.value('max_model_len')} tokens" in choice.note


def test_offloading_is_named_where_the_memory_is_shown() -> None:
    made = plan(session_of(SMALL, model="/mnt/d/models/Qwen3-VL-8B-Instruct-AWQ-4bit"))
    assert made.offload_gib == 2
    assert "2 GiB of the weights stay in RAM" in memory_bar(made, ASCII, 200).plain
    assert "2 GiB of the weights stay in RAM" in str(fit_rows(made))
    assert "bus" not in " ".join(w.detail for w in made.warnings)


@pytest.mark.parametrize("share", [None, 0.95])
def test_a_model_that_does_not_fit_is_not_offered_for_copying_and_its_weights_are_named(share: float | None) -> None:
    answers = {} if share is None else {"gpu_memory_utilization": share}
    made = plan(session_of(SMALL, model="/mnt/d/models/Qwen3-VL-8B-Instruct", **answers))
    assert made.move is not None
    assert not made.move.wanted
    assert "does not fit" in made.reason("move")
    told = next(b.detail for b in made.blockers if b.code == "does_not_fit")
    assert "weights (16.6 gib)" in told.lower()
    assert "weights (16.6 gib)" in memory_bar(made, ASCII, 200).plain.lower()
    assert "vllm-wizard move" not in str(made.warnings)


def test_a_model_that_other_flags_would_let_fit_is_still_copied() -> None:
    made = plan(session_of(SMALL, model="/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", gpu_memory_utilization=0.95))
    assert "does_not_fit" in {b.code for b in made.blockers}
    assert made.move is not None
    assert made.move.wanted


def test_a_copy_that_was_asked_for_is_made_all_the_same() -> None:
    made = plan(session_of(SMALL, model="/mnt/d/models/Qwen3-VL-8B-Instruct", move=True))
    assert made.move is not None
    assert made.move.wanted
