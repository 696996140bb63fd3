"""Files that name a model's old place, with the new one put in: the answer to "what pointed there?" after a move.

Works on the text as it stands, so that comments, order and a user's own changes stay. A path counts where it
stands as a whole or as the beginning of a longer one; ``/mnt/d/m`` is not found in ``/mnt/d/m2``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from wizard.outputs.spec import FileSpec

LIMIT_BYTES = 1_000_000  # nothing that the wizard writes is nearly as large
_PLAIN = re.compile(r"[A-Za-z0-9_./@%+:\-]*")
_HARD = re.compile(r"[\"'`$\\\x00-\x1f\x7f]")  # means something within quotes, too
_BEFORE = r"(?<![^\s\"'=:,(\[{#])"
_REST = r"(?P<rest>(?:\\+[^\s\"'\\:,;]+)*)"  # further parts of a path as Windows writes it
_AFTER = r"[/\\\s\"':,;)\]}]|$"


@dataclass(frozen=True)
class Switched:
    """What is to be written anew, and the files that name the old place but cannot be changed word by word."""

    specs: tuple[FileSpec, ...] = ()
    by_hand: tuple[str, ...] = ()


def switch_files(files: Mapping[str, bytes], moved: Mapping[str, str]) -> Switched:
    """``files``: path -> content. ``moved``: old place -> new place, as :func:`wizard.models.move.moved_paths`."""
    specs, by_hand = [], []
    for path, before in files.items():
        try:
            text = before.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if len(before) > LIMIT_BYTES or "\0" in text:
            continue
        after, stuck = switch_text(text, moved)
        if stuck:
            by_hand.append(path)
        elif after != text:
            secret = path.endswith(".env")
            specs.append(FileSpec(path, after.encode("utf-8"), mode=0o600 if secret else 0o644, secret=secret))
    return Switched(tuple(specs), tuple(by_hand))


def switch_text(text: str, moved: Mapping[str, str]) -> tuple[str, bool]:
    """The text with every old place replaced, and whether one stands there that cannot be.

    All at once, the longest first: what was put in is not looked at again. A line that names the new place already
    is left alone: it tells of the move itself, or was switched before.
    """
    forms: dict[str, str | None] = {}
    for old, new in sorted(moved.items(), key=lambda pair: -len(pair[0])):
        for encode in _ENCODINGS:
            written = encode(old)
            if written is not None and written not in forms:
                forms[written] = _put_in(old, new, encode)
    if not forms:
        return text, False

    def finder(names: Iterable[str]) -> re.Pattern[str]:
        # The longest comes first, so that a snapshot is not taken for its entry.
        any_of = "|".join(re.escape(f) for f in sorted(names, key=len, reverse=True))
        return re.compile(f"{_BEFORE}(?P<path>{any_of})(?={_AFTER}){_REST}", re.MULTILINE)

    old_places = finder(forms)
    new_places = finder({n for n in forms.values() if n is not None} | set(moved.values()))
    stuck = False

    def put(match: re.Match[str]) -> str:
        nonlocal stuck
        new = forms[match["path"]]
        if new is None:
            stuck = True
            return match[0]
        if "\\" not in match["path"]:
            return new + match["rest"]
        return new + re.sub(r"\\+", "/", match["rest"])

    lines = text.splitlines(keepends=True)
    return "".join(x if new_places.search(x) else old_places.sub(put, x) for x in lines), stuck


def _put_in(old: str, new: str, encode: Callable[[str], str | None]) -> str | None:
    """How ``new`` is written where ``old`` stood; None when the quoting around it may not carry it.

    A path that needed no quotes may stand without any; one that needed them has them, and they carry blanks and
    the like, but nothing that means something within quotes.
    """
    if _PLAIN.fullmatch(new):
        return new
    if _PLAIN.fullmatch(old) or _HARD.search(new):
        return None
    return encode(new)


def _as_it_is(path: str) -> str | None:
    return path


def _in_single_quotes(path: str) -> str | None:
    """Within a word that shlex.quote made."""
    return path.replace("'", "'\"'\"'") if "'" in path else None


def _in_double_quotes(path: str) -> str | None:
    """Within a string of TOML, YAML or JSON."""
    return path.replace("\\", "\\\\").replace('"', '\\"') if re.search(r'[\\"]', path) else None


def _in_compose(path: str) -> str | None:
    """Within a string of a Compose file, where a dollar is written twice."""
    if "$" not in path:
        return None
    doubled = path.replace("$", "$$")
    return _in_double_quotes(doubled) or doubled


_ENCODINGS: tuple[Callable[[str], str | None], ...] = (_as_it_is, _in_single_quotes, _in_double_quotes, _in_compose)
