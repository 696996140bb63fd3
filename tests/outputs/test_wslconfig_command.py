"""``vllm-wizard wslconfig``, run as a user runs it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.outputs.wsl_machine import wsl_machine
from wizard import apply, wslconfig_command
from wizard.__main__ import main
from wizard.outputs.spec import FileSpec

HOST = ["--host-ram-bytes", str(32 << 30), "--host-cpus", "16"]
MACHINES = Path(__file__).parents[1] / "machines"


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["wslconfig", *words])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / ".wslconfig"
    path.write_bytes(b"[wsl2]\nmemory=20GB\nswap=6 GB\nprocessors=99\n")
    return path


def test_check_prints_exact_json(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, "check", str(file), *HOST, "--json")
    assert (code, err) == (1, "")
    data = json.loads(out)
    assert data["accepted"] == [
        {"key": "wsl2.memory", "raw": "20GB", "value": str(20 << 30), "line": 2},
        {"key": "wsl2.processors", "raw": "99", "value": "99", "line": 4},
    ]
    assert [(p["line"], p["key"], p["kind"]) for p in data["problems"]] == [
        (3, "wsl2.swap", "invalid_memory"),
        (None, "wsl2.processors", "too_many_processors"),
    ]
    effective = data["effective"]
    assert (effective["memory_bytes"], effective["swap_bytes"], effective["processors"]) == (
        20 << 30,
        5 << 30,
        16,
    )


def test_words_and_options_may_stand_in_any_order(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = run(capfd, "check", str(file), *HOST, "--json")
    for words in (
        ["--json", "check", *HOST, str(file)],
        [*HOST, "check", "--json", str(file)],
        ["check", "--json", str(file), *HOST],
    ):
        assert run(capfd, *words) == first


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"[wsl2]\nmemory=20GB\n", 0),
        (b"", 0),
        (b"\xfe\xff\0[", 1),
        (b"[wsl2]\nmacAddress=1\n", 1),
        (b"\xff\xff\xff", 1),
        (b"[wsl2]\nmemory=99GB\n", 0),
    ],
)
def test_check_gives_json_for_every_file(
    content: bytes, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.wslconfig"
    path.write_bytes(content)
    got, out, _err = run(capfd, "check", str(path), *HOST, "--json")
    assert got == code
    assert set(json.loads(out)) >= {"accepted", "problems", "effective", "fatal", "encoding", "mode", "notes"}
    got, out, _err = run(capfd, "check", str(path), *HOST)
    assert (got, out != "") == (code, True)


def test_without_the_hosts_figures_what_depends_on_them_is_null(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(b"[wsl2]\n")
    code, out, _err = run(capfd, "check", str(file), "--json")
    assert code == 0
    assert json.loads(out)["effective"]["memory_bytes"] is None
    assert "--host-ram-bytes" in run(capfd, "check", str(file))[1]


@pytest.mark.parametrize("name", ["wsl.conf", "my-wsl.conf", "a.wslconf"])
def test_wsl_conf_is_known_by_its_name(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(b"[boot]\nsystemd=true\n; x\n[user]\ndefault=ann\n")
    code, out, _err = run(capfd, "check", str(path), "--json")
    data = json.loads(out)
    assert (code, data["mode"], data["complete"], len(data["accepted"])) == (1, "wslconf", False, 1)
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    assert json.loads(run(capfd, "check", str(other), "--wsl-conf", "--json")[1])["mode"] == "wslconf"
    assert json.loads(run(capfd, "check", str(other), "--json")[1])["mode"] == "wslconfig"


@pytest.mark.parametrize(
    "words",
    [
        ["check", "/there/is/no/file"],
        ["check", "/tmp"],
        ["check", "/dev/zero"],
        ["check", "a", "b"],
        ["check", "--host-cpus", "0", "/dev/null"],
        ["check", "--host-ram-bytes", "32GB", "/dev/null"],
        ["check", "--host-ram-bytes", "-5", "/dev/null"],
        ["check", "--host-ram-bytes", "9" * 25, "/dev/null"],
        ["check", "--host-cpus", "9999999", "/dev/null"],
        ["tune", "--weights-gib", "nan"],
        ["guess"],
        [],
        ["edit"],
        ["edit", "/dev/null"],
        ["edit", "wsl2.memory=1GB"],
    ],
)
def test_wrong_input_is_2_with_one_line(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capfd, *words)
    assert (code, out) == (2, "")
    assert err.startswith("vllm-wizard: ")
    assert "Traceback" not in err


def test_check_reads_standard_input(
    file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, _err = run(capfd, "check", "-", "--json")
    assert (code, len(json.loads(out)["accepted"])) == (1, 2)


def test_check_and_tune_look_at_a_recorded_machine(capfd: pytest.CaptureFixture[str]) -> None:
    machine = ["--machine", str(MACHINES / "wsl2-rtx3060-model-on-d")]
    code, out, _err = run(capfd, "check", *machine, "--json")
    data = json.loads(out)
    assert code in (0, 1)
    assert data["file"].endswith("/.wslconfig")
    assert data["effective"]["processors"] is not None
    code, out, _err = run(capfd, "tune", *machine, "--json", "--weights-gib", "8", "--keep-alive")
    data = json.loads(out)
    assert code == 0
    assert data["changes"]["wsl2.vmIdleTimeout"] == "-1"
    assert all(s["reason"] for s in data["settings"])
    assert "wsl2.memory" in run(capfd, "tune", *machine, "--weights-gib", "8")[1]


def test_verify_says_whether_the_file_is_in_force(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _err = run(capfd, "verify", "--machine", str(MACHINES / "wsl2-rtx3060-model-on-d"), "--json")
    data = json.loads(out)
    assert code == (0 if data["in_force"] else 1)
    assert data["in_force"] == (not data["reasons"])
    for name in ("native-t4", "wsl2-interop-off-custom-root"):
        assert run(capfd, "verify", "--machine", str(MACHINES / name))[0] == 1


@pytest.mark.parametrize(("own_age_s", "wanted"), [(None, "24GB"), (100, "24GB"), (-100, "16GB")])
def test_a_proposal_that_was_never_copied_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_age_s: int | None, wanted: str
) -> None:
    """The wrong file: the proposal lies in the output folder, and WSL runs with the old file or none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    spec = FileSpec(".wslconfig", b"[wsl2]\nmemory=24GB\n")
    apply.write(apply.prepare([spec], tmp_path / "out"))
    own = tmp_path / ".wslconfig"
    if own_age_s is not None:
        own.write_bytes(b"[wsl2]\nmemory=16GB\n")
        when = (tmp_path / "out" / ".wslconfig").stat().st_mtime - own_age_s
        os.utime(own, (when, when))
    machine = wsl_machine(
        wslconfig_path=str(own), wslconfig_bytes=own.read_bytes() if own_age_s is not None else None
    )
    found, reasons = wslconfig_command.in_force(machine, recorded=False)
    assert found == {"wsl2.memory": wanted}
    assert bool(reasons) == (wanted == "24GB")
    if own_age_s is None:
        assert "There is no C:\\Users\\ann\\.wslconfig" in reasons[0]
    # A recorded machine has no such record.
    assert "24GB" not in wslconfig_command.in_force(machine, recorded=True)[0].values()


