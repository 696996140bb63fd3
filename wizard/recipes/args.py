"""What a recipe's variant is started with on given hardware and a given release, each with its reason.

The layers and their order are those of the public recipes' command builder: the model's own arguments, the
variant's, the strategy's, the hardware's, then the features'; a later one replaces an earlier one. What the
release does not take is translated or left out, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wizard.i18n import _
from wizard.recipes.types import Feature, Hardware, Override, Recipe, Variant
from wizard.releases.types import Release

STRATEGY = "single_node_tp"  # how the wizard runs a model: one server on this machine


@dataclass(frozen=True)
class ArgWithReason:
    """One option of ``vllm serve``. ``value`` is None for a switch; ``more`` are further values of a list."""

    flag: str
    value: str | None
    reason: str
    source: str = ""  # "recipe qwen3-vl: features.tool_calling"
    more: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return (self.flag, *(() if self.value is None else (self.value,)), *self.more)


@dataclass(frozen=True)
class LeftOut:
    """Something that the recipe asks for and the release does not take."""

    what: str  # "--language-model-only", "VLLM_USE_DEEP_GEMM=0"
    why: str  # a sentence for people
    instead: tuple[str, ...] = ()  # what is given in its place
    source: str = ""


@dataclass(frozen=True)
class RecipeArgs:
    args: tuple[ArgWithReason, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_reasons: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    features: tuple[str, ...] = ()  # those in effect

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(part for arg in self.args for part in arg.argv)


_OPTION = re.compile(r"-{1,2}[A-Za-z]")


def split_args(tokens: Sequence[str], reason: str = "", source: str = "") -> list[ArgWithReason]:
    """Arguments as options with their values: ["--a", "1", "--b", "-c.d=2"] -> (--a 1), (--b), (-c.d 2).

    Negative numbers are values. Values before the first option belong to nothing and are left out.
    """
    made: list[ArgWithReason] = []
    for token in tokens:
        if _OPTION.match(token):
            flag, equals, value = token.partition("=")
            made.append(ArgWithReason(flag, value if equals else None, reason, source))
        elif made:
            last = made[-1]
            made[-1] = (
                replace(last, value=token) if last.value is None else replace(last, more=(*last.more, token))
            )
    return made


def default_features(recipe: Recipe, variant: Variant) -> tuple[str, ...]:
    """The features that are on when nobody chose: all that are not opt-in, and those the variant steers."""
    return tuple(f.key for f in recipe.features if not f.opt_in or f.key in variant.default_modes)


# What each intent of the wizard asks of a recipe's features, where the recipe has them.
INTENT_FEATURES: Mapping[str, tuple[str, ...]] = {
    "chat": ("reasoning",),
    "agent": ("tool_calling", "reasoning"),
    "vision": ("reasoning",),
    "image_only": ("image_only", "reasoning"),
    "lora": ("reasoning",),
    "longest": ("reasoning", "text_only"),
    "throughput": ("reasoning",),
    "embedding": (),
}


def features_for(recipe: Recipe, variant: Variant, intent: str | None) -> tuple[str, ...]:
    """The features that an intent switches on; without an intent the recipe's own defaults."""
    if intent is None or intent not in INTENT_FEATURES:
        return default_features(recipe, variant)
    wanted = INTENT_FEATURES[intent]
    return tuple(f.key for f in recipe.features if f.key in wanted)


def serve_args(
    recipe: Recipe,
    variant: Variant,
    features: Iterable[str] | None = None,
    hardware: Hardware | None = None,
    release: Release | None = None,
    modes: Mapping[str, str] | None = None,
) -> RecipeArgs:
    """All that the recipe gives ``vllm serve`` and its environment for this choice.

    ``features`` None means the recipe's defaults; unknown names are ignored. ``release`` None means that
    nothing is held against a release. ``modes`` picks a mode by feature key.
    """
    hardware = hardware or Hardware()
    asked = default_features(recipe, variant) if features is None else tuple(features)
    args: list[ArgWithReason] = []
    env: dict[str, tuple[str, str]] = {}
    for layer in _layers(recipe, variant, hardware):
        args += split_args(layer.override.args, layer.reason, f"recipe {recipe.id}: {layer.key}")
        env.update({k: (v, layer.reason) for k, v in layer.override.env.items()})
    used: list[str] = []
    left: list[LeftOut] = []
    for key in dict.fromkeys(asked):
        feature = recipe.feature(key)
        if feature is None or not _allowed(feature, variant, hardware):
            continue
        given = _feature_args(feature, variant, hardware, (modes or {}).get(key))
        reason = _(feature.description) if recipe.packaged else feature.description
        found = split_args(given, reason, f"recipe {recipe.id}: features.{key}")
        if release is not None and feature.first_release and _older(release, feature.first_release):
            found, gone = _too_early(found, feature.first_release, release)
            left += gone
        args += found
        used.append(key)
    if variant.by_shape:
        args, gone = _without_formats(args)
        left += gone
    args = last_wins(args, release)
    made = RecipeArgs(
        tuple(args),
        {name: value for name, (value, _reason) in env.items()},
        {name: reason for name, (_value, reason) in env.items()},
        tuple(left),
        tuple(used),
    )
    if release is None:
        return made
    from wizard.recipes.adapt import adapt

    return adapt(made, release, reranks="rerank" in variant.intents)


# How the files of a published checkpoint are read; a fine-tune of it may be stored in another way.
_FORMATS = frozenset({"--tokenizer-mode", "--config-format", "--load-format", "--quantization"})


