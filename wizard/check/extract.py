"""Find the vLLM command in a script, a pasted text, a ``docker run`` line, an environment file or a YAML file."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.starters import base_of

from .begins import (
    CONTAINER_PROGRAMS,
    NAME_VALUE,
    is_wrapped,
    past_variables,
    program_at,
    refuse_other_subcommand,
)
from .lexer import Lexed, Slip, Word, lex, prompt_end, straighten
from .variables import Assigned, assigned, expanded

MAX_BYTES = 8 << 20
MAX_COMMANDS = 100  # of one text
LEX_BUDGET = 1_000_000  # characters looked at word by word, in all
LOOK_BACK = 2000  # characters of a line before its command
_API_SERVER = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*[\w.-]*vllm[\w.-]*(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?$", re.I)
DOCKER_SWITCHES = frozenset((
    "-d", "-i", "-t", "-it", "-ti", "-dit", "-itd", "-P", "-q", "--detach", "--interactive", "--tty", "--rm",
    "--privileged", "--init", "--read-only", "--no-healthcheck", "--publish-all", "--oom-kill-disable", "--sig-proxy",
    "--disable-content-trust", "--quiet", "--help", "--use-api-socket",
    # podman's
    "--env-host", "--http-proxy", "--no-hostname", "--no-hosts", "--passwd", "--replace", "--rmi", "--rootfs", "--tls-verify",
    "--unsetenv-all",
))  # fmt: skip
# The options with a value of docker run, and of podman's and nerdctl's: what is none of these may be vLLM's.
_DOCKER_VALUES = frozenset((
    "add-host", "annotation", "attach", "blkio-weight", "blkio-weight-device", "cap-add", "cap-drop", "cgroup-parent",
    "cgroupns", "cidfile", "cpu-count", "cpu-percent", "cpu-period", "cpu-quota", "cpu-rt-period", "cpu-rt-runtime",
    "cpu-shares", "cpus", "cpuset-cpus", "cpuset-mems", "detach-keys", "device", "device-cgroup-rule", "device-read-bps",
    "device-read-iops", "device-write-bps", "device-write-iops", "dns", "dns-opt", "dns-option", "dns-search", "domainname",
    "entrypoint", "env", "env-file", "expose", "gpus", "group-add", "health-cmd", "health-interval", "health-retries",
    "health-start-interval", "health-start-period", "health-timeout", "hostname", "io-maxbandwidth", "io-maxiops", "ip", "ip6",
    "ipc", "isolation", "kernel-memory", "label", "label-file", "link", "link-local-ip", "log-driver", "log-opt", "mac-address",
    "memory", "memory-reservation", "memory-swap", "memory-swappiness", "mount", "name", "net", "net-alias", "network",
    "network-alias", "oom-score-adj", "pid", "pids-limit", "platform", "publish", "pull", "restart", "runtime", "security-opt",
    "shm-size", "stop-signal", "stop-timeout", "storage-opt", "sysctl", "tmpfs", "ulimit", "user", "userns", "uts", "volume",
    "volume-driver", "volumes-from", "workdir", "arch", "authfile", "cert-dir", "chrootdirs", "cgroup-conf", "cgroups",
    "conmon-pidfile", "creds", "decryption-key", "env-merge", "gidmap", "group-entry", "health-log-destination",
    "health-max-log-count", "health-max-log-size", "health-on-failure", "health-startup-cmd", "health-startup-interval",
    "health-startup-retries", "health-startup-success", "health-startup-timeout", "hooks-dir", "hosts-file", "hostuser",
    "image-volume", "init-ctr", "init-path", "os", "passwd-entry", "personality", "pidfile", "pod", "pod-id-file",
    "preserve-fd", "preserve-fds", "rdt-class", "requires", "retry", "retry-delay", "sdnotify", "seccomp-policy", "secret",
    "shm-size-systemd", "subgidname", "subuidname", "systemd", "timeout", "tz", "uidmap", "umask", "unsetenv", "variant",
    "cosign-key", "ipfs-address", "verify", "log-level", "root-dir", "namespace", "host-dns",
))  # fmt: skip
# Options whose value may follow without a blank, with their long names.
DOCKER_LONG = {"-p": "--publish", "-v": "--volume", "-e": "--env", "-u": "--user", "-w": "--workdir", "-h": "--hostname"}


@dataclass
class Command:
    """One vLLM command as it was found."""

    kind: str  # "argv" "shell" "docker" "compose" "config" "env" "list"; "options": without a program and a model
    words: list[Word]  # what the program behind the entrypoint gets
    entry: str  # "serve": vllm serve ...; "api_server": python -m ...; "image": the image's own entrypoint
    image: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    slips: list[Slip] = field(default_factory=list)
    source: str = ""  # the text that the words' positions belong to
    start: int = 0
    end: int = 0
    docker: list[Word] = field(default_factory=list)  # docker's own words, up to the image
    repeated: list[Word] = field(default_factory=list)  # "vllm serve" given to an image that starts it itself
    misplaced: list[Word] = field(default_factory=list)  # of ``words``: what stands before the image, among docker's options
    unread: dict[str, int] = field(default_factory=dict)  # variables of it that are not followed in every step, with the line
    pinned: str | None = None  # the vLLM release that the same text installs
    facts: dict[str, Any] = field(default_factory=dict)  # what the kind's own checks need
    problems: list[Any] = field(default_factory=list)  # ArgProblems of the file around the command

    @property
    def argv(self) -> list[str]:
        return [w.text for w in self.words]

    @property
    def tag(self) -> str | None:
        """The tag of the image, "latest" where none is given."""
        if self.image is None:
            return None
        name = self.image.split("@", 1)[0]
        last = name.rsplit("/", 1)[-1]
        return last.partition(":")[2] or "latest"


def from_argv(words: Sequence[str]) -> Command:
    """The command given on our own command line, after ``--``."""
    if not words:
        raise BadInput(_("Nothing stands after --: give the command, as in -- vllm serve MODEL --port 8000."))
    if len(words) == 1 and " " in words[0]:
        found = from_text(words[0], script=False)
        if found:
            return found[0]
        split = _split_by_shell(words[0])
        begins = program_at(split)
        if begins is not None:
            refuse_other_subcommand(split[begins:])
    made: list[Word] = []
    offset = 0
    for word in words:
        made.append(Word(word, word, offset, offset + len(word)))
        offset += len(word) + 1
    at = program_at(words)
    env = dict(w.split("=", 1) for w in words[: _program_or_model(words)] if NAME_VALUE.match(w))
    command = None
    if at is not None:
        refuse_other_subcommand(words[at:])
        command = _program(made[at:], env, " ".join(words))
    if command is None and (at is not None or is_wrapped(words)):
        # bash -c "vllm serve ...", or an image whose entrypoint is a shell
        inner = next((c for w in words if " " in w for c in from_text(w, script=False)), None)
        if inner is None:
            raise BadInput(no_command(_("the command")))
        return inner
    if command is None:
        position = _program_or_model(words)
        if not _may_be_arguments(words[position:]):
            raise BadInput(no_command(_("the command")))
        if list(words[position : position + 1]) == ["serve"]:
            position += 1
        command = Command("argv", made[position:], "serve", env=env)
    command.kind = "docker" if command.docker else "argv"
    fix_dashes(command)
    return command


def _program_or_model(words: Sequence[str]) -> int:
    """Where the words end that only set variables, or start the program behind them."""
    at = program_at(words)
    return at if at is not None else past_variables(words)


def _split_by_shell(text: str) -> list[str]:
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def no_command(name: str) -> str:
    """What is said of an input without a vLLM command."""
    return _(
        "{name}: no vLLM command was found (vllm serve ..., docker run ... vllm/vllm-openai ..., python -m vllm.entrypoints.openai.api_server ...). A log of a failed start is explained by “{diagnose}”."
    ).format(name=name, diagnose="vllm-wizard diagnose")


def is_shell_script(words: Sequence[str]) -> bool:
    """``bash -c SCRIPT ...``"""
    return len(words) >= 3 and words[0].rsplit("/", 1)[-1] in ("bash", "sh") and words[1].startswith("-") and "c" in words[1]


def _may_be_arguments(words: Sequence[str]) -> bool:
    """Whether words without a program can be what follows ``vllm serve``: options, or a model with options or alone."""
    if not words or words[0].startswith("-"):
        return True
    import shutil

    first = words[0]
    if " " in first or "\n" in first or shutil.which(first) is not None:
        return False
    return any(w.startswith("--") for w in words) or (len(words) == 1 and bool(re.fullmatch(r"[\w.~-]*/\S+", first)))


def from_text(text: str, script: bool, marks: str = "") -> list[Command]:
    """Every vLLM command of a text, in order; ``script``: a shell runs the text line by line. ``marks``: see ``lex``."""
    found: list[Command] = [_listed(m, text) for m in _LISTED.finditer(text) if not _is_comment(text, m.start(), True)]
    taken = -1
    budget = LEX_BUDGET
    for match in _BEGINS.finditer(text):
        if match.start() < taken or _is_comment(text, match.start(), script):
            continue
        if len(found) >= MAX_COMMANDS or budget < 0:
            break
        if _only_printed(text, match.start(), script, marks):
            continue
        start, closing = _command_start(text, match.start())
        lexed = lex(text, start, script=script, closing=closing, marks=marks)
        budget -= max(lexed.end - start, 200)
        words, env = _leading_env(lexed.words)
        command = _program(words, env, text)
        set_before = assigned(text[:start]) if command is not None or any(w.dynamic for w in words) else Assigned()
        if command is None:
            # Options and image stand in variables, as in the launch.sh that we write.
            command = _program(expanded(words, set_before.values), env, text)
        if command is None:
            continue
        command.slips = [*lexed.slips]
        command.start, command.end = start, lexed.end
        command.source = text
        taken = lexed.end
        fix_dashes(command)
        _variables(command, set_before, words)
        found.append(command)
    _set_pinned(found, text, script)
    return found


_BEGINS = re.compile(
    r"\bvllm[ \t\u00a0]+serve\b|\bvllm\.entrypoints[\w.]*api_server\b|\bpython[\d.]*[ \t]+\S{0,200}api_server\.py\b"
    r"|\bvllm[\"']?[ \t]+[\"']?\$\{\w+\[[@*]\]\}"
    r"|\b(?:docker|podman|nerdctl)\b(?=[ \t]+(?:\S{1,40}[ \t]+){0,2}(?:run|create)\b)"
)
# A command as a list of JSON strings: CMD ["vllm", "serve", ...] of a Dockerfile, subprocess.run([...]).
_LISTED = re.compile(r"""\[\s*(["'])(?:[\w./-]*/)?vllm\1\s*,\s*(["'])serve\2\s*(?:,\s*[^\]\n]*(?:\n[^\]\n]*)*)?\]""")


def _listed(match: re.Match[str], text: str) -> Command:
    words = [
        Word(w[0][1:-1].replace('\\"', '"'), w[0], match.start() + w.start(), match.start() + w.end(), quoted=True)
        for w in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', match[0])
    ]
    command = Command("list", words[2:], "serve", source=text, start=match.start(), end=match.end())
    command.facts["head"] = [w.text for w in words[:2]]
    return command


_PINNED = re.compile(r"(?<![\w-])vllm(?:\[[\w, -]{0,100}\])?==v?(\d+(?:\.\d+)+(?:\.?(?:post|rc|dev)\d+)?)")
_LINE_ENDS = re.compile(r"(?<!\\)(?<!\\\r)\n")


def _set_pinned(commands: Sequence[Command], text: str, script: bool) -> None:
    """The release of vLLM that a text installs (``pip install vllm==0.32.0``): last before its command, or after it,
    where the command is put together first and run in the end."""
    found = [m for m in _PINNED.finditer(text) if _installs(text[max(0, m.start() - 500) : m.start()]) and not _is_comment(text, m.start(), script)]
    starts = [m.start() for m in found]
    for command in commands if found else ():
        command.pinned = found[max(0, bisect(starts, command.start) - 1)][1]


def _installs(before: str) -> bool:
    """Whether the word "install" stands on the line before, continued lines included."""
    return "install" in before and re.search(r"\binstall\b", _LINE_ENDS.split(before)[-1]) is not None


def _is_comment(text: str, at: int, script: bool) -> bool:
    return script and bool(_COMMENT.match(text, text.rfind("\n", 0, at) + 1, at))


_COMMENT = re.compile(r"[ \t]*(?:#|::|@?rem[ \t])", re.I)
_PRINTS = re.compile(r"(?:^|[;&|({]|\b(?:then|do|else)\b)[ \t]*@?(?:echo|printf|Write-(?:Host|Output))(?=[ \t])", re.M | re.I)
_ONLY_SHOWS = frozenset(("tee", "logger", "cat", "ts", "column", "fold", "nl", "less", "more"))
_NO_SCRIPT = re.compile(r"[ \t]*[\"']?(?:&\d|/dev/|\S*log\b|\$\{?\w*log\w*)", re.I)


def _only_printed(text: str, at: int, script: bool, marks: str = "") -> bool:
    """Whether a place stands in what ``echo`` or ``printf`` shows to somebody; what is written to a file may be run."""
    before = max(0, at - LOOK_BACK)
    told = next((m for m in reversed(list(_PRINTS.finditer(text, before, at)))), None)
    if told is None or not script:
        return False
    shown = lex(text, told.end(), script=True, marks=marks)
    if not any(w.start <= at < w.end for w in shown.words):
        return False
    after = text[shown.end : shown.end + 200]
    following = re.match(r"[ \t]*(?:\d?>>?|(\|)(?!\|))", after)
    if following is None:
        return True
    rest = after[following.end() :]
    if following[1] is None:
        return bool(_NO_SCRIPT.match(rest))
    return rest.split()[:1] == [] or base_of(rest.split()[0]) in _ONLY_SHOWS


def _command_start(text: str, at: int) -> tuple[int, str]:
    """Where the command begins on its line (after prompt and separators), and the quote that it stands in."""
    line_start = max(text.rfind("\n", 0, at) + 1, at - LOOK_BACK)
    begin = prompt_end(text, line_start)
    before = text[begin:at]
    quote = _open_quote(before)
    if quote is not None and text.startswith("vllm" + before[quote], at):
        return begin + quote, ""  # only the program's path stands in quotes
    if quote is not None:
        return begin + quote + 1, before[quote]
    cut = max((before.rfind(mark) + len(mark) for mark in ("&&", "||", ";", "| ", "`", "(", "\uff1a", "\u3002", "\uff0c") if mark in before), default=0)
    head = before[cut:]
    # Words of running text before the command ("Run: vllm serve ..."): only NAME=value and a path may stand there.
    keep = re.search(r"(?:(?:^|(?<=\s))(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)|sudo|exec|env|nohup|time|export|uv|run|python3?|-m|-u|CMD|ENTRYPOINT)[ \t]+)*[\w./~-]*$", head)
    return begin + cut + (keep.start() if keep else len(head)), ""


def _open_quote(before: str) -> int | None:
    """Where a quote was opened that is not closed again, or None."""
    open_at: int | None = None
    for position, character in enumerate(before):
        if open_at is None and character in "'\"":
            open_at = position
        elif open_at is not None and character == before[open_at]:
            open_at = None
    return open_at


def _leading_env(words: list[Word]) -> tuple[list[Word], dict[str, str]]:
    env: dict[str, str] = {}
    position = 0
    while position < len(words):
        text = words[position].text
        if NAME_VALUE.match(text):
            name, _equals, value = text.partition("=")
            env[name] = value
        elif text not in ("sudo", "exec", "env", "nohup", "time", "export", "command"):
            break
        position += 1
    return words[position:], env


def _program(words: list[Word], env: dict[str, str], source: str) -> Command | None:
    """The vLLM command in the words of one command line, or None."""
    texts = [w.text for w in words]
    for position, text in enumerate(texts[:8]):
        base = base_of(text)
        if base in CONTAINER_PROGRAMS and position == 0:
            return _docker(words, env)
        if base == "vllm" and texts[position + 1 : position + 2] == ["serve"]:
            return Command("shell", words[position + 2 :], "serve", env=env, source=source)
        if text == "vllm.entrypoints.cli.main" and texts[position + 1 : position + 2] == ["serve"]:
            return Command("shell", words[position + 2 :], "serve", env=env, source=source)
        if text in _API_SERVER or base == "api_server.py":
            return Command("shell", words[position + 1 :], "api_server", env=env, source=source)
    return None


def docker_verb(texts: Sequence[str]) -> int | None:
    """Where ``run`` or ``create`` stands in a ``docker`` line; None where the line runs nothing."""
    return next((i for i, t in enumerate(texts[:4]) if i and t in ("run", "create")), None)


def docker_words(command: Command, added: Sequence[str] = ()) -> list[str]:
    """docker's own words, with ``added`` among its options."""
    texts = [w.text for w in command.docker]
    at = (docker_verb(texts) or 0) + 1
    return [*texts[:at], *added, *texts[at:]]


def docker_run(texts: Sequence[str]) -> tuple[list[tuple[str, str]], int] | None:
    """The options of a ``docker run`` line by their long names, each with its value ("" for a switch), and where its
    image stands; None where the line runs nothing."""
    found = _docker_options(texts)
    return None if found is None else ([(name, value) for name, value, _at, _end, own in found[0] if own], found[1])


def _docker_options(texts: Sequence[str]) -> tuple[list[tuple[str, str, int, int, bool]], int] | None:
    """The same, each option also with its place and whether it is docker's own and not vLLM's."""
    verb = docker_verb(texts)
    if verb is None:
        return None
    position = verb + 1
    options: list[tuple[str, str, int, int, bool]] = []
    while position < len(texts) and texts[position].startswith("-") and texts[position] != "--":
        at = position
        name, equals, value = texts[position].partition("=")
        position += 1
        theirs = _words_of_vllm(texts, at)
        if theirs:
            position = at + theirs
        elif name in DOCKER_SWITCHES or name == "-" or (equals and name.startswith("--")):
            pass
        elif not name.startswith("--") and len(name) > 2 and name[:2] in DOCKER_LONG:
            name, value = name[:2], name[2:] + equals + value
        elif position < len(texts):
            value = texts[position]
            position += 1
        options.append((DOCKER_LONG.get(name, name), value, at, position, not theirs))
    return options, position


def _words_of_vllm(texts: Sequence[str], at: int) -> int:
    """How many words an option among docker's takes that docker does not have, and vLLM has or had; 0 for docker's."""
    name = texts[at].partition("=")[0]
    if not name.startswith("--") or name in DOCKER_SWITCHES or name[2:] in _DOCKER_VALUES:
        return 0
    from wizard import releases
    from wizard.releases.parse import take_apart

    runs = releases.flag_spans(name)
    if not runs:
        return 0
    following = next((i for i in range(at + 1, len(texts)) if _IMAGE.match(texts[i])), len(texts))
    taken = take_apart(texts[at : max(following, at + 1)], releases.load(runs[-1][1]))
    return len(taken[0].tokens)


def _docker(words: list[Word], env: dict[str, str]) -> Command | None:
    found = _docker_options([w.text for w in words])
    if found is None or found[1] >= len(words):
        return None
    options, at = found
    entrypoint: str | None = None
    for name, value, _at, _end, _own in options:
        if name == "--env":
            key, _eq, content = value.partition("=")
            env[key] = content
        elif name == "--entrypoint":
            entrypoint = value
    image = words[at].text
    rest = words[at + 1 :]
    places = {i for *_what, begin, end, own in options if not own for i in range(begin, end)}
    command = Command("docker", rest, "image", image=image, env=env, docker=[w for i, w in enumerate(words[: at + 1]) if i not in places])
    foreign = not _IMAGE.match(image)
    if foreign or (entrypoint is not None and entrypoint.rsplit("/", 1)[-1] != "vllm"):
        inner = _program(rest, {}, "")
        if inner is None:
            return None  # vLLM may still stand in a quoted script: it is found by its own name
        command.words, command.entry = inner.words, inner.entry
        command.docker += rest[: len(rest) - len(inner.words)]
    else:
        strip_entrypoint(command, bool(entrypoint))
    command.misplaced = [words[i] for i in sorted(places)]
    command.words = [*command.words, *command.misplaced]
    return command


def starts_vllm(image: str | None) -> bool:
    """Whether an image's own entrypoint is known to be vLLM's: those that vLLM itself publishes, also from a mirror."""
    return image is None or image.partition("@")[0].rsplit("/", 1)[-1].startswith("vllm-openai")


def strip_entrypoint(command: Command, own_entrypoint: bool = False) -> Command:
    """Take ``vllm serve`` off what is given to an image: with the image's own entrypoint it stands there twice."""
    texts = [w.text for w in command.words[:4]]
    count = 0
    if texts[:2] == ["vllm", "serve"]:
        count = 2
    elif texts[:1] == ["serve"]:
        count = 1
    elif len(texts) > 2 and texts[1:2] == ["-m"] and texts[2] in _API_SERVER:
        count = 3
    if count:
        if own_entrypoint or not starts_vllm(command.image):
            command.entry = "api_server" if count == 3 else "serve"
            command.facts["head"] = texts[:count]  # they stay before what is repaired
        else:
            command.repeated = command.words[:count]
        command.words = command.words[count:]
    return command


def fix_dashes(command: Command) -> None:
    fixed: list[Word] = []
    for word in command.words:
        text, changed = straighten(word.text) if not word.quoted else (word.text, False)
        if changed:
            command.slips.append(Slip("dash", word.start, word.raw))
            word = replace(word, text=text)
        fixed.append(word)
    command.words = fixed


def _variables(command: Command, set_before: Assigned, words: Sequence[Word]) -> None:
    """Put in what the script itself sets: ``MODEL=...`` and arrays; exported VLLM_* and the like become env."""
    command.env = {**set_before.env, **command.env}
    command.unread = set_before.not_followed(words)
    command.words = expanded(command.words, set_before.values)


# --- files ---------------------------------------------------------------------------------------------------


def decode(raw: bytes, name: str) -> str:
    """Text of a file; BadInput for what is no text or too long."""
    if len(raw) > MAX_BYTES:
        raise BadInput(
            _("{name} is larger than {limit} MiB: too long for a command, a script or a compose file.").format(name=name, limit=MAX_BYTES >> 20)
        )
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return raw.decode("utf-16")
        except UnicodeDecodeError:
            raise BadInput(_("{name}: not readable as UTF-16 text.").format(name=name)) from None
    if b"\0" in raw[:65536]:
        raise BadInput(_("{name} is no text file.").format(name=name))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("gb18030", "replace")
    # What comes straight from a terminal has carriage returns for line ends.
    return text if "\n" in text else text.replace("\r", "\n")


_STARTS_SERVER = re.compile(r"\svllm\s+serve(?!\S)|\s(?:docker|podman|nerdctl)\s+(?:container\s+)?(?:run|create)\s|\svllm\.entrypoints\.")


def marks_of(name: str) -> str:
    """What makes a line go on in the next one in a script of that name; "" for one of a Unix shell, or none."""
    lowered = name.lower()
    if lowered.endswith((".bat", ".cmd")):
        return "^\\"
    return "`\\" if lowered.endswith(".ps1") else ""


def file_kind(name: str, text: str) -> str:
    """"compose", "config", "env" or "shell"/"text" for a file's name and content."""
    lowered = name.lower()
    if re.search(r"^services\s*:", text, re.M) and not lowered.endswith((".sh", ".bash", ".md")):
        return "compose"
    if re.search(r"^apiVersion\s*:", text, re.M) and re.search(r"^kind\s*:", text, re.M):
        return "kubernetes"
    if lowered.endswith((".yaml", ".yml")):
        return "config"
    base = lowered.rsplit("/", 1)[-1]
    if lowered.endswith((".sh", ".bash", ".zsh", ".service", ".bat", ".cmd", ".ps1")) or text.startswith("#!"):
        return "shell"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    pairs = sum(bool(re.match(r"(?:export\s+)?[A-Za-z_]\w*=", line)) for line in lines)
    # A variable may stand before a command as well: NAME=value vllm serve MODEL
    only_variables = bool(lines) and pairs == len(lines) and not any(_STARTS_SERVER.search(line) for line in lines)
    if base == ".env" or base.endswith(".env") or base.startswith(".env") or only_variables:
        return "env"
    return "text"


__all__ = ["Command", "Lexed", "decode", "file_kind", "from_argv", "from_text", "strip_entrypoint"]
