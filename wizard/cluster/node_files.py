"""The files of each node: a launch script and a Compose file in a folder named after it, for vLLM's own start and for Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.cluster.commands import (
    NodeCommand,
    node_command,
    ray_head_script,
    ray_requirement,
    ray_worker_script,
)
from wizard.cluster.nodes import gpus_of
from wizard.cluster.planning import ray_in_image
from wizard.cluster.types import RAY, ClusterPlan
from wizard.cluster.yaml_out import Noted, Raw, document, noted_variables
from wizard.facts import Machine
from wizard.i18n import _, clause, ngettext
from wizard.outputs import launch as single
from wizard.outputs.command import version_of
from wizard.outputs.compose import LEAST_START_S, container_name
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import bash_line, bash_word, compose_string, wrap_comment
from wizard.outputs.spec import FileSpec
from wizard.plan_types import Plan, with_gpu_variables

# The head opens its port before it loads the model, but perhaps after it has fetched the image.
WAIT_S = 3600
INTERFACE_VARIABLE = "VLLM_CLUSTER_INTERFACE"


def node_files(cluster: ClusterPlan) -> list[FileSpec]:
    """Script and Compose file of every node, the head's first."""
    out = []
    for rank, node in enumerate(cluster.nodes):
        title = _("the head: starts first, answers requests") if rank == 0 else _("node {n}: waits for the head").format(n=rank + 1)
        out.append(FileSpec(f"{node.name}/launch.sh", node_script(cluster, rank).encode("utf-8", "surrogateescape"), 0o755, title=title))
        out.append(FileSpec(f"{node.name}/compose.yaml", node_compose(cluster, rank).encode(), 0o644, title=_("the same for Docker Compose")))
    return out


def plan_of(cluster: ClusterPlan, rank: int) -> Plan:
    """The plan as it is on node ``rank``: its own machine, its GPUs, its command."""
    plan, node = cluster.plan, cluster.nodes[rank]
    machine: Machine = node.machine or plan.machine
    gpus = tuple(g.index for g in gpus_of(node, plan.device))[: cluster.layout.gpus_per_node]
    inside, outside = node_command(cluster, rank, container=True), node_command(cluster, rank, container=False)
    plan = replace(plan, machine=machine, gpus=gpus, argv=outside.words, container_argv=inside.words)
    chosen = tuple(str(i) for i in gpus) == node.chosen_gpus
    return with_gpu_variables(plan, gpus, _("chosen by you") if chosen else cluster.sized.reason)


# -- the script -----------------------------------------------------------------------------------------------------


def node_script(cluster: ClusterPlan, rank: int) -> str:
    """launch.sh of node ``rank``."""
    plan, node = plan_of(cluster, rank), cluster.nodes[rank]
    command = node_command(cluster, rank, container=plan.runtime == "docker")
    lines = ["#!/usr/bin/env bash", *_heading(cluster, rank), "", "set -euo pipefail", "", *single._helpers(plan)]
    lines.append(f"own={node.address}")
    if not command.is_head:
        lines += [f"node={bash_word(node.name)}", f"head={cluster.head.address}", f"head_port={command.wait_port}", f"limit={min(cluster.start_s, WAIT_S)}"]
    lines += [*_interface(cluster, rank), *_settings(cluster, plan, command), *_checks(cluster, plan, command)]
    if not command.is_head:
        lines += _wait()
    lines += _run_docker(cluster, plan, command) if plan.runtime == "docker" else _run_local(cluster, plan, command)
    return "\n".join(lines) + "\n"


