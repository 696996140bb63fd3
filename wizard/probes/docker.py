"""The container engine behind the ``docker`` command, and whether it can give GPUs to containers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from wizard.facts import Docker, Fact, SystemKind, known, unknown
from wizard.host import CommandResult, Host
from wizard.i18n import _
from wizard.probes.common import (
    ENGLISH,
    as_dict,
    as_list,
    as_size,
    as_text,
    failure,
    listing,
    parse_json,
    unique,
)
from wizard.probes.disks import read_mounts
from wizard.probes.system import detect_kind
from wizard.probes.wsl import windows_program

TIMEOUT_S = 5.0
INFO = ("docker", "info", "--format", "{{json .}}")
INFO_TEXT = ("docker", "info")
VERSION = ("docker", "version", "--format", "{{json .}}")
CLIENT = ("docker", "--version")
COMPOSE = ("docker", "compose", "version", "--short")
IMAGES = ("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
_DESKTOP_PROGRAM = "Program Files/Docker/Docker/Docker Desktop.exe"
_CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi", "/run/cdi")


def probe(host: Host) -> Docker:
    """The engine's facts; ``fault`` and the reason of ``engine`` say why it cannot be used."""
    desktop = _desktop_on_windows(host)
    if host.which("docker") is None:
        return replace(_absent(host, desktop), desktop_on_windows=desktop)
    info = host.run(INFO, TIMEOUT_S, env=ENGLISH)
    data = as_dict(parse_json(info.text))
    if info.timed_out:
        # Whatever else is asked of it would hang as well.
        return _broken("hang", failure(info), desktop)
    if _is_integration_stub(info):
        return _broken("integration_off", _first_line(info), desktop)
    client = _client_version(host, data)
    if client.value is not None and "podman" in client.value.lower():
        return replace(_broken("podman", _("This docker command is Podman's"), desktop), cli=client)
    if not data:
        data = parse_info_text(_text_info(host))
    compose = _compose_version(host, data)
    if not as_text(data.get("ServerVersion")) and not _has_server(data):
        fault, reason = _fault(info, data, desktop)
        return replace(_broken(fault, reason, desktop), cli=client, compose=compose)
    docker = from_info(data, nvidia_by_cdi=_cdi_specs(host))
    if not docker.engine.known:
        docker = replace(docker, engine=_server_version(host))
    return replace(
        docker,
        cli=client,
        compose=compose,
        local_images=_images(host),
        desktop_on_windows=desktop,
        remote=_remote(host),
    )


def _broken(fault: str, reason: str, desktop: bool) -> Docker:
    missing: Fact[Any] = unknown(reason)
    return Docker(
        cli=missing,
        engine=missing,
        compose=missing,
        is_desktop=missing,
        nvidia_runtime=missing,
        root_dir=missing,
        memory_bytes=missing,
        rootless=missing,
        fault=fault,
        desktop_on_windows=desktop,
    )


def _remote(host: Host) -> str:
    """The other computer that DOCKER_HOST names: ``tcp://box:2375``, without user and password; "" for this one."""
    match = re.match(r"(tcp|ssh|https?)://(?:[^@/]*@)?([^/]+)", host.env.get("DOCKER_HOST", ""))
    if match is None or re.match(r"(?:localhost|127\.|\[?::1)", match.group(2)):
        return ""
    return f"{match.group(1)}://{match.group(2)}"


def _absent(host: Host, desktop: bool) -> Docker:
    try:
        link = host.readlink("/usr/bin/docker")
    except OSError:
        link = ""
    if "/docker-desktop/" in link:
        return _broken("desktop_not_running", _("Docker Desktop is not running"), desktop)
    if desktop:
        reason = _("Docker Desktop is installed on Windows, but its WSL integration is off for this distro")
        return _broken("integration_off", reason, desktop)
    return _broken("not_installed", _("docker was not found"), desktop)


def _desktop_on_windows(host: Host) -> bool:
    kind = detect_kind(host)
    if kind == SystemKind.WINDOWS:
        return host.exists("C:\\" + _DESKTOP_PROGRAM.replace("/", "\\"))
    if kind in (SystemKind.WSL1, SystemKind.WSL2):
        return windows_program(host, read_mounts(host), _DESKTOP_PROGRAM) is not None
    return False


