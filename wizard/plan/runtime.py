"""How vLLM is run, and which release: the newest that nothing speaks against."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from wizard import releases
from wizard.errors import BadInput
from wizard.facts import Machine, SystemKind, Vendor
from wizard.i18n import N_, _, clause, clauses, language, listed, sentence, sentences
from wizard.models.info import ModelInfo
from wizard.plan.draft import Draft
from wizard.plan_types import Choice
from wizard.releases.images import image_variants
from wizard.releases.types import ImageInfo, KnownFault, Release
from wizard.steps import IMAGE_NAME, MODEL

OFFERED = 12  # how many releases the choice lists, besides the one in force


@dataclass(frozen=True)
class Objection:
    """What speaks against a release."""

    hard: bool  # it cannot work
    text: str
    code: str


@dataclass(frozen=True)
class Needs:
    """What decides between releases; hashable, so that answers are remembered."""

    device: str
    runtime: str
    driver: str | None
    capability: str | None  # the lowest of the GPUs that are used
    consumer: bool | None  # GeForce cards
    avx512: bool  # of the processor; true where the question does not arise
    architecture: str | None
    min_release: str | None
    conditions: frozenset[str]


def device_of(machine: Machine) -> str:
    """What the model runs on: "nvidia", "amd", "intel" (a card with memory of its own) or "cpu"."""
    vendors = {g.vendor for g in machine.gpu.gpus}
    if Vendor.NVIDIA in vendors:
        return "nvidia"
    if Vendor.AMD in vendors:
        return "amd"
    if any(g.vendor is Vendor.INTEL and g.vram_total_bytes.value for g in machine.gpu.gpus):
        return "intel"
    return "cpu"


def conditions(
    machine: Machine,
    info: ModelInfo | None,
    gpu_count: int,
    lora: bool,
    capability: str | None = None,
    words: Iterable[str] = (),
) -> frozenset[str]:
    """The conditions that known faults are stated with; ``words`` are those that follow from answers."""
    out: set[str] = set(words)
    if machine.is_wsl2:
        out.add("wsl")
    if gpu_count > 1:
        out.add("multi_gpu")
    if lora:
        out.add("lora")
    if info is not None:
        out.add("moe" if info.is_moe else "dense")
        if info.quantization:
            out.add("quantization:" + info.quantization)
        else:
            out.add("unquantized")
        if "image" in info.modalities:
            out.add("multimodal")
        if info.architecture:
            out.add("architecture:" + info.architecture)
    if capability:
        out.add("compute_capability:" + capability)
        out |= {f"compute_capability<{limit}" for limit in ("8.0", "8.9") if _key(capability) < _key(limit)}
    out.add("device:" + device_of(machine))
    return frozenset(out)


def choose_runtime(draft: Draft, device: str) -> str:
    """Docker where an engine with the GPU answers, else a local environment."""
    docker_no, local_no = docker_objection(draft.machine, device), local_objection(draft.machine, device)
    existing = draft.machine.vllm
    if docker_no is None:
        proposed = "docker"
        reason = _("the official image holds everything that vLLM needs, and Docker answers here")
    elif local_no is None:
        proposed = "local"
        reason = _("{why}, so vLLM runs from a local environment").format(why=clause(docker_no))
    else:
        proposed = "docker"
        reason = _("nothing here can run vLLM yet")
    draft.choices["runtime"] = (
        Choice(
            "docker",
            _("Docker image"),
            _("everything in it; nothing is installed on this machine"),
            docker_no or "",
            proposed == "docker",
            docker_no is not None and _final(draft.machine),
        ),
        Choice(
            "local",
            _("Local environment"),
            _("vLLM {version} is installed already").format(version=existing[0].version)
            if existing
            else _("made with uv or pip at the first start"),
            local_no or "",
            proposed == "local",
            draft.machine.system in (SystemKind.WINDOWS, SystemKind.MACOS),
        ),
    )

    def accept(value: object) -> str | None:
        return None if value in ("docker", "local") else _("It is one of docker, local.")

    runtime = str(draft.decide("runtime", proposed, reason, source="detected", accept=accept))
    objection = docker_no if runtime == "docker" else local_no
    if objection is not None and docker_no is not None and local_no is not None:
        draft.block(
            "no_runtime",
            _("Nothing here can run vLLM yet."),
            sentences(sentence(docker_no), sentence(local_no)),
        )
    elif objection is not None:
        other = _("Local environment") if runtime == "docker" else _("Docker image")
        draft.block(
            "runtime_not_ready",
            _("{runtime} cannot run vLLM on this machine.").format(
                runtime=_("Docker") if runtime == "docker" else _("A local environment")
            ),
            sentences(
                sentence(objection),
                _("“{other}” can, on the step “vLLM version”; or see the step “This machine” for the cure.").format(other=other),
            ),
        )
    return runtime


def _final(machine: Machine) -> bool:
    """Whether no cure can bring Docker here (inside a container)."""
    return machine.system in (SystemKind.CONTAINER, SystemKind.WSL_CONTAINER)


# What the probe found wrong with Docker, as the first step says it.
_DOCKER_FAULTS: dict[str, str] = {
    "integration_off": N_("Docker Desktop's WSL integration is off for this distro"),
    "desktop_not_running": N_("Docker Desktop is not running"),
    "not_running": N_("Docker's engine is not running"),
    "permission_denied": N_("you may not use Docker (you are not in the group docker)"),
    "windows_containers": N_("Docker runs Windows containers"),
}


def docker_objection(machine: Machine, device: str) -> str | None:
    """Why Docker cannot run vLLM here now, or None."""
    docker = machine.docker
    if machine.system in (SystemKind.CONTAINER, SystemKind.WSL_CONTAINER) and not docker.engine.known:
        return _("this is a container, and no Docker engine answers in it")
    told = _DOCKER_FAULTS.get(docker.fault)
    if told is not None and (not docker.engine.known or docker.fault == "windows_containers"):
        return _(told)
    if not docker.cli.known and not docker.engine.known:
        return _("Docker is not installed here")
    if not docker.engine.known:
        return _("Docker does not answer ({reason})").format(
            reason=clause(docker.engine.reason) or _("no reason given")
        )
    if device == "nvidia" and docker.nvidia_runtime.value is False:
        return _("Docker has no NVIDIA runtime (NVIDIA Container Toolkit)")
    return None


def beside_local(
    machine: Machine, release: Release, image: ImageInfo | None, reference: str | None, needs: Needs
) -> tuple[str | None, str]:
    """(image of the Compose file beside a local environment, what keeps Docker here from running it, or "").

    A local environment runs on older drivers than an image starts with, so the image may be another one.
    """
    against = docker_objection(machine, needs.device)
    if image is None or reference != image.reference:
        return reference, against or ""
    other, objection = image_and_objection(release, replace(needs, runtime="docker"))
    if objection is None and other is not None:
        return other.reference, against or ""
    # No image of the release starts here: the one with the oldest CUDA stays, and says which driver it wants.
    need = releases.driver_needed(image)
    fine, why = need.accepts(needs.driver, needs.consumer) if need is not None and needs.driver else (True, "")
    if fine and objection is not None:
        why = objection.text
    return reference, clauses(text for text in (against, why) if text)


def local_objection(machine: Machine, device: str) -> str | None:
    """Why a local environment cannot be made here, or None."""
    if machine.system in (SystemKind.WINDOWS, SystemKind.MACOS):
        return _("vLLM has no build for this system")
    if device == "intel":
        return _("vLLM publishes no ready build for Intel GPUs but its Docker image")
    if machine.vllm or machine.python.uv.known:
        return None
    if not machine.python.version.known:
        return _("there is neither uv nor Python here")
    if machine.python.venv_module.value is False:
        return _("Python's venv module is not installed (sudo apt install python3-venv)")
    return None


def objections(version: str, needs: Needs) -> tuple[Objection, ...]:
    """What speaks against ``version`` for these needs."""
    return _objections(version, needs, language())


@lru_cache(maxsize=4096)
def _objections(version: str, needs: Needs, _texts_in: str) -> tuple[Objection, ...]:
    release = releases.load(version)
    out: list[Objection] = []
    if needs.architecture and release.architectures and needs.architecture not in release.architectures:
        first = releases.first_with_architecture(needs.architecture)
        if first is not None and _key(first) > _key(version):
            out.append(
                Objection(
                    True,
                    _("{architecture} is served from vLLM {first} on").format(
                        architecture=needs.architecture, first=first
                    ),
                    "architecture_not_yet",
                )
            )
        elif first is not None:
            out.append(
                Objection(
                    True,
                    _("this release does not serve {architecture} any more").format(
                        architecture=needs.architecture
                    ),
                    "architecture_gone",
                )
            )
    elif needs.min_release and _key(version) < _key(needs.min_release):
        out.append(
            Objection(
                False,
                _("its recipe asks for vLLM {first} or newer").format(first=needs.min_release),
                "recipe_minimum",
            )
        )
    out += _objections_here(version, _here(needs), language())
    for fault in releases.known_faults(version, set(needs.conditions)):
        out.append(Objection(False, fault.title, "avoid:" + fault.id if fault.avoid else "fault:" + fault.id))
    return tuple(out)


def _here(needs: Needs) -> Needs:
    """What of ``needs`` is the machine's, and the same for every model."""
    return replace(needs, architecture=None, min_release=None, conditions=frozenset())


