"""What a container of vLLM needs from outside, whoever starts it: the GPUs, and shared memory for several processes."""

from __future__ import annotations

from collections.abc import Sequence

from wizard.i18n import _
from wizard.releases.types import ArgProblem

from .extract import Command, docker_run

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


def _has_gpus(options: Sequence[tuple[str, str]]) -> bool:
    return any(
        name in ("--gpus", "--privileged", "--device") or (name == "--runtime" and "nvidia" in value)
        for name, value in options
    )
