"""Records of a recipe: the public vLLM recipes' schema, and our own ``wizard`` part, as frozen data.

Schema of the public part: https://github.com/vllm-project/recipes (CONTRIBUTING.md, src/lib/command-synthesis.js).
Sizes are bytes, except ``vram_minimum_gb`` which is the schema's own field (units of 1e9 bytes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wizard.facts import Gpu, Machine, Vendor

if TYPE_CHECKING:
    from wizard.models.info import ModelInfo

Strings = tuple[str, ...]

GENERATION_OF_CAPABILITY = {  # NVIDIA compute capability -> generation, in the public taxonomy's words
    "7.0": "volta",
    "7.5": "turing",
    "8.0": "ampere",
    "8.6": "ampere",
    "8.7": "ampere",
    "8.9": "ada",
    "9.0": "hopper",
    "10.0": "blackwell",
    "10.3": "blackwell",
    "11.0": "blackwell",
    "12.0": "blackwell",
    "12.1": "blackwell",
}


@dataclass(frozen=True)
class Hardware:
    """What a recipe's hardware keys are matched with.

    ``gpu_id`` is the public taxonomy's id ("h200", "rtx_5090", "rtx_4090_2x"), ``generation`` its generation
    ("hopper", "blackwell", "ada", "ampere", "turing", "volta", "amd", "cpu", "xpu").
    """

    brand: str | None = None  # "nvidia", "amd", "intel"
    generation: str | None = None
    gpu_id: str | None = None
    gpu_count: int = 1
    vram_bytes: int | None = None  # of one GPU, the smallest
    compute_capability: str | None = None

    def names(self) -> Strings:
        """Keys of hardware maps that stand for this machine, the most special first."""
        several = f"{self.gpu_id}_{self.gpu_count}x" if self.gpu_id and self.gpu_count > 1 else None
        # AMD's generation and brand go by the same word.
        return tuple(dict.fromkeys(k for k in (several, self.gpu_id, self.generation, self.brand) if k))

    @classmethod
    def of(cls, machine: Machine) -> Hardware:
        """The hardware of a probed machine; a machine without a GPU is a "cpu".

        Of unlike GPUs only what they share is told: recipes speak of machines whose GPUs are alike.
        """
        gpus = machine.gpu.gpus
        if not gpus:
            intel = "intel" in machine.cpu.model.or_else("").lower()
            return cls(brand="intel" if intel else None, generation="cpu")
        sizes = [g.vram_total_bytes.value for g in gpus if g.vram_total_bytes.value is not None]
        return cls(
            brand=_shared([g.vendor.value for g in gpus]),
            generation=_shared([_generation(g) for g in gpus]),
            gpu_id=_shared([gpu_id_of(g.name) for g in gpus]),
            gpu_count=len(gpus),
            vram_bytes=min(sizes) if sizes else None,
            compute_capability=_shared([g.compute_capability.value for g in gpus]),
        )


def _shared(values: Sequence[str | None]) -> str | None:
    return values[0] if len(set(values)) == 1 else None


def _generation(gpu: Gpu) -> str | None:
    if gpu.vendor is Vendor.NVIDIA:
        return GENERATION_OF_CAPABILITY.get(gpu.compute_capability.value or "")
    return {Vendor.AMD: "amd", Vendor.INTEL: "xpu"}.get(gpu.vendor)


# Parts of product names, in lower case, with the public taxonomy's id; the first that is found counts.
_GPU_IDS = (
    ("gb300", "gb300"),
    ("gb200", "gb200"),
    ("gb10", "dgx_spark_gb10"),
    ("b300", "b300"),
    ("b200", "b200"),
    ("h200", "h200"),
    ("h100", "h100"),
    ("rtx pro 6000", "rtx_pro_6000"),
    ("rtx pro 5000", "rtx_pro_5000"),
    ("rtx 5090", "rtx_5090"),
    ("rtx 4090", "rtx_4090"),
    ("mi300x", "mi300x"),
    ("mi325x", "mi325x"),
    ("mi355x", "mi355x"),
    ("arc pro b60", "arc_pro_b60"),
    ("arc pro b70", "arc_pro_b70"),
)


def gpu_id_of(name: str) -> str | None:
    """The public taxonomy's id of a GPU from the name its driver tells; None where there is none.

    A laptop GPU shares its number with a desktop card but not its memory, so it has no id.
    """
    lowered = name.lower()
    if "laptop" in lowered or "max-q" in lowered:
        return None
    return next((gpu_id for part, gpu_id in _GPU_IDS if part in lowered), None)


@dataclass(frozen=True)
class RecipeProblem:
    """One fault of a recipe's file."""

    file: str
    line: int | None
    key: str  # "variants.fp8.extra_args", or "" for the file as a whole
    message: str
    kind: str = "schema"  # yaml schema duplicate flag_not_yet flag_removed never_existed bad_value parser unreadable
    severity: str = "error"  # "error" or "warning"
    flag: str | None = None
    release: str | None = None  # the release that it was held against

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


