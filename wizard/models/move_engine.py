"""The copying itself: reading, hashing, writing and reading back, all at the same time.

Large files pass through a line of threads, each of which lets go of Python's lock while it works::

    readers -> hasher -> writer -> verifier (flush, read back from the disk, compare, note in the journal)

The reading of the next file begins while the last one is still being read back. Two readers keep two requests
under way, in order, so that a spinning disk still reads in one sweep. Small files go through a pool of workers:
they are bound by the time each request takes, not by the amount. They are flushed together, then read back.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.models import move_io as io
from wizard.models import move_worker
from wizard.models.move_record import Journal, Proven
from wizard.models.move_scan import show
from wizard.models.move_types import BlobRule, MoveFile

MIB = 1024 * 1024
BLOCK = 4 * MIB  # one read, one write
STRETCH = 64 * MIB  # flushed, read back and noted as one
SMALL = move_worker.SMALL  # up to here a file is copied in one piece
BUFFERS = 10  # blocks on their way, in each line
READERS = 2
SLOW_READERS = 4  # a Windows drive answers each request late: keep more of them under way
FAST_SOURCE_BYTES_PER_S = 600e6  # from here on one hash is what limits: two files at once
SMALL_WORKERS = 6  # half read the source while half read back: neither disk waits for the other
SLOW_SMALL_WORKERS = 8  # where each request travels to Windows or over a network
PROCESSES_FROM = 200  # so many small files are worth processes of their own
SMALL_BATCH = 512  # small files that are flushed together


class Cancelled(Exception):
    """The user wants to stop; what is proven stays."""


class Control:
    """Pause, cancel and failure, seen by all threads."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._go.set()
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        self.error: BaseException | None = None

    def pause(self) -> None:
        self._go.clear()

    def resume(self) -> None:
        self._go.set()

    @property
    def paused(self) -> bool:
        return not self._go.is_set()

    def cancel(self) -> None:
        self.fail(Cancelled())

    def fail(self, error: BaseException) -> None:
        """Stop everything; the first cause counts."""
        with self._lock:
            if self.error is None:
                self.error = error
        self.stopped.set()
        self._go.set()

    def gate(self) -> None:
        """Wait while paused; raise Cancelled when all is to end."""
        self._go.wait()
        if self.stopped.is_set():
            raise Cancelled


@dataclass
class Counters:
    """What has happened so far; added to under a lock, read without."""

    bytes_proven: int = 0
    bytes_read: int = 0
    files_proven: int = 0
    current: str = ""
    cache_passed: bool | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, proven: int = 0, read: int = 0, files: int = 0) -> None:
        with self._lock:
            self.bytes_proven += proven
            self.bytes_read += read
            self.files_proven += files

    def saw(self, past_cache: bool) -> None:
        with self._lock:
            self.cache_passed = past_cache if self.cache_passed is None else self.cache_passed and past_cache


@dataclass
class Task:
    """One file to copy: from ``start`` on, with the hash of what lies before."""

    file: MoveFile
    path: str  # of the copy
    start: int = 0
    hasher: Any = field(default_factory=hashlib.sha256)  # of the source's bytes so far
    back_hasher: Any = field(default_factory=hashlib.sha256)  # of the bytes read back so far
    git_hasher: Any = None
    source_fd: int = -1
    target: io.Target | None = None
    holes: list[tuple[int, int]] | None = None  # (start, end) of the data in a sparse source; None: all is data

    def close(self) -> None:
        if self.source_fd >= 0:
            os.close(self.source_fd)
            self.source_fd = -1
        if self.target is not None:
            self.target.close()
            self.target = None


@dataclass
class Block:
    """A stretch of one file on its way through the line."""

    task: Task
    offset: int
    count: int
    buffer: io.Buffer | None  # None: a hole, nothing to write
    last: bool
    digest: str = ""  # SHA-256 of the file up to the end of this block, when it ends a stretch


def mode_for(mode: int, from_windows: bool, umask: int) -> int:
    """Permission bits of the copy. Windows drives show everything as 0777, which means nothing."""
    if from_windows and mode & 0o777 == 0o777:
        mode = 0o644
    return (mode & 0o777 & ~umask) | 0o600


