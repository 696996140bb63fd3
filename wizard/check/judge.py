"""Judge a command against a release, and repair it: every option in turn, then how they go together."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from wizard import releases
from wizard.i18n import _, sentences, stopped
from wizard.probes.disks import path_in_wsl, to_linux_path
from wizard.releases import start_values
from wizard.releases.batches import batch_conflict, length_conflict
from wizard.releases.parse import (
    Argument,
    BadValue,
    check_argument,
    full_spelling,
    human_int,
    negative_of,
    switch_text,
    take_apart,
    unknown_flag,
)
from wizard.releases.types import ArgProblem, Option, Release
from wizard.starters import base_of

from . import container, history
from .extract import Command

if TYPE_CHECKING:
    from wizard.facts import Machine

SECRET_NAME = re.compile(r"(TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL)", re.I)
_FLAG = re.compile(r"--[a-z][a-z0-9-]+")
SECRET_VALUE = re.compile(r"^(hf_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{10,}|github_pat_\w+|ghp_\w+)$")


Outcome = Literal["refused", "stops", "doubtful", "flawed", "starts"]


@dataclass
class Piece:
    """One option (or positional) of the repaired command, and where it came from."""

    words: list[str]  # what is written now; empty: left out
    source: Argument | None  # None: added
    first: int = 0  # position of its first word in the command
    changed: bool = False
    json_until: int = -1  # words up to here belong to the JSON that was put together again
    passed: bool = False  # words that only the shell knows, as they stand


@dataclass
class Verdict:
    """What was found out about one command."""

    command: Command
    release: Release
    accepted: bool  # would the parser take it as it stands
    problems: list[ArgProblem]
    argv: list[str]  # repaired: what follows ``vllm serve``, the model first
    env: dict[str, str]
    pieces: list[Piece] = field(default_factory=list)
    env_removed: list[str] = field(default_factory=list)
    model: str | None = None
    docker_added: list[str] = field(default_factory=list)  # options that docker's own words lack
    repaired_outcome: Outcome = "starts"  # what becomes of the command as it was repaired

    @property
    def outcome(self) -> Outcome:
        """What becomes of the command as it stands."""
        if not self.accepted:
            return "refused"
        if any(p.stops for p in self.problems):
            return "stops"
        if any(p.doubtful for p in self.problems):
            return "doubtful"
        return "flawed" if any(p.counts for p in self.problems) else "starts"

    def take(self, words: str) -> None:
        """Put an option with its value in the place of the one that stands there, or at the end."""
        flag, value = words.split(None, 1)
        option = self.release.option(flag)
        own = next((p for p in self.pieces if p.words and p.source is not None and p.source.option is option and not p.source.keys), None)
        if own is not None:
            own.words, own.changed = [own.words[0].partition("=")[0], value], True
        else:
            self.pieces.append(Piece([flag, value], None, changed=True))
        self.argv = argv_of(self.model, self.pieces)

    def leave_out(self, dest: str) -> None:
        """Take an option out."""
        for piece in self.pieces:
            if piece.source is not None and piece.source.option is not None and piece.source.option.dest == dest:
                piece.words, piece.changed = [], True
        self.argv = argv_of(self.model, self.pieces)

    @property
    def changed(self) -> bool:
        return any(p.changed for p in self.pieces) or bool(self.env_removed or self.docker_added or self.command.repeated or self.command.misplaced)


def judge(command: Command, release: Release, machine: Machine | None = None) -> Verdict:
    """Everything that can be said of a command for a release (and a machine)."""
    return _Judge(command, release, machine).run()


class _Judge:
    def __init__(self, command: Command, release: Release, machine: Machine | None) -> None:
        self.command = command
        self.release = release
        self.machine = machine
        self.problems: list[ArgProblem] = []
        self.pieces: list[Piece] = []
        self.env = dict(command.env)
        self.env_removed: list[str] = []
        self.json_parts: dict[str, dict[str, Any]] = {}
        self.added: list[list[str]] = []
        self.docker_added: list[str] = []
        self.model: str | None = None
        self.model_flag_given = False
        self.refused = False
        serves_by_flag = command.entry == "api_server" or (command.entry == "image" and release.image.serves_with_model_flag)
        self.conditions = ("entrypoint:api_server",) if serves_by_flag else ()

    def run(self) -> Verdict:
        self._slips()
        self._repeated_entrypoint()
        self._misplaced()
        opaque = {i for i, w in enumerate(self.command.words) if w.opaque}
        arguments = take_apart(self.command.argv, self.release, without_model=self.command.kind == "options", opaque=opaque)
        self.model_flag_given = any(a.flag == "--model" for a in arguments)
        position = 0
        for argument in arguments:
            position += self.command.argv[position] != argument.tokens[0]  # past the "--" that ends the options
            self._argument(argument, position)
            position += len(argument.tokens)
        self._outside_limits()
        self._no_model()
        self._merge_json()
        self._environment()
        self._together(arguments)
        self._known_faults()
        for name, line in self.command.unread.items():
            self._say(f"${name}", "ok", _("line {line} changes this under a condition, or in a way that is not followed here: what comes of it was not judged").format(line=line))
        self.pieces += [Piece(words, None, changed=True) for words in self.added]
        argv = self._argv()
        accepted = not self.refused and not any(p.refused for p in (*self.command.problems, *self.problems))
        return Verdict(
            self.command, self.release, accepted, [*self.command.problems, *self.problems], argv, self.env,
            self.pieces, self.env_removed, self.model, self.docker_added,
        )  # fmt: skip

    def _say(self, flag: str, kind: str, message: str, **more: Any) -> None:
        self.problems.append(ArgProblem(flag, kind, message, **more))

    # --- how it is written ------------------------------------------------------------------------------------

    def _slips(self) -> None:
        for slip in self.command.slips:
            after = next((w for w in reversed(self.command.words) if w.start <= slip.at), None)
            flag = after.text if after is not None else "vllm serve"
            if slip.kind == "smart_quote":
                self._say(flag, "bad_quoting", _("typographic quotes are no quotes for a shell: write plain ones"))
            elif slip.kind == "dash":
                self._say(flag, "bad_quoting", _("{raw} begins with a typographic dash; options begin with - or --").format(raw=slip.text), replacement=flag)
            elif slip.kind == "glued_text" and after is not None and after.end == slip.at:
                self._say(flag, "bad_quoting", _("text is glued to the end of {flag}; it was cut off").format(flag=flag))
            elif slip.kind == "continuation_space":
                told = _("a blank behind the backslash ends the command there: nothing may follow it on the line")
                if slip.text not in ("", "\\"):
                    told = _("a blank behind the {mark} ends the command there: nothing may follow it on the line").format(mark=slip.text)
                self._say(slip.text or "\\", "bad_quoting", told)
            elif slip.kind == "comment_inside":
                self._say("#", "bad_quoting", _("a comment between continued lines ends the command there: {comment}").format(comment=slip.text[:60]))
            elif slip.kind == "half_quote":
                self._say(flag, "bad_quoting", _("a quote is opened and not closed"))
            elif slip.kind == "no_continuation":
                self._say("\\", "bad_quoting", _("a line goes on without a backslash at the end of the one before"), accepted=self.command.kind != "shell")

    def _repeated_entrypoint(self) -> None:
        if not self.command.repeated:
            return
        words = " ".join(w.text for w in self.command.repeated)
        if self.release.image.serves_with_model_flag:
            text = _("the image of {release} starts the API server itself: {words} is one word too many for it").format(
                release=self.release.version, words=words
            )
        else:
            text = _("the image's entrypoint is vllm serve already: {words} stands there twice (since 0.11.1)").format(words=words)
        self._say(words, "bad_value", text, since=None if self.release.image.serves_with_model_flag else "0.11.1")

    def _misplaced(self) -> None:
        """Options of vLLM among those of docker."""
        told = _("{flag} is no option of {program}, which refuses the line: as an option of vLLM it belongs behind the image")
        for word in self.command.misplaced:
            flag = word.text.partition("=")[0]
            if flag.startswith("--"):
                self._say(flag, "bad_value", told.format(flag=flag, program=base_of(self.command.docker[0].text)))

    # --- one option -------------------------------------------------------------------------------------------

    def _argument(self, argument: Argument, position: int) -> None:
        piece = Piece(list(argument.tokens), argument, position)
        self.pieces.append(piece)
        if argument.how == "opaque":
            self._not_known(argument, piece)
            return
        if argument.how == "positional":
            self._positional(argument, piece)
            return
        if argument.flag == "--model":  # also where a release has no such option: the model stays
            self._model_flag(argument, piece)
            return
        if argument.option is None or self._was_an_option(argument):
            self._unknown(argument, piece, position)
            return
        self._known(argument, argument.option, piece, position)

    def _known(self, argument: Argument, option: Option, piece: Piece, position: int) -> None:
        """An option of this release: what is given to it."""
        dynamic = any(w.dynamic and "$" in w.text for w in self.command.words[position : position + len(argument.tokens)])
        problem = check_argument(argument, self.release, self.conditions)
        if problem is not None and problem.kind == "deprecated":
            self.problems.append(self._with_successor(problem, argument))
        elif problem is not None and not dynamic:
            self._bad_value(problem, argument, piece, position)
        elif option.dest == "optimization_level" and not dynamic and argument.values[:1] not in (("0",), ("1",), ("2",), ("3",)):
            # The parser takes any word there; the start then fails.
            problem = ArgProblem(argument.flag, "bad_value", _("the optimization level is 0, 1, 2 or 3"), accepted=True, stops=True)
            self._bad_value(problem, argument, piece, position)
        elif not dynamic and not argument.keys and len(argument.values) == 1 and not start_values.taken(argument.values[0], option):
            self._unknown_to_start(argument, option, piece)
        self._full_name(argument, piece)

    def _was_an_option(self, argument: Argument) -> bool:
        """A spelling that means something of its own, and happens to begin another option: --device, --device-ids."""
        known = history.entry_for(argument.written) is not None or bool(releases.flag_spans(argument.flag))
        return "prefix" in argument.how and known

    def _positional(self, argument: Argument, piece: Piece) -> None:
        if self._spoken_truth(argument, piece):
            return
        if self.model is None and not self.conditions:
            self.model = self._on_linux(argument.values[0])
            if self.model != argument.values[0]:
                piece.words, piece.changed = [self.model], True
            return
        if self._swallow_json(argument, piece):
            return
        if self.command.words[piece.first].dynamic:
            self._not_known(argument, piece)
            return
        if self.model is None and not self.model_flag_given and self.command.kind != "options":  # the old server, which takes it only with --model
            self.model = argument.values[0]
            text = _("this server takes its model with --model: --model {value}").format(value=self.model)
            self._say(self.model, "bad_value", text, replacement=f"--model {_quote(self.model)}")
            piece.words, piece.changed = ["--model", self.model], True
            return
        told = _("{value!r} belongs to no option").format(value=argument.values[0])
        self._say(argument.values[0], "bad_value", sentences(stopped(told), _("It was left out.")))
        piece.words, piece.changed = [], True

    def _not_known(self, argument: Argument, piece: Piece) -> None:
        """Words that only the shell knows: they stay where they stand, and nothing is said against them."""
        piece.passed = True
        self._say(argument.values[0], "ok", _("what this stands for is not known here: it stays as it is and was not judged"))

    def _spoken_truth(self, argument: Argument, piece: Piece) -> bool:
        """``--enable-x False``: the value of a switch that takes none any more."""
        previous = self.pieces[-2] if len(self.pieces) > 1 else None
        source = previous.source if previous is not None else None
        value = argument.values[0]
        if previous is None or source is None or source.option is None or value.lower() not in ("true", "false"):
            return False
        if source.option.kind != "flag" or source.attached:
            return False
        made = self._flag_with_value(dataclasses.replace(source, values=(value,), attached=True), source.option, previous, 0)
        if made is not None:
            self.problems.append(made)
        piece.words, piece.changed = [], True
        return True

    def _swallow_json(self, argument: Argument, piece: Piece) -> bool:
        """A further word of JSON that lost its quotes: it was put back together at the option before."""
        previous = next((p for p in reversed(self.pieces[:-1]) if p.source is not None), None)
        end = previous.json_until if previous is not None else -1
        if piece.first < end:
            piece.words, piece.changed = [], True
            piece.json_until = end
            return True
        return False

    def _model_flag(self, argument: Argument, piece: Piece) -> None:
        value = argument.values[0] if argument.values else None
        problem = check_argument(argument, self.release, self.conditions)
        if problem is not None:
            self.problems.append(dataclasses.replace(problem, replacement=value))
        if self.model is not None and value is not None and not self.conditions:
            self._say("--model", "conflict", _("the model is given twice: {first} and {second}").format(first=self.model, second=value))
            self.refused = True
        elif value is not None:
            self.model = self._on_linux(value)
        piece.words, piece.changed = [], not self.conditions
        if self.conditions:
            piece.words = list(argument.tokens)
            if self.model not in (None, value):
                piece.words, piece.changed = ["--model", str(self.model)], True

    def _on_linux(self, model: str) -> str:
        """The model, a path of Windows as the vLLM inside WSL sees it."""
        wsl = self.machine.wsl if self.machine is not None else None
        path = path_in_wsl(model, wsl.automount_root if wsl is not None else "/mnt/")
        if path is None:
            return model
        if self.command.image is None:
            if self.machine is not None and self.machine.is_wsl2:
                path = to_linux_path(model, self.machine.mounts) or path
            told = _("this is a path of Windows: the vLLM inside WSL sees it as {path}").format(path=path)
            self._say(model, "conflict", told, replacement=path, accepted=True, stops=True)
            return path
        inside = container.within_windows(model, container.mounts(self.command))
        if inside is not None:
            told = _("this is a path of Windows: in the container it is {path}").format(path=inside)
        else:
            told = _("this is a path of Windows, which a container does not see: bind the folder into it, and give the path there")
        self._say(model, "conflict", told, replacement=inside, accepted=True, stops=True)
        return inside or model

    def _full_name(self, argument: Argument, piece: Piece) -> None:
        """What is written uses full names, whatever prefix or underscore stood there."""
        if not piece.words or ("prefix" not in argument.how and "underscore" not in argument.how):
            return
        name = full_spelling(self.release, argument.written)
        if name is None or name == argument.written:
            return
        piece.words[0] = name + piece.words[0][len(argument.written) :] if argument.attached else name
        piece.changed = True

    def _with_successor(self, problem: ArgProblem, argument: Argument) -> ArgProblem:
        entry = history.entry_for(argument.flag)
        if entry is None:
            return problem
        return dataclasses.replace(problem, message=sentences(stopped(problem.message), _(entry["note"])), replacement=entry.get("see"))

    def _unknown(self, argument: Argument, piece: Piece, position: int) -> None:
        problem = unknown_flag(argument, self.release)
        if argument.option is not None:  # taken, but for something else
            problem = dataclasses.replace(
                problem, accepted=True,
                message=sentences(stopped(problem.message), _("{release} takes it for {flag}").format(release=self.release.version, flag=argument.option.flag)),
            )  # fmt: skip
        entry = history.entry_for(argument.written)
        if entry is not None and problem.kind in ("never_existed", "misspelt", "removed", "not_yet"):
            self._from_history(argument, piece, problem, entry)
            return
        if argument.written.startswith("-") and not argument.written.startswith("--"):
            problem = self._single_dash(argument, problem)
        if problem.kind == "misspelt" and problem.replacement and argument.how != "ambiguous":
            rest = "".join("." + k for k in argument.keys)
            words = list(argument.tokens)
            words[0] = problem.replacement + rest + (words[0][len(argument.written) :] if argument.attached else "")
            piece.words, piece.changed = words, True
            self.problems.append(problem)
            again = take_apart(words, self.release)[0]
            if again.option is not None:  # from here on it is the option that was meant
                piece.source = dataclasses.replace(again, tokens=argument.tokens)
                self._known(again, again.option, piece, position)
            return
        piece.words, piece.changed = [], True
        self.problems.append(dataclasses.replace(problem, message=sentences(stopped(problem.message), _("It was left out."))))

    def _single_dash(self, argument: Argument, problem: ArgProblem) -> ArgProblem:
        two = "-" + argument.written
        full = full_spelling(self.release, two)
        if full is None:
            return problem
        return ArgProblem(
            argument.written, "misspelt", _("{flag} has one dash; {full} has two").format(flag=argument.written, full=full), replacement=full
        )

    def _from_history(self, argument: Argument, piece: Piece, problem: ArgProblem, entry: Any) -> None:
        kind = problem.kind
        if kind == "misspelt" or (kind == "never_existed" and entry.get("until")):
            kind = "removed" if entry.get("until") else "never_existed"
        if kind == "removed" and entry.get("change") == "renamed":
            kind = "renamed"
        way = self._usable(history.way_out(entry, argument.values, self.release))
        piece.words, piece.changed = [], True
        replacement: str | None = entry.get("see")
        if "tokens" in way:
            groups = way["tokens"]
            piece.words = [word for group in groups for word in group]
            replacement = " ".join(_quote(w) for w in piece.words) or replacement
        elif "json" in way:
            flag, key, value = way["json"]
            held = self.json_parts.setdefault(flag, {})
            held[key] = value
            for name, needed in way["with"].items():
                held.setdefault(name, needed)
            replacement = f"{flag} {_quote(json.dumps({key: value}, ensure_ascii=False))}"
        elif "env" in way:
            name, value = way["env"]
            self.env[name] = value
            replacement = f"{name}={value}"
        elif "model" in way:
            self.model = self.model or argument.values[0]
            replacement = argument.values[0]
        base = {
            "removed": _("{flag} is gone since {since}"),
            "renamed": _("{flag} is gone since {since}"),
            "not_yet": _("{flag} came with {since}; {release} does not have it"),
            "never_existed": _("no vLLM release has {flag}"),
        }[kind]
        since = problem.since or _after(entry.get("until"))
        note = way.get("note", entry["note"])
        text = sentences(stopped(base.format(flag=argument.flag, since=since, release=self.release.version)), _(note))
        lacking = [flag for flag in dict.fromkeys(_FLAG.findall(note)) if self.release.option(flag) is None]
        if lacking and not way.keys() - {"note"}:
            text = sentences(text, _("vLLM {release} does not have {flags}.").format(release=self.release.version, flags=", ".join(lacking)))
            replacement = None if replacement in lacking else replacement
        if not piece.words and not way.keys() & {"json", "env", "model"}:
            text = sentences(stopped(text), _("It was left out."))
        self._say(argument.flag, kind, text, since=since, until=problem.until or entry.get("until"), replacement=replacement, accepted=problem.accepted)

    def _usable(self, way: dict[str, Any]) -> dict[str, Any]:
        """The way out, unless the value that was given is one that the new place refuses."""
        groups: list[list[str]] = way.get("tokens", [])
        if "json" in way:
            flag, key, value = way["json"]
            groups = [[flag, json.dumps({**way["with"], key: value})]]
        return way if self._takes([word for group in groups for word in group]) else {}

    def _takes(self, words: Sequence[str]) -> bool:
        """Whether the release's parser takes these options."""
        return not any(p.refused for p in releases.check_argv(["m", *words], self.release.version))

    # --- values -----------------------------------------------------------------------------------------------

    def _bad_value(self, problem: ArgProblem, argument: Argument, piece: Piece, position: int) -> None:
        option = argument.option
        assert option is not None
        for repair in (self._o_dotted, self._key_renamed, self._flag_with_value, self._json_value, self._key_value_form, self._near_choice, self._human_value):
            made = repair(argument, option, piece, position)
            if made is not None and self._takes(piece.words):
                self.problems.append(dataclasses.replace(made, message=made.message or problem.message))
                return
            piece.words, piece.changed = list(argument.tokens), False
        if not problem.accepted:
            piece.words, piece.changed = [], True
            problem = dataclasses.replace(problem, message=sentences(stopped(problem.message), _("It was left out; set it as you need it.")))
        self.problems.append(problem)

    def _no_model(self) -> None:
        """A command without a model, which starts all the same: with the release's default."""
        given = self._given()
        usual = next((o.default for o in self.release.options if o.dest == "model"), None)
        if self.model is None and usual and not any(p.passed for p in self.pieces) and self.command.kind in ("shell", "argv", "docker") and not self.command.problems and not given.keys() & {"config", "headless"}:
            self._say("MODEL", "conflict", _("no model is named: vLLM then serves its default, {model}").format(model=usual), accepted=True)

    def _outside_limits(self) -> None:
        """Numbers that the parser takes, and that the configuration of the release refuses when the server starts."""
        given = self._given()
        for piece in self.pieces:
            argument = piece.source
            option = argument.option if argument is not None else None
            if argument is None or option is None or argument.keys or len(argument.values) != 1 or piece.changed:
                continue
            value = argument.values[0]
            if (option.limits_with and option.limits_with not in given) or not start_values.outside(value, option):
                continue
            right = start_values.share_of(value, option)
            text = _("vLLM {release} stops when it starts with {value}: {limits}").format(
                release=self.release.version, value=value, limits=start_values.within(option)
            )
            if right is None:
                text = sentences(stopped(text), _("It was left out; set it as you need it."))
            self._say(argument.flag, "bad_value", text, replacement=f"{argument.flag} {right}" if right else None, accepted=True, stops=True)
            piece.words, piece.changed = [argument.flag, right] if right else [], True

    def _unknown_to_start(self, argument: Argument, option: Option, piece: Piece) -> None:
        """A value that the parser takes, and that the release itself does not know when the server starts."""
        value, values = argument.values[0], option.start_values
        named = {"value": value, "release": self.release.version, "values": ", ".join(values)}
        right = _near(value, values)
        replacement = f"{argument.flag} {right}" if right else None
        if option.start_others == "plugins":
            text = _("vLLM {release} itself does not know {value!r}, and starts with it only where a plugin brings it; its own are: {values}")
            self._say(argument.flag, "unknown_value", text.format(**named), replacement=replacement, accepted=True, doubtful=True)
        else:
            text = _("vLLM {release} does not know {value!r} and stops when it starts; it knows: {values}").format(**named)
            if right is None:
                text = sentences(stopped(text), _("It was left out; set it as you need it."))
            self._say(argument.flag, "bad_value", text, replacement=replacement, accepted=True, stops=True)
        if right is not None or option.start_others != "plugins":
            piece.words, piece.changed = [argument.flag, right] if right else [], True

    def _o_dotted(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        """``-O.level=3``, which was short for keys of --compilation-config up to 0.12."""
        text = argument.values[0] if argument.values else ""
        if argument.written != "-O" or not text.startswith("."):
            return None
        key, equals, value = text[1:].partition("=")
        known = history.data()["keys"]["--compilation-config"]
        head, dot, tail = key.partition(".")
        name = f"--compilation-config.{known.get(head, {}).get('to', head)}{dot}{tail}"
        piece.words, piece.changed = [f"{name}={value}" if equals else name], True
        return ArgProblem(f"-O.{key}", "renamed", _("-O.key is written {name} now").format(name=name), since="0.13.0", until="0.12.0", replacement=name, accepted=True)

    def _key_renamed(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        known = history.data()["keys"].get(option.flag, {})
        if not argument.keys or argument.keys[0] not in known:
            return None
        row = known[argument.keys[0]]
        written = f"{option.flag}.{row['to']}"
        piece.words, piece.changed = [written, *argument.values], True
        return ArgProblem(f"{argument.flag}", "renamed", _(row["note"]), replacement=written)

    def _flag_with_value(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        """``--enable-x=False`` and ``--enable-x True``, as releases before 0.9 took them."""
        if option.kind != "flag" or not argument.attached:
            return None
        value = argument.values[0].strip().lower()
        if value not in ("true", "false", "1", "0", "yes", "no"):
            return None
        on = value in ("true", "1", "yes")
        off = negative_of(option)
        right = argument.flag if on else off
        piece.words, piece.changed = [right] if right else [], True
        return ArgProblem(
            argument.flag, "bad_value", _("{flag} takes no value: write {right}").format(flag=argument.flag, right=" ".join(piece.words) or _("nothing")),
            replacement=" ".join(piece.words) or None, since="0.9.0" if option.action == "bool" else None,
        )  # fmt: skip

    def _json_value(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        """JSON that lost its quotes on the way, or was never quoted: put back together from what stands there."""
        if option.kind not in ("json", "dict") and option.value_type not in ("json", "dataclass"):
            return None
        if not argument.values or argument.keys:
            return None
        raw, until = self._raw_json(argument, position)
        for candidate in (raw, " ".join(argument.values)):
            value = mend_json(candidate)
            if value is None:
                continue
            text = json.dumps(value, ensure_ascii=False)
            words = [argument.flag, text]
            again = take_apart(words, self.release)[0]
            inner = check_argument(again, self.release, self.conditions)
            if inner is not None and inner.refused:
                continue
            piece.words, piece.changed = words, True
            piece.json_until = until
            return ArgProblem(
                argument.flag, "bad_quoting", _("the JSON lost its quotes: write {flag} {json}").format(flag=argument.flag, json=_quote(text)),
                replacement=f"{argument.flag} {_quote(text)}",
            )  # fmt: skip
        return None

    def _raw_json(self, argument: Argument, position: int) -> tuple[str, int]:
        """The characters as they stand from the value's first brace to the matching one, and the next word's place."""
        words = self.command.words
        at = position if argument.attached else position + 1
        if at >= len(words) or not self.command.source:
            return " ".join(argument.values), position + len(argument.tokens)
        source = self.command.source
        begin = source.find("{", words[at].start)
        if begin < 0 or begin > words[at].end:
            return " ".join(argument.values), position + len(argument.tokens)
        depth, stop = 0, begin
        for index in range(begin, min(len(source), begin + 4000)):
            if source[index] == "{":
                depth += 1
            elif source[index] == "}":
                depth -= 1
                if depth == 0:
                    stop = index + 1
                    break
        until = next((i for i in range(at, len(words)) if words[i].start >= stop), len(words))
        return source[begin:stop], until

    def _key_value_form(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        """``image=4,video=0`` where JSON is wanted now, and JSON where only that form is taken."""
        if option.dest != "limit_mm_per_prompt" or argument.keys or not argument.values:
            return None
        text = argument.values[0]
        if option.value_type == "key_values":
            value = mend_json(text)
            if not isinstance(value, dict):
                return None
            right = ",".join(f"{k}={v}" for k, v in value.items())
            since = None
        else:
            pairs = re.findall(r"(\w+)\s*[=:]\s*(\d+)", text)
            if not pairs:
                return None
            right, since = json.dumps({k: int(v) for k, v in pairs}), "0.10.0"
        piece.words, piece.changed = [argument.flag, right], True
        return ArgProblem(
            argument.flag, "bad_value", _("{flag} is written {right} in this release").format(flag=argument.flag, right=_quote(right)),
            since=since, replacement=f"{argument.flag} {_quote(right)}",
        )  # fmt: skip

    def _near_choice(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        if option.choices is None or len(argument.values) != 1 or argument.keys:
            return None
        text = argument.values[0]
        synonyms = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "f16": "float16", "flash_attn": "FLASH_ATTN"}
        lowered = {c.lower().replace("-", "_"): c for c in option.choices}
        plain = synonyms.get(text.lower(), text).lower().replace("-", "_")
        right = lowered.get(plain)
        if right is None and option.value_type == "int" and text.isdigit():
            larger = sorted(int(c) for c in option.choices if c.isdigit() and int(c) >= int(text))
            right = str(larger[0]) if larger else None
        if right is None:
            near = difflib.get_close_matches(text, option.choices, 1, 0.75)
            right = near[0] if near else None
        if right is None:
            return None
        piece.words, piece.changed = [argument.flag, right], True
        return ArgProblem(
            argument.flag, "bad_value",
            _("{value!r} is not one of: {choices}").format(value=text, choices=", ".join(option.choices)), replacement=f"{argument.flag} {right}",
        )  # fmt: skip

    def _human_value(self, argument: Argument, option: Option, piece: Piece, position: int) -> ArgProblem | None:
        """32k where the release wants digits; auto for a length that it works out itself."""
        if option.value_type not in ("int", "human_int") or len(argument.values) != 1 or argument.keys:
            return None
        text = argument.values[0]
        if text.lower() in ("auto", "-1") and option.dest == "max_model_len":
            piece.words, piece.changed = [], True
            return ArgProblem(argument.flag, "bad_value", _("{flag} {value} came with 0.14.0; without it, the model's own length is used").format(flag=argument.flag, value=text), since="0.14.0")
        plain = text.strip().lower().removesuffix("b").replace(",", "").replace("_", "")
        try:
            number = human_int(plain)
        except BadValue:
            return None
        piece.words, piece.changed = [argument.flag, str(number)], True
        return ArgProblem(argument.flag, "bad_value", _("{value!r} is not a whole number for this release").format(value=text), replacement=f"{argument.flag} {number}")

    # --- together ---------------------------------------------------------------------------------------------

    def _merge_json(self) -> None:
        """Put the keys that came from single options into the JSON option that has them now."""
        for flag, keys in self.json_parts.items():
            existing = next((p for p in self.pieces if p.words and p.source is not None and p.source.option is not None and p.words[0] == flag and not p.source.keys), None)
            value: dict[str, Any] = {}
            if existing is not None and existing.source is not None and existing.source.values:
                held = mend_json(existing.source.values[0])
                value = held if isinstance(held, dict) else {}
                existing.words, existing.changed = [], True
            if flag == "--speculative-config":
                if "num_speculative_tokens" not in value and "model" in keys:
                    keys.setdefault("num_speculative_tokens", 5)  # what guides to the old options used most
                if keys.get("model") == "[ngram]":
                    keys.pop("model")
                    keys["method"] = "ngram"
            text = json.dumps({**value, **keys}, ensure_ascii=False)
            self.added.append([flag, text])

    def _environment(self) -> None:
        for name in list(self.env):
            if name.startswith("VLLM_") and name not in self.release.env:
                self._unknown_variable(name)
            value = self.env.get(name, "")
            if SECRET_VALUE.match(value) or (SECRET_NAME.search(name) and len(value) > 7 and "$" not in value):
                if self.command.kind != "compose":  # the checks of the file name it, with its place
                    self._say(name, "conflict", _("a secret stands in the open; keep it in an environment file that only you can read (mode 600)"), accepted=True)
                self.env[name] = f"${{{name}}}"

    def _unknown_variable(self, name: str) -> None:
        known = history.data()["env"].get(name)
        runs = releases.spans("env", name)
        here = releases.version_key(self.release.version)
        earlier = [r for r in runs if releases.version_key(r[1]) < here]
        later = [r for r in runs if releases.version_key(r[0]) > here]
        value = self.env.pop(name)
        self.env_removed.append(name)
        replacement: str | None = None
        if known and known.get("flag") and self.release.option(known["flag"]) is not None and (earlier or not later):
            wanted = known.get("value", {}).get(value, value) if isinstance(known.get("value"), dict) else value
            option = self.release.option(known["flag"])
            if wanted and not any(p.source and p.source.option is option for p in self.pieces):
                words = [known["flag"], wanted]
                if self._starts_with(words):
                    self.added.append(words)
            if option is None or start_values.taken(wanted or "", option):
                replacement = f"{known['flag']} {wanted}".strip()
        note = _(known["note"]) if known else ""
        if earlier:
            gone = releases.next_version(earlier[-1][1])
            self._say(
                name, "removed", sentences(stopped(_("{name} is read by no release since {since}").format(name=name, since=gone)), note),
                since=gone, until=earlier[-1][1], replacement=replacement, accepted=True,
            )  # fmt: skip
        elif later:
            self._say(name, "not_yet", sentences(stopped(_("{name} is read since {since} only").format(name=name, since=later[0][0])), note), since=later[0][0], accepted=True)
        else:
            self._variable_as_option(name, value)

    def _variable_as_option(self, name: str, value: str) -> None:
        """A variable that vLLM never read; often an option is meant."""
        dest = name.removeprefix("VLLM_").lower()
        option = next((o for o in self.release.options if o.dest == dest), None)
        if dest in ("model", "model_name", "model_id", "model_path"):
            text = _("vLLM reads no {name}: the model is an argument").format(name=name)
            if self.model not in (None, value):
                text = sentences(stopped(text), _("The command takes {model}.").format(model=self.model))
            self._say(name, "never_existed", text, replacement=(value or None) if self.model in (None, value) else None, accepted=True)
            if self.model is None and value and "$" not in value:
                self.model = value
            return
        if option is None:
            near = difflib.get_close_matches(name, self.release.env, 1, 0.85)
            text = _("vLLM reads no variable {name}").format(name=name)
            if near:
                text = sentences(stopped(text), _("Is {near} meant?").format(near=near[0]))
            self._say(name, "never_existed", text, replacement=near[0] if near else None, accepted=True)
            return
        words = [option.flag] if option.kind == "flag" else [option.flag, value]
        self._say(name, "never_existed", _("vLLM reads no {name}: it is the option {flag}").format(name=name, flag=option.flag), replacement=" ".join(words), accepted=True)
        given = any(p.source is not None and p.source.option is option for p in self.pieces)
        wanted = bool(value) and "$" not in value and (option.kind != "flag" or value.lower() in ("1", "true", "yes"))
        if wanted and not given and self._starts_with(words):
            self.added.append(words)

    def _starts_with(self, words: list[str]) -> bool:
        """Whether the release takes an option in place of a variable, and starts with it."""
        option = self.release.option(words[0])
        known = option is None or len(words) < 2 or (start_values.taken(words[1], option) and not start_values.outside(words[1], option))
        return known and self._takes(words)

    def _given(self) -> dict[str, Argument]:
        return {p.source.option.dest: p.source for p in self.pieces if p.words and p.source is not None and p.source.option is not None}

    def _together(self, arguments: Sequence[Argument]) -> None:
        self._twice(arguments)
        given = self._given()
        added = {a[0] for a in self.added}
        for rule in history.data()["pairs"]:
            option = next((o for o in self.release.options if o.dest == rule["if"]), None)
            if option is None or rule["if"] not in given:
                continue
            other = rule.get("without") or rule.get("with")
            target = next((o for o in self.release.options if o.dest == other), None)
            if target is None:
                continue
            present = other in given or bool(added & set(target.flags))
            if ("without" in rule and not present) or ("with" in rule and present):
                self._say(
                    option.flag, "conflict", _(rule["note"]), accepted=True, stops=rule.get("refused_later", False),
                    replacement=" ".join(rule.get("add", [])) or None,
                )  # fmt: skip
                if rule.get("add"):
                    self.added.append(list(rule["add"]))
        self._parsers(given)
        self._secrets(given)
        self._gpus(given)
        self._batches(given)
        if self.command.kind == "docker":
            sizes = [self._number(given, d) or 1 for d in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")]
            lacking = container.of_docker(self.command, math.prod(sizes))
            self.problems += lacking
            self.docker_added += [word for p in lacking if p.replacement for word in p.replacement.split()]

    def _batches(self, given: dict[str, Argument]) -> None:
        """A step too small for the sequences, or, where prompts are not split, for a whole prompt."""
        tokens, sequences, length = (self._size(given, d) for d in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"))
        chunked = given.get("enable_chunked_prefill")
        whole = chunked is not None and chunked.option is not None and switch_text(chunked.option, chunked.written, (chunked.values or ("true",))[0]).lower() == "false"
        for needed, told in ((sequences, batch_conflict(tokens, sequences)), (length, length_conflict(tokens, length) if whole else None)):
            if told is not None:
                right = ["--max-num-batched-tokens", str(needed)]
                self._say(right[0], "conflict", told, replacement=" ".join(right), accepted=True, stops=True)
                self._replace(given["max_num_batched_tokens"], right)

    @staticmethod
    def _size(given: dict[str, Argument], dest: str) -> int | None:
        """A number that the command gives; None where it gives none."""
        argument = given.get(dest)
        try:
            return human_int(argument.values[0]) if argument is not None and argument.values else None
        except BadValue:
            return None

    def _twice(self, arguments: Sequence[Argument]) -> None:
        seen: dict[str, Argument] = {}
        for argument in arguments:
            option = argument.option
            if option is None or argument.keys or option.action == "append":
                continue
            before = seen.get(option.dest)
            if before is not None and (before.flag, before.values) != (argument.flag, argument.values):
                self._say(argument.flag, "conflict", _("given twice with different values; the last one counts"), accepted=True)
            seen[option.dest] = argument

    def _parsers(self, given: dict[str, Argument]) -> None:
        model = self.model or ""
        for dest, kind, names in (
            ("tool_call_parser", "tool", self.release.tool_parsers),
            ("reasoning_parser", "reasoning", self.release.reasoning_parsers),
        ):
            argument = given.get(dest)
            fitting = history.parsers_for(model, kind, self.release)
            if argument is None:
                if kind == "tool" and "enable_auto_tool_choice" in given and fitting:
                    self.added.append(["--tool-call-parser", fitting[0]])
                elif kind == "tool" and "enable_auto_tool_choice" in given:
                    self._leave_out("enable_auto_tool_choice")
                continue
            value = argument.values[0] if argument.values else ""
            if not value or "$" in value or value in ("none", "None") or "tool_parser_plugin" in given or "reasoning_parser_plugin" in given:
                continue
            if value not in names and argument.option is not None and argument.option.choices is None:
                self._unknown_parser(argument, value, kind, names, fitting)
            elif fitting and value not in fitting:
                self._say(
                    argument.flag, "conflict",
                    _("{model} does not write its calls in the format of {value}: {fitting} fits").format(model=model, value=value, fitting=" / ".join(fitting)),
                    replacement=f"{argument.flag} {fitting[0]}", accepted=True,
                )  # fmt: skip
                self._replace(argument, [argument.flag, fitting[0]])

    def _unknown_parser(self, argument: Argument, value: str, kind: str, names: Sequence[str], fitting: list[str]) -> None:
        first = releases.spans(f"{kind}_parsers", value)
        if first and releases.version_key(first[0][0]) > releases.version_key(self.release.version):
            text = _("{value} came with {since}; this release has: {names}").format(value=value, since=first[0][0], names=", ".join(names))
        else:
            text = _("no parser {value}; this release has: {names}").format(value=value, names=", ".join(names))
        near = fitting or difflib.get_close_matches(value, names, 1, 0.7)
        self._say(argument.flag, "bad_value", text, since=first[0][0] if first else None, replacement=f"{argument.flag} {near[0]}" if near else None, accepted=True, stops=True)
        self._replace(argument, [argument.flag, near[0]] if near else [])
        if not near and kind == "tool":
            self._leave_out("enable_auto_tool_choice")

    def _replace(self, argument: Argument, words: list[str]) -> None:
        for piece in self.pieces:
            if piece.source is argument:
                piece.words, piece.changed = words, True

    def _leave_out(self, dest: str) -> None:
        for piece in self.pieces:
            if piece.source is not None and piece.source.option is not None and piece.source.option.dest == dest:
                piece.words, piece.changed = [], True

    def _secrets(self, given: dict[str, Argument]) -> None:
        for dest, name in (("api_key", "VLLM_API_KEY"), ("hf_token", "HF_TOKEN")):
            argument = given.get(dest)
            if argument is None or not argument.values or "$" in argument.values[0]:
                continue
            self._say(argument.flag, "conflict", _("the key stands in the open, and every user sees it in the process list: set {name} in an environment file instead").format(name=name), replacement=f"{name}=...", accepted=True)
            self._replace(argument, [argument.flag, f"${name}"] if self.command.kind in ("shell", "docker") else [argument.flag, f"${{{name}}}"])

    def _number(self, given: dict[str, Argument], dest: str) -> int | None:
        argument = given.get(dest)
        if argument is None:
            return 1
        try:
            return int(argument.values[0])
        except (ValueError, IndexError):
            return None

    def _gpus(self, given: dict[str, Argument]) -> None:
        sizes = [self._number(given, d) for d in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")]
        nodes = self._number(given, "nnodes")
        if any(s is None for s in sizes) or nodes != 1:
            return
        needed = 1
        for size in sizes:
            needed *= size or 1
        tensor = given.get("tensor_parallel_size")
        flag = tensor.flag if tensor is not None else "--tensor-parallel-size"
        limits = self._gpus_given()
        if self.machine is not None and self.machine.gpu.gpus:
            limits.append((len(self.machine.gpu.gpus), _("this machine")))
        for count, what in limits:
            if needed > count:
                self._say(flag, "conflict", _("{needed} GPUs are needed, but {what} has {count}").format(needed=needed, what=what, count=count), accepted=True, stops=True, replacement=f"--tensor-parallel-size {count}")
                if tensor is not None and sizes[1:] == [1, 1]:
                    self._replace(tensor, ["--tensor-parallel-size", str(count)])
                return

    def _gpus_given(self) -> list[tuple[int, str]]:
        """How many GPUs the command is given, by each thing that says so."""
        visible = self.env.get("CUDA_VISIBLE_DEVICES") or self.env.get("NVIDIA_VISIBLE_DEVICES")
        limits: list[tuple[int, str]] = []
        if visible and re.fullmatch(r"[\d,\s]+", visible):
            limits.append((len([v for v in visible.split(",") if v.strip()]), _("CUDA_VISIBLE_DEVICES={value}").format(value=visible)))
        if self.command.facts.get("gpu_count"):
            limits.append((self.command.facts["gpu_count"], _("the GPU reservation")))
        return limits

    # --- the machine --------------------------------------------------------------------------------------------

    def _known_faults(self) -> None:
        given = self._given()
        conditions = set(self.command.facts.get("conditions", ()))
        model = (self.model or "").lower()
        if "enable_lora" in given or any("--enable-lora" in words for words in self.added):
            conditions.add("lora")
        if re.search(r"moe|mixtral|-a\d+b|deepseek-(v|r1$)|gpt-oss|qwen3\.[5-9]-(35|122|397)b", model):
            conditions |= {"moe", "unquantized"} if not re.search(r"fp8|awq|gptq|int4|int8|w4a16|mxfp4|nvfp4|gpt-oss", model) else {"moe"}
            if "gpt-oss" in model:
                conditions.add("quantization:mxfp4")
        if "enable_expert_parallel" in given:
            conditions.add("expert_parallel")
        for dest in ("kv_cache_dtype", "dtype"):
            if dest in given and given[dest].values:
                conditions.add(f"{dest}:{given[dest].values[0]}")
        if self.machine is not None:
            conditions |= _machine_conditions(self.machine)
        if any(count == 1 for count, _what in self._gpus_given()):
            conditions.discard("multi_gpu")
        for fault in releases.known_faults(self.release.version, conditions):
            missing = {k: v for k, v in fault.env.items() if self.env.get(k) != v and (v != "0" or k in self.env)}
            flags = [(f, v) for f, v in fault.flags if not self._has(f, v)]
            if not missing and not flags and (fault.env or fault.flags):
                continue
            words = [w for f, v in flags for w in ([f] if v is None else [f, v])]
            cure = " ".join([*(f"{k}={v}" for k, v in missing.items()), *words])
            self._say("vLLM " + self.release.version, "conflict", sentences(stopped(fault.title), fault.explanation), since=fault.first, until=fault.last, replacement=cure or None, accepted=True, doubtful=True)
            self.env.update(missing)
            for f, v in flags:
                self._set(f, v)

    def _has(self, flag: str, value: str | None) -> bool:
        option = self.release.option(flag)
        return any(p.words and p.source is not None and p.source.option is option and (value is None or value in p.source.values) for p in self.pieces)

    def _set(self, flag: str, value: str | None) -> None:
        option = self.release.option(flag)
        words = [flag] if value is None else [flag, value]
        for piece in self.pieces:
            if piece.words and piece.source is not None and piece.source.option is option:
                piece.words, piece.changed = words, True
                return
        self.added.append(words)

    def _argv(self) -> list[str]:
        return argv_of(self.model, self.pieces)


def argv_of(model: str | None, pieces: Sequence[Piece]) -> list[str]:
    """What follows ``vllm serve``: the model first, then the options."""
    rest: list[str] = []
    for piece in pieces:
        source = piece.source
        if source is not None and not piece.passed and (source.how == "positional" or (source.option is not None and source.option.dest == "model")):
            continue
        rest += piece.words
    return [*([model] if model is not None else []), *rest]


def _near(value: str, values: Sequence[str]) -> str | None:
    """The one of ``values`` that is most likely meant; None where none is near."""
    plain = {v.lower().replace("-", "_"): v for v in values}
    found = difflib.get_close_matches(value.lower().replace("-", "_"), plain, 1, 0.6)
    return plain[found[0]] if found else None


def _after(version: str | None) -> str | None:
    """The known release after one that may be older than all known ones."""
    if version is None:
        return None
    return next((v for v in releases.versions() if releases.version_key(v) > releases.version_key(version)), None)


def _machine_conditions(machine: Machine) -> set[str]:
    found = set()
    if machine.is_wsl2:
        found.add("wsl")
    if len(machine.gpu.gpus) > 1:
        found.add("multi_gpu")
    if not machine.gpu.gpus:
        found.add("device:cpu")
    for gpu in machine.gpu.gpus[:1]:
        if gpu.compute_capability.value:
            found.add(f"compute_capability:{gpu.compute_capability.value}")
    return found


_MENDS: tuple[Callable[[str], str], ...] = (
    lambda t: t,
    lambda t: t.translate(str.maketrans("\u201c\u201d\u2018\u2019\uff1a\uff0c", "\"\"''" + ":,")),
    lambda t: t.replace('\\"', '"'),
    lambda t: t.strip("'\""),
    lambda t: t.translate(str.maketrans("\u201c\u201d\u2018\u2019\uff1a\uff0c", "\"\"''" + ":,")).replace('\\"', '"').strip("'"),
    lambda t: re.sub(r"([{,]\s*)([A-Za-z_][\w.-]*)\s*[:=]", r'\1"\2":', t),
    lambda t: re.sub(r':\s*([A-Za-z_][\w./-]*)\s*([,}])', lambda m: f': {m[1]}{m[2]}' if m[1] in ("true", "false", "null") else f': "{m[1]}"{m[2]}',
                     re.sub(r"([{,]\s*)([A-Za-z_][\w.-]*)\s*[:=]", r'\1"\2":', t)),
    lambda t: re.sub(r'"(\w+)"\s*=', r'"\1":', t),
    lambda t: t + "}",
)  # fmt: skip


def mend_json(text: str) -> Any:
    """The object that broken JSON most likely means, or None: lost or wrong quotes, Python's spelling, ``=``."""
    for mend in _MENDS:
        candidate = mend(text.strip())
        if not candidate.startswith(("{", "[")):
            continue
        try:
            return json.loads(candidate)
        except ValueError:
            pass
        try:
            value = ast.literal_eval(candidate)
            if isinstance(value, (dict, list)):
                return json.loads(json.dumps(value, default=str))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue  # TypeError: a key that Python or JSON does not take, as in {{}: 1} or {(1, 2): 3}
    return None


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)


__all__ = ["Piece", "Verdict", "judge", "mend_json"]
