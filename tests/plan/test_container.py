"""Inside a container: what is copied or downloaded into its own layer is said to be lost with it."""

from __future__ import annotations

from dataclasses import replace

from tests.plan.conftest import session_of
from wizard.facts import Mount, MountKind, VllmInstall
from wizard.models.move_plan import plan_move
from wizard.outputs import files
from wizard.plan import plan
from wizard.session import Session


def with_volume(session: Session, path: str) -> Session:
    volume = Mount(path, "ext4", MountKind.LINUX, "/dev/sdd")
    return replace(session, machine=replace(session.machine, mounts=(*session.machine.mounts, volume)))


def test_a_copy_in_the_containers_own_layer_is_said_to_be_lost_with_it() -> None:
    made = plan(session_of("wsl2-container"))
    assert made.move is not None
    assert made.move.destination.startswith("/root/")
    assert "lost" in made.move.reason
    assert "lost" in made.reason("move_to")
    assert "copy_in_container" in {w.code for w in made.warnings}
    told = plan_move(made.machine, made.move.source, made.move.destination, host=made.session.host).warnings
    assert any("lost" in text for text in told)


def test_a_copy_in_a_volume_is_not() -> None:
    made = plan(with_volume(session_of("wsl2-container", move_to="/keep/models"), "/keep"))
    assert made.move is not None
    assert "lost" not in made.move.reason
    assert "copy_in_container" not in {w.code for w in made.warnings}


def test_a_copy_on_a_machine_is_not() -> None:
    made = plan(session_of("wsl2-rtx3060-model-on-d"))
    assert made.move is not None
    assert "lost" not in made.move.reason + made.reason("move_to")
    assert "copy_in_container" not in {w.code for w in made.warnings}


def test_a_download_into_the_container_is_lost_as_well_unless_a_volume_holds_the_cache() -> None:
    session = session_of("wsl2-container", model="Qwen/Qwen3-4B")
    assert "download_in_container" in {w.code for w in plan(session).warnings}
    kept = with_volume(session, "/root/.cache/huggingface")
    assert "download_in_container" not in {w.code for w in plan(kept).warnings}


def test_no_compose_file_is_written_where_no_engine_could_run_it() -> None:
    assert [f.path for f in files(plan(session_of("wsl2-container")))] == ["launch.sh", "vllm.env", "answers.toml"]


def test_the_reason_above_the_image_is_one_of_the_image() -> None:
    made = plan(session_of("native-rtx5090", runtime="local"))
    python = VllmInstall(made.release.version if made.release is not None else "", "/usr/local/bin/python", "x")
    session = session_of("native-rtx5090", runtime="local")
    session = replace(session, machine=replace(session.machine, vllm=(python,)))
    made = plan(session)
    assert "installed already" in made.reason("release")
    lines = next(f for f in files(made) if f.path == "compose.yaml").content.decode().splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("image:"))
    assert lines[at - 1].lstrip().startswith("#")
    assert "installed already" not in lines[at - 1]
