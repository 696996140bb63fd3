"""Model folders for the recorded machines: the tensors of published architectures, without their data.

A shard is written as its safetensors header alone; the machine's ``entries`` say how large the real file is.
Figures are those of the models' published configurations.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

DTYPE_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "I64": 8, "F8_E4M3": 1, "U8": 1}
SHARD_BYTES = 5_000_000_000

Tensor = tuple[str, str, tuple[int, ...]]  # name, dtype, shape


@dataclass
class Folder:
    """The files of one model: small ones with their content, shards with content (the header) and real size."""

    files: dict[str, bytes] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def text(self, name: str, value: Any) -> None:
        data = value if isinstance(value, str) else json.dumps(value, indent=2) + "\n"
        self.files[name] = data.encode()


def tensor_bytes(tensor: Tensor) -> int:
    size = DTYPE_BYTES[tensor[1]]
    for length in tensor[2]:
        size *= length
    return size


def header(tensors: list[Tensor]) -> tuple[bytes, int]:
    """The header of a safetensors file with these tensors, and the size of the whole file."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        name, dtype, shape = tensor
        end = offset + tensor_bytes(tensor)
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, 8 + len(text) + offset


def add_weights(folder: Folder, tensors: Iterator[Tensor], shard_bytes: int = SHARD_BYTES) -> None:
    shards: list[list[Tensor]] = [[]]
    filled = 0
    for tensor in tensors:
        if shards[-1] and filled + tensor_bytes(tensor) > shard_bytes:
            shards.append([])
            filled = 0
        shards[-1].append(tensor)
        filled += tensor_bytes(tensor)
    if len(shards) == 1:
        names = ["model.safetensors"]
    else:
        names = [f"model-{n + 1:05}-of-{len(shards):05}.safetensors" for n in range(len(shards))]
        weight_map = {t[0]: name for name, shard in zip(names, shards, strict=True) for t in shard}
        total = sum(tensor_bytes(t) for shard in shards for t in shard)
        index = {"metadata": {"total_size": total}, "weight_map": weight_map}
        folder.files["model.safetensors.index.json"] = (json.dumps(index, indent=0) + "\n").encode()
    for name, shard in zip(names, shards, strict=True):
        folder.files[name], folder.sizes[name] = header(shard)


# ---- layers ----------------------------------------------------------------------------------------------


