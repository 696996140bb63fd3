"""Which model is proposed: the best that lies here and fits, else the recipe that fits best."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wizard import releases
from wizard.facts import MountKind
from wizard.fit_types import surely_too_large
from wizard.i18n import _, listed
from wizard.models.info import FoundModel, ModelInfo
from wizard.models.words import origin_words, quant_words
from wizard.plan import runtime as rt
from wizard.plan.intents import BY_KEY, Intent, possible
from wizard.plan.sizing import Bed, quick, with_help
from wizard.plan_types import Choice
from wizard.session import Session

if TYPE_CHECKING:
    from wizard.recipes import Recipe, Variant

GIB = 1 << 30
SLOW = (MountKind.WINDOWS_DRIVE.value, MountKind.NETWORK.value)


@dataclass(frozen=True)
class Candidate:
    """A model that could be served, and how well it would lie here."""

    source: str  # what the answer "model" would be
    name: str
    info: ModelInfo
    on_disk: bool
    fits: bool
    length: int  # the context that would fit
    offload_gib: int  # it only fits with so much of the weights in RAM; 0: without, or not at all
    quality: int
    note: str
    against: str
    slow: bool  # a processor would take too long for each token
    recipe: tuple[Recipe, Variant] | None


def recipe_for(session: Session, info: ModelInfo) -> tuple[Recipe, Variant] | None:
    """The recipe for a model, where it is surely of that family.

    A model found by its shape alone may be another one's fine-tune (with another reasoning format) or an
    embedding model of the same shape: then the family's name must stand in its own, and the task must agree.
    """
    hit = session.recipes.find(info)
    if hit is None or hit[1].model_info().task != info.task:
        return None
    own = _words(f"{info.repo_id or ''} {info.source}")
    return hit if _family(hit[1].model_id) <= own else None


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+(?:\d+(?:\.\d+)?)?|\d+(?:\.\d+)?", text.lower()))


def _family(model_id: str) -> set[str]:
    """The words of a model's name before its size: {"qwen3", "vl"} of Qwen/Qwen3-VL-8B-Instruct."""
    name = model_id.rsplit("/", 1)[-1].lower()
    return _words(re.split(r"[-_ ]e?\d+(?:\.\d+)?[bm]\b", name)[0])


def default_intent(info: ModelInfo) -> Intent:
    """What a model is most likely for."""
    allowed = possible(info.task, info.modalities)
    if info.lora_adapters and "lora" in {i.key for i in allowed}:
        return BY_KEY["lora"]
    if "image" in info.modalities and info.task == "generate":
        return BY_KEY["image_only"]
    return allowed[0]


def candidates(session: Session, bed: Bed, needs: rt.Needs) -> tuple[Candidate, ...]:
    """All models of the session that are known well enough, best first."""
    out: list[Candidate] = []
    seen: set[str] = set()
    for found in session.found:
        info = session.models.get(found.path)
        if found.is_adapter or info is None:
            continue
        out.append(_judge(session, bed, needs, found.path, found.name, info, found))
        seen.add(found.name)
    room = bed.total_bytes * max(1, len(bed.gpus))
    for recipe, variant in session.recipes.candidates():
        if variant.model_id in seen or (variant.weight_bytes or 0) > room:
            continue
        seen.add(variant.model_id)
        info = variant.model_info()
        name = variant.model_id
        out.append(_judge(session, bed, needs, name, name, info, None, (recipe, variant)))
    return tuple(sorted(out, key=_rank))


# Every token reads all active weights from RAM once; at 20 to 40 GB/s more than this is too slow to read along.
CPU_COMFORT_BYTES = 8 * GIB


def _rank(c: Candidate) -> tuple[object, ...]:
    # What fits comes first, then what lies here already, then what is known to be better, then the larger one.
    # A model for embeddings or speech is not what somebody wants who did not say so.
    return (
        not c.fits,
        not c.offload_gib,
        c.info.task != "generate",
        c.slow,
        not c.on_disk,
        -c.quality,
        -(c.info.weight_bytes or 0),
        c.name,
    )


