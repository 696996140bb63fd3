"""Start, and when it fails: diagnose, change the plan on consent, start again; a few times, never in a circle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wizard.launch import repair as repairs
from wizard.launch.prove import Check
from wizard.launch.run import Callbacks, Launch, Outcome
from wizard.launch.target import Target, fingerprint, from_plan

DYING_S = 5.0  # an engine that fails on a request takes the API process along within seconds

if TYPE_CHECKING:
    from wizard.diagnose.engine import Diagnosis
    from wizard.host import Host
    from wizard.launch.repair import Repair
    from wizard.plan_types import Plan
    from wizard.session import Session


@dataclass(frozen=True)
class Try:
    """One failed start: why, and what was changed after it (None: nothing could be, or it was declined)."""

    outcome: Outcome
    diagnosis: Diagnosis
    repair: Repair | None
    accepted: bool
    log: str


@dataclass
class Result:
    """How it ended. ``launch`` is the last start; it runs when ``outcome.ok``."""

    launch: Launch
    outcome: Outcome
    plan: Plan | None
    session: Session | None
    checks: list[Check] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    calibration: tuple[bool, str] | None = None

    @property
    def proven(self) -> bool:
        return self.outcome.ok and bool(self.checks) and all(c.ok for c in self.checks)


@dataclass
class Asks:
    """What the owner of the loop decides and is told."""

    consent: Callable[[Diagnosis, Repair], bool] = lambda diagnosis, repair: False
    on_failure: Callable[[Launch, Outcome, Diagnosis], None] = lambda launch, outcome, diagnosis: None
    on_start: Callable[[Launch, int], None] = lambda launch, number: None


def launch(
    target: Target,
    host: Host,
    *,
    plan: Plan | None = None,
    session: Session | None = None,
    callbacks: Callbacks | None = None,
    asks: Asks | None = None,
    timeout_s: float | None = None,
    way: str = "script",
    cancelled: Callable[[], bool] = lambda: False,
    hurry: Callable[[], bool] = lambda: False,
    leaves: Callable[[], bool] = lambda: False,
    repair: bool = True,
    max_starts: int = repairs.MAX_STARTS,
) -> Result:
    """Start ``target`` until it is ready or there is nothing left to try. ``plan`` and ``session`` are needed for
    repairs. ``cancelled`` ends it: the server is stopped, or, where ``leaves`` says so, goes on without this
    program; ``hurry`` kills what does not stop. Raises WizardError when nothing can be started."""
    callbacks, asks = callbacks or Callbacks(), asks or Asks()
    tried: set[str] = set()
    tries: list[Try] = []
    for number in range(1, max_starts + 1):
        tried.add(fingerprint(target.folder))
        current = Launch(target, host, callbacks, timeout_s, way)
        result = Result(current, Outcome("failed", 0.0), plan, session, tries=tries)
        current.start()
        try:
            asks.on_start(current, number)
            outcome = _run(current, result, host, cancelled, hurry, leaves)
        except BaseException:
            # A terminal that went away, say: the server must not go on without anybody who knows of it.
            current.abandon(hurry)
            raise
        if outcome.ok or outcome.state == "stopped":
            return result
        diagnosis = repairs.examine(current.log_text(), target.release, host, outcome.returncode)
        asks.on_failure(current, outcome, diagnosis)
        step = None
        if repair and plan is not None and session is not None and number < max_starts:
            step = repairs.propose(diagnosis, session, plan, target.folder, host, frozenset(tried))
        accepted = step is not None and asks.consent(diagnosis, step)
        best = diagnosis.findings[0] if diagnosis.findings else None
        taken: dict[str, Any] = step.changed if step is not None and accepted else {}
        current.attempt(
            outcome, best.cause if best else None, best.title if best else "",
            step.summary if step is not None and accepted else "", taken,
        )  # fmt: skip
        tries.append(Try(outcome, diagnosis, step, accepted, str(current.log or "")))
        if step is None or not accepted or cancelled():
            break
        repairs.apply(step)
        plan, session = step.plan, step.session
        target = from_plan(plan, target.folder)
    return Result(current, outcome, plan, session, tries=tries)


def _run(
    current: Launch,
    result: Result,
    host: Host,
    cancelled: Callable[[], bool],
    hurry: Callable[[], bool],
    leaves: Callable[[], bool],
) -> Outcome:
    """From the start to a proven server (``result`` is filled), or how it ended."""
    outcome = current.wait(cancelled)
    if outcome.ok:
        result.checks = current.prove(cancelled)
        outcome = _died_of_it(current, result.checks, cancelled) or outcome
    elif outcome.state == "stopped":
        if leaves():
            current.leave_running()
        else:
            current.stop(hurry)
    result.outcome = outcome
    if outcome.ok or outcome.state == "stopped":
        current.attempt(outcome)
    if outcome.ok and result.plan is not None:
        result.calibration = repairs.calibrate(current.log_text(), result.plan, host)
    return outcome


def _died_of_it(current: Launch, checks: list[Check], cancelled: Callable[[], bool]) -> Outcome | None:
    """The end of a server that came up and then died of its first request; None when it goes on."""
    if all(c.ok for c in checks):
        return None
    until = current.elapsed_s + DYING_S
    ended = current.serve(lambda: current.elapsed_s > until or cancelled())
    return ended if ended.state == "died" else None
