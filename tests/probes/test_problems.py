"""Each problem: when it is seen, when it is not, and that its cure can be typed as it stands."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.facts import Fact, Machine, ProbeRun, Severity, SystemKind, WslDistro, known, unknown
from wizard.host import FakeHost
from wizard.probes import run_all
from wizard.probes.problems import find_problems
from wizard.probes.problems.docker import docker_install, toolkit_commands
from wizard.probes.problems.drivers import driver_commands

MACHINES = Path(__file__).parent.parent / "machines"
GIB = 1024**3


@functools.cache
def recorded(name: str) -> Machine:
    return run_all(FakeHost(MACHINES / name))


def part(machine: Machine, where: str, **changes: Any) -> Machine:
    """The machine with fields of one of its records changed; plain values become facts where a fact stands."""
    record = getattr(machine, where)
    facts = {
        k: known(v, "test") if isinstance(getattr(record, k), Fact) and not isinstance(v, Fact) else v
        for k, v in changes.items()
    }
    return replace(machine, **{where: replace(record, **facts)})


def gpus(machine: Machine, **changes: Any) -> Machine:
    each = tuple(
        replace(
            g,
            **{
                k: known(v, "test") if not isinstance(v, (Fact, tuple, bool)) else v
                for k, v in changes.items()
            },
        )
        for g in machine.gpu.gpus
    )
    return replace(machine, gpu=replace(machine.gpu, gpus=each))


DESKTOP, LINUX, WSL, LAPTOP = "wsl2-rtx4090-desktop", "native-rtx5090", "wsl2-2x-rtx3090", "cpu-only-laptop"
CASES: list[tuple[str, str, Callable[[Machine], Machine], str | None]] = [
    ("driver_too_old", LINUX, lambda m: part(m, "gpu", driver_version="575.64.03"), "580"),
    ("driver_too_old", DESKTOP, lambda m: part(m, "gpu", driver_version="576.80"), "0.32.0"),
    ("compute_capability_dropped", LINUX, lambda m: gpus(m, compute_capability="7.0"), "0.19.1"),
    ("compute_capability_too_low", LINUX, lambda m: gpus(m, compute_capability="6.1"), "7.0"),
    ("mig_enabled", LINUX, lambda m: gpus(m, mig_enabled=known(True, "t")), "-mig 0"),
    ("gpu_memory_held", LINUX, lambda m: gpus(m, vram_free_bytes=9 * GIB), "Xorg"),
    (
        "nouveau",
        LINUX,
        lambda m: part(m, "gpu", gpus=(), fault="no_driver", kernel_module="nouveau"),
        "nvidia-driver-580",
    ),
    (
        "gpu_no_driver",
        LINUX,
        lambda m: part(
            m, "gpu", gpus=(), fault="no_driver", other_gpus=("NVIDIA device 0x2684",), kernel_module=None
        ),
        "nvidia-driver-580",
    ),
    ("gpu_driver_mismatch", LINUX, lambda m: part(m, "gpu", gpus=(), fault="mismatch"), "sudo reboot"),
    ("gpu_driver_hangs", DESKTOP, lambda m: part(m, "gpu", gpus=(), fault="hang"), "wsl --shutdown"),
    ("gpu_blocked", DESKTOP, lambda m: part(m, "gpu", gpus=(), fault="blocked"), "wsl --update"),
    ("gpu_driver_broken", LINUX, lambda m: part(m, "gpu", gpus=(), fault="not_loaded"), "modprobe nvidia"),
    ("gpu_driver_broken", DESKTOP, lambda m: part(m, "gpu", gpus=(), fault="crash"), "wsl --update"),
    (
        "wsl_no_gpu_device",
        DESKTOP,
        lambda m: part(part(m, "gpu", gpus=(), fault="no_driver"), "wsl", gpu_device=False),
        "/dev/dxg",
    ),
    ("no_gpu", DESKTOP, lambda m: part(m, "gpu", gpus=(), vendor=None), None),
    ("wsl_too_old", DESKTOP, lambda m: part(m, "wsl", version="1.2.5.0"), "wsl --update"),
    (
        "wsl_too_old",
        DESKTOP,
        lambda m: part(m, "wsl", version=unknown("came with Windows", "wsl.exe --version")),
        "wsl --update",
    ),
    ("interop_off", DESKTOP, lambda m: part(m, "wsl", interop=False), "/etc/wsl.conf"),
    ("wsl_linux_driver_inside", DESKTOP, lambda m: part(m, "wsl", linux_driver_inside=True), "apt-get purge"),
    ("wsl_libcuda_missing", DESKTOP, lambda m: part(m, "wsl", libcuda=False), "libcuda"),
    (
        "docker_no_nvidia_runtime",
        LINUX,
        lambda m: part(m, "docker", nvidia_runtime=False),
        "nvidia-ctk runtime configure",
    ),
    (
        "docker_desktop_no_gpu",
        DESKTOP,
        lambda m: part(m, "docker", nvidia_runtime=False),
        "docker run --rm --gpus all",
    ),
    (
        "docker_not_installed",
        LINUX,
        lambda m: part(m, "docker", fault="not_installed"),
        "download.docker.com/linux/ubuntu",
    ),
    (
        "docker_integration_off",
        DESKTOP,
        lambda m: part(m, "docker", fault="integration_off"),
        "WSL integration",
    ),
    (
        "docker_desktop_not_running",
        DESKTOP,
        lambda m: part(m, "docker", fault="desktop_not_running"),
        "Start-Process",
    ),
    (
        "docker_permission_denied",
        LINUX,
        lambda m: part(m, "docker", fault="permission_denied"),
        "usermod -aG docker",
    ),
    (
        "docker_not_running",
        LINUX,
        lambda m: part(m, "docker", fault="not_running"),
        "systemctl enable --now docker",
    ),
    (
        "docker_not_running",
        WSL,
        lambda m: part(part(m, "docker", fault="not_running"), "wsl", systemd=False),
        "service docker start",
    ),
    ("docker_hangs", LINUX, lambda m: part(m, "docker", fault="hang"), "systemctl restart docker"),
    (
        "docker_windows_containers",
        DESKTOP,
        lambda m: part(m, "docker", fault="windows_containers"),
        "-SwitchLinuxEngine",
    ),
    ("docker_is_podman", LINUX, lambda m: part(m, "docker", fault="podman"), "Podman"),
    ("docker_error", LINUX, lambda m: part(m, "docker", fault="error", engine=unknown("boom")), "boom"),
    ("docker_remote", LINUX, lambda m: part(m, "docker", remote="tcp://box:2375"), "tcp://box:2375"),
    ("amd_on_wsl", DESKTOP, lambda m: replace(m, gpu=recorded("native-mi300x").gpu), "/dev/kfd"),
    (
        "docker_no_compose",
        LINUX,
        lambda m: part(m, "docker", compose=unknown("not there")),
        "docker-compose-plugin",
    ),
    ("docker_two_engines", WSL, lambda m: part(m, "docker", desktop_on_windows=True), "docker context"),
    ("low_ram", LINUX, lambda m: part(m, "memory", total_bytes=6 * GIB), "6.0 GiB"),
    ("low_ram", "wsl2-container", lambda m: part(m, "memory", cgroup_limit_bytes=4 * GIB), "4.0 GiB"),
    ("no_swap", LINUX, lambda m: part(m, "memory", total_bytes=32 * GIB, swap_total_bytes=0), "mkswap"),
    ("no_swap", DESKTOP, lambda m: part(m, "memory", swap_total_bytes=0), ".wslconfig"),
    ("low_disk_windows", DESKTOP, lambda m: part(m, "wsl", host_free_disk_bytes=9 * GIB), "9.0 GiB"),
    ("cpu_no_avx2", LAPTOP, lambda m: part(m, "cpu", flags=frozenset({"avx"})), "AVX2"),
    ("old_glibc", LINUX, lambda m: part(m, "python", glibc="2.27"), "2.28"),
    ("old_glibc", LINUX, lambda m: part(m, "python", glibc=unknown("this system uses musl")), "musl"),
    ("no_uv", LINUX, lambda m: part(m, "python", uv=unknown("no")), "astral.sh"),
    ("no_venv", LINUX, lambda m: part(m, "python", uv=unknown("no"), venv_module=False), "python3.12-venv"),
    ("python_too_old", LINUX, lambda m: part(m, "python", uv=unknown("no"), version="3.10.12"), "3.10.12"),
    (
        "python_too_old",
        LINUX,
        lambda m: part(m, "python", uv=unknown("no"), version=unknown("python3 was not found")),
        "python3 was not found",
    ),
    ("no_compiler", LINUX, lambda m: part(m, "python", compiler=False), "build-essential"),
    ("windows_no_wsl", "windows-rtx4070", lambda m: replace(m, wsl=None), "wsl --install"),
    (
        "windows_no_distro",
        "windows-rtx4070",
        lambda m: part(m, "wsl", distros=(WslDistro("docker-desktop", 2, "Running"),)),
        "wsl --install",
    ),
    (
        "wsl1",
        "windows-rtx4070",
        lambda m: part(m, "wsl", distros=(WslDistro("My Ubuntu", 1, "Stopped"),)),
        "wsl --set-version 'My Ubuntu' 2",
    ),
    ("macos", LINUX, lambda m: replace(m, system=SystemKind.MACOS), "macOS"),
    ("container", LINUX, lambda m: replace(m, system=SystemKind.CONTAINER), None),
    (
        "probe_timed_out_disks",
        LINUX,
        lambda m: replace(m, runs=(ProbeRun("disks", 8, False, True, "", "did not answer within 8 s"),)),
        "8 s",
    ),
    (
        "probe_timed_out_wsl",
        DESKTOP,
        lambda m: replace(m, runs=(ProbeRun("wsl", 5, True, True, "x", "cmd.exe did not answer"),)),
        "cmd.exe",
    ),
    (
        "probe_failed_cpu",
        LINUX,
        lambda m: replace(m, runs=(ProbeRun("cpu", 0, False, False, "", "it broke"),)),
        "it broke",
    ),
]


@pytest.mark.parametrize(
    ("code", "name", "change", "says"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)]
)
def test_problems(code: str, name: str, change: Callable[[Machine], Machine], says: str | None) -> None:
    before = recorded(name)
    assert code not in [p.code for p in find_problems(before)]
    after = find_problems(change(before))
    found = [p for p in after if p.code == code]
    assert len(found) == 1
    text = "\n".join([found[0].title, found[0].detail, *found[0].commands])
    assert says is None or says in text
    assert found[0].title
    assert found[0].detail
    order = [Severity.BLOCKER, Severity.WARNING, Severity.INFO]
    ranks = [order.index(p.severity) for p in after]
    assert ranks == sorted(ranks)


def test_a_desktops_own_share_is_no_problem() -> None:
    assert "gpu_memory_held" not in [
        p.code for p in find_problems(gpus(recorded(DESKTOP), vram_free_bytes=int(22.4 * GIB)))
    ]


@pytest.mark.parametrize(
    ("driver", "severity", "release"),
    [
        ("580.65.06", None, ""),
        ("579.1", "warning", "0.32.0"),
        ("572.83", "warning", "0.11.0"),
        ("551.23", "warning", "0.8.5.post1"),
        ("535.1", "warning", "0.32.0"),
        ("470.199", "blocker", ""),
    ],
)
def test_which_release_still_runs_on_an_old_driver(driver: str, severity: str | None, release: str) -> None:
    found = [
        p
        for p in find_problems(part(recorded(LINUX), "gpu", driver_version=driver))
        if p.code == "driver_too_old"
    ]
    if severity is None:
        assert found == []
    else:
        assert found[0].severity.value == severity
        assert release in found[0].detail


def test_on_wsl_the_driver_is_never_installed_inside() -> None:
    for problem in find_problems(part(recorded(DESKTOP), "gpu", driver_version="551.23")):
        if problem.code == "driver_too_old":
            assert problem.where == "powershell"
            assert not any("apt" in c for c in problem.commands)


def test_an_old_driver_first_says_what_runs_without_an_update() -> None:
    for name, driver in ((DESKTOP, "572.83"), ("native-4x-h200", "551.23"), ("native-v100", "535.1")):
        detail = next(p.detail for p in find_problems(part(recorded(name), "gpu", driver_version=driver)) if p.code == "driver_too_old")
        assert "without doing anything" in detail
        assert "0.11.0 (CUDA 12.8) is the newest" not in detail
    desktop = next(p.detail for p in find_problems(part(recorded(DESKTOP), "gpu", driver_version="572.83")) if p.code == "driver_too_old")
    assert desktop.index("0.32.0") < desktop.index("0.11.0")


def test_without_a_gpu_wsl_is_told_of_the_windows_driver_and_never_of_a_linux_one() -> None:
    problem = next(p for p in find_problems(recorded("wsl2-no-gpu")) if p.code == "no_gpu")
    assert "in Windows, never a Linux driver inside WSL" in problem.detail
    assert problem.where == "powershell"
    assert any("nvidia.com" in c for c in problem.commands)
    assert not any("apt" in c for c in problem.commands)
    wsl = recorded("wsl2-no-gpu").wsl
    assert wsl is not None
    hidden = replace(recorded("wsl2-no-gpu"), wsl=replace(wsl, gpu_device=False))
    other = next(p for p in find_problems(hidden) if p.code == "wsl_no_gpu_device")
    assert "never a Linux driver inside WSL" in other.detail
    native = next(p for p in find_problems(recorded("cpu-only-laptop")) if p.code == "no_gpu")
    assert "Windows" not in native.detail


def distribution(name: str) -> Machine:
    return replace(recorded(LINUX), os_name=known(name, "test"))


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("Ubuntu 22.04.5 LTS", "apt-get"),
        ("Debian GNU/Linux 12 (bookworm)", "apt-get"),
        ("Rocky Linux 9.5 (Blue Onyx)", "dnf"),
        ("Fedora Linux 43", "dnf"),
        ("openSUSE Leap 15.6", "zypper"),
        ("Arch Linux", "pacman"),
    ],
)
def test_the_package_manager_of_the_system_is_used(name: str, word: str) -> None:
    assert any(word in c for c in toolkit_commands(distribution(name)))


def test_an_unknown_system_gets_no_made_up_install_lines() -> None:
    strange = distribution("Void Linux")
    assert toolkit_commands(strange)[0].startswith("sudo nvidia-ctk")
    assert docker_install(strange)[0] == ()
    assert driver_commands(strange)[0] == ()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("Ubuntu 20.04.6 LTS", "do-release-upgrade"),
        ("Ubuntu 24.04.3 LTS", "nvidia-driver-580-open"),
        ("Debian GNU/Linux 13 (trixie)", "debian13"),
        ("Debian GNU/Linux 11 (bullseye)", None),
        ("Rocky Linux 9.5 (Blue Onyx)", "cuda-rhel9.repo"),
        ("Red Hat Enterprise Linux 10.0 (Coughlan)", "dnf install -y nvidia-open"),
        ("Fedora Linux 43 (Server Edition)", "cuda-fedora43.repo"),
        ("CentOS Linux 7 (Core)", None),
        ("Void Linux", None),
    ],
)
def test_the_driver_is_installed_as_the_vendor_says(name: str, word: str | None) -> None:
    commands, where, link = driver_commands(distribution(name))
    assert (where, link[:8]) == ("linux", "https://")
    if word is None:
        assert commands == ()
    else:
        assert any(word in c for c in commands)
        assert commands[-1] == "sudo reboot"


def test_a_container_cannot_install_its_hosts_driver() -> None:
    assert driver_commands(replace(recorded(LINUX), system=SystemKind.CONTAINER))[0] == ()


def test_a_rootless_engine_is_set_up_without_root() -> None:
    commands = toolkit_commands(part(recorded(LINUX), "docker", rootless=True))
    assert "systemctl --user restart docker" in commands
    assert not any(c == "sudo systemctl restart docker" for c in commands)


def test_volta_gets_the_closed_module() -> None:
    assert any(c.endswith("nvidia-driver-580-open") for c in driver_commands(recorded("native-rtx5090"))[0])
    assert any(c.endswith("nvidia-driver-580") for c in driver_commands(recorded("native-v100"))[0])


def all_problems() -> list[Any]:
    return [p for code, name, change, _says in CASES for p in find_problems(change(recorded(name)))]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_linux_commands_are_valid_shell() -> None:
    lines = {c for p in all_problems() if p.where == "linux" for c in p.commands}
    for name in ("Debian GNU/Linux 12 (bookworm)", "Fedora Linux 43", "openSUSE Leap 15.6"):
        lines |= {
            *toolkit_commands(distribution(name)),
            *docker_install(distribution(name))[0],
            *driver_commands(distribution(name))[0],
        }
    script = "\n".join(sorted(lines))
    assert (
        subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).stderr == ""
    )


def test_commands_are_single_lines_typed_where_they_belong() -> None:
    for problem in all_problems():
        assert problem.where in ("linux", "powershell", "powershell-admin")
        for command in problem.commands:
            assert "\n" not in command
            windows = re.match(r"wsl |Start-Process|& ", command) is not None
            assert windows == (problem.where != "linux"), command


def test_a_cure_that_ends_this_terminal_says_so() -> None:
    old = part(recorded(DESKTOP), "wsl", version="1.2.5.0")
    told = next(p for p in find_problems(old) if p.code == "wsl_too_old")
    assert told.ends_wsl
    assert "this terminal and this program" in told.detail
    first = next(p for p in find_problems(recorded("wsl1")) if p.code == "wsl1")
    assert first.ends_wsl
    assert "wsl --set-version Ubuntu-20.04 2 ends this distro" in first.detail
    # On Windows itself the program goes on.
    windows = part(recorded("windows-rtx4070"), "wsl", distros=(WslDistro("My Ubuntu", 1, "Stopped"),))
    assert not any("this terminal" in p.detail for p in find_problems(windows))


def test_interop_names_the_command_that_restarts_the_distro_and_promises_no_question_that_is_not_asked() -> None:
    machine_ = recorded("wsl2-interop-off-custom-root")
    told = next(p for p in find_problems(machine_) if p.code == "interop_off").detail
    name = machine_.wsl.distro.value  # type: ignore[union-attr]
    assert f"wsl --terminate {name}" in told
    assert "this terminal included" in told
    assert "user folder" not in told


def test_a_driver_that_an_image_admits_is_told_so_and_a_system_upgrade_is_warned_of() -> None:
    from wizard.probes.problems import gpu
    from wizard.releases.images import _DRIVER

    least, branches = _DRIVER["12.9"]
    assert (str(gpu.CUDA_12_VARIANT_DRIVER), tuple(map(str, gpu.CUDA_12_VARIANT_BRANCHES))) == (least, branches)
    machine = recorded("native-t4")
    told = next(p for p in machine.problems if p.code == "driver_too_old")
    assert "Its Docker image runs with this driver too" in told.detail
    assert "upgrades the whole system" in told.detail
    assert told.commands[0] == "sudo do-release-upgrade"
    assert "does not run with this driver" in gpu._without_update(machine, 545, "0.32.0")
    newer = gpu._driver(replace(machine, os_name=known("Ubuntu 24.04.3 LTS", "test")))[0]
    assert "upgrades the whole system" not in newer.detail


@pytest.mark.parametrize(
    ("change", "spared"),
    [(lambda m: m, True), (lambda m: part(m, "docker", nvidia_runtime=False), False), (lambda m: part(m, "docker", engine=unknown("not there")), False)],
)
def test_what_only_a_local_environment_needs_is_told_where_docker_serves(change: Callable[[Machine], Machine], spared: bool) -> None:
    machine = change(part(recorded(LINUX), "python", uv=unknown("no"), compiler=False))
    told = {p.code: p.detail for p in find_problems(machine)}
    for code in ("no_uv", "no_compiler"):
        assert ("With Docker, which works here" in told[code]) is spared
