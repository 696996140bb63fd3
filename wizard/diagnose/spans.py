"""Releases compared and options looked up without loading the catalogue: only its index is read, and only if needed.

The catalogue itself (:mod:`wizard.releases`) takes longer to import than a short log to diagnose.
"""

from __future__ import annotations

import os

from wizard.diagnose.lazy import from_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_INDEX: list[str] = []


def key(version: str) -> tuple[Any, ...] | None:
    """What orders releases ("0.31.0", "v0.9.0.1", "0.33.0rc1", "0.8.5.post1", "0.33.1.dev5+g1"); None for no version."""
    numbers: list[int] = []
    early, extra = 1, (0, -1)
    for part in version.strip().lstrip("v").partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        rest = part[len(digits) :]
        if not rest:
            continue
        count = int("0" + "".join(c for c in rest if c.isdigit()))
        if rest.startswith("post"):
            extra = (0, count)
        else:  # a pre-release or a build of the development branch
            early, extra = 0, (count, -1)
        break
    if not numbers:
        return None
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return (tuple(numbers), early, *extra)


def within(release: str, spec: str) -> bool:
    """Whether a release satisfies ">=0.24.0,<0.30"; what names no version satisfies everything."""
    here = key(release)
    if here is None:
        return True
    for part in spec.split(","):
        sign = part.strip()[: len(part.strip()) - len(part.strip().lstrip("<>="))]
        other = key(part.strip()[len(sign) :])
        if not sign or other is None:
            continue
        if not (
            (here > other and ">" in sign) or (here < other and "<" in sign) or (here == other and "=" in sign)
        ):
            return False
    return True


def _index() -> str:
    if not _INDEX:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "releases", "data", "index.json")  # noqa: PTH118, PTH120
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            _INDEX.append(stream.read())
    return _INDEX[0]


def _value(name: str, begin: int = 0) -> Any:
    """The value of the first ``"name":`` behind ``begin``; None when there is none. The rest is not read."""
    text = _index()
    label = f'"{name}":'
    at = text.find(label, begin)
    if at < 0:
        return None
    at += len(label)
    while text[at : at + 1].isspace():
        at += 1
    return from_json(text, at)


def accepts(release: str, flag: str) -> bool:
    """Whether the release takes the option, as far as is known; releases beyond the known ones as the newest."""
    here = key(release)
    if here is None:
        return True
    order = _value("versions")
    name = flag.partition(".")[0] if flag.startswith("--") else flag
    for first, last in _value(name, _index().find('"flags":')) or ():
        low, high = key(order[first]), key(order[last])
        if low is not None and high is not None and low <= here and (here <= high or last == len(order) - 1):
            return True
    return False
