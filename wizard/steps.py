"""The wizard's table of contents: every question is declared here once.

The TUI maps a question's kind to a widget, the plain walk to a prompt, the command line to
``--set key=value``, and JSON dumps the table. A question's default is what the plan decides for its key,
with the plan's reason; so all faces propose the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from wizard.counts import LONGEST, is_longest, parse_count
from wizard.errors import BadInput
from wizard.facts import Severity
from wizard.i18n import N_, _, listed, ngettext, sentence, sentences
from wizard.plan_types import Choice, Plan
from wizard.session import SECRET_KEYS, Layer, Session, Value, expand, is_repo_id, looks_like_path

if TYPE_CHECKING:
    from wizard.facts import Machine
    from wizard.releases.types import ArgProblem

Kind = Literal["text", "path", "int", "float", "bool", "choice", "multi", "list", "secret", "model"]


def _always(plan: Plan) -> bool:
    return True


def _no_error(plan: Plan, value: Value) -> str | None:
    return None


@dataclass(frozen=True)
class Question:
    """One question. ``label`` and ``help`` are marked with N_ and translated where they are shown."""

    key: str
    label: str
    kind: Kind
    help: str
    check: Callable[[Plan, Any], str | None] = _no_error  # an error text for a value, or None
    when: Callable[[Plan], bool] = _always  # whether it is asked
    secret: bool = False
    unit: str = ""  # shown behind the field: "GiB"
    minimum: float | None = None
    maximum: float | None = None
    optional: bool = False  # may be left empty
    asked_first: bool = False  # asked in plain lines though it may be left empty: others of its step follow from it
    advanced: bool = False  # folded away at first
    default: Value | None = None  # in force where the plan decides nothing for the key
    offered: tuple[tuple[str, str, str], ...] = ()  # the choices where the plan has none of its own: (value, label, note)

    def choices(self, plan: Plan) -> tuple[Choice, ...]:
        if self.offered and self.key not in plan.choices:
            return tuple(Choice(v, _(label), _(note) if note else "", recommended=v == self.default) for v, label, note in self.offered)
        return plan.choices.get(self.key, ())

    def current(self, plan: Plan) -> Value | None:
        """The value in force: the answer, or what the plan decided."""
        return None if self.secret else plan.value(self.key, self.default)

    def error(self, plan: Plan, value: Any) -> str | None:
        """Why ``value`` (of the right type) cannot be taken, or None."""
        if value in ("", ()) or value is None:
            return None if self.optional else _("This may not be left empty.")
        if self.kind in ("int", "float") and not isinstance(value, (bool, str)):
            if self.minimum is not None and value < self.minimum:
                return _("Must be at least {minimum}.").format(minimum=number_text(self.minimum))
            if self.maximum is not None and value > self.maximum:
                return _("Must be at most {maximum}.").format(maximum=number_text(self.maximum))
        if self.kind == "choice":
            known = self.choices(plan)
            hit = next((c for c in known if c.value == str(value)), None)
            if known and hit is None:
                return _("Must be one of: {names}.").format(names=", ".join(c.value for c in known))
            if hit is not None and hit.disabled:
                return hit.against
        return self.check(plan, value)


@dataclass(frozen=True)
class Step:
    id: str
    title: str
    intro: str
    questions: tuple[Question, ...]
    when: Callable[[Plan], bool] = _always


def number_text(x: float) -> str:
    """A limit in full: no power of ten, no ".0"."""
    return f"{x:.16g}"


# -- checks ---------------------------------------------------------------------------------------------------


def _check_model(plan: Plan, value: str) -> str | None:
    if looks_like_path(value) or is_repo_id(value):
        return None
    return _("Give a full path (starting with / or ~) or a repository id such as Qwen/Qwen3-8B.")


def _check_absolute(plan: Plan, value: str) -> str | None:
    path = expand(value, plan.machine.home)
    if not path.startswith("/") and not (len(path) > 2 and path[1] == ":"):
        return _("Give a full path, starting with / or ~.")
    if "\0" in path:
        return _("A path cannot hold a zero byte.")
    return None


def _check_move_to(plan: Plan, value: str) -> str | None:
    wrong = _check_absolute(plan, value)
    if wrong:
        return wrong
    mount = plan.machine.mount_of(expand(value, plan.machine.home))
    if mount is not None and mount.kind.value in ("windows-drive", "network"):
        return _(
            "{path} lies on a slow mount as well ({source}). Choose a folder in the Linux file system, such as ~/models."
        ).format(path=value, source=mount.source)
    return None


def _check_port(plan: Plan, value: int) -> str | None:
    if value in plan.machine.used_ports:
        return _("Port {port} is in use on this machine. Take another, such as {free}.").format(
            port=value, free=free_port(plan)
        )
    return None


def free_port(plan: Plan) -> int:
    """The first port from 8000 on that nothing listens on."""
    return next(p for p in range(8000, 65535) if p not in plan.machine.used_ports)


def _check_secret(plan: Plan, value: str) -> str | None:
    # Docker, Compose and bash read an environment file differently except for these characters.
    if not all(c.isascii() and (c.isalnum() or c in "-_.:/+=@~") for c in value):
        return _(
            "Only letters, digits and - _ . : / + = @ ~ can stand in an environment file that Docker, Compose and bash all read alike."
        )
    return None


def _check_processors(plan: Plan, value: int) -> str | None:
    wsl = plan.machine.wsl
    there = wsl.host_logical_cpus.value if wsl is not None else None
    if there is None or value <= there:
        return None
    return _("Windows has {count} logical processors: take 1 to {count}, or 0 for all of them.").format(count=there)


def _check_wsl_memory(plan: Plan, value: int) -> str | None:
    there = plan.wsl.host_ram_bytes if plan.wsl is not None else None
    if there is None or value * GIB <= there:
        return None
    return _("Windows has only {there:.1f} GiB: take less, so that some is left for it.").format(there=there / GIB)


def _check_host_memory(plan: Plan, value: float) -> str | None:
    """WSL2 sees a part of Windows' memory: less than that, or a great many times as much, is a slip."""
    seen = plan.machine.memory.total_bytes.value
    if seen is None:
        return None
    if value * GIB < seen * 0.98:
        return _("WSL2 alone has {seen:.1f} GiB of it: Windows must have more.").format(seen=seen / GIB)
    if value * GIB > seen * MOST_TIMES_WSL:
        return _("WSL2 sees {seen:.1f} GiB, and by itself it takes half: {value:g} GiB cannot be. Look again.").format(
            seen=seen / GIB, value=value
        )
    return None


