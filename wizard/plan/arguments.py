"""The command: every flag that the chosen release takes, in the form that it takes, each with its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wizard import releases
from wizard.i18n import _, clause, labelled, sentence, sentences
from wizard.models.info import ModelInfo
from wizard.outputs.quoting import slug
from wizard.plan import runtime as rt
from wizard.plan import values
from wizard.plan.adapters import known_adapters, last_part
from wizard.plan.draft import Draft
from wizard.plan.intents import Intent
from wizard.plan.media import joined
from wizard.plan.sizing import CPU_SPACE, MOST_LORA_SLOTS, OPTION_KEYS, Bed, Sized, text_of
from wizard.plan_types import (
    DEVICE_ORDER,
    VISIBLE_DEVICES,
    FlagRow,
    docker_picks_gpus,
    gpu_variables,
    reason_for_gpus,
)
from wizard.releases.parse import NO, YES, negative_of, switches_off
from wizard.releases.types import ImageInfo, KnownFault, Option, Release
from wizard.session import SECRET_KEYS, Session, Value

if TYPE_CHECKING:
    from wizard.recipes import Recipe, Variant
    from wizard.recipes.args import RecipeArgs

GIB = 1 << 30
# vLLM options that are questions of their own: never taken as plain extra flags.
OWN_DESTS = frozenset(
    {"max_model_len", "max_num_seqs", "gpu_memory_utilization", "tensor_parallel_size", "kv_cache_dtype", "served_model_name", "trust_remote_code", "port", "host", "model"}
)  # fmt: skip
# The ranks that --max-lora-rank takes from 0.11.1 on; before, any of the first six.
LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
CONTAINER_HF_CACHE = "/root/.cache/huggingface"
CONTAINER_VLLM_CACHE = "/root/.cache/vllm"
_SPLIT_GGUF = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)


@dataclass(frozen=True)
class Item:
    """One option of the command."""

    dest: str
    flag: str
    values: tuple[str, ...]
    reason: str
    source: str


@dataclass
class Command:
    """The options in the order in which they are written; one for each dest."""

    release: Release
    draft: Draft
    items: dict[str, Item] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_dest: dict[str, Option] = {o.dest: o for o in self.release.options}

    def option(self, dest: str) -> Option | None:
        return self._by_dest.get(dest)

    def put(
        self, dest: str, values: Iterable[str], reason: str, source: str = "detected", flag: str | None = None
    ) -> bool:
        """Write an option if the release has it."""
        option = self.option(dest)
        if option is None:
            return False
        self.items.pop(dest, None)
        self.items[dest] = Item(dest, flag or option.flag, tuple(values), reason, source)
        return True

    def drop(self, dest: str) -> None:
        self.items.pop(dest, None)

    def set_env(self, name: str, value: str, reason: str, source: str = "detected") -> bool:
        """Set a variable; one of vLLM's own only where the release reads it."""
        if name.startswith("VLLM_") and name not in self.release.env:
            return False
        self.env[name] = value
        self.draft.settle("env." + name, value, reason, source)
        return True

    def argv(self) -> list[str]:
        out: list[str] = []
        for item in self.items.values():
            out += [item.flag, *item.values]
        return out


@dataclass(frozen=True)
class Arguments:
    """The command as it is run here, and the same for a container (Compose is always written)."""

    model: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    container_argv: tuple[str, ...]
    container_env: Mapping[str, str]
    mounts: tuple[tuple[str, str, bool], ...]
    rows: tuple[FlagRow, ...]


