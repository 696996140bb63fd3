"""``vllm-wizard diagnose [LOG|-] [--json] [--report] [--machine DIR] [--release V]``.

The words are read by hand: a small log is to be answered hardly slower than ``--help``.
"""

from __future__ import annotations

import os
import sys

from wizard.errors import BadInput, WizardError
from wizard.i18n import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from typing import BinaryIO

    from wizard.diagnose.engine import Diagnosis, Known
    from wizard.diagnose.reader import NumberedLines

_SWITCHES = ("--json", "--report", "--debug")
_WITH_VALUE = ("--machine", "--release", "--lang", "--recipes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of ``vllm-wizard diagnose``, for its help."""
    parser.add_argument("log", nargs="?", default="-", metavar="LOG", help=_("the log: a file (text or .gz), or - for standard input (default)"))
    parser.add_argument("--release", metavar="V", help=_("the vLLM release, when the log does not tell it"))
    parser.add_argument("--tui", action="store_true", help=_("show it in full screen; fixes can be taken into a plan there"))
    parser.add_argument("--report", action="store_true", help=_("print a report for an issue, with names and secrets taken out"))


class _Words:
    def __init__(self) -> None:
        self.log: str | None = None
        self.switches: set[str] = set()
        self.values: dict[str, str] = {}


def _read_words(args: list[str]) -> _Words:
    words = _Words()
    rest = list(args)
    only_names = False
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if only_names or word == "-" or not word.startswith("-"):
            if words.log is not None:
                raise BadInput(_("“{word}” is one word too many.").format(word=word) + " " + _see())
            words.log = word
        elif word == "--":
            only_names = True
        elif word in _SWITCHES:
            words.switches.add(word)
        elif name in _WITH_VALUE:
            if not equals:
                if not rest:
                    raise BadInput(_("{option} needs a value.").format(option=name) + " " + _see())
                value = rest.pop(0)
            words.values[name] = value
        else:
            raise BadInput(_("There is no option {word}.").format(word=name) + " " + _see())
    return words


def _see() -> str:
    return _("See {command} --help.").format(command="vllm-wizard diagnose")


def run(args: list[str]) -> int:
    """Diagnose and print; 0 whatever the log says, 2 for what is no log. Raises BadInput for what cannot be read."""
    import gc

    words = _read_words(args)
    known = _known(words)
    collecting = gc.isenabled()
    gc.disable()  # nothing here makes cycles, and looking for them takes longer than to read a short log
    try:
        return _diagnose(words, known)
    finally:
        if collecting:
            gc.enable()


def _diagnose(words: _Words, known: Known) -> int:
    from wizard.diagnose.reader import NoText

    try:
        lines = _read_log(words.log)
    except NoText:
        from wizard.diagnose.engine import Diagnosis
        from wizard.diagnose.reader import NumberedLines

        return _no_log(words, Diagnosis(), NumberedLines([], [], 0, True), binary=True)
    from wizard.diagnose.engine import diagnose

    diagnosis = diagnose(lines, known)
    _look(words, diagnosis)
    if not diagnosis.findings:
        from wizard.diagnose.recognise import is_log

        if not is_log(diagnosis, lines):
            return _no_log(words, diagnosis, lines)
    if "--json" in words.switches:
        _print_json(diagnosis, lines)
    elif "--report" in words.switches:
        from wizard.diagnose.report import as_report

        sys.stdout.write(as_report(diagnosis, lines))
    else:
        from wizard.diagnose.report import as_text

        print("\n".join(as_text(diagnosis)))
    return 0


def _no_log(words: _Words, diagnosis: Diagnosis, lines: NumberedLines, binary: bool = False) -> int:
    """Say that there is nothing to diagnose; a program gets the usual document with no findings and a note."""
    empty = not any(row.strip() for row in lines.lines)
    text = _("This is no log of vLLM: it is empty, or a compressed file that is damaged.") if empty else _("This is no log of vLLM: nothing in it was written by vLLM or by a program that starts it.")
    if binary:
        text = _("This is no log of vLLM: it is no text.")
    text += " " + _("Pipe one in: docker logs CONTAINER 2>&1 | vllm-wizard diagnose -")
    if "--json" not in words.switches:
        raise BadInput(text)
    import json

    print(json.dumps({**diagnosis.as_json(), "note": text}, indent=2, ensure_ascii=False))
    print(f"vllm-wizard: {text}", file=sys.stderr)
    return BadInput.exit_code


def _print_json(diagnosis: Diagnosis, lines: NumberedLines) -> None:
    import json

    data = diagnosis.as_json()
    if any(f.cause in ("unknown", "vllm_internal_bug") for f in diagnosis.findings):
        from wizard.diagnose.report import as_report

        data["report"] = as_report(diagnosis, lines)
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _known(words: _Words) -> Known:
    from wizard.diagnose.engine import Known

    release = words.values.get("--release")
    if release is not None:
        from wizard.releases import resolve

        resolve(release)  # raises BadInput for what names no version
        release = release.lstrip("v")
    wsl = None
    if "--machine" in words.values:
        from wizard.host import open_host

        host = open_host(words.values["--machine"])
        wsl = _is_wsl(host)
    elif os.environ.get("WSL_DISTRO_NAME"):
        wsl = True
    return Known(release, wsl)


def _is_wsl(host: object) -> bool | None:
    try:
        text = host.read_text("/proc/version", 400)  # type: ignore[attr-defined]
    except OSError:
        return None
    return True if "microsoft" in text.lower() else None


def _look(words: _Words, diagnosis: Diagnosis) -> None:
    if log_is_not_enough(diagnosis):
        from wizard.diagnose import machine
        from wizard.host import open_host

        machine.look(open_host(words.values.get("--machine")), diagnosis)
    from wizard.diagnose import held

    if held.asks_for_memory(diagnosis):
        from wizard.host import open_host
        from wizard.probes import gpu

        held.hold(diagnosis, gpu.probe(open_host(words.values.get("--machine"))))


def log_is_not_enough(diagnosis: Diagnosis) -> bool:
    """Whether the machine itself may know more than the log tells."""
    return any(
        f.cause == "sigterm_received" or (f.cause in ("host_oom_killed", "worker_segfault") and f.confidence != "high")
        for f in diagnosis.findings
    )


def _read_log(name: str | None) -> NumberedLines:
    from wizard.diagnose.reader import read

    if name is None or name == "-":
        if sys.stdin is None:
            raise BadInput(_("Standard input is closed. Name a log: vllm-wizard diagnose LOG."))
        if name is None and _is_terminal(sys.stdin):
            raise BadInput(_("Which log? Name a file, or pipe one in: docker logs CONTAINER 2>&1 | vllm-wizard diagnose -"))
        return read(sys.stdin.buffer, text_only=True)
    return read_file(name)


def read_file(name: str, watch: Callable[[BinaryIO], BinaryIO] = lambda stream: stream) -> NumberedLines:
    """A log file, read through ``watch``. Raises BadInput or WizardError that name the file."""
    from wizard.diagnose.reader import read

    if os.path.isdir(name):  # noqa: PTH112
        raise BadInput(_("{path} is a folder; name the log file itself.").format(path=name))
    try:
        with open(name, "rb") as stream:  # noqa: PTH123
            return read(watch(stream), text_only=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise BadInput(_("There is no file {path}.").format(path=name)) from error
    except PermissionError as error:
        raise BadInput(_("{path} may not be read by this user.").format(path=name)) from error
    except ValueError as error:  # a zero byte in the name
        raise BadInput(_("{path} is no file name.").format(path=repr(name))) from error
    except OSError as error:
        import errno

        kind = BadInput if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else WizardError
        raise kind(_("{path} could not be read: {reason}.").format(path=name, reason=error.strerror)) from error


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except ValueError:
        return False
