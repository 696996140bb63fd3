"""A start that failed: its log is pasted or named, read, and explained; a fix can be taken into the plan."""

from __future__ import annotations

import bisect
import difflib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static, TextArea

from wizard.errors import BadInput, WizardError
from wizard.faces.tui import text
from wizard.faces.tui.dialogs import Ask, Reader
from wizard.faces.tui.look import Glyphs
from wizard.faces.tui.paste import CommandArea
from wizard.faces.tui.text import ACCENT, BAD, BOLD, DIM, OK, TEXT, WARN, Part, clip, content, join, wrapped
from wizard.faces.tui.whole import WHOLE_CSS, Key, WholeScreen, help_lines
from wizard.faces.tui.widgets import LineInput, Panel, PushButton, Row, Rows, glyphs_of
from wizard.i18n import _, listed

if TYPE_CHECKING:
    from wizard.diagnose.engine import Diagnosis, Finding, Fix
    from wizard.diagnose.reader import NumberedLines
    from wizard.faces.tui.work import Wizard
    from wizard.facts import GpuStack
    from wizard.plan_types import Plan
    from wizard.session import Session

PLAN_S = 0.5  # between two looks whether the plan has changed
AROUND = 3  # lines shown before and after the root line
SHOWN_CHARS = 1000  # of a line of the log


class Cancelled(Exception):
    """Reading was given up by the user."""


# -- what is said -----------------------------------------------------------------------------------------------


def summary_line(diagnosis: Diagnosis, glyphs: Glyphs, width: int) -> Content:
    """Release, model, GPU and stage, as far as the log tells them; on one line."""
    from wizard.diagnose.report import head_parts, printable

    model = text.clip_left(diagnosis.model, 30, glyphs.ellipsis) if diagnosis.model else ""
    return Content.styled(clip(printable(listed(head_parts(diagnosis, model))), width, glyphs.ellipsis), DIM)


def no_failure(diagnosis: Diagnosis, glyphs: Glyphs, width: int) -> Content:
    """What is said of a log that shows no failure: whether it shows a success."""
    if diagnosis.ready:
        told = _("The server came up.")
    elif diagnosis.lines:
        from wizard.diagnose.report import no_error_words

        told = no_error_words(diagnosis)
    else:
        told = _("There is no line in it.")
    mark, style = (glyphs.done, OK) if diagnosis.ready else (glyphs.bullet, ACCENT)
    head = content([(f"{mark} ", f"bold {style}"), (_("No failure found."), BOLD)])
    return join([head, *wrapped(told, width, 2, TEXT)])


def finding_head(finding: Finding, glyphs: Glyphs, width: int) -> Content:
    """The cause in a line, its class, and how sure it is."""
    from wizard.diagnose.report import sure_word

    mark, style = (glyphs.attention, WARN) if finding.confidence == "low" else (glyphs.blocked, BAD)
    first, *more = wrapped(finding.title, width, 2, BOLD)
    head = content([(mark, f"bold {style}")]) + first[1:]
    how = content([("  " + finding.cause + "  ", DIM), (_("how sure: {word}").format(word=_(sure_word(finding.confidence))), style)])
    return join([head, *more, how])


def surroundings(finding: Finding, lines: NumberedLines | None, glyphs: Glyphs, width: int, around: int = AROUND, most: int = 12) -> Content:
    """The root line with its number among its neighbours; it is folded into at most ``most`` lines, they are cut."""
    from wizard.diagnose.report import printable

    if finding.line is None:
        return Content("")
    rows: list[tuple[int | None, str, bool]] = [(finding.line_number, finding.line, True)]
    if lines is not None and finding.line_number is not None:
        at = bisect.bisect_left(lines.numbers, finding.line_number)
        if at < len(lines.lines) and lines.numbers[at] == finding.line_number:
            span = range(max(0, at - around), min(len(lines.lines), at + around + 1))
            rows = [(lines.numbers[i], lines.lines[i], i == at) for i in span]
    digits = max(len(str(number or "")) for number, _line, _root in rows)
    shown = []
    for number, line, root in rows:
        told = printable(line).strip()[:SHOWN_CHARS] if root else printable(line).rstrip()
        head = f"{glyphs.cursor if root else ' '} {number or '':>{digits}} "
        if not root:
            shown.append(Content.styled(head + clip_end(told, max(8, width - cell_len(head)), glyphs.ellipsis), DIM))
            continue
        folded = wrapped(told, width, cell_len(head), f"bold {WARN}") or [Content(head)]
        if len(folded) > most:
            folded = [*folded[: most - 1], folded[most - 1].truncate(width - 1) + Content.styled(glyphs.ellipsis, WARN)]
        shown += [Content.styled(head, f"bold {WARN}") + folded[0][cell_len(head) :], *folded[1:]]
    return join(shown)


