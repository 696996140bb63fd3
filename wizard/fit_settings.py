"""Options of ``vllm serve`` as the memory arithmetic takes them: FLAG=VALUE settings put into a :class:`FitRequest`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wizard.errors import BadInput
from wizard.fit_constants import GIB
from wizard.fit_types import FitRequest
from wizard.i18n import _


def share_of(text: str) -> float:
    """A share above 0 and up to 1. Raises ValueError."""
    number = float(text)
    if not 0 < number <= 1:
        raise ValueError(text)
    return number


def apply_values(request: FitRequest, values: Mapping[str, str]) -> FitRequest:
    """``request`` with options by their dest put in; those that cannot be read are passed over, as is what has no effect."""
    changes: dict[str, Any] = {}
    extra = dict(request.extra)
    for key, value in values.items():
        if key.isupper():
            extra[key] = value
            continue
        try:
            _apply_one(key, value.strip(), changes)
        except BadInput:
            continue
    return replace(request, extra=extra, **changes)


_TRUE = ("", "true", "yes", "1", "on")
_FALSE = ("false", "no", "0", "off")


def apply_settings(request: FitRequest, settings: Sequence[str], notes: list[str]) -> FitRequest:
    """``request`` with FLAG=VALUE settings of ``vllm serve`` (or of its environment) put in.

    Raises BadInput naming the setting. One that has no effect on memory is noted as such.
    """
    changes: dict[str, Any] = {}
    extra = dict(request.extra)
    for setting in settings:
        flag, _sep, value = setting.partition("=")
        key = flag.strip().lstrip("-").replace("-", "_")
        if not key or not re.fullmatch(r"[A-Za-z][\w.]*", key):
            raise BadInput(_("--set: “{text}” is not FLAG=VALUE.").format(text=setting))
        value = value.strip()
        if key.isupper():
            extra[key] = value
            continue
        if not _apply_one(key, value, changes):
            notes.append(_("{flag}: not known to change memory").format(flag=key))
            extra[key] = value
    return replace(request, extra=extra, **changes)


_INTEGERS = {
    "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_num_batched_tokens", "max_model_len": "max_model_len", "max_lora_rank": "max_lora_rank",
    "tensor_parallel_size": "tensor_parallel_size", "pipeline_parallel_size": "pipeline_parallel_size", "data_parallel_size": "data_parallel_size",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes", "kv_cache_memory": "kv_cache_memory_bytes", "block_size": "block_size", "max_loras": "lora_slots",
}  # fmt: skip
_TEXTS = {"dtype": "dtype", "kv_cache_dtype": "kv_cache_dtype", "mamba_ssm_cache_dtype": "mamba_ssm_cache_dtype", "quantization": "quantization"}
_SWITCHES = {
    "enforce_eager": "enforce_eager", "skip_mm_profiling": "skip_mm_profiling", "language_model_only": "language_model_only",
    "enable_expert_parallel": "expert_parallel", "enable_prefix_caching": "enable_prefix_caching",
}  # fmt: skip


def _apply_one(key: str, value: str, changes: dict[str, Any]) -> bool:
    from wizard.counts import is_longest, parse_count

    if key in _INTEGERS:
        if key == "max_model_len" and is_longest(value):
            return True
        changes[_INTEGERS[key]] = parse_count(key, value)
    elif key in _TEXTS:
        changes[_TEXTS[key]] = value
    elif key in _SWITCHES or key.removeprefix("no_") in _SWITCHES:
        off = key.startswith("no_")
        changes[_SWITCHES[key.removeprefix("no_")]] = _truth(key, value) != off
    elif key.removeprefix("no_") == "disable_hybrid_kv_cache_manager":
        changes["hybrid_cache"] = _truth(key, value) == key.startswith("no_")
    elif key in ("kv_transfer_config", "kv_events_config"):
        changes.setdefault("hybrid_cache", False)
    elif key == "enable_lora":
        changes.setdefault("lora_slots", 1 if _truth(key, value) else 0)
    elif key == "gpu_memory_utilization":
        try:
            changes[key] = share_of(value)
        except ValueError:
            raise BadInput(_("{key}: “{text}” is not a share between 0 and 1.").format(key=key, text=value)) from None
    elif key == "cpu_offload_gb":
        try:
            changes["cpu_offload_bytes"] = int(float(value) * GIB)
        except ValueError:
            raise BadInput(_("{key}: “{text}” is not a number.").format(key=key, text=value)) from None
    elif key == "limit_mm_per_prompt" or key.startswith("limit_mm_per_prompt."):
        changes["limit_mm_per_prompt"] = {**(changes.get("limit_mm_per_prompt") or {}), **_limits(key, value)}
    elif key == "device":
        changes["cpu"] = value == "cpu"
    elif key == "speculative_config" or key.startswith("speculative_config."):
        _speculation(key, value, changes)
    else:
        return False
    return True


def _truth(key: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise BadInput(_("{key}: “{text}” is neither true nor false.").format(key=key, text=value))


def _limits(key: str, value: str) -> dict[str, int]:
    """Limits by modality: JSON, ``image=2,video=0``, or the dotted form."""
    bad = BadInput(_("{key}: “{text}” is not a limit by kind, such as {example}.").format(key=key, text=value, example='{"image": 2, "video": 0}'))
    if "." in key:
        if not value.isdigit():
            raise bad
        return {key.partition(".")[2]: int(value)}
    if value.startswith("{"):
        try:
            data = json.loads(value)
        except ValueError:
            raise bad from None
        out = {}
        for kind, limit in data.items() if isinstance(data, dict) else ():
            count = limit.get("count") if isinstance(limit, Mapping) else limit
            if type(count) is int and count >= 0:
                out[str(kind)] = count
        if not out:
            raise bad
        return out
    pairs = [p.partition("=") for p in value.split(",")]
    if not pairs or not all(k.strip() and v.strip().isdigit() for k, _sep, v in pairs):
        raise bad
    return {k.strip(): int(v) for k, _sep, v in pairs}


def _speculation(key: str, value: str, changes: dict[str, Any]) -> None:
    if "." in key:
        if key.endswith("num_speculative_tokens") and value.isdigit():
            changes["num_speculative_tokens"] = int(value)
        return
    try:
        data = json.loads(value)
    except ValueError:
        raise BadInput(_("{key}: “{text}” is not JSON.").format(key=key, text=value)) from None
    count = data.get("num_speculative_tokens") if isinstance(data, dict) else None
    if type(count) is int and count > 0:
        changes["num_speculative_tokens"] = count
    method, draft = (str(data.get(k) or "") for k in ("method", "model")) if isinstance(data, dict) else ("", "")
    if draft and draft not in ("ngram", "[ngram]") and method not in ("ngram", "suffix") and not method.endswith("mtp"):
        changes["draft_model"] = draft
