"""``recipes check``: each fault is named with file and line, and the packaged recipes have none."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from wizard.errors import BadInput
from wizard.recipes.check import CheckedFile, check_folder, check_packaged, check_texts
from wizard.recipes.types import RecipeProblem
from wizard.recipes_command import run

GOOD = """\
meta:
  title: "Own 1B"
  slug: "own-1b"
  provider: "Own"
  description: "An own model"
  date_updated: 2026-01-01
  difficulty: beginner
  tasks: [text]
model:
  model_id: "own/Own-1B"
  min_vllm_version: "0.17.1"
  architecture: dense
  parameter_count: "1B"
  active_parameters: "1B"
  context_length: 32768
  base_args: []
  base_env: {}
features:
  tool_calling:
    description: "tools"
    args:
      - "--enable-auto-tool-choice"
      - "--tool-call-parser"
      - "hermes"
opt_in_features: []
variants:
  default:
    precision: bf16
    vram_minimum_gb: 3
    description: "own"
compatible_strategies:
  - single_node_tp
hardware_overrides: {}
strategy_overrides: {}
guide: |
  text
"""


def checked(text: str, name: str = "models/own/Own-1B.yaml") -> CheckedFile:
    return check_texts({name: text.encode()}, ours=False)[0]


def errors(text: str) -> list[RecipeProblem]:
    return list(checked(text).errors)


def test_a_good_recipe() -> None:
    assert checked(GOOD).problems == ()
    assert checked(GOOD).release == "0.17.1"


def test_the_packaged_recipes_have_no_fault() -> None:
    for file in check_packaged():
        assert file.problems == (), [str(p) for p in file.problems]


def change(*pairs: tuple[str, str]) -> str:
    text = GOOD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


# -- options that the stated minimum refuses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "kind", "word"),
    [
        # an option that came later
        ('      - "hermes"', '      - "hermes"\n  text_only:\n    description: "x"\n    args: ["--language-model-only"]', "", ""),
        ("  base_args: []", '  base_args: ["--linear-backend", "auto"]', "not_yet", "0.22.0"),
        # an option that is gone
        ("  base_args: []", '  base_args: ["--disable-log-requests"]', "removed", "0.17"),
        # a parser that came later, and one that never came
        ('"hermes"', '"gemma4"', "not_yet", "gemma4"),
        ('"hermes"', '"own_parser"', "bad_value", "own_parser"),
        # an option of no release
        ("  base_args: []", '  base_args: ["--tool-call-parser-plugin", "x.py"]', "never_existed", "--tool-parser-plugin"),
        ("  base_args: []", '  base_args: ["--disable-mm-warmup"]', "never_existed", "--disable-mm-warmup"),
        # values
        ("  base_args: []", '  base_args: ["--max-model-len", "much"]', "bad_value", "much"),
        ("  base_args: []", '  base_args: ["--speculative-config", "{method: mtp}"]', "bad_value", "JSON"),
        ("  base_args: []", '  base_args: ["--trust-remote-code", "yes"]', "bad_value", "yes"),
        ("  base_args: []", '  base_args: ["--kv-cache-dtype", "fp3"]', "bad_value", "fp3"),
        # option and value as one item
        ("  base_args: []", '  base_args: ["--max-model-len 4096"]', "bad_value", "blank"),
        # in every place where a recipe may hold arguments
        ("hardware_overrides: {}", 'hardware_overrides:\n  amd: {extra_args: ["--linear-backend", "auto"]}', "not_yet", ""),
        (
            "strategy_overrides: {}",
            'strategy_overrides:\n  single_node_tp: {extra_args: ["--linear-backend", "auto"]}',
            "not_yet",
            "",
        ),
        ('    description: "own"', '    description: "own"\n    extra_args: ["--linear-backend", "auto"]', "not_yet", ""),
        (
            '    description: "own"',
            '    description: "own"\n    hardware_overrides: {h200: {extra_args: ["--linear-backend", "auto"]}}',
            "not_yet",
            "",
        ),
    ],
)  # fmt: skip
def test_what_the_minimum_release_refuses(old: str, new: str, kind: str, word: str) -> None:
    text = change((old, new))
    found = errors(text)
    if not kind:
        assert found == []  # 0.17.1 has --language-model-only
        return
    assert [p.kind for p in found] == [kind]
    assert word in found[0].message
    assert found[0].flag
    changed = [i for i, line in enumerate(text.splitlines(), 1) if line not in GOOD.splitlines()]
    assert found[0].line in range(min(changed) - 1, max(changed) + 1)


def test_an_option_later_than_the_minimum_is_named_with_its_line() -> None:
    text = change(
        ('"0.17.1"', '"0.11.0"'),
        ("opt_in_features: []", '  text_only:\n    description: "x"\n    args:\n      - "--language-model-only"\nopt_in_features: []'),
    )
    (problem,) = errors(text)
    assert problem.kind == "not_yet"
    assert problem.flag == "--language-model-only"
    assert problem.release == "0.11.0"
    assert problem.line == line_of(text, "--language-model-only")
    assert str(problem).startswith(f"models/own/Own-1B.yaml:{problem.line}: features.text_only.args.0: ")


def test_a_variants_own_minimum_counts() -> None:
    variant = '    description: "own"\n    extra_args: ["--linear-backend", "auto"]\n    min_vllm_version: "0.23.0"'
    assert errors(change(('    description: "own"', variant))) == []


def test_nightly_means_the_newest() -> None:
    text = change(('"0.17.1"', "nightly"), ("  base_args: []", '  base_args: ["--linear-backend", "auto"]'))
    assert errors(text) == []


def test_a_plugin_may_bring_a_parser_name() -> None:
    text = change(
        ("  base_args: []", '  base_args: ["--trust-remote-code"]'),
        ('      - "hermes"', '      - "own_parser"\n      - "--tool-parser-plugin"\n      - "own.py"'),
    )
    assert errors(text) == []


def test_other_builds_of_vllm_are_not_judged() -> None:
    text = change(
        ("hardware_overrides: {}", 'hardware_overrides:\n  tpu: {extra_args: ["--only-on-tpu", "1"]}'),
        (
            '    description: "own"',
            '    description: "own"\n    hardware_overrides:\n      dgx_spark_gb10:\n'
            '        docker_image: "someone/fork:latest"\n        extra_args: ["--only-in-the-fork", "1"]',
        ),
    )
    assert errors(text) == []


def test_what_vllm_omni_serves_is_not_judged() -> None:
    text = change(
        ("tasks: [text]", "tasks: [omni]"),
        ("  base_args: []", '  base_args: ["--omni", "--stage-configs", "x"]'),
        ("  context_length: 32768", "  context_length: 0"),
        ("opt_in_features: []", "omni: {tasks: [t2i]}\nopt_in_features: []"),
    )
    assert errors(text) == []
    assert checked(text).omni


# -- the schema --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "key", "word"),
    [
        ('  title: "Own 1B"\n', "", "meta.title", "missing"),
        ("tasks: [text]", "tasks: [painting]", "meta.tasks.0", "painting"),
        ('  model_id: "own/Own-1B"', '  model_id: "Own-1B"', "model.model_id", "owner/name"),
        ('"0.17.1"', "0.17", "model.min_vllm_version", "quotes"),
        ('"0.17.1"', '"newest"', "model.min_vllm_version", "0.17.1"),
        ("architecture: dense", "architecture: sparse", "model.architecture", "sparse"),
        ("context_length: 32768", "context_length: -1", "model.context_length", "above 0"),
        ("base_args: []", "base_args: --trust-remote-code", "model.base_args", "list"),
        ("base_args: []", 'base_args: ["--max-num-seqs", 8]', "model.base_args.1", "quotes"),
        ("base_args: []", 'base_args: ["value"]', "model.base_args.0", "no option"),
        ("base_env: {}", "base_env: {A: 1}", "model.base_env.A", "quotes"),
        ("base_env: {}", 'base_env: {"a-b": "1"}', "model.base_env.a-b", "environment"),
        ('    description: "tools"\n', "", "features.tool_calling.description", "missing"),
        ("vram_minimum_gb: 3", "vram_minimum_gb: none", "variants.default.vram_minimum_gb", "above 0"),
        ("precision: bf16", "precision: bf61", "variants.default.precision", "bf61"),
        ("  default:\n", "  main:\n", "variants", "default"),
        ("  - single_node_tp", "  - one_node", "compatible_strategies.0", "one_node"),
        ("hardware_overrides: {}", "hardware_overrides: {amd: [x]}", "hardware_overrides.amd", "mapping"),
    ],
)
def test_schema_faults(old: str, new: str, key: str, word: str) -> None:
    found = errors(change((old, new)))
    assert key in [p.key for p in found]
    problem = next(p for p in found if p.key == key)
    assert word in problem.message
    assert problem.line is not None


def test_modes_are_checked() -> None:
    text = change(
        (
            "opt_in_features: []",
            '  spec:\n    description: "x"\n    default_mode: none\n    args: ["--a"]\n    modes:\n'
            '      one: {args: ["--trust-remote-code"], variants: [nowhere]}\nopt_in_features: []',
        )
    )
    keys = {p.key for p in errors(text)}
    assert {"features.spec", "features.spec.default_mode", "features.spec.modes.one.variants.0"} <= keys


def test_keys_that_the_schema_does_not_have_are_only_warnings() -> None:
    file = checked(change(("opt_in_features: []", "opt_in_features: [nothing]\nnew_key: 1")))
    assert file.errors == ()
    assert {p.key for p in file.problems} == {"new_key", "opt_in_features.0"}


def test_a_key_given_twice() -> None:
    text = GOOD + "guide: again\n"
    (problem,) = errors(text)
    assert problem.kind == "duplicate"
    assert problem.line == len(text.splitlines())


def test_an_id_claimed_twice() -> None:
    files = check_texts({"a.yaml": GOOD.encode(), "b.yaml": GOOD.encode()}, ours=False)
    assert files[0].errors == ()
    assert [p.kind for p in files[1].errors] == ["duplicate"]
    assert "a.yaml" in files[1].errors[0].message


def test_a_file_in_the_wrong_place_is_a_warning() -> None:
    file = check_texts({"models/own/Other.yaml": GOOD.encode()}, ours=False)[0]
    assert [p.severity for p in file.problems] == ["warning"]


@pytest.mark.parametrize("raw", [b"", b"- a\n", b"a: [1\n", b"\xff\xfe\x00", b"a: 1\n---\nb: 2\n", b"just text"])
def test_files_that_are_no_recipes(raw: bytes) -> None:
    (file,) = check_texts({"x.yaml": raw}, ours=False)
    assert file.errors
    assert "x.yaml" in str(file.errors[0])


# -- our own part ------------------------------------------------------------------------------------------------

OURS = GOOD + """\
wizard:
  models:
    own/Own-1B:
      weight_bytes: 2000000000
      weight_source: computed
      licence: mit
      quality: 50
      intents: [chat]
      tool_parser: hermes
      config: {architectures: [LlamaForCausalLM], model_type: llama}