def clip_end(line: str, width: int, ellipsis: str) -> str:
    """``line`` cut to ``width`` cells; its spaces stay as they are."""
    if cell_len(line) <= width:
        return line
    while cell_len(line) > width - 1:
        line = line[: max(0, min(len(line) - 1, width - 1))]
    return line + ellipsis


def fix_lines(number: int, fix: Fix, width: int) -> list[Content]:
    """One fix: what to do, and what it changes line by line."""
    from wizard.diagnose.report import details

    first, *more = wrapped(fix.summary, width, 5, TEXT)
    head = Content.styled(f"{number:>3}. ", f"bold {ACCENT}") + first[5:]
    shown = [
        text.typed(line, width, 7, " \\", ACCENT) if line.startswith("$ ") else text.hanging("       " + line, width, 9, ACCENT)
        for line in details(fix)
    ]
    return [head, *more, *shown]


def evidence(finding: Finding, glyphs: Glyphs, width: int) -> list[Content]:
    """On what it is known, and where to look for more."""
    from wizard.diagnose.report import printable

    out: list[Content] = []
    told = [printable(e) for e in finding.evidence if e not in (finding.line or "")]
    for title, rows in ((_("What to look at"), finding.look), (_("Evidence"), told)):
        if rows:
            out += [Content(""), Content.styled(title, f"bold {ACCENT}")]
        for row in rows:
            first, *more = wrapped(row, width, 2, TEXT)
            out += [content([(glyphs.bullet, DIM)]) + first[1:], *more]
    return out


def finding_top(finding: Finding, lines: NumberedLines | None, glyphs: Glyphs, width: int, around: int = AROUND, most: int = 12) -> Content:
    """Title, certainty, the root line in its surroundings, and what it means."""
    blocks: list[Content] = [finding_head(finding, glyphs, width)]
    if finding.line is not None:
        blocks += [Content(""), surroundings(finding, lines, glyphs, width, around, most)]
    return join([*blocks, Content(""), *wrapped(finding.explanation, width, 0, TEXT)])


def finding_content(finding: Finding, lines: NumberedLines | None, glyphs: Glyphs, width: int, around: int = AROUND) -> Content:
    """Everything about one finding."""
    blocks = [finding_top(finding, lines, glyphs, width, around)]
    if finding.fixes:
        blocks += [Content(""), Content.styled(_("What to do"), f"bold {ACCENT}")]
        for number, fix in enumerate(finding.fixes, 1):
            blocks += fix_lines(number, fix, width)
    return join([*blocks, *evidence(finding, glyphs, width)])


def plan_lines(plan: Plan) -> list[str]:
    """A plan as lines that can be compared: release, environment, command."""
    head = [f"vLLM {plan.release.version}"] if plan.release is not None else []
    return [*head, *(f"{name}={value}" for name, value in sorted(plan.env.items())), *text.command_lines(plan.argv)]


def plan_diff(before: Plan, after: Plan) -> list[str]:
    """What changes between two plans: lines that begin with "-" or "+"."""
    found = difflib.ndiff(plan_lines(before), plan_lines(after))
    return [f"{line[0]} {line[2:].strip()}" for line in found if line.startswith(("- ", "+ "))]


def plan_diff_content(before: Plan, after: Plan, changed: Sequence[str], width: int) -> Content:
    """The same for people, with the reason of each decision that is made anew."""
    styles = {"-": BAD, "+": OK}
    shown = [text.hanging(line, width, 4, styles[line[0]]) for line in plan_diff(before, after)]
    for key in changed:
        made = after.decision(key)
        if made is not None and made.source != "user" and made.reason:
            shown += wrapped(made.reason, width, 4, DIM)
    return join(shown)


