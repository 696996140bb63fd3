"""The walk's state, without a screen: the session, the plan over it, the step it has come to.

Every change of an answer makes a new session and a new plan. An answer equal to what the plan decides by itself
is not kept, so that walking through by Enter alone writes the same files as asking for none of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.facts import Severity
from wizard.i18n import _, sentences
from wizard.models.move_place import own_name, place_in
from wizard.plan_types import WAY_IMPOSSIBLE
from wizard.session import Answers, Layer, Secrets, Session, Value, expand, look_at_adapters
from wizard.steps import (
    MACHINE,
    QUESTIONS,
    REVIEW,
    USUAL_STEPS,
    Question,
    Step,
    asked,
    visible_steps,
)

if TYPE_CHECKING:
    from wizard.host import Host
    from wizard.plan_types import Decision, Plan


@dataclass
class Walk:
    """One walk. ``session`` and ``plan`` are None until the machine has answered."""

    answers: Answers = field(default_factory=Answers)
    secrets: Secrets = field(default_factory=Secrets)
    made_key: str = ""  # the API key that was made for the files (or found in them), and not typed here
    secrets_missing: frozenset[str] = frozenset()  # names of those given in an earlier walk, which keeps none
    session: Session | None = None
    plan: Plan | None = None
    before: Plan | None = None  # the plan before the last change
    step_id: str = MACHINE.id
    visited: set[str] = field(default_factory=set)
    written: bool = False  # the files, in this walk
    pinned_model: bool = False  # the model was taken while the scan still ran, not chosen
    planner: Callable[[Session], Plan] | None = None
    # Of this walk's own: key -> (value, why), taken where nothing is answered; no choice of the user's.
    proposed: Mapping[str, tuple[Value, str]] = field(default_factory=dict)
    places: dict[str, tuple[Value, Layer]] = field(default_factory=dict)  # model -> the place that was given for its copy

    # -- planning ---------------------------------------------------------------------------------------------

    def use(self, session: Session) -> None:
        """Take a new session (facts or models came in) and plan anew; answers given here win."""
        self.session = replace(session, answers=self.answers, secrets=self.secrets)
        self._replan()

    def warm(self, session: Session) -> Plan:
        """Plan over ``session`` once, ahead of its use. The first plan over new facts ranks every model, which
        takes a while: done in a thread, the same plan is then made at once where it is shown."""
        return self._plan(replace(session, answers=self.answers, secrets=self.secrets))

    def _replan(self) -> None:
        if self.session is None:
            return
        self.session = look_at_adapters(self.session)
        new = self._plan(self.session)
        if self.plan is not None and (new.argv != self.plan.argv or new.session.answers != self.plan.session.answers):
            self.before = self.plan
        self.plan = new

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is answered within it is one change."""
        first = self.plan
        yield
        if self.plan is not first:
            self.before = first

    def _plan(self, session: Session) -> Plan:
        if self.planner is None:
            from wizard.plan import plan

            self.planner = plan
        asked = self.with_proposals(session)
        made = self.planner(asked)
        if made.value("run_on", "this") != "this":
            from wizard.faces.clustering import plan_in_walk

            made = plan_in_walk(asked, made)
        if not self.proposed:
            return made
        return replace(made, decisions=tuple(self._as_proposed(d, session) if d.key in self.proposed else d for d in made.decisions))

    def _as_proposed(self, decision: Decision, session: Session) -> Decision:
        """A decision where this walk proposes something else than a plan alone would."""
        value, why = self.proposed[decision.key]
        if session.answers.get(decision.key) is None:
            return replace(decision, reason=why, source="detected", proposed=None, chosen=False)
        if decision.chosen and decision.value != value:
            return replace(decision, reason=_("chosen by you"), proposed=value)
        return decision

    def with_proposals(self, session: Session) -> Session:
        """``session`` with what this walk itself proposes where nothing is answered."""
        answers = session.answers
        for key, (value, _why) in self.proposed.items():
            if answers.get(key) is None:
                answers = answers.with_value(key, value, Layer.CLI)
        return session if answers is session.answers else replace(session, answers=answers)

    def plan_of(self, session: Session) -> Plan:
        """The plan of another session, to try something out; the walk stays as it is."""
        return self._plan(session)

    def new_fault(self, plan: Plan, probed: Session) -> str | None:
        """Why an answer as it stands would be refused by the plan over it."""
        codes = ("flag_refused", "bad_value", "bad_answer")
        faults = [b for b in self.plan_of(probed).blockers if b.code in codes and b not in plan.blockers]
        return sentences(faults[0].title, faults[0].detail) if faults else None

    def check_given(self, plan: Plan) -> None:
        """Hold the answers of files and options against the plan: options of vLLM get the name that the release
        gives them. Raises BadInput for one that is no answer, or not a well-formed one."""
        from wizard.faces.inputs import check_answers, set_given

        session = replace(plan.session, answers=self.answers)
        for layer in (Layer.FILE, Layer.CLI):
            for key, value in self.answers.layer(layer).items():
                if key not in QUESTIONS:
                    session = set_given(session.forget(key), plan, key, value, layer)
        check_answers(session, plan)
        self.answers = session.answers

    # -- answers ----------------------------------------------------------------------------------------------

    def proposal(self, key: str) -> Value | None:
        """What the plan decides for ``key`` when it is not answered."""
        if self.session is None or self.plan is None:
            return None
        question = QUESTIONS.get(key)
        default = question.default if question is not None else None
        if self.answers.get(key) is None:
            decided: Value | None = self.plan.value(key, default)
            return decided
        value: Value | None = self._plan(self.session.forget(key)).value(key, default)
        return value

    def answer(self, key: str, value: Value) -> bool:
        """Take an answer; one that equals the proposal is forgotten. True when the answers changed."""
        if self.session is None:
            return False
        proposed = self.proposal(key)
        if same(value, proposed) or (proposed is None and value in ("", ())):
            return self.forget(key)
        present = self.answers.get(key)
        if present is not None and same(present[0], value):
            return False
        self._set(self.answers.with_value(key, value, Layer.USER))
        return True

    def forget(self, key: str) -> bool:
        """Let the plan decide again. True when there was an answer."""
        if self.answers.get(key) is None:
            return False
        self._set(self.answers.without(key))
        return True

    def set_secret(self, key: str, value: str | None) -> bool:
        if self.secrets.get(key) == (value or None):
            return False
        self.secrets = self.secrets.with_value(key, value)
        if self.session is not None:
            self.session = replace(self.session, secrets=self.secrets)
            self._replan()
        return True

    def misses_secret(self, key: str | None = None) -> bool:
        """Whether a secret (``key``, or any) was given in the walk that this one goes on from, and is not there."""
        return any(self.secrets.get(k) is None for k in self.secrets_missing if key in (None, k))

    def secrets_given(self) -> tuple[str, ...]:
        """Names of the secrets of this walk, those included that are still to be given again."""
        made = {"api_key"} if self.made_key and self.secrets.get("api_key") == self.made_key else set()
        return tuple(sorted({*self.secrets.names(), *self.secrets_missing} - made))

    def _set(self, answers: Answers) -> None:
        before = self.plan.value("model") if self.plan is not None else None
        self.answers = answers
        if self.session is not None:
            self.session = replace(self.session, answers=answers)
            self._replan()
            self._place_of_its_own(before)

    def _place_of_its_own(self, before: Value | None) -> None:
        """A place that was given for the copy of one model is not another's, unless it is a folder of models."""
        now = self.plan.value("model") if self.plan is not None else None
        if now is None or before is None or now == before or self.plan is None:
            return
        given, own = self.answers.get("move_to"), self.places.get(str(now))
        self.places.pop(str(before), None)
        if given is not None and given[1] is not Layer.CLI and not self._holds_models(str(given[0])):
            self.places[str(before)] = given
            self._set(self.answers.without("move_to"))
            given = None
        if given is None and own is not None:
            self._set(self.answers.with_value("move_to", *own))

    def _holds_models(self, place: str) -> bool:
        """Whether ``place`` is one below which each model has a folder of its own name."""
        plan = self.plan
        if plan is None or plan.move is None:
            return False
        home = plan.machine.home
        return place_in(plan.move.source, expand(place, home), home).rsplit("/", 1)[-1] == own_name(plan.move.source)

    # -- steps ------------------------------------------------------------------------------------------------

    def steps(self) -> tuple[Step, ...]:
        """The steps that apply; before the machine has answered, the usual ones."""
        if self.plan is None:
            return USUAL_STEPS
        return visible_steps(self.plan)

    @property
    def step(self) -> Step:
        return next((s for s in self.steps() if s.id == self.step_id), self.steps()[0])

    def index(self) -> int:
        return self.steps().index(self.step)

    def questions(self, step: Step | None = None) -> tuple[Question, ...]:
        step = self.step if step is None else step
        return () if self.plan is None else asked(step, self.plan)

    def neighbour(self, by: int) -> Step | None:
        """The step before (-1) or after (+1) the current one, if there is one."""
        steps, at = self.steps(), self.index() + by
        return steps[at] if 0 <= at < len(steps) else None

    def state(self, step: Step) -> str:
        """"current", "attention", "done" or "open"."""
        if step.id == self.step_id:
            return "current"
        if step.id in self.visited and (step.id != REVIEW.id or self.written):
            return "attention" if self._attention(step) else "done"
        return "open"

    def _attention(self, step: Step) -> bool:
        plan = self.plan
        if plan is None:
            return False
        if step.id == "machine":
            return any(p.severity is not Severity.INFO for p in plan.machine.problems)
        if step.id == "model":
            return plan.model is None or (plan.fit is not None and not plan.fit.fits)
        if step.id == "review":
            return bool(plan.blockers)
        if step.id == "where" and any(b.code == WAY_IMPOSSIBLE for b in plan.blockers):
            return True
        questions = asked(step, plan)
        if any(q.secret and self.misses_secret(q.key) for q in questions):
            return True
        return any(q.error(plan, q.current(plan)) for q in questions if answered(self.answers, q.key))


def copy_here(session: Session, source: str) -> str:
    """The path of the copy of ``source`` (a path or a repository id) that the search found here, one in the Linux
    file system first; else ``source`` itself."""
    path = expand(source, session.machine.home).rstrip("/")
    same = [m for m in session.found if m.complete and not m.is_adapter and (m.name == source or m.path.rstrip("/") == path)]
    same.sort(key=lambda m: m.mount_kind != "linux")
    return same[0].path if same else source


def answered(answers: Answers, key: str) -> bool:
    return answers.get(key) is not None


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same answer (1 and 1.0 are, True and 1 are not)."""
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) < 1e-9
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return tuple(a) == tuple(b)
    return bool(a == b)


def read_existing(host: Host, paths: Iterable[str]) -> Mapping[str, bytes]:
    """The present content of those of ``paths`` that exist (for diffs)."""
    held: dict[str, bytes] = {}
    for path in paths:
        try:
            held[path] = host.read_bytes(path)
        except OSError:
            continue
    return held


def absolute(path: str, out_dir: str | Path) -> str:
    """A file's path: relative ones lie in the chosen folder."""
    return path if path.startswith("/") else str(Path(out_dir) / path)
