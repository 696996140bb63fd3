"""A small interpreter for the argument-declaring code of a vLLM release, which is never imported.

Every release declares its options in Python: dataclasses, ``Literal`` types, enums and calls of
``add_argument``, moved about and rewritten many times. Instead of one hand-written reader per layout, the
code itself is walked: names are looked up across the files of the release, annotations become real
``typing`` objects, classes become empty stand-ins, functions become closures over their syntax tree.
Nothing of the release is executed by Python: only the operations below exist, the standard-library
functions listed in ``_STDLIB`` are the only ones that are called, and whatever comes from elsewhere
(torch, pydantic, the platform) is an :class:`Opaque` value that absorbs every use and decides nothing.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import collections.abc
import copy
import dataclasses
import enum
import functools
import itertools
import json
import operator
import re
import ssl
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAX_STEPS = 2_000_000
MAX_DEPTH = 60


class Undecided(Exception):
    """A condition that only the running program could decide."""


class NotReadable(Exception):
    """The code uses something that this interpreter does not know."""


class Opaque:
    """A value that is not known; every attribute, item and call of it is not known either."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __bool__(self) -> bool:
        raise Undecided(self.text)

    def __iter__(self) -> Iterator[Any]:
        raise Undecided(self.text)

    def __deepcopy__(self, memo: object) -> Opaque:
        return self


class PartialList(list[Any]):
    """A list that the running program adds more to."""


class External:
    """Stands in annotations for a class that is no part of the release (``torch.dtype``, say)."""


class FieldStub:
    """A dataclass field as ``dataclasses.fields`` would give it."""

    def __init__(
        self,
        name: str,
        type: Any,
        default: Any = dataclasses.MISSING,
        default_factory: Any = dataclasses.MISSING,
        init: bool = True,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.default_factory = default_factory
        self.init = init
        self.annotation_text = ""


class FieldInfo:
    """What pydantic's ``Field(...)`` gives as a class attribute."""

    def __init__(self, default: Any = dataclasses.MISSING, default_factory: Any = None, **rest: Any) -> None:
        self.default = default
        self.default_factory = default_factory
        self.init = rest.get("init")

    def __deepcopy__(self, memo: object) -> FieldInfo:
        return self


class Interpreted:
    """A function of the release: its syntax tree and the scope that it closes over."""

    def __init__(
        self, reader: Reader, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, owner: Any = None
    ) -> None:
        self.reader = reader
        self.node = node
        self.scope = scope
        self.owner = owner  # the class it was defined in, for super()
        self.bound: tuple[Any, ...] = ()
        # Defaults belong to the moment of definition: a closure made in a loop keeps that round's value.
        spec = node.args
        self.defaults = [reader._try(d, scope) for d in spec.defaults]
        self.keyword_defaults = [reader._try(d, scope) if d is not None else None for d in spec.kw_defaults]
        self.name = "lambda" if isinstance(node, ast.Lambda) else node.name

    def bind(self, first: Any) -> Interpreted:
        twin = copy.copy(self)
        twin.bound = (first,)
        return twin

    def default_of(self, parameter: str) -> Any:
        """The default value of a parameter, or None."""
        names = [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args)]
        named = dict(zip(names[len(names) - len(self.defaults) :], self.defaults, strict=False))
        return named.get(parameter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.reader.call_interpreted(self, (*self.bound, *args), kwargs)

    def __deepcopy__(self, memo: object) -> Interpreted:
        return self

    def __repr__(self) -> str:
        return f"<function {self.name}>"


class Scope:
    """Names of one function call, its enclosing calls, and at last the module."""

    def __init__(self, module: Module, parent: Scope | None = None, owner: Any = None) -> None:
        self.module = module
        self.parent = parent
        self.names: dict[str, Any] = {}
        self.owner: Any = owner if owner is not None or parent is None else parent.owner
        self.first: Any = None  # the first argument of a method: what super() is bound to
        self.yields: list[Any] | None = None


class Module:
    """One file of the release, parsed on first use; names map to the statements that bind them."""

    def __init__(self, name: str, path: str, text: str) -> None:
        self.name = name
        self.path = path
        self.tree = ast.parse(text)
        self.bindings: dict[str, list[ast.stmt]] = {}
        self.star_imports: list[ast.ImportFrom] = []
        self.values: dict[str, Any] = {}
        self.in_progress: set[str] = set()
        self._index(self.tree.body)

    def _index(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                self._index(_runtime_branch(statement))
            elif isinstance(statement, (ast.Try, ast.With)):
                self._index(statement.body)
            elif isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names):
                self.star_imports.append(statement)
            else:
                for name in _bound_names(statement):
                    self.bindings.setdefault(name, []).append(statement)


def _runtime_branch(statement: ast.If) -> list[ast.stmt]:
    """The branch of a module-level ``if`` that runs: TYPE_CHECKING is false, anything else is taken."""
    test = ast.unparse(statement.test)
    return statement.orelse if "TYPE_CHECKING" in test and "not" not in test else statement.body


def _bound_names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Import):
        return [a.asname or a.name.split(".")[0] for a in statement.names]
    if isinstance(statement, ast.ImportFrom):
        return [a.asname or a.name for a in statement.names]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        targets = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        # NAME.append(...), NAME.update(...): a later statement that changes the value.
        function = statement.value.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            targets = [function.value]
    names = []
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                names.append(node.id)
    return names


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _LoopControl(Exception):
    def __init__(self, stop: bool) -> None:
        self.stop = stop


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift, ast.Pow: lambda a, b: a**b if abs(b) < 100 else Opaque("large power"),
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip

