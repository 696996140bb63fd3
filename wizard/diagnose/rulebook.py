"""The rules as they are used: read from the compiled file, patterns compiled when their words occur."""

from __future__ import annotations

import os

from wizard.diagnose.lazy import from_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

FOLDER = os.path.join(os.path.dirname(__file__), "rules")  # noqa: PTH118, PTH120  (pathlib takes longer to load than the rules)
COMPILED_NAME = "compiled.jsonl"

if TYPE_CHECKING:
    # (literal, [rule's number, pattern's place, further groups of literals]...) with and without regard to case.
    Narrowed = tuple[list[tuple[str, list[Any]]], list[tuple[str, list[Any]]]]

CAUSE, WEAK, LATE, ADVICE = "cause", "weak", "late", "advice"
TIERS = (CAUSE, WEAK, LATE, ADVICE)
USUAL_KINDS = ("exception", "code", "detail", "error", "tool", "plain", "prose")


class Pattern:
    """A regular expression; every match holds one literal of each group of ``needles``, which is quick to see."""

    __slots__ = ("_compiled", "ignores_case", "needles", "source")

    def __init__(self, source: str, needles: list[list[str]], ignores_case: bool) -> None:
        self.source = source
        self.needles = needles
        self.ignores_case = ignores_case
        self._compiled: re.Pattern[str] | None = None

    def is_in(self, text: str) -> bool:
        """Whether the text holds a match."""
        if self.needles == [[self.source]] and not self.ignores_case:
            return self.source in text  # nothing but a literal
        return self.search(text) is not None

    def may_be_in(self, text: str) -> bool:
        """Whether a part of the text may hold a match: quick, and sometimes wrongly True."""
        return self.ignores_case or holds_all(text, self.needles)

    def search(self, text: str) -> re.Match[str] | None:
        if not holds_all(text.lower() if self.ignores_case else text, self.needles):
            return None
        if self._compiled is None:
            import re

            self._compiled = re.compile(self.source)
        return self._compiled.search(text)


def holds_all(text: str, groups: list[list[str]]) -> bool:
    """Whether the text holds a literal of each group."""
    for group in groups:
        for needle in group:
            if needle in text:
                break
        else:
            return False
    return True


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
    """All rules, found by the words of a message; and the wordings of the structure (see ``structure.yaml``).

    Of the compiled text only the first line is read at first; a rule when a message holds its words.
    """

    def __init__(self, text: bytes) -> None:
        self._rows = text.split(b"\n")
        index = from_json(self._rows[0].decode())
        self.ids: list[str] = index["ids"]
        self.classes: list[str] = index["classes"]
        self.info_words: tuple[str, ...] = tuple(index["info"])
        structure = index["structure"]
        self.wrappers = _patterns(structure["wrappers"])
        self.consequences = _patterns(structure["consequences"])
        self.died = _patterns(structure["died"])
        self.harmless = _patterns(structure["harmless"])
        self._last: list[int] = index["last"]
        self._made: dict[int, Rule] = {}
        # The literals of each pattern's rarest group, with what else must be there.
        self._exact: dict[str, list[Any]] = index["exact"]
        self._any_case: dict[str, list[Any]] = index["any_case"]

    def rule(self, number: int) -> Rule:
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = Rule(from_json(self._rows[number + 1].decode()), number)
        return made

    @property
    def rules(self) -> list[Rule]:
        return [self.rule(number) for number in range(len(self.ids))]

    def by_id(self, name: str) -> Rule:
        return self.rule(self.ids.index(name))

    @property
    def last_rules(self) -> list[Rule]:
        """Rules about how a log ends."""
        return [self.rule(number) for number in self._last]

    def narrowed(self, text: str) -> Narrowed:
        """The words of the rules that occur in a text at all: what need be looked for in each of its lines."""
        lowered = text.lower()
        return (
            [(needle, rows) for needle, rows in self._exact.items() if needle in text],
            [(needle, rows) for needle, rows in self._any_case.items() if needle in lowered],
        )

    def hits(
        self, text: str, narrowed: Narrowed | None = None, worth: Callable[[Rule], bool] = lambda rule: True
    ) -> Iterator[tuple[Rule, re.Match[str]]]:
        """Rules that are ``worth`` a look and one of whose ``any`` patterns matches, each once."""
        exact, any_case = narrowed or (self._exact.items(), self._any_case.items())
        seen: set[int] = set()
        rows = [row for needle, found in exact if needle in text for row in found if not row[2] or holds_all(text, row[2])]
        if any_case:
            lowered = text.lower()
            rows += [row for needle, found in any_case if needle in lowered for row in found if not row[2] or holds_all(lowered, row[2])]
        for number, place, _groups in rows:
            if number in seen:
                continue
            rule = self.rule(number)
            if not worth(rule):
                continue
            found = rule.any[place].search(text)
            if found is not None:
                seen.add(number)
                yield rule, found

    def matches(self, patterns: tuple[Pattern, ...], text: str) -> bool:
        for pattern in patterns:  # noqa: SIM110  (a generator takes twice as long)
            if pattern.is_in(text):
                return True
        return False


_BOOK: list[RuleBook] = []


def load() -> RuleBook:
    """The packaged rules."""
    if not _BOOK:
        with open(os.path.join(FOLDER, COMPILED_NAME), "rb") as stream:  # noqa: PTH118, PTH123
            _BOOK.append(RuleBook(stream.read()))
    return _BOOK[0]
