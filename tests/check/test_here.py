"""A command held against a machine: the headline and the lines below it say one and the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.check.commands import Place, check_text, check_words, lines_of, report_json
from wizard.host import FakeHost
from wizard.probes import run_all

MACHINES = Path(__file__).parent.parent / "machines"


def place(name: str) -> Place:
    host = FakeHost(MACHINES / name)
    return Place(run_all(host), host)


@pytest.fixture(scope="module")
def small_card() -> Place:
    return place("wsl2-rtx3060-model-on-d")


LARGE = "/mnt/d/models/Qwen3-VL-8B-Instruct"


def test_weights_larger_than_the_card_do_not_start(small_card: Place) -> None:
    words = ["vllm", "serve", LARGE, "--max-model-len", "32768", "--gpu-memory-utilization", "0.86"]
    report = check_words(words, "0.33.0", small_card)
    lines = lines_of(report)
    assert lines[0] == "vLLM 0.33.0 takes it, and then does not start."
    assert any(line.strip().startswith(LARGE) and "16.6 GiB" in line for line in lines)
    assert not any("--model:" in line for line in lines)
    assert report_json(report)["problems"][0]["stops"] is True


def test_a_share_that_is_not_free_does_not_hide_weights_that_are_too_large(small_card: Place) -> None:
    words = ["vllm", "serve", LARGE, "--gpu-memory-utilization", "0.95"]
    said = "\n".join(lines_of(check_words(words, "0.33.0", small_card)))
    assert "takes it, and then does not start" in said
    assert "--gpu-memory-utilization: " in said
    assert "10.9 of 12.0 GiB" in said
    assert "16.6 GiB" in said


def test_a_share_that_is_not_free_is_named_with_one_that_starts(small_card: Place) -> None:
    words = ["vllm", "serve", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", "--max-model-len", "4096", "--gpu-memory-utilization", "0.95"]
    problems = [p for p in check_words(words, "0.33.0", small_card).problems if p.counts]
    assert [p.flag for p in problems] == ["--gpu-memory-utilization"]
    assert problems[0].replacement == "--gpu-memory-utilization 0.90"
    again = [*words[:-1], "0.90"]
    assert lines_of(check_words(again, "0.33.0", small_card))[0] == "vLLM 0.33.0 would start with it."


def test_more_gpus_than_there_are_do_not_start(small_card: Place) -> None:
    words = ["vllm", "serve", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", "--max-model-len", "4096", "--gpu-memory-utilization", "0.86", "--tensor-parallel-size", "2"]
    assert "does not start" in lines_of(check_words(words, "0.33.0", small_card))[0]


def test_a_fault_of_the_release_on_such_a_machine_is_in_the_headline(small_card: Place) -> None:
    words = ["vllm", "serve", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", "--max-model-len", "4096", "--gpu-memory-utilization", "0.86"]
    first, *rest = lines_of(check_words(words, "0.26.0", small_card))
    assert "UVA is not available" in "\n".join(rest)
    assert first == "vLLM 0.26.0 takes it, and may then not start."


@pytest.mark.parametrize(
    ("more", "state"),
    [
        (["--enable-auto-tool-choice"], "takes it, and then does not start"),
        (["--enable-log-outputs"], "takes it, and then does not start"),
        (["--tool-call-parser", "hermes"], "would start with it"),
        (["--api-key", "abc"], "would start with it"),
        (["--single-process"], "would refuse it"),
    ],
)
def test_the_headline_follows_from_what_is_said_below(more: list[str], state: str) -> None:
    assert state in lines_of(check_words(["vllm", "serve", "m", *more], "0.33.0"))[0]


def written(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, *more: str) -> tuple[list[str], str]:
    from wizard.__main__ import main

    path = tmp_path / "s.sh"
    path.write_text(f"#!/bin/bash\n{command}\n")
    main(["check", "--write", "--release", "0.33.0", *more, str(path)])
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()], path.read_text()


def test_a_repair_says_what_was_then_what_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, text = written(tmp_path, capsys, "vllm serve m --swap-space 4")
    assert "swap-space" not in text
    was = next(i for i, line in enumerate(lines) if line == "As it was, vLLM 0.33.0 would refuse it.")
    repaired = next(i for i, line in enumerate(lines) if line.endswith("s.sh was repaired."))
    now = next(i for i, line in enumerate(lines) if line == "As it is now, vLLM 0.33.0 would start with it.")
    assert was < repaired < now
    assert any(line.startswith("Before: ") for line in lines[repaired:now])


def test_a_repair_that_does_not_set_everything_right_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _text = written(tmp_path, capsys, f"vllm serve {LARGE} --swap-space 4 --gpu-memory-utilization 0.86", "--here", "--machine", str(MACHINES / "wsl2-rtx3060-model-on-d"))
    now = next(i for i, line in enumerate(lines) if line.startswith("As it is now, "))
    assert "does not start" in lines[now]
    assert any(line.startswith(LARGE) for line in lines[now:])
    assert "16.6 GiB" in " ".join(lines[now:])


def test_what_is_right_is_not_said_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _text = written(tmp_path, capsys, "vllm serve m")
    assert not any(line.startswith("As it") for line in lines)
    assert any(line.endswith("s.sh stays as it is.") for line in lines)


def test_the_share_that_is_free_stands_in_the_repaired_command() -> None:
    from tests.plan.test_docker_beside import place

    words = ["vllm", "serve", "Qwen/Qwen3-4B", "--gpu-memory-utilization=0.95", "--max-model-len", "4096"]
    verdict = check_words(words, "0.33.0", place("wsl2-rtx3060-model-on-d")).verdicts[0]
    assert verdict.argv == ["Qwen/Qwen3-4B", "--gpu-memory-utilization", "0.90", "--max-model-len", "4096"]
    assert verdict.changed


@pytest.mark.parametrize("options", [["--gpu-memory-utilization", "0.95"], ["--max-model-len", "999999"], []])
def test_what_is_printed_as_repaired_passes_the_same_check(small_card: Place, options: list[str]) -> None:
    (verdict,) = check_words(["vllm", "serve", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", *options], "0.33.0", small_card).verdicts
    assert verdict.changed
    again = check_words(["vllm", "serve", *verdict.argv], "0.33.0", small_card)
    assert [p.message for p in again.problems if p.counts] == []
    assert again.verdicts[0].outcome == verdict.repaired_outcome == "starts"


def test_what_no_repair_helps_is_said_to_be_so(small_card: Place) -> None:
    words = ["vllm", "serve", LARGE, "--tensor-paralel-size", "1"]
    assert lines_of(check_words(words, "0.33.0", small_card))[-1] == "Even as repaired here, vLLM 0.33.0 takes it, and then does not start."


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        ("native-v100", "no kernels for compute capability 7.0"),
        ("native-t4", "too old for CUDA 13.0"),
        ("wsl2-rtx5070-laptop-old-driver", "too old for CUDA 13.0"),
        ("wsl1", "WSL1"),
        ("nvidia-smi-hangs", "The GPU driver does not answer"),
    ],
)
def test_a_native_start_is_held_against_the_machine_as_the_plan_does(machine: str, told: str) -> None:
    report = check_words(["vllm", "serve", "Qwen/Qwen3-0.6B"], "0.33.0", place(machine))
    assert report.verdicts[0].outcome == "stops"
    assert any(told in p.message for p in report.problems)


@pytest.mark.parametrize("machine", ["native-rtx5090", "native-mi300x"])
def test_a_native_start_on_a_machine_that_serves_has_nothing_wrong(machine: str) -> None:
    assert check_words(["vllm", "serve", "Qwen/Qwen3-0.6B"], "0.33.0", place(machine)).problems == []


def test_a_blocker_of_the_machine_stops_a_container_too_but_not_for_the_gpu_where_none_is_used() -> None:
    here = place("nvidia-smi-hangs")
    told = [p.flag for p in check_words(["docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.33.0", "Qwen/Qwen3-0.6B"], None, here).problems]
    assert "this machine" in told
    told = [p.flag for p in check_words(["docker", "run", "vllm/vllm-openai-cpu:v0.33.0", "Qwen/Qwen3-0.6B"], None, here).problems]
    assert "this machine" not in told


def test_a_model_on_this_machine_is_not_quantized_as_is_said(small_card: Place) -> None:
    words = ["vllm", "serve", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", "--max-model-len", "4096", "--gpu-memory-utilization", "0.86"]
    assert not any(p.flag == "--quantization" for p in check_words([*words, "--quantization", "fp8"], "0.33.0", small_card).problems)
    words[2] = LARGE
    assert any(p.flag == "--quantization" and p.stops for p in check_words([*words, "--quantization", "gptq"], "0.33.0", small_card).problems)


SMALL = "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8"
RUN = ["docker", "run", "--gpus", "all"]
IMAGE = "vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize("path", [SMALL, "~/models"])
def test_a_model_on_a_slow_drive_is_told_and_is_no_fault(small_card: Place, path: str) -> None:
    report = check_words(["vllm", "serve", path, "--max-model-len", "4096", "--gpu-memory-utilization", "0.9"], "0.33.0", small_card)
    told = [p for p in report.problems if "slow drive" in p.message]
    assert [(p.flag, p.counts) for p in told] == ([(SMALL, False)] if path == SMALL else [])
    assert report.verdicts[0].outcome == ("starts" if path == SMALL else "stops")  # the other is not there


def test_little_memory_is_told_and_is_no_fault(small_card: Place) -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--gpu-memory-utilization", "0.9"]
    (told,) = check_words(words, "0.33.0", small_card).problems
    assert (told.flag, told.counts) == ("this machine", False)
    assert "7.7 GiB" in told.message
    assert check_words(words, "0.33.0", place("wsl2-rtx4090-desktop")).problems == []


@pytest.mark.parametrize(
    "mount",
    [
        ["-v", f"{SMALL}:/m"],
        [f"--volume={SMALL}/:/m/:ro"],
        ["--mount", f"type=bind,source={SMALL},target=/m,readonly"],
        ["--mount", f"type=bind,src={SMALL},dst=/m"],
    ],
)
def test_the_memory_of_a_model_in_a_container_is_that_of_the_folder_mounted_there(small_card: Place, mount: list[str]) -> None:
    words = [*RUN, *mount, IMAGE, "/m", "--max-model-len", "18528"]
    (verdict,) = check_words(words, None, small_card).verdicts
    assert (verdict.outcome, verdict.repaired_outcome) == ("stops", "starts")
    assert {p.flag for p in verdict.problems} == {"--gpu-memory-utilization", SMALL, "this machine"}


def test_the_same_in_a_compose_file(small_card: Place) -> None:
    text = (
        f"services:\n  v:\n    image: {IMAGE}\n    gpus: all\n    command: [/m/x, --max-model-len, '18528']\n"
        "    volumes:\n      - {type: bind, source: '${MODELS:-" + SMALL + "}', target: /m/x}\n"
    )
    flags = {p.flag for p in check_text(text, "compose.yaml", None, small_card).problems}
    assert {"--gpu-memory-utilization", SMALL} <= flags


@pytest.mark.parametrize(
    ("mount", "told"),
    [([], True), (["-v", "/srv/other:/o"], True), (["-v", "models:/m"], False), (["-v", "/srv:/m"], False), (["--volumes-from", "data"], False),
     (["-v", "C:\\models:/m"], False), (["--mount", "type=volume,dst=/m"], False), (["-v", "/m"], False)],
)  # fmt: skip
def test_a_path_that_nothing_is_mounted_at_is_told(mount: list[str], told: bool) -> None:
    (verdict,) = check_words([*RUN, *mount, IMAGE, "/m/x"], None).verdicts
    assert [p.flag for p in verdict.problems] == (["/m/x"] if told else [])
    assert verdict.outcome == ("doubtful" if told else "starts")
    assert verdict.docker_added == []  # whether the host has such a folder is not known


def test_an_image_of_ones_own_may_hold_the_model() -> None:
    (verdict,) = check_words([*RUN, "me/vllm:1", "/m/x"], "0.33.0").verdicts
    assert "/m/x" not in {p.flag for p in verdict.problems}


def test_a_folder_of_this_machine_is_mounted_into_the_repaired_command(small_card: Place) -> None:
    words = ["docker", "run", "-d", IMAGE, SMALL, "--max-model-len", "18528"]
    (verdict,) = check_words(words, None, small_card).verdicts
    assert verdict.docker_added == ["--gpus", "all", "-v", f"{SMALL}:{SMALL}:ro"]
    assert verdict.repaired_outcome == "starts"
    shown = lines_of(check_words(words, None, small_card))
    assert any(f"docker run --gpus all -v {SMALL}:{SMALL}:ro -d {IMAGE} {SMALL} " in line for line in shown)


def test_what_docker_lacks_is_put_into_a_script() -> None:
    text = "set -e\nsudo docker run -d --name x \\\n  -p 8000:8000 \\\n  vllm/vllm-openai:v0.33.0 \\\n  Qwen/Qwen3-8B\n"
    report = check_text(text, "start.sh")
    assert report.repaired == text.replace("docker run -d", "docker run --gpus all -d")
    assert check_text(str(report.repaired), "start.sh").problems == []