@lru_cache(maxsize=1024)
def _objections_here(version: str, here: Needs, _texts_in: str) -> tuple[Objection, ...]:
    """What of the machine speaks against ``version``, whatever the model. It cannot work with any of it."""
    image, against = image_and_objection(releases.load(version), here)
    if image is None or here.device != "nvidia" or not here.capability:
        return (against,) if against is not None else ()
    runs, why = releases.runs_on(image, here.capability)
    if runs:
        return (against,) if against is not None else ()
    # A newer driver would not bring the kernels, so that is not asked for.
    return (Objection(True, why, "compute_capability"),)


def unserved(needs: Needs) -> bool:
    """Whether no release serves this model here, though some would serve another one."""
    return _unserved(_here(needs), needs.architecture)


@lru_cache(maxsize=1024)
def _unserved(here: Needs, architecture: str | None) -> bool:
    first = releases.first_with_architecture(architecture) if architecture else None
    if first is None:
        return False
    others = False
    for version in reversed(releases.versions()):
        if others and _key(version) < _key(first):
            break  # none of the older ones has it: reading them all takes a while
        if _objections_here(version, here, language()):
            continue
        known = releases.load(version).architectures
        if not known or architecture in known:
            return False
        others = True
    return others


def _why_unserved(versions: list[str], needs: Needs, otherwise: str) -> str:
    """What stands between the model and the releases that have it; ``otherwise``: where that cannot be told."""
    against: list[Objection] = []
    for version in versions:
        found = [o for o in objections(version, needs) if o.hard]
        if not any(o.code.startswith("architecture_") for o in found):
            against += found
    # Newest first; of all of them, a newer driver is the only one that can be had.
    best = next((o for o in against if o.code == "driver_too_old"), None) or next(iter(against), None)
    if best is None:
        return otherwise
    first = releases.first_with_architecture(needs.architecture) if needs.architecture else None
    if best.code == "compute_capability" and first is not None:
        told = _("{architecture} is served from vLLM {first} on, and no release from there on has kernels for this GPU").format(architecture=needs.architecture, first=first)
        return sentences(sentence(told), sentence(best.text))
    return sentence(best.text)


