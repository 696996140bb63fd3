"""Toasts whose wide characters stay whole.

Textual draws a line in pieces that begin and end where any widget does, also one that lies hidden below a toast; a
wide character (Chinese) that such an edge would halve is drawn as blanks. Nothing can be moved but the character: it
is set one cell further.
"""

from __future__ import annotations

from collections.abc import Collection

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import _toast

SPARE = 5  # cells at the right of a toast that its lines may move into


class WholeToast(_toast.Toast):
    """A toast that knows the edges below it."""

    DEFAULT_CSS = f"WholeToast {{ padding: 1 {SPARE} 1 1; }}"

    def render_lines(self, crop: Region) -> list[Strip]:
        lines = super().render_lines(crop)
        left, top = self.region.offset
        edges = self.screen._compositor.cuts
        return [
            whole(line, {x - left - crop.x for x in edges[y]}) if 0 <= y < len(edges) else line
            for y, line in enumerate(lines, top + crop.y)
        ]


def whole(line: Strip, edges: Collection[int]) -> Strip:
    """``line``, as wide as it was, with a blank before each wide character that an edge would halve.

    ``edges`` are columns of the line; an edge lies left of its column.
    """
    width = line.cell_length
    if width == sum(len(segment.text) for segment in line):
        return line  # nothing wide in it
    column, segments = 0, []
    for segment in line:
        made = ""
        for character in segment.text:
            cells = Segment(character).cell_length
            while cells == 2 and column + 1 in edges:
                made += " "
                column += 1
            made += character
            column += cells
        segments.append(Segment(made, segment.style, segment.control))
    return Strip(segments).crop(0, width)


def install() -> None:
    """Let the notifications of all apps be shown so."""
    _toast.Toast = WholeToast  # type: ignore[misc]
