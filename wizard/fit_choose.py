"""Choosing flags so that a model fits, and what to do when it does not: each way out is computed, not guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from wizard import fit_profile
from wizard.fit_constants import GIB, MIB, constant, version_key
from wizard.fit_core import fit
from wizard.fit_layout import (
    ALL_OPTIONS,
    COMFORTABLE_LENGTH,
    DATA,
    EXPERTS,
    OFFLOAD,
    PIPELINE,
    Aim,
    Layout,
    choose_layout,
    layout_of,
    takes_experts,
    takes_pipeline,
    tp_problem,
)
from wizard.fit_store import Calibrations
from wizard.fit_types import CPU_PROCESS_BYTES, Calibration, FitRequest, FitResult, WayOut, share_words
from wizard.i18n import _, clauses, ngettext
from wizard.models.info import ModelInfo
from wizard.models.words import quant_words


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


# What was measured for a request and a model.
Measured = Callable[[FitRequest, ModelInfo], Calibration | None]

# vLLM reads free memory after its CUDA context is made, and what a desktop holds moves
CONTEXT_BYTES = 400 * MIB
DESKTOP_SWING_BYTES = 200 * MIB
LEAST_LENGTH = 2_048  # below this a server is of no use
LEAST_OF_OWN_TYPE = 4_096  # with less than this in the model's own type the cache is halved
OFFLOADS_GIB = (2, 4, 8, 12, 16, 24, 32)
MOST_OFFLOADED = 0.4  # of the weights: beyond it nobody waits for an answer
OFFLOAD_ON_WSL_SINCE = (0, 30)  # before, offloading needs pinned memory, which vLLM turns off on WSL
MOST_AT_ONCE = 256  # requests; vLLM may take more, which then mostly slow each other down
FEWER = (128, 64, 32, 16, 8, 4, 2, 1)


# --- single choices ------------------------------------------------------------------------------------------


def choose_utilization(total: int, free: int | None, default: float, *, wsl: bool = False, cpu: bool = False) -> tuple[float, str]:
    """The share of total memory to ask for: the release's default, or less when others hold some of the card."""
    if free is None:
        return default, _("the default: free memory was not measured")
    room = free - CONTEXT_BYTES - (DESKTOP_SWING_BYTES if wsl else 0)
    if total * default <= room:
        return default, _("the default: {free:.1f} of {total:.1f} GiB are free").format(free=free / GIB, total=total / GIB)
    share = max(0.0, int(room / total * 100) / 100)
    held = (total - free) / GIB
    if cpu:
        own = CPU_PROCESS_BYTES / GIB
        return share, _("{share:.2f}: other programs hold {held:.1f} GiB of RAM, and vLLM's own processes take {own:.1f}").format(share=share, held=max(0.0, held - own), own=own)
    if wsl:
        return share, _("{share:.2f}: the Windows desktop and its programs hold {held:.1f} GiB").format(share=share, held=held)
    return share, _("{share:.2f}: other programs hold {held:.1f} GiB").format(share=share, held=held)


def fp8_cache_works(request: FitRequest) -> bool:
    """Whether an 8 bit KV cache is sensible on this GPU: native from compute capability 8.9."""
    cc = fit_profile.compute_capability(request)
    return not request.cpu and cc is not None and cc >= 8.9


def offload_works(request: FitRequest) -> bool:
    """Whether this release keeps weights in RAM on this system at all."""
    return not request.wsl or version_key(request.release) >= OFFLOAD_ON_WSL_SINCE


# --- ways out ------------------------------------------------------------------------------------------------


class _AtSomeLength(Protocol):
    """The result and length of a changed request (and model), at the asked length or the longest round one."""

    def __call__(self, changed: FitRequest, model: ModelInfo = ...) -> tuple[FitResult, int] | None: ...


