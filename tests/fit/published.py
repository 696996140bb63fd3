"""config.json facts of published models, as their repositories state them: small inputs for tests and benchmarks.

Only what decides shapes is kept. Sources: the models' own config.json files on Hugging Face.
"""

from __future__ import annotations

from typing import Any

LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}


def llama(hidden: int, layers: int, heads: int, kv: int, inter: int, vocab: int, length: int, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "intermediate_size": inter, "vocab_size": vocab, "max_position_embeddings": length, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False, **more,
    }  # fmt: skip


def qwen2(hidden: int, layers: int, heads: int, kv: int, inter: int, vocab: int, length: int = 32768, **more: Any) -> dict[str, Any]:
    return {**llama(hidden, layers, heads, kv, inter, vocab, length), "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "use_sliding_window": False,
            "sliding_window": 131072, "max_window_layers": layers, **more}  # fmt: skip


def qwen3(hidden: int, layers: int, heads: int, kv: int, inter: int, length: int = 40960, **more: Any) -> dict[str, Any]:
    return {**llama(hidden, layers, heads, kv, inter, 151936, length), "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128,
            "attention_bias": False, "use_sliding_window": False, "sliding_window": None, **more}  # fmt: skip


def gemma2(hidden: int, layers: int, heads: int, kv: int, head_dim: int, inter: int) -> dict[str, Any]:
    return {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv, "head_dim": head_dim, "intermediate_size": inter, "vocab_size": 256000, "max_position_embeddings": 8192,
            "sliding_window": 4096, "torch_dtype": "bfloat16"}  # fmt: skip


def gemma3(hidden: int, layers: int, heads: int, kv: int, head_dim: int, inter: int) -> dict[str, Any]:
    text = {"model_type": "gemma3_text", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv,
            "head_dim": head_dim, "intermediate_size": inter, "vocab_size": 262208, "max_position_embeddings": 131072, "sliding_window": 1024,
            "sliding_window_pattern": 6, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}  # fmt: skip
    vision = {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16,
              "num_hidden_layers": 27, "patch_size": 14}  # fmt: skip
    return {"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "text_config": text, "vision_config": vision, "mm_tokens_per_image": 256,
            "image_token_index": 262144, "torch_dtype": "bfloat16"}  # fmt: skip


W8A8 = {"quant_method": "compressed-tensors", "format": "int-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}, "targets": ["Linear"]}}}  # fmt: skip
FP8_DYNAMIC = {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
               "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}, "targets": ["Linear"]}}}  # fmt: skip
W4A16_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}


def mistral3(quant: dict[str, Any] | None = None) -> dict[str, Any]:
    text = {"model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "intermediate_size": 32768, "vocab_size": 131072, "max_position_embeddings": 131072, "sliding_window": None, "tie_word_embeddings": False}  # fmt: skip
    vision = {"hidden_size": 1024, "image_size": 1540, "intermediate_size": 4096, "model_type": "pixtral", "num_attention_heads": 16, "num_hidden_layers": 24,
              "patch_size": 14}  # fmt: skip
    out = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": text, "vision_config": vision, "spatial_merge_size": 2,
           "image_token_index": 10, "torch_dtype": "bfloat16"}  # fmt: skip
    return {**out, "quantization_config": quant} if quant else out


def gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": layers, "num_attention_heads": 64,
            "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "max_position_embeddings": 131072, "sliding_window": 128,
            "num_local_experts": experts, "num_experts_per_tok": 4, "attention_bias": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
            "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
            "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
            "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}}  # fmt: skip


DEEPSEEK_V2_LITE = {
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
    "num_key_value_heads": 16, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": None,
    "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 102400, "max_position_embeddings": 163840, "torch_dtype": "bfloat16",
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}, "tie_word_embeddings": False,
}  # fmt: skip
KIMI_VL_A3B = {
    "architectures": ["KimiVLForConditionalGeneration"], "model_type": "kimi_vl", "torch_dtype": "bfloat16", "media_placeholder_token_id": 163605,
    "text_config": {
        "model_type": "deepseek_v3", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": None, "intermediate_size": 11264, "moe_intermediate_size": 1408,
        "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840,
        "max_position_embeddings": 131072, "tie_word_embeddings": False,
    },
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "model_type": "moonvit", "merge_kernel_size": [2, 2]},
}  # fmt: skip
MIXTRAL_8X7B = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
    "max_position_embeddings": 32768, "sliding_window": None, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_30B_A3B = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
