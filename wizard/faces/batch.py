"""The face without questions: detect, plan, generate, undo and record, as text or as JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.errors import BadInput, WizardError
from wizard.faces import inputs, writing
from wizard.i18n import _, bracketed, clauses, listed, ngettext, sentences
from wizard.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wizard.apply import Change, Receipt
    from wizard.plan_types import Decision, Plan
    from wizard.session import Session

GIB = 1 << 30
RECENT_S = 24 * 3600.0  # a last write older than this is asked about before it is undone


# -- JSON -----------------------------------------------------------------------------------------------------


def print_json(document: Any) -> None:
    """``document`` on standard output as UTF-8, whatever the terminal's encoding is; nothing else is printed."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    # File names that are not UTF-8 come as lone surrogates, which JSON can only hold escaped.
    text = re.sub("[\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", text) + "\n"
    if sys.stdout is None:
        raise WizardError(_("Standard output is closed, so the JSON cannot be printed."))
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    buffer.write(text.encode("utf-8"))
    buffer.flush()


def plan_json(session: Session, plan: Plan, changes: list[Change] | None) -> dict[str, Any]:
    """The plan as plain data. ``changes``: the files compared with the disk, or None where that is not asked."""
    from wizard.facts import to_json

    return {
        "machine": to_json(plan.machine),
        "device": plan.device,
        "model": plan.model.source if plan.model is not None else None,
        "model_info": to_json(plan.model),
        "recipe": plan.recipe_id,
        "release": plan.release.version if plan.release is not None else None,
        "image": plan.image_reference,
        "runtime": plan.runtime,
        "gpus": list(plan.gpus),
        "argv": list(plan.argv),
        "env": dict(plan.env),
        "decisions": [_decision_json(d) for d in plan.decisions],
        "warnings": to_json(plan.warnings),
        "blockers": to_json(plan.blockers),
        "notes": list(plan.notes),
        "fit": to_json(plan.fit),
        "move": to_json(plan.move),
        "mounts": [
            {"source": source, "target": target, "read_only": read_only}
            for source, target, read_only in plan.mounts
        ],
        "files": _files_json(plan, changes),
        "after": to_json(plan.after),
        "secrets_wanted": list(plan.secrets_wanted),
        "answers": {k: list(v) if isinstance(v, tuple) else v for k, v in session.answers.flat().items()},
    }


def _decision_json(decision: Decision) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return {
        "key": decision.key,
        "value": plain(decision.value),
        "reason": decision.reason,
        "source": decision.source,
        "flag": decision.flag,
        "proposed": plain(decision.proposed),
    }


def _files_json(plan: Plan, changes: list[Change] | None) -> list[dict[str, Any]]:
    if changes is not None:
        return [change_json(c, plan) for c in changes]
    from wizard.outputs import files

    return [
        {"path": s.path, "state": None, "mode": f"{s.mode:04o}", "title": s.title, "secret": s.secret}
        | _content_json(s.content, s.secret)
        for s in files(plan)
    ]


def change_json(change: Change, plan: Plan) -> dict[str, Any]:
    mode = change.spec.mode if change.mode_after is None else change.mode_after
    return {
        "path": change.path,
        "state": change.state.value,
        "mode": f"{mode:04o}",
        "title": change.spec.title,
        "secret": change.spec.secret,
        "diff": writing.shown_diff(change, plan),
        "notes": list(change.notes),
    } | _content_json(change.after, change.spec.secret)


def _content_json(content: bytes, secret: bool) -> dict[str, Any]:
    if secret:
        return {"content": None}
    try:
        return {"content": content.decode("utf-8")}
    except UnicodeDecodeError:
        import base64

        return {"content": None, "content_base64": base64.b64encode(content).decode()}


# -- detect ---------------------------------------------------------------------------------------------------


