"""What is wrong on a machine, each with the commands that cure it."""

from __future__ import annotations

from wizard.facts import Machine, Problem


def find_problems(machine: Machine) -> tuple[Problem, ...]:
    """The problems of the machine, worst first."""
    return ()
