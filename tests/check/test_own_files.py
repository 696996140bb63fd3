"""What the wizard writes is understood and accepted by its own check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.check.extract import from_text

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
