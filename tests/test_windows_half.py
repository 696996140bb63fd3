"""On Windows itself: what is said, what is written, and how it goes on inside WSL."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.facts import Fact, Machine, SystemKind, WslDistro
from wizard.host import open_host
from wizard.outputs.wslconfig import parse
from wizard.plan.windows import WindowsHalf, linux_path, seen_from_inside, windows_half
from wizard.probes import run_all
from wizard.probes.problems import find_problems
from wizard.session import Answers, Session, gather, load_answers

MACHINES = Path(__file__).parent / "machines"
FOLDER = "C:\\Users\\user\\vllm-wizard"


@pytest.fixture(scope="module")
def session() -> Session:
    host = open_host(MACHINES / "windows-rtx4070")
    answers = Answers(
        cli={"intent": "chat", "model": "Qwen/Qwen3-8B", "move_to": "D:\\models\\x", "out_dir": "C:\\out"}
    )
    return gather(host, answers, machine=run_all(host))


def with_machine(session: Session, machine: Machine) -> Session:
    return replace(session, machine=replace(machine, problems=tuple(find_problems(machine))))


def content(half: WindowsHalf, name: str) -> bytes:
    return next(f.content for f in half.files if f.path.endswith(name))


def test_wslconfig_is_written_in_place_with_the_real_memory(session: Session) -> None:
    half = windows_half(session, FOLDER)
    spec = half.files[0]
    assert (spec.path, spec.edited) == ("C:\\Users\\user\\.wslconfig", True)
    assert spec.expected_bytes == b"[wsl2]\r\nmemory=16GB\r\n"
    parsed = parse(spec.content, "wslconfig", session.machine.memory.total_bytes.value, 24)
    assert not parsed.problems
    assert parsed.effective is not None
    assert parsed.effective.processors == 22
    assert parsed.effective.vm_idle_timeout_ms == parsed.effective.instance_idle_timeout_ms == -1
    assert b"\n" not in spec.content.replace(b"\r\n", b"")


def test_the_answers_go_along_as_wsl_needs_them(session: Session) -> None:
    half = windows_half(session, FOLDER)
    answers = load_answers(content(half, "answers.toml"), "answers.toml")
    assert answers["intent"] == "chat"
    assert answers["model"] == "Qwen/Qwen3-8B"
    assert answers["move_to"] == "/mnt/d/models/x"
    assert "out_dir" not in answers
    assert answers["host_cpus"] == 24
    assert answers["host_memory_gib"] == pytest.approx(31.8)


def test_what_to_type_next(session: Session) -> None:
    steps = windows_half(session, FOLDER).steps
    commands = [c for s in steps for c in s.commands]
    assert commands[0] == "wsl --shutdown"
    assert "docker-desktop" in steps[0].consequence
    assert "wsl -d 'Ubuntu-24.04'" in commands
    assert commands[-1] == f"~/.vllm-wizard/bin/vllm-wizard --answers \"$(wslpath -u '{FOLDER}\\answers.toml')\""
    assert [s.where for s in steps] == ["powershell", "powershell", "linux", "linux"]


def test_nothing_to_change_needs_no_shutdown(session: Session) -> None:
    once = windows_half(session, FOLDER)
    wsl = session.machine.wsl
    assert wsl is not None
    done = replace(session.machine, wsl=replace(wsl, wslconfig_bytes=once.files[0].content))
    again = windows_half(replace(session, machine=done), FOLDER)
    assert not again.changes
    assert [f.path for f in again.files] == ["answers.toml"]
    assert not any("--shutdown" in c for s in again.steps for c in s.commands)


@pytest.mark.parametrize(
    ("distros", "code", "command"),
    [
        (None, "windows_no_wsl", "wsl --install"),
        ((), "windows_no_distro", "wsl --install"),
        ((WslDistro("docker-desktop", 2, "Running", True),), "windows_no_distro", "wsl --install"),
        ((WslDistro("Debian", 1, "Stopped", True),), "wsl1", "wsl --set-version Debian 2"),
    ],
)
def test_what_has_to_be_done_first(
    session: Session, distros: tuple[WslDistro, ...] | None, code: str, command: str
) -> None:
    wsl = session.machine.wsl
    assert wsl is not None
    new = None if distros is None else replace(wsl, distros=distros)
    half = windows_half(with_machine(session, replace(session.machine, wsl=new)), FOLDER)
    assert [b.code for b in half.blockers][:1] == [code] or distros is None
    assert any(c.startswith(command) for s in half.steps for c in s.commands)
    assert (half.files == ()) == (distros is None)
    assert half.advice.settings


def test_another_distro_is_opened_when_the_default_runs_on_wsl1(session: Session) -> None:
    wsl = session.machine.wsl
    assert wsl is not None
    two = (WslDistro("Old", 1, "Stopped", True), WslDistro("It's new", 2, "Stopped"))
    changed = replace(wsl, distros=two, distro=Fact("Old"))
    half = windows_half(with_machine(session, replace(session.machine, wsl=changed)), FOLDER)
    assert "wsl -d 'It''s new'" in [c for s in half.steps for c in s.commands]
    assert "none runs now" in half.steps[0].consequence


def test_seen_from_inside_nothing_of_windows_is_taken_for_linux(session: Session) -> None:
    inside = seen_from_inside(session.machine)
    assert inside.system is SystemKind.WSL2
    assert inside.memory.total_bytes.value is None
    assert inside.gpu == session.machine.gpu


@pytest.mark.parametrize(
    ("windows", "linux"),
    [
        ("C:\\Users\\a b\\m", "/mnt/c/Users/a b/m"),
        ("d:/models/x.gguf", "/mnt/d/models/x.gguf"),
        ("E:\\", "/mnt/e/"),
        ("name=C:\\adapters\\x", "name=/mnt/c/adapters/x"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("\\\\nas\\models", "\\\\nas\\models"),
        ("/home/user", "/home/user"),
    ],
)
def test_paths(windows: str, linux: str) -> None:
    assert linux_path(windows) == linux


# -- the command ----------------------------------------------------------------------------------------------


def test_the_walk_on_windows_is_its_half(capfd: pytest.CaptureFixture[str]) -> None:
    machine = ["--machine", str(MACHINES / "windows-rtx4070")]
    assert main(machine) == main(["windows", *machine, "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    first, second = out[: len(out) // 2], out[len(out) // 2 :]
    assert first == second
    for word in ("RTX 4070", "591.86", "wsl2.memory", "Ubuntu-24.04", "wslpath -u"):
        assert word in first


def test_writing_beside_a_recorded_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    machine = ["--machine", str(MACHINES / "windows-rtx4070")]
    code = main(
        ["windows", *machine, "--yes", "--json", "--out", str(tmp_path / "out"), "--set", "intent=chat"]
    )
    document = json.loads(capfd.readouterr().out)
    assert (code, document["written"]) == (0, True)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [".wslconfig", "answers.toml"]
    assert (tmp_path / "out/.wslconfig").read_bytes().startswith(b"[wsl2]\r\n# vllm-wizard: ")
    assert any("Copy-Item" in c for s in document["after"] for c in s["commands"])
    # The walk inside WSL takes them.
    answers = [
        "--answers",
        str(tmp_path / "out/answers.toml"),
        "--machine",
        str(MACHINES / "wsl2-rtx4090-desktop"),
    ]
    main(["plan", "--json", *answers])
    plan = json.loads(capfd.readouterr().out)
    assert plan["answers"]["intent"] == "chat"
    assert not [w for w in plan["warnings"] if w["code"] == "answer_unused"]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_proposal_is_shown_against_the_users_own_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], more: list[str]
) -> None:
    words = ["windows", "--machine", str(MACHINES / "windows-rtx4070"), "--dry-run", "--out", str(tmp_path), *more]
    main(words)
    said = capfd.readouterr().out
    if more:
        said = next(f["diff"] for f in json.loads(said)["files"] if f["path"].endswith(".wslconfig"))
    said = said[said.index("--- ") :]
    assert said.startswith(f"--- C:\\Users\\user\\.wslconfig (your own)\n+++ {tmp_path}/.wslconfig (the proposal)\n@@ -1,2 +1,")
    assert " [wsl2]\n-memory=16GB\n+# vllm-wizard: " in said
    assert "\n+memory=" in said


def test_elsewhere_it_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["windows", "--machine", str(MACHINES / "native-t4")]) == 2
    assert main(["windows", "--machine", str(MACHINES / "windows-rtx4070"), "--yes"]) == 2
    assert "Traceback" not in capfd.readouterr().err


def test_the_plan_there_is_a_blocker(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json", "--machine", str(MACHINES / "windows-rtx4070")]) == 1
    plan = json.loads(capfd.readouterr().out)
    assert "windows_serves_in_wsl" in [b["code"] for b in plan["blockers"]]
    assert plan["argv"] == []


# -- no POSIX-only piece in the way -----------------------------------------------------------------------------

# What Windows' Python lacks and Linux's has.
WITHOUT_POSIX = """
import asyncio, importlib, multiprocessing, os, pkgutil, signal, subprocess, sys, tempfile
# Libraries choose their own system by sys.platform, which stays Linux here.
import platformdirs, prompt_toolkit, psutil, questionary, textual.app, textual.widgets
GONE = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix_ipc", "spwd", "syslog", "crypt", "nis"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name in GONE:
            raise ModuleNotFoundError(name, name=name)
