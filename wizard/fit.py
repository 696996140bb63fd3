"""The memory arithmetic: ModelInfo + GPU + release + flags -> what fits.

Pure and fast. The budget of a GPU is utilization x total; from it go the weights as vLLM shards them, what lies
outside PyTorch, the activation peak of vLLM's profiling run and (from 0.20) its CUDA graph estimate. The rest is
the KV pool. Figures that shapes do not give come from ``fit_data/constants.json``, each with its source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wizard.fit_kv import ELEMENT_BYTES, Pool, plan_pool
from wizard.fit_types import FitRequest, FitResult, Interval, Line
from wizard.i18n import _
from wizard.models import arch as arch_reader
from wizard.models import weights as weight_rules
from wizard.models.arch import Arch, Weight
from wizard.models.info import ModelInfo
from wizard.models.quant import Quant, detect

GIB = 2**30
MIB = 2**20
LARGE_GPU_BYTES = 70 * GIB  # from here vLLM takes larger batches by default


# --- constants -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def constants() -> dict[str, Any]:
    from importlib.resources import files

    data: dict[str, Any] = json.loads(files("wizard").joinpath("fit_data/constants.json").read_text(encoding="utf-8"))
    return data


@lru_cache(maxsize=256)
def version_key(release: str) -> tuple[int, ...]:
    """A release as numbers that compare: "0.11.1" -> (0, 11, 1); what is not a number counts as newest."""
    numbers: list[int] = []
    for part in release.strip().lstrip("v").split("."):
        digits = ""
        for char in part:
            if not char.isdigit():
                break
            digits += char
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers) if numbers else (9999,)


def constant(key: str, release: str) -> Mapping[str, Any]:
    """The entry of ``key`` that holds for ``release``; the nearest one when none does."""
    entries: list[dict[str, Any]] = constants()[key]
    asked = version_key(release)
    for entry in entries:
        first, last = entry.get("first"), entry.get("last")
        if (first is None or asked >= version_key(first)) and (last is None or asked <= version_key(last)):
            return entry
    return entries[-1]


# --- weights -------------------------------------------------------------------------------------------------


def allocated(size: float) -> int:
    """Bytes that PyTorch's caching allocator hands out for one tensor.

    Small ones come in steps of 512 bytes. From 10 MiB on a tensor gets a segment of its own in steps of 2 MiB, and
    what is left over of it is only given back when it is more than 1 MiB.
    """
    whole = -(-int(size) // 512) * 512
    if whole < 10 * MIB:
        return whole
    segment = -(-whole // (2 * MIB)) * 2 * MIB
    return segment if segment - whole <= MIB else whole


def _tensor_bytes(weight: Weight, quant: Quant, dtype_bytes: float, tp: int, ep: bool, ep_size: int) -> int:
    stack, rows, cols = weight.shape_on(tp, ep, ep_size)
    return allocated(stack * rows * cols * weight_rules.element_bytes(weight, quant, dtype_bytes))


@dataclass(frozen=True)
class Stage:
    """Weights of one pipeline stage on one GPU, and the layers it holds."""

    bytes: int
    by_kind: dict[str, int]
    first_layer: int
    layers: int


def stage_layers(layers: int, stages: int) -> list[tuple[int, int]]:
    """(first layer, count) of each pipeline stage: what is left over goes to the stages before the last."""
    each, left = divmod(layers, stages)
    counts = [each] * stages
    for i in range(2, left + 2):
        counts[-i % stages] += 1
    out, start = [], 0
    for count in counts:
        out.append((start, count))
        start += count
    return out


def stage_weights(arch: Arch, quant: Quant, dtype_bytes: float, request: FitRequest) -> list[Stage]:
    tp, pp = max(1, request.tensor_parallel_size), max(1, request.pipeline_parallel_size)
    ep_size = tp * max(1, request.data_parallel_size)
    out = []
    spans = stage_layers(len(arch.blocks), pp)
    for index, (start, count) in enumerate(spans):
        parts: list[Weight] = []
        if index == 0:
            parts += arch.embedding
            if not request.language_model_only:
                parts += arch.extra
        if index == pp - 1:
            parts += arch.head
            if arch.tied and pp > 1:
                parts += arch.embedding
        totals: dict[str, int] = {}
        memo: dict[int, list[tuple[str, int]]] = {}
        for block in arch.blocks[start : start + count]:
            key = id(block.weights)
            if key not in memo:
                memo[key] = [(w.kind, _tensor_bytes(w, quant, dtype_bytes, tp, request.expert_parallel, ep_size)) for w in block.weights]
            for kind, size in memo[key]:
                totals[kind] = totals.get(kind, 0) + size
        for weight in parts:
            totals[weight.kind] = totals.get(weight.kind, 0) + _tensor_bytes(weight, quant, dtype_bytes, tp, request.expert_parallel, ep_size)
        totals["rope"] = allocated(arch.rope_elements * dtype_bytes)
        out.append(Stage(sum(totals.values()), totals, start, count))
    return out


# --- the run -------------------------------------------------------------------------------------------------


def batch_defaults(request: FitRequest) -> tuple[int, int]:
    """(max_num_seqs, max_num_batched_tokens) that the API server takes when they are not given."""
    large = request.gpu_total_bytes >= LARGE_GPU_BYTES and "a100" not in request.gpu_name.lower()
    seqs = request.max_num_seqs or (1024 if large else 256)
    tokens = request.max_num_batched_tokens or (8192 if large else 2048)
    return seqs, tokens


def _dtype(info: ModelInfo, request: FitRequest) -> float:
    name = request.dtype if request.dtype not in ("", "auto") else (info.dtype or "bfloat16")
    size = weight_rules.DTYPE_BYTES.get(name, 2.0)
    if request.dtype in ("", "auto") and size > 2:
        return 2.0  # vLLM takes a float32 checkpoint down to 16 bit
    return size


def fit(info: ModelInfo, request: FitRequest) -> FitResult:
    """What ``info`` takes on the GPU of ``request``, and whether it fits. Sizes are per GPU, on the fullest one."""
    release = request.release
    notes: list[str] = []
    problems: list[str] = []
    dtype_bytes = _dtype(info, request)
    tp, pp = max(1, request.tensor_parallel_size), max(1, request.pipeline_parallel_size)
    seqs, batched = batch_defaults(request)
    try:
        arch: Arch | None = arch_reader.read(info.config)
    except arch_reader.ConfigError:
        arch = None
    quant = detect(info.config)
    if request.quantization and quant.method is None:
        quant = Quant(request.quantization, bytes_per_weight=1.0 if "fp8" in request.quantization else 0.5625)
    certain = info.kv_layout_known and arch is not None
    if arch is None or not info.kv_layout_known:
        notes.append(_("the layout of this architecture's cache is not known: vLLM itself will print what fits"))
    # weights
    stages = stage_weights(arch, quant, dtype_bytes, request) if arch is not None else []
    total_known = info.weight_bytes
    if stages and total_known and info.weight_source != "computed from config" and arch is not None and request.dtype in ("", "auto") and not request.quantization:
        computed = sum(weight_rules.by_kind(arch, quant, dtype_bytes).values())
        ratio = total_known / computed if computed else 1.0
        if 0.7 < ratio < 1.5:
            weights = [int(s.bytes * ratio) for s in stages]
        else:
            weights = [total_known // (tp * pp)] * pp
            notes.append(_("the size on disk and the computed size differ: the size on disk is used"))
    elif stages:
        weights = [s.bytes for s in stages]
    elif total_known:
        weights = [total_known // (tp * pp)] * pp
    else:
        weights = [0] * pp
        certain = False
        notes.append(_("the size of the weights is not known"))
    fullest = max(range(len(weights)), key=lambda i: weights[i])
    weights_bytes = max(0, weights[fullest] - request.cpu_offload_bytes)
    # the rest
    sampler = constant("sampler_bytes_per_logit", release)
    vocab = info.vocab_size or 0
    hidden = info.hidden_size or 0
    logits = sampler["value"] * seqs * vocab
    activation = int(logits + batched * hidden * dtype_bytes)
    spread = sampler["spread"] / sampler["value"]
    outside = constant("non_torch", release)
    key = "tensor_parallel" if tp > 1 else "pipeline_parallel" if pp > 1 else "single"
    non_torch = int(outside[key] * GIB)
    graphs = 0
    if constant("cuda_graph_counted", release)["value"] and not request.enforce_eager:
        graphs = int(0.6 * GIB)
    lora = request.lora_slots * _lora_bytes(info, request, dtype_bytes)
    draft = request.draft_weight_bytes
    # the budget
    given = request.gpu_memory_utilization
    default = constant("utilization_default", release)
    utilization = given if given is not None else float(default["value"])
    reason = _("as asked") if given is not None else _("the default of vLLM {release}").format(release=release)
    budget = int(request.gpu_total_bytes * utilization)
    used = weights_bytes + activation + non_torch + graphs + lora + draft
    best = budget - used
    if request.kv_cache_memory_bytes is not None:
        best = request.kv_cache_memory_bytes
    margin = int(activation * spread + outside["spread"] * GIB + weights_bytes * 0.005 + graphs * 0.5)
    if request.kv_cache_memory_bytes is not None:
        margin = 0
    pool_bytes = Interval(max(0, best), max(0, best - margin), max(0, best + margin))
    # the cache
    element = ELEMENT_BYTES.get(request.kv_cache_dtype)
    max_len = request.max_model_len or info.max_model_len
    pool: Pool | None = None
    if certain:
        pool = plan_pool(_stage_layers(info, arch, stages, fullest), tp=tp, element=element or dtype_bytes, in_flight=batched, max_len=max_len)
    tokens = Interval(0, 0, 0)
    longest: int | None = None
    concurrency: float | None = None
    per_token: int | None = None
    limit = info.max_model_len or max_len or 1_000_000
    if pool is not None:
        tokens = Interval(pool.tokens(pool_bytes.best), pool.tokens(pool_bytes.low), pool.tokens(pool_bytes.high))
        longest = pool.longest(pool_bytes.low, max(limit, max_len or 0))
        concurrency = pool.concurrency(pool_bytes.best, max_len) if max_len else None
        per_token = int(sum(pool.block_bytes / g.block_tokens for g in pool.groups if g.window is None and g.kind.value != "linear"))
    free = request.gpu_free_bytes
    if free is None:
        notes.append(_("free memory was not measured: the whole card is taken as free"))
    elif budget > free:
        problems.append(
            _("utilization {u:.2f} asks for {need:.1f} GiB but only {free:.1f} GiB are free").format(u=utilization, need=budget / GIB, free=free / GIB)
        )
    fits_best = best > 0 and not problems
    fits_low = best - margin > 0 and not problems
    if pool is not None and max_len:
        fits_best = fits_best and pool.blocks_for(max_len) <= pool.blocks(pool_bytes.best)
        fits_low = fits_low and pool.blocks_for(max_len) <= pool.blocks(pool_bytes.low)
    if best - margin <= 0:
        problems.append(_("the weights and what vLLM needs beside them leave no room for the cache"))
    elif not fits_low and pool is not None and max_len and not problems:
        problems.append(_("a context of {n} tokens does not fit; {longest} does").format(n=max_len, longest=longest))
    if not certain:
        fits_low = False
    lines = (
        Line("weights", weights_bytes, _("weights as sharded ({source})").format(source=info.weight_source or "computed"), info.weight_source),
        Line("activation", activation, _("peak of the profiling run: {seqs} sequences, {tokens} tokens, vocabulary {vocab}").format(seqs=seqs, tokens=batched, vocab=vocab), sampler["source"]),
        Line("non_torch", non_torch, _("CUDA context and communication buffers"), outside["source"]),
        Line("cuda_graph", graphs, _("CUDA graphs"), ""),
        Line("lora", lora, _("{n} LoRA slots").format(n=request.lora_slots)),
        Line("draft", draft, _("draft model")),
        Line("kv_cache", int(pool_bytes.best), _("what is left for the KV cache")),
    )  # fmt: skip
    return FitResult(
        fits=fits_low, fits_best=fits_best, certain=certain, utilization=utilization, utilization_reason=reason, budget_bytes=budget,
        weights_bytes=weights_bytes, activation_bytes=activation, non_torch_bytes=non_torch, cuda_graph_bytes=graphs, lora_bytes=lora, draft_bytes=draft,
        kv_cache_bytes=pool_bytes, kv_cache_tokens=tokens, kv_bytes_per_token=per_token, max_model_len=max_len, max_model_len_that_fits=longest,
        concurrency=concurrency, lines=tuple(x for x in lines if x.bytes), notes=tuple(notes), problems=tuple(problems),
    )  # fmt: skip


def _stage_layers(info: ModelInfo, arch: Arch | None, stages: list[Stage], index: int) -> list[Any]:
    """KV layers of one pipeline stage."""
    if arch is None or len(stages) <= 1:
        return list(info.kv_layers)
    stage = stages[index]
    part = arch.blocks[stage.first_layer : stage.first_layer + stage.layers]
    return [layer for block in part for layer in block.kv]


def _lora_bytes(info: ModelInfo, request: FitRequest, dtype_bytes: float) -> int:
    """One adapter slot: A and B matrices of the maximum rank for every attention and MLP projection."""
    hidden, layers = info.hidden_size or 0, info.num_layers or 0
    inter = info.intermediate_size or 4 * hidden
    per_layer = request.max_lora_rank * (8 * hidden + 3 * (hidden + inter))
    return int(layers * per_layer * dtype_bytes / max(1, request.tensor_parallel_size))


# --- choosing ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuMemory:
    """What choosing needs of one GPU. ``free_bytes`` is measured; None: not known."""

    total_bytes: int
    free_bytes: int | None = None
    name: str = ""
    compute_capability: str | None = None


@dataclass(frozen=True)
class Pick:
    """One chosen flag: the key is the engine's flag name with underscores."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True)
