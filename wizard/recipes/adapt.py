"""Holding a recipe's options against one release: what it takes as it stands, in another form, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from wizard.i18n import _
from wizard.recipes.args import ArgWithReason, LeftOut, RecipeArgs
from wizard.recipes.book import release_key
from wizard.releases.types import Option, Release


@lru_cache(maxsize=8)
def _table(release: Release) -> Mapping[str, Option]:
    return {flag: option for option in release.options for flag in option.flags}


def option_of(flag: str, release: Release) -> Option | None:
    """The option that the release's parser takes for ``flag``: ``_`` for ``-``, and dotted forms, understood.

    Abbreviations are not: a recipe is written in full.
    """
    table = _table(release)
    name, _dot, rest = flag.partition(".")
    spelled = name.replace("_", "-") if name.startswith("--") else name
    option = table.get(spelled)
    if option is None or (rest and not option.dotted):
        return None
    return option


def canonical(flag: str, release: Release | None) -> str:
    """One name for all spellings of an option; a dotted part stays, as its keys add up."""
    name, dot, rest = flag.partition(".")
    if release is not None:
        option = option_of(name, release)
        if option is not None:
            return f"{option.flag}{dot}{rest}"
    return f"{name.replace('_', '-') if name.startswith('--') else name}{dot}{rest}"


def refusal(arg: ArgWithReason, release: Release) -> str | None:
    """Why the release would refuse this option or its value; None when it takes it."""
    option = option_of(arg.flag, release)
    version = release.version
    if option is None:
        return _("vLLM {version} has no {flag}").format(version=version, flag=arg.flag)
    if "." in arg.flag:
        return None
    if arg.value is None:
        return None
    names = {"tool_call_parser": release.tool_parsers, "reasoning_parser": release.reasoning_parsers}
    known = names.get(option.dest)
    if known and arg.value not in known:
        return _("vLLM {version} has no {what} named {name}").format(
            version=version,
            what=_("tool parser") if option.dest == "tool_call_parser" else _("reasoning parser"),
            name=arg.value,
        )
    lists = {"kv_cache_dtype": release.kv_cache_dtypes, "quantization": release.quantization}
    allowed = lists.get(option.dest) or (option.choices if not option.computed_choices else None)
    if allowed and arg.value not in allowed and not (arg.value == "auto" and option.also_auto):
        return _("vLLM {version} does not take {value} for {flag}").format(
            version=version, value=arg.value, flag=option.flag
        )
    return None


def adapt(made: RecipeArgs, release: Release) -> RecipeArgs:
    """The same arguments as the release takes them, with what was translated or left out."""
    args: list[ArgWithReason] = []
    left: list[LeftOut] = list(made.left_out)
    for arg in made.args:
        arg = _in_its_form(arg, release)
        why = refusal(arg, release)
        if why is None:
            option = option_of(arg.flag, release)
            spelled = canonical(arg.flag, release) if option is not None and "." not in arg.flag else arg.flag
            args.append(replace(arg, flag=_spelling(arg.flag, spelled, option)))
            continue
        instead = _instead(arg, release)
        args += instead
        left.append(
            LeftOut(
                " ".join(arg.argv), why, tuple(p for a in instead for p in a.argv), arg.source
            )
        )
    args, left = _without_orphans(args, left)
    from wizard.recipes.args import last_wins

    env, reasons = {}, {}
    for name, value in made.env.items():
        if name.startswith("VLLM_") and name not in release.env:
            left.append(
                LeftOut(f"{name}={value}", _("vLLM {version} does not read it").format(version=release.version))
            )
            continue
        env[name], reasons[name] = value, made.env_reasons.get(name, "")
    return replace(
        made, args=tuple(last_wins(args, release)), env=env, env_reasons=reasons, left_out=tuple(left)
    )


def _spelling(given: str, canonical_flag: str, option: Option | None) -> str:
    """The full spelling; a ``--no-`` twin must stay what it is."""
    if option is None or not given.startswith("--"):
        return canonical_flag
    spelled = given.replace("_", "-")
    return spelled if spelled in option.flags else canonical_flag


def _in_its_form(arg: ArgWithReason, release: Release) -> ArgWithReason:
    """Limits per prompt are JSON from 0.8.5 on, and key=value pairs before."""
    if arg.flag.replace("_", "-") != "--limit-mm-per-prompt" or arg.value is None:
        return arg
    limits = parse_limits((arg.value, *arg.more))
    if limits is None:
        return arg
    return replace(arg, value=write_limits(limits, release), more=())


def parse_limits(values: tuple[str, ...]) -> dict[str, int] | None:
    """Limits per modality from JSON or from ``image=1,video=0``; None when it is neither."""
    joined = ",".join(values)
    try:
        given = json.loads(joined)
    except ValueError:
        pairs = [p.partition("=") for p in joined.split(",") if p]
        try:
            return {k.strip(): int(v) for k, _e, v in pairs}
        except ValueError:
            return None
    if not isinstance(given, dict):
        return None
    # A newer form gives sizes beside the count: {"image": {"count": 1, "width": 512}}; it is left as it is.
    return given if all(isinstance(v, int) for v in given.values()) else None


def write_limits(limits: Mapping[str, int], release: Release) -> str:
    """``--limit-mm-per-prompt``'s value in the form that the release reads."""
    if release_key(release.version) < (0, 8, 5):
        return ",".join(f"{k}={v}" for k, v in limits.items())
    return json.dumps(dict(limits))


