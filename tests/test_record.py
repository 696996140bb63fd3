"""Recording: what is written answers as the machine did, and nothing private is in it."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.errors import BadInput, WizardError
from wizard.host import CommandResult, FakeHost, Host, RealHost
from wizard.probes import report, run_all
from wizard.probes.problems import find_problems
from wizard.record import record
from wizard.scrub import Scrubber, is_secret

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="plants files under POSIX names")

TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrSt"
SECRETS = {
    "HF_TOKEN": TOKEN,
    "MY_API_KEY": "correct-horse-battery",
    "DB_PASSWORD": "p4ssw0rd!x",
    "GH": "ghp_0123456789abcdefghijABCDEFGHIJ",
}


class Planted(RealHost):
    """This machine with a user of its own, and secrets in every place where one could turn up."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = str(home)
        self.env = {
            "HOME": self.home,
            "USER": "marvin",
            "HOSTNAME": "zaphod-pc",
            "PATH": f"{self.home}/bin:/usr/bin",
            **SECRETS,
        }
        self.env["DOCKER_HOST"] = "tcp://marvin:s3cr3tpw@10.0.0.9:2375"

    def run(self, argv: Any, timeout_s: float = 5.0, cwd: Any = None, env: Any = None) -> CommandResult:
        text = (
            f"user marvin on zaphod-pc, home {self.home}/x, token {TOKEN}, key correct-horse-battery\n"
            "Serial Number: 1650821000123 UUID GPU-5f1e6c1a-0b7e-4c3d-9a55-0123456789ab mac 3c:52:82:aa:bb:cc\n"
            "proxy http://marvin:p4ssw0rd!x@proxy.corp:3128 address 93.184.216.34 local 192.168.1.4\n"
            "OPENAI_API_KEY=sk-abcdefgh12345678 Authorization: Bearer abcdefghijklmnop1234\n"
        )
        return CommandResult(tuple(argv), 0, text.encode(), b"/home/marvin/y C:\\Users\\marvin\\z\n")


def explore(host: Host) -> None:
    home = host.home
    for name in ("models/llama/config.json", "models/llama/model.safetensors", "link/config.json"):
        host.read_bytes(f"{home}/{name}", 64 if name.endswith(".safetensors") else None)
    for folder in (home, f"{home}/models", f"{home}/models/llama"):
        host.list_dir(folder)
    host.stat(f"{home}/models/llama/model.safetensors")
    host.exists(f"{home}/.venv")
    host.which("sh")
    host.run(["nvidia-smi", f"{home}/x"])
    host.disk_usage("/")
    for path in (f"{home}/none", "/"):
        with pytest.raises(OSError):
            host.read_bytes(path)


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Path, Planted]:
    home = tmp_path / "home" / "marvin"
    model = home / "models" / "llama"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps({"path": str(home), "hf_token": TOKEN, "hidden_size": 8}))
    header = json.dumps({"__metadata__": {"made_by": TOKEN}}).encode()
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"\xff" * 5000)
    (home / ".venv").mkdir()
    (home / "tax-return-2024.pdf").write_text("private")
    (home / "models" / "diary").mkdir()
    (home / "link").symlink_to("models/llama")
    return tmp_path / "out", Planted(home)


def everything(folder: Path) -> str:
    texts = []
    for path in sorted(folder.rglob("*")):
        texts.append(str(path.relative_to(folder)))
        if path.is_file():
            texts.append(path.read_bytes().decode("latin-1"))
    return "\n".join(texts)


def test_nothing_private_is_written(planted: tuple[Path, Planted]) -> None:
    out, host = planted
    made = record(out, host, explore)
    text = everything(out)
    for secret in (*SECRETS.values(), "s3cr3tpw", "abcdefghijklmnop1234", "sk-abcdefgh12345678"):
        assert secret not in text
    for private in (
        "marvin",
        "zaphod",
        "tax-return",
        "diary",
        "1650821000123",
        "5f1e6c1a",
        "3c:52:82",
        "93.184.216.34",
    ):
        assert private not in text
    assert "192.168.1.4" in text
    assert made.left_out >= 2
    env = json.loads((out / "host.json").read_text())["env"]
    assert set(env) == {"HOME", "PATH", "DOCKER_HOST"}


