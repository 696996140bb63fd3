"""A log -> findings: the first cause in causal order, by rules, with structure before words.

What only repeats (wrappers), what follows from a process being gone (consequences) and what a healthy start
prints too is set aside first. Of what is left the earliest message that a rule knows is the cause; without one
the earliest exception that nothing explains is shown as it is.
"""

from __future__ import annotations

from wizard.diagnose import rulebook
from wizard.diagnose.events import (
    CODE,
    ERROR,
    EXC,
    INFO,
    PLAIN,
    PROSE,
    WARNING,
    Collector,
    Event,
    collect,
    is_running_text,
)
from wizard.diagnose.run_facts import NAMES, Run, runs_of
from wizard.diagnose.spans import accepts, within
from wizard.i18n import N_, _, listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable
    from typing import Any

    from wizard.diagnose.reader import NumberedLines
    from wizard.diagnose.rulebook import Narrowed, Rule, RuleBook

CONFIDENCES = ("high", "medium", "low")
MAX_FINDINGS = 3
_FEW_EVENTS = 300
_TIERS = {rulebook.CAUSE: 0, rulebook.WEAK: 1, "unknown": 2, rulebook.LATE: 3, rulebook.ADVICE: 4}
# A look-up that failed on the way to the real fault.
_USUAL_CONTEXT = frozenset(
    str.split(
        "KeyError AttributeError StopIteration LookupError IndexError FileNotFoundError ValueError HTTPError "
        "RemoteEntryNotFoundError EntryNotFoundError LocalEntryNotFoundError OSError TypeError ImportError"
    )
)
# Found while the arguments are read, the memory is shared out or the weights are loaded, and never by a request.
_START_CAUSES = frozenset(
    str.split(
        "kv_cache_no_memory max_model_len_exceeds_kv max_model_len_exceeds_model mamba_blocks_exceeded gpu_mem_util_too_high "
        "tp_not_dividing_heads tp_not_dividing_quant_block model_config_not_found model_weights_not_found hf_gated_model "
        "dtype_unsupported_gpu quant_unsupported_gpu weight_name_mismatch weight_shape_mismatch port_in_use"
    )
)
_INTERNAL = frozenset(
    str.split(
        "AttributeError TypeError KeyError IndexError AssertionError UnboundLocalError NameError ZeroDivisionError "
        "NotImplementedError RecursionError"
    )
)


class Fix:
    """Something that can be done. ``flags`` and ``env``: name -> value, None takes it away, True is a switch.

    ``less``: its numbers help only where they are below what was asked for."""

    __slots__ = ("commands", "env", "files", "flags", "less", "summary")

    def __init__(
        self,
        summary: str,
        flags: dict[str, Any] | None = None,
        env: dict[str, str | None] | None = None,
        files: list[dict[str, str]] | None = None,
        commands: list[str] | None = None,
        less: bool = False,
    ) -> None:
        self.less = less
        self.summary = summary
        self.flags = flags or {}
        self.env = env or {}
        self.files = files or []
        self.commands = commands or []

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("summary", "flags", "env", "files", "commands")}


class Finding:
    """One cause. ``line`` is the root-cause line as it stands in the input, None when none tells it."""

    __slots__ = ("cause", "confidence", "evidence", "explanation", "fixes", "line", "line_number", "look", "rule", "title")

    def __init__(self, cause: str, title: str, line: str | None, line_number: int | None, confidence: str) -> None:
        self.cause = cause
        self.title = title
        self.line = line
        self.line_number = line_number
        self.confidence = confidence
        self.evidence: list[str] = []
        self.explanation = ""
        self.fixes: list[Fix] = []
        self.look: list[str] = []
        self.rule = ""

    def as_json(self) -> dict[str, Any]:
        names = ("cause", "title", "line", "line_number", "confidence", "evidence", "explanation")
        return {**{n: getattr(self, n) for n in names}, "fixes": [f.as_json() for f in self.fixes], "look": self.look}


