"""The diagnosis in the walk: a pasted log, a named one, what is no failure, what is not known, and a fix taken over."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces import tui_fake
from tests.faces.tui_play import MACHINES, app_on, fake_app, ready, screen_text, shows, until
from wizard.diagnose.engine import Diagnosis, Finding
from wizard.diagnose.reader import read_bytes
from wizard.faces.tui.app import WizardApp
from wizard.faces.tui.diagnosis import (
    DiagnoseScreen,
    Reading,
    clip_end,
    of_another_model,
    plan_diff,
    surroundings,
)
from wizard.faces.tui.look import UNICODE
from wizard.faces.tui.widgets import Rows
from wizard.session import Answers

TOO_LONG = (
    "INFO 11-30 04:39:12 [api_server.py:1971] vLLM API server version 0.33.0",
    "(EngineCore pid=131) INFO 11-30 04:39:21 [core.py:94] Initializing a V1 LLM engine (v0.33.0) with config: model='/m/x'",
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] EngineCore failed to start.",
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] Traceback (most recent call last):",
    '(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936]   File "/v/vllm/v1/core/kv_cache_utils.py", line 697, in _check',
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] ValueError: To serve at least one request with the models's max seq len (24576), "
    "(3.38 GiB KV cache is needed, which is larger than the available KV cache memory (2.8 GiB). Based on the available memory, the estimated maximum model length is 9216.",
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
)
HEALTHY = (
    "INFO 11-30 04:39:12 [api_server.py:1971] vLLM API server version 0.33.0",
    "INFO:     Started server process [1]",
    "INFO:     Application startup complete.",
)
NEW_KIND = (
    "INFO 11-30 04:39:12 [api_server.py:1971] vLLM API server version 0.33.0",
    "Traceback (most recent call last):",
    '  File "/v/site-packages/somebody/flux.py", line 3, in charge',
    "somebody.flux.FluxError: the capacitor has 1.20 of 1.21 gigawatts",
)


async def opened(app: WizardApp, pilot: Any) -> DiagnoseScreen:
    """Open the screen from the first step, by its button."""
    await ready(app, pilot)
    app.walk_screen.query_one("#diagnose").focus()
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen))
    assert isinstance(app.screen, DiagnoseScreen)
    return app.screen


async def pasted(pilot: Any, screen: DiagnoseScreen, lines: tuple[str, ...]) -> None:
    """Paste a log into its field, leave it by Tab, and read it."""
    from textual import events
    from textual.widgets import TextArea

    await until(pilot, lambda: screen.focused is not None)
    await pilot.press("tab")
    text = "\n".join(lines)
    screen.app.post_message(events.Paste(text))
    await until(pilot, lambda: screen.query_one(TextArea).text == text)
    await pilot.press("tab", "enter")
    await until(pilot, lambda: screen.reading is not None and screen.reading.done and screen._drawn_state == screen.state)
    await pilot.pause()


async def test_a_pasted_log_is_explained_and_its_fix_taken_into_the_plan(tmp_path: Path) -> None:
    app: Any = app_on("wsl2-rtx4090-desktop", tmp_path, Answers(cli={"max_model_len": 12288}))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        await pasted(pilot, screen, TOO_LONG)
        shown = screen_text(app)
        for told in ("max_model_len_exceeds_kv", "how sure: certain", "6 (EngineCore", "The context length is larger", "1. Shorten the context"):
            assert told in shown, shown
        await until(pilot, lambda: screen.usable_here() is not None)
        # Enter on the fix shows what it changes; nothing changes without consent.
        await pilot.press("enter")
        await shows(app, pilot, "Use this fix in my plan?", "- --max-model-len 12288", "+ --max-model-len 9216")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert app.walk.plan.value("max_model_len") == 12288
        await pilot.press("enter")
        await shows(app, pilot, "Use this fix in my plan?")
        await pilot.press("enter")
        await until(pilot, lambda: app.walk.plan.value("max_model_len") == 9216)
        # Taken over, it changes nothing any more.
        await until(pilot, lambda: screen.reading is not None and screen.reading.tried_on is app.walk.plan and 0 in screen.reading.usable)
        assert all(u.changed != {"max_model_len": "9216"} for u in screen.usable())
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)


async def test_files_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text("\n".join(HEALTHY) + "\n")
    (tmp_path / "odd.log").write_text("\n".join(NEW_KIND) + "\n")
    (tmp_path / "start.log").write_text("\n".join(HEALTHY[:2]) + "\n")
    (tmp_path / "empty.log").write_text("")
    app: Any = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        await pilot.press("enter")
        await shows(app, pilot, "Name a file, or paste the log into the field.")
        for name, told in (
            ("missing.log", "There is no file"),
            (".", "is a folder"),
            ("good.log", "No failure found. The server came up."),
            ("start.log", "it may still be starting"),
            ("empty.log", "There is no line in it."),
            ("odd.log", "the capacitor has 1.20 of 1.21 gigawatts"),
        ):
            if screen.state != "ask":
                screen.query_one("#log-another").focus()
                await pilot.press("enter")
                await until(pilot, lambda: screen.state == "ask")
            field: Any = screen.query_one("#log-path")
            field.set_text(str(tmp_path / name))
            field.focus()
            await pilot.press("enter")
            await until(pilot, lambda: screen.reading is not None and screen.reading.done)
            await until(pilot, lambda t=told: t in " ".join(" ".join(x.strip("│ ") for x in screen_text(app).splitlines()).split()))  # type: ignore[misc]
        # What no rule knows: said honestly, with a report that can be taken along.
        assert screen.finding is not None
        assert screen.finding.cause == "unknown"
        screen.query_one("#log-report").focus()
        await pilot.press("enter")
        await shows(app, pilot, "Report for an issue")
        assert "capacitor" in app.clipboard


async def test_reading_can_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.diagnose import reader

    goes_on, entered = threading.Event(), threading.Event()

    def slow(stream: BinaryIO, **_more: Any) -> Any:
        entered.set()
        goes_on.wait(30)
        return read_bytes(stream.read())

    monkeypatch.setattr(reader, "read", slow)
    log = tmp_path / "large.log"
    log.write_text("x\n")
    app: Any = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        screen.read(Reading(str(log)))
        await until(pilot, entered.is_set)
        await shows(app, pilot, "Reading", "Stop reading")
        reading = screen.reading
        await pilot.press("escape")
        await until(pilot, lambda: screen.state == "ask")
        goes_on.set()
        await until(pilot, lambda: all(w.is_finished for w in app.workers))
        assert reading is not None
        assert reading.diagnosis is None
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)


async def test_the_palette_and_a_key_find_it() -> None:
    app: Any = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        await pilot.press("ctrl+p", *"failed")
        await shows(app, pilot, "paste or open its log")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, DiagnoseScreen))


async def test_a_log_given_on_the_command_line_is_opened_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard import cli
    from wizard.faces.tui import app as tui

    log = tmp_path / "vllm.log"
    log.write_text("\n".join(TOO_LONG))
    begun: list[Any] = []

    def walk_from(prepare: Any, **more: Any) -> int:
        begun.append(prepare())
        return 0

    monkeypatch.setattr(tui, "walk_from", walk_from)
    machine = str(MACHINES / "wsl2-rtx4090-desktop")
    assert cli.run(["diagnose", "--tui", str(log), "--machine", machine]) == 0
    app: Any = WizardApp(lambda: begun[0], prepared=tui_fake.session(), planner=tui_fake.planner, ascii_only=True)
    async with app.run_test(size=(120, 36)) as pilot:
        await shows(app, pilot, "max_model_len_exceeds_kv")
        assert screen_text(app).isascii()
        # The log is read before the machine has answered: the plan takes part as soon as it is there.
        assert isinstance(app.screen, DiagnoseScreen)
        screen: Any = app.screen
        await until(pilot, lambda: screen.reading.tried_on is not None and screen.reading.tried_on is app.walk.plan)


def test_without_a_terminal_the_full_screen_is_refused() -> None:
    from wizard import cli
    from wizard.errors import BadInput

    with pytest.raises(BadInput, match="terminal"):
        cli.run(["diagnose", "--tui", "x.log"])


# -- texts ------------------------------------------------------------------------------------------------------


def test_the_root_line_stands_among_its_neighbours() -> None:
    lines = read_bytes("\n".join(TOO_LONG).encode())
    finding = Finding("x", "X", TOO_LONG[5], 6, "high")
    shown = surroundings(finding, lines, UNICODE, 80, around=1).plain.splitlines()
    assert shown[0].startswith("  5 ")
    assert shown[1].startswith("▸ 6 (EngineCore")
    assert shown[-1].startswith("  7 ")
    assert all(len(x) <= 80 for x in shown)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r"), max_size=120), min_size=1, max_size=9), st.integers(24, 120), st.data())
def test_surroundings_hold_for_any_log(rows: list[str], width: int, data: st.DataObject) -> None:
    lines = read_bytes("\n".join(rows).encode("utf-8", "replace"))
    at = data.draw(st.integers(0, max(0, len(lines.lines) - 1)))
    line = lines.lines[at] if lines.lines else "x"
    shown = surroundings(Finding("x", "X", line, at + 1, "low"), lines, UNICODE, width)
    assert all(x.cell_length <= width for x in shown.split("\n"))
    assert not any(c < " " for c in shown.plain.replace("\n", ""))


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_line_is_cut_to_its_room(line: str, width: int) -> None:
    from rich.cells import cell_len

    assert cell_len(clip_end(line, width, "~")) <= max(width, 1)


def test_two_plans_are_compared_line_by_line() -> None:
    from dataclasses import replace

    from tests.faces import tui_fake

    before = tui_fake.planner(tui_fake.session())
    after = replace(before, argv=(*before.argv, "--enforce-eager"), env={})
    assert plan_diff(before, after) == ["- VLLM_LOGGING_LEVEL=INFO", "+ --enforce-eager"]
    assert plan_diff(before, before) == []


async def test_a_fix_from_the_log_of_another_model_says_so_before_it_is_taken(tmp_path: Path) -> None:
    app: Any = app_on("wsl2-rtx4090-desktop", tmp_path, Answers(cli={"max_model_len": 12288}))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        await pasted(pilot, screen, TOO_LONG)
        await until(pilot, lambda: screen.usable_here() is not None)
        await pilot.press("enter")
        await shows(app, pilot, "Use this fix in my plan?", "of another model, /m/x")
        await pilot.press("escape")


def test_only_another_model_is_another_model() -> None:
    from tests.faces import tui_fake

    plan = tui_fake.planner(tui_fake.session())
    own = str(plan.host_model_path or plan.value("model"))
    name = own.rstrip("/").rpartition("/")[2]
    for same in (own, own + "/", f"/models/{name}", f"Someone/{name}", f"/root/.cache/huggingface/hub/models--Q--{name}/snapshots/0a1b", "", None):
        found = Diagnosis()
        found.model = same
        assert of_another_model(found, plan) == "", same
    found = Diagnosis()
    found.model = f"/models/{name}-AWQ"
    assert "another model" in of_another_model(found, plan)
    assert of_another_model(None, plan) == ""


async def test_at_the_end_of_the_text_nothing_is_said_to_be_below(tmp_path: Path) -> None:
    app: Any = app_on("wsl2-rtx4090-desktop", tmp_path, Answers(cli={"max_model_len": 12288}))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot)
        await pasted(pilot, screen, TOO_LONG)
        body = screen.query_one("#whole-body")
        assert isinstance(screen.focused, Rows), "the list under the cursor pages the frame by itself"
        await until(pilot, lambda: "PgDn" in screen_text(app))
        for _turn in range(20):
            if body.scroll_y >= body.max_scroll_y:
                break
            await pilot.press("pagedown")
        await until(pilot, lambda: "PgDn" not in screen_text(app) and "PgUp" in screen_text(app))
