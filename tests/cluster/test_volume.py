"""Kubernetes: the model is copied to exactly the place in the volume that the server looks for it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.faces.tui_play import session_of
from wizard.cluster import ClusterPlan, Inventory, cluster_files, plan_cluster
from wizard.cluster.after import _copied, next_steps
from wizard.cluster.planning import _in_volume

MACHINE = "wsl2-2x-rtx3090"
# Runs what it is to run inside the pod here, with the volume in a folder.
KUBECTL = """#!/bin/bash
while [ "$1" != -- ]; do shift; done
shift
exec "${@//\\/models/$VOLUME}"
"""


def in_kubernetes(**answers: str) -> ClusterPlan:
    session = session_of(MACHINE).answer("run_on", "kubernetes")
    for key, value in answers.items():
        session = session.answer(key, value)
    made = plan_cluster(session, Inventory())
    assert made.blockers == ()
    return made


def lines_of(made: ClusterPlan) -> list[str]:
    return [line for step in next_steps(made) for line in step.commands]


def play(lines: list[str], tmp_path: Path) -> Path:
    volume, tools = tmp_path / "volume", tmp_path / "bin"
    volume.mkdir()
    tools.mkdir()
    (tools / "kubectl").write_text(KUBECTL)
    (tools / "kubectl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "VOLUME": str(volume)}
    for line in lines:
        subprocess.run(["bash", "-euo", "pipefail", "-c", line], env=environment, check=True)
    return volume


def snapshot(place: Path, *names: str) -> None:
    """An entry of the Hugging Face cache: the files are links to blobs."""
    blobs = place.parent.parent / "blobs"
    blobs.mkdir(parents=True)
    place.mkdir(parents=True)
    for name in names:
        (blobs / ("of-" + name)).write_text(name)
        (place / name).symlink_to(Path("../../blobs") / ("of-" + name))


def test_the_copy_lies_where_the_server_looks_and_holds_no_link(tmp_path: Path) -> None:
    made = in_kubernetes()
    source = made.plan.host_model_path
    assert source is not None
    assert "/snapshots/" in source
    here = tmp_path / "cache" / "models--Qwen--Qwen3-32B-AWQ" / "snapshots" / "eb19"
    snapshot(here, "config.json", "model.safetensors")
    lines = lines_of(made)
    volume = play([line.replace(source, str(here)) for line in lines if "exec" in line], tmp_path)
    files = {s.path: s.content.decode() for s in cluster_files(made)}
    server = next(yaml.safe_load_all(files["kubernetes/deployment.yaml"]))["spec"]["template"]["spec"]["containers"][0]
    model = server["args"][0]
    assert model == "/models/qwen3-32b-awq"
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in server["volumeMounts"]
    for name in ("config.json", "model.safetensors"):
        copied = volume / model.removeprefix("/models/") / name
        assert copied.read_text() == name
        assert not copied.is_symlink()


def test_the_pod_for_it_is_made_before_and_taken_away_before_the_servers_start() -> None:
    made = in_kubernetes()
    files = {s.path: s.content.decode() for s in cluster_files(made)}
    pod = yaml.safe_load(files["kubernetes/loader.yaml"])
    kubernetes_validate.validate(pod, "1.34", strict=True)
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == yaml.safe_load(files["kubernetes/storage.yaml"])["metadata"]["name"]
    lines = lines_of(made)
    order = [next(i for i, line in enumerate(lines) if words in line) for words in ("loader.yaml", "wait --for", "tar -C", "delete pod", "deployment.yaml")]
    assert order == sorted(order)
    assert all(pod["metadata"]["name"] in lines[i] for i in order[1:4])
    assert "POD" not in " ".join(lines)


def test_from_the_same_folder_on_every_node_nothing_is_brought() -> None:
    made = in_kubernetes(storage="hostpath")
    assert "kubernetes/loader.yaml" not in {s.path for s in cluster_files(made)}
    assert not any("tar" in line for line in lines_of(made))


@pytest.mark.parametrize(
    ("names", "serves"),
    [(("Some-7B-Q4.gguf",), "Some-7B-Q4.gguf"), (("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"), "m-00001-of-00002.gguf")],
)
def test_gguf_files_of_the_cache_come_alone_or_with_all_their_parts(tmp_path: Path, names: tuple[str, ...], serves: str) -> None:
    here = tmp_path / "cache" / "models--some--Some-7B-GGUF" / "snapshots" / "eb19"
    snapshot(here, *names)
    made = in_kubernetes()
    root = str(here.parent.parent)
    plan = replace(made.plan, host_model_path=str(here / serves), mounts=((root, "/models/x", True),), container_argv=(f"/models/x/snapshots/eb19/{serves}",))
    entry = _in_volume(replace(made.sized, plan=plan))
    (source, place, _read_only), model = entry.plan.mounts[0], entry.plan.container_argv[0]
    assert "snapshots" not in model
    volume = play(_copied(source, place, ["kubectl", "exec"], "pod"), tmp_path)
    held = volume / model.removeprefix("/models/")
    assert held.read_text() == serves
    assert not held.is_symlink()
    assert len([p for p in volume.rglob("*.gguf") if p.is_file()]) == len(names)
