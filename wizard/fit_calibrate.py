"""Figures of memory from a vLLM start-up log, held against a prediction and kept per machine.

The lines are those that vLLM prints from 0.4 to 0.33: "Model loading took", "Available KV cache memory", "GPU KV
cache size", the profiling line of the debug level, and the summary after CUDA graphs.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from wizard.fit_constants import GIB
from wizard.fit_store import CACHE_KEY, KEPT_S, Calibrations, parse
from wizard.fit_types import Calibration, FitRequest, FitResult
from wizard.host import Host
from wizard.i18n import _

MAX_LOG_CHARS = 64 * 2**20
GOOD_PERCENT = 3.0


@dataclass(frozen=True)
class LogFigures:
    """What a log tells. Sizes in bytes, of the first worker that prints them (rank 0)."""

    release: str | None = None
    model: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)  # the "non-default args" that it was started with
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    cuda_graph_bytes: int | None = None  # the estimate that is taken from the pool
    cuda_graph_actual_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    concurrency: float | None = None
    total_bytes: int | None = None
    budget_bytes: int | None = None
    utilization: float | None = None
    longest: int | None = None  # "the estimated maximum model length is"
    cpu: bool = False

    @property
    def empty(self) -> bool:
        return self.weights_bytes is None and self.kv_cache_bytes is None and self.kv_cache_tokens is None and self.longest is None


_NUMBER = r"([0-9][0-9,]*\.?[0-9]*)"
_PATTERNS: dict[str, tuple[str, ...]] = {
    "weights": (rf"Model loading took {_NUMBER} (?:GiB|GB)", rf"Loading model weights took {_NUMBER} ?(?:GiB|GB)", rf"model weights take\s+{_NUMBER} ?GiB"),
    "activation": (rf"torch peak memory increase: {_NUMBER} ?GiB", rf"{_NUMBER} GiB for peak activation", rf"PyTorch activation peak memory(?: takes)?\s+{_NUMBER} ?GiB"),
    "non_torch": (rf"non-torch forward increase memory: {_NUMBER} ?GiB", rf"{_NUMBER} GiB for non-torch memory", rf"non_torch_memory(?: takes)?\s+{_NUMBER} ?GiB"),
    "consumed": (rf"total consumed \(from mem_get_info\): {_NUMBER} ?GiB", rf"{_NUMBER} GiB for consumed memory"),
    "graph": (rf"Estimated CUDA graph memory: {_NUMBER} GiB", rf"\(actual\), {_NUMBER} GiB \(estimated\)"),
    "graph_actual": (rf"CUDA graph pool memory: {_NUMBER} GiB \(actual\)", rf"Graph capturing finished in \d+ secs, took {_NUMBER} GiB"),
    "kv": (rf"Available KV cache memory: {_NUMBER} GiB", rf"the rest of the memory reserved for KV Cache is {_NUMBER} ?GiB", rf"available_kv_cache_memory\s+{_NUMBER} ?GiB"),
    "tokens": (rf"KV cache size: {_NUMBER} tokens",),
    "blocks": (rf"# (?:GPU|cuda) blocks: {_NUMBER}",),
    "concurrency": (rf"Maximum concurrency for [0-9,]+ tokens per request: {_NUMBER}x",),
    "total": (rf"total_memory={_NUMBER} ?GiB", rf"total_gpu_memory \({_NUMBER} ?GiB\)", rf"total_gpu_memory\s+{_NUMBER} ?GiB", rf"Free memory on device(?: cuda:\d+)? \([0-9.]+/{_NUMBER} GiB\)"),
    "budget": (rf"Requested memory: [0-9.]+ \(util\), {_NUMBER} GiB", rf"memory utilization is \([0-9.]+, {_NUMBER} GiB\)", rf"worker requested memory: {_NUMBER} ?GiB", rf"can use\s+{_NUMBER} ?GiB", rf"\) = {_NUMBER} ?GiB"),
    "longest": (rf"estimated maximum model length is {_NUMBER}", rf"can be stored in KV cache \({_NUMBER}\)"),
    "cpu_pool": (rf"(?:Explicitly|Auto) set \({_NUMBER}/[0-9.]+\) GiB for KV cache",),
}  # fmt: skip
_COMPILED = {key: tuple(re.compile(p) for p in patterns) for key, patterns in _PATTERNS.items()}
_RELEASE = re.compile(r"(?:vLLM API server version|V[01] LLM engine \(v|LLM engine \(v|\bversion)\s*v?(\d+\.\d+(?:\.\d+)?(?:\.post\d+|rc\d+)?)")
_MODEL = re.compile(r"with config: (?:VllmConfig\()?model(?:_config)?='([^']+)'")


def read_log(text: str) -> LogFigures:
    """The figures of a start-up log; fields that it does not hold are None. Never raises."""
    text = _clean(text[:MAX_LOG_CHARS])

    def number(key: str) -> float | None:
        for pattern in _COMPILED[key]:
            match = pattern.search(text)
            if match:
                try:
                    return float(match.group(1).replace(",", ""))
                except ValueError:
                    continue
        return None

    def size(key: str) -> int | None:
        value = number(key)
        return int(value * GIB) if value is not None else None

    arguments = _arguments(text)
    release = _RELEASE.search(text)
    model = _MODEL.search(text)
    tokens, blocks = number("tokens"), number("blocks")
    if tokens is None and blocks is not None:
        tokens = blocks * 16
    weights, consumed, non_torch = size("weights"), size("consumed"), size("non_torch")
    if non_torch is None and consumed is not None and weights is not None:
        non_torch = max(0, consumed - weights)
    utilization = arguments.get("gpu_memory_utilization")
    longest = number("longest")
    pool = size("kv")
    cpu_pool = size("cpu_pool")
    return LogFigures(
        release=release.group(1) if release else None,
        model=model.group(1) if model else _text(arguments.get("model") or arguments.get("model_tag")),
        arguments=arguments, weights_bytes=weights, activation_bytes=size("activation"), non_torch_bytes=non_torch, cuda_graph_bytes=size("graph"),
        cuda_graph_actual_bytes=size("graph_actual"), kv_cache_bytes=pool if pool is not None else cpu_pool, kv_cache_tokens=int(tokens) if tokens is not None else None,
        concurrency=number("concurrency"), total_bytes=size("total"), budget_bytes=size("budget"),
        utilization=float(utilization) if isinstance(utilization, (int, float)) and not isinstance(utilization, bool) else None,
        longest=int(longest) if longest is not None else None, cpu=cpu_pool is not None,
    )  # fmt: skip


def _clean(text: str) -> str:
    """Without colour codes and carriage returns."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _arguments(text: str) -> dict[str, Any]:
    match = re.search(r"non-default args: (\{.*\})", text)
    if match is None:
        return {}
    try:
        found = ast.literal_eval(match.group(1))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


