"""launch, status, stop and logs as they are typed; Ctrl-C on a real terminal; systemd and Docker by stand-ins."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wizard.errors import WizardError
from wizard.host import RealHost
from wizard.launch import detach, processes, record, run
from wizard.launch.run import Launch
from wizard.launch.target import Target, from_files

RUN = [sys.executable, "-m", "wizard"]


def wizard(*words: str, **options):
    return subprocess.run([*RUN, *words], capture_output=True, text=True, timeout=240, check=False, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 0.2)
    monkeypatch.setattr(run, "HEALTH_S", 0.2)
    monkeypatch.setattr(run, "STATE_S", 0.1)
    monkeypatch.setattr(run, "POLL_S", 0.05)


def test_detached_life(folder):
    port = from_files(folder).port
    made = wizard("launch", str(folder), "--detach", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert (told["state"], told["proven"]) == ("ready", True)
    assert str(port) in told["curl"]
    assert [s["stage"] for s in told["stages"]][-1] == "ready"
    shown = wizard("status", "--json")
    assert shown.returncode == 0
    assert [(r["state"], r["port"]) for r in json.loads(shown.stdout)] == [("serving", port)]
    assert "Application startup complete." in wizard("logs", "-n", "0").stdout
    assert len(wizard("logs", str(folder), "-n", "2").stdout.splitlines()) == 2
    again = wizard("launch", str(folder))
    assert again.returncode == 1
    assert "runs already" in again.stderr
    stopped = wizard("stop")
    assert stopped.returncode == 0
    assert "Stopped" in stopped.stdout
    assert wizard("status").returncode == 1


def test_failure_says_why_and_exits_1(folder, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "fail:ValueError: To serve at least one request with the model's max seq len (8192), estimated maximum model length is 3000.")
    made = wizard("launch", str(folder), "--yes")
    assert made.returncode == 1
    assert "max_model_len_exceeds_kv" in made.stdout
    assert "Traceback" not in made.stderr


def test_a_check_of_the_script_is_no_start(folder):
    """Without answers the script itself tells the release."""
    script = folder / "launch.sh"
    head, rest = script.read_text().split("\n", 1)
    check = "echo 'launch.sh: The model is not at /home/user/m.' >&2\nexit 1\n"
    script.write_text(f"{head}\n# Starts m on vLLM 0.32.0. Stop it with Ctrl-C.\n{check}{rest}")
    assert from_files(folder).release == "0.32.0"
    made = wizard("launch", str(folder), "--yes")
    assert made.returncode == 1
    assert "vLLM 0.32.0" in made.stdout
    assert "launch.sh stopped before vLLM. The log is kept" in made.stdout
    script.write_text(script.read_text().replace("# Starts", "image=vllm/vllm-openai:v0.31.0\n# Starts"))
    assert from_files(folder).release == "0.31.0"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["launch", "/nonexistent/folder"], 2, "generate"),
        (["launch", "--machine", "x"], 2, "--machine"),
        (["launch", "--timeout", "soon"], 2, "--timeout"),
        (["stop", "/nonexistent/folder"], 1, "No server"),
        (["logs"], 1, "No server"),
        (["status"], 1, ""),
    ],
)
def test_wrong_use(words, code, text, tmp_path):
    made = wizard(*words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path)})
    assert made.returncode == code, made.stderr
    assert text in made.stderr
    assert "Traceback" not in made.stderr


def terminal(folder: Path, *words: str):
    pexpect = pytest.importorskip("pexpect")
    return pexpect.spawn(sys.executable, ["-m", "wizard", "launch", str(folder), *words], timeout=180, encoding="utf-8", dimensions=(24, 80))


def test_ctrl_c_once_asks_and_twice_stops(folder):
    child = terminal(folder)
    child.expect("It serves until")
    child.sendintr()
    child.expect("Stop the server")
    child.sendline("")
    child.expect("Going on")
    kept = record.load(record.record_id(folder))
    assert processes.is_alive(kept.leader)
    child.sendintr()
    child.expect("Stop the server")
    child.sendintr()
    child.expect("Stopped")
    child.wait()
    assert child.exitstatus == 0
    assert not processes.is_alive(kept.leader)


def test_ctrl_c_while_starting_and_leaving_it_running(folder, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "hang")
    child = terminal(folder)
    child.expect("Engine start")
    child.sendintr()
    child.expect("Stop the server")
    child.sendline("y")
    child.expect("Stopped before it was ready")
    child.wait()
    assert child.exitstatus == 130
    child = terminal(folder)
    child.expect("Engine start")
    child.sendintr()
    child.expect("Stop the server")
    child.sendline("d")
    child.expect("goes on in the background")
    child.wait()
    assert child.exitstatus == 0
    kept = record.load(record.record_id(folder))
    assert processes.is_alive(kept.leader)
    assert wizard("stop").returncode == 0
    assert not processes.is_alive(kept.leader)
    monkeypatch.setenv("FAKE_MODE", "")
    child = terminal(folder)
    child.expect("It serves until")
    child.sendintr()
    child.expect("Stop the server")
    child.sendline("d")
    child.expect("goes on in the background")
    child.wait()
    assert wizard("status").returncode == 0
    assert wizard("stop").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_without_a_terminal_stops_the_server_too(folder, number):
    child = subprocess.Popen([*RUN, "launch", str(folder)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    for line in child.stdout:
        if "It serves until" in line:
            break
    kept = record.load(record.record_id(folder))
    child.send_signal(number)
    child.communicate(timeout=180)
    assert not processes.is_alive(kept.leader)


def test_a_server_that_dies_while_serving_is_told(folder, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "die")
    made = wizard("launch", str(folder))
    assert made.returncode == 1
    assert "ended by itself" in made.stdout


# -- what brings a server back --------------------------------------------------------------------------------


def stand_in(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text("#!/bin/bash\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """systemctl and docker that note what they are asked and run the server as they would."""
    made = tmp_path / "bin"
    made.mkdir()
    monkeypatch.setenv("PATH", f"{made}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(tmp_path))
    stand_in(
        made,
        "systemctl",
        """echo "systemctl $*" >> "$STAND_IN/asked"
