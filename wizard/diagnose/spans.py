"""Releases compared and options looked up without loading the catalogue: only its index is read, and only if needed.

The catalogue itself (:mod:`wizard.releases`) takes longer to import than a short log to diagnose.
"""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.-]?(a|b|rc)\.?(\d+))?(?:[.-]?post\.?(\d+))?(\.dev\d+)?")
_INDEX: list[dict[str, Any]] = []


def key(version: str) -> tuple[Any, ...] | None:
    """What orders releases; None for a text that names none."""
    found = _VERSION.match(version.strip())
    if found is None:
        return None
    numbers = [int(n) for n in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    early = 0 if found[2] or found[5] else 1
    return (tuple(numbers), early, int(found[3] or 0), int(found[4] or -1))


def within(release: str, spec: str) -> bool:
    """Whether a release satisfies ">=0.24.0,<0.30"; what names no version satisfies everything."""
    here = key(release)
    if here is None:
        return True
    for part in spec.split(","):
        found = re.match(r"\s*(>=|<=|==|<|>)\s*(\S+)", part)
        other = key(found[2]) if found else None
        if found is None or other is None:
            continue
        sign = found[1]
        if not (
            (here > other and ">" in sign) or (here < other and "<" in sign) or (here == other and "=" in sign)
        ):
            return False
    return True


def _index() -> dict[str, Any]:
    if not _INDEX:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "releases", "data", "index.json")  # noqa: PTH118, PTH120
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            _INDEX.append(json.load(stream))
    return _INDEX[0]


def accepts(release: str, flag: str) -> bool:
    """Whether the release takes the option, as far as is known; releases beyond the known ones as the newest."""
    here = key(release)
    if here is None:
        return True
    index = _index()
    order = index["versions"]
    name = flag.partition(".")[0] if flag.startswith("--") else flag
    for first, last in index["flags"].get(name, ()):
        low, high = key(order[first]), key(order[last])
        if low is not None and high is not None and low <= here and (here <= high or last == len(order) - 1):
            return True
    return False
