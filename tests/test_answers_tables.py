"""What stands at the top of an answers file: a slip there would lose a whole table without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.cluster import read_inventory
from wizard.errors import BadInput
from wizard.faces import resume
from wizard.session import load_answers

NODE = '[[nodes]]\nname = "a"\naddress = "10.0.0.1"\nmachine = "this"\n'


@pytest.mark.parametrize("text", ["[answer]\nport = 1\n[answers]\n", "[answers]\nport = 1\n[[node]]\nname = 'a'\n", "[answers]\nport = 1\n[clusters]\n", "foo = 3\n[answers]\n"])
def test_a_table_that_nothing_reads_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(BadInput, match=r"a\.toml has no place for “(answer|node|clusters|foo)”"):
        load_answers(text.encode(), "a.toml")


def test_a_near_name_is_proposed() -> None:
    with pytest.raises(BadInput, match="Did you mean nodes"):
        load_answers(b"[answers]\n[[node]]\n", "a.toml")


def test_what_the_wizard_writes_is_read_again() -> None:
    assert load_answers(resume.dump({"port": 8001}, "model"), "kept") == {"port": 8001}
    assert load_answers(b'format = 1\nchosen = []\n[answers]\nport = 1\n[cluster]\n' + NODE.encode(), "a.toml") == {"port": 1}


def test_nodes_alone_are_an_answers_file() -> None:
    assert load_answers(NODE.encode(), "nodes.toml") == {}


@pytest.mark.parametrize("text", ["", "[cluster]\n", "[answers]\nport = 1\n"])
def test_a_file_that_shall_list_nodes_and_lists_none_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="lists no nodes"):
        read_inventory(text.encode(), "n.toml", "/", must_list=True)
    assert read_inventory(text.encode(), "n.toml", "/").nodes == ()


def test_the_file_with_nodes_may_be_named_by_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    record = Path(__file__).parent / "machines" / "native-rtx5090"
    (tmp_path / "n.toml").write_text(NODE.replace("this", str(record)))
    monkeypatch.chdir(tmp_path)
    assert main(["cluster", "plan", "--set", "nodes_file=n.toml"]) == 0
    assert "a (10.0.0.1)" in capsys.readouterr().out
    (tmp_path / "n.toml").write_text("")
    assert main(["cluster", "generate", "--yes", "--out", str(tmp_path / "out"), "--set", "nodes_file=n.toml"]) == 2
    assert not (tmp_path / "out").exists()
