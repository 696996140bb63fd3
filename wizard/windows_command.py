"""The Windows half: started on Windows itself, the wizard sizes WSL there and says how to go on inside it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput
from wizard.i18n import _

if TYPE_CHECKING:
    import argparse

    from wizard.apply import Change, Receipt
    from wizard.host import Host
    from wizard.plan.windows import WindowsHalf

FOLDER = "vllm-wizard"  # in the user's profile, for the answers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vllm-wizard windows`` beside the common ones."""
    parser.add_argument("--out", metavar="DIR", help=_("the folder for the answers file"))
    parser.add_argument("--yes", "-y", action="store_true", help=_("write without asking"))
    parser.add_argument("--dry-run", action="store_true", help=_("show what would change and write nothing"))


def run(args: argparse.Namespace) -> int:
    """Do the Windows half. 0: the rest is done inside WSL; 1: something has to be done first, or the user declined."""
    from wizard.faces import inputs
    from wizard.facts import SystemKind
    from wizard.plan.windows import windows_half

    host = inputs.open_machine(args)
    if host.platform != "win32":
        raise BadInput(
            _(
                "This is the Windows half, and this is no Windows. Inside WSL or on Linux start vllm-wizard without a command."
            )
        )
    recorded = inputs.is_recorded(args)
    if recorded and getattr(args, "out", None) is None and getattr(args, "yes", False):
        raise BadInput(_("With --machine, say where to write: --out DIR."))
    session, _plan = inputs.load_session(host, args)
    assert session.machine.system is SystemKind.WINDOWS
    # A recorded machine's own files are not here: its .wslconfig comes as a proposal.
    half = windows_half(session, _out_dir(args, host), in_place=not recorded)
    changes = _changes(args, half, host)
    if changes and _asks(args):
        _print(half, changes, None, steps=False)
        print(_("How to go on inside WSL is told once they are written."))
        if not _confirmed(_("Write these files? [Y/n] ")):
            print(_("Nothing was written."))
            return 1
    receipt = None
    if changes and not _only_shown(args):
        from wizard.apply import write

        receipt = write(changes)
    if _json(args):
        _print_json(half, changes, receipt)
    else:
        _print(half, changes, receipt)
    return 1 if half.blockers else 0


def _out_dir(args: argparse.Namespace, host: Host) -> str:
    given = getattr(args, "out", None)
    if given is None:
        return host.home.rstrip("\\/") + "\\" + FOLDER
    from wizard.faces import inputs

    return inputs.out_folder(given)


def _json(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "json", False))


def _only_shown(args: argparse.Namespace) -> bool:
    return bool(getattr(args, "dry_run", False)) or (_json(args) and not getattr(args, "yes", False))


def _changes(args: argparse.Namespace, half: WindowsHalf, host: Host) -> list[Change]:
    """The files compared with the disk; none while WSL is missing or a recorded machine is only looked at."""
    from wizard.apply import prepare
    from wizard.faces import inputs

    if not half.files or (inputs.is_recorded(args) and getattr(args, "out", None) is None):
        return []
    return prepare(half.files, _out_dir(args, host))


def _asks(args: argparse.Namespace) -> bool:
    """Whether the user is asked before writing; raises BadInput where there is nobody to ask."""
    if _only_shown(args) or getattr(args, "yes", False):
        return False
    if sys.stdin is not None and getattr(args, "plain", False):
        return True  # the walk in plain lines takes its answers from a pipe as well
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stdout.isatty():
        raise BadInput(_("There is no terminal to ask on. vllm-wizard windows --yes writes without asking, vllm-wizard windows --dry-run only looks."))
    return True


def _confirmed(question: str) -> bool:
    """Enter writes, as at the end of the walk: all of it was shown, and it can be undone. What is neither is asked again."""
    while True:
        try:
            answer = input(question).strip().lower()
        except EOFError:
            print()
            return False
        if not sys.stdin.isatty():
            print()
        if answer in ("", "y", "yes", _("yes")):
            return True
        if answer in ("n", "no", _("no")):
            return False


def _print(half: WindowsHalf, changes: list[Change], receipt: Receipt | None, *, steps: bool = True) -> None:
    from wizard import columns
    from wizard.faces import writing
    from wizard.probes import report

    if receipt is None:
        print(report.text(half.machine, columns.of_prose(report.WIDTH)))
        print(_("What WSL should get:"))
        for setting in half.advice.settings:
            value = _("left to WSL") if setting.value is None else setting.value
            print(writing.wrapped(f"{setting.key} = {value}: {setting.reason}", "      ", "  "))
        for text in (*half.advice.warnings, *half.advice.notes):
            print(writing.wrapped(text, "  ", "- "))
        print()
        for change in changes:
            print(f"{writing.state_word(change)}: {change.path}")
            print(writing.shown_diff_on(change, half.machine), end="")
    else:
        print(writing.written(receipt), end="")
    if steps and half.steps:
        print("\n" + _("Next") + "\n" + writing.next_steps(half.steps), end="")


def _print_json(half: WindowsHalf, changes: list[Change], receipt: Receipt | None) -> None:
    import dataclasses

    from wizard.faces.batch import print_json
    from wizard.faces.writing import shown_diff_on
    from wizard.facts import to_json

    document: dict[str, Any] = {
        "machine": to_json(half.machine),
        "model": half.model.source if half.model is not None else None,
        "settings": [dataclasses.asdict(s) for s in half.advice.settings],
        "changes": dict(half.changes),
        "warnings": list(half.advice.warnings),
        "notes": list(half.advice.notes),
        "blockers": to_json(half.blockers),
        "answers": {k: list(v) if isinstance(v, tuple) else v for k, v in half.answers.items()},
        "files": [{"path": c.path, "state": c.state.value, "diff": shown_diff_on(c, half.machine)} for c in changes]
        or [
            {"path": f.path, "state": None, "content": f.content.decode("utf-8", "replace")}
            for f in half.files
        ],
        "written": receipt is not None,
        "after": to_json(half.steps),
    }
    print_json(document)
