"""What to type after a cluster's files are written, in order."""

from __future__ import annotations

import posixpath
from itertools import takewhile

from wizard.cluster.types import REPLICAS, THIS, ClusterPlan
from wizard.i18n import _
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import bash_line
from wizard.plan.after import MOVE_MODEL, network_steps, try_command
from wizard.plan_types import Step
from wizard.steps import OVER_NODES


def next_steps(cluster: ClusterPlan) -> tuple[Step, ...]:
    """The steps from written files to an answering server; none beside blockers."""
    plan = cluster.plan
    if cluster.blockers or plan.release is None:
        return ()
    if cluster.run_on == THIS:
        return plan.after
    out = str(plan.value("out_dir"))
    if cluster.run_on in OVER_NODES:
        steps = _over_nodes(cluster, out)
    elif cluster.run_on == REPLICAS:
        where = "linux-new" if plan.wsl_changes else "linux"
        steps = [Step(_("Start the servers and the router"), (bash_line(["cd", out]), "docker compose up -d", "docker compose ps"), where, consequence=_("The router answers once the first server is loaded."))]
    else:
        return tuple(_kubernetes(cluster, out))
    # What comes before the start of one server comes before that of several: a model that is moved, WSL's resources.
    before = takewhile(lambda step: "./launch.sh" not in step.commands, plan.after)
    if cluster.run_on in OVER_NODES:
        before = takewhile(lambda step: step.key == MOVE_MODEL, before)  # no .wslconfig is written for nodes
    steps = [*before, *steps]
    told = _("On {name}, the head.").format(name=cluster.head.name) if cluster.run_on in OVER_NODES else _("On this machine, where the router runs.")
    steps.append(Step(_("Try it"), (try_command(plan),), consequence=told))
    if plan.value("access") == "network":
        steps += network_steps(plan)
    return tuple(steps)


def _over_nodes(cluster: ClusterPlan, out: str) -> list[Step]:
    head, others = cluster.head, cluster.nodes[1:]
    steps = []
    if others:
        copies = tuple(bash_line(["rsync", "-a", out + "/", f"{n.address}:{out}/"]) for n in others)
        steps.append(Step(_("Bring the folder to every node, at the same place"), copies, consequence=_("It holds vllm.env, which only you can read: keep it so.")))
    steps.append(Step(_("On {name}, the head, first").format(name=head.name), (bash_line([f"{out}/{head.name}/launch.sh"]),)))
    for node in others:
        steps.append(Step(_("On {name}").format(name=node.name), (bash_line([f"{out}/{node.name}/launch.sh"]),)))
    if others:
        last = steps[-1]
        steps[-1] = Step(last.title, last.commands, consequence=_("The others wait for the head's port by themselves: it need not be ready before they are started."))
    return steps


def _kubernetes(cluster: ClusterPlan, out: str) -> list[Step]:
    from wizard.cluster.kubernetes import LOADER, STORAGE, names, to_bring
    from wizard.cluster.planning import storage_of

    name = names(cluster)
    plan = cluster.plan
    steps = [
        Step(
            _("Make the secret from the file that holds it"),
            (
                bash_line(["kubectl", "create", "namespace", name.namespace]),
                bash_line(["kubectl", "--namespace", name.namespace, "create", "secret", "generic", name.secret, f"--from-env-file={out}/{ENV_NAME}"]),
            ),
            consequence=_("It stands in no manifest. An existing namespace is no fault."),
        )
    ]
    apply = ["kubectl", "apply", "--namespace", name.namespace, "--filename"]
    brought = to_bring(cluster)
    if storage_of(plan.session) == "pvc":
        steps.append(Step(_("Make the volume for the model"), (bash_line([*apply, f"{out}/kubernetes/{STORAGE}"]),)))
    if brought:
        own = ["kubectl", "--namespace", name.namespace]
        steps += [step for step in plan.after if step.key == MOVE_MODEL]  # the copy is what is brought
        steps += [
            Step(
                _("Start a pod that mounts the volume"),
                (
                    bash_line([*apply, f"{out}/kubernetes/{LOADER}"]),
                    bash_line([*own, "wait", "--for=condition=Ready", "--timeout=10m", f"pod/{name.loader}"]),
                ),
            ),
            Step(
                _("Bring the model into the volume"),
                tuple(line for source, place in brought for line in _copied(source, place, [*own, "exec"], name.loader)),
                consequence=_("Links are followed: in the Hugging Face cache a model's files are links."),
            ),
            Step(
                _("Take that pod away"),
                (bash_line([*own, "delete", "pod", name.loader]),),
                consequence=_("The volume keeps the model; most volumes can only be mounted on one machine at a time."),
            ),
        ]
    steps.append(Step(_("Start the servers"), (bash_line([*apply, f"{out}/kubernetes/{name.manifest}"]),)))
    watch = ["kubectl", "--namespace", name.namespace, "get", "pods", "--watch"]
    steps.append(Step(_("Watch it come up"), (bash_line(watch),), consequence=_("Loading is given {minutes} minutes before the start counts as failed.").format(minutes=cluster.start_s // 60)))
    steps.append(
        Step(
            _("Try it"),
            (bash_line(["kubectl", "--namespace", name.namespace, "port-forward", f"service/{name.app}", f"{plan.value('port')}:8000"]), try_command(plan)),
            consequence=_("The second line in another terminal."),
        )
    )
    return steps



def _copied(source: str, place: str, execute: list[str], pod: str) -> list[str]:
    """The lines that bring a folder or file to ``place`` in the pod, with what its links lead to."""

    def inside(*words: str, fed: bool = False) -> str:
        return bash_line([*execute, *(["-i"] if fed else []), pod, "--", *words])

    folder, name = posixpath.split(place)
    own_folder, own = posixpath.split(source.rstrip("/"))
    if place.endswith(".gguf") or place.startswith("/models/given/"):
        # One file, or nobody knows: it goes under its own name, and is then called as the server expects it.
        lines = [inside("mkdir", "-p", folder)]
        lines.append(bash_line(["tar", "-C", own_folder or "/", "-chf", "-", own]) + " | " + inside("tar", "-C", folder, "-xf", "-", fed=True))
        return lines if own == name else [*lines, inside("mv", posixpath.join(folder, own), place)]
    lines = [inside("mkdir", "-p", place)]
    return [*lines, bash_line(["tar", "-C", source, "-chf", "-", "."]) + " | " + inside("tar", "-C", place, "-xf", "-", fed=True)]
