"""Holding a recipe's options against one release: what it takes as it stands, in another form, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from wizard.i18n import _
from wizard.recipes.args import ArgWithReason, LeftOut, RecipeArgs, last_wins
from wizard.releases import version_key
from wizard.releases.parse import check_argument, find_option, full_spelling, normal_spelling, take_apart
from wizard.releases.types import ArgProblem, Release

# Options whose names of parsers and types the catalogue keeps apart from the options' own choices.
_NAMED = {
    "tool_call_parser": "tool_parsers",
    "reasoning_parser": "reasoning_parsers",
    "kv_cache_dtype": "kv_cache_dtypes",
    "quantization": "quantization",
}


def canonical(flag: str, release: Release | None) -> str:
    """One name for all spellings of an option, also of its ``--no-`` twin; a dotted part stays."""
    name, dot, rest = normal_spelling(flag).partition(".")
    if release is not None:
        option, _how = find_option(release, name)
        if option is not None:
            return f"{option.flag}{dot}{rest}"
    return f"{name}{dot}{rest}"


def problem_of(arg: ArgWithReason, release: Release) -> ArgProblem | None:
    """What the release has against this option or its value; None when it takes it.

    A parser or type name that a plugin may add is judged by the names that the release itself has.
    """
    taken = take_apart(arg.argv, release)
    stray = [a for a in taken if a.how == "positional"]
    for argument in taken:
        if argument.how == "positional":
            continue
        option = argument.option
        named = option is not None and option.dest in _NAMED and argument.values and not argument.keys
        if named and option is not None:
            known = getattr(release, _NAMED[option.dest])
            for value in argument.values:
                if known and value not in known and not (option.also_auto and value == "auto"):
                    return _unknown_name(option.flag, option.dest, value, release)
            continue
        found = check_argument(argument, release)
        if found is not None and found.kind != "deprecated":
            return found
    if stray:
        return ArgProblem(
            arg.flag, "bad_value", _("{value} belongs to no option").format(value=" ".join(stray[0].values))
        )
    return None


# Options that load code which adds parser names; the last is what a public recipe calls the second.
PLUGINS: Mapping[str, tuple[str, ...]] = {
    "--reasoning-parser": ("--reasoning-parser-plugin",),
    "--tool-call-parser": ("--tool-parser-plugin", "--tool-call-parser-plugin"),
}


def _from_plugin(arg: ArgWithReason, problem: ArgProblem, flags: Set[str], release: Release) -> bool:
    """Whether the name that the release does not know comes with a plugin that it can load."""
    plugins = PLUGINS.get(normal_spelling(arg.flag), ())
    if problem.kind != "bad_value" or not any(p in flags for p in plugins):
        return False
    return find_option(release, plugins[0])[1] == "exact"


def _unknown_name(flag: str, dest: str, value: str, release: Release) -> ArgProblem:
    from wizard.releases import spans

    kind = _NAMED[dest]
    try:
        runs = spans(kind, value)
    except KeyError:
        runs = []
    here = version_key(release.version)
    later = [r for r in runs if version_key(r[0]) > here]
    earlier = [r for r in runs if version_key(r[1]) < here]
    if later:
        return ArgProblem(
            flag,
            "not_yet",
            _("{flag} {value} came with {first}; {version} does not have it").format(
                flag=flag, value=value, first=later[0][0], version=release.version
            ),
            since=later[0][0],
        )
    if earlier:
        return ArgProblem(
            flag,
            "removed",
            _("{flag} {value} was last in {last}; {version} does not have it").format(
                flag=flag, value=value, last=earlier[-1][1], version=release.version
            ),
            until=earlier[-1][1],
        )
    return ArgProblem(
        flag,
        "bad_value",
        _("vLLM {version} knows no {value} for {flag}").format(version=release.version, value=value, flag=flag),
    )


def adapt(made: RecipeArgs, release: Release, *, reranks: bool = False) -> RecipeArgs:
    """The same arguments as the release takes them, with what was translated or left out.

    ``reranks``: the model scores pairs, which releases before 0.10.1 want to be told.
    """
    args: list[ArgWithReason] = []
    left: list[LeftOut] = list(made.left_out)
    flags = {normal_spelling(a.flag) for a in made.args}
    for given in made.args:
        arg = _in_its_form(given, release)
        problem = problem_of(arg, release)
        if problem is None or _from_plugin(arg, problem, flags, release):
            args += _spelled(arg, release)
            continue
        instead = instead_of(arg, release, reranks=reranks)
        args += instead
        left.append(
            LeftOut(" ".join(arg.argv), problem.message, tuple(p for a in instead for p in a.argv), arg.source)
        )
    args, left = _without_orphans(args, left)
    env: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for name, value in made.env.items():
        if name.startswith("VLLM_") and name not in release.env:
            why = _("vLLM {version} does not read it").format(version=release.version)
            left.append(LeftOut(f"{name}={value}", why))
            continue
        env[name], reasons[name] = value, made.env_reasons.get(name, "")
    return replace(
        made, args=tuple(last_wins(args, release)), env=env, env_reasons=reasons, left_out=tuple(left)
    )


def _spelled(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    """The option in its full spelling, with what the release needs beside it."""
    flag = full_spelling(release, arg.flag) or arg.flag
    made = [replace(arg, flag=flag)]
    # From 0.9.0 on the parser's name alone switches reasoning on; before, the switch was asked for.
    if flag == "--reasoning-parser" and version_key(release.version) < version_key("0.9.0"):
        option, how = find_option(release, "--enable-reasoning")
        if option is not None and how == "exact":
            made.insert(0, ArgWithReason("--enable-reasoning", None, arg.reason, arg.source))
    return made


def _in_its_form(arg: ArgWithReason, release: Release) -> ArgWithReason:
    """Limits per prompt are JSON from 0.8.5 on, and key=value pairs before."""
    if normal_spelling(arg.flag) != "--limit-mm-per-prompt" or arg.value is None:
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
    return given if all(type(v) is int for v in given.values()) else None


def write_limits(limits: Mapping[str, int], release: Release) -> str:
    """``--limit-mm-per-prompt``'s value in the form that the release reads."""
    if version_key(release.version) < version_key("0.8.5"):
        return ",".join(f"{k}={v}" for k, v in limits.items())
    return json.dumps(dict(limits))


