"""The command line itself: exit codes, where options may stand, odd streams, and how light it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard import __version__, cli, options
from wizard.__main__ import main
from wizard.errors import BadInput, WizardError
from wizard.plain_text import printable

ROOT = Path(__file__).resolve().parent.parent
MACHINES = ROOT / "tests" / "machines"


def run(*words: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own, with nothing on standard input."""
    given: dict[str, object] = {"stdin": subprocess.DEVNULL, "capture_output": True, "cwd": ROOT, **more}
    return subprocess.run([sys.executable, "-m", "wizard", *words], timeout=120, **given)  # type: ignore[call-overload,no-any-return]


# -- help and version -------------------------------------------------------------------------------------------


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, _help, _where in options.COMMANDS:
        assert f"\n  {name} " in text
    assert "/home/user" in text
    assert "exit codes" in text
    assert max(map(len, text.splitlines())) <= 88
    for words in (["--version"], ["-V"], ["--lang", "en", "--version"]):
        assert main(words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["vllm-wizard", __version__]
        assert [line.partition(":")[0] for line in lines[1:]] == ["catalogue", "rules of the diagnosis", "recipes"]
        assert not any("(?)" in line for line in lines)


@pytest.mark.parametrize("name", [n for n, _help, _where in options.COMMANDS])
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([name, "--help"], ["-h", name], ["help", name]):
        assert main(words) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"usage: vllm-wizard {name}") or words[0] == "help"
        assert "examples:" in text
        assert f"vllm-wizard {name}" in text
        assert ("\n  --machine DIR" in text) == (name not in ("record", "launch")), "where it is refused, it is not offered"


def test_help_imports_next_to_nothing() -> None:
    """The start is light: no parser, no typing, no room of the house."""
    done = run("--help", env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1", "LANG": "C.UTF-8"})
    names = {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()}
    ours = {n for n in names if n.startswith("wizard")}
    assert ours <= {"wizard", "wizard.cli", "wizard.columns", "wizard.errors", "wizard.i18n", "wizard.options", "wizard.program"}
    bare = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import runpy"], capture_output=True, check=True
    )
    before = {line.rpartition(b"|")[2].strip().decode() for line in bare.stderr.splitlines()}
    heavy = {"argparse", "typing", "re", "json", "dataclasses", "pathlib", "gettext", "textual", "rich"}
    assert not (names - before) & heavy


@pytest.mark.parametrize("spelling", [["--flag", "--swap-space"], ["--flag=--swap-space"], ["--flag", "swap_space"]])
def test_an_option_of_a_release_is_named_with_or_without_dashes(
    spelling: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["releases", "show", "0.17.1", *spelling]) == 0
    assert main(["releases", "show", "0.33.0", *spelling]) == 1
    out = capsys.readouterr().out
    assert "0.33.0 has no option --swap-space.\n  in 0.6.3.post1 to 0.17.1" in out


