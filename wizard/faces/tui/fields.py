"""A question as it stands on a step: its label, the control for its kind, and one note that may be an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from rich.cells import cell_len
from textual.app import ComposeResult, RenderResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from wizard.errors import BadInput
from wizard.faces.tui.text import ACCENT, BAD, BOLD, DIM, TEXT, join, value_text
from wizard.faces.tui.walk import Walk
from wizard.faces.tui.widgets import Chooser, Control, Cycler, LineInput, MultiChooser, Toggle, glyphs_of
from wizard.i18n import _, sentence, sentences
from wizard.plan_types import Choice, Plan
from wizard.session import Value
from wizard.steps import Question, parse_value

AnyControl = Union[LineInput, Toggle, Cycler, Chooser, MultiChooser]  # noqa: UP007 - evaluated on Python 3.10


INDENT = 2  # the mark of the focus, and a gap


@dataclass(frozen=True)
class _Places:
    """Where things stand in a field, in cells from its upper left corner."""

    width: int
    top: int  # of the control
    left: int
    control_width: int  # 0: the rest of the line
    note_top: int


@dataclass(frozen=True)
class Reading:
    """What a field holds. ``empty``: nothing was given, the plan decides."""

    value: Value | None = None
    error: str | None = None
    empty: bool = False


class Field(Widget):
    """One question. It shows the plan's value until the user changes it.

    Label, unit, note and the mark of the focus are drawn by the field itself; the control is its only child.
    So a step of a dozen questions is a few dozen widgets, and changing steps stays quick.
    """

    class Edited(Message):
        def __init__(self, field: Field) -> None:
            super().__init__()
            self.field = field

    def __init__(self, question: Question, *, compact: bool = False) -> None:
        super().__init__(id=f"field-{question.key}")
        self.question = question
        self.compact = compact
        self.shown: Value | None = None  # what we put in last; the user's own input differs from it
        self.error = ""
        self.note = ""
        self.tall = question.kind in ("text", "path", "list", "secret") or (
            question.kind in ("choice", "multi") and not compact
        )
        self.control = self._make_control()
        self._places = _Places(0, 0, 0, 0, 0)
        self._drawn: tuple[object, ...] = ()

    def _make_control(self) -> AnyControl:
        kind, id = self.question.kind, f"q-{self.question.key}"
        if kind == "bool":
            return Toggle(id=id)
        if kind == "choice":
            return Cycler(id=id) if self.compact else Chooser(id=id, max_lines=12)
        if kind == "multi":
            return MultiChooser(id=id)
        placeholder = _("optional") if self.question.optional else ""
        if kind == "list":
            placeholder = _("name=path, name=path")
        if self.question.key == "nodes_file":  # left empty only where the answers file itself lists them
            placeholder = _("a file with [[nodes]]")
        return LineInput(id=id, password=self.question.secret, placeholder=placeholder)

    def compose(self) -> ComposeResult:
        yield self.control

    # -- showing ----------------------------------------------------------------------------------------------

    def show(self, walk: Walk, width: int) -> None:
        """Show the plan's value, choices and reason in ``width`` cells; what the user is just typing stays."""
        plan = walk.plan
        visible = plan is not None and self.question.when(plan)
        self.display = visible
        if plan is None or not visible:
            return
        touched = self.touched
        if isinstance(self.control, (Chooser, Cycler, MultiChooser)):
            self.control.set_choices(choices_of(self.question, plan))
        if not touched and not self.question.secret:
            self.put(self.question.current(plan))
        self.say(walk)
        self.place(width)

    def put(self, value: Value | None) -> None:
        """Fill the control as the program, not as the user."""
        self.shown = value
        if isinstance(self.control, LineInput):
            self.control.set_text("" if value is None else value_text(value))
        else:
            self.control.set_value(value)

    def set_error(self, told: str, walk: Walk) -> None:
        """Show an error beside the field ("" takes it away)."""
        self.error = told
        self.say(walk)
        if self._places.width:
            self.place(self._places.width)

    def say(self, walk: Walk) -> None:
        """Choose the note: the error, else why the value is what it is."""
        plan = walk.plan
        if plan is None:
            return
        if self.error:
            self.note = f"{glyphs_of(self).attention} {self.error}"
        elif self.question.secret:
            given = walk.secrets.get(self.question.key)
            self.note = _("Given; it is written to vllm.env only.") if given else _(self.question.help)
            if given and given == walk.made_key:
                self.note = _("None was typed: the one that stands in vllm.env is taken, or a random one. What you type here takes its place.")
            if walk.misses_secret(self.question.key):
                self.note = sentences(_("Given last time and not kept: give it again, or leave it empty."), self.note)
        else:
            decision = plan.decision(self.question.key)
            self.note = decision.reason if decision is not None else ""
            if self.question.key == "release" and decision is None:
                # None can be taken: why, and what to do, stands under the list.
                self.note = next((sentences(sentence(b.title), b.detail) for b in plan.blockers if b.code == "no_release"), "")
            if self.question.key == "release" and decision is not None and decision.chosen:
                # Its row has room for the beginning alone of what is known of it.
                note = next((c.note for c in choices_of(self.question, plan) if c.value == str(decision.value)), "")
                self.note = sentences(sentence(self.note), sentence(note)) if note else self.note
            if self.question.kind == "choice" and self.compact:
                value = str(self.question.current(plan))
                choice = next((c for c in choices_of(self.question, plan) if c.value == value), None)
                if choice is not None and choice.against:
                    self.note = f"{self.note} {choice.against}".strip()

    def place(self, width: int) -> None:
        """Lay label, control and note out in ``width`` cells."""
        room = width - INDENT
        label_width = room if self.tall else 34 if room >= 56 else 24
        label = Content(_(self.question.label)).wrap(label_width if self.tall else label_width - 1)
        note = Content(self.note).wrap(room) if self.note else []
        control = self.control
        high = control.height_at(room) if isinstance(control, (Chooser, MultiChooser)) else 1
        wide = 0
        if isinstance(control, LineInput) and self.question.kind in ("int", "float"):
            wide = 16 if room >= 56 else max(9, cell_len(control.placeholder) + 3)
        top, left = (len(label), INDENT) if self.tall else (0, INDENT + label_width)
        note_top = len(label) + high if self.tall else max(len(label), high)
        places = _Places(width, top, left, wide, note_top)
        if places != self._places or control.styles.height is None or control.size.height != high:
            self._places = places
            control.styles.margin = (top, 0, 0, left)
            control.styles.width = wide or "1fr"
            control.styles.height = high
        self.styles.height = note_top + len(note)
        drawn = (width, self.note, bool(self.error), high)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def on_descendant_focus(self) -> None:
        self.refresh()

    def on_descendant_blur(self) -> None:
        if isinstance(self.control, LineInput) and not self.control.value and self.question.optional and not self.question.secret:
            self.put(self.shown)  # left empty: the value in force stands there again
        self.refresh()

    def render(self) -> RenderResult:
        places = self._places
        if not places.width:
            return ""
        room = places.width - INDENT
        mark = glyphs_of(self).edge if self.control.has_focus else " "
        start = Content.styled(mark, ACCENT) + " "
        label_style = BOLD if self.control.has_focus else TEXT
        label_width = room if self.tall else places.left - INDENT - 1
        label = Content.styled(_(self.question.label), label_style).wrap(label_width)
        if isinstance(self.control, Chooser) and self.control.has_focus:
            # The cursor is the answer: who only wants to pass by must know how.
            hint = "   " + _("the arrows choose, Tab goes on")
            if label[-1].cell_length + cell_len(hint) <= room:
                label = [*label[:-1], label[-1] + Content.styled(hint, DIM)]
        lines = [start + line for line in label]
        if self.question.unit and places.control_width:
            lines[0] = lines[0].pad_right(places.left + places.control_width + 1 - lines[0].cell_length)
            lines[0] += Content.styled(_(self.question.unit), DIM)
        lines += [start] * (places.note_top - len(lines))
        if self.note:
            lines += [start + line for line in Content.styled(self.note, BAD if self.error else DIM).wrap(room)]
        return join(lines)

    # -- reading ----------------------------------------------------------------------------------------------

    @property
    def touched(self) -> bool:
        """Whether the control differs from what we put in."""
        if self.question.secret:
            return isinstance(self.control, LineInput) and bool(self.control.value)
        if isinstance(self.control, LineInput):
            return self.control.value.strip() != ("" if self.shown is None else value_text(self.shown))
        if isinstance(self.control, (Chooser, Cycler)):
            return self.shown is not None and self.control.value != str(self.shown)
        if isinstance(self.control, MultiChooser):
            return set(self.control.value) != set(self.shown if isinstance(self.shown, tuple) else ())
        return self.control.value != bool(self.shown)

    def read(self, plan: Plan) -> Reading:
        """The value in the control, checked."""
        if isinstance(self.control, LineInput):
            text = self.control.value.strip()
            if not text:
                if self.question.kind == "list":
                    return Reading(value=())
                return Reading(empty=True) if self.question.optional else Reading(error=_("This may not be left empty."))
            try:
                value: Value = parse_value(self.question, text)
            except BadInput as error:
                return Reading(error=_plain(str(error), self.question.key))
        elif isinstance(self.control, Toggle):
            value = self.control.value
        else:
            value = self.control.value
            if value in ("", ()):
                if self.question.optional:
                    return Reading(empty=True)
                return Reading(error=_("Choose one."))
        wrong = self.question.error(plan, value)
        return Reading(value=value, error=wrong)

    def focus_control(self) -> None:
        self.control.focus()

    # -- messages ---------------------------------------------------------------------------------------------

    def on_control_edited(self, event: Control.Edited) -> None:
        event.stop()
        self.post_message(self.Edited(self))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Edited(self))


def _plain(message: str, key: str) -> str:
    """The field is where the error stands, so its name need not be said again."""
    return message.removeprefix(f"{key}: ")


def choices_of(question: Question, plan: Plan) -> tuple[Choice, ...]:
    choices = question.choices(plan)
    if choices or question.key != "gpus":
        return choices
    from wizard.faces.tui.text import gib

    return tuple(
        Choice(str(g.index), f"{g.index}  {g.name}", note=gib(g.vram_total_bytes.value)) for g in plan.machine.gpu.gpus
    )


def help_widget(widget: Widget | None) -> Field | None:
    """The field that a focused control belongs to."""
    while widget is not None:
        if isinstance(widget, Field):
            return widget
        parent = widget.parent
        widget = parent if isinstance(parent, Widget) else None
    return None
