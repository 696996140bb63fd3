"""What would take longer to make ready than a short log to read: regular expressions, compiled when first used; JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

class Lazy:
    """``needles``: a text that holds none of them is not searched at all."""

    __slots__ = ("_compiled", "flags", "needles", "source")

    def __init__(self, source: str, needles: tuple[str, ...] = (), flags: int = 0) -> None:
        self.source = source
        self.needles = needles
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            import re

            self._compiled = re.compile(self.source, self.flags)
        return self._compiled

    def _worth_it(self, text: str) -> bool:
        if not self.needles:
            return True
        for needle in self.needles:  # noqa: SIM110  (a generator takes twice as long)
            if needle in text:
                return True
        return False

    def search(self, text: str) -> re.Match[str] | None:
        return self.compiled.search(text) if self._worth_it(text) else None

    def match(self, text: str) -> re.Match[str] | None:
        return self.compiled.match(text) if self._worth_it(text) else None


def from_json(text: str, at: int = 0) -> Any:
    """The value that begins at ``at``, as json reads it, by the scanner below it: the json package takes longer to import than all rules to read."""
    try:
        import _json

        make: Any = _json.make_scanner
        return make(_ScannerSettings)(text, at)[0]
    except Exception:  # another Python than CPython, or one where it has moved
        import json

        return json.JSONDecoder().raw_decode(text, at)[0]


class _ScannerSettings:
    strict = True
    object_hook = object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
