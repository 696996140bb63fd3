"""Helpers that drive the full-screen walk in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widget import Widget

from tests.faces import tui_fake
from wizard.faces.tui.app import Start, WizardApp
from wizard.faces.tui.fields import Field
from wizard.faces.tui.views import StepView
from wizard.faces.tui.widgets import Panel
from wizard.host import open_host
from wizard.session import Answers, Session, gather

MACHINES = Path(__file__).resolve().parents[1] / "machines"


@cache
def session_of(machine: str) -> Session:
    """All facts of a recorded machine, gathered once for all tests."""
    return gather(open_host(MACHINES / machine), Answers())


def app_on(machine: str, out_dir: Path | str | None = None, answers: Answers | None = None, **more: Any) -> WizardApp:
    """The walk on a recorded machine, without probing it anew."""
    more.setdefault("prepared", session_of(machine))
    start = Start(open_host(MACHINES / machine), answers or Answers(), out_dir=None if out_dir is None else str(out_dir))
    return WizardApp(lambda: start, **more)


def fake_app(answers: Answers | None = None, **more: Any) -> WizardApp:
    """The walk on a made-up machine with a made-up plan: quick, and the same whatever the real plan says."""
    more.setdefault("prepared", tui_fake.session())
    more.setdefault("planner", tui_fake.planner)
    start = Start(open_host(MACHINES / "wsl2-rtx4090-desktop"), answers or Answers())
    return WizardApp(lambda: start, **more)


async def ready(app: WizardApp, pilot: Pilot[None], timeout_s: float = 90.0) -> None:
    """Wait until the plan stands and nothing is under way."""

    def at_rest() -> bool:
        wizard = app.wizard
        if wizard is None or wizard.walk.plan is None or wizard.models_looking:
            return False
        if wizard.walk_screen.unsettled:
            return False
        return all(w.is_finished or w.group == "ahead" for w in app.workers)

    await until(pilot, at_rest, timeout_s)
    await pilot.pause()


async def until(pilot: Pilot[None], true: Callable[[], bool], timeout_s: float = 90.0) -> None:
    """Wait until ``true()`` holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not true():
        assert loop.time() < end, "waited in vain"
        await asyncio.sleep(0.01)


async def shows(app: WizardApp, pilot: Pilot[None], *texts: str) -> None:
    """Wait until every one of ``texts`` stands on the screen, however its lines are folded."""

    def there() -> bool:
        shown = " ".join(screen_text(app).split())
        return all(t in shown for t in texts)

    try:
        await until(pilot, there)
    except AssertionError:
        raise AssertionError(f"{texts} never stood on the screen:\n{screen_text(app)}") from None


async def push(app: WizardApp, pilot: Pilot[None], button: str) -> None:
    """Press a button by keyboard, as soon as it is shown."""
    widget = app.screen.query_one(f"#{button}")
    await until(pilot, lambda: bool(widget.display))

    def focused() -> bool:
        # The focus moves a turn of the loop later, and a dialog that is just being shown takes it for itself once.
        if app.focused is not widget:
            widget.focus()
        return app.focused is widget

    await until(pilot, focused)
    await pilot.press("space")


async def at(app: WizardApp, pilot: Pilot[None], step_id: str) -> None:
    """Go to a step as the palette does."""
    await ready(app, pilot)
    app.walk_screen.go_to(step_id)
    await ready(app, pilot)
    assert app.walk.step_id == step_id


async def focused(app: WizardApp, pilot: Pilot[None], step_id: str, key: str) -> tuple[StepView, Field]:
    """Go to a step and put the focus into the field of a question there."""
    await at(app, pilot, step_id)
    view = app.walk_screen.view
    assert view is not None
    field = view.field_of(key)
    assert field is not None
    field.control.focus()
    await until(pilot, lambda: app.focused is field.control)
    return view, field


async def write(app: WizardApp, pilot: Pilot[None]) -> None:
    """From anywhere to the review, and write what it shows, as Enter does."""
    await at(app, pilot, "review")
    await pilot.press("enter")
    await shows(app, pilot, "Write the files")
    await pilot.press("enter")
    await ready(app, pilot)


async def by_palette(app: WizardApp, pilot: Pilot[None], words: str) -> None:
    """Take the first thing that the palette finds for ``words``."""
    await pilot.press("ctrl+p")
    await until(pilot, lambda: app.screen is not app.walk_screen)
    await pilot.press(*words, "enter")


async def type_into(app: WizardApp, pilot: Pilot[None], key: str, text: str) -> None:
    """Replace what stands in the field of a question by typing."""
    field = app.walk_screen.view.field_of(key)  # type: ignore[union-attr]
    assert field is not None
    field.control.focus()
    await pilot.pause()
    await pilot.press("ctrl+u", *[_key(c) for c in text])
    app.walk_screen.settle()
    await pilot.pause()


def _key(char: str) -> str:
    names = {" ": "space", "/": "slash", ".": "full_stop", "-": "minus", "_": "underscore", "=": "equals_sign", "~": "tilde"}
    return names.get(char, char)


def screen_text(app: WizardApp) -> str:
    """What stands on the screen, line by line."""
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)


def said(app: WizardApp) -> str:
    """All texts of the screen in one line, however they are folded: panels, notes of fields, notifications."""

    def shown(widget: Widget) -> bool:
        return all(w.display for w in widget.ancestors_with_self if isinstance(w, Widget))

    texts = [str(p.content) for p in app.screen.query(Panel) if shown(p)]
    texts += [f.note for f in app.screen.query(Field) if shown(f)]
    texts += [n.message for n in app._notifications]
    return " ".join(" ".join(texts).split())