@dataclass(frozen=True)
class Override:
    """What one piece of hardware adds."""

    args: Strings = ()
    env: Mapping[str, str] = field(default_factory=dict)
    docker_image: str | None = None


@dataclass(frozen=True)
class Mode:
    """One of several ways to run a feature, such as a drafting method."""

    key: str
    args: Strings
    label: str = ""
    description: str = ""
    variants: Strings = ()  # empty: all
    unsupported_on: Strings = ()
    hardware_overrides: Mapping[str, Override] = field(default_factory=dict)

    def allowed(self, variant_key: str, hardware: Hardware) -> bool:
        if self.variants and variant_key not in self.variants:
            return False
        return not any(k in self.unsupported_on for k in hardware.names())


@dataclass(frozen=True)
class Feature:
    """Something that a user may switch on or off."""

    key: str
    description: str
    args: Strings = ()
    modes: tuple[Mode, ...] = ()
    default_mode: str | None = None
    opt_in: bool = False  # off unless it is asked for
    strategies: Strings = ()  # empty: all
    unsupported_on: Strings = ()
    hardware_overrides: Mapping[str, Override] = field(default_factory=dict)
    first_release: str | None = None  # from the ``wizard`` part
    variants: Strings = ()  # from the ``wizard`` part; empty: all

    def mode_for(self, variant: Variant, hardware: Hardware, asked: str | None = None) -> Mode | None:
        """The mode in effect: asked for, the variant's own, the feature's default, else the first allowed."""
        allowed = {m.key: m for m in self.modes if m.allowed(variant.key, hardware)}
        for key in (asked, variant.default_modes.get(self.key), self.default_mode):
            if key and key in allowed:
                return allowed[key]
        return next(iter(allowed.values()), None)


@dataclass(frozen=True)
class ModelFacts:
    """What our own recipes know about one checkpoint; see the ``wizard`` part of a recipe."""

    model_id: str
    weight_bytes: int | None = None  # of the tensors, as stored
    weight_source: str = ""  # "published" or "computed"
    disk_bytes: int | None = None
    parameters: int | None = None
    gated: bool | None = None
    licence: str | None = None
    first_release: str | None = None
    quality: int | None = None  # 0 to 100, comparable over all recipes; only an order, not a measurement
    intents: Strings = ()
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: bool | None = None
    needs_remote_code: bool = False
    max_lora_rank: int | None = None
    notes: Strings = ()
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Variant:
    """One checkpoint of a recipe."""

    key: str
    model_id: str
    precision: str
    recipe_id: str
    vram_minimum_gb: float | None = None
    description: str = ""
    label: str = ""
    extra_args: Strings = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)
    hardware_overrides: Mapping[str, Override] = field(default_factory=dict)
    default_modes: Mapping[str, str] = field(default_factory=dict)
    supported_hardware: Strings = ()
    precision_hardware: Mapping[str, str] = field(default_factory=dict)
    tensor_parallel_size: int | Mapping[str, int] | None = None
    min_release: str | None = None
    parameter_count: str | None = None  # "35B", of the recipe when the variant is its default model
    facts: ModelFacts | None = None
    by_shape: bool = False  # found by architecture and sizes: a relative of this checkpoint, not itself

    @property
    def weight_bytes(self) -> int | None:
        return self.facts.weight_bytes if self.facts else None

    @property
    def vram_minimum_bytes(self) -> int | None:
        """What the recipe asks for, over all GPUs together."""
        return None if self.vram_minimum_gb is None else int(self.vram_minimum_gb * 1e9)

    @property
    def quality(self) -> int | None:
        return self.facts.quality if self.facts else None

    @property
    def intents(self) -> Strings:
        return self.facts.intents if self.facts else ()

    def tp_for(self, hardware: Hardware) -> int | None:
        """The tensor parallel size that the recipe fixes for this hardware; None when it leaves it open."""
        declared = self.tensor_parallel_size
        if isinstance(declared, Mapping):
            return next((declared[k] for k in (*hardware.names(), "default") if k in declared), None)
        return declared

    def runs_on(self, hardware: Hardware) -> bool:
        """Whether the recipe allows this hardware: precision, and the variant's own list."""
        if self.supported_hardware and not any(k in self.supported_hardware for k in hardware.names()):
            return False
        wanted = dict(self.precision_hardware)
        if not wanted and self.precision in ("nvfp4", "fp4"):
            wanted = {"brand": "NVIDIA", "generation": "blackwell"}
        if "brand" in wanted and (hardware.brand or "") != wanted["brand"].lower():
            return False
        return "generation" not in wanted or hardware.generation == wanted["generation"]

    def model_info(self) -> ModelInfo:
        """What is known of this checkpoint, as if its files had been inspected."""
        return self._info

    @cached_property
    def _info(self) -> ModelInfo:
        # Asked for at every key press, for all variants: made once.
        from wizard.recipes.modelinfo import model_info

        return model_info(self)


