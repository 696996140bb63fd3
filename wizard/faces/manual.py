"""``python -m wizard.faces.manual``: the manual page ``man/vllm-wizard.1``, made from the tables of the program."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from wizard import __version__, options
from wizard.faces.help_topics import COMMAND_TEXTS, TOPICS

PAGE = Path(__file__).resolve().parents[2] / "man" / "vllm-wizard.1"
# Topics that are sections of every manual page have the usual names.
_SECTIONS = {"files": "FILES", "exit-codes": "EXIT STATUS", "environment": "ENVIRONMENT"}


def man_page() -> str:
    """The page as roff, in English. Pure: the same program gives the same page."""
    lines = [
        f'.TH VLLM\\-WIZARD 1 "" "vllm-wizard {__version__}" "User Commands"',
        ".SH NAME",
        "vllm\\-wizard \\- set up a vLLM server on this machine",
        ".SH SYNOPSIS",
        ".B vllm\\-wizard",
        "[\\fIoptions\\fR] [\\fIcommand\\fR] [\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        *_text(
            "Finds out what this machine can do, asks what you want, and writes the files that start a vLLM server. "
            "Without a command it opens the full-screen walk; with --plain it asks line by line."
        ),
        ".SH OPTIONS",
        "These may stand before or after the command.",
    ]
    for name, metavar, text in (
        options.PLAIN_OPTION, *options.GENERAL, *options.ANSWERS, options.OUT_OPTION, options.JSON_OPTION,
        ("-V, --version", None, "print the version and the state of the data"),
        ("-h, --help", None, "print a short help, or a command's own"),
    ):  # fmt: skip
        lines += _option([name], metavar, text)
    lines.append(".SH COMMANDS")
    for name, text, _where in options.COMMANDS:
        lines += [f".SS {_escaped(name)}", *_text(COMMAND_TEXTS.get(name) or text[:1].upper() + text[1:] + ".")]
        for action in own_actions(name):
            lines += _option(action.option_strings, _metavar(action), action.help or "")
    for topic, heading in _SECTIONS.items():
        lines += [f".SH {heading}", *_text(TOPICS[topic][1])]
    lines.append(".SH NOTES")
    for topic, (short, text) in TOPICS.items():
        if text and topic not in _SECTIONS:
            lines += [f".SS {_escaped(short[:1].upper() + short[1:])}", *_text(text)]
    lines += [".SH EXAMPLES"]
    for name, examples in options._EXAMPLES.items():
        lines += [f".B {_escaped(f'{options.PROGRAM} {name} {example}'.rstrip())}\n.br" for example in examples if example]
    lines += [".SH SEE ALSO", "vllm\\-wizard help answers lists the key of every question."]
    return "\n".join(lines) + "\n"


def own_actions(name: str) -> list[argparse.Action]:
    """The options and arguments that are a command's own, without the common ones."""
    common = {o[0] for o in (*options.GENERAL, *options.ANSWERS, options.JSON_OPTION)}
    parser = options.build_parser(name)
    own = set(options._OWN_OPTIONS.get(name, ()))
    return [
        a
        for a in parser._actions
        if not isinstance(a, argparse._HelpAction) and not set(a.option_strings) & (common - own)
    ]


def _metavar(action: argparse.Action) -> str | None:
    if action.nargs == 0:
        return None
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else action.dest.upper()


def _option(names: Iterable[str], metavar: str | None, text: str) -> list[str]:
    words = ", ".join(f"\\fB{_escaped(n)}\\fR" for n in names)
    value = f"\\fI{_escaped(metavar)}\\fR" if metavar else ""
    return [".TP", " ".join(w for w in (words, value) if w), _escaped(text.replace("%%", "%"))]


def _text(text: str) -> Iterator[str]:
    """Paragraphs; lines that start with two blanks are kept as they stand."""
    kept = False
    for line in text.split("\n"):
        if line.startswith("  ") != kept:
            kept = not kept
            yield ".nf" if kept else ".fi"
        if line:
            yield _escaped(line)
        else:
            yield ".PP"
    if kept:
        yield ".fi"


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = text.replace("“", "\\(lq").replace("”", "\\(rq")
    return "\\&" + text if re.match(r"[.']", text) else text


def main() -> int:
    """Write the page, and in a checkout the reference pages of the documentation."""
    from wizard.i18n import set_language

    set_language("en")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(man_page(), encoding="utf-8", newline="\n")
    reference = PAGE.parents[1] / "docs" / "reference.py"
    if reference.exists():
        runpy.run_path(str(reference), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
