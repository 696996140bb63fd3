"""Problems of GPUs and their driver."""

from __future__ import annotations

from collections.abc import Callable

from wizard.facts import Machine, Problem, Severity, SystemKind, Vendor
from wizard.i18n import _, clauses, listed, sentences, stopped
from wizard.probes.common import GIB, gib, version_tuple
from wizard.probes.problems.drivers import (
    NEWEST_CAPABILITY,
    NEWEST_DRIVER,
    PAGE,
    below,
    driver_commands,
    upgrade_warning,
)
from wizard.probes.problems.words import sentence

# vLLM's images by the CUDA that they are built with, newest first: the last release, CUDA, the driver that it is
# made for. The first row goes on with every new release.
IMAGES: tuple[tuple[str, str, int], ...] = (
    ("", "13.0", 580),
    ("0.19.1", "12.9", 575),
    ("0.11.0", "12.8", 570),
    ("0.8.5.post1", "12.4", 550),
)
LAST_CUDA_12_RELEASE = "0.19.1"
# The last release that is also built with CUDA 12.9 (images with a tag in -cu129, wheels of their own).
LAST_CUDA_12_VARIANT = "0.32.0"
CUDA_12_VARIANT_DRIVER = 575  # what its image asks for; a local environment does not ask
CUDA_12_VARIANT_BRANCHES = (535, 550, 560, 565, 570)  # older ones that it admits too, but not on GeForce
# Within CUDA 12 a driver of its first release runs later ones ("minor version compatibility").
CUDA_12_DRIVER = 525
OLDEST_CAPABILITY = (7, 0)
# More than a desktop takes, and more than small change on a large card.
HELD_BYTES = int(2.5 * GIB)
HELD_SHARE = 0.12


def gpu(machine: Machine) -> list[Problem]:
    if machine.system in (SystemKind.WSL1, SystemKind.MACOS):
        return []
    stack = machine.gpu
    if not stack.gpus:
        return [_no_gpu(machine)]
    found = []
    if stack.vendor == Vendor.NVIDIA:
        found += _capability(machine) + _driver(machine)
        mig = [g for g in stack.gpus if g.mig_enabled.value]
        if mig:
            detail = _(
                "{names}: vLLM sees its slices, not the whole card, and cannot join slices. Switch MIG off to use the whole card."
            ).format(names=", ".join(f"GPU {g.index}" for g in mig))
            commands = tuple(f"sudo nvidia-smi -i {g.index} -mig 0" for g in mig)
            found.append(Problem("mig_enabled", Severity.INFO, _("MIG is on"), detail, commands))
    return found + _held(machine)


def _driver(machine: Machine) -> list[Problem]:
    """Too old for the newest image, or for the newest image that still knows this GPU."""
    driver = machine.gpu.driver_version.value
    numbers = version_tuple(driver)
    dropped = all(below(g, NEWEST_CAPABILITY) for g in machine.gpu.gpus)
    wanted = 575 if dropped else NEWEST_DRIVER
    if not numbers or numbers[0] >= wanted:
        return []
    if dropped:
        title = _("The NVIDIA driver {driver} is too old for the last image that supports this GPU").format(
            driver=driver
        )
    else:
        title = _("The NVIDIA driver {driver} is too old for the newest images").format(driver=driver)
    parts = []
    if not dropped:
        parts.append(
            _("The usual build of vLLM needs driver {wanted} or newer since 0.20.0 (CUDA 13).").format(wanted=wanted)
        )
    if numbers[0] >= CUDA_12_DRIVER:
        parts.append(_without_update(machine, numbers[0], LAST_CUDA_12_RELEASE if dropped else LAST_CUDA_12_VARIANT))
    if numbers[0] < CUDA_12_DRIVER:
        parts.append(_("No image of vLLM runs on this driver."))
    severity = Severity.WARNING if numbers[0] >= CUDA_12_DRIVER else Severity.BLOCKER
    commands, where, link = driver_commands(machine)
    if where == "powershell":
        parts.append(
            _("Under WSL the Windows driver counts: install it in Windows, never a Linux driver inside WSL.")
        )
    parts.append(upgrade_warning(commands))
    return [Problem("driver_too_old", severity, title, sentences(*parts), commands, where, link)]


