"""Copying and reading back small files, in this process or in one of its own.

With thousands of small files Python's lock, not the disk, is what threads wait for: so the mover starts a few
processes that run this very file. It stands alone for that reason (nothing but light modules, no other module of
the wizard), and speaks in messages: four bytes of length, then a marshalled tuple.

    ("copy", [(source, path, size, mtime_ns, mode, wants_git), ...])  ->  ("done", [(sha256, git_sha1), ...])
    ("back", [(path, size, sha256), ...])                             ->  ("done", whether the cache was passed)
    ("fail", number of the row, what, errno, text)      what: "source" "target" "changed" "unequal"
"""

from __future__ import annotations

import errno
import hashlib
import marshal
import mmap
import os
import struct

TYPE_CHECKING = False  # typing itself is left out: each process would pay for it
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

SMALL = 2 * 1024 * 1024  # the largest file that is copied in one piece
ALIGNMENT = 4096
BUFFER_BYTES = SMALL + 2 * ALIGNMENT
ANY_TIME = -1
QUEUE_LENGTH = 64  # read requests that are under way at once
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_READ: int = os.O_RDONLY | _CLOEXEC | getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place must not hang us
_DIRECT: int = getattr(os, "O_DIRECT", 0)
_CREATE: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOEXEC

if TYPE_CHECKING:
    AnyPath = str | bytes
    CopyRow = tuple[AnyPath, AnyPath, int, int, int, bool]
    BackRow = tuple[AnyPath, int, str]
    ReadRow = tuple[AnyPath, int, int]  # path, size, mtime_ns or ANY_TIME


class Failed(Exception):
    """A file could not be copied or proven."""

    def __init__(self, row: int, what: str, code: int = 0, text: str = "") -> None:
        super().__init__(row, what, code, text)
        self.row = row
        self.what = what
        self.code = code
        self.text = text


def new_view() -> memoryview:
    """Memory for at least one file, aligned to a page as O_DIRECT wants it."""
    return memoryview(mmap.mmap(-1, BUFFER_BYTES))


def copy_files(rows: list[CopyRow], reader: Reader) -> list[tuple[str, str]]:
    """Copy each file whole, without flushing it: SHA-256 and, where wanted, git's SHA-1 of what was read."""
    done = []
    wanted = [(source, size, mtime_ns) for source, _path, size, mtime_ns, _mode, _git in rows]
    for n, content, _past_cache in reader.contents(wanted, "source"):
        _source, path, size, mtime_ns, mode, wants_git = rows[n]
        if content is None:
            raise Failed(n, "changed")
        git = ""
        if wants_git:
            hasher = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
            hasher.update(content)
            git = hasher.hexdigest()
        try:
            write_copy(path, content, mtime_ns, mode)
        except OSError as error:
            raise Failed(n, "target", error.errno or 0, error.strerror or str(error)) from error
        done.append((hashlib.sha256(content).hexdigest(), git))
    return done


def write_copy(path: AnyPath, content: memoryview, mtime_ns: int, mode: int) -> None:
    fd = os.open(path, _CREATE, mode)
    try:
        written = 0
        while written < len(content):
            written += os.write(fd, content[written:])
        os.utime(fd, ns=(mtime_ns, mtime_ns))
    finally:
        os.close(fd)


def read_back_files(rows: list[BackRow], reader: Reader) -> bool:
    """Read flushed copies from the disk and compare; whether all of them passed the page cache."""
    passed = True
    for n, content, past_cache in reader.contents([(path, size, ANY_TIME) for path, size, _sha256 in rows], "target"):
        passed = passed and past_cache
        if content is None or hashlib.sha256(content).hexdigest() != rows[n][2]:
            raise Failed(n, "unequal")
    return passed