def _heading(cluster: ClusterPlan, rank: int) -> list[str]:
    plan, node = cluster.plan, cluster.nodes[rank]
    layout = cluster.layout
    out = wrap_comment(
        _("Node {name}, {at} of {n}: its part of {model} on vLLM {version}. Stop it with Ctrl-C.").format(
            name=node.name, at=rank + 1, n=len(cluster.nodes), model=plan.value("served_model_name"), version=version_of(plan)
        )
    )
    out += wrap_comment(
        _("It is the head: start it first; requests go to it.")
        if rank == 0
        else _("It waits until the head ({head}, {address}) is there, then joins it.").format(head=cluster.head.name, address=cluster.head.address)
    )
    out += ["#", *wrap_comment(_("./launch.sh --check   only makes the checks")), *wrap_comment(_("./launch.sh --print   only prints the command")), "#"]
    out += wrap_comment(
        ngettext(
            "{nodes} nodes with {gpus} GPU each: tensor parallel {tensor}, pipeline stages {pipeline}, data parallel {data}.",
            "{nodes} nodes with {gpus} GPUs each: tensor parallel {tensor}, pipeline stages {pipeline}, data parallel {data}.",
            layout.gpus_per_node,
        ).format(
            nodes=layout.nodes, gpus=layout.gpus_per_node, tensor=layout.tensor, pipeline=layout.pipeline, data=layout.data
        )
    )
    out += wrap_comment(_("Why: {reason}.").format(reason=clause(cluster.sized.reason)))
    for warning in cluster.warnings:
        out += wrap_comment(_("Note: {title}").format(title=warning.title))
    return out


def _interface(cluster: ClusterPlan, rank: int) -> list[str]:
    """The interface that NCCL and Gloo talk through: the given one, or the one that carries the node's address."""
    node = cluster.nodes[rank]
    return [
        "",
        *wrap_comment(_("NCCL and Gloo would else take any interface, also one that leads to no other node.")),
        f"interface={bash_word(node.network_interface or '')}",
        'if [ -z "$interface" ] && command -v ip >/dev/null; then',
        "  interface=$(ip -o -4 addr show | awk -v own=\"$own\" '{ split($4, part, \"/\"); if (part[1] == own) { print $2; exit } }')",
        "fi",
        "",
    ]


def _settings(cluster: ClusterPlan, plan: Plan, command: NodeCommand) -> list[str]:
    out = wrap_comment(_("--- What is served ---"))
    if command.words:
        reasons = {d.flag: d.reason for d in plan.decisions if d.flag} | command.reasons
        words = list(command.words)
        if cluster.run_on != RAY and plan.runtime == "docker" and plan.image is not None and plan.image.serves_with_model_flag:
            words = ["--model", *words]
        if cluster.run_on != RAY and plan.runtime == "local":
            words = ["serve", *words]
        out += single._array("arguments", [(row, reasons.get(row[0], "")) for row in _rows(words)])
    else:
        out.append("arguments=()")
    if plan.host_model_path is not None:
        out.append(f"model_path={bash_word(plan.host_model_path)}")
    if command.is_head:
        out += [f"address={cluster.head.address if plan.value('access') == 'network' else '127.0.0.1'}", f"port={plan.value('port')}"]
    out.append(f'env_file="$here/../{ENV_NAME}"')
    if plan.runtime == "docker":
        out += _docker_settings(cluster, plan)
    else:
        out.append(f"environment={bash_word(str(plan.value('venv')))}")
        for key, value in sorted(plan.env.items()):
            reason = plan.reason("env." + key)
            out += wrap_comment(reason) if reason else []
            out.append(f"export {key}={bash_word(value)}")
        out += [f"export {name}={value}" for name, value in network_variables()]
    if cluster.run_on == RAY:
        head = ray_head_script(len(cluster.nodes), min(cluster.start_s, WAIT_S), container=plan.runtime == "docker")
        script = head if command.is_head else ray_worker_script(cluster.head.address)
        out += ["", *wrap_comment(_("What runs instead of vllm serve alone: Ray first, which brings the nodes together."))]
        out += ["read -r -d '' ray_script <<'RAY' || true", *script.splitlines(), "RAY"]
    return [*out, ""]


def _rows(words: list[str]) -> list[list[str]]:
    """The words grouped by option, the model (with what leads to it) first."""
    lead = 2 if words[0] in ("--model", "serve") else 1
    rows = [words[:lead]]
    for word in words[lead:]:
        if word.startswith("--") or len(rows) == 1:
            rows.append([word])
        else:
            rows[-1].append(word)
    return rows


def network_variables() -> tuple[tuple[str, str], ...]:
    """Name and bash value of what ties the node to its address and interface."""
    # With = NCCL takes the very name; without it, every name that starts so.
    return (("VLLM_HOST_IP", '"$own"'), ("NCCL_SOCKET_IFNAME", '"=$interface"'), ("GLOO_SOCKET_IFNAME", '"$interface"'))