def _without_update(machine: Machine, driver: int, last: str) -> str:
    """What this driver runs as it is: ``last`` in its build with CUDA 12.9, from a local environment or an image.

    A local environment takes every driver of CUDA 12; an image asks for the one that it is made for, and on
    data-centre cards (not on GeForce) also admits certain older branches.
    """
    head = _("You can go on without doing anything: from a local environment this driver runs vLLM {last}, in its build with CUDA 12.9.")
    if driver >= CUDA_12_VARIANT_DRIVER:
        head = _("You can go on without doing anything: this driver runs vLLM {last}, in its build with CUDA 12.9.")
        return head.format(last=last)
    head = head.format(last=last)
    if not any(g.is_consumer for g in machine.gpu.gpus):
        words = _("Its Docker image does not run with this driver: it asks for {image}, or for one of the branches {branches}.")
        if driver in CUDA_12_VARIANT_BRANCHES:
            words = _("Its Docker image runs with this driver too: it is made for {image}, and on such cards admits branch {branch} as well.")
        branches = listed(map(str, CUDA_12_VARIANT_BRANCHES))
        return sentences(head, words.format(image=CUDA_12_VARIANT_DRIVER, branches=branches, branch=driver))
    older = next((release for release, _cuda, least in IMAGES if release and driver >= least), None)
    if older is None:
        return sentences(head, _("With Docker nothing runs: its images ask for a newer driver."))
    words = _("With Docker it would only be {older}: newer images ask for driver {image}.")
    return sentences(head, words.format(older=older, image=CUDA_12_VARIANT_DRIVER))


def _capability(machine: Machine) -> list[Problem]:
    old = [g for g in machine.gpu.gpus if below(g, NEWEST_CAPABILITY)]
    if not old:
        return []
    names = ", ".join(dict.fromkeys(f"{g.name} ({g.compute_capability.value})" for g in old))
    hopeless = [g for g in machine.gpu.gpus if below(g, OLDEST_CAPABILITY)]
    if len(hopeless) == len(machine.gpu.gpus):
        detail = _(
            "vLLM needs compute capability 7.0 or newer. This GPU is older: serve on the processor or take another one."
        )
        return [
            Problem(
                "compute_capability_too_low",
                Severity.BLOCKER,
                _("{names}: too old for vLLM").format(names=names),
                detail,
            )
        ]
    detail = _(
        "Images from 0.20.0 on hold no code for compute capability below 7.5. {last} is the last one that runs on it; it has no bfloat16 there, so float16 is used."
    ).format(last=LAST_CUDA_12_RELEASE)
    title = _("{names}: dropped by the newest images").format(names=names)
    return [
        Problem(
            "compute_capability_dropped",
            Severity.WARNING,
            title,
            detail,
            (f"docker pull vllm/vllm-openai:v{LAST_CUDA_12_RELEASE}",),
        )
    ]


def _no_gpu(machine: Machine) -> Problem:
    stack = machine.gpu
    by_fault = _FAULTS.get(stack.fault)
    if by_fault is not None:
        return by_fault(machine)
    card = any("NVIDIA" in name for name in stack.other_gpus)
    if stack.fault == "no_driver" and (card or stack.kernel_module == "nouveau"):
        return _no_driver(machine)
    if machine.system == SystemKind.WSL2 and machine.wsl is not None and not machine.wsl.gpu_device:
        return Problem(
            "wsl_no_gpu_device",
            Severity.WARNING,
            _("WSL passes no GPU on"),
            _(
                "WSL shows no GPU device (/dev/dxg). If this computer has an NVIDIA GPU: update its driver in Windows (never "
                "a Linux driver inside WSL) and WSL itself. Without one, small models can be served on the processor."
            ),
            (f"Start-Process {PAGE}", "wsl --update", "wsl --shutdown"),
            "powershell",
            PAGE,
        )
    detail = _("{reason}. Small models can be served on the processor, slowly.").format(
        reason=sentence(stack.reason or _("none was found"))
    )
    title = _("No GPU that vLLM can use")
    if machine.system == SystemKind.WSL2:
        # From inside WSL a card without a driver cannot be seen, so it has to be said for either case.
        detail = sentences(
            detail,
            _("If this computer has an NVIDIA card: install its driver in Windows, never a Linux driver inside WSL. Then restart WSL."),
        )
        commands, where, link = driver_commands(machine)
        return Problem("no_gpu", Severity.WARNING, title, detail, commands, where, link)
    if machine.in_container:
        detail = sentences(detail, _("If the machine has one: a container only sees it when it is started with it (docker run --gpus all)."))
    return Problem("no_gpu", Severity.WARNING, title, detail)


