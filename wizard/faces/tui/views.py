"""One view a step: the questions of the step in order, and what only that step shows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from wizard.faces.tui import panes, text, ways
from wizard.faces.tui.fields import Field
from wizard.faces.tui.look import Glyphs
from wizard.faces.tui.text import ACCENT, BAD, BOLD, DIM, OK, TEXT, WARN, Part, clip, content, join, pad
from wizard.faces.tui.walk import Walk
from wizard.faces.tui.widgets import LineInput, Panel, PushButton, Row, Rows, Toggle, glyphs_of
from wizard.i18n import N_, _, clauses, listed, ngettext, sentences
from wizard.models.move_place import about_seconds
from wizard.models.words import origin_words, quant_words
from wizard.plan_types import WAY_IMPOSSIBLE
from wizard.program import spelt
from wizard.session import THIS_MACHINE
from wizard.steps import Step, nothing_runs_here

if TYPE_CHECKING:
    from wizard.facts import ProbeRun
    from wizard.models.info import FoundModel
    from wizard.plan_types import Choice as PlanChoice
    from wizard.plan_types import FlagRow, Notice, Plan
    from wizard.plan_types import Step as TypeNext


class StepView(VerticalScroll, can_focus=False, inherit_bindings=False):
    """The middle zone for one step."""

    next_label = N_("Next")

    def __init__(self, step: Step) -> None:
        super().__init__(id=f"step-{step.id}")
        self.step = step
        self._brought: tuple[Plan | None, tuple[object, ...]] | None = None  # what it was brought up to

    class Grown(Message):
        """The content needs more or less room than before, or another part of it is in view."""

    def watch_virtual_size(self) -> None:
        self.post_message(self.Grown())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Grown())

    def compose(self) -> ComposeResult:
        with Vertical(classes="inner"):
            yield Static(Content(_(self.step.intro)), classes="intro")
            yield from self.above()
            yield from self.compose_fields()
            yield from self.below()

    def above(self) -> Iterator[Widget]:
        yield from ()

    def below(self) -> Iterator[Widget]:
        yield from ()

    def compose_fields(self) -> Iterator[Widget]:
        rare = [q for q in self.step.questions if q.advanced]
        first = True
        for question in self.step.questions:
            if question.advanced or question.kind == "model":
                continue
            yield Field(question, compact=self.step.id == "flags" and not first)
            first = False
        if rare:
            yield Static(Content(_("Rarely needed")), classes="heading")
            for question in rare:
                yield Field(question, compact=True)

    def fields(self) -> list[Field]:
        return [f for f in self.query(Field) if f.display]

    def field_of(self, key: str) -> Field | None:
        return next((f for f in self.query(Field) if f.question.key == key), None)

    def show(self, walk: Walk) -> None:
        """Show the plan as it is now."""
        width = self.room()
        for item in self.query(Field):
            item.show(walk, width)

    def bring_up(self, walk: Walk, *, anew: bool = False) -> None:
        """Show the plan; unless ``anew``, only where exactly this is not shown already."""
        if anew or not self.stands(walk):
            self.show(walk)
            self._brought = walk.plan, self._state()

    def stands(self, walk: Walk) -> bool:
        """Whether ``bring_up`` has nothing to do."""
        return self.is_brought_up(walk) and not any(f.touched for f in self.query(Field))

    def is_brought_up(self, walk: Walk) -> bool:
        """Whether it was brought up to this plan; what the user has typed into it meanwhile may still be shown anew."""
        if self._brought is None:
            return False
        plan, state = self._brought
        return plan is walk.plan and state == self._state()

    def _state(self) -> tuple[object, ...]:
        """What is shown depends on this and on the plan."""
        return self.room(), self.high(), *self.own_state()

    def own_state(self) -> tuple[object, ...]:
        """The view's own part of it."""
        return ()

    def enter_label(self, plan: Plan | None) -> str:
        """What Enter does here, once it is not taken by the control under it; translated where it is shown."""
        return self.next_label

    def first_focus(self) -> Widget | None:
        """What is focused on arrival; None: the button that goes on."""
        for item in self.fields():
            return item.control
        return None

    def room(self) -> int:
        """Cells for text in this view, known before it is laid out: a border's gap, the scroll bar, a gap."""
        holder = self.parent
        return max(20, holder.size.width - 3) if isinstance(holder, Widget) else 20

    def high(self) -> int:
        """Lines that are in view at once, known before this view is laid out."""
        holder = self.parent
        return holder.size.height if isinstance(holder, Widget) else 0


# -- 1: the machine ---------------------------------------------------------------------------------------------


@dataclass
class ProbeLine:
    name: str
    title: str
    started: float = field(default_factory=time.monotonic)
    run: ProbeRun | None = None


# Short names, so that what was found has room; a probe that is not listed shows its own label.
_SHORT = {
    "system": N_("System"),
    "gpu": N_("GPU"),
    "cpu": N_("Processor"),
    "wsl": N_("WSL"),
    "docker": N_("Docker"),
    "memory": N_("Memory"),
    "windows": N_("Windows"),
    "disks": N_("Disks"),
    "python": N_("Python"),
    "vllm": N_("vLLM"),
    "ports": N_("Ports"),
}
SLOW_S = 2.0  # a probe that has not answered by then is named