@dataclass(frozen=True)
class Recipe:
    """One recipe: a model family's variants and what they are started with."""

    id: str  # "qwen3-vl": the slug; for a public recipe its model id
    title: str
    provider: str
    description: str
    file: str
    packaged: bool
    model_id: str
    min_release: str | None
    architecture: str  # "dense" or "moe"
    tasks: Strings = ()
    context_length: int | None = None
    base_args: Strings = ()
    base_env: Mapping[str, str] = field(default_factory=dict)
    features: tuple[Feature, ...] = ()
    variants: tuple[Variant, ...] = ()
    strategies: Strings = ()
    hardware: Mapping[str, str] = field(default_factory=dict)  # gpu id -> "verified" or "unsupported"
    hardware_overrides: Mapping[str, Override] = field(default_factory=dict)
    strategy_overrides: Mapping[str, Any] = field(default_factory=dict, repr=False)
    dependencies: tuple[Mapping[str, Any], ...] = ()
    docker_image: object = None
    nightly_required: bool = False
    omni: bool = False  # served by vLLM-Omni, which is another program
    guide: str = field(default="", repr=False)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def variant(self, key: str) -> Variant | None:
        return next((v for v in self.variants if v.key == key), None)

    def feature(self, key: str) -> Feature | None:
        return next((f for f in self.features if f.key == key), None)

    def min_release_for(self, variant: Variant) -> str | None:
        """The first release that serves this variant: the latest of all that is said; "nightly" for none yet."""
        from wizard.releases import version_key

        own = variant.min_release or self.min_release
        known = variant.facts.first_release if variant.facts else None
        if own == "nightly" or not known:
            return own
        return max((own or known, known), key=version_key)


@dataclass(frozen=True)
class GuideBlock:
    """A paragraph, heading or command of a recipe's guide; only texts are translated."""

    text: str
    is_text: bool
    prefix: str = ""  # "## " of a heading


def guide_blocks(guide: str) -> list[GuideBlock]:
    """A guide (Markdown) in blocks, the lines of a paragraph joined."""
    blocks: list[GuideBlock] = []
    paragraph: list[str] = []

    def end() -> None:
        if paragraph:
            blocks.append(GuideBlock(" ".join(paragraph), True))
            paragraph.clear()

    for line in map(str.strip, guide.splitlines()):
        heading = line.lstrip("#").strip() if line.startswith("#") else ""
        is_command = line.startswith("`") and line.endswith("`") and line.count("`") == 2
        if not line or heading or is_command:
            end()
        if heading:
            blocks.append(GuideBlock(heading, True, line[: len(line) - len(line.lstrip("#"))] + " "))
        elif is_command:
            blocks.append(GuideBlock(line, False))
        elif line:
            paragraph.append(line)
    end()
    return blocks