QWEN15_MOE = {
    "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
    "num_experts_per_tok": 4, "decoder_sparse_step": 1, "vocab_size": 151936, "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "sliding_window": 32768, "use_sliding_window": False,
}  # fmt: skip
LLAMA4_SCOUT = {
    "architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "torch_dtype": "bfloat16", "image_token_index": 200092,
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192, "vocab_size": 202048, "max_position_embeddings": 10485760, "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 16.0, "original_max_position_embeddings": 8192},
    },
    "vision_config": {"hidden_size": 1408, "intermediate_size": 5632, "num_hidden_layers": 34, "patch_size": 14, "image_size": 336, "model_type": "llama4_vision_model"},
}  # fmt: skip
MIMO_VL_7B = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 11008, "vocab_size": 151680, "max_position_embeddings": 128000, "torch_dtype": "bfloat16",
    "tie_word_embeddings": False, "attention_bias": True, "image_token_id": 151655, "video_token_id": 151656, "use_sliding_window": False, "sliding_window": 32768,
    "rope_scaling": {"type": "default", "mrope_section": [16, 24, 24]},
    "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3456, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
                      "out_hidden_size": 4096, "model_type": "qwen2_5_vl"},
}  # fmt: skip
GRANITE_VISION_2B = {
    "architectures": ["LlavaNextForConditionalGeneration"], "model_type": "llava_next", "torch_dtype": "bfloat16", "image_token_index": 49155,
    "text_config": {
        "model_type": "granite", "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
        "vocab_size": 49156, "max_position_embeddings": 131072, "tie_word_embeddings": True,
    },
    "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14, "image_size": 384, "model_type": "siglip_vision_model"},
}  # fmt: skip
PHI_2 = {
    "architectures": ["PhiForCausalLM"], "model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
    "intermediate_size": 10240, "vocab_size": 51200, "max_position_embeddings": 2048, "partial_rotary_factor": 0.4, "torch_dtype": "float16", "tie_word_embeddings": False,
}  # fmt: skip
PHI_4 = {
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 5120, "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 10,
    "intermediate_size": 17920, "vocab_size": 100352, "max_position_embeddings": 16384, "torch_dtype": "bfloat16", "tie_word_embeddings": False, "sliding_window": None,
}  # fmt: skip
GEMMA_7B = {
    "architectures": ["GemmaForCausalLM"], "model_type": "gemma", "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16,
    "head_dim": 256, "intermediate_size": 24576, "vocab_size": 256000, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip


def granite(hidden: int, inter: int, vocab: int) -> dict[str, Any]:
    return {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_size": hidden, "num_hidden_layers": 40, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": inter, "vocab_size": vocab, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
            "tie_word_embeddings": True}  # fmt: skip


QWEN3_6_27B_TEXT = {
    "model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
    "intermediate_size": 17408, "vocab_size": 248320, "max_position_embeddings": 262144, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1, "tie_word_embeddings": False, "attn_output_gate": True, "partial_rotary_factor": 0.25,
    "rope_parameters": {"mrope_section": [11, 11, 10], "rope_type": "default"},
}  # fmt: skip
QWEN3_6_VISION = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 5120,
                  "num_position_embeddings": 2304, "model_type": "qwen3_5", "deepstack_visual_indexes": []}  # fmt: skip
QWEN3_6_27B = {
    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "torch_dtype": "bfloat16", "image_token_id": 248056, "video_token_id": 248057,
    "tie_word_embeddings": False, "text_config": QWEN3_6_27B_TEXT, "vision_config": QWEN3_6_VISION,
}  # fmt: skip