class Diagnosis:
    """What a log tells. ``findings`` is empty for a healthy log; best first."""

    def __init__(self) -> None:
        self.release: str | None = None
        self.model: str | None = None
        self.gpu: str | None = None
        self.utilization: float | None = None
        self.wsl: bool | None = None
        self.command: str | None = None
        self.stage: str | None = None
        self.ready = False
        self.runs = 1
        self.run = 1
        self.lines = 0
        self.whole = True
        self.cut = False  # the log was compressed and ends too early
        self.findings: list[Finding] = []
        self.chains: list[dict[str, Any]] = []
        self.wrappers: list[dict[str, Any]] = []
        self.processes: list[str] = []

    def as_json(self) -> dict[str, Any]:
        return {
            "release": self.release,
            "model": self.model,
            "stage": self.stage,
            "findings": [f.as_json() for f in self.findings],
            "gpu": self.gpu,
            "command": self.command,
            "ready": self.ready,
            "runs": self.runs,
            "run": self.run,
            "lines": self.lines,
            "cut": self.cut,
            "errors": self.chains,
            "wrappers": self.wrappers,
        }


class Known:
    """What is known besides the log: asked for, or found on the machine. None is unknown."""

    def __init__(self, release: str | None = None, wsl: bool | None = None, docker: bool | None = None) -> None:
        self.release = release
        self.wsl = wsl
        self.docker = docker


class Match:
    """A rule that fits an event; what checks read and change."""

    def __init__(self, rule: Rule, event: Event, found: re.Match[str] | None, case: Case) -> None:
        self.rule = rule
        self.event = event
        self.found = found
        self.case = case
        self.cause = rule.cause
        self.title = rule.title
        self.explanation = rule.explanation
        self.confidence = rule.confidence
        self.tier = rule.tier
        self.fields: dict[str, Any] = {k: v for k, v in (found.groupdict() if found else {}).items() if v is not None}
        self.evidence: list[str] = []
        self.extra_fixes: list[Fix] = []
        self.drop_fixes = False
        self.line_index = event.index

    @property
    def order(self) -> tuple[int, int, int, int]:
        return (self.strength, _TIERS[self.tier], self.event.index, -self.rule.priority)

    @property
    def strength(self) -> int:
        """0 for what a program reports as its failure, 1 for warnings, quotations and chance hits in other text."""
        kind = self.event.kind
        if kind == PROSE or (kind == PLAIN and self.case.structured):
            return 1
        return int(kind == INFO or (kind == WARNING and self.tier != rulebook.CAUSE))


