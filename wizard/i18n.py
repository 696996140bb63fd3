"""The one translation function that every text shown to a user goes through.

``_`` translates now; ``N_`` only marks a text that is declared once (a table of questions, say) and is
translated with ``_`` where it is shown. Texts with figures are written with named fields and filled after
translation: ``_("{gib:.1f} GiB free").format(gib=x)``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing would cost --help a good part of its time
if TYPE_CHECKING:
    from typing import Protocol

    class _Translations(Protocol):
        def gettext(self, message: str) -> str: ...

        def ngettext(self, msgid1: str, msgid2: str, n: int) -> str: ...


DOMAIN = "vllm_wizard"

_current: _Translations | None = None
_chosen: bool = False


def set_language(language: str | None) -> None:
    """Choose the language of all later texts; None means the locale of the environment."""
    global _current, _chosen
    _chosen = True
    _current = None
    names = [language] if language else _environment_languages()
    wanted = [n for n in names if n]
    if not wanted or wanted[0].lower().startswith(("en", "c.", "posix")) or wanted[0] == "C":
        return
    # gettext is only imported when there is something to translate: start-up stays light.
    import gettext
    from pathlib import Path

    folder = Path(__file__).with_name("locale")
    try:
        _current = gettext.translation(DOMAIN, localedir=str(folder), languages=wanted)
    except OSError:
        _current = None


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
