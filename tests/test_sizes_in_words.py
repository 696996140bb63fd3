"""Sizes for people: little is not shown as nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.counts import size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0.0 GiB"), (700, "0.7 KiB"), (90_000, "87.9 KiB"), (5 << 20, "5.0 MiB"), (100 << 20, "100.0 MiB"), (1 << 30, "1.0 GiB")],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


def test_a_small_folder_is_not_moved_as_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "m1"
    model.mkdir()
    (model / "config.json").write_text("{}" + " " * 3000)
    main(["move", str(model), str(tmp_path / "m2"), "--dry-run"])
    shown = capsys.readouterr().out
    assert "0.0 GiB" not in shown
    assert "2.9 KiB" in shown
