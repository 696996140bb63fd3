"""``python -m wizard.diagnose.compile``: check the rules in ``rules/*.yaml`` and write their compiled form.

The compiled form holds for every pattern literals of which each match must contain one, so that almost all patterns
are never even compiled.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wizard.diagnose.rulebook import COMPILED_NAME, FOLDER, TIERS

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_parse

PATTERN_FIELDS = ("any", "not", "frames", "with", "without", "line", "last")
TEXT_FIELDS = ("id", "class", "title", "explanation")
OTHER_FIELDS = (
    "tier", "priority", "kinds", "stages", "releases", "facts", "check", "over", "confidence", "fixes", "sources",
    "match", "no_match", "look",
)  # fmt: skip
FIX_FIELDS = ("summary", "flags", "env", "files", "commands", "releases", "when", "less")
KINDS = ("exception", "code", "detail", "error", "warning", "tool", "plain", "prose", "info")
STRUCTURE = "structure.yaml"


class RuleFault(ValueError):
    """A rule file is not as it must be: names the file and the rule."""


def needles_of(source: str) -> list[list[str]]:
    """Groups of literals: every match of ``source`` holds at least one literal of each group.

    For a pattern that ignores case they are in lower case. Empty when there are none.
    """
    groups = _needles(sre_parse.parse(source))
    if ignores_case(source):
        groups = [[n.lower() for n in group] for group in groups]
    # The rarest first: what is long and has few alternatives.
    groups = sorted(groups, key=lambda g: (-min(map(len, g)), len(g)))
    return [sorted(set(group)) for group in groups[:3]]


def ignores_case(source: str) -> bool:
    return bool(sre_parse.parse(source).state.flags & re.IGNORECASE)


def _needles(parsed: Any) -> list[list[str]]:
    groups: list[list[str]] = []
    run = ""
    for op, value in _flat(parsed):
        if op == "LITERAL":
            run += chr(value)
            continue
        if run:
            groups.append([run])
            run = ""
        if op == "BRANCH":
            best = [max(_needles(branch), key=lambda g: (min(map(len, g)), -len(g)), default=[]) for branch in value]
            if all(best):
                groups.append([needle for group in best for needle in group])
    if run:
        groups.append([run])
    return [g for g in groups if min(map(len, g)) >= 2] or groups


def _flat(parsed: Any) -> list[tuple[str, Any]]:
    out: list[tuple[str, Any]] = []
    for op, value in parsed:
        name = str(op)
        if name == "LITERAL":
            out.append((name, value))
        elif name == "SUBPATTERN":
            out += _flat(value[3])
        elif name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] >= 1:
            out += [*_flat(value[2]), ("CUT", None)]
        elif name == "BRANCH":
            out.append((name, value[1]))
        elif name == "AT":
            continue
        else:
            out.append(("CUT", None))
    return out


def compile_patterns(rows: Any, where: str) -> list[list[Any]]:
    if rows is None:
        return []
    if not isinstance(rows, list):
        raise RuleFault(f"{where}: a list of patterns is needed")
    out: list[list[Any]] = []
    for source in rows:
        try:
            re.compile(source)
        except (re.error, TypeError) as error:
            raise RuleFault(f"{where}: {source!r}: {error}") from error
        out.append([source, needles_of(source), ignores_case(source)])
    return out


def compile_rule(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One rule, checked. Raises :class:`RuleFault`."""
    unknown = set(data) - {*PATTERN_FIELDS, *TEXT_FIELDS, *OTHER_FIELDS}
    if unknown:
        raise RuleFault(f"{where}: unknown field {', '.join(sorted(unknown))}")
    for field in TEXT_FIELDS:
        if not isinstance(data.get(field), str) or not data[field].strip():
            raise RuleFault(f"{where}: {field} is missing")
    out: dict[str, Any] = {}
    for key, value in data.items():
        if key in PATTERN_FIELDS:
            out[key] = compile_patterns(value, f"{where}: {key}")
        elif key in ("match", "no_match"):
            continue  # they are for the tests
        elif isinstance(value, str):
            out[key] = " ".join(value.split())
        else:
            out[key] = value
    if not out.get("any") and not out.get("last"):
        raise RuleFault(f"{where}: neither any nor last is given")
    if out.get("tier", TIERS[0]) not in TIERS:
        raise RuleFault(f"{where}: tier {out['tier']!r}")
    if set(out.get("kinds", ())) - set(KINDS):
        raise RuleFault(f"{where}: kinds {out['kinds']!r}")
    for fix in out.get("fixes", ()):
        if not isinstance(fix, dict) or set(fix) - set(FIX_FIELDS) or not fix.get("summary"):
            raise RuleFault(f"{where}: fix {fix!r}")
        fix["summary"] = " ".join(fix["summary"].split())
    return out


def read_folder(folder: Path) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """((file, rule) in the order of the files, the structure). Raises :class:`RuleFault`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    rows: list[tuple[str, dict[str, Any]]] = []
    structure: dict[str, Any] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            data = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
        except YAMLError as error:
            raise RuleFault(f"{path.name}: {error}") from error
        if path.name == STRUCTURE:
            structure = data
            continue
        rows += [(path.name, row) for row in data]
    return rows, structure


def compile_folder(folder: Path = Path(FOLDER)) -> str:
    """The text of the compiled file. Raises :class:`RuleFault`."""
    rows, structure = read_folder(folder)
    rules, seen = [], set()
    for name, row in rows:
        where = f"{name}: {row.get('id', row)}"
        if row.get("id") in seen:
            raise RuleFault(f"{where}: the id is given twice")
        seen.add(row.get("id"))
        rules.append(compile_rule(row, where))
    words = {key: compile_patterns(value, f"{STRUCTURE}: {key}") for key, value in structure.items()}
    # One line a rule: only the rules that a log calls for are read.
    index = {
        "structure": words,
        "ids": [rule["id"] for rule in rules],
        "classes": [rule["class"] for rule in rules],
        "last": [number for number, rule in enumerate(rules) if rule.get("last")],
        "info": sorted({n for rule in rules if "info" in rule.get("kinds", ()) for _source, groups, case in rule.get("any", ()) if not case for n in groups[0]}),
        "exact": _by_literal(rules, any_case=False),
        "any_case": _by_literal(rules, any_case=True),
    }
    texts = [json.dumps(row, ensure_ascii=False, sort_keys=True, separators=(",", ":")) for row in (index, *rules)]
    return "\n".join(texts) + "\n"


def _by_literal(rules: list[dict[str, Any]], any_case: bool) -> dict[str, list[Any]]:
    """Each literal of the rarest group of every pattern -> [number of the rule, place of the pattern, other groups]."""
    table: dict[str, list[Any]] = {}
    for number, rule in enumerate(rules):
        for place, (_source, groups, case) in enumerate(rule.get("any", ())):
            for literal in groups[0] if case == any_case else ():
                table.setdefault(literal, []).append([number, place, groups[1:]])
    return table


def main() -> int:
    """Compile the packaged rules."""
    try:
        text = compile_folder()
    except RuleFault as fault:
        print(fault, file=sys.stderr)
        return 1
    (Path(FOLDER) / COMPILED_NAME).write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
