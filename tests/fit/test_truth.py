"""The arithmetic against measured start-ups: the bar is weights within 1 %, pools within 5 % and never 3 % too high."""

from __future__ import annotations

import statistics

import pytest

from tests.fit.measured import H100_0_19, OTHERS, ROWS, Row
from tests.fit.published import MODELS
from wizard.fit import GIB, FitRequest, FitResult, fit
from wizard.models.inspect import from_config


def compute(row: Row) -> FitResult:
    info = from_config(MODELS[row.model], source=row.model)
    request = FitRequest(
        row.release, int(row.total * GIB), gpu_name=row.gpu, gpu_memory_utilization=row.utilization, tensor_parallel_size=row.tp,
        pipeline_parallel_size=row.pp, max_model_len=row.length, **row.more,
    )  # fmt: skip
    return fit(info, request)


def name(row: Row) -> str:
    return f"{row.model}-{row.release}-tp{row.tp}-{row.length}" + "".join(f"-{v}" for v in row.more.values())


@pytest.mark.parametrize("row", [r for r in ROWS if r.weights], ids=name)
def test_weights_of_each_row(row: Row) -> None:
    assert row.weights is not None
    assert compute(row).weights_bytes / GIB == pytest.approx(row.weights, rel=0.012)


@pytest.mark.parametrize("row", [r for r in ROWS if r.activation], ids=name)
def test_activation_of_each_row(row: Row) -> None:
    assert row.activation is not None
    assert compute(row).activation_bytes / GIB == pytest.approx(row.activation, abs=0.04)


@pytest.mark.parametrize("row", [r for r in ROWS if r.pool], ids=name)
def test_pool_of_each_row_is_never_three_percent_too_high(row: Row) -> None:
    assert row.pool is not None
    got = compute(row).kv_cache_bytes
    assert got.best / GIB <= row.pool * 1.03
    assert got.best / GIB >= row.pool * 0.94
    assert got.low / GIB <= row.pool + 0.01


@pytest.mark.parametrize("row", [r for r in ROWS if r.tokens], ids=name)
def test_tokens_of_each_row(row: Row) -> None:
    assert row.tokens is not None
    assert compute(row).kv_cache_tokens.best == pytest.approx(row.tokens, rel=0.03)


def test_the_bar_holds_in_the_mean() -> None:
    weights = [abs(compute(r).weights_bytes / GIB / r.weights - 1) for r in ROWS if r.weights]
    pools = [abs(compute(r).kv_cache_bytes.best / GIB / r.pool - 1) for r in ROWS if r.pool]
    assert statistics.mean(weights) < 0.002
    assert statistics.mean(pools) < 0.01


def test_rows_that_no_figure_was_solved_from_hold_the_bar_too() -> None:
    """Leave some out: what the constants were solved from is on the H100 at 0.11 and 0.19; other cards are not."""
    errors = [compute(r).kv_cache_bytes.best / GIB / r.pool - 1 for r in OTHERS if r.pool and not r.release.startswith("0.6")]
    assert errors
    assert statistics.mean(abs(e) for e in errors) < 0.05
    assert max(errors) < 0.03


def test_half_of_the_models_predict_the_other_half() -> None:
    """Outside PyTorch, solved from every second single-GPU row, predicts the pools of the others."""
    single = [r for r in H100_0_19 if r.tp == 1 and r.activation and r.outside and not r.model.startswith("granite-3")]
    solved = statistics.mean(r.outside for r in single[::2] if r.outside)
    for row in single[1::2]:
        result = compute(row)
        left = row.total * row.utilization - result.weights_bytes / GIB
        truth = left - (row.activation or 0) - (row.outside or 0)
        ours = left - result.activation_bytes / GIB - solved
        assert ours == pytest.approx(truth, abs=0.06)


def test_the_activation_peak_drops_at_0_17() -> None:
    info = from_config(MODELS["Qwen3-14B"], source="x")
    peaks = {v: fit(info, FitRequest(v, int(79.19 * GIB), gpu_name="H100")).activation_bytes / GIB for v in ("0.11.0", "0.16.0", "0.17.1", "0.19.1", "0.20.2", "0.33.0")}
    assert peaks["0.11.0"] == pytest.approx(peaks["0.16.0"])
    assert peaks["0.16.0"] > 2 * peaks["0.17.1"]
    assert peaks["0.17.1"] == pytest.approx(peaks["0.19.1"])
    assert 0.3 < peaks["0.33.0"] <= peaks["0.19.1"] + 0.3
