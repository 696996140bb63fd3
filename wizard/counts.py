"""Numbers as people and vLLM write them."""

from __future__ import annotations

import re

from wizard.errors import BadInput
from wizard.i18n import _


def parse_count(key: str, raw: str) -> int:
    """A whole number; ``32k`` is 32000 and ``32K`` is 32768, as vLLM's own parser reads them."""
    match = re.fullmatch(r"(\d{1,18})([kKmMgG]?)", raw.strip().replace("_", ""))
    if match is None:
        raise BadInput(_("{key}: “{text}” is not a whole number.").format(key=key, text=raw))
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]
    return int(match[1]) * scale