def _check_image(plan: Plan, value: str) -> str | None:
    return None if re.fullmatch(IMAGE_NAME, value.strip()) else _("An image is written as name:tag.")


def _check_adapters(plan: Plan, value: tuple[str, ...]) -> str | None:
    for item in value:
        name, _sep, path = item.partition("=")
        if not name or not path:
            return _("“{item}”: write each adapter as name=path.").format(item=item)
    return None


def _check_name(plan: Plan, value: str) -> str | None:
    if value.startswith("-"):
        return _("A name may not begin with “-”: vLLM would take it for an option.")
    return _("A name may not hold white space.") if any(c.isspace() for c in value) else None


def _check_length(plan: Plan, value: int | str) -> str | None:
    longest = plan.model.max_model_len if plan.model is not None else None
    if longest and value != LONGEST and int(value) > longest:
        return _("The model's own maximum is {longest} tokens.").format(longest=longest)
    return None


def _check_parallel(plan: Plan, value: int) -> str | None:
    count = len(plan.machine.gpu.gpus)
    if value > count:
        return ngettext("There is only {count} GPU.", "There are only {count} GPUs.", count).format(count=count)
    heads = plan.model.num_heads if plan.model is not None else None
    if heads and heads % value:
        return _("The model's {heads} attention heads cannot be divided by {value}.").format(
            heads=heads, value=value
        )
    return None


