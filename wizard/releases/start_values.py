"""What the start of a server takes for options whose parser takes any text.

``--attention-backend`` and the like are plain texts to the parser; the release looks them up in a table of its own once
the server starts, and stops where they are not there. Some of those tables can be added to by plugins. Numbers are the
same: any passes the parser, and the configuration classes then refuse what lies outside their limits.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wizard.i18n import _

if TYPE_CHECKING:
    from .types import Option

# How a number is held against a limit, by the names that pydantic uses.
HOLDS: dict[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
# These configurations are made only where something else asks for them: an option that does, None for "not known here".
_MADE_WITH: dict[str, str | None] = {"LoRAConfig": "enable_lora", "PromptAdapterConfig": "enable_prompt_adapter", "MultiModalConfig": None, "SpeculativeConfig": None}
_FILLED = ("ModelConfig", "CacheConfig", "ParallelConfig", "SchedulerConfig", "LoRAConfig", "PromptAdapterConfig")
# What the operating system takes, whatever the release: a port that is bound.
_PORT = {"ge": 0, "le": 65535}

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


def mark_limits(files: Files, options: Iterable[dict[str, Any]]) -> None:
    """Add ``limits`` ({"gt": 0, "le": 1}) to the options whose number the release's configuration holds between them.

    ``with`` beside them names the option without which that configuration is not made, so that nothing looks. Limits
    are read from the ``Field(...)`` of the class that the option is declared from, and from ``if self.x > 1: raise`` in
    its checks; what is checked in any other way is not known here.
    """
    sources = _declared_from(files)
    known = _limits(files)
    for option in options:
        if option["kind"] not in ("int", "float", "human_int"):
            continue
        if option["dest"] == "port":
            option["limits"] = dict(_PORT)
            continue
        source = next((sources[flag] for flag in option["flags"] if flag in sources), None)
        if source is None:  # declared by hand: such options have the names of the fields that they fill
            named = [key for key in known if key[1] == option["dest"] and key[0] in _FILLED]
            source = named[0] if len(named) == 1 else None
        found = known.get(source) if source is not None else None
        needs = _MADE_WITH.get(source[0], "") if source is not None else ""
        if found and needs is not None:
            option["limits"] = {**found, **({"with": needs} if needs else {})}


def _declared_from(files: Files) -> dict[str, tuple[str, str]]:
    """{"--max-num-seqs": ("SchedulerConfig", "max_num_seqs")}, from ``**scheduler_kwargs["max_num_seqs"]``."""
    text = files.get("vllm/engine/arg_utils.py", "")
    classes: dict[str, str] = {}
    found: dict[str, tuple[str, str]] = {}
    nodes = list(ast.walk(ast.parse(text)))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            call, target = node.value, node.targets[0]
            if node.value.func.id == "get_kwargs" and isinstance(target, ast.Name) and isinstance(call.args[0], ast.Name):
                classes[target.id] = call.args[0].id
    for node in nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"):
            continue
        for keyword in node.keywords:
            if keyword.arg is not None:
                continue
            for value in ast.walk(keyword.value):  # **x["name"], or **{**x["name"], "default": None}
                if not (isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and isinstance(value.slice, ast.Constant)):
                    continue
                if value.value.id in classes:
                    found.update(dict.fromkeys(_texts(node.args), (classes[value.value.id], str(value.slice.value))))
    return found


def _limits(files: Files) -> dict[tuple[str, str], dict[str, float]]:
    """{("CacheConfig", "gpu_memory_utilization"): {"gt": 0, "le": 1}}."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for path, text in files.items():
        if not path.startswith(("vllm/config/", "vllm/config.py")) or not path.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ClassDef):
                continue
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and isinstance(item.value, ast.Call):
                    held = {k.arg: n for k in item.value.keywords if k.arg in HOLDS and (n := _number(k.value)) is not None}
                    if _called(item.value) == "Field" and held:
                        found.setdefault((node.name, item.target.id), {}).update(held)
                elif isinstance(item, ast.FunctionDef) and item.name.startswith(("_verify", "__post_init__")):
                    for name, held in _refused(item):
                        found.setdefault((node.name, name), {}).update(held)
    return found


def _refused(check: ast.FunctionDef) -> Iterator[tuple[str, dict[str, float]]]:
    """What the plain ``if self.x > 1.0: raise ...`` of a check leave allowed: ("x", {"le": 1.0})."""
    turned = {ast.Gt: "le", ast.GtE: "lt", ast.Lt: "ge", ast.LtE: "gt"}
    for item in check.body:
        if isinstance(item, ast.If) and isinstance(item.body[0], ast.Raise) and isinstance(item.test, ast.Compare):
            left, limit = item.test.left, _number(item.test.comparators[0])
            side = turned.get(type(item.test.ops[0])) if len(item.test.ops) == 1 else None
            if side and limit is not None and isinstance(left, ast.Attribute) and ast.unparse(left.value) == "self":
                yield left.attr, {side: limit}


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


def _number(node: ast.AST) -> float | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def outside(text: str, option: Option) -> bool:
    """Whether the start refuses that number for ``option``; False for what is no number, or where no limit is known."""
    number = _read(text, option)
    return number is not None and any(not HOLDS[side](number, limit) for side, limit in option.limits.items())


def share_of(text: str, option: Option) -> str | None:
    """ "0.9" for "90", where a share of 1 is wanted and a percentage was given."""
    number = _read(text, option)
    if number is None or option.kind != "float" or option.limits.get("le") != 1 or not 10 <= number <= 100:
        return None
    share = f"{number / 100:g}"
    return None if outside(share, option) else share


def _read(text: str, option: Option) -> float | None:
    from .parse import human_int

    try:
        return float(text) if option.kind == "float" else human_int(text)
    except ValueError:
        return None


def within(option: Option) -> str:
    """The limits in words: "it must be more than 0 and at most 1"."""
    low = next((side for side in ("gt", "ge") if side in option.limits), None)
    high = next((side for side in ("lt", "le") if side in option.limits), None)
    named = {"low": option.limits.get(low or "", 0), "high": option.limits.get(high or "", 0)}
    figures = {key: f"{value:.16g}" for key, value in named.items()}
    texts = {
        ("gt", None): _("it must be more than {low}"),
        ("ge", None): _("it must be at least {low}"),
        (None, "lt"): _("it must be less than {high}"),
        (None, "le"): _("it must be at most {high}"),
        ("gt", "lt"): _("it must be more than {low} and less than {high}"),
        ("gt", "le"): _("it must be more than {low} and at most {high}"),
        ("ge", "lt"): _("it must be at least {low} and less than {high}"),
        ("ge", "le"): _("it must be from {low} to {high}"),
    }
    return texts[low, high].format(**figures)


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


__all__ = ["HOLDS", "PLUGIN_METHODS", "mark", "mark_limits", "outside", "share_of", "taken", "within"]