def test_what_is_written_answers_as_the_machine_did(planted: tuple[Path, Planted]) -> None:
    out, host = planted
    record(out, host, explore)
    again = FakeHost(out)
    home = again.home
    assert json.loads(again.read_text(f"{home}/models/llama/config.json"))["hidden_size"] == 8
    assert again.read_bytes(f"{home}/link/config.json", 10) == again.read_bytes(
        f"{home}/models/llama/config.json", 10
    )
    real, copy = (h.stat(f"{h.home}/models/llama/model.safetensors") for h in (host, again))
    assert copy.size_bytes == real.size_bytes
    # Lengths inside a binary file stay true: the token is replaced by as many letters.
    head = again.read_bytes(f"{home}/models/llama/model.safetensors", 64)
    assert len(head) == 64
    assert int.from_bytes(head[:8], "little") == real.size_bytes - 8 - 5000
    assert again.exists(f"{home}/.venv")
    assert [e.name for e in again.list_dir(f"{home}/models")] == ["llama"]
    assert again.run(["nvidia-smi", f"{home}/x"]).ok
    assert again.disk_usage("/").total_bytes == host.disk_usage("/").total_bytes


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(BadInput, match="not empty"):
        record(tmp_path, explore=lambda _host: None)
    with pytest.raises(BadInput):
        record(tmp_path / "mine", explore=lambda _host: None)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs /proc")
def test_a_folder_that_cannot_be_written_is_said() -> None:
    with pytest.raises(WizardError, match="cannot be written"):
        record("/proc/no/such/place", explore=lambda _host: None)


def test_time_outs_are_recorded_as_hanging(tmp_path: Path) -> None:
    class Hanging(RealHost):
        def run(self, argv: Any, timeout_s: float = 5.0, cwd: Any = None, env: Any = None) -> CommandResult:
            return CommandResult(tuple(argv), 124, b"half", b"", timeout_s, timed_out=True)

        def nvml(self) -> Any:
            raise TimeoutError("no answer")

    def ask(host: Host) -> None:
        host.run(["nvidia-smi"])
        with pytest.raises(TimeoutError):
            host.nvml()

    record(tmp_path / "x", Hanging(), ask)
    again = FakeHost(tmp_path / "x")
    assert again.run(["nvidia-smi"], 5).timed_out
    with pytest.raises(TimeoutError):
        again.nvml()


# ---- scrubbing -------------------------------------------------------------------------------------------


def test_the_same_thing_gets_the_same_stand_in() -> None:
    scrubber = Scrubber("/home/ann", host_names=["box42"])
    scrubber.person("Zoë Ω")
    text = scrubber.text(
        "/home/ann/x /home/bob/y C:\\Users\\Zoë Ω\\z /mnt/c/Users/zoë ω C:\\Users\\Public box42.local ANN"
    )
    assert text == (
        "/home/user/x /home/user3/y C:\\Users\\user2\\z /mnt/c/Users/user2 C:\\Users\\Public host.local user"
    )
    one, two = (scrubber.text(f"GPU-{c * 8}-1111-2222-3333-444444444444") for c in "ab")
    assert one != two
    assert one == scrubber.text(f"GPU-{'a' * 8}-1111-2222-3333-444444444444")


def test_harmless_texts_stay() -> None:
    scrubber = Scrubber(
        "/root", ["root"], ["docker", "localhost"], {"HF_TOKEN_PATH": "/home/x/token", "USE_KEY": "true"}
    )
    for text in (
        "docker info said root at /var/lib/docker",
        "WSL version: 2.6.1.0, DXCore 10.0.26100.1-240331-1435.ge-release, kernel 6.6.87.2-1",
        "driver 580.95.05, 127.0.0.1:8000, 172.17.0.1",
        "GPU 00000000:01:00.0 Off",
        "max_token: 4096, eos_token: true, token_type_ids",
        "vllm/vllm-openai:v0.33.0",
        "Serial Number: N/A",
        "/home/user/models and C:\\Users\\user",
    ):
        assert scrubber.text(text) == text