class Reader:
    """Reads many small files, with as many requests under way at once as the buffer has room for.

    One request after the other would leave the disk idle between them, and neighbours on the disk would be read
    one by one: handed to the kernel together (Linux AIO with O_DIRECT) they are merged, and pass the page cache.
    Where that is not to be had, each file is read on its own.
    """

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._queue = _AioQueue.open(view)
        self._refused: set[str] = set()  # sides whose file system takes no direct reads

    def contents(self, rows: list[ReadRow], side: str) -> Iterator[tuple[int, memoryview | None, bool]]:
        """Number, content and whether the page cache was passed, for each row.

        The content is None where the file's size or time is another than the row says; it is valid until the next
        one is asked for. ``side``: "source" or "target", which a failure names.
        """
        first = 0
        while first < len(rows):
            spans: list[tuple[int, int]] = []  # where in the buffer each file of this round goes
            position = 0
            for _path, size, _time in rows[first : first + QUEUE_LENGTH]:
                room = room_for(size)
                if spans and position + room > len(self._view):
                    break
                spans.append((position, room))
                position += room
            yield from self._round(rows, first, spans, side)
            first += len(spans)

    def _round(
        self, rows: list[ReadRow], first: int, spans: list[tuple[int, int]], side: str
    ) -> Iterator[tuple[int, memoryview | None, bool]]:
        read = self._together(rows[first : first + len(spans)], spans, side)
        for k, (position, room) in enumerate(spans):
            n = first + k
            path, size, mtime_ns = rows[n]
            unchanged, past_cache = read[k], True
            if not unchanged:
                view = self._view[position : position + room]
                try:
                    if side == "source":
                        unchanged = read_source(path, view, size, mtime_ns)
                    else:
                        count, past_cache = read_back_whole(path, view)
                        unchanged = count == size
                except OSError as error:
                    raise Failed(n, side, error.errno or 0, error.strerror or str(error)) from error
            yield n, self._view[position : position + size] if unchanged else None, past_cache

    def _together(self, rows: list[ReadRow], spans: list[tuple[int, int]], side: str) -> list[bool]:
        """Which files were read as they should be; the others have to be read on their own."""
        read = [False] * len(rows)
        if self._queue is None or len(rows) < 2 or side in self._refused:
            return read
        opened: list[tuple[int, int]] = []  # number, descriptor
        try:
            for k, (path, _size, _time) in enumerate(rows):
                try:
                    opened.append((k, os.open(path, _READ | _DIRECT)))
                except OSError:
                    continue  # the single read finds out why
            for (k, fd), count in zip(opened, self._queue.read([(fd, *spans[k]) for k, fd in opened])):  # noqa: B905
                _path, size, mtime_ns = rows[k]
                read[k] = count == size and (mtime_ns == ANY_TIME or is_as_planned(fd, size, mtime_ns))
        finally:
            for _k, fd in opened:
                os.close(fd)
        if not any(read):
            self._refused.add(side)
        return read


def is_as_planned(fd: int, size: int, mtime_ns: int) -> bool:
    """Whether an open file still has the size and the time that it had when it was listed."""
    st = os.fstat(fd)
    return st.st_size == size and st.st_mtime_ns == mtime_ns


def read_source(path: AnyPath, view: memoryview, size: int, mtime_ns: int) -> bool:
    """Read a file into ``view``, which has room for more than it should hold; whether it is as it was listed."""
    fd = os.open(path, _READ)
    try:
        count = os.readv(fd, [view])
        while 0 < count < size:
            more = os.readv(fd, [view[count:]])
            if more == 0:
                break
            count += more
        return count == size and is_as_planned(fd, size, mtime_ns)
    finally:
        os.close(fd)


def room_for(size: int) -> int:
    """Buffer for a file that should have ``size`` bytes, whole blocks: one byte more would show in it."""
    return (size // ALIGNMENT + 1) * ALIGNMENT


_AIO_CALLS = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}  # numbers of io_setup, io_getevents, io_submit
_AIO_REQUEST = "<QIIHhIQQqQII"  # struct iocb: 64 bytes
_AIO_EVENT = "<QQqq"  # struct io_event: 32 bytes


