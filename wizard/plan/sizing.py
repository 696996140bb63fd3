"""Sizes: GPUs, parallel sizes, utilization, context length, requests at once. All from the fit's own choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from wizard import releases
from wizard.counts import LONGEST
from wizard.facts import Gpu, Machine, Vendor
from wizard.fit import Aim, Calibrations, GpuMemory, choose, choose_utilization, fit
from wizard.fit_choose import LEAST_LENGTH as LEAST_LENGTH
from wizard.fit_choose import round_length as round_length
from wizard.fit_choose import spread
from wizard.fit_layout import ALL_OPTIONS, layout_of
from wizard.fit_profile import default_batch
from wizard.fit_settings import apply_values
from wizard.fit_types import FitRequest, FitResult
from wizard.i18n import _
from wizard.models.info import ModelInfo
from wizard.plan.intents import Intent, media_limit
from wizard.releases.batches import batch_conflict
from wizard.session import Value

GIB = 1 << 30
ROOMY = 4.0  # requests of full length that should find room at once before more GPUs are taken
# The options that sizes are written as; the first five are questions of their own.
QUESTION_KEYS = (
    "gpu_memory_utilization",
    "tensor_parallel_size",
    "kv_cache_dtype",
    "max_model_len",
    "max_num_seqs",
)
OPTION_KEYS = (
    "pipeline_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "cpu_offload_gb",
)
CPU_SPACE = "VLLM_CPU_KVCACHE_SPACE"
MOST_LORA_SLOTS = 8  # adapters that a command lets take part in one batch


@dataclass(frozen=True)
class Bed:
    """Where a model lies down: the GPUs used (or the RAM of a CPU machine) and the release's defaults."""

    device: str
    release: str
    gpus: tuple[Gpu, ...]
    wsl: bool
    ram_total_bytes: int
    ram_free_bytes: int
    default_utilization: float
    nvlink: bool | None = None
    cpu_flags: frozenset[str] | None = None
    measured: Calibrations = field(default_factory=Calibrations, compare=False)

    @property
    def total_bytes(self) -> int:
        if self.device == "cpu":
            return self.ram_total_bytes
        return min((g.vram_total_bytes.value or 0) for g in self.gpus) if self.gpus else 0

    @property
    def free_bytes(self) -> int | None:
        if self.device == "cpu":
            return self.ram_free_bytes
        frees = [g.vram_free_bytes.value for g in self.gpus]
        return min(f for f in frees if f is not None) if frees and all(f is not None for f in frees) else None


@dataclass(frozen=True)
class Sized:
    """Proposed values, each with its reason, and what the fit says of them."""

    values: Mapping[str, tuple[Value, str]]
    request: FitRequest
    result: FitResult
    gpus: tuple[int, ...] = field(default=())


def usable_gpus(machine: Machine, device: str) -> tuple[Gpu, ...]:
    """The GPUs that can serve together: of the vendor, with known size, all like the largest group."""
    vendor = {"nvidia": Vendor.NVIDIA, "amd": Vendor.AMD, "intel": Vendor.INTEL}.get(device)
    gpus = [g for g in machine.gpu.gpus if g.vendor == vendor and g.vram_total_bytes.value]
    if not gpus:
        return ()
    groups: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        groups.setdefault(gpu.name, []).append(gpu)
    best = max(groups.values(), key=lambda g: (sum(x.vram_total_bytes.value or 0 for x in g), -g[0].index))
    return tuple(best)


def named_gpus(machine: Machine, named: Sequence[str]) -> tuple[Gpu, ...]:
    """The GPUs with known size whose numbers an answer names."""
    return tuple(g for g in machine.gpu.gpus if str(g.index) in named and g.vram_total_bytes.value)


def utilization(bed: Bed) -> tuple[float, str]:
    """The share of total memory to ask for, from what is free now, and why."""
    if not bed.total_bytes:
        return bed.default_utilization, _("vLLM's default")
    share, reason = choose_utilization(bed.total_bytes, bed.free_bytes, bed.default_utilization, wsl=bed.wsl, cpu=bed.device == "cpu")
    # Every face shows the value beside its reason.
    return max(share, 0.05), reason.removeprefix(f"{share:.2f}: ").removeprefix(f"{share:.2f}：")


