"""How the sizes of a batch have to go together: vLLM compares them before it loads anything."""

from __future__ import annotations

from wizard.i18n import _


def batch_conflict(max_num_batched_tokens: int | None, max_num_seqs: int | None) -> str | None:
    """Why vLLM stops at these two, both given explicitly; None where it does not.

    Every running sequence takes at least one token of a step, so a step must have room for all of them.
    """
    if max_num_batched_tokens is None or max_num_seqs is None or max_num_batched_tokens >= max_num_seqs:
        return None
    return _(
        "a step of {tokens} tokens has no room for {sequences} sequences: max-num-batched-tokens must be at least max-num-seqs"
    ).format(tokens=max_num_batched_tokens, sequences=max_num_seqs)
