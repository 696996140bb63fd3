"""The hosts: programs that hang, crash or flood, and recorded machines that are whole, odd or broken."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.errors import BadInput
from wizard.host import (
    MAX_OUTPUT_BYTES,
    NOT_EXECUTABLE,
    NOT_FOUND,
    TIMED_OUT,
    CommandResult,
    FakeHost,
    RealHost,
    decode_output,
    open_host,
)
from wizard.nvml_query import query

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


# ---- this machine ----------------------------------------------------------------------------------------


def test_a_program_that_answers() -> None:
    result = RealHost().run(
        python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), 20
    )
    assert (result.returncode, result.text, result.error_text) == (3, "out\n", "err\n")
    assert not result.timed_out
    assert not result.ok


def test_a_program_that_is_not_there() -> None:
    assert RealHost().run(["no-such-program-anywhere"]).returncode == NOT_FOUND
    assert RealHost().run([]).returncode == NOT_FOUND


@posix
def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    (tmp_path / "wrong").write_bytes(b"\x7fELF rubbish")
    (tmp_path / "wrong").chmod(0o755)
    for argv in ([str(tmp_path / "text")], [str(tmp_path / "wrong")], ["a\0b"]):
        result = RealHost().run(argv)
        assert result.returncode == NOT_EXECUTABLE
        assert result.error_text


@posix
def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    script = f"sleep 60 & echo $! >> {shlex.quote(str(note))}; echo $$ >> {shlex.quote(str(note))}; echo before; wait"
    started = time.monotonic()
    result = RealHost().run(["sh", "-c", script], 0.6)
    assert time.monotonic() - started < 5
    assert (result.timed_out, result.returncode, result.text) == (True, TIMED_OUT, "before\n")
    for pid in note.read_text().split():
        assert not _alive(int(pid))


def _alive(pid: int) -> bool:
    for _try in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state in "ZX":
            return False
        time.sleep(0.05)
    return True


@posix
def test_a_program_that_ignores_gentle_signals_is_killed_too() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    started = time.monotonic()
    assert RealHost().run(python(code), 0.5).timed_out
    assert time.monotonic() - started < 5


@posix
def test_a_child_that_lives_on_does_not_hold_the_answer_up() -> None:
    started = time.monotonic()
    result = RealHost().run(["sh", "-c", "(sleep 3; true) & echo done"], 20)
    assert time.monotonic() - started < 2.5
    assert (result.returncode, result.text) == (0, "done\n")


@posix
def test_a_flood_is_cut_off() -> None:
    result = RealHost().run(["sh", "-c", "exec yes"], 0.7)
    assert result.timed_out
    assert 0 < len(result.stdout) <= MAX_OUTPUT_BYTES


def test_environment_folder_and_closed_input(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['PLANTED'], os.getcwd() == sys.argv[1], repr(sys.stdin.read()))"
    host = RealHost()
    result = host.run(
        [*python(code), os.path.realpath(tmp_path)], 20, cwd=str(tmp_path), env={"PLANTED": "x y"}
    )
    assert result.text.split("\n")[0] == "x y True ''"
    assert "PLANTED" not in host.env


def test_files_of_this_machine(tmp_path: Path) -> None:
    host = RealHost()
    (tmp_path / "a").write_bytes(b"\xff\xfeabc")
    (tmp_path / "sub").mkdir()
    assert host.read_bytes(str(tmp_path / "a"), 3) == b"\xff\xfea"
    assert "abc" in host.read_text(str(tmp_path / "a"))
    assert [(e.name, e.is_dir, e.is_file) for e in host.list_dir(str(tmp_path))] == [
        ("a", False, True),
        ("sub", True, False),
    ]
    assert host.stat(str(tmp_path / "a")).size_bytes == 5
    assert host.exists(str(tmp_path / "a"))
    assert not host.exists(str(tmp_path / "a\0b"))
    with pytest.raises(OSError):
        host.read_bytes(str(tmp_path / "b"))


@posix
def test_links_of_this_machine(tmp_path: Path) -> None:
    host = RealHost()
    (tmp_path / "to").symlink_to("nowhere")
    (entry,) = host.list_dir(str(tmp_path))
    assert (entry.is_symlink, entry.is_dir, entry.is_file) == (True, False, False)
    assert host.readlink(str(tmp_path / "to")) == "nowhere"
    assert host.stat(str(tmp_path / "to"), follow_symlinks=False).is_symlink
    assert not host.exists(str(tmp_path / "to"))


def test_figures_of_this_machine(tmp_path: Path) -> None:
    host = RealHost()
    ram = host.memory()
    assert 0 < ram.available_bytes <= ram.total_bytes
    assert host.cpu_count() >= 1
    assert host.disk_usage(str(tmp_path)).total_bytes > 0
    assert all(0 < p < 65536 for p in host.listening_ports())


def test_a_listening_port_is_seen() -> None:
    import socket

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert server.getsockname()[1] in RealHost().listening_ports()


def test_the_cache_keeps_and_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *a, **k: str(tmp_path / "deep" / "cache"))
    host = RealHost()
    assert host.cache_get("windows-host", 60) is None
    host.cache_put("windows-host", "68 ü")
    assert host.cache_get("windows-host", 60) == "68 ü"
    assert host.cache_get("windows-host", -1) is None
    host.cache_put("../escape", "x")
    assert [p.name for p in (tmp_path / "deep" / "cache").iterdir()] == ["windows-host.txt"]
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *a, **k: "/proc/none")
    host.cache_put("windows-host", "is dropped without a word")


def test_nvml_without_a_library_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    host = RealHost()
    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr(host, "exists", lambda _path: False)
    with pytest.raises(OSError, match="cannot open"):
        host.nvml()


def test_wsls_own_library_is_used_where_the_loader_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    host = RealHost()
    host.env = {"LD_LIBRARY_PATH": "/mine"}
    seen: list[Any] = []

    def run(argv: Any, timeout_s: float = 5.0, cwd: Any = None, env: Any = None) -> CommandResult:
        seen.append(env)
        return CommandResult(tuple(argv), 0, b'{"devices": []}')

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr(host, "exists", lambda path: path == "/usr/lib/wsl/lib/libnvidia-ml.so.1")
    monkeypatch.setattr(host, "run", run)
    assert host.nvml() == {"devices": []}
    assert seen == [{"LD_LIBRARY_PATH": "/usr/lib/wsl/lib:/mine"}]


def test_nvml_is_asked_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that crashes or prints rubbish must not take the wizard along."""
    host = RealHost()
    monkeypatch.setattr("ctypes.CDLL", lambda _name: None)
    seen: list[tuple[str, ...]] = []

    def answer(result: CommandResult) -> Any:
        def run(argv: Any, *_a: Any, **_k: Any) -> CommandResult:
            seen.append(tuple(argv))
            return result

        return run

    monkeypatch.setattr(host, "run", answer(CommandResult((), -11)))
    with pytest.raises(OSError, match="-11"):
        host.nvml()
    monkeypatch.setattr(host, "run", answer(CommandResult((), 0, b"[1, 2]")))
    with pytest.raises(OSError):
        host.nvml()
    monkeypatch.setattr(host, "run", answer(CommandResult((), TIMED_OUT, timed_out=True)))
    with pytest.raises(TimeoutError):
        host.nvml()
    monkeypatch.setattr(host, "run", answer(CommandResult((), 0, b'{"error": "NVML: Driver Not Loaded"}')))
    with pytest.raises(OSError, match="Not Loaded"):
        host.nvml()
    monkeypatch.setattr(host, "run", answer(CommandResult((), 0, b'{"devices": []}')))
    assert host.nvml() == {"devices": []}
    assert all(argv[0] == sys.executable for argv in seen)


