"""What vLLM's profiling run holds at its peak, beside weights and cache.

vLLM runs one step of dummy input of the largest size, reads PyTorch's peak, and takes it from the KV pool. At that
moment these lie side by side: the outputs of the vision encoder (kept for the whole run), and either the widest
layer of the forward pass or the sampler with logits for every sequence. The pieces are counted from shapes; only
how many copies of a tensor live at once comes from ``fit_data/constants.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wizard.fit_constants import GIB, MIB, GpuModel, constant, gpu_model, version_key
from wizard.fit_types import FitRequest
from wizard.models import arch as arch_reader
from wizard.models.arch import Arch
from wizard.models.info import ModelInfo
from wizard.models.quant import Quant


@dataclass(frozen=True)
class Batch:
    """The largest step: sequences and tokens. ``chunked``: long prompts are cut into steps."""

    seqs: int
    tokens: int
    chunked: bool = True


@dataclass(frozen=True)
class Vision:
    """The profiling run of the multimodal encoder. Sizes in bytes."""

    tokens: int = 0  # embedding tokens of the dummy items
    items: int = 0
    kept_bytes: int = 0  # outputs and pixel values that stay until the run ends
    peak_bytes: int = 0  # the encoder's own widest layer


@dataclass(frozen=True)
class Profile:
    """Peak of the profiling run, with what makes it."""

    bytes: int
    spread_bytes: int
    sampler_bytes: int
    forward_bytes: int
    vision_bytes: int
    moe_bytes: int
    dominated_by: str  # "sampler", "forward", "vision"
    source: str


def card(request: FitRequest) -> GpuModel | None:
    return gpu_model(request.gpu_name) if request.gpu_name else None


def compute_capability(request: FitRequest) -> float | None:
    """The compute capability as a number: what was measured, else what the name tells."""
    known = card(request)
    text = request.compute_capability or (known.compute_capability if known is not None else None)
    match = re.match(r"(\d+)\.(\d+)", text or "")
    if match:
        return int(match.group(1)) + int(match.group(2)) / 10
    # a card without a name: of this size and in these releases it is most likely an RTX 5090
    if known is None and 30.5 * GIB <= request.gpu_total_bytes <= 32.5 * GIB and version_key(request.release) >= (0, 9):
        return 12.0
    return None


def is_hopper_class(request: FitRequest) -> bool:
    """Data-centre Hopper or Blackwell; a large unknown card counts as one."""
    cc = compute_capability(request)
    if cc is not None:
        return 9.0 <= cc < 12.0
    return request.gpu_total_bytes >= 70 * GIB


def has_nvlink(request: FitRequest) -> bool:
    if request.nvlink is not None:
        return request.nvlink
    known = card(request)
    if known is not None:
        return known.nvlink
    return request.gpu_total_bytes >= 70 * GIB


def default_batch(request: FitRequest, max_len: int | None) -> Batch:
    """What the API server takes when sequences and tokens are not given."""
    entry = constant("batch_tiers", request.release)
    name = request.gpu_name.lower()
    tier = entry["tiers"][-1]
    for candidate in entry["tiers"]:
        if request.gpu_total_bytes >= candidate["from_gib"] * GIB and not (candidate.get("not") and candidate["not"] in name):
            tier = candidate
            break
    seqs = request.max_num_seqs or tier["seqs"]
    chunked = bool(entry["chunked"])
    if request.cpu:
        seqs, tokens = request.max_num_seqs or 128, 2048
    elif chunked:
        tokens = tier["tokens"]
    else:
        chunked = (max_len or 0) > 32_768
        tokens = 2048 if chunked else max(max_len or 0, 2048)
    if request.max_num_batched_tokens is not None:
        tokens = request.max_num_batched_tokens
    elif max_len:
        tokens = min(tokens, seqs * max_len)
    return Batch(min(seqs, tokens), tokens, chunked)


def runner(info: ModelInfo, quant: Quant, request: FitRequest) -> str:
    """Which of vLLM's two model runners serves it by default: "v1" or "v2"."""
    forced = request.extra.get("VLLM_USE_V2_MODEL_RUNNER")
    if forced in ("0", "1"):
        return "v2" if forced == "1" else "v1"
    entry = constant("runner", request.release)
    rule = entry["v2"]
    if rule == "never":
        return "v1"
    if rule == "always":
        return "v2"
    listed = info.architecture in entry["architectures"]
    if rule == "dense":
        return "v2" if listed or not info.is_moe else "v1"
    if entry.get("dense_unquantized"):
        return "v2" if listed and not info.is_moe and quant.method is None and not request.quantization else "v1"
    return "v2" if listed else "v1"


