"""From a failed start to a changed plan: what the diagnosis proposes, as answers, tried out on the plan first.

A fix counts only if it changes what is started, leaves a plan that can serve, and gives files that were not
tried before in this round: so the loop ends by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.releases.parse import switch_text

if TYPE_CHECKING:
    from wizard.apply import Change
    from wizard.diagnose.engine import Diagnosis, Finding, Fix
    from wizard.host import Host
    from wizard.plan_types import Plan
    from wizard.releases.types import Option
    from wizard.session import Session

MAX_STARTS = 3
KILLED = (-9, 137)  # exit codes of a process ended by SIGKILL: ours, and as bash and Docker report it
# Causes that memory pressure explains: a smaller server may live where a larger one was killed.
_MEMORY_CAUSES = frozenset({"host_oom_killed", "host_ram_starvation_wsl", "tmpfs_full"})
_NEWER_CAUSES = frozenset({"model_needs_newer_vllm", "model_needs_newer_transformers"})
_FILE_CAUSES = frozenset({"corrupt_or_unexpected_file", "model_config_not_found", "model_weights_not_found", "path_missing"})
_SCRIPT_CAUSES = frozenset({"flag_never_existed", "flag_removed", "flag_too_new", "flag_typo", "parser_name_invalid", "removed_env_var", "config_wrong_type", "path_missing"})


@dataclass(frozen=True)
class Repair:
    """A change that can be tried: the new plan, its files against the disk, and what it is in words."""

    summary: str
    session: Session
    plan: Plan
    changes: tuple[Change, ...]
    changed: dict[str, Any] = field(default_factory=dict)  # answers: key -> value, None: taken back
    fingerprint: str = ""


def examine(log: str, release: str | None, host: Host, returncode: int | None = None) -> Diagnosis:
    """What the log tells, with a look at this machine where the log alone cannot tell."""
    from wizard.diagnose import held, machine
    from wizard.diagnose.engine import Known, diagnose
    from wizard.diagnose.reader import read_bytes
    from wizard.probes import gpu

    # launch.sh says beforehand by which words one sees that it is ready: they are not the server's.
    lines = [line for line in log.split("\n") if "Application startup complete”" not in line]
    found = diagnose(read_bytes("\n".join(lines).encode("utf-8", "replace")), Known(release))
    stopped = [f for f in found.findings if f.rule == "launch-script"]
    if stopped:
        # The script's checks come before vLLM: nothing after them has run.
        found.findings = stopped
    if returncode in KILLED and all(" WARNING " in (f.line or "") for f in found.findings):
        # A warning is not what killed it.
        found.findings = [_killed(), *found.findings]
    machine.look(host, found)
    if held.asks_for_memory(found):
        held.hold(found, gpu.probe(host))
    return found


def _killed() -> Finding:
    from wizard.diagnose.engine import Finding

    finding = Finding("host_oom_killed", _("The server was killed from outside (SIGKILL)"), None, None, "low")
    finding.explanation = _(
        "A process that is killed cannot say why. Mostly it is the kernel, when the machine's memory is used up, or a container that reached its limit."
    )
    finding.look = [_("sudo dmesg | grep -i 'killed process'")]
    return finding


def propose(
    diagnosis: Diagnosis, session: Session, plan: Plan, folder: Path, host: Host, tried: frozenset[str]
) -> Repair | None:
    """The first fix of the best finding (then of the next) that can be carried out by changed answers."""
    for finding in diagnosis.findings:
        for summary, changed in candidates(finding, session, plan, host):
            made = _try(summary, changed, session, plan, folder, tried)
            if made is not None:
                return made
    return None


def candidates(finding: Finding, session: Session, plan: Plan, host: Host) -> list[tuple[str, dict[str, Any]]]:
    """(words, answers) in the order in which they are worth trying."""
    out: list[tuple[str, dict[str, Any]]] = []
    out += _special(finding, session, plan, host)
    for fix in finding.fixes:
        changed = _answers_of(fix, plan)
        if changed and _can_be_said_here(changed, plan):
            out.append((fix.summary, changed))
    # Files that were edited by hand, or made by another version: the plan's own are a way out as well.
    if finding.cause in _SCRIPT_CAUSES:
        out.append((_("Write the start script anew, without what vLLM refuses."), {}))
    return out


# What stands in a fix where only the user knows the value, as http://PROXY:PORT.
_STAND_IN = re.compile(r"(?<![A-Za-z0-9_])(?:YOUR-[A-Z]+|PROXY|PORT|HOST|MODEL_FOLDER|REPOSITORY)(?![A-Za-z0-9_])")


def _can_be_said_here(changed: dict[str, Any], plan: Plan) -> bool:
    """Whether a fix holds a value, and no word in the place of one; to work offline the model must be here."""
    if any(_STAND_IN.search(str(value)) for value in changed.values()):
        return False
    offline = any(str(changed.get(f"env.{name}", "")) == "1" for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return not offline or (plan.model is not None and plan.model.is_local)


def _answers_of(fix: Fix, plan: Plan) -> dict[str, Any]:
    """The answers that a fix changes; {} when it is nothing that answers can say (a command, a driver)."""
    from wizard.diagnose.engine import only_less

    out: dict[str, Any] = {}
    for flag, value in (only_less(fix.flags, lambda dest: _now(dest, plan)) if fix.less else fix.flags).items():
        option = _option(flag, plan)
        if option is None:
            return {}
        key = "limit_" + flag.rpartition(".")[2] + "s" if flag.startswith("--limit-mm-per-prompt.") else option.dest
        out[key] = None if value is None else switch_text(option, flag, "true" if value is True else str(value))
    for name, text in fix.env.items():
        out[f"env.{name}"] = "" if text is None else str(text)
    return out


def _now(dest: str, plan: Plan) -> str | None:
    """What the plan's command gives an option; None where vLLM's own default stands."""
    option = next((o for o in plan.release.options if o.dest == dest), None) if plan.release is not None else None
    at = next((n for n, word in enumerate(plan.argv[:-1]) if option is not None and word in option.flags), None)
    return None if at is None else str(plan.argv[at + 1])


def _option(flag: str, plan: Plan) -> Option | None:
    word = flag.partition("=")[0]
    options = plan.release.options if plan.release is not None else ()
    return next((o for o in options if word in o.flags or word.partition(".")[0] in o.flags), None)


def _special(finding: Finding, session: Session, plan: Plan, host: Host) -> list[tuple[str, dict[str, Any]]]:
    """What the rules cannot say because it depends on this machine or this plan."""
    cause = finding.cause
    if cause == "port_in_use":
        taken = host.listening_ports() | {int(plan.value("port", 8000))}
        port = next(p for p in range(8000, 65535) if p not in taken)
        return [(_("Take port {port}, which is free.").format(port=port), {"port": str(port)})]
    if cause == "environment_mismatch":
        return _release_that_is_there(finding, plan)
    if cause == "gpu_mem_in_use_by_other_process":
        return [(_("Plan anew with the memory that is free now."), {"gpu_memory_utilization": None})]
    if cause in _MEMORY_CAUSES:
        return _smaller(plan)
    if cause in _NEWER_CAUSES:
        return _newer_release(plan)
    if cause in _FILE_CAUSES:
        return _other_copies(session, plan)
    return []


def _release_that_is_there(finding: Finding, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    found = re.findall(r"\d+\.\d+\.\d+(?:\.post\d+)?", finding.title)
    known = {c.value for c in plan.choices.get("release", ())}
    if not found or (known and found[-1] not in known):
        return []
    return [(_("Plan for vLLM {version}, which the environment holds.").format(version=found[-1]), {"release": found[-1]})]


def _smaller(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Less memory, in steps that cost little first: requests at once, then the length, then the KV cache."""
    out: list[tuple[str, dict[str, Any]]] = []
    seqs, length = plan.value("max_num_seqs"), plan.value("max_model_len")
    less: dict[str, Any] = {}
    space = plan.env.get("VLLM_CPU_KVCACHE_SPACE", "")
    if space.isdigit() and int(space) > 1:
        less["env.VLLM_CPU_KVCACHE_SPACE"] = str(max(1, int(space) // 2))
    if isinstance(seqs, int) and seqs > 4:
        less["max_num_seqs"] = str(max(4, seqs // 4))
    if less:
        out.append((_("Take less memory: fewer requests at once, a smaller cache."), dict(less)))
    if isinstance(length, int) and length > 2048:
        out.append((_("Take less memory: a shorter context."), {**less, "max_model_len": str(max(2048, length // 2))}))
    return out


def release_asked(commands: Iterable[str]) -> str | None:
    """The release that a fix's commands bring, where they bring one: of an image's tag or of pip's line."""
    found = re.search(r"vllm-openai:v(\d+(?:\.\d+)+)|vllm>=(\d+(?:\.\d+)+)", " ".join(commands))
    return (found[1] or found[2]) if found is not None else None


def has_it_already(commands: Iterable[str], plan: Plan) -> str | None:
    """The plan's release, where a fix brings none that is newer."""
    from wizard.releases import version_key

    asked, own = release_asked(commands), plan.release
    return own.version if asked is not None and own is not None and version_key(own.version) >= version_key(asked) else None


def _newer_release(plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    from wizard.releases import version_key

    if plan.release is None:
        return []
    own = version_key(plan.release.version)
    newer = [c.value for c in plan.choices.get("release", ()) if not c.disabled and version_key(c.value) > own]
    newer.sort(key=version_key, reverse=True)
    return [
        (_("Take vLLM {version}, the newest that this machine can run.").format(version=v), {"release": v, "venv": None})
        for v in newer[:1]
    ]


def _other_copies(session: Session, plan: Plan) -> list[tuple[str, dict[str, Any]]]:
    """Another complete copy of the same model on this machine."""
    own = plan.host_model_path or (plan.model.source if plan.model is not None else "")
    name = own.rstrip("/").rpartition("/")[2]
    out = []
    for model in session.found:
        same = model.path.rstrip("/").rpartition("/")[2] == name or (plan.model is not None and model.name == plan.model.repo_id)
        if same and model.complete and not model.problem and model.path.rstrip("/") != own.rstrip("/"):
            out.append((_("Take the other copy of the model, in {path}.").format(path=model.path), {"model": model.path}))
    return out


def _try(
    summary: str, changed: dict[str, Any], session: Session, plan: Plan, folder: Path, tried: frozenset[str]
) -> Repair | None:
    from wizard.apply import State, prepare
    from wizard.outputs import files
    from wizard.plan import plan as make_plan

    try:
        new = with_answers(session, plan, changed)
        made = make_plan(new)
    except BadInput:
        return None
    if made.blockers or not made.can_serve:
        return None
    specs = [s for s in files(made) if not s.edited]
    mark = fingerprint_of({s.path: s.content for s in specs})
    if mark in tried:
        return None
    changes = tuple(c for c in prepare(specs, folder) if c.state is not State.SAME)
    if not any(Path(c.path).name in ("launch.sh", "compose.yaml") for c in changes):
        return None
    return Repair(summary, new, made, changes, changed, mark)


def with_answers(session: Session, plan: Plan, changed: dict[str, Any]) -> Session:
    """The session with these answers; None takes one back. Raises BadInput for what the release does not have."""
    from wizard.session import Layer
    from wizard.steps import set_answer

    for key, value in changed.items():
        session = session.forget(key) if value is None else set_answer(session, plan, key, str(value), Layer.USER)
    return session


def fingerprint_of(contents: dict[str, bytes]) -> str:
    """The fingerprint that :func:`wizard.launch.target.fingerprint` would give for these files."""
    from wizard.launch.target import digest_of

    return digest_of(contents.get)


def apply(repair: Repair) -> None:
    """Write the changed files (with backup and undo, as every write)."""
    from wizard.apply import write

    write(repair.changes)


def calibrate(log: str, plan: Plan, host: Host) -> tuple[bool, str] | None:
    """Keep the memory figures of a good start for this machine; (match, in words), or None without figures."""
    from wizard import fit_calibrate
    from wizard.fit import fit

    figures = fit_calibrate.read_log(log)
    if figures.empty or plan.fit is None or plan.fit_request is None or plan.model is None:
        return None
    request, predicted = plan.fit_request, plan.fit
    if figures.cpu and figures.kv_cache_bytes:
        # On a CPU the cache is as large as it was asked for (VLLM_CPU_KVCACHE_SPACE): no figure to predict.
        request = replace(request, kv_cache_memory_bytes=figures.kv_cache_bytes)
        predicted = fit(plan.model, request)
    # Solved against what is computed without older figures of this machine, which may be in the plan's.
    plain = fit(plan.model, request) if predicted.calibrated else predicted
    solved = fit_calibrate.solve(figures, request, plain)
    fit_calibrate.save(host, request, plan.model.repo_id or plan.model.source, solved)
    return fit_calibrate.verdict(fit_calibrate.compare(figures, predicted))
