"""Text in columns of a terminal, where Chinese characters take two."""

from __future__ import annotations

# What may not begin a line, and what may not end one.
_CLOSING = frozenset("，。、；：！？）】」』》〉”’…·,.;:!?)]}%")
_OPENING = frozenset("（【「『《〈“‘([{")


def width(text: str) -> int:
    """How many columns ``text`` takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def pad(text: str, columns: int) -> str:
    """``text`` with blanks behind it, as wide as ``columns`` or as it is when it is wider."""
    return text + " " * max(0, columns - width(text))


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
    return lines if empty else [*lines, line.rstrip()]


def _pieces(text: str) -> list[str]:
    """What a line may be broken between: words with the blank behind them, and single wide characters."""
    pieces: list[str] = []
    for word in text.split():
        if word.isascii():
            pieces.append(word + " ")
            continue
        piece = ""
        for char in word:
            if piece and _may_break(piece[-1], char):
                pieces.append(piece)
                piece = ""
            piece += char
        pieces.append(piece + " ")
    return pieces


def _may_break(before: str, after: str) -> bool:
    if after in _CLOSING or before in _OPENING:
        return False
    return width(before) == 2 or width(after) == 2
