"""What a newcomer tried, and check took for right: lengths after a repair, models that are not there, paths of Windows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wizard.check.commands import Place, check_text, check_words, lines_of, report_json
from wizard.check.judge import Verdict
from wizard.host import FakeHost
from wizard.probes import run_all
from wizard.releases.types import ArgProblem

MACHINES = Path(__file__).parent.parent / "machines"
SMALL = "wsl2-rtx3060-model-on-d"
ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def place(name: str = SMALL) -> Place:
    host = FakeHost(MACHINES / name)
    return Place(run_all(host), host)


def verdict_of(*words: str, release: str = "0.33.0", at: Place | None = None) -> Verdict:
    return check_words(["vllm", "serve", *words], release, at).verdicts[0]


def flags(verdict: Verdict) -> list[str]:
    return [p.flag for p in verdict.problems if p.counts]


def problem(verdict: Verdict, flag: str) -> ArgProblem:
    return next(p for p in verdict.problems if p.flag == flag)


# --- a length is held against the model as the repaired command has it --------------------------------------------


@pytest.mark.parametrize("release", ["0.33.0", "0.8.5"])
def test_a_length_that_rope_scaling_allows_is_kept(release: str) -> None:
    verdict = verdict_of("Qwen/Qwen3-8B", "--rope-scaling", json.dumps(ROPE), "--max-model-len", "131072", release=release)
    assert "--max-model-len" not in flags(verdict)
    assert verdict.argv[verdict.argv.index("--max-model-len") + 1] == "131072"


@pytest.mark.parametrize(
    ("overrides", "longest"),
    [({"rope_scaling": ROPE}, 131072), ({"rope_parameters": {**ROPE, "factor": 2.0}}, 65536), ({"max_position_embeddings": 50000}, 50000), ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, 81920)],
)
def test_a_length_beyond_the_overrides_is_told(overrides: object, longest: int) -> None:
    for asked, wrong in ((longest, False), (longest + 1, True)):
        verdict = verdict_of("Qwen/Qwen3-8B", "--hf-overrides", json.dumps(overrides), "--max-model-len", str(asked))
        assert ("--max-model-len" in flags(verdict)) is wrong
        if wrong:
            assert problem(verdict, "--max-model-len").replacement == f"--max-model-len {longest}"


@pytest.mark.parametrize("overrides", ['{"text_config": {"rope_scaling": {"factor": 4}}}', '{"rope_scaling": {"rope_type": "llama3", "factor": 8}}', "$X", '{"rope_scaling": 3}', '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}'])
def test_overrides_that_are_not_understood_allow_every_length(overrides: str) -> None:
    assert "--max-model-len" not in flags(verdict_of("Qwen/Qwen3-8B", "--hf-overrides", overrides, "--max-model-len", "900000"))


# --- heads ---------------------------------------------------------------------------------------------------------


def test_heads_that_cannot_be_divided_need_no_machine() -> None:
    verdict = verdict_of("Qwen/Qwen3-8B", "--tensor-parallel-size", "3")
    assert verdict.outcome == "stops"
    assert "32 attention heads" in problem(verdict, "--tensor-parallel-size").message
    assert verdict_of("Qwen/Qwen3-8B", "-tp", "2").problems == []
    assert verdict_of("some/Model-8B", "-tp", "3").problems == []
    here = verdict_of("Qwen/Qwen3-8B", "-tp", "3", at=place("native-4x-h200"))
    assert [p.message for p in here.problems].count(problem(verdict, "--tensor-parallel-size").message) == 1
    without_gpus = verdict_of("Qwen/Qwen3-8B", "-tp", "3", at=place("cpu-only-laptop"))
    assert "--tensor-parallel-size" in flags(without_gpus)


# --- what is not on the machine --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["/home/user/nope", "~/nope", "/mnt/d/models/nope"])
def test_a_folder_that_is_not_there_is_told(model: str) -> None:
    verdict = verdict_of(model, "--gpu-memory-utilization", "0.8", at=place())
    assert verdict.outcome == "stops"
    assert "no such folder on this machine" in problem(verdict, model).message
    assert lines_of(check_words(["vllm", "serve", model], "0.33.0", place()))[0] == "vLLM 0.33.0 takes it, and then does not start."
    assert verdict_of(model).outcome == "starts"  # without a machine nobody knows


def test_a_folder_that_is_not_there_to_be_mounted() -> None:
    words = ["docker", "run", "--gpus", "all", "-v", "/srv/nope:/m", "vllm/vllm-openai:v0.33.0", "/m/x"]
    (verdict,) = check_words(words, None, place()).verdicts
    assert "no such folder on this machine" in problem(verdict, "/srv/nope/x").message


def test_a_share_that_is_not_free_needs_no_model() -> None:
    verdict = verdict_of("unknown/Model-70B", "--gpu-memory-utilization", "0.99", at=place())
    wrong = problem(verdict, "--gpu-memory-utilization")
    assert wrong.stops
    assert "10.9 of 12.0 GiB" in wrong.message
    assert wrong.replacement == "--gpu-memory-utilization 0.90"
    assert verdict_of("unknown/Model-70B", "--gpu-memory-utilization", "0.90", at=place()).outcome == "starts"


def test_a_model_of_unknown_memory_is_said_not_to_be_judged() -> None:
    verdict = verdict_of("unknown/Model-70B", "--gpu-memory-utilization", "0.8", at=place())
    note = problem(verdict, "unknown/Model-70B")
    assert not note.counts
    assert "not judged" in note.message
    assert "vllm-wizard fit --model unknown/Model-70B" in note.message
    known = verdict_of("Qwen/Qwen3-0.6B", "--gpu-memory-utilization", "0.8", at=place())
    assert not any("not judged" in p.message for p in known.problems)
    assert not any(p.flag == "$MODEL" for p in check_text("vllm serve $MODEL --gpu-memory-utilization 0.8\n", "a.sh", None, place()).problems)


# --- paths of Windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("C:\\models\\Qwen3-8B", "/mnt/c/models/Qwen3-8B"),
        ("D:/models/Qwen3-8B", "/mnt/d/models/Qwen3-8B"),
        ("\\\\wsl.localhost\\Ubuntu\\home\\user\\m", "/home/user/m"),
        ("\\\\wsl$\\Ubuntu-24.04\\home\\user\\m", "/home/user/m"),
        ("//wsl.localhost/Ubuntu/home/user/m", "/home/user/m"),
    ],
)
def test_a_windows_path_is_told_and_made_one_of_linux(given: str, path: str) -> None:
    verdict = verdict_of(given, "--port", "80")
    assert (verdict.outcome, verdict.repaired_outcome) == ("stops", "starts")
    assert (problem(verdict, given).replacement, verdict.argv) == (path, [path, "--port", "80"])
    for form in (f"vllm serve '{given}' --port 80\n", f"vllm serve --port 80 --model '{given}'\n", f"python -m vllm.entrypoints.openai.api_server --model '{given}'\n"):
        repaired = str(check_text(form, "start.sh").repaired)
        assert path in repaired
        assert given not in repaired
        assert check_text(repaired, "start.sh").problems == []
    config = check_text(f"model: '{given}'\nport: 80\n", "config.yaml")
    assert str(config.repaired).replace("'", "") == f"model: {path}\nport: 80\n"


def test_an_unquoted_windows_path_in_a_pasted_line() -> None:
    assert check_text("vllm serve C:\\models\\Qwen3-8B --port 80\n", "a.txt").repaired == "vllm serve /mnt/c/models/Qwen3-8B --port 80\n"


def test_the_drives_of_a_machine_lie_where_it_has_them() -> None:
    assert verdict_of("D:\\models\\x", at=place("wsl2-interop-off-custom-root")).model == "/win/d/models/x"
    assert verdict_of("E:\\models\\x", at=place("wsl2-interop-off-custom-root")).model == "/win/e/models/x"


@pytest.mark.parametrize("command", ["plan", "fit"])
@pytest.mark.parametrize(
    ("given", "path"),
    [("E:\\models\\x", "/mnt/e/models/x"), ("E:/models/x", "/mnt/e/models/x"), ("D:\\models\\nope", "/mnt/d/models/nope"), ("\\\\wsl$\\Ubuntu\\home\\user\\x", "/home/user/x")],
)
def test_a_windows_path_at_which_nothing_lies(command: str, given: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.__main__ import main

    words = [command, "--model", given]
    assert main([*words, "--machine", str(MACHINES / SMALL)]) == 2
    assert path in " ".join(capsys.readouterr().err.split())


def test_a_windows_path_in_a_container() -> None:
    head = ["docker", "run", "--gpus", "all"]
    (bound,) = check_words([*head, "-v", "C:\\models:/m", "vllm/vllm-openai:v0.33.0", "C:\\models\\Qwen3-8B"]).verdicts
    assert bound.argv == ["/m/Qwen3-8B"]
    (unbound,) = check_words([*head, "vllm/vllm-openai:v0.33.0", "C:\\models\\Qwen3-8B"]).verdicts
    assert unbound.outcome == "stops"
    assert "container" in problem(unbound, "C:\\models\\Qwen3-8B").message
    (fine,) = check_words([*head, "-v", "C:\\models:/m", "vllm/vllm-openai:v0.33.0", "/m/Qwen3-8B"]).verdicts
    assert fine.problems == []


# --- options that are left out -----------------------------------------------------------------------------------------


def test_the_settings_of_the_chat_template_have_a_successor() -> None:
    value = '{"enable_thinking": false}'
    verdict = verdict_of("Qwen/Qwen3-8B", "--chat-template-kwargs", value)
    assert verdict.argv[1:] == ["--default-chat-template-kwargs", value]
    text = f"vllm serve Qwen/Qwen3-8B --chat-template-kwargs '{value}'\n"
    assert check_text(text, "s.sh").repaired == text.replace("--chat", "--default-chat")
    before = verdict_of("Qwen/Qwen3-8B", "--chat-template-kwargs", value, release="0.13.0")
    said = problem(before, "--chat-template-kwargs").message
    assert before.argv == ["Qwen/Qwen3-8B"]
    assert "request" in said
    assert said.endswith("It was left out.")


@pytest.mark.parametrize("flag", ["--swap-space", "--n-gpu-layers", "--threads", "--no-such-thing", "--max-seq-len-to-capture", "--enable-reasoning", "--device", "--logits-processor-pattern", "-gpu-layers"])
def test_what_is_left_out_is_said_to_be(flag: str) -> None:
    verdict = verdict_of("Qwen/Qwen3-8B", flag, "4")
    assert "4" not in verdict.argv
    said = problem(verdict, flag).message
    assert said.endswith("It was left out.")
    assert said.count("left out") == 1


# --- files around the command --------------------------------------------------------------------------------------------


def test_an_env_file_has_no_repaired_command() -> None:
    report = check_text("HF_TOKEN=hf_abcdefghijklmnop\nVLLM_USE_V1=0\n", "vllm.env")
    assert report.verdicts[0].changed
    assert not any("vllm serve" in line for line in lines_of(report))
    assert report_json(report)["command"] is None
    with_options = check_text('VLLM_ARGS="--swap-space 4 --port 80"\n', ".env")
    assert any(line.strip() == "--port 80" for line in lines_of(with_options))


COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.33.0
    ipc: host
    env_file: {given}
    command: [Qwen/Qwen3-8B]
    deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}}
"""


@pytest.mark.parametrize("given", ["vllm.env", "[vllm.env]", "[{path: vllm.env}]", "./vllm.env"])
def test_an_env_file_that_lies_there_is_not_spoken_of(given: str, tmp_path: Path) -> None:
    file = tmp_path / "compose.yaml"
    file.write_text(COMPOSE.format(given=given))
    assert ["vllm.env" in p.message for p in check_text(file.read_text(), str(file)).problems] == [True]
    (tmp_path / "vllm.env").write_text("A=b\n")
    assert check_text(file.read_text(), str(file)).problems == []
    assert len(check_text(file.read_text(), "elsewhere/compose.yaml").problems) == 1


def test_an_env_file_that_is_not_required(tmp_path: Path) -> None:
    assert check_text(COMPOSE.format(given="[{path: vllm.env, required: false}]"), str(tmp_path / "compose.yaml")).problems == []
