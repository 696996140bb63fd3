"""From a recipe file's plain data to the frozen records; lenient, because one odd field must not lose a file.

Strict judgement is :mod:`wizard.recipes.schema`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wizard.recipes.types import Feature, Mode, ModelFacts, Override, Recipe, Variant


def text(value: object) -> str:
    return "" if value is None else str(value).strip()


def optional_text(value: object) -> str | None:
    return text(value) or None


def strings(value: object) -> tuple[str, ...]:
    """A list of arguments; a single text is split at blanks, as some recipes write it."""
    if isinstance(value, (list, tuple)):
        return tuple(str(x) for x in value if x is not None)
    return tuple(value.split()) if isinstance(value, str) else ()


def mapping(value: object) -> Mapping[str, Any]:
    # Documents are plain dicts; a test against the abstract class costs several times as much.
    return value if isinstance(value, dict) else {}


def env_text(value: object) -> str:
    """An environment value: YAML's true and false are written as the programs read them."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return text(value)


def env_map(value: object) -> dict[str, str]:
    return {str(k): env_text(v) for k, v in mapping(value).items() if v is not None}


def number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def overrides(value: object) -> dict[str, Override]:
    made = {}
    for key, given in mapping(value).items():
        part = mapping(given)
        made[str(key)] = Override(
            # A feature's own override says "args", a recipe's "extra_args".
            args=strings(part.get("extra_args")) or strings(part.get("args")),
            env=env_map(part.get("extra_env")),
            docker_image=optional_text(part.get("docker_image")),
        )
    return made


def unsupported(value: object) -> tuple[str, ...]:
    return tuple(str(k) for k, v in mapping(value).items() if v == "unsupported")


def build_mode(key: str, given: Mapping[str, Any]) -> Mode:
    return Mode(
        key=key,
        args=strings(given.get("args")),
        label=text(given.get("label")),
        description=text(given.get("description")),
        variants=strings(given.get("variants")),
        unsupported_on=unsupported(given.get("hardware")),
        hardware_overrides=overrides(given.get("hardware_overrides")),
    )


def build_feature(key: str, given: Mapping[str, Any], opt_in: bool, ours: Mapping[str, Any]) -> Feature:
    modes = mapping(given.get("modes"))
    return Feature(
        key=key,
        description=text(given.get("description")),
        args=strings(given.get("args")),
        modes=tuple(build_mode(str(k), mapping(m)) for k, m in modes.items()),
        default_mode=optional_text(given.get("default_mode")),
        opt_in=opt_in,
        strategies=strings(given.get("strategies")),
        unsupported_on=unsupported(given.get("hardware")),
        hardware_overrides=overrides(given.get("hardware_overrides")),
        first_release=optional_text(ours.get("first_release")),
        variants=strings(ours.get("variants")),
    )


def merge(base: object, over: object) -> Any:
    """``over`` laid on ``base``: mappings key by key, all else replaced; null takes a key away."""
    if isinstance(base, dict) and isinstance(over, dict):
        made = {k: merge(v, over[k]) if k in over else v for k, v in base.items()}
        made.update({k: v for k, v in over.items() if k not in base})
        return {k: v for k, v in made.items() if v is not None}
    return over


# What says which checkpoint it is belongs to that checkpoint alone and is not taken over from ``like``.
_NOT_INHERITED = frozenset({"like", "weight_bytes", "disk_bytes", "weight_source", "notes"})


