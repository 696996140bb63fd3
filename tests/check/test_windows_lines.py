"""Lines that go on as cmd and PowerShell write it: joined, judged, repaired with their own marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.check.commands import check_text

IMAGE = "vllm/vllm-openai:v0.33.0"
SHELLS = [("start.bat", "^"), ("start.cmd", "^"), ("start.ps1", "`"), ("note.txt", "^"), ("note.txt", "`")]


def lines(mark: str, end: str, *parts: str) -> str:
    return f" {mark}{end}".join(parts) + end


@pytest.mark.parametrize("end", ["\r\n", "\n"])
@pytest.mark.parametrize(("name", "mark"), SHELLS)
@pytest.mark.parametrize(
    ("given", "repaired"),
    [
        ((f"docker run --gpus all {IMAGE}", "  --model Qwen/Qwen3-8B", "  --swap-space 4"), (f"docker run --gpus all {IMAGE}", "  Qwen/Qwen3-8B")),
        (("docker run --gpus all", f"  {IMAGE}", "  Qwen/Qwen3-8B", "  --swap-space 4", "  --port 80"), ("docker run --gpus all", f"  {IMAGE}", "  Qwen/Qwen3-8B", "  --port 80")),
        (("wsl -e vllm serve Qwen/Qwen3-8B", "  --swap-space 4", "  --port 80"), ("wsl -e vllm serve Qwen/Qwen3-8B", "  --port 80")),
        (("vllm serve Qwen/Qwen3-8B", "  --port 80", "  --tool-call-parser hermes"), ("vllm serve Qwen/Qwen3-8B", "  --port 80", "  --tool-call-parser hermes", "  --enable-auto-tool-choice")),
    ],
)
def test_lines_that_go_on_are_joined_and_repaired_in_place(name: str, mark: str, end: str, given: tuple[str, ...], repaired: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(lines(mark, end, *given).encode())
    main(["check", "--release", "0.33.0", "--write", str(path)])
    capsys.readouterr()
    assert path.read_bytes() == lines(mark, end, *repaired).encode()
    assert main(["check", "--release", "0.33.0", str(path)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(("name", "mark"), SHELLS[:3])
def test_a_blank_behind_the_mark_ends_the_command(name: str, mark: str) -> None:
    text = f"@rem vllm serve old --swap-space 4\r\nvllm serve Qwen/Qwen3-8B {mark} \r\n  --port 80\r\n" if name.endswith("t") else f"vllm serve Qwen/Qwen3-8B {mark} \r\n  --port 80\r\n"
    report = check_text(text, name, "0.33.0")
    assert [p.flag for p in report.problems] == [mark]
    assert report.repaired == text.replace(mark + " ", mark)


def test_a_mark_that_touches_its_word() -> None:
    assert check_text("vllm serve Qwen/Qwen3-8B --port 8000^\r\n --seed 1\r\n", "a.bat").verdicts[0].argv == ["Qwen/Qwen3-8B", "--port", "8000", "--seed", "1"]


PRINTED = "vllm serve X --swap-space 9"


@pytest.mark.parametrize(
    "line",
    [
        'echo "run: {c}"', "echo run: {c}", "printf '%s\\n' \"{c}\"", 'echo "now: {c}" >&2', "cd x && echo '{c}'", 'echo "{c}" | tee -a x.log',
        'if true; then echo "{c}"; fi', 'echo "first\n{c}"', 'echo "{c}" >> "$LOG_FILE"',
    ],
)
def test_what_is_only_printed_is_no_command(line: str) -> None:
    report = check_text(f"#!/bin/bash\n{line.format(c=PRINTED)}\nvllm serve Qwen/Qwen3-8B --port 80\n", "start.sh")
    assert [v.argv[0] for v in report.verdicts] == ["Qwen/Qwen3-8B"]
    assert report.problems == []


@pytest.mark.parametrize("line", ['echo "{c}" > run.sh', 'echo "{c}" | bash', "echo start; {c}", "echo start && {c}", "echo start\n{c}", "echo start & {c}"])
def test_what_is_printed_into_a_shell_or_a_script_is_one(line: str) -> None:
    report = check_text(f"#!/bin/bash\n{line.format(c=PRINTED)}\n", "start.sh")
    assert "--swap-space" in {p.flag for p in report.problems}


def test_a_bat_file_that_prints_a_command() -> None:
    report = check_text(f"@echo off\r\necho {PRINTED}\r\nvllm serve Qwen/Qwen3-8B\r\n", "a.bat")
    assert report.problems == []
