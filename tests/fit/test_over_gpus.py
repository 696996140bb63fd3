"""`fit --gpus N` says what vLLM does by itself: without a length that is the model's own, over the GPUs that hold it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.__main__ import main


def fitted(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["fit", "--gpu", "RTX 4090", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("gpus", "split"), [("1", 1), ("2", 2), ("3", 2)])
def test_what_one_gpu_does_not_hold_in_full_is_split(capsys: pytest.CaptureFixture[str], gpus: str, split: int) -> None:
    found = fitted(capsys, "--model", "Qwen/Qwen3-8B", "--gpus", gpus)
    assert (found["tensor_parallel_size"], found["fits"]) == (split, split > 1)


@pytest.mark.parametrize("length", ["auto", "16384"])
def test_a_length_that_one_gpu_holds_is_not_split(capsys: pytest.CaptureFixture[str], length: str) -> None:
    found = fitted(capsys, "--model", "Qwen/Qwen3-8B", "--gpus", "2", "--max-model-len", length)
    assert (found["tensor_parallel_size"], found["fits"]) == (1, True)


def test_where_no_number_of_gpus_holds_it_none_is_said_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--model", "Qwen/Qwen3-32B", "--gpu", "RTX 4090", "--gpus", "2"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "It does not fit" in told
    assert "one GPU holds it" not in told
    assert "one GPU does not hold it, and neither do 2" in told


@pytest.mark.parametrize(("name", "content"), [("config.json", '{"a":'), ("model.toml", "x")])
def test_what_is_no_model_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    given = tmp_path if name == "config.json" else tmp_path / name
    assert main(["fit", "--model", str(given), "--gpu", "RTX 4090"]) == 2
    assert str(tmp_path / name) in capsys.readouterr().err