def ways_out(
    info: ModelInfo, request: FitRequest, *, variants: Sequence[ModelInfo] = (), most: int = 3, calibration: Calibration | Calibrations | None = None,
    gpus: int | None = None, ram_free_bytes: int | None = None,
) -> tuple[WayOut, ...]:  # fmt: skip
    """The nearest changes that make it fit, each computed, nearest first.

    ``variants`` are other checkpoints of the same model (smaller quantizations). ``gpus`` is how many GPUs there
    are (default: the request's). ``ram_free_bytes`` bounds what may be kept in RAM, where it is known.
    """
    found: list[tuple[float, WayOut]] = []
    measured = measured_by(calibration)
    result = fit(info, request, measured(request, info))
    if not result.certain and not info.kv_layout_known:
        return tuple(_by_weights(info, request, result, variants))[:most]
    for distance, way in _candidates(info, request, result, variants, gpus or request.gpus, measured, ram_free_bytes):
        found.append((distance, way))
    found.sort(key=lambda pair: pair[0])
    kinds: set[str] = set()
    out = []
    for _distance, way in found:
        if way.kind not in kinds:
            kinds.add(way.kind)
            out.append(way)
    # The answer to "so many tokens fit" is to take so many: it is never cut off.
    shorter = next((way for way in out[most:] if way.kind == "shorter"), None)
    if shorter is not None:
        out = [*out[: most - 1], shorter]
    return tuple(out[:most]) or tuple(_by_weights(info, request, result, variants))[:most]


