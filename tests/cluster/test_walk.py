"""The walk's question where it runs: this machine by default, and what another answer leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from tests.cluster.conftest import DENSE, rows
from tests.faces.test_ask import Scripted, type_in
from tests.faces.tui_play import MACHINES
from wizard import steps
from wizard.__main__ import main
from wizard.faces import ask
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
    assert {"replicas", "router"} <= set(script.asked)


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
