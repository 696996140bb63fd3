"""A screen of its own over the walk: header, a frame that scrolls, buttons, a footer of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

from wizard.faces.tui import look
from wizard.faces.tui.dialogs import Dialog, Reader
from wizard.faces.tui.look import SMALLEST, Glyphs
from wizard.faces.tui.screen import Footer, set_title
from wizard.faces.tui.text import ACCENT, BOLD, DIM, TEXT, Part, content, wrapped
from wizard.faces.tui.widgets import Panel, PushButton, Row, Rows, glyphs_of, more_marks
from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.faces.tui.work import Wizard

Key = tuple[str, str, str]  # the key, what it does, the action

WHOLE_CSS = """
.whole-zones { height: 1fr; layout: vertical; }
.whole-zones.-beside { layout: horizontal; }
.whole-main { height: 1fr; width: 1fr; border: round $wz-accent; border-title-color: $wz-accent; border-title-style: bold;
  border-subtitle-color: $wz-dim; background: $surface; padding: 0 0 0 1; }
.-ascii .whole-main { border: ascii $wz-accent; }
.whole-body { height: 1fr; background: $surface; scrollbar-gutter: stable; padding: 0 1 0 0; }
.whole-nav { height: 1; background: $surface; align-horizontal: right; padding: 0 1 0 0; }
.whole-nav PushButton { margin: 0 0 0 2; }
.whole-more { width: 1fr; height: 1; }
"""


class WholeScreen(Screen[None]):
    """What the launch and the diagnosis have in common. ``keys`` gives the footer, ``draw`` the rest."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("f1", "help", show=False),
        Binding("ctrl+t", "theme", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "scroll(-100000)", show=False),
        Binding("end", "scroll(100000)", show=False),
    ]
    AUTO_FOCUS = None
    CSS = WHOLE_CSS
    SCOPED_CSS = False
    title_text = ""

    def __init__(self, wizard: Wizard) -> None:
        super().__init__()
        self.wizard = wizard

    @property
    def glyphs(self) -> Glyphs:
        return glyphs_of(self)

    def compose(self) -> ComposeResult:
        yield Panel(id="header")
        with Vertical(classes="whole-zones", id="whole-zones"):
            with Vertical(classes="whole-main", id="whole-main"):
                with VerticalScroll(classes="whole-body", id="whole-body", can_focus=False):
                    yield from self.body()
                with Horizontal(classes="whole-nav", id="whole-nav"):
                    yield Panel(id="whole-more", classes="whole-more")
                    yield from self.buttons()
            yield from self.beside()
        yield Footer(id="footer")
        yield Panel(id="too-small")

    def body(self) -> Iterator[Widget]:
        yield from ()

    def beside(self) -> Iterator[Widget]:
        """What stands beside the frame, or below it on a narrow terminal."""
        yield from ()

    def buttons(self) -> Iterator[PushButton]:
        yield from ()

    def keys(self) -> list[Key]:
        return []

    def draw(self) -> None:
        """Bring everything up to date."""

    @property
    def drawable(self) -> bool:
        """Whether the screen stands with all its parts: not before it is composed, nor while it is taken down."""
        standing = self.app.is_running and self in self.app.screen_stack and self.is_mounted and self.is_attached
        return standing and bool(self.query("#whole-zones"))

    def on_mount(self) -> None:
        self.set_class(self.wizard.ascii_only, "-ascii")
        look.set_width_classes(self, self.app.size.width)
        set_title(self.query_one("#whole-main"), self.title_text)
        # Lists page the frame by themselves, and the wheel turns it.
        for name in ("scroll_y", "virtual_size"):
            self.watch(self.query_one("#whole-body"), name, self._draw_more_later, init=False)

    def _draw_more_later(self) -> None:
        self.call_after_refresh(self.draw_more)

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        tiny = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(tiny, "-tiny")
        look.set_width_classes(self, width)
        if tiny:
            told = _("This window has {w} columns and {h} rows; at least {mw} and {mh} are needed. Make it larger to go on.")
            self.query_one("#too-small", Panel).put(Content(told.format(w=width, h=height, mw=SMALLEST[0], mh=SMALLEST[1])))
        self.call_after_refresh(self.draw)

    # -- parts of drawing -------------------------------------------------------------------------------------

    def room(self) -> int:
        """Cells for text in the frame."""
        return max(20, self.query_one("#whole-body").size.width - 2)

    def draw_header(self, right: Sequence[Part]) -> None:
        left: list[Part] = [("vllm-wizard", f"bold {ACCENT}")]
        gap = max(1, self.size.width - 2 - content(left).cell_length - content(right).cell_length)
        self.query_one("#header", Panel).put(content([*left, (" " * gap, ""), *right]))

    def draw_keys(self) -> None:
        self.query_one("#footer", Footer).show_keys(self.keys())

    def draw_more(self) -> None:
        """Where the frame holds more than is in view, say so."""
        if not self.drawable:
            return
        marks = more_marks(self.query_one("#whole-body", VerticalScroll), self.glyphs)
        self.query_one("#whole-more", Panel).put(Content.styled("  ".join(marks), DIM))

    def show_buttons(self, names: Sequence[str]) -> None:
        """Show these buttons alone; the focus goes to the first when it stood on one that went."""
        shown = []
        for button in self.query("#whole-nav PushButton").results(PushButton):
            button.display = (button.id or "") in names
            if button.display:
                shown.append(button)
        held = self.focused
        if shown and (held is None or not held.display or not held.is_attached):
            first = next((b for name in names for b in shown if b.id == name), shown[0])
            first.focus()

    # -- keys -------------------------------------------------------------------------------------------------

    def action_scroll(self, by: int) -> None:
        self.query_one("#whole-body", VerticalScroll).scroll_relative(y=by, animate=False)
        self.call_after_refresh(self.draw_more)

    def action_page(self, by: int) -> None:
        body = self.query_one("#whole-body", VerticalScroll)
        body.scroll_relative(y=by * max(1, body.size.height - 2), animate=False)
        self.call_after_refresh(self.draw_more)

    def action_theme(self) -> None:
        self.app.theme = look.next_theme(self.app.theme)

    def action_help(self) -> None:
        self.app.push_screen(Reader(_("Help: {step}").format(step=self.title_text), self.help_text()))

    def help_text(self) -> Content:
        return Content("")

    def action_leave(self) -> None:
        self.dismiss(None)


