"""Words for people of what the records of models hold in English."""

from __future__ import annotations

import re

from wizard.i18n import N_, _, listed

# Where a model was found.
ORIGINS = {
    "huggingface": N_("HF cache"),
    "modelscope": N_("ModelScope"),
    "lmstudio": N_("LM Studio"),
    "folder": N_("folder"),
    "gguf": N_("GGUF file"),
}


def origin_words(origin: str) -> str:
    return _(ORIGINS[origin]) if origin in ORIGINS else origin


def quant_words(detail: str) -> str:
    """How weights are stored ("4 bit, group 128"), in the language in use; names of formats stay as they are."""
    return listed(_part(part) for part in detail.split(", "))


def _part(part: str) -> str:
    for pattern, told in (
        (r"(\d+) bit float", _("{n} bit float")),
        (r"(\d+) bit", _("{n} bit")),
        (r"group (\d+)", _("group {n}")),
        (r"block (\d+x\d+)", _("block {n}")),
    ):
        found = re.fullmatch(pattern, part)
        if found:
            return told.format(n=found[1])
    return _(_PARTS[part]) if part in _PARTS else part


_PARTS = {"per channel": N_("per channel"), "mixed precision": N_("mixed precision")}
