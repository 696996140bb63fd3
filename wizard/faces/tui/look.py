"""How the walk looks: glyphs, themes and the style sheet. One look for all steps; colour is never alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual.color import Color
from textual.dom import DOMNode
from textual.filter import LineFilter, Monochrome, NoColor
from textual.scrollbar import ScrollBarRender
from textual.theme import Theme


@dataclass(frozen=True)
class Glyphs:
    """The characters that carry meaning. Each set is one cell wide, in any terminal that shows it."""

    done: str
    current: str
    open: str
    attention: str
    blocked: str
    radio_on: str
    radio_off: str
    check_on: str
    check_off: str
    cursor: str
    bullet: str
    up: str
    down: str
    left: str
    right: str
    dash: str
    ellipsis: str
    times: str
    spinner: tuple[str, ...]
    bar_full: str
    bar_empty: str
    # The parts of the memory bar: weights, KV cache, rest, held by others, free. Told apart without colour.
    weights: str
    kv_cache: str
    rest: str
    others: str
    free: str
    border: str  # Textual's border type for frames
    edge: str  # the mark beside the focused field


UNICODE = Glyphs(
    done="✓",
    current="▸",
    open="○",
    attention="!",
    blocked="✗",
    radio_on="●",
    radio_off="○",
    check_on="[x]",
    check_off="[ ]",
    cursor="▸",
    bullet="•",
    up="↑",
    down="↓",
    left="◂",
    right="▸",
    dash="–",
    ellipsis="…",
    times="×",
    spinner=("⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"),
    bar_full="█",
    bar_empty="░",
    weights="█",
    kv_cache="▓",
    rest="▒",
    others="░",
    free="·",
    border="round",
    edge="▌",
)

ASCII = Glyphs(
    done="+",
    current=">",
    open="o",
    attention="!",
    blocked="x",
    radio_on="(*)",
    radio_off="( )",
    check_on="[x]",
    check_off="[ ]",
    cursor=">",
    bullet="*",
    up="^",
    down="v",
    left="<",
    right=">",
    dash="-",
    ellipsis="~",
    times="x",
    spinner=("|", "/", "-", "\\"),
    bar_full="#",
    bar_empty=".",
    weights="W",
    kv_cache="K",
    rest="r",
    others="o",
    free=".",
    border="ascii",
    edge="|",
)


def wants_ascii(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> bool:
    """Whether the locale is not UTF-8, so that only ASCII may be drawn.

    ``VLLM_WIZARD_ASCII=1`` or ``0`` decides by hand.
    """
    environ = os.environ if environ is None else environ
    chosen = environ.get("VLLM_WIZARD_ASCII", "")
    if chosen:
        return chosen not in ("0", "no", "false")
    if platform == "win32":
        return False
    effective = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if effective == "C.UTF-8" and not environ.get("LC_ALL") and environ.get("LANG", "") in ("C", "POSIX"):
        # Python itself sets LC_CTYPE=C.UTF-8 when it is started in the C locale (PEP 538).
        return True
    return "utf-8" not in effective.lower() and "utf8" not in effective.lower()


_ASCII_FOR = str.maketrans(
    {
        "“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "−": "-", "…": "~", "×": "x", "·": ".",
        "•": "*", "→": ">", "←": "<", "↑": "^", "↓": "v", "≥": ">", "≤": "<", "≈": "~", "▏": "|", "▎": "|",
        "█": "#", "▓": "%", "▒": "=", "░": ".", "▌": "|", "▐": "|", "│": "|", "─": "-", "━": "-", "✓": "+",
        "✗": "x", "▸": ">", "◂": "<", "●": "*", "○": "o", "\u00a0": " ", "┃": "|", "°": "o", "±": "~",
    }
)  # fmt: skip


def to_ascii(text: str) -> str:
    """The same number of characters in ASCII, for terminals whose locale is not UTF-8."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else "?" for c in text.translate(_ASCII_FOR))


class WholeCells(ScrollBarRender):
    """A scroll bar of whole cells: its ends need no block glyphs, which not every font and locale has."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "]


class AsciiFilter(LineFilter):
    """The last word on every line that is drawn: nothing outside ASCII reaches such a terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.text.isascii() else Segment(to_ascii(segment.text), segment.style, segment.control)
            for segment in segments
        ]


