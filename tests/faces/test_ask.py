"""The plain walk: Enter alone, changed answers, wrong answers, the end of the input."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wizard.__main__ import main
from wizard.faces import ask, prompts
from wizard.faces.prompts import Lines, Option, prompter
from wizard.plan_types import MovePlanHint

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "tests" / "machines"
WSL = str(MACHINES / "wsl2-rtx3060-model-on-d")
NATIVE = str(MACHINES / "native-rtx5090")
BLOCKED = str(MACHINES / "wsl1")
TOKEN = "hf_" + "PlantedToken0123456789"


@pytest.fixture(autouse=True)
def _few_recipes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from dataclasses import replace

    from wizard import recipes

    real = recipes.load

    def load(extra: Any = ()) -> Any:
        book = real(extra)
        return replace(book, recipes=tuple(r for r in book.recipes if r.id in ("qwen3-vl", "gpt-oss")))

    monkeypatch.setattr(recipes, "load", load)
    monkeypatch.setenv("VLLM_WIZARD_CONFIG_DIR", str(tmp_path / "config"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))


CHANGE = "Go on, or change something"


class Scripted(Lines):
    """Answers by key or by label; Enter for all else. Everything asked is kept in ``asked``.

    Of the answers that a step shows, those are picked for which there is another one here.
    """

    def __init__(self, answers: dict[str, Sequence[str]]) -> None:
        self.answers = {k: list(v) for k, v in answers.items()}
        self.asked: list[str] = []
        self.offered: list[list[str]] = []  # what each step showed

    def choose(self, label: str, options: Sequence[Option], default: str, key: str, typed: prompts.Check | None = None) -> str:
        if label != CHANGE:
            return super().choose(label, options, default, key, typed)
        self.offered.append([o.title for o in options])
        wanted = {name.partition(" (")[0] for name, left in self.answers.items() if left}
        for option in options:
            if option.title in wanted:  # of no question: picking it is all there is to answer
                self.answers[option.title].pop(0)
                return option.value
            if option.value in wanted or option.title.partition(":")[0] in wanted:
                return option.value
        return default

    def _read(self, prompt: str, label: str, key: str) -> str:
        self.asked.append(key or label)
        print(prompt)
        for name in (key, label):
            if self.answers.get(name):
                return self.answers[name].pop(0)
        return ""


Walk = Callable[..., tuple[int, Scripted]]


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> Walk:
    type_in(monkeypatch, "")

    def go(machine: str, out: Path, answers: dict[str, Sequence[str]], *more: str) -> tuple[int, Scripted]:
        script = Scripted(answers)
        monkeypatch.setattr(ask, "prompter", lambda: script)
        return main(["--plain", "--machine", machine, "--out", str(out), *more]), script

    return go


# -- the walk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [WSL, NATIVE])
def test_enter_alone_gives_the_files_of_generate(machine: str, walk: Walk, tmp_path: Path) -> None:
    code, script = walk(machine, tmp_path / "walk", {})
    assert code == 0
    assert main(["generate", "--yes", "--machine", machine, "--out", str(tmp_path / "batch")]) == 0
    assert files(tmp_path / "walk") == files(tmp_path / "batch")
    assert not [q for q in script.answers if q]


def test_nobody_is_told_to_have_chosen_what_he_was_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    type_in(monkeypatch, "")
    monkeypatch.setattr(ask, "prompter", lambda: Scripted({}))
    assert main(["--plain", "--machine", NATIVE]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "chosen by you" not in told
    assert (tmp_path / "vllm-native-rtx5090" / "launch.sh").exists()


def test_answers_given_in_the_walk_are_those_given_on_the_command_line(walk: Walk, tmp_path: Path) -> None:
    answers = {
        "runtime": ["2"],
        "max_model_len": ["many", "4k"],
        "tools": ["maybe", "yes"],
        "more settings of this step": ["y", "y"],
        "trust_remote_code": ["y"],
        "another option of vllm serve, as name=value": ["y"],
        "Option": ["max_num_batched_tokenz=1", "max_num_batched_tokens=4096", ""],
        "port": ["70000", "9005"],
    }
    code, script = walk(NATIVE, tmp_path / "walk", answers)
    assert code == 0
    assert not any(script.answers.values()), "an answer was not asked for"
    words = ["--runtime", "local"]
    for pair in (
        "max_model_len=4k",
        "tools=yes",
        "trust_remote_code=yes",
        "max_num_batched_tokens=4096",
        "port=9005",
    ):
        words += ["--set", pair]
    assert main(["generate", "--yes", "--machine", NATIVE, "--out", str(tmp_path / "batch"), *words]) == 0
    assert files(tmp_path / "walk") == files(tmp_path / "batch")


def test_a_wrong_answer_is_named_and_asked_again(
    walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, script = walk(
        NATIVE,
        tmp_path / "walk",
        {"model": ["99", "another", "3"], "port": ["x", "0"], "What now?": ["leave"]},
    )
    assert code == 1
    out = capfd.readouterr().out
    assert "Please give a number" in out
    assert script.asked.count("port") == 3
    assert "Nothing was written" in out
    assert not (tmp_path / "walk").exists()


def test_a_model_by_path_or_id(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # The last choices are "another" and, for long lists, "show all".
    _code, script = walk(NATIVE, tmp_path / "a", {"What now?": ["leave"]})
    listed = capfd.readouterr().out.split("Model [")[0]
    at = next(x.split(".")[0].strip() for x in listed.splitlines() if "another: a path" in x)
    code, script = walk(
        NATIVE,
        tmp_path / "walk",
        {
            "model": [at, "/no/such/folder", at, "openai/gpt-oss-20b"],
            "What now?": ["show", "write"],
        },
    )
    assert code == 0
    out = capfd.readouterr().out
    assert "/no/such/folder" in out
    assert script.asked.count("model") == 4
    assert b"openai/gpt-oss-20b" in (tmp_path / "walk" / "launch.sh").read_bytes()
    assert "+set -euo pipefail" in out


def test_an_answer_can_be_changed_at_the_end(walk: Walk, tmp_path: Path) -> None:
    answers = {
        "What now?": ["change", "folder", "write"],
        "Which step?": ["access"],
        "port": ["9006", "9007"],
        "out_dir": [str(tmp_path / "elsewhere")],
    }
    code, _script = walk(NATIVE, tmp_path / "walk", answers)
    assert code == 0
    assert not (tmp_path / "walk").exists()
    assert b"9007" in (tmp_path / "elsewhere" / "compose.yaml").read_bytes()


def test_secrets_are_asked_unseen_and_stand_in_one_file(
    walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answers = {
        "access": ["network"],
        "API key (Enter leaves it out)": ["bad key!", "planted-api-key-1"],
        "Hugging Face token (Enter leaves it out)": [TOKEN],
        "What now?": ["show", "write"],
    }
    code, script = walk(NATIVE, tmp_path / "walk", answers)
    assert code == 0
    assert not any(script.answers.values())
    out = "".join(capfd.readouterr())
    holders = {
        p.name
        for p in tmp_path.rglob("*")
        if p.is_file() and (TOKEN.encode() in p.read_bytes() or b"planted-api-key-1" in p.read_bytes())
    }
    assert holders == {"vllm.env"}
    assert TOKEN not in out
    assert "planted-api-key-1" not in out


def test_the_next_walk_offers_to_go_on(walk: Walk, tmp_path: Path) -> None:
    code, _script = walk(NATIVE, tmp_path / "walk", {"port": ["9009"], "What now?": ["leave"]})
    assert code == 1
    code, script = walk(NATIVE, tmp_path / "walk", {})
    assert code == 0
    assert script.asked[0] == "Go on from them?"
    assert b"9009" in (tmp_path / "walk" / "compose.yaml").read_bytes()
    code, script = walk(NATIVE, tmp_path / "fresh", {"Go on from them?": ["no"]})
    assert b"9009" not in (tmp_path / "fresh" / "compose.yaml").read_bytes()


def test_a_blocked_machine_ends_by_enter_alone(
    walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _script = walk(BLOCKED, tmp_path / "walk", {})
    assert code == 1
    assert "wsl --set-version" in capfd.readouterr().out
    code, _script = walk(
        BLOCKED, tmp_path / "walk", {"Look through the steps all the same? Nothing can be written.": ["yes"]}
    )
    assert code == 1
    assert not (tmp_path / "walk").exists()


@pytest.mark.parametrize(("typed", "copied"), [("", True), ("no", False)])
def test_a_wanted_copy_is_made_at_the_end(
    typed: str, copied: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "slow drive" / "Model"
    source.mkdir(parents=True)
    (source / "config.json").write_text("{}")
    target = tmp_path / "models" / "Model"
    hint = MovePlanHint(str(source), str(target), 2, "windows-drive", 1.0, "it is slow", True)
    script = Scripted({f"Copy it now to {target}?": [typed]})
    walk = SimpleNamespace(ask=script)
    assert ask._Walk._copy_model(walk, SimpleNamespace(move=hint)) is copied  # type: ignore[arg-type]
    assert (target / "config.json").exists() is copied
    assert source.exists()


def test_words_not_boxes(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    walk(NATIVE, tmp_path / "walk", {})
    out = capfd.readouterr().out
    assert not [c for c in out if 0x2500 <= ord(c) < 0x2600 or c == "\x1b"]
    assert "Step 1 of " in out
    assert "(proposed)" in out


# -- standard input -----------------------------------------------------------------------------------------------


def test_lines_from_a_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    type_in(monkeypatch, "\n" * 60)
    assert main(["--plain", "--machine", NATIVE, "--out", str(tmp_path / "walk")]) == 0
    assert (tmp_path / "walk" / "launch.sh").exists()


def test_the_end_of_the_input_names_the_flag(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, "\n\n\n\n")
    assert main(["--plain", "--machine", NATIVE, "--out", str(tmp_path / "walk")]) == 2
    err = capfd.readouterr().err
    assert "generate --yes --out DIR" in err
    assert not (tmp_path / "walk").exists()


def test_nobody_there_is_told_before_anything_is_probed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("wizard.faces.inputs.open_machine", lambda args: pytest.fail("probed"))
    for stdin in (None, io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"")))):
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["--plain"]) == 2
        assert "generate --yes --out DIR" in capfd.readouterr().err


def test_text_that_is_no_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n"), encoding="utf-8"))
    assert main(["--plain", "--machine", NATIVE, "--out", str(tmp_path / "walk")]) == 2
    assert "Traceback" not in capfd.readouterr().err


# -- prompters ----------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_questionary_is_taken_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(prompter(), prompts.Questionary)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(prompter(), Lines)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(prompts, "Questionary", lambda: 1 / 0)
    assert isinstance(prompter(), Lines)


def test_a_choice_that_is_not_possible_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, "1\nnone\n\n")
    options = [Option("docker", "Docker", "it is not installed"), Option("local", "Local")]
    assert Lines().choose("How", options, "local", "runtime") == "local"
    out = capsys.readouterr().out
    assert out.count("it is not installed") == 2
    assert "from 1 to 2" in out


def test_a_number_or_a_value_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [Option("a", "A"), Option("b", "B")]
    for typed, wanted in (
        ("2\n", "b"),
        ("b\n", "b"),
        ("\n", "a"),
        ("²\n1\n", "a"),
        ("9" * 30 + "\n2\n", "b"),
    ):
        type_in(monkeypatch, typed)
        assert Lines().choose("Which", options, "a", "k") == wanted


def test_environment_is_as_the_tests_need_it() -> None:
    assert "HF_TOKEN" not in os.environ


def test_the_last_instructions_name_the_folder_that_was_written_with_a_made_key_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    type_in(monkeypatch, "")
    script = Scripted({"access": ["network"]})
    monkeypatch.setattr(ask, "prompter", lambda: script)
    assert main(["--plain", "--machine", NATIVE]) == 0
    told = capsys.readouterr().out.rpartition("Next:")[2]
    assert f"cd {tmp_path}/vllm-native-rtx5090" in " ".join(told.split())
    assert any(t.startswith("API key: none given: a random one is made") for titles in script.offered for t in titles)


# -- what a newcomer met ------------------------------------------------------------------------------------------


def test_another_option_is_refused_where_it_is_typed(
    walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = ["dtype=int3", "max_num_batched_tokens=abc", "max_num_batched_tokens=0", "max_num_seqs=0", "swap_space=4", ""]
    answers = {"another option of vllm serve, as name=value": ["y"], "Option": list(wrong), "What now?": ["leave"]}
    code, script = walk(NATIVE, tmp_path / "walk", answers)
    assert code == 1
    assert not script.answers["Option"]
    told = " ".join(capfd.readouterr().out.split())
    assert "“int3”" in told or "'int3' is not one of" in told
    assert "'abc' is not a whole number" in told
    assert "This stands in the way" not in told


def test_a_step_that_an_answer_opens_before_is_shown_next(
    walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _script = walk(NATIVE, tmp_path / "walk", {"gpu_memory_utilization": ["0.2"], "Which step?": []})
    assert code == 1
    out = " ".join(capfd.readouterr().out.split())
    flags, where = out.index(": Flags"), out.index(": Where it runs")
    assert flags < where < out.index(": Access")
    assert "Your answer adds a step before that one: it comes now." in out


def test_the_memory_of_windows_is_asked_before_what_follows_from_it(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    machine = str(MACHINES / "wsl2-interop-off-custom-root")
    _code, script = walk(machine, tmp_path / "a", {"What now?": ["leave"]})
    assert "host_memory_gib" in script.asked
    assert "wsl_memory_gib" not in script.asked
    assert "Enter leaves it open." in capfd.readouterr().out
    _code, script = walk(machine, tmp_path / "b", {"Go on from them?": ["no"], "host_memory_gib": ["64"], "What now?": ["leave"]})
    memory = next(line for step in script.offered for line in step if line.startswith("Memory for WSL2"))
    assert "nothing" not in memory


@pytest.mark.parametrize(("typed", "written"), [("n\n", False), ("y\n", True)])
def test_the_windows_half_takes_its_answer_from_a_pipe(
    typed: str, written: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    type_in(monkeypatch, typed)
    assert main(["--plain", "--machine", str(MACHINES / "windows-rtx4070"), "--out", str(tmp_path / "out")]) == (0 if written else 1)
    assert (tmp_path / "out").exists() is written
    type_in(monkeypatch, typed)
    assert main(["windows", "--machine", str(MACHINES / "windows-rtx4070"), "--out", str(tmp_path / "no")]) == 2
    assert "windows --yes" in capfd.readouterr().err


def test_the_end_of_the_input_names_what_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "--yes" not in str(prompts.ended("Go on?", "")).replace("generate --yes --out DIR", "")
    assert "generate --yes --out DIR --set port=VALUE" in str(prompts.ended("Port", "port"))


def test_leaving_says_whether_anything_was_written(
    monkeypatch: pytest.MonkeyPatch, walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ask._Walk, "_review", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
    walk(NATIVE, tmp_path / "walk", {})
    assert "Left. Nothing was written;" in capfd.readouterr().out


def test_a_limit_is_written_in_full() -> None:
    from wizard.faces.tui.dialogs import _range_text
    from wizard.steps import number_text

    assert [number_text(x) for x in (1 << 20, 0.05, 1.0)] == ["1048576", "0.05", "1"]
    assert _range_text(1, 1 << 20) == "1 to 1048576"


# -- what the answers bring about -----------------------------------------------------------------------------------


def told(capfd: pytest.CaptureFixture[str]) -> str:
    return " ".join(capfd.readouterr().out.split())


def test_a_length_that_does_not_fit_is_said_at_once(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    desktop = str(MACHINES / "wsl2-rtx4090-desktop")
    walk(desktop, tmp_path / "walk", {"max_model_len": ["40k"], "Which step?": []})
    out = told(capfd)
    at = out.index("This stands in the way: - The model does not fit.")
    assert at < out.index("The command so far")
    assert "Ways out:" in out[at : at + 400]


def test_what_each_way_costs_stands_below_where_that_is_said(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    walk(str(MACHINES / "wsl2-2x-rtx3090"), tmp_path / "walk", {})
    out = told(capfd)
    at = out.index("What each way costs stands below.")
    assert "Several machines, through Ray Not possible: no nodes are listed" in out[at:]


def test_a_model_is_typed_instead_of_its_number_and_the_list_is_read_once(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    walk(NATIVE, tmp_path / "walk", {"model": ["/nope", "/nope2", "nonsense", "Qwen/Qwen3-VL-8B-Instruct-FP8"]})
    out = told(capfd)
    assert out.count("another: a path or a repository id") == 1
    assert out.count("There is no model at /nope") == 2
    assert "serve Qwen/Qwen3-VL-8B-Instruct-FP8" in out


def test_what_was_given_on_the_command_line_is_not_offered_again(walk: Walk, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for _again in range(2):
        _code, script = walk(NATIVE, tmp_path / "walk", {})
        assert "Go on from them?" not in script.asked
    walk(NATIVE, tmp_path / "walk", {"max_model_len": ["4k"]})
    capfd.readouterr()
    _code, script = walk(NATIVE, tmp_path / "walk", {})
    assert "Go on from them?" in script.asked
    assert "Longest context (tokens)." in told(capfd).partition("Go on")[0]
