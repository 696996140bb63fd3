"""Where the wizard runs: a Linux of its own, WSL1, WSL2, a container, Windows; and which system it is."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from wizard.facts import Fact, SystemKind, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import read, read_line


@dataclass(frozen=True)
class SystemFacts:
    kind: SystemKind
    os_name: Fact[str]
    kernel: Fact[str]


def probe(host: Host) -> SystemFacts:
    kind = detect_kind(host)
    if host.platform == "win32":
        return SystemFacts(kind, _windows_name(host), unknown(_("Windows has no Linux kernel of its own")))
    if host.platform == "darwin":
        result = host.run(["sw_vers", "-productVersion"], 3)
        name = known("macOS " + result.text.strip(), "sw_vers") if result.ok else known("macOS", "platform")
        return SystemFacts(kind, name, unknown(_("not a Linux system")))
    release = kernel_release(host)
    kernel = known(release, "/proc/sys/kernel/osrelease") if release else unknown(_("/proc is not readable"))
    return SystemFacts(kind, os_name(host), kernel)


def kernel_release(host: Host) -> str | None:
    """The running kernel's release: "6.6.87.2-microsoft-standard-WSL2"."""
    release = read_line(host, "/proc/sys/kernel/osrelease")
    if release:
        return release
    match = re.match(r"Linux version (\S+)", read(host, "/proc/version", 4096) or "")
    return match.group(1) if match else None


def detect_kind(host: Host) -> SystemKind:
    if host.platform == "win32":
        return SystemKind.WINDOWS
    if host.platform == "darwin":
        return SystemKind.MACOS
    if not host.platform.startswith("linux"):
        return SystemKind.OTHER
    release = kernel_release(host) or ""
    # WSL1 translates system calls and writes "Microsoft"; WSL2's real kernel writes "microsoft".
    if "Microsoft" in release:
        return SystemKind.WSL1
    wsl = "microsoft" in release or any(host.exists(p) for p in ("/dev/dxg", "/run/WSL", "/usr/lib/wsl"))
    container = in_container(host) and not (wsl and host.env.get("WSL_DISTRO_NAME"))
    if container:
        return SystemKind.WSL_CONTAINER if wsl else SystemKind.CONTAINER
    return SystemKind.WSL2 if wsl else SystemKind.NATIVE


_CONTAINER_CGROUP = re.compile(
    r"(?:/|-|^)(?:docker|kubepods|containerd|cri-containerd|libpod|lxc|podman|garden)[-/.]"
)


def in_container(host: Host) -> bool:
    """Whether this is a container: by the marks that engines leave, not by the file system alone."""
    # systemd calls WSL a container, too.
    manager = read_line(host, "/run/systemd/container") or host.env.get("container", "")
    if manager and manager != "wsl":
        return True
    if host.env.get("KUBERNETES_SERVICE_HOST") or host.exists("/run/.containerenv"):
        return True
    groups = read(host, "/proc/1/cgroup", 65536) or read(host, "/proc/self/cgroup", 65536) or ""
    if any(_CONTAINER_CGROUP.search(line.split(":", 2)[-1]) for line in groups.splitlines()):
        return True
    # Images turned into virtual machines or WSL distros keep /.dockerenv, but own their whole root disk.
    return host.exists("/.dockerenv") and not _owns_root_disk(host)


def _owns_root_disk(host: Host) -> bool:
    from wizard.probes.disks import parse_mountinfo

    root = None
    for mount in parse_mountinfo(read(host, "/proc/self/mountinfo") or ""):
        if mount.path == "/":
            root = mount
    return (
        root is not None
        and root.root == "/"
        and re.match(r"/dev/(?!mapper/docker-)", root.source) is not None
    )


def os_name(host: Host) -> Fact[str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = read(host, path, 65536)
        if text is None:
            continue
        values = {}
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                values[key.strip()] = _unquote(value)
        name = values.get("PRETTY_NAME") or " ".join(
            x for x in (values.get("NAME"), values.get("VERSION_ID")) if x
        )
        if name:
            return known(name, path)
    return unknown(_("/etc/os-release does not say"))


def _unquote(value: str) -> str:
    try:
        return " ".join(shlex.split(value))
    except ValueError:
        return value.strip().strip("\"'")


def _windows_name(host: Host) -> Fact[str]:
    result = host.run(["cmd.exe", "/c", "ver"], 3)
    # The words around the number are translated; a build of 22000 and more is Windows 11.
    match = re.search(r"(\d+)\.(\d+)\.(\d+)(?:\.\d+)?", result.text)
    if not match:
        return known("Windows", "platform")
    name = "Windows 11" if int(match.group(3)) >= 22000 else "Windows " + match.group(1)
    return known(f"{name} ({match.group(0)})", "ver")
