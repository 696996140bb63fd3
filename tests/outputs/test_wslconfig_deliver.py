"""Handing the file over, and whether its settings are in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.outputs.wsl_machine import GIB, wsl_machine
from wizard.errors import WizardError
from wizard.facts import Mount, MountKind, SystemKind, unknown
from wizard.outputs.wslconfig import (
    WslAdvice,
    hand_copy,
    parse,
    shutdown_text,
    to_filespec,
    tune,
    verify_in_force,
)

OWN = b"# mine\r\n[wsl2]\r\nswap=9GB\r\n"


def advice(existing: bytes | None = None) -> WslAdvice:
    return tune(host_ram_bytes=32 * GIB, host_cpus=16, weights_bytes=40 * GIB, gpu_count=1, existing=existing)


def test_the_proposal_is_the_users_own_file_with_our_lines() -> None:
    machine = wsl_machine(wslconfig_bytes=OWN)
    spec = to_filespec(machine, advice(OWN), "/home/ann/out")
    assert (spec.path, spec.edited) == (".wslconfig", False)
    ours = [line for line in spec.content.splitlines(keepends=True) if not line.startswith((b"# vllm-wizard: ", b"#     "))]
    assert b"".join(ours) == OWN + b"memory=24GB\r\nprocessors=14\r\n"
    assert spec.content.count(b"# vllm-wizard: ") == 2


def test_in_place_it_is_an_edit_of_what_was_read() -> None:
    spec = to_filespec(wsl_machine(wslconfig_bytes=OWN), advice(OWN), "/home/ann/out", apply=True)
    assert (spec.path, spec.edited, spec.expected_bytes) == ("/mnt/c/Users/ann/.wslconfig", True, OWN)
    new = to_filespec(wsl_machine(), advice(), "/home/ann/out", apply=True)
    assert (new.edited, new.expected_bytes) == (True, None)
    assert parse(new.content).get("wsl2.memory") is not None


def test_an_unknown_profile_is_said_with_the_way_by_hand() -> None:
    machine = wsl_machine(wslconfig_path=None, windows_profile=unknown("interop is off"))
    with pytest.raises(WizardError, match="interop is off") as caught:
        to_filespec(machine, advice(), "/home/ann/out", apply=True)
    assert "Copy-Item" in str(caught.value)
    assert "could not be read" in hand_copy(machine, "/home/ann/out").note
    assert "no .wslconfig yet" in hand_copy(wsl_machine(), "/home/ann/out").note
    assert "your own file" in hand_copy(wsl_machine(wslconfig_bytes=OWN), "/home/ann/out").note


def test_nothing_to_change_still_makes_a_file() -> None:
    empty = replace(advice(), settings=())
    assert to_filespec(wsl_machine(), empty).content.startswith(b"#")
    assert to_filespec(wsl_machine(wslconfig_bytes=OWN), empty).content == OWN


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("/home/ann/my out", r"'\\wsl.localhost\Ubuntu\home\ann\my out\.wslconfig'"),
        ("/home/ann/it's é", r"'\\wsl.localhost\Ubuntu\home\ann\it''s é\.wslconfig'"),
        ("/home/ann/$x`(1)", r"'\\wsl.localhost\Ubuntu\home\ann\$x`(1)\.wslconfig'"),
        ("/home/ann/a’b", r"'\\wsl.localhost\Ubuntu\home\ann\a’’b\.wslconfig'"),
        ("/mnt/d/out", r"'D:\out\.wslconfig'"),
        ("/mnt/d", r"'D:\.wslconfig'"),
    ],
)
def test_the_line_for_powershell(folder: str, source: str) -> None:
    drive = Mount("/mnt/d", "9p", MountKind.WINDOWS_DRIVE, "D:\\", windows_path="D:\\")
    copy = hand_copy(wsl_machine(mounts=(drive,)), folder)
    assert f"-LiteralPath {source} " in copy.line
    assert "\n" not in copy.line
    assert "ann" not in copy.line.replace(source, "")  # Windows is asked for the profile


@pytest.mark.parametrize(
    "wsl", [{"wslconfig_path": None, "windows_profile": unknown("interop is off")}, {"wslconfig_unread": True}], ids=["no profile", "unread"]
)
def test_a_file_that_could_not_be_read_is_never_replaced(wsl: dict[str, Any]) -> None:
    copy = hand_copy(wsl_machine(**wsl), "/home/ann/out")
    there, sep, none = copy.line.partition("} else {")
    assert sep
    assert there.startswith("$f = (Join-Path $env:USERPROFILE '.wslconfig'); if (Test-Path -LiteralPath $f) {")
    assert "Copy-Item" not in there
    assert "left as it is" in there
    assert "Get-Content -LiteralPath '\\\\wsl.localhost\\Ubuntu\\home\\ann\\out\\.wslconfig'" in there
    assert "Copy-Item -LiteralPath" in none
    assert "before-vllm" not in copy.line + copy.note
    assert "Remove-Item" in copy.note


@pytest.mark.parametrize("own", [OWN, None])
def test_the_backup_is_the_file_before_the_first_copy_and_comes_back(own: bytes | None) -> None:
    copy = hand_copy(wsl_machine(wslconfig_bytes=own), "/home/ann/out")
    assert "-not (Test-Path -LiteralPath ($f + '.before-vllm'))" in copy.line
    assert "To take it back one day:" in copy.note
    back = copy.note.partition("To take it back one day:")[2]
    assert "Move-Item -Force -LiteralPath ($f + '.before-vllm') -Destination $f" in back
    assert ("Remove-Item" in back) is (own is None)


def test_the_line_without_a_known_distro_asks_wslpath() -> None:
    machine = wsl_machine(distro=unknown("not set"))
    assert "(wsl.exe wslpath -w '/home/ann/out/.wslconfig')" in hand_copy(machine, "/home/ann/out").line


def test_the_line_on_windows_itself() -> None:
    machine = wsl_machine(system=SystemKind.WINDOWS)
    assert r"'C:\Users\O''Neil\out\.wslconfig'" in hand_copy(machine, "C:\\Users\\O'Neil\\out\\").line


def test_what_a_shutdown_ends() -> None:
    text = shutdown_text(wsl_machine(desktop=True), ["Debian"])
    for word in ("Ubuntu", "Debian", "Docker Desktop"):
        assert word in text
    assert "Docker" not in shutdown_text(wsl_machine(distro=unknown("?")))


WANTED = {"wsl2.memory": "24GB", "wsl2.swap": "6GB", "wsl2.processors": "14"}
FILE = b"[wsl2]\nmemory=24GB\nswap=6GB\nprocessors=14\n"


def test_in_force() -> None:
    for total in (23.4, 23.0, 24.0):
        machine = wsl_machine(memory_gib=total, swap_gib=6, cpus=14, wslconfig_bytes=FILE)
        assert verify_in_force(machine, WANTED) == []
    clamped = wsl_machine(memory_gib=31.2, wslconfig_bytes=b"[wsl2]\nmemory=64GB\n")
    assert verify_in_force(clamped, {"wsl2.memory": "64GB"}) == []


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (FILE, ("wsl --shutdown", "wsl2.memory=24GB")),
        (None, ("There is no C:\\Users\\ann\\.wslconfig",)),
        (b"[experimental]\nmemory=24GB\nswap=6GB\nprocessors=14\n", ("line 2", "wrong section", "[wsl2]")),
        (b"[wsl2]\nmemory=24 GB\nmemory=24GB\nswap=6GB\nprocessors=14\n", ("line 2", "24 GB", "refuses")),
        (b"[wsl2]\nmemory=8GB\nmemory=24GB\nswap=6GB\nprocessors=14\n", ("line 2", "memory=8GB, not 24GB")),
        (b"[wsl2\nmemory=24GB\nswap=6GB\nprocessors=14\n", ("line 2", "wrong section")),
        (b"\xfe\xff\0[", ("UTF-8",)),
        (b"[wsl2]\nmacAddress=1\n" + FILE, ("macAddress",)),
        (b"# nothing\n", ("has no wsl2.memory",)),
        (b"[wsl2]\n; memory=24GB\n", ("line 2 is broken",)),
    ],
)
def test_reasons_why_it_is_not_in_force(file: bytes | None, words: tuple[str, ...]) -> None:
    machine = wsl_machine(memory_gib=15.5, swap_gib=4, cpus=16, wslconfig_bytes=file)
    reasons = " ".join(verify_in_force(machine, WANTED))
    for word in words:
        assert word in reasons


def test_clamps_policies_and_failing_swap_are_told_apart() -> None:
    data = b"[wsl2]\nprocessors=20\nnetworkingMode=mirrored\nswap=6GB\nswapFile=Q:\\\\s.vhdx\n"
    machine = wsl_machine(cpus=16, swap_gib=0, wslconfig_bytes=data)
    assert "logical processors" in verify_in_force(machine, {"wsl2.processors": "20"})[0]
    assert "policy" in verify_in_force(machine, {"wsl2.networkingMode": "mirrored"})[0]
    assert "Q:\\s.vhdx" in verify_in_force(machine, {"wsl2.swap": "6GB"})[0]
    above = wsl_machine(memory_gib=15.5, wslconfig_bytes=b"[wsl2]\nmemory=64GB\n")
    assert "more than the 32.0 GiB" in verify_in_force(above, {"wsl2.memory": "64GB"})[0]


def test_what_is_not_known_gives_no_reason() -> None:
    machine = wsl_machine(wslconfig_bytes=FILE)
    blind = replace(
        machine,
        memory=replace(machine.memory, total_bytes=unknown("?"), swap_total_bytes=unknown("?")),
        cpu=replace(machine.cpu, logical_count=unknown("?")),
    )
    assert verify_in_force(blind, WANTED) == []
    assert verify_in_force(replace(machine, system=SystemKind.NATIVE), WANTED) == []
    lost = wsl_machine(wslconfig_path=None, windows_profile=unknown("interop is off"))
    assert "interop is off" in verify_in_force(lost, WANTED)[0]


def test_several_users_are_named_as_a_reason() -> None:
    machine = wsl_machine(windows_profile_candidates=("/mnt/c/Users/ann", "/mnt/c/Users/bo"))
    assert any("several Windows users" in r for r in verify_in_force(machine, WANTED))
