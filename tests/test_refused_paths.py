"""A path that the system refuses is told in words with exit code 2, whichever command meets it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from wizard.__main__ import main

LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["check", LONG],
        ["plan", "--machine", LONG],
        ["detect", "--machine", LONG],
        ["launch", LONG],
        ["record", LONG],
        ["diagnose", LONG],
        ["wslconfig", "check", LONG],
    ],
)
def test_a_name_that_is_too_long_is_bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert LONG in err
    assert "should not have happened" not in err


@pytest.mark.parametrize("words", [["launch", "{lock}"], ["move", "{model}", "{lock}/zz", "--yes"]])
def test_a_folder_without_permission_is_bad_input(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock, model = tmp_path / "lock", tmp_path / "m1"
    lock.mkdir()
    model.mkdir()
    (model / "config.json").write_text("{}")

    def closed(name: str) -> None:
        real = getattr(os, name)

        def refuse(path: object, *args: object, **more: object) -> object:
            text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else ""
            if str(text).startswith(f"{lock}/") or (name in ("scandir", "listdir") and str(text) == str(lock)):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(text))
            return real(path, *args, **more)

        monkeypatch.setattr(os, name, refuse)

    for name in ("stat", "lstat", "scandir", "listdir", "open", "mkdir"):
        closed(name)
    code = main([w.format(lock=lock, model=model) for w in words])
    err = capsys.readouterr().err
    assert "should not have happened" not in err
    assert code in (1, 2)
    assert str(lock) in err


def test_json_names_it_as_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", LONG]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["exit_code"]) == ("bad_input", 2)


def test_an_error_without_a_path_is_still_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wizard import cli

    def broken(_words: object) -> int:
        raise OSError(errno.EBADMSG, "odd")

    monkeypatch.setattr(cli, "run", broken)
    assert main(["detect"]) == 1
    assert "should not have happened" in capsys.readouterr().err