class Case:
    """One run under examination."""

    def __init__(self, book: RuleBook, run: Run, known: Known) -> None:
        self.book = book
        self.run = run
        self.known = known
        # Looking for a word in the whole text costs less than in each of its lines.
        words = tuple([w for w in book.info_words if run.says(w)])
        self.collector: Collector = collect(run.lines, run.first, run.last, words)
        self.events = self.collector.events
        # With exceptions or errors of loggers in the log, other lines are commands, scripts and prose.
        self.structured = any(e.kind in (EXC, ERROR) for e in self.events)
        self._release: list[str | None] = []
        self._wrappers: dict[str, bool] = {}
        self._narrowed: Narrowed | None = None
        self.wrappers, self.consequences, self.died, self.harmless = book.wrappers, book.consequences, book.died, book.harmless
        if len(self.events) <= _FEW_EVENTS:
            # What none of the messages holds need not be looked for in each of them.
            text = "\n".join([e.text for e in self.events])
            self._narrowed = book.narrowed(text)
            self.wrappers, self.consequences, self.died, self.harmless = [
                tuple([p for p in patterns if p.may_be_in(text)]) for patterns in (book.wrappers, book.consequences, book.died, book.harmless)
            ]

    @property
    def release(self) -> str | None:
        if not self._release:
            self._release.append(self.known.release or self.run.release)
        return self._release[0]

    @property
    def wsl(self) -> bool | None:
        return self.known.wsl if self.known.wsl is not None else self.run.wsl

    @property
    def docker(self) -> bool | None:
        return self.known.docker if self.known.docker is not None else self.run.docker

    def holds(self, fact: str) -> bool:
        """Whether a rule's condition is known to hold; "!x": is not known to hold."""
        if fact.startswith("!"):
            return not self.holds(fact[1:])
        if fact.startswith("given:"):
            return self.run.given(fact[6:])
        if fact == "wsl":
            return self.wsl is True
        if fact == "docker":
            return self.docker is True
        if fact == "ready":
            return self.run.ready_index >= 0
        if fact == "cpu":
            return self.run.cpu
        if fact == "rocm":
            return any(word in self.run.text for word in ("ROCm", "rocm", "HIP error", "hip", "gfx9", "gfx11"))
        raise ValueError(fact)

    def is_wrapper(self, event: Event) -> bool:
        """Whether the message only repeats that something below failed."""
        known = self._wrappers.get(event.text)
        if known is None:
            known = self._wrappers[event.text] = self.book.matches(self.wrappers, event.text)
        return known

    # -- matching ---------------------------------------------------------------------------------------------

    def matches(self, events: list[Event]) -> list[Match]:
        out = []
        for event in events:
            best = self.best(event)
            if best is not None:
                out.append(best)
        return out

    def best(self, event: Event) -> Match | None:
        """The rule of the highest priority that fits the event."""
        best: Match | None = None

        def worth(rule: Rule) -> bool:
            # Before its expressions are compiled, which takes longest.
            if event.kind not in rule.kinds or (rule.frames and not any(p.may_be_in(event.frames) for p in rule.frames)):
                return False
            return best is None or (rule.priority, -rule.order) > (best.rule.priority, -best.rule.order)

        for rule, found in self.book.hits(event.text, self._narrowed, worth):
            match = self.fits(rule, event, found)
            if match is not None:
                best = match
        return best

    def fits(self, rule: Rule, event: Event, found: re.Match[str] | None) -> Match | None:
        if event.kind not in rule.kinds:
            return None
        if rule.excluded and self.book.matches(rule.excluded, event.text):
            return None
        if rule.frames and not self.book.matches(rule.frames, event.frames):
            return None
        if rule.facts and not all(self.holds(fact) for fact in rule.facts):
            return None
        if rule.stages:
            stage = self.run.stage_at(event.index)
            if stage < 0 or NAMES[stage] not in rule.stages:
                return None
        if rule.with_all and not all(p.search(self.run.text) for p in rule.with_all):
            return None
        if rule.without and self.book.matches(rule.without, self.run.text):
            return None
        if rule.releases and self.release and not within(self.release, rule.releases):
            return None
        match = Match(rule, event, found, self)
        if rule.check:
            from wizard.diagnose import checks

            if not checks.CHECKS[rule.check](match):
                return None
        return match


# -- the way from a log to findings ---------------------------------------------------------------------------


def diagnose(lines: NumberedLines, known: Known | None = None) -> Diagnosis:
    """Examine a log. Never raises on what a log may hold."""
    known = known or Known()
    book = rulebook.load()
    runs = runs_of(lines)
    diagnosis = Diagnosis()
    diagnosis.lines, diagnosis.whole, diagnosis.cut, diagnosis.runs = lines.total, lines.whole, lines.cut, max(1, len(runs))
    # Of many restarts the last ones tell.
    chosen: tuple[int, Case, list[Match]] | None = None
    stopped: tuple[int, Case, list[Match]] | None = None
    for number in range(len(runs), max(0, len(runs) - 12), -1):
        case = Case(book, runs[number - 1], known)
        matches = examine(case)
        if matches and matches[0].tier == rulebook.LATE and matches[0].rule.id == "sigterm-start" and number > 1 and stopped is None:
            # A start that was stopped right after a failure: the failure before it is what matters.
            stopped = (number, case, matches)
            continue
        if matches or case.run.ready_index >= 0 or number == 1:
            chosen = (number, case, matches)
            break
        if chosen is None:
            chosen = (number, case, matches)
    if stopped is not None and (chosen is None or not chosen[2]):
        chosen = stopped
    elif stopped is not None and chosen is not None:
        chosen = (chosen[0], chosen[1], [*chosen[2], *stopped[2]])
    if chosen is None:
        return diagnosis
    number, case, matches = chosen
    diagnosis.run = number
    _tell(diagnosis, case, matches)
    return diagnosis


