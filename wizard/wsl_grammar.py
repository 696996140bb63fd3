"""The grammar of ``.wslconfig`` and ``/etc/wsl.conf``, read as WSL reads it: bytes -> items with their places.

The reader follows WSL's own parser one character at a time (behaviour measured on the parser of 2026-08), with
its corners: a lone CR ends a value but not a comment, a continued value counts as lying on its last line, a
value keeps one byte of every character, and a section header that breaks off half way changes the prefix of
the keys after it. Knowing the place of every part in the file's bytes lets the editor change one value and
nothing else.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["wslconfig", "wslconf"]

_EOF = -1
_NUL, _BACKSPACE, _TAB, _LF, _CR, _CTRL_Z = 0x00, 0x08, 0x09, 0x0A, 0x0D, 0x1A
_SPACE, _QUOTE, _HASH, _EQUALS, _OPEN, _BACKSLASH, _CLOSE = 0x20, 0x22, 0x23, 0x3D, 0x5B, 0x5C, 0x5D
_LOW_N, _LOW_T, _LOW_B = 0x6E, 0x74, 0x62

UTF8, UTF8_BOM, UTF16LE, UTF16BE, RAW = "utf-8", "utf-8-bom", "utf-16-le", "utf-16-be", "bytes"


@dataclass(frozen=True)
class Text:
    """A file's content as the parser sees it.

    ``units`` are UTF-16 code units (bytes for ``/etc/wsl.conf``) with CR LF already made one LF; ``starts[i]``
    is the byte offset of unit ``i``, and ``starts[len(units)]`` the offset at which reading ends (the end of the
    file, or a Ctrl-Z). ``readable`` is False for an encoding that WSL cannot open at all.
    """

    units: Sequence[int]
    starts: Sequence[int]
    encoding: str
    readable: bool = True


@dataclass(frozen=True)
class Section:
    """A well-formed header. Offsets are bytes in the file; ``end`` lies behind the line's terminator."""

    name: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Entry:
    """A ``key = value`` line that reached the key table.

    ``name`` is what WSL looks up ("wsl2.memory", as spelled in the file), ``raw`` the value's bytes after quotes
    and escapes. ``key_start``, ``value_start``, ``value_end`` (before trailing space and comment) and ``end``
    (behind the line's terminator) are byte offsets; ``has_comment`` tells whether a comment follows the value.
    """

    name: str
    raw: bytes
    line: int
    key_start: int
    value_start: int
    value_end: int
    end: int
    has_comment: bool

    @property
    def raw_text(self) -> str:
        return self.raw.decode("utf-8", "replace")


@dataclass(frozen=True)
class Fault:
    """A line that WSL rejects: ``kind`` is one of the constants below, ``detail`` what was wrong there.

    ``start`` is the byte offset of the line's first character (a continued value belongs to one line).
    """

    kind: str
    line: int
    detail: str
    start: int


INVALID_KEY = "invalid_key_name"
INVALID_SECTION = "invalid_section_name"
INVALID_ESCAPE = "invalid_escape"
EXPECTED = "expected"

Item = Section | Entry | Fault


def decode(data: bytes, mode: Mode) -> Text:
    """The file's bytes as the parser gets them; never raises."""
    if mode == "wslconf":
        return Text(data, range(len(data) + 1), RAW)
    if data.startswith(b"\xfe\xff"):
        return Text(b"", (len(data),), UTF16BE, readable=False)
    if data.startswith(b"\xff\xfe"):
        count = len(data) // 2 - 1
        return _text_mode(_code_units(data[2 : 2 + 2 * count]), range(2, 2 * count + 3, 2), UTF16LE)
    begin = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    encoding = UTF8_BOM if begin else UTF8
    # Each byte that is no UTF-8 becomes a character of its own, as in WSL; surrogateescape keeps them apart.
    text = data[begin:].decode("utf-8", "surrogateescape")
    starts: Sequence[int] = range(begin, len(data) + 1)
    if not text.isascii():
        starts = array("q", _starts(text, begin))
        text = re.sub("[\udc80-\udcff]", "\N{REPLACEMENT CHARACTER}", text)
    return _text_mode(_code_units(text.encode("utf-16-le")), starts, encoding)


def _code_units(data: bytes) -> array[int]:
    units = array("H", data)
    if sys.byteorder == "big":
        units.byteswap()
    return units


