"""Session -> Plan: every decision with its reason. Total: odd input becomes a blocker, never an exception."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wizard import releases
from wizard.counts import LONGEST
from wizard.facts import MountKind, Severity
from wizard.fit import ways_out
from wizard.fit_layout import layout_of, over_gpus, smaller_tp, tp_problem
from wizard.fit_types import CPU_PROCESS_BYTES, FitResult, WayOut, surely_too_large
from wizard.i18n import _, clauses, labelled, listed, sentence, sentences
from wizard.models.info import LayerKind, ModelInfo
from wizard.models.move_place import own_name, place_in, typical_rate
from wizard.models.quant import quantization_conflict
from wizard.outputs.quoting import bash_line, slug
from wizard.plan import runtime as rt
from wizard.plan.access import choose_access
from wizard.plan.adapters import adapters_for, choose_adapters, known_adapters, last_part
from wizard.plan.after import next_steps
from wizard.plan.arguments import LORA_RANKS, Arguments, build, lora_rank, memory_settings, recipe_part
from wizard.plan.choose_model import (
    SLOW,
    Candidate,
    cache_objection,
    candidates,
    choices,
    default_intent,
    recipe_for,
    unsupported,
)
from wizard.plan.draft import Draft
from wizard.plan.intents import BY_KEY, Intent, media_limit, possible
from wizard.plan.media import counts_of, take_limits
from wizard.plan.sizing import OPTION_KEYS, QUESTION_KEYS, Bed, Sized, size, usable_gpus
from wizard.plan.wsl import plan_wsl
from wizard.plan_types import Choice, MovePlanHint, Notice, Plan, own_environment, reason_for_gpus
from wizard.program import words_on
from wizard.releases.batches import batch_conflict
from wizard.session import Session, Value, expand
from wizard.steps import CLUSTER_KEYS, HERE, OVER_NODES, QUESTIONS, unknown_gpus

if TYPE_CHECKING:
    from wizard.recipes import Recipe, Variant

GIB = 1 << 30


def plan(session: Session) -> Plan:
    """The plan for a session. The same session always gives the same plan.

    A replayed answers file also holds what the wizard had decided by itself. Where the plan still decides the
    same, that counts as decided, with its reason; where it would not (another machine, newer data), the file
    holds it to what was written then.
    """
    pins = session.answers.pins()
    if not pins:
        return _plan(session)
    free = _plan(replace(session, answers=session.answers.without_pins()))
    if all(same_answer(free.value(key), value) for key, value in pins.items()):
        return replace(free, session=session)
    return _plan(session)


def same_answer(decided: object, answered: Value) -> bool:
    """Whether an answers file says what was decided; a decision of nothing is written as an empty text or list."""
    return decided == answered or (
        not decided and not isinstance(decided, (bool, int, float)) and answered in ("", ())
    )


def _plan(session: Session) -> Plan:
    draft = Draft(session)
    machine = session.machine
    device = rt.device_of(machine)
    _machine_blockers(draft)
    runtime = rt.choose_runtime(draft, device)
    bed = _bed(draft, device)
    needs = _needs(draft, device, runtime, bed)
    info, recipe, _found = _choose_model(draft, bed, needs)
    if info is None:
        return _unserved(draft, device, runtime)
    lora = choose_adapters(draft, info)
    intent = _intent(draft, info, bool(lora))
    asked = draft.session.answers.get("enable_lora")
    if (intent.key == "lora" or (asked is not None and str(asked[0]).lower() in ("true", "yes", "on", "1"))) and not lora:
        draft.warn(
            "no_adapter",
            _("No LoRA adapter is named, so only the base model is served."),
            _("Name each as name=path under “LoRA adapters”, or with --set lora_adapters=name=path."),
        )
    minimum = recipe[0].min_release_for(recipe[1]) if recipe else None
    needs = replace(
        needs,
        architecture=info.architecture,
        min_release=minimum,
        conditions=rt.conditions(
            machine, info, len(bed.gpus), bool(lora), needs.capability, _words(draft, info, lora)
        ),
    )
    release, faults = rt.choose_release(draft, needs)
    image, reference = rt.image_of(draft, release, needs)
    if release is None:
        return _unserved(draft, device, runtime, info)
    if runtime == "local":
        _environment_folder(draft, release.version)
    bed = replace(bed, release=release.version, default_utilization=default_utilization(release.version))
    media = take_limits(draft, info)
    chosen, extra = _explicit(draft, release.version)
    if lora:
        chosen = {**chosen, "lora_adapters": tuple(f"{a}={p}" for a, p in lora)}
    made_by_recipe = recipe_part(draft, recipe, intent, release)
    given = memory_settings(made_by_recipe, faults, session, release)
    if media:
        given["limit_mm_per_prompt"] = json.dumps(counts_of(media))
    if lora:
        rank = lora_rank(draft, info, lora, release)[0]
        given["max_lora_rank"] = str(rank or LORA_RANKS[-1])
    sized = size(info, bed, intent, chosen, extra, given)
    _sizes(draft, info, bed, intent, sized, chosen, extra, given)
    helped = sized
    if not sized.result.fits and (chosen or extra):
        helped = size(info, bed, intent, {k: v for k, v in chosen.items() if k == "lora_adapters"}, {}, given)
    move, host_path = _move(draft, info, runtime, hopeless(helped.result) and not _is_spread(draft))
    choose_access(draft, runtime)
    arguments = build(
        draft,
        info,
        recipe,
        release,
        image,
        runtime,
        device,
        intent,
        sized,
        lora,
        faults,
        host_path,
        extra,
        bed,
        made_by_recipe,
        media,
    )
    _folder(draft)
    _where(draft)
    idle = [g for g in bed.gpus if g.index not in sized.gpus]
    if idle:
        draft.notes.append(
            _("Not used: GPU {names}. A second server can run there, on another port.").format(
                names=", ".join(str(g.index) for g in idle)
            )
        )
    result = _judge_fit(draft, info, recipe, sized, bed, needs)
    wsl, changes = plan_wsl(draft, info, len(sized.gpus), sized)
    if _run_on(draft) not in HERE:
        changes = {}
    _leftovers(draft, release.version)
    beside, lacks = reference, ""
    if runtime == "local":
        beside, lacks = rt.beside_local(machine, release, image, reference, needs)
    made = Plan(
        session=session,
        machine=machine,
        device=device,
        model=info,
        model_argument=arguments.model,
        host_model_path=host_path,
        runtime=runtime,
        release=release,
        image=image,
        image_reference=reference,
        argv=arguments.argv,
        env=arguments.env,
        decisions=tuple(draft.decisions.values()),
        warnings=tuple(draft.warnings),
        blockers=tuple(draft.blockers),
        fit=result,
        fit_request=sized.request,
        gpus=sized.gpus,
        gpus_reason=reason_for_gpus(draft.decisions, sized.gpus),
        move=move,
        wsl=wsl,
        wsl_changes=changes,
        choices=draft.choices,
        flag_rows=arguments.rows,
        container_argv=arguments.container_argv,
        container_env=arguments.container_env,
        mounts=arguments.mounts,
        notes=tuple(draft.notes),
        recipe_id=recipe[0].id if recipe else None,
        secrets_wanted=_secrets_wanted(draft, info),
        docker_lacks=lacks,
        compose_image=beside if beside != reference else None,
    )
    return replace(made, after=next_steps(made))


def default_utilization(version: str) -> float:
    """vLLM's own default: 0.9 up to 0.19, 0.92 from 0.20 on (the catalogue has it; this is for unknown forks)."""
    for option in releases.load(version).options:
        if option.dest == "gpu_memory_utilization" and isinstance(option.default, (int, float)):
            return float(option.default)
    return 0.9


