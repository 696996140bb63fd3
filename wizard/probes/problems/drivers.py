"""How NVIDIA's driver is installed on a system, in the vendors' own documented steps."""

from __future__ import annotations

import re

from wizard.facts import Gpu, Machine, SystemKind
from wizard.i18n import _
from wizard.probes.common import version_tuple

# vLLM's newest images: CUDA 13 needs this driver and is built for this compute capability and newer.
NEWEST_DRIVER = 580
NEWEST_CAPABILITY = (7, 5)

PAGE = "https://www.nvidia.com/drivers"
GUIDE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/index.html"
_REPOSITORY = "https://developer.download.nvidia.com/compute/cuda/repos"
# The oldest releases for which driver 580 is packaged.
_OLDEST_UBUNTU = (22, 4)
_OLDEST_DEBIAN = 12

_UPGRADE = "sudo do-release-upgrade"

Commands = tuple[str, ...]


def below(gpu: Gpu, least: tuple[int, int]) -> bool:
    """Whether the GPU's compute capability is known and below ``least``."""
    numbers = version_tuple(gpu.compute_capability.value)
    return bool(numbers) and numbers < least


def driver_commands(machine: Machine) -> tuple[Commands, str, str]:
    """How the NVIDIA driver is installed there: commands, where they are typed, the page that explains it."""
    if machine.system in (SystemKind.WSL2, SystemKind.WSL_CONTAINER):
        return (f"Start-Process {PAGE}", "wsl --shutdown"), "powershell", PAGE
    if machine.system == SystemKind.WINDOWS:
        return (f"Start-Process {PAGE}",), "powershell", PAGE
    # A container uses its host's driver, and what the host runs cannot be seen from inside.
    if machine.system != SystemKind.NATIVE:
        return (), "linux", GUIDE
    # The open kernel module knows Turing and newer only, and Blackwell knows nothing else.
    open_module = not any(below(g, NEWEST_CAPABILITY) for g in machine.gpu.gpus)
    system = machine.os_name.or_else("")
    x86 = machine.cpu.architecture in ("x86_64", "AMD64")
    commands = _ubuntu(system, open_module) or (
        _debian(system, open_module) or _red_hat(system, open_module) if x86 else ()
    )
    return commands, "linux", GUIDE


def upgrade_warning(commands: Commands) -> str:
    """What to know before commands that begin with an upgrade of the whole system; "" for others."""
    if commands[:1] != (_UPGRADE,):
        return ""
    return _(
        "This Ubuntu has no package of driver {driver}: the first command below upgrades the whole system to the next release, which takes long and changes far more than the driver. Back up first, and look whether all else on this machine can go along."
    ).format(driver=NEWEST_DRIVER)


def _ubuntu(system: str, open_module: bool) -> Commands:
    match = re.match(r"Ubuntu (\d+)\.(\d+)", system)
    if match is None:
        return ()
    package = f"nvidia-driver-{NEWEST_DRIVER}" + ("-open" if open_module else "")
    too_old = (int(match.group(1)), int(match.group(2))) < _OLDEST_UBUNTU
    upgrade = (_UPGRADE,) if too_old else ()
    return (*upgrade, "sudo apt-get update", f"sudo apt-get install -y {package}", "sudo reboot")


def _debian(system: str, open_module: bool) -> Commands:
    match = re.match(r"Debian\D*(\d+)", system)
    if match is None or int(match.group(1)) < _OLDEST_DEBIAN:
        return ()
    return (
        f"curl -fsSLO {_REPOSITORY}/debian{match.group(1)}/x86_64/cuda-keyring_1.1-1_all.deb",
        "sudo dpkg -i cuda-keyring_1.1-1_all.deb",
        "sudo apt-get update",
        f"sudo apt-get install -y {'nvidia-open' if open_module else 'cuda-drivers'}",
        "sudo reboot",
    )


def _red_hat(system: str, open_module: bool) -> Commands:
    fedora = re.match(r"Fedora Linux (\d+)", system)
    family = re.match(r"(?:Red Hat Enterprise|CentOS Stream|Rocky|AlmaLinux|Oracle)\D*(\d+)", system)
    if fedora is not None:
        name = f"fedora{fedora.group(1)}"
        add = f"sudo dnf config-manager addrepo --from-repofile={_REPOSITORY}/{name}/x86_64/cuda-{name}.repo"
    elif family is not None and int(family.group(1)) >= 8:
        name = f"rhel{family.group(1)}"
        add = f"sudo dnf config-manager --add-repo {_REPOSITORY}/{name}/x86_64/cuda-{name}.repo"
    else:
        return ()
    if family is not None and int(family.group(1)) < 10:
        kind = "open-dkms" if open_module else "latest-dkms"
        install = f"sudo dnf module install -y nvidia-driver:{kind}"
    else:
        install = f"sudo dnf install -y {'nvidia-open' if open_module else 'cuda-drivers'}"
    return (add, install, "sudo reboot")
