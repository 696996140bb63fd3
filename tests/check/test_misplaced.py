"""Options of vLLM before the image of a ``docker run``: docker refuses them; its own stay where they are."""

from __future__ import annotations

import shlex

import pytest

from wizard.check.commands import check_text, check_words, report_json

IMAGE = "vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize(
    ("given", "repaired", "named"),
    [
        (f"docker run --gpus all --max-num-seqs 8 {IMAGE} Qwen/Qwen3-8B", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B --max-num-seqs 8", ["--max-num-seqs"]),
        (f"docker run --max-model-len=4096 --gpus all {IMAGE} Qwen/Qwen3-8B --port 80", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B --port 80 --max-model-len=4096", ["--max-model-len"]),
        (f"docker run --gpus all --enforce-eager {IMAGE} Qwen/Qwen3-8B", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B --enforce-eager", ["--enforce-eager"]),
        (f"docker run --gpus all --model Qwen/Qwen3-8B {IMAGE}", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B", ["--model"]),
        (f"docker run --gpus all --model Qwen/Qwen3-8B {IMAGE} --port 80", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B --port 80", ["--model"]),
        (f"podman run --device nvidia.com/gpu=all --max_model_len 4096 --port 80 -d {IMAGE} Qwen/Qwen3-8B", f"podman run --device nvidia.com/gpu=all -d {IMAGE} Qwen/Qwen3-8B --max-model-len 4096 --port 80", ["--max_model_len", "--port"]),
        (f"docker run --gpus all --swap-space 4 {IMAGE} Qwen/Qwen3-8B", f"docker run --gpus all {IMAGE} Qwen/Qwen3-8B", ["--swap-space"]),
        (f"sudo docker run --gpus all \\\n  --host 0.0.0.0 \\\n  {IMAGE} \\\n  Qwen/Qwen3-8B\n", f"sudo docker run --gpus all \\\n  {IMAGE} \\\n  Qwen/Qwen3-8B \\\n  --host 0.0.0.0\n", ["--host"]),
    ],
)  # fmt: skip
def test_they_are_refused_and_moved_behind_the_image(given: str, repaired: str, named: list[str]) -> None:
    report = check_text(given, "start.sh")
    assert not report.accepted
    told = [p for p in report.problems if "behind the image" in p.message]
    assert [p.flag for p in told] == named
    assert report.repaired == repaired
    again = check_text(repaired, "start.sh")
    assert again.problems == []
    if "\n" not in given:
        as_words = report_json(check_words(shlex.split(given)))
        assert as_words["command"] == repaired.replace("--max-model-len=4096", "--max-model-len=4096")
        assert as_words["accepted"] is False


def test_two_gpus_are_counted_there_too() -> None:
    report = check_text(f"docker run --gpus all --tensor-parallel-size 2 {IMAGE} Qwen/Qwen3-8B\n", "start.sh")
    assert report.repaired == f"docker run --ipc host --gpus all {IMAGE} Qwen/Qwen3-8B --tensor-parallel-size 2\n"


def test_dockers_own_options_stay() -> None:
    own = (
        "--gpus all --memory 8g -e A=b --name x --runtime nvidia --ulimit memlock=-1 --ipc host --shm-size 8g --device /dev/dri "
        "--env-file .env --platform linux/amd64 --pull always --restart no -p 80:80 --network host --init --hostname h --user 1 "
        "--cpus 4 --label a=b --log-driver json-file --mount type=bind,src=/a,dst=/b --entrypoint vllm --secret s --timeout 5"
    )
    report = check_text(f"docker run {own} {IMAGE} serve Qwen/Qwen3-8B\n", "start.sh")
    assert report.problems == []


def test_what_neither_has_is_left_alone() -> None:
    assert not any("behind the image" in p.message for p in check_text(f"docker run --gpus all --gpu all {IMAGE} m\n", "s.sh").problems)