def build(
    draft: Draft,
    info: ModelInfo,
    recipe: tuple[Recipe, Variant] | None,
    release: Release,
    image: ImageInfo | None,
    runtime: str,
    device: str,
    intent: Intent,
    sized: Sized,
    lora: tuple[tuple[str, str], ...],
    faults: tuple[KnownFault, ...],
    host_path: str | None,
    extra: Mapping[str, Value],
    bed: Bed,
    made: RecipeArgs | None,
    media: Mapping[str, Any],
) -> Arguments:
    """The command line, its environment and, for Docker, its bind mounts."""
    command = Command(release, draft)
    container_model, mounts = _placed(draft, info, host_path)
    model = container_model if runtime == "docker" else host_path or info.source
    _from_recipe(command, draft, made)
    _names(command, draft, info)
    _task(command, info)
    _sizes(command, draft, info, sized, device, bed)
    _limits(command, draft, info, media)
    _formats(command, draft, info, recipe, intent)
    lora_mounts, modules = _lora(command, draft, info, lora, runtime)
    mounts += lora_mounts
    _hardware(command, draft, info, sized, device, runtime, host_path)
    _environment(command, draft, info, device)
    _faults(command, faults)
    _chosen_environment(command, draft)
    _address(command, draft, runtime)
    _extra(command, draft, extra)
    placed = _own_files(command, draft, extra, runtime)
    mounts += [(host, inside, True) for host, inside in placed.values()]
    for item in command.items.values():
        decision = draft.decisions.get(item.dest)
        if decision is None:
            value: Value | None = True if not item.values else " ".join(item.values)
            draft.settle(item.dest, value, item.reason, item.source, item.flag)
        elif decision.flag is None:
            draft.decisions[item.dest] = replace(decision, flag=item.flag)
    if str(command.env.get("HF_HUB_OFFLINE") or "no").lower() in YES and not info.is_local:
        draft.warn(
            "offline_without_model",
            _("The model is not on this machine, and HF_HUB_OFFLINE forbids to download it."),
            _("The server cannot start so: take a model that lies here, or leave the variable out."),
        )
    argv = (model, *command.argv())
    _verify(draft, argv, release, extra)
    inside = {**command.items}
    env_inside = dict(command.env)
    if docker_picks_gpus(draft.machine, device):
        picking = {VISIBLE_DEVICES[device]} | ({DEVICE_ORDER} if draft.answered("env." + DEVICE_ORDER) is None else set())
        env_inside = {k: v for k, v in env_inside.items() if k not in picking}
    if runtime != "docker":
        inside = {k: v for k, v in inside.items() if k not in ("host", "port")}
        if "lora_modules" in inside:
            inside["lora_modules"] = replace(inside["lora_modules"], values=modules)
        for dest, (_host, place) in placed.items():
            inside[dest] = replace(inside[dest], values=(place,))
    container_argv = (container_model, *(w for item in inside.values() for w in (item.flag, *item.values)))
    return Arguments(model, argv, command.env, container_argv, env_inside, tuple(mounts), _rows(command, lora))


def _placed(draft: Draft, info: ModelInfo, host_path: str | None) -> tuple[str, list[tuple[str, str, bool]]]:
    """The model argument inside a container, and the bind mounts that bring the model and the caches there."""
    home = draft.machine.home
    cache = draft.session.environment.get("HF_HOME") or f"{home}/.cache/huggingface"
    compiled = (f"{home}/.cache/vllm", CONTAINER_VLLM_CACHE, False)
    if host_path is None:
        return info.source, [(cache, CONTAINER_HF_CACHE, False), compiled]
    from wizard.plan import entry_of

    root, inside = entry_of(host_path)
    if _SPLIT_GGUF.search(root) and root.count("/") > 1:
        # vLLM opens the other parts beside the first: the folder is mounted, so that they are there too.
        root, _slash, part = root.rpartition("/")
        inside = f"/{part}"
    name = slug(last_part(root))
    if root.endswith(".gguf") and not name.endswith(".gguf"):
        name += ".gguf"
    return f"/models/{name}{inside}", [(root, f"/models/{name}", True), compiled]


def recipe_part(
    draft: Draft, recipe: tuple[Recipe, Variant] | None, intent: Intent, release: Release
) -> RecipeArgs | None:
    """What the model's recipe gives for this purpose, machine and release; None without a recipe."""
    if recipe is None:
        return None
    from wizard.recipes import Hardware, serve_args
    from wizard.recipes.args import features_for

    features = [
        f
        for f in features_for(recipe[0], recipe[1], intent.key)
        if f not in ("tool_calling", "reasoning", "image_only", "text_only")
    ]
    return serve_args(recipe[0], recipe[1], features, Hardware.of(draft.machine), release)


