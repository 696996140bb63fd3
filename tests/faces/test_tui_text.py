"""The walk without a screen: texts, shares of the memory bar, colours, kept answers, the state behind it."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from tests.faces import tui_fake
from wizard.errors import BadInput
from wizard.faces import resume
from wizard.faces.tui import look, text
from wizard.faces.tui.walk import Walk, same
from wizard.session import Answers, Layer, load_answers

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Mn", "Me", "Cf")), max_size=60)


# -- texts ------------------------------------------------------------------------------------------------------


@given(words, st.integers(1, 40))
def test_clipped_and_padded_texts_keep_the_columns(told: str, width: int) -> None:
    assert cell_len(text.clip(told, width)) <= width
    assert cell_len(text.pad(told, width)) == width
    assert cell_len(text.clip_left(told, width)) <= max(width, 1)
    assert cell_len(text.clip_middle(told, width)) <= width


def test_the_middle_goes_so_that_variants_can_be_told_apart() -> None:
    assert text.clip_middle("Qwen3-VL-4B-Instruct-FP8", 17) != text.clip_middle("Qwen3-VL-4B-Thinking-FP8", 17)
    assert text.clip_middle("short", 17) == "short"


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=6), st.integers(8, 200))
def test_the_parts_of_the_bar_fill_it(sizes: list[float], cells: int) -> None:
    counts = text.shares(sizes, cells)
    assert all(n >= 0 for n in counts)
    assert sum(counts) == (cells if sum(sizes) > 0 else 0)
    if sum(sizes) > 0 and cells >= len(sizes):
        assert all((n > 0) == (size > 0) for n, size in zip(counts, sizes, strict=True) if size == 0 or size / sum(sizes) > 1e-9)


@given(st.lists(words.filter(bool), min_size=1, max_size=8))
def test_the_command_is_shown_as_a_shell_reads_it(argv: list[str]) -> None:
    shown = " ".join(line.strip() for line in text.command_lines(argv))
    assert shlex.split(shown) == ["vllm", "serve", *argv]


def test_what_changed_in_the_command_is_marked() -> None:
    before = ["vllm serve m", "  --a 1", "  --b 2", "  --c"]
    marks = text.changed_lines(before, ["vllm serve m", "  --a 1", "  --b 3", "  --d"])
    assert marks == [(" ", "vllm serve m"), (" ", "  --a 1"), ("+", "  --b 3"), ("+", "  --d"), ("-", "  --c")]
    assert {mark for mark, _line in text.changed_lines(before, ["vllm serve other", "  --z"])} == {" "}


def test_sizes_and_times_for_people() -> None:
    assert text.gib(None) == "unknown size"
    assert text.gib(24 * text.GIB) == "24.0 GiB"
    assert text.gib(5 * 1024**2) == "5 MiB"
    assert text.duration(None) == "unknown"
    assert text.duration(0.4) == "0 s"
    assert text.duration(59.6) == "1 min 00 s"
    assert text.duration(3700) == "1 h 01 min"


@pytest.mark.parametrize("width", [24, 40, 72])
def test_the_memory_bar_is_readable_without_colour(width: int) -> None:
    plan = tui_fake.planner(tui_fake.session())
    for glyphs in (look.UNICODE, look.ASCII):
        lines = text.memory_bar(plan, glyphs, width).plain.splitlines()
        parts = {glyphs.weights, glyphs.kv_cache, glyphs.rest, glyphs.others, glyphs.free}
        assert set(lines[0]) == parts, "each part has a glyph of its own"
        assert cell_len(lines[0]) == width
        assert all(cell_len(line) <= max(width, 26) for line in lines[1:-1])
        assert "KV cache" in "\n".join(lines)


# -- colours ----------------------------------------------------------------------------------------------------


def luminance(colour: Color) -> float:
    """Relative luminance as WCAG 2 defines it."""

    def linear(channel: int) -> float:
        c = channel / 255
        return c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.r) + 0.7152 * linear(colour.g) + 0.0722 * linear(colour.b)


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(Color.parse(a)), luminance(Color.parse(b))), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [look.DARK, look.LIGHT], ids=lambda t: t.name)
def test_every_text_has_enough_contrast(theme: look.Theme) -> None:
    colours = {**theme.variables, "background": str(theme.background), "surface": str(theme.surface)}
    for front, back in look.TEXT_PAIRS:
        assert contrast(colours[front], colours[back]) >= 4.5, f"{theme.name}: {front} on {back}"


def test_the_style_sheet_uses_our_colours_only() -> None:
    import re

    sheet = look.FRAME_CSS + look.CSS
    used = {name for name in re.findall(r"\$([a-z-]+)", sheet) if name not in ("background", "surface")}
    assert used <= set(look.DARK.variables) == set(look.LIGHT.variables)
    assert not re.search(r"#[0-9a-f]{6}", sheet)


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, True),
        ({"LC_CTYPE": "zh_CN.utf8"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),
        ({}, True),
        ({"VLLM_WIZARD_ASCII": "1", "LANG": "C.UTF-8"}, True),
        ({"VLLM_WIZARD_ASCII": "0"}, False),
    ],
)
def test_ascii_is_drawn_where_the_locale_is_not_utf8(environ: dict[str, str], ascii_only: bool) -> None:
    assert look.wants_ascii(environ, "linux") is ascii_only
    assert look.wants_ascii({}, "win32") is False


@given(words)
def test_nothing_but_ascii_passes_the_filter(told: str) -> None:
    out = look.AsciiFilter().apply([Segment(told)], Color.parse("black"))
    assert all(s.text.isascii() for s in out)
    assert len("".join(s.text for s in out)) == len(told)


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "wizard-dark"),
        ({"NO_COLOR": ""}, "wizard-ansi"),
        ({"COLORFGBG": "0;15"}, "wizard-light"),
        ({"VLLM_WIZARD_THEME": "light", "NO_COLOR": "1"}, "wizard-light"),
        ({"VLLM_WIZARD_THEME": "nonsense"}, "wizard-dark"),
    ],
)
def test_the_theme_follows_the_environment(environ: dict[str, str], name: str) -> None:
    assert look.choose_theme(environ) == name


def test_glyphs_are_one_cell_wide() -> None:
    for glyphs in (look.UNICODE, look.ASCII):
        single = (glyphs.done, glyphs.current, glyphs.open, glyphs.attention, glyphs.blocked, glyphs.cursor, glyphs.bullet,
                  glyphs.weights, glyphs.kv_cache, glyphs.rest, glyphs.others, glyphs.free, *glyphs.spinner)  # fmt: skip
        assert all(cell_len(g) == 1 for g in single)


# -- the state behind the screen --------------------------------------------------------------------------------


def test_walking_and_answering_without_a_screen() -> None:
    walk = Walk(planner=tui_fake.planner)
    assert [s.id for s in walk.steps()] == ["machine", "model", "runtime", "flags", "access", "review"]
    assert not walk.answer("port", 8001), "before the machine has answered nothing can be answered"
    walk.use(tui_fake.session())
    assert [s.id for s in walk.steps()] == ["machine", "model", "runtime", "flags", "wsl", "access", "review"]
    assert walk.answer("port", 8001)
    assert walk.proposal("port") == 8000
    assert not walk.answer("port", 8001), "the same answer again changes nothing"
    assert walk.answer("port", 8000)
    assert walk.answers.user == {}
    walk.answer("model", tui_fake.ON_D)
    assert "move" in [s.id for s in walk.steps()]
    walk.visited.update(("machine", "model"))
    walk.step_id = "move"
    states = {s.id: walk.state(s) for s in walk.steps()}
    assert states["machine"] == "attention"
    assert states["move"] == "current"
    assert states["review"] == "open"
    before, after = walk.neighbour(-1), walk.neighbour(+1)
    assert before is not None
    assert after is not None
    assert (before.id, after.id) == ("model", "runtime")


def test_options_given_on_the_command_line_are_held_against_the_plan() -> None:
    walk = Walk(answers=Answers(cli={"no_such_thing": "1"}), planner=tui_fake.planner)
    plan = walk.warm(tui_fake.session())
    with pytest.raises(BadInput, match="no_such_thing"):
        walk.check_given(plan)
    walk = Walk(answers=Answers(cli={"port": 700000}), planner=tui_fake.planner)
    with pytest.raises(BadInput, match="port"):
        walk.check_given(walk.warm(tui_fake.session()))


def test_values_that_are_the_same() -> None:
    assert same(1, 1.0)
    assert not same(True, 1)
    assert same(("a",), ["a"])
    assert not same("8", 8)


# -- kept answers -----------------------------------------------------------------------------------------------

values = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), words, st.lists(words, max_size=3).map(tuple))
keys = st.from_regex(r"[a-z][a-z_]{0,12}", fullmatch=True).filter(lambda k: k not in ("hf_token", "api_key"))


@settings(max_examples=40)
@given(st.dictionaries(keys, values, max_size=6), st.sampled_from(["machine", "flags", ""]))
def test_kept_answers_come_back_as_they_were(answers: dict[str, object], step: str) -> None:
    data = resume.dump(answers, step, datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc))  # type: ignore[arg-type]
    saved = resume.parse(data, "test")
    assert dict(saved.answers) == answers
    assert saved.step == step
    assert saved.when
    assert load_answers(data, "test") == answers, "it can be given to --answers as well"


@pytest.mark.parametrize("key", ["hf_token", "api_key"])
def test_a_secret_is_never_kept(key: str) -> None:
    with pytest.raises(ValueError, match="secret"):
        resume.dump({key: "x"}, "access")


def test_keeping_and_forgetting(tmp_path: Path) -> None:
    path = resume.session_path(folder=tmp_path / "deep" / "er")
    assert path.name == "session.toml"
    assert resume.session_path("wsl2 box/1", tmp_path).name == "session-wsl2-box-1.toml"
    assert resume.load(path) == (None, None)
    assert resume.save(path, {"port": 8001}, "flags") is None
    saved, trouble = resume.load(path)
    assert trouble is None
    assert saved is not None
    assert saved.answers == {"port": 8001}
    assert [p.name for p in path.parent.iterdir()] == ["session.toml"], "no temporary file stays"
    resume.forget(path)
    assert resume.load(path) == (None, None)
    (tmp_path / "file").write_text("x")
    told = resume.save(tmp_path / "file" / "session.toml", {}, "machine")
    assert told is not None
    assert "could not be kept" in told


@pytest.mark.parametrize("data", [b"\xff\xfe", b"answers = 3", b"[answers]\nhf_token = 'x'", b"format = 99", b"= ="])
def test_spoilt_kept_answers_are_explained(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "session.toml"
    path.write_bytes(data)
    saved, trouble = resume.load(path)
    assert saved is None
    assert trouble is not None
    assert str(path) in trouble


def test_the_layers_of_answers(tmp_path: Path) -> None:
    walk = Walk(answers=Answers(file={"port": 8005}), planner=tui_fake.planner)
    walk.use(tui_fake.session())
    assert walk.plan is not None
    assert walk.plan.value("port") == 8005
    walk.answer("port", 8006)
    assert walk.answers.get("port") == (8006, Layer.USER)
    walk.answer("port", 8000)
    assert walk.answers.get("port") is None, "back at the proposal, no layer holds it any more"


@given(st.text(alphabet=st.sampled_from("ab/-=,.{}\"中文 "), max_size=120), st.integers(8, 60))
def test_a_folded_command_keeps_every_character_and_the_width(words: str, width: int) -> None:
    line = "  --x " + " ".join(words.split())
    folded = text.hanging(line, width, 4, "").plain.split("\n")
    assert all(cell_len(part) <= width for part in folded)
    assert "".join("".join(folded).split()) == "".join(line.split())


def test_a_long_path_is_broken_between_its_parts() -> None:
    folded = text.hanging("vllm serve /home/user/models/a-model/of-many/parts", 24, 4, "").plain.split("\n")
    assert folded == ["vllm serve", "    /home/user/models/", "    a-model/of-many/", "    parts"]
