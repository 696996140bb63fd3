"""Variables that a script puts together in several steps: ``+=``, ``"$ARGS ..."``, and what stands under a condition."""

from __future__ import annotations

import pytest

from wizard.check.commands import check_text

END = 'vllm serve Qwen/Qwen3-8B "${ARGS[@]}"\n'
TEXT_END = "vllm serve Qwen/Qwen3-8B $ARGS\n"
GONE = "--swap-space 4"


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        (f"ARGS=(--enforce-eager)\nARGS+=({GONE})\n{END}", f"ARGS=(--enforce-eager)\nARGS+=()\n{END}"),
        (f"ARGS=({GONE})\nARGS+=(--enforce-eager)\n{END}", f"ARGS=()\nARGS+=(--enforce-eager)\n{END}"),
        (f"ARGS=(); ARGS+=({GONE} --enforce-eager)\n{END}", f"ARGS=(); ARGS+=(--enforce-eager)\n{END}"),
        (f"A=({GONE})\nARGS=(\n  --enforce-eager\n  \"${{A[@]}}\" # old\n)\n{END}", f"A=()\nARGS=(\n  --enforce-eager\n  \"${{A[@]}}\" # old\n)\n{END}"),
        (f'ARGS=(--enforce-eager)\nARGS=("${{ARGS[@]}}" {GONE})\n{END}', f'ARGS=(--enforce-eager)\nARGS=("${{ARGS[@]}}")\n{END}'),
    ],
)
def test_an_array_that_is_added_to(text: str, repaired: str) -> None:
    report = check_text(text, "s.sh")
    assert report.verdicts[0].argv == ["Qwen/Qwen3-8B", "--enforce-eager"]
    assert [p.flag for p in report.problems] == ["--swap-space"]
    assert report.repaired == repaired


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        (f'ARGS="--enforce-eager"\nARGS+=" {GONE}"\n', "$ARGS", 2),
        (f'ARGS="{GONE}"\nARGS+=" --enforce-eager"\n', "$ARGS", 1),
        (f'ARGS="--enforce-eager {GONE}"\nARGS="$ARGS --port 80"\n', "$ARGS", 1),
        (f'ARGS="--enforce-eager"\nARGS="$ARGS --port 80"\nARGS="$ARGS {GONE}"\n', "$ARGS", 3),
        (f'ARGS="--enforce-eager"\nARGS="{GONE} ${{ARGS}}"\n', "$ARGS", 2),
        (f'MORE="{GONE}"\n\nARGS="--enforce-eager $MORE"\n', "$MORE", 1),
        (f'ARGS="--enforce-eager"; ARGS+=" {GONE}"\n', "$ARGS", 1),
    ],
)
def test_the_line_told_is_the_one_in_which_the_wrong_option_stands(text: str, name: str, line: int) -> None:
    report = check_text(text + TEXT_END, "s.sh")
    assert report.repaired == text + TEXT_END
    assert "--enforce-eager" in report.verdicts[0].argv
    assert [p.kind for p in report.problems if p.flag == "--swap-space"] == ["removed"]
    assert [p.message for p in report.problems if p.flag == name] == [f"what is wrong stands in this variable: change it where it is set, in line {line}"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"ARGS=(--enforce-eager)\nif [ -n \"$1\" ]; then\n  ARGS+=({GONE})\nfi\n{END}", 3),
        (f"ARGS=(--enforce-eager)\n[ -n \"$1\" ] && ARGS+=({GONE})\n{END}", 2),
        (f"ARGS=(--enforce-eager)\nfor x in a b; do ARGS+=(--lora-modules \"$x\"); done\n{END}", 2),
        (f"ARGS=(--enforce-eager)\ncase $1 in\n  a) ARGS+=({GONE}) ;;\n  *) : ;;\nesac\n{END}", 3),
        (f'ARGS="--enforce-eager"\nif true; then ARGS="$ARGS {GONE}"; fi\n{TEXT_END}', 2),
        (f'ARGS="--enforce-eager"\nif true; then ARGS+=" {GONE}"; fi\n{TEXT_END}', 2),
        (f'if a; then\n  ARGS="--enforce-eager"\nelse\n  ARGS="{GONE}"\nfi\n{TEXT_END}', 4),
        (f'MORE=--port\nif a; then MORE="{GONE}"; fi\nARGS="--enforce-eager $MORE 80"\n{TEXT_END}', 2),
        (f'ARGS=(--enforce-eager)\nARGS+=" {GONE}"\n{END}', 2),
    ],
)
def test_what_stands_under_a_condition_is_said_not_to_be_judged(text: str, line: int) -> None:
    report = check_text(text, "s.sh")
    assert "--enforce-eager" in report.verdicts[0].argv
    assert report.repaired == text
    told = [p for p in report.problems if p.flag in ("$ARGS", "$MORE")]
    assert [p.kind for p in told] == ["ok"]
    assert f"line {line} " in told[0].message
    assert "not judged" in told[0].message
    assert report.verdicts[0].outcome == "starts"


@pytest.mark.parametrize(
    "text",
    [
        f'if [ -z "$MODEL" ]; then\n  ARGS=(--enforce-eager)\n  ARGS+=({GONE})\nfi\n{END}',  # set for the first time
        f"if a; then\n  ARGS=(--enforce-eager)\n  ARGS+=({GONE})\n  {END}fi\n",  # the command under the same condition
        f'ARGS=""\nif a; then ARGS="--enforce-eager {GONE}"; fi\n{TEXT_END}',
        f'echo "x; ARGS=1"\nARGS=(--enforce-eager {GONE})\n{END}',
    ],
)
def test_what_is_certain_is_judged(text: str) -> None:
    report = check_text(text, "s.sh")
    assert "--enforce-eager" in report.verdicts[0].argv
    assert "--swap-space" in {p.flag for p in report.problems}
    assert not any("not judged" in p.message for p in report.problems)


def test_a_variable_that_the_command_does_not_use_is_not_spoken_of() -> None:
    assert check_text(f"X=(a)\nif b; then X+=(c); fi\n{END}", "s.sh").problems[0].flag == "${ARGS[@]}"
    assert check_text("TP=2\nif [ -n \"$1\" ]; then TP=$1; fi\nvllm serve Qwen/Qwen3-8B --tensor-parallel-size $TP\n", "s.sh").problems == []
