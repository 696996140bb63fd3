"""Problems of the container engine."""

from __future__ import annotations

from collections.abc import Callable

from wizard.facts import Machine, Problem, Severity, SystemKind, Vendor
from wizard.i18n import _, sentences
from wizard.probes.problems.words import distro_name, ps_quote, uses_apt, uses_dnf


def docker_engine(machine: Machine) -> list[Problem]:
    if machine.system not in (SystemKind.NATIVE, SystemKind.WSL2):
        return []
    docker = machine.docker
    if docker.fault:
        return _docker_fault(machine)
    found = []
    wants_nvidia = machine.gpu.vendor == Vendor.NVIDIA and bool(machine.gpu.gpus)
    if wants_nvidia and docker.nvidia_runtime.value is False:
        found.append(_no_nvidia_runtime(machine))
    if docker.remote:
        detail = _(
            "DOCKER_HOST leads to {place}: folders, GPUs and free memory found here are not that computer's. Take "
            "DOCKER_HOST away, or start the wizard there."
        ).format(place=docker.remote)
        title = _("Docker runs on another computer")
        found.append(Problem("docker_remote", Severity.WARNING, title, detail, ("unset DOCKER_HOST",)))
    if not docker.compose.known:
        commands = ("sudo apt-get install -y docker-compose-plugin",) if uses_apt(machine) else ()
        detail = _("{reason}. Without it compose.yaml cannot be used; launch.sh works.").format(
            reason=docker.compose.reason
        )
        found.append(
            Problem("docker_no_compose", Severity.INFO, _("Docker Compose is missing"), detail, commands)
        )
    if machine.system == SystemKind.WSL2 and docker.desktop_on_windows and docker.is_desktop.value is False:
        detail = _(
            "Docker Desktop is installed on Windows, and an engine of its own inside this distro answers here. Images and GPUs of the one are not there in the other: stop the one that you do not use."
        )
        found.append(
            Problem(
                "docker_two_engines",
                Severity.INFO,
                _("Two Docker engines"),
                detail,
                ("docker context ls", "sudo systemctl disable --now docker docker.socket"),
            )
        )
    return found


def _docker_fault(machine: Machine) -> list[Problem]:
    return [_FAULTS.get(machine.docker.fault, _error)(machine)]


def _not_installed(machine: Machine) -> Problem:
    detail = _("A container is the simplest way to run vLLM; a local Python environment works without it.")
    if machine.system == SystemKind.WSL2:
        detail = sentences(detail, _("Instead of these lines Docker Desktop can be installed in Windows."))
    commands, link = docker_install(machine)
    title = _("Docker is not installed")
    return Problem("docker_not_installed", Severity.INFO, title, detail, commands, link=link)


def _integration_off(machine: Machine) -> Problem:
    name = distro_name(machine)
    detail = _(
        "Docker Desktop does not serve this distro. In Docker Desktop: Settings, Resources, WSL integration, switch on "
        "{name}, Apply. The first line opens it; then open a new terminal."
    ).format(name=name)
    return Problem(
        "docker_integration_off",
        Severity.WARNING,
        _("Docker Desktop's WSL integration is off"),
        detail,
        (_DESKTOP_START, f"wsl --terminate {ps_quote(name)}"),
        "powershell",
        "https://docs.docker.com/desktop/features/wsl/",
    )


def _desktop_not_running(machine: Machine) -> Problem:
    code, title = "docker_desktop_not_running", _("Docker Desktop is not running")
    if machine.system == SystemKind.NATIVE:
        detail = _(
            "Docker Desktop on Linux cannot give GPUs to containers: better use the engine of the system."
        )
        commands = ("sudo systemctl enable --now docker", "docker context use default")
        return Problem(code, Severity.WARNING, title, detail, commands)
    detail = _("Start it and wait until it says that the engine runs.")
    return Problem(code, Severity.WARNING, title, detail, (_DESKTOP_START,), "powershell")


