"""The rules as they are used: read from the compiled file, patterns compiled when their words occur."""

from __future__ import annotations

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

FOLDER = os.path.join(os.path.dirname(__file__), "rules")  # noqa: PTH118, PTH120  (pathlib takes longer to load than the rules)
COMPILED_NAME = "compiled.json"

CAUSE, WEAK, LATE, ADVICE = "cause", "weak", "late", "advice"
TIERS = (CAUSE, WEAK, LATE, ADVICE)
USUAL_KINDS = ("exception", "code", "detail", "error", "tool", "plain", "prose")


class Pattern:
    """A regular expression with literals of which every match holds one: looking for those is fast."""

    __slots__ = ("_compiled", "ignores_case", "needles", "source")

    def __init__(self, source: str, needles: list[str], ignores_case: bool) -> None:
        self.source = source
        self.needles = needles
        self.ignores_case = ignores_case
        self._compiled: re.Pattern[str] | None = None

    def search(self, text: str) -> re.Match[str] | None:
        if self.needles:
            where = text.lower() if self.ignores_case else text
            for needle in self.needles:
                if needle in where:
                    break
            else:
                return None
        return self.match(text)

    def match(self, text: str) -> re.Match[str] | None:
        """The same without looking for the literals first."""
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
    return tuple([Pattern(source, needles, ignores) for source, needles, ignores in rows or ()])


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
        self._exact: dict[str, list[tuple[Rule, Pattern]]] = {}
        self._any_case: dict[str, list[tuple[Rule, Pattern]]] = {}
        self._always: list[tuple[Rule, Pattern]] = []
        for rule in self.rules:
            for pattern in rule.any:
                table = self._any_case if pattern.ignores_case else self._exact
                for needle in pattern.needles:
                    table.setdefault(needle, []).append((rule, pattern))
                if not pattern.needles:
                    self._always.append((rule, pattern))

    @property
    def info_words(self) -> tuple[str, ...]:
        """Literals of the rules that look at lines of the level INFO: all other such lines tell nothing."""
        rules = [r for r in self.rules if "info" in r.kinds]
        return tuple({n for r in rules for p in r.any for n in p.needles if not p.ignores_case})

    def hits(self, text: str) -> Iterator[tuple[Rule, re.Match[str]]]:
        """Rules one of whose ``any`` patterns matches, each once."""
        seen: set[str] = set()
        lowered = text.lower()
        found_rows = [row for needle, rows in self._exact.items() if needle in text for row in rows]
        found_rows += [row for needle, rows in self._any_case.items() if needle in lowered for row in rows]
        for rule, pattern in (*found_rows, *self._always):
            if rule.id in seen:
                continue
            found = pattern.match(text)
            if found is not None:
                seen.add(rule.id)
                yield rule, found

    def matches(self, patterns: tuple[Pattern, ...], text: str) -> bool:
        for pattern in patterns:  # noqa: SIM110  (a generator takes twice as long)
            if pattern.search(text) is not None:
                return True
        return False


_BOOK: list[RuleBook] = []


def load() -> RuleBook:
    """The packaged rules."""
    if not _BOOK:
        with open(os.path.join(FOLDER, COMPILED_NAME), encoding="utf-8") as stream:  # noqa: PTH118, PTH123
            _BOOK.append(RuleBook(json.load(stream)))
    return _BOOK[0]
