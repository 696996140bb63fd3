"""Whatever way it runs, it takes only the GPUs that the user chose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import machines
from tests.cluster.conftest import DENSE, rows
from tests.cluster.conftest import made as cluster_of
from tests.faces.tui_play import MACHINES, session_of
from wizard.cli import run
from wizard.cluster import ClusterPlan, Inventory, cluster_files, plan_cluster
from wizard.cluster.types import Way
from wizard.faces import clustering

FOUR, TWO = "native-4x-h200", "wsl2-2x-rtx3090"
SMALL = "Qwen/Qwen3-8B"


def planned(machine: str, run_on: str, **answers: Any) -> ClusterPlan:
    session = session_of(machine)
    for key, value in {"run_on": run_on, **answers}.items():
        session = session.answer(key, value)
    return plan_cluster(session, Inventory())


def way_of(made: ClusterPlan, key: str) -> Way:
    return next(w for w in made.ways if w.key == key)


def servers(text: str) -> list[dict[str, Any]]:
    return [s for name, s in yaml.safe_load(text)["services"].items() if name != "router"]


def taken(text: str) -> list[str]:
    """The GPUs of all servers, as Docker or a variable gives them."""
    out: list[str] = []
    for server in servers(text):
        device = server["deploy"]["resources"]["reservations"]["devices"][0]
        out += device.get("device_ids") or server["environment"]["CUDA_VISIBLE_DEVICES"].split(",")
    return out


@pytest.mark.parametrize("gpus", [("0", "1"), ("2", "3"), ("1", "2", "3")])
def test_several_servers_take_the_chosen_gpus(gpus: tuple[str, ...]) -> None:
    made = planned(FOUR, "replicas", model=SMALL, gpus=gpus)
    assert made.blockers == ()
    assert made.copies == len(gpus)
    text = next(s.content.decode() for s in cluster_files(made) if s.path == "compose.yaml")
    assert taken(text) == list(gpus)
    assert way_of(made, "replicas").gpus == len(gpus)
    assert f"GPUs: {len(gpus)};" in clustering.text(made, None)


def test_without_a_choice_they_take_all_though_one_server_takes_one() -> None:
    made = planned(FOUR, "replicas", model=SMALL)
    text = next(s.content.decode() for s in cluster_files(made) if s.path == "compose.yaml")
    assert taken(text) == ["0", "1", "2", "3"]


def test_what_the_other_ways_cost_is_said_of_the_chosen_ones() -> None:
    told = dict(clustering.ways_in_walk(session_of(FOUR).answer("gpus", ("2", "3"))))
    assert "4 GPUs" not in str(told)
    short = dict(clustering.ways_in_walk(session_of(FOUR).answer("gpus", ("0",))))
    assert not any(f"{n} GPUs" in str(short) for n in (2, 3, 4))


@pytest.mark.parametrize("gpu", ["0", "1"])
def test_two_servers_on_the_one_gpu_that_was_chosen(gpu: str) -> None:
    made = planned(TWO, "replicas", model="Qwen/Qwen3-0.6B", gpus=(gpu,))
    assert made.shares == ((int(gpu),), (int(gpu),))
    assert "GPUs: 1;" in clustering.text(made, None)
    text = next(s.content.decode() for s in cluster_files(made) if s.path == "compose.yaml")
    assert taken(text) == [gpu, gpu]


def test_where_the_chosen_ones_are_too_few_it_says_so() -> None:
    made = planned(TWO, "replicas", model="Qwen/Qwen3-32B-AWQ", gpus=("1",))
    way = way_of(made, "replicas")
    assert not way.possible
    assert "only 1 GPU was chosen on the step “This machine”" in way.reason
    assert "only 1 GPU" not in way_of(planned(TWO, "replicas", model="Qwen/Qwen3-32B-AWQ", replicas="3"), "replicas").reason
    assert made.blockers


def test_servers_on_unequal_chosen_gpus_are_sized_for_the_smallest() -> None:
    from dataclasses import replace

    session = session_of(TWO)
    stack = session.machine.gpu
    size = stack.gpus[1].vram_total_bytes
    small = replace(stack.gpus[1], name="NVIDIA GeForce RTX 3060", vram_total_bytes=replace(size, value=size.or_else(0) // 2))
    session = replace(session, machine=replace(session.machine, gpu=replace(stack, gpus=(stack.gpus[0], small))))
    made = plan_cluster(session.answer("model", "Qwen/Qwen3-0.6B").answer("gpus", ("0", "1")).answer("run_on", "replicas"), Inventory())
    assert made.shares == ((0,), (1,))
    assert made.sized.request is not None
    assert made.sized.request.gpu_total_bytes == small.vram_total_bytes.value


def test_a_group_of_pods_counts_the_chosen_ones() -> None:
    from wizard.cluster.types import Settings

    session = session_of(FOUR).answer("model", DENSE).answer("gpus", ("3",)).answer("run_on", "kubernetes")
    made = plan_cluster(session, Inventory(settings=Settings(group_size=4)))
    assert made.layout.gpus_per_node == 1


# -- nodes ----------------------------------------------------------------------------------------------------------


def test_a_node_that_is_this_machine_gives_the_chosen_ones_only(records: Path, tmp_path: Path) -> None:
    made = cluster_of(machines.answers_text(rows(records, 2)), tmp_path, model=SMALL, run_on="nodes-native", gpus=("2", "3"))
    assert made.blockers == ()
    assert made.layout.gpus_per_node == 2
    shown = {s.path: s.content.decode() for s in cluster_files(made)}
    assert taken(shown["n1/compose.yaml"]) == ["2", "3"]
    assert taken(shown["n2/compose.yaml"]) == ["0", "1"]
    assert "device=2,3" in shown["n1/launch.sh"]
    assert "# 2 of 4 GPUs are used: chosen by you\n" in shown["n1/launch.sh"]
    assert "# 2 of 4 GPUs are used: it fits one GPU" in shown["n2/launch.sh"]


# -- replayed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("machine", "run_on", "gpus"),
    [(FOUR, "replicas", "0,1"), (FOUR, "replicas", "2"), (TWO, "replicas", "1"), (FOUR, "kubernetes", "0,1"), (FOUR, "this", "1")],
)
def test_the_choice_is_kept_and_replayed(machine: str, run_on: str, gpus: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["generate", "--yes", "--machine", str(MACHINES / machine)]
    assert run([*common, "--set", f"gpus={gpus}", "--set", f"run_on={run_on}", "--set", "model=Qwen/Qwen3-0.6B", "--out", str(first)]) == 0
    answers = first / "answers.toml"
    document = tomllib.loads(answers.read_text())
    assert document["answers"]["gpus"] == gpus.split(",")
    assert "gpus" in document["chosen"]
    assert run([*common, "--answers", str(answers), "--out", str(second)]) == 0
    capsys.readouterr()
    for file in (p for p in first.rglob("*") if p.is_file()):
        assert (second / file.relative_to(first)).read_text() == file.read_text(), file


@pytest.mark.parametrize(("run_on", "gpus"), [("nodes-native", ("2", "3")), ("kubernetes", ("2", "3")), ("kubernetes", ("2",))])
def test_nodes_keep_it_too(run_on: str, gpus: tuple[str, ...], records: Path, tmp_path: Path) -> None:
    made = cluster_of(machines.answers_text(rows(records, 2)), tmp_path, model=SMALL, run_on=run_on, gpus=gpus)
    assert made.blockers == ()
    text = next(s.content.decode() for s in cluster_files(made) if s.path == "answers.toml")
    assert '"gpus"' in text.partition("]")[0]
    alone = cluster_of(machines.answers_text(rows(records, 2)), tmp_path, model=SMALL, run_on="nodes-native")
    assert "gpus" not in next(s.content.decode() for s in cluster_files(alone) if s.path == "answers.toml").replace("gpu_memory", "")


@pytest.mark.parametrize(("machine", "model", "each"), [(FOUR, "/data/models/Qwen3.5-122B-A10B", 2), (FOUR, SMALL, 1), (TWO, "Qwen/Qwen3-32B-AWQ", 1), (TWO, "Qwen/Qwen3.8-27B-FP8", 2)])
@pytest.mark.parametrize("replicas", [None, 1, 2, 3])
def test_servers_need_not_divide_the_chosen_gpus(machine: str, model: str, each: int, replicas: int | None) -> None:
    """What a server takes follows from the model: a GPU more may lie idle, but never makes the model too large."""
    count = len(session_of(machine).machine.gpu.gpus)
    for n in range(each, count + 1):
        answers = {"model": model, "gpus": tuple(str(g) for g in range(count))[-n:]}
        made = planned(machine, "replicas", **answers, **({"replicas": str(replicas)} if replicas else {}))
        way = way_of(made, "replicas")
        assert "does_not_fit" not in [b.code for b in made.blockers], (n, made.blockers)
        room = n // each
        if replicas is None and room > 1:
            assert (way.possible, way.copies, made.layout.tensor) == (True, room, each)
        elif replicas is not None and replicas <= room:
            assert (way.possible, way.copies, made.layout.tensor) == (True, replicas, each)
        elif not way.possible and each > 1:
            assert f"one server takes {each} of them, so there is room for {room} server" in way.reason
