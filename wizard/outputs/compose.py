"""compose.yaml: the same server for ``docker compose up``.

Written by hand rather than by a YAML library, so that every line can carry its reason and every string is
quoted alike; strings go through :func:`wizard.outputs.quoting.compose_string`.
"""

from __future__ import annotations

from wizard.i18n import _, labelled, sentence
from wizard.outputs.command import (
    container_environment,
    image_arguments,
    port_binding,
    start_seconds,
    version_of,
)
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import compose_string, wrap_comment
from wizard.outputs.reach import published
from wizard.outputs.spec import FileSpec
from wizard.plan_types import Plan

NAME = "compose.yaml"
LEAST_START_S = 600  # what a server is given at least until a failing health check counts


def compose_file(plan: Plan) -> FileSpec:
    """The Compose file of a plan that can serve."""
    assert plan.image_reference is not None
    assert plan.release is not None
    out: list[str] = []

    def say(text: str, indent: int) -> None:
        out.extend(wrap_comment(text, " " * indent + "# "))

    if plan.docker_lacks:
        out += wrap_comment(
            labelled(_("Docker cannot run this here yet"), sentence(plan.docker_lacks))
        )
    out += wrap_comment(
        _(
            "{model} on vLLM {version}. Start: docker compose up -d. Watch: docker compose logs -f. Stop: docker compose down."
        ).format(model=plan.value("served_model_name"), version=version_of(plan))
    )
    if plan.runtime != "docker":
        out += wrap_comment(
            _("launch.sh runs vLLM from a local environment; this file is the same server for Docker.")
        )
    out += ["services:", "  vllm:"]
    # Why the release was taken may be a matter of the local environment; why the image is, is not.
    why = plan.reason("release" if plan.runtime == "docker" else "image")
    if plan.runtime != "docker" and (plan.docker_lacks or plan.compose_image):
        why = ""  # it speaks of the local environment's build
    if why:
        say(why, 4)
    out.append(f"    image: {compose_string(plan.compose_image or plan.image_reference)}")
    out.append(f"    container_name: {compose_string(container_name(plan))}")
    say(_("Each argument is one string, so nothing is split or unquoted again."), 4)
    out.append("    command:")
    reasons = {d.flag: d.reason for d in plan.decisions if d.flag}
    for word in image_arguments(plan):
        if reasons.get(word):
            say(reasons[word], 6)
        out.append(f"      - {compose_string(word)}")
    environment = container_environment(plan)
    if environment:
        out.append("    environment:")
        for key, value in sorted(environment.items()):
            reason = plan.reason("env." + key)
            if reason:
                say(reason, 6)
            out.append(f"      {key}: {compose_string(value)}")
    say(_("Secrets (Hugging Face token, API key) stand in this file only."), 4)
    out += ["    env_file:", f"      - {ENV_NAME}"]
    address, port = port_binding(plan)
    say(published(plan), 4)
    out += ["    ports:", f'      - "{address}:{port}:8000"']
    out.append("    volumes:")
    for source, target, read_only in plan.mounts:
        out += [
            "      - type: bind",
            f"        source: {compose_string(source)}",
            f"        target: {compose_string(target)}",
        ]
        if read_only:
            out += ["        read_only: true", "        bind:", "          create_host_path: false"]
    if plan.device == "nvidia":
        out += [
            "    deploy:",
            "      resources:",
            "        reservations:",
            "          devices:",
            "            - driver: nvidia",
        ]
        if plan.picked_by_docker:
            ids = ", ".join(f'"{i}"' for i in plan.picked_by_docker)
            out.append(f"              device_ids: [{ids}]")
        else:
            out.append("              count: all")
        out.append("              capabilities: [gpu]")
    elif plan.device == "amd":
        if plan.machine.is_wsl2:
            out += ["    devices:", "      - /dev/dxg"]
        else:
            out += ["    devices:", "      - /dev/kfd", "      - /dev/dri", "    group_add:", "      - video"]
        out += ["    security_opt:", "      - seccomp=unconfined"]
    elif plan.device == "intel":
        out += ["    devices:", "      - /dev/dri"]
    elif plan.device == "cpu":
        say(
            _(
                "The CPU build places its memory by NUMA node; Docker's default filter forbids the system calls."
            ),
            4,
        )
        out += ["    security_opt:", "      - seccomp=unconfined", "    cap_add:", "      - SYS_NICE"]
    say(_("The workers share memory through /dev/shm; Docker's default of 64 MB is too small."), 4)
    out.append("    ipc: host")
    say(_("A server that is loading needs time to stop; Docker's 10 s would kill it."), 4)
    out.append("    stop_grace_period: 60s")
    say(_("vLLM exits with 0 when its engine dies while serving, so on-failure would not bring it back."), 4)
    out.append("    restart: unless-stopped")
    # A healthy answer counts at once; only a failing one is waited for.
    start = max(start_seconds(plan), LEAST_START_S)
    waiting = (
        _("Download and loading are given {minutes} minutes; until then a failed check does not count.")
        if plan.host_model_path is None
        else _("Loading is given {minutes} minutes; until then a failed check does not count.")
    )
    say(waiting.format(minutes=-(-start // 60)), 4)
    probe = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=5)"
    out += [
        "    healthcheck:",
        f'      test: ["CMD", "python3", "-c", {compose_string(probe)}]',
        "      interval: 30s",
        "      timeout: 10s",
        "      retries: 3",
        f"      start_period: {start}s",
    ]
    return FileSpec(
        path=NAME,
        content=("\n".join(out) + "\n").encode(),
        mode=0o644,
        title=_("for Docker Compose; Docker cannot run it here yet")
        if plan.docker_lacks
        else _("for Docker Compose"),
    )


def container_name(plan: Plan) -> str:
    """The container's name, as launch.sh and Compose use it."""
    from wizard.outputs.quoting import slug

    return "vllm-" + slug(str(plan.value("served_model_name") or "server"))
