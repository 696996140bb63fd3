"""What a ninth newcomer stumbled over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faces.test_tui_diagnosis import TOO_LONG, opened, pasted
from tests.faces.tui_play import app_on, at, ready, screen_text, session_of, until
from wizard.launch.repair import has_it_already
from wizard.plan import plan

TWO = "wsl2-2x-rtx3090"


@pytest.mark.parametrize(("size", "beside"), [((80, 24), True), ((100, 30), False), ((120, 36), False), ((160, 50), True)])
async def test_the_reasons_of_a_list_stand_whole_or_the_chosen_ones_alone(size: tuple[int, int], beside: bool, tmp_path: Path) -> None:
    app = app_on(TWO, tmp_path)
    async with app.run_test(size=size) as pilot:
        await at(app, pilot, "flags")
        await ready(app, pilot)
        rows = screen_text(app).splitlines()
        first = next(n for n, row in enumerate(rows) if "Chat" in row and "recommended" in row)
        assert ("one or a few people writing" in rows[first]) is beside
        assert ("one or a few people writing" in rows[first + 1]) is not beside
        assert ("many short requests at once" in screen_text(app)) is beside
        assert not any("…" in row for row in rows[first : first + 7])
        await pilot.press("down")
        await ready(app, pilot)
        shown = screen_text(app)
        assert "long prompts, tool calls" in shown
        assert ("one or a few people writing" in shown) is beside


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36)])
async def test_no_row_of_the_written_files_is_cut(size: tuple[int, int], tmp_path: Path) -> None:
    app = app_on(TWO, tmp_path / "out")
    async with app.run_test(size=size) as pilot:
        await at(app, pilot, "review")
        await ready(app, pilot)
        rows = [row for row in screen_text(app).splitlines() if any(f"{name} " in row for name in ("launch.sh", "compose.yaml", ".wslconfig", "vllm.env", "answers.toml"))]
        assert len(rows) >= 5
        assert not any("…" in row for row in rows)
        assert any("for Docker Compose" in row for row in rows)


async def test_the_keys_of_the_list_of_fixes_are_named(tmp_path: Path) -> None:
    app: Any = app_on("wsl2-rtx4090-desktop", tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        await pasted(pilot, screen, TOO_LONG)
        await until(pilot, lambda: screen.query_one("#log-fixes").has_focus)
        await pilot.pause()
        assert "Choose a fix" in screen_text(app).splitlines()[-1]
        await pilot.press("tab")
        await pilot.pause()
        assert "Tab Next field" in screen_text(app).splitlines()[-1]


CURED_LATER = (
    "INFO 11-30 04:39:12 [api_server.py:1971] vLLM API server version 0.17.0",
    "(Worker_TP0 pid=131) ERROR 11-30 04:40:14 [core.py:936] Traceback (most recent call last):",
    '(Worker_TP0 pid=131) ERROR 11-30 04:40:14 [core.py:936]   File "/v/vllm/lora/layers/fused_moe.py", line 97, in _inject_lora_into_fused_moe',
    "(Worker_TP0 pid=131) ERROR 11-30 04:40:14 [core.py:936]     assert isinstance(m_fused_moe_fn.fused_experts, TritonExperts)",
    "(Worker_TP0 pid=131) ERROR 11-30 04:40:14 [core.py:936] AssertionError",
)


async def test_a_release_that_the_plan_has_already_is_told(tmp_path: Path) -> None:
    app: Any = app_on("native-4x-h200", tmp_path)
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await opened(app, pilot)
        await pasted(pilot, screen, CURED_LATER)
        await until(pilot, lambda: screen.fixes_tried)
        await pilot.pause()
        shown = " ".join(screen_text(app).split())
        assert "docker pull" in shown or "pip install" in shown
        assert "your plan has it already: it starts vLLM 0.33.0" in shown


def test_which_release_a_fix_brings_is_read_of_its_commands() -> None:
    made = plan(session_of("native-4x-h200"))
    assert has_it_already(["docker pull vllm/vllm-openai:v0.20.0"], made) == "0.33.0"
    assert has_it_already(["pip install -U 'vllm>=0.33.0'"], made) == "0.33.0"
    assert has_it_already(["pip install -U 'vllm>=0.34'"], made) is None
    assert has_it_already(["docker pull somebody/else:v0.1.0"], made) is None
