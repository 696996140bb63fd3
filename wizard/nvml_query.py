"""Asks NVML and prints what it said as JSON; run by ``RealHost.nvml`` in a process of its own.

Keys: ``driver_version`` "591.86", ``cuda_driver_version`` "13.1", ``devices``: a list of ``index``, ``name``,
``uuid``, ``memory_total``, ``memory_free`` (bytes), ``compute_capability`` "8.9", ``display_active``,
``mig_enabled``, ``nvlinks`` (active links), ``pci_bus_id``, ``processes`` (``pid``, ``name``, ``used`` bytes). A key whose question
the driver does not answer is null. ``{"error": text}`` when NVML as a whole cannot be used.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value) if value is not None else None


def _ask(nvml: Any, question: str, *args: Any) -> Any:
    """The answer, or None where this driver or library has none (many questions are not answered on WSL)."""
    try:
        return getattr(nvml, question)(*args)
    except (nvml.NVMLError, AttributeError, OSError, ValueError, TypeError):
        return None


def _version(number: int | None) -> str | None:
    """NVML writes CUDA 13.1 as 13010."""
    return None if not number else f"{number // 1000}.{number % 1000 // 10}"


def _active_nvlinks(nvml: Any, handle: Any) -> int | None:
    states = [_ask(nvml, "nvmlDeviceGetNvLinkState", handle, link) for link in range(18)]
    told = [s for s in states if s is not None]
    return sum(1 for s in told if s) if told else None


def _processes(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    seen: dict[int, dict[str, Any]] = {}
    for question in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        for process in _ask(nvml, question, handle) or []:
            name = _text(_ask(nvml, "nvmlSystemGetProcessName", process.pid))
            used = process.usedGpuMemory
            seen[process.pid] = {
                "pid": process.pid,
                "name": name,
                "used": used if isinstance(used, int) else None,
            }
    return list(seen.values())


def _device(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    memory = _ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    capability = _ask(nvml, "nvmlDeviceGetCudaComputeCapability", handle)
    mig = _ask(nvml, "nvmlDeviceGetMigMode", handle)
    active = _ask(nvml, "nvmlDeviceGetDisplayActive", handle)
    pci = _ask(nvml, "nvmlDeviceGetPciInfo", handle)
    return {
        "index": index,
        "name": _text(_ask(nvml, "nvmlDeviceGetName", handle)),
        "uuid": _text(_ask(nvml, "nvmlDeviceGetUUID", handle)),
        "memory_total": int(memory.total) if memory is not None and memory.total else None,
        "memory_free": int(memory.free) if memory is not None and memory.total else None,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "display_active": None if active is None else bool(active),
        "mig_enabled": None if mig is None else bool(mig[0]),
        "nvlinks": _active_nvlinks(nvml, handle),
        "pci_bus_id": _text(getattr(pci, "busId", None)),
        "processes": _processes(nvml, handle),
    }


def query() -> dict[str, Any]:
    """What NVML tells about this machine; ``{"error": text}`` when it cannot be asked."""
    try:
        import pynvml as nvml
    except ImportError as fault:
        return {"error": f"nvidia-ml-py is not installed: {fault}"}
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as fault:
        return {"error": f"NVML: {fault}"}
    devices: list[dict[str, Any]] = []
    for index in range(_ask(nvml, "nvmlDeviceGetCount") or 0):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", index)
        devices.append({"index": index, "name": None} if handle is None else _device(nvml, index, handle))
    return {
        "driver_version": _text(_ask(nvml, "nvmlSystemGetDriverVersion")),
        "cuda_driver_version": _version(_ask(nvml, "nvmlSystemGetCudaDriverVersion_v2")),
        "devices": devices,
    }


def main() -> int:
    json.dump(query(), sys.stdout)
    return 0
