"""Over how many GPUs a model goes, and how: tensor, pipeline, data and expert parallelism, each with its reason.

What divides decides what is possible (heads, vocabulary, quantization blocks, experts, layers), the links between
the GPUs and the purpose decide which of the possible ones is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from wizard import fit_profile
from wizard.fit_constants import constant
from wizard.fit_core import anatomy
from wizard.fit_types import FitRequest, FitResult
from wizard.i18n import _
from wizard.models.arch import VOCAB_PADDING, Arch, integer, vision_config
from wizard.models.info import ModelInfo
from wizard.models.quant import Quant

COMFORTABLE_LENGTH = 32_768
SPARE_OF_UNKNOWN = 0.15  # of the weights, for a cache whose layout is not known
CLEARLY = 1.3  # so much more must a layout hold to be taken before one that stands ahead of it

# Options of a release that the choice may use, by dest.
PIPELINE, DATA, EXPERTS, OFFLOAD = "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel", "cpu_offload_gb"
ALL_OPTIONS = frozenset((PIPELINE, DATA, EXPERTS, OFFLOAD))


@dataclass(frozen=True)
class Aim:
    """What a server should hold. ``length`` and ``seqs`` are aims that the fit may lower; None: no aim."""

    length: int | None = None  # tokens of one request
    seqs: int | None = None  # requests at once
    room: float = 1.0  # requests of full length that should find room at once before more GPUs are taken
    throughput: bool = False  # many requests count for more than the time of each
    single: bool = False  # one request, as long as fits


@dataclass(frozen=True)
class Layout:
    """One way of going over several GPUs."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    def of(self, request: FitRequest) -> FitRequest:
        return replace(request, tensor_parallel_size=self.tp, pipeline_parallel_size=self.pp, data_parallel_size=self.dp, expert_parallel=self.ep)


def layout_of(request: FitRequest) -> Layout:
    return Layout(request.tensor_parallel_size, request.pipeline_parallel_size, request.data_parallel_size, request.expert_parallel)


# --- what is possible ----------------------------------------------------------------------------------------

# methods whose kernels take only whole quantization blocks; the others pad
_STRICT_BLOCKS = frozenset(("fp8", "awq", "gptq", "auto-round", "compressed-tensors"))
# methods without kernels for whole experts on each GPU
_NO_EXPERT_PARALLEL = frozenset(("gguf", "bitsandbytes", "torchao"))