_BUILTINS = {
    name: getattr(builtins, name)
    for name in ["int", "float", "str", "bool", "list", "dict", "tuple", "set", "frozenset", "bytes", "object", "type", "len", "sorted", "min", "max", "sum", "any", "all", "next", "enumerate", "zip", "range", "map", "filter", "reversed", "repr", "abs", "round", "property", "staticmethod", "classmethod", "ValueError", "TypeError", "KeyError", "Exception", "StopIteration", "NotImplementedError", "RuntimeError", "AssertionError", "ImportError", "ModuleNotFoundError", "AttributeError", "OSError", "True", "False", "None", "Ellipsis"]
    if hasattr(builtins, name)
}

_STDLIB: dict[str, Any] = {
    "json.loads": json.loads,
    "json.dumps": json.dumps,
    "json.JSONDecodeError": json.JSONDecodeError,
    "json.decoder.JSONDecodeError": json.JSONDecodeError,
    "argparse.BooleanOptionalAction": argparse.BooleanOptionalAction,
    "argparse.SUPPRESS": argparse.SUPPRESS,
    "argparse.Action": argparse.Action,
    "argparse.ArgumentParser": argparse.ArgumentParser,
    "argparse.ArgumentTypeError": argparse.ArgumentTypeError,
    "argparse.Namespace": argparse.Namespace,
    "dataclasses.MISSING": dataclasses.MISSING,
    "enum.Enum": enum.Enum,
    "enum.IntEnum": enum.IntEnum,
    "ssl.CERT_NONE": ssl.CERT_NONE,
    # The start of the module, as of the older images: 0.9.0 declares --model for it and not for vllm serve.
    "sys.argv": ["api_server.py"],
    "sys.modules": {},
    "sys.maxsize": 2**63 - 1,
    "sys.version_info": (3, 12, 0),
    "types.UnionType": types.UnionType,
    "types.NoneType": type(None),
    "collections.abc.Callable": collections.abc.Callable,
    "collections.abc.Sequence": collections.abc.Sequence,
    "collections.abc.Mapping": collections.abc.Mapping,
    "collections.abc.Iterable": collections.abc.Iterable,
    "functools.partial": functools.partial,
    "copy.deepcopy": lambda value: _copy(value),
    "copy.copy": lambda value: _copy(value),
    "pydantic.Field": lambda default=dataclasses.MISSING, **kw: FieldInfo(default, **kw),
    "pydantic.fields.Field": lambda default=dataclasses.MISSING, **kw: FieldInfo(default, **kw),
    "pydantic.fields.FieldInfo": FieldInfo,
    "os.getenv": lambda name, default=None: default,
    "os.environ": {},
    "os.path.expanduser": lambda path: path,
    "os.path.join": lambda *parts: "/".join(parts),
    "re.match": re.match,
    "re.fullmatch": re.fullmatch,
    "re.compile": re.compile,
    "itertools.permutations": lambda items, r: list(itertools.permutations(list(items), r)),
    "itertools.chain": lambda *parts: [x for part in parts for x in part],
    "warnings.warn": lambda *a, **k: None,
}
for _name in ["Literal", "Union", "Optional", "Any", "Callable", "Type", "List", "Dict", "Tuple", "Set", "FrozenSet", "Sequence", "Mapping", "Iterable", "ClassVar", "Annotated", "TypeVar", "Generic", "Protocol", "NamedTuple", "get_args", "get_origin", "cast", "TYPE_CHECKING", "Final"]:
    _STDLIB[f"typing.{_name}"] = getattr(typing, _name)
    _STDLIB[f"typing_extensions.{_name}"] = getattr(typing, _name)
for _name in ("Self", "TypeAlias", "TypeIs", "NotRequired", "Required", "TypedDict"):
    _STDLIB[f"typing.{_name}"] = Opaque(_name)
    _STDLIB[f"typing_extensions.{_name}"] = Opaque(_name)
_STDLIB["typing.is_typeddict"] = lambda cls: bool(getattr(cls, "_is_typeddict", False))
_STDLIB["typing_extensions.is_typeddict"] = _STDLIB["typing.is_typeddict"]
_STDLIB["regex.match"] = re.match
_STDLIB["regex.compile"] = re.compile

_SAFE_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(
        ["join", "format", "replace", "strip", "lstrip", "rstrip", "lower", "upper", "split", "rsplit", "splitlines", "startswith", "endswith", "removeprefix", "removesuffix", "isdigit", "partition", "rpartition", "title", "capitalize", "count", "find"]
    ),
    list: frozenset(["append", "extend", "insert", "remove", "pop", "index", "count", "copy", "sort", "reverse"]),
    dict: frozenset(["get", "items", "keys", "values", "update", "pop", "setdefault", "copy"]),
    set: frozenset(["add", "update", "discard", "remove", "union", "intersection", "difference", "copy"]),
    tuple: frozenset(("index", "count")),
    frozenset: frozenset(("union", "intersection", "difference")),
}  # fmt: skip


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copy(v) for v in value]
    if isinstance(value, set):
        return set(value)
    return value


class _Super:
    def __init__(self, owner: Any, first: Any) -> None:
        self.owner = owner
        self.first = first


