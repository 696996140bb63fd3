"""The probes of the Windows side, run against real programs that answer as Windows' own do: UTF-16, slow, or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakewin.world import NO_VERSIONS, FakeWindows
from wizard.probes import windows_host, wsl


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWindows, "cache_get", lambda *_: None)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs costs less than its real time here."""
    for module, name in (
        (wsl, "WSLINFO_TIMEOUT_S"),
        (wsl, "WSL_EXE_TIMEOUT_S"),
        (wsl, "CMD_TIMEOUT_S"),
        (windows_host, "TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, 0.4)


def test_all_is_well(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path)
    (host.drives["C"] / "Users/user/.wslconfig").write_bytes(b"[wsl2]\r\n")
    facts = wsl.probe(host)
    assert facts is not None
    profile = str(host.drives["C"] / "Users/user")
    assert facts.windows_profile.value == profile
    assert facts.windows_profile_windows.value == "C:\\Users\\user"
    assert (facts.wslconfig_path, facts.wslconfig_bytes) == (profile + "/.wslconfig", b"[wsl2]\r\n")
    assert (facts.version.value, facts.networking_mode.value, facts.distro.value) == (
        "2.6.1",
        "nat",
        "Ubuntu",
    )
    assert facts.windows_build.value == "10.0.22631.4317"
    answer = windows_host.probe(host)
    assert answer is not None
    assert (answer.memory_bytes.value, answer.logical_cpus.value) == (34276237312, 24)


def test_windows_programs_are_never_started_from_a_linux_folder(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=NO_VERSIONS)
    wsl.probe(host)
    windows_host.probe(host)
    asked = [c for c in host.calls() if c["name"] in ("cmd.exe", "powershell.exe")]
    assert len(asked) == 2
    assert all(Path(c["cwd"]).is_relative_to(host.drives["C"]) for c in asked)


@pytest.mark.parametrize("name", ["José", "王小明", "O'Neil", "two words", "a&b (c)", "ö" * 20, "\U0001f600"])
def test_names_of_all_kinds_survive(name: str, tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=NO_VERSIONS, profile=f"C:\\Users\\{name}", users=(name, "Public"))
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile_windows.value == f"C:\\Users\\{name}"
    assert facts.wslconfig_path == str(host.drives["C"] / "Users" / name / ".wslconfig")


def test_a_profile_on_another_drive_is_found(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=NO_VERSIONS, profile="D:\\People\\user", users=("somebody",))
    (host.drives["D"] / "People/user").mkdir(parents=True)
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.wslconfig_path == str(host.drives["D"] / "People/user/.wslconfig")


def test_a_profile_that_is_not_mounted_is_named_but_not_used(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=NO_VERSIONS, profile="E:\\Users\\user", users=("user",))
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value is None
    assert "E:\\Users\\user" in facts.windows_profile.reason
    assert facts.wslconfig_path is None


def test_without_wslpath_the_mounts_tell(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=("wslpath", *NO_VERSIONS))
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value == str(host.drives["C"] / "Users/user")


@pytest.mark.parametrize("interop", [False, None])
def test_without_interop_the_only_person_is_taken_and_nothing_is_started(
    interop: bool | None, tmp_path: Path
) -> None:
    host = FakeWindows(tmp_path, interop=interop, missing=("wslinfo",))
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value == str(host.drives["C"] / "Users/user")
    assert facts.windows_profile_windows.value == "C:\\Users\\user"
    answer = windows_host.probe(host)
    assert answer is not None
    assert answer.memory_bytes.value is None
    assert "interop" in answer.memory_bytes.reason
    assert not [c for c in host.calls() if c["name"].endswith(".exe")]


def test_without_interop_nobody_is_picked_of_several(tmp_path: Path) -> None:
    host = FakeWindows(
        tmp_path, interop=False, missing=NO_VERSIONS, users=("ann", "bo", "Public", "All Users")
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value is None
    assert {Path(p).name for p in facts.windows_profile_candidates} == {"ann", "bo"}
    assert facts.wslconfig_path is None


@pytest.mark.parametrize("fault", ["hang", "crash", "rubbish", "empty"])
def test_every_program_may_fail(fault: str, tmp_path: Path, impatient: None) -> None:
    names = ("cmd.exe", "powershell.exe", "wsl.exe", "wslpath", "wslinfo")
    host = FakeWindows(tmp_path, how={n: {"fault": fault} for n in names}, users=("ann", "bo"))
    started = time.monotonic()
    facts = wsl.probe(host)
    answer = windows_host.probe(host)
    assert time.monotonic() - started < 15
    assert facts is not None
    assert answer is not None
    unknown = (
        facts.version,
        facts.networking_mode,
        facts.windows_build,
        facts.windows_profile,
        answer.memory_bytes,
    )
    assert all(f.value is None and f.reason for f in unknown)
    assert facts.interop.value is True


@pytest.mark.parametrize("name", ["cmd.exe", "wslpath"])
def test_one_silent_program_leaves_a_single_person_known(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wsl, "CMD_TIMEOUT_S", 1.5)
    host = FakeWindows(tmp_path, missing=NO_VERSIONS, how={name: {"fault": "hang"}})
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.windows_profile.value == str(host.drives["C"] / "Users/user")


def test_programs_that_are_not_there_or_may_not_run(tmp_path: Path) -> None:
    host = FakeWindows(
        tmp_path, missing=("cmd.exe", "powershell.exe", "wsl.exe", "wslinfo"), users=("ann", "bo")
    )
    facts = wsl.probe(host)
    answer = windows_host.probe(host)
    assert facts is not None
    assert answer is not None
    assert "cmd.exe" in facts.windows_profile.reason
    assert "powershell.exe" in answer.memory_bytes.reason
    (host.drives["C"] / "Windows/System32/cmd.exe").parent.mkdir(parents=True)
    (host.drives["C"] / "Windows/System32/cmd.exe").write_text("not executable")
    again = wsl.probe(host)
    assert again is not None
    assert again.windows_profile.value is None


def test_an_old_wsl_exe_and_a_new_word_order(tmp_path: Path) -> None:
    old = wsl.probe(FakeWindows(tmp_path / "a", how={"wsl.exe": {"old": True}}, missing=("wslinfo",)))
    assert old is not None
    assert old.version.value is None
    assert old.version.reason
    chinese = "WSL 版本： 2.5.9.0\r\n内核版本： 6.6.87.2-1\r\nWindows 版本： 10.0.26200.7171\r\n"
    new = wsl.probe(FakeWindows(tmp_path / "b", how={"wsl.exe": {"text": chinese}}, missing=("wslinfo",)))
    assert new is not None
    assert (new.version.value, new.windows_build.value) == ("2.5.9.0", "10.0.26200.7171")


def test_wsl_utf8_is_understood_too(tmp_path: Path) -> None:
    host = FakeWindows(tmp_path, missing=("wslinfo",))
    host.env = {**host.env, "WSL_UTF8": "1"}
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.version.value == "2.6.1.0"


@pytest.mark.parametrize(
    "answer",
    ["", "34276237312", "lots 24 10.0.1", "{0} {1}", "34276237312 24 10.0.22631.0 extra", "-5 0 10.0.1"],
)
def test_a_powershell_that_says_something_else_is_not_believed(answer: str, tmp_path: Path) -> None:
    facts = windows_host.probe(FakeWindows(tmp_path, how={"powershell.exe": {"answer": answer}}))
    assert facts is not None
    assert facts.memory_bytes.value is None
    assert facts.memory_bytes.reason


def test_a_slow_powershell_is_asked_once_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    host = FakeWindows(tmp_path, how={"powershell.exe": {"delay_s": 0.8}})
    first = windows_host.probe(host)
    second = windows_host.probe(host)
    assert first is not None
    assert second is not None
    assert first.memory_bytes.value == second.memory_bytes.value == 34276237312
    assert [c["name"] for c in host.calls()] == ["powershell.exe"]


def test_a_custom_automount_root_and_a_folder_with_spaces(tmp_path: Path) -> None:
    host = FakeWindows(
        tmp_path / "my drives", missing=NO_VERSIONS, wsl_conf="[automount]\nroot = /win/ # here\n"
    )
    facts = wsl.probe(host)
    assert facts is not None
    assert facts.automount_root == "/win/"
    assert facts.windows_profile.value == str(host.drives["C"] / "Users/user")