def resolve_like(models: Mapping[str, Any], model_id: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """A model's facts with those of the model that ``like`` names underneath."""
    given = dict(mapping(models.get(model_id)))
    like = given.get("like")
    if not isinstance(like, str) or like in seen or like not in models:
        return given
    base = resolve_like(models, like, (*seen, model_id))
    return dict(merge({k: v for k, v in base.items() if k not in _NOT_INHERITED}, given))


def with_resolved_models(data: dict[str, Any]) -> dict[str, Any]:
    """The document with every ``like`` of its ``wizard`` part carried out, so that loading need not."""
    models = mapping(mapping(data.get("wizard")).get("models"))
    if not models:
        return data
    made = {}
    for model_id in models:
        facts = resolve_like(models, model_id)
        facts.pop("like", None)
        made[model_id] = facts
    return {**data, "wizard": {**data["wizard"], "models": made}}


def build_facts(models: Mapping[str, Any], model_id: str, first_release: str | None) -> ModelFacts:
    given = resolve_like(models, model_id)
    gated, template = given.get("gated"), given.get("chat_template")
    return ModelFacts(
        model_id=model_id,
        weight_bytes=whole(given.get("weight_bytes")),
        weight_source=text(given.get("weight_source")),
        disk_bytes=whole(given.get("disk_bytes")),
        parameters=whole(given.get("parameters")),
        gated=gated if isinstance(gated, bool) else None,
        licence=optional_text(given.get("licence")),
        first_release=optional_text(given.get("first_release")) or first_release,
        quality=whole(given.get("quality")),
        intents=strings(given.get("intents")),
        tool_parser=optional_text(given.get("tool_parser")),
        reasoning_parser=optional_text(given.get("reasoning_parser")),
        chat_template=template if isinstance(template, bool) else None,
        needs_remote_code=given.get("needs_remote_code") is True,
        max_lora_rank=whole(given.get("max_lora_rank")),
        notes=strings([given["notes"]]) if isinstance(given.get("notes"), str) else strings(given.get("notes")),
        config=mapping(given.get("config")),
    )


def build_facts_of(data: Mapping[str, Any]) -> dict[str, ModelFacts]:
    """Facts by model id in lower case, of one recipe file's ``wizard`` part."""
    models = mapping(mapping(data.get("wizard")).get("models"))
    first = optional_text(mapping(data.get("model")).get("min_vllm_version"))
    return {str(k).lower(): build_facts(models, str(k), first) for k in models}


def build_variant(
    key: str,
    given: Mapping[str, Any],
    recipe_id: str,
    model: Mapping[str, Any],
    facts: Mapping[str, ModelFacts],
) -> Variant:
    model_id = optional_text(given.get("model_id")) or text(model.get("model_id"))
    declared = given.get("tp")
    tp: int | dict[str, int] | None = whole(declared)
    if isinstance(declared, Mapping):
        tp = {str(k): v for k, v in declared.items() if isinstance(v, int)}
    return Variant(
        key=key,
        model_id=model_id,
        precision=text(given.get("precision")).lower(),
        recipe_id=recipe_id,
        vram_minimum_gb=number(given.get("vram_minimum_gb")),
        description=text(given.get("description")),
        label=text(given.get("label")),
        extra_args=strings(given.get("extra_args")),
        extra_env=env_map(given.get("extra_env")),
        hardware_overrides=overrides(given.get("hardware_overrides")),
        default_modes={str(k): str(v) for k, v in mapping(given.get("default_modes")).items()},
        supported_hardware=strings(given.get("supported_hardware")),
        precision_hardware={str(k): str(v) for k, v in mapping(given.get("precision_hardware")).items()},
        tensor_parallel_size=tp,
        min_release=optional_text(given.get("min_vllm_version")),
        parameter_count=optional_text(given.get("parameter_count")) or optional_text(model.get("parameter_count")),
        facts=facts.get(model_id.lower()),
    )


def build_recipe(
    data: Mapping[str, Any], file: str, packaged: bool, facts: Mapping[str, ModelFacts] | None = None
) -> Recipe:
    """The recipe in ``data``. Missing parts are empty; raises ValueError when there is no model at all.

    ``facts`` are those of all loaded files by model id in lower case; None: this file's own.
    """
    facts = build_facts_of(data) if facts is None else facts
    meta, model = mapping(data.get("meta")), mapping(data.get("model"))
    model_id = text(model.get("model_id"))
    if not model_id:
        raise ValueError("model.model_id is missing")
    ours = mapping(data.get("wizard"))
    recipe_id = text(meta.get("slug")) if packaged else model_id
    opt_in = set(strings(data.get("opt_in_features")))
    ours_features = mapping(ours.get("features"))
    features = tuple(
        build_feature(str(k), mapping(f), str(k) in opt_in, mapping(ours_features.get(k)))
        for k, f in mapping(data.get("features")).items()
    )
    variants = mapping(data.get("variants")) or {"default": {}}
    tasks = strings(meta.get("tasks"))
    return Recipe(
        id=recipe_id or model_id,
        title=text(meta.get("title")) or model_id,
        provider=text(meta.get("provider")),
        description=text(meta.get("description")),
        file=file,
        packaged=packaged,
        model_id=model_id,
        min_release=optional_text(model.get("min_vllm_version")),
        architecture=text(model.get("architecture")) or "dense",
        tasks=tasks,
        context_length=whole(model.get("context_length")),
        base_args=strings(model.get("base_args")),
        base_env=env_map(model.get("base_env")),
        features=features,
        variants=tuple(
            build_variant(str(k), mapping(v), recipe_id or model_id, model, facts) for k, v in variants.items()
        ),
        strategies=strings(data.get("compatible_strategies")),
        hardware={str(k): str(v) for k, v in mapping(meta.get("hardware")).items()},
        hardware_overrides=overrides(data.get("hardware_overrides")),
        strategy_overrides=mapping(data.get("strategy_overrides")),
        dependencies=tuple(mapping(d) for d in data.get("dependencies") or () if isinstance(d, Mapping)),
        docker_image=model.get("docker_image"),
        nightly_required=model.get("nightly_required") is True,
        omni="omni" in tasks or isinstance(data.get("omni"), Mapping),
        guide=text(data.get("guide")),
        raw=data,
    )
