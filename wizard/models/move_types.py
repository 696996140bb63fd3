"""Records of the mover: what is moved where, how far it is, and why it cannot be.

Sizes are bytes, times are seconds. ``rel`` is always a path below the destination, with ``/``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class MoveKind(str, Enum):
    """What lies at the source."""

    FOLDER = "folder"
    HUGGINGFACE = "huggingface"  # a cache entry: models--org--name with blobs, refs, snapshots
    MODELSCOPE = "modelscope"  # a ModelScope cache entry: plain files and the hub's own small records
    GGUF = "gguf"  # one GGUF file, or all parts of a split one


class MoveState(str, Enum):
    """How far the move to one destination is, as its record on disk says."""

    NONE = "none"  # nothing was begun
    PARTIAL = "partial"  # begun; running it again goes on from there
    PROVEN = "proven"  # every byte is at the destination and was read back; the source is still there
    DELETED = "deleted"  # proven, and the source was deleted with the user's consent


class Stage(str, Enum):
    """What the mover is doing now. The names are stable: they appear in ``--json``."""

    CHECK = "check"  # what an earlier run left is read again
    COPY = "copy"  # read, hash, write, read back: all at once
    FINISH = "finish"  # links are made, headers parsed
    SWITCH = "switch"  # the finished copy takes its name
    DONE = "done"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FAILED = "failed"


class BlobRule(str, Enum):
    """How a file of a cache without links is named among the blobs once its content is known."""

    NONE = ""
    SHA256 = "sha256"  # large files kept in LFS or Xet: the SHA-256 of the content
    GIT = "git"  # all others: git's own SHA-1 of the blob


@dataclass(frozen=True)
class MoveFile:
    """One file to copy. ``source`` is the path inside the source tree (a link there is read through)."""

    rel: str
    source: str
    size_bytes: int
    mtime_ns: int
    mode: int = 0o644
    expect_sha256: str = ""  # what the file's own name, or its download record, says
    expect_git: str = ""  # git's SHA-1, from a blob's name
    blob_rule: BlobRule = BlobRule.NONE
    sparse: bool = False


@dataclass(frozen=True)
class MoveLink:
    """One symbolic link to make; ``target`` as it is written into the link."""

    rel: str
    source: str
    target: str


@dataclass(frozen=True)
class Refusal:
    """Why a move is not begun. ``code`` is stable."""

    # codes: into_itself, same_place, destination_windows_drive, destination_network, destination_read_only,
    # different_model, destination_not_a_folder, not_enough_space, windows_disk_full, unreadable, empty,
    # other_move_unfinished, special_file, source_gone
    code: str
    message: str


@dataclass(frozen=True)
class Space:
    """Room at the destination. ``windows_free_bytes`` limits what a growing virtual disk can really take."""

    needed_bytes: int  # still to be written
    free_bytes: int | None
    free_source: str
    windows_free_bytes: int | None = None
    windows_source: str = ""
    windows_watch: str = ""  # a path of that Windows drive, looked at while copying; "" if there is none
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MovePlan:
    """A move as it would be done. Nothing was written to make it."""

    machine: str
    kind: MoveKind
    name: str  # for people: "Qwen/Qwen3-VL-8B-Instruct"
    src: str  # absolute, links followed: the entry's folder, the model folder, or the GGUF file
    dst: str  # absolute: what takes the source's place
    work_dir: str  # where the copy grows, and where the record stays: on the destination's file system
    files: tuple[MoveFile, ...] = field(default=(), repr=False)
    links: tuple[MoveLink, ...] = field(default=(), repr=False)
    dirs: tuple[str, ...] = field(default=(), repr=False)
    src_is_file: bool = False
    asked_src: str = ""  # as the user gave it, made absolute
    src_mount: str = "other"  # MountKind value
    dst_mount: str = "other"
    src_windows_path: str = ""  # the source as Windows spells it, where known
    bytes_total: int = 0
    files_total: int = 0
    bytes_already: int = 0  # proven by an earlier run
    rate_bytes_per_s: float | None = None
    rate_source: str = ""
    seconds_estimate: float | None = None
    space: Space = Space(0, None, "")
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    state: MoveState = MoveState.NONE
    simulated: bool = False  # a recorded machine: nothing is read or written
    aliases: tuple[tuple[str, str], ...] = ()  # further old path -> new path pairs
    alias_links: tuple[MoveLink, ...] = ()  # links made beside the destination (ModelScope's dotted names)

    @property
    def ok(self) -> bool:
        """True when nothing speaks against running it."""
        return not self.refusals

    def to_json(self, with_files: bool = False) -> dict[str, Any]:
        """Plain data; the list of files only when asked for."""
        skipped = set() if with_files else {"files", "links", "dirs"}
        data = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name not in skipped}
        data["ok"] = self.ok
        data["moved_paths"] = dict(self.aliases)
        return data


@dataclass(frozen=True)
class Progress:
    """How far a move is. ``bytes_done`` counts only bytes that were read back from the destination."""

    bytes_done: int
    bytes_total: int
    files_done: int
    files_total: int
    rate_bytes_per_s: float | None  # over the last seconds; None until it is known
    eta_s: float | None
    stage: Stage
    current_file: str = ""
    elapsed_s: float = 0.0
    simulated: bool = False

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class MoveResult:
    """How a run ended without an error."""

    state: MoveState  # PROVEN, or PARTIAL after a cancel
    dst: str
    bytes_total: int
    bytes_copied: int  # in this run
    files_total: int
    seconds: float
    warnings: tuple[str, ...] = ()
    past_page_cache: bool | None = None  # the reading back really came from the disk; None: nothing was read
    proven_at: float | None = None  # seconds since 1970: it lay there, proven by an earlier run; None: proven now

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class MoveStatus:
    """What the record of a destination says. ``state`` NONE means that there is no record."""

    state: MoveState
    dst: str
    src: str = ""
    kind: MoveKind | None = None
    name: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    files_done: int = 0
    files_total: int = 0
    running: bool = False  # another process holds the lock
    source_there: bool = False
    updated: float = 0.0  # seconds since the epoch
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        return plain


@dataclass(frozen=True)
class DeleteResult:
    """What was deleted of a source. ``kept`` names what was left, each with the reason."""

    deleted_files: int
    freed_bytes: int
    kept: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = _plain(self)
        return plain


def _plain(thing: Any) -> Any:
    if isinstance(thing, Enum):
        return thing.value
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {f.name: _plain(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
    if isinstance(thing, (list, tuple)):
        return [_plain(x) for x in thing]
    if isinstance(thing, Mapping):
        return {str(k): _plain(v) for k, v in thing.items()}
    return thing
