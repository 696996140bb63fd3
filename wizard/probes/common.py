"""What several probes need: reading that never raises, sizes for people, WSL's own signs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from wizard.host import CommandResult, DirEntry, Host
from wizard.i18n import _

GIB = 1024**3
MIB = 1024**2
# Messages of programs are read, so they are asked for in English; UTF-8 keeps names in paths whole.
ENGLISH = {"LC_ALL": "C.UTF-8", "LANGUAGE": "C"}


def read(host: Host, path: str, limit: int | None = 1_000_000) -> str | None:
    """The file's text, or None where it cannot be read."""
    try:
        return host.read_text(path, limit)
    except (OSError, ValueError):
        return None


def read_line(host: Host, path: str) -> str | None:
    """The file's first line without spaces around it, or None."""
    text = read(host, path, 4096)
    return None if text is None else text.strip().split("\n")[0].strip()


def read_int(host: Host, path: str) -> int | None:
    line = read_line(host, path)
    try:
        return None if line is None else int(line, 0)
    except ValueError:
        return None


def listing(host: Host, path: str) -> list[DirEntry]:
    """What lies in the folder; nothing where it cannot be listed."""
    try:
        return host.list_dir(path)
    except (OSError, ValueError):
        return []


def parse_json(text: str) -> Any:
    """The JSON value in the text, or None. Warnings that tools print before or after it are passed over."""
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        pass
    start = min((i for i in (text.find("{"), text.find("[")) if i >= 0), default=-1)
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except ValueError:
        return None


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def as_size(value: Any) -> int | None:
    """A whole, positive number; texts of digits are taken too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,20}\s*", value):
        value = int(value)
    if isinstance(value, float) and value == value and abs(value) < 2**63:
        value = int(value)
    return value if isinstance(value, int) and value > 0 else None


def failure(result: CommandResult) -> str:
    """One line that says how a command failed."""
    program = result.argv[0] if result.argv else ""
    if result.timed_out:
        return _("{program} did not answer within {seconds:g} s").format(
            program=program, seconds=round(result.seconds, 1)
        )
    if result.returncode == 127:
        return _("{program} was not found").format(program=program)
    said = (result.error_text.strip() or result.text.strip()).splitlines()
    if said:
        return _("{program} said: {said}").format(program=program, said=said[-1].strip()[:300])
    return _("{program} ended with exit code {code}").format(program=program, code=result.returncode)


def gib(size_bytes: float) -> str:
    return _("{gib:.1f} GiB").format(gib=size_bytes / GIB)


def version_tuple(text: str | None) -> tuple[int, ...]:
    """The numbers of a version for comparing: "581.80" is (581, 80); () where there are none."""
    match = re.match(r"\D{0,3}(\d{1,9}(?:\.\d{1,9})*)", text or "")
    return tuple(int(n) for n in match.group(1).split(".")) if match else ()


def unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())