class MachineView(StepView):
    """Each probe on its own line, ticking as it answers; below, what stands in the way and how to cure it."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.probes: dict[str, ProbeLine] = {}
        self.finished = False
        self.trouble = ""
        self._frame = 0

    def above(self) -> Iterator[Widget]:
        yield Panel(id="problems", classes="block")
        yield Panel(id="probes", classes="block")
        with Horizontal(classes="row block", id="again-row"):
            yield PushButton(_("Ask again"), id="ask-again")

    def below(self) -> Iterator[Widget]:
        with Horizontal(classes="row block", id="failed-row"):
            yield PushButton(_("A start that failed: open its log"), id="diagnose")

    def on_mount(self) -> None:
        self.query_one("#problems").display = False
        self.query_one("#again-row").display = False
        self.draw_probes()

    def restart(self) -> None:
        """Forget all answers: the probes are asked anew."""
        self.probes, self.finished, self.trouble = {}, False, ""
        self.query_one("#problems").display = False
        self.query_one("#again-row").display = False
        self.draw_probes()

    def start(self, names: Mapping[str, str]) -> None:
        """Show the probes (name -> label) as being asked."""
        for name, label in names.items():
            self.probes.setdefault(name, ProbeLine(name, _(_SHORT.get(name, label))))
        self.draw_probes()

    def answered(self, run: ProbeRun) -> None:
        line = self.probes.setdefault(run.name, ProbeLine(run.name, _(_SHORT.get(run.name, run.name.capitalize()))))
        line.run = run
        self.draw_probes()

    def tick(self) -> None:
        """One frame of the waiting marks."""
        if not self.finished:
            self._frame += 1
            self.draw_probes()

    def waiting(self) -> list[ProbeLine]:
        return [line for line in self.probes.values() if line.run is None]

    def draw_probes(self) -> None:
        if not self.is_mounted:
            return
        self.query_one("#probes", Panel).put(self.probe_content(glyphs_of(self), self.room()))

    def probe_content(self, glyphs: Glyphs, width: int) -> Content:
        if not self.probes:
            return Content.styled(_("Asking this machine") + glyphs.ellipsis, DIM)
        title_width = max(cell_len(p.title) for p in self.probes.values())
        lines = [self._probe_line(p, pad(p.title, title_width), glyphs, width) for p in self.probes.values()]
        lines.append(self._probe_summary(glyphs))
        return join(lines)

    def _probe_line(self, line: ProbeLine, title: str, glyphs: Glyphs, width: int) -> Content:
        mark, mark_style, told, told_style = self._probe_words(line, glyphs)
        seconds = f"  {line.run.seconds:.1f} s" if line.run is not None and line.run.seconds >= 0.15 else ""
        indent = 2 + cell_len(title) + 2
        room = max(12, width - indent)
        lines = Content.assemble((told, told_style), (seconds, DIM)).wrap(room)
        head = content([(mark + " ", f"bold {mark_style}"), (title + "  ", TEXT)])
        return join([head + lines[0], *[Content(" " * indent) + rest for rest in lines[1:]]])

    def _probe_words(self, line: ProbeLine, glyphs: Glyphs) -> tuple[str, str, str, str]:
        """Glyph, its style, what is said, and that one's style."""
        run = line.run
        if run is None:
            if self.finished:
                return glyphs.attention, WARN, _("gone on without it"), DIM
            spinner = glyphs.spinner[self._frame % len(glyphs.spinner)]
            seconds = time.monotonic() - line.started
            if seconds >= SLOW_S:
                told = _("no answer for {time} {dots} Enter goes on without it").format(time=text.duration(seconds), dots=glyphs.dash)
                return spinner, WARN, told, WARN
            return spinner, ACCENT, _("asking") + glyphs.ellipsis, DIM
        if run.timed_out:
            return glyphs.attention, WARN, _("timed out: {why}").format(why=run.reason or _("no answer")), WARN
        if not run.ok:
            return glyphs.attention, WARN, run.reason or run.summary or _("no answer"), WARN
        if not run.found:
            return glyphs.dash, DIM, run.summary or _("none"), TEXT
        return glyphs.done, OK, run.summary or _("fine"), TEXT

    def _probe_summary(self, glyphs: Glyphs) -> Content:
        waiting = self.waiting()
        if not self.finished:
            return Content("")
        if waiting:
            names = ", ".join(w.title for w in waiting)
            return content([("\n" + _("Without an answer: {names}. What depends on it is marked as not known.").format(names=names), WARN)])
        return Content("")

    def own_state(self) -> tuple[object, ...]:
        return self.trouble, self.finished, tuple(line.run for line in self.probes.values())

    def show(self, walk: Walk) -> None:
        super().show(walk)
        self.draw_probes()
        box = self.query_one("#problems", Panel)
        glyphs = glyphs_of(self)
        if self.trouble:
            box.put(content([(f"{glyphs.blocked} ", BAD), (self.trouble, TEXT)]))
            box.display = True
            return
        if walk.plan is None:
            return
        # Who has cured something must not have to leave and start again to see it.
        found = text.by_severity(walk.plan.machine.problems)
        self.query_one("#again-row").display = bool(found) or bool(self.trouble)
        if found:
            box.put(join([text.problems(found, glyphs, self.room()), Content(""), panes.heading(_("What was found"), "", self.room())]))
        else:
            box.put(content([(f"{glyphs.done} ", OK), (_("Nothing stands in the way.") + "\n", TEXT)]))
        box.display = True

    def first_focus(self) -> Widget | None:
        return None


# -- 2: the model -----------------------------------------------------------------------------------------------