unit="$XDG_CONFIG_HOME/systemd/user/$3"
case "$2" in
  is-system-running) echo running ;;
  is-active) kill -0 "$(cat "$STAND_IN/main" 2>/dev/null)" 2>/dev/null && echo active || echo inactive ;;
  restart)
    log=$(sed -n 's/^StandardOutput=append://p' "$unit")
    script=$(sed -n 's/^ExecStart=.*bash "\\(.*\\)"$/\\1/p' "$unit")
    setsid bash "$script" >> "$log" 2>&1 < /dev/null &
    echo $! > "$STAND_IN/main" ;;
  disable)
    kill -INT -- "-$(cat "$STAND_IN/main")"; sleep 0.5; kill -KILL -- "-$(cat "$STAND_IN/main")" ;;
  show)
    main=$(cat "$STAND_IN/main")
    if kill -0 "$main" 2>/dev/null; then echo "ActiveState=active"; echo "SubState=running"; echo "MainPID=$main"
    else echo "ActiveState=activating"; echo "SubState=auto-restart"; echo "MainPID=0"; fi
    echo "ExecMainStatus=1"; echo "NRestarts=0" ;;
esac
exit 0
""",
    )
    stand_in(
        made,
        "docker",
        """echo "docker $*" >> "$STAND_IN/asked"
case "$1 $2" in
  "compose version") echo v5 ;;
  "compose --file")
    case "$4" in
      up) : > "$STAND_IN/container.log"; setsid bash "$(dirname "$3")/launch.sh" > "$STAND_IN/container.log" 2>&1 < /dev/null & echo $! > "$STAND_IN/main"; echo " vllm Pulled" ;;
      down) kill -KILL -- "-$(cat "$STAND_IN/main")" ;;
    esac ;;
  "logs --follow") exec tail -n +1 -f "$STAND_IN/container.log" --pid "$(cat "$STAND_IN/main")" ;;
  "inspect --format") kill -0 "$(cat "$STAND_IN/main")" 2>/dev/null && echo "running 0 0" || echo "restarting 1 1" ;;
  "ps --quiet") kill -0 "$(cat "$STAND_IN/main")" 2>/dev/null && echo abc ;;
