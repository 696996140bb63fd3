"""What people give as a model: the address of its page, a path as Windows writes it."""

from __future__ import annotations

import pytest

from tests.plan.conftest import bare
from wizard.session import id_of_page, model_named

ON_D = "wsl2-rtx3060-model-on-d"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("https://huggingface.co/Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B-AWQ"),
        ("https://huggingface.co/Qwen/Qwen3-8B/tree/main?x=1", "Qwen/Qwen3-8B"),
        ("https://hf-mirror.com/Qwen/Qwen3-8B ", "Qwen/Qwen3-8B"),
        ("https://www.modelscope.cn/models/Qwen/Qwen3-8B/summary", "Qwen/Qwen3-8B"),
        ("https://huggingface.co/datasets/a/b", "https://huggingface.co/datasets/a/b"),
        ("https://huggingface.co/docs/transformers", "https://huggingface.co/docs/transformers"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("https://evil.example/huggingface.co/a/b", "https://evil.example/huggingface.co/a/b"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("/mnt/d/models/x", "/mnt/d/models/x"),
        ("", ""),
    ],
)
def test_the_address_of_a_page_is_its_repository(given: str, named: str) -> None:
    assert id_of_page(given) == named


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (r"D:\models\Qwen3-VL-4B-Instruct-FP8", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8"),
        ("d:/models/x y", "/mnt/d/models/x y"),
        ("D:\\", "/mnt/d/"),
        (r"Z:\models", r"Z:\models"),
        ("Dx:/y", "Dx:/y"),
    ],
)
def test_a_path_of_windows_is_the_mounted_one(given: str, named: str) -> None:
    assert model_named(given, bare(ON_D).machine) == named


def test_on_windows_itself_a_path_stays() -> None:
    assert model_named(r"D:\models\x", bare("windows-rtx4070").machine) == r"D:\models\x"
