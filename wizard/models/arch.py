"""The anatomy of a model as its ``config.json`` describes it: for every layer what it keeps between tokens and
which weights vLLM allocates for it.

Shapes follow vLLM's own layers (fused qkv and gate/up projections, padded vocabulary), because memory is what
vLLM allocates, not what the checkpoint stores. Families that differ from plain grouped-query attention are read
by readers named after their ``model_type``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wizard.i18n import _
from wizard.models.info import KvLayer, LayerKind

VOCAB_PADDING = 64  # vLLM pads the vocabulary to a multiple of this


@dataclass(frozen=True)
class Weight:
    """One parameter tensor as vLLM allocates it, before tensor parallelism cuts it.

    ``shard``: "rows" or "cols" are divided by the TP size, "vocab" are padded rows, "qkv" are rows of which
    ``kv_rows`` belong to ``kv_heads`` heads that are copied when there are fewer heads than GPUs, "expert"
    is a stack of experts cut along ``expert_cut`` (or divided whole under expert parallelism), "none" is copied.
    """

    kind: str
    rows: int
    cols: int = 1
    shard: str = "none"
    stack: int = 1
    kv_rows: int = 0
    kv_heads: int = 0
    expert_cut: str = "rows"
    quantized: bool = True  # may be held in the quantized format
    dtype_bytes: float | None = None  # when it does not follow the model's dtype
    name: str = ""

    @property
    def elements(self) -> int:
        return self.rows * self.cols * self.stack

    def shape_on(self, tp: int, ep: bool = False, ep_size: int = 1) -> tuple[int, int, int]:
        """(stack, rows, cols) on the fullest GPU.

        ``ep_size`` is over how many GPUs the experts go: all of tensor and data parallelism, whole experts with
        ``ep``, slices of each without (vllm/model_executor/layers/fused_moe/config.py).
        """
        if tp <= 1 and ep_size <= 1:
            rows = -(-self.rows // VOCAB_PADDING) * VOCAB_PADDING if self.shard == "vocab" else self.rows
            return self.stack, rows, self.cols
        if self.shard == "rows":
            return self.stack, -(-self.rows // tp), self.cols
        if self.shard == "cols":
            return self.stack, self.rows, -(-self.cols // tp)
        if self.shard == "vocab":
            padded = -(-self.rows // VOCAB_PADDING) * VOCAB_PADDING
            return self.stack, -(-padded // tp), self.cols
        if self.shard == "qkv":
            per_head = self.kv_rows // self.kv_heads if self.kv_heads else 0
            heads = max(1, -(-self.kv_heads // tp)) if self.kv_heads else 0
            return self.stack, -(-(self.rows - self.kv_rows) // tp) + per_head * heads, self.cols
        if self.shard == "expert":
            every = max(tp, ep_size)
            if ep:
                return -(-self.stack // every), self.rows, self.cols
            if self.expert_cut == "rows":
                return self.stack, -(-self.rows // every), self.cols
            return self.stack, self.rows, -(-self.cols // every) if self.expert_cut == "cols" else self.cols
        return self.stack, self.rows, self.cols


@dataclass(frozen=True)
class Block:
    """One decoder layer."""

    kv: tuple[KvLayer, ...]  # what it keeps; more than one for a layer with two mixers
    weights: tuple[Weight, ...]
    moe: bool = False
    widest: int = 0  # widest inner activation, in elements per token


@dataclass(frozen=True)
class Arch:
    """A whole model."""

    model_type: str
    hidden: int
    vocab: int
    blocks: tuple[Block, ...]
    tied: bool = False
    embedding: tuple[Weight, ...] = ()  # on the first pipeline stage
    head: tuple[Weight, ...] = ()  # on the last pipeline stage
    extra: tuple[Weight, ...] = ()  # towers and projectors, on the first stage
    mtp: tuple[Weight, ...] = ()  # loaded only for speculative decoding
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    inter: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_inter: int = 0
    rope_elements: int = 0  # cos/sin tables, elements at the model's dtype
    layout_known: bool = True
    notes: tuple[str, ...] = ()
    no_kv: bool = False  # encoder-only: nothing is kept
    mtp_layers: int = 0
    max_position: int | None = None
    linear_state_dtype: str = ""
    details: dict[str, Any] = field(default_factory=dict, compare=False)

    def kv_layers(self) -> tuple[KvLayer, ...]:
        """Layers grouped by equal cache shape, in order of first appearance."""
        counts: dict[KvLayer, int] = {}
        for block in self.blocks:
            for layer in block.kv:
                key = layer if layer.count == 1 else replace(layer, count=1)
                counts[key] = counts.get(key, 0) + layer.count
        return tuple(replace(k, count=n) for k, n in counts.items())


class ConfigError(ValueError):
    """The config lacks what every model needs, or holds a value that cannot be."""


# --- reading values ------------------------------------------------------------------------------------------


def integer(config: Mapping[str, Any], *keys: str, default: int | None = None) -> int | None:
    """The first of ``keys`` that holds a whole number (a list of equal numbers counts as one)."""
    for key in keys:
        value = config.get(key)
        if isinstance(value, (list, tuple)) and value and all(type(x) is int for x in value):
            value = max(value)
        if type(value) is int and abs(value) < 10**12:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 10**12:
            return int(value)
    return default


def need(config: Mapping[str, Any], *keys: str) -> int:
    value = integer(config, *keys)
    if value is None or value < 0:
        raise ConfigError(_("config.json has no {keys}").format(keys=_(" or ").join(keys)))
    return value


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a (multimodal) config, with what only the outer part tells filled in."""
    inner: Mapping[str, Any] = {}
    for key in ("thinker_config", "text_config", "llm_config", "language_config", "text_model_config"):
        found = _mapping(config.get(key))
        if not found:
            continue
        if key == "thinker_config":
            return text_config(found)
        if integer(found, "hidden_size", "n_embd", "d_model", "dim") is not None:
            inner = found
            break
    if not inner:
        return config
    merged = dict(inner)
    for key in ("tie_word_embeddings", "torch_dtype", "dtype", "model_type", "vocab_size"):
        if key not in merged and key in config:
            merged[key] = config[key]
    # a nested config's tie flag is a class default that is often not written; the outer one decides then
    return merged


