"""Loading recipes: the packaged ones from their compiled JSON, a checkout of the public ones as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from wizard.models.info import ModelInfo
from wizard.recipes.build import build_facts_of, build_recipe, with_resolved_models
from wizard.recipes.types import ModelFacts, Recipe, RecipeProblem, Variant

COMPILED_NAME = "compiled.json"
COMPILED_FORMAT = 1
Found = tuple[Recipe, Variant]


@dataclass(frozen=True)
class RecipeBook:
    """All recipes that were loaded; those given with ``--recipes`` come before the packaged ones."""

    recipes: tuple[Recipe, ...] = ()
    problems: tuple[RecipeProblem, ...] = ()
    _by_model: Mapping[str, tuple[Found, ...]] = field(default_factory=dict, repr=False, compare=False)

    def variants(self) -> Iterator[Found]:
        for recipe in self.recipes:
            for variant in recipe.variants:
                yield recipe, variant

    def get(self, recipe_id: str) -> Recipe | None:
        """A recipe by its id (slug), its file's name, or the id of one of its models; case does not matter."""
        wanted = recipe_id.strip().lower()
        for recipe in self.recipes:
            if wanted in (recipe.id.lower(), Path(recipe.file).stem.lower(), recipe.model_id.lower()):
                return recipe
        hit = self._by_model.get(wanted)
        return hit[0][0] if hit else None

    def find(self, model: str | ModelInfo) -> Found | None:
        """The recipe and variant for a repository id, a folder, or an inspected model; None if there is none.

        A repository id counts first, then a folder's name (also of a Hugging Face cache), then the
        architecture together with the sizes and the quantization of the model: then the variant says
        ``by_shape``, and its file formats are not taken over.
        """
        if isinstance(model, str):
            return self._find_name(model)
        for name in (model.repo_id, model.source):
            hit = self._find_name(name) if name else None
            if hit is not None and _same_shape(hit[1], model) is not False:
                return hit
        return self._find_shape(model)

    def candidates(self, intent: str | None = None) -> tuple[Found, ...]:
        """Variants whose facts are known, best first, for choosing what fits when no model is given."""
        known = [
            (r, v)
            for r, v in self.variants()
            if v.facts is not None and v.quality is not None and (intent is None or intent in v.intents)
        ]
        return tuple(sorted(known, key=lambda rv: (-(rv[1].quality or 0), rv[1].weight_bytes or 0, rv[1].model_id)))

    def _find_name(self, name: str) -> Found | None:
        for key in names_of(name):
            hits = self._by_model.get(key)
            if hits:
                return hits[0]
        return None

    def _find_shape(self, model: ModelInfo) -> Found | None:
        best: tuple[int, Found] | None = None
        for found in self.variants():
            if _same_shape(found[1], model):
                # The same checkpoint in another precision still tells flags, parsers and features.
                score = 2 if (_quantization(found[1]) or "") == (model.quantization or "") else 1
                if best is None or score > best[0]:
                    best = (score, found)
        return (best[1][0], replace(best[1][1], by_shape=True)) if best else None


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            return inner
    return config


def _quantization(variant: Variant) -> str | None:
    config = variant.facts.config if variant.facts else {}
    given = config.get("quantization_config")
    if not isinstance(given, Mapping):
        given = _text_config(config).get("quantization_config")
    return str(given.get("quant_method")) if isinstance(given, Mapping) and given.get("quant_method") else None


def _same_shape(variant: Variant, model: ModelInfo) -> bool | None:
    """Whether architecture and sizes agree; None when one side does not know them."""
    config = variant.facts.config if variant.facts else {}
    architectures = config.get("architectures")
    if not architectures or not model.architecture:
        return None
    if model.architecture not in architectures:
        return False
    inner = _text_config(config)
    pairs = (
        (inner.get("num_hidden_layers"), model.num_layers),
        (inner.get("hidden_size"), model.hidden_size),
        (inner.get("intermediate_size"), model.intermediate_size),
    )
    known = [(a, b) for a, b in pairs if isinstance(a, int) and b is not None]
    if not known:
        return None
    return all(a == b for a, b in known)


def names_of(name: str) -> list[str]:
    """Lookup keys for what a user or a scan calls a model, most certain first, in lower case.

    "Qwen/Qwen3-8B", ".../models--Qwen--Qwen3-8B/snapshots/<hash>", "/models/Qwen3-8B/" and
    "D:\\models\\Qwen3-8B" all lead to the same recipe.
    """
    cleaned = name.strip().replace("\\", "/").rstrip("/")
    keys = [cleaned.lower()]
    parts = [p for p in cleaned.split("/") if p and p != "."]
    for i, part in enumerate(parts):
        if part.startswith("models--"):
            keys.append(part[len("models--") :].replace("--", "/", 1).lower())
        if part == "snapshots" and i > 0 and not parts[i - 1].startswith("models--"):
            keys.append(parts[i - 1].lower())
    if len(parts) >= 2:
        keys.append("/".join(parts[-2:]).lower())
    if parts:
        keys.append(parts[-1].lower())
        # ModelScope writes dots of a name as "___".
        keys.append(parts[-1].replace("___", ".").lower())
    return list(dict.fromkeys(k for k in keys if k))


