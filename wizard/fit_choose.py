"""Choosing flags so that a model fits: parallel sizes, utilization, context length, KV type, each with a reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wizard.fit_constants import GIB, MIB, constant
from wizard.fit_core import fit
from wizard.fit_types import FitRequest, FitResult
from wizard.i18n import _
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
    """What :func:`choose` settles on: the request it was computed with, the result, and why each flag."""

    request: FitRequest
    result: FitResult
    picks: tuple[Pick, ...]

    def value(self, key: str) -> str | None:
        return next((p.value for p in self.picks if p.key == key), None)


FREE_MARGIN_BYTES = 256 * MIB  # left free beside the budget: the driver and the desktop breathe
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