MODELS: dict[str, dict[str, Any]] = {
    "Llama-3.1-8B": llama(4096, 32, 32, 8, 14336, 128256, 131072, rope_scaling=LLAMA3_ROPE),
    "Llama-3-8B": llama(4096, 32, 32, 8, 14336, 128256, 8192),
    "Llama-2-7B": llama(4096, 32, 32, 32, 11008, 32000, 4096),
    "Llama-2-70B": llama(8192, 80, 64, 8, 28672, 32000, 4096),
    "CodeLlama-7b": llama(4096, 32, 32, 32, 11008, 32016, 16384),
    "Llama-3.3-70B-FP8": llama(8192, 80, 64, 8, 28672, 128256, 131072, rope_scaling=LLAMA3_ROPE, quantization_config=FP8_DYNAMIC),
    "Llama-3.3-70B-w8a8": llama(8192, 80, 64, 8, 28672, 128256, 131072, rope_scaling=LLAMA3_ROPE, quantization_config=W8A8),
    "Llama-3.1-8B-w4a16": llama(4096, 32, 32, 8, 14336, 128256, 131072, rope_scaling=LLAMA3_ROPE, quantization_config=W4A16_GPTQ),
    "Llama-3.1-8B-w8a8": llama(4096, 32, 32, 8, 14336, 128256, 131072, rope_scaling=LLAMA3_ROPE, quantization_config=W8A8),
    "Llama-3.1-405B-FP8": llama(16384, 126, 128, 8, 53248, 128256, 131072, rope_scaling=LLAMA3_ROPE, quantization_config={"quant_method": "fbgemm_fp8", "modules_to_not_convert": []}),
    "Qwen2.5-7B": qwen2(3584, 28, 28, 4, 18944, 152064),
    "Qwen2.5-7B-fp8": qwen2(3584, 28, 28, 4, 18944, 152064, quantization_config=FP8_DYNAMIC),
    "Qwen2.5-7B-w8a8": qwen2(3584, 28, 28, 4, 18944, 152064, quantization_config=W8A8),
    "Qwen2.5-72B": qwen2(8192, 80, 64, 8, 29568, 152064),
    "Kimi-Dev-72B": qwen2(8192, 80, 64, 8, 29568, 152064, 131072),
    "Qwen2.5-0.5B": qwen2(896, 24, 14, 2, 4864, 151936, tie_word_embeddings=True),
    "Qwen3-0.6B": qwen3(1024, 28, 16, 8, 3072, tie_word_embeddings=True),
    "Qwen3-8B": qwen3(4096, 36, 32, 8, 12288),
    "Qwen3-14B": qwen3(5120, 40, 40, 8, 17408),
    "Qwen3-32B": qwen3(5120, 64, 64, 8, 25600),
    "Qwen3-30B-A3B": QWEN3_30B_A3B,
    "Qwen1.5-MoE": QWEN15_MOE,
    "gemma-2-2b": gemma2(2304, 26, 8, 4, 256, 9216),
    "gemma-2-9b": gemma2(3584, 42, 16, 8, 256, 14336),
    "gemma-2-27b": gemma2(4608, 46, 32, 16, 128, 36864),
    "gemma-3-4b": gemma3(2560, 34, 8, 4, 256, 10240),
    "gemma-3-12b": gemma3(3840, 48, 16, 8, 256, 15360),
    "gemma-3-27b": gemma3(5376, 62, 32, 16, 128, 21504),
    "gemma-7b": GEMMA_7B,
    "granite-3.1-2b": granite(2048, 8192, 49155),
    "granite-3.1-8b": granite(4096, 12800, 49155),
    "granite-vision-3.3-2b": GRANITE_VISION_2B,
    "phi-2": PHI_2,
    "phi-4": PHI_4,
    "Mistral-Small-3.1": mistral3(),
    "Mistral-Small-3.1-w8a8": mistral3({**W8A8, "ignore": ["re:.*lm_head", "re:vision_tower.*", "re:multi_modal_projector.*"]}),
    "Mixtral-8x7B": MIXTRAL_8X7B,
    "DeepSeek-V2-Lite": DEEPSEEK_V2_LITE,
    "Kimi-VL-A3B": KIMI_VL_A3B,
    "MiMo-VL-7B": MIMO_VL_7B,
    "gpt-oss-20b": gpt_oss(24, 32),
    "gpt-oss-120b": gpt_oss(36, 128),
    "Llama-4-Scout": LLAMA4_SCOUT,
    "Qwen3.6-27B": QWEN3_6_27B,
}

NVFP4_MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "ignore": ["lm_head", "model.visual*", "mtp*"]}
FP8_BLOCK = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
QWEN3_6_35B_A3B_TEXT = {
    "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 256, "num_experts_per_tok": 8, "vocab_size": 248320,
    "max_position_embeddings": 262144, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "tie_word_embeddings": False,
    "attn_output_gate": True, "partial_rotary_factor": 0.25, "rope_parameters": {"mrope_section": [11, 11, 10], "rope_type": "default"},
}  # fmt: skip
QWEN3_6_35B_A3B = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "torch_dtype": "bfloat16", "image_token_id": 248056,
    "video_token_id": 248057, "tie_word_embeddings": False, "text_config": QWEN3_6_35B_A3B_TEXT, "vision_config": {**QWEN3_6_VISION, "out_hidden_size": 2048},
}  # fmt: skip
QWEN3_235B_FP8 = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536, "num_experts": 128, "num_experts_per_tok": 8,
    "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936, "max_position_embeddings": 40960, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    "quantization_config": FP8_BLOCK,
}  # fmt: skip
MODELS.update({
    "Qwen3.6-35B-A3B-NVFP4": {**QWEN3_6_35B_A3B, "quantization_config": NVFP4_MODELOPT},
    "Qwen3.6-35B-A3B": QWEN3_6_35B_A3B,
    "Qwen3-235B-FP8": QWEN3_235B_FP8,
    "Qwen3.8-27B-FP8": {**QWEN3_6_27B, "quantization_config": {**FP8_BLOCK, "modules_to_not_convert": ["model.visual", "lm_head"]}},
    "Qwen3-Coder-30B-FP8": {**QWEN3_30B_A3B, "max_position_embeddings": 262144, "quantization_config": FP8_BLOCK},
    "Qwen1.5-7B-GPTQ": {**qwen2(4096, 32, 32, 32, 11008, 151936), "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
    "Mistral-Small-3.2": mistral3(),
})  # fmt: skip