def detect(args: argparse.Namespace) -> int:
    """Show the machine. Exit 0 also with problems: they are what was asked for."""
    from wizard.probes import report, run_all

    machine = run_all(inputs.open_machine(args))
    if args.json:
        from wizard.facts import to_json

        print_json(to_json(machine))
    else:
        print(printable(report.text(machine, columns.of_prose(report.WIDTH)).rstrip("\n")))
        if machine.is_wsl2:
            from wizard.wslconfig_command import in_force

            reasons = in_force(machine, recorded=inputs.is_recorded(args))[1]
            if reasons:
                print("\n" + _("What your .wslconfig asks for is not in force.") + "\n" + printable(writing.wrapped(sentences(*reasons), "  ", "  ")))
    return 0


# -- plan -----------------------------------------------------------------------------------------------------


def plan(args: argparse.Namespace) -> int:
    """Show the plan. Exit 1 when something stands in the way of serving."""
    session, made = inputs.load_session(inputs.open_machine(args), args)
    if made.value("run_on", "this") != "this":
        from wizard.faces.clustering import show

        return show(args, session)
    changes = None
    # A recorded machine's folders are not here: its files can only be compared where --out says so.
    if not made.blockers and (args.out is not None or not inputs.is_recorded(args)):
        changes, made = writing.changes_for(session, made, str(made.value("out_dir")))
    if args.json:
        print_json(plan_json(session, made, changes))
    else:
        print(printable(plan_text(made, changes)), end="")
    return 1 if made.blockers else 0


def plan_text(plan: Plan, changes: list[Change] | None = None) -> str:
    """The plan for people, at most 79 columns wide."""
    parts = [_facts_text(plan)]
    if plan.argv:
        parts.append(_("Command") + "\n" + command_text(plan))
    reasons = [d for d in plan.decisions if d.value is not None and d.reason]
    if reasons:
        parts.append(_("Why") + "\n" + "".join(_reason_text(d) for d in reasons))
    if plan.warnings:
        parts.append(_("Warnings") + "\n" + writing.notices(plan.warnings))
    if plan.blockers:
        parts.append(_("This stands in the way") + "\n" + writing.notices(plan.blockers))
    else:
        parts.append(_("Files") + "\n" + _files_text(plan, changes))
        if plan.after:
            parts.append(_("After writing them") + "\n" + writing.next_steps(plan.after))
    return "\n".join(parts)


def _facts_text(plan: Plan) -> str:
    rows: list[tuple[str, str]] = [(_("Machine"), _machine_line(plan))]
    if plan.model is not None:
        size = plan.model.weight_bytes
        text = plan.model.source
        if size is not None:
            text = bracketed(text, _("{gib:.1f} GiB of weights").format(gib=size / GIB))
        rows.append((_("Model"), text))
    if plan.release is not None:
        how = (
            _("Docker image {image}").format(image=plan.image_reference)
            if plan.runtime == "docker"
            else _("local environment {venv}").format(venv=plan.value("venv", ""))
        )
        version = plan.release.version
        if not plan.release.exact and plan.release.asked:
            from wizard.releases import stand_in

            version = _("{asked}, which is not known here: with the flags of {stand_in}").format(
                asked=plan.release.asked, stand_in=stand_in(plan.release)
            )
            if plan.runtime == "docker":
                how = _("Docker image {image}, if there is one").format(image=plan.image_reference)
        rows.append((_("vLLM"), listed((version, how)) if plan.release.exact else clauses((version, how))))
    if plan.fit is not None:
        rows += fit_rows(plan)
    wide = max(columns.width(label) for label, _text in rows) + 2
    return "".join(
        writing.wrapped(text or "-", " " * wide, columns.pad(label, wide)) + "\n" for label, text in rows
    )


