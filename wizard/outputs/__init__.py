"""Plan -> the files that are written, each as a :class:`~wizard.outputs.spec.FileSpec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wizard.outputs.spec import FileSpec
    from wizard.plan_types import Plan


def files(plan: Plan, *, apply_wslconfig: bool = False) -> list[FileSpec]:
    """All files of a plan that can serve, in the order in which they are shown; none when there are blockers."""
    if not plan.can_serve:
        return []
    from wizard.outputs.answers import answers_file
    from wizard.outputs.compose import compose_file
    from wizard.outputs.env import env_file
    from wizard.outputs.launch import launch_file

    out = [launch_file(plan)]
    # In a container without an engine nothing can run it, and its bind mounts would name paths of this container.
    if plan.runtime == "docker" or not plan.machine.in_container:
        out.append(compose_file(plan))
    if plan.wsl is not None and plan.wsl_changes:
        from wizard.outputs.wslconfig.deliver import reasons_of, to_filespec

        out.append(
            to_filespec(
                plan.machine,
                plan.wsl.with_changes(plan.wsl_changes, reasons_of(plan)),
                str(plan.value("out_dir")),
                apply_wslconfig,
            )
        )
    out.append(env_file(plan))
    out.append(answers_file(plan))
    return out
