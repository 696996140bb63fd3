"""Reading and writing past the page cache, where the system lets one; plain calls everywhere else.

A copy that is to be proven must be read back from the disk, not from the memory that was just written. Writing
and reading with O_DIRECT does that, and keeps a hundred gigabytes from pushing everything else out of memory
(in WSL2 that memory is taken from Windows). File systems that refuse it get fsync and POSIX_FADV_DONTNEED.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Callable
from typing import Any

from wizard.models.move_worker import ALIGNMENT

_O_DIRECT: int = getattr(os, "O_DIRECT", 0)
_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)


class Buffer:
    """Memory that is aligned to a page, as O_DIRECT wants it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._map = mmap.mmap(-1, size)
        self.view = memoryview(self._map)


def read_at(fd: int, view: memoryview, offset: int) -> int:
    """Fill ``view`` from ``offset``; fewer bytes only at the end of the file."""
    done = 0
    while done < len(view):
        count = os.preadv(fd, [view[done:]], offset + done)
        if count == 0:
            break
        done += count
    return done


def write_at(fd: int, view: memoryview, offset: int) -> None:
    """Write all of ``view`` at ``offset``."""
    done = 0
    while done < len(view):
        done += os.pwritev(fd, [view[done:]], offset + done)


def round_up(count: int) -> int:
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def open_source(path: str) -> int:
    """A source file for reading. O_NONBLOCK: a pipe that took the file's place must not hang us."""
    return os.open(path, os.O_RDONLY | _CLOEXEC | os.O_NONBLOCK)


def advise_sequential(fd: int) -> None:
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)


def drop_cached(fd: int, offset: int, length: int) -> None:
    """Let the kernel forget what it holds of the file there."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)


class Target:
    """One file of the copy, open for writing and for reading back. ``direct`` says whether both pass the cache."""

    def __init__(self, path: str, size_bytes: int, keep_bytes: int) -> None:
        """``keep_bytes``: how much of what the file holds is kept; what lies behind is thrown away."""
        flags = os.O_RDWR | os.O_CREAT | _CLOEXEC | (0 if keep_bytes else os.O_TRUNC)
        self.size_bytes = size_bytes
        self.direct = bool(_O_DIRECT)
        try:
            self.fd = os.open(path, flags | _O_DIRECT, 0o600)
        except OSError as error:
            if not _O_DIRECT or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            self.direct = False
            self.fd = os.open(path, flags, 0o600)
        if keep_bytes and os.fstat(self.fd).st_size > keep_bytes:
            # What was written but not proven may be anything, also where a sparse file is to have a hole.
            os.ftruncate(self.fd, keep_bytes)

    def write(self, buffer: Buffer, count: int, offset: int) -> None:
        """Write the first ``count`` bytes of the buffer; the file's tail may be padded until :meth:`trim`."""
        padded = round_up(count) if self.direct else count
        try:
            write_at(self.fd, buffer.view[:padded], offset)
        except OSError as error:
            if not self.direct or error.errno != errno.EINVAL:
                raise
            self._leave_direct()
            write_at(self.fd, buffer.view[:count], offset)

    def read(self, buffer: Buffer, count: int, offset: int) -> int:
        """Read up to ``count`` bytes back, from the disk where the system lets us."""
        if not self.direct:
            drop_cached(self.fd, offset, count)
            return read_at(self.fd, buffer.view[:count], offset)
        try:
            return min(count, read_at(self.fd, buffer.view[: round_up(count)], offset))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._leave_direct()
            return self.read(buffer, count, offset)

    def _leave_direct(self) -> None:
        import fcntl

        fcntl.fcntl(self.fd, fcntl.F_SETFL, fcntl.fcntl(self.fd, fcntl.F_GETFL) & ~_O_DIRECT)
        self.direct = False

    def reserve(self) -> None:
        """Claim the file's room at once, so that a full disk shows before the hours are spent."""
        allocate(self.fd, self.size_bytes)

    def trim(self) -> None:
        os.ftruncate(self.fd, self.size_bytes)

    def sync(self) -> None:
        getattr(os, "fdatasync", os.fsync)(self.fd)

    def stamp(self, mtime_ns: int, mode: int) -> None:
        os.fchmod(self.fd, mode)
        os.utime(self.fd, ns=(mtime_ns, mtime_ns))

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


_libc: Any = None


def _c_library() -> Any:
    global _libc
    if _libc is None:
        import ctypes

        _libc = ctypes.CDLL(None, use_errno=True)
    return _libc


def sync_filesystem(path: str) -> None:
    """Everything written so far to the file system of ``path`` is on the disk when this returns."""
    try:
        call: Callable[[int], int] = _c_library().syncfs
    except (AttributeError, OSError, TypeError):
        os.sync()
        return
    fd = os.open(path, os.O_RDONLY | _CLOEXEC)
    try:
        if call(fd) != 0:
            import ctypes

            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(fd)


def allocate(fd: int, size_bytes: int) -> None:
    """Reserve room. Raises OSError (ENOSPC) when it is not there; file systems that cannot reserve do nothing.

    The system call itself: the C library's posix_fallocate would write zeros where it is not supported.
    """
    if size_bytes <= 0:
        return
    try:
        import ctypes

        call = _c_library().fallocate
        call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
    except (AttributeError, OSError, TypeError, ImportError):
        return
    while call(fd, 0, 0, size_bytes) != 0:
        code = ctypes.get_errno()
        if code == errno.EINTR:
            continue
        if code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(code, os.strerror(code))
        return