def _docker_settings(cluster: ClusterPlan, plan: Plan) -> list[str]:
    assert plan.image_reference is not None
    image = ray_image(cluster) or plan.image_reference
    out = [f"image={bash_word(image)}", f"container={bash_word(container_name(plan))}"]
    rows = [r for r in single._docker_option_rows(plan) if r[0][0] != "--publish"]
    rows.append((["--network", "host"], _("The nodes talk to each other on ports that are not known beforehand.")))
    rows.append((["--ulimit", "memlock=-1"], _("RDMA networks pin memory, which Docker limits.")))
    out += single._array("docker_options", rows)
    words = " ".join(f"--env {bash_assignment(name, value)}" for name, value in network_variables())
    out.append(f"docker_options+=({words})")
    if plan.device == "nvidia":
        out.append("if [ -d /dev/infiniband ]; then docker_options+=(--device /dev/infiniband --cap-add IPC_LOCK); fi")
    return out


def bash_assignment(name: str, value: str) -> str:
    """``NAME=value`` as one bash word, where ``value`` is written in double quotes already."""
    return f'"{name}={value[1:-1]}"'


def ray_image(cluster: ClusterPlan) -> str | None:
    """The image that is built because the release's own has no Ray; None where it is not needed."""
    plan = cluster.plan
    if cluster.run_on != RAY or plan.release is None or plan.image_reference is None or ray_in_image(plan.release.version):
        return None
    return "vllm-ray:" + plan.image_reference.rpartition(":")[2].partition("@")[0]


def ray_dockerfile(cluster: ClusterPlan) -> list[str]:
    """The lines of the image with Ray in it."""
    return [f"FROM {cluster.plan.image_reference}", f'RUN pip install --no-cache-dir "{ray_requirement(cluster)}"']


def _checks(cluster: ClusterPlan, plan: Plan, command: NodeCommand) -> list[str]:
    out = [*wrap_comment(_("--- Checks, before anything is started ---")), "check() {"]
    inner = [
        '[ -n "$interface" ] || '
        + f"fail {single.message(_('No network interface of this machine has the address {own}.'), own='own')} 'ip -o -4 addr show'",
        'if [ ! -e "/sys/class/net/$interface" ]; then',
        f"  fail {single.message(_('This machine has no network interface {name}.'), name='interface')} 'ip -o -4 addr show'",
        "fi",
        'if command -v ip >/dev/null && ! ip -o -4 addr show dev "$interface" | grep -qF " $own/"; then',
        f"  fail {single.message(_('{name} does not have the address {own}: is this the right machine?'), name='interface', own='own')} \"ip -o -4 addr show dev $interface\"",
        "fi",
        *single._check_model(plan),
        *single._check_adapters(plan),
    ]
    if command.is_head:
        inner += single._check_port()
    if plan.device == "nvidia":
        inner += [*_check_gpus(cluster, plan), *single._check_nvidia(plan)]
    elif plan.device == "amd":
        inner += ["[ -e /dev/kfd ] || fail " + bash_word(_("There is no /dev/kfd: the AMD GPU driver is not loaded."))]
    if plan.runtime == "docker":
        inner += single._check_docker()
    disk = single._check_disk(plan)
    if ray_image(cluster):
        disk = [line.replace('"$image"', bash_word(plan.image_reference or "")) for line in disk]
    return [*out, *single._indent(inner + disk), "}", ""]


def _check_gpus(cluster: ClusterPlan, plan: Plan) -> list[str]:
    """As many GPUs as planned, and the driver that the plan was made with."""
    wanted = cluster.layout.gpus_per_node
    driver = plan.machine.gpu.driver_version.value
    out = [
        f"wanted={wanted}",
        "if command -v nvidia-smi >/dev/null; then",
        "  there=$(timeout 30 nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null || true)",
        '  count=$(printf \'%s\\n\' "$there" | grep -c . || true)',
        '  if [ "$count" -lt "$wanted" ]; then',
        f"    fail {single.message(_('GPUs of this node: {count}. Its part needs {wanted}.'), count='count', wanted='wanted')} nvidia-smi",
        "  fi",
    ]
    if driver:
        text = _("The driver is {{there}}; the plan was made for {driver}, and all nodes should have the same.").format(driver=driver)
        out += [
            "  there=${there%%$'\\n'*}",
            f'  if [ "$there" != {bash_word(driver)} ]; then say {single.message(text, there="there")}; fi',
        ]
    return [*out, "fi"]


