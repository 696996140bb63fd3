"""One run of the wizard as data: the machine, the models found, and the answers, replayable.

A :class:`Session` is all that :func:`wizard.plan.plan` reads. It is immutable: a changed answer makes a new
one. Secrets are held apart from the answers, so that no answers file, JSON or log can hold one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Union

from wizard.errors import BadInput
from wizard.facts import Machine, SystemKind
from wizard.i18n import _, listed, sentences
from wizard.models.info import FoundModel, Issue, LoraAdapter, ModelInfo
from wizard.starters import STARTERS, base_of

if TYPE_CHECKING:
    from wizard.fit_store import Calibrations
    from wizard.host import Host
    from wizard.recipes import RecipeBook

Value = Union[str, int, float, bool, tuple[str, ...]]  # noqa: UP007 - evaluated at import on 3.10

# Keys that may never be given as an answer: they belong in the environment file only.
SECRET_KEYS = frozenset({"hf_token", "api_key"})
# The environment variables that vLLM and huggingface_hub read for them.
SECRET_ENV = {"hf_token": "HF_TOKEN", "api_key": "VLLM_API_KEY"}


class Layer(str, Enum):
    """Where an answer comes from; a later one wins."""

    FILE = "file"  # an answers file
    CLI = "cli"  # --set, --model, ...
    USER = "user"  # typed or chosen in the walk


_ORDER = (Layer.FILE, Layer.CLI, Layer.USER)


@dataclass(frozen=True)
class Answers:
    """Explicit answers, by layer. What is not answered is decided by the plan."""

    file: Mapping[str, Value] = field(default_factory=dict)
    cli: Mapping[str, Value] = field(default_factory=dict)
    user: Mapping[str, Value] = field(default_factory=dict)
    # Keys of ``file`` that the wizard itself had decided when the file was written: they hold the plan to what
    # it was then, but are no choice of the user's.
    pinned: frozenset[str] = frozenset()

    def get(self, key: str) -> tuple[Value, Layer] | None:
        for layer in reversed(_ORDER):
            table = self.layer(layer)
            if key in table:
                return table[key], layer
        return None

    def layer(self, layer: Layer) -> Mapping[str, Value]:
        return {Layer.FILE: self.file, Layer.CLI: self.cli, Layer.USER: self.user}[layer]

    def keys(self) -> frozenset[str]:
        return frozenset(self.file) | frozenset(self.cli) | frozenset(self.user)

    def with_value(self, key: str, value: Value, layer: Layer = Layer.USER) -> Answers:
        """The answers with one more, which is then the last of its layer: a later one can count for more."""
        return self._replace(layer, {**{k: v for k, v in self.layer(layer).items() if k != key}, key: value})

    def with_values(self, values: Mapping[str, Value], layer: Layer) -> Answers:
        return self._replace(layer, {**{k: v for k, v in self.layer(layer).items() if k not in values}, **values})

    def without(self, key: str) -> Answers:
        """Forget the answer in every layer: the plan decides again."""
        file, cli, user = ({k: v for k, v in self.layer(la).items() if k != key} for la in _ORDER)
        return Answers(file, cli, user, self.pinned - {key})

    def pins(self) -> dict[str, Value]:
        """What only stands in the file, and was no choice of the user's."""
        return {k: v for k, v in self.file.items() if k in self.pinned and k not in self.cli and k not in self.user}

    def without_pins(self) -> Answers:
        pins = self.pins()
        return Answers({k: v for k, v in self.file.items() if k not in pins}, self.cli, self.user)

    def _replace(self, layer: Layer, table: Mapping[str, Value]) -> Answers:
        file, cli, user = (table if la is layer else self.layer(la) for la in _ORDER)
        return Answers(file, cli, user, self.pinned)

    def flat(self) -> dict[str, Value]:
        return {**self.file, **self.cli, **self.user}