def unknown_gpus(machine: Machine, value: Value) -> str | None:
    """Which of the GPUs named are not there, and which are; None where all are. All of them are meant by none."""
    known = [str(g.index) for g in machine.gpu.gpus if g.vram_total_bytes.value]
    wrong = [v for v in value if v not in known] if isinstance(value, tuple) else []
    if not wrong:
        return None
    if not known:
        return _("There is no GPU {index}: this machine has none that can be used.").format(index=", ".join(wrong))
    return _("There is no GPU {index}; there are: {known}.").format(index=", ".join(wrong), known=", ".join(known))


def _check_gpus(plan: Plan, value: tuple[str, ...]) -> str | None:
    # Where none is seen, that stands in the way and is said by the plan.
    return unknown_gpus(plan.machine, value) if plan.machine.gpu.gpus else None


def _on_gpu(plan: Plan) -> bool:
    return plan.device != "cpu"


def _docker(plan: Plan) -> bool:
    return plan.runtime == "docker"


def _local(plan: Plan) -> bool:
    return plan.runtime == "local"


def _generates(plan: Plan) -> bool:
    return plan.model is not None and plan.model.task == "generate"


def _many_gpus(plan: Plan) -> bool:
    return len(plan.machine.gpu.gpus) > 1


def _is_wsl2(plan: Plan) -> bool:
    return plan.machine.system.value == "wsl2"


def _has_images(plan: Plan) -> bool:
    return plan.model is not None and "image" in plan.model.modalities


def _has_video(plan: Plan) -> bool:
    return plan.model is not None and "video" in plan.model.modalities


def nothing_runs_here(plan: Plan) -> bool:
    """Whether the machine itself stands in the way of any model, so that nothing else is worth asking."""
    return plan.model is None and any(p.severity is Severity.BLOCKER for p in plan.machine.problems)


def _something_runs(plan: Plan) -> bool:
    return not nothing_runs_here(plan)


def _has_model(plan: Plan) -> bool:
    return plan.model is not None


def _is_planned(plan: Plan) -> bool:
    return bool(plan.argv)


def _network(plan: Plan) -> bool:
    return bool(plan.value("access") == "network")


def _slow_model(plan: Plan) -> bool:
    return plan.move is not None


def _move_wanted(plan: Plan) -> bool:
    return plan.move is not None and plan.move.wanted


def _wsl_host_unknown(plan: Plan) -> bool:
    wsl = plan.machine.wsl
    return _is_wsl2(plan) and wsl is not None and not wsl.host_memory_bytes.known


def _wsl_cpus_unknown(plan: Plan) -> bool:
    wsl = plan.machine.wsl
    return _is_wsl2(plan) and wsl is not None and not wsl.host_logical_cpus.known


def _run_on(plan: Plan) -> str:
    return str(plan.value("run_on", "this"))


def _spreads(plan: Plan) -> bool:
    """Whether more than one server or machine is worth a question: several GPUs, or a model that does not fit."""
    return _many_gpus(plan) or (plan.fit is not None and not plan.fit.fits)


def _over_nodes(plan: Plan) -> bool:
    return _run_on(plan) in OVER_NODES


def _as_replicas(plan: Plan) -> bool:
    return _run_on(plan) == "replicas"


def _in_kubernetes(plan: Plan) -> bool:
    return _run_on(plan) == "kubernetes"


def _in_copies(plan: Plan) -> bool:
    return _as_replicas(plan) or _in_kubernetes(plan)


def _check_namespace(plan: Plan, value: str) -> str | None:
    plain = value.replace("-", "a")
    if len(value) <= 63 and plain.isascii() and plain.isalnum() and value == value.lower().strip("-"):
        return None
    return _("Lower-case letters, digits and - can stand there, 63 at most.")


