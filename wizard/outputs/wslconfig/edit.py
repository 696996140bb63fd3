"""Change single settings of ``.wslconfig`` and leave every other byte as it was.

Each change is made where WSL looks first (the first line of that key, be it invalid), or put into the key's
section; the result is read again with WSL's grammar, and a place is only taken when the new value counts there
and every other line still means what it meant.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping

from wizard import columns
from wizard import wsl_grammar as grammar
from wizard.errors import BadInput, WizardError
from wizard.i18n import _, language, listed, sentence, sentences
from wizard.outputs.quoting import comment
from wizard.outputs.wslconfig import keys
from wizard.outputs.wslconfig.parse import Parsed, parse, value_of
from wizard.wsl_grammar import Entry, Fault, Item, Mode, Section


def head() -> bytes:
    """The first lines of a new .wslconfig, as comments."""
    words = (
        _("Settings of the WSL 2 virtual machine, made by vllm-wizard."),
        _('They count after "wsl --shutdown" (typed in PowerShell), which ends every running distribution.'),
    )
    return "".join(f"# {line}\n" for line in words).encode()


# What our own comments begin with, so that the next edit finds them again; their further lines are set in.
MARK, MORE = "# vllm-wizard: ", "#     "
_WIDTH = 100


def edit(
    data: bytes | None, changes: Mapping[str, str | None], mode: Mode = "wslconfig", reasons: Mapping[str, str] | None = None
) -> bytes:
    """``data`` with the settings of ``changes`` ("section.key" -> plain value, None removes it) and nothing else
    changed: comments, order, line ends, byte order mark and encoding stay.

    ``data`` None makes a new file. A value that already counts is not rewritten, so editing twice equals editing
    once. With ``reasons`` (by the same keys) each line that is written gets its reason as a comment above it, which
    takes the place of the one of an earlier edit; what the user had written behind a changed value is marked as said
    of the old value. Raises BadInput for a key or value that WSL does not take, WizardError when no edit of this file can
    make the value count (an encoding or a line that WSL cannot read); the message says what to do.
    """
    wanted = _wanted(changes, mode)
    if data is None:
        if not any(value is not None for value in wanted.values()):
            return b""
        data = head() if mode == "wslconfig" else b""
    before = parse(data, mode)
    if not before.readable:
        raise WizardError(before.problems[0].message)
    # What keeps WSL from reading on (a refused MAC address) goes first, so that the rest can be seen to count.
    for key, value in sorted(wanted.items(), key=lambda pair: (pair[1] is not None, pair[0].kind != "mac")):
        if value is None:
            data = _remove(data, key, mode)
        else:
            data = _set(data, key, value, mode, None if reasons is None else reasons.get(key.name, ""))
    _verify(before, parse(data, mode), wanted)
    return data


def _wanted(changes: Mapping[str, str | None], mode: Mode) -> dict[keys.Key, str | None]:
    wanted: dict[keys.Key, str | None] = {}
    for name, value in changes.items():
        key = keys.find(name, mode)
        if key is None:
            raise BadInput(_no_setting(name, mode))
        if value is not None:
            _check_value(key, value)
        wanted[key] = value
    return wanted


def _no_setting(name: str, mode: Mode) -> str:
    """What is said of a key that WSL does not know: with the settings that end so, where there are any."""
    text = _("WSL knows no setting named {name}").format(name=name)
    tail = name.rpartition(".")[2].lower()
    alike = [k.name for k in keys.table(mode) if any(n.rpartition(".")[2].lower() == tail for n in k.names)]
    if not alike:
        return text
    return sentences(sentence(text), _("With its section it is written so: {names}").format(names=listed(alike)))


def _check_value(key: keys.Key, value: str) -> None:
    if not value.isascii():
        raise BadInput(
            _(
                "{key}={value}: WSL cuts letters outside ASCII to something else; choose a path without them"
            ).format(key=key.name, value=value)
        )
    if any((ord(c) < 0x20 and c not in "\b\t\n") or c == "\x7f" for c in value):
        raise BadInput(
            _("{key}: the value holds a control character that the file cannot carry").format(key=key.name)
        )
    if value_of(key, value) is None:
        raise BadInput(_("WSL does not take {value!r} for {key}").format(value=value, key=key.name))


def quote(value: str) -> str:
    """``value`` as it is written in the file: backslashes and quotation marks escaped, quoted where needed."""
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
    return f'"{text}"' if "#" in text or text != text.strip(" ") else text


def _entries(parsed: Parsed, key: keys.Key) -> list[Entry]:
    names = {name.lower() for name in key.names}
    return [i for i in parsed.items if isinstance(i, Entry) and i.name.lower() in names]


def _set(data: bytes, key: keys.Key, value: str, mode: Mode, reason: str | None = None) -> bytes:
    parsed = parse(data, mode)
    goal = value_of(key, value)
    accepted = parsed.get(key.name)
    if accepted is not None and accepted.value == goal and parsed.fatal is None:
        return data
    told = _told(data, _with_old_value(parsed, key, reason))
    with_reason = _candidates(data, parsed, key, value, told) if told is not None else iter(())
    for candidate in itertools.chain(with_reason, _candidates(data, parsed, key, value)):
        after = parse(candidate, mode)
        now = after.get(key.name)
        if now is not None and now.value == goal and _others(after, key) == _others(parsed, key):
            return candidate
    raise WizardError(_refusal(parsed, key, value))


def _with_old_value(parsed: Parsed, key: keys.Key, reason: str | None) -> str | None:
    """The reason, naming the value that it replaces: a comment of the user's above the line is said of that one."""
    old = next((e.raw_text.strip() for e in _entries(parsed, key)), "")
    if not reason or not old or not old.isascii() or not old.isprintable() or old in reason:
        return reason
    return _("{reason} (before: {old})").format(reason=reason, old=old)