class ModelView(StepView):
    """What lies on this machine, what recipes fit, and a line for anything else; the memory bar below."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.looking = False
        self.looked_at = ""
        self.found_so_far: list[FoundModel] = []
        self.chosen: str | None = None  # by the cursor; None: what the plan takes
        self.error = ""
        self.reading = ""  # a source that is being read
        self._walk: Walk | None = None

    def compose_fields(self) -> Iterator[Widget]:
        yield Panel(id="model-status", classes="block")
        yield Rows(id="models", max_lines=11, empty=_("Nothing found yet."))
        with Horizontal(classes="row block", id="typed-row"):
            yield Static(Content(_("Another one")), classes="label")
            yield LineInput(id="typed", placeholder=_("a path, or owner/name"))
        error = Panel(id="model-error", classes="block")
        error.display = False
        yield error
        yield Panel(id="model-memory", classes="block")
        yield Panel(id="model-about", classes="block")

    def first_focus(self) -> Widget | None:
        return self.query_one("#models", Rows)

    def typed(self) -> str:
        return self.query_one("#typed", LineInput).value.strip()

    def forget_typed(self) -> None:
        self.query_one("#typed", LineInput).value = ""

    def set_error(self, message: str) -> None:
        self.error = message
        box = self.query_one("#model-error", Panel)
        box.put(Content.styled(f"{glyphs_of(self).attention} {message}", BAD))
        box.display = bool(message)

    def own_state(self) -> tuple[object, ...]:
        return self.looking, self.chosen, self.error, self.reading  # (what the search finds is shown as it comes)

    def show(self, walk: Walk) -> None:
        self._walk = walk
        plan = walk.plan
        if plan is None:
            return
        glyphs = glyphs_of(self)
        rows = self.query_one("#models", Rows)
        current = plan.value("model")
        entries = model_entries(plan, self.found_so_far if self.looking else None)
        # The memory bar shall be in view below the list: 13 lines are the list's neighbours.
        rows.max_lines = max(5, self.high() - 13)
        rows.set_rows(_model_rows(entries, self), tuple(entries))
        rows.choose(str(current) if current is not None else None)
        if self.chosen is None or self.chosen == rows.chosen:
            rows.point_at(rows.chosen)
        self.query_one("#model-status", Panel).put(self._status(entries, glyphs))
        self.query_one("#model-about", Panel).put(self._about(plan, glyphs))
        self.query_one("#model-memory", Panel).put(
            join([panes.heading(panes.memory_heading(plan), panes.memory_total(plan), self.room()), text.memory_bar(plan, glyphs, self.room())])
        )

    def _status(self, entries: list[ModelEntry], glyphs: Glyphs) -> Content:
        here = sum(1 for e in entries if e.group == "here")
        if self.looking:
            told = _("Looking for models{dots} {n} found so far").format(dots=glyphs.ellipsis, n=here)
            where = "  " + clip(self.looked_at, 30, glyphs.ellipsis) if self.looked_at else ""
            return content([(told, DIM), (where, DIM)])
        if here == 0:
            return Content.styled(_("No model lies on this machine. A recipe below is downloaded at the first start."), DIM)
        return Content.styled(ngettext("{n} model lies on this machine.", "{n} models lie on this machine.", here).format(n=here), DIM)

    def _about(self, plan: Plan, glyphs: Glyphs) -> Content:
        if self.reading:
            return Content.styled(_("Reading {source}").format(source=self.reading) + glyphs.ellipsis, DIM)
        model = plan.model
        if model is None:
            return Content("")
        facts: list[str] = []
        if model.architecture:
            facts.append(model.architecture)
        if model.parameters:
            facts.append(_("{n:.1f} billion parameters").format(n=model.parameters / 1e9))
        if model.quantization:
            facts.append(quant_words(model.quant_detail or model.quantization))
        elif model.dtype:
            facts.append(model.dtype)
        if model.max_model_len:
            facts.append(_("context {n:,}").format(n=model.max_model_len))
        if len(model.modalities) > 1:
            facts.append(" + ".join(model.modalities))
        parts: list[Part] = [("\n" + (model.repo_id or model.source), BOLD), ("\n" + listed(facts), DIM)]
        reason = plan.reason("model")
        if reason:
            parts.append(("\n" + reason, DIM))
        if plan.fit is not None and not plan.fit.fits:
            if plan.fit.ways_out:
                parts.append(("\n" + _("What would fit:"), BOLD))
            parts += [(f"\n{glyphs.bullet} {way.text}", TEXT) for way in plan.fit.ways_out[:4]]
            if ways.ways_of(plan):
                parts.append(("\n" + _("Press “w” to take one of them."), DIM))
        parts += [(f"\n{glyphs.attention} {issue.message}", BAD if issue.fatal else WARN) for issue in model.issues[:3]]
        return content(parts)


@dataclass(frozen=True)
class ModelEntry:
    key: str  # what the answer "model" becomes
    name: str
    group: str  # "here", "recipe", "other"
    size: str = ""
    where: str = ""
    trouble: str = ""
    note: str = ""
    recommended: bool = False
    selectable: bool = True
    slow: bool = False  # it lies on a slow mount


_MOUNTS = {
    "windows-drive": N_("slow: Windows drive"),
    "network": N_("slow: network drive"),
    "memory": N_("in memory"),
}


def _against(plan: Plan, choice: PlanChoice) -> str:
    """What speaks against a model: of the chosen one what the plan says, which knows the other answers as well."""
    if choice.value == str(plan.value("model")) and choice.against and not choice.disabled and not plan.blockers:
        return _("{gib} GiB in RAM: slow").format(gib=plan.offload_gib) if plan.offload_gib else ""
    return choice.against


def model_entries(plan: Plan, so_far: Sequence[FoundModel] | None = None) -> list[ModelEntry]:
    """All rows: found models first, then recipes that fit, then an id or path that was typed."""
    found = {m.path: m for m in (so_far if so_far is not None else plan.session.found)}
    entries: list[ModelEntry] = []
    seen: set[str] = set()
    choices = plan.choices.get("model", ())
    by_value = {c.value: c for c in choices}
    for model in found.values():
        if model.is_adapter:
            continue
        choice = by_value.get(model.path)
        where = _(_MOUNTS[model.mount_kind]) if model.mount_kind in _MOUNTS else origin_words(model.origin)
        trouble = model.problem or (_against(plan, choice) if choice is not None else "")
        entries.append(
            ModelEntry(
                model.path, model.name, "here", text.gib(model.size_bytes) if model.size_bytes is not None else "", where, trouble,
                choice.note if choice else "", bool(choice and choice.recommended), model.complete,
                model.mount_kind in ("windows-drive", "network"),
            )
        )  # fmt: skip
        seen.add(model.path)
    for choice in choices:
        if choice.value in seen:
            continue
        seen.add(choice.value)
        size, precision = _recipe_facts(plan, choice.value)
        entries.append(
            ModelEntry(
                choice.value, choice.label, "recipe", size, precision, _against(plan, choice), choice.note,
                choice.recommended, not choice.disabled,
            )
        )  # fmt: skip
    current = plan.value("model")
    if current is not None and str(current) not in seen:
        entries.append(ModelEntry(str(current), str(current), "other", note=_("typed in")))
    order = {"other": 0, "here": 1, "recipe": 2}
    return sorted(entries, key=lambda e: (order[e.group], not e.selectable))


def _recipe_facts(plan: Plan, model_id: str) -> tuple[str, str]:
    """(size, precision) of a recipe's checkpoint, as words."""
    hit = plan.session.recipes.find(model_id)
    if hit is None:
        return "", ""
    variant = hit[1]
    return (text.gib(variant.weight_bytes) if variant.weight_bytes is not None else ""), variant.precision


