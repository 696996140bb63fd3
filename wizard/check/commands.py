"""``vllm-wizard check``: hold a command, a script, a compose file or a pasted text against a release."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns, releases
from wizard.errors import BadInput
from wizard.i18n import _, labelled, ngettext, sentence, sentences, stopped
from wizard.regular_file import require_regular
from wizard.releases.types import ArgProblem, Release

from . import compose, config_file, extract, loose, rewrite
from .container import model_mount, no_model_folder, no_shell
from .judge import Verdict, judge
from .lexer import Word

if TYPE_CHECKING:
    import argparse

    from wizard.facts import Machine
    from wizard.host import Host


BOM = b"\xef\xbb\xbf"
_RAY_START = re.compile(r"^[ \t]*(?:exec[ \t]+)?ray[ \t]+start\b", re.M)


@dataclass
class Report:
    """All that was found in one input, and its repaired text."""

    verdicts: list[Verdict]
    problems: list[ArgProblem]
    accepted: bool
    repaired: str | None = None  # the whole file, where it was one
    original: str = ""
    notes: list[str] = field(default_factory=list)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words and options of ``vllm-wizard check``."""
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="FILE | -- COMMAND",
        help=_(
            "a launch script, compose file, environment file, YAML file for --config or pasted text (- is standard "
            "input); or, after --, the command itself"
        ),
    )
    parser.add_argument("--release", metavar="V", help=_("the vLLM release (default: that of the image, else the newest known)"))
    parser.add_argument("--here", action="store_true", help=_("also hold it against this machine: its GPUs, their memory, WSL"))
    parser.add_argument("--write", action="store_true", help=_("repair the file in place; a backup is kept and the difference is shown"))


def run(args: argparse.Namespace | list[str]) -> int:
    """0: the release takes it as it stands (with --write: as it was repaired) and nothing is wrong; 1: something is;
    2: bad input."""
    chosen = _parse(args) if isinstance(args, list) else args
    words: list[str] = list(chosen.words)
    as_json = bool(getattr(chosen, "json", False))
    machine = _machine(getattr(chosen, "machine", None), chosen.here)
    if not words:
        raise BadInput(_("Give a file, - for standard input, or a command after --."))
    path = _as_file(words, dashed=bool(getattr(chosen, "dashed", False)))
    told: list[str] = []
    after: Report | None = None
    if path is None:
        if chosen.write:
            raise BadInput(_("--write needs a file."))
        report = check_words(words, chosen.release, machine)
    else:
        raw = _read(path)
        report = check_text(extract.decode(raw, path), path, chosen.release, machine, marked=raw.startswith(BOM))
        if chosen.write:
            if path == "-":
                raise BadInput(_("--write needs a file, not standard input."))
            if report.repaired not in (None, report.original):
                after = check_text(str(report.repaired), path, chosen.release, machine)
            if after is not None and not after.accepted:
                told, after = [_not_repaired(path, after)], None
            else:
                told = _write(path, raw, report, quiet=as_json)
            report.notes += told
    if as_json:
        print(json.dumps(report_json(report), indent=1, ensure_ascii=False))
    elif after is not None:
        _print_repair(report, after, told)
    else:
        _print(report, told)
    if after is not None:
        report = after  # what counts is the file as it stands now
    return 0 if _is_clean(report) else 1


def _is_clean(report: Report) -> bool:
    return report.accepted and not any(p.counts for p in report.problems)


def _parse(words: list[str]) -> argparse.Namespace:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise BadInput(message)

    parser = Parser(prog="vllm-wizard check")
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--machine")
    own = words[: words.index("--")] if "--" in words else words
    chosen = parser.parse_intermixed_args(own)
    if "--" in words:
        chosen.words = [*chosen.words, *words[words.index("--") + 1 :]]
        chosen.dashed = True
    return chosen


@dataclass(frozen=True)
class Place:
    """The machine that a command is held against."""

    machine: Machine
    host: Host