# -- the machine ----------------------------------------------------------------------------------------------


def _machine_blockers(draft: Draft) -> None:
    machine = draft.machine
    for problem in machine.problems:
        if problem.severity is Severity.BLOCKER and problem not in draft.blockers:
            draft.blockers.append(problem)
    stack = machine.gpu
    hidden = [g for g in stack.gpus if not g.vram_total_bytes.value]
    if stack.gpus and len(hidden) == len(stack.gpus) and not draft.blockers:
        draft.block(
            "gpu_memory_unknown",
            _("The size of the GPU's memory could not be read."),
            hidden[0].vram_total_bytes.reason,
        )


def _bed(draft: Draft, device: str) -> Bed:
    machine = draft.machine
    gpus = usable_gpus(machine, device)
    proposed = tuple(str(g.index) for g in gpus)
    if len(machine.gpu.gpus) > 1:
        different = len(gpus) < len(machine.gpu.gpus)
        reason = (
            _("the largest group of equal GPUs; a mixed group runs at the pace of the smallest")
            if different
            else _("all of them")
        )
        draft.choices["gpus"] = tuple(
            Choice(
                str(g.index),
                f"{g.index}: {g.name}",
                _vram(g.vram_total_bytes.value),
                recommended=str(g.index) in proposed,
            )
            for g in machine.gpu.gpus
        )
        if (draft.answered("gpus") or ((), ""))[0]:
            picked = draft.decide("gpus", proposed, reason, source="detected", accept=lambda value: unknown_gpus(machine, value))
            gpus = tuple(g for g in machine.gpu.gpus if isinstance(picked, tuple) and str(g.index) in picked)
        else:  # none named: as if nothing had been answered
            draft.settle("gpus", proposed, reason)
    else:
        given = draft.answered("gpus")
        wrong = unknown_gpus(machine, given[0]) if given is not None else None
        if given is not None and wrong is not None:
            draft.refuse("gpus", given[0], wrong)
    memory = machine.memory
    total = memory.total_bytes.or_else(0)
    limit = memory.cgroup_limit_bytes.value
    return Bed(
        device=device,
        release=releases.newest(),
        gpus=gpus,
        wsl=machine.is_wsl2,
        ram_total_bytes=min(total, limit) if limit else total,
        # What is free, less what vLLM's processes take for themselves before any weight is loaded.
        ram_free_bytes=max(0, memory.available_bytes.or_else(total) - CPU_PROCESS_BYTES),
        default_utilization=default_utilization(releases.newest()),
        nvlink=machine.gpu.nvlink.value if len(gpus) > 1 else None,
        cpu_flags=machine.cpu.known_flags,
        measured=draft.session.calibrations,
    )


