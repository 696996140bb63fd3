"""Chinese in the full-screen walk breaks between its characters, on every screen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich._wrap import divide_line as at_blanks
from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from tests.faces.tui_play import MACHINES, app_on, fake_app, ready
from wizard import i18n
from wizard.columns import breaks
from wizard.faces.tui import linebreaks, text
from wizard.faces.tui.dialogs import Reader
from wizard.host import open_host
from wizard.session import Answers, gather

FORBIDDEN_FIRST = "，。、；：！？）】」』》"
FORBIDDEN_LAST = "（【「『《"
SENTENCE = (
    "显存不足：请使用量化模型（例如 FP8），或将模型拆分到多块 GPU 上，再次启动服务器；其余参数保持不变。"
)


@pytest.fixture
def chinese() -> Iterator[None]:
    i18n.set_language("zh")
    yield
    i18n.set_language("en")


def lines_of(made: Content, width: int) -> list[str]:
    return [line.plain for line in made.wrap(width)]


def test_a_sentence_fills_its_lines() -> None:
    lines = lines_of(Content(SENTENCE), 30)
    assert "".join(lines).replace(" ", "") == SENTENCE.replace(" ", "")
    assert all(22 <= cell_len(line) <= 30 for line in lines[:-1]), lines
    assert not any(line[0] in FORBIDDEN_FIRST or line[-1] in FORBIDDEN_LAST for line in lines)


def test_styles_stay_with_their_words() -> None:
    made = Content.assemble(("显存不足", "bold"), "：请使用量化模型或者更短的上下文")
    first, *rest = made.wrap(10)
    assert first.plain == "显存不足："
    assert [(span.start, span.end) for span in first.spans] == [(0, 4)]
    assert not any(line.spans for line in rest)


@given(st.text("文字显a bC1。，（）“”…—-/.%🙂\u0301 "), st.integers(4, 40))
@example("字" * 30 + "。", 5)
@example("   字 字", 4)
@example("（（（（字））））", 6)
def test_no_line_is_too_wide_and_nothing_is_lost(said: str, width: int) -> None:
    offsets = linebreaks.divide_line(said, width)
    assert offsets == sorted(set(offsets))
    assert all(0 < at < len(said) for at in offsets)
    lines = [said[a:b] for a, b in zip([0, *offsets], [*offsets, len(said)], strict=True)]
    assert "".join(lines) == said
    assert all(cell_len(line.rstrip()) <= width for line in lines)
    assert all(line.strip() for line in lines[1:])


@given(st.text("文字显a bC1。，（）“”…—-/.% "), st.integers(12, 40))
def test_lines_break_where_chinese_may_break_and_no_earlier_than_they_must(said: str, width: int) -> None:
    allowed = {
        0,
        len(said),
        *breaks(said),
        *(n for n in range(1, len(said)) if said[n - 1] == " " != said[n]),
    }
    pieces = sorted(allowed)
    if any(cell_len(said[a:b].rstrip()) > width for a, b in pairwise(pieces)):
        return  # a piece that no line holds is broken anywhere
    offsets = linebreaks.divide_line(said, width)
    assert set(offsets) <= allowed
    for start, end in zip([0, *offsets], offsets, strict=False):
        following = next(at for at in pieces if at > end)
        assert cell_len(said[start:following].rstrip()) > width, (said[start:end], said[end:following])


@given(st.text("abc xyz-,.…é“”✓ ", max_size=80), st.integers(1, 40))
def test_other_text_is_left_to_textual(said: str, width: int) -> None:
    assert linebreaks.divide_line(said, width) == at_blanks(said, width)


def test_breaks_keep_accents_and_punctuation() -> None:
    assert breaks("か\u3099は") == [2]
    assert breaks("用（字）。") == [1]
    assert breaks("GPU的显存") == [3, 4, 5]
    assert breaks("“GPU”") == []


def ragged(lines: list[Content], width: int) -> list[tuple[str, str]]:
    """Lines that end although what follows them would still fit, or that Chinese forbids, each with the next."""
    wrong: list[tuple[str, str]] = []
    for line, after in pairwise(lines):
        ended, follows = line.plain.rstrip(), after.plain.strip()
        if not ended or not follows:
            continue
        piece = follows[: min([*breaks(follows), len(follows.split()[0])])]
        gap = int(ended[-1] not in FORBIDDEN_FIRST and (follows[0].isascii() or ended[-1].isascii()))
        if (
            follows[0] in FORBIDDEN_FIRST
            or ended[-1] in FORBIDDEN_LAST
            or cell_len(ended) + gap + cell_len(piece) <= width
        ):
            wrong.append((ended, follows))
    return wrong


def ragged_text(widget: Static) -> list[tuple[str, str]]:
    made = widget.visual
    assert isinstance(made, Content)
    width = widget.content_size.width
    return [bad for line in made.split("\n", allow_blank=True) for bad in ragged(line.wrap(width), width)]


def on_screen(root: Any) -> list[Static]:
    return [
        w
        for w in root.query(Static)
        if w.is_on_screen and w.content_size.width > 8 and isinstance(w.visual, Content)
    ]


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_a_screen_in_chinese_has_no_line_that_ends_early(size: tuple[int, int]) -> None:
    # Gathered here: what a machine says of itself is in the language that was spoken then.
    session = gather(open_host(MACHINES / "wsl2-rtx3060-model-on-d"), Answers())
    app = app_on("wsl2-rtx3060-model-on-d", prepared=session)
    async with app.run_test(size=size) as pilot:
        await ready(app, pilot)
        shown = on_screen(app.screen)
        assert any("内存" in str(w.visual) for w in shown)
        assert [bad for w in shown for bad in ragged_text(w)] == []
        # Lines that were folded beforehand are full as well.
        room = app.walk_screen.view.room()
        told = [item.detail for item in session.machine.problems]
        assert any("内存" in detail for detail in told)
        assert [bad for detail in told for bad in ragged(text.wrapped(detail, room, 2, text.DIM), room)] == []


@pytest.mark.usefixtures("chinese")
async def test_a_dialog_in_chinese_fills_its_lines() -> None:
    app = fake_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot)
        await app.push_screen(Reader("说明", Content(SENTENCE * 3)))
        await pilot.pause()
        box = app.screen.query_one("#reader-text", Static)
        assert ragged_text(box) == []
        shown = [box.render_line(y).text.rstrip() for y in range(box.content_size.height)]
        assert all(cell_len(line) >= box.content_size.width - 10 for line in shown[:2]), shown


def test_heights_are_counted_the_same_way() -> None:
    made = Content(SENTENCE)
    assert made.get_height({}, 30) == len(made.wrap(30)) <= cell_len(SENTENCE) // 26 + 1
