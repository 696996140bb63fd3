"""Families whose layers differ from plain attention, and which families are known at all.

Facts come from vLLM's model files (0.33.0; ``vllm/model_executor/models``) and its state calculators
(``vllm/model_executor/layers/mamba/mamba_utils.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from wizard.models import arch as base
from wizard.models.arch import Arch, Block, Weight, attention_kv, gqa, integer, mlp, moe, norms
from wizard.models.info import KvLayer, LayerKind

Text = Mapping[str, Any]
Reader = Callable[[Text, Text], Arch]

# Families of plain or sliding grouped-query attention: the generic reader counts them right.
PLAIN = frozenset(
    """
    llama mistral mixtral qwen qwen2 qwen2_moe qwen3 qwen3_moe qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen3_vl qwen3_vl_text qwen3_vl_moe
    qwen3_vl_moe_text qwen2_audio qwen2_5_omni qwen2_5_omni_text qwen3_omni_moe qwen3_omni_moe_text qwen3_asr gemma gemma2 gemma3 gemma3_text phi phi3 phimoe
    phi4mm phi3_v gpt_oss gpt2 gpt_neox gptj gpt_bigcode starcoder2 bloom opt falcon mpt stablelm granite granitemoe granitemoeshared cohere cohere2
    cohere2_vision olmo olmo2 olmo3 olmoe internlm internlm2 internlm3 internvl_chat internvl baichuan chatglm glm glm4 glm4_moe glm4v glm4v_text glm4v_moe
    glm4v_moe_text glm4_1v glm46v ernie4_5 ernie4_5_moe ernie4_5_moe_vl exaone exaone4 exaone_moe smollm3 hunyuan_v1_dense hunyuan_v1_moe dots1 dbrx nemotron
    nemotron-nas minicpm minicpmv minicpmo minimax_m2 seed_oss arcee apertus mimo mistral3 ministral3 ministral pixtral llava llava_next llava_onevision
    llama4 llama4_text idefics3 smolvlm aria molmo ovis keye paddleocr_vl step3_text solar orion telechat2 teleflm bailing_moe bailing_moe_v2 afmoe jais
    persimmon fuyu gritlm xverse aquila voxtral ultravox granite_speech hcxvision hyperclovax rnj1 laguna step3p5 hy_v3 paddleocr_vl_text glm_ocr_text openpangu_embedded lfm2_vl_text
    """.split()  # noqa: SIM905
)  # fmt: skip
MLA = frozenset(["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25", "glm4_moe_lite", "glm_moe_dsa", "deepseek_vl_v2", "minicpm3_mla", "pangu_ultra_moe", "axk1", "sarvam_mla", "mistral_large_3", "mistral4"])
GDN = frozenset(["qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"])
ENCODERS = frozenset(["bert", "roberta", "xlm-roberta", "modernbert", "nomic_bert", "gte", "new", "jina_bert", "distilbert", "electra", "camembert", "mpnet", "siglip", "clip"])
# Plain by their architecture's name where a config states no model_type of the list.
PLAIN_ARCHITECTURES = frozenset(
    """
    LlamaForCausalLM MistralForCausalLM Qwen2ForCausalLM Qwen3ForCausalLM Phi3ForCausalLM GemmaForCausalLM Qwen2Model Qwen3Model LlamaModel MistralModel
    InternLM3ForCausalLM IQuestCoderForCausalLM TeleChat3ForCausalLM Ministral3ForCausalLM LLaMAForCausalLM
    """.split()  # noqa: SIM905
)  # fmt: skip


def is_known(model_type: str, architecture: str) -> bool:
    """Whether vLLM's cache layout of this family is known here."""
    return model_type in PLAIN or model_type in MLA or model_type in GDN or model_type in ENCODERS or model_type in READERS or architecture in PLAIN_ARCHITECTURES


def reader_for(model_type: str, architecture: str, text: Text) -> Reader:
    """The reader of a family; the generic one when nothing says otherwise."""
    reader = READERS.get(model_type)
    if reader is not None:
        return reader
    if model_type in ENCODERS:
        return encoder
    if integer(text, "linear_num_value_heads") is not None and integer(text, "linear_key_head_dim") is not None:
        return base.gated_delta_net
    if integer(text, "kv_lora_rank") and integer(text, "qk_rope_head_dim"):
        return base.latent_attention
    return base.generic


# --- states --------------------------------------------------------------------------------------------------


