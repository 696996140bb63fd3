"""The rules as they are used: read from the compiled file, patterns compiled when their words occur."""

from __future__ import annotations

import json
import re
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

FOLDER = Path(__file__).with_name("rules")
COMPILED_NAME = "compiled.json"

CAUSE, WEAK, LATE, ADVICE = "cause", "weak", "late", "advice"
TIERS = (CAUSE, WEAK, LATE, ADVICE)
USUAL_KINDS = ("exception", "code", "detail", "error", "tool", "plain", "prose")


class Pattern:
    """A regular expression with a literal that every match holds: looking for that is fast."""

    __slots__ = ("_compiled", "needle", "source")

    def __init__(self, source: str, needle: str) -> None:
        self.source = source
        self.needle = needle
        self._compiled: re.Pattern[str] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        if self.needle and self.needle not in text:
            return None
        if self._compiled is None:
            self._compiled = re.compile(self.source)
        return self._compiled.search(text)


class Rule:
    """One rule of ``rules/*.yaml``; see ``rules/README.md`` for the meaning of every field."""

    __slots__ = (
        "any", "cause", "check", "confidence", "excluded", "explanation", "facts", "fixes", "frames", "id", "kinds",
        "last", "line", "notes", "order", "over", "priority", "releases", "sources", "stages", "tier", "title",
        "with_all", "without",
    )  # fmt: skip

    def __init__(self, data: dict[str, Any], order: int) -> None:
        self.id: str = data["id"]
        self.cause: str = data["class"]
        self.order = order
        self.tier: str = data.get("tier", CAUSE)
        self.priority: int = data.get("priority", 50)
        self.kinds = _kinds(data.get("kinds", USUAL_KINDS))
        self.any = _patterns(data.get("any"))
        self.excluded = _patterns(data.get("not"))
        self.frames = _patterns(data.get("frames"))
        self.with_all = _patterns(data.get("with"))
        self.without = _patterns(data.get("without"))
        self.line = _patterns(data.get("line"))
        self.last = _patterns(data.get("last"))
        self.stages: tuple[str, ...] = tuple(data.get("stages", ()))
        self.releases: str = data.get("releases", "")
        self.facts: tuple[str, ...] = tuple(data.get("facts", ()))
        self.check: str = data.get("check", "")
        self.over: tuple[str, ...] = tuple(data.get("over", ()))
        self.confidence: str = data.get("confidence", "high")
        self.title: str = data["title"]
        self.explanation: str = data["explanation"]
        self.fixes: list[dict[str, Any]] = data.get("fixes", [])
        self.sources: list[str] = data.get("sources", [])
        self.notes: list[str] = data.get("look", [])


def _kinds(given: Iterable[str]) -> frozenset[str]:
    kinds = frozenset(given)
    # The lines of an exception's message belong to it, and what other programs say are plain lines.
    more = ({"detail"} if "exception" in kinds else set()) | ({"tool"} if "plain" in kinds or "error" in kinds else set())
    return kinds | more


def _patterns(rows: Iterable[Any] | None) -> tuple[Pattern, ...]:
    return tuple(Pattern(source, needle) for source, needle in rows or ())


class RuleBook:
    """All rules, found by the words of a message; and the wordings of the structure (see ``structure.yaml``)."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.rules = [Rule(row, order) for order, row in enumerate(data["rules"])]
        self.by_id = {rule.id: rule for rule in self.rules}
        structure = data["structure"]
        self.wrappers = _patterns(structure["wrappers"])
        self.consequences = _patterns(structure["consequences"])
        self.died = _patterns(structure["died"])
        self.harmless = _patterns(structure["harmless"])
        # needle -> the rules' patterns that need it; "" for those without one
        self._by_needle: list[tuple[str, list[tuple[Rule, Pattern]]]] = []
        grouped: dict[str, list[tuple[Rule, Pattern]]] = {}
        for rule in self.rules:
            for pattern in rule.any:
                grouped.setdefault(pattern.needle, []).append((rule, pattern))
        self._by_needle = list(grouped.items())

    def hits(self, text: str) -> Iterator[tuple[Rule, re.Match[str]]]:
        """Rules one of whose ``any`` patterns matches, each once."""
        seen: set[str] = set()
        for needle, rows in self._by_needle:
            if needle and needle not in text:
                continue
            for rule, pattern in rows:
                if rule.id in seen:
                    continue
                found = pattern.search(text)
                if found is not None:
                    seen.add(rule.id)
                    yield rule, found

    def matches(self, patterns: tuple[Pattern, ...], text: str) -> bool:
        return any(pattern.search(text) for pattern in patterns)


_BOOK: list[RuleBook] = []


def load() -> RuleBook:
    """The packaged rules."""
    if not _BOOK:
        _BOOK.append(RuleBook(json.loads((FOLDER / COMPILED_NAME).read_text("utf-8"))))
    return _BOOK[0]
