"""The files of a plan as the walk shows and writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from textual.content import Content

from wizard.errors import WizardError
from wizard.faces.tui import text
from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.plan_types import Plan
    from wizard.session import Session


def changes_of(session: Session, plan: Plan, out_dir: str, apply_wslconfig: bool) -> tuple[list[Any], Plan, str]:
    """(changes, the plan with its secrets completed, "") or ([], plan, why not)."""
    from wizard.faces.writing import changes_for, shown_diff

    if plan.blockers:
        return [], plan, ""
    try:
        changes, complete = changes_for(session, plan, out_dir, apply_wslconfig=apply_wslconfig)
    except WizardError as error:
        return [], plan, str(error)
    return [replace(c, diff=shown_diff(c, complete)) for c in changes], complete, ""


def wslconfig_diff(plan: Plan) -> tuple[str, Content]:
    """(name, diff) of the user's own .wslconfig against what is proposed; ("", ...) when it is left alone."""
    from wizard.apply import diff_texts
    from wizard.faces.writing import own_wslconfig_diff
    from wizard.outputs.wslconfig.deliver import reasons_of, to_filespec

    if plan.wsl is None or plan.machine.wsl is None or plan.value("wsl_write") is False:
        return "", Content("")
    name = plan.machine.wsl.wslconfig_path or ".wslconfig"
    if not plan.wsl_changes:
        return name, Content.styled(_("Nothing in it has to change."), text.DIM)
    try:
        spec = to_filespec(plan.machine, plan.wsl.with_changes(plan.wsl_changes, reasons_of(plan)))
    except WizardError as error:
        return name, Content.styled(str(error), text.BAD)
    shown = own_wslconfig_diff(plan.machine.wsl, spec.content) or diff_texts(name, None, spec.content)
    return name, text.diff_content(shown)


def write_all(changes: list[Any]) -> Any:
    """Write, and return the receipt. Raises WizardError; nothing is half written then."""
    from wizard.apply import write

    return write(changes)