def _told(data: bytes, reason: str | None) -> tuple[str, ...] | None:
    """The comment lines of a reason; None where the file takes none (no reason, or letters that are not its own)."""
    if reason is None:
        return None
    text = comment(reason).rstrip("\\ ")
    if not text.isascii() and not data.startswith(b"\xff\xfe"):
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            return ()
    return tuple(columns.wrap(text, _WIDTH, MARK, MORE)) if text else ()


def _remove(data: bytes, key: keys.Key, mode: Mode) -> bytes:
    parsed = parse(data, mode)
    for entry in reversed(_entries(parsed, key)):
        shorter = _without(data, entry, parsed.encoding)
        begin, end = _own_comment(data, parsed, entry)
        shorter = shorter[:begin] + shorter[end:]
        if _others(parse(shorter, mode), key) != _others(parsed, key):
            raise WizardError(
                _(
                    "line {line}: {key} cannot be taken out without changing other lines; take it out by hand"
                ).format(line=entry.line, key=key.name)
            )
        data = shorter
    return data


def _without(data: bytes, entry: Entry, encoding: str) -> bytes:
    """Without the entry's line; its comment, if it has one, stays on a line of its own."""
    if entry.has_comment:
        comment = data.index(_encode("#", encoding), entry.value_end)
        return data[: entry.key_start] + data[comment:]
    space = _encode(" ", encoding), _encode("\t", encoding)
    begin = entry.key_start
    while data[:begin].endswith(space):
        begin -= len(space[0])
    return data[:begin] + data[entry.end :]


def _others(parsed: Parsed, key: keys.Key) -> list[tuple[str, object]]:
    """All that the file says beside ``key``, in order: what an edit must not change."""
    mine = {name.lower() for name in key.names}
    rest: list[tuple[str, object]] = []
    for item in parsed.items:
        if isinstance(item, Entry) and item.name.lower() not in mine:
            rest.append((item.name, item.raw))
        elif isinstance(item, Fault):
            rest.append((item.kind, item.detail))
    return rest


