"""Command lines read as a release's own parser reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.releases import check_argv, find_option, load
from wizard.releases.parse import BadValue, fits_type, full_spelling, human_int, take_apart


def kinds(argv: list[str], version: str = "0.32.0") -> list[tuple[str, str]]:
    return [(p.flag, p.kind) for p in check_argv(argv, version)]


# Every expectation below was tried on the real parser of that release.
@pytest.mark.parametrize(
    ("version", "argv"),
    [
        ("0.32.0", ["m", "--gpu-mem", "0.9", "--max_model_len", "32k", "-tp", "2", "-O3"]),
        ("0.32.0", ["--port", "8000", "m"]),
        ("0.32.0", ["m", "--limit-mm-per-prompt", '{"image": 2, "video": 0}']),
        ("0.32.0", ["m", "--limit-mm-per-prompt.video", "0", "--hf-overrides.rope_parameters.factor=2"]),
        ("0.32.0", ["m", "--max-model-len", "auto", "--max-model-len=-1"]),
        ("0.32.0", ["m", "--moe-backend", "TRITON", "--kv-cache-dtype=fp8"]),
        ("0.32.0", ["m", "--lora-modules", "a=/x", '{"name": "b", "path": "/y"}', "--enable-lora"]),
        ("0.32.0", ["m", "--compilation-config", '{"cudagraph_mode": "PIECEWISE"}', "-cc.mode=3"]),
        ("0.32.0", ["m", "--no-enable-prefix-caching", "--hf-token", "--tokenizer", "None"]),
        ("0.33.0", ["m", "--disable-log-requests", "--enable-log-requests"]),
        ("0.9.2", ["m", "--limit-mm-per-prompt", "image=4,video=0"]),
        ("0.7.3", ["m", "--limit-mm-per-prompt", "image=4"]),
        ("0.8.5", ["m", "--compilation-config", "3", "-O3"]),
    ],
)
def test_accepted(version: str, argv: list[str]) -> None:
    assert [p for p in check_argv(argv, version) if p.refused] == []


@pytest.mark.parametrize(
    ("version", "argv", "kind"),
    [
        ("0.32.0", ["m", "--disable-log-requests"], "removed"),
        ("0.32.0", ["m", "--swap-space", "4"], "removed"),
        ("0.19.1", ["m", "--spec-method", "eagle"], "not_yet"),
        ("0.32.0", ["m", "--disable-uvloop"], "never_existed"),
        ("0.32.0", ["m", "--tensor-paralel-size", "2"], "misspelt"),
        ("0.32.0", ["m", "-language-model-only"], "misspelt"),
        ("0.32.0", ["m", "--enable"], "misspelt"),
        ("0.32.0", ["m", "--dtype", "fp16"], "bad_value"),
        ("0.32.0", ["m", "--max-lora-rank", "17"], "bad_value"),
        ("0.32.0", ["m", "-tp", "two"], "bad_value"),
        ("0.32.0", ["m", "--max-model-len", "1.5K"], "bad_value"),
        ("0.32.0", ["m", "--limit-mm-per-prompt", "image=1"], "bad_value"),
        ("0.32.0", ["m", "--enable-prefix-caching=False"], "bad_value"),
        ("0.32.0", ["m", "--port"], "bad_value"),
        ("0.32.0", ["m", "--kv-transfer-config", '{"kv_roll": "kv_both"}'], "bad_value"),
        ("0.32.0", ["m", "--kv-transfer-config", '{"kv_port": "many"}'], "bad_value"),
        ("0.32.0", ["m", "--lora-modules", "adapter"], "bad_value"),
        ("0.32.0", ["m", "--speculative-config", "{'model': 'x'}"], "bad_value"),
        ("0.32.0", ["m", "n"], "bad_value"),
        ("0.32.0", ["m", "--model", "n"], "bad_value"),
        ("0.32.0", ["m", "--config", "c.json"], "bad_value"),
        ("0.8.5", ["--model", "m"], "bad_value"),
        ("0.8.5", ["m", "--no-enable-lora-bias", "--enable-prefix-caching=x"], "bad_value"),
    ],
)
def test_refused(version: str, argv: list[str], kind: str) -> None:
    refused = [p for p in check_argv(argv, version) if p.refused]
    assert [p.kind for p in refused][:1] == [kind]


def test_values_of_a_removed_flag_are_not_blamed_too() -> None:
    assert kinds(["m", "--swap-space", "4", "--port", "1"]) == [("--swap-space", "removed")]
    assert kinds(["m", "--limit-mm-processing", "image"]) == [("--limit-mm-processing", "never_existed")]
    assert kinds(["--disable-uvloop", "m"]) == [("--disable-uvloop", "never_existed")]


def test_model_flag_is_only_deprecated_where_vllm_moves_it() -> None:
    assert kinds(["--model", "m"]) == [("--model", "deprecated")]
    assert check_argv(["--model", "m"], "0.32.0", {"entrypoint:api_server"}) == []


def test_keys_after_a_dot_on_a_plain_option_are_taken_but_wrong() -> None:
    problem = check_argv(["m", "--host.a", "x"], "0.32.0")[0]
    assert problem.accepted
    assert not problem.refused


def test_removed_says_since_and_until() -> None:
    problem = check_argv(["m", "--task", "embed"], "0.33.0")[0]
    assert (problem.until, problem.since) == ("0.12.0", "0.13.0")


@pytest.mark.parametrize(
    ("spelling", "flag", "how"),
    [
        ("--max_model_len", "--max-model-len", "underscore"),
        ("--gpu-mem", "--gpu-memory-utilization", "prefix"),
        ("--kv-cache-memory", "--kv-cache-memory-bytes", "prefix"),
        ("-tp", "--tensor-parallel-size", "exact"),
        ("--compilation-config.mode", "--compilation-config", "dotted"),
        ("--dtype=half", "--dtype", "exact"),
    ],
)
def test_spellings(spelling: str, flag: str, how: str) -> None:
    option, found = find_option(load("0.32.0"), spelling)
    assert option is not None
    assert (option.flag, found) == (flag, how)


def test_ambiguous_and_full_spelling() -> None:
    release = load("0.32.0")
    assert find_option(release, "--max-num")[1] == "ambiguous"
    assert full_spelling(release, "--gpu_mem") == "--gpu-memory-utilization"
    assert full_spelling(release, "--no-enable-pref") == "--no-enable-prefix-caching"
    assert full_spelling(release, "--no-such") is None


@pytest.mark.parametrize(("text", "value"), [("32k", 32_000), ("32K", 32_768), ("1.5m", 1_500_000), ("2G", 2 << 30), ("7", 7)])
def test_human_integers(text: str, value: int) -> None:
    assert human_int(text) == value


@pytest.mark.parametrize("text", ["1.5K", "k", "", "1e3", "32 k"])
def test_human_integers_refused(text: str) -> None:
    with pytest.raises(BadValue):
        human_int(text)


def test_types_as_pydantic_converts_them() -> None:
    assert fits_type("yes", ["bool"])
    assert not fits_type("maybe", ["bool"])
    assert fits_type("4", ["int"])
    assert not fits_type(4.5, ["int"])
    assert not fits_type(4, ["str"])
    assert fits_type(None, ["int", "null"])
    assert fits_type("kv_both", ["=kv_both", "=kv_producer"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.text(max_size=12), max_size=8), st.sampled_from(["0.6.6", "0.9.2", "0.33.0"]))
def test_nothing_makes_it_fall(words: list[str], version: str) -> None:
    release = load(version)
    parts = take_apart(words, release)
    assert sum(len(p.tokens) for p in parts) >= len([w for w in words if w != "--"])
    for problem in check_argv(words, version):
        assert problem.message


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_the_catalogue_allows_is_accepted(data: st.DataObject) -> None:
    release = load(data.draw(st.sampled_from(["0.8.5", "0.17.1", "0.33.0"])))
    option = data.draw(st.sampled_from([o for o in release.options if o.dest not in ("config", "model")]))
    flag = data.draw(st.sampled_from(option.flags))
    value = {
        "int": "3", "float": "0.5", "human_int": "4k", "json": "{}", "dict": '{"a": 1}', "str": "x", "list": "x",
        "choice": None, "flag": None, "optional_flag": None,
    }[option.kind]  # fmt: skip
    if option.kind == "list" and option.choices is None:
        value = {"int": "3", "float": "0.5", "json": "{}"}.get(option.value_type, "n=p")
    if option.choices:
        value = next(c for c in option.choices if c != "None")
        if option.action == "StoreBoolean":
            value = None
    argv = ["m", flag] + ([] if value is None else [value])
    count = int(option.nargs) if option.nargs and option.nargs.isdigit() else 1
    argv += [argv[-1]] * (count - 1 if value is not None else 0)
    if option.value_type == "key_values":
        argv[-1] = "image=1"
    if option.nargs is None or option.value_type != "json":
        assert [p for p in check_argv(argv, release.version) if p.refused] == [], argv


def test_json_output_of_problems_is_plain() -> None:
    problem = check_argv(["m", "--task", "x"], "0.33.0")[0]
    assert json.dumps(problem.__dict__)


@pytest.mark.parametrize("version", ["0.8.5", "0.10.2", "0.11.2", "0.12.0", "0.33.0"])
@pytest.mark.parametrize("words", [["-O1"], ["-O", "3"], ["-O=2"]])
def test_the_o_flag_of_every_age(version: str, words: list[str]) -> None:
    if version == "0.8.5" and words == ["-O=2"]:
        return  # argparse alone reads it there, and hands "=2" on in some Python versions
    assert check_argv(["m", *words], version) == []