def state_layer(kind: str, conv: int, recurrent: int, recurrent_bytes: float | None) -> KvLayer:
    """A state of ``conv`` elements at the model's dtype and ``recurrent`` elements (None: at the model's dtype)."""
    size = int(2 * conv + (recurrent_bytes or 2) * recurrent)
    return KvLayer(LayerKind.LINEAR, 1, state_bytes=size, state_kind=kind, recurrent=recurrent, recurrent_bytes=recurrent_bytes)


def _state_bytes(text: Text) -> float | None:
    """Bytes of a recurrent state's element; None: as the model's dtype."""
    name = str(text.get("mamba_ssm_cache_dtype") or text.get("mamba_ssm_dtype") or "")
    if not name and str(text.get("model_type")).startswith("nemotron_h"):
        return 4.0  # vllm/model_executor/models/config.py: 32 bit where the config says nothing
    return {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0}.get(name.removeprefix("torch."))


def mamba2(text: Text, hidden: int, *, heads: int, head_dim: int, groups: int, state: int, kernel: int) -> tuple[KvLayer, tuple[Weight, ...]]:
    """(state, weights) of a Mamba-2 mixer."""
    inner = heads * head_dim
    conv_dim = inner + 2 * groups * state
    weights = (
        Weight("attention", inner + conv_dim + heads, hidden, "rows", name="in_proj"), Weight("other", conv_dim, kernel, "rows", quantized=False),
        Weight("other", conv_dim, 1, "rows", quantized=False), Weight("other", 3 * heads, 1, "rows", quantized=False, dtype_bytes=4),
        Weight("other", inner, 1, "rows", quantized=False), Weight("attention", hidden, inner, "cols", name="out_proj"),
    )  # fmt: skip
    return state_layer("mamba2", (kernel - 1) * conv_dim, heads * head_dim * state, _state_bytes(text)), weights


def mamba1(text: Text, hidden: int, *, inner: int, state: int, kernel: int, rank: int) -> tuple[KvLayer, tuple[Weight, ...]]:
    """(state, weights) of a Mamba-1 mixer."""
    weights = (
        Weight("attention", 2 * inner, hidden, "rows", name="in_proj"), Weight("other", inner, kernel, "rows", quantized=False),
        Weight("attention", rank + 2 * state, inner, "cols", name="x_proj"), Weight("attention", inner, rank, "rows", name="dt_proj"),
        Weight("other", inner, state, "rows", quantized=False, dtype_bytes=4), Weight("other", 3 * inner, 1, "rows", quantized=False),
        Weight("attention", hidden, inner, "cols", name="out_proj"),
    )  # fmt: skip
    return state_layer("mamba", (kernel - 1) * inner, inner * state, _state_bytes(text)), weights


def _finish(config: Text, text: Text, blocks: list[Block], **more: Any) -> Arch:
    model_type = base.model_type_of(config, text)
    hidden, _layers, heads, kv_heads, head_dim = base.dims(text)
    vocab, tied, embedding, head = base.embedding_of(text, model_type, hidden)
    feed = base.feed_of(text, model_type, hidden, len(blocks))
    arch = Arch(
        model_type, hidden, vocab, tuple(blocks), tied, embedding, head, heads=heads, kv_heads=kv_heads, head_dim=head_dim, inter=feed.inter,
        experts=feed.experts, experts_per_token=feed.top, moe_inter=feed.moe_inter, rope_elements=base.rope_elements(text, model_type, head_dim),
        max_position=integer(text, "max_position_embeddings"),
    )  # fmt: skip
    return replace(arch, **more) if more else arch


# --- hybrids -------------------------------------------------------------------------------------------------


