"""A server that the walk starts: the thread that drives it, and what the launch screen shows of it.

The launch itself lives in :mod:`wizard.launch`. Here its callbacks are kept for the screen, its questions wait for
an answer, and whatever becomes of the application, the server is stopped or given out of hand on purpose.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.launch.stages import StageReader
from wizard.outputs.quoting import bash_word
from wizard.program import command
from wizard.steps import MOVE

if TYPE_CHECKING:
    from wizard.diagnose.engine import Diagnosis
    from wizard.faces.tui.work import Wizard
    from wizard.launch.loop import Result
    from wizard.launch.prove import Check
    from wizard.launch.repair import Repair
    from wizard.launch.run import Launch, MemoryUse, Outcome
    from wizard.launch.target import Target
    from wizard.plan_types import Plan
    from wizard.session import Session

KEPT_LINES = 4000  # of the log, on the screen; the file holds all of it
ANSWER_S = 0.1  # between two looks for an answer


class _LeftRunning(Exception):
    """The server is given out of hand in the middle of its start."""


@dataclass(frozen=True)
class Tried:
    """One failed start, for the list of what was tried."""

    number: int
    seconds: float
    title: str
    change: str = ""  # what was changed after it
    log: str = ""


@dataclass
class Shown:
    """Everything that the launch screen draws. Written by the server's thread, read by the screen."""

    name: str
    folder: str
    url: str
    # "starting", "proving", "asking" (about a repair), "serving", "stopping", "leaving", and the ends: "stopped",
    # "failed", "died", "left" (goes on in the background), "refused" (nothing was started)
    state: str = "starting"
    number: int = 1  # of the start
    way: str = "script"
    runtime: str = "local"
    device: str = "none"
    reader: StageReader = field(default_factory=StageReader)
    clock: Callable[[], float] = lambda: 0.0  # seconds since the start
    log: str = ""
    memory: tuple[MemoryUse, ...] = ()
    checks: list[Check] = field(default_factory=list)
    outcome: Outcome | None = None
    diagnosis: Diagnosis | None = None
    repair: Repair | None = None  # the one that is offered
    before: Plan | None = None  # the plan that the repair changes
    tried: list[Tried] = field(default_factory=list)
    verdict: str = ""  # of the memory model
    curl: str = ""
    python: str = ""
    message: str = ""  # why nothing was started, how it was stopped, what goes on in the background

    @property
    def live(self) -> bool:
        """Whether a server may be running that this program has in hand."""
        return self.state in ("starting", "proving", "asking", "serving", "stopping", "leaving")


