"""Which of vLLM's tool-call and reasoning parsers fits a model family, and what a model is for.

The parser names are those of vLLM's own registries; the pairing follows vLLM's documentation of tool calling and
reasoning outputs (https://docs.vllm.ai/en/latest/features/tool_calling.html, .../reasoning_outputs.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# (beginning of model_type, part of the name in lower case or "", tool parser, reasoning parser); first match wins
_PARSERS: tuple[tuple[str, str, str | None, str | None], ...] = (
    ("qwen3_next", "thinking", "hermes", "qwen3"),
    ("qwen3_next", "coder", "qwen3_coder", None),
    ("qwen3_next", "", "hermes", None),
    ("qwen3_5", "", "qwen3_coder", "qwen3"),
    ("qwen3_vl", "thinking", "hermes", "qwen3"),
    ("qwen3_vl", "", "hermes", None),
    ("qwen3", "coder", "qwen3_coder", None),
    ("qwen3", "instruct-2507", "hermes", None),
    ("qwen3", "embedding", None, None),
    ("qwen3", "reranker", None, None),
    ("qwen3", "deepseek-r1", None, "deepseek_r1"),
    ("qwen3", "", "hermes", "qwen3"),
    ("qwen2", "qwq", "hermes", "deepseek_r1"),
    ("qwen2", "deepseek-r1", None, "deepseek_r1"),
    ("qwen2", "", "hermes", None),
    ("gpt_oss", "", "openai", "openai_gptoss"),
    ("llama4", "", "llama4_pythonic", None),
    ("llama", "deepseek-r1", None, "deepseek_r1"),
    ("llama", "hermes", "hermes", None),
    ("llama", "nemotron", "llama3_json", None),
    ("llama", "3.", "llama3_json", None),
    ("gemma4", "", "gemma4", "gemma4"),
    ("gemma3", "function", "functiongemma", None),
    ("mistral3", "magistral", "mistral", "mistral"),
    ("mistral", "reasoning", "mistral", "mistral"),
    ("mistral", "magistral", "mistral", "mistral"),
    ("ministral3", "reasoning", "mistral", "mistral"),
    ("mistral", "", "mistral", None),
    ("ministral", "", "mistral", None),
    ("mixtral", "", "mistral", None),
    ("deepseek_v32", "", "deepseek_v32", "deepseek_v3"),
    ("deepseek_v3", "r1", "deepseek_v3", "deepseek_r1"),
    ("deepseek_v3", "v3.1", "deepseek_v31", "deepseek_v3"),
    ("deepseek_v3", "", "deepseek_v3", None),
    ("kimi_k2", "thinking", "kimi_k2", "kimi_k2"),
    ("kimi_k2", "", "kimi_k2", None),
    ("kimi_k25", "", "kimi_k2", "kimi_k2"),
    ("glm4v_moe", "", "glm45", "glm45"),
    ("glm4v", "", "glm45", "glm45"),
    ("glm4_moe", "4.7", "glm47", "glm45"),
    ("glm4_moe", "", "glm45", "glm45"),
    ("glm_moe_dsa", "", "glm47", "glm45"),
    ("minimax_m2", "", "minimax_m2", "minimax_m2"),
    ("granitemoehybrid", "", "granite4", None),
    ("granite", "", "granite", "granite"),
    ("ernie4_5", "", "ernie45", "ernie45"),
    ("seed_oss", "", "seed_oss", "seed_oss"),
    ("hunyuan", "", "hunyuan_a13b", "hunyuan_a13b"),
    ("step3", "", "step3", "step3"),
    ("olmo3", "", "olmo3", "olmo3"),
    ("nemotron_h", "nano-9b", "nemotron_json", "nemotron_v3"),
    ("nemotron_h", "", "qwen3_coder", "nemotron_v3"),
    ("phi4", "mini", "phi4_mini_json", None),
    ("phi3", "phi-4-mini", "phi4_mini_json", None),
    ("internlm", "", "internlm", None),
    ("jamba", "", "jamba", None),
    ("longcat", "", "longcat", None),
    ("lfm2", "", "lfm2", None),
    ("exaone4", "", "hermes", "deepseek_r1"),
    ("mimo", "", "hermes", "qwen3"),
    ("bailing_moe", "", None, None),
)


def parsers(model_type: str, name: str) -> tuple[str | None, str | None]:
    """(tool-call parser, reasoning parser) for a family; None where none is known to fit."""
    low = name.lower()
    for prefix, part, tool, reasoning in _PARSERS:
        if model_type.startswith(prefix) and part in low:
            return tool, reasoning
    return None, None


_TRANSCRIBERS = ("WhisperForConditionalGeneration", "VoxtralForConditionalGeneration", "VoxtralRealtimeGeneration", "CohereAsrForConditionalGeneration")


def task_of(architecture: str, config: Mapping[str, Any], name: str, sentence_files: bool) -> str:
    """What vLLM would serve the model as: "generate", "embed", "rerank", "classify", "transcribe"."""
    low = name.lower()
    if architecture in _TRANSCRIBERS or ("ASR" in architecture and "Token" not in architecture):
        return "transcribe"
    if "rerank" in low or "ForRanking" in architecture:
        return "rerank"
    if "SequenceClassification" in architecture:
        labels = config.get("num_labels", len(config.get("id2label") or ()) or 0)
        return "rerank" if labels == 1 else "classify"
    if "TokenClassification" in architecture or "RewardModel" in architecture:
        return "classify"
    if architecture.endswith("Model") and not architecture.endswith("LMHeadModel") and architecture not in ("ChatGLMModel", "InternVLChatModel"):
        return "embed"
    if architecture.endswith(("ForMaskedLM", "ForRetrieval")) or "Embedding" in architecture:
        return "embed"
    if sentence_files or "embed" in low:
        return "embed"
    return "generate"