def test_edit_shows_a_diff_and_writes_only_when_told(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    code, out, err = run(capfd, "edit", str(file), "wsl2.memory=24GB", "--remove", "wsl2.processors")
    assert (code, out, file.read_bytes()) == (2, "", before)
    assert "--dry-run" in err
    assert run(capfd, "edit", str(file), "wsl2.memory=24GB", "--json")[0] == 2
    assert run(capfd, "edit", str(file), "wsl2.memory=20GB")[0] == 0  # says so already
    code, out, _err = run(capfd, "edit", str(file), "wsl2.memory=24GB", "--remove", "wsl2.processors", "--dry-run")
    assert (code, file.read_bytes()) == (0, before)
    assert "+memory=24GB" in out
    code, out, _err = run(
        capfd, "edit", str(file), "wsl2.memory=24GB", "--remove", "wsl2.processors", "--yes", "--json"
    )
    assert (code, json.loads(out)["written"]) == (0, True)
    assert file.read_bytes() == b"[wsl2]\nmemory=24GB\nswap=6 GB\n"
    assert main(["undo"]) == 0
    assert file.read_bytes() == before
    capfd.readouterr()
    code, out, err = run(capfd, "edit", str(file), "wsl2.memory=24 GB")
    assert (code, out) == (2, "")
    assert "24 GB" in err


def test_a_new_file_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / ".wslconfig"
    path.parent.mkdir()
    assert run(capfd, "edit", str(path), "wsl2.memory=24GB", "--yes")[0] == 0
    assert path.read_bytes().endswith(b"[wsl2]\nmemory=24GB\n")


def test_messages_do_not_run_together_and_no_file_is_demanded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".wslconfig"
    path.write_text("[wsl2]\nkernel=C:\\temp\\q\n")
    _code, out, _err = run(capfd, "check", str(path))
    assert "WSL skips this line." in out
    assert "' WSL skips" not in out
    assert main(["wslconfig"]) == 2
    assert "KEY=VALUE" not in capfd.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_edit_asks_on_a_terminal(file: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str, code: int) -> None:
    monkeypatch.setattr(wslconfig_command, "_can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _question: answer)
    assert run(capfd, "edit", str(file), "wsl2.memory=24GB")[0] == code
    assert (b"24GB" in file.read_bytes()) == (code == 0)


def test_edit_makes_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _out, err = run(capfd, "edit", str(tmp_path / "nodir" / "x"), "wsl2.memory=24GB", "--yes")
    assert code == 2
    assert "no folder" in err
    assert not (tmp_path / "nodir").exists()


def test_what_is_left_to_windows_is_told_by_check_and_edit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".wslconfig"
    for value, ram_gib, told in (("16GB", 16, "leaves Windows only 0.0 of 16.0 GiB"), ("13GB", 16, "should keep 4.0 GiB"), ("64GB", 32, "Windows starves"), ("12GB", 16, "")):
        path.write_text(f"[wsl2]\nmemory={value}\n")
        host = ["--host-ram-bytes", str(ram_gib << 30)]
        out = run(capfd, "check", str(path), *host)[1]
        assert told in out
        assert ("No problems." in out) == (not told)
        path.write_text("[wsl2]\nmemory=8GB\n")
        code, out, _err = run(capfd, "edit", str(path), f"wsl2.memory={value}", *host, "--yes")
        assert code == 0
        assert told in out
        assert ("Worth knowing" in out) == bool(told)


def test_only_the_figure_that_is_missing_is_asked_for(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file.write_text("[wsl2]\nmemory=8GB\n")
    out = run(capfd, "check", str(file), "--host-ram-bytes", str(32 << 30))[1]
    assert "--host-cpus" in out
    assert "--host-ram-bytes" not in out


def test_memory_for_weights_of_unknown_size_is_not_said_to_suffice(capfd: pytest.CaptureFixture[str]) -> None:
    folder = str(MACHINES / "wsl2-rtx3060-model-on-d")
    out = run(capfd, "tune", "--machine", folder)[1]
    assert "Your own 8GB is kept" in out
    assert "8GB suffices" not in out
    assert "--weights-gib" in out
    assert "Your own 8GB is too little" in " ".join(run(capfd, "tune", "--machine", folder, "--weights-gib", "13")[1].split())


def test_verify_where_there_is_no_file_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _err = run(capfd, "verify", "--machine", str(MACHINES / "wsl2-rtx4090-desktop"))
    assert code == 1
    assert out.startswith("There is no /mnt/c/Users/user/.wslconfig, so nothing of it can be in force")
    assert "is in force, as far" not in out
    code, out, _err = run(capfd, "verify", "--machine", str(MACHINES / "wsl2-rtx4090-desktop"), "--json")
    data = json.loads(out)
    assert (code, data["in_force"], data["wanted"]) == (1, False, {})
    assert "There is no" in data["reasons"][0]


@pytest.mark.parametrize("own", [None, b"[wsl2]\nswap=0\n", b"[wsl2]\nvmIdleTimeout=-1\n"])
def test_verify_names_a_proposal_that_waits(
    own: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also one of which nothing can be seen from inside, as the idle timeouts."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    file = tmp_path / ".wslconfig"
    if own is not None:
        file.write_bytes(own)
        os.utime(file, (1, 1))
    apply.write(apply.prepare([FileSpec(".wslconfig", b"[wsl2]\nvmIdleTimeout=-1\n")], tmp_path / "out"))
    machine = wsl_machine(wslconfig_path=str(file), wslconfig_bytes=own)
    monkeypatch.setattr(wslconfig_command, "_machine", lambda _args: machine)
    code, out, _err = run(capfd, "verify")
    copied = own is not None and b"vmIdleTimeout" in own
    assert (f"A proposal waits: {tmp_path / 'out' / '.wslconfig'}. Copy it to {file}," in out) == (not copied)
    if not copied:
        assert code == 1
    # A launch asks for less: whether what can be seen is as it was wanted.
    assert wslconfig_command.in_force(wsl_machine(wslconfig_path=str(file), wslconfig_bytes=None), recorded=False)[1] == []


def test_verify_of_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    machine = wsl_machine(wslconfig_bytes=None, wslconfig_unread="Permission denied")
    monkeypatch.setattr(wslconfig_command, "_machine", lambda _args: machine)
    code, out, _err = run(capfd, "verify")
    assert code == 1
    assert "cannot be read: Permission denied" in out
