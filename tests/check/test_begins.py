"""Where a command begins that is given as words: as in a file, behind sudo and the like; other commands are refused."""

from __future__ import annotations

import shlex

import pytest

from wizard.__main__ import main
from wizard.check.commands import check_text, check_words, report_json
from wizard.errors import BadInput

DOCKER = "docker run --gpus all vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-8B"


@pytest.mark.parametrize("prefix", ["sudo", "sudo -E", "nohup", "env A=b", "A=b", "time", "exec", "nice -n 5", "numactl --cpunodebind=0", "sudo -u user env A=b", "wsl -e"])
@pytest.mark.parametrize("command", [DOCKER, DOCKER.replace("--gpus", "-it --gpus"), "vllm serve Qwen/Qwen3-8B --swap-space 4", "python3 -m vllm.entrypoints.openai.api_server --model a/M"])
def test_words_are_read_as_the_same_line_in_a_file(prefix: str, command: str) -> None:
    line = f"{prefix} {command}"
    as_words = report_json(check_words(shlex.split(line), "0.33.0"))
    in_file = report_json(check_text(line + "\n", "start.sh", "0.33.0"))
    assert as_words["argv"] == in_file["argv"]
    assert as_words["image"] == in_file["image"]
    assert as_words["problems"] == in_file["problems"]
    if "A=b" in prefix:
        assert as_words["env"] == {"A": "b"}


@pytest.mark.parametrize("words", [["sudo", "bash", "-c", "vllm serve a/M --port 1"], ["docker", "run", "--gpus", "all", "--entrypoint", "bash", "vllm/vllm-openai:v0.33.0", "-c", "vllm serve a/M --port 1"]])
def test_a_script_among_the_words_is_read(words: list[str]) -> None:
    assert check_words(words).verdicts[0].argv == ["a/M", "--port", "1"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("vllm bench serve --model Qwen/Qwen3-8B --num-prompts 100", "vllm bench serve"),
        ("vllm bench throughput --model a/M", "vllm bench throughput"),
        ("vllm chat --url http://localhost:8000/v1", "vllm chat"),
        ("vllm run-batch -i in.jsonl -o out.jsonl --model a/M", "vllm run-batch"),
        ("vllm complete --url x", "vllm complete"),
        ("vllm collect-env", "vllm collect-env"),
        ("vllm --version", "vllm --version"),
        ("vllm --help", "vllm --help"),
        ("vllm", "vllm"),
        ("sudo -E vllm bench latency", "vllm bench latency"),
        ("/opt/venv/bin/vllm chat", "vllm chat"),
        ("python3 -m vllm.entrypoints.openai.run_batch -i x", "python3 -m vllm.entrypoints.openai.run_batch"),
    ],
)
def test_a_command_that_starts_no_server_is_refused(line: str, named: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (shlex.split(line), [line]):
        assert main(["check", "--", *words]) == 2
        said = " ".join(capsys.readouterr().err.split())
        if " " in line or len(words) > 1:
            assert f"“{named}”" in said
            assert "starts no server" in said


def test_a_forgotten_serve_is_named() -> None:
    with pytest.raises(BadInput, match="Is “vllm serve Qwen/Qwen3-8B” meant"):
        check_words(["vllm", "Qwen/Qwen3-8B", "--port", "1"])


@pytest.mark.parametrize("words", [["sudo", "systemctl", "status", "--no-pager"], ["docker", "compose", "up", "--build"], ["nohup", "sglang", "--model", "x"]])
def test_a_wrapped_command_of_another_program(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--", *words]) == 2
    assert "no vLLM command was found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("vllm serve Qwen/Qwen3-8B --swap-space 4", "vllm-wizard check -- vllm serve Qwen/Qwen3-8B --swap-space 4"),
        ("vllm serve Qwen/Qwen3-8B --port 8000", "vllm-wizard check -- vllm serve Qwen/Qwen3-8B --port 8000"),
        ("--release 0.33.0 vllm serve m --port 1 --here", "vllm-wizard check --release 0.33.0 --here -- vllm serve m --port 1"),
        ("sudo docker run --gpus all vllm/vllm-openai m", "vllm-wizard check -- sudo docker run --gpus all vllm/vllm-openai m"),
        ("podman run -d vllm/vllm-openai m", "vllm-wizard check -- podman run -d vllm/vllm-openai m"),
        ("python -m vllm.entrypoints.openai.api_server --model m", "vllm-wizard check -- python -m vllm.entrypoints.openai.api_server --model m"),
        ("VLLM_USE_V1=0 vllm serve m --port 1", "vllm-wizard check -- VLLM_USE_V1=0 vllm serve m --port 1"),
        ("vllm serve m --hf-overrides '{\"a\": 1}'", "vllm-wizard check -- vllm serve m --hf-overrides '{\"a\": 1}'"),
    ],
)
def test_a_command_without_dashes_is_told_the_line_to_type(given: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *shlex.split(given)]) == 2
    assert line in " ".join(capsys.readouterr().err.split())


def test_a_command_without_options_needs_no_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "vllm", "serve", "Qwen/Qwen3-8B", "--json"]) in (0, 1)
    capsys.readouterr()