def current_umask() -> int:
    """The process's umask, without changing it as os.umask would."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as handle:
            return next(int(line.split()[1], 8) for line in handle if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0o022


class Copier:
    """Copies and proves a list of files. :meth:`run` returns when all are proven, or raises what went wrong."""

    def __init__(
        self,
        small: list[MoveFile],
        large: list[Task],
        data_dir: str,
        journal: Journal,
        control: Control,
        counters: Counters,
        from_windows: bool,
        watch: Callable[[], None],
        lanes: int = 1,
        helpers: Sequence[Helper] = (),
    ) -> None:
        """``helpers``: processes that were started for small files; fewer than workers: the rest is done here."""
        self.helpers = list(helpers)
        self._lanes = lanes
        self._small = deque(small)
        self._large = large
        self.proven: dict[str, Proven] = {}
        self._data_dir = data_dir
        self._journal = journal
        self._journal_lock = threading.Lock()
        self._control = control
        self._counters = counters
        self._from_windows = from_windows
        self._umask = current_umask()
        self._watch = watch
        self._threads: list[threading.Thread] = []

    def run(self, tick: Callable[[], None], interval_s: float = 0.1) -> None:
        """Work until done; ``tick`` is called from this thread all the while."""
        if self._small:
            _SmallFiles(self, self._small).start(self._threads)
        for share in shares(self._large, self._lanes):
            _LargeFiles(self, share).start(self._threads)
        last_watch = time.monotonic()
        try:
            for thread in self._threads:
                while thread.is_alive():
                    thread.join(interval_s)
                    tick()
                    if time.monotonic() - last_watch > 2.0:
                        last_watch = time.monotonic()
                        self._watch()
                    if self._control.stopped.is_set():
                        break
        except BaseException as error:
            self._control.fail(error)
        self._end()
        if self._control.error is not None:
            raise self._control.error

    def _end(self) -> None:
        # A reader may hang on a dead network drive for minutes: it writes nothing, so it is left behind.
        limit = time.monotonic() + 10.0
        for thread in self._threads:
            thread.join(max(0.0, limit - time.monotonic()) if self._control.stopped.is_set() else None)
        with self._journal_lock, contextlib.suppress(OSError):
            self._journal.sync()

    # --- what both kinds of work share

    def spawn(self, threads: list[threading.Thread], work: Callable[[], None], name: str) -> None:
        def guarded() -> None:
            try:
                work()
            except Cancelled:
                self._control.fail(Cancelled())
            except BaseException as error:  # must reach the caller, whatever it is
                self._control.fail(error)

        thread = threading.Thread(target=guarded, name=f"move-{name}", daemon=True)
        threads.append(thread)
        thread.start()

    def note(self, entries: list[tuple[str, Proven]]) -> None:
        with self._journal_lock:
            self._journal.add(entries)
            self.proven.update(entries)

    @property
    def control(self) -> Control:
        return self._control

    @property
    def counters(self) -> Counters:
        return self._counters

    @property
    def data_dir(self) -> str:
        return self._data_dir

    @property
    def readers(self) -> int:
        return SLOW_READERS if self._from_windows else READERS

    @property
    def small_workers(self) -> int:
        return small_workers(self._from_windows)

    def mode(self, file: MoveFile) -> int:
        return mode_for(file.mode, self._from_windows, self._umask)


def small_workers(from_windows: bool) -> int:
    """How many small files' workers there are."""
    return SLOW_SMALL_WORKERS if from_windows else SMALL_WORKERS


def lanes_for(rate_bytes_per_s: float | None, cores: int) -> int:
    """How many large files are copied at once: two where the source is faster than one hash, and cores are free.

    A slow or spinning source is read best in one sweep.
    """
    return 2 if cores >= 4 and (rate_bytes_per_s or 0.0) > FAST_SOURCE_BYTES_PER_S else 1


def shares(tasks: list[Task], lanes: int) -> list[list[Task]]:
    """The tasks dealt to lanes so that each has about the same amount; empty shares are left out."""
    dealt: list[list[Task]] = [[] for _n in range(max(1, lanes))]
    amounts = [0] * len(dealt)
    for task in tasks:
        lightest = amounts.index(min(amounts))
        dealt[lightest].append(task)
        amounts[lightest] += task.file.size_bytes - task.start
    return [share for share in dealt if share]