_GROUPS = {"here": N_("On this machine"), "recipe": N_("Recipes (downloaded at the first start)"), "other": N_("Given by you")}


def _model_rows(entries: list[ModelEntry], view: Widget) -> list[Row]:
    rows: list[Row] = []
    group = ""
    roomy = {e.group for e in entries if e.trouble or e.slow}
    longest = max((cell_len(e.name) for e in entries), default=0)
    for entry in entries:
        if entry.group != group:
            group = entry.group
            rows.append(Row(f"#{group}", _group_drawer(_(_GROUPS[group])), selectable=False, one_line=True))
        rows.append(Row(entry.key, _model_drawer(entry, view, entry.group in roomy, longest), entry.selectable, one_line=True))
    return rows


def _group_drawer(title: str) -> Any:
    return lambda width, cursor, chosen: [Content.styled(title, f"bold {ACCENT}")]


def _model_drawer(entry: ModelEntry, view: Widget, roomy: bool, longest: int) -> Any:
    """``roomy``: the last column has more to say than an origin in some row of the group. ``longest``: cells of the
    longest name in the list."""

    def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
        glyphs = glyphs_of(view)
        mark = glyphs.radio_on if chosen else glyphs.radio_off if entry.selectable else glyphs.blocked
        mark = mark.ljust(len(glyphs.radio_on)) + " "
        tail = entry.trouble or entry.where
        tail_width = (12 if roomy else 8) if width < 56 else 21 if width < 80 else 40
        # What the names leave free is given to what speaks against a model.
        tail_width = max(tail_width, min(60, width - len(mark) - 12 - min(longest, 40)))
        if entry.slow and not entry.trouble and tail_width <= 12:
            tail = _("slow drive")
        name_width = max(10, width - len(mark) - 10 - tail_width - 2)
        name = entry.name if cell_len(entry.name) <= name_width else entry.name.rsplit("/", 1)[-1]
        name = text.clip_middle(name, name_width, glyphs.ellipsis)
        style = f"bold {ACCENT}" if cursor else BOLD if chosen else TEXT if entry.selectable else DIM
        parts: list[Part] = [
            (mark, ACCENT if chosen else DIM),
            (pad(name, name_width, glyphs.ellipsis), style),
            (f"{entry.size:>10}  ", TEXT if entry.selectable else DIM),
            (text.shorten(tail, tail_width, glyphs.ellipsis), WARN if entry.trouble or entry.slow else DIM),
        ]
        return [content(parts)]

    return draw


# -- 3: moving --------------------------------------------------------------------------------------------------


