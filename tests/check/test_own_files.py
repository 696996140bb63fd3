"""What the wizard writes is understood and accepted by its own check."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wizard import releases
from wizard.__main__ import main
from wizard.check.commands import check_words
from wizard.check.extract import from_text
from wizard.outputs.command import image_arguments

MACHINES = Path(__file__).resolve().parents[1] / "machines"


@pytest.mark.parametrize(
    ("machine", "runtime"),
    [("wsl2-rtx3060-model-on-d", "docker"), ("native-rtx5090", "local"), ("native-4x-h200", "docker")],
)
def test_our_own_files_have_nothing_wrong(
    machine: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    out = tmp_path / "out"
    assert main(["generate", "--yes", "--machine", str(MACHINES / machine), "--runtime", runtime, "--out", str(out)]) == 0
    capfd.readouterr()
    files = ["launch.sh", *(["compose.yaml"] if (out / "compose.yaml").exists() else [])]
    for file in files:
        code = main(["check", "--json", str(out / file)])
        told = json.loads(capfd.readouterr().out)
        assert code == 0, told
        assert told["accepted"] is True
        assert len(told["argv"]) > 4


SCRIPT = """#!/usr/bin/env bash
arguments=(
  {first}owner/Model
  # why
  --max-model-len 4096
)
image=vllm/vllm-openai:v0.33.0
docker_options=(
  --rm --gpus all
)
command=({command})
exec "${{command[@]}}"
"""


@pytest.mark.parametrize(
    ("first", "command"),
    [
        ("", 'docker run "${docker_options[@]}" --env-file "$env_file" "$image" "${arguments[@]}"'),
        ("serve ", '"$environment/bin/vllm" "${arguments[@]}"'),
        ("serve ", 'vllm "${arguments[@]}"'),
    ],
)
def test_a_command_whose_parts_stand_in_variables_is_found(first: str, command: str) -> None:
    (found,) = from_text(SCRIPT.format(first=first, command=command), script=True)
    assert found.argv == ["owner/Model", "--max-model-len", "4096"]
    assert found.tag == ("v0.33.0" if "docker" in command else None)


@pytest.mark.parametrize("version", releases.versions())
def test_what_we_give_an_image_is_right_for_every_release(version: str) -> None:
    image = releases.load(version).image
    plan: Any = SimpleNamespace(container_argv=["owner/Model", "--max-model-len", "4096"], image=image)
    words = ["docker", "run", "--gpus", "all", image.reference, *image_arguments(plan)]
    report = check_words(words)
    assert report.accepted
    assert report.problems == []
    assert report.verdicts[0].release.version == version
    assert not report.verdicts[0].changed


@pytest.mark.parametrize("version", releases.versions())
def test_a_model_given_as_an_option_is_never_lost(version: str) -> None:
    module = check_words(["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "owner/Model"], version)
    assert module.accepted
    for words in (["--model", "owner/Model"], ["--model=owner/Model"]):
        served = check_words(["vllm", "serve", *words, "--port", "1"], version).verdicts[0]
        assert served.argv == ["owner/Model", "--port", "1"]


@pytest.mark.parametrize("machine", ["native-t4", "wsl2-rtx5070-laptop-old-driver"])
def test_our_own_script_is_held_against_the_release_that_it_installs(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    out = tmp_path / "out"
    here = ["--machine", str(MACHINES / machine)]
    assert main(["generate", "--yes", *here, "--runtime", "local", "--out", str(out)]) == 0
    capfd.readouterr()
    assert main(["check", "--json", *here, str(out / "launch.sh")]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["release"] == "0.32.0"
    assert any("0.32.0" in note for note in told["notes"])