def _way_on(draft: Draft, needs: Needs) -> str:
    """What to do about a model that no release serves: run it in the other way, or take another model."""
    other = "local" if needs.runtime == "docker" else "docker"
    objection = local_objection if other == "local" else docker_objection
    told = []
    if objection(draft.machine, needs.device) is None and _propose(list(reversed(releases.versions())), replace(needs, runtime=other))[0] is not None:
        label = _("Local environment") if other == "local" else _("Docker image")
        told.append(_("“{other}” on the step “vLLM version” can run it.").format(other=label))
    if unserved(needs):
        told.append(_("Choose another model on the step “{step}”.").format(step=_(MODEL.title)))
    return sentences(*told) if told else ""


def image_and_objection(release: Release, needs: Needs) -> tuple[ImageInfo | None, Objection | None]:
    """The image that the driver runs: the plain one, else a variant with an older CUDA; and what is wrong."""
    plain = releases.image_for(release, vendor=needs.device)
    if plain is None:
        if needs.runtime == "docker":
            return None, Objection(True, _("no image of it for this kind of machine is known"), "no_image")
        return None, None
    need = releases.driver_needed(plain)
    if need is None or not needs.driver or needs.device != "nvidia":
        return plain, None
    as_image = needs.runtime == "docker"
    fine, why = need.accepts(needs.driver, needs.consumer, as_image)
    if fine:
        return plain, None
    for variant in image_variants(release):
        other = releases.image_for(release, cuda_variant=variant)
        older = releases.driver_needed(other) if other is not None else None
        if (
            other is not None
            and older is not None
            and older.accepts(needs.driver, needs.consumer, as_image)[0]
        ):
            return other, None
    return plain, Objection(True, why, "driver_too_old")


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", version)) or (0,)