def _vram(size: int | None) -> str:
    return _("memory not known") if size is None else f"{size / GIB:.1f} GiB"


def _needs(draft: Draft, device: str, runtime: str, bed: Bed) -> rt.Needs:
    machine = draft.machine
    capabilities = [g.compute_capability.value for g in bed.gpus if g.compute_capability.value]
    return rt.Needs(
        device=device,
        runtime=runtime,
        driver=machine.gpu.driver_version.value if device == "nvidia" else None,
        capability=min(capabilities, key=rt._key) if capabilities else None,
        consumer=_consumer(bed),
        avx512="avx512f" in machine.cpu.flags or machine.cpu.architecture not in ("x86_64", "AMD64"),
        architecture=None,
        min_release=None,
        conditions=rt.conditions(machine, None, len(bed.gpus), False),
    )


def _consumer(bed: Bed) -> bool | None:
    """Whether the GPUs are GeForce cards, for which images admit fewer drivers; None where there are none."""
    if not bed.gpus:
        return None
    return any(g.is_consumer for g in bed.gpus)


# -- the model ------------------------------------------------------------------------------------------------

_ranked: dict[tuple[int, ...], tuple[tuple[Any, ...], tuple[Candidate, ...]]] = {}


def ranked(session: Session, bed: Bed, needs: rt.Needs) -> tuple[Candidate, ...]:
    """The candidates, remembered: they do not change with an answer, and judging them all takes a while."""
    # Of the models only those count that lie here: one that is typed in changes no other's place.
    lying = (session.models.get(found.path) for found in session.found)
    held = (session.machine, session.recipes, session.found, session.calibrations, *lying)
    key = (
        *(id(x) for x in held),
        hash((bed.device, bed.release, tuple(g.index for g in bed.gpus))),
        hash(needs),
    )
    hit = _ranked.get(key)
    # The objects are kept with the result, so that an id is never that of another object.
    if hit is None or any(a is not b for a, b in zip(hit[0], held, strict=True)):
        if len(_ranked) > 64:
            _ranked.clear()
        hit = (held, candidates(session, bed, needs))
        _ranked[key] = hit
    return hit[1]


