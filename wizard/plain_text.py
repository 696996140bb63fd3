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


def use_replacements(stream: Any) -> None:
    """Let ``stream`` print every character: those that it cannot hold become plain ones, or ``?``."""
    codecs.register_error(_NAME, _replace)
    stream.reconfigure(errors=_NAME)


def for_encoding(text: str, encoding: str) -> str:
    """``text`` as a stream of ``encoding`` would show it."""
    codecs.register_error(_NAME, _replace)
    return text.encode(encoding, _NAME).decode(encoding)
