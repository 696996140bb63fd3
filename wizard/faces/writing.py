"""From a plan to files, the same for every face: which files, with which answers, shown how, and what comes next."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.outputs.spec import FileSpec
from wizard.session import SECRET_ENV, SECRET_KEYS, Session, Value, dump_answers
from wizard.steps import QUESTIONS, asked, visible_steps

if TYPE_CHECKING:
    from wizard.apply import Change, Receipt
    from wizard.plan_types import Notice, Plan, Step

ANSWERS_NAME = "answers.toml"
# Where the files lie is no part of what they say: the same answers give the same files in every folder.
NOT_KEPT = frozenset({"out_dir"})
WIDTH = 79


def effective_answers(plan: Plan) -> dict[str, Value]:
    """Every asked question with the value in force, and the vLLM options that were set by hand; no secrets."""
    explicit = plan.session.answers.flat()
    answers: dict[str, Value] = {}
    for step in visible_steps(plan):
        for question in asked(step, plan):
            key = question.key
            if question.secret or key in NOT_KEPT:
                continue
            value = question.current(plan)
            if value is None or (value in ("", ()) and key not in explicit):
                continue
            answers[key] = value
    for key, value in explicit.items():
        if key not in QUESTIONS and key not in SECRET_KEYS:
            answers[key] = value
    return answers


def answers_file(plan: Plan) -> FileSpec:
    heading = _(
        "The answers behind these files. Write the same files again with:\nvllm-wizard generate --yes --answers answers.toml --out DIR"
    )
    return FileSpec(
        path=ANSWERS_NAME,
        content=dump_answers(effective_answers(plan), heading=heading),
        title=_("your answers, to start from again"),
    )


def file_specs(plan: Plan, *, apply_wslconfig: bool = False, out_dir: str = "") -> list[FileSpec]:
    """All files of ``plan``; with ``apply_wslconfig`` the user's own .wslconfig in place of the proposal."""
    from wizard.outputs import files

    specs = list(files(plan))
    if apply_wslconfig and plan.wsl is not None:
        from wizard.outputs.wslconfig.deliver import NAME, to_filespec

        specs = [
            to_filespec(plan.machine, plan.wsl, out_dir, apply=True) if s.path == NAME else s for s in specs
        ]
    return [*specs, answers_file(plan)]


def complete_secrets(session: Session, plan: Plan, out_dir: str) -> Session:
    """``session`` with the API key that a server on the network needs: the given one, the one that stands in
    the output folder's vllm.env already, or a new random one."""
    if plan.value("access") != "network" or session.secrets.get("api_key"):
        return session
    import secrets

    from wizard.apply import env_values
    from wizard.outputs.env import NAME

    existing = ""
    path = os.path.join(out_dir, NAME)  # noqa: PTH118
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            existing = env_values(file.read()).get(SECRET_ENV["api_key"], "")
    except OSError:
        # Not there, or it cannot be read: apply says so when it is to be written.
        existing = ""
    return replace(
        session, secrets=session.secrets.with_value("api_key", existing or secrets.token_urlsafe(32))
    )


def changes_for(
    session: Session, plan: Plan, out_dir: str, *, apply_wslconfig: bool = False
) -> tuple[list[Change], Plan]:
    """What writing would do, and the plan with its secrets completed."""
    from wizard.apply import prepare
    from wizard.plan import plan as make_plan

    complete = complete_secrets(session, plan, out_dir)
    if complete is not session:
        plan = make_plan(complete)
    return prepare(file_specs(plan, apply_wslconfig=apply_wslconfig, out_dir=out_dir), out_dir), plan


def require_can_write(plan: Plan) -> None:
    """Raise WizardError with all blockers when there is nothing that could be written."""
    if plan.blockers:
        raise WizardError(
            _("Nothing was written: this cannot work yet.") + "\n" + notices(plan.blockers).rstrip()
        )


def shown_diff(change: Change, plan: Plan) -> str:
    """The diff of one file. A proposed .wslconfig is compared with the user's own file, which it would replace."""
    from wizard.apply import diff_texts

    wsl = plan.machine.wsl
    own = wsl.wslconfig_bytes if wsl is not None else None
    if own is not None and wsl is not None and not change.spec.edited and change.spec.path == ".wslconfig":
        return diff_texts(wsl.wslconfig_path or ".wslconfig", own, change.after)
    return change.diff


# -- texts ----------------------------------------------------------------------------------------------------


def wrapped(text: str, indent: str = "", first: str | None = None) -> str:
    """``text`` in lines that fit a terminal of 80 columns; words are not broken."""
    return textwrap.fill(
        text,
        width=WIDTH,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def state_word(change: Change) -> str:
    return {"new": _("new"), "changed": _("changed"), "same": _("same")}[change.state.value]


def where_word(where: str) -> str:
    """Where commands are typed, for people; empty for this shell."""
    return {
        "powershell": _("in PowerShell on Windows"),
        "powershell-admin": _("in an administrator's PowerShell on Windows"),
    }.get(where, "")


def notices(items: Iterable[Notice]) -> str:
    """Warnings or blockers with what cures them."""
    lines = []
    for item in items:
        lines.append(wrapped(item.title, "  ", "- "))
        if item.detail:
            lines.append(wrapped(item.detail, "  "))
        where = where_word(item.where)
        if item.commands and where:
            lines.append("  " + where[:1].upper() + where[1:] + ":")
        lines += ["    " + line for command in item.commands for line in command.splitlines()]
    return "\n".join(lines) + ("\n" if lines else "")


def next_steps(steps: Sequence[Step]) -> str:
    """What to type after writing, in order."""
    lines = []
    for number, step in enumerate(steps, 1):
        where = where_word(step.where)
        title = step.title.rstrip(".:") + (f" ({where})" if where else "") + (":" if step.commands else ".")
        lines.append(wrapped(title, "   ", f"{number}. "))
        lines += ["     " + line for command in step.commands for line in command.splitlines()]
        if step.consequence:
            lines.append(wrapped(step.consequence, "   "))
    return "\n".join(lines) + ("\n" if lines else "")


def written(receipt: Receipt) -> str:
    """What a write did."""
    words = {"new": _("written"), "changed": _("changed"), "same": _("unchanged")}
    lines = [f"  {words[f.state.value]:<10} {f.path}" for f in receipt.files]
    lines += [wrapped(note, "  ", "- ") for note in receipt.notes]
    if receipt.id:
        lines.append(_("Take it back with: vllm-wizard undo"))
    return "\n".join(lines) + "\n"
