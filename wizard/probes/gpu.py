"""The GPUs and their driver: NVIDIA first, then AMD, then Intel; and why there are none, when there are none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from wizard.facts import Fact, GpuStack
from wizard.host import Host
from wizard.i18n import _
from wizard.probes import gpu_amd, gpu_intel, gpu_nvidia
from wizard.probes.common import listing, read_line, unique

_VENDOR_NAMES = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}


@dataclass(frozen=True)
class PciGpu:
    """A display or 3D device on the PCI bus, whether or not a driver drives it."""

    vendor: str  # "0x10de"
    device: str  # "0x2684"
    driver: str | None  # name of the kernel module bound to it
    slot: str  # "0000:01:00.0"

    @property
    def title(self) -> str:
        return _("{vendor} device {device} at {slot}").format(
            vendor=_VENDOR_NAMES.get(self.vendor, self.vendor), device=self.device, slot=self.slot
        )


def probe(host: Host) -> GpuStack:
    """All GPUs of the first vendor whose driver answers."""
    cards = pci_gpus(host)
    nvidia = gpu_nvidia.probe(host)
    if nvidia.gpus:
        return replace(nvidia, kernel_module="nvidia", other_gpus=_others(cards, "0x10de"))
    amd = gpu_amd.probe(host)
    if amd.gpus:
        return replace(amd, kernel_module="amdgpu", other_gpus=(*amd.other_gpus, *_others(cards, "0x1002")))
    intel = gpu_intel.probe(host)
    if intel.gpus:
        return replace(intel, other_gpus=(*intel.other_gpus, *amd.other_gpus))
    return _none(nvidia, amd, intel, cards)


def pci_gpus(host: Host) -> list[PciGpu]:
    """Display controllers (PCI class 0x03) on the bus; nothing under WSL, where Windows keeps the bus."""
    found = []
    for entry in listing(host, "/sys/bus/pci/devices"):
        if not (read_line(host, f"{entry.path}/class") or "").startswith("0x03"):
            continue
        vendor = read_line(host, f"{entry.path}/vendor") or ""
        if vendor not in _VENDOR_NAMES:
            continue
        try:
            driver: str | None = host.readlink(f"{entry.path}/driver").rsplit("/", 1)[-1]
        except OSError:
            driver = None
        found.append(PciGpu(vendor, read_line(host, f"{entry.path}/device") or "?", driver, entry.name))
    return found


def _others(cards: list[PciGpu], vendor: str) -> tuple[str, ...]:
    """Cards of other vendors beside the one that answered: named, not used."""
    return unique(card.title for card in cards if card.vendor != vendor)


def _none(nvidia: GpuStack, amd: GpuStack, intel: GpuStack, cards: list[PciGpu]) -> GpuStack:
    """No vendor's driver answered: say why, for the vendor whose card is there."""
    card = next((c for c in cards if c.vendor == "0x10de"), None) or next(iter(cards), None)
    integrated = (*amd.other_gpus, *intel.other_gpus)
    if nvidia.fault and nvidia.fault != "no_driver":
        stack = nvidia
    elif card is not None and card.vendor == "0x10de":
        reason = _("an NVIDIA card is there ({card}), but its driver is not ({why})").format(
            card=card.title, why=nvidia.reason
        )
        stack = replace(nvidia, fault="no_driver", reason=reason)
    elif integrated:
        reason = _("only graphics that vLLM cannot use: {names}").format(names=", ".join(unique(integrated)))
        stack = GpuStack(reason=reason)
    else:
        reasons = unique(r for r in (nvidia.reason, amd.reason, intel.reason) if r)
        stack = GpuStack(reason="; ".join(reasons))
    missing: Fact[Any] = Fact(None, "", stack.reason)
    return replace(
        stack,
        nvlink=missing,
        driver_version=stack.driver_version if stack.driver_version.known else missing,
        other_gpus=unique((*integrated, *(c.title for c in cards))),
        kernel_module=card.driver if card is not None else None,
    )