def _machine(folder: str | None, here: bool) -> Place | None:
    if folder is None and not here:
        return None
    from wizard.host import open_host
    from wizard.probes import run_all

    host = open_host(folder)
    return Place(run_all(host), host)


def _as_file(words: list[str], dashed: bool) -> str | None:
    """The file that is meant, or None where the words are the command itself; ``dashed``: they stood after ``--``."""
    if len(words) > 1:
        return None
    word = words[0]
    if word == "-" or Path(word).exists():
        return word
    if dashed or " " in word or "\n" in word:
        return None
    raise BadInput(_("{word}: there is no such file. A command is given after --.").format(word=word))


def _read(path: str) -> bytes:
    try:
        if path == "-":
            return sys.stdin.buffer.read(extract.MAX_BYTES + 1)
        require_regular(path)
        with Path(path).open("rb") as file:
            return file.read(extract.MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(_("{path}: {problem}").format(path=path, problem=error.strerror or error)) from None


# --- checking --------------------------------------------------------------------------------------------------


def release_for(command: extract.Command, asked: str | None) -> tuple[Release, list[str]]:
    """The release to hold a command against, and what has to be said of that choice."""
    if asked is not None:
        release = releases.load(asked)
        return release, _not_exact(release)
    tag = command.tag
    pinned = command.pinned if command.image is None else None
    if pinned is not None:
        release = releases.load(pinned)
        return release, [_("The script installs vLLM {version}: that release counts here.").format(version=pinned), *_not_exact(release)]
    if tag is None or "$" in tag:
        return releases.load("latest"), []
    try:
        release = releases.load(tag)
    except BadInput:
        return releases.load("latest"), [
            _("The tag {tag} names no release: checked against {version}, the newest known.").format(tag=tag, version=releases.newest())
        ]
    return release, _not_exact(release)


def _release_of_image(command: extract.Command) -> Release | None:
    """The very release that the image's tag names; None where it names none that is known."""
    tag = command.tag
    if tag is None or "$" in tag or not tag.lstrip("v")[:1].isdigit():
        return None
    try:
        release = releases.load(tag)
    except BadInput:
        return None
    return release if release.exact else None


def _not_exact(release: Release) -> list[str]:
    """What is said where another release stands for one that is not known."""
    if release.exact:
        return []
    told = _("{asked} is not known: checked against {stand_in}.")
    return [told.format(asked=release.asked, stand_in=releases.stand_in(release))]


def check_words(words: list[str], asked: str | None = None, place: Place | None = None) -> Report:
    """A command given as words, or as one text."""
    command = extract.from_argv(words)
    return _report([command], asked, place)


def check_text(text: str, name: str, asked: str | None = None, place: Place | None = None, marked: bool = False) -> Report:
    """A file's text; ``name`` tells its kind where the content does not; ``marked``: a byte order mark stood before it."""
    kind = extract.file_kind(name, text)
    if kind == "compose":
        return _check_compose(text, name, asked, place)
    if kind == "kubernetes":
        return _check_kubernetes(text, name, asked, place)
    if kind == "config":
        return _check_config(text, name, asked, place)
    if kind == "env":
        return _check_env(text, name, asked, place)
    marks = extract.marks_of(name)
    commands = extract.from_text(text, script=kind == "shell", marks=marks)
    alone = loose.options_alone(text) if kind == "text" and not commands else None
    if alone is not None:
        commands = [alone]
    if not commands:
        if kind == "shell" and _RAY_START.search(text):
            return _nothing_to_check(name, text)  # another node of a Ray cluster
        raise BadInput(extract.no_command(name))
    posix = kind == "shell" and not marks
    if posix:
        commands[0].problems += _written_by_windows(text, marked)
    report = _report(commands, asked, place)
    if kind == "text" and alone is None:
        report.notes += loose.untrue_beside(text, commands, report.verdicts[0].release)
    report.original = text
    report.repaired = rewrite.rewrite_text(text, report.verdicts)
    if posix:
        report.original = "\ufeff" * marked + text
        report.repaired = report.repaired.replace("\r\n", "\n")
    return report


def _written_by_windows(text: str, marked: bool) -> list[ArgProblem]:
    """What an editor of Windows writes into a script, and a shell does not read as it was meant."""
    found = []
    if "\r\n" in text:
        told = _("the lines end as Windows ends them: a shell takes the carriage return for a part of the last word")
        found.append(ArgProblem("\\r\\n", "bad_quoting", told))
    if marked:
        told = _("a byte order mark stands before the first word: a shell takes it for a part of that word")
        found.append(ArgProblem("U+FEFF", "bad_quoting", told, accepted=text.startswith("#"), doubtful=True))
    return found


def _report(commands: list[extract.Command], asked: str | None, place: Place | None) -> Report:
    verdicts, notes = [], []
    for command in commands:
        release, said = release_for(command, asked)
        notes += said
        verdict = _judged(command, release, place)
        if verdict.changed:
            verdict.repaired_outcome = _judged(_repaired(verdict), release, place).outcome
        verdicts.append(verdict)
    problems = [p for v in verdicts for p in v.problems]
    return Report(verdicts, problems, all(v.accepted for v in verdicts), notes=notes)


def _judged(command: extract.Command, release: Release, place: Place | None) -> Verdict:
    """A command held against a release, the model as a recipe knows it, and the machine."""
    verdict = judge(command, release, place.machine if place else None)
    starts = _release_of_image(command)
    if starts is not None and starts.version != release.version:
        told = _("this image starts vLLM {starts}, whatever is said of {version} here: for {version}, give it another tag")
        verdict.problems.append(ArgProblem(str(command.image), "ok", told.format(starts=starts.version, version=release.version)))
    shell = no_shell(command, verdict.model)
    verdict.problems += [shell] if shell is not None else []
    unseen = no_model_folder(command, verdict.model) if shell is None else None
    if unseen is not None:
        verdict.problems.append(unseen)
        if place is not None and unseen.replacement and place.host.exists(unseen.flag):
            verdict.docker_added += model_mount(unseen.flag)
    given = {p.source.option.dest for p in verdict.pieces if p.source is not None and p.source.option is not None}
    if "max_model_len" in given:
        from .memory import known_model, longer_than_the_model

        too_long = longer_than_the_model(verdict, known_model(verdict.model))
        if too_long is not None and too_long.replacement is not None:
            _repair(verdict, too_long)
    if "quantization" in given:
        from .memory import not_quantized_so

        unquantized = not_quantized_so(verdict, place.machine if place else None, place.host if place else None)
        if unquantized is not None:
            verdict.problems.append(unquantized)
            verdict.leave_out("quantization")
    if place is None and "tensor_parallel_size" in given:
        from .memory import known_model, undividable

        uneven = undividable(verdict, known_model(verdict.model))
        verdict.problems += [uneven] if uneven is not None else []
    if place is not None:
        from . import here
        from .memory import conflicts

        verdict.problems += here.no_folder(verdict, place.machine, place.host)
        verdict.problems += here.problems(command, release, place.machine)
        for problem in conflicts(verdict, place.machine, place.host):
            _repair(verdict, problem)
        verdict.problems += here.notes(verdict, place.machine)
    verdict.problems += _in_variables(verdict)
    return verdict


def _in_variables(verdict: Verdict) -> list[ArgProblem]:
    """Where to change what stands in a variable: a repair of the command does not write its value into it."""
    held = dict.fromkeys(at for p in verdict.pieces if p.changed for at in rewrite.in_variables(verdict, p))
    told = _("what is wrong stands in this variable: change it where it is set, in line {line}")
    return [ArgProblem(f"${name}", "ok", told.format(line=line)) for name, line in held if line]


def _repaired(verdict: Verdict) -> extract.Command:
    """The command as it was repaired, to be judged once more."""
    words = [Word(text, text, 0, 0, dynamic="$" in text) for text in verdict.argv]
    entry = "serve" if verdict.command.kind != "options" or verdict.model is not None else "api_server"
    kind = "argv" if verdict.command.kind == "options" else verdict.command.kind
    docker = [Word(text, text, 0, 0, dynamic="$" in text) for text in extract.docker_words(verdict.command, verdict.docker_added)] if verdict.command.docker else []
    return replace(
        verdict.command, kind=kind, words=words, entry=entry, env=dict(verdict.env), docker=docker, slips=[], repeated=[], misplaced=[], problems=[], source=""
    )  # fmt: skip


def _repair(verdict: Verdict, problem: ArgProblem) -> None:
    """One problem more, and what mends it taken into the command."""
    verdict.problems.append(problem)
    if problem.replacement is not None:
        verdict.take(problem.replacement)


def _nothing_to_check(name: str, text: str) -> Report:
    """A file around vLLM in which no server is started by a command of its own."""
    note = _("{name} holds no vllm serve command; there is nothing to check.").format(name=name)
    return Report([], [], True, text, text, [note])


def _check_compose(text: str, name: str, asked: str | None, place: Place | None) -> Report:
    data = compose.load_yaml(text, name)
    commands = compose.commands_of(data, text, name)
    idle = compose.idle_services(data)
    if not commands:
        if idle:
            return _nothing_to_check(name, text)
        raise BadInput(_("{name}: no service runs vLLM.").format(name=name))
    around: list[ArgProblem] = []
    folder = str(Path(name).parent) if Path(name).is_file() else None
    for command in commands:
        command.facts["folder"] = folder
        command.problems = compose.faults(data, text, command, place.machine if place else None)
        around += command.problems
    report = _report(commands, asked, place)
    report.accepted = report.accepted and not any(p.refused for p in around)
    rewrite.rewrite_compose(data, report.verdicts, around)
    report.original, report.repaired = text, rewrite.dump_yaml(data, text)
    if report.repaired.split() == text.split():
        report.repaired = text  # nothing but blanks would change
    return report


def _check_kubernetes(text: str, name: str, asked: str | None, place: Place | None) -> Report:
    from . import kube

    documents = kube.load_all(text, name)
    commands = [kube.command_of(c) for d in documents for c in kube.containers(d)]
    if not commands:
        if any(kube.idle_containers(d) for d in documents):
            return _nothing_to_check(name, text)
        raise BadInput(_("{name}: no container runs vLLM.").format(name=name))
    report = _report(commands, asked, place)
    for verdict in report.verdicts:
        kube.rewrite(verdict)
    report.original = report.repaired = text
    if any(v.changed for v in report.verdicts):
        report.repaired = kube.dump_all(documents, text)
    return report


def _check_config(text: str, name: str, asked: str | None, place: Place | None) -> Report:
    data = compose.load_yaml(text, name)
    if isinstance(data, dict) and ("servingEngineSpec" in data or "modelSpec" in data):
        # Values of the production-stack chart: the chart makes the command of them.
        return _nothing_to_check(name, text)
    release = releases.load(asked or "latest")
    command = config_file.command_of(data, name, release)
    report = _report([command], asked, place)
    config_file.rewrite(data, report.verdicts[0])
    report.original, report.repaired = text, rewrite.dump_yaml(data, text)
    if not report.verdicts[0].changed:
        report.repaired = text
    return report


def _check_env(text: str, name: str, asked: str | None, place: Place | None) -> Report:
    """Variables only; arguments that a variable holds (VLLM_ARGS="--port ...") are judged as well."""
    env: dict[str, str] = {}
    words: list[str] = []
    for line in text.splitlines():
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        if not equals or key.startswith("#") or not key.isidentifier():
            continue
        plain = value.strip()
        if plain[:1] == plain[-1:] and plain[:1] in ("'", '"') and len(plain) > 1:
            plain = plain[1:-1]
        if plain.startswith("--"):
            import shlex

            try:
                words += shlex.split(plain)
            except ValueError:
                words += plain.split()
        else:
            env[key] = plain
    command = extract.Command("env", [Word(w, w, 0, 0) for w in words], "serve", env=env)
    report = _report([command], asked, place)
    # A secret in a file of its own is where it belongs.
    for verdict in report.verdicts:
        verdict.problems = [p for p in verdict.problems if not (p.kind == "conflict" and p.flag in env)]
    report.problems = [p for v in report.verdicts for p in v.problems]
    report.original = text
    # Only what no release reads any more and nothing takes over is taken out: any other value would be lost with its
    # line, and a name that vLLM never had may be one that a Compose file puts in.
    idle = {p.flag for p in report.problems if p.kind == "removed" and not p.replacement}
    report.repaired = rewrite.rewrite_env_file(text, [n for n in report.verdicts[0].env_removed if n in idle])
    return report


# --- output ----------------------------------------------------------------------------------------------------


def report_json(report: Report) -> dict[str, Any]:
    """What ``check --json`` prints: the first command's facts on top, all commands below."""
    rows = [verdict_json(v) for v in report.verdicts]
    first = dict(rows[0]) if rows else {"release": None, "argv": [], "env": {}, "command": None, "image": None}
    first["accepted"] = report.accepted
    first["problems"] = [problem_json(p) for p in report.problems]
    first["notes"] = report.notes
    if len(rows) > 1:
        first["commands"] = rows
    return first


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "release": verdict.release.version,
        "accepted": verdict.accepted,
        "problems": [problem_json(p) for p in verdict.problems],
        "argv": verdict.argv,
        "env": verdict.env,
        "command": rewrite.one_line(verdict) or None,
        "image": verdict.command.image,
    }


