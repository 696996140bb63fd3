"""How long a copy takes is said alike by the walk, by a dry run, and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.plan.conftest import session_of
from wizard import move_command
from wizard.host import FakeHost
from wizard.models import move_plan
from wizard.models.move_place import about_seconds
from wizard.plan import plan
from wizard.probes import run_all

ROOT = Path(__file__).resolve().parents[2]
MACHINE = "wsl2-rtx3060-model-on-d"
MODELS = ("Qwen3-VL-8B-Instruct-AWQ-4bit", "Qwen3-VL-4B-Instruct-FP8")


def told_by_dry_run(model: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert move_command.run([f"/mnt/d/models/{model}", "--machine", str(ROOT / "tests" / "machines" / MACHINE), "--dry-run"]) == 0
    found = re.search(r"about (.+?) at", capsys.readouterr().out)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("model", MODELS)
def test_the_plan_and_the_mover_say_the_same(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.faces.tui import text

    made = plan(session_of(MACHINE, model=f"/mnt/d/models/{model}"))
    assert made.move is not None
    assert text.duration(about_seconds(made.move.seconds or 0)) == told_by_dry_run(model, capsys)


def test_the_documentation_shows_what_the_mover_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "move-a-model.md").read_text(encoding="utf-8")
    shown = re.search(r"about (.+?) at (\d+) MB/s", page)
    assert shown is not None
    assert shown[1] == told_by_dry_run("Qwen3-VL-4B-Instruct-FP8", capsys)
    assert int(shown[2]) == round(move_plan.typical_rate("windows-drive")[0] / 1e6)


def test_the_rate_is_that_of_public_reports() -> None:
    """60 to 250 MB/s from a Windows drive: neither end is typical."""
    rate, _per_file = move_plan.typical_rate("windows-drive")
    assert 60e6 < rate < 250e6
    assert run_all(FakeHost(ROOT / "tests" / "machines" / MACHINE)).mount_of("/mnt/d/models").kind.value == "windows-drive"  # type: ignore[union-attr]


def test_an_estimate_is_no_exact_figure() -> None:
    assert [about_seconds(s) for s in (0.2, 7.4, 19, 33.1, 51, 100, 3721)] == [1, 7, 19, 35, 50, 100, 3720]