def _machine_line(plan: Plan) -> str:
    machine = plan.machine
    parts = [machine.name, machine.os_name.value or machine.system.value]
    if machine.is_wsl2:
        parts.append("WSL2")
    names: dict[str, int] = {}
    for gpu in machine.gpu.gpus:
        total = gpu.vram_total_bytes.value
        text = gpu.name + (f" {total / GIB:.0f} GiB" if total else "")
        names[text] = names.get(text, 0) + 1
    parts += [f"{n} x {text}" if n > 1 else text for text, n in names.items()] or [_("no GPU")]
    return listed(p for p in parts if p)


def fit_rows(plan: Plan) -> list[tuple[str, str]]:
    fit = plan.fit
    assert fit is not None
    whose = _("Memory (RAM)") if plan.device == "cpu" else _("GPU memory")
    if not fit.weights_known:
        return [(whose, _("not known: the size of the weights is not known"))]
    tokens = fit.kv_cache_tokens
    text = _(
        "weights {weights:.1f}, activations {activation:.1f}, other {other:.1f}, KV cache {kv:.1f} of {budget:.1f} GiB per GPU"
    )
    if plan.device == "cpu":
        text = _(
            "weights {weights:.1f}, activations {activation:.1f}, other {other:.1f}, KV cache {kv:.1f} of {budget:.1f} GiB of RAM"
        )
    memory = text.format(
        weights=fit.weights_bytes / GIB,
        activation=fit.activation_bytes / GIB,
        other=(fit.non_torch_bytes + fit.cuda_graph_bytes + fit.lora_bytes + fit.draft_bytes) / GIB,
        kv=max(fit.kv_cache_bytes.best, 0) / GIB,
        budget=fit.budget_bytes / GIB,
    )
    rows = [(whose, memory)]
    if plan.offload_gib:
        words = _("{gib} GiB of the weights stay in RAM: answers come much slower.")
        rows.append((_("Offloaded"), words.format(gib=plan.offload_gib)))
    if tokens.best > 0 and fit.certain:
        rows.append(
            (
                _("KV cache"),
                _("{best:,} tokens (from {low:,} to {high:,})").format(
                    best=int(tokens.best), low=max(int(tokens.low), 0), high=int(tokens.high)
                ),
            )
        )
    elif not fit.certain:
        rows.append((_("KV cache"), _("not certain: {why}").format(why=clauses(fit.notes) or "?")))
    return rows


def command_text(plan: Plan) -> str:
    """``vllm serve`` with one option a line, quoted for bash."""
    from wizard.outputs.quoting import bash_word

    lines = ["vllm serve"]
    for at, word in enumerate(plan.argv):
        quoted = bash_word(word)
        value = at > 0 and not word.startswith("--") and at != 1
        if at == 0 or value:
            lines[-1] += " " + quoted
        else:
            lines.append("  " + quoted)
    return "  " + " \\\n  ".join(lines) + "\n"


def value_text(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, tuple):
        return ", ".join(str(x) for x in value) or _("none")
    return str(value)


def source_word(source: str) -> str:
    return {
        "user": _("your answer"),
        "cli": _("command line"),
        "file": _("answers file"),
        "recipe": _("recipe"),
        "detected": _("detected"),
        "default": _("default"),
    }.get(source, source)


def _reason_text(decision: Decision) -> str:
    head = f"  {decision.key} = {value_text(decision.value)} ({source_word(decision.source)})"
    return head + "\n" + writing.wrapped(decision.reason, "      ") + "\n"


def _files_text(plan: Plan, changes: list[Change] | None) -> str:
    if changes is None:
        from wizard.outputs import files

        return "".join(f"  {columns.pad(s.path, 16)}{s.title}\n" for s in files(plan))
    return "".join(f"  {columns.pad(writing.state_word(c), 10)}{c.path}\n" for c in changes)


# -- generate -------------------------------------------------------------------------------------------------


