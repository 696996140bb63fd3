"""Whether this machine starts a command: its blockers, its driver, its kernels, and Docker itself where it is one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from wizard import releases
from wizard.i18n import _, clause, sentences, stopped
from wizard.outputs.quoting import bash_line
from wizard.program import words_on
from wizard.releases.types import ArgProblem, Release
from wizard.session import expand

from .container import model_on_host, wants_nvidia
from .extract import Command

if TYPE_CHECKING:
    from wizard.facts import Gpu, Machine
    from wizard.host import Host
    from wizard.releases.types import ImageInfo

    from .judge import Verdict


def problems(command: Command, release: Release, machine: Machine) -> list[ArgProblem]:
    """What of the machine keeps a command from starting; nothing for one that another machine may run."""
    # A manifest of Kubernetes is run by a cluster's own runtime.
    found = [(_("this machine"), text) for text in _blockers(command, machine)] if command.kind != "kubernetes" else []
    if command.image is not None:
        found += [(command.image, text) for text in _of_image(command, machine)]
    elif command.kind in ("argv", "shell"):
        found += [("vLLM " + release.version, text) for text in _native(release, machine)]
    return [ArgProblem(flag, "conflict", clause(text), accepted=True, stops=True) for flag, text in found]


def no_folder(verdict: Verdict, machine: Machine, host: Host) -> list[ArgProblem]:
    """That the model's folder is not on this machine; on Windows the folders of WSL are not seen."""
    from wizard.facts import SystemKind

    model = model_on_host(verdict, machine.home)
    path = expand(model, machine.home) if model is not None else None
    if model is None or path is None or not path.startswith("/") or "$" in path or verdict.command.kind == "kubernetes":
        return []
    if machine.system is SystemKind.WINDOWS or host.exists(path):
        return []
    if verdict.command.image is not None:
        told = _("there is no such folder on this machine: the container finds no model in its place, and vLLM stops")
    else:
        told = _("there is no such folder on this machine: vLLM takes the path for a repository's id, and stops")
    return [ArgProblem(model, "conflict", told, accepted=True, stops=True)]


def notes(verdict: Verdict, machine: Machine) -> list[ArgProblem]:
    """What is no fault of the command and makes its start long or uncertain here: a slow drive, little memory."""
    slow = _slow_drive(model_on_host(verdict, machine.home), machine)
    little = [] if verdict.command.kind == "kubernetes" else [p for p in machine.problems if p.code == "low_ram"]
    told = [ArgProblem(_("this machine"), "ok", sentences(stopped(clause(p.title)), p.detail)) for p in little]
    return [*([slow] if slow is not None else []), *told]


def _slow_drive(model: str | None, machine: Machine) -> ArgProblem | None:
    """That a model's folder lies on a Windows or network drive: nothing wrong with the command, but a long start."""
    from wizard.plan.choose_model import SLOW

    path = expand(model or "", machine.home)
    mount = machine.mount_of(path) if path.startswith("/") else None
    if mount is None or mount.kind.value not in SLOW:
        return None
    move = bash_line([*words_on(machine.name), "move", path])
    told = _("this lies on a slow drive ({mount}), from which a start takes many times as long; {command} copies and verifies it")
    return ArgProblem(path, "ok", told.format(mount=mount.path, command=move))


def _blockers(command: Command, machine: Machine) -> Iterator[str]:
    """What the machine itself says that nothing can be served for."""
    from wizard.facts import Severity
    from wizard.plan.windows import READY

    for problem in machine.problems:
        spared = problem.code.startswith("gpu_") and not wants_nvidia(command.image)
        if problem.severity is Severity.BLOCKER and problem.code != READY and not spared:
            yield problem.title


def _native(release: Release, machine: Machine) -> list[str]:
    """What the plan holds against a local environment with this release: the driver for its CUDA, and its kernels."""
    from wizard.plan import runtime

    device = runtime.device_of(machine)
    if device != "nvidia":
        return []
    gpus = _nvidia(machine)
    driver = machine.gpu.driver_version.value
    needs = runtime.Needs(device, "local", driver, None, any(g.is_consumer for g in gpus), True, None, None, frozenset())
    image, objection = runtime.image_and_objection(release, needs)
    return [*([objection.text] if objection is not None else []), *(_lacking_kernels(image, gpus) if image is not None else ())]


def _nvidia(machine: Machine) -> list[Gpu]:
    from wizard.facts import Vendor

    return [g for g in machine.gpu.gpus if g.vendor is Vendor.NVIDIA]


def _lacking_kernels(image: ImageInfo, gpus: Iterable[Gpu]) -> Iterator[str]:
    """For which of the GPUs the build has no kernels."""
    for capability in sorted({g.compute_capability.value for g in gpus if g.compute_capability.value}):
        fine, why = releases.runs_on(image, capability)
        if not fine:
            yield why


def _of_image(command: Command, machine: Machine) -> list[str]:
    from wizard.plan.runtime import docker_objection

    image = releases.image_of(str(command.image))
    nvidia = _nvidia(machine)
    found: list[str] = []
    if command.kind in ("compose", "docker"):
        against = docker_objection(machine, "nvidia" if image is not None and nvidia else "cpu")
        found += [against] if against is not None else []
    if image is not None and nvidia:
        need = releases.driver_needed(image)
        driver = machine.gpu.driver_version.value
        if need is not None and driver:
            fine, why = need.accepts(driver, any(g.is_consumer for g in nvidia))
            found += [] if fine else [why]
        found += _lacking_kernels(image, nvidia)
    return found
