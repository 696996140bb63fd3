r"""Mounts and what really lies behind them.

A path is judged by the longest mount prefix in ``/proc/self/mountinfo``, never by the text ``/mnt/``: Windows
drives can be mounted anywhere, and fast disks lie under ``/mnt`` too. How WSL writes its mounts: a Windows
drive is 9p with ``aname=drvfs`` (or virtiofs with a ``drvfs`` source, or drvfs itself on WSL1), a network
drive the same with ``path=UNC\``; the GPU driver share is 9p with ``aname=drivers``.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, replace

from wizard.facts import Fact, Mount, MountKind, known, unknown
from wizard.host import DiskUsage, Host
from wizard.i18n import _
from wizard.probes.common import read, words

USAGE_TIMEOUT_S = 2.0

_MEMORY = frozenset({"tmpfs", "ramfs"})
_LINUX = words(
    """ext2 ext3 ext4 xfs btrfs zfs f2fs bcachefs jfs reiserfs nilfs2 ntfs3 overlay aufs fuse-overlayfs
    fuse.fuse-overlayfs lxfs wslfs ecryptfs apfs hfs hfsplus"""
)
_NETWORK = words(
    """nfs nfs3 nfs4 cifs smb2 smb3 smbfs ncpfs afs ceph lustre beegfs gpfs glusterfs orangefs pvfs2 wekafs davfs
    9pnet sshfs juicefs s3fs rclone goofys gcsfuse blobfuse blobfuse2 mountpoint-s3 cephfs davfs2 curlftpfs
    fhgfs panfs dvs"""
)
# What the kernel shows of itself as files: no file of anybody's lies there, to read or to write.
PSEUDO = words(
    """proc sysfs devtmpfs devpts cgroup cgroup2 mqueue debugfs tracefs securityfs pstore bpf configfs fusectl
    binfmt_misc nsfs rpc_pipefs efivarfs selinuxfs fuse.lxcfs devfs resctrl"""
)
_VIRTUAL = PSEUDO | words(
    "hugetlbfs autofs squashfs iso9660 erofs rootfs fuse.portal fuse.gvfsd-fuse fuse.snapfuse"
)
_PLAN9 = frozenset({"9p", "plan9", "virtio-plan9"})
# Places where engines and packages mount by the hundred: nobody keeps a model there.
_CLUTTER = re.compile(
    r"^(?:/proc|/sys|/dev(?!/shm$)|/run/(?:docker|user|netns|credentials|wsl/virtiofs-mounts)|/snap"
    r"|/var/lib/(?:docker|containerd|kubelet|containers|lxcfs|snapd))/"
)
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class RawMount:
    """One line of the mount table. ``root`` is the folder of the file system that is mounted here."""

    path: str
    fstype: str
    source: str
    options: str
    id: int = 0
    parent: int = 0
    root: str = "/"


def probe(host: Host) -> tuple[Mount, ...]:
    """All mounts that can be seen, classified, with the free space of those that something can lie on."""
    if host.platform == "win32":
        return _windows_drives(host)
    mounts = [_with_windows_path(host, m) for m in read_mounts(host)]
    _fill_usage(host, mounts)
    return tuple(mounts)


def without_usage(host: Host, why: str) -> tuple[Mount, ...]:
    """The mounts alone, for when asking for their space took too long."""
    missing: Fact[int] = unknown(why)
    mounts = [] if host.platform == "win32" else read_mounts(host)
    return tuple(replace(m, total_bytes=missing, free_bytes=missing) for m in mounts)


def read_mounts(host: Host) -> list[Mount]:
    """The mounts without their free space: no file system is touched, so that nothing can hang."""
    return [
        to_mount(raw) for raw in visible(raw_mounts(host)) if raw.path == "/" or not _CLUTTER.match(raw.path)
    ]


def raw_mounts(host: Host) -> list[RawMount]:
    raw = parse_mountinfo(read(host, "/proc/self/mountinfo") or "")
    return raw or parse_mounts(read(host, "/proc/self/mounts") or read(host, "/proc/mounts") or "")


def unescape(text: str) -> str:
    r"""The kernel writes space, tab, newline, backslash as ``\040`` and the like."""
    return _OCTAL.sub(lambda m: chr(int(m.group(1), 8)) if int(m.group(1), 8) < 256 else m.group(0), text)


def parse_mountinfo(text: str) -> list[RawMount]:
    """The lines of ``/proc/self/mountinfo``; what is no such line is passed over."""
    found = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        head, tail = left.split(" "), right.split(" ")
        if not dash or len(head) < 6 or len(tail) < 2 or not (head[0].isdecimal() and head[1].isdecimal()):
            continue
        options = ",".join([head[5], *tail[2:]])
        found.append(
            RawMount(
                unescape(head[4]),
                unescape(tail[0]),
                unescape(tail[1]),
                unescape(options),
                int(head[0]),
                int(head[1]),
                unescape(head[3]),
            )
        )
    return [m for m in found if m.path.startswith("/")]


def parse_mounts(text: str) -> list[RawMount]:
    """The lines of ``/proc/mounts``; what is no such line is passed over."""
    found = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 4 or not fields[1].startswith("/"):
            continue
        found.append(
            RawMount(unescape(fields[1]), unescape(fields[2]), unescape(fields[0]), unescape(fields[3]))
        )
    return found


def visible(mounts: list[RawMount]) -> list[RawMount]:
    """Those mounts that a path can still reach: others are covered by a later mount."""
    numbered = [m for m in mounts if m.id]
    if len(numbered) != len(mounts):
        last = {m.path: m for m in mounts}
        return [m for m in mounts if last[m.path] is m]
    by_id = {m.id: m for m in mounts}
    children: dict[int, set[str]] = {}
    for mount in mounts:
        if mount.parent != mount.id:
            children.setdefault(mount.parent, set()).add(mount.path)

    def covered(mount: RawMount) -> bool:
        if mount.path in children.get(mount.id, ()):
            return True
        if mount.parent not in by_id:
            return False
        # A sibling at a place above came later: had it been there first, it would be the parent.
        siblings = children[mount.parent]
        return any(above in siblings for above in _places_above(mount.path))

    hidden = {m.id for m in mounts if covered(m)}

    def reachable(mount: RawMount) -> bool:
        if mount.id in hidden:
            return False
        seen = {mount.id}
        parent = by_id.get(mount.parent)
        child = mount
        while parent is not None and parent.id not in seen:
            # A parent that is covered by this very child at the same place is no hindrance.
            if parent.id in hidden and parent.path != child.path:
                return False
            seen.add(parent.id)
            child, parent = parent, by_id.get(parent.parent)
        return True

    return [m for m in mounts if reachable(m)]


def _places_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:n]) or "/" for n in range(1, len(parts)) if path != "/"]


def to_mount(raw: RawMount) -> Mount:
    kind, windows_path = classify(raw)
    return Mount(
        path=raw.path,
        fstype=raw.fstype,
        kind=kind,
        source=raw.source,
        read_only="ro" in raw.options.split(","),
        windows_path=windows_path,
    )


def classify(raw: RawMount) -> tuple[MountKind, str | None]:
    r"""What lies behind the mount, and its Windows path (``D:\`` or ``\\nas\share``) where it has one."""
    if raw.fstype in _PLAN9:
        return _classify_plan9(raw)
    if raw.fstype == "drvfs":
        windows = windows_form(raw.source)
        unc = windows is not None and windows.startswith("\\\\")
        return (MountKind.NETWORK if unc else MountKind.WINDOWS_DRIVE), windows
    if raw.fstype == "virtiofs":
        if raw.source.startswith("drvfs"):
            letter = re.match(r"drvfsa?([A-Z])\d*$", raw.source) or re.search(r"/([A-Za-z])$", raw.path)
            return MountKind.WINDOWS_DRIVE, f"{letter.group(1).upper()}:\\" if letter else None
        return MountKind.OTHER, None
    return _classify_linux(raw), None


def _classify_linux(raw: RawMount) -> MountKind:
    name = raw.fstype.removeprefix("fuse.")
    if name in _NETWORK:
        return MountKind.NETWORK
    if raw.fstype in _MEMORY:
        return MountKind.MEMORY
    if raw.fstype in _VIRTUAL or raw.path.startswith(("/usr/lib/wsl/", "/usr/lib/modules/", "/lib/modules/")):
        return MountKind.VIRTUAL
    if raw.fstype in _LINUX:
        return MountKind.LINUX
    return MountKind.OTHER


def _classify_plan9(raw: RawMount) -> tuple[MountKind, str | None]:
    parts = (option.partition("=") for option in re.split(r"[,;]", raw.options))
    options = {key: value for key, _equals, value in parts}
    aname = options.get("aname", "")
    path = options.get("path", "")
    if aname not in ("", "drvfs"):
        return MountKind.VIRTUAL, None
    if path.upper().startswith("UNC\\"):
        return MountKind.NETWORK, "\\\\" + path[4:]
    windows = windows_form(path) or windows_form(raw.source)
    if windows is not None and windows.startswith("\\\\"):
        return MountKind.NETWORK, windows
    if aname == "drvfs" or windows is not None:
        return MountKind.WINDOWS_DRIVE, windows
    return MountKind.OTHER, None


def windows_form(text: str) -> str | None:
    r"""``C:\`` for "C:", "C:\" and "c:/"; a UNC or longer path as it stands; None for what is no such path."""
    text = text.replace("/", "\\")
    if re.fullmatch(r"[A-Za-z]:\\?", text):
        return text[0].upper() + ":\\"
    if re.match(r"[A-Za-z]:\\", text):
        return text[0].upper() + text[1:]
    if re.match(r"\\\\[^\\]+\\", text):
        return text
    return None


