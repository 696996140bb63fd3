"""The walk's controls. Each works by keyboard alone and by mouse; Enter is left to the screen (next step)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from wizard.faces.tui.look import UNICODE, Glyphs
from wizard.faces.tui.text import (
    ACCENT,
    BAD,
    BOLD,
    DIM,
    OK,
    TEXT,
    WARN,
    Part,
    content,
    join,
    pad,
    shorten,
    whole_part,
    wrapped,
)
from wizard.i18n import _
from wizard.plan_types import Choice
from wizard.session import Value, holds_command


def glyphs_of(widget: Widget) -> Glyphs:
    found = getattr(widget.app, "glyphs", UNICODE)
    return found if isinstance(found, Glyphs) else UNICODE


def more_marks(box: Widget, glyphs: Glyphs) -> list[str]:
    """Where ``box`` holds more than is in view: above, below."""
    if box.max_scroll_y <= 0:
        return []
    marks = [f"{glyphs.up} PgUp"] if box.scroll_y > 0 else []
    return marks + ([f"{glyphs.down} PgDn"] if box.scroll_y < box.max_scroll_y else [])


class Control(Widget, can_focus=True):
    """What a field is edited with. Up and down go to the neighbouring field unless a control needs them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    class Edited(Message):
        """The user changed the control's value."""

        def __init__(self, control: Widget) -> None:
            super().__init__()
            self.source = control


class LineInput(Input, inherit_bindings=False):
    """A one-line text field without the Enter key; arrows up and down leave it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *[b for b in Input.BINDINGS if isinstance(b, Binding) and b.key != "enter"],
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]

    def __init__(self, *, id: str | None = None, placeholder: str = "", password: bool = False) -> None:
        super().__init__(id=id, placeholder=placeholder, password=password, select_on_focus=False)

    def on_focus(self) -> None:
        self.cursor_position = len(self.value)

    def _on_paste(self, event: events.Paste) -> None:
        """A whole command goes where commands are read, into whatever field it was pasted."""
        read_command = getattr(self.screen, "open_paste", None)
        if read_command is not None and holds_command(event.text):
            event.prevent_default()
            event.stop()
            read_command(event.text)

    def set_text(self, text: str) -> None:
        """Put a text in without telling anyone that the user did it."""
        if self.value != text:
            with self.prevent(Input.Changed):
                self.value = text
            self.cursor_position = len(text)


class Panel(Static):
    """Text that is drawn anew only when it changed, and laid out anew only when it needs other room."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes)
        self._key: tuple[object, ...] = ()

    def put(self, made: Content) -> None:
        key = (made.plain, tuple(made.spans))
        if key == self._key:
            return
        self._key = key
        width = self.content_size.width
        kept = width > 0 and made.get_height({}, width) == self.content_size.height
        self.update(made, layout=not kept)


