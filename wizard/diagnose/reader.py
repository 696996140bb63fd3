"""A log as bytes -> numbered lines of text: one pass, bounded memory.

Small logs come through whole. Of a large one its beginning stays (arguments, release, first failure), and of
the rest only blocks in which something may have gone wrong, the latest of them; so a gigabyte of chatter around
one crash costs a scan and no memory.
"""

from __future__ import annotations

import codecs
import zlib

TYPE_CHECKING = False  # typing and collections.abc cost a small log a good part of its time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16
HEAD_BYTES = 4 << 20  # kept whole
PINNED_BYTES = 2 << 20  # the first suspicious blocks behind the head
TAIL_BYTES = 8 << 20  # the last suspicious blocks
LONGEST_LINE_CHARS = 1 << 16  # a longer line is cut: no message is that long

# Words without which no line of a failure is written. Lines of a healthy server hold none of them.
SUSPICIOUS = (
    b"Error", b"ERROR", b"Exception", b"Traceback", b"Interrupt", b"error:", b'  File "', b"Killed", b"died",
    b"NCCL WARN", b"ailed", b"API server version", b"  version ", b"non-default args", b"startup complete",
    b"SIGTERM", b"dxgk",
)  # fmt: skip


class NumberedLines:
    """``numbers[i]`` is the line number (from 1) of ``lines[i]``; ``total`` counts all lines of the input."""

    __slots__ = ("lines", "numbers", "total", "whole")

    def __init__(self, lines: list[str], numbers: list[int] | range, total: int, whole: bool) -> None:
        self.lines = lines
        self.numbers = numbers
        self.total = total
        self.whole = whole


def read(stream: BinaryIO) -> NumberedLines:
    """All that matters of a log in any encoding, compressed with gzip or not. Raises OSError as reading does."""
    chunks = _plain_chunks(stream)
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
    return _sieve(_joined(first, chunks))


def read_bytes(data: bytes) -> NumberedLines:
    """The same of bytes in memory."""
    import io

    return read(io.BytesIO(data))


def _joined(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first[3:] if first.startswith(codecs.BOM_UTF8) else first
    yield from rest


def _plain_chunks(stream: BinaryIO) -> Iterator[bytes]:
    first = stream.read(CHUNK_BYTES)
    if not first.startswith(b"\x1f\x8b"):
        while first:
            yield first
            first = stream.read(CHUNK_BYTES)
        return
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    while first:
        # max_length bounds what a small hostile archive can blow up to at once.
        data = first
        while data:
            try:
                out = unpack.decompress(data, CHUNK_BYTES)
            except zlib.error:
                return  # cut or damaged: what came so far is looked at
            if out:
                yield out
            data = unpack.unconsumed_tail
            if unpack.eof:
                data = unpack.unused_data
                if not data.startswith(b"\x1f\x8b"):
                    return
                unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        first = stream.read(CHUNK_BYTES)


def _wide_decoder(sample: bytes) -> codecs.IncrementalDecoder | None:
    """A decoder when the text is UTF-16, with its mark or without (as PowerShell's > writes it)."""
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.getincrementaldecoder("utf-16")("replace")
    head = sample[:400]
    if len(head) >= 4:
        pairs = len(head) // 2
        if head[1::2].count(0) > 0.6 * pairs:
            return codecs.getincrementaldecoder("utf-16-le")("replace")
        if head[0::2].count(0) > 0.6 * pairs:
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
    text = data.decode("utf-8", "replace")
    if "\r" in text:
        # A progress bar rewrites its line with a bare CR: it stays one line, as editors and grep count it.
        text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(text) > LONGEST_LINE_CHARS:
        lines = [line if len(line) <= LONGEST_LINE_CHARS else line[:LONGEST_LINE_CHARS] for line in lines]
    return lines


def _sieve_large(head: bytes, chunks: Iterator[bytes]) -> NumberedLines:
    from collections import deque

    suspicious = _scanner()
    cut = head.rfind(b"\n", 0, HEAD_BYTES) + 1
    if cut == 0:
        cut = min(len(head), HEAD_BYTES)
    kept_head, rest = head[:cut], head[cut:]
    count = kept_head.count(b"\n")
    pinned: list[tuple[int, bytes]] = []
    pinned_size = tail_size = 0
    tail: deque[tuple[int, bytes]] = deque()
    last: tuple[int, bytes] | None = None  # the block before: an exception may stand on its first lines

    def offer(block: bytes) -> None:
        nonlocal count, pinned_size, tail_size, last
        here = (count, block)
        count += block.count(b"\n")
        if not suspicious(block):
            last = here
            return
        for item in (last, here):
            if item is None:
                continue
            if pinned_size < PINNED_BYTES:
                pinned.append(item)
                pinned_size += len(item[1])
                continue
            tail.append(item)
            tail_size += len(item[1])
            while tail_size > TAIL_BYTES:
                tail_size -= len(tail.popleft()[1])
        last = None

    for chunk in _chain(rest, chunks):
        for block in chunk:
            offer(block)
    lines = _lines(kept_head)
    numbers = list(range(1, len(lines) + 1))
    ending = [last] if last is not None else []  # how a log ends always matters
    for before, block in (*pinned, *tail, *ending):
        part = _lines(block)
        lines += part
        numbers += range(before + 1, before + 1 + len(part))
    total = count + (0 if lines and not _ends_open(pinned, tail, last) else 1)
    return NumberedLines(lines, numbers, total, False)


def _ends_open(pinned: object, tail: object, last: tuple[int, bytes] | None) -> bool:
    return last is not None and not last[1].endswith(b"\n")


def _chain(rest: bytes, chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Blocks of about :data:`BLOCK_BYTES` that end at line ends."""
    carry = rest
    for chunk in chunks:
        data = carry + chunk
        blocks, carry = _blocks(data)
        yield blocks
    if carry:
        yield [carry]


def _blocks(data: bytes) -> tuple[list[bytes], bytes]:
    blocks: list[bytes] = []
    at, size = 0, len(data)
    while size - at > BLOCK_BYTES:
        end = data.rfind(b"\n", at, at + BLOCK_BYTES) + 1
        if end == 0:
            end = data.find(b"\n", at + BLOCK_BYTES) + 1
            if end == 0:
                if size - at > 16 * CHUNK_BYTES:
                    # No line ends at all: such a line is not kept growing.
                    return blocks, data[at : at + CHUNK_BYTES]
                break
        blocks.append(data[at:end])
        at = end
    return blocks, data[at:]


def _scanner() -> Callable[[bytes], bool]:
    """Whether a block holds one of :data:`SUSPICIOUS`."""
    words = SUSPICIOUS

    def scan(block: bytes) -> bool:
        return any(word in block for word in words)

    return scan
