"""The KV cache as vLLM cuts it: figures that its logs print, and rules of its own code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fit.published import MODELS
from tests.fit.test_real_cpu import CASES
from wizard.fit import GIB, FitRequest, fit
from wizard.fit_kv import Pool, plan_pool
from wizard.fit_profile import Batch
from wizard.models.info import KvLayer, LayerKind
from wizard.models.inspect import from_config

FULL = KvLayer(LayerKind.FULL, 32, 8, 128)


def pool(*layers: KvLayer, release: str = "0.19.0", element: float = 2, tokens: int = 8192, length: int | None = 8192, **more: Any) -> Pool:
    cut = plan_pool(layers, request=FitRequest(release, 80 * GIB, **more), batch=Batch(256, tokens), element=element, max_len=length)
    assert cut is not None
    return cut


def test_plain_attention() -> None:
    cut = pool(FULL)
    assert cut.bytes_per_token == 2 * 32 * 8 * 128 * 2
    assert cut.block_bytes == cut.bytes_per_token * 16
    assert cut.tokens(cut.block_bytes * 100 + 5, 8192) == 1600
    assert cut.longest(cut.block_bytes * 100, 10_000) == 1600
    assert cut.longest(cut.block_bytes * 100, 1000) == 1000
    assert cut.longest(0, 1000) == 0


def test_a_printed_log_of_gemma_3_12b() -> None:
    """0.19.0 on an H100: 47.72 GiB, 130,304 tokens, 15.88 requests of 8,192 tokens (llm-d-planner's log)."""
    info = from_config(MODELS["gemma-3-12b"], source="x")
    result = fit(info, FitRequest("0.19.0", 80 * GIB, gpu_name="H100", max_model_len=8192, kv_cache_memory_bytes=int(47.72 * GIB)))
    assert result.kv_cache_tokens.best == pytest.approx(130_304, abs=16)
    assert result.concurrency == pytest.approx(15.88, abs=0.01)


def test_a_printed_log_of_a_hybrid() -> None:
    """0.24.0: 5.98 GiB at fp8 hold 567,978 tokens at 131,072 with prefix caching (club-3090 issue 612)."""
    info = from_config(MODELS["Qwen3.6-35B-A3B-NVFP4"], source="x")
    request = FitRequest("0.24.0", 32 * GIB, max_model_len=131_072, kv_cache_dtype="fp8", enable_prefix_caching=True, kv_cache_memory_bytes=int(5.98 * GIB))
    result = fit(info, request)
    assert result.kv_cache_tokens.best == 567_978
    more = fit(info, replace(request, kv_cache_memory_bytes=int(6.01 * GIB)))
    assert more.kv_cache_tokens.best == 569_878


# printed by vLLM 0.32.0's CPU build with 1 GiB of cache at 2,048 tokens, see test_real_cpu.py, without AVX512-BF16
PRINTED = {"dense": 524_288, "mixture": 1_398_016, "sliding": 332_222, "sliding, uneven": 335_544, "sinks": 508_400, "shared": 671_088, "latent": 310_688, "states": 986_895, "states in 32 bit": 932_010, "first states": 1_525_201, "delta net": 2_396_745}


# the same on a processor with AVX512-BF16 and AMX, where it differs
PRINTED_WIDE = {"states": 745_608, "delta net": 1_864_021}
OLD, BF16, AMX = frozenset({"avx2"}), frozenset({"avx2", "avx512f", "avx512_bf16"}), frozenset({"avx2", "avx512f", "avx512_bf16", "amx_tile"})


def cpu_tokens(name: str, flags: frozenset[str] | None, release: str = "0.32.0", **more: Any) -> int:
    request = FitRequest(release, 16 * GIB, cpu=True, cpu_flags=flags, max_model_len=2048, max_num_seqs=8, max_num_batched_tokens=2048, extra={"VLLM_CPU_KVCACHE_SPACE": "1"})
    return int(fit(from_config(CASES[name], source="tiny"), replace(request, **more)).kv_cache_tokens.best)


@pytest.mark.parametrize(("name", "tokens"), PRINTED.items())
def test_what_a_real_server_printed(name: str, tokens: int) -> None:
    assert cpu_tokens(name, OLD) == tokens


@pytest.mark.parametrize(("name", "tokens"), PRINTED_WIDE.items())
def test_what_a_real_server_printed_with_wide_states(name: str, tokens: int) -> None:
    assert cpu_tokens(name, AMX) == tokens < PRINTED[name]
    assert cpu_tokens(name, BF16) == tokens
    assert cpu_tokens(name, None) == tokens, "where nothing is known of the processor, the smaller figure is told"


@pytest.mark.parametrize(("name", "flags", "said"), [("states", AMX, "on this processor"), ("states", None, "are not known"), ("states", OLD, ""), ("dense", AMX, ""), ("states in 32 bit", AMX, "")])
def test_wide_states_are_said(name: str, flags: frozenset[str] | None, said: str) -> None:
    result = fit(from_config(CASES[name], source="tiny"), FitRequest("0.32.0", 16 * GIB, cpu=True, cpu_flags=flags, max_model_len=2048))
    notes = [note for note in result.notes if "32 bit" in note]
    assert (said in notes[0]) if said else not notes


@pytest.mark.parametrize(("release", "flags", "wide"), [("0.25.1", AMX, False), ("0.26.0", BF16, False), ("0.26.0", AMX, True), ("0.28.0", BF16, False), ("0.29.0", BF16, True), ("0.33.0", BF16, True)])
def test_the_releases_that_widen_states_on_some_processors(release: str, flags: frozenset[str], wide: bool) -> None:
    assert (cpu_tokens("states", flags, release) < cpu_tokens("states", OLD, release)) == wide
    info = from_config(CASES["states"], source="tiny")
    card = FitRequest(release, 16 * GIB, gpu_name="L4", kv_cache_memory_bytes=GIB)
    assert fit(info, replace(card, cpu_flags=flags)).kv_cache_tokens == fit(info, card).kv_cache_tokens, "a card's states do not depend on the processor"


@pytest.mark.parametrize(("name", "release", "kept"), [("states", "0.32.0", False), ("delta net", "0.32.0", True), ("delta net", "0.28.0", False)])
def test_the_type_of_states_that_the_option_asks_for(name: str, release: str, kept: bool) -> None:
    narrow, wide = (cpu_tokens(name, OLD, release, mamba_ssm_cache_dtype=t) for t in ("bfloat16", "float32"))
    assert wide < narrow == cpu_tokens(name, OLD, release)
    assert cpu_tokens(name, AMX, release, mamba_ssm_cache_dtype="float32") == cpu_tokens(name, AMX, release) == wide
    # 0.32.0 printed the narrow figure for the delta net; for "states" too, beside transformers 5.19
    assert cpu_tokens(name, AMX, release, mamba_ssm_cache_dtype="bfloat16") == (narrow if kept else wide)


@pytest.mark.parametrize(("tp", "share"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1)])
def test_kv_heads_are_copied_when_there_are_fewer_than_gpus(tp: int, share: int) -> None:
    assert pool(FULL, tensor_parallel_size=tp).bytes_per_token == 2 * 32 * share * 128 * 2


