"""Faults of whole ranges of releases under stated conditions (``data/known_issues.json``)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from wizard.i18n import _

from .types import KnownFault


@lru_cache(maxsize=1)
def all_faults() -> tuple[KnownFault, ...]:
    """Every known fault, in the order of the data file; texts are not yet translated."""
    data = json.loads(Path(__file__).with_name("data").joinpath("known_issues.json").read_text("utf-8"))
    return tuple(
        KnownFault(
            id=entry["id"],
            first=entry.get("first"),
            last=entry.get("last"),
            title=entry["title"],
            conditions=tuple(entry["conditions"]),
            env=dict(entry.get("env", {})),
            flags=tuple((flag, value) for flag, value in entry.get("flags", [])),
            avoid=entry.get("avoid", False),
            explanation=entry.get("explanation", ""),
            source=entry.get("source", ""),
        )
        for entry in data
    )


def known_faults(version: str, conditions: Iterable[str]) -> list[KnownFault]:
    """Faults that a release has when all of a fault's conditions hold.

    Conditions are words: "wsl", "lora", "lora_experts", "moe", "unquantized", "dense", "multi_gpu",
    "expert_parallel", "expandable_segments", "quantization:mxfp4", "kv_cache_dtype:fp8", "dtype:bfloat16",
    "compute_capability:8.6", "device:cpu". In the data file "!x" holds when x was not given, "x|y" holds when either does, and "compute_capability<8.9" when
    a lower one was given.
    """
    import dataclasses

    from . import resolve, version_key

    held = set(conditions)
    here = version_key(resolve(version)[0])
    found = []
    for fault in all_faults():
        if fault.first and here < version_key(fault.first):
            continue
        if fault.last and here > version_key(fault.last):
            continue
        if all(any(_holds(part, held) for part in c.split("|")) for c in fault.conditions):
            found.append(
                dataclasses.replace(fault, title=_(fault.title), explanation=_(fault.explanation))
            )
    return found


def _holds(condition: str, held: set[str]) -> bool:
    if condition.startswith("!"):
        return condition[1:] not in held
    name, below, limit = condition.partition("<")
    if not below:
        return condition in held
    given = [h.partition(":")[2] for h in held if h.startswith(name + ":")]
    return any(_number(g) < _number(limit) for g in given)


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(".") if n.isdigit())
