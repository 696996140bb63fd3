"""Sizes of a plan: what is measured, set or brought along counts, and what does not surely fit is blocked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.plan.conftest import NAMES, bare, session_of
from wizard import releases
from wizard.fit import GIB, Calibration, Calibrations, FitRequest, fit
from wizard.fit_settings import apply_values
from wizard.models.info import Issue
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.recipes import Variant
from wizard.releases.parse import take_apart
from wizard.session import Session, Value

SERVING = [n for n in NAMES if plan(bare(n)).blockers == ()]


def on(name: str, variant: Variant, **answers: Value) -> Plan:
    session = bare(name).with_model(variant.model_id, variant.model_info()).answer("model", variant.model_id)
    for key, value in answers.items():
        session = session.answer(key, value)
    return plan(session)


def variants() -> list[Variant]:
    return [v for _recipe, v in bare(NAMES[0]).recipes.variants()]


def from_argv(made: Plan) -> FitRequest:
    """The request that the written command amounts to, read from its words alone."""
    assert made.fit_request is not None
    assert made.release is not None
    known = made.fit_request
    bed = FitRequest(
        known.release, known.gpu_total_bytes, known.gpu_free_bytes, known.gpu_name, known.compute_capability, known.gpus,
        wsl=known.wsl, cpu=known.cpu, nvlink=known.nvlink,
    )  # fmt: skip
    values = {}
    for argument in take_apart(made.argv, made.release):
        if argument.option is not None:
            off = argument.flag.startswith("--no-")
            values[argument.option.dest] = argument.values[0] if argument.values else "false" if off else "true"
    return apply_values(bed, {**values, **made.env})


def faults_of(made: Plan) -> Iterator[str]:
    """What is wrong with a plan's promise to fit."""
    if made.fit is None or made.model is None:
        return
    if not made.fit.fits and not made.blockers and made.model.weight_bytes is not None:
        yield "does not surely fit, and nothing says so"
    if made.blockers or not made.argv:
        return
    again = fit(made.model, from_argv(made))
    if made.fit.certain and not again.fits:
        yield f"the written command does not fit: {again.problems}"
    promised, got = made.fit.kv_cache_bytes.best, again.kv_cache_bytes.best
    if made.fit.certain and promised > got * 1.005 + GIB * 0.05:
        yield f"the written command leaves {got / GIB:.2f} GiB, the plan promises {promised / GIB:.2f}"


def test_a_sample_of_recipes_on_all_machines_is_never_promised_too_much() -> None:
    chosen = random.Random(4)
    wrong = []
    for name in NAMES:
        for variant in chosen.sample(variants(), 3):
            intent = chosen.choice(["chat", "agent", "longest", "throughput", "lora", None])
            made = on(name, variant) if intent is None else on(name, variant, intent=intent)
            wrong += [f"{name} {variant.model_id} {intent}: {fault}" for fault in faults_of(made)]
    assert wrong == []


@pytest.mark.slow
def test_no_recipe_on_any_machine_is_promised_too_much() -> None:
    wrong = []
    for name in NAMES:
        for variant in variants():
            for intent in ("chat", "agent", "vision", "longest", "throughput", "lora"):
                made = on(name, variant, intent=intent)
                wrong += [f"{name} {variant.model_id} {intent}: {fault}" for fault in faults_of(made)]
    assert wrong == []


@pytest.mark.parametrize("name", SERVING)
def test_the_models_own_plan_of_a_machine_keeps_its_promise(name: str) -> None:
    assert list(faults_of(plan(bare(name)))) == []


def measured(session: Session, made: Plan, **figures: int) -> Session:
    assert made.fit_request is not None
    assert made.model is not None
    source = made.model.repo_id or made.model.source
    return replace(session, calibrations=Calibrations().with_entry(made.fit_request, source, Calibration("", **figures)))


def test_figures_measured_on_this_machine_are_used_and_said() -> None:
    session = bare("native-rtx5090")
    plain = plan(session)
    assert plain.fit is not None
    made = plan(measured(session, plain, activation_bytes=plain.fit.activation_bytes + 3 * GIB))
    assert made.fit is not None
    assert made.fit.activation_bytes == plain.fit.activation_bytes + 3 * GIB
    assert made.fit.kv_cache_bytes.best < plain.fit.kv_cache_bytes.best - 2.9 * GIB
    assert "measured" in made.reason("max_model_len")
    assert any("measured" in note for note in made.notes)
    assert not any("measured" in note for note in plain.notes)


