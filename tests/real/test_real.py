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
from tests.real.conftest import START_S
from wizard.launch import processes, prove, record

pytestmark = pytest.mark.real


def causes(result):
    return [t.diagnosis.findings[0].cause if t.diagnosis.findings else None for t in result.tries]


def signal_to(launch, number, title):
    """Send a signal to the processes of a launch that call themselves so; returns how many there were."""
    hit = 0
    for process in processes.members(launch._leader, launch.id):
        try:
            words = process.cmdline()
            if words and words[0].startswith(f"VLLM::{title}"):
                process.send_signal(number)
                hit += 1
        except psutil.Error:
            continue
    return hit


def test_from_files_to_answers_and_the_death_of_the_engine_is_seen(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    sql = tiny.adapter(tmp_path / "loras" / "sql", base)
    served = serve(base, lora_adapters=(f"sql={sql}",))
    result, _steps = served.launch()
    serve.keep(result)
    assert result.proven, (result.outcome, result.checks, result.launch.log_text()[-3000:])
    assert [(c.name, c.about) for c in result.checks] == [("models", "tiny"), ("answer", "tiny"), ("adapter", "sql")]
    stages = result.launch.reader.stages
    assert {"engine", "weights", "kv_cache", "ready"} <= set(stages)
    assert result.calibration is not None
    curl, _python = prove.ready_made(result.launch.target, "sql", False)
    answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
    assert '"choices"' in answer.stdout

    assert signal_to(result.launch, signal.SIGKILL, "EngineCore")
    until = result.launch.elapsed_s + START_S
    ended = result.launch.serve(lambda: result.launch.elapsed_s > until)
    assert ended.state == "died"
    assert ended.returncode == 0  # so a restart policy that looks at the code does not see it
    assert record.load(result.launch.id).status == "failed"
    assert processes.members(result.launch._leader, result.launch.id) == []
    assert not prove.is_healthy(result.launch.target.url)


def test_command_line_detached(serve, tmp_path):
    served = serve()
    run = [sys.executable, "-m", "wizard"]
    try:
        made = subprocess.run([*run, "launch", str(served.folder), "--yes", "--detach"], capture_output=True, text=True, timeout=START_S + 60)
        assert made.returncode == 0, made.stdout + made.stderr
        assert "curl -s" in made.stdout
        shown = subprocess.run([*run, "status"], capture_output=True, text=True)
        assert shown.returncode == 0
        assert "serving" in shown.stdout
        log = subprocess.run([*run, "logs", "-n", "0"], capture_output=True, text=True)
        assert "Application startup complete" in log.stdout
    finally:
        stopped = subprocess.run([*run, "stop", str(served.folder)], capture_output=True, text=True, timeout=180)
    assert stopped.returncode == 0, stopped.stdout
    assert subprocess.run([*run, "status"], capture_output=True, text=True).returncode == 1


# -- failures that are repaired into a running server ---------------------------------------------------------
# Several in a row: every start takes most of a minute on two processors.


def test_unknown_flag_then_port_in_use(serve):
    served = serve()
    script = served.folder / "launch.sh"
    script.write_text(script.read_text().replace("  --max-model-len", "  --single-process\n  --max-model-len"))
    with socket.socket() as sock:

        def take_the_port(number):
            if number == 1:
                sock.bind(("127.0.0.1", int(served.plan.value("port"))))
                sock.listen()

        result, steps = served.launch(on_consent=take_the_port)
    serve.keep(result)
    assert causes(result) == ["flag_never_existed", "port_in_use"]
    assert set(steps[1].changed) == {"port"}
    assert result.proven


def test_length_over_the_cache_then_sigkill_of_the_engine(serve, tmp_path):
    # 16 KiB of cache a token: 1 GiB holds 65,536 of them.
    wide = tiny.model(tmp_path / "models" / "wide", kv_heads=16, head_dim=128, longest=1 << 20)
    served = serve(wide, max_num_seqs=64)
    script = served.folder / "launch.sh"
    script.write_text(script.read_text().replace("--max-model-len 512", "--max-model-len 1000000"))
    kill = AtStart(2, signal.SIGKILL, "EngineCore")
    result, steps = served.launch(on_stage=kill.stage, on_start=kill.start)
    serve.keep(result)
    assert kill.hit
    assert causes(result) == ["max_model_len_exceeds_kv", "host_oom_killed"]
    assert "max_model_len" in steps[0].changed
    assert "max_num_seqs" in steps[1].changed
    assert result.proven


def test_truncated_shard_then_sigkill_of_a_worker(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    copy = tiny.model(tmp_path / "backup" / "tiny")
    served = serve(base, max_num_seqs=64)
    _know_copy(served, copy)
    shard = base / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4000])
    kill = AtStart(2, signal.SIGKILL, "Worker")
    result, steps = served.launch(on_stage=kill.stage, on_start=kill.start)
    serve.keep(result)
    assert kill.hit
    assert causes(result) == ["corrupt_or_unexpected_file", "host_oom_killed"]
    assert steps[0].changed == {"model": str(copy)}
    assert "max_num_seqs" in steps[1].changed
    assert result.proven


def test_missing_config_then_sigterm_to_the_engine_is_no_endless_wait(serve, tmp_path):
    base = tiny.model(tmp_path / "models" / "tiny")
    copy = tiny.model(tmp_path / "backup" / "tiny")
    served = serve(base)
    _know_copy(served, copy)
    (base / "config.json").unlink()
    end = AtStart(2, signal.SIGTERM, "EngineCore")
    result, steps = served.launch(on_stage=end.stage, on_start=end.start, accept=lambda number: number == 1)
    serve.keep(result)
    assert end.hit
    assert causes(result)[0] == "path_missing"
    assert steps[0].changed == {"model": str(copy)}
    assert result.outcome.state == "failed"
    assert len(result.tries) == 2


class AtStart:
    """Sends a signal while the weights are being read, at the start of this number."""

    def __init__(self, number, what, title):
        self.number, self.what, self.title = number, what, title
        self.hit = 0
        self._launch = None

    def start(self, launch, number):
        self._launch = launch if number == self.number else None

    def stage(self, event):
        if event.stage == "weights" and self._launch is not None and not self.hit:
            self.hit = signal_to(self._launch, self.what, self.title)


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
