"""The mover: copy a model off a slow drive, prove the copy, switch to it, and delete the source on consent only.

    plan = plan_move(machine, "/mnt/d/models/Qwen3-VL-8B-Instruct")
    if plan.ok:
        result = Mover(plan, on_progress=show).run()  # in a worker thread; pause(), resume(), cancel() from any
        ...
        delete_source(plan)  # a separate call, after a separate question

The source is only ever read until :func:`delete_source`. The copy grows under a working name beside the
destination and takes the final name when all of it is proven: hashed while it was read, flushed, read back from
the disk past the page cache where the kernel lets us, and compared. Whatever stops it (a signal, a full disk, a
drive that is pulled), running it again goes on from what is proven.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from wizard.errors import BadInput, WizardError
from wizard.i18n import _
from wizard.models import move_io as io
from wizard.models import move_record as record
from wizard.models.move_engine import (
    SMALL,
    Cancelled,
    Control,
    Copier,
    Counters,
    Helper,
    Task,
    lanes_for,
    needs_git_hash,
    new_git_hasher,
    start_helpers,
    target_error,
)
from wizard.models.move_finish import (
    check_headers,
    delete_files,
    is_intact,
    make_links,
    prune,
    staged_path,
    switch,
    unproven,
)
from wizard.models.move_plan import GIB, known_records, plan_move, proven_bytes, summary
from wizard.models.move_record import Proven
from wizard.models.move_scan import RECORDS, show
from wizard.models.move_simulate import simulate
from wizard.models.move_types import (
    DeleteResult,
    MoveFile,
    MoveKind,
    MoveLink,
    MovePlan,
    MoveResult,
    MoveState,
    MoveStatus,
    Progress,
    Refusal,
    Space,
    Stage,
)

__all__ = [
    "RECORDS",
    "DeleteResult",
    "MoveFile",
    "MoveKind",
    "MoveLink",
    "MovePlan",
    "MoveResult",
    "MoveState",
    "MoveStatus",
    "Mover",
    "Progress",
    "Refusal",
    "Space",
    "Stage",
    "delete_source",
    "discard",
    "has_copy",
    "moved_paths",
    "pending_moves",
    "plan_move",
    "refusal_error",
    "rewrite_path",
    "status",
    "summary",
]

_BAD_INPUT = {
    "into_itself",
    "same_place",
    "destination_windows_drive",
    "destination_network",
    "destination_read_only",
    "different_model",
    "destination_not_a_folder",
    "empty",
}
_RATE_WINDOW_S = 6.0
_FREE_FLOOR = 16 * 1024 * 1024
_WINDOWS_FLOOR = GIB


def refusal_error(plan: MovePlan) -> WizardError:
    """The plan's first refusal as an error: BadInput when the user named a place that cannot be."""
    first = plan.refusals[0]
    return (BadInput if first.code in _BAD_INPUT else WizardError)(first.message)


