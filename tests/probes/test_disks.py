"""Mount tables of all kinds: what lies behind a path is told by the longest prefix and its file system."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.facts import Machine, Mount, MountKind
from wizard.host import DiskUsage
from wizard.probes import run_all
from wizard.probes.disks import (
    RawMount,
    classify,
    parse_mountinfo,
    parse_mounts,
    probe,
    read_mounts,
    to_linux_path,
    unescape,
    visible,
    windows_form,
)

K = MountKind


@pytest.mark.parametrize(
    ("line", "kind", "windows"),
    [
        # WSL2, as the kernel escapes it and as some tools print it
        (r"E:\134 /mnt/e 9p rw,aname=drvfs;path=E:\134;uid=1000,access=client 0 0", K.WINDOWS_DRIVE, "E:\\"),
        ("E: /data 9p rw,aname=drvfs;path=E:;uid=1000 0 0", K.WINDOWS_DRIVE, "E:\\"),
        (r"drvfs /x 9p rw,aname=drvfs;path=UNC\134box\134models;uid=0 0 0", K.NETWORK, "\\\\box\\models"),
        (r"C:\134Tools\040and\134More /host 9p rw,noatime 0 0", K.WINDOWS_DRIVE, "C:\\Tools and\\More"),
        ("lib /usr/lib/wsl/inbox 9p ro,aname=lib;fmask=222 0 0", K.VIRTUAL, None),
        ("drivers /usr/lib/wsl/drivers 9p ro,aname=drivers;fmask=222 0 0", K.VIRTUAL, None),
        ("none /usr/lib/wsl/lib overlay rw,lowerdir=/a 0 0", K.VIRTUAL, None),
        # virtiofs drives of newer WSL
        ("drvfsD3 /mnt/d virtiofs rw,noatime 0 0", K.WINDOWS_DRIVE, "D:\\"),
        ("drvfsaC0 /mnt/c virtiofs rw,noatime 0 0", K.WINDOWS_DRIVE, "C:\\"),
        ("drvfsa /win/f virtiofs rw,noatime 0 0", K.WINDOWS_DRIVE, "F:\\"),
        ("models /models virtiofs rw 0 0", K.OTHER, None),
        # WSL1
        (r"D:\134 /mnt/d drvfs rw,noatime,case=off 0 0", K.WINDOWS_DRIVE, "D:\\"),
        (r"\134\134box\134x /mnt/x drvfs rw 0 0", K.NETWORK, "\\\\box\\x"),
        ("rootfs / wslfs rw,noatime 0 0", K.LINUX, None),
        # a bind mount from Windows into a container of Docker Desktop
        (
            r"C:\134 /app 9p rw,aname=drvfs;path=C:\134;uid=0;metadata;symlinkroot=/mnt/host/ 0 0",
            K.WINDOWS_DRIVE,
            "C:\\",
        ),
        # other virtual machines' 9p
        ("share0 /srv 9p rw,trans=virtio,version=9p2000.L 0 0", K.OTHER, None),
        # Linux
        ("/dev/sdf1 /mnt/wsl/PHYSICALDRIVE1p1 ext4 rw 0 0", K.LINUX, None),
        ("tank/models /models zfs rw,xattr 0 0", K.LINUX, None),
        ("overlay / overlay rw,lowerdir=/x 0 0", K.LINUX, None),
        ("10.0.0.5:/x /nfs nfs4 rw,vers=4.2 0 0", K.NETWORK, None),
        ("//nas/x /smb cifs rw 0 0", K.NETWORK, None),
        ("me@host: /remote fuse.sshfs rw 0 0", K.NETWORK, None),
        ("s3fs /bucket fuse.s3fs rw 0 0", K.NETWORK, None),
        ("tmpfs /mnt/c/scratch tmpfs rw 0 0", K.MEMORY, None),
        ("/dev/sdb1 /media/usb fuseblk rw 0 0", K.OTHER, None),
        ("/dev/loop3 /snap/x/1 squashfs ro 0 0", K.VIRTUAL, None),
        ("gvfsd-fuse /run/user/1/gvfs fuse.gvfsd-fuse rw 0 0", K.VIRTUAL, None),
        ("something /odd neverheardof rw 0 0", K.OTHER, None),
    ],
)
def test_kinds(line: str, kind: MountKind, windows: str | None) -> None:
    (raw,) = parse_mounts(line + "\n")
    assert classify(raw) == (kind, windows)


def test_mountinfo_line_with_optional_fields_and_escapes() -> None:
    line = r"36 35 98:0 /sub\040dir /my\040disk\011x rw,noatime shared:1 master:2 - ext3 /dev/my\134root rw,errors=continue"
    (raw,) = parse_mountinfo(line)
    assert (raw.path, raw.root, raw.source, raw.id, raw.parent) == (
        "/my disk\tx",
        "/sub dir",
        "/dev/my\\root",
        36,
        35,
    )
    assert "errors=continue" in raw.options.split(",")


def test_broken_lines_are_passed_over() -> None:
    text = "broken line\n\n1 2 3\nx y - z\n36 35 98:0 / /a rw - ext4 /dev/a rw\n36 b 98:0 / /c rw - ext4 /dev/a rw\n"
    assert [m.path for m in parse_mountinfo(text)] == ["/a"]
    assert parse_mounts("broken line\n") == []


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    for raw in [*parse_mountinfo(text), *parse_mounts(text)]:
        classify(raw)
    visible(parse_mountinfo(text))


_PATH = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20
).map(lambda t: "/" + t)


@given(_PATH)
def test_any_path_comes_back_from_its_escaped_form(path: str) -> None:
    escaped = "".join(f"\\{ord(c):03o}" if c in " \t\n\\#" else c for c in path)
    assert unescape(escaped) == path
    if not any(c in path for c in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        (raw,) = parse_mountinfo(f"36 35 98:0 / {escaped} rw - ext4 /dev/a rw")
        assert raw.path == path


def test_the_longest_prefix_counts(make_host: Any) -> None:
    table = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
        "2 1 0:2 / /mnt/c rw - 9p C:\\134 rw,aname=drvfs;path=C:\\134;uid=0\n"
        "3 2 0:3 / /mnt/c/Users/x/fast rw - ext4 /dev/sdb rw\n"
        "4 1 0:4 / /mnt/cold rw - nfs4 nas:/x rw\n"
    )
    host = make_host(files={"/proc/self/mountinfo": table}, disks={"/": {"total_bytes": 9, "free_bytes": 5}})
    machine: Machine = run_all(host)

    def kind(path: str) -> MountKind:
        mount = machine.mount_of(path)
        assert mount is not None
        return mount.kind

    assert kind("/mnt/c/Users/x") == K.WINDOWS_DRIVE
    assert kind("/mnt/c/Users/x/fast/model") == K.LINUX
    assert kind("/mnt/cold/y") == K.NETWORK
    assert kind("/mnt/common") == K.LINUX
    assert kind("/") == K.LINUX


def mountinfo(*rows: tuple[int, int, str]) -> list[RawMount]:
    return [RawMount(path, "ext4", "/dev/x", "rw", number, parent) for number, parent, path in rows]


def test_a_mount_over_the_same_place_hides_the_first() -> None:
    found = visible(mountinfo((1, 0, "/"), (2, 1, "/a"), (3, 2, "/a"), (4, 3, "/a/b")))
    assert [m.id for m in found] == [1, 3, 4]


def test_a_mount_over_a_folder_above_hides_what_was_below() -> None:
    found = visible(mountinfo((1, 0, "/"), (2, 1, "/a/b"), (3, 2, "/a/b/c"), (4, 1, "/a"), (5, 4, "/a/b")))
    assert [m.id for m in found] == [1, 4, 5]


def test_the_root_may_come_late_in_the_list() -> None:
    found = visible(mountinfo((22, 27, "/proc"), (27, 1, "/"), (28, 27, "/data")))
    assert [m.id for m in found] == [22, 27, 28]


def test_mounts_without_numbers_keep_the_last_at_a_place() -> None:
    found = visible(parse_mounts("rootfs / rootfs rw 0 0\n/dev/sdb / ext4 rw 0 0\nx /y tmpfs rw 0 0\n"))
    assert [(m.path, m.fstype) for m in found] == [("/", "ext4"), ("/y", "tmpfs")]


def test_mounts_of_engines_and_packages_are_left_out(make_host: Any) -> None:
    table = "".join(
        f"{n} 1 0:{n} / {path} rw - {fstype} x rw\n"
        for n, (path, fstype) in enumerate(
            [
                ("/var/lib/docker/overlay2/1/merged", "overlay"),
                ("/snap/core/1", "squashfs"),
                ("/run/wsl/virtiofs-mounts/drvfsa", "virtiofs"),
                ("/sys/fs/cgroup", "cgroup2"),
                ("/dev/shm", "tmpfs"),
                ("/var/lib/docker", "xfs"),
            ],
            10,
        )
    )
    host = make_host(files={"/proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n" + table})
    assert [m.path for m in read_mounts(host)] == ["/", "/dev/shm", "/var/lib/docker"]


def test_virtiofs_drives_by_their_link(make_host: Any) -> None:
    table = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 /{guid} /big rw - virtiofs drvfsa9 rw\n"
    host = make_host(
        files={"/proc/self/mountinfo": table}, entries={"/run/wsl/virtiofs/drvfsa9": {"link_to": "E:\\"}}
    )
    mount = probe(host)[1]
    assert (mount.kind, mount.windows_path) == (K.WINDOWS_DRIVE, "E:\\")


def test_a_dead_share_costs_only_itself(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / /dead rw - nfs4 nas:/x rw\n3 1 0:3 / /live rw - cifs //a/b rw\n"
    host = make_host(files={"/proc/self/mountinfo": table})

    def usage(path: str) -> DiskUsage:
        if path == "/dead":
            time.sleep(5)
        return DiskUsage(100, 50)

    monkeypatch.setattr(host, "disk_usage", usage)
    monkeypatch.setattr("wizard.probes.disks.USAGE_TIMEOUT_S", 0.2)
    started = time.monotonic()
    root, dead, live = probe(host)
    assert time.monotonic() - started < 2
    assert (root.free_bytes.value, live.free_bytes.value) == (50, 50)
    assert dead.free_bytes.value is None
    assert "0.2 s" in dead.free_bytes.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c:", "C:\\"),
        ("C:\\", "C:\\"),
        ("d:/models", "D:\\models"),
        ("\\\\nas\\x", "\\\\nas\\x"),
        ("none", None),
        ("", None),
    ],
)
def test_windows_forms(text: str, expected: str | None) -> None:
    assert windows_form(text) == expected


def test_windows_paths_by_the_mounts() -> None:
    mounts = [
        Mount("/mnt/c", "9p", K.WINDOWS_DRIVE, "C:\\", windows_path="C:\\"),
        Mount("/data", "9p", K.WINDOWS_DRIVE, "C:\\w", windows_path="C:\\Users\\me\\Data"),
        Mount("/nas", "9p", K.NETWORK, "x", windows_path="\\\\nas\\x"),
    ]
    assert to_linux_path("C:\\Users\\me", mounts) == "/mnt/c/Users/me"
    assert to_linux_path("c:\\users\\ME\\data\\a b", mounts) == "/data/a b"
    assert to_linux_path("C:/Users/me/Database", mounts) == "/mnt/c/Users/me/Database"
    assert to_linux_path("\\\\nas\\x\\y", mounts) == "/nas/y"
    assert to_linux_path("E:\\x", mounts) is None
    assert to_linux_path("C:\\", [replace(mounts[0], path="/")]) == "/"
