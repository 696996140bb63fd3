"""The memory arithmetic: ModelInfo + GPU + release + flags -> what fits.

Pure and fast. The budget of a GPU is utilization x total; from it go the weights as vLLM shards them, what lies
outside PyTorch, the peak of vLLM's profiling run and (from 0.20) its CUDA graph estimate. The rest is the KV pool.
Figures that shapes do not give come from ``fit_data/constants.json``, each with its source.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from wizard import fit_profile, fit_weights
from wizard.fit_constants import GIB, LATENT_SINCE, MIB, constant, version_key
from wizard.fit_kv import Pool, element_size, plan_pool, state_size, wide_states
from wizard.fit_profile import Batch, Profile
from wizard.fit_types import (
    CPU_PROCESS_BYTES,
    Calibration,
    FitRequest,
    FitResult,
    Interval,
    Line,
    share_words,
)
from wizard.fit_weights import Stage
from wizard.i18n import N_, _, clauses, language
from wizard.models import arch as arch_reader
from wizard.models import weights as weight_rules
from wizard.models.arch import Arch
from wizard.models.info import ESTIMATED, KvLayer, LayerKind, ModelInfo
from wizard.models.quant import Quant, detect

# Windows holds 1.2 to 1.7 GiB of a card that drives a display (measured, public reports)
WINDOWS_SHARE_BYTES = int(1.7 * GIB)
ESTIMATED_SPREAD = 0.1  # of the weights, where it is not told which modules are left unquantized
LARGE_CARD_BYTES = 40 * GIB  # from here a card drives no desktop


@dataclass(frozen=True)
class _Side:
    """One pipeline stage's share of the budget. Bytes on one GPU."""

    weights: int
    profile: Profile | None
    activation: int
    spread: int  # of the activation
    used: int
    layers: list[KvLayer]
    measured: bool = False  # the activation comes from this machine's own log


@dataclass(frozen=True)
class _Model:
    """What of a model does not change with the request's sizes."""

    arch: Arch | None
    quant: Quant
    stored: Quant
    dtype_bytes: float
    stored_bytes: float


# --- the model under this request ----------------------------------------------------------------------------


def _dtype_bytes(info: ModelInfo, request: FitRequest) -> float:
    asked = request.dtype.removeprefix("torch.")
    if asked not in ("", "auto"):
        return weight_rules.DTYPE_BYTES.get(asked, 2.0)
    size = weight_rules.DTYPE_BYTES.get(info.dtype or "", 2.0)
    return 2.0 if size != 2.0 else size  # vLLM takes a 32 bit checkpoint down to 16 bit


# bytes of a linear weight that is quantized while loading
_ON_THE_FLY = {"fp8": 1.0, "fbgemm_fp8": 1.0, "ptpc_fp8": 1.0, "experts_int8": 1.0, "bitsandbytes": 0.5 + 4 / 64, "torchao": 1.0, "mxfp4": 0.53125, "mxfp8": 1.03125}


_READ: OrderedDict[int, tuple[dict[str, Any], Arch | None, Quant]] = OrderedDict()
_READ_KEPT = 64


def anatomy(config: dict[str, Any]) -> tuple[Arch | None, Quant]:
    """The anatomy of a config, kept for the configs asked for last: re-planning asks for the same one again."""
    kept = _READ.get(id(config))
    if kept is not None and kept[0] is config:
        return kept[1], kept[2]
    try:
        arch: Arch | None = arch_reader.read_once(config)
    except arch_reader.ConfigError:
        arch = None
    quant = detect(config)
    _READ[id(config)] = (config, arch, quant)
    while len(_READ) > _READ_KEPT:
        _READ.popitem(last=False)
    return arch, quant