def examine(case: Case) -> list[Match]:
    """The causes of one run, best first; empty when nothing failed."""
    book, run = case.book, case.run
    ready = run.ready_index
    died = -1
    if ready >= 0:
        died = next((e.index for e in case.events if e.index > ready and e.kind != INFO and book.matches(case.died, e.text)), -1)
    if died >= 0 and run.stopped_before(died):
        died = -1  # that its parts end then is as it should be
    if ready >= 0 and died < 0:
        # The server came up and did not die: only what is about reaching it can be wrong.
        later = case.matches([e for e in case.events if e.index > ready])
        return _ordered([m for m in later if "ready" in m.rule.stages or _only_at_start(m)])
    events = [e for e in case.events if e.index > ready] if ready >= 0 else case.events
    plain = [e for e in events if not case.is_wrapper(e) and not book.matches(case.harmless, e.text)]
    matches = case.matches(plain)
    # A cause may be told in the words of a wrapper ("Worker failed with error 'No such file: ninja'").
    named = {m.rule.id for m in matches}
    matches += [m for m in case.matches([e for e in events if case.is_wrapper(e)]) if m.rule.id not in named]
    fatal = [m for m in matches if m.tier == rulebook.LATE or not _survived(case, m.event)]
    ending = [e for e in plain if e.kind not in (EXC, CODE, ERROR) or not _survived(case, e)]
    unknown = _unexplained(case, ending, {m.event.chain for m in fatal if m.event.chain})
    if fatal or unknown is not None or not any(e.kind != INFO and case.is_wrapper(e) for e in events):
        matches, plain = fatal, ending
    matches = _ordered(matches)
    if unknown is not None and (not matches or unknown.order < matches[0].order):
        matches = [unknown, *[m for m in matches if m.tier != rulebook.ADVICE]]
    if all(m.tier == rulebook.ADVICE and m.event.kind in (WARNING, INFO) for m in matches):
        # A warning explains no engine that is gone.
        gone = _cut_off(case, plain) or _vanished(case, events)
        if gone is not None:
            return [gone, *matches]
    if not matches:
        hung = _hung(case)
        if hung is not None:
            return [hung]
    return matches


def _only_at_start(match: Match) -> bool:
    """Whether a server at work cannot have printed it: what was taken for its work belongs to something else."""
    case, event = match.case, match.event
    if match.cause not in _START_CAUSES or match.tier != rulebook.CAUSE or event.kind not in (EXC, ERROR):
        return False
    rows = case.run.lines.lines
    return not any('HTTP/1.1" 200' in row or "throughput: " in row for row in rows[event.index + 1 : case.run.last])


def _survived(case: Case, event: Event) -> bool:
    """Whether the start went on after an error: then it was caught, and is not what the start died of."""
    run = case.run
    if event.kind in (WARNING, INFO) or not run.marks or run.marks[-1][1] <= event.index:
        return False
    own = f"pid={event.proc})" if event.name and not event.name.lower().startswith("apiserver") else ""
    return run.last_progress(own, run.stage_at(event.index)) > event.index


def _ordered(matches: list[Match]) -> list[Match]:
    beaten: set[str] = set()
    for match in matches:
        beaten.update(match.rule.over)
    kept = [m for m in matches if m.cause not in beaten and m.rule.id not in beaten]
    return sorted(kept or matches, key=lambda m: m.order)