def test_throughput_on_several_gpus_is_written_as_replicas() -> None:
    small = next(v for v in variants() if v.model_id == "Qwen/Qwen3-8B")
    made = on("native-4x-h200", small, intent="throughput")
    assert made.argv[made.argv.index("--data-parallel-size") + 1] == "4"
    assert made.gpus == (0, 1, 2, 3)
    assert "replicas" in made.reason("data_parallel_size")
    older = on("native-4x-h200", small, intent="throughput", release="0.8.2")
    assert "--data-parallel-size" not in older.argv


def test_an_answer_wins_over_a_proposed_parallel_size() -> None:
    small = next(v for v in variants() if v.model_id == "Qwen/Qwen3-8B")
    made = on("native-4x-h200", small, intent="throughput", data_parallel_size="2")
    assert made.argv[made.argv.index("--data-parallel-size") + 1] == "2"
    assert made.argv.count("--data-parallel-size") == 1
    assert len(made.gpus) % 2 == 0
    too_many = on("native-4x-h200", small, pipeline_parallel_size="8")
    assert "layout_over_gpus" in {b.code for b in too_many.blockers}


def test_the_cache_of_a_processor_is_what_the_user_set() -> None:
    made = plan(session_of("cpu-only-laptop"))
    assert made.fit is not None
    space = int(made.env["VLLM_CPU_KVCACHE_SPACE"])
    assert made.fit.kv_cache_bytes.best == space * GIB
    session = bare("cpu-only-laptop")
    own = plan(session.answer("env.VLLM_CPU_KVCACHE_SPACE", "1"))
    assert own.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert own.fit is not None
    assert own.fit.kv_cache_bytes.best == GIB
    inherited = plan(replace(session, environment={**session.environment, "VLLM_CPU_KVCACHE_SPACE": "1"}))
    assert inherited.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    huge = plan(session.answer("env.VLLM_CPU_KVCACHE_SPACE", "4000"))
    assert "does_not_fit" in {b.code for b in huge.blockers}


def test_what_a_blocker_offers_is_computed_and_at_most_three() -> None:
    large = next(v for v in variants() if v.model_id == "Qwen/Qwen3-32B")
    made = on("wsl2-rtx3060-model-on-d", large)
    blocker = next(b for b in made.blockers if b.code == "does_not_fit")
    assert made.fit is not None
    assert 1 <= len(made.fit.ways_out) <= 3
    assert all(way.text in blocker.detail for way in made.fit.ways_out)


def test_the_rank_of_adapters_counts() -> None:
    made = plan(session_of("native-4x-h200"))
    assert made.fit_request is not None
    assert str(made.fit_request.max_lora_rank) == made.argv[made.argv.index("--max-lora-rank") + 1]
    assert made.fit_request.lora_slots >= 1


def test_options_set_by_hand_count() -> None:
    made = plan(session_of("native-rtx5090", speculative_config='{"method": "ngram", "num_speculative_tokens": 4}', block_size="32"))
    assert made.fit_request is not None
    assert made.fit_request.num_speculative_tokens == 4
    assert made.fit_request.block_size == 32
    assert releases.load(made.fit_request.release).version == made.fit_request.release


def test_a_folder_without_weights_is_no_model_to_serve() -> None:
    session = bare("native-rtx5090")
    source = next(f.path for f in session.found if f.complete)
    info = session.models[source]
    empty = replace(info, issues=(Issue("no_weights", source, "no weights are there", fatal=False),))
    made = plan(session.with_model(source, empty).answer("model", source))
    assert "model_no_weights" in {b.code for b in made.blockers}


def test_a_fault_of_the_files_is_said_once() -> None:
    session = bare("native-rtx5090")
    source = next(f.path for f in session.found if f.complete)
    cut = replace(session.models[source], servable=False, issues=(Issue("truncated", "model.safetensors", "the file is cut off"),))
    made = plan(session.with_model(source, cut).answer("model", source))
    assert {b.code for b in made.blockers} == {"model_truncated"}
