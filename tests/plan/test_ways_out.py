"""Ways out that lie nearest to hand: the length that the text itself names, and what already lies on the machine."""

from __future__ import annotations

import pytest

from tests.plan.conftest import session_of
from wizard.fit import fit
from wizard.fit_types import WayOut
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan_types import Plan

SMALL, DESKTOP = "wsl2-rtx3060-model-on-d", "wsl2-rtx4090-desktop"


def ways(made: Plan) -> dict[str, WayOut]:
    assert made.fit is not None
    return {w.kind: w for w in made.fit.ways_out}


@pytest.mark.parametrize("asked", [40_000, 60_000, 120_000])
def test_the_length_that_fits_is_among_the_ways_when_the_text_names_it(asked: int) -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-VL-8B-Instruct", max_model_len=asked))
    assert made.fit is not None
    longest = made.fit.max_model_len_that_fits or 0
    assert longest >= 8_192
    length = int(ways(made)["shorter"].changes["max_model_len"])
    assert longest - 1_024 < length <= longest
    assert len(made.fit.ways_out) <= 3
    assert plan(session_of(DESKTOP, model="Qwen/Qwen3-VL-8B-Instruct", max_model_len=length)).can_serve


def test_a_model_that_lies_here_and_fits_with_a_part_in_ram_is_offered_too() -> None:
    made = plan(session_of(SMALL, model="/mnt/d/models/Qwen3-VL-8B-Instruct"))
    found = ways(made)
    assert "4B" in found["variant_here"].changes["model"]
    helped = found["variant_offload"]
    assert "AWQ" in helped.changes["model"]
    assert "RAM" in helped.text
    taken = plan(session_of(SMALL, **helped.changes))
    assert taken.can_serve
    assert taken.fit_request is not None
    assert taken.offload_gib == int(helped.changes["cpu_offload_gb"])
    info = taken.model
    assert info is not None
    assert fit(info, taken.fit_request).fits


def test_the_script_names_the_model_where_it_is_served_from() -> None:
    made = plan(session_of(SMALL))
    assert made.move is not None
    assert made.host_model_path is not None
    script = next(f for f in files(made) if f.path == "launch.sh").content.decode()
    head = " ".join(line.lstrip("# ") for line in script[: script.index("set -euo")].splitlines())
    assert f"model = {made.host_model_path} (copied from {made.move.source})" in head


def test_the_script_of_a_model_that_stays_names_its_place() -> None:
    made = plan(session_of(SMALL, move="no"))
    script = next(f for f in files(made) if f.path == "launch.sh").content.decode()
    assert f"model = {made.host_model_path}" in script
    assert "copied from" not in script[: script.index("set -euo")]
