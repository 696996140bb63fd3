"""Choosing flags so that a model fits, and what to do when it does not: each way out is computed, not guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from wizard import fit_profile
from wizard.fit_constants import GIB, MIB, constant
from wizard.fit_core import anatomy, fit
from wizard.fit_types import Calibration, FitRequest, FitResult, WayOut
from wizard.i18n import _
from wizard.models.arch import VOCAB_PADDING, integer, vision_config
from wizard.models.info import ModelInfo


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
    """What :func:`choose` settles on: the model (a variant, perhaps), the request, the result, and why each flag."""

    request: FitRequest
    result: FitResult
    picks: tuple[Pick, ...]
    info: ModelInfo | None = None

    def value(self, key: str) -> str | None:
        return next((p.value for p in self.picks if p.key == key), None)


# vLLM reads free memory after its CUDA context is made, and what a desktop holds moves
CONTEXT_BYTES = 400 * MIB
DESKTOP_SWING_BYTES = 200 * MIB
COMFORTABLE_LENGTH = 32_768
LEAST_LENGTH = 2_048
LENGTHS = (1_048_576, 524_288, 262_144, 131_072, 98_304, 65_536, 49_152, 40_960, 32_768, 24_576, 16_384, 12_288, 8_192, 6_144, 4_096, 2_048, 1_024)


# --- single choices ------------------------------------------------------------------------------------------


def choose_utilization(total: int, free: int | None, default: float, *, wsl: bool = False) -> tuple[float, str]:
    """The share of total memory to ask for: the release's default, or less when others hold some of the card."""
    if free is None:
        return default, _("the default: free memory was not measured")
    room = free - CONTEXT_BYTES - (DESKTOP_SWING_BYTES if wsl else 0)
    if total * default <= room:
        return default, _("the default: {free:.1f} of {total:.1f} GiB are free").format(free=free / GIB, total=total / GIB)
    share = max(0.0, int(room / total * 100) / 100)
    held = (total - free) / GIB
    if wsl:
        return share, _("{share:.2f}: the Windows desktop and its programs hold {held:.1f} GiB").format(share=share, held=held)
    return share, _("{share:.2f}: other programs hold {held:.1f} GiB").format(share=share, held=held)


