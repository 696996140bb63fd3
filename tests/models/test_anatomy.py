"""Anatomies: parameter counts as published, cache layouts as vLLM keeps them, quantization as declared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fit.published import MODELS
from wizard.models import weights
from wizard.models.arch import read
from wizard.models.formats import parsers, task_of
from wizard.models.info import LayerKind, ModelInfo
from wizard.models.inspect import from_config
from wizard.models.quant import detect

DEEPSEEK_V3 = {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "moe_layer_freq": 1, "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
DEEPSEEK_V32 = {**DEEPSEEK_V3, "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}
GLM_45_AIR = {
    "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_size": 4096, "num_hidden_layers": 46, "num_attention_heads": 96,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128, "n_shared_experts": 1,
    "num_experts_per_tok": 8, "first_k_dense_replace": 1, "vocab_size": 151552, "max_position_embeddings": 131072, "attention_bias": True,
    "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_NEXT = {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    "num_experts": 512, "num_experts_per_tok": 10, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "vocab_size": 151936, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_NANO_9B = {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hidden_size": 4480, "num_hidden_layers": 56, "num_attention_heads": 40,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 15680, "mamba_num_heads": 128, "mamba_head_dim": 80, "n_groups": 8,
    "ssm_state_size": 128, "conv_kernel": 4, "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", "vocab_size": 131072,
    "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_3_NANO = {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52, "num_attention_heads": 32,
    "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1856, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
    "conv_kernel": 4, "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
    "n_shared_experts": 1, "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "vocab_size": 131072,
    "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
GRANITE_4_SMALL = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 40,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72,
    "num_experts_per_tok": 10, "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2,
    "layer_types": ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)], "vocab_size": 100352, "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}  # fmt: skip
GEMMA_3N_E4B = {
    "architectures": ["Gemma3nForConditionalGeneration"], "model_type": "gemma3n",
    "text_config": {
        "model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
        "intermediate_size": [16384] * 35, "vocab_size": 262400, "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256,
        "num_kv_shared_layers": 15, "sliding_window": 512, "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "max_position_embeddings": 32768, "laurel_rank": 64, "altup_num_inputs": 4,
    },
}  # fmt: skip
GEMMA_4_31B = {
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
    "text_config": {
        "model_type": "gemma4_text", "hidden_size": 5376, "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16,
        "num_global_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512, "intermediate_size": 21504, "vocab_size": 262144,
        "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0, "sliding_window": 1024, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10,
        "max_position_embeddings": 262144, "attention_k_eq_v": True,
    },
}  # fmt: skip
LFM2_1B = {
    "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "block_ff_dim": 12288, "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14], "vocab_size": 65536, "max_position_embeddings": 128000,
}  # fmt: skip
KIMI_LINEAR = {
    "architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
    "num_key_value_heads": 32, "head_dim": 72, "kv_lora_rank": 512, "q_lora_rank": None, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840, "tie_word_embeddings": False, "model_max_length": 1048576,
    "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "kda_layers": [n for n in range(1, 27) if n % 4], "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4},
}  # fmt: skip
WHISPER_LARGE = {
    "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
    "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866,
    "max_source_positions": 1500, "max_target_positions": 448, "num_mel_bins": 128,
}  # fmt: skip
BGE_LARGE = {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
             "vocab_size": 30522, "max_position_embeddings": 512}  # fmt: skip
QWEN3_VL_8B = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "image_token_id": 1, "video_token_id": 2, "tie_word_embeddings": False,
    "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 12288, "vocab_size": 151936, "max_position_embeddings": 262144, "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
    },
    "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_position_embeddings": 2304,
                      "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "model_type": "qwen3_vl"},
}  # fmt: skip
MINIMAX_M2 = {
    "architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "hidden_size": 3072, "num_hidden_layers": 62, "num_attention_heads": 48,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536, "num_local_experts": 256, "num_experts_per_tok": 8, "vocab_size": 200064,
    "max_position_embeddings": 196608, "use_qk_norm": True, "tie_word_embeddings": False,
}  # fmt: skip
FALCON_H1_7B = {
    "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "hidden_size": 3072, "num_hidden_layers": 44, "num_attention_heads": 12,
    "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 12288, "mamba_d_ssm": 3072, "mamba_n_heads": 24, "mamba_d_head": 128,
    "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4, "vocab_size": 130048, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip

# (config, parameters in billions as published or as the checkpoint's tensors add up)
COUNTS: list[tuple[str, dict[str, Any], float]] = [
    ("Llama 3.1 8B", MODELS["Llama-3.1-8B"], 8.030), ("Qwen3 0.6B", MODELS["Qwen3-0.6B"], 0.596), ("Qwen3 30B A3B", MODELS["Qwen3-30B-A3B"], 30.532),
    ("Qwen1.5 MoE", MODELS["Qwen1.5-MoE"], 14.316), ("DeepSeek V2 Lite", MODELS["DeepSeek-V2-Lite"], 15.706), ("Gemma 2 2B", MODELS["gemma-2-2b"], 2.614),
    ("Gemma 3 4B", MODELS["gemma-3-4b"], 4.300), ("Gemma 3 27B", MODELS["gemma-3-27b"], 27.432), ("Phi 2", MODELS["phi-2"], 2.780),
    ("Mixtral 8x7B", MODELS["Mixtral-8x7B"], 46.703), ("gpt-oss 20b", MODELS["gpt-oss-20b"], 20.915), ("Kimi VL", MODELS["Kimi-VL-A3B"], 16.407),
    ("MiMo VL", MODELS["MiMo-VL-7B"], 8.306), ("Llama 4 Scout", MODELS["Llama-4-Scout"], 108.642), ("Mistral Small 3.1", MODELS["Mistral-Small-3.1"], 24.011),
    ("DeepSeek V3", DEEPSEEK_V3, 671.026), ("GLM 4.5 Air", GLM_45_AIR, 106.852), ("Qwen3 Next", QWEN3_NEXT, 79.674), ("Nemotron Nano 9B v2", NEMOTRON_NANO_9B, 8.888),
    ("Nemotron 3 Nano", NEMOTRON_3_NANO, 31.578), ("Granite 4 Small", GRANITE_4_SMALL, 32.207), ("Gemma 3n E4B, text", GEMMA_3N_E4B, 6.87),
    ("Gemma 4 31B, text", GEMMA_4_31B, 30.7), ("LFM2 1.2B", LFM2_1B, 1.170), ("Kimi Linear", KIMI_LINEAR, 49.12), ("Whisper large v3", WHISPER_LARGE, 1.543),
    ("BGE large", BGE_LARGE, 0.335), ("Qwen3 VL 8B", QWEN3_VL_8B, 8.767), ("MiniMax M2", MINIMAX_M2, 228.690), ("Falcon H1 7B", FALCON_H1_7B, 7.586),
]  # fmt: skip


@pytest.mark.parametrize(("config", "billions"), [(c, n) for _, c, n in COUNTS], ids=[name for name, _, _ in COUNTS])
def test_parameters(config: dict[str, Any], billions: float) -> None:
    info = from_config(config, source="x")
    assert info.parameters is not None
    assert info.parameters / 1e9 == pytest.approx(billions, rel=0.006)
    assert info.kv_layout_known, info.notes


def layout(config: dict[str, Any]) -> dict[str, int]:
    info = from_config(config, source="x")
    out: dict[str, int] = {}
    for layer in info.kv_layers:
        out[layer.kind.value] = out.get(layer.kind.value, 0) + layer.count
    return out


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (MODELS["Llama-3.1-8B"], {"full": 32}),
        (MODELS["Qwen2.5-7B"], {"full": 28}),  # states a window, but does not use it
        ({**MODELS["Qwen2.5-7B"], "use_sliding_window": True, "max_window_layers": 21}, {"full": 21, "sliding": 7}),
        (MODELS["gemma-3-27b"], {"full": 10, "sliding": 52}),
        (MODELS["gpt-oss-20b"], {"full": 12, "sliding": 12}),
        (MODELS["Llama-4-Scout"], {"full": 12, "sliding": 36}),
        (MODELS["DeepSeek-V2-Lite"], {"mla": 27}),
        (DEEPSEEK_V32, {"mla": 122}),
        (MODELS["Qwen3.6-27B"], {"full": 16, "linear": 48}),
        (NEMOTRON_NANO_9B, {"full": 4, "linear": 27}),
        (GRANITE_4_SMALL, {"full": 4, "linear": 36}),
        (FALCON_H1_7B, {"full": 44, "linear": 44}),
        (GEMMA_3N_E4B, {"full": 4, "sliding": 16, "shared": 15}),
        (GEMMA_4_31B, {"full": 10, "sliding": 50}),
        (KIMI_LINEAR, {"mla": 7, "linear": 20}),
        (LFM2_1B, {"full": 6, "linear": 10}),
        (BGE_LARGE, {}),
    ],
)  # fmt: skip
def test_layers_by_kind(config: dict[str, Any], kinds: dict[str, int]) -> None:
    assert layout(config) == kinds


def test_shapes_of_caches() -> None:
    by_kind = {x.kind: x for x in from_config(GEMMA_4_31B, source="x").kv_layers}
    assert (by_kind[LayerKind.FULL].kv_heads, by_kind[LayerKind.FULL].head_dim) == (4, 512)
    assert (by_kind[LayerKind.SLIDING].kv_heads, by_kind[LayerKind.SLIDING].head_dim, by_kind[LayerKind.SLIDING].window) == (16, 256, 1024)
    state = {x.kind: x for x in from_config(MODELS["Qwen3.6-27B"], source="x").kv_layers}[LayerKind.LINEAR]
    # 48 heads of 128 x 128 at 32 bit, and three columns of 10240 at 16 bit
    assert state.state_bytes == 48 * 128 * 128 * 4 + 3 * 10240 * 2
    sparse = [x.latent_dim for x in from_config(DEEPSEEK_V32, source="x").kv_layers]
    assert sparse == [576, 132]


@pytest.mark.parametrize(
    "config",
    [
        {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43, "num_attention_heads": 64, "vocab_size": 129280},
        {"architectures": ["BrandNewForCausalLM"], "model_type": "brand_new", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000},
        {**MODELS["Qwen3-8B"], "layer_types": ["full_attention", "compressed_attention"] * 18},
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        {},
    ],
)
def test_an_unknown_layout_is_not_guessed(config: dict[str, Any]) -> None:
    info = from_config(config, source="x")
    assert not info.kv_layout_known
    assert info.notes


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}


@pytest.mark.parametrize(
    ("block", "method", "detail", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", "8 bit float, block 128x128", 8),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", "8 bit float", 8),
        (AWQ, "awq", "4 bit, group 128", 4),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq", "8 bit, per channel", 8),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "auto-round", "4 bit, group 128", 4),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", "4 bit", 4),
        ({"load_in_8bit": True}, "bitsandbytes", "8 bit", 8),
        ({"quant_method": "mxfp4"}, "mxfp4", "MXFP4", 4),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4", "NVFP4", 4),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt", "FP8", 8),
        ({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}, "compressed-tensors", "NVFP4", 4),
        ({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}}}}, "compressed-tensors", "INT4, group 128", 4),
        ({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int"}}}}, "compressed-tensors", "INT8 (W8A8)", 8),
        ({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}}}, "compressed-tensors", "FP8", 8),
        ({"quant_method": "torchao", "quant_type": "int4wo"}, "torchao", "4 bit", 4),
    ],
)  # fmt: skip
def test_quantization(block: dict[str, Any], method: str, detail: str, bits: int) -> None:
    quant = detect({"quantization_config": block})
    assert (quant.method, quant.detail, quant.bits, quant.servable) == (method, detail, bits, True)


@pytest.mark.parametrize(("block", "method"), [({"bits": 4, "group_size": 64}, "mlx"), ({"quant_method": "exl2", "bits": 4.0}, "exl2"), ({"quant_method": "exl3"}, "exl3")])
def test_formats_of_other_engines(block: dict[str, Any], method: str) -> None:
    quant = detect({"quantization_config": block})
    assert (quant.method, quant.servable) == (method, False)


def test_layers_that_a_checkpoint_leaves_unquantized() -> None:
    names = ["lm_head"] + [f"model.layers.{i}.self_attn.{p}_proj" for i in (0, 35) for p in "qkvo"] + ["model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"]
    quant = detect({"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": names}})
    exempt = weights.exemptions(quant, 36)
    assert {"qkv_proj", "o_proj", "gate_up_proj"} <= exempt[0]
    assert "down_proj" not in exempt[0]
    assert "qkv_proj" in exempt[35]
    assert exempt[1] == frozenset()
    pattern = detect({"quantization_config": {"quant_method": "compressed-tensors", "ignore": ["re:.*self_attn.*", "lm_head"], "config_groups": {"g": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}}})
    assert all("qkv_proj" in e and "down_proj" not in e for e in weights.exemptions(pattern, 4))


def test_the_checkpoint_may_ask_for_an_eight_bit_cache() -> None:
    assert detect({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}).kv_cache_dtype == "fp8"
    assert detect({"quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}}).kv_cache_dtype == "fp8"
    assert detect(MODELS["Qwen3-8B"]).kv_cache_dtype is None


def test_sizes_by_kind_add_up() -> None:
    info = from_config(MODELS["Qwen3-30B-A3B"], source="x")
    assert info.weight_bytes == sum(info.weight_bytes_by_kind.values())
    assert info.weight_bytes_by_kind["experts"] > 0.9 * (info.weight_bytes or 0)
    known = from_config(MODELS["Qwen3-30B-A3B"], source="x", weight_bytes=61_064_245_248)
    assert (known.weight_bytes, known.weight_source) == (61_064_245_248, "recipe")


def test_a_text_model_inside_a_vision_model_is_tied_as_it_says() -> None:
    inner = {**QWEN3_VL_8B, "text_config": {**QWEN3_VL_8B["text_config"], "tie_word_embeddings": True}}  # type: ignore[dict-item]
    assert read(inner).tied
    assert not read(QWEN3_VL_8B).tied


@pytest.mark.parametrize(
    ("model_type", "name", "tool", "reasoning"),
    [
        ("qwen3", "Qwen/Qwen3-8B", "hermes", "qwen3"), ("qwen3_moe", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3_coder", None),
        ("qwen2", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", None, "deepseek_r1"), ("gpt_oss", "openai/gpt-oss-20b", "openai", "openai_gptoss"),
        ("llama", "meta-llama/Llama-3.1-8B-Instruct", "llama3_json", None), ("glm4_moe", "zai-org/GLM-4.5-Air", "glm45", "glm45"), ("opt", "facebook/opt-125m", None, None),
    ],
)  # fmt: skip
def test_parsers(model_type: str, name: str, tool: str | None, reasoning: str | None) -> None:
    assert parsers(model_type, name) == (tool, reasoning)


@pytest.mark.parametrize(
    ("architecture", "name", "files", "task"),
    [
        ("Qwen3ForCausalLM", "Qwen3-8B", False, "generate"), ("Qwen3ForCausalLM", "Qwen3-Embedding-0.6B", True, "embed"), ("BertModel", "bge-large", True, "embed"),
        ("Qwen3ForSequenceClassification", "Qwen3-Reranker-0.6B", False, "rerank"), ("WhisperForConditionalGeneration", "whisper", False, "transcribe"),
        ("ChatGLMModel", "chatglm3", False, "generate"), ("XLMRobertaForSequenceClassification", "bge-reranker-v2", False, "rerank"),
    ],
)  # fmt: skip
def test_tasks(architecture: str, name: str, files: bool, task: str) -> None:
    assert task_of(architecture, {}, name, files) == task


def test_the_record_holds_what_the_house_asks_for() -> None:
    info: ModelInfo = from_config(QWEN3_VL_8B, source="/models/x", is_local=True, repo_id="Qwen/Qwen3-VL-8B-Instruct")
    assert (info.modalities, info.max_model_len, info.task) == (("text", "image", "video"), 262144, "generate")
    assert (info.num_heads, info.num_kv_heads, info.head_dim, info.vocab_size) == (32, 8, 128, 151936)
    assert info.weight_bytes_by_kind["vision"] == pytest.approx(0.576e9 * 2, rel=0.02)


def _linear(name: str, quantization: dict[str, object]) -> float:
    """Bytes of one weight of that projection in the second of two layers."""
    quant = detect({"quantization_config": quantization})
    arch = read({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 64})  # fmt: skip
    rules = weights.layer_rules(quant, 2)
    weight = next(w for w in arch.blocks[1].weights if w.name == name)
    return weights.element_bytes(weight, quant, 2.0, rules[1])


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128}
CT4 = {"num_bits": 4, "type": "float", "group_size": 16}
CT8 = {"num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("name", "quantization", "expected"),
    [
        ("down_proj", {**GPTQ, "dynamic": {r"-:model\.layers\.1\..*": {}}}, 2.0),
        ("down_proj", {**GPTQ, "dynamic": {r"-:model\.layers\.0\..*": {}}}, 0.51953125),
        ("down_proj", {**GPTQ, "dynamic": {r"+:.*\.1\..*down.*": {"bits": 8, "group_size": 64}}}, 1 + 3 / 64),
        ("qkv_proj", {**GPTQ, "dynamic": {r"+:.*\.1\..*down.*": {"bits": 8}}}, 0.51953125),
        ("o_proj", {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"model.layers.1.self_attn.o_proj": {"bits": 8}}}, 1 + 3 / 128),
        ("o_proj", {"quant_method": "auto-round", "bits": 4, "group_size": 128, "extra_config": {"model.layers.1.self_attn.o_proj": {"bits": 16}}}, 2.0),
        ("qkv_proj", {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["self_attn"]}, 2.0),
        ("qkv_proj", {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["model.layers.0."]}, 0.51953125),
        ("qkv_proj", {"quant_method": "fp8", "ignored_layers": ["model.layers.1.self_attn.q_proj"]}, 2.0),
        ("o_proj", {"quant_method": "fp8", "ignored_layers": ["model.layers.1.self_attn.q_proj"]}, 1.0),
        ("gate_up_proj", {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": CT4, "targets": ["Linear"]}}, "ignore": ["re:.*mlp.*"]}, 2.0),
        ("qkv_proj", {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": CT4, "targets": ["re:.*mlp.*"]}, "b": {"weights": CT8, "targets": ["re:.*self_attn.*"]}}}, 1.0),
        ("down_proj", {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": CT4, "targets": ["re:.*mlp.*"]}, "b": {"weights": CT8, "targets": ["re:.*self_attn.*"]}}}, 0.5625),
        ("down_proj", {"quant_method": "compressed-tensors", "config_groups": {"b": {"weights": CT8, "targets": ["re:.*self_attn.*"]}}}, 2.0),
        ("down_proj", {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4"}, "model.layers.1.self_attn.q_proj": {"quant_algo": "FP8"}}}, 0.5625),
        ("qkv_proj", {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4"}, "model.layers.1.self_attn.q_proj": {"quant_algo": "FP8"}}}, 1.0),
        ("o_proj", {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.1.mlp.down_proj": {"quant_algo": "NVFP4"}}}, 2.0),
    ],
)  # fmt: skip
def test_modules_left_out_or_held_otherwise(name: str, quantization: dict[str, object], expected: float) -> None:
    assert _linear(name, quantization) == pytest.approx(expected)
