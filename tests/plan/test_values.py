"""Answers that are wrong in themselves are bad input; those that only harm are warned of, with the figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plan.conftest import MACHINES, session_of
from wizard.__main__ import main
from wizard.errors import BadInput
from wizard.models.info import ModelInfo
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
    assert "cured by NCCL_P2P_DISABLE=1" in chosen.note
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
