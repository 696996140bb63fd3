"""Values that the parser takes as any text, and the start of the server does not."""

from __future__ import annotations

import pytest

from wizard import releases
from wizard.check.commands import check_words, lines_of, report_json
from wizard.plan.values import wrong
from wizard.releases.types import ArgProblem


def judged(release: str, *words: str) -> tuple[list[ArgProblem], list[str]]:
    report = check_words(["vllm", "serve", "m", *words], release)
    return report.problems, report.verdicts[0].argv


def test_an_unknown_type_of_the_kv_cache_is_named_and_the_near_one_offered() -> None:
    problems, argv = judged("0.33.0", "--kv-cache-dtype", "fp9")
    assert [(p.flag, p.kind, p.replacement) for p in problems] == [("--kv-cache-dtype", "unknown_value", "--kv-cache-dtype fp8")]
    assert "fp9" in problems[0].message
    assert "fp8_e5m2" in problems[0].message
    assert "plugin" in problems[0].message
    assert not problems[0].refused
    assert argv == ["m", "--kv-cache-dtype", "fp8"]


def test_what_a_plugin_may_bring_stays_where_nothing_is_near() -> None:
    problems, argv = judged("0.33.0", "--kv-cache-dtype", "acme_secret_sauce")
    assert [(p.kind, p.replacement) for p in problems] == [("unknown_value", None)]
    assert argv == ["m", "--kv-cache-dtype", "acme_secret_sauce"]


@pytest.mark.parametrize(
    ("words", "replacement"),
    [
        (("--attention-backend", "FLASH-ATTN"), "--attention-backend FLASH_ATTN"),
        (("--attention-backend", "FLASHINFERR"), "--attention-backend FLASHINFER"),
        (("--distributed-executor-backend", "rayy"), "--distributed-executor-backend ray"),
        (("--attention-backend", "fastest"), None),
    ],
)
def test_a_value_that_stops_the_start_is_an_error(words: tuple[str, ...], replacement: str | None) -> None:
    problems, argv = judged("0.33.0", *words)
    assert [(p.kind, p.stops, p.refused, p.replacement) for p in problems] == [("bad_value", True, False, replacement)]
    assert argv == ["m", *(replacement.split() if replacement else [])]


@pytest.mark.parametrize(
    ("words", "replacement"),
    [
        (("-q", "gptqq"), "-q gptq"),
        (("--quantization", "compressed_tensors"), "--quantization compressed-tensors"),
        (("--load-format", "safetensor"), "--load-format safetensors"),
        (("--tokenizer-mode", "mistrall"), "--tokenizer-mode mistral"),
        (("--config-format", "mistrl"), "--config-format mistral"),
    ],
)
def test_a_value_that_only_a_plugin_could_bring_is_a_warning(words: tuple[str, ...], replacement: str) -> None:
    problems, argv = judged("0.33.0", *words)
    assert [(p.kind, p.stops, p.refused, p.replacement) for p in problems] == [("unknown_value", False, False, replacement)]
    assert argv == ["m", *replacement.split()]


@pytest.mark.parametrize(
    "words",
    [
        ("--attention-backend", "flash_attn"),  # looked up in capitals
        ("--attention-backend", "auto"),
        ("--attention-backend", "$BACKEND"),
        ("--quantization", "AWQ"),  # made small before it is looked up
        ("--quantization", "gguf"),  # a plugin of the vLLM project
        ("--quantization", "None"),
        ("--distributed-executor-backend", "acme.executors.Ours"),
        ("--tokenizer-mode", "deepseek_v41"),
        ("--load-format", "HF"),
        ("--kv-cache-dtype", "octave_k3v4"),
    ],
)
def test_what_the_start_takes_is_not_objected_to(words: tuple[str, ...]) -> None:
    assert judged("0.33.0", *words)[0] == []


@pytest.mark.parametrize("version", ["0.10.2", "0.13.0", "0.24.0", "0.33.0"])
def test_every_value_that_a_release_names_itself_is_taken(version: str) -> None:
    release = releases.load(version)
    named = [(o.flag, v) for o in release.options for v in {*o.start_values, *o.known_values}]
    named += [("--quantization", v) for v in release.quantization]
    named += [("--kv-cache-dtype", v) for v in release.kv_cache_dtypes]
    named += [(o.flag, o.default) for o in release.options if o.start_values and isinstance(o.default, str)]
    assert len(named) > 30
    for flag, value in named:
        kinds = {p.kind for p in judged(version, flag, value)[0]}
        assert not kinds & {"bad_value", "unknown_value"}, (flag, value)


