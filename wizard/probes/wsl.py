r"""WSL's own facts: version, network, interop, the user's Windows profile and their ``.wslconfig``.

The Windows profile is asked from Windows itself: ``cmd.exe`` by its full path on a mounted Windows drive, from
a folder on that drive (from a Linux folder it would complain about a UNC path), with ``/u`` so that names that
are not ASCII survive as UTF-16. Without interop the folder ``Users`` is looked through; where several people
have one, nobody is picked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wizard.facts import Fact, Mount, MountKind, SystemKind, Wsl, WslDistro, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import failure, listing, read, read_line
from wizard.probes.disks import read_mounts, to_linux_path
from wizard.probes.system import detect_kind, kernel_release
from wizard.wsl_grammar import Entry, decode, scan

# Together below the time that a whole probe has, so that what did answer is never lost.
WSLINFO_TIMEOUT_S = 1.0
WSL_EXE_TIMEOUT_S = 2.5
CMD_TIMEOUT_S = 2.0
_INTEROP_FILES = ("/proc/sys/fs/binfmt_misc/WSLInterop", "/proc/sys/fs/binfmt_misc/WSLInterop-late")
_NOT_PEOPLE = frozenset(
    {
        "public",
        "default",
        "default user",
        "all users",
        "defaultuser0",
        "defaultuser100000",
        "wdagutilityaccount",
    }
)
_LINUX_DRIVER = ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/aarch64-linux-gnu/libcuda.so.1")
_INSIDE = (SystemKind.WSL1, SystemKind.WSL2, SystemKind.WSL_CONTAINER)
_NETWORKS = ("nat", "mirrored", "virtioproxy", "bridged", "none", "consomme")


def probe(host: Host) -> Wsl | None:
    """WSL's facts; None where there is no WSL. The Windows host's RAM and CPUs are asked by ``windows_host``."""
    kind = detect_kind(host)
    if kind == SystemKind.WINDOWS:
        return _from_windows(host)
    if kind not in _INSIDE:
        return None
    mounts = read_mounts(host)
    if kind == SystemKind.WSL_CONTAINER:
        return _by_files(host, kind, mounts, _("inside a container"))
    wsl = _by_files(host, kind, mounts, _("not asked"))
    versions = ask_versions(host, mounts, wsl.interop.or_else(False))
    wsl = replace(
        wsl,
        version=versions.wsl,
        windows_build=wsl.windows_build if wsl.windows_build.known else versions.windows,
        networking_mode=_network(host, kind),
    )
    return _with_config(host, _with_profile(host, wsl, mounts, versions.hung))


def without_answers(host: Host, why: str) -> Wsl | None:
    """What files alone tell, for when the programs kept the probe waiting too long."""
    kind = detect_kind(host)
    return _by_files(host, kind, read_mounts(host), why) if kind in _INSIDE else None


def _by_files(host: Host, kind: SystemKind, mounts: list[Mount], why: str) -> Wsl:
    """The facts for which no program is started; ``why`` stands where one would have to be."""
    missing: Fact[Any] = unknown(why)
    distro = host.env.get("WSL_DISTRO_NAME")
    release = kernel_release(host)
    conf = parse_wsl_conf(read(host, "/etc/wsl.conf", 65536) or "")
    in_container = kind == SystemKind.WSL_CONTAINER
    no_distro = why if in_container else _("WSL_DISTRO_NAME is not set")
    no_release: Fact[str] = unknown(_("/proc is not readable"))
    return Wsl(
        distro=known(distro, "WSL_DISTRO_NAME") if distro else unknown(no_distro),
        version=missing,
        kernel=known(release, "/proc/sys/kernel/osrelease") if release else no_release,
        networking_mode=missing,
        interop=interop_works(host),
        automount_root=_automount_root(conf),
        systemd=known(host.exists("/run/systemd/system"), "/run/systemd/system"),
        windows_build=_build_of_wsl1(release) if kind == SystemKind.WSL1 else missing,
        windows_profile=missing,
        windows_profile_windows=missing,
        host_memory_bytes=missing,
        host_logical_cpus=missing,
        host_free_disk_bytes=_windows_free(host, mounts),
        gpu_device=host.exists("/dev/dxg"),
        libcuda=host.exists("/usr/lib/wsl/lib/libcuda.so.1"),
        # In a container the toolkit puts Windows' library there; in a distro only a driver package does.
        linux_driver_inside=not in_container and any(host.exists(p) for p in _LINUX_DRIVER),
    )


# ---- versions and network --------------------------------------------------------------------------------


_NOT_ASKED: Fact[str] = Fact(None, "", "not asked")


@dataclass(frozen=True)
class Versions:
    """What ``wsl.exe --version`` (or ``wslinfo``) tells."""

    wsl: Fact[str] = _NOT_ASKED
    windows: Fact[str] = _NOT_ASKED
    kernel: Fact[str] = _NOT_ASKED
    hung: bool = False  # Windows' program did not answer: no other one is started


def ask_versions(host: Host, mounts: list[Mount], interop: bool) -> Versions:
    """WSL's version from ``wslinfo`` or ``wsl.exe``, and from the latter Windows' own."""
    versions = Versions(unknown(_("wslinfo was not found")), unknown(_("wsl.exe does not tell")))
    if host.which("wslinfo"):
        result = host.run(["wslinfo", "--version"], WSLINFO_TIMEOUT_S)
        match = re.search(r"\d+\.\d+(?:\.\d+)*", result.text)
        if result.ok and match:
            versions = replace(versions, wsl=known(match.group(0), "wslinfo --version"))
    if not interop:
        return replace(versions, windows=unknown(_("Windows programs cannot be started from here")))
    program = windows_program(host, mounts, "Windows/System32/wsl.exe")
    if program is None:
        return versions
    result = host.run([program, "--version"], WSL_EXE_TIMEOUT_S)
    if result.timed_out:
        late: Fact[str] = unknown(failure(result), "wsl.exe")
        return replace(versions, windows=late, hung=True)
    told = parse_wsl_version(result.text) if result.ok else Versions()
    if told.wsl.known and not versions.wsl.known:
        versions = replace(versions, wsl=told.wsl)
    if told.windows.known:
        versions = replace(versions, windows=told.windows)
    if not versions.wsl.known:
        reason = _("this WSL came with Windows and knows no --version: it is older than 1.0")
        versions = replace(versions, wsl=unknown(reason, "wsl.exe --version"))
    return versions


def parse_wsl_version(text: str) -> Versions:
    """The numbers of ``wsl.exe --version``. The words are translated, so only the order counts: WSL's version
    comes first, the kernel's second, Windows' last."""
    numbers = []
    for line in text.splitlines():
        match = re.search(r"[:：\s](\d+\.\d+(?:\.\d+)+)(?:-\S*)?\s*$", line)
        if match:
            numbers.append(match.group(1))
    if not numbers:
        return Versions()
    source = "wsl.exe --version"
    nothing: Fact[str] = unknown(_("wsl.exe does not tell"), source)
    last = numbers[-1]
    windows = known(last, source) if len(numbers) > 1 and last.startswith("10.0.") else nothing
    return Versions(
        known(numbers[0], source), windows, known(numbers[1], source) if len(numbers) > 2 else nothing
    )


def _build_of_wsl1(release: str | None) -> Fact[str]:
    match = re.match(r"\d+\.\d+\.\d+-(\d{5})-Microsoft", release or "")
    if match:
        return known(f"10.0.{match.group(1)}", "/proc/sys/kernel/osrelease")
    return unknown(_("the kernel's name does not tell"))


def _network(host: Host, kind: SystemKind) -> Fact[str]:
    if kind == SystemKind.WSL1:
        return unknown(_("WSL1 uses Windows' own network"))
    if host.which("wslinfo") is None:
        return unknown(_("wslinfo was not found"))
    result = host.run(["wslinfo", "--networking-mode"], WSLINFO_TIMEOUT_S)
    word = result.text.strip().lower()
    if result.ok and word in _NETWORKS:
        return known(word, "wslinfo --networking-mode")
    return unknown(_("wslinfo does not tell"), "wslinfo --networking-mode")


# ---- /etc/wsl.conf and interop ---------------------------------------------------------------------------


def interop_works(host: Host) -> Fact[bool]:
    """Whether Windows programs can be started from here."""
    for path in _INTEROP_FILES:
        line = read_line(host, path)
        if line is not None:
            return known(line == "enabled", path)
    if detect_kind(host) == SystemKind.WSL1:
        # WSL1 starts Windows programs itself and needs no entry in binfmt_misc.
        enabled = parse_wsl_conf(read(host, "/etc/wsl.conf", 65536) or "").get("interop.enabled", "true")
        return known(enabled.lower() not in ("false", "0"), "/etc/wsl.conf")
    return known(False, _INTEROP_FILES[0])


def parse_wsl_conf(text: str) -> dict[str, str]:
    """``section.key`` (lower case) to value of ``/etc/wsl.conf``. As in WSL, the first of two counts, and
    reading stops at the first line that is none."""
    values: dict[str, str] = {}
    for item in scan(decode(text.encode("utf-8", "surrogatepass"), "wslconf"), "wslconf"):
        if isinstance(item, Entry):
            values.setdefault(item.name.lower(), item.raw_text)
    return values


def _automount_root(conf: Mapping[str, str]) -> str:
    root = conf.get("automount.root", "/mnt/")
    return root.rstrip("/") + "/" if root.startswith("/") else "/mnt/"


# ---- the Windows side ------------------------------------------------------------------------------------


def windows_drives(mounts: list[Mount]) -> list[Mount]:
    """The mounted Windows drives, whole ones, C: first."""
    drives = [
        m
        for m in mounts
        if m.kind == MountKind.WINDOWS_DRIVE and m.windows_path and re.fullmatch(r"[A-Z]:\\", m.windows_path)
    ]
    return sorted(drives, key=lambda m: m.windows_path != "C:\\")


def windows_program(host: Host, mounts: list[Mount], inside: str) -> str | None:
    """The Linux path of a Windows program, by where it lies on a mounted drive."""
    for drive in windows_drives(mounts):
        path = drive.path.rstrip("/") + "/" + inside
        if host.exists(path):
            return path
    return None


def _windows_free(host: Host, mounts: list[Mount]) -> Fact[int]:
    for drive in windows_drives(mounts)[:1]:
        try:
            return known(host.disk_usage(drive.path).free_bytes, drive.path)
        except OSError as fault:
            return unknown(str(fault.strerror or fault), drive.path)
    return unknown(_("no Windows drive is mounted"))


def _with_profile(host: Host, wsl: Wsl, mounts: list[Mount], hung: bool) -> Wsl:
    """The user's Windows folder: asked from Windows, else found among ``Users``."""
    reason = _("Windows programs cannot be started from here (interop is off)")
    if hung:
        reason = _("Windows programs do not answer")
    elif wsl.interop.value:
        windows, reason = _ask_profile(host, mounts)
        if windows is not None:
            linux = _linux_path(host, windows, mounts)
            said = known(windows, "cmd.exe")
            if linux is not None and host.exists(linux):
                return replace(wsl, windows_profile=known(linux, "cmd.exe"), windows_profile_windows=said)
            reason = _("{path} is not reachable from here").format(path=windows)
            missing: Fact[str] = unknown(reason, "cmd.exe")
            return replace(wsl, windows_profile=missing, windows_profile_windows=said)
    people = _people(host, mounts)
    if len(people) == 1:
        return replace(
            wsl,
            windows_profile=known(people[0], _("the only folder of a person under Users")),
            windows_profile_windows=_windows_path_of(people[0], mounts),
            windows_profile_candidates=tuple(people),
        )
    if people:
        reason += "; " + _("several people have a folder under Users")
    return replace(
        wsl,
        windows_profile=unknown(reason),
        windows_profile_windows=unknown(reason),
        windows_profile_candidates=tuple(people),
    )