esac
exit 0
""",
    )
    return tmp_path


def test_systemd_unit_brings_it_back_whatever_the_exit_code(target, tmp_path):
    odd = tmp_path / 'we"ird 100% $HOME'
    spec = detach.unit_file(Target(odd, "m", 8000), "x", tmp_path / "x.log")
    text = spec.content.decode()
    assert "Restart=always" in text
    assert "KillMode=mixed" in text
    assert 'bash "' + str(tmp_path) + '/we\\"ird 100%% $$HOME/launch.sh"' in text
    assert f"WorkingDirectory={tmp_path}/we\"ird 100%% $HOME" in text
    assert spec.path.startswith(os.environ["XDG_CONFIG_HOME"])


def test_by_systemd(target, programs):
    host = RealHost()
    assert detach.ways(target, host) == ("systemd", "script")
    launch = Launch(target, host, way="systemd")
    launch.start()
    try:
        assert launch.wait().ok, launch.log_text()
        assert all(c.ok for c in launch.prove())
        launch.leave_running()
        kept = record.load(launch.id)
        assert detach.is_running(kept, host)
    finally:
        detach.stop(record.load(launch.id), host)
    asked = (programs / "asked").read_text()
    assert "enable vllm-" in asked
    assert asked.rstrip().endswith("daemon-reload")
    assert not list((programs / "config").rglob("*.service"))


def test_by_systemd_a_failing_start_is_not_repeated_for_ever(target, programs, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "fail:ValueError: no")
    launch = Launch(target, RealHost(), way="systemd")
    launch.start()
    outcome = launch.wait()
    assert (outcome.state, outcome.returncode) == ("failed", 1)
    assert "disable --now" in (programs / "asked").read_text()


def test_by_systemd_a_unit_that_cannot_be_started_is_taken_back(target, programs):
    systemctl = programs / "bin" / "systemctl"
    systemctl.write_text(systemctl.read_text().replace("  restart)\n", "  restart) echo 'no bus' >&2; exit 1 ;;\n  never)\n"))
    with pytest.raises(WizardError, match="no bus"):
        Launch(target, RealHost(), way="systemd").start()
    assert "disable --now" in (programs / "asked").read_text()
    assert not list((programs / "config").rglob("*.service"))


def test_by_compose(target, programs):
    (target.folder / "compose.yaml").write_text('services:\n  vllm:\n    container_name: "vllm-tiny"\n')
    docker = Target(**{**target.__dict__, "runtime": "docker", "container": "vllm-tiny"})
    host = RealHost()
    assert detach.ways(docker, host)[0] == "compose"
    launch = Launch(docker, host, way="compose")
    launch.start()
    try:
        assert launch.wait().ok, launch.log_text()
        assert "pull" in launch.reader.stages
        launch.leave_running()
        kept = record.load(launch.id)
        assert (kept.how, kept.container) == ("compose", "vllm-tiny")
        assert detach.is_running(kept, host)
    finally:
        detach.stop(record.load(launch.id), host)
    assert "down" in (programs / "asked").read_text()


def test_by_compose_a_failing_start_is_told(target, programs, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "fail:ValueError: no")
    (target.folder / "compose.yaml").write_text('services:\n  vllm:\n    container_name: "vllm-tiny"\n')
    docker = Target(**{**target.__dict__, "runtime": "docker", "container": "vllm-tiny"})
    launch = Launch(docker, RealHost(), way="compose")
    launch.start()
    outcome = launch.wait()
    assert (outcome.state, outcome.returncode) == ("failed", 1)
    assert "ValueError: no" in launch.log_text()


def test_the_folder_that_is_meant(folder, tmp_path):
    home = tmp_path / "home"
    for name in ("a", "b"):
        (home / "vllm" / name).mkdir(parents=True)
        (home / "vllm" / name / "launch.sh").write_text((folder / "launch.sh").read_text())
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(home)}
    made = wizard("launch", cwd=tmp_path, env=env)
    assert made.returncode == 2
    assert str(home / "vllm" / "b") in made.stderr
    (home / "vllm" / "b" / "launch.sh").unlink()
    assert wizard("launch", "--detach", cwd=tmp_path, env=env).returncode == 0
    assert [r.folder for r in record.load_all()] == [str(home / "vllm" / "a")]
    assert wizard("stop").returncode == 0


def test_a_reader_that_goes_away_takes_the_server_along(folder):
    """``vllm-wizard launch DIR | head -1``; the fixture looks for what is left."""
    with subprocess.Popen([sys.executable, "-m", "wizard", "launch", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        assert started.stdout is not None
        assert started.stdout.readline()
        started.stdout.close()
        started.wait(240)