def _with_windows_path(host: Host, mount: Mount) -> Mount:
    """Newer WSL serves all virtiofs drives from one device and leaves each one's Windows path as a link."""
    if mount.fstype != "virtiofs" or mount.kind != MountKind.WINDOWS_DRIVE:
        return mount
    try:
        said = windows_form(host.readlink("/run/wsl/virtiofs/" + mount.source))
    except OSError:
        return mount
    return replace(mount, windows_path=said or mount.windows_path)


def to_linux_path(windows_path: str, mounts: list[Mount] | tuple[Mount, ...]) -> str | None:
    r"""The Linux path of a Windows path (``C:\Users\user``) by the longest mounted Windows prefix, or None."""
    wanted = windows_path.replace("/", "\\")
    best: tuple[int, str] | None = None
    for mount in mounts:
        if mount.windows_path is None:
            continue
        prefix = mount.windows_path.rstrip("\\")
        if (wanted.lower().rstrip("\\") + "\\").startswith(prefix.lower() + "\\"):
            rest = [part for part in wanted[len(prefix) :].split("\\") if part]
            path = "/".join([mount.path.rstrip("/"), *rest]) or "/"
            if best is None or len(prefix) > best[0]:
                best = (len(prefix), path)
    return best[1] if best else None


def path_in_wsl(windows_path: str, root: str = "/mnt/") -> str | None:
    r"""Where WSL has a path of Windows: ``C:\models`` under its root of drives, ``\\wsl.localhost\Ubuntu\home`` in the
    distribution itself; None for any other path."""
    share = re.match(r"(?:\\{1,2}|//)(?:wsl\.localhost|wsl\$)[\\/][^\\/]+(?=[\\/])", windows_path, re.I)
    drive = re.match(r"([A-Za-z]):(?=[\\/])", windows_path)
    if share is None and drive is None:
        return None
    begin = f"{root.rstrip('/')}/{drive[1].lower()}" if drive is not None else ""
    rest = windows_path[(drive or share).end() :]  # type: ignore[union-attr]
    return "/".join([begin, *(part for part in re.split(r"[\\/]", rest) if part)]) or "/"


