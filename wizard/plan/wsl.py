"""WSL2's share of Windows: what is proposed, and what the user made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wizard.facts import SystemKind, Wsl
from wizard.i18n import _, labelled, sentences
from wizard.models.info import ModelInfo
from wizard.models.move_place import own_name
from wizard.outputs.wslconfig import WslAdvice, parse, tune, verify_in_force
from wizard.plan.draft import Draft
from wizard.plan.sizing import Sized
from wizard.steps import QUESTIONS, WSL

GIB = 1 << 30
MEMORY, SWAP, PROCESSORS = "wsl2.memory", "wsl2.swap", "wsl2.processors"


def plan_wsl(
    draft: Draft, info: ModelInfo, gpu_count: int, sized: Sized
) -> tuple[WslAdvice | None, Mapping[str, str | None]]:
    """The advice, and the changes to ``.wslconfig`` that the answers make of it (empty: nothing to change)."""
    machine = draft.machine
    wsl = machine.wsl
    if machine.system is not SystemKind.WSL2 or wsl is None:
        return None, {}
    ram = wsl.host_memory_bytes.value
    cpus = wsl.host_logical_cpus.value
    if ram is None:
        given = draft.answered("host_memory_gib")
        ram = (
            int(float(given[0]) * GIB)
            if given is not None and not isinstance(given[0], tuple) and float(given[0]) > 0
            else None
        )
        draft.settle(
            "host_memory_gib",
            given[0] if given else None,
            _("could not be read from here; the Task Manager of Windows shows it (Performance, Memory)") if given is None else _("chosen by you; it could not be read from here"),
            given[1] if given else "default",
            chosen=given is not None,
        )
    if cpus is None:
        given = draft.answered("host_cpus")
        cpus = int(given[0]) if given is not None and isinstance(given[0], int) and given[0] > 0 else None
        draft.settle(
            "host_cpus",
            given[0] if given else None,
            _("could not be read from here; the Task Manager of Windows shows it (Performance, CPU)") if given is None else _("chosen by you; it could not be read from here"),
            given[1] if given else "default",
            chosen=given is not None,
        )
    keep = draft.decide("wsl_keep_alive", True, _("a server should go on when the last terminal is closed"))
    advice = tune(
        host_ram_bytes=ram,
        host_cpus=cpus,
        weights_bytes=info.weight_bytes,
        gpu_count=gpu_count,
        model=info.repo_id or own_name(info.source),
        cpu_offload_bytes=_held_in_ram(sized, gpu_count),
        multimodal="image" in info.modalities,
        existing=wsl.wslconfig_bytes,
        keep_alive=bool(keep),
        machine=machine,
    )
    changes: dict[str, str | None] = {s.key: s.value for s in advice.settings if s.change}
    wanted = bool(changes) or any(draft.session.answers.get(key) is not None for key in SIZE_KEYS)
    write = draft.decide(
        "wsl_write",
        wanted,
        _("the lines that a server needs") if wanted else _("your .wslconfig already gives what is needed"),
        source="detected",
    )
    # Sizes that are not asked for are left out, whatever was answered to them before.
    draft.used.update(SIZE_KEYS)
    if write:
        _decide_size(draft, advice, changes, "wsl_memory_gib", MEMORY)
        _decide_size(draft, advice, changes, "wsl_swap_gib", SWAP)
        _decide_processors(draft, advice, changes)
    if advice.question:
        draft.warn(
            "wsl_host_unknown",
            _("The memory of Windows could not be read from here, so WSL2's share is not set."),
            sentences(
                advice.question,
                _("Give it on the step “{step}”, field “{field}”, or with --set host_memory_gib=N.").format(step=_(WSL.title), field=_(QUESTIONS["host_memory_gib"].label)),
            ),
        )
    for text in advice.warnings:
        draft.warn("wslconfig", text)
    _judge_own_file(draft, wsl, ram, cpus)
    draft.notes.extend(advice.notes)
    return advice, (changes if write else {})


def _held_in_ram(sized: Sized, gpu_count: int) -> int:
    """Bytes of RAM that the server itself holds: all of it without a GPU, else the weights left in RAM."""
    if sized.request.cpu:
        fit = sized.result
        held = fit.weights_bytes + fit.activation_bytes + fit.non_torch_bytes + fit.lora_bytes + fit.draft_bytes
        return int(held + max(0, fit.kv_cache_bytes.best))
    return sized.request.cpu_offload_bytes * max(1, gpu_count)  # so much for each GPU


SIZE_WARNINGS = ("wsl_memory_too_small", "wsl_memory_too_large", "wsl_swap_over_disk")  # of answers that are taken all the same
SIZE_KEYS = ("wsl_memory_gib", "wsl_swap_gib", "wsl_processors")


def _judge_own_file(draft: Draft, wsl: Wsl, ram: int | None, cpus: int | None) -> None:
    """What is wrong with the user's .wslconfig, and whether this WSL was started with it."""
    if wsl.wslconfig_bytes is None:
        return
    parsed = parse(wsl.wslconfig_bytes, "wslconfig", ram, cpus)
    name = wsl.wslconfig_path or ".wslconfig"
    for problem in parsed.problems:
        where = name if problem.line is None else f"{name}:{problem.line}"
        draft.warn("wslconfig_problem", labelled(where, problem.message))
    asked = {a.key: a.raw for a in parsed.accepted}
    reasons = verify_in_force(draft.machine, asked)
    if reasons:
        draft.warn("wsl_not_in_force", _("What your .wslconfig asks for is not in force."), sentences(*reasons))


