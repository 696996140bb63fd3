"""Who could not be reached: the Hub, what an environment is installed from, the registry of an image, or another.

The words of a failed connection are the same whoever asked; the host, or the program whose words they are, tells them
apart. All here are checks of rules, as in :mod:`wizard.diagnose.checks`.
"""

from __future__ import annotations

import re

from wizard.diagnose import rulebook
from wizard.diagnose.engine import Fix, Match
from wizard.i18n import N_, _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# User and password of an address stand before "@" and are never told.
_HOSTS = re.compile(
    r"https?://(?:[^/@\s\"'`]{0,200}@)?(?P<url>[A-Za-z0-9][\w.-]*)|host='(?P<pool>[A-Za-z0-9][\w.-]*)'|[Ff]ailed to resolve '(?P<name>[A-Za-z0-9][\w.-]*)'"
    r"|pinging container registry (?P<pinged>[A-Za-z0-9][\w.-]*)|\blookup (?P<looked>[A-Za-z0-9][\w-]*\.[\w.-]+)(?: on |:)"
)
_HUB_HOST = re.compile(r"(?:^|\.)(?:huggingface\.co|hf\.co|hf-mirror\.com)$|huggingface")
# A server that stands in for the Hub has its paths.
_HUB_PATH = re.compile(r"/(?:resolve|api/(?:models|datasets|whoami))(?:/|-v2)\S")
_HUB_WORDS = re.compile(
    r"We couldn't connect to 'https?://|LocalEntryNotFoundError|Cannot reach https://huggingface|outgoing traffic has been disabled|OfflineModeIsEnabled"
)
_HUB_CODE = re.compile(r"huggingface_hub|transformers/|hf_hub_download|hf_xet|snapshot_download|huggingface\.co|Hugging ?Face")
_ENDPOINT = re.compile(r"HF_ENDPOINT\W{1,4}https?://(?P<host>[\w.-]+)")

_PIP = re.compile(r"pip\._vendor|pip/_(?:vendor|internal)|/simple/|/packages/\S|\.whl\b|Could not (?:fetch URL|install packages)")
# How the errors of Rust programs go on: uv's.
_CHAINED = ("Caused by:", "├─▶", "╰─▶", "│", "×")
_UV = re.compile(r"^error|^(?:Caused by:|├─▶|╰─▶|│|×)|`https?://|UV_HTTP_TIMEOUT")
_UV_BLOCK_LINES = 12
_ANSWERED = re.compile(r"HTTP status client error \((?!407|408)4\d\d")
_INSTALLED = re.compile(r"^(?:Successfully installed |Installed \d+ packages?)", re.MULTILINE)
_CERTIFICATE = re.compile(r"certificate|CERTIFICATE|SSLError|UnknownIssuer")
# What is no copy of PyPI cannot be had from a mirror of it.
_NO_INDEX = ("github.com", "githubusercontent.com", "wheels.vllm.ai", "pytorch.org", "nvidia.com", "astral.sh")

_REGISTRY = re.compile(
    r"Error response from daemon: |^docker: |failed to do request: |initializing source docker://|pinging container registry |"
    r"failed to resolve reference |error pulling image|[Ff]ailed to pull |failed to copy: |/v2/|reading (?:blob|manifest) |"
    r"pull access denied|requested access to the resource|toomanyrequests: "
)
# The same words of a container that was pulled long ago, or of Docker itself.
_NO_REGISTRY = re.compile(
    r"error during connect|/_ping|dial unix|OCI runtime|failed to create|mount|driver failed|logging driver|plugin|swarm|/v1\.\d+/"
)
_REFERENCE = re.compile(r"(?:failed to resolve reference \"|docker://|reading manifest \S+ in )(?P<host>[\w-]+\.[\w.-]+)(?::\d+)?/")
_DOCKER_HUB = re.compile(r"(?:^|\.)docker\.(?:io|com)$")


def hosts_in(text: str) -> list[str]:
    """The hosts that a text names, in its order."""
    return list(dict.fromkeys(next(g for g in found.groups() if g).rstrip(".").lower() for found in _HOSTS.finditer(text)))


def _below(match: Match, count: int) -> list[str]:
    """The event's line and those below it, up to an empty one."""
    rows = match.case.run.lines.lines
    out = []
    for index in range(match.event.index, min(match.case.run.last, match.event.index + count)):
        if not rows[index].strip():
            break
        out.append(rows[index])
    return out


def _is_hub(host: str, match: Match) -> bool:
    if _HUB_HOST.search(host):
        return True
    found = _ENDPOINT.search(match.case.run.text)
    return found is not None and found["host"].lower() == host


def _installs(match: Match) -> bool:
    """Whether the words are those of pip or uv."""
    event = match.event
    return event.text.startswith(_CHAINED) or _PIP.search(event.text) is not None or "pip/_" in event.frames


