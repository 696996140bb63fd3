"""Writes the recorded machines of ``tests/machines``: ``python tests/build_machines.py [NAME...]``.

Each machine is a folder as ``vllm-wizard record`` writes it. They are put together from public command outputs
of such machines (collect_env reports, nvidia-smi tables, mount tables, docker info) and from the vendors'
documentation, so that machines which are not at hand can be tested, demonstrated and pictured. ``expect.json``
holds what the probes must find.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import build_models as models  # noqa: E402

from wizard.probes import docker as docker_probe  # noqa: E402
from wizard.probes import gpu_amd, gpu_nvidia, python, windows_host  # noqa: E402

OUT = Path(__file__).resolve().parent / "machines"
GIB = 1024**3
MIB = 1024**2
GB = 1000**3

MACHINES: dict[str, Callable[[], Machine]] = {}


class Machine:
    """A recorded machine in the making."""

    def __init__(self, name: str, home: str = "/home/user", platform: str = "linux") -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.commands: list[dict[str, Any]] = []
        self.expect: dict[str, Any] = {}
        self.host: dict[str, Any] = {
            "name": name,
            "platform": platform,
            "machine": "AMD64" if platform == "win32" else "x86_64",
            "home": home,
            "env": {
                "HOME": home,
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "SHELL": "/bin/bash",
            },
            "memory": {},
            "cpu_count": 1,
            "disks": {},
            "listening_ports": [],
            "programs": {},
            "entries": {},
        }

    def file(self, path: str, content: str | bytes) -> None:
        self.files[path] = content.encode() if isinstance(content, str) else content

    def entry(self, path: str, **what: Any) -> None:
        self.host["entries"].setdefault(path, {}).update(what)

    def program(self, *paths: str) -> None:
        for path in paths:
            self.host["programs"][path.replace("\\", "/").rsplit("/", 1)[-1]] = path

    def command(self, argv: list[str] | tuple[str, ...], stdout: str = "", **rest: Any) -> None:
        self.commands.append({"argv": list(argv), "stdout": stdout, **rest})

    def memory(self, total: float, available: float, swap: float = 0.0, cpus: int = 8) -> None:
        self.host["memory"] = {
            "total_bytes": int(total * GIB) // 4096 * 4096,
            "available_bytes": int(available * GIB) // 4096 * 4096,
            "swap_total_bytes": int(swap * GIB) // 4096 * 4096,
            "swap_free_bytes": int(swap * GIB) // 4096 * 4096,
        }
        self.host["cpu_count"] = cpus
        self.host["disks"].setdefault(
            "/dev/shm", {"total_bytes": int(total * GIB / 2), "free_bytes": int(total * GIB / 2)}
        )

    def disk(self, path: str, total: float, free: float) -> None:
        self.host["disks"][path] = {"total_bytes": int(total * GB), "free_bytes": int(free * GB)}

    def model_folder(self, folder: str, model: models.Folder) -> None:
        for name, content in model.files.items():
            self.file(f"{folder}/{name}", content)
            if name in model.sizes:
                self.entry(f"{folder}/{name}", size_bytes=model.sizes[name])

    def hf_model(self, repo: str, model: models.Folder, cache: str | None = None) -> None:
        """A repository in the Hugging Face cache: blobs by hash, a snapshot of links, a reference to it."""
        root = f"{cache or self.host['home'] + '/.cache/huggingface/hub'}/models--{repo.replace('/', '--')}"
        commit = models.revision(repo)
        self.file(f"{root}/refs/main", commit)
        for name, content in model.files.items():
            blob = (
                hashlib.sha256(content).hexdigest()
                if name in model.sizes
                else hashlib.sha1(content).hexdigest()
            )
            self.file(f"{root}/blobs/{blob}", content)
            if name in model.sizes:
                self.entry(f"{root}/blobs/{blob}", size_bytes=model.sizes[name])
            self.entry(f"{root}/snapshots/{commit}/{name}", link_to=f"../../blobs/{blob}")

    def write(self) -> None:
        folder = OUT / self.name
        if folder.exists():
            shutil.rmtree(folder)
        for path, content in self.files.items():
            inside = path.replace(":\\", "\\").replace("\\", "/").lstrip("/")
            target = folder / "files" / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in (
            ("host.json", self.host),
            ("commands.json", self.commands),
            ("expect.json", self.expect),
        ):
            text = json.dumps(data, indent=1, ensure_ascii=False, sort_keys=name != "commands.json")
            (folder / name).write_text(text + "\n", "utf-8")


def machine(build: Callable[[], Machine]) -> Callable[[], Machine]:
    MACHINES[build.__name__.replace("_", "-").removeprefix("m-")] = build
    return build


# ---- parts -----------------------------------------------------------------------------------------------

OS_RELEASES = {
    "20.04": ("Ubuntu 20.04.6 LTS", "2.31", "3.8.10"),
    "22.04": ("Ubuntu 22.04.5 LTS", "2.35", "3.10.12"),
    "24.04": ("Ubuntu 24.04.3 LTS", "2.39", "3.12.3"),
}
AVX2 = "fpu vme de pse tsc msr sse sse2 ht syscall nx lm pni fma cx16 sse4_1 sse4_2 movbe popcnt aes xsave avx f16c rdrand avx2 bmi1 bmi2"
AVX512 = AVX2 + " avx512f avx512dq avx512cd avx512bw avx512vl avx512_vnni"
AVX512_BF16 = AVX512 + " avx512_bf16"
SPR = AVX512_BF16 + " avx512_fp16 amx_bf16 amx_tile amx_int8"


def ubuntu(
    m: Machine, version: str, kernel: str, cpu: str, flags: str, cpus: int, uv: str | None = "0.9.8"
) -> None:
    name, glibc, python_version = OS_RELEASES[version]
    m.file(
        "/etc/os-release",
        f'PRETTY_NAME="{name}"\nNAME="Ubuntu"\nVERSION_ID="{version}"\nID=ubuntu\nID_LIKE=debian\n',
    )
    m.file("/proc/sys/kernel/osrelease", kernel + "\n")
    m.file("/proc/version", f"Linux version {kernel} (root@buildhost) (gcc (GCC) 11.2.0) #1 SMP\n")
    m.file("/proc/1/cgroup", "0::/init.scope\n")
    m.file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope\n")
    core = f"model name\t: {cpu}\nflags\t\t: {flags}\n"
    m.file("/proc/cpuinfo", "\n".join(f"processor\t: {n}\n{core}" for n in range(min(cpus, 2))))
    m.program(
        "/usr/bin/python3",
        "/usr/bin/cc",
        "/usr/bin/gcc",
        f"/usr/bin/python{python_version.rsplit('.', 1)[0]}",
    )
    answer = {
        "version": python_version,
        "executable": "/usr/bin/python3",
        "venv": True,
        "headers": True,
        "libc": f"glibc {glibc}",
    }
    m.command(["python3", "-c", python.QUESTION], json.dumps(answer) + "\n", delay_s=0.03)
    if uv:
        m.program(f"{m.host['home']}/.local/bin/uv")
        m.command(["uv", "--version"], f"uv {uv}\n", delay_s=0.01)
    m.expect.update(
        {
            "os_name": name,
            "kernel": kernel,
            "cpu.model": cpu,
            "cpu.logical_count": cpus,
            "python.version": python_version,
            "python.glibc": glibc,
            "python.uv": uv,
        }
    )
    m.host["cpu_count"] = cpus


def nvidia(
    m: Machine,
    name: str,
    count: int,
    total_mib: int,
    free_mib: int,
    capability: str,
    driver: str,
    cuda: str,
    smi_version: str | None = None,
    display: bool = False,
    program: str = "/usr/bin/nvidia-smi",
    nvlink: bool | None = None,
    processes: tuple[tuple[int, str, int], ...] = (),
    compute_cap_field: bool = True,
) -> None:
    """NVML's answer and nvidia-smi's, which must agree."""
    devices = []
    rows = []
    for n in range(count):
        uuid = f"GPU-00000000-0000-0000-0000-{n + 1:012}"
        bus = f"00000000:{n + 1:02X}:00.0"
        shown = display and n == 0
        free = free_mib if n == 0 or not display else total_mib - 300
        devices.append(
            {
                "index": n,
                "name": name,
                "uuid": uuid,
                "memory_total": total_mib * MIB,
                "memory_free": free * MIB,
                "compute_capability": capability,
                "display_active": shown,
                "mig_enabled": None,
                "nvlinks": None if nvlink is None else (18 if nvlink else 0),
                "pci_bus_id": bus,
                "processes": [{"pid": p, "name": x, "used": u * MIB} for p, x, u in processes]
                if n == 0
                else [],
            }
        )
        rows.append((n, name, uuid, driver, total_mib, free, capability, "Enabled" if shown else "Disabled"))
    m.host["nvml"] = {"driver_version": driver, "cuda_driver_version": cuda, "devices": devices}
    m.host["nvml_delay_s"] = 0.12
    m.program(program)
    called = "nvidia-smi" if "wsl" not in program else gpu_nvidia.WSL_SMI
    if called != "nvidia-smi":
        m.host["programs"].pop("nvidia-smi")
        m.entry(program, size_bytes=800_000)
    query = [called, f"--query-gpu={','.join(gpu_nvidia.QUERY_FIELDS)}", "--format=csv,noheader,nounits"]
    csv = "".join(", ".join(str(cell) for cell in row) + "\n" for row in rows)
    m.command(query, csv, delay_s=0.2)
    m.command([called], smi_table(rows, driver, cuda, smi_version or driver), delay_s=0.2)
    if count > 1:
        m.command([called, "topo", "-m"], topology(count, "NV18" if nvlink else "PHB"), delay_s=0.2)
    m.expect.update(
        {
            "gpu.vendor": "nvidia",
            "gpu.driver_version": driver,
            "gpu.cuda_driver_version": cuda,
            "gpu.gpus.count": count,
            "gpu.gpus.0.name": name,
            "gpu.gpus.0.vram_total_bytes": total_mib * MIB,
            "gpu.gpus.0.vram_free_bytes": free_mib * MIB,
            "gpu.gpus.0.compute_capability": capability,
            "gpu.gpus.0.display_attached": display,
        }
    )
    if count > 1:
        m.expect["gpu.nvlink"] = bool(nvlink)


def smi_table(rows: list[tuple[Any, ...]], driver: str, cuda: str, smi: str) -> str:
    line = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    out = [
        "Mon Nov 30 06:52:00 2026       ",
        "+" + "-" * 89 + "+",
        "| "
        + f"NVIDIA-SMI {smi}".ljust(34)
        + f"Driver Version: {driver}".ljust(31)
        + f"CUDA Version: {cuda}".ljust(23)
        + "|",
        line,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for n, name, _uuid, _driver, total, free, _cc, display in rows:
        shown = "On" if display == "Enabled" else "Off"
        out += [
            f"| {n:3}  {name[:30]:<31}On  | "
            + f"  00000000:{n + 1:02X}:00.0 {shown:>3} |                  N/A |",
            "|  0%   37C    P8             21W /  250W | "
            + f"{f'{total - free}MiB / {total:6}MiB':>22} |      1%      Default |",
            "|                                         |                        |                  N/A |",
            line,
        ]
    return "\n".join(out) + "\n"


def topology(count: int, link: str) -> str:
    names = [f"GPU{n}" for n in range(count)]
    out = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for n, name in enumerate(names):
        cells = [" X " if n == k else link for k in range(count)]
        out.append(name + "\t" + "\t".join(cells) + "\t0-31\t0\t\tN/A")
    return (
        "\n".join(out)
        + "\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    )


def docker(
    m: Machine,
    desktop: bool = False,
    engine: str = "28.5.1",
    compose: str = "2.40.2",
    nvidia_runtime: bool = True,
    kernel: str = "6.8.0-79-generic",
    memory: int = 32 * GIB,
    images: tuple[str, ...] = (),
    path: str = "/usr/bin/docker",
    expect: bool = True,
) -> None:
    runtimes: dict[str, Any] = {"io.containerd.runc.v2": {"path": "runc"}, "runc": {"path": "runc"}}
    if nvidia_runtime:
        runtimes["nvidia"] = {"path": "nvidia-container-runtime"}
    info = {
        "ID": "00000000-0000-0000-0000-000000000001",
        "Driver": "overlayfs" if desktop else "overlay2",
        "CgroupVersion": "2",
        "KernelVersion": kernel,
        "OperatingSystem": "Docker Desktop" if desktop else "Ubuntu 24.04.3 LTS",
        "OSType": "linux",
        "Architecture": "x86_64",
        "NCPU": m.host["cpu_count"],
        "MemTotal": memory,
        "DockerRootDir": "/var/lib/docker",
        "Name": "docker-desktop" if desktop else "host",
        "ServerVersion": engine,
        "Runtimes": runtimes,
        "DefaultRuntime": "runc",
        "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"],
        "ClientInfo": {
            "Debug": False,
            "Version": engine,
            "Context": "default",
            "Plugins": [
                {"SchemaVersion": "0.1.0", "Name": "buildx", "Version": "v0.29.1"},
                {"SchemaVersion": "0.1.0", "Name": "compose", "Version": f"v{compose}"},
            ],
        },
    }
    m.program(path)
    m.command(docker_probe.INFO, json.dumps(info) + "\n", delay_s=0.15)
    m.command(docker_probe.IMAGES, "".join(i + "\n" for i in ("hello-world:latest", *images)), delay_s=0.05)
    if expect:
        m.expect.update(
            {
                "docker.engine": engine,
                "docker.compose": compose,
                "docker.is_desktop": desktop,
                "docker.nvidia_runtime": nvidia_runtime,
                "docker.local_images": list(images),
                "docker.fault": "",
            }
        )


def no_docker_daemon(
    m: Machine, stderr: str, fault: str, path: str = "/usr/bin/docker", stdout: str | None = None
) -> None:
    client = {
        "ClientInfo": {"Version": "28.5.1", "Plugins": [{"Name": "compose", "Version": "v2.40.2"}]},
        "ServerErrors": [stderr],
    }
    m.program(path)
    m.command(
        docker_probe.INFO,
        json.dumps(client) + "\n" if stdout is None else stdout,
        stderr=stderr + "\n",
        returncode=1,
        delay_s=0.05,
    )
    m.expect.update({"docker.engine": None, "docker.fault": fault})


NATIVE_MOUNTS = r"""21 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
22 28 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw
23 28 0:5 / /dev rw,nosuid,relatime shared:2 - devtmpfs udev rw,size=16335340k,nr_inodes=4083835,mode=755
24 23 0:22 / /dev/pts rw,nosuid,noexec,relatime shared:3 - devpts devpts rw,gid=5,mode=620,ptmxmode=000
25 28 0:23 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=3270236k,mode=755
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
29 23 0:24 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw
30 21 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
31 28 7:0 / /snap/core22/2111 ro,nodev,relatime shared:44 - squashfs /dev/loop0 ro
32 28 259:1 / /boot/efi rw,relatime shared:45 - vfat /dev/nvme0n1p1 rw,fmask=0077,dmask=0077
"""

WSL_MOUNTS = r"""75 66 8:48 / / rw,relatime - ext4 /dev/sdd rw,discard,errors=remount-ro,data=ordered
76 75 0:33 / /mnt/wsl rw,relatime shared:1 - tmpfs none rw
77 75 0:35 / /usr/lib/wsl/drivers ro,nosuid,nodev,noatime - 9p drivers ro,dirsync,aname=drivers;fmask=222;dmask=222,cache=5,access=client,msize=65536,trans=fd,rfd=7,wfd=7
79 75 0:38 / /mnt/wslg rw,relatime shared:3 - tmpfs none rw
80 79 8:48 / /mnt/wslg/distro ro,relatime shared:4 - ext4 /dev/sdd rw,discard,errors=remount-ro,data=ordered
81 75 0:39 / /usr/lib/wsl/lib rw,nosuid,nodev,noatime - overlay none rw,lowerdir=/gpu_lib_packaged:/gpu_lib_inbox,upperdir=/gpu_lib/rw/upper,workdir=/gpu_lib/rw/work
83 75 0:2 /init /init ro - rootfs rootfs rw,size=16331588k,nr_inodes=4082897
84 75 0:40 / /dev rw,nosuid,relatime - devtmpfs none rw,size=16331588k,nr_inodes=4082897,mode=755
85 75 0:21 / /sys rw,nosuid,nodev,noexec,noatime - sysfs sysfs rw
86 75 0:41 / /proc rw,nosuid,nodev,noexec,noatime - proc proc rw
87 84 0:42 / /dev/pts rw,nosuid,noexec,noatime - devpts devpts rw,gid=5,mode=620,ptmxmode=000
88 75 0:43 / /run rw,nosuid,nodev - tmpfs none rw,mode=755
91 84 0:46 / /dev/shm rw,nosuid,nodev,noatime - tmpfs none rw
93 86 0:48 / /proc/sys/fs/binfmt_misc rw,relatime - binfmt_misc none rw
"""


def wsl_drive(letter: str, root: str = "/mnt/", number: int = 97) -> str:
    name = letter.lower()
    return (
        f"{number} 75 0:{number - 40} / {root}{name} rw,noatime - 9p {letter}:\\134 rw,dirsync,aname=drvfs;path={letter}:\\134;"
        f"uid=1000;gid=1000;symlinkroot={root},cache=5,access=client,msize=65536,trans=fd,rfd=5,wfd=5\n"
    )


def native(m: Machine, root_gb: float, free_gb: float, extra_mounts: str = "") -> None:
    m.file("/proc/self/mountinfo", NATIVE_MOUNTS + extra_mounts)
    m.disk("/", root_gb, free_gb)
    m.disk("/boot/efi", 0.5, 0.49)
    m.disk("/run", 3.3, 3.3)
    m.entry("/run/systemd/system", dir=True)
    m.host["listening_ports"] = [22]
    m.expect.update({"system": "native", "wsl": None})


def wsl2(
    m: Machine,
    host_ram: int,
    host_cpus: int,
    drives: str = "C",
    root: str = "/mnt/",
    interop: bool = True,
    network: str = "nat",
    version: str = "2.6.1.0",
    kernel: str = "6.6.87.2-microsoft-standard-WSL2",
    build: str = "10.0.26100.6899",
    profile: str = "C:\\Users\\user",
    gpu: bool = True,
    conf: str = "[boot]\nsystemd=true\n",
    labels: tuple[str, ...] = (
        "WSL version",
        "Kernel version",
        "WSLg version",
        "MSRDC version",
        "Direct3D version",
        "DXCore version",
        "Windows version",
    ),
) -> None:
    """What a WSL2 distro shows: kernel, interop, drives, and the Windows programs that answer."""
    mounts = WSL_MOUNTS + "".join(wsl_drive(d, root, 97 + n) for n, d in enumerate(drives))
    m.file("/proc/self/mountinfo", mounts)
    m.file("/etc/wsl.conf", conf)
    m.disk("/", 1081, 890)
    m.disk("/run", 16, 16)
    m.disk("/mnt/wsl", 16, 16)
    m.disk("/mnt/wslg", 16, 16)
    for letter in drives:
        m.disk(f"{root}{letter.lower()}", 1999 if letter == "D" else 999, 1200 if letter == "D" else 310)
    m.entry("/run/systemd/system", dir=True)
    m.entry("/run/WSL", dir=True)
    if gpu:
        m.entry("/dev/dxg", mode=0o666)
        m.entry("/usr/lib/wsl/lib/libcuda.so.1", size_bytes=170_000)
    m.host["env"].update({"WSL_DISTRO_NAME": "Ubuntu", "WSL_INTEROP": "/run/WSL/7_interop"})
    m.program("/usr/bin/wslinfo", "/usr/bin/wslpath")
    m.command(
        ["wslinfo", "--version"],
        version.rsplit(".", 1)[0] + "\n" if version.count(".") > 3 else version + "\n",
        delay_s=0.01,
    )
    m.command(["wslinfo", "--networking-mode"], network + "\n", delay_s=0.01)
    if interop:
        m.file(
            "/proc/sys/fs/binfmt_misc/WSLInterop",
            "enabled\ninterpreter /init\nflags: PF\noffset 0\nmagic 4d5a\n",
        )
    system = f"{root}c/Windows/System32"
    for name in ("cmd.exe", "wsl.exe", "WindowsPowerShell/v1.0/powershell.exe"):
        m.entry(f"{system}/{name}", size_bytes=300_000)
    person = profile.rsplit("\\", 1)[-1]
    linux = f"{root}c/Users/{person}"
    m.entry(f"{linux}/AppData", dir=True)
    m.entry(f"{root}c/Users/Public", dir=True)
    m.entry(f"{root}c/Users/Default", dir=True)
    if interop:
        m.command(
            [f"{system}/cmd.exe", "/u", "/c", "echo %USERPROFILE%"],
            profile + "\r\n",
            encoding="utf-16-le",
            delay_s=0.15,
        )
        m.command(["wslpath", "-u", profile], linux + "\n", delay_s=0.01)
        numbers = (
            version,
            "6.6.87.2-1",
            "1.0.66",
            "1.2.6353",
            "1.611.1-81528511",
            "10.0.26100.1-240331-1435.ge-release",
            build,
        )
        text = "".join(f"{label}: {number}\r\n" for label, number in zip(labels, numbers, strict=True))
        m.command([f"{system}/wsl.exe", "--version"], text, encoding="utf-16-le", delay_s=0.3)
        m.command(
            [
                f"{system}/WindowsPowerShell/v1.0/powershell.exe",
                "-NoProfile",
                "-NonInteractive",
                "-Command",
                windows_host.QUERY,
            ],
            f"{host_ram} {host_cpus} {build.rsplit('.', 1)[0]}.0\r\n",
            delay_s=1.4,
        )
    m.host["listening_ports"] = []
    m.expect.update(
        {
            "system": "wsl2",
            "wsl.distro": "Ubuntu",
            "wsl.version": version,
            "wsl.kernel": kernel,
            "wsl.networking_mode": network,
            "wsl.interop": interop,
            "wsl.automount_root": root,
            "wsl.systemd": True,
            "wsl.gpu_device": gpu,
            "wsl.windows_build": build if interop else None,
            "wsl.windows_profile": linux if interop else None,
            "wsl.windows_profile_windows": profile if interop else None,
            "wsl.host_memory_bytes": host_ram if interop else None,
            "wsl.host_logical_cpus": host_cpus if interop else None,
        }
    )


def qwen3_vl(size: str) -> models.Folder:
    config = models.qwen3_vl_config(size)
    return models.model(config, models.qwen3_vl(config))


def qwen3_vl_8b_awq() -> models.Folder:
    config = models.qwen3_vl_config("8B")
    config["quantization_config"] = models.PACKED
    return models.model(config, models.qwen3_vl(config, "pack-quantized"))


def qwen3(size: str) -> models.Folder:
    hidden, layers, heads, wide, tied = {
        "0.6B": (1024, 28, 16, 3072, True),
        "4B": (2560, 36, 32, 9728, True),
        "8B": (4096, 36, 32, 12288, False),
        "14B": (5120, 40, 40, 17408, False),
    }[size]
    config = models.qwen3_config(hidden, layers, heads, wide, tied)
    return models.model(config, models.dense(config))


def qwen3_vl_4b_fp8() -> models.Folder:
    """Qwen/Qwen3-VL-4B-Instruct-FP8: block-wise FP8 in the language model, the vision tower as it was."""
    config = models.qwen3_vl_config("4B")
    config["quantization_config"] = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head", "model.visual"],
    }
    return models.model(config, models.qwen3_vl(config, "fp8"))


def qwen3_32b_awq() -> models.Folder:
    config = models.qwen3_config(5120, 64, 64, 25600, False)
    config["quantization_config"] = models.AWQ
    config["torch_dtype"] = "float16"
    return models.model(config, models.dense(config, "awq"))


def llama(size: str) -> models.Folder:
    config = models.llama_config(*{"8B": (4096, 32, 32, 14336), "70B": (8192, 80, 64, 28672)}[size])
    return models.model(config, models.dense(config, qk_norm=False), licence="llama3.1")


def qwen25_7b_awq() -> models.Folder:
    config = models.qwen3_config(3584, 28, 28, 18944, False)
    config.update(
        {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "num_key_value_heads": 4,
            "vocab_size": 152064,
        }
    )
    config.update(
        {"max_position_embeddings": 32768, "quantization_config": models.AWQ, "torch_dtype": "float16"}
    )
    del config["head_dim"]
    return models.model(config, models.dense(config, "awq", qk_norm=False, bias=True))


# ---- the machines ----------------------------------------------------------------------------------------

I9 = "13th Gen Intel(R) Core(TM) i9-13900KS"
EPYC = "AMD EPYC 9654 96-Core Processor"


@machine
def m_wsl2_rtx4090_desktop() -> Machine:
    m = Machine("wsl2-rtx4090-desktop")
    ubuntu(m, "24.04", "6.6.87.2-microsoft-standard-WSL2", I9, AVX2 + " avx_vnni", 32)
    m.memory(31.2, 29.0, 8, 32)
    wsl2(m, 68442697728, 32)
    nvidia(
        m, "NVIDIA GeForce RTX 4090", 1, 24564, 23014, "8.9", "591.86", "13.1",
        smi_version="590.57", display=True, program="/usr/lib/wsl/lib/nvidia-smi",
    )  # fmt: skip
    docker(
        m, desktop=True, kernel="6.6.87.2-microsoft-standard-WSL2", memory=33501757440, engine="28.5.1",
        compose="2.40.2-desktop.1", images=("vllm/vllm-openai:v0.33.0",),
    )  # fmt: skip
    m.entry("/mnt/c/Program Files/Docker/Docker/Docker Desktop.exe", size_bytes=2_500_000)
    m.hf_model("Qwen/Qwen3-VL-8B-Instruct", qwen3_vl("8B"))
    m.hf_model("Qwen/Qwen3-8B", qwen3("8B"))
    gguf = models.gguf("Qwen3-4B-Q4_K_M", "qwen3", 36, 2560, 32, 8, 9728)
    m.model_folder("/mnt/c/Users/user/.lmstudio/models/lmstudio-community/Qwen3-4B-GGUF", gguf)
    m.expect.update({"problems": [], "models": ["Qwen/Qwen3-8B", "Qwen/Qwen3-VL-8B-Instruct"]})
    return m


@machine
def m_wsl2_rtx3060_model_on_d() -> Machine:
    m = Machine("wsl2-rtx3060-model-on-d")
    ubuntu(
        m,
        "22.04",
        "5.15.167.4-microsoft-standard-WSL2",
        "AMD Ryzen 5 5600X 6-Core Processor",
        AVX2,
        6,
        uv=None,
    )
    m.memory(7.7, 6.9, 2, 6)
    wsl2(
        m, 34282123264, 12, drives="CD", version="2.4.13.0", kernel="5.15.167.4-microsoft-standard-WSL2", build="10.0.22631.4751",
        labels=("WSL-Version", "Kernelversion", "WSLg-Version", "MSRDC-Version", "Direct3D-Version", "DXCore-Version", "Windows-Version"),
    )  # fmt: skip
    nvidia(
        m, "NVIDIA GeForce RTX 3060", 1, 12288, 11170, "8.6", "581.80", "13.0",
        smi_version="580.105.07", display=True, program="/usr/lib/wsl/lib/nvidia-smi",
    )  # fmt: skip
    docker(
        m,
        desktop=True,
        kernel="5.15.167.4-microsoft-standard-WSL2",
        memory=8270000128,
        compose="2.40.2-desktop.1",
    )
    config = (
        "# My settings for WSL, do not touch!\r\n"
        "[wsl2]\r\n"
        "memory=8GB   # half of what Docker wants\r\n"
        "processors=6\r\n"
        "\r\n"
        "# swap on D because C is full\r\n"
        "swap=2GB\r\n"
        "swapFile=D:\\\\wsl\\\\swap.vhdx\r\n"
        "localhostForwarding=true\r\n"
        "\r\n"
        "[experimental]\r\n"
        "autoMemoryReclaim=gradual\r\n"
    )
    m.file("/mnt/c/Users/user/.wslconfig", config)
    m.model_folder("/mnt/d/models/Qwen3-VL-8B-Instruct-AWQ-4bit", qwen3_vl_8b_awq())
    m.model_folder("/mnt/d/models/Qwen3-VL-8B-Instruct", qwen3_vl("8B"))
    m.model_folder("/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", qwen3_vl_4b_fp8())
    m.expect.update(
        {
            "wsl.wslconfig_path": "/mnt/c/Users/user/.wslconfig",
            "wsl.wslconfig_bytes": config,
            "mounts": {
                "/": "linux",
                "/mnt/c": "windows-drive",
                "/mnt/d": "windows-drive",
                "/usr/lib/wsl/drivers": "virtual",
            },
            "problems": ["low_ram", "python_too_old"],
            "models": [
                "Qwen3-VL-4B-Instruct-FP8",
                "Qwen3-VL-8B-Instruct",
                "Qwen3-VL-8B-Instruct-AWQ-4bit",
            ],
        }
    )
    return m


@machine
def m_wsl2_rtx5070_laptop_old_driver() -> Machine:
    m = Machine("wsl2-rtx5070-laptop-old-driver")
    ubuntu(
        m,
        "24.04",
        "6.6.87.2-microsoft-standard-WSL2",
        "AMD Ryzen 9 8945HX with Radeon Graphics",
        AVX512_BF16,
        32,
    )
    m.memory(15.4, 14.2, 4, 32)
    # A name that is not ASCII: cmd.exe writes it as UTF-16.
    wsl2(m, 34071220224, 32, version="2.5.9.0", profile="C:\\Users\\Jürgen 王")
    nvidia(
        m, "NVIDIA GeForce RTX 5070 Laptop GPU", 1, 8151, 7005, "12.0", "572.83", "12.8",
        smi_version="570.133.07", display=True, program="/usr/lib/wsl/lib/nvidia-smi",
    )  # fmt: skip
    stub = (
        "\nThe command 'docker' could not be found in this WSL 2 distro.\n"
        "We recommend to activate the WSL integration in Docker Desktop settings.\n\n"
        "For details about using Docker Desktop with WSL 2, visit:\n\nhttps://docs.docker.com/go/wsl2/\n\n"
    )
    m.program("/usr/bin/docker")
    m.command(docker_probe.INFO, stub, returncode=1, delay_s=0.05)
    m.entry("/mnt/c/Program Files/Docker/Docker/Docker Desktop.exe", size_bytes=2_500_000)
    m.hf_model("Qwen/Qwen3-VL-2B-Instruct", qwen3_vl("2B"))
    m.expect.update(
        {
            "docker.fault": "integration_off",
            "docker.engine": None,
            "problems": ["driver_too_old", "docker_integration_off"],
            "models": ["Qwen/Qwen3-VL-2B-Instruct"],
        }
    )
    return m


@machine
def m_wsl2_2x_rtx3090() -> Machine:
    m = Machine("wsl2-2x-rtx3090")
    ubuntu(m, "24.04", "6.6.87.2-microsoft-standard-WSL2", "AMD Ryzen 9 5950X 16-Core Processor", AVX2, 32)
    m.memory(62.7, 60.2, 16, 32)
    wsl2(m, 137358446592, 32, network="mirrored")
    nvidia(
        m, "NVIDIA GeForce RTX 3090", 2, 24576, 23300, "8.6", "591.86", "13.1",
        smi_version="590.57", display=True, program="/usr/lib/wsl/lib/nvidia-smi",
    )  # fmt: skip
    docker(m, engine="28.5.1", kernel="6.6.87.2-microsoft-standard-WSL2", memory=67322318848)
    m.file("/mnt/c/Users/user/.wslconfig", "[wsl2]\nnetworkingMode=mirrored\n")
    m.hf_model("Qwen/Qwen3-32B-AWQ", qwen3_32b_awq())
    m.expect.update({"problems": ["wsl_mirrored_with_docker"], "models": ["Qwen/Qwen3-32B-AWQ"]})
    return m


@machine
def m_wsl2_no_gpu() -> Machine:
    m = Machine("wsl2-no-gpu")
    ubuntu(
        m,
        "24.04",
        "6.6.87.2-microsoft-standard-WSL2",
        "AMD Ryzen 7 8840U w/ Radeon 780M Graphics",
        AVX512_BF16,
        16,
    )
    m.memory(15.3, 14.0, 4, 16)
    wsl2(m, 33973628928, 16)
    docker(
        m,
        desktop=True,
        kernel="6.6.87.2-microsoft-standard-WSL2",
        memory=16428404736,
        nvidia_runtime=True,
        compose="2.40.2-desktop.1",
    )
    m.hf_model("Qwen/Qwen3-0.6B", qwen3("0.6B"))
    m.expect.update({"gpu.gpus.count": 0, "problems": ["no_gpu"], "models": ["Qwen/Qwen3-0.6B"]})
    return m


@machine
def m_wsl1() -> Machine:
    m = Machine("wsl1")
    ubuntu(m, "20.04", "4.4.0-19041-Microsoft", "Intel(R) Core(TM) i7-9700K CPU @ 3.60GHz", AVX2, 8, uv=None)
    m.memory(31.9, 20.4, 12, 8)
    m.file(
        "/proc/version",
        "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0 (GCC) ) #1237-Microsoft Sat Sep 11 14:32:00 PST 2021\n",
    )
    m.file(
        "/proc/self/mounts",
        "rootfs / lxfs rw,noatime 0 0\nsysfs /sys sysfs rw,nosuid,nodev,noexec,noatime 0 0\nproc /proc proc rw,nosuid,nodev,noexec,noatime 0 0\nnone /dev tmpfs rw,noatime,mode=755 0 0\nC:\\134 /mnt/c drvfs rw,noatime,uid=1000,gid=1000,case=off 0 0\n",
    )
    m.disk("/", 499, 120)
    m.disk("/mnt/c", 499, 120)
    m.disk("/dev", 0, 0)
    m.host["env"].update({"WSL_DISTRO_NAME": "Ubuntu-20.04"})
    m.program("/usr/bin/wslpath")
    for name in ("cmd.exe", "wsl.exe", "WindowsPowerShell/v1.0/powershell.exe"):
        m.entry(f"/mnt/c/Windows/System32/{name}", size_bytes=300_000)
    m.entry("/mnt/c/Users/user/AppData", dir=True)
    system = "/mnt/c/Windows/System32"
    m.command(
        [f"{system}/cmd.exe", "/u", "/c", "echo %USERPROFILE%"],
        "C:\\Users\\user\r\n",
        encoding="utf-16-le",
        delay_s=0.1,
    )
    m.command(["wslpath", "-u", "C:\\Users\\user"], "/mnt/c/Users/user\n")
    # The wsl.exe that came with Windows 10 answers with its usage text.
    m.command(
        [f"{system}/wsl.exe", "--version"],
        "Invalid command line option: --version\r\nCopyright (c) Microsoft Corporation. All rights reserved.\r\n",
        encoding="utf-16-le",
        returncode=1,
    )
    m.command(
        [
            f"{system}/WindowsPowerShell/v1.0/powershell.exe",
            "-NoProfile",
            "-NonInteractive",
            "-Command",
            windows_host.QUERY,
        ],
        "34282123264 8 10.0.19041.0\r\n",
        delay_s=2.1,
    )
    m.expect.update(
        {
            "system": "wsl1",
            "wsl.version": None,
            "wsl.windows_build": "10.0.19041",
            "wsl.host_memory_bytes": 34282123264,
            "wsl.windows_profile": "/mnt/c/Users/user",
            "mounts": {"/": "linux", "/mnt/c": "windows-drive"},
            "gpu.gpus.count": 0,
            "problems": ["wsl1"],
        }
    )
    return m


@machine
def m_wsl2_interop_off_custom_root() -> Machine:
    m = Machine("wsl2-interop-off-custom-root")
    ubuntu(
        m,
        "24.04",
        "6.6.87.2-microsoft-standard-WSL2",
        "12th Gen Intel(R) Core(TM) i7-12700K",
        AVX2 + " avx_vnni",
        20,
    )
    m.memory(15.5, 14.3, 4, 20)
    wsl2(
        m, 34196365312, 20, drives="CD", root="/win/", interop=False,
        conf='# drives live under /win here\n[boot]\nsystemd = true\n[automount]\nenabled = true\nroot = "/win/"\noptions = "metadata,umask=22"\n[interop]\nenabled = false\nappendWindowsPath = false\n',
    )  # fmt: skip
    # Two people use this computer, so nobody's folder may be picked.
    m.entry("/win/c/Users/guest/AppData", dir=True)
    nvidia(
        m, "NVIDIA GeForce RTX 4070", 1, 12282, 11050, "8.9", "591.86", "13.1",
        smi_version="590.57", display=True, program="/usr/lib/wsl/lib/nvidia-smi",
    )  # fmt: skip
    docker(m, kernel="6.6.87.2-microsoft-standard-WSL2", memory=16643026944, nvidia_runtime=False)
    m.model_folder("/home/user/models/Qwen3-4B", qwen3("4B"))
    m.expect.update(
        {
            "wsl.windows_profile_candidates": ["/win/c/Users/guest", "/win/c/Users/user"],
            "mounts": {"/": "linux", "/win/c": "windows-drive", "/win/d": "windows-drive"},
            "problems": ["docker_no_nvidia_runtime", "interop_off"],
            "models": ["Qwen3-4B"],
        }
    )
    return m


@machine
def m_native_4x_h200() -> Machine:
    m = Machine("native-4x-h200")
    ubuntu(m, "22.04", "5.15.0-122-generic", EPYC, AVX512_BF16, 192)
    m.memory(1510.7, 1480.3, 0, 192)
    native(
        m, 1888, 1200,
        "40 28 259:5 / /data rw,relatime shared:50 - xfs /dev/nvme1n1 rw,attr2,inode64,logbufs=8,noquota\n"
        "41 28 0:60 / /home/user/shared rw,relatime shared:51 - nfs4 10.0.0.5:/export rw,vers=4.2,rsize=1048576,hard\n",
    )  # fmt: skip
    m.disk("/data", 30000, 21000)
    m.disk("/home/user/shared", 90000, 40000)
    nvidia(m, "NVIDIA H200", 4, 143771, 143132, "9.0", "580.95.05", "13.0", nvlink=True)
    docker(
        m,
        kernel="5.15.0-122-generic",
        memory=1622000000000,
        images=("vllm/vllm-openai:v0.17.0", "vllm/vllm-openai:v0.33.0"),
    )
    config = models.qwen3_5_122b_config()
    m.model_folder("/data/models/Qwen3.5-122B-A10B", models.model(config, models.qwen3_5_moe(config)))
    m.model_folder(
        "/data/models/loras/support-desk-lora", models.lora_on_experts("Qwen/Qwen3.5-122B-A10B", config)
    )
    m.expect.update(
        {
            "mounts": {"/": "linux", "/data": "linux", "/home/user/shared": "network", "/boot/efi": "other"},
            "problems": [],
            "models": ["Qwen3.5-122B-A10B", "support-desk-lora"],
        }
    )
    return m


@machine
def m_native_t4() -> Machine:
    m = Machine("native-t4")
    ubuntu(m, "20.04", "5.4.0-216-generic", "Intel(R) Xeon(R) CPU @ 2.20GHz", AVX512, 8, uv=None)
    m.memory(29.3, 27.8, 0, 8)
    native(m, 104, 41)
    nvidia(m, "Tesla T4", 1, 15360, 14910, "7.5", "535.183.01", "12.2")
    docker(
        m,
        engine="24.0.5",
        compose="2.20.2",
        nvidia_runtime=False,
        kernel="5.4.0-216-generic",
        memory=31461928960,
    )
    m.hf_model("Qwen/Qwen2.5-7B-Instruct-AWQ", qwen25_7b_awq())
    m.expect.update(
        {
            "problems": [
                "driver_too_old",
                "docker_no_nvidia_runtime",
                "low_disk",
                "no_swap",
                "python_too_old",
            ],
            "models": ["Qwen/Qwen2.5-7B-Instruct-AWQ"],
        }
    )
    return m


@machine
def m_native_v100() -> Machine:
    m = Machine("native-v100")
    ubuntu(m, "22.04", "5.15.0-143-generic", "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", AVX512, 40)
    m.memory(187.5, 180.2, 8, 40)
    native(m, 960, 510)
    nvidia(
        m, "Tesla V100-SXM2-16GB", 1, 16384, 16147, "7.0", "550.54.14", "12.4",
    )  # fmt: skip
    docker(m, kernel="5.15.0-143-generic", memory=201327000000)
    m.hf_model("Qwen/Qwen3-4B", qwen3("4B"))
    m.expect.update(
        {"problems": ["compute_capability_dropped", "driver_too_old"], "models": ["Qwen/Qwen3-4B"]}
    )
    return m


@machine
def m_native_rtx5090() -> Machine:
    m = Machine("native-rtx5090")
    ubuntu(m, "24.04", "6.8.0-79-generic", "AMD Ryzen 9 9950X 16-Core Processor", AVX512_BF16, 32)
    m.memory(61.9, 55.4, 8, 32)
    native(m, 1967, 1340)
    nvidia(
        m, "NVIDIA GeForce RTX 5090", 1, 32607, 31480, "12.0", "580.95.05", "13.0", display=True,
        processes=((2011, "/usr/lib/xorg/Xorg", 320), (2290, "/usr/bin/gnome-shell", 280)),
    )  # fmt: skip
    docker(m, kernel="6.8.0-79-generic", memory=66464000000, images=("vllm/vllm-openai:v0.32.0",))
    config = models.gpt_oss_20b_config()
    m.hf_model("openai/gpt-oss-20b", models.model(config, models.gpt_oss(config)))
    m.hf_model("Qwen/Qwen3-14B", qwen3("14B"))
    m.host["listening_ports"] = [22, 8000]
    m.expect.update(
        {"used_ports": [22, 8000], "problems": [], "models": ["Qwen/Qwen3-14B", "openai/gpt-oss-20b"]}
    )
    return m


@machine
def m_native_mi300x() -> Machine:
    m = Machine("native-mi300x")
    ubuntu(m, "22.04", "5.15.0-116-generic", EPYC, AVX512_BF16, 48)
    m.memory(503.6, 480.1, 8, 48)
    native(m, 1900, 1100)
    m.disk("/models", 1900, 1100)
    m.entry("/dev/kfd", mode=0o666)
    m.file("/opt/rocm/.info/version", "6.4.1-83\n")
    m.file("/sys/module/amdgpu/version", "6.12.12\n")
    for number in range(2):
        device = f"/sys/class/drm/card{number}/device"
        m.file(f"{device}/vendor", "0x1002\n")
        m.file(f"{device}/mem_info_vram_total", "206141652992\n")
        m.file(f"{device}/mem_info_vram_used", "297795584\n")
    m.program("/opt/rocm/bin/amd-smi", "/opt/rocm/bin/rocm-smi")
    static = [
        {
            "gpu": n,
            "asic": {
                "market_name": "AMD Instinct MI300X",
                "vendor_id": "0x1002",
                "target_graphics_version": "gfx942",
                "num_compute_units": 304,
            },
            "vram": {"type": "HBM3", "vendor": "N/A", "size": {"value": 196592, "unit": "MB"}},
            "driver": {"name": "amdgpu", "version": "6.12.12"},
        }
        for n in range(2)
    ]
    usage = [
        {
            "gpu": n,
            "mem_usage": {
                "total_vram": {"value": 196592, "unit": "MB"},
                "used_vram": {"value": 284, "unit": "MB"},
                "free_vram": {"value": 196308, "unit": "MB"},
            },
        }
        for n in range(2)
    ]
    m.command(gpu_amd.AMD_SMI_STATIC, json.dumps(static, indent=1) + "\n", delay_s=0.5)
    m.command(gpu_amd.AMD_SMI_MEMORY, json.dumps({"gpu_data": usage}, indent=1) + "\n", delay_s=0.5)
    docker(
        m,
        kernel="5.15.0-116-generic",
        memory=540700000000,
        nvidia_runtime=False,
        images=("vllm/vllm-openai-rocm:v0.33.0",),
    )
    m.model_folder("/models/Llama-3.3-70B-Instruct", llama("70B"))
    m.expect.update(
        {
            "gpu.vendor": "amd",
            "gpu.gpus.count": 2,
            "gpu.gpus.0.name": "AMD Instinct MI300X",
            "gpu.gpus.0.gfx_arch": "gfx942",
            "gpu.gpus.0.vram_total_bytes": 196592 * MIB,
            "gpu.gpus.0.vram_free_bytes": 196308 * MIB,
            "gpu.rocm_version": "6.4.1",
            "gpu.driver_version": "6.12.12",
            "problems": [],
            "models": ["Llama-3.3-70B-Instruct"],
        }
    )
    return m


@machine
def m_cpu_only_laptop() -> Machine:
    m = Machine("cpu-only-laptop")
    ubuntu(m, "24.04", "6.8.0-79-generic", "12th Gen Intel(R) Core(TM) i5-1240P", AVX2 + " avx_vnni", 16)
    m.memory(15.3, 9.8, 4, 16)
    native(m, 502, 210)
    m.file("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n")
    m.file("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    m.file("/sys/bus/pci/devices/0000:00:02.0/device", "0x46a6\n")
    m.entry("/sys/bus/pci/devices/0000:00:02.0/driver", link_to="../../../bus/pci/drivers/i915")
    m.file("/sys/class/drm/card1/device/vendor", "0x8086\n")
    m.file("/sys/class/drm/card1/device/device", "0x46a6\n")
    no_docker_daemon(
        m,
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "permission_denied",
    )
    m.hf_model("Qwen/Qwen3-0.6B", qwen3("0.6B"))
    m.expect.update(
        {
            "gpu.gpus.count": 0,
            "problems": ["no_gpu", "docker_permission_denied", "cpu_no_avx512"],
            "models": ["Qwen/Qwen3-0.6B"],
        }
    )
    return m


@machine
def m_wsl2_container() -> Machine:
    m = Machine("wsl2-container", home="/root")
    ubuntu(m, "22.04", "6.6.87.2-microsoft-standard-WSL2", I9, AVX2 + " avx_vnni", 32, uv=None)
    m.memory(31.2, 27.7, 8, 32)
    m.file("/.dockerenv", "")
    m.file("/proc/1/cgroup", "0::/\n")
    m.file("/proc/self/cgroup", "0::/\n")
    m.file("/sys/fs/cgroup/memory.max", "25769803776\n")
    m.file(
        "/proc/self/mountinfo",
        "640 560 0:84 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/desktop-containerd/daemon/l:1,upperdir=/u,workdir=/w\n"
        "641 640 0:87 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
        "642 640 0:88 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755\n"
        "643 640 0:91 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro\n"
        "644 643 0:28 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw\n"
        "645 642 0:83 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k\n"
        "646 640 8:64 /data/docker/containers/1/hosts /etc/hosts rw,relatime - ext4 /dev/sde rw,discard,errors=remount-ro,data=ordered\n"
        "647 640 0:72 /models /models rw,noatime - 9p C:\\134 rw,dirsync,aname=drvfs;path=C:\\134;uid=0;gid=0;metadata;symlinkroot=/mnt/host/,cache=5,access=client,msize=65536,trans=fd,rfd=3,wfd=3\n"
        "648 640 0:35 / /usr/lib/wsl/drivers ro,nosuid,nodev,noatime - 9p drivers ro,dirsync,aname=drivers;fmask=222;dmask=222,cache=5,access=client,msize=65536,trans=fd,rfd=7,wfd=7\n",
    )
    m.host["disks"]["/dev/shm"] = {"total_bytes": 64 * MIB, "free_bytes": 64 * MIB}
    m.disk("/", 1081, 890)
    m.disk("/dev", 0.06, 0.06)
    m.disk("/models", 999, 310)
    m.entry("/dev/dxg", mode=0o666)
    nvidia(
        m, "NVIDIA GeForce RTX 4080", 1, 16376, 15090, "8.9", "591.86", "13.1",
        smi_version="590.57", display=True,
    )  # fmt: skip
    m.file(
        "/usr/local/lib/python3.12/dist-packages/vllm-0.33.0.dist-info/METADATA",
        "Metadata-Version: 2.4\nName: vllm\nVersion: 0.33.0\n",
    )
    m.model_folder("/models/Qwen3-VL-4B-Instruct", qwen3_vl("4B"))
    m.expect.update(
        {
            "system": "wsl-container",
            "memory.cgroup_limit_bytes": 25769803776,
            "memory.shm_bytes": 64 * MIB,
            "mounts": {"/": "linux", "/models": "windows-drive", "/usr/lib/wsl/drivers": "virtual"},
            "wsl.distro": None,
            "vllm.0.version": "0.33.0",
            "docker.fault": "not_installed",
            "problems": ["container_in_wsl", "small_shm"],
            "models": ["Qwen3-VL-4B-Instruct"],
        }
    )
    return m


@machine
def m_nvidia_smi_hangs() -> Machine:
    m = Machine("nvidia-smi-hangs")
    ubuntu(m, "22.04", "6.5.0-45-generic", "AMD Ryzen Threadripper PRO 5955WX 16-Cores", AVX2, 32)
    m.memory(125.6, 119.8, 8, 32)
    native(m, 1900, 800)
    m.file("/sys/bus/pci/devices/0000:41:00.0/class", "0x030000\n")
    m.file("/sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n")
    m.file("/sys/bus/pci/devices/0000:41:00.0/device", "0x2230\n")
    m.entry("/sys/bus/pci/devices/0000:41:00.0/driver", link_to="../../../../bus/pci/drivers/nvidia")
    m.file(
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024\n",
    )
    m.host["nvml"] = "NVML: Unknown Error"
    m.host["nvml_delay_s"] = 3600
    m.program("/usr/bin/nvidia-smi")
    query = [
        "nvidia-smi",
        f"--query-gpu={','.join(gpu_nvidia.QUERY_FIELDS)}",
        "--format=csv,noheader,nounits",
    ]
    m.command(query, "", delay_s=3600)
    m.command(["nvidia-smi"], "", delay_s=3600)
    docker(m, kernel="6.5.0-45-generic", memory=134860000000)
    m.hf_model("meta-llama/Llama-3.1-8B-Instruct", llama("8B"))
    m.expect.update(
        {
            "gpu.gpus.count": 0,
            "gpu.fault": "hang",
            "runs.gpu.timed_out": True,
            "runs.gpu.ok": False,
            "problems": ["gpu_driver_hangs"],
            "models": ["meta-llama/Llama-3.1-8B-Instruct"],
        }
    )
    return m


@machine
def m_nvidia_smi_rubbish() -> Machine:
    m = Machine("nvidia-smi-rubbish")
    ubuntu(
        m, "24.04", "6.6.87.2-microsoft-standard-WSL2", "AMD Ryzen 7 7700 8-Core Processor", AVX512_BF16, 16
    )
    m.memory(15.4, 14.3, 4, 16)
    wsl2(m, 33976111104, 16)
    m.host["nvml"] = "NVML: Unknown Error"
    m.entry("/usr/lib/wsl/lib/nvidia-smi", size_bytes=800_000)
    query = [
        gpu_nvidia.WSL_SMI,
        f"--query-gpu={','.join(gpu_nvidia.QUERY_FIELDS)}",
        "--format=csv,noheader,nounits",
    ]
    rubbish = "\u0000\u001b[31mNVIDIA-SM\ufffd| Dri er Vers, , , [N/A], [N/A]\n0, , GPU-, ,,,\nUnable to determine\u0007\n"
    m.command(query, rubbish, delay_s=0.2)
    m.command(
        [gpu_nvidia.WSL_SMI], rubbish * 3 + "| NVIDIA-SMI ver.: ???  CUDA Version: N/A |\n", delay_s=0.2
    )
    docker(
        m,
        desktop=True,
        kernel="6.6.87.2-microsoft-standard-WSL2",
        memory=16536000000,
        compose="2.40.2-desktop.1",
    )
    m.hf_model("Qwen/Qwen3-4B", qwen3("4B"))
    m.expect.update(
        {
            "gpu.gpus.count": 0,
            "gpu.fault": "rubbish",
            "problems": ["gpu_driver_broken"],
            "models": ["Qwen/Qwen3-4B"],
        }
    )
    return m


@machine
def m_windows_rtx4070() -> Machine:
    home = "C:\\Users\\user"
    m = Machine("windows-rtx4070", home=home, platform="win32")
    m.host["env"] = {
        "USERPROFILE": home,
        "PATH": "C:\\Windows\\system32;C:\\Windows",
        "PROCESSOR_IDENTIFIER": "Intel64 Family 6 Model 183 Stepping 1, GenuineIntel",
    }
    m.memory(31.8, 19.6, 4, 24)
    m.host["disks"] = {}
    m.disk("C:\\", 999, 412)
    m.disk("D:\\", 1999, 1720)
    m.entry("D:\\", dir=True)
    m.command(["cmd.exe", "/c", "ver"], "\r\nMicrosoft Windows [Version 10.0.26100.6899]\r\n", delay_s=0.05)
    key = "HKLM\\HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"
    m.command(
        ["reg.exe", "query", key, "/v", "ProcessorNameString"],
        f"\r\n{key}\r\n    ProcessorNameString    REG_SZ    13th Gen Intel(R) Core(TM) i7-13700F\r\n\r\n",
        delay_s=0.05,
    )
    m.command(
        ["wsl.exe", "-l", "-v"],
        "  NAME              STATE           VERSION\r\n* Ubuntu-24.04      Running         2\r\n  docker-desktop    Running         2\r\n  Ubuntu 20.04 old  Stopped         1\r\n",
        encoding="utf-16-le",
        delay_s=0.4,
    )
    m.command(
        ["wsl.exe", "--version"],
        "WSL 版本: 2.6.1.0\r\n内核版本: 6.6.87.2-1\r\nWSLg 版本: 1.0.66\r\nMSRDC 版本: 1.2.6353\r\nDirect3D 版本: 1.611.1-81528511\r\nDXCore 版本: 10.0.26100.1-240331-1435.ge-release\r\nWindows 版本: 10.0.26100.6899\r\n",
        encoding="utf-16-le",
        delay_s=0.4,
    )
    m.file(f"{home}\\.wslconfig", "[wsl2]\r\nmemory=16GB\r\n")
    nvidia(
        m, "NVIDIA GeForce RTX 4070", 1, 12282, 10870, "8.9", "591.86", "13.1",
        display=True, program="C:\\Windows\\System32\\nvidia-smi.exe",
    )  # fmt: skip
    m.program("C:\\Python312\\python.exe")
    m.host["programs"] = {
        "python": "C:\\Python312\\python.exe",
        "nvidia-smi": "C:\\Windows\\System32\\nvidia-smi.exe",
    }
    answer = {
        "version": "3.12.8",
        "executable": "C:\\Python312\\python.exe",
        "venv": True,
        "headers": True,
        "libc": " ",
    }
    m.command(["python", "-c", python.QUESTION], json.dumps(answer) + "\r\n", delay_s=0.06)
    m.expect.update(
        {
            "system": "windows",
            "os_name": "Windows 11 (10.0.26100.6899)",
            "cpu.model": "13th Gen Intel(R) Core(TM) i7-13700F",
            "wsl.distro": "Ubuntu-24.04",
            "wsl.version": "2.6.1.0",
            "wsl.wslconfig_path": f"{home}\\.wslconfig",
            "wsl.wslconfig_bytes": "[wsl2]\r\nmemory=16GB\r\n",
            "wsl.host_memory_bytes": m.host["memory"]["total_bytes"],
            "wsl.distros.count": 3,
            "mounts": {"C:\\": "windows-drive", "D:\\": "windows-drive"},
            "problems": ["windows_serves_in_wsl"],
        }
    )
    return m


def main(names: list[str]) -> int:
    unknown = [n for n in names if n not in MACHINES]
    if unknown:
        print(f"no such machine: {', '.join(unknown)}; there are: {', '.join(MACHINES)}", file=sys.stderr)
        return 2
    for name in names or MACHINES:
        MACHINES[name]().write()
        print(name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