def _no_driver(machine: Machine) -> Problem:
    commands, where, link = driver_commands(machine)
    if machine.gpu.kernel_module == "nouveau":
        detail = _(
            "The free driver nouveau drives the NVIDIA card; CUDA needs NVIDIA's own, whose package switches nouveau off."
        )
        title = _("The NVIDIA card runs on nouveau")
        detail = sentences(detail, upgrade_warning(commands))
        return Problem("nouveau", Severity.BLOCKER, title, detail, commands, where, link)
    detail = sentences(f"{sentence(machine.gpu.reason)}.", upgrade_warning(commands))
    title = _("The NVIDIA driver is not installed")
    return Problem("gpu_no_driver", Severity.BLOCKER, title, detail, commands, where, link)


def _restart(machine: Machine) -> tuple[str, str]:
    """What starts the driver anew, and where it is typed."""
    return ("wsl --shutdown", "powershell") if machine.is_wsl2 else ("sudo reboot", "linux")


def _hangs(machine: Machine) -> Problem:
    command, where = _restart(machine)
    look = ("sudo dmesg | grep -iE 'nvrm|xid' | tail -n 20",) if where == "linux" else ()
    detail = _(
        "{reason}. A driver that hangs is cured by a restart; if it comes back, the kernel log tells which card failed."
    ).format(reason=sentence(machine.gpu.reason))
    title = _("The GPU driver does not answer")
    return Problem("gpu_driver_hangs", Severity.BLOCKER, title, detail, (*look, command), where)


def _mismatch(machine: Machine) -> Problem:
    command, where = _restart(machine)
    detail = _(
        "The driver was updated while the old kernel module is still loaded ({reason}). A restart loads the new one."
    ).format(reason=machine.gpu.reason)
    title = _("Driver and kernel module do not match")
    return Problem("gpu_driver_mismatch", Severity.BLOCKER, title, detail, (command,), where)


def _blocked(machine: Machine) -> Problem:
    detail = _("{reason}. Update the Windows driver and WSL, then restart WSL.").format(
        reason=sentence(machine.gpu.reason)
    )
    commands = ("wsl --update", "wsl --shutdown")
    title = _("Windows keeps WSL from the GPU")
    return Problem("gpu_blocked", Severity.BLOCKER, title, detail, commands, "powershell")


def _broken_driver(machine: Machine) -> Problem:
    reason = machine.gpu.reason
    if machine.is_wsl2:
        detail = _("{reason}. Under WSL this is cured by a newer driver in Windows (never a Linux driver inside WSL) and a newer WSL.").format(
            reason=reason
        )
        commands, where, link = driver_commands(machine)
        return Problem(
            "gpu_driver_broken",
            Severity.BLOCKER,
            _("The GPU driver does not work"),
            detail,
            ("wsl --update", *commands),
            where,
            link,
        )
    if machine.gpu.fault == "not_loaded":
        detail = _(
            "{reason}. After a kernel update the module must be built again; with Secure Boot it must be signed."
        ).format(reason=reason)
        commands = ("sudo modprobe nvidia", "sudo dkms autoinstall", "sudo reboot")
        return Problem(
            "gpu_driver_broken",
            Severity.BLOCKER,
            _("The NVIDIA kernel module is not loaded"),
            detail,
            commands,
        )
    commands, where, link = driver_commands(machine)
    detail = sentences(_("{reason}. Installing the driver again usually cures it.").format(reason=reason), upgrade_warning(commands))
    return Problem(
        "gpu_driver_broken",
        Severity.BLOCKER,
        _("The GPU driver does not work"),
        detail,
        commands,
        where,
        link,
    )


def _held(machine: Machine) -> list[Problem]:
    lines = []
    for gpu in machine.gpu.gpus:
        total, free = gpu.vram_total_bytes.value, gpu.vram_free_bytes.value
        if total is None or free is None or gpu.unified_memory:
            continue
        held = total - free
        if held > HELD_BYTES and held > HELD_SHARE * total:
            who = ", ".join(gpu.processes[:4]) or _("the driver does not tell who")
            lines.append(
                _("GPU {index}: {held} of {total} ({who})").format(
                    index=gpu.index, held=gib(held), total=gib(total), who=who
                )
            )
    if not lines:
        return []
    detail = sentences(
        stopped(clauses(lines)), _("The plan works with what is free now; end these programs to have more.")
    )
    commands: tuple[str, ...] = ()
    if machine.gpu.vendor == Vendor.NVIDIA:
        commands = ("nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv",)
    return [
        Problem("gpu_memory_held", Severity.WARNING, _("Other programs hold GPU memory"), detail, commands)
    ]


_FAULTS: dict[str, Callable[[Machine], Problem]] = {
    "hang": _hangs,
    "mismatch": _mismatch,
    "blocked": _blocked,
    "rubbish": _broken_driver,
    "crash": _broken_driver,
    "no_devices": _broken_driver,
    "not_loaded": _broken_driver,
}
