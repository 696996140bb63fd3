"""Records this machine into a folder that :class:`wizard.host.FakeHost` can answer from.

All probes and the model finder run once on a host that remembers what they asked; exactly that is written, and
nothing else. Names, serial numbers and secrets are taken out on the way (see ``scrub.py``), and of the folders
that belong to the user only those entries are kept that the wizard went on to look into.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import posixpath
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wizard.errors import BadInput, WizardError
from wizard.host import (
    NOT_FOUND,
    CommandResult,
    DirEntry,
    DiskUsage,
    FileStat,
    Host,
    MemoryReading,
    RealHost,
)
from wizard.i18n import _
from wizard.probes.common import words
from wizard.scrub import SECRET_NAME, Scrubber

KEPT_ENV = words(
    """HOME PATH LANG LC_ALL SHELL TERM WSL_DISTRO_NAME WSL_INTEROP VIRTUAL_ENV CONDA_PREFIX HF_HOME HF_HUB_CACHE
    HUGGINGFACE_HUB_CACHE HF_ENDPOINT TRANSFORMERS_CACHE MODELSCOPE_CACHE XDG_CACHE_HOME XDG_CONFIG_HOME
    CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES DOCKER_HOST USERPROFILE
    PROCESSOR_IDENTIFIER container KUBERNETES_SERVICE_HOST VLLM_USE_MODELSCOPE VLLM_CPU_KVCACHE_SPACE"""
)
PUBLIC_ENDPOINTS = ("https://huggingface.co", "https://hf-mirror.com", "https://www.modelscope.cn")
# Folders that belong to the system: their listings hold no one's private names.
_SYSTEM = re.compile(r"^(?:/sys|/proc|/dev|/etc/cdi|/run/cdi|/var/run/cdi|/opt/rocm)(?:/|$)")
# The kernel's own trees answer at the path that was asked: their links lead through the hardware.
_UNLINKED = re.compile(r"^/(?:proc|sys)/")
_MODEL_FILE = re.compile(
    r"\.(?:safetensors|bin|pt|pth|gguf|json|txt|model|jinja|md|tiktoken|npz|incomplete|lock|py|yaml)$",
    re.IGNORECASE,
)
FOREVER_S = 3600.0
# Which interface has which address; a cluster's plan asks for it. Public addresses are replaced like everywhere.
ADDRESS_COMMAND = ("ip", "-o", "-4", "addr", "show")


@dataclass(frozen=True)
class Recording:
    """What was written."""

    folder: Path
    files: int
    commands: int
    left_out: int  # names of the user's own folders that were seen and not kept


@dataclass
class _Notes:
    """What was asked and answered, by the machine's own paths."""

    contents: dict[str, bytes] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    listings: dict[str, list[DirEntry]] = field(default_factory=dict)
    commands: dict[tuple[str, ...], CommandResult] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    disks: dict[str, DiskUsage] = field(default_factory=dict)
    cache: dict[str, str] = field(default_factory=dict)
    nvml: dict[str, Any] | str | None = None
    nvml_delay_s: float = 0.0
    ports: frozenset[int] = frozenset()


