"""The config.json facts of published models that neither lie here nor have a recipe of their own.

``known.json`` holds shapes by family with their source and published parameter count, and the checkpoints that have
them. A checkpoint that someone else quantized is only known roughly: which modules it leaves alone is not told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

# What a checkpoint's tags change. The quantizations are those that the publishers name.
_TAGS: dict[str, dict[str, Any]] = {
    "fp8": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    "fp8-channel": {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}, "ignore": ["lm_head"]}},
    "fp8-tensor": {"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}},
    "nvfp4": {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
    "awq": {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}},
    "w8a8": {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}}, "ignore": ["lm_head"]}},
    "long": {"max_position_embeddings": 262_144},
    "glm46": {"max_position_embeddings": 202_752},
}  # fmt: skip
_ROUGH = frozenset(("fp8-channel", "fp8-tensor", "nvfp4"))


@dataclass(frozen=True)
class Known:
    """One checkpoint: its config, and whether sizes that follow from it are only rough."""

    config: Mapping[str, Any]
    rough: bool
    source: str


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[dict[str, Any], str]]:
    """Checkpoint in lower case -> (its family, its tags)."""
    from importlib.resources import files

    families = json.loads(files("wizard").joinpath("models/known.json").read_text(encoding="utf-8"))
    return {name.lower(): (family, tags or "") for family in families.values() for name, tags in family["checkpoints"].items()}


@lru_cache(maxsize=256)
def known(repo_id: str) -> Known | None:
    """What is known of the checkpoint with this repository id, or None."""
    hit = _table().get(repo_id.strip().lower())
    if hit is None:
        return None
    family, tags = hit
    config: dict[str, Any] = dict(family["config"])
    for tag in tags.split():
        config.update(_TAGS[tag])
    return Known(config, bool(_ROUGH & set(tags.split())), family["source"])
