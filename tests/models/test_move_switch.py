"""After a move, the scripts and answers written earlier are made to name the new place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.models import move_tools as t
from wizard import apply, move_command
from wizard.outputs.spec import FileSpec

pytestmark = pytest.mark.skipif(os.name != "posix", reason="models are moved on Linux")


@pytest.fixture
def old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set of files that name the source, written through the record; the folder they lie in."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    src, out = tmp_path / "src", tmp_path / "out"
    t.model_folder(src)
    specs = [
        FileSpec("launch.sh", f"#!/bin/bash\nmodel_path={src}\n# {src}2\n".encode(), 0o755),
        FileSpec("answers.toml", f'[answers]\nmodel = "{src}"\n'.encode()),
        FileSpec("vllm.env", b"HF_TOKEN=hf_secretsecret\n", 0o600, secret=True),
    ]
    apply.write(apply.prepare(specs, out))
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "session.toml").write_text(f'format = 1\n[answers]\nmodel = "{src}"\n')
    return out


def texts(out: Path) -> list[str]:
    names = ("launch.sh", "answers.toml", "vllm.env", "../config/session.toml")
    return [(out / name).read_text() for name in names]


def test_they_are_switched_with_consent_and_undo_takes_it_back(
    old_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts(old_files)
    src, dst = str(tmp_path / "src"), str(tmp_path / "dst")
    assert move_command.run([src, dst, "--yes"]) == 0
    said = capsys.readouterr().out
    assert f"-model_path={src}\n+model_path={dst}\n" in said
    assert texts(old_files) == [
        f"#!/bin/bash\nmodel_path={dst}\n# {src}2\n",
        f'[answers]\nmodel = "{dst}"\n',
        before[2],
        f'format = 1\n[answers]\nmodel = "{dst}"\n',
    ]
    assert (old_files / "launch.sh").stat().st_mode & 0o111
    apply.undo()
    assert texts(old_files) == before


@pytest.mark.parametrize("words", [[], ["--no-switch", "--yes"]])
def test_without_consent_they_are_only_shown(
    old_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    before = texts(old_files)
    if not words:
        monkeypatch.setattr(move_command, "_asks", lambda: True)
        monkeypatch.setattr(move_command, "_question", lambda text, default: text == "Begin?")
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "dst"), *words]) == 0
    assert texts(old_files) == before
    assert f"+model_path={tmp_path / 'dst'}" in capsys.readouterr().out
    # The same command again, with the consent: what is moved is not copied again, the files are switched.
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "dst"), "--yes", "--switch"]) == 0
    assert f"model_path={tmp_path / 'dst'}\n" in texts(old_files)[0]


def test_json_tells_of_the_switch(old_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "dst"), "--json", "--yes", "--switch"]) == 0
    said: list[dict[str, Any]] = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    (switch,) = [x for x in said if x["event"] == "switch"]
    assert switch["written"]
    assert sorted(Path(f["path"]).name for f in switch["files"]) == ["answers.toml", "launch.sh", "session.toml"]
    assert "hf_secret" not in json.dumps(said)


def test_a_file_that_was_taken_back_or_is_gone_is_left_alone(old_files: Path, tmp_path: Path) -> None:
    (old_files / "answers.toml").unlink()
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "dst"), "--yes"]) == 0
    assert not (old_files / "answers.toml").exists()
    assert f"model_path={tmp_path / 'dst'}\n" in (old_files / "launch.sh").read_text()


def test_a_place_that_cannot_be_written_word_by_word_is_said(
    old_files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts(old_files)
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "it's new"), "--yes"]) == 0
    assert texts(old_files) == before
    assert "write it anew" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_does_not_undo_the_move(
    old_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wizard.errors import WizardError

    def full(*_args: object, **_more: object) -> None:
        raise WizardError("No space is left")

    monkeypatch.setattr(apply, "write", full)
    assert move_command.run([str(tmp_path / "src"), str(tmp_path / "dst"), "--yes"]) == 0
    assert "No space is left" in capsys.readouterr().out
