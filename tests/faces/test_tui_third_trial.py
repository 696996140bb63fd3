"""What a third newcomer stumbled over: choices out of view, keys for fields out of view, changes after writing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content

from tests.faces.tui_play import app_on, at, fake_app, focused, ready, said, screen_text, shows, until
from wizard.faces.tui.dialogs import Ask, Entry, FlagDialog, Reader, matching
from wizard.faces.tui.views import ModelView, ReviewView
from wizard.faces.tui.whole import Choose
from wizard.faces.tui.widgets import LineInput, PushButton, Rows
from wizard.session import Answers, Layer

DESKTOP = "wsl2-rtx4090-desktop"
ON_D = "wsl2-rtx3060-model-on-d"


@pytest.mark.parametrize("size", [(80, 24), (60, 16)])
async def test_the_way_under_the_cursor_is_seen_whole_before_enter_takes_it(size: tuple[int, int]) -> None:
    app = fake_app()
    options = [(str(n), f"way {n} " + "with many words about what it gives and what it costs, to its end" * 2, f"end {n}.") for n in range(7)]
    async with app.run_test(size=size) as pilot:
        await ready(app, pilot)
        taken: list[str | None] = []
        app.push_screen(Choose("Ways", Content("Some words."), options), taken.append)
        await until(pilot, lambda: isinstance(app.screen, Choose) and app.focused is not None)
        for n in range(7):
            await until(pilot, lambda n=n: f"end {n}." in screen_text(app) and f"way {n} " in screen_text(app))  # type: ignore[misc]
            if n < 6:
                await pilot.press("down")
        await pilot.press("enter")
        await until(pilot, lambda: bool(taken))
        assert taken == ["6"]


@pytest.mark.parametrize("key", ["home", "end"])
async def test_a_field_that_was_paged_out_of_view_takes_no_key(key: str) -> None:
    app = app_on(ON_D, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        view, field = await focused(app, pilot, "flags", "intent")
        before = app.walk.plan.argv  # type: ignore[union-attr]
        await pilot.press("pagedown", "pagedown", "pagedown")
        await until(pilot, lambda: view.scroll_y > field.region.height and app.focused is not field.control)
        await pilot.press(key)
        await ready(app, pilot)
        assert app.walk.answers.user == {}
        assert app.walk.plan is not None
        assert app.walk.plan.argv == before


async def test_an_answer_changed_after_writing_brings_the_review_back(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(100, 36)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("enter")
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        await until(pilot, lambda: view.written)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Reader))
        assert "Nothing has been written" not in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        app.walk_screen._open_flag("max_model_len")
        await until(pilot, lambda: isinstance(app.screen, FlagDialog) and getattr(app.focused, "id", "") == "flag-text")
        app.screen.query_one("#flag-text", LineInput).value = "2048"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.walk_screen and not view.written)
        await ready(app, pilot)
        assert "changed" in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("enter")
        await until(pilot, lambda: view.written)
    assert "2048" in (tmp_path / "out" / "launch.sh").read_text()


async def test_ctrl_r_on_the_model_step_lets_the_wizard_choose_again(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        own = app.walk.plan.value("model")  # type: ignore[union-attr]
        await pilot.press("down")
        await until(pilot, lambda: app.walk.answers.get("model") is not None and not app.wizard.model_pending())  # type: ignore[union-attr]
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.walk.answers.get("model") is None)
        await ready(app, pilot)
        assert app.walk.plan is not None
        assert app.walk.plan.value("model") == own
        view = app.walk_screen.view
        assert isinstance(view, ModelView)
        assert view.query_one("#models", Rows).cursor_key == own


async def test_a_flag_that_the_plan_would_refuse_is_refused_in_its_dialog() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen._open_flag("lora_modules")
        await until(pilot, lambda: isinstance(app.screen, FlagDialog) and getattr(app.focused, "id", "") == "flag-text")
        app.screen.query_one("#flag-text", LineInput).value = "nope"
        await pilot.press("enter")
        await shows(app, pilot, "cannot be “nope”")
        assert app.walk.answers.get("lora_modules") is None


async def test_cures_of_a_blocked_review_can_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on("wsl1", "/home/user/vllm")
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "review")
        assert "c Copy" in screen_text(app).splitlines()[-1]
        copied: list[str] = []
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        app.walk_screen.query_one("#next", PushButton).focus()
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, Choose) and app.focused is not None)
        await pilot.press("enter")
        await until(pilot, lambda: bool(copied))
        assert "wsl" in copied[0]


async def test_files_that_stood_there_already_are_not_called_written(tmp_path: Path) -> None:
    async def write() -> str:
        app = app_on(DESKTOP, tmp_path / "out", Answers().with_value("port", 8123, Layer.CLI))
        async with app.run_test(size=(100, 36)) as pilot:
            await at(app, pilot, "review")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            await pilot.press("enter")
            view: Any = app.walk_screen.view
            await until(pilot, lambda: view.written)
            await ready(app, pilot)
            return said(app)

    assert "Written." in await write()
    again = await write()
    assert "Written." not in again
    assert "Nothing had to be written" in again


def test_the_palette_puts_what_is_called_exactly_so_first() -> None:
    entries = [Entry("flag:lora_modules", "flag", "--lora-modules", "LoRA adapters"), Entry("field:flags:lora_adapters", "field", "LoRA adapters", "Flags")]
    assert matching(entries, ["lora", "adapters"])[0].kind == "field"


async def test_what_is_made_ahead_comes_to_rest_also_with_a_wrong_value_in_a_step_left(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "access")
        field = app.walk_screen.view.field_of("port")  # type: ignore[union-attr]
        assert field is not None
        field.control.value = "99999999"
        await pilot.press("escape")  # back takes what can be taken, and leaves the rest in its field
        await until(pilot, lambda: app.walk.step_id != "access")
        assert field.touched
        ahead = app.walk_screen.ahead
        await until(pilot, lambda: ahead._timer is None and not ahead.lock.locked() and all(w.is_finished for w in app.workers))
        rested = 0
        for _n in range(10):
            await pilot.pause(0.05)
            rested += ahead._timer is None and not ahead.lock.locked()
        assert rested == 10


async def test_what_is_told_for_a_moment_does_not_cover_the_buttons() -> None:
    from textual.widgets._toast import Toast

    app = fake_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await ready(app, pilot)
        app.notify("A few words that take their time to be read.", timeout=30)
        await until(pilot, lambda: bool(app.screen.query(Toast)) and app.screen.query_one(Toast).region.height > 0)
        await pilot.pause()
        assert not app.screen.query_one(Toast).region.overlaps(app.walk_screen.query_one("#next").region)


async def test_what_is_typed_as_soon_as_the_flags_field_is_there_stays() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen._open_flag("max_model_len")
        while not (isinstance(app.screen, FlagDialog) and app.screen.query("#flag-text")):
            await asyncio.sleep(0)
        line = app.screen.query_one("#flag-text", LineInput)
        line.value = "777"
        await until(pilot, lambda: app.focused is line)
        await pilot.pause()
        assert line.value == "777"
