"""Commands found in text as people paste it, and put back repaired."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wizard import releases
from wizard.check import extract
from wizard.check.commands import check_text, check_words, lines_of, report_json, run
from wizard.check.judge import mend_json
from wizard.check.lexer import lex, straighten
from wizard.check.rewrite import quote
from wizard.errors import BadInput
from wizard.releases.commands import run as releases_run


def argv_of(text: str, script: bool = False) -> list[str]:
    found = extract.from_text(text, script)
    assert len(found) == 1
    return found[0].argv


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("$ vllm serve m --port 8000", ["m", "--port", "8000"]),
        ("(env) user@pc:~/x$ vllm serve m --port 1", ["m", "--port", "1"]),
        ("PS C:\\Users\\user> vllm serve m --port 1", ["m", "--port", "1"]),
        ("vllm serve m \\\n  --port 1 \\\n  --seed 2", ["m", "--port", "1", "--seed", "2"]),
        ("vllm serve m \\\r\n  --port 1\r\n", ["m", "--port", "1"]),
        ("vllm serve m \\\n> --port 1", ["m", "--port", "1"]),
        ("vllm serve m `\n  --port 1", ["m", "--port", "1"]),
        ("vllm serve m\n  --port 1\n\nThen wait.", ["m", "--port", "1"]),
        ("运行：vllm serve m --port 1。然后等待", ["m", "--port", "1"]),
        ("先运行 `vllm serve m --port 1`，再看日志", ["m", "--port", "1"]),
        ("vllm serve m --trust-remote-code⚠️ 注意", ["m", "--trust-remote-code"]),
        ("vllm serve m --trust-remote-code注意：别用", ["m", "--trust-remote-code"]),
        ("vllm serve ~/模型/Qwen --served-model-name 通义", ["~/模型/Qwen", "--served-model-name", "通义"]),
        ("vllm\u00a0serve m\u3000--port\u200b 1", ["m", "--port", "1"]),
        ("vllm serve m —port 1 –seed 2 −tp 2", ["m", "--port", "1", "--seed", "2", "-tp", "2"]),
        ("vllm serve “my model” --port 1", ["my model", "--port", "1"]),
        ("vllm serve m --served-model-name ‘a b’", ["m", "--served-model-name", "a b"]),
        ("vllm serve m --port 1 2>&1 | tee log", ["m", "--port", "1"]),
        ("nohup vllm serve m --port 1 > log &", ["m", "--port", "1"]),
        ("CUDA_VISIBLE_DEVICES=0 uv run vllm serve m --port 1 && echo up", ["m", "--port", "1"]),
        ("bash -c \"vllm serve m --port 1\"", ["m", "--port", "1"]),
        ("/opt/venv/bin/vllm serve m", ["m"]),
        ("python3 -m vllm.entrypoints.openai.api_server --model m --port 1", ["--model", "m", "--port", "1"]),
        ("ExecStart=/usr/bin/vllm serve m --port 1", ["m", "--port", "1"]),
    ],
)
def test_found_in_pasted_text(text: str, argv: list[str]) -> None:
    assert argv_of(text) == argv


def test_docker_runs() -> None:
    text = (
        "docker run -d --gpus all -p 8000:8000 -e HF_TOKEN=$HF_TOKEN --name=x -v ~/.cache:/root/.cache \\\n"
        "  --env VLLM_LOGGING_LEVEL=DEBUG --ipc=host vllm/vllm-openai:v0.24.0-cu129 --model m --port 1; echo done"
    )
    found = extract.from_text(text, False)[0]
    assert found.image == "vllm/vllm-openai:v0.24.0-cu129"
    assert found.argv == ["--model", "m", "--port", "1"]
    assert found.env["VLLM_LOGGING_LEVEL"] == "DEBUG"
    report = check_text(text, "x.txt")
    assert report.verdicts[0].release.version == "0.24.0"
    entry = extract.from_text("docker run --entrypoint bash vllm/vllm-openai:latest -c 'vllm serve m --port 1'", False)
    assert entry[0].argv == ["m", "--port", "1"]
    assert extract.from_text("docker run --rm ubuntu echo vllm serve is nice", False)[0].entry == "serve"
    assert extract.from_text("docker compose up -d", False) == []


def test_scripts_end_a_command_at_the_line_end_and_skip_comments() -> None:
    text = "#!/bin/bash\n# vllm serve old --swap-space 4\nvllm serve m --port 1\n--seed 2\n"
    assert argv_of(text, script=True) == ["m", "--port", "1"]


def test_variables_and_arrays_of_a_script() -> None:
    text = 'MODEL="/models/a b"\nARGS=(--port 1 --swap-space 4)\nvllm serve "$MODEL" "${ARGS[@]}" --seed "$SEED"\n'
    assert argv_of(text, script=True) == ["/models/a b", "--port", "1", "--swap-space", "4", "--seed", "$SEED"]


def test_values_that_the_shell_puts_in_are_not_judged() -> None:
    report = check_text("#!/bin/sh\nvllm serve m --port $PORT --max-model-len ${LEN:-4096}\n", "a.sh")
    assert report.accepted
    assert report.problems == []


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        ('--limit-mm-per-prompt {"image": 2, "video": 0}', "bad_quoting"),
        ("--limit-mm-per-prompt “{\"image\": 2, \"video\": 0}”", "bad_quoting"),
        ("--limit-mm-per-prompt '{image: 2, video: 0}'", "bad_quoting"),
        ("--limit-mm-per-prompt \"{'image': 2, 'video': 0}\"", "bad_quoting"),
        ("--limit-mm-per-prompt '{\\\"image\\\": 2, \\\"video\\\": 0}'", "bad_quoting"),
        ("--limit-mm-per-prompt '{“image”：2，“video”：0}'", "bad_quoting"),
        ("--limit-mm-per-prompt='{\"image\"=2, \"video\"=0}'", "bad_quoting"),
        ("--limit-mm-per-prompt image=2,video=0", "bad_value"),
    ],
)
def test_json_that_lost_its_quotes(broken: str, kind: str) -> None:
    report = check_text(f"vllm serve m {broken} --port 1", "x.txt")
    verdict = report.verdicts[0]
    assert not report.accepted
    assert kind in [p.kind for p in report.problems]
    assert json.loads(verdict.argv[verdict.argv.index("--limit-mm-per-prompt") + 1]) == {"image": 2, "video": 0}
    assert verdict.argv[-2:] == ["--port", "1"]


def test_the_seed_of_the_second_article() -> None:
    """The kind of command that an article on WSL2 and Qwen3-VL gave: four options that never were."""
    text = (
        "最终命令：\nvllm serve ~/models/Qwen3-VL \\\n--host 0.0.0.0 \\\n--gpu-memory-utilization 0.6 \\\n--swap-space 4 \\\n"
        "--disable-uvloop \\\n--single-process \\\n--disable-mm-warmup \\\n--limit-mm-processing image \\\n--trust-remote-code⚠️ 提醒"
    )
    report = check_text(text, "article.txt", "0.33.0")
    data = report_json(report)
    kinds = {p["flag"]: p["kind"] for p in data["problems"]}
    assert kinds["--swap-space"] == "removed"
    for flag in ("--disable-uvloop", "--single-process", "--disable-mm-warmup", "--limit-mm-processing"):
        assert kinds[flag] == "never_existed"
    assert data["accepted"] is False
    assert releases.check_argv(data["argv"], "0.33.0") == []
    assert data["argv"][0] == "~/models/Qwen3-VL"
    assert '{"video": 0}' in data["argv"]
    assert "--trust-remote-code" in data["argv"]
    assert shlex.split(data["command"])[:2] == ["vllm", "serve"]
    assert "~/models" in data["command"]
    assert len([line for line in lines_of(report) if line.startswith("  --")]) >= 5


def test_lora_on_experts_before_the_fix() -> None:
    report = check_words(["vllm", "serve", "Qwen/Qwen3.5-122B-A10B", "--enable-lora", "--lora-modules", "a=/x", "-tp", "4"], "0.17.0")
    assert report.accepted
    assert report.verdicts[0].argv[-2:] == ["--moe-backend", "triton"]
    after = check_words(["vllm", "serve", "Qwen/Qwen3.5-122B-A10B", "--enable-lora", "--lora-modules", "a=/x", "-tp", "4"], "0.20.0")
    assert after.problems == []


SCRIPT = """#!/usr/bin/env bash
set -e
export VLLM_USE_V1=0   # old
# our options
ARGS=(
  --port 8000   # where
  --swap-space 4   # old
)
exec vllm serve /models/q "${ARGS[@]}" \\
  --gpu-mem 0.9 \\
  --disable-log-requests \\
  --task embed --use-v2-block-manager \\
  --num-scheduler-steps 8
