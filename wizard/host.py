"""The machine as the wizard sees it: files, commands, memory, disks. Nothing else reads the machine.

:class:`RealHost` asks this machine (psutil, subprocess); :class:`FakeHost` answers from a recorded folder,
so that probes, plans, demos and screenshots run on machines that are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class CommandResult:
    """How a command went. A program that is not there gives 127; a time-out gives 124 and ``timed_out``."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    @property
    def text(self) -> str:
        """Standard output as text; UTF-16LE (as Windows programs write it) is recognised."""
        return decode_output(self.stdout)

    @property
    def error_text(self) -> str:
        return decode_output(self.stderr)


def decode_output(raw: bytes) -> str:
    """Text of a program's output: UTF-16LE with or without a byte order mark, else UTF-8 with replacement."""
    if raw.startswith(b"\xff\xfe"):
        return raw[2:].decode("utf-16-le", "replace").replace("\r\n", "\n")
    # Windows programs write UTF-16LE without a mark: ASCII text then has a zero in every second byte.
    sample = raw[:200]
    if len(sample) >= 2 and len(raw) % 2 == 0 and sample[1::2].count(0) >= len(sample[1::2]) * 0.6:
        return raw.decode("utf-16-le", "replace").replace("\r\n", "\n")
    return raw.decode("utf-8", "replace").replace("\r\n", "\n")


@dataclass(frozen=True)
class FileStat:
    size_bytes: int
    is_dir: bool
    is_file: bool
    is_symlink: bool
    mtime: float = 0.0
    mode: int = 0
    inode: int = 0
    device: int = 0
    blocks_bytes: int | None = None  # really allocated, where known


@dataclass(frozen=True)
class DirEntry:
    name: str
    path: str
    is_dir: bool
    is_file: bool
    is_symlink: bool


@dataclass(frozen=True)
class DiskUsage:
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class MemoryReading:
    total_bytes: int
    available_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int


class Host(Protocol):
    """What a probe may ask. Paths are absolute, in the machine's own form. Missing files raise OSError."""

    name: str
    platform: str  # sys.platform: "linux", "win32", "darwin"
    machine: str  # platform.machine(): "x86_64"
    home: str
    env: Mapping[str, str]

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        """The file's content, at most the first ``limit`` bytes."""
        ...

    def read_text(self, path: str, limit: int | None = None) -> str:
        """The same as UTF-8 text with replacement."""
        ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str, follow_symlinks: bool = True) -> FileStat: ...

    def list_dir(self, path: str) -> list[DirEntry]: ...

    def readlink(self, path: str) -> str: ...

    def realpath(self, path: str) -> str: ...

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = 5.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a program without a shell. Never raises: see :class:`CommandResult`."""
        ...

    def which(self, name: str) -> str | None: ...

    def memory(self) -> MemoryReading: ...

    def disk_usage(self, path: str) -> DiskUsage: ...

    def cpu_count(self) -> int: ...

    def listening_ports(self) -> frozenset[int]: ...

    def nvml(self) -> Mapping[str, Any]:
        """What NVML (nvidia-ml-py) tells, as plain data: see ``probes/gpu.py``. Raises OSError when it cannot."""
        ...


# RealHost, FakeHost and Recorder are implemented below.
