"""The walk's question where it runs: this machine by default, and what another answer leads to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from tests.cluster.conftest import DENSE, rows
from tests.faces.test_ask import Scripted, type_in
from tests.faces.tui_play import MACHINES, session_of
from wizard import steps
from wizard.__main__ import main
from wizard.faces import ask, clustering, writing
from wizard.faces.tui.walk import Walk
from wizard.host import FakeHost
from wizard.plan import plan
from wizard.session import Answers, Session, gather


def session(records: Path, model: str, **answers: Any) -> Session:
    return gather(FakeHost(records / "n1"), Answers(user={"model": model, **answers}))


def test_this_machine_is_the_default_and_no_answer(records: Path) -> None:
    made = plan(session(records, machines.MODEL))
    question = steps.QUESTIONS["run_on"]
    assert question.current(made) == "this"
    assert made.decision("run_on") is None
    assert [c.value for c in question.choices(made) if c.recommended] == ["this"]
    assert [q.key for q in steps.asked(steps.WHERE, made)] == ["run_on"]
    assert steps.WHERE in steps.visible_steps(made)
    assert "run_on" not in {q.key for q in steps.asked(steps.RUNTIME, made)}


def test_a_machine_with_one_gpu_is_asked_among_the_rare_ones(records: Path) -> None:
    held = gather(FakeHost(MACHINES / "wsl2-rtx4090-desktop"), Answers())
    made = plan(held)
    assert steps.WHERE not in steps.visible_steps(made)
    assert [q.key for q in steps.asked(steps.RUNTIME, made) if q.key in steps.CLUSTER_KEYS and q.advanced] == ["run_on"]
    elsewhere = plan(held.answer("run_on", "kubernetes"))
    assert steps.WHERE in steps.visible_steps(elsewhere)
    assert {q.key for q in steps.asked(steps.WHERE, elsewhere)} == {"replicas", "namespace", "storage"}


@pytest.mark.parametrize(
    ("run_on", "more"),
    [("replicas", {"replicas", "router"}), ("nodes-ray", {"nodes_file"}), ("kubernetes", {"replicas", "namespace", "storage"})],
)
def test_an_answer_opens_its_own_questions(records: Path, run_on: str, more: set[str]) -> None:
    made = plan(session(records, machines.MODEL, run_on=run_on))
    assert {q.key for q in steps.asked(steps.WHERE, made)} & set(steps.CLUSTER_KEYS) == {"run_on", *more}


def test_a_model_that_needs_more_machines_does_not_stop_the_walk(records: Path) -> None:
    alone = plan(session(records, DENSE))
    assert "does_not_fit" in {b.code for b in alone.blockers}
    spread = plan(session(records, DENSE, run_on="nodes-native"))
    assert spread.blockers == ()
    assert "does_not_fit_one" in {w.code for w in spread.warnings}


def test_the_full_screen_walk_shows_what_is_written_or_why_not(records: Path, tmp_path: Path) -> None:
    from wizard.faces.tui.files import changes_of

    nodes = tmp_path / "nodes.toml"
    nodes.write_text(machines.answers_text(rows(records, 2)))
    held = session(records, DENSE, run_on="nodes-native", nodes_file=str(nodes))
    changes, shown, error = changes_of(held, plan(held), str(tmp_path / "out"), False)
    assert error == ""
    assert [Path(c.path).relative_to(tmp_path / "out").as_posix() for c in changes][:2] == ["n1/launch.sh", "n1/compose.yaml"]
    assert any("n2/launch.sh" in c for s in shown.after for c in s.commands)
    nodes.write_text(machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", records / "three")]))
    changes, _shown, error = changes_of(held, plan(held), str(tmp_path / "out"), False)
    assert changes == []
    assert "Node b: it has 3 usable GPUs" in " ".join(error.split())
    nodes.unlink()
    assert str(nodes) in changes_of(held, plan(held), str(tmp_path / "out"), False)[2]


def test_the_plain_walk_asks_it_once(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    type_in(monkeypatch, "")
    script = Scripted({"run_on": ["2"]})
    monkeypatch.setattr(ask, "prompter", lambda: script)
    out = tmp_path / "out"
    assert main(["--plain", "--machine", str(records / "n1"), "--model", machines.MODEL, "--out", str(out)]) == 0, capsys.readouterr()
    assert {p.name for p in out.iterdir()} == {"compose.yaml", "nginx.conf", "vllm.env", "answers.toml"}
    assert script.asked.count("run_on") == 1
    shown = next(titles for titles in reversed(script.offered) if any(t.startswith("Where will it run") for t in titles))
    assert len([t for t in shown if t.startswith(("How many servers", "Router"))]) == 2, shown


def test_the_plain_walk_names_the_node_and_asks_again(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    type_in(monkeypatch, "")
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", records / "three")]))
    monkeypatch.setattr(ask, "prompter", lambda: Scripted({}))
    out = tmp_path / "out"
    words = ["--set", "run_on=nodes-native", "--set", f"nodes_file={nodes}"]
    assert main(["--plain", "--machine", str(records / "n1"), "--model", DENSE, "--out", str(out), *words]) == 1
    assert "Node b: it has 3 usable GPUs" in " ".join(capsys.readouterr().out.split())
    assert not out.exists()


def test_plan_shows_the_way_that_was_answered(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--json", "--machine", str(records / "n1"), "--model", machines.MODEL, "--set", "run_on=kubernetes"]
    assert main(words) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["run_on"] == "kubernetes"
    assert [f["path"] for f in shown["files"]][:2] == ["kubernetes/storage.yaml", "kubernetes/deployment.yaml"]


async def test_the_full_screen_walk_offers_it_with_this_machine_first(tmp_path: Path) -> None:
    from tests.faces.tui_play import app_on, ready

    app = app_on("native-rtx5090", tmp_path / "out")
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(app, pilot)
        app.walk.visited.update(s.id for s in app.walk.steps())
        app.walk_screen.go_to("runtime")
        await ready(app, pilot)
        field = app.walk_screen.view.field_of("run_on")
        assert field is not None
        assert field.display
        assert field.shown == "this"
        app.walk.answer("run_on", "kubernetes")
        assert app.walk.plan is not None
        assert app.walk.plan.value("run_on") == "kubernetes"
        app.walk.answer("run_on", "this")
        assert app.walk.plan.decision("run_on") is None
        assert "run_on" not in app.walk.answers.flat()


# -- the walk shows the plan that is written ----------------------------------------------------------------------

TWO_CARDS = "wsl2-2x-rtx3090"


def walk_on(machine: str, **answers: Any) -> Walk:
    from tests.faces.tui_play import session_of

    made = Walk(answers=Answers(user=answers))
    made.use(session_of(machine))
    return made


def test_the_walk_shows_the_server_that_each_copy_is(tmp_path: Path) -> None:
    alone = walk_on(TWO_CARDS).plan
    walk = walk_on(TWO_CARDS, run_on="replicas")
    made = walk.plan
    assert made is not None
    assert alone is not None
    assert walk.session is not None
    changes, _shown = clustering.changes_in_walk(walk.session, made, str(tmp_path))
    compose = next(c for c in changes if c.path.endswith("compose.yaml")).after.decode()
    assert "--tensor-parallel-size" in alone.argv
    assert "--tensor-parallel-size" not in made.argv
    assert f"--max-model-len {made.value('max_model_len')}" in " ".join(compose.replace("- ", "").replace('"', "").split())
    assert made.value("max_model_len") < alone.value("max_model_len")
    # What can be chosen is that of the whole machine, and the model is still the wizard's own choice.
    assert made.choices["model"] == alone.choices["model"]
    assert made.choices["gpus"] == alone.choices["gpus"]
    assert made.decision("model") == alone.decision("model")
    assert any("2 servers" in n for n in made.notes)
    walk.answer("run_on", "this")
    assert walk.plan == alone


def test_where_nothing_can_be_planned_the_walk_keeps_the_plan_of_one_server() -> None:
    walk = walk_on(TWO_CARDS, run_on="replicas", replicas="nonsense")
    assert walk.plan is not None
    assert walk.plan.argv == walk_on(TWO_CARDS).plan.argv  # type: ignore[union-attr]


@pytest.mark.parametrize(("run_on", "asked"), [("this", True), ("replicas", True), ("kubernetes", False), ("nodes-native", False)])
def test_wsl_is_only_asked_for_where_something_runs_in_it(run_on: str, asked: bool) -> None:
    plan = walk_on(TWO_CARDS, run_on=run_on).plan
    assert plan is not None
    assert ("wsl" in {s.id for s in steps.visible_steps(plan)}) is asked
    assert bool(plan.wsl_changes) is asked


@pytest.mark.parametrize(("run_on", "told", "files"), [("replicas", "docker compose up -d", "nginx.conf"), ("kubernetes", "kubectl", "deployment.yaml")])
async def test_the_full_screen_walk_tells_how_what_was_written_is_started(tmp_path: Path, run_on: str, told: str, files: str) -> None:
    from tests.faces.tui_play import app_on, shows, write

    app = app_on(TWO_CARDS, tmp_path / "out", Answers(user={"run_on": run_on}))
    async with app.run_test(size=(120, 50)) as pilot:
        await write(app, pilot)
        await shows(app, pilot, "Written.")
        lines = [c for s in app.walk_screen.wizard.to_type() for c in s.commands]
        assert any(told in c for c in lines)
        copied = [c for s in app.walk_screen._to_copy() for c in s.commands]
        assert copied == lines
        assert not any("launch" in c for c in lines)
        written = {p.name for p in (tmp_path / "out").rglob("*")}
        assert files in written
        assert any(".wslconfig" in c for c in lines) is (".wslconfig" in written)
        assert any("wsl --shutdown" in c for c in lines) is (".wslconfig" in written)
        assert not app.walk_screen.query_one("#start-row").display


def test_own_wslconfig_is_changed_in_place_for_several_servers_too(tmp_path: Path) -> None:


    held = session_of(TWO_CARDS)
    wsl = held.machine.wsl
    assert wsl is not None
    assert wsl.wslconfig_bytes is not None
    file = tmp_path / ".wslconfig"
    file.write_bytes(wsl.wslconfig_bytes)
    walk = Walk(answers=Answers(user={"run_on": "replicas"}))
    walk.use(replace(held, machine=replace(held.machine, wsl=replace(wsl, wslconfig_path=str(file)))))
    assert walk.session is not None
    assert walk.plan is not None
    changes, shown = writing.changes_for(walk.session, walk.plan, str(tmp_path / "out"), apply_wslconfig=True)
    assert [c.path for c in changes if c.path.endswith(".wslconfig")] == [str(file)]
    assert not any(s.key == "copy_wslconfig" for s in shown.after)
    assert any("wsl --shutdown" in s.commands for s in shown.after)


@pytest.mark.parametrize("run_on", ["replicas", "kubernetes"])
def test_the_plain_walk_tells_it_too(run_on: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    type_in(monkeypatch, "")
    script = Scripted({})
    monkeypatch.setattr(ask, "prompter", lambda: script)
    words = ["--plain", "--machine", str(MACHINES / TWO_CARDS), "--set", f"run_on={run_on}", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    told = capsys.readouterr().out.rpartition("Next:")[2]
    assert "launch.sh" not in told
    assert ("docker compose up -d" if run_on == "replicas" else "kubectl apply") in told
    assert ("wsl --shutdown" in told) is (run_on == "replicas")
    assert any(t.startswith("Memory for WSL2") for titles in script.offered for t in titles) is (run_on == "replicas")


def test_what_each_way_costs_is_said_of_the_same_model() -> None:
    """A server alone may hold a smaller model best; what it costs is asked of the one that is planned."""
    from wizard.faces.clustering import ways_in_walk
    from wizard.plan import plan as make_plan

    session = session_of("native-4x-h200")
    assert "122B" in str(make_plan(session).value("model"))
    told = next(" ".join(words) for title, words in ways_in_walk(session) if title.startswith("Several servers on one machine"))
    assert "Each of the 2 servers has 2 GPUs" in told
