"""Records of a deployment that is more than one server on this machine. Sizes are bytes, traffic is bytes a token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wizard.facts import Machine
from wizard.fit_types import FitRequest, FitResult
from wizard.plan_types import Decision, Notice, Plan, Step

if TYPE_CHECKING:
    from wizard.host import Host

THIS, REPLICAS, NATIVE, RAY, KUBERNETES = "this", "replicas", "nodes-native", "nodes-ray", "kubernetes"
WAYS = (THIS, REPLICAS, NATIVE, RAY, KUBERNETES)


@dataclass(frozen=True)
class Node:
    """One machine of the cluster. ``machine`` is None where its record could not be read: a notice says why."""

    name: str
    address: str
    interface: str | None = None  # as given; None: the one that carries the address
    record: str = ""  # the folder of its record, or "this"
    machine: Machine | None = None
    host: Host | None = field(default=None, compare=False, repr=False)
    release: str | None = None  # what the answers file says that runs there
    interfaces: Mapping[str, tuple[str, ...]] | None = None  # name -> IPv4 addresses; None: the record has none
    chosen_gpus: tuple[str, ...] = ()  # the GPUs that the answers name, where this is the machine that they are of; empty: all

    @property
    def network_interface(self) -> str | None:
        """The interface to use: the given one, or the one that carries the address; None: the script finds it."""
        if self.interface is not None or self.interfaces is None:
            return self.interface
        return next((name for name, held in self.interfaces.items() if self.address in held), None)


@dataclass(frozen=True)
class Settings:
    """The ``[cluster]`` table of an answers file: what is no question of the walk."""

    shared_storage: bool | None = None  # None: as the head's mount says
    network_gbps: float | None = None  # between the nodes; None: not known
    mixed_drivers: bool = False
    check_reach: bool | None = None  # None: when one of the nodes is this machine
    storage_class: str | None = None
    storage_gib: int | None = None
    group_size: int | None = None  # Kubernetes without [[nodes]]: how many nodes hold the model together
    router: str | None = None
    home: str | None = None  # the real home folder on the nodes; records have a stand-in


@dataclass(frozen=True)
class Inventory:
    """The nodes and settings as they were read, and what is wrong with the nodes."""

    nodes: tuple[Node, ...] = ()
    settings: Settings = Settings()
    problems: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class Layout:
    """How one model is spread: ``tensor`` inside a node, ``pipeline`` over nodes, ``data`` copies or expert groups."""

    nodes: int
    gpus_per_node: int  # used on each node
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert_parallel: bool = False

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def data_local(self) -> int:
        """Data parallel ranks on each node (at least one: a rank that spans nodes counts on each)."""
        return max(1, self.data // self.nodes)

    @property
    def spans_nodes(self) -> bool:
        """Whether one copy of the model lies on several nodes."""
        return self.nodes > 1 and (self.pipeline > 1 or self.expert_parallel or self.tensor > self.gpus_per_node)


@dataclass(frozen=True)
class Sized:
    """A layout with what the fit says of it. Memory figures are per GPU, on the fullest GPU."""

    layout: Layout
    plan: Plan
    request: FitRequest | None
    result: FitResult | None
    traffic_bytes_per_token: int  # between nodes, for each token of prompt or answer; an estimate
    reason: str
    whole: bool = False  # only what lies in the GPUs counts: nobody spreads a model to keep a part of it in RAM

    @property
    def offloads(self) -> bool:
        """Whether a part of the weights stays in RAM though the user did not say so."""
        asked = self.plan.session.answers.get("cpu_offload_gb") is not None
        return self.request is not None and self.request.cpu_offload_bytes > 0 and not asked

    @property
    def fits(self) -> bool:
        if self.whole and self.offloads:
            return False
        return not self.plan.blockers and (self.result is None or self.result.fits or not self.result.certain)

    @property
    def cache_tokens(self) -> int | None:
        """Tokens that the KV caches of all copies hold together; None where it is not known."""
        if self.result is None or not self.result.certain:
            return None
        return int(max(0, self.result.kv_cache_tokens.best)) * self.layout.data


@dataclass(frozen=True)
class Way:
    """One way to run it, with its price."""

    key: str
    title: str
    possible: bool
    reason: str  # why one would take it, or why it cannot be
    sized: Sized | None = None
    copies: int = 1
    needs: tuple[str, ...] = ()  # what it asks of the machines
    recommended: bool = False
    shared_gpus: int | None = None  # where several copies lie on one GPU: how many GPUs there are

    @property
    def gpus(self) -> int:
        if self.shared_gpus is not None:
            return self.shared_gpus
        return self.sized.layout.gpus * self.copies if self.sized is not None else 0

    @property
    def max_model_len(self) -> int | None:
        """The longest request; None where nothing limits it, or where that is not known."""
        length = self.sized.plan.value("max_model_len") if self.sized is not None else None
        return length if isinstance(length, int) and self.sized is not None and self.sized.plan.model is not None else None

    @property
    def cache_tokens(self) -> int | None:
        tokens = self.sized.cache_tokens if self.sized is not None else None
        return None if tokens is None else tokens * self.copies


@dataclass(frozen=True)
class ClusterPlan:
    """What is written for ``run_on``, and every other way beside it."""

    run_on: str
    sized: Sized
    nodes: tuple[Node, ...]
    settings: Settings
    ways: tuple[Way, ...]
    copies: int = 1
    shares: tuple[tuple[int, ...], ...] = ()  # replicas on one host: the GPUs of each
    shared_storage: bool = False
    start_s: int = 0  # seconds after which a start that is not ready is stuck
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[Notice, ...] = ()
    blockers: tuple[Notice, ...] = ()
    notes: tuple[str, ...] = ()
    after: tuple[Step, ...] = ()

    @property
    def plan(self) -> Plan:
        return self.sized.plan

    @property
    def layout(self) -> Layout:
        return self.sized.layout

    @property
    def head(self) -> Node:
        return self.nodes[0]

    @property
    def recommended(self) -> Way | None:
        return next((w for w in self.ways if w.recommended), None)
