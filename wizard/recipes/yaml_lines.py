"""YAML read together with the line of every key and item, so that a fault can be named by file and line.

ruamel.yaml composes the node tree; the plain data are made here, because its round-trip loader, which also
keeps lines, takes several times as long over a checkout of the public recipes.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import Any

from wizard.i18n import _

Path = tuple[object, ...]  # keys and indexes from the top: ("variants", "fp8", "extra_args", 1)

_MAX_BYTES = 2_000_000  # a recipe has some 10 kB; more is not a recipe
_MAX_NODES = 200_000
_MAX_DEPTH = 60


class YamlFault(Exception):
    """The text is not YAML that a recipe may be written in. ``line`` counts from 1; None when not known."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass
class YamlDocument:
    """``data`` as plain dicts, lists and scalars (dates as ISO text), and where each part stands."""

    data: Any
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[tuple[Path, int]] = field(default_factory=list)  # keys given twice, with the later line

    def line_of(self, path: Path) -> int | None:
        """Line of the part at ``path``, or of the nearest enclosing part that has one."""
        for length in range(len(path), -1, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return None


def parse(text: str) -> YamlDocument:
    """The document in ``text``. Raises :class:`YamlFault` for anything that is not one YAML document."""
    if len(text) > _MAX_BYTES:
        raise YamlFault(_("{count} characters are too many for a recipe").format(count=len(text)), None)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        # The pure composer accepts documents of any depth until Python's own limit.
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlFault(error.problem or error.context or "not YAML", mark.line + 1 if mark else None) from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise YamlFault(str(error).splitlines()[0] if str(error) else "not YAML", None) from error
    document = YamlDocument(None)
    if root is not None:
        document.data = _Builder(document).build(root, (), 0)
    return document


class _Builder:
    """Turns the node tree into plain data; an anchor's data is built once per place, with a limit on all."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.count = 0

    def build(self, node: Any, path: Path, depth: int) -> Any:
        line = node.start_mark.line + 1
        self.count += 1
        # Aliases inside aliases multiply: a small text can stand for billions of nodes.
        if self.count > _MAX_NODES or depth > _MAX_DEPTH:
            raise YamlFault(_("too deeply nested, or too many aliases, for a recipe"), line)
        self.document.lines.setdefault(path, line)
        kind = node.id
        if kind == "mapping":
            return self.mapping(node, path, depth)
        if kind == "sequence":
            return [self.build(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        return scalar(str(node.tag), node.value)

    def mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.id != "scalar":
                raise YamlFault(_("a key must be plain text"), line)
            key = str(key_node.value)
            if str(key_node.tag).endswith(":merge"):
                given = self.build(value_node, (*path, "<<"), depth + 1)
                for part in given if isinstance(given, list) else [given]:
                    if isinstance(part, dict):
                        merged = {**part, **merged}
                continue
            place = (*path, key)
            if key in made:
                self.document.duplicates.append((place, line))
            self.document.lines[place] = line
            made[key] = self.build(value_node, place, depth + 1)
        return {**merged, **made}


_INT = re.compile(r"[-+]?[0-9][0-9_]*\Z")


def scalar(tag: str, value: str) -> Any:
    """A scalar node's value by its resolved tag: text, whole number, number, true/false or None."""
    kind = tag.rsplit(":", 1)[-1]
    if kind == "null":
        return None
    if kind == "bool":
        return value.lower() in ("true", "yes", "on")
    if kind == "int":
        try:
            return int(value.replace("_", ""), 10 if _INT.match(value) else 0)
        except ValueError:
            return value
    if kind == "float":
        try:
            return float(value.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            return value
    if kind == "timestamp":
        try:
            return datetime.date.fromisoformat(value).isoformat()
        except ValueError:
            return value
    return value
