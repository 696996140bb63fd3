"""What is to be started: read off a plan, or off the files alone when the answers are gone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wizard.errors import BadInput
from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.plan_types import Plan

BASE_START_S = 600.0  # when nothing is known of the model


@dataclass(frozen=True)
class Target:
    """One generated folder, ready to be started."""

    folder: Path
    name: str  # the model's name in the API
    port: int
    runtime: str = "local"  # "docker" "local"
    container: str | None = None  # its name, when Docker runs it
    device: str = "none"  # "nvidia" "amd" "cpu" "none"
    task: str = "generate"  # as ModelInfo.task
    modalities: tuple[str, ...] = ("text",)
    adapters: tuple[str, ...] = ()  # names of LoRA adapters
    images: bool = False  # whether a request may bring an image
    weight_bytes: int | None = None
    start_s: float = BASE_START_S  # after which a start that is not ready is stuck
    gpus: tuple[int, ...] = ()
    release: str | None = None
    address: str = "127.0.0.1"  # where this machine reaches it
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Without a path: "http://127.0.0.1:8000"."""
        return f"{self.scheme}://{self.address}:{self.port}"

    @property
    def script(self) -> Path:
        return self.folder / "launch.sh"

    @property
    def compose(self) -> Path:
        return self.folder / "compose.yaml"


def from_plan(plan: Plan, folder: Path) -> Target:
    """The target of a plan whose files stand in ``folder``. The script's own port counts: it may be edited."""
    from wizard.outputs.command import start_seconds

    model = plan.model
    port, container = _from_script(folder)
    limit = plan.value("limit_images")
    images = model is not None and "image" in model.modalities and limit != 0
    adapters = tuple(str(item).partition("=")[0] for item in plan.value("lora_adapters") or ())
    return Target(
        folder=folder,
        name=str(plan.value("served_model_name") or "model"),
        port=port or int(plan.value("port", 8000)),
        runtime="docker" if container else plan.runtime,
        container=container,
        device=plan.device,
        task=model.task if model is not None else "generate",
        modalities=model.modalities if model is not None else ("text",),
        adapters=adapters,
        images=images,
        weight_bytes=model.weight_bytes if model is not None else None,
        start_s=float(start_seconds(plan)) if plan.can_serve else BASE_START_S,
        gpus=plan.gpus,
        release=plan.release.version if plan.release is not None else None,
        address=_reached_at(plan, container is not None),
        scheme="https" if plan.value("ssl_certfile") else "http",
    )


def _reached_at(plan: Plan, in_container: bool) -> str:
    host = "" if in_container else str(plan.value("host") or "")
    if host in ("", "0.0.0.0", "::", "localhost"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def from_files(folder: Path) -> Target:
    """The target of a folder without usable answers: only what its script says."""
    port, container = _from_script(folder)
    if port is None:
        raise BadInput(
            _("{path} is no script of vllm-wizard: it names no port. Make it with vllm-wizard generate.").format(
                path=folder / "launch.sh"
            )
        )
    runtime = "docker" if container else "local"
    return Target(folder=folder, name="", port=port, container=container, runtime=runtime, release=_release_of(folder))


def _release_of(folder: Path) -> str | None:
    """The vLLM that launch.sh was made for: its image, or what its head says in any language."""
    try:
        text = (folder / "launch.sh").read_text("utf-8", "replace")
    except OSError:
        return None
    number = r"(\d+\.\d+\.\d+(?:\.?(?:post|dev|rc)\d+)?)"
    found = re.search(rf"^image=\S+:v{number}", text, re.MULTILINE) or re.search(rf"^#.*(?<![A-Za-z])vLLM {number}", text, re.MULTILINE)
    return found.group(1) if found else None


def _from_script(folder: Path) -> tuple[int | None, str | None]:
    """(port, container name) as launch.sh sets them."""
    try:
        text = (folder / "launch.sh").read_text("utf-8", "replace")
    except OSError:
        return None, None
    port = re.search(r"^port=['\"]?(\d{1,5})['\"]?\s*$", text, re.MULTILINE)
    container = re.search(r"^container=['\"]?([\w.-]+)['\"]?\s*$", text, re.MULTILINE)
    return (int(port.group(1)) if port else None), (container.group(1) if container else None)


def fingerprint(folder: Path) -> str:
    """Of what would be started: the same files are never tried twice in a row of repairs."""

    def read(name: str) -> bytes | None:
        try:
            return (folder / name).read_bytes()
        except OSError:
            return None

    return digest_of(read)


def digest_of(read: Callable[[str], bytes | None]) -> str:
    """The same of contents that need not be written yet."""
    import hashlib

    digest = hashlib.sha256()
    for name in ("launch.sh", "compose.yaml"):
        lines = (read(name) or b"").splitlines()
        # Comments (reasons, figures measured just now) change nothing that is started.
        digest.update(b"\n".join(x for x in lines if not x.lstrip().startswith(b"#")) + b"\0")
    return digest.hexdigest()[:16]
