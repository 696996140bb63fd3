"""NO_COLOR: the terminal's own two colours, and nothing drawn in one colour on the same one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.faces.tui_play import fake_app, ready
from wizard.faces.tui import look


@pytest.mark.parametrize("theme", [look.ANSI.name, look.DARK.name])
async def test_text_differs_from_its_ground(theme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert look.choose_theme(os.environ) == look.ANSI.name
    app: Any = fake_app(theme=theme)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        styles = [s.style for strip in app.screen._compositor.render_strips() for s in strip if s.style is not None and s.text.strip()]
        assert styles
        for style in styles:
            if theme == look.ANSI.name:
                assert style.color is None or style.color.is_default
                assert style.bgcolor is None or style.bgcolor.is_default
            else:
                assert style.color is None or style.color != style.bgcolor
        assert any(style.reverse for style in styles) or theme != look.ANSI.name  # what has the focus can be told