class Server:
    """Starts, watches, repairs and stops one folder. ``begin`` starts the thread; all else is asked of it."""

    def __init__(self, wizard: Wizard, target: Target, plan: Plan, session: Session) -> None:
        self.wizard = wizard
        self.target, self.plan, self.session = target, plan, session
        self.shown = self._fresh()
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)  # that the screen has not taken yet
        self.on_change: Callable[[], None] = lambda: None  # called in the application's thread
        self.when_over: Callable[[], None] | None = None  # what the user wants next, once the thread has ended
        self.ways: tuple[str, ...] = ("script",)  # how this machine can run it detached; best first
        self._way = "script"
        self._stop = threading.Event()
        self._hurry = threading.Event()
        self._leave = threading.Event()
        self._hand_to: str | None = None
        self._answered = threading.Event()
        self._answer = False
        self._current: Launch | None = None
        self._thread: threading.Thread | None = None

    def _fresh(self) -> Shown:
        target = self.target
        return Shown(target.name, str(target.folder), target.url, runtime=target.runtime, device=target.device)

    # -- asked by the screen ----------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        return self._thread is not None and self._thread.is_alive() and self.shown.live

    def begin(self) -> None:
        """Start, or start again after an end."""
        if self.live:
            return
        tried = self.shown.tried
        self.shown = self._fresh()
        self.shown.tried = tried
        for event in (self._stop, self._hurry, self._leave, self._answered):
            event.clear()
        self._way, self._hand_to = "script", None
        # Not one of Textual's workers: the application may end before the server is stopped.
        self._thread = threading.Thread(target=self._work, name="server", daemon=False)
        self._thread.start()
        self.on_change()

    def stop(self) -> None:
        """Stop the server; asked a second time, kill it."""
        if self._stop.is_set():
            self._hurry.set()
        self._hand_to = None
        self._stop.set()
        self._under_way("stopping")

    def _under_way(self, state: str) -> None:
        """Show at once what was asked for; the thread comes to it within seconds."""
        if self.live:
            self.shown.state = state
            self.on_change()

    def give_up(self) -> None:
        """Stop the server without showing anything: the application is ending."""
        self._hand_to = None
        self._stop.set()

    def leave_running(self) -> None:
        """Give the server out of hand as it is."""
        self._leave.set()
        self._under_way("leaving")

    def hand_over(self, way: str) -> None:
        """Stop it, and start it once more in the hands of "systemd" or "compose", to be left there."""
        self._hand_to = way
        self._stop.set()
        self._under_way("stopping")

    def answer(self, yes: bool) -> None:
        """The answer to the repair that is offered."""
        self._answer = yes
        self._answered.set()

    def wait_over(self, timeout_s: float | None = None) -> None:
        """Wait for the thread; nothing of the server is left then, unless it was left running on purpose."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def last_words(self) -> str:
        """What stays in the terminal of a server that was left running."""
        told = [self.shown.message, "", f"{command()} status|logs|stop {bash_word(self.shown.folder)}"]
        told += ["", self.shown.curl] if self.shown.curl else []
        told += ["", self.shown.python] if self.shown.python else []
        return "\n".join(told)

    def take_lines(self) -> list[str]:
        """The lines of the log since the last time."""
        taken = []
        while self.lines:
            taken.append(self.lines.popleft())
        return taken

    # -- in the thread ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._run()
        except _LeftRunning:
            self._left()
        except WizardError as error:
            self._end("refused", str(error))
        except BaseException:
            if self._current is not None:
                self._current.stop(lambda: True)
            self._end("refused", _("The launch has stopped because of an error of its own."))
            raise

    def _run(self) -> None:
        from wizard.launch import detach, loop
        from wizard.launch.run import Callbacks

        host = self.wizard.host
        self.ways = detach.ways(self.target, host)
        while True:
            callbacks = Callbacks(on_line=self.lines.append, on_memory=self._memory, on_check=self._check)
            result = loop.launch(
                self.target, host, plan=self.plan, session=self.session, callbacks=callbacks,
                asks=loop.Asks(self._consent, self._failed, self._started),
                way=self._way, cancelled=self._cancelled, hurry=self._hurry.is_set,
            )  # fmt: skip
            self._take_over(result)
            if result.outcome.ok and not self._cancelled():
                self._serve(result)
            elif result.outcome.ok:
                self._stop_now(result.launch)
            else:
                # The loop has stopped what it started.
                stopped = result.outcome.state == "stopped"
                self._end("stopped" if stopped else "failed", _("Stopped before it was ready.") if stopped else "")
            if self._hand_to is None or self.shown.state != "stopped":
                return
            self._way, self._hand_to = self._hand_to, None
            self._stop.clear()
            self._leave.clear()

    def _serve(self, result: Result) -> None:
        from wizard.launch.prove import ready_made

        current, shown = result.launch, self.shown
        model = result.checks[1].about if len(result.checks) > 1 else current.target.name
        shown.curl, shown.python = ready_made(current.target, model, current.api_key is not None)
        shown.verdict = result.calibration[1] if result.calibration is not None else ""
        self._now("serving")
        self._tell()
        if self._way != "script":
            current.leave_running()  # it was started to be left
            self._left()
            return
        ended = current.serve(self._cancelled)
        if ended.state == "stopped":
            self._stop_now(current)
            return
        from wizard.launch.repair import examine

        diagnosis = examine(current.log_text(), current.target.release, self.wizard.host, ended.returncode)
        best = diagnosis.findings[0] if diagnosis.findings else None
        current.attempt(ended, best.cause if best else None, best.title if best else "")
        shown.outcome, shown.diagnosis = ended, diagnosis
        self._end("died")

    def _stop_now(self, current: Launch) -> None:
        from wizard.faces.launching import stopped_words

        self.shown.state = "stopping"
        self._tell()
        self._end("stopped", stopped_words(current.stop(self._hurry.is_set)))

    def _left(self) -> None:
        from wizard.faces.launching import background_words

        assert self._current is not None
        self._end("left", background_words(self._current))

    def _cancelled(self) -> bool:
        if self._leave.is_set() and self._current is not None:
            self._current.leave_running()  # first: an error ends what was not given out of hand
            raise _LeftRunning
        return self._stop.is_set()

    def _started(self, launch: Launch, number: int) -> None:
        self._current = launch
        shown = self.shown
        shown.number, shown.way, shown.state = number, launch.way, "starting"
        shown.reader, shown.clock, shown.log = launch.reader, lambda: launch.elapsed_s, str(launch.log or "")
        shown.checks, shown.memory, shown.repair, shown.diagnosis, shown.outcome = [], (), None, None, None
        shown.url, shown.name = launch.target.url, launch.target.name
        self._tell()

    def _memory(self, uses: list[MemoryUse]) -> None:
        self.shown.memory = tuple(uses)

    def _check(self, check: Check) -> None:
        self.shown.checks.append(check)
        self._now("proving")
        self._tell()

    def _failed(self, launch: Launch, outcome: Outcome, diagnosis: Diagnosis) -> None:
        shown = self.shown
        shown.outcome, shown.diagnosis = outcome, diagnosis
        title = diagnosis.findings[0].title if diagnosis.findings else _("the log does not say why")
        shown.tried.append(Tried(len(shown.tried) + 1, outcome.seconds, title, log=str(launch.log or "")))
        self._tell()

    def _consent(self, diagnosis: Diagnosis, step: Repair) -> bool:
        shown = self.shown
        shown.before, shown.repair, shown.state = self.plan, step, "asking"
        self._answer = False
        self._answered.clear()
        self._tell()
        while not self._answered.wait(ANSWER_S):
            if self._stop.is_set() or self._leave.is_set():
                return False
        if self._answer:
            last = shown.tried[-1]
            shown.tried[-1] = Tried(last.number, last.seconds, last.title, step.summary, last.log)
            self.plan, self.session = step.plan, step.session
            shown.state = "starting"
        self._tell()
        return self._answer

    def _now(self, state: str) -> None:
        """The start has come so far; what the user has asked for meanwhile stays shown."""
        if not self._stop.is_set() and not self._leave.is_set():
            self.shown.state = state

    def _take_over(self, result: Result) -> None:
        """Repairs changed the plan: the next start, and the walk, go on from there."""
        from wizard.launch.target import from_plan

        if result.plan is None or result.session is None or not any(t.accepted for t in result.tries):
            return
        self.plan, self.session = result.plan, result.session
        self.target = from_plan(result.plan, self.target.folder)
        answers, walk = result.session.answers, self.wizard.walk

        def use() -> None:
            walk.answers = answers
            if walk.session is not None:
                walk.use(walk.session)
            self.wizard.save()
            self.wizard.walk_screen.plan_changed()

        self._in_app(use)

    def _end(self, state: str, message: str = "") -> None:
        self.shown.state, self.shown.message = state, message
        if self._hand_to is None:
            self._in_app(self._over)
        else:
            self._tell()

    def _over(self) -> None:
        """In the application's thread: what was asked for next."""
        self.on_change()
        follow, self.when_over = self.when_over, None
        if follow is not None:
            follow()

    def _tell(self) -> None:
        self._in_app(self.on_change)

    def _in_app(self, call: Callable[[], Any]) -> None:
        """Have the application call something; it is not waited for, and may have ended."""
        app = self.wizard.app
        loop = app._loop
        if loop is None or loop.is_closed() or not app.is_running:
            return
        try:
            loop.call_soon_threadsafe(lambda: app.is_running and app.call_later(call))
        except RuntimeError:
            return