def _unexplained(case: Case, events: list[Event], explained: set[int]) -> Match | None:
    """The earliest exception that no rule knows, or else the earliest error line."""
    book = case.book
    left = [
        e
        for e in events
        if e.kind in (EXC, PROSE, ERROR) and not book.matches(case.consequences, e.text) and e.level != "WARNING"
    ]
    by_strength = (
        [e for e in left if e.kind == EXC and e.has_traceback],
        [e for e in left if e.kind == EXC],
        [e for e in left if e.kind == ERROR],
        [e for e in left if e.kind == PROSE],
    )
    for group in by_strength:
        group = [e for e in group if e.chain not in explained or not e.chain]
        if not group:
            continue
        event = _root_of_chain(group, group[0])
        cause = "unknown"
        name = event.type.rpartition(".")[2].partition("(")[0]
        if name in _INTERNAL:
            cause = "vllm_internal_bug"
        match = Match(book.by_id("internal-bug" if cause == "vllm_internal_bug" else "unknown"), event, None, case)
        match.tier = "unknown"
        if event.bare or _is_only_a_heading(event.text):
            match.line_index = _telling_line(case, event)
        return match
    return None


def _is_only_a_heading(text: str) -> bool:
    """``ValidationError: 1 validation error for VllmConfig``: what is wrong follows."""
    before, found, name = text.rpartition(" for ")
    return bool(found) and name.isidentifier() and before.endswith(("validation error", "validation errors"))


def _root_of_chain(events: list[Event], first: Event) -> Event:
    chain = [e for e in events if e.chain == first.chain]
    name = first.type.rpartition(".")[2]
    if len(chain) > 1 and chain[1].link == "context" and name in _USUAL_CONTEXT:
        return chain[-1]
    return first


def _telling_line(case: Case, event: Event) -> int:
    """Where the message itself stands: the failed assertion, or the line below an empty exception."""
    for other in case.events:
        if other.kind == CODE and other.chain == event.chain:
            return other.index
    return event.next_index if event.next_index >= 0 else event.index


def _cut_off(case: Case, events: list[Event]) -> Match | None:
    """A traceback whose exception is missing, with nothing but what repeats it behind."""
    ended = {e.chain for e in events if e.kind == EXC}
    for event in reversed(events):
        if event.kind == CODE and not event.type and event.chain not in ended:
            return Match(case.book.by_id("cut-off"), event, None, case)
    return None


def _vanished(case: Case, events: list[Event]) -> Match | None:
    """The engine is gone and nothing above says why: only the kernel or a watchdog ends a process so."""
    book = case.book
    for event in events:
        if event.kind != INFO and case.is_wrapper(event):
            if not case.run.marks and not _reported(case, event):
                return Match(book.by_id("only-the-echo"), event, None, case)
            match = Match(book.by_id("engine-vanished"), event, None, case)
            match.line_index = -1
            match.evidence.append(event.text)
            return match
    return None


def _reported(case: Case, event: Event) -> bool:
    """Whether anything that a server logs stands above an event: then what is missing was never printed."""
    rows = case.run.lines.lines[case.run.first : event.index]
    return any(word in row for row in rows for word in ("INFO ", "WARNING ", "[core.py"))


def _hung(case: Case) -> Match | None:
    """The log simply ends at a place where starts are known to hang."""
    rows = case.run.lines.lines
    for index in range(case.run.last - 1, max(case.run.first, case.run.last - 40) - 1, -1):
        text = rows[index].strip()
        if not text or set(text) <= set("`"):
            continue
        for rule in case.book.last_rules:
            if case.book.matches(rule.last, text):
                from wizard.diagnose.lines import parse

                event = Event(PLAIN, index, parse(text).body.strip(), parse(text))
                event.kind = next(iter(rule.kinds))
                match = case.fits(rule, event, None)
                if match is not None:
                    return match
        return None
    return None


# -- telling --------------------------------------------------------------------------------------------------