def _choose_model(
    draft: Draft, bed: Bed, needs: rt.Needs
) -> tuple[ModelInfo | None, tuple[Recipe, Variant] | None, tuple[Candidate, ...]]:
    session = draft.session
    hopeless = any(b.severity is Severity.BLOCKER for b in draft.machine.problems)
    found = () if hopeless and draft.answered("model") is None else ranked(session, bed, needs)
    draft.choices["model"] = choices(found)
    best = next((c for c in found if c.fits), None) or next((c for c in found if c.offload_gib), None)
    given = draft.answered("model")
    if given is None:
        if best is None:
            if not draft.blockers:
                draft.block(
                    "no_model",
                    _("No model was found that fits this machine."),
                    _("Name one with --model, or make room: see what holds the memory."),
                )
            return None, None, found
        draft.settle("model", best.source, _why_best(best), "detected" if best.on_disk else "recipe")
        return best.info, best.recipe, found
    source = str(given[0])
    info = session.models.get(source)
    if info is None:
        hit = session.recipes.find(source)
        info = hit[1].model_info() if hit else None
    if info is None:
        draft.block(
            "model_unknown",
            _("The model {source} has not been looked at.").format(source=source),
            _("Give an existing folder or .gguf file, or a repository id such as Qwen/Qwen3-8B."),
        )
        return None, None, found
    proposed, why = (best.source, _why_best(best)) if best else (None, "")
    draft.decide_value("model", source, proposed, why, given[1])
    for issue in info.issues:
        if issue.fatal or (issue.code == "no_weights" and info.is_local):
            draft.block(
                "model_" + issue.code,
                _("The model's files have a fault.")
                if info.is_local
                else _("Nothing is known of this model."),
                labelled(issue.file, issue.message) if issue.file else issue.message,
            )
        elif issue.code == "not_looked_up":
            draft.warn("model_not_looked_up", _("Nothing is known of {model}.").format(model=source), issue.message)
        else:
            draft.warn("model_" + issue.code, issue.message, issue.file)
    if not info.servable and not any(b.code.startswith("model_") for b in draft.blockers):
        draft.block("model_not_servable", _("vLLM cannot serve this model's format."), clauses(info.notes))
    against = unsupported(info, needs)
    if against:
        draft.block(
            "model_unsupported",
            _("This model cannot run on this machine."),
            sentence(against),
        )
    return info, recipe_for(session, info), found


def _why_best(best: Candidate) -> str:
    if best.offload_gib:
        return _("nothing fits the GPU as it is; this one does with a part of its weights in RAM")
    if best.on_disk:
        return _("the best that lies on this machine and fits")
    return _("the best of the recipes that fits; none that fits lies on this machine")


def _unserved(draft: Draft, device: str, runtime: str, info: ModelInfo | None = None) -> Plan:
    return Plan(
        session=draft.session,
        machine=draft.machine,
        device=device,
        model=info,
        model_argument=None,
        host_model_path=None,
        runtime=runtime,
        release=None,
        image=None,
        image_reference=None,
        argv=(),
        env={},
        decisions=tuple(draft.decisions.values()),
        warnings=tuple(draft.warnings),
        blockers=tuple(draft.blockers),
        choices=draft.choices,
        notes=tuple(draft.notes),
    )


def _words(draft: Draft, info: ModelInfo, lora: tuple[tuple[str, str], ...]) -> list[str]:
    """Conditions of known faults that follow from the answers and the adapters."""
    out = []
    for key in ("kv_cache_dtype", "dtype"):
        given = draft.session.answers.get(key)
        if given is not None:
            out.append(f"{key}:{given[0]}")
    known = known_adapters(draft.session, info)
    if any(known[path].touches_experts for _name, path in lora if path in known):
        out.append("lora_experts")
    expert = draft.session.answers.get("enable_expert_parallel")
    if expert is not None and str(expert[0]).lower() not in ("false", "no", "0", "off"):
        out.append("expert_parallel")
    return out


def _intent(draft: Draft, info: ModelInfo, lora: bool) -> Intent:
    allowed = possible(info.task, info.modalities)
    proposed = (
        BY_KEY["lora"]
        if lora and BY_KEY["lora"] in allowed
        else default_intent(replace(info, lora_adapters=()))
    )
    draft.choices["intent"] = tuple(
        Choice(i.key, _(i.label), _(i.note), recommended=i is proposed) for i in allowed
    )
    names = [i.key for i in allowed]

    def accept(value: Value) -> str | None:
        if value in names:
            return None
        return _("This model can be set up for: {names}.").format(names=", ".join(names))

    found = bool(adapters_for(draft.session, info))
    reason = {
        "lora": _("adapters for this model were found") if found else _("LoRA adapters are named"),
        "image_only": _("the model sees; without video no room is made for one at the start"),
        "embedding": _("the model makes vectors"),
    }.get(proposed.key, _("the most common use"))
    picked = draft.decide("intent", proposed.key, reason, source="detected", accept=accept)
    return BY_KEY.get(str(picked), proposed)


# -- where it lies -----------------------------------------------------------------------------------------------


def hopeless(result: FitResult) -> bool:
    """Whether it is known that a model does not fit, whatever flags it is given."""
    return not result.fits and result.weights_known and (result.certain or result.weights_bytes > result.budget_bytes)