def vision_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The vision tower's part of a multimodal config; empty when there is none."""
    for place in (config, _mapping(config.get("thinker_config"))):
        for key in ("vision_config", "vision_tower_config", "visual", "vit_config"):
            found = _mapping(place.get(key))
            if found:
                return found
    return {}


def rope_parameters(text: Mapping[str, Any]) -> Mapping[str, Any]:
    """``rope_scaling`` or (transformers 5) ``rope_parameters`` of full attention."""
    for key in ("rope_scaling", "rope_parameters"):
        block = _mapping(text.get(key))
        if not block:
            continue
        if "full_attention" in block:
            return _mapping(block["full_attention"])
        return block
    return {}


def dims(text: Mapping[str, Any]) -> tuple[int, int, int, int, int]:
    """(hidden, layers, heads, kv heads, head size)."""
    hidden = need(text, "hidden_size", "n_embd", "d_model", "dim")
    layers = need(text, "num_hidden_layers", "n_layer", "n_layers", "num_layers")
    heads = need(text, "num_attention_heads", "n_head", "n_heads", "num_heads")
    kv = integer(text, "num_key_value_heads", "n_head_kv", "num_kv_heads", "n_kv_heads", "num_attention_groups")
    if kv is None and text.get("multi_query_attention"):
        kv = integer(text, "multi_query_group_num")
    if kv is None and text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        kv = 1
    kv = kv or heads
    size = integer(text, "head_dim", "kv_channels", "attention_head_dim", "hidden_size_per_head")
    if size is None:
        size = hidden // heads if heads else 0
    if not 0 < layers <= 10_000 or hidden <= 0 or heads < 0:
        raise ConfigError(_("config.json has impossible counts of layers, width or heads"))
    return hidden, layers, heads, kv, size


# --- pieces --------------------------------------------------------------------------------------------------


def gqa(
    hidden: int, heads: int, kv_heads: int, head_dim: int, *,
    bias: bool = False, o_bias: bool = False, qk_norm: int = 0, gate: bool = False, v_dim: int = 0,
    shares_kv: bool = False, k_is_v: bool = False, kind: str = "attention",
) -> tuple[Weight, ...]:  # fmt: skip
    """Weights of grouped-query attention with vLLM's fused qkv projection."""
    v_dim = v_dim or head_dim
    q_rows = heads * head_dim * (2 if gate else 1)
    kv_rows = 0 if shares_kv else kv_heads * (head_dim + (0 if k_is_v else v_dim))
    out = [
        Weight(kind, q_rows + kv_rows, hidden, "qkv", kv_rows=kv_rows, kv_heads=kv_heads if kv_rows else 0, name="qkv_proj"),
        Weight(kind, hidden, heads * v_dim, "cols", name="o_proj"),
    ]
    if bias:
        out.append(Weight(kind, q_rows + kv_rows, 1, "qkv", kv_rows=kv_rows, kv_heads=kv_heads if kv_rows else 0, quantized=False))
    if o_bias:
        out.append(Weight(kind, hidden, quantized=False))
    if qk_norm:
        out.append(Weight("other", qk_norm, quantized=False))
    return tuple(out)


def mlp(hidden: int, inter: int, *, gated: bool = True, bias: bool = False, kind: str = "mlp", prefix: str = "") -> tuple[Weight, ...]:
    """Weights of a dense MLP; ``prefix`` sets those of shared experts apart."""
    if inter <= 0:
        return ()
    up = inter * (2 if gated else 1)
    out = [Weight(kind, up, hidden, "rows", name=f"{prefix}gate_up_proj"), Weight(kind, hidden, inter, "cols", name=f"{prefix}down_proj")]
    if bias:
        out += [Weight(kind, up, 1, "rows", quantized=False), Weight(kind, hidden, quantized=False)]
    return tuple(out)


