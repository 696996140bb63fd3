"""From a plan to files, the same for every face: which files, with which answers, shown how, and what comes next."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wizard import columns
from wizard.i18n import _, bracketed, clause, labelled, listed, ngettext, sentences, stopped
from wizard.program import spelt
from wizard.session import SECRET_ENV, Session

if TYPE_CHECKING:
    from wizard.apply import Change, Receipt
    from wizard.facts import Machine, Wsl
    from wizard.plan_types import Notice, Plan, Step

WIDTH = 79


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
    from wizard.outputs import files
    from wizard.plan import plan as make_plan

    if plan.value("run_on", "this") != "this":
        from wizard.faces.clustering import changes_in_walk

        return changes_in_walk(session, plan, out_dir, apply_wslconfig=apply_wslconfig)
    complete = complete_secrets(session, plan, out_dir)
    if complete is not session:
        plan = make_plan(complete)
    changes = prepare(files(plan, apply_wslconfig=apply_wslconfig), out_dir)
    plan = replace(plan, after=beside_what_is_there(plan.after, plan, changes, out_dir), warnings=(*plan.warnings, *left_over(changes, out_dir)))
    return changes, without_copying(plan) if apply_wslconfig else plan


def left_over(changes: Sequence[Change], out_dir: str) -> tuple[Notice, ...]:
    """A warning that names what an earlier write put into the same folder and this plan does not write; it stays."""
    from wizard.apply import history
    from wizard.facts import Severity
    from wizard.outputs.answers import NAME as ANSWERS
    from wizard.outputs.quoting import bash_line
    from wizard.plan_types import Notice

    root = os.path.realpath(out_dir)
    written = {c.target for c in changes}
    left: dict[str, None] = {}
    for receipt in history():
        targets = [f.target for f in receipt.files]
        # A set of files has its answers beside it: those of a folder further down are another server's.
        if receipt.status == "done" and os.path.join(root, ANSWERS) in targets:  # noqa: PTH118
            left |= dict.fromkeys(t for t in targets if t.startswith(root + os.sep) and t not in written and os.path.isfile(t))  # noqa: PTH113
    if not left:
        return ()
    title = ngettext(
        "{files} is of an earlier write into this folder, and no part of this plan.",
        "{files} are of an earlier write into this folder, and no part of this plan.",
        len(left),
    ).format(files=listed(sorted(os.path.relpath(t, root) for t in left)))
    detail = _("Nothing is removed by itself. Stop what was started with it (docker compose down), then delete it:")
    return (Notice("left_over", Severity.WARNING, title, detail, (bash_line(["rm", "--", *sorted(left)]),)),)


# Written by one way to serve and not by every other: what starts a server, or stands before several.
_STARTERS = ("launch.sh", "compose.yaml", "nginx.conf")


def beside_what_is_there(steps: tuple[Step, ...], plan: Plan, changes: Sequence[Change], out_dir: str) -> tuple[Step, ...]:
    """What is typed next, where the folder holds something of an earlier plan that this one does not write."""
    steps = with_kept_key(steps, plan, changes)
    written = {c.spec.path for c in changes}
    left = [name for name in _STARTERS if name not in written and os.path.exists(os.path.join(out_dir, name))]  # noqa: PTH110, PTH118
    first = next((s for s in steps if s.commands and out_dir in s.commands[0] and s.commands[0].startswith("cd ")), None)
    if not left or first is None:
        return steps
    told = ngettext(
        "{files} there is of an earlier plan: it is left as it is, and not needed.",
        "{files} there are of an earlier plan: they are left as they are, and not needed.",
        len(left),
    ).format(files=listed(left))
    return tuple(replace(s, consequence=sentences(s.consequence, told)) if s is first else s for s in steps)


def with_kept_key(steps: tuple[Step, ...], plan: Plan, changes: Sequence[Change]) -> tuple[Step, ...]:
    """What is typed next, where vllm.env holds an API key of an earlier write: what stands there is never lost, so the
    server asks for it although this plan would not."""
    from wizard.apply import env_values
    from wizard.outputs.env import NAME
    from wizard.plan.after import try_command

    if plan.value("access") == "network":
        return steps
    held = next((env_values(c.after) for c in changes if c.spec.path == NAME), {})
    plain = try_command(plan)
    if not held.get(SECRET_ENV["api_key"]) or not any(plain in s.commands for s in steps):
        return steps
    told = _("An API key of an earlier write stands in {file}, so the server asks for it. Take that line out if nobody is to need one.").format(file=NAME)
    keyed = try_command(plan, with_key=True)
    return tuple(
        replace(s, commands=tuple(keyed if c == plain else c for c in s.commands), consequence=sentences(s.consequence, told)) if plain in s.commands else s
        for s in steps
    )


def without_copying(plan: Plan) -> Plan:
    """The plan without the step that copies the proposed .wslconfig: it is written in place."""
    return replace(plan, after=tuple(step for step in plan.after if step.key != "copy_wslconfig"))


def shown_diff(change: Change, plan: Plan) -> str:
    """The diff of one file. A proposed .wslconfig is compared with the user's own file, which it would replace."""
    return shown_diff_on(change, plan.machine)