class Mover:
    """Runs one plan. :meth:`run` blocks; the other methods may be called from any thread at any time."""

    def __init__(
        self,
        plan: MovePlan,
        on_progress: Callable[[Progress], None] | None = None,
        *,
        interval_s: float = 0.1,
        simulated_seconds: float = 8.0,
    ) -> None:
        """``on_progress`` is called from the thread of :meth:`run`, at most every ``interval_s`` seconds and at
        each change of stage. ``simulated_seconds``: how long the move of a recorded machine plays."""
        self.plan = plan
        self._on_progress = on_progress
        self._interval_s = interval_s
        self._simulated_seconds = simulated_seconds
        self._lock: record.DestinationLock | None = None
        self._control = Control()
        self._counters = Counters()
        self._stage = Stage.CHECK
        self._begun = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque()
        self._reported = 0.0
        self._paused_shown = False
        self._helpers: list[Helper] = []
        self._from_windows = plan.src_mount in ("windows-drive", "network")

    def pause(self) -> None:
        """Stop reading after what is under way; :meth:`run` keeps waiting."""
        self._control.pause()

    def resume(self) -> None:
        self._samples.clear()
        self._control.resume()

    def cancel(self) -> None:
        """End :meth:`run` soon; it returns with the state PARTIAL. What is proven is kept for the next run."""
        self._control.cancel()

    @property
    def paused(self) -> bool:
        return self._control.paused

    def run(self) -> MoveResult:
        """Copy, prove, switch. Raises BadInput or WizardError with what to do; the source is never touched."""
        plan = self.plan
        if plan.refusals:
            raise refusal_error(plan)
        self._begun = time.monotonic()
        try:
            if plan.simulated:
                return simulate(plan, self._control, self._hand_over, self._simulated_seconds)
            return self._run()
        except Cancelled:
            self._report(Stage.CANCELLED)
            copied = self._counters.bytes_read
            return MoveResult(
                MoveState.PARTIAL,
                plan.dst,
                plan.bytes_total,
                copied,
                plan.files_total,
                time.monotonic() - self._begun,
                past_page_cache=self._counters.cache_passed,
            )
        except BaseException:
            with contextlib.suppress(Exception):
                self._report(Stage.FAILED)
            raise

    # --- the run

    def _run(self) -> MoveResult:
        plan = self.plan
        work = plan.work_dir
        if os.name != "posix":
            raise WizardError(_("models are moved from inside WSL: run this command there"))
        try:
            os.makedirs(os.path.join(work, record.DATA), exist_ok=True)
        except OSError as error:
            raise target_error(work, error) from error
        with record.DestinationLock(work) as self._lock:
            manifest = record.load_manifest(work)
            if manifest is not None and self._was_done(manifest):
                return self._already_done(manifest)
            # They get ready while the record is written.
            self._helpers = start_helpers(plan.files, self._from_windows, self._control, self._lock.fileno())
            record.remember(work)
            try:
                return self._copy_and_switch(manifest)
            except OSError as error:
                raise target_error(error.filename or plan.dst, error) from error
            finally:
                for helper in self._helpers:
                    helper.close()

    def _was_done(self, manifest: record.Manifest) -> bool:
        """The same files were moved here before, perhaps by another process since the plan was made."""
        if manifest.state not in ("proven", "deleted") or not os.path.lexists(self.plan.dst):
            return False
        listed = {(f.rel, f.size_bytes, f.mtime_ns) for f in manifest.files}
        return all((f.rel, f.size_bytes, f.mtime_ns) in listed for f in self.plan.files)

    def _already_done(self, manifest: record.Manifest) -> MoveResult:
        self._report(Stage.CHECK)
        wrong = unproven(manifest, self._control.gate)
        if wrong:
            raise WizardError(
                _(
                    "this model was moved here before, but {path} is not as it was left. Move {dst} away and run the same "
                    "command again"
                ).format(path=show(wrong[0]), dst=show(self.plan.dst))
            )
        shutil.rmtree(os.path.join(self.plan.work_dir, record.DATA), ignore_errors=True)
        self._counters.bytes_proven, self._counters.files_proven = self.plan.bytes_total, self.plan.files_total
        self._report(Stage.DONE)
        return replace(self._result(manifest), proven_at=manifest.updated)

    def _copy_and_switch(self, manifest: record.Manifest | None) -> MoveResult:
        plan, work = self.plan, self.plan.work_dir
        data = os.path.join(work, record.DATA)
        journal = record.Journal(work)
        if manifest is not None and manifest.state == "switching":
            done = journal.load()
        else:
            if manifest is not None and manifest.state in ("proven", "deleted"):
                _forget_copy(work)  # the record of a move whose copy is gone
                os.makedirs(data, exist_ok=True)
            manifest = record.manifest_of(plan)
            record.save_manifest(work, manifest)
            done = journal.load()
            small, large = self._work_left(data, done)
            journal.open()
            try:
                done.update(self._copy(small, large, data, journal))
            finally:
                journal.close()
            self._report(Stage.FINISH)
            make_links(manifest, data, done)
            self._judge(manifest, data, done)
            io.sync_filesystem(data)
        self._report(Stage.SWITCH)
        switch(manifest, work, done, self._control.gate)
        self._counters.bytes_proven, self._counters.files_proven = plan.bytes_total, plan.files_total
        self._report(Stage.DONE)
        return self._result(manifest)

    def _judge(self, manifest: record.Manifest, data: str, done: Mapping[str, Proven]) -> None:
        """What the copy, equal as it is, gives to worry about."""
        for file in manifest.files:
            if file.expect_git and done[file.rel].git_sha1 != file.expect_git:
                manifest.warnings.append(
                    _("{path} is not what its name promises (git's SHA-1): the download was damaged, or another hub made it").format(
                        path=show(file.rel)
                    )
                )
        faults = check_headers(manifest, data, done)
        if faults:
            manifest.warnings += [_("not a sound safetensors file, in the source either: {fault}").format(fault=f) for f in faults]
            manifest.blocks_deletion = faults[0]

    def _result(self, manifest: record.Manifest) -> MoveResult:
        return MoveResult(
            manifest.public_state,
            manifest.dst,
            self.plan.bytes_total,
            self._counters.bytes_read,
            self.plan.files_total,
            time.monotonic() - self._begun,
            tuple(manifest.warnings),
            self._counters.cache_passed,
        )

    def _work_left(self, data: str, done: dict[str, Proven]) -> tuple[list[MoveFile], list[Task]]:
        """What is still to be copied: whole small files, and the rest. What an earlier run began is read again
        before it is built upon; what does not hold is taken out of ``done``."""
        self._report(Stage.CHECK)
        prune(data, self.plan, done)
        for rel in self.plan.dirs:
            os.makedirs(os.path.join(data, rel), exist_ok=True)
        small: list[MoveFile] = []
        large: list[Task] = []
        for file in self.plan.files:
            proven = done.pop(file.rel, None)
            upto = 0 if proven is None else proven_bytes(file, {file.rel: proven})
            if proven is not None:
                if proven.whole and upto == file.size_bytes:
                    there = staged_path(data, file, proven)
                    if there is not None and is_intact(there, file):
                        self._counters.add(proven=file.size_bytes, files=1)
                        done[file.rel] = proven
                        continue
                    upto = 0
                if os.path.islink(os.path.join(data, file.rel)):
                    os.unlink(os.path.join(data, file.rel))
            if file.size_bytes <= SMALL:
                small.append(file)
                continue
            task = Task(file, os.path.join(data, file.rel))
            if needs_git_hash(file):
                task.git_hasher = new_git_hasher(file.size_bytes)
            if upto and proven is not None:
                self._continue(task, proven, upto)
            large.append(task)
        return small, large

    def _continue(self, task: Task, proven: Proven, upto: int) -> None:
        """Begin a file where an earlier run was proven to be, if what lies there still is what was proven."""
        hasher = hashlib.sha256()
        git = None if task.git_hasher is None else task.git_hasher.copy()
        buffer = io.Buffer(4 * 1024 * 1024)
        try:
            target = io.Target(task.path, task.file.size_bytes, keep_bytes=upto)
        except OSError:
            return
        try:
            offset = 0
            while offset < upto:
                self._control.gate()
                count = target.read(buffer, min(buffer.size, upto - offset), offset)
                if count == 0:
                    return
                hasher.update(buffer.view[:count])
                if git is not None:
                    git.update(buffer.view[:count])
                offset += count
                self._tick()
        except OSError:
            return
        finally:
            target.close()
        if hasher.hexdigest() != proven.prefix_sha256:
            return
        task.start, task.hasher, task.back_hasher, task.git_hasher = upto, hasher, hasher.copy(), git
        self._counters.add(proven=upto)

    def _copy(
        self, small: list[MoveFile], large: list[Task], data: str, journal: record.Journal
    ) -> dict[str, Proven]:
        self._report(Stage.COPY)
        copier = Copier(
            small,
            large,
            data,
            journal,
            self._control,
            self._counters,
            from_windows=self._from_windows,
            watch=self._watch_space,
            lanes=lanes_for(self.plan.rate_bytes_per_s, os.cpu_count() or 1),
            helpers=self._helpers,
        )
        self._helpers = []
        try:
            copier.run(self._tick, self._interval_s)
        finally:
            for helper in copier.helpers:
                helper.close()
            for task in large:
                task.close()
        return copier.proven

    def _watch_space(self) -> None:
        """Other programs write too: stop before the disk, or the Windows drive below it, is full."""
        with contextlib.suppress(OSError):
            if shutil.disk_usage(self.plan.work_dir).free < _FREE_FLOOR:
                raise target_error(self.plan.dst, OSError(28, "No space left on device"))
        if self.plan.space.windows_watch:
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(self.plan.space.windows_watch).free
                if free < _WINDOWS_FLOOR:
                    raise WizardError(
                        _(
                            "the Windows drive {drive} that holds the distro's disk is nearly full ({gib:.1f} GiB free): "
                            "stopped before Linux's own disk is harmed. Make room, then run the same command again"
                        ).format(drive=self.plan.space.windows_watch, gib=free / GIB)
                    )

    # --- progress

    def _tick(self) -> None:
        now = time.monotonic()
        if self._control.paused:
            if not self._paused_shown:
                self._paused_shown = True
                self._send(Stage.PAUSED)
            self._samples.clear()
            return
        self._paused_shown = False
        if now - self._reported >= self._interval_s:
            self._send(self._stage)

    def _report(self, stage: Stage) -> None:
        self._stage = stage
        self._send(stage)

    def _send(self, stage: Stage) -> None:
        now = time.monotonic()
        self._reported = now
        counters = self._counters
        self._samples.append((now, counters.bytes_read))
        while len(self._samples) > 2 and now - self._samples[0][0] > _RATE_WINDOW_S:
            self._samples.popleft()
        rate: float | None = None
        begin, before = self._samples[0]
        if now - begin >= 0.3 and counters.bytes_read > before:
            rate = (counters.bytes_read - before) / (now - begin)
        left = self.plan.bytes_total - counters.bytes_proven
        eta = None if rate is None else left / rate
        if stage is Stage.DONE:
            eta = 0.0
        self._hand_over(
            Progress(
                counters.bytes_proven,
                self.plan.bytes_total,
                counters.files_proven,
                self.plan.files_total,
                rate,
                eta,
                stage,
                counters.current,
                now - self._begun,
            )
        )

    def _hand_over(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)


