"""Over how many GPUs, and how: by what divides, by the links, by the purpose and by what the release takes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fit.published import MODELS
from wizard.fit import GIB, Aim, Calibration, Calibrations, Choice, FitRequest, GpuMemory, choose, fit
from wizard.fit_layout import ALL_OPTIONS, tp_problem
from wizard.models.info import ModelInfo
from wizard.models.inspect import from_config

H200 = GpuMemory(int(139.8 * GIB), int(139.0 * GIB), "NVIDIA H200", "9.0")
L40S = GpuMemory(int(44.4 * GIB), int(44.0 * GIB), "NVIDIA L40S", "8.9")
RTX3090 = GpuMemory(int(23.58 * GIB), int(23.2 * GIB), "NVIDIA GeForce RTX 3090", "8.6")
CHAT = Aim(16_384, 16, room=4)
MANY = Aim(8192, 256, room=4, throughput=True)
DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "vocab_size": 129280, "max_position_embeddings": 163840, "torch_dtype": "bfloat16", "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


def model(name: str, **more: Any) -> ModelInfo:
    return from_config({**MODELS[name], **more}, source=name)


def chosen(info: ModelInfo, card: GpuMemory, count: int, aim: Aim, **more: Any) -> Choice:
    return choose(info, [card] * count, more.pop("release", "0.33.0"), aim=aim, **more)


def shape(choice: Choice) -> tuple[int, int, int, bool]:
    r = choice.request
    return r.tensor_parallel_size, r.pipeline_parallel_size, r.data_parallel_size, r.expert_parallel


def test_one_gpu_with_room_is_enough_for_a_chat() -> None:
    choice = chosen(model("Qwen3-8B"), H200, 4, CHAT)
    assert shape(choice) == (1, 1, 1, False)
    assert "one GPU" in next(p.reason for p in choice.picks if p.key == "tensor_parallel_size")


def test_a_small_model_for_throughput_gets_replicas_with_the_reason() -> None:
    choice = chosen(model("Qwen3-8B"), L40S, 4, MANY)
    assert shape(choice) == (1, 1, 4, False)
    assert "replicas" in next(p.reason for p in choice.picks if p.key == "data_parallel_size")
    without = chosen(model("Qwen3-8B"), L40S, 4, MANY, allowed=ALL_OPTIONS - {"data_parallel_size"})
    assert without.request.data_parallel_size == 1


def test_replicas_of_two_gpus_each_where_one_is_too_small() -> None:
    choice = chosen(model("Qwen3-32B"), L40S, 4, MANY)
    assert shape(choice)[0] * shape(choice)[2] == 4
    assert shape(choice)[2] > 1
    assert choice.result.fits


def test_links_decide_how_many_gpus_a_layer_is_split_over() -> None:
    big = model("Llama-3.3-70B-FP8")
    assert shape(chosen(big, H200, 4, Aim(131_072, 64, room=16))) == (4, 1, 1, False)
    fewest = chosen(big, L40S, 4, Aim(4096, 1, room=1))
    assert shape(fewest) == (2, 1, 1, False)
    assert "NVLink" in next(p.reason for p in fewest.picks if p.key == "tensor_parallel_size")
    wsl = chosen(model("Qwen3-14B"), RTX3090, 2, CHAT, wsl=True)
    assert shape(wsl) == (2, 1, 1, False)
    assert "WSL" in next(p.reason for p in wsl.picks if p.key == "tensor_parallel_size")


def test_stages_where_heads_do_not_divide_and_for_throughput_without_nvlink() -> None:
    three = chosen(model("Qwen3-14B"), RTX3090, 3, Aim(32_768, 8, room=4))
    assert shape(three)[:2] == (1, 3)
    assert "divide" in next(p.reason for p in three.picks if p.key == "pipeline_parallel_size")
    many = chosen(model("Llama-3.3-70B-FP8"), L40S, 2, MANY)
    assert shape(many)[:2] == (1, 2)
    assert "NVLink" in next(p.reason for p in many.picks if p.key == "pipeline_parallel_size")


def test_a_model_without_pipeline_support_gets_no_stages() -> None:
    config = {**MODELS["Qwen3-14B"], "architectures": ["DeepseekV32ForCausalLM"]}
    choice = chosen(from_config(config, source="x"), RTX3090, 3, Aim(32_768, 8, room=4))
    assert choice.request.pipeline_parallel_size == 1


def test_experts_stay_whole_where_slices_break_the_quantization_block() -> None:
    info = model("Qwen3-235B-FP8")
    assert "quantization block" in (tp_problem(info, 8) or "")
    assert tp_problem(info, 8, expert_parallel=True) is None or "KV heads" in (tp_problem(info, 8, expert_parallel=True) or "")
    cards = GpuMemory(int(79.19 * GIB), int(78.5 * GIB), "NVIDIA H100 80GB HBM3", "9.0")
    choice = chosen(info, cards, 8, Aim(131_072, 64, room=16))
    assert choice.request.tensor_parallel_size == 8
    assert choice.request.expert_parallel
    assert "whole" in next(p.reason for p in choice.picks if p.key == "enable_expert_parallel")
    assert chosen(info, cards, 8, CHAT, allowed=frozenset()).request.expert_parallel is False


def test_latent_attention_for_throughput_is_data_parallel_with_spread_experts() -> None:
    info = from_config(DEEPSEEK_V3, source="deepseek-ai/DeepSeek-V3")
    choice = chosen(info, H200, 8, MANY)
    assert shape(choice) == (1, 1, 8, True)
    assert "copy" in next(p.reason for p in choice.picks if p.key == "data_parallel_size")
    assert choice.result.fits
    assert shape(chosen(info, H200, 8, CHAT))[0] == 8
    assert shape(chosen(info, H200, 8, MANY, allowed=frozenset({"pipeline_parallel_size"})))[2:] == (1, False)


def test_ranks_of_a_mixture_model_share_its_experts_and_replicas_of_a_dense_one_share_nothing() -> None:
    request = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", max_model_len=8192)
    moe, dense = model("Qwen3-30B-A3B"), model("Qwen3-14B")
    whole = fit(moe, request).weights_bytes
    for ep in (False, True):
        part = fit(moe, FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", max_model_len=8192, data_parallel_size=4, expert_parallel=ep)).weights_bytes
        assert whole * 0.25 < part < whole * 0.35
    replica = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", max_model_len=8192, data_parallel_size=4)
    assert fit(dense, replica).weights_bytes == fit(dense, request).weights_bytes
    assert fit(dense, replica).non_torch_bytes == fit(dense, request).non_torch_bytes


def test_no_expert_parallelism_beside_adapters_or_for_gguf() -> None:
    base = FitRequest("0.33.0", H200.total_bytes, lora_slots=1)
    assert not chosen(model("Qwen3-30B-A3B"), H200, 4, MANY, base=base).request.expert_parallel


def test_what_the_user_set_stays() -> None:
    base = FitRequest("0.33.0", L40S.total_bytes, pipeline_parallel_size=2)
    choice = chosen(model("Qwen3-8B"), L40S, 4, CHAT, base=base, fixed=frozenset({"pipeline_parallel_size"}))
    assert choice.request.pipeline_parallel_size == 2
    spread_experts = FitRequest("0.33.0", H200.total_bytes, expert_parallel=True)
    assert shape(chosen(model("Qwen3-30B-A3B"), H200, 4, CHAT, base=spread_experts, fixed=frozenset({"enable_expert_parallel"}))) == (4, 1, 1, True)
    two = FitRequest("0.33.0", L40S.total_bytes, data_parallel_size=2)
    assert shape(chosen(model("Qwen3-32B"), L40S, 4, CHAT, base=two, fixed=frozenset({"data_parallel_size"}))) == (2, 1, 2, False)
    impossible = chosen(model("Qwen3-8B"), L40S, 2, CHAT, base=FitRequest("0.33.0", 1, tensor_parallel_size=3))
    assert impossible.request.tensor_parallel_size == 3


def test_weights_in_ram_are_the_last_resort() -> None:
    card = GpuMemory(int(15.6 * GIB), int(15.2 * GIB), "RTX 4060 Ti 16GB", "8.9")
    info = model("Qwen3-8B")
    none = chosen(info, card, 1, CHAT)
    assert none.value("cpu_offload_gb") is None
    assert not none.result.fits
    with_ram = chosen(info, card, 1, CHAT, ram_free_bytes=64 * GIB)
    assert with_ram.result.fits
    assert int(with_ram.value("cpu_offload_gb") or 0) in (2, 4)
    assert chosen(info, card, 1, CHAT, ram_free_bytes=2 * GIB).value("cpu_offload_gb") is None
    assert chosen(info, card, 1, CHAT, ram_free_bytes=64 * GIB, allowed=frozenset()).value("cpu_offload_gb") is None
    # before 0.30 it needs pinned memory, which vLLM turns off on WSL
    old = chosen(info, card, 1, CHAT, ram_free_bytes=64 * GIB, wsl=True, release="0.24.0")
    assert old.value("cpu_offload_gb") is None


def test_a_long_context_that_was_asked_for_is_not_paid_with_slow_answers() -> None:
    card = GpuMemory(int(23.52 * GIB), int(23.2 * GIB), "RTX 4090", "8.9")
    asked = FitRequest("0.33.0", card.total_bytes, max_model_len=131_072)
    choice = chosen(model("Qwen3-8B", max_position_embeddings=131_072), card, 1, CHAT, base=asked, ram_free_bytes=64 * GIB)
    assert choice.value("cpu_offload_gb") is None
    assert choice.value("kv_cache_dtype") == "auto"
    assert not choice.result.fits
    assert choice.result.ways_out
    shorter = FitRequest("0.33.0", card.total_bytes, max_model_len=60_000)
    halved = chosen(model("Qwen3-8B", max_position_embeddings=131_072), card, 1, CHAT, base=shorter)
    assert halved.value("kv_cache_dtype") == "fp8"
    assert halved.result.fits


def test_requests_at_once_never_make_the_start_fail() -> None:
    for name, card in (("gemma-2-9b", RTX3090), ("Qwen3-8B", GpuMemory(int(19.6 * GIB), int(19.2 * GIB), "RTX 4000 Ada", "8.9"))):
        choice = chosen(model(name), card, 1, Aim(4096, 256, room=4, throughput=True))
        assert choice.result.fits, name


# --- figures measured on this machine ------------------------------------------------------------------------


def test_a_calibration_of_that_split_is_used_and_no_other() -> None:
    info = model("Qwen3-8B")
    base = FitRequest("0.33.0", H200.total_bytes, gpu_name=H200.name, gpus=1)
    kept = Calibrations().with_entry(base, "Qwen3-8B", Calibration("0.33.0", activation_bytes=9 * GIB, non_torch_bytes=GIB))
    choice = chosen(info, H200, 1, CHAT, calibration=kept)
    assert choice.result.calibrated
    assert choice.result.activation_bytes == 9 * GIB
    assert "measured" in next(p.reason for p in choice.picks if p.key == "max_model_len")
    assert any("measured" in line.reason for line in choice.result.lines if line.key == "activation")
    other = Calibrations().with_entry(FitRequest("0.33.0", H200.total_bytes, gpu_name=H200.name, tensor_parallel_size=2), "Qwen3-8B", Calibration("0.33.0", activation_bytes=9 * GIB))
    assert not chosen(info, H200, 1, CHAT, calibration=other).result.calibrated


def test_a_measured_peak_is_scaled_to_another_step() -> None:
    info = model("Qwen3-8B")
    request = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", max_num_seqs=256, max_num_batched_tokens=8192)
    plain = fit(info, request)
    measured = Calibration(
        "0.33.0", activation_bytes=int(plain.activation_bytes * 1.5), activation_predicted_bytes=plain.activation_bytes,
        max_num_seqs=plain.max_num_seqs, max_num_batched_tokens=plain.max_num_batched_tokens,
    )  # fmt: skip
    assert fit(info, request, measured).activation_bytes == measured.activation_bytes
    smaller = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", max_num_seqs=16, max_num_batched_tokens=2048)
    assert fit(info, smaller, measured).activation_bytes == pytest.approx(fit(info, smaller).activation_bytes * 1.5, rel=0.001)


# --- a pool of a set size ------------------------------------------------------------------------------------


def test_a_pool_that_is_asked_for_must_find_room() -> None:
    info = model("Qwen3-8B")
    card = FitRequest("0.33.0", int(23.5 * GIB), int(23 * GIB), gpu_name="RTX 4090", max_model_len=8192, kv_cache_memory_bytes=2 * GIB)
    assert fit(info, card).fits
    from dataclasses import replace

    wide = fit(info, replace(card, kv_cache_memory_bytes=9 * GIB))
    assert not wide.fits
    assert "9.0 GiB" in wide.problems[0]
    ram = FitRequest("0.32.0", 32 * GIB, 28 * GIB, gpu_name="CPU", cpu=True, max_model_len=8192, extra={"VLLM_CPU_KVCACHE_SPACE": "4"})
    assert fit(info, ram).kv_cache_bytes.best == 4 * GIB
    assert fit(info, ram).fits
    assert not fit(info, replace(ram, extra={"VLLM_CPU_KVCACHE_SPACE": "20"})).fits


def test_a_draft_whose_size_is_not_known_is_said() -> None:
    from wizard.fit_settings import apply_settings

    notes: list[str] = []
    request = FitRequest("0.33.0", int(23.5 * GIB), gpu_name="RTX 4090", max_model_len=8192)
    drafted = apply_settings(request, ['speculative_config={"model": "org/eagle", "method": "eagle3", "num_speculative_tokens": 3}'], notes)
    result = fit(model("Qwen3-8B"), drafted)
    assert not result.certain
    assert any("org/eagle" in note for note in result.notes)
    ngram = apply_settings(request, ['speculative_config={"method": "ngram", "num_speculative_tokens": 3}'], notes)
    assert fit(model("Qwen3-8B"), ngram).certain


def test_the_stage_with_the_fewest_blocks_decides() -> None:
    # 61 layers in four stages: one of 16, which has less room for each block than the last with its head
    info = from_config({**DEEPSEEK_V3, "quantization_config": None, "n_routed_experts": 8, "num_nextn_predict_layers": 0}, source="x")
    request = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", pipeline_parallel_size=4, max_model_len=8192, max_num_seqs=16, max_num_batched_tokens=2048)
    got = fit(info, request)
    assert got.kv_bytes_per_token is not None
    assert got.kv_bytes_per_token >= 16 * 576 * 2


def test_what_the_weights_alone_rule_out_is_said_where_nothing_near_helps() -> None:
    from wizard.fit import ways_out

    huge = from_config(DEEPSEEK_V3, source="x")
    request = FitRequest("0.33.0", RTX3090.total_bytes, gpu_name="RTX 3090")
    (way,) = ways_out(huge, request)
    assert way.kind == "more_gpus"
    assert "at least 3" in way.text
    unknown = ModelInfo("x/y", False, weight_bytes=100 * GIB, kv_layout_known=False)
    smaller = ModelInfo("x/y-small", False, weight_bytes=10 * GIB, kv_layout_known=False)
    assert [w.kind for w in ways_out(unknown, request, variants=[smaller])] == ["variant", "more_gpus"]
    assert ways_out(smaller, request) == ()


def test_an_unknown_layout_goes_over_as_many_gpus_as_its_weights_need() -> None:
    big = from_config({**MODELS["Qwen2.5-72B"], "model_type": "unheard_of", "architectures": ["UnheardOfForCausalLM"]}, source="x")
    assert not big.kv_layout_known
    assert shape(chosen(big, H200, 4, CHAT)) == (4, 1, 1, False)
    assert shape(chosen(big, L40S, 4, CHAT)) == (4, 1, 1, False)
    small = from_config({**MODELS["Qwen3-8B"], "model_type": "unheard_of", "architectures": ["UnheardOfForCausalLM"]}, source="x")
    assert shape(chosen(small, L40S, 4, CHAT)) == (1, 1, 1, False)


def test_a_quantized_latent_projection_is_also_kept_in_16_bit() -> None:
    request = FitRequest("0.33.0", H200.total_bytes, gpu_name="H200", tensor_parallel_size=8)
    plain = {k: v for k, v in DEEPSEEK_V3.items() if k != "quantization_config"}
    small = {**plain, "num_hidden_layers": 4, "first_k_dense_replace": 4}
    whole = fit(from_config(small, source="x"), request).weights_bytes
    copies = 4 * 128 * 256 * 512 * 2 // 8
    quantized = fit(from_config({**small, "quantization_config": DEEPSEEK_V3["quantization_config"]}, source="x"), request)
    linear = 4 * (7168 * (1536 + 576) * 8 + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168 + 3 * 7168 * 18432) // 8
    assert quantized.weights_bytes == pytest.approx(whole - linear + copies, rel=0.006)
