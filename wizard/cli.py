"""The command line: which face or room does what is asked."""

from __future__ import annotations

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.options import COMMANDS, before_dashes, overview, parse_words, split_words, version_text

TYPE_CHECKING = False  # importing typing would cost --help a good part of its time
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


def run(words: Sequence[str]) -> int:
    """Run the command line ``words`` and return the exit code; raises WizardError, BadInput or SystemExit."""
    words = list(words)
    _choose_language(words)
    name, rest = split_words(words)
    if name is None:
        if any(w in ("-h", "--help") for w in before_dashes(rest)):
            print(overview(), end="")
            return 0
        if any(w in ("-V", "--version") for w in before_dashes(rest)):
            print(version_text(), end="")
            return 0
        return _walk(parse_words(None, rest))
    if name == "diagnose" and "--tui" in before_dashes(rest):
        return _walk_with_log(parse_words(name, rest))
    if name == "diagnose" and not any(w in ("-h", "--help") for w in before_dashes(rest)):
        # It reads its words itself: a short log is to be answered about as fast as --help.
        from wizard.diagnose.commands import run as diagnose

        return diagnose(rest)
    if name == "check" and "--" not in rest:
        from wizard.check.begins import refuse_without_dashes

        refuse_without_dashes(rest)
    args = parse_words(name, rest)
    code: int = _runner(name)(args)
    return code


def _choose_language(words: Sequence[str]) -> None:
    from wizard.i18n import set_language

    options = before_dashes(words)
    chosen = None
    for at, word in enumerate(options):
        if word.startswith("--lang="):
            chosen = word.partition("=")[2]
        elif word == "--lang" and at + 1 < len(options):
            chosen = options[at + 1]
    set_language(chosen)


def _runner(name: str) -> Callable[[argparse.Namespace], int]:
    import importlib

    where = next(w for n, _help, w in COMMANDS if n == name)
    module, _sep, function = where.partition(":")
    runner: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), function)
    return runner


# -- the walk -------------------------------------------------------------------------------------------------


def _walk(args: argparse.Namespace) -> int:
    import os
    import sys

    if _is_windows(args.machine):
        from wizard.windows_command import run as windows

        return windows(args)
    if args.plain:
        from wizard.faces.ask import run as ask

        return ask(args)
    if not all(_is_terminal(s) for s in (sys.stdin, sys.stdout, sys.stderr)):
        raise BadInput(
            _(
                "The full-screen walk needs a terminal. Use vllm-wizard generate --yes --out DIR to write the files without asking, or vllm-wizard --plain to be asked line by line."
            )
        )
    if os.environ.get("TERM", "") in ("", "dumb") and os.name != "nt":
        print(
            _("This terminal cannot draw a full screen (TERM={term}); going on in plain lines.").format(
                term=os.environ.get("TERM", "")
            )
        )
        from wizard.faces.ask import run as ask

        return ask(args)
    from wizard.faces.tui.app import Start, walk_from

    def prepare() -> Start:
        # Called when the first picture stands: these rooms are too heavy to be loaded before it.
        from wizard.faces import inputs

        host, answers = inputs.open_machine(args), inputs.answers_from(args)
        return Start(host, answers, inputs.secrets_from(args, os.environ), recipe_dirs=tuple(args.recipes))

    return walk_from(prepare, lang=args.lang, debug=args.debug)


def _walk_with_log(args: argparse.Namespace) -> int:
    """The full-screen walk with the diagnosis of a log laid over it."""
    from wizard.faces.tui.app import Start, walk_from

    def prepare() -> Start:
        from wizard.faces import inputs
        from wizard.session import Answers

        log = "" if args.log == "-" else args.log
        return Start(inputs.open_machine(args), Answers(), recipe_dirs=tuple(args.recipes), log=log)

    return walk_from(prepare, lang=args.lang, debug=args.debug)


def _is_windows(recorded: str | None) -> bool:
    """Whether the machine in question is Windows itself, where vLLM cannot run and only its half can be done."""
    import sys

    if recorded is None:
        return sys.platform == "win32"
    from wizard.host import open_host

    return open_host(recorded).platform == "win32"


def _is_terminal(stream: object) -> bool:
    try:
        return stream is not None and bool(stream.isatty())  # type: ignore[attr-defined]
    except ValueError:
        return False
