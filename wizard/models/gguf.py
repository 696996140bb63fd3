"""The header of a GGUF file: metadata and tensor sizes, without the weights.

The layout is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: magic, version, counts,
key/value pairs, tensor records.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.host import Host
from wizard.i18n import _
from wizard.models.info import Issue, ModelInfo

MAGIC = b"GGUF"
FIRST_READ_BYTES = 2**20
MAX_READ_BYTES = 256 * 2**20
MAX_ITEMS = 10_000_000

_SCALARS: dict[int, str] = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

# ggml type: (name, elements of a block, bytes of a block)
GGML_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip

# general.file_type of llama.cpp
FILE_TYPES = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L",
              14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 25: "IQ4_NL", 30: "IQ4_XS", 32: "BF16", 38: "MXFP4"}  # fmt: skip


class GgufError(ValueError):
    """Not a whole GGUF header."""


class _NeedMore(Exception):
    """The bytes read so far end within the header."""


class _Cursor:
    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 0

    def take(self, n: int) -> bytes:
        if n < 0 or n > MAX_READ_BYTES:
            raise GgufError(_("a length is absurd"))
        if self.at + n > len(self.raw):
            raise _NeedMore
        out = self.raw[self.at : self.at + n]
        self.at += n
        return out

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY and depth < 4:
            inner, count = self.number("I"), self.number("Q")
            if count > MAX_ITEMS:
                raise GgufError(_("an array is absurdly long"))
            if inner in _SCALARS:
                width = struct.calcsize("<" + _SCALARS[inner])
                raw = self.take(width * count)
                return list(struct.unpack(f"<{count}{_SCALARS[inner]}", raw)) if count <= 4096 else count
            kept = []
            for i in range(count):
                item = self.value(inner, depth + 1)
                if i < 16:
                    kept.append(item)
            return kept if count <= 16 else count  # long arrays (the vocabulary): only their length
        raise GgufError(_("an unknown value type"))


def parse(raw: bytes) -> tuple[dict[str, Any], dict[str, int], dict[str, str]]:
    """(metadata, bytes by tensor, type by tensor) of the header in ``raw``.

    Raises _NeedMore when ``raw`` ends within it and GgufError when it is not a GGUF header.
    """
    cursor = _Cursor(raw)
    if cursor.take(4) != MAGIC:
        raise GgufError(_("no GGUF header"))
    version = cursor.number("I")
    if version not in (2, 3):
        raise GgufError(_("GGUF version {version}").format(version=version))
    tensors, pairs = cursor.number("Q"), cursor.number("Q")
    if tensors > MAX_ITEMS or pairs > MAX_ITEMS:
        raise GgufError(_("absurd counts"))
    meta: dict[str, Any] = {}
    for _i in range(pairs):
        key = cursor.text()
        meta[key] = cursor.value(cursor.number("I"))
    sizes: dict[str, int] = {}
    types: dict[str, str] = {}
    for _i in range(tensors):
        name = cursor.text()
        dims = cursor.number("I")
        if dims > 8:
            raise GgufError(_("a tensor has too many dimensions"))
        elements = 1
        for _d in range(dims):
            elements *= cursor.number("Q")
        kind = cursor.number("I")
        cursor.number("Q")
        label, block, size = GGML_TYPES.get(kind, (f"type {kind}", 1, 2))
        sizes[name] = -(-elements // block) * size
        types[name] = label
    return meta, sizes, types


def read(host: Host, path: str) -> tuple[dict[str, Any], dict[str, int], dict[str, str]]:
    """The header of the file at ``path``. Raises GgufError and OSError."""
    limit = FIRST_READ_BYTES
    while True:
        raw = host.read_bytes(path, limit=limit)
        try:
            return parse(raw)
        except _NeedMore:
            if len(raw) < limit or limit >= MAX_READ_BYTES:
                raise GgufError(_("the file ends within its header")) from None
            limit *= 8
        except (struct.error, MemoryError):
            raise GgufError(_("the header is damaged")) from None


_ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", "llama"), "qwen2": ("Qwen2ForCausalLM", "qwen2"), "qwen3": ("Qwen3ForCausalLM", "qwen3"),
    "qwen2moe": ("Qwen2MoeForCausalLM", "qwen2_moe"), "qwen3moe": ("Qwen3MoeForCausalLM", "qwen3_moe"), "gemma": ("GemmaForCausalLM", "gemma"),
    "gemma2": ("Gemma2ForCausalLM", "gemma2"), "gemma3": ("Gemma3ForCausalLM", "gemma3_text"), "phi3": ("Phi3ForCausalLM", "phi3"),
    "mistral3": ("MistralForCausalLM", "mistral"), "gpt-oss": ("GptOssForCausalLM", "gpt_oss"), "granite": ("GraniteForCausalLM", "granite"),
    "starcoder2": ("Starcoder2ForCausalLM", "starcoder2"), "stablelm": ("StableLmForCausalLM", "stablelm"), "glm4": ("Glm4ForCausalLM", "glm4"),
    "glm4moe": ("Glm4MoeForCausalLM", "glm4_moe"), "deepseek2": ("DeepseekV3ForCausalLM", "deepseek_v3"), "gpt2": ("GPT2LMHeadModel", "gpt2"),
}  # fmt: skip


def config_from_metadata(meta: Mapping[str, Any], tensor_names: set[str]) -> dict[str, Any]:
    """What ``config.json`` would say of the model."""
    kind = str(meta.get("general.architecture") or "")
    architecture, model_type = _ARCHITECTURES.get(kind, (None, kind or None))
    config: dict[str, Any] = {"model_type": model_type, "torch_dtype": "float16"}
    if architecture:
        config["architectures"] = [architecture]
    names = {
        "embedding_length": "hidden_size", "block_count": "num_hidden_layers", "feed_forward_length": "intermediate_size",
        "attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
        "context_length": "max_position_embeddings", "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok",
        "expert_feed_forward_length": "moe_intermediate_size", "attention.sliding_window": "sliding_window", "vocab_size": "vocab_size",
        "attention.kv_lora_rank": "kv_lora_rank", "attention.q_lora_rank": "q_lora_rank", "leading_dense_block_count": "first_k_dense_replace",
    }  # fmt: skip
    for old, new in names.items():
        value = meta.get(f"{kind}.{old}")
        if isinstance(value, (int, list)) and not isinstance(value, bool):
            config[new] = value
    tokens = meta.get("tokenizer.ggml.tokens")
    if "vocab_size" not in config:
        if isinstance(tokens, int):
            config["vocab_size"] = tokens
        elif isinstance(tokens, list):
            config["vocab_size"] = len(tokens)
    config["tie_word_embeddings"] = "output.weight" not in tensor_names
    return {k: v for k, v in config.items() if v is not None}


_KINDS = (
    (r"^token_embd", "embedding"), (r"^output\.weight", "lm_head"), (r"_exps?\.", "experts"), (r"ffn_", "mlp"), (r"attn_|ssm_", "attention"),
    (r"^v\.|^mm\.", "vision"),
)  # fmt: skip


def inspect_gguf(host: Host, path: str) -> ModelInfo:
    """The record of a GGUF file; split files (``-00001-of-00003.gguf``) are counted together."""
    from wizard.models.inspect import from_config

    name = posixpath.basename(path)
    try:
        meta, sizes, types = read(host, path)
    except GgufError as fault:
        return ModelInfo(path, True, servable=False, kv_layout_known=False, quantization="gguf", issues=(Issue("bad_header", name, _("not a whole GGUF file ({detail}): download it again").format(detail=fault)),))
    except OSError as fault:
        return ModelInfo(path, True, servable=False, kv_layout_known=False, quantization="gguf", issues=(Issue("unreadable", name, _("cannot be read: {why}").format(why=fault.strerror or fault)),))
    issues: list[Issue] = []
    split = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.gguf", name)
    if split and int(split.group(3)) > 1:
        issues.append(Issue("gguf_split", name, _("a GGUF model in several files: merge them with `llama-gguf-split --merge` first")))
        folder = posixpath.dirname(path)
        for number in range(1, min(int(split.group(3)), 1000) + 1):
            other = posixpath.join(folder, f"{split.group(1)}-{number:05d}-of-{split.group(3)}.gguf")
            if other == path:
                continue
            try:
                _m, more, kinds = read(host, other)
                sizes.update(more)
                types.update(kinds)
            except (GgufError, OSError):
                issues.append(Issue("shard_missing", posixpath.basename(other), _("a part of the model that is not there or not whole")))
    elif (size := _file_size(host, path)) is not None and size < sum(sizes.values()):
        issues.append(Issue("truncated", name, _("the file is cut off ({detail}): download it again").format(detail=f"{size} < {sum(sizes.values())}")))
    config = config_from_metadata(meta, set(sizes))
    by_kind: dict[str, int] = {}
    for tensor, amount in sizes.items():
        kind = next((k for pattern, k in _KINDS if re.search(pattern, tensor)), "other")
        by_kind[kind] = by_kind.get(kind, 0) + amount
    file_type = meta.get("general.file_type")
    detail = FILE_TYPES.get(file_type) if isinstance(file_type, int) else None
    info = from_config(config, source=path, is_local=True, name=str(meta.get("general.name") or name), weight_bytes=sum(sizes.values()), weight_source="GGUF header")
    known = "architectures" in config
    return replace(
        info, quantization="gguf", quant_detail=detail or _most_common(types, sizes), weight_bytes_by_kind=by_kind, chat_template="tokenizer.chat_template" in meta,
        kv_layout_known=info.kv_layout_known and known, issues=(*info.issues, *issues), servable=info.servable and not any(i.fatal for i in issues),
        license=meta.get("general.license") if isinstance(meta.get("general.license"), str) else None,
    )  # fmt: skip


def _most_common(types: Mapping[str, str], sizes: Mapping[str, int]) -> str | None:
    totals: dict[str, int] = {}
    for name, kind in types.items():
        totals[kind] = totals.get(kind, 0) + sizes.get(name, 0)
    return max(totals, key=lambda k: totals[k]) if totals else None


def _file_size(host: Host, path: str) -> int | None:
    try:
        return host.stat(path).size_bytes
    except OSError:
        return None
