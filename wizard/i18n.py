"""The one translation function that every text shown to a user goes through.

``_`` translates now; ``N_`` only marks a text that is declared once (a table of questions, say) and is
translated with ``_`` where it is shown. Texts with figures are written with named fields and filled after
translation: ``_("{gib:.1f} GiB free").format(gib=x)``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost --help a good part of its time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal, Protocol

    class _Translations(Protocol):
        def gettext(self, message: str) -> str: ...

        def ngettext(self, msgid1: str, msgid2: str, n: int) -> str: ...


DOMAIN = "vllm_wizard"


class Language:
    """A language that there is a catalogue for: its own name, and gettext's rule for its plurals."""

    def __init__(self, name: str, plural_forms: str) -> None:
        self.name = name
        self.plural_forms = plural_forms


SOURCE = "en"
# By the name of the catalogue's folder.
LANGUAGES = {"zh_CN": Language("简体中文", "nplurals=1; plural=0;")}

_current: _Translations | None = None
_chosen: bool = False
_language: str = SOURCE


def set_language(language: str | None) -> None:
    """Choose the language of all later texts; None means the locale of the environment.

    Raises BadInput for a language that was asked for and that there is no catalogue for.
    """
    global _current, _chosen, _language
    _chosen = True
    _current, _language = None, SOURCE
    if language is None:
        # The first wish that can be met; a locale that asks for none of ours gets English.
        code = next((c for c in map(known_language, _environment_languages()) if c), SOURCE)
    else:
        found = known_language(language)
        if found is None:
            from wizard.errors import BadInput

            names = ", ".join([f"{SOURCE} (English)", *(f"{c} ({known.name})" for c, known in LANGUAGES.items())])
            raise BadInput(
                _("There is no language “{language}”. There are: {names}.").format(language=language, names=names)
            )
        code = found
    if code == SOURCE:
        return
    # Texts are looked up in the file as they are shown: gettext would first read them all.
    path = os.path.join(os.path.dirname(__file__), "locale", code, "LC_MESSAGES", DOMAIN + ".mo")  # noqa: PTH118, PTH120
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            _current = Catalogue(stream.read())
    except (OSError, ValueError):
        return
    _language = code


class Catalogue:
    """A compiled catalogue (GNU ``.mo``, texts in UTF-8), of a language with one plural form.

    Raises ValueError for other content.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._order: Literal["little", "big"] = "little" if data[:4] == b"\xde\x12\x04\x95" else "big"
        if self._number(0) != 0x950412DE:
            raise ValueError("no compiled catalogue")
        self._count, self._texts, self._translations = self._number(8), self._number(12), self._number(16)
        self._known: dict[str, str] = {}

    def _number(self, at: int) -> int:
        return int.from_bytes(self._data[at : at + 4], self._order)

    def _string(self, table: int, index: int) -> bytes:
        length, at = self._number(table + 8 * index), self._number(table + 8 * index + 4)
        return self._data[at : at + length]

    def gettext(self, message: str) -> str:
        known = self._known.get(message)
        if known is None:
            known = self._known[message] = self._find(message)
        return known

    def _find(self, message: str) -> str:
        wanted = message.encode("utf-8", "surrogatepass")
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._string(self._texts, middle) < wanted:
                low = middle + 1
            else:
                high = middle
        # A text with a plural form stands before it, with a zero byte between.
        if low < self._count and self._string(self._texts, low).partition(b"\0")[0] == wanted:
            return self._string(self._translations, low).partition(b"\0")[0].decode("utf-8", "replace") or message
        return message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        found = self.gettext(msgid1)
        return found if found != msgid1 else msgid1 if n == 1 else msgid2


def language() -> str:
    """The code of the language in use, such as ``en`` or ``zh_CN``."""
    if not _chosen:
        set_language(None)
    return _language


def known_language(wanted: str) -> str | None:
    """The language that a locale's or person's name for one means (zh, zh-Hans, zh_TW.UTF-8); None for none of ours."""
    name = wanted.partition(".")[0].partition("@")[0].strip().lower().replace("-", "_")
    if name in ("c", "posix"):
        return SOURCE
    family = name.partition("_")[0]
    exact = next((code for code in LANGUAGES if code.lower() == name), None)
    return exact or next((code for code in (SOURCE, *LANGUAGES) if code.partition("_")[0] == family), None)


def _environment_languages() -> list[str]:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return value.split(":")
    return []


def _(message: str) -> str:
    """The text in the chosen language."""
    if not _chosen:
        set_language(None)
    return _current.gettext(message) if _current is not None and message else message


def ngettext(singular: str, plural: str, n: int) -> str:
    """The text for ``n`` things in the chosen language."""
    if not _chosen:
        set_language(None)
    if _current is not None:
        return _current.ngettext(singular, plural, n)
    return singular if n == 1 else plural


def N_(message: str) -> str:
    """Mark a text for translation without translating it now."""
    return message


def clause(text: str) -> str:
    """``text`` without its full stop, to stand within a sentence."""
    return text.strip().rstrip(".。")


def sentence(text: str) -> str:
    """``text`` as a sentence of its own: a capital first, unless that is a name, and a full stop of its script last."""
    text = stopped(text)
    return text if _is_name(text.partition(" ")[0]) else text[:1].upper() + text[1:]


def _is_name(word: str) -> bool:
    """Whether a first word is written as it is: a path, an image, an option, a type, vLLM itself."""
    return word.lower().startswith("vllm") or any(c in "/:_=" or c.isdigit() for c in word.rstrip(":.,"))


def stopped(text: str) -> str:
    """``text`` with a full stop of its script, unless it ends like a sentence already."""
    text = text.strip()
    if not text or text.endswith((".", ":", "!", "?", "。", "：", "！", "？")):
        return text
    return text + ("。" if any("\u4e00" <= c <= "\u9fff" for c in text) else ".")


def listed(parts: Iterable[str]) -> str:
    """Things one after another: "a, b, c", with the comma of the language."""
    return _("{first}, {second}").format(first="", second="").join(parts)


def clauses(parts: Iterable[str]) -> str:
    """Clauses one after another: "a; b", with the semicolon of the language."""
    return _("{first}; {second}").format(first="", second="").join(parts)


def labelled(label: str, text: str) -> str:
    """"label: text", with the colon of the language."""
    return _("{label}: {text}").format(label=label, text=text)


def bracketed(text: str, more: str) -> str:
    """"text (more)", with the brackets of the language."""
    return _("{text} ({more})").format(text=text, more=more)


def sentences(*parts: str) -> str:
    """Sentences after one another; no blank follows a full-width stop."""
    made = ""
    for part in (p for p in parts if p):
        made += part if not made or made.endswith(("。", "：", "！", "？", "\n")) else " " + part
    return made
