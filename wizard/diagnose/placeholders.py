"""The model of a log in the commands of its cures: ``MODEL_FOLDER`` and ``REPOSITORY`` of the rules, filled in."""

from __future__ import annotations

import re
import shlex

from wizard.i18n import _
from wizard.program import spelt

FOLDER, REPOSITORY = "MODEL_FOLDER", "REPOSITORY"
_IN_CACHE = re.compile(r"/models--([\w.-]+?)--([\w.-]+)(?:/|$)")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_CACHE = "~/.cache/huggingface/hub"


def folder_of(model: str | None) -> str | None:
    """The folder that a log's model is, quoted for a shell; None where it is none, or nothing is known."""
    if not model or not model.isprintable() or not model.startswith(("/", "~/")):
        return None
    return "~/" + shlex.quote(model[2:]) if model.startswith("~/") and model[2:] else shlex.quote(model)


def cached_id(path: str) -> str | None:
    """The id of a model by its path in a Hugging Face cache, where the folder itself has the name of a commit."""
    found = _IN_CACHE.search(path)
    return f"{found[1]}/{found[2]}" if found is not None else None


def repository_of(model: str | None) -> str | None:
    """The id on Hugging Face of a log's model: the id itself, that of a cache's folder, or what a recipe of ours calls
    a folder of that name."""
    if not model:
        return None
    cached = cached_id(model)
    if cached is not None:
        return cached
    if _ID.fullmatch(model) and ".." not in model:
        return model
    if folder_of(model) is None:
        return None
    from wizard import recipes

    hit = recipes.load([]).find(model)
    return hit[1].model_id if hit is not None else None


def filled(commands: list[str], model: str | None) -> list[str]:
    """The commands with what is known of the model; what is not stays as the rules write it."""
    return [_filled(c, model) for c in commands] if any(FOLDER in c or REPOSITORY in c for c in commands) else commands


def _filled(command: str, model: str | None) -> str:
    folder = folder_of(model)
    repository = repository_of(model) if FOLDER in command or REPOSITORY in command else None
    command = spelt(command)
    if FOLDER in command:
        if folder is not None:
            command = command.replace(FOLDER, folder)
        elif repository is not None and command.startswith("ls"):
            command = command.replace(FOLDER, f"{_CACHE}/models--{repository.replace('/', '--')}/snapshots/*/")
    if REPOSITORY in command:
        plain_folder = folder is not None and model is not None and cached_id(model) is None
        place = f" --local-dir {folder}" if plain_folder and command.startswith("hf download") else ""
        command = command.replace(REPOSITORY, (repository or REPOSITORY) + place, 1)
    return command


def unknown_words(commands: list[str]) -> list[str]:
    """What to say of the words that are still to be replaced by hand."""
    out = []
    words = " ".join(commands)
    if FOLDER in words:
        out.append(_("{word} stands for the folder of the model, which the log does not tell.").format(word=FOLDER))
    if REPOSITORY in words:
        out.append(_("{word} stands for the model's id on Hugging Face, such as Qwen/Qwen3-8B, which the log does not tell.").format(word=REPOSITORY))
    return out