def _move(draft: Draft, info: ModelInfo, runtime: str, useless: bool) -> tuple[MovePlanHint | None, str | None]:
    """Whether the model should be moved, and where it lies then."""
    if not info.is_local:
        cache = draft.session.environment.get("HF_HOME") or f"{draft.machine.home}/.cache/huggingface"
        if draft.machine.lost_with_container(cache) and runtime == "local":
            draft.warn(
                "download_in_container",
                _("The model is downloaded into this container itself and is lost when the container is removed."),
                _("Start the container with a volume at {folder} to keep it.").format(folder=cache),
            )
        return None, None
    path = expand(info.source, draft.machine.home)
    mount = draft.machine.mount_of(path)
    if mount is None or mount.kind.value not in SLOW:
        return None, path
    root, inside = entry_of(path)
    if own_name(root) != last_part(root):
        inside = "/" + last_part(root)  # the parts of a split GGUF lie in a folder of their own then
    size_bytes = info.weight_bytes
    default = _move_target(draft, root)
    home = draft.machine.mount_of(default)
    free = home.free_bytes.value if home is not None else None
    windows = draft.machine.wsl.host_free_disk_bytes.value if draft.machine.wsl is not None else None
    if windows is not None and draft.machine.is_wsl2:
        # WSL's disk is a file on a Windows drive: it grows no further than that drive has room.
        free = windows if free is None else min(free, windows)
    room = free is None or size_bytes is None or free > size_bytes * 1.02 + 5 * GIB
    kind = _("a Windows drive") if mount.kind is MountKind.WINDOWS_DRIVE else _("a network drive")
    why = _("it lies on {kind} ({path}), where loading takes many times as long").format(
        kind=kind, path=mount.path
    )
    if not room:
        why = _("it lies on {kind}, but the Linux disk has only {free:.0f} GiB free").format(
            kind=kind, free=(free or 0) / GIB
        )
    elif draft.machine.lost_with_container(_asked_folder(draft) or default):
        why = _("{why}; the copy is lost when this container is removed").format(why=why)
    if useless:
        why = _("the model does not fit, so a copy of it would be of no use")
    wanted = bool(draft.decide("move", room and not useless, why, source="detected"))
    destination = default
    if wanted:
        where = _("in the Linux file system")
        if draft.machine.lost_with_container(default):
            where = _("in this container itself: the copy is lost when the container is removed")
        picked = draft.decide("move_to", default, where, source="detected")
        destination = place_in(root, expand(str(picked), draft.machine.home), draft.machine.home)
        if draft.machine.lost_with_container(destination):
            draft.warn(
                "copy_in_container",
                _("The copy of the model lies in this container itself and is lost when the container is removed."),
                _("Name a folder of a volume under “Copy to” to keep it, or do not copy: the start then takes longer each time."),
            )
    seconds = size_bytes / typical_rate(mount.kind.value)[0] if size_bytes else None
    hint = MovePlanHint(root, destination, size_bytes, mount.kind.value, seconds, why, wanted)
    if not wanted and not useless:
        draft.warn(
            "model_on_slow_mount",
            _("The model stays on {kind}; the start will take long.").format(kind=kind),
            _("vllm-wizard move copies and verifies it."),
            (bash_line([*words_on(draft.machine.name), "move", root]),),
        )
    return hint, (destination + inside if wanted else path)


def _asked_folder(draft: Draft) -> str | None:
    given = draft.session.answers.get("move_to")
    return expand(str(given[0]), draft.machine.home) if given is not None else None


def entry_of(path: str) -> tuple[str, str]:
    """A Hugging Face cache entry is moved as a whole: (its folder, the rest of the path inside it)."""
    parts = path.split("/")
    for index, part in enumerate(parts):
        if part.startswith("models--"):
            return "/".join(parts[: index + 1]), "".join("/" + p for p in parts[index + 1 :])
    return path.rstrip("/") or "/", ""


def _move_target(draft: Draft, root: str) -> str:
    name = own_name(root)
    if name.startswith("models--"):
        usual = draft.machine.home + "/.cache/huggingface"
        cache = (
            draft.session.environment.get("HF_HUB_CACHE")
            or f"{draft.session.environment.get('HF_HOME') or usual}/hub"
        )
        mount = draft.machine.mount_of(cache)
        if mount is not None and mount.kind.value in SLOW:
            cache = f"{usual}/hub"
        return f"{cache}/{name}"
    return f"{draft.machine.home}/models/{name}"


def _environment_folder(draft: Draft, version: str) -> None:
    """The virtual environment: one that holds this release already, else one of its own."""
    home = draft.machine.home
    for install in draft.machine.vllm:
        if install.version.split("+")[0] == version and install.python.endswith(
            ("/bin/python", "/bin/python3")
        ):
            draft.decide(
                "venv",
                install.python.rsplit("/bin/", 1)[0],
                _("it holds this release already"),
                source="detected",
            )
            return
    draft.decide("venv", own_environment(home, version), _("an environment for this release alone"))