def _read(info: ModelInfo, request: FitRequest) -> _Model:
    arch, stored = anatomy(info.config)
    if stored.method is None and info.quantization is not None:
        stored = Quant(info.quantization, info.quant_detail or "", None)
    quant = stored
    if request.quantization and stored.method is None:
        size = _ON_THE_FLY.get(request.quantization)
        quant = Quant(request.quantization, "", size, 8 if size == 1.0 else 4, only_experts=request.quantization == "experts_int8")
    return _Model(arch, quant, stored, _dtype_bytes(info, request), weight_rules.DTYPE_BYTES.get(info.dtype or "", 2.0))


_COMPUTED: OrderedDict[int, tuple[Arch, int]] = OrderedDict()


def _computed_bytes(model: _Model) -> int:
    """What a checkpoint of this model would hold, from the shapes alone."""
    assert model.arch is not None
    kept = _COMPUTED.get(id(model.arch))
    if kept is not None and kept[0] is model.arch:
        return kept[1]
    size = sum(weight_rules.by_kind(model.arch, model.stored, model.stored_bytes).values())
    _COMPUTED[id(model.arch)] = (model.arch, size)
    while len(_COMPUTED) > _READ_KEPT:
        _COMPUTED.popitem(last=False)
    return size


def _scale(info: ModelInfo, model: _Model, notes: list[str]) -> float | None:
    """How the checkpoint's real size compares with the computed one; None when the two do not belong together."""
    if model.arch is None or not info.weight_bytes or info.weight_source == "computed from config":
        return 1.0
    computed = _computed_bytes(model)
    if not computed:
        return None
    ratio = info.weight_bytes / computed
    if 0.75 <= ratio <= 1.35:
        return ratio
    notes.append(_("the size on disk ({disk:.1f} GiB) and the size computed from the shapes ({computed:.1f} GiB) differ: the size on disk is used").format(disk=info.weight_bytes / GIB, computed=computed / GIB))
    return None


