"""What was found, as plain text that can be pasted into an issue: without names, serial numbers and tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from wizard import __version__, columns
from wizard.facts import Fact, Gpu, Machine, MountKind, Problem, Severity, SystemKind
from wizard.i18n import N_, _, bracketed, labelled, listed, ngettext
from wizard.probes import summaries
from wizard.probes.common import gib
from wizard.scrub import Scrubber

LABEL_WIDTH = 16
WIDTH = 96
_DISKS = 6
_KINDS = {
    MountKind.LINUX: N_("fast"),
    MountKind.MEMORY: N_("memory"),
    MountKind.WINDOWS_DRIVE: N_("Windows drive, slow"),
    MountKind.NETWORK: N_("network, slow"),
    MountKind.OTHER: N_("other"),
}
_SEVERITIES = {Severity.BLOCKER: N_("blocker"), Severity.WARNING: N_("warning"), Severity.INFO: N_("note")}
_WHERE = {
    "linux": N_("in a terminal"),
    "powershell": N_("in PowerShell on Windows"),
    "powershell-admin": N_("in PowerShell on Windows, as administrator"),
}


def text(machine: Machine, width: int = WIDTH) -> str:
    """The whole summary, ended by a newline."""
    return "\n".join(summary_lines(machine, width)) + "\n"


def summary_lines(machine: Machine, width: int = WIDTH) -> list[str]:
    """The summary: what is there, then the problems with their cures, in lines of ``width`` columns but for commands.
    Names and secrets are taken out."""
    rows = [*_facts(machine), *_probe_rows(machine)]
    profile = (machine.wsl.windows_profile.value if machine.wsl is not None else None) or ""
    computers = [urlsplit(machine.docker.remote or "").hostname or ""]
    scrubber = Scrubber(machine.home, [re.split(r"[\\/]", profile.rstrip("/\\"))[-1]], computers)
    # Names are taken out before lines are broken: a name with a blank must not be torn apart.
    lines = [line for label, value in rows if value for line in _row(label, scrubber.text(value), width)]
    for line in _problem_lines(machine):
        text = scrubber.text(line).rstrip()
        is_prose = text and not line.startswith("    ")
        lines += columns.wrap(text, width, "  " if line.startswith("  ") else "", "  ") if is_prose else [text]
    return lines


def _row(label: str, value: str, width: int) -> list[str]:
    return columns.wrap(value, width, columns.pad(labelled(label, "").rstrip(), LABEL_WIDTH) + " ", " " * (LABEL_WIDTH + 1))


def _facts(machine: Machine) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = [("vllm-wizard", __version__), (_("Machine"), machine.name)]
    system = machine.os_name.or_else(_("unknown"))
    rows.append((_("System"), listed((system, _(summaries.KIND_NAMES[machine.system])))))
    if machine.kernel.known:
        rows.append((_("Kernel"), machine.kernel.or_else("")))
    rows += [(_("GPU"), line) for line in _gpu_lines(machine)]
    rows.append((_("Processor"), _processor(machine)))
    rows.append((_("Memory"), summaries.memory_line(machine.memory)))
    rows += _wsl_rows(machine)
    rows.append((_("Docker"), summaries.docker_line(machine.docker)))
    if machine.docker.local_images:
        rows.append((_("Images"), listed(machine.docker.local_images)))
    rows.append((_("Python"), summaries.python_line(machine.python)))
    rows.append((_("vLLM"), summaries.vllm_line(machine.vllm)))
    rows += [(_("Disk"), line) for line in _disk_lines(machine)]
    rows.append((_("Ports"), summaries.ports_line(machine.used_ports)))
    return rows


def _value(fact: Fact[str]) -> str:
    return fact.value if fact.value is not None else _("unknown ({why})").format(why=fact.reason)


def _gpu_lines(machine: Machine) -> list[str]:
    stack = machine.gpu
    if not stack.gpus:
        lines = [_("none: {why}").format(why=stack.reason) if stack.reason else _("none")]
    else:
        lines = _grouped(stack.gpus)
        driver = [_("driver {version}").format(version=_value(stack.driver_version))]
        if stack.cuda_driver_version.known:
            driver.append(_("CUDA up to {version}").format(version=stack.cuda_driver_version.value))
        if stack.rocm_version.known:
            driver.append(f"ROCm {stack.rocm_version.value}")
        if len(stack.gpus) > 1 and stack.nvlink.known:
            driver.append("NVLink" if stack.nvlink.value else _("no NVLink"))
        lines.append(listed(driver))
    if stack.other_gpus:
        lines.append(_("also there: {names}").format(names=listed(stack.other_gpus)))
    return lines


def _grouped(gpus: Sequence[Gpu]) -> list[str]:
    """One line for GPUs in a row that differ in nothing that is shown."""
    groups: list[tuple[list[int], str]] = []
    for gpu in gpus:
        line = _gpu_line(gpu)
        if groups and groups[-1][1] == line:
            groups[-1][0].append(gpu.index)
        else:
            groups.append(([gpu.index], line))
    return [f"{many[0]}-{many[-1]}: {line}" if len(many) > 1 else f"{many[0]}: {line}" for many, line in groups]


def _gpu_line(gpu: Gpu) -> str:
    parts = [gpu.name]
    total, free = gpu.vram_total_bytes, gpu.vram_free_bytes
    parts.append(
        gib(total.value) if total.value is not None else _("memory unknown ({why})").format(why=total.reason)
    )
    if free.value is not None:
        parts.append(_("{size} free").format(size=gib(free.value)))
    if gpu.compute_capability.value is not None:
        parts.append(_("compute capability {version}").format(version=gpu.compute_capability.value))
    if gpu.gfx_arch.value is not None:
        parts.append(gpu.gfx_arch.value)
    if gpu.display_attached.value:
        parts.append(_("drives a display"))
    return listed(parts)


def _processor(machine: Machine) -> str:
    line = summaries.cpu_line(machine.cpu)
    sets = [f for f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd") if f in machine.cpu.flags]
    return bracketed(line, listed(sets)) if sets else line


def _wsl_rows(machine: Machine) -> list[tuple[str, str]]:
    wsl = machine.wsl
    if wsl is None:
        return []
    words = [
        _("version {version}").format(version=_value(wsl.version)),
        _("network {mode}").format(mode=_value(wsl.networking_mode)),
        _("interop on") if wsl.interop.value else _("interop off"),
        _("drives under {path}").format(path=wsl.automount_root),
    ]
    if machine.system == SystemKind.WINDOWS:
        words = [words[0]] + [f"{d.name} (WSL{d.version})" for d in wsl.distros]
    rows = [(_("WSL"), listed(words))]
    if machine.system != SystemKind.WSL_CONTAINER:
        memory = wsl.host_memory_bytes
        host = (
            gib(memory.value) if memory.value is not None else _("unknown ({why})").format(why=memory.reason)
        )
        if wsl.host_logical_cpus.value is not None:
            count = wsl.host_logical_cpus.value
            host = listed((host, ngettext("{count} thread", "{count} threads", count).format(count=count)))
        if wsl.windows_build.value is not None:
            host = listed((host, _("build {version}").format(version=wsl.windows_build.value)))
        if wsl.host_free_disk_bytes.value is not None and machine.system != SystemKind.WINDOWS:
            host = listed((host, _("{size} free on its drive").format(size=gib(wsl.host_free_disk_bytes.value))))
        rows.append((_("Windows"), host))
        there = _("present") if wsl.wslconfig_bytes is not None else _("none")
        if wsl.wslconfig_unread:
            there = _("could not be read ({reason})").format(reason=wsl.wslconfig_unread)
        rows.append((".wslconfig", there if wsl.wslconfig_path else _("not known where")))
    return rows


def _disk_lines(machine: Machine) -> list[str]:
    lines = []
    for mount in machine.mounts:
        size = mount.free_bytes.value
        if mount.kind not in (MountKind.LINUX, MountKind.WINDOWS_DRIVE, MountKind.NETWORK) or mount.read_only:
            continue
        free = _("{size} free").format(size=gib(size)) if size is not None else mount.free_bytes.reason
        kind = _(_KINDS[mount.kind])
        if machine.system is SystemKind.WINDOWS and mount.kind is MountKind.WINDOWS_DRIVE:
            kind = _("Windows drive")  # slow only as seen from WSL
        lines.append(labelled(mount.path, listed((bracketed(kind, mount.fstype), free))))
    if len(lines) > _DISKS:
        more = len(lines) - _DISKS + 1
        lines[_DISKS - 1 :] = [ngettext("and {count} more", "and {count} more", more).format(count=more)]
    return lines


def _probe_rows(machine: Machine) -> list[tuple[str, str]]:
    late = [run for run in machine.runs if run.timed_out or not run.ok]
    return [(_("Probe {name}").format(name=run.name), run.reason) for run in late]


def _problem_lines(machine: Machine) -> list[str]:
    if not machine.problems:
        return ["", _("Nothing stands in the way.")]
    lines = ["", _("Problems:")]
    for problem in machine.problems:
        lines += _one_problem(problem)
    return lines


def _one_problem(problem: Problem) -> list[str]:
    lines = [
        f"- [{_(_SEVERITIES[problem.severity])}] {problem.title} ({problem.code})",
        f"  {problem.detail}",
    ]
    if problem.commands:
        lines.append("  " + _("Cure, {where}:").format(where=_(_WHERE.get(problem.where, problem.where))))
        lines += [f"    {command}" for command in problem.commands]
    if problem.link:
        lines.append("  " + _("See {link}").format(link=problem.link))
    return lines
