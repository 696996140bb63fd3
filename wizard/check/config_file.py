"""A YAML file for ``vllm serve --config``: its keys as options, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _, sentences
from wizard.releases.parse import Argument, take_apart, unknown_flag
from wizard.releases.types import Release

from . import history
from .extract import Command, no_command
from .judge import Verdict
from .lexer import Word


def command_of(data: Any, name: str, release: Release) -> Command:
    """The options that vLLM makes of the file, in its order."""
    if not isinstance(data, Mapping):
        raise BadInput(_("{name}: neither a compose file nor a file for --config (a mapping of options).").format(name=name))
    if not any(_means_option(str(key), release) for key in data):
        raise BadInput(sentences(no_command(name), _("And as a file for --config it holds none of vLLM's options.")))
    words: list[Word] = []
    keys: list[tuple[int, str]] = []
    for key, value in data.items():
        keys.append((len(words), str(key)))
        for text in _words(str(key), value, release):
            words.append(Word(text, text, 0, 0))
    command = Command("config", words, "serve")
    command.facts["keys"] = keys
    return command


def _means_option(key: str, release: Release) -> bool:
    """Whether a key is an option of some release, or nearly one."""
    if key in ("model", "model_tag"):
        return True
    arguments = take_apart([f"--{key}"], release)
    if arguments[0].option is not None or history.entry_for(f"--{key}") is not None:
        return True
    if arguments[0].how == "ambiguous":
        return False
    problem = unknown_flag(arguments[0], release)
    return problem.kind in ("removed", "not_yet") or problem.replacement is not None


def _words(key: str, value: Any, release: Release) -> list[str]:
    flag = f"--{key}"
    if key in ("model", "model_tag"):
        return [str(value)]
    if isinstance(value, bool):
        if value:
            return [flag]
        negative = f"--no-{key.replace('_', '-')}"
        return [negative] if release.option(negative) is not None else []
    if isinstance(value, Mapping):
        return [flag, json.dumps(value)]
    if isinstance(value, list):
        return [flag, *(str(v) for v in value if v is not None)] if value else []
    return [flag] if value is None else [flag, str(value)]


def rewrite(data: Any, verdict: Verdict) -> None:
    """Change, rename and drop keys in place as the verdict says; a key's place in the file is kept."""
    starts: list[tuple[int, str]] = verdict.command.facts["keys"]
    for piece in verdict.pieces:
        source = piece.source
        if not piece.changed or (source is not None and _only_spelling(source, piece.words)):
            continue
        key = next((k for at, k in reversed(starts) if source is not None and at <= piece.first), None)
        position = len(data)
        if key is not None and key in data:
            position = list(data).index(key)
            if source is not None and source.how == "positional" and piece.words:
                data[key] = piece.words[0]
                continue
            del data[key]
        _put(data, position, piece.words)


def _only_spelling(source: Argument, words: list[str]) -> bool:
    """Whether only a prefix or underscores were written out: --config reads those too."""
    spelling = "prefix" in source.how or "underscore" in source.how
    return spelling and len(words) == len(source.tokens) and words[1:] == list(source.tokens[1:])


def _put(data: Any, position: int, words: list[str]) -> None:
    at = 0
    while at < len(words):
        if not words[at].startswith("--"):
            at += 1
            continue
        flag, equals, attached = words[at][2:].partition("=")
        at += 1
        values = [attached] if equals else []
        while at < len(words) and not words[at].startswith("--"):
            values.append(words[at])
            at += 1
        value: Any = not flag.startswith("no-")
        if values:
            value = _plain(values[0]) if len(values) == 1 else [_plain(v) for v in values]
        else:
            flag = flag.removeprefix("no-")
        data.insert(position, flag, value)
        position += 1


def _plain(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, dict, bool)) else text
