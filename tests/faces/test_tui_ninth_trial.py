"""What a ninth newcomer stumbled over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faces.test_tui_diagnosis import TOO_LONG, opened, pasted
from tests.faces.tui_play import app_on, at, ready, screen_text, session_of, shows, until
from wizard.check.commands import check_text
from wizard.faces.tui.paste import PasteDialog, answers_around
from wizard.faces.tui.paste import pasted as pasted_command
from wizard.launch.repair import has_it_already
from wizard.plan import plan
from wizard.session import holds_command, looks_like_command

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


COMPOSE = """
services:
  vllm:
    image: vllm/vllm-openai:v0.11.0
    ports: ["127.0.0.1:9000:8000"]
    volumes: ["~/models:/m"]
    command: --model /m/Qwen3-8B --max-model-len 8192
"""
COMMANDS = [
    "nohup vllm serve Qwen/Qwen3-8B > vllm.log 2>&1 &",
    "CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve m &",
    "nohup python -m vllm.entrypoints.openai.api_server --model m",
    "uv run vllm serve m",
    "uvx --from vllm vllm serve m",
    "source .venv/bin/activate && vllm serve m",
    "cd /srv; vllm serve m",
    "numactl -N 0 vllm serve m",
    "sudo -E docker run vllm/vllm-openai m",
    "bash -c 'vllm serve m'",
]


@pytest.mark.parametrize("given", COMMANDS)
def test_a_command_behind_others_is_one(given: str) -> None:
    assert looks_like_command(given)
    assert holds_command("export HF_HOME=/x\n" + given)
    assert holds_command(COMPOSE)


@pytest.mark.parametrize("given", ["INFO 11-30 04:39:12 [utils.py:1] vllm serve m", "(APIServer pid=1) INFO started by nohup vllm serve m", "env", "tmux", "nohup ./x.sh &", "services: none"])
def test_a_log_is_no_command(given: str) -> None:
    assert not holds_command(given)


@pytest.mark.parametrize("given", [COMMANDS[0], "export A=1\n" + COMMANDS[0], COMPOSE])
@pytest.mark.parametrize("step", ["machine", "access"])
async def test_what_starts_a_server_is_read_wherever_it_is_pasted(given: str, step: str, tmp_path: Path) -> None:
    from textual import events

    app = app_on(TWO, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        await at(app, pilot, step)
        await ready(app, pilot)
        app.post_message(events.Paste(given))
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await shows(app, pilot, "Take it over")
        assert app.walk.plan is not None
        assert app.walk.plan.value("port") == 8000


async def test_what_is_pasted_before_the_machine_has_answered_is_read_then(tmp_path: Path) -> None:
    from textual import events

    app = app_on(TWO, tmp_path / "out")
    async with app.run_test(size=(80, 24)) as pilot:
        app.post_message(events.Paste(COMMANDS[0]))
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await shows(app, pilot, "nohup vllm serve", "Take it over")


def test_the_port_of_a_compose_file_comes_along_and_its_mounts_lead_to_the_model() -> None:
    made = plan(session_of(TWO))
    command = pasted_command(check_text(COMPOSE, "x", "0.33.0").verdicts[0])
    assert command.model == "~/models/Qwen3-8B"
    answers, left = answers_around(made, command)
    assert answers["port"] == 9000
    assert any("~/models:/m" in item.name for item in left)


async def test_the_flags_table_cuts_no_value_without_a_mark(tmp_path: Path) -> None:
    app = app_on("native-t4", tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await at(app, pilot, "flags")
        await pilot.press("pagedown", "pagedown", "pagedown")
        await ready(app, pilot)
        rows = screen_text(app).splitlines()
        assert any("--host " in row and "127.0.0.1 " in row for row in rows)
        assert any("--served-model-name " in row and "…" in row for row in rows)
        assert any("--port " in row and "8000" in row for row in rows)


async def test_what_could_not_be_read_has_no_mark_of_success(tmp_path: Path) -> None:
    app = app_on("wsl2-interop-off-custom-root", tmp_path)
    async with app.run_test(size=(80, 80)) as pilot:
        await ready(app, pilot)
        (row,) = [row for row in screen_text(app).splitlines() if "Windows " in row and "unknown" in row]
        assert "– Windows" in row