def generate(args: argparse.Namespace) -> int:
    """Write the files. Exit 1, with nothing written, when something stands in the way."""
    host = inputs.open_machine(args)
    recorded = inputs.is_recorded(args)
    if recorded and args.out is None:
        raise BadInput(_("With --machine, say where to write: --out DIR."))
    if recorded and args.apply_wslconfig:
        raise BadInput(
            _(
                "--apply-wslconfig changes this machine, and --machine means another one. Leave one of them out."
            )
        )
    asks = not args.yes and not args.dry_run
    if asks and (args.json or not _can_ask()):
        raise BadInput(
            _(
                "generate asks before it writes, and there is no terminal to ask on. Add --yes to write, or --dry-run to look."
            )
        )
    session, made = inputs.load_session(host, args)
    if args.apply_wslconfig and not session.machine.is_wsl2:
        raise BadInput(_("--apply-wslconfig: this machine is not WSL2, so it has no .wslconfig."))
    if made.blockers:
        if args.json:
            print_json(_generate_json(made, None, written=False))
        else:
            print(_("Nothing was written: this stands in the way."), file=sys.stderr)
            print(printable(writing.notices(made.blockers)), end="", file=sys.stderr)
        return 1
    changes, made = writing.changes_for(
        session, made, str(made.value("out_dir")), apply_wslconfig=args.apply_wslconfig
    )
    if args.dry_run:
        if args.json:
            print_json(_generate_json(made, changes, written=False))
        else:
            print(printable(changes_text(changes, made)), end="")
            print(_("Nothing was written (--dry-run)."))
        return 0
    if asks:
        print(printable(changes_text(changes, made)), end="")
        if not _confirmed(_("Write these files? [y/N] ")):
            print(_("Nothing was written."))
            return 1
    return _write(args, made, changes)


def _write(args: argparse.Namespace, made: Plan, changes: list[Change]) -> int:
    from wizard.apply import write

    receipt = write(changes)
    try:
        return _tell_written(args, made, changes, receipt)
    except OSError as error:
        raise WizardError(
            _("The files are written to {folder}, but what was to be said of them could not be: {reason}.").format(
                folder=made.value("out_dir"), reason=error.strerror
            )
        ) from error


def _tell_written(args: argparse.Namespace, made: Plan, changes: list[Change], receipt: Receipt) -> int:
    if args.json:
        document = _generate_json(made, changes, written=True)
        document["id"] = receipt.id or None
        document["notes"] = list(receipt.notes)
        print_json(document)
        return 0
    print(printable(writing.done(receipt, made.warnings, made.after)), end="", flush=True)
    return 0


def _generate_json(plan: Plan, changes: list[Change] | None, *, written: bool) -> dict[str, Any]:
    from wizard.facts import to_json

    return {
        "written": written,
        "out": plan.value("out_dir"),
        "files": [change_json(c, plan) for c in changes or []],
        "warnings": to_json(plan.warnings),
        "blockers": to_json(plan.blockers),
        "after": to_json(plan.after),
    }


def changes_text(changes: list[Change], plan: Plan) -> str:
    """Every file with its state and its diff."""
    parts = []
    for change in changes:
        parts.append(writing.change_head(change) + "\n" + writing.shown_diff(change, plan))
        parts += [writing.wrapped(note, "  ", "- ") + "\n" for note in change.notes]
    return "\n".join(parts) + ("\n" if parts else "")


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()


def _confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes", _("yes"))
    except EOFError:
        print()
        return False


# -- undo, record ---------------------------------------------------------------------------------------------


