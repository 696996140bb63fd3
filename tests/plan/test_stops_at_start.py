"""Answers that vLLM stops at when it starts: the plan sees them before anything is written."""

from __future__ import annotations

import pytest

from tests.plan.conftest import session_of
from wizard.plan import plan
from wizard.plan_types import Plan

DESKTOP = "wsl2-rtx4090-desktop"


def codes(made: Plan) -> set[str]:
    return {b.code for b in made.blockers}


def value_of(made: Plan, flag: str) -> int:
    return int(made.argv[made.argv.index(flag) + 1])


@pytest.mark.parametrize("tokens", [4, 1])
def test_requests_at_once_follow_the_tokens_of_a_step(tokens: int) -> None:
    made = plan(session_of(DESKTOP, max_num_batched_tokens=str(tokens)))
    assert value_of(made, "--max-num-seqs") == tokens
    assert not made.blockers
    assert str(tokens) in made.reason("max_num_seqs")


@pytest.mark.parametrize("machine", [DESKTOP, "native-4x-h200"])
def test_the_tokens_of_a_step_follow_the_requests_at_once(machine: str) -> None:
    made = plan(session_of(machine, max_num_seqs=9000))
    assert value_of(made, "--max-num-batched-tokens") >= 9000
    assert "batch_conflict" not in codes(made)


def test_both_given_and_unlike_stand_in_the_way() -> None:
    made = plan(session_of(DESKTOP, max_num_batched_tokens="4", max_num_seqs=9))
    told = next(b for b in made.blockers if b.code == "batch_conflict")
    assert "max_num_batched_tokens" in told.title
    assert "max_num_seqs" in told.title
    assert "batch_conflict" not in codes(plan(session_of(DESKTOP, max_num_batched_tokens="9", max_num_seqs=9)))


@pytest.mark.parametrize("method", ["awq", "gptq", "compressed-tensors"])
def test_a_method_that_only_reads_what_is_stored_so_stands_in_the_way(method: str) -> None:
    made = plan(session_of(DESKTOP, quantization=method))
    assert made.model is not None
    assert made.model.quantization is None
    assert "not_quantized_so" in codes(made)


def test_a_method_for_checkpoints_of_another_kind_stands_in_the_way() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-AWQ", quantization="gptq_marlin"))
    assert "not_quantized_so" in codes(made)


@pytest.mark.parametrize("method", ["fp8", "bitsandbytes", "mxfp8", "experts_int8"])
def test_what_quantizes_while_it_loads_stays(method: str) -> None:
    assert "not_quantized_so" not in codes(plan(session_of(DESKTOP, quantization=method)))


def test_a_model_that_is_stored_so_may_be_called_so() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B-AWQ", quantization="awq"))
    assert made.model is not None
    assert "not_quantized_so" not in codes(made)


@pytest.mark.parametrize(("key", "value"), [("max_model_len", 262144), ("gpu_memory_utilization", 0.999)])
def test_what_cannot_fit_is_said_to_not_fit(key: str, value: float) -> None:
    made = plan(session_of(DESKTOP, **{key: value}))
    told = next(b for b in made.blockers if b.code == "does_not_fit")
    assert told.title == "The model does not fit."
    assert "surely fit" not in made.reason("max_model_len")
    assert "1.00" not in told.detail


def test_what_may_fit_is_said_to_be_unsure() -> None:
    sure = plan(session_of(DESKTOP)).fit
    assert sure is not None
    between = int(sure.kv_cache_tokens.low + sure.kv_cache_tokens.best) // 2
    told = next(b for b in plan(session_of(DESKTOP, max_model_len=between, kv_cache_dtype="auto")).blockers)
    assert told.title == "It is not sure that the model fits."


@pytest.mark.parametrize(
    ("machine", "dtype", "release", "warned"),
    [
        ("native-t4", "fp8", "0.32.0", True),
        ("native-t4", "nvfp4", "0.32.0", True),
        ("wsl2-2x-rtx3090", "fp8", "0.32.0", False),
        ("wsl2-2x-rtx3090", "fp8_per_token_head", "0.32.0", True),
        (DESKTOP, "nvfp4", "0.32.0", False),
        (DESKTOP, "nvfp4_4over6", "0.32.0", True),
        (DESKTOP, "fp8", "0.32.0", False),
        ("native-t4", "fp8", "0.11.0", False),
    ],
)
def test_a_cache_type_that_the_card_cannot_have_is_warned_of(machine: str, dtype: str, release: str, warned: bool) -> None:
    made = plan(session_of(machine, kv_cache_dtype=dtype, release=release))
    assert ("kv_cache_unsupported" in {w.code for w in made.warnings}) is warned