def _judge(
    session: Session,
    bed: Bed,
    needs: rt.Needs,
    source: str,
    name: str,
    info: ModelInfo,
    found: FoundModel | None,
    recipe: tuple[Recipe, Variant] | None = None,
) -> Candidate:
    recipe = recipe or recipe_for(session, info)
    quality = recipe[1].quality or 0 if recipe else 0
    against = _fault(info, found)
    notes: list[str] = []
    if found is not None:
        notes.append(_("here: {origin}").format(origin=origin_words(found.origin)))
        if found.mount_kind in SLOW:
            notes.append(_("on a slow drive"))
    else:
        notes.append(_("is downloaded at the first start"))
    if info.weight_bytes:
        notes.append(f"{info.weight_bytes / GIB:.1f} GiB")
    if info.quantization:
        notes.append(quant_words(info.quant_detail or info.quantization))
    fits, length, offload = False, 0, 0
    if not against:
        against = unsupported(info, needs)
    if not against and rt.unserved(replace(needs, architecture=info.architecture)):
        against = _("no vLLM release runs it here")
    if not against:
        fits, length, result = quick(info, bed, default_intent(info))
        helped = with_help(info, bed, default_intent(info)) if not fits and found is not None else None
        if helped is not None:
            # As the plan would have it: what the row says is what choosing it gives.
            length, offload = int(helped.request.max_model_len or 0), helped.request.cpu_offload_bytes // GIB
            fits = not offload
        if offload:
            against = _("{gib} GiB in RAM: slow, for so much of its weights has no room on the GPU").format(gib=offload)
        elif not fits:
            why = result.problems[0] if result.problems else _("it is larger than the memory that is free")
            against = (_("does not fit: {why}") if surely_too_large(result) else _("not sure to fit: {why}")).format(why=why)
            if not result.weights_known:
                against = _("its size is not known, so nothing says that it fits")
    return Candidate(
        source,
        name,
        info,
        found is not None,
        fits,
        length,
        offload,
        quality,
        listed(notes),
        against,
        _slow(info, bed),
        recipe,
    )


def _slow(info: ModelInfo, bed: Bed) -> bool:
    if bed.device != "cpu" or not info.weight_bytes:
        return False
    active = info.weight_bytes
    if info.is_moe and info.num_experts and info.experts_per_token:
        active = int(active * info.experts_per_token / info.num_experts)
    return active > CPU_COMFORT_BYTES


def _fault(info: ModelInfo, found: FoundModel | None) -> str:
    if found is not None and not found.complete:
        return found.problem or _("not complete")
    fatal = [i.message for i in info.issues if i.fatal]
    if fatal:
        return fatal[0]
    if not info.servable:
        return _("vLLM cannot serve this format")
    return ""


def unsupported(info: ModelInfo, needs: rt.Needs) -> str:
    """Why the GPU cannot run the model at all (its quantization or type), or an empty text."""
    if info.architecture and releases.first_with_architecture(info.architecture) is None:
        return _("no vLLM release in the catalogue serves {architecture}").format(
            architecture=info.architecture
        )
    if needs.device == "cpu" and not needs.avx512 and info.quantization in NEEDS_AVX512:
        return _("vLLM's CPU build has {method} kernels for processors with AVX-512 only").format(
            method=info.quantization
        )
    return quantization_objection(info.quantization, needs.device, needs.capability)


