"""Records of the memory arithmetic (see ``fit.py``). All sizes are bytes, per GPU, on the fullest GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from wizard.i18n import N_, _

# What the lines of the budget are called, by ``Line.key``; translated where they are shown.
LINE_NAMES = {
    "weights": N_("weights"),
    "activation": N_("activation"),
    "non_torch": N_("outside PyTorch"),
    "cuda_graph": N_("CUDA graphs"),
    "lora": N_("LoRA slots"),
    "draft": N_("draft model"),
    "kv_cache": N_("KV cache"),
    "processes": N_("vLLM's processes"),
    "held_by_others": N_("held by others"),
}
# RAM that vLLM's own processes take on the CPU backend before any weight is loaded: three of them with PyTorch in
# each. 2.5 GiB was measured for a tiny model on vLLM 0.32.0; more with a real one.
CPU_PROCESS_BYTES = int(3.5 * (1 << 30))


@dataclass(frozen=True)
class FitRequest:
    """What memory is computed for. None means: the release's own default, or what fits."""

    release: str
    gpu_total_bytes: int
    gpu_free_bytes: int | None = None  # measured (RAM: less CPU_PROCESS_BYTES); None: unknown, then the whole card is assumed free and it is said
    gpu_name: str = ""
    compute_capability: str | None = None
    gpus: int = 1  # GPUs there are
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    data_parallel_size: int = 1
    expert_parallel: bool = False
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    dtype: str = "auto"
    quantization: str | None = None  # on-the-fly, e.g. "fp8"
    enforce_eager: bool = False
    cpu_offload_bytes: int = 0
    lora_slots: int = 0
    max_lora_rank: int = 16
    limit_mm_per_prompt: dict[str, int] | None = None  # None: the defaults
    skip_mm_profiling: bool = False
    language_model_only: bool = False
    draft_weight_bytes: int = 0
    wsl: bool = False
    cpu: bool = False  # the CPU backend: gpu_* figures are RAM
    amd: bool = False  # ROCm; the GPU's name may tell so too
    cpu_flags: frozenset[str] | None = None  # the processor's, as facts.Cpu has them; None: not known
    nvlink: bool | None = None  # GPUs linked by NVLink; None: as that kind of GPU usually is
    enable_prefix_caching: bool | None = None  # None: the release's default
    block_size: int | None = None
    num_speculative_tokens: int = 0
    hybrid_cache: bool | None = None  # False: --disable-hybrid-kv-cache-manager, or a connector that asks for it
    draft_model: str | None = None  # a draft of its own whose size is not known here
    extra: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Calibration:
    """Figures solved from this machine's own start-up log. None: the log did not tell."""

    release: str
    model: str = ""
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    cuda_graph_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    # What was computed for the same start, and its largest step: the peak of another step is scaled from them.
    activation_predicted_bytes: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True)
class Interval:
    """A best value with a pessimistic and an optimistic end."""

    best: float
    low: float
    high: float


@dataclass(frozen=True)
class Line:
    """One part of the budget, with why."""

    key: str  # "weights" "activation" "non_torch" "cuda_graph" "lora" "draft" "kv_cache" "processes" "held_by_others" "unused"
    bytes: int
    reason: str
    source: str = ""
    name: str = ""  # what it is called on this device; empty: as ``LINE_NAMES`` says

    @property
    def title(self) -> str:
        """What it is called where it is shown, translated."""
        return _(self.name or LINE_NAMES.get(self.key, self.key))


@dataclass(frozen=True)
class WayOut:
    """One computed way to make it fit."""

    kind: str  # "variant" "shorter" "text_only" "more_gpus" "kv_dtype" "offload" ...
    text: str
    changes: dict[str, str] = field(default_factory=dict, compare=False)


def surely_too_large(result: FitResult) -> bool:
    """Whether what does not fit could not fit either if every estimate were at its best."""
    return result.certain and not (result.fits or result.fits_at_best)


def share_words(share: float) -> str:
    """A share of memory as it was given, with at least two digits: 0.90, 0.999."""
    return f"{share:.2f}" if round(share, 2) == share else f"{share:g}"


@dataclass(frozen=True)
class FitResult:
    fits: bool  # the pessimistic end fits
    fits_best: bool  # the best value fits
    certain: bool  # False: the layout or a figure is not known; ``notes`` says which
    utilization: float
    utilization_reason: str
    budget_bytes: int  # utilization x total
    weights_bytes: int
    activation_bytes: int
    non_torch_bytes: int
    cuda_graph_bytes: int
    lora_bytes: int
    draft_bytes: int
    kv_cache_bytes: Interval
    kv_cache_tokens: Interval
    kv_bytes_per_token: int | None
    max_model_len: int | None  # the length computed with
    max_model_len_that_fits: int | None  # with the pessimistic end, for one sequence
    concurrency: float | None  # sequences of max_model_len that the (best) pool holds
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # why it does not fit
    ways_out: tuple[WayOut, ...] = ()
    max_num_seqs: int | None = None  # as computed with
    max_num_batched_tokens: int | None = None
    calibrated: bool = False  # figures measured on this machine went into it
    fits_at_best: bool = True  # False: it would not fit either if every estimate were at its best
    weights_known: bool = True  # False: no size of the weights is known, so what is left beside them is not either