def undo(args: argparse.Namespace) -> int:
    """Take back the last writes; more than one, or an old one, only when that is confirmed."""
    from wizard import apply

    if args.list:
        return _list_writes(args.json)
    receipts = apply.last_writes(args.count)
    asks = not args.yes and (args.count > 1 or (_can_ask_without_json(args) and _is_old(receipts[0].when)))
    if asks and not _can_ask_without_json(args):
        raise BadInput(
            _(
                "undo asks before it takes back more than one write, and there is no terminal to ask on. Look with undo --list, then add --yes."
            )
        )
    if not args.json:
        print(printable(_undo_text(receipts)), end="")
    if asks and not _confirmed(_("Take this back? [y/N] ")):
        print(_("Nothing was undone."))
        return 1
    done = apply.undo(args.count, force=args.force, shown=[r.id for r in receipts])
    if args.json:
        print_json({"files": [{"path": u.path, "action": u.action, "kept": u.kept} for u in done]})
        return 0
    words = {"restored": _("restored"), "removed": _("removed"), "unchanged": _("unchanged")}
    for item in done:
        print(f"  {columns.pad(words[item.action], 10)} {item.path}")
        if item.kept:
            print("  " + _("its last content is kept in {path}").format(path=item.kept))
    if any(_proposes_wslconfig(r) for r in receipts):
        from wizard.outputs.wslconfig.deliver import taking_back_line

        told = _("The .wslconfig in your Windows profile is not touched. If you put the proposal there, this line in PowerShell on Windows brings back the one that lay there before (if none did, delete the file by hand instead):")
        print(printable(writing.wrapped(told)))
        print("  " + taking_back_line())
    return 0


def _proposes_wslconfig(receipt: Receipt) -> bool:
    """Whether a proposal was written, beside the other files; the user's own lies alone in the profile."""
    paths = [Path(f.path) for f in receipt.files]
    folders = [path.parent for path in paths]
    return any(path.name == ".wslconfig" and folders.count(path.parent) > 1 for path in paths)


def _can_ask_without_json(args: argparse.Namespace) -> bool:
    return not args.json and _can_ask()


def _is_old(when: float) -> bool:
    """Whether a write is not of today: its maker may have forgotten it. A time ahead of the clock is as odd."""
    import time

    return not 0 <= time.time() - when < RECENT_S


def _undo_text(receipts: Sequence[Receipt]) -> str:
    """What is about to be taken back: each write's time and its files."""
    lines = [_("To be taken back:")]
    for receipt in receipts:
        lines.append(f"  {_when(receipt)}")
        lines += [f"    {file.path}" for file in receipt.files]
    return "\n".join(lines) + "\n"


def _when(receipt: Receipt) -> str:
    import time

    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(receipt.when))


def _list_writes(as_json: bool) -> int:
    from wizard import apply

    receipts = [r for r in apply.history() if r.status != "undone"]
    if as_json:
        print_json(
            [
                {
                    "id": r.id,
                    "when": r.when,
                    "status": r.status,
                    "files": [{"path": f.path, "state": f.state.value, "backup": f.backup} for f in r.files],
                }
                for r in receipts
            ]
        )
        return 0
    if not receipts:
        print(_("No write is on record."))
    for number, receipt in enumerate(receipts, 1):
        when = _when(receipt)
        count = ngettext("{n} file", "{n} files", len(receipt.files)).format(n=len(receipt.files))
        broken = " " + _("(interrupted)") if receipt.status == "started" else ""
        print(f"{number}. {when}, {count}{broken}")
        for file in receipt.files:
            print(f"     {file.path}")
    return 0


def record(args: argparse.Namespace) -> int:
    """Record this machine into a folder, without names, serial numbers and tokens."""
    from pathlib import Path

    from wizard.record import record as record_machine

    if inputs.is_recorded(args):
        raise BadInput(_("record looks at this machine; leave --machine out."))
    folder = Path(inputs.out_folder(args.dir, is_option=False))
    made = record_machine(folder)
    if args.json:
        print_json(
            {"dir": str(folder), "files": made.files, "commands": made.commands, "left_out": made.left_out}
        )
    else:
        print(
            _(
                "Recorded into {folder}: {files} files, {commands} commands. Names, serial numbers and tokens are "
                "taken out; look through it before you hand it on. Try it: vllm-wizard detect --machine {folder}"
            ).format(folder=folder, files=made.files, commands=made.commands)
        )
    return 0
