"""What the walk does in the background: asking the machine, looking for models, planning, keeping the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.timer import Timer

from wizard.errors import WizardError
from wizard.faces import resume
from wizard.faces.tui import look, text
from wizard.faces.tui.dialogs import Ask, Entry
from wizard.faces.tui.look import Glyphs
from wizard.faces.tui.screen import WalkScreen
from wizard.faces.tui.text import DIM, TEXT, WARN, Part, content
from wizard.faces.tui.views import SLOW_S, MachineView, ModelView, MoveView, ReviewView, model_entries
from wizard.faces.tui.walk import Walk, copy_here
from wizard.faces.tui.widgets import LineInput, Rows
from wizard.i18n import _
from wizard.program import spelt
from wizard.session import Answers, Layer, Secrets, model_named
from wizard.steps import STEPS

if TYPE_CHECKING:
    from wizard.faces.resume import Saved
    from wizard.faces.tui.app import Start, WizardApp
    from wizard.faces.tui.server import Server
    from wizard.facts import ProbeRun
    from wizard.models.info import FoundModel
    from wizard.plan_types import Step as TypeNext
    from wizard.session import Session, Value
    from wizard.steps import Question, Step

PATIENCE_S = 3.0  # so long Enter on the model step waits for the search


class Wizard:
    """The walk with all that goes on behind it. One for each run of the application."""

    def __init__(
        self,
        app: WizardApp,
        start: Start,
        *,
        keep: Path | None = None,
        keep_answers: bool = False,
        planner: Callable[[Session], Any] | None = None,
        prepared: Session | None = None,
        ahead: bool = True,
    ) -> None:
        """``keep``: the file for kept answers; ``keep_answers``: use the machine's own one in the config folder.
        ``prepared``: a session with all facts, so that nothing is probed or searched (tests, demonstrations).
        ``ahead``: whether steps are made before they are entered; without it a picture is the same each time."""
        self.makes_ahead = ahead
        self.app = app
        self.host = start.host
        name = str(getattr(start.host, "name", ""))
        self.host_name = "" if name in ("", resume.THIS_MACHINE) else name
        answers, out_dir = start.answers, start.out_dir
        if out_dir is not None:
            answers = answers.with_value("out_dir", out_dir, Layer.CLI)
        self.walk = Walk(answers=answers, secrets=start.secrets or Secrets(), planner=planner)
        if self.host_name:
            # A recorded machine's home is not here.
            below = str(Path.cwd() / f"vllm-{self.host_name}")
            self.walk.proposed = {"out_dir": (below, _("a recorded machine's files go below the current folder"))}
        self.recipe_dirs = start.recipe_dirs
        self.first_step = start.first_step
        self.opens_with_log = start.log is not None  # until the walk itself is asked for
        self.keep = resume.session_path(name or resume.THIS_MACHINE) if keep_answers else keep
        self.prepared = prepared
        self.receipt: Any = None
        self.kept_unanswered = self.keep is not None and not answers.file  # whether the kept walk may yet be taken up
        self._held: Saved | None = None  # a kept walk that is offered once the walk itself is in view
        self.mover: Any = None
        self.leave_asked: Ask | None = None  # whether to leave although the model is being copied
        self.told_stopped: tuple[str, str] | None = None  # the stopped copy that was told of
        self.left_copying = ""  # how far a copy was when the walk was left
        self.server: Server | None = None  # started from the last step
        self.models_looking = False
        self.walk_screen = WalkScreen(self)
        self._so_far: list[FoundModel] = []
        self._saving = threading.Lock()
        self._saves = 0
        self._stop = False
        self._skip = False
        self._again = False  # the machine was asked anew in this walk
        self._scan_started = 0.0
        self._ticker: Timer | None = None
        self._model_timer: Timer | None = None
        self._model_next = ""  # the row the cursor came to, while its timer runs

    @property
    def ascii_only(self) -> bool:
        return self.app.ascii_only

    @property
    def glyphs(self) -> Glyphs:
        return self.app.glyphs

    # -- the machine ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start asking the machine, once the first picture stands."""
        view = self.walk_screen.view
        if isinstance(view, MachineView):
            self._ticker = self.app.set_interval(0.1, view.tick)
        self.app.run_worker(self._gather, thread=True, group="gather")

    async def ask_again(self) -> None:
        """Ask the machine anew, after something was cured; the answers given so far stay."""
        if self.models_looking or any(w.group == "gather" and not w.is_finished for w in self.app.workers):
            self.app.notify(_("The machine is still being asked."), timeout=3)
            return
        self.prepared, self._skip, self.first_step = None, False, None
        screen = self.walk_screen
        screen.go_on_when_ready = False
        await screen.start_over()
        view = screen.view
        if isinstance(view, MachineView):
            view.restart()
        self._again = True
        self.begin()

    def _gather(self) -> None:
        """In a thread: facts, recipes, the first plan, then the models."""
        saved: Saved | None = None
        if self.keep is not None and not self.walk.answers.file and not self._again:
            saved, trouble = resume.load(self.keep)
            if trouble:
                self.app.call_from_thread(self.app.notify, trouble, severity="warning", timeout=8)
        if saved is not None and (saved.answers or saved.step not in ("", "machine", resume.FINISHED)):
            self.app.call_from_thread(self._offer_or_hold, saved)
        else:
            self.kept_unanswered = False
        if self.prepared is not None:
            self.walk.warm(self.prepared)
            self.app.call_from_thread(self._machine_known, self.prepared)  # type: ignore[arg-type]
            return
        try:
            session = self._machine_session()
        except WizardError as error:
            self.app.call_from_thread(self._machine_trouble, str(error))
            return
        try:
            self.walk.check_given(self.walk.warm(session))
        except WizardError as error:
            self.app.call_from_thread(self.app.refuse, error)
            return
        self.app.call_from_thread(self._machine_known, session)  # type: ignore[arg-type]
        self._find_models(session)

    def _machine_session(self) -> Session:
        from wizard.probes import PROBE_NAMES, run_all
        from wizard.session import gather

        self.app.call_from_thread(self._probes_started, dict(PROBE_NAMES))
        machine = run_all(
            self.host,
            on_result=lambda run: self.app.call_from_thread(self._probe_answered, run),
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
        self.walk_screen.ahead.later()
        self.walk_screen.read_what_was_pasted()
        if self.first_step is not None and not self.walk_screen.go_on_when_ready:
            self.walk_screen.go_to(self.first_step)
        if self.walk.step_id == "machine":
            await self.walk_screen.ready_now()

    # -- models -----------------------------------------------------------------------------------------------

    def _find_models(self, session: Session) -> None:
        from wizard.session import find_models

        self._scan_started = time.monotonic()
        self.app.call_from_thread(self._looking, True)
        found: list[FoundModel] = []
        last = 0.0

        def on_found(model: FoundModel) -> None:
            nonlocal last
            found.append(model)
            if time.monotonic() - last > 0.2:
                last = time.monotonic()
                self.app.call_from_thread(self._found_so_far, list(found))

        try:
            complete = find_models(session, self.host, cancelled=lambda: self._stop, on_found=on_found)
        except (WizardError, OSError) as error:
            self.app.call_from_thread(self.app.notify, str(error), severity="warning")
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
            self.app.call_from_thread(self._models_known, session, trouble)  # type: ignore[arg-type]

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
        # One that is just being made ahead has nothing in it yet: it is told all once it is entered.
        return view if isinstance(view, ModelView) and view.children else None

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
            self.app.notify(trouble, severity="warning", timeout=8)
        self.walk_screen.show()
        self.walk_screen.refresh_files()
        self._tell_of_stopped(walk.step_id)
        if walk.step_id == "model":
            await self.walk_screen.ready_now()

    def entered(self, step_id: str) -> None:
        """A step was entered: a new model view has to know that the search still runs."""
        view = self._model_view()
        if step_id == "model" and view is not None and self.models_looking:
            view.looking = True
            view.found_so_far = list(self._so_far)
            view.show(self.walk)
        self._tell_of_stopped(step_id)

    def _tell_of_stopped(self, step_id: str) -> None:
        """Past the step that shows it, say that a copy was stopped in an earlier walk."""
        if step_id not in ("machine", "model", "move"):
            from wizard.faces.tui.moving import tell_of_stopped

            tell_of_stopped(self)

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
        self._model_next = source
        self._model_timer = self.app.set_timer(0.12, self.choose_pending_model)

    def model_pending(self) -> bool:
        """Whether the cursor moved to a model that is not chosen yet."""
        return self._model_timer is not None

    def choose_pending_model(self) -> None:
        """Choose the model that the cursor came to, if that still waits for its moment."""
        if self._model_timer is not None:
            self._model_timer.stop()
            self._model_timer = None
            self.choose_model(self._model_next)

    def choose_model(self, source: str, typed: bool = False, then: Callable[[str], None] | None = None) -> None:
        """Take a model; one that is not known yet is read first, in a thread.

        ``then`` is called at the end, with why it could not be taken ("": it was)."""
        session = self.walk.session
        if session is None:
            return
        source = model_named(source, session.machine)
        if typed:
            source = copy_here(session, source)
        view = self._model_view()
        if view is not None:
            view.set_error("")
            if not typed:
                view.forget_typed()  # what is chosen in the list counts, not what was typed before
        if source in session.models:
            self._model_read(source, session, "", typed, then)
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
            self.app.call_from_thread(self._model_read, source, read, trouble, typed, then)

        self.app.run_worker(work, thread=True, exclusive=True, group="model")

    def _model_read(self, source: str, read: Session, trouble: str, typed: bool, then: Callable[[str], None] | None) -> None:
        self._take_model(source, read, trouble, typed)
        if then is not None:
            then(trouble)

    def _take_model(self, source: str, read: Session, trouble: str, typed: bool) -> None:
        walk, view = self.walk, self._model_view()
        if view is not None:
            view.reading = ""
        if trouble:
            self.walk_screen.go_on_when_ready = False
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
        if walk.step_id == "model":
            self.app.call_later(self.walk_screen.ready_now)

    # -- moving -----------------------------------------------------------------------------------------------

    def move_button(self, name: str) -> None:
        from wizard.faces.tui.moving import press

        press(self, name)

    def move_view(self) -> MoveView | None:
        view = self.walk_screen.views.get("move")
        return view if isinstance(view, MoveView) else None

    def moved(self) -> bool:
        """Whether the model was copied and proven in this walk."""
        view = self.move_view()
        return view is not None and view.has_copied(self.walk.plan)

    def copies(self) -> bool:
        """Whether the model of the plan is being copied, and will be further."""
        view = self.move_view()
        return view is not None and not self._stop and view.copies(self.walk.plan)

    def copy_command(self) -> str:
        """What goes on with a copy that was stopped, as it is typed."""
        from wizard.models.move_place import move_words
        from wizard.outputs.quoting import bash_line

        plan = self.walk.plan
        if plan is None or plan.move is None:
            return ""
        return bash_line(move_words(plan.move.source, plan.move.destination, plan.machine.name))

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
        words = spelt(_("The model is still being copied. If it is stopped, “vllm-wizard move” goes on from there."))
        if self.host_name:
            words = _("The copy of the model is still being played: the machine is a recorded one, and nothing is kept of it.")
        asked = Ask(_("Leave while copying?"), content([(words, TEXT)]), _("Wait"), _("Stop it and leave"))
        self.leave_asked = asked
        self.app.push_screen(asked, lambda wait: None if wait else leave())

    # -- starting, and what failed ----------------------------------------------------------------------------

    def may_start(self) -> bool:
        """Whether the server of this plan would run here, once its files are written."""
        plan = self.walk.plan
        return self.host_name == "" and self.host.platform != "win32" and plan is not None and plan.can_serve and plan.value("run_on", "this") == "this"

    def open_screen(self, name: str, path: str | None = None, *, alone: bool = False, given: str = "") -> None:
        """Open the screen of the launch ("start"), or that of a log ("diagnose"); ``alone``: it is what was asked
        for on the command line, and leaving it leaves the program; ``given``: the log's text, where it was pasted."""
        if name == "start":
            from wizard.faces.tui.launching import press_start

            press_start(self)
        else:
            from wizard.faces.tui.diagnosis import open_screen

            open_screen(self, path, alone, given)

    def interrupted(self) -> bool:
        """Ctrl-C; True when it meant the server."""
        if self.server is None:
            return False
        from wizard.faces.tui.launching import interrupt

        return interrupt(self)

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

    def may_apply_wslconfig(self) -> bool:
        """Whether the user's own .wslconfig can be changed: on this machine itself, when it was found."""
        wsl = self.walk.plan.machine.wsl if self.walk.plan is not None else None
        return self.host_name == "" and wsl is not None and wsl.wslconfig_path is not None

    def palette_entries(self) -> list[Any]:
        walk, plan = self.walk, self.walk.plan
        entries = [Entry(f"step:{s.id}", _("step"), _(s.title), _(s.intro)) for s in walk.steps()]
        entries += [self._field_entry(s, q) for s in walk.steps() for q in walk.questions(s) if q.kind != "model"]
        if any(s.id == "model" for s in walk.steps()):
            entries.append(Entry("field:model:typed", _("field"), _("Another one"), _("a path, or owner/name")))
        entries.append(Entry("diagnose:", _("log"), _("A start that failed"), _("paste or open its log")))
        if self.receipt is not None and self.may_start():
            entries.append(Entry("start:", _("start"), _("Start it now"), _("and watch it until it answers")))
        if plan is not None:
            entries.append(Entry("ask-again:", _("machine"), _("Ask this machine again"), _("after something was cured")))
            entries.append(Entry("paste:", _("flags"), _("Paste a command you found"), _("checked, and taken over")))
            entries += [Entry(f"flag:{r.dest}", _("flag"), r.flag, r.meaning) for r in plan.flag_rows]
            entries += [Entry(f"model:{m.key}", _("model"), m.name, m.note or m.where, m.key) for m in model_entries(plan) if m.selectable]
        words = {look.DARK.name: _("dark"), look.LIGHT.name: _("light"), look.ANSI.name: _("the terminal's own colours")}
        entries += [Entry(f"theme:{t.name}", _("theme"), words[t.name]) for t in look.THEMES]
        return entries

    def _field_entry(self, step: Step, question: Question) -> Entry:
        """A field in the palette: it is found by its label, by what it is for, and by what can be chosen in it."""
        plan = self.walk.plan
        choices = " ".join(c.label for c in question.choices(plan)) if plan is not None else ""
        search = f"{question.key} {question.key.replace('_', ' ')} {_(question.help)} {choices}"
        return Entry(f"field:{step.id}:{question.key}", _("field"), _(question.label), _(step.title), search)

    def _offer_or_hold(self, saved: Saved) -> None:
        """Offer to go on from last time; where another screen is in view (a diagnosis), only after it."""
        if self.app.screen is self.walk_screen and not self.opens_with_log:
            self._offer(saved)
        else:
            self._held = saved

    def walk_in_view(self) -> None:
        """The walk came to the front: what was held back for it is offered now."""
        held, self._held = self._held, None
        if held is not None:
            self._offer(held)

    def _offer(self, saved: Saved) -> None:
        title = next((_(s.title) for s in STEPS if s.id == saved.step), _(STEPS[0].title))
        finished = saved.step == resume.FINISHED
        told = _("Your last walk was finished on {when}, with these answers of your own:") if finished else _("Your last walk was kept on {when}; it had come to “{step}”.")
        parts: list[Part] = [(told.format(when=saved.when, step=title), TEXT)]
        for key, value in sorted(saved.answers.items())[:8]:
            parts += [(f"\n  {key} = ", DIM), (text.value_text(value), TEXT)]
        more = len(saved.answers) - 8
        if more > 0:
            parts.append(("\n  " + _("and {n} more").format(n=more), DIM))
        if saved.secrets:
            parts.append(("\n\n" + resume.not_kept(saved.secrets), WARN))
        self.app.push_screen(
            Ask(
                _("Take the answers of last time?") if finished else _("Go on from last time?"),
                content(parts),
                _("Take them") if finished else _("Go on"),
                _("Start anew"),
            ),
            lambda yes: self._resume(saved, bool(yes))
        )

    def _resume(self, saved: Saved, yes: bool) -> None:
        self.kept_unanswered = False
        if not yes:
            return
        walk = self.walk
        walk.answers = Answers(file=dict(saved.answers), cli=walk.answers.cli, user=walk.answers.user)
        if self.first_step is None and saved.step and saved.step != resume.FINISHED:
            order = [s.id for s in STEPS]
            walk.secrets_missing = frozenset(saved.secrets)
            asks = next(s.id for s in STEPS if any(q.secret for q in s.questions))
            past = saved.step in order and order.index(saved.step) > order.index(asks)
            self.first_step = asks if past and walk.misses_secret() else saved.step
            walk.visited.update(order[: order.index(saved.step)] if saved.step in order else ())
        if walk.session is not None:
            walk.use(walk.session)
            wanted = walk.answers.get("model")
            if wanted is not None and str(wanted[0]) not in walk.session.models:
                self.choose_model(str(wanted[0]))
            if self.first_step is not None:
                self.walk_screen.go_to(self.first_step)
            self.walk_screen.show()

    def save(self) -> None:
        """Keep the explicit answers and the step, in a thread; never over a walk that is not yet answered for."""
        if self.keep is None or self.kept_unanswered:
            return
        self._saves += 1
        turn, kept = self._saves, self._to_keep(self.keep)

        def work() -> None:
            with self._saving:
                # A later save has everything of an earlier one that comes late.
                trouble = resume.save(*kept) if turn == self._saves else None
            if trouble:
                self.app.call_from_thread(self.app.notify, trouble, severity="warning")

        self.app.run_worker(work, thread=True, group="save")

    def save_now(self) -> None:
        """The same at once: the program is being ended."""
        if self.keep is not None and not self.kept_unanswered:
            self._saves += 1
            with self._saving:
                resume.save(*self._to_keep(self.keep))

    def _to_keep(self, path: Path) -> tuple[Path, dict[str, Value], str, tuple[str, ...]]:
        answers, view = self.walk.answers.flat(), self.walk_screen.views.get("review")
        if self.walk.pinned_model:
            answers.pop("model", None)
        if "out_dir" in self.walk.answers.cli:
            answers.pop("out_dir", None)
        written = isinstance(view, ReviewView) and view.written
        secrets = () if written else self.walk.secrets_given()
        return path, answers, resume.FINISHED if written else self.walk.step_id, secrets

    def to_type(self) -> list[TypeNext]:
        """What is left to type after the walk."""
        view, plan = self.walk_screen.views.get("review"), self.walk.plan
        if isinstance(view, ReviewView):
            view.moved, view.copying = self.moved(), self.copies()
        return view.to_type(plan) if isinstance(view, ReviewView) and plan is not None else []

    def finish(self) -> None:
        self._may_leave(self._leave)

    async def leave(self) -> None:
        """Ctrl+Q: keep the answers, and go."""
        if self.server is not None:
            from wizard.faces.tui.launching import holds_quit

            if holds_quit(self):
                return
        if self.app.screen is not self.walk_screen and self.walk_screen in self.app.screen_stack:
            self.app.pop_screen()
        if self.walk_screen.is_mounted:
            self.walk_screen.settle()
        self.save()
        saving = [w for w in self.app.workers if w.group == "save"]
        if saving:  # of an empty list Textual makes all workers, and a copy may go on for hours
            await self.app.workers.wait_for_complete(saving)
        self._may_leave(self._leave)

    @property
    def stopping(self) -> bool:
        """Whether the walk is being left: nothing is drawn any more."""
        return self._stop

    def stop_work(self) -> None:
        """End what runs in the background: a copy is stopped where it is, and can be taken up again."""
        from wizard.faces.tui.moving import stop

        self.left_copying = self.left_copying or ("" if self.host_name else self.copying())
        self._stop = True
        stop(self)

    def _leave(self) -> None:
        self.stop_work()
        self.app.exit(return_code=0)



def _is(kind: type, value: str) -> bool:
    try:
        kind(value)
    except ValueError:
        return False
    return True
