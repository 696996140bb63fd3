"""How a checkpoint is quantized: vLLM's name of the method and what a weight then takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.models.info import ModelInfo

# Formats that other engines made and that no vLLM release loads: name, and why.
FOREIGN_METHODS = {
    "mlx": "MLX (Apple)",
    "exl2": "EXL2 (ExLlamaV2)",
    "exl3": "EXL3 (ExLlamaV3)",
}


@dataclass(frozen=True)
class Quant:
    """One quantization scheme. ``bytes_per_weight`` counts the packed weight with its group scales."""

    method: str | None = None  # vLLM's name; None: not quantized
    detail: str = ""  # "4 bit, group 128"
    bytes_per_weight: float | None = None  # of a quantized linear weight; None: as the dtype
    bits: int | None = None
    group_size: int | None = None
    servable: bool = True
    ignored: tuple[str, ...] = ()  # modules left unquantized, as the checkpoint names them
    overrides: tuple[tuple[str, float | None], ...] = ()  # (modules, bytes per weight; None: unquantized), first counts
    only_experts: bool = False  # gpt-oss: everything but the experts stays in the model's dtype
    kv_cache_dtype: str | None = None  # what the checkpoint asks for
    lm_head: bool = False


def detect(config: Mapping[str, Any], modelopt: Mapping[str, Any] | None = None) -> Quant:
    """The scheme that ``config.json`` (and ``hf_quant_config.json``, ``modelopt``) declares."""
    block = _declared(config)
    if block is None and modelopt is not None:
        inner = modelopt.get("quantization")
        block = {"quant_method": "modelopt", **inner} if isinstance(inner, Mapping) else None
    if block is None:
        return Quant()
    method = str(block.get("quant_method") or "").lower().replace("_", "-")
    if not method:
        if "quant_algo" in block:
            method = "modelopt"
        elif "bits" in block and "group_size" in block:
            return Quant("mlx", f"{block.get('bits')} bit, group {block.get('group_size')}", None, servable=False)
        elif block.get("load_in_4bit") or block.get("load_in_8bit"):
            method = "bitsandbytes"
        else:
            return Quant("unknown", "quantization_config without a method")
    if method in FOREIGN_METHODS:
        return Quant(method, FOREIGN_METHODS[method], None, servable=False)
    reader = _READERS.get(method)
    return reader(block) if reader is not None else Quant(method, "")


def _declared(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    places: list[Any] = [config, config.get("text_config"), config.get("llm_config"), config.get("thinker_config")]
    for place in places:
        if not isinstance(place, Mapping):
            continue
        for key in ("quantization_config", "compression_config", "quantization"):
            block = place.get(key)
            if isinstance(block, Mapping) and block:
                return block
    return None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(x for x in value if isinstance(x, str))


def int_bytes(bits: int, group: int | None, zero_points: bool = True) -> float:
    """Bytes of one weight packed to ``bits`` with 16 bit scales (and packed zero points) per group."""
    per_group = 2 + (bits / 8 if zero_points else 0)
    return bits / 8 + (per_group / group if group and group > 0 else 0)


def _fp8(block: Mapping[str, Any]) -> Quant:
    size = block.get("weight_block_size")
    ignored = _names(block.get("modules_to_not_convert") or block.get("ignored_layers"))
    if isinstance(size, Sequence) and not isinstance(size, str) and len(size) == 2 and all(_int(x) for x in size):
        cells = int(size[0]) * int(size[1])
        return Quant("fp8", f"8 bit float, block {size[0]}x{size[1]}", 1 + 4 / cells, 8, int(size[1]), ignored=ignored)
    return Quant("fp8", "8 bit float", 1.0, 8, ignored=ignored)


def _packed(name: str) -> Any:
    def read(block: Mapping[str, Any]) -> Quant:
        bits = _int(block.get("bits")) or _int(block.get("w_bit")) or 4
        group = _int(block.get("group_size")) or _int(block.get("q_group_size")) or 128
        text = f"{bits} bit, group {group}" if group > 0 else f"{bits} bit, per channel"
        return Quant(
            name, text, int_bytes(bits, group), bits, group,
            ignored=_names(block.get("modules_to_not_convert")) + _gptq_exempt(block), lm_head=bool(block.get("lm_head")),
            overrides=_other_bits(block, bits, group),
        )  # fmt: skip

    return read


def _gptq_exempt(block: Mapping[str, Any]) -> tuple[str, ...]:
    """GPTQModel's "dynamic" table: a rule that begins with "-:" leaves what it matches unquantized.

    auto-round's "extra_config" does the same for modules with 16 bits.
    """
    dynamic, extra = block.get("dynamic"), block.get("extra_config")
    out = [f"re:{rule[2:]}" for rule in dynamic if isinstance(rule, str) and rule.startswith("-:")] if isinstance(dynamic, Mapping) else []
    if isinstance(extra, Mapping):
        for name, setting in extra.items():
            if isinstance(name, str) and isinstance(setting, Mapping) and setting.get("bits") in (16, 32):
                out.append(f"re:{name}" if any(c in name for c in "*^$") else name)
    return tuple(out)


def _other_bits(block: Mapping[str, Any], bits: int, group: int) -> tuple[tuple[str, float | None], ...]:
    """Modules held with other bits or groups: GPTQModel's "dynamic" (rules without a minus), auto-round's "extra_config"."""
    out: list[tuple[str, float | None]] = []
    for table in (block.get("dynamic"), block.get("extra_config")):
        for name, setting in table.items() if isinstance(table, Mapping) else ():
            if not isinstance(name, str) or name.startswith("-:") or not isinstance(setting, Mapping):
                continue
            own, size = _int(setting.get("bits")) or bits, _int(setting.get("group_size")) or group
            if own >= 16 or (own, size) == (bits, group):
                continue
            rule = name.removeprefix("+:")
            regular = table is block.get("dynamic") or any(c in rule for c in "*^$")
            out.append((f"re:{rule}" if regular else rule, int_bytes(own, size)))
    return tuple(out)


def _bitsandbytes(block: Mapping[str, Any]) -> Quant:
    ignored = _names(block.get("llm_int8_skip_modules"))
    if block.get("load_in_8bit"):
        return Quant("bitsandbytes", "8 bit", 1.0, 8, ignored=ignored)
    # 64 weights share one absmax: 32 bit, or 8 bit when quantized twice.
    scale = 1 / 64 if block.get("bnb_4bit_use_double_quant") else 4 / 64
    return Quant("bitsandbytes", "4 bit", 0.5 + scale, 4, 64, ignored=ignored)


def _compressed_tensors(block: Mapping[str, Any]) -> Quant:
    ignored = _names(block.get("ignore"))
    found = _compressed_weights(block, ignored)
    kv = block.get("kv_cache_scheme")
    return replace(found, kv_cache_dtype="fp8") if isinstance(kv, Mapping) and kv.get("type") == "float" else found


def _compressed_weights(block: Mapping[str, Any], ignored: tuple[str, ...]) -> Quant:
    groups = block.get("config_groups")
    found = [g for g in groups.values() if isinstance(g, Mapping)] if isinstance(groups, Mapping) else []
    weighted = [g for g in found if isinstance(g.get("weights"), Mapping)]
    general = next((g for g in weighted if "Linear" in (_names(g.get("targets")) or ("Linear",))), None)
    main = general or (weighted[0] if weighted else {})
    quant = _compressed_group(block, main.get("weights") or {}, ignored)
    others: list[tuple[str, float | None]] = []
    for group in weighted:
        if group is not general:
            size = _compressed_group(block, group["weights"], ()).bytes_per_weight
            others += [(target, size) for target in _names(group.get("targets")) if target != "Linear"]
    if general is None and others:
        others.append(("re:.*", None))  # what no group names is not quantized
    return replace(quant, overrides=tuple(others))


def _compressed_group(block: Mapping[str, Any], weights: Mapping[str, Any], ignored: tuple[str, ...]) -> Quant:
    bits = _int(weights.get("num_bits")) or 8
    size = _int(weights.get("group_size"))
    kind = str(weights.get("type") or "int")
    layout = str(block.get("format") or "")
    if kind == "float" and bits == 4:
        if size == 32 or "mxfp4" in layout:
            return Quant("compressed-tensors", "MXFP4", 0.5 + 1 / 32, 4, 32, ignored=ignored)
        return Quant("compressed-tensors", "NVFP4", 0.5 + 1 / 16, 4, size or 16, ignored=ignored)
    if kind == "float":
        cells = weights.get("block_structure")
        if isinstance(cells, Sequence) and len(cells) == 2 and all(_int(x) for x in cells):
            return Quant("compressed-tensors", "FP8, block", 1 + 4 / (cells[0] * cells[1]), 8, ignored=ignored)
        return Quant("compressed-tensors", "FP8", 1.0, 8, ignored=ignored)
    symmetric = weights.get("symmetric", True) is not False
    if bits == 8 and not size:
        name = "INT8 (W8A16)" if "pack" in layout else "INT8 (W8A8)"
        return Quant("compressed-tensors", name, 1.0, 8, ignored=ignored)
    text = f"INT{bits}" + (f", group {size}" if size else ", per channel")
    return Quant("compressed-tensors", text, int_bytes(bits, size, not symmetric), bits, size, ignored=ignored)


_MODELOPT = {"FP8": 1.0, "MXFP8": 1 + 1 / 32, "NVFP4": 0.5 + 1 / 16, "W4A16_NVFP4": 0.5 + 1 / 16, "MXFP4": 0.5 + 1 / 32, "W4A8_AWQ": int_bytes(4, 128), "INT4_AWQ": int_bytes(4, 128)}


def _modelopt_layers(table: Any) -> tuple[tuple[str, float | None], ...]:
    """Which module is held in which way, in a checkpoint of mixed precision; the rest is unquantized."""
    if not isinstance(table, Mapping):
        return ()
    names: dict[float, list[str]] = {}
    for name, setting in table.items():
        algo = str(setting.get("quant_algo") if isinstance(setting, Mapping) else setting).upper()
        size = next((_MODELOPT[k] for k in sorted(_MODELOPT, key=len, reverse=True) if k in algo), None)
        if isinstance(name, str) and size is not None and not re.search(r"experts\.[1-9]\d*\.", name):
            names.setdefault(size, []).append(name)
    out: list[tuple[str, float | None]] = [(name, size) for size, group in names.items() for name in group]
    return (*out, ("re:.*", None)) if out else ()


def _modelopt(block: Mapping[str, Any]) -> Quant:
    algo = str(block.get("quant_algo") or "").upper()
    ignored = _names(block.get("exclude_modules") or block.get("ignore"))
    kv = block.get("kv_cache_quant_algo") or block.get("kv_cache_scheme")
    kv_dtype = "fp8" if kv else None
    if "NVFP4" in algo or "FP4" in algo:
        mixed = "MXFP8" if "MXFP8" in algo else "NVFP4"
        return Quant("modelopt_fp4", mixed, 0.5 + 1 / 16, 4, 16, ignored=ignored, kv_cache_dtype=kv_dtype)
    if "MIXED" in algo:
        rules = _modelopt_layers(block.get("quantized_layers"))
        if not rules:
            return Quant("modelopt_mixed", "mixed precision", None, None, ignored=ignored, kv_cache_dtype=kv_dtype)
        return Quant("modelopt_mixed", "mixed precision", _MODELOPT["FP8"], 8, ignored=ignored, kv_cache_dtype=kv_dtype, overrides=rules)
    if "MXFP8" in algo:
        return Quant("modelopt_mxfp8", "MXFP8", 1 + 1 / 32, 8, 32, ignored=ignored, kv_cache_dtype=kv_dtype)
    return Quant("modelopt", algo or "FP8", 1.0, 8, ignored=ignored, kv_cache_dtype=kv_dtype)


def _mxfp4(block: Mapping[str, Any]) -> Quant:
    ignored = _names(block.get("modules_to_not_convert"))
    return Quant("mxfp4", "MXFP4", 0.5 + 1 / 32, 4, 32, ignored=ignored, only_experts=True)


def _torchao(block: Mapping[str, Any]) -> Quant:
    text = str(block.get("quant_type") or "").lower()
    four = "int4" in text
    return Quant("torchao", "4 bit" if four else "8 bit", int_bytes(4, 128) if four else 1.0, 4 if four else 8)


def _fixed(name: str, detail: str, size: float, bits: int) -> Any:
    def read(block: Mapping[str, Any]) -> Quant:
        return Quant(name, detail, size, bits, ignored=_names(block.get("modules_to_not_convert")))

    return read


_READERS: dict[str, Any] = {
    "fp8": _fp8,
    "fbgemm-fp8": _fixed("fbgemm_fp8", "8 bit float", 1.0, 8),
    "awq": _packed("awq"),
    "gptq": _packed("gptq"),
    "gptq-marlin": _packed("gptq_marlin"),
    "awq-marlin": _packed("awq_marlin"),
    "auto-round": _packed("auto-round"),
    "autoround": _packed("auto-round"),
    "intel/auto-round": _packed("auto-round"),
    "inc": _packed("auto-round"),
    "hqq": _packed("hqq"),
    "moe-wna16": _packed("moe_wna16"),
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt-fp4": _modelopt,
    "mxfp4": _mxfp4,
    "torchao": _torchao,
    "gguf": _fixed("gguf", "GGUF", 0.5625, 4),
}


# Methods that only read a checkpoint that is quantized so: vLLM looks for their settings in its config.json, then in a
# file of their own, and stops without them (get_quant_config in vLLM's model_loader/weight_utils.py, 0.8 to 0.32).
# Others quantize at the start.
_OF_A_CHECKPOINT = frozenset(
    {
        "awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "gptq_marlin_24", "gptq_bitblas", "bitblas", "marlin", "hqq", "moe_wna16", "qqq",
        "modelopt", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "compressed-tensors", "quark", "auto-round", "petit_nvfp4",
    }
)  # fmt: skip
_FAMILIES = ("awq", "gptq", "modelopt")  # of these each reads its own checkpoints only


def quantization_conflict(info: ModelInfo, method: str) -> str | None:
    """Why vLLM stops at ``--quantization METHOD`` for a model that is not quantized so; None where nothing says that."""
    method = method.lower()
    if method not in _OF_A_CHECKPOINT or not info.servable:
        return None
    if not info.quantization:
        if _stored_smaller(info):
            return None
        return _("--quantization {method} is for checkpoints that were quantized with it, and this model is not quantized").format(method=method)
    family, other = (next((f for f in _FAMILIES if m.startswith(f)), None) for m in (method.removeprefix("auto_"), info.quantization))
    if family is None or other is None or other == family:
        return None
    return _("--quantization {method} is for checkpoints that were quantized with it, and this model is quantized with {other}").format(method=method, other=info.quantization)


def _stored_smaller(info: ModelInfo) -> bool:
    """Whether the weights are far smaller than the model is: quantized after all, as a file of their own may say."""
    if not info.config:
        return False
    from wizard.models.inspect import from_config

    whole = from_config(info.config, source=info.source).weight_bytes
    return bool(whole and info.weight_bytes and info.weight_bytes < 0.8 * whole)
