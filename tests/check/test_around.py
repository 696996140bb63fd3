"""What stands around the options: the release that a script installs, batches, quantization, containers, line ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.check.commands import check_text, check_words, lines_of, run
from wizard.releases.batches import batch_conflict, length_conflict


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("pip install vllm==0.12.0", "0.12.0"),
        ('uv pip install -U \\\n  "vllm[audio]==0.12.0+cu129" --torch-backend cu129', "0.12.0"),
        ("# pip install vllm==0.12.0", "0.33.0"),
        ("pip install my-vllm==0.12.0", "0.33.0"),
        ("pip install vllm", "0.33.0"),
    ],
)
def test_the_release_that_a_script_installs_is_the_one_that_counts(line: str, release: str) -> None:
    report = check_text(f"#!/bin/bash\n{line}\nvllm serve Qwen/Qwen3-8B\n", "serve.sh")
    assert report.verdicts[0].release.version == release
    assert bool(report.notes) == (release == "0.12.0")
    assert check_text(f"{line}\nvllm serve Qwen/Qwen3-8B\n", "serve.sh", "0.20.0").verdicts[0].release.version == "0.20.0"


def test_a_step_has_room_for_every_sequence() -> None:
    assert batch_conflict(8, 8) is None
    assert batch_conflict(None, 8) is None
    assert batch_conflict(1, None) is None
    assert batch_conflict(1, 8)
    assert length_conflict(2048, 4096)
    assert length_conflict(4096, 4096) is None
    report = check_words(["vllm", "serve", "Qwen/Qwen3-8B", "--max-num-batched-tokens", "1", "--max-num-seqs", "8"])
    assert [(p.flag, p.stops) for p in report.problems] == [("--max-num-batched-tokens", True)]
    assert report.verdicts[0].repaired_outcome == "starts"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--max-num-batched-tokens", "2k", "--max-model-len", "8k"], False),
        (["--max-num-batched-tokens", "2k", "--max-model-len", "8k", "--enable-chunked-prefill"], False),
        (["--max-num-batched-tokens", "2k", "--max-model-len", "8k", "--no-enable-chunked-prefill"], True),
        (["--max-num-batched-tokens", "2k", "--no-enable-chunked-prefill"], False),
    ],
)
def test_a_step_takes_a_whole_prompt_only_without_chunked_prefill(options: list[str], wrong: bool) -> None:
    assert bool(check_words(["vllm", "serve", "Qwen/Qwen3-8B", *options]).problems) == wrong


@pytest.mark.parametrize(
    ("model", "method", "wrong"),
    [
        ("Qwen/Qwen3-8B", "awq", True),
        ("Qwen/Qwen3-8B", "gptq_marlin", True),
        ("Qwen/Qwen3-8B", "fp8", False),
        ("Qwen/Qwen3-8B-AWQ", "awq_marlin", False),
        ("Qwen/Qwen3-8B-AWQ", "gptq", True),
        ("someone/Qwen3-8B", "awq", False),  # known by its name only
        ("nobody/NoSuchModel", "awq", False),
    ],
)
def test_a_model_that_is_not_quantized_so_stops(model: str, method: str, wrong: bool) -> None:
    report = check_words(["vllm", "serve", model, "--quantization", method])
    assert [p.stops for p in report.problems] == [True] * wrong
    assert report.verdicts[0].argv == [model, *([] if wrong else ["--quantization", method])]


IMAGE = "vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["docker", "run", IMAGE, "Qwen/Qwen3-8B"], ["--gpus"]),
        (["docker", "run", "--gpus", "all", IMAGE, "Qwen/Qwen3-8B"], []),
        (["docker", "run", "--gpus=all", IMAGE, "Qwen/Qwen3-8B", "-tp", "2"], ["--ipc"]),
        (["docker", "run", "--runtime", "nvidia", "--ipc=host", IMAGE, "Qwen/Qwen3-8B", "-tp", "2"], []),
        (["docker", "run", "--runtime", "nvidia", "--shm-size", "8g", IMAGE, "Qwen/Qwen3-8B", "-tp", "2"], []),
        (["podman", "run", IMAGE, "Qwen/Qwen3-8B"], ["--device"]),
        (["podman", "run", "--device", "nvidia.com/gpu=all", IMAGE, "Qwen/Qwen3-8B"], []),
        (["docker", "run", "vllm/vllm-openai-cpu:v0.33.0", "Qwen/Qwen3-8B"], []),
        (["docker", "run", "--device", "/dev/kfd", "vllm/vllm-openai-rocm:v0.33.0", "Qwen/Qwen3-8B"], []),
    ],
)
def test_a_container_is_given_the_gpus_and_shared_memory(words: list[str], flags: list[str]) -> None:
    report = check_words(words)
    assert [p.flag for p in report.problems] == flags
    assert report.accepted


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["vllm", "serve", "Qwen/Qwen3-8B"], "would start with it."),
        (["vllm", "serve"], "would start with it, but not all of it is right."),
        (["vllm", "serve", "Qwen/Qwen3-8B", "--api-key", "abc"], "would start with it, but not all of it is right."),
        (["docker", "run", IMAGE, "Qwen/Qwen3-8B"], "takes it, and may then not start."),
    ],
)
def test_the_headline_says_whether_something_is_wrong(words: list[str], state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(check_words(words))[0] == f"vLLM 0.33.0 {state}"
    assert run(["--", *words]) == (state != "would start with it.")


def test_windows_line_ends_and_a_byte_order_mark_are_cured_in_a_shell_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "vllm serve Qwen/Qwen3-8B \\\n  --max-model-len 8192\n"
    for raw in (text.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + text.encode()):
        file = tmp_path / "serve.sh"
        file.write_bytes(raw)
        assert run([str(file)]) == 1
        assert "would refuse it" in capsys.readouterr().out
        assert run(["--write", str(file)]) == 0
        assert file.read_bytes() == text.encode()


def test_windows_scripts_end_their_lines_as_windows_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("serve.bat", "serve.ps1"):
        file = tmp_path / name
        file.write_bytes(b"\xef\xbb\xbfvllm serve Qwen/Qwen3-8B --max-model-len 8192\r\n")
        assert run([str(file)]) == 0


def test_options_alone_leave_no_blank_where_the_first_stood() -> None:
    assert check_text("--swap-space 4 --port 8000\n", "notes.txt").repaired == "--port 8000\n"
