"""What the checks share: names of systems, and words quoted for the shell they are typed in."""

from __future__ import annotations

import re
import shlex

from wizard.facts import Machine, SystemKind

CONTAINERS = (SystemKind.CONTAINER, SystemKind.WSL_CONTAINER)


def distro_name(machine: Machine) -> str:
    return (machine.wsl.distro.value if machine.wsl is not None else None) or "Ubuntu"


def uses_apt(machine: Machine) -> bool:
    system = machine.os_name.or_else("")
    return any(
        name in system for name in ("Ubuntu", "Debian", "Mint", "Pop!_OS", "Kali", "elementary", "Raspbian")
    )


def uses_dnf(system: str) -> bool:
    names = ("Fedora", "Red Hat", "CentOS", "Rocky", "AlmaLinux", "Amazon Linux", "Oracle Linux", "Euler")
    return any(name in system for name in names)


def ps_quote(text: str) -> str:
    """A word for PowerShell: quoted where it needs it."""
    return text if re.fullmatch(r"[\w.-]+", text) else "'" + text.replace("'", "''") + "'"


def sh_quote(text: str) -> str:
    """A word for a POSIX shell."""
    return shlex.quote(text)


def sentence(text: str) -> str:
    """A reason as the beginning of a sentence: programs' own names keep their small letters."""
    word = text.split(" ", 1)[0]
    return text if "-" in word or "." in word else text[:1].upper() + text[1:]