@lru_cache(maxsize=128)
def allowed(release: str, lora: bool) -> frozenset[str]:
    """The options of a layout that a release takes, without those that its known faults speak against."""
    have = ALL_OPTIONS & {option.dest for option in releases.load(release).options}
    if lora and any(fault.avoid for fault in releases.known_faults(release, {"lora", "moe", "expert_parallel"})):
        return have - {"enable_expert_parallel"}
    return have


def aim_of(info: ModelInfo, intent: Intent, chosen: Mapping[str, Value]) -> Aim:
    """What the purpose (or the user's own length) asks for."""
    longest = info.max_model_len or intent.length or 8192
    length = min(longest, intent.length) if intent.length else longest
    if chosen.get("max_model_len") == LONGEST:
        length = longest
    elif "max_model_len" in chosen:
        length = _int(chosen["max_model_len"], 8192)
    return Aim(
        length,
        _optional_int(chosen.get("max_num_seqs")) or intent.seqs,
        room=1.0 if intent.key == "longest" else ROOMY,
        throughput=intent.key == "throughput",
        single=intent.key == "longest",
    )


def size(
    info: ModelInfo,
    bed: Bed,
    intent: Intent,
    chosen: Mapping[str, Value],
    extra: Mapping[str, Value],
    given: Mapping[str, str] | None = None,
) -> Sized:
    """Values for ``info`` on ``bed``: what the user chose stays, the rest is fitted around it.

    ``extra`` are options that the user set by hand, ``given`` options and variables that the recipe, the release's
    cures and the environment bring along: they take memory too.
    """
    proposed, why = utilization(bed)
    base = _request(info, bed, intent, chosen, extra, given or {}, proposed)
    step = _step_for(info, base) if "max_num_batched_tokens" not in extra else None
    if step is not None:
        base = replace(base, max_num_batched_tokens=step)
    first = bed.gpus[0] if bed.gpus else None
    card = GpuMemory(bed.total_bytes, bed.free_bytes, base.gpu_name, base.compute_capability)
    fixed = {key for key in (*QUESTION_KEYS, *OPTION_KEYS) if key in chosen or key in extra}
    choice = choose(
        info,
        [card] * max(1, len(bed.gpus)),
        bed.release,
        base=base,
        aim=aim_of(info, intent, chosen),
        fixed=frozenset(fixed),
        wsl=bed.wsl,
        nvlink=bed.nvlink,
        calibration=bed.measured,
        allowed=allowed(bed.release, base.lora_slots > 0),
        ram_free_bytes=bed.ram_free_bytes if first is not None else None,
        explain=False,
    )
    values: dict[str, tuple[Value, str]] = {p.key: (_typed(p.key, p.value), p.reason) for p in choice.picks}
    values["gpu_memory_utilization"] = (proposed, why)
    if step is not None:
        values["max_num_batched_tokens"] = (step, _("a step must have room for a token of each request"))
    request, result = choice.request, choice.result
    if request.cpu:
        request, result = _cpu_cache(info, bed, request, result, values)
    used = layout_of(request).gpus
    return Sized(values, request, result, tuple(g.index for g in bed.gpus[:used]))


def _step_for(info: ModelInfo, base: FitRequest) -> int | None:
    """The tokens of a step where those that would be taken are fewer than the requests that the user asked for."""
    usual = default_batch(base, base.max_model_len or info.max_model_len).tokens
    return base.max_num_seqs if batch_conflict(usual, base.max_num_seqs) is not None else None