def _candidates(data: bytes, parsed: Parsed, key: keys.Key, value: str, told: tuple[str, ...] | None = None) -> Iterator[bytes]:
    """Edits that may do, the least intrusive first; ``told`` are comment lines that go above the line."""
    encoding = parsed.encoding
    entries = _entries(parsed, key)
    if entries:
        if told is None:
            yield _with_value(data, entries[0], value, encoding)
        else:
            yield from _with_reason(data, parsed, entries[0], value, told)
        return
    section, _dot, name = key.name.partition(".")
    written = (*(told or ()), f"{name}={quote(value)}")
    newline = _newline(data, encoding)
    newlines = [newline] if newline == "\n" else [newline, "\n"]
    places = list(_section_places(parsed.items, section))
    text = grammar.decode(data, parsed.mode)
    end = text.starts[-1]
    for eol in newlines:
        for place in places:
            yield _inserted(data, place, eol.join(written), eol, encoding)
    header = f"[{section}]"
    begin = _begin(encoding)
    for eol in newlines:
        lines = eol.join((header, *written))
        blank = eol if end > begin and not _ends_blank(data[:end], encoding) else ""
        yield _inserted(data, end, blank + lines, eol, encoding)
        # The line end that is there may only continue a value: one more ends it.
        yield data[:end] + _encode(eol + lines + eol, encoding) + data[end:]
    # A file that ends in the middle of a line: before its first header, or before a line that is broken anyway.
    first = next((item.start for item in parsed.items if isinstance(item, Section)), None)
    broken = [_line_start(text, item.start) for item in parsed.items if isinstance(item, Fault)]
    for place in [*([] if first is None else [first]), *broken]:
        for eol in newlines:
            yield _inserted(data, place, eol.join((header, *written)), eol, encoding)
    for eol in newlines:
        yield data[:begin] + _encode(eol.join((header, *written)) + eol, encoding) + data[begin:]


def _with_reason(data: bytes, parsed: Parsed, entry: Entry, value: str, told: tuple[str, ...]) -> Iterator[bytes]:
    """The value changed where it stands, below its reason; a comment behind it is said of the old value."""
    encoding = parsed.encoding
    changed = _with_value(data, entry, value, encoding)
    plain = all(line.isascii() for line in told)  # a file that holds ASCII alone gets no other letters
    marked = _of_old_value(changed, entry, entry.value_start + len(_encode(quote(value), encoding)), encoding, plain)
    begin, start = _own_comment(data, parsed, entry)
    newline = _newline(data, encoding)
    for eol in [newline] if newline == "\n" else [newline, "\n"]:
        above = _encode("".join(line + eol for line in told), encoding)
        for text in (marked, changed):
            yield text[:begin] + above + text[start:]
    yield marked


# How a comment begins that an earlier edit said of a value that is gone, in every language that edits are made in.
_OLD = "was {old}: ", "原为 {old}："


def _of_old_value(changed: bytes, entry: Entry, after: int, encoding: str, plain: bool) -> bytes:
    """``changed`` with what the user wrote behind the value marked as said of the value that was there."""
    old = entry.raw_text
    if not entry.has_comment or not old.strip() or not old.isascii() or not old.isprintable():
        return changed
    hash_sign, blank = _encode("#", encoding), _encode(" ", encoding)
    at = changed.index(hash_sign, after) + len(hash_sign)
    rest = at
    while changed.startswith(blank, rest):
        rest += len(blank)
    if any(changed.startswith(_encode(form.partition("{")[0], encoding), rest) for form in _OLD):
        return changed  # by an earlier edit: it is still said of that value
    form = _OLD[0] if plain or language() != "zh_CN" else _OLD[1]
    return changed[:at] + _encode(" " + form.format(old=old), encoding) + changed[rest:]