def granite_hybrid(config: Text, text: Text) -> Arch:
    """Granite 4 (and Bamba): Mamba-2 with attention in some layers, mixture or dense MLPs."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    kinds = base.layer_types(text, layers)
    listed = text.get("attn_layer_indices")
    if kinds is None and isinstance(listed, (list, tuple)):
        kinds = ["full" if i in listed else "linear" for i in range(layers)]
    m_heads = integer(text, "mamba_n_heads", "mamba_num_heads") or 0
    size = integer(text, "mamba_d_head", "mamba_head_dim") or 0
    if not size:
        size = hidden * (integer(text, "mamba_expand") or 2) // max(1, m_heads)
    state, mixer = mamba2(
        text, hidden, heads=m_heads, head_dim=size, groups=integer(text, "mamba_n_groups") or 1, state=integer(text, "mamba_d_state") or 128,
        kernel=integer(text, "mamba_d_conv") or 4,
    )  # fmt: skip
    experts = integer(text, "num_local_experts", "num_experts") or 0
    shared = integer(text, "shared_intermediate_size") or 0
    inner = integer(text, "intermediate_size") or 0
    if experts:
        feed = moe(hidden, experts, inner) + mlp(hidden, shared)
    else:
        feed = mlp(hidden, shared or inner)
    attention = gqa(hidden, heads, kv_heads, head_dim)
    blocks = []
    for kind in kinds or ["linear"] * layers:
        kv, weights = (attention_kv(kv_heads, head_dim), attention) if kind == "full" else (state, mixer)
        blocks.append(Block((kv,), weights + feed + norms(hidden), bool(experts), 2 * max(inner, shared)))
    known = kinds is not None and all(k in ("full", "linear") for k in kinds)
    return _finish(config, text, blocks, layout_known=known)


def nemotron_h(config: Text, text: Text) -> Arch:
    """Nemotron-H: a pattern of Mamba-2 (M), attention (*), MLP (-) and mixture (E) layers, one mixer each."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        letters = list(pattern.replace("|", ""))
    else:
        names = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E", "full_attention": "*", "linear_attention": "M"}
        raw = text.get("layers_block_type") or text.get("layer_types") or ()
        letters = [names.get(str(x), "?") for x in raw]
    m_heads, size = integer(text, "mamba_num_heads") or 0, integer(text, "mamba_head_dim") or 0
    state, mixer = mamba2(
        text, hidden, heads=m_heads, head_dim=size, groups=integer(text, "n_groups") or 1, state=integer(text, "ssm_state_size") or 128,
        kernel=integer(text, "conv_kernel") or 4,
    )  # fmt: skip
    experts, inner = integer(text, "n_routed_experts", "num_experts") or 0, integer(text, "moe_intermediate_size") or 0
    shared = integer(text, "moe_shared_expert_intermediate_size") or 0
    latent = integer(text, "moe_latent_size") or hidden
    feed = mlp(hidden, integer(text, "intermediate_size") or 4 * hidden, gated=False)
    mixture: tuple[Weight, ...] = ()
    if experts:
        mixture = moe(latent, experts, inner, gated=False, correction=True) + mlp(hidden, shared, gated=False)
        if latent != hidden:
            mixture += (Weight("mlp", latent, hidden), Weight("mlp", hidden, latent))
    attention = gqa(hidden, heads, kv_heads, head_dim)
    kinds: dict[str, tuple[tuple[KvLayer, ...], tuple[Weight, ...], bool]] = {
        "M": ((state,), mixer, False), "*": ((attention_kv(kv_heads, head_dim),), attention, False), "-": ((), feed, False), "E": ((), mixture, True),
    }  # fmt: skip
    known = bool(letters) and len(letters) >= layers and all(x in kinds for x in letters)
    blocks = []
    for letter in letters[:layers] or ["-"] * layers:
        kv, weights, is_moe = kinds.get(letter, kinds["-"])
        blocks.append(Block(kv, weights + norms(hidden, 1), is_moe, 2 * m_heads * size))
    return _finish(config, text, blocks, layout_known=known, rope_elements=0, moe_inter=inner)


