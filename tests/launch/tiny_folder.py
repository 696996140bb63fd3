"""A model folder of a few kilobytes, complete enough to be planned for; the stand-in server loads nothing of it."""

from __future__ import annotations

import json
from pathlib import Path


def make_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 40960, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"model.embed_tokens.weight": {"dtype": "BF16", "shape": [512, 64], "data_offsets": [0, 65536]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(65536))
    (folder / "tokenizer.json").write_text("{}")