"""


def test_a_script_is_repaired_word_by_word(tmp_path: Path) -> None:
    report = check_text(SCRIPT, "start.sh", "0.32.0")
    assert report.repaired == (
        '#!/usr/bin/env bash\nset -e\n# our options\nARGS=(\n  --port 8000   # where\n)\nexec vllm serve /models/q "${ARGS[@]}" \\\n'
        "  --gpu-memory-utilization 0.9 \\\n  --runner pooling --convert embed\n"
    )
    again = check_text(report.repaired, "start.sh", "0.32.0")
    assert again.accepted
    assert again.repaired == report.repaired


def test_broken_continuations_are_named_and_mended() -> None:
    text = "#!/bin/sh\nvllm serve m \\ \n  --port 1 \\\n  # a remark\n  --seed 2\n"
    report = check_text(text, "a.sh")
    assert [p.kind for p in report.problems] == ["bad_quoting", "bad_quoting"]
    assert report.repaired == "#!/bin/sh\nvllm serve m \\\n  --port 1 \\\n  --seed 2\n"


def test_model_as_an_option_moves_to_the_front() -> None:
    front = check_text("vllm serve --model m --port 1", "a.txt")
    assert front.repaired == "vllm serve m --port 1"
    middle = check_text("vllm serve --port 1 --model m --seed 2", "a.txt")
    assert middle.repaired == "vllm serve m --port 1 --seed 2"


def test_repeated_entrypoint_of_an_image() -> None:
    report = check_text("docker run --gpus all vllm/vllm-openai:v0.33.0 vllm serve m --port 1", "a.txt")
    assert not report.accepted
    assert report.repaired == "docker run --gpus all vllm/vllm-openai:v0.33.0 m --port 1"
    assert report_json(report)["command"] == "docker run --gpus all vllm/vllm-openai:v0.33.0 m --port 1"


def test_configuration_file() -> None:
    text = "# served\nmodel: m\nswap-space: 4\ngpu_memory_utilization: 0.9  # share\ntask: embed\nport: 1\n"
    report = check_text(text, "config.yaml", "0.33.0")
    assert not report.accepted
    assert report.repaired == "# served\nmodel: m\ngpu_memory_utilization: 0.9  # share\nrunner: pooling\nconvert: embed\nport: 1\n"
    assert check_text(report.repaired, "config.yaml", "0.33.0").accepted


def test_environment_file() -> None:
    text = "# ours\nVLLM_USE_V1=0\nHF_TOKEN=hf_aaaaaaaaaaaaaaaaa\nVLLM_LOGGING_LEVEL=INFO\n"
    report = check_text(text, "vllm.env")
    assert [(p.flag, p.kind) for p in report.problems] == [("VLLM_USE_V1", "removed")]
    assert report.repaired == "# ours\nHF_TOKEN=hf_aaaaaaaaaaaaaaaaa\nVLLM_LOGGING_LEVEL=INFO\n"


def test_unknown_tags_are_said() -> None:
    report = check_text("docker run vllm/vllm-openai:gptoss m", "a.txt")
    assert any("gptoss" in note for note in report.notes)


@pytest.mark.parametrize("raw", [b"\x7fELF\0\0\0\1", b"x" * (9 << 20), b"\xff\xfe\x00"])
def test_binary_and_long_files(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.sh"
    path.write_bytes(raw)
    with pytest.raises(BadInput):
        run([str(path)])
    assert path.read_bytes() == raw


def test_other_inputs_that_hold_nothing(tmp_path: Path) -> None:
    for words in ([], ["--"], ["/no/such/file"], ["--write", "--", "vllm", "serve", "m"]):
        with pytest.raises(BadInput):
            run(words)
    empty = tmp_path / "e.txt"
    empty.write_text("nothing here")
    with pytest.raises(BadInput, match="no vLLM command"):
        run([str(empty)])


def test_exit_codes_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "--release", "0.33.0", "--", "vllm", "serve", "m", "--port", "1"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"release", "accepted", "problems", "argv", "env", "command"} <= set(data)
    assert run(["--", "vllm", "serve", "m", "--swap-space", "4"]) == 1
    assert run(["--release", "0.17.1", "--", "vllm", "serve", "m", "--swap-space", "4"]) == 0


def test_long_dashes() -> None:
    assert straighten("—port") == ("--port", True)
    assert straighten("–tp") == ("-tp", True)
    assert straighten("––port") == ("--port", True)
    assert straighten("--port") == ("--port", False)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.booleans())
def test_no_text_makes_it_fall(text: str, script: bool) -> None:
    for prefix in ("vllm serve m ", "docker run vllm/vllm-openai:v0.9.2 "):
        for command in extract.from_text(prefix + text, script):
            for word in command.words:
                assert 0 <= word.start <= word.end


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="{}[]\"'\\:,= abc1“”：，$&;\n", max_size=60))
@example("{{}")
@example("{(1,2): 3}")
def test_every_input_is_judged_or_refused(text: str) -> None:
    try:
        report = check_text("vllm serve m --hf-overrides " + text, "a.txt", "0.33.0")
    except BadInput:
        return
    assert report_json(report)["command"]
    mend_json(text)


_WORDS = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=0x24F, blacklist_characters="“”‘’«»\u00ad\u00a0"), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(st.lists(_WORDS, min_size=1, max_size=5))
def test_quoted_words_come_back(words: list[str]) -> None:
    line = " ".join(shlex.quote(w) for w in words)
    assert [w.text for w in lex(line, 0, script=True).words] == shlex.split(line)
    plain = [w for w in words if "$" not in w and not w.startswith("~")]
    assert shlex.split(" ".join(quote(w) for w in plain)) == plain


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_repaired_is_accepted(data: st.DataObject) -> None:
    """Whatever mixture of options of other releases is given: the repaired command is one that the release takes."""
    version = data.draw(st.sampled_from(["0.8.5", "0.11.0", "0.24.0", "0.33.0"]))
    words = ["vllm", "serve", "m"]
    for _ in range(data.draw(st.integers(1, 4))):
        other = releases.load(data.draw(st.sampled_from(["0.6.6", "0.9.2", "0.16.0", "0.32.0"])))
        option = data.draw(st.sampled_from([o for o in other.options if o.dest not in ("model", "config")]))
        words.append(data.draw(st.sampled_from(option.flags)))
        if option.kind != "flag":
            words.append((option.choices or ("1",))[0] if option.kind == "choice" else {"json": "{}", "dict": "{}"}.get(option.kind, "1"))
    report = check_words(words, version)
    refused = [p for p in releases.check_argv(report.verdicts[0].argv, version) if p.refused]
    assert refused == [], (words, report.verdicts[0].argv)


def test_commands_in_lists() -> None:
    text = 'FROM vllm/vllm-openai:v0.33.0\nENTRYPOINT []\nCMD ["vllm", "serve", "m", "--swap-space", "4", "--port", "1"]\n'
    report = check_text(text, "Dockerfile")
    assert report.verdicts[0].argv == ["m", "--port", "1"]
    assert report.repaired == text.replace('"--swap-space", "4", ', "")


def test_short_dotted_form() -> None:
    report = check_text("vllm serve m -O.level=3 --port 1", "a.txt", "0.33.0")
    assert report.problems[0].kind == "renamed"
    assert report.verdicts[0].argv == ["m", "--compilation-config.mode=3", "--port", "1"]
    assert check_text("vllm serve m -O.level=3 --port 1", "a.txt", "0.10.2").accepted


KUBERNETES = """apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: llm  # ours
          image: vllm/vllm-openai:v0.33.0
          args: [m, --swap-space, "4"]
          livenessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10}
