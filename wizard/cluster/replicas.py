"""Several servers on one machine, each with its own GPUs or memory share, and a router in front: one Compose file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wizard.cluster.node_files import (
    compose_volumes,
    gpu_devices,
    health_check,
    noted_words,
)
from wizard.cluster.types import ClusterPlan
from wizard.cluster.yaml_out import Noted, document, noted_variables
from wizard.i18n import _, clause
from wizard.outputs.command import container_environment, image_arguments, port_binding, version_of
from wizard.outputs.compose import container_name
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import compose_string, wrap_comment
from wizard.outputs.spec import FileSpec
from wizard.plan_types import with_gpu_variables

COMPOSE = "compose.yaml"
NGINX = "nginx.conf"
NGINX_IMAGE = "nginx:1.28-alpine"
ROUTER_REQUIREMENT = "vllm-router==0.1.17"
PORT = 8000


def router_of(cluster: ClusterPlan) -> str:
    """Which router stands in front: nginx unless the answers say vllm-router."""
    given = cluster.plan.session.answers.get("router")
    return str(given[0]) if given is not None and given[0] else cluster.settings.router or "nginx"


def replica_files(cluster: ClusterPlan) -> list[FileSpec]:
    """The Compose file, and nginx's configuration where nginx is the router."""
    out = [FileSpec(COMPOSE, replicas_compose(cluster).encode(), 0o644, title=_("{n} servers and a router").format(n=cluster.copies))]
    if router_of(cluster) == "nginx":
        out.append(FileSpec(NGINX, nginx_conf(cluster).encode(), 0o644, title=_("the router's configuration")))
    return out


def service_names(cluster: ClusterPlan) -> list[str]:
    return [f"vllm-{at}" for at in range(1, cluster.copies + 1)]


def shares_gpus(cluster: ClusterPlan) -> bool:
    """Whether two servers lie on one GPU."""
    taken = [g for share in cluster.shares for g in share]
    return len(taken) != len(set(taken))


def replicas_compose(cluster: ClusterPlan) -> str:
    """compose.yaml for the copies and the router."""
    plan = cluster.plan
    services: dict[str, Any] = {}
    last_on: dict[int, str] = {}
    for name, share in zip(service_names(cluster), cluster.shares, strict=True):
        before = sorted({last_on[g] for g in share if g in last_on})
        last_on |= dict.fromkeys(share, name)
        services[name] = _server(cluster, name, share, before)
    services["router"] = _router(cluster)
    head = wrap_comment(
        _("{n} servers of {model} on vLLM {version}, and a router. Start: docker compose up -d. Watch: docker compose logs -f.").format(
            n=cluster.copies, model=plan.value("served_model_name"), version=version_of(plan)
        )
    )
    head += wrap_comment(_("Why: {reason}.").format(reason=clause(cluster.sized.reason)))
    return "\n".join(head) + "\n" + document({"services": services}, compose_string)


def _server(cluster: ClusterPlan, name: str, share: tuple[int, ...], before: list[str]) -> dict[str, Any]:
    plan = with_gpu_variables(replace(cluster.plan, runtime="docker", gpus=share), share, cluster.sized.reason)
    reasons = {d.flag: d.reason for d in plan.decisions if d.flag}
    environment = dict(sorted(container_environment(plan).items()))
    service: dict[str, Any] = {
        "image": plan.compose_image or plan.image_reference,
        "container_name": f"{container_name(plan)}-{name.removeprefix('vllm-')}",
        "command": noted_words(image_arguments(plan), reasons),
    }
    if environment:
        service["environment"] = noted_variables(plan, environment)
    service |= {
        "env_file": Noted([ENV_NAME], _("Secrets (Hugging Face token, API key) stand in this file only.")),
        "expose": [str(PORT)],
        "volumes": compose_volumes(plan),
        **gpu_devices(plan),
        "ipc": Noted("host", _("The workers share memory through /dev/shm; Docker's default of 64 MB is too small.")),
        "stop_grace_period": "60s",
        "restart": Noted("unless-stopped", _("vLLM exits with 0 when its engine dies while serving, so on-failure would not bring it back.")),
        "healthcheck": health_check(PORT, cluster.start_s),
    }
    if before:
        service["depends_on"] = Noted(
            {other: {"condition": "service_healthy"} for other in before},
            _("On one GPU one after the other: while one loads, what the next one measures as free would be wrong."),
        )
    return service


