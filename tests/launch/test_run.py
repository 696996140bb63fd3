"""Starting, proving, stopping: with a stand-in server that misbehaves on request."""

import os
from pathlib import Path

import pytest

from wizard.errors import BadInput, WizardError
from wizard.launch import detach, processes, prove, record, run
from wizard.launch.run import Callbacks, Launch
from wizard.launch.target import Target, from_files


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(processes, "INTERRUPT_S", 1.0)
    monkeypatch.setattr(processes, "SWEEP_S", 0.2)
    monkeypatch.setattr(run, "HEALTH_S", 0.2)
    monkeypatch.setattr(run, "POLL_S", 0.05)
    monkeypatch.setattr(run, "ENGINE_GONE_S", 0.8)
    monkeypatch.setattr(run, "MEMORY_S", 0.3)


def test_start_prove_stop(target, host, quick):
    events, lines, checks, memory = [], [], [], []
    launch = Launch(target, host, Callbacks(events.append, lines.append, memory.append, checks.append))
    launch.start()
    try:
        outcome = launch.wait()
        assert outcome.ok, launch.log_text()
        assert launch.prove() == checks
        assert [(c.name, c.ok) for c in checks] == [("models", True), ("answer", True)]
        assert checks[1].text == "Hello from tiny."
        done = [e.stage for e in events if e.state == "done"]
        assert done == ["check", "engine", "weights", "compile", "kv_cache", "graphs", "ready"]
        assert any("Application startup complete" in x for x in lines)
        kept = record.load(launch.id)
        assert kept is not None
        assert kept.status == "serving"
        assert detach.is_running(kept, host)
        with pytest.raises(WizardError, match="runs already"):
            Launch(target, host).start()
    finally:
        how = launch.stop()
    assert how == "interrupt"
    assert processes.members(launch._leader, launch.id) == []
    assert record.load(launch.id).status == "stopped"


def test_log_is_private_and_old_ones_go(target):
    paths = [record.new_log("x") for _ in range(record.KEPT_LOGS + 3)]
    assert paths[-1].stat().st_mode & 0o077 == 0
    assert len(list(paths[-1].parent.glob("*.log"))) == record.KEPT_LOGS


def test_a_server_deaf_to_signals_is_killed(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "deaf")
    launch = Launch(target, host)
    launch.start()
    assert launch.wait().ok
    assert processes.stop(launch._leader, launch.id, interrupt_s=0.5, terminate_s=0.5) == "kill"
    assert processes.members(launch._leader, launch.id) == []
    launch.stop()


def test_hurry_kills_at_once(target, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "deaf")
    launch = Launch(target, host)
    launch.start()
    assert launch.wait().ok
    # A deaf server would be waited for a good while before it is killed.
    assert launch.stop(now=lambda: True) == "kill"


def test_failure_is_told_with_its_exit_code_and_leaves_nothing(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "fail:ValueError: a fault of the test")
    events = []
    launch = Launch(target, host, Callbacks(on_stage=events.append))
    launch.start()
    outcome = launch.wait()
    assert (outcome.state, outcome.returncode) == ("failed", 1)
    assert "a fault of the test" in launch.log_text()
    assert events[-1].state == "failed"
    assert record.load(launch.id).status == "failed"
    assert processes.members(launch._leader, launch.id) == []


def test_never_ready_is_given_up(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "hang")
    launch = Launch(target, host, timeout_s=2.0)
    launch.start()
    outcome = launch.wait()
    assert outcome.state == "timeout"
    assert processes.members(launch._leader, launch.id) == []


def test_cancelled_while_starting(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "hang")
    launch = Launch(target, host)
    launch.start()
    assert launch.wait(lambda: launch.elapsed_s > 0.6).state == "stopped"
    assert launch.stop() in ("interrupt", "terminate", "kill")


def test_an_api_process_whose_engine_vanished_is_not_waited_for(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "hang")
    seen = iter([True, True] + [False] * 100_000)
    monkeypatch.setattr(processes, "has_engine", lambda members: next(seen))
    launch = Launch(target, host)
    launch.start()
    outcome = launch.wait()
    assert outcome.state == "failed"
    assert "engine" in outcome.reason


def test_dying_while_serving_with_exit_0_is_a_death(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "die")
    launch = Launch(target, host)
    launch.start()
    assert launch.wait().ok
    ended = launch.serve()
    assert (ended.state, ended.returncode) == ("died", 0)
    assert processes.members(launch._leader, launch.id) == []


