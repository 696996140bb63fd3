"""What is laid over the walk for a moment: help, the whole plan, a diff, a question, the palette."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from wizard.faces.tui import text
from wizard.faces.tui.fields import Field
from wizard.faces.tui.text import ACCENT, BAD, BOLD, DIM, TEXT, WARN, Part, clip, content, pad
from wizard.faces.tui.walk import Walk, same
from wizard.faces.tui.widgets import Chooser, LineInput, PushButton, Row, Rows, glyphs_of, more_marks
from wizard.i18n import _
from wizard.plan_types import Choice
from wizard.steps import number_text, value_words

if TYPE_CHECKING:
    from wizard.plan_types import FlagRow
    from wizard.session import Layer, Value

Result = TypeVar("Result")


class Dialog(ModalScreen[Result], Generic[Result]):
    """A framed box over the walk. Esc closes it; its body scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("enter", "default", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "scroll(-100000)", show=False),
        Binding("end", "scroll(100000)", show=False),
    ]
    AUTO_FOCUS = None
    title_text = ""
    hint = ""
    full = False

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = self.title_text
            box.border_subtitle = self.hint
            with VerticalScroll(id="body", can_focus=False):
                yield from self.body()
            buttons = list(self.buttons())
            if buttons:
                with Horizontal(classes="buttons"):
                    yield from buttons

    def on_mount(self) -> None:
        self.set_class(self.full, "-full")
        self.set_class(bool(getattr(self.app, "ascii_only", False)), "-ascii")
        first = self.first()
        if first is not None:
            first.focus()
        body = self.query_one("#body", VerticalScroll)
        for name in ("scroll_y", "virtual_size", "size"):
            self.watch(body, name, self._mark_more_later, init=False)

    def _mark_more_later(self) -> None:
        self.call_after_refresh(self._mark_more)  # its size and that of what it holds come one after the other

    def _mark_more(self) -> None:
        """Where the box holds more than is in view, say so in its frame."""
        if not self.is_attached or not self.query("#body"):
            return
        marks = more_marks(self.query_one("#body", VerticalScroll), glyphs_of(self))
        told = "   ".join([self.hint, *marks] if self.hint else marks)
        box = self.query_one("#box", Vertical)
        if str(box.border_subtitle or "") != told:
            box.border_subtitle = told

    def body(self) -> Iterator[Widget]:
        yield from ()

    def buttons(self) -> Iterator[PushButton]:
        yield from ()

    def first(self) -> Widget | None:
        return next(iter(self.query(PushButton)), None)

    def action_scroll(self, by: int) -> None:
        self.query_one("#body", VerticalScroll).scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        self.action_scroll(by * max(1, self.query_one("#body", VerticalScroll).size.height - 2))

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_default(self) -> None:
        self.action_leave()


class Reader(Dialog[None]):
    """Text to read."""

    def __init__(self, title: str, body: Content | Callable[[int], Content], *, full: bool = False) -> None:
        super().__init__()
        self.title_text = title
        self.hint = _("Esc closes")
        self.full = full
        self._content = body

    def body(self) -> Iterator[Widget]:
        yield Static(id="reader-text", classes="block")

    def on_mount(self) -> None:
        super().on_mount()
        self.call_after_refresh(self.fill)

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        width = max(20, self.query_one("#body").content_size.width - 1)
        made = self._content(width) if callable(self._content) else self._content
        self.query_one("#reader-text", Static).update(made)


