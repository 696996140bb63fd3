"""Measured start-ups of vLLM, from public reports: what the arithmetic is held against.

Source of the H100 rows: llm-d-incubation/llm-d-planner, ``accuracy/accuracy_report.md`` (0.15 to 0.19) and
``docs/empirical-vllm-memory-results.md`` (0.11); pools of rows that state none follow from budget - weights -
activation - outside PyTorch, as vLLM computes them. The others name their thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    model: str
    release: str
    utilization: float
    weights: float | None = None
    activation: float | None = None
    outside: float | None = None
    pool: float | None = None
    tokens: int | None = None
    tp: int = 1
    pp: int = 1
    length: int = 8192
    gpu: str = "NVIDIA H100 80GB HBM3"
    total: float = 79.19
    more: dict[str, Any] = field(default_factory=dict)
    source: str = "llm-d-planner accuracy report"


def _h100(model: str, activation: float, outside: float, weights: float | None = None, pool: float | None = None, **more: Any) -> Row:
    flags = {k: more.pop(k) for k in list(more) if k in ("dtype", "quantization")}
    utilization = more.pop("utilization", 0.95)
    if pool is None and weights is not None and more.get("pp", 1) == 1:
        pool = 79.19 * utilization - weights - activation - outside
    return Row(model, "0.19.0", utilization, weights, activation, outside, pool, more=flags, **more)


H100_0_19 = (
    _h100("Qwen2.5-7B", 2.21, 0.24, 14.25, 58.53, tokens=1_096_000),
    _h100("Qwen2.5-7B", 2.21, 2.06, 7.12, tp=2),
    _h100("Qwen2.5-7B", 2.21, 2.13, 3.55, tp=4),
    _h100("Qwen3-30B-A3B", 2.68, 0.27),
    _h100("Qwen3-8B", 2.21, 0.25, 15.27),
    _h100("CodeLlama-7b", 0.77, 0.25),
    _h100("DeepSeek-V2-Lite", 1.93, 0.26),
    _h100("gemma-2-27b", 3.66, 0.26),
    _h100("gemma-2-2b", 3.62, 0.24),
    _h100("gemma-3-12b", 3.94, 0.25, 23.31, 47.72, tokens=130_304),
    _h100("gemma-3-27b", 3.99, 0.26),
    _h100("gemma-3-4b", 3.89, 0.25),
    _h100("gemma-7b", 3.63, 0.25),
    _h100("granite-3.1-2b", 0.75, 0.46),
    _h100("granite-3.1-8b", 0.85, 0.46),
    _h100("granite-vision-3.3-2b", 0.79, 0.25),
    _h100("Llama-3.1-8B", 1.89, 0.25, 14.99, 58.11, tokens=476_000),
    _h100("Llama-3.1-8B", 1.89, 2.07, 7.51, tp=2),
    _h100("Llama-3.1-8B", 1.89, 2.13, 3.77, tp=4),
    _h100("Llama-3.1-8B", 2.21, 0.25, 29.98, 42.80, dtype="float32"),
    _h100("Llama-3.1-8B", 1.89, 0.25, 8.49, 64.61, quantization="fp8"),
    _h100("phi-4", 1.52, 0.25),
    _h100("phi-2", 0.79, 0.24, length=2048),
    _h100("Mistral-Small-3.1", 2.03, 0.25),
    _h100("Mistral-Small-3.1-w8a8", 2.18, 0.26),
    _h100("Mistral-Small-3.1-w8a8", 2.03, 2.07, tp=2),
    _h100("Qwen1.5-MoE", 2.47, 0.25),
    _h100("Kimi-VL-A3B", 2.92, 0.25),
    _h100("Kimi-VL-A3B", 2.85, 2.07, tp=2),
    _h100("MiMo-VL-7B", 2.49, 0.25),
    _h100("Mixtral-8x7B", 1.21, 2.07, tp=2),
    _h100("gpt-oss-20b", 2.87, 2.07, 7.00, tp=2, utilization=0.9),
    _h100("Llama-4-Scout", 3.19, 2.17, tp=4),
    _h100("Qwen2.5-72B", 2.29, 2.09, tp=2),
    _h100("Llama-3.3-70B-FP8", 1.96, 2.10, tp=2),
    _h100("Llama-3.3-70B-w8a8", 1.96, 2.11, tp=2),
    _h100("Llama-3.1-8B-w4a16", 1.89, 0.25),
    _h100("Qwen2.5-7B-fp8", 2.21, 0.24),
)
H100_0_11 = (
    Row("gpt-oss-20b", "0.11.0", 0.9, 13.47, 7.38, 0.13, 50.28, length=16000, total=79.18),
    Row("Llama-3.3-70B-FP8", "0.11.0", 0.9, 33.88, 4.84, 0.55, 32.0, tp=2, length=16000, total=79.18),
    Row("Llama-3.1-8B", "0.11.0", 0.9, 14.99, 4.76, 0.13, 51.38, length=16000, total=79.18),
    Row("Qwen3-0.6B", "0.11.0", 0.9, 1.12, 5.56, 0.13, 64.45, length=16000, total=79.18),
    Row("Qwen3-32B", "0.11.0", 0.9, 61.03, 5.64, 0.14, 4.45, length=16000, total=79.18),
    Row("Qwen3-32B", "0.11.0", 0.9, 30.59, 5.64, 0.54, 34.49, tp=2, length=16000, total=79.18),
)
H100_VERSIONS = (
    Row("Qwen3-14B", "0.15.0", 0.95, 27.52, 5.64, 0.13, 41.94),
    Row("Qwen3-14B", "0.16.0", 0.95, 27.52, 5.64, 0.13, 41.94),
    Row("Qwen3-14B", "0.17.0", 0.95, 27.52, 2.23, 0.13, 45.34),
    Row("Qwen3-14B", "0.18.0", 0.95, 27.52, 2.23, 0.25, 45.23),
)
OTHERS = (
    Row("Llama-3.1-8B", "0.6.4", 0.9, 14.9888, None, 0.35, 3.81, 31_232, length=20_000, gpu="RTX 3090", total=23.58, source="vllm issue 10517"),
    Row("Llama-3.1-8B", "0.6.4", 0.9, 14.9888, None, 0.35, 2.89, 23_648, length=29_000, gpu="RTX 3090", total=23.58, source="vllm issue 10517"),
    Row("Llama-3-8B", "0.6.4", 0.9, 14.96, 1.26, 1.79, 53.29, gpu="H100", total=79.22, source="vllm pull request 10511"),
    Row("Llama-3-8B", "0.22.0", 0.92, pool=15.41, tp=4, gpu="L4", total=22.04, source="djl-serving pull request 3055"),
    Row("Llama-3-8B", "0.23.0", 0.92, pool=16.19, tp=4, gpu="L4", total=22.04, source="djl-serving pull request 3055"),
    Row("Qwen3-8B", "0.21.0", 0.9764, pool=6.37, tokens=46_368, length=16_384, gpu="RTX 4090", total=23.52, source="LMCache issue 3430"),
    Row("Qwen3.8-27B-FP8", "0.27.1", 0.92, pool=4.99, tokens=302_921, tp=2, length=131_072, gpu="RTX 3090", total=23.58, more={"kv_cache_dtype": "fp8_e4m3"},
        source="talos-argocd-proxmox pull request 1995"),
)  # fmt: skip
ROWS = (*H100_0_19, *H100_0_11, *H100_VERSIONS, *OTHERS)