class NoColours(LineFilter):
    """For NO_COLOR: shades of grey; where a theme takes the terminal's own colours, those two alone (Textual's own
    filter turns them into black on black)."""

    def __init__(self, own_colours: Callable[[], bool]) -> None:
        super().__init__()
        self._own_colours = own_colours
        self._none, self._grey = NoColor(), Monochrome()

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return (self._none if self._own_colours() else self._grey).apply(segments, background)


# Our own colour names; every text style in the walk is one of these. Contrast is tested (>= 4.5:1).
_DARK = {
    "wz-text": "#dde3ea",
    "wz-dim": "#9aa7b6",
    "wz-accent": "#82b8ff",
    "wz-ok": "#84d69b",
    "wz-warn": "#f2c46d",
    "wz-bad": "#ff9a93",
    "wz-weights": "#82b8ff",
    "wz-kv": "#c3a6ff",
    "wz-rest": "#f2c46d",
    "wz-others": "#9aa7b6",
    "wz-line": "#3d4856",  # blurred frames
    "wz-field": "#232b36",  # behind an input
    "wz-field-focus": "#2d3848",
    "wz-cursor-text": "#0f1318",
    "wz-cursor": "#82b8ff",  # behind the row under the cursor, with wz-cursor-text on it
    "wz-bar": "#1b222b",  # header and footer
}
_LIGHT = {
    "wz-text": "#1d2530",
    "wz-dim": "#556170",
    "wz-accent": "#0b57a4",
    "wz-ok": "#17692f",
    "wz-warn": "#7d4f00",
    "wz-bad": "#b3261e",
    "wz-weights": "#0b57a4",
    "wz-kv": "#6a3fb5",
    "wz-rest": "#8a5a00",
    "wz-others": "#556170",
    "wz-line": "#b9c2cd",
    "wz-field": "#e9edf2",
    "wz-field-focus": "#dbe5f1",
    "wz-cursor-text": "#ffffff",
    "wz-cursor": "#0b57a4",
    "wz-bar": "#e3e8ee",
}
_ANSI = {
    "wz-text": "ansi_default",
    "wz-dim": "ansi_default",
    "wz-accent": "ansi_blue",
    "wz-ok": "ansi_green",
    "wz-warn": "ansi_yellow",
    "wz-bad": "ansi_red",
    "wz-weights": "ansi_blue",
    "wz-kv": "ansi_magenta",
    "wz-rest": "ansi_yellow",
    "wz-others": "ansi_default",
    "wz-line": "ansi_default",
    "wz-field": "ansi_default",
    "wz-field-focus": "ansi_default",
    "wz-cursor-text": "ansi_black",
    "wz-cursor": "ansi_cyan",
    "wz-bar": "ansi_default",
}

DARK_BACKGROUND, DARK_SURFACE = "#12161b", "#181d24"
LIGHT_BACKGROUND, LIGHT_SURFACE = "#f6f8fa", "#ffffff"


def _theme(name: str, dark: bool, background: str, surface: str, colours: dict[str, str], ansi: bool) -> Theme:
    return Theme(
        name=name,
        primary=colours["wz-accent"],
        secondary=colours["wz-kv"],
        accent=colours["wz-accent"],
        warning=colours["wz-warn"],
        error=colours["wz-bad"],
        success=colours["wz-ok"],
        foreground=colours["wz-text"],
        background=background,
        surface=surface,
        panel=colours["wz-bar"],
        boost="ansi_default" if ansi else None,
        dark=dark,
        ansi=ansi,
        variables={
            **colours,
            "border": colours["wz-accent"],
            "border-blurred": colours["wz-line"],
            "scrollbar": colours["wz-line"],
            "scrollbar-hover": colours["wz-dim"],
            "scrollbar-active": colours["wz-accent"],
            "scrollbar-background": surface,
            "scrollbar-background-hover": surface,
            "scrollbar-background-active": surface,
            "scrollbar-corner-color": surface,
            # Textual's own style sheet asks for it as soon as a theme is one of the terminal's colours.
            "ansi-background": "ansi_default",
            "input-cursor-background": colours["wz-text"] if not ansi else "ansi_default",
            "input-cursor-foreground": surface if not ansi else "ansi_default",
            "input-cursor-text-style": "none" if not ansi else "reverse",
            "input-selection-background": f"{colours['wz-accent']} 35%" if not ansi else "ansi_cyan",
            "block-cursor-background": colours["wz-cursor"],
            "block-cursor-foreground": colours["wz-cursor-text"],
            "link-color": colours["wz-text"],
            "link-style": "none",
            "link-color-hover": colours["wz-accent"],
            "link-background-hover": "transparent",
            "link-style-hover": "underline",
        },
    )