def shown_diff_on(change: Change, machine: Machine) -> str:
    """The same for a machine alone."""
    if machine.wsl is not None and not change.spec.edited and change.spec.path == ".wslconfig":
        return own_wslconfig_diff(machine.wsl, change.after, change.path) or change.diff
    return change.diff


def own_wslconfig_diff(wsl: Wsl, after: bytes, proposal: str = ".wslconfig") -> str:
    """The user's own .wslconfig against what is written to ``proposal``; "" where there is certainly none."""
    from wizard.apply import diff_texts

    name = wsl.wslconfig_path or ".wslconfig"
    if wsl.wslconfig_bytes is not None:
        return _headed(diff_texts(name, wsl.wslconfig_bytes, after), _("{file} (your own)").format(file=name), proposal)
    if wsl.wslconfig_path is not None and not wsl.wslconfig_unread:
        return ""
    unread = _("{file} (your own could not be read: it may hold more)").format(file=name)
    return _headed(diff_texts(name, None, after), unread, proposal)


def _headed(diff: str, own: str, proposal: str) -> str:
    """The diff under the names of both files."""
    if not diff.startswith("--- "):
        return diff
    rest = diff.split("\n", 2)[2]
    return "--- " + own + "\n+++ " + _("{file} (the proposal)").format(file=proposal) + "\n" + rest


# -- texts ----------------------------------------------------------------------------------------------------


def wrapped(text: str, indent: str = "", first: str | None = None) -> str:
    """``text`` in lines that fit the terminal; words are not broken."""
    return "\n".join(columns.wrap(text, columns.of_prose(WIDTH), indent if first is None else first, indent))


def state_word(change: Change) -> str:
    return {"new": _("new"), "changed": _("changed"), "same": _("same")}[change.state.value]


def change_head(change: Change) -> str:
    """A file and what becomes of it, on one line."""
    head = labelled(state_word(change), change.path)
    return bracketed(head, change.spec.title) if change.spec.title else head


def where_word(where: str) -> str:
    """Where commands are typed, for people; empty for this shell."""
    return {
        "linux-new": _("in a new Linux terminal"),
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
            lines.append("  " + labelled(where[:1].upper() + where[1:], "").rstrip())
        lines += ["    " + line for command in item.commands for line in command.splitlines()]
    return "\n".join(lines) + ("\n" if lines else "")


def next_steps(steps: Sequence[Step]) -> str:
    """What to type after writing, in order."""
    lines = []
    for number, step in enumerate(steps, 1):
        where = where_word(step.where)
        title = bracketed(clause(step.title), where) if where else clause(step.title)
        title = labelled(title, "").rstrip() if step.commands else stopped(title)
        lines.append(wrapped(title, "   ", f"{number}. "))
        lines += ["     " + line for command in step.commands for line in command.splitlines()]
        if step.consequence:
            lines.append(wrapped(step.consequence, "   "))
    return "\n".join(lines) + ("\n" if lines else "")


def done(receipt: Receipt, warnings: Sequence[Notice], after: Sequence[Step]) -> str:
    """What is said once the files are written: what was done, what to mind, what to type next."""
    told = written(receipt)
    if warnings:
        told += "\n" + _("Warnings") + "\n" + notices(warnings)
    if after:
        told += "\n" + _("Next") + "\n" + next_steps(after)
    return told


def written(receipt: Receipt) -> str:
    """What a write did."""
    words = {"new": _("written"), "changed": _("changed"), "same": _("unchanged")}
    lines = [f"  {columns.pad(words[f.state.value], 10)} {f.path}" for f in receipt.files]
    lines += [wrapped(note, "  ", "- ") for note in receipt.notes]
    if receipt.id:
        lines.append(spelt(_("Take it back with: vllm-wizard undo")))
    return "\n".join(lines) + "\n"
