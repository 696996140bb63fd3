"""``vllm-wizard recipes list|show ID|check``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.errors import BadInput
from wizard.i18n import _, ngettext, sentences
from wizard.program import spelt
from wizard.recipes.types import guide_blocks

if TYPE_CHECKING:
    import argparse

    from wizard.recipes import Recipe, RecipeBook, RecipeProblem, Variant
    from wizard.recipes.check import CheckedFile

ACTIONS = ("list", "show", "check")
GIB = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of ``vllm-wizard recipes``."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=ACTIONS,
        metavar="list | show | check",
        help=_(
            "list: all recipes; show: one recipe with its checkpoints and options; check: are the files well-formed, "
            "and does each one's own minimum release take what it says"
        ),
    )
    parser.add_argument("id", nargs="?", metavar="ID", help=_("show: a recipe's id, or the id of a model"))


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; 0 fine, 1 ``check`` found errors."""
    folders = list(getattr(args, "recipes", None) or [])
    as_json = bool(getattr(args, "json", False))
    if args.action == "check":
        if args.id:
            raise BadInput(
                _("recipes check takes no word; name a folder with --recipes {folder}.").format(folder=args.id)
            )
        return _check(folders, as_json)
    from wizard.recipes import load

    book = load([Path(f) for f in folders])
    if args.action == "show":
        if not args.id:
            raise BadInput(_("recipes show needs the id of a recipe; recipes list names them."))
        return _show(book, args.id, as_json)
    if args.id:
        raise BadInput(_("recipes list takes no word; is recipes show {id} meant?").format(id=args.id))
    return _list(book, as_json)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def _gib(size_bytes: int | None) -> str:
    return _("unknown") if size_bytes is None else _("{gib:.1f} GiB").format(gib=size_bytes / GIB)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(columns.width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(columns.pad(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


# -- list ------------------------------------------------------------------------------------------------------


def _list(book: RecipeBook, as_json: bool) -> int:
    if as_json:
        _print_json(
            {
                "recipes": [_recipe_json(r, full=False) for r in book.recipes],
                "problems": [_problem_json(p) for p in book.problems],
            }
        )
        return 0
    heading = (_("id"), _("models"), _("weights"), _("from vLLM"), _("good for"))
    rows = [heading] + [_row(r) for r in book.recipes]
    print(_table(rows))
    print()
    print(spelt(_("vllm-wizard recipes show ID tells more; --recipes DIR adds a checkout of the public vLLM recipes.")))
    _print_problems(book.problems)
    return 0


def _row(recipe: Recipe) -> tuple[str, str, str, str, str]:
    sizes = [v.weight_bytes for v in recipe.variants if v.weight_bytes is not None]
    if not sizes:
        minimum = [v.vram_minimum_bytes for v in recipe.variants if v.vram_minimum_bytes is not None]
        weights = _("{size} of VRAM").format(size=_gib(min(minimum))) if minimum else _("unknown")
    elif min(sizes) == max(sizes):
        weights = _gib(sizes[0])
    else:
        weights = _("{low:.1f} to {high:.1f} GiB").format(low=min(sizes) / GIB, high=max(sizes) / GIB)
    intents = dict.fromkeys(i for v in recipe.variants for i in v.intents)
    good_for = ", ".join(intents) or ", ".join(recipe.tasks)
    if recipe.omni:
        good_for = _("vLLM-Omni only")
    return recipe.id, str(len(recipe.variants)), weights, recipe.min_release or "", good_for


# -- show ------------------------------------------------------------------------------------------------------


def _show(book: RecipeBook, wanted: str, as_json: bool) -> int:
    recipe = book.get(wanted)
    if recipe is None:
        raise BadInput(
            sentences(
                _("There is no recipe “{id}”.").format(id=wanted),
                _near(book, wanted),
                _("vllm-wizard recipes list names them."),
            )
        )
    if as_json:
        _print_json(_recipe_json(recipe, full=True))
        return 0
    print("\n".join(_description(recipe)))
    return 0


def _near(book: RecipeBook, wanted: str) -> str:
    import difflib

    names = {r.id.lower(): r.id for r in book.recipes}
    names.update({v.model_id.lower(): v.model_id for _r, v in book.variants()})
    hits = difflib.get_close_matches(wanted.lower(), list(names), 2, 0.6)
    return _("Did you mean {names}?").format(names=" / ".join(names[h] for h in hits)) if hits else ""


def _description(recipe: Recipe) -> list[str]:
    told = _(recipe.description) if recipe.packaged else recipe.description
    lines = [f"{recipe.title} ({recipe.provider})" if recipe.provider else recipe.title, told, ""]
    facts = [
        (_("from vLLM"), recipe.min_release or _("unknown")),
        (_("context"), _("{count} tokens").format(count=recipe.context_length) if recipe.context_length else ""),
        (_("file"), recipe.file),
    ]
    lines += [_table([row for row in facts if row[1]]), "", _("Checkpoints:")]
    rows = [(_("model"), _("precision"), _("weights"), _("at least"), _("from vLLM"), _("licence"))]
    rows += [_variant_row(recipe, v) for v in recipe.variants]
    lines += [_table(rows), "", _("Options:")]
    lines += _argument_lines(_("always"), recipe.base_args)
    for feature in recipe.features:
        label = f"{feature.key} ({_('on request') if feature.opt_in else _('on')})"
        for tokens in [feature.args] if feature.args else [m.args for m in feature.modes]:
            lines += _argument_lines(label, tokens)
        if feature.description:
            lines.append("    " + (_(feature.description) if recipe.packaged else feature.description))
    for variant in recipe.variants:
        lines += _argument_lines(variant.model_id, variant.extra_args)
    for key, override in recipe.hardware_overrides.items():
        lines += _argument_lines(key, override.args)
        lines += [f"  {key}: {name}={value}" for name, value in override.env.items()]
    if recipe.guide:
        lines += ["", *_guide(recipe)]
    return lines


def _guide(recipe: Recipe) -> list[str]:
    """Our own guides translated and wrapped; a public recipe's as its authors wrote it."""
    if not recipe.packaged:
        return [recipe.guide]
    lines: list[str] = []
    for block in guide_blocks(recipe.guide):
        text = block.prefix + (_(block.text) if block.is_text else block.text)
        lines += columns.wrap(text, 100) if block.is_text else [text]
        if not block.prefix:
            lines.append("")
    return lines[:-1]


def _variant_row(recipe: Recipe, variant: Variant) -> tuple[str, str, str, str, str, str]:
    facts = variant.facts
    licence = (facts.licence or "") if facts else ""
    if facts and facts.gated:
        licence = _("{licence}, gated").format(licence=licence)
    return (
        variant.model_id,
        variant.precision,
        _gib(variant.weight_bytes),
        _gib(variant.vram_minimum_bytes),
        recipe.min_release_for(variant) or "",
        licence,
    )


def _argument_lines(label: str, tokens: Sequence[str]) -> list[str]:
    import shlex

    return [f"  {label}: {shlex.join(tokens)}"] if tokens else []


def _recipe_json(recipe: Recipe, *, full: bool) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": recipe.id,
        "title": recipe.title,
        "provider": recipe.provider,
        "file": recipe.file,
        "packaged": recipe.packaged,
        "min_release": recipe.min_release,
        "tasks": list(recipe.tasks),
        "omni": recipe.omni,
        "variants": [_variant_json(recipe, v) for v in recipe.variants],
    }
    if full:
        made |= {
            "description": recipe.description,
            "architecture": recipe.architecture,
            "context_length": recipe.context_length,
            "base_args": list(recipe.base_args),
            "base_env": dict(recipe.base_env),
            "features": [
                {
                    "key": f.key,
                    "description": f.description,
                    "opt_in": f.opt_in,
                    "args": list(f.args),
                    "modes": {m.key: list(m.args) for m in f.modes},
                    "first_release": f.first_release,
                    "variants": list(f.variants),
                }
                for f in recipe.features
            ],
            "compatible_strategies": list(recipe.strategies),
            "hardware_overrides": {
                key: {"extra_args": list(o.args), "extra_env": dict(o.env)}
                for key, o in recipe.hardware_overrides.items()
            },
            "guide": recipe.guide,
        }
    return made


def _variant_json(recipe: Recipe, variant: Variant) -> dict[str, Any]:
    facts = variant.facts
    return {
        "key": variant.key,
        "model_id": variant.model_id,
        "precision": variant.precision,
        "vram_minimum_gb": variant.vram_minimum_gb,
        "weight_bytes": variant.weight_bytes,
        "weight_source": facts.weight_source if facts else None,
        "parameters": facts.parameters if facts else None,
        "min_release": recipe.min_release_for(variant),
        "licence": facts.licence if facts else None,
        "gated": facts.gated if facts else None,
        "quality": variant.quality,
        "intents": list(variant.intents),
        "extra_args": list(variant.extra_args),
        "extra_env": dict(variant.extra_env),
    }


# -- check -----------------------------------------------------------------------------------------------------


def _check(folders: Sequence[str], as_json: bool) -> int:
    from wizard.recipes.check import check_folder, check_packaged

    files: list[CheckedFile] = []
    for folder in folders:
        files += check_folder(Path(folder))
    if not folders:
        files = check_packaged()
    errors = [p for f in files for p in f.problems if p.severity == "error"]
    warnings = [p for f in files for p in f.problems if p.severity != "error"]
    if as_json:
        _print_json(
            {
                "files": [
                    {
                        "file": f.file,
                        "id": f.recipe_id,
                        "release": f.release,
                        "omni": f.omni,
                        "problems": [_problem_json(p) for p in f.problems],
                    }
                    for f in files
                ],
                "errors": len(errors),
                "warnings": len(warnings),
            }
        )
        return 1 if errors else 0
    _print_problems(errors)
    for problem in warnings:
        print(_("{problem} (warning)").format(problem=problem))
    if errors or warnings:
        print()
    print(_summary(files, errors, warnings))
    return 1 if errors else 0


def _summary(files: Sequence[CheckedFile], errors: Sequence[object], warnings: Sequence[object]) -> str:
    checked = ngettext("{count} recipe checked", "{count} recipes checked", len(files)).format(count=len(files))
    faulty = sum(bool(f.errors) for f in files)
    if not errors:
        found = _("no errors")
    else:
        found = ngettext("{count} error", "{count} errors", len(errors)).format(count=len(errors))
        found += " " + ngettext("in {count} file", "in {count} files", faulty).format(count=faulty)
    noted = ngettext("{count} warning", "{count} warnings", len(warnings)).format(count=len(warnings))
    omni = sum(f.omni for f in files)
    if omni:
        noted += "; " + _("the options of {count} are vLLM-Omni's and were not checked").format(count=omni)
    return f"{checked}: {found}, {noted}"


def _print_problems(problems: Iterable[RecipeProblem]) -> None:
    for problem in problems:
        print(problem)


def _problem_json(problem: RecipeProblem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "key": problem.key,
        "message": problem.message,
        "kind": problem.kind,
        "severity": problem.severity,
        "flag": problem.flag,
        "release": problem.release,
    }
