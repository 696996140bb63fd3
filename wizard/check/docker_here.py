"""Whether Docker on this machine starts the image of a command: its driver, its kernels, Docker itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wizard import releases
from wizard.i18n import clause
from wizard.releases.types import ArgProblem

from .extract import Command

if TYPE_CHECKING:
    from wizard.facts import Machine


def problems(command: Command, machine: Machine) -> list[ArgProblem]:
    """What of the machine keeps the command's image from starting; nothing for a command without an image."""
    if command.image is None:
        return []
    from wizard.facts import Vendor
    from wizard.plan.runtime import docker_objection

    image = releases.image_of(command.image)
    nvidia = [g for g in machine.gpu.gpus if g.vendor is Vendor.NVIDIA]
    found: list[str] = []
    # A manifest of Kubernetes is run by a cluster's own runtime.
    if command.kind in ("compose", "docker"):
        against = docker_objection(machine, "nvidia" if image is not None and nvidia else "cpu")
        found += [against] if against is not None else []
    if image is not None and nvidia:
        need = releases.driver_needed(image)
        driver = machine.gpu.driver_version.value
        if need is not None and driver:
            fine, why = need.accepts(driver, any(g.is_consumer for g in nvidia))
            found += [] if fine else [why]
        for capability in sorted({g.compute_capability.value for g in nvidia if g.compute_capability.value}):
            fine, why = releases.runs_on(image, capability)
            found += [] if fine else [why]
    return [ArgProblem(command.image, "conflict", clause(text), accepted=True, stops=True) for text in found]
