"""Every recorded machine: what is planned, and that what is written is accepted by the tools that read it."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plan.conftest import NAMES, session_of
from wizard import releases
from wizard.outputs import files
from wizard.outputs.wslconfig import parse
from wizard.plan import plan
from wizard.plan_types import Plan

# What each machine gets: device, runtime, and what is true of the release.
SERVES = {
    "wsl2-rtx4090-desktop": ("nvidia", "docker"),
    "wsl2-rtx3060-model-on-d": ("nvidia", "docker"),
    "wsl2-rtx5070-laptop-old-driver": ("nvidia", "local"),
    "wsl2-2x-rtx3090": ("nvidia", "docker"),
    "wsl2-no-gpu": ("cpu", "docker"),
    "wsl2-interop-off-custom-root": ("nvidia", "local"),
    "wsl2-container": ("nvidia", "local"),
    "native-4x-h200": ("nvidia", "docker"),
    "native-t4": ("nvidia", "local"),
    "native-v100": ("nvidia", "docker"),
    "native-rtx5090": ("nvidia", "docker"),
    "native-mi300x": ("amd", "docker"),
    "cpu-only-laptop": ("cpu", "local"),
}
BLOCKED = {
    "wsl1": "wsl1",
    "windows-rtx4070": "windows_serves_in_wsl",
    "nvidia-smi-hangs": "gpu_driver_hangs",
    "nvidia-smi-rubbish": "gpu_driver_broken",
}
NEVER = ("--disable-mm-warmup", "--disable-uvloop", "--single-process", "--limit-mm-processing")


def tool(name: str) -> str:
    """A tool of the test environment; it judges what was written."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is not installed"
    return found


def write(made: Plan, folder: Path) -> None:
    for spec in files(made):
        path = folder / spec.path
        path.write_bytes(spec.content)
        path.chmod(spec.mode)


def test_every_machine_is_spoken_of() -> None:
    assert set(NAMES) == set(SERVES) | set(BLOCKED)


@pytest.mark.parametrize("name", sorted(BLOCKED))
def test_a_machine_that_cannot_serve_gets_blockers_and_no_files(name: str) -> None:
    made = plan(session_of(name))
    assert BLOCKED[name] in {b.code for b in made.blockers}
    assert made.argv == ()
    assert files(made) == []
    assert all(b.title and (b.detail or b.commands) for b in made.blockers)


@pytest.mark.parametrize("name", sorted(SERVES))
def test_what_is_planned(name: str) -> None:
    made = plan(session_of(name))
    assert made.blockers == ()
    assert (made.device, made.runtime) == SERVES[name]
    assert made.can_serve
    assert made.fit is not None
    assert made.fit.fits
    assert all(d.reason for d in made.decisions)
    refused = [p for p in releases.check_argv(list(made.argv), made.release.version) if p.kind != "ok"]
    assert refused == []
    assert not any(flag in word for word in made.argv for flag in NEVER)
    if made.machine.is_wsl2:
        mount = made.machine.mount_of(made.host_model_path or made.machine.home)
        assert mount is not None
        assert mount.kind.value not in ("windows-drive", "network")


@pytest.mark.parametrize("name", sorted(SERVES))
def test_the_same_session_gives_the_same_files(name: str) -> None:
    first, second = files(plan(session_of(name))), files(plan(session_of(name)))
    assert first == second
    # Inside a container without an engine nothing could run a compose file.
    assert [f.path for f in first][:2] == ["launch.sh", "vllm.env" if "container" in name else "compose.yaml"]


@pytest.mark.parametrize("name", sorted(SERVES))
def test_written_files_pass_their_tools(name: str, tmp_path: Path) -> None:
    made = plan(session_of(name))
    write(made, tmp_path)
    subprocess.run(["bash", "-n", str(tmp_path / "launch.sh")], check=True, timeout=20)
    checked = subprocess.run(
        [tool("shellcheck"), str(tmp_path / "launch.sh")], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout
    assert stat.S_IMODE((tmp_path / "vllm.env").stat().st_mode) == 0o600
    if made.machine.in_container:
        return
    compose = subprocess.run(
        [tool("docker-compose"), "-f", str(tmp_path / "compose.yaml"), "config", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert compose.returncode == 0, compose.stderr
    assert "variable is not set" not in compose.stderr
    service = json.loads(compose.stdout)["services"]["vllm"]
    lead = ["--model"] if made.image is not None and made.image.serves_with_model_flag else []
    assert service["command"] == [*lead, *made.container_argv]
    assert service["ports"][0]["host_ip"] == "127.0.0.1"


@pytest.mark.parametrize("name", sorted(SERVES))
def test_the_script_prints_the_planned_command(name: str, tmp_path: Path) -> None:
    made = plan(session_of(name))
    write(made, tmp_path)
    shown = subprocess.run(
        [str(tmp_path / "launch.sh"), "--print"], capture_output=True, text=True, check=True, timeout=20
    )
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shown.stdout}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.split("\0")[:-1]
    if made.runtime == "local":
        assert words == [f"{made.value('venv')}/bin/vllm", "serve", *made.argv]
    else:
        at = words.index(str(made.image_reference))
        lead = ["--model"] if made.image is not None and made.image.serves_with_model_flag else []
        assert words[at + 1 :] == [*lead, *made.argv]
        assert words[:2] == ["docker", "run"]


@pytest.mark.parametrize(
    "name", [n for n in sorted(SERVES) if n.startswith("wsl2") and n != "wsl2-container"]
)
def test_wslconfig_gives_what_was_decided(name: str) -> None:
    made = plan(session_of(name))
    spec = next((f for f in files(made) if f.path == ".wslconfig"), None)
    assert (spec is not None) == bool(made.wsl_changes)
    if spec is None or made.machine.wsl is None or not made.value("wsl_memory_gib"):
        return
    read = parse(
        spec.content,
        "wslconfig",
        made.machine.wsl.host_memory_bytes.value,
        made.machine.wsl.host_logical_cpus.value,
    )
    assert read.effective.memory_bytes == made.value("wsl_memory_gib") << 30
    before = parse(made.machine.wsl.wslconfig_bytes or b"")
    assert {p.kind for p in read.problems} <= {p.kind for p in before.problems}
