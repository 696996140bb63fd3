"""A small WSL 2 machine for tests of the outputs."""

from __future__ import annotations

from typing import Any

from wizard.facts import (
    Cpu,
    Docker,
    Fact,
    GpuStack,
    Machine,
    Memory,
    Mount,
    PythonFacts,
    SystemKind,
    Wsl,
    known,
    unknown,
)

GIB = 1 << 30


def wsl_machine(
    *,
    desktop: bool = False,
    mounts: tuple[Mount, ...] = (),
    memory_gib: float = 15.5,
    swap_gib: float = 4,
    cpus: int = 16,
    system: SystemKind = SystemKind.WSL2,
    **wsl: Any,
) -> Machine:
    """32 GiB and 16 processors of Windows; ``wsl`` replaces fields of :class:`Wsl`."""
    fields: dict[str, Any] = {
        "distro": known("Ubuntu", "test"),
        "version": known("2.6.1.0", "test"),
        "kernel": known("6.6.87.2-microsoft-standard-WSL2", "test"),
        "networking_mode": known("nat", "test"),
        "interop": known(True, "test"),
        "windows_profile": known("/mnt/c/Users/ann", "test"),
        "windows_profile_windows": known("C:\\Users\\ann", "test"),
        "host_memory_bytes": known(32 * GIB, "test"),
        "host_logical_cpus": known(16, "test"),
        "host_free_disk_bytes": known(200 * GIB, "test"),
        "wslconfig_path": "/mnt/c/Users/ann/.wslconfig",
    }
    nothing: Fact[Any] = unknown("not asked")
    return Machine(
        name="test",
        system=system,
        os_name=nothing,
        kernel=nothing,
        home="/home/ann",
        cpu=Cpu(nothing, known(cpus, "test"), "x86_64"),
        memory=Memory(
            known(round(memory_gib * GIB), "test"), nothing, known(round(swap_gib * GIB), "test"), nothing
        ),
        gpu=GpuStack(),
        docker=Docker(known("29.0", "test"), nothing, nothing, known(desktop, "test"), nothing),
        python=PythonFacts(nothing, nothing, nothing),
        mounts=mounts,
        wsl=Wsl(**{**fields, **wsl}),
    )
