"""The plan while it is being made: decisions are taken in order, each from an answer or from a proposal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wizard.counts import LONGEST, is_longest
from wizard.facts import Machine, Severity
from wizard.i18n import _, listed
from wizard.plan_types import Choice, Decision, FlagRow, Notice, Step
from wizard.session import Session, Value
from wizard.steps import QUESTIONS

# The type of an answer where it is not text. Answers come from files and command lines, so they are converted
# with care; what cannot be converted becomes a blocker that names the key.
_TYPES: dict[str, type] = {
    "max_model_len": int,
    "max_num_seqs": int,
    "tensor_parallel_size": int,
    "limit_images": int,
    "limit_videos": int,
    "port": int,
    "wsl_memory_gib": int,
    "wsl_swap_gib": int,
    "wsl_processors": int,
    "host_cpus": int,
    "replicas": int,
    "gpu_memory_utilization": float,
    "host_memory_gib": float,
    "move": bool,
    "tools": bool,
    "reasoning": bool,
    "trust_remote_code": bool,
    "wsl_write": bool,
    "wsl_keep_alive": bool,
    "gpus": tuple,
    "lora_adapters": tuple,
}


def chosen_instead(proposed: str, reason: str) -> str:
    """The reason of an answer beside what would be taken without it."""
    return _("chosen by you; vllm-wizard would take {proposed}: {reason}").format(proposed=proposed, reason=reason)


@dataclass
class Draft:
    """Collects a plan; every method keeps going whatever the answers are."""

    session: Session
    decisions: dict[str, Decision] = field(default_factory=dict)
    warnings: list[Notice] = field(default_factory=list)
    blockers: list[Notice] = field(default_factory=list)
    choices: dict[str, tuple[Choice, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    after: list[Step] = field(default_factory=list)
    flag_rows: list[FlagRow] = field(default_factory=list)
    used: set[str] = field(default_factory=set)  # keys of answers that were looked at

    @property
    def machine(self) -> Machine:
        return self.session.machine

    def answered(self, key: str) -> tuple[Value, str] | None:
        """The answer of the right type with its layer; a wrong one is named as a blocker and passed over."""
        self.used.add(key)
        given = self.session.answers.get(key)
        if given is None:
            return None
        value, layer = given
        if value == "" and key in QUESTIONS and QUESTIONS[key].optional:
            return None  # left empty: as if it had not been answered
        converted = convert(key, value)
        if converted is None:
            self.refuse(key, value, _("It must be of the kind: {kind}.").format(kind=_kind_name(key)))
            return None
        if isinstance(converted, str) and "\0" in converted:
            self.refuse(key, value, _("It holds a zero byte, which no command can carry."))
            return None
        return converted, layer.value

    def decide(
        self,
        key: str,
        proposed: Value | None,
        reason: str,
        *,
        source: str = "default",
        flag: str | None = None,
        accept: Callable[[Value], str | None] | None = None,
    ) -> Value | None:
        """Take the answer for ``key``, or the proposal. ``accept`` says why an answer cannot be taken.

        An answer that equals the proposal keeps the proposal's reason, so that replaying a saved file gives
        the same files.
        """
        given = self.answered(key)
        if given is not None and accept is not None:
            wrong = accept(given[0])
            if wrong:
                self.refuse(key, given[0], wrong)
                given = None
        if given is None or given[0] == proposed:
            origin = given[1] if given is not None else source
            self.decisions[key] = Decision(key, proposed, reason, origin, flag)
            return proposed
        text = _("chosen by you")
        if proposed is not None and proposed != "" and proposed != ():
            text = chosen_instead(self._named(key, proposed), reason)
        self.decisions[key] = Decision(key, given[0], text, given[1], flag, proposed, True)
        return given[0]

    def decide_value(self, key: str, value: Value, proposed: Value | None, reason: str, layer: str) -> None:
        """Record an answer that was read before, beside what would have been proposed."""
        if value == proposed:
            self.decisions[key] = Decision(key, value, reason, layer)
            return
        text = chosen_instead(self._named(key, proposed or ""), reason)
        self.decisions[key] = Decision(key, value, text, layer, None, proposed, True)

    def _named(self, key: str, value: Value) -> str:
        """A value as the screens call it."""
        for choice in self.choices.get(key, ()):
            if choice.value == value and choice.label != value:
                return _("“{label}”").format(label=choice.label)
        for name, label, _note in QUESTIONS[key].offered if key in QUESTIONS else ():
            if name == value:
                return _("“{label}”").format(label=_(label))
        return _show(value)

    def settle(
        self, key: str, value: Value | None, reason: str, source: str = "detected", flag: str | None = None, *, chosen: bool = False
    ) -> None:
        """Record something that follows from the facts and is not asked; ``chosen``: an answer to which there is no
        proposal, and which a replayed file has to hold as one."""
        self.decisions[key] = Decision(key, value, reason, source, flag, chosen=chosen)

    def warn(
        self, code: str, title: str, detail: str = "", commands: tuple[str, ...] = (), where: str = "linux"
    ) -> None:
        notice = Notice(code, Severity.WARNING, title, detail, commands, where)
        if notice not in self.warnings:
            self.warnings.append(notice)

    def block(
        self, code: str, title: str, detail: str = "", commands: tuple[str, ...] = (), where: str = "linux"
    ) -> None:
        notice = Notice(code, Severity.BLOCKER, title, detail, commands, where)
        if notice not in self.blockers:
            self.blockers.append(notice)

    def refuse(self, key: str, value: Value, why: str) -> None:
        """An answer that cannot be taken, with the reason."""
        words = _("The answer “{key}” cannot be “{value}”.").format(key=key, value=", ".join(value) if isinstance(value, tuple) else value)
        self.block("bad_answer", words, why)


def convert(key: str, value: Value) -> Value | None:
    """``value`` as the type that ``key`` needs, or None where that is not possible."""
    wanted = _TYPES.get(key, str)
    if key == "max_model_len" and is_longest(value):
        return LONGEST
    if wanted is bool:
        if isinstance(value, str):
            return {
                "true": True,
                "yes": True,
                "1": True,
                "on": True,
                "false": False,
                "no": False,
                "0": False,
                "off": False,
            }.get(value.lower())
        return value if isinstance(value, bool) else None
    if wanted is tuple:
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(value)) if key == "gpus" else value
        return tuple(x.strip() for x in str(value).split(",") if x.strip())
    if isinstance(value, (bool, tuple)) and wanted is not str:
        return None
    try:
        if wanted is int:
            return int(value) if not isinstance(value, float) or value.is_integer() else None  # type: ignore[arg-type]
        if wanted is float:
            number = float(value)  # type: ignore[arg-type]
            return number if number == number and abs(number) != float("inf") else None
    except (TypeError, ValueError, OverflowError):
        return None
    return (
        value
        if isinstance(value, str)
        else str(value).lower()
        if isinstance(value, bool)
        else ",".join(value)
        if isinstance(value, tuple)
        else str(value)
    )


def _kind_name(key: str) -> str:
    names = {bool: _("yes or no"), int: _("a whole number"), float: _("a number"), tuple: _("a list")}
    return names.get(_TYPES.get(key, str), _("text"))


def _show(value: Value) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return listed(value) if isinstance(value, tuple) else str(value)