@given(
    st.text(max_size=80),
    st.sampled_from(
        [
            "hf_abcdefgh12345678",
            "sk-proj-abcdefgh1234",
            "nvapi-0123456789abcdefghij",
            "github_pat_11ABCDEFG0123456789_abc",
        ]
    ),
)
def test_tokens_never_survive(around: str, token: str) -> None:
    scrubber = Scrubber("/home/ann")
    assert token not in scrubber.text(f"{around} {token} {around}")
    assert token.encode() not in scrubber.data(f"{around} {token}".encode())
    assert len(scrubber.data(token.encode())) == len(token)


@given(st.text(max_size=200))
def test_scrubbing_twice_changes_nothing_more(text: str) -> None:
    scrubber = Scrubber("/home/ann", ["ann"], ["box42"], {"X_TOKEN": "correct-horse"})
    once = scrubber.text(text)
    assert scrubber.text(once) == once


def test_values_that_are_no_secrets() -> None:
    assert is_secret("correct-horse")
    for value in ("", "short", "/home/x/token", "123456789"):
        assert not is_secret(value)


# ---- the summary -----------------------------------------------------------------------------------------


def test_the_summary_holds_no_names(tmp_path: Path) -> None:
    source = Path(__file__).parent / "machines" / "wsl2-rtx5070-laptop-old-driver"
    text = report.text(run_all(FakeHost(source)))
    assert "Jürgen" not in text
    assert "NVIDIA GeForce RTX 5070 Laptop GPU" in text
    assert "driver_too_old" in text
    assert "Start-Process https://www.nvidia.com/drivers" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_summary_holds_no_names_of_other_computers() -> None:
    machine = run_all(FakeHost(Path(__file__).parent / "machines" / "native-rtx5090"))
    remote = dataclasses.replace(machine.docker, remote="ssh://zaphod.example")
    problems = find_problems(dataclasses.replace(machine, docker=remote))
    text = report.text(dataclasses.replace(machine, docker=remote, problems=problems))
    assert "docker_remote" in text
    assert "zaphod" not in text


def test_alike_gpus_and_many_disks_take_few_lines() -> None:
    machine = run_all(FakeHost(Path(__file__).parent / "machines" / "native-4x-h200"))
    lines = report.summary_lines(machine)
    assert sum("NVIDIA H200" in line for line in lines) == 1
    assert any("0-3: NVIDIA H200" in line for line in lines)
    disk = next(m for m in machine.mounts if m.path == "/data")
    many = tuple(dataclasses.replace(disk, path=f"/data{n}") for n in range(20))
    lines = report.summary_lines(dataclasses.replace(machine, mounts=many))
    assert sum(line.startswith("Disk:") for line in lines) == 6, lines
    assert any("and 15 more" in line for line in lines)


@pytest.mark.parametrize(
    "name", sorted(p.name for p in (Path(__file__).parent / "machines").iterdir() if p.is_dir())
)
def test_every_machine_has_a_summary(name: str) -> None:
    lines = report.summary_lines(run_all(FakeHost(Path(__file__).parent / "machines" / name)))
    labels = [line.split(":")[0] for line in lines]
    for label in ("Machine", "System", "GPU", "Processor", "Memory", "Docker", "Python", "vLLM", "Disk"):
        assert label in labels


def test_the_summary_is_wrapped_but_for_commands() -> None:
    from wizard.columns import width

    for name in ("wsl2-rtx5070-laptop-old-driver", "windows-rtx4070", "wsl2-rtx3060-model-on-d"):
        machine = run_all(FakeHost(Path(__file__).parent / "machines" / name))
        commands = {command for problem in machine.problems for command in problem.commands}
        for line in report.text(machine, 60).splitlines():
            assert width(line) <= 60 or line.strip() in commands or " " not in line.strip(), line


def test_ntfs_is_slow_only_from_wsl() -> None:
    assert "Windows drive (ntfs)" in report.text(run_all(FakeHost(Path(__file__).parent / "machines" / "windows-rtx4070")))
    assert "Windows drive, slow" in report.text(run_all(FakeHost(Path(__file__).parent / "machines" / "wsl2-rtx3060-model-on-d")))
