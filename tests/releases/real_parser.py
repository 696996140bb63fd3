"""Ask the real ``vllm serve`` parser of the vLLM that this Python has. Imports nothing of the wizard.

    python real_parser.py accept  < list-of-argv.json   # one JSON object a line: {"accepted": ..., "error": ...}
    python real_parser.py options                       # every option as JSON: flags, dest, nargs, choices ...

An argv is what follows ``vllm serve``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import sys
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def flexible_parser_class() -> Any:
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    return FlexibleArgumentParser


def build() -> tuple[Any, Any]:
    """(the main parser, the serve parser), as ``vllm`` builds them."""
    sys.argv = ["api_server.py"]  # 0.9.0 declares --model only where "serve" is not among the words
    main = flexible_parser_class()(prog="vllm")
    subparsers = main.add_subparsers(required=False, dest="subparser")
    from vllm.entrypoints.cli.serve import ServeSubcommand

    return main, ServeSubcommand().subparser_init(subparsers)


def describe(action: Any) -> dict[str, Any]:
    choices = action.choices
    return {
        "flags": list(action.option_strings),
        "dest": action.dest,
        "nargs": action.nargs,
        "choices": None if choices is None else [getattr(c, "value", c) for c in choices],
        "action": type(action).__name__,
        "type": getattr(action.type, "__qualname__", None) or (repr(action.type) if action.type else None),
        "default": action.default if isinstance(action.default, (str, int, float, bool, type(None))) else repr(action.default),
    }


def try_argv(main: Any, argv: list[str]) -> dict[str, Any]:
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            main.parse_args(["serve", *argv])
    except SystemExit as stop:
        if stop.code in (0, None):
            return {"accepted": True, "error": ""}
        lines = [line for line in heard.getvalue().splitlines() if "error:" in line]
        return {"accepted": False, "error": lines[-1] if lines else heard.getvalue()[-300:]}
    except Exception as error:
        return {"accepted": False, "error": f"{type(error).__name__}: {error}"[:300]}
    return {"accepted": True, "error": ""}


def main() -> None:
    logging.disable(logging.CRITICAL)
    command = sys.argv[1]
    out = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        parser, serve = build()
        if command == "options":
            options = [describe(a) for a in serve._actions if a.option_strings and not isinstance(a, argparse._HelpAction)]
            out.write(json.dumps(options, default=str) + "\n")
            return
        for argv in json.load(sys.stdin):
            out.write(json.dumps(try_argv(parser, argv)) + "\n")


if __name__ == "__main__":
    main()