class PushButton(Static, can_focus=True):
    """A one-line button: Enter, Space or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "press", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
    ]

    class Pressed(Message):
        def __init__(self, button: PushButton) -> None:
            super().__init__()
            self.button = button

    def __init__(self, label: str, *, id: str) -> None:
        super().__init__(Content(label), id=id)

    @property
    def label(self) -> str:
        """Its words, without the marks beside them."""
        return "".join(c for c in str(self.content) if c.isalnum() or c in " -’'").strip()

    def rename(self, label: str) -> None:
        if str(self.content) != label:
            self.update(Content(label))

    def action_press(self) -> None:
        if not self.disabled:
            self.post_message(self.Pressed(self))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_press()


class Toggle(Control):
    """Yes or no: Space, y, n, or a click."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "flip", show=False),
        Binding("y,right", "set(True)", show=False),
        Binding("n,left", "set(False)", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.value = False

    def set_value(self, value: Value | None) -> None:
        if self.value != bool(value):
            self.value = bool(value)
            self.refresh()

    def action_flip(self) -> None:
        self.action_set(not self.value)

    def action_set(self, value: bool) -> None:
        if value != self.value:
            self.value = value
            self.refresh()
            self.post_message(self.Edited(self))

    def on_click(self) -> None:
        self.action_flip()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1

    def render(self) -> RenderResult:
        glyphs = glyphs_of(self)
        mark = glyphs.check_on if self.value else glyphs.check_off
        style = BOLD if self.has_focus else TEXT
        parts: list[Part] = [(f"{mark} {_('yes') if self.value else _('no')}", style)]
        hint = "   " + _("Space changes it")
        if self.has_focus and self.size.width >= cell_len(hint) + 8:
            parts.append((hint, DIM))
        return content(parts)


class Cycler(Control):
    """One of a few choices on one line: left and right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", show=False),
        Binding("right,space", "turn(1)", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.choices: tuple[Choice, ...] = ()
        self.value = ""

    def set_choices(self, choices: Sequence[Choice]) -> None:
        if self.choices != tuple(choices):
            self.choices = tuple(choices)
            self.refresh()

    def set_value(self, value: Value | None) -> None:
        told = "" if value is None else str(value)
        if told != self.value:
            self.value = told
            self.refresh()

    def action_turn(self, by: int) -> None:
        usable = [c for c in self.choices if not c.disabled]
        if not usable:
            return
        at = next((i for i, c in enumerate(usable) if c.value == self.value), 0)
        chosen = usable[(at + by) % len(usable)].value
        if chosen != self.value:
            self.value = chosen
            self.refresh()
            self.post_message(self.Edited(self))

    def on_click(self) -> None:
        self.action_turn(1)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1

    def render(self) -> RenderResult:
        glyphs = glyphs_of(self)
        choice = next((c for c in self.choices if c.value == self.value), None)
        label = choice.label if choice else self.value
        style = BOLD if self.has_focus else TEXT
        return content(
            [(glyphs.left + " ", ACCENT if self.has_focus else DIM), (label, style), (" " + glyphs.right, ACCENT if self.has_focus else DIM)]
        )


@dataclass(frozen=True)
class Row:
    """One row of a list. ``lines`` draws it for a width: (width, under the cursor, chosen) -> lines."""

    key: str
    lines: Callable[[int, bool, bool], list[Content]]
    selectable: bool = True
    search: str = ""
    one_line: bool = False  # at every width


class Rows(Widget, can_focus=True):
    """A list with a cursor, drawn as text, as high as its rows up to ``max_lines`` (or filling its place).

    The cursor is often the answer itself, so only arrows, Home and End move it: PgUp and PgDn are left to the page,
    and the wheel moves what is in view.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
    ]

    class Moved(Message):
        """The cursor went to another row."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

    class Opened(Message):
        """Enter on a row, or a click on the row under the cursor (only for lists that say ``opens``)."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows = rows
            self.key = key

    def __init__(self, *, id: str | None = None, max_lines: int = 0, opens: bool = False, empty: str = "") -> None:
        super().__init__(id=id)
        self.rows: list[Row] = []
        self.cursor = 0
        self.chosen: str | None = None
        self.max_lines = max_lines
        self.opens = opens
        self.empty = empty
        self._top = 0
        self._follow = True  # what is in view follows the cursor; not after the wheel was turned
        self._line_rows: list[int] = []  # which row each drawn line belongs to
        self._made_from: object = None
        if opens:
            self._bindings.bind("enter", "open", show=False)

    # -- content ----------------------------------------------------------------------------------------------

    def set_rows(self, rows: Sequence[Row], made_from: object = None) -> None:
        """Show other rows; the cursor stays on the row with the same key where there is one.

        ``made_from``: all that the rows are drawn from; nothing is done where it is the same as before.
        """
        if made_from is not None and made_from == self._made_from:
            return
        self._made_from = made_from
        key = self.cursor_key
        old_lines = self._height_key()
        self.rows = list(rows)
        at = next((i for i, r in enumerate(self.rows) if r.key == key), None)
        self.cursor = at if at is not None else min(self.cursor, max(0, len(self.rows) - 1))
        if self.rows and not self.rows[self.cursor].selectable:
            self.cursor = self._step(self.cursor, 1) if self._step(self.cursor, 1) != self.cursor else self._step(self.cursor, -1)
        self.refresh(layout=old_lines != self._height_key())

    def _height_key(self) -> tuple[int, int]:
        return len(self.rows), self._count(self.size.width) if self.size.width else -1

    @property
    def cursor_key(self) -> str | None:
        return self.rows[self.cursor].key if self.rows and self.cursor < len(self.rows) else None

    def point_at(self, key: str | None) -> None:
        """Put the cursor on a row without telling anyone."""
        at = next((i for i, r in enumerate(self.rows) if r.key == key), None)
        if at is not None and at != self.cursor:
            self.cursor, self._follow = at, True
            self.refresh()

    def choose(self, key: str | None) -> None:
        """Mark a row as the chosen one."""
        if key != self.chosen:
            self.chosen = key
            self.refresh()

    # -- keys -------------------------------------------------------------------------------------------------

    def _step(self, start: int, by: int) -> int:
        at = start + by
        while 0 <= at < len(self.rows):
            if self.rows[at].selectable:
                return at
            at += by
        return start

    def action_move(self, by: int) -> None:
        at = self._step(self.cursor, by)
        if at == self.cursor:
            if by < 0:
                self.screen.focus_previous()
            else:
                self.screen.focus_next()
            return
        self._go(at)

    def action_page(self, by: int) -> None:
        at = self.cursor
        for _n in range(max(1, (self.size.height or 8) - 1)):
            at = self._step(at, by)
        self._go(at)

    def action_edge(self, by: int) -> None:
        self._go(self._step(-1, 1) if by < 0 else self._step(len(self.rows), -1))

    def _go(self, at: int) -> None:
        if 0 <= at < len(self.rows) and at != self.cursor:
            self.cursor, self._follow = at, True
            self.refresh()
            self.moved(self.rows[at].key)
            self.call_after_refresh(self._keep_in_view)

    def _keep_in_view(self) -> None:
        """Scroll the page so far that the row under the cursor is seen: a page that was paged on may not show it."""
        page = next((w for w in self.ancestors if isinstance(w, VerticalScroll) and w.max_scroll_y > 0), None)
        if page is None or not self.has_focus:
            return
        mine = self.lines_of_cursor()
        top, bottom = self.region.y + mine.start - self._top, self.region.y + mine.stop - self._top
        if top < page.region.y:
            page.scroll_relative(y=top - page.region.y, animate=False)
        elif bottom > page.region.bottom:
            page.scroll_relative(y=bottom - page.region.bottom, animate=False)

    def moved(self, key: str) -> None:
        self.post_message(self.Moved(self, key))

    def action_open(self) -> None:
        if self.cursor_key is not None:
            self.post_message(self.Opened(self, self.cursor_key))

    def on_click(self, event: events.Click) -> None:
        line = self._top + event.get_content_offset_capture(self).y
        if 0 <= line < len(self._line_rows):
            at = self._line_rows[line]
            if self.rows[at].selectable:
                if at == self.cursor and self.opens:
                    self.action_open()
                self._go(at)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, by: int) -> None:
        top = max(0, min(self._top + by, len(self._line_rows) - self.size.height))
        if top == self._top:
            return  # at its end: the page around it is scrolled
        event.stop()
        self._top, self._follow = top, False
        self.refresh()

    # -- drawing ----------------------------------------------------------------------------------------------

    def _lines_of(self, at: int, width: int) -> list[Content]:
        row = self.rows[at]
        return row.lines(width, at == self.cursor and self.has_focus, row.key == self.chosen)

    def _high(self, at: int, width: int) -> int:
        return 1 if self.rows[at].one_line else len(self._lines_of(at, width))

    def _count(self, width: int) -> int:
        return sum(self._high(at, width) for at in range(len(self.rows)))

    def _owners(self, width: int) -> list[int]:
        """Which row each line belongs to."""
        return [at for at in range(len(self.rows)) for _line in range(self._high(at, width))]

    def height_at(self, width: int) -> int:
        """How many lines are shown at a width."""
        count = self._count(width) or 1
        return min(count, self.max_lines) if self.max_lines else count

    def lines_of_cursor(self) -> range:
        """Which of all lines belong to the row under the cursor."""
        mine = [i for i, row in enumerate(self._owners(self.size.width)) if row == self.cursor]
        return range(mine[0], mine[-1] + 1) if mine else range(0)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.height_at(width)

    def render(self) -> RenderResult:
        width, height = self.size.width, self.size.height
        owner = self._line_rows = self._owners(width)
        if not owner:
            return Content.styled(self.empty, DIM)
        mine = [i for i, row in enumerate(owner) if row == self.cursor]
        if mine and height > 0 and self._follow:
            # A line of what comes before and after stays in view, so that one sees that there is more.
            first, last = mine[0], mine[-1]
            self._top = min(self._top, max(0, first - 1))
            self._top = max(self._top, min(last + 2, len(owner)) - height)
        self._top = max(0, min(self._top, len(owner) - height))
        seen = owner[self._top : self._top + height]
        # Only the rows in view are drawn; the first of them may begin above it.
        lines = [line for at in dict.fromkeys(seen) for line in self._lines_of(at, width)]
        hidden = owner[: self._top].count(seen[0]) if seen else 0
        shown = lines[hidden : hidden + height]
        return join(self._mark_more(shown, len(owner), width))

    def _mark_more(self, shown: list[Content], total: int, width: int) -> list[Content]:
        """Where rows are out of sight, say so at the right edge."""
        glyphs = glyphs_of(self)
        above, below = self._top, total - self._top - len(shown)
        if above and shown:
            shown[0] = _with_end(shown[0], f" {glyphs.up}{above}", width)
        if below and shown:
            shown[-1] = _with_end(shown[-1], f" {glyphs.down}{below}", width)
        return shown