class _AioQueue:
    """The kernel's queue for direct reads, spoken to by system calls: the standard library has no words for it."""

    def __init__(
        self, view: memoryview, call: Callable[..., int], numbers: tuple[int, int, int], context: int
    ) -> None:
        import ctypes

        self.view = view
        self._call = call
        _setup, self._getevents, self._submit = numbers
        self._context = ctypes.c_ulong(context)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(view))
        self._requests = ctypes.create_string_buffer(64 * QUEUE_LENGTH)
        self._events = ctypes.create_string_buffer(32 * QUEUE_LENGTH)
        base = ctypes.addressof(self._requests)
        self._pointers = (ctypes.c_uint64 * QUEUE_LENGTH)(*(base + 64 * k for k in range(QUEUE_LENGTH)))

    @classmethod
    def open(cls, view: memoryview) -> _AioQueue | None:
        """A queue for reads into ``view``; None where there is none."""
        numbers = _AIO_CALLS.get(os.uname().machine) if _DIRECT and hasattr(os, "uname") else None
        if numbers is None:
            return None
        try:
            import ctypes

            call = ctypes.CDLL(None, use_errno=True).syscall
            context = ctypes.c_ulong(0)
            if call(ctypes.c_long(numbers[0]), ctypes.c_long(QUEUE_LENGTH), ctypes.byref(context)) != 0:
                return None
            return cls(view, call, numbers, context.value)
        except (ImportError, OSError, AttributeError, TypeError, ValueError):
            return None

    def read(self, wanted: list[tuple[int, int, int]]) -> list[int]:
        """Read each (descriptor, place in the buffer, length) from its beginning: how many bytes came, in order.

        A number below zero: the kernel did not want to read it in this way.
        """
        import ctypes

        for k, (fd, place, length) in enumerate(wanted):
            struct.pack_into(
                _AIO_REQUEST, self._requests, 64 * k, k, 0, 0, 0, 0, fd, self._address + place, length, 0, 0, 0, 0
            )
        counts = [-1] * len(wanted)
        left = 0
        if wanted:
            left = self._call(ctypes.c_long(self._submit), self._context, ctypes.c_long(len(wanted)), self._pointers)
        while left > 0:
            # What is under way writes into the buffer: nothing may be returned before the last of it is in.
            came = self._call(
                ctypes.c_long(self._getevents), self._context, ctypes.c_long(left), ctypes.c_long(left), self._events, None
            )
            if came < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), "io_getevents")
            for n in range(came):
                k, _request, result, _more = struct.unpack_from(_AIO_EVENT, self._events, 32 * n)
                counts[k] = result
            left -= max(0, came)
        return counts


def read_back_whole(path: AnyPath, view: memoryview) -> tuple[int, bool]:
    """Read a file from the disk into ``view``: bytes read, and whether the page cache was passed."""
    if _DIRECT:
        fd = -1
        try:
            fd = os.open(path, os.O_RDONLY | _CLOEXEC | _DIRECT)
            return _read_all(fd, view), True
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
        finally:
            if fd >= 0:
                os.close(fd)
    fd = os.open(path, os.O_RDONLY | _CLOEXEC)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        return _read_all(fd, view), False
    finally:
        os.close(fd)


def _read_all(fd: int, view: memoryview) -> int:
    """Read to the end; with O_DIRECT a count that is no multiple of a block is the end."""
    done = os.readv(fd, [view])
    while done and done % ALIGNMENT == 0 and done < len(view):
        count = os.readv(fd, [view[done:]])
        if count == 0:
            break
        done += count
    return done


# --- the process


def receive(fd: int) -> Any:
    """The next message; None at the end of the pipe."""
    head = _exactly(fd, 4)
    if head is None:
        return None
    body = _exactly(fd, int.from_bytes(head, "little"))
    return None if body is None else marshal.loads(body)  # noqa: S302  (our own process at the other end)


def send(fd: int, message: Any) -> None:
    body = marshal.dumps(message)
    data = memoryview(len(body).to_bytes(4, "little") + body)
    while data:
        data = data[os.write(fd, data) :]


def _exactly(fd: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Worker:
    """One worker's buffer, and what it does with it."""

    def __init__(self) -> None:
        self._view = new_view()
        self._reader = Reader(self._view)

    def answer(self, kind: str, rows: list[Any]) -> tuple[object, ...]:
        """Do what a message asks for."""
        try:
            if kind == "copy":
                return ("done", copy_files(rows, self._reader))
            return ("done", read_back_files(rows, self._reader))
        except Failed as failed:
            return ("fail", failed.row, failed.what, failed.code, failed.text)


def main() -> None:
    """Serve until the other end is closed, which happens when the mover ends, however it ends."""
    # Ctrl-C is for the mover, which then ends this process in order.
    os.setpgid(0, 0)
    worker = Worker()
    while True:
        message = receive(0)
        if message is None:
            return
        send(1, worker.answer(*message))
