"""``vllm-wizard move`` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models import move_tools as t
from wizard import move_command
from wizard.errors import BadInput, WizardError
from wizard.models.move import Progress, Stage

pytestmark = pytest.mark.skipif(os.name != "posix", reason="models are moved on Linux")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_move_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = t.model_folder(tmp_path / "src")
    assert move_command.run([str(src), str(tmp_path / "dst"), "--yes"]) == 0
    said = capsys.readouterr().out
    assert "every byte read back" in said
    assert f"{src} -> {tmp_path / 'dst'}" in said
    assert "The source is still there" in said
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


@pytest.mark.parametrize("more", [[], ["--json"], ["--delete-source"]])
def test_without_a_terminal_it_begins_only_with_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    src = t.model_folder(tmp_path / "src")
    before = sorted(os.listdir(tmp_path))
    words = [str(src), str(tmp_path / "dst"), *more]
    if "--json" in more:
        assert move_command.run(words) == 2
        assert "--yes" in lines(capsys.readouterr().out)[-1]["message"]
    else:
        with pytest.raises(BadInput, match="--yes"):
            move_command.run(words)
    assert sorted(os.listdir(tmp_path)) == before


def test_yes_is_not_enough_for_a_folder_that_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = tmp_path / "notes"
    src.mkdir()
    (src / "a.txt").write_text("a")
    with pytest.raises(BadInput, match="not moved without asking"):
        move_command.run([str(src), str(tmp_path / "dst"), "--yes"])
    assert not (tmp_path / "dst").exists()
    asked = []
    monkeypatch.setattr(move_command, "_asks", lambda: True)
    monkeypatch.setattr(move_command, "_question", lambda text, default: asked.append((text, default)) or text == "Begin?")  # type: ignore[func-returns-value]
    assert move_command.run([str(src), str(tmp_path / "dst")]) == 0
    assert asked[0] == ("Begin?", False)
    assert (tmp_path / "dst" / "a.txt").exists()


def test_a_long_look_is_shown_with_its_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    src = t.model_folder(tmp_path / "src")
    for number in range(450):
        (src / f"part{number}.txt").touch()
    assert move_command.run([str(src), "--dry-run"]) == 0
    assert "Looking" not in capsys.readouterr().err
    monkeypatch.setattr(move_command._Looking, "INTERVAL_S", 0.0)
    assert move_command.run([str(src), "--dry-run"]) == 0
    assert "400 files and folders" in capsys.readouterr().err


def test_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = t.model_folder(tmp_path / "src")
    wanted = t.snapshot(src)
    words = [str(src), str(tmp_path / "dst"), "--json", "--yes", "--delete-source"]
    assert move_command.run(words) == 0
    said = lines(capsys.readouterr().out)
    events = [x["event"] for x in said]
    assert events[0] == "plan"
    assert events[-2:] == ["result", "deleted"]
    assert set(events[1:-2]) == {"progress"}
    assert said[-2]["state"] == "proven"
    assert said[-2]["moved_paths"] == {str(src): str(tmp_path / "dst")}
    assert said[-1]["deleted_files"] == 5
    assert not src.exists()
    assert t.snapshot(tmp_path / "dst") == wanted


def test_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = t.model_folder(tmp_path / "src")
    before = sorted(os.listdir(tmp_path))
    assert move_command.run([str(src), str(tmp_path / "dst"), "--dry-run"]) == 0
    assert sorted(os.listdir(tmp_path)) == before
    assert "room:" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [True, False])
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    src = t.model_folder(tmp_path / "src")
    words = [str(src), str(src / "x"), "--yes"]
    if as_json:
        assert move_command.run([*words, "--json"]) == 2
        said = lines(capsys.readouterr().out)
        assert said[0]["refusals"][0]["code"] == "into_itself"
        assert said[-1]["event"] == "error"
        assert said[-1]["exit_code"] == 2
    else:
        with pytest.raises(BadInput, match="inside"):
            move_command.run(words)


def test_words_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        move_command.run([])
    with pytest.raises(BadInput):
        move_command.run(["a", "b", "c"])
    with pytest.raises(BadInput):
        move_command.run([str(tmp_path / "none"), "--nonsense"])
    with pytest.raises(WizardError):
        move_command.run([str(tmp_path / "none")])


def test_interrupt_keeps_and_lists_and_discards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = t.model_folder(tmp_path / "src", shards=6, shard_bytes=5 * t.MIB)
    dst = tmp_path / "home" / "models" / "dst"
    code = (
        "import sys, time\nfrom wizard.models import move_io\nreal = move_io.read_at\n"
        "def slow(fd, view, offset):\n    time.sleep(0.05)\n    return real(fd, view, offset)\n"
        "move_io.read_at = slow\nfrom wizard.move_command import run\nsys.exit(run(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(src), str(dst), "--json", "--yes"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        seen = json.loads(line)
        if seen["event"] == "progress" and seen["bytes_done"] > 0:
            break
    process.send_signal(signal.SIGINT)
    rest = lines(process.stdout.read())
    assert process.wait(20) == 130
    assert rest[-1]["event"] == "result"
    assert rest[-1]["state"] == "partial"
    assert move_command.run(["--list", "--json"]) == 0
    pending = json.loads(capsys.readouterr().out)
    assert [p["dst"] for p in pending] == [str(dst)]
    assert pending[0]["bytes_done"] > 0
    assert move_command.run(["--list"]) == 0
    assert "stopped" in capsys.readouterr().out
    with pytest.raises(BadInput, match="--yes"):
        move_command.run(["--discard", str(dst)])
    assert move_command.run(["--discard", str(dst), "--yes"]) == 0
    assert move_command.run(["--discard", str(dst)]) == 1, "nothing to ask about"
    capsys.readouterr()
    assert move_command.run(["--list"]) == 0
    assert "No move" in capsys.readouterr().out
    assert t.snapshot(src)["config.json"][0] == "file"


def test_on_a_terminal_it_asks_and_draws_a_bar(tmp_path: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    src = t.model_folder(tmp_path / "src")
    wanted = t.snapshot(src)
    terminal = pexpect.spawn(
        sys.executable, ["-m", "wizard", "move", str(src), str(tmp_path / "dst")], cwd=str(ROOT), encoding="utf-8"
    )
    terminal.expect(r"Begin\?", timeout=20)
    terminal.sendline("")
    terminal.expect(r"\[#+\]  100 %", timeout=20)
    terminal.expect("Delete the source", timeout=20)
    terminal.sendline("")
    terminal.expect(pexpect.EOF, timeout=20)
    terminal.close()
    assert terminal.exitstatus == 0
    assert src.exists(), "Enter alone never deletes"
    assert t.snapshot(tmp_path / "dst") == wanted


def test_a_recorded_machine(capsys: pytest.CaptureFixture[str]) -> None:
    folder = ROOT / "tests" / "machines" / "wsl2-rtx3060-model-on-d"
    if not folder.is_dir():
        pytest.skip("that machine is not recorded")
    begin = time.monotonic()
    words = ["/mnt/d/models/Qwen3-VL-8B-Instruct", "--machine", str(folder), "--json", "--yes"]
    assert move_command.run(words) == 0
    assert time.monotonic() - begin < 15
    said = lines(capsys.readouterr().out)
    assert said[0]["simulated"] is True
    assert said[-1]["simulated"] is True
    assert said[-1]["dst"] == "/home/user/models/Qwen3-VL-8B-Instruct"


def test_the_bar_fits_its_line() -> None:
    for columns in (10, 40, 80, 200):
        for done in (0, 1, 10**9, 10**11):
            progress = Progress(done, 10**11, 1, 8, 2.5e8, 7200.0, Stage.COPY, "model.safetensors", 3.0)
            assert len(move_command.bar_line(progress, columns)) <= columns
    assert "100 %" in move_command.bar_line(Progress(0, 0, 3, 3, None, 0.0, Stage.DONE), 80)


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (59.6, "1 min 00 s"), (75, "1 min 15 s"), (3725, "1 h 02 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert move_command.duration(seconds) == said


def test_the_same_move_again_says_when_it_was_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    src = t.model_folder(tmp_path / "src")
    words = [str(src), str(tmp_path / "dst"), "--yes"]
    assert move_command.run(words) == 0
    capsys.readouterr()
    assert move_command.run(words) == 0
    said = capsys.readouterr().out
    assert "read back" not in said
    assert f"verified on {time.strftime('%Y-')}" in said
