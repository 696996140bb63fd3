"""What a model's weights take: by kind, at a quantization, from the anatomy alone."""

from __future__ import annotations

from collections.abc import Iterable

from wizard.models.arch import Arch, Weight
from wizard.models.quant import Quant

DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0, "float64": 8.0, "float8_e4m3fn": 1.0}

# Kinds that checkpoints leave in the model's dtype whatever their quantization.
NEVER_QUANTIZED = {"embedding", "lm_head", "other", "router", "vision", "audio"}


def element_bytes(weight: Weight, quant: Quant, dtype_bytes: float) -> float:
    """Bytes of one element of ``weight`` as held on the GPU."""
    if weight.dtype_bytes is not None:
        return weight.dtype_bytes
    if quant.bytes_per_weight is None or not weight.quantized or weight.cols == 1:
        return dtype_bytes
    if weight.kind in NEVER_QUANTIZED or (quant.only_experts and weight.kind != "experts"):
        return dtype_bytes
    if weight.kind == "mtp" and any("mtp" in name for name in quant.ignored):
        return dtype_bytes
    if _ignored(weight, quant.ignored):
        return dtype_bytes
    return quant.bytes_per_weight


def _ignored(weight: Weight, ignored: tuple[str, ...]) -> bool:
    """Whether the checkpoint keeps this kind of weight out of the quantization, for all layers alike."""
    if not ignored or not weight.name:
        return False
    parts = _CHECKPOINT_NAMES.get(weight.name, (weight.name,))
    patterns = [name for name in ignored if name.startswith("re:") or "*" in name]
    # a rule that names one layer says nothing of the others: only rules for all layers count here
    return any(part in pattern for part in parts for pattern in patterns)


_CHECKPOINT_NAMES = {
    "qkv_proj": ("self_attn", "q_proj", "qkv_proj"),
    "o_proj": ("self_attn", "o_proj"),
    "in_proj_qkvz": ("linear_attn", "in_proj_qkv"),
    "out_proj": ("linear_attn", "out_proj"),
    "gate_up_proj": ("gate_proj", "shared_expert"),
    "down_proj": ("down_proj", "shared_expert"),
    "w13": ("experts",),
    "w2": ("experts",),
}


def by_kind(arch: Arch, quant: Quant, dtype_bytes: float) -> dict[str, int]:
    """Bytes of all weights that a checkpoint of ``arch`` holds, by kind (router counts as "other")."""
    totals: dict[str, float] = {}
    for weight in all_weights(arch):
        kind = "other" if weight.kind == "router" else weight.kind
        totals[kind] = totals.get(kind, 0.0) + weight.elements * element_bytes(weight, quant, dtype_bytes)
    return {k: round(v) for k, v in totals.items()}


def parameters(arch: Arch) -> int:
    """Number of parameters, without the multi-token-prediction layers."""
    return sum(w.elements for w in all_weights(arch) if w.kind != "mtp")


def all_weights(arch: Arch) -> Iterable[Weight]:
    yield from arch.embedding
    for block in arch.blocks:
        yield from block.weights
    yield from arch.head
    yield from arch.extra
    yield from arch.mtp
