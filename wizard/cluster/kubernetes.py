"""Kubernetes: a Deployment, or a LeaderWorkerSet where several nodes hold the model; values for the production-stack chart.

Secrets are only referred to. The start-up probe waits as long as loading may take by the plan: a probe that gives
up earlier makes Kubernetes stop a server that is still loading, which then loads again, for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wizard.cluster.commands import (
    MASTER_PORT,
    RAY_PORT,
    RPC_PORT,
    ray_head_script,
    ray_worker_script,
    without,
)
from wizard.cluster.planning import native_objection, storage_of
from wizard.cluster.types import ClusterPlan
from wizard.cluster.yaml_out import Noted, document
from wizard.errors import BadInput
from wizard.i18n import _, clause
from wizard.outputs.command import version_of
from wizard.outputs.quoting import slug, wrap_comment
from wizard.outputs.spec import FileSpec
from wizard.plan.arguments import CONTAINER_HF_CACHE, CONTAINER_VLLM_CACHE
from wizard.session import SECRET_ENV

GIB = 1 << 30
GPU_RESOURCE = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/i915"}
PROBE_PERIOD_S = 10
STOP_S = 120  # a server finishes the requests that it works on
PULL_S = 1800  # what a cold node needs for the image itself (10 GB and more), on top of loading
PORT = 8000
FOLDER = "kubernetes"
STORAGE = "storage.yaml"
LOADER = "loader.yaml"
LOADER_IMAGE = "busybox:1.37"


@dataclass(frozen=True)
class Names:
    """What the objects are called."""

    app: str  # Deployment or LeaderWorkerSet, Service, label
    namespace: str
    secret: str
    claim: str
    manifest: str  # file name
    loader: str  # the short-lived pod that the model is copied through


def names(cluster: ClusterPlan) -> Names:
    """Names that Kubernetes takes: lower-case letters, digits and dashes, a letter first."""
    plain = re.sub(r"[^a-z0-9-]+", "-", slug(str(cluster.plan.value("served_model_name") or "model"))).strip("-")[:40].strip("-")
    app = "vllm-" + (plain or "model")
    given = cluster.plan.session.answers.get("namespace")
    namespace = str(given[0]) if given is not None and given[0] else "vllm"
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", namespace):
        raise BadInput(_("namespace={name}: lower-case letters, digits and - can stand there, 63 at most.").format(name=namespace))
    return Names(app, namespace, f"{app}-secrets", f"{app}-models", "leaderworkerset.yaml" if cluster.layout.nodes > 1 else "deployment.yaml", f"{app}-loader")


def model_claim(cluster: ClusterPlan) -> str | None:
    """Where in the claim's pod a local model must lie; None where the model is downloaded, or lies on the nodes."""
    plan = cluster.plan
    if storage_of(plan.session) == "hostpath" or plan.host_model_path is None:
        return None
    return next((target for _source, target, read_only in plan.mounts if read_only and target.startswith("/models/")), None)


def to_bring(cluster: ClusterPlan) -> list[tuple[str, str]]:
    """What must be copied into the claim: (its path here, its place in a pod that has the whole claim at /models)."""
    if storage_of(cluster.plan.session) == "hostpath":
        return []
    local = [(source, target) for source, target, read_only in cluster.plan.mounts if read_only]
    return [(source, target if target.startswith("/models/") else "/models" + target) for source, target in local]


def loader_pod(cluster: ClusterPlan, name: Names) -> dict[str, Any]:
    """A pod that only mounts the claim: what is copied into the volume goes through it."""
    resource = GPU_RESOURCE.get(cluster.plan.device)
    spec: dict[str, Any] = {
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        # A volume of some classes is made on the node of its first pod.
        "tolerations": [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}] if resource is not None else None,
        "containers": [
            {
                "name": "loader",
                "image": LOADER_IMAGE,
                "command": Noted(["sleep", "86400"], _("It ends by itself after a day, should it be forgotten.")),
                "volumeMounts": [{"name": "models", "mountPath": "/models"}],
            }
        ],
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": name.claim}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.loader}, "spec": spec}


