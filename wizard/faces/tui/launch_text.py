"""What the launch screen says, as styled text: stages, memory, the proof, a failure with its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content

from wizard.faces.tui import diagnosis, text
from wizard.faces.tui.look import Glyphs
from wizard.faces.tui.panes import heading
from wizard.faces.tui.text import (
    ACCENT,
    BAD,
    BOLD,
    DIM,
    OK,
    TEXT,
    WARN,
    Part,
    clip,
    content,
    join,
    pad,
    wrapped,
)
from wizard.i18n import N_, _, listed
from wizard.launch.stages import ORDER, TITLES, Stage
from wizard.program import command

if TYPE_CHECKING:
    from wizard.faces.tui.server import Shown
    from wizard.launch.prove import Check
    from wizard.launch.repair import Repair
    from wizard.plan_types import Plan

TITLE_CELLS, TIME_CELLS, BAR_CELLS = 18, 10, 12
ROOT_LINES = 4  # of the root line, so that the repair is in view as well
DIFF_LINES = 6  # of a file, beside the repair; the whole diff is one button away
STATE_WORDS = {
    "starting": N_("starting"),
    "proving": N_("asking it"),
    "asking": N_("failed: a repair is offered"),
    "serving": N_("serving"),
    "stopping": N_("stopping"),
    "leaving": N_("leaving it running"),
    "stopped": N_("stopped"),
    "failed": N_("failed"),
    "died": N_("ended by itself"),
    "left": N_("in the background"),
    "refused": N_("not started"),
}
STATE_STYLES = {"serving": OK, "left": OK, "asking": WARN, "stopping": WARN, "leaving": WARN, "failed": BAD, "died": BAD, "refused": BAD}


def expected(shown: Shown) -> list[str]:
    """The stages that this start may pass, in order; what it did pass is always among them."""
    left_out = {"install" if shown.runtime == "docker" else "pull"}
    if shown.device in ("cpu", "none"):
        left_out |= {"graphs"}
    return [name for name in TITLES if name not in left_out or name in shown.reader.stages]


def stages(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    """One line a stage: mark, name, time, and what is known of it."""
    known = shown.reader.stages
    at = max((ORDER[name] for name in list(known)), default=-1)
    return join([_stage_line(name, known.get(name), ORDER[name] < at, shown, glyphs, width, frame) for name in expected(shown)])


def _stage_line(name: str, stage: Stage | None, passed: bool, shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    title = pad(_(TITLES[name]), TITLE_CELLS, glyphs.ellipsis)
    if stage is None:
        # A start leaves out what it does not need; its mark says so.
        mark, word = (glyphs.dash, _("not needed")) if passed else (glyphs.open, "")
        return content([(mark + " ", DIM), (title, DIM), (word.rjust(TIME_CELLS), DIM)])
    running = stage.ended_s is None
    mark, style = (glyphs.blocked, BAD) if stage.failed else (glyphs.spinner[frame % len(glyphs.spinner)], ACCENT) if running else (glyphs.done, OK)
    # Being ready takes no time: how long it all took is what one wants to see there.
    seconds = stage.started_s if name == "ready" else stage.seconds(shown.clock())
    parts: list[Part] = [
        (mark + " ", f"bold {style}"),
        (title, f"bold {style}" if running or stage.failed else TEXT),
        (f"{text.duration(seconds):>{TIME_CELLS}}  ", TEXT if running else DIM),
    ]
    if running and stage.fraction is not None:
        full = int(BAR_CELLS * stage.fraction)
        parts += [(glyphs.bar_full * full, ACCENT), (glyphs.bar_empty * (BAR_CELLS - full), DIM), (f" {stage.fraction:4.0%}  ", TEXT)]
    told = [_("failed")] if stage.failed else []
    told += [stage.detail] if stage.detail else []
    told += [_("{rate:.2f} GiB/s").format(rate=stage.rate_bytes_s / text.GIB)] if stage.rate_bytes_s else []
    parts.append((clip(listed(told), max(0, width - content(parts).cell_length), glyphs.ellipsis), BAD if stage.failed else DIM))
    return content(parts)


def memory(shown: Shown, glyphs: Glyphs, width: int) -> list[Content]:
    """A bar for each GPU, or for the main memory that the server's processes hold."""
    lines = []
    labels = max((cell_len(use.label) for use in shown.memory), default=0)
    for use in shown.memory:
        parts: list[Part] = [("  " + pad(use.label, labels) + "  ", TEXT)]
        if use.total_bytes:
            cells = max(10, min(40, width - labels - 28))
            full = min(cells, int(cells * use.used_bytes / use.total_bytes + 0.5))
            parts += [(glyphs.bar_full * full, "$wz-weights"), (glyphs.bar_empty * (cells - full), DIM), ("  ", DIM)]
            parts.append((_("{used} of {total}").format(used=text.gib(use.used_bytes), total=text.gib(use.total_bytes)), TEXT))
        else:
            parts.append((text.gib(use.used_bytes), TEXT))
        lines.append(content(parts))
    return lines


