"""A real vLLM on this machine: planned, launched, asked, stopped; its real failures diagnosed and repaired."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.real import tiny
from wizard.launch import processes, prove, record

pytestmark = pytest.mark.real


def causes(result):
    return [t.diagnosis.findings[0].cause if t.diagnosis.findings else None for t in result.tries]


def test_from_files_to_answers_to_nothing_left(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    sql = tiny.adapter(tmp_path / "loras" / "sql", base)
    served = serve(base, lora_adapters=(f"sql={sql}",))
    result, _steps = served.launch()
    try:
        assert result.proven, (result.outcome, result.checks, result.launch.log_text()[-3000:])
        assert [(c.name, c.about) for c in result.checks] == [("models", "tiny"), ("answer", "tiny"), ("adapter", "sql")]
        stages = result.launch.reader.stages
        assert {"engine", "weights", "kv_cache", "ready"} <= set(stages)
        assert result.calibration is not None
        curl, _python = prove.ready_made(result.launch.target, "sql", False)
        answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
        assert '"choices"' in answer.stdout
    finally:
        how = result.launch.stop()
    assert how in ("interrupt", "terminate")
    assert processes.members(result.launch._leader, result.launch.id) == []
    assert not prove.is_healthy(result.launch.target.url)


def test_command_line_detached(serve, tmp_path):
    served = serve()
    run = [sys.executable, "-m", "wizard"]
    try:
        made = subprocess.run([*run, "launch", str(served.folder), "--yes", "--detach"], capture_output=True, text=True, timeout=500)
        assert made.returncode == 0, made.stdout + made.stderr
        assert "curl -s" in made.stdout
        shown = subprocess.run([*run, "status"], capture_output=True, text=True)
        assert shown.returncode == 0
        assert "serving" in shown.stdout
        log = subprocess.run([*run, "logs", "-n", "0"], capture_output=True, text=True)
        assert "Application startup complete" in log.stdout
    finally:
        stopped = subprocess.run([*run, "stop", str(served.folder)], capture_output=True, text=True, timeout=90)
    assert stopped.returncode == 0, stopped.stdout
    assert subprocess.run([*run, "status"], capture_output=True, text=True).returncode == 1


# -- failures that are repaired into a running server ---------------------------------------------------------


def test_unknown_flag(serve):
    served = serve()
    script = served.folder / "launch.sh"
    script.write_text(script.read_text().replace("  --max-model-len", "  --single-process\n  --max-model-len"))
    result, _steps = served.launch()
    serve.keep(result)
    assert causes(result) == ["flag_never_existed"]
    assert result.proven


def test_length_over_the_cache(serve, tmp_path):
    # 16 KiB of cache a token: 1 GiB holds 65,536 of them.
    wide = tiny.model(tmp_path / "models" / "wide", kv_heads=16, head_dim=128, longest=1 << 20)
    served = serve(wide)
    script = served.folder / "launch.sh"
    script.write_text(script.read_text().replace("--max-model-len 512", "--max-model-len 1000000"))
    result, steps = served.launch()
    serve.keep(result)
    assert causes(result) == ["max_model_len_exceeds_kv"]
    assert result.proven
    assert "max_model_len" in steps[0].changed


def test_port_in_use(serve):
    served = serve()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", int(served.plan.value("port"))))
        sock.listen()
        result, steps = served.launch()
    serve.keep(result)
    assert causes(result) == ["port_in_use"]
    assert set(steps[0].changed) == {"port"}
    assert result.proven


@pytest.mark.parametrize("title", ["EngineCore", "Worker"])
def test_sigkill(serve, title):
    served = serve(max_num_seqs=64)
    killed = []

    def kill(event):
        if event.stage == "weights" and not killed:
            launch = starts[-1]
            for process in processes.members(launch._leader, launch.id):
                try:
                    words = process.cmdline()
                except psutil.Error:
                    continue
                if words and words[0].startswith(f"VLLM::{title}"):
                    killed.append(process.pid)
                    process.send_signal(signal.SIGKILL)

    starts = []
    result, steps = served.launch(on_stage=kill, on_start=lambda launch, number: starts.append(launch))
    serve.keep(result)
    assert killed
    assert causes(result) == ["host_oom_killed"]
    assert result.proven
    assert "max_num_seqs" in steps[0].changed


def test_truncated_shard_is_exchanged_for_another_copy(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    copy = tiny.model(tmp_path / "backup" / "tiny")
    served = serve(base)
    _know_copy(served, copy)
    shard = base / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4000])
    result, steps = served.launch()
    serve.keep(result)
    assert causes(result) == ["corrupt_or_unexpected_file"]
    assert steps[0].changed == {"model": str(copy)}
    assert result.proven


def test_missing_config_is_exchanged_for_another_copy(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    copy = tiny.model(tmp_path / "backup" / "tiny")
    served = serve(base)
    _know_copy(served, copy)
    (base / "config.json").unlink()
    result, steps = served.launch()
    serve.keep(result)
    assert causes(result) == ["path_missing"]
    assert steps[0].changed == {"model": str(copy)}
    assert result.proven


def _know_copy(served, copy: Path) -> None:
    from wizard.models.info import FoundModel
    from wizard.models.inspect import inspect

    served.with_session(found=(FoundModel(str(copy), copy.name, "folder", 1),))
    served.session = served.session.with_model(str(copy), inspect(served.host, str(copy)))


# -- failures that are told, not repaired ---------------------------------------------------------------------


def test_a_model_that_this_release_does_not_know(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    served = serve(base)
    config = base / "config.json"
    config.write_text(config.read_text().replace("Qwen3ForCausalLM", "NovaNineForCausalLM").replace('"qwen3"', '"nova9"'))
    result, _steps = served.launch(accept=False)
    assert not result.outcome.ok
    assert causes(result)[0] in ("model_needs_newer_vllm", "model_needs_newer_transformers")


def test_ctrl_c_while_starting(serve):
    served = serve()
    starts = []

    def interrupt(event):
        if event.stage == "weights" and event.state == "started":
            os.killpg(starts[-1]._leader.pid, signal.SIGINT)

    result, _steps = served.launch(accept=False, on_stage=interrupt, on_start=lambda launch, number: starts.append(launch))
    assert not result.outcome.ok
    assert causes(result) == ["interrupted_by_user"]


def test_sigterm_to_the_engine_while_starting_is_no_endless_wait(serve):
    served = serve()
    starts, hit = [], []

    def terminate(event):
        if event.stage == "weights" and not hit:
            for process in processes.members(starts[-1]._leader, starts[-1].id):
                try:
                    if processes.has_engine([process]):
                        hit.append(process.pid)
                        process.send_signal(signal.SIGTERM)
                except psutil.Error:
                    continue

    result, _steps = served.launch(accept=False, on_stage=terminate, on_start=lambda launch, number: starts.append(launch))
    if result.outcome.ok:
        result.launch.stop()
    assert hit
    assert not result.outcome.ok
    assert result.outcome.state == "failed"


def test_the_death_of_the_engine_while_serving_is_seen(serve):
    served = serve()
    result, _steps = served.launch()
    serve.keep(result)
    assert result.proven
    for process in processes.members(result.launch._leader, result.launch.id):
        try:
            if processes.has_engine([process]):
                process.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue
    ended = result.launch.serve(lambda: result.launch.elapsed_s > 600)
    assert ended.state == "died"
    assert ended.returncode == 0  # so a restart policy that looks at the code does not see it
    assert record.load(result.launch.id).status == "failed"
    assert processes.members(result.launch._leader, result.launch.id) == []
