"""What the wizard's own launch.sh says when one of its checks fails, and the class of each."""

from __future__ import annotations

import re

from wizard.i18n import N_, _

# The texts of wizard.outputs.launch.
TEXTS: tuple[tuple[str, str], ...] = (
    (N_("Port {port} is in use already."), "port_in_use"),
    (N_("The model is not at {path}."), "path_missing"),
    (N_("This script is for vLLM {version}; the environment holds {found}."), "environment_mismatch"),
    (N_("A GPU has {free} MiB free; {need} MiB are needed."), "gpu_mem_in_use_by_other_process"),
    (N_("The GPU does not answer: {answer}"), "gpu_not_visible"),
    (N_("Docker does not answer: {answer}"), "docker_not_running"),
    (N_("The docker command is not here."), "docker_not_running"),
    (N_("It runs already, in the container {name}."), "container_runs_already"),
    (N_("The download needs {gib} GiB of disk space."), "disk_full"),
    (N_("The image needs {gib} GiB of disk space."), "disk_full"),
    (N_("The environment needs {gib} GiB of disk space."), "disk_full"),
)


def cause_of(text: str) -> str:
    """The class of a failed check, by what is said of it in English or in the language in use."""
    for template, cause in TEXTS:
        for words in {template, _(template)}:
            form = ".+".join(re.escape(part) for part in re.split(r"\{\w+\}", words))
            if re.fullmatch(form, text):
                return cause
    return "script_check_failed"