# -- what stands in for an option that the release does not have --------------------------------------------------

_Maker = Callable[[ArgWithReason, Release], list[ArgWithReason]]


def instead_of(arg: ArgWithReason, release: Release, *, reranks: bool = False) -> list[ArgWithReason]:
    """What serves the purpose of an option that the release does not take; nothing when there is nothing."""
    name = normal_spelling(arg.flag)
    if name == "--runner":
        return _task(arg, release, ("score",) if reranks else ("embed", "embedding"))
    make = _SUBSTITUTES.get(name)
    given = make(arg, release) if make is not None else []
    if any(problem_of(a, release) is not None for a in given):
        return []
    return [s for a in given for s in _spelled(a, release)]


def _text_only(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    # Before 0.17 the encoders stay loaded, but with all limits 0 nothing is set aside for them.
    limits = write_limits({"image": 0, "video": 0}, release)
    return [replace(arg, flag="--limit-mm-per-prompt", value=limits)]


def _task(arg: ArgWithReason, release: Release, tasks: Sequence[str]) -> list[ArgWithReason]:
    """``--task`` with the first name that the release has, from before there were runners."""
    if arg.value != "pooling":
        return []
    for task in tasks:
        made = replace(arg, flag="--task", value=task)
        if problem_of(made, release) is None:
            return [made]
    return []


def _convert(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    return [replace(arg, flag="--task")] if arg.value in ("embed", "classify") else []


def _renamed(new: str) -> _Maker:
    return lambda arg, release: [replace(arg, flag=new)]


def _without_value(new: str, value: str) -> _Maker:
    return lambda arg, release: [replace(arg, flag=new, value=None)] if arg.value == value else []


# A parser that came later -> an earlier one that reads the same form.
_OLDER_REASONING = {"qwen3": "deepseek_r1"}
_OLDER_TOOL = {"qwen3_xml": "qwen3_coder", "glm47": "glm45", "llama4_pythonic": "pythonic"}


def _older_parser(names: Mapping[str, str]) -> _Maker:
    def make(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
        older = names.get(arg.value or "")
        return [replace(arg, value=older)] if older else []

    return make


def _speculative(arg: ArgWithReason, release: Release) -> list[ArgWithReason]:
    """The options before ``--speculative-config``: a separate draft model only."""
    try:
        given = json.loads(arg.value or "")
    except ValueError:
        return []
    if not isinstance(given, dict) or not given.get("model") or given.get("method") not in (None, "draft_model"):
        return []
    made = [replace(arg, flag="--speculative-model", value=str(given["model"]))]
    if given.get("num_speculative_tokens"):
        made.append(replace(arg, flag="--num-speculative-tokens", value=str(given["num_speculative_tokens"])))
    return made


_SUBSTITUTES: Mapping[str, _Maker] = {
    "--language-model-only": _text_only,
    "--convert": _convert,
    "--reasoning-parser": _older_parser(_OLDER_REASONING),
    "--tool-call-parser": _older_parser(_OLDER_TOOL),
    "--speculative-config": _speculative,
    "--mm-encoder-tp-mode": _without_value("--enable-multimodal-encoder-data-parallel", "data"),
    # No release has the first; a public recipe names it.
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
        alone = "--tool-call-parser" in gone and "--tool-call-parser" not in flags
        if arg.flag == "--enable-auto-tool-choice" and alone:
            why = _("without a tool parser the server refuses to start with it")
            left.append(LeftOut(arg.flag, why, (), arg.source))
            continue
        kept.append(arg)
    return kept, left
