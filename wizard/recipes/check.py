"""``recipes check``: is every recipe file well-formed, and does its own minimum release take what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wizard.i18n import _
from wizard.recipes.args import split_args
from wizard.recipes.build import build_recipe, mapping, strings
from wizard.recipes.schema import Judge, validate
from wizard.recipes.types import Recipe, RecipeProblem
from wizard.recipes.yaml_lines import Path as YamlPath
from wizard.recipes.yaml_lines import YamlDocument, YamlFault, parse
from wizard.releases.types import Release

# vLLM builds of their own, with options and names that the catalogue does not hold.
FOREIGN_HARDWARE = ("ascend_950pr", "trillium", "ironwood", "npu", "tpu", "huawei", "google")


@dataclass(frozen=True)
class CheckedFile:
    file: str
    recipe_id: str | None
    release: str | None  # the release that its options were held against
    problems: tuple[RecipeProblem, ...]
    omni: bool = False

    @property
    def errors(self) -> tuple[RecipeProblem, ...]:
        return tuple(p for p in self.problems if p.severity == "error")


def check_packaged() -> list[CheckedFile]:
    """Every packaged recipe, checked from its YAML."""
    from wizard.recipes.book import _folder

    folder = _folder()
    texts = {
        item.name: item.read_bytes()
        for item in sorted(folder.iterdir(), key=lambda i: str(i.name))
        if item.name.endswith((".yaml", ".yml"))
    }
    return check_texts(texts, ours=True)


def check_folder(folder: Path) -> list[CheckedFile]:
    """Every recipe file under a folder; raises BadInput when it does not exist or holds none."""
    from wizard.errors import BadInput
    from wizard.recipes.checkout import recipe_files

    if not folder.exists():
        raise BadInput(_("--recipes {folder}: there is no such folder or file.").format(folder=folder))
    texts: dict[str, bytes] = {}
    unreadable: list[CheckedFile] = []
    for path in recipe_files(folder):
        try:
            texts[str(path)] = path.read_bytes()
        except OSError as error:
            problem = RecipeProblem(str(path), None, "", error.strerror or str(error), "unreadable")
            unreadable.append(CheckedFile(str(path), None, None, (problem,)))
    if not texts and not unreadable:
        raise BadInput(_("--recipes {folder}: there is no recipe (a .yaml file) in it.").format(folder=folder))
    return unreadable + check_texts(texts, ours=False)


def check_texts(texts: Mapping[str, bytes], *, ours: bool) -> list[CheckedFile]:
    """Check files by name; ids that two files claim are faults of the second."""
    checked: list[CheckedFile] = []
    claimed: dict[str, str] = {}
    for name, raw in texts.items():
        try:
            document = parse(raw.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            why = _("not UTF-8 text (byte {at})").format(at=error.start)
            checked.append(CheckedFile(name, None, None, (RecipeProblem(name, None, "", why, "yaml"),)))
            continue
        except YamlFault as fault:
            why = _("not valid YAML: {why}").format(why=fault.message)
            checked.append(CheckedFile(name, None, None, (RecipeProblem(name, fault.line, "", why, "yaml"),)))
            continue
        checked.append(check_document(document, name, claimed, ours=ours))
    return checked


def check_document(document: YamlDocument, name: str, claimed: dict[str, str], *, ours: bool) -> CheckedFile:
    """One parsed recipe; ``claimed`` (id -> file) is filled with its id."""
    problems = validate(document, name, ours=ours)
    try:
        recipe = build_recipe(mapping(document.data), name, ours)
    except (ValueError, TypeError, AttributeError):
        return CheckedFile(name, None, None, tuple(problems))
    judge = Judge(document, name)
    key = recipe.id.lower()
    if key in claimed:
        judge.fault(
            ("meta", "slug") if ours else ("model", "model_id"),
            _("{id} is already the id of {file}").format(id=recipe.id, file=claimed[key]),
            kind="duplicate",
        )
    claimed.setdefault(key, name)
    _place(judge, recipe, name)
    release = None
    if not recipe.omni:
        release = minimum_release(recipe.min_release)
        _options(judge, recipe, document, ours)
        if ours:
            _registered(judge, recipe, document)
    return CheckedFile(
        name, recipe.id, release.version if release else None, tuple(problems) + tuple(judge.problems), recipe.omni
    )


def _place(judge: Judge, recipe: Recipe, name: str) -> None:
    """In the public repository a file's path says its model's id."""
    parts = Path(name).parts
    if "models" not in parts[:-2]:
        return
    expected = f"{parts[-2]}/{Path(name).stem}"
    if expected.lower() != recipe.model_id.lower():
        judge.warn(("model", "model_id"), _("the file's place says {expected}").format(expected=expected))


# -- options ---------------------------------------------------------------------------------------------------


def minimum_release(version: str | None) -> Release | None:
    """The catalogue's record for a stated minimum; the newest for "nightly", the oldest for what is older yet."""
    from wizard import releases
    from wizard.errors import BadInput

    try:
        return releases.load(version or "latest")
    except BadInput:
        return None


@dataclass(frozen=True)
class _Args:
    path: YamlPath
    tokens: tuple[str, ...]
    min_release: str | None