class Ask(Dialog[bool]):
    """A question with two answers; Enter takes the button under the focus, the first at first."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("left", "focus_previous", show=False), Binding("right", "focus_next", show=False)]

    def __init__(self, title: str, body: Content, yes: str, no: str, *, stays: bool = False) -> None:
        """``stays``: Esc is neither of the two (None), where the second goes on."""
        super().__init__()
        self.title_text = title
        self.hint = _("Left and right choose, Enter takes it, Esc closes")
        self._content, self._yes, self._no, self._stays = body, yes, no, stays

    def body(self) -> Iterator[Widget]:
        yield Static(self._content, classes="block")

    def buttons(self) -> Iterator[PushButton]:
        yield PushButton(self._yes, id="yes")
        yield PushButton(self._no, id="no")

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")

    def action_leave(self) -> None:
        self.dismiss(None if self._stays else False)

    def action_focus_previous(self) -> None:
        self.focus_previous()

    def action_focus_next(self) -> None:
        self.focus_next()


# -- help -------------------------------------------------------------------------------------------------------


def field_help(item: Field, walk: Walk) -> Content:
    """F1 on a field: what it means, its value, where that comes from, and why."""
    question, plan = item.question, walk.plan
    parts: list[Part] = [(_(question.help), TEXT)]
    rows: list[tuple[str, str]] = []
    if plan is not None and not question.secret:
        decision = plan.decision(question.key)
        if decision is not None:
            rows.append((_("Value"), value_words(question, plan, decision.value)))
            rows.append((_("Comes from"), text.source_sentence(decision.source)))
            if decision.reason:
                rows.append((_("Why"), decision.reason))
            proposed = walk.proposal(question.key)
            if not same(proposed, decision.value) and (decision.proposed is not None or not decision.chosen):
                rows.append((_("The wizard would take"), value_words(question, plan, proposed)))
            if decision.flag:
                rows.append((_("Becomes"), decision.flag))
    if question.minimum is not None or question.maximum is not None:
        rows.append((_("Range"), _range_text(question.minimum, question.maximum)))
    rows.append((_("On the command line"), f"--set {question.key}={_('VALUE')}" if not question.secret else "--secrets-from-env"))
    for label, value in rows:
        parts += [("\n\n" + label + "\n", f"bold {ACCENT}"), ("  " + value, TEXT)]
    if plan is not None:
        for choice in question.choices(plan)[:12]:
            parts += [("\n\n" + choice.label, BOLD), ("\n  " + choice.note if choice.note else "", DIM)]
            if choice.against:
                parts.append(("\n  " + _("Against: {text}").format(text=choice.against), WARN))
    return content(parts)


def _range_text(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return _("{low} to {high}").format(low=number_text(low), high=number_text(high))
    if low is not None:
        return _("{low} or more").format(low=number_text(low))
    return _("at most {high}").format(high=number_text(high or 0))


def another_help() -> Content:
    """F1 on the line for a model that is not in the list."""
    rows = [
        (_("A folder"), "/home/user/models/Qwen3-8B", _("as it was downloaded: with config.json and the weights; ~ is your home")),
        (_("A .gguf file"), "~/models/qwen3-8b-q4.gguf", _("by its path")),
        (_("A repository id"), "Qwen/Qwen3-8B", _("downloaded at the first start, unless it lies here already")),
    ]
    parts: list[Part] = [(_("A model that the list above does not show. Enter reads it, and the memory bar below tells whether it fits."), TEXT)]
    for label, example, told in rows:
        parts += [("\n\n" + label + "\n", f"bold {ACCENT}"), ("  " + example, TEXT), ("\n  " + told, DIM)]
    return content(parts)


def keys_help() -> Content:
    """F1 where no field is focused: what the keys do."""
    keys = [
        ("Enter", _("next step")),
        ("Esc", _("back; nothing that you entered is lost")),
        ("Tab, Shift+Tab", _("next or previous field; the arrow keys do the same")),
        (_("Arrows, Space"), _("choose in a list, tick a box")),
        ("F1", _("help on the field under the cursor")),
        ("F2", _("the whole plan, with the reason for every decision")),
        ("F3", _("the log of a start that failed: paste or open it")),
        ("Ctrl+P", _("find a step, a field, a flag or a recipe")),
        ("Ctrl+T", _("dark, light, or the terminal's own colours")),
        ("Ctrl+R", _("let the wizard decide this field again")),
        ("Ctrl+Q", _("leave; your answers are kept")),
    ]
    width = max(cell_len(k) for k, _t in keys)
    parts: list[Part] = []
    for key, told in keys:
        parts += [(pad(key, width) + "  ", f"bold {ACCENT}"), (told + "\n", TEXT)]
    parts.append(("\n" + _("Nothing is written before you say so on the last step."), DIM))
    return content(parts)


# -- one flag ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FlagEdit:
    """What came out of editing a flag: a text, or "decide again"."""

    text: str = ""
    reset: bool = False
    unchanged: bool = False  # what stood there was taken as it is


class FlagDialog(Dialog[FlagEdit]):
    """Set one flag by hand. ``check`` gives an error text for a value, or None."""

    def __init__(self, row: FlagRow, given: tuple[Value, Layer] | None, check: Callable[[str], str | None]) -> None:
        super().__init__()
        self.row, self.given, self.check = row, given is not None, check
        self.now = row.value if row.value is not None or given is None else text.value_text(given[0])
        self.stood = self.now or ""
        self.title_text = row.flag
        self.hint = _("Enter takes it, Esc leaves it")
        self.choices = row.choices if row.choices else (("true", "false") if row.kind in ("flag", "optional_flag") else ())

    def body(self) -> Iterator[Widget]:
        row = self.row
        parts: list[Part] = [(row.meaning, TEXT), ("\n\n" + _("vLLM's default: {default}").format(default=row.default or _("not set, vLLM decides")), DIM)]
        if row.memory:
            parts.append(("\n" + _("Memory: {effect}").format(effect=row.memory), DIM))
        if row.reason:
            parts.append(("\n" + row.reason, DIM))
        parts.append(("\n", TEXT))
        yield Static(content(parts), classes="block")
        if self.choices:
            chooser = Chooser(id="flag-choice", max_lines=10)
            yield chooser
        else:
            # With its text from the start: put in later, it could replace what is typed meanwhile.
            line = LineInput(id="flag-text")
            line.set_text(self.now or "")
            yield line
        yield Static(id="flag-error", classes="block")

    def on_mount(self) -> None:
        if self.choices:
            chooser = self.query_one("#flag-choice", Chooser)
            chooser.set_choices([Choice(c, c) for c in self.choices])
            from wizard.releases.parse import YES

            now = self.now if self.now is not None else self.row.default
            # The catalogue writes a switch's default as Python does; one that has none is off.
            self.stood = now if self.row.choices else "true" if now.lower() in YES and now else "false"
            chooser.set_value(self.stood)
        self.query_one("#flag-error").display = False
        super().on_mount()

    def first(self) -> Widget | None:
        return self.query_one("#flag-choice" if self.choices else "#flag-text")

    def buttons(self) -> Iterator[PushButton]:
        yield PushButton(_("Take it"), id="take")
        if self.given:
            yield PushButton(_("Let the wizard decide"), id="reset")

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        if event.button.id == "reset":
            self.dismiss(FlagEdit(reset=True))
        else:
            self.action_default()

    def action_default(self) -> None:
        value = self.query_one("#flag-choice", Chooser).value if self.choices else self.query_one("#flag-text", LineInput).value.strip()
        if not value:
            self.dismiss(FlagEdit(reset=True))
            return
        wrong = self.check(value)
        box = self.query_one("#flag-error", Static)
        box.display = bool(wrong)
        if wrong:
            box.update(Content.styled(f"{glyphs_of(self).attention} {wrong}", BAD))
            return
        self.dismiss(FlagEdit(text=value, unchanged=value == self.stood))


# -- palette ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One thing that the palette finds."""

    key: str
    kind: str  # as a word: "step", "flag", "recipe", "theme"
    name: str
    note: str = ""
    search: str = ""


