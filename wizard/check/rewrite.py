"""Put a repaired command back where it was found: only the words that changed, everything else as it stands."""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from wizard.releases.types import ArgProblem

from .extract import Command, docker_verb, docker_words
from .judge import Piece, Verdict
from .lexer import ANY_SHELL, Word
from .variables import variables_in


def quote(word: str) -> str:
    """A word for a shell: $NAME and a leading ~/ keep their meaning."""
    if re.search(r"\$([\w@*]|\{|\()", word):
        return '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
    if word.startswith("~/"):
        return "~/" + (shlex.quote(word[2:]) if word[2:] else "")
    return shlex.quote(word)


def one_line(verdict: Verdict) -> str:
    """The repaired command in one line, quoted: with its variables, or as the docker command that it was."""
    command = verdict.command
    if command.docker:
        head = [quote(w) for w in _docker_words(verdict)]
        argv = _for_entry(verdict)
        return " ".join([*head, *(quote(w) for w in command.facts.get("head", ())), *(_shown(command, w) for w in argv)])
    if command.kind == "env":  # it holds no command, and may hold options of one
        return " ".join(quote(w) for w in verdict.argv)
    env = [f"{k}={quote(v)}" for k, v in verdict.env.items() if command.kind != "compose" or k.startswith("VLLM_")]
    program = [] if command.kind == "options" and verdict.model is None else ["vllm", "serve"]
    return " ".join([*env, *program, *(_shown(command, w) for w in verdict.argv)])


def _for_entry(verdict: Verdict) -> list[str]:
    """The repaired words as what starts vLLM in a container takes them: with the model by its flag, where it wants that."""
    entry, argv = verdict.command.entry, verdict.argv
    by_flag = entry == "api_server" or (entry == "image" and verdict.release.image.serves_with_model_flag)
    return ["--model", *argv] if by_flag and verdict.model is not None and argv[:1] == [verdict.model] else list(argv)


def _shown(command: Command, word: str) -> str:
    """A word of the repaired command for a shell; what only the shell knows is written as it stands."""
    if "$" not in word or command.kind not in ("shell", "docker"):
        return quote(word)
    return next((w.raw for w in command.words if w.text == word and w.dynamic and w.raw.isascii()), quote(word))


def _docker_words(verdict: Verdict) -> list[str]:
    """docker's own words, with variables as they should be now and what was lacking."""
    words: list[str] = []
    texts = docker_words(verdict.command, verdict.docker_added)
    seen: set[str] = set()
    position = 0
    while position < len(texts):
        text = texts[position]
        joined = re.match(r"(--env=|-e)(\w+)=", text)
        if text in ("-e", "--env") and position + 1 < len(texts):
            name = texts[position + 1].partition("=")[0]
            position += 2
        elif joined:
            name = joined[2]
            position += 1
        else:
            words.append(text)
            position += 1
            continue
        if name not in verdict.env_removed and name in verdict.env:
            value = verdict.env[name]
            words += ["-e", name if value in ("", f"${{{name}}}") else f"{name}={value}"]
        seen.add(name)
    extra = [w for k, v in verdict.env.items() if k not in seen for w in ("-e", f"{k}={v}")]
    return [*words[:-1], *extra, *words[-1:]]


# --- scripts and texts -----------------------------------------------------------------------------------------


def rewrite_text(text: str, verdicts: Sequence[Verdict]) -> str:
    """The text with every repaired word put in its place (offsets are those of the text)."""
    edits: list[tuple[int, int, str]] = []
    for verdict in verdicts:
        edits += _edits(text, verdict)
    edits.sort(key=lambda e: (e[0], e[1]))
    out: list[str] = []
    at = 0
    for start, end, new in edits:
        if start < at:
            continue
        out += [text[at:start], new]
        at = end
    return "".join([*out, text[at:]])


