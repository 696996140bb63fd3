"""A recipe's variant as the record that model inspection makes."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from wizard.i18n import _
from wizard.models.info import ESTIMATED, ModelInfo

if TYPE_CHECKING:
    from wizard.recipes.types import Variant

_VRAM_FACTOR = 1.2  # the public schema's rule: vram_minimum_gb = weights x 1.2
_METHODS = {"fp8": "fp8", "mxfp4": "mxfp4", "awq": "awq", "gptq": "gptq"}  # others name no method of vLLM's

_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMBT])", re.IGNORECASE)
_SCALE = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


def parameters_of(text: str | None) -> int | None:
    """"35B" -> 35000000000; None when it is not such a count."""
    match = _COUNT.search(text or "")
    return int(float(match.group(1)) * _SCALE[match.group(2).upper()]) if match else None


def _published(model_id: str, recipe_bytes: int | None) -> ModelInfo | None:
    """The record from published shapes; None where they are not known.

    Where it is not told which modules a checkpoint leaves unquantized, the larger of the two sizes counts.
    """
    from wizard.models.inspect import from_published

    info = from_published(model_id)
    if info is None or info.weight_source != ESTIMATED or not recipe_bytes or recipe_bytes <= (info.weight_bytes or 0):
        return info
    return dataclasses.replace(info, weight_bytes=recipe_bytes, weight_bytes_by_kind={})


def model_info(variant: Variant) -> ModelInfo:
    """What is known of the checkpoint: from its config facts where we have them, else from its size only."""
    facts = variant.facts
    if facts is None or not facts.config:
        minimum = variant.vram_minimum_bytes
        published = _published(variant.model_id, int(minimum / _VRAM_FACTOR) if minimum else None)
        if published is not None:
            return published
        return ModelInfo(
            source=variant.model_id,
            is_local=False,
            repo_id=variant.model_id,
            # The count is the default model's; another checkpoint may be one of another size.
            parameters=parameters_of(variant.parameter_count) if variant.key == "default" else None,
            weight_bytes=int(minimum / _VRAM_FACTOR) if minimum else None,
            weight_source=_("the recipe's least VRAM / {factor}").format(factor=_VRAM_FACTOR),
            quantization=_METHODS.get(variant.precision),
            kv_layout_known=False,
            notes=(_("known by the recipe's figures only: layers and heads are not known"),),
        )
    from wizard.models.inspect import from_config

    info: ModelInfo = from_config(
        dict(facts.config),
        source=variant.model_id,
        repo_id=variant.model_id,
        weight_bytes=facts.weight_bytes,
        weight_source="recipe" if facts.weight_bytes else None,
    )
    known: dict[str, Any] = {
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
