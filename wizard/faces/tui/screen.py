"""The walk's one screen: three zones, and the step in the middle. Keys, going from step to step, writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import Reactive
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

from wizard.errors import BadInput, WizardError
from wizard.faces.tui import look, panes, text, ways
from wizard.faces.tui.ahead import Ahead
from wizard.faces.tui.fields import Field, help_widget
from wizard.faces.tui.look import CSS, SMALLEST, THREE_ZONES
from wizard.faces.tui.text import ACCENT, BOLD, DIM, OK, TEXT, WARN, Part, content
from wizard.faces.tui.views import (
    FlagsView,
    MachineView,
    ModelView,
    MoveView,
    ReviewView,
    StepView,
    WhereView,
    short_path,
    state_word,
    view_for,
)
from wizard.faces.tui.walk import Walk, copy_here
from wizard.faces.tui.widgets import Control, LineInput, Panel, PushButton, Rows, Toggle, more_marks
from wizard.i18n import _, sentences
from wizard.plan_types import Step as TypeNext
from wizard.program import spelt
from wizard.session import Answers, Layer, Session, expand, holds_command, looks_like_command

if TYPE_CHECKING:
    from wizard.faces.tui.paste import Pasted
    from wizard.faces.tui.work import Wizard
    from wizard.plan_types import Notice, Plan

SETTLE_S = 0.09  # so long after the last key press is planned anew
SHOW_S = 0.05  # between two looks at a field that was gone to


class Rail(Panel):
    """The steps; a click goes there."""

    def on_click(self, event: events.Click) -> None:
        screen = self.screen
        if not isinstance(screen, WalkScreen):
            return
        steps = screen.walk.steps()
        at = event.get_content_offset_capture(self).y // 2
        if 0 <= at < len(steps):
            screen.go_to(steps[at].id)


class Footer(Panel):
    """At most six keys, each with what it does; a click presses it."""

    def show_keys(self, keys: list[tuple[str, str, str]]) -> None:
        parts: list[Part] = []
        self._spans: list[tuple[int, int, str]] = []
        words = sum(cell_len(key) + 1 + cell_len(label) for key, label, _action in keys[:6])
        gap = max(1, min(3, (self.screen.size.width - 2 - words) // 5))
        at = 0
        for key, label, action in keys[:6]:
            size = cell_len(key) + 1 + cell_len(label)
            self._spans.append((at, at + size, action))
            parts += [(key, f"bold {ACCENT}"), (" " + label + " " * gap, TEXT)]
            at += size + gap
        self.put(content(parts))

    async def on_click(self, event: events.Click) -> None:
        x = event.get_content_offset_capture(self).x
        for start, end, action in getattr(self, "_spans", []):
            if start <= x < end:
                await self.screen.run_action(action)


class NavButton(PushButton):
    """Next or Back: the arrows go to the one that lies there, whatever comes first by Tab."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "to('back')", show=False),
        Binding("right", "to('next')", show=False),
    ]

    def action_to(self, other: str) -> None:
        button = self.screen.query_one(f"#{other}", PushButton)
        if button.display:
            button.focus()


def set_title(frame: Widget, title: str) -> None:
    """Set a frame's title; setting the same again would draw the whole frame anew."""
    if str(frame.border_title or "") != title:
        frame.border_title = title


class Found(NamedTuple):
    """The files of a plan against the disk."""

    session: Session
    applied: bool  # .wslconfig in place, not as a proposal
    changes: list[Any]
    complete: Plan  # with the secrets that were made for it
    error: str