# -- loading ---------------------------------------------------------------------------------------------------


def load(extra_dirs: Sequence[Path | str] = ()) -> RecipeBook:
    """The packaged recipes, with those of ``extra_dirs`` (files, or folders such as a checkout) before them.

    A file that cannot be used is left out and named in ``problems``; nothing here raises for a bad file.
    A folder that does not exist raises :class:`~wizard.errors.BadInput`.
    """
    packaged, packaged_problems = _packaged()
    problems = list(packaged_problems)
    facts: dict[str, ModelFacts] = {}
    for data in packaged.values():
        facts.update(build_facts_of(data))
    extra: dict[str, dict[str, Any]] = {}
    for folder in extra_dirs:
        from wizard.recipes.checkout import read_folder

        documents, found_problems = read_folder(Path(folder))
        problems += found_problems
        extra.update(documents)
    for data in extra.values():
        facts.update(build_facts_of(data))
    recipes: list[Recipe] = []
    for name, data, is_packaged in (
        *((n, d, False) for n, d in extra.items()),
        *((n, d, True) for n, d in packaged.items()),
    ):
        try:
            recipes.append(build_recipe(data, name, is_packaged, facts))
        except (ValueError, TypeError, AttributeError) as error:
            problems.append(RecipeProblem(name, None, "", str(error)))
    return RecipeBook(tuple(recipes), tuple(problems), _index(recipes))


def _index(recipes: Iterable[Recipe]) -> dict[str, tuple[Found, ...]]:
    """Found by model id, and by the id's last part where that names one model only."""
    full: dict[str, list[Found]] = {}
    short: dict[str, list[Found]] = {}
    for recipe in recipes:
        for variant in recipe.variants:
            key = variant.model_id.lower()
            full.setdefault(key, []).append((recipe, variant))
            short.setdefault(key.rsplit("/", 1)[-1], []).append((recipe, variant))
    index = {k: tuple(v) for k, v in full.items()}
    for key, found in short.items():
        index.setdefault(key, tuple(found))
    return index


def _folder() -> Any:
    """Where the packaged recipes lie: in the wheel ``wizard/_recipes``, in a checkout the top-level ``recipes``."""
    inside = resources.files("wizard").joinpath("_recipes")
    if inside.is_dir():
        return inside
    return Path(__file__).resolve().parents[2] / "recipes"


_CACHE: dict[str, tuple[dict[str, dict[str, Any]], tuple[RecipeProblem, ...]]] = {}


def _packaged() -> tuple[dict[str, dict[str, Any]], tuple[RecipeProblem, ...]]:
    """Data of the packaged recipes by file name; from the compiled file where that is current."""
    folder = _folder()
    if str(folder) not in _CACHE:
        _CACHE[str(folder)] = _read_packaged(folder)
    return _CACHE[str(folder)]


def _read_packaged(folder: Any) -> tuple[dict[str, dict[str, Any]], tuple[RecipeProblem, ...]]:
    sources = {
        item.name: item.read_bytes()
        for item in sorted(folder.iterdir(), key=lambda i: str(i.name))
        if item.name.endswith((".yaml", ".yml"))
    } if folder.is_dir() else {}
    compiled = _read_compiled(folder.joinpath(COMPILED_NAME))
    hashes = {name: digest(raw) for name, raw in sources.items()}
    documents: dict[str, dict[str, Any]] = {}
    problems: list[RecipeProblem] = []
    for name, raw in sources.items():
        entry = compiled.get(name)
        if entry is not None and entry.get("sha256") == hashes[name]:
            documents[name] = entry["data"]
            continue
        from wizard.recipes.checkout import read_document

        data, problem = read_document(raw, name)
        if problem is not None:
            problems.append(problem)
        elif data is not None:
            documents[name] = with_resolved_models(data)
    return documents, tuple(problems)


def digest(raw: bytes) -> str:
    """A hash that does not change with the line endings that a checkout on Windows may have."""
    return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()


def _read_compiled(path: Any) -> dict[str, dict[str, Any]]:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(loaded, dict) or loaded.get("format") != COMPILED_FORMAT:
        return {}
    files = loaded.get("files")
    return files if isinstance(files, dict) else {}


def compile_folder(folder: Path) -> str:
    """The compiled form of all recipes in ``folder``, as JSON text; raises ValueError naming a bad file."""
    from wizard.recipes.checkout import read_document

    files: dict[str, Any] = {}
    for path in sorted(folder.glob("*.y*ml")):
        raw = path.read_bytes()
        data, problem = read_document(raw, path.name)
        if problem is not None:
            raise ValueError(str(problem))
        files[path.name] = {"sha256": digest(raw), "data": with_resolved_models(data or {})}
    return json.dumps({"format": COMPILED_FORMAT, "files": files}, separators=(",", ":"), ensure_ascii=False) + "\n"
