"""The full-screen walk, driven by the keyboard on recorded machines."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import TextArea
from textual.worker import WorkerFailed

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
    type_into,
    until,
)
from wizard.errors import BadInput
from wizard.faces import resume
from wizard.faces.tui import app as tui
from wizard.faces.tui.views import MachineView, ModelView, MoveView, ReviewView
from wizard.faces.tui.whole import Choose
from wizard.faces.tui.widgets import LineInput, Rows
from wizard.host import open_host
from wizard.plan import plan as make_plan
from wizard.session import Answers, Layer, Session
from wizard.steps import QUESTIONS

DESKTOP = "wsl2-rtx4090-desktop"
ON_D = "wsl2-rtx3060-model-on-d"


async def enter_until_written(app: tui.WizardApp, pilot: Any, presses: int = 24) -> ReviewView:
    """Press Enter, and nothing else, until the files are written."""
    await ready(app, pilot)
    for _n in range(presses):
        view = app.walk_screen.view
        if isinstance(view, ReviewView) and view.written:
            return view
        await pilot.press("enter")
        await ready(app, pilot)
    raise AssertionError(f"nothing was written after {presses} times Enter:\n{screen_text(app)}")


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "machine",
    [
        DESKTOP,
        "native-4x-h200",
        *(pytest.param(m, marks=SLOW) for m in ("native-t4", "wsl2-2x-rtx3090", "native-rtx5090", "native-mi300x", "wsl2-container", ON_D)),
    ],
)
async def test_enter_alone_writes_what_generate_writes(machine: str, tmp_path: Path) -> None:
    from wizard.outputs import files

    out = tmp_path / "out"
    app = app_on(machine, out)
    async with app.run_test(size=(80, 24)) as pilot:
        await enter_until_written(app, pilot)
    expected = files(make_plan(session_of(machine).answer("out_dir", str(out), Layer.CLI)))
    assert expected
    assert {f.path: (out / f.path).read_bytes() for f in expected} == {f.path: f.content for f in expected}
    assert app.walk.answers.user == {}


async def test_enter_at_once_is_kept_until_the_machine_has_answered(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path, prepared=None)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.wizard is not None and app.screen is app.walk_screen)
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "model"
        assert app.walk.plan is not None
        assert len(app.walk.plan.session.found) >= 2


@pytest.mark.parametrize("machine", ["wsl1", pytest.param("wsl2-rtx5070-laptop-old-driver", marks=SLOW)])
async def test_blockers_are_shown_with_cures_and_nothing_is_written(machine: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    app = app_on(machine, out)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(app, pilot)
        plan = app.walk.plan
        assert plan is not None
        if not plan.blockers:
            pytest.skip("this machine can serve on its CPU")
        assert "Blocker" in screen_text(app)
        # Nothing else is worth asking on a machine that can run no model at all.
        assert [s.id for s in app.walk.steps()] == ["machine", "review"]
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "review"
        assert "Nothing can be written yet" in said(app)
        assert plan.blockers[0].title in said(app)
        # There is nothing to write: Enter asks anew, and so do a key of its own and a button that Tab reaches.
        assert "Write" not in screen_text(app)
        assert "Enter Ask again" in screen_text(app).splitlines()[-1]
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.step_id == "machine")
        await ready(app, pilot)
        await at(app, pilot, "review")
        for _n in range(6):
            await pilot.press("tab")
            if app.focused is not None and app.focused.id == "review-again":
                break
        assert app.focused is not None
        assert app.focused.id == "review-again"
        await pilot.press("a")
        await until(pilot, lambda: app.walk.step_id == "machine")
        await ready(app, pilot)
        assert app.walk.plan is not None
        assert app.walk.plan is not plan
        assert plan.blockers[0].title in said(app)
    assert not out.exists()


async def test_a_cured_machine_is_asked_again_and_walked_through(tmp_path: Path) -> None:
    app = app_on("wsl1", tmp_path / "out")
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(app, pilot)
        assert app.wizard is not None
        app.wizard.host = open_host(MACHINES / DESKTOP)
        await push(app, pilot, "ask-again")
        await until(pilot, lambda: "model" in {s.id for s in app.walk.steps()} and app.walk.plan is not None)
        await ready(app, pilot)
        assert "This distro runs on WSL1" not in said(app)
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "model"


async def test_back_and_forth_loses_nothing() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "port", "9123")
        await pilot.press("escape")
        await ready(app, pilot)
        assert app.walk.step_id == "wsl"
        assert app.walk.answers.get("port") == (9123, Layer.USER)
        await pilot.press("enter")
        await ready(app, pilot)
        field = app.walk_screen.view.field_of("port")
        assert field.control.value == "9123"


async def test_what_is_wrong_is_said_beside_the_field_and_stays_there() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "port", "99999")
        field = app.walk_screen.view.field_of("port")
        assert field.error == "Must be at most 65535."
        assert "! Must be at most 65535." in screen_text(app)
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "access"
        assert app.focused is field.control
        await pilot.press("escape")
        await ready(app, pilot)
        await pilot.press("enter")
        await ready(app, pilot)
        assert field.control.value == "99999", "going back must not throw away what was typed"
        await type_into(app, pilot, "port", "8123")
        assert field.error == ""
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "review"


async def test_an_answer_like_the_proposal_is_not_kept() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "port", "8001")
        assert app.walk.answers.get("port") is not None
        await type_into(app, pilot, "port", "8000")
        assert app.walk.answers.get("port") is None
        await type_into(app, pilot, "port", "8002")
        await pilot.press("ctrl+r")
        assert app.walk.answers.get("port") is None
        assert app.walk_screen.view.field_of("port").control.value == "8000"


async def test_a_changed_purpose_moves_the_fields_that_follow_but_not_those_set_by_hand() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "flags")
        await type_into(app, pilot, "max_num_seqs", "3")
        before = app.walk_screen.view.field_of("max_model_len").control.value
        chooser = app.walk_screen.view.field_of("intent").control
        chooser.focus()
        await pilot.press("home", "down")
        app.walk_screen.settle()
        await ready(app, pilot)
        assert app.walk.answers.get("intent") is not None or chooser.value == app.walk.proposal("intent")
        for _n in range(8):
            await pilot.press("down")
            app.walk_screen.settle()
            if app.walk_screen.view.field_of("max_model_len").control.value != before:
                break
        assert app.walk_screen.view.field_of("max_model_len").control.value != before
        assert app.walk_screen.view.field_of("max_num_seqs").control.value == "3"
        assert app.walk.answers.get("max_num_seqs") == (3, Layer.USER)


async def test_a_hidden_answer_is_kept() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "wsl")
        await type_into(app, pilot, "wsl_swap_gib", "11")
        toggle = app.walk_screen.view.field_of("wsl_write").control
        toggle.focus()
        await pilot.press("space")
        app.walk_screen.settle()
        await pilot.pause()
        swap = app.walk_screen.view.field_of("wsl_swap_gib")
        assert not swap.display
        assert app.walk.answers.get("wsl_swap_gib") == (11, Layer.USER)
        await pilot.press("space")
        app.walk_screen.settle()
        await pilot.pause()
        assert swap.display
        assert swap.control.value == "11"


async def test_sizes() -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        for size, rail in (((80, 24), False), ((100, 30), True), ((160, 50), True), ((60, 18), False)):
            await pilot.resize_terminal(*size)
            # A resize is laid out over several turns of the loop: what must come is waited for.
            await until(pilot, lambda rail=rail: all((t in screen_text(app)) is rail for t in ("Steps", "GPU memory")))  # type: ignore[misc]
            await until(pilot, lambda: "This machine" in screen_text(app))
            await pilot.press("f2")
            await shows(app, pilot, "vllm serve")
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.walk_screen)
        for size in ((59, 20), (80, 17)):
            await pilot.resize_terminal(*size)
            await shows(app, pilot, "at least 60 and 18 are needed")
            await pilot.press("enter")
            await ready(app, pilot)
            assert app.walk.step_id == "machine"
        await pilot.resize_terminal(80, 24)
        await shows(app, pilot, "This machine")


async def test_resizing_keeps_what_is_typed() -> None:
    app = fake_app()
    async with app.run_test(size=(120, 36)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "port", "8077")
        for size in ((60, 18), (50, 10), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert app.walk_screen.view.field_of("port").control.value == "8077"


async def test_a_hanging_probe_is_named_and_enter_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import wizard.probes as probes

    release = threading.Event()

    def hang(host: Any) -> None:
        release.wait(30)

    changed = tuple(replace(p, ask=hang) if p.name == "docker" else p for p in probes.PROBES)
    monkeypatch.setattr(probes, "PROBES", changed)
    app = app_on(DESKTOP, prepared=None)
    try:
        async with app.run_test(size=(100, 30)) as pilot:
            await until(pilot, lambda: app.wizard is not None and app.walk_screen.view is not None)
            view = app.walk_screen.view
            assert isinstance(view, MachineView)
            await until(pilot, lambda: [line.name for line in view.waiting()] == ["docker"])
            view.probes["docker"].started = time.monotonic() - 3
            await until(pilot, lambda: "no answer for 3 s" in screen_text(app))  # drawn at its next tick
            text = screen_text(app)
            assert "Docker" in text
            await pilot.press("enter")
            await ready(app, pilot)
            assert app.walk.step_id == "model"
            assert app.walk.plan is not None
            assert not app.walk.plan.machine.docker.engine.known
            run = next(r for r in app.walk.plan.machine.runs if r.name == "docker")
            assert run.timed_out
    finally:
        release.set()


async def test_a_model_that_is_not_there_is_said_beside_the_line(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        view = app.walk_screen.view
        assert isinstance(view, ModelView)
        typed = view.query_one("#typed", LineInput)
        typed.focus()
        typed.value = "/nowhere/at/all"
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "model"
        assert "/nowhere/at/all" in view.error
        assert app.walk.answers.get("model") is None
        typed.value = "someone/unknown-model"
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.answers.get("model") == ("someone/unknown-model", Layer.USER)
        assert view.error == ""
        assert view.query_one("#models", Rows).cursor_key == "someone/unknown-model"


async def test_choosing_in_the_list_forgets_what_was_typed(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        view = app.walk_screen.view
        assert isinstance(view, ModelView)
        typed = view.query_one("#typed", LineInput)
        typed.focus()
        typed.value = "/nowhere/at/all"
        await pilot.press("enter")
        await ready(app, pilot)
        assert view.error
        view.query_one("#models", Rows).focus()
        await pilot.press("up")
        await ready(app, pilot)
        assert typed.value == ""
        assert view.error == ""
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id != "model"


async def test_moving_through_the_models_plans_anew() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        rows = app.walk_screen.view.query_one("#models", Rows)
        first = rows.cursor_key
        await pilot.press("down")
        await ready(app, pilot)
        assert rows.cursor_key != first
        assert app.walk.answers.get("model") == (rows.cursor_key, Layer.USER)
        await pilot.press("up")
        await ready(app, pilot)
        assert app.walk.answers.get("model") is None


async def test_enter_right_after_the_cursor_takes_the_row_under_it() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "model")
        rows = app.walk_screen.view.query_one("#models", Rows)
        await pilot.press("down", "enter")
        chosen = rows.cursor_key
        await until(pilot, lambda: isinstance(app.screen, Choose))  # this one does not fit
        await pilot.press("end", "enter")
        await until(pilot, lambda: app.walk.step_id != "model")
        assert app.walk.answers.get("model") == (chosen, Layer.USER)


async def test_the_reason_behind_every_memory_figure_is_one_key_away(tmp_path: Path) -> None:
    from wizard.faces.tui import panes

    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "model")
        await pilot.press("f2")
        await ready(app, pilot)
        plan = app.walk.plan
        assert plan is not None
        assert plan.fit is not None
        shown = panes.whole_plan(app.walk, app.glyphs, 70, ()).plain
        assert plan.fit.lines
        assert all(line.reason in shown for line in plan.fit.lines)


# -- moving -----------------------------------------------------------------------------------------------------


def on_drive_d() -> Answers:
    model = next(m for m in session_of(ON_D).found if m.mount_kind == "windows-drive" and m.complete)
    return Answers(cli={"model": model.path})


async def test_the_copy_is_offered_on_the_way_and_can_wait(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path, on_drive_d())
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "move")
        await pilot.press("enter")
        await shows(app, pilot, "Copy the model now?")
        await pilot.press("right", "enter")
        await ready(app, pilot)
        assert app.walk.step_id == "runtime"
        view = app.walk_screen.views["move"]
        assert isinstance(view, MoveView)
        assert view.state == "idle"


async def test_a_simulated_move_runs_pauses_stops_and_is_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.models import move

    original = move.Mover.__init__
    lasts_s = [30.0]

    def timed(self: Any, plan: Any, on_progress: Any = None, **more: Any) -> None:
        original(self, plan, on_progress, interval_s=0.02, simulated_seconds=lasts_s[0])

    monkeypatch.setattr(move.Mover, "__init__", timed)
    app = app_on(ON_D, tmp_path, on_drive_d())
    async with app.run_test(size=(100, 44)) as pilot:
        await at(app, pilot, "move")
        view = app.walk_screen.view
        assert isinstance(view, MoveView)
        await push(app, pilot, "move-start")
        await until(pilot, lambda: view.progress is not None and view.progress.bytes_done > 0)
        assert view.state == "running"
        await push(app, pilot, "move-pause")
        await until(pilot, lambda: view.state == "paused")
        await shows(app, pilot, "copy paused")
        await push(app, pilot, "move-pause")
        await until(pilot, lambda: view.state == "running")
        await shows(app, pilot, "left")
        await push(app, pilot, "move-cancel")
        await until(pilot, lambda: view.state == "cancelled")
        assert "only played, and nothing is kept" in said(app)
        lasts_s[0] = 0.3
        await push(app, pilot, "move-start")
        await until(pilot, lambda: view.state == "done")
        assert "Done" in screen_text(app)


# -- flags ------------------------------------------------------------------------------------------------------


async def test_a_single_flag_is_found_by_typing_and_set(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await at(app, pilot, "flags")
        plan = app.walk.plan
        assert plan is not None
        row = next((r for r in plan.flag_rows if r.kind == "int" and r.value is None and r.dest not in QUESTIONS), None)
        assert row is not None
        app.walk_screen.query_one("#flag-filter", LineInput).focus()
        app.walk_screen.query_one("#flag-filter", LineInput).value = row.flag
        await pilot.pause()
        await pilot.press("enter")
        rows = app.walk_screen.query_one("#flag-rows", Rows)
        assert app.focused is rows
        rows.point_at(row.dest)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("n", "o", "enter")
        await pilot.pause()
        assert app.screen is not app.walk_screen, "a wrong value must not be taken"
        await pilot.press("ctrl+u", "7", "enter")
        await ready(app, pilot)
        assert app.screen is app.walk_screen
        assert app.walk.answers.get(row.dest) is not None
        assert row.flag in (app.walk.plan.argv if app.walk.plan else ())


async def test_a_pasted_command_is_checked_and_taken_over(tmp_path: Path) -> None:
    app = app_on(DESKTOP, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await at(app, pilot, "flags")
        app.walk_screen.open_paste()
        await pilot.pause()
        area = app.screen.query_one(TextArea)
        area.text = "nothing of that kind here"
        await push(app, pilot, "check")
        await pilot.pause()
        assert "no vLLM command was found" in said(app)
        area.text = (
            "I start it like this:\n\nvllm serve ~/models/x \\\n --max-model-len 4096 --max-num-seqs 3 \\\n"
            " --disable-mm-warmup --seed 7 --api-key sk-planted\nand it works"
        )
        await push(app, pilot, "check")
        await pilot.pause()
        assert "refuses it" in said(app)
        assert "--disable-mm-warmup" in said(app)
        await push(app, pilot, "take")
        await ready(app, pilot)
        # The model is not here, and a secret is never taken from a command: both are said.
        await shows(app, pilot, "Left out:", "~/models/x", "There is no model at", "--api-key", "a secret")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        assert app.walk.answers.get("max_model_len") == (4096, Layer.USER)
        assert app.walk.answers.get("max_num_seqs") == (3, Layer.USER)
        assert app.walk.answers.get("seed") is not None
        assert not {"model", "api_key"} & app.walk.answers.keys()
        assert app.walk_screen.view.field_of("max_model_len").control.value == "4096"


# -- secrets ----------------------------------------------------------------------------------------------------


async def test_a_secret_is_kept_nowhere_but_in_the_environment_file(tmp_path: Path) -> None:
    secret = "hf_plantedTokenValue123"
    out, keep = tmp_path / "out", tmp_path / "keep" / "session.toml"
    app = app_on(DESKTOP, out, keep=keep)
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "hf_token", secret)
        assert secret not in screen_text(app)
        assert app.walk.secrets.get("hf_token") == secret
        await enter_until_written(app, pilot, presses=4)
        assert secret not in app.export_screenshot()
    holders = [p.name for p in tmp_path.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    assert holders == ["vllm.env"]
    assert (out / "vllm.env").stat().st_mode & 0o777 == 0o600
    assert secret not in repr(app.walk)


# -- going on from last time ------------------------------------------------------------------------------------


async def test_the_walk_is_kept_after_each_step_and_offered_again(tmp_path: Path) -> None:
    keep = tmp_path / "session.toml"
    app = fake_app(keep=keep)
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "access")
        await type_into(app, pilot, "port", "8500")
        await pilot.press("enter")
        await ready(app, pilot)
    saved, trouble = resume.load(keep)
    assert trouble is None
    assert saved is not None
    assert saved.answers == {"port": 8500}
    assert saved.step == "review"

    again = fake_app(keep=keep)
    async with again.run_test(size=(100, 30)) as pilot:
        await ready(again, pilot)
        assert "Go on from last time?" in screen_text(again)
        await pilot.press("enter")
        await ready(again, pilot)
        assert again.walk.step_id == "review"
        assert again.walk.answers.get("port") == (8500, Layer.FILE)
        assert again.walk.plan is not None
        assert again.walk.plan.value("port") == 8500

    anew = fake_app(keep=keep)
    async with anew.run_test(size=(100, 30)) as pilot:
        await ready(anew, pilot)
        await pilot.press("escape")
        await ready(anew, pilot)
        assert anew.walk.step_id == "machine"
        assert anew.walk.answers.get("port") is None


async def test_a_spoilt_file_of_kept_answers_is_said_and_passed_over(tmp_path: Path) -> None:
    keep = tmp_path / "session.toml"
    keep.write_bytes(b"answers = [[[")
    app = fake_app(keep=keep)
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.pause()
        assert app.screen is app.walk_screen
        assert "not valid TOML" in said(app)


# -- keys and help ----------------------------------------------------------------------------------------------


async def test_the_footer_holds_at_most_six_keys_and_fits() -> None:
    app = fake_app()
    async with app.run_test(size=(60, 18)) as pilot:
        await ready(app, pilot)
        for step in app.walk.steps():
            await at(app, pilot, step.id) if step.id != app.walk.step_id else None
            last = screen_text(app).splitlines()[-1]
            assert last.rstrip().endswith("Quit")


async def test_help_says_what_a_field_means_and_where_its_value_comes_from() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "access")
        await pilot.press("f1")
        await shows(app, pilot, "The TCP port of the API.", "Comes from", "--set port=VALUE")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)


async def test_the_palette_goes_to_a_step() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.press("ctrl+p", *"acces")
        await pilot.pause()
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.walk.step_id == "access"


async def test_every_field_can_be_reached_by_tab_alone() -> None:
    app = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        for step in app.walk.steps():
            await at(app, pilot, step.id) if step.id != app.walk.step_id else None
            wanted = {f.control for f in app.walk_screen.view.fields()}
            assert wanted <= set(app.screen.focus_chain), step.id


# -- when things go wrong ---------------------------------------------------------------------------------------


async def test_a_crash_ends_with_code_1_and_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(session: Session) -> Any:
        token = "hf_plantedTokenValue123"
        raise RuntimeError(f"boom {token[:3]}")

    app = app_on(DESKTOP, planner=broken)
    with pytest.raises(WorkerFailed):
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.return_code is not None)
    assert app.return_code == 1
    app.crash = app.crash or RuntimeError("boom")
    tui._last_words(app)
    told = capsys.readouterr()
    assert "Traceback" not in told.err + told.out
    assert "--debug" in told.err
    assert "plantedToken" not in told.err + told.out


def test_without_a_terminal_the_flag_to_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        def isatty(self) -> bool:
            return False

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Pipe())
    monkeypatch.setattr("sys.stderr", Terminal())
    with pytest.raises(BadInput, match="--plain"):
        tui.run(open_host(MACHINES / DESKTOP), Answers())
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(BadInput, match="--plain"):
        tui.run(open_host(MACHINES / DESKTOP), Answers())


async def test_an_output_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("x")
    app = app_on(DESKTOP, blocked / "below")
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "review")
        await pilot.press("enter")
        await ready(app, pilot)
        assert app.screen is app.walk_screen
        assert "cannot be written" in said(app)


async def test_a_step_that_is_just_being_made_ahead_is_entered_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from textual.containers import Container

    mount, slow = Container.mount, asyncio.Event()

    def slowly(self: Container, *widgets: Any, **more: Any) -> Any:
        made = mount(self, *widgets, **more)

        async def later() -> None:
            await slow.wait()
            await made

        return later() if self.id == "steps" and widgets[0].id == "step-model" else made

    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.wizard is not None and app.walk.plan is not None)
        monkeypatch.setattr(Container, "mount", slowly)
        await until(pilot, lambda: "model" in app.walk_screen.views)
        app.walk_screen.go_to("model")
        await asyncio.sleep(0.05)
        assert app.walk.step_id == "machine"
        slow.set()
        await until(pilot, lambda: app.walk.step_id == "model")
        await ready(app, pilot)
        assert isinstance(app.walk_screen.view, ModelView)
