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
from typing import Any

SMALL = 2 * 1024 * 1024  # the largest file that is copied in one piece
ALIGNMENT = 4096
BUFFER_BYTES = SMALL + 2 * ALIGNMENT
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_READ: int = os.O_RDONLY | _CLOEXEC | getattr(os, "O_NONBLOCK", 0)
_CREATE: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOEXEC

CopyRow = tuple[str, str, int, int, int, bool]
BackRow = tuple[str, int, str]


class Failed(Exception):
    """A file could not be copied or proven."""

    def __init__(self, row: int, what: str, code: int = 0, text: str = "") -> None:
        super().__init__(row, what, code, text)
        self.row = row
        self.what = what
        self.code = code
        self.text = text


def new_view() -> memoryview:
    """Memory for one file, aligned to a page as O_DIRECT wants it."""
    return memoryview(mmap.mmap(-1, BUFFER_BYTES))


def copy_files(rows: list[CopyRow], view: memoryview) -> list[tuple[str, str]]:
    """Copy each file whole, without flushing it: SHA-256 and, where wanted, git's SHA-1 of what was read."""
    done = []
    for n, (source, path, size, mtime_ns, mode, wants_git) in enumerate(rows):
        try:
            count = read_source(source, view[: size + 1])
        except OSError as error:
            raise Failed(n, "source", error.errno or 0, error.strerror or str(error)) from error
        if count != size:
            raise Failed(n, "changed")
        content = view[:size]
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


def read_source(path: str, view: memoryview) -> int:
    """Read a file into ``view``, which has room for one byte more than it should hold. O_NONBLOCK: a pipe that
    took the file's place must not hang us."""
    fd = os.open(path, _READ)
    try:
        wanted = len(view) - 1
        count = os.readv(fd, [view])
        while 0 < count < wanted:
            more = os.readv(fd, [view[count:]])
            if more == 0:
                break
            count += more
        return count
    finally:
        os.close(fd)


def write_copy(path: str, content: memoryview, mtime_ns: int, mode: int) -> None:
    fd = os.open(path, _CREATE, mode)
    try:
        written = 0
        while written < len(content):
            written += os.write(fd, content[written:])
        os.utime(fd, ns=(mtime_ns, mtime_ns))
    finally:
        os.close(fd)


def read_back_files(rows: list[BackRow], view: memoryview) -> bool:
    """Read flushed copies from the disk and compare; whether all of them passed the page cache."""
    passed = True
    for n, (path, size, sha256) in enumerate(rows):
        try:
            count, past_cache = read_back_whole(path, view)
        except OSError as error:
            raise Failed(n, "target", error.errno or 0, error.strerror or str(error)) from error
        if count != size or hashlib.sha256(view[:count]).hexdigest() != sha256:
            raise Failed(n, "unequal")
        passed = passed and past_cache
    return passed


def read_back_whole(path: str, view: memoryview) -> tuple[int, bool]:
    """Read a file from the disk into ``view``: bytes read, and whether the page cache was passed."""
    direct: int = getattr(os, "O_DIRECT", 0)
    if direct:
        fd = -1
        try:
            fd = os.open(path, os.O_RDONLY | _CLOEXEC | direct)
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


def receive(fd: int) -> object:
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


def answer(message: tuple[str, list[tuple[object, ...]]], view: memoryview) -> tuple[object, ...]:
    """Do what a message asks for."""
    kind, rows = message
    try:
        if kind == "copy":
            return ("done", copy_files(rows, view))  # type: ignore[arg-type]
        return ("done", read_back_files(rows, view))  # type: ignore[arg-type]
    except Failed as failed:
        return ("fail", failed.row, failed.what, failed.code, failed.text)


def main() -> None:
    """Serve until the other end is closed, which happens when the mover ends, however it ends."""
    # Ctrl-C is for the mover, which then ends this process in order.
    os.setpgid(0, 0)
    view = new_view()
    while True:
        message = receive(0)
        if message is None:
            return
        send(1, answer(message, view))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
