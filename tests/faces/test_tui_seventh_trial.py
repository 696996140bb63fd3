"""What a seventh newcomer stumbled over."""

from __future__ import annotations

from pathlib import Path

from tests.faces.tui_play import app_on, at, ready, screen_text, until
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.views import ReviewView

DESKTOP = "wsl2-rtx4090-desktop"


async def test_escape_leads_back_from_what_was_written(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("enter")
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        await until(pilot, lambda: view.written)
        await ready(app, pilot)
        assert "Esc Back" in screen_text(app).splitlines()[-1]
        await pilot.press("escape")
        await until(pilot, lambda: not view.written)
        await ready(app, pilot)
        assert "same" in screen_text(app)
        assert app.walk.step_id == "review"
        await pilot.press("escape")
        await until(pilot, lambda: app.walk.step_id == "access")