def _own_comment(data: bytes, parsed: Parsed, entry: Entry) -> tuple[int, int]:
    """Where the comment of an earlier edit begins right above the entry's line, and where that line begins; the same
    offset twice where there is none."""
    encoding = parsed.encoding
    text = grammar.decode(data, parsed.mode)
    line = start = _line_start(text, entry.key_start)
    feed, both = _encode("\n", encoding), _encode("\r\n", encoding)
    while line > _begin(encoding):
        above = _line_start(text, line - len(both if data[:line].endswith(both) else feed))
        if data.startswith(_encode(MARK, encoding), above):
            return above, start
        if above >= line or not data.startswith(_encode(MORE, encoding), above):
            break
        line = above
    return start, start


def _section_places(items: tuple[Item, ...], section: str) -> Iterator[int]:
    """Byte offsets inside the section: behind its last key of the first such block, else behind its header."""
    open_block: int | None = None
    for item in items:
        if isinstance(item, Section):
            if open_block is not None:
                yield open_block
            open_block = item.end if item.name.lower() == section.lower() else None
        elif isinstance(item, Entry) and open_block is not None:
            open_block = item.end
    if open_block is not None:
        yield open_block


def _with_value(data: bytes, entry: Entry, value: str, encoding: str) -> bytes:
    text = quote(value)
    if entry.has_comment and entry.value_start == entry.value_end:
        text += " "
    return data[: entry.value_start] + _encode(text, encoding) + data[entry.value_end :]


def _inserted(data: bytes, place: int, lines: str, eol: str, encoding: str) -> bytes:
    """``lines`` on lines of their own at ``place``, which lies behind a line's terminator or at the end."""
    before, after = data[:place], data[place:]
    ends_line = place <= _begin(encoding) or before.endswith(
        (_encode("\n", encoding), _encode("\r", encoding))
    )
    text = lines + eol if ends_line else eol + lines
    if not ends_line and after:
        text += eol
    return before + _encode(text, encoding) + after


def _line_start(text: grammar.Text, offset: int) -> int:
    """The byte offset of the line that the unit at ``offset`` lies on."""
    at = bisect.bisect_left(text.starts, offset)
    while at and text.units[at - 1] not in (0x0A, 0x0D):
        at -= 1
    return text.starts[at]


def _begin(encoding: str) -> int:
    """The length of the byte order mark."""
    return {grammar.UTF8_BOM: 3, grammar.UTF16LE: 2}.get(encoding, 0)


def _ends_blank(data: bytes, encoding: str) -> bool:
    return data.endswith(tuple(_encode(e, encoding) for e in ("\n\n", "\r\n\r\n", "\r\r")))


def _newline(data: bytes, encoding: str) -> str:
    """The line end that most lines of the file have."""
    crlf = data.count(_encode("\r\n", encoding))
    lf = data.count(_encode("\n", encoding)) - crlf
    cr = data.count(_encode("\r", encoding)) - crlf
    return max(("\n", lf), ("\r\n", crlf), ("\r", cr), key=lambda pair: pair[1])[0]


def _encode(text: str, encoding: str) -> bytes:
    return text.encode("utf-16-le" if encoding == grammar.UTF16LE else "utf-8")


def _verify(before: Parsed, after: Parsed, wanted: Mapping[keys.Key, str | None]) -> None:
    """The last word: every wish counts now, or WizardError."""
    if after.fatal is not None:
        raise WizardError(after.fatal)
    for key, value in wanted.items():
        now = after.get(key.name)
        if value is None and _entries(after, key):
            raise WizardError(_("{key} could not be taken out; take it out by hand").format(key=key.name))
        if value is not None and (now is None or now.value != value_of(key, value)):
            raise WizardError(_refusal(before, key, value))


def _refusal(parsed: Parsed, key: keys.Key, value: str) -> str:
    if parsed.fatal is not None:
        return parsed.fatal
    faults = [p for p in parsed.problems if p.line is not None]
    where = (
        _("line {line}: {message}").format(line=faults[0].line, message=faults[0].message) if faults else ""
    )
    text = _(
        "{key}={value} cannot be made to count in this file; put it right by hand, or start with a new file."
    ).format(key=key.name, value=value)
    return sentences(text, where)