def _forget_copy(work_dir: str) -> None:
    shutil.rmtree(os.path.join(work_dir, record.DATA), ignore_errors=True)
    for name in (record.JOURNAL, record.MANIFEST):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(work_dir, name))


def delete_source(plan: MovePlan) -> DeleteResult:
    """Delete what was moved from its old place. A call of its own: ask the user first.

    Before anything is deleted, the destination is held against what was proven (a file that was touched since is
    hashed again). Only files that were copied and have not changed since are deleted, never what else lies there.
    Raises WizardError when the destination is not proven.
    """
    if plan.simulated:
        return DeleteResult(plan.files_total, plan.bytes_total)
    if not os.path.isdir(plan.work_dir):
        raise WizardError(_not_proven(plan))
    with record.DestinationLock(plan.work_dir):
        manifest = record.load_manifest(plan.work_dir)
        if manifest is None or manifest.state not in ("proven", "deleted") or not manifest.proofs:
            raise WizardError(_not_proven(plan))
        if manifest.dst != plan.dst or os.path.realpath(manifest.src) == os.path.realpath(manifest.dst):
            raise WizardError(_not_proven(plan))
        if manifest.blocks_deletion:
            raise WizardError(
                _(
                    "the source is kept: the copy holds the same bytes, but they are not a sound model ({why}). Delete it "
                    "yourself when you are sure"
                ).format(why=manifest.blocks_deletion)
            )
        wrong = unproven(manifest)
        if wrong:
            raise WizardError(
                _("the source is kept: {path} is not as it was proven").format(path=show(wrong[0]))
            )
        result = delete_files(manifest)
        if not result.kept:
            manifest.state = "deleted"
            record.save_manifest(plan.work_dir, manifest)
        return result


