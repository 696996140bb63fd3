"""After a copy in the full-screen walk: files written earlier are shown with the new place, and changed on consent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faces.tui_play import app_on, at, push, session_of, shows, until
from wizard import apply
from wizard.faces.tui.views import MoveView
from wizard.models import move
from wizard.models.move_types import MoveResult, MoveState
from wizard.outputs.spec import FileSpec
from wizard.session import Answers

ON_D = "wsl2-rtx3060-model-on-d"


@pytest.mark.parametrize("consent", [True, False])
async def test_earlier_files_are_switched_when_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consent: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))
    model = next(m for m in session_of(ON_D).found if m.mount_kind == "windows-drive" and m.complete)
    old = f"model_path={model.path}\n"
    apply.write(apply.prepare([FileSpec("launch.sh", old.encode())], tmp_path / "earlier"))
    script = tmp_path / "earlier" / "launch.sh"
    real = move.plan_move

    def as_if_here(*args: Any, **more: Any) -> move.MovePlan:
        """The recorded machine's plan, taken for a real one: what follows the copy is what is tried here."""
        return replace(real(*args, **more), simulated=False)

    def copied(self: move.Mover) -> MoveResult:
        return MoveResult(MoveState.PROVEN, self.plan.dst, 1, 1, 1, 1.0)

    monkeypatch.setattr(move, "plan_move", as_if_here)
    monkeypatch.setattr(move.Mover, "run", copied)
    app = app_on(ON_D, tmp_path / "out", Answers(cli={"model": model.path}))
    async with app.run_test(size=(100, 44)) as pilot:
        await at(app, pilot, "move")
        view = app.walk_screen.view
        assert isinstance(view, MoveView)
        await push(app, pilot, "move-start")
        await shows(app, pilot, "Name the new place in earlier files?")
        await shows(app, pilot, "+model_path=/home/user/models/")
        await pilot.press(*(["enter"] if consent else ["escape"]))
        await until(pilot, lambda: view.state == "done" and len(app.screen_stack) == 2)
        if consent:
            await until(pilot, lambda: script.read_text() != old)
            assert script.read_text().startswith("model_path=/home/user/models/")
            apply.undo()
        assert script.read_text() == old