def _argument_lists(recipe: Recipe, data: Mapping[str, Any]) -> Iterator[_Args]:
    """Every list of ``vllm serve`` arguments in a recipe, with the earliest release that it is offered for."""
    base = recipe.min_release
    yield _Args(("model", "base_args"), recipe.base_args, base)
    ours = {f.key: f for f in recipe.features}
    for key, feature in mapping(data.get("features")).items():
        own = ours[str(key)]
        minimum = later(later(base, own.first_release), _of_variants(recipe, own.variants))
        part = mapping(feature)
        yield _Args(("features", key, "args"), strings(part.get("args")), minimum)
        yield from _from_overrides(part, ("features", key), "args", minimum)
        for mode_key, mode in mapping(part.get("modes")).items():
            at: YamlPath = ("features", key, "modes", mode_key)
            mode_minimum = later(minimum, _of_variants(recipe, strings(mapping(mode).get("variants"))))
            yield _Args((*at, "args"), strings(mapping(mode).get("args")), mode_minimum)
            yield from _from_overrides(mapping(mode), at, "args", mode_minimum)
    for variant in recipe.variants:
        part = mapping(mapping(data.get("variants")).get(variant.key))
        if variant.supported_hardware and all(h in FOREIGN_HARDWARE for h in variant.supported_hardware):
            continue
        minimum = later(base, variant.min_release)
        yield _Args(("variants", variant.key, "extra_args"), variant.extra_args, minimum)
        yield from _from_overrides(part, ("variants", variant.key), "extra_args", minimum)
    yield from _from_overrides(data, (), "extra_args", base)
    for name, strategy in mapping(data.get("strategy_overrides")).items():
        part = mapping(strategy)
        for key in ("extra_args", "vllm_args"):
            yield _Args(("strategy_overrides", name, key), strings(part.get(key)), base)
        yield from _from_overrides(part, ("strategy_overrides", name), "extra_args", base)
        for role in ("prefill", "decode"):
            for key in ("extra_args", "vllm_args"):
                tokens = strings(mapping(part.get(role)).get(key))
                yield _Args(("strategy_overrides", name, role, key), tokens, base)


def _from_overrides(part: Mapping[str, Any], path: YamlPath, key: str, minimum: str | None) -> Iterator[_Args]:
    for hardware, given in mapping(part.get("hardware_overrides")).items():
        image = mapping(given).get("docker_image")
        # An image of another project is another vLLM.
        foreign = isinstance(image, str) and "vllm/vllm-openai" not in image
        if hardware not in FOREIGN_HARDWARE and not foreign:
            tokens = strings(mapping(given).get(key))
            yield _Args((*path, "hardware_overrides", hardware, key), tokens, minimum)


def _of_variants(recipe: Recipe, keys: Sequence[str]) -> str | None:
    """The earliest of the minimum releases of some variants; None when one of them has none of its own."""
    from wizard.releases import version_key

    found = [
        v.min_release or (v.facts.first_release if v.facts else None) for v in recipe.variants if v.key in keys
    ]
    own = [m for m in found if m]
    if not found:
        return None
    return min(own, key=version_key) if own and len(own) == len(found) else None


def later(a: str | None, b: str | None) -> str | None:
    """The later of two releases; "nightly" is later than all."""
    from wizard.releases import version_key

    if a is None or b is None:
        return a or b
    if "nightly" in (a, b):
        return "nightly"
    return max((a, b), key=version_key)


def _options(judge: Judge, recipe: Recipe, document: YamlDocument, ours: bool) -> None:
    from wizard.recipes.adapt import PLUGINS, instead_of, problem_of
    from wizard.releases import flag_spans

    data = mapping(document.data)
    for given in _argument_lists(recipe, data):
        release = minimum_release(given.min_release)
        if release is None:
            continue
        args = split_args(given.tokens)
        flags = {a.flag for a in args}
        for arg in args:
            if " " in arg.flag:
                continue  # named by the schema's check
            problem = problem_of(arg, release)
            if problem is None or (ours and instead_of(arg, release)):
                continue  # our own recipes may rest on the wizard's translation
            if problem.kind == "bad_value" and any(p in flags for p in PLUGINS.get(arg.flag, ())):
                continue
            kind = problem.kind
            message = problem.message
            if kind in ("misspelt", "never_existed") and not flag_spans(arg.flag):
                kind = "never_existed"
                if problem.replacement:
                    message = _("no vLLM release has {flag}; meant is {real}").format(
                        flag=arg.flag, real=problem.replacement
                    )
            judge.fault(
                _where(given, arg.flag, document),
                _("{message} (its minimum is {version})").format(
                    message=message, version=given.min_release or release.version
                ),
                kind=kind,
                flag=arg.flag,
                release=release.version,
            )


def _where(given: _Args, flag: str, document: YamlDocument) -> YamlPath:
    """Path of the item that holds ``flag``."""
    for i, token in enumerate(given.tokens):
        if token.split("=", 1)[0] == flag and document.lines.get((*given.path, i)) is not None:
            return (*given.path, i)
    return given.path


# -- our own recipes -------------------------------------------------------------------------------------------


def _registered(judge: Judge, recipe: Recipe, document: YamlDocument) -> None:
    """Facts of our own recipes against the catalogue: architectures and parser names exist when they say so."""
    from wizard.recipes.adapt import problem_of
    from wizard.recipes.args import ArgWithReason
    from wizard.recipes.build import build_facts_of

    for facts in build_facts_of(mapping(document.data)).values():
        path: YamlPath = ("wizard", "models", facts.model_id)
        release = minimum_release(facts.first_release)
        if release is None:
            continue
        for architecture in facts.config.get("architectures") or ():
            if architecture not in release.architectures:
                judge.fault(
                    path,
                    _("vLLM {version} does not have {name}").format(version=release.version, name=architecture),
                    kind="not_yet",
                    release=release.version,
                )
        for flag, name in (("--tool-call-parser", facts.tool_parser), ("--reasoning-parser", facts.reasoning_parser)):
            problem = problem_of(ArgWithReason(flag, name, ""), release) if name else None
            if problem is not None and problem.kind != "not_yet":
                judge.fault(path, problem.message, kind="parser", flag=flag, release=release.version)
