"""A recipe's variant as the record that model inspection makes."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from wizard.models.info import ModelInfo

if TYPE_CHECKING:
    from wizard.recipes.types import Variant

_BYTES_PER_PARAMETER = {  # the public schema's own table, corrected to what is stored
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.56,
    "awq": 0.56,
    "gptq": 0.56,
    "nvfp4": 0.56,
    "fp4": 0.53,
    "mxfp4": 0.53,
}
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMBT])", re.IGNORECASE)
_SCALE = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def parameters_of(text: str | None) -> int | None:
    """"35B" -> 35000000000; None when it is not such a count."""
    match = _COUNT.search(text or "")
    return int(float(match.group(1)) * _SCALE[match.group(2).upper()]) if match else None


def model_info(variant: Variant) -> ModelInfo:
    """What is known of the checkpoint: from its config facts where we have them, else from its size only."""
    facts = variant.facts
    if facts is None or not facts.config:
        count = facts.parameters if facts and facts.parameters else parameters_of(variant.parameter_count)
        each = _BYTES_PER_PARAMETER.get(variant.precision)
        return ModelInfo(
            source=variant.model_id,
            is_local=False,
            repo_id=variant.model_id,
            parameters=count,
            weight_bytes=int(count * each) if count and each else None,
            weight_source="parameter count x bytes of the precision",
            kv_layout_known=False,
        )
    from wizard.models.inspect import from_config

    info: ModelInfo = from_config(dict(facts.config), source=variant.model_id)
    known: dict[str, Any] = {
        "is_local": False,
        "repo_id": variant.model_id,
        "weight_bytes": facts.weight_bytes or info.weight_bytes,
        "weight_source": "recipe" if facts.weight_bytes else info.weight_source,
        "parameters": facts.parameters or info.parameters,
        # The recipe's word counts, also where it names none.
        "tool_parser": facts.tool_parser,
        "reasoning_parser": facts.reasoning_parser,
        "gated": facts.gated,
        "license": facts.licence,
        "needs_remote_code": facts.needs_remote_code,
    }
    if facts.chat_template is not None:
        known["chat_template"] = facts.chat_template
    return dataclasses.replace(info, **known)
