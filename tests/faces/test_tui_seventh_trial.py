"""What a seventh newcomer stumbled over."""

from __future__ import annotations

from pathlib import Path

from tests.faces.tui_play import app_on, at, ready, said, screen_text, shows, until
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.views import ReviewView
from wizard.session import Answers

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


async def test_more_servers_than_there_is_room_for_is_told_where_it_is_asked(tmp_path: Path) -> None:
    app = app_on("native-4x-h200", tmp_path / "out", Answers(user={"run_on": "replicas", "replicas": 10}))
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "where")
        await ready(app, pilot)
        assert app.walk.plan is not None
        assert [b.code for b in app.walk.plan.blockers] == ["way_impossible"]
        await pilot.press("enter")
        await shows(app, pilot, "10 servers do not fit 4 GPUs", "room for 2 servers")
        assert "This cannot be done as answered" in said(app)
        assert app.walk.step_id == "where"
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.step_id == "flags")
        assert app.walk.state(app.walk.steps()[3]) == "attention"


async def test_the_badge_of_a_row_is_not_cut(tmp_path: Path) -> None:
    app = app_on("native-4x-h200", tmp_path / "out")
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "where")
        await ready(app, pilot)
        assert "This machine" in screen_text(app)
        assert any("This machine" in line and "recommended" in line for line in screen_text(app).splitlines())