GIB = 1 << 30
# A .wslconfig may give WSL2 far less than half of the memory; more than so many times its share is no such machine.
MOST_TIMES_WSL = 64
# [registry[:port]/]path[:tag][@digest], as Docker reads it: https://github.com/distribution/reference
_PART = r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*"
IMAGE_NAME = rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@[A-Za-z0-9+._-]+:[0-9a-fA-F]{{32,}})?"

# Where a server can run; what is written for each is the cluster room's.
RUN_ON: tuple[tuple[str, str, str], ...] = (
    ("this", N_("This machine"), N_("one server")),
    ("replicas", N_("Several servers here"), N_("each with its own GPUs, behind a router")),
    ("nodes-native", N_("Several machines"), N_("vLLM's own multi-node start")),
    ("nodes-ray", N_("Several machines with Ray"), N_("a Ray cluster, started by the scripts")),
    ("kubernetes", N_("Kubernetes"), N_("manifests and chart values")),
)
HERE = ("this", "replicas")  # the answers with which it runs on this machine, and is written for its WSL2
OVER_NODES = ("nodes-native", "nodes-ray")
CLUSTER_KEYS = ("run_on", "nodes_file", "replicas", "router", "namespace", "storage")


MACHINE = Step(
    "machine",
    N_("This machine"),
    N_("What was found here, and what stands in the way of serving a model."),
    (
        Question(
            "gpus",
            N_("GPUs to use"),
            "multi",
            N_("The GPUs that vLLM may use. All GPUs of one kind are taken unless you say otherwise."),
            check=_check_gpus,
            when=_many_gpus,
            optional=True,
        ),
    ),
)

MODEL = Step(
    "model",
    N_("Model"),
    N_(
        "Which model will be served: one that lies on this machine, or one that is downloaded at the first start."
    ),
    (
        Question(
            "model",
            N_("Model"),
            "model",
            N_(
                "A model found on this machine, a recipe, a folder or .gguf file, or a repository id (owner/name)."
            ),
            check=_check_model,
        ),
    ),
    when=_something_runs,
)

MOVE = Step(
    "move",
    N_("Move it"),
    N_(
        "The model lies on a slow drive. vLLM maps its files while loading; from a Windows or network drive that takes minutes, and it may look like a hang."
    ),
    (
        Question(
            "move",
            N_("Copy the model to the Linux file system"),
            "bool",
            N_(
                "Copies and verifies every byte. The original stays where it is; you can delete it afterwards, with a separate command."
            ),
        ),
        Question(
            "move_to",
            N_("Copy to"),
            "path",
            N_("A folder in the Linux file system (not under a Windows drive)."),
            check=_check_move_to,
            when=_move_wanted,
        ),
    ),
    when=_slow_model,
)

# The first is asked on this step where it matters, else among what is rarely needed of the step before.
_WHERE: tuple[Question, ...] = (
    Question(
        "run_on",
        N_("Where will it run"),
        "choice",
        N_("On this machine, on several machines that hold the model together, as several servers, or in Kubernetes."),
        default="this",
        offered=RUN_ON,
        when=_spreads,
    ),
    Question(
        "nodes_file",
        N_("File with the nodes"),
        "path",
        N_("A file that lists the machines, each as [[nodes]] with name, address and machine (a folder of vllm-wizard record). “vllm-wizard help nodes” shows one."),
        check=_check_absolute,
        when=_over_nodes,
        optional=True,
    ),
    Question(
        "replicas",
        N_("How many servers"),
        "int",
        N_(
            "Copies that share the requests. Left empty: on one machine as many as its GPUs have room for, and two at least; in Kubernetes as many as the listed nodes have room for, or one."
        ),
        minimum=1,
        maximum=64,
        when=_in_copies,
        optional=True,
    ),
    Question(
        "router",
        N_("Router"),
        "choice",
        N_("What shares the requests among the servers."),
        when=_as_replicas,
        default="nginx",
        offered=(
            ("nginx", N_("nginx"), N_("the server with the fewest requests gets the next")),
            ("vllm-router", N_("vLLM router"), N_("requests that begin alike go to the same server")),
        ),
    ),
    Question(
        "namespace",
        N_("Namespace"),
        "text",
        N_("The Kubernetes namespace that everything is put into."),
        check=_check_namespace,
        when=_in_kubernetes,
        default="vllm",
    ),
    Question(
        "storage",
        N_("Where the model lies"),
        "choice",
        N_("A volume of the cluster, or the same folder on every node."),
        when=_in_kubernetes,
        default="pvc",
        offered=(
            ("pvc", N_("A volume (PersistentVolumeClaim)"), ""),
            ("hostpath", N_("A folder on the nodes (hostPath)"), ""),
        ),
    ),
)


