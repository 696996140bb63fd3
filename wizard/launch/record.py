"""What was started, kept in the state folder so that status, stop and logs find it again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wizard import program
from wizard.launch.processes import Leader

KEPT_LOGS = 8  # of one folder; older ones are dropped


@dataclass(frozen=True)
class Attempt:
    """One start: what was tried and how it went."""

    when: float  # seconds since 1970
    fingerprint: str  # of the files that were started
    outcome: str  # "ready", "failed", "timeout", "stopped", "died"
    seconds: float
    log: str
    cause: str | None = None  # the class of the diagnosis
    title: str = ""
    fix: str = ""  # the change that was made after it
    changed: dict[str, Any] = field(default_factory=dict)  # answers changed by that


@dataclass(frozen=True)
class Record:
    """A server that was started from one folder. No secret stands here."""

    id: str
    folder: str
    how: str  # "script", "compose", "systemd"
    name: str  # the model's name in the API
    port: int
    started: float
    status: str  # "starting", "serving", "stopped", "failed"
    log: str | None = None
    pid: int | None = None
    created: float | None = None  # of the process
    container: str | None = None
    unit: str | None = None
    attempts: tuple[Attempt, ...] = ()
    url: str = ""  # as this machine reaches it, without a path

    @property
    def leader(self) -> Leader | None:
        return None if self.pid is None else Leader(self.pid, self.created or 0.0)


def state_folder() -> Path:
    """Where records and logs are kept."""
    return program.state_folder() / "servers"


def record_id(folder: str | os.PathLike[str]) -> str:
    """One record a folder: its name for people, its path for the rest."""
    path = os.path.realpath(folder)
    word = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in Path(path).name).strip("-.")
    return f"{word or 'server'}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"


def new_log(identity: str) -> Path:
    """A new log file (mode 0600: a log may hold prompts); old ones are dropped."""
    folder = state_folder() / identity
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    old = sorted(folder.glob("*.log"))
    for path in old[: max(0, len(old) - KEPT_LOGS + 1)]:
        with contextlib.suppress(OSError):
            path.with_suffix(".up").unlink(missing_ok=True)
            path.unlink()
    stamp = time.strftime("%Y%m%dT%H%M%S")
    number = 0
    while True:
        path = folder / (f"{stamp}.log" if not number else f"{stamp}-{number}.log")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return path
        except FileExistsError:
            number += 1


def save(record: Record) -> None:
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"{record.id}.json"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(record), indent=1), "utf-8")
    temporary.replace(path)


def load(identity: str) -> Record | None:
    """The record, or None when there is none or it cannot be read."""
    try:
        data = json.loads((state_folder() / f"{identity}.json").read_text("utf-8"))
        attempts = tuple(Attempt(**row) for row in data.pop("attempts", ()))
        return Record(**data, attempts=attempts)
    except (OSError, ValueError, TypeError):
        return None


def load_all() -> list[Record]:
    """All records, the latest first."""
    found = [load(path.stem) for path in state_folder().glob("*.json")]
    return sorted((r for r in found if r is not None), key=lambda r: -r.started)


def with_attempt(record: Record, attempt: Attempt) -> Record:
    return replace(record, attempts=(*record.attempts, attempt)[-20:])