class Reader:
    """Reads values out of the Python files of one release (``path in the archive -> text``)."""

    def __init__(self, files: Mapping[str, str], overrides: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.files = files
        self.overrides = dict(overrides or {})  # function name -> what is called in its place
        self.modules: dict[str, Module | None] = {}
        self.class_nodes: dict[type, tuple[Module, ast.ClassDef, Scope]] = {}
        self.attribute_overrides: dict[tuple[str, str], Callable[[], Any]] = {}  # (class name, attribute)
        self.merged_literals: set[frozenset[Any]] = set()
        self._attributes: dict[tuple[type, str], Any] = {}
        self.notes: list[str] = []
        self.steps = 0
        self.depth = 0

    # --- modules and names -------------------------------------------------------------------------

    def module(self, name: str) -> Module | None:
        """The module of that dotted name, or None when it is no file of the release."""
        if name not in self.modules:
            base = name.replace(".", "/")
            found = next((p for p in (base + ".py", base + "/__init__.py") if p in self.files), None)
            try:
                self.modules[name] = Module(name, found, self.files[found]) if found else None
            except (SyntaxError, ValueError) as error:
                self.notes.append(f"{found}: not parsed: {error}")
                self.modules[name] = None
        return self.modules[name]

    def lookup(self, module: Module, name: str) -> Any:
        """The value of a module-level name."""
        if name in module.values:
            return module.values[name]
        if name in module.bindings:
            if name in module.in_progress:
                return Opaque(f"{module.name}.{name} (circular)")
            module.in_progress.add(name)
            try:
                self._bind_module_name(module, name)
            finally:
                module.in_progress.discard(name)
            return module.values.get(name, Opaque(f"{module.name}.{name}"))
        for statement in module.star_imports:
            source = self.module(self._absolute(module, statement))
            if source is not None and (name in source.bindings or source.star_imports):
                value = self.lookup(source, name)
                if not (isinstance(value, Opaque) and value.text.endswith("(unknown name)")):
                    return value
        submodule = self.module(f"{module.name}.{name}")
        if submodule is not None:
            return submodule
        return Opaque(f"{module.name}.{name} (unknown name)")

    def _bind_module_name(self, module: Module, name: str) -> None:
        scope = Scope(module)
        scope.names = module.values
        for statement in module.bindings[name]:
            if isinstance(statement, (ast.AugAssign, ast.Expr)) and name not in module.values:
                continue
            try:
                self.execute(statement, scope)
            except (NotReadable, Undecided):
                if name not in module.values:
                    module.values[name] = Opaque(f"{module.name}.{name}")

    @staticmethod
    def _absolute(module: Module, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = module.name.split(".")
        if not module.path.endswith("__init__.py"):
            parts = parts[:-1]
        parts = parts[: len(parts) - (statement.level - 1)]
        return ".".join([*parts, statement.module] if statement.module else parts)

    def _import_from(self, module: Module, statement: ast.ImportFrom, scope: Scope) -> None:
        source_name = self._absolute(module, statement)
        source = self.module(source_name)
        for alias in statement.names:
            bound = alias.asname or alias.name
            if source is not None:
                scope.names[bound] = self.lookup(source, alias.name)
            else:
                scope.names[bound] = self._external(f"{source_name}.{alias.name}")

    def _external(self, dotted: str) -> Any:
        if dotted in _STDLIB:
            return _STDLIB[dotted]
        if dotted in ("dataclasses.fields", "dataclasses.is_dataclass", "typing.get_type_hints"):
            return {
                "dataclasses.fields": self.fields,
                "dataclasses.is_dataclass": self.is_dataclass,
                "typing.get_type_hints": lambda cls: {f.name: f.type for f in self.fields(cls)},
            }[dotted]
        if dotted == "dataclasses.field":
            return _field
        if dotted in ("functools.lru_cache", "functools.cache", "functools.wraps"):
            return Opaque(dotted)
        module = self.module(dotted)
        return module if module is not None else Opaque(dotted)

    def name(self, identifier: str, scope: Scope) -> Any:
        at: Scope | None = scope
        while at is not None:
            if identifier in at.names:
                return at.names[identifier]
            at = at.parent
        module = scope.module
        if identifier in module.bindings or module.star_imports:
            value = self.lookup(module, identifier)
            if not (isinstance(value, Opaque) and value.text.endswith("(unknown name)")):
                return value
        if identifier in ("isinstance", "issubclass", "getattr", "hasattr", "super", "print", "vars"):
            return Opaque(identifier)
        if identifier == "TYPE_CHECKING":
            return False
        if identifier in _BUILTINS:
            return _BUILTINS[identifier]
        return Opaque(f"{module.name}.{identifier} (unknown name)")

    # --- classes -------------------------------------------------------------------------------------

    def make_class(self, node: ast.ClassDef, scope: Scope) -> Any:
        bases: list[Any] = []
        is_typeddict = False
        for base in node.bases:
            value = self._try(base, scope)
            value = typing.get_origin(value) or value  # class X(dict[str, int])
            if isinstance(value, Opaque) and "TypedDict" in value.text:
                is_typeddict = True
            if isinstance(value, type) and value not in bases:
                bases.append(value)
        enums = [b for b in bases if issubclass(b, enum.Enum)]
        if enums:
            made = self._make_enum(node, scope, bases)
            if made is not None:
                return made
        stand_in_bases = tuple(b for b in bases if b in self.class_nodes or b in (dict, list, str, int, argparse.Action))
        namespace = {"__module__": scope.module.name, "_is_typeddict": is_typeddict}
        try:
            cls = type(node.name, stand_in_bases, namespace)
        except TypeError:
            cls = type(node.name, (), namespace)
        class_scope = Scope(scope.module, scope, owner=cls)
        self.class_nodes[cls] = (scope.module, node, class_scope)
        return cls

    def _make_enum(self, node: ast.ClassDef, scope: Scope, bases: list[Any]) -> Any:
        members: list[tuple[str, Any]] = []
        inner = Scope(scope.module, scope)
        for index, statement in enumerate(node.body):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                value = self._try(statement.value, inner)
                if isinstance(value, Opaque):  # enum.auto() and the like: only the names matter then
                    value = f"{node.name}.{index}" if str in bases else index
                members.append((statement.targets[0].id, value))
                inner.names[statement.targets[0].id] = value
        kinds = tuple(b for b in bases if b in (str, int))
        try:
            make: Any = enum.Enum  # the functional form: the type checker wants literals there
            made = make(node.name, members, type=kinds[0] if kinds else None, module=scope.module.name)
        except (TypeError, ValueError):
            return None
        self.class_nodes[made] = (scope.module, node, Scope(scope.module, scope, owner=made))
        return made

    def is_dataclass(self, cls: Any) -> bool:
        if not isinstance(cls, type) or cls not in self.class_nodes or issubclass(cls, enum.Enum):
            return False
        node = self.class_nodes[cls][1]
        for decorator in node.decorator_list:
            text = ast.unparse(decorator)
            if re.match(r"(dataclasses\.)?dataclass\b|config\b|pydantic_dataclass\b", text):
                return True
        return any(self.is_dataclass(base) for base in cls.__bases__)

    def fields(self, cls: Any) -> list[FieldStub]:
        """Fields of a dataclass, bases first, as ``dataclasses.fields`` orders them."""
        found: dict[str, FieldStub] = {}
        for part in reversed(cls.__mro__):
            if part not in self.class_nodes:
                continue
            _, node, scope = self.class_nodes[part]
            for statement in _class_statements(node):
                if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
                    continue
                annotation_text = ast.unparse(statement.annotation)
                if "ClassVar" in annotation_text or "InitVar" in annotation_text:
                    continue
                name = statement.target.id
                field = FieldStub(name, self.annotation(statement.annotation, scope))
                field.annotation_text = annotation_text
                if statement.value is not None:
                    value = self._try(statement.value, scope)
                    if isinstance(value, FieldStub):
                        field.default, field.default_factory = value.default, value.default_factory
                        field.init = value.init
                    else:
                        field.default = value
                found[name] = field
        return list(found.values())

    def class_attribute(self, cls: type, name: str) -> Any:
        if (cls.__name__, name) in self.attribute_overrides:
            return self.attribute_overrides[(cls.__name__, name)]()
        for part in cls.__mro__:
            if part not in self.class_nodes:
                continue
            _module, node, scope = self.class_nodes[part]
            key = f"{node.name}.{name}"
            if (part, name) in self._attributes:
                return self._attributes[(part, name)]
            found = False
            value: Any = None
            for statement in _class_statements(node):
                if name not in _bound_names(statement):
                    continue
                if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    value, found = self._method(statement, scope, cls), True
                elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
                    value, found = self._try(statement.value, scope), True
                elif isinstance(statement, ast.ClassDef):
                    value, found = self.make_class(statement, scope), True
            if found:
                if isinstance(value, FieldStub):
                    value = value.default
                    if value is dataclasses.MISSING:
                        value = Opaque(key)
                if isinstance(value, FieldInfo) and value.default is not dataclasses.MISSING:
                    value = value.default
                if not isinstance(value, Interpreted):
                    self._attributes[(part, name)] = value
                return value
        raise NotReadable(f"{cls.__name__}.{name}")

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope, cls: type) -> Interpreted:
        function = Interpreted(self, node, scope, owner=scope.owner)
        decorators = {ast.unparse(d) for d in node.decorator_list}
        return function.bind(cls) if "classmethod" in decorators else function

    # --- annotations ---------------------------------------------------------------------------------

    def annotation(self, node: ast.expr, scope: Scope) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            quoted = node.value
            try:
                node = ast.parse(quoted, mode="eval").body
            except SyntaxError:
                return External
        value = self._try(node, scope)
        if value is None:
            return type(None)
        return External if isinstance(value, (Opaque, Module)) else value

    def _type_subscript(self, base: Any, item: Any) -> Any:
        if isinstance(base, Opaque):
            return base
        parts = item if isinstance(item, tuple) else (item,)
        if base is typing.Literal:
            flat: list[Any] = []
            for part in parts:  # Literal[SomeLiteralAlias, "x"] is flattened by typing, lists are not
                flat.extend(part) if isinstance(part, list) else flat.append(part)
            return typing.Literal[tuple(flat)]
        usable = tuple(External if isinstance(p, (Opaque, Module)) else p for p in parts)
        try:
            return base[usable if len(usable) > 1 else usable[0]]
        except TypeError:
            return base

    @staticmethod
    def _union(left: Any, right: Any) -> Any:
        left = External if isinstance(left, Opaque) else left
        right = External if isinstance(right, Opaque) else right
        return typing.Union[left, right]  # noqa: UP007 - the values are only known here

    # --- expressions -----------------------------------------------------------------------------------

    def _try(self, node: ast.expr, scope: Scope) -> Any:
        try:
            return self.evaluate(node, scope)
        except (NotReadable, Undecided) as error:
            return Opaque(str(error) or ast.unparse(node)[:60])

    def evaluate(self, node: ast.expr, scope: Scope) -> Any:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise NotReadable("too many steps")
        method = getattr(self, f"_eval_{type(node).__name__}", None)
        if method is None:
            raise NotReadable(f"{type(node).__name__} expression")
        return method(node, scope)

    def _eval_Constant(self, node: ast.Constant, scope: Scope) -> Any:
        return node.value

    def _eval_Name(self, node: ast.Name, scope: Scope) -> Any:
        return self.name(node.id, scope)

    def _elements(self, nodes: list[ast.expr], scope: Scope) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                out.extend(self.evaluate(node.value, scope))
            else:
                out.append(self.evaluate(node, scope))
        return out

    def _eval_Tuple(self, node: ast.Tuple, scope: Scope) -> Any:
        return tuple(self._elements(node.elts, scope))

    def _eval_List(self, node: ast.List, scope: Scope) -> Any:
        return self._elements(node.elts, scope)

    def _eval_Set(self, node: ast.Set, scope: Scope) -> Any:
        return set(self._elements(node.elts, scope))

    def _eval_Dict(self, node: ast.Dict, scope: Scope) -> Any:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=False):
            if key is None:
                out.update(self.evaluate(value, scope))
            else:
                out[self.evaluate(key, scope)] = self._try(value, scope)
        return out

    def _eval_JoinedStr(self, node: ast.JoinedStr, scope: Scope) -> Any:
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                value = self.evaluate(part.value, scope)
                if isinstance(value, Opaque):
                    return value
                parts.append(str(value))
        return "".join(parts)

    def _eval_BinOp(self, node: ast.BinOp, scope: Scope) -> Any:
        left = self.evaluate(node.left, scope)
        try:
            right = self.evaluate(node.right, scope)
        except Undecided:
            if isinstance(left, list) and isinstance(node.op, ast.Add):
                return PartialList(left)
            raise
        if isinstance(node.op, ast.BitOr) and not isinstance(left, (dict, set, int)):
            return self._union(left, right)
        if isinstance(left, Opaque) or isinstance(right, Opaque):
            return left if isinstance(left, Opaque) else right
        operation = _BINARY.get(type(node.op))
        if operation is None:
            raise NotReadable("operator")
        try:
            return operation(left, right)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            raise NotReadable(str(error)) from error

    def _eval_BoolOp(self, node: ast.BoolOp, scope: Scope) -> Any:
        stop_on = isinstance(node.op, ast.Or)
        value: Any = None
        undecided: Undecided | None = None
        for part in node.values:
            value = self.evaluate(part, scope)
            try:
                if bool(value) is stop_on:
                    return value
            except Undecided as error:
                undecided = error
        if undecided is not None:
            raise undecided
        return value

    def _eval_UnaryOp(self, node: ast.UnaryOp, scope: Scope) -> Any:
        value = self.evaluate(node.operand, scope)
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        if isinstance(value, Opaque):
            return value
        raise NotReadable("unary operator")

    def _eval_Compare(self, node: ast.Compare, scope: Scope) -> Any:
        left = self.evaluate(node.left, scope)
        for operation, right_node in zip(node.ops, node.comparators, strict=False):
            right = self.evaluate(right_node, scope)
            if (isinstance(left, Opaque) or isinstance(right, Opaque)) and not isinstance(operation, (ast.Is, ast.IsNot)):
                return Opaque(ast.unparse(node))
            if isinstance(left, Opaque) and right is None:
                return Opaque(ast.unparse(node))
            try:
                if not _COMPARE[type(operation)](left, right):
                    return False
            except TypeError as error:
                raise NotReadable(str(error)) from error
            left = right
        return True

    def _eval_IfExp(self, node: ast.IfExp, scope: Scope) -> Any:
        return self.evaluate(node.body if self.evaluate(node.test, scope) else node.orelse, scope)

    def _eval_NamedExpr(self, node: ast.NamedExpr, scope: Scope) -> Any:
        value = self.evaluate(node.value, scope)
        scope.names[node.target.id] = value
        return value

    def _eval_Lambda(self, node: ast.Lambda, scope: Scope) -> Any:
        return Interpreted(self, node, scope)

    def _eval_Subscript(self, node: ast.Subscript, scope: Scope) -> Any:
        base = self.evaluate(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            if isinstance(base, (list, tuple, str)):
                lower = self.evaluate(node.slice.lower, scope) if node.slice.lower else None
                upper = self.evaluate(node.slice.upper, scope) if node.slice.upper else None
                return base[lower:upper]
            return Opaque(ast.unparse(node))
        if isinstance(base, (dict, list, tuple, str)):
            item = self.evaluate(node.slice, scope)
            try:
                return base[item]
            except (KeyError, IndexError, TypeError) as error:
                raise NotReadable(f"{ast.unparse(node)}: {error!r}") from error
        if isinstance(base, type) and issubclass(base, enum.Enum):
            return base[self.evaluate(node.slice, scope)]
        if isinstance(base, Opaque) and base.text.endswith(".SkipValidation"):
            return self.annotation(node.slice, scope)
        if base is typing.Annotated:
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self.annotation(elements[0], scope)
        if base is typing.Literal:
            return self._type_subscript(base, self.evaluate(node.slice, scope))
        item = (
            tuple(self.annotation(e, scope) for e in node.slice.elts)
            if isinstance(node.slice, ast.Tuple)
            else self.annotation(node.slice, scope)
        )
        return self._type_subscript(base, item)

    def _eval_Attribute(self, node: ast.Attribute, scope: Scope) -> Any:
        return self.attribute(self.evaluate(node.value, scope), node.attr)

    def attribute(self, base: Any, name: str) -> Any:
        if isinstance(base, Opaque):
            return self._external(f"{base.text}.{name}")
        if isinstance(base, Module):
            value = self.lookup(base, name)
            if isinstance(value, Opaque) and value.text.endswith("(unknown name)"):
                lazily = self._module_getattr(base, name)
                return value if lazily is None else lazily
            return value
        if isinstance(base, _Super):
            mro = base.first.__mro__ if isinstance(base.first, type) else base.owner.__mro__
            for part in mro[mro.index(base.owner) + 1 :] if base.owner in mro else ():
                if part in self.class_nodes:
                    value = self.class_attribute(part, name)
                    if isinstance(value, Interpreted):
                        return value.bind(base.first)
                    return value
            raise NotReadable(f"super().{name}")
        if name == "__name__" and isinstance(base, type):
            return base.__name__
        if name in ("__module__", "__members__", "__doc__") and isinstance(base, type):
            return getattr(base, name)
        if isinstance(base, type) and issubclass(base, enum.Enum) and name in base.__members__:
            return base[name]
        if isinstance(base, enum.Enum) and name in ("value", "name"):
            return getattr(base, name)
        if isinstance(base, type) and base in self.class_nodes:
            return self.class_attribute(base, name)
        if isinstance(base, (FieldStub, FieldInfo)):
            return getattr(base, name, None)
        for kind, allowed in _SAFE_METHODS.items():
            if isinstance(base, kind) and name in allowed:
                return getattr(base, name)
        if isinstance(base, Recorder):
            return getattr(base, name, Opaque(f"parser.{name}"))
        if name == "__module__":
            return getattr(base, name, "")
        if base is dict and name == "fromkeys":
            return dict.fromkeys
        return Opaque(f"{getattr(base, '__name__', type(base).__name__)}.{name}")

    def _module_getattr(self, module: Module, name: str) -> Any:
        """A name that the module's ``__getattr__`` computes from ``environment_variables`` (envs.py)."""
        if "__getattr__" not in module.bindings or "environment_variables" not in module.bindings:
            return None
        table = self.lookup(module, "environment_variables")
        if isinstance(table, dict) and callable(table.get(name)):
            try:
                return table[name]()
            except (NotReadable, Undecided):
                return None
        return None

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope) -> list[Any]:
        inner = Scope(scope.module, scope)
        inner.first = scope.first
        out: list[Any] = []

        def run(generators: list[ast.comprehension]) -> None:
            if not generators:
                if isinstance(node, ast.DictComp):
                    out.append((self.evaluate(node.key, inner), self.evaluate(node.value, inner)))
                else:
                    out.append(self.evaluate(node.elt, inner))
                return
            head, *rest = generators
            for item in self.iterate(self.evaluate(head.iter, inner)):
                self.assign(head.target, item, inner)
                if all(self.evaluate(test, inner) for test in head.ifs):
                    run(rest)

        run(node.generators)
        return out

    def _eval_ListComp(self, node: ast.ListComp, scope: Scope) -> Any:
        return self._comprehension(node, scope)

    def _eval_SetComp(self, node: ast.SetComp, scope: Scope) -> Any:
        return set(self._comprehension(node, scope))

    def _eval_GeneratorExp(self, node: ast.GeneratorExp, scope: Scope) -> Any:
        return iter(self._comprehension(node, scope))

    def _eval_DictComp(self, node: ast.DictComp, scope: Scope) -> Any:
        return dict(self._comprehension(node, scope))

    def iterate(self, value: Any) -> Iterator[Any]:
        if isinstance(value, Opaque):
            raise Undecided(value.text)
        if isinstance(value, type) and issubclass(value, enum.Enum):
            return iter(list(value))
        if isinstance(value, (list, tuple, set, frozenset, dict, str)) or hasattr(value, "__next__") or hasattr(value, "__iter__"):
            return iter(value)
        raise NotReadable("not iterable")

    # --- calls -----------------------------------------------------------------------------------------

    def _eval_Call(self, node: ast.Call, scope: Scope) -> Any:
        if isinstance(node.func, ast.Name):
            special = getattr(self, f"_call_{node.func.id}", None)
            if special is not None and not isinstance(self.name(node.func.id, scope), Interpreted):
                return special(node, scope)
        function = self.evaluate(node.func, scope)
        recording = isinstance(function, types.MethodType) and isinstance(function.__self__, Recorder)
        args: list[Any] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                args.extend(self.iterate(self.evaluate(argument.value, scope)))
            else:
                args.append(self._try(argument, scope))
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                unpacked = self.evaluate(keyword.value, scope)
                if not isinstance(unpacked, dict):
                    raise NotReadable(f"**{ast.unparse(keyword.value)}")
                kwargs.update(unpacked)
            elif recording and keyword.arg in ("help", "description", "epilog"):
                kwargs[keyword.arg] = ast.unparse(keyword.value)  # only ever read for "deprecated"
            else:
                kwargs[keyword.arg] = self._try(keyword.value, scope)
        return self.call(function, args, kwargs, ast.unparse(node.func))

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], text: str) -> Any:
        name = text.rsplit(".", 1)[-1]
        if name in self.overrides and not isinstance(getattr(function, "__self__", None), Recorder):
            return self.overrides[name](*args, **kwargs)
        if isinstance(function, Opaque):
            return Opaque(f"{function.text}()")
        if isinstance(function, Interpreted):
            return function(*args, **kwargs)
        if isinstance(function, type) and function in self.class_nodes:
            if issubclass(function, enum.Enum):
                return function(*args)
            return Opaque(f"{function.__name__} object")
        if not callable(function):
            return Opaque(text)
        try:
            return function(*args, **kwargs)
        except (Undecided, NotReadable, _Return):
            raise
        except Exception as error:
            raise NotReadable(f"{text}: {error!r}"[:200]) from error

    def call_interpreted(self, function: Interpreted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.depth -= 1
            raise NotReadable("too deep")
        try:
            scope = Scope(function.scope.module, function.scope, owner=function.owner)
            self._bind_arguments(function, scope, args, kwargs)
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, scope)
            lenient = any(isinstance(a, Recorder) for a in (*args, *kwargs.values()))
            if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in ast.walk(function.node)):
                scope.yields = []
            try:
                self.run(function.node.body, scope, lenient)
            except _Return as done:
                if scope.yields is None:
                    return done.value
            return iter(scope.yields) if scope.yields is not None else None
        finally:
            self.depth -= 1

    def _bind_arguments(
        self, function: Interpreted, scope: Scope, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        spec = function.node.args
        positional = [*spec.posonlyargs, *spec.args]
        without = len(positional) - len(function.defaults)
        remaining = dict(kwargs)
        for index, parameter in enumerate(positional):
            if index < len(args):
                scope.names[parameter.arg] = args[index]
            elif parameter.arg in remaining:
                scope.names[parameter.arg] = remaining.pop(parameter.arg)
            else:
                scope.names[parameter.arg] = (
                    function.defaults[index - without] if index >= without else Opaque(parameter.arg)
                )
        if positional and args:
            scope.first = args[0]
        if spec.vararg:
            scope.names[spec.vararg.arg] = tuple(args[len(positional) :])
        for parameter, default in zip(spec.kwonlyargs, function.keyword_defaults, strict=False):
            scope.names[parameter.arg] = remaining.pop(parameter.arg, default)
        if spec.kwarg:
            scope.names[spec.kwarg.arg] = remaining

    def _call_isinstance(self, node: ast.Call, scope: Scope) -> Any:
        value, kinds = (self.evaluate(a, scope) for a in node.args)
        kinds = tuple(k for k in (kinds if isinstance(kinds, tuple) else (kinds,)) if isinstance(k, type))
        if isinstance(value, Opaque) and FieldInfo not in kinds:  # what Field() gives is never opaque
            return Opaque(ast.unparse(node))
        return isinstance(value, kinds)

    def _call_issubclass(self, node: ast.Call, scope: Scope) -> Any:
        value, kind = (self.evaluate(a, scope) for a in node.args)
        if not isinstance(value, type) or not isinstance(kind, type):
            return Opaque(ast.unparse(node))
        return issubclass(value, kind)

    def _call_getattr(self, node: ast.Call, scope: Scope) -> Any:
        base, name, *rest = (self._try(a, scope) for a in node.args)
        if not isinstance(name, str):
            return Opaque(ast.unparse(node))
        try:
            value = self.attribute(base, name)
        except NotReadable:
            if rest:
                return rest[0]
            raise
        return value

    def _call_hasattr(self, node: ast.Call, scope: Scope) -> Any:
        base, name = (self.evaluate(a, scope) for a in node.args)
        if isinstance(base, type) and base in self.class_nodes and isinstance(name, str):
            try:
                self.class_attribute(base, name)
                return True
            except NotReadable:
                return False
        return Opaque(ast.unparse(node))

    def _call_super(self, node: ast.Call, scope: Scope) -> Any:
        at: Scope | None = scope
        while at is not None and at.first is None:
            at = at.parent
        return _Super(scope.owner, at.first if at else None)

    def _call_print(self, node: ast.Call, scope: Scope) -> Any:
        return None

    def _call_vars(self, node: ast.Call, scope: Scope) -> Any:
        return Opaque("vars()")

    # --- statements ------------------------------------------------------------------------------------

    def run(self, body: list[ast.stmt], scope: Scope, lenient: bool = False) -> None:
        """Run statements; ``lenient``: what cannot be read is noted and left out (option declarations)."""
        for statement in body:
            try:
                self.execute(statement, scope, lenient)
            except (NotReadable, Undecided) as error:
                if not lenient:
                    raise
                where = f"{scope.module.path}:{statement.lineno}"
                self.notes.append(f"{where}: {ast.unparse(statement)[:90]!r} left out: {error}")

    def execute(self, statement: ast.stmt, scope: Scope, lenient: bool = False) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise NotReadable("too many steps")
        method = getattr(self, f"_exec_{type(statement).__name__}", None)
        if method is None:
            raise NotReadable(f"{type(statement).__name__} statement")
        if isinstance(statement, (ast.If, ast.For, ast.With, ast.Try)):
            method(statement, scope, lenient)
        else:
            method(statement, scope)

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = list(self.iterate(value))
            if any(isinstance(e, ast.Starred) for e in target.elts):
                at = next(i for i, e in enumerate(target.elts) if isinstance(e, ast.Starred))
                tail = len(target.elts) - at - 1
                middle = items[at : len(items) - tail]
                items = [*items[:at], middle, *items[len(items) - tail :]]
            for element, item in zip(target.elts, items, strict=False):
                self.assign(element.value if isinstance(element, ast.Starred) else element, item, scope)
        elif isinstance(target, ast.Subscript):
            base = self.evaluate(target.value, scope)
            if isinstance(base, (dict, list)):
                base[self.evaluate(target.slice, scope)] = value
        elif isinstance(target, ast.Attribute):
            pass  # attributes of unknown objects
        else:
            raise NotReadable("assignment target")

    def _exec_Assign(self, statement: ast.Assign, scope: Scope) -> None:
        value = self._try(statement.value, scope)
        for target in statement.targets:
            self.assign(target, value, scope)

    def _exec_AnnAssign(self, statement: ast.AnnAssign, scope: Scope) -> None:
        if statement.value is not None:
            self.assign(statement.target, self._try(statement.value, scope), scope)

    def _exec_AugAssign(self, statement: ast.AugAssign, scope: Scope) -> None:
        load = ast.copy_location(ast.BinOp(_as_load(statement.target), statement.op, statement.value), statement)
        self.assign(statement.target, self._try(load, scope), scope)

    def _exec_Expr(self, statement: ast.Expr, scope: Scope) -> None:
        if isinstance(statement.value, ast.Constant):
            return
        if isinstance(statement.value, ast.Yield):
            at: Scope | None = scope
            while at is not None and at.yields is None:
                at = at.parent
            if at is not None and at.yields is not None and statement.value.value is not None:
                at.yields.append(self.evaluate(statement.value.value, scope))
            return
        self.evaluate(statement.value, scope)

    def _exec_Return(self, statement: ast.Return, scope: Scope) -> None:
        raise _Return(self.evaluate(statement.value, scope) if statement.value else None)

    def _exec_If(self, statement: ast.If, scope: Scope, lenient: bool) -> None:
        self.run(statement.body if self.evaluate(statement.test, scope) else statement.orelse, scope, lenient)

    def _exec_For(self, statement: ast.For, scope: Scope, lenient: bool) -> None:
        for item in self.iterate(self.evaluate(statement.iter, scope)):
            self.assign(statement.target, item, scope)
            try:
                self.run(statement.body, scope, lenient)
            except _LoopControl as control:
                if control.stop:
                    break

    def _exec_With(self, statement: ast.With, scope: Scope, lenient: bool) -> None:
        self.run(statement.body, scope, lenient)

    def _exec_Try(self, statement: ast.Try, scope: Scope, lenient: bool) -> None:
        try:
            self.run(statement.body, scope, lenient)
        except NotReadable:
            if not statement.handlers:
                raise
            self.run(statement.handlers[0].body, scope, lenient)
        self.run(statement.finalbody, scope, lenient)

    def _exec_Delete(self, statement: ast.Delete, scope: Scope) -> None:
        for target in statement.targets:
            if isinstance(target, ast.Subscript):
                base = self.evaluate(target.value, scope)
                if isinstance(base, dict):
                    base.pop(self.evaluate(target.slice, scope), None)

    def _exec_FunctionDef(self, statement: ast.FunctionDef, scope: Scope) -> None:
        scope.names[statement.name] = Interpreted(self, statement, scope, scope.owner)

    _exec_AsyncFunctionDef = _exec_FunctionDef

    def _exec_ClassDef(self, statement: ast.ClassDef, scope: Scope) -> None:
        scope.names[statement.name] = self.make_class(statement, scope)

    def _exec_Import(self, statement: ast.Import, scope: Scope) -> None:
        for alias in statement.names:
            if alias.asname:
                scope.names[alias.asname] = self._external(alias.name)
            else:
                scope.names[alias.name.split(".")[0]] = self._external(alias.name.split(".")[0])

    def _exec_ImportFrom(self, statement: ast.ImportFrom, scope: Scope) -> None:
        self._import_from(scope.module, statement, scope)

    def _exec_Pass(self, statement: ast.Pass, scope: Scope) -> None:
        return

    def _exec_Assert(self, statement: ast.Assert, scope: Scope) -> None:
        return

    def _exec_Global(self, statement: ast.Global, scope: Scope) -> None:
        return

    _exec_Nonlocal = _exec_Global

    def _exec_Raise(self, statement: ast.Raise, scope: Scope) -> None:
        raise NotReadable(f"raises {ast.unparse(statement)[:80]}")

    def _exec_Continue(self, statement: ast.Continue, scope: Scope) -> None:
        raise _LoopControl(stop=False)

    def _exec_Break(self, statement: ast.Break, scope: Scope) -> None:
        raise _LoopControl(stop=True)


def _as_load(target: ast.expr) -> ast.expr:
    loaded = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(loaded, target)


def _class_statements(node: ast.ClassDef) -> Iterator[ast.stmt]:
    for statement in node.body:
        if isinstance(statement, ast.If):
            yield from _runtime_branch(statement)
        else:
            yield statement


def _field(**kwargs: Any) -> FieldStub:
    return FieldStub(
        "", None, kwargs.get("default", dataclasses.MISSING), kwargs.get("default_factory", dataclasses.MISSING),
        bool(kwargs.get("init", True)),
    )  # fmt: skip


@dataclasses.dataclass
class Declared:
    """One ``add_argument`` call, as it was written."""

    flags: tuple[str, ...]
    kwargs: dict[str, Any]


class Recorder:
    """Stands in for the argument parser and writes down what is declared."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.declared: list[Declared] = []
        self.children: dict[str, Recorder] = {}

    def add_argument(self, *flags: Any, **kwargs: Any) -> Any:
        names = tuple(f for f in flags if isinstance(f, str))
        if len(names) != len(flags):
            raise NotReadable("an option's name is computed")
        self.declared.append(Declared(names, kwargs))
        return Opaque("action")

    def add_argument_group(self, *args: Any, **kwargs: Any) -> Recorder:
        return self

    def add_mutually_exclusive_group(self, *args: Any, **kwargs: Any) -> Recorder:
        return self

    def add_subparsers(self, *args: Any, **kwargs: Any) -> Recorder:
        return self

    def add_parser(self, name: str, *args: Any, **kwargs: Any) -> Recorder:
        return self.children.setdefault(name, Recorder(name))

    def set_defaults(self, **kwargs: Any) -> None:
        return None