def problem_json(problem: ArgProblem) -> dict[str, Any]:
    return {
        "flag": problem.flag,
        "kind": problem.kind,
        "since": problem.since,
        "until": problem.until,
        "replacement": problem.replacement,
        "message": problem.message,
        "refused": problem.refused,
        "stops": problem.stops,
        "doubtful": problem.doubtful,
    }


def kind_words(kind: str) -> str:
    """A kind of problem in words."""
    return {
        "ok": _("note"), "deprecated": _("deprecated"), "renamed": _("renamed"), "removed": _("removed"),
        "not_yet": _("not yet there"), "never_existed": _("never existed"), "misspelt": _("misspelt"),
        "bad_value": _("wrong value"), "unknown_value": _("unknown value"), "bad_quoting": _("broken quoting"), "conflict": _("conflict"),
    }.get(kind, kind)  # fmt: skip


def place_words(problem: ArgProblem, verdict: Verdict) -> str:
    """What of the command a problem lies in, as it stands there: a model is seldom given with ``--model``."""
    if problem.flag == "--model" and verdict.model and not any(w.split("=")[0] == "--model" for w in verdict.command.argv):
        return verdict.model
    return problem.flag


def lines_of(report: Report, heading: str | None = None) -> list[str]:
    """The report for people, a line at a time. ``heading`` has {version} and {state}."""
    return [text for text, _is_prose in _rows(report, heading)]


