"""Between key presses: the other steps are brought up to date before anyone goes there.

A step that is entered for the first time has to be made, filled, laid out and drawn. Each of these takes longer than
a key press may; done while the user reads, arriving only has to show what stands ready. A view is laid out under the
one in view, which covers it, so nothing of this is seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from textual.css.query import NoMatches
from textual.timer import Timer

from wizard.faces.tui.views import StepView, view_for

if TYPE_CHECKING:
    from wizard.faces.tui.screen import WalkScreen

PAUSE_S = 0.1  # between two pieces of this work: a key press comes in between
QUIET_S = 0.4  # nothing is done ahead so soon after a key press: the next one may follow
ROUNDS = 3  # of laying out, until scroll bars and sizes have settled


class Ahead:
    """What is done ahead for one walk."""

    def __init__(self, screen: WalkScreen) -> None:
        self.screen = screen
        self.lock = asyncio.Lock()  # held while a view is being made or laid out
        self._timer: Timer | None = None
        self._hurry = asyncio.Event()  # someone waits for the lock
        self._settled = False

    def later(self) -> None:
        """Something may be out of date: look after the next pause."""
        if self._timer is None and self.screen.walk.plan is not None and self.screen.wizard.makes_ahead:
            self._timer = self.screen.set_timer(PAUSE_S, self._begin)

    async def interrupt(self) -> None:
        """A step is entered now: what is under way is left as soon as it is whole."""
        self._hurry.set()
        try:
            async with self.lock:
                pass
        finally:
            self._hurry.clear()

    def _begin(self) -> None:
        # Not within the screen's own loop of messages: laying out waits for it.
        self._timer = None
        work: Any = self._next  # not its coroutine, which would be complained of where the work is never begun
        self.screen.run_worker(work, group="ahead")

    async def _next(self) -> None:
        screen = self.screen
        if not screen.is_mounted or screen.walk.plan is None or not screen.is_current:
            return  # it is called again once the walk is in view, or has a plan
        if screen.busy or time.monotonic() - screen.wizard.app.last_key_s < QUIET_S:
            self.later()
            return
        async with self.lock:
            # Where the application is just ending, the view is half taken down already.
            with contextlib.suppress(NoMatches):
                if await self._one():
                    self.later()
                elif not self._settled:
                    self._settled = True
                    screen.wizard.app.keep_for_good()

    async def _one(self) -> bool:
        """One piece of work. False when there is none left."""
        screen, walk = self.screen, self.screen.walk
        steps, at = walk.steps(), walk.index()
        for step in (*steps[at + 1 :], *reversed(steps[:at])):
            view = screen.views.get(step.id)
            if view is None:
                view = screen.views[step.id] = view_for(step)
                view.display = False
                await screen.query_one("#steps").mount(view)
                return True
            screen.tell(view)
            if view.is_mounted and not view.is_brought_up(walk):
                view.bring_up(walk)
                await self._lay_out(view)
                return True
        return False

    async def _lay_out(self, view: StepView) -> None:
        """Lay ``view`` out and draw it, covered by the one in view."""
        screen = self.screen
        view.can_focus_children = False
        view.styles.layer = "under"
        view.display = True
        try:
            for _round in range(ROUNDS):
                laid = asyncio.Event()
                screen.call_after_refresh(laid.set)
                await _first(laid, self._hurry)
                if self._hurry.is_set() or not screen.is_current:
                    break
        finally:
            view.can_focus_children = True
            view.styles.layer = "base"
            view.display = view is screen.view


async def _first(*events: asyncio.Event) -> None:
    """Wait for one of ``events``."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()
