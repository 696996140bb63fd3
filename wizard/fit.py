"""The memory arithmetic: ModelInfo + GPU + release + flags -> what fits, and which flags make it fit.

The parts: ``fit_weights`` (sharding), ``fit_profile`` (peak of the profiling run), ``fit_kv`` (the cache's layout),
``fit_core`` (the budget), ``fit_choose`` (choosing), ``fit_constants`` (figures with sources). All pure.
"""

from wizard.fit_choose import (
    Choice,
    GpuMemory,
    Pick,
    choose,
    choose_utilization,
    tp_problem,
    valid_tp,
    ways_out,
)
from wizard.fit_constants import GIB, MIB, GpuModel, constant, constants, gpu_model, version_key
from wizard.fit_core import fit
from wizard.fit_types import Calibration, FitRequest, FitResult, Interval, Line, WayOut

__all__ = [
    "GIB", "MIB", "Calibration", "Choice", "FitRequest", "FitResult", "GpuMemory", "GpuModel", "Interval", "Line", "Pick", "WayOut", "choose",
    "choose_utilization", "constant", "constants", "fit", "gpu_model", "tp_problem", "valid_tp", "version_key", "ways_out",
]  # fmt: skip