def _tell(diagnosis: Diagnosis, case: Case, matches: list[Match]) -> None:
    run = case.run
    diagnosis.release = case.release
    diagnosis.model = run.model
    diagnosis.gpu = run.gpu
    diagnosis.utilization = run.utilization
    diagnosis.wsl = case.wsl
    diagnosis.command = run.command
    diagnosis.ready = run.ready_index >= 0
    diagnosis.stage = NAMES[run.stage] if run.stage >= 0 else None
    causes: set[str] = set()
    for match in matches:
        # A second cause is only told when it is a cause in its own right.
        if match.cause in causes or (causes and match.tier not in (rulebook.CAUSE,) and match.rule.id != "sigterm-start"):
            continue
        causes.add(match.cause)
        finding = _finding(case, match)
        if len(causes) > 1 and finding.confidence == "high":
            finding.confidence = "medium"
        diagnosis.findings.append(finding)
        if len(causes) >= MAX_FINDINGS:
            break
    _tell_errors(diagnosis, case)


def _tell_errors(diagnosis: Diagnosis, case: Case) -> None:
    lines = case.run.lines
    for event in case.events:
        if event.kind == INFO:
            continue
        row = {"line_number": lines.numbers[event.index], "process": event.name or None, "text": event.text[:500], "times": case.collector.count(event)}
        if case.is_wrapper(event):
            if len(diagnosis.wrappers) < 20:
                diagnosis.wrappers.append(row)
        elif event.kind == EXC and len(diagnosis.chains) < 40:
            diagnosis.chains.append({**row, "chain": event.chain, "follows": event.link or None})


def _finding(case: Case, match: Match) -> Finding:
    lines = case.run.lines
    index = match.line_index
    if index >= 0 and match.rule.line:
        index = _picked_line(case, match, index)
    line = lines.lines[index].rstrip("\r") if index >= 0 else None
    number = lines.numbers[index] if index >= 0 else None
    fields = _Fields(match.fields)
    # What stands in prose is hearsay.
    hearsay = match.strength or is_running_text(match.event)
    confidence = "medium" if hearsay and match.confidence == "high" else match.confidence
    finding = Finding(match.cause, _(match.title).format_map(fields), line, number, confidence)
    finding.rule = match.rule.id
    finding.explanation = _(match.explanation).format_map(fields)
    finding.evidence = [e for e in (match.event.text[:500] if index >= 0 else None, *match.evidence) if e]
    stage = case.run.stage_at(match.event.index)
    if stage >= 0:
        finding.evidence.append(_("stage reached: {stage}").format(stage=_(STAGE_TEXTS[NAMES[stage]])))
    times = case.collector.count(match.event)
    if times > 1:
        finding.evidence.append(_("the same message {count} times").format(count=times))
    finding.look = [_(text).format_map(fields) for text in match.rule.notes]
    finding.fixes = list(match.extra_fixes)
    if not match.drop_fixes:
        finding.fixes += fixes_of(case, match.rule.fixes, match.fields)
    if case.docker:
        for fix in finding.fixes:
            fix.commands = [_of_image(c) for c in fix.commands]
    _name_the_model(finding, case.run.model)
    made_up = _made_up_flags(case.run.text)
    if made_up and finding.cause not in ("flag_never_existed", "flag_typo"):
        told = _("The text also holds a command with options that no vLLM release has ({flags}): “{check}” repairs it.")
        finding.look.append(told.format(flags=listed(made_up), check="vllm-wizard check"))
    return finding


