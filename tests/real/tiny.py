"""Tiny models with random weights, a tokenizer and LoRA adapters, written byte by byte: no library is needed."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

WORDS = 500
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant "


def bf16(count: int, scale: float, seed: int) -> bytes:
    """``count`` normal random numbers as bfloat16: the upper half of a float."""
    numbers = random.Random(seed)
    return b"".join(struct.pack("<f", numbers.gauss(0, scale))[2:] for _ in range(count))


def safetensors(path: Path, shapes: dict[str, tuple[int, ...]], scale: float = 0.05) -> None:
    """A safetensors file of random bfloat16 tensors; one-dimensional ones (norms) are all ones."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body, at = [], 0
    for seed, (name, shape) in enumerate(shapes.items()):
        count = 1
        for side in shape:
            count *= side
        raw = b"\x80\x3f" * count if len(shape) == 1 else bf16(count, scale, seed)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        body.append(raw)
        at += len(raw)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(body))


def config(kv_heads: int = 2, head_dim: int = 64, longest: int = 2048, **changes: object) -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": kv_heads * 2, "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": 512, "max_position_embeddings": longest,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu",
        "attention_bias": False, "bos_token_id": 0, "eos_token_id": 1, **changes,
    }  # fmt: skip


def model(folder: Path, **changes: object) -> Path:
    """A Qwen3 of two layers that vLLM serves on a CPU."""
    folder.mkdir(parents=True)
    made = config(**changes)  # type: ignore[arg-type]
    (folder / "config.json").write_text(json.dumps(made))
    hidden, inner, vocab = 64, 128, 512
    heads, kv_heads, dim = int(str(made["num_attention_heads"])), int(str(made["num_key_value_heads"])), int(str(made["head_dim"]))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, hidden)}
    for layer in range(2):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "self_attn.q_proj.weight": (heads * dim, hidden), at + "self_attn.k_proj.weight": (kv_heads * dim, hidden),
            at + "self_attn.v_proj.weight": (kv_heads * dim, hidden), at + "self_attn.o_proj.weight": (hidden, heads * dim),
            at + "self_attn.q_norm.weight": (dim,), at + "self_attn.k_norm.weight": (dim,),
            at + "mlp.gate_proj.weight": (inner, hidden), at + "mlp.up_proj.weight": (inner, hidden), at + "mlp.down_proj.weight": (hidden, inner),
            at + "input_layernorm.weight": (hidden,), at + "post_attention_layernorm.weight": (hidden,),
        }  # fmt: skip
    shapes |= {"model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
    safetensors(folder / "model.safetensors", shapes)
    tokenizer(folder)
    return folder


def tokenizer(folder: Path) -> None:
    """Whole words: enough for any text to become tokens and back."""
    names = ["<s>", "</s>", "<unk>", "hello", "Say", "in", "one", "short", "sentence", ".", "user", "assistant"]
    vocab = {w: n for n, w in enumerate(names + [f"word{n}" for n in range(len(names), WORDS)])}
    special = [{"id": n, "content": names[n], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for n in range(3)]
    data = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(data))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "chat_template": TEMPLATE, "model_max_length": 1000000}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def adapter(folder: Path, base: Path, rank: int = 8) -> Path:
    """A LoRA adapter for ``q_proj`` of :func:`model` with its default sizes."""
    folder.mkdir(parents=True)
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank * 2, "lora_dropout": 0.0, "bias": "none",
        "target_modules": ["q_proj"], "base_model_name_or_path": str(base),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(2):
        at = f"base_model.model.model.layers.{layer}.self_attn.q_proj."
        shapes |= {at + "lora_A.weight": (rank, 64), at + "lora_B.weight": (4 * 64, rank)}
    safetensors(folder / "adapter_model.safetensors", shapes)
    return folder