def moe(
    hidden: int, experts: int, inter: int, *, shared_inter: int = 0, shared_gate: bool = False, gated: bool = True,
    bias: bool = False, correction: bool = False, router_bytes: float | None = None,
) -> tuple[Weight, ...]:  # fmt: skip
    """A mixture layer: router, the stacked experts, and shared experts."""
    up = inter * (2 if gated else 1)
    out = [
        Weight("router", experts, hidden, quantized=False, dtype_bytes=router_bytes, name="gate"),
        Weight("experts", up, hidden, "expert", stack=experts, name="w13"),
        Weight("experts", hidden, inter, "expert", stack=experts, expert_cut="cols", name="w2"),
    ]
    if bias:
        out += [
            Weight("router", experts, quantized=False),
            Weight("experts", up, 1, "expert", stack=experts, quantized=False),
            Weight("experts", hidden, 1, "expert", stack=experts, expert_cut="none", quantized=False),
        ]
    if correction:
        out.append(Weight("router", experts, quantized=False, dtype_bytes=4))
    if shared_inter:
        out += mlp(hidden, shared_inter, gated=gated, prefix="shared_")
    if shared_gate:
        out.append(Weight("router", 1, hidden, quantized=False))
    return tuple(out)


def norms(hidden: int, count: int = 2, bias: bool = False) -> tuple[Weight, ...]:
    return tuple(Weight("other", hidden, quantized=False) for _i in range(count * (2 if bias else 1)))


def attention_kv(
    kv_heads: int, head_dim: int, window: int | None = None, v_dim: int = 0, chunked: bool = False
) -> KvLayer:
    kind = LayerKind.SLIDING if window else LayerKind.FULL
    return KvLayer(kind, 1, kv_heads, head_dim, v_dim if v_dim != head_dim else 0, window, chunked=chunked and bool(window))


# --- layers by kind ------------------------------------------------------------------------------------------


def _window(text: Mapping[str, Any]) -> int | None:
    value = integer(text, "sliding_window", "sliding_window_size", "attention_chunk_size")
    return value if value and value > 0 else None


FULL_NAMES = {"full_attention", "attention", "full", "global", "global_attention"}
SLIDING_NAMES = {"sliding_attention", "sliding_window_attention", "sliding", "local", "chunked_attention", "swa", "local_attention"}
LINEAR_NAMES = {"linear_attention", "mamba", "mamba2", "conv", "short_conv", "gdn", "linear", "kda"}


def layer_types(text: Mapping[str, Any], layers: int) -> list[str] | None:
    """``layer_types`` in one spelling ("full", "sliding", "linear"); None when not given.

    An entry that is not known stays as it is, and makes the layout unknown.
    """
    raw = text.get("layer_types") or text.get("layers_block_type") or text.get("layer_block_type")
    if not isinstance(raw, (list, tuple)) or not raw:
        return None
    out = []
    for name in list(raw)[:layers]:
        word = str(name).lower()
        if word in FULL_NAMES:
            out.append("full")
        elif word in SLIDING_NAMES:
            out.append("sliding")
        elif word in LINEAR_NAMES:
            out.append("linear")
        else:
            out.append(word)
    # a list cut short leaves the rest as the last one says: vLLM indexes it per layer
    while len(out) < layers:
        out.append(out[-1])
    return out