# -- wrong input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["planx"], "Did you mean plan?"),
        (["undo", "--forse"], "Did you mean --force"),
        (["--machin", "x", "detect"], "Did you mean --machine"),
        (["plan", "--runtime", "dokcer"], "'docker', 'local'"),
        (["plan", "extra"], "one word too many"),
        (["plan", "--model"], "expected one argument"),
        (["undo", "zero"], "undo --help"),
        (["undo", "0"], "undo --help"),
        (["record"], "DIR"),
        (["detect", "--machine", "/does/not/exist"], "/does/not/exist"),
        (["plan", "--set", "novalue"], "KEY=VALUE"),
        (["plan", "--answers", "/does/not/exist.toml"], "/does/not/exist.toml"),
        (["help", "secrts"], "Did you mean secrets"),
    ],
)
def test_wrong_input_gives_2_and_says_what_to_do(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vllm-wizard: ")
    assert told in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("answers = 3", "table"),
        ("", "holds no answers"),
        ("# nothing\n", "holds no answers"),
        ("port = 8000", "[answers]"),
        ("[answers]\nport = ", "not valid TOML"),
        ("format = 99", "newer"),
        ('[answers]\nhf_token = "hf_abcdefghijklmnop"', "secret"),
        ("[answers]\nport = true", "port"),
        ('[answers]\nport = "many"', "port"),
        ("[answers]\nport = 1.5", "port"),
        ("[answers]\ntools = 3", "tools"),
        ("[answers]\nlora_adapters = 3", "lora_adapters"),
    ],
)
def test_a_wrong_answers_file_is_named(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.toml"
    file.write_text(text)
    assert main(["plan", "--answers", str(file)]) == 2
    err = capsys.readouterr().err
    assert str(file) in err
    assert told in err
    assert "hf_abcdefghijklmnop" not in err


@pytest.mark.parametrize("key", ["hf_token", "HF_TOKEN", "api-key", "--api-key", "VLLM_API_KEY"])
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--set", f"{key}=planted-secret-1"]) == 2
    out, err = capsys.readouterr()
    assert "planted-secret-1" not in out + err
    assert "--secrets-from-env" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["undo", "-1"], "“-1” is not a whole number from 1 on"),
        (["undo", "0x1"], "“0x1” is not a whole number"),
        (["fit", "--gpus", "-1"], "“-1” is not a whole number from 1 to 1024"),
        (["fit", "--gpu-memory-gib", "nan"], "“nan” is not a number above 0"),
        (["fit", "--gpu-memory-utilization", "3"], "“3” is no value for it (share of the GPU's memory"),
        (["launch", "--timeout", "soon"], "“soon” is not a number above 0 and below 10000000"),
        (["logs", "--lines", "-5"], "“-5” is not a whole number from 0 on"),
        (["wslconfig", "--host-cpus", "0"], "“0” is not a whole number from 1 to 65536"),
    ],
)
def test_a_wrong_number_is_told_in_words(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert "_count" not in err


_TAKE_JSON = sorted(options._TAKES_JSON)


@pytest.mark.parametrize("name", _TAKE_JSON)
def test_a_program_that_asks_for_json_gets_wrong_input_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--json", "--nonesuch"]) == 2
    out, err = capsys.readouterr()
    error = json.loads(out)["error"]
    assert error["kind"] == "bad_input"
    assert error["exit_code"] == 2
    assert error["message"] in err


def test_failures_and_surprises_are_json_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, kind, code in ((WizardError("no"), "failed", 1), (ZeroDivisionError("by zero"), "internal", 1)):

        def fail(words: list[str], error: Exception = error) -> int:
            raise error

        monkeypatch.setattr(cli, "run", fail)
        assert main(["plan", "--json"]) == code
        assert json.loads(capsys.readouterr().out)["error"]["kind"] == kind
        assert main(["check", "--", "--json"]) == code
        assert capsys.readouterr().out == ""  # that one belongs to the command that is checked


@pytest.mark.parametrize("config", ["rubbish {", "[1]", '{"a": 1}'])
def test_a_folder_that_describes_no_model_is_named(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(config)
    assert main(["fit", "--model", str(tmp_path), "--gpu-memory-gib", "24"]) in (1, 2)
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("served_model_name=-x", "may not begin with “-”"),
        ("intent=embedding", "Qwen/Qwen3-8B cannot be set up for that; it can be for: chat"),
        ("intent=nonsense", "Must be one of: chat"),
        ("max_model_len=-2", "“-2” is below 0"),
        ("max_model_len=1.5", "“1.5” is not a whole number"),
    ],
)
def test_a_wrong_answer_is_told_with_its_cause(pair: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--machine", str(MACHINES / "native-t4"), "--model", "Qwen/Qwen3-8B", "--set", pair]
    assert main(words) == 2
    assert told in capsys.readouterr().err


# -- where options stand ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--machine", "plan", "detect"], "detect"),
        (["detect", "--machine", "plan"], "detect"),
        (["--set", "a=b", "plan", "--set", "c=d"], "plan"),
        (["--machine=plan", "generate"], "generate"),
        (["--model", "detect"], None),
        (["--", "detect"], None),
        ([], None),
    ],
)
def test_the_command_is_found_among_the_options(words: list[str], name: str | None) -> None:
    assert options.split_words(words)[0] == name


