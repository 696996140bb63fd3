"""Numbers as people and vLLM write them."""

from __future__ import annotations

import re

from wizard.errors import BadInput
from wizard.i18n import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


LONGEST = "auto"  # a context length that is worked out: the longest that fits. vLLM also writes it as -1.


def is_longest(text: object) -> bool:
    """Whether a context length is the word for the longest that fits."""
    return str(text).strip().lower() in (LONGEST, "-1")


def parse_count(key: str, raw: str) -> int:
    """A whole number; ``32k`` is 32000 and ``32K`` is 32768, as vLLM's own parser reads them."""
    match = re.fullmatch(r"(\d{1,18})([kKmMgG]?)", raw.strip().replace("_", ""))
    if match is None:
        if re.fullmatch(r"-\d{1,18}[kKmMgG]?", raw.strip().replace("_", "")):
            raise BadInput(_("{key}: “{text}” is below 0.").format(key=key, text=raw))
        raise BadInput(_("{key}: “{text}” is not a whole number.").format(key=key, text=raw))
    scale = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]
    return int(match[1]) * scale


def whole_number(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """An option's ``type``: a whole number from ``least`` (to ``most``); anything else is told in words."""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else None
        if number is None or number < least or (most is not None and number > most):
            from argparse import ArgumentTypeError

            if most is None:
                raise ArgumentTypeError(_("“{text}” is not a whole number from {least} on").format(text=text, least=least))
            raise ArgumentTypeError(
                _("“{text}” is not a whole number from {least} to {most}").format(text=text, least=least, most=most)
            )
        return number

    return read


def number_above_zero(limit: float) -> Callable[[str], float]:
    """An option's ``type``: a number above 0 and below ``limit``; anything else is told in words."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not 0 < number < limit:
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(
                _("“{text}” is not a number above 0 and below {limit}").format(text=text, limit=f"{limit:.0f}")
            )
        return number

    return read


def size_text(size_bytes: int) -> str:
    """A size for people: GiB from a tenth of one on, else MiB or KiB, so that little is not shown as nothing."""
    if size_bytes >= (1 << 30) / 10 or size_bytes == 0:
        return _("{gib:.1f} GiB").format(gib=size_bytes / (1 << 30))
    if size_bytes >= (1 << 20) / 10:
        return _("{mib:.1f} MiB").format(mib=size_bytes / (1 << 20))
    return _("{kib:.1f} KiB").format(kib=size_bytes / 1024)
