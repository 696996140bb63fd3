"""A log as bytes -> numbered lines of text: one pass, bounded memory.

Small logs come through whole. Of a large one its beginning stays (arguments, release, first failure), and of
the rest only blocks in which something may have gone wrong, the latest of them; so a gigabyte of chatter around
one crash costs a scan and no memory.
"""

from __future__ import annotations

import codecs

from wizard.errors import BadInput
from wizard.i18n import _

TYPE_CHECKING = False  # typing and collections.abc cost a small log a good part of its time
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

CHUNK_BYTES = 1 << 20
PIECE_BYTES = 1 << 14  # of what is compressed: little is lost to one wrong byte
BLOCK_BYTES = 1 << 16
HEAD_BYTES = 4 << 20  # kept whole
PINNED_BYTES = 2 << 20  # the first suspicious blocks behind the head
TAIL_BYTES = 8 << 20  # the last suspicious blocks
LONGEST_CARRY_BYTES = 16 << 20
LONGEST_HOLE_BYTES = 64 << 20
_CONTROLS = bytes(b for b in range(32) if b not in b"\b\t\n\f\r\x1b")
LONGEST_LINE_CHARS = 1 << 16  # a longer line is cut: no message is that long

# Every failure, and every start of a server and its success, has one of these words on or beside its lines; few,
# because each is looked for in every byte of a large log. Lines of a server at work hold none of them.
SUSPICIOUS = (b"rror", b"ERROR", b"ceback", b"ailed", b"died", b" version ", b"startup complete")


class NoText(BadInput):
    """What was given as a log is no text."""


class NumberedLines:
    """``numbers[i]`` is the line number (from 1) of ``lines[i]``; ``total`` counts all lines of the input. ``cut``: it
    was compressed and ends too early, or is damaged from there on."""

    __slots__ = ("cut", "lines", "numbers", "total", "whole")

    def __init__(self, lines: list[str], numbers: list[int] | range, total: int, whole: bool) -> None:
        self.lines = lines
        self.numbers = numbers
        self.total = total
        self.whole = whole
        self.cut = False


def read(stream: BinaryIO, *, text_only: bool = False) -> NumberedLines:
    """All that matters of a log in any encoding, compressed with gzip or not.

    Raises OSError as reading does, and with ``text_only`` NoText for what is no text.
    """
    unpacked = _Unpacked(stream)
    found = _read(unpacked.chunks(), text_only)
    found.cut = unpacked.cut
    return found


def _read(chunks: Iterator[bytes], text_only: bool) -> NumberedLines:
    first = next(chunks, b"")
    if len(first) < CHUNK_BYTES:
        # Short reads of a pipe: fill up, so that what decides on the encoding is seen.
        for more in chunks:
            first += more
            if len(first) >= CHUNK_BYTES:
                break
    decode = _wide_decoder(first)
    if decode is not None:
        return _sieve(_recoded(first, chunks, decode))
    if b"\0" in first:
        first = _without_hole(first, chunks)
        if text_only and _is_binary(first):
            raise NoText(_("This is no log of vLLM: it is no text."))
    return _sieve(_joined(first, chunks))


def _without_hole(first: bytes, rest: Iterator[bytes]) -> bytes:
    """The log without the zeros before it: one that was emptied while it was written (copytruncate) begins so."""
    skipped = len(first)
    first = first.lstrip(b"\0")
    while not first and skipped < LONGEST_HOLE_BYTES:
        more = next(rest, b"")
        if not more:
            break
        skipped += len(more)
        first = more.lstrip(b"\0")
    return first


def _is_binary(first: bytes) -> bool:
    """Whether much of the beginning is neither text nor the few bytes that Docker's raw stream puts before a line."""
    if not first:
        return True
    sample = first[:BLOCK_BYTES]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    odd = sample.decode("utf-8", "replace").count("\ufffd")
    return b"\0" in first and controls + odd > 0.15 * len(sample)


def read_bytes(data: bytes) -> NumberedLines:
    """The same of bytes in memory."""
    import io

    return read(io.BytesIO(data))


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first[3:] if first.startswith(codecs.BOM_UTF8) else first
    yield from rest


