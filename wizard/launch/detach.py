"""A server without a terminal: a systemd user unit, Docker Compose, or a plain background process.

vLLM exits with 0 when its engine dies while serving (measured on 0.32), so what brings it back must not look at
the exit code: ``Restart=always`` here, ``restart: unless-stopped`` in compose.yaml.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.launch import processes, record
from wizard.outputs.spec import FileSpec

if TYPE_CHECKING:
    from wizard.host import Host
    from wizard.launch.target import Target

STOP_S = 60  # as compose.yaml and launch.sh give it
RESTART_S = 10
BURST = 5  # so many starts in BURST_S: a server that cannot come up is left alone then
BURST_S = 3600


def ways(target: Target, host: Host) -> tuple[str, ...]:
    """How this machine can run it detached, best first: "compose", "systemd", "script"."""
    found = []
    docker = target.runtime == "docker" and target.compose.is_file()
    if docker and host.run(["docker", "compose", "version"], timeout_s=15.0).ok:
        found.append("compose")
    if has_user_systemd(host):
        found.append("systemd")
    return (*found, "script")


def has_user_systemd(host: Host) -> bool:
    """Whether a systemd of this user answers (in containers, and on WSL without systemd, none does)."""
    if host.which("systemctl") is None:
        return False
    state = host.run(["systemctl", "--user", "is-system-running"], timeout_s=10.0).text.strip()
    return state in ("running", "degraded", "starting", "initializing")


def unit_name(identity: str) -> str:
    return f"vllm-{identity}.service"


def unit_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user"


def unit_file(target: Target, identity: str, log: Path) -> FileSpec:
    """The systemd user unit that runs the folder's launch.sh."""
    lines = [
        "# " + _("Made by vllm-wizard launch --detach; removed by vllm-wizard stop."),
        "[Unit]",
        f"Description=vLLM: {_unit_text(target.name or str(target.folder))}",
        "After=network-online.target docker.service",
        f"StartLimitIntervalSec={BURST_S}",
        f"StartLimitBurst={BURST}",
        "",
        "[Service]",
        "Type=exec",
        f"WorkingDirectory={_unit_path(target.folder)}",
        f"Environment={processes.MARK}={identity}",
        f'ExecStart=/usr/bin/env bash "{_unit_text(str(target.script))}"',
        "# " + _("vLLM exits with 0 when its engine dies while serving: on-failure would not bring it back."),
        "Restart=always",
        f"RestartSec={RESTART_S}",
        "# " + _("The engine and the workers get their signal from the main process; what is left is killed."),
        "KillMode=mixed",
        "KillSignal=SIGINT",
        f"TimeoutStopSec={STOP_S}",
        f"StandardOutput=append:{_unit_path(log)}",
        "StandardError=inherit",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    path = unit_folder() / unit_name(identity)
    return FileSpec(str(path), ("\n".join(lines) + "\n").encode(), 0o644, title=_("the systemd user unit"))


def _unit_text(text: str) -> str:
    """A text inside systemd's quotes: specifiers, variables and quotes are not its own."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


def _unit_path(path: Path) -> str:
    # Paths of settings are not split and know no variables: only specifiers count.
    return str(path).replace("%", "%%")


def is_running(kept: record.Record, host: Host) -> bool:
    """Whether the server of a record runs now."""
    if kept.how == "systemd" and kept.unit:
        state = host.run(["systemctl", "--user", "is-active", kept.unit], timeout_s=10.0).text.strip()
        return state in ("active", "activating", "reloading")
    if kept.how == "compose" and kept.container:
        words = ["docker", "ps", "--quiet", "--filter", f"name=^/{kept.container}$"]
        found = host.run(words, timeout_s=20.0)
        return found.ok and bool(found.text.strip())
    return kept.leader is not None and processes.is_alive(kept.leader)


def compose_command(target: Target, container: str, up_file: Path) -> list[str]:
    """Brings the service up and shows its log until it ends: image layers and start-up in one stream.

    ``up_file`` is made in between: before it, a container of that name is an older one."""
    from wizard.outputs.quoting import bash_line

    up = bash_line(["docker", "compose", "--file", str(target.compose), "up", "--detach"])
    follow = bash_line(["docker", "logs", "--follow", container])
    return ["bash", "-c", f"{up} && : > {bash_line([str(up_file)])} && exec {follow}"]


def compose_exit(container: str, host: Host) -> int | None:
    """The exit code of a container that has ended or ends again and again; None while it runs."""
    form = "{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}"
    words = host.run(["docker", "inspect", "--format", form, container], timeout_s=20.0).text.split()
    if len(words) != 3 or not words[1].lstrip("-").isdigit() or not words[2].isdigit():
        return None
    return int(words[1]) if words[0] in ("exited", "dead", "restarting") or int(words[2]) else None


def start_unit(target: Target, host: Host, identity: str, log: Path) -> str:
    """Write, enable and start the systemd user unit; returns its name. Raises WizardError."""
    from wizard.apply import prepare, write

    write(prepare([unit_file(target, identity, log)], target.folder))
    unit = unit_name(identity)
    for words in (["daemon-reload"], ["reset-failed", unit], ["enable", unit], ["restart", unit]):
        found = host.run(["systemctl", "--user", *words], timeout_s=60.0)
        if not found.ok and words[0] != "reset-failed":
            _forget_unit(unit, host)  # or it would start at the next login
            raise WizardError(
                _("systemctl --user {words} failed: {why}").format(
                    words=" ".join(words), why=_last_words(found.error_text)
                )
            )
    return unit


def _forget_unit(unit: str, host: Host) -> None:
    host.run(["systemctl", "--user", "disable", "--now", unit], timeout_s=STOP_S + 30.0)
    (unit_folder() / unit).unlink(missing_ok=True)
    host.run(["systemctl", "--user", "daemon-reload"], timeout_s=30.0)


def unit_state(unit: str, host: Host) -> tuple[int | None, int | None]:
    """(main process, exit code): the exit code is None until the service has ended for the first time."""
    names = ("ActiveState", "SubState", "ExecMainStatus", "NRestarts", "MainPID")
    words = ["systemctl", "--user", "show", unit, *(w for name in names for w in ("--property", name))]
    found = dict(line.partition("=")[::2] for line in host.run(words, timeout_s=10.0).text.splitlines())
    main = found.get("MainPID", "")
    ended = found.get("SubState") in ("auto-restart", "failed", "dead") or found.get("NRestarts", "0") not in ("0", "")
    code = found.get("ExecMainStatus", "")
    return (int(main) if main.isdigit() and main != "0" else None), (int(code) if code.isdigit() else 1) if ended and found else None


def container_of(target: Target) -> str | None:
    """The container's name that compose.yaml gives."""
    import re

    try:
        text = target.compose.read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r"^\s*container_name:\s*['\"]?([\w.-]+)", text, re.MULTILINE)
    return found.group(1) if found else None


def _last_words(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "?"


def stop(kept: record.Record, host: Host) -> str:
    """End the server of a record, however it was started; returns what was needed (see ``processes.stop``)."""
    how = "gone"
    if kept.how == "systemd" and kept.unit:
        _forget_unit(kept.unit, host)
        how = "interrupt"
    elif kept.how == "compose":
        compose = Path(kept.folder) / "compose.yaml"
        found = host.run(["docker", "compose", "--file", str(compose), "down"], timeout_s=STOP_S + 60.0)
        if not found.ok and kept.container:
            host.run(["docker", "rm", "--force", kept.container], timeout_s=60.0)
        how = "interrupt"
    if kept.leader is not None:
        if kept.container:
            host.run(["docker", "stop", "--time", "30", kept.container], timeout_s=60.0)
        how = processes.stop(kept.leader, kept.id)
    if kept.container and kept.how != "compose":
        host.run(["docker", "rm", "--force", kept.container], timeout_s=60.0)
    record.save(replace(kept, status="stopped"))
    return how


def log_command(kept: record.Record) -> list[str] | None:
    """The command that shows the log, when it is not a file."""
    if kept.how == "compose" and kept.container:
        return ["docker", "logs", kept.container]
    return None