def choose_release(draft: Draft, needs: Needs) -> tuple[Release | None, tuple[KnownFault, ...]]:
    """The newest release without an objection, or the one that the user pinned."""
    versions = list(reversed(releases.versions()))
    given = draft.answered("release")
    existing = draft.machine.vllm[0] if needs.runtime == "local" and draft.machine.vllm else None
    proposed, reason = _propose(versions, needs)
    if existing is not None and proposed is not None:
        inside = releases.load(existing.version)
        if inside.exact and not any(
            o.hard or o.code.startswith("avoid:") for o in objections(inside.version, needs)
        ):
            proposed, reason = (
                inside.version,
                _("it is installed already ({python})").format(python=existing.python),
            )
    serves = proposed is not None
    if proposed is None:
        why = _why_unserved(versions, needs, reason)
        draft.block("no_release", _("No vLLM release serves this model on this machine."), sentences(*(text for text in (why, _way_on(draft, needs)) if text)))
        if given is None:
            draft.choices["release"] = _release_choices(versions, needs, None, versions[0])
            return None, ()
        proposed = versions[0]
    pinned: Release | None = None
    if given is not None:
        try:
            pinned = releases.load(str(given[0]))
        except BadInput as error:
            draft.block(
                "bad_answer",
                _("The answer “{key}” cannot be “{value}”.").format(key="release", value=given[0]),
                str(error),
            )
    if pinned is not None and given is not None:
        draft.used.add("release")
        if pinned.exact:
            draft.decide_value("release", pinned.version, proposed, reason, given[1])
        else:
            draft.decide_value("release", str(given[0]), proposed, reason, given[1])
            if needs.runtime == "local" and not re.fullmatch(r"v?\d+(\.\d+)+\S*", str(given[0])):
                draft.block(
                    "release_not_a_version",
                    _("“{asked}” is an image's tag, and no version that can be installed.").format(
                        asked=given[0]
                    ),
                    _("Run it with Docker, or name a version."),
                )
            draft.warn(
                "release_not_known",
                _("vLLM {asked} is not in the catalogue.").format(asked=given[0]),
                sentences(
                    _("Its flags are taken from {stand_in}.").format(stand_in=releases.stand_in(pinned)),
                    _("“vllm-wizard releases update” or “releases probe” brings the real ones."),
                    _("Whether it was published at all is not known here: if it was not, the first start cannot download it."),
                ),
            )
        release = pinned
    else:
        draft.settle("release", proposed, reason, "detected")
        release = releases.load(proposed)
    draft.choices["release"] = _release_choices(versions, needs, proposed if serves else None, release.version)
    for objection in objections(release.version, needs):
        if objection.hard:
            draft.block(
                objection.code,
                _("vLLM {version} cannot be used here.").format(version=release.version),
                sentence(objection.text),
            )
        elif objection.code == "recipe_minimum" or objection.code.startswith("avoid:"):
            draft.warn(
                objection.code,
                _("vLLM {version}: {text}").format(version=release.version, text=objection.text),
            )
    faults = tuple(releases.known_faults(release.version, set(needs.conditions)))
    return release, faults


