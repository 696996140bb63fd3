"""What the walk says of each way to run it: only of what that way asks, and one thing only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from tests.cluster.conftest import DENSE, rows
from tests.cluster.test_walk import TWO_CARDS, walk_on
from tests.faces.tui_play import MACHINES, app_on, ready, session_of, shows, write
from wizard import steps
from wizard.cluster import Inventory, plan_cluster
from wizard.faces import clustering, writing
from wizard.faces.tui.views import ReviewView
from wizard.plan_types import WAY_IMPOSSIBLE, Plan
from wizard.session import Answers


def planned(run_on: str, machine: str = TWO_CARDS, **answers: Any) -> Plan:
    made = walk_on(machine, run_on=run_on, **answers).plan
    assert made is not None
    return made


def listed(folder: Path, machine: str = "native-4x-h200") -> str:
    file = folder / "nodes.toml"
    file.write_text(machines.answers_text([(name, f"10.0.0.{at}", MACHINES / machine) for at, name in enumerate(("a", "b"), 1)]))
    return str(file)


# -- the file with the nodes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_on", ["kubernetes", "replicas", "this"])
def test_a_wrong_file_of_nodes_stops_no_way_without_nodes(run_on: str, tmp_path: Path) -> None:
    walk = walk_on(TWO_CARDS, nodes_file="/nonexist.toml", **({} if run_on == "this" else {"run_on": run_on}))
    assert walk.plan is not None
    assert walk.session is not None
    assert walk.plan.blockers == ()
    changes, _shown = writing.changes_for(walk.session, walk.plan, str(tmp_path))
    assert changes
    told = clustering.ways_in_walk(walk.session)
    assert len(told) == 5
    assert "/nonexist.toml" not in str(told)
    assert walk.answers.get("nodes_file") is not None


@pytest.mark.parametrize("answers", [{"nodes_file": "/nonexist.toml"}, {}])
def test_nodes_that_cannot_be_read_are_told_on_their_step(answers: dict[str, str]) -> None:
    walk = walk_on(TWO_CARDS, run_on="nodes-native", **answers)
    assert walk.plan is not None
    wrong = [b for b in walk.plan.blockers if b.code == WAY_IMPOSSIBLE]
    assert len(wrong) == 1
    assert answers.get("nodes_file", "list them") in wrong[0].detail
    walk.visited = {"where"}
    assert walk.state(steps.WHERE) == "attention"


def test_a_node_that_cannot_take_part_is_told_before_the_review(records: Path, tmp_path: Path) -> None:
    from tests.cluster.test_walk import session
    from wizard.faces.tui.walk import Walk

    file = tmp_path / "nodes.toml"
    file.write_text(machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", records / "three")]))
    walk = Walk(answers=Answers(user={"model": DENSE, "run_on": "nodes-native", "nodes_file": str(file)}))
    walk.use(session(records, DENSE))
    assert walk.plan is not None
    assert any("Node b" in b.title for b in walk.plan.blockers)
    walk.visited = {"where"}
    assert walk.state(steps.WHERE) == "attention"


def test_nodes_are_not_asked_after_every_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.cluster import nodes

    monkeypatch.setattr(nodes, "unreachable", lambda *_args: pytest.fail("pinged"))
    file = tmp_path / "nodes.toml"
    file.write_text(machines.answers_text([(name, f"10.0.0.{at}", MACHINES / "native-4x-h200") for at, name in enumerate(("a", "b"), 1)], cluster={"check_reach": True}))
    planned("nodes-native", "native-4x-h200", nodes_file=str(file))


def test_the_question_recommends_what_the_costs_do(tmp_path: Path) -> None:
    walk = walk_on("native-4x-h200", run_on="nodes-native", nodes_file=listed(tmp_path))
    assert walk.plan is not None
    assert walk.session is not None
    offered = steps.QUESTIONS["run_on"].choices(walk.plan)
    # The mixture model that is proposed there fits one node, and would have to send each token to the other.
    assert [c.value for c in offered if c.recommended] == ["this"]
    assert [title for title, _said in clustering.ways_in_walk(walk.session) if "recommended" in title] == ["One node, one server (recommended)"]
    assert "on each node" in walk.plan.reason("run_on")
    ray = planned("nodes-ray", "native-4x-h200", nodes_file=listed(tmp_path))
    assert "vllm-wizard would take “This machine" in ray.reason("run_on")
    alone = walk_on("native-4x-h200", nodes_file=listed(tmp_path)).plan
    assert alone is not None
    assert [c.value for c in steps.QUESTIONS["run_on"].choices(alone) if c.recommended] == ["this"]


# -- who reaches it -----------------------------------------------------------------------------------------------


def test_access_to_a_cluster_is_said_of_the_cluster() -> None:
    plan = planned("kubernetes")
    labels = [c.label for c in steps.QUESTIONS["access"].choices(plan)]
    assert labels == ["The cluster, without a key", "The cluster, with an API key"]
    told = " ".join((*labels, plan.reason("access"), *(c.note for c in plan.choices["access"])))
    assert "machine" not in told
    assert "Windows" not in told
    warning = next(w for w in plan.warnings if w.code == "kubernetes_open")
    assert "“The cluster, with an API key”" in warning.detail
    assert "“Access”" in warning.detail
    assert not any("networkingMode" in w.title for w in plan.warnings)
    opened = planned("kubernetes", access="network")
    assert "every pod of the cluster" in opened.reason("access")
    assert "kubernetes_open" not in {w.code for w in opened.warnings}


def test_access_to_a_cluster_is_said_so_where_something_else_stands_in_the_way() -> None:
    plan = planned("kubernetes", port=70000)
    assert plan.blockers
    assert "Windows" not in plan.reason("access")


def test_access_over_nodes_is_said_of_the_head(tmp_path: Path) -> None:
    plan = planned("nodes-native", "native-4x-h200", nodes_file=listed(tmp_path))
    assert plan.reason("access") == "only programs on the head reach the server"


# -- what a way costs ---------------------------------------------------------------------------------------------


def test_a_way_that_shortens_the_context_says_so() -> None:
    told = dict(clustering.ways_in_walk(session_of(TWO_CARDS)))
    short = next(" ".join(said) for title, said in told.items() if title.startswith("Several servers"))
    assert "11,264 tokens for a request, not 16,384" in short
    assert not any("context is shorter" in " ".join(said) for title, said in told.items() if not title.startswith("Several servers"))


def test_of_an_unknown_model_no_memory_is_told() -> None:
    told = clustering.ways_in_walk(session_of(TWO_CARDS).answer("model", "Qwen/DoesNotExist-99B"))
    assert "GiB" not in str(told)
    assert "KV cache" not in str(told)


def test_nodes_have_one_order(records: Path, tmp_path: Path) -> None:
    from tests.cluster.conftest import made

    plan = made(machines.answers_text(rows(records, 2)), tmp_path, model=DENSE, run_on="nodes-native")
    told = " ".join(f"{s.title} {s.consequence}" for s in plan.after)
    assert "the head, first" in told
    assert "any order" not in told


# -- what an earlier plan left ------------------------------------------------------------------------------------


def test_files_of_an_earlier_plan_in_the_folder_are_named(tmp_path: Path) -> None:
    from wizard.apply import write

    walk = walk_on(TWO_CARDS, run_on="replicas")
    assert walk.session is not None
    assert walk.plan is not None
    out = tmp_path / "out"
    other = out / "another"
    for folder in (out, other):
        write(writing.changes_for(walk.session, walk.plan, str(folder))[0])
    assert not any(w.code == "left_over" for w in writing.changes_for(walk.session, walk.plan, str(out))[1].warnings)
    walk.answer("run_on", "kubernetes")
    assert walk.plan is not None
    changes, shown = writing.changes_for(walk.session, walk.plan, str(out))
    left = next(w for w in shown.warnings if w.code == "left_over")
    assert ".wslconfig, compose.yaml, nginx.conf" in left.title
    assert "another" not in left.title + " ".join(left.commands)
    assert f"{out}/compose.yaml" in left.commands[0]
    write(changes)
    walk.answer("run_on", "this")
    assert walk.plan is not None
    _changes, alone = writing.changes_for(walk.session, walk.plan, str(out))
    assert "kubernetes/deployment.yaml" in next(w.title for w in alone.warnings if w.code == "left_over")
    (out / "kubernetes" / "deployment.yaml").unlink()
    assert "deployment.yaml" not in str([w.title for w in writing.left_over([], str(out))])
    made = plan_cluster(walk.session, Inventory())
    assert not any(w.code == "left_over" for w in made.warnings)


async def test_the_review_names_them_and_what_stands_in_the_way_of_writing_anew(tmp_path: Path) -> None:
    app = app_on(TWO_CARDS, tmp_path / "out", Answers(user={"run_on": "replicas"}))
    async with app.run_test(size=(140, 60)) as pilot:
        await write(app, pilot)
        app.walk.answer("run_on", "kubernetes")
        app.walk_screen.show()
        await ready(app, pilot)
        await shows(app, pilot, "nginx.conf are of an earlier")
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        assert view.enter_label(app.walk.plan) == "Write"


async def test_after_an_answer_that_cannot_be_enter_does_not_promise_to_write(tmp_path: Path) -> None:
    app = app_on(TWO_CARDS, tmp_path / "out")
    async with app.run_test(size=(140, 60)) as pilot:
        await write(app, pilot)
        app.walk.answer("run_on", "nodes-native")
        app.walk_screen.show()
        await ready(app, pilot)
        told = [n.message for n in app._notifications]
        assert any("stands in the way" in m for m in told), told
        assert not any("Enter writes them anew" in m for m in told)
        view = app.walk_screen.view
        assert isinstance(view, ReviewView)
        assert not view.written
        assert view.enter_label(app.walk.plan) == "Cannot be written"


def test_without_a_gpu_the_ways_speak_of_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.cli import run

    machine = str(Path(__file__).parents[1] / "machines" / "cpu-only-laptop")
    assert run(["cluster", "plan", "--machine", machine]) == 0
    out = capsys.readouterr().out
    assert "GPUs: 1" not in out
    assert "1 GPU;" not in out
    assert "GiB of RAM for the KV cache" in " ".join(out.split())