def sliding_mask(text: Mapping[str, Any], model_type: str, layers: int) -> list[bool]:
    """For every layer whether it only looks back over the sliding window, as vLLM decides it."""
    window = _window(text)
    if window is None:
        return [False] * layers
    kinds = layer_types(text, layers)
    if model_type in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text") and not text.get("use_sliding_window"):
        return [False] * layers
    if kinds is not None:
        return [k == "sliding" for k in kinds]
    pattern = integer(text, "sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(text.get("sliding_window_pattern"), str):
        letters = text["sliding_window_pattern"]
        return [letters[i % len(letters)] == "L" for i in range(layers)]
    if pattern is None:
        pattern = _DEFAULT_PATTERN.get(model_type)
    if pattern and pattern > 1:
        return [bool((i + 1) % pattern) for i in range(layers)]
    if model_type in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe"):
        first = integer(text, "max_window_layers", default=0) or 0
        return [i >= first for i in range(layers)]
    return [True] * layers


# every n-th layer is full where the config does not say
_DEFAULT_PATTERN = {
    "gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n": 5, "gemma3n_text": 5, "gemma4": 6, "gemma4_text": 6,
    "gpt_oss": 2, "cohere2": 4, "cohere2_vision": 4, "exaone4": 4, "olmo3": 4, "llama4": 4, "llama4_text": 4,
}  # fmt: skip


# --- families ------------------------------------------------------------------------------------------------

Reader = Callable[[Mapping[str, Any], Mapping[str, Any]], Arch]

# qkv bias where the config does not say
_QKV_BIAS = {"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_audio", "phi", "gpt2", "opt", "bloom",
             "gpt_neox", "starcoder2", "gpt_bigcode", "chatglm", "qwen", "gptj", "glm"}  # fmt: skip
_QK_NORM = {"qwen3", "qwen3_moe", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text", "gemma3", "gemma3_text",
            "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "olmo2", "olmo3", "glm4_moe", "qwen3_next", "hunyuan_v1_dense",
            "hunyuan_v1_moe", "apertus", "exaone4", "minimax_m2", "dots1", "bailing_moe_v2"}  # fmt: skip
_UNGATED = {"phi", "gpt2", "opt", "falcon", "gpt_neox", "starcoder2", "nemotron", "bloom", "mpt", "gpt_bigcode", "gptj", "apertus", "arcee", "biogpt"}
_TIED = {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gpt2", "opt", "bloom",
         "falcon", "cohere", "cohere2", "starcoder2", "gpt_bigcode", "mpt", "whisper"}  # fmt: skip
_FOUR_NORMS = {"gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "glm4", "afmoe"}


def expert_facts(text: Mapping[str, Any]) -> tuple[int, int, int]:
    """(experts, experts per token, inner size of one expert); zeros for a dense model."""
    experts = integer(text, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts", "num_moe_experts") or 0
    if experts <= 1:
        return 0, 0, 0
    top = integer(text, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "experts_per_token", "moe_top_k", "num_selected_experts") or 0
    inner = integer(text, "moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "intermediate_size", "ffn_hidden_size") or 0
    return experts, top, inner


def _shared_inner(text: Mapping[str, Any], inner: int) -> int:
    """Inner size of the shared experts together."""
    direct = integer(text, "shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size")
    if direct is not None:
        count = integer(text, "n_shared_experts", "num_shared_experts")
        if "moe_shared_expert_intermediate_size" in text and count:
            return direct * count
        return direct
    count = integer(text, "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts") or 0
    return count * inner


def moe_mask(text: Mapping[str, Any], layers: int, experts: int) -> list[bool]:
    """For every layer whether its MLP is a mixture."""
    if not experts:
        return [False] * layers
    kinds = text.get("mlp_layer_types")
    if isinstance(kinds, (list, tuple)) and len(kinds) >= layers:
        return [str(k).lower() in ("sparse", "moe") for k in list(kinds)[:layers]]
    mask = [True] * layers
    freq = text.get("moe_layer_freq")
    if isinstance(freq, (list, tuple)) and len(freq) >= layers:
        mask = [bool(x) for x in list(freq)[:layers]]
    elif type(freq) is int and freq > 1:
        mask = [i % freq == 0 for i in range(layers)]
    step = integer(text, "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval") or 1
    if step > 1:
        mask = [m and (i + 1) % step == 0 for i, m in enumerate(mask)]
    dense = integer(text, "first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "first_dense_layers") or 0
    mask = [m and i >= dense for i, m in enumerate(mask)]
    end = integer(text, "moe_layer_end_index")
    if end is not None and end >= 0:
        mask = [m and i <= end for i, m in enumerate(mask)]
    only = text.get("mlp_only_layers")
    if isinstance(only, (list, tuple)):
        mask = [m and i not in only for i, m in enumerate(mask)]
    listed = text.get("moe_layers")
    if isinstance(listed, (list, tuple)) and listed:
        mask = [i in listed for i in range(layers)]
    return mask


@dataclass(frozen=True)
class _Feed:
    """How the MLPs of a family look."""

    hidden: int
    inter: int
    experts: int
    top: int
    moe_inter: int
    shared: int
    mask: tuple[bool, ...]
    gated: bool = True
    bias: bool = False
    shared_gate: bool = False
    expert_bias: bool = False
    correction: bool = False
    router_bytes: float | None = None

    def weights(self, layer: int) -> tuple[Weight, ...]:
        if self.mask[layer]:
            return moe(
                self.hidden, self.experts, self.moe_inter, shared_inter=self.shared, shared_gate=self.shared_gate,
                gated=self.gated, bias=self.expert_bias, correction=self.correction, router_bytes=self.router_bytes,
            )  # fmt: skip
        return mlp(self.hidden, self.inter, gated=self.gated, bias=self.bias)


def feed_of(text: Mapping[str, Any], model_type: str, hidden: int, layers: int) -> _Feed:
    experts, top, inner = expert_facts(text)
    inter = integer(text, "intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "intermediate_size_mlp") or 4 * hidden
    dense = inter
    shared = _shared_inner(text, inner) if experts else 0
    if model_type.startswith("llama4"):
        dense = integer(text, "intermediate_size_mlp") or inter
        inner, shared = inter, inter
    elif model_type in ("mixtral", "phimoe", "gpt_oss", "granitemoe", "olmoe", "dbrx"):
        inner = inter
        shared = 0
    return _Feed(
        hidden, dense, experts, top, inner, shared, tuple(moe_mask(text, layers, experts)),
        gated=model_type not in _UNGATED, bias=bool(text.get("mlp_bias")) or model_type in _UNGATED - {"falcon", "nemotron", "mpt", "apertus", "arcee"},
        shared_gate=model_type in ("qwen2_moe", "qwen3_next", "qwen3_5_moe", "qwen3_5_moe_text"), expert_bias=model_type == "gpt_oss",
        correction=model_type in ("deepseek_v3", "kimi_k2", "glm4_moe", "glm4v_moe", "ernie4_5_moe", "bailing_moe_v2", "minimax_m2", "dots1"),
    )  # fmt: skip


def rope_elements(text: Mapping[str, Any], model_type: str, head_dim: int) -> int:
    """Elements of the cos/sin tables that vLLM keeps on every GPU (one table per distinct rope)."""
    position = integer(text, "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length") or 0
    partial = text.get("partial_rotary_factor")
    rope = rope_parameters(text)
    if not isinstance(partial, (int, float)):
        partial = rope.get("partial_rotary_factor")
    size = head_dim
    if isinstance(partial, (int, float)) and 0 < partial <= 1:
        size = int(head_dim * partial)
    fixed = integer(text, "qk_rope_head_dim")
    if fixed:
        size = fixed
    kind = str(rope.get("rope_type") or rope.get("type") or "default")
    factor = rope.get("factor")
    times = factor if isinstance(factor, (int, float)) and factor > 0 else 1
    rows: float = position
    if kind in ("linear", "dynamic"):
        rows = position * times
    elif kind in ("yarn", "deepseek_yarn"):
        rows = (integer(rope, "original_max_position_embeddings") or position) * times
    elif kind in ("longrope", "su"):
        rows = position + (integer(text, "original_max_position_embeddings") or integer(rope, "original_max_position_embeddings") or 0)
    if "mrope_section" in rope or kind == "mrope":
        rows = position * 4
    total = rows * size
    if model_type in ("gemma3", "gemma3_text"):
        total += position * size  # the local layers' own rope
    return int(min(total, 2**40))


def embedding_of(text: Mapping[str, Any], model_type: str, hidden: int) -> tuple[int, bool, tuple[Weight, ...], tuple[Weight, ...]]:
    vocab = integer(text, "vocab_size", "padded_vocab_size") or 0
    tied = text.get("tie_word_embeddings")
    if not isinstance(tied, bool):
        tied = model_type in _TIED
    embedding: tuple[Weight, ...] = (Weight("embedding", vocab, hidden, "vocab", quantized=False),)
    positions = integer(text, "max_position_embeddings", "n_positions") or 0
    if model_type in ("gpt2", "opt", "gpt_bigcode"):
        embedding += (Weight("embedding", positions, hidden, quantized=False),)
    head: tuple[Weight, ...] = () if tied else (Weight("lm_head", vocab, hidden, "vocab", quantized=False),)
    return vocab, tied, embedding, head + norms(hidden, 1)


def generic(config: Mapping[str, Any], text: Mapping[str, Any]) -> Arch:
    """Plain or sliding grouped-query attention with dense or mixture MLPs: most families."""
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    hidden, layers, heads, kv_heads, head_dim = dims(text)
    feed = feed_of(text, model_type, hidden, layers)
    window = _window(text)
    slides = sliding_mask(text, model_type, layers)
    kinds = layer_types(text, layers)
    notes: list[str] = []
    known = True
    if kinds is not None and any(k not in ("full", "sliding") for k in kinds):
        known = False
        odd = ", ".join(sorted({k for k in kinds if k not in ("full", "sliding")}))
        notes.append(_("kinds of layers that are not known here: {kinds}").format(kinds=odd))
    bias = text.get("attention_bias", text.get("qkv_bias", text.get("add_qkv_bias", text.get("use_qkv_bias"))))
    has_bias = bool(bias) if bias is not None else model_type in _QKV_BIAS
    o_bias = bool(text.get("attention_out_bias", False)) or (model_type in ("gpt_oss", "phi", "gpt2", "opt", "gpt_neox", "starcoder2", "gpt_bigcode", "bloom"))
    qk_norm = head_dim if model_type in _QK_NORM or text.get("use_qk_norm") else 0
    attention = gqa(hidden, heads, kv_heads, head_dim, bias=has_bias, o_bias=o_bias, qk_norm=qk_norm)
    if model_type == "gpt_oss":
        attention += (Weight("other", heads, 1, "rows", quantized=False),)
    per_layer_norms = norms(hidden, 4 if model_type in _FOUR_NORMS else 2)
    chunked = integer(text, "sliding_window", "sliding_window_size") is None
    memo: dict[tuple[bool, bool], Block] = {}
    blocks = []
    for i in range(layers):
        key = (slides[i], feed.mask[i])
        if key not in memo:
            kv = attention_kv(kv_heads, head_dim, window if slides[i] else None, chunked=chunked)
            widest = max(2 * (feed.moe_inter * max(1, feed.top) if feed.mask[i] else feed.inter), (heads + 2 * kv_heads) * head_dim)
            memo[key] = Block((kv,), attention + feed.weights(i) + per_layer_norms, feed.mask[i], widest)
        blocks.append(memo[key])
    vocab, tied, embedding, head = embedding_of(text, model_type, hidden)
    return Arch(
        model_type, hidden, vocab, tuple(blocks), tied, embedding, head, heads=heads, kv_heads=kv_heads, head_dim=head_dim, inter=feed.inter,
        experts=feed.experts, experts_per_token=feed.top, moe_inter=feed.moe_inter, rope_elements=rope_elements(text, model_type, head_dim),
        layout_known=known, notes=tuple(notes), max_position=integer(text, "max_position_embeddings", "n_positions", "seq_length", "max_sequence_length"),
    )  # fmt: skip


def latent_attention(config: Mapping[str, Any], text: Mapping[str, Any]) -> Arch:
    """Multi-head latent attention (DeepSeek V2, V3, Kimi K2, GLM-4.7-Flash ...)."""
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    hidden, layers, heads, _kv, _size = dims(text)
    feed = feed_of(text, model_type, hidden, layers)
    rank, rope = need(text, "kv_lora_rank"), need(text, "qk_rope_head_dim")
    nope, value = need(text, "qk_nope_head_dim"), need(text, "v_head_dim")
    q_rank = integer(text, "q_lora_rank") or 0
    weights: list[Weight] = []
    if q_rank:
        weights += [Weight("attention", q_rank + rank + rope, hidden, name="fused_qkv_a_proj"), Weight("attention", heads * (nope + rope), q_rank, "rows", name="q_b_proj"), Weight("other", q_rank, quantized=False)]
    else:
        weights += [Weight("attention", heads * (nope + rope), hidden, "rows", name="q_proj"), Weight("attention", rank + rope, hidden, name="kv_a_proj")]
    weights += [
        Weight("other", rank, quantized=False),
        Weight("attention", heads * (nope + value), rank, "rows", name="kv_b_proj"),
        Weight("attention", hidden, heads * value, "cols", name="o_proj"),
    ]
    kv = KvLayer(LayerKind.MLA, 1, 1, rank + rope, latent_dim=rank + rope)
    index = integer(text, "index_head_dim") or 0
    extra_kv: tuple[KvLayer, ...] = ()
    if index:
        index_heads = integer(text, "index_n_heads") or 0
        weights += [
            Weight("attention", index_heads * index, q_rank or hidden, name="indexer.wq_b"), Weight("attention", index, hidden, name="indexer.wk"),
            Weight("attention", index_heads, hidden, quantized=False, name="indexer.weights_proj"), Weight("other", 2 * index, quantized=False),
        ]  # fmt: skip
        # the sparse indexer keeps its own keys: one byte per element and a 4 byte scale per 128 of them
        extra_kv = (KvLayer(LayerKind.MLA, 1, 1, index, latent_dim=index + 4 * -(-index // 128), element_bytes=1),)
    attention = tuple(weights)
    blocks = tuple(
        Block((kv, *extra_kv), attention + feed.weights(i) + norms(hidden), feed.mask[i], max(heads * (nope + rope + value), 2 * feed.inter))
        for i in range(layers)
    )
    vocab, tied, embedding, head = embedding_of(text, model_type, hidden)
    mtp_count = integer(text, "num_nextn_predict_layers") or 0
    mtp = tuple(w for _i in range(mtp_count) for w in (*blocks[-1].weights, Weight("mtp", hidden, 2 * hidden))) if blocks else ()
    return Arch(
        model_type, hidden, vocab, blocks, tied, embedding, head, mtp=tuple(replace(w, kind="mtp") for w in mtp), heads=heads, kv_heads=1,
        head_dim=nope + rope, inter=feed.inter, experts=feed.experts, experts_per_token=feed.top, moe_inter=feed.moe_inter,
        rope_elements=rope_elements(text, model_type, rope), mtp_layers=mtp_count,
        max_position=integer(text, "max_position_embeddings"),
    )  # fmt: skip


def gated_delta_net(config: Mapping[str, Any], text: Mapping[str, Any]) -> Arch:
    """Gated delta net layers with full attention every few layers (Qwen3-Next, Qwen3.5 and later)."""
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    hidden, layers, heads, kv_heads, head_dim = dims(text)
    feed = feed_of(text, model_type, hidden, layers)
    kinds = layer_types(text, layers)
    if kinds is None:
        every = integer(text, "full_attention_interval") or 4
        kinds = ["full" if (i + 1) % every == 0 else "linear" for i in range(layers)]
    k_heads, v_heads = need(text, "linear_num_key_heads"), need(text, "linear_num_value_heads")
    k_dim, v_dim = need(text, "linear_key_head_dim"), need(text, "linear_value_head_dim")
    kernel = integer(text, "linear_conv_kernel_dim") or 4
    key, val = k_heads * k_dim, v_heads * v_dim
    gate = text.get("attn_output_gate", True) is not False
    full = gqa(hidden, heads, kv_heads, head_dim, qk_norm=2 * head_dim, gate=gate, bias=bool(text.get("attention_bias")))
    linear = (
        Weight("attention", 2 * key + 2 * val, hidden, "rows", name="in_proj_qkvz"), Weight("attention", 2 * v_heads, hidden, "rows", quantized=False, name="in_proj_ba"),
        Weight("other", 2 * key + val, kernel, "rows", quantized=False), Weight("other", 2 * v_heads, 1, "rows", quantized=False, dtype_bytes=4),
        Weight("attention", hidden, val, "cols", name="out_proj"), Weight("other", v_dim, quantized=False),
    )  # fmt: skip
    state = LinearState(conv=(kernel - 1) * (2 * key + val), recurrent=v_heads * k_dim * v_dim, recurrent_bytes=_ssm_bytes(text))
    blocks = []
    for i in range(layers):
        if kinds[i] == "full":
            kv = attention_kv(kv_heads, head_dim)
            blocks.append(Block((kv,), full + feed.weights(i) + norms(hidden), feed.mask[i], heads * head_dim * 3))
        else:
            blocks.append(Block((state.layer(),), linear + feed.weights(i) + norms(hidden), feed.mask[i], 2 * key + 2 * val))
    vocab, tied, embedding, head = embedding_of(text, model_type, hidden)
    mtp_count = integer(text, "mtp_num_hidden_layers", "num_nextn_predict_layers", "mtp_num_layers") or 0
    mtp: tuple[Weight, ...] = ()
    for _i in range(mtp_count):
        mtp += (Weight("mtp", hidden, 2 * hidden), *full, *feed.weights(layers - 1), *norms(hidden, 5))
    return Arch(
        model_type, hidden, vocab, tuple(blocks), tied, embedding, head, mtp=tuple(replace(w, kind="mtp") for w in mtp), heads=heads,
        kv_heads=kv_heads, head_dim=head_dim, inter=feed.inter, experts=feed.experts, experts_per_token=feed.top, moe_inter=feed.moe_inter,
        rope_elements=rope_elements(text, model_type, head_dim), layout_known=all(k in ("full", "linear") for k in kinds), mtp_layers=mtp_count,
        max_position=integer(text, "max_position_embeddings"),
    )  # fmt: skip


@dataclass(frozen=True)
class LinearState:
    """What one linear-attention layer keeps per sequence: elements of the convolution and the recurrent state."""

    conv: int
    recurrent: int
    recurrent_bytes: float | None = None  # None: as the model's dtype

    def layer(self) -> KvLayer:
        size = 2 * self.conv + int((self.recurrent_bytes or 2) * self.recurrent)
        return KvLayer(LayerKind.LINEAR, 1, state_bytes=size, state_kind="delta", recurrent=self.recurrent, recurrent_bytes=self.recurrent_bytes)


def _ssm_bytes(text: Mapping[str, Any]) -> float | None:
    name = str(text.get("mamba_ssm_dtype") or text.get("mamba_ssm_cache_dtype") or "")
    return {"float32": 4, "float16": 2, "bfloat16": 2}.get(name)


# --- towers --------------------------------------------------------------------------------------------------


def vision_tower(vision: Mapping[str, Any], hidden_out: int, outer_type: str = "") -> tuple[Weight, ...]:
    """A vision transformer and its projector, from the usual names of its sizes; empty when they are not told."""
    out = _tower(vision, "vision")
    width = integer(vision, "hidden_size", "embed_dim", "width", "d_model", "hidden_dim")
    if not out or not width:
        return ()
    merge = integer(vision, "spatial_merge_size") or 1
    kernel = vision.get("merge_kernel_size")
    if isinstance(kernel, (list, tuple)) and kernel and type(kernel[0]) is int:
        merge = kernel[0]
    if outer_type in ("mistral3", "pixtral"):
        merge = 2
    merged = width * merge * merge
    target = integer(vision, "out_hidden_size") or hidden_out
    deepstack = vision.get("deepstack_visual_indexes")
    projectors = 1 + (len(deepstack) if isinstance(deepstack, (list, tuple)) else 0)
    for _i in range(projectors):
        if outer_type.startswith("gemma"):
            out.append(Weight("vision", width, target))
        elif outer_type in ("mistral3", "pixtral"):
            out += [Weight("vision", width, merged), Weight("vision", target, width), Weight("vision", target, target)]
        elif outer_type.startswith("glm4v"):
            inner = integer(vision, "intermediate_size") or 4 * target
            out += [Weight("vision", target, merged), Weight("vision", target, target), *mlp(target, inner, kind="vision")]
        else:
            out += [Weight("vision", merged, merged, "rows"), Weight("vision", target, merged, "cols")]
    return as_stored(out)


def as_stored(weights: Iterable[Weight], kind: str | None = None) -> tuple[Weight, ...]:
    """The same weights, never held quantized (and of another kind); equal layers of a tower share their records."""
    made: dict[int, Weight] = {}
    out = []
    for weight in weights:
        if id(weight) not in made:
            made[id(weight)] = replace(weight, quantized=False, kind=kind or weight.kind)
        out.append(made[id(weight)])
    return tuple(out)


def audio_tower(audio: Mapping[str, Any], hidden_out: int) -> tuple[Weight, ...]:
    """An audio transformer with a two-layer projector."""
    out = _tower(audio, "audio")
    width = integer(audio, "hidden_size", "d_model", "embed_dim")
    if not out or not width:
        return ()
    out += [Weight("audio", width, 3 * width), Weight("audio", hidden_out, width)]
    return as_stored(out)


def _tower(tower: Mapping[str, Any], kind: str) -> list[Weight]:
    width = integer(tower, "hidden_size", "embed_dim", "width", "d_model", "hidden_dim")
    depth = integer(tower, "depth", "num_hidden_layers", "layers", "num_layers", "encoder_layers")
    if not width or not depth or width <= 0 or not 0 < depth < 1000:
        return []
    inner = integer(tower, "intermediate_size", "mlp_dim", "encoder_ffn_dim", "ffn_hidden_size")
    if inner is None:
        ratio = tower.get("mlp_ratio")
        inner = int(width * ratio) if isinstance(ratio, (int, float)) else 4 * width
    family = str(tower.get("model_type") or "")
    gated = str(tower.get("hidden_act", "")) == "silu" or family.startswith("glm4v") or family in ("pixtral", "qwen2_5_vl", "qwen2_5_omni_vision_encoder", "gemma4_vision")
    plain = family in ("pixtral", "gemma4_vision")
    if family.startswith("glm4v"):
        inner = integer(tower, "out_hidden_size") or inner  # its intermediate_size belongs to the merger
    layer = [
        Weight(kind, 3 * width, width, "rows", name="qkv"), Weight(kind, width, width, "cols", name="proj"),
        *mlp(width, inner, gated=gated, bias=not plain, kind=kind), *(replace(n, kind=kind) for n in norms(width, 2, bias=not gated)),
    ]  # fmt: skip
    if not plain:
        layer += [Weight(kind, 3 * width, 1, "rows"), Weight(kind, width)]
    out = [w for _i in range(depth) for w in layer]
    patch = integer(tower, "patch_size", "spatial_patch_size") or 14
    channels = integer(tower, "in_channels", "in_chans", "num_channels") or 3
    frames = integer(tower, "temporal_patch_size") or 1
    if kind == "vision":
        out.append(Weight(kind, width, channels * frames * patch * patch))
        positions = integer(tower, "num_position_embeddings", "position_embedding_size")
        if positions is None and (side := integer(tower, "image_size")) and family != "pixtral":
            positions = (side // patch) ** 2
        if positions and positions < 2**20:
            out.append(Weight(kind, positions, width))
    else:
        positions = integer(tower, "max_source_positions") or 0
        out.append(Weight(kind, positions + 4 * width + 3 * (integer(tower, "num_mel_bins") or 80), width))
    return out


# --- the entry -----------------------------------------------------------------------------------------------


_READ: OrderedDict[int, tuple[Mapping[str, Any], Arch]] = OrderedDict()
_READ_KEPT = 64


def read_once(config: Mapping[str, Any]) -> Arch:
    """:func:`read`, kept for the configs asked for last: the same object is asked for again and again."""
    kept = _READ.get(id(config))
    if kept is not None and kept[0] is config:
        return kept[1]
    arch = read(config)
    _READ[id(config)] = (config, arch)
    while len(_READ) > _READ_KEPT:
        _READ.popitem(last=False)
    return arch


def read(config: Mapping[str, Any]) -> Arch:
    """The anatomy of the model that ``config`` (a whole ``config.json``) describes.

    Raises ConfigError when it lacks layers, width or heads. An architecture that is not known comes back with
    ``layout_known`` False: its weights are counted as a plain transformer's, its cache is not guessed.
    """
    from wizard.models import arch_families

    text = text_config(config)
    model_type = model_type_of(config, text)
    architecture = first_text(config.get("architectures"))
    arch = arch_families.reader_for(model_type, architecture, text)(config, text)
    if not arch_families.is_known(model_type, architecture):
        note = _("the architecture is not known here: {name}").format(name=architecture or model_type or _("none is stated"))
        arch = replace(arch, layout_known=False, notes=(*arch.notes, note))
    towers: tuple[Weight, ...] = ()
    vision = vision_config(config)
    if vision:
        towers += vision_tower(vision, arch.hidden, str(config.get("model_type") or ""))
    for key in ("audio_config", "speech_config", "sound_config"):
        audio = _mapping(config.get(key) or _mapping(config.get("thinker_config")).get(key))
        if audio:
            towers += audio_tower(audio, arch.hidden)
            break
    return replace(arch, extra=arch.extra + towers, blocks=_shared(arch.blocks))


def _shared(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The same blocks with equal ones as one object: sums over them are then made once."""
    known: dict[Block, Block] = {}
    seen: dict[int, Block] = {}
    out = []
    for block in blocks:
        if id(block) not in seen:
            seen[id(block)] = known.setdefault(block, block)
        out.append(seen[id(block)])
    return tuple(out)


def model_type_of(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    return str(text.get("model_type") or config.get("model_type") or "")


def first_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return next((x for x in value if isinstance(x, str) and x), "")
    return value if isinstance(value, str) else ""