class _Unpacked:
    """What a stream holds, unpacked where it is compressed with gzip."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.cut = False

    def chunks(self) -> Iterator[bytes]:
        stream = self.stream
        first = stream.read(CHUNK_BYTES)
        if not first.startswith(b"\x1f\x8b"):
            while first:
                yield first
                first = stream.read(CHUNK_BYTES)
            return
        import zlib

        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while first:
            # max_length bounds what a small hostile archive can blow up to at once.
            data = first
            while data:
                piece, rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
                before = unpack.copy()
                try:
                    out = unpack.decompress(piece, CHUNK_BYTES)
                except zlib.error:
                    self.cut = True
                    yield _up_to_the_damage(before, piece)
                    return
                if out:
                    yield out
                data = unpack.unconsumed_tail + rest
                if unpack.eof:
                    data = unpack.unused_data + rest
                    if not data.startswith(b"\x1f\x8b"):
                        return
                    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
            first = stream.read(CHUNK_BYTES)
        self.cut = not unpack.eof


def _up_to_the_damage(unpack: Any, piece: bytes) -> bytes:
    """What a piece of compressed data gives before the byte that is wrong."""
    import zlib

    out = b""
    for at in range(len(piece)):
        try:
            out += unpack.decompress(piece[at : at + 1])
        except zlib.error:
            break
    return out


def _wide_decoder(sample: bytes) -> codecs.IncrementalDecoder | None:
    """A decoder when the text is UTF-16, with its mark or without (as PowerShell's > writes it)."""
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.getincrementaldecoder("utf-16")("replace")
    head = sample[:400]
    if len(head) >= 4:
        pairs = len(head) // 2
        odd, even = head[1::2].count(0), head[0::2].count(0)
        # Zeros in both places are no text.
        if odd > 0.6 * pairs and even < 0.1 * pairs:
            return codecs.getincrementaldecoder("utf-16-le")("replace")
        if even > 0.6 * pairs and odd < 0.1 * pairs:
            return codecs.getincrementaldecoder("utf-16-be")("replace")
    return None


def _recoded(first: bytes, rest: Iterator[bytes], decoder: codecs.IncrementalDecoder) -> Iterator[bytes]:
    yield decoder.decode(first).encode("utf-8", "replace")
    for chunk in rest:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


def _sieve(chunks: Iterator[bytes]) -> NumberedLines:
    head: list[bytes] = []
    size = 0
    for chunk in chunks:
        head.append(chunk)
        size += len(chunk)
        if size > HEAD_BYTES:
            return _sieve_large(b"".join(head), chunks)
    lines = _lines(b"".join(head))
    return NumberedLines(lines, range(1, len(lines) + 1), len(lines), True)


def _lines(data: bytes) -> list[str]:
    if b"\r" in data:
        # A progress bar rewrites its line with a bare CR: it stays one line, as editors and grep count it.
        data = data.replace(b"\r\n", b"\n")
    rows = data.split(b"\n")
    if rows and not rows[-1]:
        rows.pop()
    # Line by line: one odd character would make the whole text several times as large and slow.
    try:
        lines = [row.decode() for row in rows]
    except UnicodeDecodeError:
        lines = [row.decode("utf-8", "replace") for row in rows]
    if len(data) > LONGEST_LINE_CHARS:
        lines = [line if len(line) <= LONGEST_LINE_CHARS else line[:LONGEST_LINE_CHARS] for line in lines]
    return lines


class _Sieve:
    """Blocks of a large log that may tell something, each with the number of lines before it."""

    def __init__(self, lines_before: int) -> None:
        from collections import deque

        self.count = lines_before
        self.pinned: list[tuple[int, bytes]] = []
        self.tail: deque[tuple[int, bytes]] = deque()
        self._pinned_size = self._tail_size = 0
        self._last: tuple[int, bytes] | None = None  # the block before: an exception may end on the next one's first lines
        self._suspicious = scanner()

    def offer(self, piece: bytes) -> None:
        """Whole lines, of any number."""
        if not self._suspicious(piece):
            self._pass_over(piece)
            return
        at, size = 0, len(piece)
        while at < size:
            end = size if size - at <= BLOCK_BYTES else piece.rfind(b"\n", at, at + BLOCK_BYTES) + 1
            if end <= at:
                end = piece.find(b"\n", at + BLOCK_BYTES) + 1 or size
            block = piece[at:end]
            at = end
            if self._suspicious(block):
                if self._last is not None:
                    self._keep(self._last)
                    self._last = None
                self._keep((self.count, block))
                self.count += block.count(b"\n")
            else:
                self._pass_over(block)

    def _pass_over(self, piece: bytes) -> None:
        # Only the end of what says nothing is remembered.
        cut = piece.rfind(b"\n", 0, max(0, len(piece) - BLOCK_BYTES)) + 1
        end = piece[cut:]
        lines = piece.count(b"\n")
        self._last = (self.count + lines - end.count(b"\n"), end)
        self.count += lines

    def _keep(self, item: tuple[int, bytes]) -> None:
        size = len(item[1])
        if self._pinned_size < PINNED_BYTES:
            self.pinned.append(item)
            self._pinned_size += size
            return
        self.tail.append(item)
        self._tail_size += size
        while self._tail_size > TAIL_BYTES:
            self._tail_size -= len(self.tail.popleft()[1])

    def blocks(self) -> list[tuple[int, bytes]]:
        """What was kept, and how the log ends."""
        return [*self.pinned, *self.tail, *([self._last] if self._last is not None else [])]


def _sieve_large(head: bytes, chunks: Iterator[bytes]) -> NumberedLines:
    cut = head.rfind(b"\n", 0, HEAD_BYTES) + 1 or min(len(head), HEAD_BYTES)
    kept, carry = head[:cut], head[cut:]
    sieve = _Sieve(kept.count(b"\n"))
    for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end == 0:
            carry += chunk
            if len(carry) > LONGEST_CARRY_BYTES:
                sieve.offer(carry[:CHUNK_BYTES])  # one endless line: its beginning stands for it
                carry = carry[-CHUNK_BYTES:]
            continue
        sieve.offer(carry + chunk[:end] if carry else chunk[:end])
        carry = chunk[end:]
    if carry:
        sieve.offer(carry)
    lines = _lines(kept)
    numbers = list(range(1, len(lines) + 1))
    for before, block in sieve.blocks():
        part = _lines(block)
        lines += part
        numbers += range(before + 1, before + 1 + len(part))
    return NumberedLines(lines, numbers, sieve.count + (1 if carry else 0), False)


def scanner(native: bool = True) -> Callable[[bytes], bool]:
    """A function that tells whether a block holds one of :data:`SUSPICIOUS`: a native one where installed."""
    if native:
        for make in (_hyperscan, _re2):
            try:
                return make()
            except Exception:  # noqa: S112  (not installed, or not for this processor: the plain way does as well)
                continue
    words = SUSPICIOUS

    def scan(block: bytes) -> bool:
        for word in words:  # noqa: SIM110
            if word in block:
                return True
        return False

    return scan


def _hyperscan() -> Callable[[bytes], bool]:
    import importlib

    module: Any = importlib.import_module("hyperscan")
    database = module.Database()
    count = len(SUSPICIOUS)
    # No word holds a character that means something in a regular expression.
    database.compile(expressions=list(SUSPICIOUS), ids=list(range(count)), elements=count, flags=[module.HS_FLAG_SINGLEMATCH] * count)

    def scan(block: bytes) -> bool:
        hit: list[int] = []

        def found(which: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
            hit.append(which)
            return True  # stop

        try:
            database.scan(block, match_event_handler=found)
        except module.error:
            if not hit:
                raise
        return bool(hit)

    if not scan(b"an Error here") or scan(b"all is well"):
        raise RuntimeError("hyperscan does not work here")
    return scan


def _re2() -> Callable[[bytes], bool]:
    import importlib

    module: Any = importlib.import_module("re2")
    pattern = module.compile(b"|".join(SUSPICIOUS))
    return lambda block: pattern.search(block) is not None