# -- sizes --------------------------------------------------------------------------------------------------------

SIZE_KEYS = (
    "gpu_memory_utilization",
    "tensor_parallel_size",
    "kv_cache_dtype",
    "max_model_len",
    "max_num_seqs",
    "limit_images",
    "limit_videos",
)


def _explicit(draft: Draft, version: str) -> tuple[dict[str, Value], dict[str, Value]]:
    """The answers that sizes depend on, and the answers that are plain vLLM options."""
    chosen: dict[str, Value] = {}
    for key in SIZE_KEYS:
        given = draft.answered(key)
        if given is not None and _sane(draft, key, given[0]):
            chosen[key] = given[0]
    from wizard.plan.arguments import OWN_DESTS

    extra: dict[str, Value] = {}
    dests = {o.dest for o in releases.load(version).options}
    for key in sorted(draft.session.answers.keys()):
        if key in dests and key not in draft.used and key not in OWN_DESTS:
            given_raw = draft.session.answers.get(key)
            if given_raw is not None:
                draft.used.add(key)
                extra[key] = given_raw[0]
    return chosen, extra


_RANGES = {
    "gpu_memory_utilization": (0.01, 1.0),
    "tensor_parallel_size": (1, 1024),
    "max_model_len": (1, 1 << 40),
    "max_num_seqs": (1, 1 << 20),
    "limit_images": (0, 999),
    "limit_videos": (0, 999),
}


def _sane(draft: Draft, key: str, value: Value) -> bool:
    low_high = _RANGES.get(key)
    if low_high is None or isinstance(value, (str, tuple)) or low_high[0] <= value <= low_high[1]:
        return True
    draft.block(
        "bad_answer",
        _("The answer “{key}” cannot be “{value}”.").format(key=key, value=value),
        _("It must lie between {low} and {high}.").format(low=low_high[0], high=low_high[1]),
    )
    return False


def _sizes(
    draft: Draft,
    info: ModelInfo,
    bed: Bed,
    intent: Intent,
    sized: Sized,
    chosen: Mapping[str, Value],
    extra: Mapping[str, Value],
    given: Mapping[str, str],
) -> None:
    """Record the sizes, each beside what would be proposed without the user's answer to it."""
    adapters = {k: v for k, v in chosen.items() if k == "lora_adapters"}
    own_options = [k for k in OPTION_KEYS if k in extra]
    answered = bool(set(chosen) - set(adapters)) or bool(own_options)
    others = {k: v for k, v in extra.items() if k not in OPTION_KEYS}
    plain = size(info, bed, intent, adapters, others, given) if answered else sized
    for key in QUESTION_KEYS:
        proposed, reason = (plain if key in chosen else sized).values[key]
        if chosen.get(key) == LONGEST and key == "max_model_len":
            length, reason = sized.values[key]
            draft.settle(key, length, labelled(_("chosen by you ({answer})").format(answer=LONGEST), reason), "detected")
        elif key in chosen:
            layer = draft.session.answers.get(key)
            draft.decide_value(key, chosen[key], proposed, reason, layer[1].value if layer else "default")
        else:
            draft.settle(key, proposed, reason, "detected")
    for key in OPTION_KEYS:
        if key in sized.values and key not in extra:
            draft.settle(key, *sized.values[key], "detected")
    _check_layout(draft, info, bed, sized)
    _check_quantization(draft, info, extra)
    length = int(sized.request.max_model_len or 0)
    if info.max_model_len and length > info.max_model_len and "max_model_len" in chosen:
        draft.block(
            "max_model_len_exceeds_model",
            _("The model's own maximum is {longest} tokens; {asked} were asked for.").format(
                longest=info.max_model_len, asked=length
            ),
            _("Take at most {longest}.").format(longest=info.max_model_len),
        )
    unlike = batch_conflict(sized.request.max_num_batched_tokens, sized.request.max_num_seqs)
    if unlike is not None:
        draft.block(
            "batch_conflict",
            _("vLLM does not start with so few tokens in a step (max_num_batched_tokens) and so many requests at once (max_num_seqs)."),
            sentences(sentence(unlike), _("Change one of them, or leave one out: it then follows the other.")),
        )
    kv_types = releases.load(bed.release).kv_cache_dtypes or ("auto",)
    capability = sized.request.compute_capability
    latent = any(layer.kind is LayerKind.MLA for layer in info.kv_layers)
    against = {t: cache_objection(t, bed.release, bed.device, capability, latent=latent) for t in kv_types}
    cache = sized.request.kv_cache_dtype
    if against.get(cache):
        draft.warn(
            "kv_cache_unsupported",
            _("vLLM may not start with kv_cache_dtype={name} on this GPU.").format(name=cache),
            sentences(sentence(against[cache]), _("Leave it at auto: the model's own type.")),
        )
    draft.choices["kv_cache_dtype"] = tuple(
        Choice(
            t,
            t,
            "",
            against[t] or (_("this GPU has no {name} KV cache").format(name=t) if t.startswith("fp8") and capability and not _ada(capability) else ""),
            t == "auto",
        )
        for t in kv_types
    )
    for kind, dest, asked in (
        ("image", "limit_images", intent.images),
        ("video", "limit_videos", intent.videos),
    ):
        if kind in info.modalities and info.task == "generate":
            spare = _("few: vLLM keeps memory free for as many as one request may bring")
            draft.decide(dest, media_limit(intent, kind), spare if asked is None else _("for this purpose"))


