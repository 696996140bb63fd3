"""The command of each node: what follows ``vllm serve`` there, its variables, and the port that others wait for."""

from __future__ import annotations

from dataclasses import dataclass

from wizard.cluster.types import NATIVE, RAY, ClusterPlan
from wizard.i18n import _

MASTER_PORT = 29501  # vLLM's own default for --master-port
RPC_PORT = 13345  # any free port; the one that vLLM's documentation takes
MOST_API_SERVERS = 8
RAY_PORT = 6379  # Ray's own default
# Known to work with vLLM 0.18 and later (a start was seen with 0.32.0); every node needs the very same.
RAY_VERSION = "2.54.0"


@dataclass(frozen=True)
class NodeCommand:
    """What one node runs."""

    rank: int
    name: str
    words: tuple[str, ...]  # what follows `vllm serve` (the model first); empty: the node runs no vllm serve of its own
    reasons: dict[str, str]  # flag -> why
    wait_port: int  # the head's port that opens when it is ready for the others

    @property
    def is_head(self) -> bool:
        return self.rank == 0


def node_command(cluster: ClusterPlan, rank: int, *, container: bool) -> NodeCommand:
    """The command of node ``rank`` for vLLM's own start or for Ray, in a container or in a local environment."""
    node = cluster.nodes[rank]
    words = list(cluster.plan.container_argv if container else cluster.plan.argv)
    words = without(words, "--host", "--port")
    added, reasons = (native_words if cluster.run_on == NATIVE else ray_words)(cluster, rank)
    if rank == 0:
        words += ["--host", bind_address(cluster), "--port", str(cluster.plan.value("port"))]
        reasons = {**reasons, "--host": cluster.plan.reason("access"), "--port": cluster.plan.reason("port")}
    elif cluster.run_on == RAY:
        return NodeCommand(rank, node.name, (), {}, wait_port(cluster))
    return NodeCommand(rank, node.name, (*words, *added), reasons, wait_port(cluster))


def bind_address(cluster: ClusterPlan) -> str:
    """Where the head's API listens."""
    return "0.0.0.0" if cluster.plan.value("access") == "network" else "127.0.0.1"  # noqa: S104 - the user asked for it


def ray_requirement(cluster: ClusterPlan) -> str:
    """What pip is given; its compiled graphs (which bring CuPy) are for NVIDIA GPUs, as vLLM itself required them."""
    return f"ray[cgraph]=={RAY_VERSION}" if cluster.plan.device == "nvidia" else f"ray=={RAY_VERSION}"


def wait_port(cluster: ClusterPlan) -> int:
    """The head's port that the other nodes connect to."""
    if cluster.run_on == RAY:
        return RAY_PORT
    return RPC_PORT if cluster.layout.data > 1 else MASTER_PORT


def without(words: list[str], *flags: str) -> list[str]:
    """``words`` without these options and the value that follows each."""
    out: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in flags:
            skip = True
        elif not word.startswith(tuple(f + "=" for f in flags)):
            out.append(word)
    return out


def native_words(cluster: ClusterPlan, rank: int) -> tuple[list[str], dict[str, str]]:
    """The options of vLLM's own multi-node start, with their reasons."""
    layout, head = cluster.layout, cluster.head.address
    if layout.nodes == 1:
        return [], {}
    reasons: dict[str, str] = {}
    if layout.data > 1:
        words = ["--data-parallel-size-local", str(layout.data_local), "--data-parallel-address", head, "--data-parallel-rpc-port", str(RPC_PORT)]
        reasons["--data-parallel-size-local"] = _("of {all} ranks, so many run on this node").format(all=layout.data)
        reasons["--data-parallel-address"] = _("the head, which hands out the requests")
        if rank == 0:
            words += api_servers(cluster, reasons)
        if rank:
            words += ["--data-parallel-start-rank", str(rank * layout.data_local)]
            reasons["--data-parallel-start-rank"] = _("the ranks before it run on the nodes before this one")
    else:
        words = ["--nnodes", str(layout.nodes), "--node-rank", str(rank), "--master-addr", head, "--master-port", str(MASTER_PORT)]
        reasons["--nnodes"] = _("so many machines hold the model together")
        reasons["--node-rank"] = _("this machine's place among them; 0 is the head")
        reasons["--master-addr"] = _("the head, where all meet")
    if rank:
        words.append("--headless")
        reasons["--headless"] = _("only the head answers requests")
    return words, reasons


def api_servers(cluster: ClusterPlan, reasons: dict[str, str]) -> list[str]:
    """The head's API processes: newer releases start one for each rank, however many there are."""
    release = cluster.plan.release
    if cluster.layout.data <= MOST_API_SERVERS or release is None or release.option("--api-server-count") is None:
        return []
    if "--api-server-count" in cluster.plan.argv:
        return []
    reasons["--api-server-count"] = _("vLLM would start one for each of {n} ranks on the head").format(n=cluster.layout.data)
    return ["--api-server-count", str(MOST_API_SERVERS)]


def ray_words(cluster: ClusterPlan, rank: int) -> tuple[list[str], dict[str, str]]:
    """The options that make vLLM start its workers through Ray."""
    layout = cluster.layout
    if layout.data > 1:
        words = ["--data-parallel-backend", "ray", "--data-parallel-size-local", str(layout.data_local)]
        reasons = {
            "--data-parallel-backend": _("Ray starts the ranks on the other nodes"),
            "--data-parallel-size-local": _("of {all} ranks, so many run on the head").format(all=layout.data),
        }
        return [*words, *api_servers(cluster, reasons)], reasons
    return ["--distributed-executor-backend", "ray"], {"--distributed-executor-backend": _("Ray starts the workers on the other nodes")}


def ray_head_script(nodes: int, limit_s: int, *, container: bool = True) -> str:
    """Bash for the head: starts Ray, waits until all nodes have joined, then serves with the arguments it is given.

    A container ends with its server; outside of one Ray's own processes would stay, so they are stopped.
    """
    start = f'ray start --head --node-ip-address="$VLLM_HOST_IP" --port={RAY_PORT} --include-dashboard=false --disable-usage-stats'
    wait = f"python3 -c '{RAY_WAIT}' {nodes} {limit_s}"
    if container:
        return "\n".join(("set -e", start, wait, 'exec vllm serve "$@"'))
    return "\n".join(("set -e", "trap 'ray stop >/dev/null 2>&1' EXIT", start, wait, 'vllm serve "$@"'))


def ray_worker_script(head: str) -> str:
    """Bash for the other nodes: joins the head's Ray and stays."""
    return f'exec ray start --address="{head}:{RAY_PORT}" --node-ip-address="$VLLM_HOST_IP" --disable-usage-stats --block'


# Counted by Ray itself: `ray status` is made for people. No single quote may stand in it.
RAY_WAIT = """
import ray, sys, time
want, end = int(sys.argv[1]), time.time() + int(sys.argv[2])
ray.init(address="auto", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < want:
    if time.time() > end:
        sys.exit("Not all nodes have joined Ray in time: ray status shows who is there.")
    time.sleep(2)
"""
