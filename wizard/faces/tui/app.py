"""The full-screen walk: one screen, three zones, eight steps. Heavy rooms are loaded after the first paint."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from wizard.errors import BadInput, WizardError
from wizard.faces.tui import look, panes, text
from wizard.faces.tui.fields import Field, help_widget
from wizard.faces.tui.look import ASCII, CSS, UNICODE
from wizard.faces.tui.text import ACCENT, BOLD, DIM, OK, TEXT, WARN, Part, content
from wizard.faces.tui.views import (
    SLOW_S,
    FlagsView,
    MachineView,
    ModelView,
    MoveView,
    ReviewView,
    StepView,
    short_path,
    state_word,
    view_for,
)
from wizard.faces.tui.walk import Walk
from wizard.faces.tui.widgets import LineInput, Panel, PushButton, Rows
from wizard.i18n import _, set_language
from wizard.session import Answers, Layer, Secrets

if TYPE_CHECKING:
    from wizard.faces.resume import Saved
    from wizard.facts import ProbeRun
    from wizard.host import Host
    from wizard.models.info import FoundModel
    from wizard.session import Session

SMALLEST = (60, 18)  # columns, rows
THREE_ZONES = 100  # columns from which all three zones are shown
SETTLE_S = 0.09  # so long after the last key press is planned anew
PATIENCE_S = 3.0  # so long Enter on the model step waits for the scan


class Rail(Panel):
    """The steps; a click goes there."""

    def on_click(self, event: events.Click) -> None:
        steps = self.app.walk.steps() if isinstance(self.app, WizardApp) else ()
        at = event.get_content_offset_capture(self).y // 2
        if 0 <= at < len(steps) and isinstance(self.screen, WalkScreen):
            self.screen.go_to(steps[at].id)


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


def set_title(frame: Widget, title: str) -> None:
    """Set a frame's title; setting the same again would draw the whole frame anew."""
    if str(frame.border_title or "") != title:
        frame.border_title = title


def set_subtitle(frame: Widget, title: str) -> None:
    """The same for what stands in the lower border."""
    if str(frame.border_subtitle or "") != title:
        frame.border_subtitle = title


