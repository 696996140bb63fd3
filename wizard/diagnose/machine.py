"""What the machine itself knows about a process that vanished: the kernel's log, Docker, memory."""

from __future__ import annotations

import json
import re

from wizard.diagnose.engine import Diagnosis, Finding
from wizard.i18n import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wizard.host import Host

_KILLED = re.compile(r"(?:Memory cgroup out|Out) of memory: Killed process (\d+) \(([^)]+)\)")
_DXG = re.compile(r"dxgkio_make_resident: Ioctl failed: -12")
_PYTHON = re.compile(r"(?i)python|vllm|enginecore|worker|ray::")
_TIMEOUT_S = 3.0
ECHO = "only-the-echo"  # a text that tells no cause: the machine may
CAUSES = ("host_oom_killed", "sigterm_received", "worker_segfault")


def look(host: Host, diagnosis: Diagnosis) -> None:
    """Add what is found on the machine to the findings. Never raises; nothing is changed on the machine."""
    finding = next((f for f in diagnosis.findings if f.cause in CAUSES or f.rule == ECHO), None)
    if finding is None:
        return
    _kernel_log(host, finding)
    _docker(host, finding)
    _memory(host, finding)


def _kernel_log(host: Host, finding: Finding) -> None:
    text = ""
    for argv in (("dmesg",), ("journalctl", "-k", "-n", "2000", "--no-pager", "-o", "short")):
        result = host.run(argv, timeout_s=_TIMEOUT_S)
        if result.ok and result.text.strip():
            text = result.text
            break
    if not text:
        finding.evidence.append(_("this machine: the kernel's log could not be read (try: sudo dmesg)"))
        return
    rows = [line.strip() for line in text.splitlines() if _KILLED.search(line)]
    ours = [r for r in rows if _PYTHON.search(r.partition("Killed process")[2])]
    if ours:
        finding.evidence.append(_("this machine's kernel log: {line}").format(line=ours[-1][:300]))
        if finding.cause == "host_oom_killed":
            finding.confidence = "medium" if finding.confidence == "low" else finding.confidence
    elif rows:
        finding.evidence.append(_("this machine's kernel log: another program was killed for memory: {line}").format(line=rows[-1][:300]))
    else:
        finding.evidence.append(_("this machine's kernel log shows no process killed for memory"))
    if _DXG.search(text):
        finding.evidence.append(_("this machine's kernel log: Windows refused to keep GPU memory in place (dxgkio_make_resident)"))


def _docker(host: Host, finding: Finding) -> None:
    listed = host.run(("docker", "ps", "-a", "--no-trunc", "--format", "{{json .}}"), timeout_s=_TIMEOUT_S)
    if not listed.ok:
        return
    for line in listed.text.splitlines()[:200]:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if not isinstance(row, dict) or "vllm" not in (str(row.get("Image", "")) + str(row.get("Names", ""))).lower():
            continue
        name = str(row.get("Names", "")) or str(row.get("ID", ""))
        result = host.run(("docker", "inspect", "--format", "{{.State.OOMKilled}} {{.State.ExitCode}} {{.HostConfig.Memory}}", name), timeout_s=_TIMEOUT_S)
        words = result.text.split()
        if not result.ok or len(words) < 3:
            continue
        if words[0] == "true":
            finding.evidence.append(_("this machine: Docker says that container {name} reached its memory limit").format(name=name))
            if finding.cause == "host_oom_killed":
                finding.confidence = "high"
        elif words[1] == "137":
            finding.evidence.append(_("this machine: container {name} ended with code 137 (SIGKILL), but not at a limit of its own").format(name=name))
        elif words[1] == "143":
            finding.evidence.append(_("this machine: container {name} ended with code 143: it was told to stop").format(name=name))
        return


def _memory(host: Host, finding: Finding) -> None:
    try:
        memory = host.memory()
    except OSError:
        return
    finding.evidence.append(
        _("this machine: {free:.1f} of {total:.1f} GiB of main memory are available now, {swap:.1f} GiB swap").format(
            free=memory.available_bytes / 2**30, total=memory.total_bytes / 2**30, swap=memory.swap_total_bytes / 2**30
        )
    )