def _check_quantization(draft: Draft, info: ModelInfo, extra: Mapping[str, Value]) -> None:
    """A way to read weights that these weights are not stored in; what quantizes while it loads is another thing."""
    method = str(extra.get("quantization") or "").strip()
    wrong = quantization_conflict(info, method) if "hf_overrides" not in extra else None
    if wrong:
        draft.block(
            "not_quantized_so",
            _("vLLM does not start with quantization={method} and this model.").format(method=method),
            sentences(sentence(wrong), _("Leave quantization out, or name a variant of the model that is quantized so.")),
        )


def _check_layout(draft: Draft, info: ModelInfo, bed: Bed, sized: Sized) -> None:
    """Sizes that the user set and that cannot be: more GPUs than there are, heads that do not divide."""
    if not bed.gpus:
        return
    layout = layout_of(sized.request)
    too_many = over_gpus(layout, len(bed.gpus))
    if too_many is not None:
        draft.block("tp_over_gpus" if layout.gpus == layout.tp else "layout_over_gpus", too_many)
        return
    if not info.num_heads:
        return
    wrong = tp_problem(info, layout.tp, expert_parallel=layout.ep)
    if wrong is None:
        return
    draft.block(
        "tp_not_dividing",
        sentence(wrong),
        _("Take a tensor parallel size that divides them, such as {one}.").format(one=smaller_tp(info, layout)),
    )


def _ada(capability: str) -> bool:
    return rt._key(capability) >= (8, 9)


def _is_spread(draft: Draft) -> bool:
    """Whether the answer is that other machines hold the model too: whether it fits is then judged over them all."""
    return _run_on(draft) in ("nodes-native", "nodes-ray", "kubernetes")


def _run_on(draft: Draft) -> str:
    given = draft.session.answers.get("run_on")
    return str(given[0]) if given is not None and given[0] else "this"


def _lying_here(draft: Draft, info: ModelInfo, needs: rt.Needs) -> list[ModelInfo]:
    """Smaller models of the same architecture that lie on this machine, whole and servable here."""
    out = []
    for found in draft.session.found:
        other = draft.session.models.get(found.path)
        if other is None or not found.complete or found.path == info.source or not other.servable:
            continue
        smaller = (other.weight_bytes or 0) < (info.weight_bytes or 0)
        same = other.architecture == info.architecture and other.task == info.task
        whole = other.weight_bytes and not any(i.fatal for i in other.issues)
        if same and smaller and whole and not unsupported(other, replace(needs, architecture=other.architecture)):
            out.append(other)
    return out


def _judge_fit(
    draft: Draft,
    info: ModelInfo,
    recipe: tuple[Recipe, Variant] | None,
    sized: Sized,
    bed: Bed,
    needs: rt.Needs,
) -> FitResult:
    """Say whether it fits; when it does not, with the nearest ways out, each computed."""
    result = sized.result
    if any(issue.fatal for issue in info.issues):
        return result  # the fault of its files is said already; what such files would need is no news
    if result.calibrated:
        draft.notes.append(
            _("The memory figures of this model were measured on this machine (vllm-wizard fit --calibrate).")
        )
    if sized.request.cpu_offload_bytes and "cpu_offload_gb" in sized.values:
        draft.warn(
            "cpu_offload",
            _("A part of the weights stays in RAM; answers come much slower."),
            sentence(sized.values["cpu_offload_gb"][1]),
        )
    if not result.certain and result.weights_known:
        draft.warn(
            "fit_uncertain",
            _("How much memory this model needs is not certain."),
            sentence(clauses(result.notes)),
        )
    if result.fits:
        return result
    variants = _lying_here(draft, info, needs)
    variants += [v.model_info() for v in recipe[0].variants if v.model_id != info.repo_id] if recipe else []
    found = ways_out(
        info,
        sized.request,
        variants=variants,
        gpus=max(1, len(bed.gpus)),
        calibration=bed.measured,
        ram_free_bytes=bed.ram_free_bytes,
    )
    result = replace(result, ways_out=tuple(_without_pictures(draft, way) if way.kind == "text_only" else way for way in found))
    detail = sentence(clauses(result.problems) or _("it is larger than the memory that is free"))
    if result.ways_out:
        detail = sentences(detail, _("Ways out: {ways}.").format(ways=clauses(w.text for w in result.ways_out)))
    if not result.weights_known:
        told = sentences(*map(sentence, result.problems), _("vLLM says at the start what fits."))
        draft.warn("fit_unknown", _("The model's size is not known here, so nothing says that it fits."), told)
    elif _is_spread(draft):
        draft.warn("does_not_fit_one", _("The model does not surely fit this machine alone: it is spread."), detail)
    else:
        draft.block("does_not_fit", _("The model does not fit.") if surely_too_large(result) else _("It is not sure that the model fits."), detail)
    return result


