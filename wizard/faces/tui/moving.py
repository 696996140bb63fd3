"""Running the mover from the walk: start, pause, go on, stop; it goes on in the background meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wizard.errors import WizardError
from wizard.faces.tui.views import MoveView
from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.faces.tui.app import WizardApp


def press(app: WizardApp, name: str) -> None:
    """One of the move step's buttons: "start", "pause" or "cancel"."""
    view = app.walk_screen.views.get("move")
    if not isinstance(view, MoveView):
        return
    if name == "start":
        start(app, view)
    elif name == "pause" and app.mover is not None:
        if view.state == "running":
            app.mover.pause()
            view.state = "paused"
        else:
            app.mover.resume()
            view.state = "running"
        view.draw()
    elif name == "cancel":
        stop(app)


def stop(app: WizardApp) -> None:
    if app.mover is not None:
        app.mover.cancel()


def start(app: WizardApp, view: MoveView) -> None:
    plan = app.walk.plan
    if plan is None or plan.move is None or view.state in ("running", "preparing"):
        return
    view.state, view.message = "preparing", ""
    view.draw()
    machine, source, destination = plan.machine, plan.move.source, plan.move.destination

    def tell(progress: Any) -> None:
        app.call_from_thread(_progress, app, progress)

    def work() -> None:
        from wizard.models.move import Mover, plan_move

        try:
            move_plan = plan_move(machine, source, destination, host=app.host)
            if not move_plan.ok:
                app.call_from_thread(_ended, app, "failed", "; ".join(r.message for r in move_plan.refusals))
                return
            app.mover = Mover(move_plan, on_progress=tell)
            app.call_from_thread(_state, app, "running")
            result = app.mover.run()
        except (WizardError, OSError) as error:
            app.mover = None
            app.call_from_thread(_ended, app, "failed", str(error))
            return
        app.mover = None
        app.call_from_thread(_ended, app, "done" if result.state.value == "proven" else "cancelled", "; ".join(result.warnings))

    app.run_worker(work, thread=True, group="move", exclusive=True)


def _view(app: WizardApp) -> MoveView | None:
    view = app.walk_screen.views.get("move")
    return view if isinstance(view, MoveView) else None


def _draw(app: WizardApp, view: MoveView) -> None:
    view.draw()
    app.walk_screen.show_frame()


def _progress(app: WizardApp, progress: Any) -> None:
    view = _view(app)
    if view is not None:
        view.progress = progress
        _draw(app, view)


def _state(app: WizardApp, state: str) -> None:
    view = _view(app)
    if view is not None:
        view.state = state
        _draw(app, view)


def _ended(app: WizardApp, state: str, message: str) -> None:
    view = _view(app)
    if view is None:
        return
    view.state, view.message = state, message
    _draw(app, view)
    if app.walk.step_id != "move":
        words = {"done": _("The model was copied and verified."), "failed": message, "cancelled": _("Copying was stopped.")}
        app.notify(words[state], severity="error" if state == "failed" else "information", timeout=8)
