"""What a plan is: every decision with its reason, the command, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wizard.facts import Machine, Problem, Vendor
from wizard.fit_types import FitRequest, FitResult
from wizard.i18n import _, clauses, labelled, ngettext
from wizard.models.info import ModelInfo
from wizard.releases.types import ImageInfo, Release

if TYPE_CHECKING:
    from wizard.outputs.wslconfig import WslAdvice
    from wizard.session import Session, Value

Notice = Problem  # a warning or blocker of a plan has the same shape as a machine's problem


WAY_IMPOSSIBLE = "way_impossible"  # the code of a blocker: it cannot run where, or in as many servers as, was asked for

# The variable that names the GPUs that a process sees, by device; an environment of its own is given it.
VISIBLE_DEVICES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}
DEVICE_ORDER = "CUDA_DEVICE_ORDER"


def docker_picks_gpus(machine: Machine, device: str) -> bool:
    """Whether Docker can give a container some of the GPUs only: under WSL2 one gets all of them, whatever is asked
    for, and an AMD GPU comes with the others."""
    return device == "nvidia" and not machine.is_wsl2


def reason_for_gpus(decisions: Mapping[str, Decision], gpus: tuple[int, ...]) -> str:
    """Why a plan uses these GPUs: the choice of them where it takes all that were chosen, else what it takes fewer
    for."""
    offered = decisions.get("gpus")
    if offered is not None and offered.value == tuple(str(i) for i in gpus):
        return offered.reason
    split = [decisions[k] for k in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size") if k in decisions]
    told = next((d for d in split if str(d.value) not in ("1", "None")), split[0] if split else None)
    return told.reason if told is not None else ""


def some_gpus(machine: Machine, gpus: tuple[int, ...], why: str) -> str:
    """That only some GPUs of the machine are used, and why."""
    told = ngettext("{n} of {all} GPUs is used", "{n} of {all} GPUs are used", len(gpus)).format(n=len(gpus), all=len(machine.gpu.gpus))
    return labelled(told, why) if why else told


def gpu_variables(machine: Machine, device: str, gpus: tuple[int, ...], why: str, *, container: bool) -> dict[str, tuple[str, str]]:
    """The variables that leave a process only ``gpus`` of the machine, each with its reason (``why`` it is those); none
    where it takes all of them, or where Docker picks them for its container."""
    partly = gpus and len(gpus) < len(machine.gpu.gpus)
    if not partly or device not in VISIBLE_DEVICES or (container and docker_picks_gpus(machine, device)):
        return {}
    reason = some_gpus(machine, gpus, why)
    if container:
        reason = clauses([reason, _("the container itself is given all of them, since Docker cannot pick some here")])
    made = {VISIBLE_DEVICES[device]: (",".join(str(i) for i in gpus), reason)}
    if device == "nvidia" and len({g.name for g in machine.gpu.gpus if g.vendor is Vendor.NVIDIA}) > 1:
        made[DEVICE_ORDER] = ("PCI_BUS_ID", _("counts the GPUs as nvidia-smi does; else CUDA puts the fastest first"))
    return made


def own_environment(home: str, version: str) -> str:
    """The virtual environment that this program makes for a release; nobody else has a use for it."""
    return f"{home}/.local/share/vllm-wizard/vllm-{version}"


@dataclass(frozen=True)
class Decision:
    """One thing decided: by the user, or by the wizard with its reason."""

    key: str  # the question's key, or a vLLM option's dest
    value: Value | None
    reason: str  # a sentence for people
    source: str  # "user" "cli" "file" "recipe" "detected" "default"
    flag: str | None = None  # the vLLM flag that it became, if any
    proposed: Value | None = None  # what the wizard would have taken, when the user chose otherwise
    chosen: bool = False  # an answer that differs from what the wizard would have taken


@dataclass(frozen=True)
class Choice:
    """One possible answer, with why and what speaks against it."""

    value: str
    label: str
    note: str = ""  # why one would take it
    against: str = ""  # what speaks against it
    recommended: bool = False
    disabled: bool = False  # cannot work on this machine; ``against`` says why


@dataclass(frozen=True)
class MovePlanHint:
    """The model lies on a slow mount."""

    source: str
    destination: str
    size_bytes: int | None
    mount_kind: str
    seconds: float | None
    reason: str
    wanted: bool


@dataclass(frozen=True)
class FlagRow:
    """One single flag that can be set in the flags step."""

    dest: str
    flag: str
    meaning: str
    default: str  # vLLM's default of this release, as text
    value: str | None  # what the plan writes; None: not written
    memory: str  # its effect on memory, in words
    kind: str
    choices: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """Something to type after the files are written."""

    title: str
    commands: tuple[str, ...]
    where: str = "linux"  # "linux" "linux-new" (the terminal before has ended) "powershell" "powershell-admin"
    consequence: str = ""
    key: str = ""  # names a step that falls away under a condition: "copy_wslconfig"


@dataclass(frozen=True)
class Plan:
    session: Session
    machine: Machine
    device: str  # "nvidia" "amd" "cpu" "none"
    model: ModelInfo | None
    model_argument: str | None  # what vLLM is given as the model (inside the container when Docker is used)
    host_model_path: str | None  # the folder or file on the host that holds it, after a move
    runtime: str  # "docker" "local"
    release: Release | None
    image: ImageInfo | None
    image_reference: str | None
    argv: tuple[str, ...]  # what follows `vllm serve`, the model first
    env: Mapping[str, str]
    decisions: tuple[Decision, ...]
    warnings: tuple[Notice, ...] = ()
    blockers: tuple[Notice, ...] = ()
    fit: FitResult | None = None
    fit_request: FitRequest | None = None  # what ``fit`` was computed for
    gpus: tuple[int, ...] = ()  # indices used
    gpus_reason: str = ""  # why those, where the machine has more
    move: MovePlanHint | None = None
    wsl: WslAdvice | None = None
    wsl_changes: Mapping[str, str | None] = field(default_factory=dict)  # for .wslconfig: key -> value
    choices: Mapping[str, tuple[Choice, ...]] = field(default_factory=dict)
    flag_rows: tuple[FlagRow, ...] = ()
    container_argv: tuple[str, ...] = ()  # the same for a container: paths inside it, no host and port
    container_env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[tuple[str, str, bool], ...] = ()  # its bind mounts: (host, container, read only)
    notes: tuple[str, ...] = ()
    after: tuple[Step, ...] = ()  # what to type next, in order
    recipe_id: str | None = None
    secrets_wanted: tuple[str, ...] = ()  # "hf_token", "api_key"
    docker_lacks: str = ""  # what keeps Docker here from the image of compose.yaml, beside a local environment
    copies: int = 1  # servers of this plan that run side by side; more than one in a walk over several servers
    compose_image: str | None = None  # that image, where it is another than ``image_reference``

    def decision(self, key: str) -> Decision | None:
        for item in self.decisions:
            if item.key == key:
                return item
        return None

    def value(self, key: str, default: Any = None) -> Any:
        item = self.decision(key)
        return default if item is None or item.value is None else item.value

    def reason(self, key: str) -> str:
        item = self.decision(key)
        return item.reason if item else ""

    @property
    def picked_by_docker(self) -> tuple[int, ...]:
        """The GPUs that Docker is told to give to the container; empty: all of them."""
        partly = len(self.gpus) < len(self.machine.gpu.gpus)
        return self.gpus if partly and docker_picks_gpus(self.machine, self.device) else ()

    @property
    def offload_gib(self) -> int:
        """How much of the weights each GPU leaves in RAM; 0: all of them lie on the GPU."""
        return self.fit_request.cpu_offload_bytes // (1 << 30) if self.fit_request is not None else 0

    @property
    def can_serve(self) -> bool:
        return not self.blockers and self.release is not None and bool(self.argv)


def with_gpu_variables(plan: Plan, gpus: tuple[int, ...], why: str = "") -> Plan:
    """The plan with the variables that leave it only ``gpus`` of its machine (none for no GPUs), in place of its own;
    ``why`` it is those."""
    outside = gpu_variables(plan.machine, plan.device, gpus, why, container=False)
    inside = gpu_variables(plan.machine, plan.device, gpus, why, container=True)
    told = inside if plan.runtime == "docker" else outside
    own = {DEVICE_ORDER} if plan.session.answers.get("env." + DEVICE_ORDER) is not None else set()
    gone = {*VISIBLE_DEVICES.values(), DEVICE_ORDER} - own

    def held(env: Mapping[str, str], new: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        return {k: v for k, v in env.items() if k not in gone} | {k: v for k, (v, _why) in new.items() if k not in own}

    decisions = [d for d in plan.decisions if d.key not in {"env." + name for name in gone}]
    decisions += [Decision("env." + k, v, why, "detected") for k, (v, why) in told.items() if k not in own]
    return replace(plan, env=held(plan.env, outside), container_env=held(plan.container_env, inside), decisions=tuple(decisions), gpus_reason=why)
