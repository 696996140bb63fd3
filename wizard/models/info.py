"""What is known about a model: the record that inspection makes and that fit, plan and recipes read.

Sizes are bytes and counts are whole numbers. None means "not known", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from wizard.i18n import N_

# Where the size of the weights comes from (``ModelInfo.weight_source``); translated where it is shown.
WEIGHT_SOURCES = (
    N_("safetensors headers"), N_("GGUF header"), N_("index"), N_("file sizes"), N_("recipe"), N_("computed from config"),
    N_("estimated"),
)  # fmt: skip


ESTIMATED = "estimated"  # which modules are left unquantized is not told


class LayerKind(str, Enum):
    """How a layer keeps its state between tokens; decides its KV bytes."""

    FULL = "full"  # plain (grouped-query) attention
    SLIDING = "sliding"  # sliding-window or chunked attention
    MLA = "mla"  # multi-head latent attention: one compressed vector per token
    LINEAR = "linear"  # Mamba, gated delta net, linear attention: fixed state per sequence
    SHARED = "shared"  # reads another layer's cache: no KV of its own
    NONE = "none"  # no state (a pure MLP layer, an encoder layer)


@dataclass(frozen=True)
class KvLayer:
    """``count`` layers of one kind with the same cache shape."""

    kind: LayerKind
    count: int
    kv_heads: int = 0
    head_dim: int = 0  # of K
    v_head_dim: int = 0  # of V; 0 = same as K
    window: int | None = None  # tokens, for SLIDING
    state_bytes: int | None = None  # per sequence and layer at the model's dtype, for LINEAR
    latent_dim: int = 0  # kv_lora_rank + rope dim, for MLA
    state_kind: str = ""  # for LINEAR: "mamba", "mamba2", "delta" (gated delta net), "kda", "conv", "lightning"
    chunked: bool = False  # SLIDING by chunks (Llama 4), not by a window that moves
    fixed_tokens: int | None = None  # of cross attention: so many of the encoder's tokens per sequence, whatever its length
    element_bytes: float | None = None  # None: as the KV cache dtype; a figure: fixed, whatever that dtype is
    recurrent: int = 0  # of LINEAR: elements of the recurrent state, the part of state_bytes that has a type of its own
    recurrent_bytes: float | None = None  # of one of them, as the config asks; None: as the model's dtype


@dataclass(frozen=True)
class LoraAdapter:
    name: str
    path: str
    rank: int | None
    target_modules: tuple[str, ...] = ()
    base_model: str | None = None
    touches_experts: bool = False
    size_bytes: int | None = None


@dataclass(frozen=True)
class Issue:
    """A fault of the files: a missing shard, a pointer file instead of weights, a truncated header."""

    code: str  # "shard_missing", "lfs_pointer", "truncated", "incomplete_download", "no_config", "mlx" ...
    file: str
    message: str
    fatal: bool = True


@dataclass(frozen=True)
class ModelInfo:
    """One model, as far as its files (or a recipe) tell."""

    source: str  # what vLLM is given: an absolute folder, a .gguf file, or a repository id
    is_local: bool
    repo_id: str | None = None  # "Qwen/Qwen3-VL-8B-Instruct", where known
    config: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # config.json as read
    architecture: str | None = None  # "Qwen3VLForConditionalGeneration"
    model_type: str | None = None
    dtype: str | None = None  # torch_dtype of the checkpoint: "bfloat16"
    quantization: str | None = None  # vLLM's name of the method: "fp8" "awq" "gptq" "compressed-tensors" ...
    quant_detail: str | None = None  # "4 bit, group 128", "NVFP4" ...
    servable: bool = True  # False: MLX and the like; ``issues`` says why
    parameters: int | None = None
    weight_bytes: int | None = None  # of the tensors, as stored
    weight_bytes_by_kind: dict[str, int] = field(default_factory=dict, compare=False)
    # keys of weight_bytes_by_kind: "embedding", "lm_head", "attention", "mlp", "experts", "vision", "audio", "mtp", "other"
    weight_source: str = ""  # "safetensors headers", "index", "file sizes", "recipe", "computed from config"
    num_layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    num_heads: int | None = None
    num_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    tied_embeddings: bool | None = None
    kv_layers: tuple[KvLayer, ...] = ()
    kv_layout_known: bool = True
    num_experts: int | None = None
    experts_per_token: int | None = None
    max_model_len: int | None = None  # from the config, rope scaling counted
    rope_scaling: str | None = None
    modalities: tuple[str, ...] = ("text",)  # of "text", "image", "video", "audio"
    is_moe: bool = False
    task: str = "generate"  # "generate", "embed", "rerank", "classify", "transcribe"
    mtp_layers: int = 0
    chat_template: bool | None = None
    tool_parser: str | None = None  # best known vLLM tool-call parser
    reasoning_parser: str | None = None
    needs_remote_code: bool = False
    gated: bool | None = None
    license: str | None = None
    lora_adapters: tuple[LoraAdapter, ...] = ()  # adapters found beside the model
    generation_defaults: dict[str, Any] = field(default_factory=dict, compare=False)
    issues: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundModel:
    """A model on disk, as the scan lists it (cheap: the config is read, weights are only counted)."""

    path: str  # what would be given to vLLM
    name: str  # for people: repo id, or the folder's name
    origin: str  # "huggingface", "modelscope", "lmstudio", "folder", "gguf"
    size_bytes: int | None
    architecture: str | None = None
    model_type: str | None = None
    quantization: str | None = None
    mount_kind: str = "linux"  # MountKind value of the mount that it lies on
    complete: bool = True
    problem: str = ""  # why it is not complete or not servable
    is_adapter: bool = False
