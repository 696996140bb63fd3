"""More than one server on this machine: several machines, replicas behind a router, Kubernetes.

``nodes`` reads them, ``layout`` spreads the model by what the fit says, ``planning`` prices every way and judges,
``files`` writes: ``node_files`` (scripts and Compose of each node), ``replicas``, ``kubernetes``.
"""

from wizard.cluster.files import cluster_files
from wizard.cluster.nodes import read_inventory
from wizard.cluster.planning import plan_cluster
from wizard.cluster.types import (
    KUBERNETES,
    NATIVE,
    RAY,
    REPLICAS,
    THIS,
    WAYS,
    ClusterPlan,
    Inventory,
    Layout,
    Node,
)

__all__ = [
    "KUBERNETES", "NATIVE", "RAY", "REPLICAS", "THIS", "WAYS", "ClusterPlan", "Inventory", "Layout", "Node", "cluster_files", "plan_cluster", "read_inventory",
]  # fmt: skip