def _without_pictures(draft: Draft, way: WayOut) -> WayOut:
    """Text alone is another purpose, where the one that is planned for is about pictures."""
    decided = draft.decisions.get("intent")
    intent = BY_KEY.get(str(decided.value)) if decided is not None else None
    if intent is None or intent.needs != "image":
        return way
    return replace(way, changes={"intent": "chat", **way.changes})


# -- where it goes --------------------------------------------------------------------------------------------------


def _folder(draft: Draft) -> None:
    """Where the files go: a folder named after the model."""
    name = draft.decisions["served_model_name"].value if "served_model_name" in draft.decisions else "server"
    draft.decide(
        "out_dir", f"{draft.machine.home}/vllm/{slug(str(name))}", _("a folder of its own for each model")
    )


def _where(draft: Draft) -> None:
    """Where it runs, if the user said so: what follows from it is decided beside this plan, over all machines."""
    unread = nodes_unread(draft.session, _run_on(draft))
    if unread is not None:
        draft.warnings.append(unread)
    for key in CLUSTER_KEYS:
        question = QUESTIONS[key]
        proposed = question.default
        names = [value for value, _label, _note in question.offered]

        def accept(value: Value, names: list[str] = names) -> str | None:
            return None if not names or value in names else _("It is one of {names}.").format(names=", ".join(names))

        given = draft.answered(key)
        if given is not None and given[0] != proposed:
            draft.decide(key, proposed, _("unless something else is asked for"), accept=accept)


def nodes_unread(session: Session, way: str) -> Notice | None:
    """That the file with the nodes is not looked at, where one is given and ``way`` needs none."""
    given = session.answers.get("nodes_file")
    if given is None or not given[0] or way in OVER_NODES:
        return None
    why = _("The file is only looked at with {ways}.").format(ways=listed(f"run_on={w}" for w in OVER_NODES))
    return Notice("nodes_unread", Severity.WARNING, _("The answer “{key}” is not used.").format(key="nodes_file"), why)


def _secrets_wanted(draft: Draft, info: ModelInfo) -> tuple[str, ...]:
    wanted = []
    if not info.is_local and info.gated:
        wanted.append("hf_token")
        if draft.session.secrets.get("hf_token") is None:
            draft.warn(
                "gated_model",
                _("{model} is gated: it is only downloaded with a Hugging Face token.").format(
                    model=info.repo_id or info.source
                ),
                _(
                    "Accept its licence on its page, make a token there, and put it into vllm.env (HF_TOKEN=...)."
                ),
            )
    return tuple(wanted)


def _leftovers(draft: Draft, version: str) -> None:
    """Answers that nothing looked at: misspelt, or options of another release."""
    from wizard.session import SECRET_KEYS

    known = {
        "model", "move", "move_to", "runtime", "release", "image", "venv", "intent", "tools", "reasoning", "served_model_name", "trust_remote_code",
        "host_memory_gib", "host_cpus", "wsl_write", "wsl_memory_gib", "wsl_swap_gib", "wsl_processors", "wsl_keep_alive", "gpus", "lora_adapters",
        *SIZE_KEYS, *CLUSTER_KEYS,
    }  # fmt: skip
    for key in sorted(draft.session.answers.keys() - draft.used - known - SECRET_KEYS):
        draft.warn(
            "answer_unused",
            _("The answer “{key}” is not used.").format(key=key),
            _("vLLM {version} has no such option.").format(version=version),
        )


__all__ = ["Arguments", "Notice", "plan"]
