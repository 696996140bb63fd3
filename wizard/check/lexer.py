"""Take a command apart as a shell would, from text as people paste it, keeping where every word stands.

Nothing is cleaned beforehand: smart quotes, long dashes, Chinese punctuation glued to a word, prompts, broken
line continuations are met where they stand, so that a repair can change exactly those characters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

MAX_LENGTH = 100_000  # characters of one command
MAX_WORDS = 4000
DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_LONG_DASHES = "\u2014\u2015\ufe58"
_OPENING = {
    "'": "'", '"': '"', "\u201c": "\u201d\u201c\u201f\"", "\u201d": "\u201d\u201c", "\u201e": "\u201c\u201d", "\u201f": "\u201d",
    "\u2018": "\u2019\u2018'", "\u2019": "\u2019\u2018", "\u201a": "\u2018\u2019", "\uff02": "\uff02", "\uff07": "\uff07",
    "\u300c": "\u300d", "\u00ab": "\u00bb",
}  # fmt: skip
_SMART = frozenset(k for k in _OPENING if k not in "'\"")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad"
_BLANKS = " \t\u00a0\u3000\u2002\u2003\u2009\u202f"
# Ends a command that stands in running text.
_SENTENCE_END = frozenset("\u3002\uff0c\uff1b\uff1a\uff01\uff1f\u3001\uff08\uff09\u300a\u300b\u3010\u3011\u300d\u300f\u2026\uff5e\u2192")
_PROMPT = re.compile(
    r"[ \t]*(?:\((?:[\w .-]+)\)[ \t]*)?(?:[\w.-]+@[\w.-]+:[^\n$#]*[$#]|PS [^\n>]*>|[$%>\u276f\u279c])[ \t]+"
)
_FLAG = re.compile(r"-{1,2}[A-Za-z][A-Za-z0-9_.+-]*")
ANY_SHELL = "\\`^"  # what makes a line go on in the next: for sh, PowerShell, cmd


_MANY = re.compile(r"\$(?:[@*]|\{(?:[@*].*|\w+\[[@*]\].*)\})", re.S)


@dataclass(frozen=True)
class Origin:
    """From which character of a text on it comes from a variable that the script sets in that line."""

    at: int
    name: str
    line: int


@dataclass(frozen=True)
class Word:
    """One word of a command: what the program gets, what stands there, and where."""

    text: str
    raw: str
    start: int
    end: int
    quoted: bool = False  # some of it stood in quotes
    dynamic: bool = False  # the shell puts something in: $NAME, $(...), `...`
    before: str = ""  # the text with its variables, where the text itself has the values that the script sets
    origin: tuple[Origin, ...] = ()  # of a text with values: what was set where, in order

    @property
    def opaque(self) -> bool:
        """Whether nobody knows here how many words this becomes: "$@", an array that is not set here."""
        return self.dynamic and bool(_MANY.fullmatch(self.text))


@dataclass(frozen=True)
class Slip:
    """A fault of the way the command is written."""

    kind: str  # "smart_quote" "dash" "glued_text" "continuation_space" "comment_inside" "half_quote" "no_continuation"
    at: int
    text: str = ""


@dataclass
class Lexed:
    words: list[Word] = field(default_factory=list)
    slips: list[Slip] = field(default_factory=list)
    end: int = 0  # where the command ends
    separator: str = ""  # what ended it


def lex(text: str, start: int, *, script: bool, closing: str = "", marks: str = "") -> Lexed:
    """Words from ``start`` to the end of that command.

    ``script``: a file that a shell runs, where a line end is a line end; else pasted text, where a following
    line that begins with a dash goes on with the command. ``closing``: the quote that the command stands in.
    ``marks``: the characters that make a line go on in the next one; without them, those that such a text has.
    """
    marks = marks or ("\\" if script else ANY_SHELL)
    out = Lexed()
    at = start
    size = min(len(text), start + MAX_LENGTH)
    while at < size and len(out.words) < MAX_WORDS:
        character = text[at]
        if character in _BLANKS or character in _INVISIBLE:
            at += 1
            continue
        if character in marks and _line_ends_after(text, at):
            rest = _line_end(text, at + 1)
            if (script or character == "\\") and text[at + 1 : rest].strip("\r"):
                out.slips.append(Slip("continuation_space", at, character))
            at = _after_prompt(text, rest + 1, script)
            continue
        if character in "\r\n":
            following = _goes_on(text, at, script)
            if following is None:
                break
            if out.words:
                out.slips.append(Slip("no_continuation", at))
            at = following
            continue
        if closing and character in closing:
            out.separator = character
            break
        if character == "#" and (at == start or text[at - 1] in _BLANKS + "\n"):
            line_end = _line_end(text, at)
            following = _continued_comment(text, at, line_end, script)
            if following is None:
                break
            out.slips.append(Slip("comment_inside", at, text[at:line_end].strip()))
            at = following
            continue
        if character in ";&|<>(){}" and not _is_json_start(text, at, out):
            if character in "<>" and out.words and out.words[-1].end == at and out.words[-1].raw.isdigit():
                out.words.pop()  # the 2 of 2>&1
            out.separator = character
            break
        if character == "`":
            out.separator = character
            break
        if _ends_sentence(character):
            out.slips.append(Slip("glued_text", at, text[at : _line_end(text, at)][:40]))
            break
        word, stop, cut = _word(text, at, closing, out, marks)
        if word is None:
            break
        out.words.append(word)
        at = stop
        if cut:
            out.slips.append(Slip("glued_text", stop, text[stop : _line_end(text, stop)][:40]))
            break
    out.end = out.words[-1].end if out.words else start
    return out


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _line_ends_after(text: str, at: int) -> bool:
    return not text[at + 1 : _line_end(text, at)].strip(_BLANKS + "\r") and _line_end(text, at) < len(text)


def _after_prompt(text: str, at: int, script: bool) -> int:
    """Past a continuation prompt ("> ") of a pasted session."""
    if script:
        return at
    found = re.compile(r"[ \t]*>[ \t]+").match(text, at)
    return found.end() if found else at


def _goes_on(text: str, at: int, script: bool) -> int | None:
    """Where a pasted command goes on after a line end without a backslash, or None."""
    if script:
        return None
    following = re.compile(r"[\s\u3000\u00a0]*").match(text, at)
    position = following.end() if following else at
    if text.count("\n", at, position) > 2:
        return None
    found = re.compile(rf"[{DASHES}]{{1,2}}[A-Za-z][\w.-]*").match(text, position)
    return position if found else None


def _continued_comment(text: str, at: int, line_end: int, script: bool) -> int | None:
    """A comment line inside a continued command: the shell would end the command here."""
    line_start = text.rfind("\n", 0, at) + 1
    if text[line_start:at].strip():
        return _goes_on(text, line_end, script)
    following = line_end + 1
    found = re.compile(rf"[\s]*[{DASHES}]{{1,2}}[A-Za-z]").match(text, following)
    return following if found else None


def _is_json_start(text: str, at: int, out: Lexed) -> bool:
    return text[at] == "{" and bool(out.words) and bool(re.match(r"\{\s*[\"'\u201c\u2018]", text[at : at + 8]))


def _ends_sentence(character: str) -> bool:
    if character in _SENTENCE_END:
        return True
    return ord(character) > 0x2190 and unicodedata.category(character) in ("So", "Sk", "Cs")


def _word(text: str, start: int, closing: str, out: Lexed, marks: str) -> tuple[Word | None, int, bool]:
    """(word, where it ends, whether running text is glued to it)."""
    pieces: list[str] = []
    at = start
    quoted = dynamic = cut = False
    is_flag = bool(re.match(rf"[{DASHES}]{{1,2}}[A-Za-z]", text[start : start + 4]))
    seen_equals = False
    depth = 0
    while at < len(text):
        character = text[at]
        if closing and character in closing and depth == 0:
            break
        if character in _INVISIBLE:
            at += 1
            continue
        if character in _BLANKS or character in "\r\n":
            break
        if character in _OPENING and not (character in "'\u2019" and pieces and pieces[-1][-1:].isalpha() and not seen_equals and not is_flag):
            stop, content, moving = _quoted(text, at, out)
            if stop is None:
                out.slips.append(Slip("half_quote", at))
                content, moving, stop = text[at + 1 : _line_end(text, at)], False, _line_end(text, at)
            if character in _SMART:
                out.slips.append(Slip("smart_quote", at, text[at:stop]))
            pieces.append(content)
            quoted, dynamic = True, dynamic or moving
            at = stop
            continue
        if character == "\\" and at + 1 < len(text):
            if text[at + 1] in "\r\n" or _line_ends_after(text, at):
                break
            if text[at + 1] in "\"'\\ $&|;<>(){}`!*?#\t" or not text[at + 1].isalnum():
                pieces.append(text[at + 1])
                at += 2
                continue
            pieces.append(character)  # C:\models: in pasted text the path is meant
            at += 1
            continue
        if character in marks and character != "\\" and pieces and _line_ends_after(text, at):
            break
        if character == "$" and at + 1 < len(text) and re.match(r"[A-Za-z_{(@*0-9]", text[at + 1]):
            stop = _substitution(text, at)
            pieces.append(text[at:stop])
            dynamic = True
            at = stop
            continue
        if character in "{[":
            depth += 1
        elif character in "}]":
            depth = max(0, depth - 1)
        elif character in ";&|<>()`" and depth == 0:
            break
        if _ends_sentence(character) or (is_flag and not seen_equals and ord(character) > 0x2E80):
            cut = True
            break
        if character == "=":
            seen_equals = True
        pieces.append(character)
        at += 1
    if at == start:
        return None, at, False
    plain = "".join(pieces)
    return Word(plain, text[start:at], start, at, quoted, dynamic), at, cut


def _quoted(text: str, at: int, out: Lexed) -> tuple[int | None, str, bool]:
    """(after the closing quote or None, content, whether the shell puts something in)."""
    opening = text[at]
    ends = _OPENING[opening]
    if opening in _SMART:  # plain quotes inside smart ones belong to the content where a smart one closes
        line = text[at + 1 : _line_end(text, at)]
        ends = next((e for e in ends if e in line), ends)
    pieces: list[str] = []
    position = at + 1
    while position < len(text):
        character = text[position]
        if character in ends:
            content = "".join(pieces)
            moving = opening != "'" and bool(re.search(r"\$[A-Za-z_{(@*0-9]", text[at:position].replace("\\$", "")))
            return position + 1, content, moving
        if character == "\\" and opening == '"' and position + 1 < len(text) and text[position + 1] in '"\\$`\n':
            if text[position + 1] != "\n":
                pieces.append(text[position + 1])
            position += 2
            continue
        pieces.append(character)
        position += 1
    return None, "", False


def _substitution(text: str, at: int) -> int:
    """The end of $NAME, ${...} or $(...)."""
    opening = text[at + 1]
    if opening in "{(":
        closing = "}" if opening == "{" else ")"
        depth = 0
        for position in range(at + 1, len(text)):
            if text[position] == opening:
                depth += 1
            elif text[position] == closing:
                depth -= 1
                if depth == 0:
                    return position + 1
            elif text[position] == "\n":
                return position
        return len(text)
    found = re.compile(r"\$(?:[A-Za-z_]\w*|[@*0-9])").match(text, at)
    return found.end() if found else at + 1


def straighten(word: str) -> tuple[str, bool]:
    """A word with long dashes at its start made plain (``—port`` -> ``--port``), and whether that was needed."""
    run = re.match(rf"[{DASHES}]+", word)
    if run is None or set(run.group()) == {"-"}:
        return word, False
    rest = word[run.end() :]
    if not rest[:1].isalpha():
        return "-" * len(run.group()) + rest, True
    count = sum(2 if c in _LONG_DASHES else 1 for c in run.group())
    if len(re.split(r"[=.]", rest)[0]) > 3:  # en dash or minus sign: one of "--" or of "-"; long names have two
        count = 2
    return "-" * min(count, 2) + rest, True


def prompt_end(text: str, line_start: int) -> int:
    """Past the shell prompt at the start of a line, if there is one."""
    found = _PROMPT.match(text, line_start)
    return found.end() if found else line_start


__all__ = ["ANY_SHELL", "Lexed", "Origin", "Slip", "Word", "lex", "prompt_end", "straighten"]
