"""YAML written by hand, so that lines can carry their reason; every text is quoted, so that none is read as another type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wizard.outputs.quoting import wrap_comment, yaml_string

if TYPE_CHECKING:
    from wizard.plan_types import Plan


@dataclass(frozen=True)
class Noted:
    """A value with the comment that is written above its key (or above the item of a list)."""

    value: Any
    comment: str


def noted_variables(plan: Plan, env: Mapping[str, Any]) -> dict[str, Any]:
    """Environment variables, each with the reason that the plan has for it."""
    return {k: Noted(v, plan.reason("env." + k)) if plan.reason("env." + k) else v for k, v in env.items()}


@dataclass(frozen=True)
class Raw:
    """Text that is written as it is: it is YAML already."""

    text: str


Quote = Callable[[str], str]
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def document(data: Mapping[str, Any], quote: Quote = yaml_string) -> str:
    """``data`` as one YAML document; mappings keep their order, None leaves a key out."""
    return "\n".join(_mapping(data, 0, quote)) + "\n"


def _mapping(data: Mapping[str, Any], indent: int, quote: Quote) -> list[str]:
    pad = " " * indent
    out: list[str] = []
    for key, value in data.items():
        if isinstance(value, Noted):
            if value.value is not None:
                out += wrap_comment(value.comment, pad + "# ")
            value = value.value
        if value is None:
            continue
        name = key if _PLAIN_KEY.fullmatch(key) else yaml_string(key)
        out += _entry(pad + name + ":", value, indent, quote)
    return out


def _entry(head: str, value: Any, indent: int, quote: Quote) -> list[str]:
    if isinstance(value, Mapping):
        return [head, *_mapping(value, indent + 2, quote)] if value else [head + " {}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [head, *_sequence(value, indent + 2, quote)] if value else [head + " []"]
    return [head + " " + _scalar(value, quote)]


def _sequence(items: Sequence[Any], indent: int, quote: Quote) -> list[str]:
    pad = " " * indent
    out: list[str] = []
    for item in items:
        if isinstance(item, Noted):
            out += wrap_comment(item.comment, pad + "# ")
            item = item.value
        if isinstance(item, Mapping) and item:
            lines = _mapping(item, indent + 2, quote)
            at = next(i for i, line in enumerate(lines) if not line.lstrip().startswith("#"))
            out += [line[2:] if line.startswith(pad + "  #") else line for line in lines[:at]]
            out += [pad + "- " + lines[at][indent + 2 :], *lines[at + 1 :]]
        elif isinstance(item, Sequence) and not isinstance(item, str) and item:
            out += [pad + "-", *_sequence(item, indent + 2, quote)]
        else:
            out.append(pad + "- " + _scalar(item, quote))
    return out


def _scalar(value: Any, quote: Quote) -> str:
    if isinstance(value, Raw):
        return value.text
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[]"
    return quote(str(value))
