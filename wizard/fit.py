"""The memory arithmetic: ModelInfo + GPU + release + flags -> what fits, and which flags make it fit.

The parts: ``fit_weights`` (sharding), ``fit_profile`` (peak of the profiling run), ``fit_kv`` (the cache's layout),
``fit_core`` (the budget), ``fit_layout`` and ``fit_choose`` (choosing), ``fit_store`` (what was measured), ``fit_constants`` (figures with sources). All pure.
"""

from wizard.fit_choose import (
    Choice,
    GpuMemory,
    Pick,
    choose,
    choose_utilization,
    ways_out,
)
from wizard.fit_constants import GIB, MIB, GpuModel, constant, constants, gpu_model, version_key
from wizard.fit_core import fit
from wizard.fit_layout import Aim, tp_problem, valid_tp
from wizard.fit_store import Calibrations
from wizard.fit_types import Calibration, FitRequest, FitResult, Interval, Line, WayOut

__all__ = [
    "GIB", "MIB", "Aim", "Calibration", "Calibrations", "Choice", "FitRequest", "FitResult", "GpuMemory", "GpuModel", "Interval", "Line", "Pick", "WayOut", "choose",
    "choose_utilization", "constant", "constants", "fit", "gpu_model", "tp_problem", "valid_tp", "version_key", "ways_out",
]  # fmt: skip
