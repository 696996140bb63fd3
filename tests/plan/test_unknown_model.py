"""A model of which only a name is known: nothing is estimated, and what is said agrees with itself."""

from __future__ import annotations

import pytest

from tests.plan.conftest import session_of
from wizard.faces.batch import fit_rows
from wizard.faces.tui.look import ASCII
from wizard.faces.tui.text import memory_bar
from wizard.fit_command import as_json, as_text
from wizard.plan import plan
from wizard.plan_types import Plan

NAMES = ["wsl2-rtx4090-desktop", "native-4x-h200", "cpu-only-laptop"]


def unknown(machine: str, model: str = "Qwen/DoesNotExist-99B") -> Plan:
    return plan(session_of(machine, model=model))


@pytest.mark.parametrize("machine", NAMES)
def test_what_is_not_known_is_not_estimated(machine: str) -> None:
    made = unknown(machine)
    assert made.fit is not None
    assert made.fit_request is not None
    assert made.model is not None
    assert not made.fit.weights_known
    assert not made.fit.fits
    assert not made.fit.fits_best
    told = as_json(made.model, made.fit_request, made.fit)
    assert told["weights_gib"] is None
    assert "estimated" not in str(told["notes"])
    assert "not known" in " ".join(as_text(made.model, made.fit_request, made.fit))


@pytest.mark.parametrize("machine", NAMES)
def test_the_memory_is_said_not_to_be_known(machine: str) -> None:
    made = unknown(machine)
    for text in (memory_bar(made, ASCII, 60).plain, fit_rows(made)[0][1]):
        assert "not known" in text
        assert "none" not in text
        assert "GiB" not in text


@pytest.mark.parametrize("machine", NAMES)
def test_the_warnings_do_not_contradict_each_other(machine: str) -> None:
    words = " ".join(f"{w.title} {w.detail}" for w in unknown(machine).warnings)
    assert "larger than" not in words
    assert "estimated" not in words
    assert words.count("nothing says that it fits") == 1
    assert "Nothing is known of Qwen/DoesNotExist-99B" in words
    assert "Check the name" in words


def test_a_misspelt_name_is_named() -> None:
    made = unknown("wsl2-rtx4090-desktop", "Qwen/Qwen3-8BB")
    assert any("Qwen/Qwen3-8B" in w.detail for w in made.warnings if w.code == "model_not_looked_up")


def test_reasons_claim_nothing_of_an_unknown_model() -> None:
    made = unknown("wsl2-rtx4090-desktop")
    assert "brings its own code" not in made.reason("trust_remote_code")
    assert "not known" in made.reason("trust_remote_code")
    assert "known" in made.reason("reasoning")
    assert "not known" in made.reason("max_model_len")
