"""The Windows half: what can be done on Windows itself, and how to go on inside WSL.

vLLM runs inside WSL only. From Windows the machine's real memory is seen, so this is the best place to size WSL and
to write ``.wslconfig``; the answers go along, so that the walk inside WSL starts with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wizard.errors import BadInput
from wizard.facts import Cpu, Machine, Memory, Problem, PythonFacts, Severity, SystemKind, unknown
from wizard.i18n import _, sentences, stopped
from wizard.models.info import ModelInfo
from wizard.models.move_place import own_name
from wizard.outputs.answers import LEFT_OUT
from wizard.outputs.answers import NAME as ANSWERS_NAME
from wizard.outputs.quoting import bash_line, powershell_string
from wizard.outputs.spec import FileSpec
from wizard.outputs.wslconfig import WslAdvice, shutdown_text, to_filespec, tune
from wizard.outputs.wslconfig.deliver import reasons_of
from wizard.plan.wsl import MEMORY
from wizard.plan_types import Step
from wizard.session import Value, dump_answers

if TYPE_CHECKING:
    from wizard.session import Session

GIB = 1 << 30
READY = "windows_serves_in_wsl"  # the problem that only says that serving goes on inside WSL
_DRIVE_PATH = re.compile(r"([A-Za-z]):[\\/]+(.*)", re.DOTALL)


@dataclass(frozen=True)
class WindowsHalf:
    """What is to do on Windows. ``files`` are empty while WSL is not installed; ``blockers`` are what has to be done
    before anything can go on inside WSL (the bare fact that vLLM needs WSL is none)."""

    machine: Machine
    model: ModelInfo | None
    advice: WslAdvice
    changes: Mapping[str, str | None]
    files: tuple[FileSpec, ...]
    blockers: tuple[Problem, ...]
    steps: tuple[Step, ...]
    answers: Mapping[str, Value] = field(default_factory=dict)


def windows_half(session: Session, out_dir: str, *, in_place: bool = True) -> WindowsHalf:
    """The Windows half for a session on a Windows machine.

    ``out_dir`` receives the answers file, and the proposal where ``.wslconfig`` is not changed ``in_place``. Raises
    BadInput for an answer that cannot be, such as more memory than Windows has.
    """
    machine = session.machine
    advice, changes, model, reasons = _advice(session)
    blockers = tuple(p for p in machine.problems if p.severity is Severity.BLOCKER and p.code != READY)
    answers = _answers(session, advice)
    for key, value in changes.items():
        proposed = advice.setting(key)
        if proposed is None or proposed.value != value:  # the user's own size
            advice = advice.with_value(key, value, reasons.get(key, ""))
    files: tuple[FileSpec, ...] = ()
    if machine.wsl is not None:
        files = (_answers_file(answers),)
        if changes:
            files = (to_filespec(machine, advice.with_changes(changes, reasons), out_dir, in_place), *files)
    half = WindowsHalf(machine, model, advice, changes, files, blockers, (), answers)
    return replace(half, steps=tuple(_steps(half, out_dir, in_place)))


def _advice(session: Session) -> tuple[WslAdvice, Mapping[str, str | None], ModelInfo | None, Mapping[str, str]]:
    """WSL's size with its reasons for the model that would be served, by the plan for the same machine seen from inside WSL."""
    from wizard.plan import plan

    machine = session.machine
    if machine.wsl is not None:
        made = plan(replace(session, machine=seen_from_inside(machine)))
        for blocker in made.blockers:
            if blocker.code == "bad_answer":
                raise BadInput(sentences(blocker.title, blocker.detail))
        if made.wsl is not None:
            reasons = reasons_of(made)
            if made.model is not None and session.answers.get("model") is None:
                return _assuming(made.model, made.wsl, made.wsl_changes, reasons)
            return made.wsl, made.wsl_changes, made.model, reasons
    wsl = machine.wsl
    advice = tune(
        host_ram_bytes=machine.memory.total_bytes.value,
        host_cpus=machine.cpu.logical_count.value,
        weights_bytes=None,
        gpu_count=len(machine.gpu.gpus),
        existing=wsl.wslconfig_bytes if wsl is not None else None,
        keep_alive=True,
        machine=machine,
    )
    return advice, advice.changes, None, {}