for name in GONE:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Block())
for name in ("fork", "getuid", "geteuid", "getgid", "getegid", "getgroups", "chown", "fchown", "lchown", "statvfs", "fstatvfs",
             "uname", "getpgid", "killpg", "setsid", "sched_getaffinity", "posix_fadvise", "posix_fallocate", "sendfile",
             "copy_file_range", "mkfifo", "sysconf", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECT",
             "getxattr", "setxattr", "listxattr", "sync", "nice", "wait4", "WIFEXITED"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH", "SIGTSTP", "SIGCONT", "SIGCHLD", "SIGPIPE",
             "alarm", "setitimer", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
IMPORT_ALL = """
import wizard
failed = []
for module in pkgutil.walk_packages(wizard.__path__, "wizard."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except Exception as error:
        failed.append(f"{module.name}: {type(error).__name__}: {error}")
sys.exit("\\n".join(failed) or 0)
"""


def without_posix(program: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX + program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **env},
    )


def test_no_module_needs_posix_to_be_imported() -> None:
    done = without_posix(IMPORT_ALL)
    assert (done.returncode, done.stderr) == (0, "")


def test_editing_and_undoing_work_without_posix(tmp_path: Path) -> None:
    file = tmp_path / ".wslconfig"
    file.write_bytes(b"[wsl2]\r\nmemory=1GB\r\n")
    program = f"""
from wizard.__main__ import main
code = main(["wslconfig", "edit", {str(file)!r}, "wsl2.memory=2GB", "--yes"])
assert open({str(file)!r}, "rb").read() == b"[wsl2]\\r\\nmemory=2GB\\r\\n"
code = code or main(["undo"])
code = code or main(["windows", "--machine", {str(MACHINES / "windows-rtx4070")!r}, "--yes", "--out", {str(tmp_path / "o")!r}])
sys.exit(code)
"""
    done = without_posix(program)
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_bytes() == b"[wsl2]\r\nmemory=1GB\r\n"


