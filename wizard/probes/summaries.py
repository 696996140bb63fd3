"""One line a probe for people: what it found."""

from __future__ import annotations

from collections import Counter

from wizard.facts import (
    Cpu,
    Docker,
    GpuStack,
    Memory,
    Mount,
    MountKind,
    PythonFacts,
    SystemKind,
    VllmInstall,
    Wsl,
)
from wizard.i18n import N_, _, bracketed, listed, ngettext
from wizard.probes.common import gib
from wizard.probes.system import SystemFacts
from wizard.probes.windows_host import WindowsHost

KIND_NAMES = {
    SystemKind.NATIVE: N_("Linux on its own"),
    SystemKind.WSL1: N_("WSL1"),
    SystemKind.WSL2: N_("WSL2"),
    SystemKind.CONTAINER: N_("a container"),
    SystemKind.WSL_CONTAINER: N_("a container inside WSL2"),
    SystemKind.WINDOWS: N_("Windows"),
    SystemKind.MACOS: N_("macOS"),
    SystemKind.OTHER: N_("an unknown system"),
}


def system_line(facts: SystemFacts) -> str:
    name = facts.os_name.or_else(_("unknown"))
    kind = _(KIND_NAMES[facts.kind])
    return name if name.startswith(kind) else listed((name, kind))


def gpu_line(stack: GpuStack) -> str:
    if not stack.gpus:
        return _("none: {why}").format(why=stack.reason) if stack.reason else _("none")
    parts = []
    for name, count in Counter(g.name for g in stack.gpus).items():
        first = next(g for g in stack.gpus if g.name == name)
        text = f"{count}x {name}" if count > 1 else name
        if first.vram_total_bytes.value is not None:
            text += " " + gib(first.vram_total_bytes.value)
        if first.vram_free_bytes.value is not None:
            text = bracketed(text, _("{size} free").format(size=gib(first.vram_free_bytes.value)))
        parts.append(text)
    if stack.driver_version.value is not None:
        parts.append(_("driver {version}").format(version=stack.driver_version.value))
    if stack.cuda_driver_version.value is not None:
        parts.append(_("CUDA up to {version}").format(version=stack.cuda_driver_version.value))
    return listed(parts)


def gpu_failure(stack: GpuStack) -> str:
    return "" if stack.gpus or not stack.fault else stack.reason


def cpu_line(facts: Cpu) -> str:
    name = facts.model.or_else(facts.architecture)
    count = facts.logical_count.value
    if count is None:
        return name
    threads = ngettext("{count} thread", "{count} threads", count).format(count=count)
    return listed((name, threads))


def memory_line(facts: Memory) -> str:
    if facts.total_bytes.value is None or facts.available_bytes.value is None:
        return _("unknown: {why}").format(why=facts.total_bytes.reason or facts.available_bytes.reason)
    text = _("{total}, {free} available").format(
        total=gib(facts.total_bytes.value), free=gib(facts.available_bytes.value)
    )
    if facts.cgroup_limit_bytes.value is not None:
        text = listed((text, _("limited to {size}").format(size=gib(facts.cgroup_limit_bytes.value))))
    swap = facts.swap_total_bytes.value
    if swap is None:
        return text
    return listed((text, _("swap {size}").format(size=gib(swap)) if swap else _("no swap")))


def wsl_line(facts: Wsl | None) -> str:
    if facts is None:
        return _("not WSL")
    parts = [facts.distro.value or "", facts.version.value or "", facts.networking_mode.value or ""]
    if facts.interop.value is False:
        parts.append(_("interop off"))
    return listed(p for p in parts if p) or _("yes")


def windows_line(facts: WindowsHost | None) -> str:
    if facts is None:
        return _("no Windows around")
    if facts.memory_bytes.value is None:
        return _("unknown: {why}").format(why=facts.memory_bytes.reason)
    count = facts.logical_cpus.or_else(0)
    threads = ngettext("{count} thread", "{count} threads", count).format(count=count)
    return listed((gib(facts.memory_bytes.value), threads))


def disks_line(mounts: tuple[Mount, ...]) -> str:
    fast = [
        m for m in mounts if m.kind == MountKind.LINUX and m.free_bytes.value is not None and not m.read_only
    ]
    best = max(fast, key=lambda m: m.free_bytes.or_else(0), default=None)
    parts = []
    if best is not None:
        parts.append(_("{size} free on {path}").format(size=gib(best.free_bytes.or_else(0)), path=best.path))
    slow = [m.path for m in mounts if m.kind == MountKind.WINDOWS_DRIVE and m.windows_path]
    if slow and best is not None:
        parts.append(_("Windows drives: {paths}").format(paths=listed(slow)))
    if not parts:
        found = [m for m in mounts if m.free_bytes.value is not None]
        parts = [
            _("{size} free on {path}").format(size=gib(m.free_bytes.or_else(0)), path=m.path)
            for m in found[:3]
        ]
    return listed(parts) or _("no disk could be asked")


def docker_line(facts: Docker) -> str:
    if facts.engine.value is None:
        return _("not usable: {why}").format(why=facts.engine.reason)
    parts = [f"{_('Docker Desktop') if facts.is_desktop.value else _('engine')} {facts.engine.value}"]
    if facts.compose.value is not None:
        parts.append(_("Compose {version}").format(version=facts.compose.value))
    parts.append(_("NVIDIA runtime is there") if facts.nvidia_runtime.value else _("no NVIDIA runtime"))
    return listed(parts)


def docker_failure(facts: Docker) -> str:
    return "" if facts.engine.known else facts.engine.reason


def python_line(facts: PythonFacts) -> str:
    version = facts.version.value
    text = f"Python {version}" if version else _("no Python: {why}").format(why=facts.version.reason)
    uv = facts.uv.value
    return listed((text, f"uv {uv}" if uv else _("no uv")))


def vllm_line(found: tuple[VllmInstall, ...]) -> str:
    return listed(f"{i.distribution} {i.version}" for i in found) or _("none found")


def ports_line(found: frozenset[int]) -> str:
    if not found:
        return _("none in use")
    shown = sorted(found)[:8]
    return _("in use: {ports}").format(ports=", ".join(str(p) for p in shown) + (" ..." if len(found) > len(shown) else ""))
