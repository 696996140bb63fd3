"""What becomes of a pasted command: every switch means the same in the plan as it did in the command."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from tests.faces.tui_play import session_of
from wizard.check.commands import check_text
from wizard.faces.tui.paste import Pasted, answers_around, answers_of, pasted
from wizard.plan import plan as make_plan
from wizard.plan_types import Plan
from wizard.releases import load
from wizard.releases.parse import take_apart
from wizard.session import Session
from wizard.steps import set_answer

DESKTOP = "wsl2-rtx4090-desktop"
# Of a kind of their own: the first names no single answer, the others are decided by questions.
NOT_ANSWERS = {"help", "headless", "trust_remote_code"}


@lru_cache(maxsize=4)
def on_release(version: str) -> tuple[Session, Plan]:
    session = session_of(DESKTOP).answer("release", version)
    return session, make_plan(session)


def taken(session: Session, answers: dict[str, Any]) -> Plan:
    for key, value in answers.items():
        session = session.answer(key, value)
    return make_plan(session)


def truths(argv: list[str], version: str) -> dict[str, bool]:
    """What the release's parser would make of the switches in a command, by its own rules of naming."""
    out = {}
    for argument in take_apart(argv, load(version)):
        option = argument.option
        if option is None or option.kind not in ("flag", "optional_flag"):
            continue
        opposite = argument.flag[2:9] + option.flags[0][2:9] in ("disableenable-", "enable-disable")
        out[option.dest] = not argument.flag.startswith("--no-") and not opposite
    return out


@pytest.mark.parametrize("version", ["0.6.3.post1", "0.16.0", "0.33.0"])
@pytest.mark.parametrize("spelling", [0, 1, 2])
def test_every_spelling_of_a_switch_keeps_its_meaning(version: str, spelling: int) -> None:
    _session, plan = on_release(version)
    assert plan.release is not None
    switches = [o for o in plan.release.options if o.kind == "flag" and len(o.flags) > spelling and o.dest not in NOT_ANSWERS]
    argv = [o.flags[spelling] for o in switches]
    answers, left = answers_of(plan, argv)
    assert not [item for item in left if item.name in argv], left
    assert {k: str(v).lower() == "true" for k, v in answers.items()} == truths(argv, version)


@pytest.mark.parametrize(
    ("pasted", "version", "written", "never"),
    [
        ("--disable-log-requests", "0.33.0", "--no-enable-log-requests", "--enable-log-requests"),
        ("--disable-log-req", "0.33.0", "--no-enable-log-requests", "--enable-log-requests"),
        ("--disable_log_requests", "0.33.0", "--no-enable-log-requests", "--enable-log-requests"),
        ("--enable-uvicorn-access-log", "0.33.0", "--no-disable-uvicorn-access-log", "--disable-uvicorn-access-log"),
        ("--no-disable-log-requests", "0.16.0", "--no-disable-log-requests", "--disable-log-requests"),
        ("--disable-log-requests", "0.16.0", "--disable-log-requests", "--no-disable-log-requests"),
        ("--no-enable-prefix-caching", "0.32.0", "--no-enable-prefix-caching", "--enable-prefix-caching"),
        ("--enable-chunked-prefill=false", "0.6.3.post1", "false", "--no-enable-chunked-prefill"),
    ],
)
def test_a_pasted_negation_is_written_in_the_release_s_own_form(pasted: str, version: str, written: str, never: str) -> None:
    session, plan = on_release(version)
    after = taken(session, answers_of(plan, [pasted])[0])
    assert written in after.argv
    assert never not in after.argv


@pytest.mark.parametrize(
    ("key", "text", "answer"),
    [
        ("disable_log_requests", "true", ("enable_log_requests", "false")),
        ("--disable-log-requests", "false", ("enable_log_requests", "true")),
        ("no_enable_prefix_caching", "yes", ("enable_prefix_caching", "false")),
        ("enable_log_requests", "false", ("enable_log_requests", "false")),
        ("disable_log_stats", "true", ("disable_log_stats", "true")),
    ],
)
def test_an_answer_by_the_name_of_an_opposite_is_the_contrary(key: str, text: str, answer: tuple[str, str]) -> None:
    session, plan = on_release("0.33.0")
    given = set_answer(session, plan, key, text).answers.get(answer[0])
    assert given is not None
    assert given[0] == answer[1]


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        ("0.0.0.0", {"access": "network"}),
        ("::", {"access": "network"}),
        ("127.0.0.1", {"access": "local"}),
        ("localhost", {"access": "local"}),
        ("192.168.1.20", {"access": "network", "host": "192.168.1.20"}),
    ],
)
def test_a_pasted_address_says_who_may_reach_the_server(host: str, answers: dict[str, str]) -> None:
    session, plan = on_release("0.33.0")
    given, left = answers_of(plan, ["--host", host])
    assert given == answers
    assert not left
    assert taken(session, dict(given)).value("access") == answers["access"]


