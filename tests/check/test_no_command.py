"""What holds no vLLM command is said to hold none, and what is refused below is not accepted above."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.check.extract import MAX_BYTES

HEAD = "services:\n  llm:\n    image: vllm/vllm-openai:v0.33.0\n    ipc: host\n    gpus: all\n"


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object], str]:
    code = main(["check", "--json", *words])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@pytest.mark.parametrize("words", [["ls"], ["ls", "-la"], ["/bin/ls", "-la", "--color"], ["ls -la"], ["some", "words"], ["gpt2", "-la"]])
def test_a_command_of_another_program(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--", *words]) == 2
    assert "no vLLM command was found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "first"),
    [(["serve", "a/Model", "--port", "1"], "a/Model"), (["gpt2", "--port", "1"], "gpt2"), (["--port", "1"], "--port")],
)
def test_arguments_alone_are_taken_as_those_of_vllm_serve(
    words: list[str], first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _code, told, _err = checked(capsys, "--", *words)
    assert told["argv"] == [first, *words[words.index(first) + 1 :]]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]\n",
        "colour: blue\nsize: [1, 2]\n",
        HEAD + "    command: {a: b}\n",
        HEAD + "    entrypoint: {a: b}\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: x\n    image: vllm/vllm-openai:v0.33.0\n    args: {a: b}\n",
    ],
)
def test_a_yaml_file_without_a_command(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    assert main(["check", str(file)]) == 2
    assert "no vLLM command was found" in capsys.readouterr().err


def test_a_config_file_of_old_or_misspelt_options_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.yaml"
    for text in ("swap-space: 4\n", "max-modle-len: 4096\n", "max_model_len: 4096\nfoo: 1\n"):
        file.write_text(text)
        assert main(["check", str(file)]) in (0, 1)
    capsys.readouterr()


def test_an_open_quote_is_not_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(HEAD + "    command: \"--model 'half\"\n")
    code, told, _err = checked(capsys, str(file))
    assert (code, told["accepted"]) == (1, False)
    assert main(["check", str(file)]) == 1
    assert "would start with it" not in capsys.readouterr().out


def test_a_variable_for_the_model_is_no_replacement_where_the_command_names_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(HEAD + "    environment: {VLLM_MODEL: an/Other}\n    command: [a/Model]\n")
    _code, told, _err = checked(capsys, str(file))
    rows = [p for p in told["problems"] if p["flag"] == "VLLM_MODEL"]  # type: ignore[attr-defined]
    assert [r["replacement"] for r in rows] == [None]
    assert "a/Model" in rows[0]["message"]
    assert told["argv"][0] == "a/Model"  # type: ignore[index]


def test_a_file_that_is_too_long_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.sh"
    file.write_bytes(b"#" * (MAX_BYTES + 12345))
    assert main(["check", str(file)]) == 2
    assert "is larger than 8 MiB" in capsys.readouterr().err


def test_writing_ends_with_0_only_when_nothing_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "start.sh"
    file.write_text("vllm serve a/Model --swap-space 4 --port 1\n")
    assert main(["check", "--release", "0.33.0", "--write", str(file)]) == 0
    assert "swap-space" not in file.read_text()
    compose = tmp_path / "compose.yaml"
    compose.write_text(HEAD + "    restart: always\n    command: [a/Model, --swap-space, '4']\n    volumes: ['/x:/dev/shm']\n    stop_grace_period: '60'\n")
    assert main(["check", "--write", str(compose)]) == 1
    assert main(["check", str(compose)]) == 1
    capsys.readouterr()


RAY_WORKER = """services:
  node:
    image: vllm/vllm-openai:v0.33.0
    entrypoint:
      - bash
      - -c
      - |
        exec ray start --address="192.168.1.1:6379" --block
      - vllm-ray
    network_mode: host
"""
RAY_POD = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  workerTemplate:
    spec:
      containers:
        - name: worker
          image: vllm/vllm-openai:v0.33.0
          command: [bash, -c, 'exec ray start --block', vllm-ray]
"""
VALUES = """servingEngineSpec:
  modelSpec:
    - name: qwen
      repository: vllm/vllm-openai
      modelURL: Qwen/Qwen3-8B
      vllmConfig: {tensorParallelSize: 1}
routerSpec: {enableRouter: true}
"""


RAY_SCRIPT = """#!/usr/bin/env bash
read -r -d '' ray_script <<'RAY' || true
exec ray start --address="192.168.1.1:6379" --block
RAY
docker run --rm --entrypoint bash "$image" -c "$ray_script" vllm-ray
"""


@pytest.mark.parametrize("text", [RAY_WORKER, RAY_POD, VALUES, RAY_SCRIPT])
def test_our_files_without_a_server_hold_nothing_to_check(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ("launch.sh" if text.startswith("#!") else "x.yaml")
    file.write_text(text)
    code, told, _err = checked(capsys, str(file))
    assert (code, told["accepted"], told["problems"]) == (0, True, [])
    assert "no vllm serve command" in told["notes"][0]  # type: ignore[index]
    assert main(["check", str(file)]) == 0
    assert "nothing to check" in capsys.readouterr().out
    assert main(["check", "--write", str(file)]) == 0
    assert file.read_text() == text