def checks(shown: Shown, glyphs: Glyphs, width: int) -> list[Content]:
    """What the server was asked, and what it answered."""
    return [_check_line(check, glyphs, width) for check in list(shown.checks)]


def _check_line(check: Check, glyphs: Glyphs, width: int) -> Content:
    names = {
        "models": _("Models"), "answer": _("Answer"), "image": _("Picture"), "adapter": _("Adapter"),
        "embedding": _("Embedding"), "score": _("Score"), "transcription": _("Transcription"),
    }  # fmt: skip
    about = f"{check.about}: " if check.name in ("adapter", "image") and check.about else ""
    mark, style = (glyphs.done, OK) if check.ok else (glyphs.blocked, BAD)
    head: list[Part] = [
        (mark + " ", f"bold {style}"),
        (pad(names.get(check.name, check.name), 14), TEXT),
        (_("{seconds:.1f} s").format(seconds=check.seconds).rjust(7) + "  ", DIM),
    ]
    told = about + " ".join((check.text or "").split()) if check.ok else about + check.fault
    indent = content(head).cell_length
    if check.ok:
        return content([*head, (clip(told, max(10, width - indent), glyphs.ellipsis), TEXT)])
    first, *more = wrapped(told, width, indent, BAD)
    return join([content(head) + first[indent:], *more])


def tried(shown: Shown, glyphs: Glyphs, width: int, skip_last: bool = False) -> list[Content]:
    """Every start that failed before, and what was changed after it."""
    rows = shown.tried[:-1] if skip_last else shown.tried
    if not rows:
        return []
    lines = [Content(""), Content.styled(_("Tried so far"), f"bold {ACCENT}")]
    for one in rows:
        told = _("Start {number}, after {time}: {title}").format(number=one.number, time=text.duration(one.seconds), title=one.title)
        first, *more = wrapped(told, width, 2, TEXT)
        lines += [content([(glyphs.blocked, BAD)]) + first[1:], *more]
        if one.change:
            lines += wrapped(_("Changed: {what}").format(what=one.change), width, 2, OK)
    return lines


