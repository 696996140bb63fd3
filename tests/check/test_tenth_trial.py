"""What a tenth newcomer found wrong in `check`."""

from __future__ import annotations

import pytest

from wizard.check.commands import check_text, check_words

RUN = ["docker", "run", "--gpus", "all", "--ipc=host"]


@pytest.mark.parametrize("image", ["nvcr.io/nvidia/vllm:25.09-py3", "rocm/vllm:latest", "ghcr.io/me/vllm:1"])
def test_of_an_image_of_others_the_entrypoint_is_not_known(image: str) -> None:
    words = [*RUN, image, "vllm", "serve", "Qwen/Qwen3-8B"]
    (verdict,) = check_words(words, None).verdicts
    assert verdict.outcome == "starts"
    assert not verdict.changed
    text = f"services:\n  v:\n    image: {image}\n    command: vllm serve Qwen/Qwen3-8B --swap-space 4\n"
    repaired = str(check_text(text, "compose.yaml", "0.33.0").repaired)
    assert "swap-space" not in repaired
    assert "serve" in repaired


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.33.0", "mirror.example/vllm/vllm-openai:v0.33.0", "vllm/vllm-openai-cpu:v0.33.0"])
def test_vllms_own_images_start_it_themselves(image: str) -> None:
    (verdict,) = check_words([*RUN, image, "vllm", "serve", "Qwen/Qwen3-8B"], None).verdicts
    assert verdict.outcome == "refused"


@pytest.mark.parametrize(("shell", "told"), [("bash", True), ("/bin/sh", True), ("me/bash", False)])
def test_a_shell_behind_the_image_is_told(shell: str, told: bool) -> None:
    (verdict,) = check_words([*RUN, "vllm/vllm-openai:v0.33.0", shell], None).verdicts
    assert (verdict.outcome == "stops") is told
    assert any("--entrypoint" in p.message for p in verdict.problems) is told
    (own,) = check_words([*RUN, "--entrypoint", "vllm", "vllm/vllm-openai:v0.33.0", "serve", "bash"], None).verdicts
    assert not any("--entrypoint" in p.message for p in own.problems)


def test_no_value_of_an_env_file_is_lost() -> None:
    text = "VLLM_MODEL=Qwen/Qwen3-8B\nVLLM_MAX_MODEL_LEN=8192\nVLLM_ATTENTION_BACKEND=FLASH_ATTN\nHF_HOME=/x\n"
    report = check_text(text, ".env", "0.33.0")
    assert {"VLLM_MODEL", "VLLM_MAX_MODEL_LEN", "VLLM_ATTENTION_BACKEND"} <= {p.flag for p in report.problems}
    assert report.repaired == text


def test_a_restart_without_end_becomes_one_with_an_end() -> None:
    text = "services:\n  v:\n    image: vllm/vllm-openai:v0.33.0\n    ipc: host\n    gpus: all\n    restart: always\n    command: [Qwen/Qwen3-8B]\n"
    report = check_text(text, "compose.yaml")
    assert [p.flag for p in report.problems if "restart" in p.flag] == ["services.v.restart"]
    assert "restart: on-failure:3" in str(report.repaired)
    assert not any("restart" in p.flag for p in check_text(str(report.repaired), "compose.yaml").problems)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["nvcr.io/nvidia/vllm:25.09-py3", "vllm", "serve", "a/M"], "vllm serve a/M"),
        (["rocm/vllm:latest", "python", "-m", "vllm.entrypoints.openai.api_server", "--model", "a/M"], "python -m vllm.entrypoints.openai.api_server --model a/M"),
        (["--entrypoint", "vllm", "vllm/vllm-openai:v0.33.0", "serve", "a/M"], "vllm/vllm-openai:v0.33.0 serve a/M"),
    ],
)
def test_what_starts_vllm_in_the_container_stays_in_the_repaired_command(words: list[str], shown: str) -> None:
    from wizard.check.rewrite import one_line

    (verdict,) = check_words([*RUN, *words, "--swap-space", "4"], "0.33.0").verdicts
    assert one_line(verdict).endswith(shown)
