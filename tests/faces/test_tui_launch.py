"""The launch from the walk: a stand-in server is started, proven, repaired, stopped and left, by keyboard alone."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faces.tui_play import fake_app, ready, screen_text, until
from tests.launch.conftest import FAKE, free_port, nothing_left, own_state
from tests.launch.tiny_folder import make_model
from wizard.faces.tui.app import Start, WizardApp
from wizard.faces.tui.launching import LaunchScreen
from wizard.faces.tui.views import ReviewView
from wizard.host import RealHost
from wizard.launch import detach, processes, record, run
from wizard.session import Answers

__all__ = ["nothing_left", "own_state"]  # fixtures of the launch's own tests


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SWEEP_S", 0.2)
    monkeypatch.setattr(run, "HEALTH_S", 0.2)
    monkeypatch.setattr(run, "POLL_S", 0.05)
    monkeypatch.setattr(detach, "has_user_systemd", lambda host: False)


@pytest.fixture(scope="module")
def base() -> Any:
    from wizard.probes import run_all
    from wizard.recipes import RecipeBook
    from wizard.session import Session

    return Session(machine=run_all(RealHost()), recipes=RecipeBook(()))


@pytest.fixture
def start(base: Any, tmp_path: Path) -> Any:
    """Makes the walk over a written folder whose environment holds the stand-in."""
    from wizard.session import look_at_model

    bin_dir = tmp_path / "venv" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python").write_text("#!/bin/sh\necho 0.32.0\n")
    (bin_dir / "vllm").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    for path in bin_dir.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    model = tmp_path / "models" / "Tiny"
    make_model(model)

    def make(**answers: Any) -> WizardApp:
        from dataclasses import replace

        given = {
            "release": "0.32.0", "runtime": "local", "model": str(model), "venv": str(bin_dir.parent), "port": free_port(),
            "out_dir": str(tmp_path / "out"), **answers,
        }  # fmt: skip
        known = Answers(cli=given)
        session = look_at_model(replace(base, answers=known), RealHost(), str(model))
        return WizardApp(lambda: Start(RealHost(), known), prepared=session)

    return make


async def written(app: WizardApp, pilot: Any) -> None:
    """Write the files on the last step."""
    await ready(app, pilot)
    app.walk_screen.go_to("review")
    await ready(app, pilot)
    view = app.walk_screen.view
    assert isinstance(view, ReviewView)
    await pilot.press("enter")
    await until(pilot, lambda: app.screen is not app.walk_screen)
    await pilot.press("enter")
    await until(pilot, lambda: view.written)
    await pilot.pause()


async def launched(app: WizardApp, pilot: Any) -> LaunchScreen:
    """Write, then press “Start it now”, which has the focus."""
    await written(app, pilot)
    assert app.focused is not None
    assert app.focused.id == "start"
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    assert isinstance(app.screen, LaunchScreen)
    return app.screen


async def state(app: WizardApp, pilot: Any, screen: LaunchScreen, wanted: str) -> None:
    """Wait until the screen is in this state, and has drawn it."""
    try:
        await until(pilot, lambda: screen.shown.state == wanted and screen._drawn[0] == wanted, 40.0)
    except AssertionError:
        raise AssertionError(f"{screen.shown.state} instead of {wanted}:\n{screen_text(app)}") from None
    await pilot.pause()


def page(screen: LaunchScreen) -> str:
    """Everything that the frame holds, in one line, also what is scrolled out of view."""
    from wizard.faces.tui.widgets import Panel

    return " ".join(str(screen.query_one("#launch-body", Panel).content).split())


def alive(server_folder: Path) -> bool:
    kept = record.load(record.record_id(server_folder))
    return kept is not None and kept.leader is not None and processes.is_alive(kept.leader)


async def test_from_start_to_ready_stopped_left_and_never_twice(start: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "serving")
        shown = page(screen)
        assert f"It answers: {screen.shown.url}/v1" in shown
        for told in ("Hello from Tiny.", "curl -s", "from openai import OpenAI", "Weights"):
            assert told in shown
        await pilot.press("c")
        assert app.clipboard == screen.shown.curl
        await pilot.press("p")
        assert app.clipboard == screen.shown.python
        await pilot.press("l")
        await until(pilot, lambda: "Application startup complete." in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "It answers" in screen_text(app))
        # Ctrl-C once asks, and Esc lets it go on; twice stops.
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Stop the server?" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert alive(folder)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "Stop the server?" in screen_text(app))
        await pilot.press("ctrl+c")
        await state(app, pilot, screen, "stopped")
        assert "Stopped." in page(screen)
        assert not alive(folder)
        # Again; and left running, it says how to go on with it.
        await pilot.press("enter")
        await state(app, pilot, screen, "serving")
        await pilot.press("d", "enter")
        await state(app, pilot, screen, "left")
        assert "vllm-wizard stop" in page(screen)
        assert screen.shown.curl in app.wizard.server.last_words()
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.walk_screen)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        again = app.screen
        assert isinstance(again, LaunchScreen)
        await state(app, pilot, again, "refused")
        assert "It runs already" in page(again)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)
    kept = record.load(record.record_id(folder))
    assert kept is not None
    assert alive(folder)
    assert detach.stop(kept, RealHost()) in ("interrupt", "terminate")


async def test_a_failure_is_explained_and_repaired_on_consent_alone(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "kv")
    monkeypatch.setenv("FAKE_KV_TOKENS", "3000")
    script = tmp_path / "out" / "launch.sh"
    app = start(max_model_len=8192)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "asking")
        assert "To serve at least one request with the model's max seq len (8192)" in page(screen)
        shown = screen_text(app)
        for told in ("how sure: certain", "- --max-model-len 8192", "+ --max-model-len 3000"):
            assert told in shown
        # Declined: nothing is written, the diagnosis stays, and can be opened in full.
        await pilot.press("ctrl+c")
        await state(app, pilot, screen, "failed")
        assert "What to do" in page(screen)
        assert "--max-model-len 8192" in script.read_text()
        screen.query_one("#launch-diagnosis").focus()
        await pilot.press("enter")
        await until(pilot, lambda: "max_model_len_exceeds_kv" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        # Once more, with a look at the diff, and with consent.
        screen.query_one("#launch-again").focus()
        await pilot.press("enter")
        await state(app, pilot, screen, "asking")
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "launch.sh" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        screen.query_one("#launch-apply").focus()
        await pilot.press("enter")
        await state(app, pilot, screen, "serving")
        shown = page(screen)
        assert "Start 2, after" in shown  # of those that failed
        assert "Changed: Shorten the context" in shown
        assert "--max-model-len 3000" in script.read_text()
        await until(pilot, lambda: app.walk.plan.value("max_model_len") == 3000)
        # Quitting asks what becomes of the server.
        await pilot.press("ctrl+q")
        await until(pilot, lambda: "what becomes of the server" in screen_text(app))
        await pilot.press("end", "enter")  # do not quit
        await until(pilot, lambda: app.screen is screen)
        assert alive(tmp_path / "out")
        await pilot.press("ctrl+q")
        await until(pilot, lambda: "what becomes of the server" in screen_text(app))
        await pilot.press("enter")  # stop it
        await until(pilot, lambda: not app.is_running, 40.0)
    assert not alive(tmp_path / "out")


async def test_stopped_and_left_while_it_starts(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "hang")
    folder = tmp_path / "out"
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await until(pilot, lambda: "Weights" in screen_text(app) and "22,528 tokens" in screen_text(app))
        assert "Graph capturing finished" in screen_text(app)  # the log is folded below
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "It is still starting." in screen_text(app))
        await pilot.press("ctrl+c")
        await state(app, pilot, screen, "stopped")
        assert "Stopped before it was ready." in page(screen)
        assert not alive(folder)
        await pilot.press("enter")
        await until(pilot, lambda: alive(folder))
        await state(app, pilot, screen, "starting")
        await pilot.press("d", "enter")
        await state(app, pilot, screen, "left")
    kept = record.load(record.record_id(folder))
    assert kept is not None
    assert alive(folder)
    detach.stop(kept, RealHost())
    assert not alive(folder)


async def test_an_application_that_ends_by_itself_takes_its_server_along(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.faces.tui.app import _no_orphan

    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "serving")
        monkeypatch.setattr(LaunchScreen, "on_unmount", lambda self: None)
        app.exit()
        await until(pilot, lambda: not app.is_running)
    assert alive(tmp_path / "out")
    await asyncio.to_thread(_no_orphan, app)
    assert not alive(tmp_path / "out")


async def test_a_signal_stops_the_server(start: Any, tmp_path: Path) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "serving")
        app.wizard.keep = kept = tmp_path / "kept.toml"
        app.wizard.kept_unanswered = False
        os.kill(os.getpid(), signal.SIGHUP)
        await until(pilot, lambda: not app.is_running, 40.0)
    await asyncio.to_thread(app.wizard.server.wait_over)
    assert not alive(tmp_path / "out")
    assert kept.exists()  # the answers are kept, as where no server was started


async def test_a_server_that_dies_while_serving_is_explained(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_MODE", "die")
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "died")
        assert "ended by itself" in page(screen)


async def test_handed_to_systemd_it_is_started_once_more_and_left(start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unit's part is played by a stand-in: what counts here is the order of stop, start and leave."""
    monkeypatch.setattr(detach, "has_user_systemd", lambda host: True)
    units: list[str] = []
    started: list[psutil.Popen] = []

    def start_unit(target: Any, host: Any, identity: str, log: Path) -> str:
        assert not alive(tmp_path / "out")  # the first one has ended: the port is free
        units.append(identity)
        with log.open("ab") as stream:
            started.append(psutil.Popen(["bash", str(target.script)], stdout=stream, stderr=stream, start_new_session=True))
        return "vllm-x.service"

    monkeypatch.setattr(detach, "start_unit", start_unit)
    monkeypatch.setattr(detach, "unit_state", lambda unit, host: (started[0].pid, None))
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await launched(app, pilot)
        await state(app, pilot, screen, "serving")
        await pilot.press("d")
        await until(pilot, lambda: "Hand it to systemd" in screen_text(app))
        await pilot.press("down", "enter")
        await state(app, pilot, screen, "left")
        assert "systemd brings it back" in page(screen)
    assert len(units) == 1
    os.killpg(started[0].pid, signal.SIGTERM)
    started[0].wait(20)


