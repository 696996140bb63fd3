"""What the command line offers: the table of commands, their options, and the parsers.

Every common option may stand before or after the subcommand. Only the chosen subcommand's parser is built, and
only its room is imported; the overview that ``--help`` prints needs no parser at all.
"""

from __future__ import annotations

from wizard import columns
from wizard.errors import BadInput
from wizard.i18n import N_, _, sentence, sentences

TYPE_CHECKING = False  # importing typing would cost --help a good part of its time
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

PROGRAM = "vllm-wizard"

# Name, one line of help, and where its ``run(args)`` (and ``add_arguments(parser)``, if the room has its own) is.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("detect", N_("show what was found on this machine, and what stands in the way"), "wizard.faces.batch:detect"),
    ("plan", N_("show the command, the reasons behind it, and the files, without writing"), "wizard.faces.batch:plan"),
    ("generate", N_("write the files without asking"), "wizard.faces.batch:generate"),
    ("cluster", N_("plan and write for several machines, Kubernetes, or several servers on one machine"), "wizard.faces.clustering:run"),
    ("launch", N_("start what was generated, watch it come up, prove that it answers, repair it"), "wizard.faces.launching:launch"),
    ("status", N_("show the servers that launch started"), "wizard.faces.launching:status"),
    ("stop", N_("stop a server that launch started"), "wizard.faces.launching:stop"),
    ("logs", N_("show the log of a server that launch started"), "wizard.faces.launching:logs"),
    ("undo", N_("take back the last write"), "wizard.faces.batch:undo"),
    ("fit", N_("compute the memory that a model needs on a GPU"), "wizard.fit_command:run"),
    ("recipes", N_("list, show or check the recipes"), "wizard.recipes_command:run"),
    ("releases", N_("list or show what each vLLM release accepts"), "wizard.releases.commands:run"),
    ("check", N_("hold a command, script or compose file against a vLLM release, and repair it"), "wizard.check.commands:run"),
    ("wslconfig", N_("check a .wslconfig as WSL itself reads it"), "wizard.wslconfig_command:run"),
    ("windows", N_("on Windows itself: size WSL, write its settings, say how to go on inside"), "wizard.windows_command:run"),
    ("move", N_("copy a model from a slow drive to the Linux file system, verified"), "wizard.move_command:run"),
    ("diagnose", N_("find the line of a log that matters, say why, and how to cure it"), "wizard.diagnose.commands:run"),
    ("record", N_("record this machine into a folder, for tests and reports"), "wizard.faces.batch:record"),
    ("completion", N_("print the completion script for bash, zsh or fish"), "wizard.faces.completion:run"),
    ("help", N_("explain a command or a topic"), "wizard.faces.help_topics:run"),
)  # fmt: skip

_OF_THIS_MACHINE = frozenset({"record", "launch"})  # they do nothing for a recorded one

# Options that may stand anywhere: (name, metavar or None for a switch, help).
GENERAL: tuple[tuple[str, str | None, str], ...] = (
    ("--machine", "DIR", N_("use the machine recorded in DIR instead of this one")),
    ("--recipes", "DIR", N_("also read recipes from DIR, such as a checkout of the public vLLM recipes")),
    ("--lang", "LANG", N_("language of all texts: en or zh_CN (default: from the locale)")),
    ("--debug", None, N_("show the details of an error")),
)
ANSWERS: tuple[tuple[str, str | None, str], ...] = (
    ("--answers", "FILE", N_("take the answers of FILE (an answers.toml written before)")),
    ("--model", "PATH_OR_ID", N_("the model: a folder, a .gguf file or a repository id")),
    ("--release", "V", N_("the vLLM release, such as 0.33.0")),
    ("--runtime", "HOW", N_("how vLLM runs: docker or local")),
    ("--set", "KEY=VALUE", N_("answer a question, or set any option of vllm serve; may be repeated")),
    ("--secrets-from-env", None, N_("take HF_TOKEN and VLLM_API_KEY from the environment into vllm.env")),
)
JSON_OPTION = ("--json", None, N_("print only JSON on standard output"))
PLAIN_OPTION = ("--plain", None, N_("ask in plain lines of text instead of full screen"))
OUT_OPTION = ("--out", "DIR", N_("the folder to write to"))

