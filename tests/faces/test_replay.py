"""answers.toml gives the same files again, whatever was answered; and in every face the same."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wizard.errors import BadInput
from wizard.outputs import files
from wizard.plan import plan as make_plan
from wizard.plan_types import Plan
from wizard.session import (
    Answers,
    Session,
    Value,
    dump_answers,
    gather,
    load_answers,
    load_pinned,
    look_at_model,
)
from wizard.steps import Question, asked, visible_steps

MACHINES = Path(__file__).resolve().parents[1] / "machines"
ALL = sorted(p.name for p in MACHINES.iterdir() if (p / "host.json").exists())


def written(plan: Plan) -> dict[str, bytes]:
    return {f.path: f.content for f in files(plan) if not f.secret}


def replayed(session: Session, data: bytes) -> Session:
    answers = Answers(file=load_answers(data, "answers.toml"), pinned=load_pinned(data))
    return replace(session, answers=answers)


def some_value(rnd: random.Random, question: Question, plan: Plan) -> Value | None:
    """A value that could be answered, or None."""
    current = question.current(plan)
    possible = [c.value for c in question.choices(plan) if not c.disabled]
    value: Value | None = None
    if question.kind in ("choice", "model"):
        value = rnd.choice(possible) if possible else None
    elif question.kind == "bool":
        value = not current
    elif question.kind == "int":
        value = rnd.choice([1, 2, 4096, 9000, current * 2 if isinstance(current, int) else 8])
    elif question.kind == "float":
        value = rnd.choice([0.5, 0.8, 64.0])
    elif question.kind == "multi":
        value = tuple(possible[: rnd.randint(1, len(possible))]) if possible else None
    elif question.kind == "list":
        value = ("adapter=/home/user/adapter",)
    elif question.kind == "path":
        value = "/home/user/else where"
    elif question.key == "served_model_name":
        value = "name"
    elif question.key == "image":
        value = "own/vllm:1"
    return None if value is None or question.error(plan, value) else value


def some_session(rnd: random.Random, host: Any, session: Session) -> tuple[Session, Plan]:
    """The session with a few questions answered as somebody might in the walk."""
    plan = make_plan(session)
    for _n in range(rnd.randint(0, 4)):
        questions = [
            q for s in visible_steps(plan) for q in asked(s, plan) if not q.secret and q.key != "out_dir"
        ]
        if not questions:
            break
        question = rnd.choice(questions)
        value = some_value(rnd, question, plan)
        if value is None:
            continue
        if question.key == "model":
            try:
                session = look_at_model(session, host, str(value))
            except BadInput:
                continue
        session = session.answer(question.key, value)
        plan = make_plan(session)
    return session, plan


def check(machine: str, rounds: int) -> int:
    from wizard.host import open_host

    host = open_host(MACHINES / machine)
    base = gather(host, Answers())
    rnd = random.Random(machine)
    tried = 0
    for _round in range(rounds):
        session, plan = some_session(rnd, host, base)
        if plan.blockers:
            continue
        tried += 1
        before = written(plan)
        again = make_plan(replayed(replace(base, models=session.models), before["answers.toml"]))
        assert written(again) == before, session.answers.flat()
    return tried


@pytest.mark.parametrize("machine", ["wsl2-rtx3060-model-on-d", "native-4x-h200"])
def test_a_replayed_file_gives_the_same_files(machine: str) -> None:
    assert check(machine, 8) > 0


@pytest.mark.slow
@pytest.mark.parametrize("machine", ALL)
def test_a_replayed_file_gives_the_same_files_everywhere(machine: str) -> None:
    check(machine, 60)


def test_a_file_holds_the_plan_to_what_it_was_on_another_machine() -> None:
    """What was proposed then still counts where it would be proposed otherwise."""
    from wizard.host import open_host

    first = make_plan(gather(open_host(MACHINES / "native-rtx5090"), Answers()))
    data = written(first)["answers.toml"]
    values = load_answers(data, "x")
    assert load_pinned(data) == frozenset(values)
    values |= {"max_num_seqs": int(values["max_num_seqs"]) + 3}  # type: ignore[arg-type]
    other = dump_answers(values, heading="x", chosen=())
    session = replayed(first.session, other)
    plan = make_plan(session)
    assert plan.value("max_num_seqs") == values["max_num_seqs"]
    assert plan.value("model") == first.value("model")


def test_a_file_without_the_list_of_choices_is_all_choices() -> None:
    data = dump_answers({"port": 9000}, heading="an older file")
    assert load_pinned(data) == frozenset()
    assert load_pinned(dump_answers({"port": 9000}, heading="x", chosen=["port"])) == frozenset()
    assert load_pinned(dump_answers({"port": 9000}, heading="x", chosen=[])) == {"port"}


def test_the_images_of_every_release_can_be_asked_for() -> None:
    from wizard import releases
    from wizard.releases.images import image_for, image_variants

    for version in releases.versions():
        release = releases.load(version)
        for variant in image_variants(release):
            assert image_for(release, "nvidia", variant) is not None
        image_for(release, "nvidia", "cu999")
