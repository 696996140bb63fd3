"""Sizes: GPUs, tensor parallel size, utilization, context length, requests at once. All from the fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wizard.facts import Gpu, Machine, Vendor
from wizard.fit import choose_utilization, fit, valid_tp
from wizard.fit_types import FitRequest, FitResult
from wizard.i18n import _
from wizard.models.info import ModelInfo
from wizard.plan.intents import Intent, media_limit
from wizard.session import Value

GIB = 1 << 30
ROOMY = 4.0  # requests of full length that should find room at once
LEAST_LENGTH = 2048  # below this a server is of no use: no plan is proposed


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


def utilization(bed: Bed) -> tuple[float, str]:
    """The share of total memory to ask for, from what is free now, and why."""
    if not bed.total_bytes:
        return bed.default_utilization, _("vLLM's default")
    share, reason = choose_utilization(bed.total_bytes, bed.free_bytes, bed.default_utilization, wsl=bed.wsl)
    # Every face shows the value beside its reason.
    return max(share, 0.05), reason.removeprefix(f"{share:.2f}: ")


class _Fitter:
    """The fit of one model with one base request; asking twice for the same sizes computes once."""

    def __init__(self, info: ModelInfo, base: FitRequest) -> None:
        self.info = info
        self.base = base
        self._known: dict[tuple[int, str, int | None, int | None], FitResult] = {}

    def request(self, parallel: int, kv_dtype: str, length: int | None, seqs: int | None) -> FitRequest:
        return replace(
            self.base,
            tensor_parallel_size=parallel,
            kv_cache_dtype=kv_dtype,
            max_model_len=length,
            max_num_seqs=seqs,
        )

    def fit(self, parallel: int, kv_dtype: str, length: int | None, seqs: int | None) -> FitResult:
        key = (parallel, kv_dtype, length, seqs)
        if key not in self._known:
            self._known[key] = fit(self.info, self.request(*key))
        return self._known[key]


def size(
    info: ModelInfo, bed: Bed, intent: Intent, chosen: Mapping[str, Value], extra: Mapping[str, Value]
) -> Sized:
    """Values for ``info`` on ``bed``: what the user chose stays, the rest is fitted around it."""
    values: dict[str, tuple[Value, str]] = {}
    values["gpu_memory_utilization"] = proposed, _why = utilization(bed)
    share = _float(chosen.get("gpu_memory_utilization"), proposed)
    fitter = _Fitter(info, _request(info, bed, intent, chosen, extra, share))
    target = _target_length(info, intent, chosen)
    seqs: int | None = _optional_int(chosen.get("max_num_seqs")) or intent.seqs
    values["tensor_parallel_size"] = _parallel(fitter, bed, target, seqs)
    parallel = _int(chosen.get("tensor_parallel_size"), _int(values["tensor_parallel_size"][0], 1))
    values["kv_cache_dtype"] = _kv_dtype(fitter, bed, parallel, target, seqs)
    kv_dtype = str(chosen.get("kv_cache_dtype", values["kv_cache_dtype"][0]))
    values["max_model_len"] = _length(fitter, parallel, kv_dtype, target, seqs)
    length = _int(chosen.get("max_model_len"), _int(values["max_model_len"][0], target))
    values["max_num_seqs"] = _seqs(fitter.fit(parallel, kv_dtype, length, intent.seqs), intent)
    seqs = _int(chosen.get("max_num_seqs"), _int(values["max_num_seqs"][0], 256))
    key = (parallel, kv_dtype, length, seqs)
    return Sized(values, fitter.request(*key), fitter.fit(*key), tuple(g.index for g in bed.gpus[:parallel]))


def quick(info: ModelInfo, bed: Bed, intent: Intent) -> tuple[bool, int, FitResult]:
    """Whether a model surely fits with a length that is of use, that length, and the fit: for comparing many."""
    fitter = _Fitter(info, _request(info, bed, intent, {}, {}, float(utilization(bed)[0])))
    target = _target_length(info, intent, {})
    parallel = int(_parallel(fitter, bed, target, intent.seqs)[0])
    result = fitter.fit(parallel, "auto", target, intent.seqs)
    if result.fits:
        return result.certain, target, result
    length = min(target, round_length(result.max_model_len_that_fits or 0))
    return result.certain and length >= min(LEAST_LENGTH, target), length, result


def _request(
    info: ModelInfo,
    bed: Bed,
    intent: Intent,
    chosen: Mapping[str, Value],
    extra: Mapping[str, Value],
    share: float,
) -> FitRequest:
    limits = {
        kind: _int(chosen.get(key), media_limit(intent, kind))
        for kind, key in (("image", "limit_images"), ("video", "limit_videos"))
        if kind in info.modalities
    }
    adapters = chosen.get("lora_adapters", ())
    slots = len(adapters) if isinstance(adapters, tuple) else 0
    first = bed.gpus[0] if bed.gpus else None
    return FitRequest(
        release=bed.release,
        gpu_total_bytes=bed.total_bytes,
        gpu_free_bytes=bed.free_bytes,
        gpu_name=first.name if first else "CPU",
        compute_capability=first.compute_capability.value if first else None,
        gpus=max(1, len(bed.gpus)),
        gpu_memory_utilization=share,
        limit_mm_per_prompt=limits or None,
        lora_slots=slots,
        max_lora_rank=_int(extra.get("max_lora_rank"), 16),
        max_num_batched_tokens=_optional_int(extra.get("max_num_batched_tokens")),
        max_num_seqs=intent.seqs,
        dtype=str(extra.get("dtype", "auto")),
        quantization=str(extra["quantization"]) if "quantization" in extra else None,
        enforce_eager=_truth(extra.get("enforce_eager")),
        skip_mm_profiling=_truth(extra.get("skip_mm_profiling")),
        language_model_only=_truth(extra.get("language_model_only")),
        pipeline_parallel_size=_int(extra.get("pipeline_parallel_size"), 1),
        cpu_offload_bytes=int(_float(extra.get("cpu_offload_gb"), 0.0) * GIB),
        kv_cache_memory_bytes=_optional_int(extra.get("kv_cache_memory_bytes")),
        wsl=bed.wsl,
        cpu=bed.device == "cpu",
    )


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


def _truth(value: Value | None) -> bool:
    return value is True or str(value).lower() in ("true", "yes", "1", "on")


def _target_length(info: ModelInfo, intent: Intent, chosen: Mapping[str, Value]) -> int:
    if "max_model_len" in chosen:
        return _int(chosen["max_model_len"], 8192)
    longest = info.max_model_len or intent.length or 8192
    return min(longest, intent.length) if intent.length else longest


def _parallel(fitter: _Fitter, bed: Bed, target: int, seqs: int | None) -> tuple[int, str]:
    """One GPU where the model has room there, else all that its heads can be divided by."""
    count = len(bed.gpus)
    if bed.device == "cpu" or count <= 1:
        return 1, _("one GPU") if count else _("no GPU: the model runs on the processor")
    alone = fitter.fit(1, "auto", target, seqs)
    if alone.fits and (alone.concurrency or 0) >= ROOMY:
        return 1, _(
            "one GPU has room for {many:.0f} requests of full length; splitting would only cost traffic"
        ).format(many=alone.concurrency or 0)
    most = valid_tp(fitter.info, count)[-1]
    if most == count:
        return count, _("split over all {n} GPUs: one alone has too little room").format(n=count)
    return most, _("split over {n} GPUs, the most that its attention heads can be divided by").format(n=most)


def _kv_dtype(fitter: _Fitter, bed: Bed, parallel: int, target: int, seqs: int | None) -> tuple[str, str]:
    own = _("the model's own type")
    if fitter.info.task != "generate" or bed.device == "cpu":
        return "auto", own
    capability = fitter.base.compute_capability
    if capability is None or not _at_least(capability, (8, 9)):
        return "auto", own
    result = fitter.fit(parallel, "auto", target, seqs)
    longest = result.max_model_len_that_fits or 0
    if longest < min(4096, target) and result.kv_bytes_per_token:
        halved = fitter.fit(parallel, "fp8", target, seqs)
        if (halved.max_model_len_that_fits or 0) > longest:
            return "fp8", _(
                "half the size: with the model's own type only {longest} tokens would fit"
            ).format(longest=longest)
    return "auto", _("the model's own type; fp8 would halve the KV cache at a small loss of accuracy")


def _at_least(capability: str, wanted: tuple[int, int]) -> bool:
    try:
        major, minor = (int(x) for x in capability.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) >= wanted


def round_length(tokens: int) -> int:
    """A round number of tokens not above ``tokens``."""
    step = 1024 if tokens >= 8192 else 256
    return tokens // step * step if tokens >= step else tokens


def _length(fitter: _Fitter, parallel: int, kv_dtype: str, target: int, seqs: int | None) -> tuple[int, str]:
    result = fitter.fit(parallel, kv_dtype, target, seqs)
    longest = fitter.info.max_model_len
    if result.fits or result.max_model_len_that_fits is None:
        if longest is None:
            return target, _("enough for this purpose")
        if target == longest:
            return target, _("the model's own maximum")
        return target, _("enough for this purpose; the model itself allows {longest}").format(longest=longest)
    length = min(target, round_length(result.max_model_len_that_fits))
    if length < LEAST_LENGTH:
        return min(target, LEAST_LENGTH), _("the least that is of use; see what stands in the way")
    return length, _("the longest that surely fits the memory that is left for the KV cache")


def _seqs(result: FitResult, intent: Intent) -> tuple[int, str]:
    wanted = intent.seqs or 256
    room = int(result.concurrency or 0)
    if intent.key == "longest":
        return 1, _("one request that may be as long as fits")
    many = min(256, room // 8 * 8)
    if many > wanted:
        return many, _("the KV cache holds {room} requests of full length").format(room=room)
    return wanted, _("enough for this purpose; more only wait for their turn")
