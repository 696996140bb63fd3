"""What is printed to be typed runs the program that printed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wizard import options, program

BARE = ("vllm-wizard",)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The real look at how the program was started."""
    monkeypatch.setattr(program, "words", program._look)
    return monkeypatch


def script(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "vllm-wizard"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_on_the_path_the_name_is_enough(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = script(tmp_path / "bin")
    fresh.setattr(sys, "argv", [str(mine)])
    fresh.setenv("PATH", str(mine.parent))
    assert program.words() == BARE
    assert program.spelt("“vllm-wizard undo” takes it back.") == "“vllm-wizard undo” takes it back."


def test_a_link_on_the_path_is_the_same_program(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = script(tmp_path / "tool" / "bin")
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "vllm-wizard").symlink_to(mine)
    fresh.setattr(sys, "argv", [str(tmp_path / "local" / "vllm-wizard")])
    fresh.setenv("PATH", str(tmp_path / "local"))
    assert program.words() == BARE


@pytest.mark.parametrize("other", [False, True])
def test_elsewhere_it_is_the_path(fresh: pytest.MonkeyPatch, tmp_path: Path, other: bool) -> None:
    mine = script(tmp_path / "my venv" / "bin")
    fresh.setattr(sys, "argv", [str(mine)])
    fresh.setenv("PATH", str(script(tmp_path / "usr").parent) if other else str(tmp_path))
    assert program.words() == (str(mine),)
    assert program.spelt("Take it back with: vllm-wizard undo") == f"Take it back with: '{mine}' undo"
    assert program.spelt("vllm-wizard goes on from them; vllm-wizard: no") == "vllm-wizard goes on from them; vllm-wizard: no"
    assert program.spelt("~/.vllm-wizard/bin/vllm-wizard plan") == "~/.vllm-wizard/bin/vllm-wizard plan"
    assert program.words_on("this machine") == (str(mine),)
    assert program.words_on("wsl2-rtx4090-desktop") == BARE


def test_started_as_a_module(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fresh.setattr(sys, "argv", [str(tmp_path / "wizard" / "__main__.py")])
    fresh.setenv("PATH", str(tmp_path))
    fresh.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert program.words() == (str(tmp_path / "bin" / "python"), "-m", "wizard")
    mine = script(tmp_path / "bin")
    assert program.words() == (str(mine),)


def test_powershell_calls_a_path_with_a_blank() -> None:
    assert program._for_powershell(("C:\\x\\vllm-wizard.exe",)) == "C:\\x\\vllm-wizard.exe"
    assert program._for_powershell(("C:\\my x\\python.exe", "-m", "wizard")) == "& 'C:\\my x\\python.exe' -m wizard"


def test_every_command_is_known_as_one() -> None:
    assert set(program.COMMANDS) >= {name for name, _help, _where in options.COMMANDS}
    for name in program.COMMANDS:
        assert program.typed().search(f"run vllm-wizard {name} now")
    assert program.typed().search("or vllm-wizard --plain to be asked")
    assert program.typed().search("可用vllm-wizard undo撤销")


def test_what_is_printed_after_a_write_can_be_typed(tmp_path: Path) -> None:
    """The real program, not on the PATH: its last lines name a file that exists and runs."""
    environment = {**os.environ, "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path / "s"), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    root = Path(__file__).resolve().parents[1]
    machine = str(root / "tests" / "machines" / "wsl2-rtx4090-desktop")
    arguments = ["-m", "wizard", "generate", "--yes", "--machine", machine, "--out", str(tmp_path / "out")]
    ran = subprocess.run([sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=True)
    line = next(row for row in ran.stdout.splitlines() if row.startswith("Take it back with: "))
    command = line.partition(": ")[2]
    undone = subprocess.run(["/bin/sh", "-c", command + " --list"], cwd=root, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert undone.returncode == 0, undone.stderr
    assert str(tmp_path / "out") in undone.stdout


def test_what_the_program_keeps_goes_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard import apply
    from wizard.launch import record

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert program.state_folder() == tmp_path / "xdg" / "vllm-wizard"
    monkeypatch.setenv("VLLM_WIZARD_STATE_DIR", str(tmp_path / "own"))
    assert program.state_folder() == tmp_path / "own"
    assert apply.state_folder() == tmp_path / "own" / "writes"
    assert record.state_folder() == tmp_path / "own" / "servers"


def test_a_sentence_leaves_a_name_as_it_is_written() -> None:
    from wizard.i18n import sentence

    for name in ("vllm/vllm-openai:v0.33.0", "max_num_seqs", "--tp", "fp8", "vllm", "vLLM", "ghcr.io/x:1"):
        assert sentence(f"{name} has no kernels") == f"{name} has no kernels."
    assert sentence("note: this") == "Note: this."
    assert sentence("one server") == "One server."