def source_error(file: MoveFile, error: OSError) -> WizardError:
    """The source failed while it was read."""
    gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EHOSTDOWN)
    hint = (
        _("the source has vanished; bring the drive back")
        if gone
        else _("look whether a Windows program has it open, and whether the drive is well")
    )
    return WizardError(
        _("{path} cannot be read: {why}. What is copied so far is kept: {hint}, then run the same command again").format(
            path=show(file.source), why=error.strerror or str(error), hint=hint
        )
    )


def target_error(path: str, error: OSError) -> WizardError:
    """The destination failed while it was written or read back."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WizardError(
            _("the disk is full at {path}. What is copied so far is kept: make room, then run the same command again").format(
                path=show(path)
            )
        )
    return WizardError(
        _("{path} cannot be written: {why}. The source is untouched; run the same command again to go on").format(
            path=show(path), why=error.strerror or str(error)
        )
    )


def changed_error(file: MoveFile) -> WizardError:
    return WizardError(
        _("{path} changed while it was copied. Let the program that writes it finish, then run the same command again").format(
            path=show(file.source)
        )
    )


def not_equal_error(path: str) -> WizardError:
    return WizardError(
        _(
            "{path} was read back differently from what was written: the disk or the memory is at fault. The source is "
            "untouched. Run the same command again; if it happens again, check the disk before you trust it"
        ).format(path=show(path))
    )


def check_promise(file: MoveFile, sha256: str) -> None:
    """A blob's name promises its content: hold it to that."""
    if file.expect_sha256 and file.expect_sha256 != sha256:
        raise WizardError(
            _(
                "{path} is damaged in the source already: its SHA-256 is {found}, its name or download record says "
                "{wanted}. Download it again"
            ).format(path=show(file.source), found=sha256, wanted=file.expect_sha256)
        )


def new_git_hasher(size_bytes: int) -> Any:
    """Git's hash of a blob: SHA-1 over a small header and the content."""
    hasher = hashlib.sha1(usedforsecurity=False)
    hasher.update(b"blob %d\0" % size_bytes)
    return hasher


def needs_git_hash(file: MoveFile) -> bool:
    return bool(file.expect_git) or file.blob_rule is BlobRule.GIT


