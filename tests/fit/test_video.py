"""Video in the profiling run: one kind of item only, the one with the most tokens, is laid out at the start."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.fit.published import MIMO_VL_7B
from wizard.fit import fit, ways_out
from wizard.fit_types import FitRequest
from wizard.models.info import ModelInfo
from wizard.models.inspect import from_config

GIB = 1 << 30
QWEN3_VL: dict[str, Any] = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "torch_dtype": "bfloat16", "image_token_id": 151655, "video_token_id": 151656,
    "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 9728, "vocab_size": 151936, "max_position_embeddings": 262144, "tie_word_embeddings": True,
    },
    "vision_config": {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
                      "out_hidden_size": 2560, "model_type": "qwen3_vl"},
}  # fmt: skip


def info_of(config: dict[str, Any]) -> ModelInfo:
    return from_config(config, source="x/y")


def peak(config: dict[str, Any], length: int, **limits: int) -> int:
    request = FitRequest("0.32.0", 80 * GIB, gpu_name="H100", compute_capability="9.0", max_model_len=length, limit_mm_per_prompt=limits or None)
    return fit(info_of(config), request).activation_bytes


def test_a_long_context_makes_room_for_a_long_video() -> None:
    short, middle, long = (peak(MIMO_VL_7B, n, image=1, video=1) for n in (16_384, 65_536, 128_000))
    assert short < middle < long
    # seven pairs of frames are the most that is laid out
    assert peak(MIMO_VL_7B, 128_000, image=1, video=1) == peak(MIMO_VL_7B, 120_000, image=1, video=1)


@pytest.mark.parametrize("length", [8_192, 16_384, 128_000])
def test_without_video_the_length_changes_nothing(length: int) -> None:
    assert peak(MIMO_VL_7B, length, image=1, video=0) == peak(MIMO_VL_7B, 8_192, image=1, video=1)


def test_a_model_whose_video_is_smaller_than_its_picture_starts_alike() -> None:
    assert peak(QWEN3_VL, 131_072, image=1, video=1) == peak(QWEN3_VL, 131_072, image=1, video=0)


def test_video_that_is_not_spoken_of_is_allowed() -> None:
    assert peak(MIMO_VL_7B, 128_000) == peak(MIMO_VL_7B, 128_000, image=1, video=1)
    assert peak(MIMO_VL_7B, 128_000, image=1) == peak(MIMO_VL_7B, 128_000, image=1, video=1)


def test_video_alone_is_laid_out_too() -> None:
    assert peak(MIMO_VL_7B, 8_192, image=0, video=1) > peak(MIMO_VL_7B, 8_192, image=0, video=0)


def test_a_way_out_is_to_leave_video_out() -> None:
    request = FitRequest("0.32.0", 32 * GIB, gpu_name="RTX 5090", compute_capability="12.0", max_model_len=98_304, max_num_seqs=4)
    info = info_of(MIMO_VL_7B)
    assert not fit(info, request).fits
    found = next(w for w in ways_out(info, request, most=9) if w.kind == "no_video")
    assert '"video": 0' in found.changes["limit_mm_per_prompt"]
    length = int(found.changes.get("max_model_len", request.max_model_len or 0))
    assert fit(info, replace(request, limit_mm_per_prompt={"video": 0}, max_model_len=length)).fits


def test_the_longest_context_is_one_with_its_own_video() -> None:
    info = info_of(MIMO_VL_7B)
    request = FitRequest("0.32.0", 24 * GIB, gpu_name="RTX 4090", compute_capability="8.9", max_num_seqs=4)
    longest = {fit(info, replace(request, max_model_len=n)).max_model_len_that_fits for n in (8_192, 40_000, 128_000)}
    assert len(longest) == 1
    most = longest.pop() or 0
    assert fit(info, replace(request, max_model_len=most)).fits
    assert not fit(info, replace(request, max_model_len=most + 2_048)).fits