# --- multimodal ----------------------------------------------------------------------------------------------

# model_type prefix: (tokens of the largest image, its pixel values in elements). From vLLM's processing classes
# (vllm/model_executor/models) and the processors' default sizes.
_PATCHED = {
    # dynamic resolution: one token is merge x merge patches
    "qwen2_vl": (16_384, 14, 2, 2),
    "qwen2_5_vl": (16_384, 14, 2, 2),
    "qwen3_vl": (16_384, 16, 2, 2),
    "qwen3_5": (16_384, 16, 2, 2),
    "qwen3_omni": (16_384, 16, 2, 2),
    "qwen2_5_omni": (16_384, 14, 2, 2),
    "glm4v": (6_144, 14, 2, 2),
    "glm4_1v": (6_144, 14, 2, 2),
    "glm46v": (6_144, 14, 2, 2),
    "kimi_vl": (16_384, 14, 2, 1),
    "keye": (16_384, 14, 2, 1),
    "dots_vlm": (16_384, 14, 2, 1),
    "paddleocr_vl": (3_600, 14, 2, 1),
}
_FIXED = {
    # (tokens of one item, its pixel values in elements)
    "gemma3n": (256, 3 * 768 * 768),
    "gemma3": (256, 3 * 896 * 896),
    "gemma4": (280, 2520 * 768),
    "llama4": (144, 3 * 336 * 336),
    "llava_next": (2928, 5 * 3 * 384 * 384),
    "internvl": (3328, 13 * 3 * 448 * 448),
    "phi4mm": (3136, 3 * 1344 * 1344),
    "minicpmv": (640, 3 * 1344 * 448),
    "aya_vision": (3328, 13 * 3 * 364 * 364),
    "cohere2_vision": (3328, 13 * 3 * 512 * 512),
    "idefics3": (1690, 17 * 3 * 364 * 364),
    "smolvlm": (1088, 17 * 3 * 512 * 512),
    "llava": (576, 3 * 336 * 336),
}


