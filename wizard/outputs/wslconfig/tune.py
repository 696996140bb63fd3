"""Size the WSL 2 virtual machine for vLLM: memory, swap, processors, and what keeps a server alive.

The rule (GiB; R host RAM, W weights, G GPUs): Windows keeps a quarter of R, at least 4 and at most 24; the rest
is the cap. Needed are 4 + 2G + CPU offload + 2, and 8 more for multimodal models. Good is that plus W, since
weights then stay in the page cache (they are mapped, so W is no hard need). memory = max(min(cap, good),
min(cap, R/2)); swap = a quarter of it, at least 4; processors are left alone up to 8, else two are kept back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wizard.facts import Machine, MountKind
from wizard.i18n import _, listed, ngettext, sentences, stopped
from wizard.outputs.wslconfig import keys
from wizard.outputs.wslconfig.parse import GIB, Parsed, parse, windows_keeps_bytes

_BASE_GIB, _PER_GPU_GIB, _SPARE_GIB, _MULTIMODAL_GIB = 4.0, 2.0, 2.0, 8.0
_SMALLEST_SWAP_GIB = 4


@dataclass(frozen=True)
class Setting:
    """One setting of the advice. ``value`` is what should count (None: left to WSL's default); ``current`` what
    the user's file says now; ``change`` whether the file has to be changed for it."""

    key: str
    value: str | None
    reason: str
    current: str | None = None
    change: bool = True


@dataclass(frozen=True)
class WslAdvice:
    """The advice. ``settings`` hold the values with reasons; ``question`` is set when the host's RAM is not known
    and the user has to be asked. Sizes are bytes, None when they cannot be known. ``fits`` is False when the
    need is above what Windows can spare, None when that is not known."""

    settings: tuple[Setting, ...]
    host_ram_bytes: int | None
    host_cpus: int | None
    windows_keeps_bytes: int | None
    cap_bytes: int | None
    need_bytes: int
    good_bytes: int | None
    fits: bool | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    question: str = ""

    @property
    def changes(self) -> dict[str, str | None]:
        """What :func:`wizard.outputs.wslconfig.edit` has to be given."""
        return {s.key: s.value for s in self.settings if s.change}

    @property
    def wanted(self) -> dict[str, str]:
        """All values that should count after the next start of WSL, changed or kept."""
        return {s.key: s.value for s in self.settings if s.value is not None}

    def setting(self, key: str) -> Setting | None:
        return next((s for s in self.settings if s.key == key), None)

    def with_changes(self, changes: Mapping[str, str | None], reasons: Mapping[str, str] | None = None) -> WslAdvice:
        """The advice with only these changes, each with the reason given for it, else with its own."""
        settings = []
        for key, value in changes.items():
            own = self.setting(key)
            reason = (reasons or {}).get(key) or (own.reason if own is not None and own.value == value else "")
            settings.append(Setting(key, value, reason))
        return replace(self, settings=tuple(settings))

    def with_value(self, key: str, value: str | None, reason: str) -> WslAdvice:
        """The advice with the user's own choice for one key (None: the line is left out or taken out)."""
        old = self.setting(key)
        current = old.current if old is not None else None
        chosen = Setting(key, value, reason, current, change=value != current)
        rest = tuple(chosen if s.key == key else s for s in self.settings)
        return replace(self, settings=rest if old is not None else (*rest, chosen))


def tune(
    *,
    host_ram_bytes: int | None,
    host_cpus: int | None,
    weights_bytes: int | None,
    gpu_count: int,
    model: str = "",
    cpu_offload_bytes: int = 0,
    multimodal: bool = False,
    existing: bytes | None = None,
    keep_alive: bool = False,
    machine: Machine | None = None,
) -> WslAdvice:
    """The advice for one model on one host.

    ``weights_bytes`` None: not known, the page cache is then left out. ``model`` is whose they are, for the reasons.
    ``existing`` is the user's ``.wslconfig``:
    own values that suffice are kept. ``keep_alive`` adds what stops WSL from ending a server after its last
    terminal closes. ``machine`` is asked for what the warnings need (Docker Desktop, disks).
    """
    current = parse(existing or b"", "wslconfig", host_ram_bytes, host_cpus)
    parts = _need_parts(gpu_count, cpu_offload_bytes, multimodal)
    need = sum(gib for gib, _words in parts)
    warnings = [*_file_warnings(current, host_ram_bytes, machine)]
    notes = _notes(machine)
    settings: list[Setting] = []
    question = ""
    keeps = cap = good = None
    fits: bool | None = None
    if weights_bytes is not None:
        good = need + round(weights_bytes / GIB, 1)
    if host_ram_bytes is None:
        question = _(
            "How much RAM does Windows have? From inside WSL only the virtual machine's share is seen, so memory and swap "
            "cannot be sized without it (Task Manager, Performance, Memory shows it)."
        )
    else:
        ram = host_ram_bytes / GIB
        keeps = windows_keeps_bytes(host_ram_bytes) / GIB
        cap = ram - keeps
        fits = need <= cap
        memory_gib = _memory_gib(ram, cap, need, good)
        memory = _memory_setting(current, ram, keeps, cap, need, good, memory_gib, _wanted_words(parts, good, model))
        settings.append(memory)
        settings.append(_swap_setting(current, memory, memory_gib))
        if not fits:
            warnings.insert(
                0,
                _(
                    "This needs about {need:.0f} GiB of RAM in WSL, but only {cap:.1f} GiB of {ram:.0f} GiB can be given to it without starving Windows: take a smaller model, less CPU offload or fewer GPUs, or add RAM."
                ).format(need=need, cap=cap, ram=ram),
            )
    warnings += _swap_disk_warnings(current, _swap_bytes(current, settings), machine)
    processors = _processors_setting(current, host_cpus, gpu_count)
    if processors is not None:
        settings.append(processors)
    if keep_alive:
        settings += _keep_alive_settings(current)
    else:
        notes.append(
            _(
                "WSL ends the virtual machine when the last terminal is closed, also while a server runs in it: keep one open, or let the wizard switch the idle time-outs off."
            )
        )
    return WslAdvice(
        settings=tuple(settings),
        host_ram_bytes=host_ram_bytes,
        host_cpus=host_cpus,
        windows_keeps_bytes=None if keeps is None else round(keeps * GIB),
        cap_bytes=None if cap is None else round(cap * GIB),
        need_bytes=round(need * GIB),
        good_bytes=None if good is None else round(good * GIB),
        fits=fits,
        warnings=tuple(warnings),
        notes=tuple(notes),
        question=question,
    )


def _need_parts(gpu_count: int, cpu_offload_bytes: int, multimodal: bool) -> list[tuple[float, str]]:
    """What is needed, each in GiB and in words. Sizes are rounded before they are summed up, so that what is shown
    adds up for whoever reads it."""
    gpus = max(gpu_count, 0)
    parts = [
        (_BASE_GIB + _SPARE_GIB, _("{gib} for the system and the server")),
        (_PER_GPU_GIB * gpus, ngettext("{gib} for the GPU's process", "{gib} for the processes of {n} GPUs", gpus)),
        (_MULTIMODAL_GIB if multimodal else 0.0, _("{gib} for images")),
        (round(cpu_offload_bytes / GIB, 1), _("{gib} for what the model holds in RAM")),
    ]
    return [(gib, words.format(gib=_tenths(gib), n=gpus)) for gib, words in parts if gib]


def _tenths(gib: float) -> str:
    return f"{gib:.1f}".removesuffix(".0")


def _wanted_words(parts: list[tuple[float, str]], good: float | None, model: str) -> str:
    """What is wanted, as the sum that it is."""
    need = sum(gib for gib, _words in parts)
    figures = {"need": _tenths(need), "made_of": listed(words for _gib, words in parts)}
    if good is None:
        return _("{need} GiB for Linux and vLLM's processes ({made_of}); the size of the weights is not known").format(**figures)
    weights = f"{good - need:.1f}"
    if not model:
        return _("{need} GiB for Linux and vLLM's processes ({made_of}) and {weights} GiB so that the weights stay in memory once read").format(**figures, weights=weights)
    return _("{need} GiB for Linux and vLLM's processes ({made_of}) and {weights} GiB so that the weights of {model} stay in memory once read").format(
        **figures, weights=weights, model=model
    )


def _memory_gib(ram: float, cap: float, need: float, good: float | None) -> int:
    """Whole GiB for the VM: rounded up while that leaves Windows its share."""
    exact = max(min(cap, good if good is not None else need), min(cap, ram / 2))
    return max(min(math.ceil(exact), math.floor(cap)), 1)


def _memory_setting(
    current: Parsed, ram: float, keeps: float, cap: float, need: float, good: float | None, gib: int, wanted: str
) -> Setting:
    value = f"{gib}GB"
    own = current.get("wsl2.memory")
    text = own.raw if own is not None else None
    reason = _memory_reason(ram, cap, need, good, gib, wanted)
    refused = next((r for r in current.rejected if r.key == "wsl2.memory"), None)
    if refused is not None:
        reason = _("{reason} Your own {raw!r} is refused by WSL.").format(reason=reason, raw=refused.raw)
        return Setting("wsl2.memory", value, reason, refused.raw)
    if own is None or int(own.value) == 0:
        return Setting("wsl2.memory", value, reason, text)
    mine = int(own.value) / GIB
    enough = good if good is not None else need
    if mine >= ram:
        why = _(
            "{reason} Your own {raw} is all of the machine's RAM or more: Windows would be left with nothing."
        ).format(reason=reason, raw=own.raw)
        return Setting("wsl2.memory", value, why, text)
    if mine > cap:
        left = ram - mine
        if left < 4:
            why = _("{reason} Your own {raw} would leave Windows only {left:.1f} GiB.").format(
                reason=reason, raw=own.raw, left=left
            )
            return Setting("wsl2.memory", value, why, text)
        why = _(
            "Your own {raw} suffices and is kept; it leaves Windows {left:.1f} GiB, a little less than the {keeps:.1f} GiB we would leave."
        ).format(raw=own.raw, left=left, keeps=keeps)
        return Setting("wsl2.memory", own.raw, why, text, change=False)
    if mine >= min(enough, gib) and good is None:
        why = _("Your own {raw} is kept: it covers {wanted}.").format(raw=own.raw, wanted=wanted)
        return Setting("wsl2.memory", own.raw, why, text, change=False)
    if mine >= min(enough, gib):
        why = _(
            "Your own {raw} suffices and is kept (needed {need:.0f} GiB, {enough:.1f} GiB with the weights in the page cache)."
        ).format(raw=own.raw, need=need, enough=enough)
        return Setting("wsl2.memory", own.raw, why, text, change=False)
    why = sentences(reason, _("Your own {raw} is too little.").format(raw=own.raw))
    return Setting("wsl2.memory", value, why, text)


def _memory_reason(ram: float, cap: float, need: float, good: float | None, gib: int, parts: str) -> str:
    """Where the figure comes from, so that it can be added up by whoever reads it."""
    windows = _("Windows keeps {left:.1f} of {ram:.1f} GiB").format(left=ram - gib, ram=ram)
    if need > gib:
        return _("{windows}; the {need:.0f} GiB that are needed do not fit.").format(
            windows=windows, need=need
        )
    wish = good if good is not None else need
    if min(cap, wish) < min(cap, ram / 2):
        return _("Half of the {ram:.1f} GiB, in whole GiB, as WSL2 takes by itself: more than the {wish:.1f} GiB that are wanted, which are {parts}.").format(
            ram=ram, wish=wish, parts=parts
        )
    if wish <= cap:
        return _("{wish:.1f} GiB, rounded up: {parts}. {windows}.").format(wish=wish, parts=parts, windows=windows)
    return _(
        "All that Windows can spare: it keeps {left:.1f} of {ram:.1f} GiB. Wanted are {wish:.1f} GiB: {parts}. So later starts read a part of the weights from disk again."
    ).format(left=ram - gib, ram=ram, wish=wish, parts=parts)


def _swap_setting(current: Parsed, memory: Setting, memory_gib: int) -> Setting:
    parsed = parse(f"[wsl2]\nmemory={memory.value}\n".encode("ascii", "replace")).get("wsl2.memory")
    base = math.ceil(int(parsed.value) / GIB) if parsed is not None else memory_gib
    gib = max(_SMALLEST_SWAP_GIB, math.ceil(base / 4))
    value = f"{gib}GB"
    reason = _(
        "a quarter of the memory, at least {least} GiB: loading a model can need more for a moment, and without swap Linux ends the server instead"
    ).format(least=_SMALLEST_SWAP_GIB)
    own = current.get("wsl2.swap")
    if own is None:
        return Setting("wsl2.swap", value, reason)
    mine = int(own.value)
    if mine >= _SMALLEST_SWAP_GIB * GIB:
        return Setting(
            "wsl2.swap",
            own.raw,
            _("Your own {raw} suffices and is kept.").format(raw=own.raw),
            own.raw,
            change=False,
        )
    why = sentences(stopped(reason), _("Your own {raw} is too little.").format(raw=own.raw))
    return Setting("wsl2.swap", value, why, own.raw)


def _swap_bytes(current: Parsed, settings: list[Setting]) -> int | None:
    """The swap that will be there: as advised, else as the file has it."""
    value = next((s.value for s in settings if s.key == "wsl2.swap"), None)
    if value is not None:
        return keys.parse_size(value)
    return None if current.effective is None else current.effective.swap_bytes


def _processors_setting(current: Parsed, host_cpus: int | None, gpu_count: int) -> Setting | None:
    own = current.get("wsl2.processors")
    if host_cpus is None:
        return None
    wanted = host_cpus if host_cpus <= 8 else host_cpus - 2
    least = min(wanted, 2 + 2 * max(gpu_count, 1))
    if own is None:
        if host_cpus <= 8:
            return None
        return Setting(
            "wsl2.processors",
            str(wanted),
            _("two of {cpus} logical processors stay for Windows").format(cpus=host_cpus),
        )
    mine = int(own.value)
    if mine > host_cpus:
        return Setting(
            "wsl2.processors",
            str(wanted),
            _("your own {mine} is more than the machine's {cpus}: WSL warns at every start").format(
                mine=mine, cpus=host_cpus
            ),
            own.raw,
        )
    if mine <= 0 or mine >= least:
        return Setting(
            "wsl2.processors",
            own.raw,
            _("Your own {raw} suffices and is kept.").format(raw=own.raw),
            own.raw,
            change=False,
        )
    return Setting(
        "wsl2.processors",
        str(wanted),
        _("your own {mine} is too few: vLLM runs a process a GPU beside its server and tokenizer").format(
            mine=mine
        ),
        own.raw,
    )


def _keep_alive_settings(current: Parsed) -> list[Setting]:
    reasons = {
        "general.instanceIdleTimeout": _(
            "the distribution is not ended when its last terminal closes (a service inside does not keep it alive)"
        ),
        "wsl2.vmIdleTimeout": _("the virtual machine is not ended when it idles"),
    }
    settings = []
    for key, reason in reasons.items():
        own = current.get(key)
        raw = own.raw if own is not None else None
        kept = own is not None and int(own.value) < 0
        settings.append(Setting(key, raw if kept else "-1", reason, raw, change=not kept))
    return settings


def _notes(machine: Machine | None) -> list[str]:
    if machine is not None and machine.docker.is_desktop.value:
        return [
            _(
                "Docker Desktop runs in this same virtual machine: its containers share this memory and swap, and its own memory slider does nothing under WSL 2."
            )
        ]
    return []


def _file_warnings(current: Parsed, host_ram_bytes: int | None, machine: Machine | None) -> list[str]:
    """What the user's own file says that is known to hurt; none of it is changed unasked."""
    warnings: list[str] = []
    effective = current.effective
    if effective is None:
        return warnings
    if effective.sparse_vhd:
        warnings.append(
            _(
                "experimental.sparseVhd=true is known to corrupt disks; take it out, and see that model files are safe elsewhere."
            )
        )
    has_docker = machine is not None and machine.docker.cli.known
    if effective.networking_mode == "Mirrored" and (machine is None or has_docker):
        warnings.append(
            _(
                "networkingMode=mirrored has open faults with ports that Docker publishes: if the server cannot be reached, go back to NAT."
            )
        )
    if current.is_set("wsl2.swap") and effective.swap_bytes == 0:
        warnings.append(
            _(
                "swap=0: without swap Linux ends the server as soon as loading a model needs more memory for a moment."
            )
        )
    memory = current.get("wsl2.memory")
    if memory is not None and host_ram_bytes is not None and int(memory.value) > host_ram_bytes:
        warnings.append(
            _(
                "memory={raw} is more than the machine's {ram:.1f} GiB: WSL takes all of it without a word, and Windows starves."
            ).format(raw=memory.raw, ram=host_ram_bytes / GIB)
        )
    if not effective.gpu_support:
        warnings.append(_("gpuSupport is off (or safeMode is on): no GPU can be seen inside WSL."))
    return warnings


def _swap_disk_warnings(current: Parsed, swap_bytes: int | None, machine: Machine | None) -> list[str]:
    """Whether the disk that the swap file lies on is known to be too full or too slow for it."""
    effective = current.effective
    if machine is None or effective is None or not swap_bytes:
        return []
    path = effective.swap_file
    drive = path[:2].upper() if path[1:2] == ":" else ""
    mount = next(
        (m for m in machine.mounts if drive and (m.windows_path or "").upper().startswith(drive)), None
    )
    if path.startswith("\\\\") or (mount is not None and mount.kind is MountKind.NETWORK):
        return [
            _(
                "swapFile={path} lies on a network drive: WSL slows to a crawl or does not start with it."
            ).format(path=path)
        ]
    free = None
    if mount is not None:
        free = mount.free_bytes.value
    elif not drive and machine.wsl is not None:
        free = machine.wsl.host_free_disk_bytes.value
    if free is None or free >= swap_bytes:
        return []
    text = _("the swap file may grow to {swap:.0f} GiB, but its disk {drive} has only {free:.1f} GiB free.")
    return [text.format(swap=swap_bytes / GIB, drive=drive or "C:", free=free / GIB)]


__all__ = ["Setting", "WslAdvice", "tune"]