def _is_integration_stub(result: CommandResult) -> bool:
    return re.search(r"could not be found in this WSL", result.text + result.error_text) is not None


def _first_line(result: CommandResult) -> str:
    lines = (result.text.strip() or result.error_text.strip()).splitlines()
    return lines[0].strip() if lines else failure(result)


def _client_version(host: Host, data: dict[str, Any]) -> Fact[str]:
    version = as_text(as_dict(data.get("ClientInfo")).get("Version"))
    if version:
        return known(version, "docker info")
    result = host.run(CLIENT, TIMEOUT_S, env=ENGLISH)
    if not result.ok:
        return unknown(failure(result), "docker --version")
    match = re.search(r"version\s+v?(\d[\w.+~-]*)", result.text)
    if match is None:
        return unknown(_("docker --version does not tell"), "docker --version")
    name = "podman " if "podman" in result.text.lower() else ""
    return known(name + match.group(1).rstrip(","), "docker --version")


def _compose_version(host: Host, data: dict[str, Any]) -> Fact[str]:
    for plugin in as_list(as_dict(data.get("ClientInfo")).get("Plugins")):
        plugin = as_dict(plugin)
        version = as_text(plugin.get("Version"))
        if plugin.get("Name") == "compose" and version and version[:1].lstrip("v") + version[1:2]:
            return known(version.removeprefix("v"), "docker info")
    result = host.run(COMPOSE, TIMEOUT_S, env=ENGLISH)
    match = re.search(r"v?(\d+\.\d+[\w.+-]*)", result.text)
    if result.ok and match:
        return known(match.group(1), "docker compose version")
    if host.which("docker-compose"):
        old = host.run(["docker-compose", "--version"], TIMEOUT_S, env=ENGLISH)
        match = re.search(r"(\d+\.\d+\.\d+)", old.text)
        if old.ok and match:
            if match.group(1).startswith("1."):
                said = _("docker-compose {version} is too old to read today's files")
                return unknown(said.format(version=match.group(1)), "docker-compose --version")
            return known(match.group(1), "docker-compose --version")
    return unknown(_("the Compose plugin is not installed"), "docker compose version")


def _text_info(host: Host) -> str:
    result = host.run(INFO_TEXT, TIMEOUT_S, env=ENGLISH)
    return result.text if result.ok else ""


def _has_server(data: dict[str, Any]) -> bool:
    return bool(as_text(data.get("OperatingSystem")) or data.get("Runtimes")) and not as_list(
        data.get("ServerErrors")
    )


def _fault(info: CommandResult, data: dict[str, Any], desktop: bool) -> tuple[str, str]:
    errors = "\n".join(str(e) for e in as_list(data.get("ServerErrors")))
    said = "\n".join((errors, info.error_text, info.text if not data else ""))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = next((x for x in lines if re.search(r"(?i)permission denied|cannot connect|error", x)), "")
    reason = (reason or (lines[0] if lines else failure(info)))[:300]
    if re.search(r"(?i)permission denied", said):
        return "permission_denied", reason
    if re.search(
        r"(?i)desktop-linux|dockerDesktopLinuxEngine|docker desktop is (?:unable|manually paused)", said
    ):
        return "desktop_not_running", reason
    if re.search(
        r"(?i)cannot connect to the docker daemon|failed to connect|connection refused|is the docker daemon",
        said,
    ):
        return ("desktop_not_running" if desktop else "not_running"), reason
    return "error", reason


def _server_version(host: Host) -> Fact[str]:
    result = host.run(VERSION, TIMEOUT_S, env=ENGLISH)
    version = as_text(as_dict(as_dict(parse_json(result.text)).get("Server")).get("Version"))
    return known(version, "docker version") if version else known("?", "docker info")


# ---- docker info -----------------------------------------------------------------------------------------