class MoveView(StepView):
    """Where to, how much, how long; and the run itself with pause, resume and cancel."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.progress: Any = None
        self.state = "idle"  # idle, preparing, running, paused, done, cancelled, failed
        self.message = ""
        self.job: tuple[str, str] | None = None  # (from, to) of the copy that ``state`` and ``progress`` speak of
        self.wanted_job: tuple[str, str] | None = None  # that of the model that is chosen now
        self.asked: tuple[str, str] | None = None  # the copy that was offered on the way to the next step
        self.there: tuple[int, int] | None = None  # (bytes that an earlier, stopped copy left, bytes in all)
        self.played = False  # a recorded machine: the copy is only played
        self._looked: tuple[str, str] | None = None  # what ``there`` speaks of

    def above(self) -> Iterator[Widget]:
        yield Panel(id="move-about", classes="block")
        yield Panel(id="move-progress", classes="block")
        with Horizontal(id="move-buttons", classes="block row"):
            yield PushButton(_("Copy now"), id="move-start")
            yield PushButton(_("Pause"), id="move-pause")
            yield PushButton(_("Stop"), id="move-cancel")

    def own_state(self) -> tuple[object, ...]:
        return self.state, self.message  # (the progress is drawn as it comes)

    @staticmethod
    def job_of(plan: Plan | None) -> tuple[str, str] | None:
        """The copy that ``plan`` asks for."""
        return (plan.move.source, plan.move.destination) if plan is not None and plan.move is not None else None

    @property
    def under_way(self) -> bool:
        return self.state in ("preparing", "running", "paused")

    def copies(self, plan: Plan | None) -> bool:
        """Whether just the copy that ``plan`` asks for is under way."""
        return self.under_way and self.job == self.job_of(plan)

    def has_copied(self, plan: Plan | None) -> bool:
        """Whether it was made and proven."""
        return self.state == "done" and self.job == self.job_of(plan)

    def _take_job(self, plan: Plan) -> None:
        """Forget how the copy of another model ended, and look for what an earlier one left."""
        from wizard.models.move import stopped_at

        wanted = self.wanted_job = self.job_of(plan)
        if self.job != wanted and not self.under_way:
            self.state, self.message, self.progress, self.job = "idle", "", None, wanted
        self.played = plan.machine.name not in (THIS_MACHINE, "")
        if self._looked != wanted and wanted is not None:
            self._looked, self.there = wanted, None if self.played else stopped_at(*wanted)

    def show(self, walk: Walk) -> None:
        super().show(walk)
        plan = walk.plan
        if plan is None or plan.move is None:
            return
        hint = plan.move
        self._take_job(plan)
        glyphs = glyphs_of(self)
        rows = [
            (_("From"), hint.source),
            (_("Size"), text.gib(hint.size_bytes)),
            (_("Time"), _("about {time}").format(time=text.duration(about_seconds(hint.seconds))) if hint.seconds is not None else _("not known")),
        ]
        width = max(cell_len(k) for k, _v in rows)
        lines = [content([(pad(k, width) + "  ", DIM), (text.clip_left(v, max(10, self.room() - width - 2), glyphs.ellipsis), TEXT)]) for k, v in rows]
        self.query_one("#move-about", Panel).put(join([*lines, Content("")]))
        self.draw(wanted=hint.wanted)

    def draw(self, wanted: bool = True) -> None:
        if not self.query("#move-progress"):
            return  # taken down, while the copy still tells how far it is
        glyphs = glyphs_of(self)
        self.query_one("#move-progress", Panel).put(move_content(self, glyphs, self.room()))
        start, pause, cancel = (self.query_one(f"#move-{n}", PushButton) for n in ("start", "pause", "cancel"))
        self.query_one("#move-buttons").display = wanted
        start.display = self.state in ("idle", "cancelled", "failed")
        begins = self.played or (self.state == "idle" and self.there is None)
        start.rename(_("Copy now") if begins else _("Go on copying"))
        pause.display = self.state in ("running", "paused")
        pause.rename(_("Pause") if self.state == "running" else _("Go on"))
        cancel.display = self.state in ("running", "paused", "preparing")


def move_content(view: MoveView, glyphs: Glyphs, width: int) -> Content:
    """The bar with rate and time left, or in words how it stands."""
    p = view.progress
    lines: list[Content] = []
    if p is not None and p.bytes_total:
        share = min(1.0, p.bytes_done / p.bytes_total)
        cells = max(10, width - 6)
        full = int(cells * share)
        lines.append(content([(glyphs.bar_full * full, "$wz-accent"), (glyphs.bar_empty * (cells - full), DIM), (f" {share:4.0%}", TEXT)]))
        told = [_("{done} of {total}").format(done=text.gib(p.bytes_done), total=text.gib(p.bytes_total))]
        if p.rate_bytes_per_s and view.state == "running":
            told.append(_("{mib:.0f} MiB/s").format(mib=p.rate_bytes_per_s / 1024**2))
        if p.eta_s is not None and view.state == "running":
            told.append(_("{time} left").format(time=text.duration(p.eta_s)))
        told.append(_("file {n} of {total}").format(n=min(p.files_done + 1, p.files_total), total=p.files_total))
        lines.append(Content.styled(listed(told), TEXT))
    if view.under_way and view.job is not None and view.job != view.wanted_job:
        lines.insert(0, Content.styled(_("This is the copy of {name}, not of the model that is chosen now:").format(name=view.job[0].rstrip("/").rsplit("/", 1)[-1]), WARN))
    idle, stopped = "", _("Stopped. What was copied is kept: it goes on from there.")
    if view.there is not None:
        idle = _("{done} of {total} lies there already, from a copy that was stopped: it goes on from there.").format(
            done=text.gib(view.there[0]), total=text.gib(view.there[1])
        )
    if view.played:
        idle = stopped = _("This is a recorded machine: the copy is only played, and nothing is kept of it.")
    words = {
        "idle": idle,
        "preparing": _("Looking at what is to be copied") + glyphs.ellipsis,
        "running": _("Copying; each byte is read back and compared. You may go on to the next steps meanwhile."),
        "paused": _("Paused."),
        "done": _("Done: every byte was read back from the new place and is the same."),
        "cancelled": stopped,
        "failed": "",
    }[view.state]
    style = {"done": OK, "failed": BAD, "paused": WARN, "cancelled": WARN}.get(view.state, DIM)
    glyph = {"done": glyphs.done + " ", "failed": glyphs.blocked + " ", "paused": glyphs.attention + " "}.get(view.state, "")
    message = view.message if view.message else words
    if message:
        lines.append(content([(glyph + message, style)]))
    return join(lines)


# -- where it runs -----------------------------------------------------------------------------------------------


class WhereView(StepView):
    """Where it runs, and below what each way costs (worked out in a thread)."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._priced: Plan | None = None

    def below(self) -> Iterator[Widget]:
        yield Panel(id="where-wrong", classes="block")
        yield Panel(id="where-ways", classes="block")

    def show(self, walk: Walk) -> None:
        super().show(walk)
        if not self.display or walk.plan is None or walk.plan is self._priced:
            return  # made ahead, it is priced once someone comes here
        self._priced = plan = walk.plan
        wrong = self.wrong(plan)
        self.query_one("#where-wrong", Panel).put(text.problems(wrong, glyphs_of(self), self.room()))
        self.query_one("#where-wrong").display = bool(wrong)
        self.query_one("#where-ways", Panel).put(Content.styled(_("Working out what each way costs") + glyphs_of(self).ellipsis, DIM))
        self.run_worker(lambda: self._price(plan), thread=True, exclusive=True, group="ways")

    def stands(self, walk: Walk) -> bool:
        return super().stands(walk) and (not self.display or self._priced is walk.plan)

    def wrong(self, plan: Plan) -> list[Notice]:
        """Why it cannot run where, or in as many servers as, was answered."""
        return [b for b in plan.blockers if b.code == WAY_IMPOSSIBLE]

    def _price(self, plan: Plan) -> None:
        from wizard.errors import WizardError
        from wizard.faces.clustering import ways_in_walk

        try:
            ways = ways_in_walk(plan.session)
        except WizardError as error:
            ways = [(str(error), [])]
        self.app.call_from_thread(self._show_ways, plan, ways)

    def _show_ways(self, plan: Plan, ways: list[tuple[str, list[str]]]) -> None:
        if plan is not self._priced:
            return
        lines: list[Content] = [panes.heading(_("What each way costs"), "", self.room())]
        for title, paragraphs in ways:
            lines += [Content(""), *text.wrapped(title, self.room(), 0, BOLD)]
            for words in paragraphs:
                lines += text.wrapped(words, self.room(), 2, DIM)
        self.query_one("#where-ways", Panel).put(join(lines))