def _ask_profile(host: Host, mounts: list[Mount]) -> tuple[str | None, str]:
    """What Windows says is %USERPROFILE%, or None with the reason."""
    program = windows_program(host, mounts, "Windows/System32/cmd.exe")
    if program is None:
        return None, _("cmd.exe was not found on a mounted Windows drive")
    drive = program.removesuffix("Windows/System32/cmd.exe")
    result = host.run([program, "/u", "/c", "echo %USERPROFILE%"], CMD_TIMEOUT_S, cwd=drive)
    said = result.text.strip().splitlines()
    path = said[-1].strip().strip('"') if said else ""
    if result.ok and re.match(r"[A-Za-z]:\\.", path):
        return path, ""
    if result.timed_out:
        return None, _("cmd.exe did not answer within {seconds:g} s").format(seconds=CMD_TIMEOUT_S)
    return None, _("cmd.exe does not tell where the Windows user's folder is")


def _linux_path(host: Host, windows: str, mounts: list[Mount]) -> str | None:
    if host.which("wslpath"):
        result = host.run(["wslpath", "-u", windows], CMD_TIMEOUT_S)
        path = result.text.rstrip("\n")
        if result.ok and path.startswith("/"):
            return path
    return to_linux_path(windows, mounts)


def _windows_path_of(path: str, mounts: list[Mount]) -> Fact[str]:
    for drive in windows_drives(mounts):
        prefix = drive.path.rstrip("/") + "/"
        if path.startswith(prefix):
            return known(f"{drive.windows_path}{path[len(prefix) :]}".replace("/", "\\"), drive.path)
    return unknown(_("no Windows drive is mounted"))