def kubernetes_files(cluster: ClusterPlan) -> list[FileSpec]:
    """The manifests, and for one-node copies the chart's values."""
    name = names(cluster)
    parts = _group(cluster, name) if cluster.layout.nodes > 1 else _deployment(cluster, name)
    heading = wrap_comment(
        _("{model} on vLLM {version}. Secrets: kubectl --namespace {namespace} create secret generic {secret} --from-env-file=vllm.env").format(
            model=cluster.plan.value("served_model_name"), version=version_of(cluster.plan), namespace=name.namespace, secret=name.secret
        )
    )
    heading += wrap_comment(_("Then: kubectl apply --namespace {namespace} --filename {file}").format(namespace=name.namespace, file=name.manifest))
    heading += wrap_comment(_("Why: {reason}.").format(reason=clause(cluster.sized.reason)))
    if model_claim(cluster):
        heading += wrap_comment(_("The model must lie in the claim {claim}, at {path} of the pod.").format(claim=name.claim, path=model_claim(cluster)))
    text = "\n".join(heading) + "\n" + "---\n".join(document(p) for p in parts)
    title = _("Deployment and Service") if cluster.layout.nodes == 1 else _("LeaderWorkerSet and Service")
    out = []
    for claim in _claim(cluster, name):
        why = _("Where the model lies; it stays when the servers are taken away. For {file}, or the chart.").format(file=name.manifest)
        out.append(FileSpec(f"{FOLDER}/{STORAGE}", ("\n".join(wrap_comment(why)) + "\n" + document(claim)).encode(), 0o644, title=_("the volume for the model")))
    out.append(FileSpec(f"{FOLDER}/{name.manifest}", text.encode(), 0o644, title=title))
    if to_bring(cluster):
        why = _("A short-lived pod that mounts the claim {claim}, to copy the model through; it is taken away before the servers start.").format(claim=name.claim)
        content = "\n".join(wrap_comment(why)) + "\n" + document(loader_pod(cluster, name))
        out.append(FileSpec(f"{FOLDER}/{LOADER}", content.encode(), 0o644, title=_("the pod that the model is copied through")))
    if cluster.layout.nodes == 1:
        out.append(FileSpec(f"{FOLDER}/production-stack-values.yaml", stack_values(cluster).encode(), 0o644, title=_("values for the vLLM production-stack chart: router, copies, autoscaling")))
    return out


# -- parts that all share -------------------------------------------------------------------------------------------


def argument(word: str) -> str:
    """A word of a container's ``args``: there ``$(NAME)`` would be replaced, and ``$$(`` stands for ``$(``."""
    return word.replace("$(", "$$(")


def _words(cluster: ClusterPlan) -> list[str]:
    return without(list(cluster.plan.container_argv), "--host", "--port")


def _noted(cluster: ClusterPlan, words: list[str]) -> list[Any]:
    reasons = {d.flag: d.reason for d in cluster.plan.decisions if d.flag}
    return [Noted(argument(w), reasons[w]) if reasons.get(w) else argument(w) for w in words]


def secret_variables(cluster: ClusterPlan, name: Names) -> list[Any]:
    """The secrets as references; a key that a server on the network must have is not optional."""
    needed = {"api_key": cluster.plan.value("access") == "network", "hf_token": "hf_token" in cluster.plan.secrets_wanted}
    rows = [
        {"name": SECRET_ENV[key], "valueFrom": {"secretKeyRef": {"name": name.secret, "key": SECRET_ENV[key], "optional": not needed[key]}}}
        for key in ("hf_token", "api_key")
    ]
    return [Noted(rows[0], _("The secrets stand in the Secret only.")), rows[1]]


def _environment(cluster: ClusterPlan, name: Names) -> list[Any]:
    rows: list[Any] = [{"name": k, "value": argument(v)} for k, v in sorted(cluster.plan.container_env.items())]
    return [*secret_variables(cluster, name), *rows]