def _edits(text: str, verdict: Verdict) -> list[tuple[int, int, str]]:
    command = verdict.command
    words = command.words
    edits: list[tuple[int, int, str]] = []
    if command.kind == "list":
        if verdict.changed:
            edits.append((command.start, command.end, json.dumps([*command.facts["head"], *verdict.argv], ensure_ascii=False)))
        return edits
    moved = {w.start for w in command.misplaced}
    own_end = command.docker[-1].end if moved else command.end
    last = max((w.end for w in words if w.start not in moved), default=own_end)
    for slip in command.slips:
        if slip.kind == "continuation_space":
            end = text.find("\n", slip.at)
            edits.append((slip.at + 1, end - (text[end - 1] == "\r"), ""))
        elif slip.kind == "comment_inside":
            line_start = text.rfind("\n", 0, slip.at) + 1
            edits.append((line_start, text.find("\n", slip.at) + 1, ""))
        elif slip.kind == "no_continuation":
            edits.append((slip.at, slip.at, " " + _mark(text[command.start : last])))
    model_at = _model_piece(verdict)
    gone: list[tuple[int, int]] = []
    behind: list[str] = []  # what is moved behind the image
    for piece in verdict.pieces:
        if piece.source is None:
            continue
        own = words[piece.first : piece.first + len(piece.source.tokens)]
        if not own:
            continue
        if piece.changed and in_variables(verdict, piece):
            continue
        start, end = own[0].start, own[-1].end
        if start in moved:
            gone.append((start, end))
            behind += [" ".join(_in_place(own, piece))] if piece.words else []
        elif not piece.changed:
            edits += [(w.start, w.end, quote(w.before or w.text)) for w in own if _crooked(w)]
        elif piece.words:
            edits += _word_edits(own, piece.words)
        elif model_at == 0 and piece.first == 0 and verdict.model is not None:
            edits.append((start, end, _model_as_written(verdict)))  # --model X at the front: X stays there
        else:
            gone.append((start, end))
    left_out = [w for p in verdict.pieces if p.source and not p.words for w in words[p.first : p.first + len(p.source.tokens)]]
    added = behind + [" ".join(quote(_with_variables(w, left_out)) for w in p.words) for p in verdict.pieces if p.source is None and p.words]
    continued = _CONTINUED.search(text[command.start : last])
    joint = f" {continued[0]}  " if continued is not None else " "
    ranges = _joined(text, gone)
    if added and ranges and ranges[-1][1] == last:  # what is added takes the place of what left at the end
        edits.append((*ranges.pop(), joint.join(added)))
        added = []
    edits += [(*_with_blank(text, start, end), "") for start, end in ranges]
    first = words[0].start if words else last
    if first in moved and model_at is not None and verdict.model is not None:
        added = [_model_as_written(verdict), *added]
    elif model_at and verdict.model is not None:
        edits.append((first, first, _model_as_written(verdict) + " "))
    if command.repeated:
        edits.append((command.repeated[0].start, command.repeated[-1].end + 1, ""))
    if added:
        edits.append((last, last, "".join(joint + group for group in added)))
    if verdict.docker_added:
        verb = command.docker[docker_verb([w.text for w in command.docker]) or 0]
        edits.append((verb.end, verb.end, "".join(" " + quote(w) for w in verdict.docker_added)))
    edits += _env_edits(text, verdict)
    return edits


_MARKS = tuple(ANY_SHELL)
_CONTINUED = re.compile(r"[\\^`]\r?\n")


def _mark(text: str) -> str:
    """The sign with which the lines of a command go on."""
    found = _CONTINUED.search(text)
    return found[0][0] if found is not None else "\\"


def _crooked(word: Word) -> bool:
    """Whether a word stands there in a way that the shell reads otherwise: typographic quotes, long dashes."""
    return (word.raw != word.text and not word.quoted and not word.dynamic and not word.before) or any(ord(c) > 0x2000 for c in word.raw[:1] + word.raw[-1:])


def _word_edits(own: Sequence[Word], new: Sequence[str]) -> list[tuple[int, int, str]]:
    """What stands in place of an option's words; those that stay keep what is written there, variables and quotes."""
    if len(own) == len(new):
        pairs = [(w, _as_written(w, text)) for w, text in zip(own, new, strict=True)]
        return [(w.start, w.end, written) for w, written in pairs if written != w.raw]
    kept = {w.text: _as_written(w, w.text) for w in own}
    return [(own[0].start, own[-1].end, " ".join(kept.get(text) or quote(text) for text in new))]


def _in_place(own: Sequence[Word], piece: Piece) -> list[str]:
    """An option's words as they are written where it is moved to."""
    if len(own) == len(piece.words):
        return [_as_written(w, text) for w, text in zip(own, piece.words, strict=True)]
    return [quote(text) for text in piece.words]


def _as_written(word: Word, text: str) -> str:
    """``text`` as it is written in the place of a word: with as much of what stands there as is the same."""
    if _crooked(word):
        return quote(word.before or text) if word.text == text else quote(text)
    if word.text == text:
        return word.raw
    was, equals, value = word.text.partition("=")
    name, _equals, new_value = text.partition("=")
    if equals and value == new_value and word.raw.startswith(was + "="):
        return quote(name) + word.raw[len(was) :]
    return quote(text)


