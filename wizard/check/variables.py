"""What a script sets before its command: the values of its variables, put together step by step as far as they are sure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .lexer import MAX_WORDS, Origin, Word, lex

LONGEST_VALUE = 8192  # characters that variables in variables may grow to
_DEEPEST = 50  # blocks in blocks that are told apart

_ASSIGN = re.compile(
    r"(?:^[ \t]*(?:[\w*?.|\"'-]{1,80}\)[ \t]*)?|(;;?|&&|\|\||\{|\b(?:then|else|do)\b)[ \t]*)"
    r"(export[ \t]+|declare[ \t]+(?:-\w+[ \t]+)*|readonly[ \t]+|local[ \t]+)?\b([A-Za-z_]\w*)(\+?)=",
    re.M,
)
_BLOCK_WORD = re.compile(r"(?<![\w$.\"'/=-])(?:(if|case|for|while|until|select)|(elif|else)|(fi|esac|done))(?![\w=.\"'/-])|(;;)")
_COMMAND_BEGINS = re.compile(r"(?:^|[;&|{(!]|\b(?:then|do|else|elif))[ \t]*$")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_NAMED = re.compile(r"\$\{?(\w+)")
_ONE_UNKNOWN = re.compile(r"\$(?:\w+|\{[^{}]*\}|\(.*\))", re.S)
_EXPORTED = ("VLLM_", "CUDA_", "NCCL_", "HF_")  # taken for exported wherever they are set


@dataclass
class Assigned:
    """What is known of a script's variables where its command stands."""

    values: dict[str, list[Word]] = field(default_factory=dict)  # a text: one word; an array: its words
    env: dict[str, str] = field(default_factory=dict)  # what is exported
    unread: dict[str, int] = field(default_factory=dict)  # the line that changes a variable in a way that is not followed
    uses: dict[str, set[str]] = field(default_factory=dict)  # the variables in a variable's value
    arrays: set[str] = field(default_factory=set)

    def not_followed(self, words: Iterable[Word]) -> dict[str, int]:
        """Of the variables that these words come from: those that are not followed in every step, with the line."""
        waiting = [name for w in words if w.dynamic for name in _NAMED.findall(w.text)]
        seen: dict[str, None] = {}
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen[name] = None
                waiting += self.uses.get(name, ())
        return {name: line for name, line in self.unread.items() if name in seen}


def assigned(before: str) -> Assigned:
    """The variables that a script sets in the text before its command."""
    out = Assigned()
    blocks = _Blocks(before)
    set_in: dict[str, tuple[int, ...]] = {}  # the blocks in which a variable got its value
    line, counted = 1, 0
    for match in _ASSIGN.finditer(before):
        separator, name, start = match[1], match[3], match.end()
        if separator is not None and _in_quotes(before, match.start()):
            continue
        line, counted = line + before.count("\n", counted, start), start
        is_array = before[start : start + 1] == "("
        words = _array(before, start) if is_array else lex(before, start, script=True).words[:1]
        used = {n for w in words if w.dynamic for n in _NAMED.findall(w.text)}
        known = out.values.get(name)
        adds = bool(match[4]) or name in used
        block = blocks.at(start)
        sure = separator not in ("&&", "||") and (blocks.hold(block) or block == set_in.get(name))
        if not sure and (adds or _is_set(known)):
            if adds or not all(_ONE_UNKNOWN.fullmatch(w.text) for w in words):
                out.unread[name] = line
                out.uses.setdefault(name, set()).update(used)
            continue
        if match[4] and known is not None and is_array != (name in out.arrays):
            out.unread[name] = line
            continue
        own = Origin(0, name, line)
        made = expanded(words, out.values, own=None if is_array else own, split=is_array)
        if match[4] and known:
            made = [*known, *made] if is_array else [_joined(known[0], made[0])] if made else known
        if sum(len(w.text) for w in made) > LONGEST_VALUE and match[4]:
            out.unread[name] = line
            continue
        out.values[name] = made[:MAX_WORDS]
        set_in[name] = block
        out.uses[name] = (out.uses.get(name, set()) if adds else set()) | used - {name}
        if not adds:
            out.unread.pop(name, None)
            out.arrays.discard(name)
        if is_array:
            out.arrays.add(name)
        elif (match[2] or "").startswith("export") or name.startswith(_EXPORTED):
            out.env.setdefault(name, words[0].text if words else "")
    return out


def _is_set(words: Sequence[Word] | None) -> bool:
    """Whether a variable has a value of its own so far, and not only what the caller may give it."""
    return any(w.text and not _ONE_UNKNOWN.fullmatch(w.text) for w in words or ())


