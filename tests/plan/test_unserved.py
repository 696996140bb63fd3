"""A model that no vLLM release serves on a machine is not proposed, and whoever takes it is told why and what else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.conftest import NAMES, bare, session_of
from wizard.facts import Machine, known
from wizard.plan import plan
from wizard.plan import runtime as rt
from wizard.plan_types import Plan
from wizard.session import Session

GEMMA = "google/gemma-4-12B-it-qat-w4a16-ct"  # from vLLM 0.23.0 on, none of which has kernels for a V100


def empty(name: str) -> Session:
    """The machine without a model of its own."""
    return replace(bare(name), found=())


def blocker(made: Plan) -> str:
    found = next(b for b in made.blockers if b.code == "no_release")
    return f"{found.title} {found.detail}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_proposed_is_served(name: str) -> None:
    for session in (bare(name), empty(name)):
        made = plan(session)
        assert "no_release" not in [b.code for b in made.blockers]
        for choice in made.choices.get("model", ()):
            if not choice.against and choice.value not in {f.path for f in session.found}:
                assert "no_release" not in [b.code for b in plan(session.answer("model", choice.value)).blockers], choice.value


def test_a_recipe_that_no_release_runs_is_left_out() -> None:
    made = plan(bare("native-v100"))
    assert GEMMA not in [c.value for c in made.choices["model"]]
    assert GEMMA in [c.value for c in plan(bare("native-t4")).choices["model"]]


def test_one_that_lies_on_disk_is_marked() -> None:
    session = bare("native-v100")
    found = next(f for f in session.found if not f.is_adapter)
    info = session.models[found.path]
    session = replace(session, models={**session.models, found.path: replace(info, architecture="Gemma4UnifiedForConditionalGeneration")})
    choice = next(c for c in plan(session).choices["model"] if c.value == found.path)
    assert choice.against.startswith("no vLLM release runs it here")
    assert not choice.recommended


def test_the_blocker_says_what_helps_and_what_does_not() -> None:
    told = blocker(plan(session_of("native-v100", model=GEMMA)))
    assert "kernels for compute capability 7.0" in told
    assert "driver" not in told.lower()  # none has the kernels, whatever the driver
    assert "Choose another model on the step “Model”." in told


def with_driver(session: Session, version: str) -> Session:
    machine: Machine = session.machine
    return replace(session, machine=replace(machine, gpu=replace(machine.gpu, driver_version=known(version, "test"))))


def test_a_driver_that_would_help_is_named() -> None:
    session = with_driver(session_of("wsl2-2x-rtx3090", model="Qwen/Qwen3.8-27B-FP8"), "550.54")
    made = plan(session)
    if "no_release" in [b.code for b in made.blockers]:
        told = blocker(made)
        assert "driver 550.54 is too old" in told or "Driver 550.54 is too old" in told
        assert "Choose another model" in told


def test_where_nothing_runs_at_all_it_is_not_the_models_fault() -> None:
    made = plan(with_driver(empty("wsl2-2x-rtx3090"), "400.10"))
    assert made.value("model"), "the models are proposed as ever"
    assert "driver" in blocker(made).lower()
    assert "another model" not in blocker(made)


def test_the_releases_are_listed_with_what_speaks_against_each() -> None:
    made = plan(session_of("native-v100", model=GEMMA))
    choices = made.choices["release"]
    assert choices
    assert all(c.disabled and c.against for c in choices)
    assert not any(c.recommended for c in choices)


def test_kernels_that_no_image_has_are_not_cured_by_a_driver() -> None:
    needs = rt.Needs("nvidia", "docker", "550.54.14", "7.0", False, True, None, None, frozenset())
    assert [o.code for o in rt.objections("0.33.0", needs)] == ["compute_capability"]


def test_the_memory_sentence_is_true() -> None:
    from wizard.faces.tui.text import _why_no_fit

    assert _why_no_fit(plan(session_of("native-v100", model=GEMMA))) == "no vLLM release serves this model on this machine."


def test_others_are_offered() -> None:
    from wizard.faces.tui import ways

    found = ways.ways_of(plan(session_of("native-v100", model=GEMMA)))
    assert found
    assert all(set(way.changes) == {"model"} and way.changes["model"] != GEMMA for way in found)
