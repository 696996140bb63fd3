"""Parts put together into one text, with the punctuation of the language in use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wizard import i18n
from wizard.faces import writing
from wizard.models.words import origin_words, quant_words
from wizard.plan_types import Step
from wizard.probes import summaries


@pytest.fixture
def chinese() -> Iterator[None]:
    i18n.set_language("zh")
    yield
    i18n.set_language("en")


def test_joins_in_english() -> None:
    assert i18n.listed(["a", "b"]) == "a, b"
    assert i18n.listed([]) == ""
    assert i18n.clauses(["a", "b"]) == "a; b"
    assert i18n.labelled("a", "b") == "a: b"
    assert i18n.bracketed("a", "b") == "a (b)"
    assert i18n.sentences("A.", "", "B.") == "A. B."


@pytest.mark.usefixtures("chinese")
def test_joins_in_chinese() -> None:
    assert i18n.listed(["甲", "乙"]) == "甲，乙"
    assert i18n.clauses(["甲", "乙"]) == "甲；乙"
    assert i18n.labelled("甲", "乙") == "甲：乙"
    assert i18n.bracketed("甲", "乙") == "甲（乙）"
    assert i18n.sentences("甲。", "乙。") == "甲。乙。"


@pytest.mark.usefixtures("chinese")
def test_words_of_models_in_chinese() -> None:
    assert origin_words("folder") == "文件夹"
    assert origin_words("somewhere new") == "somewhere new"
    assert quant_words("4 bit, group 128") == "4 位，分组 128"
    assert quant_words("8 bit float, block 128x128") == "8 位浮点，分块 128x128"
    assert quant_words("INT8, per channel") == "INT8，逐通道"
    assert quant_words("NVFP4") == "NVFP4"


def test_words_of_models_in_english_are_what_the_records_hold() -> None:
    for detail in ("4 bit, group 128", "8 bit float", "8 bit float, block 128x128", "INT8, per channel", "Q4_K_M", ""):
        assert quant_words(detail) == detail


@pytest.mark.usefixtures("chinese")
def test_what_is_to_be_typed_next_in_chinese() -> None:
    told = writing.next_steps([Step("让 WSL2 应用新的设置", ("wsl --shutdown",), "powershell"), Step("完成", ())])
    assert told.startswith("1. 让 WSL2 应用新的设置（在 Windows 的 PowerShell 中）：\n")
    assert told.endswith("2. 完成。\n")


def test_what_is_to_be_typed_next_in_english() -> None:
    told = writing.next_steps([Step("Apply it.", ("wsl --shutdown",), "powershell"), Step("Done", ())])
    assert told == "1. Apply it (in PowerShell on Windows):\n     wsl --shutdown\n2. Done.\n"


@pytest.mark.usefixtures("chinese")
def test_ports_are_told_so_that_none_is_understood() -> None:
    assert summaries.ports_line(frozenset()) == "均空闲"
    assert summaries.ports_line(frozenset((22, 8000))) == "占用：22, 8000"