def help_lines(intro: str, keys: Sequence[tuple[str, str]]) -> Content:
    """Help: what the screen is for, and its keys."""
    width = max(len(k) for k, _told in keys)
    parts: list[Part] = [(intro + "\n\n", TEXT)]
    for key, told in keys:
        parts += [(key.ljust(width) + "  ", f"bold {ACCENT}"), (told + "\n", TEXT)]
    return content(parts)


class Choose(Dialog[str]):
    """One of a few ways to go on, each with what it means. Gives its key, None when it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "default", show=False)]

    def __init__(self, title: str, told: Content, options: Sequence[tuple[str, str, str]], at: str = "") -> None:
        """``options``: (key, label, what it means); ``at``: the key under the cursor at first."""
        super().__init__()
        self.title_text = title
        self.hint = _("Enter takes it, Esc closes")
        self._told, self._options, self._at = told, list(options), at

    def body(self) -> Iterator[Widget]:
        told = Panel(id="choose-told", classes="block")
        told.put(self._told)
        if self._told.plain:
            yield told
        yield Rows(id="choose-rows", opens=True)

    def on_mount(self) -> None:
        super().on_mount()
        rows = self.query_one("#choose-rows", Rows)
        rows.set_rows([Row(key, self._drawer(label, told)) for key, label, told in self._options])
        rows.point_at(self._at)

    def first(self) -> Widget | None:
        return self.query_one("#choose-rows")

    def _drawer(self, label: str, told: str):  # type: ignore[no-untyped-def]
        def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
            mark = self.app.glyphs.cursor if cursor else " "  # type: ignore[attr-defined]
            first, *rest = wrapped(label, width, 2, f"bold {ACCENT}" if cursor else BOLD)
            return [content([(mark, ACCENT)]) + first[1:], *rest, *wrapped(told, width, 2, DIM)]

        return draw

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        self.call_after_refresh(self._follow)

    def _follow(self) -> None:
        """Keep the row under the cursor in view: what Enter takes has to be seen."""
        rows, body = self.query_one("#choose-rows", Rows), self.query_one("#body", VerticalScroll)
        mine = rows.lines_of_cursor()
        body.scroll_to_region(Region(0, rows.virtual_region.y + mine.start, 1, len(mine)), animate=False)

    def on_rows_opened(self, event: Rows.Opened) -> None:
        event.stop()
        self.dismiss(event.key)

    def action_default(self) -> None:
        self.dismiss(self.query_one("#choose-rows", Rows).cursor_key)
