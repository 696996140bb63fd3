"""The nodes of a cluster: read from an answers file, each with its recorded (or live) machine, and what is wrong."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wizard.cluster.types import Inventory, Node, Settings
from wizard.errors import BadInput, WizardError
from wizard.facts import Gpu, Machine, Severity
from wizard.i18n import _, clauses, labelled, ngettext
from wizard.plan.sizing import named_gpus, usable_gpus
from wizard.plan_types import Notice
from wizard.record import ADDRESS_COMMAND
from wizard.session import refuse_unknown

if TYPE_CHECKING:
    from wizard.host import Host

MOST_NODES = 1024
RECORD = "vllm-wizard record"
_NODE_KEYS = {"name": str, "address": str, "interface": str, "machine": str, "release": str}
_SETTING_KEYS: dict[str, tuple[type, ...]] = {
    "shared_storage": (bool,), "network_gbps": (int, float), "mixed_drivers": (bool,), "check_reach": (bool,),
    "storage_class": (str,), "storage_gib": (int,), "group_size": (int,), "router": (str,), "home": (str,),
}  # fmt: skip
# A name becomes a folder, and a part of a container's and a pod's name.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# What the kernel takes as the name of an interface; a comma or ^ would mean something to NCCL.
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")


def read_inventory(data: bytes, name: str, folder: str, *, must_list: bool = False) -> Inventory:
    """The ``[[nodes]]`` and ``[cluster]`` of an answers file called ``name``; records are relative to ``folder``.
    A file that ``must_list`` nodes and lists none is wrong.

    A wrong form raises :class:`BadInput` naming the node and field. What is wrong with a node itself (its record
    cannot be read) is a problem in the result, so that every node's is told at once.
    """
    document = _document(data, name)
    refuse_unknown(document, name)
    settings = _settings(document.get("cluster", {}), name)
    rows = document.get("nodes", [])
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise BadInput(_("{name}: write each node as a table of its own, headed [[nodes]].").format(name=name))
    if must_list and not rows:
        raise BadInput(_("{name} lists no nodes: each stands below a line [[nodes]], as “vllm-wizard help nodes” shows.").format(name=name))
    if len(rows) > MOST_NODES:
        raise BadInput(_("{name}: {n} nodes are more than {most}.").format(name=name, n=len(rows), most=MOST_NODES))
    nodes = [_node(row, at, name) for at, row in enumerate(rows, 1)]
    _unique(nodes, name)
    problems: list[Notice] = []
    known = [_with_machine(node, folder, problems) for node in nodes]
    return Inventory(tuple(known), settings, tuple(problems))


def _document(data: bytes, name: str) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise BadInput(_("{name} is not UTF-8 text (byte {at}).").format(name=name, at=error.start)) from error
    except ValueError as error:
        raise BadInput(_("{name} is not valid TOML: {error}").format(name=name, error=error)) from error


def _settings(table: Any, name: str) -> Settings:
    if not isinstance(table, dict):
        raise BadInput(_("{name}: “cluster” must be a table.").format(name=name))
    for key, value in table.items():
        kinds = _SETTING_KEYS.get(key)
        if kinds is None:
            raise BadInput(
                _("{name}: [cluster] has no “{key}”. It may hold: {known}.").format(
                    name=name, key=key, known=", ".join(sorted(_SETTING_KEYS))
                )
            )
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise BadInput(_("{name}: [cluster] {key} = {value}: a value of another kind is wanted.").format(name=name, key=key, value=value))
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 < value < 1e9:
            raise BadInput(_("{name}: [cluster] {key} = {value}: it must be more than 0.").format(name=name, key=key, value=value))
    if table.get("router") not in (None, "nginx", "vllm-router"):
        raise BadInput(_("{name}: [cluster] router must be nginx or vllm-router.").format(name=name))
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", table.get("home", "/x")):
        raise BadInput(_("{name}: [cluster] home must be a full path of letters, digits and . _ - only.").format(name=name))
    return Settings(**table)


def _node(row: Mapping[str, Any], at: int, name: str) -> Node:
    who = row["name"] if isinstance(row.get("name"), str) and row["name"] else _("number {at}").format(at=at)

    def wrong(text: str) -> BadInput:
        return BadInput(_("{name}: node {who}: {text}").format(name=name, who=who, text=text))

    for key, value in row.items():
        if key not in _NODE_KEYS:
            raise wrong(_("there is no “{key}”; a node has: {known}.").format(key=key, known=", ".join(_NODE_KEYS)))
        if not isinstance(value, str):
            raise wrong(_("“{key}” must be text.").format(key=key))
    for key in ("name", "address", "machine"):
        if not row.get(key):
            raise wrong(_("“{key}” is missing.").format(key=key))
    if not _NAME.fullmatch(row["name"]):
        raise wrong(_("a name has lower-case letters, digits and -, 63 at most."))
    address = _address(row["address"])
    if address is None:
        raise wrong(
            _("“{address}” is no IPv4 address that other nodes can reach.").format(address=row["address"])
        )
    interface = row.get("interface")
    if interface is not None and not _INTERFACE.fullmatch(interface):
        raise wrong(_("“{interface}” is no name of a network interface.").format(interface=interface))
    release = row.get("release")
    return Node(row["name"], address, interface, row["machine"], release=release.lstrip("v") if release else None)


def _address(text: str) -> str | None:
    """The address in its plain form; None for what is none, or leads nowhere but to the node itself."""
    try:
        address = ipaddress.IPv4Address(text.strip())
    except ValueError:
        return None
    return None if address.is_loopback or address.is_multicast or address.is_unspecified else str(address)


def _unique(nodes: Iterable[Node], name: str) -> None:
    held: dict[tuple[str, str], str] = {}
    for at, node in enumerate(nodes, 1):
        for key, value in (("name", node.name), ("address", node.address)):
            first = held.setdefault((key, value), f"{node.name} ({at})")
            if first != f"{node.name} ({at})":
                raise BadInput(
                    _("{file}: the nodes {first} and {second} have the same {key}: {value}.").format(
                        file=name, first=first, second=f"{node.name} ({at})", key=key, value=value
                    )
                )


# -- machines ---------------------------------------------------------------------------------------------------


def _with_machine(node: Node, folder: str, problems: list[Notice]) -> Node:
    record = node.record if node.record == "this" else os.path.join(folder, os.path.expanduser(node.record))  # noqa: PTH111, PTH118
    record = record if record == "this" else os.path.abspath(record)  # noqa: PTH100 - a text, kept as it was given
    try:
        host, machine, interfaces = _probed(record, _stamp(record))
    except (WizardError, OSError) as error:
        problems.append(
            node_problem(
                node, "node_unreachable", _("its machine is not known"), str(error),
                (f"ssh {node.address} {RECORD} /tmp/{node.name}", f"scp -r {node.address}:/tmp/{node.name} {node.record}"),
            )
        )  # fmt: skip
        return replace(node, record=record)
    return replace(node, record=record, host=host, machine=machine, interfaces=interfaces)


def _stamp(record: str) -> int:
    """Changes when the record is made anew."""
    try:
        return os.stat(os.path.join(record, "host.json")).st_mtime_ns  # noqa: PTH116, PTH118
    except OSError:
        return 0


@lru_cache(maxsize=256)
def _probed(record: str, _stamp: int) -> tuple[Host, Machine, Mapping[str, tuple[str, ...]] | None]:
    """The host, its facts and its interfaces. Nodes of one kind share a record: it is probed once."""
    from wizard.host import open_host
    from wizard.probes import run_all

    host = open_host(None if record == "this" else record)
    return host, run_all(host), interfaces_of(host)


def interfaces_of(host: Host) -> Mapping[str, tuple[str, ...]] | None:
    """Name -> IPv4 addresses, as ``ip`` lists them; None where it was not asked or does not answer."""
    try:
        answer = host.run(list(ADDRESS_COMMAND), timeout_s=10)
    except OSError:
        return None
    if not answer.ok:
        return None
    found: dict[str, list[str]] = {}
    for line in answer.text.splitlines():
        hit = re.match(r"\d+:\s+(\S+)\s+inet\s+(\d+(?:\.\d+){3})", line)
        if hit:
            found.setdefault(hit[1].partition("@")[0], []).append(hit[2])
    return {name: tuple(held) for name, held in found.items()} or None


def node_problem(
    node: Node, code: str, title: str, detail: str = "", commands: tuple[str, ...] = ()
) -> Notice:
    """A blocker that names its node."""
    return Notice(code, Severity.BLOCKER, _("Node {name}: {title}.").format(name=node.name, title=title), detail, commands)


# -- what is wrong with them --------------------------------------------------------------------------------------


def gpus_of(node: Node, device: str) -> tuple[Gpu, ...]:
    """The GPUs of a node that take part: those that were chosen, where it is the machine of that answer."""
    if node.machine is None:
        return ()
    if node.chosen_gpus and device != "cpu":
        return named_gpus(node.machine, node.chosen_gpus)
    return usable_gpus(node.machine, device)


def common_gpus(nodes: Iterable[Node], device: str) -> tuple[Gpu, ...]:
    """As many GPUs as every node has, each with the least memory that any of them has."""
    rows = [gpus_of(n, device) for n in nodes if n.machine is not None]
    if not rows or not all(rows):
        return ()
    count = min(len(r) for r in rows)
    every = [g for r in rows for g in r]
    total = min(every, key=lambda g: g.vram_total_bytes.value or 0).vram_total_bytes
    frees = [g.vram_free_bytes for g in every]
    free = next((f for f in frees if not f.known), None) or min(frees, key=lambda f: f.value or 0)
    return tuple(replace(g, vram_total_bytes=total, vram_free_bytes=free) for g in rows[0][:count])


def check_nodes(
    nodes: tuple[Node, ...], settings: Settings, device: str, runtime: str, release: str | None, wanted_gpus: int | None
) -> tuple[list[Notice], list[Notice]]:
    """(blockers, warnings): what would keep these nodes from serving one model together, each with its node's name."""
    blockers: list[Notice] = []
    warnings: list[Notice] = []
    known = [n for n in nodes if n.machine is not None]
    if not known:
        return blockers, warnings
    head = known[0]
    assert head.machine is not None
    counts = {n.name: len(gpus_of(n, device)) for n in known}
    usual = wanted_gpus if wanted_gpus is not None else max(counts.values(), key=list(counts.values()).count)
    driver = _usual_driver(known)
    for node in known:
        machine = node.machine
        assert machine is not None
        blockers += [replace(p, title=_("Node {name}: {title}").format(name=node.name, title=p.title)) for p in machine.problems if p.severity is Severity.BLOCKER]
        if device != "cpu" and counts[node.name] < usual:
            blockers.append(
                node_problem(node, "gpu_short", ngettext("it has {have} usable GPU, and {want} are needed on each node", "it has {have} usable GPUs, and {want} are needed on each node", counts[node.name]).format(have=counts[node.name], want=usual), machine.gpu.reason)
            )
        blockers += _check_driver(node, machine, driver, settings)
        blockers += _check_release(node, machine, runtime, release)
        blockers += _check_interface(node)
        blockers += _check_runtime(node, machine, device, runtime)
        blockers += _check_wsl(node, machine)
        if machine.cpu.architecture != head.machine.cpu.architecture:
            blockers.append(node_problem(node, "node_architecture", _("its processor is {own}, the head's is {head}").format(own=machine.cpu.architecture, head=head.machine.cpu.architecture)))
    if device != "cpu":
        warnings += _mixed_gpus(known, device)
    return blockers, warnings


