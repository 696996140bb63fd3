"""The two outer zones as text: the steps on the left, the live plan on the right (and, longer, behind F2)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content

from wizard.faces.tui import text
from wizard.faces.tui.look import Glyphs
from wizard.faces.tui.text import ACCENT, BAD, BOLD, DIM, OK, TEXT, WARN, Part, clip, content, join
from wizard.faces.tui.walk import Walk
from wizard.i18n import N_, _, ngettext

if TYPE_CHECKING:
    from wizard.plan_types import Plan

_WORDS = {"done": N_("done"), "current": N_("here"), "open": N_("open"), "attention": N_("see notes")}
_STYLES = {"done": OK, "current": ACCENT, "open": DIM, "attention": WARN}


def step_glyph(state: str, glyphs: Glyphs) -> str:
    return {"done": glyphs.done, "current": glyphs.current, "attention": glyphs.attention}.get(state, glyphs.open)


def rail(walk: Walk, glyphs: Glyphs, width: int) -> Content:
    """All steps: glyph, number, title, and the state as a word. A click goes there."""
    lines: list[Content] = []
    for number, step in enumerate(walk.steps(), 1):
        state = walk.state(step)
        style = _STYLES[state]
        title = clip(_(step.title), width - 4, glyphs.ellipsis)
        head = content(
            [
                (step_glyph(state, glyphs) + " ", f"bold {style}"),
                (f"{number} ", f"bold {style}" if state == "current" else DIM),
                (title, f"bold {ACCENT}" if state == "current" else TEXT if state != "open" else DIM),
            ]
        )
        word = Content.styled("    " + _(_WORDS[state]), style)
        lines += [head, word]
    return join(lines)


def progress(walk: Walk, glyphs: Glyphs) -> list[Part]:
    """The steps on one line, for narrow terminals."""
    parts: list[Part] = []
    for step in walk.steps():
        state = walk.state(step)
        parts.append((step_glyph(state, glyphs) + " ", _STYLES[state]))
    return parts


def what_runs(plan: Plan, glyphs: Glyphs, width: int) -> list[Part]:
    """Model, release and GPUs in three short lines."""
    model = plan.model
    name = (model.repo_id or model.source.rstrip("/").rsplit("/", 1)[-1]) if model is not None else _("no model yet")
    if cell_len(name) > width:
        name = text.clip_middle(name.rsplit("/", 1)[-1], width, glyphs.ellipsis)
    parts: list[Part] = [(name, BOLD)]
    if plan.release is not None:
        how = _("in Docker") if plan.runtime == "docker" else _("in a local environment")
        parts.append(("\n" + _("vLLM {version} {how}").format(version=plan.release.version, how=how), DIM))
    hardware = gpus_text(plan, glyphs)
    if hardware:
        if plan.copies > 1:
            hardware += _(", each of {n} servers").format(n=plan.copies)
        parts.append(("\n" + hardware, DIM))
    return parts


def gpus_text(plan: Plan, glyphs: Glyphs) -> str:
    if plan.device == "cpu":
        return _("on the CPU: {name}").format(name=plan.machine.cpu.model.or_else(_("unknown processor")))
    used = [g for g in plan.machine.gpu.gpus if not plan.gpus or g.index in plan.gpus]
    if not used:
        return ""
    name = used[0].name.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return _("on {name}").format(name=name if len(used) == 1 else f"{len(used)} {glyphs.times} {name}")


def plan_pane(walk: Walk, glyphs: Glyphs, width: int, files: Sequence[tuple[str, str]]) -> Content:
    """The right zone: what runs, memory, the command with what changed last, and the files.

    ``files`` are (name, state as a word).
    """
    plan = walk.plan
    if plan is None:
        return Content.styled(_("The plan appears here as soon as the machine has answered."), DIM)
    blocks = [content(what_runs(plan, glyphs, width))]
    if plan.blockers:
        count = len(plan.blockers)
        head = ngettext("{n} blocker", "{n} blockers", count).format(n=count)
        lines: list[Part] = [(f"{glyphs.blocked} {head}", f"bold {BAD}")]
        lines += [("\n  " + clip(p.title, width - 2, glyphs.ellipsis), TEXT) for p in plan.blockers[:3]]
        blocks.append(content(lines))
    if plan.fit is not None:
        blocks.append(join([heading(memory_heading(plan), memory_total(plan), width), text.memory_bar(plan, glyphs, width)]))
    if plan.argv:
        before = walk.before.argv if walk.before is not None else plan.argv
        marked = before != plan.argv and text.command_lines(before)[:1] == text.command_lines(plan.argv)[:1]
        blocks.append(join([heading(_("Command"), _("+ - your last change") if marked else "", width), command(walk, width)]))
    if files:
        blocks.append(join([heading(_("Files"), "", width), file_list(files, glyphs)]))
    return Content("\n\n").join(blocks)


def memory_heading(plan: Plan) -> str:
    """Whose memory the bar shows."""
    if plan.device == "cpu":
        return _("Memory (RAM)")
    return _("Memory of each GPU") if len(plan.gpus) > 1 else _("GPU memory")


def memory_total(plan: Plan) -> str:
    total = text.gpu_total(plan)
    return "" if total is None else text.gib(total)


def heading(title: str, right: str, width: int) -> Content:
    gap = max(1, width - cell_len(title) - cell_len(right))
    return content([(title, f"bold {ACCENT}"), (" " * gap + right if right else "", DIM)])


def command(walk: Walk, width: int) -> Content:
    """The command, one flag a line; what the last change brought is marked "+", what it took away "-"."""
    plan = walk.plan
    if plan is None or not plan.argv:
        return Content("")
    now = text.command_lines(plan.argv)
    before = text.command_lines(walk.before.argv) if walk.before is not None else now
    styles = {"+": OK, "-": BAD, " ": TEXT}
    lines = [
        text.hanging(mark + line[1:] if line.startswith(" ") else line, width, 4, styles[mark])
        for mark, line in text.changed_lines(before, now)
    ]
    return join(lines)


def file_list(files: Sequence[tuple[str, str]], glyphs: Glyphs) -> Content:
    width = max(cell_len(name) for name, _word in files)
    return join([content([(text.pad(name, width), TEXT), ("  " + word, DIM)]) for name, word in files])


def whole_plan(walk: Walk, glyphs: Glyphs, width: int, files: Sequence[tuple[str, str]]) -> Content:
    """What F2 shows: the pane's content, then every decision with its reason, environment, warnings."""
    plan = walk.plan
    if plan is None:
        return Content.styled(_("There is no plan yet: the machine is still being asked."), DIM)
    blocks = [plan_pane(walk, glyphs, min(width, 72), files)]
    if plan.blockers:
        blocks.append(join([heading(_("Blockers"), "", width), text.problems(plan.blockers, glyphs, width)]))
    if plan.warnings:
        blocks.append(join([heading(_("Warnings"), "", width), text.problems(plan.warnings, glyphs, width)]))
    if plan.fit is not None and plan.fit.lines:
        blocks.append(join([heading(_("Memory, line by line"), "", width), memory_lines(plan)]))
    blocks.append(join([heading(_("Why"), "", width), decisions(plan)]))
    if plan.env:
        blocks.append(join([heading(_("Environment variables"), "", width), environment(plan.env)]))
    if plan.notes:
        blocks.append(join([heading(_("Notes"), "", width), *[content([(f"{glyphs.bullet} {n}", TEXT)]) for n in plan.notes]]))
    return Content("\n\n").join(blocks)