def tp_problem(info: ModelInfo, size: int) -> str | None:
    """Why this model cannot be split over ``size`` GPUs by tensor parallelism; None when it can."""
    if size <= 1:
        return None
    heads, kv = info.num_heads or 0, info.num_kv_heads or 0
    if heads and heads % size:
        return _("{heads} attention heads cannot be divided by {n}").format(heads=heads, n=size)
    mla = any(layer.latent_dim for layer in info.kv_layers)
    if kv and not mla and ((kv >= size and kv % size) or (kv < size and size % kv)):
        return _("{kv} KV heads and {n} GPUs do not divide each other").format(kv=kv, n=size)
    vocab = info.vocab_size or 0
    if vocab and (-(-vocab // VOCAB_PADDING) * VOCAB_PADDING) % size:
        return _("the padded vocabulary cannot be divided by {n}").format(n=size)
    arch, quant = anatomy(info.config)
    if arch is None:
        return None
    linear = integer(info.config.get("text_config") or info.config, "linear_num_key_heads") if isinstance(info.config.get("text_config") or info.config, dict) else None
    if linear and linear % size:
        return _("{heads} linear-attention heads cannot be divided by {n}").format(heads=linear, n=size)
    block = (quant.group_size or 0) if quant.method in _STRICT_BLOCKS else 0
    for inner, what in ((arch.inter if not arch.experts else 0, _("MLP")), (arch.moe_inter, _("expert"))):
        if inner and inner % size:
            return _("the {what}'s inner size {inner} cannot be divided by {n}").format(what=what, inner=inner, n=size)
        if inner and block > 1 and (inner // size) % block:
            return _("the {what}'s inner size {inner} over {n} GPUs is no multiple of the quantization block {block}").format(what=what, inner=inner, n=size, block=block)
    tower = integer(vision_config(info.config), "num_heads", "num_attention_heads")
    if tower and tower % size:
        return _("the vision tower's {heads} heads cannot be divided by {n}").format(heads=tower, n=size)
    return None


# methods whose kernels take only whole quantization blocks; the others pad
_STRICT_BLOCKS = frozenset(("fp8", "awq", "gptq", "auto-round", "compressed-tensors"))


def valid_tp(info: ModelInfo, gpus: int) -> list[int]:
    """Tensor parallel sizes from 1 up to ``gpus`` that this model can be split by."""
    return [n for n in range(1, max(1, gpus) + 1) if tp_problem(info, n) is None] or [1]


def fp8_cache_works(request: FitRequest) -> bool:
    """Whether an 8 bit KV cache is sensible on this GPU: native from compute capability 8.9."""
    cc = fit_profile.compute_capability(request)
    return not request.cpu and cc is not None and cc >= 8.9


# --- ways out ------------------------------------------------------------------------------------------------


class _AtSomeLength(Protocol):
    """The result and length of a changed request (and model), at the asked length or the longest round one."""

    def __call__(self, changed: FitRequest, model: ModelInfo = ...) -> tuple[FitResult, int] | None: ...


def ways_out(
    info: ModelInfo, request: FitRequest, *, variants: Sequence[ModelInfo] = (), most: int = 3, calibration: Calibration | None = None, gpus: int | None = None
) -> tuple[WayOut, ...]:  # fmt: skip
    """The nearest changes that make it fit, each computed, nearest first.

    ``variants`` are other checkpoints of the same model (smaller quantizations). ``gpus`` is how many GPUs there
    are (default: the request's).
    """
    found: list[tuple[float, WayOut]] = []
    result = fit(info, request, calibration)
    if not result.certain and not info.kv_layout_known:
        return ()
    for distance, way in _candidates(info, request, result, variants, gpus or request.gpus, calibration):
        found.append((distance, way))
    found.sort(key=lambda pair: pair[0])
    kinds: set[str] = set()
    out = []
    for _distance, way in found:
        if way.kind not in kinds:
            kinds.add(way.kind)
            out.append(way)
    return tuple(out[:most])


def _candidates(
    info: ModelInfo, request: FitRequest, result: FitResult, variants: Sequence[ModelInfo], gpus: int, calibration: Calibration | None
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    def works(changed: FitRequest, model: ModelInfo = info) -> FitResult | None:
        tried = fit(model, changed, calibration)
        return tried if tried.fits else None

    def at_some_length(changed: FitRequest, model: ModelInfo = info) -> tuple[FitResult, int] | None:
        """The result at the asked length, or else at the longest round one that fits and is of use."""
        tried = works(changed, model)
        asked = changed.max_model_len or model.max_model_len or COMFORTABLE_LENGTH
        if tried is not None:
            return tried, asked
        longest = fit(model, changed, calibration).max_model_len_that_fits or 0
        length = next((n for n in LENGTHS if n <= longest), 0)
        if length < min(LEAST_LENGTH, asked):
            return None
        tried = works(replace(changed, max_model_len=length), model)
        return (tried, length) if tried is not None else None

    asked = request.max_model_len or info.max_model_len or 0
    free = request.gpu_free_bytes
    base: dict[str, str] = {}
    if free is not None and result.budget_bytes > free and request.kv_cache_memory_bytes is None:
        share, _why = choose_utilization(request.gpu_total_bytes, free, result.utilization, wsl=request.wsl)
        base = {"gpu_memory_utilization": f"{share:.2f}"}
        request = replace(request, gpu_memory_utilization=share)
        hit = at_some_length(request)
        if hit is not None:
            yield 0.5, _with_length("utilization", _("utilization {share:.2f}, what is really free").format(share=share), base, hit[1], asked)
        result = fit(info, request, calibration)
    for distance, way in _changes(info, request, result, variants, gpus, works, at_some_length, asked, calibration):
        yield distance, replace(way, changes={**base, **way.changes})


def _changes(
    info: ModelInfo, request: FitRequest, result: FitResult, variants: Sequence[ModelInfo], gpus: int, works: Callable[[FitRequest], FitResult | None],
    at_some_length: _AtSomeLength, asked: int, calibration: Calibration | None,
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    longest = result.max_model_len_that_fits or 0
    length = next((n for n in LENGTHS if n <= longest), 0)
    if asked and LEAST_LENGTH <= length < asked and works(replace(request, max_model_len=length)):
        distance = 1.0 if length * 2 >= asked or length >= COMFORTABLE_LENGTH else 3.0
        yield distance, WayOut("shorter", _("a context of {n} tokens instead of {asked}").format(n=length, asked=asked), {"max_model_len": str(length)})
    if "image" in info.modalities and not fit_profile.images_off(request):
        hit = at_some_length(replace(request, limit_mm_per_prompt=dict.fromkeys(("image", "video", "audio"), 0)))
        if hit is not None:
            limits = {k: 0 for k in info.modalities if k != "text"}
            text = '{"' + '": 0, "'.join(limits) + '": 0}'
            yield 2.0, _with_length("text_only", _("text only, without images and video"), {"limit_mm_per_prompt": text}, hit[1], asked)
    seqs = result.max_num_seqs or 0
    for fewer in (64, 16, 4):
        if fewer >= seqs:
            continue
        hit = at_some_length(replace(request, max_num_seqs=fewer))
        if hit is not None and hit[1] > length:
            yield 1.5, _with_length("fewer_requests", _("at most {n} requests at once instead of {seqs}").format(n=fewer, seqs=seqs), {"max_num_seqs": str(fewer)}, hit[1], asked)
            break
    if request.kv_cache_dtype == "auto" and info.kv_layers and fp8_cache_works(request):
        hit = at_some_length(replace(request, kv_cache_dtype="fp8"))
        if hit is not None and hit[1] > length:
            yield 2.0, _with_length("kv_dtype", _("an 8 bit KV cache: half the size at a small loss of accuracy"), {"kv_cache_dtype": "fp8"}, hit[1], asked)
    for variant in variants:
        if variant.weight_bytes and info.weight_bytes and variant.weight_bytes >= info.weight_bytes * 0.95:
            continue
        hit = at_some_length(request, variant)
        if hit is not None:
            size = (variant.weight_bytes or 0) / GIB
            name = variant.repo_id or variant.source
            text = _("the smaller variant {name} ({size:.1f} GiB, {quant})").format(name=name, size=size, quant=variant.quant_detail or variant.quantization or _("unquantized"))
            yield 2.5 + size / 1000, _with_length("variant", text, {"model": name}, hit[1], asked)
    if info.quantization is None and not request.quantization and not request.cpu and info.kv_layers:
        four = four_bit_variant(info)
        hit = at_some_length(request, four) if four is not None else None
        if hit is not None and four is not None:
            text = _("a 4 bit variant of this model (AWQ or GPTQ, about {size:.1f} GiB)").format(size=(four.weight_bytes or 0) / GIB)
            yield 2.8, _with_length("variant", text, {}, hit[1], asked)
    cc = fit_profile.compute_capability(request)
    if info.quantization is None and not request.quantization and not request.cpu and cc is not None and cc >= 8.0 and info.weight_source != "":
        hit = at_some_length(replace(request, quantization="fp8"))
        if hit is not None:
            yield 3.0, _with_length("quantize", _("weights quantized to 8 bit while loading"), {"quantization": "fp8"}, hit[1], asked)
    if not request.enforce_eager and result.cuda_graph_bytes:
        hit = at_some_length(replace(request, enforce_eager=True))
        if hit is not None and hit[1] > length:
            yield 3.5, _with_length("eager", _("without CUDA graphs (slower)"), {"enforce_eager": "true"}, hit[1], asked)
    yield from _more_gpus(info, request, gpus, at_some_length, asked)
    if not request.cpu and not request.cpu_offload_bytes:
        for gib in (2, 4, 8, 12, 16, 24, 32):
            if gib * GIB >= (info.weight_bytes or 0):
                break
            hit = at_some_length(replace(request, cpu_offload_bytes=gib * GIB))
            if hit is not None:
                yield 9.0, _with_length("offload", _("{gib} GiB of the weights kept in RAM: every step waits for the bus, the last resort").format(gib=gib), {"cpu_offload_gb": str(gib)}, hit[1], asked)
                break


def four_bit_variant(info: ModelInfo) -> ModelInfo | None:
    """What a 4 bit checkpoint of this model would be, computed from its shapes; None when they are not known."""
    from wizard.models.inspect import from_config

    if not info.config or not info.kv_layout_known:
        return None
    config = {**info.config, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}
    return from_config(config, source=info.source, repo_id=info.repo_id)


def _more_gpus(
    info: ModelInfo, request: FitRequest, gpus: int, at_some_length: Callable[[FitRequest], tuple[FitResult, int] | None], asked: int
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    current = max(1, request.tensor_parallel_size)
    for size in (n for n in (2, 3, 4, 6, 8) if n > current and tp_problem(info, n) is None):
        hit = at_some_length(replace(request, tensor_parallel_size=size, gpus=max(gpus, size)))
        if hit is None:
            continue
        if size <= gpus:
            yield 1.2, _with_length("more_gpus", _("split over {n} GPUs").format(n=size), {"tensor_parallel_size": str(size)}, hit[1], asked)
        else:
            yield 4.0, _with_length("more_gpus", _("{n} such GPUs instead of {have}").format(n=size, have=max(gpus, current)), {"tensor_parallel_size": str(size)}, hit[1], asked)
        return


def _with_length(kind: str, text: str, changes: dict[str, str], length: int, asked: int) -> WayOut:
    if asked and length < asked:
        text += _(", with a context of {n} tokens").format(n=length)
        changes = {**changes, "max_model_len": str(length)}
    return WayOut(kind, text, changes)


# --- all together --------------------------------------------------------------------------------------------


def choose(
    info: ModelInfo,
    gpus: Sequence[GpuMemory],
    release: str,
    *,
    base: FitRequest | None = None,
    want_length: int | None = None,
    wsl: bool = False,
    nvlink: bool | None = None,
    variants: Sequence[ModelInfo] = (),
    calibration: Calibration | None = None,
) -> Choice:
    """Variant, parallel sizes, utilization, context length, requests at once and KV type for these GPUs.

    ``base`` carries what the user fixed (its None fields are free to choose). When nothing fits, the result holds
    the three nearest ways out.
    """
    smallest = min(gpus, key=lambda g: g.free_bytes if g.free_bytes is not None else g.total_bytes)
    start = base or FitRequest(release, smallest.total_bytes)
    default = float(constant("utilization_default", release)["value"])
    utilization, why = choose_utilization(smallest.total_bytes, smallest.free_bytes, default, wsl=wsl)
    if start.gpu_memory_utilization is not None:
        utilization, why = start.gpu_memory_utilization, _("as asked")
    start = replace(
        start, release=release, gpu_total_bytes=smallest.total_bytes, gpu_free_bytes=smallest.free_bytes, gpu_name=smallest.name, gpus=len(gpus),
        compute_capability=smallest.compute_capability, gpu_memory_utilization=utilization, wsl=wsl, nvlink=nvlink,
    )  # fmt: skip
    picks = [Pick("gpu_memory_utilization", f"{utilization:.2f}", why)]
    candidates = [info, *sorted(variants, key=lambda v: -(v.weight_bytes or 0))]
    chosen, request, result = _first_that_fits(candidates, start, want_length, len(gpus), calibration)
    if chosen is not info:
        picks.append(Pick("model", chosen.repo_id or chosen.source, _("{name} does not fit; this variant ({quant}) does").format(name=info.repo_id or info.source, quant=chosen.quant_detail or chosen.quantization or "")))
    picks += _parallel_picks(chosen, request, wsl)
    length, reason = _length(chosen, request, result, want_length)
    if length is not None:
        picks.append(Pick("max_model_len", str(length), reason))
        request = replace(request, max_model_len=length)
        result = fit(chosen, request, calibration)
    if not result.fits and request.kv_cache_dtype == "auto" and fp8_cache_works(request):
        halved = fit(chosen, replace(request, kv_cache_dtype="fp8"), calibration)
        if halved.fits:
            request, result = replace(request, kv_cache_dtype="fp8"), halved
            picks.append(Pick("kv_cache_dtype", "fp8", _("half the size: with the model's own type the context does not fit")))
    if start.max_num_seqs is None and result.concurrency is not None and result.fits:
        room = max(1, int(result.concurrency))
        if room < (result.max_num_seqs or 256):
            seqs = max(4, min(256, 4 * room))
            picks.append(Pick("max_num_seqs", str(seqs), _("the cache holds {room} requests of full length; shorter ones share it").format(room=room)))
            request = replace(request, max_num_seqs=seqs)
            result = fit(chosen, request, calibration)
    if not result.fits:
        result = replace(result, ways_out=ways_out(chosen, request, variants=variants, calibration=calibration, gpus=len(gpus)))
    return Choice(request, result, tuple(picks), chosen)


def _first_that_fits(
    candidates: Sequence[ModelInfo], start: FitRequest, want_length: int | None, gpus: int, calibration: Calibration | None
) -> tuple[ModelInfo, FitRequest, FitResult]:  # fmt: skip
    """The first candidate, on the fewest GPUs, that holds a comfortable context; else the one that holds most."""
    best: tuple[int, ModelInfo, FitRequest, FitResult] | None = None
    for model in candidates:
        wanted = start.max_model_len or want_length
        enough = min(x for x in (wanted, model.max_model_len, COMFORTABLE_LENGTH) if x)
        sizes = [start.tensor_parallel_size] if start.tensor_parallel_size > 1 else valid_tp(model, gpus)
        for size in sizes:
            request = replace(start, tensor_parallel_size=size)
            result = fit(model, replace(request, max_model_len=wanted or model.max_model_len), calibration)
            longest = result.max_model_len_that_fits if result.max_model_len_that_fits is not None else (enough if result.fits else 0)
            if longest >= enough and result.certain:
                return model, request, result
            if best is None or longest > best[0]:
                best = (longest, model, request, result)
    assert best is not None
    return best[1], best[2], best[3]


def _parallel_picks(info: ModelInfo, request: FitRequest, wsl: bool) -> list[Pick]:
    size = request.tensor_parallel_size
    if size <= 1:
        return []
    reason = _("the model does not fit one GPU with room for a useful context; {heads} heads divide by {n}").format(heads=info.num_heads or 0, n=size)
    picks = [Pick("tensor_parallel_size", str(size), reason)]
    if wsl:
        picks.append(Pick("disable_custom_all_reduce", "true", _("WSL has no direct memory access between GPUs")))
    return picks


def _length(info: ModelInfo, request: FitRequest, result: FitResult, want_length: int | None) -> tuple[int | None, str]:
    if request.max_model_len is not None:
        return request.max_model_len, _("as asked")
    longest = result.max_model_len_that_fits or 0
    if want_length is not None and longest >= want_length:
        return want_length, _("enough for this purpose")
    ceiling = info.max_model_len or 0
    if ceiling and longest >= ceiling:
        return ceiling, _("the model's whole context fits")
    length = next((n for n in LENGTHS if n <= longest), None)
    if length is None:
        return (want_length or ceiling or None), _("nothing useful fits")
    return length, _("the longest round length that surely fits ({n} tokens do)").format(n=longest)