def _usual_driver(nodes: list[Node]) -> str | None:
    """The driver that most nodes have: the odd one out is the one to name."""
    found = [n.machine.gpu.driver_version.value for n in nodes if n.machine is not None]
    drivers = [d for d in found if d]
    return max(drivers, key=drivers.count) if drivers else None


def _check_driver(node: Node, machine: Machine, driver: str | None, settings: Settings) -> list[Notice]:
    own = machine.gpu.driver_version.value
    if driver is None or own is None or own == driver or settings.mixed_drivers:
        return []
    return [
        node_problem(
            node, "drivers_differ", _("its GPU driver is {own}, the others have {driver}").format(own=own, driver=driver),
            _("NCCL works best with one driver on all nodes. Install the same everywhere, or write mixed_drivers = true under [cluster]."),
        )
    ]  # fmt: skip


def _check_release(node: Node, machine: Machine, runtime: str, release: str | None) -> list[Notice]:
    """The release that the answers file names for the node, or that its environments hold."""
    if release is None:
        return []
    held = sorted({v.version.partition("+")[0] for v in machine.vllm})
    other = node.release if node.release not in (None, release) else None
    if other is None and runtime == "local" and held and release not in held:
        other = ", ".join(held)
    if other is None:
        return []
    return [
        node_problem(
            node, "releases_differ", _("it has vLLM {own}, and the plan is for {release}").format(own=other, release=release),
            _("All nodes must run the same release. Install it there, or choose it with --release {own}.").format(own=other.partition(",")[0]),
        )
    ]  # fmt: skip