class WalkScreen(Screen[None]):
    """The walk itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", show=False),
        Binding("escape", "back", show=False),
        Binding("f1", "help", show=False),
        Binding("f2", "plan", show=False),
        Binding("f3", "diagnose", show=False),
        Binding("ctrl+p", "find", show=False),
        Binding("ctrl+t", "theme", show=False),
        Binding("ctrl+r", "reset", show=False),
        Binding("a", "ask_again", show=False),
        Binding("c", "copy", show=False),
        Binding("w", "ways", show=False),
        Binding("up", "go_up", show=False),
        Binding("down", "go_down", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]
    AUTO_FOCUS = None
    CSS = CSS
    SCOPED_CSS = False  # the dialogs over it are styled by the same sheet
    # The screen itself looks the same whatever is focused: drawing all of it anew would make every Tab slow.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    def __init__(self, wizard: Wizard) -> None:
        super().__init__()
        self.wizard = wizard
        self.views: dict[str, StepView] = {}
        self.busy = False  # a step change is under way
        self._next_pending = False
        self._settle: Timer | None = None
        self._resized: Timer | None = None
        self._edited: set[Field] = set()
        self._files: list[tuple[str, str]] = []
        self._files_timer: Timer | None = None
        self._found_out: Found | None = None
        self.ahead = Ahead(self)
        self.go_on_when_ready = False
        self.pasted_early = ""  # before there was a plan to take it into
        self.apply_wslconfig = False
        self._paged_out: Widget | None = None  # what lost the focus when it was paged out of view
        self._written_answers: Answers | None = None  # those that the written files were made from
        self._unfit_taken: str | None = None  # a model that does not fit, and was gone on with knowingly
        self._nowhere_told: list[Notice] = []  # why an answer to where it runs cannot be, that was shown once

    # -- composing --------------------------------------------------------------------------------------------

    @property
    def walk(self) -> Walk:
        return self.wizard.walk

    def compose(self) -> ComposeResult:
        yield Panel(id="header")
        with Horizontal(id="zones"):
            with Vertical(id="rail", classes="frame") as rail:
                rail.border_title = _("Steps")
                yield Rail(id="rail-text")
            with Vertical(id="main", classes="frame"):
                yield Container(id="steps")
                with Horizontal(id="nav"):
                    yield NavButton(_("Back"), id="back")
                    yield Panel(id="more")
                    yield NavButton(_("Next"), id="next")
            with VerticalScroll(id="plan", classes="frame", can_focus=False) as plan:
                plan.border_title = _("Plan")
                yield Panel(id="plan-text")
        yield Footer(id="footer")
        yield Panel(id="too-small")

    async def on_mount(self) -> None:
        self.set_class(self.wizard.ascii_only, "-ascii")
        look.set_width_classes(self, self.app.size.width)
        await self._enter(self.walk.step_id)
        self.query_one("#next", PushButton).focus()
        self.call_after_refresh(self.wizard.begin)

    @property
    def focus_chain(self) -> list[Widget]:
        """In the order drawn, but that Next comes before Back: Tab and Enter go on."""
        chain = super().focus_chain
        backs = [w for w in chain if w.id == "back" and isinstance(w, NavButton)]
        at = next((i for i, w in enumerate(chain) if w.id == "next" and isinstance(w, NavButton)), None)
        if backs and at is not None:
            chain.insert(at + 1, backs[0])
            chain.remove(backs[0])
        return chain

    def on_screen_suspend(self) -> None:
        footer = self.query("#footer")
        if footer:
            footer.only_one(Footer).show_keys([])  # what lies over the walk has keys of its own

    def on_screen_resume(self) -> None:
        if self.query("#footer"):
            self._show_footer()
        if not self.wizard.opens_with_log:
            self.wizard.walk_in_view()

    @property
    def unsettled(self) -> bool:
        """Whether an edit, a move of the cursor or a resize still waits for its moment."""
        return self._settle is not None or self._resized is not None or self.wizard.model_pending()

    # -- size -------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        tiny = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(tiny, "-tiny")
        look.set_width_classes(self, width)
        if tiny:
            told = _("This window has {w} columns and {h} rows; at least {mw} and {mh} are needed. Make it larger to go on; Ctrl+Q leaves.")
            self.query_one("#too-small", Panel).put(
                Content(told.format(w=width, h=height, mw=SMALLEST[0], mh=SMALLEST[1]))
            )
        self._fold_later()

    def _fold_later(self) -> None:
        """Texts are folded by hand in places: once the zones have their new sizes, they are made anew."""
        if self._resized is not None:
            self._resized.stop()
        self._resized = self.set_timer(0.06, self._fold_anew)

    def _fold_anew(self) -> None:
        self._resized = None
        self.show()

    # -- showing ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> StepView | None:
        return self.views.get(self.walk.step_id)

    def show(self) -> None:
        """Bring every zone up to date with the plan."""
        if not self.app.is_running or not self.is_mounted or not self.is_attached or not self.query("#footer"):
            return  # it does not stand yet, or is being taken down
        view = self.view
        with self.app.batch_update():
            if view is not None and view.is_mounted and view.children:
                self._written_no_more(view)
                self.tell(view)
                view.bring_up(self.walk, anew=True)
            self._show_zones()
        self.ahead.later()

    def _bring_up(self, view: StepView) -> None:
        """The same on arrival, where the view may stand as it should be already."""
        self._written_no_more(view)
        self.tell(view)
        view.bring_up(self.walk)
        self._show_zones()

    def _written_no_more(self, view: StepView) -> None:
        """Something was answered anew after the files were written: what stands on the disk is no longer the plan."""
        made_from = self._written_answers
        if isinstance(view, ReviewView) and view.written and made_from is not None and self.walk.answers != made_from:
            self._review_again(view)
            plan = self.walk.plan
            if plan is not None and view.nothing_to_write(plan):
                self._hint(_("Your answers have changed since the files were written, and something stands in the way: see the top of this step."))
            else:
                self._hint(_("Your answers have changed since the files were written: Enter writes them anew."))

    def _review_again(self, view: ReviewView) -> None:
        """From what is to be typed next back to the files, as they stand on the disk now."""
        view.written, self._written_answers = False, None
        self._refresh_changes(view)
        self.query_one("#next", PushButton).focus()

    def tell(self, view: StepView) -> None:
        """Tell a view what it shows besides the plan."""
        if isinstance(view, ReviewView):
            view.moved = self.wizard.moved()
            view.copying = self.wizard.copies()
            view.may_start = self.wizard.may_start()
            view.may_apply = self.wizard.may_apply_wslconfig()
            found = self._found_that_holds()
            # A random API key is only taken over where its file is shown.
            if found is not None and found.complete.session.secrets == self.walk.secrets:
                self._take_changes(view, found)

    def _show_zones(self) -> None:
        self.show_frame()
        self._show_plan()
        self._show_footer()

    def show_frame(self) -> None:
        walk, glyphs = self.walk, self.wizard.glyphs
        steps, at = walk.steps(), walk.index()
        width = self.size.width
        name = self.wizard.host_name
        left: list[Part] = [("vllm-wizard", f"bold {ACCENT}"), (f"  {name}" if name else "", DIM)]
        right: list[Part] = panes.progress(walk, glyphs) if width < THREE_ZONES else []
        # How many steps there are is only known once the machine has answered.
        where = _("step {n} of {total}") if walk.plan is not None else _("step {n}")
        right.append((where.format(n=at + 1, total=len(steps)), TEXT))
        # What is in the middle gives way first, then the machine's name: the step is always told in full.
        room = width - 3 - content(right).cell_length
        copying = text.clip(self.wizard.copying(), room - content(left).cell_length - 3, glyphs.ellipsis)
        if copying and cell_len(copying) >= 6 and width >= 70:
            right.insert(0, (copying + "   ", WARN))
        elif content(left).cell_length > room:
            left = left[:1]
        gap = max(1, width - 2 - content(left).cell_length - content(right).cell_length)
        self.query_one("#header", Panel).put(content([*left, (" " * gap, ""), *right]))
        set_title(self.query_one("#main"), f"{at + 1} {_(walk.step.title)}")
        if width >= THREE_ZONES:
            rail = self.query_one("#rail-text", Rail)
            rail.put(panes.rail(walk, glyphs, max(12, rail.size.width or 18)))
        view = self.view
        next_label = _(view.enter_label(walk.plan)) if view is not None else _("Next")
        written = isinstance(view, ReviewView) and view.written
        if self.has_class("-written") != written:
            self.set_class(written, "-written")
            self._fold_later()  # the plan's zone came or went: there is other room for the text
        self.query_one("#next", PushButton).rename(f"{next_label} {glyphs.right}")
        back = self.query_one("#back", PushButton)
        back.rename(f"{glyphs.left} {_('Back')}")
        back.display = walk.neighbour(-1) is not None
        self._show_more()

    def _show_more(self) -> None:
        view = self.view
        marks = more_marks(view, self.wizard.glyphs) if view is not None and view.is_mounted else []
        self.query_one("#more", Panel).put(Content.styled("  ".join(marks), DIM))

    def _show_plan(self) -> None:
        if self.size.width < THREE_ZONES:
            return
        box = self.query_one("#plan-text", Panel)
        width = max(20, box.content_size.width)
        box.put(panes.plan_pane(self.walk, self.wizard.glyphs, width, self._files))

    def _show_footer(self) -> None:
        if isinstance(self.app.screen, ModalScreen):
            return  # it has keys of its own
        focused = self.focused
        view = self.view
        enter = _("Next")
        if isinstance(focused, Rows) and focused.opens:
            enter = _("Change") if focused.id == "flag-rows" else _("Open")
        elif isinstance(focused, LineInput) and focused.id == "typed" and focused.value.strip():
            enter = _("Read it")
        elif isinstance(focused, LineInput) and focused.id == "flag-filter":
            enter = _("To the list")
        elif isinstance(focused, PushButton) and focused.id == "start":
            enter = _("Start")
        elif isinstance(focused, PushButton) and focused.id not in ("next",):
            label = focused.label
            enter = label if cell_len(label) <= 14 else _("Press")
        elif isinstance(view, ReviewView):
            enter = _(view.enter_label(self.walk.plan))
        keys = [("Enter", enter, "next")]
        if isinstance(view, ReviewView) and self.walk.plan is not None and view.asks_again(self.walk.plan):
            keys = [("Enter", _("Ask again"), "next"), *([("c", _("Copy"), "copy")] if self._to_copy() else [])]
        elif isinstance(view, ReviewView) and self.walk.plan is not None and view.nothing_to_write(self.walk.plan):
            keys = [("Enter", enter, "next")] if ways.ways_of(self.walk.plan) else []
        elif isinstance(view, ModelView) and ways.ways_of(self.walk.plan):
            keys.append(("w", _("What would fit"), "ways"))
        elif self._to_copy():
            keys.append(("c", _("Copy"), "copy"))
        if self.walk.neighbour(-1) is not None:
            keys.append(("Esc", _("Back"), "back"))
        # Six at most: what only this step has comes before what every step has.
        own = [("F3", _("Failed log"), "diagnose")] if isinstance(view, MachineView) else []
        room = 6 - len(keys) - len(own) - 2
        keys += [
            ("F1", _("Help"), "help"),
            *([("F2", _("Plan"), "plan")] if room >= 2 else []),
            *own,
            *([("^P", _("Find"), "find")] if room >= 1 else []),
            ("^Q", _("Quit"), "app.quit"),
        ]
        self.query_one("#footer", Footer).show_keys(keys)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        item = help_widget(event.widget)
        if item is not None:
            item.scroll_visible(animate=False)
        self._show_footer()
        self.call_after_refresh(self._show_more)

    # -- editing ----------------------------------------------------------------------------------------------

    def on_step_view_grown(self, event: StepView.Grown) -> None:
        event.stop()
        self.call_after_refresh(self._show_more)

    def on_control_edited(self, event: Control.Edited) -> None:
        view = self.view
        if isinstance(event.source, Toggle) and event.source.id == "apply-wslconfig" and isinstance(view, ReviewView):
            self.apply_wslconfig = event.source.value
            self._refresh_changes(view)
            self.show()

    def on_field_edited(self, event: Field.Edited) -> None:
        self._edited.add(event.field)
        self._settle_later()

    def _settle_later(self) -> None:
        if self._settle is not None:
            self._settle.stop()
        self._settle = self.set_timer(SETTLE_S, self.settle)

    def settle(self) -> None:
        """Take what was edited since the last time into the answers, and show the new plan."""
        if self._settle is not None:
            self._settle.stop()
            self._settle = None
        edited, self._edited = self._edited, set()
        if not edited:
            return
        with self.walk.together():
            for item in edited:
                self._take(item, typing=True)
        view = self.view
        if isinstance(view, ReviewView):
            self._refresh_changes(view)
        self.show()
        self._files_later()

    def _take(self, item: Field, typing: bool = False) -> bool:
        """Read one field into the answers. False when what stands in it cannot be taken (said beside it).

        ``typing``: a field that was emptied stays so while it has the focus, for what is typed into it next.
        """
        walk, plan = self.walk, self.walk.plan
        if plan is None or not item.display:
            return True
        key = item.question.key
        if not item.touched:
            item.set_error("", walk)
            return True
        reading = item.read(plan)
        if reading.error:
            item.set_error(reading.error, walk)
            return False
        item.set_error("", walk)
        if item.question.secret:
            walk.set_secret(key, str(reading.value) if reading.value is not None else None)
            return True
        if reading.empty or reading.value is None:
            walk.forget(key)
        elif item.question.kind == "path":
            # The files lie on this machine, also when another one is planned for.
            home = str(Path.home()) if key == "out_dir" and self.wizard.host_name else plan.machine.home
            walk.answer(key, expand(str(reading.value), home))
        else:
            walk.answer(key, reading.value)
        assert walk.plan is not None
        if typing and reading.empty and item.control.has_focus:
            item.shown = walk.plan.value(key)
        else:
            item.put(walk.plan.value(key))
        return True

    def commit(self) -> bool:
        """Read all fields of the step. False when one is wrong: it is said beside it, and the focus goes there."""
        view, planned = self.view, self.walk.plan
        if view is None:
            return True
        wrong: Field | None = None
        with self.walk.together():
            for item in view.fields():
                if not self._take(item) and wrong is None:
                    wrong = item
        self._edited.clear()
        if self.walk.plan is not planned or wrong is not None:
            self.show()
        if wrong is not None:
            wrong.focus_control()
        return wrong is None

    # -- going ------------------------------------------------------------------------------------------------

    async def action_next(self) -> None:
        if self.busy:
            self._next_pending = True  # Enter came while the step was still being shown: it is not lost
            return
        if self.has_class("-tiny"):
            return
        focused = self.focused
        view = self.view
        if isinstance(focused, LineInput) and focused.id == "flag-filter":
            self.query_one("#flag-rows", Rows).focus()
            return
        if isinstance(view, ModelView) and view.typed() and view.typed() != str(self.walk.plan.value("model") if self.walk.plan else ""):
            if looks_like_command(view.typed()):
                command = view.typed()
                view.forget_typed()
                self.open_paste(command)
            else:
                self.wizard.choose_model(view.typed(), typed=True)
            return
        self.settle()
        self.wizard.choose_pending_model()
        if not self._ready():
            return
        if isinstance(view, ReviewView):
            self.commit()
            await self._review_next(view)
            return
        if not self.commit() or self._offer_copy(view) or self._unfit(view) or self._nowhere(view):
            return
        follower = self.walk.neighbour(+1)
        if follower is not None:
            await self._go(follower.id)

    def _ready(self) -> bool:
        """Whether the current step can be left; if it is only a matter of waiting, it is left by itself then."""
        view = self.view
        wizard = self.wizard
        if self.walk.plan is None:
            if isinstance(view, MachineView):
                if wizard.can_skip_probes(view):
                    wizard.skip_probes()
                self.go_on_when_ready = True
                self._hint(_("Going on as soon as the machine has answered."))
            return False
        if isinstance(view, ModelView) and view.reading:
            self.go_on_when_ready = True
            self._hint(_("Going on as soon as the model has been read."))
            return False
        if isinstance(view, ModelView) and view.looking and not wizard.scan_is_slow():
            self.go_on_when_ready = True
            self._hint(_("Going on as soon as the search for models is done."))
            return False
        return True

    def _offer_copy(self, view: StepView | None) -> bool:
        """On the way from the move step: offer to start the copy that was chosen. True while that is asked."""
        plan = self.walk.plan
        if not isinstance(view, MoveView) or plan is None or plan.move is None:
            return False
        job = view.job_of(plan)
        if not plan.move.wanted or view.asked == job or view.under_way or (view.job == job and view.state != "idle"):
            return False
        from wizard.faces.tui.dialogs import Ask

        size = text.gib(plan.move.size_bytes)
        parts: list[Part] = [
            (_("{size} are copied to {place}.").format(size=size, place=plan.move.destination) + "\n\n", TEXT),
            (_("It goes on in the background while you walk on, and can be paused, stopped and taken up again. With “Later”, the command stands among the last instructions."), DIM),
        ]

        async def answered(yes: bool | None) -> None:
            if yes is None:
                return  # Esc: neither
            view.asked = job
            if yes:
                self.wizard.move_button("start")
            await self.action_next()

        self.app.push_screen(Ask(_("Copy the model now?"), content(parts), _("Copy now"), _("Later"), stays=True), answered)
        return True

    def _unfit(self, view: StepView | None) -> bool:
        """On the way from the model step with a model that does not fit: what would is offered first. True while that
        is asked."""
        plan = self.walk.plan
        model = str(plan.value("model")) if plan is not None else ""
        if not isinstance(view, ModelView) or not ways.blocked(plan) or model == self._unfit_taken:
            return False

        def go_on() -> None:
            self._unfit_taken = model
            self.call_later(self.action_next)

        ways.offer(self, go_on=go_on)
        return True

    def _nowhere(self, view: StepView | None) -> bool:
        """On the way from the step that asks where it runs, with an answer that cannot be: that is shown once before it
        is gone on from."""
        if not isinstance(view, WhereView) or self.walk.plan is None:
            return False
        wrong = view.wrong(self.walk.plan)
        if not wrong or wrong == self._nowhere_told:
            return False
        self._nowhere_told = wrong
        view.scroll_to_widget(view.query_one("#where-wrong"), animate=False)
        self._hint(_("This cannot be done as answered. Enter goes on all the same; the review says what stands in the way."))
        return True

    def action_ways(self) -> None:
        """Take one of the ways out that are named where a model does not fit."""
        if isinstance(self.view, (ModelView, ReviewView)) and ways.ways_of(self.walk.plan):
            ways.offer(self)

    def _hint(self, message: str) -> None:
        self.app.clear_notifications()  # they would cover what they speak of
        self.app.notify(message, timeout=3)

    async def ready_now(self) -> None:
        """What was waited for has come: go on if Enter was pressed meanwhile."""
        if self.go_on_when_ready:
            self.go_on_when_ready = False
            await self.action_next()

    async def action_back(self) -> None:
        if self.busy:
            return
        view = self.view
        if isinstance(view, ReviewView) and view.written:
            self._review_again(view)
            self.show()
            return
        self.go_on_when_ready = False
        self.settle()
        before = self.walk.neighbour(-1)
        if before is None:
            self._hint(_("This is the first step. Ctrl+Q leaves; your answers are kept."))
            return
        if view is not None:
            for item in view.fields():
                self._take(item)  # what is wrong stays in its field
        await self._go(before.id)

    def go_to(self, step_id: str, field: str = "") -> None:
        """Jump to a step, and to a field of it (palette, mouse)."""
        if self.walk.plan is None:
            return
        if step_id == self.walk.step_id:
            self._focus_field(field)
            return
        self.settle()
        if step_id not in {s.id for s in self.walk.steps()}:
            return
        if self.commit():
            self.run_worker(self._go(step_id, field), exclusive=True, group="go")
        else:
            self._hint(_("First correct this field, or press Ctrl+R to take back what was typed."))

    def _focus_field(self, key: str) -> None:
        if key == "typed" and isinstance(self.view, ModelView):
            self.view.query_one("#typed").focus()
            return
        found = self.view.field_of(key) if key and self.view is not None else None
        if found is not None:
            found.focus_control()
            self.call_after_refresh(self._show_field, found)

    def _show_field(self, field: Field, tries: int = 20, seen: int = 0) -> None:
        """A field below the end of the page that gets the focus has to be seen.

        Its step may only just be made: it is looked at again until it has its focus and its place, and stays there.
        """
        view = self.view
        if view is None or not field.is_attached or view not in field.ancestors:
            return
        focused, place = self.focused is field.control, field.control.region
        if seen and not focused:
            return  # someone has gone on
        if focused and place.area and view.region.contains_region(place):
            seen += 1
        elif view.size.height:
            view.scroll_to_widget(field, animate=False)
            self._show_more()
        if tries and seen < 3:
            self.set_timer(SHOW_S, lambda: self._show_field(field, tries - 1, seen))

    async def start_over(self) -> None:
        """Show the first step with no plan behind it."""
        self.walk.plan = self.walk.before = self.walk.session = None
        self._files = []
        self.walk.visited.clear()
        await self._enter("machine")

    async def _go(self, step_id: str, field: str = "") -> None:
        walk = self.walk
        if walk.step_id == "model":
            self.wizard.pin_model_while_looking()
        walk.visited.add(walk.step_id)
        await self._enter(step_id)
        self._focus_field(field)
        self.wizard.save()

    async def _enter(self, step_id: str) -> None:
        """Make ``step_id`` the step that is shown."""
        self.busy = True
        self.app.clear_notifications()
        try:
            await self.ahead.interrupt()
            walk = self.walk
            walk.step_id = step_id
            step = walk.step
            walk.step_id = step.id
            holder = self.query_one("#steps", Container)
            with self.app.batch_update():
                view = self.views.get(step.id)
                if view is None:
                    view = view_for(step)
                    self.views[step.id] = view
                    for other in self.views.values():
                        other.display = other is view
                    await holder.mount(view)
                else:
                    for other in self.views.values():
                        other.display = other is view
                if isinstance(view, ReviewView):
                    self._arrive_at_review(view)
                self._bring_up(view)
                first = view.first_focus()
                (first if first is not None else self.query_one("#next", PushButton)).focus(scroll_visible=False)
                view.scroll_home(animate=False, immediate=True)
            self.call_after_refresh(self._show_more)
        finally:
            self.busy = False
        self.wizard.entered(step.id)
        if self._next_pending:
            self._next_pending = False
            self.call_later(self.action_next)

    def action_go_up(self) -> None:
        self._scroll_or_move(-1)

    def action_go_down(self) -> None:
        self._scroll_or_move(1)

    def _scroll_or_move(self, by: int) -> None:
        view = self.view
        if view is not None and view.max_scroll_y > 0 and 0 <= view.scroll_y + by <= view.max_scroll_y:
            view.scroll_relative(y=by, animate=False)
            self.call_after_refresh(self._show_more)
        elif by < 0:
            self.focus_previous()
        else:
            self.focus_next()

    def action_page(self, by: int) -> None:
        view, focused = self.view, self.focused
        if view is None:
            return
        at_end = view.scroll_y <= 0 if by < 0 else view.scroll_y >= view.max_scroll_y
        if at_end and isinstance(focused, Rows) and focused.opens:
            focused.action_page(by)  # its cursor is no answer
            return
        view.scroll_relative(y=by * max(1, view.size.height - 2), animate=False)
        self.call_after_refresh(self._leave_what_is_out_of_view)

    def _leave_what_is_out_of_view(self) -> None:
        """After paging: a field that is no longer seen does not take the next key."""
        view, focused, button = self.view, self.focused, self.query_one("#next", PushButton)
        if view is not None and focused is not None and view in focused.ancestors and not view.region.overlaps(focused.region):
            self._paged_out = focused
            button.focus()
        elif view is not None and focused is button and self._paged_out is not None:
            # Back in view, it has the focus again: the arrows go on from where they were.
            held = self._paged_out
            if held.is_attached and view in held.ancestors and view.region.overlaps(held.region):
                self._paged_out = None
                held.focus(scroll_visible=False)
        self._show_more()

    # -- messages of the views --------------------------------------------------------------------------------

    async def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        name = event.button.id or ""
        if name == "next":
            await self.action_next()
        elif name == "back":
            await self.action_back()
        elif name == "paste":
            self.open_paste()
        elif name in ("start", "diagnose"):
            self.wizard.open_screen(name)
        elif name in ("ask-again", "review-again"):
            await self.wizard.ask_again()
        elif name.startswith("move-"):
            self.wizard.move_button(name.removeprefix("move-"))

    def on_paste(self, event: events.Paste) -> None:
        """Pasted where nothing can be typed: a command, options alone or a log are read all the same."""
        event.stop()
        self.take_paste(text.with_newlines(event.text).strip())

    def take_paste(self, given: str) -> None:
        """Open what reads a pasted text."""
        if holds_command(given) or given.startswith("-"):
            self.open_paste(given)
        elif "\n" in given:
            self.wizard.open_screen("diagnose", given=given)
        elif given:
            self._hint(_("What was pasted is no command that starts a server, and no log. F3 on the first step opens a log."))

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        view = self.view
        if isinstance(view, ModelView):
            self.go_on_when_ready = False  # who chooses on does not want to leave yet
            view.chosen = event.key
            view.set_error("")
            self.wizard.choose_model_later(event.key)
        elif isinstance(view, FlagsView):
            view.draw_about()
        elif isinstance(view, ReviewView):
            view.draw_diff()

    async def on_rows_opened(self, event: Rows.Opened) -> None:
        event.stop()
        view = self.view
        if isinstance(view, FlagsView):
            self._edit_flag(view)
        elif isinstance(view, ReviewView):
            change = view.change_under_cursor()
            if change is not None:
                from wizard.faces.tui.dialogs import Reader
                from wizard.faces.tui.views import change_content

                self.app.push_screen(Reader(change.path, lambda width: change_content(change, width), full=True))

    def on_input_changed(self, event: Input.Changed) -> None:
        view = self.view
        if event.input.id == "flag-filter" and isinstance(view, FlagsView):
            view.draw_flags()
        self._show_footer()

    def _edit_flag(self, view: FlagsView) -> None:
        row = view.flag_under_cursor()
        if row is None:
            return
        self._open_flag(row.dest)

    def _open_flag(self, dest: str) -> None:
        from wizard.faces.tui.dialogs import FlagDialog, FlagEdit
        from wizard.steps import QUESTIONS, set_answer

        plan, session = self.walk.plan, self.walk.session
        row = next((r for r in plan.flag_rows if r.dest == dest), None) if plan is not None else None
        if plan is None or session is None or row is None:
            return

        def check(value: str) -> str | None:
            try:
                probed = set_answer(session, plan, dest, value, Layer.USER)
            except BadInput as error:
                return str(error)
            question = QUESTIONS.get(dest)
            given = probed.answers.get(dest)
            if question is not None and given is not None:
                return question.error(plan, given[0])
            return self.wizard.flag_error(dest, value) or self.walk.new_fault(plan, probed)

        def taken(edit: FlagEdit | None) -> None:
            if edit is None:
                return
            if edit.reset:
                self.walk.forget(dest)
            elif edit.unchanged:
                self._hint(_("{flag} stays as it is.").format(flag=row.flag))
            else:
                given = set_answer(session, plan, dest, edit.text, Layer.USER).answers.get(dest)
                if given is not None:
                    self.walk.answer(dest, given[0])
                    self._tell_where_it_went(dest, plan)
            self.show()
            self._files_later()

        self.app.push_screen(FlagDialog(row, self.walk.answers.get(dest), check), taken)

    def _tell_where_it_went(self, dest: str, before: Plan) -> None:
        """An option that does not stand in the command itself was taken by a field of another step: name it."""
        plan = self.walk.plan
        row = next((r for r in plan.flag_rows if r.dest == dest), None) if plan is not None else None
        if plan is None or row is None or row.value is not None:
            return
        moved = [
            (step, question)
            for step in self.walk.steps()
            for question in self.walk.questions(step)
            if question.key != dest and question.current(plan) != question.current(before)
        ]
        if moved:
            step, question = moved[0]
            label = next((c.label for c in question.choices(plan) if c.value == str(question.current(plan))), "")
            told = _("{flag} is what “{field}” on the step “{step}” decides; it says now: {value}")
            value = label or text.value_text(question.current(plan))
            self.notify(told.format(flag=row.flag, field=_(question.label), step=_(step.title), value=value), timeout=8)

    def open_paste(self, given: str = "") -> None:
        """Paste a command: what it says is taken over as answers of one's own. ``given``: what was pasted already."""
        from wizard.faces.tui.paste import PasteDialog

        if self.walk.plan is not None:
            self.app.push_screen(PasteDialog(self.walk.plan, given), self._pasted)
        elif given:
            self.pasted_early = given
            self._hint(_("What was pasted is read as soon as the machine has answered."))

    def read_what_was_pasted(self) -> None:
        """There is a plan now: read what was pasted before."""
        given, self.pasted_early = self.pasted_early, ""
        if given:
            self.go_on_when_ready = False
            self.take_paste(given)

    def _pasted(self, command: Pasted | None) -> None:
        """Take the model first: what the options may be depends on it."""
        if command is None or self.walk.session is None:
            return
        if command.model is None:
            self._take_pasted(command, None, "")
            return
        source = copy_here(self.walk.session, command.model)
        self.wizard.choose_model(source, then=lambda trouble: self._take_pasted(command, source, trouble))

    def _take_pasted(self, command: Pasted, model: str | None, trouble: str) -> None:
        from wizard.faces.tui.dialogs import Reader
        from wizard.faces.tui.paste import LeftOut, answers_around, answers_of, told_of

        if self.walk.plan is None:
            return
        answers, left = answers_of(self.walk.plan, command.argv)
        around, more = answers_around(self.walk.plan, command)
        answers, left = {**answers, **around}, [*left, *more]
        with self.walk.together():
            for key, value in answers.items():
                self.walk.answer(key, value)
        if model is not None and trouble:
            stays = _("The model stays {name}.").format(name=self.walk.plan.value("model") or "-")
            left.insert(0, LeftOut(model, sentences(trouble, stays)))
        elif model is not None:
            answers = {"model": model, **answers}
        left += command.removed
        if left:
            self.app.push_screen(Reader(_("Taken over, and left out"), told_of(answers, left)))
        else:
            self.notify(_("Taken over: {names}").format(names=", ".join(answers) or _("nothing")), timeout=5)
        self.show()
        self._files_later()

    # -- keys that open something -----------------------------------------------------------------------------

    def action_help(self) -> None:
        from wizard.faces.tui.dialogs import Reader, another_help, field_help, keys_help

        item = help_widget(self.focused)
        if item is not None:
            self.app.push_screen(Reader(_(item.question.label), field_help(item, self.walk)))
        elif isinstance(self.focused, LineInput) and self.focused.id == "typed":
            self.app.push_screen(Reader(_("Another one"), another_help()))
        elif isinstance(self.view, ReviewView) and self.view.written:
            done = spelt(_("The files are written. What is to be typed next stands here, and is printed again when you leave. “c” copies a command; Enter leaves the wizard, or presses the button under the focus. “vllm-wizard undo” takes back what was written. Esc goes back to the files; an answer that is changed then is written anew."))
            self.app.push_screen(Reader(_("Help: {step}").format(step=_(self.walk.step.title)), content([(done, TEXT)])))
        else:
            told = content([(_(self.walk.step.intro) + "\n\n", TEXT)]) + keys_help()
            self.app.push_screen(Reader(_("Help: {step}").format(step=_(self.walk.step.title)), told))

    def action_plan(self) -> None:
        from wizard.faces.tui.dialogs import Reader

        self.settle()
        self.app.push_screen(
            Reader(_("Plan"), lambda width: panes.whole_plan(self.walk, self.wizard.glyphs, width, self._files), full=True)
        )

    def action_diagnose(self) -> None:
        self.wizard.open_screen("diagnose")

    def action_find(self) -> None:
        from wizard.faces.tui.dialogs import Palette

        self.app.push_screen(Palette(self.wizard.palette_entries()), self._found)

    def _found(self, key: str | None) -> None:
        kind, _sep, name = (key or "").partition(":")
        if kind == "step":
            self.go_to(name)
        elif kind == "field":
            self.go_to(*name.split(":", 1))
        elif kind == "flag":
            self._open_flag(name)
        elif kind == "model":
            self.wizard.choose_model(name)
            self.go_to("model")
        elif kind == "paste":
            self.open_paste()
        elif kind in ("start", "diagnose"):
            self.wizard.open_screen(kind)
        elif kind == "ask-again":
            self.run_worker(self.wizard.ask_again(), group="go")
        elif kind == "theme":
            self.app.theme = name

    def action_theme(self) -> None:
        self.app.theme = look.next_theme(self.app.theme)

    async def action_ask_again(self) -> None:
        """On a step that this machine stands in the way of: ask it anew."""
        view, plan = self.view, self.walk.plan
        if isinstance(view, ReviewView) and plan is not None and view.asks_again(plan):
            await self.wizard.ask_again()

    def action_copy(self) -> None:
        """Copy the commands that are to be typed, all or those of one step."""
        steps = self._to_copy()
        if not steps:
            return
        from wizard.faces.tui.whole import Choose

        options = [(str(n), s.title, "\n".join(s.commands)) for n, s in enumerate(steps)]
        if len({s.where for s in steps}) == 1:
            options.append(("all", _("All of them"), _("in their order")))
        texts = {key: told for key, _title, told in options} | {"all": "\n".join("\n".join(s.commands) for s in steps)}

        def chosen(key: str | None) -> None:
            if key is not None:
                self.app.copy_to_clipboard(texts[key] + "\n")
                self.notify(_("Copied. A terminal that forbids it: the lines are printed again when you leave."), timeout=4)

        self.app.push_screen(Choose(_("Which command is copied?"), Content(""), options), chosen)

    def _to_copy(self) -> list[TypeNext]:
        """What this step says is to be typed: cures on the first, the last instructions once all is written."""
        view, plan = self.view, self.walk.plan
        if isinstance(view, ReviewView) and view.written:
            return [s for s in self.wizard.to_type() if s.commands]
        if plan is not None and isinstance(view, (MachineView, ReviewView)):
            found = text.by_severity(plan.machine.problems if isinstance(view, MachineView) else plan.blockers)
            return [TypeNext(p.title, p.commands, p.where) for p in found if p.commands]
        return []

    def action_reset(self) -> None:
        item = help_widget(self.focused)
        view = self.view
        if item is None and isinstance(view, ModelView) and self.walk.plan is not None:
            view.chosen = None
            view.set_error("")
            self.walk.forget("model")
            self.plan_changed()
            return
        if item is None or self.walk.plan is None:
            return
        key = item.question.key
        self.walk.forget(key)
        if item.question.secret:
            self.walk.set_secret(key, None)
        item.put(None if item.question.secret else self.walk.plan.value(key))
        item.set_error("", self.walk)
        self.show()

    def plan_changed(self) -> None:
        """The answers were changed from outside the fields (a fix of a diagnosis, a repair of a launch)."""
        self.show()
        self._files_later()

    # -- files ------------------------------------------------------------------------------------------------

    def _files_later(self) -> None:
        if self._files_timer is not None:
            self._files_timer.stop()
        self._files_timer = self.set_timer(0.3, self.refresh_files)

    @property
    def files_due(self) -> bool:
        """Whether the list of files is about to be found out anew."""
        return self._files_timer is not None

    def refresh_files(self) -> None:
        """Find out anew which files would be written, and how they differ from the disk."""
        if self._files_timer is not None:
            self._files_timer.stop()
            self._files_timer = None
        walk = self.walk
        session, plan = walk.session, walk.plan
        if session is None or plan is None:
            return
        out_dir, applied = str(plan.value("out_dir") or "."), self.apply_wslconfig

        def work() -> None:
            from wizard.faces.tui.files import changes_of

            found = changes_of(walk.with_proposals(session), plan, out_dir, applied)
            self.app.call_from_thread(self._take_files, Found(session, applied, *found))

        self.run_worker(work, thread=True, exclusive=True, group="files")

    def _take_files(self, found: Found) -> None:
        self._found_out = found
        view = self.view
        if isinstance(view, ReviewView) and self._found_that_holds() is not None:
            self._take_changes(view, found)
            if not view.stands(self.walk):
                self.show()
        self.ahead.later()
        self._tell_files(found.changes)

    def _found_that_holds(self) -> Found | None:
        """What was found out last, if nothing was answered since."""
        found = self._found_out
        holds = found is not None and found.session is self.walk.session and found.applied is self.apply_wslconfig
        return found if holds else None

    def _tell_files(self, changes: list[Any]) -> None:
        names = [(Path(c.path).name, state_word(c.state.value)) for c in changes]
        if names != self._files:
            self._files = names
            self._show_plan()

    def _arrive_at_review(self, view: ReviewView) -> None:
        """Show the files as they were found out ahead, and look at the disk again meanwhile; they are found out once
        more before anything is written."""
        found = self._found_that_holds()
        if found is None:
            self._refresh_changes(view)
        else:
            self._take_changes(view, found)
            self._files_later()

    def _refresh_changes(self, view: ReviewView) -> None:
        walk = self.walk
        if walk.session is None or walk.plan is None or view.written:
            return
        from wizard.faces.tui.files import changes_of

        out_dir = str(walk.plan.value("out_dir") or ".")
        made = changes_of(walk.with_proposals(walk.session), walk.plan, out_dir, self.apply_wslconfig)
        self._found_out = Found(walk.session, self.apply_wslconfig, *made)
        self._take_changes(view, self._found_out)
        self._files = [(Path(c.path).name, state_word(c.state.value)) for c in view.changes]

    def _take_changes(self, view: ReviewView, found: Found) -> None:
        walk = self.walk
        if view.written:
            return
        view.applied = found.applied
        if found.changes != view.changes:
            view.changes = found.changes
        view.after, view.warnings = found.complete.after, found.complete.warnings
        view.error = found.error
        if found.complete.session.secrets != walk.secrets:
            # A random API key was made for the files that are shown: the same one is written.
            walk.secrets = found.complete.session.secrets
            walk.made_key = walk.secrets.get("api_key") or ""
            walk.use(found.session)
            if walk.session is not None:
                self._found_out = found._replace(session=walk.session)

    async def _review_next(self, view: ReviewView) -> None:
        plan = self.walk.plan
        if view.written:
            self.wizard.finish()
            return
        if plan is None:
            return
        self._refresh_changes(view)
        view.show(self.walk)
        if view.asks_again(plan):
            await self.wizard.ask_again()
            return
        if ways.ways_of(plan):
            ways.offer(self)
            return
        if view.nothing_to_write(plan):
            view.scroll_home(animate=False)
            self._hint(_("Nothing can be written yet: see the top of this step."))
            return
        from wizard.faces.tui.dialogs import Ask

        fresh = [c for c in view.changes if c.state.value != "same"]
        parts: list[Part] = [(_("Write to {folder}?").format(folder=plan.value("out_dir")) + "\n", BOLD)]
        width = max(len(short_path(c)) for c in view.changes)
        for change in view.changes:
            parts.append((f"\n  {text.pad(short_path(change), width)}", TEXT))
            parts.append(("  " + state_word(change.state.value), OK if change.state.value == "new" else WARN if change.state.value == "changed" else DIM))
        parts.append(("\n\n" + (spelt(_("What is replaced is backed up; “vllm-wizard undo” takes it back.")) if fresh else _("All of it stands there already.")), DIM))
        self.app.push_screen(Ask(_("Write the files"), content(parts), _("Write"), _("Not yet")), self._written)

    def _written(self, yes: bool | None) -> None:
        view = self.view
        if not yes or not isinstance(view, ReviewView):
            return
        from wizard.faces.tui.files import write_all

        try:
            receipt = write_all(view.changes)
        except WizardError as error:
            view.error = str(error)
            self._refresh_changes(view)
            view.error = view.error or str(error)
            self.show()
            view.scroll_home(animate=False)
            return
        view.written, view.error = True, ""
        view.all_the_same = not receipt.id
        self._written_answers = self.walk.answers
        self.app.clear_notifications()  # what was told of the time before no longer holds
        self.walk.visited.add("review")
        self.walk.written = True
        self.wizard.receipt = receipt
        self.wizard.save()
        self.show()
        view.scroll_home(animate=False)
        self.query_one("#start" if view.may_start else "#next", PushButton).focus()