def test_left_running_it_goes_on_and_is_stopped_by_its_record(target, host, quick):
    launch = Launch(target, host)
    launch.start()
    assert launch.wait().ok
    launch.leave_running()
    kept = record.load(launch.id)
    assert detach.is_running(kept, host)
    assert prove.is_healthy(target.url)
    assert detach.stop(kept, host) in ("interrupt", "terminate")
    launch._process.returncode = None
    launch._process.poll()
    assert not prove.is_healthy(target.url)


def test_a_reused_process_number_is_not_taken_for_the_server():
    own = processes.Leader(os.getpid(), 1.0)
    assert not processes.is_alive(own)


def test_memory_of_the_processes_is_told(target, host, quick):
    uses = []
    launch = Launch(target, host, Callbacks(on_memory=uses.append))
    launch.start()
    try:
        assert launch.wait().ok
        launch.serve(lambda: bool(uses) or launch.elapsed_s > 10)
    finally:
        launch.stop()
    assert uses[0][0].label == "RAM"
    assert uses[0][0].used_bytes > 1 << 20


class Smi:
    """A host with only nvidia-smi."""

    platform = "linux"

    def __init__(self, text: str) -> None:
        self.text = text

    def which(self, name):
        return "/usr/bin/" + name

    def run(self, argv, timeout_s=5.0, cwd=None, env=None):
        from wizard.host import CommandResult

        return CommandResult(tuple(argv), 0, self.text.encode())


@pytest.mark.parametrize(
    ("text", "gpus", "found"),
    [
        ("0, 1024, 24576\n1, 2048, 24576\n", (), [("GPU 0", 1 << 30, 24 << 30), ("GPU 1", 2 << 30, 24 << 30)]),
        ("0, 1024, 24576\n1, 2048, 24576\n", (1,), [("GPU 1", 2 << 30, 24 << 30)]),
        ("0, [N/A], [N/A]\nrubbish\n\n", (), []),
    ],
)
def test_gpu_memory(text, gpus, found, tmp_path):
    target = Target(tmp_path, "m", 8000, device="nvidia", gpus=gpus)
    uses = run.memory_now(Smi(text), target, None, "x")
    assert [(u.label, u.used_bytes, u.total_bytes) for u in uses] == found


# -- proving --------------------------------------------------------------------------------------------------


KINDS = [
    ({"images": True}, ["models", "answer", "image"]),
    ({"task": "embed"}, ["models", "embedding"]),
    ({"task": "rerank"}, ["models", "score"]),
    ({"task": "transcribe"}, ["models", "transcription"]),
]


def test_each_kind_of_model_is_asked_what_it_can(target, host, quick, monkeypatch):
    monkeypatch.setenv("EXTRA", "--lora-modules sql=/l/sql")
    launch = Launch(target, host)
    launch.start()
    try:
        assert launch.wait().ok
        for change, names in KINDS:
            checks = prove.prove(Target(**{**target.__dict__, **change}))
            assert [c.name for c in checks] == names
            assert all(c.ok for c in checks), checks
        # Each adapter by its name; one that the server does not have is found out.
        checks = prove.prove(Target(**{**target.__dict__, "adapters": ("sql", "poet")}))
        assert [(c.about, c.ok) for c in checks if c.name == "adapter"] == [("sql", True), ("poet", False)]
    finally:
        launch.stop()


def test_a_base_model_without_chat_template_completes(target, host, quick, monkeypatch):
    monkeypatch.setenv("FAKE_NO_TEMPLATE", "1")
    launch = Launch(target, host)
    launch.start()
    try:
        assert launch.wait().ok
        checks = launch.prove()
    finally:
        launch.stop()
    assert checks[1].ok
    assert checks[1].text.strip() == "and so on"


def test_the_key_of_vllm_env_is_used_and_written_nowhere(target, host, quick, monkeypatch):
    (target.folder / "vllm.env").write_text("VLLM_API_KEY=a-secret-key\n")
    monkeypatch.setenv("VLLM_API_KEY", "a-secret-key")  # the stand-in reads it there
    launch = Launch(target, host)
    launch.start()
    try:
        assert launch.wait().ok
        assert all(c.ok for c in launch.prove())
        curl, python = prove.ready_made(target, "tiny", launch.api_key is not None)
    finally:
        launch.stop()
    assert "$VLLM_API_KEY" in curl
    assert "VLLM_API_KEY" in python
    texts = [curl, python, *(p.read_text() for p in record.state_folder().rglob("*") if p.is_file())]
    assert not any("a-secret-key" in t for t in texts)


