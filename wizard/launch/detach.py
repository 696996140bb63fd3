"""A server without a terminal: a systemd user unit, Docker Compose, or a plain background process.

vLLM exits with 0 when its engine dies while serving (measured on 0.32), so what brings it back must not look at
the exit code: ``Restart=always`` here, ``restart: unless-stopped`` in compose.yaml.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.launch import processes, record
from wizard.launch.run import is_running
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


def unit_file(target: Target, identity: str, log: Path, start_s: float) -> FileSpec:
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


def start(target: Target, host: Host, way: str | None = None) -> record.Record:
    """Start ``target`` so that it outlives this program; returns its record. Raises WizardError."""
    identity = record.record_id(target.folder)
    before = record.load(identity)
    if before is not None and is_running(before, host):
        raise WizardError(_("It runs already, on port {port}.").format(port=before.port))
    chosen = way or ways(target, host)[0]
    log = record.new_log(identity)
    kept = record.Record(
        id=identity, folder=str(target.folder), how=chosen, name=target.name, port=target.port, started=time.time(),
        status="starting", log=str(log), container=target.container, attempts=before.attempts if before is not None else (),
    )  # fmt: skip
    if chosen == "compose":
        kept = _start_compose(target, host, kept)
    elif chosen == "systemd":
        kept = _start_unit(target, host, kept, log)
    else:
        _process, leader = processes.spawn(["bash", str(target.script)], target.folder, log, identity)
        _process.returncode = 0  # not ours to wait for: it outlives this program
        kept = record.Record(**{**kept.__dict__, "pid": leader.pid, "created": leader.created})
    record.save(kept)
    return kept


def _start_compose(target: Target, host: Host, kept: record.Record) -> record.Record:
    words = ["docker", "compose", "--file", str(target.compose), "up", "--detach"]
    # An image of ten gigabytes may have to be pulled.
    found = host.run(words, timeout_s=4 * 3600.0, cwd=str(target.folder))
    if not found.ok:
        raise WizardError(_("docker compose up failed: {why}").format(why=_last_words(found.error_text or found.text)))
    return record.Record(**{**kept.__dict__, "container": _container_of(target) or kept.container})


def _container_of(target: Target) -> str | None:
    import re

    try:
        text = target.compose.read_text("utf-8", "replace")
    except OSError:
        return None
    found = re.search(r"^\s*container_name:\s*['\"]?([\w.-]+)", text, re.MULTILINE)
    return found.group(1) if found else None


def _start_unit(target: Target, host: Host, kept: record.Record, log: Path) -> record.Record:
    from wizard.apply import prepare, write

    write(prepare([unit_file(target, kept.id, log, target.start_s)], target.folder))
    unit = unit_name(kept.id)
    for words in (["daemon-reload"], ["reset-failed", unit], ["enable", "--now", unit]):
        found = host.run(["systemctl", "--user", *words], timeout_s=60.0)
        if not found.ok and words[0] != "reset-failed":
            raise WizardError(
                _("systemctl --user {words} failed: {why}").format(words=" ".join(words), why=_last_words(found.error_text))
            )
    return record.Record(**{**kept.__dict__, "unit": unit})


def _last_words(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "?"


def stop(kept: record.Record, host: Host) -> str:
    """End the server of a record, however it was started; returns what was needed (see ``processes.stop``)."""
    how = "gone"
    if kept.how == "systemd" and kept.unit:
        host.run(["systemctl", "--user", "disable", "--now", kept.unit], timeout_s=STOP_S + 30.0)
        (unit_folder() / kept.unit).unlink(missing_ok=True)
        host.run(["systemctl", "--user", "daemon-reload"], timeout_s=30.0)
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
    record.save(record.Record(**{**kept.__dict__, "status": "stopped"}))
    return how


def log_command(kept: record.Record) -> list[str] | None:
    """The command that shows the log, when it is not a file."""
    if kept.how == "compose" and kept.container:
        return ["docker", "logs", kept.container]
    return None