def start_probe_failures(cluster: ClusterPlan) -> int:
    """How many failed start-up probes cover the time that loading may take."""
    return -(-cluster.start_s // PROBE_PERIOD_S)


def probes(cluster: ClusterPlan) -> dict[str, Any]:
    """Start-up, readiness and liveness; the latter two only count once the first has passed."""
    check = {"httpGet": {"path": "/health", "port": "http"}}
    minutes = cluster.start_s // 60
    return {
        "startupProbe": Noted(
            {**check, "periodSeconds": PROBE_PERIOD_S, "timeoutSeconds": 5, "failureThreshold": start_probe_failures(cluster)},
            _("{minutes} minutes for loading: until this has passed once, nothing stops the server.").format(minutes=minutes),
        ),
        "readinessProbe": {**check, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": Noted({**check, "periodSeconds": 10, "timeoutSeconds": 10, "failureThreshold": 6}, _("A minute without an answer: restart.")),
    }


def host_memory_gib(cluster: ClusterPlan) -> int:
    """RAM to ask for: a few GiB for each process, since the weights pass through the page cache."""
    return 8 + 4 * cluster.layout.gpus_per_node


def _resources(cluster: ClusterPlan) -> dict[str, Any]:
    plan = cluster.plan
    resource = GPU_RESOURCE.get(plan.device)
    if resource is None:
        size = int((plan.fit.budget_bytes if plan.fit is not None else 16 * GIB) / GIB) + 4
        return {"requests": {"cpu": "4", "memory": f"{size}Gi"}, "limits": {"memory": f"{size}Gi"}}
    count = str(cluster.layout.gpus_per_node)
    return {"requests": {"cpu": str(2 + 2 * cluster.layout.gpus_per_node), "memory": f"{host_memory_gib(cluster)}Gi", resource: count}, "limits": {resource: count}}


def _storage(cluster: ClusterPlan, name: Names) -> tuple[list[Any], list[Any]]:
    """(volumes, mounts): shared memory, the compile cache, and where the model lies."""
    plan = cluster.plan
    shm = 2 + 2 * cluster.layout.gpus_per_node
    volumes: list[Any] = [
        Noted({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shm}Gi"}}, _("The workers share memory through /dev/shm; 64 MB is the default.")),
        {"name": "compiled", "emptyDir": {}},
    ]
    mounts: list[Any] = [{"name": "shm", "mountPath": "/dev/shm"}, {"name": "compiled", "mountPath": CONTAINER_VLLM_CACHE}]  # noqa: S108 - inside the pod
    local = [(s, t) for s, t, read_only in plan.mounts if read_only]
    if storage_of(plan.session) == "hostpath":
        for at, (source, target) in enumerate(local, 1):
            kind = "File" if source.endswith(".gguf") else "Directory"
            volumes.append({"name": f"host-{at}", "hostPath": {"path": source, "type": kind}})
            mounts.append({"name": f"host-{at}", "mountPath": target, "readOnly": True})
        if plan.host_model_path is None:
            cache = next((s for s, t, _r in plan.mounts if t == CONTAINER_HF_CACHE), "/var/lib/vllm/huggingface")
            volumes.append({"name": "models", "hostPath": {"path": cache, "type": "DirectoryOrCreate"}})
            mounts.append({"name": "models", "mountPath": CONTAINER_HF_CACHE})
        return volumes, mounts
    volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": name.claim}})
    if plan.host_model_path is None:
        mounts.append({"name": "models", "mountPath": CONTAINER_HF_CACHE})
    else:
        mounts.append({"name": "models", "mountPath": "/models", "readOnly": True})
    mounts += [{"name": "models", "mountPath": t, "subPath": t.lstrip("/"), "readOnly": True} for _s, t in local if not t.startswith("/models/")]
    return volumes, mounts


def storage_gib(cluster: ClusterPlan) -> int:
    """The claim's size: the model and a quarter more, at least 20."""
    asked = cluster.settings.storage_gib
    size = cluster.plan.model.weight_bytes if cluster.plan.model is not None else None
    return asked or max(20, int((size or 80 * GIB) / GIB * 1.25) + 5)


def _many_pods(cluster: ClusterPlan) -> bool:
    return cluster.copies * cluster.layout.nodes > 1


def _claim(cluster: ClusterPlan, name: Names) -> list[dict[str, Any]]:
    if storage_of(cluster.plan.session) == "hostpath":
        return []
    many = _many_pods(cluster)
    reason = _("Pods on several nodes read it at once.") if many else _("One pod reads it.")
    spec: dict[str, Any] = {
        "accessModes": Noted(["ReadWriteMany" if many else "ReadWriteOnce"], reason),
        "resources": {"requests": {"storage": f"{storage_gib(cluster)}Gi"}},
        "storageClassName": cluster.settings.storage_class,
    }
    return [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": _meta(name.claim, name), "spec": spec}]


def _meta(own: str, name: Names) -> dict[str, Any]:
    return {"name": own, "labels": {"app.kubernetes.io/name": name.app}}


def _service(name: Names, selector: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(name.app, name),
        "spec": {"type": "ClusterIP", "selector": dict(selector), "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]},
    }


def _rollout(cluster: ClusterPlan) -> Noted:
    """How an old pod makes way for a new one."""
    held = _("A new pod needs the GPUs of an old one: the old one leaves first.")
    if GPU_RESOURCE.get(cluster.plan.device) is None:
        held = _("A new pod needs the memory of an old one: the old one leaves first.")
    return Noted({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, held)


def _pod(cluster: ClusterPlan, name: Names, container: dict[str, Any], *, serves: bool) -> dict[str, Any]:
    plan = cluster.plan
    volumes, mounts = _storage(cluster, name)
    full: dict[str, Any] = {"name": "vllm", "image": plan.image_reference, **container}
    if serves:
        full["ports"] = [{"name": "http", "containerPort": PORT}]
        full |= probes(cluster)
    full |= {"resources": _resources(cluster), "volumeMounts": mounts}
    spec: dict[str, Any] = {
        "enableServiceLinks": Noted(False, _("A service whose name starts with vllm would set VLLM_... variables that vLLM reads as its own.")),
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": Noted(STOP_S, _("The server finishes the requests that it works on.")),
    }
    resource = GPU_RESOURCE.get(plan.device)
    if resource is not None:
        spec["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    return {**spec, "containers": [full], "volumes": volumes}


# -- one node each --------------------------------------------------------------------------------------------------


def _deployment(cluster: ClusterPlan, name: Names) -> list[dict[str, Any]]:
    labels = {"app.kubernetes.io/name": name.app}
    words = [*_words(cluster), "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104 - inside the pod
    container = {"command": ["vllm", "serve"], "args": _noted(cluster, words), "env": _environment(cluster, name)}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(name.app, name),
        "spec": {
            "replicas": cluster.copies,
            "selector": {"matchLabels": labels},
            "strategy": _rollout(cluster),
            "progressDeadlineSeconds": Noted(cluster.start_s + PULL_S, _("The image and the model are loaded within it.")),
            "template": {"metadata": {"labels": labels}, "spec": _pod(cluster, name, container, serves=True)},
        },
    }
    return [deployment, _service(name, labels)]


# -- several nodes together -----------------------------------------------------------------------------------------


def _group(cluster: ClusterPlan, name: Names) -> list[dict[str, Any]]:
    assert cluster.plan.release is not None
    through_ray = native_objection(cluster.plan.release.version, cluster.layout) is not None
    leader, worker = _ray_pods(cluster) if through_ray else _native_pods(cluster)
    pods = []
    for container, serves in ((leader, True), (worker, False)):
        ip = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        pods.append(_pod(cluster, name, {**container, "env": [*_environment(cluster, name), ip]}, serves=serves))
    leaders = {"app.kubernetes.io/name": name.app, "role": "leader"}
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _meta(name.app, name),
        "spec": {
            "replicas": cluster.copies,
            "startupPolicy": Noted("LeaderCreated", _("The workers wait for the leader's port by themselves; it is not ready before they are there.")),
            "leaderWorkerTemplate": {
                "size": cluster.layout.nodes,
                "restartPolicy": Noted("RecreateGroupOnPodRestart", _("The group works together or not at all.")),
                "leaderTemplate": {"metadata": {"labels": leaders}, "spec": pods[0]},
                "workerTemplate": {"metadata": {"labels": {"app.kubernetes.io/name": name.app, "role": "worker"}}, "spec": pods[1]},
            },
        },
    }
    return [group, _service(name, leaders)]


def _native_pods(cluster: ClusterPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """(leader, worker): the group's size, address and each pod's place come from the controller's variables."""
    layout = cluster.layout
    words, serve = _noted(cluster, _words(cluster)), ["--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    if layout.data > 1:
        shared = ["--data-parallel-size-local", str(layout.data_local), "--data-parallel-address", "$(LWS_LEADER_ADDRESS)", "--data-parallel-rpc-port", str(RPC_PORT)]
        own, port = f'--headless --data-parallel-start-rank "$((LWS_WORKER_INDEX * {layout.data_local}))"', RPC_PORT
        first: list[str] = []
    else:
        shared = ["--nnodes", "$(LWS_GROUP_SIZE)", "--master-addr", "$(LWS_LEADER_ADDRESS)", "--master-port", str(MASTER_PORT)]
        own, port, first = '--headless --node-rank "$LWS_WORKER_INDEX"', MASTER_PORT, ["--node-rank", "0"]
    script = "\n".join(
        (
            "set -e",
            f'until (exec 3<>"/dev/tcp/$LWS_LEADER_ADDRESS/{port}") 2>/dev/null; do sleep 2; done',
            f'exec vllm serve "$@" {own}',
        )
    )
    leader = {"command": ["vllm", "serve"], "args": [*words, *shared, *first, *serve]}
    return leader, {"command": ["bash", "-c", argument(script), "vllm-worker"], "args": [*words, *shared]}


def _ray_pods(cluster: ClusterPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """(leader, worker) through Ray, for releases that have no start of their own over several nodes."""
    layout = cluster.layout
    words = [*_words(cluster), "--host", "0.0.0.0", "--port", str(PORT)]  # noqa: S104
    words += ["--data-parallel-backend", "ray", "--data-parallel-size-local", str(layout.data_local)] if layout.data > 1 else ["--distributed-executor-backend", "ray"]
    wait = f'until (exec 3<>"/dev/tcp/$LWS_LEADER_ADDRESS/{RAY_PORT}") 2>/dev/null; do sleep 2; done\n'
    leader = {"command": ["bash", "-c", argument(ray_head_script(layout.nodes, cluster.start_s)), "vllm-ray"], "args": _noted(cluster, words)}
    return leader, {"command": ["bash", "-c", argument(wait + ray_worker_script("$LWS_LEADER_ADDRESS")), "vllm-ray"]}


# -- the production-stack chart -------------------------------------------------------------------------------------


def stack_values(cluster: ClusterPlan) -> str:
    """values.yaml for the vLLM production-stack chart (0.1.12): engines, router, and autoscaling that is off at first."""
    plan, name = cluster.plan, names(cluster)
    assert plan.image_reference is not None
    repository, _sep, tag = plan.image_reference.rpartition(":")
    words = _words(cluster)
    model, options = words[0], words[1:]
    taken = {"--max-model-len": "maxModelLen", "--max-num-seqs": "maxNumSeqs", "--gpu-memory-utilization": "gpuMemoryUtilization", "--tensor-parallel-size": "tensorParallelSize", "--dtype": "dtype"}
    config: dict[str, Any] = {
        "enablePrefixCaching": Noted(True, _("vLLM's own default; the chart would turn it off.")),
        "tensorParallelSize": Noted(cluster.layout.tensor, _("The chart mounts /dev/shm only where this is set.")),
    }
    extra: list[Any] = []
    reasons = {d.flag: d.reason for d in plan.decisions if d.flag}
    at = 0
    while at < len(options):
        flag, value = options[at], options[at + 1] if at + 1 < len(options) else ""
        if flag in taken and value and not value.startswith("--"):
            number: Any = value if flag == "--dtype" else float(value) if "." in value else int(value)
            config[taken[flag]] = Noted(number, reasons.get(flag, "")) if reasons.get(flag) else number
            at += 2
            continue
        extra.append(Noted(flag, reasons[flag]) if reasons.get(flag) else flag)
        at += 1
    config["extraArgs"] = extra
    # The chart keeps the Hugging Face cache on the claim at /data.
    spec: dict[str, Any] = {
        "name": name.app.removeprefix("vllm-")[:30].strip("-"),
        "repository": repository,
        "tag": tag,
        "modelURL": model,
        "replicaCount": cluster.copies,
        "requestCPU": 2 + 2 * cluster.layout.gpus_per_node,
        "requestMemory": f"{host_memory_gib(cluster)}Gi",
    }
    resource = GPU_RESOURCE.get(plan.device)
    if resource is not None:
        spec |= {"requestGPU": cluster.layout.gpus_per_node, "requestGPUType": resource}
        spec["tolerations"] = [{"key": resource, "operator": "Exists", "effect": "NoSchedule"}]
    else:
        spec["requestGPU"] = 0
    if storage_of(plan.session) == "hostpath" and plan.host_model_path is not None:
        local = [(s, t) for s, t, read_only in plan.mounts if read_only]
        spec["extraVolumes"] = [{"name": f"host-{n}", "hostPath": {"path": s}} for n, (s, _t) in enumerate(local, 1)]
        spec["extraVolumeMounts"] = [{"name": f"host-{n}", "mountPath": t, "readOnly": True} for n, (_s, t) in enumerate(local, 1)]
    elif plan.host_model_path is not None:
        spec["extraVolumes"] = Noted(
            [{"name": "models", "persistentVolumeClaim": {"claimName": name.claim}}], _("The claim of storage.yaml, which holds the model: apply that first.")
        )
        spec["extraVolumeMounts"] = [{"name": "models", "mountPath": "/models", "readOnly": True}]
    else:
        spec |= {"pvcStorage": f"{storage_gib(cluster)}Gi", "pvcAccessMode": ["ReadWriteMany" if cluster.copies > 1 else "ReadWriteOnce"]}
        if cluster.settings.storage_class:
            spec["storageClass"] = cluster.settings.storage_class
    spec |= {
        "shmSize": f"{2 + 2 * cluster.layout.gpus_per_node}Gi",
        "vllmConfig": config,
        "env": [{"name": k, "value": argument(v)} for k, v in sorted(plan.container_env.items())],
        "hf_token": Noted({"secretName": name.secret, "secretKey": SECRET_ENV["hf_token"]}, _("From the Secret; without a token in it, take these lines out.")) if "hf_token" in plan.secrets_wanted else None,
        "keda": Noted(
            {"enabled": False, "minReplicaCount": 1, "maxReplicaCount": max(2, cluster.copies), "pollingInterval": 15, "cooldownPeriod": max(360, cluster.start_s)},
            _("Autoscaling by waiting requests: needs KEDA and Prometheus in the cluster; set enabled to true then."),
        ),
    }
    engine: dict[str, Any] = {
        "runtimeClassName": Noted("", _("The chart's default is nvidia, which not every cluster has.")),
        "containerPort": PORT,
        "strategy": _rollout(cluster),
        "startupProbe": Noted(
            {"initialDelaySeconds": 15, "periodSeconds": PROBE_PERIOD_S, "failureThreshold": start_probe_failures(cluster), "httpGet": {"path": "/health", "port": PORT}},
            _("{minutes} minutes for loading: until this has passed once, nothing stops the server.").format(minutes=cluster.start_s // 60),
        ),
    }
    if plan.value("access") == "network":
        engine["vllmApiKey"] = {"secretName": name.secret, "secretKey": SECRET_ENV["api_key"]}
    engine["modelSpec"] = [spec]
    values = {"servingEngineSpec": engine, "routerSpec": {"enableRouter": True, "replicaCount": 1, "routingLogic": "roundrobin", "serviceType": "ClusterIP"}}
    heading = wrap_comment(_("Values for the vLLM production-stack chart, in place of the Deployment:"))
    heading += wrap_comment("helm repo add vllm https://vllm-project.github.io/production-stack")
    heading += wrap_comment(f"helm upgrade --install {name.app[:40].strip('-')} vllm/vllm-stack --namespace {name.namespace} --values production-stack-values.yaml")
    return "\n".join(heading) + "\n" + document(values)
