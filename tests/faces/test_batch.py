"""detect, plan and generate on recorded machines: JSON that is only JSON, files that replay, secrets that stay."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "tests" / "machines"
WSL = str(MACHINES / "wsl2-rtx3060-model-on-d")
NATIVE = str(MACHINES / "native-rtx5090")
BLOCKED = str(MACHINES / "wsl1")
TOKEN = "hf_" + "PlantedToken0123456789"
KEY = "planted-api-key-0123456789"


@pytest.fixture(autouse=True)
def _few_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judging every recipe takes a while; two families are enough here."""
    from wizard import recipes

    real = recipes.load

    def load(extra: Any = ()) -> Any:
        book = real(extra)
        return replace(
            book,
            recipes=tuple(r for r in book.recipes if r.id in ("qwen3-vl", "gpt-oss")) or book.recipes[:2],
        )

    monkeypatch.setattr(recipes, "load", load)


def told(capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out, err = capfd.readouterr()
    return out, err


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "words", [["--release", "abc"], ["--set", "enable_lora=maybe"], ["--set", "max_num_batched_tokens=many"]]
)
def test_a_value_that_no_release_takes_is_bad_input(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--json", "--machine", NATIVE, *words]) == 2
    out, err = told(capfd)
    assert json.loads(out)["error"]["message"] in err
    assert words[-1].rpartition("=")[2] in err or words[-1].partition("=")[0].replace("_", "-") in err


# -- detect -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [WSL, BLOCKED])
def test_detect(machine: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--json", "--machine", machine]) == 0
    out, err = told(capfd)
    document = json.loads(out)
    assert err == ""
    assert document["name"] == Path(machine).name
    assert {"gpu", "memory", "docker", "mounts", "problems"} <= document.keys()
    assert main(["detect", "--machine", machine]) == 0
    out, err = told(capfd)
    assert Path(machine).name in out or document["os_name"]["value"] in out
    assert "\x1b" not in out


# -- plan ---------------------------------------------------------------------------------------------------------


def test_plan_json_holds_what_is_promised(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", "--machine", WSL]) == 0
    out, err = told(capfd)
    assert err == ""
    document = json.loads(out)
    for key in (
        "machine", "model", "release", "image", "runtime", "argv", "env", "decisions", "warnings", "blockers",
        "files", "fit", "mounts", "after",
    ):  # fmt: skip
        assert key in document
    assert isinstance(document["argv"], list)
    assert document["argv"][0]
    assert not document["argv"][0].startswith("-")
    assert isinstance(document["env"], dict)
    for decision in document["decisions"]:
        assert {"key", "value", "reason", "source"} <= decision.keys()
        assert decision["reason"]
    assert {f["path"] for f in document["files"]} == {
        "launch.sh", "compose.yaml", ".wslconfig", "vllm.env", "answers.toml",
    }  # fmt: skip
    by_name = {f["path"]: f for f in document["files"]}
    assert by_name["vllm.env"]["content"] is None
    assert by_name["vllm.env"]["mode"] == "0600"
    assert by_name["launch.sh"]["content"].startswith("#!")
    # Long lines are not wrapped, and non-ASCII text stands as it is.
    assert max(map(len, out.splitlines())) > 200


def test_plan_text_is_readable_at_80_columns(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", WSL]) == 0
    out, _err = told(capfd)
    for line in out.splitlines():
        # What is typed or copied stands on one line; everything else is wrapped.
        long_word = max(map(len, line.split()), default=0)
        assert len(line) < 80 or long_word > 40 or line.startswith(("     ", "    --")), line
    for word in ("Machine", "Model", "Command", "Why", "Files", "launch.sh"):
        assert word in out


@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["plan", "--json"],
        ["generate", "--yes"],
        ["generate", "--yes", "--json"],
        ["generate", "--dry-run"],
    ],
)
def test_a_machine_that_cannot_serve_gives_blockers_and_1(
    words: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--machine", BLOCKED, "--out", str(tmp_path / "out")]) == 1
    out, err = told(capfd)
    assert not (tmp_path / "out").exists()
    if "--json" in words:
        document = json.loads(out)
        assert document["blockers"]
        assert document["blockers"][0]["title"]
        assert document.get("argv", []) == []
        assert document["files"] == []
    else:
        assert "WSL" in out + err


def test_options_reach_the_plan_with_their_source(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answers = tmp_path / "answers.toml"
    answers.write_text('[answers]\nport = 9001\nmax_num_seqs = 3\nmax_num_batched_tokens = "4096"\n')
    words = ["plan", "--json", "--machine", NATIVE, "--answers", str(answers)]
    words += [
        "--set",
        "port=9002",
        "--runtime",
        "local",
        "--release",
        "v0.23.0",
        "--set",
        "--max-model-len=2k",
    ]
    assert main(words) == 0
    document = json.loads(told(capfd)[0])
    by_key = {d["key"]: d for d in document["decisions"]}
    assert (by_key["port"]["value"], by_key["port"]["source"]) == (9002, "cli")
    assert (by_key["max_num_seqs"]["value"], by_key["max_num_seqs"]["source"]) == (3, "file")
    assert by_key["max_model_len"]["value"] == 2000
    assert (document["runtime"], document["release"]) == ("local", "0.23.0")
    argv = document["argv"]
    assert argv[argv.index("--max-num-batched-tokens") + 1] == "4096"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--set", "max_modle_len=1"], "max_model_len"),
        (["--set", "port=99999"], "65535"),
        (["--set", "port=x"], "port"),
        (["--set", "gpu_memory_utilization=1.5"], "gpu_memory_utilization"),
        (["--set", "access=everyone"], "network"),
        (["--set", "tools=perhaps"], "yes or no"),
        (["--model", "/no/such/model"], "/no/such/model"),
        (["--model", "not an id"], "repository id"),
        (["--set", "max_num_batched_tokenz=1"], "max_num_batched_tokens"),
        (["--set", "max_num_batched_tokenz=1", "--lang", "en"], "max_num_batched_tokens"),
    ],
)
def test_wrong_answers_give_2_and_name_the_key(
    words: list[str], hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--json", "--machine", NATIVE, *words]) == 2
    out, err = told(capfd)
    assert json.loads(out)["error"]["message"] in err
    assert hint in err


# -- generate -----------------------------------------------------------------------------------------------------


def test_generate_writes_and_replays(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first", tmp_path / "second folder €"
    words = ["--machine", WSL, "--set", "max_model_len=2048", "--set", "max_num_batched_tokens=4096"]
    assert main(["generate", "--yes", "--out", str(first), *words]) == 0
    out, err = told(capfd)
    assert err == ""
    assert "vllm-wizard undo" in out
    assert "./launch.sh" in out
    assert "wsl --shutdown" in out
    assert ".wslconfig" in out.partition("Next")[2].partition("wsl --shutdown")[0]
    assert set(files(first)) == {"launch.sh", "compose.yaml", ".wslconfig", "vllm.env", "answers.toml"}
    assert stat.S_IMODE((first / "vllm.env").stat().st_mode) == 0o600
    assert os.access(first / "launch.sh", os.X_OK)
    answers = str(first / "answers.toml")
    assert main(["generate", "--yes", "--out", str(second), "--machine", WSL, "--answers", answers]) == 0
    assert files(first) == files(second)
    told(capfd)
    # A second time nothing changes, and undo takes the last write back.
    assert (
        main(["generate", "--yes", "--json", "--out", str(second), "--machine", WSL, "--answers", answers])
        == 0
    )
    document = json.loads(told(capfd)[0])
    assert {f["state"] for f in document["files"]} == {"same"}
    assert main(["undo", "--json"]) == 0
    assert not second.exists()
    assert first.exists()


def test_dry_run_writes_nothing_and_shows_the_diff(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    (out_dir / "launch.sh").write_text("#!/bin/sh\nmy own\n")
    assert main(["generate", "--dry-run", "--out", str(out_dir), "--machine", WSL]) == 0
    out, _err = told(capfd)
    assert "-my own" in out
    assert "+set -euo pipefail" in out
    # The proposal is compared with the user's own .wslconfig.
    wslconfig = next(p for p in (Path(WSL) / "files").rglob(".wslconfig"))
    own_lines = wslconfig.read_bytes().decode().splitlines()
    assert any(" " + line in out.splitlines() for line in own_lines if line)
    assert files(out_dir) == {"launch.sh": b"#!/bin/sh\nmy own\n"}


def test_generate_needs_a_folder_with_a_recorded_machine(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["generate", "--yes", "--machine", WSL]) == 2
    assert "--out" in told(capfd)[1]
    assert (
        main(["generate", "--yes", "--machine", WSL, "--apply-wslconfig", "--out", str(tmp_path / "o")]) == 2
    )
    assert "--apply-wslconfig" in told(capfd)[1]
    assert not (tmp_path / "o").exists()


def test_a_folder_that_cannot_be_written_gives_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["generate", "--yes", "--machine", NATIVE, "--out", str(tmp_path / "file")]) == 1
    assert "not a folder" in told(capfd)[1]


def test_apply_wslconfig_edits_the_users_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The recorded machine's profile is moved to where this test may write."""
    from wizard.faces import inputs
    from wizard.plan import plan as make_plan

    own = next((Path(WSL) / "files").rglob(".wslconfig")).read_bytes()
    profile = tmp_path / "Users" / "user"
    profile.mkdir(parents=True)
    (profile / ".wslconfig").write_bytes(own)
    real = inputs.load_session

    def load_session(*args: Any, **more: Any) -> Any:
        session, _plan = real(*args, **more)
        wsl = replace(session.machine.wsl, wslconfig_path=str(profile / ".wslconfig"), wslconfig_bytes=own)
        session = replace(session, machine=replace(session.machine, wsl=wsl))
        return session, make_plan(session)

    monkeypatch.setattr(inputs, "load_session", load_session)
    monkeypatch.setattr(inputs, "is_recorded", lambda args: False)
    words = ["generate", "--yes", "--machine", WSL, "--out", str(tmp_path / "out")]
    assert main([*words, "--apply-wslconfig"]) == 0
    out, _err = told(capfd)
    assert "wsl --shutdown" in out
    assert "Copy-Item" not in out
    assert not (tmp_path / "out" / ".wslconfig").exists()
    edited = (profile / ".wslconfig").read_bytes()
    assert edited != own
    # Comments, order and line ends stay: every line of the user's that is not one of ours is still there.
    assert [x for x in own.splitlines(keepends=True) if x.lstrip().startswith(b"#")] == [
        x for x in edited.splitlines(keepends=True) if x.lstrip().startswith(b"#") and not x.startswith((b"# vllm-wizard: ", b"#     "))
    ]
    assert edited.count(b"# vllm-wizard: ") > 1
    backups = [p for p in profile.iterdir() if p.name != ".wslconfig"]
    assert [p.read_bytes() for p in backups] == [own]
    assert main(["undo"]) == 0
    assert files(profile) == {".wslconfig": own}
    # Meanwhile changed by somebody else: nothing is written at all.
    (profile / ".wslconfig").write_bytes(own + b"# new\r\n")
    assert main([*words, "--apply-wslconfig"]) == 1
    assert "changed since it was read" in told(capfd)[1]
    assert not (tmp_path / "out").exists()


def test_apply_wslconfig_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from wizard.faces import inputs

    monkeypatch.setattr(inputs, "is_recorded", lambda args: False)
    assert (
        main(["generate", "--yes", "--machine", NATIVE, "--apply-wslconfig", "--out", str(tmp_path / "o")])
        == 2
    )
    assert "not WSL2" in told(capfd)[1]


def test_a_relative_model_folder_is_taken_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wizard.faces.inputs import local_source

    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "Mine").mkdir(parents=True)
    assert local_source("models/Mine") == str(tmp_path / "models" / "Mine")
    assert local_source("./models/Mine") == str(tmp_path / "models" / "Mine")
    assert local_source("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"
    assert local_source("~/models") == "~/models"
    assert local_source("") == ""
    assert local_source("a\0b") == "a\0b"


# -- secrets ------------------------------------------------------------------------------------------------------


def test_secrets_stand_in_the_environment_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "xdg" / name))
    out_dir = tmp_path / "out"
    common = ["--machine", NATIVE, "--secrets-from-env", "--set", "access=network", "--out", str(out_dir)]
    printed = ""
    for words in (
        ["plan", "--json"],
        ["plan"],
        ["generate", "--dry-run"],
        ["generate", "--yes"],
        ["generate", "--yes", "--json"],
    ):
        assert main([*words, *common]) == 0
        printed += "".join(told(capfd))
    # A new token takes the place of the old one; the backup of the file is its only other home.
    monkeypatch.setenv("HF_TOKEN", TOKEN + "New")
    assert main(["generate", "--yes", *common]) == 0
    assert main(["undo", "--list", "--json"]) == 0
    printed += "".join(told(capfd))
    assert TOKEN not in printed
    assert KEY not in printed
    env = (out_dir / "vllm.env").read_text()
    assert f"HF_TOKEN={TOKEN}New\n" in env
    assert f"VLLM_API_KEY={KEY}\n" in env
    holders = [
        p
        for p in tmp_path.rglob("*")
        if p.is_file() and (TOKEN.encode() in p.read_bytes() or KEY.encode() in p.read_bytes())
    ]
    assert {p.name for p in holders} == {"vllm.env"}
    for path in holders:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_the_flag_the_environment_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert main(["generate", "--yes", "--machine", NATIVE, "--out", str(tmp_path / "out")]) == 0
    assert TOKEN not in "".join(told(capfd))
    assert all(TOKEN.encode() not in content for content in files(tmp_path).values())


def test_a_network_server_keeps_its_key(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = [
        "generate",
        "--yes",
        "--machine",
        NATIVE,
        "--set",
        "access=network",
        "--out",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    env = (tmp_path / "out" / "vllm.env").read_text()
    key = next(x for x in env.splitlines() if x.startswith("VLLM_API_KEY=")).partition("=")[2]
    assert len(key) >= 32
    assert key not in "".join(told(capfd))
    assert main([*words, "--set", "port=9003"]) == 0
    assert (tmp_path / "out" / "vllm.env").read_text() == env


def test_a_token_that_an_environment_file_cannot_hold_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "planted token with spaces")
    assert main(["plan", "--machine", NATIVE, "--secrets-from-env"]) == 2
    out, err = told(capfd)
    assert "HF_TOKEN" in err
    assert "planted" not in out + err


# -- in a process of its own ----------------------------------------------------------------------------------------


def test_json_is_utf8_and_nothing_else_whatever_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wizard", "plan", "--json", "--machine", WSL],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "40", "TERM": "dumb"},
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert json.loads(done.stdout.decode("utf-8"))["argv"]


@pytest.mark.parametrize("given", ["https://huggingface.co/Qwen/Qwen3-8B-AWQ", r"D:\models\Qwen3-VL-4B-Instruct-FP8"])
def test_a_page_s_address_or_a_path_of_windows_names_a_model(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    machine = str(Path(__file__).parents[1] / "machines" / "wsl2-rtx3060-model-on-d")
    for words in (["--model", given], ["--set", f"model={given}"]):
        assert main(["plan", "--machine", machine, *words, "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert "https://" not in json.dumps(made["argv"])
        assert "D:" not in json.dumps(made["argv"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_files_that_are_written_are_said_to_be_though_the_output_is_not(tmp_path: Path) -> None:
    words = ["generate", "--yes", "--out", str(tmp_path / "vllm"), "--machine", str(MACHINES / "wsl2-rtx4090-desktop"), "--model", "Qwen/Qwen3-8B"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-m", "wizard", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert "The files are written to" in ended.stderr
    assert (tmp_path / "vllm" / "launch.sh").exists()
