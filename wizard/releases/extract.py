"""Read what a release accepts out of its Python files (see ``interpreter``), into plain data.

The result of :func:`read_release` is what the data files of the catalogue hold; ``__init__`` turns such
data into :class:`~wizard.releases.types.Release`.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import functools
import itertools
import json
import re
import typing
from collections.abc import Mapping
from typing import Any

from . import start_values
from .interpreter import (
    Declared,
    External,
    FieldInfo,
    Interpreted,
    NotReadable,
    Opaque,
    PartialList,
    Reader,
    Recorder,
    Undecided,
)

DATA_FORMAT = 1


class UnreadableRelease(Exception):
    """The sources are not laid out in any way that is understood."""


def read_release(files: Mapping[str, str], version: str) -> dict[str, Any]:
    """All facts of one release as plain JSON data; ``notes`` says what could not be read."""
    notes: list[str] = []
    options, parser = read_options(files, notes)
    quantization = read_quantization(files, notes)
    start_values.mark(files, options, quantization)
    start_values.mark_limits(files, options)
    return {
        "format": DATA_FORMAT,
        "version": version,
        "options": options,
        "parser": parser,
        "env": read_env(files),
        "architectures": read_architectures(files),
        "quantization": quantization,
        "kv_cache_dtypes": _choices_of(options, "--kv-cache-dtype"),
        "tool_parsers": read_parsers(files, "tool"),
        "reasoning_parsers": read_parsers(files, "reasoning"),
        **read_requirements(files),
        "image": read_image(files),
        "notes": notes,
    }


def _choices_of(options: list[dict[str, Any]], flag: str) -> list[str]:
    for option in options:
        if flag in option["flags"]:
            return [str(c) for c in option.get("choices") or option.get("known") or []]
    return []


# --- options ---------------------------------------------------------------------------------------------


def read_options(files: Mapping[str, str], notes: list[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every option of ``vllm serve`` in the order of declaration, and how the parser treats its arguments."""
    reader = _reader(files)
    serve = _declare_serve(reader, files)
    if serve is None or not serve.declared:
        raise UnreadableRelease("no make_arg_parser was found: the options are declared in a new way")
    parser = _parser_rules(reader, files)
    options: dict[str, dict[str, Any]] = {}
    for declared in serve.declared:
        if not declared.flags or not declared.flags[0].startswith("-"):
            continue  # the positional model
        option = _option(reader, declared, parser)
        options[option["flags"][0]] = option
    notes.extend(reader.notes)
    return list(options.values()), parser


def _reader(files: Mapping[str, str]) -> Reader:
    reader = Reader(files)

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    def parsers(kind: str) -> Any:
        return lambda *a, **k: read_parsers(files, kind)

    def get_type(type_hints: set[Any], kind: Any) -> Any:
        """The hint of that kind; of two Literal types the real code picks either, by hash order."""
        found = [h for h in type_hints if h is kind or typing.get_origin(h) is kind]
        if len(found) > 1 and kind is typing.Literal:
            values = tuple(dict.fromkeys(v for h in found for v in typing.get_args(h)))
            reader.merged_literals.add(frozenset(values))
            return typing.Literal[values]
        return found[0] if found else None

    reader.overrides.update(
        {
            "load_general_plugins": nothing,
            "pre_register_and_update": nothing,
            "init_logger": lambda *a, **k: Opaque("logger"),
            "get_attr_docs": lambda cls: _Docs(attribute_docs(reader, cls)),
            "_maybe_add_docs_url": lambda cls: "",
            "is_in_doc_build": lambda: False,
            "list_registered": parsers("tool"),
            "get_type": get_type,
        }
    )
    # Filled by decorators when the parsers' own modules are imported.
    for kind, attribute in (("tool", "tool_parsers"), ("reasoning", "reasoning_parsers")):
        reader.attribute_overrides[(_MANAGER[kind], attribute)] = functools.partial(_named_parsers, files, kind)
    return reader