def _wait() -> list[str]:
    return [
        *wrap_comment(_("The head opens this port when it is ready for the other nodes.")),
        "wait_for_head() {",
        '  ended=$((SECONDS + limit))',
        f"  say {single.message(_('Waiting for the head at {head}, port {port}.'), head='head', port='head_port')}",
        '  until timeout 5 bash -c "exec 3<>/dev/tcp/$head/$head_port" 2>/dev/null; do',
        '    if [ "$SECONDS" -ge "$ended" ]; then',
        f"      fail {single.message(_('The head did not open port {port} within {limit} s.'), port='head_port', limit='limit')} \\",
        f"        {single.message(_('Look at its log; it is started first. A firewall between the nodes must let all of their ports through.'))}",
        "    fi",
        "    sleep 2",
        "  done",
        "}",
        "",
    ]


def _starting(cluster: ClusterPlan, command: NodeCommand) -> list[str]:
    if not command.is_head:
        return ["wait_for_head", f"say {single.message(_('The head is there: joining it as {node}.'), node='node')}"]
    others = ", ".join(n.name for n in cluster.nodes[1:])
    out = [f"say {bash_word(_('Now start the other nodes as well: {names}.').format(names=others))}"] if others else []
    text = _("Once the model is loaded, the API answers at http://{address}:{port}/v1")
    return [*out, f"say {single.message(text, address='address', port='port')}"]


def _run_docker(cluster: ClusterPlan, plan: Plan, command: NodeCommand) -> list[str]:
    built = ray_image(cluster)
    ray = cluster.run_on == RAY
    words = '--entrypoint bash "$image" -c "$ray_script" vllm-ray "${arguments[@]}"' if ray else '"$image" "${arguments[@]}"'
    out = [
        f'command=(docker run "${{docker_options[@]}}" --env-file "$env_file" {words})',
        "if [ \"$mode\" = print ]; then printf '%q ' \"${command[@]}\"; printf '\\n'; exit 0; fi",
        "check",
        f'if [ "$mode" = check ]; then say {bash_word(_("All checks passed."))}; exit 0; fi',
        *(f"mkdir -p -- {bash_word(source)}" for source, _target, read_only in plan.mounts if not read_only),
    ]
    if built:
        out += [
            *wrap_comment(_("This release's image has no Ray: one with it is built once, without sending any file to the build.")),
            'if ! docker image inspect "$image" >/dev/null 2>&1; then',
            "  docker build --tag \"$image\" - <<'DOCKERFILE'",
            *ray_dockerfile(cluster),
            "DOCKERFILE",
            "fi",
        ]
    return [*out, *_starting(cluster, command), 'exec "${command[@]}"']


def _run_local(cluster: ClusterPlan, plan: Plan, command: NodeCommand) -> list[str]:
    # All but the last two lines: what is said at the start, and the start itself, are the node's own.
    lines = single._run_local(plan)[:-2]
    if cluster.run_on != RAY:
        return [*lines, *_starting(cluster, command), 'exec "${command[@]}"']
    lines = ['command=(bash -c "$ray_script" vllm-ray "${arguments[@]}")', *lines[1:]]
    lines += [
        *wrap_comment(_("Ray of the same version on every node; it is put into the environment once.")),
        'if [ ! -x "$environment/bin/ray" ]; then',
        '  uv=$(command -v uv || echo "$environment.uv/bin/uv")',
        '  if [ -x "$uv" ]; then',
        f'    "$uv" pip install --python "$environment/bin/python" {bash_line([ray_requirement(cluster)])}',
        "  else",
        f'    "$environment/bin/python" -m pip install {bash_line([ray_requirement(cluster)])}',
        "  fi",
        "fi",
        'export PATH="$environment/bin:$PATH"',
    ]
    return [*lines, *_starting(cluster, command), 'exec "${command[@]}"']


# -- Compose --------------------------------------------------------------------------------------------------------


def gpu_devices(plan: Plan) -> Mapping[str, Any]:
    """What a Compose service needs to reach the plan's GPUs."""
    if plan.device == "nvidia":
        device: dict[str, Any] = {"driver": "nvidia"}
        if plan.picked_by_docker:
            device["device_ids"] = [str(i) for i in plan.picked_by_docker]
        else:
            device["count"] = "all"
        device["capabilities"] = ["gpu"]
        return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if plan.device == "amd":
        return {"devices": ["/dev/kfd", "/dev/dri"], "group_add": ["video"], "security_opt": ["seccomp=unconfined"]}
    if plan.device == "intel":
        return {"devices": ["/dev/dri"]}
    return {"security_opt": ["seccomp=unconfined"], "cap_add": ["SYS_NICE"]}


