"""The walk's step where it runs: prices of the ways, and words instead of raw values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faces.tui_play import app_on, at, ready, said, until
from wizard.faces.tui.dialogs import field_help
from wizard.session import Answers

TWO_CARDS = "wsl2-2x-rtx3090"


@pytest.mark.parametrize("size", [(80, 24), (120, 50)])
async def test_the_ways_are_priced_on_arrival_though_the_step_was_made_ahead(tmp_path: Path, size: tuple[int, int]) -> None:
    app = app_on(TWO_CARDS, tmp_path / "out")
    async with app.run_test(size=size) as pilot:
        await at(app, pilot, "runtime")
        screen = app.walk_screen
        await until(pilot, lambda: "where" in screen.views and screen.views["where"].stands(app.walk))
        screen.go_to("where")
        await ready(app, pilot)
        await until(pilot, lambda: "What each way costs" in said(app) and "through Ray" in said(app))
        shown = screen.view
        assert shown is not None
        assert shown.stands(app.walk)
        app.walk.answer("run_on", "replicas")
        screen.show()
        await until(pilot, lambda: "behind a router (chosen)" in said(app))


async def test_help_names_what_the_wizard_would_take_as_the_step_does(tmp_path: Path) -> None:
    app = app_on(TWO_CARDS, tmp_path / "out", Answers(user={"run_on": "replicas"}))
    async with app.run_test(size=(120, 50)) as pilot:
        await at(app, pilot, "where")
        view = app.walk_screen.view
        field = view.field_of("run_on") if view is not None else None
        assert field is not None
        told = field_help(field, app.walk).plain
        assert "The wizard would take\n  This machine\n" in told
        assert "Value\n  Several servers here\n" in told


async def test_a_model_that_no_release_serves_is_told_of_on_every_step(tmp_path: Path) -> None:
    app = app_on("native-v100", tmp_path / "out", Answers(user={"model": "google/gemma-4-12B-it-qat-w4a16-ct"}))
    async with app.run_test(size=(120, 50)) as pilot:
        await at(app, pilot, "model")
        assert "GPU memory is not known" not in said(app)
        assert "no vLLM release serves this model on this machine." in said(app)
        app.walk_screen.go_to("runtime")
        await ready(app, pilot)
        await until(pilot, lambda: "Choose another model on the step “Model”." in said(app))
        assert "0.33.0" in said(app)
        app.walk_screen.go_to("review")
        await ready(app, pilot)
        await until(pilot, lambda: "Choose another model on the step “Model”." in said(app))
        await pilot.press("w")
        await until(pilot, lambda: "Other models, which run here and fit." in said(app))
