"""A YAML file for ``vllm serve --config``: its keys as options, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.releases.types import Release

from .extract import Command
from .judge import Verdict
from .lexer import Word


def command_of(data: Any, name: str, release: Release) -> Command:
    """The options that vLLM makes of the file, in its order."""
    if not isinstance(data, Mapping):
        raise BadInput(_("{name}: neither a compose file nor a file for --config (a mapping of options).").format(name=name))
    words: list[Word] = []
    keys: list[tuple[int, str]] = []
    for key, value in data.items():
        keys.append((len(words), str(key)))
        for text in _words(str(key), value, release):
            words.append(Word(text, text, 0, 0))
    command = Command("config", words, "serve")
    command.facts["keys"] = keys
    return command


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
        return [flag, *(str(v) for v in value)] if value else []
    return [flag] if value is None else [flag, str(value)]


def rewrite(data: Any, verdict: Verdict) -> None:
    """Change, rename and drop keys in place as the verdict says."""
    starts: list[tuple[int, str]] = verdict.command.facts["keys"]
    for piece in verdict.pieces:
        if not piece.changed:
            continue
        key = next((k for at, k in reversed(starts) if piece.source is not None and at <= piece.first), None)
        if piece.source is not None and key is not None and key in data:
            del data[key]
        _put(data, piece.words)


def _put(data: Any, words: list[str]) -> None:
    position = 0
    while position < len(words):
        if not words[position].startswith("--"):
            position += 1
            continue
        flag = words[position][2:]
        values = []
        position += 1
        while position < len(words) and not words[position].startswith("--"):
            values.append(words[position])
            position += 1
        flag, _equals, attached = flag.partition("=")
        if attached:
            values = [attached]
        if not values:
            data[flag.removeprefix("no-") if flag.startswith("no-") else flag] = not flag.startswith("no-")
        else:
            data[flag] = _plain(values[0]) if len(values) == 1 else [_plain(v) for v in values]


def _plain(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, dict, bool)) else text