def hub(match: Match) -> bool:
    """A connection that failed: to Hugging Face, or to what stands in for it."""
    event = match.event
    if _HUB_WORDS.search(event.text):
        return True
    chain = "\n".join([event.text, *(e.text for e in match.case.events if e.chain == event.chain and e.chain)])
    for text in (event.text, chain):
        named = hosts_in(text)
        if named:
            return any(_is_hub(host, match) for host in named) or (not _installs(match) and _HUB_PATH.search(text) is not None)
    if _installs(match):
        return False
    if not (_HUB_CODE.search(event.frames) or _HUB_CODE.search(match.case.run.text)):
        # In a server's own words: there is little else that it asks for from the network.
        match.confidence, match.tier = "medium", rulebook.WEAK
    return True


def other_host(match: Match) -> bool:
    """A connection that failed, to a host that is neither the Hub nor what an environment is installed from."""
    named = [h for h in hosts_in(match.event.text) if h != "localhost" and not h.startswith("127.")]
    if not named or _installs(match):
        return False
    match.fields["host"] = named[0]
    return True


def environment(match: Match) -> bool:
    """uv or pip could not fetch what they were to install."""
    case, event = match.case, match.event
    uses_pip = _PIP.search(event.text) is not None and "Failed to" not in event.text.partition("https://")[0][-30:]
    if event.text.startswith("Retrying (Retry(") and not uses_pip:
        return False
    if not uses_pip and (event.level or event.proc or event.has_traceback or not _UV.search(event.text)):
        return False  # a server at work fetches pictures and files in much the same words
    rows = case.run.lines.lines
    block = "\n".join(_below(match, _UV_BLOCK_LINES))
    if _ANSWERED.search(block):
        return False
    after = "\n".join(rows[event.index : min(case.run.last, event.index + 2000)])
    if _INSTALLED.search(after) or any(index > event.index for _stage, index in case.run.marks):
        return False  # a later try went through
    named = hosts_in(event.text) or ([] if uses_pip else hosts_in(block))
    if not named and uses_pip:
        # pip tells its index only when it is another than PyPI, and in the beginning.
        told = re.findall(r"Looking in indexes: (\S+)", case.run.text)
        named = hosts_in(told[-1]) if told else []
    if any(_is_hub(host, match) for host in named):
        return False
    if named:
        match.fields["host"] = named[0]
    else:
        match.title = N_("The environment could not be installed: the package index could not be reached")
    match.extra_fixes = _ways_to_install(named[0] if named else None, uses_pip, _CERTIFICATE.search(block) is not None)
    return True


def _ways_to_install(host: str | None, uses_pip: bool, certificate: bool) -> list[Fix]:
    """Commands for the shell that installs; as variables of the server they would be of no use."""
    out = []
    if host:
        out.append(Fix(_("See whether {host} answers from this machine.").format(host=host), commands=[f"curl -sSI --max-time 10 https://{host} | head -1"]))
    if certificate:
        name = "PIP_CERT" if uses_pip else "SSL_CERT_FILE"
        out.append(Fix(_("Where a proxy puts a certificate of its own before every site: name the file that holds it."), commands=[f"export {name}=/PATH/TO/CA.pem"]))
    out.append(Fix(_("Behind a proxy: name it in the shell, then start again there."), commands=["export HTTPS_PROXY=http://PROXY:PORT"]))
    if host and host.endswith(("github.com", "githubusercontent.com")):
        out.append(
            Fix(
                _("Python itself comes from GitHub: take it from a mirror, or install that Python with the system's own package manager."),
                commands=["export UV_PYTHON_INSTALL_MIRROR=https://YOUR-MIRROR/python-build-standalone/releases/download"],
            )
        )
    elif host is None or not host.endswith(_NO_INDEX):
        names = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")
        # The script installs uv with pip, and the rest with uv.
        commands = [f"export {name}=https://YOUR-MIRROR/simple" for name in (names if uses_pip else names[1:])]
        out.append(Fix(_("Where the site is blocked, use a mirror of it."), commands=commands))
    out.append(
        Fix(
            _("Run it in a container instead, whose image holds everything; then the registry of the image must answer."),
            commands=["vllm-wizard --runtime docker"],
        )
    )
    return out


def registry(match: Match) -> bool:
    """The registry of an image could not be reached, or gave nothing out."""
    text = match.event.text
    if not _REGISTRY.search(text) or ("://" not in text and _NO_REGISTRY.search(text)) or re.search(r"error during connect|/_ping", text):
        return False
    named = hosts_in(text)
    reference = _REFERENCE.search(text)
    host = named[0] if named else (reference["host"] if reference is not None else None)
    if host is None:
        if match.rule.id == "registry-unreachable":
            match.title = N_("The image could not be fetched: its registry could not be reached")
    else:
        match.fields["host"] = host
    docker_hub = host is None or _DOCKER_HUB.search(host) is not None
    if docker_hub:
        match.fields["hub"] = "docker.io"
    match.fields["login"] = "docker login" if docker_hub else f"docker login {host}"
    return True


CHECKS: dict[str, Callable[[Match], bool]] = {
    "hub": hub,
    "other_host": other_host,
    "environment": environment,
    "registry": registry,
}