def _named_parsers(files: Mapping[str, str], kind: str) -> dict[str, None]:
    return dict.fromkeys(read_parsers(files, kind))


class _Docs(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return ""


def attribute_docs(reader: Reader, cls: Any) -> dict[str, str]:
    """The string literal after each field of a class, bases first."""
    docs: dict[str, str] = {}
    for part in reversed(getattr(cls, "__mro__", ())):
        if part not in reader.class_nodes:
            continue
        body = reader.class_nodes[part][1].body
        for first, second in itertools.pairwise(body):
            if (
                isinstance(first, (ast.AnnAssign, ast.Assign))
                and isinstance(second, ast.Expr)
                and isinstance(second.value, ast.Constant)
                and isinstance(second.value.value, str)
            ):
                target = first.target if isinstance(first, ast.AnnAssign) else first.targets[0]
                if isinstance(target, ast.Name):
                    docs[target.id] = second.value.value
    return docs


def _declare_serve(reader: Reader, files: Mapping[str, str]) -> Recorder | None:
    """Walk the code that declares ``vllm serve``: the subcommand class, else the old script's main."""
    recorder = Recorder()
    for path in sorted(files):
        text = files[path]
        if not path.startswith("vllm/") or "add_parser" not in text or "serve" not in text:
            continue
        module = reader.module(_module_name(path))
        if module is None:
            continue
        if path.endswith("entrypoints/cli/serve.py"):
            cls = reader.lookup(module, "ServeSubcommand")
            try:
                method = reader.class_attribute(cls, "subparser_init")
                method.bind(cls)(recorder)
            except (NotReadable, Undecided, TypeError, AttributeError) as error:
                reader.notes.append(f"{path}: {error}")
        elif path in ("vllm/scripts.py", "vllm/entrypoints/cli/main.py") and '"serve"' in text:
            _declare_in_main(reader, module, recorder)
        if recorder.children.get("serve") and recorder.children["serve"].declared:
            return recorder.children["serve"]
    return recorder.children.get("serve")


def _declare_in_main(reader: Reader, module: Any, recorder: Recorder) -> None:
    """The old ``main``: only its statements about the serve parser are walked."""
    main = reader.lookup(module, "main")
    if not isinstance(main, Interpreted) or isinstance(main.node, ast.Lambda):
        return
    from .interpreter import Scope

    scope = Scope(module)
    scope.names["parser"] = scope.names["subparsers"] = recorder
    wanted = [s for s in main.node.body if "serve_parser" in ast.unparse(s)]
    reader.run(wanted, scope, lenient=True)


def _module_name(path: str) -> str:
    return path[: -len(".py")].removesuffix("/__init__").replace("/", ".")


def _parser_rules(reader: Reader, files: Mapping[str, str]) -> dict[str, Any]:
    """How FlexibleArgumentParser rewrites arguments before argparse sees them, found in its source."""
    path = next(
        (p for p in sorted(files) if p.startswith("vllm/") and re.search(r"^class FlexibleArgumentParser\b", files[p], re.M)),
        None,
    )
    if path is None:
        raise UnreadableRelease("no FlexibleArgumentParser was found")
    tree = ast.parse(files[path])
    node = next(n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == "FlexibleArgumentParser")
    source = ast.unparse(node)
    rules: dict[str, Any] = {
        "dotted": "create_nested_dict" in source,
        "dotted_list": ".endswith('+')" in source,
        "model_flag": "moved" if "'--model' option will be removed" in source or "rest_start_idx" in source
        else ("refused" if "instead of via" in source else "plain"),
        "optimization_level": "--optimization-level" in source,
        "o_flag": "optimization_level" if "--optimization-level" in source
        else ("level" if "'-O.level=" in source or '"-O.level=' in source
              else "mode" if "-O.mode=" in source else "attached"),
        "o_dotted": "arg.startswith('-O.')" in source,
        "human_dotted": "human_readable_int(value_str)" in source,
        "dash_after_dot_kept": "(?<=--)[^\\\\.]*" in source,
    }  # fmt: skip
    register = re.search(r"register\('action', (?:argparse\.)?BooleanOptionalAction, (\w+)\)", source)
    if register:
        module = reader.module(_module_name(path))
        cls = reader.lookup(module, register.group(1)) if module else None
        if isinstance(cls, type):
            inverse = reader.class_attribute(cls, "_inverse_prefixes")
            rules["inverse_prefixes"] = {str(k): str(v) for k, v in inverse.items()}
    return rules


def _option(reader: Reader, declared: Declared, parser: Mapping[str, Any]) -> dict[str, Any]:
    kwargs = declared.kwargs
    action = kwargs.get("action")
    is_twin = action is argparse.BooleanOptionalAction
    flags = sorted(declared.flags, key=lambda f: not f.startswith("--"))
    first_long = next((f for f in declared.flags if f.startswith("--")), declared.flags[0])
    dest = kwargs.get("dest") if isinstance(kwargs.get("dest"), str) else first_long.lstrip("-").replace("-", "_")
    if is_twin:
        for flag in [f for f in flags if f.startswith("--")]:
            flags.append("--no-" + flag[2:])
            for prefix, inverse in (parser.get("inverse_prefixes") or {}).items():
                if flag.startswith(prefix):
                    flags.append(inverse + flag[len(prefix) :])
    option: dict[str, Any] = {"flags": list(dict.fromkeys(flags)), "dest": dest}
    value_type = _value_type(reader, kwargs.get("type"))
    choices = kwargs.get("choices")
    nargs = kwargs.get("nargs")
    action_name = _action_name(action)
    option["kind"] = _kind(action_name, value_type, nargs, choices, kwargs)
    option["type"] = value_type["name"]
    for key in ("optional", "keys", "closed", "auto"):
        if value_type.get(key):
            option[key] = value_type[key]
    if isinstance(choices, Opaque):
        option["computed"] = True
    elif choices is not None:
        option["choices"] = _plain_choices(choices)
        if isinstance(choices, PartialList):
            option["computed"] = True
        if frozenset(c for c in option["choices"] if c is not None) in reader.merged_literals:
            option["computed"] = True
    metavar = kwargs.get("metavar")
    if isinstance(metavar, (list, tuple)):
        option["known"] = [str(m) for m in metavar]  # named values; others are taken too
    if nargs is not None and not isinstance(nargs, Opaque):
        option["nargs"] = str(nargs)
    if action_name not in (None, "store"):
        option["action"] = action_name
    if action_name == "LoRAParserAction" and isinstance(action, type):
        module = reader.class_nodes[action][0]
        path_class = reader.lookup(module, "LoRAModulePath")
        if isinstance(path_class, type):
            option["keys"] = dict.fromkeys(f.name for f in reader.fields(path_class))
    default = kwargs.get("default", False if action_name == "store_true" else None)
    plain, static = _plain_default(default)
    if static:
        if plain is not None:
            option["default"] = plain
    else:
        option["default_computed"] = True
    if _is_deprecated(kwargs):
        option["deprecated"] = True
    return option


def _action_name(action: Any) -> str | None:
    if action is None:
        return None
    if action is argparse.BooleanOptionalAction:
        return "bool"
    if isinstance(action, str):
        return action
    return getattr(action, "__name__", None) or getattr(action, "text", "custom")


def _kind(action: str | None, value_type: Mapping[str, Any], nargs: Any, choices: Any, kwargs: Mapping[str, Any]) -> str:
    if action in ("store_true", "store_false", "bool"):
        return "flag"
    if nargs == "?":
        return "optional_flag"
    if nargs is not None or action == "append":
        return "list"
    if choices is not None:
        return "choice"
    name = value_type["name"]
    if name in ("int", "float", "human_int"):
        return str(name)
    if name in ("json", "dataclass"):
        return "json"
    if name in ("json_or_str", "key_values", "json_or_key_values", "json_or_level"):
        return "dict"
    return "str"


def _value_type(reader: Reader, value: Any) -> dict[str, Any]:
    """The name of a ``type=`` callable: what :mod:`wizard.releases.parse` reads values by."""
    if value is None or value is str:
        return {"name": "str"}
    if value in (int, float, bool):
        return {"name": value.__name__}
    if value is json.loads:
        return {"name": "json"}
    if isinstance(value, Interpreted):
        return _interpreted_type(reader, value)
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return {"name": "str"}
    if typing.get_origin(value) is typing.Literal:
        return {"name": type(typing.get_args(value)[0]).__name__}
    if isinstance(value, type):
        return {"name": "str"}
    return {"name": "custom"}


def _interpreted_type(reader: Reader, value: Interpreted) -> dict[str, Any]:
    source = ast.unparse(value.node)
    name = value.name
    if name in ("_optional_type", "_parse_type", "_optional_arg"):
        inner = next((v for k, v in value.scope.names.items() if k in ("return_type", "val_type")), None)
        described = dict(_value_type(reader, inner))
        # 0.8.5 to 0.9 read "a=1,b=2" where JSON is expected; 0.9.x also did so in _parse_type.
        if described["name"] == "json" and "nullable_kvs" in source:
            described["name"] = "json_or_key_values"
        if name == "_optional_type":
            described["optional"] = True
        return described
    if name == "human_readable_int_or_auto":
        return {"name": "human_int", "auto": True}
    if name == "human_readable_int":
        return {"name": "human_int"}
    if name == "union_dict_and_str":
        return {"name": "json_or_str"}
    if name == "nullable_kvs":
        return {"name": "key_values"}
    if name == "nullable_str":
        return {"name": "str", "optional": True}
    if name == "parse_dataclass":
        cls = value.default_of("cls") or value.scope.names.get("dataclass_cls")
        return _dataclass_type(reader, cls)
    if name in ("from_cli", "from_json"):
        if "int(" in source or "CompilationConfig" in source:
            return {"name": "json_or_level"}
        return {"name": "json"}
    if isinstance(value.node, ast.Lambda):
        for captured in value.defaults:  # lambda x, f=SomeConfig: f(**json.loads(x))
            if isinstance(captured, Interpreted):
                return _interpreted_type(reader, captured)
            if isinstance(captured, type):
                described = _dataclass_type(reader, captured)
                described["keys"] = dict.fromkeys(described.get("keys", ()))  # types are not checked then
                described["closed"] = True
                return described
        if "json.loads" in source:
            return {"name": "json"}
        if ".lower()" in source and "replace('-', '_')" in source:
            return {"name": "lower_underscore"}
        return {"name": "custom"}
    return {"name": "str" if name.startswith("parse_reasoning") else "custom"}


def _dataclass_type(reader: Reader, cls: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"name": "dataclass"}
    if isinstance(cls, type) and reader.is_dataclass(cls):
        free = _freely_read(reader, cls)
        keys = {
            f.name: None if f.name in free or "SkipValidation" in f.annotation_text else _simple_type(f.type)
            for f in reader.fields(cls)
            if f.init
        }
        if keys:
            described["keys"] = keys
            described["closed"] = _refuses_other_keys(reader, cls)
    return described


def _freely_read(reader: Reader, cls: type) -> set[str]:
    """Fields with a validator that runs before pydantic's own: what they take cannot be told from the type."""
    names: set[str] = set()
    for part in cls.__mro__:
        if part not in reader.class_nodes:
            continue
        for statement in reader.class_nodes[part][1].body:
            for decorator in getattr(statement, "decorator_list", ()):
                if not isinstance(decorator, ast.Call) or "validator" not in ast.unparse(decorator.func):
                    continue
                if re.search(r"mode=['\"](before|wrap|plain)['\"]", ast.unparse(decorator)):
                    named = [a.value for a in decorator.args if isinstance(a, ast.Constant)]
                    names.update(str(n) for n in named)
    if "*" in names:
        names.update(f.name for f in reader.fields(cls))
    return names


def _refuses_other_keys(reader: Reader, cls: type) -> bool:
    """Whether the class, or the decorator that all config classes use, forbids keys that it does not have."""
    module, node, _scope = reader.class_nodes[cls]
    decorators = " ".join(ast.unparse(d) for d in node.decorator_list)
    if "forbid" in decorators:
        return True
    decorator = reader.lookup(module, "config")
    return isinstance(decorator, Interpreted) and "forbid" in ast.unparse(decorator.node)


def _simple_type(hint: Any) -> Any:
    """What a key of a JSON option may hold: names of plain types, or a list of the allowed words.

    ``["int", "null"]``, ``{"one_of": [...]}``; None where a value cannot be judged (a nested class, a validator).
    """
    origin = typing.get_origin(hint)
    if origin is typing.Union:
        parts = [_simple_type(h) for h in typing.get_args(hint)]
        if any(not isinstance(p, list) for p in parts):
            return None
        return sorted({name for p in parts for name in p})
    if origin is typing.Literal:
        values = typing.get_args(hint)
        return [f"={v}" for v in values] if all(isinstance(v, (str, int)) for v in values) else None
    for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"), (type(None), "null")):
        if hint is kind:
            return [name]
    for container, name in ((list, "list"), (dict, "dict")):
        if hint is container or origin is container:
            return [name]
    return None


def _plain_choices(choices: Any) -> list[Any]:
    out: list[Any] = []
    for choice in choices:
        if isinstance(choice, enum.Enum):
            choice = choice.value
        if isinstance(choice, (str, int, float, bool)) or choice is None:
            out.append(choice)
        elif isinstance(choice, Opaque):
            continue
    return out


def _plain_default(value: Any) -> tuple[Any, bool]:
    """(JSON data, whether it is static)."""
    if value is argparse.SUPPRESS or value is dataclasses.MISSING or value is None:
        return None, True
    if isinstance(value, enum.Enum):
        return _plain_default(value.value)
    if isinstance(value, (bool, int, float, str)):
        return value, True
    if isinstance(value, FieldInfo):
        return _plain_default(value.default)
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [_plain_default(v) for v in value]
        return [p for p, _ in parts], all(static for _, static in parts)
    if isinstance(value, dict):
        items = {str(k): _plain_default(v) for k, v in value.items()}
        return {k: p for k, (p, _) in items.items()}, all(static for _, static in items.values())
    return None, False


_DEPRECATED = re.compile(r"^[\W_]*(\[?deprecated\b)|\[deprecated\]|\bis deprecated\b|\bhas been deprecated\b|^this (argument|flag|option|parameter) is deprecated", re.I)


def _is_deprecated(kwargs: Mapping[str, Any]) -> bool:
    if kwargs.get("deprecated") is True:
        return True
    text = kwargs.get("help")
    return isinstance(text, str) and bool(_DEPRECATED.search(text.strip()[:400]))


# --- registries ------------------------------------------------------------------------------------------


def read_env(files: Mapping[str, str]) -> list[str]:
    """VLLM_* variables that the release's envs.py declares, and those read by other files."""
    found: set[str] = set()
    text = files.get("vllm/envs.py", "")
    if text:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Dict):
                for key in node.keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isupper():
                        found.add(key.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id.isupper():
                found.add(node.target.id)
    reads = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](VLLM_[A-Z0-9_]+)["']""")
    for path, source in files.items():
        if path.startswith("vllm/") and "VLLM_" in source:
            found.update(reads.findall(source))
    return sorted(f for f in found if re.fullmatch(r"[A-Z][A-Z0-9_]+", f))


