"""Weights as vLLM holds them on each GPU: fused tensors cut by tensor and pipeline parallelism.

Also what PyTorch's allocator adds to them, the rotary tables that lie beside them, and LoRA slots.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wizard.fit_constants import LATENT_SINCE, MIB, version_key
from wizard.fit_profile import is_hopper_class
from wizard.fit_types import FitRequest
from wizard.models.arch import Arch, Weight
from wizard.models.quant import Quant
from wizard.models.weights import NO_RULES, Rules, element_bytes, layer_rules


def allocated(size: float) -> int:
    """Bytes that PyTorch's caching allocator hands out for one tensor.

    Small ones come in steps of 512 bytes. From 10 MiB on a tensor gets a segment of its own in steps of 2 MiB, and
    what is left over of it is given back only when it is more than 1 MiB (c10/cuda/CUDACachingAllocator.cpp).
    """
    whole = -(-int(size) // 512) * 512
    if whole < 10 * MIB:
        return whole
    segment = -(-whole // (2 * MIB)) * 2 * MIB
    return segment if segment - whole <= MIB else whole


@dataclass(frozen=True)
class Stage:
    """One pipeline stage on one GPU. ``fixed`` does not scale with what the checkpoint really holds."""

    by_kind: dict[str, int]
    fixed: int
    first_layer: int
    layers: int

    @property
    def bytes(self) -> int:
        return sum(self.by_kind.values()) + self.fixed


def stage_spans(layers: int, stages: int) -> list[tuple[int, int]]:
    """(first layer, count) of each pipeline stage: what is left over goes to the stages before the last."""
    stages = max(1, min(stages, layers or 1))
    each, left = divmod(layers, stages)
    counts = [each] * stages
    for i in range(2, left + 2):
        counts[-i % stages] += 1
    out, start = [], 0
    for count in counts:
        out.append((start, count))
        start += count
    return out


def _padded(weight: Weight, quant: Quant, shape: tuple[int, int, int], request: FitRequest) -> tuple[int, int, int]:
    """The shape that the MXFP4 kernels of mixture layers ask for: edges rounded up."""
    if quant.method != "mxfp4" or weight.kind != "experts" or weight.cols == 1:
        return shape
    stack, rows, cols = shape
    cols = -(-cols // 256) * 256
    if not is_hopper_class(request) or request.tensor_parallel_size > 1:
        rows = -(-rows // 256) * 256 if weight.name == "w13" else -(-rows // 128) * 128
    return stack, rows, cols


def tensor_bytes(weight: Weight, quant: Quant, dtype_bytes: float, request: FitRequest, rules: Rules = NO_RULES) -> int:
    """Allocated bytes of one tensor on the fullest GPU."""
    tp = max(1, request.tensor_parallel_size)
    ep_size = tp * max(1, request.data_parallel_size)
    shape = weight.shape_on(tp, request.expert_parallel, ep_size)
    stack, rows, cols = _padded(weight, quant, shape, request)
    size = element_bytes(weight, quant, dtype_bytes, rules)
    held = allocated(stack * rows * cols * size)
    if weight.name == "kv_b_proj" and size < dtype_bytes and version_key(request.release) >= LATENT_SINCE:
        # latent attention multiplies by it in 16 bit: beside the quantized one a copy is kept
        # (process_weights_after_loading in vllm/model_executor/layers/attention/mla_attention.py)
        held += allocated(stack * rows * cols * dtype_bytes)
    return held


def stages(arch: Arch, quant: Quant, dtype_bytes: float, request: FitRequest, *, towers: bool, mtp: bool) -> list[Stage]:
    """What each pipeline stage holds."""
    spans = stage_spans(len(arch.blocks), max(1, request.pipeline_parallel_size))
    rules = layer_rules(quant, len(arch.blocks))
    memo: dict[tuple[int, Rules], dict[str, int]] = {}
    out = []
    for index, (start, count) in enumerate(spans):
        totals: dict[str, int] = {}
        for number in range(start, start + count):
            block = arch.blocks[number]
            key = (id(block.weights), rules[number])
            if key not in memo:
                memo[key] = _sum(block.weights, quant, dtype_bytes, request, rules[number])
            for kind, size in memo[key].items():
                totals[kind] = totals.get(kind, 0) + size
        edge: list[Weight] = []
        last = index == len(spans) - 1
        if index == 0:
            edge += arch.embedding
            if towers:
                edge += arch.extra
        if last:
            edge += arch.head
            if arch.tied and len(spans) > 1:
                edge += arch.embedding
            if mtp:
                edge += arch.mtp
        for kind, size in _sum(edge, quant, dtype_bytes, request).items():
            totals[kind] = totals.get(kind, 0) + size
        out.append(Stage(totals, allocated(arch.rope_elements * dtype_bytes), start, count))
    return out


def _sum(weights: Iterable[Weight], quant: Quant, dtype_bytes: float, request: FitRequest, rules: Rules = NO_RULES) -> dict[str, int]:
    totals: dict[str, int] = {}
    for weight in weights:
        totals[weight.kind] = totals.get(weight.kind, 0) + tensor_bytes(weight, quant, dtype_bytes, request, rules)
    return totals


def lora_bytes(arch: Arch, request: FitRequest, dtype_bytes: float) -> int:
    """All LoRA slots on one GPU: A and B matrices of the largest rank for every projection, experts included.

    A is copied for projections whose outputs are cut and B for those whose inputs are (vllm/lora/layers).
    """
    if request.lora_slots <= 0:
        return 0
    tp, rank = max(1, request.tensor_parallel_size), request.max_lora_rank
    total = 0.0
    for start, count in stage_spans(len(arch.blocks), max(1, request.pipeline_parallel_size))[:1]:
        for block in arch.blocks[start : start + count]:
            for weight in block.weights:
                if weight.cols <= 1 or weight.kind not in ("attention", "mlp", "experts") or not weight.name:
                    continue
                slices = {"qkv_proj": 3, "gate_up_proj": 2, "shared_gate_up_proj": 2, "w13": 2}.get(weight.name, 1)
                rows, cols = weight.rows, weight.cols
                if weight.shard in ("rows", "qkv") or (weight.shard == "expert" and weight.expert_cut == "rows"):
                    size = rank * (cols * slices + rows / tp)
                else:
                    size = rank * (cols / tp + rows)
                total += size * weight.stack
    return int(total * request.lora_slots * dtype_bytes)