RUNTIME = Step(
    "runtime",
    N_("vLLM version"),
    N_("Which vLLM release serves the model, and how it is run."),
    (
        Question(
            "runtime",
            N_("How to run it"),
            "choice",
            N_(
                "Docker uses the official image with everything in it. A local environment is made with uv or pip."
            ),
        ),
        Question(
            "release",
            N_("vLLM release"),
            "choice",
            N_(
                "The newest release that the driver, the GPU and the model allow is proposed. Known faults are named."
            ),
        ),
        Question(
            "image",
            N_("Image"),
            "text",
            N_("Another image than the official one of this release, such as a nightly or your own build."),
            check=_check_image,
            when=_docker,
            optional=True,
            advanced=True,
        ),
        Question(
            "venv",
            N_("Environment folder"),
            "path",
            N_("The virtual environment that holds vLLM; made at the first start if it is not there."),
            check=_check_absolute,
            when=_local,
            advanced=True,
        ),
        replace(_WHERE[0], advanced=True, when=lambda p: not _spreads(p)),
    ),
    when=_has_model,
)

WHERE = Step(
    "where",
    N_("Where it runs"),
    N_("On this machine alone, or beyond it: several servers, several machines, Kubernetes. What each way costs stands below."),
    _WHERE,
    when=lambda p: _is_planned(p) and (_spreads(p) or _run_on(p) != "this"),
)

FLAGS = Step(
    "flags",
    N_("Flags"),
    N_("What the server is for. Every flag below follows from it, and each can be set by hand."),
    (
        Question(
            "intent",
            N_("What is it for?"),
            "choice",
            N_("Sets length, concurrency, tool calling and limits for the purpose."),
        ),
        Question(
            "max_model_len",
            N_("Longest context (tokens)"),
            "int",
            N_("Tokens of one request, prompt and answer together. Longer needs more KV cache. auto: the longest that surely fits."),
            check=_check_length,
            minimum=1,
        ),
        Question(
            "max_num_seqs",
            N_("Requests at once"),
            "int",
            N_("How many requests are worked on at the same time, at most."),
            minimum=1,
            maximum=1 << 20,
        ),
        Question(
            "gpu_memory_utilization",
            N_("GPU memory utilization"),
            "float",
            N_("The share of each GPU's total memory that vLLM may use, with all that it needs."),
            minimum=0.05,
            maximum=1.0,
            when=_on_gpu,
        ),
        Question(
            "tensor_parallel_size",
            N_("Tensor parallel size"),
            "int",
            N_("Over how many GPUs each layer is split. Must divide the number of attention heads."),
            check=_check_parallel,
            minimum=1,
            when=_many_gpus,
        ),
        Question(
            "kv_cache_dtype",
            N_("KV cache type"),
            "choice",
            N_("fp8 halves the KV cache where the GPU can do it; auto keeps the model's own type."),
            when=_generates,
        ),
        Question(
            "limit_images",
            N_("Images in one request"),
            "int",
            N_("At most so many. 0 turns images off and frees the memory that is kept for them."),
            minimum=0,
            maximum=999,
            when=_has_images,
        ),
        Question(
            "limit_videos",
            N_("Videos in one request"),
            "int",
            N_("At most so many. 0 turns video off: with a long context some models then start with far less memory."),
            minimum=0,
            maximum=999,
            when=_has_video,
        ),
        Question(
            "tools",
            N_("Tool calling"),
            "bool",
            N_("Lets clients pass tools; needs the parser for this model's format."),
            when=_generates,
        ),
        Question(
            "reasoning",
            N_("Separate the reasoning"),
            "bool",
            N_("Puts the model's thinking into its own field; needs the parser for this model."),
            when=_generates,
        ),
        Question(
            "lora_adapters",
            N_("LoRA adapters"),
            "list",
            N_("name=path for each adapter."),
            check=_check_adapters,
            when=_generates,
            optional=True,
        ),
        Question(
            "served_model_name",
            N_("Name of the model in the API"),
            "text",
            N_("What clients put into “model”."),
            check=_check_name,
        ),
        Question(
            "trust_remote_code",
            N_("Run code that comes with the model"),
            "bool",
            N_(
                "Only for models whose architecture vLLM does not know. Whoever wrote the model's repository then runs code on this machine."
            ),
            advanced=True,
        ),
    ),
    when=_is_planned,
)

