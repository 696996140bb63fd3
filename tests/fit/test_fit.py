"""The budget: what counts, what fits, what is said when it does not, and that it is fast and total."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fit.published import MODELS
from wizard.fit import (
    GIB,
    FitRequest,
    FitResult,
    GpuMemory,
    choose,
    choose_utilization,
    constants,
    fit,
    gpu_model,
    tp_problem,
    valid_tp,
    version_key,
    ways_out,
)
from wizard.fit_constants import constant
from wizard.fit_profile import capture_sizes, default_batch, runner
from wizard.fit_weights import allocated, stage_spans
from wizard.models.info import ModelInfo
from wizard.models.inspect import from_config
from wizard.models.quant import Quant


def model(name: str, **more: Any) -> ModelInfo:
    return from_config({**MODELS[name], **more}, source=name)


def on(name: str, gpu: str, total: float, release: str = "0.33.0", **more: Any) -> FitResult:
    return fit(model(name), FitRequest(release, int(total * GIB), gpu_name=gpu, **more))


RTX_4090 = {"gpu": "NVIDIA GeForce RTX 4090", "total": 23.52}


def test_fits_only_when_the_pessimistic_end_does() -> None:
    results = [on("Qwen3-8B", **RTX_4090, max_model_len=n) for n in range(8192, 40_960, 1024)]
    kinds = {(r.fits, r.fits_best) for r in results}
    assert (True, True) in kinds
    assert (False, True) in kinds
    assert (True, False) not in kinds
    for r in results:
        assert r.kv_cache_bytes.low <= r.kv_cache_bytes.best <= r.kv_cache_bytes.high
        assert (r.max_model_len_that_fits or 0) >= (r.max_model_len or 0) if r.fits else True
        assert r.fits or r.problems


def test_the_parts_add_up_to_the_budget() -> None:
    r = on("Qwen3-8B", **RTX_4090, release="0.21.0")
    parts = r.weights_bytes + r.activation_bytes + r.non_torch_bytes + r.cuda_graph_bytes + r.lora_bytes + r.draft_bytes + r.kv_cache_bytes.best
    assert parts == r.budget_bytes == int(int(23.52 * GIB) * 0.92)
    assert sum(line.bytes for line in r.lines) == r.budget_bytes
    assert all(line.reason for line in r.lines)


@pytest.mark.parametrize(("release", "share"), [("0.9.2", 0.9), ("0.19.1", 0.9), ("0.20.0", 0.92), ("0.33.0", 0.92), ("v0.33.0", 0.92), ("nightly", 0.92)])
def test_default_utilization(release: str, share: float) -> None:
    assert on("Qwen3-0.6B", "H100", 79.19, release).utilization == share


@pytest.mark.parametrize(("release", "counted"), [("0.19.1", False), ("0.20.2", True), ("0.21.0", True), ("0.23.0", False), ("0.28.0", False), ("0.29.0", True), ("0.33.0", True)])
def test_cuda_graphs_are_counted_by_release_and_runner(release: str, counted: bool) -> None:
    # dense and unquantized: the second model runner from 0.22 on, which estimates graphs from 0.29 on
    assert (on("Qwen3-8B", **RTX_4090, release=release).cuda_graph_bytes > 0) is counted
    assert on("Qwen3-8B", **RTX_4090, release=release, enforce_eager=True).cuda_graph_bytes == 0


def test_the_model_runner_by_release() -> None:
    def which(name: str, release: str, quant: str | None = None) -> str:
        return runner(model(name), Quant(quant), FitRequest(release, 24 * GIB))

    assert [which("Qwen3-8B", v) for v in ("0.21.0", "0.22.1", "0.24.0", "0.33.0")] == ["v1", "v2", "v2", "v2"]
    assert [which("Llama-3.1-8B", v) for v in ("0.22.1", "0.23.0")] == ["v1", "v2"]
    assert [which("Qwen3-30B-A3B", v) for v in ("0.24.0", "0.28.0", "0.30.0")] == ["v1", "v1", "v2"]
    assert which("Qwen3-8B", "0.23.0", "fp8") == "v1"


def test_free_memory_below_the_budget_stops_the_start() -> None:
    r = on("Qwen3-0.6B", **RTX_4090, gpu_free_bytes=21 * GIB)
    assert not r.fits
    assert "21.0" in r.problems[0]
    assert on("Qwen3-0.6B", **RTX_4090, gpu_free_bytes=22 * GIB).fits
    assert on("Qwen3-0.6B", **RTX_4090, gpu_free_bytes=21 * GIB, gpu_memory_utilization=0.85).fits


def test_windows_share_when_free_memory_is_not_known() -> None:
    r = on("Qwen3-0.6B", "RTX 3060", 12, wsl=True)
    assert not r.fits
    assert any("Windows" in n for n in r.notes)
    assert on("Qwen3-0.6B", "RTX 3060", 12, wsl=True, gpu_memory_utilization=0.85).fits
    assert on("Qwen3-0.6B", "H100", 79.19, wsl=True).fits


def test_unknown_architecture_is_not_guessed() -> None:
    info = from_config({**MODELS["Qwen3-8B"], "architectures": ["BrandNewForCausalLM"], "model_type": "brand_new"}, source="x")
    r = fit(info, FitRequest("0.33.0", 80 * GIB))
    assert not r.certain
    assert not r.fits
    assert r.kv_cache_tokens.best == 0
    assert r.max_model_len_that_fits is None
    assert any("not known" in n for n in r.notes)
    assert r.weights_bytes > 15 * GIB


def test_nothing_known_at_all() -> None:
    r = fit(ModelInfo("some/model", False, kv_layout_known=False), FitRequest("0.33.0", 24 * GIB))
    assert not r.fits
    assert not r.certain
    assert r.notes


def test_a_known_size_replaces_the_computed_one() -> None:
    info = model("Qwen3-8B")
    assert info.weight_bytes is not None
    bigger = from_config(MODELS["Qwen3-8B"], source="x", weight_bytes=int(info.weight_bytes * 1.05))
    request = FitRequest("0.19.0", 80 * GIB)
    assert fit(bigger, request).weights_bytes == pytest.approx(fit(info, request).weights_bytes * 1.05, rel=0.002)
    other = from_config(MODELS["Qwen3-8B"], source="x", weight_bytes=info.weight_bytes // 3)
    r = fit(other, request)
    assert r.weights_bytes == pytest.approx(info.weight_bytes / 3, rel=0.02)
    assert any("differ" in n for n in r.notes)


def test_more_sequences_and_tokens_cost_activation() -> None:
    small = on("Qwen3-8B", "H100", 79.19, "0.19.0", max_num_seqs=64, max_num_batched_tokens=2048)
    assert small.activation_bytes < 0.5 * on("Qwen3-8B", "H100", 79.19, "0.19.0").activation_bytes
    assert on("Qwen3-8B", "H100", 79.19, "0.19.0", max_num_batched_tokens=65_536).activation_bytes > 4 * GIB


def test_images_off_saves_the_encoder() -> None:
    seen = on("Qwen3.6-27B", "RTX 5090", 31.36, tensor_parallel_size=2)
    for off in ({"language_model_only": True}, {"limit_mm_per_prompt": {"image": 0, "video": 0}}):
        blind = on("Qwen3.6-27B", "RTX 5090", 31.36, tensor_parallel_size=2, **off)
        assert blind.activation_bytes < seen.activation_bytes - 0.5 * GIB
        assert blind.weights_bytes < seen.weights_bytes
    assert on("Qwen3.6-27B", "RTX 5090", 31.36, tensor_parallel_size=2, skip_mm_profiling=True).weights_bytes == seen.weights_bytes


def test_lora_slots_and_experts() -> None:
    dense = on("Qwen3-8B", "H100", 79.19, lora_slots=1, max_lora_rank=16).lora_bytes
    # A and B of rank 16 for four projections of 36 layers: (3 x 4096 + 6144) + (4096 + 4096) + (2 x 4096 + 24576) + (12288 + 4096), 16 bit
    assert dense == 36 * 16 * 2 * ((3 * 4096 + 6144) + (4096 + 4096) + (2 * 4096 + 24576) + (12288 + 4096))
    assert on("Qwen3-8B", "H100", 79.19, lora_slots=4, max_lora_rank=64).lora_bytes == 16 * dense
    assert on("Qwen3-30B-A3B", "H100", 79.19, lora_slots=1).lora_bytes > 5 * dense
    assert on("Qwen3-8B", "H100", 79.19).lora_bytes == 0


def test_draft_offload_and_prediction_layers() -> None:
    plain = on("Qwen3.6-27B", "H100", 79.19)
    assert on("Qwen3.6-27B", "H100", 79.19, draft_weight_bytes=GIB).kv_cache_bytes.best == plain.kv_cache_bytes.best - GIB
    assert on("Qwen3.6-27B", "H100", 79.19, cpu_offload_bytes=4 * GIB).weights_bytes == plain.weights_bytes - 4 * GIB
    mtp = on("Qwen3.6-27B", "H100", 79.19, num_speculative_tokens=2)
    assert mtp.weights_bytes > plain.weights_bytes + 0.5 * GIB
    assert mtp.kv_bytes_per_token == plain.kv_bytes_per_token * 17 // 16  # type: ignore[operator]


def test_a_pinned_pool_is_exact() -> None:
    r = on("Qwen3-8B", **RTX_4090, kv_cache_memory_bytes=2 * GIB)
    assert (r.kv_cache_bytes.low, r.kv_cache_bytes.best, r.kv_cache_bytes.high) == (2 * GIB, 2 * GIB, 2 * GIB)


def test_cpu_backend() -> None:
    info = model("Qwen3-0.6B")
    r = fit(info, FitRequest("0.32.0", 16 * GIB, gpu_name="CPU", cpu=True, extra={"VLLM_CPU_KVCACHE_SPACE": "1"}, max_model_len=2048))
    assert r.kv_cache_bytes.best == GIB
    assert r.cuda_graph_bytes == r.non_torch_bytes == 0
    assert r.kv_cache_tokens.best == GIB // (2 * 28 * 8 * 128 * 2) // 128 * 128
    assert r.fits


def test_expert_parallel_divides_whole_experts() -> None:
    cut = on("Qwen3-30B-A3B", "H100", 79.19, tensor_parallel_size=4)
    whole = on("Qwen3-30B-A3B", "H100", 79.19, tensor_parallel_size=4, expert_parallel=True)
    assert whole.weights_bytes == pytest.approx(cut.weights_bytes, rel=0.02)
    spread = on("Qwen3-30B-A3B", "H100", 79.19, data_parallel_size=4, expert_parallel=True)
    assert spread.weights_bytes < 0.35 * on("Qwen3-30B-A3B", "H100", 79.19).weights_bytes


def test_on_the_fly_quantization_and_dtype() -> None:
    assert on("Llama-3.1-8B", "H100", 79.19, "0.19.0", quantization="fp8").weights_bytes / GIB == pytest.approx(8.49, abs=0.01)
    assert on("Llama-3.1-8B", "H100", 79.19, "0.19.0", dtype="float32").weights_bytes / GIB == pytest.approx(29.98, abs=0.01)
    assert on("Llama-3.1-8B", "H100", 79.19, "0.19.0", dtype="float16").weights_bytes / GIB == pytest.approx(14.99, abs=0.01)


@pytest.mark.parametrize(("size", "want"), [(0, 0), (1, 512), (513, 1024), (9 * 2**20, 9 * 2**20), (33_030_144, 32 * 2**20), (25_690_112, 25_690_112), (259 * 2**20, 260 * 2**20)])
def test_allocator_rounding(size: int, want: int) -> None:
    assert allocated(size) == want


@pytest.mark.parametrize(("layers", "stages", "counts"), [(32, 4, [8, 8, 8, 8]), (62, 4, [15, 16, 16, 15]), (61, 4, [15, 15, 16, 15]), (3, 8, [1, 1, 1])])
def test_stages(layers: int, stages: int, counts: list[int]) -> None:
    assert [n for _, n in stage_spans(layers, stages)] == counts


def test_batch_defaults_by_release_and_size() -> None:
    def batch(release: str, total: float, gpu: str = "", length: int = 40_960) -> tuple[int, int]:
        b = default_batch(FitRequest(release, int(total * GIB), gpu_name=gpu), length)
        return b.seqs, b.tokens

    assert batch("0.19.0", 79.19, "H100") == (1024, 8192)
    assert batch("0.19.0", 79.25, "NVIDIA A100-SXM4-80GB") == (256, 2048)
    assert batch("0.19.0", 23.5) == (256, 2048)
    assert batch("0.33.0", 178.4, "B200") == (1024, 16384)
    assert batch("0.27.1", 178.4, "B200") == (1024, 8192)
    assert batch("0.6.6", 79.19, "H100", 20_000) == (256, 20_000)
    assert batch("0.6.6", 79.19, "H100", 131_072) == (256, 2048)


def test_capture_sizes() -> None:
    assert len(capture_sizes(256, 2048, 512)) == 51
    assert capture_sizes(8, 2048, 512) == [1, 2, 4, 8, 16]
    assert capture_sizes(1, 2048, 512) == [1, 2]


def test_every_constant_names_its_source_and_every_release_has_one() -> None:
    for key, entries in constants().items():
        if key == "about":
            continue
        assert all(e["source"] for e in entries), key
        for release in ("0.2.5", "0.6.6", "0.9.2", "0.15.1", "0.16.0", "0.17.1", "0.19.1", "0.20.2", "0.26.0", "0.33.0", "1.0.0"):
            if key in ("sampler",):
                assert constant(key, release, "v1")
                assert constant(key, release, "v2")
            else:
                found = constant(key, release)
                first, last = found["first"], found["last"]
                assert first is None or version_key(release) >= version_key(first), (key, release)
                assert last is None or version_key(release) <= version_key(last), (key, release)


def test_version_keys() -> None:
    assert version_key("v0.11.1") == (0, 11, 1)
    assert version_key("0.8.5.post1") == (0, 8, 5)
    assert version_key("0.9.2") < version_key("0.10.0") < version_key("0.33.0") < version_key("nightly")


@pytest.mark.parametrize(
    ("name", "found"),
    [("NVIDIA GeForce RTX 4090", "RTX 4090"), ("NVIDIA H100 80GB HBM3", "H100 80GB"), ("H100-80GB", "H100 80GB"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("Tesla V100-SXM2-32GB", "V100 32GB"),
     ("NVIDIA A100-SXM4-40GB", "A100 40GB"), ("NVIDIA A100-SXM4-80GB", "A100 80GB"), ("NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"), ("NVIDIA L4", "L4"), ("NVIDIA L40S", "L40S"),
     ("AMD Instinct MI300X", "MI300X"), ("Tesla T4", "T4"), ("Voodoo 2", None), ("", None)],
)  # fmt: skip
def test_gpus_by_name(name: str, found: str | None) -> None:
    known = gpu_model(name)
    assert (known.name if known else None) == found


# --- choosing ------------------------------------------------------------------------------------------------


def test_utilization_from_free_memory() -> None:
    assert choose_utilization(24 * GIB, None, 0.92)[0] == 0.92
    assert choose_utilization(24 * GIB, int(23.5 * GIB), 0.92)[0] == 0.92
    share, why = choose_utilization(24 * GIB, int(22.4 * GIB), 0.92, wsl=True)
    assert share == 0.90
    assert "1.6 GiB" in why
    assert "Windows" in why
    assert share * 24 < 22.4


@pytest.mark.parametrize(
    ("name", "valid"),
    [("Qwen3-8B", [1, 2, 4, 8]), ("Qwen2.5-7B", [1, 2, 4]), ("Qwen3-14B", [1, 2, 4, 8]), ("phi-4", [1, 2]), ("gpt-oss-20b", [1, 2, 4, 8]), ("DeepSeek-V2-Lite", [1, 2, 4, 8])],
)
def test_what_tensor_parallelism_divides(name: str, valid: list[int]) -> None:
    assert valid_tp(model(name), 8) == valid


def test_the_quantization_block_counts() -> None:
    info = model("Qwen3-30B-A3B", quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    assert tp_problem(info, 4) is not None  # 768 / 4 = 192 is no multiple of 128
    assert tp_problem(info, 2) is None
    assert tp_problem(model("Qwen3-30B-A3B"), 4) is None


def test_choosing_on_one_card() -> None:
    choice = choose(model("Qwen3-8B"), [GpuMemory(int(23.99 * GIB), int(22.4 * GIB), "RTX 4090")], "0.33.0", wsl=True)
    assert choice.result.fits
    assert choice.value("gpu_memory_utilization") == "0.90"
    assert int(choice.value("max_model_len") or 0) >= 16_384
    assert all(p.reason for p in choice.picks)


def test_choosing_two_cards_when_one_is_too_small() -> None:
    cards = [GpuMemory(int(23.58 * GIB), int(23.2 * GIB), "RTX 3090")] * 2
    choice = choose(model("Qwen3-14B"), cards, "0.33.0")
    assert choice.request.tensor_parallel_size == 2
    assert choice.result.fits
    assert choose(model("Qwen3-8B"), cards, "0.33.0").request.tensor_parallel_size == 1


def test_choosing_a_smaller_variant() -> None:
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128}
    choice = choose(model("Qwen3-32B"), [GpuMemory(int(23.52 * GIB), int(23.1 * GIB), "RTX 4090")], "0.33.0", variants=[model("Qwen3-32B", quantization_config=awq)])
    assert choice.result.fits
    assert choice.info is not None
    assert choice.info.quantization == "awq"


@pytest.mark.parametrize(("name", "gpu", "total"), [("Qwen3-32B", "RTX 4090", 23.52), ("Qwen3-8B", "RTX 3060", 11.63), ("gpt-oss-20b", "RTX 5080", 15.47), ("MiMo-VL-7B", "RTX 4060 Ti 16GB", 15.6), ("Qwen3-8B", "RTX 5060", 7.53)])
def test_ways_out_are_computed_and_work(name: str, gpu: str, total: float) -> None:
    info = model(name)
    request = FitRequest("0.33.0", int(total * GIB), gpu_name=gpu, gpu_free_bytes=int((total - 1.2) * GIB), gpu_memory_utilization=0.85)
    assert not fit(info, request).fits
    ways = ways_out(info, request)
    assert 1 <= len(ways) <= 3
    assert len({w.kind for w in ways}) == len(ways)
    for way in ways:
        keys = {"max_model_len", "tensor_parallel_size", "pipeline_parallel_size", "max_num_seqs"}
        numbers: dict[str, Any] = {k: int(v) for k, v in way.changes.items() if k in keys}
        if "gpu_memory_utilization" in way.changes:
            numbers["gpu_memory_utilization"] = float(way.changes["gpu_memory_utilization"])
        if "kv_cache_dtype" in way.changes or "quantization" in way.changes:
            numbers |= {k: way.changes[k] for k in ("kv_cache_dtype", "quantization") if k in way.changes}
        if way.kind in ("utilization", "shorter", "fewer_requests", "kv_dtype", "quantize", "more_gpus"):
            assert fit(info, replace(request, **numbers)).fits, way


def test_a_shorter_context_is_the_nearest_way_out() -> None:
    info = model("Qwen3-8B")
    request = FitRequest("0.33.0", int(23.52 * GIB), gpu_name="RTX 4090", max_model_len=65_536)
    ways = ways_out(info, request)
    assert ways[0].kind == "shorter"
    assert fit(info, replace(request, max_model_len=int(ways[0].changes["max_model_len"]))).fits


# --- total and fast ------------------------------------------------------------------------------------------


requests = st.builds(
    FitRequest, st.sampled_from(["0.6.3.post1", "0.9.2", "0.11.0", "0.16.0", "0.19.0", "0.22.1", "0.24.0", "0.28.0", "0.33.0", "weird"]),
    st.integers(1, 300).map(lambda g: g * GIB), st.none() | st.integers(0, 300).map(lambda g: g * GIB), st.sampled_from(["", "RTX 4090", "H100", "Voodoo", "L4"]),
    tensor_parallel_size=st.sampled_from([1, 2, 3, 4, 8]), pipeline_parallel_size=st.sampled_from([1, 2, 3, 80]), expert_parallel=st.booleans(),
    gpu_memory_utilization=st.none() | st.floats(0.05, 1), max_model_len=st.none() | st.integers(1, 2_000_000), max_num_seqs=st.none() | st.integers(1, 2000),
    max_num_batched_tokens=st.none() | st.integers(1, 70_000), kv_cache_dtype=st.sampled_from(["auto", "fp8", "int8_per_token_head", "odd"]),
    dtype=st.sampled_from(["auto", "float32", "half"]), quantization=st.none() | st.sampled_from(["fp8", "bitsandbytes", "odd"]), lora_slots=st.integers(0, 4),
    cpu=st.booleans(), num_speculative_tokens=st.integers(0, 5), wsl=st.booleans(), cpu_offload_bytes=st.sampled_from([0, 10 * GIB]),
)  # fmt: skip


@settings(max_examples=70, deadline=None)
@given(st.sampled_from(sorted(MODELS)), requests)
def test_fit_is_total(name: str, request: FitRequest) -> None:
    result = fit(model(name), request)
    assert result.kv_cache_bytes.low <= result.kv_cache_bytes.best <= result.kv_cache_bytes.high
    assert result.weights_bytes >= 0
    assert not (result.fits and result.problems)
    assert not (result.fits and not result.fits_best)
    assert result.fits or result.problems or result.notes


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["Qwen3-8B", "gemma-3-27b", "Qwen3-30B-A3B", "Qwen3.6-27B", "DeepSeek-V2-Lite"]), st.integers(8, 80), st.integers(1, 40))
def test_more_memory_never_holds_less(name: str, gib: int, more: int) -> None:
    info = model(name)
    small, large = (fit(info, FitRequest("0.19.0", g * GIB, gpu_name="RTX 4090", max_num_seqs=256, max_num_batched_tokens=2048)) for g in (gib, gib + more))
    assert large.kv_cache_tokens.best >= small.kv_cache_tokens.best
    assert (large.max_model_len_that_fits or 0) >= (small.max_model_len_that_fits or 0)
    assert large.fits or not small.fits


def test_it_is_fast_enough_to_run_after_every_key_press() -> None:
    info = model("Qwen3.6-27B")
    request = FitRequest("0.33.0", int(23.5 * GIB), gpu_name="RTX 4090", max_model_len=8192)
    fit(info, request)
    best = min(_timed(info, request) for _ in range(5))
    assert best < 0.002


def _timed(info: ModelInfo, request: FitRequest) -> float:
    start = time.process_time()
    for _ in range(20):
        fit(info, request)
    return (time.process_time() - start) / 20


@pytest.mark.parametrize(
    ("name", "found", "gib"),
    [
        ("NVIDIA GeForce RTX 3060 Ti", "RTX 3060 Ti", 8), ("NVIDIA GeForce RTX 3060", "RTX 3060", 12), ("RTX 5060 Ti 8GB", "RTX 5060 Ti 8GB", 8),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "RTX 3080 Ti Laptop", 16), ("NVIDIA A2", "A2", 16), ("NVIDIA A20", None, 0), ("L20", "L20", 48),
        ("RX 7900 XT", "RX 7900 XT", 20), ("RX 7900 XTX", "RX 7900 XTX", 24), ("NVIDIA GB10", "GB10", 128), ("H20-3e", "H20 141GB", 141),
    ],
)  # fmt: skip
def test_cards_of_like_names_are_told_apart(name: str, found: str | None, gib: int) -> None:
    card = gpu_model(name)
    assert (card.name if card is not None else None) == found
    if card is not None:
        assert gib * 0.9 <= card.total_bytes / GIB <= gib


@pytest.mark.parametrize(
    ("request_", "outside", "graphs"),
    [
        ({"gpu_name": "NVIDIA H200"}, "CUDA context", "CUDA graphs"),
        ({"gpu_name": "AMD Instinct MI300X"}, "HIP context", "HIP graphs"),
        ({"gpu_name": "MI300X"}, "HIP context", "HIP graphs"),
        ({"gpu_name": "0x74a1", "amd": True}, "HIP context", "HIP graphs"),
    ],
)
def test_memory_lines_name_what_the_device_has(request_: dict[str, Any], outside: str, graphs: str) -> None:
    from wizard.releases import newest

    made = fit(model("Qwen3-8B"), FitRequest(newest(), int(140 * GIB), **request_))
    lines = {line.key: line for line in made.lines}
    assert lines["non_torch"].reason.startswith(outside)
    assert lines["cuda_graph"].title == graphs
    assert lines["cuda_graph"].reason.startswith(graphs)


def test_the_cpu_has_no_such_lines() -> None:
    from wizard.fit_types import Calibration
    from wizard.releases import newest

    request = FitRequest(newest(), int(64 * GIB), gpu_name="CPU", cpu=True)
    for measured in (None, Calibration(newest(), non_torch_bytes=GIB)):
        told = " ".join(f"{line.title} {line.reason}" for line in fit(model("Qwen3-8B"), request, measured).lines)
        assert "CUDA" not in told
        assert "HIP" not in told