def _permission_denied(_machine: Machine) -> Problem:
    detail = _(
        "You are not in the group docker. Who is in it can become root on this machine; a new login makes it count "
        "everywhere."
    )
    return Problem(
        "docker_permission_denied",
        Severity.WARNING,
        _("You may not use Docker"),
        detail,
        ('sudo usermod -aG docker "$USER"', "newgrp docker", "docker info"),
        link="https://docs.docker.com/engine/install/linux-postinstall/",
    )


def _not_running(machine: Machine) -> Problem:
    start = "sudo systemctl enable --now docker"
    if machine.wsl is not None and machine.wsl.systemd.value is False:
        start = "sudo service docker start"
    detail = _("If this line finds no such service, only Docker's client is installed: install the engine.")
    title = _("Docker's engine is not running")
    link = docker_install(machine)[1]
    return Problem("docker_not_running", Severity.WARNING, title, detail, (start,), link=link)


def _hangs(machine: Machine) -> Problem:
    commands = ("sudo systemctl restart docker",) if not machine.docker.desktop_on_windows else ()
    reason = machine.docker.engine.reason
    detail = _("{reason}. Restart Docker; the wizard goes on without it.").format(reason=reason)
    return Problem("docker_hangs", Severity.WARNING, _("Docker does not answer"), detail, commands)


def _windows_containers(_machine: Machine) -> Problem:
    return Problem(
        "docker_windows_containers",
        Severity.WARNING,
        _("Docker runs Windows containers"),
        _("vLLM's images are Linux images."),
        ('& "$Env:ProgramFiles\\Docker\\Docker\\DockerCli.exe" -SwitchLinuxEngine',),
        "powershell",
    )


def _podman(_machine: Machine) -> Problem:
    detail = _(
        "Podman answers to the name docker. The files are written for Docker; under Podman GPUs come through CDI "
        "(nvidia-ctk cdi generate), which the wizard does not set up."
    )
    return Problem("docker_is_podman", Severity.INFO, _("docker is Podman here"), detail)


def _error(machine: Machine) -> Problem:
    reason = machine.docker.engine.reason
    return Problem("docker_error", Severity.WARNING, _("Docker does not work"), reason, ("docker info",))


_FAULTS: dict[str, Callable[[Machine], Problem]] = {
    "not_installed": _not_installed,
    "integration_off": _integration_off,
    "desktop_not_running": _desktop_not_running,
    "permission_denied": _permission_denied,
    "not_running": _not_running,
    "hang": _hangs,
    "windows_containers": _windows_containers,
    "podman": _podman,
}

_DESKTOP_START = 'Start-Process "$Env:ProgramFiles\\Docker\\Docker\\Docker Desktop.exe"'
_TOOLKIT_PAGE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_TOOLKIT_REPOSITORY = "https://nvidia.github.io/libnvidia-container"
_TOOLKIT_KEY = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"


def _no_nvidia_runtime(machine: Machine) -> Problem:
    docker = machine.docker
    if docker.is_desktop.value:
        detail = _("{reason}. Update Docker Desktop, use its WSL2 engine, and try the line below.").format(
            reason=docker.nvidia_runtime.reason
        )
        test = "docker run --rm --gpus all ubuntu nvidia-smi"
        if machine.system == SystemKind.NATIVE:
            detail = _("{reason}. Use the engine of the system instead of Docker Desktop.").format(
                reason=docker.nvidia_runtime.reason
            )
            return Problem(
                "docker_desktop_no_gpu",
                Severity.WARNING,
                _("Docker Desktop gives no GPUs"),
                detail,
                ("docker context use default", test),
            )
        return Problem(
            "docker_desktop_no_gpu",
            Severity.WARNING,
            _("Docker Desktop shows no NVIDIA runtime"),
            detail,
            (test,),
            link="https://docs.docker.com/desktop/features/gpu/",
        )
    commands = toolkit_commands(machine)
    detail = _("{reason}. NVIDIA's Container Toolkit adds it.").format(reason=docker.nvidia_runtime.reason)
    return Problem(
        "docker_no_nvidia_runtime",
        Severity.WARNING,
        _("Docker cannot give GPUs to containers"),
        detail,
        commands,
        link=_TOOLKIT_PAGE,
    )