def _with_variables(text: str, words: Sequence[Word]) -> str:
    """JSON that was made of single options, with the variables that stood there in place of their values."""
    for word in words if text.startswith("{") else ():
        joined = word.before.startswith("--")  # --option=$NAME
        value, variable = (t.partition("=")[2] if joined else t for t in (word.text, word.before))
        if value and variable:
            text = re.sub(rf'(?<=: )("?){re.escape(value)}\1(?=[,}}])', partial(_in_quotes, variable), text)
    return text


def _in_quotes(variable: str, match: re.Match[str]) -> str:
    return match[1] + variable + match[1]


def in_variables(verdict: Verdict, piece: Piece) -> list[tuple[str, int]]:
    """The variables that hold what a repair would change, with the line in which they are set (0: not in this text):
    they are changed there, and not from here."""
    if piece.source is None:
        return []
    words = verdict.command.words
    own = words[piece.first : piece.first + len(piece.source.tokens)]
    new = [*piece.words, *(w.partition("=")[2] for w in piece.words)]
    # An option that the release has was left out for what is given to it; any other is gone with its value.
    for_its_value = bool(piece.words) or (piece.source.option is not None and "prefix" not in piece.source.how)
    held: list[tuple[str, int]] = []
    for word in own:
        shared = sum(w.start == word.start and w.end == word.end for w in words) > 1  # one of several words in a variable
        value = word.text.partition("=")[2] if word.raw.startswith("--") else word.text
        if word.before and (shared or (for_its_value and value not in new)):
            held += [(o.name, o.line) for o in word.origin] or [(name, 0) for name in variables_in(word.before)]
    return list(dict.fromkeys(held))


def _model_as_written(verdict: Verdict) -> str:
    """The model that was given with --model, as it stands there."""
    words = verdict.command.words
    for piece in verdict.pieces:
        if piece.source is not None and piece.source.flag == "--model" and not piece.words:
            last = words[piece.first + len(piece.source.tokens) - 1]
            if not _crooked(last) and piece.source.values[-1:] == (verdict.model,):
                return last.raw.partition("=")[2] if piece.source.attached else last.raw
    return quote(str(verdict.model))


def _model_piece(verdict: Verdict) -> int | None:
    """Where a --model stood that is given without the option now; None: there was none."""
    for piece in verdict.pieces:
        if piece.source is not None and piece.source.flag == "--model" and not piece.words:
            return piece.first
    return None