def from_info(data: dict[str, Any], nvidia_by_cdi: bool = False) -> Docker:
    """The engine of the (JSON or parsed text) answer of ``docker info``."""
    source = "docker info"
    told = _("docker info does not tell")
    system = as_text(data.get("OperatingSystem")) or ""
    is_desktop = "docker desktop" in system.lower() or as_text(data.get("Name")) == "docker-desktop"
    version, root = as_text(data.get("ServerVersion")), as_text(data.get("DockerRootDir"))
    memory = as_size(data.get("MemTotal"))
    security = " ".join(str(x) for x in as_list(data.get("SecurityOptions")))
    windows = as_text(data.get("OSType")) == "windows"
    return Docker(
        cli=unknown(told),
        engine=known(version, source) if version else unknown(told, source),
        compose=unknown(told),
        is_desktop=known(is_desktop, source),
        nvidia_runtime=_nvidia(data, is_desktop, nvidia_by_cdi),
        root_dir=known(root, source) if root else unknown(told, source),
        memory_bytes=known(memory, source) if memory else unknown(told, source),
        rootless=known("rootless" in security, source),
        fault="windows_containers" if windows else "",
    )


def _nvidia(data: dict[str, Any], is_desktop: bool, by_cdi: bool) -> Fact[bool]:
    source = "docker info"
    runtimes = data.get("Runtimes")
    names = list(runtimes) if isinstance(runtimes, dict) else [str(r) for r in as_list(runtimes)]
    kernel = as_text(data.get("KernelVersion")) or ""
    if is_desktop and kernel and "microsoft" not in kernel.lower():
        # Its own VM on Linux or macOS, or Hyper-V on Windows: the GPU is not passed through.
        return Fact(False, source, _("This Docker Desktop runs in a virtual machine without the GPU"))
    devices = [as_dict(d).get("ID", "") for d in as_list(data.get("DiscoveredDevices"))]
    if "nvidia" in names or any(str(d).startswith("nvidia.com/gpu") for d in devices):
        return known(True, source)
    if is_desktop:
        return Fact(False, source, _("This Docker Desktop lists no nvidia runtime; 4.34 and later do"))
    if by_cdi:
        return known(True, _("a CDI file of NVIDIA's"))
    return Fact(False, source, _("The engine knows no nvidia runtime and no CDI device"))


def _cdi_specs(host: Host) -> bool:
    return any("nvidia" in entry.name for folder in _CDI_FOLDERS for entry in listing(host, folder))


_SIZE = re.compile(r"([\d.]+)\s*([KMGT]?)i?B")


def parse_info_text(text: str) -> dict[str, Any]:
    """The plain text of ``docker info`` in the shape of its JSON, as far as this module reads it."""
    keys = {
        "Server Version": "ServerVersion",
        "Operating System": "OperatingSystem",
        "Kernel Version": "KernelVersion",
        "Docker Root Dir": "DockerRootDir",
        "OSType": "OSType",
        "Name": "Name",
    }
    data: dict[str, Any] = {}
    section = ""
    client = True
    for line in text.splitlines():
        stripped = line.strip()
        key, colon, value = stripped.partition(":")
        value = value.strip()
        client = client and stripped != "Server:" and "Server Version" not in line
        if colon and (not value or value.startswith("Docker Compose")):
            section = key
        elif key in keys and value and not (client and key == "Name"):
            data[keys[key]] = value
        elif key == "Runtimes" and value:
            data["Runtimes"] = value.split()
        elif key == "Total Memory" and (size := _SIZE.match(value)):
            data["MemTotal"] = int(float(size.group(1)) * 1024 ** "_KMGT".index(size.group(2) or "_"))
        elif key == "cdi" and section == "Discovered Devices":
            data.setdefault("DiscoveredDevices", []).append({"ID": value})
        elif stripped == "rootless" and section == "Security Options":
            data.setdefault("SecurityOptions", []).append("name=rootless")
        elif key == "Version" and client and section == "compose":
            data["ClientInfo"] = {"Plugins": [{"Name": "compose", "Version": value}]}
        elif stripped.startswith(("ERROR:", "Cannot connect")):
            data.setdefault("ServerErrors", []).append(stripped)
    return data


def _images(host: Host) -> tuple[str, ...]:
    """Local images that hold vLLM, by name."""
    result = host.run(IMAGES, TIMEOUT_S, env=ENGLISH)
    names = [line.strip() for line in result.text.splitlines()] if result.ok else []
    return unique(name for name in names if "vllm" in name.lower() and not name.endswith(":<none>"))