def _rows(report: Report, heading: str | None = None, told: Sequence[str] = ()) -> list[tuple[str, bool]]:
    """The lines, each with whether it is prose, which may be broken: a command may not, nor what was told of paths."""
    heading = heading or _("vLLM {version} {state}.")
    rows = [(note, note not in told) for note in report.notes]
    for verdict in report.verdicts:
        rows.append((heading.format(version=verdict.release.version, state=_state(verdict.outcome)), True))
        for problem in verdict.problems:
            said = sentences(stopped(kind_words(problem.kind)), sentence(problem.message))
            rows.append(("  " + labelled(place_words(problem, verdict), said), True))
            if _shows_replacement(problem, verdict):
                rows.append((f"    -> {problem.replacement}", False))
        if not verdict.problems:
            rows.append(("  " + _("Nothing is wrong with it."), True))
        command = rewrite.one_line(verdict)
        if command and (verdict.changed or not verdict.accepted):
            rows += [("", False), ("  " + command, False), ("", False)]
            if verdict.repaired_outcome not in ("starts", "flawed"):
                even_so = _("Even as repaired here, vLLM {version} {state}.")
                rows.append((even_so.format(version=verdict.release.version, state=_state(verdict.repaired_outcome)), True))
    return rows


def _say(rows: list[tuple[str, bool]]) -> None:
    for text, is_prose in rows:
        indent = " " * (len(text) - len(text.lstrip()))
        print("\n".join(columns.wrap(text, columns.of_prose(), indent, indent + "  ")) if is_prose else text)


