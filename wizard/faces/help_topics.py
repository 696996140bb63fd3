"""``vllm-wizard help``: a command's own help, or a topic that no single command covers."""

from __future__ import annotations

import argparse

from wizard.errors import BadInput
from wizard.i18n import N_, _

# Name, one line, and the text; lines that start with two spaces are printed as they stand.
TOPICS: dict[str, tuple[str, str]] = {
    "answers": (
        N_("every question's key, for --set and answers files"),
        "",  # made from the table of questions
    ),
    "files": (
        N_("what is written, where, and how it is taken back"),
        N_(
            "launch.sh, compose.yaml, vllm.env, answers.toml and, on WSL2, .wslconfig are written to the folder that you name.\n"
            "\n"
            "Every file is shown as new, changed or same, with its diff, before anything is written. A file that changed since it was shown stops the write. All files are written, or none.\n"
            "\n"
            "What a write replaced is kept in the state folder:\n"
            "  ~/.local/state/vllm-wizard/writes (XDG_STATE_HOME moves it)\n"
            "and vllm-wizard undo puts it back; undo --list shows the writes that are known.\n"
            "\n"
            "An existing vllm.env keeps its lines: what is missing is added, and a secret that is newly given takes the place of the old one.\n"
            "\n"
            "The answers of the last walk are kept for the next start:\n"
            "  ~/.config/vllm-wizard (XDG_CONFIG_HOME or VLLM_WIZARD_CONFIG_DIR moves it)"
        ),
    ),
    "secrets": (
        N_("where the Hugging Face token and the API key live"),
        N_(
            "Secrets stand in vllm.env alone, which only you can read (mode 0600): never in launch.sh, compose.yaml, answers.toml, a diff, JSON or a log.\n"
            "\n"
            "They cannot be given on the command line, where other users of the machine could read them. The walk asks for them without showing them, and\n"
            "  HF_TOKEN=... VLLM_API_KEY=... vllm-wizard generate --yes --secrets-from-env --out DIR\n"
            "takes them from the environment. A server that is reachable from the network gets a random key if you give none."
        ),
    ),
    "exit-codes": (
        N_("what the exit codes mean"),
        N_(
            "  0    it was done\n"
            "  1    it could not be done: something stands in the way (a blocker), a file could not be written, you said no\n"
            "  2    the input is wrong: an option, a value, an answers file, a missing terminal\n"
            "  130  interrupted with Ctrl-C"
        ),
    ),
    "environment": (
        N_("the environment variables that are read"),
        N_(
            "  HF_HOME, HF_HUB_CACHE      where models are looked for\n"
            "  HF_ENDPOINT                another Hugging Face server; goes into the files\n"
            "  HF_TOKEN, VLLM_API_KEY     only with --secrets-from-env; they go into vllm.env\n"
            "  VLLM_USE_MODELSCOPE        models come from ModelScope\n"
            "  HTTP_PROXY, HTTPS_PROXY, NO_PROXY\n"
            "  LANGUAGE, LC_ALL, LC_MESSAGES, LANG    the language, unless --lang says it\n"
            "  NO_COLOR                   no colours\n"
            "  TERM=dumb                  plain lines instead of the full screen\n"
            "  XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME, VLLM_WIZARD_CONFIG_DIR"
        ),
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topic", nargs="?", metavar="TOPIC", help=_("a command or a topic; without it: the list")
    )


def run(args: argparse.Namespace) -> int:
    from wizard import options

    commands = [n for n, _help, _where in options.COMMANDS]
    topic = args.topic
    if topic is None:
        print(_contents(), end="")
    elif topic in commands:
        print(options.build_parser(topic).format_help(), end="")
    elif topic in TOPICS:
        print(_topic(topic), end="")
    else:
        raise BadInput(
            _("There is no help on “{topic}”.").format(topic=topic)
            + options.near(topic, [*commands, *TOPICS])
            + " "
            + _("See vllm-wizard help.")
        )
    return 0


def _contents() -> str:
    from wizard import options

    lines = [_("vllm-wizard help COMMAND or TOPIC"), "", _("commands:")]
    lines += options.rows([(name, _(text)) for name, text, _where in options.COMMANDS])
    lines += ["", _("topics:")]
    lines += options.rows([(name, _(text)) for name, (text, _long) in TOPICS.items()])
    return "\n".join(lines) + "\n"


def _topic(name: str) -> str:
    if name == "answers":
        return _answers()
    from wizard.faces.writing import wrapped

    short, text = TOPICS[name]
    lines = [f"{name}: {_(short)}", ""]
    for line in _(text).split("\n"):
        lines.append(line if line.startswith("  ") or not line else wrapped(line))
    return "\n".join(lines) + "\n"


def _answers() -> str:
    from wizard.faces.writing import wrapped
    from wizard.steps import STEPS

    lines = [
        wrapped(
            _(
                "Every question of the walk can be answered with --set KEY=VALUE or in an answers file; what is not answered is decided from the machine and the model. Any option of vllm serve can be given in the same way, under its own name."
            )
        )
    ]
    for step in STEPS:
        if not step.questions:
            continue
        lines += ["", _(step.title)]
        for question in step.questions:
            unit = f" ({question.unit})" if question.unit else ""
            how = (
                _("cannot be given here: it is a secret") if question.secret else _kind(question.kind) + unit
            )
            lines.append(f"  {question.key}: {how}")
            lines.append(wrapped(_(question.help), "      "))
    return "\n".join(lines) + "\n"


def _kind(kind: str) -> str:
    return {
        "text": _("text"),
        "path": _("path"),
        "int": _("whole number"),
        "float": _("number"),
        "bool": _("yes or no"),
        "choice": _("one of the choices"),
        "multi": _("names, separated by commas"),
        "list": _("texts, separated by commas"),
        "model": _("path or repository id"),
    }.get(kind, kind)
