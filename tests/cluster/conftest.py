"""Records and plans that several tests use, made once for a run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from wizard.cluster import ClusterPlan, Inventory, plan_cluster, read_inventory
from wizard.cluster.files import cluster_files
from wizard.session import Answers, Session, gather

DATA = Path(__file__).parent / "data"
DENSE, MIXTURE = "Qwen/Qwen2.5-72B-Instruct", "openai/gpt-oss-120b"
NODES = (1, 2, 8)


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight alike nodes, and odd ones: fewer GPUs, an older driver, no Docker, another interface."""
    folder = tmp_path_factory.mktemp("records")
    for at in range(8):
        machines.node(folder, f"n{at + 1}", machines.address_of(at), model=at < 2)
    machines.node(folder, "three", machines.address_of(1), gpus=3)
    machines.node(folder, "driver", machines.address_of(1), driver="570.86.15")
    machines.node(folder, "nodocker", machines.address_of(1), docker=False)
    machines.node(folder, "ib", machines.address_of(1), interface="ib0")
    machines.node(folder, "fast", machines.address_of(0), gpu="NVIDIA H100 80GB HBM3", total_mib=81559, capability="9.0", gpus=8, nvlink=True)
    machines.node(folder, "pings", machines.address_of(0), pings={machines.address_of(1): False, machines.address_of(2): True})
    return folder


@pytest.fixture(autouse=True)
def _few_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The models that these tests name: comparing all others takes most of a plan's time."""
    from wizard import recipes

    real = recipes.load

    def load(extra: Any = ()) -> Any:
        book = real(extra)
        kept = [book.find(m) for m in (DENSE, MIXTURE, machines.MODEL, "Qwen/Qwen3-8B")]
        return replace(book, recipes=tuple({id(hit[0]): hit[0] for hit in kept if hit is not None}.values()))

    monkeypatch.setattr(recipes, "load", load)


def rows(records: Path, count: int) -> list[tuple[str, str, Any]]:
    return [(f"n{at + 1}", machines.address_of(at), records / f"n{at + 1}") for at in range(count)]


@cache
def _gathered(record: str, model: str) -> Session:
    from wizard.host import FakeHost

    return gather(FakeHost(record), Answers(cli={"model": model}))


def session_of(inventory: Inventory, **answers: Any) -> Session:
    """The session on the head, with answers as if typed."""
    session = _gathered(inventory.nodes[0].record, str(answers["model"]))
    for key, value in answers.items():
        session = session.answer(key, value)
    return session


def made(text: str, folder: Path, **answers: Any) -> ClusterPlan:
    inventory = read_inventory(text.encode(), "nodes.toml", str(folder))
    return plan_cluster(session_of(inventory, **answers), inventory)


_PLANS: dict[str, ClusterPlan] = {}


def cluster(records: Path, count: int, *, settings: dict[str, Any] | None = None, **answers: Any) -> ClusterPlan:
    """The plan over the first ``count`` nodes; made once for the same answers."""
    key = repr((records, count, settings, sorted(answers.items())))
    if key not in _PLANS:
        _PLANS[key] = fresh(records, count, settings=settings, **answers)
    return _PLANS[key]


def fresh(records: Path, count: int, *, settings: dict[str, Any] | None = None, **answers: Any) -> ClusterPlan:
    return made(machines.answers_text(rows(records, count), cluster=settings), records, **answers)


def texts(plan: ClusterPlan) -> dict[str, str]:
    """Path -> content of all files."""
    return {f.path: f.content.decode() for f in cluster_files(plan)}


def write(plan: ClusterPlan, folder: Path) -> None:
    for spec in cluster_files(plan):
        path = folder / spec.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(spec.content)
        path.chmod(spec.mode)


def tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def compose_config(path: Path) -> dict[str, Any]:
    """What the real Docker Compose makes of a file."""
    run = subprocess.run([tool("docker-compose"), "-f", str(path), "config", "--format", "json"], capture_output=True, text=True, timeout=120, cwd=path.parent)
    assert run.returncode == 0, run.stderr
    assert "variable is not set" not in run.stderr
    config: dict[str, Any] = json.loads(run.stdout)
    return config
