"""The headers of safetensors files: names, shapes and sizes of tensors, without the weights.

A file begins with the header's length (8 bytes, little endian) and the header (JSON): see the format's
description at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from wizard.i18n import _

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
LFS_PREFIX = b"version https://git-lfs.github.com/spec/"

DTYPE_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


class Reader(Protocol):
    def read_bytes(self, path: str, limit: int | None = None) -> bytes: ...


@dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str  # as the format names it: "BF16", "F8_E4M3"
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Header:
    tensors: tuple[Tensor, ...]
    data_bytes: int  # what must follow the header
    file_bytes: int  # what the whole file must have


class HeaderError(ValueError):
    """The file is not a whole safetensors file; ``code`` says which fault it is."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read_header(reader: Reader, path: str, file_bytes: int) -> Header:
    """The header of the file at ``path``, which has ``file_bytes``.

    Raises HeaderError ("lfs_pointer", "empty", "truncated", "bad_header") and OSError.
    """
    if file_bytes == 0:
        raise HeaderError("empty", _("the file is empty"))
    start = reader.read_bytes(path, limit=256)
    if start.startswith(LFS_PREFIX):
        raise HeaderError("lfs_pointer", _("a Git LFS pointer, not the weights"))
    if len(start) < 8:
        raise HeaderError("truncated", _("only {count} bytes").format(count=file_bytes))
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER_BYTES or length < 2:
        raise HeaderError("bad_header", _("the header's length is absurd: not a safetensors file"))
    if 8 + length > file_bytes:
        raise HeaderError("truncated", _("the file ends within its header"))
    raw = reader.read_bytes(path, limit=8 + length)[8:]
    if len(raw) < length:
        raise HeaderError("truncated", _("the file ends within its header"))
    header = parse_header(raw)
    expected = 8 + length + header.data_bytes
    if expected > file_bytes:
        raise HeaderError("truncated", _("{count} bytes of {expected}").format(count=file_bytes, expected=expected))
    return Header(header.tensors, header.data_bytes, expected)


def parse_header(raw: bytes) -> Header:
    """The header's JSON. Raises HeaderError("bad_header") on anything else."""
    try:
        table = json.loads(raw)
    except (ValueError, RecursionError):
        raise HeaderError("bad_header", _("the header is not JSON")) from None
    if not isinstance(table, dict):
        raise HeaderError("bad_header", _("the header is not a table"))
    tensors: list[Tensor] = []
    end = 0
    for name, entry in table.items():
        if name == "__metadata__":
            continue
        tensor, stop = _entry(name, entry)
        tensors.append(tensor)
        end = max(end, stop)
    return Header(tuple(tensors), end, 0)


def _entry(name: str, entry: object) -> tuple[Tensor, int]:
    if not isinstance(entry, dict):
        raise HeaderError("bad_header", _("{name}: not a table").format(name=name))
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    fits = (
        isinstance(dtype, str)
        and isinstance(shape, list)
        and all(type(n) is int and n >= 0 for n in shape)
        and isinstance(offsets, list)
        and len(offsets) == 2
        and all(type(n) is int for n in offsets)
        and 0 <= offsets[0] <= offsets[1]
    )
    if not fits or not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        raise HeaderError("bad_header", _("{name}: no dtype, shape and offsets").format(name=name))
    return Tensor(name, dtype, tuple(shape), offsets[1] - offsets[0]), offsets[1]
