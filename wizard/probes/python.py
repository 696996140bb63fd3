"""The Python that a local environment would be made with, uv, and what Triton needs to compile."""

from __future__ import annotations

import re
from typing import Any

from wizard.facts import Fact, PythonFacts, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import ENGLISH, as_dict, as_text, failure, parse_json

TIMEOUT_S = 4.0
UV_TIMEOUT_S = 1.5
OTHER_VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Asked in one go, since each start of an interpreter costs tens of milliseconds.
QUESTION = (
    "import importlib.util as u,json,os,platform,sys,sysconfig;"
    "h=os.path.join(sysconfig.get_path('include') or '','Python.h');"
    "print(json.dumps({'version':platform.python_version(),'executable':sys.executable,"
    "'venv':all(u.find_spec(m) for m in('venv','ensurepip')),"
    "'headers':os.path.exists(h),'libc':' '.join(platform.libc_ver())}))"
)


def probe(host: Host) -> PythonFacts:
    """The first Python 3 on PATH; facts that it does not tell are unknown."""
    name = "python" if host.platform == "win32" else "python3"
    data, reason = _ask(host, name)
    version, executable = as_text(data.get("version")), as_text(data.get("executable"))
    venv, headers = data.get("venv"), data.get("headers")
    return PythonFacts(
        version=known(version, name) if version else unknown(reason, name),
        executable=known(executable, name) if executable else unknown(reason, name),
        uv=_uv(host),
        venv_module=known(venv, name) if isinstance(venv, bool) else unknown(reason, name),
        glibc=_glibc(host, as_text(data.get("libc"))),
        compiler=known(any(host.which(c) for c in ("cc", "gcc", "clang")), "PATH"),
        python_headers=known(headers, name) if isinstance(headers, bool) else unknown(reason, name),
        others=_others(host),
    )


def _ask(host: Host, name: str) -> tuple[dict[str, Any], str]:
    if host.which(name) is None:
        return {}, _("{program} was not found").format(program=name)
    result = host.run([name, "-c", QUESTION], TIMEOUT_S)
    if not result.ok:
        return {}, failure(result)
    data = as_dict(parse_json(result.text))
    return data, "" if data else _("{program} gave an answer that cannot be read").format(program=name)


def _others(host: Host) -> tuple[str, ...]:
    found = ((version, host.which(f"python{version}")) for version in OTHER_VERSIONS)
    # pyenv puts a shim for every version that was ever installed, whether or not it is chosen.
    return tuple(f"{version} {path}" for version, path in found if path and "/shims/" not in path)


def _uv(host: Host) -> Fact[str]:
    candidates = ["uv"] if host.which("uv") else []
    candidates += [p for p in (f"{host.home}/.local/bin/uv", f"{host.home}/.cargo/bin/uv") if host.exists(p)]
    for program in candidates[:1]:
        result = host.run([program, "--version"], UV_TIMEOUT_S)
        match = re.search(r"uv\s+(\d+\.\d+[\w.+-]*)", result.text)
        if result.ok and match:
            return known(match.group(1), program)
        return unknown(failure(result) if not result.ok else _("uv --version does not tell"), program)
    return unknown(_("uv was not found"))


def _glibc(host: Host, told: str | None) -> Fact[str]:
    if not host.platform.startswith("linux"):
        return unknown(_("not a Linux system"))
    match = re.search(r"glibc\s+(\d+\.\d+)", told or "")
    if match:
        return known(match.group(1), "python3")
    result = host.run(["ldd", "--version"], 2, env=ENGLISH)
    said = result.text + result.error_text
    if "musl" in said:
        return unknown(_("this system uses musl instead of glibc: vLLM's wheels do not run on it"), "ldd")
    match = re.search(r"(?m)^ldd .*?(\d+\.\d+)\s*$", said)
    return (
        known(match.group(1), "ldd --version") if match else unknown(_("ldd --version does not tell"), "ldd")
    )
