"""What is wrong on a machine, each with the exact commands that cure it.

``find_problems`` reads the facts alone, so that it works on a recorded machine and can be asked again after a
fact was corrected by hand. Figures about releases (which driver and which compute capability an image needs) are
those of vLLM's Dockerfiles; the installation lines are the vendors' own documented ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wizard.facts import Machine, Problem, Severity, SystemKind
from wizard.i18n import _, sentences
from wizard.probes.problems import docker, gpu, host, system

CHECKS: tuple[Callable[[Machine], list[Problem]], ...] = (
    system.system,
    gpu.gpu,
    system.wsl_itself,
    docker.docker_engine,
    host.disks,
    host.memory_sizes,
    host.processor,
    host.python_tools,
    host.probe_runs,
)
_ORDER = {Severity.BLOCKER: 0, Severity.WARNING: 1, Severity.INFO: 2}


def find_problems(machine: Machine) -> tuple[Problem, ...]:
    """The problems of the machine, worst first; within one severity in the order in which they should be cured."""
    found: list[Problem] = []
    for check in CHECKS:
        found += check(machine)
    seen: dict[str, Problem] = {}
    for problem in found:
        seen.setdefault(problem.code, problem)
    return tuple(sorted((_with_its_end(machine, p) for p in seen.values()), key=lambda p: _ORDER[p.severity]))


def _with_its_end(machine: Machine, problem: Problem) -> Problem:
    """The problem with what its cure ends: some end the distro that this program itself runs in."""
    if machine.system not in (SystemKind.WSL1, SystemKind.WSL2):
        return problem
    if not problem.ends_wsl:
        return problem
    told = ""
    for command in problem.commands:
        if "wsl --shutdown" in command:
            told = _("wsl --shutdown ends all distros, and with them this terminal and this program: save open work first, and start the wizard again afterwards.")
        elif "wsl --set-version" in command or "wsl --terminate" in command:
            told = _("{command} ends this distro, and with it this terminal and this program: save open work first, and start the wizard again afterwards.").format(command=command)
    return replace(problem, detail=sentences(problem.detail, told))
