"""Where a moved model comes to lie: the plan's rule and the mover's are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import move_tools as t
from wizard.models import move
from wizard.models.move_place import move_words, own_name, place_in

HOME = "/home/user"


@pytest.mark.parametrize(
    ("root", "wanted", "place"),
    [
        ("/mnt/d/models/Qwen3-8B", "/home/user/models/Qwen3-8B", "/home/user/models/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/home/user/models", "/home/user/models/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/home/user/models/", "/home/user/models/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/home/user/", "/home/user/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/home", "/home/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/", "/Qwen3-8B"),
        ("/mnt/d/models/Qwen3-8B", "/data/llm/other", "/data/llm/other"),
        ("/mnt/d/models/Qwen3-8B", "/data/llm/", "/data/llm/Qwen3-8B"),
        ("/mnt/d/hf/hub/models--a--b", "/home/user/.cache/huggingface/hub", "/home/user/.cache/huggingface/hub/models--a--b"),
        ("/mnt/d/x.gguf", "/data/gguf", "/data/gguf/x.gguf"),
        ("/mnt/d/x.gguf", "/data/y.gguf", "/data/y.gguf"),
        ("/mnt/d/x-00001-of-00003.gguf", "/home/user/models", "/home/user/models/x"),
        ("/mnt/d/x-00001-of-00003.gguf", "/home/user/models/x", "/home/user/models/x"),
    ],
)
def test_the_place_by_names_alone(root: str, wanted: str, place: str) -> None:
    assert place_in(root, wanted, HOME) == place


def test_the_parts_of_a_split_gguf_share_a_name() -> None:
    assert own_name("/mnt/d/a-b-00002-of-00004.gguf") == "a-b"
    assert own_name("/mnt/d/a-b.gguf") == "a-b.gguf"


def test_the_command_says_when_the_place_has_another_name() -> None:
    assert move_words("/mnt/d/m", "/home/user/models/m", "laptop") == ["vllm-wizard", "move", "/mnt/d/m", "/home/user/models/m"]
    assert move_words("/mnt/d/m", "/home/user/n", "laptop")[:3] == ["vllm-wizard", "move", "--exact"]


@pytest.mark.parametrize("wanted", ["models", "models/", "models/src", "models/other", "new", ""])
@pytest.mark.parametrize("there", [True, False])
def test_the_mover_goes_where_the_rule_says(tmp_path: Path, wanted: str, there: bool) -> None:
    src = t.model_folder(tmp_path / "drive" / "src")
    home = t.machine(tmp_path).home
    asked = f"{home}/{wanted}"
    place = place_in(str(src), asked, home)
    if there:
        Path(asked).mkdir(parents=True, exist_ok=True)
    words = move_words(str(src), place, "laptop")
    plan = move.plan_move(
        t.machine(tmp_path), words[-2], words[-1], env={}, sample=False, exact="--exact" in words
    )
    assert plan.dst == place
    assert plan.ok, plan.refusals


def test_an_existing_folder_takes_the_model_in_unless_told_otherwise(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "drive" / "src")
    there = tmp_path / "data" / "llm"
    there.mkdir(parents=True)
    machine = t.machine(tmp_path)
    assert move.plan_move(machine, str(src), str(there), env={}, sample=False).dst == f"{there}/src"
    assert move.plan_move(machine, str(src), str(there), env={}, sample=False, exact=True).dst == str(there)