def data_stretches(fd: int, size: int) -> list[tuple[int, int]] | None:
    """Where a sparse file has data; None when the file system does not tell."""
    if not hasattr(os, "SEEK_DATA"):
        return None
    found: list[tuple[int, int]] = []
    position = 0
    try:
        while position < size:
            try:
                start = os.lseek(fd, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break
                raise
            end = os.lseek(fd, start, os.SEEK_HOLE)
            found.append((start, min(end, size)))
            position = end
    except OSError:
        return None
    return found


def is_hole(task: Task, offset: int, count: int) -> bool:
    """Whether a stretch of the source holds no data at all."""
    if task.holes is None:
        return False
    return all(end <= offset or start >= offset + count for start, end in task.holes)


class _LargeFiles:
    """The line of threads for large files."""

    def __init__(self, copier: Copier, tasks: list[Task]) -> None:
        self._c = copier
        self._plan = self._segments(tasks)
        self._plan_lock = threading.Lock()
        self._next_number = 0
        self._free: queue.Queue[io.Buffer] = queue.Queue()
        for _n in range(BUFFERS):
            self._free.put(io.Buffer(BLOCK))
        self._arrived: dict[int, Block | None] = {}
        self._arrival = threading.Condition()
        self._to_write: queue.Queue[Block | None] = queue.Queue(BUFFERS)
        self._to_verify: queue.Queue[Block | None] = queue.Queue(8)
        self._readers_left = copier.readers

    def start(self, threads: list[threading.Thread]) -> None:
        for n in range(self._c.readers):
            self._c.spawn(threads, self._read, f"read-{n}")
        self._c.spawn(threads, self._hash, "hash")
        self._c.spawn(threads, self._write, "write")
        self._c.spawn(threads, self._verify, "verify")

    @staticmethod
    def _segments(tasks: list[Task]) -> Any:
        for task in tasks:
            offset, size = task.start, task.file.size_bytes
            if offset >= size:
                yield task, offset, 0, True
            while offset < size:
                count = min(BLOCK, size - offset)
                yield task, offset, count, offset + count == size
                offset += count

    # Blocking calls wake up now and then, so that no thread outlives a failure elsewhere.

    def _get(self, source: queue.Queue[Any]) -> Any:
        while True:
            try:
                return source.get(timeout=0.2)
            except queue.Empty:
                if self._c.control.stopped.is_set():
                    raise Cancelled from None

    def _put(self, target: queue.Queue[Any], item: Any) -> None:
        while True:
            try:
                target.put(item, timeout=0.2)
                return
            except queue.Full:
                if self._c.control.stopped.is_set():
                    raise Cancelled from None

    def _read(self) -> None:
        while True:
            self._c.control.gate()
            # The buffer comes first: who holds a number must be able to deliver it.
            buffer = self._get(self._free)
            with self._plan_lock:
                segment = next(self._plan, None)
                number = self._next_number
                if segment is not None:
                    self._next_number += 1
                    task, offset, count, last = segment
                    if task.source_fd < 0:
                        self._open_source(task)
            if segment is None:
                self._free.put(buffer)
                break
            self._c.counters.current = task.file.rel
            block = Block(task, offset, count, buffer, last)
            if count and is_hole(task, offset, count):
                buffer.view[:count] = bytes(count)
                block.buffer = buffer
                hole = True
            else:
                hole = False
                self._fill(block)
            self._c.counters.add(read=count)
            with self._arrival:
                self._arrived[number] = block
                block.digest = "hole" if hole else ""
                self._arrival.notify_all()
        with self._arrival:
            self._readers_left -= 1
            self._arrival.notify_all()

    def _open_source(self, task: Task) -> None:
        try:
            task.source_fd = io.open_source(task.file.source)
            if task.file.sparse:
                task.holes = data_stretches(task.source_fd, task.file.size_bytes)
        except OSError as error:
            raise source_error(task.file, error) from error
        io.advise_sequential(task.source_fd)

    def _fill(self, block: Block) -> None:
        assert block.buffer is not None
        try:
            got = io.read_at(block.task.source_fd, block.buffer.view[: block.count], block.offset)
        except OSError as error:
            raise source_error(block.task.file, error) from error
        if got != block.count:
            raise changed_error(block.task.file)

    def _hash(self) -> None:
        number = 0
        while True:
            with self._arrival:
                while number not in self._arrived:
                    if self._readers_left == 0 and number == self._next_number:
                        self._put(self._to_write, None)
                        return
                    if self._c.control.stopped.is_set():
                        raise Cancelled
                    self._arrival.wait(0.2)
                block = self._arrived.pop(number)
            number += 1
            assert block is not None
            assert block.buffer is not None
            task, end = block.task, block.offset + block.count
            view = block.buffer.view[: block.count]
            hole = block.digest == "hole"
            task.hasher.update(view)
            if task.git_hasher is not None:
                task.git_hasher.update(view)
            block.digest = ""
            if block.last or end % STRETCH == 0:
                block.digest = task.hasher.hexdigest()
                # What was read will not be read again: it need not push other things out of memory.
                io.drop_cached(task.source_fd, 0, end)
            if block.last:
                self._check_source_end(task)
            if hole:
                self._free.put(block.buffer)
                block.buffer = None
            self._put(self._to_write, block)

    def _check_source_end(self, task: Task) -> None:
        """The file is still what was planned: same size, same time, and nothing behind its end."""
        try:
            st = os.fstat(task.source_fd)
        except OSError as error:
            raise source_error(task.file, error) from error
        if st.st_size != task.file.size_bytes or st.st_mtime_ns != task.file.mtime_ns:
            raise changed_error(task.file)
        os.close(task.source_fd)
        task.source_fd = -1

    def _write(self) -> None:
        while True:
            block = self._get(self._to_write)
            if block is None:
                self._put(self._to_verify, None)
                return
            task = block.task
            try:
                if task.target is None:
                    task.target = io.Target(task.path, task.file.size_bytes, keep_bytes=task.start)
                    if task.file.sparse:
                        task.target.trim()
                    else:
                        task.target.reserve()
                if block.buffer is not None and block.count:
                    task.target.write(block.buffer, block.count, block.offset)
                if block.last:
                    task.target.trim()
                    task.target.stamp(task.file.mtime_ns, self._c.mode(task.file))
            except OSError as error:
                raise target_error(task.path, error) from error
            finally:
                if block.buffer is not None:
                    self._free.put(block.buffer)
                    block.buffer = None
            if block.digest:
                self._put(self._to_verify, block)

    def _verify(self) -> None:
        buffer = io.Buffer(BLOCK)
        reached: dict[int, int] = {}
        while True:
            block = self._get(self._to_verify)
            if block is None:
                return
            task = block.task
            begin = reached.pop(id(task), task.start)
            end = block.offset + block.count
            assert task.target is not None
            try:
                if block.last:
                    os.fsync(task.target.fd)
                else:
                    task.target.sync()
                offset = begin
                while offset < end:
                    if self._c.control.stopped.is_set():
                        raise Cancelled
                    count = min(BLOCK, end - offset)
                    if task.target.read(buffer, count, offset) != count:
                        raise not_equal_error(task.path)
                    task.back_hasher.update(buffer.view[:count])
                    offset += count
                self._c.counters.saw(task.target.direct)
            except OSError as error:
                raise target_error(task.path, error) from error
            if task.back_hasher.hexdigest() != block.digest:
                raise not_equal_error(task.path)
            git = ""
            if block.last:
                check_promise(task.file, block.digest)
                git = task.git_hasher.hexdigest() if task.git_hasher is not None else ""
                task.close()
            else:
                reached[id(task)] = end
            file = task.file
            proven = Proven(file.size_bytes, file.mtime_ns, end, block.digest, block.last, git)
            self._c.note([(file.rel, proven)])
            self._c.counters.add(proven=end - begin, files=1 if block.last else 0)


class _Written(NamedTuple):
    """A small file that was written and is not yet read back."""

    file: MoveFile
    path: str
    sha256: str
    git: str


# As a module it is compiled once, as a script each time. Its folder comes last: no name in it may hide another.
_START = "import sys; sys.path.append(sys.argv[1]); import move_worker; move_worker.main()"


class Helper:
    """Does the work on small files for one thread: in a process of its own, or right here."""

    def __init__(self, control: Control, lock_fd: int | None) -> None:
        """``lock_fd``: the destination's lock, which the process shares: it is held until both are gone."""
        self._control = control
        self._process: subprocess.Popen[bytes] | None = None
        self._worker: move_worker.Worker | None = None
        if lock_fd is not None and sys.executable and os.path.isfile(move_worker.__file__):
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _START, os.path.dirname(move_worker.__file__)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    pass_fds=(lock_fd,),
                )
        if self._process is None:
            self._worker = move_worker.Worker()

    def path(self, path: str) -> str | bytes:
        """A path as the worker takes it. Another process may think of the names' encoding otherwise: bytes do not."""
        return path if self._process is None else os.fsencode(path)

    def ask(self, kind: str, rows: list[tuple[object, ...]]) -> Any:
        """The worker's answer. Raises move_worker.Failed."""
        reply: Any
        if self._process is None:
            assert self._worker is not None
            reply = self._worker.answer(kind, rows)
        else:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                move_worker.send(self._process.stdin.fileno(), (kind, rows))
                reply = move_worker.receive(self._process.stdout.fileno())
            except OSError:
                reply = None
            if reply is None:
                if self._control.stopped.wait(0.3):
                    raise Cancelled
                raise WizardError(_("a helper process of the mover was ended from outside; run the same command again"))
        if reply[0] == "fail":
            raise move_worker.Failed(*reply[1:])
        return reply[1]

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()