class Recorder:
    """A host that passes every question on and remembers the answer."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.notes = _Notes()
        self._lock = threading.RLock()
        self._linked: set[str] = set()
        self.name, self.platform, self.machine = host.name, host.platform, host.machine
        self.home, self.env = host.home, host.env

    # -- files

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        try:
            data = self._host.read_bytes(path, limit)
        except OSError as fault:
            self._failed(path, fault)
            raise
        where = self._place(path)
        with self._lock:
            if len(data) >= len(self.notes.contents.get(where, b"")):
                self.notes.contents[where] = data
        if limit is not None and len(data) == limit:
            self._note_stat(path, where)
        return data

    def read_text(self, path: str, limit: int | None = None) -> str:
        return self.read_bytes(path, limit).decode("utf-8", "replace")

    def exists(self, path: str) -> bool:
        there = self._host.exists(path)
        if there:
            self._note_stat(path, self._place(path))
        return there

    def stat(self, path: str, follow_symlinks: bool = True) -> FileStat:
        try:
            info = self._host.stat(path, follow_symlinks)
        except OSError as fault:
            self._failed(path, fault)
            raise
        where = self._place(path)
        if not info.is_symlink:
            self._note(where, info)
        return info

    def list_dir(self, path: str) -> list[DirEntry]:
        try:
            found = self._host.list_dir(path)
        except OSError as fault:
            self._failed(path, fault)
            raise
        with self._lock:
            self.notes.listings[self._place(path)] = found
        return found

    def readlink(self, path: str) -> str:
        target = self._host.readlink(path)
        with self._lock:
            self.notes.entries[path] = {"link_to": target}
        return target

    def realpath(self, path: str) -> str:
        self._place(path)
        return self._host.realpath(path)

    def _failed(self, path: str, fault: OSError) -> None:
        name = errno.errorcode.get(fault.errno or 0, "")
        if name and fault.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL):
            with self._lock:
                self.notes.entries.setdefault(path, {})["error"] = name

    def _note_stat(self, path: str, where: str) -> None:
        try:
            self._note(where, self._host.stat(path))
        except OSError:
            return

    def _note(self, where: str, info: FileStat) -> None:
        with self._lock:
            entry = self.notes.entries.setdefault(where, {})
            if info.is_dir:
                entry["dir"] = True
            else:
                entry["size_bytes"] = info.size_bytes
            if info.mtime and not _UNLINKED.match(where):
                entry["mtime"] = int(info.mtime)

    def _place(self, path: str) -> str:
        """Where the path really leads; the links on the way are noted."""
        if self.platform == "win32" or _UNLINKED.match(path):
            return path
        todo = [p for p in path.split("/") if p not in ("", ".")]
        done, hops = "/", 0
        while todo and hops < 40:
            part = todo.pop(0)
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            target = None if here in self._linked else self._link_at(here)
            if target is None:
                self._linked.add(here)
                done = here
                continue
            hops += 1
            todo = [p for p in target.split("/") if p not in ("", ".")] + todo
            done = "/" if target.startswith("/") else done
        return done

    def _link_at(self, path: str) -> str | None:
        if _UNLINKED.match(path + "/"):
            return None
        try:
            target = self._host.readlink(path)
        except (OSError, ValueError):
            return None
        with self._lock:
            self.notes.entries[path] = {"link_to": target}
        return target

    # -- everything else

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = 5.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        result = self._host.run(argv, timeout_s, cwd=cwd, env=env)
        with self._lock:
            self.notes.commands.setdefault(tuple(argv), result)
        return result

    def which(self, name: str) -> str | None:
        path = self._host.which(name)
        if path is not None:
            with self._lock:
                self.notes.programs[name] = path
        return path

    def memory(self) -> MemoryReading:
        return self._host.memory()

    def disk_usage(self, path: str) -> DiskUsage:
        usage = self._host.disk_usage(path)
        with self._lock:
            self.notes.disks[self._place(path)] = usage
        return usage

    def cpu_count(self) -> int:
        return self._host.cpu_count()

    def listening_ports(self) -> frozenset[int]:
        ports = self._host.listening_ports()
        self.notes.ports = ports
        return ports

    def nvml(self) -> Mapping[str, Any]:
        try:
            data = dict(self._host.nvml())
        except TimeoutError:
            self.notes.nvml, self.notes.nvml_delay_s = "NVML did not answer", FOREVER_S
            raise
        except OSError as fault:
            self.notes.nvml = str(fault)
            raise
        self.notes.nvml = data
        return data

    def cache_get(self, key: str, max_age_s: float) -> str | None:
        text = self._host.cache_get(key, max_age_s)
        if text is not None:
            self.notes.cache[key] = text
        return text

    def cache_put(self, key: str, text: str) -> None:
        self._host.cache_put(key, text)


# ---- looking around --------------------------------------------------------------------------------------


def look_around(host: Host) -> None:
    """Ask everything that the wizard asks of a machine: the probes, the models, and the network of a cluster's node."""
    from wizard.models.find import find
    from wizard.models.inspect import inspect
    from wizard.probes import run_all

    machine = run_all(host)
    for found in find(host, machine):
        inspect(host, found.path)
    if host.platform == "linux":
        host.run(ADDRESS_COMMAND)


