"""Container images of a release, the driver that each needs, and the GPUs that its kernels run on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput
from wizard.i18n import _

from .types import ImageInfo

if TYPE_CHECKING:
    from .types import Release

_REPOSITORY = {
    "nvidia": "vllm/vllm-openai",
    "amd": "vllm/vllm-openai-rocm",
    "cpu": "vllm/vllm-openai-cpu",
    "intel": "vllm/vllm-openai-xpu",
}
_FACT_KEY = {"amd": "rocm", "cpu": "cpu", "intel": "xpu"}

# Driver branch that came with each CUDA release (NVIDIA's CUDA Toolkit release notes), and the older branches
# that the image's own NVIDIA_REQUIRE_CUDA admits on data-centre, workstation and virtual GPUs. GeForce is not
# in those lists (read in the configuration of the published nvidia/cuda and vLLM 12.8 and 12.9 images).
_DRIVER = {
    "12.4": ("550", ("535",)),
    "12.6": ("560", ("535", "550")),
    "12.8": ("570", ("535", "550", "560", "565")),
    "12.9": ("575", ("535", "550", "560", "565", "570")),
    "13.0": ("580", ()),
}
# CUDA minor-version compatibility: within a major release, any driver from this one on runs the compiled
# kernels (not PTX). It holds for local installs; an image asks for more, see above.
_MAJOR_MINIMUM = {"12": "525.60.13", "13": "580"}


@dataclass(frozen=True)
class DriverNeed:
    """The NVIDIA driver that an image (or a local install of its CUDA build) needs."""

    cuda: str  # "12.9"
    minimum: str  # any GPU starts the image from this driver on
    datacenter_branches: tuple[str, ...]  # older branches that start it on data-centre and workstation GPUs
    local_minimum: str  # without the image's own check: minor-version compatibility

    def accepts(self, driver: str, consumer: bool | None = None, image: bool = True) -> tuple[bool, str]:
        """(whether that driver is enough, why). ``consumer``: a GeForce card; None: not known, taken as one."""
        if not image:
            fine = driver_key(driver) >= driver_key(self.local_minimum)
            text = (
                _("driver {driver} runs CUDA {cuda} builds (needs {minimum})")
                if fine
                else _("driver {driver} is too old for CUDA {cuda} builds: {minimum} or newer is needed")
            )
            return fine, text.format(driver=driver, cuda=self.cuda, minimum=self.local_minimum)
        if driver_key(driver) >= driver_key(self.minimum):
            return True, _("driver {driver} supports CUDA {cuda}").format(driver=driver, cuda=self.cuda)
        branch = driver.split(".")[0]
        if branch in self.datacenter_branches and consumer is False:
            return True, _(
                "driver {driver} is older than CUDA {cuda}, but the image admits its branch on data-centre GPUs"
            ).format(driver=driver, cuda=self.cuda)
        if branch in self.datacenter_branches:
            return False, _(
                "driver {driver} is older than CUDA {cuda}; the image admits its branch on data-centre GPUs only: "
                "GeForce cards need {minimum} or newer"
            ).format(driver=driver, cuda=self.cuda, minimum=self.minimum)
        return False, _("driver {driver} is too old for this image, which asks for {minimum} or newer (CUDA {cuda})").format(
            driver=driver, cuda=self.cuda, minimum=self.minimum
        )


def driver_key(version: str) -> tuple[int, ...]:
    """Driver versions in order: "580.65.06" > "575.57.08"."""
    return tuple(int(n) for n in re.findall(r"\d+", version))


def _minor(cuda: str) -> str:
    return ".".join(cuda.split(".")[:2])


def driver_needed(image: ImageInfo) -> DriverNeed | None:
    """What driver the image needs; None for an image without CUDA, or with one that is not known."""
    if image.cuda is None:
        return None
    minor = _minor(image.cuda)
    major = minor.split(".")[0]
    if minor in _DRIVER:
        minimum, branches = _DRIVER[minor]
    elif major in _MAJOR_MINIMUM:  # a newer CUDA of a known major: its first driver at least
        known = [d for v, (d, _b) in _DRIVER.items() if v.split(".")[0] == major]
        minimum, branches = max(known, key=driver_key), ()
    else:
        return None
    return DriverNeed(minor, minimum, branches, _MAJOR_MINIMUM[major])


def cuda_image(version: str, facts: Mapping[str, Any], variant: str | None = None) -> ImageInfo:
    """The CUDA image of a release from its data file; ``variant``: "cu129" and the like."""
    chosen = (facts.get("variants") or {}).get(variant, {}) if variant else facts
    archs = tuple(chosen.get("arch_list") or facts.get("arch_list") or ())
    cuda = chosen.get("cuda") or None
    image = ImageInfo(
        repository=_REPOSITORY["nvidia"],
        tag=f"v{version}" + (f"-{variant}" if variant else ""),
        cuda=cuda,
        min_driver=None,
        arch_list=archs,
        ptx=any(a.endswith("+PTX") for a in archs),
        entrypoint=tuple(facts.get("entrypoint") or ("vllm", "serve")),
    )
    need = driver_needed(image)
    return image if need is None else _with_driver(image, need.minimum)


def _with_driver(image: ImageInfo, minimum: str) -> ImageInfo:
    import dataclasses

    return dataclasses.replace(image, min_driver=minimum)


def image_variants(release: Release) -> tuple[str, ...]:
    """CUDA variants that were published beside the plain image ("cu129"), as far as is known."""
    return tuple(release.image_facts.get("variants") or {})


def image_for(release: Release, vendor: str = "nvidia", cuda_variant: str | None = None) -> ImageInfo | None:
    """The image of a release for a vendor ("nvidia", "amd", "cpu", "intel"); None: not published, as far as known.

    ``cuda_variant`` ("cu129" or "12.9") picks a variant; asking for the plain image's own CUDA gives that.
    """
    if vendor not in _REPOSITORY:
        raise BadInput(_("No image for {vendor!r}: nvidia, amd, cpu or intel.").format(vendor=vendor))
    facts = release.image_facts
    if vendor == "nvidia":
        if cuda_variant is None:
            return cuda_image(release.version, facts)
        digits = re.sub(r"\D", "", cuda_variant)[:3]
        variant = f"cu{digits}"
        if facts.get("cuda") and re.sub(r"\D", "", _minor(facts["cuda"])) == digits:
            return cuda_image(release.version, facts)
        return cuda_image(release.version, facts, variant) if variant in (facts.get("variants") or {}) else None
    if not facts.get(_FACT_KEY[vendor]):
        return None
    entry = facts.get(f"{_FACT_KEY[vendor]}_entrypoint") or ("vllm", "serve")
    return ImageInfo(_REPOSITORY[vendor], f"v{release.version}", None, None, (), False, tuple(entry))


_CUDA_IMAGE = re.compile(r"(?:.*/)?vllm/vllm-openai:(?P<tag>[\w.-]+)(?:@.*)?")


def image_of(reference: str) -> ImageInfo | None:
    """The CUDA image that a reference (of any registry) names; None where nothing is known of its tag."""
    from . import load

    found = _CUDA_IMAGE.fullmatch(reference.strip())
    if found is None:
        return None
    try:
        release = load(found["tag"])
    except BadInput:
        return None
    if not release.exact:
        return None
    variant = re.search(r"-(cu\d{3})\b", found["tag"])
    if variant is None:
        return image_for(release)
    return image_for(release, cuda_variant=variant[1])


def runs_on(image: ImageInfo, compute_capability: str) -> tuple[bool, str]:
    """(whether the image's kernels run on a GPU of that compute capability, why).

    A compiled kernel runs on its own major and any higher minor; PTX is compiled for later majors too.
    """
    if not image.arch_list:
        return True, _("the image's list of GPU architectures is not known")
    wanted = _capability(compute_capability)
    if wanted is None:
        return True, _("compute capability {cc!r} is not understood").format(cc=compute_capability)
    for entry in image.arch_list:
        have = _capability(entry)
        if have is None:
            continue
        if have[0] == wanted[0] and have[1] <= wanted[1]:
            return True, _("kernels for {have} run on compute capability {cc}").format(
                have=".".join(map(str, have)), cc=compute_capability
            )
        if entry.endswith("+PTX") and have <= wanted:
            return True, _("no kernels for compute capability {cc}; the driver compiles those of {have}").format(
                cc=compute_capability, have=".".join(map(str, have))
            )
    return False, _("{image} has no kernels for compute capability {cc} (it has {list})").format(
        image=image.reference, cc=compute_capability, list=" ".join(image.arch_list)
    )


def _capability(text: str) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