def body(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    """The frame's whole content for the state it is in."""
    if shown.state in ("starting", "proving", "stopping", "leaving"):
        return _busy(shown, glyphs, width, frame)
    if shown.state == "serving":
        return _serving(shown, glyphs, width, frame)
    if shown.state in ("asking", "failed", "died"):
        return _failure(shown, glyphs, width, frame)
    return _over(shown, glyphs, width, frame)


def _busy(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    lines = [stages(shown, glyphs, width, frame), *memory(shown, glyphs, width)]
    if shown.checks:
        lines += [Content(""), *checks(shown, glyphs, width)]
    if shown.state == "stopping":
        lines += [Content(""), Content.styled(f"{glyphs.attention} " + _("Stopping; Ctrl+C kills it at once."), WARN)]
    return join([*lines, *tried(shown, glyphs, width)])


def _proven(shown: Shown) -> bool:
    return bool(shown.checks) and all(c.ok for c in shown.checks)


def _serving(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    seconds = text.duration(shown.reader.stages["ready"].started_s) if "ready" in shown.reader.stages else ""
    if _proven(shown):
        head: list[Part] = [(f"{glyphs.done} ", f"bold {OK}"), (_("It answers: {url}/v1").format(url=shown.url), BOLD)]
    else:
        head = [(f"{glyphs.attention} ", f"bold {WARN}"), (_("It runs, but not every question was answered: {url}/v1").format(url=shown.url), BOLD)]
    if seconds:
        head.append(("  " + _("ready after {time}").format(time=seconds), DIM))
    lines = [*folded(head, width), *checks(shown, glyphs, width), *memory(shown, glyphs, width)]
    if shown.verdict:
        lines += wrapped(_("Memory: {verdict}").format(verdict=shown.verdict), width, 2, DIM)
    lines += ready_made(shown, width)
    lines += tried(shown, glyphs, width)
    return join([*lines, Content(""), heading(_("The start"), "", width), stages(shown, glyphs, width, frame)])


def folded(parts: list[Part], width: int) -> list[Content]:
    return list(content(parts).wrap(width))


def ready_made(shown: Shown, width: int) -> list[Content]:
    """The curl and Python lines."""
    lines: list[Content] = []
    for title, key, code in ((_("With curl"), "c", shown.curl), (_("In Python"), "p", shown.python)):
        if code:
            lines += [Content(""), heading(title, _("{key} copies it").format(key=key), width)]
            lines += [text.hanging(line, width, 2, TEXT) for line in code.splitlines()]
    return lines


def _failure(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    from wizard.faces.launching import outcome_words

    lines: list[Content] = []
    if shown.outcome is not None:
        lines += wrapped(outcome_words(shown.outcome), width, 0, DIM)
    found = shown.diagnosis.findings if shown.diagnosis is not None else []
    best = found[0] if found else None
    if best is not None:
        lines.append(diagnosis.finding_top(best, None, glyphs, width, most=ROOT_LINES))
    elif shown.diagnosis is not None:
        lines += wrapped(_("The log does not say why. Its end stands in the log beside; L shows all of it."), width, 0, TEXT)
    if shown.repair is not None and shown.before is not None and shown.state == "asking":
        lines += [Content(""), heading(_("Repair"), "", width), *repair_short(shown.repair, shown.before, glyphs, width)]
    elif best is not None and best.fixes:
        lines += [Content(""), Content.styled(_("What to do"), f"bold {ACCENT}")]
        for number, fix in enumerate(best.fixes, 1):
            lines += diagnosis.fix_lines(number, fix, width)
    if best is not None:
        lines += diagnosis.evidence(best, glyphs, width)
    if shown.state == "died":
        lines += [Content(""), *wrapped(_("A server that should come back by itself is left to systemd or to Docker Compose: “Leave it running”."), width, 0, DIM)]
    lines += tried(shown, glyphs, width, skip_last=shown.state == "asking")
    return join([*lines, Content(""), heading(_("The start"), "", width), stages(shown, glyphs, width, frame)])


def repair_short(repair: Repair, before: Plan, glyphs: Glyphs, width: int) -> list[Content]:
    """What the repair is, and what it changes in the plan."""
    first, *more = wrapped(repair.summary, width, 2, BOLD)
    head = content([(glyphs.right, f"bold {OK}")]) + first[1:]
    lines = [head, *more]
    shown = diagnosis.plan_diff_content(before, repair.plan, list(repair.changed), width)
    if shown.plain:
        lines.append(shown)
    else:
        names = ", ".join(sorted({c.path.rsplit("/", 1)[-1] for c in repair.changes}))
        lines += wrapped(_("The plan stays; {files} is written anew.").format(files=names), width, 2, DIM)
        lines += _changed_lines(repair, width)
    return lines


def _changed_lines(repair: Repair, width: int) -> list[Content]:
    """The first lines that a repair changes in what is started."""
    rows = [
        line
        for change in repair.changes
        if change.path.endswith(("launch.sh", "compose.yaml"))
        for line in change.diff.splitlines()
        if line.startswith(("-", "+")) and not line.startswith(("---", "+++"))
    ]
    return [text.hanging(f"{row[0]} {row[1:].strip()}", width, 4, BAD if row[0] == "-" else OK) for row in rows[:DIFF_LINES]]


def repair_whole(repair: Repair, before: Plan, glyphs: Glyphs, width: int) -> Content:
    """The same with the diff of every file."""
    from wizard.faces.tui.views import change_content

    blocks = [join(repair_short(repair, before, glyphs, width))]
    blocks += [change_content(change, width) for change in repair.changes]
    return Content("\n\n").join(blocks)


def _over(shown: Shown, glyphs: Glyphs, width: int, frame: int) -> Content:
    mark, style = {"left": (glyphs.done, OK), "refused": (glyphs.blocked, BAD)}.get(shown.state, (glyphs.bullet, ACCENT))
    lines: list[Content] = []
    for number, told in enumerate(shown.message.splitlines()):
        first, *more = wrapped(told, width, 2, BOLD if number == 0 else TEXT)
        lines += [content([(mark if number == 0 else " ", f"bold {style}")]) + first[1:], *more]
    if shown.state == "left":
        if "ready" not in shown.reader.stages:
            lines += wrapped(_("It was still starting: “status” tells when it serves."), width, 2, WARN)
        lines.append(Content(""))
        folder = shown.folder
        for line, what in (
            (f"{command()} status {folder}", _("how it is")),
            (f"{command()} logs {folder} --follow", _("its log, as it grows")),
            (f"{command()} stop {folder}", _("ends it, and nothing stays")),
        ):
            lines += [text.hanging("  " + line, width, 4, ACCENT), *wrapped(what, width, 4, DIM)]
        lines += ready_made(shown, width)
    lines += tried(shown, glyphs, width)
    if shown.reader.stages:
        lines += [Content(""), heading(_("The start"), "", width), stages(shown, glyphs, width, frame)]
    return join(lines)