# What is known to take a value, so that the subcommand is found behind it.
_WITH_VALUE = frozenset(n for n, metavar, _help in (*GENERAL, *ANSWERS, OUT_OPTION) if metavar)
# Rooms with options of the same names but other meanings declare them themselves.
_OWN_OPTIONS = {"fit": ("--model", "--release", "--set"), "releases": ("--release",)}
_TAKES_ANSWERS = frozenset({"plan", "generate", "windows", "cluster"})
_LAUNCHING = frozenset({"launch", "status", "stop", "logs"})
_TAKES_JSON = frozenset(
    {
        "detect",
        "plan",
        "generate",
        "cluster",
        "undo",
        "fit",
        "recipes",
        "releases",
        "check",
        "wslconfig",
        "windows",
        "move",
        "record",
        "diagnose",
        "launch",
        "status",
    }
)


def before_dashes(words: Sequence[str]) -> list[str]:
    words = list(words)
    return words[: words.index("--")] if "--" in words else words


def split_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The subcommand, wherever it stands among the options, and all other words in order."""
    skip = False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif word == "--":
            break
        elif word.startswith("-") and word != "-":
            skip = word in _WITH_VALUE
        elif word in {name for name, _help, _where in COMMANDS}:
            return word, [*words[:at], *words[at + 1 :]]
        else:
            raise _no_command(word, words[at - 1] if at else "")
    return None, list(words)


def _no_command(word: str, before: str) -> BadInput:
    """``word`` stands where a command may stand, and is none; it may be the value of a misspelt option."""
    options = [o[0] for o in (*GENERAL, *ANSWERS, OUT_OPTION, JSON_OPTION, PLAIN_OPTION)]
    see = _("See vllm-wizard --help.")
    if before.startswith("--") and "=" not in before and before not in options:
        return BadInput(sentences(_("There is no option {word}.").format(word=before), near(before, options), see))
    known = [name for name, _help, _where in COMMANDS]
    return BadInput(sentences(_("There is no command “{word}”.").format(word=word), near(word, known), see))


def near(word: str, known: Sequence[str]) -> str:
    """``Did you mean ...?`` for a misspelt word, or nothing."""
    import difflib

    hits = difflib.get_close_matches(word, known, 2, 0.6)
    return _("Did you mean {names}?").format(names=" / ".join(hits)) if hits else ""


# -- the overview ---------------------------------------------------------------------------------------------


def version_text() -> str:
    """The program's version, and on lines of their own the state of the data in it."""
    import os

    from wizard import __version__

    # The names of the data files tell it: to open the catalogue would take ten times as long.
    package = os.path.dirname(__file__)  # noqa: PTH120
    releases = _names(os.path.join(package, "releases", "data"), ".json")  # noqa: PTH118
    known = sorted(
        (n for n in releases if n[:1].isdigit()), key=lambda name: [int(p) for p in name.split(".") if p.isdigit()]
    )
    lines = [f"{PROGRAM} {__version__}"]
    if known:
        mark = _mark(os.path.join(package, "releases", "data", "index.json"))[0]  # noqa: PTH118
        lines.append(
            _("catalogue: {count} vLLM releases, {first} to {last} ({mark})").format(
                count=len(known), first=known[0], last=known[-1], mark=mark
            )
        )
    mark, count = _mark(os.path.join(package, "diagnose", "rules", "compiled.jsonl"))  # noqa: PTH118
    # The first line is the index of the others.
    lines.append(_("rules of the diagnosis: {count} ({mark})").format(count=count - 1, mark=mark))
    for folder in (os.path.join(package, "_recipes"), os.path.join(os.path.dirname(package), "recipes")):  # noqa: PTH118, PTH120
        recipes = _names(folder, ".yaml")
        if recipes:
            mark = _mark(os.path.join(folder, "compiled.json"))[0]  # noqa: PTH118
            lines.append(_("recipes: {count} ({mark})").format(count=len(recipes), mark=mark))
            break
    return "\n".join(lines) + "\n"


def _names(folder: str, ending: str) -> list[str]:
    import os

    try:
        return [n[: -len(ending)] for n in os.listdir(folder) if n.endswith(ending)]  # noqa: PTH208
    except OSError:
        return []


