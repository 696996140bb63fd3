"""What a newcomer stumbles over in the walk: keys that must not choose, pastes, commands to copy, small terminals."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.widgets import TextArea

from tests.faces.test_tui_diagnosis import TOO_LONG
from tests.faces.tui_play import (
    MACHINES,
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
from wizard.faces import resume
from wizard.faces.tui import text
from wizard.faces.tui.app import Start, WizardApp
from wizard.faces.tui.diagnosis import DiagnoseScreen
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.paste import PasteDialog
from wizard.faces.tui.views import ModelView, ReviewView
from wizard.faces.tui.walk import copy_here
from wizard.faces.tui.widgets import Rows
from wizard.host import open_host
from wizard.plan_types import Step
from wizard.session import Answers, Layer

DESKTOP = "wsl2-rtx4090-desktop"
ON_D = "wsl2-rtx3060-model-on-d"


# -- PgDn, the wheel ----------------------------------------------------------------------------------------------


async def test_pgdn_scrolls_the_page_of_the_model_step_and_chooses_nothing(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        view = app.walk_screen.view
        assert isinstance(view, ModelView)
        rows = view.query_one("#models", Rows)
        rows.focus()
        before, model = rows.cursor_key, app.walk.plan.value("model")  # type: ignore[union-attr]
        await shows(app, pilot, "PgDn")
        await pilot.press("pagedown")
        await until(pilot, lambda: view.scroll_y > 0)
        await pilot.press("pageup", "pagedown")
        await ready(app, pilot)
        assert rows.cursor_key == before
        assert app.walk.plan is not None
        assert app.walk.plan.value("model") == model
        assert app.walk.answers.user == {}


@pytest.mark.parametrize("step", ["model", "where", "flags", "wsl", "access", "review"])
async def test_no_step_has_an_answer_changed_by_paging_or_the_wheel(step: str) -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        ids = [s.id for s in app.walk.steps()]
        await at(app, pilot, step if step in ids else ids[2])
        for widget in [w for w in app.walk_screen.focus_chain if w.can_focus]:
            widget.focus()
            await pilot.press("pagedown", "pageup")
            widget.post_message(events.MouseScrollDown(widget, 1, 1, 0, 1, 0, False, False, False))
            await pilot.pause()
        await ready(app, pilot)
        assert app.walk.answers.user == {}


async def test_tab_reaches_next_before_back_and_f1_explains_the_line_for_another_model() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        app.walk_screen.query_one("#typed").focus()
        await pilot.press("f1")
        await shows(app, pilot, "A repository id", "/home/user/models/")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await pilot.press("tab")
        assert app.focused is not None
        assert app.focused.id == "next"
        await pilot.press("left")
        assert app.focused.id == "back"
        await pilot.press("right")
        assert app.focused.id == "next"


# -- a pasted command ---------------------------------------------------------------------------------------------


async def take_over(app: WizardApp, pilot: Any, command: str) -> None:
    app.walk_screen.open_paste()
    await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, TextArea))
    app.screen.query_one(TextArea).text = command
    await push(app, pilot, "check")
    await push(app, pilot, "take")


async def test_a_pasted_model_is_taken_with_its_flags_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    here = [m for m in session_of(DESKTOP).found if m.complete and not m.is_adapter]
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "flags")
        plan = app.walk.plan
        assert plan is not None
        other = next(m for m in here if m.path != plan.value("model") and m.path in plan.session.models)
        await take_over(app, pilot, f"vllm serve {other.name} --max-model-len 2048 --swap-space 4 --port 9000 --enable-prefix-caching")
        await shows(app, pilot, "Left out:", "--swap-space", "removed")
        await pilot.press("escape")
        await ready(app, pilot)
        assert app.walk.plan is not None
        taken = app.walk.plan.value("model")
        assert taken in {m.path for m in here if m.name == other.name}
        assert app.walk.plan.value("max_model_len") == 2048
        assert app.walk.plan.value("port") == 9000
        assert app.walk.answers.get("enable_prefix_caching") is not None


async def test_a_pasted_id_that_is_nowhere_here_is_read_as_a_typed_one(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "model")
        await take_over(app, pilot, "vllm serve someone/unknown-model --port 9000")
        await until(pilot, lambda: app.walk.answers.get("port") == (9000, Layer.USER))
        await ready(app, pilot)
        assert app.walk.answers.get("model") == ("someone/unknown-model", Layer.USER)


def test_a_copy_in_the_linux_file_system_is_preferred() -> None:
    session = session_of(ON_D)
    found = next(m for m in session.found if m.complete)
    assert copy_here(session, found.path + "/") == found.path
    assert copy_here(session, found.name) in {m.path for m in session.found if m.name == found.name}
    assert copy_here(session, "someone/else") == "someone/else"


async def test_a_long_verdict_on_a_pasted_command_is_marked_and_scrolled(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, TextArea))
        area = app.screen.query_one(TextArea)
        area.text = (
            "\u26a0\ufe0f like this: vllm serve Qwen/Qwen3-8B --swap-space 4 --disable-mm-warmup --max-model-len 8192 "
            "--num-speculative-tokens 3 --use-v2-block-manager --guided-decoding-backend xgrammar --seed 7 --block-size 16"
        )
        await push(app, pilot, "check")
        await shows(app, pilot, "PgDn")
        area.focus()
        body = app.screen.query_one("#body")
        # The verdict is laid out over several turns of the loop: only then is its end known.
        await until(pilot, lambda: "It becomes:" in said(app) and body.max_scroll_y > 8)
        for _n in range(8):
            await pilot.press("pagedown")
            await pilot.pause()
        await shows(app, pilot, "It becomes:", "--max-model-len 8192", "PgUp")


async def test_a_character_of_doubtful_width_does_not_shift_the_frame(tmp_path: Path) -> None:
    assert text.content([("\u26a0\ufe0f x", text.TEXT)]).plain == "\u26a0 x"
    assert text.pad("\u26a0\ufe0f x", 6) == "\u26a0 x   "
    assert all("\ufe0f" not in line.plain for line in text.wrapped("\u26a0\ufe0f mind this", 40, 2, text.DIM))
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, TextArea))
        area = app.screen.query_one(TextArea)
        area.focus()
        app.post_message(events.Paste("\u26a0\ufe0f vllm serve a/b"))
        await until(pilot, lambda: "a/b" in area.text)
        assert area.text == "\u26a0 vllm serve a/b"


# -- a log from the command line ----------------------------------------------------------------------------------


def log_app(log: Path, keep: Path) -> WizardApp:
    start = Start(open_host(MACHINES / DESKTOP), Answers(), log=str(log))
    return WizardApp(lambda: start, prepared=session_of(DESKTOP), keep=keep)


async def test_a_diagnosis_is_not_covered_by_an_earlier_walk_and_esc_leaves(tmp_path: Path) -> None:
    log, keep = tmp_path / "vllm.log", tmp_path / "session.toml"
    log.write_text("\n".join(TOO_LONG) + "\n")
    resume.save(keep, {"port": 8123}, "flags")
    kept = keep.read_bytes()
    app = log_app(log, keep)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen) and app.screen.state == "found")
        await ready(app, pilot)
        assert isinstance(app.screen, DiagnoseScreen)
        await shows(app, pilot, "max_model_len_exceeds_kv", "Esc Leave")
        await pilot.press("escape")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert app.return_code == 0
    assert keep.read_bytes() == kept, "who only looked at a log keeps the walk of last time"


async def test_the_earlier_walk_is_offered_once_the_walk_itself_is_opened(tmp_path: Path) -> None:
    log, keep = tmp_path / "vllm.log", tmp_path / "session.toml"
    log.write_text("\n".join(TOO_LONG) + "\n")
    resume.save(keep, {"port": 8123}, "access")
    app = log_app(log, keep)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen) and app.screen.state == "found")
        await push(app, pilot, "log-back")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await shows(app, pilot, "Go on from last time?")
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.answers.get("port") == (8123, Layer.FILE))


async def test_leaving_before_the_offer_is_answered_keeps_the_earlier_walk(tmp_path: Path) -> None:
    keep = tmp_path / "session.toml"
    resume.save(keep, {"port": 8123}, "access")
    kept = keep.read_bytes()
    app = fake_app(keep=keep)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert keep.read_bytes() == kept


async def test_a_fix_waits_for_the_plan(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(TOO_LONG) + "\n")
    app = log_app(log, tmp_path / "none.toml")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen) and app.screen.state == "found")
        screen = app.screen
        assert isinstance(screen, DiagnoseScreen)
        await until(pilot, lambda: screen.fixes_tried)
        assert app.wizard is not None
        app.wizard.models_looking = True  # as while the search for models runs
        assert screen.reading is not None
        screen.reading.usable[screen.at] = []
        screen.use_fix()
        await until(pilot, lambda: "The plan is still being made" in said(app))


async def test_the_field_for_a_pasted_log_is_seen_and_the_footer_speaks_of_it() -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen) and app.focused is not None)
        await shows(app, pilot, "Or paste it here:", "Enter Read it")
        await pilot.press("x", "tab")
        await until(pilot, lambda: isinstance(app.focused, TextArea))
        await until(pilot, lambda: "Enter Read it" in screen_text(app).splitlines()[-1])
        await pilot.press("enter")  # as the footer says: what was named above is read
        await shows(app, pilot, "There is no file x")


# -- a recorded machine's folder ----------------------------------------------------------------------------------


async def test_the_folder_proposed_for_a_recorded_machine_is_no_choice_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keep = tmp_path / "keep" / "session.toml"
    app = app_on(DESKTOP, keep=keep)
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "review")
        field = app.walk_screen.view.field_of("out_dir")  # type: ignore[union-attr]
        assert field is not None
        assert field.control.value == str(tmp_path / f"vllm-{DESKTOP}")
        assert field.note == "a recorded machine's files go below the current folder"
        assert app.walk.answers.get("out_dir") is None
        assert app.walk.plan is not None
        assert app.walk.plan.decision("out_dir").chosen is False  # type: ignore[union-attr]
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    saved, _trouble = resume.load(keep)
    assert saved is not None
    assert "out_dir" not in saved.answers


# -- what to type next --------------------------------------------------------------------------------------------

LONG_PATH = "/home/user/data/very-long-folder-name/another-long-folder-name/vllm-wsl2-rtx4090"


def as_a_shell_reads(shown: str) -> list[str]:
    return shlex.split(shown.replace("\\\n", ""))


@pytest.mark.parametrize("width", [50, 74, 76])
def test_a_command_to_type_is_never_broken_inside_a_word(width: int) -> None:
    command = f"vllm-wizard move /mnt/d/models/Big-Model-70B {LONG_PATH[:40]} --out /home/user/x"
    shown = text.next_steps([Step("Copy", (command,))], width).plain
    lines = shown.split("\n")[1:]
    assert len(lines) > 1
    assert as_a_shell_reads("\n".join(lines)) == shlex.split(command), "copied as it stands, it is the command"


@given(st.lists(st.text("ab'\"/- $", min_size=1, max_size=14), min_size=1, max_size=9), st.integers(24, 60))
def test_a_folded_command_is_read_by_a_shell_as_the_whole_one(words: list[str], width: int) -> None:
    line = shlex.join(words)
    shown = text.typed(line, width, 5, " \\", "").plain
    assert as_a_shell_reads(shown) == words


async def test_the_commands_are_copied_by_a_key(tmp_path: Path) -> None:
    app = app_on("native-rtx5090", tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("enter")
        await shows(app, pilot, "Write the files")
        await pilot.press("enter")
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        await until(pilot, lambda: view.written)
        await shows(app, pilot, "c Copy")
        await pilot.press("c")
        await shows(app, pilot, "Which command is copied?", "Start the server")
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.clipboard))
        assert app.wizard is not None
        assert app.clipboard.strip() == "\n".join(app.wizard.to_type()[0].commands)


# -- the header ---------------------------------------------------------------------------------------------------


async def test_the_header_tells_the_step_in_full_while_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        assert app.wizard is not None
        monkeypatch.setattr(app.wizard, "copying", lambda: "a very long word on the copy that is under way 45%")
        app.walk_screen.show()
        await until(pilot, lambda: "a very" in screen_text(app))
        first = screen_text(app).splitlines()[0]
        total = len(app.walk.steps())
        assert first.rstrip().endswith(f"step 1 of {total}")
