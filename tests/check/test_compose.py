"""Faults of compose files: each small file has what real ones have, and each fault is named where it stands."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from wizard.check import compose
from wizard.check.commands import Place, Report, check_text, run
from wizard.errors import BadInput
from wizard.host import open_host
from wizard.probes import run_all

MACHINES = Path(__file__).parents[1] / "machines"
GPU = """
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, count: all, capabilities: [gpu]}]
    ipc: host
"""


def service(body: str, gpu: str = GPU, rest: str = "", head: str = "") -> str:
    text = head + "services:\n  llm:\n" + "\n".join("    " + line for line in dedent(body).strip().splitlines()) + gpu + rest
    return text


def check(text: str, **more: object) -> Report:
    return check_text(text, "compose.yaml", **more)  # type: ignore[arg-type]


def found(report: Report) -> dict[str, str]:
    return {p.flag: p.kind for p in report.problems if p.kind != "ok"}


def test_a_good_file_has_nothing_wrong() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            restart: unless-stopped
            command: ["Qwen/Qwen3-8B", "--limit-mm-per-prompt", '{"image": 2}', "--port", "8000"]
            healthcheck: {test: ["CMD", "true"], start_period: 30m, interval: 30s}
            """
        )
    )
    assert found(report) == {}
    assert report.accepted
    assert report.repaired == report.original


def test_invented_variables_become_options() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            restart: always
            environment: {VLLM_MODEL: Qwen/Qwen3-8B, VLLM_MAX_MODEL_LEN: "8192"}
            command: --model Qwen/Qwen3-8B --port 8000
            """,
            head="version: '3.8'\n",
            gpu=GPU.replace("    ipc: host\n", ""),
        )
    )
    kinds = found(report)
    assert kinds["VLLM_MODEL"] == kinds["VLLM_MAX_MODEL_LEN"] == "never_existed"
    assert kinds["--model"] == "deprecated"
    assert kinds["version"] == "deprecated"
    assert {"services.llm.restart", "services.llm.ipc"} <= kinds.keys()
    assert report.verdicts[0].argv == ["Qwen/Qwen3-8B", "--port", "8000", "--max-model-len", "8192"]
    assert report.repaired is not None
    again = check(report.repaired)
    assert found(again) == {}


def test_short_start_period_with_a_waiting_service() -> None:
    text = service(
        """
        image: vllm/vllm-openai:v0.33.0
        environment: ["HF_TOKEN=${HF_TOKEN:-}"]
        command: ["meta-llama/Llama-3.1-8B-Instruct"]
        healthcheck: {test: ["CMD", "true"], start_period: 120s}
        """,
        rest="  web:\n    image: nginx\n    depends_on: {llm: {condition: service_healthy}}\n",
    )
    kinds = found(check(text))
    assert {"services.web.depends_on", "services.llm.healthcheck.start_period", "services.llm.environment.HF_TOKEN"} <= kinds.keys()


def test_image_of_another_architecture() -> None:
    kinds = found(check(service("image: vllm/vllm-openai:v0.33.0-aarch64\ncommand: ['m']")))
    assert "services.llm.image" in kinds


def test_token_that_is_only_a_comment_and_a_parser_that_does_not_fit() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            # HF_TOKEN=${HF_TOKEN}
            command: ["meta-llama/Llama-3.1-8B-Instruct", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
            """,
            gpu=GPU.replace("    ipc: host\n", ""),
        )
    )
    messages = " ".join(p.message for p in report.problems)
    assert "comment" in messages
    assert "401" in messages
    assert found(report)["--tool-call-parser"] == "conflict"
    assert report.verdicts[0].argv[-1] == "llama3_json"


def test_gpu_forms() -> None:
    body = "image: vllm/vllm-openai:v0.33.0\ncommand: ['m']\nipc: host\n"
    assert found(check(service(body + "gpus: all", gpu="\n")))["services.llm.gpus"] == "conflict"
    assert found(check(service(body + "gpus: 2", gpu="\n")))["services.llm.gpus"] == "bad_value"
    assert found(check(service(body, gpu="\n")))["services.llm.deploy"] == "bad_value"
    both = GPU.replace("count: all", "count: 1, device_ids: ['0']")
    report = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['m']\nruntime: nvidia", gpu=both))
    kinds = found(report)
    assert "services.llm.runtime" in kinds
    assert kinds["services.llm.deploy.resources.reservations.devices"] == "bad_value"
    without = GPU.replace("capabilities: [gpu]", "options: {}")
    assert "services.llm.deploy.resources.reservations.devices" in found(check(service("image: vllm/vllm-openai:v0.33.0", gpu=without)))


def test_model_too_large_and_fp8_cache_on_this_machine() -> None:
    host = open_host(MACHINES / "wsl2-2x-rtx3090")
    place = Place(run_all(host), host)
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            shm_size: 16gb
            command: ["Qwen/Qwen3-Coder-70B-FP8", "--kv-cache-dtype", "fp8_e4m3", "--tensor-parallel-size", "2"]
            """
        ),
        place=place,
    )
    kinds = found(report)
    assert "model" in kinds
    assert "services.llm.shm_size" in kinds
    assert any("8.9" in p.message for p in report.problems)


def test_tensor_parallel_over_the_visible_gpus() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            environment: {CUDA_VISIBLE_DEVICES: "0"}
            command: ["m", "--tensor-parallel-size", "2"]
            """
        )
    )
    assert found(report)["--tensor-parallel-size"] == "conflict"
    reserved = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['m', '-tp', '4']", gpu=GPU.replace("count: all", "count: 2")))
    assert "conflict" in found(reserved).values()


