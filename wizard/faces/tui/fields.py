"""A question as it stands on a step: its label, the control for its kind, and one note that may be an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from wizard.errors import BadInput
from wizard.faces.tui.text import value_text
from wizard.faces.tui.walk import Walk
from wizard.faces.tui.widgets import Chooser, Control, Cycler, LineInput, MultiChooser, Toggle, glyphs_of
from wizard.i18n import _
from wizard.plan_types import Choice, Plan
from wizard.session import Value
from wizard.steps import Question, parse_value

AnyControl = Union[LineInput, Toggle, Cycler, Chooser, MultiChooser]  # noqa: UP007 - evaluated on Python 3.10


@dataclass(frozen=True)
class Reading:
    """What a field holds. ``empty``: nothing was given, the plan decides."""

    value: Value | None = None
    error: str | None = None
    empty: bool = False


class Field(Vertical):
    """One question. It shows the plan's value until the user changes it."""

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
        self._note = ""
        tall = question.kind in ("text", "path", "list", "secret") or (question.kind in ("choice", "multi") and not compact)
        self.set_class(tall, "-tall")
        self.tall = tall
        self.control = self._make_control()

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
        return LineInput(id=id, number=kind in ("int", "float"), password=self.question.secret, placeholder=placeholder)

    def compose(self) -> ComposeResult:
        label = Static(Content(_(self.question.label)), classes="label")
        unit = Static(Content(_(self.question.unit)), classes="unit") if self.question.unit else None
        if self.tall:
            yield label
            yield self.control
        else:
            with Horizontal(classes="row"):
                yield label
                yield self.control
                if unit is not None:
                    yield unit
        yield Static(classes="note")

    # -- showing ----------------------------------------------------------------------------------------------

    def show(self, walk: Walk) -> None:
        """Show the plan's value, choices and reason; what the user is just typing stays."""
        plan = walk.plan
        if plan is None:
            self.display = False
            return
        visible = self.question.when(plan)
        self.display = visible
        if not visible:
            return
        if isinstance(self.control, (Chooser, Cycler, MultiChooser)):
            touched = self.touched
            self.control.set_choices(choices_of(self.question, plan))
            if touched:
                self._say(walk)
                return
        if self.question.secret:
            self._say(walk)
            return
        if not self.touched:
            self.put(plan.value(self.question.key))
        self._say(walk)

    def put(self, value: Value | None) -> None:
        """Fill the control as the program, not as the user."""
        self.shown = value
        if isinstance(self.control, LineInput):
            self.control.set_text("" if value is None else value_text(value))
        else:
            self.control.set_value(value)

    def _say(self, walk: Walk) -> None:
        plan = walk.plan
        if plan is None:
            return
        if self.error:
            self._set_note(f"{glyphs_of(self).attention} {self.error}")
            return
        if self.question.secret:
            self._set_note(self._secret_note(walk))
            return
        decision = plan.decision(self.question.key)
        note = decision.reason if decision is not None else ""
        if self.question.kind == "choice" and self.compact:
            choice = next((c for c in choices_of(self.question, plan) if c.value == str(plan.value(self.question.key))), None)
            if choice is not None and choice.against:
                note = f"{note} {choice.against}".strip()
        self._set_note(note)

    def _secret_note(self, walk: Walk) -> str:
        if walk.secrets.get(self.question.key):
            return _("Given; it is written to vllm.env only.")
        return _(self.question.help)

    def _set_note(self, text: str) -> None:
        note = self.query_one(".note", Static)
        self.set_class(bool(self.error), "-error")
        if text != self._note:
            self._note = text
            note.update(Content(text))
        note.display = bool(text)

    def set_error(self, text: str, walk: Walk) -> None:
        """Show an error beside the field ("" takes it away)."""
        self.error = text
        self._say(walk)

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
