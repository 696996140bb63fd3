"""What the walk says, as styled text: pure functions from plan and facts to :class:`textual.content.Content`.

Every style is one of the names in ``look.py``; what a colour says, a word or a glyph says as well.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from textual.content import Content

from wizard.faces.tui import linebreaks
from wizard.faces.tui.look import Glyphs
from wizard.facts import Problem, Severity
from wizard.i18n import N_, _, clauses, sentence, sentences

if TYPE_CHECKING:
    from wizard.fit_types import FitResult
    from wizard.outputs.spec import FileSpec
    from wizard.plan_types import Plan
    from wizard.plan_types import Step as TypeNext

linebreaks.install()

Part = tuple[str, str]  # text, style
TEXT, DIM, BOLD = "$wz-text", "$wz-dim", "bold $wz-text"
ACCENT, OK, WARN, BAD = "$wz-accent", "$wz-ok", "$wz-warn", "$wz-bad"
GIB = 1024**3
PLAIN = ""


_SELECTORS = dict.fromkeys((0xFE0E, 0xFE0F))


def with_newlines(given: str) -> str:
    """What a terminal gives as a paste: its line ends come as carriage returns, which a shell would not take for ends."""
    return given.replace("\r\n", "\n").replace("\r", "\n")


def one_width(text: str) -> str:
    """``text`` without variation selectors: terminals do not agree how wide a character before one is, and a frame
    beside it would be shifted."""
    return text.translate(_SELECTORS)


def content(parts: Iterable[Part]) -> Content:
    return Content.assemble(*[(one_width(text), style) if style else one_width(text) for text, style in parts])


def join(lines: Iterable[Content]) -> Content:
    return Content("\n").join(lines)


def gib(size_bytes: float | None) -> str:
    """Bytes for people; "unknown" is said, never shown as 0."""
    if size_bytes is None:
        return _("unknown size")
    if size_bytes >= 1000 * GIB:
        return _("{tib:.1f} TiB").format(tib=size_bytes / 1024 / GIB)
    if size_bytes >= 0.95 * GIB / 10:
        return _("{gib:.1f} GiB").format(gib=size_bytes / GIB)
    return _("{mib:.0f} MiB").format(mib=size_bytes / 1024**2)


def duration(seconds: float | None) -> str:
    """A length of time for people."""
    if seconds is None:
        return _("unknown")
    whole = max(0, int(seconds + 0.5))
    if whole < 60:
        return _("{s} s").format(s=whole)
    if whole < 3600:
        return _("{m} min {s:02d} s").format(m=whole // 60, s=whole % 60)
    return _("{h} h {m:02d} min").format(h=whole // 3600, m=whole % 3600 // 60)


def clip(text: str, width: int, ellipsis: str = "…") -> str:
    """``text`` in at most ``width`` cells, with an ellipsis where it was cut; wide characters count two."""
    text = " ".join(one_width(text).split())
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return ellipsis[:width]
    return set_cell_size(text, width - 1).rstrip() + ellipsis


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """The same, up to the end of a part of the sentence where one is in reach: "does not fit" of "does not fit: why"."""
    part = whole_part(text, width)
    return clip(" ".join(one_width(text).split()), width, ellipsis) if part is None else part


def whole_part(text: str, width: int) -> str | None:
    """``text``, or its longest first part that makes sense alone, in at most ``width`` cells; None where none does."""
    whole = " ".join(one_width(text).split())
    if cell_len(whole) <= width:
        return whole
    for ends in (r"[:;](?=\s|$)|[：；]", r",(?=\s|$)|，"):
        at = [m.start() for m in re.finditer(ends, whole) if max(4, width // 5) <= cell_len(whole[: m.start()]) <= width]
        if at:
            return whole[: at[-1]]
    return None


def clip_left(text: str, width: int, ellipsis: str = "…") -> str:
    """The same, keeping the end: for paths."""
    text = one_width(text)
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return ellipsis + text


_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])\d+(?:\.\d+)?[Bb](?:-A\d+(?:\.\d+)?[Bb])?(?![A-Za-z0-9])")


def clip_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """The same, keeping both ends: for model names, whose end tells variants apart; how many billions of parameters
    it has is kept as well where there is room."""
    text = one_width(text)
    if cell_len(text) <= width or width < 8:
        return clip(text, width, ellipsis)
    room = (width - 1) * 2 // 5
    size = _BILLIONS.search(text)
    if size is not None and width - 1 - room < size.end() <= width - 4:
        room = width - 1 - size.end()
    tail = text[-room:]
    while cell_len(tail) > room:
        tail = tail[1:]
    return set_cell_size(text, width - 1 - room).rstrip() + ellipsis + tail


def pad(text: str, width: int, ellipsis: str = "…") -> str:
    """``text`` in exactly ``width`` cells."""
    return set_cell_size(clip(text, width, ellipsis), width)


# -- problems ---------------------------------------------------------------------------------------------------

_SEVERITY = {
    Severity.BLOCKER: (N_("Blocker"), BAD),
    Severity.WARNING: (N_("Warning"), WARN),
    Severity.INFO: (N_("Note"), ACCENT),
}
_WHERE = {
    "linux": N_("Type here, in Linux:"),
    "linux-new": N_("Type in a new Linux terminal:"),
    "powershell": N_("Type in PowerShell, on Windows:"),
    "powershell-admin": N_("Type in PowerShell as administrator, on Windows:"),
}
_ORDER = (Severity.BLOCKER, Severity.WARNING, Severity.INFO)


def where_text(where: str) -> str:
    return _(_WHERE.get(where, _WHERE["linux"]))


def severity_glyph(severity: Severity, glyphs: Glyphs) -> str:
    return {Severity.BLOCKER: glyphs.blocked, Severity.WARNING: glyphs.attention}.get(severity, glyphs.bullet)


def problem(item: Problem, glyphs: Glyphs, width: int) -> Content:
    """One problem: the severity as a word, what it is, and the commands that cure it, exactly."""
    word, style = _SEVERITY[item.severity]
    head: list[Part] = [(f"{severity_glyph(item.severity, glyphs)} {_(word)}  ", f"bold {style}"), (item.title, BOLD)]
    lines = [content(head)]
    lines += wrapped(item.detail, width, 2, DIM)
    if item.commands:
        lines += wrapped(where_text(item.where), width, 2, TEXT)
        joiner = " `" if item.where.startswith("powershell") else " \\"
        lines += [typed(line, width, 4, joiner, ACCENT) for command in item.commands for line in command.splitlines()]
    if item.link:
        lines.append(hanging("  " + _("More: {link}").format(link=item.link), width, 6, DIM))
    return join(lines)


def by_severity(items: Iterable[Problem]) -> list[Problem]:
    return sorted(items, key=lambda p: _ORDER.index(p.severity))


def problems(items: Iterable[Problem], glyphs: Glyphs, width: int) -> Content:
    return Content("\n\n").join([problem(p, glyphs, width) for p in by_severity(items)])


# -- memory -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BarPart:
    label: str
    size_bytes: float
    glyph: str
    style: str


def memory_parts(fit: FitResult, total_bytes: int, glyphs: Glyphs) -> list[BarPart]:
    """The parts of one GPU's memory, in the order drawn; they add up to ``total_bytes``."""
    processes = sum(line.bytes for line in fit.lines if line.key == "processes")
    rest = fit.activation_bytes + fit.non_torch_bytes + fit.cuda_graph_bytes + fit.lora_bytes + fit.draft_bytes + processes
    kv = max(0.0, fit.kv_cache_bytes.best)
    others = sum(line.bytes for line in fit.lines if line.key == "held_by_others")
    used = fit.weights_bytes + kv + rest + others
    return [
        BarPart(_("weights"), fit.weights_bytes, glyphs.weights, "$wz-weights"),
        BarPart(_("KV cache"), kv, glyphs.kv_cache, "$wz-kv"),
        BarPart(_("rest"), rest, glyphs.rest, "$wz-rest"),
        BarPart(_("others"), others, glyphs.others, "$wz-others"),
        BarPart(_("free"), max(0.0, total_bytes - used), glyphs.free, DIM),
    ]