"""


def ours(text: str) -> list[RecipeProblem]:
    return list(check_texts({"own.yaml": text.encode()}, ours=True)[0].errors)


def test_our_own_part_is_asked_for() -> None:
    assert ours(OURS) == []
    assert any(p.key == "wizard" for p in ours(GOOD))


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("    own/Own-1B:\n", "    own/Another:\n", "no facts"),
        ("weight_bytes: 2000000000", "weight_bytes: two", "above 0"),
        ("weight_bytes: 2000000000", "weight_bytes: 4000000000", "less than the weights"),
        ("weight_source: computed", "weight_source: guessed", "guessed"),
        ("      licence: mit\n", "", "licence is missing"),
        ("quality: 50", "quality: 500", "0 to 100"),
        ("intents: [chat]", "intents: [talking]", "talking"),
        ("tool_parser: hermes", "tool_parser: no_parser", "no_parser"),
        ("[LlamaForCausalLM]", "[NoSuchForCausalLM]", "NoSuchForCausalLM"),
        ("      weight_source", "      like: own/Nowhere\n      weight_source", "own/Nowhere"),
        ("model_type: llama", "other: llama", "model_type is missing"),
    ],
)
def test_faults_of_our_own_part(old: str, new: str, word: str) -> None:
    assert old in OURS
    found = ours(OURS.replace(old, new, 1))
    assert any(word in p.message for p in found), [str(p) for p in found]


# -- the command -------------------------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], action: str, word: str | None = None, **more: Any) -> tuple[int, str]:
    code = run(Namespace(action=action, id=word, recipes=more.pop("recipes", []), json=more.pop("json", False)))
    return code, capsys.readouterr().out


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "models" / "own"
    place.mkdir(parents=True)
    (place / "Own-1B.yaml").write_text(GOOD, encoding="utf-8")
    bad = GOOD.replace("own/Own-1B", "own/Bad-1B").replace("0.17.1", "0.11.0").replace('"hermes"', '"gemma4"')
    (place / "Bad-1B.yaml").write_text(bad, encoding="utf-8")
    return tmp_path


def test_check_of_the_packaged(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = command(capsys, "check")
    assert code == 0
    assert "no errors" in out


def test_check_of_a_folder(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    code, out = command(capsys, "check", recipes=[str(checkout)])
    assert code == 1
    bad = checkout / "models" / "own" / "Bad-1B.yaml"
    assert f"{bad}:{line_of(bad.read_text(encoding='utf-8'), '--tool-call-parser')}: " in out
    assert "2 recipes checked: 1 error in 1 file" in out
    code, out = command(capsys, "check", recipes=[str(checkout)], json=True)
    data = json.loads(out)
    assert code == 1
    assert data["errors"] == 1
    problem = next(p for f in data["files"] for p in f["problems"])
    assert problem["flag"] == "--tool-call-parser"
    assert problem["kind"] == "not_yet"
    assert problem["release"] == "0.11.0"


def test_check_of_nothing_is_bad_input(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput):
            check_folder(folder)
    with pytest.raises(BadInput, match="--recipes"):
        run(Namespace(action="check", id="/some/folder", recipes=[], json=False))


def test_list(capsys: pytest.CaptureFixture[str], checkout: Path) -> None:
    code, out = command(capsys, "list", recipes=[str(checkout)])
    assert code == 0
    assert "qwen3-vl" in out
    assert "own/Own-1B" in out
    code, out = command(capsys, "list", json=True)
    ids = {r["id"] for r in json.loads(out)["recipes"]}
    assert {"qwen3-vl", "qwen3.5", "gpt-oss", "whisper"} <= ids


@pytest.mark.parametrize("word", ["gpt-oss", "openai/gpt-oss-120b", "GPT-OSS"])
def test_show(capsys: pytest.CaptureFixture[str], word: str) -> None:
    code, out = command(capsys, "show", word)
    assert code == 0
    assert "openai/gpt-oss-120b" in out
    assert "60.8 GiB" in out
    code, out = command(capsys, "show", word, json=True)
    data = json.loads(out)
    assert data["id"] == "gpt-oss"
    assert {v["model_id"] for v in data["variants"]} == {"openai/gpt-oss-20b", "openai/gpt-oss-120b"}


def test_show_of_what_is_not_there_names_what_is_near() -> None:
    with pytest.raises(BadInput, match="qwen3-vl"):
        run(Namespace(action="show", id="qwen3vl", recipes=[], json=False))
    with pytest.raises(BadInput):
        run(Namespace(action="show", id=None, recipes=[], json=False))
