"""The new place of a moved model in files that name the old one."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.outputs.moved import switch_files, switch_text
from wizard.outputs.quoting import bash_word, compose_string, yaml_string

OLD, NEW = "/mnt/d/models/Qwen3-8B", "/home/user/models/Qwen3-8B"
MOVED = {OLD: NEW, "D:\\models\\Qwen3-8B": NEW}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"model_path={OLD}\n", f"model_path={NEW}\n"),
        (f"  --mount 'type=bind,source={OLD},target=/models/m,readonly'\r\n", f"  --mount 'type=bind,source={NEW},target=/models/m,readonly'\r\n"),
        (f'model = "{OLD}/"\n', f'model = "{NEW}/"\n'),
        (f"exec vllm serve {OLD}/sub/x.gguf --port 1\n", f"exec vllm serve {NEW}/sub/x.gguf --port 1\n"),
        (f"      - {OLD}:/models/m:ro\n", f"      - {NEW}:/models/m:ro\n"),
        (f"#   {OLD}:\n", f"#   {NEW}:\n"),
        ('model = "D:\\\\models\\\\Qwen3-8B\\\\a\\\\b.gguf"\n', f'model = "{NEW}/a/b.gguf"\n'),
        (f"x={OLD}", f"x={NEW}"),
    ],
)
def test_a_path_is_switched_wherever_it_stands(before: str, after: str) -> None:
    assert switch_text(before, MOVED) == (after, False)
    assert switch_text(after, MOVED) == (after, False)


@pytest.mark.parametrize(
    "text",
    [
        f"x={OLD}2\n",
        f"x={OLD}.bak\n",
        f"x=/other{OLD}\n",
        f"x=..{OLD}\n",
        f"vllm-wizard move {OLD} {NEW}\n",
        "model = 'Qwen/Qwen3-8B'\n",
    ],
)
def test_other_paths_and_the_move_itself_stay(text: str) -> None:
    assert switch_text(text, MOVED) == (text, False)


def test_a_snapshot_is_not_taken_for_its_entry() -> None:
    entry, other = "/mnt/d/hub/models--a--b", "/home/user/hub/models--a--b"
    moved = {entry: other, f"{entry}/snapshots/1": "/elsewhere/1"}
    assert switch_text(f"a={entry}/snapshots/1/x b={entry}", moved)[0] == f"a=/elsewhere/1/x b={other}"


def test_places_that_take_each_others_names_are_switched_once() -> None:
    assert switch_text("x=/a/b\ny=/b/c\n", {"/a/b": "/b/c", "/b/c": "/d"})[0] == "x=/b/c\ny=/b/c\n"


def test_quotes_that_are_not_there_are_not_made_up() -> None:
    text, stuck = switch_text(f"model_path={OLD}\n", {OLD: "/home/user/my models/Qwen3-8B"})
    assert (text, stuck) == (f"model_path={OLD}\n", True)
    found = switch_files({"/o/launch.sh": f"x={OLD}".encode()}, {OLD: "/home/user/it's"})
    assert found.by_hand == ("/o/launch.sh",)
    assert not found.specs


def test_what_is_no_text_of_ours_is_passed_over() -> None:
    files = {"/a": b"\xff" + OLD.encode(), "/b": b"\0 " + OLD.encode(), "/c": b"x=1\n", "/d": OLD.encode() * 100_000}
    assert switch_files(files, MOVED) == switch_files({}, MOVED)


def test_a_secret_file_stays_secret() -> None:
    found = switch_files({"/o/vllm.env": f"HF_TOKEN=x\nM={OLD}\n".encode(), "/o/compose.yaml": f"a: {OLD}\n".encode()}, MOVED)
    assert [(s.path, s.secret) for s in found.specs] == [("/o/vllm.env", True), ("/o/compose.yaml", False)]


names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8).map(lambda s: s.replace("/", "_"))
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@given(old=paths, new=paths)
def test_what_is_switched_still_says_the_path(old: str, new: str) -> None:
    """Whatever the names are made of: either the file is refused, or every format reads the new path in it."""
    if old == new or new.startswith(old):
        return
    for write, read in (
        (lambda p: "x=" + bash_word(p) + " y\n", lambda t: shlex.split(t)[0][2:]),
        (lambda p: "model = " + yaml_string(p) + "\n", read_yaml),
        (lambda p: "model = " + compose_string(p) + "\n", lambda t: read_yaml(t).replace("$$", "$")),
    ):
        text, stuck = switch_text(write(old), {old: new})
        if not stuck and text != write(old):
            assert read(text) == new


def read_yaml(text: str) -> str:
    from ruamel.yaml import YAML

    return str(YAML(typ="safe").load(text.partition(" = ")[2]))
