"""Reading recipe files that are not compiled: a checkout of the public recipes, or a user's own."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.recipes.types import RecipeProblem

_SUFFIXES = (".yaml", ".yml")
# Folders of a checkout of the public recipes that hold other things than recipes.
_NOT_RECIPES = frozenset({"strategies", "kv_store", "node_modules", "public", "src", "scripts", "site"})
_MAX_FILES = 5_000
_CACHE_FORMAT = 1


def recipe_files(folder: Path) -> Iterator[Path]:
    """The recipe files under ``folder``; of a checkout of the public recipes those under ``models``."""
    if folder.is_file():
        yield folder
        return
    root = folder / "models" if (folder / "models").is_dir() else folder
    count = 0
    for place, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _NOT_RECIPES)
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not name.startswith(".") and name != "taxonomy.yaml":
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(place) / name


def read_document(raw: bytes, name: str) -> tuple[dict[str, Any] | None, RecipeProblem | None]:
    """The mapping in a recipe file, or the problem that it has."""
    from wizard.recipes.yaml_lines import YamlFault, parse

    try:
        data = parse(raw.decode("utf-8-sig")).data
    except UnicodeDecodeError as error:
        return None, RecipeProblem(name, None, "", _("not UTF-8 text (byte {at})").format(at=error.start), "yaml")
    except YamlFault as fault:
        return None, RecipeProblem(name, fault.line, "", _("not valid YAML: {why}").format(why=fault.message), "yaml")
    if not isinstance(data, dict):
        return None, RecipeProblem(name, 1, "", _("a recipe is a mapping with meta, model and variants"), "yaml")
    return data, None


def read_folder(folder: Path) -> tuple[dict[str, dict[str, Any]], list[RecipeProblem]]:
    """Data by file name of all recipe files under ``folder``, and the problems of those that are not usable."""
    if not folder.exists():
        raise BadInput(_("--recipes {folder}: there is no such folder or file.").format(folder=folder))
    cache = _Cache(folder)
    documents: dict[str, dict[str, Any]] = {}
    problems: list[RecipeProblem] = []
    for path in recipe_files(folder):
        name = str(path)
        try:
            stamp = path.stat()
            data = cache.get(name, stamp.st_mtime_ns, stamp.st_size)
            problem = None
            if data is None:
                data, problem = read_document(path.read_bytes(), name)
                if data is not None:
                    cache.put(name, stamp.st_mtime_ns, stamp.st_size, data)
        except OSError as error:
            problem, data = RecipeProblem(name, None, "", error.strerror or str(error), "unreadable"), None
        if problem is not None:
            problems.append(problem)
        elif data is not None:
            documents[name] = data
    cache.save()
    return documents, problems


class _Cache:
    """Parsed documents of one folder, kept in the user's cache folder; never needed, never fatal."""

    def __init__(self, folder: Path) -> None:
        import hashlib

        import platformdirs

        name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
        self.path = Path(platformdirs.user_cache_dir("vllm-wizard", appauthor=False)) / f"recipes-{name}.json"
        self.entries: dict[str, Any] = {}
        self.changed = False
        try:
            loaded = json.loads(self.path.read_bytes())
            if loaded.get("format") == _CACHE_FORMAT and isinstance(loaded.get("files"), dict):
                self.entries = loaded["files"]
        except (OSError, ValueError, AttributeError):
            pass

    def get(self, name: str, mtime_ns: int, size: int) -> dict[str, Any] | None:
        entry = self.entries.get(name)
        if isinstance(entry, dict) and entry.get("mtime_ns") == mtime_ns and entry.get("size") == size:
            data = entry.get("data")
            return data if isinstance(data, dict) else None
        return None

    def put(self, name: str, mtime_ns: int, size: int, data: dict[str, Any]) -> None:
        self.entries[name] = {"mtime_ns": mtime_ns, "size": size, "data": data}
        self.changed = True

    def save(self) -> None:
        if not self.changed:
            return
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps({"format": _CACHE_FORMAT, "files": self.entries}), encoding="utf-8")
            temporary.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