def start_helpers(files: Sequence[MoveFile], from_windows: bool, control: Control, lock_fd: int | None) -> list[Helper]:
    """Processes for the small files among ``files``; none when there are few. Close what is not used."""
    small = sum(1 for f in files if f.size_bytes <= SMALL)
    if small < PROCESSES_FROM or lock_fd is None:
        return []
    return [Helper(control, lock_fd) for _n in range(small_workers(from_windows))]


class _SmallFiles:
    """The pool of workers for small files: copy many, flush them together, read them back."""

    def __init__(self, copier: Copier, files: deque[MoveFile]) -> None:
        self._c = copier
        self._files = files
        self._written: list[_Written] = []
        self._to_verify: deque[list[_Written]] = deque()
        self._copying = 0  # workers inside a copy
        self._flushing = False
        self._state = threading.Condition()
        self._verifying = 0  # workers that read back
        self._workers = min(copier.small_workers, len(files))

    def start(self, threads: list[threading.Thread]) -> None:
        for n in range(self._workers):
            self._c.spawn(threads, self._work, f"small-{n}")
        self._c.spawn(threads, self._flush, "flush")

    def _work(self) -> None:
        with self._state:
            helper = self._c.helpers.pop() if self._c.helpers else None
        helper = helper or Helper(self._c.control, None)
        try:
            self._work_with(helper)
        finally:
            helper.close()

    def _work_with(self, helper: Helper) -> None:
        while True:
            self._c.control.gate()
            batch: list[MoveFile] = []
            back: list[_Written] = []
            with self._state:
                # Half of the workers keep the source busy as long as there is something to read.
                if self._to_verify and (not self._files or 2 * self._verifying < self._workers):
                    back = self._to_verify.popleft()
                    self._verifying += 1
                elif self._files:
                    amount = 0
                    while self._files and len(batch) < 32 and amount < 2 * SMALL:
                        batch.append(self._files.popleft())
                        amount += batch[-1].size_bytes
                    self._copying += 1
                elif self._copying or self._written or self._flushing:
                    self._state.wait(0.2)
                    continue
                else:
                    self._state.notify_all()
                    return
            if back:
                self._read_back(back, helper)
                with self._state:
                    self._verifying -= 1
                continue
            self._c.counters.current = batch[0].rel
            done = self._copy(batch, helper)
            with self._state:
                self._copying -= 1
                self._written += done
                if len(self._written) >= SMALL_BATCH or not self._files:
                    self._state.notify_all()

    def _copy(self, batch: list[MoveFile], helper: Helper) -> list[_Written]:
        data, mode = self._c.data_dir, self._c.mode
        rows: list[tuple[object, ...]] = [
            (
                helper.path(f.source),
                helper.path(f"{data}/{f.rel}"),
                f.size_bytes,
                f.mtime_ns,
                mode(f),
                needs_git_hash(f),
            )
            for f in batch
        ]
        try:
            hashes = helper.ask("copy", rows)
        except move_worker.Failed as failed:
            file = batch[failed.row]
            if failed.what == "changed":
                raise changed_error(file) from failed
            error = OSError(failed.code, failed.text)
            if failed.what == "source":
                raise source_error(file, error) from failed
            raise target_error(f"{data}/{file.rel}", error) from failed
        done = []
        for file, (sha256, git) in zip(batch, hashes, strict=True):
            check_promise(file, sha256)
            done.append(_Written(file, f"{data}/{file.rel}", sha256, git))
        self._c.counters.add(read=sum(f.size_bytes for f in batch))
        return done

    def _flush(self) -> None:
        """Flush what is written when enough has come together, and hand it over to be read back."""
        last = time.monotonic()
        while True:
            with self._state:
                ended = not self._files and not self._copying
                due = len(self._written) >= SMALL_BATCH or time.monotonic() - last > 1.0
                if not (self._written and (ended or due)):
                    if ended and not self._written:
                        return
                    if self._c.control.stopped.is_set():
                        raise Cancelled
                    self._state.wait(0.2)
                    continue
                batch, self._written = self._written, []
                self._flushing = True
            try:
                io.sync_filesystem(self._c.data_dir)
            except OSError as error:
                raise target_error(self._c.data_dir, error) from error
            last = time.monotonic()
            with self._state:
                self._to_verify.extend(batch[i : i + 32] for i in range(0, len(batch), 32))
                self._flushing = False
                self._state.notify_all()

    def _read_back(self, batch: list[_Written], helper: Helper) -> None:
        try:
            past_cache = helper.ask("back", [(helper.path(w.path), w.file.size_bytes, w.sha256) for w in batch])
        except move_worker.Failed as failed:
            path = batch[failed.row].path
            if failed.what == "unequal":
                raise not_equal_error(path) from failed
            raise target_error(path, OSError(failed.code, failed.text)) from failed
        self._c.counters.saw(past_cache)
        self._c.note(
            [
                (w.file.rel, Proven(w.file.size_bytes, w.file.mtime_ns, w.file.size_bytes, w.sha256, True, w.git))
                for w in batch
            ]
        )
        self._c.counters.add(proven=sum(w.file.size_bytes for w in batch), files=len(batch))