def toolkit_commands(machine: Machine) -> tuple[str, ...]:
    """NVIDIA's documented steps for this system's package manager, then the runtime's registration."""
    system = machine.os_name.or_else("")
    install: tuple[str, ...] = ()
    if uses_apt(machine):
        install = (
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends curl gnupg2",
            f"curl -fsSL {_TOOLKIT_REPOSITORY}/gpgkey | sudo gpg --dearmor -o {_TOOLKIT_KEY}",
            f"curl -s -L {_TOOLKIT_REPOSITORY}/stable/deb/nvidia-container-toolkit.list"
            f" | sed 's#deb https://#deb [signed-by={_TOOLKIT_KEY}] https://#g'"
            " | sudo tee /etc/apt/sources.list.d/nvidia-container-toolkit.list",
            "sudo apt-get update",
            "sudo apt-get install -y nvidia-container-toolkit",
        )
    elif uses_dnf(system):
        install = (
            f"curl -s -L {_TOOLKIT_REPOSITORY}/stable/rpm/nvidia-container-toolkit.repo"
            " | sudo tee /etc/yum.repos.d/nvidia-container-toolkit.repo",
            "sudo dnf install -y nvidia-container-toolkit",
        )
    elif "SUSE" in system or "SLES" in system:
        install = (
            f"sudo zypper ar {_TOOLKIT_REPOSITORY}/stable/rpm/nvidia-container-toolkit.repo",
            "sudo zypper --gpg-auto-import-keys install -y nvidia-container-toolkit",
        )
    elif "Arch" in system or "Manjaro" in system:
        install = ("sudo pacman -S nvidia-container-toolkit",)
    if machine.docker.rootless.value:
        register: tuple[str, ...] = (
            'nvidia-ctk runtime configure --runtime=docker --config="$HOME/.config/docker/daemon.json"',
            "systemctl --user restart docker",
            "sudo nvidia-ctk config --set nvidia-container-cli.no-cgroups --in-place",
        )
    else:
        no_systemd = machine.wsl is not None and machine.wsl.systemd.value is False
        restart = "sudo service docker restart" if no_systemd else "sudo systemctl restart docker"
        register = ("sudo nvidia-ctk runtime configure --runtime=docker", restart)
    return (*install, *register, "docker run --rm --gpus all ubuntu nvidia-smi")


def docker_install(machine: Machine) -> tuple[tuple[str, ...], str]:
    """Docker's own documented steps for Ubuntu and Debian, and the page for all others."""
    system = machine.os_name.or_else("")
    name = "ubuntu" if system.startswith("Ubuntu") else "debian" if system.startswith("Debian") else ""
    page = f"https://docs.docker.com/engine/install/{name}".rstrip("/") + "/"
    if not name:
        return (), page
    base = f"https://download.docker.com/linux/{name}"
    return (
        (
            "sudo apt-get update && sudo apt-get install -y ca-certificates curl",
            "sudo install -m 0755 -d /etc/apt/keyrings",
            f"sudo curl -fsSL {base}/gpg -o /etc/apt/keyrings/docker.asc",
            'echo "deb [arch=$(dpkg --print-architecture) signed-by=/etc/apt/keyrings/docker.asc]'
            f' {base} $(. /etc/os-release && echo "$VERSION_CODENAME") stable" | sudo tee /etc/apt/sources.list.d/docker.list',
            "sudo apt-get update",
            "sudo apt-get install -y docker-ce docker-ce-cli containerd.io docker-buildx-plugin docker-compose-plugin",
            'sudo usermod -aG docker "$USER"',
        ),
        page,
    )
