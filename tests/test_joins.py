"""Parts put together into one text, with the punctuation of the language in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.widgets import TextArea

from tests.faces.tui_play import app_on, ready, until
from wizard import i18n
from wizard.faces import launching, writing
from wizard.faces.tui.paste import PasteDialog
from wizard.faces.tui.widgets import Panel
from wizard.launch.record import Record
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


def test_a_server_without_a_kept_address_is_told_by_its_port() -> None:
    kept = Record("1", "/home/user/vllm", "script", "m", 8391, 0.0, "serving")
    assert launching.address_words(kept) == "port 8391"
    assert launching.address_words(replace(kept, url="http://127.0.0.1:8391")) == "http://127.0.0.1:8391/v1"


@pytest.mark.usefixtures("chinese")
async def test_a_pasted_command_is_judged_in_chinese() -> None:
    app = app_on("wsl2-rtx4090-desktop")
    async with app.run_test(size=(100, 36)) as pilot:
        await ready(app, pilot)
        app.walk_screen.open_paste()
        await until(pilot, lambda: isinstance(app.screen, PasteDialog))
        await pilot.pause()
        app.screen.query_one("#paste-text", TextArea).text = "vllm serve m --attention-backend fastest"
        await pilot.press("tab")
        assert isinstance(app.screen, PasteDialog)
        app.screen.check()
        await pilot.pause()
        told = str(app.screen.query_one("#paste-report", Panel).visual)
        assert "随后无法启动" in told
        assert "值有误。vLLM" in told