def _not_proven(plan: MovePlan) -> str:
    return _("the source is kept: the copy at {dst} is not proven yet; finish the move first").format(dst=show(plan.dst))


def moved_paths(plan: MovePlan) -> dict[str, str]:
    """Old place -> new place, for every way in which the old one may be written in answers and scripts.

    Keys are whole paths or the beginning of one, longest first; see :func:`rewrite_path`.
    """
    return dict(sorted(plan.aliases, key=lambda pair: -len(pair[0])))


def rewrite_path(path: str, moved: Mapping[str, str]) -> str:
    """``path`` with its moved beginning replaced; unchanged when it does not lie in a moved place."""
    for old, new in sorted(moved.items(), key=lambda pair: -len(pair[0])):
        separator = "\\" if "\\" in old else "/"
        if path.rstrip(separator) == old:
            return new
        if path.startswith(old + separator):
            return new + "/" + path[len(old) + 1 :].replace(separator, "/")
    return path


def status(dst: str) -> MoveStatus:
    """What is known of a move to ``dst`` (an absolute path). Never raises for a missing record."""
    parent = os.path.realpath(os.path.dirname(dst.rstrip("/")))
    exact = os.path.join(parent, os.path.basename(dst.rstrip("/")))
    return _status_of(record.work_dir_for(exact, MoveKind.FOLDER), exact)


