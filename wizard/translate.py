"""``python -m wizard.translate``: the texts that users see, and their translations, for those who keep them.

    update          read every text again, bring the catalogues up to date and compile them
    check           tell what is missing or wrong; exit code 1 when anything is
    todo [--part I/N] [--limit COUNT]     print as JSON what is not yet translated
    fill FILE.json  take translations in, refusing those that would break a text

A text is what stands in ``_()``, ``N_()`` or ``ngettext()``, and what the data files hold for people: rules of
the diagnosis, recipes, history of options, known faults. Needs polib; the program itself reads the compiled
``.mo`` with the standard library.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.i18n import DOMAIN, LANGUAGES

if TYPE_CHECKING:
    import polib

PACKAGE = Path(__file__).parent
FOLDER = PACKAGE / "locale"
_LOCK_WAIT_S = 60.0


class TextFault(ValueError):
    """A text that cannot be translated as it is written; names the file and line."""


@dataclass
class Message:
    """One text: ``plural`` is its form for several things; ``where`` the files that hold it."""

    text: str
    plural: str | None = None
    where: list[str] = field(default_factory=list)


# -- texts of the code and of the data ------------------------------------------------------------------------


def messages(package: Path = PACKAGE) -> dict[str, Message]:
    """Every text by itself, in the order of the files. Raises :class:`TextFault`."""
    found: dict[str, Message] = {}
    for text, plural, where in [*_of_code(package), *_of_data(package)]:
        if not text.strip():
            continue
        message = found.setdefault(text, Message(text))
        message.plural = message.plural or plural
        if where not in message.where:
            message.where.append(where)
    return found


def _of_code(package: Path) -> Iterator[tuple[str, str | None, str]]:
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package.parent).as_posix()
        yield from texts_of_source(path.read_text("utf-8"), where)


def texts_of_source(source: str, where: str) -> Iterator[tuple[str, str | None, str]]:
    """(text, plural or None, where) of one module. Raises :class:`TextFault` for a text put together in ``_()``."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        count = {"_": 1, "N_": 1, "ngettext": 2}.get(name, 0)
        if not count or len(node.args) < count:
            continue
        texts = [_constant(argument, f"{where}:{node.lineno}") for argument in node.args[:count]]
        if texts[0] is not None:
            yield texts[0], texts[1] if count == 2 else None, where