def test_gated_model_without_any_token() -> None:
    report = check(service("image: vllm/vllm-openai:v0.33.0\nrestart: always\ncommand: ['google/gemma-3-4b-it']", gpu=GPU.replace("    ipc: host\n", "")))
    assert {"services.llm.environment.HF_TOKEN", "services.llm.ipc", "services.llm.restart"} <= found(report).keys()


def test_shared_memory_twice_parser_alone_nightly() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:nightly
            shm_size: 16gb
            volumes: ["/dev/shm:/dev/shm"]
            restart: always
            command: ["Qwen/Qwen3-8B", "--tool-call-parser", "hermes"]
            """
        )
    )
    kinds = found(report)
    assert {"services.llm.shm_size", "services.llm.volumes", "services.llm.image", "services.llm.restart", "--tool-call-parser"} <= kinds.keys()
    assert "--enable-auto-tool-choice" in report.verdicts[0].argv


def test_text_of_the_command() -> None:
    folded = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            command: >
              Qwen/Qwen3-8B
              # how many at once
              --max-num-seqs 4
              --limit-mm-per-prompt {"image": 2}
            """
        )
    )
    assert not folded.accepted
    assert folded.verdicts[0].argv == ["Qwen/Qwen3-8B", "--max-num-seqs", "4", "--limit-mm-per-prompt", '{"image": 2}']
    assert folded.repaired is not None
    assert found(check(folded.repaired)) == {}
    numbers = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: [m, --port, 8000]"))
    assert not numbers.accepted
    together = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['m', '--port 8000']"))
    assert any(p.kind == "bad_quoting" for p in together.problems)
    dollar = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['$MODEL', '--port', '8000']"))
    assert any("$$" in p.message for p in dollar.problems)
    twice = check(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['vllm', 'serve', 'm']"))
    assert not twice.accepted
    assert "'m'" in str(twice.repaired) or '"m"' in str(twice.repaired)


def test_old_images_take_the_model_as_an_option() -> None:
    report = check(service("image: vllm/vllm-openai:v0.9.2\ncommand: ['--model', 'm', '--swap-space', '4']"))
    assert report.accepted
    assert found(report) == {}


def test_secret_in_the_open_and_units() -> None:
    report = check(
        service(
            """
            image: vllm/vllm-openai:v0.33.0
            environment: {HF_TOKEN: hf_aaaaaaaaaaaaaaaaaaaa}
            command: ['m']
            stop_grace_period: 60
            """
        )
    )
    kinds = found(report)
    assert kinds["services.llm.environment.HF_TOKEN"] == "conflict"
    assert kinds["services.llm.stop_grace_period"] == "bad_value"
    assert "hf_aaaa" not in str(report.repaired)


def test_variables_of_a_compose_file_are_left_to_it() -> None:
    report = check(service("image: vllm/vllm-openai:${TAG:-v0.33.0}\ncommand: ['${MODEL}', '--port', '${PORT:-8000}', '--swap-space', '4']"))
    assert report.verdicts[0].release.version == "0.33.0"
    assert report.verdicts[0].argv == ["${MODEL}", "--port", "8000"]
    assert "${PORT:-8000}" in str(report.repaired)


def test_comments_order_and_other_services_stay() -> None:
    text = service("image: vllm/vllm-openai:v0.33.0  # pinned\ncommand: ['m', '--swap-space', '4']", rest="  web:\n    image: nginx  # front\n")
    repaired = str(check(text).repaired)
    assert "# pinned" in repaired
    assert "# front" in repaired
    assert "swap-space" not in repaired


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  a: [unclosed\n",
        "services: 3\n",
        "services:\n  web: {image: nginx}\n",
        "services:\n" + "".join(f"{'  ' * i}a{i}:\n" for i in range(1, 80)),
        "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\nservices: {}\n",
        "services:\n  a: {image: vllm/vllm-openai}\n  a: {image: x}\n",
    ],
)
def test_unusable_files_are_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        check(text)


def test_shell_as_entrypoint() -> None:
    report = check(service("image: vllm/vllm-openai:v0.33.0\nentrypoint: ['bash', '-c', 'vllm serve m --swap-space 4 --port 1']"))
    assert report.verdicts[0].argv == ["m", "--port", "1"]
    assert not report.accepted


def test_writing_keeps_a_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "compose.yaml"
    path.write_text(service("image: vllm/vllm-openai:v0.33.0\ncommand: ['m', '--swap-space', '4']"))
    before = path.read_text()
    assert run(["--write", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "swap-space" in shown
    assert path.read_text() != before
    assert [p.read_text() for p in (tmp_path / "state").rglob("compose.yaml")] == [before]
    assert run([str(path)]) == 0


def test_gpu_count_forms() -> None:
    def count(value: str) -> int | None:
        data = compose.load_yaml(service("image: vllm/vllm-openai", gpu=GPU.replace("count: all", value)), "c")
        return compose.gpu_count(data["services"]["llm"])

    assert count("count: all") is None
    assert count("count: 2") == 2
    assert count("device_ids: ['0', '3']") == 2