def linear(name: str, out: int, into: int, method: str = "none", bias: bool = False) -> Iterator[Tensor]:
    """A linear layer's tensors as its quantization method stores them (groups of 128)."""
    if method == "awq":
        yield f"{name}.qweight", "I32", (into, out // 8)
        yield f"{name}.qzeros", "I32", (into // 128, out // 8)
        yield f"{name}.scales", "F16", (into // 128, out)
    elif method == "pack-quantized":
        yield f"{name}.weight_packed", "I32", (out, into // 8)
        yield f"{name}.weight_scale", "BF16", (out, into // 32)
        yield f"{name}.weight_shape", "I64", (2,)
    elif method == "fp8":
        yield f"{name}.weight", "F8_E4M3", (out, into)
        yield f"{name}.weight_scale_inv", "BF16", ((out + 127) // 128, (into + 127) // 128)
    else:
        yield f"{name}.weight", "F16" if method == "f16" else "BF16", (out, into)
    if bias:
        yield f"{name}.bias", "F16" if method in ("awq", "f16") else "BF16", (out,)


def dense_layers(
    text: dict[str, Any], prefix: str, method: str, qk_norm: bool, bias: bool
) -> Iterator[Tensor]:
    hidden, heads, kv = text["hidden_size"], text["num_attention_heads"], text["num_key_value_heads"]
    dim = text.get("head_dim") or hidden // heads
    plain = "F16" if method in ("awq", "f16") else "BF16"
    for number in range(text["num_hidden_layers"]):
        layer = f"{prefix}.layers.{number}"
        yield f"{layer}.input_layernorm.weight", plain, (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", plain, (hidden,)
        yield from linear(f"{layer}.self_attn.q_proj", heads * dim, hidden, method, bias)
        yield from linear(f"{layer}.self_attn.k_proj", kv * dim, hidden, method, bias)
        yield from linear(f"{layer}.self_attn.v_proj", kv * dim, hidden, method, bias)
        yield from linear(f"{layer}.self_attn.o_proj", hidden, heads * dim, method)
        if qk_norm:
            yield f"{layer}.self_attn.q_norm.weight", plain, (dim,)
            yield f"{layer}.self_attn.k_norm.weight", plain, (dim,)
        for name in ("gate_proj", "up_proj"):
            yield from linear(f"{layer}.mlp.{name}", text["intermediate_size"], hidden, method)
        yield from linear(f"{layer}.mlp.down_proj", hidden, text["intermediate_size"], method)


def dense(
    config: dict[str, Any],
    method: str = "none",
    qk_norm: bool = True,
    bias: bool = False,
    prefix: str = "model",
) -> Iterator[Tensor]:
    text = config.get("text_config", config)
    plain = "F16" if method in ("awq", "f16") else "BF16"
    yield f"{prefix}.embed_tokens.weight", plain, (text["vocab_size"], text["hidden_size"])
    yield from dense_layers(text, prefix, method, qk_norm, bias)
    yield f"{prefix}.norm.weight", plain, (text["hidden_size"],)
    if not config.get("tie_word_embeddings"):
        yield "lm_head.weight", plain, (text["vocab_size"], text["hidden_size"])


def vision_tower(vision: dict[str, Any], prefix: str = "model.visual") -> Iterator[Tensor]:
    """The vision encoder that Qwen3-VL and Qwen3.5 share."""
    hidden, wide, out = vision["hidden_size"], vision["intermediate_size"], vision["out_hidden_size"]
    merged = hidden * vision["spatial_merge_size"] ** 2
    patch = vision["patch_size"]
    yield (
        f"{prefix}.patch_embed.proj.weight",
        "BF16",
        (hidden, 3, vision["temporal_patch_size"], patch, patch),
    )
    yield f"{prefix}.patch_embed.proj.bias", "BF16", (hidden,)
    yield f"{prefix}.pos_embed.weight", "BF16", (vision["num_position_embeddings"], hidden)
    for number in range(vision["depth"]):
        block = f"{prefix}.blocks.{number}"
        for norm in ("norm1", "norm2"):
            yield f"{block}.{norm}.weight", "BF16", (hidden,)
            yield f"{block}.{norm}.bias", "BF16", (hidden,)
        yield from linear(f"{block}.attn.qkv", 3 * hidden, hidden, bias=True)
        yield from linear(f"{block}.attn.proj", hidden, hidden, bias=True)
        yield from linear(f"{block}.mlp.linear_fc1", wide, hidden, bias=True)
        yield from linear(f"{block}.mlp.linear_fc2", hidden, wide, bias=True)
    mergers = [(f"{prefix}.merger", hidden)]
    mergers += [
        (f"{prefix}.deepstack_merger_list.{n}", merged)
        for n in range(len(vision["deepstack_visual_indexes"]))
    ]
    for merger, normed in mergers:
        yield f"{merger}.norm.weight", "BF16", (normed,)
        yield f"{merger}.norm.bias", "BF16", (normed,)
        yield from linear(f"{merger}.linear_fc1", merged, merged, bias=True)
        yield from linear(f"{merger}.linear_fc2", out, merged, bias=True)


def qwen3_vl(config: dict[str, Any], method: str = "none") -> Iterator[Tensor]:
    yield from vision_tower(config["vision_config"])
    yield from dense(config, method, prefix="model.language_model")


def qwen3_5_moe(config: dict[str, Any]) -> Iterator[Tensor]:
    """Gated delta net and full attention in turn, experts stored as two large tensors a layer."""
    text = config["text_config"]
    hidden, heads, kv, dim = (
        text[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    )
    keys = text["linear_num_key_heads"] * text["linear_key_head_dim"]
    values = text["linear_num_value_heads"] * text["linear_value_head_dim"]
    yield from vision_tower(config["vision_config"])
    root = "model.language_model"
    yield f"{root}.embed_tokens.weight", "BF16", (text["vocab_size"], hidden)

    def feed_forward(layer: str) -> Iterator[Tensor]:
        experts, wide = text["num_experts"], text["moe_intermediate_size"]
        yield f"{layer}.mlp.gate.weight", "BF16", (experts, hidden)
        yield f"{layer}.mlp.experts.gate_up_proj", "BF16", (experts, 2 * wide, hidden)
        yield f"{layer}.mlp.experts.down_proj", "BF16", (experts, hidden, wide)
        shared = text["shared_expert_intermediate_size"]
        yield from linear(f"{layer}.mlp.shared_expert.gate_proj", shared, hidden)
        yield from linear(f"{layer}.mlp.shared_expert.up_proj", shared, hidden)
        yield from linear(f"{layer}.mlp.shared_expert.down_proj", hidden, shared)
        yield f"{layer}.mlp.shared_expert_gate.weight", "BF16", (1, hidden)

    def full_attention(layer: str) -> Iterator[Tensor]:
        yield from linear(f"{layer}.self_attn.q_proj", 2 * heads * dim, hidden)
        yield from linear(f"{layer}.self_attn.k_proj", kv * dim, hidden)
        yield from linear(f"{layer}.self_attn.v_proj", kv * dim, hidden)
        yield from linear(f"{layer}.self_attn.o_proj", hidden, heads * dim)
        yield f"{layer}.self_attn.q_norm.weight", "BF16", (dim,)
        yield f"{layer}.self_attn.k_norm.weight", "BF16", (dim,)

    def delta_net(layer: str) -> Iterator[Tensor]:
        yield (
            f"{layer}.linear_attn.conv1d.weight",
            "BF16",
            (2 * keys + values, 1, text["linear_conv_kernel_dim"]),
        )
        yield from linear(f"{layer}.linear_attn.in_proj_qkv", 2 * keys + values, hidden)
        yield from linear(f"{layer}.linear_attn.in_proj_z", values, hidden)
        yield from linear(f"{layer}.linear_attn.in_proj_a", text["linear_num_value_heads"], hidden)
        yield from linear(f"{layer}.linear_attn.in_proj_b", text["linear_num_value_heads"], hidden)
        yield from linear(f"{layer}.linear_attn.out_proj", hidden, values)
        yield f"{layer}.linear_attn.norm.weight", "BF16", (text["linear_value_head_dim"],)
        yield f"{layer}.linear_attn.A_log", "BF16", (text["linear_num_value_heads"],)
        yield f"{layer}.linear_attn.dt_bias", "BF16", (text["linear_num_value_heads"],)

    for number, kind in enumerate(text["layer_types"]):
        layer = f"{root}.layers.{number}"
        yield f"{layer}.input_layernorm.weight", "BF16", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", "BF16", (hidden,)
        yield from full_attention(layer) if kind == "full_attention" else delta_net(layer)
        yield from feed_forward(layer)
    yield f"{root}.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (text["vocab_size"], hidden)
    yield "mtp.fc.weight", "BF16", (hidden, 2 * hidden)
    for name in (
        "pre_fc_norm_embedding",
        "pre_fc_norm_hidden",
        "norm",
        "layers.0.input_layernorm",
        "layers.0.post_attention_layernorm",
    ):
        yield f"mtp.{name}.weight", "BF16", (hidden,)
    yield from full_attention("mtp.layers.0")
    yield from feed_forward("mtp.layers.0")


def gpt_oss(config: dict[str, Any]) -> Iterator[Tensor]:
    """Experts in MXFP4: blocks of 32 four-bit values with a shared scale."""
    hidden, wide, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    heads, kv, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    yield "model.embed_tokens.weight", "BF16", (config["vocab_size"], hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", "BF16", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", "BF16", (hidden,)
        yield from linear(f"{layer}.self_attn.q_proj", heads * dim, hidden, bias=True)
        yield from linear(f"{layer}.self_attn.k_proj", kv * dim, hidden, bias=True)
        yield from linear(f"{layer}.self_attn.v_proj", kv * dim, hidden, bias=True)
        yield from linear(f"{layer}.self_attn.o_proj", hidden, heads * dim, bias=True)
        yield f"{layer}.self_attn.sinks", "BF16", (heads,)
        yield from linear(f"{layer}.mlp.router", experts, hidden, bias=True)
        for name, rows in (("gate_up_proj", 2 * wide), ("down_proj", hidden)):
            yield f"{layer}.mlp.experts.{name}_blocks", "U8", (experts, rows, hidden // 32, 16)
            yield f"{layer}.mlp.experts.{name}_scales", "U8", (experts, rows, hidden // 32)
            yield f"{layer}.mlp.experts.{name}_bias", "BF16", (experts, rows)
    yield "model.norm.weight", "BF16", (hidden,)
    yield "lm_head.weight", "BF16", (config["vocab_size"], hidden)


# ---- configurations --------------------------------------------------------------------------------------

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def _vision(
    depth: int, hidden: int, wide: int, out: int, deepstack: list[int], model_type: str
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "depth": depth,
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_heads": 16,
        "out_hidden_size": out,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "in_channels": 3,
        "deepstack_visual_indexes": deepstack,
    }


def qwen3_vl_config(size: str) -> dict[str, Any]:
    hidden, layers, heads, wide, tied, vision = {
        "2B": (2048, 28, 16, 6144, True, _vision(24, 1024, 4096, 2048, [5, 11, 17], "qwen3_vl")),
        "4B": (2560, 36, 32, 9728, True, _vision(24, 1024, 4096, 2560, [5, 11, 17], "qwen3_vl")),
        "8B": (4096, 36, 32, 12288, False, _vision(27, 1152, 4304, 4096, [8, 16, 24], "qwen3_vl")),
    }[size]
    return {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "image_token_id": 151655,
        "model_type": "qwen3_vl",
        "text_config": {
            "bos_token_id": 151643,
            "dtype": "bfloat16",
            "eos_token_id": 151645,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": hidden,
            "intermediate_size": wide,
            "max_position_embeddings": 262144,
            "model_type": "qwen3_vl_text",
            "num_attention_heads": heads,
            "num_hidden_layers": layers,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-06,
            "rope_scaling": {
                "mrope_interleaved": True,
                "mrope_section": [24, 20, 20],
                "rope_type": "default",
            },
            "rope_theta": 5000000,
            "tie_word_embeddings": tied,
            "vocab_size": 151936,
        },
        "tie_word_embeddings": tied,
        "video_token_id": 151656,
        "vision_config": vision,
        "vision_end_token_id": 151653,
        "vision_start_token_id": 151652,
    }


def qwen3_config(hidden: int, layers: int, heads: int, wide: int, tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": wide,
        "max_position_embeddings": 40960,
        "model_type": "qwen3",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "use_sliding_window": False,
        "vocab_size": 151936,
    }


def llama_config(hidden: int, layers: int, heads: int, wide: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "intermediate_size": wide,
        "max_position_embeddings": 131072,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 128256,
    }


def qwen3_5_122b_config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "image_token_id": 248056,
        "model_type": "qwen3_5_moe",
        "text_config": {
            "attn_output_gate": True,
            "dtype": "bfloat16",
            "full_attention_interval": 4,
            "head_dim": 256,
            "hidden_act": "silu",
            "hidden_size": 3072,
            "layer_types": ["full_attention" if n % 4 == 3 else "linear_attention" for n in range(48)],
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": 128,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 64,
            "linear_value_head_dim": 128,
            "mamba_ssm_dtype": "float32",
            "max_position_embeddings": 262144,
            "model_type": "qwen3_5_moe_text",
            "moe_intermediate_size": 1024,
            "mtp_num_hidden_layers": 1,
            "num_attention_heads": 32,
            "num_experts": 256,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 48,
            "num_key_value_heads": 2,
            "rms_norm_eps": 1e-06,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": [11, 11, 10],
                "partial_rotary_factor": 0.25,
                "rope_theta": 10000000,
                "rope_type": "default",
            },
            "shared_expert_intermediate_size": 1024,
            "tie_word_embeddings": False,
            "vocab_size": 248320,
        },
        "tie_word_embeddings": False,
        "video_token_id": 248057,
        "vision_config": _vision(27, 1152, 4304, 3072, [], "qwen3_5_moe"),
    }


def gpt_oss_20b_config() -> dict[str, Any]:
    return {
        "architectures": ["GptOssForCausalLM"],
        "attention_bias": True,
        "eos_token_id": 200002,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "layer_types": ["full_attention" if n % 2 else "sliding_attention" for n in range(24)],
        "max_position_embeddings": 131072,
        "model_type": "gpt_oss",
        "num_attention_heads": 64,
        "num_experts_per_tok": 4,
        "num_hidden_layers": 24,
        "num_key_value_heads": 8,
        "num_local_experts": 32,
        "quantization_config": {
            "modules_to_not_convert": [
                "model.layers.*.self_attn",
                "model.layers.*.mlp.router",
                "model.embed_tokens",
                "lm_head",
            ],
            "quant_method": "mxfp4",
        },
        "rms_norm_eps": 1e-05,
        "rope_scaling": {
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "rope_type": "yarn",
            "truncate": False,
        },
        "rope_theta": 150000,
        "sliding_window": 128,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "vocab_size": 201088,
    }


AWQ = {
    "bits": 4,
    "group_size": 128,
    "modules_to_not_convert": None,
    "quant_method": "awq",
    "version": "gemm",
    "zero_point": True,
}
PACKED = {
    "config_groups": {
        "group_0": {
            "input_activations": None,
            "targets": ["Linear"],
            "weights": {
                "dynamic": False,
                "group_size": 32,
                "num_bits": 4,
                "strategy": "group",
                "symmetric": True,
                "type": "int",
            },
        }
    },
    "format": "pack-quantized",
    "ignore": ["lm_head", "re:.*visual.*"],
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
}


def model(
    config: dict[str, Any], tensors: Iterator[Tensor], licence: str = "apache-2.0", context: int | None = None
) -> Folder:
    """A whole model folder: configuration, tokenizer stub, generation defaults, weights."""
    folder = Folder()
    folder.text("config.json", config)
    text = config.get("text_config", config)
    folder.text(
        "generation_config.json",
        {
            "do_sample": True,
            "eos_token_id": text.get("eos_token_id", 151645),
            "temperature": 0.7,
            "top_k": 20,
            "top_p": 0.8,
        },
    )
    folder.text(
        "tokenizer_config.json",
        {
            "chat_template": TEMPLATE,
            "model_max_length": context or text["max_position_embeddings"],
            "tokenizer_class": "PreTrainedTokenizerFast",
        },
    )
    folder.text("tokenizer.json", {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}})
    folder.text("README.md", f"---\nlicense: {licence}\npipeline_tag: text-generation\n---\n")
    if "vision_config" in config:
        vision = config["vision_config"]
        folder.text(
            "preprocessor_config.json",
            {
                "image_processor_type": "Qwen2VLImageProcessorFast",
                "merge_size": vision["spatial_merge_size"],
                "patch_size": vision["patch_size"],
                "size": {"longest_edge": 16777216, "shortest_edge": 65536},
                "temporal_patch_size": vision["temporal_patch_size"],
            },
        )
    add_weights(folder, tensors)
    return folder


def lora_on_experts(base: str, config: dict[str, Any], rank: int = 16) -> Folder:
    """An adapter that was trained on attention and on the experts of every layer."""
    text = config["text_config"]
    folder = Folder()
    folder.text(
        "adapter_config.json",
        {
            "base_model_name_or_path": base,
            "bias": "none",
            "lora_alpha": 2 * rank,
            "lora_dropout": 0.0,
            "peft_type": "LORA",
            "r": rank,
            "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj"],
            "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
            "task_type": "CAUSAL_LM",
        },
    )
    hidden, dim = text["hidden_size"], text["head_dim"]
    experts, wide = text["num_experts"], text["moe_intermediate_size"]

    def tensors() -> Iterator[Tensor]:
        for number, kind in enumerate(text["layer_types"]):
            layer = f"base_model.model.model.language_model.layers.{number}"
            if kind == "full_attention":
                for name, out in (("q_proj", 2 * text["num_attention_heads"] * dim), ("o_proj", hidden)):
                    into = hidden if name == "q_proj" else text["num_attention_heads"] * dim
                    yield f"{layer}.self_attn.{name}.lora_A.weight", "BF16", (rank, into)
                    yield f"{layer}.self_attn.{name}.lora_B.weight", "BF16", (out, rank)
            for name, out, into in (("gate_up_proj", 2 * wide, hidden), ("down_proj", hidden, wide)):
                yield f"{layer}.mlp.experts.{name}.lora_A.weight", "BF16", (experts * rank, into)
                yield f"{layer}.mlp.experts.{name}.lora_B.weight", "BF16", (out, experts * rank)

    folder.files["adapter_model.safetensors"], folder.sizes["adapter_model.safetensors"] = header(
        list(tensors())
    )
    return folder


def gguf(name: str, architecture: str, layers: int, hidden: int, heads: int, kv: int, wide: int) -> Folder:
    """A GGUF file cut after its metadata."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def pair(key: str, value: str | int) -> bytes:
        if isinstance(value, str):
            return text(key) + struct.pack("<I", 8) + text(value)
        return text(key) + struct.pack("<II", 4, value)

    pairs: list[tuple[str, str | int]] = [
        ("general.architecture", architecture),
        ("general.name", name),
        ("general.file_type", 15),
        (f"{architecture}.block_count", layers),
        (f"{architecture}.context_length", 40960),
        (f"{architecture}.embedding_length", hidden),
        (f"{architecture}.feed_forward_length", wide),
        (f"{architecture}.attention.head_count", heads),
        (f"{architecture}.attention.head_count_kv", kv),
        (f"{architecture}.attention.key_length", 128),
        (f"{architecture}.attention.value_length", 128),
    ]
    dim = 128
    shapes = [("token_embd.weight", (hidden, 151936)), ("output.weight", (hidden, 151936))]
    for number in range(layers):
        shapes += [
            (f"blk.{number}.attn_q.weight", (hidden, heads * dim)),
            (f"blk.{number}.attn_k.weight", (hidden, kv * dim)),
            (f"blk.{number}.attn_v.weight", (hidden, kv * dim)),
            (f"blk.{number}.attn_output.weight", (heads * dim, hidden)),
            (f"blk.{number}.ffn_gate.weight", (hidden, wide)),
            (f"blk.{number}.ffn_up.weight", (hidden, wide)),
            (f"blk.{number}.ffn_down.weight", (wide, hidden)),
        ]
    table, offset = b"", 0
    for tensor, (rows, columns) in shapes:
        table += text(tensor) + struct.pack(
            "<IQQIQ", 2, rows, columns, 12, offset
        )  # 12: Q4_K, 256 values in 144 bytes
        offset += rows * columns // 256 * 144
    body = (
        b"GGUF"
        + struct.pack("<IQQ", 3, len(shapes), len(pairs))
        + b"".join(pair(k, v) for k, v in pairs)
        + table
    )
    folder = Folder()
    folder.files[f"{name}.gguf"] = body
    folder.sizes[f"{name}.gguf"] = len(body) + (-len(body) % 32) + offset
    return folder


def revision(repo: str) -> str:
    """A made-up commit of a repository, always the same."""
    return hashlib.sha1(repo.encode()).hexdigest()
