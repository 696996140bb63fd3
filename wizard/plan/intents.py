"""What a server is for, and what follows from it. Figures are targets; the fit may lower them."""

from __future__ import annotations

from dataclasses import dataclass

from wizard.i18n import N_


@dataclass(frozen=True)
class Intent:
    key: str
    label: str
    note: str
    length: int | None  # tokens of one request that are aimed for; None: the model's own maximum
    seqs: int | None  # requests at once that are aimed for; None: vLLM's default
    images: int | None = None  # per request; None: not spoken of
    videos: int | None = None
    tools: bool = False
    needs: str = ""  # "image", "lora", "embed", "generate"


INTENTS: tuple[Intent, ...] = (
    Intent("chat", N_("Chat"), N_("one or a few people writing"), 16384, 16, needs="generate"),
    Intent(
        "agent",
        N_("Coding agent with tools"),
        N_("long prompts, tool calls"),
        65536,
        8,
        tools=True,
        needs="generate",
    ),
    Intent(
        "vision",
        N_("Images and video"),
        N_("pictures and short videos in the prompt"),
        16384,
        8,
        images=4,
        videos=1,
        needs="image",
    ),
    Intent(
        "image_only",
        N_("Images only"),
        N_("pictures in the prompt, and no video"),
        16384,
        8,
        images=4,
        videos=0,
        needs="image",
    ),
    Intent(
        "lora",
        N_("LoRA adapters"),
        N_("the base model with fine-tuned adapters"),
        16384,
        16,
        needs="generate",
    ),
    Intent(
        "embedding", N_("Embeddings"), N_("vectors for search, or a reranker"), None, None, needs="pooling"
    ),
    Intent("longest", N_("Longest context"), N_("one request as long as fits"), None, 1, needs="generate"),
    Intent(
        "throughput", N_("Most throughput"), N_("many short requests at once"), 8192, 256, needs="generate"
    ),
)
BY_KEY = {i.key: i for i in INTENTS}


def possible(task: str, modalities: tuple[str, ...]) -> tuple[Intent, ...]:
    """The intents that a model can serve."""
    if task in ("embed", "rerank", "classify"):
        return (BY_KEY["embedding"],)
    if task == "transcribe":
        return (BY_KEY["throughput"], BY_KEY["chat"])
    return tuple(
        i for i in INTENTS if i.needs == "generate" or (i.needs == "image" and "image" in modalities)
    )


def media_limit(intent: Intent, kind: str) -> int:
    """How many images or videos one request may bring: as the purpose asks, else as few as may be."""
    asked = intent.images if kind == "image" else intent.videos
    if asked is not None:
        return asked
    return 1 if kind == "image" else 0
