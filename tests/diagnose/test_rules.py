"""The rules: each one's own examples, and what the compiled form and the texts must be like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wizard.diagnose.checks import CHECKS
from wizard.diagnose.compile import RuleFault, compile_folder, compile_rule, needles_of, read_folder
from wizard.diagnose.engine import diagnose
from wizard.diagnose.reader import read_bytes
from wizard.diagnose.rulebook import COMPILED_NAME, load
from wizard.diagnose.rulebook import FOLDER as FOLDER_NAME

FOLDER = Path(FOLDER_NAME)

ROWS, STRUCTURE = read_folder(FOLDER)
POSITIVE = [(row, text) for _file, row in ROWS for text in row.get("match", ())]
NEGATIVE = [(row, text) for _file, row in ROWS for text in row.get("no_match", ())]


def _id(value: Any) -> str:
    return str(value["id"]) if isinstance(value, dict) else ""


@pytest.mark.parametrize(("row", "text"), POSITIVE, ids=_id)
def test_a_rule_finds_its_examples(row: dict[str, Any], text: str) -> None:
    found = diagnose(read_bytes(text.encode())).findings
    assert found, text
    assert found[0].rule == row["id"]


@pytest.mark.parametrize(("row", "text"), NEGATIVE, ids=_id)
def test_a_rule_leaves_its_counterexamples(row: dict[str, Any], text: str) -> None:
    assert row["id"] not in {f.rule for f in diagnose(read_bytes(text.encode())).findings}


def test_the_compiled_file_is_current() -> None:
    """After a change of a rule: python -m wizard.diagnose.compile"""
    assert (FOLDER / COMPILED_NAME).read_text("utf-8") == compile_folder()


def test_every_rule_can_be_used() -> None:
    book = load()
    for rule in book.rules:
        assert not rule.check or rule.check in CHECKS, rule.id
        assert rule.confidence in ("high", "medium", "low"), rule.id
        assert rule.title.strip(), rule.id
        assert rule.explanation.count(".") >= 1, rule.id
        assert rule.fixes or rule.check, rule.id
        for other in rule.over:
            assert other in book.ids or any(r.cause == other for r in book.rules) or "_" in other, (rule.id, other)
    for _file, row in ROWS:
        assert row.get("match") or row["id"] in ("engine-vanished", "cut-off", "only-the-echo", "internal-bug", "unknown"), row["id"]


def test_flags_of_fixes_exist_in_some_release() -> None:
    from wizard.releases import flag_spans

    for rule in load().rules:
        for fix in rule.fixes:
            for flag in fix.get("flags", {}):
                assert flag_spans(flag), (rule.id, flag)


def _never_falls_away(fix: dict[str, Any]) -> bool:
    from wizard.releases import flag_spans, versions

    every = [(versions()[0], versions()[-1])]
    set_flags = [f for f, value in fix.get("flags", {}).items() if value is not None]
    texts = [fix["summary"], *fix.get("flags", {}).values(), *fix.get("env", {}).values(), *fix.get("commands", ())]
    texts += [value for file in fix.get("files", ()) for value in file.values()]
    return (
        not any(fix.get(name) for name in ("when", "releases", "less"))
        and not any("{" in str(text) for text in texts)
        and "--gpu-memory-utilization" not in set_flags  # held against the machine
        and all(flag_spans(f.partition(".")[0]) == every for f in set_flags)
    )


def test_no_list_of_fixes_can_begin_with_or() -> None:
    """An "Or ..." must stand behind a fix that every log and every release leaves in."""
    for rule in load().rules:
        kept = False
        for fix in rule.fixes:
            assert kept or not fix["summary"].startswith("Or "), (rule.id, fix["summary"])
            kept = kept or _never_falls_away(fix)


def test_a_fix_is_kept_from_no_release_that_takes_it() -> None:
    from wizard.releases import flag_spans

    for rule in load().rules:
        for fix in rule.fixes:
            spec = str(fix.get("releases", ""))
            if spec.startswith(">=") and "--moe-backend" in fix.get("flags", {}):
                assert spec == ">=" + flag_spans("--moe-backend")[0][0], rule.id


@pytest.mark.parametrize(
    ("source", "needles"),
    [
        ("abc", [["abc"]]),
        (r"ab(?:cd|ef)gh\d+ijklm", [["ijklm"], ["ab"], ["gh"]]),
        (r"x?yz", [["yz"]]),
        (r"(?P<n>\d+) tokens (\w+)", [[" tokens "]]),
        (r"(?:ab)+cde", [["cde"], ["ab"]]),
        (r"abc|de", [["abc", "de"]]),
        (r"x(?:abc\d|defg)y", [["abc", "defg"]]),
        (r"abc|\d", []),
        (r"(?i)aBc", [["abc"]]),
        (r"^start$", [["start"]]),
        (r"\[Errno 98\]", [["[Errno 98]"]]),
        (r"(?!abc)\d", []),
        (r"FP8 .*(?:needs|wants) .*GPU", [["needs", "wants"], ["FP8 "], ["GPU"]]),
    ],
)
def test_literals_of_which_every_match_holds_one(source: str, needles: list[list[str]]) -> None:
    assert needles_of(source) == needles


def test_every_pattern_has_a_literal() -> None:
    """Without one it would be compiled and tried on every line of every log."""
    rules = [json.loads(line) for line in compile_folder().split("\n")[1:-1]]
    assert len(rules) == len(ROWS)
    for rule in rules:
        for field in ("any", "last", "with"):
            for source, groups, _ignores in rule.get(field, ()):
                assert groups, (rule["id"], source)
                assert all(len(n) >= 2 for n in groups[0]), (rule["id"], source, groups)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"any": ["("]}, "any"),
        ({"wrong": 1}, "wrong"),
        ({"title": ""}, "title"),
        ({"tier": "worst"}, "tier"),
        ({"kinds": ["noise"]}, "kinds"),
        ({"any": None}, "neither"),
        ({"fixes": [{"flags": {}}]}, "fix"),
        ({"any": "text"}, "list"),
    ],
)
def test_a_faulty_rule_is_named(change: dict[str, Any], told: str) -> None:
    good: dict[str, Any] = {"id": "x", "class": "y", "any": ["z"], "title": "t", "explanation": "e"}
    compile_rule(good, "f.yaml: x")
    with pytest.raises(RuleFault, match=told):
        compile_rule({**good, **change}, "f.yaml: x")


def test_the_same_id_twice_is_refused(tmp_path: Path) -> None:
    rule = "- {id: a, class: b, any: [c], title: d, explanation: e}\n"
    (tmp_path / "a.yaml").write_text(rule * 2)
    with pytest.raises(RuleFault, match="twice"):
        compile_folder(tmp_path)
    (tmp_path / "a.yaml").write_text("- {id: a\n")
    with pytest.raises(RuleFault, match=r"a\.yaml"):
        compile_folder(tmp_path)


def _begins_without_end(parsed: Any) -> bool:
    """Whether a pattern may begin with a repetition without a bound: it is tried anew at each character of a long word,
    and each time to the word's end. A condition before it, as \\b, keeps it to the word's beginning."""
    for op, value in parsed:
        name = str(op)
        if name == "SUBPATTERN" and _begins_without_end(value[3]):
            return True
        if name == "BRANCH":
            return any(_begins_without_end(branch) for branch in value[1])
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            if most > 1000 or _begins_without_end(inner):
                return True
            if least == 0:
                continue  # what follows may be the beginning
        return False
    return False


def test_no_pattern_takes_the_square_of_a_words_length() -> None:
    from wizard.diagnose.compile import PATTERN_FIELDS, sre_parse

    sources = [p for _file, row in ROWS for field in PATTERN_FIELDS for p in row.get(field, ())]
    sources += [p for patterns in STRUCTURE.values() for p in patterns]
    assert len(sources) > 500
    assert [p for p in sources if _begins_without_end(sre_parse.parse(p))] == []