def _shows_replacement(problem: ArgProblem, verdict: Verdict) -> bool:
    """Whether a line of its own says what is written instead: not where the message does, unless it only mentions it."""
    if not problem.replacement or problem.replacement not in problem.message:
        return bool(problem.replacement)
    mentions = problem.kind in ("renamed", "removed", "never_existed", "not_yet")
    return mentions and problem.replacement in rewrite.one_line(verdict)


def _state(outcome: str) -> str:
    return {
        "refused": _("would refuse it"),
        "stops": _("takes it, and then does not start"),
        "doubtful": _("takes it, and may then not start"),
        "flawed": _("would start with it, but not all of it is right"),
        "starts": _("would start with it"),
    }[outcome]


def _print_repair(was: Report, now: Report, told: list[str]) -> None:
    """A file that was repaired: what was, what was done (``told``, the last of the notes), what is."""
    notes = was.notes[: len(was.notes) - len(told)]
    _say(_rows(replace(was, notes=notes), heading=_("As it was, vLLM {version} {state}.")))
    _say([(line, False) for line in told])
    _say(_rows(replace(now, notes=[]), heading=_("As it is now, vLLM {version} {state}.")))


def _print(report: Report, told: list[str]) -> None:
    _say(_rows(report, told=told))
    count = sum(p.kind not in ("ok",) for p in report.problems)
    if len(report.verdicts) > 1:
        print(ngettext("{n} problem in all", "{n} problems in all", count).format(n=count))


