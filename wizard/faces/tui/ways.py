"""A model that does not fit: the ways out that were worked out, to be taken by a key instead of being retyped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wizard.errors import WizardError
from wizard.faces.tui.text import DIM, TEXT, content
from wizard.fit_types import WayOut
from wizard.i18n import _, clause, labelled
from wizard.session import Layer
from wizard.steps import set_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from wizard.faces.tui.screen import WalkScreen
    from wizard.faces.tui.walk import Walk
    from wizard.plan_types import Plan
    from wizard.session import Session

BLOCKER = "does_not_fit"
UNSERVED = "no_release"  # other models are all that helps
MOST = 6  # that are offered
GO_ON = "on"


def blocked(plan: Plan | None) -> bool:
    """Whether it is the model that stands in the way: its size, or that no release serves it."""
    return plan is not None and any(b.code in (BLOCKER, UNSERVED) for b in plan.blockers)


def unserved(plan: Plan) -> bool:
    return any(b.code == UNSERVED for b in plan.blockers)


def ways_of(plan: Plan | None) -> list[WayOut]:
    """Those that are answers, and no new hardware."""
    if plan is None or not blocked(plan):
        return []
    if unserved(plan):
        others = (c for c in plan.choices.get("model", ()) if not c.against and not c.disabled and c.value != plan.value("model"))
        return [WayOut("model", labelled(c.label, c.note) if c.note else c.label, {"model": c.value}) for c in others][:MOST]
    if plan.fit is None:
        return []
    return [way for way in plan.fit.ways_out if way.changes][:MOST]


def answered_by(walk: Walk, way: WayOut) -> Session | None:
    """The walk's session with a way's answers; None where they are none to this plan."""
    session, plan = walk.session, walk.plan
    if session is None or plan is None:
        return None
    try:
        for key, value in way.changes.items():
            session = set_answer(session, plan, key, value, Layer.USER)
    except WizardError:
        return None
    return session


def that_work(walk: Walk) -> list[WayOut]:
    """The ways whose plan has no blocker left. One that takes a model that was not read yet is believed."""
    kept: list[WayOut] = []
    for way in ways_of(walk.plan):
        session = answered_by(walk, way)
        if session is None:
            continue
        unread = way.changes.get("model", "") not in ("", *session.models)
        if unread or not walk.plan_of(session).blockers:
            kept.append(way)
    return kept


def offer(screen: WalkScreen, *, go_on: Callable[[], None] | None = None) -> None:
    """Work out which ways there are, in a thread, and ask; ``go_on``: what leaving it as it is means."""
    walk = screen.walk

    def work() -> None:
        found = that_work(walk)
        screen.app.call_from_thread(_ask, screen, found, go_on)

    screen.run_worker(work, thread=True, exclusive=True, group="ways")


def _ask(screen: WalkScreen, ways: list[WayOut], go_on: Callable[[], None] | None) -> None:
    from wizard.faces.tui.whole import Choose

    options = [(str(n), way.text, "") for n, way in enumerate(ways)]
    if go_on is not None:
        options.append((GO_ON, _("Go on as it is"), _("nothing can be written in the end, unless something else makes room")))
    plan = screen.walk.plan
    other = plan is not None and unserved(plan)
    why = _("Other models, which run here and fit.") if other else _("What would make it fit. What you take becomes an answer of yours; Ctrl+R on its field takes it back.")
    none = _("Nothing that could be answered makes it fit here: take another model.")
    told = content([((why if ways else none) + "\n", TEXT if not ways else DIM)])

    def chosen(key: str | None) -> None:
        if key == GO_ON and go_on is not None:
            go_on()
        elif key is not None:
            take(screen, ways[int(key)])

    title = next((clause(b.title) for b in plan.blockers if b.code in (BLOCKER, UNSERVED)), "") if plan is not None else ""
    screen.app.push_screen(Choose(title, told, options), chosen)


def take(screen: WalkScreen, way: WayOut) -> None:
    """Make a way's answers the user's own."""
    walk = screen.walk
    model = way.changes.get("model")

    def rest(trouble: str) -> None:
        session = None if trouble else answered_by(walk, way)
        if session is None:
            screen.notify(trouble or _("This no longer applies."), severity="warning", timeout=5)
            return
        held = walk.answers.user
        with walk.together():
            for key, value in session.answers.user.items():
                if key != "model" and held.get(key) != value:  # each answer that is given is planned anew
                    walk.answer(key, value)
        screen.plan_changed()

    if model is not None:
        screen.wizard.choose_model(model, then=rest)
    else:
        rest("")
