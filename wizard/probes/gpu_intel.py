"""Intel GPUs: discrete cards are named, graphics inside a processor are only mentioned."""

from __future__ import annotations

import re

from wizard.facts import Gpu, GpuStack, Vendor, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import ENGLISH, as_dict, as_size, listing, parse_json, read_int, read_line, unique
from wizard.probes.gpu_names import INTEL_CARDS

TIMEOUT_S = 4.0


def probe(host: Host) -> GpuStack:
    """Intel's discrete GPUs of the kernel's list."""
    if not host.platform.startswith("linux"):
        return GpuStack(reason=_("Intel GPUs are only asked about on Linux"))
    gpus: list[Gpu] = []
    integrated: list[str] = []
    module: str | None = None
    for entry in sorted(listing(host, "/sys/class/drm"), key=lambda e: (len(e.name), e.name)):
        device = f"{entry.path}/device"
        if not re.fullmatch(r"card\d+", entry.name) or read_line(host, f"{device}/vendor") != "0x8086":
            continue
        number = read_int(host, f"{device}/device")
        name = INTEL_CARDS.get(number or 0)
        if name is None:
            integrated.append(_("Intel integrated graphics"))
            continue
        module = module or _module(host, device)
        gpus.append(_gpu(host, len(gpus), name, entry.path))
    if not gpus:
        return GpuStack(reason=_("no Intel GPU"), other_gpus=unique(integrated))
    return GpuStack(
        gpus=tuple(gpus),
        vendor=Vendor.INTEL,
        driver_version=unknown(_("the kernel's own driver")),
        cuda_driver_version=unknown(_("not an NVIDIA GPU")),
        rocm_version=unknown(_("not an AMD GPU")),
        nvlink=known(False, _("not an NVIDIA GPU")),
        other_gpus=unique(integrated),
        kernel_module=module,
    )


def _module(host: Host, device: str) -> str | None:
    try:
        return host.readlink(f"{device}/driver").rsplit("/", 1)[-1]
    except OSError:
        return None


def _gpu(host: Host, index: int, name: str, folder: str) -> Gpu:
    total = read_int(host, f"{folder}/lmem_total_bytes")
    source = "sysfs"
    if not total and host.which("xpu-smi"):
        result = host.run(["xpu-smi", "discovery", "-d", str(index), "-j"], TIMEOUT_S, env=ENGLISH)
        total = as_size(as_dict(parse_json(result.text)).get("memory_physical_size_byte"))
        source = "xpu-smi"
    told = _("the driver does not tell; xpu-smi would")
    return Gpu(
        index=index,
        name=name,
        vendor=Vendor.INTEL,
        vram_total_bytes=known(total, source) if total else unknown(told),
        vram_free_bytes=unknown(told),
        compute_capability=unknown(_("not an NVIDIA GPU")),
        display_attached=unknown(_("the driver does not tell")),
        mig_enabled=unknown(_("not an NVIDIA GPU")),
    )
