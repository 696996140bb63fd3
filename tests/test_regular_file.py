"""What has no end, or waits for a writer, is refused by every command that takes a file of settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.errors import BadInput
from wizard.regular_file import require_regular

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
MACHINE = str(Path(__file__).parent / "machines" / "native-rtx5090")


@pytest.mark.parametrize(
    "words",
    [
        ["check", "{file}"],
        ["wslconfig", "check", "{file}"],
        ["plan", "--machine", MACHINE, "--answers", "{file}"],
        ["cluster", "plan", "--machine", MACHINE, "--answers", "{file}"],
        ["recipes", "check", "--recipes", "{file}"],
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_refused(
    words: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "pipe") if kind == "pipe" else "/dev/zero"
    if kind == "pipe":
        os.mkfifo(file)
    assert main([w.format(file=file) for w in words]) == 2
    assert file in capsys.readouterr().err


def test_standard_input_may_be_a_pipe(tmp_path: Path) -> None:
    for name in ("-", "/dev/stdin", str(tmp_path / "missing")):
        require_regular(name)
    file = tmp_path / "a"
    file.write_text("")
    require_regular(file)
    with pytest.raises(BadInput, match="folder"):
        require_regular(tmp_path)
