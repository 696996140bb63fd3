"""How a model is spread, what each way costs, and that one answer changes what it must and no more."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from tests.cluster.conftest import DENSE, MIXTURE, cluster, fresh, made, rows, session_of, texts
from wizard.cluster import WAYS, plan_cluster, read_inventory
from wizard.cluster.layout import traffic_per_token
from wizard.cluster.types import Inventory, Layout
from wizard.errors import BadInput
from wizard.session import Answers, load_answers, load_pinned


def way(plan: Any, key: str) -> Any:
    return next(w for w in plan.ways if w.key == key)


def test_a_dense_model_that_fits_no_node_goes_over_all_in_stages(records: Path) -> None:
    plan = cluster(records, 2, model=DENSE)
    layout = plan.layout
    assert (layout.nodes, layout.tensor, layout.pipeline, layout.data, layout.expert_parallel) == (2, 4, 2, 1, False)
    assert plan.blockers == ()
    assert plan.sized.result is not None
    assert plan.sized.result.fits
    assert not way(plan, "this").possible
    assert way(plan, "nodes-native").recommended


def test_more_nodes_hold_more(records: Path) -> None:
    two, eight = cluster(records, 2, model=DENSE), cluster(records, 8, model=DENSE)
    assert eight.layout.pipeline == 8
    assert eight.layout.gpus == 32
    assert eight.sized.cache_tokens > 4 * two.sized.cache_tokens
    assert eight.sized.result.weights_bytes < two.sized.result.weights_bytes


def test_a_model_that_fits_a_node_is_copied_and_nothing_crosses(records: Path) -> None:
    plan = cluster(records, 2, model=machines.MODEL)
    assert (plan.layout.tensor, plan.layout.pipeline) == (1, 1)
    assert plan.layout.data == 8
    assert plan.sized.traffic_bytes_per_token == 0
    assert not plan.layout.spans_nodes


def test_one_node_is_recommended_where_more_would_only_cost_traffic(records: Path) -> None:
    plan = cluster(records, 2, model=MIXTURE)
    assert way(plan, "this").possible
    assert plan.sized.traffic_bytes_per_token > 0
    assert way(plan, "this").recommended
    assert "on each node" in way(plan, "this").reason
    copied = cluster(records, 2, model=machines.MODEL)
    assert way(copied, "nodes-native").recommended


def test_a_mixture_spreads_its_experts(records: Path) -> None:
    plan = cluster(records, 2, model=MIXTURE)
    assert plan.layout.expert_parallel
    assert plan.layout.data * plan.layout.tensor == 8
    assert "--enable-expert-parallel" in plan.plan.argv
    assert plan.plan.fit_request.expert_parallel
    assert plan.plan.fit_request.data_parallel_size == plan.layout.data


def test_over_a_slow_network_the_mixture_goes_in_stages(records: Path) -> None:
    plan = cluster(records, 2, model=MIXTURE, settings={"network_gbps": 10})
    assert not plan.layout.expert_parallel
    assert plan.layout.pipeline == 2
    assert "10 Gbit/s" in plan.sized.reason
    fast = cluster(records, 2, model=MIXTURE, settings={"network_gbps": 400})
    assert fast.layout.expert_parallel


def test_the_users_own_layout_is_kept(records: Path) -> None:
    plan = cluster(records, 2, model=DENSE, tensor_parallel_size=2, pipeline_parallel_size="4")
    assert (plan.layout.tensor, plan.layout.pipeline) == (2, 4)
    assert plan.blockers == ()
    odd = cluster(records, 2, model=DENSE, tensor_parallel_size=4, pipeline_parallel_size="3")
    assert odd.blockers


def test_tensor_parallelism_over_nodes_is_possible_and_its_price_is_told(records: Path) -> None:
    plan = cluster(records, 2, model=DENSE, tensor_parallel_size=8)
    assert plan.blockers == ()
    assert (plan.layout.tensor, plan.layout.pipeline) == (8, 1)
    stages = cluster(records, 2, model=DENSE)
    assert plan.sized.traffic_bytes_per_token > 50 * stages.sized.traffic_bytes_per_token
    assert plan.layout.spans_nodes


def test_what_fits_nowhere_is_said_with_its_reason(records: Path) -> None:
    plan = cluster(records, 1, model=DENSE, run_on="nodes-native")
    assert "does_not_fit" in {b.code for b in plan.blockers}


def test_traffic_is_what_the_shapes_say(records: Path) -> None:
    info = cluster(records, 2, model=DENSE).plan.model
    hidden = info.hidden_size * 2
    assert traffic_per_token(info, Layout(2, 4, 4, 2)) == 2 * hidden
    assert traffic_per_token(info, Layout(8, 4, 4, 8)) == 7 * 2 * hidden
    assert traffic_per_token(info, Layout(2, 4, 4, 4)) == 2 * hidden  # stages on one node stay on it
    assert traffic_per_token(info, Layout(2, 4, 1, 1, 8)) == 0
    assert traffic_per_token(info, Layout(2, 4, 1, 1, 8, True)) == 2 * hidden * info.num_layers
    assert traffic_per_token(info, Layout(1, 4, 4)) == 0


def test_every_way_has_its_price_and_one_is_recommended(records: Path) -> None:
    plan = cluster(records, 2, model=machines.MODEL)
    assert tuple(w.key for w in plan.ways) == WAYS
    assert sum(w.recommended for w in plan.ways) == 1
    for item in plan.ways:
        assert item.reason
        if item.possible:
            assert item.gpus > 0
            assert item.cache_tokens > 0
    assert way(plan, "replicas").gpus == 4
    assert way(plan, "kubernetes").copies == 2 * (4 // way(plan, "this").gpus)


def test_ray_is_needed_where_the_release_has_no_start_of_its_own(records: Path) -> None:
    plan = cluster(records, 2, model=DENSE, release="0.10.2")
    assert not way(plan, "nodes-native").possible
    assert "0.11.1" in way(plan, "nodes-native").reason
    assert way(plan, "nodes-ray").recommended
    assert [b.code for b in plan.blockers] == ["way_impossible"]
    assert cluster(records, 2, model=DENSE, release="0.10.2", run_on="nodes-ray").blockers == ()


@pytest.mark.parametrize(("key", "value"), [("run_on", "mars"), ("replicas", "many"), ("replicas", 0), ("storage", "tape")])
def test_wrong_answers_are_named(records: Path, key: str, value: Any) -> None:
    with pytest.raises(BadInput) as fault:
        cluster(records, 1, model=machines.MODEL, **{key: value})
    assert str(value) in str(fault.value)


def test_nodes_are_asked_for(records: Path) -> None:
    inventory = read_inventory(machines.answers_text(rows(records, 1)).encode(), "x", str(records))
    session = session_of(inventory, model=DENSE, run_on="nodes-ray")
    with pytest.raises(BadInput) as fault:
        plan_cluster(session, Inventory())
    assert "[[nodes]]" in str(fault.value)


def test_sixty_four_nodes_in_under_a_second(records: Path) -> None:
    text = machines.answers_text([(f"node-{at}", machines.address_of(at), records / "n1") for at in range(64)])
    # The records name the first address only: interfaces are given, and what the records say of them is left out.
    text = text.replace(str(records / "n1"), str(records / "quiet"))
    machines.node(records, "quiet", network=False)
    spent = []
    for _try in range(3):
        start = time.process_time()
        plan = made(text, records, model=DENSE)
        spent.append(time.process_time() - start)
        if spent[-1] < 1.0:
            break
    files = texts(plan)
    assert plan.blockers == ()
    assert plan.layout.nodes == 64
    assert len([f for f in files if f.endswith("launch.sh")]) == 64
    assert min(spent) < 1.0


# -- one answer changes exactly what it must --------------------------------------------------------------------


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def test_the_same_answers_give_the_same_files(records: Path) -> None:
    assert texts(fresh(records, 2, model=DENSE)) == texts(cluster(records, 2, model=DENSE))


def test_a_port_changes_the_head_alone(records: Path) -> None:
    before, after = (texts(cluster(records, 8, model=DENSE, port=p)) for p in (8000, 8100))
    assert changed(before, after) == {"n1/launch.sh", "n1/compose.yaml", "answers.toml"}
    removed = set(before["n1/launch.sh"].splitlines()) - set(after["n1/launch.sh"].splitlines())
    assert all("8000" in line or "port" in line for line in removed)


def test_a_length_changes_every_command_and_nothing_else(records: Path) -> None:
    before, after = (texts(cluster(records, 2, model=DENSE, max_model_len=n)) for n in (4096, 2048))
    assert changed(before, after) == {p for p in before if p != "vllm.env"}
    lines = set(before["n2/launch.sh"].splitlines()) ^ set(after["n2/launch.sh"].splitlines())
    assert {line.split()[0] for line in lines if not line.strip().startswith("#")} <= {"--max-model-len", "--max-num-seqs"}


def test_one_nodes_address_changes_its_own_files(records: Path) -> None:
    text = machines.answers_text([*rows(records, 2), ("n3", "10.0.0.3", records / "n3")])
    moved = machines.answers_text([*rows(records, 2), ("n3", "10.0.9.9", records / "n9")])
    machines.node(records, "n9", "10.0.9.9")
    before, after = texts(made(text, records, model=DENSE)), texts(made(moved, records, model=DENSE))
    assert changed(before, after) == {"n3/launch.sh", "n3/compose.yaml", "answers.toml"}


def test_the_heads_address_changes_all(records: Path) -> None:
    moved = machines.answers_text([("n1", "10.0.9.9", records / "n9"), rows(records, 2)[1]])
    machines.node(records, "n9", "10.0.9.9")
    before, after = texts(cluster(records, 2, model=DENSE)), texts(made(moved, records, model=DENSE))
    assert changed(before, after) == {p for p in before if p != "vllm.env"}


def test_another_way_keeps_the_secrets_and_writes_its_own(records: Path) -> None:
    native, ray, kube = (texts(cluster(records, 2, model=DENSE, run_on=w)) for w in ("nodes-native", "nodes-ray", "kubernetes"))
    assert native.keys() == ray.keys()
    assert changed(native, ray) == {p for p in native if p != "vllm.env"}
    assert kube.keys() == {"kubernetes/storage.yaml", "kubernetes/leaderworkerset.yaml", "vllm.env", "answers.toml"}


@pytest.mark.parametrize("settings", [None, {"network_gbps": 25.0, "check_reach": False, "home": "/home/alice"}])
def test_the_written_answers_give_the_same_files(records: Path, settings: dict[str, Any] | None) -> None:
    first = cluster(records, 2, settings=settings, model=MIXTURE, run_on="nodes-ray")
    data = texts(first)["answers.toml"].encode()
    inventory = read_inventory(data, "answers.toml", "/elsewhere")
    assert inventory.settings == first.settings
    session = replace(session_of(inventory, model=MIXTURE), answers=Answers(file=load_answers(data, "x"), pinned=load_pinned(data)))
    again = texts(plan_cluster(session, inventory))
    for path, content in texts(first).items():
        if path != "answers.toml":
            assert again[path] == content, path


def test_a_node_without_a_record_is_the_only_thing_said(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = machines.answers_text([("a", "10.0.0.1", records / "n1"), ("b", "10.0.0.2", records / "nowhere")])
    plan = made(text, records, model=machines.MODEL, run_on="nodes-native")
    assert [b.code for b in plan.blockers if b.code != "model_missing"] == ["node_unreachable"]
    assert way(plan, "nodes-native").reason == "the machine of 1 node is not known"


def test_servers_beyond_the_gpus_are_told_how_many_have_room(records: Path) -> None:
    plan = cluster(records, 1, model=machines.MODEL, run_on="replicas", replicas="9")
    reasons = [way(plan, "replicas").reason, *(b.detail for b in plan.blockers)]
    assert any("so there is room for 4 servers (replicas=4)" in r for r in reasons), reasons
    assert not any("such GPUs instead of" in r for r in reasons)
