"""Texts are found, translations keep what a text needs, and the language is chosen as people name it."""

from __future__ import annotations

import ast
import gettext
import json
import re
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard import columns, i18n, options, translate
from wizard.cli import run
from wizard.errors import BadInput
from wizard.i18n import _


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    choose = i18n.set_language
    yield
    choose("en")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> dict[str, translate.Message]:
    """A program with few texts."""
    texts = ["usage: ", "options", "{n} two", *(f"text {n}" for n in range(10))]
    found = {t: translate.Message(t, None, ["a.py"]) for t in texts}
    monkeypatch.setattr(translate, "messages", lambda: found)
    return found


def _texts(source: str) -> list[tuple[str, str | None]]:
    return [(text, plural) for text, plural, _where in translate.texts_of_source(source, "a.py")]


# -- what is found --------------------------------------------------------------------------------------------


def test_texts_of_code_are_found_however_they_are_written() -> None:
    source = """
TABLE = (N_("declared "
            "in two"), 1)
def f(n):
    _("plain")
    i18n._("by module")
    ngettext("{n} thing", "{n} things", n)
    _(TABLE[0])
    _other("no text of ours")
"""
    assert set(_texts(source)) == {
        ("declared in two", None),
        ("plain", None),
        ("by module", None),
        ("{n} thing", "{n} things"),
    }


@pytest.mark.parametrize("call", ['_(f"{x} left")', '_("a" + x)', 'N_("%s" % x)'])
def test_a_text_put_together_before_it_is_translated_is_a_fault(call: str) -> None:
    with pytest.raises(translate.TextFault, match=r"a\.py:1"):
        _texts(call)


def test_texts_of_the_data_files_are_found() -> None:
    found = translate.messages()
    where = {w.split(" ")[0] for m in found.values() for w in m.where}
    assert {"wizard/diagnose/rules", "wizard/check/data/history.json", "wizard/releases/data/known_issues.json"} <= where
    assert any(w.startswith("recipes/") for w in where)
    assert "usage: " in found  # argparse's own words
    assert len(found) > 2000


def test_no_text_is_translated_while_modules_are_loaded() -> None:
    """A text translated at import time would keep the language of that moment."""
    early = []
    for path in sorted(translate.PACKAGE.rglob("*.py")):
        early += [f"{path.name}:{line}" for line in _early_calls(ast.parse(path.read_text("utf-8")))]
    assert early == []


def _early_calls(node: ast.AST) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id in ("_", "ngettext"):
            yield child.lineno
        yield from _early_calls(child)


