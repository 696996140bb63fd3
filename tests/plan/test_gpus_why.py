"""Beside the variable (or Docker's option) that leaves a server some of the GPUs only stands why it is those."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faces.tui_play import session_of
from wizard.cluster import Inventory, cluster_files, plan_cluster
from wizard.outputs import files
from wizard.plan import plan

AMD, TWO, FOUR = "native-mi300x", "wsl2-2x-rtx3090", "native-4x-h200"
SMALL = "Qwen/Qwen3-0.6B"


def shown(machine: str, **answers: Any) -> dict[str, str]:
    session = session_of(machine)
    for key, value in answers.items():
        session = session.answer(key, value)
    if "run_on" in answers:
        made = plan_cluster(session, Inventory())
        assert made.blockers == ()
        return {s.path: s.content.decode() for s in cluster_files(made)}
    return {s.path: s.content.decode() for s in files(plan(session))}


def why(text: str, line: str) -> str:
    """The comment above the first line that holds ``line``."""
    lines = [x.strip() for x in text.splitlines()]
    at = next(n for n, x in enumerate(lines) if line in x and not x.startswith("#"))
    said: list[str] = []
    while lines[at - 1].startswith("# "):
        at -= 1
        said.insert(0, lines[at].removeprefix("# "))
    return " ".join(said)


GIVEN_ALL = "the container itself is given all of them, since Docker cannot pick some here"


@pytest.mark.parametrize(
    ("machine", "variable", "runtime"),
    [(AMD, "HIP_VISIBLE_DEVICES", "docker"), (TWO, "CUDA_VISIBLE_DEVICES", "docker"), (TWO, "CUDA_VISIBLE_DEVICES", "local"), (FOUR, "CUDA_VISIBLE_DEVICES", "local")],
)
def test_where_nobody_chose_it_is_why_the_plan_takes_so_few(machine: str, variable: str, runtime: str) -> None:
    made = shown(machine, model=SMALL, runtime=runtime)
    for name in ("launch.sh", "compose.yaml") if runtime == "docker" else ("launch.sh",):
        told = why(made[name], variable)
        assert "chosen" not in told
        assert "is used: one GPU has room for" in told
        assert (GIVEN_ALL in told) == (runtime == "docker")


def test_where_docker_picks_them_it_says_so_too() -> None:
    told = why(shown(FOUR, model=SMALL, runtime="docker")["launch.sh"], "device=0")
    assert told.startswith("1 of 4 GPUs is used: one GPU has room for")
    assert "all of them" not in told


@pytest.mark.parametrize(
    ("machine", "named", "variable", "runtime"),
    [(AMD, "1", "HIP_VISIBLE_DEVICES", "docker"), (TWO, "1", "CUDA_VISIBLE_DEVICES", "docker"), (FOUR, "2", "CUDA_VISIBLE_DEVICES", "local"), (FOUR, "2", "device=", "docker")],
)
def test_where_the_user_chose_them_it_is_that(machine: str, named: str, variable: str, runtime: str) -> None:
    told = why(shown(machine, model=SMALL, gpus=(named,), runtime=runtime)["launch.sh"], variable)
    assert "chosen by you" in told
    assert "one GPU has room" not in told


def test_of_the_chosen_ones_the_plan_may_need_only_one() -> None:
    told = why(shown(FOUR, model=SMALL, gpus=("1", "2"), runtime="docker")["launch.sh"], "device=1")
    assert "1 of 4 GPUs is used: one GPU has room for" in told


def test_of_several_servers_each_has_its_own() -> None:
    made = shown(TWO, model=SMALL, run_on="replicas")
    told = why(made["compose.yaml"], "CUDA_VISIBLE_DEVICES")
    assert "so that each server has its own" in told
    assert "chosen" not in told


def test_unequal_gpus_say_which_group_is_taken() -> None:
    from tests.plan.test_gpus_picked import of_two_kinds

    session = of_two_kinds(session_of(TWO)).answer("model", SMALL)
    made = {s.path: s.content.decode() for s in files(plan(session))}
    assert "the largest group of equal GPUs" in why(made["launch.sh"], "CUDA_VISIBLE_DEVICES")
