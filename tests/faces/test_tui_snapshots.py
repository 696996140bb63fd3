"""Pictures of the key screens, on a made-up machine and plan. Look at each picture before a new one is accepted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.faces import tui_fake
from tests.faces.tui_play import fake_app, ready, until
from wizard.faces.tui.look import LIGHT
from wizard.faces.tui.views import MoveView
from wizard.models.move_types import Progress, Stage
from wizard.session import Answers

Before = Callable[[Pilot[None]], Awaitable[None]]
NARROW, WIDE = (80, 24), (120, 36)


def at_step(step: str, *keys: str) -> Before:
    """Go to a step, then press keys."""

    async def before(pilot: Pilot[None]) -> None:
        app: Any = pilot.app
        await ready(app, pilot)
        if step != "machine":
            app.walk.visited.update(s.id for s in app.walk.steps()[: [s.id for s in app.walk.steps()].index(step)])
            app.walk_screen.go_to(step)
            await ready(app, pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        screen = app.walk_screen
        await until(pilot, lambda: not screen.files_due and not screen.unsettled and all(w.is_finished for w in app.workers))
        _no_blinking(app)
        await pilot.pause()

    return before


def _no_blinking(app: Any) -> None:
    from textual.widgets import Input

    for field in app.screen.query(Input):
        field.cursor_blink = False
        field._cursor_visible = True


async def _moving(pilot: Pilot[None]) -> None:
    await at_step("move")(pilot)
    app: Any = pilot.app
    view = app.walk_screen.view
    assert isinstance(view, MoveView)
    total = int(16.3 * 1024**3)
    view.progress = Progress(int(total * 0.62), total, 5, 11, 214.0 * 1024**2, 30.0, Stage.COPY)
    view.state = "running"
    view.draw()
    app.walk_screen.show_frame()
    await pilot.pause()


@pytest.mark.parametrize(
    ("size", "before"),
    [
        pytest.param(WIDE, at_step("machine"), id="machine-wide"),
        pytest.param(NARROW, at_step("model"), id="model-narrow"),
        pytest.param(WIDE, at_step("flags", "tab", "tab", "ctrl+u", "4"), id="flags-changed-wide"),
        pytest.param(NARROW, at_step("access", "ctrl+u", *"8080"), id="access-error-narrow"),
        pytest.param(WIDE, at_step("flags", "f2"), id="plan-wide"),
        pytest.param(NARROW, at_step("flags", "f1"), id="help-narrow"),
        pytest.param((50, 12), at_step("machine"), id="too-small"),
    ],
)
def test_screen(snap_compare: Any, size: tuple[int, int], before: Before) -> None:
    assert snap_compare(fake_app(ahead=False), terminal_size=size, run_before=before)


def test_moving(snap_compare: Any) -> None:
    app = fake_app(Answers(cli={"model": tui_fake.ON_D}), ahead=False)
    assert snap_compare(app, terminal_size=NARROW, run_before=_moving)


def test_a_model_that_does_not_fit_light(snap_compare: Any) -> None:
    app = fake_app(Answers(cli={"model": tui_fake.LARGE}), theme=LIGHT.name, ahead=False)
    assert snap_compare(app, terminal_size=WIDE, run_before=at_step("model"))


def test_ascii(snap_compare: Any) -> None:
    assert snap_compare(fake_app(ascii_only=True, ahead=False), terminal_size=NARROW, run_before=at_step("runtime"))