def _not_repaired(path: str, after: Report) -> str:
    """What is said of a file that would be refused although it were repaired."""
    left = ", ".join(dict.fromkeys(p.flag for p in after.problems if p.refused))
    return _("{path} stays as it is: repaired as far as that can be done here, it would be refused again ({problems}).").format(
        path=path, problems=left
    )


def _write(path: str, raw: bytes, report: Report, quiet: bool) -> list[str]:
    """Repair the file in place: difference first, backup kept."""
    from wizard import apply
    from wizard.outputs.spec import FileSpec

    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(_("{path} is not UTF-8: save it as UTF-8 first, nothing was written.").format(path=path)) from None
    if report.repaired is None or report.repaired == report.original:
        return [_("{path} stays as it is.").format(path=path)]
    content = report.repaired.encode("utf-8")
    if raw.startswith(BOM) and not report.original.startswith("\ufeff"):
        content = BOM + content
    absolute = str(Path(path).resolve())
    mode = Path(path).stat().st_mode & 0o777
    spec = FileSpec(absolute, content, mode=mode, edited=True, expected_bytes=raw)
    changes = apply.prepare([spec], Path(absolute).parent)
    if not quiet:
        for change in changes:
            print(change.diff)
    receipt = apply.write(changes)
    backups = [w.backup for w in receipt.files if w.backup]
    return [_("{path} was repaired.").format(path=path), *(_("Before: {backup}").format(backup=b) for b in backups)]