def _propose(versions: list[str], needs: Needs) -> tuple[str | None, str]:
    newest = versions[0]
    first_reason = ""
    fallback: tuple[str, str] | None = None
    for version in versions:
        found = objections(version, needs)
        hard = [o for o in found if o.hard]
        avoid = [
            o for o in found if not o.hard and (o.code.startswith("avoid:") or o.code == "recipe_minimum")
        ]
        if found and version == newest:
            first_reason = clauses(o.text for o in (hard or avoid))
        if hard:
            continue
        if avoid:
            fallback = fallback or (version, clauses(o.text for o in avoid))
            continue
        if version == newest or not first_reason:
            cured = cures(version, needs)
            if cured:
                return version, _("the newest release; what is known against it is cured in the command: {cures}").format(
                    cures=clauses(cured)
                )
            return version, _("the newest release, and nothing speaks against it")
        return version, _("the newest that works here; not {newest}, because {why}").format(
            newest=newest, why=first_reason
        )
    if fallback is not None:
        return fallback[0], _("the newest that can work here, though {why}").format(why=fallback[1])
    return None, sentence(first_reason)


def cures(version: str, needs: Needs) -> list[str]:
    """The known faults of a release here that the command sets right, each with what does it."""
    out = []
    for fault in releases.known_faults(version, set(needs.conditions)):
        settings = [f"{name}={value}" for name, value in fault.env.items()]
        settings += [flag if value is None else f"{flag} {value}" for flag, value in fault.flags]
        if settings:
            out.append(_("{fault} ({settings})").format(fault=fault.title, settings=listed(settings)))
    return out


def _release_choices(versions: list[str], needs: Needs, proposed: str | None, current: str) -> tuple[Choice, ...]:
    shown: list[str] = []
    for version in versions:
        minor = _key(version)[:2]
        if version in (proposed, current) or all(_key(v)[:2] != minor for v in shown):
            shown.append(version)
        if len(shown) >= OFFERED and proposed in (None, *shown) and current in shown:
            break
    out = []
    for version in sorted(set(shown) | {current}, key=_key, reverse=True):
        found = objections(version, needs)
        against = clauses(o.text for o in found if o.hard or not o.code.startswith("fault:"))
        uncured = [f.title for f in releases.known_faults(version, set(needs.conditions)) if not (f.env or f.flags or f.avoid)]
        # The relief stands first: a narrow list cuts off what comes last.
        cured = cures(version, needs)
        told = [_("works with a cure: {faults}").format(faults=clauses(cured))] if cured else []
        note = clauses([*told, *(_("known: {fault}").format(fault=title) for title in uncured)])
        if version == versions[0]:
            note = clauses([_("newest"), note]) if note else _("newest")
        out.append(Choice(version, version, note, against, version == proposed, any(o.hard for o in found)))
    return tuple(out)


def image_of(draft: Draft, release: Release | None, needs: Needs) -> tuple[ImageInfo | None, str | None]:
    """The image, and the reference that is written (the user may name another)."""
    if release is None:
        return None, None
    image, _against = image_and_objection(release, needs)
    given = draft.answered("image")
    reference = image.reference if image is not None else None
    if image is not None and not release.exact and release.asked:
        tag = release.asked if release.asked[:1] in "vnl" else "v" + release.asked
        reference = f"{image.repository}:{tag}"
    if given is not None and str(given[0]).strip() and given[0] != reference:
        text = str(given[0]).strip()
        if not re.fullmatch(IMAGE_NAME, text):
            draft.block(
                "bad_answer",
                _("The answer “image” cannot be “{value}”.").format(value=text),
                _("An image is written as name:tag."),
            )
        else:
            why = _("chosen by you; its arguments are those of vLLM {version}").format(
                version=release.version
            )
            draft.settle("image", text, why, given[1], chosen=True)
            return image, text
    plain = releases.image_for(release, vendor=needs.device)
    reason = _("the official image of this release")
    if image is not None and plain is not None and image.tag != plain.tag and needs.runtime == "local":
        reason = _("the build with CUDA {cuda}, which a local environment runs with driver {driver}").format(
            cuda=image.cuda, driver=needs.driver
        )
    elif image is not None and plain is not None and image.tag != plain.tag:
        reason = _("the official image built with CUDA {cuda}, which driver {driver} runs").format(
            cuda=image.cuda, driver=needs.driver
        )
    draft.settle("image", reference, reason, "default")
    return image, reference
