"""AMD GPUs: ``amd-smi``, then ``rocm-smi``, then the kernel's own files, then ``rocminfo`` (WSL)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from wizard.facts import Fact, Gpu, GpuStack, Vendor, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import (
    ENGLISH,
    GIB,
    as_dict,
    as_list,
    as_size,
    as_text,
    listing,
    parse_json,
    read,
    read_int,
    read_line,
)
from wizard.probes.gpu_names import INTEGRATED_GFX, UNIFIED_GFX, gfx_of_target

TIMEOUT_S = 4.0
AMD_SMI_STATIC = ("amd-smi", "static", "--asic", "--vram", "--driver", "--json")
AMD_SMI_MEMORY = ("amd-smi", "metric", "--mem-usage", "--json")
ROCM_SMI = ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showdriverversion", "--json")
_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "KIB": 1024, "MIB": 1024**2, "GIB": 1024**3}


def probe(host: Host) -> GpuStack:
    """AMD's GPUs that vLLM can use; graphics inside a processor are named in ``other_gpus`` only."""
    if not host.platform.startswith("linux"):
        return GpuStack(reason=_("AMD GPUs are only asked about on Linux"))
    gpus: list[Gpu] = []
    driver: Fact[str] = unknown(_("the driver does not tell"))
    for ask in (_from_amd_smi, _from_rocm_smi, _from_kernel, _from_rocminfo):
        gpus, found_driver = ask(host)
        if found_driver.known:
            driver = found_driver
        if gpus:
            break
    usable = [g for g in gpus if not is_integrated(g)]
    left_out = tuple(g.name for g in gpus if is_integrated(g))
    if not usable:
        return GpuStack(reason=_("no AMD GPU"), other_gpus=left_out)
    if not driver.known:
        version = read_line(host, "/sys/module/amdgpu/version")
        driver = known(version, "/sys/module/amdgpu/version") if version else driver
    return GpuStack(
        gpus=tuple(replace(g, unified_memory=g.gfx_arch.value in UNIFIED_GFX) for g in usable),
        vendor=Vendor.AMD,
        driver_version=driver,
        cuda_driver_version=unknown(_("not an NVIDIA GPU")),
        rocm_version=rocm_version(host),
        nvlink=known(False, _("not an NVIDIA GPU")),
        other_gpus=left_out,
    )


def is_integrated(gpu: Gpu) -> bool:
    if gpu.gfx_arch.value in UNIFIED_GFX:
        return False
    small = gpu.vram_total_bytes.value is not None and gpu.vram_total_bytes.value < 4 * GIB
    return gpu.gfx_arch.value in INTEGRATED_GFX or small


def _gpu(
    index: int, name: str | None, total: int | None, free: int | None, gfx: str | None, source: str
) -> Gpu:
    told = _("the driver does not tell")
    gfx = gfx if gfx and re.fullmatch(r"gfx[0-9a-f]{3,5}", gfx) else None
    return Gpu(
        index=index,
        name=name or (f"AMD GPU ({gfx})" if gfx else "AMD GPU"),
        vendor=Vendor.AMD,
        vram_total_bytes=known(total, source) if total else unknown(told, source),
        vram_free_bytes=known(free, source) if free is not None and total else unknown(told, source),
        compute_capability=unknown(_("not an NVIDIA GPU")),
        gfx_arch=known(gfx, source) if gfx else unknown(told, source),
        display_attached=unknown(told, source),
        mig_enabled=unknown(_("not an NVIDIA GPU")),
    )


_Answer = tuple[list[Gpu], Fact[str]]


def _from_amd_smi(host: Host) -> _Answer:
    nothing: Fact[str] = unknown(_("amd-smi does not tell"))
    if host.which("amd-smi") is None:
        return [], nothing
    static = host.run(AMD_SMI_STATIC, TIMEOUT_S, env=ENGLISH)
    rows = _rows(parse_json(static.text)) if static.ok else []
    if not rows:
        return [], nothing
    memory = host.run(AMD_SMI_MEMORY, TIMEOUT_S, env=ENGLISH)
    usage = {row.get("gpu"): as_dict(row.get("mem_usage")) for row in _rows(parse_json(memory.text))}
    gpus = []
    driver = nothing
    for number, row in enumerate(rows):
        asic, vram = as_dict(row.get("asic")), as_dict(row.get("vram"))
        index = row["gpu"] if isinstance(row.get("gpu"), int) else number
        used = usage.get(index, {})
        total = amount(used.get("total_vram")) or amount(vram.get("size"))
        free = amount(used.get("free_vram"), zero=True)
        if free is None and total and (taken := amount(used.get("used_vram"), zero=True)) is not None:
            free = max(0, total - taken)
        name = as_text(asic.get("market_name"))
        gpus.append(
            _gpu(
                index,
                None if name == "N/A" else name,
                total,
                free,
                as_text(asic.get("target_graphics_version")),
                "amd-smi",
            )
        )
        version = as_text(
            as_dict(row.get("driver")).get("version") or as_dict(row.get("driver")).get("driver_version")
        )
        if version and version != "N/A":
            driver = known(version, "amd-smi")
    return gpus, driver


def _rows(data: Any) -> list[dict[str, Any]]:
    """Older amd-smi answers a list, newer an object with the list inside."""
    rows = data if isinstance(data, list) else as_list(as_dict(data).get("gpu_data"))
    return [row for row in rows if isinstance(row, dict)]


