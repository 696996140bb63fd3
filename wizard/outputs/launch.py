"""launch.sh: checks, then starts the server in the foreground, with Docker or from a local environment.

The script is plain bash that shellcheck accepts. Everything that came from a user is quoted by
:func:`wizard.outputs.quoting.bash_word`; reasons become comments beside what they explain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wizard.i18n import _, bracketed, labelled
from wizard.models.move_place import move_words
from wizard.outputs.command import container_environment, image_arguments, port_binding, version_of
from wizard.outputs.compose import container_name
from wizard.outputs.env import NAME as ENV_NAME
from wizard.outputs.quoting import bash_line, bash_word, comment, wrap_comment
from wizard.outputs.spec import FileSpec
from wizard.plan_types import Plan, own_environment, some_gpus
from wizard.session import expand

NAME = "launch.sh"
# What the image takes on disk when it is unpacked (vllm/vllm-openai 0.2x to 0.3x: 20 to 30 GB).
IMAGE_GIB = 30
ENVIRONMENT_GIB = 12
# Lies within every release's range from 0.6.3 on, and every dependency has wheels for it.
PYTHON = "3.12"


def launch_file(plan: Plan) -> FileSpec:
    """The launch script of a plan that can serve."""
    lines = [*_head(plan), *_helpers(plan), *_settings(plan), *_checks(plan)]
    lines += _run_docker(plan) if plan.runtime == "docker" else _run_local(plan)
    text = "\n".join(lines) + "\n"
    return FileSpec(
        path=NAME, content=text.encode("utf-8", "surrogateescape"), mode=0o755, title=_("starts the server")
    )


def _as_answered(value: object) -> object:
    """A decision's value as the answers file has it."""
    return str(value).lower() if isinstance(value, bool) else value


def _served_from(plan: Plan, answer: object) -> str:
    """The model as the script serves it, which after a copy is another folder than the one that was chosen."""
    if plan.move is None or not plan.move.wanted or plan.host_model_path is None:
        return str(answer)
    return bracketed(plan.host_model_path, _("copied from {path}").format(path=plan.move.source))


def _head(plan: Plan) -> list[str]:
    assert plan.release is not None
    out = ["#!/usr/bin/env bash"]
    out += wrap_comment(
        _("Starts {model} on vLLM {version}. Stop it with Ctrl-C.").format(
            model=plan.value("served_model_name"), version=version_of(plan)
        )
    )
    out += ["#"]
    out += wrap_comment(_("./launch.sh --check   only makes the checks"))
    out += wrap_comment(_("./launch.sh --print   only prints the command"))
    out += ["#", *wrap_comment(_("Why it is set up like this:"))]
    for decision in plan.decisions:
        if (
            decision.flag is None
            and decision.key in _HEAD_KEYS
            and decision.reason
            and decision.value is not None
        ):
            value = _served_from(plan, decision.value) if decision.key == "model" else _as_answered(decision.value)
            out += wrap_comment(labelled(f"{decision.key} = {value}", decision.reason), prefix="#   ")
    for warning in plan.warnings:
        out += wrap_comment(_("Note: {title}").format(title=warning.title), prefix="#   ")
    out += ["", "set -euo pipefail", ""]
    return out


_HEAD_KEYS = frozenset({"model", "runtime", "release", "intent", "move", "access"})


def _helpers(plan: Plan) -> list[str]:
    usage = _("Usage: {script} [--check | --print]").format(script="launch.sh")
    return [
        'here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)',
        "mode=start",
        'case "${1-}" in',
        "  --check) mode=check ;;",
        "  --print) mode=print ;;",
        '  "") ;;',
        f"  -h | --help) printf '%s\\n' {bash_word(usage)}; exit 0 ;;",
        f"  *) printf '%s\\n' {bash_word(usage)} >&2; exit 2 ;;",
        "esac",
        "",
        "say() { printf '%s\\n' \"$*\" >&2; }",
        "# " + _("The first argument says what is wrong, the others what to type."),
        "fail() {",
        "  printf '\\nlaunch.sh: %s\\n' \"$1\" >&2",
        "  shift",
        '  for line in "$@"; do printf \'  %s\\n\' "$line" >&2; done',
        "  exit 1",
        "}",
        "",
    ]