def read_architectures(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Model classes of the release's registry, by kind ("text generation", "multimodal" ...)."""
    path = "vllm/model_executor/models/registry.py"
    text = files.get(path) or files.get("vllm/model_executor/models/__init__.py", "")
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(text)):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names = [t.id for t in targets if isinstance(t, ast.Name)]
        if not names or not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, ast.Dict):
            continue
        if not names[0].endswith("_MODELS") or "PREVIOUSLY" in names[0] or "OOT" in names[0]:
            continue
        value: ast.Dict = node.value
        kind = names[0].strip("_").removesuffix("_MODELS").lower().replace("_", " ")
        classes = {k.value for k in value.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)}
        if classes:
            found.setdefault(kind, set()).update(classes)
    return {kind: sorted(classes) for kind, classes in sorted(found.items())}


def read_quantization(files: Mapping[str, str], notes: list[str]) -> list[str]:
    """Names that ``--quantization`` knows."""
    reader = _reader(files)
    module = reader.module("vllm.model_executor.layers.quantization")
    if module is None:
        notes.append("no quantization registry was found")
        return []
    for name in ("QUANTIZATION_METHODS", "QuantizationMethods"):
        value = reader.lookup(module, name)
        if isinstance(value, (list, dict, tuple)):
            return sorted(str(v) for v in value)
        if typing.get_origin(value) is typing.Literal:
            return sorted(str(v) for v in typing.get_args(value))
    notes.append("the quantization registry could not be read")
    return []


