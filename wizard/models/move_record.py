"""The record of a move on disk: what is to be copied, what is proven, and who is at work.

A move to one destination has one work folder on the destination's file system, beside the destination (for a
cache beside the cache, so that the cache's own tools do not stumble over it). In it:

``manifest.json``  the list of files as the source had them, and the state; replaced as a whole, atomically
``journal``        one line for each proven stretch or file, appended, each with its own checksum
``data/``          the copy while it grows; it takes its final name in one rename when all of it is proven
``lock``           held (flock) by the one process that writes
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from wizard import program
from wizard.errors import WizardError
from wizard.i18n import _
from wizard.models.move_scan import RECORDS, show
from wizard.models.move_types import BlobRule, MoveFile, MoveKind, MoveLink, MovePlan, MoveState

VERSION = 1
MANIFEST = "manifest.json"
JOURNAL = "journal"
DATA = "data"
LOCK = "lock"


def record_homes(dst: str) -> list[str]:
    """Where the record of a move to ``dst`` may lie, the usual place first."""
    parent = os.path.dirname(dst)
    homes = [parent]
    probe = parent
    while os.path.dirname(probe) != probe:
        if os.path.basename(probe) == "hub":
            homes.append(os.path.dirname(probe))
        probe = os.path.dirname(probe)
    return homes


def record_name(dst: str) -> str:
    """The work folder's name: readable, and of one destination only."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", os.path.basename(dst)).strip("._")[:60] or "model"
    digest = hashlib.sha256(os.fsencode(dst)).hexdigest()[:10]
    return f"{readable}-{digest}"


def work_dir_for(dst: str, kind: MoveKind) -> str:
    """The work folder of a move to ``dst``: an existing record wins, else beside the cache or the destination."""
    name = record_name(dst)
    homes = record_homes(dst)
    for home in homes:
        existing = os.path.join(home, RECORDS, name)
        if os.path.lexists(os.path.join(existing, MANIFEST)):
            return existing
    home = homes[0]
    if kind in (MoveKind.HUGGINGFACE, MoveKind.MODELSCOPE) and len(homes) > 1:
        outside = homes[1]
        if same_filesystem(homes[0], outside):
            home = outside
    return os.path.join(home, RECORDS, name)


def nearest_existing(path: str) -> str:
    """The path itself or the nearest folder above it that exists."""
    while not os.path.isdir(path):
        parent = os.path.dirname(path)
        if parent == path:
            return path
        path = parent
    return path


def same_filesystem(a: str, b: str) -> bool:
    try:
        return os.stat(nearest_existing(a)).st_dev == os.stat(nearest_existing(b)).st_dev
    except OSError:
        return False


@dataclass
class Manifest:
    """What the work folder says about the move."""

    dst: str
    src: str
    kind: MoveKind
    name: str
    state: str  # "partial", "switching", "proven", "deleted"
    files: list[MoveFile]
    links: list[MoveLink]
    dirs: list[str]
    src_is_file: bool = False
    alias_links: list[MoveLink] = field(default_factory=list)
    created: float = 0.0
    updated: float = 0.0
    proofs: dict[str, list[Any]] = field(default_factory=dict)  # rel -> [size, mtime_ns, ctime_ns, sha256]
    warnings: list[str] = field(default_factory=list)
    blocks_deletion: str = ""  # why the source is not deleted even on consent; "" if nothing speaks against it
    _listed: str = field(default="", repr=False)  # files, links and folders as JSON: they never change

    @property
    def listed(self) -> str:
        """The part of the record that stays the same, as the inner text of a JSON object."""
        if not self._listed:
            lists = {
                "files": [_row_of(f) for f in self.files],
                "dirs": self.dirs,
                "links": [[x.rel, x.source, x.target] for x in self.links],
                "alias_links": [[x.rel, x.source, x.target] for x in self.alias_links],
            }
            self._listed = _json(lists)[1:-1]
        return self._listed

    @property
    def public_state(self) -> MoveState:
        return {"proven": MoveState.PROVEN, "deleted": MoveState.DELETED}.get(self.state, MoveState.PARTIAL)


