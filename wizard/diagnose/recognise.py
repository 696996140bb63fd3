"""Whether a text in which nothing failed is a log at all, or a poem, an empty file, somebody's notes."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wizard.diagnose.engine import Diagnosis
    from wizard.diagnose.reader import NumberedLines

_LOOKED_AT = 20_000  # lines from the beginning
# What vLLM, what it is made of, what starts it and what runs it write: one such line is enough.
_WORDS = re.compile(
    r"vllm|cuda|nvidia|nccl|\bgpus?\b|\btorch|transformers|hugging.?face|safetensors|uvicorn|fastapi|flashinfer|triton|"
    r"docker|podman|containerd?\b|systemd|kubelet|pulling (?:from|fs)|pull complete|digest: sha256|\bwsl\b|\brocm|"
    r"traceback|launch\.sh|engine.?core|throughput|tokens/s|it/s|loading (?:the )?(?:model|weights)|loaded (?:the )?model",
    re.IGNORECASE,
)
_SHAPES = re.compile(
    r"\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b|\d\d:\d\d:\d\d|\bpid[= ]\d+|\d{1,3}%\||\w(?:Error|Exception|Warning|Interrupt)\b|"
    r"^\s*File \"|\b[Kk]illed\b|\berror\s*:|^\S+: line \d+: |^[\w.-]+\s+\| "
)


def is_log(diagnosis: Diagnosis, lines: NumberedLines) -> bool:
    """Whether anything in it was written by vLLM or by a program around it."""
    if diagnosis.findings or diagnosis.ready or diagnosis.stage or diagnosis.release or diagnosis.command or diagnosis.wrappers:
        return True
    return any(_WORDS.search(row) or _SHAPES.search(row) for row in lines.lines[:_LOOKED_AT])