def amount(value: Any, zero: bool = False) -> int | None:
    """Bytes of ``{"value": 196592, "unit": "MB"}`` or "196592 MB" (amd-smi counts in 1024s); None for "N/A"."""
    if isinstance(value, dict):
        number, unit = value.get("value"), value.get("unit", "MB")
    elif isinstance(value, str) and (match := re.fullmatch(r"\s*(\d+)\s*([KMG]?i?B)\s*", value, re.I)):
        number, unit = int(match.group(1)), match.group(2)
    else:
        number, unit = value, "MB"
    if isinstance(number, str) and re.fullmatch(r"\d{1,15}", number):
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number or number < 0:
        return None
    size = int(number * _UNITS.get(str(unit).upper(), 1024**2))
    return size if size or zero else None


def _from_rocm_smi(host: Host) -> _Answer:
    nothing: Fact[str] = unknown(_("rocm-smi does not tell"))
    if host.which("rocm-smi") is None:
        return [], nothing
    result = host.run(ROCM_SMI, TIMEOUT_S, env=ENGLISH)
    data = as_dict(parse_json(result.text))
    gpus = []
    for key, value in sorted(data.items(), key=lambda item: (len(item[0]), item[0])):
        match = re.fullmatch(r"card(\d+)", key)
        if not match:
            continue
        card = {str(k).lower(): v for k, v in as_dict(value).items()}
        total = as_size(card.get("vram total memory (b)"))
        used_text = str(card.get("vram total used memory (b)", ""))
        free = total - int(used_text) if total and used_text.isdecimal() and int(used_text) <= total else None
        name = as_text(card.get("card series")) or as_text(card.get("card model"))
        gpus.append(
            _gpu(int(match.group(1)), name, total, free, as_text(card.get("gfx version")), "rocm-smi")
        )
    version = as_text(as_dict(data.get("system")).get("Driver version"))
    return gpus, known(version, "rocm-smi") if version else nothing


def _from_kernel(host: Host) -> _Answer:
    """``/sys/class/drm`` for memory, the compute driver's topology for architecture and name."""
    nothing: Fact[str] = unknown(_("the kernel does not tell"))
    nodes = _kfd_nodes(host)
    gpus: list[Gpu] = []
    for entry in sorted(listing(host, "/sys/class/drm"), key=lambda e: (len(e.name), e.name)):
        device = f"{entry.path}/device"
        if not re.fullmatch(r"card\d+", entry.name) or read_line(host, f"{device}/vendor") != "0x1002":
            continue
        total = read_int(host, f"{device}/mem_info_vram_total")
        used = read_int(host, f"{device}/mem_info_vram_used")
        free = total - used if total and used is not None and 0 <= used <= total else None
        node = nodes.get(len(gpus), {})
        gfx = gfx_of_target(node.get("gfx_target_version", 0))
        name = read_line(host, f"{device}/product_name")
        gpus.append(_gpu(len(gpus), name, total, free, gfx, "sysfs"))
    return gpus, nothing


def _kfd_nodes(host: Host) -> dict[int, dict[str, int]]:
    """The topology's nodes that are GPUs (nodes of processors have no gfx version), in order."""
    nodes: dict[int, dict[str, int]] = {}
    folders = sorted(listing(host, "/sys/class/kfd/kfd/topology/nodes"), key=lambda e: (len(e.name), e.name))
    for folder in folders:
        values = {}
        for line in (read(host, f"{folder.path}/properties", 65536) or "").splitlines():
            key, _space, value = line.partition(" ")
            if value.strip().isdecimal():
                values[key] = int(value)
        if values.get("gfx_target_version"):
            nodes[len(nodes)] = values
    return nodes


def _from_rocminfo(host: Host) -> _Answer:
    """Under WSL there is neither /dev/kfd nor a working rocm-smi, but ``rocminfo`` answers through /dev/dxg."""
    nothing: Fact[str] = unknown(_("rocminfo does not tell"))
    if host.which("rocminfo") is None:
        return [], nothing
    result = host.run(["rocminfo"], TIMEOUT_S, env=ENGLISH)
    return (parse_rocminfo(result.text) if result.ok else []), nothing


def parse_rocminfo(text: str) -> list[Gpu]:
    """The agents of ``rocminfo`` that are GPUs; their memory is the largest global pool."""
    gpus: list[Gpu] = []
    for agent in re.split(r"(?m)^\*+\s*\nAgent \d+\s*\n\*+\s*$", text)[1:]:
        if not re.search(r"Device Type:\s+GPU", agent):
            continue
        gfx = re.search(r"(?m)^\s*Name:\s+(gfx\w+)", agent)
        name = re.search(r"(?m)^\s*Marketing Name:\s+(\S.*?)\s*$", agent)
        pools = [
            int(size) * 1024
            for size in re.findall(r"Segment:\s+GLOBAL[^\n]*\n\s*Size:\s+(\d+)\(0x[0-9a-f]+\) KB", agent)
        ]
        gpus.append(
            _gpu(
                len(gpus),
                name.group(1) if name else None,
                max(pools, default=None),
                None,
                gfx.group(1) if gfx else None,
                "rocminfo",
            )
        )
    return gpus


def rocm_version(host: Host) -> Fact[str]:
    for path in ("/opt/rocm/.info/version", "/opt/rocm/.info/version-dev"):
        line = read_line(host, path)
        if line:
            return known(line.split("-")[0], path)
    return unknown(_("ROCm is not installed under /opt/rocm (the container image brings its own)"))