def test_the_query_itself_answers_without_a_driver() -> None:
    answer = query()
    assert isinstance(answer.get("error", ""), str)


class FakeNvml:
    """A pynvml whose driver answers some questions only, as under WSL."""

    class NVMLError(Exception):
        pass

    class Memory:
        total, free = 25757220864, 24000000000

    class Process:
        pid, usedGpuMemory = 7, None

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index == 1:
            raise self.NVMLError("fell off the bus")
        return index

    def nvmlDeviceGetName(self, _handle: int) -> bytes:
        return b"NVIDIA GeForce RTX 4090"

    def nvmlDeviceGetMemoryInfo(self, _handle: int) -> Any:
        return self.Memory()

    def nvmlDeviceGetCudaComputeCapability(self, _handle: int) -> tuple[int, int]:
        return (8, 9)

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: int) -> list[Any]:
        return [self.Process()]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "591.86"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13010

    def nvmlDeviceGetNvLinkState(self, _handle: int, link: int) -> int:
        if link > 3:
            raise self.NVMLError("no such link")
        return int(link < 2)


def test_what_nvml_does_not_tell_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())  # type: ignore[arg-type]
    answer = query()
    one, two = answer["devices"]
    assert (answer["driver_version"], answer["cuda_driver_version"]) == ("591.86", "13.1")
    assert (one["name"], one["compute_capability"], one["memory_total"]) == (
        "NVIDIA GeForce RTX 4090",
        "8.9",
        25757220864,
    )
    assert one["uuid"] is None
    assert one["display_active"] is None
    assert one["nvlinks"] == 2
    assert one["processes"] == [{"pid": 7, "name": None, "used": None}]
    assert two == {"index": 1, "name": None}


