"""WSL: which of its kinds this is, its versions in any language, and whose Windows folder is the right one."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.facts import SystemKind
from wizard.host import FakeHost
from wizard.probes import DEFAULT_TIMEOUT_S, PROBES, Probe, run_all, system, windows_host, wsl
from wizard.probes.wsl import parse_distros, parse_wsl_conf, parse_wsl_version

WSL2 = "6.6.87.2-microsoft-standard-WSL2"
C_DRIVE = r"97 75 0:52 / {root}c rw - 9p C:\134 rw,aname=drvfs;path=C:\134;uid=1000" + "\n"
ROOT = "75 66 8:48 / / rw - ext4 /dev/sdd rw\n"
OVERLAY = "75 66 0:84 / / rw - overlay overlay rw,lowerdir=/x\n"
SYSTEM = "/mnt/c/Windows/System32"
ASK = (f"{SYSTEM}/cmd.exe", "/u", "/c", "echo %USERPROFILE%")


@pytest.mark.parametrize(
    ("release", "files", "env", "expected"),
    [
        ("4.4.0-22621-Microsoft", {}, {"WSL_DISTRO_NAME": "U"}, SystemKind.WSL1),
        (WSL2, {}, {"WSL_DISTRO_NAME": "U"}, SystemKind.WSL2),
        ("4.19.84-microsoft-standard", {}, {}, SystemKind.WSL2),
        # a kernel of one's own lacks the word
        ("6.12.1-mine", {"/dev/dxg": ""}, {"WSL_DISTRO_NAME": "U"}, SystemKind.WSL2),
        ("6.12.1-mine", {"/usr/lib/wsl/lib/libcuda.so.1": ""}, {}, SystemKind.WSL2),
        (WSL2, {"/.dockerenv": "", "/proc/self/mountinfo": OVERLAY}, {}, SystemKind.WSL_CONTAINER),
        (WSL2, {"/proc/1/cgroup": "12:memory:/docker/0123abc\n"}, {}, SystemKind.WSL_CONTAINER),
        # a distro made from a container image
        (WSL2, {"/.dockerenv": "", "/proc/self/mountinfo": ROOT}, {"WSL_DISTRO_NAME": "U"}, SystemKind.WSL2),
        (WSL2, {"/.dockerenv": "", "/proc/self/mountinfo": ROOT}, {}, SystemKind.WSL2),
        # systemd calls WSL a container, too
        (WSL2, {"/run/systemd/container": "wsl\n"}, {"container": "wsl"}, SystemKind.WSL2),
        ("6.8.0-79-generic", {}, {}, SystemKind.NATIVE),
        ("6.8.0-79-generic", {"/proc/1/cgroup": "0::/init.scope\n"}, {}, SystemKind.NATIVE),
        ("6.8.0-79-generic", {"/run/.containerenv": ""}, {}, SystemKind.CONTAINER),
        ("6.8.0-79-generic", {"/proc/1/cgroup": "0::/kubepods.slice/x\n"}, {}, SystemKind.CONTAINER),
        ("6.8.0-79-generic", {}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, SystemKind.CONTAINER),
        ("6.8.0-79-generic", {"/run/systemd/container": "lxc"}, {}, SystemKind.CONTAINER),
        ("6.8.0-79-generic", {"/.dockerenv": "", "/proc/self/mountinfo": OVERLAY}, {}, SystemKind.CONTAINER),
        # a virtual machine whose disk was made from an image
        ("6.18.1", {"/.dockerenv": "", "/proc/self/mountinfo": ROOT}, {}, SystemKind.NATIVE),
        # a container on the storage driver that uses whole devices
        (
            "6.8.0",
            {
                "/.dockerenv": "",
                "/proc/self/mountinfo": "1 0 8:1 /rootfs / rw - ext4 /dev/mapper/docker-8:1-x rw\n",
            },
            {},
            SystemKind.CONTAINER,
        ),
    ],
)
def test_kinds(
    make_host: Any, release: str, files: dict[str, str], env: dict[str, str], expected: SystemKind
) -> None:
    host = make_host(files={"/proc/sys/kernel/osrelease": release + "\n", **files}, env=env)
    assert system.detect_kind(host) == expected


def test_kind_by_proc_version_alone(make_host: Any) -> None:
    version = "Linux version 5.15.133.1-microsoft-standard-WSL2 (root@x) (gcc) #1 SMP\n"
    host = make_host(files={"/proc/version": version})
    assert system.detect_kind(host) == SystemKind.WSL2
    assert system.probe(host).kernel.value == "5.15.133.1-microsoft-standard-WSL2"


@pytest.mark.parametrize(
    ("platform", "kind"), [("win32", "windows"), ("darwin", "macos"), ("freebsd14", "other")]
)
def test_other_platforms(make_host: Any, platform: str, kind: str) -> None:
    assert system.probe(make_host(platform=platform)).kind.value == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "WSL version: 2.6.1.0\nKernel version: 6.6.87.2-1\nWindows version: 10.0.26100.1\n",
            ("2.6.1.0", "10.0.26100.1"),
        ),
        (
            "WSL-Version: 2.4.13.0\r\nKernelversion: 5.15.167.4-1\r\nWindows-Version: 10.0.22631.5\r\n",
            ("2.4.13.0", "10.0.22631.5"),
        ),
        (
            "WSL 版本： 2.5.9.0\n内核版本： 6.6.87.2-1\nWindows 版本： 10.0.22621.3007\n",
            ("2.5.9.0", "10.0.22621.3007"),
        ),
        ("Version WSL : 2.3.26.0\nVersion du noyau : 5.15.167.4-1\n", ("2.3.26.0", None)),
        ("WSL version: 2.6.1.0\n", ("2.6.1.0", None)),
        ("Invalid command line option: --version\nUsage: wsl.exe [Argument]\n", (None, None)),
        ("", (None, None)),
    ],
)
def test_versions_in_any_language(text: str, expected: tuple[str | None, str | None]) -> None:
    told = parse_wsl_version(text)
    assert (told.wsl.value, told.windows.value) == expected


@given(st.text(max_size=200))
def test_any_text_is_survived(text: str) -> None:
    parse_wsl_version(text)
    parse_wsl_conf(text)
    parse_distros(text)
    windows_host.parse(text, "x")


def test_wsl_conf_as_wsl_reads_it() -> None:
    text = (
        "# a comment\n[Automount]\nroot = /first/ # inline\nROOT=/second/\n"
        '[boot]\nsystemd="true"\n[network]\nhostname = "a#b"\nthis line is none\n[interop]\nenabled=false\n'
    )
    assert parse_wsl_conf(text) == {
        "automount.root": "/first/",
        "boot.systemd": "true",
        "network.hostname": "a#b",
    }
    # WSL stops at what it cannot read, be it in the first line.
    assert parse_wsl_conf("[ boot ]\nsystemd=true\n") == {}
    assert parse_wsl_conf("\ufeff[boot]\nsystemd=true\n") == {}


def test_distros() -> None:
    text = "  NAME            STATE           VERSION\n* Ubuntu          Running         2\n  My Old Distro   Gestoppt        1\n"
    one, two = parse_distros(text)
    assert (one.name, one.version, one.default) == ("Ubuntu", 2, True)
    assert (two.name, two.version, two.state, two.default) == ("My Old Distro", 1, "Gestoppt", False)


def distro(
    make_host: Any, commands: dict[Any, Any] | None = None, interop: bool = True, **more: Any
) -> FakeHost:
    """A WSL2 distro with C: mounted."""
    root = more.pop("root", "/mnt/")
    files = {
        "/proc/sys/kernel/osrelease": WSL2,
        "/proc/self/mountinfo": ROOT + C_DRIVE.format(root=root),
        f"{root}c/Windows/System32/cmd.exe": "",
        f"{root}c/Windows/System32/wsl.exe": "",
        f"{root}c/Windows/System32/WindowsPowerShell/v1.0/powershell.exe": "",
        **more.pop("files", {}),
    }
    if interop:
        files["/proc/sys/fs/binfmt_misc/WSLInterop-late"] = "enabled\ninterpreter /init\n"
    host: FakeHost = make_host(files=files, commands=commands, env={"WSL_DISTRO_NAME": "Ubuntu"}, **more)
    return host


def test_the_profile_is_asked_from_windows(make_host: Any) -> None:
    path = "D:\\Profile\\Zoë Ω"
    host = distro(
        make_host,
        {
            ASK: {"stdout": path + "\r\n", "encoding": "utf-16-le"},
            ("wslpath", "-u", path): "/mnt/d/Profile/Zoë Ω\n",
            (f"{SYSTEM}/wsl.exe", "--version"): {
                "stdout": "WSL version: 2.6.1.0\r\n",
                "encoding": "utf-16-le",
            },
        },
        programs={"wslpath": "/usr/bin/wslpath"},
        files={"/mnt/d/Profile/Zoë Ω/.wslconfig": b"[wsl2]\r\nmemory=4GB\r\n"},
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.interop.value is True
    assert facts.windows_profile.value == "/mnt/d/Profile/Zoë Ω"
    assert facts.windows_profile_windows.value == path
    assert facts.wslconfig_bytes == b"[wsl2]\r\nmemory=4GB\r\n"
    assert host.misses == []


def test_without_wslpath_the_mounts_translate(make_host: Any) -> None:
    host = distro(
        make_host,
        {
            ASK: {"stdout": "C:\\Users\\kim\r\n", "encoding": "utf-16-le"},
            (f"{SYSTEM}/wsl.exe", "--version"): "",
        },
        entries={"/mnt/c/Users/kim": {"dir": True}},
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value == "/mnt/c/Users/kim"
    assert facts.wslconfig_path == "/mnt/c/Users/kim/.wslconfig"
    assert facts.wslconfig_bytes is None


@pytest.mark.parametrize(
    "answer",
    [
        {"stdout": "%USERPROFILE%\r\n", "encoding": "utf-16-le"},
        {"stdout": "", "returncode": 126},
        {"stdout": "", "delay_s": 60},
        {"stdout": "\ufffd\ufffd"},
    ],
)
def test_a_cmd_that_does_not_tell(make_host: Any, answer: dict[str, Any]) -> None:
    host = distro(
        make_host,
        {ASK: answer, (f"{SYSTEM}/wsl.exe", "--version"): ""},
        entries={"/mnt/c/Users/a/AppData": {"dir": True}, "/mnt/c/Users/b/AppData": {"dir": True}},
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value is None
    assert "cmd.exe" in facts.windows_profile.reason
    assert facts.windows_profile_candidates == ("/mnt/c/Users/a", "/mnt/c/Users/b")
    assert facts.wslconfig_path is None


def test_the_only_person_is_taken_when_interop_is_off(make_host: Any) -> None:
    people = {
        f"/win/c/Users/{name}": {"dir": True}
        for name in (
            "Public",
            "Default",
            "Default User",
            "All Users",
            "kim",
            ".NET v4.5",
            "DEFAPPPOOL$",
            "ghost",
        )
    }
    people["/win/c/Users/kim/NTUSER.DAT"] = {"size_bytes": 5}
    host = distro(
        make_host,
        interop=False,
        root="/win/",
        entries=people,
        files={"/etc/wsl.conf": "[automount]\nroot=/win\n"},
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.automount_root == "/win/"
    assert facts.interop.value is False
    assert facts.windows_profile.value == "/win/c/Users/kim"
    assert facts.windows_profile_windows.value == "C:\\Users\\kim"


def test_users_that_may_not_be_listed(make_host: Any) -> None:
    host = distro(make_host, interop=False, entries={"/mnt/c/Users": {"dir": True, "error": "EACCES"}})
    facts = wsl.probe(host)
    assert facts is not None
    assert (facts.windows_profile.value, facts.windows_profile_candidates) == (None, ())
    assert facts.windows_profile.reason


def test_an_inbox_wsl_is_told_apart(make_host: Any) -> None:
    usage = {"stdout": "Invalid command line option: --version\r\n", "encoding": "utf-16-le", "returncode": 1}
    host = distro(make_host, {(f"{SYSTEM}/wsl.exe", "--version"): usage, ASK: ""})
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.version.value is None
    assert "1.0" in facts.version.reason


def test_hanging_windows_programs_cost_little(make_host: Any) -> None:
    hang = {"stdout": "", "delay_s": 60}
    host = distro(
        make_host,
        {
            (f"{SYSTEM}/wsl.exe", "--version"): hang,
            ASK: hang,
            ("wslinfo", "--version"): hang,
            ("wslinfo", "--networking-mode"): hang,
        },
        programs={"wslinfo": "/usr/bin/wslinfo"},
        entries={"/mnt/c/Users/kim/AppData": {"dir": True}},
    )
    asked: list[float] = []
    run = host.run

    def watched(argv: Any, timeout_s: float = 5.0, **more: Any) -> Any:
        asked.append(timeout_s)
        return run(argv, timeout_s, **more)

    host.run = watched  # type: ignore[method-assign]
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value == "/mnt/c/Users/kim"
    assert (facts.version.value, facts.networking_mode.value) == (None, None)
    assert sum(asked) < DEFAULT_TIMEOUT_S


def test_the_files_answer_when_the_probe_ran_out_of_time(
    make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = distro(make_host, interop=False, root="/win/", files={"/etc/wsl.conf": "[automount]\nroot=/win\n"})
    changed = tuple(
        Probe(p.name, p.label, lambda _h: time.sleep(3), p.summary, p.nothing)
        if p.name in ("wsl", "disks", "system")
        else p
        for p in PROBES
    )
    monkeypatch.setattr("wizard.probes.PROBES", changed)
    machine = run_all(host, timeout_s=0.2)
    assert machine.system == SystemKind.WSL2
    assert machine.wsl is not None
    assert (machine.wsl.distro.value, machine.wsl.automount_root) == ("Ubuntu", "/win/")
    assert "0.2 s" in machine.wsl.version.reason
    mount = machine.mount_of("/win/c/models")
    assert mount is not None
    assert mount.kind.value == "windows-drive"
    assert "0.2 s" in mount.free_bytes.reason


PS = (
    f"{SYSTEM}/WindowsPowerShell/v1.0/powershell.exe",
    "-NoProfile",
    "-NonInteractive",
    "-Command",
    windows_host.QUERY,
)


def test_host_figures_are_asked_once_and_kept(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    host = distro(make_host, {PS: "68442697728 32 10.0.22631.0\r\n"})
    kept: dict[str, str] = {}
    monkeypatch.setattr(host, "cache_put", kept.__setitem__)
    facts = windows_host.probe(host)
    assert facts is not None
    assert (facts.memory_bytes.value, facts.logical_cpus.value) == (68442697728, 32)
    assert kept == {"windows-host": "68442697728 32 10.0.22631.0"}
    second = distro(make_host, cache=kept)
    again = windows_host.probe(second)
    assert again is not None
    assert again.memory_bytes.value == 68442697728


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"stdout": "", "delay_s": 60}, "7 s"),
        ({"stdout": "garbage"}, "read"),
        ({"stderr": "no", "returncode": 1}, "no"),
    ],
)
def test_a_powershell_that_does_not_tell(make_host: Any, answer: dict[str, Any], said: str) -> None:
    facts = windows_host.probe(distro(make_host, {PS: answer}))
    assert facts is not None
    assert facts.memory_bytes.value is None
    assert said in facts.memory_bytes.reason


def test_no_windows_around_a_native_linux(make_host: Any) -> None:
    host = make_host(files={"/proc/sys/kernel/osrelease": "6.8.0-79-generic"})
    assert wsl.probe(host) is None
    assert windows_host.probe(host) is None


def test_windows_without_wsl(make_host: Any) -> None:
    offer = {
        "stdout": "Windows Subsystem for Linux is not installed.\r\n",
        "encoding": "utf-16-le",
        "returncode": 1,
    }
    host = make_host(
        platform="win32",
        home="C:\\Users\\kim",
        commands={("wsl.exe", "-l", "-v"): offer, ("wsl.exe", "--version"): offer},
    )
    assert wsl.probe(host) is None


def test_a_linux_driver_inside_wsl_is_seen(make_host: Any) -> None:
    host = distro(make_host, interop=False, files={"/usr/lib/x86_64-linux-gnu/libcuda.so.1": ""})
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.linux_driver_inside
