"""RAM and processors of the Windows computer around WSL: from inside, only the VM's share can be seen.

PowerShell takes seconds to answer, so its answer is kept in the cache for a week.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wizard.facts import Fact, SystemKind, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import failure
from wizard.probes.disks import read_mounts
from wizard.probes.system import detect_kind
from wizard.probes.wsl import interop_works, windows_program

TIMEOUT_S = 7.0
CACHE_KEY = "windows-host"
CACHE_AGE_S = 7 * 24 * 3600.0
POWERSHELL = "Windows/System32/WindowsPowerShell/v1.0/powershell.exe"
QUERY = (
    "$c = Get-CimInstance Win32_ComputerSystem; "
    "'{0} {1} {2}' -f $c.TotalPhysicalMemory, $c.NumberOfLogicalProcessors, [Environment]::OSVersion.Version"
)


@dataclass(frozen=True)
class WindowsHost:
    memory_bytes: Fact[int]
    logical_cpus: Fact[int]
    build: Fact[str]


def nothing(reason: str) -> WindowsHost:
    return WindowsHost(unknown(reason), unknown(reason), unknown(reason))


def probe(host: Host) -> WindowsHost | None:
    """The Windows computer's figures; None where there is no Windows around."""
    kind = detect_kind(host)
    if kind == SystemKind.WINDOWS:
        return _windows_itself(host)
    if kind == SystemKind.WSL_CONTAINER:
        return nothing(_("inside a container"))
    if kind not in (SystemKind.WSL1, SystemKind.WSL2):
        return None
    kept = parse(host.cache_get(CACHE_KEY, CACHE_AGE_S) or "", _("PowerShell, asked earlier"))
    if kept is not None:
        return kept
    if not interop_works(host).value:
        return nothing(_("Windows programs cannot be started from here (interop is off)"))
    program = windows_program(host, read_mounts(host), POWERSHELL)
    if program is None:
        return nothing(_("powershell.exe was not found on a mounted Windows drive"))
    drive = program.removesuffix(POWERSHELL)
    result = host.run([program, "-NoProfile", "-NonInteractive", "-Command", QUERY], TIMEOUT_S, cwd=drive)
    answer = parse(result.text, "powershell.exe") if result.ok else None
    if answer is None:
        why = failure(result) if not result.ok else _("PowerShell's answer cannot be read")
        return nothing(why)
    host.cache_put(CACHE_KEY, result.text.strip())
    return answer


def parse(text: str, source: str) -> WindowsHost | None:
    """``68442697728 32 10.0.22631.0`` as :data:`QUERY` prints it; None for anything else."""
    match = re.search(r"(?m)^\s*(\d{9,16})\s+(\d{1,4})\s+(\d+\.\d+[\d.]*)\s*$", text)
    if not match:
        return None
    return WindowsHost(
        known(int(match.group(1)), source), known(int(match.group(2)), source), known(match.group(3), source)
    )


def _windows_itself(host: Host) -> WindowsHost:
    try:
        memory = known(host.memory().total_bytes, "psutil")
    except OSError as fault:
        memory = unknown(str(fault))
    return WindowsHost(memory, known(host.cpu_count(), "scheduler"), unknown(_("see the system's name")))