def of_another_model(diagnosis: Diagnosis | None, plan: Plan) -> str:
    """What to say where a log is of another model than the plan's; "" where it is the same, or not known."""
    from wizard.diagnose.placeholders import cached_id
    from wizard.diagnose.report import printable

    logged = (diagnosis.model or "").rstrip("/") if diagnosis is not None else ""
    model = plan.model
    own = [plan.host_model_path, plan.value("model"), plan.value("served_model_name"), *((model.repo_id, model.source) if model is not None else ())]
    names = {str(name).rstrip("/").rpartition("/")[2].lower() for name in own if name}
    name = (cached_id(logged) or logged).rpartition("/")[2]
    if not name or not names or name.lower() in names:
        return ""
    return _("The log is of another model, {logged}; your plan is for {model}. What was measured for the one need not hold for the other.").format(
        logged=printable(logged), model=(model.repo_id or model.source) if model is not None else plan.value("model")
    )


# -- fixes as changes of the plan -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Usable:
    """A fix that answers can express, tried out on the plan."""

    summary: str
    changed: dict[str, Any]
    session: Session
    plan: Plan


def usable_fixes(finding: Finding, session: Session, plan: Plan, host: Any, make: Callable[[Session], Plan]) -> list[Usable]:
    """Those fixes of ``finding`` that change the plan, tried out. Heavy: in a thread."""
    from wizard.launch.repair import candidates, with_answers

    found: list[Usable] = []
    before = plan_lines(plan)
    for summary, changed in candidates(finding, session, plan, host):
        if not changed:
            continue
        try:
            new = with_answers(session, plan, changed)
            made = make(new)
        except BadInput:
            continue
        if plan_lines(made) != before or made.value("port") != plan.value("port"):
            found.append(Usable(summary, changed, new, made))
    return found


# -- reading ----------------------------------------------------------------------------------------------------


@dataclass
class Reading:
    """One log that is being read, in a thread. ``done_bytes`` grows; ``cancel`` ends it."""

    name: str
    pasted: str | None = None  # the text itself; None: ``name`` is a file
    total_bytes: int | None = None
    done_bytes: int = 0
    diagnosis: Diagnosis | None = None
    lines: NumberedLines | None = None
    trouble: str = ""
    usable: dict[int, list[Usable]] = field(default_factory=dict)  # of each finding
    tried_on: Plan | None = None  # the plan that ``usable`` is about
    _cancelled: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        return self.diagnosis is not None or bool(self.trouble)

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def run(self, host: Any, wsl: bool | None, gpus: GpuStack | None = None) -> None:
        """Read and diagnose. Raises Cancelled; what cannot be read is told in ``trouble``. ``gpus``: those of the
        machine, as far as they are known by now."""
        from wizard.diagnose import held, machine
        from wizard.diagnose.commands import log_is_not_enough, read_file
        from wizard.diagnose.engine import Known, diagnose
        from wizard.diagnose.reader import read_bytes

        try:
            if self.pasted is not None:
                self.lines = read_bytes(self.pasted.encode("utf-8", "replace"))
            else:
                path = os.path.expanduser(self.name)  # noqa: PTH111
                with_size = os.path.getsize(path) if os.path.isfile(path) else None  # noqa: PTH202, PTH113
                self.total_bytes = with_size
                self.lines = read_file(path, self._watched)
        except WizardError as error:
            self.trouble = str(error)
            return
        self._stop_here()
        found = diagnose(self.lines, Known(None, wsl))
        self._stop_here()
        if log_is_not_enough(found):
            machine.look(host, found)
            self._stop_here()
        if held.asks_for_memory(found):
            from wizard.probes import gpu

            held.hold(found, gpus if gpus is not None else gpu.probe(host))
            self._stop_here()
        self.diagnosis = found

    def _stop_here(self) -> None:
        if self.cancelled:
            raise Cancelled

    def _watched(self, stream: BinaryIO) -> BinaryIO:
        return _Watched(stream, self)  # type: ignore[return-value]


class _Watched:
    """A stream that counts what is read of it, and ends when reading is given up."""

    def __init__(self, stream: BinaryIO, reading: Reading) -> None:
        self._stream, self._reading = stream, reading

    def read(self, size: int = -1) -> bytes:
        if self._reading.cancelled:
            raise Cancelled
        data = self._stream.read(size)
        self._reading.done_bytes += len(data)
        return data


# -- the screen -------------------------------------------------------------------------------------------------


