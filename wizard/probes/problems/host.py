"""Problems of memory, disk, processor, Python, and of the probes themselves."""

from __future__ import annotations

from dataclasses import replace

from wizard.facts import Machine, Mount, MountKind, ProbeRun, Problem, Severity, SystemKind
from wizard.i18n import _, sentences, stopped
from wizard.probes.common import GIB, gib, version_tuple
from wizard.probes.problems.docker import docker_engine
from wizard.probes.problems.words import CONTAINERS, sh_quote, uses_apt

# Of vLLM 0.33.0.
NEWEST_PYTHON = (3, 11)
# The tag of the newest wheels on PyPI: manylinux_2_28.
NEWEST_GLIBC = (2, 28)

# An image takes 20 to 30 GiB unpacked, a mid-size model as much again.
LOW_DISK_BYTES = 50 * GIB
LOW_RAM_BYTES = 8 * GIB
SWAP_MATTERS_BELOW_BYTES = 64 * GIB
SMALL_SHM_BYTES = GIB


def memory_sizes(machine: Machine) -> list[Problem]:
    memory = machine.memory
    total = memory.total_bytes.value
    if machine.system == SystemKind.WINDOWS or total is None:
        return []
    found = []
    limit = memory.cgroup_limit_bytes.value
    usable = min(total, limit) if limit is not None else total
    if usable < LOW_RAM_BYTES:
        detail = _(
            "vLLM itself takes 3 to 4 GiB before the model is read; with {size} the system may end it while it starts."
        ).format(size=gib(usable))
        if machine.system == SystemKind.WSL2:
            more = _("WSL gets half of Windows' memory by default: the wizard proposes more in .wslconfig.")
            detail = sentences(detail, more)
        found.append(
            Problem("low_ram", Severity.WARNING, _("Little memory: {size}").format(size=gib(usable)), detail)
        )
    swap = memory.swap_total_bytes.value
    if (
        swap == 0
        and usable < SWAP_MATTERS_BELOW_BYTES
        and machine.system in (SystemKind.NATIVE, SystemKind.WSL2)
    ):
        found.append(_no_swap(machine))
    shm = memory.shm_bytes.value
    if shm is not None and shm < SMALL_SHM_BYTES and machine.system in CONTAINERS:
        several = len(machine.gpu.gpus) > 1
        detail = (
            _("The shared memory (/dev/shm) holds {size}. Several GPUs exchange data through it: start this container with --ipc=host or --shm-size=8g.")
            if several
            else _("The shared memory (/dev/shm) holds {size}. That is enough with one GPU; for several, start the container with --ipc=host or --shm-size=8g.")
        ).format(size=gib(shm))
        found.append(Problem("small_shm", Severity.WARNING if several else Severity.INFO, _("Small shared memory"), detail))
    return found


def _no_swap(machine: Machine) -> Problem:
    if machine.system == SystemKind.WSL2:
        detail = _(
            "Without swap WSL ends vLLM when loading needs more memory for a moment. The wizard proposes a size in .wslconfig."
        )
        return Problem("no_swap", Severity.WARNING, _("No swap"), detail)
    detail = _(
        "Loading a model needs memory for a moment; with swap the system slows down instead of ending vLLM."
    )
    commands = (
        "sudo fallocate -l 8G /swapfile",
        "sudo chmod 600 /swapfile",
        "sudo mkswap /swapfile",
        "sudo swapon /swapfile",
        "echo '/swapfile none swap sw 0 0' | sudo tee -a /etc/fstab",
    )
    return Problem("no_swap", Severity.INFO, _("No swap"), detail, commands)


def disks(machine: Machine) -> list[Problem]:
    if machine.system == SystemKind.WINDOWS:
        return []
    found = []
    places: list[tuple[str, Mount]] = []
    root = machine.docker.root_dir.value if machine.docker.is_desktop.value is False else None
    for path in filter(None, (root, machine.home)):
        mount = machine.mount_of(path)
        if mount is not None and all(mount is not seen for _path, seen in places):
            places.append((path, mount))
    elsewhere = any(
        (m.free_bytes.value or 0) >= LOW_DISK_BYTES and m.kind == MountKind.LINUX and not m.read_only
        for m in machine.mounts
    )
    low = [
        (path, m)
        for path, m in places
        if m.free_bytes.value is not None and m.free_bytes.value < LOW_DISK_BYTES
    ]
    if low:
        texts = [
            _("{path}: {size} free").format(path=path, size=gib(m.free_bytes.or_else(0))) for path, m in low
        ]
        detail = _("{places}. vLLM's image takes 20 to 30 GiB, a model as much as its files.").format(
            places="; ".join(texts)
        )
        if elsewhere:
            detail = sentences(detail, _("Another disk has room: keep models there."))
        prune = ("docker system df", "docker image prune") if machine.docker.engine.known else ()
        look = f"du -xh -d 2 {sh_quote(low[0][0])} | sort -h | tail -n 20"
        found.append(Problem("low_disk", Severity.WARNING, _("Little free disk"), detail, (*prune, look)))
    wsl = machine.wsl
    free = wsl.host_free_disk_bytes.value if wsl is not None and machine.system == SystemKind.WSL2 else None
    if free is not None and free < LOW_DISK_BYTES:
        detail = _(
            "WSL's disk is a file that grows on Windows' drive, and that has only {size} left, whatever is shown inside."
        ).format(size=gib(free))
        found.append(
            Problem(
                "low_disk_windows",
                Severity.WARNING,
                _("Little free disk in Windows"),
                detail,
                ("Start-Process cleanmgr",),
                "powershell",
            )
        )
    return found