# -- 5: flags ---------------------------------------------------------------------------------------------------


class FlagsView(StepView):
    """The purpose and what follows from it; then every single flag, with a filter."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._walk: Walk | None = None

    def below(self) -> Iterator[Widget]:
        with Vertical(id="single-flags", classes="block"):
            yield Static(Content(_("Single flags")), classes="heading")
            yield Static(Content(_("Enter on a row changes that flag.")), classes="dim block")
            with Horizontal(classes="row block", id="paste-row"):
                yield PushButton(_("Paste a command you found"), id="paste")
            with Horizontal(classes="row block", id="filter-row"):
                yield Static(Content(_("Filter")), classes="label")
                yield LineInput(id="flag-filter", placeholder=_("part of a name or of its meaning"))
            yield Rows(id="flag-rows", max_lines=14, opens=True, empty=_("No flag matches."))
            yield Panel(id="flag-about", classes="block")

    def show(self, walk: Walk) -> None:
        super().show(walk)
        self._walk = walk
        self.draw_flags()

    def draw_flags(self) -> None:
        if self._walk is None or self._walk.plan is None:
            return
        self.query_one("#single-flags").display = bool(self._walk.plan.flag_rows)
        wanted = self.query_one("#flag-filter", LineInput).value.strip().lower()
        rows = [r for r in self._walk.plan.flag_rows if flag_matches(r, wanted)]
        width = max((len(r.flag) for r in rows), default=0)
        drawn = [Row(r.dest, flag_drawer(r, min(width, 34), self), one_line=True) for r in rows]
        self.query_one("#flag-rows", Rows).set_rows(drawn, tuple(rows))
        self.draw_about()

    def draw_about(self) -> None:
        """What the flag under the cursor is, below the table."""
        row = self.flag_under_cursor()
        self.query_one("#flag-about", Panel).put(flag_about(row) if row is not None else Content(""))

    def flag_under_cursor(self) -> FlagRow | None:
        if self._walk is None or self._walk.plan is None:
            return None
        key = self.query_one("#flag-rows", Rows).cursor_key
        return next((r for r in self._walk.plan.flag_rows if r.dest == key), None)


def flag_matches(row: FlagRow, wanted: str) -> bool:
    haystack = f"{row.flag} {row.meaning} {row.dest}".lower()
    return all(word in haystack for word in wanted.split())


def flag_drawer(row: FlagRow, width: int, view: Widget) -> Any:
    def draw(room: int, cursor: bool, chosen: bool) -> list[Content]:
        glyphs = glyphs_of(view)
        value = row.value if row.value is not None else row.default
        left = room - 4 - 4  # without the mark, the gap, and the mark of rows out of sight
        value_width = min(14, max(10, left - width))
        name_width = max(12, min(width, left - value_width))
        mark = glyphs.cursor if cursor else " "
        parts: list[Part] = [
            (mark + " ", ACCENT),
            (pad(row.flag, name_width, glyphs.ellipsis), f"bold {ACCENT}" if cursor else BOLD if row.value is not None else TEXT),
            ("  " + pad(value, value_width, glyphs.ellipsis), OK if row.value is not None else DIM),
        ]
        # A few letters of a meaning tell nothing; that of the row under the cursor stands whole below.
        meant = left - name_width - value_width - 2
        if meant >= 12:
            parts.append(("  " + clip(row.meaning, meant, glyphs.ellipsis), DIM))
        return [content(parts).truncate(room)]

    return draw


def flag_about(row: FlagRow) -> Content:
    parts: list[Part] = [("\n" + row.flag, f"bold {ACCENT}"), ("  " + row.meaning, TEXT)]
    parts.append(("\n" + _("vLLM's default: {default}").format(default=row.default or _("not set, vLLM decides")), DIM))
    if row.memory:
        parts.append(("\n" + _("Memory: {effect}").format(effect=row.memory), DIM))
    if row.reason:
        parts.append(("\n" + row.reason, DIM))
    return content(parts)


# -- 6: WSL2 ----------------------------------------------------------------------------------------------------


class WslView(StepView):
    """Memory, swap and processors, and the diff of the user's own file."""

    def below(self) -> Iterator[Widget]:
        yield Panel(id="wsl-about", classes="block")

    def show(self, walk: Walk) -> None:
        super().show(walk)
        if walk.plan is not None:
            self.query_one("#wsl-about", Panel).put(wsl_content(walk, glyphs_of(self), self.room()))


