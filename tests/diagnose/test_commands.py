"""``vllm-wizard diagnose``: exit codes, outputs, and what it looks up on the machine."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.diagnose import commands
from wizard.diagnose.engine import diagnose
from wizard.diagnose.machine import look
from wizard.diagnose.reader import read_bytes
from wizard.errors import BadInput

ROOT = Path(__file__).resolve().parents[2]
LOG = "(APIServer pid=1) INFO 11-05 03:10:00 [api_server.py:1] vLLM API server version 0.22.1\nValueError: LoRA rank 64 is greater than max_lora_rank 16.\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "vllm.log"
    path.write_text(LOG)
    return path


def test_text_and_exit_code(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(log)]) == 0
    out = capsys.readouterr().out
    assert "vLLM 0.22.1" in out
    assert "Line 2:" in out
    assert "--max-lora-rank 64" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json", "diagnose", str(log)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["release"] == "0.22.1"
    assert data["findings"][0]["cause"] == "lora_rank_too_high"
    assert data["findings"][0]["fixes"][0]["flags"] == {"--max-lora-rank": "64"}


def test_a_healthy_log_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ok.log"
    path.write_text("INFO:     Application startup complete.\n")
    assert main(["diagnose", str(path)]) == 0
    assert "No failure found." in capsys.readouterr().out
    path.write_text("")
    assert main(["diagnose", str(path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["diagnose", "-", "--json"], ["diagnose", "--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(LOG.encode())))
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["findings"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["/nowhere/x.log"], "/nowhere/x.log"),
        ([str(ROOT)], "folder"),
        (["a", "b"], "b"),
        (["--frobnicate"], "--frobnicate"),
        (["--release"], "--release"),
        (["x.log", "--release", "newish"], "newish"),
        (["a\0b"], "name"),
    ],
)
def test_bad_input_is_named(words: list[str], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        commands.run(words)
    assert main(["diagnose", *words]) == 2


def test_a_release_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text("vllm: error: unrecognized arguments: --disable-log-requests\n")
    assert main(["diagnose", str(path), "--release=v0.20.0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["cause"] == "flag_removed"


def test_nothing_of_a_log_is_obeyed_by_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text("ValueError: \x1b]0;owned\x07\x1b[2J LoRA rank 64 is greater than max_lora_rank 16.\n")
    assert main(["diagnose", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_report_names_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "HF_TOKEN=hf_abcdefghijklmnop123\nvllm serve /home/somebody/m\nTraceback (most recent call last):\n"
        '  File "/home/somebody/x.py", line 1, in f\n    go()\nRuntimeError: the frobnicator is odd\n'
    )
    assert main(["diagnose", str(path), "--report"]) == 0
    out = capsys.readouterr().out
    assert "frobnicator" in out
    assert "hf_abc" not in out
    assert "somebody" not in out
    assert main(["diagnose", str(path), "--json"]) == 0
    assert "frobnicator" in json.loads(capsys.readouterr().out)["report"]


class _Machine:
    """A host that answers by program; only what is asked here."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def run(self, argv: tuple[str, ...], timeout_s: float = 5.0) -> object:
        from wizard.host import CommandResult

        key = " ".join(argv[:2]) if argv[0] == "docker" else argv[0]
        text = self.answers.get(key)
        return CommandResult(tuple(argv), 127 if text is None else 0, (text or "").encode())

    def memory(self) -> object:
        from wizard.host import MemoryReading

        return MemoryReading(16 << 30, 1 << 30, 0, 0)


VANISHED = b"INFO 11-05 03:12:46 [core.py:99] Initializing a V1 LLM engine (v0.32.0)\nRuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"


def test_the_kernel_log_confirms_a_guess() -> None:
    found = diagnose(read_bytes(VANISHED))
    look(_Machine({"dmesg": "[1.0] Out of memory: Killed process 7 (VLLM::EngineCor) total-vm:1kB\n"}), found)  # type: ignore[arg-type]
    assert found.findings[0].confidence == "medium"
    assert any("Killed process 7" in e for e in found.findings[0].evidence)


def test_docker_confirms_a_guess() -> None:
    found = diagnose(read_bytes(VANISHED))
    answers = {"dmesg": "nothing here\n", "docker ps": '{"Image": "vllm/vllm-openai", "Names": "llm"}\nrubbish\n', "docker inspect": "true 137 8589934592\n"}
    look(_Machine(answers), found)  # type: ignore[arg-type]
    assert found.findings[0].confidence == "high"


def test_a_line_that_only_says_that_it_failed_is_no_sign_of_a_kill_but_the_kernel_may_know() -> None:
    line = b"RuntimeError: Engine core initialization failed. See root cause above.\n"
    found = diagnose(read_bytes(line))
    assert (found.findings[0].cause, found.findings[0].line_number) == ("unknown", 1)
    assert "not in this text" in found.findings[0].title
    look(_Machine({"dmesg": "[1.0] Out of memory: Killed process 7 (VLLM::EngineCor) total-vm:1kB\n"}), found)  # type: ignore[arg-type]
    assert any("Killed process 7" in e for e in found.findings[0].evidence)


def test_a_machine_that_answers_nothing_changes_nothing() -> None:
    found = diagnose(read_bytes(VANISHED))
    look(_Machine({}), found)  # type: ignore[arg-type]
    assert found.findings[0].confidence == "low"


def test_a_recorded_machine_tells_that_it_is_wsl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.log"
    path.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 44.00 MiB.\n")
    assert main(["diagnose", str(path), "--json", "--machine", str(ROOT / "tests/machines/wsl2-2x-rtx3090")]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["cause"] == "host_ram_starvation_wsl"


def test_an_article_s_made_up_options_are_named_beside_its_log() -> None:
    article = b"Received signal=SIGTERM\nDo this:\n\nvllm serve ~/m \\\n  --max-model-len 4096 \\\n  --single-process \\\n  --disable_uvloop\n"
    log = b"(APIServer pid=1) ERROR x\nRuntimeError: UVA is not available\n" + article
    look_at = " ".join(diagnose(read_bytes(log)).findings[0].look)
    assert "--single-process, --disable-uvloop" in look_at
    assert "--max-model-len" not in look_at
    assert not any("options that no vLLM release has" in text for text in diagnose(read_bytes(b"RuntimeError: UVA is not available\n")).findings[0].look)