def test_ready_made_lines_quote_odd_names(tmp_path):
    name = "it's $HOME \"x\""
    curl, python = prove.ready_made(Target(tmp_path, name, 8000), name, False)
    import subprocess

    words = subprocess.run(["bash", "-c", "set -- " + curl.removeprefix("curl") + '; printf "%s\\n" "${@: -1}"'], capture_output=True, text=True, check=True)
    import json

    assert json.loads(words.stdout)["model"] == name
    compile(python, "x", "exec")


def test_made_files_are_what_they_say():
    png, wav = prove.red_png(8), prove.silent_wav()
    assert png.startswith(b"\x89PNG")
    assert wav[:4] == b"RIFF"
    import io
    import wave

    with wave.open(io.BytesIO(wav)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (16000, 16000)


# -- folders and records --------------------------------------------------------------------------------------


def test_a_folder_without_a_script(tmp_path, host):
    with pytest.raises(BadInput, match=r"launch\.sh"):
        from_files(tmp_path)
    with pytest.raises(WizardError, match="generate"):
        Launch(Target(tmp_path, "m", 8000), host).start()


def test_damaged_records_are_no_records(tmp_path):
    folder = record.state_folder()
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text('{"id": "b"}')
    assert record.load_all() == []
    assert record.load("none") is None


def test_two_folders_of_one_name_are_two_servers(tmp_path):
    assert record.record_id(tmp_path / "a" / "x") != record.record_id(tmp_path / "b" / "x")
    assert record.record_id(Path("/")) != ""


def test_windows_is_refused(target):
    host = Smi("")
    host.platform = "win32"
    with pytest.raises(WizardError, match="WSL"):
        Launch(target, host).start()


@pytest.mark.parametrize(
    ("values", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "0.0.0.0"}, "http://127.0.0.1:8000"),
        ({"host": "192.0.2.7"}, "http://192.0.2.7:8000"),
        ({"host": "fd00::7"}, "http://[fd00::7]:8000"),
        ({"ssl_certfile": "/c.pem"}, "https://127.0.0.1:8000"),
    ],
)
def test_where_it_is_reached(tmp_path, values, url):
    from types import SimpleNamespace

    from wizard.launch.target import from_plan

    plan = SimpleNamespace(
        model=None, runtime="local", device="cpu", gpus=(), release=None, can_serve=False, value=lambda key, default=None: values.get(key, default)
    )
    assert from_plan(plan, tmp_path).url == url


def test_another_server_on_the_port_is_not_taken_for_this_one(target, host, quick, folder, monkeypatch):
    first = Launch(target, host)
    first.start()
    try:
        assert first.wait().ok
        # A second folder for the same port, whose script takes a while to notice.
        other = folder.parent / "other"
        other.mkdir()
        (other / "launch.sh").write_text(f"port={target.port}\nsleep 0.7\nexit 1\n")
        second = Launch(Target(**{**target.__dict__, "folder": other}), host)
        second.start()
        assert second.wait().state == "failed"
    finally:
        first.stop()


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (["VLLM::EngineCore"], True),
        (["VLLM::EngineCore_DP1"], True),
        (["VLLM::Worker_TP0"], False),
        (["bash", "/home/user/EngineCore/launch.sh"], False),
        ([], False),
    ],
)
def test_the_engine_is_known_by_its_title(words, engine):
    from types import SimpleNamespace

    process = SimpleNamespace(cmdline=lambda: words, name=lambda: "python")
    assert processes.has_engine([process]) is engine


def test_an_error_on_this_side_leaves_no_server(target, host, quick):
    """A terminal that went away, a full disk: what was started is stopped (the fixture looks for what is left)."""
    from wizard.launch import loop

    def gone(launch, number):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        loop.launch(target, host, asks=loop.Asks(on_start=gone))
    assert record.load(run.Launch(target, host).id).status == "stopped"


def test_a_start_that_cannot_be_kept_is_ended(target, host, quick, monkeypatch):
    def full(kept):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record, "save", full)
    with pytest.raises(OSError, match="No space"):
        Launch(target, host).start()