def wsl_content(walk: Walk, glyphs: Glyphs, width: int) -> Content:
    """What hurts or is good to know, and the diff of the user's own file."""
    plan = walk.plan
    if plan is None or plan.wsl is None:
        return Content("")
    from wizard.faces.tui.files import wslconfig_diff
    from wizard.plan.wsl import SIZE_WARNINGS

    blocks: list[Content] = []
    sizes = [sentences(w.title, w.detail) for w in plan.warnings if w.code in SIZE_WARNINGS]
    told = [(glyphs.attention, WARN, w) for w in (*sizes, *plan.wsl.warnings)] + [(glyphs.bullet, DIM, n) for n in plan.wsl.notes]
    if told:
        lines: list[Content] = []
        for mark, style, words in told:
            first, *rest = text.wrapped(words, width, 2, style)
            lines += [content([(mark, f"bold {style}")]) + first[1:], *rest]
        blocks.append(join(lines))
    name, diff = wslconfig_diff(plan)
    if name:
        blocks.append(join([panes.heading(_("What changes in {file}").format(file=name), "", width), diff]))
    return Content("\n\n").join(blocks)


# -- 7: access --------------------------------------------------------------------------------------------------


class AccessView(StepView):
    """Port, who may reach it, secrets; and what Windows needs for it."""

    def below(self) -> Iterator[Widget]:
        yield Panel(id="access-about", classes="block")

    def show(self, walk: Walk) -> None:
        super().show(walk)
        plan = walk.plan
        if plan is None:
            return
        lines = [s for s in plan.after if s.where.startswith("powershell")] if plan.value("access") == "network" else []
        box = self.query_one("#access-about", Panel)
        box.display = bool(lines)
        if lines:
            box.put(join([panes.heading(_("On Windows"), "", self.room()), text.next_steps(lines, self.room())]))


# -- 8: review --------------------------------------------------------------------------------------------------


class ReviewView(StepView):
    """Every file with its state and diff; blockers with their cures; then what to type next."""

    next_label = N_("Write")

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.changes: list[Any] = []
        self.after: tuple[TypeNext, ...] | None = None  # what is typed next once ``changes`` are written; None: as the plan says
        self.warnings: tuple[Notice, ...] = ()  # of ``changes``, which know what lies in the folder
        self.written = False
        self.all_the_same = False  # what was written stood there already
        self.may_start = False  # whether the server can be started from here
        self.moved = False
        self.copying = False  # the copy of this plan's model is under way
        self.may_apply = False  # whether the user's own .wslconfig can be changed from here
        self.applied = False  # .wslconfig is written in place, not as a proposal
        self.error = ""

    def above(self) -> Iterator[Widget]:
        with Horizontal(classes="row block", id="start-row"):
            yield PushButton(_("Start it now"), id="start")
            yield Static(Content("  " + _("and watch it until it answers")), classes="dim")
        yield Panel(id="review-top", classes="block")
        with Horizontal(classes="row block", id="review-again-row"):
            yield PushButton(_("Ask again"), id="review-again")

    def below(self) -> Iterator[Widget]:
        with Vertical(id="apply-row", classes="block"):
            with Horizontal(classes="row block"):
                yield Static(Content(_("Change .wslconfig now")), classes="label")
                yield Toggle(id="apply-wslconfig")
            yield Panel(id="apply-note", classes="dim block")
        yield Rows(id="review-files", max_lines=8, opens=True)
        yield Panel(id="review-diff", classes="block")

    def first_focus(self) -> Widget | None:
        return None

    def own_state(self) -> tuple[object, ...]:
        return self.written, self.may_start, self.moved, self.copying, self.may_apply, self.applied, self.error, self.after, self.warnings, *self.changes

    def show(self, walk: Walk) -> None:
        super().show(walk)
        plan = walk.plan
        if plan is None:
            return
        glyphs = glyphs_of(self)
        top = self._top(plan, glyphs)
        self.query_one("#review-top", Panel).put(top)
        self.query_one("#review-top").display = bool(top.plain)
        self.query_one("#start-row").display = self.written and self.may_start
        self.query_one("#review-again-row").display = self.asks_again(plan)
        rows = self.query_one("#review-files", Rows)
        width = max((cell_len(short_path(c)) for c in self.changes), default=0)
        state_width = max((cell_len(state_word(c.state.value)) for c in self.changes), default=0)
        rows.set_rows(
            [Row(c.path, change_drawer(c, width, state_width, self), one_line=True) for c in self.changes], tuple(self.changes)
        )
        rows.display = bool(self.changes) and not self.written
        self._show_apply(plan)
        out_dir = self.field_of("out_dir")
        if out_dir is not None:
            out_dir.display = not self.written and not nothing_runs_here(plan)
        self.query_one(".intro").display = not self.written and not nothing_runs_here(plan)
        self.draw_diff()

    def _show_apply(self, plan: Plan) -> None:
        row = self.query_one("#apply-row")
        row.display = self.may_apply and not self.written and bool(plan.wsl_changes) and not plan.blockers
        if row.display and plan.machine.wsl is not None:
            told = _("Yes: {path} itself is changed, with a backup. No: a proposal is put into the folder above.")
            self.query_one("#apply-note", Panel).put(Content(told.format(path=plan.machine.wsl.wslconfig_path)))

    def _top(self, plan: Plan, glyphs: Glyphs) -> Content:
        blocks: list[Content] = []
        if self.error:
            blocks.append(content([(f"{glyphs.blocked} ", f"bold {BAD}"), (self.error, TEXT)]))
        if self.written:
            done, more = _("Written."), spelt(_("“vllm-wizard undo” takes it back."))
            if self.all_the_same:
                done, more = _("Nothing had to be written."), _("All of it stands there already.")
            blocks.append(content([(f"{glyphs.done} " + done, f"bold {OK}"), ("  " + more, DIM)]))
            if self.to_type(plan):
                blocks.append(Content.styled(_("Press “c” to copy a command; Ctrl+Q prints them in the terminal as well."), TEXT))
                blocks.append(join([panes.heading(_("What to type next"), "", self.room()), Content(""), text.next_steps(self.to_type(plan), self.room())]))
            leaves = _("“Finish” leaves the wizard; it can be started later as said above.") if self.may_start else _("Enter leaves the wizard.")
            blocks.append(Content.styled(leaves, DIM))
        elif plan.blockers:
            blocks.append(
                content([(_("Nothing can be written yet. First cure this, then come back:"), f"bold {BAD}")])
            )
            if any(b.code in ("bad_value", "bad_answer") for b in plan.blockers):
                told = _("Ctrl+P, then the name of the answer, leads to where it is changed; Ctrl+R there takes it back.")
                blocks.append(join(text.wrapped(told, self.room(), 0, TEXT)))
            blocks.append(text.problems(plan.blockers, glyphs, self.room()))
            if self.asks_again(plan):
                ends = plan.machine.wsl is not None and any(b.ends_wsl for b in plan.blockers)
                told = _("The cure ends this program; nothing is lost. Start it again afterwards.") if ends else _("Once it is cured, press Enter: this machine is asked again. Ctrl+Q leaves; nothing is lost.")
                blocks.append(Content(told))
            elif ways.ways_of(plan):
                blocks.append(Content(_("Enter shows what would fit, to be taken from there.")))
        elif warnings := self.warnings or plan.warnings:
            blocks.append(text.problems(warnings, glyphs, self.room()))
        return Content("\n\n").join([*blocks, Content("")]) if blocks else Content("")

    def enter_label(self, plan: Plan | None) -> str:
        if self.written:
            return N_("Finish")
        if plan is not None and self.asks_again(plan):
            return N_("Ask again")
        if ways.ways_of(plan):
            return N_("What would fit")
        return N_("Cannot be written") if self.error or (plan is not None and plan.blockers) else self.next_label

    def nothing_to_write(self, plan: Plan) -> bool:
        return not self.written and bool(plan.blockers or self.error or not self.changes)

    def asks_again(self, plan: Plan) -> bool:
        """Whether the machine itself stands in the way: once it is cured, the machine has to be asked anew."""
        return not self.written and nothing_runs_here(plan)

    def to_type(self, plan: Plan) -> list[TypeNext]:
        """What is left to type: a model that was copied in this walk need not be copied again, nor one that is being
        copied."""
        from wizard.plan.after import COPY_WSLCONFIG, MOVE_MODEL, being_copied

        done = {key for key, is_done in ((COPY_WSLCONFIG, self.applied), (MOVE_MODEL, self.moved)) if is_done}
        left = [s for s in (plan.after if self.after is None else self.after) if s.key not in done]
        return [being_copied() if self.copying and s.key == MOVE_MODEL else s for s in left]

    def draw_diff(self) -> None:
        box = self.query_one("#review-diff", Panel)
        change = self.change_under_cursor()
        if change is None or self.written:
            box.put(Content(""))
            return
        box.put(join([Content(""), change_content(change, self.room())]))

    def change_under_cursor(self) -> Any:
        key = self.query_one("#review-files", Rows).cursor_key
        return next((c for c in self.changes if c.path == key), None)