def memory_settings(
    made: RecipeArgs | None, faults: tuple[KnownFault, ...], session: Session, release: Release
) -> dict[str, str]:
    """Options by dest and variables that come along and may take memory: the recipe's, the cures', the user's own."""
    out: dict[str, str] = {}
    taken = {o: opt for opt in release.options for o in opt.flags}

    def option(flag: str, values: tuple[str, ...]) -> None:
        name, _equals, inline = flag.partition("=")
        found = taken.get(name) or taken.get(name.split(".")[0])
        if found is None or found.dest in OWN_DESTS:
            return
        value = values[0] if values else inline
        if switches_off(found, name):
            value = "false"
        out[found.dest + name[len(name.split(".")[0]) :] if "." in name else found.dest] = value or "true"

    for arg in made.args if made is not None else ():
        option(arg.flag, arg.argv[1:])
    out.update(made.env if made is not None else {})
    for fault in faults:
        out.update(fault.env)
        for flag, value in fault.flags:
            option(flag, () if value is None else (value,))
    if CPU_SPACE in session.environment:
        out[CPU_SPACE] = session.environment[CPU_SPACE]
    for key, answer in session.answers.flat().items():
        if key.startswith("env."):
            out[key[4:]] = text_of(answer)
    return out


def _from_recipe(command: Command, draft: Draft, made: RecipeArgs | None) -> None:
    if made is None:
        return
    taken = {o: opt for opt in command.release.options for o in opt.flags}
    for arg in made.args:
        option = taken.get(arg.flag.split("=")[0]) or taken.get(arg.flag.split(".")[0])
        if option is None or option.dest in OWN_DESTS:
            continue
        reason = arg.reason or _("recommended by the recipe for this model")
        command.put(option.dest, arg.argv[1:], reason, "recipe", arg.flag)
    for name, value in made.env.items():
        command.set_env(
            name,
            value,
            made.env_reasons.get(name, "") or _("recommended by the recipe for this model"),
            "recipe",
        )
    for left in made.left_out:
        instead = _("Instead: {words}.").format(words=" ".join(left.instead)) if left.instead else ""
        draft.notes.append(
            sentences(
                _("The recipe's {what} is left out: {why}.").format(what=left.what, why=clause(left.why)), instead
            )
        )


def _names(command: Command, draft: Draft, info: ModelInfo) -> None:
    name = (info.repo_id or info.source).rstrip("/").rsplit("/", 1)[-1].removesuffix(".gguf") or "model"
    name = "".join(c if c.isprintable() and not c.isspace() else "-" for c in name)
    served = draft.decide(
        "served_model_name", name, _("what clients put into “model”"), flag="--served-model-name"
    )
    command.put("served_model_name", (str(served),), draft.decisions["served_model_name"].reason)
    needed = info.needs_remote_code and info.architecture not in command.release.architectures
    reason = (
        _("vLLM does not know this architecture itself")
        if needed
        else _("vLLM brings its own code for this model")
        if info.architecture is not None
        else _("whether the model needs it is not known here; foreign code only runs when you say so")
    )
    if draft.decide("trust_remote_code", needed, reason, source="detected"):
        command.put("trust_remote_code", (), _("runs code that comes with the model"))
        if needed or info.needs_remote_code:
            draft.warn(
                "remote_code",
                _("The model brings Python code that runs on this machine."),
                _("Only serve it if you trust whoever published it."),
            )
        else:
            draft.warn(
                "remote_code",
                _("Python code that comes with the model may run on this machine (trust_remote_code)."),
                sentences(sentence(reason), _("Without need, leave it off: then none does.")),
            )


def _task(command: Command, info: ModelInfo) -> None:
    """Pooling models are told so: --runner from 0.10 on, --task before."""
    if info.task not in ("embed", "rerank", "classify"):
        return
    reason = _("the model makes vectors or scores, not text")
    if not command.put("runner", ("pooling",), reason):
        command.put(
            "task", ({"embed": "embed", "rerank": "score", "classify": "classify"}[info.task],), reason
        )