# ---- outputs ---------------------------------------------------------------------------------------------


@given(
    st.text(
        st.characters(max_codepoint=0x24F, exclude_characters="\r\0", exclude_categories=["Cs"]), min_size=1
    )
)
def test_utf16_of_windows_programs_is_recognised(text: str) -> None:
    assert decode_output(b"\xff\xfe" + text.encode("utf-16-le")) == text
    if all(c.isascii() for c in text):
        assert decode_output(text.encode("utf-16-le")) == text


@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"])))
def test_utf8_stays_utf8(text: str) -> None:
    assert decode_output(text.encode()) == text


@given(st.binary(max_size=300))
def test_any_output_is_readable(raw: bytes) -> None:
    assert isinstance(decode_output(raw), str)


# ---- recorded machines -----------------------------------------------------------------------------------

MEMORY = {"total_bytes": 4, "available_bytes": 3, "swap_total_bytes": 2, "swap_free_bytes": 1}


def folder(
    tmp_path: Path, host: Any = None, commands: Any = (), files: dict[str, bytes] | None = None
) -> Path:
    data = host if isinstance(host, list) else {"memory": MEMORY, **(host or {})}
    (tmp_path / "host.json").write_text(json.dumps(data), "utf-8")
    (tmp_path / "commands.json").write_text(
        json.dumps(list(commands) if isinstance(commands, tuple) else commands), "utf-8"
    )
    for name, content in (files or {}).items():
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_a_file_can_say_it_is_larger_than_its_copy(tmp_path: Path) -> None:
    host = FakeHost(
        folder(
            tmp_path,
            {"entries": {"/m/a.bin": {"size_bytes": 16 * 10**9}, "/m/b.bin": {"size_bytes": 9}}},
            files={"m/a.bin": b"head"},
        )
    )
    assert host.stat("/m/a.bin").size_bytes == 16 * 10**9
    assert host.read_bytes("/m/a.bin") == b"head"
    assert host.read_bytes("/m/a.bin", 2) == b"he"
    assert [e.name for e in host.list_dir("/m")] == ["a.bin", "b.bin"]
    with pytest.raises(OSError, match="not recorded"):
        host.read_bytes("/m/b.bin")


def test_links_lead_where_they_say(tmp_path: Path) -> None:
    entries = {
        "/cache/snap/x.bin": {"link_to": "../blobs/1"},
        "/home/user/m": {"link_to": "/cache/snap"},
        "/loop/a": {"link_to": "b"},
        "/loop/b": {"link_to": "a"},
        "/dead": {"link_to": "gone"},
    }
    host = FakeHost(folder(tmp_path, {"entries": entries}, files={"cache/blobs/1": b"data"}))
    assert host.read_bytes("/home/user/m/x.bin") == b"data"
    assert host.realpath("/home/user/m/x.bin") == "/cache/blobs/1"
    assert host.readlink("/cache/snap/x.bin") == "../blobs/1"
    assert host.stat("/cache/snap/x.bin").is_file
    assert host.stat("/cache/snap/x.bin", follow_symlinks=False).is_symlink
    (entry,) = host.list_dir("/home/user/m")
    assert (entry.path, entry.is_file, entry.is_symlink) == ("/home/user/m/x.bin", True, True)
    assert not host.exists("/dead")
    assert not host.exists("/loop/a")
    assert host.realpath("/loop/a") == "/loop/a"
    with pytest.raises(OSError) as caught:
        host.stat("/loop/a")
    assert caught.value.errno == errno.ELOOP