WSL = Step(
    "wsl",
    N_("WSL2 resources"),
    N_(
        "WSL2 gets half of the memory of Windows unless .wslconfig says otherwise. Only the lines below are touched; all else in the file stays as it is."
    ),
    (
        Question(
            "host_memory_gib",
            N_("Memory of the Windows machine"),
            "float",
            N_("Could not be read from here. The Task Manager of Windows shows it (Performance, Memory)."),
            check=_check_host_memory,
            minimum=1,
            maximum=65536,
            when=_wsl_host_unknown,
            unit="GiB",
            optional=True,
            asked_first=True,
        ),
        Question(
            "host_cpus",
            N_("Logical processors of the Windows machine"),
            "int",
            N_("Could not be read from here. The Task Manager of Windows shows it (Performance, CPU)."),
            minimum=1,
            maximum=4096,
            when=_wsl_cpus_unknown,
            optional=True,
        ),
        Question(
            "wsl_write", N_("Set WSL2's resources"), "bool", N_("Leave it off to keep .wslconfig as it is.")
        ),
        Question(
            "wsl_memory_gib",
            N_("Memory for WSL2"),
            "int",
            N_("What all distributions and Docker Desktop share."),
            check=_check_wsl_memory,
            minimum=1,
            maximum=65536,
            unit="GiB",
            when=lambda p: bool(p.value("wsl_write")),
        ),
        Question(
            "wsl_swap_gib",
            N_("Swap for WSL2"),
            "int",
            N_("A file on the Windows drive that catches peaks while a model is loaded."),
            minimum=0,
            maximum=4096,
            unit="GiB",
            when=lambda p: bool(p.value("wsl_write")),
        ),
        Question(
            "wsl_processors",
            N_("Processors for WSL2"),
            "int",
            N_("0 leaves the line out: WSL2 then uses all."),
            check=_check_processors,
            minimum=0,
            maximum=4096,
            when=lambda p: bool(p.value("wsl_write")),
            advanced=True,
        ),
        Question(
            "wsl_keep_alive",
            N_("Keep WSL2 running while nobody is logged in"),
            "bool",
            N_(
                "WSL2 stops a while after its last terminal is closed, and the server with it. This turns that off."
            ),
            when=lambda p: bool(p.value("wsl_write")),
        ),
    ),
    when=lambda p: _is_wsl2(p) and _is_planned(p) and _run_on(p) in HERE,
)