@dataclass(frozen=True)
class Secrets:
    """Secrets of this run; shown nowhere, written only to the environment file."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def with_value(self, key: str, value: str | None) -> Secrets:
        rest = {k: v for k, v in self.values.items() if k != key}
        return Secrets({**rest, key: value} if value else rest)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.values))


def _nothing_measured() -> Calibrations:
    from wizard.fit_store import Calibrations

    return Calibrations()


@dataclass(frozen=True)
class Session:
    """All that the plan reads."""

    machine: Machine
    recipes: RecipeBook
    found: tuple[FoundModel, ...] = ()
    models: Mapping[str, ModelInfo] = field(default_factory=dict)  # by what the user gives: path or repo id
    adapters: tuple[LoraAdapter, ...] = ()  # LoRA adapters found anywhere
    answers: Answers = field(default_factory=Answers)
    secrets: Secrets = field(default_factory=Secrets)
    existing: Mapping[str, bytes] = field(
        default_factory=dict
    )  # files that outputs edit, as read: path -> bytes
    environment: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # proxies, HF_ENDPOINT, HF_HOME ...
    calibrations: Calibrations = field(default_factory=_nothing_measured)  # memory measured on this machine
    # LoRA adapters that answers name, by path: as read, or None where none lies there. See ``look_at_adapters``.
    named_adapters: Mapping[str, LoraAdapter | None] = field(default_factory=dict)
    host: Host | None = field(default=None, repr=False, compare=False)  # what the facts were read from

    def answer(self, key: str, value: Value, layer: Layer = Layer.USER) -> Session:
        return replace(self, answers=self.answers.with_value(key, value, layer))

    def forget(self, key: str) -> Session:
        return replace(self, answers=self.answers.without(key))

    def with_model(self, source: str, info: ModelInfo) -> Session:
        return replace(self, models={**self.models, source: info})


THIS_MACHINE = "this machine"  # the real host's name; a recorded machine has another and asks no network

# Environment variables that change what is generated (mirrors, caches, proxies); no secret among them.
KEPT_ENVIRONMENT = (
    "HF_ENDPOINT", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "VLLM_USE_MODELSCOPE", "MODELSCOPE_CACHE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "XDG_CACHE_HOME", "VLLM_CPU_KVCACHE_SPACE",
)  # fmt: skip


def gather(
    host: Host,
    answers: Answers,
    *,
    machine: Machine | None = None,
    recipe_dirs: Iterable[str] = (),
    on_probe: Callable[[Any], None] | None = None,
    scan: bool = True,
    cancelled: Callable[[], bool] = lambda: False,
) -> Session:
    """Probe the machine, load recipes, look for models, and inspect those that may be chosen."""
    from pathlib import Path

    from wizard import recipes as recipes_room
    from wizard.fit_calibrate import load_all
    from wizard.probes import run_all

    if machine is None:
        machine = run_all(host, on_result=on_probe)
    book = recipes_room.load([Path(d) for d in recipe_dirs])
    session = Session(
        machine=machine,
        recipes=book,
        answers=answers,
        environment={k: host.env[k] for k in KEPT_ENVIRONMENT if k in host.env},
        calibrations=load_all(host),
        host=host,
    )
    if scan:
        session = find_models(session, host, cancelled=cancelled)
    wanted = answers.get("model")
    if wanted is not None:
        named = model_named(str(wanted[0]), machine)
        if named != wanted[0]:
            session = replace(session, answers=answers.with_value("model", named, wanted[1]))
        session = look_at_model(session, host, named)
    return look_at_adapters(session)


def find_models(
    session: Session,
    host: Host,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    on_found: Callable[[FoundModel], None] | None = None,
    inspect_at_most: int = 40,
) -> Session:
    """The session with what lies on disk; the most likely models are inspected."""
    from wizard.models.find import find
    from wizard.models.inspect import inspect, read_adapter

    found: list[FoundModel] = []
    for model in find(host, session.machine, cancelled=cancelled):
        found.append(model)
        if on_found is not None:
            on_found(model)
    adapters = [read_adapter(host, model.path) for model in found if model.is_adapter]
    models = dict(session.models)
    for model in found[:inspect_at_most]:
        if cancelled():
            break
        if model.complete and not model.is_adapter and model.path not in models:
            try:
                models[model.path] = inspect(host, model.path)
            except (BadInput, OSError):
                continue
    return replace(
        session, found=tuple(found), models=models, adapters=tuple(a for a in adapters if a is not None)
    )


def look_at_model(session: Session, host: Host, source: str) -> Session:
    """The session knowing the model that the user named: a path, or a repository id (from a recipe)."""
    if source in session.models:
        return session
    from wizard.models.inspect import inspect

    if looks_like_command(source):
        raise BadInput(
            _(
                "A whole command stands where a model is wanted. Give the model in it: a folder, a .gguf file or a repository id such as Qwen/Qwen3-8B. “{check}” reads and repairs commands."
            ).format(check="vllm-wizard check")
        )
    path = expand(source, session.machine.home)
    if looks_like_path(source):
        if not host.exists(path):
            raise no_model_at(path, session.machine)
        return session.with_model(source, inspect(host, path))
    hit = session.recipes.find(source)
    for model in session.found:
        if model.name == source and model.complete:
            info = session.models.get(model.path) or inspect(host, model.path)
            return session.with_model(source, info)
    if hit is not None:
        return session.with_model(source, hit[1].model_info())
    if not is_repo_id(source):
        raise BadInput(
            _(
                "“{source}” is neither a folder nor a repository id (owner/name). Give the full path, starting with / or ~."
            ).format(source=source)
        )
    if host.name == THIS_MACHINE:
        from wizard.models.remote import inspect_remote

        # Small files only. Without a network the record says what is missing, and the plan says so.
        return session.with_model(source, inspect_remote(source, host.env))
    from wizard.models.inspect import from_published

    # Known by name only: nothing can be computed unless its shapes are published, and the plan says so.
    note = Issue("not_looked_up", source, _not_looked_up(source, session.recipes), fatal=False)
    unknown = ModelInfo(source=source, is_local=False, repo_id=source, kv_layout_known=False, issues=(note,))
    return session.with_model(source, from_published(source) or unknown)


def _not_looked_up(source: str, recipes: RecipeBook) -> str:
    """Why nothing is known of a repository that only a recorded machine names, and what it may have been meant for."""
    import difflib

    near = difflib.get_close_matches(source, [variant.model_id for _recipe, variant in recipes.candidates()], 2, 0.8)
    return sentences(
        _("It stands in no recipe, and the network is not asked for a recorded machine: whether there is such a repository is not known. Check the name."),
        _("Did you mean {names}?").format(names=listed(near)) if near else "",
    )


def look_at_adapters(session: Session) -> Session:
    """The session knowing the LoRA adapters that its answers name by a path; itself where it knows them all."""
    if session.host is None:
        return session
    named: dict[str, LoraAdapter | None] = {}
    for key in ("lora_adapters", "lora_modules"):
        given = session.answers.get(key)
        for path in lora_paths(given[0], session.machine.home) if given is not None else ():
            if path not in session.named_adapters:
                from wizard.models.inspect import read_adapter

                named[path] = read_adapter(session.host, path)
    return replace(session, named_adapters={**session.named_adapters, **named}) if named else session


def lora_paths(value: Value, home: str) -> tuple[str, ...]:
    """The full paths of this machine that adapters are named by, ``~`` replaced; others are repository ids."""
    paths = []
    for word in lora_words(value):
        if word.startswith("{"):
            try:
                path = str(json.loads(word).get("path") or "")
            except ValueError:
                continue
        else:
            path = word.partition("=")[2]
        paths.append(expand(path.strip(), home))
    return tuple(p for p in paths if p.startswith("/") and "\0" not in p)


def lora_words(value: Value) -> tuple[str, ...]:
    """The adapters of an answer one by one, each name=path or a JSON object: divided as people and vLLM do it."""
    if isinstance(value, (tuple, list)):
        return tuple(word for item in value for word in lora_words(item))
    text = str(value).strip()
    if text[:1] in ("{", "["):
        decoder, objects, at = json.JSONDecoder(), [], 0
        while at < len(text):
            if text[at] in "[], \t\n":
                at += 1
                continue
            try:
                found, at = decoder.raw_decode(text, at)
            except ValueError:
                return (text,)
            objects.append(found)
        return tuple(json.dumps(o) if isinstance(o, dict) else str(o) for o in objects)
    words = [w.strip() for w in text.split(",") if w.strip()]
    # A blank divides only where a name=path begins behind it: paths may hold blanks.
    return tuple(part for word in words for part in re.split(r"\s+(?=[\w.-]+=)", word))


def looks_like_path(source: str) -> bool:
    return (
        source.startswith(("/", "~", "./", "../"))
        or source.endswith(".gguf")
        or "\\" in source
        or re.match(r"[A-Za-z]:/", source) is not None
        or source in (".", "..")
    )


def no_model_at(path: str, machine: Machine | None) -> BadInput:
    """The fault of a path at which nothing lies; a path of Windows also as WSL would have it."""
    from wizard.probes.disks import path_in_wsl

    told = _("There is no model at {path}. Give an existing folder or .gguf file, or a repository id such as Qwen/Qwen3-8B.").format(path=path)
    wsl = machine.wsl if machine is not None and machine.is_wsl2 else None
    inside = path_in_wsl(path, wsl.automount_root) if wsl is not None else None
    return BadInput(sentences(told, _("This is a path of Windows; inside WSL it would be {path}, and nothing lies there.").format(path=inside)) if inside else told)


def id_of_page(source: str) -> str:
    """The repository id in the address of its page; anything else as it is."""
    page = _PAGE.match(source.strip())
    return page[1] if page is not None else source


def model_named(source: str, machine: Machine) -> str:
    """The model as the plan calls it: the id of a page's address, the mounted path of a path on Windows."""
    source = id_of_page(source)
    if re.match(r"[A-Za-z]:[\\/]", source) and machine.system is not SystemKind.WINDOWS:
        given = source.replace("/", "\\")
        for mount in machine.mounts:
            root = (mount.windows_path or "").rstrip("\\")
            if root and (given.lower() + "\\").startswith(root.lower() + "\\"):
                return mount.path.rstrip("/") + given[len(root) :].replace("\\", "/")
    elif machine.is_wsl2 and source.startswith(("\\\\", "//")):
        from wizard.probes.disks import path_in_wsl

        return path_in_wsl(source) or source
    return source