def _assuming(
    model: ModelInfo, advice: WslAdvice, changes: Mapping[str, str | None], reasons: Mapping[str, str]
) -> tuple[WslAdvice, Mapping[str, str | None], ModelInfo, Mapping[str, str]]:
    """The same with a word on where the model comes from that the memory is sized for: nobody was asked for one."""
    told = _(
        "{model} is assumed: no model was chosen here, and it is the one that vllm-wizard would propose for this machine. Inside WSL vllm-wizard asks which model to serve and sizes WSL anew for it."
    ).format(model=model.repo_id or own_name(model.source))
    settings = tuple(replace(s, reason=sentences(stopped(s.reason), told)) if s.key == MEMORY else s for s in advice.settings)
    held = {k: sentences(stopped(text), told) if k == MEMORY else text for k, text in reasons.items()}
    return replace(advice, settings=settings), changes, model, held


def seen_from_inside(machine: Machine) -> Machine:
    """The machine as a WSL 2 distribution on it would see it, as far as that is known from outside.

    Only for sizing: what a distribution holds (Docker, Python, ports, folders) is not known from Windows.
    """
    why = _("seen inside WSL only")
    return replace(
        machine,
        system=SystemKind.WSL2,
        memory=Memory(unknown(why), unknown(why), unknown(why), unknown(why)),
        cpu=Cpu(machine.cpu.model, unknown(why), machine.cpu.architecture, machine.cpu.flags),
        python=PythonFacts(unknown(why), unknown(why), unknown(why)),
        vllm=(),
        used_ports=frozenset(),
        problems=(),
    )


def linux_path(path: str) -> str:
    """Where a Windows path is found inside WSL with the usual mount folder; other texts as they are."""
    name, equals, rest = path.partition("=")
    if equals and _DRIVE_PATH.fullmatch(rest):  # an adapter: name=path
        return name + equals + linux_path(rest)
    match = _DRIVE_PATH.fullmatch(path)
    if match is None:
        return path
    return f"/mnt/{match[1].lower()}/" + match[2].replace("\\", "/").lstrip("/")


def _answers(session: Session, advice: WslAdvice) -> dict[str, Value]:
    """What was answered, with paths as WSL has them, and the host's figures that WSL cannot see itself."""
    answers: dict[str, Value] = {}
    for key, value in session.answers.flat().items():
        if key in LEFT_OUT:
            continue
        if isinstance(value, tuple):
            answers[key] = tuple(linux_path(v) for v in value)
        else:
            answers[key] = linux_path(value) if isinstance(value, str) else value
    if advice.host_ram_bytes is not None:
        answers.setdefault("host_memory_gib", round(advice.host_ram_bytes / GIB, 2))
    if advice.host_cpus is not None:
        answers.setdefault("host_cpus", advice.host_cpus)
    return answers


def _answers_file(answers: Mapping[str, Value]) -> FileSpec:
    heading = _(
        "Answers of vllm-wizard from Windows. Inside WSL: vllm-wizard --answers answers.toml\nNo secret stands here."
    )
    return FileSpec(
        path=ANSWERS_NAME,
        content=dump_answers(answers, heading=heading),
        title=_("the answers, to go on with inside WSL"),
    )


def _steps(half: WindowsHalf, out_dir: str, in_place: bool) -> list[Step]:
    wsl = half.machine.wsl
    if wsl is None or half.blockers:
        return [Step(p.title, p.commands, p.where, p.detail) for p in half.blockers]
    steps = []
    if half.changes:
        if not in_place:
            from wizard.outputs.wslconfig import hand_copy

            copy = hand_copy(half.machine, out_dir)
            steps.append(
                Step(
                    _("Put the proposed .wslconfig into your profile"), (copy.line,), "powershell", copy.note
                )
            )
        running = [d.name for d in wsl.distros if d.state.lower() == "running"]
        steps.append(
            Step(
                _("Let WSL take its new settings"),
                ("wsl --shutdown",),
                "powershell",
                shutdown_text(half.machine, running),
            )
        )
    second = [d.name for d in wsl.distros if d.version == 2 and not d.name.startswith("docker-desktop")]
    default = wsl.distro.value
    name = default if default in second else next(iter(second), "")
    steps.append(Step(_("Open Linux"), (f"wsl -d {powershell_string(name)}",), "powershell"))
    windows = out_dir.rstrip("\\/") + "\\" + ANSWERS_NAME
    steps.append(
        Step(
            _("Install the wizard there, once"),
            (
                "sudo apt install -y python3-venv",
                "python3 -m venv ~/.vllm-wizard && ~/.vllm-wizard/bin/pip install .",
            ),
            consequence=_(
                "In the folder of the checkout; Linux sees the drives of Windows under /mnt/c and so on."
            ),
        )
    )
    steps.append(
        Step(
            _("Go on there with the same answers"),
            (f'~/.vllm-wizard/bin/vllm-wizard --answers "$({bash_line(["wslpath", "-u", windows])})"',),
            consequence=_(
                "Models are found there under /mnt/c and so on; the wizard offers to copy them to where they load fast."
            ),
        )
    )
    return steps