# The least compute capability of each quantization method (get_min_capability in vLLM's
# model_executor/layers/quantization; FP8 below 8.9 and NVFP4 below 10.0 run as weight-only Marlin kernels).
MIN_CAPABILITY = {
    "fp8": (7, 5),
    "modelopt": (8, 9),
    "modelopt_fp4": (7, 5),
    "nvfp4": (7, 5),
    "mxfp4": (8, 0),
    "gpt_oss_mxfp4": (8, 0),
    "awq": (7, 5),
    "awq_marlin": (7, 5),
    "gptq": (6, 0),
    "gptq_marlin": (7, 5),
    "bitsandbytes": (7, 0),
    "compressed-tensors": (7, 0),
    "gguf": (6, 0),
    "auto-round": (6, 0),
}
# Without AVX-512 the first request to such a model ends the server (vLLM issue 55613, seen with 0.28.0).
NEEDS_AVX512 = ("awq", "gptq", "auto-round", "awq_marlin", "gptq_marlin", "compressed-tensors")
CPU_METHODS = ("awq", "gptq", "compressed-tensors", "auto-round")


def quantization_objection(method: str | None, device: str, capability: str | None) -> str:
    """Why this device cannot run this quantization, or an empty text."""
    if not method:
        return ""
    if device == "cpu":
        return (
            ""
            if method in CPU_METHODS
            else _("vLLM's CPU build has no {method} kernels").format(method=method)
        )
    wanted = MIN_CAPABILITY.get(method)
    if device != "nvidia" or wanted is None or not capability:
        return ""
    parts = capability.split(".")
    have = (
        (int(parts[0]), int(parts[1]))
        if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit()
        else wanted
    )
    if have >= wanted:
        return ""
    return _("{method} needs compute capability {wanted}; this GPU has {have}").format(
        method=method, wanted=f"{wanted[0]}.{wanted[1]}", have=capability
    )


# The least and the most compute capability of KV cache types on NVIDIA GPUs (the attention backends of vLLM 0.32.0:
# FlashInfer takes fp8 from 8.0 on and nvfp4 on 8.x, 9.x, 10.x and 12.x; Triton alone has the types per token and head).
CACHE_SINCE = (0, 32)
CACHE_CAPABILITY: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {
    "bfloat16": ((8, 0), (99, 0)),
    "fp8": ((8, 0), (99, 0)),
    "fp8_e4m3": ((8, 0), (99, 0)),
    "fp8_e5m2": ((8, 0), (99, 0)),
    "fp8_per_token_head": ((8, 9), (99, 0)),
    "nvfp4": ((8, 0), (12, 9)),
    "nvfp4_4over6": ((10, 0), (10, 9)),
}
# Latent attention (MLA) has backends of its own: on cards below 9.0 only Triton's, which wants 8.9 for fp8.
LATENT_FP8 = (8, 9)


def cache_objection(dtype: str, release: str, device: str, capability: str | None, *, latent: bool = False) -> str:
    """Why this GPU cannot have that type of KV cache; an empty text where that is not known."""
    span = CACHE_CAPABILITY.get(dtype)
    if device != "nvidia" or span is None or not capability or rt._key(release) < CACHE_SINCE:
        return ""
    least, most = span
    if latent:
        least = max(least, LATENT_FP8) if dtype.startswith("fp8") else least
    if least <= rt._key(capability) <= most:
        return ""
    if least[0] == most[0]:
        return _("only GPUs of compute capability {major}.x have {name} for the KV cache; this one has {have}").format(name=dtype, major=least[0], have=capability)
    wanted = ".".join(map(str, least))
    return _("{name} for the KV cache needs compute capability {wanted} or newer; this GPU has {have}").format(name=dtype, wanted=wanted, have=capability)


def choices(found: tuple[Candidate, ...], limit: int = 60) -> tuple[Choice, ...]:
    """The candidates as choices: what lies here first, then what could be downloaded and fits."""
    best = found[0].source if found and (found[0].fits or found[0].offload_gib) else None
    shown = sorted((c for c in found if c.fits or c.on_disk), key=lambda c: not c.on_disk)
    return tuple(
        Choice(
            c.source,
            c.name,
            listed([c.note, *([_("{n} tokens").format(n=c.length)] if c.length else [])]),
            c.against,
            c.source == best,
            False,
        )
        for c in shown[:limit]
    )