def _mark(path: str) -> tuple[str, int]:
    """Eight digits that tell one state of a data file from another, and how many lines it has."""
    import zlib

    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            data = stream.read()
    except OSError:
        return "?", 0
    return f"{zlib.crc32(data):08x}", data.count(b"\n")


def overview() -> str:
    """What ``vllm-wizard --help`` prints."""
    parts = [
        _("usage: {program} [options] [command] [options]").format(program=PROGRAM),
        "",
        _("Sets up a vLLM server on this machine: finds out what it can do, asks what you want,"),
        _("and writes the files that start it. Without a command it opens the full-screen walk."),
        "",
        _("commands:"),
        *rows([(name, _(text)) for name, text, _where in COMMANDS]),
        "",
        _("options (before or after the command):"),
        *rows([(_spelt(o), _(o[2])) for o in (PLAIN_OPTION, *GENERAL, *ANSWERS, OUT_OPTION, JSON_OPTION)]),
        *rows(
            [
                ("-V, --version", _("print the version")),
                ("-h, --help", _("print this, or a command's own help")),
            ]
        ),
        "",
        _("examples:"),
        "  vllm-wizard",
        "  vllm-wizard --plain --model /home/user/models/Qwen3-8B",
        "  vllm-wizard detect",
        "  vllm-wizard plan --json --model Qwen/Qwen3-VL-8B-Instruct --set max_model_len=32k",
        "  vllm-wizard generate --yes --out /home/user/vllm",
        "  vllm-wizard undo",
        *_how_it_is_called(),
        "",
        _("exit codes: 0 done, 1 it could not be done, 2 wrong input, 130 interrupted"),
    ]
    return "\n".join(parts) + "\n"


def _how_it_is_called() -> list[str]:
    """How the program is called here, where its name alone would not find it."""
    from wizard import program

    if program.words() == (PROGRAM,):
        return []
    return ["", *columns.wrap(_("vllm-wizard is not on the PATH here; type {command}").format(command=program.command()), columns.of_prose())]


def _spelt(option: tuple[str, str | None, str]) -> str:
    return option[0] + (f" {option[1]}" if option[1] else "")


