"""Who reaches the server where it really runs: on a machine, in the VM of WSL2, in a container."""

from __future__ import annotations

from dataclasses import dataclass

from wizard.facts import Machine
from wizard.i18n import _
from wizard.outputs.wslconfig import parse
from wizard.plan_types import Plan


@dataclass(frozen=True)
class Reach:
    """Who reaches a server that is not opened to the network, in words; and how the network would reach it."""

    label: str
    note: str
    reason: str
    network_note: str
    network: str = ""  # what the other answer is called, and what it does; "": as for any machine
    network_reason: str = ""

    @property
    def network_label(self) -> str:
        return self.network or _("The network")

    @property
    def opened(self) -> str:
        """What is said of a server that was opened to the network."""
        reason = self.network_reason or _("other machines reach the server too, and need its API key (chosen by you; usual is “{usual}”)")
        return reason.format(usual=self.label)


def reach_of(machine: Machine, runtime: str, run_on: str) -> Reach:
    """The same where the answer may be that it does not run on this machine: then that machine says nothing of it."""
    if run_on == "kubernetes":
        return Reach(
            _("The cluster, without a key"),
            _("every pod of the cluster; from outside only what kubectl port-forward leads in"),
            _("every pod of the cluster reaches the server, without a key"),
            _("every pod of the cluster that has the key"),
            _("The cluster, with an API key"),
            _("every pod of the cluster reaches the server, and needs its API key (chosen by you; usual is “{usual}”)"),
        )
    if run_on.startswith("nodes-"):
        return Reach(_("The head only"), _("the first machine of the list"), _("only programs on the head reach the server"), _("with an API key"))
    return reach(machine, runtime)


def reach(machine: Machine, runtime: str) -> Reach:
    """``runtime`` "docker": the port is published by the engine; "local": the server listens where it runs."""
    key = _("with an API key")
    if machine.in_container and runtime != "docker":
        return Reach(
            _("This container only"),
            _("nothing outside the container, not even the machine that it runs on"),
            _("only programs in this container reach the server"),
            _("with an API key; from outside the container only if it was started with -p PORT:PORT"),
        )
    if machine.in_container:
        return Reach(
            _("The machine of the Docker engine only"),
            _("not this container itself"),
            _("only programs on the machine that the Docker engine runs on reach the server"),
            key,
        )
    if not machine.is_wsl2:
        return Reach(_("This machine only"), "", _("only programs on this machine reach the server"), key)
    if (runtime == "docker" and machine.docker.is_desktop.value) or windows_reaches(machine):
        return Reach(_("This machine only"), _("also from Windows itself"), _("only programs on this machine reach the server, those on Windows too"), key)
    return Reach(
        _("This WSL2 only"),
        _("not from Windows: WSL2 passes no ports on (networkingMode, localhostForwarding)"),
        _("only programs in WSL2 reach the server"),
        key,
    )


def windows_reaches(machine: Machine) -> bool:
    """Whether Windows reaches what listens on 127.0.0.1 in WSL2.

    With mirrored networking it does; with NAT unless ``localhostForwarding`` is off (Microsoft, "Advanced settings
    configuration in WSL"); without a network it does not.
    """
    wsl = machine.wsl
    if wsl is None or wsl.networking_mode.value == "mirrored":
        return True
    if wsl.networking_mode.value == "none":
        return False
    own = parse(wsl.wslconfig_bytes).get("wsl2.localhostForwarding") if wsl.wslconfig_bytes is not None else None
    return own is None or own.value != "false"


def published(plan: Plan) -> str:
    """Why the port of a container is published as it is: what stands above that line, whatever runs here."""
    if plan.value("access") == "network" or plan.runtime == "docker":
        return plan.reason("access")
    return reach(plan.machine, "docker").reason