class Choice:
    """What :func:`choose` settles on: the request it was computed with, the result, and why each flag."""

    request: FitRequest
    result: FitResult
    picks: tuple[Pick, ...]

    def value(self, key: str) -> str | None:
        return next((p.value for p in self.picks if p.key == key), None)


FREE_MARGIN_BYTES = 256 * MIB  # left free beside the budget: the driver and the desktop breathe
LEAST_UTILIZATION = 0.3
COMFORTABLE_LENGTH = 32_768
LENGTHS = (1_048_576, 524_288, 262_144, 131_072, 98_304, 65_536, 49_152, 40_960, 32_768, 24_576, 16_384, 12_288, 8_192, 6_144, 4_096, 2_048, 1_024)


def choose_utilization(total: int, free: int | None, default: float, *, wsl: bool = False) -> tuple[float, str]:
    """The share of total memory to ask for: the release's default, or less when others hold some of the card."""
    if free is None:
        return default, _("the default: free memory was not measured")
    room = free - FREE_MARGIN_BYTES
    if total * default <= room:
        return default, _("the default: {free:.1f} of {total:.1f} GiB are free").format(free=free / GIB, total=total / GIB)
    share = max(0.0, int(room / total * 100) / 100)
    held = (total - free) / GIB
    who = _("the Windows desktop and other programs hold {held:.1f} GiB") if wsl else _("other programs hold {held:.1f} GiB")
    return share, _("{share:.2f}: ").format(share=share) + who.format(held=held)


