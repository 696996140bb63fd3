"""ClusterPlan -> the files that are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wizard.cluster.types import KUBERNETES, THIS, ClusterPlan, Settings
from wizard.i18n import _
from wizard.outputs import files as single_files
from wizard.outputs.answers import answers_file
from wizard.outputs.env import env_file
from wizard.outputs.spec import FileSpec
from wizard.steps import OVER_NODES


def cluster_files(cluster: ClusterPlan, *, apply_wslconfig: bool = False) -> list[FileSpec]:
    """All files of a plan without blockers, in the order in which they are shown; none beside blockers.

    ``apply_wslconfig``: the user's own .wslconfig itself, not a proposal, where one is written.
    """
    if cluster.blockers or cluster.plan.release is None:
        return []
    if cluster.run_on == THIS:
        return single_files(cluster.plan, apply_wslconfig=apply_wslconfig)
    if cluster.run_on in OVER_NODES:
        from wizard.cluster.node_files import node_files

        out = node_files(cluster)
    elif cluster.run_on == KUBERNETES:
        from wizard.cluster.kubernetes import kubernetes_files

        out = kubernetes_files(cluster)
    else:
        from wizard.cluster.replicas import replica_files

        out = replica_files(cluster)
        # What WSL2 needs does not depend on how many servers share its GPUs.
        out += [spec for spec in single_files(cluster.plan, apply_wslconfig=apply_wslconfig) if spec.path.endswith(".wslconfig")]
    return [*(_at_home(spec, cluster) for spec in out), env_file(cluster.plan), cluster_answers(cluster)]


def _at_home(spec: FileSpec, cluster: ClusterPlan) -> FileSpec:
    """The file with the nodes' real home folder, where the records have a stand-in."""
    home = cluster.settings.home
    if home is None:
        return spec
    # Both are plain words in bash and YAML, so one can stand wherever the other does.
    old, new = (text.encode() for text in (cluster.plan.session.machine.home + "/", home + "/"))
    return replace(spec, content=spec.content.replace(old, new))


def cluster_answers(cluster: ClusterPlan) -> FileSpec:
    """answers.toml with the nodes and settings, so that the whole set can be made again."""
    import tomli_w

    base = answers_file(cluster.plan)
    _old, _sep, rest = base.content.decode().partition("\n\n")
    lines = [f"# {line}" for line in _heading().splitlines()]
    tables: dict[str, Any] = {}
    usual = vars(Settings())
    settings = {k: v for k, v in vars(cluster.settings).items() if v != usual[k]}
    if settings:
        tables["cluster"] = settings
    text = "\n".join(lines) + "\n\n" + rest
    if tables:
        text += "\n" + tomli_w.dumps(tables)
    for node in cluster.nodes:
        row = {"name": node.name, "address": node.address, "interface": node.interface, "machine": node.record, "release": node.release}
        text += "\n[[nodes]]\n" + tomli_w.dumps({k: v for k, v in row.items() if v is not None})
    return FileSpec(base.path, text.encode(), base.mode, title=base.title)


def _heading() -> str:
    return _(
        "Answers of vllm-wizard. The same files again: vllm-wizard cluster generate --yes --answers answers.toml --out FOLDER\nNo secret stands here."
    )