def _people(host: Host, mounts: list[Mount]) -> list[str]:
    for drive in windows_drives(mounts):
        folder = drive.path.rstrip("/") + "/Users"
        folders = [e for e in listing(host, folder) if e.is_dir and e.name.lower() not in _NOT_PEOPLE]
        # Folders of service accounts look like ".NET v4.5" or "SERVICE$".
        people = [e.path for e in folders if not e.name.startswith(".") and not e.name.endswith("$")]
        signed_in = [p for p in people if host.exists(p + "/NTUSER.DAT") or host.exists(p + "/AppData")]
        if folders:
            return signed_in or people
    return []


def _with_config(host: Host, wsl: Wsl) -> Wsl:
    profile = wsl.windows_profile.value
    if profile is None:
        return wsl
    path = profile.rstrip("/") + "/.wslconfig"
    try:
        return replace(wsl, wslconfig_path=path, wslconfig_bytes=host.read_bytes(path, 1_000_000))
    except FileNotFoundError:
        return replace(wsl, wslconfig_path=path)
    except OSError as error:
        return replace(wsl, wslconfig_path=path, wslconfig_unread=error.strerror or str(error))


# ---- on Windows itself -----------------------------------------------------------------------------------


def parse_distros(text: str) -> tuple[WslDistro, ...]:
    """The lines of ``wsl.exe -l -v``; the heading is translated, the columns are not."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*(\*?)\s*(\S.*?)\s{2,}(\S.*?)\s+([12])\s*$", line)
        if match:
            found.append(WslDistro(match.group(2), int(match.group(4)), match.group(3), bool(match.group(1))))
    return tuple(found)


def _from_windows(host: Host) -> Wsl | None:
    """On Windows: what ``wsl.exe`` tells; None where WSL is not installed."""
    listed = host.run(["wsl.exe", "-l", "-v"], WSL_EXE_TIMEOUT_S)
    version = host.run(["wsl.exe", "--version"], WSL_EXE_TIMEOUT_S)
    distros = parse_distros(listed.text) if listed.ok else ()
    told = parse_wsl_version(version.text) if version.ok else Versions()
    # Windows ships a wsl.exe that only offers to install WSL.
    if not distros and not told.wsl.known:
        return None
    default = next((d.name for d in distros if d.default), None)
    here = _("asked from Windows")
    profile = host.env.get("USERPROFILE") or host.home
    path = profile.rstrip("\\") + "\\.wslconfig"
    try:
        config: bytes | None = host.read_bytes(path, 1_000_000)
    except OSError:
        config = None
    try:
        free = known(host.disk_usage(profile).free_bytes, profile)
    except OSError as fault:
        free = unknown(str(fault.strerror or fault))
    return Wsl(
        distro=known(default, "wsl.exe -l -v") if default else unknown(_("no distro is installed")),
        version=told.wsl if told.wsl.known else unknown(_("wsl.exe does not tell")),
        kernel=told.kernel if told.kernel.known else unknown(_("wsl.exe does not tell")),
        networking_mode=unknown(here),
        interop=unknown(here),
        systemd=unknown(here),
        windows_build=told.windows if told.windows.known else unknown(_("wsl.exe does not tell")),
        windows_profile=known(profile, "USERPROFILE"),
        windows_profile_windows=known(profile, "USERPROFILE"),
        host_free_disk_bytes=free,
        distros=distros,
        wslconfig_path=path,
        wslconfig_bytes=config,
    )