def _sizes(command: Command, draft: Draft, info: ModelInfo, sized: Sized, device: str, bed: Bed) -> None:
    def text(key: str) -> str:
        value = draft.decisions[key].value
        return f"{value:g}" if isinstance(value, float) else str(value)

    def why(key: str) -> str:
        return draft.decisions[key].reason

    if device != "cpu":
        if sized.request.tensor_parallel_size > 1:
            command.put("tensor_parallel_size", (text("tensor_parallel_size"),), why("tensor_parallel_size"))
        for key in OPTION_KEYS:
            if key in sized.values and key in draft.decisions:
                value = draft.decisions[key].value
                command.put(key, () if isinstance(value, bool) else (text(key),), why(key))
        command.put(
            "gpu_memory_utilization", (text("gpu_memory_utilization"),), why("gpu_memory_utilization")
        )
    command.put("max_model_len", (text("max_model_len"),), why("max_model_len"))
    if info.task in ("generate", "transcribe"):
        command.put("max_num_seqs", (text("max_num_seqs"),), why("max_num_seqs"))
        if "max_num_batched_tokens" in sized.values:
            tokens, reason = sized.values["max_num_batched_tokens"]
            command.put("max_num_batched_tokens", (str(tokens),), reason)
    if text("kv_cache_dtype") != "auto":
        command.put("kv_cache_dtype", (text("kv_cache_dtype"),), why("kv_cache_dtype"))
    if device == "cpu" and CPU_SPACE in sized.values:
        space, reason = sized.values[CPU_SPACE]
        command.set_env(CPU_SPACE, str(space), reason)


def limits_value(limits: Mapping[str, Any], release: Release) -> str:
    """``--limit-mm-per-prompt`` as the release reads it: key=value up to 0.7.3, JSON from 0.8 on."""
    if rt._key(release.version) < (0, 8):
        return ",".join(f"{k}={v}" for k, v in limits.items())
    return json.dumps(dict(limits))


def _limits(command: Command, draft: Draft, info: ModelInfo, rest: Mapping[str, Any]) -> None:
    """``rest`` is what was given for other kinds, and sizes beside a count."""
    limits: dict[str, int] = {}
    for kind, key in (("image", "limit_images"), ("video", "limit_videos")):
        decision = draft.decisions.get(key)
        if decision is not None and kind in info.modalities and isinstance(decision.value, int):
            limits[kind] = decision.value
    if not limits:
        return
    if limits.get("video") == 0 and limits.get("image"):
        reason = _("no video: the profiling run at start makes no room for one")
    elif all(v == 0 for v in limits.values()):
        reason = _("text only: the memory for images and video is freed")
    else:
        reason = _("memory is reserved for as many as one request may bring")
    command.put("limit_mm_per_prompt", (limits_value(joined(limits, rest), command.release),), reason)


def _formats(
    command: Command, draft: Draft, info: ModelInfo, recipe: tuple[Recipe, Variant] | None, intent: Intent
) -> None:
    """Tool calling and reasoning: only with a parser that the release has."""
    if info.task != "generate":
        return
    facts = recipe[1].facts if recipe else None
    release = command.release
    tool = _first(release.tool_parsers, (facts.tool_parser if facts else None), info.tool_parser)
    reasoning = _first(
        release.reasoning_parsers, (facts.reasoning_parser if facts else None), info.reasoning_parser
    )
    unknown = _("nothing is known of this model's formats") if info.architecture is None else ""
    for key, wanted, parser, no_reason in (
        ("tools", intent.tools, tool, _("vLLM {version} has no tool parser for this model")),
        (
            "reasoning",
            True,
            reasoning,
            _("this model has no reasoning part that vLLM {version} could separate"),
        ),
    ):
        missing = unknown or no_reason.format(version=release.version)
        if parser is None:
            proposed, reason = False, missing
        elif key == "tools":
            proposed, reason = (
                wanted,
                _("its tool format is {parser}").format(parser=parser)
                if wanted
                else _("not needed for this purpose; the parser would be {parser}").format(parser=parser),
            )
        else:
            proposed, reason = wanted, _("its reasoning format is {parser}").format(parser=parser)
        on = draft.decide(key, proposed, reason, source="detected")
        if on and parser is None:
            draft.warn(
                key + "_no_parser",
                _("{what} is left out.").format(
                    what=_("Tool calling") if key == "tools" else _("Separating the reasoning")
                ),
                sentence(missing),
            )
        elif on and key == "tools" and parser is not None:
            command.put("enable_auto_tool_choice", (), _("lets the model decide when to call a tool"))
            command.put("tool_call_parser", (parser,), _("this model's tool format"))
        elif on and parser is not None:
            switch = command.option("enable_reasoning")
            if switch is not None and not switch.deprecated:  # from 0.9.0 on the parser alone turns it on
                command.put("enable_reasoning", (), _("this release wants it beside the parser"))
            command.put("reasoning_parser", (parser,), _("this model's reasoning format"))


