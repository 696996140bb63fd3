"""TCP ports that something listens on."""

from __future__ import annotations

from wizard.host import Host


def probe(host: Host) -> frozenset[int]:
    """The listening ports seen from here; raises OSError where the system does not tell."""
    return host.listening_ports()
