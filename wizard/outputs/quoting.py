"""Quoting for the formats that are written: bash words and comments, YAML strings, PowerShell strings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from wizard import columns

# Commands as they stand in the middle of a sentence, in any language, with their options.
_COMMAND = re.compile(r"(?:docker compose [a-z]+|docker [a-z]+|wsl|\./launch\.sh)(?: -{1,2}[a-z][a-z-]*)+|docker compose [a-z]+")


def bash_word(text: str) -> str:
    """``text`` as one word of bash, whatever it holds (a zero byte cannot stand in an argument)."""
    if "\0" in text:
        raise ValueError("a zero byte cannot stand in a command")
    if any(ord(c) < 32 or ord(c) == 127 for c in text):
        return "$'" + "".join(_ansi_c(c) for c in text) + "'"
    quoted = shlex.quote(text)
    # A bare comma is right for bash, but in an array it looks like a mistake to a reader (and to shellcheck).
    return f"'{quoted}'" if "," in text and quoted == text else quoted


def _ansi_c(char: str) -> str:
    if char in "\\'":
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    if ord(char) < 32 or ord(char) == 127:
        # Three octal digits: bash would take a following digit into a shorter escape.
        return f"\\{ord(char):03o}"
    return char


def bash_line(words: Iterable[str]) -> str:
    """A command line of quoted words."""
    return " ".join(bash_word(w) for w in words)


def comment(text: str) -> str:
    """``text`` fit for a one-line ``#`` comment: no line end or control character can leave it."""
    return re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]+", " ", text).strip()


def wrap_comment(text: str, prefix: str = "# ", width: int = 100) -> list[str]:
    """Comment lines of at most ``width`` characters; words are not broken, nor are short commands."""
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", columns.GLUE), comment(text))
    return columns.wrap(whole, width, prefix, prefix) or [prefix.rstrip()]


def yaml_string(text: str) -> str:
    """``text`` as a double-quoted YAML 1.2 scalar, read alike by every YAML reader."""
    out = []
    for char in text:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif char == "\n":
            out.append("\\n")
        elif char == "\t":
            out.append("\\t")
        elif code < 0x20 or 0x7F <= code <= 0x9F:
            out.append(f"\\x{code:02x}")
        elif (
            code in (0x2028, 0x2029, 0xFEFF)
            or 0xD800 <= code <= 0xDFFF
            or (code >= 0xFFFE and code <= 0xFFFF)
        ):
            out.append(f"\\u{code:04x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def compose_string(text: str) -> str:
    """The same for a Compose file, where ``$`` starts a variable and ``$$`` is a dollar."""
    return yaml_string(text.replace("$", "$$"))


def powershell_string(text: str) -> str:
    """``text`` as a single-quoted PowerShell string; PowerShell takes typographic quotes for plain ones."""
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", text) + "'"


def slug(text: str, fallback: str = "model") -> str:
    """A name of lower-case letters, digits, ``-``, ``_`` and ``.``, fit for containers and folders."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._").lower()
    return name[:60].strip("-._") or fallback
