"""``.wslconfig`` and ``/etc/wsl.conf``: read as WSL reads them, edit key by key, size the VM, hand the file over."""

from __future__ import annotations

from wizard.outputs.wslconfig.deliver import HandCopy, hand_copy, shutdown_text, to_filespec, verify_in_force
from wizard.outputs.wslconfig.edit import edit
from wizard.outputs.wslconfig.parse import Accepted, Effective, Parsed, Problem, Rejected, parse
from wizard.outputs.wslconfig.tune import Setting, WslAdvice, tune
from wizard.wsl_grammar import Mode

__all__ = [
    "Accepted",
    "Effective",
    "HandCopy",
    "Mode",
    "Parsed",
    "Problem",
    "Rejected",
    "Setting",
    "WslAdvice",
    "edit",
    "hand_copy",
    "parse",
    "shutdown_text",
    "to_filespec",
    "tune",
    "verify_in_force",
]