def _with_end(line: Content, end: str, width: int) -> Content:
    room = max(0, width - len(end))
    return line.truncate(room, pad=True) + Content.styled(end, DIM)


_OUT_OF_SIGHT = 4  # cells for the mark of rows out of sight
_SHORTEST = 16  # cells in which a reason still tells something


class Chooser(Rows):
    """One of several, each with its reason and what speaks against it. The cursor is the choice."""

    def __init__(self, *, id: str | None = None, max_lines: int = 0) -> None:
        super().__init__(id=id, max_lines=max_lines)
        self.choices: tuple[Choice, ...] = ()
        self._stand: dict[int, bool] = {}  # by the cells that are left: asked for every row that is drawn
        self.value = ""

    def set_choices(self, choices: Sequence[Choice]) -> None:
        if tuple(choices) == self.choices:
            return
        self.choices = tuple(choices)
        self._stand.clear()
        explain = len(self.choices) <= 3
        label_width = max((min(26, cell_len(c.label)) for c in self.choices), default=0)
        self.set_rows([Row(c.value, self._drawer(c, explain, label_width), not c.disabled) for c in self.choices])
        self.point_at(self.value)

    def set_value(self, value: Value | None) -> None:
        told = "" if value is None else str(value)
        if (told, told) != (self.value, self.chosen):
            self.value = self.chosen = told
            self.refresh()
        self.point_at(told)

    def moved(self, key: str) -> None:
        self.value = self.chosen = key
        self.post_message(Control.Edited(self))

    def _reasons_stand(self, width: int, label_width: int) -> bool:
        """Reasons cut off row upon row tell nothing: all of them stand, or the chosen row's alone, below it."""
        left = width - len(glyphs_of(self).radio_on) - 1 - label_width - 2 - _OUT_OF_SIGHT
        if left not in self._stand:
            plain = [c for c in self.choices if c.note and not c.against and not c.recommended]
            self._stand[left] = left >= _SHORTEST and all(whole_part(c.note, left) is not None for c in plain)
        return self._stand[left]

    def _drawer(self, choice: Choice, explain: bool, label_width: int) -> Callable[[int, bool, bool], list[Content]]:
        def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
            glyphs = glyphs_of(self)
            mark = glyphs.radio_on if chosen else glyphs.blocked.center(len(glyphs.radio_on)) if choice.disabled else glyphs.radio_off
            style = f"bold {ACCENT}" if cursor else BOLD if chosen else DIM if choice.disabled else TEXT
            parts: list[Part] = [(f"{mark} ", ACCENT if chosen else DIM)]
            if explain:
                parts.append((choice.label, style))
                if choice.recommended:
                    parts.append(("  " + _("recommended"), OK))
                indent = len(glyphs.radio_on) + 1
                lines = [content(parts)]
                lines += wrapped(choice.note, width, indent, DIM)
                if choice.against:
                    against = _("Against: {text}").format(text=choice.against)
                    lines += wrapped(against, width, indent, BAD if choice.disabled else WARN)
                return lines
            badge = "  " + _("recommended") if choice.recommended else ""
            # Where the column of labels leaves no room for it, the badge comes closer.
            parts.append((pad(choice.label, min(label_width, width - content(parts).cell_length - cell_len(badge))), style))
            note, note_style = (choice.against, WARN) if choice.against else (choice.note, DIM)
            if badge:
                parts.append((badge, OK))
            room = width - content(parts).cell_length - 2 - _OUT_OF_SIGHT
            beside = bool(note) and room >= _SHORTEST and (bool(choice.against) or (self._reasons_stand(width, label_width) and whole_part(note, room) is not None))
            if beside:
                parts.append(("  " + shorten(note, room, glyphs.ellipsis), note_style))
            below = wrapped(choice.note, width, len(glyphs.radio_on) + 1, DIM) if chosen and not beside and not choice.against else []
            return [content(parts).truncate(width), *below]

        return draw


class MultiChooser(Rows):
    """Any of several: Space ticks."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "tick", show=False)]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.value: tuple[str, ...] = ()

    def set_choices(self, choices: Sequence[Choice]) -> None:
        def drawer(choice: Choice) -> Callable[[int, bool, bool], list[Content]]:
            def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
                glyphs = glyphs_of(self)
                mark = glyphs.check_on if choice.value in self.value else glyphs.check_off
                line: list[Part] = [(f"{mark} {choice.label}", f"bold {ACCENT}" if cursor else TEXT), ("  " + choice.note, DIM)]
                return [content(line).truncate(width)]

            return draw

        self.set_rows([Row(c.value, drawer(c)) for c in choices], tuple(choices))

    def set_value(self, value: Value | None) -> None:
        ticked = tuple(str(x) for x in value) if isinstance(value, tuple) else ()
        if ticked != self.value:
            self.value = ticked
            self.refresh()

    def action_tick(self) -> None:
        key = self.cursor_key
        if key is None:
            return
        kept = set(self.value) ^ {key}
        self.value = tuple(r.key for r in self.rows if r.key in kept)
        self.refresh()
        self.post_message(Control.Edited(self))

    def on_click(self, event: events.Click) -> None:
        super().on_click(event)
        self.action_tick()