def _first(known: Iterable[str], *names: str | None) -> str | None:
    table = set(known)
    return next((n for n in names if n and n in table), None)


def _ranks(release: Release) -> tuple[str, ...] | None:
    option = next((o for o in release.options if o.dest == "max_lora_rank"), None)
    return option.choices if option is not None else None


def lora_rank(
    draft: Draft, info: ModelInfo, lora: tuple[tuple[str, str], ...], release: Release
) -> tuple[int | None, str, int | None]:
    """(the rank to make room for, why, the highest of the adapters); None where the release has none so high."""
    known = known_adapters(draft.session, info)
    ranks = [known[path].rank if path in known else None for _name, path in lora]
    highest = max((r for r in ranks if r), default=None)
    wanted = next((r for r in LORA_RANKS if r >= (highest or 64)), LORA_RANKS[-1])
    if highest and all(ranks):
        reason = _("the highest rank among the adapters is {rank}").format(rank=highest)
    else:
        words = _("the rank of an adapter is not known here; this covers ranks up to {rank}")
        reason = words.format(rank=wanted)
    choices = _ranks(release)
    if not choices or str(wanted) in choices:
        return wanted, reason, highest
    fitting = sorted(int(c) for c in choices if c.isdigit() and int(c) >= (highest or 16))
    return (fitting[0] if fitting else None), reason, highest


def _lora(
    command: Command, draft: Draft, info: ModelInfo, lora: tuple[tuple[str, str], ...], runtime: str
) -> tuple[list[tuple[str, str, bool]], tuple[str, ...]]:
    """Writes the adapters' flags; gives their bind mounts, and name=path as a container sees them."""
    if not lora:
        return [], ()
    mounts: list[tuple[str, str, bool]] = []
    inside, outside = [], []
    for name, path in lora:
        outside.append(f"{name}={path}")
        if path.startswith("/"):
            place = f"/adapters/{slug(name, 'adapter')}"
            # Names that differ in what a path does not keep (capitals, signs) still get a place each.
            if any(taken == place for _host, taken, _ro in mounts):
                place += f"-{len(mounts) + 1}"
            mounts.append((path, place, True))
            inside.append(f"{name}={place}")
        else:
            inside.append(f"{name}={path}")
    modules = inside if runtime == "docker" else outside
    command.put("enable_lora", (), _("serves the adapters beside the base model"))
    command.put("lora_modules", modules, _("clients choose an adapter by its name in “model”"))
    wanted, reason, highest = lora_rank(draft, info, lora, command.release)
    if wanted is None:
        most = max(int(c) for c in (_ranks(command.release) or ("0",)) if c.isdigit())
        words = _("vLLM {version} serves adapters of rank {most} at most; this one has {rank}.")
        draft.block("lora_rank_too_high", words.format(version=command.release.version, most=most, rank=highest))
        wanted = most
    command.put("max_lora_rank", (str(wanted),), reason)
    if len(lora) > 1:
        command.put("max_loras", (str(min(len(lora), MOST_LORA_SLOTS)),), _("so many adapters can be used in one batch"))
    return mounts, tuple(inside)