# -- what stands in for an option that the release does not have --------------------------------------------------


def _instead(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    name = arg.flag.replace("_", "-")
    make = _SUBSTITUTES.get(name)
    given = make(arg, release) if make is not None else []
    return [a for a in given if refusal(a, release) is None]


def _text_only(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    # Before 0.17.1 the encoders stay loaded, but with all limits 0 nothing is reserved for them.
    limits = write_limits({"image": 0, "video": 0}, release)
    return [replace(arg, flag="--limit-mm-per-prompt", value=limits)]


def _runner(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    if arg.value != "pooling":
        return []
    return [replace(arg, flag="--task", value="embed"), replace(arg, flag="--task", value="embedding")][
        0 if release_key(release.version) >= (0, 7) else 1 :
    ][:1]


def _convert(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    values = {"embed": "embed", "classify": "classify", "score": "score"}
    value = values.get(arg.value or "")
    return [replace(arg, flag="--task", value=value)] if value else []


def _renamed(new: str) -> Callable[[ArgWithReason, Release], list[ArgWithReason]]:
    return lambda arg, release: [replace(arg, flag=new)]


def _reasoning(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    older = {"qwen3": "deepseek_r1", "glm45": "qwen3", "gemma4": None, "openai_gptoss": "GptOss"}
    name = older.get(arg.value or "")
    return [replace(arg, value=name)] if name else []


def _speculative(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    """The options before ``--speculative-config`` (0.8): a separate draft model only."""
    try:
        given = json.loads(arg.value or "")
    except ValueError:
        return []
    if not isinstance(given, dict) or not given.get("model"):
        return []
    made = [replace(arg, flag="--speculative-model", value=str(given["model"]))]
    if given.get("num_speculative_tokens"):
        made.append(replace(arg, flag="--num-speculative-tokens", value=str(given["num_speculative_tokens"])))
    return made


_SUBSTITUTES: Mapping[str, Callable[[ArgWithReason, Release], list[ArgWithReason]]] = {
    "--language-model-only": _text_only,
    "--runner": _runner,
    "--convert": _convert,
    "--reasoning-parser": _reasoning,
    "--speculative-config": _speculative,
    # Never existed under the first name; a public recipe has it.
    "--tool-call-parser-plugin": _renamed("--tool-parser-plugin"),
}


def _without_orphans(
    args: list[ArgWithReason], left: list[LeftOut]
) -> tuple[list[ArgWithReason], list[LeftOut]]:
    """Options that make no sense once their partner was left out."""
    flags = {a.flag for a in args}
    gone = {item.what.split(" ")[0] for item in left if not item.instead}
    kept = []
    for arg in args:
        if arg.flag == "--enable-auto-tool-choice" and "--tool-call-parser" in gone and "--tool-call-parser" not in flags:
            left.append(
                LeftOut(arg.flag, _("without a tool parser the server refuses to start with it"), (), arg.source)
            )
            continue
        kept.append(arg)
    return kept, left
