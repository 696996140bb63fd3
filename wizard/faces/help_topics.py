"""``vllm-wizard help``: a command's own help, or a topic that no single command covers."""

from __future__ import annotations

import argparse

from wizard.errors import BadInput
from wizard.i18n import N_, _, bracketed, sentences

# What each command does, beside its options. Paragraphs end with a line end; lines that start with two spaces are
# printed as they stand.
COMMAND_TEXTS: dict[str, str] = {
    "detect": N_(
        "Looks at the GPUs, the driver, memory, disks, WSL, Docker and Python, each with a time limit of its own, and prints what it found on about one screen; below it what stands in the way, with the commands that cure it. Names of people and computers, serial numbers and tokens are taken out, so the text can be pasted into an issue. It writes nothing, asks no network and ends with 0 also when there are problems."
    ),
    "plan": N_(
        "Decides everything that generate would write, and prints the command, every decision with its reason, the files and what to do afterwards. It writes nothing. It ends with 1 when something stands in the way."
    ),
    "generate": N_(
        "Writes launch.sh, compose.yaml, vllm.env, answers.toml and, on WSL2, a proposal for .wslconfig. The difference is shown first and asked about, unless --yes is given; --dry-run only shows it. The same answers give the same files. vllm-wizard undo takes the write back."
    ),
    "cluster": N_(
        "Plans and writes for more than one machine, for Kubernetes, or for several servers on one machine. plan shows what each way of spreading the model costs; generate writes the files of each node."
    ),
    "launch": N_(
        "Starts what was generated, names each stage of the start with its time, and asks the server real questions once it is up. When the start fails, the log is examined as by diagnose, and a cure that can be carried out is offered; --no-repair leaves everything as it is. Ctrl-C stops the server, unless --detach hands it to Docker Compose, systemd or the background."
    ),
    "status": N_("Shows the servers that launch started: whether each answers, where, and since when."),
    "stop": N_("Stops a server that launch started, in the way it was started."),
    "logs": N_("Prints the end of the log of a server that launch started; --follow goes on as it grows."),
    "undo": N_(
        "Puts back what the last write replaced and removes what it created, and names the files. Before it takes back more than one write, or one that is older than a day, it asks; where there is no terminal to ask on, more than one write needs --yes. A file that was changed since is left alone, and said, unless --force is given. undo --list shows the writes that can be taken back: the last 30."
    ),
    "fit": N_(
        "Computes what a model takes on a GPU, line by line, and how many tokens the KV cache then holds; the model need not be here. It says whether it fits, how sure that is, and what would help. --calibrate reads the start-up log of a real server and keeps its figures for this machine."
    ),
    "recipes": N_(
        "Recipes say which models are known to work and how. list names them, show prints one, check judges the files of a folder. --recipes DIR adds your own, or a checkout of the public vLLM recipes."
    ),
    "releases": N_(
        "What each vLLM release accepts: options, variables, architectures, parsers, images. list and show need no network; update reads newer releases from the package index; probe reads the vLLM that is installed here or lies in a local image."
    ),
    "check": N_(
        "Holds a vLLM command against the rules of a release: options that came, went or were renamed, wrong values, and options that contradict each other. It finds the command in scripts, Compose and Kubernetes files and pasted text. --write repairs the file in place and keeps a backup; --here also holds it against this machine. It ends with 1 when something is wrong."
    ),
    "wslconfig": N_(
        "Reads .wslconfig as WSL itself does, and says which lines count, which are ignored and why. edit changes single keys and leaves the rest as it stands; tune sizes WSL for a model; verify tells whether the settings are in force."
    ),
    "windows": N_(
        "Does on Windows itself what can be done there: sizes WSL for a model, proposes .wslconfig, and says how to go on inside WSL with the same answers. vLLM does not run on Windows."
    ),
    "move": N_(
        "Copies a model from a Windows or network drive to the Linux file system, where it loads many times as fast. Every byte is verified; an interrupted copy goes on where it stopped; the source stays unless --delete-source is given, and then goes only once the copy is proven."
    ),
    "diagnose": N_(
        "Reads the log of a failed start, finds the line that is the cause among all that follows from it, and says why and what to do. --report prints a text for an issue with names and secrets taken out."
    ),
    "record": N_(
        "Records what the probes read into a folder, with names, serial numbers and tokens taken out. --machine DIR then uses that folder in place of this machine: for reports, tests and trials."
    ),
    "completion": N_(
        "Prints the completion script of a shell; it also completes the keys of --set, releases, languages and topics."
    ),
    "help": N_("Explains a command or a topic; without a word it lists both."),
}

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
            "An existing vllm.env keeps its lines: what is missing is added, and a secret that is newly given takes the place of the old one.\n"
            "\n"
            "The wizard keeps these for itself:\n"
            "  ~/.config/vllm-wizard/session.toml             the answers of the last walk, for the next start\n"
            "  ~/.local/state/vllm-wizard/writes/             what each write replaced, for vllm-wizard undo\n"
            "  ~/.local/state/vllm-wizard/servers/            what launch started, with its logs\n"
            "  ~/.local/state/vllm-wizard/moves.json          moves that were begun\n"
            "  ~/.local/share/vllm-wizard/releases/           releases that you added (releases update, releases probe)\n"
            "  ~/.cache/vllm-wizard/                          measured memory figures, and what can be found again\n"
            "What a write replaced may be an older vllm.env; only you can read it. The others hold no secret. XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME and XDG_CACHE_HOME move them; VLLM_WIZARD_CONFIG_DIR moves the first, VLLM_WIZARD_STATE_DIR what writes, moves and servers leave, VLLM_WIZARD_DATA_DIR the releases. A move keeps its unfinished copy in .vllm-wizard-moves beside the destination."
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
            "  130  interrupted with Ctrl-C\n"
            "\n"
            "check and wslconfig check end with 1 when they find something wrong; diagnose, fit and detect end with 0 whatever they find, because finding it is what was asked.\n"
            "\n"
            "With --json an error is printed on standard output as well, as {\"error\": {\"kind\": ..., \"message\": ..., \"exit_code\": ...}}; the kind is bad_input, failed or internal."
        ),
    ),
    "environment": (
        N_("the environment variables that are read"),
        N_(
            "  HF_HOME, HF_HUB_CACHE      where models are looked for\n"
            "  HF_ENDPOINT                another Hugging Face server; goes into the files\n"
            "  HF_HUB_OFFLINE             no network for models; goes into the files\n"
            "  MODELSCOPE_CACHE           where ModelScope keeps models\n"
            "  HF_TOKEN, VLLM_API_KEY     go into vllm.env with --secrets-from-env; HF_TOKEN\n"
            "                             also opens a gated repository that is looked up\n"
            "  VLLM_USE_MODELSCOPE        models come from ModelScope\n"
            "  HTTP_PROXY, HTTPS_PROXY, NO_PROXY\n"
            "  LANGUAGE, LC_ALL, LC_MESSAGES, LANG    the language, unless --lang says it\n"
            "  NO_COLOR                   no colours\n"
            "  TERM=dumb                  plain lines instead of the full screen\n"
            "  VLLM_WIZARD_ASCII          only ASCII signs in the full screen\n"
            "  VLLM_WIZARD_THEME          dark, light or ansi: the colours of the full screen\n"
            "  DOCKER_HOST                said when it leads to another computer\n"
            "  PIP_INDEX_URL, SSL_CERT_FILE, PIP_CERT  for releases update\n"
            "  XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME, XDG_CACHE_HOME,\n"
            "  VLLM_WIZARD_CONFIG_DIR, VLLM_WIZARD_STATE_DIR,\n"
            "  VLLM_WIZARD_DATA_DIR       where the wizard keeps its own files"
        ),
    ),
    "wsl": (
        N_("what is special on WSL2, and what the wizard does about it"),
        N_(
            "The GPU driver belongs on Windows alone; WSL brings its own side of it. A Linux driver inside WSL breaks it.\n"
            "\n"
            "WSL2 gets half of the memory of Windows. The wizard proposes more in .wslconfig, which lies in the Windows profile: your own file with only the needed lines changed. --apply-wslconfig writes it there; otherwise the last step shows the line to type in PowerShell. It counts after\n"
            "  wsl --shutdown\n"
            "which ends every distribution that runs.\n"
            "\n"
            "A model under /mnt/c loads many times slower than one in the Linux file system; vllm-wizard move copies it.\n"
            "\n"
            "WSL ends a distribution when its last terminal closes, also with a server in it; the proposal has the lines that keep it running.\n"
            "\n"
            "A server for other machines needs more than --set access=network: the last step shows the firewall and forwarding lines for the way that this WSL is connected.\n"
            "\n"
            "On Windows itself, vllm-wizard windows does the part that belongs there. vllm-wizard wslconfig check reads .wslconfig as WSL does."
        ),
    ),
    "offline": (
        N_("how to work without a network"),
        N_(
            "The wizard itself needs no network: releases, recipes and rules come with it.\n"
            "\n"
            "The model must lie on a disk: a folder, a .gguf file, or an entry of the Hugging Face or ModelScope cache; the wizard finds them. The image or the local environment must be there as well. On a machine with a network:\n"
            "  docker pull vllm/vllm-openai:v0.33.0\n"
            "  docker save vllm/vllm-openai:v0.33.0 -o vllm.tar\n"
            "and on the one without:\n"
            "  docker load -i vllm.tar\n"
            "\n"
            "With HF_HUB_OFFLINE=1 in the environment of the wizard, the variable goes into the files and the server does not try the network."
        ),
    ),
    "nodes": (
        N_("how to list several machines"),
        N_(
            "A server that is spread over several machines needs a file that lists them, the first being the head, which answers:\n"
            "  [[nodes]]\n"
            "  name = \"node1\"\n"
            "  address = \"10.0.0.1\"\n"
            "  machine = \"this\"\n"
            "  [[nodes]]\n"
            "  name = \"node2\"\n"
            "  address = \"10.0.0.2\"\n"
            "  machine = \"records/node2\"\n"
            "\n"
            "machine is the folder that vllm-wizard record DIR made on that machine, relative to this file; “this” is the machine that you sit at. interface may name the network card, where several have an address.\n"
            "\n"
            "Name the file in the walk (“File with the nodes”) or with --set nodes_file=FILE; “vllm-wizard cluster plan --answers FILE” says what each way costs."
        ),
    ),
    "mirrors": (
        N_("how to work behind a mirror or a proxy"),
        N_(
            "What is set in the environment when the wizard runs goes into launch.sh and compose.yaml:\n"
            "  HF_ENDPOINT=https://mirror.example     another server in place of huggingface.co\n"
            "  VLLM_USE_MODELSCOPE=True               models come from ModelScope\n"
            "  HTTPS_PROXY=http://proxy.example:8080  a proxy; NO_PROXY for what goes past it\n"
            "A proxy's address that holds a password is not written; put it into vllm.env.\n"
            "\n"
            "An image from another registry: --set image=registry.example/vllm/vllm-openai:v0.33.0. For a local environment, pip and uv read their own settings (PIP_INDEX_URL, UV_INDEX_URL)."
        ),
    ),
    "privacy": (
        N_("what leaves this machine"),
        N_(
            "Nothing is sent to the authors; there is no telemetry. The network is asked in these cases only:\n"
            "\n"
            "When you name a repository that is neither on this machine nor in a recipe, its config.json and the headers of its weight files are read from the Hugging Face Hub or from HF_ENDPOINT, with HF_TOKEN if that is set.\n"
            "\n"
            "vllm-wizard releases update reads the package index.\n"
            "\n"
            "What you start does its own: Docker pulls the image, vLLM downloads a model that is not here, and launch sends its test questions to your own server. vLLM reports anonymous usage figures to its authors unless it is told not to: --set env.VLLM_NO_USAGE_STATS=1 writes that into the files.\n"
            "\n"
            "detect, record and diagnose --report take names, serial numbers and tokens out of what they print. Look at it before you publish it all the same."
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
        print(_command(topic), end="")
    elif topic in TOPICS:
        print(_topic(topic), end="")
    else:
        raise BadInput(
            sentences(
                _("There is no help on “{topic}”.").format(topic=topic),
                options.near(topic, [*commands, *TOPICS]),
                _("See vllm-wizard help."),
            )
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
    short, text = TOPICS[name]
    return _paragraphs(f"{name}: {_(short)}\n\n{_(text)}")


def _paragraphs(text: str) -> str:
    from wizard.faces.writing import wrapped

    lines = [line if line.startswith("  ") or not line else wrapped(line) for line in text.split("\n")]
    return "\n".join(lines) + "\n"


def _command(name: str) -> str:
    from wizard import options

    told = COMMAND_TEXTS.get(name)
    return (_paragraphs(_(told)) + "\n" if told else "") + options.build_parser(name).format_help()


def _answers() -> str:
    from wizard.faces.writing import wrapped
    from wizard.steps import STEPS, kind_words

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
            unit = bracketed("", question.unit) if question.unit else ""
            how = (
                _("cannot be given here: it is a secret") if question.secret else kind_words(question.kind) + unit
            )
            lines.append(f"  {question.key}: {how}")
            lines.append(wrapped(_(question.help), "      "))
    return "\n".join(lines) + "\n"
