"""Lines of the walk break as Chinese is broken: Textual by itself breaks only at blanks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from rich._wrap import divide_line as _at_blanks
from rich.cells import cell_len, chop_cells
from textual import content

from wizard import columns

_BEHIND_BLANKS = re.compile(r"(?<=\s)(?=\S)")


def divide_line(text: str, width: int, fold: bool = True) -> list[int]:
    """The offsets at which lines of at most ``width`` cells begin, without the first.

    Text without wide characters is left to Textual. ``fold`` tells what becomes of a piece that is wider than a line:
    it is broken anywhere, else it is left to be cut.
    """
    if text.isascii():
        return _at_blanks(text, width, fold)
    return list(_offsets(text, width, fold))


@lru_cache(maxsize=2048)  # a text is laid out for its height, and again for each time that it is drawn
def _offsets(text: str, width: int, fold: bool) -> tuple[int, ...]:
    inner = columns.breaks(text)
    if not inner:
        return tuple(_at_blanks(text, width, fold))
    offsets: list[int] = []
    used = 0
    for start, end in _pieces(text, inner):
        piece = text[start:end]
        takes = cell_len(piece.rstrip())
        if used + takes > width:
            if used:
                offsets.append(start)
                used = 0
            if takes > width and fold:
                for part in chop_cells(piece.rstrip(), max(width, 2))[:-1]:
                    start += len(part)
                    offsets.append(start)
        used += cell_len(text[start:end])
    return tuple(offsets)


def _pieces(text: str, inner: list[int]) -> Iterator[tuple[int, int]]:
    """What stands between two places to break at; blanks belong to the piece before them, and at the beginning of
    the text to the first."""
    lead = len(text) - len(text.lstrip())
    starts = {*inner, *(found.start() for found in _BEHIND_BLANKS.finditer(text, lead + 1))}
    return pairwise([0, *sorted(starts), len(text)])


def install() -> None:
    """Have every text that Textual lays out broken by :func:`divide_line`: the one place that all of them go through,
    be they static texts, lists, dialogs or ``Content.wrap``."""
    vars(content)["divide_line"] = divide_line