async def test_every_state_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each state, small and wide, without colours and in ASCII: its buttons are in view."""
    from wizard.faces.tui.launching import _BUTTONS
    from wizard.faces.tui.server import make

    monkeypatch.setenv("NO_COLOR", "1")
    app: Any = fake_app(ascii_only=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        app.wizard.server = make(app.wizard)
        screen = LaunchScreen(app.wizard, app.wizard.server, start=False)
        app.push_screen(screen)
        await until(pilot, lambda: screen.is_mounted)
        for size in ((80, 24), (120, 36)):
            await pilot.resize_terminal(*size)
            for name, buttons in _BUTTONS.items():
                screen.shown.state = name
                screen.draw()
                for button in buttons:
                    widget = screen.query_one(f"#launch-{button}")
                    if button in ("curl", "python"):
                        continue  # there is nothing to copy yet
                    await until(pilot, lambda w=widget, s=size: w.display and 0 < w.region.right <= s[0] and 0 < w.region.bottom < s[1])  # type: ignore[misc]
        assert screen_text(app).isascii()


async def test_another_machines_plan_offers_no_start() -> None:
    app: Any = fake_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(app, pilot)
        assert not app.wizard.may_start()
        app.wizard.open_screen("start")
        await pilot.pause()
        assert app.screen is app.walk_screen