def _items(config: Mapping[str, Any], model_type: str, vision: Mapping[str, Any]) -> tuple[int, int]:
    """(tokens, pixel elements) of the largest single image."""
    for prefix, (tokens, patch, merge, frames) in _PATCHED.items():
        if model_type.startswith(prefix):
            patch = arch_reader.integer(vision, "patch_size", "spatial_patch_size") or patch
            merge = arch_reader.integer(vision, "spatial_merge_size") or merge
            frames = arch_reader.integer(vision, "temporal_patch_size") or frames
            return tokens, tokens * merge * merge * 3 * frames * patch * patch
    if model_type.startswith(("mistral3", "pixtral", "ministral3")) or str(vision.get("model_type")) == "pixtral":
        side = arch_reader.integer(vision, "image_size") or 1540
        patch = arch_reader.integer(vision, "patch_size") or 14
        merge = arch_reader.integer(config, "spatial_merge_size") or 2
        count = side // (patch * merge)
        return count * (count + 1), 3 * side * side
    for prefix, (tokens, pixels) in _FIXED.items():
        if model_type.startswith(prefix):
            return tokens, pixels
    side = arch_reader.integer(vision, "image_size") or 448
    patch = arch_reader.integer(vision, "patch_size") or 14
    return max(1, (side // patch) ** 2), 3 * side * side


# Models whose largest video is as long as the context has room for: pairs of frames, each with the tokens of the
# largest image, and at most so many (vllm/model_executor/models/qwen2_vl.py: _MAX_FRAMES_PER_VIDEO = 14). The video
# of the later ones (qwen3_vl, qwen3_5) is bounded by its pixels, to fewer tokens than the largest image.
_LONG_VIDEO = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_omni")
_MOST_FRAME_PAIRS = 7


def video_allowed(info: ModelInfo, request: FitRequest) -> bool:
    """Whether a request may bring a video: a kind that is not limited is allowed."""
    return "video" in info.modalities and (request.limit_mm_per_prompt or {}).get("video", 1) > 0


def _in_one_item(info: ModelInfo, request: FitRequest, image_tokens: int) -> int:
    """The largest item that is profiled, in images: vLLM lays out one kind only, the one with the most tokens."""
    model_type = str(info.config.get("model_type") or "")
    if not model_type.startswith(_LONG_VIDEO) or not video_allowed(info, request):
        return 1
    length = request.max_model_len or info.max_model_len or 0
    return max(1, min(length // image_tokens, _MOST_FRAME_PAIRS))


def grows_with_context(info: ModelInfo, request: FitRequest) -> bool:
    """Whether a longer context makes the profiling run larger, because a longer video has room in it."""
    model_type = str(info.config.get("model_type") or "")
    return model_type.startswith(_LONG_VIDEO) and video_allowed(info, request) and not images_off(info, request) and not request.skip_mm_profiling


def lengths_of_like_profile(info: ModelInfo, limit: int) -> list[int]:
    """The longest contexts up to ``limit`` that are each profiled with one video more, the longest first."""
    tokens, _pixels = _items(info.config, str(info.config.get("model_type") or ""), arch_reader.vision_config(info.config))
    tops = [(pairs + 1) * tokens - 1 for pairs in range(1, _MOST_FRAME_PAIRS)]
    return [limit, *(n for n in reversed(tops) if n < limit)]


def images_off(info: ModelInfo, request: FitRequest) -> bool:
    """Whether every modality of the model but text is switched off: a kind that is not limited is allowed."""
    limits = request.limit_mm_per_prompt or {}
    kinds = [kind for kind in info.modalities if kind != "text"]
    return request.language_model_only or (bool(kinds) and all(limits.get(kind, 1) == 0 for kind in kinds))


def vision_profile(info: ModelInfo, arch: Arch, request: FitRequest, batch: Batch, dtype_bytes: float) -> Vision:
    """The encoder's part of the profiling run; nothing for text models, or when images are off or not profiled."""
    if "image" not in info.modalities or images_off(info, request) or request.skip_mm_profiling:
        return Vision()
    if (request.limit_mm_per_prompt or {}).get("image", 1) == 0 and not video_allowed(info, request):
        return Vision()
    vision = arch_reader.vision_config(info.config)
    model_type = str(info.config.get("model_type") or "")
    tokens, pixels = _items(info.config, model_type, vision)
    images = _in_one_item(info, request, tokens)
    tokens, pixels = tokens * images, pixels * images
    budget = max(batch.tokens, tokens)
    items = max(1, budget // tokens)
    kept = int(items * (tokens * arch.hidden + pixels) * dtype_bytes)
    width = arch_reader.integer(vision, "hidden_size", "embed_dim", "width") or 1024
    inner = arch_reader.integer(vision, "intermediate_size", "mlp_dim") or 4 * width
    patch = arch_reader.integer(vision, "patch_size", "spatial_patch_size") or 14
    channels = 3 * (arch_reader.integer(vision, "temporal_patch_size") or 1)
    patches = items * max(1, pixels // (channels * patch * patch))
    # two inner tensors (before and after the activation) and some three of the stream's width
    peak = int(patches * (2 * inner + 3 * width) * dtype_bytes)
    return Vision(items * tokens, items, kept, peak)


# --- the peak ------------------------------------------------------------------------------------------------


def profile(
    info: ModelInfo, arch: Arch, quant: Quant, request: FitRequest, batch: Batch, dtype_bytes: float, *, last_stage: bool = True, first_stage: bool = True
) -> Profile:
    """The peak on one GPU of the given pipeline stage."""
    tp = max(1, request.tensor_parallel_size)
    which = runner(info, quant, request)
    entry = constant("sampler", request.release, which)
    known = card(request)
    multiprocessors = known.multiprocessors if known is not None else (132 if is_hopper_class(request) else 96)
    hidden, vocab = arch.hidden, arch.vocab
    tokens, seqs = batch.tokens, batch.seqs
    workspace_entry = constant("cublas_workspace_mib", request.release)
    workspace = workspace_entry["hopper" if is_hopper_class(request) else "other"] * MIB
    stream = int(tokens * hidden * dtype_bytes)
    # the sampler: hidden states of all tokens stay, those of the sampled ones twice
    sampler = 0
    if last_stage and info.task == "generate":
        # the table's figure is for 16 bit logits
        sampler = int(seqs * vocab * (entry["bytes_per_logit"] + dtype_bytes - 2) + stream + 2 * seqs * hidden * dtype_bytes)
        if entry["sm_buffer"]:
            sampler += multiprocessors * vocab * 4
    # the forward pass: the widest layer
    copies = constant("forward", request.release)
    count = copies["hidden_copies"] if first_stage and last_stage else copies["stage_hidden_copies"]
    inner = _dense_inner(arch)
    widths = 3 * inner / tp
    attention = (arch.heads + 2 * max(arch.kv_heads, tp if arch.kv_heads else 0)) * arch.head_dim / tp
    widest = max(widths, attention, _widest_other(arch) / tp)
    forward = int(tokens * (widest + count * hidden) * dtype_bytes)
    if quant.bits == 8 and not quant.only_experts and quant.method in ("compressed-tensors", "fp8", "modelopt", "fbgemm_fp8") and inner:
        forward += int(tokens * inner / tp)  # activations are quantized beside the originals
    experts = _moe_workspace(arch, quant, request, tokens, dtype_bytes, which)
    seen = vision_profile(info, arch, request, batch, dtype_bytes) if first_stage else Vision()
    body = max(sampler, forward)
    peak = seen.kept_bytes + max(body + experts, seen.peak_bytes) + workspace
    dominated = "vision" if seen.peak_bytes > body + experts else ("sampler" if sampler >= forward else "forward")
    spread = int(body * (entry["spread"] if dominated == "sampler" else 0.1) + seen.peak_bytes * (0.35 if dominated == "vision" else 0) + seen.kept_bytes * 0.2 + experts * 0.15)
    return Profile(peak, spread, sampler, forward, seen.kept_bytes + seen.peak_bytes, experts, dominated, entry["source"])


def _dense_inner(arch: Arch) -> int:
    """Inner size of the widest dense MLP; 0 when every layer is a mixture."""
    sizes = [w.cols for b in arch.blocks[:4] for w in b.weights if w.kind == "mlp" and w.name == "down_proj"]
    return max(sizes, default=0)


def _widest_other(arch: Arch) -> int:
    """Widest projection beside MLPs (linear attention, latent attention), in elements per token."""
    return max((w.rows for b in arch.blocks[:4] for w in b.weights if w.kind == "attention" and w.shard in ("rows", "qkv")), default=0)


def _moe_workspace(arch: Arch, quant: Quant, request: FitRequest, tokens: int, dtype_bytes: float, which: str) -> int:
    """Scratch of the mixture kernels: two tensors of (tokens x experts per token) rows, kept between layers."""
    if not arch.experts or not arch.moe_inter:
        return 0
    if quant.method == "mxfp4":
        return 0  # measured: the kernels of these models need none beside the sampler's peak
    replicas = max(1, request.data_parallel_size)
    tp = 1 if request.expert_parallel else max(1, request.tensor_parallel_size) * replicas
    # under data parallelism every rank sees the tokens of all
    rows = tokens * replicas * max(1, arch.experts_per_token)
    inner = -(-arch.moe_inter // tp)
    first = max(inner, arch.hidden)
    second = max(2 * inner, arch.hidden)
    return int(rows * (first + second) * dtype_bytes)


# --- beside PyTorch ------------------------------------------------------------------------------------------


def on_amd(request: FitRequest) -> bool:
    """Whether the GPU is AMD's, where no CUDA runs: as the request says, or as the GPU is called."""
    known = gpu_model(request.gpu_name)
    named = re.search(r"\b(amd|radeon|instinct)\b", request.gpu_name.lower()) is not None
    return not request.cpu and (request.amd or named or (known is not None and known.amd))


def non_torch(request: FitRequest, experts: bool = False) -> tuple[int, int, str]:
    """(bytes, spread, source) of what lies outside PyTorch: context, kernels, communication buffers.

    Replicas of a mixture model (``experts``) exchange tokens, those of a dense one nothing.
    """
    entry = constant("non_torch", request.release)
    new_consumer = (compute_capability(request) or 0) >= 12.0
    exchange = request.tensor_parallel_size > 1 or (experts and request.data_parallel_size > 1)
    if exchange:
        pcie = entry.get("pcie_sm120", entry["pcie"]) if new_consumer else entry["pcie"]
        figure = entry["nvlink"] if has_nvlink(request) and (is_hopper_class(request) or version_key(request.release) < (0, 17)) else pcie
    elif request.pipeline_parallel_size > 1:
        figure = entry["pipeline"]
    else:
        other = entry.get("single_sm120", entry["single_other"]) if new_consumer else entry["single_other"]
        figure = entry["single"] if is_hopper_class(request) else other
    spread = entry["spread"] + (0.25 if exchange and figure != entry["nvlink"] else 0)
    return int(figure * GIB), int(spread * GIB), entry["source"]


def capture_sizes(seqs: int, tokens: int, limit: int) -> list[int]:
    """Batch sizes that CUDA graphs are captured for: 1, 2, 4, then in steps of 8 to 256 and of 16 beyond."""
    top = min(2 * seqs, limit, tokens)
    sizes = [n for n in (1, 2, 4) if n <= top]
    sizes += list(range(8, min(top + 1, 256), 8))
    sizes += list(range(256, top + 1, 16))
    return sizes


def cuda_graphs(info: ModelInfo, quant: Quant, request: FitRequest, batch: Batch) -> tuple[int, int, str]:
    """(bytes, spread, source) of the CUDA graph estimate that is taken from the pool; zero where it is not."""
    entry = constant("cuda_graph", request.release)
    which = runner(info, quant, request)
    if not entry["counted"] or request.enforce_eager or request.cpu or (which == "v2" and not entry["counted_v2"]):
        return 0, 0, entry["source"]
    limit = 1024 if compute_capability(request) in (10.0, 10.3) else 512
    seqs = request.max_num_seqs or batch.seqs
    sizes = capture_sizes(seqs, batch.tokens, limit)
    full = [n for n in sizes if n <= seqs]
    layers = -(-(info.num_layers or 32) // max(1, request.pipeline_parallel_size))
    per_piece = 2 * round(layers * entry["piecewise_mib_per_layer"] / 2)
    per_full = 2 * round(layers * entry["full_mib_per_layer"] / 2)
    mib = layers * entry["first_mib_per_layer"] + max(0, len(sizes) - 1) * per_piece + 4 + max(0, len(full) - 1) * per_full
    return int(mib * MIB), int(mib * MIB * entry["spread"]), entry["source"]