ACCESS = Step(
    "access",
    N_("Access"),
    N_("Who may reach the server, and where the Hugging Face token lives."),
    (
        Question(
            "port",
            N_("Port"),
            "int",
            N_("The TCP port of the API."),
            check=_check_port,
            minimum=1,
            maximum=65535,
        ),
        Question(
            "access",
            N_("Who may reach it"),
            "choice",
            N_("Local only is the default. On the network an API key is needed."),
        ),
        Question(
            "api_key",
            N_("API key"),
            "secret",
            N_(
                "Stands in vllm.env only (mode 0600). Left empty, the one that stands there already is kept, or else a random one is made when the files are written."
            ),
            check=_check_secret,
            when=_network,
            secret=True,
            optional=True,
        ),
        Question(
            "hf_token",
            N_("Hugging Face token"),
            "secret",
            N_(
                "Only needed for gated models. It stands in vllm.env only (mode 0600): never in a script, compose file, log or answers file."
            ),
            check=_check_secret,
            secret=True,
            optional=True,
        ),
    ),
    when=_is_planned,
)

REVIEW = Step(
    "review",
    N_("Review"),
    N_("Every file that will be written, with what changes. Nothing is written before you say so."),
    (
        Question(
            "out_dir",
            N_("Write to"),
            "path",
            N_("The folder for launch.sh, compose.yaml, vllm.env and answers.toml."),
            check=_check_absolute,
        ),
    ),
)

STEPS: tuple[Step, ...] = (MACHINE, MODEL, MOVE, RUNTIME, WHERE, FLAGS, WSL, ACCESS, REVIEW)
# What is asked on most machines; shown until this one has answered.
USUAL_STEPS: tuple[Step, ...] = (MACHINE, MODEL, RUNTIME, FLAGS, ACCESS, REVIEW)
QUESTIONS: dict[str, Question] = {q.key: q for s in STEPS for q in s.questions}


def visible_steps(plan: Plan) -> tuple[Step, ...]:
    return tuple(s for s in STEPS if s.when(plan))


def asked(step: Step, plan: Plan) -> tuple[Question, ...]:
    """The questions of ``step`` that the answers so far leave to ask."""
    return tuple(q for q in step.questions if q.when(plan))


def kind_words(kind: Kind) -> str:
    """What an answer of that kind is, in words."""
    return {
        "text": _("text"),
        "path": _("path"),
        "int": _("whole number"),
        "float": _("number"),
        "bool": _("yes or no"),
        "choice": _("one of the choices"),
        "multi": _("numbers, separated by commas"),
        "list": _("texts, separated by commas"),
        "model": _("path or repository id"),
    }.get(kind, kind)


# -- text to value ----------------------------------------------------------------------------------------------


def parse_value(question: Question, text: str, name: str | None = None) -> Value:
    """The value that a text stands for; :class:`BadInput` names the question and the form.

    ``name`` is what the question is called there; None: as the screens call it.
    """
    raw, called = text.strip(), name if name is not None else _(question.label)
    if question.kind == "bool":
        low = raw.lower()
        if low in ("true", "yes", "y", "1", "on"):
            return True
        if low in ("false", "no", "n", "0", "off"):
            return False
        raise BadInput(_("{key}: “{text}” is not yes or no.").format(key=called, text=text))
    if not raw and question.optional and question.kind in ("int", "float"):
        return ""
    if question.key == "max_model_len" and is_longest(raw):
        return LONGEST
    if question.kind == "int":
        if re.fullmatch(r"-?\d{19,}", raw) and question.maximum is not None:
            raise BadInput(
                _("{key}: must lie between {low} and {high}.").format(
                    key=called, low=number_text(question.minimum or 0), high=number_text(question.maximum)
                )
            )
        return parse_count(called, _without_unit(raw, question))
    if question.kind == "float":
        import math

        try:
            number = float(_without_unit(raw, question).replace(",", "."))
        except ValueError:
            raise BadInput(
                _("{key}: “{text}” is not a number.").format(key=called, text=text)
            ) from None
        if not math.isfinite(number):
            raise BadInput(_("{key}: “{text}” is not a finite number.").format(key=called, text=text))
        return number
    if question.kind == "list":
        return tuple(x.strip() for x in raw.split(",") if x.strip())
    if question.kind == "multi":
        return tuple(dict.fromkeys(x.strip() for x in raw.replace(";", ",").split(",") if x.strip()))
    return raw