DARK = _theme("wizard-dark", True, DARK_BACKGROUND, DARK_SURFACE, _DARK, ansi=False)
LIGHT = _theme("wizard-light", False, LIGHT_BACKGROUND, LIGHT_SURFACE, _LIGHT, ansi=False)
ANSI = _theme("wizard-ansi", True, "ansi_default", "ansi_default", _ANSI, ansi=True)
THEMES = (DARK, LIGHT, ANSI)

_TEXTS = ("wz-text", "wz-dim", "wz-accent", "wz-ok", "wz-warn", "wz-bad", "wz-kv", "wz-rest", "wz-weights")
#: (text colour, the background that it is drawn on): what the contrast test checks.
TEXT_PAIRS: tuple[tuple[str, str], ...] = (
    *((name, ground) for name in _TEXTS for ground in ("background", "surface")),
    *((name, "wz-bar") for name in ("wz-text", "wz-dim", "wz-accent", "wz-warn", "wz-bad", "wz-ok")),
    ("wz-text", "wz-field"),
    ("wz-text", "wz-field-focus"),
    ("wz-dim", "wz-field"),
    ("wz-cursor-text", "wz-cursor"),
)


def next_theme(name: str) -> str:
    """The theme after ``name``, the first one after the last."""
    names = [t.name for t in THEMES]
    return names[((names.index(name) if name in names else 0) + 1) % len(names)]


def choose_theme(environ: Mapping[str, str]) -> str:
    """The theme to start with: ``VLLM_WIZARD_THEME``, the terminal's own colours under NO_COLOR, else dark."""
    wanted = environ.get("VLLM_WIZARD_THEME", "").lower()
    by_word = {"dark": DARK.name, "light": LIGHT.name, "ansi": ANSI.name}
    if wanted in by_word:
        return by_word[wanted]
    if "NO_COLOR" in environ:
        return ANSI.name
    # COLORFGBG ("15;0") is what some terminals tell about their background; 7 and 15 are light ones.
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT.name if background in ("7", "15") else DARK.name


SMALLEST = (60, 18)  # columns, rows
THREE_ZONES = 100  # columns from which all three zones are shown
WIDE, HUGE = 118, 150  # columns from which the zones grow


def set_width_classes(screen: DOMNode, columns: int) -> None:
    """Which zones are shown, and how wide they are, is decided by classes of the screen."""
    screen.set_class(columns < THREE_ZONES, "-narrow")
    screen.set_class(columns >= WIDE, "-wide")
    screen.set_class(columns >= HUGE, "-huge")


# The frames alone: little, since the first picture waits for it.
FRAME_CSS = """
Screen { background: $background; color: $wz-text; layers: under base over; }

#header { height: 1; background: $wz-bar; color: $wz-text; padding: 0 1; }
#footer { height: 1; dock: bottom; background: $wz-bar; color: $wz-dim; padding: 0 1; text-wrap: nowrap; text-overflow: clip; }
#zones { height: 1fr; }

.frame { border: round $wz-line; border-title-color: $wz-dim; border-subtitle-color: $wz-dim; background: $surface; }
.-ascii .frame { border: ascii $wz-line; }
/* The middle zone is the only one that takes the focus: it is the bright one, without costly focus rules. */
#main { border: round $wz-accent; border-title-color: $wz-accent; border-title-style: bold; }
.-ascii #main { border: ascii $wz-accent; }

#rail { width: 21; padding: 1 0 0 1; }
#main { width: 1fr; }
#plan { width: 33; padding: 0 0 0 1; scrollbar-gutter: stable; }
.-wide #plan { width: 44; }
.-wide #rail { width: 22; }
.-huge #plan { width: 58; }
.-huge #rail { width: 24; }
.-narrow #rail, .-narrow #plan { display: none; }
#waiting { padding: 0 1; color: $wz-dim; }
"""