def record(
    folder: str | Path, host: Host | None = None, explore: Callable[[Host], None] = look_around
) -> Recording:
    """Record ``host`` (this machine) into ``folder``, which must be new or empty."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(_("{folder}: is there already and not empty; name a new folder").format(folder=target))
    recorder = Recorder(host or RealHost())
    explore(recorder)
    return write(recorder, target, scrubber_for(recorder))


def scrubber_for(host: Host) -> Scrubber:
    """A scrubber that knows the names of this host and its user."""
    names = [host.env.get(k, "") for k in ("USER", "LOGNAME", "USERNAME")]
    computers = [host.env.get(k, "") for k in ("HOSTNAME", "COMPUTERNAME", "NAME", "HOST")]
    if host.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            computers.append(host.read_text("/proc/sys/kernel/hostname", 256).strip())
    return Scrubber(host.home, names, computers, host.env)


# ---- writing ---------------------------------------------------------------------------------------------


def write(recorder: Recorder, folder: Path, scrubber: Scrubber) -> Recording:
    """Write the notes of a recorder, scrubbed."""
    notes = recorder.notes
    windows = recorder.platform == "win32"
    _meet_people(notes, scrubber)
    contents = {p: d for p, d in notes.contents.items() if p != "/proc/sys/kernel/hostname"}
    kept, left_out = _kept_listings(notes, contents)
    files = {scrubber.names(path): _content(path, data, scrubber) for path, data in contents.items()}
    entries = _entries(notes, kept, contents, scrubber)
    for path, data in files.items():
        entry = entries.get(path, {})
        raw = len(contents.get(path, data))
        # A file whose real size is that of its content needs no figure; scrubbing may have changed it.
        if entry.get("size_bytes") in (len(data), raw) or entry.get("size_bytes") == 0:
            entry.pop("size_bytes", None)
    commands = [
        _command(argv, result, scrubber) for argv, result in notes.commands.items() if _worth_keeping(result)
    ]
    host = {
        "name": folder.name,
        "platform": recorder.platform,
        "machine": recorder.machine,
        "home": scrubber.names(recorder.home),
        "env": _environment(recorder.env, scrubber),
        "memory": dict(vars(recorder.memory())),
        "cpu_count": recorder.cpu_count(),
        "disks": {scrubber.names(p): dict(vars(u)) for p, u in sorted(notes.disks.items())},
        "listening_ports": sorted(notes.ports),
        "programs": {scrubber.names(k): scrubber.names(v) for k, v in sorted(notes.programs.items())},
        "entries": {p: e for p, e in sorted(entries.items()) if e},
        "cache": {k: scrubber.text(v) for k, v in notes.cache.items()},
    }
    if notes.nvml is not None:
        host["nvml"] = _scrub_json(notes.nvml, scrubber)
        host["nvml_delay_s"] = notes.nvml_delay_s
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in files.items():
            _write_file(folder / "files" / _inside(path, windows), data)
        _write_file(folder / "host.json", _pretty(host))
        _write_file(folder / "commands.json", _pretty(commands))
    except OSError as fault:
        raise WizardError(
            _("{folder}: cannot be written ({why})").format(folder=folder, why=fault.strerror or fault)
        ) from fault
    return Recording(folder, len(files), len(commands), left_out)


def _meet_people(notes: _Notes, scrubber: Scrubber) -> None:
    """Tell the scrubber whose folders there are: the Windows user who answered, then all others."""
    for result in notes.commands.values():
        answer = re.fullmatch(r"[A-Za-z]:\\Users\\([^\\\r\n]+)\s*", result.text)
        if answer:
            scrubber.person(answer.group(1).strip(), owner=True)
    for folder, found in notes.listings.items():
        if re.search(r"[\\/](?:Users|home)$", folder, re.IGNORECASE):
            for entry in found:
                scrubber.person(entry.name)


def _write_file(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _pretty(data: Any) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False, sort_keys=isinstance(data, dict)) + "\n").encode()


def _inside(path: str, windows: bool) -> str:
    if windows:
        path = path.replace(":\\", "\\").replace("\\", "/")
    return path.lstrip("/")


def _content(path: str, data: bytes, scrubber: Scrubber) -> bytes:
    if path.lower().endswith((".safetensors", ".gguf", ".bin", ".pt", ".pth")) or b"\0" in data[:4096]:
        return scrubber.data(data)
    try:
        return scrubber.text(data.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        return scrubber.data(data)


def _entries(
    notes: _Notes, kept: dict[str, DirEntry], contents: Mapping[str, bytes], scrubber: Scrubber
) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for path, entry in kept.items():
        if path not in contents:
            entries[scrubber.names(path)] = {"dir": True} if entry.is_dir else {}
            # An empty file stands for one whose content nobody asked for.
            if not entry.is_dir and path not in notes.entries:
                entries[scrubber.names(path)] = {"size_bytes": 0}
    for path, entry_data in notes.entries.items():
        one = dict(entry_data)
        if "link_to" in one:
            one = {"link_to": scrubber.names(one["link_to"])}
        entries.setdefault(scrubber.names(path), {}).update(one)
    return entries


def _kept_listings(notes: _Notes, contents: Mapping[str, bytes]) -> tuple[dict[str, DirEntry], int]:
    """The listed names that are kept, and how many are not: of folders that are not the system's, only what the
    wizard looked into, and the files beside what it read (a model's shards)."""
    sep = "\\" if any(":\\" in p for p in (*contents, *notes.listings)) else "/"
    used: set[str] = set()
    for path in (*contents, *notes.entries):
        while path and path not in used:
            used.add(path)
            path = path.rpartition(sep)[0]
    read_in = {path.rpartition(sep)[0] for path in contents}
    kept: dict[str, DirEntry] = {}
    left_out = 0
    for folder, found in notes.listings.items():
        for entry in found:
            path = f"{folder.rstrip(sep)}{sep}{entry.name}"
            beside = folder in read_in and not entry.is_dir and _MODEL_FILE.search(entry.name)
            if path in used or beside or _SYSTEM.match(folder):
                kept[path] = entry
            else:
                left_out += 1
    return kept, left_out


def _worth_keeping(result: CommandResult) -> bool:
    return result.returncode != NOT_FOUND or bool(result.stdout)


def _command(argv: tuple[str, ...], result: CommandResult, scrubber: Scrubber) -> dict[str, Any]:
    row: dict[str, Any] = {"argv": [scrubber.names(a) for a in argv]}
    for stream, raw in (("stdout", result.stdout), ("stderr", result.stderr)):
        if not raw:
            continue
        encoding = "utf-16-le" if _is_utf16(raw) else "utf-8"
        try:
            text = scrubber.text(raw.decode(encoding))
        except UnicodeDecodeError:
            row[f"{stream}_base64"] = base64.b64encode(scrubber.data(raw)).decode("ascii")
            continue
        if encoding == "utf-16-le" and (stream == "stdout" or "encoding" in row):
            row["encoding"] = encoding
        elif row.get("encoding", "utf-8") != encoding:
            row[f"{stream}_base64"] = base64.b64encode(text.encode(encoding)).decode("ascii")
            continue
        row[stream] = text
    if result.returncode:
        row["returncode"] = result.returncode
    row["delay_s"] = FOREVER_S if result.timed_out else round(result.seconds, 3)
    if result.timed_out:
        row.pop("returncode", None)
    return row


def _is_utf16(raw: bytes) -> bool:
    sample = raw[:200]
    return len(raw) % 2 == 0 and len(sample) > 1 and sample[1::2].count(0) >= len(sample[1::2]) * 0.6


def _environment(env: Mapping[str, str], scrubber: Scrubber) -> dict[str, str]:
    kept = {}
    for name in sorted(KEPT_ENV & set(env)):
        value = env[name]
        if SECRET_NAME.search(name):
            continue
        if name == "HF_ENDPOINT" and not value.startswith(PUBLIC_ENDPOINTS):
            value = "https://mirror.example"
        if name == "KUBERNETES_SERVICE_HOST":
            value = "10.0.0.1"
        kept[name] = scrubber.text(value)
    return kept


def _scrub_json(data: Any, scrubber: Scrubber) -> Any:
    if isinstance(data, str):
        return scrubber.text(data)
    if isinstance(data, dict):
        return {k: _scrub_json(v, scrubber) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [_scrub_json(v, scrubber) for v in data]
    return data
