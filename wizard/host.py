"""The machine as the wizard sees it: files, commands, memory, disks. Nothing else reads the machine.

:class:`RealHost` asks this machine (psutil, subprocess); :class:`FakeHost` answers from a recorded folder,
so that probes, plans, demos and screenshots run on machines that are not here.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import json
import ntpath
import os
import posixpath
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from wizard.errors import BadInput
from wizard.i18n import _


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


class DirEntry(NamedTuple):  # made by the hundred thousand: a frozen dataclass is four times as slow
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
        """Run a program without a shell. Never raises: see :class:`CommandResult`. ``env`` is laid over the
        machine's own environment."""
        ...

    def which(self, name: str) -> str | None: ...

    def memory(self) -> MemoryReading: ...

    def disk_usage(self, path: str) -> DiskUsage: ...

    def cpu_count(self) -> int: ...

    def listening_ports(self) -> frozenset[int]: ...

    def nvml(self) -> Mapping[str, Any]:
        """What NVML tells, as plain data: see ``nvml_query.py`` for the keys. Raises OSError when it cannot,
        TimeoutError when it hangs."""
        ...

    def cache_get(self, key: str, max_age_s: float) -> str | None:
        """A text that :meth:`cache_put` kept less than ``max_age_s`` seconds ago, or None. Never raises."""
        ...

    def cache_put(self, key: str, text: str) -> None:
        """Keep a text that was slow to get, in the platform's cache folder. Never raises."""
        ...


NOT_FOUND = 127
NOT_EXECUTABLE = 126
TIMED_OUT = 124
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
_CACHE_KEY = re.compile(r"[a-z0-9-]+")


