"""Regular expressions that are compiled when first used: compiling all of them takes longer than a short log."""

from __future__ import annotations

import re


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