class WalkScreen(Screen[None]):
    """The walk itself."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "next", show=False),
        Binding("escape", "back", show=False),
        Binding("f1", "help", show=False),
        Binding("f2", "plan", show=False),
        Binding("ctrl+p", "find", show=False),
        Binding("ctrl+t", "theme", show=False),
        Binding("ctrl+r", "reset", show=False),
        Binding("up", "go_up", show=False),
        Binding("down", "go_down", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, StepView] = {}
        self.busy = False  # a step change is under way
        self._settle: Timer | None = None
        self._edited: set[Field] = set()
        self._files: list[tuple[str, str]] = []
        self._files_timer: Timer | None = None
        self.go_on_when_ready = False
        self.apply_wslconfig = False

    # -- composing --------------------------------------------------------------------------------------------

    @property
    def wizard(self) -> WizardApp:
        app = self.app
        assert isinstance(app, WizardApp)
        return app

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
                    yield PushButton(_("Back"), id="back")
                    yield Static(classes="gap")
                    yield PushButton(_("Next"), id="next")
            with VerticalScroll(id="plan", classes="frame", can_focus=False) as plan:
                plan.border_title = _("Plan")
                yield Panel(id="plan-text")
        yield Footer(id="footer")
        yield Panel(id="too-small")

    async def on_mount(self) -> None:
        self.set_class(self.wizard.ascii_only, "-ascii")
        await self._enter(self.walk.step_id)
        self.query_one("#next", PushButton).focus()
        self.call_after_refresh(self.wizard.begin)

    # -- size -------------------------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        width, height = event.size
        tiny = width < SMALLEST[0] or height < SMALLEST[1]
        self.set_class(tiny, "-tiny")
        self.set_class(width < THREE_ZONES, "-narrow")
        self.set_class(width >= 118, "-wide")
        self.set_class(width >= 150, "-huge")
        if tiny:
            told = _("This window has {w} columns and {h} rows; at least {mw} and {mh} are needed. Make it larger to go on; Ctrl+Q leaves.")
            self.query_one("#too-small", Panel).put(
                Content(told.format(w=width, h=height, mw=SMALLEST[0], mh=SMALLEST[1]))
            )
        self.call_after_refresh(self.show)

    # -- showing ----------------------------------------------------------------------------------------------

    @property
    def view(self) -> StepView | None:
        return self.views.get(self.walk.step_id)

    def show(self) -> None:
        """Bring every zone up to date with the plan."""
        if not self.is_mounted:
            return
        walk = self.walk
        view = self.view
        with self.app.batch_update():
            if view is not None and view.is_mounted:
                view.show(walk)
            self.show_frame()
            self._show_plan()
            self._show_footer()

    def show_frame(self) -> None:
        walk, glyphs = self.walk, self.wizard.glyphs
        steps, at = walk.steps(), walk.index()
        width = self.size.width
        name = self.wizard.host_name
        left: list[Part] = [("vllm-wizard", f"bold {ACCENT}"), (f"  {name}" if name else "", DIM)]
        copying = self.wizard.copying()
        middle: list[Part] = [(copying + "   ", WARN)] if copying and width >= 70 else []
        right: list[Part] = panes.progress(walk, glyphs) if width < THREE_ZONES else []
        right = [*middle, *right, (_("step {n} of {total}").format(n=at + 1, total=len(steps)), TEXT)]
        gap = max(1, width - 2 - content(left).cell_length - content(right).cell_length)
        self.query_one("#header", Panel).put(content([*left, (" " * gap, ""), *right]))
        set_title(self.query_one("#main"), f"{at + 1} {_(walk.step.title)}")
        if width >= THREE_ZONES:
            rail = self.query_one("#rail-text", Rail)
            rail.put(panes.rail(walk, glyphs, max(12, rail.size.width or 18)))
        view = self.view
        next_label = _(view.next_label) if view is not None else _("Next")
        if isinstance(view, ReviewView) and view.written:
            next_label = _("Finish")
        self.query_one("#next", PushButton).rename(f"{next_label} {glyphs.right}")
        back = self.query_one("#back", PushButton)
        back.rename(f"{glyphs.left} {_('Back')}")
        back.display = walk.neighbour(-1) is not None and not (isinstance(view, ReviewView) and view.written)
        self._show_more()

    def _show_more(self) -> None:
        view, told = self.view, ""
        if view is not None and view.is_mounted and view.max_scroll_y > 0:
            glyphs = self.wizard.glyphs
            up = f"{glyphs.up} PgUp" if view.scroll_y > 0 else ""
            down = f"{glyphs.down} PgDn" if view.scroll_y < view.max_scroll_y else ""
            told = "  ".join(x for x in (up, down) if x)
        set_subtitle(self.query_one("#main"), told)

    def _show_plan(self) -> None:
        if self.size.width < THREE_ZONES:
            return
        box = self.query_one("#plan-text", Panel)
        width = max(20, box.content_size.width)
        box.put(panes.plan_pane(self.walk, self.wizard.glyphs, width, self._files))

    def _show_footer(self) -> None:
        focused = self.focused
        view = self.view
        enter = _("Next")
        if isinstance(focused, Rows) and focused.opens:
            enter = _("Change") if focused.id == "flag-rows" else _("Open")
        elif isinstance(focused, LineInput) and focused.id == "typed" and focused.value.strip():
            enter = _("Read it")
        elif isinstance(focused, LineInput) and focused.id == "flag-filter":
            enter = _("To the list")
        elif isinstance(focused, PushButton) and focused.id not in ("next",):
            enter = _("Press")
        elif isinstance(view, ReviewView):
            enter = _("Finish") if view.written else _("Write")
        self.query_one("#footer", Footer).show_keys(
            [
                ("Enter", enter, "next"),
                ("Esc", _("Back"), "back"),
                ("F1", _("Help"), "help"),
                ("F2", _("Plan"), "plan"),
                ("^P", _("Find"), "find"),
                ("^Q", _("Quit"), "app.quit"),
            ]
        )

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        item = help_widget(event.widget)
        if item is not None:
            item.scroll_visible(animate=False)
        self._show_footer()
        self.call_after_refresh(self._show_more)

    # -- editing ----------------------------------------------------------------------------------------------

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
        for item in edited:
            self._take(item)
        view = self.view
        if edited and isinstance(view, ReviewView):
            self._refresh_changes(view)
        self.show()
        self._files_later()

    def _take(self, item: Field) -> bool:
        """Read one field into the answers. False when what stands in it cannot be taken (said beside it)."""
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
        else:
            walk.answer(key, reading.value)
        assert walk.plan is not None
        item.put(walk.plan.value(key))
        return True

    def commit(self) -> bool:
        """Read all fields of the step. False when one is wrong: it is said beside it, and the focus goes there."""
        view = self.view
        if view is None:
            return True
        wrong: Field | None = None
        for item in view.fields():
            if not self._take(item) and wrong is None:
                wrong = item
        self._edited.clear()
        self.show()
        if wrong is not None:
            wrong.focus_control()
        return wrong is None

    # -- going ------------------------------------------------------------------------------------------------

    async def action_next(self) -> None:
        if self.busy or self.has_class("-tiny"):
            return
        focused = self.focused
        view = self.view
        if isinstance(focused, LineInput) and focused.id == "flag-filter":
            self.query_one("#flag-rows", Rows).focus()
            return
        if isinstance(view, ModelView) and view.typed() and view.typed() != str(self.walk.plan.value("model") if self.walk.plan else ""):
            self.wizard.choose_model(view.typed(), typed=True)
            return
        self.settle()
        if not self._ready():
            return
        if isinstance(view, ReviewView):
            self.commit()
            self._review_next(view)
            return
        if not self.commit() or self._offer_copy(view):
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
            self._hint(_("The model is still being read."))
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
        if not plan.move.wanted or view.asked or view.state != "idle":
            return False
        from wizard.faces.tui.dialogs import Ask

        view.asked = True
        size = text.gib(plan.move.size_bytes)
        parts: list[Part] = [
            (_("{size} are copied to {place}.").format(size=size, place=plan.move.destination) + "\n\n", TEXT),
            (_("It goes on in the background while you walk on, and can be paused, stopped and taken up again. Later, the command stands among the last instructions."), DIM),
        ]

        async def answered(yes: bool | None) -> None:
            if yes:
                self.wizard.move_button("start")
            await self.action_next()

        self.app.push_screen(Ask(_("Copy the model now?"), content(parts), _("Copy now"), _("Later")), answered)
        return True

    def _hint(self, message: str) -> None:
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
            return
        self.settle()
        before = self.walk.neighbour(-1)
        if before is None:
            self._hint(_("This is the first step. Ctrl+Q leaves; your answers are kept."))
            return
        if view is not None:
            for item in view.fields():
                self._take(item)  # what is wrong stays in its field
        await self._go(before.id)

    def go_to(self, step_id: str) -> None:
        """Jump to a step (palette, mouse)."""
        if self.walk.plan is None or step_id == self.walk.step_id:
            return
        self.settle()
        if step_id in {s.id for s in self.walk.steps()} and self.commit():
            self.run_worker(self._go(step_id), exclusive=True, group="go")

    async def _go(self, step_id: str) -> None:
        walk = self.walk
        if walk.step_id == "model":
            self.wizard.pin_model_while_looking()
        walk.visited.add(walk.step_id)
        await self._enter(step_id)
        self.wizard.save()

    async def _enter(self, step_id: str) -> None:
        """Make ``step_id`` the step that is shown."""
        self.busy = True
        self.app.clear_notifications()
        try:
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
                    self._refresh_changes(view)
                self.show()
                first = view.first_focus()
                (first if first is not None else self.query_one("#next", PushButton)).focus(scroll_visible=False)
                view.scroll_home(animate=False)
            self.call_after_refresh(self._show_more)
        finally:
            self.busy = False
        self.wizard.entered(step.id)

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
        view = self.view
        if view is not None:
            view.scroll_relative(y=by * max(1, view.size.height - 2), animate=False)
            self.call_after_refresh(self._show_more)

    # -- messages of the views --------------------------------------------------------------------------------

    async def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        name = event.button.id or ""
        if name == "next":
            await self.action_next()
        elif name == "back":
            await self.action_back()
        elif name.startswith("move-"):
            self.wizard.move_button(name.removeprefix("move-"))

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        view = self.view
        if isinstance(view, ModelView):
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
            return self.wizard.flag_error(dest, value)

        def taken(edit: FlagEdit | None) -> None:
            if edit is None:
                return
            if edit.reset:
                self.walk.forget(dest)
            else:
                given = set_answer(session, plan, dest, edit.text, Layer.USER).answers.get(dest)
                if given is not None:
                    self.walk.answer(dest, given[0])
            self.show()
            self._files_later()

        self.app.push_screen(FlagDialog(row, self.walk.answers.get(dest) is not None, check), taken)

    # -- keys that open something -----------------------------------------------------------------------------

    def action_help(self) -> None:
        from wizard.faces.tui.dialogs import Reader, field_help, keys_help

        item = help_widget(self.focused)
        if item is not None:
            self.app.push_screen(Reader(_(item.question.label), field_help(item, self.walk)))
        else:
            told = content([(_(self.walk.step.intro) + "\n\n", TEXT)]) + keys_help()
            self.app.push_screen(Reader(_("Help: {step}").format(step=_(self.walk.step.title)), told))

    def action_plan(self) -> None:
        from wizard.faces.tui.dialogs import Reader

        self.settle()
        self.app.push_screen(
            Reader(_("Plan"), lambda width: panes.whole_plan(self.walk, self.wizard.glyphs, width, self._files), full=True)
        )

    def action_find(self) -> None:
        from wizard.faces.tui.dialogs import Palette

        self.app.push_screen(Palette(self.wizard.palette_entries()), self._found)

    def _found(self, key: str | None) -> None:
        kind, _sep, name = (key or "").partition(":")
        if kind == "step":
            self.go_to(name)
        elif kind == "flag":
            self._open_flag(name)
        elif kind == "model":
            self.wizard.choose_model(name)
            self.go_to("model")
        elif kind == "theme":
            self.app.theme = name

    def action_theme(self) -> None:
        names = [t.name for t in look.THEMES]
        at = names.index(self.app.theme) if self.app.theme in names else 0
        self.app.theme = names[(at + 1) % len(names)]

    def action_reset(self) -> None:
        item = help_widget(self.focused)
        if item is None or self.walk.plan is None:
            return
        key = item.question.key
        self.walk.forget(key)
        if item.question.secret:
            self.walk.set_secret(key, None)
        item.put(None if item.question.secret else self.walk.plan.value(key))
        item.set_error("", self.walk)
        self.show()

    # -- files ------------------------------------------------------------------------------------------------

    def _files_later(self) -> None:
        if self._files_timer is not None:
            self._files_timer.stop()
        self._files_timer = self.set_timer(0.3, self.refresh_files)

    def refresh_files(self) -> None:
        """Find out anew which files would be written, and how they differ from the disk."""
        walk = self.walk
        session, plan = walk.session, walk.plan
        if session is None or plan is None:
            return
        out_dir = str(plan.value("out_dir") or ".")

        def work() -> None:
            from wizard.faces.tui.files import changes_of

            changes, _complete, _error = changes_of(session, plan, out_dir, self.apply_wslconfig)
            names = [(Path(c.path).name, state_word(c.state.value)) for c in changes]
            self.app.call_from_thread(self._take_files, names)

        self.run_worker(work, thread=True, exclusive=True, group="files")

    def _take_files(self, names: list[tuple[str, str]]) -> None:
        if names != self._files:
            self._files = names
            self._show_plan()

    def _refresh_changes(self, view: ReviewView) -> None:
        walk = self.walk
        if walk.session is None or walk.plan is None or view.written:
            return
        from wizard.faces.tui.files import changes_of

        out_dir = str(walk.plan.value("out_dir") or ".")
        view.changes, complete, view.error = changes_of(walk.session, walk.plan, out_dir, self.apply_wslconfig)
        if complete is not walk.plan:
            # A random API key was made for the files that are shown: the same one is written.
            walk.secrets = complete.session.secrets
            walk.use(walk.session)
        self._files = [(Path(c.path).name, state_word(c.state.value)) for c in view.changes]

    def _review_next(self, view: ReviewView) -> None:
        plan = self.walk.plan
        if view.written:
            self.wizard.finish()
            return
        if plan is None:
            return
        self._refresh_changes(view)
        view.show(self.walk)
        if plan.blockers or view.error or not view.changes:
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
        parts.append(("\n\n" + (_("What is replaced is backed up; “vllm-wizard undo” takes it back.") if fresh else _("All of it stands there already.")), DIM))
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
        moved = self.wizard.move_view()
        view.moved = moved is not None and moved.state in ("done", "running", "preparing")
        self.walk.visited.add("review")
        self.wizard.receipt = receipt
        self.wizard.save()
        self.show()
        view.scroll_home(animate=False)
        self.query_one("#next", PushButton).focus()


class WizardApp(App[None]):
    """The application: it owns the walk and the long-running work."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "vllm-wizard"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+z", "suspend_process", show=False), Binding("ctrl+c", "leave_hint", show=False, priority=True)]

    def __init__(
        self,
        host: Host,
        answers: Answers,
        *,
        out_dir: str | None = None,
        recipe_dirs: Iterable[str] = (),
        secrets: Secrets | None = None,
        first_step: str | None = None,
        keep: Path | None = None,
        ascii_only: bool = False,
        theme: str = look.DARK.name,
        debug: bool = False,
        planner: Callable[[Session], Any] | None = None,
        prepared: Session | None = None,
    ) -> None:
        """``prepared``: a session with all facts, so that nothing is probed or searched (tests, demonstrations)."""
        super().__init__()
        self.animation_level = "none"
        ScrollBar.renderer = look.WholeCells
        for each in look.THEMES:
            self.register_theme(each)
        self.theme = theme
        self.ascii_only = ascii_only
        self.glyphs = ASCII if ascii_only else UNICODE
        if ascii_only:
            self._filters.append(look.AsciiFilter())
        self.host = host
        self.host_name = "" if getattr(host, "name", "") in ("", "this machine") else str(host.name)
        if out_dir is not None:
            answers = answers.with_value("out_dir", out_dir, Layer.CLI)
        self.walk = Walk(answers=answers, secrets=secrets or Secrets(), planner=planner)
        self.recipe_dirs = tuple(recipe_dirs)
        self.first_step = first_step
        self.keep = keep
        self.prepared = prepared
        self.debug_errors = debug
        self.crash: BaseException | None = None
        self.receipt: Any = None
        self._stop = False
        self._scan_started = 0.0
        self._skip = False
        self.models_looking = False
        self._so_far: list[FoundModel] = []
        self._ticker: Timer | None = None
        self._model_timer: Timer | None = None
        self.mover: Any = None

    def get_default_screen(self) -> Screen[None]:
        return WalkScreen()

    @property
    def walk_screen(self) -> WalkScreen:
        screen = self.screen_stack[0]
        assert isinstance(screen, WalkScreen)
        return screen

    # -- the machine ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start asking the machine, once the first picture stands."""
        view = self.walk_screen.view
        if isinstance(view, MachineView):
            self._ticker = self.set_interval(0.1, view.tick)
        self.run_worker(self._gather, thread=True, group="gather")

    def _gather(self) -> None:
        """In a thread: facts, recipes, the first plan, then the models."""
        from wizard.faces import resume

        saved: Saved | None = None
        if self.keep is not None and not self.walk.answers.file:
            saved, trouble = resume.load(self.keep)
            if trouble:
                self.call_from_thread(self.notify, trouble, severity="warning", timeout=8)
        if saved is not None and (saved.answers or saved.step not in ("", "machine")):
            self.call_from_thread(self._offer, saved)
        if self.prepared is not None:
            self.walk.warm(self.prepared)
            self.call_from_thread(self._machine_known, self.prepared)  # type: ignore[arg-type]
            return
        try:
            session = self._machine_session()
        except WizardError as error:
            self.call_from_thread(self._machine_trouble, str(error))
            return
        self.walk.warm(session)
        self.call_from_thread(self._machine_known, session)  # type: ignore[arg-type]
        self._find_models(session)

    def _machine_session(self) -> Session:
        from wizard.probes import PROBE_NAMES, run_all
        from wizard.session import gather

        self.call_from_thread(self._probes_started, dict(PROBE_NAMES))
        machine = run_all(
            self.host,
            on_result=lambda run: self.call_from_thread(self._probe_answered, run),
            give_up=lambda: self._skip or self._stop,
        )
        return gather(self.host, Answers(), machine=machine, recipe_dirs=self.recipe_dirs, scan=False)

    def _probes_started(self, names: dict[str, str]) -> None:
        view = self.walk_screen.views.get("machine")
        if isinstance(view, MachineView):
            view.start(names)

    def _probe_answered(self, run: ProbeRun) -> None:
        view = self.walk_screen.views.get("machine")
        if isinstance(view, MachineView):
            view.answered(run)

    def _machine_trouble(self, message: str) -> None:
        view = self.walk_screen.views.get("machine")
        if isinstance(view, MachineView):
            view.trouble = message
            view.finished = True
        self.walk_screen.show()

    def can_skip_probes(self, view: MachineView) -> bool:
        """Only what has been named as slow is passed over; else Enter waits the moment that it takes."""
        return any(time.monotonic() - line.started >= SLOW_S for line in view.waiting())

    def skip_probes(self) -> None:
        """The user goes on without the probes that have not answered."""
        self._skip = True

    async def _machine_known(self, session: Session) -> None:
        view = self.walk_screen.views.get("machine")
        if isinstance(view, MachineView):
            for run in session.machine.runs:
                view.answered(run)
            view.finished = True
        if self._ticker is not None:
            self._ticker.stop()
        self.walk.use(session)
        self.walk_screen.show()
        self.walk_screen.refresh_files()
        if self.first_step is not None and not self.walk_screen.go_on_when_ready:
            self.walk_screen.go_to(self.first_step)
        if self.walk.step_id == "machine":
            await self.walk_screen.ready_now()

    # -- models -----------------------------------------------------------------------------------------------

    def _find_models(self, session: Session) -> None:
        from wizard.session import find_models

        self._scan_started = time.monotonic()
        self.call_from_thread(self._looking, True)
        found: list[FoundModel] = []
        last = 0.0

        def on_found(model: FoundModel) -> None:
            nonlocal last
            found.append(model)
            if time.monotonic() - last > 0.2:
                last = time.monotonic()
                self.call_from_thread(self._found_so_far, list(found))

        try:
            complete = find_models(session, self.host, cancelled=lambda: self._stop, on_found=on_found)
        except (WizardError, OSError) as error:
            self.call_from_thread(self.notify, str(error), severity="warning")
            complete = session
        self._look_at_wanted(complete)

    def _look_at_wanted(self, session: Session) -> None:
        """Read the model that was asked for on the command line or kept; then everything is known."""
        from wizard.session import look_at_model

        trouble = ""
        wanted = self.walk.answers.get("model")
        if wanted is not None:
            try:
                session = look_at_model(session, self.host, str(wanted[0]))
            except (WizardError, OSError) as error:
                trouble = str(error)
        if not self._stop:
            session = self._with_models_read_meanwhile(session)
            self.walk.warm(session)
            self.call_from_thread(self._models_known, session, trouble)  # type: ignore[arg-type]

    def _with_models_read_meanwhile(self, session: Session) -> Session:
        """``session`` with what was read while the search ran; the same object when there is nothing to add."""
        held = self.walk.session
        missing = {} if held is None else {k: v for k, v in held.models.items() if k not in session.models}
        return replace(session, models={**session.models, **missing}) if missing else session

    def _looking(self, on: bool) -> None:
        view = self._model_view()
        if view is not None:
            view.looking = on
        self.models_looking = on
        self.walk_screen.show()

    def _model_view(self) -> ModelView | None:
        view = self.walk_screen.views.get("model")
        return view if isinstance(view, ModelView) else None

    def _found_so_far(self, found: list[FoundModel]) -> None:
        self._so_far = found
        view = self._model_view()
        if view is not None and view.looking:
            view.found_so_far = found
            view.show(self.walk)

    async def _models_known(self, session: Session, trouble: str) -> None:
        self.models_looking = False
        walk = self.walk
        session = self._with_models_read_meanwhile(session)
        if walk.pinned_model:
            # It was only taken because the search still ran: if the plan takes the same now, it need not be kept.
            walk.pinned_model = False
            pinned = walk.answers.get("model")
            walk.use(session)
            if pinned is not None and walk.proposal("model") == pinned[0]:
                walk.forget("model")
        else:
            walk.use(session)
        view = self._model_view()
        if view is not None:
            view.looking = False
            view.found_so_far = []
        if trouble:
            walk.forget("model")
            if view is not None:
                view.set_error(trouble)
            self.notify(trouble, severity="warning", timeout=8)
        self.walk_screen.show()
        self.walk_screen.refresh_files()
        if walk.step_id == "model":
            await self.walk_screen.ready_now()

    def entered(self, step_id: str) -> None:
        """A step was entered: a new model view has to know that the search still runs."""
        view = self._model_view()
        if step_id == "model" and view is not None and self.models_looking:
            view.looking = True
            view.found_so_far = list(self._so_far)
            view.show(self.walk)

    def scan_is_slow(self) -> bool:
        return time.monotonic() - self._scan_started > PATIENCE_S

    def pin_model_while_looking(self) -> None:
        """Keep the model that is shown when the step is left before the search is done: it must not change later."""
        walk = self.walk
        if self.models_looking and walk.plan is not None and walk.answers.get("model") is None:
            value = walk.plan.value("model")
            if value is not None:
                walk.answers = walk.answers.with_value("model", value)
                walk.pinned_model = True
                if walk.session is not None:
                    walk.use(walk.session)

    def choose_model_later(self, source: str) -> None:
        if self._model_timer is not None:
            self._model_timer.stop()
        self._model_timer = self.set_timer(0.12, lambda: self.choose_model(source))

    def choose_model(self, source: str, typed: bool = False) -> None:
        """Take a model; one that is not known yet is read first, in a thread."""
        session = self.walk.session
        if session is None:
            return
        view = self._model_view()
        if view is not None:
            view.set_error("")
        if source in session.models:
            self._model_read(source, session, "", typed)
            return
        if view is not None:
            view.reading = source
            view.show(self.walk)

        def work() -> None:
            from wizard.session import look_at_model

            trouble, read = "", session
            try:
                read = look_at_model(session, self.host, source)
            except (WizardError, OSError) as error:
                trouble = str(error)
            else:
                self.walk.warm(read)
            self.call_from_thread(self._model_read, source, read, trouble, typed)

        self.run_worker(work, thread=True, exclusive=True, group="model")

    def _model_read(self, source: str, read: Session, trouble: str, typed: bool) -> None:
        walk, view = self.walk, self._model_view()
        if view is not None:
            view.reading = ""
        if trouble:
            if view is not None:
                view.set_error(trouble)
                view.show(walk)
            return
        if walk.session is not None and source not in walk.session.models:
            same_facts = walk.session.found is read.found and not set(walk.session.models) - set(read.models)
            walk.use(read if same_facts else replace(walk.session, models={**walk.session.models, **read.models}))
        walk.pinned_model = False
        walk.answer("model", source)
        if view is not None:
            view.chosen = source
            if typed:
                view.query_one("#typed", LineInput).set_text("")
                rows = view.query_one("#models", Rows)
                view.show(walk)
                rows.point_at(source)
                rows.focus()
        self.walk_screen.show()
        self.walk_screen._files_later()

    # -- moving -----------------------------------------------------------------------------------------------

    def move_button(self, name: str) -> None:
        from wizard.faces.tui.moving import press

        press(self, name)

    def move_view(self) -> MoveView | None:
        view = self.walk_screen.views.get("move")
        return view if isinstance(view, MoveView) else None

    def copying(self) -> str:
        """How far a running copy is, in a few words; "" when none runs."""
        view = self.move_view()
        if view is None or view.state not in ("preparing", "running", "paused"):
            return ""
        p = view.progress
        share = p.bytes_done / p.bytes_total if p is not None and p.bytes_total else 0.0
        if view.state == "paused":
            return _("copy paused at {share:.0%}").format(share=share)
        return _("copying {share:.0%}").format(share=share)

    def _may_leave(self, leave: Callable[[], None]) -> None:
        """Leave, asking first when a copy still runs."""
        if not self.copying():
            leave()
            return
        from wizard.faces.tui.dialogs import Ask

        told = content([(_("The model is still being copied ({state}). If it is stopped, “vllm-wizard move” goes on from there.").format(state=self.copying()), TEXT)])
        self.push_screen(
            Ask(_("Leave while copying?"), told, _("Wait"), _("Stop it and leave")), lambda wait: None if wait else leave()
        )

    # -- odds and ends ----------------------------------------------------------------------------------------

    def flag_error(self, dest: str, value: str) -> str | None:
        """Why the chosen release's parser would refuse ``value`` for an option; None when it takes it."""
        plan = self.walk.plan
        option = next((o for o in plan.release.options if o.dest == dest), None) if plan is not None and plan.release is not None else None
        if option is None:
            return None
        if option.choices and not option.computed_choices and value not in option.choices:
            return _("Must be one of: {names}.").format(names=", ".join(option.choices))
        if option.kind == "int" and not _is(int, value) and not (option.also_auto and value == "auto"):
            return _("A whole number is needed.")
        if option.kind == "float" and not _is(float, value):
            return _("A number is needed.")
        return None

    def palette_entries(self) -> list[Any]:
        from wizard.faces.tui.dialogs import Entry

        walk, plan = self.walk, self.walk.plan
        entries = [Entry(f"step:{s.id}", _("step"), _(s.title), _(s.intro)) for s in walk.steps()]
        if plan is not None:
            entries += [Entry(f"flag:{r.dest}", _("flag"), r.flag, r.meaning) for r in plan.flag_rows]
            from wizard.faces.tui.views import model_entries

            entries += [Entry(f"model:{m.key}", _("model"), m.name, m.note or m.where, m.key) for m in model_entries(plan) if m.selectable]
        words = {look.DARK.name: _("dark"), look.LIGHT.name: _("light"), look.ANSI.name: _("the terminal's own colours")}
        entries += [Entry(f"theme:{t.name}", _("theme"), words[t.name]) for t in look.THEMES]
        return entries

    def _offer(self, saved: Saved) -> None:
        from wizard.faces.tui.dialogs import Ask
        from wizard.steps import STEPS

        title = next((_(s.title) for s in STEPS if s.id == saved.step), _(STEPS[0].title))
        parts: list[Part] = [
            (_("Your last walk was kept on {when}; it had come to “{step}”.").format(when=saved.when, step=title), TEXT)
        ]
        for key, value in sorted(saved.answers.items())[:8]:
            parts += [(f"\n  {key} = ", DIM), (text.value_text(value), TEXT)]
        more = len(saved.answers) - 8
        if more > 0:
            parts.append(("\n  " + _("and {n} more").format(n=more), DIM))
        self.push_screen(
            Ask(_("Go on from last time?"), content(parts), _("Go on"), _("Start anew")), lambda yes: self._resume(saved, bool(yes))
        )

    def _resume(self, saved: Saved, yes: bool) -> None:
        if not yes:
            return
        walk = self.walk
        walk.answers = Answers(file=dict(saved.answers), cli=walk.answers.cli, user=walk.answers.user)
        if self.first_step is None and saved.step:
            self.first_step = saved.step
        if walk.session is not None:
            walk.use(walk.session)
            wanted = walk.answers.get("model")
            if wanted is not None and str(wanted[0]) not in walk.session.models:
                self.choose_model(str(wanted[0]))
            if self.first_step is not None:
                self.walk_screen.go_to(self.first_step)
            self.walk_screen.show()

    def save(self) -> None:
        """Keep the explicit answers and the step, in a thread."""
        if self.keep is None:
            return
        path, answers, step = self.keep, self.walk.answers.flat(), self.walk.step_id
        if self.walk.pinned_model:
            answers.pop("model", None)
        answers.pop("out_dir", None) if "out_dir" in self.walk.answers.cli else None

        def work() -> None:
            from wizard.faces import resume

            trouble = resume.save(path, answers, step)
            if trouble:
                self.call_from_thread(self.notify, trouble, severity="warning")

        self.run_worker(work, thread=True, group="save")

    def finish(self) -> None:
        self._may_leave(self._leave)

    async def action_quit(self) -> None:
        if len(self.screen_stack) > 1:
            self.screen.dismiss(None)
        screen = self.walk_screen
        if screen.is_mounted:
            screen.settle()
        self.save()
        await self.workers.wait_for_complete([w for w in self.workers if w.group == "save"])
        self._may_leave(self._leave)

    def _leave(self) -> None:
        from wizard.faces.tui.moving import stop

        stop(self)
        self._stop = True
        self.exit(return_code=0)

    def action_leave_hint(self) -> None:
        self.notify(_("Ctrl+Q leaves; your answers are kept."), timeout=3)

    def _fatal_error(self) -> None:
        """A crash ends the app with exit code 1. Textual's own report shows local variables, and so secrets."""
        self.crash = sys.exc_info()[1] or self._exception
        self._close_messages_no_wait()