def _router(cluster: ClusterPlan) -> dict[str, Any]:
    address, port = port_binding(cluster.plan)
    names = service_names(cluster)
    publish = Noted([f"{address}:{port}:{PORT}"], cluster.plan.reason("access"))
    common: dict[str, Any] = {
        "ports": publish,
        "depends_on": {name: {"condition": "service_started"} for name in names},
        "restart": "unless-stopped",
    }
    if router_of(cluster) == "nginx":
        return {
            "image": NGINX_IMAGE,
            "volumes": [{"type": "bind", "source": f"./{NGINX}", "target": "/etc/nginx/nginx.conf", "read_only": True, "bind": {"create_host_path": False}}],
            **common,
        }
    lines = ["FROM python:3.12-slim", f'RUN pip install --no-cache-dir "{ROUTER_REQUIREMENT}"']
    urls = [f"http://{name}:{PORT}" for name in names]
    return {
        "image": "vllm-router:" + ROUTER_REQUIREMENT.partition("==")[2],
        "build": {"dockerfile_inline": "\n".join(lines) + "\n"},
        "command": [
            "vllm-router", "--host", "0.0.0.0", "--port", str(PORT), "--worker-urls", *urls, "--policy",  # noqa: S104
            Noted("cache_aware", _("Requests that begin alike go to the same server, which has their start in its cache.")),
            "--worker-startup-timeout-secs", str(cluster.start_s),
        ],
        **common,
    }  # fmt: skip


def nginx_conf(cluster: ClusterPlan) -> str:
    """nginx.conf: the server with the fewest requests gets the next one; answers are streamed, not buffered."""
    servers = [f"        server {name}:{PORT} max_fails=2 fail_timeout=15s;" for name in service_names(cluster)]
    lines = [
        *wrap_comment(_("The router of compose.yaml: nginx inside a container, where the servers are known by their names.")),
        "worker_processes auto;",
        "error_log stderr warn;",
        "events { worker_connections 4096; }",
        "http {",
        "    access_log off;",
        "    upstream vllm {",
        *wrap_comment(_("The one with the fewest open requests is next.")),
        "        least_conn;",
        *servers,
        "        keepalive 64;",
        "    }",
        "    server {",
        f"        listen {PORT};",
        *wrap_comment(_("Pictures stand in the request itself."), "        # "),
        "        client_max_body_size 256m;",
        "        location / {",
        "            proxy_pass http://vllm;",
        "            proxy_http_version 1.1;",
        '            proxy_set_header Connection "";',
        "            proxy_set_header Host $host;",
        *wrap_comment(_("Words are passed on as they come."), "            # "),
        "            proxy_buffering off;",
        "            proxy_request_buffering on;",
        *wrap_comment(_("A long answer may take its time; a server that is loading is passed over."), "            # "),
        "            proxy_connect_timeout 5s;",
        "            proxy_read_timeout 1h;",
        "            proxy_send_timeout 1h;",
        "            proxy_next_upstream error timeout http_502 http_503;",
        "            proxy_next_upstream_tries 2;",
        "        }",
        "    }",
        "}",
    ]
    return "\n".join(_tidy(lines)) + "\n"


def _tidy(lines: list[str]) -> list[str]:
    """Comments inside a block stand as deep as what they explain."""
    out = []
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        depth = len(following) - len(following.lstrip())
        out.append(" " * depth + line if line.startswith("# ") and at > 1 and depth else line)
    return out
