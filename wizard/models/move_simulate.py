"""The move of a recorded machine: the plan's own figures, played through in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from wizard.models.move_engine import Control
from wizard.models.move_types import MovePlan, MoveResult, MoveState, Progress, Stage


def simulate(
    plan: MovePlan, control: Control, report: Callable[[Progress], None], wall_s: float
) -> MoveResult:
    """Play the move through in about ``wall_s`` seconds. Rate and time left are those of the planned move."""
    total = plan.bytes_total
    begin_bytes = plan.bytes_already
    planned_s = max(plan.seconds_estimate or 0.0, 0.001)
    rate = (total - begin_bytes) / planned_s
    wall_s = min(wall_s, planned_s)
    steps = max(1, int(wall_s / 0.1))
    ends: list[int] = []
    position = 0
    for file in plan.files:
        position += file.size_bytes
        ends.append(position)
    index = 0
    for step in range(steps + 1):
        if control.paused:
            report(_progress(plan, begin_bytes, index, None, None, Stage.PAUSED))
        control.gate()
        done = begin_bytes + (total - begin_bytes) * step // steps
        while index < len(ends) and ends[index] <= done:
            index += 1
        left = (total - done) / rate if rate > 0 else 0.0
        report(_progress(plan, done, index, rate, left, Stage.COPY, planned_s - left))
        if step < steps:
            time.sleep(wall_s / steps)
    for stage in (Stage.FINISH, Stage.SWITCH, Stage.DONE):
        report(_progress(plan, total, len(ends), rate, 0.0, stage, planned_s))
    return MoveResult(MoveState.PROVEN, plan.dst, total, total - begin_bytes, plan.files_total, planned_s)


def _progress(
    plan: MovePlan,
    done: int,
    files: int,
    rate: float | None,
    left: float | None,
    stage: Stage,
    elapsed_s: float = 0.0,
) -> Progress:
    current = plan.files[min(files, len(plan.files) - 1)].rel if plan.files else ""
    return Progress(
        done, plan.bytes_total, files, plan.files_total, rate, left, stage, current, elapsed_s, simulated=True
    )
