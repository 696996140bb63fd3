"""What a script writes with variables: judged by their values, and written back as it stood."""

from __future__ import annotations

import random

import pytest

from wizard.check.commands import check_text

SET = 'MODEL=Qwen/Qwen3-8B\nTP=2\nPORT=8000\nLEN="8192"\nARGS="--max-num-seqs 8 --enforce-eager"\nif [ -n "$1" ]; then TP=$1; fi\n'
KEPT = (
    "--tensor-parallel-size $TP", "--port=$PORT", '--port "${PORT}"', "--max-model-len ${LEN}", "--host ${HOST:-0.0.0.0}",
    "--dtype 'bfloat16'", '--served-model-name "my model"', "$ARGS", '"$@"', "$EXTRA_ARGS", '"${MORE[@]}"', "${@:2}",
    """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'""",
)  # fmt: skip
LEFT_OUT = ("--swap-space 4", "--preemption-mode=swap", "--num-lookahead-slots 1")


@pytest.mark.parametrize("seed", range(60))
def test_every_word_that_a_repair_keeps_is_written_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    model = chance.choice(("$MODEL", '"$MODEL"', "'Qwen/Qwen3-8B'", '"${MODEL}"'))
    kept = chance.sample(KEPT, chance.randint(1, 6))
    joint = chance.choice((" ", " \\\n  "))
    words = [*kept]
    for wrong in chance.sample(LEFT_OUT, chance.randint(1, 2)):
        words.insert(chance.randint(0, len(words)), wrong)
    report = check_text(SET + f"exec vllm serve {joint.join([model, *words])}\n", "serve.sh")
    assert report.repaired == SET + f"exec vllm serve {joint.join([model, *kept])}\n"


def test_an_unquoted_variable_is_split_as_the_shell_splits_it() -> None:
    report = check_text('ARGS="--max-model-len 8192 --port 80"\nvllm serve Qwen/Qwen3-8B $ARGS $NONE\n', "serve.sh")
    assert report.verdicts[0].argv[:5] == ["Qwen/Qwen3-8B", "--max-model-len", "8192", "--port", "80"]
    assert report.accepted


@pytest.mark.parametrize("unknown", ['"$@"', "$*", "$EXTRA_ARGS", "${EXTRA:-}", '"${EXTRA[@]}"'])
def test_what_only_the_shell_knows_is_no_fault(unknown: str) -> None:
    text = f"vllm serve Qwen/Qwen3-8B {unknown}\n"
    report = check_text(text, "serve.sh")
    assert report.accepted
    assert report.repaired == text
    assert [p.kind for p in report.problems] == ["ok"]


def test_arguments_that_only_the_shell_knows_may_hold_the_model() -> None:
    assert [p.kind for p in check_text('vllm serve "$@" --port 80\n', "serve.sh").problems] == ["ok"]


def test_an_option_that_nobody_has_takes_no_further_arguments_along() -> None:
    report = check_text('vllm serve Qwen/Qwen3-8B --no-such-thing-at-all "$@"\n', "serve.sh")
    assert report.repaired == 'vllm serve Qwen/Qwen3-8B "$@"\n'


def test_a_renamed_option_keeps_its_variable() -> None:
    text = "TP=2\nvllm serve --model ${MODEL} --tensor_parallel_size=$TP --swap-space $TP\n"
    assert check_text(text, "serve.sh").repaired == "TP=2\nvllm serve ${MODEL} --tensor-parallel-size=$TP\n"


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("DT=fp16\nvllm serve Qwen/Qwen3-8B --dtype $DT\n", "$DT", 1),
        ("PORT=70000\nvllm serve Qwen/Qwen3-8B --port=$PORT\n", "$PORT", 1),
        ("Q=awq\nvllm serve Qwen/Qwen3-8B --quantization $Q\n", "$Q", 1),
        ('\nARGS="--port 80 --swap-space 4"\nvllm serve Qwen/Qwen3-8B $ARGS\n', "$ARGS", 2),
    ],
)
def test_what_is_wrong_in_a_variable_is_named_where_it_is_set(text: str, name: str, line: int) -> None:
    report = check_text(text, "serve.sh")
    assert report.repaired == text
    assert report.verdicts[0].outcome in ("refused", "stops")
    told = next(p.message for p in report.problems if p.flag == name)
    assert f"line {line}" in told


def test_a_default_is_not_taken_for_the_value_with_something_behind_it() -> None:
    report = check_text("PORT=8000\nvllm serve Qwen/Qwen3-8B --port ${PORT:-80}\n", "serve.sh")
    assert report.verdicts[0].argv[-1] == "${PORT:-80}"


def test_json_that_is_made_of_an_option_keeps_its_variable() -> None:
    text = "BACKEND=xgrammar\nvllm serve Qwen/Qwen3-8B --guided-decoding-backend $BACKEND --port 80\n"
    assert str(check_text(text, "serve.sh").repaired).endswith('--port 80 --structured-outputs-config "{\\"backend\\": \\"$BACKEND\\"}"\n')


def test_variables_in_variables_do_not_grow_without_end() -> None:
    doubling = "A=xx\n" + "A=$A$A\n" * 60 + 'B="x x"\n' + 'B="$B $B"\n' * 60 + "C=(a b)\n" + "C=(${C[@]} ${C[@]})\n" * 60
    assert check_text(doubling + "vllm serve Qwen/Qwen3-8B $A $B ${C[@]}\n", "serve.sh").verdicts