_PAGE = re.compile(
    r"https?://(?:(?:[\w-]+\.)*huggingface\.co|hf\.co|hf-mirror\.com|(?:www\.)?modelscope\.(?:cn|com|ai)/models)/"
    r"(?!(?:datasets|spaces|docs|models|collections)/)([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:[/?#].*)?$"
)


def looks_like_command(text: str) -> bool:
    """Whether somebody gave the command that starts a server where a model is wanted: also behind ``nohup`` and the
    like, or behind what is done before it on the same line."""
    for part in _PARTS.split(text[:_LONGEST_LINE]):
        match = _COMMAND.match(part)
        if match is None:
            continue
        if match["start"]:
            return True
        first = part[match.end() :].split(None, 1)[:1]
        if first and base_of(first[0]) in STARTERS and _START.search(part, match.end()):
            return True
    return False


def holds_command(text: str) -> bool:
    """Whether a line of what was pasted is the command that starts a server, or all of it is a file that starts one."""
    if _STARTING_FILE.search(text) and re.search("vllm", text, re.I):
        return True
    return any(map(looks_like_command, text.splitlines()))


_LONGEST_LINE = 20_000
_PARTS = re.compile(r"&&|;")
_STARTS = r"(?:\S*/)?(?:vllm\s+serve(?!\S)|docker\s+(?:container\s+)?run(?!\S)|(?:podman|nerdctl)\s+run(?!\S)|python[\d.]*\s+-m\s+vllm\b)"
_COMMAND = re.compile(rf"\s*(?:[$#>]\s+)?(?:[A-Za-z_]\w*=\S*\s+)*(?P<start>(?:sudo\s+(?:[A-Za-z_]\w*=\S*\s+)*)?{_STARTS})?")
_START = re.compile(rf"(?<!\S)[\"']?{_STARTS}")
_STARTING_FILE = re.compile(r"^(?:services|apiVersion)[ \t]*:", re.M)  # of Compose, of Kubernetes