def falcon_h1(config: Text, text: Text) -> Arch:
    """Falcon-H1: every layer has attention and a Mamba-2 mixer side by side."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    m_heads = integer(text, "mamba_n_heads") or 0
    inner = integer(text, "mamba_d_ssm") or hidden * (integer(text, "mamba_expand") or 2)
    size = integer(text, "mamba_d_head") or inner // max(1, m_heads)
    state, mixer = mamba2(
        text, hidden, heads=m_heads, head_dim=size, groups=integer(text, "mamba_n_groups") or 1, state=integer(text, "mamba_d_state") or 256,
        kernel=integer(text, "mamba_d_conv") or 4,
    )  # fmt: skip
    inter = integer(text, "intermediate_size") or 4 * hidden
    weights = gqa(hidden, heads, kv_heads, head_dim) + mixer + mlp(hidden, inter) + norms(hidden)
    block = Block((attention_kv(kv_heads, head_dim), state), weights, False, 2 * inter)
    return _finish(config, text, [block] * layers)


def jamba(config: Text, text: Text) -> Arch:
    """Jamba: Mamba-1 with attention every few layers, mixtures every few."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    period, offset = integer(text, "attn_layer_period") or 8, integer(text, "attn_layer_offset") or 4
    e_period, e_offset = integer(text, "expert_layer_period") or 2, integer(text, "expert_layer_offset") or 1
    experts, inter = integer(text, "num_experts") or 0, integer(text, "intermediate_size") or 4 * hidden
    state, mixer = mamba1(
        text, hidden, inner=hidden * (integer(text, "mamba_expand") or 2), state=integer(text, "mamba_d_state") or 16,
        kernel=integer(text, "mamba_d_conv") or 4, rank=integer(text, "mamba_dt_rank") or -(-hidden // 16),
    )  # fmt: skip
    attention = gqa(hidden, heads, kv_heads, head_dim)
    dense, mixture = mlp(hidden, inter), moe(hidden, experts, inter) if experts > 1 else ()
    blocks = []
    for i in range(layers):
        kv, weights = (attention_kv(kv_heads, head_dim), attention) if i % period == offset else (state, mixer)
        is_moe = experts > 1 and i % e_period == e_offset
        blocks.append(Block((kv,), weights + (mixture if is_moe else dense) + norms(hidden), is_moe, 2 * inter))
    return _finish(config, text, blocks, rope_elements=0)


def mamba(config: Text, text: Text) -> Arch:
    """Mamba and Mamba-2 without attention."""
    hidden = base.need(text, "hidden_size", "d_model")
    layers = base.need(text, "num_hidden_layers", "n_layer")
    kernel, state_size = integer(text, "conv_kernel") or 4, integer(text, "state_size") or 16
    expand = integer(text, "expand") or 2
    if base.model_type_of(config, text) == "mamba2":
        size = integer(text, "head_dim") or 64
        state, mixer = mamba2(text, hidden, heads=integer(text, "num_heads") or expand * hidden // size, head_dim=size, groups=integer(text, "n_groups") or 1, state=state_size, kernel=kernel)
    else:
        inner = integer(text, "intermediate_size") or expand * hidden
        rank = integer(text, "time_step_rank") or -(-hidden // 16)
        state, mixer = mamba1(text, hidden, inner=inner, state=state_size, kernel=kernel, rank=rank)
    block = Block((state,), mixer + norms(hidden, 1), False, 4 * hidden)
    tied = {**text, "tie_word_embeddings": text.get("tie_word_embeddings", True)}
    vocab, is_tied, embedding, head = base.embedding_of(tied, "mamba", hidden)
    return Arch(base.model_type_of(config, text), hidden, vocab, (block,) * layers, is_tied, embedding, head, inter=expand * hidden)


def zamba2(config: Text, text: Text) -> Arch:
    """Zamba2: Mamba-2 layers, some of which go through one of a few shared attention blocks of twice the width."""
    hidden, layers, heads, kv_heads, _ = base.dims(text)
    kinds = text.get("layers_block_type") or ()
    wide = integer(text, "attention_hidden_size") or 2 * hidden
    size = integer(text, "attention_head_dim") or wide // max(1, heads)
    m_heads = integer(text, "n_mamba_heads") or 0
    inner = hidden * (integer(text, "mamba_expand") or 2)
    state, mixer = mamba2(
        text, hidden, heads=m_heads, head_dim=integer(text, "mamba_headdim") or inner // max(1, m_heads), groups=integer(text, "mamba_ngroups") or 1,
        state=integer(text, "mamba_d_state") or 64, kernel=integer(text, "mamba_d_conv") or 4,
    )  # fmt: skip
    inter = integer(text, "intermediate_size") or 4 * hidden
    shared = gqa(wide, heads, kv_heads, size) + mlp(hidden, inter) + norms(wide, 2)
    blocks_of = integer(text, "num_mem_blocks") or 1
    blocks: list[Block] = []
    seen = 0
    for i in range(layers):
        if i < len(kinds) and str(kinds[i]) == "hybrid":
            extra = shared if seen < blocks_of else ()
            seen += 1
            blocks.append(Block((attention_kv(kv_heads, size), state), mixer + extra + (Weight("attention", hidden, hidden),) + norms(hidden), False, 2 * inter))
        else:
            blocks.append(Block((state,), mixer + norms(hidden, 1), False, 2 * inner))
    return _finish(config, text, blocks, layout_known=bool(kinds), head_dim=size)


def lfm2(config: Text, text: Text) -> Arch:
    """LFM2: short convolutions with attention in some layers."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    kinds = base.layer_types(text, layers)
    listed = text.get("full_attn_idxs")
    if kinds is None and isinstance(listed, (list, tuple)):
        kinds = ["full" if i in listed else "linear" for i in range(layers)]
    kernel = integer(text, "conv_L_cache") or 3
    dim = integer(text, "conv_dim") or hidden
    state = state_layer("conv", (kernel - 1) * dim, 0, None)
    mixer = (Weight("attention", 3 * dim, hidden, "rows", name="in_proj"), Weight("other", dim, kernel, "rows", quantized=False), Weight("attention", hidden, dim, "cols", name="out_proj"))
    inter = integer(text, "intermediate_size", "block_ff_dim") or 4 * hidden
    if text.get("block_auto_adjust_ff_dim"):
        inter = int(2 * inter / 3)
        multiplier = text.get("block_ffn_dim_multiplier")
        if isinstance(multiplier, (int, float)):
            inter = int(multiplier * inter)
        step = integer(text, "block_multiple_of") or 256
        inter = -(-inter // step) * step
    experts = integer(text, "num_experts") or 0
    moe_inner, dense_layers = integer(text, "moe_intermediate_size") or 0, integer(text, "num_dense_layers") or 0
    dense = mlp(hidden, inter)
    mixture = moe(hidden, experts, moe_inner, correction=True) if experts else ()
    attention = gqa(hidden, heads, kv_heads, head_dim, qk_norm=2 * head_dim)
    blocks = []
    for i, kind in enumerate(kinds or ["linear"] * layers):
        kv, weights = (attention_kv(kv_heads, head_dim), attention) if kind == "full" else (state, mixer)
        is_moe = bool(experts) and i >= dense_layers
        blocks.append(Block((kv,), weights + (mixture if is_moe else dense) + norms(hidden), is_moe, 2 * inter))
    tied = text.get("tie_word_embeddings", text.get("tie_embedding", True))
    return _finish(config, {**text, "tie_word_embeddings": tied is not False}, blocks, layout_known=kinds is not None, inter=inter)


def kimi_linear(config: Text, text: Text) -> Arch:
    """Kimi Linear: delta attention with a decay per channel, latent attention every few layers."""
    hidden, layers, heads, _kv, _ = base.dims(text)
    linear = text.get("linear_attn_config")
    linear = linear if isinstance(linear, Mapping) else {}
    delta = set(linear.get("kda_layers") or ())
    if not delta:  # as newer configuration classes write it
        delta = {i + 1 for i, kind in enumerate(base.layer_types(text, layers) or ()) if kind == "linear"}
    kernel, d_heads, size = integer(linear, "short_conv_kernel_size") or 4, integer(linear, "num_heads") or heads, integer(linear, "head_dim") or 128
    wide = d_heads * size
    state = state_layer("kda", (kernel - 1) * 3 * wide, d_heads * size * size, 4.0)
    mixer = (
        Weight("attention", 3 * wide, hidden, "rows", name="qkv_proj"), Weight("other", 3 * wide, kernel, "rows", quantized=False),
        Weight("attention", 2 * size + d_heads, hidden, quantized=False), Weight("attention", 2 * wide, size, "rows", quantized=False),
        Weight("attention", hidden, wide, "cols", name="o_proj"),
    )  # fmt: skip
    whole = base.latent_attention(config, text)
    blocks = []
    for i, block in enumerate(whole.blocks):
        if i + 1 in delta:
            rest = tuple(w for w in block.weights if w.kind != "attention")
            blocks.append(replace(block, kv=(state,), weights=mixer + rest))
        else:
            blocks.append(block)
    return replace(whole, blocks=tuple(blocks), layout_known=bool(delta), rope_elements=0)


def minimax_text(config: Text, text: Text) -> Arch:
    """MiniMax-Text-01 and M1: lightning attention with softmax attention every few layers."""
    hidden, layers, heads, _kv_heads, head_dim = base.dims(text)
    raw = text.get("attn_type_list")
    kinds = ["full" if x == 1 else "linear" for x in raw] if isinstance(raw, (list, tuple)) else base.layer_types(text, layers)
    state = state_layer("lightning", 0, heads * head_dim * head_dim, 4.0)
    wide = heads * head_dim
    mixer = (Weight("attention", 3 * wide, hidden, "rows", name="qkv_proj"), Weight("attention", wide, hidden, "rows"), Weight("attention", hidden, wide, "cols", name="o_proj"), Weight("other", wide, 1, "rows", quantized=False))
    whole = base.generic(config, {k: v for k, v in text.items() if k != "layer_types"})
    blocks = []
    for i, block in enumerate(whole.blocks):
        if kinds is not None and i < len(kinds) and kinds[i] == "linear":
            rest = tuple(w for w in block.weights if w.kind != "attention")
            blocks.append(replace(block, kv=(state,), weights=mixer + rest))
        else:
            blocks.append(block)
    return replace(whole, blocks=tuple(blocks), layout_known=kinds is not None)


def phi4_flash(config: Text, text: Text) -> Arch:
    """Phi-4-mini-flash (YOCO): the second half reads the one full cache of the middle."""
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    window = integer(text, "sliding_window") or 512
    state, mixer = mamba1(
        text, hidden, inner=hidden * (integer(text, "mamba_expand") or 2), state=integer(text, "mamba_d_state") or 16,
        kernel=integer(text, "mamba_d_conv") or 4, rank=integer(text, "mamba_dt_rank") or -(-hidden // 16),
    )  # fmt: skip
    inter = integer(text, "intermediate_size") or 4 * hidden
    attention = gqa(hidden, heads, kv_heads, head_dim, bias=True, o_bias=True)
    shared = gqa(hidden, heads, kv_heads, head_dim, shares_kv=True, bias=True, o_bias=True)
    gate = (Weight("attention", 2 * hidden, hidden, "rows", name="in_proj"), Weight("attention", hidden, 2 * hidden, "cols", name="out_proj"))
    half = layers // 2
    blocks = []
    for i in range(layers):
        is_mamba = i % 2 == 0
        if i < half + 2:
            if is_mamba:
                kv: tuple[KvLayer, ...] = (state,)
                weights = mixer
            else:
                kv = (attention_kv(kv_heads, head_dim, None if i == half + 1 else window),)
                weights = attention
        else:
            kv = () if is_mamba else (KvLayer(LayerKind.SHARED, 1, kv_heads, head_dim),)
            weights = gate if is_mamba else shared
        blocks.append(Block(kv, weights + mlp(hidden, inter) + norms(hidden, 2, bias=True), False, 2 * inter))
    return _finish(config, {**text, "tie_word_embeddings": text.get("tie_word_embeddings", True)}, blocks)


# --- Gemma with shared caches --------------------------------------------------------------------------------


def gemma_shared(config: Text, text: Text) -> Arch:
    """Gemma 3n and Gemma 4: sliding layers of one shape, full layers of another, the last ones reading earlier caches."""
    model_type = base.model_type_of(config, text)
    new = model_type.startswith("gemma4")
    hidden, layers, heads, kv_heads, head_dim = base.dims(text)
    kinds = base.layer_types(text, layers)
    known = kinds is None or all(k in ("full", "sliding") for k in kinds)
    if kinds is None:
        # what the configuration classes fill in: every n-th layer, and the last one, is full
        every = integer(text, "sliding_window_pattern", "_sliding_window_pattern") or (6 if new else 5)
        kinds = ["full" if (i + 1) % every == 0 or (new and i == layers - 1) else "sliding" for i in range(layers)]
    window = integer(text, "sliding_window") or 512
    wide = (integer(text, "global_head_dim") or head_dim) if new else head_dim
    wide_kv = (integer(text, "num_global_key_value_heads") or kv_heads) if new else kv_heads
    shared = integer(text, "num_kv_shared_layers") or 0
    first_shared = layers - shared
    sizes = text.get("intermediate_size")
    experts, top, e_inner = base.expert_facts(text)
    per_layer = integer(text, "hidden_size_per_layer_input") or 0
    blocks: list[Block] = []
    memo: dict[tuple[str, bool, int], Block] = {}
    for i in range(layers):
        full = kinds[i] == "full"
        reads = shared > 0 and i >= first_shared
        inner = sizes[i] if isinstance(sizes, (list, tuple)) and i < len(sizes) and type(sizes[i]) is int else integer(text, "intermediate_size") or 4 * hidden
        if reads and text.get("use_double_wide_mlp"):
            inner *= 2
        key = (kinds[i], reads, inner)
        if key not in memo:
            size, count = (wide, wide_kv) if full else (head_dim, kv_heads)
            weights = gqa(hidden, heads, count, size, qk_norm=2 * size, shares_kv=reads) + mlp(hidden, inner) + norms(hidden, 4)
            if experts:
                weights += moe(hidden, experts, e_inner) + norms(hidden, 3)
            if per_layer:
                weights += (Weight("mlp", per_layer, hidden), Weight("mlp", hidden, per_layer), *norms(hidden, 1))
            if not new:
                laurel, inputs = integer(text, "laurel_rank") or 64, integer(text, "altup_num_inputs") or 4
                weights += (Weight("mlp", laurel, hidden, "rows"), Weight("mlp", hidden, laurel, "cols"), Weight("other", inputs + inputs * inputs + hidden, inputs, quantized=False))
            kv = KvLayer(LayerKind.SHARED, 1, count, size) if reads else attention_kv(count, size, None if full else window)
            memo[key] = Block((kv,), weights, bool(experts), 2 * inner)
        blocks.append(memo[key])
    vocab = integer(text, "vocab_size") or 0
    arch = _finish(config, {**text, "tie_word_embeddings": text.get("tie_word_embeddings", True)}, blocks)
    extra: tuple[Weight, ...] = ()
    if per_layer:
        extra = (
            Weight("embedding", integer(text, "vocab_size_per_layer_input") or vocab, layers * per_layer, "vocab", quantized=False),
            Weight("mlp", layers * per_layer, hidden, quantized=False),
        )  # fmt: skip
    if not new:
        extra += tuple(Weight("mlp", hidden, hidden, quantized=False) for _ in range(2 * ((integer(text, "altup_num_inputs") or 4) - 1)))
    position = integer(text, "max_position_embeddings") or 0
    return replace(
        arch, embedding=arch.embedding + extra, layout_known=known, experts=experts, experts_per_token=top, moe_inter=e_inner,
        rope_elements=position * (head_dim + wide) if new else 2 * position * head_dim,
    )  # fmt: skip


# --- attention of two shapes ---------------------------------------------------------------------------------


def mimo_v2(config: Text, text: Text) -> Arch:
    """MiMo-V2: sliding and full layers with their own head counts, and V narrower than K."""
    whole = base.generic(config, text)
    hidden, _layers, heads, kv_heads, head_dim = base.dims(text)
    pattern = text.get("hybrid_layer_pattern")
    named = base.layer_types(text, len(whole.blocks))
    if pattern is None and named is not None:
        pattern = [int(kind == "sliding") for kind in named]
    value = integer(text, "v_head_dim") or head_dim
    s_heads, s_kv = integer(text, "swa_num_attention_heads") or heads, integer(text, "swa_num_key_value_heads") or kv_heads
    s_size, s_value = integer(text, "swa_head_dim") or head_dim, integer(text, "swa_v_head_dim") or value
    window = integer(text, "sliding_window_size", "sliding_window") or 128
    blocks = []
    for i, block in enumerate(whole.blocks):
        slides = isinstance(pattern, (list, tuple)) and i < len(pattern) and pattern[i] == 1
        rest = tuple(w for w in block.weights if w.kind != "attention")
        if slides:
            kv, weights = attention_kv(s_kv, s_size, window, s_value), gqa(hidden, s_heads, s_kv, s_size, v_dim=s_value)
        else:
            kv, weights = attention_kv(kv_heads, head_dim, None, value), gqa(hidden, heads, kv_heads, head_dim, v_dim=value)
        blocks.append(replace(block, kv=(kv,), weights=weights + rest))
    return replace(whole, blocks=tuple(blocks), layout_known=isinstance(pattern, (list, tuple)))


def longcat(config: Text, text: Text) -> Arch:
    """LongCat Flash: two latent attentions and two dense MLPs in every layer, one mixture (some experts do nothing)."""
    layers = integer(text, "num_layers", "num_hidden_layers") or 0
    plain = {**text, "num_hidden_layers": layers, "n_routed_experts": 0, "intermediate_size": integer(text, "ffn_hidden_size") or 0}
    whole = base.latent_attention(config, plain)
    hidden = whole.hidden
    experts, inner = integer(text, "n_routed_experts") or 0, integer(text, "expert_ffn_hidden_size") or 0
    mixture = moe(hidden, experts, inner, correction=True)
    blocks = tuple(replace(b, kv=b.kv * 2, weights=b.weights * 2 + mixture, moe=True) for b in whole.blocks)
    return replace(whole, blocks=blocks, experts=experts, experts_per_token=integer(text, "moe_topk") or 0, moe_inter=inner)


# --- encoders ------------------------------------------------------------------------------------------------


def encoder(config: Text, text: Text) -> Arch:
    """BERT and its kin: nothing is kept between tokens."""
    hidden, layers, heads, _kv, head_dim = base.dims(text)
    inter = integer(text, "intermediate_size") or 4 * hidden
    gated = base.model_type_of(config, text) in ("modernbert", "nomic_bert", "new", "gte")
    weights = gqa(hidden, heads, heads, head_dim, bias=True, o_bias=True) + mlp(hidden, inter, gated=gated, bias=True) + norms(hidden, 2, bias=True)
    block = Block((), weights, False, 2 * inter)
    vocab = integer(text, "vocab_size") or 0
    positions = integer(text, "max_position_embeddings") or 512
    embedding = (Weight("embedding", vocab, hidden, "vocab", quantized=False), Weight("embedding", positions + 2, hidden, quantized=False))
    return Arch(
        base.model_type_of(config, text), hidden, vocab, (block,) * layers, True, embedding, norms(hidden, 1, bias=True), heads=heads, kv_heads=heads, head_dim=head_dim,
        inter=inter, no_kv=True, max_position=positions,
    )  # fmt: skip


def whisper(config: Text, text: Text) -> Arch:
    """Whisper: an audio encoder, and a decoder that keeps its own tokens and the encoder's."""
    hidden = base.need(text, "d_model")
    layers, heads = base.need(text, "decoder_layers"), base.need(text, "decoder_attention_heads")
    inner, size = integer(text, "decoder_ffn_dim") or 4 * hidden, hidden // max(1, heads)
    attention = gqa(hidden, heads, heads, size, bias=True, o_bias=True)
    kv = attention_kv(heads, size)
    cross = replace(kv, fixed_tokens=integer(text, "max_source_positions") or 1500)
    block = Block((kv, cross), attention * 2 + mlp(hidden, inner, gated=False, bias=True) + norms(hidden, 3, bias=True), False, inner)
    e_heads, e_inner = integer(text, "encoder_attention_heads") or heads, integer(text, "encoder_ffn_dim") or inner
    e_layer = gqa(hidden, e_heads, e_heads, hidden // max(1, e_heads), bias=True, o_bias=True) + mlp(hidden, e_inner, gated=False, bias=True) + norms(hidden, 2, bias=True)
    tower = base.as_stored(e_layer, "audio") * (integer(text, "encoder_layers") or layers)
    mel = integer(text, "num_mel_bins") or 80
    tower += (Weight("audio", hidden, 3 * mel), Weight("audio", hidden, 3 * hidden), Weight("audio", integer(text, "max_source_positions") or 1500, hidden))
    vocab, positions = integer(text, "vocab_size") or 0, integer(text, "max_target_positions") or 448
    embedding = (Weight("embedding", vocab, hidden, "vocab", quantized=False), Weight("embedding", positions, hidden, quantized=False))
    return Arch(
        "whisper", hidden, vocab, (block,) * layers, True, embedding, norms(hidden, 1, bias=True), extra=base.as_stored(tower),
        heads=heads, kv_heads=heads, head_dim=size, inter=inner, max_position=positions,
    )  # fmt: skip


READERS: dict[str, Reader] = {
    "granitemoehybrid": granite_hybrid, "bamba": granite_hybrid, "nemotron_h": nemotron_h, "falcon_h1": falcon_h1, "jamba": jamba, "mamba": mamba,
    "mamba2": mamba, "falcon_mamba": mamba, "zamba2": zamba2, "lfm2": lfm2, "lfm2_moe": lfm2, "kimi_linear": kimi_linear, "minimax_text_01": minimax_text,
    "minimax_m1": minimax_text, "minimax": minimax_text, "phi4flash": phi4_flash, "gemma3n": gemma_shared, "gemma3n_text": gemma_shared,
    "gemma4": gemma_shared, "gemma4_text": gemma_shared, "gemma4_unified": gemma_shared, "gemma4_unified_text": gemma_shared, "mimo_v2_flash": mimo_v2, "mimo_v2": mimo_v2, "longcat_flash": longcat, "whisper": whisper,
}  # fmt: skip