class RealHost:
    """This machine. Programs are killed with all their children when their time is up."""

    def __init__(self) -> None:
        import platform

        self.name = "this machine"
        self.platform: str = sys.platform
        self.machine = platform.machine()
        self.home = str(Path.home())
        self.env: Mapping[str, str] = dict(os.environ)

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        with Path(path).open("rb") as handle:
            return handle.read() if limit is None else handle.read(limit)

    def read_text(self, path: str, limit: int | None = None) -> str:
        return self.read_bytes(path, limit).decode("utf-8", "replace")

    def exists(self, path: str) -> bool:
        # A path that may not be looked at (permission) cannot be used either.
        try:
            return os.path.exists(path)  # noqa: PTH110  (Path.exists raises on a permission fault before 3.12)
        except (OSError, ValueError):
            return False

    def stat(self, path: str, follow_symlinks: bool = True) -> FileStat:
        import stat as st

        info = os.stat(path, follow_symlinks=follow_symlinks)  # noqa: PTH116
        blocks = getattr(info, "st_blocks", None)
        return FileStat(
            size_bytes=info.st_size,
            is_dir=st.S_ISDIR(info.st_mode),
            is_file=st.S_ISREG(info.st_mode),
            is_symlink=st.S_ISLNK(info.st_mode),
            mtime=info.st_mtime,
            mode=st.S_IMODE(info.st_mode),
            inode=info.st_ino,
            device=info.st_dev,
            blocks_bytes=None if blocks is None else blocks * 512,
        )

    def list_dir(self, path: str) -> list[DirEntry]:
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    kinds = entry.is_dir(), entry.is_file(), entry.is_symlink()
                except OSError:
                    kinds = _safe(entry.is_dir), _safe(entry.is_file), _safe(entry.is_symlink)
                found.append(DirEntry(entry.name, entry.path, *kinds))
        return sorted(found, key=itemgetter(0))

    def readlink(self, path: str) -> str:
        return os.readlink(path)  # noqa: PTH115

    def realpath(self, path: str) -> str:
        return os.path.realpath(path)

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = 5.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        return _run_program(tuple(argv), timeout_s, cwd, {**self.env, **(env or {})})

    def which(self, name: str) -> str | None:
        import shutil

        return shutil.which(name, path=self.env.get("PATH"))

    def memory(self) -> MemoryReading:
        import psutil

        ram = psutil.virtual_memory()
        try:
            swap = psutil.swap_memory()
            swap_total, swap_free = int(swap.total), int(swap.free)
        except (OSError, RuntimeError):  # Windows with its performance counters switched off
            swap_total = swap_free = 0
        return MemoryReading(int(ram.total), int(ram.available), swap_total, swap_free)

    def disk_usage(self, path: str) -> DiskUsage:
        import shutil

        usage = shutil.disk_usage(path)
        return DiskUsage(usage.total, usage.free)

    def cpu_count(self) -> int:
        try:
            return len(os.sched_getaffinity(0))
        except (AttributeError, OSError):
            return os.cpu_count() or 1

    def listening_ports(self) -> frozenset[int]:
        tables = [t for t in ("/proc/net/tcp", "/proc/net/tcp6") if self.exists(t)]
        if tables:
            return frozenset(port for table in tables for port in listening_in(self.read_text(table)))
        import psutil

        try:
            seen = psutil.net_connections(kind="tcp")
        except psutil.Error as fault:
            raise OSError(str(fault)) from fault
        return frozenset(c.laddr.port for c in seen if c.status == psutil.CONN_LISTEN and c.laddr)

    def nvml(self) -> Mapping[str, Any]:
        return _query_nvml(self)

    def cache_get(self, key: str, max_age_s: float) -> str | None:
        try:
            path = _cache_file(key)
            if time.time() - path.stat().st_mtime > max_age_s:
                return None
            return path.read_text("utf-8")
        except (OSError, ValueError):
            return None

    def cache_put(self, key: str, text: str) -> None:
        try:
            path = _cache_file(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        except (OSError, ValueError):
            # A cache that cannot be written costs the next start a second; nothing is lost.
            return


def _cache_file(key: str) -> Path:
    import platformdirs

    if not _CACHE_KEY.fullmatch(key):
        raise ValueError(key)
    return Path(platformdirs.user_cache_dir("vllm-wizard", appauthor=False)) / f"{key}.txt"


def _safe(question: Any) -> bool:
    try:
        return bool(question())
    except OSError:
        return False


def listening_in(table: str) -> set[int]:
    """The ports in state LISTEN (0A) of the text of ``/proc/net/tcp`` or ``tcp6``."""
    ports = set()
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 3 and fields[3] == "0A":
            try:
                ports.add(int(fields[1].rpartition(":")[2], 16))
            except ValueError:
                continue
    return ports


# ---- programs -------------------------------------------------------------------------------------------

_running: set[Any] = set()
_running_lock = threading.Lock()
_exit_hook: list[bool] = []


def _kill_tree(process: Any) -> None:
    """Kill a program and everything that it started."""
    import signal
    import subprocess

    try:
        if sys.platform == "win32":
            subprocess.run(
                ["taskkill", "/F", "/T", "/PID", str(process.pid)],
                capture_output=True,
                timeout=5,
                check=False,
            )
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    except (OSError, subprocess.SubprocessError):
        return


def _kill_running() -> None:
    with _running_lock:
        left = list(_running)
    for process in left:
        _kill_tree(process)


class _Reader(threading.Thread):
    """Reads a pipe to its end, keeping at most :data:`MAX_OUTPUT_BYTES`."""

    def __init__(self, pipe: Any) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._chunks: list[bytes] = []
        self._size = 0

    def run(self) -> None:
        try:
            while chunk := os.read(self._pipe.fileno(), 65536):
                if self._size < MAX_OUTPUT_BYTES:
                    self._chunks.append(chunk)
                    self._size += len(chunk)
        except (OSError, ValueError):
            return

    @property
    def data(self) -> bytes:
        return b"".join(list(self._chunks))[:MAX_OUTPUT_BYTES]


def _run_program(
    argv: tuple[str, ...], timeout_s: float, cwd: str | None, env: Mapping[str, str]
) -> CommandResult:
    import subprocess

    if not argv:
        return CommandResult(argv, NOT_FOUND, b"", b"no program given")
    if not _exit_hook:
        import atexit

        _exit_hook.append(True)
        atexit.register(_kill_running)
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            start_new_session=sys.platform != "win32",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except FileNotFoundError as fault:
        return CommandResult(argv, NOT_FOUND, b"", str(fault).encode())
    except (OSError, ValueError) as fault:
        return CommandResult(argv, NOT_EXECUTABLE, b"", str(fault).encode("utf-8", "replace"))
    with _running_lock:
        _running.add(process)
    out, err = _Reader(process.stdout), _Reader(process.stderr)
    out.start()
    err.start()
    timed_out = False
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill_tree(process)
        code = TIMED_OUT
        # Stuck in the kernel (a wedged driver) it cannot even be killed: then it is left behind.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    # A grandchild that lives on may keep the pipe open for ever: what was written until now is enough.
    patience = time.monotonic() + (0.2 if timed_out else 1.0)
    for reader in (out, err):
        reader.join(max(0.0, patience - time.monotonic()))
    if not (out.is_alive() or err.is_alive()):
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    with _running_lock:
        _running.discard(process)
    return CommandResult(argv, code, out.data, err.data, time.monotonic() - started, timed_out)


# ---- NVML -----------------------------------------------------------------------------------------------

NVML_TIMEOUT_S = 13.0  # eight GPUs without persistence mode take 10 s and more to answer
_NVML_CHILD = (
    "import sys, json\nsys.path[:] = json.loads(sys.argv[1])\n"
    "from wizard.nvml_query import main\nsys.exit(main())"
)


def _query_nvml(host: RealHost) -> Mapping[str, Any]:
    """Ask NVML in a process of its own: a broken driver may hang or crash inside the library."""
    import ctypes

    library = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    wsl_library = "/usr/lib/wsl/lib/libnvidia-ml.so.1"
    env: dict[str, str] = {}
    try:
        ctypes.CDLL(library)
    except OSError as fault:
        if not host.exists(wsl_library):
            raise OSError(str(fault)) from fault
        env["LD_LIBRARY_PATH"] = posixpath.dirname(wsl_library) + (
            ":" + host.env["LD_LIBRARY_PATH"] if host.env.get("LD_LIBRARY_PATH") else ""
        )
    result = host.run(
        [sys.executable, "-S", "-E", "-c", _NVML_CHILD, json.dumps(sys.path)], NVML_TIMEOUT_S, env=env
    )
    if result.timed_out:
        raise TimeoutError(_("NVML did not answer within {seconds:g} s").format(seconds=NVML_TIMEOUT_S))
    try:
        answer = json.loads(result.text)
    except ValueError:
        answer = None
    if not result.ok or not isinstance(answer, dict):
        lines = (result.error_text or result.text).strip().splitlines()
        said = lines[-1] if lines else _("exit code {code}").format(code=result.returncode)
        raise OSError(_("NVML failed: {said}").format(said=said))
    if isinstance(answer.get("error"), str):
        raise OSError(answer["error"])
    return answer


# ---- recorded machines ----------------------------------------------------------------------------------


@dataclass
class _Node:
    """One file, folder or link of a recorded machine."""

    kind: str  # "file", "dir", "link"
    real: Path | None = None
    size_bytes: int | None = None
    link_to: str = ""
    error: str = ""  # name of an errno: "EACCES"
    mode: int | None = None
    mtime: float = 0.0
    name: str = ""
    children: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Recorded:
    """One recorded command."""

    argv: tuple[str, ...]
    stdout: bytes
    stderr: bytes
    returncode: int
    delay_s: float


class FakeHost:
    """A recorded machine: a folder with ``host.json``, ``commands.json`` and ``files/``.

    ``host.json`` holds: ``platform``, ``machine``, ``home``, ``env``, ``memory`` (the fields of
    :class:`MemoryReading`), ``cpu_count``, ``disks`` (path to ``total_bytes`` and ``free_bytes``),
    ``listening_ports``, ``nvml`` (what NVML told, or a text: why it failed), ``programs`` (name to path: what
    :meth:`which` finds), ``entries`` (path to any of ``size_bytes``, ``link_to``, ``dir``, ``error``, ``mode``,
    ``mtime``: what a copied file cannot show), ``cache``. ``commands.json`` is a list of ``argv`` with
    ``stdout`` (or ``stdout_file``, ``stdout_base64``), ``stderr``, ``returncode``, ``delay_s``, ``encoding``.

    A program that the machine does not have gives 127. A command line that was not recorded, of a program
    that it has, gives 127 too and is kept in ``misses``. Delays are only lived through with ``delays``;
    a command whose delay is longer than the caller's time-out times out either way.
    """

    def __init__(self, folder: str | Path, delays: bool = False) -> None:
        self.folder = Path(folder)
        self.delays = delays
        self.misses: list[tuple[str, ...]] = []
        data = _load_host_json(self.folder)
        self.name = _get(data, "name", str, self.folder.resolve().name)
        self.platform: str = _get(data, "platform", str, "linux")
        self.machine = _get(data, "machine", str, "x86_64")
        self.windows = self.platform == "win32"
        self.home = _get(data, "home", str, "C:\\Users\\user" if self.windows else "/home/user")
        self.env: Mapping[str, str] = _str_map(data, "env")
        self._memory = _sizes(
            data, "memory", ("total_bytes", "available_bytes", "swap_total_bytes", "swap_free_bytes")
        )
        self._cpus: int = _get(data, "cpu_count", int, 1)
        self._disks = self._load_disks(data)
        self._ports = frozenset(int(p) for p in _get(data, "listening_ports", list, []) if isinstance(p, int))
        nvml = data.get(
            "nvml", "libnvidia-ml.so.1: cannot open shared object file: No such file or directory"
        )
        if not isinstance(nvml, (dict, str)):
            raise _wrong(data, "nvml", _("an object, or a text saying why NVML failed"))
        self._nvml: dict[str, Any] | str = nvml
        self._nvml_delay_s = float(_get(data, "nvml_delay_s", (int, float), 0.0))
        self._cache = _str_map(data, "cache")
        self._commands = _load_commands(self.folder)
        self._asked: dict[tuple[str, ...], int] = {}
        self._programs = _str_map(data, "programs")
        self._known_programs = (
            set(self._programs)
            | set(self._programs.values())
            | {argv[0] for argv, answers in self._commands.items() if answers[0].returncode != NOT_FOUND}
        )
        self._nodes: dict[str, _Node] = {}
        self._load_files()
        self._load_entries(data)

    # -- loading

    def _load_disks(self, data: dict[str, Any]) -> dict[str, DiskUsage]:
        disks = _get(data, "disks", dict, {})
        found = {}
        for path, value in disks.items():
            if not isinstance(value, dict):
                raise _wrong(data, f"disks.{path}", _("an object with total_bytes and free_bytes"))
            total, free = (value.get(k) for k in ("total_bytes", "free_bytes"))
            if not isinstance(total, int) or not isinstance(free, int):
                raise _wrong(data, f"disks.{path}", _("an object with total_bytes and free_bytes"))
            found[self._key(path)] = DiskUsage(total, free)
        return found

    def _load_files(self) -> None:
        self._nodes[self._key("C:\\" if self.windows else "/")] = _Node("dir")
        root = self.folder / "files"
        if not root.is_dir():
            return
        for here, folders, files in os.walk(root):
            inside = Path(here).relative_to(root).parts
            for name in [*folders, *files]:
                real = Path(here) / name
                path = self._absolute((*inside, name))
                if real.is_symlink():
                    self._add(path, _Node("link", link_to=os.readlink(real)))  # noqa: PTH115
                else:
                    self._add(path, _Node("dir" if real.is_dir() else "file", real=real))

    def _absolute(self, parts: tuple[str, ...]) -> str:
        if self.windows:
            return parts[0] + ":\\" + "\\".join(parts[1:])
        return "/" + "/".join(parts)

    def _load_entries(self, data: dict[str, Any]) -> None:
        for path, value in _get(data, "entries", dict, {}).items():
            where = f"entries.{path}"
            if not isinstance(value, dict):
                raise _wrong(data, where, _("an object with size_bytes, link_to, dir, error, mode or mtime"))
            entry = {**value, "": data[""]}
            link_to = _get(entry, "link_to", str, "", where)
            size = _get(entry, "size_bytes", int, None, where)
            old = self._nodes.get(self._key(path))
            node = old or _Node(
                "link" if link_to else "dir" if _get(entry, "dir", bool, False, where) else "file"
            )
            if link_to:
                node.kind, node.link_to = "link", link_to
            node.size_bytes = size
            node.error = _get(entry, "error", str, "", where)
            if node.error and not hasattr(errno, node.error):
                raise _wrong(data, f"{where}.error", _("the name of an error such as EACCES"))
            node.mode = _get(entry, "mode", int, None, where)
            node.mtime = float(_get(entry, "mtime", (int, float), 0.0, where))
            self._add(path, node)

    def _add(self, path: str, node: _Node) -> None:
        path = self._normal(path)
        parent, name = (ntpath if self.windows else posixpath).split(path)
        node.name = name
        key = self._key(path)
        old = self._nodes.get(key)
        if old is not None and old.kind == "dir" and node.kind == "dir":
            node.children |= old.children
        self._nodes[key] = node
        if not name:
            return
        above = self._key(parent)
        if above not in self._nodes:
            self._add(parent, _Node("dir"))
        self._nodes[above].children.add(key)

    # -- paths

    def _normal(self, path: str) -> str:
        if self.windows:
            return ntpath.normpath(path)
        return "/" + posixpath.normpath("/" + path).lstrip("/")

    def _key(self, path: str) -> str:
        """What a path is looked up by: Windows does not tell capitals from small letters."""
        path = self._normal(path)
        return path.lower() if self.windows else path

    def _resolve(self, path: str, follow_last: bool = True) -> str:
        """The path with links followed, as the system would: it need not exist."""
        if self.windows:
            return self._normal(path)
        todo = [p for p in path.split("/") if p not in ("", ".")]
        done = "/"
        hops = 0
        while todo:
            part = todo.pop(0)
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            node = self._nodes.get(here)
            if node is not None and node.kind == "link" and (todo or follow_last):
                hops += 1
                if hops > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                todo = [p for p in node.link_to.split("/") if p not in ("", ".")] + todo
                if node.link_to.startswith("/"):
                    done = "/"
                continue
            done = here
        return done

    def _node(self, path: str, follow_last: bool = True) -> _Node:
        where = self._resolve(path, follow_last)
        node = self._nodes.get(self._key(where))
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if node.error:
            code = int(getattr(errno, node.error))
            raise OSError(code, os.strerror(code), path)
        return node

    # -- the questions

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        node = self._node(path)
        if node.kind == "dir":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if node.real is None:
            if not node.size_bytes:
                return b""
            raise OSError(errno.EIO, "the content of this file was not recorded", path)
        with node.real.open("rb") as handle:
            return handle.read() if limit is None else handle.read(limit)

    def read_text(self, path: str, limit: int | None = None) -> str:
        return self.read_bytes(path, limit).decode("utf-8", "replace")

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except OSError:
            return False
        return True

    def stat(self, path: str, follow_symlinks: bool = True) -> FileStat:
        node = self._node(path, follow_symlinks)
        where = self._resolve(path, follow_symlinks)
        size = node.size_bytes
        if size is None:
            size = node.real.stat().st_size if node.kind == "file" and node.real is not None else 0
        mode = node.mode if node.mode is not None else (0o644 if node.kind == "file" else 0o755)
        return FileStat(
            size_bytes=size,
            is_dir=node.kind == "dir",
            is_file=node.kind == "file",
            is_symlink=node.kind == "link",
            mtime=node.mtime,
            mode=mode,
            inode=binascii.crc32(self._key(where).encode("utf-8", "replace")),
            device=binascii.crc32((self._disk_of(where) or "").encode("utf-8", "replace")),
            blocks_bytes=size,
        )

    def list_dir(self, path: str) -> list[DirEntry]:
        node = self._node(path)
        if node.kind != "dir":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        join = (ntpath if self.windows else posixpath).join
        found = []
        for key in node.children:
            child = self._nodes[key]
            target: _Node | None = child
            if child.kind == "link":
                try:
                    target = self._node(join(path, child.name))
                except OSError:
                    target = None
            found.append(
                DirEntry(
                    child.name,
                    join(path, child.name),
                    target is not None and target.kind == "dir",
                    target is not None and target.kind == "file",
                    child.kind == "link",
                )
            )
        return sorted(found, key=lambda e: e.name)

    def readlink(self, path: str) -> str:
        node = self._node(path, follow_last=False)
        if node.kind != "link":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        return node.link_to

    def realpath(self, path: str) -> str:
        try:
            return self._resolve(path)
        except OSError:
            return path

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = 5.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        asked = tuple(argv)
        answers = self._commands.get(asked) or self._commands.get(self._by_name(asked))
        if not answers:
            known = bool(asked) and self._by_name(asked)[0] in self._known_programs
            if known:
                self.misses.append(asked)
            said = f"{asked[0] if asked else ''}: not found"
            return CommandResult(asked, NOT_FOUND, b"", said.encode("utf-8", "replace"))
        turn = self._asked.get(asked, 0)
        self._asked[asked] = turn + 1
        answer = answers[min(turn, len(answers) - 1)]
        if self.delays:
            time.sleep(min(answer.delay_s, timeout_s))
        if answer.delay_s > timeout_s:
            return CommandResult(asked, TIMED_OUT, b"", b"", timeout_s, timed_out=True)
        return CommandResult(asked, answer.returncode, answer.stdout, answer.stderr, answer.delay_s)

    def _by_name(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The command line with its program by the name that :meth:`which` knows it by."""
        for name, path in self._programs.items():
            if argv and argv[0] == path:
                return (name, *argv[1:])
        return argv

    def which(self, name: str) -> str | None:
        if name in self._programs:
            return self._programs[name]
        if ("/" in name or "\\" in name) and self.exists(name):
            return name
        return None

    def memory(self) -> MemoryReading:
        return MemoryReading(*self._memory)

    def _disk_of(self, path: str) -> str | None:
        key = self._key(path)
        sep = "\\" if self.windows else "/"
        under = [d for d in self._disks if (key.rstrip(sep) + sep).startswith(d.rstrip(sep) + sep)]
        return max(under, key=len) if under else None

    def disk_usage(self, path: str) -> DiskUsage:
        disk = self._disk_of(self._resolve(path))
        if disk is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._disks[disk]

    def cpu_count(self) -> int:
        return self._cpus

    def listening_ports(self) -> frozenset[int]:
        return self._ports

    def nvml(self) -> Mapping[str, Any]:
        if self.delays:
            time.sleep(min(self._nvml_delay_s, NVML_TIMEOUT_S))
        if self._nvml_delay_s > NVML_TIMEOUT_S:
            raise TimeoutError(_("NVML did not answer within {seconds:g} s").format(seconds=NVML_TIMEOUT_S))
        if isinstance(self._nvml, str):
            raise OSError(self._nvml)
        return self._nvml

    def cache_get(self, key: str, max_age_s: float) -> str | None:
        return self._cache.get(key)

    def cache_put(self, key: str, text: str) -> None:
        # A recorded machine is never written to, and answers the same each time.
        return


# Under the key "" the loaded data carry the name of their file, for messages.


def _wrong(data: Mapping[str, Any], where: str, wanted: str) -> BadInput:
    return BadInput(
        _("{file}: field {field} is wrong: it should be {wanted}").format(
            file=data.get("", "host.json"), field=where, wanted=wanted
        )
    )


def _kind_name(kinds: Any) -> str:
    names = {str: _("a text"), int: _("a whole number"), float: _("a number"), bool: _("true or false")}
    names.update({list: _("a list"), dict: _("an object")})
    kind = kinds[-1] if isinstance(kinds, tuple) else kinds
    return names.get(kind, str(kind))


def _get(data: Mapping[str, Any], key: str, kinds: Any, default: Any, where: str = "") -> Any:
    value = data.get(key)
    if value is None:
        return default
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise _wrong(data, f"{where}.{key}" if where else key, _kind_name(kinds))
    return value


def _str_map(data: Mapping[str, Any], key: str) -> dict[str, str]:
    value = _get(data, key, dict, {})
    if not all(isinstance(v, str) for v in value.values()):
        raise _wrong(data, key, _("an object of texts"))
    return dict(value)


def _sizes(data: Mapping[str, Any], key: str, names: Iterable[str]) -> list[int]:
    value = _get(data, key, dict, {})
    sizes = []
    for name in names:
        number = value.get(name)
        if isinstance(number, bool) or not isinstance(number, int):
            raise _wrong(data, f"{key}.{name}", _("a whole number of bytes"))
        sizes.append(number)
    return sizes


def _load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as fault:
        raise BadInput(
            _(
                "{file}: cannot be read ({why}); a recorded machine is a folder made by `vllm-wizard record DIR`"
            ).format(file=path, why=fault.strerror or fault)
        ) from fault
    except ValueError as fault:
        raise BadInput(_("{file}: is not valid JSON ({why})").format(file=path, why=fault)) from fault


def _load_host_json(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise BadInput(
            _("{folder}: there is no such folder; give the folder of a recorded machine").format(
                folder=folder
            )
        )
    data = _load_json(folder / "host.json")
    if not isinstance(data, dict):
        raise BadInput(_("{file}: should hold an object").format(file=folder / "host.json"))
    data[""] = str(folder / "host.json")
    return data


def _load_commands(folder: Path) -> dict[tuple[str, ...], list[_Recorded]]:
    file = folder / "commands.json"
    rows = _load_json(file)
    if not isinstance(rows, list):
        raise BadInput(_("{file}: should hold a list").format(file=file))
    commands: dict[tuple[str, ...], list[_Recorded]] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadInput(_("{file}: entry {number} should be an object").format(file=file, number=number))
        row = {**row, "": str(file)}
        where = f"[{number}]"
        argv = _get(row, "argv", list, None, where)
        if not argv or not all(isinstance(a, str) for a in argv):
            raise _wrong(row, f"{where}.argv", _("a list of texts"))
        command = _Recorded(
            tuple(argv),
            _output(folder, row, "stdout", where),
            _output(folder, row, "stderr", where),
            _get(row, "returncode", int, 0, where),
            float(_get(row, "delay_s", (int, float), 0.0, where)),
        )
        commands.setdefault(command.argv, []).append(command)
    return commands


def _output(folder: Path, row: Mapping[str, Any], stream: str, where: str) -> bytes:
    encoding = _get(row, "encoding", str, "utf-8", where)
    text: str | None = _get(row, stream, str, None, where)
    coded: str | None = _get(row, f"{stream}_base64", str, None, where)
    name: str | None = _get(row, f"{stream}_file", str, None, where)
    try:
        if text is not None:
            return text.encode(encoding)
        if coded is not None:
            return base64.b64decode(coded, validate=True)
    except (LookupError, ValueError) as fault:
        raise _wrong(
            row, f"{where}.{stream}", _("readable in its encoding ({why})").format(why=fault)
        ) from fault
    if name is None:
        return b""
    path = folder / name
    if folder.resolve() not in path.resolve().parents:
        raise _wrong(row, f"{where}.{stream}_file", _("a file inside the recorded machine's folder"))
    try:
        return path.read_bytes()
    except OSError as fault:
        raise BadInput(
            _("{file}: cannot be read ({why})").format(file=path, why=fault.strerror or fault)
        ) from fault


def open_host(machine_dir: str | Path | None = None, delays: bool = False) -> Host:
    """This machine, or the recorded one in ``machine_dir``; raises :class:`BadInput` when that is none."""
    return RealHost() if machine_dir is None else FakeHost(machine_dir, delays)