def _starts(text: str, begin: int) -> Iterator[int]:
    """The byte offset of each UTF-16 code unit of ``text``, and of its end."""
    at = begin
    for char in text:
        yield at
        if char < "\x80":
            at += 1
        elif char < "\u0800":
            at += 2
        elif "\udc80" <= char <= "\udcff":  # a byte that is no UTF-8
            at += 1
        elif char <= "\uffff":
            at += 3
        else:
            yield at
            at += 4
    yield at


def _text_mode(units: array[int], starts: Sequence[int], encoding: str) -> Text:
    """What the C runtime's text mode does on Windows: CR LF is one LF, Ctrl-Z ends the file."""
    count = _find(units, _CTRL_Z, 0)
    units, starts = units[:count], starts[: count + 1]
    kept, offsets = array("H"), array("q")
    begin = 0
    while True:
        feed = _find(units, _LF, begin + 1)
        while feed < count and units[feed - 1] != _CR:
            feed = _find(units, _LF, feed + 1)
        if feed >= count:
            break
        kept.extend(units[begin : feed - 1])
        kept.append(_LF)
        offsets.extend(starts[begin:feed])  # the LF stands where its CR was
        begin = feed + 1
    if begin == 0:
        return Text(units, starts, encoding)
    kept.extend(units[begin:])
    offsets.extend(starts[begin:])
    return Text(kept, offsets, encoding)


def _find(units: Sequence[int], wanted: int, start: int) -> int:
    """The index of the next such unit; the end when there is none."""
    try:
        return units.index(wanted, start)
    except ValueError:
        return len(units)


def _is_alpha(unit: int) -> bool:
    return 0x41 <= unit <= 0x5A or 0x61 <= unit <= 0x7A


def _is_alnum(unit: int) -> bool:
    return _is_alpha(unit) or 0x30 <= unit <= 0x39


def _is_hspace(unit: int) -> bool:
    return unit in (_SPACE, _TAB)


def scan(text: Text, mode: Mode) -> tuple[Item, ...]:
    """All items in the order of the file. In ``wslconf`` mode reading stops at the first fault, as WSL does."""
    return _Scanner(text, stop_at_fault=mode == "wslconf").run()


class _Stop(Exception):
    pass


