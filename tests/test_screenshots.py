"""The pictures in screenshots/ show the application as it is. All of them are held against it with ``-m slow``."""

from __future__ import annotations

import pytest

from screenshots import make

SAMPLE = ("narrow", "review", "chinese")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("scene", [pytest.param(s, marks=() if s.name in SAMPLE else pytest.mark.slow, id=s.name) for s in make.SCENES])
async def test_a_picture_matches_the_application(scene: make.Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    path = make.HERE / f"{scene.name}.svg"
    try:
        made = await make.svg_of(scene)
    finally:
        make.set_language("en")
    assert made == path.read_text(encoding="utf-8"), f"python -m screenshots.make {scene.name}, then look at it"
    assert path.with_suffix(".png").read_bytes().startswith(PNG)


def test_no_picture_is_left_over() -> None:
    names = {s.name for s in make.SCENES}
    assert {p.stem for p in make.HERE.glob("*.svg")} == names
    assert {p.stem for p in make.HERE.glob("*.png")} == names


def test_wide_characters_keep_their_columns() -> None:
    svg = '<text class="a" x="10" y="1" textLength="40" clip-path="url(#b)">KV缓存</text>'
    assert make.keep_columns(svg) == (
        '<text class="a" x="10" y="1" textLength="20" clip-path="url(#b)">KV</text>'
        '<text class="a" x="30" y="1" textLength="40" clip-path="url(#b)">缓存</text>'
    )