def compose_volumes(plan: Plan) -> list[dict[str, Any]]:
    """The plan's bind mounts as Compose writes them."""
    out = []
    for source, target, read_only in plan.mounts:
        row: dict[str, Any] = {"type": "bind", "source": source, "target": target}
        if read_only:
            row |= {"read_only": True, "bind": {"create_host_path": False}}
        out.append(row)
    return out


def noted_words(words: list[str], reasons: Mapping[str, str]) -> list[Any]:
    """The words of a command, each option under its reason."""
    return [Noted(w, reasons[w]) if reasons.get(w) else w for w in words]


def health_check(port: int | str, start_s: int) -> dict[str, Any]:
    """Compose's check of a server: failures do not count while it loads."""
    probe = f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}/health', timeout=5)"
    return {"test": ["CMD", "python3", "-c", probe], "interval": "30s", "timeout": "10s", "retries": 3, "start_period": f"{max(start_s, LEAST_START_S)}s"}


def node_compose(cluster: ClusterPlan, rank: int) -> str:
    """compose.yaml of node ``rank``."""
    plan, node = plan_of(cluster, rank), cluster.nodes[rank]
    command = node_command(cluster, rank, container=True)
    reasons = {d.flag: d.reason for d in plan.decisions if d.flag} | command.reasons
    words = list(command.words)
    ray = cluster.run_on == RAY
    if not ray and plan.image is not None and plan.image.serves_with_model_flag:
        words = ["--model", *words]
    interface: Any = node.network_interface
    lead = "=" if interface else ""
    if not interface:
        interface = f"${{{INTERFACE_VARIABLE}:?set it to the interface that has the address {node.address}}}"
    environment: dict[str, Any] = noted_variables(plan, dict(sorted(plan.container_env.items())))
    environment |= {
        "VLLM_HOST_IP": node.address,
        "NCCL_SOCKET_IFNAME": Noted(lead + interface if lead else Raw(f'"={interface}"'), _("The network that the nodes share; the script checks it.")),
        "GLOO_SOCKET_IFNAME": interface if lead else Raw(f'"{interface}"'),
    }
    service: dict[str, Any] = {"image": ray_image(cluster) or plan.image_reference}
    if ray_image(cluster):
        service["build"] = Noted({"dockerfile_inline": "\n".join(ray_dockerfile(cluster)) + "\n"}, _("This release's image has no Ray."))
    service["container_name"] = container_name(plan)
    if ray:
        script = ray_head_script(len(cluster.nodes), min(cluster.start_s, WAIT_S)) if rank == 0 else ray_worker_script(cluster.head.address)
        service["entrypoint"] = Noted(["bash", "-c", script, "vllm-ray"], _("Ray first, which brings the nodes together."))
    service |= {
        "command": noted_words(words, reasons),
        "environment": environment,
        "env_file": Noted([f"../{ENV_NAME}"], _("Secrets (Hugging Face token, API key) stand in this file only.")),
        "network_mode": Noted("host", _("The nodes talk to each other on ports that are not known beforehand.")),
        "volumes": compose_volumes(plan),
        **gpu_devices(plan),
        "ipc": Noted("host", _("The workers share memory through /dev/shm; Docker's default of 64 MB is too small.")),
        "ulimits": {"memlock": -1},
        "stop_grace_period": "60s",
        "restart": Noted("unless-stopped", _("When one node leaves, the others end as well: all start again and wait for the head.")),
        "healthcheck": health_check(int(plan.value("port")), cluster.start_s)
        if rank == 0
        else Noted({"disable": True}, _("Only the head answers requests; whether this node works shows there.")),
    }
    head = wrap_comment(
        _("Node {name} ({at} of {n}) of {model} on vLLM {version}. Start the head first: docker compose up -d.").format(
            name=node.name, at=rank + 1, n=len(cluster.nodes), model=plan.value("served_model_name"), version=version_of(plan)
        )
    )
    return "\n".join(head) + "\n" + document({"services": {"vllm": service}}, compose_string)
