"""RAM, swap, a container's limit and the size of /dev/shm."""

from __future__ import annotations

import posixpath

from wizard.facts import Fact, Memory, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import read, read_line


def probe(host: Host) -> Memory:
    try:
        reading = host.memory()
    except OSError as fault:
        missing: Fact[int] = unknown(str(fault))
        return Memory(missing, missing, missing, missing, cgroup_limit(host, None), shm_size(host))
    source = "psutil"
    return Memory(
        total_bytes=known(reading.total_bytes, source),
        available_bytes=known(reading.available_bytes, source),
        swap_total_bytes=known(reading.swap_total_bytes, source),
        swap_free_bytes=known(reading.swap_free_bytes, source),
        cgroup_limit_bytes=cgroup_limit(host, reading.total_bytes),
        shm_bytes=shm_size(host),
    )


def cgroup_limit(host: Host, total_bytes: int | None) -> Fact[int]:
    """The least memory limit of this process's control groups, version 1 or 2; None where there is none."""
    if not host.platform.startswith("linux"):
        return unknown(_("no container limit"))
    best: tuple[int, str] | None = None
    for file in _limit_files(read(host, "/proc/self/cgroup", 65536) or ""):
        line = read_line(host, file)
        if line is None or not line.isdigit():
            continue
        limit = int(line)
        # Version 1 writes "no limit" as a number near 2**63.
        if limit < (total_bytes or 2**60) and (best is None or limit < best[0]):
            best = (limit, file)
    return known(*best) if best else unknown(_("no container limit"))


def _limit_files(groups: str) -> list[str]:
    files = []
    for line in groups.splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _number, controllers, path = parts
        if controllers == "":
            base, name = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path is the host's and may not exist here: the mount's root counts then.
        while True:
            files.append(posixpath.join(base + posixpath.normpath("/" + path).rstrip("/"), name))
            if path in ("", "/"):
                break
            path = posixpath.dirname(path.rstrip("/"))
    return files


def shm_size(host: Host) -> Fact[int]:
    path = "/dev/shm"  # noqa: S108  (asked for its size only)
    if not host.platform.startswith("linux"):
        return unknown(_("only Linux has it"))
    try:
        return known(host.disk_usage(path).total_bytes, path)
    except OSError as fault:
        return unknown(f"{path}: {fault.strerror or fault}")
