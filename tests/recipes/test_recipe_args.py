"""What a recipe gives ``vllm serve``: layers in order, translated to what the release takes, each with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard import releases
from wizard.recipes import Hardware, Recipe, RecipeBook, Variant, args_for, env_for, load, serve_args
from wizard.recipes.args import INTENT_FEATURES, features_for, split_args
from wizard.recipes.build import build_recipe
from wizard.recipes.types import gpu_id_of
from wizard.releases.parse import check_argv, refused

HOPPER = Hardware("nvidia", "hopper", "h200", 4)
BLACKWELL = Hardware("nvidia", "blackwell", "rtx_5090", 1)
ADA = Hardware("nvidia", "ada", "rtx_4090", 1)
AMD = Hardware("amd", "amd", "mi300x", 1)


@pytest.fixture(scope="module")
def book() -> RecipeBook:
    return load()


def made(**parts: Any) -> tuple[Recipe, Variant]:
    """A small recipe of our own with ``parts`` laid over it, and its default variant."""
    data: dict[str, Any] = {
        "meta": {"slug": "own", "title": "Own"},
        "model": {"model_id": "own/Own-1B", "min_vllm_version": "0.20.0", "architecture": "dense"},
        "features": {},
        "variants": {"default": {"precision": "bf16"}},
    }
    for key, value in parts.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    recipe = build_recipe(data, "own.yaml", True)
    return recipe, recipe.variants[0]


# -- taking arguments apart --------------------------------------------------------------------------------------


def test_options_and_values() -> None:
    tokens = ["--a", "1", "--b", "-cc.x.y=True", "--c=-1", "--seed", "-5", "--list", "x", "y", "z"]
    assert [a.argv for a in split_args(tokens)] == [
        ("--a", "1"),
        ("--b",),
        ("-cc.x.y", "True"),
        ("--c", "-1"),
        ("--seed", "-5"),
        ("--list", "x", "y", "z"),
    ]


@given(st.lists(st.text(max_size=12), max_size=8))
def test_no_value_is_lost(values: list[str]) -> None:
    tokens = ["--first", *list(values)]
    kept = [part for arg in split_args(tokens) for part in arg.argv]
    assert "".join(kept).replace("=", "") == "".join(tokens).replace("=", "")


# -- layers ------------------------------------------------------------------------------------------------------


def test_a_later_layer_replaces_an_earlier_one() -> None:
    recipe, variant = made(
        model={"base_args": ["--max-num-seqs", "8", "--trust-remote-code"]},
        variants={
            "default": {
                "precision": "bf16",
                "extra_args": ["--max_num_seqs=16"],
                "hardware_overrides": {"h200": {"extra_args": ["--block-size", "64"]}},
            }
        },
        hardware_overrides={
            "hopper": {"extra_args": ["--max-num-seqs", "32"], "extra_env": {"A": "1"}},
            "nvidia": {"extra_args": ["--max-num-seqs", "64"], "extra_env": {"B": "1"}},
        },
    )
    assert serve_args(recipe, variant, (), HOPPER).argv == (
        "--max-num-seqs", "32", "--trust-remote-code", "--block-size", "64",
    )  # fmt: skip
    assert env_for(recipe, variant, (), HOPPER) == {"A": "1"}
    # The brand counts where there is nothing for the generation.
    assert env_for(recipe, variant, (), ADA) == {"B": "1"}
    assert serve_args(recipe, variant, (), AMD).argv == ("--max_num_seqs", "16", "--trust-remote-code")


def test_the_strategys_word_on_hardware_stands_in_place_of_the_recipes() -> None:
    recipe, variant = made(
        hardware_overrides={"hopper": {"extra_args": ["--a", "1"]}},
        strategy_overrides={
            "single_node_tp": {
                "extra_args": ["--s", "1"],
                "hardware_overrides": {"hopper": {"extra_args": ["--b", "2"]}, "h200": {"extra_args": ["--c", "3"]}},
            },
            "multi_node_tp": {"extra_args": ["--never", "1"]},
        },
    )
    assert serve_args(recipe, variant, (), HOPPER).argv == ("--s", "1", "--b", "2", "--c", "3")
    assert serve_args(recipe, variant, (), ADA).argv == ("--s", "1")


def test_features_that_are_on_and_those_on_request() -> None:
    recipe, variant = made(
        features={
            "tool_calling": {"description": "tools", "args": ["--tools"]},
            "text_only": {"description": "text", "args": ["--text"]},
        },
        opt_in_features=["text_only"],
    )
    assert serve_args(recipe, variant).argv == ("--tools",)
    assert serve_args(recipe, variant, ["text_only", "unknown"]).argv == ("--text",)
    assert serve_args(recipe, variant, []).argv == ()
    only = serve_args(recipe, variant, ["text_only"]).args[0]
    assert only.reason == "text"
    assert only.source == "recipe own: features.text_only"


def test_modes() -> None:
    recipe, variant = made(
        features={
            "spec": {
                "description": "drafting",
                "default_mode": "b",
                "modes": {
                    "a": {"args": ["--spec", "a"], "hardware": {"blackwell": "unsupported"}},
                    "b": {"args": ["--spec", "b"], "variants": ["other"]},
                    "c": {"args": ["--spec", "c"], "hardware_overrides": {"hopper": {"args": ["--spec", "c-hopper"]}}},
                },
            }
        },
        variants={"default": {"precision": "bf16"}, "other": {"precision": "fp8", "default_modes": {"spec": "c"}}},
    )
    other = recipe.variants[1]
    assert serve_args(recipe, variant, ["spec"], ADA).argv == ("--spec", "a")
    assert serve_args(recipe, variant, ["spec"], BLACKWELL).argv == ("--spec", "c")
    assert serve_args(recipe, other, ["spec"], ADA).argv == ("--spec", "c")
    assert serve_args(recipe, other, ["spec"], HOPPER).argv == ("--spec", "c-hopper")
    assert serve_args(recipe, other, ["spec"], ADA, modes={"spec": "b"}).argv == ("--spec", "b")


def test_a_feature_may_be_barred() -> None:
    recipe, variant = made(
        features={
            "one": {"description": "x", "args": ["--one"], "hardware": {"rtx_5090": "unsupported"}},
            "two": {"description": "x", "args": ["--two"], "strategies": ["multi_node_tp"]},
        }
    )
    assert serve_args(recipe, variant, None, BLACKWELL).argv == ()
    assert serve_args(recipe, variant, None, HOPPER).argv == ("--one",)


def test_a_fixed_tensor_parallel_size() -> None:
    _recipe, variant = made(variants={"default": {"precision": "fp8", "tp": {"h200": 2, "default": 8}}})
    assert variant.tp_for(HOPPER) == 2
    assert variant.tp_for(ADA) == 8


@pytest.mark.parametrize(
    ("recipe_says", "variant_says", "facts_say", "first"),
    [
        ("0.8.5", None, None, "0.8.5"),
        ("0.8.5", "0.10.0", None, "0.10.0"),
        ("0.8.5", None, "0.11.0", "0.11.0"),
        ("0.20.0", None, "0.9.0", "0.20.0"),
        ("nightly", None, "0.9.0", "nightly"),
    ],
)
def test_the_first_release(recipe_says: str, variant_says: str | None, facts_say: str | None, first: str) -> None:
    models = {"own/Own-1B": {"weight_bytes": 1, **({"first_release": facts_say} if facts_say else {})}}
    recipe, variant = made(
        model={"min_vllm_version": recipe_says},
        variants={"default": {"precision": "bf16", "min_vllm_version": variant_says}},
        wizard={"models": models},
    )
    assert recipe.min_release_for(variant) == first


@pytest.mark.parametrize(("precision", "runs"), [("nvfp4", (True, False, False)), ("fp8", (True, True, True))])
def test_nvfp4_is_for_blackwell(precision: str, runs: tuple[bool, ...]) -> None:
    _recipe, variant = made(variants={"default": {"precision": precision}})
    assert tuple(variant.runs_on(h) for h in (BLACKWELL, HOPPER, AMD)) == runs


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 5090", "rtx_5090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx_pro_6000"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Tesla T4", None),
        ("", None),
    ],
)
def test_names_of_gpus(name: str, gpu_id: str | None) -> None:
    assert gpu_id_of(name) == gpu_id


# -- releases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "value"),
    [("0.7.3", "video=0"), ("0.8.5", '{"video": 0}'), ("0.9.2", '{"video": 0}'), ("0.33.0", '{"video": 0}')],
)
def test_limits_in_the_form_that_the_release_reads(version: str, value: str) -> None:
    recipe, variant = made(features={"image_only": {"description": "x", "args": ["--limit-mm-per-prompt", '{"video": 0}']}})
    args = args_for(recipe, variant, None, ADA, releases.load(version))
    assert [a.argv for a in args] == [("--limit-mm-per-prompt", value)]
    assert not refused(check_argv(("model", *args[0].argv), version))


def test_the_seed_case_images_only_on_wsl2(book: RecipeBook) -> None:
    hit = book.find("Qwen/Qwen3-VL-8B-Instruct")
    assert hit is not None
    made_args = serve_args(*hit, features_for(*hit, "image_only"), ADA, releases.load("0.33.0"))
    assert made_args.argv == ("--limit-mm-per-prompt", '{"video": 0}')
    assert made_args.left_out == ()


def test_the_seed_case_lora_on_four_h200(book: RecipeBook) -> None:
    hit = book.find("Qwen/Qwen3.5-122B-A10B")
    assert hit is not None
    assert "lora" in hit[1].intents
    assert hit[1].model_info().is_moe
    assert hit[1].weight_bytes == pytest.approx(250.2e9, rel=0.001)
    for version in ("0.19.0", "0.20.2", "0.33.0"):
        made_args = serve_args(*hit, features_for(*hit, "lora"), HOPPER, releases.load(version))
        assert not refused(check_argv(("model", *made_args.argv), version))


def test_text_only_before_there_was_an_option_for_it(book: RecipeBook) -> None:
    hit = book.find("Qwen/Qwen3-VL-8B-Instruct")
    assert hit is not None
    older = serve_args(*hit, ["text_only"], ADA, releases.load("0.11.1"))
    assert older.argv == ("--limit-mm-per-prompt", '{"image": 0, "video": 0}')
    assert older.left_out[0].what == "--language-model-only"
    assert older.left_out[0].instead == older.argv
    assert "0.11.1" in older.left_out[0].why
    newer = serve_args(*hit, ["text_only"], ADA, releases.load("0.20.2"))
    assert newer.argv == ("--language-model-only",)
    assert newer.left_out == ()


def test_a_parser_that_came_later_is_left_out_with_what_hangs_on_it() -> None:
    recipe, variant = made(
        features={
            "tool_calling": {"description": "x", "args": ["--enable-auto-tool-choice", "--tool-call-parser", "gemma4"]}
        }
    )
    older = serve_args(recipe, variant, None, ADA, releases.load("0.17.1"))
    assert older.argv == ()
    assert {item.what for item in older.left_out} == {"--enable-auto-tool-choice", "--tool-call-parser gemma4"}
    assert len(serve_args(recipe, variant, None, ADA, releases.load("0.33.0")).argv) == 3


def test_an_older_parser_of_the_same_form_stands_in() -> None:
    recipe, variant = made(
        features={
            "tool_calling": {"description": "x", "args": ["--enable-auto-tool-choice", "--tool-call-parser", "glm47"]}
        }
    )
    older = serve_args(recipe, variant, None, ADA, releases.load("0.13.0"))
    assert older.argv == ("--enable-auto-tool-choice", "--tool-call-parser", "glm45")


def test_reasoning_was_switched_on_apart(book: RecipeBook) -> None:
    hit = book.find("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B")
    assert hit is not None
    assert serve_args(*hit, ["reasoning"], ADA, releases.load("0.7.3")).argv == (
        "--enable-reasoning", "--reasoning-parser", "deepseek_r1",
    )  # fmt: skip
    assert "--enable-reasoning" not in serve_args(*hit, ["reasoning"], ADA, releases.load("0.33.0")).argv


@pytest.mark.parametrize(
    ("model", "version", "argv"),
    [
        ("Qwen/Qwen3-Embedding-4B", "0.33.0", ("--runner", "pooling")),
        ("Qwen/Qwen3-Embedding-4B", "0.9.2", ("--task", "embed")),
        ("BAAI/bge-reranker-v2-m3", "0.9.2", ("--task", "score")),
    ],
)
def test_runners_and_tasks(book: RecipeBook, model: str, version: str, argv: tuple[str, ...]) -> None:
    hit = book.find(model)
    assert hit is not None
    assert serve_args(*hit, None, ADA, releases.load(version)).argv == argv


def test_the_option_that_never_existed_becomes_the_real_one() -> None:
    recipe, variant = made(
        features={
            "tool_calling": {
                "description": "x",
                "args": ["--tool-call-parser-plugin", "own.py", "--tool-call-parser", "own", "--enable-auto-tool-choice"],
            }
        }
    )
    args = serve_args(recipe, variant, None, ADA, releases.load("0.33.0"))
    assert args.argv == ("--tool-parser-plugin", "own.py", "--tool-call-parser", "own", "--enable-auto-tool-choice")
    assert args.left_out[0].instead == ("--tool-parser-plugin", "own.py")


def test_a_feature_waits_for_the_release_that_it_works_from(book: RecipeBook) -> None:
    hit = book.find("openai/gpt-oss-120b")
    assert hit is not None
    assert hit[0].feature("spec_decoding") is not None
    early = serve_args(*hit, ["spec_decoding"], HOPPER, releases.load("0.10.2"))
    assert early.argv == ()
    assert "0.11.1" in early.left_out[0].why
    assert serve_args(*hit, ["spec_decoding"], HOPPER, releases.load("0.12.0")).argv[0] == "--speculative-config"


def test_environment_that_the_release_does_not_read_is_left_out() -> None:
    recipe, variant = made(
        model={"base_env": {"VLLM_USE_FLASHINFER_MOE_FP16": "1", "HSA_NO_SCRATCH_RECLAIM": "1"}},
    )
    newest = serve_args(recipe, variant, None, HOPPER, releases.load("0.33.0"))
    assert newest.env == {"HSA_NO_SCRATCH_RECLAIM": "1"}
    assert newest.left_out[0].what == "VLLM_USE_FLASHINFER_MOE_FP16=1"
    assert "VLLM_USE_FLASHINFER_MOE_FP16" in serve_args(recipe, variant, None, HOPPER, releases.load("0.15.0")).env


def test_spellings_are_written_in_full() -> None:
    recipe, variant = made(model={"base_args": ["--tokenizer_mode", "mistral", "--no_enable_prefix_caching"]})
    args = serve_args(recipe, variant, None, ADA, releases.load("0.33.0"))
    assert args.argv == ("--tokenizer-mode", "mistral", "--no-enable-prefix-caching")


def test_a_relative_found_by_its_shape_keeps_its_own_file_formats(book: RecipeBook) -> None:
    from wizard.models.info import ModelInfo

    model = ModelInfo(
        source="/models/my-fine-tune",
        is_local=True,
        architecture="Mistral3ForConditionalGeneration",
        num_layers=34,
        hidden_size=4096,
        intermediate_size=14336,
    )
    hit = book.find(model)
    assert hit is not None
    assert hit[0].id == "ministral-3"
    args = serve_args(*hit, ["tool_calling"], ADA, releases.load("0.33.0"))
    assert args.argv == ("--enable-auto-tool-choice", "--tool-call-parser", "mistral")
    assert {item.what for item in args.left_out} == {
        "--tokenizer-mode mistral", "--config-format mistral", "--load-format mistral",
    }  # fmt: skip
    itself = book.find("mistralai/Ministral-3-8B-Instruct-2512")
    assert itself is not None
    assert "--load-format" in serve_args(*itself, [], ADA, releases.load("0.33.0")).argv


def test_intents_ask_for_features_that_some_recipe_has(book: RecipeBook) -> None:
    keys = {f.key for r in book.recipes for f in r.features}
    assert {k for wanted in INTENT_FEATURES.values() for k in wanted} <= keys


# -- every recipe on every release --------------------------------------------------------------------------------

SAMPLE = ("0.7.3", "0.11.1", "0.14.1", "0.17.1", "0.20.2", "0.27.1", "0.33.0")
MACHINES = (ADA, HOPPER, BLACKWELL, AMD, Hardware(None, "cpu"), Hardware("nvidia", "turing"))


def _all_accepted(book: RecipeBook, versions: tuple[str, ...], machines: tuple[Hardware, ...]) -> int:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for recipe, variant in book.variants():
        first = releases.version_key(recipe.min_release_for(variant) or "0")
        for version in versions:
            if releases.version_key(version) < first:
                continue
            release = releases.load(version)
            for hardware in machines:
                for features in (None, [f.key for f in recipe.features]):
                    argv = serve_args(recipe, variant, features, hardware, release).argv
                    if (version, argv) in seen:
                        continue
                    seen.add((version, argv))
                    assert refused(check_argv(("model", *argv), version)) == [], (variant.model_id, version, argv)
    return len(seen)


def test_a_sample_of_the_product_is_accepted(book: RecipeBook) -> None:
    assert _all_accepted(book, SAMPLE, MACHINES[:4]) > 100


@pytest.mark.slow
def test_the_whole_product_is_accepted(book: RecipeBook) -> None:
    assert _all_accepted(book, releases.versions(), MACHINES) > 500


# -- the machine as recipes see it --------------------------------------------------------------------------------


def _machine(*gpus: Any) -> Any:
    from wizard.facts import (
        Cpu,
        Docker,
        Fact,
        GpuStack,
        Machine,
        Memory,
        PythonFacts,
        SystemKind,
        known,
        unknown,
    )

    none: Fact[Any] = unknown("not asked")
    return Machine(
        name="own",
        system=SystemKind.NATIVE,
        os_name=none,
        kernel=none,
        home="/home/user",
        cpu=Cpu(known("Intel(R) Xeon(R)", "test"), none, "x86_64"),
        memory=Memory(none, none, none, none),
        gpu=GpuStack(tuple(gpus)),
        docker=Docker(none, none, none, none, none),
        python=PythonFacts(none, none, none),
    )


def _gpu(index: int, name: str, gib: int | None, capability: str | None, vendor: str = "nvidia") -> Any:
    from wizard.facts import Gpu, Vendor, known, unknown

    size = unknown("driver did not say") if gib is None else known(gib << 30, "test")
    cc = unknown("not asked") if capability is None else known(capability, "test")
    return Gpu(index, name, Vendor(vendor), size, size, cc)


def test_hardware_of_a_machine() -> None:
    four = Hardware.of(_machine(*(_gpu(i, "NVIDIA H200", 141, "9.0") for i in range(4))))
    assert four == Hardware("nvidia", "hopper", "h200", 4, 141 << 30, "9.0")
    assert four.names() == ("h200_4x", "h200", "hopper", "nvidia")
    pair = Hardware.of(_machine(_gpu(0, "NVIDIA GeForce RTX 4090", 24, "8.9"), _gpu(1, "NVIDIA GeForce RTX 3060", 12, "8.6")))
    assert pair.vram_bytes == 12 << 30
    assert pair.names() == ("nvidia",), "unlike GPUs share only their brand"
    amd = Hardware.of(_machine(_gpu(0, "AMD Instinct MI300X", 192, None, "amd")))
    assert amd.names() == ("mi300x", "amd")
    silent = Hardware.of(_machine(_gpu(0, "NVIDIA Graphics Device", None, None)))
    assert silent.vram_bytes is None
    assert silent.names() == ("nvidia",)
    assert Hardware.of(_machine()).generation == "cpu"