---
apiVersion: v1
kind: Service
"""


def test_kubernetes_manifests() -> None:
    report = check_text(KUBERNETES, "deploy.yaml")
    kinds = {p.flag: p.kind for p in report.problems}
    assert kinds["--swap-space"] == "removed"
    assert {"containers.llm.resources", "containers.llm.livenessProbe"} <= kinds.keys()
    assert "# ours" in str(report.repaired)
    assert "swap-space" not in str(report.repaired)
    assert "kind: Service" in str(report.repaired)
    assert check_text(str(report.repaired), "deploy.yaml").accepted


def test_every_way_of_the_history_leads_to_something_that_is_accepted() -> None:
    from wizard.check import history

    for flag, entry in history.data()["flags"].items():
        assert entry["note"], flag
        spans = releases.flag_spans(flag)
        if entry.get("change") == "never_existed":
            assert spans == [], flag
        for version in ("0.6.6", "0.9.2", "0.12.0", "0.17.1", "0.24.0", "0.33.0"):
            if releases.load(version).option(flag) is None:
                verdict = check_words(["vllm", "serve", "m", flag, "4"], version).verdicts[0]
                assert not [p for p in releases.check_argv(verdict.argv, version) if p.refused], (flag, version, verdict.argv)
                assert flag in [p.flag for p in verdict.problems] or verdict.problems, (flag, version)


@pytest.mark.parametrize("text", ["docker " * 200_000, "vllm serve m " + "--port 1 " * 100_000, "“" * 100_000 + " vllm serve m", "vllm serve 'm " + "\\\n" * 50_000])
def test_long_texts_take_no_long_time(text: str) -> None:
    import time

    started = time.perf_counter()
    with contextlib.suppress(BadInput):
        check_text(text, "a.txt")
    assert time.perf_counter() - started < 8


def test_other_encodings_are_read_but_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    raw = "#!/bin/sh\n# 模型\nvllm serve m --swap-space 4\n".encode("gb18030")
    path.write_bytes(raw)
    assert run([str(path)]) == 1
    with pytest.raises(BadInput, match="UTF-8"):
        run(["--write", str(path)])
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    "line",
    [
        "CUDA_VISIBLE_DEVICES=0 vllm serve m --max-seqs 4",
        "VLLM_USE_V1=1 HF_HOME=/x vllm serve m --max-seqs 4",
        "A=1 docker run --rm vllm/vllm-openai:v0.33.0 --model m --max-seqs 4",
        "A=1 python3 -m vllm.entrypoints.openai.api_server --model m --max-seqs 4",
    ],
)
def test_a_variable_before_a_command_makes_it_no_file_of_variables(line: str) -> None:
    report = check_text(line, "the pasted text", "0.33.0")
    assert "--max-seqs" in {p.flag for p in report.problems}


def test_a_file_of_variables_stays_one() -> None:
    report = check_text("VLLM_USE_V1=1\nNOTE=how to run vllm serve-like things\n", "x", "0.33.0")
    assert {p.flag for p in report.problems} <= {"VLLM_USE_V1"}


def test_carriage_returns_alone_are_line_ends() -> None:
    text = extract.decode(b"vllm serve m \\\r  --single-process\r", "x")
    assert "--single-process" in {p.flag for p in check_text(text, "x", "0.33.0").problems}
    assert extract.decode(b"a\r\nb\r", "x") == "a\r\nb\r"


@pytest.mark.parametrize(("words", "told"), [(["vllm", "serve"], True), (["vllm", "serve", "m"], False), (["vllm", "serve", "--config", "x.yaml"], False)])
def test_a_command_without_a_model_is_told_what_it_serves(words: list[str], told: bool) -> None:
    report = check_words(words, "0.33.0")
    assert any("no model is named" in p.message for p in report.problems) is told
    assert report.accepted


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("vllm serve --model a/b --tensor-paralel-size 2 \\\n  --max-model-len 4096\n", "vllm serve a/b --tensor-parallel-size 2 \\\n  --max-model-len 4096\n"),
        ("vllm serve --tensor-paralel-size 2 a/b\n", "vllm serve --tensor-parallel-size 2 a/b\n"),
        ("vllm serve --max-model-ln 32k a/b\n", "vllm serve --max-model-len 32k a/b\n"),
        ("vllm serve --nothing-like-it 4 a/b --port 1\n", "vllm serve a/b --port 1\n"),
        ("vllm serve a/b --enable-exper-parallel true --seed 1\n", "vllm serve a/b --enable-expert-parallel --seed 1\n"),
        ("docker run vllm/vllm-openai:v0.9.0 --model a/b --tensor-paralel-size 2\n", "docker run --gpus all --ipc host vllm/vllm-openai:v0.9.0 --model a/b --tensor-parallel-size 2\n"),
        ("docker run vllm/vllm-openai:v0.9.0 a/b --port 1\n", "docker run --gpus all vllm/vllm-openai:v0.9.0 --model a/b --port 1\n"),
    ],
)
def test_a_misspelt_option_takes_its_value_along(text: str, repaired: str) -> None:
    report = check_text(text, "m.sh")
    assert not report.accepted
    assert report.repaired == repaired
    assert check_text(repaired, "m.sh").accepted


FLAGS = st.sampled_from(sorted(f for o in releases.load("0.33.0").options for f in o.flags if f.startswith("--")))
GIVEN = st.sampled_from(["2", "0.9", "32k", "auto", "true", "fp16", "a/b", "{image:1}", "x=y", "[1]", ""])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(FLAGS, st.integers(2, 30), st.booleans(), st.lists(GIVEN, max_size=2)), max_size=4),
    st.sampled_from(["0.33.0", "0.19.1", "0.9.0", "0.7.3"]),
    st.booleans(),
)
def test_a_repaired_command_is_never_refused(options: list[tuple[str, int, bool, list[str]]], version: str, as_module: bool) -> None:
    words = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m/m"] if as_module else ["vllm", "serve", "m/m"]
    for flag, at, misspelt, values in options:
        words += [flag[:at] + flag[at + 1 :] if misspelt and len(flag) > 6 else flag, *values]
    verdict = check_words(words, version).verdicts[0]
    assert verdict.argv[0] == "m/m"
    assert verdict.repaired_outcome != "refused"


def test_a_file_that_cannot_be_repaired_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "compose.yaml"
    text = "services:\n  vllm:\n    image: vllm/vllm-openai:v0.33.0\n    command: [a/b, --swap-space, '4']\n    ipc: host\n    stop_grace_period: soon\n"
    file.write_text(text)
    assert run(["--write", str(file)]) == 1
    said = capsys.readouterr().out
    assert "stays as it is" in said
    assert "services.vllm.stop_grace_period" in said
    assert file.read_text() == text


@pytest.mark.parametrize(("version", "there"), [("0.8.5", False), ("0.33.0", True)])
def test_what_is_said_follows_what_the_release_has(version: str, there: bool) -> None:
    told = "\n".join(lines_of(check_words(["vllm", "serve", "a/b", "--disable-mm-warmup"], version)))
    assert ("takes its place here" in told) is there
    assert ("--skip-mm-profiling" in told) is there
    replaced = lines_of(check_words(["vllm", "serve", "a/b", "--single-process"], version))
    assert ("    -> --disable-frontend-multiprocessing" in replaced) is not there
    lacking = "vLLM 0.33.0 does not have --disable-frontend-multiprocessing." in "\n".join(replaced)
    assert lacking is there


def test_what_stands_in_for_a_release_is_named_for_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for asked, which in (("0.0.1", "the oldest known release"), ("0.99.0", "the nearest older release")):
        assert check_words(["vllm", "serve", "a/b"], asked).notes[0].endswith(f"{which}.")
        releases_run(["show", asked, "--flag", "port"])
        assert which in capsys.readouterr().err
    assert "the oldest known release" in check_words(["docker", "run", "vllm/vllm-openai:v0.0.1", "--model", "a/b"]).notes[0]


def test_an_image_of_another_release_than_asked_for_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "compose.yaml"
    gpu = "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}\n"
    file.write_text("services:\n  vllm:\n    image: vllm/vllm-openai:v0.12.0\n    command: [a/b, --swap-space, '4']\n    ipc: host\n" + gpu)
    assert run(["--write", "--release", "0.33.0", str(file)]) == 0
    said = capsys.readouterr().out
    assert "Nothing is wrong" not in said
    assert said.split("As it is now")[1].count("0.12.0") >= 1
    assert check_words(["docker", "run", "--gpus", "all", "vllm/vllm-openai:v0.12.0", "a/b"]).problems == []
    assert check_words(["docker", "run", "--gpus", "all", "vllm/vllm-openai:latest", "a/b"], "0.12.0").problems == []


def test_prose_is_wrapped_and_a_command_never_is(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["vllm", "serve", "a/b", "--disable-mm-warmup", *(w for n in range(30) for w in ("--lora-modules", f"x{n}=/y"))]
    run(["--release", "0.33.0", "--", *words])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 79] == [line for line in lines if line.startswith("  vllm serve")]
    assert len(lines) > 5