def test_faults_are_the_systems_own(tmp_path: Path) -> None:
    host = FakeHost(
        folder(tmp_path, {"entries": {"/secret": {"dir": True, "error": "EACCES"}}}, files={"d/f": b""})
    )
    with pytest.raises(PermissionError):
        host.list_dir("/secret")
    with pytest.raises(FileNotFoundError):
        host.read_bytes("/none")
    with pytest.raises(IsADirectoryError):
        host.read_bytes("/d")
    with pytest.raises(NotADirectoryError):
        host.list_dir("/d/f")
    with pytest.raises(OSError):
        host.readlink("/d/f")


def test_commands(tmp_path: Path) -> None:
    commands = (
        {"argv": ["tool", "a"], "stdout": "ü\n", "stderr": "e", "returncode": 3},
        {"argv": ["tool", "w"], "stdout": "C:\\x\r\n", "encoding": "utf-16-le"},
        {"argv": ["tool", "turns"], "stdout": "1"},
        {"argv": ["tool", "turns"], "stdout": "2"},
        {"argv": ["tool", "file"], "stdout_file": "outputs/x"},
        {"argv": ["tool", "raw"], "stdout_base64": "/wA="},
    )
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "x").write_bytes(b"from a file")
    host = FakeHost(folder(tmp_path, {"programs": {"tool": "/opt/tool"}}, commands))
    assert (host.run(["tool", "a"]).returncode, host.run(["tool", "a"]).text) == (3, "ü\n")
    assert host.run(["tool", "w"]).stdout == "C:\\x\r\n".encode("utf-16-le")
    assert host.run(["tool", "w"]).text == "C:\\x\n"
    assert [host.run(["tool", "turns"]).text for _n in range(3)] == ["1", "2", "2"]
    assert host.run(["tool", "file"]).text == "from a file"
    assert host.run(["tool", "raw"]).stdout == b"\xff\0"
    assert host.run(["/opt/tool", "a"]).returncode == 3
    assert host.which("tool") == "/opt/tool"
    assert host.which("other") is None
    assert host.misses == []


def test_a_command_line_that_was_not_recorded_is_a_miss(tmp_path: Path) -> None:
    host = FakeHost(folder(tmp_path, None, ({"argv": ["tool", "a"]},)))
    assert host.run(["tool", "b"]).returncode == NOT_FOUND
    assert host.run(["not-on-that-machine", "b"]).returncode == NOT_FOUND
    assert host.misses == [("tool", "b")]


def test_delays(tmp_path: Path) -> None:
    commands = ({"argv": ["slow"], "stdout": "x", "delay_s": 0.3}, {"argv": ["hangs"], "delay_s": 3600})
    where = folder(tmp_path, None, commands)
    started = time.monotonic()
    quick = FakeHost(where)
    assert quick.run(["slow"]).text == "x"
    hung = quick.run(["hangs"], 2)
    assert (hung.timed_out, hung.returncode, hung.seconds) == (True, TIMED_OUT, 2)
    assert time.monotonic() - started < 0.25
    real = FakeHost(where, delays=True)
    started = time.monotonic()
    assert real.run(["slow"]).text == "x"
    assert real.run(["hangs"], 0.2).timed_out
    assert 0.45 < time.monotonic() - started < 2


def test_nvml_data_or_reason(tmp_path: Path) -> None:
    assert FakeHost(folder(tmp_path, {"nvml": {"devices": []}})).nvml() == {"devices": []}
    with pytest.raises(OSError, match="no driver"):
        FakeHost(folder(tmp_path, {"nvml": "no driver"})).nvml()
    with pytest.raises(OSError, match="libnvidia-ml"):
        FakeHost(folder(tmp_path)).nvml()
    with pytest.raises(TimeoutError):
        FakeHost(folder(tmp_path, {"nvml": {}, "nvml_delay_s": 99})).nvml()


