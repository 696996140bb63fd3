"""Published shapes: each family's count of parameters is the published one, and quantized copies are said to be rough."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from wizard.fit import GIB, FitRequest, fit
from wizard.models.inspect import from_published
from wizard.models.known import known

FAMILIES = json.loads(files("wizard").joinpath("models/known.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_parameters_are_the_published_ones(family: str) -> None:
    entry = FAMILIES[family]
    assert entry["source"]
    plain = [name for name, tags in entry["checkpoints"].items() if not tags] or list(entry["checkpoints"])
    info = from_published(plain[0])
    assert info is not None
    assert info.parameters == pytest.approx(entry["parameters"], rel=0.005)
    assert info.kv_layout_known
    assert info.kv_layers
    assert any("published" in note for note in info.notes)


def test_every_checkpoint_can_be_read() -> None:
    for entry in FAMILIES.values():
        for name in entry["checkpoints"]:
            info = from_published(name.upper())
            assert info is not None, name
            assert info.weight_bytes, name


def test_a_copy_that_others_quantized_gets_a_wide_interval() -> None:
    plain, rough = from_published("Qwen/Qwen3-235B-A22B-FP8"), from_published("nvidia/Qwen3-235B-A22B-Instruct-2507-NVFP4")
    assert plain is not None
    assert rough is not None
    request = FitRequest("0.33.0", int(139.8 * GIB), gpu_name="H200", tensor_parallel_size=4)
    exact, wide = fit(plain, request), fit(rough, request)
    assert wide.kv_cache_bytes.best - wide.kv_cache_bytes.low > 0.09 * wide.weights_bytes
    assert exact.kv_cache_bytes.best - exact.kv_cache_bytes.low < 0.06 * exact.weights_bytes
    assert any("estimated" in note for note in wide.notes)


def test_what_is_not_published_here_is_not_known() -> None:
    assert known("someone/unheard-of") is None
    assert from_published("someone/unheard-of") is None
