"""A secret is not kept on the disk; that it was given is, so that the next start asks for it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faces.tui_play import at, fake_app, ready, screen_text, shows, until
from wizard.faces import resume
from wizard.faces.tui.app import _last_words
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.widgets import LineInput

TOKEN = "hf_" + "a1b2" * 8


async def give_token(app: Any, pilot: Any) -> None:
    await at(app, pilot, "access")
    field = app.walk_screen.view.field_of("hf_token")
    field.focus_control()
    await pilot.press(*TOKEN)
    await pilot.press("enter")
    await until(pilot, lambda: app.walk.step_id == "review")
    await ready(app, pilot)


async def test_a_token_that_was_given_is_asked_for_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = tmp_path / "session.toml"
    app = fake_app(keep=keep)
    async with app.run_test(size=(80, 24)) as pilot:
        await give_token(app, pilot)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert TOKEN not in keep.read_text()
    saved, _trouble = resume.load(keep)
    assert saved is not None
    assert saved.secrets == ("hf_token",)
    _last_words(app)
    assert "Hugging Face token" in capsys.readouterr().out

    again = fake_app(keep=keep)
    async with again.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(again.screen, Ask))
        await shows(again, pilot, "Hugging Face token", "Not kept")
        await pilot.press("enter")
        await until(pilot, lambda: again.walk.step_id == "access")
        await ready(again, pilot)
        assert "Given last time and not kept" in screen_text(again)
        states = {s.id: again.walk.state(s) for s in again.walk.steps()}
        await at(again, pilot, "review")
        assert states["access"] == "current"
        assert {s.id: again.walk.state(s) for s in again.walk.steps()}["access"] == "attention"

        await at(again, pilot, "access")
        field = again.walk_screen.view.field_of("hf_token")  # type: ignore[union-attr]
        assert field is not None
        assert isinstance(field.control, LineInput)
        field.focus_control()
        await pilot.press(*TOKEN)
        await pilot.press("enter")
        await until(pilot, lambda: again.walk.step_id == "review")
        assert {s.id: again.walk.state(s) for s in again.walk.steps()}["access"] == "done"


async def test_without_a_secret_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = tmp_path / "session.toml"
    app = fake_app(keep=keep)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    _last_words(app)
    assert "token" not in capsys.readouterr().out
    saved, _trouble = resume.load(keep)
    assert saved is not None
    assert saved.secrets == ()


def test_names_of_secrets_are_kept_and_nothing_else_is_taken_for_one() -> None:
    data = resume.dump({"port": 8001}, "review", secrets=("hf_token",))
    assert resume.parse(data, "x").secrets == ("hf_token",)
    spoilt = data.replace(b'"hf_token"', b'"rm -rf", 3, "hf_token"')
    assert resume.parse(spoilt, "x").secrets == ("hf_token",)
    assert resume.parse(b"format = 1\nsecrets = 3\n[answers]\n", "x").secrets == ()
