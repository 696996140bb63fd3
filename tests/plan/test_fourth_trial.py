"""What a fourth newcomer stumbled over in plans and what is written of them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.plan.conftest import MACHINES, bare, session_of
from wizard.faces import writing
from wizard.facts import Severity
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan_types import Plan, own_environment
from wizard.probes.problems.host import memory_sizes

DESKTOP, NO_DOCKER, INSIDE = "wsl2-rtx4090-desktop", "wsl2-interop-off-custom-root", "wsl2-container"


def script_of(made: Plan) -> str:
    return next(f.content for f in files(made) if f.path.endswith("launch.sh")).decode()


def local(home: Path, **answers: str) -> Plan:
    return plan(session_of(NO_DOCKER, model="Qwen/Qwen3-4B", runtime="local", **answers))


def started(script: str, environment: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The script with its checks of the machine taken away, so that it comes to its environment."""
    text = re.sub(r"(?m)^check\n", "", script)
    text = re.sub(r"(?m)^environment=.*$", f"environment={environment}", text)
    path = tmp_path / "launch.sh"
    path.write_text(text)
    return subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False, env={"PATH": "/nowhere:/usr/bin:/bin", "HOME": str(tmp_path)})


def test_an_environment_that_the_wizard_did_not_make_is_never_to_be_removed(tmp_path: Path) -> None:
    own = script_of(local(tmp_path))
    other = script_of(local(tmp_path, venv="/usr/local"))
    assert "rm -r" in own
    assert "rm -r" not in other
    assert "with another environment folder" in other
    environment = tmp_path / "there"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").touch()
    for name, text in (("vllm", "exit 9"), ("python", "echo 0.1.0")):
        (environment / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (environment / "bin" / name).chmod(0o755)
    for script, removes in ((own, True), (other, False)):
        said = started(script, environment, tmp_path)
        assert said.returncode == 1
        assert "the environment holds 0.1.0" in said.stderr
        assert ("rm -r" in said.stderr) is removes


def test_nothing_is_installed_into_a_folder_that_is_no_environment(tmp_path: Path) -> None:
    folder = tmp_path / "system"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("#!/bin/sh\nexit 0\n")
    (folder / "bin" / "python").chmod(0o755)
    said = started(script_of(local(tmp_path, venv=str(folder))), folder, tmp_path)
    assert said.returncode == 1
    assert "is no virtual environment" in said.stderr
    assert not (tmp_path / "system.uv").exists()


def test_the_wizard_s_own_environment_is_the_proposal() -> None:
    made = plan(session_of(NO_DOCKER, model="Qwen/Qwen3-4B", runtime="local"))
    assert made.release is not None
    assert made.value("venv") == own_environment(made.machine.home, made.release.version)


def test_a_smaller_model_that_lies_here_does_not_hide_the_same_model_in_fewer_bits() -> None:
    made = plan(session_of(NO_DOCKER, model="Qwen/Qwen3-8B"))
    assert made.fit is not None
    models = [w.changes["model"] for w in made.fit.ways_out if "model" in w.changes]
    assert any(m.startswith("/") for m in models)
    assert {"Qwen/Qwen3-8B-FP8", "Qwen/Qwen3-8B-AWQ"} & set(models)


def test_foreign_code_that_is_not_needed_is_not_said_to_come_with_the_model() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", trust_remote_code=True))
    told = next(w for w in made.warnings if w.code == "remote_code")
    assert "brings Python code" not in told.title
    assert "vLLM brings its own code for this model" in told.detail


def test_what_is_typed_after_wsl_ended_is_said_to_need_a_new_terminal() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8"))
    assert made.wsl_changes
    start = next(s for s in made.after if "./launch.sh" in s.commands)
    assert start.where == "linux-new"
    assert "in a new Linux terminal" in writing.next_steps(made.after)
    kept = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", wsl_write=False))
    assert next(s for s in kept.after if "./launch.sh" in s.commands).where == "linux"
    assert "new Linux terminal" not in writing.next_steps(kept.after)


def test_little_shared_memory_matters_with_several_gpus_only() -> None:
    machine = bare(INSIDE).machine
    (told,) = (p for p in memory_sizes(machine) if p.code == "small_shm")
    assert told.severity is Severity.INFO
    assert "enough with one GPU" in told.detail
    two = replace(machine, gpu=replace(machine.gpu, gpus=machine.gpu.gpus * 2))
    (told,) = (p for p in memory_sizes(two) if p.code == "small_shm")
    assert told.severity is Severity.WARNING
    assert "--ipc=host" in told.detail


def test_local_access_on_wsl_names_windows() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8"))
    assert "Windows" in made.reason("access")
    native = plan(session_of("native-rtx5090", model="Qwen/Qwen3-8B-FP8"))
    assert "Windows" not in native.reason("access")


def test_text_alone_is_another_purpose_than_pictures() -> None:
    session = session_of("wsl2-rtx5070-laptop-old-driver")
    path = next(f.path for f in session.found if "VL-2B" in f.name)
    made = plan(session_of("wsl2-rtx5070-laptop-old-driver", model=path))
    assert made.fit is not None
    way = next(w for w in made.fit.ways_out if w.kind == "text_only")
    assert way.changes["intent"] == "chat"
    taken = plan(session_of("wsl2-rtx5070-laptop-old-driver", model=path, **way.changes))
    assert taken.can_serve
    assert taken.value("intent") == "chat"


def test_a_share_that_was_asked_for_and_is_too_small_is_among_what_can_be_changed() -> None:
    asked = {"model": "Qwen/Qwen3-8B", "gpu_memory_utilization": 0.5, "cpu_offload_gb": "0"}
    made = plan(session_of(DESKTOP, **asked))
    assert made.fit is not None
    assert not made.can_serve
    way = made.fit.ways_out[0]
    assert way.kind == "utilization"
    assert "instead of 0.50" in way.text
    assert plan(session_of(DESKTOP, **{**asked, **way.changes})).can_serve


def test_a_size_may_be_typed_with_its_unit() -> None:
    from wizard.steps import QUESTIONS, parse_value

    for text in ("64", "64GB", "64 GiB", "64g"):
        assert float(parse_value(QUESTIONS["wsl_memory_gib"], text)) == 64  # type: ignore[arg-type]
    assert parse_value(QUESTIONS["port"], "8000") == 8000


def test_a_key_and_files_of_an_earlier_plan_are_told(tmp_path: Path) -> None:
    from wizard.apply import write

    out = str(tmp_path / "out")
    network = session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", access="network")
    changes, _made = writing.changes_for(network, plan(network), out)
    write(changes)
    (tmp_path / "out" / "nginx.conf").touch()
    local_only = session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8")
    _changes, made = writing.changes_for(local_only, plan(local_only), out)
    tried = next(s for s in made.after if any(c.startswith("curl") for c in s.commands))
    assert "VLLM_API_KEY" in tried.commands[0]
    assert "earlier write" in tried.consequence
    # The folder of this plan is another than the one asked for here, so nothing is said of its files...
    there = session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", out_dir=out)
    _changes, made = writing.changes_for(there, plan(there), out)
    start = next(s for s in made.after if "./launch.sh" in s.commands)
    assert "nginx.conf there is of an earlier plan" in start.consequence
    (tmp_path / "out" / "vllm.env").write_text("# nothing\n")
    _changes, made = writing.changes_for(there, plan(there), out)
    assert not any("earlier write" in s.consequence or "Bearer" in " ".join(s.commands) for s in made.after)


def test_offline_and_a_model_that_is_not_here_is_told() -> None:
    away = plan(session_of(DESKTOP, model="Qwen/Qwen3.5-9B").answer("env.HF_HUB_OFFLINE", "1"))
    assert "offline_without_model" in {w.code for w in away.warnings}
    online = plan(session_of(DESKTOP, model="Qwen/Qwen3.5-9B"))
    assert "offline_without_model" not in {w.code for w in online.warnings}
    path = next(f.path for f in session_of(DESKTOP).found if f.complete and not f.is_adapter)
    here = plan(session_of(DESKTOP, model=path).answer("env.HF_HUB_OFFLINE", "1"))
    assert "offline_without_model" not in {w.code for w in here.warnings}


def test_an_answer_without_a_proposal_is_kept_as_one() -> None:
    made = plan(session_of("native-rtx5090", image="own/vllm:1", max_model_len=32768))
    answers = next(f.content for f in files(made) if f.path == "answers.toml").decode()
    assert '"image"' in answers.partition("[answers]")[0]


def test_gpus_named_by_a_variable_are_an_answer_of_their_own() -> None:
    made = plan(session_of("native-4x-h200").answer("env.CUDA_VISIBLE_DEVICES", "1"))
    assert "gpus_by_variable" in {w.code for w in made.warnings}
    assert "CUDA_VISIBLE_DEVICES=1" not in "".join(f.content.decode() for f in files(made) if f.path in ("launch.sh", "compose.yaml"))


def test_launch_starts_no_old_script_beside_several_servers(tmp_path: Path) -> None:
    from wizard.__main__ import main

    out = tmp_path / "out"
    for run_on in ("this", "replicas"):
        words = ["--machine", str(MACHINES / "native-4x-h200"), "--model", "Qwen/Qwen3-8B", "--set", f"run_on={run_on}", "--out", str(out)]
        assert main(["generate", "--yes", *words]) == 0
    assert (out / "launch.sh").exists()
    assert main(["launch", str(out)]) == 2


def test_lora_without_an_adapter_is_told_however_it_was_asked_for() -> None:
    for value in (True, "true"):
        made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", enable_lora=value))
        assert "no_adapter" in {w.code for w in made.warnings}
    assert "no_adapter" not in {w.code for w in plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-FP8", enable_lora=False)).warnings}
