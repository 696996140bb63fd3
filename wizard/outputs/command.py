"""The pieces that launch.sh and compose.yaml share: arguments, environment, ports, expected times."""

from __future__ import annotations

from wizard.plan_types import Plan

# Seconds allowed for what does not depend on the size: import, compile, CUDA graphs, warm-up. Measured starts
# of vLLM 0.2x to 0.3x on one GPU take 40 to 180 s for it; doubled, since a health check must not be hasty.
BASE_START_SECONDS = 360
# Bytes a second that a cold read brings at the least: a SATA SSD, and a Windows drive (public reports).
SLOW_READ_RATES = {"linux": 300e6, "windows-drive": 60e6, "network": 40e6, "download": 5e6}


def version_of(plan: Plan) -> str:
    """The version that is installed and named: the one asked for, also when the catalogue does not know it."""
    assert plan.release is not None
    return (
        plan.release.version
        if plan.release.exact or not plan.release.asked
        else plan.release.asked.lstrip("v")
    )


def image_arguments(plan: Plan) -> list[str]:
    """What follows the image: the entrypoint of older images wants ``--model`` and not the bare name."""
    argv = list(plan.container_argv)
    if plan.image is not None and plan.image.serves_with_model_flag and argv:
        return ["--model", *argv]
    return argv


def container_environment(plan: Plan) -> dict[str, str]:
    """The environment of the container; no secrets."""
    return dict(plan.container_env)


def port_binding(plan: Plan) -> tuple[str, int]:
    """Address and port on the host."""
    address = "0.0.0.0" if plan.value("access") == "network" else "127.0.0.1"  # noqa: S104 - the user asked for it
    return address, int(plan.value("port"))


def start_seconds(plan: Plan) -> int:
    """After how many seconds a start that is not ready is not slow but stuck; whole minutes."""
    size = plan.model.weight_bytes if plan.model is not None else None
    kind = "download"
    if plan.host_model_path is not None:
        mount = plan.machine.mount_of(plan.host_model_path)
        kind = mount.kind.value if mount is not None and mount.kind.value in SLOW_READ_RATES else "linux"
    seconds = BASE_START_SECONDS + (size or 20e9) / SLOW_READ_RATES[kind]
    return int(-(-seconds // 60) * 60)
