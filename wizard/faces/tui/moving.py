"""Running the mover from the walk: start, pause, go on, stop; it goes on in the background meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wizard.errors import WizardError
from wizard.faces.tui.dialogs import Ask
from wizard.faces.tui.text import TEXT, content
from wizard.faces.tui.views import MoveView
from wizard.i18n import _, clauses
from wizard.program import spelt
from wizard.session import THIS_MACHINE
from wizard.steps import MOVE

if TYPE_CHECKING:
    from wizard.apply import Change
    from wizard.faces.tui.work import Wizard
    from wizard.models.move import MovePlan


def press(wizard: Wizard, name: str) -> None:
    """One of the move step's buttons: "start", "pause" or "cancel"."""
    view = wizard.walk_screen.views.get("move")
    if not isinstance(view, MoveView):
        return
    if name == "start":
        start(wizard, view)
    elif name == "pause" and wizard.mover is not None:
        if view.state == "running":
            wizard.mover.pause()
            view.state = "paused"
        else:
            wizard.mover.resume()
            view.state = "running"
        view.draw()
    elif name == "cancel":
        stop(wizard)


def stop(wizard: Wizard) -> None:
    if wizard.mover is not None:
        wizard.mover.cancel()


def start(wizard: Wizard, view: MoveView) -> None:
    plan = wizard.walk.plan
    if plan is None or plan.move is None or view.state in ("running", "preparing"):
        return
    view.state, view.message, view.job, view.there = "preparing", "", view.job_of(plan), None
    pressed = view.query_one("#move-start").has_focus
    view.draw()
    if pressed:
        # The button goes. Enter then means what it means everywhere: on to the next step, and never "Stop".
        wizard.walk_screen.query_one("#next").focus()
    machine, source, destination = plan.machine, plan.move.source, plan.move.destination

    def tell(progress: Any) -> None:
        wizard.app.call_from_thread(_progress, wizard, progress)

    def work() -> None:
        from wizard.models.move import Mover, plan_move

        try:
            move_plan = plan_move(machine, source, destination, host=wizard.host, exact=True)
            if not move_plan.ok:
                wizard.app.call_from_thread(_ended, wizard, "failed", clauses(r.message for r in move_plan.refusals))
                return
            wizard.mover = Mover(move_plan, on_progress=tell)
            wizard.app.call_from_thread(_state, wizard, "running")
            result = wizard.mover.run()
            proven = result.state.value == "proven"
            if proven and not move_plan.simulated:
                offer_switch(wizard, move_plan)
        except (WizardError, OSError) as error:
            wizard.mover = None
            wizard.app.call_from_thread(_ended, wizard, "failed", str(error))
            return
        wizard.mover = None
        wizard.app.call_from_thread(_ended, wizard, "done" if proven else "cancelled", clauses(result.warnings))

    wizard.app.run_worker(work, thread=True, group="move", exclusive=True)


def tell_of_stopped(wizard: Wizard) -> None:
    """Say once that a copy of the plan's model was stopped in an earlier walk."""
    plan = wizard.walk.plan
    if plan is None or plan.move is None or not plan.move.wanted or plan.machine.name not in (THIS_MACHINE, ""):
        return
    job = (plan.move.source, plan.move.destination)
    if job == wizard.told_stopped:
        return
    # Not for those who have nothing to copy: to load it takes longer than a key press may.
    from wizard.models.move import stopped_at

    wizard.told_stopped = job
    view = _view(wizard)
    there = None if view is not None and view.job == job and view.state != "idle" else stopped_at(*job)
    if there is not None:
        share = there[0] / there[1] if there[1] else 0.0
        told = _("The copy of the model was stopped at {share:.0%}. “Go on copying” on the step “{step}” takes it up again.")
        wizard.app.notify(told.format(share=share, step=_(MOVE.title)), timeout=8)


def offer_switch(wizard: Wizard, move_plan: MovePlan) -> None:
    """Show what names the old place among the files written earlier, and ask. Called from the worker thread."""
    from wizard.move_command import switch_changes

    try:
        changes, by_hand = switch_changes(move_plan)
    except WizardError as error:
        wizard.app.call_from_thread(wizard.app.notify, str(error), severity="warning", timeout=8)
        return
    for path in by_hand:
        text = _("{path} names the old place in a way that cannot be changed word by word: write it anew.").format(path=path)
        wizard.app.call_from_thread(wizard.app.notify, text, severity="warning", timeout=8)
    if changes:
        wizard.app.call_from_thread(_ask_switch, wizard, changes)


def _ask_switch(wizard: Wizard, changes: list[Change]) -> None:
    told = content(
        [
            (_("Files that were written earlier name the old place. This would change in them:") + "\n\n", TEXT),
            ("\n".join(c.diff for c in changes), TEXT),
        ]
    )

    def answered(yes: bool | None) -> None:
        if not yes:
            return
        from wizard import apply

        try:
            apply.write(changes)
        except WizardError as error:
            wizard.app.notify(str(error), severity="error", timeout=8)
            return
        wizard.app.notify(spelt(_("The new place is named in them now. vllm-wizard undo takes that back.")))

    question = _("Name the new place in earlier files?")
    wizard.app.push_screen(Ask(question, told, _("Change them"), _("Leave them")), answered)


def _view(wizard: Wizard) -> MoveView | None:
    view = wizard.walk_screen.views.get("move")
    return view if isinstance(view, MoveView) else None


def _draw(wizard: Wizard, view: MoveView) -> None:
    if wizard.stopping or not wizard.walk_screen.query("#header"):
        return  # the screen is being taken down
    view.draw()
    wizard.walk_screen.show_frame()


def _progress(wizard: Wizard, progress: Any) -> None:
    view = _view(wizard)
    if view is not None:
        view.progress = progress
        _draw(wizard, view)


def _state(wizard: Wizard, state: str) -> None:
    view = _view(wizard)
    if view is not None:
        view.state = state
        _draw(wizard, view)


def _ended(wizard: Wizard, state: str, message: str) -> None:
    view = _view(wizard)
    if view is None:
        return
    view.state, view.message = state, message
    _draw(wizard, view)
    if wizard.stopping:
        return
    if wizard.leave_asked is not None and wizard.app.screen is wizard.leave_asked:
        wizard.leave_asked.dismiss(True)  # nothing is copied any more: what was asked no longer is a question
    if wizard.walk.step_id == "review":
        wizard.walk_screen.show()
    if wizard.walk.step_id != "move":
        words = {"done": _("The model was copied and verified."), "failed": message, "cancelled": _("Copying was stopped.")}
        wizard.app.notify(words[state], severity="error" if state == "failed" else "information", timeout=8)
