"""Port and access."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wizard.i18n import _
from wizard.outputs.reach import Reach, reach_of
from wizard.plan.draft import Draft
from wizard.plan_types import Choice
from wizard.session import Value

FIRST_PORT_FOR_ALL = 1024  # net.ipv4.ip_unprivileged_port_start of the kernel, where nobody changed it

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def choose_access(draft: Draft, runtime: str) -> None:
    """Decide port and access."""
    machine = draft.machine
    if machine.in_container and runtime == "docker":
        draft.warn(
            "docker_outside",
            _("The Docker engine runs outside this container: it publishes the port and mounts folders on its own machine."),
            _("A folder of this container is only found there under the same path where it is mounted from there. Better start the wizard on that machine."),
        )
    free = next(p for p in range(8000, 65535) if p not in machine.used_ports)
    reason = _("vLLM's usual port") if free == 8000 else _("the first free port; 8000 is in use")

    def accept_port(value: Value) -> str | None:
        if not isinstance(value, int) or not 1 <= value <= 65535:
            return _("A port lies between 1 and 65535.")
        return (
            _("It is in use on this machine; {free} is free.").format(free=free)
            if value in machine.used_ports
            else None
        )

    port = draft.decide("port", free, reason, accept=accept_port)
    if runtime == "local" and isinstance(port, int) and port < FIRST_PORT_FOR_ALL and machine.home != "/root":
        draft.warn(
            "port_of_root",
            _("On Linux only root may open port {port}.").format(port=port),
            _("Take one from {first} on, or let Docker publish it; else the server stops with “Permission denied”.").format(first=FIRST_PORT_FOR_ALL),
        )
    words = reach_of(machine, runtime, str(draft.session.answers.flat().get("run_on") or ""))
    draft.choices["access"] = access_choices(words)

    host = draft.answered("host")
    opened = host is not None and not is_loopback(str(host[0]))

    def accept(value: Value) -> str | None:
        if value == "local" and opened:
            return _("The address {host} is open to the network.").format(host=host[0] if host else "")
        return None if value in ("local", "network") else _("It is one of local, network.")

    if opened:
        draft.decide("access", "network", _("the address that you set is open to the network"), accept=accept)
        return
    draft.decide("access", "local", words.reason, accept=accept)
    made = draft.decisions["access"]
    if made.value == "network":
        # It stands above the line that opens the port, so it says what that line does.
        draft.decisions["access"] = replace(made, reason=words.opened)


def access_choices(words: Reach) -> tuple[Choice, ...]:
    """The two answers to who may reach the server, in words that fit where it runs."""
    return (Choice("local", words.label, words.note, "", True), Choice("network", words.network_label, words.network_note))


def is_loopback(host: str) -> bool:
    """Whether only programs of the same machine reach that address."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def is_every_address(host: str) -> bool:
    """Whether it stands for all addresses of a machine, as 0.0.0.0 does."""
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> IPv4Address | IPv6Address | None:
    import ipaddress

    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
