"""What a fourth newcomer stumbled over: where a command may be pasted, rows that disagreed with the plan, empty lines."""

from __future__ import annotations

import pytest
from textual import events
from textual.content import Content

from tests.faces.tui_play import app_on, at, by_palette, fake_app, focused, ready, screen_text, shows, until
from wizard.faces.tui import text
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.paste import CommandArea, PasteDialog
from wizard.faces.tui.views import model_entries
from wizard.faces.tui.whole import Choose
from wizard.faces.tui.widgets import LineInput, PushButton
from wizard.session import looks_like_command

DESKTOP, OLD_DRIVER = "wsl2-rtx4090-desktop", "wsl2-rtx5070-laptop-old-driver"
POST = """Start it like this:

vllm serve ~/models/Qwen3-VL \\
  --host 0.0.0.0 \\
  --max-model-len 4096 \\
  --max-seqs 4 \\
  --port 8000
"""


@pytest.mark.parametrize(
    "given",
    ["vllm serve m", "$ vllm serve m", "CUDA_VISIBLE_DEVICES=0 vllm serve m --x", "docker run --gpus all vllm/vllm-openai", "python3 -m vllm.entrypoints.openai.api_server --model m",
     "sudo docker run x", "/opt/venv/bin/vllm serve m"],
)  # fmt: skip
def test_a_command_is_told_from_a_model(given: str) -> None:
    assert looks_like_command(given)


@pytest.mark.parametrize("given", ["Qwen/Qwen3-8B", "/home/user/vllm serve/m", "~/vllm", "vllm/serve", "docker/run", "", "vllm served", "python"])
def test_a_model_is_no_command(given: str) -> None:
    assert not looks_like_command(given)


async def test_a_command_pasted_where_a_model_is_wanted_is_read_as_a_command() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        field = app.walk_screen.query_one("#typed", LineInput)
        field.focus()
        await until(pilot, lambda: app.focused is field)
        app.post_message(events.Paste(POST.replace("\n", "\r")))  # as a terminal sends it
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await shows(app, pilot, "--max-seqs")
        assert field.value == ""
        # The paste can be read from its first line, with what was found below it.
        await shows(app, pilot, "It becomes", "vllm serve ~/models/Qwen3-VL")
        assert "'~" not in screen_text(app)
        area = app.screen.query_one("#paste-text", CommandArea)
        assert area.text == POST


async def test_a_command_typed_where_a_model_is_wanted_opens_the_same() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        field = app.walk_screen.query_one("#typed", LineInput)
        field.focus()
        field.value = "vllm serve Qwen/Qwen3-8B-FP8 --port 8001"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await until(pilot, lambda: isinstance(app.focused, PushButton) and app.focused.id == "take")
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.plan is not None and app.walk.plan.value("port") == 8001)
        assert app.walk.plan is not None
        assert app.walk.plan.value("model") == "Qwen/Qwen3-8B-FP8"


async def test_a_long_paste_is_seen_from_its_first_line_and_enter_after_its_last_checks_it() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    long = POST.replace("\n\n", "\n" + "".join(f"Line {n} of the article.\n" for n in range(30)) + "\n")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, CommandArea))
        area = app.screen.query_one("#paste-text", CommandArea)
        app.post_message(events.Paste(long.replace("\n", "\r")))
        await until(pilot, lambda: area.text == long)
        await shows(app, pilot, "Start it like this")
        assert area.size.height >= 12
        assert area.cursor_location == area.document.end
        await pilot.press("ctrl+home")
        assert area.cursor_location == (0, 0)
        await pilot.press("ctrl+end")
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is not area)
        assert area.text == long
        await shows(app, pilot, "It becomes")


async def test_a_line_that_goes_on_is_not_checked_yet() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, CommandArea))
        area = app.screen.query_one("#paste-text", CommandArea)
        area.text = "vllm serve m \\"
        area.action_to_end()
        await pilot.press("enter")
        await until(pilot, lambda: area.text == "vllm serve m \\\n")
        assert app.focused is area


async def test_the_row_of_a_model_that_was_made_to_fit_says_so_no_more() -> None:
    app = app_on(OLD_DRIVER, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        assert app.walk.plan is not None
        entry = next(e for e in model_entries(app.walk.plan) if "fit" in e.trouble and e.group == "here")
        app.wizard.choose_model(entry.key)
        await until(pilot, lambda: app.walk.plan is not None and bool(app.walk.plan.blockers))
        before = app.walk.plan
        assert before.blockers[0].title.split()[2] == next(e for e in model_entries(before) if e.key == entry.key).trouble.split()[0]  # "may" or "does"
        app.walk.answer("quantization", "fp8")
        app.walk.answer("max_model_len", 2048)
        app.walk_screen.plan_changed()
        await ready(app, pilot)
        plan = app.walk.plan
        assert plan is not None
        assert not plan.blockers
        assert next(e for e in model_entries(plan) if e.key == entry.key).trouble == ""


async def test_swap_that_the_drive_has_no_room_for_is_told_beside_the_field() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "wsl")
        app.walk.answer("wsl_swap_gib", 2008)
        app.walk_screen.plan_changed()
        await shows(app, pilot, "2008 GiB of swap do not fit")