def _without_unit(raw: str, question: Question) -> str:
    """A size that was typed with its unit: "64 GB" where GiB are asked for."""
    return re.sub(r"(?i)\s*gi?b?$", "", raw) if question.unit == "GiB" else raw


def value_words(question: Question, plan: Plan, value: Value | None) -> str:
    """A value as the field itself shows it: what can be chosen by its label, the rest with its unit."""
    labels = {c.value: c.label for c in question.choices(plan)}
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, tuple):
        return listed(labels.get(str(v), str(v)) for v in value)
    plain = f"{value:g}" if isinstance(value, float) else str(value)
    return labels.get(str(value)) or (f"{plain} {_(question.unit)}" if question.unit else plain)


def set_answer(session: Session, plan: Plan, key: str, text: str, layer: Layer = Layer.CLI) -> Session:
    """The session with ``key`` answered by ``text`` (a ``--set``). Unknown keys are vLLM options, or errors."""
    name = key.strip().lstrip("-").replace("-", "_")
    if name in SECRET_KEYS:
        raise BadInput(
            _(
                "{key} is a secret: on a command line others could read it. Put it into the environment ({variable}) and add --secrets-from-env."
            ).format(key=key, variable={"hf_token": "HF_TOKEN", "api_key": "VLLM_API_KEY"}[name])
        )
    question = QUESTIONS.get(name)
    if question is not None:
        return session.answer(name, parse_value(question, text), layer)
    if name.startswith("env."):
        return session.answer(_variable(name, text), text, layer)
    release = plan.release
    known: list[str] = sorted(QUESTIONS)
    if release is not None:
        from wizard.releases.parse import switch_text

        flag = "--" + name.replace("_", "-")
        for option in release.options:
            if option.dest == name:
                return session.answer(option.dest, text, layer)
        for option in release.options:
            if flag in option.flags:
                return session.answer(option.dest, switch_text(option, flag, text), layer)
        known += sorted(o.dest for o in release.options)
    import difflib

    if release is not None:
        word = "--" + name.split(".")[0].replace("_", "-")
        for problem in release_problems(["model", word, text], release.version):
            if problem.kind in ("removed", "renamed", "not_yet") and problem.flag.startswith(word):
                raise BadInput(sentences(_("There is no answer called “{key}”.").format(key=key), sentence(problem.message)))
    near = difflib.get_close_matches(name, list(dict.fromkeys(known)), 3)
    hint = _("Did you mean {names}?").format(names=", ".join(near)) if near else ""
    where = _("vLLM {version} has no such option either.").format(version=release.version) if release else ""
    raise BadInput(
        sentences(_("There is no answer called “{key}”.").format(key=key), where, hint)
    )


def release_problems(argv: list[str], version: str) -> list[ArgProblem]:
    """What the catalogue knows of these words in that release."""
    from wizard.releases import check_argv

    return check_argv(argv, version)


def _variable(key: str, text: str) -> str:
    """The key of an environment variable, checked: ``env.NAME``. Secrets and zero bytes are refused."""
    from wizard.session import SECRET_ENV

    name = key[4:]
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or not text.isprintable():
        raise BadInput(_("{key}: write an environment variable as env.NAME=VALUE.").format(key=key))
    if name in SECRET_ENV.values() or name in ("HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN"):
        raise BadInput(_("{name} is a secret: put it into vllm.env.").format(name=name))
    return key


def table() -> list[dict[str, Any]]:
    """The questions as plain data, for ``--json`` and the documentation."""
    return [
        {
            "step": s.id,
            "key": q.key,
            "label": _(q.label),
            "kind": q.kind,
            "help": _(q.help),
            "secret": q.secret,
            "optional": q.optional,
            "unit": q.unit,
        }
        for s in STEPS
        for q in s.questions
    ]
