"""The keys that WSL knows in ``.wslconfig`` and ``/etc/wsl.conf``, with type and default; values by type."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import Any

from wizard.wsl_grammar import Mode

_UINT64 = 1 << 64
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_UNITS |= {unit + "B": factor for unit, factor in _UNITS.items() if unit not in ("", "B")}
_C_SPACE = " \t\n\v\f\r"


@dataclass(frozen=True)
class Key:
    """One setting. ``names[0]`` is its proper name, the others are older places that WSL still reads.

    ``kind``: "size", "int", "bool", "enum", "path", "text", "mac", "ipv4", "ports". ``default`` is None when it
    depends on the machine or is empty. ``values`` maps an enum's spellings to the value that WSL takes.
    """

    names: tuple[str, ...]
    kind: str
    default: Any
    values: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.names[0]


@functools.cache
def table(mode: Mode) -> tuple[Key, ...]:
    """All keys of one of the two files."""
    text = resources.files("wizard.outputs").joinpath("data/wslconfig_keys.json").read_text("utf-8")
    rows = json.loads(text)[mode]
    return tuple(
        Key(tuple(r["keys"]), r["type"], r["default"], tuple(r.get("values", {}).items())) for r in rows
    )


@functools.cache
def _index(mode: Mode) -> dict[str, Key]:
    return {name.lower(): key for key in table(mode) for name in key.names}


def find(name: str, mode: Mode) -> Key | None:
    """The key that ``section.key`` means (any case, old places too)."""
    return _index(mode).get(name.lower())


def elsewhere(name: str, mode: Mode) -> Key | None:
    """For an unknown ``section.key``: the key of that last part which this file does know, in another section."""
    tail = name.rpartition(".")[2].lower()
    return next((k for k in table(mode) if any(n.rpartition(".")[2].lower() == tail for n in k.names)), None)


def _int_of(digits: str, base: int = 10) -> int:
    """``int``, but a figure of more than 40 digits is just one that is too large for anything here."""
    sign = -1 if digits.startswith("-") else 1
    bare = digits.lstrip("+-").removeprefix("0x").removeprefix("0X").lstrip("0")
    return sign * (int(bare, base) if 0 < len(bare) <= 40 else 0 if not bare else 1 << 80)


def parse_size(text: str) -> int | None:
    """Bytes of a size such as "16GB", or None. As in WSL the figure wraps at 2**64."""
    match = re.fullmatch(rf"([{_C_SPACE}]*)([+-]?)([0-9]+)(.*)", text, re.DOTALL)
    if not match:
        return None
    space, sign, digits, unit = match.groups()
    number = _int_of(digits)
    number = _UINT64 - 1 if number >= _UINT64 else (-number) % _UINT64 if sign == "-" else number
    if number == 0 and (space or sign or digits != "0"):
        return None
    factor = _UNITS.get(unit)
    return None if factor is None else number * factor % _UINT64


def parse_int(text: str) -> int | None:
    """A 32-bit integer in C's notation (decimal, 0x hexadecimal, 0 octal), or None."""
    match = re.fullmatch(rf"[{_C_SPACE}]*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if not match:
        return None
    sign, digits = match.groups()
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[0] == "0" else 10
    number = _int_of(digits, base) * (-1 if sign == "-" else 1)
    return number if _INT_MIN <= number <= _INT_MAX else None


def parse_bool(text: str) -> bool | None:
    return {"1": True, "true": True, "0": False, "false": False}.get(_ascii_lower(text))


def parse_mac(text: str) -> str | None:
    match = re.fullmatch(r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2}){4}", text)
    return text.replace("-", ":").upper() if match else None


def parse_ipv4(text: str) -> str | None:
    parts = text.split(".")
    fits = len(parts) == 4 and all(re.fullmatch(r"0|[1-9][0-9]{0,2}", p) and int(p) <= 255 for p in parts)
    return text if fits else None


def parse_ports(text: str) -> tuple[frozenset[int], int]:
    """The ports that WSL takes from a comma list, and how many parts it refuses."""
    ports: set[int] = set()
    refused = 0
    for part in filter(None, text.split(",")):
        # A number followed by anything counts as that number.
        match = re.match(rf"[{_C_SPACE}]*([+-]?[0-9]+)", part)
        number = _int_of(match[1]) if match else 0
        if 0 < number <= 0xFFFF:
            ports.add(number)
        else:
            refused += 1
    return frozenset(ports), refused


def parse_enum(key: Key, text: str) -> str | None:
    wanted = _ascii_lower(text)
    return next((value for spelling, value in key.values if spelling.lower() == wanted), None)


def _ascii_lower(text: str) -> str:
    # str.lower would turn the Kelvin sign into "k"; WSL compares ASCII letters only.
    return "".join(c.lower() if c.isascii() else c for c in text)
