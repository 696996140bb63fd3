"""YAML with lines: the same data as the YAML library's own loader, and lines that point at the right place."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wizard.recipes.yaml_lines import YamlFault, parse

DOCUMENT = """\
# a comment
meta:
  title: "One"
  date_added: 2026-01-02
model:
  base_args:
    - "--flag"
    - 'value'
  context_length: 32768
  ratio: 0.5
  on_request: true
  nothing: null
"""


def test_data_and_lines() -> None:
    document = parse(DOCUMENT)
    assert document.data["meta"] == {"title": "One", "date_added": "2026-01-02"}
    assert document.data["model"]["context_length"] == 32768
    assert document.data["model"]["ratio"] == 0.5
    assert document.data["model"]["on_request"] is True
    assert document.data["model"]["nothing"] is None
    assert document.line_of(("model", "base_args", 1)) == 8
    assert document.line_of(("model", "context_length")) == 9
    assert document.line_of(("model", "base_args", 1, "further")) == 8
    assert document.line_of(("elsewhere",)) == 2


def test_a_key_given_twice_is_noted_with_the_later_line() -> None:
    document = parse("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert document.duplicates == [(("b", "c"), 4)]
    assert document.data == {"a": 1, "b": {"c": 2}}


def test_anchors_and_merges() -> None:
    document = parse("base: &b {x: 1, y: 2}\nmade: {<<: *b, y: 3}\nsame: *b\n")
    assert document.data["made"] == {"x": 1, "y": 3}
    assert document.data["same"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2\nb: 3\n",
        "a: 'open\n",
        "a: 1\n---\nb: 2\n",
        "? [1, 2]\n: 3\n",
        "a: *nowhere\n",
        "\t- a\n",
        "a: " + "[" * 200 + "]" * 200,
    ],
)
def test_what_is_no_recipe_yaml_is_a_fault(text: str) -> None:
    with pytest.raises(YamlFault) as caught:
        parse(text)
    assert caught.value.message


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(YamlFault):
        parse("\n".join(lines))


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(min_size=1, max_size=8), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), VALUES, max_size=4))
def test_the_same_data_as_the_library_reads(value: dict[str, Any]) -> None:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    writer = YAML(typ="safe", pure=True)
    out = io.StringIO()
    writer.dump(value, out)
    text = out.getvalue()
    try:
        expected = YAML(typ="safe", pure=True).load(text)
    except YAMLError:
        assume(False)  # the library writes some keys in a form that it does not read
    assert parse(text).data == expected


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab:{}[]-&*|>'\"#?! \n\t0.,%@`\x07é"), max_size=60))
def test_no_text_does_worse_than_a_fault(text: str) -> None:
    with contextlib.suppress(YamlFault):
        parse(text)