def _hardware(
    command: Command,
    draft: Draft,
    info: ModelInfo,
    sized: Sized,
    device: str,
    runtime: str,
    host_path: str | None,
) -> None:
    capability = sized.request.compute_capability
    if (
        device == "nvidia"
        and capability
        and rt._key(capability) < (8, 0)
        and info.dtype in ("bfloat16", None)
    ):
        command.put(
            "dtype",
            ("half",),
            _("this GPU has no bfloat16 (compute capability {capability})").format(capability=capability),
        )
    for name, (value, reason) in gpu_variables(draft.machine, device, sized.gpus, reason_for_gpus(draft.decisions, sized.gpus), container=runtime == "docker").items():
        command.set_env(name, value, reason)
    if host_path is not None:
        mount = draft.machine.mount_of(host_path)
        option = command.option("safetensors_load_strategy")
        if (
            mount is not None
            and mount.kind.value in ("windows-drive", "network")
            and option is not None
            and (not option.choices or "prefetch" in option.choices)
        ):
            command.put(
                "safetensors_load_strategy",
                ("prefetch",),
                _("reads the files in order into memory; mapped reads from this drive are far slower"),
            )
    if info.source.endswith(".gguf"):
        draft.warn(
            "gguf_tokenizer",
            _(
                "A GGUF file is served with the tokenizer that is stored in it, which is slow and not always right."
            ),
            _("Better name the original model's: the flag --tokenizer, or --set tokenizer=OWNER/NAME."),
        )


def _environment(command: Command, draft: Draft, info: ModelInfo, device: str) -> None:
    """What the user's own environment says about mirrors and proxies goes along, except secrets."""
    for name in (
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "VLLM_USE_MODELSCOPE",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ):
        value = draft.session.environment.get(name)
        if not value:
            continue
        if "@" in value and "proxy" in name.lower():
            draft.warn(
                "proxy_password",
                _("{name} holds a password and is not written into the files.").format(name=name),
                _("Put it into vllm.env if the server needs it."),
            )
            continue
        command.set_env(name, value, _("as in your environment"))


def _faults(command: Command, faults: tuple[KnownFault, ...]) -> None:
    for fault in faults:
        for name, setting in fault.env.items():
            command.set_env(name, setting, _("cures a known fault: {fault}").format(fault=fault.title))
        for flag, value in fault.flags:
            option = next((o for o in command.release.options if flag in o.flags), None)
            if option is not None:
                reason = _("cures a known fault: {fault}").format(fault=fault.title)
                command.put(option.dest, () if value is None else (value,), reason, "detected", flag)


def _address(command: Command, draft: Draft, runtime: str) -> None:
    """Inside a container the server listens on all addresses; the port mapping decides who reaches it."""
    if runtime == "docker":
        return
    network = draft.decisions["access"].value == "network"
    given = draft.answered("host")
    host = str(given[0]) if given is not None else "0.0.0.0" if network else "127.0.0.1"  # noqa: S104
    command.put("host", (host,), draft.decisions["access"].reason)
    command.put("port", (str(draft.decisions["port"].value),), draft.decisions["port"].reason)


def _chosen_environment(command: Command, draft: Draft) -> None:
    """Variables that the user set by hand (``env.NAME``); an empty one is left out altogether."""
    for key in sorted(draft.session.answers.keys()):
        given = draft.session.answers.get(key)
        if not key.startswith("env.") or given is None:
            continue
        name, value = key[4:], str(given[0])
        if not value:
            draft.used.add(key)
            if command.env.pop(name, None) is not None:
                draft.settle(key, None, _("left out by you"), given[1].value)
        elif name in VISIBLE_DEVICES.values():
            draft.used.add(key)
            draft.warn(
                "gpus_by_variable",
                _("{name} is not written: which GPUs are used is an answer of its own.").format(name=name),
                _("Choose them on the step “This machine”, or with --set gpus=0,1."),
            )
        elif command.set_env(name, value, _("chosen by you"), given[1].value):
            draft.used.add(key)


