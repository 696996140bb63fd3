"""What a recipe file may hold: the public recipes' schema, and our ``wizard`` part. Each fault with its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from wizard.i18n import _
from wizard.recipes.types import RecipeProblem
from wizard.recipes.yaml_lines import Path, YamlDocument

STRATEGIES = (
    "single_node_tp", "single_node_tep", "single_node_dep", "multi_node_tp", "multi_node_tep",
    "multi_node_dep", "multi_node_tp_pp", "multi_node_tp_dp", "pd_cluster",
)  # fmt: skip
TASKS = ("text", "multimodal", "omni", "embedding")
DIFFICULTIES = ("beginner", "intermediate", "advanced")
ARCHITECTURES = ("dense", "moe")
PRECISIONS = (
    "bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4", "fp4", "mxfp4", "int8", "int4", "awq", "gptq", "int2/4/8",
)  # fmt: skip
GENERATIONS = ("hopper", "blackwell", "ada", "ampere", "turing", "volta", "amd", "tpu", "cpu", "xpu", "npu")
BRANDS = ("nvidia", "amd", "intel", "google", "huawei")
INTENTS = (
    "chat", "agent", "vision", "image_only", "lora", "embedding", "rerank", "transcribe", "longest", "throughput",
)  # fmt: skip
WEIGHT_SOURCES = ("published", "computed", "estimated")

TOP_KEYS = {
    "meta", "model", "dependencies", "features", "opt_in_features", "hardware_opt_in_features", "variants",
    "compatible_strategies", "default_strategy", "strategy_hardware", "strategy_min_gpus", "strategy_overrides",
    "hardware_overrides", "hardware_notes", "kv_offload_support", "omni", "guide", "wizard",
}  # fmt: skip
META_KEYS = {
    "title", "slug", "provider", "description", "date_added", "date_updated", "difficulty", "tasks",
    "performance_headline", "related_recipes", "hardware", "default_hardware", "platforms",
}  # fmt: skip
MODEL_KEYS = {
    "model_id", "min_vllm_version", "docker_image", "docker_source", "nightly_required", "install", "architecture",
    "parameter_count", "active_parameters", "context_length", "supports_dcp", "base_args", "base_env",
    "flashinfer_autotune",
}  # fmt: skip
FEATURE_KEYS = {
    "description", "label", "args", "modes", "default_mode", "hardware", "hardware_overrides", "strategies", "companion",
}  # fmt: skip
VARIANT_KEYS = {
    "model_id", "label", "precision", "precision_hardware", "vram_minimum_gb", "description", "extra_args",
    "extra_env", "tp", "min_vllm_version", "docker_image", "supported_hardware", "hardware_overrides", "default_modes",
    "parameter_count",
}  # fmt: skip
WIZARD_MODEL_KEYS = {
    "like", "parameters", "weight_bytes", "weight_source", "disk_bytes", "gated", "licence", "first_release",
    "quality", "intents", "tool_parser", "reasoning_parser", "chat_template", "needs_remote_code", "max_lora_rank",
    "notes", "config",
}  # fmt: skip

_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")
_VERSION = re.compile(r"\d+\.\d+(\.\d+){0,2}([.-]?(post|rc|dev)\d+)*\Z")
_COUNT = re.compile(r"~?[0-9]+(\.[0-9]+)?\s*[KMBT]\b", re.IGNORECASE)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Judge:
    """Collects the faults of one document."""

    def __init__(self, document: YamlDocument, file: str) -> None:
        self.document = document
        self.file = file
        self.problems: list[RecipeProblem] = []

    def fault(self, path: Path, message: str, *, kind: str = "schema", severity: str = "error", **more: Any) -> None:
        key = ".".join(str(p) for p in path)
        line = self.document.line_of(path)
        self.problems.append(RecipeProblem(self.file, line, key, message, kind, severity, **more))

    def warn(self, path: Path, message: str) -> None:
        self.fault(path, message, severity="warning")

    # -- shapes --------------------------------------------------------------------------------------------------

    def mapping(self, value: object, path: Path, needed: bool = False) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        if value is not None or needed:
            self.fault(path, _("a mapping is needed here") if value is not None else _("is missing"))
        return {}

    def text(self, value: object, path: Path, needed: bool = True) -> str | None:
        if isinstance(value, str) and (value.strip() or not needed):
            return value
        if value is None or value == "":
            if needed:
                self.fault(path, _("is missing"))
        else:
            self.fault(path, _("text is needed here, not {value!r}; put it in quotes").format(value=value))
        return None

    def one_of(
        self, value: object, path: Path, allowed: Iterable[str], needed: bool = True, severity: str = "error"
    ) -> None:
        given = self.text(value, path, needed)
        if given is not None and given not in allowed:
            message = _("{value!r} is not one of: {allowed}").format(value=given, allowed=", ".join(allowed))
            self.fault(path, message, severity=severity)

    def texts(self, value: object, path: Path) -> tuple[str, ...]:
        """A list of texts; what is not text is a fault, because a number or a switch would be written otherwise."""
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fault(path, _("a list is needed here"))
            return ()
        for i, item in enumerate(value):
            if not isinstance(item, str):
                self.fault((*path, i), _("{value!r} must be in quotes").format(value=item))
        return tuple(str(x) for x in value)

    def args(self, value: object, path: Path) -> None:
        given = self.texts(value, path)
        if given and not given[0].startswith("-"):
            self.fault((*path, 0), _("{value!r} belongs to no option").format(value=given[0]))
        for i, token in enumerate(given):
            name = token.split("=", 1)[0]
            if token.startswith("--") and " " in name:
                self.fault(
                    (*path, i),
                    _("{value!r} is one argument with a blank in it; option and value are two items").format(value=token),
                    kind="bad_value",
                    flag=name.split(" ")[0],
                )

    def env(self, value: object, path: Path) -> None:
        for name, given in self.mapping(value, path).items():
            if not _ENV_NAME.match(name):
                self.fault((*path, name), _("{name!r} is no name of an environment variable").format(name=name))
            if not isinstance(given, str):
                self.fault((*path, name), _("{value!r} must be in quotes").format(value=given))

    def keys(self, value: Mapping[str, Any], path: Path, known: set[str]) -> None:
        for key in value:
            if key not in known:
                self.warn((*path, key), _("the schema has no such key"))

    def positive(self, value: object, path: Path, needed: bool = True, whole: bool = True) -> None:
        kinds = (int,) if whole else (int, float)
        if value is None and not needed:
            return
        if not isinstance(value, kinds) or isinstance(value, bool) or value <= 0:
            self.fault(path, _("a number above 0 is needed here, not {value!r}").format(value=value))

    def version(self, value: object, path: Path, needed: bool = True, nightly: bool = True) -> None:
        given = self.text(value, path, needed)
        if given is None or (nightly and given == "nightly"):
            return
        if not _VERSION.match(given):
            self.fault(path, _("{value!r} is no vLLM release; write it as 0.17.1").format(value=given))

    def model_id(self, value: object, path: Path, needed: bool = True) -> None:
        given = self.text(value, path, needed)
        if given is not None and not given.startswith("/") and not _MODEL_ID.match(given):
            self.fault(path, _("{value!r} is no repository id of the form owner/name").format(value=given))

    def overrides(self, value: object, path: Path, args_key: str = "extra_args") -> None:
        for key, given in self.mapping(value, path).items():
            part = self.mapping(given, (*path, key))
            self.args(part.get(args_key), (*path, key, args_key))
            self.env(part.get("extra_env"), (*path, key, "extra_env"))


def validate(document: YamlDocument, file: str, *, ours: bool) -> list[RecipeProblem]:
    """Faults of one recipe file. ``ours``: the ``wizard`` part must be there for every variant."""
    judge = Judge(document, file)
    for path, line in document.duplicates:
        judge.problems.append(
            RecipeProblem(file, line, ".".join(map(str, path)), _("is given twice; the last one counts"), "duplicate")
        )
    data = document.data
    if not isinstance(data, Mapping):
        judge.fault((), _("a recipe is a mapping with meta, model and variants"))
        return judge.problems
    judge.keys(data, (), TOP_KEYS)
    for check in (_meta, _model, _features, _variants, _strategies):
        check(judge, data)
    judge.overrides(data.get("hardware_overrides"), ("hardware_overrides",))
    if "wizard" in data or ours:
        _wizard(judge, data, ours)
    return judge.problems


def _meta(judge: Judge, data: Mapping[str, Any]) -> None:
    meta = judge.mapping(data.get("meta"), ("meta",), needed=True)
    judge.keys(meta, ("meta",), META_KEYS)
    for key in ("title", "slug", "provider", "description"):
        judge.text(meta.get(key), ("meta", key))
    judge.one_of(meta.get("difficulty"), ("meta", "difficulty"), DIFFICULTIES, needed=False, severity="warning")
    for i, task in enumerate(judge.texts(meta.get("tasks"), ("meta", "tasks"))):
        judge.one_of(task, ("meta", "tasks", i), TASKS)
    for gpu, level in judge.mapping(meta.get("hardware"), ("meta", "hardware")).items():
        judge.one_of(level, ("meta", "hardware", gpu), ("verified", "unsupported"), severity="warning")


def _model(judge: Judge, data: Mapping[str, Any]) -> None:
    model = judge.mapping(data.get("model"), ("model",), needed=True)
    if not model:
        return

    def at(key: str) -> Path:
        return ("model", key)

    judge.keys(model, ("model",), MODEL_KEYS)
    judge.model_id(model.get("model_id"), at("model_id"))
    judge.version(model.get("min_vllm_version"), at("min_vllm_version"))
    judge.one_of(model.get("architecture"), at("architecture"), ARCHITECTURES)
    count = judge.text(model.get("parameter_count"), at("parameter_count"))
    if count is not None and not _COUNT.match(count):
        judge.warn(at("parameter_count"), _("{value!r} is no count such as 8B or 0.6B").format(value=count))
    # What vLLM-Omni serves has no context; its recipes say 0.
    if not (model.get("context_length") == 0 and "omni" in data):
        judge.positive(model.get("context_length"), at("context_length"), needed=False)
    judge.args(model.get("base_args"), at("base_args"))
    judge.env(model.get("base_env"), at("base_env"))


def _features(judge: Judge, data: Mapping[str, Any]) -> None:
    variants = judge.mapping(data.get("variants"), ("variants",))
    features = judge.mapping(data.get("features"), ("features",))
    for key, given in features.items():
        path: Path = ("features", key)
        feature = judge.mapping(given, path)
        judge.keys(feature, path, FEATURE_KEYS)
        judge.text(feature.get("description"), (*path, "description"))
        judge.args(feature.get("args"), (*path, "args"))
        judge.overrides(feature.get("hardware_overrides"), (*path, "hardware_overrides"), "args")
        modes = judge.mapping(feature.get("modes"), (*path, "modes"))
        if feature.get("args") and modes:
            judge.fault(path, _("has args and modes; only one of them is allowed"))
        if not feature.get("args") and not modes and not feature.get("hardware_overrides"):
            judge.fault(path, _("has neither args nor modes"))
        default = feature.get("default_mode")
        if default is not None and default not in modes:
            judge.fault((*path, "default_mode"), _("there is no mode {value!r}").format(value=default))
        for mode_key, mode_given in modes.items():
            at = (*path, "modes", mode_key)
            mode = judge.mapping(mode_given, at)
            judge.args(mode.get("args"), (*at, "args"))
            judge.overrides(mode.get("hardware_overrides"), (*at, "hardware_overrides"), "args")
            for i, name in enumerate(judge.texts(mode.get("variants"), (*at, "variants"))):
                if name not in variants:
                    judge.fault((*at, "variants", i), _("there is no variant {value!r}").format(value=name))
    for i, name in enumerate(judge.texts(data.get("opt_in_features"), ("opt_in_features",))):
        if name not in features:
            judge.warn(("opt_in_features", i), _("there is no feature {value!r}").format(value=name))


def _variants(judge: Judge, data: Mapping[str, Any]) -> None:
    variants = judge.mapping(data.get("variants"), ("variants",), needed=True)
    if variants and "default" not in variants:
        judge.fault(("variants",), _("the variant “default” is missing"))
    features = data.get("features") if isinstance(data.get("features"), Mapping) else {}
    for key, given in variants.items():
        path: Path = ("variants", key)
        variant = judge.mapping(given, path, needed=True)
        judge.keys(variant, path, VARIANT_KEYS)
        judge.model_id(variant.get("model_id"), (*path, "model_id"), needed=False)
        judge.one_of(variant.get("precision"), (*path, "precision"), PRECISIONS)
        judge.positive(variant.get("vram_minimum_gb"), (*path, "vram_minimum_gb"), whole=False)
        judge.args(variant.get("extra_args"), (*path, "extra_args"))
        judge.env(variant.get("extra_env"), (*path, "extra_env"))
        judge.overrides(variant.get("hardware_overrides"), (*path, "hardware_overrides"))
        judge.version(variant.get("min_vllm_version"), (*path, "min_vllm_version"), needed=False)
        judge.texts(variant.get("supported_hardware"), (*path, "supported_hardware"))
        for feature in judge.mapping(variant.get("default_modes"), (*path, "default_modes")):
            if feature not in (features or {}):
                judge.fault((*path, "default_modes", feature), _("there is no feature {value!r}").format(value=feature))


def _strategies(judge: Judge, data: Mapping[str, Any]) -> None:
    given = judge.texts(data.get("compatible_strategies"), ("compatible_strategies",))
    if not given and "compatible_strategies" not in data:
        judge.fault(("compatible_strategies",), _("is missing"))
    for i, name in enumerate(given):
        judge.one_of(name, ("compatible_strategies", i), STRATEGIES)
    for name, part in judge.mapping(data.get("strategy_overrides"), ("strategy_overrides",)).items():
        path: Path = ("strategy_overrides", name)
        judge.one_of(name, path, STRATEGIES)
        override = judge.mapping(part, path)
        judge.args(override.get("extra_args"), (*path, "extra_args"))
        judge.args(override.get("vllm_args"), (*path, "vllm_args"))
        judge.overrides(override.get("hardware_overrides"), (*path, "hardware_overrides"))


# -- our own part --------------------------------------------------------------------------------------------------


def _wizard(judge: Judge, data: Mapping[str, Any], ours: bool) -> None:
    part = judge.mapping(data.get("wizard"), ("wizard",), needed=ours)
    judge.keys(part, ("wizard",), {"models", "features"})
    features = data.get("features") if isinstance(data.get("features"), Mapping) else {}
    variants = data.get("variants") if isinstance(data.get("variants"), Mapping) else {}
    for key, given in judge.mapping(part.get("features"), ("wizard", "features")).items():
        path: Path = ("wizard", "features", key)
        feature = judge.mapping(given, path)
        if key not in (features or {}):
            judge.fault(path, _("there is no feature {value!r}").format(value=key))
        judge.keys(feature, path, {"first_release", "variants"})
        judge.version(feature.get("first_release"), (*path, "first_release"), needed=False, nightly=False)
        for i, name in enumerate(judge.texts(feature.get("variants"), (*path, "variants"))):
            if name not in (variants or {}):
                judge.fault((*path, "variants", i), _("there is no variant {value!r}").format(value=name))
    models = judge.mapping(part.get("models"), ("wizard", "models"), needed=ours)
    for model_id, given in models.items():
        _wizard_model(judge, models, model_id, given)
    if ours:
        _every_variant_known(judge, data, variants or {}, models)


def _wizard_model(judge: Judge, models: Mapping[str, Any], model_id: str, given: object) -> None:
    path: Path = ("wizard", "models", model_id)
    facts = judge.mapping(given, path, needed=True)
    judge.keys(facts, path, WIZARD_MODEL_KEYS)
    judge.model_id(model_id, path)
    like = facts.get("like")
    if like is not None and like not in models:
        judge.fault((*path, "like"), _("there is no model {value!r} here").format(value=like))
    judge.positive(facts.get("weight_bytes"), (*path, "weight_bytes"))
    judge.one_of(facts.get("weight_source"), (*path, "weight_source"), WEIGHT_SOURCES)
    for key in ("parameters", "disk_bytes", "max_lora_rank"):
        judge.positive(facts.get(key), (*path, key), needed=False)
    judge.version(facts.get("first_release"), (*path, "first_release"), needed=False, nightly=False)
    for i, intent in enumerate(judge.texts(facts.get("intents"), (*path, "intents"))):
        judge.one_of(intent, (*path, "intents", i), INTENTS)
    quality = facts.get("quality")
    if quality is not None and (type(quality) is not int or not 0 <= quality <= 100):
        judge.fault((*path, "quality"), _("a whole number from 0 to 100 is needed here"))
    for key in ("gated", "chat_template", "needs_remote_code"):
        if facts.get(key) is not None and not isinstance(facts[key], bool):
            judge.fault((*path, key), _("true or false is needed here"))
    judge.mapping(facts.get("config"), (*path, "config"))


def _every_variant_known(
    judge: Judge, data: Mapping[str, Any], variants: Mapping[str, Any], models: Mapping[str, Any]
) -> None:
    from wizard.recipes.build import build_facts, mapping, optional_text

    model = mapping(data.get("model"))
    seen: dict[str, str] = {}
    for key, given in variants.items():
        variant = mapping(given)
        model_id = optional_text(variant.get("model_id")) or optional_text(model.get("model_id")) or ""
        if model_id in seen:
            judge.fault(
                ("variants", key),
                _("{model} is already the variant {other}").format(model=model_id, other=seen[model_id]),
                kind="duplicate",
            )
        seen[model_id] = str(key)
        if model_id not in models:
            judge.fault(("variants", key), _("wizard.models has no facts for {model}").format(model=model_id))
            continue
        facts = build_facts(models, model_id, None)
        for name in ("architectures", "model_type"):
            if not facts.config.get(name):
                judge.fault(("wizard", "models", model_id, "config"), _("{name} is missing").format(name=name))
        for name, value in (("intents", facts.intents), ("quality", facts.quality), ("licence", facts.licence)):
            if not value:
                judge.fault(("wizard", "models", model_id), _("{name} is missing").format(name=name))
        minimum = variant.get("vram_minimum_gb")
        if isinstance(minimum, (int, float)) and facts.weight_bytes and minimum * 1e9 < facts.weight_bytes:
            judge.fault(("variants", key, "vram_minimum_gb"), _("is less than the weights alone"))
    for model_id in models:
        if model_id not in seen:
            judge.warn(("wizard", "models", model_id), _("no variant has this model"))
