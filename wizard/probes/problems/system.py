"""Problems of the system itself: Windows, WSL1, old WSL, containers."""

from __future__ import annotations

from wizard.facts import Machine, Problem, Severity, SystemKind, Vendor
from wizard.i18n import _
from wizard.probes.common import version_tuple
from wizard.probes.problems.words import distro_name, ps_quote


def system(machine: Machine) -> list[Problem]:
    if machine.system == SystemKind.WINDOWS:
        return [_windows(machine)]
    if machine.system == SystemKind.MACOS:
        detail = _(
            "vLLM has no build for macOS that this wizard could set up. Use a Linux machine, or start it there over SSH."
        )
        return [Problem("macos", Severity.BLOCKER, _("This is macOS"), detail)]
    if machine.system == SystemKind.WSL1:
        distro = distro_name(machine)
        return [
            Problem(
                "wsl1",
                Severity.BLOCKER,
                _("This distro runs on WSL1"),
                _(
                    "WSL1 has no Linux kernel: neither GPUs nor Docker work in it. Converting keeps all files and takes some minutes."
                ),
                ("wsl --update", f"wsl --set-version {ps_quote(distro)} 2", "wsl --set-default-version 2"),
                "powershell",
                "https://learn.microsoft.com/windows/wsl/basic-commands",
            )
        ]
    if machine.system == SystemKind.WSL_CONTAINER:
        detail = _(
            "From inside a container neither .wslconfig nor Docker can be set up: start the wizard in the WSL distro itself for that. Serving from this container works."
        )
        return [Problem("container_in_wsl", Severity.INFO, _("This is a container inside WSL2"), detail)]
    if machine.system == SystemKind.CONTAINER:
        detail = _(
            "The files are written for this container: a local environment, no Docker. Start the wizard on the host to use Docker."
        )
        return [Problem("container", Severity.INFO, _("This is a container"), detail)]
    return []


def _windows(machine: Machine) -> Problem:
    wsl = machine.wsl
    if wsl is None:
        return Problem(
            "windows_no_wsl",
            Severity.BLOCKER,
            _("WSL is not installed"),
            _(
                "vLLM runs on Linux; on Windows it needs WSL2. After the installation restart Windows, open Ubuntu and start the wizard there."
            ),
            ("wsl --install -d Ubuntu-24.04",),
            "powershell-admin",
            "https://learn.microsoft.com/windows/wsl/install",
        )
    people = [d for d in wsl.distros if not d.name.startswith("docker-desktop")]
    second = [d for d in people if d.version == 2]
    if not people:
        return Problem(
            "windows_no_distro",
            Severity.BLOCKER,
            _("WSL has no Linux distro yet"),
            _("vLLM runs inside a distro. After the installation open Ubuntu and start the wizard there."),
            ("wsl --install -d Ubuntu-24.04",),
            "powershell",
        )
    if not second:
        name = next((d.name for d in people if d.default), people[0].name)
        return Problem(
            "wsl1",
            Severity.BLOCKER,
            _("The installed distro runs on WSL1"),
            _(
                "WSL1 has no Linux kernel: neither GPUs nor Docker work in it. Converting keeps all files and takes some minutes."
            ),
            ("wsl --update", f"wsl --set-version {ps_quote(name)} 2", "wsl --set-default-version 2"),
            "powershell",
        )
    name = next((d.name for d in second if d.default), second[0].name)
    return Problem(
        "windows_serves_in_wsl",
        Severity.BLOCKER,
        _("vLLM does not run on Windows itself"),
        _(
            "Go on inside WSL: install the wizard in the distro and start it there with the same answers file."
        ),
        (f"wsl -d {ps_quote(name)}",),
        "powershell",
    )


def wsl_itself(machine: Machine) -> list[Problem]:
    wsl = machine.wsl
    if wsl is None or machine.system != SystemKind.WSL2:
        return []
    found = []
    version = version_tuple(wsl.version.value)
    inbox = wsl.version.value is None and "--version" in wsl.version.source
    if inbox or (version and version < (2, 0)):
        found.append(
            Problem(
                "wsl_too_old",
                Severity.WARNING,
                _("WSL is old ({version})").format(
                    version=wsl.version.value or _("the one that came with Windows")
                ),
                _(
                    "GPU support, memory settings and networking were repaired many times since."
                ),
                ("wsl --update", "wsl --shutdown"),
                "powershell",
            )
        )
    if wsl.interop.value is False:
        found.append(_interop_off(machine))
    if wsl.linux_driver_inside:
        found.append(
            Problem(
                "wsl_linux_driver_inside",
                Severity.WARNING,
                _("A Linux NVIDIA driver is installed inside WSL"),
                _(
                    "Under WSL the driver comes from Windows; a Linux driver package hides its library and breaks CUDA."
                ),
                (
                    "sudo apt-get purge '^nvidia-driver-.*' '^libnvidia-compute-.*'",
                    "sudo apt-get autoremove",
                    "sudo ldconfig",
                ),
                link="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
            )
        )
    if machine.gpu.gpus and wsl.gpu_device and not wsl.libcuda and machine.gpu.vendor == Vendor.NVIDIA:
        found.append(
            Problem(
                "wsl_libcuda_missing",
                Severity.WARNING,
                _("Windows' CUDA library is not linked into WSL"),
                _(
                    "/usr/lib/wsl/lib/libcuda.so.1 is missing, so that programs find no GPU. Updating WSL and the Windows driver puts it back."
                ),
                ("wsl --update", "wsl --shutdown"),
                "powershell",
            )
        )
    if machine.gpu.vendor == Vendor.AMD:
        found.append(
            Problem(
                "amd_on_wsl",
                Severity.WARNING,
                _("An AMD GPU under WSL"),
                _(
                    "There is no /dev/kfd here: ROCm reaches the GPU through /dev/dxg and AMD's library for WSL, which "
                    "vLLM's ROCm image does not bring. Native Linux is the sure way; under WSL follow AMD's guide."
                ),
                link="https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad/wsl/howto_wsl.html",
            )
        )
    if wsl.networking_mode.value == "mirrored" and machine.docker.engine.known:
        found.append(
            Problem(
                "wsl_mirrored_with_docker",
                Severity.INFO,
                _("Mirrored networking together with Docker"),
                _(
                    "Published container ports are not always reachable in this mode. If the server cannot be reached: choose “Local environment” on the step “vLLM version”, which publishes no container port; or take the line networkingMode=mirrored out of the .wslconfig in your Windows user folder and type wsl --shutdown in PowerShell on Windows."
                ),
            )
        )
    return found


def _interop_off(machine: Machine) -> Problem:
    detail = _(
        "Windows programs cannot be started from this distro, so that the wizard cannot ask Windows for its memory; it asks you instead. To switch it on: in /etc/wsl.conf set enabled=true under [interop], and restart the distro: {command}, typed in PowerShell on Windows, ends it with all that runs in it, this terminal included. Where it is on already, systemd removed the entry, and these lines put it back at once:"
    ).format(command=f"wsl --terminate {ps_quote(distro_name(machine))}")
    return Problem(
        "interop_off",
        Severity.WARNING,
        _("WSL interop is off"),
        detail,
        (
            "sudo sh -c 'echo :WSLInterop:M::MZ::/init:PF > /usr/lib/binfmt.d/WSLInterop.conf'",
            "sudo systemctl restart systemd-binfmt",
        ),
        link="https://learn.microsoft.com/windows/wsl/wsl-config#interop-settings",
    )
