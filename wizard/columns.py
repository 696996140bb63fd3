"""Text in columns of a terminal, where Chinese characters take two."""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Pattern

# What may not begin a line, what may not end one, and what takes two columns: the East Asian wide and fullwidth
# blocks of Unicode's EastAsianWidth.txt.
_CLOSING = r"，。、；：！？）】」』》〉〕〗］｝～％”’…·,.;:!?)\]}%"
_OPENING = r"（【「『《〈〔〖［｛“‘(\[{"
_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f"
    "\uff01-\uff60\uffe0-\uffe6\U0001f300-\U0001f64f\U0001f900-\U0001faff\U00020000-\U0003fffd"
)
# Marks that belong to the character before them: accents, the marks of Japanese sounds, variation selectors, joiners.
_MARKS = "\u0300-\u036f\u200b-\u200f\u20d0-\u20ff\u302a-\u302f\u3099\u309a\ufe00-\ufe0f\ufe20-\ufe2f"


def width(text: str) -> int:
    """How many columns ``text`` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def of_prose(most: int = 79) -> int:
    """How wide prose may be: as the terminal, but no wider than is well read; into a pipe or a file all of that."""
    import os  # and not shutil, which takes longer to import than a help text to print
    import sys

    told = os.environ.get("COLUMNS", "")
    room = int(told) if told.isascii() and told.isdigit() else 0
    if room <= 0:
        try:
            room = os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
        except (AttributeError, ValueError, OSError):
            room = 0
    return max(40, min(most, room or most))


def pad(text: str, columns: int) -> str:
    """``text`` with blanks behind it, as wide as ``columns`` or as it is when it is wider."""
    return text + " " * max(0, columns - width(text))


# Stands for a blank at which no line is broken; wrap makes one of it. (Of Unicode's private use: no text holds it.)
GLUE = "\ue000"


def wrap(text: str, columns: int, first: str = "", indent: str = "") -> list[str]:
    """Lines of at most ``columns``: words are not broken, Chinese is broken between its characters.

    ``first`` stands before the first line, ``indent`` before the others. An empty text has no lines.
    """
    lines: list[str] = []
    line, used, empty = first, width(first), True
    for piece in _pieces(text):
        takes = width(piece)
        if not empty and used + takes - (piece != piece.rstrip()) > columns:
            lines.append(line.rstrip())
            line, used, empty = indent, width(indent), True
        if empty and not piece.strip():
            continue
        line, used, empty = line + piece, used + takes, False
    if not empty:
        lines.append(line.rstrip())
    return [line.replace(GLUE, " ") for line in lines] if GLUE in text else lines


def breaks(text: str) -> list[int]:
    """Where a line may begin within ``text`` although no blank stands there: before and behind wide characters, but
    not before what closes nor behind what opens. Offsets in rising order."""
    if text.isascii():
        return []
    wide, rule = _rules()
    return [found.start() for found in rule.finditer(text)] if wide.search(text) else []


@lru_cache(maxsize=1)
def _rules() -> tuple[Pattern[str], Pattern[str]]:
    import re

    behind = rf"(?<![{_OPENING}\s])(?<=[\s\S])"
    before = rf"(?![{_CLOSING}{_MARKS}\s])"
    between = rf"(?:(?<=[{_WIDE}])(?=[\s\S])|(?=[{_WIDE}]))"
    return re.compile(f"[{_WIDE}]"), re.compile(between + behind + before)


def _pieces(text: str) -> list[str]:
    """What a line may be broken between: words with the blank behind them, and single wide characters."""
    pieces: list[str] = []
    for word in text.split():
        start = 0
        for at in breaks(word):
            pieces.append(word[start:at])
            start = at
        pieces.append(word[start:] + " ")
    return pieces