_NO_USAGE = (MountKind.VIRTUAL,)


def _fill_usage(host: Host, mounts: list[Mount]) -> None:
    """Ask each file system for its space, side by side: a dead network share then costs only itself."""
    answers: dict[int, DiskUsage | OSError] = {}

    def ask(number: int, path: str) -> None:
        try:
            answers[number] = host.disk_usage(path)
        except OSError as fault:
            answers[number] = fault
        except ValueError as fault:
            answers[number] = OSError(str(fault))

    waiting: list[threading.Thread] = []
    for number, mount in enumerate(mounts):
        if mount.kind in _NO_USAGE:
            continue
        if mount.kind in (MountKind.LINUX, MountKind.MEMORY):
            ask(number, mount.path)
        else:
            thread = threading.Thread(target=ask, args=(number, mount.path), daemon=True)
            thread.start()
            waiting.append(thread)
    deadline = time.monotonic() + USAGE_TIMEOUT_S
    for thread in waiting:
        thread.join(max(0.0, deadline - time.monotonic()))
    nothing: Fact[int] = unknown(_("nothing can be stored there"))
    for number, mount in enumerate(mounts):
        total, free = _usage_facts(answers.get(number)) if mount.kind not in _NO_USAGE else (nothing, nothing)
        mounts[number] = replace(mount, total_bytes=total, free_bytes=free)


def _usage_facts(answer: DiskUsage | OSError | None) -> tuple[Fact[int], Fact[int]]:
    if answer is None:
        missing: Fact[int] = unknown(_("did not answer within {seconds:g} s").format(seconds=USAGE_TIMEOUT_S))
        return missing, missing
    if isinstance(answer, OSError):
        missing = unknown(str(answer.strerror or answer))
        return missing, missing
    return known(answer.total_bytes, "statvfs"), known(answer.free_bytes, "statvfs")


def _windows_drives(host: Host) -> tuple[Mount, ...]:
    """On Windows itself: the drives that answer, fixed ones first."""
    drives = []
    for letter in "CDEFGHIJKLMNOPQRSTUVWXYZAB":
        path = f"{letter}:\\"
        if host.exists(path):
            drives.append(Mount(path, "ntfs", MountKind.WINDOWS_DRIVE, path, windows_path=path))
    _fill_usage(host, drives)
    return tuple(drives)