def memory_lines(plan: Plan) -> Content:
    """Every part of the budget with what it is and where its figure comes from."""
    assert plan.fit is not None
    lines = []
    for line in plan.fit.lines:
        lines.append(content([(line.title, ACCENT), (f" = {text.gib(line.bytes)}", BOLD), ("\n  " + line.reason if line.reason else "", DIM)]))
    tokens = plan.fit.kv_cache_tokens
    if tokens.best > 0 and plan.fit.certain:
        span = _("{best:,} tokens, between {low:,} and {high:,}").format(
            best=int(tokens.best), low=max(0, int(tokens.low)), high=int(tokens.high)
        )
        lines.append(content([(_("KV cache holds"), ACCENT), (" = " + span, BOLD)]))
    return join(lines)


def decisions(plan: Plan) -> Content:
    lines: list[Content] = []
    for item in plan.decisions:
        if item.value is None and not item.reason:
            continue
        name = item.flag or item.key
        value = text.value_text(item.value) if item.value is not None else _("left out")
        lines.append(
            content([(name, ACCENT), (" = " + value, BOLD), (f"  [{text.source_word(item.source)}]", DIM), ("\n  " + item.reason if item.reason else "", DIM)])
        )
    return join(lines)


def environment(env: Mapping[str, str]) -> Content:
    return join([content([(f"{name}={shlex.quote(value)}", TEXT)]) for name, value in sorted(env.items())])