def _extra(command: Command, draft: Draft, extra: Mapping[str, Value]) -> None:
    """Flags that the user set by hand; they win over everything."""
    for dest, value in extra.items():
        option = command.option(dest)
        if option is None:
            continue
        layer = draft.session.answers.get(dest)
        source = layer[1].value if layer else "user"
        why = values.wrong(option, text_of(value), command.release)
        if why is not None:
            draft.block(
                "bad_value",
                _("The answer “{key}” cannot be “{value}”.").format(key=dest, value=text_of(value)),
                why,
            )
            continue
        text = (
            value
            if isinstance(value, str)
            else (
                "true"
                if value is True
                else "false"
                if value is False
                else ",".join(value)
                if isinstance(value, tuple)
                else str(value)
            )
        )
        from wizard.releases.help import help_for

        words = help_for(dest)
        off = option.kind in ("flag", "optional_flag") and text.lower() in NO
        chosen = _("turned off by you") if off else _("chosen by you")
        chosen = labelled(chosen, clause(words.meaning)) if words is not None else chosen
        if option.kind in ("flag", "optional_flag") and text.lower() in YES:
            command.put(dest, (), chosen, source)
        elif off:
            twin = negative_of(option)
            if twin is not None:
                command.put(dest, (), chosen, source, twin)
            elif option.action == "StoreBoolean":
                command.put(dest, ("false",), chosen, source)
            else:
                command.drop(dest)
                draft.settle(dest, False, chosen, source)
        elif option.nargs in ("*", "+"):
            command.put(
                dest,
                (text.split(",") if not text.lstrip().startswith(("{", "[")) else [text]),
                chosen,
                source,
            )
        else:
            command.put(dest, (text,), chosen, source)


def _own_files(
    command: Command, draft: Draft, extra: Mapping[str, Value], runtime: str
) -> dict[str, tuple[str, str]]:
    """Files that the user's own options name: dest -> (path here, path in a container); written as it is run."""
    out: dict[str, tuple[str, str]] = {}
    for dest, value in extra.items():
        item = command.items.get(dest)
        path = values.path_of(dest, text_of(value), draft.machine.home)
        if item is None or path is None or len(item.values) != 1:
            continue
        place = f"/given/{dest}/{slug(path.rstrip('/').rsplit('/', 1)[-1], 'file')}"
        if dest == "allowed_local_media_path":
            place = path  # clients name files below it, so it has to be called alike inside
        out[dest] = (path, place)
        command.items[dest] = replace(item, values=(place if runtime == "docker" else path,))
    return out


def _verify(draft: Draft, argv: tuple[str, ...], release: Release, extra: Mapping[str, Value]) -> None:
    """The command is held against the release's own rules: what its parser refuses is never written."""
    for problem in releases.check_argv(list(argv), release.version):
        if problem.kind in ("ok", "deprecated"):
            continue
        draft.block(
            "flag_refused",
            _("vLLM {version} refuses {flag}.").format(version=release.version, flag=problem.flag),
            problem.message,
        )


def _rows(command: Command, lora: tuple[tuple[str, str], ...]) -> tuple[FlagRow, ...]:
    """The single flags that the flags step lists: those with a meaning in our words, that the release has."""
    from wizard.releases.help import HELP

    rows = []
    for dest, entry in HELP.items():
        option = command.option(dest)
        # A secret is never a flag, and the model is no single flag.
        if option is None or dest in SECRET_KEYS or dest in ("model", "config"):
            continue
        item = command.items.get(dest)
        value = None if item is None else " ".join(item.values)
        if item is not None and not item.values:
            value = "false" if switches_off(option, item.flag) else "true"
        if item is not None and dest == "lora_modules":
            # What is edited is the place on this machine, not the one inside a container.
            value = " ".join(f"{name}={path}" for name, path in lora) or value
        rows.append(
            FlagRow(
                dest=dest,
                flag=option.flag,
                meaning=_(entry.meaning),
                default="" if option.default is None else str(option.default),
                value=value,
                memory=_(entry.memory) if entry.memory else "",
                kind=option.kind,
                choices=option.choices or (),
                reason=item.reason if item else "",
            )
        )
    return tuple(rows)