def _made_up_flags(text: str) -> list[str]:
    """Options of a vllm serve command in a text (an article around a log) that no release has ever had."""
    if "vllm serve" not in text:
        return []
    import re

    commands = re.findall(r"\bvllm serve\b(?:[^\n]*\\\n){0,40}[^\n]*", text)
    flags = dict.fromkeys(flag for c in commands for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", c.replace("_", "-")))
    if not flags:
        return []
    from wizard import releases

    found = [f for f in flags if not releases.flag_spans(f) and not releases.flag_spans("--" + f.removeprefix("--no-"))]
    return found[:6]


def _of_image(command: str) -> str:
    """A newer vLLM for a server in a container: another image, for what is installed into one is gone with it."""
    before, _sign, rest = command.partition("pip install -U 'vllm>=")
    if before or not rest.endswith("'"):
        return command
    parts = [*rest[:-1].split("."), "0", "0"][:3]
    return f"docker pull vllm/vllm-openai:v{'.'.join(parts)}"


def _name_the_model(finding: Finding, model: str | None) -> None:
    """Put the model of the log into the commands, in place of the words that the rules have for it."""
    commands = " ".join([c for fix in finding.fixes for c in fix.commands])
    if "MODEL_FOLDER" not in commands and "REPOSITORY" not in commands:
        return
    from wizard.diagnose import placeholders

    for fix in finding.fixes:
        fix.commands = placeholders.filled(fix.commands, model)
    finding.look += placeholders.unknown_words([c for fix in finding.fixes for c in fix.commands])


def _picked_line(case: Case, match: Match, index: int) -> int:
    rows = case.run.lines.lines
    for at in range(max(case.run.first, index - 5), min(case.run.last, index + 60)):
        if case.book.matches(match.rule.line, rows[at]):
            return at
    return index


class _Fields(dict):  # type: ignore[type-arg]
    def __missing__(self, key: str) -> str:
        return "?"


def fixes_of(case: Case, rows: list[dict[str, Any]], fields: dict[str, Any]) -> list[Fix]:
    """The fixes that apply: right for the release, with every figure known; flags as the release spells them."""
    out = []
    for row in rows:
        if row.get("releases") and case.release and not within(case.release, row["releases"]):
            continue
        if row.get("when") and not all(case.holds(fact) for fact in str(row["when"]).split()):
            continue
        try:
            fix = Fix(
                _(row["summary"]).format(**fields),
                {k: v.format(**fields) if isinstance(v, str) else v for k, v in row.get("flags", {}).items()},
                {k: str(v).format(**fields) if v is not None else None for k, v in row.get("env", {}).items()},
                [{k: str(v).format(**fields) for k, v in file.items()} for file in row.get("files", ())],
                [str(c).format(**fields) for c in row.get("commands", ())],
                bool(row.get("less")),
            )
        except (KeyError, IndexError):
            continue  # a figure that this log does not give
        if fix.less:
            fix.flags = only_less(fix.flags, case.run.value_of)
            if not fix.flags:
                continue
        if fix.flags and case.release and not _accepted(case.release, fix.flags):
            continue
        if row.get("releases") and not case.release:
            fix.summary = _with_span(fix.summary, row["releases"])
        out.append(fix)
    return out


_SPANS = (
    (">=", N_("{summary} (vLLM {release} and newer)")),
    ("<=", N_("{summary} (vLLM up to {release})")),
    ("<", N_("{summary} (vLLM before {release})")),
)


def _with_span(summary: str, spec: str) -> str:
    """For which releases a fix is, where the log does not tell which one it is from."""
    sign, text = next(row for row in _SPANS if spec.startswith(row[0]))
    return _(text).format(summary=summary, release=spec[len(sign) :])


def only_less(flags: dict[str, Any], now: Callable[[str], str | None]) -> dict[str, Any]:
    """``flags`` with numbers below what is asked for ``now`` (by dest; None: not known): half of that where a rule's own
    is no lower; {} where no number can be."""
    kept, lowers = {}, False
    for flag, value in flags.items():
        number, there = _whole(value), _whole(now(flag.lstrip("-").replace("-", "_")))
        if number is not None and there is not None and number >= there:
            if there < 2:
                continue
            value = str(there // 2)
        kept[flag] = value
        lowers = lowers or number is not None
    return kept if lowers else {}


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) and str(value).isdigit() else None


def _accepted(release: str, flags: dict[str, Any]) -> bool:
    """Whether the release takes all flags that are to be set (taking one away always works)."""
    return all(accepts(release, flag) for flag, value in flags.items() if value is not None)


STAGE_TEXTS = {
    "arguments": N_("arguments read"),
    "configuration": N_("configuration checked"),
    "engine": N_("engine started"),
    "loading": N_("loading the weights"),
    "profiling": N_("weights loaded, measuring memory"),
    "kv_cache": N_("KV cache sized"),
    "graphs": N_("capturing CUDA graphs"),
    "ready": N_("server ready"),
    "serving": N_("serving requests"),
}