def _array(name: str, rows: Iterable[tuple[list[str], str]]) -> list[str]:
    out = [f"{name}=("]
    for words, reason in rows:
        if reason:
            out += wrap_comment(reason, prefix="  # ")
        out.append("  " + bash_line(words))
    out.append(")")
    return out


def _argument_rows(plan: Plan) -> list[tuple[list[str], str]]:
    """The arguments grouped by flag, each with its reason."""
    reasons = {d.flag: d.reason for d in plan.decisions if d.flag}
    words = image_arguments(plan) if plan.runtime == "docker" else ["serve", *plan.argv]
    rows: list[list[str]] = []
    starts_with_flag = plan.runtime == "docker" and words[:1] == ["--model"]
    lead = 2 if starts_with_flag or plan.runtime == "local" else 1
    rows.append(words[:lead])
    for word in words[lead:]:
        if word.startswith("--") or not rows[1:]:
            rows.append([word])
        else:
            rows[-1].append(word)
    return [(row, reasons.get(row[0].split("=")[0], "")) for row in rows]


def _settings(plan: Plan) -> list[str]:
    port = port_binding(plan)[1]
    out = wrap_comment(_("--- What is served ---"))
    out += _array("arguments", _argument_rows(plan))
    if plan.host_model_path is not None:
        out.append(f"model_path={bash_word(plan.host_model_path)}")
    out += [f"address={bash_word(_called_address(plan))}", f"port={port}", f'env_file="$here/{ENV_NAME}"']
    if plan.runtime == "docker":
        assert plan.image_reference is not None
        out += [f"image={bash_word(plan.image_reference)}", f"container={bash_word(container_name(plan))}"]
        out += _array("docker_options", _docker_option_rows(plan))
    else:
        out.append(f"environment={bash_word(str(plan.value('venv')))}")
        for key, value in sorted(plan.env.items()):
            reason = plan.reason("env." + key)
            if reason:
                out += wrap_comment(reason)
            out.append(f"export {key}={bash_word(value)}")
    out.append("")
    return out


def _docker_option_rows(plan: Plan) -> list[tuple[list[str], str]]:
    address, port = port_binding(plan)
    rows: list[tuple[list[str], str]] = [(["--rm", "--name", container_name(plan)], "")]
    if plan.device == "nvidia":
        if plan.picked_by_docker:
            rows.append(
                (["--gpus", '"device=' + ",".join(str(i) for i in plan.picked_by_docker) + '"'], some_gpus(plan.machine, plan.gpus, plan.gpus_reason))
            )
        else:
            rows.append((["--gpus", "all"], ""))
    elif plan.device == "intel":
        rows.append((["--device", "/dev/dri"], ""))
    elif plan.device == "amd" and plan.machine.is_wsl2:
        rows.append((["--device", "/dev/dxg", "--security-opt", "seccomp=unconfined"], ""))
    elif plan.device == "amd":
        rows.append(
            (
                [
                    "--device",
                    "/dev/kfd",
                    "--device",
                    "/dev/dri",
                    "--group-add",
                    "video",
                    "--security-opt",
                    "seccomp=unconfined",
                ],
                "",
            )
        )
    else:
        rows.append(
            (
                ["--security-opt", "seccomp=unconfined", "--cap-add", "SYS_NICE"],
                _(
                    "The CPU build places its memory by NUMA node; Docker's default filter forbids the system calls."
                ),
            )
        )
    rows.append(
        (
            ["--ipc", "host"],
            _("The workers share memory through /dev/shm; Docker's default of 64 MB is too small."),
        )
    )
    rows.append(
        (
            ["--stop-timeout", "60"],
            _("A server that is loading needs time to stop; Docker's 10 s would kill it."),
        )
    )
    rows.append((["--publish", f"{address}:{port}:8000"], plan.reason("access")))
    for source, target, read_only in plan.mounts:
        rows.append((["--mount", mount_option(source, target, read_only)], ""))
    for key, value in sorted(container_environment(plan).items()):
        rows.append((["--env", f"{key}={value}"], plan.reason("env." + key)))
    return rows


