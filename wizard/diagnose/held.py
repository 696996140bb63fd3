"""Cures held against the machine at hand: no share of the GPU's memory is advised that is not free there."""

from __future__ import annotations

import re

from wizard.diagnose.engine import Diagnosis, Fix
from wizard.i18n import _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wizard.facts import GpuStack

FLAG = "--gpu-memory-utilization"
_LEFT_FREE_BYTES = 150 << 20  # what a start takes before vLLM looks how much is free


def asks_for_memory(diagnosis: Diagnosis) -> bool:
    """Whether a cure sets the share of the GPU's memory, so that the machine has to be asked."""
    return any(fix.flags.get(FLAG) is not None for finding in diagnosis.findings for fix in finding.fixes)


def free_share(stack: GpuStack, named: str | None) -> float | None:
    """The largest share of its memory that is free on every GPU of the kind that a log names (``named``; None: on all),
    rounded down to hundredths; None where it is not known, or the log is about another GPU."""
    shares = []
    for gpu in stack.gpus:
        total, free = gpu.vram_total_bytes.value, gpu.vram_free_bytes.value
        if named and not _same_gpu(named, gpu.name):
            continue
        if not total or free is None:
            return None
        shares.append(int(100 * max(0, free - _LEFT_FREE_BYTES) / total) / 100)
    return min(shares, default=None)


def _same_gpu(a: str, b: str) -> bool:
    names = [set(re.findall(r"[a-z]+|\d+", re.sub(r"(?i)nvidia|geforce|graphics|gpu", "", name).lower())) for name in (a, b)]
    return names[0] <= names[1] or names[1] <= names[0]


def hold(diagnosis: Diagnosis, stack: GpuStack) -> None:
    """Change, or take out, cures that ask for more memory than is free."""
    share = free_share(stack, diagnosis.gpu)
    if share is None:
        for finding in diagnosis.findings if diagnosis.wsl else ():
            finding.fixes = [_for_windows(fix, diagnosis) for fix in finding.fixes]
        return
    for finding in diagnosis.findings:
        held = [_held(fix, share, diagnosis) for fix in finding.fixes]
        if None in held:
            finding.look.append(_("On this machine {share:.0%} of the GPU's memory is free: a larger share would not start.").format(share=share))
        finding.fixes = [fix for fix in held if fix is not None]


def _held(fix: Fix, share: float, diagnosis: Diagnosis) -> Fix | None:
    try:
        wanted = float(str(fix.flags[FLAG]))
    except (KeyError, ValueError):
        return fix
    if wanted <= share:
        return fix
    before = diagnosis.utilization if diagnosis.utilization is not None else default_share(diagnosis.release)
    if wanted > before and share <= before:
        return None
    told = _("Give vLLM more of the GPU: {share} is free on this machine.") if wanted > before else _("Take a smaller share: {share} is free on this machine.")
    return Fix(told.format(share=f"{share:.2f}"), {**fix.flags, FLAG: f"{share:.2f}"}, fix.env, fix.files, fix.commands, fix.less)


def _for_windows(fix: Fix, diagnosis: Diagnosis) -> Fix:
    """A larger share on a Windows machine of which nothing more is known: no figure is right for all of them."""
    wanted = str(fix.flags.get(FLAG, ""))
    if len(fix.flags) != 1 or not re.fullmatch(r"0?\.\d+", wanted) or float(wanted) <= default_share(diagnosis.release):
        return fix
    return Fix(_("On Windows the desktop holds 1 to 2 GiB: 0.93 at most on 24 GB and more, 0.80 on 8 GB."))


def default_share(release: str | None) -> float:
    """The share that a release takes when none is given."""
    from wizard.fit_constants import constant

    return float(constant("utilization_default", release or "")["value"])