class LogInput(LineInput):
    """Takes the path of a log; a log that is pasted here goes where logs are pasted."""

    def _on_paste(self, event: events.Paste) -> None:
        if len(event.text.strip().splitlines()) > 1:
            event.prevent_default()
            event.stop()
            area = self.screen.query_one("#log-text", CommandArea)
            area.take(event.text)
            self.set_text("")  # what was typed before would count instead


class DiagnoseScreen(WholeScreen):
    """First what to read; then what was found, best first, with fixes that can be taken into the plan."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "default", show=False)]
    CSS = WHOLE_CSS + """
#log-ask, #log-answer, #log-findings, #log-fixes { height: auto; background: $surface; }
#log-path-row { height: 1; margin: 0 0 1 0; }
#log-path-row .label { width: 12; }
#log-text { height: 8; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; border: none; background: $wz-field; color: $wz-text; padding: 0 1; margin: 0 0 1 0; }
#log-paste-label { color: $wz-text; }
#log-text:focus { border: none; background: $wz-field-focus; }
.whole-body > * { height: auto; }
"""

    def __init__(self, wizard: Wizard, path: str | None = None, alone: bool = False, given: str = "") -> None:
        """``path``: read this file at once; ``given``: this text. ``alone``: Esc leaves the program, until a fix was
        taken into the plan."""
        super().__init__(wizard)
        self.alone = alone
        self.title_text = _("A start that failed")
        self.path, self.given = path or None, given
        self.reading: Reading | None = None
        self.at = 0  # the finding that is shown
        self._ticker: Timer | None = None
        self._frame = 0
        self._drawn_state = ""

    # -- composing --------------------------------------------------------------------------------------------

    def body(self) -> Iterator[Widget]:
        yield Panel(id="log-about", classes="block")
        with Horizontal(id="log-path-row"):
            yield Static(Content(_("Log file")), classes="label")
            yield LogInput(id="log-path", placeholder=_("a path; or paste the log below"))
        yield Static(Content(_("Or paste it here:")), id="log-paste-label")
        yield CommandArea(id="log-text", soft_wrap=False)
        yield Panel(id="log-trouble", classes="block")
        yield Rows(id="log-findings", max_lines=3)
        yield Panel(id="log-answer", classes="block")
        yield Rows(id="log-fixes", opens=True)
        yield Panel(id="log-more", classes="block")

    def buttons(self) -> Iterator[PushButton]:
        yield PushButton(_("Read it"), id="log-read")
        yield PushButton(_("Stop reading"), id="log-cancel")
        yield PushButton(_("Use this fix in my plan"), id="log-use")
        yield PushButton(_("Report"), id="log-report")
        yield PushButton(_("Another log"), id="log-another")
        yield PushButton(_("Open the walk") if self.alone else _("Back"), id="log-back")

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(PLAN_S, self._watch_plan)
        if self.path is not None:
            self.query_one("#log-path", LineInput).set_text(self.path)
            self.read(Reading(self.path))
        elif self.given:
            self.query_one("#log-text", CommandArea).take(self.given)
            self.ask_and_read()
        else:
            self.draw()
            self.query_one("#log-path").focus()

    @property
    def state(self) -> str:
        """"ask", "reading", "found", "healthy"."""
        reading = self.reading
        if reading is None or reading.trouble:
            return "ask"
        if reading.diagnosis is None:
            return "reading"
        return "found" if reading.diagnosis.findings else "healthy"

    # -- reading ----------------------------------------------------------------------------------------------

    def ask_and_read(self) -> None:
        """Read what was pasted, or else the file that was named."""
        pasted = self.query_one("#log-text", TextArea).text
        path = self.query_one("#log-path", LineInput).value.strip()
        if path:
            self.read(Reading(path))
        elif pasted.strip():
            self.read(Reading(_("the pasted text"), pasted))
        else:
            self.reading = Reading("", trouble=_("Name a file, or paste the log into the field."))
            self.draw()

    def read(self, reading: Reading) -> None:
        """Read and diagnose in a thread."""
        self.reading, self.at = reading, 0
        if self._ticker is None:
            self._ticker = self.set_interval(0.15, self._tick)
        self.draw()
        wizard = self.wizard
        plan = wizard.walk.plan
        wsl = plan.machine.wsl is not None if plan is not None else None
        gpus = plan.machine.gpu if plan is not None else None

        def work() -> None:
            try:
                reading.run(wizard.host, wsl, gpus)
            except Cancelled:
                return
            self.app.call_from_thread(self._has_read, reading)

        self.run_worker(work, thread=True, group="diagnose")

    def _try_fixes(self, reading: Reading) -> None:
        """In a thread: which fixes would change the plan of the walk, and how."""
        walk = self.wizard.walk
        session, plan = walk.session, walk.plan
        if reading.diagnosis is None or session is None or plan is None:
            return
        for number, finding in enumerate(reading.diagnosis.findings):
            found = usable_fixes(finding, session, plan, self.wizard.host, walk.plan_of)
            if reading.cancelled or reading.tried_on is not plan:
                return
            self.app.call_from_thread(self._fixes_tried, reading, number, found)

    def _has_read(self, reading: Reading) -> None:
        if reading is self.reading and self.drawable:
            self._stop_ticker()
            self.draw()
            self._watch_plan()

    def _watch_plan(self) -> None:
        """Try the fixes on the plan: when the log was read, and again when the plan has changed (or is there at last)."""
        reading, plan = self.reading, self.wizard.walk.plan
        if reading is None or reading.diagnosis is None or plan is None or reading.tried_on is plan:
            return
        reading.tried_on = plan
        reading.usable.clear()
        self.run_worker(lambda: self._try_fixes(reading), thread=True, group="diagnose")

    def _fixes_tried(self, reading: Reading, number: int, found: list[Usable]) -> None:
        reading.usable[number] = found
        if reading is self.reading and self.drawable and number == self.at:
            self.draw()

    def _stop_ticker(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def _tick(self) -> None:
        self._frame += 1
        if self.state == "reading":
            self.draw()

    def give_up(self) -> None:
        """Stop reading, and ask for a log again."""
        if self.reading is not None:
            self.reading.cancel()
        self._stop_ticker()
        self.reading = None
        self.draw()
        self.query_one("#log-path").focus()

    # -- drawing ----------------------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.drawable:
            return
        state = self.state
        fresh = state != self._drawn_state
        self._drawn_state = state
        asking = state == "ask"
        self.query_one("#log-about").display = True
        for name in ("log-path-row", "log-paste-label", "log-text", "log-trouble"):
            self.query_one(f"#{name}").display = asking
        for name in ("log-findings", "log-fixes", "log-more"):
            self.query_one(f"#{name}").display = state == "found"
        self.query_one("#log-answer").display = state in ("found", "healthy")
        {"ask": self._draw_ask, "reading": self._draw_reading, "found": self._draw_found, "healthy": self._draw_healthy}[state]()
        self.draw_header([(self._header(), DIM)])
        if fresh:
            self.query_one("#whole-body").scroll_home(animate=False)
            self._focus_first(state)
        self.draw_keys()
        self.call_after_refresh(self.draw_more)

    def draw_more(self) -> None:
        super().draw_more()
        if self.drawable:
            self.draw_keys()  # "More" is a key only where there is more

    def _header(self) -> str:
        reading = self.reading
        if reading is None or self.state == "ask":
            return _("diagnosis")
        return text.clip_left(reading.name, max(10, self.size.width - 20), self.glyphs.ellipsis)

    def _focus_first(self, state: str) -> None:
        if state == "found":
            rows = self.query_one("#log-fixes", Rows)
            if rows.rows:
                rows.focus(scroll_visible=False)
        elif state == "ask" and self.reading is not None:
            # Back from what could not be read: the focus is where that stands.
            self.query_one("#log-path" if self.reading.pasted is None else "#log-text").focus()

    def _draw_ask(self) -> None:
        width = self.room()
        told = _("The whole log is best, from the first line on: the cause mostly stands far above the last error. Any form does: docker logs, journalctl, a paste with text around it.")
        self.query_one("#log-about", Panel).put(join([*wrapped(told, width, 0, DIM), Content("")]))
        trouble = self.reading.trouble if self.reading is not None else ""
        box = self.query_one("#log-trouble", Panel)
        box.put(content([(f"{self.glyphs.attention} ", f"bold {BAD}"), (trouble, BAD)]) if trouble else Content(""))
        self.show_buttons(["log-read", "log-back"])

    def _draw_reading(self) -> None:
        reading = self.reading
        assert reading is not None
        spinner = self.glyphs.spinner[self._frame % len(self.glyphs.spinner)]
        told = _("Reading {name}").format(name=reading.name) + self.glyphs.ellipsis
        lines = [content([(spinner + " ", ACCENT), (told, TEXT)])]
        if reading.total_bytes:
            of = _("{done} of {total}").format(done=text.gib(reading.done_bytes), total=text.gib(reading.total_bytes))
            lines.append(Content.styled("  " + of, DIM))
        self.query_one("#log-about", Panel).put(join(lines))
        self.show_buttons(["log-cancel"])

    def _draw_healthy(self) -> None:
        reading = self.reading
        assert reading is not None
        assert reading.diagnosis is not None
        self.query_one("#log-about", Panel).put(join([summary_line(reading.diagnosis, self.glyphs, self.room()), Content("")]))
        self.query_one("#log-answer", Panel).put(no_failure(reading.diagnosis, self.glyphs, self.room()))
        self.show_buttons(["log-another", "log-back"])

    def _draw_found(self) -> None:
        reading = self.reading
        assert reading is not None
        assert reading.diagnosis is not None
        found = reading.diagnosis.findings
        width, glyphs = self.room(), self.glyphs
        self.at = min(self.at, len(found) - 1)
        finding = found[self.at]
        self.query_one("#log-about", Panel).put(join([summary_line(reading.diagnosis, glyphs, width), Content("")]))
        rows = self.query_one("#log-findings", Rows)
        rows.display = len(found) > 1
        rows.set_rows([Row(str(n), _finding_drawer(n, f, self)) for n, f in enumerate(found)])
        rows.chosen = str(self.at)
        # On a small terminal the first fix shall be in view as well.
        high = self.size.height >= 30
        blocks = [finding_top(finding, reading.lines, glyphs, width, AROUND if high else 1, 12 if high else 4)]
        if finding.fixes or self.usable():
            blocks += [Content(""), Content.styled(_("What to do"), f"bold {ACCENT}")]
        self.query_one("#log-answer", Panel).put(join(blocks))
        fixes = self.query_one("#log-fixes", Rows)
        fixes.set_rows([Row(key, drawer) for key, drawer in self._fix_rows(finding)])
        fixes.display = bool(fixes.rows)
        more = evidence(finding, glyphs, width)
        if finding.cause in ("unknown", "vllm_internal_bug"):
            told = _("No rule knows this failure. “Report” shows what to take to an issue, with names and secrets taken out.")
            more = [Content(""), *wrapped(told, width, 0, DIM), *more]
        if not reading.diagnosis.whole:
            more += [Content(""), *wrapped(_("The log is large: of its middle only what looks like a failure was kept."), width, 0, DIM)]
        if reading.diagnosis.cut:
            from wizard.diagnose.report import CUT

            more += [Content(""), *wrapped(_(CUT), width, 0, WARN)]
        self.query_one("#log-more", Panel).put(join(more))
        self._draw_found_buttons()

    def _draw_found_buttons(self) -> None:
        names = ["log-report", "log-another", "log-back"]
        self.show_buttons(["log-use", *names] if self.usable_here() is not None else names)

    # -- fixes ------------------------------------------------------------------------------------------------

    @property
    def finding(self) -> Finding | None:
        diagnosis = self.reading.diagnosis if self.reading is not None else None
        return diagnosis.findings[self.at] if diagnosis is not None and diagnosis.findings else None

    def usable(self) -> list[Usable]:
        return self.reading.usable.get(self.at, []) if self.reading is not None else []

    def _fix_rows(self, finding: Finding) -> list[tuple[str, Any]]:
        """What the plan itself knows to do comes first, then the rule's fixes in their order."""
        from wizard.diagnose.engine import Fix

        usable = {u.summary: u for u in self.usable()}
        named = {f.summary for f in finding.fixes}
        fixes = [Fix(u.summary) for u in self.usable() if u.summary not in named] + finding.fixes
        return [(f.summary, _fix_drawer(n, f, self._fix_note(f, f.summary in usable), self)) for n, f in enumerate(fixes, 1)]

    def _fix_note(self, fix: Fix, usable: bool) -> str:
        """What the plan has to do with a fix: it can take it over, or has it already."""
        if usable:
            return _("Enter takes it into the plan")
        version = self._had_already(fix.commands)
        return _("your plan has it already: it starts vLLM {version}").format(version=version) if version is not None else ""

    def _had_already(self, commands: list[str]) -> str | None:
        from wizard.launch.repair import has_it_already

        plan = self.wizard.walk.plan
        return has_it_already(commands, plan) if plan is not None and commands else None

    def usable_here(self) -> Usable | None:
        """The fix under the cursor, when the plan can take it."""
        key = self.query_one("#log-fixes", Rows).cursor_key
        return next((u for u in self.usable() if u.summary == key), None)

    def _lines_here(self) -> list[str]:
        """The commands of the fix under the cursor."""
        finding, key = self.finding, self.query_one("#log-fixes", Rows).cursor_key
        fix = next((f for f in finding.fixes if f.summary == key), None) if finding is not None else None
        return list(fix.commands) if fix is not None else []

    @property
    def fixes_tried(self) -> bool:
        """Whether it is known what the fixes would do to the plan: it stands, with all models, and they were tried on it."""
        reading, wizard = self.reading, self.wizard
        return not wizard.models_looking and reading is not None and reading.tried_on is wizard.walk.plan and self.at in reading.usable

    def use_fix(self) -> None:
        """Show what the fix under the cursor changes, and take it over on consent."""
        usable, plan = self.usable_here(), self.wizard.walk.plan
        if plan is None:
            self.notify(_("There is no plan yet: the machine is still being asked."), timeout=4)
            return
        if usable is None and not self.fixes_tried:
            self.notify(_("The plan is still being made; press Enter again in a moment."), timeout=4)
            return
        if usable is None:
            lines = self._lines_here()
            if lines:
                self.app.copy_to_clipboard("\n".join(lines) + "\n")
            told = _("This is nothing that the plan can do: its lines are copied, to be typed by you.") if lines else _("This is nothing that the plan can do: it is done by hand.")
            self.notify(told, timeout=4)
            return
        width = max(30, min(96, self.size.width * 9 // 10) - 7)
        blocks = [*wrapped(usable.summary, width, 0, BOLD), Content(""), plan_diff_content(plan, usable.plan, list(usable.changed), width)]
        other = of_another_model(self.reading.diagnosis if self.reading is not None else None, plan)
        if other:
            blocks = [*wrapped(f"{self.glyphs.attention} " + other, width, 0, WARN), Content(""), *blocks]
        for blocker in usable.plan.blockers[:2]:
            blocks += [Content(""), *wrapped(f"{self.glyphs.blocked} " + blocker.title, width, 0, BAD)]

        def answered(yes: bool | None) -> None:
            if yes:
                self._take(usable)

        self.app.push_screen(Ask(_("Use this fix in my plan?"), join(blocks), _("Use it"), _("Leave it")), answered)

    def _take(self, usable: Usable) -> None:
        walk = self.wizard.walk
        walk.answers = usable.session.answers
        if walk.session is not None:
            walk.use(walk.session)
        self.wizard.save()
        self._walk_wanted()
        self.wizard.walk_screen.plan_changed()
        self.notify(_("Taken into the plan: {what}").format(what=usable.summary), timeout=6)
        self._watch_plan()
        self.draw()

    def _walk_wanted(self) -> None:
        """The walk is asked for as well: Esc goes back to it from here on."""
        self.alone = self.wizard.opens_with_log = False
        self.query_one("#log-back", PushButton).rename(_("Back"))

    # -- keys -------------------------------------------------------------------------------------------------

    def keys(self) -> list[Key]:
        enter = {"ask": _("Read it"), "reading": _("Stop reading")}.get(self.state, _("Back"))
        if self.state == "found":
            enter = _("Use the fix") if self.usable_here() is not None else _("Copy it") if self._lines_here() else ""
            if isinstance(self.focused, PushButton):
                enter = self.focused.label
        body = self.query_one("#whole-body", VerticalScroll)
        more = body.scroll_y < body.max_scroll_y
        fixes = self.query_one("#log-fixes", Rows)
        # Tab leaves the list of fixes whole: what is wanted there are the arrows.
        choosing = self.state == "found" and fixes.has_focus and len(fixes.rows) > 1
        return [
            *([("Enter", enter, "default")] if enter else []),
            (self.glyphs.up + self.glyphs.down, _("Choose a fix"), "next_fix") if choosing else ("Tab", _("Next field"), "app.focus_next"),
            *([("PgDn", _("More"), "page(1)")] if more else []),
            ("F1", _("Help"), "help"),
            ("Esc", _("Leave") if self.alone and self.state != "reading" else _("Back"), "leave"),
            ("^Q", _("Quit"), "app.quit"),
        ]

    def action_next_fix(self) -> None:
        self.query_one("#log-fixes", Rows).action_move(1)

    def help_text(self) -> Content:
        return help_lines(
            _("A log of a vLLM start is read on this machine only; nothing is sent anywhere. The first cause is found, not the last error."),
            [
                ("Enter", _("read the log; take the fix under the cursor")),
                (_("Arrows"), _("choose a fix; scroll")),
                ("Tab", _("next field, list or button")),
                ("PgUp, PgDn", _("scroll")),
                ("Esc", _("stop reading; leave") if self.alone else _("stop reading; back to the walk")),
            ],
        )

    def on_descendant_focus(self) -> None:
        self.draw_keys()

    def on_rows_moved(self, event: Rows.Moved) -> None:
        event.stop()
        if event.rows.id == "log-findings":
            self.at = int(event.key)
            self.draw()
        else:
            self._draw_found_buttons()
            self.draw_keys()
            self.call_after_refresh(self._show_fix)

    def _show_fix(self) -> None:
        """Scroll so that the fix under the cursor is in view."""
        fixes = self.query_one("#log-fixes", Rows)
        mine = fixes.lines_of_cursor()
        at = fixes.virtual_region
        self.query_one("#whole-body").scroll_to_region(Region(at.x, at.y + mine.start, 1, max(1, len(mine))), animate=False)
        self.call_after_refresh(self.draw_more)

    def on_rows_opened(self, event: Rows.Opened) -> None:
        event.stop()
        self.use_fix()

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        name = event.button.id
        if name == "log-read":
            self.ask_and_read()
        elif name in ("log-cancel", "log-another"):
            self.give_up()
        elif name == "log-use":
            self.use_fix()
        elif name == "log-report":
            self.show_report()
        elif name == "log-back":
            self._walk_wanted()
            self.action_leave()

    def show_report(self) -> None:
        """The redacted report; it goes to the clipboard as well."""
        from wizard.diagnose.report import as_report

        reading = self.reading
        if reading is None or reading.diagnosis is None or reading.lines is None:
            return
        report = as_report(reading.diagnosis, reading.lines)
        self.app.copy_to_clipboard(report)
        self.app.push_screen(Reader(_("Report for an issue (copied)"), Content(report), full=True))

    def action_default(self) -> None:
        if self.state == "ask":
            self.ask_and_read()
        elif self.state == "found":
            self.use_fix()

    def action_leave(self) -> None:
        if self.state == "reading":
            self.give_up()
        elif self.alone:
            self.app.call_later(self.app.action_quit)
        else:
            self.dismiss(None)

    def on_unmount(self) -> None:
        if self.reading is not None:
            self.reading.cancel()


def _finding_drawer(number: int, finding: Finding, screen: Widget) -> Any:
    def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
        from wizard.diagnose.report import sure_word

        glyphs = glyphs_of(screen)
        sure = _(sure_word(finding.confidence))
        label = _("Cause") if number == 0 else _("Also")
        parts: list[Part] = [
            ((glyphs.radio_on if chosen else glyphs.radio_off) + " ", ACCENT if chosen else DIM),
            (f"{label}: ", DIM),
            (clip(finding.title, max(10, width - cell_len(label) - cell_len(sure) - 10), glyphs.ellipsis), f"bold {ACCENT}" if cursor else TEXT),
            (f"  {sure}", DIM),
        ]
        return [content(parts)]

    return draw


def _fix_drawer(number: int, fix: Fix, note: str, screen: Widget) -> Any:
    def draw(width: int, cursor: bool, chosen: bool) -> list[Content]:
        glyphs = glyphs_of(screen)
        lines = fix_lines(number, fix, width - 2)
        mark = Content.styled((glyphs.cursor if cursor else " ") + " ", ACCENT)
        shown = [mark + lines[0], *[Content("  ") + line for line in lines[1:]]]
        if note:
            shown += wrapped(note, width, 7, OK if cursor else DIM)
        return shown

    return draw


def open_screen(wizard: Wizard, path: str | None = None, alone: bool = False, given: str = "") -> None:
    """Open the diagnosis over the walk; ``alone``: the walk was not asked for."""
    wizard.app.push_screen(DiagnoseScreen(wizard, path, alone, given))

