"""The copy of the model in the full-screen walk: asked for each model, told while it runs, taken up again."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.faces.tui_play import app_on, at, ready, said, session_of, until
from tests.models import move_tools as t
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.views import MoveView, ReviewView
from wizard.faces.tui.walk import Walk
from wizard.models import move
from wizard.plan import plan
from wizard.plan.after import MOVE_MODEL
from wizard.session import Answers

ON_D = "wsl2-rtx3060-model-on-d"


@cache
def slow_models() -> list[str]:
    """Models of the recorded machine that lie on a Windows drive and are worth a copy: they fit."""
    held = session_of(ON_D)
    paths = [m.path for m in held.found if m.mount_kind == "windows-drive" and m.complete]
    made = [plan(held.answer("model", path)) for path in paths]
    return [path for path, one in zip(paths, made, strict=True) if one.move is not None and one.move.wanted]


async def test_escape_stays_on_the_step_and_later_goes_on(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path / "out", Answers(cli={"model": slow_models()[0]}))
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "move")
        app.walk_screen.query_one("#next").focus()
        for _time in range(2):
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, Ask), 20)
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.walk_screen, 20)
            await ready(app, pilot)
            assert app.walk.step_id == "move"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask) and app.focused is not None, 20)
        await pilot.press("right", "enter")
        await until(pilot, lambda: app.walk.step_id == "runtime", 20)


async def test_another_model_is_asked_about_anew(tmp_path: Path) -> None:
    first, second = slow_models()[:2]
    app = app_on(ON_D, tmp_path / "out", Answers(user={"model": first}))
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, "move")
        view = app.walk_screen.view
        assert isinstance(view, MoveView)
        app.walk_screen.query_one("#next").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask) and app.focused is not None, 20)
        await pilot.press("right", "enter")
        await until(pilot, lambda: app.walk.step_id == "runtime", 20)
        view.state, view.job = "done", view.job_of(app.walk.plan)
        assert app.walk_screen.wizard.moved()
        app.walk.answer("model", second)
        assert not app.walk_screen.wizard.moved()
        await at(app, pilot, "move")
        assert view.state == "idle"
        app.walk_screen.query_one("#next").focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask), 20)


def test_a_folder_that_was_given_for_a_model_is_that_models() -> None:
    first, second = slow_models()[:2]
    walk = Walk(answers=Answers(user={"model": first}))
    walk.use(session_of(ON_D))

    def place() -> str:
        assert walk.plan is not None
        assert walk.plan.move is not None
        return walk.plan.move.destination

    proposed = place()
    walk.answer("move_to", "/home/user/models/mine")
    assert place() == "/home/user/models/mine"
    walk.answer("model", second)
    assert place().endswith("/" + second.rstrip("/").rsplit("/", 1)[-1])
    assert walk.answers.get("move_to") is None
    walk.answer("model", first)
    assert place() == "/home/user/models/mine"
    walk.forget("move_to")
    walk.answer("model", second)
    walk.answer("model", first)
    assert place() == proposed
    # A folder of models is for all of them.
    walk.answer("move_to", "/data/models/")
    walk.answer("model", second)
    assert place() == "/data/models/" + second.rstrip("/").rsplit("/", 1)[-1]


async def test_what_is_being_copied_is_not_to_be_copied_by_hand(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path / "out", Answers(cli={"model": slow_models()[0]}))
    async with app.run_test(size=(100, 44)) as pilot:
        await at(app, pilot, "move")
        moving = app.walk_screen.view
        assert isinstance(moving, MoveView)
        await at(app, pilot, "review")
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        wizard = app.walk_screen.wizard

        def commands() -> list[str]:
            return [c for s in wizard.to_type() for c in s.commands]

        assert any(" move " in c for c in commands())
        moving.state, moving.job = "running", moving.job_of(app.walk.plan)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Ask) and app.focused is not None, 20)
        await pilot.press("enter")
        await until(pilot, lambda: view.written and app.screen is app.walk_screen, 20)
        await until(pilot, lambda: "The model is being copied" in said(app), 20)
        assert not any(" move " in c for c in commands())
        assert MOVE_MODEL in {s.key for s in wizard.to_type()}
        moving.state = "done"
        app.walk_screen.show()
        await until(pilot, lambda: "The model is being copied" not in said(app), 20)
        assert MOVE_MODEL not in {s.key for s in wizard.to_type()}
        # Left while it ran: it is stopped, and goes on by hand.
        moving.state, wizard._stop = "running", True
        assert any(" move " in c for c in commands())


def stopped_copy(tmp_path: Path) -> tuple[str, str]:
    """(source, destination) of a copy that was stopped in the middle."""
    source = t.model_folder(tmp_path / "drive" / "m")
    (source / "big.safetensors").write_bytes(os.urandom(24 * t.MIB))
    moved = move.plan_move(t.machine(tmp_path / "home"), str(source), str(tmp_path / "home" / "models" / "m"), env={}, sample=False)

    def stop(progress: move.Progress) -> None:
        if progress.bytes_done > 0:
            mover.cancel()

    mover = move.Mover(moved, on_progress=stop, interval_s=0.0)
    mover.run()
    return str(source), moved.dst


async def test_a_copy_that_was_stopped_is_taken_up_again(tmp_path: Path) -> None:
    source, destination = stopped_copy(tmp_path)
    if move.status(destination).state is not move.MoveState.PARTIAL:
        pytest.skip("the copy was too quick to be stopped")
    held = session_of(ON_D)
    here = replace(held, machine=replace(held.machine, name="this machine"))
    app = app_on(ON_D, tmp_path / "out", Answers(cli={"model": slow_models()[0]}), prepared=here)
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(app, pilot)

        def planner(session: Any, made: Any = app.walk.planner) -> Any:
            one = made(session)
            return one if one.move is None else replace(one, move=replace(one.move, source=source, destination=destination))

        app.walk.planner = planner
        assert app.walk.session is not None
        app.walk.use(app.walk.session)
        await at(app, pilot, "runtime")
        await until(pilot, lambda: "was stopped" in said(app), 20)
        await at(app, pilot, "move")
        await until(pilot, lambda: "lies there already" in said(app), 20)
        assert "Go on copying" in str(app.screen.query_one("#move-start").render())


async def test_a_recorded_machines_copy_is_only_played(tmp_path: Path) -> None:
    app = app_on(ON_D, tmp_path / "out", Answers(cli={"model": slow_models()[0]}))
    async with app.run_test(size=(100, 40)) as pilot:
        await at(app, pilot, "move")
        await until(pilot, lambda: "only played" in said(app), 20)
