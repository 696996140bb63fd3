"""What is quoted must come back from the program that reads it, whatever it holds."""

from __future__ import annotations

import io
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from wizard.outputs.launch import mount_option
from wizard.outputs.quoting import (
    bash_line,
    bash_word,
    comment,
    compose_string,
    powershell_string,
    slug,
    wrap_comment,
    yaml_string,
)

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
awkward = ["", "a b", "it's", '"q"', "$HOME", "`x`", "a\nb", "\t", "a\\n", "!x", "*", "~", "-n", "#c", "模型", "\x01", "\x7f9", "😀"]


def bash_reads(line: str) -> list[str]:
    """The words that bash makes of ``line``."""
    run = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, timeout=20)
    return run.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("text", awkward)
def test_bash_word_known_hard_ones(text: str) -> None:
    assert bash_reads(bash_word(text)) == [text]


@settings(max_examples=60, deadline=None)
@given(st.lists(words, min_size=1, max_size=8))
def test_bash_line_comes_back(many: list[str]) -> None:
    assert bash_reads(bash_line(many)) == many


def test_bash_word_refuses_a_zero_byte() -> None:
    with pytest.raises(ValueError, match="zero byte"):
        bash_word("a\0b")


@settings(max_examples=300, deadline=None)
@given(words)
def test_yaml_string_comes_back(text: str) -> None:
    assert YAML(typ="safe", pure=True).load(io.StringIO("k: " + yaml_string(text)))["k"] == text


@given(words)
def test_compose_string_keeps_every_dollar(text: str) -> None:
    read = YAML(typ="safe", pure=True).load(io.StringIO(compose_string(text)))
    assert read.replace("$$", "\0").count("$") == 0
    assert read.replace("$$", "$") == text


@given(st.text(max_size=60))
def test_comment_is_one_line(text: str) -> None:
    made = comment(text)
    assert len(("# " + made).splitlines()) == 1
    assert all(line.startswith("# ") or line == "#" for line in wrap_comment(text))


@given(st.text(max_size=60))
def test_slug_is_a_container_name(text: str) -> None:
    import re

    assert re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", slug(text))
    assert len(slug(text)) <= 60


def test_powershell_string_doubles_every_kind_of_quote() -> None:
    assert powershell_string("O'Brien \u2019s") == "'O''Brien \u2019\u2019s'"


def test_mount_option_is_one_csv_record() -> None:
    import csv

    path = '/home/user/a,b "c"'
    fields = next(csv.reader([mount_option(path, "/models/x", True)]))
    assert fields == ["type=bind", f"source={path}", "target=/models/x", "readonly"]


@pytest.mark.parametrize("width", range(30, 110, 7))
def test_a_comment_breaks_no_short_command(width: int) -> None:
    commands = ("docker compose up -d", "docker compose logs -f", "docker compose down")
    text = "Qwen3-8B on vLLM 0.33.0. Start: {}. Watch: {}. Stop: {}.".format(*commands)
    lines = wrap_comment(text, width=width)
    assert all(any(command in line for line in lines) for command in commands)
    assert " ".join(line[2:] for line in lines) == text
