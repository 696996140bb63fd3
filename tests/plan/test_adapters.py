"""LoRA adapters: all that belongs to them is written, however they were named; and one that is not there is noticed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.conftest import session_of
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.session import THIS_MACHINE, Session, Value, look_at_adapters, lora_paths, lora_words

DESKTOP = "wsl2-rtx4090-desktop"


def made(session: Session) -> Plan:
    return plan(look_at_adapters(session))


def after(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


@pytest.mark.parametrize(
    "value",
    [
        "sql=/home/user/adapters/sql",
        ("sql=/home/user/adapters/sql",),
        '{"name": "sql", "path": "/home/user/adapters/sql"}',
        '[{"name": "sql", "path": "/home/user/adapters/sql", "base_model_name": "x"}]',
    ],
)
@pytest.mark.parametrize("runtime", ["docker", "local"])
def test_vllms_own_option_is_written_like_the_wizards_question(value: Value, runtime: str) -> None:
    common = {"model": "Qwen/Qwen3-8B", "runtime": runtime, "intent": "lora"}
    asked = plan(session_of(DESKTOP, lora_adapters=("sql=/home/user/adapters/sql",), **common))
    by_option = plan(session_of(DESKTOP, lora_modules=value, **common))
    assert by_option.argv == asked.argv
    assert by_option.container_argv == asked.container_argv
    assert by_option.mounts == asked.mounts
    assert "--enable-lora" in by_option.argv
    assert after(by_option.container_argv, "--lora-modules") == "sql=/adapters/sql"
    assert "no_adapter" not in {w.code for w in by_option.warnings}
    row = next(r for r in by_option.flag_rows if r.dest == "lora_modules")
    assert row.value == "sql=/home/user/adapters/sql"


def test_both_ways_at_once_name_each_adapter_once() -> None:
    session = session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_adapters=("a=/home/user/a",), lora_modules="a=/adapters/a b=/home/user/b")
    assert plan(session).value("lora_adapters") == ("a=/home/user/a", "b=/home/user/b")


def test_what_is_no_adapter_is_refused_by_name() -> None:
    blockers = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_modules="/home/user/adapters/sql")).blockers
    assert any("lora_modules" in b.title for b in blockers)


@pytest.mark.parametrize(("value", "code"), [("a=/x,a=/y", "adapter_twice"), ("a=/x\0y", "bad_answer"), ("{bad", "bad_value")])
def test_what_cannot_be_is_a_blocker(value: str, code: str) -> None:
    assert code in {b.code for b in plan(session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_modules=value)).blockers}


def test_each_adapter_has_a_place_of_its_own_in_the_container() -> None:
    made = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_modules="SQL=/home/user/a sql=/home/user/b"))
    places = [inside for _host, inside, _ro in made.mounts]
    assert len(set(places)) == len(places)


def test_adapters_with_lora_turned_off_cannot_be_written() -> None:
    session = session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_modules="a=/home/user/a", enable_lora="false")
    assert "lora_off" in {b.code for b in plan(session).blockers}


def test_the_reason_does_not_speak_of_found_adapters_when_one_was_named() -> None:
    named = plan(session_of(DESKTOP, model="Qwen/Qwen3-8B", intent="lora", lora_adapters=("sql=/home/user/adapters/sql",)))
    assert "found" not in named.reason("intent")
    assert "found" in plan(session_of("native-4x-h200")).reason("intent")


def test_an_adapter_that_is_not_there_is_noticed() -> None:
    session = session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_adapters=("sql=/home/user/adapters/sql",))
    assert "adapter_missing" in {w.code for w in made(session).warnings}  # a recording need not hold every file
    assert session.host is not None

    class Here:
        """The recording as if it were this machine."""

        name = THIS_MACHINE

        def __getattr__(self, word: str) -> object:
            return getattr(session.host, word)

    here = made(replace(session, host=Here()))  # type: ignore[arg-type]
    assert "adapter_missing" in {b.code for b in here.blockers}


def test_an_adapter_that_is_there_brings_its_rank() -> None:
    found = session_of("native-4x-h200")
    adapter = found.adapters[0] if found.adapters else next(a for m in found.models.values() for a in m.lora_adapters)
    session = session_of(DESKTOP, model="Qwen/Qwen3-8B", lora_adapters=(f"x={adapter.path}",))
    read = made(replace(session, host=found.host))
    assert not {n.code for n in (*read.warnings, *read.blockers)} & {"adapter_missing"}
    assert str(adapter.rank) in next(d.reason for d in read.decisions if d.key == "max_lora_rank")


NAME = st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,8}", fullmatch=True)
PATH = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters=",="), min_size=1).map(lambda t: "/" + t)


@given(st.lists(st.tuples(NAME, PATH), min_size=1, max_size=4), st.sampled_from([", ", ",", " "]), st.booleans())
def test_adapters_are_told_apart(pairs: list[tuple[str, str]], between: str, as_json: bool) -> None:
    if as_json:
        text = between.join(json.dumps({"name": n, "path": p}) for n, p in pairs)
        assert [json.loads(w) for w in lora_words(text)] == [{"name": n, "path": p} for n, p in pairs]
    else:
        text = between.join(f"{n}={p}" for n, p in pairs)
        assert lora_words(text) == tuple(f"{n}={p}" for n, p in pairs)
    assert lora_paths(text, "/home/user") == tuple(p for _n, p in pairs)


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    lora_paths(text, "/home/user")