CSS = """
VerticalScroll { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
#plan-text { height: auto; padding: 0 1 0 0; }
.-written #plan { display: none; }  /* what to type next needs the room */
#steps { height: 1fr; }
StepView { height: 1fr; layer: base; background: $surface; scrollbar-gutter: stable; }
/* The gap is the inner box's: a view without one has nothing but equal lines to draw when its step is entered. */
StepView .inner { height: auto; padding: 0 1; }
StepView .intro { color: $wz-dim; margin: 0 0 1 0; }
.heading { text-style: bold; color: $wz-text; margin: 1 0 0 0; }
.dim { color: $wz-dim; }
.block { height: auto; }
#nav { height: 1; dock: bottom; padding: 0 2 0 1; background: $surface; }
#more { width: 1fr; height: 1; content-align: center middle; text-align: center; }

.row { height: auto; }
.row .label { width: 24; height: auto; padding: 0 1 0 0; }
.-narrow .row .label, .-huge .row .label { width: 34; }  /* as in the fields, by the room that the middle zone has */
#typed-row { margin: 1 0 0 0; }
#typed-row .label { width: 14; }
#model-memory { margin: 1 0 0 0; }
#paste-row { margin: 0 0 1 0; }
#paste-text { height: auto; min-height: 7; max-height: 60vh; border: none; background: $wz-field; color: $wz-text; padding: 0 1; margin: 1 0 0 0; }
#paste-text:focus { border: none; background: $wz-field-focus; }
#paste-text.-checked { max-height: 7; }
#start-row { margin: 0 0 1 0; }
#start-row PushButton { width: auto; }
#start-row .dim { width: 1fr; }
#failed-row { margin: 1 0 0 0; }
#apply-row { margin: 0 0 1 0; padding: 0 0 0 2; }
#move-buttons { margin: 0 0 1 0; }
#move-buttons PushButton { margin: 0 2 0 0; }

Field { height: auto; margin: 0 0 1 0; background: $surface; layout: vertical; }

LineInput { height: 1; border: none; padding: 0 1; background: $wz-field; color: $wz-text; width: 1fr; min-width: 9; background-tint: 0%; }
LineInput:focus { border: none; background: $wz-field-focus; background-tint: 0%; }

LineInput > .input--placeholder { color: $wz-dim; }
LineInput:ansi { text-style: underline; }
Toggle, Chooser, Cycler, Rows { height: auto; background: $surface; width: 1fr; }
Rows { height: auto; }

PushButton { width: auto; height: 1; padding: 0 1; background: $wz-field; color: $wz-text; }
PushButton:focus { background: $wz-cursor; color: $wz-cursor-text; text-style: bold; }
PushButton:ansi:focus { text-style: reverse bold; }
PushButton:hover { text-style: underline; }
PushButton.-off { color: $wz-dim; }

Dialog { align: center middle; background: $background 70%; }
Dialog:ansi { background: transparent; }
Dialog > #box { width: 90%; max-width: 96; height: auto; max-height: 90%; border: round $wz-accent; border-title-color: $wz-accent;
  border-title-style: bold; border-subtitle-color: $wz-dim; background: $surface; padding: 1 2; }
.-ascii Dialog > #box, Dialog.-ascii > #box { border: ascii $wz-accent; }
Dialog #body { height: auto; max-height: 1fr; }
Dialog .buttons { height: 1; margin: 1 0 0 0; width: 1fr; align-horizontal: right; }
Dialog .buttons PushButton { margin: 0 0 0 2; }
Palette { align: center top; }
Palette > #box { margin: 2 0 0 0; height: 20; }
Dialog #body { scrollbar-gutter: stable; }
Dialog.-full > #box { width: 100%; max-width: 100%; height: 100%; max-height: 100%; padding: 0 1; }
Dialog.-full #body { height: 1fr; }

/* What is told for a moment covers no buttons, neither those of a step nor those of a box in the middle. */
ToastRack { dock: top; align: right top; margin-top: 1; margin-bottom: 0; }
/* With three zones a toast stands within the plan's: what is asked stays in view. */
WalkScreen Toast { width: 29; max-width: 29; padding: 1; }
WalkScreen.-wide Toast { width: 40; max-width: 40; }
WalkScreen.-huge Toast { width: 54; max-width: 54; }
WalkScreen.-narrow Toast, WalkScreen.-written Toast { width: 60; max-width: 50%; padding: 1 5 1 1; }

#too-small { layer: over; dock: top; width: 100%; height: 100%; display: none; align: center middle; content-align: center middle; background: $background; }
.-tiny #too-small { display: block; }
"""