async def test_a_question_says_its_keys_and_a_choice_starts_at_its_first_line() -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        app.push_screen(Ask("Title", Content("Words."), "Yes", "No"))
        await shows(app, pilot, "Left and right choose, Enter takes it, Esc closes")
        await pilot.press("escape")
        app.push_screen(Choose("Ways", Content(""), [("a", "first way", "x\n" * 30), ("b", "second", "")]))
        await shows(app, pilot, "first way")
        body = app.screen.query_one("#body")
        assert body.scroll_y == 0
        assert not app.screen.query("#choose-told")


@pytest.mark.parametrize(
    ("whole", "width", "short"),
    [
        ("does not fit: weights 16.6 GiB", 21, "does not fit"),
        ("2 GiB in RAM: slow, for so much has no room", 21, "2 GiB in RAM"),
        ("pictures in the prompt, and no video", 24, "pictures in the prompt"),
        ("放不下：权重（16.6 GiB）", 21, "放不下"),
        ("not enough", 21, "not enough"),
        ("a very long text without any end", 10, "a very lo…"),
        ("a: very long text without any end", 12, "a: very long…"[:11] + "…"),
        ("http://host:8000/very/long/path", 12, "http://host…"),
        ("放不下：权重 16.6 GiB", 10, "放不下"),
    ],
)
def test_what_is_cut_is_cut_at_the_end_of_a_part(whole: str, width: int, short: str) -> None:
    assert text.shorten(whole, width) == short




LOG = "INFO 11-05 03:12:46 [x.py:1] vLLM API server version 0.33.0\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 270.00 MiB.\n"


async def test_a_log_pasted_into_the_field_for_a_path_goes_below_and_enter_reads_it() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "machine")
        await pilot.press("f3")
        await until(pilot, lambda: getattr(app.focused, "id", "") == "log-path")
        app.post_message(events.Paste(LOG.replace("\n", "\r")))
        await until(pilot, lambda: getattr(app.focused, "id", "") == "log-text")
        assert app.screen.query_one("#log-path", LineInput).value == ""
        assert app.screen.query_one("#log-text", CommandArea).text == LOG
        assert "PgDn" not in screen_text(app).splitlines()[-1]
        await pilot.press("enter")
        await shows(app, pilot, "weights_oom")


async def test_the_focus_stays_in_the_field_that_names_no_file() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "machine")
        await pilot.press("f3")
        await until(pilot, lambda: getattr(app.focused, "id", "") == "log-path")
        await pilot.press(*"/nowhere/x.log", "enter")
        await shows(app, pilot, "There is no file")
        await until(pilot, lambda: getattr(app.focused, "id", "") == "log-path")


def test_an_answer_is_held_against_what_this_walk_proposes() -> None:
    from tests.faces.tui_play import session_of
    from wizard.faces.tui.walk import Walk

    walk = Walk(proposed={"out_dir": ("/here/below", "below the current folder")})
    walk.use(session_of(DESKTOP))
    assert walk.plan is not None
    assert walk.plan.reason("out_dir") == "below the current folder"
    walk.answer("out_dir", "/elsewhere")
    assert walk.plan is not None
    assert walk.plan.reason("out_dir") == "chosen by you"
    assert walk.proposal("out_dir") == "/here/below"


async def test_the_question_whether_to_leave_goes_with_the_copy_it_is_about() -> None:
    from wizard.faces.tui import moving

    app = app_on("wsl2-rtx3060-model-on-d", "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "move")
        app.wizard.move_button("start")
        await until(pilot, lambda: bool(app.wizard.copying()))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        moving._ended(app.wizard, "done", "")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await until(pilot, lambda: app.wizard.mover is not None)
        app.wizard.move_button("cancel")
        await until(pilot, lambda: app.wizard.mover is None)


def test_the_legend_keeps_a_gap_before_large_sizes() -> None:
    from tests.faces.tui_play import session_of
    from wizard.faces.tui.look import UNICODE
    from wizard.plan import plan

    made = plan(session_of("native-mi300x"))
    told = text.memory_bar(made, UNICODE, 40).plain
    assert "KV cache " in told


async def test_enter_after_copy_now_goes_on_and_stops_nothing() -> None:
    app = app_on("wsl2-rtx3060-model-on-d", "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "move")
        button = app.walk_screen.query_one("#move-start", PushButton)
        button.focus()
        await until(pilot, lambda: app.focused is button)
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.wizard.copying()) and getattr(app.focused, "id", "") == "next")
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.step_id != "move")
        view = app.wizard.move_view()
        assert view is not None
        assert view.state in ("preparing", "running", "done")
        app.wizard.move_button("cancel")
        await until(pilot, lambda: not app.wizard.copying())


