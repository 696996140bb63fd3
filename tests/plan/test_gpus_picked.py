"""Which GPUs a server takes: Docker picks them where it can, variables do where it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.cluster.conftest import made as cluster_of
from tests.cluster.machines import answers_text
from tests.faces.tui_play import MACHINES, session_of
from wizard.cluster import Inventory, cluster_files, plan_cluster
from wizard.facts import Gpu
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.session import Session

TWO = "wsl2-2x-rtx3090"
FOUR = "native-4x-h200"


def written(made: Plan) -> dict[str, str]:
    assert made.blockers == ()
    return {spec.path: spec.content.decode() for spec in files(made)}


def service(text: str, name: str = "vllm") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)["services"][name]
    return found


def devices(server: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = server["deploy"]["resources"]["reservations"]["devices"][0]
    return found


def of_two_kinds(session: Session) -> Session:
    """The session, where the first GPU is another and smaller one."""
    stack = session.machine.gpu
    size = stack.gpus[0].vram_total_bytes
    first: Gpu = replace(stack.gpus[0], name="NVIDIA GeForce RTX 3060", vram_total_bytes=replace(size, value=size.or_else(0) // 2))
    return replace(session, machine=replace(session.machine, gpu=replace(stack, gpus=(first, *stack.gpus[1:]))))


def test_under_wsl2_a_container_sees_the_chosen_gpu_by_a_variable() -> None:
    made = written(plan(session_of(TWO).answer("gpus", ("1",))))
    server = service(made["compose.yaml"])
    assert devices(server)["count"] == "all"
    assert "device_ids" not in devices(server)
    assert server["environment"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert "--gpus all" in made["launch.sh"]
    assert "device=" not in made["launch.sh"]
    lines = made["launch.sh"].splitlines()
    at = lines.index("  --env CUDA_VISIBLE_DEVICES=1")
    assert lines[at - 1].startswith("  # ")


def test_where_docker_picks_them_no_variable_counts_again() -> None:
    made = written(plan(session_of(FOUR).answer("gpus", ("2", "3")).answer("runtime", "docker")))
    assert devices(service(made["compose.yaml"]))["device_ids"] == ["2", "3"]
    assert "device=2,3" in made["launch.sh"]
    assert "VISIBLE_DEVICES" not in made["launch.sh"] + made["compose.yaml"]


def test_all_of_them_need_no_variable() -> None:
    made = written(plan(session_of(TWO)))
    assert "VISIBLE_DEVICES" not in made["launch.sh"] + made["compose.yaml"]


@pytest.mark.parametrize("runtime", ["docker", "local"])
def test_gpus_of_two_kinds_are_counted_as_nvidia_smi_counts_them(runtime: str) -> None:
    made = written(plan(of_two_kinds(session_of(TWO)).answer("runtime", runtime)))
    server = service(made["compose.yaml"])
    assert server["environment"]["CUDA_VISIBLE_DEVICES"] == "1"
    assert server["environment"]["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    for name in ("CUDA_VISIBLE_DEVICES=1", "CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        assert name in made["launch.sh"]
    alike = written(plan(session_of(TWO).answer("gpus", ("1",)).answer("runtime", runtime)))
    assert "CUDA_DEVICE_ORDER" not in alike["launch.sh"]


def test_an_order_of_the_users_own_is_kept() -> None:
    made = written(plan(of_two_kinds(session_of(TWO)).answer("env.CUDA_DEVICE_ORDER", "FASTEST_FIRST")))
    assert "CUDA_DEVICE_ORDER=FASTEST_FIRST" in made["launch.sh"]


def test_an_amd_container_gets_the_chosen_ones_too() -> None:
    session = session_of("native-mi300x")
    indices = [g.index for g in session.machine.gpu.gpus]
    if len(indices) < 2:
        pytest.skip("one GPU")
    made = written(plan(session.answer("gpus", (str(indices[-1]),))))
    assert service(made["compose.yaml"])["environment"]["HIP_VISIBLE_DEVICES"] == str(indices[-1])


def test_several_servers_under_wsl2_do_not_meet_on_one_gpu() -> None:
    made = plan_cluster(session_of(TWO).answer("run_on", "replicas"), Inventory())
    text = next(s.content.decode() for s in cluster_files(made) if s.path == "compose.yaml")
    seen = []
    for name in ("vllm-1", "vllm-2"):
        server = service(text, name)
        assert devices(server)["count"] == "all"
        seen.append(server["environment"]["CUDA_VISIBLE_DEVICES"])
    assert seen == ["0", "1"]
    at = text.splitlines().index('      CUDA_VISIBLE_DEVICES: "1"')
    assert text.splitlines()[at - 1].strip().startswith("#")


def test_a_node_that_is_wsl2_sees_its_part_by_a_variable(tmp_path: Any) -> None:
    import shutil

    for name in ("a", "b"):
        shutil.copytree(MACHINES / TWO, tmp_path / name)
    text = answers_text([("a", "10.0.0.1", tmp_path / "a"), ("b", "10.0.0.2", tmp_path / "b")])
    made = cluster_of(text, tmp_path, model="Qwen/Qwen3-8B", run_on="nodes-native")
    one = replace(made.layout, gpus_per_node=1)
    made = replace(made, blockers=(), sized=replace(made.sized, layout=one, plan=replace(made.plan, blockers=())))
    shown = {s.path: s.content.decode() for s in cluster_files(made)}
    for name in ("a", "b"):
        server = service(shown[f"{name}/compose.yaml"])
        assert devices(server)["count"] == "all"
        assert server["environment"]["CUDA_VISIBLE_DEVICES"] == "0"
        assert "--env CUDA_VISIBLE_DEVICES=0" in shown[f"{name}/launch.sh"]
        assert "device=" not in shown[f"{name}/launch.sh"]


@pytest.mark.parametrize("name", ["compose.yaml", "launch.sh"])
def test_our_own_file_for_one_of_two_gpus_passes_the_check(name: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.__main__ import main

    for path, text in written(plan(session_of(TWO).answer("gpus", ("1",)))).items():
        (tmp_path / path).write_text(text)
    main(["check", "--machine", str(MACHINES / TWO), str(tmp_path / name)])
    told = capsys.readouterr().out
    assert "NCCL" not in told
    assert "conflict" not in told


def test_a_pod_counts_its_own_gpus() -> None:
    made = plan_cluster(session_of(TWO).answer("gpus", ("1",)).answer("run_on", "kubernetes"), Inventory())
    assert made.layout.gpus_per_node == 1
    assert "VISIBLE_DEVICES" not in " ".join(s.content.decode() for s in cluster_files(made) if s.path.startswith("kubernetes/"))
