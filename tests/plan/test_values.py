"""Answers that are wrong in themselves are bad input; those that only harm are warned of, with the figure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan.conftest import MACHINES, session_of
from wizard.__main__ import main
from wizard.errors import BadInput
from wizard.models.info import ModelInfo
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan.arguments import _placed
from wizard.plan.draft import Draft
from wizard.session import load_answers

WSL = str(MACHINES / "wsl2-rtx4090-desktop")


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("wsl_swap_gib=99999999", "4096"),
        ("wsl_processors=500", "32"),
        ("max_num_batched_tokens=-1", "at least 1"),
        ("pipeline_parallel_size=0", "at least 1"),
        ("quantization=zz", "compressed-tensors"),
        ("hf_overrides={bad", "JSON"),
        ("hf_overrides=x", "JSON"),
        ("lora_adapters=a=/nope", "/nope"),
        ("chat_template=/nope", "/nope"),
        ("image=foo bar", "name:tag"),
        ("port=99999999999999999999", "65535"),
        ("swap_space=4", "0.18.0"),
    ],
)
def test_a_value_that_cannot_be_is_bad_input(answer: str, named: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", WSL, "--set", answer]) == 2
    err = capfd.readouterr().err
    assert named in err
    assert answer.partition("=")[0] in err


def test_too_little_memory_for_wsl_is_warned_of_with_the_figure() -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", wsl_memory_gib=1))
    need = made.wsl.need_bytes / (1 << 30) if made.wsl is not None else 0
    told = [w for w in made.warnings if w.code == "wsl_memory_too_small"]
    assert told
    assert f"{need:.0f} GiB" in told[0].title
    enough = plan(session_of("wsl2-rtx4090-desktop", wsl_memory_gib=int(need) + 1))
    assert not [w for w in enough.warnings if w.code == "wsl_memory_too_small"]


def test_a_release_that_nobody_knows_is_said_at_the_top(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", WSL, "--release", "9.9.9"]) == 0
    top = " ".join(capfd.readouterr().out.split("Command")[0].split())
    assert "9.9.9, which is not known here" in top
    assert "if there is one" in top


def test_the_file_of_an_option_is_mounted() -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", chat_template="~/my templates/a.jinja"))
    host = f"{made.machine.home}/my templates/a.jinja"
    target = next(target for source, target, read_only in made.mounts if source == host and read_only)
    assert made.argv[made.argv.index("--chat-template") + 1] == target
    assert made.container_argv[made.container_argv.index("--chat-template") + 1] == target


def test_a_template_that_is_written_out_stays_as_it_is() -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    made = plan(session_of("wsl2-rtx4090-desktop", chat_template=template))
    assert made.argv[made.argv.index("--chat-template") + 1] == template


def test_all_parts_of_a_split_gguf_reach_the_container() -> None:
    session = session_of("wsl2-rtx4090-desktop")
    path = "/home/user/models/Big-Q4/Big-Q4-00001-of-00003.gguf"
    model, mounts = _placed(Draft(session), ModelInfo(source=path, is_local=True), path)
    assert ("/home/user/models/Big-Q4", "/models/big-q4", True) in mounts
    assert model == "/models/big-q4/Big-Q4-00001-of-00003.gguf"


def test_what_cures_a_known_fault_is_named_with_it() -> None:
    made = plan(session_of("wsl2-2x-rtx3090"))
    assert "nothing speaks against" not in made.reason("release")
    assert "NCCL_P2P_DISABLE=1" in made.reason("release")
    chosen = next(c for c in made.choices["release"] if c.value == made.value("release"))
    assert "NCCL_P2P_DISABLE=1" in chosen.note
    assert chosen.note.removeprefix("newest; ").startswith("works with a cure:")
    assert made.reason("env.NCCL_P2P_DISABLE").startswith("cures")


def test_the_memory_of_wsl_without_a_gpu_holds_weights_and_cache() -> None:
    made = plan(session_of("wsl2-no-gpu"))
    assert made.fit is not None
    assert made.wsl is not None
    assert made.wsl.need_bytes > made.fit.weights_bytes + made.fit.kv_cache_bytes.best


@pytest.mark.parametrize("chosen", ["5", '"model"', "[1]"])
def test_an_answers_file_whose_list_of_choices_is_none_is_refused(chosen: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="chosen"):
        load_answers(f'format = 1\nchosen = {chosen}\n[answers]\nport = 8000\n'.encode(), "answers.toml")


def test_network_access_on_linux_opens_the_firewall_and_names_the_url() -> None:
    made = plan(session_of("native-t4", access="network"))
    port = made.value("port")
    steps = {command: step for step in made.after for command in step.commands}
    assert f"sudo ufw delete allow {port}/tcp" in steps[f"sudo ufw allow {port}/tcp"].consequence
    assert "firewall-cmd" in steps[f"sudo ufw allow {port}/tcp"].consequence
    assert any("hostname -I" in command and f":{port}/v1" in command for command in steps)
    script = next(f.content.decode() for f in files(made) if f.path == "launch.sh")
    said = [line for line in script.splitlines() if line.startswith("say ")]
    assert "\naddress=127.0.0.1\n" in script
    assert "address=0.0.0.0" not in script
    assert any("hostname -I" in line for line in said)


def test_network_access_with_docker_says_both_too() -> None:
    made = plan(session_of("native-4x-h200", access="network"))
    lines = [command for step in made.after for command in step.commands]
    assert any("ufw allow" in line for line in lines)
    assert any("hostname -I" in line for line in lines)


def test_clients_of_a_server_in_wsl_take_the_address_of_windows() -> None:
    made = plan(session_of("wsl2-interop-off-custom-root", access="network"))
    assert any("ipconfig" in command for step in made.after for command in step.commands if step.where == "powershell")


def test_what_surely_does_not_fit_is_said_so_and_a_model_that_lies_here_is_offered() -> None:
    made = plan(session_of("wsl2-rtx3060-model-on-d", model="/mnt/d/models/Qwen3-VL-8B-Instruct"))
    told = next(b for b in made.blockers if b.code == "does_not_fit")
    assert told.title == "The model does not fit."
    assert made.fit is not None
    assert made.fit.ways_out[0].changes == {"model": "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8"}


def test_ram_is_held_by_other_programs_and_no_desktop() -> None:
    made = plan(session_of("wsl2-no-gpu"))
    assert "desktop" not in made.reason("gpu_memory_utilization")
    assert "RAM" in made.reason("gpu_memory_utilization")


def test_one_figure_for_the_requests_that_find_room() -> None:
    made = plan(session_of("native-4x-h200"))
    assert made.fit is not None
    assert made.fit.concurrency is not None
    assert f"holds {made.fit.concurrency:.1f} requests" in made.reason("max_num_seqs")
    assert made.value("max_num_seqs") <= made.fit.concurrency


def test_the_problem_and_the_plan_agree_on_what_an_old_driver_runs() -> None:
    from wizard import releases
    from wizard.probes.problems.gpu import LAST_CUDA_12_VARIANT
    from wizard.releases.images import image_variants

    having = [v for v in releases.versions() if "cu129" in image_variants(releases.load(v))]
    assert max(having, key=releases.version_key) == LAST_CUDA_12_VARIANT
    made = plan(session_of("wsl2-rtx5070-laptop-old-driver"))
    problem = next(p for p in made.machine.problems if p.code == "driver_too_old")
    assert made.value("release") == LAST_CUDA_12_VARIANT
    assert f"vLLM {LAST_CUDA_12_VARIANT}" in problem.detail


@pytest.mark.parametrize("fault", ["integration_off", "desktop_not_running", "not_running", "permission_denied"])
def test_the_plan_says_of_docker_what_the_first_step_says(fault: str) -> None:
    from wizard.facts import unknown
    from wizard.probes.problems import find_problems

    session = session_of("wsl2-rtx5070-laptop-old-driver")
    docker = replace(session.machine.docker, fault=fault, engine=unknown("made up"))
    machine = replace(session.machine, docker=docker)
    made = plan(replace(session, machine=replace(machine, problems=tuple(find_problems(machine)))))
    titles = [p.title for p in made.machine.problems if p.code.startswith("docker")]
    choice = next(c for c in made.choices["runtime"] if c.value == "docker")
    for text in (made.reason("runtime"), choice.against):
        assert "not installed" not in text
        assert titles[0].rstrip(".").split()[-1] in text


def test_swap_over_the_free_disk_is_warned_of() -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", wsl_swap_gib=4000))
    assert [w.code for w in made.warnings if w.code.startswith("wsl_swap")] == ["wsl_swap_over_disk"]


def test_a_file_named_from_where_one_stands_is_written_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from argparse import Namespace

    from wizard.faces.inputs import answers_from

    (tmp_path / "mine.jinja").write_text("{{ x }}")
    monkeypatch.chdir(tmp_path)
    args = Namespace(answers=None, set=["chat_template=mine.jinja"], machine=None, model=None, release=None, runtime=None)
    assert answers_from(args).cli["chat_template"] == str(tmp_path / "mine.jinja")


def test_what_comes_with_the_image_is_not_looked_for_here() -> None:
    template = "/vllm-workspace/examples/tool_chat_template_llama3.1_json.jinja"
    made = plan(session_of("wsl2-rtx4090-desktop", chat_template=template))
    assert made.argv[made.argv.index("--chat-template") + 1] == template
    assert not any("vllm-workspace" in source for source, _target, _ro in made.mounts)


def test_a_folder_of_media_is_called_alike_in_the_container() -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", allowed_local_media_path="/home/user/pictures"))
    assert ("/home/user/pictures", "/home/user/pictures", True) in made.mounts


def test_a_wrong_number_is_told_by_the_name_that_is_shown_and_on_the_command_line_by_its_key() -> None:
    from wizard.steps import QUESTIONS, parse_value

    with pytest.raises(BadInput, match=r"^Requests at once: “abc” is not a whole number"):
        parse_value(QUESTIONS["max_num_seqs"], "abc")
    with pytest.raises(BadInput, match=r"^max_num_seqs: “abc”"):
        parse_value(QUESTIONS["max_num_seqs"], "abc", "max_num_seqs")


@pytest.mark.parametrize(("release", "wanted"), [("0.8.5", True), ("0.9.0", False), ("0.9.2", False)])
def test_a_switch_for_reasoning_is_given_only_where_the_parser_alone_does_not_do(release: str, wanted: bool) -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", model="deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", release=release, reasoning=True))
    assert "--reasoning-parser" in made.argv
    assert ("--enable-reasoning" in made.argv) is wanted
