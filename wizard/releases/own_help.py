"""What a vLLM's own ``serve --help`` prints, held against what its files say.

The files say more (types, generated spellings, parser names); the help is what that installation really takes,
plug-ins and local changes included. Where both speak, the help wins for spellings and choices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wizard.i18n import _, ngettext

FEWEST = 30  # fewer options than this are not the help of a server

# An entry of argparse: two spaces, the spellings with their value words, then (on the same line or below) the text.
_ENTRY = re.compile(r"^ {2}(?=-)(?P<head>\S.*)$")
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
_CHOICES = re.compile(r"\{(?P<names>[^{}\s][^{}]*)\}")


@dataclass(frozen=True)
class HelpOption:
    """One entry of a help text. ``choices`` is empty where none are listed; ``open_choices`` when the text says
    that others are taken as well."""

    flags: tuple[str, ...]
    takes_value: bool
    choices: tuple[str, ...] = ()
    open_choices: bool = False
    many: bool = False


def parse_help(text: str) -> tuple[HelpOption, ...]:
    """The options that an argparse help text lists, in its order. Prose that only mentions options is not taken."""
    found: list[HelpOption] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        entry = _ENTRY.match(line.expandtabs(8))
        if entry is None:
            continue
        # Two spaces part the spellings from a short description on the same line.
        head = re.split(r"\s{2,}", entry["head"])[0]
        listed = _CHOICES.search(head)
        bare = _CHOICES.sub(" VALUE ", head)
        # "--long VALUE, -l VALUE": what follows a spelling is its value, or prose that may name other options.
        pieces = [m for m in (_FLAG.match(piece) for piece in re.split(r",\s+", bare)) if m is not None]
        flags = tuple(dict.fromkeys(m.group() for m in pieces))
        if not flags:
            continue
        rest = " ".join(m.string[m.end() :] for m in pieces).strip()
        choices = tuple(c.strip() for c in listed["names"].split(",") if c.strip()) if listed else ()
        after = head[listed.end() :] if listed else ""
        found.append(HelpOption(flags, bool(rest), choices, " or " in after, "..." in rest))
    return tuple(found)


def reconcile(data: dict[str, Any], listed: tuple[HelpOption, ...]) -> list[str]:
    """Bring the options of ``data`` (a release as read from files) in line with the help's; says what it changed."""
    if len(listed) < FEWEST:
        return [_("Its own help lists too few options to be held against its files.")]
    rows: list[dict[str, Any]] = data["options"]
    by_flag = {_plain(flag): row for row in rows for flag in row["flags"]}
    added: list[str] = []
    changed: list[str] = []
    seen: set[int] = set()
    for option in listed:
        row = next((by_flag[_plain(f)] for f in option.flags if _plain(f) in by_flag), None)
        if row is None:
            if option.flags[0] not in ("-h", "--help"):
                rows.append(_row(option))
                added.append(_longest(option.flags))
            continue
        seen.add(id(row))
        fresh = [f for f in option.flags if f not in row["flags"]]
        if fresh:
            row["flags"] = [*row["flags"], *fresh]
            changed.append(_longest(tuple(row["flags"])))
        held = {str(c) for c in row.get("choices") or ()} | {"None"}
        more = [c for c in option.choices if c not in held]
        if more and row.get("kind") == "choice":
            row["choices"] = [*(row.get("choices") or ()), *(int(c) if row.get("type") == "int" and c.isdigit() else c for c in more)]
            changed.append(_longest(tuple(row["flags"])))
    missing = [row["flags"][0] for row in rows if id(row) not in seen and row["flags"][0] not in added and row["flags"][0].startswith("--")]
    notes: list[str] = []
    if added:
        notes.append(ngettext("{n} option stands only in its own help: {names}", "{n} options stand only in its own help: {names}", len(added)).format(n=len(added), names=_some(added)))
    if changed:
        changed = list(dict.fromkeys(changed))
        notes.append(_("Spellings or choices taken from its own help: {names}").format(names=_some(changed)))
    if missing:
        notes.append(_("In its files, but not in its own help (hidden, or not for this machine): {names}").format(names=_some(missing)))
    return notes


def _row(option: HelpOption) -> dict[str, Any]:
    flags = list(option.flags)
    name = _longest(option.flags).lstrip("-")
    row: dict[str, Any] = {"flags": flags, "dest": name.replace("-", "_").replace(".", "_"), "type": "str"}
    if not option.takes_value:
        negated = any(f.startswith("--no-") for f in flags)
        row.update(kind="flag", action="bool" if negated else "store_true", default=False)
    elif option.choices and not option.open_choices:
        row.update(kind="choice", choices=list(option.choices))
    else:
        row["kind"] = "list" if option.many else "str"
    return row


def _longest(flags: tuple[str, ...]) -> str:
    """The spelling that is written: the first long one that is no negation."""
    return next((f for f in flags if f.startswith("--") and not f.startswith("--no-")), flags[0])


def _plain(flag: str) -> str:
    return flag.replace("_", "-")


def _some(names: list[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else shown + ", " + _("and {n} more").format(n=len(names) - most)