def test_an_address_given_before_gives_way_to_a_pasted_one() -> None:
    session, _plan = on_release("0.33.0")
    opened = taken(session, {"host": "0.0.0.0"})
    assert opened.value("access") == "network"
    given, _left = answers_of(opened, ["--host", "127.0.0.1"])
    assert taken(opened.session, dict(given)).value("access") == "local"


def test_what_stands_around_a_docker_command_is_taken_over_or_named() -> None:
    session, plan = on_release("0.33.0")
    line = (
        "VLLM_LOGGING_LEVEL=DEBUG docker run --rm --gpus all -p 9000:8000 -e HF_TOKEN=hf_abcdefghijklmnop -eVLLM_USE_V2_MODEL_RUNNER=0 -v /mnt/d/models:/models "
        "--ipc=host vllm/vllm-openai:v0.17.0 --model /models/Qwen3-8B --api-key sk-123456789"
    )
    given = pasted(check_text(line, "x", "0.33.0").verdicts[0])
    assert given.model == "/mnt/d/models/Qwen3-8B"
    answers, left = answers_around(plan, given)
    assert {k: answers[k] for k in ("port", "access")} == {"port": 9000, "access": "network"}
    assert answers["env.VLLM_USE_V2_MODEL_RUNNER"] == "0"
    named = {item.name for item in left}
    assert {"HF_TOKEN", "vllm/vllm-openai:v0.17.0"} <= named
    assert any("--ipc" in name and "--gpus" in name for name in named)
    assert session is not None


@pytest.mark.parametrize(
    ("published", "answers"),
    [
        ("8001:8000", {"port": 8001, "access": "network"}),
        ("127.0.0.1:8001:8000/tcp", {"port": 8001, "access": "local"}),
        ("8000", {}),
        ("${PORT}:8000", {}),
    ],
)
def test_a_published_port_says_where_the_server_is_reached(published: str, answers: dict[str, object]) -> None:
    _session, plan = on_release("0.33.0")
    for words in (("-p", published), (f"-p{published}",), (f"--publish={published}",)):
        assert answers_around(plan, Pasted((), docker=("docker", "run", *words, str(plan.image_reference))))[0] == answers


def test_the_image_of_a_container_that_starts_vllm_itself_is_named() -> None:
    _session, plan = on_release("0.33.0")
    given = pasted(check_text("docker run --gpus all -p 9000:8000 python:3.12 vllm serve Qwen/Qwen3-8B --max-num-seqs 4", "x", "0.33.0").verdicts[0])
    answers, left = answers_around(plan, given)
    assert answers["port"] == 9000
    assert "python:3.12" in {item.name for item in left}
    assert "serve" not in {item.name for item in left}


def test_a_model_in_a_container_is_found_where_it_is_mounted_from() -> None:
    def model(path: str) -> str | None:
        line = f"docker run -v cache:/root/.cache -v ~/models/:/m:ro vllm/vllm-openai:v0.33.0 {path}"
        return pasted(check_text(line, "x", "0.33.0").verdicts[0]).model

    assert model("/m/a") == "~/models/a"
    assert model("/m") == "~/models"
    assert model("/mm/a") == "/mm/a"
    assert model("/root/.cache/x") == "/root/.cache/x"
    assert model("Qwen/Qwen3-8B") == "Qwen/Qwen3-8B"


def test_a_value_that_stops_the_start_is_left_out_with_its_reason() -> None:
    _session, plan = on_release("0.33.0")
    answers, left = answers_of(plan, ["--attention-backend", "XFORMERS", "--watermark", "3"])
    assert answers == {}
    assert [item.name for item in left] == ["--attention-backend", "--watermark"]
    assert all("ust be" in item.why for item in left)


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        (Pasted((), env={"CUDA_VISIBLE_DEVICES": "2,3"}), ("2", "3")),
        (Pasted((), docker=("docker", "run", "--gpus", '"device=0,1"', "vllm/vllm-openai:v0.33.0")), ("0", "1")),
        (Pasted((), docker=("docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.33.0")), None),
        (Pasted((), env={"CUDA_VISIBLE_DEVICES": "GPU-1234"}), None),
        (Pasted((), env={"CUDA_VISIBLE_DEVICES": "7"}), None),
    ],
)
def test_the_gpus_that_a_command_names_are_those_of_the_plan(given: Pasted, gpus: tuple[str, ...] | None) -> None:
    plan = make_plan(session_of("native-4x-h200"))
    answers, left = answers_around(plan, given)
    assert answers.get("gpus") == gpus
    assert not any(key.startswith("env.") for key in answers)
    assert bool([item for item in left if "DEVICES" in item.name or "--gpus" in item.name]) is (gpus is None)