def test_latent_attention_is_one_vector_and_not_cut() -> None:
    layer = KvLayer(LayerKind.MLA, 61, 1, 576, latent_dim=576)
    assert pool(layer).bytes_per_token == pool(layer, tensor_parallel_size=8).bytes_per_token == 61 * 576 * 2
    assert pool(layer, element=1, kv_cache_dtype="fp8_ds_mla").bytes_per_token == 61 * 656


def test_sparse_index_keys_keep_their_own_type() -> None:
    layers = (KvLayer(LayerKind.MLA, 61, 1, 576, latent_dim=576), KvLayer(LayerKind.MLA, 61, 1, 128, latent_dim=132, element_bytes=1))
    assert pool(*layers).bytes_per_token == 61 * (576 * 2 + 132)


def test_windows_before_the_hybrid_manager_count_as_full() -> None:
    layers = (KvLayer(LayerKind.FULL, 5, 4, 256), KvLayer(LayerKind.SLIDING, 25, 4, 256, window=1024))
    old, new = pool(*layers, release="0.8.5"), pool(*layers, release="0.19.0")
    assert len(old.groups) == 1
    assert len(new.groups) == 6
    assert old.longest(8 * GIB, 10**7) * 3 < new.longest(8 * GIB, 10**7)


def test_a_window_needs_a_bounded_number_of_blocks() -> None:
    layers = (KvLayer(LayerKind.FULL, 5, 4, 256), KvLayer(LayerKind.SLIDING, 25, 4, 256, window=1024))
    cut = pool(*layers, tokens=2048)
    # full: 100,000 / 16; five groups of window - 1 + one step, and one block for the edge
    assert cut.blocks_for(100_000) == 6250 + 5 * (-(-(1023 + 2048) // 16) + 1)
    assert pool(*layers, release="0.28.0", tokens=2048).blocks_for(100_000) == 6250 + 5 * (-(-(1023 + 2 * 2048) // 16) + 1)


def test_groups_are_padded_when_the_kinds_are_nearly_as_many() -> None:
    layers = (KvLayer(LayerKind.FULL, 12, 8, 64), KvLayer(LayerKind.SLIDING, 12, 8, 64, window=128))
    assert [g.layers for g in pool(*layers).groups] == [12, 12]
    uneven = (KvLayer(LayerKind.FULL, 13, 8, 64), KvLayer(LayerKind.SLIDING, 12, 8, 64, window=128))
    assert [g.layers for g in pool(*uneven).groups] == [13, 13]


def test_states_widen_the_block_until_a_state_fits() -> None:
    layers = (KvLayer(LayerKind.LINEAR, 48, state_bytes=3_207_168), KvLayer(LayerKind.FULL, 16, 4, 256))
    cut = pool(*layers, element=1)
    # printed by 0.27 for this model at fp8: "Setting attention block size to 1568 tokens"
    assert {g.block_tokens for g in cut.groups if g.kind is LayerKind.FULL} == {1568}
    assert [g.layers for g in cut.groups] == [16, 16, 16, 16]
    assert cut.blocks_for(1) == 4
    assert pool(*layers, element=1, release="0.27.1").blocks_for(1) == 7  # prefix caching keeps a second state


def test_states_alone() -> None:
    cut = pool(KvLayer(LayerKind.LINEAR, 64, state_bytes=1_000_000))
    assert cut.blocks_for(1) == cut.blocks_for(1_000_000) == 1


def test_nothing_kept() -> None:
    assert plan_pool((), request=FitRequest("0.33.0", GIB), batch=Batch(1, 1), element=2, max_len=1) is None
    assert plan_pool((KvLayer(LayerKind.SHARED, 3, 1, 64),), request=FitRequest("0.33.0", GIB), batch=Batch(1, 1), element=2, max_len=1) is None


def test_shared_layers_cost_nothing() -> None:
    assert pool(FULL, KvLayer(LayerKind.SHARED, 16, 8, 128)).block_bytes == pool(FULL).block_bytes


@pytest.mark.parametrize(("dtype", "factor"), [("fp8", 0.5), ("fp8_e5m2", 0.5), ("auto", 1.0), ("bfloat16", 1.0), ("int8_per_token_head", 0.5 * 132 / 128), ("int4_per_token_head", 0.25 * 136 / 128), ("nvfp4", 0.28125)])
def test_types_of_the_cache(dtype: str, factor: float) -> None:
    info = from_config(MODELS["Llama-3.1-8B"], source="x")
    base = fit(info, FitRequest("0.30.0", 80 * GIB)).kv_bytes_per_token
    assert base == 131_072
    assert fit(info, FitRequest("0.30.0", 80 * GIB, kv_cache_dtype=dtype)).kv_bytes_per_token == pytest.approx(base * factor, rel=1e-3)


def test_pipeline_stages_hold_their_share() -> None:
    info = from_config(MODELS["Llama-3.1-8B"], source="x")
    whole = fit(info, FitRequest("0.19.0", 24 * GIB, gpu_name="RTX 4090"))
    halved = fit(info, FitRequest("0.19.0", 24 * GIB, gpu_name="RTX 4090", pipeline_parallel_size=2))
    assert halved.kv_bytes_per_token == whole.kv_bytes_per_token // 2  # type: ignore[operator]
    assert halved.kv_cache_tokens.best > 3 * whole.kv_cache_tokens.best


layer_lists = st.lists(
    st.one_of(
        st.builds(KvLayer, st.just(LayerKind.FULL), st.integers(1, 80), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([64, 128, 256, 512])),
        st.builds(KvLayer, st.just(LayerKind.SLIDING), st.integers(1, 80), st.sampled_from([1, 2, 4, 8]), st.sampled_from([64, 128, 256]), st.just(0), st.sampled_from([128, 512, 4096])),
        st.builds(KvLayer, st.just(LayerKind.LINEAR), st.integers(1, 80), state_bytes=st.integers(1000, 10_000_000)),
        st.builds(KvLayer, st.just(LayerKind.MLA), st.integers(1, 80), st.just(1), st.just(576), latent_dim=st.just(576)),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(layer_lists, st.sampled_from(["0.6.6", "0.9.2", "0.11.0", "0.19.0", "0.27.1", "0.33.0"]), st.sampled_from([1, 2, 4]), st.integers(0, 40), st.integers(1, 300_000))
def test_pools_are_sound(layers: list[KvLayer], release: str, tp: int, gib: int, length: int) -> None:
    cut = pool(*layers, release=release, tensor_parallel_size=tp, length=length)
    size = gib * GIB
    assert cut.block_bytes > 0
    need = cut.blocks_for(length)
    assert need >= 1
    assert cut.blocks_for(length + 16) >= need
    longest = cut.longest(size, length)
    assert 0 <= longest <= length
    if longest:
        assert cut.blocks_for(longest) <= cut.blocks(size)
    if longest < length:
        assert cut.blocks_for(longest + 1) > cut.blocks(size)
    assert (cut.concurrency(size, length) >= 1) == (longest == length)
    assert cut.tokens(size, length) >= 0


def test_a_checkpoint_that_asks_for_an_8_bit_cache_gets_it_where_the_release_follows() -> None:
    scheme = {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}
    info = from_config({**MODELS["Llama-3.1-8B"], "quantization_config": scheme}, source="x")
    sizes = [fit(info, FitRequest(release, 80 * GIB)).kv_bytes_per_token for release in ("0.11.0", "0.12.0", "0.17.0", "0.33.0")]
    assert sizes == [131_072, 131_072, 65_536, 65_536]


@pytest.mark.parametrize(("capability", "size"), [("9.0", 656), ("8.9", 656), ("10.0", 576), ("12.0", 656)])
def test_an_8_bit_cache_of_sparse_latent_attention_keeps_its_scales(capability: str, size: int) -> None:
    layers = (KvLayer(LayerKind.MLA, 61, 1, 576, latent_dim=576), KvLayer(LayerKind.MLA, 61, 1, 128, latent_dim=132, element_bytes=1))
    got = plan_pool(layers, request=FitRequest("0.33.0", 80 * GIB, compute_capability=capability, kv_cache_dtype="fp8"), batch=Batch(16, 2048), element=1, max_len=8192)
    assert got is not None
    assert got.bytes_per_token == 61 * (size + 132)


@pytest.mark.parametrize(("more", "apart"), [({}, True), ({"hybrid_cache": False}, False), ({"release": "0.9.1"}, False)])
def test_windows_are_only_dropped_where_the_manager_for_it_is_on(more: dict[str, Any], apart: bool) -> None:
    info = from_config(MODELS["gemma-3-12b"], source="x")
    request = FitRequest(more.pop("release", "0.33.0"), 80 * GIB, max_model_len=32_768, **more)
    whole = 48 * 8 * 256 * 2 * 2
    per_token = fit(info, request).kv_bytes_per_token
    assert per_token == (whole // 6 if apart else whole)


def test_chunks_of_llama_4_are_dropped_from_0_17_on() -> None:
    info = from_config(MODELS["Llama-4-Scout"], source="x")
    sizes = [fit(info, FitRequest(r, 80 * GIB, tensor_parallel_size=8)).kv_bytes_per_token for r in ("0.10.2", "0.12.0", "0.17.0")]
    assert sizes[0] == sizes[1] == 4 * sizes[2]  # type: ignore[operator]
    asked = FitRequest("0.12.0", 80 * GIB, tensor_parallel_size=8, extra={"VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "1"})
    assert fit(info, asked).kv_bytes_per_token == sizes[2]


def test_latent_models_were_kept_whole_before_latent_attention() -> None:
    info = from_config(MODELS["DeepSeek-V2-Lite"], source="x")
    old = fit(info, FitRequest("0.6.3.post1", 80 * GIB)).kv_bytes_per_token
    assert old == 27 * 16 * 256 * 2 * 2
    assert fit(info, FitRequest("0.8.5", 80 * GIB)).kv_bytes_per_token == 27 * 576 * 2


def test_cross_attention_keeps_the_encoders_tokens() -> None:
    config = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280, "decoder_layers": 32, "decoder_attention_heads": 20,
              "encoder_layers": 32, "encoder_attention_heads": 20, "vocab_size": 51866, "max_target_positions": 448, "max_source_positions": 1500}  # fmt: skip
    info = from_config(config, source="x")
    got = fit(info, FitRequest("0.33.0", 24 * GIB, max_model_len=448))
    blocks = got.kv_cache_bytes.best // (32 * 16 * 20 * 64 * 2 * 2)
    assert got.concurrency == pytest.approx(blocks / (-(-448 // 16) + -(-1500 // 16)), rel=1e-3)
