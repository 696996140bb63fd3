"""Answers that leave something to the wizard, name a thing twice, or are not looked at."""

from __future__ import annotations

import pytest

from tests.plan.conftest import MACHINES, bare, session_of
from wizard.cli import run
from wizard.cluster import Inventory, plan_cluster
from wizard.errors import BadInput
from wizard.plan import plan
from wizard.session import Session
from wizard.steps import set_answer

DESKTOP, TWO = "wsl2-rtx4090-desktop", "wsl2-2x-rtx3090"


def given(machine: str, **answers: str) -> Session:
    session = bare(machine)
    for key, text in answers.items():
        session = set_answer(session, plan(session), key, text)
    return session


@pytest.mark.parametrize("word", ["auto", "-1", "AUTO"])
def test_the_longest_context_is_worked_out(word: str) -> None:
    made = plan(given(DESKTOP, max_model_len=word))
    assert not made.blockers
    length = made.value("max_model_len")
    assert isinstance(length, int)
    assert length > int(plan(bare(DESKTOP)).value("max_model_len") or 0)
    assert made.argv[made.argv.index("--max-model-len") + 1] == str(length)
    assert "auto" in made.reason("max_model_len")


def test_fit_takes_it_where_the_release_does(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", "--machine", str(MACHINES / DESKTOP), "--model", "Qwen/Qwen3-VL-8B-Instruct", "--max-model-len=-1"]
    assert run(words) == 0
    assert "It fits, also at the pessimistic end." in capsys.readouterr().out
    with pytest.raises(BadInput, match=r"0\.14\.0"):
        run([*words, "--release", "0.13.0"])


def test_a_gpu_that_is_named_twice_is_one_gpu() -> None:
    made = plan(given(TWO, gpus="0,0"))
    assert made.value("gpus") == ("0",)
    assert plan(session_of(TWO, gpus=("0", "0"))).value("gpus") == ("0",)


def test_a_number_that_may_be_left_empty_can_be_left_empty() -> None:
    session = given(TWO, run_on="replicas", replicas="")
    assert not plan(session).blockers
    assert plan_cluster(session, Inventory()).copies == 2


@pytest.mark.parametrize("way", [{}, {"run_on": "kubernetes"}])
def test_nodes_that_no_way_looks_at_are_said(way: dict[str, str]) -> None:
    assert "nodes_unread" in {w.code for w in plan(given(TWO, nodes_file="/nope", **way)).warnings}
    if way:
        assert "nodes_unread" in {w.code for w in plan_cluster(given(TWO, nodes_file="/nope", **way), Inventory()).warnings}
    assert "nodes_unread" not in {w.code for w in plan(given(TWO, nodes_file="/nope", run_on="nodes-ray")).warnings}