def mount_option(source: str, target: str, read_only: bool) -> str:
    """The value of docker's ``--mount``: one CSV record, so a field with a comma or quote is quoted whole."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if read_only else [])]
    return ",".join('"' + f.replace('"', '""') + '"' if any(c in f for c in ',"\n\r') else f for f in fields)


def _checks(plan: Plan) -> list[str]:
    out = wrap_comment(_("--- Checks, before anything is started ---"))
    out.append("check() {")
    out += _indent(_check_model(plan))
    out += _indent(_check_adapters(plan))
    out += _indent(_check_port())
    if plan.device == "nvidia":
        out += _indent(_check_nvidia(plan))
    elif plan.device == "amd" and not plan.machine.is_wsl2:
        out += _indent(
            [
                "[ -e /dev/kfd ] || fail "
                + bash_word(_("There is no /dev/kfd: the AMD GPU driver is not loaded."))
            ]
        )
    elif plan.device == "intel":
        out += _indent(
            [
                "[ -e /dev/dri ] || fail "
                + bash_word(_("There is no /dev/dri: the Intel GPU driver is not loaded."))
            ]
        )
    if plan.runtime == "docker":
        out += _indent(_check_docker())
    out += _indent(_check_disk(plan))
    out += ["}", ""]
    return out


def _indent(lines: Iterable[str]) -> list[str]:
    return ["  " + line if line else line for line in lines]


def _check_model(plan: Plan) -> list[str]:
    if plan.host_model_path is None:
        return []
    move = []
    if plan.move is not None and plan.move.wanted:
        move = [bash_line(move_words(plan.move.source, plan.move.destination, plan.machine.name))]
    hint = (
        _("Put the model there, or run vllm-wizard again.")
        if not move
        else _("It still has to be copied there. Type:")
    )
    is_file = plan.host_model_path.endswith(".gguf")
    test = (
        '[ -f "$model_path" ]'
        if is_file
        else '[ -f "$model_path/config.json" ] || [ -f "$model_path/params.json" ]'
    )
    words = " ".join(bash_word(w) for w in [hint, *move])
    return [
        f"if ! {{ {test}; }}; then",
        f"  fail {message(_('The model is not at {path}.'), path='model_path')} {words}",
        "fi",
    ]


def _check_adapters(plan: Plan) -> list[str]:
    """Every LoRA adapter lies where it was named."""
    out = []
    for item in plan.value("lora_adapters", ()):
        name, _sep, path = item.partition("=")
        path = expand(path.strip(), plan.machine.home)
        if path.startswith("/"):
            text = _("The adapter {name} is not at {path}.").format(name=name.strip(), path=path)
            out.append(f"[ -f {bash_word(path + '/adapter_config.json')} ] || fail {bash_word(text)}")
    return out


def message(text: str, **variables: str) -> str:
    """A sentence as one bash word: ``{name}`` becomes the variable ``$variables[name]``, all else is literal."""
    parts = re.split(r"\{(\w+)\}", comment(text))
    out = []
    for index, part in enumerate(parts):
        if index % 2:
            out.append(f'"${variables[part]}"')
        elif part:
            out.append(bash_word(part))
    return "".join(out)


def _check_port() -> list[str]:
    return [
        "# " + _("A connection that succeeds means that something listens there already."),
        'if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then',
        f'  fail {message(_("Port {port} is in use already."), port="port")} "ss -ltnp | grep :$port"',
        "fi",
    ]


def _check_nvidia(plan: Plan) -> list[str]:
    out = [
        "smi=$(command -v nvidia-smi || true)",
        '[ -n "$smi" ] || { [ -x /usr/lib/wsl/lib/nvidia-smi ] && smi=/usr/lib/wsl/lib/nvidia-smi; }',
        'if [ -z "$smi" ]; then',
        f"  say {bash_word(_('nvidia-smi is not here, so the GPU is not checked.'))}",
        'elif ! gpus=$(timeout 30 "$smi" -L 2>&1); then',
        f"  fail {message(_('The GPU does not answer: {answer}'), answer='gpus')} \\",
        f"    {bash_word(_('Restart the machine (on WSL: wsl --shutdown in PowerShell), then run nvidia-smi.'))}",
    ]
    if plan.fit is not None and plan.gpus:
        need_mib = int(plan.fit.budget_bytes * 0.98) >> 20
        ids = ",".join(str(i) for i in plan.gpus)
        out += [
            "else",
            *wrap_comment(
                _("vLLM refuses to start when a GPU has less free memory than utilization x total."),
                prefix="  # ",
            ),
            f"  need_mib={need_mib}",
            "  while read -r free_mib; do",
            '    case "$free_mib" in "" | *[!0-9]*) continue ;; esac',
            '    if [ "$free_mib" -lt "$need_mib" ]; then',
            f"      fail {message(_('A GPU has {free} MiB free; {need} MiB are needed.'), free='free_mib', need='need_mib')} \\",
            f"        {bash_word(_('Close what uses the GPU (nvidia-smi lists it), or run vllm-wizard again: it plans with what is free then.'))}",
            "    fi",
            f'  done < <(timeout 30 "$smi" --query-gpu=memory.free --format=csv,noheader,nounits -i {ids} 2>/dev/null || true)',
        ]
    out.append("fi")
    return out


def _check_docker() -> list[str]:
    cure = [
        _(
            "Docker Desktop: start it on Windows, and turn on Settings, Resources, WSL integration for this distribution."
        ),
        _("Docker Engine: sudo systemctl start docker"),
    ]
    return [
        f"command -v docker >/dev/null || fail {bash_word(_('The docker command is not here.'))} {' '.join(bash_word(c) for c in cure)}",
        'if ! answer=$(timeout 30 docker info --format "{{.ServerVersion}}" 2>&1); then',
        f"  fail {message(_('Docker does not answer: {answer}'), answer='answer')} {' '.join(bash_word(c) for c in cure)}",
        "fi",
        'if [ -n "$(docker ps --quiet --filter "name=^/$container\\$" 2>/dev/null)" ]; then',
        f'  fail {message(_("It runs already, in the container {name}."), name="container")} "docker logs -f $container" "docker stop $container"',
        "fi",
        f'[ -f "$env_file" ] || fail {message(_("There is no {file}."), file="env_file")} \\',
        f"  {bash_word(_('Run vllm-wizard again, or make an empty file of that name.'))}",
    ]


def _check_disk(plan: Plan) -> list[str]:
    size = plan.model.weight_bytes if plan.model is not None else None
    out = ["# " + _("free_gib FOLDER: what is free there, in GiB; the nearest folder that exists counts.")]
    out += [
        "free_gib() {",
        "  folder=$1",
        '  while [ ! -d "$folder" ] && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done',
        '  df -Pk -- "$folder" | awk \'NR == 2 { printf "%d\\n", $4 / 1048576 }\'',
        "}",
    ]
    if plan.host_model_path is None and size:
        need = size / 2**30 + 2
        out += [
            f"cache={bash_word(_cache_folder(plan))}",
            *wrap_comment(
                _(
                    "The model is downloaded at the first start; files that are there already are not loaded again."
                ),
                prefix="# ",
            ),
            f'if [ ! -d "$cache/hub/models--"{bash_word(_repo_folder(plan))} ] && [ "$(free_gib "$cache")" -lt {int(need)} ]; then',
            f'  fail {bash_word(_("The download needs {gib} GiB of disk space.").format(gib=int(need)))} "df -h"',
            "fi",
        ]
    if plan.runtime == "docker":
        out += [
            'if ! docker image inspect "$image" >/dev/null 2>&1; then',
            f"  say {message(_('The image {image} is not here yet and is downloaded first (about 10 GB).'), image='image')}",
            "  root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null || true)",
            f'  if [ -n "$root" ] && [ -d "$root" ] && [ "$(free_gib "$root")" -lt {IMAGE_GIB} ]; then',
            f'    fail {bash_word(_("The image needs {gib} GiB of disk space.").format(gib=IMAGE_GIB))} "docker system df" "df -h"',
            "  fi",
            "fi",
        ]
    else:
        out += [
            f'if [ ! -x "$environment/bin/vllm" ] && [ "$(free_gib "$environment")" -lt {ENVIRONMENT_GIB} ]; then',
            f'  fail {bash_word(_("The environment needs {gib} GiB of disk space.").format(gib=ENVIRONMENT_GIB))} "df -h"',
            "fi",
        ]
    return out


def _cache_folder(plan: Plan) -> str:
    return str(plan.session.environment.get("HF_HOME") or f"{plan.machine.home}/.cache/huggingface")


def _repo_folder(plan: Plan) -> str:
    return str(plan.model_argument or "").replace("/", "--")


def _run_docker(plan: Plan) -> list[str]:
    return [
        'command=(docker run "${docker_options[@]}" --env-file "$env_file" "$image" "${arguments[@]}")',
        "if [ \"$mode\" = print ]; then printf '%q ' \"${command[@]}\"; printf '\\n'; exit 0; fi",
        "check",
        f'if [ "$mode" = check ]; then say {bash_word(_("All checks passed."))}; exit 0; fi',
        *(
            # Docker's --mount does not make a folder that is missing.
            f"mkdir -p -- {bash_word(source)}"
            for source, _target, read_only in plan.mounts
            if not read_only
        ),
        f"say {message(_('Starting {image} in the container {name}.'), image='image', name='container')}",
        *_where_it_answers(plan),
        'exec "${command[@]}"',
    ]


def _say_ready() -> str:
    text = _("Once the model is loaded, the API answers at http://{address}:{port}/v1")
    return f"say {message(text, address='address', port='port')}"


def _where_it_answers(plan: Plan) -> list[str]:
    """Where the API answers: an address that can be called, never the one that only stands for all of them."""
    lines = [_say_ready()]
    if plan.machine.in_container:
        if plan.runtime == "docker":
            hint = _("That is an address of the machine that the Docker engine runs on, not of this container.")
        elif plan.value("access") == "network":
            hint = _("From outside this container: only where it was started with -p {port}:{port}, at the address of its machine.")
        else:
            hint = _("That is an address inside this container: nothing outside it reaches the server.")
        lines.append(f"say {bash_word(hint.format(port=plan.value('port')))}")
    elif plan.value("access") == "network":
        hint = (
            _("Other machines take the address of Windows instead (ipconfig in PowerShell).")
            if plan.machine.is_wsl2
            else _("Other machines take an address of this machine instead (hostname -I lists them).")
        )
        lines.append(f"say {bash_word(hint)}")
    return lines


def _called_address(plan: Plan) -> str:
    if plan.runtime == "docker" or "--host" not in plan.argv:
        return "127.0.0.1"
    host = plan.argv[plan.argv.index("--host") + 1]
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, nothing listens here
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _other_release(plan: Plan, version: str) -> list[str]:
    """What to do about an environment that holds another release: only one that this wizard makes may be removed."""
    if plan.value("venv") == own_environment(plan.machine.home, version):
        then = bash_word(_("then start again, or run vllm-wizard for the release that is there."))
        return [f"""    "rm -r -- '$environment'" {then} ;;"""]
    return [f"    {bash_word(_('Run vllm-wizard again: for the release that is there, or with another environment folder.'))} ;;"]


def _run_local(plan: Plan) -> list[str]:
    version = version_of(plan)
    out = [
        'command=("$environment/bin/vllm" "${arguments[@]}")',
        "if [ \"$mode\" = print ]; then printf '%q ' \"${command[@]}\"; printf '\\n'; exit 0; fi",
        "check",
    ]
    out.append(f'if [ "$mode" = check ]; then say {bash_word(_("All checks passed."))}; exit 0; fi')
    out += ["", *wrap_comment(_("The environment is made at the first start; later starts find it."))]
    out += [
        'if [ ! -x "$environment/bin/vllm" ]; then',
        # A folder of the system's own (/usr/local) or of somebody else's is nothing to install into.
        '  if [ -e "$environment" ] && [ ! -e "$environment/pyvenv.cfg" ]; then',
        f"    fail {message(_('{folder} is there, holds no vLLM, and is no virtual environment: nothing is installed into it.'), folder='environment')} \\",
        f"      {bash_word(_('Run vllm-wizard again and name another environment folder.'))}",
        "  fi",
        f"  say {message(_('Installing vLLM {version} into {folder}.').replace('{version}', version), folder='environment')}",
        '  uv=$(command -v uv || echo "$environment.uv/bin/uv")',
        '  if [ ! -x "$uv" ]; then',
        *wrap_comment(
            _("uv brings the right Python and the right build of PyTorch; it gets a folder of its own."),
            prefix="    # ",
        ),
        '    python3 -m venv "$environment.uv"',
        '    "$environment.uv/bin/python" -m pip install --quiet uv',
        "  fi",
        "  # " + comment(_("An installation that was interrupted goes on where it is.")),
        f'  [ -x "$environment/bin/python" ] || "$uv" venv --python {PYTHON} "$environment"',
        f'  "$uv" pip install --python "$environment/bin/python" {bash_line(install_arguments(plan))}',
        "fi",
        'found=$("$environment/bin/python" -c \'import importlib.metadata as m; print(m.version("vllm"))\' 2>/dev/null || echo none)',
        f'case "$found" in {version} | {version}+*) ;; *)',
        f"  fail {message(_('This script is for vLLM {version}; the environment holds {found}.').replace('{version}', version), found='found')} \\",
        *_other_release(plan, version),
        "esac",
        *wrap_comment(_("Secrets are read line by line, never executed.")),
        'if [ -f "$env_file" ]; then',
        "  while IFS='=' read -r key value || [ -n \"$key\" ]; do",
        '    case "$key" in "" | \\#* | *[!A-Za-z0-9_]*) continue ;; esac',
        '    export "$key=$value"',
        '  done < "$env_file"',
        "fi",
    ]
    if plan.device == "cpu":
        out += [
            *wrap_comment(
                _("The CPU build runs far faster with Intel's OpenMP, which its wheel brings along.")
            ),
            'openmp=$(find "$environment" -name libiomp5.so -print -quit)',
            'if [ -n "$openmp" ]; then export LD_PRELOAD="$openmp${LD_PRELOAD:+:$LD_PRELOAD}"; fi',
        ]
    out += [
        f"say {bash_word(_('Starting vLLM {version}.').format(version=version))}",
        *_where_it_answers(plan),
        'exec "${command[@]}"',
    ]
    return out


def install_arguments(plan: Plan) -> list[str]:
    """What ``uv pip install`` is given for the plan's release and device."""
    version = version_of(plan)
    if plan.device == "cpu":
        index = f"https://wheels.vllm.ai/{version}/cpu"
        return [f"vllm=={version}+cpu", "--extra-index-url", index, "--torch-backend", "cpu"]
    if plan.device == "amd":
        return [f"vllm=={version}", "--extra-index-url", f"https://wheels.vllm.ai/rocm/{version}"]
    if plan.image is not None and plan.image.cuda and "-cu" in plan.image.tag:
        # The driver is too old for the CUDA that this release is built with by default.
        variant = plan.image.tag.rsplit("-", 1)[1]
        index = f"https://wheels.vllm.ai/{version}/{variant}"
        return [f"vllm=={version}+{variant}", "--extra-index-url", index, "--torch-backend", variant]
    return [f"vllm=={version}", "--torch-backend", "auto"]