def valid_tp(info: ModelInfo, gpus: int) -> list[int]:
    """Tensor parallel sizes up to ``gpus`` that divide this model's heads."""
    heads = info.num_heads or 0
    out = []
    for size in range(1, max(1, gpus) + 1):
        if size > 1 and (heads % size or (info.num_kv_heads and info.num_kv_heads >= size and info.num_kv_heads % size)):
            continue
        out.append(size)
    return out


def choose(
    info: ModelInfo,
    gpus: list[GpuMemory],
    release: str,
    *,
    base: FitRequest | None = None,
    want_length: int | None = None,
    wsl: bool = False,
) -> Choice:
    """Parallel sizes, utilization, context length and KV type for these GPUs, each with its reason.

    ``base`` carries what the user fixed already (its None fields are free to choose).
    """
    from dataclasses import replace

    smallest = min(gpus, key=lambda g: g.free_bytes if g.free_bytes is not None else g.total_bytes)
    start = base or FitRequest(release, smallest.total_bytes)
    default = float(constant("utilization_default", release)["value"])
    utilization, why = choose_utilization(smallest.total_bytes, smallest.free_bytes, default, wsl=wsl)
    if start.gpu_memory_utilization is not None:
        utilization, why = start.gpu_memory_utilization, _("as asked")
    limit = info.max_model_len
    wanted = start.max_model_len or want_length
    best: tuple[FitRequest, FitResult] | None = None
    for size in valid_tp(info, len(gpus)):
        request = replace(
            start, release=release, gpu_total_bytes=smallest.total_bytes, gpu_free_bytes=smallest.free_bytes, gpu_name=smallest.name, gpus=len(gpus),
            compute_capability=smallest.compute_capability, tensor_parallel_size=size, gpu_memory_utilization=utilization, wsl=wsl,
        )  # fmt: skip
        result = fit(info, replace(request, max_model_len=wanted or limit))
        best = (request, result)
        if (result.max_model_len_that_fits or 0) >= min(x for x in (wanted, limit, COMFORTABLE_LENGTH) if x):
            break
    assert best is not None
    request, result = best
    picks = [Pick("gpu_memory_utilization", f"{utilization:.2f}", why)]
    if request.tensor_parallel_size > 1:
        picks.append(Pick("tensor_parallel_size", str(request.tensor_parallel_size), _("the weights do not fit one GPU with room for the cache")))
    length = wanted
    if length is None:
        longest = result.max_model_len_that_fits or 0
        ceiling = limit or 0
        if ceiling and longest >= ceiling:
            length, reason = ceiling, _("the model's whole context fits")
        else:
            length = next((n for n in LENGTHS if n <= longest), longest or None)
            reason = _("the longest round length that surely fits ({n} tokens do)").format(n=longest)
        if length:
            picks.append(Pick("max_model_len", str(length), reason))
    request = replace(request, max_model_len=length)
    result = fit(info, request)
    return Choice(request, result, tuple(picks))