def shares(sizes: Sequence[float], cells: int) -> list[int]:
    """``cells`` split in proportion to ``sizes`` (largest remainder; anything above zero gets a cell)."""
    total = sum(sizes)
    if total <= 0 or cells <= 0:
        return [0] * len(sizes)
    exact = [size / total * cells for size in sizes]
    counts = [max(int(x), 1 if x > 0 else 0) for x in exact]
    while sum(counts) > cells:
        # A part that has only one cell keeps it, as long as there is another to take from.
        counts[max(range(len(counts)), key=lambda i: (counts[i] > 1, counts[i] - exact[i], counts[i]))] -= 1
    while sum(counts) < cells:
        counts[max(range(len(counts)), key=lambda i: exact[i] - counts[i])] += 1
    return counts


def memory_bar(plan: Plan, glyphs: Glyphs, width: int) -> Content:
    """The memory bar with its legend and what it means, or why there is none."""
    fit = plan.fit
    if fit is None or not fit.weights_known:
        return Content.styled(
            _("The memory cannot be computed yet: {why}").format(why=_why_no_fit(plan)), DIM
        )
    total = gpu_total(plan)
    if total is None:
        total = max(fit.budget_bytes, 1)
    parts = memory_parts(fit, total, glyphs)
    counts = shares([p.size_bytes for p in parts], max(10, width))
    lines = [content([(p.glyph * n, p.style) for p, n in zip(parts, counts, strict=True)])]
    size_width = max(9, 1 + max(cell_len(gib(p.size_bytes)) for p in parts))
    entry_width = max(cell_len(p.label) for p in parts) + size_width + 4  # glyph, label, size, gap
    columns = max(1, min(5, (width + 2) // entry_width))
    shown = [p for p in parts if p.size_bytes > 0 or p.glyph in (glyphs.weights, glyphs.kv_cache)]
    for start in range(0, len(shown), columns):
        row: list[Part] = []
        for part in shown[start : start + columns]:
            row.append((part.glyph + " ", part.style))
            row.append((pad(part.label, entry_width - size_width - 4), TEXT))
            row.append((f"{gib(part.size_bytes) if part.size_bytes > 0 else _('none'):>{size_width}}  ", TEXT))
        lines.append(content(row).rstrip())
    lines.append(Content.styled(_memory_sentence(plan, fit), DIM if fit.fits else WARN))
    return join(lines)


def _why_no_fit(plan: Plan) -> str:
    if plan.model is None:
        return _("no model is chosen.")
    if any(b.code == "no_release" for b in plan.blockers):
        return _("no vLLM release serves this model on this machine.")
    if plan.model.weight_bytes is None:
        return _("the size of this model is not known.")
    return _("this machine's GPU memory is not known.")


def gpu_total(plan: Plan) -> int | None:
    """The total memory of the smallest GPU in use, or the machine's RAM for the CPU backend; bytes."""
    if plan.device == "cpu":
        return plan.machine.memory.total_bytes.value
    used = [g for g in plan.machine.gpu.gpus if not plan.gpus or g.index in plan.gpus]
    sizes = [g.vram_total_bytes.value for g in used if g.vram_total_bytes.value is not None]
    return min(sizes) if sizes else None


def _memory_sentence(plan: Plan, fit: FitResult) -> str:
    if fit.problems and not fit.fits:
        return sentence(clauses(fit.problems))
    if fit.kv_cache_tokens.best <= 0:
        return ""
    text = _("The KV cache holds about {tokens:,} tokens").format(tokens=int(fit.kv_cache_tokens.best))
    if fit.max_model_len and fit.concurrency:
        text += _(": {n:.1f} requests of {length:,}").format(n=fit.concurrency, length=fit.max_model_len)
    slow = _("{gib} GiB of the weights stay in RAM: answers come much slower.").format(gib=plan.offload_gib) if plan.offload_gib else ""
    return sentences(sentence(text), slow)


# -- command ----------------------------------------------------------------------------------------------------


def command_lines(argv: Sequence[str], quote: Callable[[str], str] = shlex.quote) -> list[str]:
    """``vllm serve MODEL`` and one line for each flag with its values, quoted as a shell reads them."""
    if not argv:
        return []
    lines = ["vllm serve " + quote(argv[0])]
    for word in argv[1:]:
        if word.startswith("--") or (word.startswith("-") and not word[1:2].isdigit() and len(word) > 1):
            lines.append("  " + quote(word))
        else:
            lines[-1] += " " + quote(word)
    return lines


def changed_lines(before: Sequence[str], now: Sequence[str]) -> list[tuple[str, str]]:
    """(mark, line): "+" for a line that is new or changed since ``before``, "-" for a flag that went, else " ".

    Another model is another command: then nothing is marked.
    """
    if not before or not now or before[0] != now[0]:
        return [(" ", line) for line in now]
    held = set(before)
    result = [(" " if line in held else "+", line) for line in now]
    flags = {line.split()[0] for line in now[1:]}
    gone = [line for line in before[1:] if line.split()[0] not in flags]
    return [*result, *(("-", line) for line in gone)]


def hanging(line: str, width: int, indent: int, style: str) -> Content:
    """``line`` folded to ``width``, what follows the first line indented by ``indent``."""
    line = one_width(line)
    if cell_len(line) <= width:
        return Content.styled(line, style)
    lead = len(line) - len(line.lstrip())
    folded: list[str] = []
    current = line[:lead]
    empty = True
    for word in line[lead:].split():
        room = max(4, width)
        joined = current + ("" if empty else " ") + word
        if cell_len(joined) <= room:
            current, empty = joined, False
            continue
        if not empty:
            folded.append(current)
            current = " " * indent
        rest = word
        while cell_len(current + rest) > room:
            head = _break(rest, max(1, room - cell_len(current)))
            folded.append(current + head)
            current, rest = " " * indent, rest[len(head) :]
        current, empty = current + rest, False
    folded.append(current)
    return join([Content.styled(part, style) for part in folded])


def _break(word: str, room: int) -> str:
    """The first part of a word that is too long for its line: up to a separator, where one lies far enough."""
    head = set_cell_size(word, room).rstrip() or word[:1]
    head = head if word.startswith(head) else word[: max(1, len(head) - 1)]
    for separators in ("/,", "=:.-_"):
        at = max(head.rfind(c) for c in separators)
        if at > 0 and at + 1 >= len(head) // 3:
            return head[: at + 1]
    return head


# -- files and diffs --------------------------------------------------------------------------------------------


def diff_content(text: str, width: int = 0) -> Content:
    """A unified diff: additions and removals by sign first, colour second."""
    lines: list[Content] = []
    for line in one_width(text).splitlines():
        style = TEXT
        if line.startswith(("+++", "---")):
            style = BOLD
        elif line.startswith("@@"):
            style = ACCENT
        elif line.startswith("+"):
            style = OK
        elif line.startswith("-"):
            style = BAD
        lines.append(Content.styled(line.expandtabs(4), style))
    return join(lines)


def file_names(files: Iterable[FileSpec]) -> list[str]:
    return [f.path for f in files]


# -- what to type next ------------------------------------------------------------------------------------------


def wrapped(text: str, width: int, indent: int, style: str) -> list[Content]:
    """``text`` in lines of at most ``width`` cells, each indented."""
    if not text:
        return []
    room = max(8, width - indent)
    return [Content(" " * indent) + line for line in Content.styled(one_width(text), style).wrap(room)]


def typed(line: str, width: int, indent: int, joiner: str, style: str) -> Content:
    """A command to type, in lines that a shell reads as one when they are copied, with ``joiner`` (the shell's mark of
    a line that goes on) at the end of each. In a Linux shell a word that is too long for a line is broken as well, and
    goes on at the edge; PowerShell knows no such mark, and leaves it to the terminal to fold."""
    line = one_width(line)
    if cell_len(line) <= width - indent:
        return Content.styled(" " * indent + line, style)
    words = _shell_words(line)
    for lead in (indent, 0):
        if all(cell_len(word) + 2 + lead <= width - len(joiner) for word in words):
            return join([Content.styled(part, style) for part in _folded(words, width, lead, joiner)])
    if joiner.strip() == "\\":
        return join([Content.styled(part, style) for part in _folded(words, width, indent, joiner)])
    return Content.styled(line, style)


def _folded(words: Sequence[str], width: int, lead: int, joiner: str) -> list[str]:
    """The words in lines of at most ``width``, all but the last with ``joiner`` at their end."""
    lines = [" " * lead]
    empty = True
    room = width - len(joiner)
    deeper = " " * (lead + 2 if lead else 0)
    for word in words:
        if not empty and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += " " + word
            continue
        if not empty:
            lines[-1] += joiner
            lines.append(deeper)
        chunks = _chunks(word, width, room - len(lines[-1]))
        lines[-1] += chunks[0]
        lines += chunks[1:]
        empty = False
    return lines


def _chunks(word: str, width: int, first_room: int) -> list[str]:
    """A word of a shell in pieces that the shell puts together again: each but the last ends with a backslash, and the
    next begins at the edge. Within single quotes, where a backslash is only a character, they are closed and opened."""
    chunks: list[str] = []
    prefix, room = "", first_room
    while cell_len(prefix + word) > room:
        limit = max(4, room - 2 - len(prefix))
        places = [(at, single) for at, single in _places(prefix + word) if len(prefix) < at <= limit + len(prefix)]
        if not places:
            break
        whole = prefix + word
        good = [(at, single) for at, single in places if whole[at - 1] in "/,=:; " and at > limit // 2]
        at, single = (good or places)[-1]
        chunks.append(whole[:at] + ("'\\" if single else "\\"))
        prefix, word, room = "'" if single else "", whole[at:], width - 2
    return [*chunks, prefix + word]


def _places(word: str) -> list[tuple[int, bool]]:
    """Where a word may be broken: (offset, whether within single quotes)."""
    places: list[tuple[int, bool]] = []
    inside: list[str] = []
    escaped = False
    for at, char in enumerate(word):
        top = inside[-1] if inside else ""
        name = re.search(r"\$[\w({]*$", word[:at])
        if at and not escaped and (top == "'" or name is None):
            places.append((at, top == "'"))
        if escaped:
            escaped = False
        elif top == "'":
            if char == "'":
                inside.pop()
        elif char == "\\":
            escaped = True
        elif char == '"':
            if top == '"':
                inside.pop()
            else:
                inside.append('"')
        elif char == "'" and top != '"':
            inside.append("'")
        elif char == "(" and word[at - 1 : at] == "$":
            inside.append("(")
        elif char == ")" and top == "(":
            inside.pop()
    return places


def _shell_words(line: str) -> list[str]:
    """``line`` split at its blanks outside of quotes; joined by blanks, they are the line again."""
    words, quote = [""], ""
    for char in line:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == " " and words[-1]:
            words.append("")
            continue
        words[-1] += char
    return [word for word in words if word]


def next_steps(steps: Sequence[TypeNext], width: int) -> Content:
    """What to type, in order, with what each does."""
    blocks: list[Content] = []
    for number, item in enumerate(steps, 1):
        lines = [content([(f"{number}. ", f"bold {ACCENT}"), (item.title, BOLD)])]
        if item.commands and item.where != "linux":
            lines += wrapped(where_text(item.where), width, 3, DIM)
        joiner = " `" if item.where.startswith("powershell") else " \\"
        lines += [typed(line, width, 5, joiner, ACCENT) for c in item.commands for line in c.splitlines()]
        # What ends running work is said in the colour of a warning.
        drastic = any("--shutdown" in c for c in item.commands)
        lines += wrapped(item.consequence, width, 3, WARN if drastic else DIM)
        blocks.append(join(lines))
    return Content("\n\n").join(blocks)


# -- values -----------------------------------------------------------------------------------------------------

_SOURCES = {
    "user": N_("You chose it here."),
    "cli": N_("Given on the command line."),
    "file": N_("From the answers file, or from your last walk."),
    "recipe": N_("From the model's recipe."),
    "detected": N_("Decided from what was found on this machine."),
    "default": N_("The default."),
}
_SOURCE_WORDS = {
    "user": N_("yours"),
    "cli": N_("command line"),
    "file": N_("kept answer"),
    "recipe": N_("recipe"),
    "detected": N_("detected"),
    "default": N_("default"),
}


def source_sentence(source: str) -> str:
    return _(_SOURCES.get(source, "")) if source in _SOURCES else source


def source_word(source: str) -> str:
    return _(_SOURCE_WORDS[source]) if source in _SOURCE_WORDS else source


def value_text(value: Any) -> str:
    """A value as it is shown and typed."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, tuple):
        return ", ".join(str(x) for x in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