def _by_weights(info: ModelInfo, request: FitRequest, result: FitResult, variants: Sequence[ModelInfo]) -> Iterator[WayOut]:
    """What the weights alone rule out, where nothing near helps or the cache's layout is not known: lower bounds only."""
    on_each = layout_of(request).gpus
    room = result.budget_bytes - (result.activation_bytes + result.non_torch_bytes + result.cuda_graph_bytes)
    if request.cpu or not info.weight_bytes or room <= 0 or result.weights_bytes <= room:
        return
    for variant in sorted(variants, key=lambda v: -(v.weight_bytes or 0)):
        if variant.weight_bytes and variant.weight_bytes / on_each < room:
            name, size = variant.repo_id or variant.source, variant.weight_bytes / GIB
            words = _("the smaller variant {name}: its weights ({size:.1f} GiB) have room; for its cache, vLLM prints what fits")
            yield WayOut("variant", words.format(name=name, size=size), {"model": name})
            break
    count = -(-info.weight_bytes // room)
    words = ngettext(
        "at least {n} such GPU: the weights alone ({size:.0f} GiB) fill it",
        "at least {n} such GPUs: so many the weights alone ({size:.0f} GiB) fill",
        int(count),
    )
    yield WayOut("more_gpus", words.format(n=count, size=info.weight_bytes / GIB))


def _candidates(
    info: ModelInfo, request: FitRequest, result: FitResult, variants: Sequence[ModelInfo], gpus: int, measured: Measured, ram_free_bytes: int | None
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    def works(changed: FitRequest, model: ModelInfo = info) -> FitResult | None:
        tried = fit(model, changed, measured(changed, model))
        return tried if tried.fits else None

    def at_some_length(changed: FitRequest, model: ModelInfo = info) -> tuple[FitResult, int] | None:
        """The result at the asked length, or else at the longest round one that fits and is of use."""
        tried = works(changed, model)
        asked = changed.max_model_len or model.max_model_len or COMFORTABLE_LENGTH
        if tried is not None:
            return tried, asked
        longest = fit(model, changed, measured(changed, model)).max_model_len_that_fits or 0
        length = round_length(longest)
        if length < min(LEAST_LENGTH, asked):
            return None
        tried = works(replace(changed, max_model_len=length), model)
        return (tried, length) if tried is not None else None

    asked = request.max_model_len or info.max_model_len or 0
    free = request.gpu_free_bytes
    base: dict[str, str] = {}
    usual = choose_utilization(request.gpu_total_bytes, free, float(constant("utilization_default", request.release)["value"]), wsl=request.wsl)[0]
    if free is not None and request.gpu_memory_utilization is not None and not request.cpu and request.kv_cache_memory_bytes is None and usual > result.utilization + 0.02:
        # A smaller share than there is room for was asked for, maybe by a command that somebody pasted.
        hit = at_some_length(replace(request, gpu_memory_utilization=usual))
        if hit is not None:
            text = _("utilization {share:.2f} instead of {asked}").format(share=usual, asked=share_words(result.utilization))
            yield 0.4, _with_length("utilization", text, {"gpu_memory_utilization": f"{usual:.2f}"}, hit[1], asked)
    if free is not None and result.budget_bytes > free and request.kv_cache_memory_bytes is None:
        share, _why = choose_utilization(request.gpu_total_bytes, free, result.utilization, wsl=request.wsl)
        base = {"gpu_memory_utilization": f"{share:.2f}"}
        request = replace(request, gpu_memory_utilization=share)
        hit = at_some_length(request)
        if hit is not None:
            yield 0.5, _with_length("utilization", _("utilization {share:.2f}, what is really free").format(share=share), base, hit[1], asked)
        result = fit(info, request, measured(request, info))
    for distance, way in _changes(info, request, result, variants, gpus, works, at_some_length, asked, ram_free_bytes):
        text = _("{way}, at utilization {share}").format(way=way.text, share=base["gpu_memory_utilization"]) if base else way.text
        yield distance, replace(way, text=text, changes={**base, **way.changes})


def _changes(
    info: ModelInfo, request: FitRequest, result: FitResult, variants: Sequence[ModelInfo], gpus: int, works: Callable[[FitRequest], FitResult | None],
    at_some_length: _AtSomeLength, asked: int, ram_free_bytes: int | None,
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    longest = result.max_model_len_that_fits or 0
    length = round_length(longest)
    if asked and LEAST_LENGTH <= length < asked and works(replace(request, max_model_len=length)):
        distance = 1.0 if length * 2 >= asked or length >= COMFORTABLE_LENGTH else 3.0
        yield distance, WayOut("shorter", _("a context of {n} tokens instead of {asked}").format(n=length, asked=asked), {"max_model_len": str(length)})
    if fit_profile.video_allowed(info, request) and not fit_profile.images_off(info, request):
        limits = {**(request.limit_mm_per_prompt or {}), "video": 0}
        hit = at_some_length(replace(request, limit_mm_per_prompt=limits))
        if hit is not None and hit[1] > length:
            yield 1.4, _with_length("no_video", _("no video, only images"), {"limit_mm_per_prompt": json.dumps(limits)}, hit[1], asked)
    if "image" in info.modalities and not fit_profile.images_off(info, request):
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
        if hit is None and variant.is_local:
            yield from _with_a_part_in_ram(request, variant, at_some_length, asked, ram_free_bytes)
        if hit is not None:
            size = (variant.weight_bytes or 0) / GIB
            if variant.is_local:
                # Nothing has to be downloaded: before all that costs quality or time, the largest of them first.
                text = _("{name}, which lies on this machine ({size:.1f} GiB, {quant})").format(
                    name=variant.source, size=size, quant=quant_words(variant.quant_detail or variant.quantization or _("unquantized"))
                )
                yield 0.9 - size / 1e5, _with_length("variant_here", text, {"model": variant.source}, hit[1], asked)
                continue
            name = variant.repo_id or variant.source
            words = {"name": name, "size": size, "quant": quant_words(variant.quant_detail or variant.quantization or _("unquantized"))}
            # The one that gives up least comes first.
            lost = 1 - (variant.weight_bytes or 0) / info.weight_bytes if info.weight_bytes else 1.0
            if _same_model(info, variant):
                yield 2.5 + 0.2 * lost, _with_length("variant", _("the smaller variant {name} ({size:.1f} GiB, {quant})").format(**words), {"model": name}, hit[1], asked)
            else:
                text = _("another model of the family, {name} ({size:.1f} GiB, {quant})").format(**words)
                yield 2.9 + 0.2 * lost, _with_length("other_model", text, {"model": name}, hit[1], asked)
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
            yield 3.5, _with_length("eager", _("without HIP graphs (slower)") if fit_profile.on_amd(request) else _("without CUDA graphs (slower)"), {"enforce_eager": "true"}, hit[1], asked)
    yield from _more_gpus(info, request, gpus, at_some_length, asked)
    if not request.cpu and not request.cpu_offload_bytes and offload_works(request):
        on_each = layout_of(request).gpus
        for gib in OFFLOADS_GIB:
            if gib * GIB >= (info.weight_bytes or 0) or (ram_free_bytes is not None and gib * GIB * on_each > ram_free_bytes):
                break
            hit = at_some_length(replace(request, cpu_offload_bytes=gib * GIB))
            if hit is not None:
                yield 9.0, _with_length("offload", _("{gib} GiB of the weights kept in RAM, the last resort: answers come much slower").format(gib=gib), {"cpu_offload_gb": str(gib)}, hit[1], asked)
                break


def _same_model(a: ModelInfo, b: ModelInfo) -> bool:
    """Whether two checkpoints have the same shapes: then they differ in their numbers' types only."""
    return (a.architecture, a.num_layers, a.hidden_size, a.num_experts) == (b.architecture, b.num_layers, b.hidden_size, b.num_experts)


def _with_a_part_in_ram(
    request: FitRequest, variant: ModelInfo, at_some_length: _AtSomeLength, asked: int, ram_free_bytes: int | None
) -> Iterator[tuple[float, WayOut]]:  # fmt: skip
    """A checkpoint that lies on this machine and fits as a plan would serve it: with a small part of it in RAM."""
    if request.cpu or request.cpu_offload_bytes or not ram_free_bytes or not offload_works(request):
        return
    on_each = layout_of(request).gpus
    for gib in OFFLOADS_GIB:
        if gib * GIB * on_each > min(ram_free_bytes * 0.8, (variant.weight_bytes or 0) * MOST_OFFLOADED):
            return
        hit = at_some_length(replace(request, cpu_offload_bytes=gib * GIB), variant)
        if hit is None:
            continue
        text = _("{name}, which lies on this machine ({size:.1f} GiB, {quant}), with {gib} GiB of it kept in RAM: answers come much slower").format(
            name=variant.source, size=(variant.weight_bytes or 0) / GIB, gib=gib,
            quant=quant_words(variant.quant_detail or variant.quantization or _("unquantized")),
        )  # fmt: skip
        # Before a model of another size is loaded down, and before more GPUs are bought.
        yield 2.4, _with_length("variant_offload", text, {"model": variant.source, "cpu_offload_gb": str(gib)}, hit[1], asked)
        return


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
    """The fewest more GPUs that hold it: split by tensor parallelism, else by layers."""
    now = layout_of(request)
    for count in (n for n in (2, 3, 4, 6, 8, 16) if n > now.gpus and not request.cpu):
        layout = Layout(tp=count)
        if tp_problem(info, count) is not None:
            layout = Layout(tp=count, ep=True) if _whole_experts(info, request, count) else Layout(pp=count)
            if layout.pp > 1 and (count > max(4, gpus) or not takes_pipeline(info, count, request.release)):
                continue
        hit = at_some_length(replace(layout.of(request), gpus=max(gpus, count)))
        if hit is None:
            continue
        changes = {PIPELINE: str(count)} if layout.pp > 1 else {"tensor_parallel_size": str(count)}
        if layout.ep:
            changes[EXPERTS] = "true"
        near, text = (1.2, _("split over {n} GPUs")) if count <= gpus else (4.0, _("{n} such GPUs instead of {have}"))
        yield near, _with_length("more_gpus", text.format(n=count, have=max(gpus, now.gpus)), changes, hit[1], asked)
        return


def _whole_experts(info: ModelInfo, request: FitRequest, count: int) -> bool:
    return takes_experts(info, request, count) and tp_problem(info, count, expert_parallel=True) is None


def _with_length(kind: str, text: str, changes: dict[str, str], length: int, asked: int) -> WayOut:
    if asked and length < asked:
        text += _(", with a context of {n} tokens").format(n=length)
        changes = {**changes, "max_model_len": str(length)}
    return WayOut(kind, text, changes)


# --- all together --------------------------------------------------------------------------------------------

def _nothing(request: FitRequest, info: ModelInfo) -> Calibration | None:
    return None


def measured_by(calibration: Calibration | Calibrations | None) -> Measured:
    """What was measured, by request and model: from a machine's store, or the one record whatever is asked."""
    if calibration is None:
        return _nothing
    if isinstance(calibration, Calibration):
        return lambda request, info: calibration
    return lambda request, info: calibration.find(request, info.repo_id or info.source)


@dataclass
class _Trial:
    """One model's fits while flags are chosen for it."""

    info: ModelInfo
    measured: Measured

    def fit(self, request: FitRequest) -> FitResult:
        return fit(self.info, request, self.measured(request, self.info))


def choose(
    info: ModelInfo,
    gpus: Sequence[GpuMemory],
    release: str,
    *,
    base: FitRequest | None = None,
    aim: Aim | None = None,
    fixed: frozenset[str] = frozenset(),
    want_length: int | None = None,
    wsl: bool = False,
    nvlink: bool | None = None,
    variants: Sequence[ModelInfo] = (),
    calibration: Calibration | Calibrations | None = None,
    default_utilization: float | None = None,
    allowed: frozenset[str] = ALL_OPTIONS,
    ram_free_bytes: int | None = None,
    explain: bool = True,
) -> Choice:
    """Variant, parallel sizes, utilization, context length, requests at once, KV type and offload for these GPUs.

    ``base`` carries what the user set; its None fields are free to choose, and so is every dest that ``fixed`` does
    not name. ``allowed`` are the dests of :data:`ALL_OPTIONS` that the release takes. Weights go to RAM only where
    ``ram_free_bytes`` says that there is room. When nothing fits, the result holds the three nearest ways out
    (``explain``; they take a while).
    """
    aim = aim or Aim(want_length)
    smallest = min(gpus, key=lambda g: g.free_bytes if g.free_bytes is not None else g.total_bytes)
    start = base or FitRequest(release, smallest.total_bytes)
    default = default_utilization if default_utilization is not None else float(constant("utilization_default", release)["value"])
    utilization, why = choose_utilization(smallest.total_bytes, smallest.free_bytes, default, wsl=wsl)
    spared = None  # the share that would be taken, where the user's own is less
    if start.gpu_memory_utilization is not None:
        spared = utilization if start.gpu_memory_utilization < utilization - 0.005 else None
        utilization, why = start.gpu_memory_utilization, _("as asked")
    start = replace(
        start, release=release, gpu_total_bytes=smallest.total_bytes, gpu_free_bytes=smallest.free_bytes, gpu_name=smallest.name, gpus=len(gpus),
        compute_capability=smallest.compute_capability, gpu_memory_utilization=utilization, wsl=wsl, nvlink=nvlink,
    )  # fmt: skip
    if start.tensor_parallel_size > 1:
        fixed |= {"tensor_parallel_size"}
    picks = {"gpu_memory_utilization": Pick("gpu_memory_utilization", f"{utilization:.2f}", why)}
    measured = measured_by(calibration)
    chosen, request, reasons = _first_that_fits([info, *sorted(variants, key=lambda v: -(v.weight_bytes or 0))], start, aim, len(gpus), allowed, fixed, measured)
    if chosen is not info:
        words = _("{name} does not fit; this variant ({quant}) does").format(name=info.repo_id or info.source, quant=quant_words(chosen.quant_detail or chosen.quantization or ""))
        picks["model"] = Pick("model", chosen.repo_id or chosen.source, words)
    picks.update({key: Pick(key, _layout_value(request, key), reason) for key, reason in reasons.items()})
    trial = _Trial(chosen, measured)
    request = _kv_type(trial, request, aim, picks, fixed)
    request = _offload(trial, request, aim, picks, allowed, fixed, ram_free_bytes, spared)
    request = _length(trial, request, aim, picks, spared)
    request = _requests(trial, request, start, aim, picks)
    result = trial.fit(request)
    if explain and not result.fits:
        result = replace(result, ways_out=ways_out(chosen, request, variants=variants, calibration=calibration, gpus=len(gpus), ram_free_bytes=ram_free_bytes))
    return Choice(request, result, tuple(picks.values()), chosen)


def _layout_value(request: FitRequest, key: str) -> str:
    values = {
        "tensor_parallel_size": str(request.tensor_parallel_size), PIPELINE: str(request.pipeline_parallel_size),
        DATA: str(request.data_parallel_size), EXPERTS: str(request.expert_parallel).lower(),
    }  # fmt: skip
    return values[key]


def spread(
    info: ModelInfo, start: FitRequest, gpus: int, aim: Aim, allowed: frozenset[str] = ALL_OPTIONS, fixed: frozenset[str] = frozenset(),
    calibration: Calibration | Calibrations | None = None,
) -> tuple[FitRequest, dict[str, str]]:  # fmt: skip
    """``start`` over the GPUs that suit the aim, and the reason of each parallel size by dest."""
    trial = _Trial(info, measured_by(calibration))
    return _spread(trial, start, gpus, aim, allowed, fixed)


def _spread(trial: _Trial, start: FitRequest, gpus: int, aim: Aim, allowed: frozenset[str], fixed: frozenset[str]) -> tuple[FitRequest, dict[str, str]]:
    request = replace(start, max_model_len=start.max_model_len or _target(trial.info, aim), max_num_seqs=start.max_num_seqs or aim.seqs)
    layout, reasons = choose_layout(trial.info, start, gpus, aim, allowed, lambda way: trial.fit(way.of(request)), fixed)
    return layout.of(start), reasons


def _target(info: ModelInfo, aim: Aim) -> int | None:
    return aim.length or info.max_model_len


def _first_that_fits(
    candidates: Sequence[ModelInfo], start: FitRequest, aim: Aim, gpus: int, allowed: frozenset[str], fixed: frozenset[str], measured: Measured
) -> tuple[ModelInfo, FitRequest, dict[str, str]]:  # fmt: skip
    """The first candidate that holds what is aimed for (or a comfortable context); else the one that holds most."""
    best: tuple[int, ModelInfo, FitRequest, dict[str, str]] | None = None
    for model in candidates:
        trial = _Trial(model, measured)
        request, reasons = _spread(trial, start, gpus, aim, allowed, fixed)
        wanted = start.max_model_len or _target(model, aim)
        enough = min(x for x in (wanted, model.max_model_len, COMFORTABLE_LENGTH) if x)
        result = trial.fit(replace(request, max_model_len=wanted, max_num_seqs=request.max_num_seqs or aim.seqs))
        longest = result.max_model_len_that_fits if result.max_model_len_that_fits is not None else (enough if result.fits else 0)
        if longest >= enough and result.certain:
            return model, request, reasons
        if best is None or longest > best[0]:
            best = (longest, model, request, reasons)
    assert best is not None
    return best[1], best[2], best[3]


def _kv_type(trial: _Trial, request: FitRequest, aim: Aim, picks: dict[str, Pick], fixed: frozenset[str]) -> FitRequest:
    """An 8 bit cache where the model's own type leaves hardly any context, and the GPU can do it."""
    key = "kv_cache_dtype"
    if key in fixed or request.kv_cache_dtype != "auto":
        picks[key] = Pick(key, request.kv_cache_dtype, _("as asked"))
        return request
    picks[key] = Pick(key, "auto", _("the model's own type"))
    if trial.info.task != "generate" or not fp8_cache_works(request):
        return request
    target = request.max_model_len or _target(trial.info, aim)
    asked = replace(request, max_model_len=target, max_num_seqs=request.max_num_seqs or aim.seqs)
    result = trial.fit(asked)
    longest = result.max_model_len_that_fits or 0
    if not result.kv_bytes_per_token or result.fits or longest >= (request.max_model_len or min(LEAST_OF_OWN_TYPE, target or LEAST_OF_OWN_TYPE)):
        picks[key] = Pick(key, "auto", _("the model's own type; fp8 would halve the KV cache at a small loss of accuracy"))
        return request
    halved = trial.fit(replace(asked, kv_cache_dtype="fp8"))
    if (request.max_model_len and not halved.fits) or (halved.max_model_len_that_fits or 0) <= longest:
        return request
    picks[key] = Pick(key, "fp8", _("half the size: with the model's own type only {longest} tokens would fit").format(longest=longest))
    return replace(request, kv_cache_dtype="fp8")


def _offload(
    trial: _Trial, request: FitRequest, aim: Aim, picks: dict[str, Pick], allowed: frozenset[str], fixed: frozenset[str], ram_free_bytes: int | None,
    spared: float | None,
) -> FitRequest:  # fmt: skip
    """The last resort: so much of the weights in RAM that a useful context fits, where there is RAM for it.

    ``spared`` is the utilization that would be taken, where the user's own is lower: then that may be the cause.
    """
    if OFFLOAD in fixed or OFFLOAD not in allowed or request.cpu or not ram_free_bytes or not trial.info.weight_bytes or not offload_works(request):
        return request
    # For a useful context only: a longer one that the user asked for is no reason to make every answer slow.
    least = min(LEAST_LENGTH, request.max_model_len or _target(trial.info, aim) or LEAST_LENGTH)
    asked = replace(request, max_model_len=least, max_num_seqs=request.max_num_seqs or aim.seqs)
    if trial.fit(asked).fits or not trial.fit(asked).certain:
        return request
    # Fewer requests at once cost less than weights in RAM, which make every answer slow.
    if any(trial.fit(replace(asked, max_num_seqs=n)).fits for n in _fewer(request, aim)):
        return request
    on_each = layout_of(request).gpus
    for gib in OFFLOADS_GIB:
        if gib * GIB * on_each > min(ram_free_bytes * 0.8, trial.info.weight_bytes * MOST_OFFLOADED):
            break
        if trial.fit(replace(asked, cpu_offload_bytes=gib * GIB)).fits:
            words = _("the last resort: without {gib} GiB of the weights in RAM no useful context fits; for every token of an answer they are copied to the GPU anew")
            if spared is not None and trial.fit(replace(asked, gpu_memory_utilization=spared)).fits:
                words = _("your own GPU memory utilization of {asked:g} is the cause: with {spared:.2f}, for which there is room, a useful context would fit without {gib} GiB of the weights in RAM; for every token of an answer they are copied to the GPU anew")
            picks[OFFLOAD] = Pick(OFFLOAD, str(gib), words.format(gib=gib, asked=request.gpu_memory_utilization, spared=spared))
            return replace(request, cpu_offload_bytes=gib * GIB)
    return request


def _fewer(request: FitRequest, aim: Aim) -> list[int]:
    """Numbers of requests at once below the aim, where the user set none."""
    return [] if request.max_num_seqs is not None else [n for n in FEWER if n < (aim.seqs or 256)]


def round_length(tokens: int) -> int:
    """A round number of tokens not above ``tokens``."""
    step = 1024 if tokens >= 8192 else 256
    return tokens // step * step if tokens >= step else tokens


def _length(trial: _Trial, request: FitRequest, aim: Aim, picks: dict[str, Pick], spared: float | None) -> FitRequest:
    """The aimed length, or the longest round one that surely fits."""
    longest = trial.info.max_model_len
    target = request.max_model_len or _target(trial.info, aim) or COMFORTABLE_LENGTH
    length, reason = target, _("as asked")
    if request.max_model_len is None:
        result = trial.fit(replace(request, max_model_len=target, max_num_seqs=request.max_num_seqs or aim.seqs))
        if result.fits or result.max_model_len_that_fits is None or round_length(result.max_model_len_that_fits) >= target:
            if longest is None:
                reason = _("enough for this purpose; the model's own maximum is not known")
            elif target == longest:
                reason = _("the model's own maximum")
            else:
                reason = _("enough for this purpose; the model itself allows {longest}").format(longest=longest)
        else:
            length = min(target, round_length(result.max_model_len_that_fits))
            reason = _("the longest that surely fits the memory that is left for the KV cache")
            if length < LEAST_LENGTH:
                for seqs in _fewer(request, aim):
                    held = trial.fit(replace(request, max_model_len=target, max_num_seqs=seqs))
                    longer = min(target, round_length(held.max_model_len_that_fits or 0))
                    if longer >= min(LEAST_LENGTH, target):
                        length, reason = longer, _("the longest that surely fits with {n} requests at once; more would need memory of their own").format(n=seqs)
                        break
            if length < LEAST_LENGTH:
                length, reason = min(target, LEAST_LENGTH), _("the least that is of use; see what stands in the way")
            if spared is not None:
                words = _("your own GPU memory utilization of {asked:g} leaves less room than {spared:.2f} would")
                reason = clauses((reason, words.format(asked=request.gpu_memory_utilization, spared=spared)))
        if result.calibrated:
            reason = clauses((reason, _("computed with what was measured on this machine")))
    picks["max_model_len"] = Pick("max_model_len", str(length), reason)
    return replace(request, max_model_len=length)


def _one_figure(result: FitResult) -> str:
    """How many requests of full length find room, as every face shows it."""
    return f"{result.concurrency or 0:.1f}"


def _requests(trial: _Trial, request: FitRequest, start: FitRequest, aim: Aim, picks: dict[str, Pick]) -> FitRequest:
    """Requests at once: what the cache has room for, and never so many that the start itself fails for them."""
    key = "max_num_seqs"
    if start.max_num_seqs is not None:
        picks[key] = Pick(key, str(start.max_num_seqs), _("as asked"))
        return request
    if aim.single:
        picks[key] = Pick(key, "1", _("one request that may be as long as fits"))
        return replace(request, max_num_seqs=1)
    result = trial.fit(replace(request, max_num_seqs=aim.seqs))
    room = int(result.concurrency or 0)
    held = _one_figure(result)
    if aim.seqs is None:
        if result.concurrency is None or not result.fits or room >= (result.max_num_seqs or 256):
            # As computed with: of a step with fewer tokens, vLLM takes down its own default.
            picks[key] = Pick(key, str(result.max_num_seqs or 256), _("vLLM's default; more only wait for their turn"))
            return request
        seqs = max(4, min(MOST_AT_ONCE, 4 * max(1, room)))
        reason = _("the cache holds {room} requests of full length; most are shorter, so four times as many are let in, {most} at most").format(room=held, most=MOST_AT_ONCE)
    else:
        seqs, reason = aim.seqs, _("enough for this purpose; more only wait for their turn")
        many = min(MOST_AT_ONCE, room // 8 * 8)
        if many > seqs:
            # More requests at once take memory of their own: what is said is what is left with so many.
            final = trial.fit(replace(request, max_num_seqs=many))
            if final.fits and final.concurrency is not None and final.concurrency < many:
                many = max(seqs, int(final.concurrency) // 8 * 8)
                final = trial.fit(replace(request, max_num_seqs=many))
            words = _("the KV cache holds {room} requests of full length, taken down to a multiple of 8")
            if many == MOST_AT_ONCE:
                words = _("the KV cache holds {room} requests of full length; more than {most} at once would mostly slow each other down")
            seqs, reason = many, words.format(room=_one_figure(final), most=MOST_AT_ONCE)
    if result.certain:
        fewer = next((n for n in (seqs, *FEWER) if n <= seqs and trial.fit(replace(request, max_num_seqs=n)).fits), None)
        if fewer is not None and fewer < seqs:
            seqs, reason = fewer, _("more would need memory of their own at the start, and the context would no longer fit")
    if request.max_num_batched_tokens and seqs > request.max_num_batched_tokens:
        seqs, reason = request.max_num_batched_tokens, _("a step of {tokens} tokens has room for no more").format(tokens=request.max_num_batched_tokens)
    picks[key] = Pick(key, str(seqs), reason)
    return replace(request, max_num_seqs=seqs)
