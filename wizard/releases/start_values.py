"""What the start of a server takes for options whose parser takes any text.

``--attention-backend`` and the like are plain texts to the parser; the release looks them up in a table of its own once
the server starts, and stops where they are not there. Some of those tables can be added to by plugins.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .types import Option

# Quantization that plugins of the vLLM project bring, so no release's own list need have it.
PLUGIN_METHODS = ("bitsandbytes", "gguf")

Files = Mapping[str, str]


def mark(files: Files, options: Iterable[dict[str, Any]], quantization: Iterable[str]) -> None:
    """Add ``takes`` (the values) and ``others`` (who may bring more) to the options that have such a table.

    ``others``: "plugins" where a plugin may register more, "classes" where a dotted class name is taken as well;
    without it, every other value stops the server. An option whose table is not found is left as it is.
    """
    methods = list(quantization)
    for option in options:
        if option["kind"] != "str" or option.get("choices"):
            continue
        known = [str(v) for v in option.get("known", ())]
        values, others = _of(files, option["dest"], known, methods)
        if values:
            option["takes"] = sorted({*known, *values})
            if others:
                option["others"] = others


def _of(files: Files, dest: str, known: list[str], quantization: list[str]) -> tuple[list[str], str]:
    if dest == "kv_cache_dtype":
        return known, "plugins"
    if dest == "quantization":
        return quantization, "plugins"
    if dest == "distributed_executor_backend":
        return known, "classes"
    if dest in ("attention_backend", "mm_encoder_attn_backend"):
        members = _members(files, "AttentionBackendEnum")
        return ([*members, "auto"] if members else []), ""
    table = _TABLES.get(dest)
    keys = _keys(files, table) if table else []
    if keys and dest == "tokenizer_mode":  # some modes are chosen by the code and stand in no table
        keys += _compared(files, dest)
    return ([*keys, "auto"] if keys else []), "plugins"


_TABLES = {
    "load_format": "_LOAD_FORMAT_TO_MODEL_LOADER",
    "tokenizer_mode": "_VLLM_TOKENIZERS",
    "config_format": "_CONFIG_FORMAT_TO_CONFIG_PARSER",
}


def _nodes(files: Files, word: str) -> Iterator[ast.AST]:
    for path, text in files.items():
        if path.startswith("vllm/") and path.endswith(".py") and word in text:
            yield from ast.walk(ast.parse(text))


def _members(files: Files, name: str) -> list[str]:
    """The members of an Enum, aliases too."""
    found: list[str] = []
    for node in _nodes(files, f"class {name}("):
        if isinstance(node, ast.ClassDef) and node.name == name:
            found += [t.id for item in node.body if isinstance(item, ast.Assign) for t in item.targets if isinstance(t, ast.Name)]
    return [n for n in found if not n.startswith("_")]


def _keys(files: Files, name: str) -> list[str]:
    """The keys of a table that is written out."""
    for node in _nodes(files, name):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id == name and isinstance(getattr(node, "value", None), ast.Dict):
            return _texts(node.value.keys)  # type: ignore[attr-defined]
    return []


def taken(value: str, option: Option) -> bool:
    """Whether the start takes ``value``; True for an option of which that is not known."""
    if not option.start_values or value in ("", "None") or "$" in value:
        return True
    if option.start_others == "classes" and "." in value:
        return True
    if option.dest == "quantization" and value.lower() in PLUGIN_METHODS:
        return True
    # Backends are looked up in capitals, quantization and the formats in small letters.
    return not {value, value.lower(), value.upper()}.isdisjoint(option.start_values)


def _compared(files: Files, name: str) -> list[str]:
    """Texts that the release's code compares that setting with, or sets it to."""
    found: list[str] = []
    for node in _nodes(files, name):
        if isinstance(node, ast.Compare) and _is(node.left, name):
            for other in node.comparators:
                found += _texts(other.elts if isinstance(other, (ast.Tuple, ast.List, ast.Set)) else [other])
        elif isinstance(node, ast.Assign) and any(_is(t, name) for t in node.targets):
            found += _texts([node.value])
    return found


def _is(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _texts(nodes: Iterable[ast.AST | None]) -> list[str]:
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]

__all__ = ["PLUGIN_METHODS", "mark", "taken"]
