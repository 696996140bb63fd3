"""The probes, side by side: each asks one thing of the machine; one that hangs or breaks costs only its own facts.

``run_all(host)`` starts every probe in a thread of its own and returns a :class:`wizard.facts.Machine` after
the slowest one, or when the time is up: what a probe did not find out is then unknown, with the reason.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wizard.facts import (
    Cpu,
    Docker,
    Fact,
    GpuStack,
    Machine,
    Memory,
    ProbeRun,
    PythonFacts,
    Wsl,
    unknown,
)
from wizard.host import CommandResult, Host
from wizard.i18n import N_, _
from wizard.probes import (
    cpu,
    disks,
    docker,
    gpu,
    memory,
    ports,
    python,
    summaries,
    system,
    vllm,
    windows_host,
    wsl,
)
from wizard.probes.windows_host import WindowsHost

DEFAULT_TIMEOUT_S = 17.0  # the slowest probe, that of the GPUs, included


@dataclass(frozen=True)
class Probe:
    """One probe: what it asks, how it is called on a list, one line of what it found, its facts when it failed."""

    name: str
    label: str
    ask: Callable[[Host], Any]
    summary: Callable[[Any], str]
    nothing: Callable[[Host, str], Any]
    failed: Callable[[Any], str] = lambda facts: ""  # the reason, when the main question stayed open
    found: Callable[[Any], bool] = lambda facts: True


def _no_memory(_host: Host, why: str) -> Memory:
    missing: Fact[int] = unknown(why)
    return Memory(missing, missing, missing, missing, missing, missing)


def _no_docker(_host: Host, why: str) -> Docker:
    missing: Fact[Any] = unknown(why)
    return Docker(missing, missing, missing, missing, missing, missing, missing, missing, fault="hang")


def _no_python(_host: Host, why: str) -> PythonFacts:
    missing: Fact[Any] = unknown(why)
    return PythonFacts(missing, missing, missing, missing, missing, missing, missing)


def _no_gpu(_host: Host, why: str) -> GpuStack:
    missing: Fact[Any] = unknown(why)
    return GpuStack((), None, missing, missing, missing, missing, reason=why, fault="hang")


def _no_system(host: Host, why: str) -> system.SystemFacts:
    return system.SystemFacts(system.detect_kind(host), unknown(why), unknown(why))


def _is_there(facts: object) -> bool:
    return facts is not None


PROBES: tuple[Probe, ...] = (
    Probe("system", N_("System"), system.probe, summaries.system_line, _no_system),
    Probe("gpu", N_("GPU and driver"), gpu.probe, summaries.gpu_line, _no_gpu, summaries.gpu_failure, lambda stack: bool(stack.gpus)),
    Probe(
        "cpu",
        N_("Processor"),
        cpu.probe,
        summaries.cpu_line,
        lambda host, why: Cpu(unknown(why), unknown(why), host.machine),
    ),
    Probe("memory", N_("Memory and swap"), memory.probe, summaries.memory_line, _no_memory),
    Probe("wsl", N_("WSL"), wsl.probe, summaries.wsl_line, wsl.without_answers, found=_is_there),
    Probe(
        "windows",
        N_("Windows around WSL"),
        windows_host.probe,
        summaries.windows_line,
        lambda host, why: windows_host.nothing(why),
        found=lambda facts: facts is not None and facts.memory_bytes.known,
    ),
    Probe("disks", N_("Disks and mounts"), disks.probe, summaries.disks_line, disks.without_usage),
    Probe(
        "docker",
        N_("Docker"),
        docker.probe,
        summaries.docker_line,
        _no_docker,
        summaries.docker_failure,
        lambda facts: bool(facts.engine.known),
    ),
    Probe("python", N_("Python and uv"), python.probe, summaries.python_line, _no_python),
    Probe("vllm", N_("Installed vLLM"), vllm.probe, summaries.vllm_line, lambda host, why: (), found=bool),
    Probe("ports", N_("Ports"), ports.probe, summaries.ports_line, lambda host, why: frozenset()),
)

# Name to label (translate it with ``_`` where it is shown), in the order in which a list shows them.
PROBE_NAMES: Mapping[str, str] = {probe.name: probe.label for probe in PROBES}


class _Watched:
    """A host that notes which programs did not answer in time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.hung: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def run(
        self,
        argv: Sequence[str],
        timeout_s: float = 5.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        result = self._host.run(argv, timeout_s, cwd=cwd, env=env)
        if result.timed_out:
            program = str(argv[0]).rsplit("/", 1)[-1]
            self.hung.append(
                _("{program} did not answer within {seconds:g} s").format(program=program, seconds=timeout_s)
            )
        return result

    def nvml(self) -> Mapping[str, Any]:
        try:
            return self._host.nvml()
        except TimeoutError as fault:
            self.hung.append(str(fault))
            raise


@dataclass(frozen=True)
class _Answer:
    probe: Probe
    facts: Any
    run: ProbeRun


def _ask(probe: Probe, host: Host, answers: queue.SimpleQueue[_Answer]) -> None:
    started = time.monotonic()
    watched = _Watched(host)
    try:
        facts = probe.ask(watched)
        line, failed = probe.summary(facts), probe.failed(facts)
    except Exception as fault:  # a probe's own fault must not cost the others' facts
        why = _("this probe failed: {kind}: {fault}").format(kind=type(fault).__name__, fault=fault)
        run = ProbeRun(probe.name, time.monotonic() - started, False, bool(watched.hung), "", why)
        answers.put(_Answer(probe, probe.nothing(host, why), run))
        return
    reason = "; ".join(dict.fromkeys(watched.hung))
    run = ProbeRun(
        name=probe.name,
        seconds=time.monotonic() - started,
        ok=not (failed and watched.hung),
        timed_out=bool(watched.hung),
        summary=line,
        reason=reason or failed,
        found=probe.found(facts),
    )
    answers.put(_Answer(probe, facts, run))


def run_all(
    host: Host,
    on_result: Callable[[ProbeRun], None] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    name: str | None = None,
    give_up: Callable[[], bool] | None = None,
) -> Machine:
    """Ask everything at once. Returns after the slowest probe, and never later than ``timeout_s`` seconds.

    ``on_result`` is called in the caller's own thread, once a probe, in the order in which they end. ``give_up``
    is asked ten times a second: True ends the waiting at once (the user goes on without the rest). ``name``
    defaults to the host's. A thread that hangs is left behind as a daemon; programs it started are killed.
    """
    answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
    started = time.monotonic()
    for probe in PROBES:
        threading.Thread(
            target=_ask, args=(probe, host, answers), name=f"probe-{probe.name}", daemon=True
        ).start()
    facts: dict[str, Any] = {}
    runs: dict[str, ProbeRun] = {}
    while len(facts) < len(PROBES):
        left_s = max(0.0, started + timeout_s - time.monotonic())
        if answers.empty() and (left_s == 0 or (give_up is not None and give_up())):
            break
        try:
            answer = answers.get(timeout=left_s if give_up is None else min(left_s, 0.1))
        except queue.Empty:
            continue
        facts[answer.probe.name], runs[answer.probe.name] = answer.facts, answer.run
        if on_result is not None:
            on_result(answer.run)
    for probe in PROBES:
        if probe.name in facts:
            continue
        waited_s = min(timeout_s, time.monotonic() - started)
        why = _("did not answer within {seconds:.2g} s").format(seconds=waited_s)
        facts[probe.name] = probe.nothing(host, why)
        runs[probe.name] = ProbeRun(probe.name, waited_s, False, True, "", why)
        if on_result is not None:
            on_result(runs[probe.name])
    return _machine(host, name or host.name, facts, tuple(runs[p.name] for p in PROBES))


def _machine(host: Host, name: str, facts: Mapping[str, Any], runs: tuple[ProbeRun, ...]) -> Machine:
    from wizard.probes.problems import find_problems

    found: system.SystemFacts = facts["system"]
    machine = Machine(
        name=name,
        system=found.kind,
        os_name=found.os_name,
        kernel=found.kernel,
        home=host.home,
        cpu=facts["cpu"],
        memory=facts["memory"],
        gpu=facts["gpu"],
        docker=facts["docker"],
        python=facts["python"],
        mounts=facts["disks"],
        wsl=_with_windows(facts["wsl"], facts["windows"]),
        vllm=facts["vllm"],
        used_ports=facts["ports"],
        runs=runs,
    )
    return replace(machine, problems=find_problems(machine))


def _with_windows(found: Wsl | None, windows: WindowsHost | None) -> Wsl | None:
    """WSL's facts with the Windows computer's figures, which another probe asked meanwhile."""
    if found is None or windows is None:
        return found
    return replace(
        found,
        host_memory_bytes=windows.memory_bytes,
        host_logical_cpus=windows.logical_cpus,
        windows_build=found.windows_build if found.windows_build.known else windows.build,
    )