def test_more_memory_than_windows_has_is_refused_and_not_passed_over(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    machine = ["--machine", str(MACHINES / "windows-rtx4070")]
    assert main(["windows", *machine, "--yes", "--out", str(tmp_path / "out"), "--set", "wsl_memory_gib=4000"]) == 2
    assert "wsl_memory_gib" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("typed", "written"), [("\n", True), ("q\ny\n", True), ("x\nn\n", False), ("", False)])
def test_enter_writes_and_what_is_neither_is_asked_again(typed: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code = main(["--plain", "--machine", str(MACHINES / "windows-rtx4070"), "--out", str(tmp_path / "out")])
    shown = capsys.readouterr().out
    assert (tmp_path / "out" / ".wslconfig").exists() is written
    assert ("Nothing was written." in shown) is not written
    assert shown.count("[Y/n]") == max(1, typed.count("\n"))
    assert code == (0 if written else 1)


def told_of_memory(half: WindowsHalf) -> str:
    setting = half.advice.setting("wsl2.memory")
    assert setting is not None
    return setting.reason


def in_the_file(half: WindowsHalf) -> str:
    return " ".join(content(half, ".wslconfig").decode().replace("\r\n", "\n").replace("#", " ").split())


def test_a_model_that_nobody_named_is_said_to_be_assumed(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    asked = windows_half(session, FOLDER)
    open_ = windows_half(session.forget("model"), FOLDER)
    assert open_.model is not None
    told = f"{open_.model.repo_id or open_.model.source} is assumed: no model was chosen here, and it is the one that vllm-wizard would propose for this machine."
    later = "asks which model to serve and sizes WSL anew for it."
    for text in (told_of_memory(open_), in_the_file(open_)):
        assert told in text
        assert later in text
    for text in (told_of_memory(asked), in_the_file(asked)):
        assert "assumed" not in text
    assert main(["windows", "--machine", str(MACHINES / "windows-rtx4070"), "--dry-run", "--out", "/tmp/none"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert told in shown


def test_a_size_of_the_users_own_does_not_hide_what_was_assumed(session: Session) -> None:
    half = windows_half(session.forget("model").answer("wsl_memory_gib", 20), FOLDER)
    assert "is assumed" in in_the_file(half)
    memory = half.advice.setting("wsl2.memory")
    assert memory is not None
    assert (memory.value, half.changes["wsl2.memory"]) == ("20GB", "20GB")
    assert "chosen by you" in memory.reason


def test_where_no_memory_is_kept_for_a_model_none_is_said_to_be_assumed(session: Session) -> None:
    machine = replace(session.machine, gpu=replace(session.machine.gpu, gpus=()))
    half = windows_half(with_machine(session.forget("model"), machine), FOLDER)
    memory = half.advice.setting("wsl2.memory")
    assert ("is assumed" in (memory.reason if memory is not None else "")) == (half.model is not None)