def tp_problem(info: ModelInfo, size: int, *, expert_parallel: bool = False) -> str | None:
    """Why this model cannot be split over ``size`` GPUs by tensor parallelism; None when it can.

    With ``expert_parallel`` experts stay whole, so their inner size need not be divided.
    """
    if size <= 1:
        return None
    heads, kv = info.num_heads or 0, info.num_kv_heads or 0
    if heads and heads % size:
        return _("{heads} attention heads cannot be divided by {n}").format(heads=heads, n=size)
    if kv and not latent(info) and ((kv >= size and kv % size) or (kv < size and size % kv)):
        return _("{kv} KV heads and {n} GPUs do not divide each other").format(kv=kv, n=size)
    vocab = info.vocab_size or 0
    if vocab and (-(-vocab // VOCAB_PADDING) * VOCAB_PADDING) % size:
        return _("the padded vocabulary cannot be divided by {n}").format(n=size)
    arch, quant = anatomy(info.config)
    if arch is None:
        return None
    text = info.config.get("text_config") or info.config
    linear = integer(text, "linear_num_key_heads") if isinstance(text, dict) else None
    if linear and linear % size:
        return _("{heads} linear-attention heads cannot be divided by {n}").format(heads=linear, n=size)
    wrong = _block_problem(arch, quant, size, expert_parallel)
    if wrong is not None:
        return wrong
    tower = integer(vision_config(info.config), "num_heads", "num_attention_heads")
    if tower and tower % size:
        return _("the vision tower's {heads} heads cannot be divided by {n}").format(heads=tower, n=size)
    return None


def _block_problem(arch: Arch, quant: Quant, size: int, expert_parallel: bool) -> str | None:
    block = (quant.group_size or 0) if quant.method in _STRICT_BLOCKS else 0
    dense, expert = arch.inter if not arch.experts else 0, 0 if expert_parallel else arch.moe_inter
    for inner, what in ((dense, _("MLP")), (expert, _("expert"))):
        if inner and inner % size:
            return _("the {what}'s inner size {inner} cannot be divided by {n}").format(what=what, inner=inner, n=size)
        if inner and block > 1 and (inner // size) % block:
            return _("the {what}'s inner size {inner} over {n} GPUs is no multiple of the quantization block {block}").format(what=what, inner=inner, n=size, block=block)
    return None


def valid_tp(info: ModelInfo, gpus: int) -> list[int]:
    """Tensor parallel sizes from 1 up to ``gpus`` that this model can be split by."""
    return [n for n in range(1, max(1, gpus) + 1) if tp_problem(info, n) is None] or [1]


def smaller_tp(info: ModelInfo, layout: Layout) -> int:
    """The largest tensor parallel size up to that of ``layout`` that this model can be split by."""
    return next((n for n in range(layout.tp, 0, -1) if tp_problem(info, n, expert_parallel=layout.ep) is None), 1)


def over_gpus(layout: Layout, count: int) -> str | None:
    """Why ``count`` GPUs are too few for these sizes; None when they are enough."""
    if layout.gpus <= count:
        return None
    if layout.gpus == layout.tp:
        return _("Tensor parallel size {tp} needs as many GPUs; {count} can be used.").format(tp=layout.tp, count=count)
    words = _("Tensor, pipeline and data parallel sizes {tp} x {pp} x {dp} need as many GPUs; {count} can be used.")
    return words.format(tp=layout.tp, pp=layout.pp, dp=layout.dp, count=count)


def latent(info: ModelInfo) -> bool:
    """Whether the cache holds one compressed vector per token, which tensor parallelism copies to every GPU."""
    return any(layer.latent_dim for layer in info.kv_layers)


def takes_pipeline(info: ModelInfo, stages: int, release: str) -> bool:
    """Whether vLLM runs this model's layers in ``stages`` groups on several GPUs."""
    if info.task != "generate" or not info.architecture or not info.num_layers or info.num_layers < stages:
        return False
    return info.architecture not in constant("no_pipeline", release)["architectures"]


def takes_experts(info: ModelInfo, request: FitRequest, gpus: int) -> bool:
    """Whether the experts of this model can lie whole on ``gpus`` GPUs."""
    return info.is_moe and experts_problem(info, request, gpus) is None


def experts_problem(info: ModelInfo, request: FitRequest, gpus: int) -> str | None:
    """Why the experts of a mixture model cannot lie whole on ``gpus`` GPUs; None when they can."""
    if (info.num_experts or 0) < gpus:
        return _("it has {experts} experts for {gpus} GPUs").format(experts=info.num_experts or 0, gpus=gpus)
    if request.lora_slots:
        return _("vLLM spreads none beside LoRA adapters")
    method = request.quantization or info.quantization
    return _("{method} has no kernels for whole experts").format(method=method) if method in _NO_EXPERT_PARALLEL else None


# --- what is taken -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Offer:
    layout: Layout
    reason: str


Probe = Callable[[Layout], FitResult]


def choose_layout(
    info: ModelInfo, start: FitRequest, gpus: int, aim: Aim, allowed: frozenset[str], probe: Probe, fixed: frozenset[str] = frozenset()
) -> tuple[Layout, dict[str, str]]:  # fmt: skip
    """The layout, and the reason of each of its options by dest.

    ``probe`` computes the fit of a layout at the aimed length. ``fixed`` are the dests that the user set: they
    stay as ``start`` has them.
    """
    asked = layout_of(start)
    if gpus <= 1 or start.cpu:
        reason = _("no GPU: the model runs on the processor") if start.cpu else _("one GPU")
        return asked if fixed else Layout(), {"tensor_parallel_size": reason}
    offers = [o for o in _offers(info, start, gpus, aim, allowed) if _keeps(o.layout, asked, fixed)]
    if not offers:
        return asked, {"tensor_parallel_size": _("as asked")}
    wanted = _wanted(info, aim)
    linked = fit_profile.has_nvlink(start) and not start.wsl
    best: tuple[tuple[bool, float, float], _Offer] | None = None
    for offer in offers:
        if offer.layout.pp > 1 and linked and best is not None and best[0][0]:
            continue  # over NVLink a split answers faster than stages: those are for what fits no other way
        result = probe(offer.layout)
        if not result.certain and not result.fits:
            # the cache's layout is not known: so many GPUs that the weights leave a good part of the room
            left = result.kv_cache_bytes.low
            if left > SPARE_OF_UNKNOWN * result.weights_bytes:
                return offer.layout, _reasons(offer, info, result, start)
            score = (False, left, 0.0)
            best = (score, offer) if best is None or score > best[0] else best
            continue
        longest = result.max_model_len_that_fits
        reach = float(longest if longest is not None else wanted if result.fits else 0)
        many = (result.concurrency or 0) * offer.layout.dp
        holds = result.fits or (aim.length is None and result.certain and reach >= wanted)
        if holds and (result.concurrency is None or aim.length is None or many >= aim.room):
            return offer.layout, _reasons(offer, info, result, start)
        score = (result.fits, min(reach, wanted), many)
        if best is None or _clearly_better(score, best[0]):
            best = (score, offer)
    assert best is not None
    (fits, reach, _many), offer = best
    if offer.layout.gpus == 1 and not fits:
        words = _("one GPU holds a shorter context, and more GPUs hold hardly more") if reach > 0 else _("one GPU does not hold it, and neither do {n}")
        return offer.layout, {"tensor_parallel_size": words.format(n=gpus)}
    return offer.layout, _reasons(offer, info, probe(offer.layout), start)


def _clearly_better(score: tuple[bool, float, float], other: tuple[bool, float, float]) -> bool:
    """Whether a later offer is worth leaving an earlier one for: it fits, or holds a good part more."""
    if score[0] != other[0]:
        return score[0]
    if score[1] != other[1]:
        return score[1] > other[1] * CLEARLY
    return score[2] > other[2] * CLEARLY


def _wanted(info: ModelInfo, aim: Aim) -> float:
    if aim.length is not None:
        return aim.length
    return min(x for x in (info.max_model_len, COMFORTABLE_LENGTH) if x)


def _keeps(layout: Layout, asked: Layout, fixed: frozenset[str]) -> bool:
    pairs = (("tensor_parallel_size", layout.tp, asked.tp), (PIPELINE, layout.pp, asked.pp), (DATA, layout.dp, asked.dp), (EXPERTS, layout.ep, asked.ep))
    return all(have == want for key, have, want in pairs if key in fixed)


def _offers(info: ModelInfo, start: FitRequest, gpus: int, aim: Aim, allowed: frozenset[str]) -> Iterator[_Offer]:
    """Possible layouts, best first: the first that has room is taken."""
    nvlink = fit_profile.has_nvlink(start) and not start.wsl
    experts = EXPERTS in allowed and takes_experts(info, start, gpus)
    if DATA in allowed and (aim.throughput or start.data_parallel_size > 1):
        yield from _replicas(info, gpus, nvlink, experts)
    yield _Offer(Layout(), "")
    split = list(_splits(info, start, gpus, aim, allowed, nvlink))
    stages = list(_stages(info, start, gpus, allowed, nvlink))
    yield from (*stages, *split) if aim.throughput and not nvlink else (*split, *stages)
    if DATA in allowed and experts and nvlink and latent(info) and not aim.throughput:
        yield _Offer(Layout(dp=gpus, ep=True), _mla_reason(gpus))


def _replicas(info: ModelInfo, gpus: int, nvlink: bool, experts: bool) -> Iterator[_Offer]:
    if not info.is_moe:
        for size in (n for n in range(1, gpus) if gpus % n == 0 and tp_problem(info, n) is None):
            many = gpus // size
            words = _("{n} replicas, one on each GPU: the model fits one, and they pass nothing between them")
            if size > 1:
                words = _("{n} replicas on {size} GPUs each: more requests at once than one over all GPUs")
            yield _Offer(Layout(tp=size, dp=many), words.format(n=many, size=size))
    elif experts and nvlink:
        words = _mla_reason(gpus) if latent(info) else _("each of {n} GPUs has its own requests and KV cache, and the experts are spread over all by NVLink").format(n=gpus)
        yield _Offer(Layout(dp=gpus, ep=True), words)


def _mla_reason(gpus: int) -> str:
    return _("tensor parallelism would copy this model's KV cache to every GPU; {n} data-parallel ranks hold {n} different ones").format(n=gpus)


def _splits(info: ModelInfo, start: FitRequest, gpus: int, aim: Aim, allowed: frozenset[str], nvlink: bool) -> Iterator[_Offer]:
    """Tensor parallel sizes: all that divide by NVLink, which makes each answer faster; else no more than needed."""
    sizes = range(gpus, 1, -1) if nvlink else range(2, gpus + 1)
    most = next((n for n in range(gpus, 1, -1) if tp_problem(info, n) is None), 1)
    for size in sizes:
        whole = EXPERTS in allowed and takes_experts(info, start, size)
        sliced = tp_problem(info, size)
        if sliced is not None and (not whole or tp_problem(info, size, expert_parallel=True) is not None):
            continue
        if start.wsl:
            words = _("split over {n} GPUs: one alone has too little room, and WSL has no direct memory access between GPUs, so no more than needed")
        elif not nvlink:
            words = _("split over {n} GPUs: one alone has too little room, and without NVLink more would only add traffic")
        elif size == gpus:
            words = _("split over all {n} GPUs, linked by NVLink: one alone has too little room")
        else:
            words = _("split over {n} GPUs, the most that its heads and blocks can be divided by")
        if size == most and size < gpus and not nvlink:
            words = _("split over {n} GPUs, the most that its heads and blocks can be divided by")
        yield _Offer(Layout(tp=size, ep=whole and (sliced is not None or start.expert_parallel or (aim.throughput and nvlink))), words.format(n=size))


def _stages(info: ModelInfo, start: FitRequest, gpus: int, allowed: frozenset[str], nvlink: bool) -> Iterator[_Offer]:
    """Pipeline stages: any number of GPUs, and little traffic; one request alone is not faster for it."""
    if PIPELINE not in allowed or not takes_pipeline(info, 2, start.release):
        return
    pairs = [
        (tp, pp) for pp in range(2, gpus + 1) if takes_pipeline(info, pp, start.release)
        for tp in range(1, gpus // pp + 1) if tp_problem(info, tp) is None
    ]  # fmt: skip
    pairs.sort(key=lambda p: (-p[0] * p[1], p[1]) if nvlink else (p[0] * p[1], p[0]))
    for tp, pp in pairs:
        against = tp_problem(info, tp * pp)
        words = _("the layers are divided into {pp} groups: {why}") if against is not None else _("the layers are divided into {pp} groups: without NVLink that passes far less between GPUs than splitting every layer")
        yield _Offer(Layout(tp=tp, pp=pp), words.format(pp=pp, why=against))


def _reasons(offer: _Offer, info: ModelInfo, result: FitResult, start: FitRequest) -> dict[str, str]:
    layout, out = offer.layout, {"tensor_parallel_size": offer.reason}
    if layout.gpus == 1:
        many = result.concurrency or 0
        text = _("one GPU has room for {many:.0f} requests of full length; splitting would only cost traffic") if many >= 2 else _("one GPU holds it; splitting would only cost traffic")
        return {"tensor_parallel_size": text.format(many=many)}
    if layout.pp > 1:
        out[PIPELINE] = offer.reason
        out["tensor_parallel_size"] = _("within each group of layers") if layout.tp > 1 else _("not split: {why}").format(why=offer.reason)
    if layout.dp > 1:
        out[DATA] = offer.reason
        out["tensor_parallel_size"] = _("within each replica") if layout.tp > 1 else _("not split: {why}").format(why=offer.reason)
    if layout.ep:
        sliced = tp_problem(info, layout.tp)
        many = info.num_experts or 0
        out[EXPERTS] = _("each expert stays whole: {why}").format(why=sliced) if sliced is not None else _("the {n} experts lie whole on the GPUs: its matrix products stay large, and NVLink carries the tokens").format(n=many)
    return out