def rows(table: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns that fit the terminal."""
    lines, room = [], columns.of_prose()
    for left, right in table:
        space = " " * 22
        first = columns.pad(f"  {left}", 22)
        head = [] if columns.width(first) == 22 else [first]
        lines += [*head, *(columns.wrap(right, room, space if head else first, space) or [first.rstrip()])]
    return lines


# -- parsers --------------------------------------------------------------------------------------------------


def parse_words(name: str | None, words: Sequence[str]) -> argparse.Namespace:
    """The options of one subcommand, or (None) of the walk; raises BadInput naming what is wrong."""
    parser = build_parser(name)
    # Words may stand on both sides of options (FILE --json FILE); a parser with sub-parsers cannot do that.
    nested = any(action.nargs == "A..." for action in parser._actions)
    parse = parser.parse_known_args if nested else parser.parse_known_intermixed_args
    # What stands after -- is not ours to read: it is handed on as it is (intermixed parsing would read it).
    own, tail = _at_dashes(words) if name == "check" else (words, [])
    args, unknown = parse(_joined(own))
    if tail:
        args.words = [*args.words, *tail]
        args.dashed = True
    if unknown:
        word = next((w for w in unknown if w.startswith("-")), unknown[0]).partition("=")[0]
        known = [o for action in parser._actions for o in action.option_strings]
        hint = near(word, known) if word.startswith("-") else ""
        what = (
            _("There is no option {word}.") if word.startswith("-") else _("“{word}” is one word too many.")
        )
        raise BadInput(
            sentences(what.format(word=word), hint, _("See {command} --help.").format(command=parser.prog))
        )
    args.command = name
    return args


def _at_dashes(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    at = list(words).index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _joined(words: Sequence[str]) -> list[str]:
    """``--set --option=value`` and ``--flag --option`` as one word: a parser takes the second one for an option of its own."""
    out: list[str] = []
    for at, word in enumerate(words):
        if at and words[at - 1] in ("--set", "--flag") and word.startswith("--") and word != "--":
            out[-1] = f"{words[at - 1]}={word}"
        else:
            out.append(word)
    return out


def build_parser(name: str | None) -> argparse.ArgumentParser:
    """The parser of one subcommand, or (None) of the walk."""
    import argparse

    _translate_argparse()

    class Formatter(argparse.RawDescriptionHelpFormatter):
        def _split_lines(self, text: str, width: int) -> list[str]:
            return columns.wrap(text, width) or [""]

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> None:  # type: ignore[override]
            raise BadInput(sentences(sentence(message), _("See {command} --help.").format(command=self.prog)))

        def _get_value(self, action: argparse.Action, text: str) -> object:
            try:
                return super()._get_value(action, text)
            except argparse.ArgumentError as error:
                if isinstance(error.__context__, argparse.ArgumentTypeError):
                    raise
                # argparse would name our function here.
                raise argparse.ArgumentError(
                    action, _("“{text}” is no value for it ({what})").format(text=text, what=action.help)
                ) from None

    text = next((_(help_) for n, help_, _where in COMMANDS if n == name), None)
    parser = Parser(
        prog=f"{PROGRAM} {name}" if name else PROGRAM,
        description=sentence(text) if text else None,
        epilog=_epilog(name),
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    own = _OWN_OPTIONS.get(name or "", ())
    _add_own(parser, name)
    common = parser.add_argument_group(_("common options"))
    answers = name is None or name in _TAKES_ANSWERS
    options = [*(ANSWERS if answers else ()), *GENERAL]
    if name in _TAKES_JSON:
        options.append(JSON_OPTION)
    taken = {o for action in parser._actions for o in action.option_strings}
    for option, metavar, help_ in options:
        if option in own or option in taken:
            continue
        if option == "--machine" and name in _OF_THIS_MACHINE:
            common.add_argument(option, metavar=metavar, help=argparse.SUPPRESS)  # read, to be refused with the reason
            continue
        _add_common(common, option, metavar, help_)
    parser.usage = _usage(parser)
    return parser


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage line, made here: intermixed parsing cuts as many characters off it as “usage: ” has in English."""
    formatter = parser._get_formatter()
    room = columns.width(_("usage: "))
    formatter.add_usage(None, parser._actions, parser._mutually_exclusive_groups, prefix="." * room)
    return formatter.format_help()[room:].rstrip("\n").replace("%", "%%")


# What argparse itself says, so that the catalogue of texts holds it.
ARGPARSE_TEXTS = (
    N_("usage: "),
    N_("options"),
    N_("positional arguments"),
    N_("show this help message and exit"),
    N_("expected one argument"),
    N_("expected at least one argument"),
    N_("argument %(argument_name)s: %(message)s"),
    N_("invalid choice: %(value)r (choose from %(choices)s)"),
    N_("invalid %(type)s value: %(value)r"),
    N_("the following arguments are required: %s"),
    N_("not allowed with argument %s"),
    N_("ignored explicit argument %r"),
    N_("expected at most one argument"),
    N_("one of the arguments %s is required"),
    N_("unknown parser %(parser_name)r (choices: %(choices)s)"),
)


def _translate_argparse() -> None:
    """argparse calls ``_`` and ``ngettext`` of its own module: let those be ours.

    It would otherwise ask gettext by the environment, which must stay as it is for the programs that are run.
    """
    import argparse

    from wizard import i18n

    argparse._ = i18n._  # type: ignore[attr-defined]
    argparse.ngettext = i18n.ngettext  # type: ignore[attr-defined]


def _add_common(group: argparse._ArgumentGroup, option: str, metavar: str | None, help_: str) -> None:
    if metavar is None:
        group.add_argument(option, action="store_true", help=_(help_))
    elif option in ("--set", "--recipes"):
        group.add_argument(option, action="append", default=[], metavar=metavar, help=_(help_))
    elif option == "--runtime":
        group.add_argument(option, choices=("docker", "local"), metavar=metavar, help=_(help_))
    else:
        group.add_argument(option, metavar=metavar, help=_(help_))


def _add_own(parser: argparse.ArgumentParser, name: str | None) -> None:
    """The options and arguments that only this subcommand has."""
    if name is None:
        _add_common(parser, *PLAIN_OPTION)  # type: ignore[arg-type]
        _add_common(parser, *OUT_OPTION)  # type: ignore[arg-type]
    elif name == "generate":
        _add_common(parser, *OUT_OPTION)  # type: ignore[arg-type]
        parser.add_argument("--yes", "-y", action="store_true", help=_("write without asking"))
        parser.add_argument(
            "--dry-run", action="store_true", help=_("show what would change and write nothing")
        )
        parser.add_argument(
            "--apply-wslconfig",
            action="store_true",
            help=_("on WSL2: change the .wslconfig in the Windows profile itself, not only a copy in DIR"),
        )
    elif name == "plan":
        _add_common(parser, *OUT_OPTION)  # type: ignore[arg-type]
    elif name == "undo":
        from wizard.counts import whole_number

        parser.add_argument(
            "count", nargs="?", type=whole_number(), default=1, metavar="N", help=_("how many writes (default 1)")
        )
        parser.add_argument("--list", action="store_true", help=_("list the writes that can be taken back"))
        parser.add_argument("--force", action="store_true", help=_("also where a file was changed since"))
        parser.add_argument("--yes", "-y", action="store_true", help=_("also without being asked first, as is done before more than one write, or one older than a day"))
    elif name == "detect":
        return
    elif name in _LAUNCHING:
        import importlib

        # By name: the table of commands lies below the faces, which import it.
        importlib.import_module("wizard.faces.launching").add_options(parser, name)
    elif name == "record":
        parser.add_argument("dir", metavar="DIR", help=_("a new or empty folder"))
    else:
        import importlib

        where = next(w for n, _help, w in COMMANDS if n == name)
        room = importlib.import_module(where.partition(":")[0])
        room.add_arguments(parser)


def _epilog(name: str | None) -> str:
    if name is None:
        return overview()
    lines = _EXAMPLES.get(name or "", ())
    head = [_("examples:"), *(f"  {PROGRAM} {name} {line}".rstrip() for line in lines), ""] if lines else []
    return "\n".join([*head, _("exit codes: 0 done, 1 it could not be done, 2 wrong input")])


_EXAMPLES: dict[str, tuple[str, ...]] = {
    "detect": ("", "--json", "--machine /home/user/recorded/laptop"),
    "plan": (
        "",
        "--model /home/user/models/Qwen3-8B",
        "--json --model Qwen/Qwen3-VL-8B-Instruct --release 0.33.0 --runtime docker",
        "--set max_model_len=32k --set limit_videos=0",
    ),
    "generate": (
        "--yes --out /home/user/vllm",
        "--dry-run --out /home/user/vllm --model Qwen/Qwen3-8B",
        "--yes --out /home/user/vllm --answers /home/user/old/answers.toml",
        "--yes --out /home/user/vllm --secrets-from-env --set access=network",
    ),
    "cluster": (
        "plan --answers nodes.toml",
        "plan --json --set run_on=replicas --set replicas=2",
        "generate --yes --answers nodes.toml --out /home/user/vllm",
        "generate --dry-run --set run_on=kubernetes --out /home/user/vllm",
    ),
    "launch": ("", "/home/user/vllm", "/home/user/vllm --yes --detach", "/home/user/vllm --timeout 900 --no-repair --json"),
    "status": ("", "/home/user/vllm --json"),
    "stop": ("", "/home/user/vllm", "--all"),
    "logs": ("", "/home/user/vllm --follow"),
    "undo": ("", "--list", "2 --yes"),
    "fit": ("--model /home/user/models/Qwen3-8B", "--json --model Qwen/Qwen3-8B --gpu-memory-gib 24 --set dtype=float16"),
    "recipes": ("list", "show qwen3-vl", "check --recipes /home/user/vllm-recipes"),
    "releases": ("list", "show 0.33.0 --json"),
    "check": ("-- vllm serve Qwen/Qwen3-8B --swap-space 4", "/home/user/vllm/compose.yaml", "--write /home/user/start.sh"),
    "wslconfig": ("check", "check /mnt/c/Users/user/.wslconfig --host-ram-bytes 34359738368", "edit /mnt/c/Users/user/.wslconfig wsl2.memory=24GB"),
    "windows": ("", "--yes", "--dry-run --model Qwen/Qwen3-8B"),
    "move": ("/mnt/d/models/Qwen3-8B", "/mnt/d/models/Qwen3-8B /home/user/models/Qwen3-8B"),
    "record": ("/home/user/this-machine",),
    "diagnose": ("vllm.log", "- --json < vllm.log", "vllm.log --release 0.24.0 --report"),
    "help": ("", "generate", "answers"),
}  # fmt: skip