def _status_of(work_dir: str, dst: str) -> MoveStatus:
    try:
        manifest = record.load_manifest(work_dir)
    except WizardError as error:
        return MoveStatus(MoveState.NONE, dst, warnings=(str(error),))
    if manifest is None:
        return MoveStatus(MoveState.NONE, dst)
    total = sum(f.size_bytes for f in manifest.files)
    state = manifest.public_state
    if state is MoveState.PARTIAL:
        done = record.Journal(work_dir).load()
        bytes_done = sum(proven_bytes(f, done) for f in manifest.files)
        files_done = sum(1 for f in manifest.files if f.rel in done and done[f.rel].whole)
    else:
        bytes_done, files_done = total, len(manifest.files)
        if not os.path.lexists(manifest.dst):
            return MoveStatus(MoveState.NONE, manifest.dst, warnings=(_("moved once, and gone since"),))
    return MoveStatus(
        state,
        manifest.dst,
        manifest.src,
        manifest.kind,
        manifest.name,
        bytes_done,
        total,
        files_done,
        len(manifest.files),
        record.is_locked(work_dir),
        os.path.lexists(manifest.src),
        manifest.updated,
        tuple(manifest.warnings),
    )


def stopped_at(src: str, dst: str) -> tuple[int, int] | None:
    """(bytes proven, bytes in all) of a copy from ``src`` to ``dst`` that was begun, stopped, and can go on; None
    where there is none. Never raises."""
    try:
        known = status(dst)
    except (OSError, ValueError):
        return None
    if known.state is not MoveState.PARTIAL or known.running or os.path.realpath(src) != os.path.realpath(known.src):
        return None
    return known.bytes_done, known.bytes_total


def pending_moves(home: str | None = None, env: Mapping[str, str] | None = None) -> tuple[MoveStatus, ...]:
    """Moves that were begun and not finished, in the usual places and wherever this user began one."""
    found = []
    for work_dir in known_records(home or os.path.expanduser("~"), os.environ if env is None else env):
        state = _status_of(work_dir, "")
        if state.state is MoveState.PARTIAL:
            found.append(state)
    return tuple(found)


def _work_dir_of(dst: str) -> str:
    parent = os.path.realpath(os.path.dirname(dst.rstrip("/")))
    return record.work_dir_for(os.path.join(parent, os.path.basename(dst.rstrip("/"))), MoveKind.FOLDER)


def has_copy(dst: str) -> bool:
    """Whether :func:`discard` would find anything for ``dst``."""
    return os.path.isdir(_work_dir_of(dst))


def discard(dst: str) -> bool:
    """Throw away an unfinished copy for ``dst``. The source and a finished destination are not touched.

    Returns whether there was one. Raises WizardError when it is being written now, or is already proven.
    """
    work_dir = _work_dir_of(dst)
    if not os.path.isdir(work_dir):
        return False
    with record.DestinationLock(work_dir):
        manifest = record.load_manifest(work_dir)
        if manifest is not None and manifest.state != "partial":
            raise WizardError(_("{dst} is not an unfinished copy: nothing was thrown away").format(dst=show(dst)))
        shutil.rmtree(work_dir)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(work_dir))
    return True
