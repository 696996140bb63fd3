"""What a second newcomer stumbled over: leaving while copying, arrows in fields, stale marks, ways out, the palette."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.content import Content
from textual.widgets import TextArea

from tests.faces.tui_play import (
    app_on,
    at,
    fake_app,
    push,
    ready,
    said,
    screen_text,
    session_of,
    shows,
    until,
)
from wizard.faces.tui.app import WizardApp, _last_words
from wizard.faces.tui.dialogs import Ask, Palette, Reader
from wizard.faces.tui.fields import Field
from wizard.faces.tui.paste import PasteDialog
from wizard.faces.tui.views import MoveView, ReviewView, StepView
from wizard.faces.tui.whole import Choose
from wizard.faces.tui.widgets import LineInput, Panel, PushButton, Toggle
from wizard.session import Answers, Layer

DESKTOP = "wsl2-rtx4090-desktop"
ON_D = "wsl2-rtx3060-model-on-d"


def focused_field(app: WizardApp) -> str:
    widget = app.focused
    while widget is not None and not isinstance(widget, Field):
        widget = widget.parent  # type: ignore[assignment]
    return widget.question.key if isinstance(widget, Field) else ""


# -- leaving while a copy runs ------------------------------------------------------------------------------------


async def test_leaving_while_a_copy_runs_ends_whole_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wizard.models import move
    from wizard.models.move_types import Progress, Stage

    app = app_on(ON_D, tmp_path)
    ended: list[str] = []

    class Slow:
        """A mover that reports until it is stopped, and once more after that."""

        def __init__(self, plan: Any, on_progress: Any) -> None:
            self.tell, self.stopped = on_progress, False

        def run(self) -> Any:
            now = Progress(1, 10, 0, 2, 1.0, 9.0, Stage.COPY)
            while not self.stopped:
                self.tell(now)
                time.sleep(0.1)
            time.sleep(0.3)  # the application is being taken down meanwhile
            try:
                self.tell(now)
            except RuntimeError:
                ended.append("gone")  # its loop has ended
            raise OSError("stopped")

        def cancel(self) -> None:
            self.stopped = True

    monkeypatch.setattr(move, "Mover", Slow)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "move")
        app.wizard.host_name = ""  # type: ignore[union-attr]  # as on this machine: of a played copy nothing is kept
        await push(app, pilot, "move-start")
        await until(pilot, lambda: app.wizard.copying() != "" and isinstance(app.walk_screen.view, MoveView) and app.walk_screen.view.progress is not None)  # type: ignore[union-attr]  # fmt: skip
        app.post_message(events.Key("ctrl+q", None))
        await until(pilot, lambda: isinstance(app.screen, Ask) and bool(app.screen.query("#no")))
        app.screen.query_one("#no", PushButton).action_press()
        await until(pilot, lambda: app._exit)
    assert app.crash is None
    _last_words(app)
    told = capsys.readouterr().out
    assert "10%" in told
    assert "move /mnt/d/models/" in told


# -- keys ---------------------------------------------------------------------------------------------------------


async def test_the_arrows_go_from_field_to_field_also_on_a_page_that_scrolls() -> None:
    app = app_on("wsl2-interop-off-custom-root", "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "flags")
        view = app.walk_screen.view
        assert view is not None
        assert view.max_scroll_y > 0
        lines = [f for f in view.fields() if isinstance(f.control, LineInput)]
        here, after = lines[0].question.key, view.fields()[view.fields().index(lines[0]) + 1].question.key
        lines[0].control.focus()
        await until(pilot, lambda: focused_field(app) == here)
        await pilot.press("down")
        await until(pilot, lambda: focused_field(app) == after)
        await pilot.press("up")
        await until(pilot, lambda: focused_field(app) == here)


@pytest.mark.parametrize("step", ["model", "flags"])
async def test_the_mark_of_more_is_gone_at_the_end_of_the_page(step: str) -> None:
    app = app_on(ON_D, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, step)
        view = app.walk_screen.view
        assert view is not None
        more = app.walk_screen.query_one("#more", Panel)
        await until(pilot, lambda: "PgDn" in str(more.content))
        app.walk_screen.query_one("#next").focus()
        for _n in range(40):
            if view.scroll_y >= view.max_scroll_y:
                break
            before = view.scroll_y
            await pilot.press("pagedown")
            await until(pilot, lambda before=before: view.scroll_y > before)  # type: ignore[misc]
        await until(pilot, lambda: "PgUp" in str(more.content) and "PgDn" not in str(more.content))
        view.scroll_home(animate=False)
        await until(pilot, lambda: "PgDn" in str(more.content) and "PgUp" not in str(more.content))


async def test_enter_at_the_end_of_a_pasted_command_checks_it_and_after_a_backslash_does_not() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and bool(app.screen.query("#paste-text")))
        dialog = app.screen
        assert isinstance(dialog, PasteDialog)
        area = dialog.query_one("#paste-text", TextArea)
        area.insert("vllm serve Qwen/Qwen3-8B \\")
        await pilot.press("enter")
        assert dialog.verdict is None
        area.insert("--max-model-len 4096")
        await pilot.press("enter")
        await until(pilot, lambda: dialog.verdict is not None)


# -- what lies over the walk --------------------------------------------------------------------------------------


async def test_a_dialog_that_shows_all_it_holds_does_not_say_more_and_the_footer_is_silent() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        footer = app.walk_screen.query_one("#footer", Panel)
        assert "Enter" in str(footer.content)
        app.push_screen(Reader("Short", Content("a line\nanother")))
        await until(pilot, lambda: isinstance(app.screen, Reader))
        await shows(app, pilot, "another")
        box = app.screen.query_one("#box")
        await until(pilot, lambda: "PgDn" not in str(box.border_subtitle))
        assert str(footer.content).strip() == ""
        await pilot.press("escape")
        await until(pilot, lambda: "Enter" in str(footer.content))


async def test_the_palette_finds_a_field_by_its_label_its_choices_and_what_it_is_for() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        entries = app.wizard.palette_entries()  # type: ignore[union-attr]
        from wizard.faces.tui.dialogs import matching

        for words, key in (("swap", "wsl_swap_gib"), ("docker", "runtime"), ("the network", "access"), ("lora adapters", "intent")):
            assert any(e.key.endswith(f":{key}") for e in matching(entries, words.split())), words
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        await pilot.press(*"swap")
        await shows(app, pilot, "field")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.walk_screen and app.walk.step_id == "wsl" and focused_field(app) == "wsl_swap_gib")


# -- a model that does not fit ------------------------------------------------------------------------------------


async def test_a_way_out_is_taken_on_the_model_step_and_the_plan_has_no_blocker_then() -> None:
    answers = Answers().with_value("model", "/mnt/d/models/Qwen3-VL-8B-Instruct", Layer.CLI)
    app = app_on(ON_D, "/home/user/vllm", answers)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        assert app.walk.plan is not None
        assert app.walk.plan.blockers
        app.walk_screen.query_one("#next").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Choose))
        await shows(app, pilot, "does not fit")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await until(pilot, lambda: not app.walk.plan.blockers)  # type: ignore[union-attr]
        assert app.walk.step_id == "model"


async def test_going_on_as_it_is_leads_to_a_last_step_whose_enter_offers_the_ways_out() -> None:
    answers = Answers().with_value("model", "/mnt/d/models/Qwen3-VL-8B-Instruct", Layer.CLI)
    app = app_on(ON_D, "/home/user/vllm", answers)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        app.walk_screen.query_one("#next").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Choose))
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.walk.step_id != "model")
        await at(app, pilot, "review")
        assert "Enter Write" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Choose))


# -- what was decided elsewhere -----------------------------------------------------------------------------------


async def test_a_flag_that_another_step_answers_says_so() -> None:
    app = app_on(DESKTOP, "/home/user/vllm", Answers().with_value("runtime", "docker", Layer.CLI))
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen._open_flag("host")
        await until(pilot, lambda: app.screen is not app.walk_screen and getattr(app.focused, "id", "") == "flag-text")
        app.screen.query_one("#flag-text", LineInput).value = "0.0.0.0"
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await ready(app, pilot)
        await until(pilot, lambda: "--host is what" in said(app) and "Access" in said(app))


async def test_the_users_own_wslconfig_can_be_changed_from_the_last_step() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(app, pilot)
        assert app.wizard is not None
        await at(app, pilot, "review")
        row = app.walk_screen.query_one("#apply-row")
        assert not row.display  # a recorded machine's own file is not here
        app.wizard.host_name = ""
        app.walk_screen.show()
        assert row.display
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        proposal = [c.path for c in view.changes if c.path.endswith(".wslconfig")]
        view.query_one("#apply-wslconfig", Toggle).action_set(True)
        await until(pilot, lambda: [c.path for c in view.changes if c.path.endswith(".wslconfig")] != proposal)
        assert view.applied


# -- what is done ahead -------------------------------------------------------------------------------------------


async def test_all_steps_stand_ready_after_a_while_and_are_not_made_again_on_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    app = fake_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(app, pilot)
        walk = app.walk

        def all_stand() -> bool:
            views = app.walk_screen.views
            return all(s.id in views and views[s.id].stands(walk) for s in walk.steps() if s.id != "machine")

        await until(pilot, all_stand)
        shown: list[str] = []
        for kind in {type(v) for v in app.walk_screen.views.values()}:
            show = kind.show

            def told(self: StepView, walk: Any, show: Any = show) -> None:
                shown.append(self.step.id)
                show(self, walk)

            monkeypatch.setattr(kind, "show", told)
        await until(pilot, lambda: not app.walk_screen.ahead.lock.locked())
        app.walk_screen.query_one("#next").focus()
        await pilot.press("enter")
        await until(pilot, lambda: walk.step_id == "model")
        assert "model" not in shown
        assert [v.display for v in app.walk_screen.views.values()].count(True) == 1


async def test_a_plan_that_changed_is_shown_on_arrival_whatever_was_made_ahead() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(app, pilot)
        await until(pilot, lambda: "access" in app.walk_screen.views and app.walk_screen.views["access"].stands(app.walk))
        app.walk.answer("port", 8123)
        await at(app, pilot, "access")
        assert "8123" in screen_text(app)
    assert session_of(DESKTOP).answers.user == {}


async def test_what_is_laid_out_ahead_is_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    app = fake_app()
    pictures: list[str] = []
    draw = WizardApp._display

    def told(self: WizardApp, screen: Any, renderable: Any) -> None:
        draw(self, screen, renderable)
        if self.wizard is not None and self.screen is self.walk_screen and self.walk.plan is not None:
            pictures.append(screen_text(self))

    monkeypatch.setattr(WizardApp, "_display", told)
    async with app.run_test(size=(120, 36)) as pilot:
        await ready(app, pilot)
        pictures.clear()
        walk = app.walk
        others = [s for s in walk.steps() if s.id != "machine"]
        await until(pilot, lambda: all(s.id in app.walk_screen.views and app.walk_screen.views[s.id].stands(walk) for s in others))
        await until(pilot, lambda: not app.walk_screen.ahead.lock.locked())
        assert len(pictures) > len(others)
        assert [s.id for s in others for p in pictures if s.intro[:24] in p] == []