class Palette(Dialog[str]):
    """Find a step, a field, a flag, a recipe, a theme; the key of what was taken is returned."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "rows_up", show=False, priority=True),
        Binding("down", "rows_down", show=False, priority=True),
        Binding("enter", "default", show=False, priority=True),
    ]

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self.title_text = _("Find a step, a field, a flag, a recipe")
        self.hint = _("Enter goes there, Esc closes")
        self.entries = list(entries)

    def body(self) -> Iterator[Widget]:
        yield LineInput(id="palette-text", placeholder=_("type a part of its name"))
        yield Rows(id="palette-rows", max_lines=14, empty=_("Nothing is called like that."))

    def on_mount(self) -> None:
        super().on_mount()
        self.fill()

    def first(self) -> Widget | None:
        return self.query_one("#palette-text")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.fill()

    def fill(self) -> None:
        words = self.query_one("#palette-text", LineInput).value.lower().split()
        found = matching(self.entries, words)[:60]
        rows = self.query_one("#palette-rows", Rows)
        rows.set_rows([Row(e.key, self._drawer(e)) for e in found])
        rows.cursor = 0
        rows.chosen = found[0].key if found else None
        rows.refresh()

    def _drawer(self, entry: Entry) -> Any:
        def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
            glyphs = glyphs_of(self)
            mark = glyphs.cursor if chosen else " "
            name_width = max(12, min(36, width // 2))
            parts: list[Part] = [
                (mark + " ", ACCENT),
                (pad(entry.kind, 8), DIM),
                (pad(entry.name, name_width, glyphs.ellipsis), f"bold {ACCENT}" if chosen else TEXT),
                ("  " + clip(entry.note, max(0, width - name_width - 14), glyphs.ellipsis), DIM),
            ]
            return [content(parts)]

        return draw

    def _go(self, by: int) -> None:
        rows = self.query_one("#palette-rows", Rows)
        if rows.rows:
            rows.cursor = max(0, min(len(rows.rows) - 1, rows.cursor + by))
            rows.chosen = rows.cursor_key
            rows.refresh()

    def action_rows_up(self) -> None:
        self._go(-1)

    def action_rows_down(self) -> None:
        self._go(1)

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        self.dismiss(event.key)

    def action_default(self) -> None:
        self.dismiss(self.query_one("#palette-rows", Rows).cursor_key)


def matching(entries: Sequence[Entry], words: Sequence[str]) -> list[Entry]:
    """Entries that hold all words, those whose name starts with the first one first."""

    def rank(entry: Entry) -> tuple[int, int]:
        name = entry.name.lower().lstrip("-")
        if name == " ".join(words):
            return -1, 0
        return (0 if words and name.startswith(words[0]) else 1 if words and words[0] in name else 2, len(name))

    hits = [e for e in entries if all(w in f"{e.name} {e.note} {e.search} {e.kind}".lower() for w in words)]
    return sorted(hits, key=rank) if words else hits
