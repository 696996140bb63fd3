"""What became of options and variables, and what to write instead (``data/history.json``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wizard import releases
from wizard.releases.parse import find_option, normal_spelling
from wizard.releases.types import Release


@lru_cache(maxsize=1)
def data() -> dict[str, Any]:
    """The whole file."""
    loaded: dict[str, Any] = json.loads(Path(__file__).with_name("data").joinpath("history.json").read_text("utf-8"))
    return loaded


def entry_for(flag: str) -> Mapping[str, Any] | None:
    """What is known of a spelling that a release does not have."""
    flags: dict[str, Any] = data()["flags"]
    name = normal_spelling(flag.split("=", 1)[0])
    head = name.split(".", 1)[0] if name.startswith("--") else name
    return flags.get(head) or flags.get("-" + head if head.startswith("-") and not head.startswith("--") else head)


def way_out(entry: Mapping[str, Any], values: tuple[str, ...], release: Release) -> dict[str, Any]:
    """The first of an entry's ways that this release takes: ``{"tokens": [...]}``, ``json``, ``env`` or nothing.

    Keys of the result: "tokens" (groups of words), "json" (flag, key, value), "env" (name, value), "model" (True:
    the value is the model), and "note" where there is something to say of this way alone. Without one of the first
    four, the option is left out.
    """
    value = values[0] if values else ""
    for step in entry["do"]:
        made = _step(step, value, values, release)
        if made is not None:
            return {**made, "note": step["note"]} if "note" in step else made
    return {}


def _step(step: Mapping[str, Any], value: str, values: tuple[str, ...], release: Release) -> dict[str, Any] | None:
    if "from" in step and releases.version_key(release.version) < releases.version_key(step["from"]):
        return None
    if "if" in step and release.option(step["if"]) is None:
        return None
    if step.get("drop"):
        return {}
    if step.get("model"):
        return {"model": True} if value else {}
    if "rename" in step:
        return {"tokens": [[step["rename"], *values]]} if release.option(step["rename"]) else None
    if "to" in step:
        head, *rest = step["to"]
        flag = head.split("{")[0]
        if find_option(release, flag)[0] is None:
            return None
        return {"tokens": [[head.replace("{value}", value), *rest]]}
    if "pairs" in step:
        groups = [[word.replace("{value}", value or "PATH") for word in group] for group in step["pairs"]]
        return {"tokens": groups} if all(release.option(g[0]) for g in groups) else None
    if "values" in step:
        groups = step["values"].get(value.lower())
        if groups is None:
            return None
        return {"tokens": groups} if all(release.option(g[0]) for g in groups) else None
    if "env" in step:
        name, template = step["env"]
        return {"env": (name, template.replace("{value}", value))} if name in release.env else None
    if "json" in step:
        return _json_step(step, value, release)
    return None


def _json_step(step: Mapping[str, Any], value: str, release: Release) -> dict[str, Any] | None:
    option = release.option(step["json"])
    if option is None or (option.closed and option.keys and step["key"] not in option.keys):
        return None
    return {"json": (step["json"], step["key"], convert(value, step["as"])), "with": step.get("with", {})}


def convert(value: str, kind: str) -> Any:
    """A word as the JSON value that a key wants."""
    try:
        if kind == "int":
            return int(value)
        if kind == "float":
            return float(value)
        if kind == "json":
            return json.loads(value)
    except ValueError:
        return value
    if kind == "bool":
        return value.lower() not in ("false", "0", "no")
    return {"true": True, "false": False}.get(kind, value)


def parsers_for(model: str, kind: str, release: Release) -> list[str]:
    """Parser names ("tool", "reasoning") that fit a model's name and that the release has, best first."""
    have = release.tool_parsers if kind == "tool" else release.reasoning_parsers
    for row in data()["parsers"]:
        if re.search(row["model"], model, re.I):
            return [name for name in row.get(kind, ()) if name in have]
    return []


def is_gated(model: str) -> bool:
    """Whether a repository asks for agreement, and so for a token, before it can be downloaded."""
    return any(model.startswith(prefix) for prefix in data()["gated"])