def _without_formats(args: list[ArgWithReason]) -> tuple[list[ArgWithReason], list[LeftOut]]:
    from wizard.releases.parse import normal_spelling

    why = _("the model was recognised by its shape, and its files may be of another format")
    kept = [a for a in args if normal_spelling(a.flag) not in _FORMATS]
    gone = [LeftOut(" ".join(a.argv), why, (), a.source) for a in args if normal_spelling(a.flag) in _FORMATS]
    return kept, gone


def _older(release: Release, first: str) -> bool:
    from wizard.releases import version_key

    return version_key(release.version) < version_key(first)


def _too_early(
    args: list[ArgWithReason], first: str, release: Release
) -> tuple[list[ArgWithReason], list[LeftOut]]:
    """A feature before the release that it works from: what stands in for it, and what is left out."""
    from wizard.recipes.adapt import instead_of

    kept: list[ArgWithReason] = []
    left: list[LeftOut] = []
    why = _("it works from vLLM {first} on; this is {version}").format(first=first, version=release.version)
    for arg in args:
        instead = instead_of(arg, release)
        kept += instead
        left.append(LeftOut(" ".join(arg.argv), why, tuple(p for a in instead for p in a.argv), arg.source))
    return kept, left


def args_for(
    recipe: Recipe,
    variant: Variant,
    features: Iterable[str] | None = None,
    hardware: Hardware | None = None,
    release: Release | None = None,
) -> list[ArgWithReason]:
    """The options alone; see :func:`serve_args` for what was left out."""
    return list(serve_args(recipe, variant, features, hardware, release).args)


def env_for(
    recipe: Recipe,
    variant: Variant,
    features: Iterable[str] | None = None,
    hardware: Hardware | None = None,
    release: Release | None = None,
) -> dict[str, str]:
    """The environment variables alone."""
    return dict(serve_args(recipe, variant, features, hardware, release).env)


@dataclass(frozen=True)
class _Layer:
    key: str
    reason: str
    override: Override


def _layers(recipe: Recipe, variant: Variant, hardware: Hardware) -> list[_Layer]:
    model_reason = _("{title} needs it").format(title=recipe.title)
    variant_reason = _("the {precision} checkpoint needs it").format(precision=variant.precision or variant.key)
    hardware_reason = _("for {hardware}").format(hardware=hardware.gpu_id or hardware.generation or "")
    layers = [
        _Layer("model.base_args", model_reason, Override(recipe.base_args, recipe.base_env)),
        _Layer(f"variants.{variant.key}", variant_reason, Override(variant.extra_args, variant.extra_env)),
    ]
    exact, general = _exact_keys(hardware), _general_keys(hardware)
    layers += _picked(variant.hardware_overrides, exact, f"variants.{variant.key}", hardware_reason)
    strategy = recipe.strategy_overrides.get(STRATEGY)
    given: Mapping[str, Any] = strategy if isinstance(strategy, Mapping) else {}
    from wizard.recipes.build import env_map, overrides, strings

    own = Override(
        (*strings(given.get("extra_args")), *strings(given.get("vllm_args"))),
        {**env_map(given.get("env")), **env_map(given.get("extra_env"))},
    )
    layers.append(_Layer(f"strategy_overrides.{STRATEGY}", model_reason, own))
    strategy_hardware = overrides(given.get("hardware_overrides"))
    by_strategy = _picked(strategy_hardware, general, f"strategy_overrides.{STRATEGY}", hardware_reason)
    if by_strategy:
        # The strategy's word for this generation stands in place of the recipe's and the variant's.
        layers += by_strategy
    else:
        layers += _picked(recipe.hardware_overrides, general, "", hardware_reason)
        layers += _picked(variant.hardware_overrides, general, f"variants.{variant.key}", hardware_reason)
    layers += _picked(strategy_hardware, exact, f"strategy_overrides.{STRATEGY}", hardware_reason)
    return layers


def _exact_keys(hardware: Hardware) -> tuple[str, ...]:
    return tuple(k for k in hardware.names() if k not in _general_keys(hardware))


def _general_keys(hardware: Hardware) -> tuple[str, ...]:
    return tuple(k for k in (hardware.generation, hardware.brand) if k)


def _picked(table: Mapping[str, Override], keys: Iterable[str], where: str, reason: str) -> list[_Layer]:
    """The first of ``keys`` that the table has; a brand is only the fallback of a generation."""
    for key in keys:
        if key in table:
            name = f"{where}.hardware_overrides.{key}".lstrip(".")
            return [_Layer(name, reason, table[key])]
    return []


def _allowed(feature: Feature, variant: Variant, hardware: Hardware) -> bool:
    if any(k in feature.unsupported_on for k in hardware.names()):
        return False
    if feature.strategies and STRATEGY not in feature.strategies:
        return False
    return not feature.variants or variant.key in feature.variants


def _feature_args(feature: Feature, variant: Variant, hardware: Hardware, mode_key: str | None) -> tuple[str, ...]:
    if feature.modes:
        mode = feature.mode_for(variant, hardware, mode_key)
        if mode is None:
            return ()
        for key in hardware.names():
            if key in mode.hardware_overrides and mode.hardware_overrides[key].args:
                return mode.hardware_overrides[key].args
        return mode.args
    for key in hardware.names():
        if key in feature.hardware_overrides and feature.hardware_overrides[key].args:
            return feature.hardware_overrides[key].args
    return feature.args


def last_wins(args: Iterable[ArgWithReason], release: Release | None = None) -> list[ArgWithReason]:
    """Each option once, the last one given, where the first stood; spellings of one option count as one."""
    from wizard.recipes.adapt import canonical

    kept: dict[str, ArgWithReason] = {}
    for arg in args:
        kept[canonical(arg.flag, release)] = arg
    return list(kept.values())
