"""What a model's weights take: by kind, at a quantization, from the anatomy alone."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from wizard.models.arch import Arch, Weight
from wizard.models.quant import Quant

DTYPE_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0, "float64": 8.0, "float8_e4m3fn": 1.0}

# Kinds that checkpoints leave in the model's dtype whatever their quantization.
NEVER_QUANTIZED = {"embedding", "lm_head", "other", "router", "vision", "audio"}


# What a checkpoint says of single projections of one layer: (our name, bytes of a weight; None: unquantized).
Rules = frozenset[tuple[str, float | None]]
NO_RULES: Rules = frozenset()


def element_bytes(weight: Weight, quant: Quant, dtype_bytes: float, rules: Rules = NO_RULES) -> float:
    """Bytes of one element of ``weight`` as held on the GPU; ``rules`` are those of its layer."""
    if weight.dtype_bytes is not None:
        return weight.dtype_bytes
    if weight.kind == "lm_head" and quant.lm_head and quant.bytes_per_weight is not None and weight.cols > 1:
        return quant.bytes_per_weight
    if quant.bytes_per_weight is None or not weight.quantized or weight.cols == 1:
        return dtype_bytes
    if weight.kind in NEVER_QUANTIZED or (quant.only_experts and weight.kind != "experts"):
        return dtype_bytes
    if weight.kind == "mtp" and any("mtp" in name for name in quant.ignored):
        return dtype_bytes
    for name, size in rules:
        if name == weight.name:
            return dtype_bytes if size is None else size
    return quant.bytes_per_weight


# our names of projections -> the modules of a layer that they hold, as checkpoints name them
_MODULES: dict[str, tuple[str, ...]] = {
    "qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.qkv_proj", "attention.query_key_value", "mixer.q_proj", "attention.wq"),
    "o_proj": ("self_attn.o_proj", "attention.dense", "mixer.o_proj", "attention.wo"),
    "q_proj": ("self_attn.q_proj",),
    "fused_qkv_a_proj": ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"),
    "kv_a_proj": ("self_attn.kv_a_proj_with_mqa",),
    "q_b_proj": ("self_attn.q_b_proj",),
    "kv_b_proj": ("self_attn.kv_b_proj",),
    "in_proj_qkvz": ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz", "linear_attn.in_proj_z"),
    "out_proj": ("linear_attn.out_proj", "mixer.out_proj", "mamba.out_proj", "conv.out_proj"),
    "in_proj": ("mixer.in_proj", "mamba.in_proj", "conv.in_proj"),
    "gate_up_proj": ("mlp.gate_proj", "mlp.up_proj", "mlp.gate_up_proj", "mixer.up_proj", "feed_forward.w1"),
    "down_proj": ("mlp.down_proj", "mixer.down_proj", "feed_forward.w2"),
    "shared_gate_up_proj": ("mlp.shared_expert.gate_proj", "mlp.shared_experts.gate_proj", "mixer.shared_experts.up_proj", "feed_forward.shared_expert.gate_proj"),
    "shared_down_proj": ("mlp.shared_expert.down_proj", "mlp.shared_experts.down_proj", "mixer.shared_experts.down_proj", "feed_forward.shared_expert.down_proj"),
    "w13": ("mlp.experts.0.gate_proj", "mlp.experts.gate_up_proj", "block_sparse_moe.experts.0.w1", "feed_forward.experts.gate_up_proj", "mixer.experts.0.up_proj"),
    "w2": ("mlp.experts.0.down_proj", "mlp.experts.down_proj", "block_sparse_moe.experts.0.w2", "feed_forward.experts.down_proj", "mixer.experts.0.down_proj"),
}
_PREFIXES = ("model.layers.{i}.", "model.language_model.layers.{i}.", "language_model.model.layers.{i}.", "backbone.layers.{i}.")


def layer_rules(quant: Quant, layers: int) -> tuple[Rules, ...]:
    """For every layer what the checkpoint says of its projections: left unquantized, or quantized in another way."""
    exempt = exemptions(quant, layers)
    if not quant.overrides or quant.bytes_per_weight is None:
        kept: dict[frozenset[str], Rules] = {}
        return tuple(kept.setdefault(names, frozenset((name, None) for name in names)) for names in exempt)
    out = []
    found = [(matched, size) for pattern, size in quant.overrides for matched in (_named(pattern, layers),)]
    for i in range(layers):
        rules: dict[str, float | None] = dict.fromkeys(exempt[i])
        for matched, size in found:
            for name in matched[i]:
                rules.setdefault(name, size)
        out.append(frozenset(rules.items()))
    return tuple(out)


def exemptions(quant: Quant, layers: int) -> tuple[frozenset[str], ...]:
    """For every layer the names (of :data:`_MODULES`) that the checkpoint leaves unquantized."""
    if not quant.ignored or quant.bytes_per_weight is None:
        return (frozenset(),) * layers
    return _matching(quant.ignored, layers)


def _named(pattern: str, layers: int) -> tuple[frozenset[str], ...]:
    return _matching((pattern,), layers)


@lru_cache(maxsize=512)
def _matching(patterns: tuple[str, ...], layers: int) -> tuple[frozenset[str], ...]:
    """For every layer the names whose modules one of the patterns names."""
    by_number: dict[int, list[Callable[[str], bool]]] = {}
    general: list[Callable[[str], bool]] = []
    for pattern in patterns:
        if re.search(r"experts\.[1-9]\d*\.", pattern):
            continue  # all experts of a layer are held alike: the first speaks for them
        number = re.search(r"layers\.(\d+)(?:\.|$)", pattern) if not pattern.startswith("re:") else None
        if number is not None:
            by_number.setdefault(int(number.group(1)), []).append(_matcher(pattern))
        else:
            general.append(_matcher(pattern))
    plain = _exempt_in(0, general) if not any(p.startswith("re:") and re.search(r"\d", p) for p in patterns) else None
    out: list[frozenset[str]] = []
    for i in range(layers):
        common = plain if plain is not None else _exempt_in(i, general)
        own = _exempt_in(i, by_number[i]) if i in by_number else frozenset()
        out.append(common | own)
    return tuple(out)


def _exempt_in(layer: int, tests: Sequence[Callable[[str], bool]]) -> frozenset[str]:
    out = set()
    for name, modules in _MODULES.items():
        for prefix in _PREFIXES:
            start = prefix.format(i=layer)
            if any(test(start + module) for module in modules for test in tests):
                out.add(name)
                break
    return frozenset(out)


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether an ignore rule names a module: a regular expression ("re:..."), a glob, a prefix or a part of the name."""
    if pattern.startswith("re:"):
        try:
            expression = re.compile(pattern[3:])
        except re.error:
            return lambda name: False
        return lambda name: expression.match(name) is not None
    if "*" in pattern or "?" in pattern:
        compiled = re.compile(fnmatch.translate(pattern))
        inner = re.compile(fnmatch.translate("*" + pattern.strip("*") + "*")) if "layers" not in pattern else None
        return lambda name: compiled.match(name) is not None or (inner is not None and inner.match(name) is not None)
    needle = "." + pattern.strip(".") + "."
    return lambda name: needle in "." + name + "."


def by_kind(arch: Arch, quant: Quant, dtype_bytes: float) -> dict[str, int]:
    """Bytes of all weights that a checkpoint of ``arch`` holds, by kind (router counts as "other")."""
    totals: dict[str, float] = {}

    def count(weights: Iterable[Weight], rules: Rules = NO_RULES) -> dict[str, float]:
        out: dict[str, float] = {}
        for weight in weights:
            kind = "other" if weight.kind == "router" else weight.kind
            out[kind] = out.get(kind, 0.0) + weight.elements * element_bytes(weight, quant, dtype_bytes, rules)
        return out

    memo: dict[tuple[int, Rules], dict[str, float]] = {}
    parts = [count((*arch.embedding, *arch.head, *arch.extra, *arch.mtp))]
    for block, rules in zip(arch.blocks, layer_rules(quant, len(arch.blocks)), strict=True):
        key = (id(block.weights), rules)
        if key not in memo:
            memo[key] = count(block.weights, rules)
        parts.append(memo[key])
    for part in parts:
        for kind, size in part.items():
            totals[kind] = totals.get(kind, 0.0) + size
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