def manifest_of(plan: MovePlan) -> Manifest:
    return Manifest(
        plan.dst,
        plan.src,
        plan.kind,
        plan.name,
        "partial",
        list(plan.files),
        list(plan.links),
        list(plan.dirs),
        plan.src_is_file,
        list(plan.alias_links),
        created=time.time(),
    )


def load_manifest(work_dir: str) -> Manifest | None:
    """The manifest, None when there is none. Raises WizardError when it is damaged or of a newer wizard."""
    path = os.path.join(work_dir, MANIFEST)
    try:
        with open(path, "rb") as handle:
            raw = handle.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        data = json.loads(raw)
        if data["version"] != VERSION:
            raise WizardError(
                _("{path} was written by another version of the wizard; move it away to begin anew").format(
                    path=show(path)
                )
            )
        return Manifest(
            dst=data["dst"],
            src=data["src"],
            kind=MoveKind(data["kind"]),
            name=data["name"],
            state=data["state"],
            files=[_file_of(row) for row in data["files"]],
            links=[MoveLink(*row) for row in data["links"]],
            dirs=list(data["dirs"]),
            src_is_file=bool(data["src_is_file"]),
            alias_links=[MoveLink(*row) for row in data["alias_links"]],
            created=float(data["created"]),
            updated=float(data["updated"]),
            proofs=dict(data["proofs"]),
            warnings=list(data["warnings"]),
            blocks_deletion=str(data["blocks_deletion"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise WizardError(
            _("{path} is damaged ({why}); move it away to begin anew").format(path=show(path), why=error)
        ) from error


def _row_of(f: MoveFile) -> list[Any]:
    return [
        f.rel,
        f.source,
        f.size_bytes,
        f.mtime_ns,
        f.mode,
        f.expect_sha256,
        f.expect_git,
        f.blob_rule.value,
        f.sparse,
    ]


def _file_of(row: list[Any]) -> MoveFile:
    rel, source, size, mtime_ns, mode, sha256, git, rule, sparse = row
    return MoveFile(rel, source, int(size), int(mtime_ns), int(mode), sha256, git, BlobRule(rule), bool(sparse))


def is_destination_of(dst: str, src: str) -> bool:
    """Whether ``src`` was moved, or is being moved, to exactly ``dst``."""
    try:
        manifest = load_manifest(work_dir_for(dst, MoveKind.FOLDER))
    except WizardError:
        return False
    return manifest is not None and manifest.dst == dst and manifest.src == src


_CHANGING = (
    "dst", "src", "name", "state", "src_is_file", "created", "updated", "proofs", "warnings", "blocks_deletion",
)  # fmt: skip


def _json(data: dict[str, Any]) -> str:
    # ASCII with escapes: names that are no valid UTF-8 come back as they were.
    return json.dumps(data, ensure_ascii=True, separators=(",", ":"))


def save_manifest(work_dir: str, manifest: Manifest) -> None:
    """Replace the manifest as a whole; it is on the disk when this returns."""
    manifest.updated = time.time()
    changing = {
        "version": VERSION,
        **{name: getattr(manifest, name) for name in _CHANGING},
        "kind": manifest.kind.value,
    }
    path = os.path.join(work_dir, MANIFEST)
    temporary = path + ".new"
    with open(temporary, "wb") as handle:
        handle.write(f"{_json(changing)[:-1]},{manifest.listed}}}".encode("ascii"))
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(temporary, path)
    sync_folder(work_dir)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable, where the system can."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class Proven(NamedTuple):
    """How much of one file's copy is proven: the stretch up to ``upto``, or all of it."""

    size_bytes: int
    mtime_ns: int  # of the source when it was read
    upto: int
    prefix_sha256: str  # of the bytes before ``upto``
    whole: bool
    git_sha1: str = ""


class Journal:
    """The append-only list of what is proven. Every line (one or more entries) carries a checksum, so a torn one is simply not there."""

    def __init__(self, work_dir: str) -> None:
        self._path = os.path.join(work_dir, JOURNAL)
        self._fd: int | None = None

    def load(self) -> dict[str, Proven]:
        """The last word on every file."""
        found: dict[str, Proven] = {}
        try:
            with open(self._path, "rb") as handle:
                lines = handle.read().split(b"\n")
        except OSError:
            return found
        for line in lines:
            body, separator, check = line.rpartition(b" ")
            if not separator or check != b"%08x" % zlib.crc32(body):
                continue
            try:
                for rel, size, mtime_ns, upto, digest, whole, git in json.loads(body):
                    found[rel] = Proven(int(size), int(mtime_ns), int(upto), str(digest), bool(whole), str(git))
            except (ValueError, TypeError):
                continue
        return found

    def open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        # A torn last line must not swallow the next one.
        os.write(self._fd, b"\n")

    def add(self, entries: list[tuple[str, Proven]]) -> None:
        """Append one line; the bytes spoken of must already be on the disk. The lines themselves may lag behind."""
        if self._fd is None or not entries:
            return
        rows = [[rel, p.size_bytes, p.mtime_ns, p.upto, p.prefix_sha256, p.whole, p.git_sha1] for rel, p in entries]
        body = json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        write_all(self._fd, b"%s %08x\n" % (body, zlib.crc32(body)))

    def sync(self) -> None:
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class DestinationLock:
    """One writer for one destination, across processes. The kernel lets go of it when the process dies."""

    def __init__(self, work_dir: str) -> None:
        self._path = os.path.join(work_dir, LOCK)
        self._fd: int | None = None

    def __enter__(self) -> DestinationLock:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        limit = time.monotonic() + 5.0
        while not _try_lock(fd):
            holder = _read_pid(fd)
            # Helper processes of a mover that was killed hold its lock until they notice, a moment later.
            if (holder is None or _is_alive(holder)) or time.monotonic() > limit:
                os.close(fd)
                raise WizardError(
                    _("another process{pid} is already moving to this destination; wait for it, or stop it first").format(
                        pid=f" ({holder})" if holder else ""
                    )
                )
            time.sleep(0.02)
        os.truncate(fd, 0)
        os.write(fd, str(os.getpid()).encode("ascii"))
        self._fd = fd
        return self

    def fileno(self) -> int | None:
        """The descriptor that holds the lock; helper processes share it."""
        return self._fd

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _read_pid(fd: int) -> int | None:
    try:
        text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    except (OSError, AttributeError):
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _try_lock(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_locked(work_dir: str) -> bool:
    """Whether some process holds the destination's lock now."""
    try:
        fd = os.open(os.path.join(work_dir, LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def records_below(home: str) -> Iterator[str]:
    """The work folders that lie in ``home``."""
    base = os.path.join(home, RECORDS)
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return
    for name in names:
        if os.path.isfile(os.path.join(base, name, MANIFEST)):
            yield os.path.join(base, name)


# A short list of places where moves were begun, so that they are found again wherever they lie.


def _index_path() -> str:
    return os.path.join(program.state_folder(), "moves.json")


def remember(work_dir: str) -> None:
    """Note a work folder in the user's own list. A list that cannot be written is no reason to stop."""
    known = [w for w in remembered() if w != work_dir and os.path.isdir(w)]
    path = _index_path()
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "w", encoding="ascii") as handle:
            json.dump([*known, work_dir], handle)
        os.replace(temporary, path)


def remembered() -> list[str]:
    try:
        with open(_index_path(), encoding="ascii") as handle:
            data = json.load(handle)
    except (OSError, ValueError):
        return []
    return [w for w in data if isinstance(w, str)] if isinstance(data, list) else []
