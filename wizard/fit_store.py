"""Memory figures measured on this machine: how they are kept, and which of them belong to a request.

One entry for each kind of GPU, minor release, model and split. Pure: reading and writing the text is the host's part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from wizard.fit_constants import GIB
from wizard.fit_types import Calibration, FitRequest

CACHE_KEY = "fit-calibration"
KEPT_S = 10 * 365 * 86_400.0


def slot(request: FitRequest, model: str) -> str:
    """The name under which the figures of this card, release, model and split are kept."""
    minor = ".".join(request.release.lstrip("v").split(".")[:2])
    shape = f"tp{request.tensor_parallel_size}pp{request.pipeline_parallel_size}"
    if request.data_parallel_size > 1:
        shape += f"dp{request.data_parallel_size}"
    if request.expert_parallel:
        shape += "ep"
    card = request.gpu_name.strip().lower()
    return "|".join((card, f"{request.gpu_total_bytes / GIB:.1f}", minor, model.rstrip("/").split("/")[-1].lower(), shape))


@dataclass(frozen=True)
class Calibrations:
    """All that was measured on one machine, by :func:`slot`."""

    entries: Mapping[str, Calibration] = field(default_factory=dict)

    def find(self, request: FitRequest, model: str) -> Calibration | None:
        """What was measured for this kind of GPU, release, model and split; None when nothing was."""
        return self.entries.get(slot(request, model)) if self.entries else None

    def with_entry(self, request: FitRequest, model: str, calibration: Calibration) -> Calibrations:
        return Calibrations({**self.entries, slot(request, model): calibration})

    def text(self) -> str:
        return json.dumps({key: asdict(entry) for key, entry in self.entries.items()}, indent=1, sort_keys=True)


def parse(text: str | None) -> Calibrations:
    """The kept figures; entries that cannot be read are passed over."""
    try:
        data = json.loads(text or "{}")
    except ValueError:
        return Calibrations()
    entries = data.items() if isinstance(data, dict) else ()
    return Calibrations({str(key): _entry(entry) for key, entry in entries if isinstance(entry, Mapping)})


def _entry(entry: Mapping[str, object]) -> Calibration:
    numbers = {
        f.name: value
        for f in fields(Calibration)
        if f.name not in ("release", "model") and type(value := entry.get(f.name)) is int and value >= 0
    }
    return Calibration(release=str(entry.get("release") or ""), model=str(entry.get("model") or ""), **numbers)