class _Scanner:
    """One walk over the units. ``ch`` is always the unit read last, as in WSL's parser."""

    def __init__(self, text: Text, stop_at_fault: bool) -> None:
        self.text = text
        self.units = text.units
        self.stop_at_fault = stop_at_fault
        self.at = 0
        self.at_eof = False
        self.ch = _NUL
        self.line = 0
        self.first = 0  # index of the first character of the line in hand
        self.trailing_comment = False
        self.key = bytearray()  # section prefix and key name; survives a broken header, as in WSL
        self.section_length = 0
        self.items: list[Item] = []

    def run(self) -> tuple[Item, ...]:
        try:
            while self._next_line():
                pass
        except _Stop:
            pass
        return tuple(self.items)

    def _get(self) -> int:
        if self.at < len(self.units):
            self.ch = self.units[self.at]
            self.at += 1
        else:
            self.ch = _EOF
            self.at_eof = True
        return self.ch

    def _offset(self, index: int) -> int:
        return self.text.starts[min(index, len(self.units))]

    def _last(self) -> int:
        """The index of the unit read last."""
        return len(self.units) if self.ch == _EOF else self.at - 1

    def _line_end(self) -> int:
        """The byte offset behind the line that ``ch`` ends or, for a comment, lies in."""
        if self.ch == _EOF:
            return self._offset(len(self.units))
        index = self.at
        if self.ch == _CR and index < len(self.units) and self.units[index] == _LF:
            index += 1
        elif self.ch == _HASH:
            index = _find(self.units, _LF, index) + 1
        return self._offset(index)

    def _next_line(self) -> bool:
        """Blank lines and comments, then one header or key line; False at the end of the file."""
        if not self.trailing_comment:
            self.line += 1
        while True:
            if self.ch == _HASH:
                self._skip_comment()
            if self.at_eof:
                return False
            while _is_hspace(self._get()):
                pass
            self.first = self._last()
            if self.ch == _CR:
                if self.at < len(self.units) and self.units[self.at] == _LF:
                    self.at += 1
                    self.line += 1
                elif self.at >= len(self.units):
                    self.at_eof = True
            elif self.ch == _LF:
                self.line += 1
            elif self.ch == _OPEN:
                self._section()
                return True
            elif self.ch not in (_EOF, _HASH):
                if _is_alpha(self.ch):
                    self._entry()
                else:
                    self._fault(INVALID_KEY, "")
                return True

    def _skip_comment(self) -> None:
        self._skip_to_feed()
        if self.ch == _LF:
            self.line += 1
        self.trailing_comment = False

    def _skip_to_feed(self) -> None:
        """On to the next LF, or to the end."""
        self.at = _find(self.units, _LF, self.at)
        self._get()

    def _fault(self, kind: str, detail: str) -> None:
        self.items.append(Fault(kind, self.line, detail, self._offset(self.first)))
        if self.stop_at_fault:
            raise _Stop
        if self.ch not in (_EOF, _LF):
            self._skip_to_feed()

    def _section(self) -> None:
        start = self._last()
        if not _is_alpha(self._get()):
            self._fault(INVALID_SECTION, "")
            return
        self.key.clear()
        while True:
            self.key.append(self.ch)
            if not _is_alnum(self._get()):
                break
        if self.ch != _CLOSE:
            self._fault(EXPECTED, "]")
            return
        while _is_hspace(self._get()):
            pass
        if self.ch == _HASH:
            self.trailing_comment = True
        elif self.ch not in (_EOF, _LF, _CR):
            self._fault(EXPECTED, "end of line")
            return
        self.section_length = len(self.key)
        name = self.key.decode("ascii")
        self.items.append(Section(name, self.line, self._offset(start), self._line_end()))

    def _resize_key(self) -> None:
        # A header that broke off left its own letters here: WSL cuts or pads them to the old section's length.
        del self.key[self.section_length :]
        self.key.extend(bytes(self.section_length - len(self.key)))
        if self.key:
            self.key.append(0x2E)

    def _entry(self) -> None:
        key_start = self._last()
        self._resize_key()
        while True:
            self.key.append(self.ch)
            if not _is_alnum(self._get()):
                break
        while _is_hspace(self.ch):
            self._get()
        if self.ch != _EQUALS:
            self._fault(EXPECTED, "=")
            return
        while _is_hspace(self._get()):
            pass
        self._value(key_start, self._last())

    def _value(self, key_start: int, value_start: int) -> None:
        value = bytearray()
        kept = 0
        value_end = value_start
        in_quote = False
        while self.ch not in (_EOF, _LF, _CR):
            unit = self.ch
            if unit == _QUOTE:
                in_quote = not in_quote
            elif unit == _BACKSLASH:
                if not self._escape(value):
                    return
            elif unit == _HASH and not in_quote:
                self.trailing_comment = True
                break
            else:
                value.append(unit & 0xFF)
            if not _is_hspace(unit):
                kept = len(value)
                value_end = self.at
            self._get()
        if in_quote:
            self._fault_after_value('"')
            return
        del value[kept:]
        self.items.append(
            Entry(
                name=_c_string(self.key).decode("ascii"),
                raw=_c_string(value),
                line=self.line,
                key_start=self._offset(key_start),
                value_start=self._offset(value_start),
                value_end=self._offset(value_end),
                end=self._line_end(),
                has_comment=self.ch == _HASH,
            )
        )

    def _fault_after_value(self, detail: str) -> None:
        # The line already ended: WSL still skips on to the next LF, which matters for a lone CR.
        self._fault(EXPECTED, detail)

    def _escape(self, value: bytearray) -> bool:
        """One escape sequence, its backslash already read; False when it made the line invalid."""
        backslash = self.ch
        second = self._get()
        if second in (_BACKSLASH, _QUOTE):
            value.append(second)
        elif second == _LOW_B:
            value.append(_BACKSPACE)
        elif second == _LOW_N:
            value.append(_LF)
        elif second == _LOW_T:
            value.append(_TAB)
        elif second == _LF:
            self.line += 1
        elif second != _CR:
            detail = "" if second == _EOF else chr(second)
            self.ch = backslash
            self._fault(INVALID_ESCAPE, detail)
            return False
        return True


def _c_string(value: bytearray) -> bytes:
    """The bytes up to the first NUL: WSL hands values on as C strings."""
    return bytes(value.split(b"\0", 1)[0])