def _joined(text: str, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges with nothing but blanks and continued line ends between them as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if out and re.fullmatch(r"(?:[ \t]|[\\^`]\r?\n)*", text[out[-1][1] : start]):
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def _with_blank(text: str, start: int, end: int) -> tuple[int, int]:
    """A word that is taken out takes the blanks before it along, or its whole line where it stands alone."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    before, after = text[line_start:start], text[end:line_end]
    if not before.strip() and after.strip().startswith("#") and line_start:
        return line_start, min(len(text), line_end + 1)  # an array's line: its comment spoke of this word
    if not before.strip() and after.strip() in (*_MARKS, "") and line_start:
        if after.strip():
            return line_start, min(len(text), line_end + 1)
        previous = text.rstrip()[: line_start]
        cut = previous.rstrip(" \t\r\n")
        if cut.endswith(_MARKS):  # the last line of a continued command: the line before ends it now
            return len(cut[:-1].rstrip(" \t")), end
        return line_start, min(len(text), line_end + 1)
    if not before.strip():  # the first of its line: what follows moves to where it stood
        return start, end + len(after) - len(after.lstrip())
    if before.endswith("(") and after[:1] in " \t":  # the first of an array
        return start, end + len(after) - len(after.lstrip(" \t"))
    while start > line_start and text[start - 1] in " \t":
        start -= 1
    return start, end


def _env_edits(text: str, verdict: Verdict) -> list[tuple[int, int, str]]:
    """Variables that no release reads are taken out where they are set in the same text."""
    edits = []
    limit = verdict.command.end
    for name in verdict.env_removed:
        for match in re.finditer(rf"^[ \t]*(?:export[ \t]+)?{re.escape(name)}=[^\n]*\n?", text[:limit], re.M):
            rest = match.group(0).partition("=")[2]
            if "vllm" not in rest and "docker" not in rest:
                edits.append((match.start(), match.end(), ""))
        for match in re.finditer(rf"(?<![\w-])(?:(?:-e|--env)[ =]+)?{re.escape(name)}=(?:\"[^\"]*\"|'[^']*'|\S*)[ \t]?", text[:limit]):
            if not any(s <= match.start() < e for s, e, _n in edits) and match.start() >= verdict.command.start - 400:
                edits.append((match.start(), match.end(), ""))
    return edits


# --- YAML ------------------------------------------------------------------------------------------------------


def dump_yaml(data: Any, text: str) -> str:
    """The document as ruamel writes it back, with the indentation and line ends of the original."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    dash = re.search(r"^( *)[\w.-]+:[ \t]*\n( *)- ", text, re.M)
    if dash and len(dash[2]) > len(dash[1]):
        yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(data, out)
    result = out.getvalue()
    return result.replace("\n", "\r\n") if "\r\n" in text else result


def compose_words(verdict: Verdict) -> list[str]:
    """The list form of ``command:`` for the image's entrypoint, with Compose's own $ doubled where it was."""
    argv = list(verdict.argv)
    command = verdict.command
    if command.entry in ("serve", "api_server") and command.facts.get("entrypoint"):
        return argv
    argv = _for_entry(verdict)
    return [*command.facts.get("head", ()), *(_restore(command, word) for word in argv)]


def _restore(command: Command, word: str) -> str:
    """A word as it stood in the file (``${PORT:-8000}``), where it is the same word still."""
    return next((w.raw for w in command.words if w.text == word), word.replace("$", "$$") if "${" not in word else word)


def rewrite_compose(data: Any, verdicts: Sequence[Verdict], problems: Sequence[ArgProblem]) -> None:
    """Repair services in place: command as a list, variables, and the keys whose cure is certain."""
    for verdict in verdicts:
        key = verdict.command.facts["service"]
        service = data["services"][key]
        own = [p for p in problems if p.flag.startswith(f"services.{key}.")]
        if not verdict.command.facts.get("shell"):
            _set_command(service, verdict, own)
        _set_environment(service, verdict)
        _set_keys(service, own, key)
    if any(p.flag == "version" for p in problems):
        del data["version"]


def _set_command(service: Any, verdict: Verdict, own: Sequence[ArgProblem]) -> None:
    from ruamel.yaml.comments import CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, SingleQuotedScalarString

    textual = any(p.flag.endswith(".command") for p in own)
    if not verdict.changed and not textual:
        return
    if verdict.command.facts.get("entrypoint"):
        return
    words = CommentedSeq()
    for word in compose_words(verdict):
        words.append(SingleQuotedScalarString(word) if '"' in word else DoubleQuotedScalarString(word))
    service["command"] = words


def _set_environment(service: Any, verdict: Verdict) -> None:
    held = service.get("environment")
    before = verdict.command.env
    fresh = {k: v for k, v in verdict.env.items() if before.get(k) != v}
    if isinstance(held, Mapping):
        for name in verdict.env_removed:
            held.pop(name, None)  # type: ignore[attr-defined]
        for name, value in fresh.items():
            held[name] = value  # type: ignore[index]
    elif isinstance(held, list):
        names = {*verdict.env_removed, *fresh}
        held[:] = [i for i in held if str(i).partition("=")[0] not in names]
        held += [f"{k}={v}" for k, v in fresh.items()]
    elif fresh:
        service["environment"] = dict(fresh)
    if isinstance(service.get("environment"), (Mapping, list)) and not service["environment"]:
        del service["environment"]


def _set_keys(service: Any, own: Sequence[ArgProblem], key: str) -> None:
    for problem in own:
        path = problem.flag.removeprefix(f"services.{key}.")
        if path == "shm_size":
            service.pop("shm_size", None)
        elif path == "ipc":
            service["ipc"] = "host"
        elif path == "restart":
            service["restart"] = "on-failure:3"
        elif path == "runtime":
            service.pop("runtime", None)
        elif path == "deploy" or (path == "gpus" and problem.kind == "bad_value"):
            service.pop("gpus", None)
            _reserve_gpu(service)
        elif path == "healthcheck.start_period" and isinstance(service.get("healthcheck"), Mapping):
            service["healthcheck"]["start_period"] = "30m"
        elif path.startswith("healthcheck.") and problem.replacement and problem.kind == "bad_value":
            service["healthcheck"][path.partition(".")[2]] = problem.replacement
        elif path.endswith("reservations.devices") and problem.replacement:
            for device in service["deploy"]["resources"]["reservations"]["devices"]:
                device["capabilities"] = ["gpu"]


def _reserve_gpu(service: Any) -> None:
    node = service
    for name in ("deploy", "resources", "reservations"):
        if not isinstance(node.get(name), Mapping):
            node[name] = {}
        node = node[name]
    node["devices"] = [{"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}]


def rewrite_env_file(text: str, removed: Sequence[str]) -> str:
    """An environment file without the variables that no release reads."""
    if not removed:
        return text
    names = "|".join(re.escape(n) for n in removed)
    return re.sub(rf"^[ \t]*(?:export[ \t]+)?(?:{names})=[^\n]*(?:\n|$)", "", text, flags=re.M)
