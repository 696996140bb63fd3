"""The KV cache as vLLM lays it out: bytes of a block, tokens of a pool, what one sequence needs.

The pool is cut into blocks of equal bytes. Layers of one kind form groups of equally many layers; every group has
its own block table and a block serves one group. A sequence takes ceil(n / block) blocks of each full-attention
group, a bounded number of each sliding group and a fixed number of each state group
(vllm/v1/core/kv_cache_utils.py, from 0.33 kv_cache_planning.py; vllm/v1/kv_cache_interface.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wizard.fit_constants import version_key
from wizard.fit_profile import Batch, compute_capability, is_hopper_class
from wizard.fit_types import FitRequest
from wizard.models.info import KvLayer, LayerKind
from wizard.models.quant import Quant

# bytes of one stored element
ELEMENT_BYTES = {"bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0,
                 "fp8_ds_mla": 1.0, "int8": 1.0, "int8_per_token_head": 1.0, "fp8_per_token_head": 1.0, "int4_per_token_head": 0.5, "int4": 0.5,
                 "nvfp4": 0.5625}  # fmt: skip
SCALE_BYTES = 4  # the per-token-head kinds keep one 32 bit scale for K and one for V of every head
HYBRID_SINCE = (0, 9, 2)  # before, layers with a window were kept as if they looked at everything
TOKENS_BY_CONCURRENCY_SINCE = (0, 20)  # from here the printed size is concurrency x longest context
# vllm/envs.py: chunked layers are kept apart by default in 0.17.0, not in 0.12.0; between them no sources were read
CHUNKS_APART_SINCE = (0, 17)
IN_FLIGHT_TWICE_SINCE = (0, 26)  # from here a second step may be under way
HYBRID_PREFIX_CACHING_SINCE = (0, 26)  # from here prefix caching is on by default for models with states


@dataclass(frozen=True)
class Group:
    """One KV cache group: ``layers`` layers that share a block table."""

    kind: LayerKind
    layers: int
    block_tokens: int
    window: int | None = None
    blocks_per_sequence: int = 1  # of a state group


@dataclass(frozen=True)
class Pool:
    """How a model's cache is cut. ``block_bytes`` is one block over the layers of one group, on one GPU."""

    groups: tuple[Group, ...]
    block_bytes: int
    in_flight: int  # tokens that steps under way may hold beyond a window
    by_concurrency: bool
    bytes_per_token: int  # of one more token in the full-attention layers

    def blocks(self, pool_bytes: float) -> int:
        return max(0, int(pool_bytes // self.block_bytes)) if self.block_bytes else 0

    def blocks_for(self, tokens: int) -> int:
        """Blocks that one sequence of ``tokens`` tokens needs."""
        total = 0
        for group in self.groups:
            if group.kind is LayerKind.LINEAR:
                total += group.blocks_per_sequence
            elif group.window:
                held = min(group.window - 1 + self.in_flight, tokens)
                # one more: the window need not begin at a block's edge
                total += -(-held // group.block_tokens) + 1
            else:
                total += -(-tokens // group.block_tokens)
        return total

    def tokens(self, pool_bytes: float, max_len: int) -> int:
        """What vLLM prints as the cache's size."""
        if not self.groups:
            return 0
        if self.by_concurrency:
            return int(self.concurrency(pool_bytes, max_len) * max_len)
        smallest = min(g.block_tokens for g in self.groups)
        return self.blocks(pool_bytes) // len(self.groups) * smallest

    def concurrency(self, pool_bytes: float, length: int) -> float:
        need = self.blocks_for(length)
        return self.blocks(pool_bytes) / need if need else 0.0

    def longest(self, pool_bytes: float, limit: int) -> int:
        """The longest sequence that fits alone, at most ``limit``; 0 when not one token does."""
        have = self.blocks(pool_bytes)
        if self.blocks_for(limit) <= have:
            return limit
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks_for(middle) <= have:
                low = middle
            else:
                high = middle - 1
        return low

    def bytes_for(self, tokens: int) -> int:
        return self.blocks_for(tokens) * self.block_bytes


# From here "auto" follows a checkpoint that asks for an 8 bit cache: 0.12.0 does not, 0.17.0 does; between them no
# sources were read, and the larger cache is taken (vllm/model_executor/layers/attention/attention.py, utils/torch_utils.py).
CHECKPOINT_TYPE_SINCE = (0, 17)


def element_size(kv_cache_dtype: str, quant: Quant, dtype_bytes: float, release: str) -> float:
    """Bytes of one cached element; "auto" follows the checkpoint's own wish where the release does, else the model's dtype."""
    name = kv_cache_dtype.lower()
    if name in ("", "auto"):
        return 1.0 if quant.kv_cache_dtype == "fp8" and version_key(release) >= CHECKPOINT_TYPE_SINCE else dtype_bytes
    return ELEMENT_BYTES.get(name, dtype_bytes)


def keeps_windows_apart(layers: Sequence[KvLayer], request: FitRequest) -> bool:
    """Whether layers with a window drop what lies before it; else all are kept as if they looked at everything."""
    release = version_key(request.release)
    if request.hybrid_cache is False or release < HYBRID_SINCE:
        return False
    if request.hybrid_cache is None and any(x.chunked for x in layers):
        asked = request.extra.get("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE")
        return asked == "1" if asked else release >= CHUNKS_APART_SINCE
    return True


def packed_latent(layers: Sequence[KvLayer], request: FitRequest) -> bool:
    """Whether an 8 bit latent cache keeps its scales and its rotary part in 16 bit beside it.

    So do the kernels of sparse latent attention (models with an indexer), but for those of data-centre Blackwell
    (vllm/model_executor/layers/attention/mla_attention.py).
    """
    if request.kv_cache_dtype == "fp8_ds_mla":
        return True
    sparse = any(x.kind is LayerKind.MLA and x.element_bytes is not None for x in layers)
    return sparse and request.kv_cache_dtype.startswith("fp8") and not 10.0 <= (compute_capability(request) or 0) < 11.0


def layer_bytes_per_token(layer: KvLayer, tp: int, element: float, kv_cache_dtype: str = "auto", packed: bool = False) -> float:
    """Bytes of one token in one attention layer on one GPU."""
    size = layer.element_bytes if layer.element_bytes is not None else element
    if layer.kind is LayerKind.MLA:
        if packed and layer.latent_dim == 576:
            return 656.0  # 512 bytes, 4 scales of 4 bytes, 64 elements of 2 bytes
        return layer.latent_dim * size
    heads = max(1, -(-layer.kv_heads // tp)) if layer.kv_heads else 0
    scales = 2 * SCALE_BYTES if kv_cache_dtype.endswith("per_token_head") else 0
    return heads * ((layer.head_dim + (layer.v_head_dim or layer.head_dim)) * size + scales)


# from here the kernels of a kind of state export one more state, at the end of a prefill's whole blocks
CHECKPOINT_SINCE = {"mamba2": (0, 32), "kda": (0, 29), "delta": (0, 33)}
CHECKPOINT_ONLY_HOPPER = frozenset(("kda", "delta"))


def _state_blocks(request: FitRequest, kind: str) -> int:
    """Blocks that one sequence holds of each group of states of that kind."""
    release = version_key(request.release)
    caching = request.enable_prefix_caching
    if caching is None:
        caching = release >= HYBRID_PREFIX_CACHING_SINCE
    if release < (0, 12):
        return 1
    since = CHECKPOINT_SINCE.get(kind)
    exports = since is not None and release >= since and (kind not in CHECKPOINT_ONLY_HOPPER or is_hopper_class(request))
    return (2 + exports if caching else 1) + request.num_speculative_tokens


# From these releases on vLLM's CPU build keeps states in 32 bit where the processor has what its kernels for gated
# delta nets use. It looks at nothing else, so states of Mamba are kept so too (vllm/platforms/cpu.py, "Reset SSM cache
# type to float32"; not in 0.25.1, the one from 0.26.0 to 0.28.0, the other from 0.29.0 to 0.33.0, the newest read).
WIDE_STATES_SINCE = (((0, 29), "avx512_bf16"), ((0, 26), "amx_tile"))
TYPED_STATES = frozenset(("mamba", "mamba2", "delta"))  # whose type --mamba-ssm-cache-dtype sets; others have their own


def wide_states(request: FitRequest) -> bool:
    """Whether the processor makes vLLM keep states in 32 bit. One of which nothing is known is taken to."""
    release = version_key(request.release)
    flag = next((flag for since, flag in WIDE_STATES_SINCE if release >= since), None)
    return request.cpu and flag is not None and (request.cpu_flags is None or flag in request.cpu_flags)


def state_size(layer: KvLayer, request: FitRequest) -> int:
    """Bytes of one layer's state of one sequence, before it is cut over GPUs."""
    size = layer.state_bytes or 0
    if layer.state_kind not in TYPED_STATES:
        return size
    asked = ELEMENT_BYTES.get(request.mamba_ssm_cache_dtype)
    # From 0.29 on 16 bit that the option asks for are left to layers named "linear_attention". Mamba's are named so for
    # some models, by some releases of transformers (5.16.1, not 5.10.1): for all of them the smaller cache is told.
    kept = asked == 2 and layer.state_kind == "delta" and version_key(request.release) >= (0, 29)
    element = 4.0 if wide_states(request) and not kept else asked or layer.recurrent_bytes or 2.0
    return size + int((element - (layer.recurrent_bytes or 2.0)) * layer.recurrent)


def plan_pool(
    layers: Sequence[KvLayer], *, request: FitRequest, batch: Batch, element: float, max_len: int | None, stage_layers: Sequence[KvLayer] | None = None
) -> Pool | None:  # fmt: skip
    """The pool's cut for a model's layers (grouped as :class:`ModelInfo` has them); None when nothing is kept.

    ``stage_layers`` are those of one pipeline stage: groups are formed over the whole model, and a stage holds its
    share of every group.
    """
    tp = max(1, request.tensor_parallel_size)
    release = version_key(request.release)
    # the CPU's latent attention only takes blocks of 16
    block = request.block_size or (128 if request.cpu and not any(x.kind is LayerKind.MLA for x in layers) else 16)
    attention = [x for x in layers if x.kind in (LayerKind.FULL, LayerKind.SLIDING, LayerKind.MLA) and x.count > 0]
    states = [x for x in layers if x.kind is LayerKind.LINEAR and x.count > 0]
    crossing = [x for x in attention if x.fixed_tokens]
    attention = [x for x in attention if not x.fixed_tokens]
    if not attention and not states:
        return None
    if not keeps_windows_apart(attention, request) and any(x.kind is not LayerKind.SLIDING for x in attention):
        attention = [replace(x, kind=LayerKind.FULL, window=None) if x.kind is LayerKind.SLIDING else x for x in attention]
    by_concurrency = release >= TOKENS_BY_CONCURRENCY_SINCE
    steps = 2 if release >= IN_FLIGHT_TWICE_SINCE else 1
    in_flight = batch.tokens * steps if batch.chunked else max(max_len or 0, batch.tokens)
    stage_share = _share(layers, stage_layers)

    def pool(groups: Sequence[Group], page: float, layers_per_group: int, per_token: float) -> Pool:
        held = max(1, -(-int(layers_per_group * stage_share * 1000) // 1000))
        return Pool(tuple(groups), max(1, int(page * held)), in_flight, by_concurrency, int(per_token * stage_share))

    if not attention:
        page = max(state_size(x, request) // tp for x in states)
        count = sum(x.count for x in states)
        return pool([Group(LayerKind.LINEAR, count, max_len or 1, None, max(_state_blocks(request, x.state_kind) for x in states))], page, count, 0)
    packed = packed_latent(attention, request)
    sizes = [layer_bytes_per_token(x, tp, element, request.kv_cache_dtype, packed) for x in attention]
    per_token = sum(s * x.count for s, x in zip(sizes, attention, strict=True) if x.window is None)
    if states:
        # the attention block grows until its page holds a state; the state's page is padded to it
        state = max(state_size(x, request) // tp for x in states)
        need = -(-state // max(1, int(max(sizes))))
        block = max(block, -(-need // block) * block)
    kinds: dict[tuple[LayerKind, int | None, float], int] = {}
    for layer, size in zip(attention, sizes, strict=True):
        key = (LayerKind.FULL if layer.window is None else layer.kind, layer.window, size)
        kinds[key] = kinds.get(key, 0) + layer.count
    if len({(kind, window) for kind, window, _ in kinds}) == 1 and not states and not crossing:
        # one kind of attention: one group, every layer with its own page
        kind, window, _width = next(iter(kinds))
        count = sum(kinds.values())
        mean = sum(s * n for (_, _, s), n in kinds.items()) / count
        return pool([Group(kind, count, block, window)], mean * block, count, per_token)
    groups, page_bytes, width = _hybrid(kinds, states, crossing, block, max_len, request)
    return pool(groups, page_bytes, width, per_token)


def _hybrid(
    kinds: dict[tuple[LayerKind, int | None, float], int],
    states: Sequence[KvLayer],
    crossing: Sequence[KvLayer],
    block: int,
    max_len: int | None,
    request: FitRequest,
) -> tuple[list[Group], float, int]:
    """(groups, bytes of a page, layers of a group) of a model with several kinds of layers."""
    widest = max(s for _, _, s in kinds)
    page = widest * block
    buckets: list[Group] = []  # with all layers of a kind, before they are split into groups of equal size
    for (kind, window, size), count in kinds.items():
        ratio = max(1, int(widest / size + 1e-6)) if size else 1
        buckets.append(Group(kind, count, block * ratio, window))
    for layer in states:
        buckets.append(Group(LayerKind.LINEAR, layer.count, max_len or block, None, _state_blocks(request, layer.state_kind)))
    for layer in crossing:
        # a fixed number of blocks, as of a state
        buckets.append(Group(LayerKind.LINEAR, layer.count, block, None, -(-(layer.fixed_tokens or 0) // block)))
    least, most = min(b.layers for b in buckets), max(b.layers for b in buckets)
    size_of_group = most if most < least * 1.5 else least
    groups = [replace(b, layers=size_of_group) for b in buckets for _i in range(-(-b.layers // size_of_group))]
    return groups, page, size_of_group


def _share(layers: Sequence[KvLayer], stage: Sequence[KvLayer] | None) -> float:
    """The part of all caching layers that one pipeline stage holds."""
    if stage is None:
        return 1.0
    keeps = (LayerKind.FULL, LayerKind.SLIDING, LayerKind.MLA, LayerKind.LINEAR)
    total = sum(x.count for x in layers if x.kind in keeps)
    part = sum(x.count for x in stage if x.kind in keeps)
    return part / total if total else 1.0