# --- solving -------------------------------------------------------------------------------------------------


def solve(figures: LogFigures, request: FitRequest, predicted: FitResult) -> Calibration:
    """What the log tells of this machine: measured figures, and the activation peak solved from the rest.

    Budget = weights + activation + outside PyTorch + CUDA graphs + pool: with one of them unknown it follows.
    """
    budget = figures.budget_bytes or predicted.budget_bytes
    graphs = figures.cuda_graph_bytes if predicted.cuda_graph_bytes else 0
    if graphs is None:
        graphs = predicted.cuda_graph_bytes
    activation = figures.activation_bytes
    if activation is None and figures.weights_bytes is not None and figures.kv_cache_bytes is not None and not figures.cpu and request.kv_cache_memory_bytes is None:
        outside = figures.non_torch_bytes if figures.non_torch_bytes is not None else predicted.non_torch_bytes
        rest = budget - figures.weights_bytes - graphs - figures.kv_cache_bytes - outside
        activation = rest if rest > 0 else None
    return Calibration(
        release=figures.release or request.release, model=figures.model or "", weights_bytes=figures.weights_bytes, activation_bytes=activation,
        non_torch_bytes=figures.non_torch_bytes, cuda_graph_bytes=figures.cuda_graph_bytes, kv_cache_bytes=figures.kv_cache_bytes, kv_cache_tokens=figures.kv_cache_tokens,
        activation_predicted_bytes=predicted.activation_bytes or None, max_num_seqs=predicted.max_num_seqs, max_num_batched_tokens=predicted.max_num_batched_tokens,
    )  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """One figure of the log beside the predicted one. ``unit``: "GiB" or "tokens"."""

    key: str
    logged: float
    predicted: float
    unit: str

    @property
    def percent(self) -> float:
        return (self.predicted / self.logged - 1) * 100 if self.logged else 0.0


def compare(figures: LogFigures, predicted: FitResult) -> list[Comparison]:
    """Every figure that both sides tell."""
    pairs: list[tuple[str, float | None, float, str]] = [
        ("weights", figures.weights_bytes, predicted.weights_bytes, "GiB"),
        ("activation", figures.activation_bytes, predicted.activation_bytes, "GiB"),
        ("non_torch", figures.non_torch_bytes, predicted.non_torch_bytes, "GiB"),
        ("cuda_graph", figures.cuda_graph_bytes if predicted.cuda_graph_bytes else None, predicted.cuda_graph_bytes, "GiB"),
        ("kv_cache", figures.kv_cache_bytes, predicted.kv_cache_bytes.best, "GiB"),
        ("kv_cache_tokens", figures.kv_cache_tokens, predicted.kv_cache_tokens.best, "tokens"),
    ]
    out = []
    for key, logged, ours, unit in pairs:
        if logged is not None:
            scale = GIB if unit == "GiB" else 1
            out.append(Comparison(key, logged / scale, ours / scale, unit))
    return out


def verdict(pairs: list[Comparison]) -> tuple[bool, str]:
    """(match, in words): whether log and prediction agree where it counts, on weights and the pool."""
    by_key = {p.key: p for p in pairs}
    decisive = [by_key[k] for k in ("weights", "kv_cache", "kv_cache_tokens") if k in by_key]
    if not decisive:
        return False, _("the log holds no figure of memory that can be compared")
    worst = max(decisive, key=lambda p: abs(p.percent))
    if abs(worst.percent) <= GOOD_PERCENT:
        return True, _("log and prediction match: the largest difference is {percent:.1f} %").format(percent=abs(worst.percent))
    return False, _("log and prediction differ by {percent:+.1f} % ({what}): the figures of the log are used from now on").format(percent=worst.percent, what=worst.key)


# --- keeping -------------------------------------------------------------------------------------------------


def load_all(host: Host) -> Calibrations:
    """All that was measured on this machine."""
    return parse(host.cache_get(CACHE_KEY, KEPT_S))


def load(host: Host, request: FitRequest, model: str) -> Calibration | None:
    """The calibration kept for this kind of GPU, release, model and split; None when there is none."""
    return load_all(host).find(request, model)


def save(host: Host, request: FitRequest, model: str, calibration: Calibration) -> None:
    """Keep a calibration for this machine."""
    host.cache_put(CACHE_KEY, load_all(host).with_entry(request, model, calibration).text())
