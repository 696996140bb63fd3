"""Options that a text gives without a command, and advice beside the command that it holds."""

from __future__ import annotations

import time

import pytest

from wizard.check.commands import check_text, lines_of
from wizard.errors import BadInput


@pytest.mark.parametrize(
    ("text", "flags", "argv"),
    [
        ("--gpu-memory-utilization 0.6 --swap-space 4", ["--swap-space"], ["--gpu-memory-utilization", "0.6"]),
        ("--limit-mm-processing image", ["--limit-mm-processing"], ["--limit-mm-per-prompt", '{"video": 0}']),
        ("  --max-model-ln 4096 \\\n  --port 80\n", ["--max-model-ln"], ["--max-model-len", "4096", "--port", "80"]),
        ("First:\n--port 80 --seed 1\nthen\n\n--disable-uvloop\nand wait.\n", ["--disable-uvloop"], ["--port", "80", "--seed", "1"]),
        ("--wholly-unknown 4\n", ["--wholly-unknown"], []),
        ("-tp 2", [], ["-tp", "2"]),
        ("\u2014port 80", ["--port"], ["--port", "80"]),
    ],
)
def test_options_alone_are_read_as_those_of_a_command(text: str, flags: list[str], argv: list[str]) -> None:
    report = check_text(text, "the pasted text", "0.33.0")
    assert [p.flag for p in report.problems] == flags
    (verdict,) = report.verdicts
    assert verdict.model is None
    assert verdict.argv == argv
    assert not any("vllm serve" in line for line in lines_of(report))
    assert argv == [] or check_text(str(report.repaired), "the pasted text", "0.33.0").accepted


@pytest.mark.parametrize(
    "text",
    [
        "llama-server \\\n  --model x \\\n  --port 8080",
        "ls --all\n-a b",
        "- one\n- two",
        "--- a/x\n+++ b/x\n",
        "Usage: x [OPTION]\n  -a, --all    all\n  -v, --verbose\n",
        "Nothing of --port 80 here.",
    ],
)
def test_other_texts_hold_no_command_still(text: str) -> None:
    with pytest.raises(BadInput):
        check_text(text, "the pasted text")


COMMAND = "vllm serve a/b --port 80\n"


def test_what_a_text_advises_beside_its_command_is_said_to_be_untrue() -> None:
    text = f"Swap:\n--gpu-memory-utilization 0.6 --swap-space 4\n图片：--limit-mm-processing image。\nOr `--disable-uvloop`.\n{COMMAND}"
    report = check_text(text, "x.txt", "0.33.0")
    assert [note.split()[4] for note in report.notes] == ["--swap-space", "--limit-mm-processing", "--disable-uvloop"]
    assert "left out" not in "".join(report.notes)
    assert report.verdicts[0].argv == ["a/b", "--port", "80"]
    assert report.repaired == text
    assert check_text(text, "x.txt", "0.9.0").notes[0].split()[4] == "--limit-mm-processing"


@pytest.mark.parametrize(
    "beside",
    [
        "wsl --shutdown\n", "docker run --gpus all nvidia/cuda nvidia-smi\n", "pip install --no-cache-dir vllm\n",
        "llama-server \\\n  --ctx-size 4096 \\\n  --batch-size 8\n", "use --max-model-len or --gpus\n", "`--gpus all`\n",
    ],
)  # fmt: skip
def test_options_of_other_programs_are_left_alone(beside: str) -> None:
    assert check_text(beside + COMMAND, "x.txt", "0.33.0").notes == []


def test_a_script_is_no_article() -> None:
    assert check_text("#!/bin/sh\nx \\\n --y\n# `--swap-space 4`\n" + COMMAND, "x.sh", "0.33.0").notes == []


def test_long_texts_are_read_in_time() -> None:
    began = time.monotonic()
    check_text("`--swap-space 4`\n" * 20000 + COMMAND, "x.txt", "0.33.0")
    with pytest.raises(BadInput):
        check_text("--swap-spce 4\n" * 20000, "x.txt")
    assert time.monotonic() - began < 20