def _cpu_cache(
    info: ModelInfo, bed: Bed, request: FitRequest, result: FitResult, values: dict[str, tuple[Value, str]]
) -> tuple[FitRequest, FitResult]:
    """The RAM for the KV cache, in whole GiB: what the requests need, within what is surely free."""
    asked = request.extra.get(CPU_SPACE)
    if asked or request.kv_cache_memory_bytes is not None:
        if asked:
            values[CPU_SPACE] = (asked, _("as you set it"))
        return request, result
    room = result.kv_cache_bytes.low
    reason = _("GiB of RAM for the KV cache: what is surely free")
    many, seqs = result.concurrency or 0, request.max_num_seqs or 1
    if many > seqs:
        room = min(room, result.kv_cache_bytes.best * seqs / many)
        reason = _("GiB of RAM for the KV cache: enough for {n} requests of full length").format(n=seqs)
    space = max(1, -(-int(room) // GIB) if many > seqs and -(-int(room) // GIB) * GIB <= result.kv_cache_bytes.low else int(room / GIB))
    values[CPU_SPACE] = (str(space), reason)
    request = replace(request, extra={**request.extra, CPU_SPACE: str(space)})
    if not result.fits:
        return request, result
    return request, fit(info, request, bed.measured.find(request, info.repo_id or info.source))


def _typed(key: str, text: str) -> Value:
    if key == "gpu_memory_utilization":
        return float(text)
    if key == "enable_expert_parallel":
        return text == "true"
    return text if key == "kv_cache_dtype" else int(text)


def quick(info: ModelInfo, bed: Bed, intent: Intent) -> tuple[bool, int, FitResult]:
    """Whether a model surely fits with a length that is of use, that length, and the fit: for comparing many."""
    base = _request(info, bed, intent, {}, {}, {}, utilization(bed)[0])
    aim = aim_of(info, intent, {})
    request, _reasons = spread(
        info, base, len(bed.gpus), aim, allowed(bed.release, base.lora_slots > 0), calibration=bed.measured
    )
    request = replace(request, max_model_len=aim.length, max_num_seqs=aim.seqs)
    result = fit(info, request, bed.measured.find(request, info.repo_id or info.source))
    target = aim.length or LEAST_LENGTH
    if result.fits:
        return result.certain, target, result
    length, least = min(target, round_length(result.max_model_len_that_fits or 0)), min(LEAST_LENGTH, target)
    if length < least:
        # What is said of it is said of the least that is of use, as a plan would.
        request = replace(request, max_model_len=least)
        result = fit(info, request, bed.measured.find(request, info.repo_id or info.source))
    return result.certain and length >= least, length, result


def with_help(info: ModelInfo, bed: Bed, intent: Intent) -> Sized | None:
    """What a plan would do so that a model fits that does not fit as it is (a smaller cache type, weights in RAM);
    None where nothing helps."""
    sized = size(info, bed, intent, {}, {})
    return sized if sized.result.fits else None


def _request(
    info: ModelInfo,
    bed: Bed,
    intent: Intent,
    chosen: Mapping[str, Value],
    extra: Mapping[str, Value],
    given: Mapping[str, str],
    share: float,
) -> FitRequest:
    """What is computed for: the machine, the purpose, and every option that is set already."""
    limits = {
        kind: _int(chosen.get(key), media_limit(intent, kind))
        for kind, key in (("image", "limit_images"), ("video", "limit_videos"))
        if kind in info.modalities
    }
    adapters = chosen.get("lora_adapters", ())
    first = bed.gpus[0] if bed.gpus else None
    base = FitRequest(
        release=bed.release,
        gpu_total_bytes=bed.total_bytes,
        gpu_free_bytes=bed.free_bytes,
        gpu_name=first.name if first else "CPU",
        compute_capability=first.compute_capability.value if first else None,
        gpus=max(1, len(bed.gpus)),
        limit_mm_per_prompt=limits or None,
        wsl=bed.wsl,
        cpu=bed.device == "cpu",
        amd=bed.device == "amd",
        cpu_flags=bed.cpu_flags,
        nvlink=bed.nvlink,
    )
    options = {**given, **{k: text_of(v) for k, v in extra.items()}}
    base = apply_values(base, options)
    if limits:
        # The questions own their kinds, whatever a recipe says of them.
        base = replace(base, limit_mm_per_prompt={**(base.limit_mm_per_prompt or {}), **limits})
    slots = len(adapters) if isinstance(adapters, tuple) else 0
    if slots and "max_loras" in options:
        slots = base.lora_slots
    return replace(
        base,
        gpu_memory_utilization=_float(chosen.get("gpu_memory_utilization"), share),
        tensor_parallel_size=_int(chosen.get("tensor_parallel_size"), 1),
        kv_cache_dtype=str(chosen.get("kv_cache_dtype", "auto")),
        max_model_len=_optional_int(chosen.get("max_model_len")),
        max_num_seqs=_optional_int(chosen.get("max_num_seqs")),
        lora_slots=min(slots, MOST_LORA_SLOTS),
    )


def text_of(value: Value) -> str:
    """An answer as it would stand on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _int(value: Value | None, default: int) -> int:
    found = _optional_int(value)
    return default if found is None else found


def _optional_int(value: Value | None) -> int | None:
    from wizard.counts import parse_count
    from wizard.errors import BadInput

    if value is None or isinstance(value, (bool, tuple)):
        return None
    try:
        return parse_count("", str(value))
    except BadInput:
        return None


def _float(value: Value | None, default: float) -> float:
    if value is None or isinstance(value, tuple):
        return default
    try:
        return float(value)
    except ValueError:
        return default