def test_the_report_says_that_the_server_would_not_start() -> None:
    stopped = "\n".join(lines_of(check_words(["vllm", "serve", "m", "--attention-backend", "fastest"], "0.33.0")))
    assert "would start with it" not in stopped
    assert "takes it, and then does not start" in stopped
    report = check_words(["vllm", "serve", "m", "--kv-cache-dtype", "fp9"], "0.33.0")
    assert "would start with it" not in "\n".join(lines_of(report))
    row = report_json(report)["problems"][0]
    assert (row["kind"], row["refused"], row["stops"]) == ("unknown_value", False, False)
    parser = check_words(["vllm", "serve", "m", "--enable-auto-tool-choice", "--tool-call-parser", "hermez"], "0.33.0")
    assert "takes it, and then does not start" in "\n".join(lines_of(parser))


def test_a_flag_typed_into_the_walk_is_looked_up_in_the_same_table() -> None:
    release = releases.load("0.33.0")
    backend = release.option("--attention-backend")
    dtype = release.option("--kv-cache-dtype")
    assert backend is not None
    assert dtype is not None
    assert "FLASHINFER" in (wrong(backend, "fastest", release) or "")
    assert wrong(backend, "flashinfer", release) is None
    assert wrong(dtype, "acme_secret_sauce", release) is None  # a plugin may bring it


@pytest.mark.parametrize(
    ("words", "replacement"),
    [
        (("--port", "99999999"), None),
        (("--gpu-memory-utilization", "95"), "--gpu-memory-utilization 0.95"),
        (("--gpu-memory-utilization=1.2",), None),
        (("--max-num-seqs", "0"), None),
        (("-tp", "0"), None),
        (("--max-model-len", "-5"), None),
    ],
)
def test_a_number_outside_the_limits_of_the_start_is_an_error(words: tuple[str, ...], replacement: str | None) -> None:
    problems, argv = judged("0.33.0", *words)
    assert [(p.kind, p.stops, p.refused, p.replacement) for p in problems] == [("bad_value", True, False, replacement)]
    assert "it must be" in problems[0].message
    assert argv == ["m", *(replacement.split() if replacement else [])]


@pytest.mark.parametrize("words", [("--port", "0"), ("--gpu-memory-utilization", "1"), ("--max-model-len", "-1")])
def test_a_number_at_its_limit_is_none(words: tuple[str, ...]) -> None:
    assert judged("0.33.0", *words)[0] == []


def test_limits_of_what_is_not_switched_on_are_not_looked_at() -> None:
    assert judged("0.33.0", "--max-loras", "0")[0] == []
    for words in (("--max-loras", "0", "--enable-lora"), ("--enable-lora", "--max-loras", "0")):
        assert [p.flag for p in judged("0.33.0", *words)[0]] == ["--max-loras"]


def test_no_release_takes_more_of_the_gpu_than_there_is() -> None:
    for version in releases.versions():
        assert [p.stops for p in judged(version, "--gpu-memory-utilization", "1.5")[0]] == [True], version


def test_a_variable_is_never_turned_into_an_option_that_stops_the_start() -> None:
    report = check_words(["VLLM_ATTENTION_BACKEND=XFORMERS", "vllm", "serve", "m"], "0.33.0")
    assert report.verdicts[0].argv == ["m"]
    assert [(p.flag, p.replacement) for p in report.problems] == [("VLLM_ATTENTION_BACKEND", None)]
    kept = check_words(["VLLM_ATTENTION_BACKEND=FLASH_ATTN", "vllm", "serve", "m"], "0.33.0")
    assert kept.verdicts[0].argv == ["m", "--attention-backend", "FLASH_ATTN"]


@pytest.mark.parametrize(
    ("words", "stops"),
    [
        (("--max-model-len", "999999"), True),
        (("--max-model-len", "40960"), False),
        (("--max-model-len", "auto"), False),
        (("--max-model-len", "999999", "--hf-overrides", '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}'), False),
    ],
)
def test_a_context_beyond_a_known_model_s_own_stops_the_start(words: tuple[str, ...], stops: bool) -> None:
    report = check_words(["vllm", "serve", "Qwen/Qwen3-8B", *words], "0.33.0")
    assert [p.stops for p in report.problems] == ([True] if stops else [])
    if stops:
        assert report.verdicts[0].argv == ["Qwen/Qwen3-8B", "--max-model-len", "40960"]
    unknown = check_words(["vllm", "serve", "somebody/else", *words], "0.33.0")
    assert unknown.problems == []
