"""Options that a text gives without a command: alone, or as advice beside the command that it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wizard import releases
from wizard.i18n import _, sentence, sentences, stopped
from wizard.releases.parse import Argument, nearest_flag, normal_spelling, unknown_flag
from wizard.releases.types import Release

from . import history
from .extract import Command, fix_dashes
from .lexer import DASHES, Word, lex, prompt_end, straighten

_LINE = re.compile(r"[^\n]+")
_OPTION = re.compile(rf"[ \t]*[{DASHES}]{{1,2}}[A-Za-z]")
_MOST_LINES = 200  # of options: a longer list is nobody's command
# In running text: behind the start of a line, an opening quote or a character that is no word's. What follows the word
# of another program ("wsl --shutdown") is that program's.
_ADVICE = re.compile(r"(?:^[ \t]*|[^\x00-\x7f][ \t]*|[`\"'(])(--[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+)(?![\w.-])", re.M)


def options_alone(text: str) -> Command | None:
    """The options of a text that holds no command, as those of a command without a model; None where it gives none.

    Where every line begins with an option, all are taken; between other lines only those that vLLM has or had, or
    that are often taken for its own.
    """
    starts = [(prompt_end(text, m.start()), m.group()) for m in _LINE.finditer(text) if m.group().strip()]
    given = {at for at, _line in starts if _OPTION.match(text, at)}
    if len(given) > _MOST_LINES:
        return None
    only_options = len(given) == len(starts)
    words: list[Word] = []
    continued = False  # a line of another program's command, which goes on
    for at, line in starts:
        inside = bool(words) and at < words[-1].end
        if not inside and at in given and not continued:
            found = lex(text, at, script=False).words
            if found and (only_options or _is_known(straighten(found[0].text)[0])):
                words += found
                inside = True
        continued = not inside and line.rstrip().endswith("\\")
    if not words:
        return None
    command = Command("options", words, "api_server", source=text, start=words[0].start, end=words[-1].end)
    fix_dashes(command)
    return command if any(_is_known(w) or (only_options and w.startswith("--")) for w in command.argv) else None


def _is_known(word: str) -> bool:
    """Whether some release takes an option, or it is known for what vLLM has in its place."""
    if not word.startswith("-"):
        return False
    flag = normal_spelling(word.partition("=")[0])
    return bool(releases.flag_spans(flag)) or history.entry_for(flag) is not None or nearest_flag(flag, releases.load()) is not None


def untrue_beside(text: str, commands: Sequence[Command], release: Release) -> list[str]:
    """What to say of options that the text advises outside of its commands, and that the release does not have: only
    those that were removed, or that are known never to have been there."""
    told: dict[str, str] = {}
    inside = {normal_spelling(w.text.partition("=")[0]) for c in commands for w in c.words}
    for flag in _outside(text, commands):
        entry = history.entry_for(flag)
        if flag in inside or flag in told or entry is None or release.option(flag) is not None:
            continue
        problem = unknown_flag(Argument((flag,), flag, None, "unknown", ()), release)
        if problem.kind == "not_yet":
            continue
        never = _("no vLLM release has {flag}").format(flag=flag)
        what = problem.message if problem.kind == "removed" else never
        told[flag] = sentences(
            _("The text also names {flag} outside of the command.").format(flag=flag), stopped(sentence(what)), _(entry["note"])
        )
    return list(told.values())


def _outside(text: str, commands: Sequence[Command]) -> Iterator[str]:
    for match in _ADVICE.finditer(text):
        at = match.start(1)
        if any(c.start <= at < c.end for c in commands) or _goes_on_from_another(text, at):
            continue
        yield normal_spelling(match.group(1))
        # What stands behind it on the same line: --gpu-memory-utilization 0.6 --swap-space 4
        end = text.find("\n", at)
        for word in lex(text[at : end if end >= 0 else None], 0, script=True).words[1:]:
            if word.text.startswith("--"):
                yield normal_spelling(word.text.partition("=")[0])


def _goes_on_from_another(text: str, at: int) -> bool:
    """Whether the line before ends with a backslash, and so the option belongs to its command."""
    line_start = text.rfind("\n", 0, at) + 1
    before = text[text.rfind("\n", 0, max(0, line_start - 1)) + 1 : line_start]
    return before.rstrip().endswith("\\") and not text[line_start:at].strip()