def _check_interface(node: Node) -> list[Notice]:
    if node.interfaces is None:
        return []
    there = ", ".join(f"{name} ({', '.join(held)})" for name, held in node.interfaces.items() if name != "lo")
    if node.interface is not None and node.interface not in node.interfaces:
        return [node_problem(node, "interface_missing", _("it has no network interface {name}").format(name=node.interface), _("There are: {there}.").format(there=there))]
    if not ipaddress.IPv4Address(node.address).is_private:
        return []  # a record holds no public address
    if node.network_interface is None:
        return [node_problem(node, "interface_missing", _("no network interface has the address {address}").format(address=node.address), _("There are: {there}.").format(there=there))]
    if node.address not in node.interfaces[node.network_interface]:
        return [
            node_problem(node, "interface_missing", _("{name} does not have the address {address}").format(name=node.network_interface, address=node.address), _("There are: {there}.").format(there=there))
        ]
    return []


def _check_runtime(node: Node, machine: Machine, device: str, runtime: str) -> list[Notice]:
    from wizard.plan.runtime import docker_objection

    if runtime != "docker":
        return []
    objection = docker_objection(machine, device)
    return [] if objection is None else [node_problem(node, "node_docker", _("Docker cannot be used there"), objection)]


def _check_wsl(node: Node, machine: Machine) -> list[Notice]:
    """WSL2 has a network of its own behind Windows unless it mirrors that of Windows."""
    if machine.wsl is None or not machine.is_wsl2 or machine.wsl.networking_mode.value in (None, "mirrored"):
        return []
    return [
        node_problem(
            node, "node_wsl_network", _("WSL2 with {mode} networking cannot be reached by other machines").format(mode=machine.wsl.networking_mode.value),
            _("Write networkingMode=mirrored under [wsl2] in its .wslconfig, then record it again."),
        )
    ]  # fmt: skip