def _is(kind: type, value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True


def check_terminal() -> None:
    """Raise BadInput when the full-screen walk cannot be drawn here; the message names what to use instead."""
    if not _tty(sys.stdin) or not _tty(sys.stderr):
        raise BadInput(
            _("The full-screen walk needs a terminal. Use --plain to be asked line by line, or “generate --yes --out DIR” to be asked nothing.")
        )
    if os.environ.get("TERM", "") == "dumb":
        raise BadInput(_("This terminal cannot draw a full screen (TERM=dumb). Use --plain to be asked line by line."))


def _tty(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:
        return False


def run(
    host: Host,
    answers: Answers,
    *,
    out_dir: str | Path | None = None,
    recipe_dirs: Iterable[str] = (),
    lang: str | None = None,
    first_step: str | None = None,
    secrets: Secrets | None = None,
    debug: bool = False,
) -> int:
    """Walk through the wizard in full screen, and return the exit code.

    Raises BadInput when there is no terminal that it can be drawn on.
    """
    check_terminal()
    if lang is not None:
        set_language(lang)
    from wizard.faces import resume

    app = WizardApp(
        host,
        answers,
        out_dir=None if out_dir is None else str(out_dir),
        recipe_dirs=tuple(str(d) for d in recipe_dirs),
        secrets=secrets,
        first_step=first_step,
        keep=resume.session_path(str(getattr(host, "name", resume.THIS_MACHINE))),
        ascii_only=look.wants_ascii(),
        theme=look.choose_theme(os.environ),
        debug=debug,
    )
    app.run()
    _last_words(app)
    return app.return_code or 0


def _last_words(app: WizardApp) -> None:
    """What stays in the terminal after the walk."""
    if app.crash is not None:
        if app.debug_errors:
            import traceback

            traceback.print_exception(app.crash)
        print(
            _("vllm-wizard has stopped because of an error of its own ({kind}). Your answers are kept. Run it again with --debug to see the details, and please report them.").format(
                kind=type(app.crash).__name__
            ),
            file=sys.stderr,
        )
        return
    plan = app.walk.plan
    if app.receipt is not None and plan is not None:
        from wizard.faces.writing import next_steps, written

        print(written(app.receipt), end="")
        if plan.after:
            print(_("Next:"))
            print(next_steps(plan.after), end="")
    else:
        print(_("Nothing was written. Your answers are kept: vllm-wizard goes on from them."))