def _array(before: str, start: int) -> list[Word]:
    """The words of an array whose opening bracket stands at ``start``."""
    words: list[Word] = []
    position = start + 1
    while position < len(before) and len(words) < MAX_WORDS:
        line = lex(before, position, script=True)
        words += line.words
        if line.separator:  # the closing bracket, or what no array holds
            break
        position = before.find("\n", max(line.end, position)) + 1 or len(before)
    return words


def _in_quotes(text: str, at: int) -> bool:
    """Whether a quote of the same line is open at a place."""
    ahead = text[max(text.rfind("\n", 0, at) + 1, at - 2000) : at]
    return ("'" in ahead or '"' in ahead) and bool(re.search("['\"]", re.sub(r"'[^']*'|\"[^\"]*\"", "", ahead)))


def _joined(first: Word, second: Word) -> Word:
    """A text with another behind it."""
    moved = tuple(replace(o, at=o.at + len(first.text)) for o in second.origin)
    return replace(first, text=first.text + second.text, dynamic=first.dynamic or second.dynamic, origin=(*first.origin, *moved))


class _Blocks:
    """In which ``if``, ``case`` and loops each place of a script lies; every branch is a block of its own."""

    def __init__(self, text: str) -> None:
        self._from = [0]
        self._blocks: list[tuple[int, ...]] = [()]
        count = deeper = 0
        for match in _BLOCK_WORD.finditer(text):
            begin = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 200)
            ahead = text[begin : match.start()]
            if ahead.lstrip().startswith("#") or (match[4] is None and not _COMMAND_BEGINS.search(ahead)):
                continue
            held = self._blocks[-1]
            count += 1
            if len(held) + deeper >= _DEEPEST and (match[1] or (match[3] and deeper)):
                deeper += 1 if match[1] else -1
            elif match[1]:
                held = (*held, count)
            elif match[3]:
                held = held[:-1]
            elif held:
                held = (*held[:-1], count)
            self._from.append(match.end())
            self._blocks.append(held)

    def at(self, place: int) -> tuple[int, ...]:
        return self._blocks[bisect_right(self._from, place) - 1]

    def hold(self, block: tuple[int, ...]) -> bool:
        """Whether a block is still open at the end of the text: what is in it was run when that is."""
        return self._blocks[-1][: len(block)] == block


def variables_in(text: str) -> list[str]:
    """The variables that a word names, in order."""
    return [m[1] or m[2] for m in _VARIABLE.finditer(text)]


def expanded(words: Sequence[Word], values: dict[str, list[Word]], split: bool = True, own: Origin | None = None) -> list[Word]:
    """The words with the script's own variables put in; an unquoted variable is split at its blanks, as a shell does.
    ``own``: where the words themselves are set."""
    out: list[Word] = []
    for word in words:
        array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", word.text) if word.dynamic else None
        alone = _VARIABLE.fullmatch(word.text) if word.dynamic else None
        known = values.get(array[1]) if array else values.get(alone[1] or alone[2]) if alone else None
        if known is not None and (array or len(known) != 1) and len(out) + len(known) <= MAX_WORDS:
            out += known
        elif known is not None and not word.quoted and split and len(known[0].text.split()) != 1:
            out += [_of_text(word, known[0], m) for m in re.finditer(r"\S+", known[0].text)]
        elif word.dynamic:
            text, origin = _filled(word.text, values, own)
            out.append(replace(word, text=text, dynamic="$" in text, before=word.text if text != word.text else word.before, origin=origin))
        else:
            out.append(replace(word, origin=(own,)) if own is not None else word)
    return out


def _of_text(word: Word, value: Word, match: re.Match[str]) -> Word:
    """One of the words that a variable's text is split into, with the line in which it begins."""
    begun = [o for o in value.origin if o.at <= match.start()][-1:]
    inside = [o for o in value.origin if match.start() < o.at < match.end()]
    return replace(word, text=match[0], dynamic="$" in match[0], before=word.text, origin=(*begun, *inside))


def _filled(text: str, values: dict[str, list[Word]], own: Origin | None) -> tuple[str, tuple[Origin, ...]]:
    """A text with the values of its variables, and what of it was set where; as it stands where they make it endless."""
    parts: list[str] = []
    origin: list[Origin] = [own] if own is not None else []
    length = at = 0
    for match in _VARIABLE.finditer(text):
        known = values.get(match[1] or match[2])
        parts.append(text[at : match.start()])
        length += len(parts[-1])
        if known:
            origin += [replace(o, at=o.at + length) for o in known[0].origin]
        parts.append(known[0].text if known else match[0])
        length += len(parts[-1])
        at = match.end()
        if length > LONGEST_VALUE:
            return text, (own,) if own is not None else ()
        if known and own is not None:
            origin.append(replace(own, at=length))
    return "".join([*parts, text[at:]]), tuple(origin)