def _mixed_gpus(nodes: list[Node], device: str) -> list[Notice]:
    kinds: dict[str, list[str]] = {}
    for node in nodes:
        assert node.machine is not None
        for name in {g.name for g in gpus_of(node, device)}:
            kinds.setdefault(name, []).append(node.name)
    if len(kinds) < 2:
        return []
    text = clauses(labelled(kind, ", ".join(names)) for kind, names in kinds.items())
    return [Notice("mixed_gpus", Severity.WARNING, _("The nodes have different GPUs; all run at the pace and with the memory of the smallest."), text)]


def missing_models(nodes: Iterable[Node], path: str, shared: bool) -> list[Notice]:
    """The nodes on which the model does not lie at ``path`` (nothing is said where it is on shared storage)."""
    out = []
    for node in nodes:
        if node.host is None or shared:
            continue
        there = any(node.host.exists(p) for p in ([path] if path.endswith(".gguf") else [f"{path}/config.json", f"{path}/params.json"]))
        if not there:
            out.append(
                node_problem(
                    node, "model_missing", _("the model is not at {path}").format(path=path),
                    _("Copy it there. When that folder is the same storage on all nodes, or the record only does not show it, write shared_storage = true under [cluster]: the script looks again when it starts."),
                    (f"rsync -a {path}/ {node.address}:{path}/",),
                )
            )  # fmt: skip
    return out


def unreachable(nodes: Iterable[Node], host: Host) -> list[Notice]:
    """The nodes that do not answer to a ping from ``host`` (which must be on the cluster's network)."""
    out = []
    for node in nodes:
        if node.record == "this":
            continue
        answer = host.run(["ping", "-c", "1", "-W", "2", node.address], timeout_s=10)
        if not answer.ok and answer.returncode != 127:
            out.append(
                node_problem(node, "node_unreachable", _("{address} does not answer").format(address=node.address), answer.text.strip().rsplit("\n", 1)[-1], (f"ping {node.address}",))
            )
    return out
