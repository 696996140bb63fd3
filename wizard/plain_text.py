"""Printing on a terminal or pipe that is not UTF-8: typographic characters get their plain forms."""

from __future__ import annotations

import codecs
from typing import Any

_PLAIN = {
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\u2026": "...",
    "\u00d7": "x", "\u00b7": "-", "\u2192": "->", "\u2264": "<=", "\u2265": ">=", "\u00a0": " ", "\u2713": "ok",
    "\u2717": "x", "\u2022": "*", "\u2588": "#", "\u2593": "#", "\u2592": "+", "\u2591": ".", "\u2500": "-",
    "\u2502": "|",
}  # fmt: skip
_NAME = "vllm-wizard-plain"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


def printable(text: str) -> str:
    """``text`` with control characters written out, so that no file or model name can drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or not _controls(c) else _written_out(c) for c in text)


def _controls(char: str) -> bool:
    # Control characters, and those that turn the direction of a line around.
    code = ord(char)
    return code < 32 or 127 <= code < 160 or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069


def _written_out(char: str) -> str:
    code = ord(char)
    return "^" + chr(code ^ 64) if code < 128 else f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def use_replacements(stream: Any) -> None:
    """Let ``stream`` print every character: those that it cannot hold become plain ones, or ``?``."""
    codecs.register_error(_NAME, _replace)
    stream.reconfigure(errors=_NAME)


def for_encoding(text: str, encoding: str) -> str:
    """``text`` as a stream of ``encoding`` would show it."""
    codecs.register_error(_NAME, _replace)
    return text.encode(encoding, _NAME).decode(encoding)