_STATES = {"new": (N_("new"), OK), "changed": (N_("changed"), WARN), "same": (N_("same"), DIM)}


def state_word(state: str) -> str:
    return _(_STATES[state][0]) if state in _STATES else state


def short_path(change: Any) -> str:
    """The file's name; the whole path of a file that lies elsewhere than in the chosen folder."""
    return str(change.path) if change.spec.path.startswith("/") else str(change.spec.path)


def change_drawer(change: Any, width: int, state_width: int, view: Widget) -> Any:
    def draw(room: int, cursor: bool, chosen: bool) -> list[Content]:
        glyphs = glyphs_of(view)
        word, style = _STATES[change.state.value]
        name_width = min(width, max(12, room - 14))
        name = text.clip_left(short_path(change), name_width, glyphs.ellipsis)
        told = clauses([_("secret, mode 0600"), change.spec.title]) if change.spec.secret else change.spec.title
        parts: list[Part] = [
            ((glyphs.cursor if cursor else " ") + " ", ACCENT),
            (pad(name, name_width, glyphs.ellipsis), f"bold {ACCENT}" if cursor else TEXT),
            ("  " + pad(_(word), state_width), style),
        ]
        left = room - content(parts).cell_length - 2
        parts.append(("  " + (text.whole_part(told, left) or "") if left > 8 else "", DIM))
        return [content(parts)]

    return draw


def change_content(change: Any, width: int) -> Content:
    """A file's heading and its diff."""
    head = panes.heading(short_path(change), state_word(change.state.value), width)
    if change.state.value == "same":
        return join([head, Content.styled(_("Stands there already, exactly like this."), DIM)])
    notes = [Content.styled(n, WARN) for n in change.notes]
    return join([head, *notes, text.diff_content(change.diff)])


_VIEWS: dict[str, type[StepView]] = {
    "machine": MachineView,
    "model": ModelView,
    "move": MoveView,
    "where": WhereView,
    "flags": FlagsView,
    "wsl": WslView,
    "access": AccessView,
    "review": ReviewView,
}


def view_for(step: Step) -> StepView:
    return _VIEWS.get(step.id, StepView)(step)