def is_repo_id(source: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", source) is not None and ".." not in source


def expand(path: str, home: str) -> str:
    """``~`` replaced by the machine's home; the rest as it stands."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


# -- answers files ---------------------------------------------------------------------------------------------

FORMAT = 1
_TABLES = ("format", "chosen", "answers", "nodes", "cluster")  # what stands at the top; the last two list machines
_OF_A_KEPT_WALK = ("step", "saved", "secrets")  # beside these, in the file that the next start goes on from


def dump_answers(values: Mapping[str, Value], *, heading: str, chosen: Iterable[str] | None = None) -> bytes:
    """An answers file (TOML). Secrets are refused: they never stand in one.

    ``chosen`` names the keys that the user decided; the others were proposed by the wizard. None: all were chosen.
    """
    import tomli_w

    for key in values:
        if key in SECRET_KEYS:
            raise ValueError(f"{key} is a secret and is never written to an answers file")
    table = {k: (list(v) if isinstance(v, tuple) else v) for k, v in sorted(values.items())}
    text = "".join(f"# {line}\n" for line in heading.splitlines())
    document: dict[str, Any] = {"format": FORMAT}
    if chosen is not None:
        document["chosen"] = sorted(chosen)
        text += "# " + _("chosen: which of the answers were given by hand; the others were proposed.") + "\n"
    return (text + "\n" + tomli_w.dumps({**document, "answers": table})).encode()


def load_pinned(data: bytes) -> frozenset[str]:
    """The keys of an answers file (one that ``load_answers`` has read) that its user had not chosen."""
    document = _toml(data)
    chosen, table = document.get("chosen"), document.get("answers", {})
    if not isinstance(chosen, list):
        return frozenset()
    return frozenset(table) - {x for x in chosen if isinstance(x, str)}


def _toml(data: bytes) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(data.decode("utf-8-sig"))


def refuse_unknown(document: Mapping[str, Any], name: str) -> None:
    """A key at the top of an answers file that nothing reads: a slip there would lose a whole table."""
    import difflib

    for key in document:
        if key not in (*_TABLES, *_OF_A_KEPT_WALK):
            near = difflib.get_close_matches(key, _TABLES, 1, 0.6)
            told = _("{name} has no place for “{key}”: at its top it may hold {known}.").format(name=name, key=key, known=listed(_TABLES))
            raise BadInput(sentences(told, _("Did you mean {names}?").format(names=near[0]) if near else ""))


def load_answers(data: bytes, name: str) -> dict[str, Value]:
    """The answers of a file written by any version of the wizard; wrong ones are named by line or key."""
    try:
        document = _toml(data)
    except UnicodeDecodeError as error:
        raise BadInput(
            _("{name} is not UTF-8 text (byte {at}).").format(name=name, at=error.start)
        ) from error
    except ValueError as error:
        raise BadInput(_("{name} is not valid TOML: {error}").format(name=name, error=error)) from error
    version = document.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise BadInput(
            _(
                "{name} was written by a newer vllm-wizard (format {version}). Update vllm-wizard, or start anew without this file."
            ).format(name=name, version=version)
        )
    chosen = document.get("chosen", [])
    if not isinstance(chosen, list) or not all(isinstance(key, str) for key in chosen):
        raise BadInput(_("{name}: “chosen” must be a list of the keys that you decided.").format(name=name))
    if "answers" in document or "nodes" in document:
        refuse_unknown(document, name)
    else:
        raise BadInput(
            _("{name} holds no answers: they stand below a line [answers], as in the answers.toml that vllm-wizard writes.").format(
                name=name
            )
        )
    table = document.get("answers", {})
    if not isinstance(table, dict):
        raise BadInput(_("{name}: “answers” must be a table.").format(name=name))
    answers: dict[str, Value] = {}
    for key, value in table.items():
        if key in SECRET_KEYS:
            raise BadInput(
                _(
                    "{name}: “{key}” is a secret and may not stand in an answers file. Put it into the environment variable {variable}."
                ).format(name=name, key=key, variable=SECRET_ENV[key])
            )
        if isinstance(value, list) and all(isinstance(x, str) or type(x) is int for x in value):
            answers[key] = tuple(str(x) for x in value)
        elif isinstance(value, (str, int, float, bool)):
            answers[key] = value
        else:
            raise BadInput(
                _(
                    "{name}: the value of “{key}” must be text, a number, true or false, or a list of texts or whole numbers."
                ).format(name=name, key=key)
            )
    return answers
