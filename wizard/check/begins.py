"""Where a command begins in words that a shell has split already: behind ``sudo``, ``env``, ``nohup`` and the like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wizard.errors import BadInput
from wizard.i18n import _, sentences
from wizard.starters import STARTERS, base_of

if TYPE_CHECKING:
    import argparse

CONTAINER_PROGRAMS = ("docker", "podman", "nerdctl")
NAME_VALUE = re.compile(r"([A-Za-z_]\w*)=")
_SUBCOMMANDS = ("chat", "complete", "bench", "collect-env", "run-batch", "launch")


def program_at(words: Sequence[str]) -> int | None:
    """Where vLLM's program, a Python that runs a module of it, or a container's program stands; None: nowhere."""
    first = past_variables(words)
    if first < len(words) and base_of(words[first]) not in STARTERS:
        return first if _is_program(words, first) else None
    return next((i for i in range(first, len(words)) if _is_program(words, i)), None)


def is_wrapped(words: Sequence[str]) -> bool:
    """Whether the words begin with a program that starts another one."""
    first = past_variables(words)
    return first < len(words) and base_of(words[first]) in STARTERS


def begins_command(words: Sequence[str]) -> bool:
    """Whether words without ``--`` before them look like a command, and not like a file."""
    if not words:
        return False
    return bool(NAME_VALUE.match(words[0])) or is_wrapped(words) or program_at(words) == 0


def past_variables(words: Sequence[str]) -> int:
    """Where the words that only set variables end."""
    return next((i for i, w in enumerate(words) if not NAME_VALUE.match(w)), len(words))


def _is_program(words: Sequence[str], at: int) -> bool:
    base = base_of(words[at])
    following = list(words[at + 1 : at + 4])
    if base in CONTAINER_PROGRAMS:
        return True
    if re.fullmatch(r"python[\d.]*", base):
        return any(w.startswith("vllm.") or w.endswith("api_server.py") for w in following)
    return base == "vllm"


def refuse_other_subcommand(words: Sequence[str]) -> None:
    """BadInput for a command of vLLM that starts no server; ``words`` begin with the program."""
    count = 2
    if base_of(words[0]) == "vllm":
        if list(words[1:2]) == ["serve"]:
            return
        count = 3 if list(words[1:2]) == ["bench"] else 2
    elif base_of(words[0]) in CONTAINER_PROGRAMS:
        return
    else:
        module = next(i for i, w in enumerate(words) if w.startswith("vllm.") or w.endswith("api_server.py"))
        if words[module].endswith(("api_server", "api_server.py")) or list(words[module : module + 2]) == ["vllm.entrypoints.cli.main", "serve"]:
            return
        count = module + 1
    named = " ".join([base_of(words[0]), *words[1:count]])
    told = _(
        "This is “{command}”, which starts no server: check judges the commands that start one (vllm serve, docker run with an image of vLLM, python -m vllm.entrypoints.openai.api_server)."
    ).format(command=named)
    model = words[1] if count == 2 and len(words) > 1 and not words[1].startswith("-") and words[1] not in _SUBCOMMANDS else None
    raise BadInput(sentences(told, _("Is {near} meant?").format(near=f"“vllm serve {model}”")) if model else told)


def refuse_without_dashes(words: Sequence[str]) -> None:
    """BadInput for a command whose options would be read as our own: with the whole line as it is to be typed."""
    if not any(begins_command(words[i:]) for i in range(len(words))):
        return
    from wizard.options import build_parser

    ours, theirs = _sorted(words, build_parser("check"))
    if not any(w.startswith("-") and len(w) > 1 for w in theirs):
        return
    from wizard import program
    from wizard.outputs.quoting import bash_line

    line = bash_line([*program.words(), "check", *ours, "--", *theirs])
    raise BadInput(_("Put -- before the command, so that its options are not read as those of check: {line}").format(line=line))


def _sorted(words: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Our own options with their values, and all other words."""
    known = {flag: action for action in parser._actions for flag in action.option_strings}
    ours: list[str] = []
    theirs: list[str] = []
    position = 0
    while position < len(words):
        flag, equals, _value = words[position].partition("=")
        action = known.get(flag)
        end = position + 1 + (action is not None and action.nargs is None and not equals)
        (ours if action is not None else theirs).extend(words[position:end])
        position = end
    return ours, theirs
