"""What a container of vLLM needs from outside, whoever starts it: the GPUs, shared memory for several processes, and
the folders that are bound into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wizard.i18n import _
from wizard.releases.types import ArgProblem

from .extract import Command, docker_run, docker_words

if TYPE_CHECKING:
    from .judge import Verdict

_OFFICIAL = ("vllm/vllm-openai", "docker.io/vllm/vllm-openai")  # nothing but vLLM is in these
_OTHER_DEVICES = ("-cpu", "-rocm", "-xpu", "rocm/", "-tpu", "-hpu", "ascend", "neuron")  # images whose devices are given in other ways


def wants_nvidia(image: str | None) -> bool:
    """Whether an image computes on NVIDIA's GPUs."""
    return not any(part in (image or "") for part in _OTHER_DEVICES)


def is_cpu(image: str | None) -> bool:
    return "-cpu" in (image or "")


def no_gpu(at: str, cure: str) -> ArgProblem:
    return ArgProblem(at, "bad_value", _("no GPU is reserved: the container sees none"), replacement=cure, accepted=True, doubtful=True)


def little_shared_memory(at: str, cure: str, size: str) -> ArgProblem:
    told = _("neither {ipc} nor {size}: 64 MiB of shared memory are not enough for several processes").format(ipc=cure, size=size)
    return ArgProblem(at, "conflict", told, replacement=cure, accepted=True)


def of_docker(command: Command, processes: int) -> list[ArgProblem]:
    """What is missing in the options of a ``docker run`` (or podman's), which starts that many processes."""
    texts = [w.text for w in command.docker]
    found = docker_run(texts)
    if found is None:
        return []
    options = found[0]
    problems = []
    if wants_nvidia(command.image) and not _has_gpus(options):
        podman = texts[0].rsplit("/", 1)[-1] == "podman"
        problems.append(no_gpu("--device" if podman else "--gpus", "--device nvidia.com/gpu=all" if podman else "--gpus all"))
    shared = any(
        (name == "--ipc" and value == "host") or name == "--shm-size" or (name in ("--volume", "--mount", "--tmpfs") and "/dev/shm" in value)  # noqa: S108
        for name, value in options
    )
    if processes > 1 and not shared and not is_cpu(command.image):
        problems.append(little_shared_memory("--ipc", "--ipc host", "--shm-size"))
    return problems


def mounts(command: Command, added: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What is mounted into a command's container: (folder of the host as it is written, or the name of a volume, or "";
    folder within)."""
    pairs: list[tuple[str, str]] = list(command.facts.get("mounts", ()))
    for name, value in (docker_run(docker_words(command, added)) or ([], 0))[0]:
        if name == "--volume":
            pairs.append(_short_mount(value))
        elif name == "--mount":
            pairs.append(_long_mount(dict(part.partition("=")[::2] for part in value.split(","))))
        elif name in ("--volumes-from", "--tmpfs"):
            pairs.append(("", "/" if name == "--volumes-from" else value.partition(":")[0]))
    return pairs


def mounts_of_service(service: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same of a Compose service."""
    volumes = service.get("volumes")
    found = [_long_mount(v) if isinstance(v, Mapping) else _short_mount(str(v)) for v in volumes or []] if isinstance(volumes, list) else []
    elsewhere = any(service.get(key) for key in ("volumes_from", "extends", "configs", "build"))
    return [*found, ("", "/")] if elsewhere else found


def _short_mount(value: str) -> tuple[str, str]:
    """``source:target[:options]``; a source may be a Windows path, with a colon of its own."""
    drive = re.match(r"[A-Za-z]:[\\/]", value)
    source, colon, rest = value[2:].partition(":") if drive is not None else value.partition(":")
    return ((drive.group()[:2] if drive is not None else "") + source, rest.partition(":")[0]) if colon else ("", value)


def _long_mount(fields: Mapping[Any, Any]) -> tuple[str, str]:
    source = fields.get("source", fields.get("src"))
    target = next((fields[k] for k in ("target", "destination", "dst") if k in fields), None)
    return str(source or ""), str(target or "/")


def model_mount(model: str) -> list[str]:
    """The option of ``docker run`` that shows a folder to the container under its own path."""
    return ["-v", f"{model}:{model}:ro"]


def no_model_folder(command: Command, model: str | None) -> ArgProblem | None:
    """That a model's folder is given by its path to an image of vLLM's own, with nothing mounted there."""
    if command.kind not in ("docker", "compose") or model is None or not model.startswith("/") or "$" in model:
        return None
    official = (command.image or "").partition("@")[0].partition(":")[0] in _OFFICIAL
    if not official or any(_within(model, inside) for _outside, inside in mounts(command)):
        return None
    told = _("nothing is mounted there: the container sees no such folder, and vLLM takes the path for a repository's id")
    return ArgProblem(model, "conflict", told, replacement=" ".join(model_mount(model)) if command.kind == "docker" else None, accepted=True, doubtful=True)


def no_shell(command: Command, model: str | None) -> ArgProblem | None:
    """That a shell is asked of an image that starts vLLM itself: it takes the shell's name for a model."""
    if command.kind not in ("docker", "compose") or command.entry != "image" or model not in ("bash", "sh", "/bin/bash", "/bin/sh"):
        return None
    told = _("the image starts vLLM itself and takes {word} for the name of a model; for a shell write --entrypoint {word} before the image")
    return ArgProblem(model, "bad_value", told.format(word=model), accepted=True, stops=True)


def _within(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(folder + "/")


def on_host(path: str, mounted: Iterable[tuple[str, str]]) -> str | None:
    """The path on the host of what a container sees at ``path``; None where no bind mount holds it."""
    for outside, inside in mounted:
        if inside.strip("/") and outside.startswith(("/", "~", ".", "$")) and _within(path, inside):
            return outside.rstrip("/") + path[len(inside.rstrip("/")) :]
    return None


def within_windows(path: str, mounted: Iterable[tuple[str, str]]) -> str | None:
    """The path in a container of a folder that is named by its path on Windows; None where no bind mount holds it."""
    plain = path.replace("\\", "/")
    for outside, inside in mounted:
        folder = outside.replace("\\", "/").rstrip("/")
        if folder and _within(plain.lower(), folder.lower()):
            return (inside.rstrip("/") + plain[len(folder) :]) or "/"
    return None


def model_on_host(verdict: Verdict, home: str) -> str | None:
    """The model as this machine holds it: a repository's id, or a folder of the host; None where the container alone
    knows it."""
    command, model = verdict.command, verdict.model
    if model is None or command.kind not in ("docker", "compose") or not model.startswith("/"):
        return model
    path = on_host(model, mounts(command, verdict.docker_added))
    for sign in ("~/", "$HOME/", "${HOME}/"):
        if path is not None and path.startswith(sign):
            path = home + "/" + path[len(sign) :]
    return path


def _has_gpus(options: Sequence[tuple[str, str]]) -> bool:
    return any(
        name in ("--gpus", "--privileged", "--device") or (name == "--runtime" and "nvidia" in value)
        for name, value in options
    )
