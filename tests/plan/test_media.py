"""Limits of images and videos: vLLM's own option reaches the questions that own its parts, and nothing is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.conftest import session_of
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan.media import read_limits
from wizard.plan_types import Plan
from wizard.session import Layer, Session, Value

SMALL = "wsl2-rtx3060-model-on-d"


def seeing(**answers: Value) -> Session:
    return session_of(SMALL, **answers)


def limits(made: Plan) -> dict[str, object]:
    found: dict[str, object] = json.loads(made.argv[made.argv.index("--limit-mm-per-prompt") + 1])
    return found


def same(one: Plan, other: Plan) -> bool:
    return one.argv == other.argv and one.fit == other.fit


@pytest.mark.parametrize("text", ['{"image": 2}', "image=2", '{"image": {"count": 2}}'])
def test_vllms_own_option_is_the_answer_of_the_questions(text: str) -> None:
    made = plan(seeing(limit_mm_per_prompt=text))
    assert made.value("limit_images") == 2
    decision = made.decision("limit_images")
    assert decision is not None
    assert decision.chosen
    assert "chosen by you" in decision.reason
    assert limits(made) == {"image": 2, "video": 0}
    assert same(made, plan(seeing(limit_images=2)))
    row = next(r for r in made.flag_rows if r.dest == "limit_mm_per_prompt")
    assert json.loads(row.value or "") == {"image": 2, "video": 0}


def test_what_is_said_of_video_is_what_is_written() -> None:
    made = plan(seeing(limit_mm_per_prompt='{"image": 1, "video": 3}'))
    assert (made.value("limit_images"), made.value("limit_videos")) == (1, 3)
    script = next(f for f in files(made) if f.path == "launch.sh").content.decode()
    assert "no video" not in script


def test_other_kinds_and_sizes_are_kept() -> None:
    made = plan(seeing(limit_mm_per_prompt='{"image": {"count": 2, "width": 512}, "audio": 1}'))
    assert limits(made) == {"image": {"count": 2, "width": 512}, "video": 0, "audio": 1}
    assert made.value("limit_images") == 2
    assert made.fit_request is not None
    assert made.fit_request.limit_mm_per_prompt == {"image": 2, "video": 0, "audio": 1}


def test_memory_follows_the_option() -> None:
    off = plan(seeing(limit_mm_per_prompt='{"image": 0, "video": 0}'))
    assert off.fit == plan(seeing(limit_images=0, limit_videos=0)).fit
    assert off.fit != plan(seeing()).fit


def test_the_later_answer_counts() -> None:
    earlier = seeing(limit_images=5).answer("limit_mm_per_prompt", '{"image": 2}')
    assert plan(earlier).value("limit_images") == 2
    assert plan(earlier.answer("limit_images", 3)).value("limit_images") == 3
    typed_again = earlier.answer("limit_images", 3).answer("limit_mm_per_prompt", '{"image": 4}')
    assert plan(typed_again).value("limit_images") == 4


def test_a_pin_of_the_file_gives_way() -> None:
    session = seeing().answer("limit_images", 4, Layer.FILE).answer("limit_mm_per_prompt", '{"image": 2}')
    assert plan(session).value("limit_images") == 2


def test_the_answers_file_gives_the_same_again() -> None:
    from wizard.session import load_answers

    edited = seeing(limit_mm_per_prompt='{"image": 2, "audio": 1}').answer("limit_images", 3)
    first = plan(edited)
    assert limits(first) == {"image": 3, "video": 0, "audio": 1}
    kept = load_answers(next(f for f in files(first) if f.path == "answers.toml").content, "answers.toml")
    replayed = seeing()
    for key, value in kept.items():
        replayed = replayed.answer(key, value, Layer.FILE)
    assert plan(replayed).argv == first.argv


@pytest.mark.parametrize("text", ["image", "{bad", '{"image": -1}', "[]", '{"image": true}'])
def test_what_is_no_limit_is_refused(text: str) -> None:
    made = plan(seeing(limit_mm_per_prompt=text))
    assert any("limit_mm_per_prompt" in b.title for b in made.blockers)


def test_more_than_can_be_is_refused_by_the_question() -> None:
    made = plan(seeing(limit_mm_per_prompt='{"image": 5000}'))
    assert any("limit_images" in b.title for b in made.blockers)


def test_a_model_without_images_keeps_the_option_as_it_is() -> None:
    made = plan(session_of("native-rtx5090", model="Qwen/Qwen3-0.6B", limit_mm_per_prompt='{"image": 0}'))
    assert json.loads(made.argv[made.argv.index("--limit-mm-per-prompt") + 1]) == {"image": 0}


@given(st.text(max_size=40))
def test_reading_never_raises(text: str) -> None:
    found = read_limits(text)
    assert found is None or all(isinstance(v, (int, dict)) for v in found.values())


@given(st.dictionaries(st.sampled_from(["image", "video", "audio"]), st.integers(0, 999), min_size=1))
def test_both_forms_read_alike(table: dict[str, int]) -> None:
    assert read_limits(json.dumps(table)) == table
    assert read_limits(",".join(f"{k}={v}" for k, v in table.items())) == table