_MANAGER = {"tool": "ToolParserManager", "reasoning": "ReasoningParserManager"}


def read_parsers(files: Mapping[str, str], kind: str) -> list[str]:
    """Names of the built-in tool-call or reasoning parsers: registered by decorator or in a lazy table."""
    found: set[str] = set()
    manager = _MANAGER[kind]
    for path, text in files.items():
        if not path.startswith("vllm/") or manager not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                f"{manager}.register_module", f"{manager}.register_lazy_module",
            ):  # fmt: skip
                found.update(_first_names(node))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id.endswith("PARSERS_TO_REGISTER"):
                    found.update(str(k.value) for k in node.value.keys if isinstance(k, ast.Constant))
    return sorted(found)


def _first_names(call: ast.Call) -> list[str]:
    argument = call.args[0] if call.args else None
    for keyword in call.keywords:
        if keyword.arg == "name":
            argument = keyword.value
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return [argument.value]
    if isinstance(argument, (ast.List, ast.Tuple)):
        return [e.value for e in argument.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    return []


# --- packaging and image ---------------------------------------------------------------------------------


def read_requirements(files: Mapping[str, str]) -> dict[str, Any]:
    """torch, transformers and Python that the release asks for."""
    cuda = "\n".join(files[p] for p in ("requirements/cuda.txt", "requirements-cuda.txt") if p in files)
    common = "\n".join(files[p] for p in ("requirements/common.txt", "requirements-common.txt") if p in files)
    metadata = files.get("PKG-INFO", "") or files.get("METADATA", "")
    torch = re.search(r"^torch\s*==\s*([0-9][\w.]*)", cuda, re.M) or re.search(
        r"^Requires-Dist: torch\s*\(?==\s*([0-9][\w.]*)", metadata, re.M
    )
    transformers = re.search(r"^transformers\s*([^;#\n]+)", common, re.M) or re.search(
        r"^Requires-Dist: transformers\s*([^;#\n]+)", metadata, re.M
    )
    python = re.search(r"^Requires-Python:\s*(.+)$", metadata, re.M) or re.search(
        r"""requires-python\s*=\s*["']([^"']+)["']""", files.get("pyproject.toml", "")
    )
    return {
        "torch": torch.group(1) if torch else None,
        "transformers": re.sub(r"\s+", "", transformers.group(1)).strip("()") if transformers else None,
        "requires_python": re.sub(r"\s+", "", python.group(1)) if python else None,
    }


def read_image(files: Mapping[str, str]) -> dict[str, Any]:
    """What the published images are built with: the release pipeline's arguments over the Dockerfile's defaults."""
    text = files.get("docker/Dockerfile") or files.get("Dockerfile") or ""
    cuda = re.search(r"^ARG CUDA_VERSION=([0-9.]+)", text, re.M)
    lists = re.findall(r"""^ARG torch_cuda_arch_list=['"]([^'"]+)['"]""", text, re.M)
    image: dict[str, Any] = {
        "cuda": cuda.group(1) if cuda else None,
        "arch_list": lists[-1].split() if lists else [],
        "entrypoint": _published_entrypoint(text),
        "variants": {},
    }
    _apply_pipeline(files.get(".buildkite/release-pipeline.yaml", ""), image)
    scripts = "\n".join(v for k, v in files.items() if k.startswith(".buildkite/"))
    for suffix in set(re.findall(r"vllm/vllm-openai:v\$\{?[A-Z_]+\}?-(cu\d{3})\b", scripts)):
        image["variants"].setdefault(suffix, {})["published"] = True
    image["variants"] = {k: v for k, v in sorted(image["variants"].items()) if v.get("published") and v.get("cuda")}
    for vendor in ("cpu", "rocm", "xpu"):
        dockerfile = files.get(f"docker/Dockerfile.{vendor}") or files.get(f"Dockerfile.{vendor}") or ""
        image[f"{vendor}_entrypoint"] = _published_entrypoint(dockerfile)
        image[vendor] = bool(re.search(rf"vllm/vllm-openai-{vendor}:[v$]", scripts.replace('"', "")))
    return image


def _apply_pipeline(pipeline: str, image: dict[str, Any]) -> None:
    """CUDA version and architecture list that the release pipeline builds each x86 image with."""
    settings = dict(re.findall(r"""^\s*(CUDA_ARCH\w+):\s*["']([^"']+)["']""", pipeline, re.M))
    found: dict[str, dict[str, Any]] = {}
    for step in re.split(r"^\s*- label:", pipeline, flags=re.M):
        build = re.search(r"docker buildx? ?build.*?-f docker/Dockerfile \.|docker build.*?-f docker/Dockerfile \.", step, re.S)
        if not build or "target vllm-openai" not in build.group(0) or "ubuntu2404" in step or "NIGHTLY" in step:
            continue
        arguments = dict(re.findall(r"""--build-arg (\w+)=("[^"]*"|'[^']*'|\S+)""", build.group(0)))
        variant = re.search(r"release-repo:\$BUILDKITE_COMMIT(?:-\$\(uname -m\))?-(cu\d{3})\b", step)
        name = variant.group(1) if variant else ""
        if name in found or "CUDA_VERSION" not in arguments:
            continue  # the first step of a variant is the x86_64 one
        archs = arguments.get("torch_cuda_arch_list", "").strip("\"'")
        archs = settings.get(archs.strip("${}"), archs)
        found[name] = {"cuda": arguments["CUDA_VERSION"].strip("\"'")}
        if archs and "$" not in archs:
            found[name]["arch_list"] = archs.split()
    for name, facts in found.items():
        if name:
            image["variants"][name] = {"arch_list": image["arch_list"], **facts}
        else:
            image["published"] = facts  # what the pipeline passes may differ in the last digit


def _published_entrypoint(text: str) -> list[str] | None:
    """ENTRYPOINT of the stage that is published (vllm-openai), else the file's last one."""
    entry = None
    for stage in re.split(r"^FROM ", text, flags=re.M):
        if re.match(r"\S+ AS vllm-openai(-base)?\s*\n", stage, re.I):
            entry = _last_entrypoint(stage) or entry
    return entry or _last_entrypoint(text)


def _last_entrypoint(text: str) -> list[str] | None:
    found = re.findall(r"^(?:ENTRYPOINT) (\[.*\])", text, re.M)
    try:
        return list(json.loads(found[-1])) if found else None
    except ValueError:
        return None


__all__ = ["External", "UnreadableRelease", "read_release"]
