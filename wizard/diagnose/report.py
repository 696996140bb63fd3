"""A diagnosis as text for people, and as a redacted report for an issue."""

from __future__ import annotations

from wizard import columns
from wizard.diagnose.engine import STAGE_TEXTS, Diagnosis, Finding, Fix
from wizard.diagnose.lines import without_colours
from wizard.i18n import N_, _, labelled, sentences

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wizard.diagnose.reader import NumberedLines

WIDTH = 96
_SURE = {"high": N_("certain"), "medium": N_("likely"), "low": N_("a guess")}
_AROUND = 12


def sure_word(confidence: str) -> str:
    """How sure a finding is, as a word that is still to be translated."""
    return _SURE[confidence]


CUT = N_("The compressed log is cut or damaged: only what could be unpacked was looked at, and its end may hold more.")


def no_error_words(diagnosis: Diagnosis) -> str:
    """What is said of a log with lines, without an error and without a server that came up."""
    if diagnosis.cut:
        return sentences(_("What there is of the log holds no error."), _(CUT))
    return _("The log holds no error, and does not show that the server came up: it may still be starting.")


def as_text(diagnosis: Diagnosis) -> list[str]:
    """The lines that are printed."""
    out = columns.wrap(_head(diagnosis), columns.of_prose(WIDTH), "", "  ")
    if not diagnosis.findings:
        out += ["", _("No failure found.")]
        if diagnosis.ready:
            out.append(_("The server came up."))
        elif diagnosis.lines:
            out += _wrap(no_error_words(diagnosis), "")
        return out
    if diagnosis.cut:
        out += ["", *_wrap(_(CUT), "")]
    for number, finding in enumerate(diagnosis.findings):
        out += ["", *_finding(finding, first=number == 0)]
    return out


def _head(diagnosis: Diagnosis) -> str:
    model = _("model {model}").format(model=diagnosis.model) if diagnosis.model else ""
    return printable(" · ".join(head_parts(diagnosis, model)))


def head_parts(diagnosis: Diagnosis, model: str) -> list[str]:
    """Release, ``model`` as the face names it, GPU, stage and run, as far as the log tells them."""
    parts = [f"vLLM {diagnosis.release}" if diagnosis.release else _("vLLM, release unknown")]
    if model:
        parts.append(model)
    if diagnosis.gpu:
        parts.append(diagnosis.gpu)
    if diagnosis.stage:
        parts.append(_("came as far as: {stage}").format(stage=_(STAGE_TEXTS[diagnosis.stage])))
    if diagnosis.runs > 1:
        parts.append(_("run {number} of {count}").format(number=diagnosis.run, count=diagnosis.runs))
    return parts


def _finding(finding: Finding, first: bool) -> list[str]:
    label = _("Cause") if first else _("Also")
    out = _wrap(labelled(label, finding.title), "")
    out.append(f"  [{finding.cause}, {_(_SURE[finding.confidence])}]")
    if finding.line is not None:
        text = printable(finding.line.strip())
        shown = text if len(text) <= 400 else text[:400] + " ..."
        out += ["", _("Line {number}:").format(number=finding.line_number), *_wrap(shown, "  ")]
    out += ["", *_wrap(finding.explanation, "")]
    if finding.fixes:
        out += ["", _("What to do:")]
        for number, fix in enumerate(finding.fixes, 1):
            out += _fix(fix, number)
    if finding.look:
        out += ["", _("What to look at:"), *(line for text in finding.look for line in _bullet(text))]
    told = [e for e in finding.evidence if e not in (finding.line or "")]
    if told:
        out += ["", _("Evidence:"), *(line for text in told for line in _bullet(printable(text)))]
    return out


def _fix(fix: Fix, number: int) -> list[str]:
    first, *more = _wrap(fix.summary, "     ")
    return [f"  {number}. {first.strip()}", *more, *(f"       {line}" for line in details(fix))]


def details(fix: Fix) -> list[str]:
    """What a fix changes, one line each: options, variables, files, commands."""
    out = []
    for flag, value in fix.flags.items():
        if value is None:
            out.append(_("without {flag}").format(flag=flag))
        else:
            out.append(flag if value is True else f"{flag} {value}")
    for name, text in fix.env.items():
        out.append(f"unset {name}" if text is None else f"export {name}={text}")
    for file in fix.files:
        section = f" [{file['section']}]" if file.get("section") else ""
        setting = f" {file['key']} = {file.get('value', '...')}" if file.get("key") else f" {file.get('text', '')}"
        out.append(f"{file.get('path', '')}{section}{setting}")
    out += [f"$ {command}" for command in fix.commands]
    return out


def _bullet(text: str) -> list[str]:
    first, *more = _wrap(text, "    ")
    return [f"  - {first.strip()}", *more]


def _wrap(text: str, indent: str) -> list[str]:
    return columns.wrap(text, columns.of_prose(WIDTH), indent, indent) or [indent]


def printable(text: str) -> str:
    """What a log holds, without anything that a terminal would obey."""
    return "".join(c if c >= " " and c != "\x7f" and not "\x80" <= c <= "\x9f" else " " for c in without_colours(text))


def as_report(diagnosis: Diagnosis, lines: NumberedLines) -> str:
    """Markdown to take to an issue: what is known, and the lines around the root; names and secrets taken out."""
    import os
    from pathlib import Path

    from wizard.scrub import Scrubber

    out = [f"- vLLM: {diagnosis.release or '?'}", f"- model: {diagnosis.model or '?'}", f"- GPU: {diagnosis.gpu or '?'}"]
    out.append(f"- stage reached: {diagnosis.stage or '?'}")
    if diagnosis.command:
        out.append(f"- command: `{diagnosis.command}`")
    for finding in diagnosis.findings:
        out += ["", f"**{finding.cause}** ({_SURE[finding.confidence]}): {finding.title}"]
        if finding.line_number is not None:
            out += ["```text", *_around(lines, finding.line_number), "```"]
    if diagnosis.chains:
        out += ["", "Errors in order:", "```text"]
        out += [f"{row['line_number']}: {row['text']}" for row in diagnosis.chains[:15]]
        out.append("```")
    text = printable_lines("\n".join(out))
    scrubber = Scrubber(home=str(Path.home()), env=dict(os.environ))
    return scrubber.text(text) + "\n"


def _around(lines: NumberedLines, number: int) -> list[str]:
    import bisect

    at = bisect.bisect_left(lines.numbers, number)
    return [line[:2000] for line in lines.lines[max(0, at - _AROUND) : at + _AROUND + 1]]


def printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))
