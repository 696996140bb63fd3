"""What a seventh newcomer stumbled over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.strip import Strip

from tests.faces.tui_play import app_on, at, by_palette, ready, said, screen_text, session_of, shows, until
from wizard.check.commands import check_text
from wizard.faces.tui.diagnosis import DiagnoseScreen
from wizard.faces.tui.dialogs import Ask, FlagDialog
from wizard.faces.tui.panes import plan_pane
from wizard.faces.tui.paste import PasteDialog, pasted
from wizard.faces.tui.toast import WholeToast, whole
from wizard.faces.tui.views import ReviewView, view_for
from wizard.faces.tui.widgets import Chooser, LineInput
from wizard.plan import plan
from wizard.session import Answers, Layer
from wizard.steps import IMAGE_NAME

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


async def test_an_emptied_field_stays_empty_for_what_is_typed_next(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "runtime")
        field = app.walk_screen.view.field_of("image")  # type: ignore[union-attr]
        assert field is not None
        control = field.control
        assert isinstance(control, LineInput)
        official = control.value
        field.focus_control()
        await pilot.press("end", "ctrl+u")
        await ready(app, pilot)
        assert control.value == ""
        await pilot.press(*"my/img:v1")
        await ready(app, pilot)
        assert app.walk.answers.get("image") == ("my/img:v1", Layer.USER)
        await pilot.press("end", "ctrl+u")
        await ready(app, pilot)
        await pilot.press("tab")
        await until(pilot, lambda: control.value == official)
        assert app.walk.answers.get("image") is None


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("vllm/vllm-openai:v0.33.0", True), ("registry.example:5000/team/vllm:nightly", True), ("vllm", True), ("ghcr.io/a/b@sha256:" + "0" * 64, True),
        ("vllm/vllm-openai:v0.33.0my/img:v1", False), ("vllm/vllm-openai:v0.33.0vllm/vllm-openai:v0.20.0", False), ("Vllm/Image:v1", False), ("a//b", False), ("a:", False),
    ],
)  # fmt: skip
def test_an_image_is_read_as_docker_reads_it(name: str, right: bool) -> None:
    assert bool(re.fullmatch(IMAGE_NAME, name)) is right


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("--gpu-memory-utilization 0.6 --swap-space 4", PasteDialog),
        ("It fails so:\rERROR 11-30 10:00:00 [core.py:1] EngineCore failed to start.\rtorch.OutOfMemoryError: CUDA out of memory.", DiagnoseScreen),
    ],
)
async def test_what_is_pasted_is_read_as_what_it_is(text: str, kind: type) -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "machine")
        app.walk_screen.post_message(events.Paste(text))
        await until(pilot, lambda: isinstance(app.screen, kind))
        if kind is DiagnoseScreen:
            await shows(app, pilot, "CUDA out of memory")


async def test_what_is_nothing_of_the_kind_is_said_to_be(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "machine")
        app.walk_screen.post_message(events.Paste("hello there"))
        await until(pilot, lambda: "is no command" in said(app))


async def test_what_is_taken_over_at_once_is_marked_as_one_change_and_no_longer_than_it_is_the_last(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(160, 50)) as pilot:
        await at(app, pilot, "flags")
        walk = app.walk
        given = pasted(check_text("vllm serve m --max-model-len 4096 --max-num-seqs 3 --trust-remote-code --disable-uvloop --swap-space 4", "x", "0.33.0").verdicts[0])
        app.walk_screen._take_pasted(given, None, "")
        await ready(app, pilot)
        assert walk.plan is not None
        shown = plan_pane(walk, app.walk_screen.wizard.glyphs, 60, []).plain
        assert all(f"+ --{line}" in shown for line in ("max-model-len 4096", "max-num-seqs 3", "trust-remote-code"))
        assert {"--disable-uvloop", "--swap-space"} <= {item.name for item in given.removed}
        await pilot.press("escape")
        walk.answer("access", "network")
        walk.answer("out_dir", str(tmp_path / "elsewhere"))
        shown = plan_pane(walk, app.walk_screen.wizard.glyphs, 60, []).plain
        assert "your last change" not in shown
        assert "+ --" not in shown


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
async def test_no_character_of_a_toast_is_lost_over_the_edges_below_it(size: tuple[int, int]) -> None:
    message = "模型已复制并校验。模型位于慢速盘上，从那里读取需要几分钟；下一步选择版本。"
    app = app_on("wsl2-rtx3060-model-on-d", "/home/user/vllm")
    async with app.run_test(size=size, notifications=True) as pilot:
        for step in ("move", "flags"):
            await at(app, pilot, step)
            for shift in ("", "a"):  # at each parity of columns
                app.clear_notifications()
                app.notify(shift + message, timeout=60)
                await until(pilot, lambda: len(app.screen.query(WholeToast)) == 1)
                await pilot.pause(0.2)
                region = app.screen.query_one(WholeToast).region
                lines = ["".join(segment.text for segment in strip.crop(region.x, region.right)) for strip in app.screen._compositor.render_strips()]
                shown = "".join("".join(lines[region.y : region.bottom]).split())
                assert shift + message in shown.replace("▌", ""), shown


@given(st.text(alphabet="ab 模型验，", max_size=30), st.sets(st.integers(0, 60), max_size=4))
def test_wide_characters_are_set_beside_an_edge(text: str, edges: set[int]) -> None:
    width = cell_len(text) + 4
    line = Strip([Segment(text), Segment("    ")])
    moved = whole(line, edges)
    assert moved.cell_length == width
    pieces = moved.divide([*sorted(e for e in edges if e < width), width])
    kept = "".join(s.text for piece in pieces for s in piece)
    assert [c for c in kept if c != " "] == [c for c in text if c != " "]


async def test_a_typed_model_that_lies_here_is_the_one_that_lies_here() -> None:
    app = app_on("wsl2-2x-rtx3090", "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        assert app.walk.session is not None
        here = next(m for m in app.walk.session.found if m.complete and "/" in m.name and not m.is_adapter)
        app.wizard.choose_model(here.name, typed=True)  # type: ignore[union-attr]
        await ready(app, pilot)
        assert app.walk.plan is not None
        assert app.walk.plan.value("model") == here.path


async def test_the_field_for_another_model_is_found_by_the_palette() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "access")
        await by_palette(app, pilot, "another one")
        await until(pilot, lambda: app.walk.step_id == "model" and app.focused is not None and app.focused.id == "typed")


async def test_a_model_is_taken_while_its_step_is_only_being_made() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        assert app.wizard is not None
        step = next(s for s in app.walk.steps() if s.id == "model")
        app.walk_screen.views["model"] = view_for(step)  # made, and not mounted yet
        taken: list[str] = []
        app.wizard.choose_model("Qwen/Qwen3-8B", typed=True, then=taken.append)
        await until(pilot, lambda: bool(taken))
        assert taken == [""]
        del app.walk_screen.views["model"]


async def test_a_switch_is_shown_as_it_is_and_turned_on_by_an_arrow(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen._open_flag("enforce_eager")
        await until(pilot, lambda: isinstance(app.screen, FlagDialog) and getattr(app.focused, "id", "") == "flag-choice")
        await until(pilot, lambda: app.screen.query_one("#flag-choice", Chooser).value == "false", 5)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.walk_screen)
        assert app.walk.answers.get("enforce_eager") is None
        assert "stays as it is" in said(app)
        app.walk_screen._open_flag("enforce_eager")
        await until(pilot, lambda: isinstance(app.screen, FlagDialog) and getattr(app.focused, "id", "") == "flag-choice")
        await pilot.press("up", "enter")
        await until(pilot, lambda: app.screen is app.walk_screen)
        assert app.walk.plan is not None
        assert app.walk.plan.argv.count("--enforce-eager") == 1
        app.walk_screen._open_flag("enforce_eager")
        await until(pilot, lambda: isinstance(app.screen, FlagDialog) and getattr(app.focused, "id", "") == "flag-choice")
        await until(pilot, lambda: app.screen.query_one("#flag-choice", Chooser).value == "true", 5)


@pytest.mark.parametrize("text", ["--enforce-eager", "blah", "maybe"])
def test_a_switch_is_yes_or_no(text: str) -> None:
    made = plan(session_of(DESKTOP).answer("enforce_eager", text))
    assert [b.code for b in made.blockers] == ["bad_value"]
    assert "yes or no" in made.blockers[0].detail


def test_a_switch_that_was_turned_off_says_so() -> None:
    made = plan(session_of(DESKTOP).answer("enable_prefix_caching", "false"))
    assert "--no-enable-prefix-caching" in made.argv
    assert made.reason("enable_prefix_caching").startswith("turned off by you")


async def test_what_is_wrong_in_a_field_is_said_to_who_wants_to_go_elsewhere() -> None:
    app = app_on(DESKTOP, "/home/user/vllm")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "flags")
        field = app.walk_screen.view.field_of("served_model_name")  # type: ignore[union-attr]
        assert field is not None
        assert isinstance(field.control, LineInput)
        field.control.value = "my model"
        await ready(app, pilot)
        app.walk_screen.go_to("access", "port")
        await until(pilot, lambda: "First correct this field" in said(app))
        assert app.walk.step_id == "flags"


def test_a_port_of_root_is_warned_of_where_no_docker_publishes_it() -> None:
    session = session_of(DESKTOP).answer("port", 80)
    assert "port_of_root" not in {w.code for w in plan(session).warnings}
    assert "port_of_root" in {w.code for w in plan(session.answer("runtime", "local")).warnings}


def test_a_way_that_cannot_be_names_the_one_that_can() -> None:
    made = plan(session_of("wsl2-rtx5070-laptop-old-driver").answer("runtime", "docker"))
    blocker = next(b for b in made.blockers if b.code == "runtime_not_ready")
    assert "“Local environment” can" in blocker.detail