def processor(machine: Machine) -> list[Problem]:
    cpu = machine.cpu
    if machine.gpu.gpus or machine.gpu.fault or cpu.architecture not in ("x86_64", "AMD64") or not cpu.flags:
        return []
    if machine.system in (SystemKind.WSL1, SystemKind.WINDOWS, SystemKind.MACOS):
        return []
    if "avx2" not in cpu.flags:
        detail = _("vLLM's CPU build needs AVX2 at least, and AVX512 for all of its features.")
        return [
            Problem(
                "cpu_no_avx2",
                Severity.BLOCKER,
                _("This processor is too old for serving without a GPU"),
                detail,
            )
        ]
    if "avx512f" not in cpu.flags:
        detail = _("vLLM's CPU build works with AVX2, but slower and with fewer features than with AVX512.")
        return [Problem("cpu_no_avx512", Severity.INFO, _("This processor has no AVX512"), detail)]
    return []


def python_tools(machine: Machine) -> list[Problem]:
    if machine.system in (SystemKind.WINDOWS, SystemKind.WSL1, SystemKind.MACOS):
        return []
    # A container that brings vLLM along needs no environment made.
    if machine.system in CONTAINERS and machine.vllm:
        return []
    python = machine.python
    found = []
    glibc = version_tuple(python.glibc.value)
    if glibc and glibc < NEWEST_GLIBC:
        detail = _(
            "The newest wheels need glibc 2.28; this system has {version}. Docker images bring their own."
        ).format(version=python.glibc.value)
        found.append(
            Problem("old_glibc", Severity.WARNING, _("The system is too old for a local environment"), detail)
        )
    if "musl" in python.glibc.reason:
        found.append(
            Problem(
                "old_glibc",
                Severity.WARNING,
                _("The system is not made for a local environment"),
                python.glibc.reason,
            )
        )
    # A uv that is there and does not answer is named by its probe.
    if not python.uv.known and not python.uv.source:
        found.append(_no_uv(machine))
    if python.compiler.value is False:
        commands = ("sudo apt-get install -y build-essential",) if uses_apt(machine) else ()
        detail = _(
            "In a local environment Triton compiles small pieces of C when vLLM starts. Docker images bring their own compiler."
        )
        found.append(Problem("no_compiler", Severity.INFO, _("No C compiler"), detail, commands))
    if _docker_serves(machine):
        spared = _("With Docker, which works here, none of this is needed.")
        found = [replace(p, detail=sentences(stopped(p.detail), spared)) if p.severity is Severity.INFO else p for p in found]
    return found


def _docker_serves(machine: Machine) -> bool:
    """Whether Docker is there with nothing to cure, so that a local environment is one of two ways."""
    return machine.docker.engine.known and all(p.severity is Severity.INFO for p in docker_engine(machine))


def _no_uv(machine: Machine) -> Problem:
    python = machine.python
    install = "curl -LsSf https://astral.sh/uv/install.sh | sh"
    page = "https://docs.astral.sh/uv/getting-started/installation/"
    numbers = version_tuple(python.version.value)
    if not numbers or numbers < NEWEST_PYTHON:
        if numbers:
            detail = _(
                "The newest vLLM needs Python 3.11 or newer; this is {version}. uv brings a newer one without touching the system's."
            ).format(version=python.version.value)
        else:
            detail = _("{reason}. uv brings a Python of its own.").format(reason=python.version.reason)
        return Problem(
            "python_too_old",
            Severity.INFO,
            _("No Python that the newest vLLM runs on"),
            detail,
            (install, "uv python install 3.12"),
            link=page,
        )
    if python.venv_module.value is False:
        minor = ".".join(str(n) for n in numbers[:2])
        detail = _(
            "Neither uv nor Python's venv module is there, so that no local environment can be made. One of the two lines is enough."
        )
        return Problem(
            "no_venv",
            Severity.INFO,
            _("No way to make a Python environment"),
            detail,
            (install, f"sudo apt-get install -y python{minor}-venv"),
            link=page,
        )
    detail = _(
        "A local environment can be made with venv and pip; uv is much faster and picks the right PyTorch for the driver."
    )
    return Problem("no_uv", Severity.INFO, _("uv is not installed"), detail, (install,), link=page)


def probe_runs(machine: Machine) -> list[Problem]:
    found = []
    for run in machine.runs:
        if (run.name == "gpu" and not machine.gpu.gpus) or (run.name == "docker" and machine.docker.fault):
            continue
        if run.timed_out:
            found.append(_late(run))
        elif not run.ok:
            title = _("The probe {name} failed").format(name=run.name)
            found.append(Problem(f"probe_failed_{run.name}", Severity.WARNING, title, run.reason))
    return found


def _late(run: ProbeRun) -> Problem:
    title = _("The probe {name} did not finish in time").format(name=run.name)
    detail = _("{reason}. What it would have found is unknown; the rest is not touched by it.").format(
        reason=run.reason
    )
    return Problem(f"probe_timed_out_{run.name}", Severity.WARNING, title, detail)