def _constant(node: ast.expr, where: str) -> str | None:
    """The text of an argument, None for a name (a table's text, found where it is declared)."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, (ast.JoinedStr, ast.BinOp)):
        raise TextFault(f"{where}: write the text with named fields and fill them after _()")
    return None


def _of_data(package: Path) -> Iterator[tuple[str, None, str]]:
    for text, where in (
        *_of_rules(package),
        *_of_history(package),
        *_of_faults(package),
        *_of_recipes(package),
    ):
        yield text, None, where


def _of_rules(package: Path) -> Iterator[tuple[str, str]]:
    # The compiled form holds the texts exactly as they are looked up.
    lines = package.joinpath("diagnose", "rules", "compiled.jsonl").read_text("utf-8").splitlines()
    for rule in map(json.loads, lines[1:]):
        where = f"wizard/diagnose/rules ({rule['id']})"
        texts = [rule["title"], rule["explanation"], *(fix["summary"] for fix in rule.get("fixes", ()))]
        for text in (*texts, *rule.get("look", ())):
            yield text, where


def _of_history(package: Path) -> Iterator[tuple[str, str]]:
    data = _read(package.joinpath("check", "data", "history.json"))
    for text in _values(data, ("note",)):
        yield text, "wizard/check/data/history.json"


def _of_faults(package: Path) -> Iterator[tuple[str, str]]:
    for fault in _read(package.joinpath("releases", "data", "known_issues.json")):
        for name in ("title", "explanation"):
            yield fault.get(name, ""), "wizard/releases/data/known_issues.json"


def _of_recipes(package: Path) -> Iterator[tuple[str, str]]:
    from wizard.recipes.types import guide_blocks

    folder = next(p for p in (package.parent / "recipes", package / "_recipes") if p.is_dir())
    for name, entry in _read(folder / "compiled.json")["files"].items():
        data = entry["data"]
        where = f"recipes/{name}"
        yield data["meta"].get("description", ""), where
        for feature in (data.get("features") or {}).values():
            yield feature.get("description", ""), where
        for block in guide_blocks(data.get("guide", "")):
            if block.is_text:
                yield block.text, where


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _values(data: Any, names: Iterable[str]) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key in names and isinstance(value, str):
                yield value
            else:
                yield from _values(value, names)
    elif isinstance(data, list):
        for value in data:
            yield from _values(value, names)


# -- what a translation must keep -----------------------------------------------------------------------------

_FIELDS = re.compile(r"\{[^{}]*\}|%\(\w+\)[srd]|%[srd]")
# Options, variables and addresses are not words of a language.
_KEPT = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b|https?://[^\s,)]+[\w/]")


def faults_of(text: str, translation: str, plural: str | None = None) -> list[str]:
    """What is wrong with a translation; empty when nothing is."""
    faults = []
    if not translation.strip():
        return ["it is empty"]
    for name, pattern in (("fields", _FIELDS), ("options, variables or addresses", _KEPT)):
        wanted = set(pattern.findall(plural or text))
        given = set(pattern.findall(translation))
        missing, more = sorted(wanted - given), sorted(given - wanted)
        if missing:
            faults.append(f"{name} are missing: {' '.join(missing)}")
        if more and pattern is _FIELDS:
            faults.append(f"{name} that the text does not have: {' '.join(more)}")
    for place, ours, theirs in (
        ("begin", _edge(text, False), _edge(translation, False)),
        ("end", _edge(text, True), _edge(translation, True)),
    ):
        if ours != theirs:
            faults.append(f"it must {place} with {ours!r}, not with {theirs!r}")
    if text.count("\n") and not translation.count("\n"):
        faults.append("its lines are gone")
    return faults


def _edge(text: str, end: bool) -> str:
    if not text.strip():
        return text
    return text[len(text.rstrip()) :] if end else text[: len(text) - len(text.lstrip())]


# -- catalogues -----------------------------------------------------------------------------------------------


def catalogue_path(language: str, folder: Path = FOLDER) -> Path:
    return folder / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def open_catalogue(language: str, folder: Path = FOLDER) -> polib.POFile:
    """The catalogue of a language, empty when there is none yet."""
    import polib

    path = catalogue_path(language, folder)
    made: polib.POFile = polib.pofile(str(path)) if path.exists() else polib.POFile()
    made.wrapwidth = 110
    # A text that was written into the file twice by hand counts once, as it stands first.
    seen: set[str] = set()
    for entry in list(made):
        if entry.msgid in seen:
            made.remove(entry)
        seen.add(entry.msgid)
    made.metadata = {
        "Project-Id-Version": "vllm-wizard",
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": LANGUAGES[language].plural_forms,
    }
    return made


def template(found: Mapping[str, Message]) -> polib.POFile:
    """All texts without translations, as translators' tools want them."""
    import polib

    made = polib.POFile(wrapwidth=110)
    made.metadata = {
        "Project-Id-Version": "vllm-wizard",
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
    }
    for message in found.values():
        made.append(_entry(message))
    return made


def _entry(message: Message) -> polib.POEntry:
    import polib

    # Without line numbers: they would change with every edit of a file.
    entry = polib.POEntry(msgid=message.text, occurrences=[(w, "") for w in message.where])
    if message.plural is not None:
        entry.msgid_plural = message.plural
        entry.msgstr_plural = {0: ""}
    if "{" in message.text:
        entry.flags = ["python-brace-format"]
    return entry


def faults_in(catalogue: polib.POFile, found: Mapping[str, Message]) -> list[str]:
    """What is missing, doubtful or wrong in a catalogue, one line each."""
    entries = {e.msgid: e for e in catalogue if not e.obsolete}
    faults = []
    for text, message in found.items():
        entry = entries.get(text)
        translations = _translations(entry) if entry is not None else []
        if not any(translations):
            faults.append(f"{message.where[0]}: not translated: {text!r}")
        elif entry is not None and entry.fuzzy:
            faults.append(f"{message.where[0]}: marked as doubtful: {text!r}")
        else:
            faults += [
                f"{message.where[0]}: {text!r}: {fault}"
                for translation in translations
                for fault in faults_of(text, translation, message.plural)
            ]
    return faults


def _translations(entry: polib.POEntry) -> list[str]:
    return list(entry.msgstr_plural.values()) if entry.msgid_plural else [entry.msgstr]


def update(folder: Path = FOLDER) -> dict[str, tuple[int, int]]:
    """Write template, catalogues and compiled catalogues; language -> (translated, all)."""
    found = messages()
    base = template(found)
    counts = {}
    with _locked(folder):
        _write(folder / f"{DOMAIN}.pot", str(base))
        for language in LANGUAGES:
            catalogue = open_catalogue(language, folder)
            catalogue.merge(base)
            _save(catalogue, language, folder)
            done = sum(1 for e in catalogue if not e.obsolete and any(_translations(e)) and not e.fuzzy)
            counts[language] = done, len(found)
    return counts


