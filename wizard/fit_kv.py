"""The KV cache as vLLM lays it out: bytes per block, tokens of a pool, bytes that one sequence needs.

vLLM cuts the pool into blocks of equal bytes. Layers of one kind form groups of equally many layers; every group
has its own block table, and one block serves one group. A sequence of n tokens takes ceil(n / block) blocks of
every full-attention group, a bounded number of every sliding group and a fixed number of every state group
(vllm/v1/core/kv_cache_utils.py, kv_cache_planning.py in newer releases).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wizard.models.info import KvLayer, LayerKind

# bytes of one stored element; the per-token-head kinds keep 4 byte scales of K and V for every head beside
ELEMENT_BYTES = {"auto": None, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0,
                 "fp8_inc": 1.0, "fp8_ds_mla": 1.0, "int8": 1.0, "int8_per_token_head": 1.0, "fp8_per_token_head": 1.0,
                 "int4_per_token_head": 0.5, "int4": 0.5, "nvfp4": 0.5625}  # fmt: skip


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
    """How a model's cache is cut. ``block_bytes`` is one block across the layers of one group."""

    groups: tuple[Group, ...]
    block_bytes: int
    report_tokens: int  # block size that the log multiplies with
    in_flight: int  # tokens of one scheduling step

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

    def tokens(self, pool_bytes: float) -> int:
        """What the log calls the cache size."""
        if not self.groups:
            return 0
        return self.blocks(pool_bytes) // len(self.groups) * self.report_tokens

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


def layer_bytes_per_token(layer: KvLayer, tp: int, element: float) -> float:
    """Bytes of one token in one attention layer on one GPU."""
    size = layer.element_bytes if layer.element_bytes is not None else element
    if layer.kind is LayerKind.MLA:
        return layer.latent_dim * size
    heads = max(1, -(-layer.kv_heads // tp)) if layer.kv_heads else 0
    return heads * (layer.head_dim + (layer.v_head_dim or layer.head_dim)) * size


def plan_pool(
    layers: Sequence[KvLayer], *, tp: int, element: float, in_flight: int, block: int = 16, max_len: int | None = None, mamba_blocks: int = 1
) -> Pool | None:
    """The pool's cut for ``layers`` (grouped, as :class:`ModelInfo` has them); None when nothing is kept."""
    attention = [x for x in layers if x.kind in (LayerKind.FULL, LayerKind.SLIDING, LayerKind.MLA) and x.count > 0]
    states = [x for x in layers if x.kind is LayerKind.LINEAR and x.count > 0]
    if max_len is not None:
        # a window as long as the context is full attention
        attention = [replace(x, kind=LayerKind.FULL, window=None) if x.window and x.window >= max_len else x for x in attention]
    if not attention and not states:
        return None
    if not attention:
        page = max((x.state_bytes or 0) // tp for x in states)
        count = sum(x.count for x in states)
        return Pool((Group(LayerKind.LINEAR, count, max_len or 1, None, mamba_blocks),), max(1, page * count), block, in_flight)
    per_token = [layer_bytes_per_token(x, tp, element) for x in attention]
    if states:
        state = max((x.state_bytes or 0) // tp for x in states)
        # the attention block grows until its page holds a state; the state's page is padded to it
        need = -(-state // max(1, int(max(per_token))))
        block = max(block, -(-need // 16) * 16)
    kinds: dict[tuple[LayerKind, int | None, float], int] = {}
    for layer, size in zip(attention, per_token, strict=True):
        key = (layer.kind, layer.window, size)
        kinds[key] = kinds.get(key, 0) + layer.count
    if len(kinds) == 1 and not states:
        (kind, window, size), count = next(iter(kinds.items()))
        return Pool((Group(kind, count, block, window),), max(1, int(size * block * count)), block, in_flight)
    if not states and all(window is None for _, window, _ in kinds):
        # all full attention of different widths: one group, every layer with its own page
        return Pool((Group(LayerKind.FULL, sum(kinds.values()), block),), max(1, int(sum(s * block * n for (_, _, s), n in kinds.items()))), block, in_flight)
    widest = max(s for _, _, s in kinds)
    page = int(widest * block)
    counted: list[tuple[LayerKind, int | None, int, int]] = []
    for (kind, window, size), count in kinds.items():
        ratio = max(1, round(widest / size)) if size else 1
        counted.append((kind, window, block * ratio, count))
    for layer in states:
        counted.append((LayerKind.LINEAR, None, max_len or block, layer.count))
    least, most = min(c for *_, c in counted), max(c for *_, c in counted)
    size_of_group = most if most < least * 1.5 else least
    groups: list[Group] = []
    for kind, window, tokens, count in counted:
        for _i in range(-(-count // size_of_group)):
            groups.append(Group(kind, size_of_group, tokens, window, mamba_blocks))
    return Pool(tuple(groups), max(1, page * size_of_group), block, in_flight)