def _stage_weights(info: ModelInfo, model: _Model, request: FitRequest, notes: list[str]) -> tuple[list[int], list[Stage]]:
    """(bytes of each pipeline stage, the stages when the anatomy is known)."""
    tp, pp = max(1, request.tensor_parallel_size), max(1, request.pipeline_parallel_size)
    total = info.weight_bytes
    if model.arch is None:
        return ([total // (tp * pp)] * pp if total else []), []
    towers = not (fit_profile.images_off(info, request) and version_key(request.release) >= (0, 15))
    parts = _stages(info, model, request, towers, uses_mtp(info, request))
    ratio = _scale(info, model, notes)
    if ratio is None and total:
        plain = _stages(info, model, request, True, False)
        whole = sum(sum(p.by_kind.values()) for p in plain) or 1
        share = total / whole / tp
        return [int(sum(p.by_kind.values()) * share * tp / tp) + p.fixed for p in plain], plain
    factor = ratio if ratio is not None else 1.0
    return [int(sum(p.by_kind.values()) * factor) + p.fixed for p in parts], parts


_STAGES: OrderedDict[tuple[Any, ...], tuple[Arch, list[Stage]]] = OrderedDict()


def _stages(info: ModelInfo, model: _Model, request: FitRequest, towers: bool, mtp: bool) -> list[Stage]:
    """The sharded weights, kept for the combinations asked for last."""
    assert model.arch is not None
    key = (
        id(model.arch), request.tensor_parallel_size, request.pipeline_parallel_size, request.data_parallel_size, request.expert_parallel, towers, mtp,
        model.dtype_bytes, model.quant.method, model.quant.bytes_per_weight, fit_profile.is_hopper_class(request),
    )  # fmt: skip
    kept = _STAGES.get(key)
    if kept is not None and kept[0] is model.arch:
        return kept[1]
    parts = fit_weights.stages(model.arch, model.quant, model.dtype_bytes, request, towers=towers, mtp=mtp)
    _STAGES[key] = (model.arch, parts)
    while len(_STAGES) > _READ_KEPT:
        _STAGES.popitem(last=False)
    return parts


def uses_mtp(info: ModelInfo, request: FitRequest) -> bool:
    """Whether the model's own prediction layers are loaded as the draft."""
    return bool(info.mtp_layers) and request.num_speculative_tokens > 0 and not request.draft_weight_bytes


# --- fit -----------------------------------------------------------------------------------------------------


_Key = tuple[Any, ...]
_FITTED: OrderedDict[_Key, tuple[ModelInfo, Calibration | None, FitResult]] = OrderedDict()
_FITTED_KEPT = 2048
_PLAIN_FIELDS = tuple(f.name for f in fields(FitRequest) if f.name not in ("limit_mm_per_prompt", "extra"))
_get_plain = attrgetter(*_PLAIN_FIELDS)


def _key(info: ModelInfo, request: FitRequest, calibration: Calibration | None) -> _Key:
    limits = request.limit_mm_per_prompt
    return (id(info), id(calibration), language(), _get_plain(request), None if limits is None else tuple(sorted(limits.items())), tuple(sorted(request.extra.items())))


def fit(info: ModelInfo, request: FitRequest, calibration: Calibration | None = None) -> FitResult:
    """What ``info`` takes on one GPU of ``request`` (the fullest), and whether it fits.

    ``calibration`` are figures solved from this machine's own start-up log; they replace ours. What was computed
    last is kept: re-planning asks for the same again.
    """
    key = _key(info, request, calibration)
    kept = _FITTED.get(key)
    if kept is not None and kept[0] is info and kept[1] is calibration:
        return kept[2]
    result = _fit(info, request, calibration)
    _FITTED[key] = (info, calibration, result)
    while len(_FITTED) > _FITTED_KEPT:
        _FITTED.popitem(last=False)
    return result


def _longest(info: ModelInfo, request: FitRequest, calibration: Calibration | None, limit: int) -> int | None:
    """The longest context that surely fits where the profiling run itself grows with the context."""
    longest = 0
    for top in fit_profile.lengths_of_like_profile(info, limit):
        found = _fit(info, replace(request, max_model_len=top), calibration, profile_follows=False).max_model_len_that_fits
        if found is None:
            return None
        longest = max(longest, min(found, top))
        if found >= top:
            break
    return longest


def _fit(info: ModelInfo, request: FitRequest, calibration: Calibration | None, *, profile_follows: bool = True) -> FitResult:
    """``profile_follows``: look for the longest context with the profiling run of that very context."""
    notes: list[str] = []
    problems: list[str] = []
    model = _read(info, request)
    max_len = request.max_model_len or info.max_model_len
    batch = fit_profile.default_batch(request, max_len)
    certain = info.kv_layout_known and model.arch is not None and bool(info.kv_layers or info.task != "generate")
    if not certain:
        notes.append(_("the cache layout of this architecture is not known: no guess is made, vLLM prints what fits when it starts"))
    weights, parts = _stage_weights(info, model, request, notes)
    weights_known = bool(weights)
    if not weights_known:
        notes.append(_("the size of the weights is not known"))
        certain = False
        weights = [0]
    elif not info.weight_bytes or info.weight_source == ESTIMATED or (model.quant.bytes_per_weight is None and model.quant.method is not None and info.weight_source in ("", "computed from config")):
        notes.append(_("the size of the weights is estimated"))
    if request.draft_model and not request.draft_weight_bytes:
        notes.append(_("the size of the draft model {name} is not known here: it is not counted").format(name=request.draft_model))
        certain = False
    outside, outside_spread, outside_source = fit_profile.non_torch(request, info.is_moe)
    graphs, graphs_spread, graphs_source = fit_profile.cuda_graphs(info, model.quant, request, batch)
    if request.cpu:
        outside = outside_spread = 0
    if calibration is not None:
        if calibration.non_torch_bytes is not None:
            outside = calibration.non_torch_bytes
        outside_spread, outside_source = min(outside_spread, 64 * MIB), _("measured on this machine")
        if calibration.cuda_graph_bytes is not None and graphs:
            graphs, graphs_spread, graphs_source = calibration.cuda_graph_bytes, 64 * MIB, outside_source
    lora = fit_weights.lora_bytes(model.arch, request, model.dtype_bytes) if model.arch is not None else 0
    sides = _sides(info, model, request, batch, weights, parts, outside + graphs + lora + request.draft_weight_bytes, calibration)
    utilization, utilization_reason = _utilization(request)
    budget = int(request.gpu_total_bytes * utilization)
    side = _tightest(sides, budget, lambda stage: _pool(info, model, request, batch, stage, max_len) if certain else None)
    # measured: sizes from the shapes are off by 0.06 % in the mean; padded MXFP4 experts by up to 0.9 %
    share = 0.012 if model.quant.method == "mxfp4" else 0.002 if info.weight_source in ("safetensors headers", "index", "recipe") else 0.004
    if info.weight_source == ESTIMATED:
        share = ESTIMATED_SPREAD
    weights_spread = int(side.weights * share)
    activation_spread = side.spread
    margin = _combine(activation_spread, outside_spread, graphs_spread, weights_spread)
    best = budget - side.used
    fixed = _fixed_pool(request, notes)
    if fixed is not None:
        _check_fixed(request, fixed, side.used, problems)
        best = fixed
    at_best = best + margin > 0 and not _surely_over(request, budget, fixed, side.used - margin)
    if fixed is not None:
        margin = 0
    pool_bytes = Interval(max(0, best), max(0, best - margin), max(0, best + margin))
    if not weights_known and fixed is None:
        pool_bytes = Interval(0, 0, 0)  # what is left beside something of no known size
    pool = _pool(info, model, request, batch, side, max_len) if certain else None
    limit = info.max_model_len or max_len or 1_048_576
    tokens, longest, concurrency, per_token = _cache(pool, pool_bytes, limit, max_len)
    if profile_follows and longest is not None and fit_profile.grows_with_context(info, request):
        longest = _longest(info, request, calibration, max(limit, max_len or 0))
    keeps_cache = pool is not None
    if wide_states(request) and any(state_size(x, request) > state_size(x, replace(request, cpu=False)) for x in info.kv_layers):
        if request.cpu_flags is None:
            notes.append(_("the processor's instructions are not known: the model's states are counted in 32 bit, as vLLM keeps them on newer processors"))
        else:
            notes.append(_("on this processor vLLM keeps the model's states in 32 bit: fewer tokens fit"))
    _check_free(request, utilization, budget, problems, notes, fixed is not None)
    fits_best, fits_low = best > 0 and weights_known and not problems, best - margin > 0 and not problems
    if pool is not None and max_len:
        need = pool.blocks_for(max_len)
        fits_best = fits_best and need <= pool.blocks(pool_bytes.best)
        fits_low = fits_low and need <= pool.blocks(pool_bytes.low)
        at_best = at_best and need <= pool.blocks(pool_bytes.high)
    if info.task == "generate" or keeps_cache:
        # What is not free is of no use to the weights either, however much of the card is asked for.
        room = budget if request.gpu_free_bytes is None else min(budget, request.gpu_free_bytes)
        if fixed is None and weights_known and room - side.used - margin <= 0:
            problems.append(
                _("weights ({weights:.1f} GiB) and what vLLM needs beside them ({rest:.1f} GiB) leave no room for the cache in {budget:.1f} GiB").format(
                    weights=side.weights / GIB, rest=(side.used - side.weights) / GIB, budget=room / GIB
                )
            )
        elif not fits_low and not problems and max_len:
            text = _("a context of {n} tokens does not surely fit: {longest} do")
            if not at_best:
                text = _("a context of {n} tokens does not fit: there is room for {most} at best, and surely for {longest}")
            problems.append(text.format(n=max_len, longest=longest or 0, most=int(tokens.high)))
    if not certain:
        fits_low = False
    if not info.servable:
        fits_low = fits_best = at_best = False
        problems += [issue.message for issue in info.issues if issue.fatal][:3]
    lines = _lines(info, request, batch, side, model, outside, outside_source, graphs, graphs_source, lora, int(pool_bytes.best))
    return FitResult(
        fits=fits_low, fits_best=fits_best, fits_at_best=at_best, certain=certain, utilization=utilization, utilization_reason=utilization_reason, budget_bytes=budget,
        weights_bytes=side.weights, activation_bytes=side.activation, non_torch_bytes=outside, cuda_graph_bytes=graphs, lora_bytes=lora,
        draft_bytes=request.draft_weight_bytes, kv_cache_bytes=pool_bytes, kv_cache_tokens=tokens, kv_bytes_per_token=per_token, max_model_len=max_len,
        max_model_len_that_fits=longest, concurrency=concurrency, lines=lines, notes=tuple(notes), problems=tuple(problems),
        max_num_seqs=batch.seqs, max_num_batched_tokens=batch.tokens, calibrated=calibration is not None,
        weights_known=weights_known,
    )  # fmt: skip


def _combine(*spreads: int) -> int:
    """Independent errors together: the square root of the sum of squares, so that not every worst case is added."""
    return int(sum(float(s) ** 2 for s in spreads) ** 0.5)


def _sides(
    info: ModelInfo, model: _Model, request: FitRequest, batch: Batch, weights: list[int], parts: list[Stage], rest: int, calibration: Calibration | None
) -> list[_Side]:  # fmt: skip
    out = []
    for i, size in enumerate(weights):
        size = max(0, size - request.cpu_offload_bytes)
        profile: Profile | None = None
        activation = 0
        layers = list(info.kv_layers)
        if model.arch is not None:
            first, last = i == 0, i == len(weights) - 1
            profile = fit_profile.profile(info, model.arch, model.quant, request, batch, model.dtype_bytes, first_stage=first, last_stage=last)
            activation = profile.bytes
            if parts and len(parts) > 1:
                part = parts[i]
                layers = [layer for block in model.arch.blocks[part.first_layer : part.first_layer + part.layers] for layer in block.kv]
        elif info.vocab_size and info.hidden_size:
            activation = int(batch.seqs * info.vocab_size * constant("sampler", request.release)["bytes_per_logit"] + 6 * batch.tokens * info.hidden_size * model.dtype_bytes)
        spread = profile.spread_bytes if profile is not None else activation // 3
        size = _measured_weights(size, request, calibration)
        peak, peak_spread = _measured_peak(activation, spread, batch, calibration)
        out.append(_Side(size, profile, peak, peak_spread, size + peak + rest, layers, peak != activation))
    return out


def _tightest(sides: Sequence[_Side], budget: int, pool_of: Callable[[_Side], Pool | None]) -> _Side:
    """The stage that holds the fewest blocks: vLLM gives all of them as many as that one has room for."""
    if len(sides) == 1:
        return sides[0]

    def room(side: _Side) -> tuple[int, int]:
        pool = pool_of(side)
        return (pool.blocks(max(0, budget - side.used)) if pool is not None else 0, -side.used)

    return min(sides, key=room)


def _measured_weights(computed: int, request: FitRequest, calibration: Calibration | None) -> int:
    """The weights as the log printed them, where nothing is set that changes them."""
    if calibration is None or calibration.weights_bytes is None or request.pipeline_parallel_size > 1 or request.cpu_offload_bytes or request.quantization:
        return computed
    ratio = calibration.weights_bytes / computed if computed else 0
    return calibration.weights_bytes if 0.9 < ratio < 1.1 else computed


def _measured_peak(computed: int, spread: int, batch: Batch, calibration: Calibration | None) -> tuple[int, int]:
    """(activation, spread) from the log: as measured for the same step, for another one scaled as our figures go."""
    if calibration is None or calibration.activation_bytes is None:
        return computed, spread
    then = calibration.activation_predicted_bytes
    same = then is None or (calibration.max_num_seqs, calibration.max_num_batched_tokens) == (batch.seqs, batch.tokens)
    if then is None or (same and then == computed):
        return calibration.activation_bytes, min(spread, 64 * MIB)
    return int(computed * calibration.activation_bytes / then), spread


def _fixed_pool(request: FitRequest, notes: list[str]) -> int | None:
    """The pool that the user set, in bytes; None where vLLM takes what is left."""
    if request.kv_cache_memory_bytes is not None:
        return request.kv_cache_memory_bytes
    space = request.extra.get("VLLM_CPU_KVCACHE_SPACE") if request.cpu else None
    if not space:
        return None
    try:
        size = int(float(space) * GIB)
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        notes.append(_("VLLM_CPU_KVCACHE_SPACE is not a number: {value}").format(value=space))
        return None
    return size or None  # 0: vLLM decides


def _check_fixed(request: FitRequest, pool: int, used: int, problems: list[str]) -> None:
    """A pool of a set size must find room beside all the rest in what is really free."""
    room = request.gpu_free_bytes if request.gpu_free_bytes is not None else request.gpu_total_bytes
    if used + pool > room:
        text = _("the cache of {pool:.1f} GiB that is asked for and all beside it ({used:.1f} GiB) need more than the {room:.1f} GiB that are free")
        problems.append(text.format(pool=pool / GIB, used=used / GIB, room=room / GIB))


def _utilization(request: FitRequest) -> tuple[float, str]:
    if request.gpu_memory_utilization is not None:
        return request.gpu_memory_utilization, _("as asked")
    entry = constant("utilization_default", request.release)
    return float(entry["value"]), _("the default of vLLM {release}").format(release=request.release)


def _surely_over(request: FitRequest, budget: int, fixed_pool: int | None, least_used: int) -> bool:
    """Whether more than the measured free memory is asked for, also if all else needs as little as it may."""
    if request.gpu_free_bytes is None:
        return False
    free = request.gpu_free_bytes + (CPU_PROCESS_BYTES if request.cpu else 0)
    return (budget if fixed_pool is None else least_used + fixed_pool) > free


def _check_free(request: FitRequest, utilization: float, budget: int, problems: list[str], notes: list[str], fixed_pool: bool) -> None:
    free = request.gpu_free_bytes
    if free is None and request.wsl and not request.cpu and request.gpu_total_bytes < LARGE_CARD_BYTES:
        free = request.gpu_total_bytes - WINDOWS_SHARE_BYTES
        notes.append(_("free memory was not measured: Windows is taken to hold {held:.1f} GiB of the card").format(held=WINDOWS_SHARE_BYTES / GIB))
    elif free is None:
        notes.append(_("free memory was not measured: the whole card is taken as free"))
        return
    if not fixed_pool and budget > free:
        text = _("utilization {u} asks for {need:.1f} GiB, but only {free:.1f} of {total:.1f} GiB are free: vLLM would not start")
        if request.cpu:
            text = _("utilization {u} asks for {need:.1f} GiB, but beside vLLM's own processes only {free:.1f} of {total:.1f} GiB of RAM are free: vLLM would not start")
        problems.append(text.format(u=share_words(utilization), need=budget / GIB, free=free / GIB, total=request.gpu_total_bytes / GIB))


def _pool(info: ModelInfo, model: _Model, request: FitRequest, batch: Batch, side: _Side, max_len: int | None) -> Pool | None:
    layers = [_without_latent(info, x) for x in info.kv_layers] if version_key(request.release) < LATENT_SINCE else list(info.kv_layers)
    if uses_mtp(info, request) and layers:
        # the prediction layers attend like the model's last full layer
        full = [x for x in layers if x.kind in (LayerKind.FULL, LayerKind.MLA)]
        if full:
            layers.append(KvLayer(**{**full[-1].__dict__, "count": info.mtp_layers}))
    return plan_pool(
        layers, stage_layers=side.layers if request.pipeline_parallel_size > 1 else None, request=request, batch=batch,
        element=element_size(request.kv_cache_dtype, model.stored, model.dtype_bytes, request.release), max_len=max_len,
    )  # fmt: skip


def _without_latent(info: ModelInfo, layer: KvLayer) -> KvLayer:
    """What releases without latent attention keep: K and V of every head, padded to 256."""
    if layer.kind is not LayerKind.MLA:
        return layer
    return replace(layer, kind=LayerKind.FULL, kv_heads=info.num_heads or 1, head_dim=256, latent_dim=0)


def _cache(pool: Pool | None, size: Interval, limit: int, max_len: int | None) -> tuple[Interval, int | None, float | None, int | None]:
    if pool is None:
        return Interval(0, 0, 0), None, None, None
    length = max_len or limit
    tokens = Interval(pool.tokens(size.best, length), pool.tokens(size.low, length), pool.tokens(size.high, length))
    longest = pool.longest(size.low, max(limit, max_len or 0))
    return tokens, longest, pool.concurrency(size.best, length), pool.bytes_per_token


def _outside_words(request: FitRequest) -> str:
    """What lies outside PyTorch, by what it runs on."""
    if request.cpu:
        return _("buffers outside PyTorch")
    if fit_profile.on_amd(request):
        return _("HIP context, kernels and communication buffers")
    return _("CUDA context, kernels and communication buffers")


def _lines(
    info: ModelInfo, request: FitRequest, batch: Batch, side: _Side, model: _Model, outside: int, outside_source: str, graphs: int, graphs_source: str,
    lora: int, pool: int,
) -> tuple[Line, ...]:  # fmt: skip
    profile = side.profile
    tp, pp = request.tensor_parallel_size, request.pipeline_parallel_size
    shared = _(" on each of {n} GPUs").format(n=tp * pp) if tp * pp > 1 else ""
    reason = _("weights{shared}, {source}").format(shared=shared, source=_(info.weight_source) if info.weight_source else _("size not known"))
    peak = _("peak of vLLM's profiling run: {seqs} sequences, {tokens} tokens a step, vocabulary {vocab}").format(seqs=batch.seqs, tokens=batch.tokens, vocab=info.vocab_size or 0)
    lines = [Line("weights", side.weights, reason, info.weight_source)]
    if profile is not None and profile.dominated_by == "vision":
        peak = _("peak of vLLM's profiling run: the image encoder with the largest input")
    if side.measured:
        peak = clauses((peak, _("measured on this machine")))
    lines.append(Line("activation", side.activation, peak, profile.source if profile is not None else ""))
    lines.append(Line("non_torch", outside, _outside_words(request), outside_source))
    if fit_profile.on_amd(request):
        lines.append(Line("cuda_graph", graphs, _("HIP graphs (vLLM's log calls them CUDA graphs), estimated by vLLM and taken from the pool"), graphs_source, N_("HIP graphs")))
    else:
        lines.append(Line("cuda_graph", graphs, _("CUDA graphs, estimated by vLLM and taken from the pool"), graphs_source))
    lines.append(Line("lora", lora, _("{n} LoRA slots of rank {rank}").format(n=request.lora_slots, rank=request.max_lora_rank)))
    lines.append(Line("draft", request.draft_weight_bytes, _("the draft model")))
    lines.append(Line("kv_cache", pool, _("what is left for the KV cache")))
    if request.gpu_free_bytes is not None:
        held = max(0, request.gpu_total_bytes - request.gpu_free_bytes)
        own = min(held, CPU_PROCESS_BYTES) if request.cpu else 0
        lines.append(Line("processes", own, _("RAM that vLLM's own processes take before any weight is loaded")))
        lines.append(Line("held_by_others", held - own, _("held by the desktop and other programs")))
    return tuple(line for line in lines if line.bytes > 0)