def _decide_size(
    draft: Draft, advice: WslAdvice, changes: dict[str, str | None], key: str, name: str
) -> None:
    setting = advice.setting(name)
    proposed = _gib(setting.value) if setting is not None else None
    value = draft.decide(
        key,
        proposed,
        setting.reason if setting is not None else _("not known without the memory of Windows"),
        source="detected",
    )
    if isinstance(value, int) and not isinstance(value, bool) and value != proposed and value >= 0:
        changes[name] = "0" if value == 0 and name == SWAP else f"{value}GB"
        if name == MEMORY and value < 1:
            changes.pop(name)
            draft.block(
                "bad_answer",
                _("The answer “{key}” cannot be “{value}”.").format(key=key, value=value),
                _("WSL2 needs at least 1 GiB."),
            )
        need = advice.need_bytes / GIB
        if name == MEMORY and 1 <= value < need:
            draft.warn(
                "wsl_memory_too_small",
                _("{value} GiB are too little for WSL2: this server needs about {need:.0f} GiB of RAM.").format(value=value, need=need),
                _("Linux then ends the server while the model is loaded."),
            )
        if name == MEMORY and advice.host_ram_bytes is not None:
            _judge_rest(draft, key, value, proposed, advice.host_ram_bytes / GIB, (advice.windows_keeps_bytes or 0) / GIB)
        own = draft.machine.wsl
        free = own.host_free_disk_bytes.value if own is not None else None
        if name == SWAP and free is not None and value * GIB > free:
            draft.warn(
                "wsl_swap_over_disk",
                _("{value} GiB of swap do not fit: the Windows drive has only {free:.0f} GiB free.").format(
                    value=value, free=free / GIB
                ),
            )
        host = advice.host_ram_bytes
        if name == MEMORY and host is not None and value * GIB > host:
            changes.pop(name)
            draft.block(
                "bad_answer",
                _("The answer “{key}” cannot be “{value}”.").format(key=key, value=value),
                _("Windows has only {there:.1f} GiB: take less, so that some is left for it.").format(there=host / GIB),
            )


def _judge_rest(draft: Draft, key: str, value: int, proposed: int | None, ram: float, keeps: float) -> None:
    """What a size of the user's own leaves to Windows: its reason, and a warning where that is little."""
    left = ram - value
    if left < 0:
        return  # refused
    reason = _("chosen by you: Windows keeps {left:.1f} of {ram:.1f} GiB; vllm-wizard would take {proposed} GiB")
    draft.decisions[key] = replace(draft.decisions[key], reason=reason.format(left=left, ram=ram, proposed=proposed))
    if left < keeps:
        draft.warn(
            "wsl_memory_too_large",
            _("{value} GiB for WSL2 leave Windows only {left:.1f} of {ram:.1f} GiB.").format(value=value, left=left, ram=ram),
            _("It should keep {keeps:.1f} GiB: with less, all that runs on it slows down or is ended.").format(keeps=keeps),
        )


def _gib(value: str | None) -> int | None:
    """The GiB that a value of the file stands for, rounded up; None where it is not a size."""
    if value is None:
        return None
    if value == "0":
        return 0
    read = parse(f"[wsl2]\nswap={value}\n".encode("ascii", "replace")).get("wsl2.swap")
    return -(-int(read.value) // GIB) if read is not None else None


def _decide_processors(draft: Draft, advice: WslAdvice, changes: dict[str, str | None]) -> None:
    setting = advice.setting(PROCESSORS)
    proposed = int(setting.value) if setting is not None and setting.value and setting.value.isdigit() else 0
    reason = setting.reason if setting is not None else _("all of them: the line is left out")
    value = draft.decide("wsl_processors", proposed, reason, source="detected")
    if isinstance(value, int) and value != proposed:
        changes[PROCESSORS] = str(value) if value > 0 else None