class _Marked:
    """A language in which every text stands in brackets: what stands outside of them was never translated."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


def _outside(text: str) -> list[str]:
    kept, depth = "", 0
    for char in text:
        depth += (char == "⟦") - (char == "⟧")
        kept += char if depth == 0 and char != "⟧" else ""
    return kept.split("\n")


# Commands that are shown stand as they are in every language.
_COMMAND = re.compile(r"^\s*(?:\d+\. )?`?(?:sudo|docker|uv|curl|wsl|cd|vllm|\$f|python3|echo|nvidia-smi|du|netsh|New-Net)\b|^\s*\$")
_ENGLISH = re.compile(r"(?:\b[A-Za-z][a-z']+[ ,]+){2,}[a-z]{2,}")
_MACHINES = Path(__file__).parent / "machines"
_LOG = "ERROR 11-30 04:40:41 [core.py:1108] ValueError: No available memory for the cache blocks.\n"


@pytest.mark.parametrize(
    "words",
    [
        *(["detect", "--machine", str(_MACHINES / m)] for m in ("native-t4", "wsl2-no-gpu", "nvidia-smi-hangs", "windows-rtx4070")),
        ["plan", "--machine", str(_MACHINES / "wsl2-rtx3060-model-on-d")],
        ["plan", "--machine", str(_MACHINES / "native-mi300x")],
        ["windows", "--dry-run", "--machine", str(_MACHINES / "windows-rtx4070")],
        ["fit", "--model", "Qwen/Qwen3-VL-8B-Instruct", "--gpu", "RTX 3060"],
        ["recipes", "show", "gemma-4"],
        ["check", "--", "vllm", "serve", "m", "--swap-space", "4", "--task", "embed", "--max-model-len", "x", "--nonsense", "1"],
        ["wslconfig", "check", "--machine", str(_MACHINES / "wsl2-rtx3060-model-on-d")],
        ["diagnose", "LOG"],
        ["undo", "--list"],
        ["help", "privacy"],
        ["plan", "--answers", "/does/not/exist"],
        ["launch", "/does/not/exist"],
    ],
    ids=lambda words: "-".join(w.rpartition("/")[2] for w in words[:4]),
)
def test_all_that_a_command_says_is_translated(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from wizard.__main__ import main

    (tmp_path / "LOG").write_text(_LOG)
    monkeypatch.setattr(i18n, "set_language", lambda language: None)
    for name, value in (("_chosen", True), ("_current", _Marked()), ("_language", "marked")):
        monkeypatch.setattr(i18n, name, value)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    main([str(tmp_path / "LOG") if w == "LOG" else w for w in words])
    told = "\n".join(capfd.readouterr())
    # The log's own line is shown as it is, folded to the width of the terminal.
    told = re.sub(r"\s+".join(map(re.escape, _LOG.split())), "", told)
    assert "⟦" in told
    assert [line for line in _outside(told) if _ENGLISH.search(line) and not _COMMAND.match(line)] == []


# -- what a translation must keep -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "translation", "fault"),
    [
        ("{gib:.1f} GiB free", "空闲 {gib:.1f} GiB", None),
        ("{gib:.1f} GiB free", "空闲 {gib} GiB", "fields"),
        ("{a} of {b}", "{b} 之 {a}", None),
        ("{a}", "{a} {c}", "does not have"),
        ("argument %(argument_name)s: %(message)s", "参数 %(argument_name)s", "fields"),
        ("usage: ", "用法：", "end"),
        ("usage: ", "用法： ", None),
        (" and more", "更多", "begin"),
        ("one\n", "一", "end"),
        ("one\ntwo", "一 二", "lines"),
        ("Take --enforce-eager", "加上 --enforce-eager", None),
        ("Take --enforce-eager", "加上 --enforce", "options"),
        ("Set VLLM_USE_V1=0", "设置变量", "options"),
        ("text", "  ", "empty"),
    ],
)
def test_a_translation_keeps_what_the_text_needs(text: str, translation: str, fault: str | None) -> None:
    faults = translate.faults_of(text, translation)
    assert (fault is None) == (not faults)
    assert fault is None or fault in " ".join(faults)


def test_the_plural_form_says_which_fields_are_needed() -> None:
    assert translate.faults_of("one file", "{count} 个文件", "{count} files") == []
    assert translate.faults_of("one file", "文件", "{count} files")


@given(st.text(string.printable))
def test_a_text_is_a_right_translation_of_itself(text: str) -> None:
    assert translate.faults_of(text, text) == ([] if text.strip() else ["it is empty"])


# -- the catalogue's way --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few")
def test_what_is_filled_in_is_no_longer_to_do_and_is_kept(tmp_path: Path) -> None:
    given = {"options": "选项", "{n} two": "二", "no such text": "译"}
    taken, refused = translate.fill("zh_CN", given, tmp_path)
    assert taken == 1
    assert len(refused) == 2
    translate.update(tmp_path)
    left = {r["msgid"] for r in translate.todo("zh_CN", folder=tmp_path)}
    assert "options" not in left
    assert "{n} two" in left
    mo = gettext.translation(i18n.DOMAIN, str(tmp_path), ["zh_CN"])
    assert mo.gettext("options") == "选项"


@pytest.mark.usefixtures("few")
def test_a_text_that_stands_in_the_file_twice_counts_once(tmp_path: Path) -> None:
    translate.fill("zh_CN", {"options": "选项"}, tmp_path)
    path = translate.catalogue_path("zh_CN", tmp_path)
    path.write_text(path.read_text("utf-8") + '\nmsgid "options"\nmsgstr "其他"\n', "utf-8")
    translate.update(tmp_path)
    assert path.read_text("utf-8").count('msgid "options"') == 1
    assert gettext.translation(i18n.DOMAIN, str(tmp_path), ["zh_CN"]).gettext("options") == "选项"


def test_the_parts_together_are_everything_once(tmp_path: Path, few: dict[str, translate.Message]) -> None:
    translate.fill("zh_CN", {"text 3": "三"}, tmp_path)
    parts = [r["msgid"] for i in (1, 2, 3) for r in translate.todo("zh_CN", (i, 3), tmp_path)]
    assert parts == [t for t in few if t != "text 3"]


def test_faults_of_a_catalogue_are_told(tmp_path: Path) -> None:
    found = {t: translate.Message(t, None, ["a.py"]) for t in ("one", "{n} two", "three", "four")}
    catalogue = translate.open_catalogue("zh_CN", tmp_path)
    catalogue.merge(translate.template(found))
    entries = {e.msgid: e for e in catalogue}
    entries["one"].msgstr = "一"
    entries["{n} two"].msgstr = "二"
    entries["three"].msgstr, entries["three"].flags = "三", ["fuzzy"]
    faults = translate.faults_in(catalogue, found)
    assert [f.split(": ")[1] for f in faults] == ["'{n} two'", "marked as doubtful", "not translated"]


@pytest.mark.parametrize("language", sorted(i18n.LANGUAGES))
def test_the_compiled_catalogue_is_current(language: str) -> None:
    catalogue = translate.open_catalogue(language)
    with translate.catalogue_path(language).with_suffix(".mo").open("rb") as stream:
        compiled = gettext.GNUTranslations(stream)
    for entry in catalogue.translated_entries():
        if entry.msgid_plural:
            assert compiled.ngettext(entry.msgid, entry.msgid_plural, 2) == entry.msgstr_plural[0]
        else:
            assert compiled.gettext(entry.msgid) == entry.msgstr


@pytest.mark.parametrize("language", sorted(i18n.LANGUAGES))
def test_nothing_is_missing_or_wrong_in_the_catalogue(language: str) -> None:
    assert translate.faults_in(translate.open_catalogue(language), translate.messages()) == []


def test_every_catalogue_is_a_known_language() -> None:
    assert {p.name for p in translate.FOLDER.iterdir() if p.is_dir()} == set(i18n.LANGUAGES)


@given(st.lists(st.tuples(st.text(), st.text(min_size=1)), max_size=12), st.text())
def test_texts_are_found_in_the_compiled_catalogue_as_gettext_finds_them(pairs: list[tuple[str, str]], other: str) -> None:
    import io

    import polib

    catalogue = polib.POFile()
    catalogue.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Plural-Forms": "nplurals=1; plural=0;"}
    for text, translation in dict(pairs).items():
        if text and "\0" not in text + translation and not any("\ud800" <= c <= "\udfff" for c in text + translation):
            catalogue.append(polib.POEntry(msgid=text, msgstr=translation))
    data = catalogue.to_binary()
    ours, theirs = i18n.Catalogue(data), gettext.GNUTranslations(io.BytesIO(data))
    for text in [*dict(pairs), other]:
        if text and "\0" not in text:
            assert ours.gettext(text) == theirs.gettext(text)


def test_one_plural_form_stands_for_every_number() -> None:
    import polib

    catalogue = polib.POFile()
    catalogue.append(polib.POEntry(msgid="{n} file", msgid_plural="{n} files", msgstr_plural={0: "{n} 个文件"}))
    found = i18n.Catalogue(catalogue.to_binary())
    assert [found.ngettext("{n} file", "{n} files", n) for n in (0, 1, 2)] == ["{n} 个文件"] * 3
    assert [found.ngettext("{n} x", "{n} xs", n) for n in (1, 2)] == ["{n} x", "{n} xs"]
    assert all("nplurals=1;" in language.plural_forms for language in i18n.LANGUAGES.values())


@pytest.mark.parametrize("data", [b"", b"rubbish"])
def test_other_content_is_no_catalogue(data: bytes) -> None:
    with pytest.raises(ValueError):
        i18n.Catalogue(data)


# -- the choice of a language ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["zh", "zh_CN", "zh-CN", "ZH_cn.UTF-8", "zh_Hans", "zh-Hans-CN", "zh_TW", "zh_SG.GB18030@x"])
def test_names_of_chinese(name: str) -> None:
    i18n.set_language(name)
    assert i18n.language() == "zh_CN"


@pytest.mark.parametrize("name", ["en", "en_GB.UTF-8", "C", "C.UTF-8", "POSIX"])
def test_names_of_english(name: str) -> None:
    i18n.set_language(name)
    assert i18n.language() == "en"
    assert _("model") == "model"


@pytest.mark.parametrize("words", [["--lang", "xx", "recipes", "list"], ["recipes", "list", "--lang=tlh"], ["--lang", "", "detect"]])
def test_an_unknown_language_is_bad_input_that_names_the_known_ones(words: list[str]) -> None:
    with pytest.raises(BadInput, match=r"en \(English\), zh_CN"):
        run(words)


def test_a_locale_without_a_catalogue_is_english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "tlh:zh_TW:en")
    i18n.set_language(None)
    assert i18n.language() == "zh_CN"
    monkeypatch.setenv("LANGUAGE", "tlh")
    i18n.set_language(None)
    assert i18n.language() == "en"


def test_what_argparse_says_is_whole_in_every_language(capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.__main__ import main

    for name, _help, _where in options.COMMANDS:
        assert main(["--lang", "zh", name, "--help"]) == 0
        usage = capsys.readouterr().out.split("\n\n")[0].split("\n")
        assert f" vllm-wizard {name}" in usage[0], usage
        assert all(columns.width(line) <= 80 for line in usage)
        starts = {columns.width(line) - columns.width(line.lstrip()) for line in usage[1:]}
        assert len(starts) <= 1


def test_sentences_stand_together_as_their_language_does() -> None:
    assert i18n.sentences(i18n.stopped("one"), "Two.") == "one. Two."
    assert i18n.sentences(i18n.stopped("一"), "", "二。") == "一。二。"
    assert i18n.sentence("one") == "One."


@pytest.mark.usefixtures("few")
def test_the_command_fills_from_a_file_and_tells_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(translate, "FOLDER", tmp_path)
    monkeypatch.setattr(translate.fill, "__defaults__", (tmp_path,))
    file = tmp_path / "part.json"
    file.write_text(json.dumps([{"msgid": "usage: ", "msgstr": "用法： "}, {"msgid": "options", "msgstr": ""}]), "utf-8")
    assert translate.main(["fill", str(file)]) == 0
    file.write_text(json.dumps({"usage: ": "用法"}), "utf-8")
    assert translate.main(["fill", str(file)]) == 1
    assert "refused: 'usage: '" in capsys.readouterr().out