def test_common_options_count_before_and_after() -> None:
    for words in (
        ["--machine", "m", "--set", "a=1", "plan", "--set", "b=2", "--json"],
        ["plan", "--machine", "m", "--json", "--set", "a=1", "--set", "b=2"],
    ):
        name, rest = options.split_words(words)
        args = options.parse_words(name, rest)
        assert (args.machine, args.set, args.json) == ("m", ["a=1", "b=2"], True)


def test_abbreviations_are_not_guessed() -> None:
    with pytest.raises(BadInput, match="--machine"):
        options.parse_words("detect", ["--mach", "x"])


# -- how it ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (WizardError("cannot do it"), 1, "cannot do it"),
        (BadInput("bad thing"), 2, "bad thing"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("by\nzero"), 1, "ZeroDivisionError: by zero"),
        (RecursionError(), 1, "RecursionError"),
    ],
)
def test_every_end_has_its_code(
    error: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "run", fail)
    assert main(["plan"]) == code
    err = capsys.readouterr().err
    assert told in err
    assert "Traceback" not in err
    if not isinstance(error, (WizardError, KeyboardInterrupt)):
        assert "--debug" in err
        assert len(err.splitlines()) == 1
    main(["plan", "--debug"])
    err = capsys.readouterr().err
    assert ("Traceback" in err) is not isinstance(error, KeyboardInterrupt)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m wizard help answers | head -n 1"],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
    )
    assert done.stderr == b""
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_crash(closed: str) -> None:
    for words, codes in (("--help", {0}), ("planx", {2}), ("", {2})):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m wizard {words} {closed}"],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode in codes
        assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = run("--help", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_any_output_encoding_will_do(encoding: str) -> None:
    done = run("plan\u201d", env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert "There is no command" in done.stderr.decode(encoding)


# -- no terminal ------------------------------------------------------------------------------------------------


def test_without_a_terminal_the_walks_refuse_and_name_the_flag() -> None:
    for words, flags in (
        ([], (b"--plain", b"generate --yes --out DIR")),
        (["--plain"], (b"generate --yes --out DIR",)),
    ):
        done = run(*words)
        assert done.returncode == 2
        assert done.stdout == b""
        for flag in flags:
            assert flag in done.stderr


def test_generate_without_yes_refuses_without_a_terminal(tmp_path: Path) -> None:
    done = run("generate", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert b"--yes" in done.stderr
    assert not (tmp_path / "out").exists()


# -- undo, completion -------------------------------------------------------------------------------------------


def test_undo_with_nothing_on_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["undo"]) == 1
    assert "nothing to undo" in capsys.readouterr().err
    assert main(["undo", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, _help, _where in options.COMMANDS:
        assert name in script
        for action in options.build_parser(name)._actions:
            for option in action.option_strings:
                assert (option if shell != "fish" else option.lstrip("-")) in script


def test_bash_completion_works(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["completion", "bash"])
    script = tmp_path / "c.bash"
    script.write_text(capsys.readouterr().out)
    check = subprocess.run(
        ["shellcheck", "-s", "bash", str(script)], capture_output=True, text=True, env=_with_tools()
    )
    assert check.returncode == 0, check.stdout
    for line, wanted in (
        (["gen"], "generate"),
        (["generate", "--apply"], "--apply-wslconfig"),
        (["plan", "--runtime", ""], "docker local"),
        (["--set", "max_model"], "max_model_len="),
        (["--lang", ""], "en zh_CN"),
        (["plan", "--release", "0.33"], "0.33.0"),
        (["help", "mirr"], "mirrors"),
    ):
        words = " ".join(f"'{w}'" for w in ["vllm-wizard", *line])
        done = subprocess.run(
            [
                "bash",
                "-c",
                f'. {script}; COMP_WORDS=({words}); COMP_CWORD={len(line)}; _vllm_wizard; echo "${{COMPREPLY[*]}}"',
            ],
            capture_output=True,
            text=True,
        )
        assert done.stdout.strip() == wanted, done.stderr


def _with_tools() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}


# -- what is printed ----------------------------------------------------------------------------------------------


@given(st.text())
def test_nothing_printed_can_drive_the_terminal(text: str) -> None:
    shown = printable(text)
    assert not [c for c in shown if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]
    if text.isprintable():
        assert shown == text


def test_an_error_with_control_characters_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "/no/\x1b[31mred\x07"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "^[[31mred^G" in err