def _save(catalogue: polib.POFile, language: str, folder: Path) -> None:
    path = catalogue_path(language, folder)
    _write(path, str(catalogue))
    partly = path.with_suffix(".mo.part")
    partly.write_bytes(catalogue.to_binary())
    partly.replace(path.with_suffix(".mo"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partly = path.with_name(path.name + ".part")
    partly.write_text(text.rstrip("\n") + "\n", encoding="utf-8", newline="\n")
    partly.replace(path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time: several translators may hand in their work at once."""
    path = folder / ".lock"
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise TextFault(f"{path} is held by another run; remove it when there is none") from None
            time.sleep(0.05)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def todo(language: str, part: tuple[int, int] = (1, 1), folder: Path = FOLDER) -> list[dict[str, Any]]:
    """What is not translated yet, in files' order; of ``part`` (i, n) only the i-th of n blocks."""
    entries = {e.msgid: e for e in open_catalogue(language, folder) if not e.obsolete}
    found = messages()
    numbered = list(found.values())
    # The blocks are cut from all texts, so that they stay the same while others hand in theirs.
    first, last = ((part[0] - 1) * len(numbered)) // part[1], (part[0] * len(numbered)) // part[1]
    rows: list[dict[str, Any]] = []
    for message in numbered[first:last]:
        entry = entries.get(message.text)
        if entry is not None and any(_translations(entry)) and not entry.fuzzy:
            continue
        row: dict[str, Any] = {"msgid": message.text, "where": message.where}
        if message.plural is not None:
            row["msgid_plural"] = message.plural
        rows.append(row)
    return rows


def fill(language: str, given: Mapping[str, object], folder: Path = FOLDER) -> tuple[int, list[str]]:
    """Take translations in; (how many were taken, what was refused and why)."""
    found = messages()
    refused: list[str] = []
    taken = 0
    with _locked(folder):
        catalogue = open_catalogue(language, folder)
        catalogue.merge(template(found))
        entries = {e.msgid: e for e in catalogue if not e.obsolete}
        for text, translation in given.items():
            message = found.get(text)
            if message is None:
                refused.append(f"{text!r}: there is no such text")
                continue
            if not isinstance(translation, str):
                refused.append(f"{text!r}: the translation is not a text")
                continue
            faults = faults_of(text, translation, message.plural)
            if faults:
                refused.append(f"{text!r}: {'; '.join(faults)}")
                continue
            entry = entries[text]
            if message.plural is not None:
                entry.msgstr_plural = {0: translation}
            else:
                entry.msgstr = translation
            entry.flags = [f for f in entry.flags if f != "fuzzy"]
            taken += 1
        _save(catalogue, language, folder)
    return taken, refused


# -- the command ----------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands of the module's text; exit code 1 when something is wrong or was refused."""
    parser = argparse.ArgumentParser(prog="python -m wizard.translate", description="Texts and their translations.")
    parser.add_argument("command", choices=("update", "check", "todo", "fill"))
    parser.add_argument("file", nargs="?", help="for fill: a JSON file {text: translation}")
    parser.add_argument("--language", default=next(iter(LANGUAGES)), choices=tuple(LANGUAGES))
    parser.add_argument("--part", default="1/1", help="for todo: the I-th of N blocks of all texts, as I/N")
    parser.add_argument("--limit", type=int, help="for todo: at most so many")
    parser.add_argument("--json", action="store_true", help="for todo: it always prints JSON")
    args = parser.parse_args(argv)
    try:
        return _run(args)
    except ImportError:
        print("polib is needed: pip install polib", file=sys.stderr)
    except (TextFault, OSError, ValueError) as fault:
        print(fault, file=sys.stderr)
    return 1


def _run(args: argparse.Namespace) -> int:
    if args.command == "update":
        for language, (done, count) in update().items():
            print(f"{language}: {done} of {count} texts translated")
        return 0
    if args.command == "check":
        faults = faults_in(open_catalogue(args.language), messages())
        print("\n".join(faults) if faults else "complete")
        return int(bool(faults))
    if args.command == "todo":
        number, _slash, count = args.part.partition("/")
        part = int(number), int(count or number)
        if not 1 <= part[0] <= part[1]:
            raise TextFault("--part wants I/N, with I from 1 to N")
        print(json.dumps(todo(args.language, part)[: args.limit], ensure_ascii=False, indent=1))
        return 0
    if not args.file:
        raise TextFault("fill wants a JSON file")
    given = _read(Path(args.file))
    if isinstance(given, list):
        given = {row["msgid"]: row["msgstr"] for row in given if row.get("msgstr")}
    taken, refused = fill(args.language, given)
    print(f"{taken} taken, {len(refused)} refused")
    for line in refused:
        print(f"refused: {line}")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
