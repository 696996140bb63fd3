"""Lines and columns with wide characters."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.columns import GLUE, of_prose, pad, width, wrap

CHINESE = "显存不足：请使用量化模型，或将模型拆分到多块 GPU（例如 --tensor-parallel-size 2）。"


def test_widths() -> None:
    assert width("vLLM") == 4
    assert width("显存 8 GiB") == 10
    assert width("e\u0301") == 1
    assert pad("显存", 6) == "显存  "
    assert pad("wide enough", 3) == "wide enough"


def test_chinese_is_broken_between_characters_and_not_before_punctuation() -> None:
    lines = wrap(CHINESE, 32, "- ", "  ")
    assert all(width(line) <= 32 for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])
    assert not any(line.lstrip()[0] in "，。：）" for line in lines)
    assert not any(line.endswith("（") for line in lines)
    assert "".join(line[2:] for line in lines).replace(" ", "") == CHINESE.replace(" ", "")
    assert "--tensor-parallel-size" in " ".join(lines)


@given(st.lists(st.text("abc-", min_size=1, max_size=12)), st.integers(4, 40))
def test_words_are_wrapped_as_the_standard_library_does(words: list[str], columns: int) -> None:
    text = " ".join(words)
    assert wrap(text, columns, "- ", "  ") == textwrap.wrap(
        text, columns, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


@given(st.text("文字a b。（，）-"), st.integers(2, 30))
def test_nothing_is_lost(text: str, columns: int) -> None:
    assert "".join(wrap(text, columns)).replace(" ", "") == text.replace(" ", "")


def test_a_glued_blank_breaks_no_line() -> None:
    assert wrap(f"Watch: docker{GLUE}compose{GLUE}logs{GLUE}-f. Stop it.", 24) == ["Watch:", "docker compose logs -f.", "Stop it."]


@pytest.mark.parametrize(("room", "most"), [("40", 40), ("60", 60), ("120", 79), ("10", 40)])
def test_prose_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], room: str, most: int) -> None:
    from wizard.__main__ import main

    monkeypatch.setenv("COLUMNS", room)
    assert of_prose() == most
    for words in (["check", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--swap-space", "4"], ["help", "files"]):
        main(words)
        lines = [line for line in capfd.readouterr().out.splitlines() if line.strip() and not line.startswith("  vllm") and "/vllm-wizard/" not in line]
        assert lines
        assert max(map(width, lines)) <= most
