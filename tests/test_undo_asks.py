"""undo takes back only what the user agreed to, and names it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from wizard import apply
from wizard.__main__ import main
from wizard.errors import BadInput
from wizard.faces import batch
from wizard.outputs.spec import FileSpec


def wrote(*files: Path) -> None:
    for file in files:
        apply.write(apply.prepare([FileSpec(str(file), b"x\n", 0o644)], file.parent))


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two files, each of a write of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = (tmp_path / "one" / "a", tmp_path / "two" / "b")
    wrote(*made)
    return made


def on_terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """A terminal with somebody who types ``answers``; the questions that were asked."""
    left, asked = list(answers), []

    def typed(question: str = "") -> str:
        asked.append(question)
        return left.pop(0)

    monkeypatch.setattr(batch, "_can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", typed)
    return asked


@pytest.mark.parametrize("more", [[], ["--json"], ["--force"]])
def test_more_than_one_write_needs_yes_without_a_terminal(
    two: tuple[Path, Path], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo", "2", *more]) == 2
    assert "--yes" in capsys.readouterr().err
    assert all(f.exists() for f in two)
    assert main(["undo", "2", "--yes", *more]) == 0
    assert not any(f.exists() for f in two)


@pytest.mark.parametrize("more", [[], ["--yes"], ["--json", "--yes"]])
def test_more_writes_than_are_on_record_are_an_error(
    two: tuple[Path, Path], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo", "99", *more]) == 2
    assert "Only 2 writes" in capsys.readouterr().err
    assert all(f.exists() for f in two)
    with pytest.raises(BadInput, match="99"):
        apply.undo(99)


def test_on_a_terminal_more_than_one_is_listed_and_asked_about(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_terminal(monkeypatch, "n", "y")
    assert main(["undo", "2"]) == 1
    out = capsys.readouterr().out
    assert all(str(f) in out for f in two)
    assert all(f.exists() for f in two)
    assert main(["undo", "2"]) == 0
    assert not any(f.exists() for f in two)
    assert len(asked) == 2


def test_the_last_write_is_named_and_only_an_old_one_is_asked_about(
    two: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = on_terminal(monkeypatch, "n")
    assert main(["undo"]) == 0
    assert str(two[1]) in capsys.readouterr().out.partition("removed")[0]
    assert asked == []
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * 24 * 3600)
    assert main(["undo"]) == 1
    assert len(asked) == 1
    assert two[0].exists()
    # A script is never asked about the last write.
    monkeypatch.setattr(batch, "_can_ask", lambda: False)
    assert main(["undo", "--json"]) == 0
    assert [f["path"] for f in json.loads(capsys.readouterr().out.partition("undone.\n")[2])["files"]] == [str(two[0])]


def test_the_help_says_when_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["undo", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "more than one write, or one older than a day" in words
    assert batch.RECENT_S == 24 * 3600


def test_what_was_written_after_the_question_is_not_taken_back(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    third = tmp_path / "three" / "c"

    def slow_yes(_question: str = "") -> str:
        wrote(third)
        return "y"

    monkeypatch.setattr(batch, "_can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", slow_yes)
    assert main(["undo", "2"]) == 1
    assert "meanwhile" in capsys.readouterr().err
    assert all(f.exists() for f in (*two, third))


@pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")
def test_a_dry_run_names_the_link_for_programs_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "poem").write_text("Roses\n")
    (out / "launch.sh").symlink_to("../poem")
    machine = Path(__file__).parent / "machines" / "native-rtx5090"
    assert main(["generate", "--dry-run", "--json", "--machine", str(machine), "--out", str(out)]) == 0
    rows = {Path(f["path"]).name: f["notes"] for f in json.loads(capsys.readouterr().out)["files"]}
    assert str(tmp_path / "poem") in rows["launch.sh"][0]
    assert (tmp_path / "poem").read_text() == "Roses\n"


@pytest.mark.skipif(os.name != "posix", reason="links and modes of POSIX")
def test_a_link_and_a_read_only_file_are_named_before_they_are_written(tmp_path: Path) -> None:
    poem = tmp_path / "poem"
    poem.write_text("Roses\n")
    out = tmp_path / "out"
    out.mkdir()
    (out / "launch.sh").symlink_to("../poem")
    (out / "compose.yaml").write_text("mine\n")
    (out / "compose.yaml").chmod(0o444)
    changes = apply.prepare([FileSpec(n, b"new\n", 0o644) for n in ("launch.sh", "compose.yaml", "vllm.env")], out)
    link, locked, new = (" ".join(c.notes) for c in changes)
    assert "is a link to" in link
    assert str(poem) in link
    assert "0444" in locked
    assert new == ""
    # Nothing is said of what stays as it is.
    apply.write(changes)
    assert [c.notes for c in apply.prepare([c.spec for c in changes], out)] == [(), (), ()]


@pytest.mark.parametrize(("beside", "told"), [(["launch.sh", ".wslconfig"], True), ([".wslconfig"], False), (["launch.sh"], False)])
def test_undo_says_how_windows_gets_its_own_file_back(
    beside: list[str], told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    apply.write(apply.prepare([FileSpec(name, b"x\n") for name in beside], tmp_path / "out"))
    assert main(["undo"]) == 0
    out = capsys.readouterr().out
    assert ("Move-Item -Force -LiteralPath ($f + '.before-vllm') -Destination $f" in out) is told
    assert ("not touched" in out) is told