async def test_a_copy_of_another_model_than_the_chosen_one_is_named() -> None:
    app = app_on("wsl2-rtx3060-model-on-d", "/home/user/vllm")
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "move")
        view = app.wizard.move_view()
        assert view is not None
        view.state, view.job = "running", ("/mnt/d/models/Another-Model", "/home/user/models/Another-Model")
        app.walk_screen.show()
        await shows(app, pilot, "This is the copy of Another-Model")
        view.state = "idle"


@pytest.mark.parametrize("where", ["list", "field"])
async def test_a_command_pasted_anywhere_in_the_walk_is_read_as_one(where: str) -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model" if where == "list" else "access")
        target = app.walk_screen.query_one("#models" if where == "list" else "#q-port")
        target.focus()
        await until(pilot, lambda: app.focused is target)
        app.post_message(events.Paste("docker run -p 9000:8000 vllm/vllm-openai --model m"))
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await shows(app, pilot, "Enter takes it over, Esc closes")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        if where == "field":
            assert app.walk_screen.query_one("#q-port", LineInput).value == "8000"


async def test_a_key_that_was_made_is_not_said_to_have_been_given() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "access")
        app.walk.answer("access", "network")
        app.walk_screen.plan_changed()
        await ready(app, pilot)
        await at(app, pilot, "review")
        await until(pilot, lambda: bool(app.walk.secrets.get("api_key")))
        await pilot.press("escape")
        await until(pilot, lambda: app.walk.step_id == "access")
        view = app.walk_screen.view
        assert view is not None
        field = view.field_of("api_key")
        assert field is not None
        await until(pilot, lambda: field.note.startswith("None was typed"))
        assert app.walk.secrets_given() == ()


async def test_what_is_told_for_a_moment_covers_no_button_of_a_box() -> None:
    from textual.widgets._toast import Toast

    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await at(app, pilot, "review")
        app.push_screen(Ask("Write the files", Content("Words.\n" * 9), "Write", "Not yet"))
        app.notify("The model was copied and verified.")
        await until(pilot, lambda: bool(app.screen.query(Toast)) and app.screen.query_one(Toast).region.height > 0)
        toast = app.screen.query_one(Toast).region
        for button in app.screen.query(PushButton).results(PushButton):
            assert not toast.overlaps(button.region)


async def test_an_answer_that_cannot_be_is_said_to_be_changed_where() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        app.walk.answer("attention_backend", "XFORMERS")
        app.walk_screen.plan_changed()
        await at(app, pilot, "review")
        await shows(app, pilot, "cannot be", "Ctrl+P, then the name of the answer")


async def test_a_field_that_is_paged_back_into_view_has_the_focus_again() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        _view, field = await focused(app, pilot, "flags", "intent")
        await pilot.press("pagedown", "pagedown")
        await until(pilot, lambda: getattr(app.focused, "id", "") == "next")
        await pilot.press("pageup", "pageup")
        await until(pilot, lambda: app.focused is field.control)


async def test_the_cursor_of_a_list_is_seen_after_paging() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        view, field = await focused(app, pilot, "runtime", "release")
        await pilot.press("down", "down", "down", "down", "pagedown")
        await pilot.pause(0.2)
        if app.focused is not field.control:
            field.control.focus(scroll_visible=False)
        await pilot.press("up", "up", "up")
        await ready(app, pilot)
        await until(pilot, lambda: view.region.y <= field.control.region.y + field.control.lines_of_cursor().start - field.control._top < view.region.bottom)


async def test_the_review_is_done_once_it_is_written() -> None:
    from wizard.steps import REVIEW

    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("escape")
        await until(pilot, lambda: app.walk.step_id != "review")
        assert app.walk.state(REVIEW) == "open"
        app.walk.written = True
        app.walk.visited.add("review")
        assert app.walk.state(REVIEW) == "done"


async def test_a_field_that_was_gone_to_is_seen() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        await by_palette(app, pilot, "lora adapters")
        await until(pilot, lambda: app.screen is app.walk_screen and app.walk.step_id == "flags")
        view = app.walk_screen.view
        assert view is not None
        field = view.field_of("lora_adapters")
        assert field is not None
        await until(pilot, lambda: app.focused is field.control)
        await pilot.pause(0.6)
        assert view.region.overlaps(field.control.region)
        assert view.scroll_y > 0


async def test_a_pasted_model_that_is_not_here_says_which_one_stays() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "model")
        app.walk_screen.open_paste("vllm serve /nowhere/Some-Model --port 8001")
        await until(pilot, lambda: isinstance(app.screen, PasteDialog) and isinstance(app.focused, PushButton) and app.focused.id == "take")
        await pilot.press("enter")
        await shows(app, pilot, "There is no model at", "The model stays")


async def test_what_is_known_of_an_older_release_that_was_chosen_stands_below_the_list() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "runtime")
        app.walk.answer("release", "0.29.0")
        app.walk_screen.plan_changed()
        view = app.walk_screen.view
        assert view is not None
        field = view.field_of("release")
        assert field is not None
        await until(pilot, lambda: "Works with a cure" in field.note and "UVA" in field.note)
