"""The figures of ``fit_data/``: constants by release range, and GPUs by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

GIB = 2**30
MIB = 2**20
LATENT_SINCE = (0, 7, 1)  # vllm pull request 12528; before, vllm/model_executor/models/deepseek_v2.py pads heads to 256


@lru_cache(maxsize=4)
def _data(name: str) -> dict[str, Any]:
    from importlib.resources import files

    data: dict[str, Any] = json.loads(files("wizard").joinpath(f"fit_data/{name}").read_text(encoding="utf-8"))
    return data


def constants() -> dict[str, Any]:
    """The whole table of ``constants.json``."""
    return _data("constants.json")


@lru_cache(maxsize=256)
def version_key(release: str) -> tuple[int, ...]:
    """A release as numbers that compare: "0.11.1" -> (0, 11, 1). What is no number ("nightly") counts as newest."""
    numbers: list[int] = []
    for part in re.split(r"[.+-]", release.strip().lstrip("vV")):
        match = re.match(r"\d+", part)
        if match is None:
            break
        numbers.append(int(match.group()))
        if match.end() < len(part):
            break  # "2rc1": what follows is no release number
    return tuple(numbers[:4]) if numbers else (9999,)


@lru_cache(maxsize=512)
def _entry(key: str, release: str, runner: str | None) -> Mapping[str, Any]:
    asked = version_key(release)
    entries: list[dict[str, Any]] = [e for e in constants()[key] if runner is None or e.get("runner", runner) == runner]
    for entry in entries:
        first, last = entry.get("first"), entry.get("last")
        if (first is None or asked >= version_key(first)) and (last is None or asked <= version_key(last)):
            return entry
    # nothing holds (a runner older than its first release, say): the one that begins nearest
    return min(entries, key=lambda e: abs(version_key(e.get("first") or "0.0")[1] - (asked[1] if len(asked) > 1 else 0)))


def constant(key: str, release: str, runner: str | None = None) -> Mapping[str, Any]:
    """The entry of ``key`` that holds for ``release`` (and for that model runner, where it matters)."""
    return _entry(key, release, runner)


@dataclass(frozen=True)
class GpuModel:
    """What is known of a kind of GPU. ``total_bytes`` is what CUDA reports, less than the nominal size."""

    name: str
    total_bytes: int
    multiprocessors: int
    compute_capability: str | None
    nvlink: bool
    amd: bool = False


@lru_cache(maxsize=256)
def gpu_model(name: str) -> GpuModel | None:
    """The GPU that ``name`` ("NVIDIA GeForce RTX 4090", "4090", "H100-80GB") means, or None."""
    asked = re.sub(r"[\s_-]+", " ", name.lower()).strip()
    if not asked:
        return None
    best: tuple[int, dict[str, Any]] | None = None
    for entry in _data("gpus.json")["gpus"]:
        for pattern in entry["match"]:
            text = re.sub(r"[\s_-]+", " ", pattern)
            if re.search(rf"(?<![a-z0-9]){re.escape(text)}(?![a-z0-9])", asked) and (best is None or len(text) > best[0]):
                best = (len(text), entry)
    if best is None:
        return None
    entry = best[1]
    return GpuModel(entry["name"], int(entry["total_gib"] * GIB), entry["sms"], entry["cc"], entry["nvlink"], entry.get("amd", False))