def test_disks_by_longest_prefix(tmp_path: Path) -> None:
    disks = {"/": {"total_bytes": 10, "free_bytes": 1}, "/data": {"total_bytes": 20, "free_bytes": 2}}
    host = FakeHost(folder(tmp_path, {"disks": disks, "entries": {"/link": {"link_to": "/data/x"}}}))
    assert host.disk_usage("/database").free_bytes == 1
    assert host.disk_usage("/data/x").free_bytes == 2
    assert host.disk_usage("/link").free_bytes == 2
    assert host.stat("/data").device != host.stat("/").device if host.exists("/data") else True
    with pytest.raises(FileNotFoundError):
        FakeHost(folder(tmp_path)).disk_usage("/")


def test_windows_paths_know_no_capitals(tmp_path: Path) -> None:
    host = FakeHost(
        folder(
            tmp_path,
            {
                "platform": "win32",
                "entries": {"D:\\": {"dir": True}},
                "disks": {"C:\\": {"total_bytes": 5, "free_bytes": 4}},
            },
            files={"C/Users/user/.wslconfig": b"[wsl2]\r\n"},
        )
    )
    assert host.home == "C:\\Users\\user"
    assert host.read_bytes("c:\\users\\USER\\.WSLCONFIG") == b"[wsl2]\r\n"
    assert host.read_bytes("C:/Users/user/.wslconfig") == b"[wsl2]\r\n"
    assert [e.path for e in host.list_dir("C:\\Users")] == ["C:\\Users\\user"]
    assert host.exists("D:\\")
    assert not host.exists("E:\\")
    assert host.disk_usage("C:\\Users").free_bytes == 4


@pytest.mark.parametrize(
    ("host", "commands", "says"),
    [
        ([], [], "host.json"),
        ({"memory": {}}, [], "memory.total_bytes"),
        ({"memory": {**MEMORY, "total_bytes": "much"}}, [], "memory.total_bytes"),
        ({"platform": 5}, [], "platform"),
        ({"cpu_count": True}, [], "cpu_count"),
        ({"env": {"A": 1}}, [], "env"),
        ({"programs": []}, [], "programs"),
        ({"disks": {"/": {}}}, [], "disks./"),
        ({"disks": {"/": 3}}, [], "disks./"),
        ({"nvml": 3}, [], "nvml"),
        ({"entries": {"/a": 3}}, [], "entries./a"),
        ({"entries": {"/a": {"size_bytes": "x"}}}, [], "entries./a.size_bytes"),
        ({"entries": {"/a": {"error": "OOPS"}}}, [], "entries./a.error"),
        ({}, {}, "commands.json"),
        ({}, ["x"], "entry 0"),
        ({}, [{"argv": []}], "[0].argv"),
        ({}, [{"argv": ["a"]}, {"argv": ["a", 3]}], "[1].argv"),
        ({}, [{"argv": ["a"], "returncode": "0"}], "[0].returncode"),
        ({}, [{"argv": ["a"], "stdout": "x", "encoding": "klingon"}], "[0].stdout"),
        ({}, [{"argv": ["a"], "stdout_base64": "!!"}], "[0].stdout"),
        ({}, [{"argv": ["a"], "stdout_file": "missing"}], "missing"),
        ({}, [{"argv": ["a"], "stdout_file": "../../etc/passwd"}], "[0].stdout_file"),
    ],
)
def test_a_broken_recording_names_file_and_field(tmp_path: Path, host: Any, commands: Any, says: str) -> None:
    with pytest.raises(BadInput) as caught:
        FakeHost(folder(tmp_path, host, commands))
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder"):
        open_host(tmp_path / "none")
    with pytest.raises(BadInput, match=r"host\.json"):
        open_host(tmp_path)
    (tmp_path / "host.json").write_text("{not json")
    with pytest.raises(BadInput, match="JSON"):
        open_host(tmp_path)
    assert isinstance(open_host(), RealHost)