def why_not(wizard: Wizard) -> str:
    """Why the server cannot be started from the walk; "" when it can."""
    plan = wizard.walk.plan
    if plan is None or wizard.walk.session is None:
        return _("There is no plan yet: the machine is still being asked.")
    if wizard.host_name:
        return _("This is the plan of another machine: the server is started there.")
    if wizard.host.platform == "win32":
        return _("vLLM does not run on Windows itself. Start vllm-wizard inside WSL.")
    if not plan.can_serve:
        return _("The plan cannot serve yet: see the blockers.")
    if wizard.copying():
        return _("The model is still being copied; the server can be started when that is done.")
    model = plan.host_model_path
    if plan.move is not None and plan.move.wanted and model and not Path(model).exists():
        return _("The model is not at {path} yet. Copy it first, in the step “{step}”.").format(path=model, step=_(MOVE.title))
    if not (Path(str(plan.value("out_dir"))) / "launch.sh").is_file():
        return _("The files are not written yet.")
    return ""


def make(wizard: Wizard) -> Server:
    """The server of the walk's plan, whose files were written."""
    from wizard.launch.target import from_plan

    plan, session = wizard.walk.plan, wizard.walk.session
    assert plan is not None
    assert session is not None
    return Server(wizard, from_plan(plan, Path(str(plan.value("out_dir")))), plan, session)
