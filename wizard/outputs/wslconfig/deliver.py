"""Hand the edited ``.wslconfig`` over: in place or as a proposal, the copying by hand, and whether it is in force."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wizard.errors import WizardError
from wizard.facts import Machine, SystemKind
from wizard.i18n import _, labelled, listed, sentences
from wizard.outputs.quoting import powershell_string
from wizard.outputs.spec import FileSpec
from wizard.outputs.wslconfig import keys
from wizard.outputs.wslconfig.edit import edit, head
from wizard.outputs.wslconfig.parse import GIB, Parsed, parse
from wizard.outputs.wslconfig.tune import WslAdvice
from wizard.plan_types import Plan
from wizard.wsl_grammar import Entry

NAME = ".wslconfig"
_PROFILE_FILE = "(Join-Path $env:USERPROFILE '.wslconfig')"
_BEFORE = "($f + '.before-vllm')"

# Linux keeps a part of the VM's memory for itself before MemTotal is counted: 2 to 4 % were seen.
_KERNEL_SHARE, _KERNEL_BYTES = 0.06, GIB // 4


def to_filespec(machine: Machine, advice: WslAdvice, out_dir: str = "", apply: bool = False) -> FileSpec:
    """The edited file of the user: in the Windows profile when ``apply``, else a proposal in the output folder.

    Raises WizardError when it cannot be edited, or when ``apply`` is asked for and the profile is not known
    (the message says how to go on by hand). ``out_dir`` only names the proposal in that message.
    """
    wsl = machine.wsl
    existing = wsl.wslconfig_bytes if wsl is not None else None
    content = edit(existing, advice.changes, reasons={s.key: s.reason for s in advice.settings})
    if not content:
        content = head()
    if not apply:
        return FileSpec(path=NAME, content=content, title=_("settings of WSL2, a proposal"))
    if wsl is None or wsl.wslconfig_path is None:
        why = wsl.windows_profile.reason if wsl is not None else ""
        raise WizardError(
            _(
                "The Windows profile folder is not known ({why}), so {name} cannot be written there. Write the proposal to {out} and copy it in PowerShell: {line}"
            ).format(
                why=why or _("this is no WSL"),
                name=NAME,
                out=out_dir or ".",
                line=hand_copy(machine, out_dir).line,
            )
        )
    return FileSpec(
        path=wsl.wslconfig_path,
        content=content,
        edited=True,
        expected_bytes=existing,
        title=_("settings of WSL2"),
    )


# The questions that decide settings of the file.
_DECIDED = {"wsl2.memory": "wsl_memory_gib", "wsl2.swap": "wsl_swap_gib", "wsl2.processors": "wsl_processors"}


def reasons_of(plan: Plan) -> dict[str, str]:
    """The reason of each setting that the plan decided."""
    return {key: plan.reason(question) for key, question in _DECIDED.items() if plan.reason(question)}


@dataclass(frozen=True)
class HandCopy:
    """Copying the proposal by hand: one line for PowerShell (no administrator), and what to know of it: what it does
    to a file that is there, and the line that takes it back."""

    line: str
    note: str


def hand_copy(machine: Machine, out_dir: str) -> HandCopy:
    """How a proposal that lies in ``out_dir`` (absolute, as this machine says it) gets into the Windows profile.

    The line asks Windows for the profile itself, so no user name stands in it. An existing file is kept as
    ``.wslconfig.before-vllm`` the first time; one that could not be read is never replaced, since the proposal does
    not hold its lines.
    """
    source = _source(machine, out_dir)
    copy = f"Copy-Item -LiteralPath {source} -Destination $f"
    first = f"(Test-Path -LiteralPath $f) -and -not (Test-Path -LiteralPath {_BEFORE})"
    line = f"$f = {_PROFILE_FILE}; if ({first}) {{ Copy-Item -LiteralPath $f -Destination {_BEFORE} }}; {copy}"
    back = taking_back_line()
    wsl = machine.wsl
    if wsl is not None and wsl.wslconfig_path is not None and wsl.wslconfig_bytes is None and not wsl.wslconfig_unread:
        note, back = _("You have no .wslconfig yet."), f"{back} else {{ Remove-Item -LiteralPath $f }}"
    elif wsl is not None and wsl.wslconfig_bytes is not None:
        note = _("The proposal is your own file with only the needed lines changed.")
    else:
        told = _("You have a .wslconfig already: it is left as it is. Put these lines into it, each below the heading that stands above it here:")
        line = f"$f = {_PROFILE_FILE}; if (Test-Path -LiteralPath $f) {{ Write-Host {powershell_string(told)}; Get-Content -LiteralPath {source} }} else {{ {copy} }}"
        note = sentences(
            _("Your own .wslconfig could not be read from here, so the proposal holds only our lines. If you have one already, the line leaves it as it is and shows what to put into it."),
            _("If it was put there by this line, this takes it back one day: {line}").format(line=f"Remove-Item -LiteralPath {_PROFILE_FILE}"),
        )
        return HandCopy(line, note)
    return HandCopy(line, sentences(note, _("To take it back one day: {lines}").format(lines=back)))


def taking_back_line() -> str:
    """A line for PowerShell that brings back the .wslconfig that lay in the profile before the proposal, if one did."""
    return f"$f = {_PROFILE_FILE}; if (Test-Path -LiteralPath {_BEFORE}) {{ Move-Item -Force -LiteralPath {_BEFORE} -Destination $f }}"


def _source(machine: Machine, out_dir: str) -> str:
    """The proposal as a PowerShell expression."""
    if machine.system is SystemKind.WINDOWS:
        return powershell_string(out_dir.rstrip("\\/") + "\\" + NAME)
    path = posixpath.join(out_dir or ".", NAME)
    mount = machine.mount_of(path)
    if mount is not None and mount.windows_path:
        rest = path[len(mount.path.rstrip("/")) :].lstrip("/")
        return powershell_string(mount.windows_path.rstrip("\\") + "\\" + rest.replace("/", "\\"))
    distro = machine.wsl.distro.value if machine.wsl is not None else None
    if distro and path.startswith("/"):
        return powershell_string(f"\\\\wsl.localhost\\{distro}" + path.replace("/", "\\"))
    return f"(wsl.exe wslpath -w {powershell_string(path)})"


def shutdown_text(machine: Machine, running: Sequence[str] = ()) -> str:
    """What ``wsl --shutdown`` ends, for the user to decide on; ``running`` are names of running distributions."""
    names = list(running)
    distro = machine.wsl.distro.value if machine.wsl is not None else None
    on_windows = machine.system is SystemKind.WINDOWS
    if distro and distro not in names and not on_windows:
        names.insert(0, distro)
    if on_windows and not names:
        parts = [_("It ends every WSL distribution at once; none runs now.")]
    elif names:
        parts = [
            _("It ends every WSL distribution at once ({names}) with all that runs in them.").format(
                names=listed(names)
            )
        ]
    else:
        parts = [_("It ends every WSL distribution at once with all that runs in them.")]
    if not on_windows:
        parts.append(_("This terminal ends, too."))
    if machine.docker.is_desktop.value:
        parts.append(
            _(
                "Docker Desktop and its containers run in the same virtual machine and are ended as well; start it again afterwards."
            )
        )
    parts.append(
        _("Save open work first. Nothing on the disks is lost; the next start of WSL takes the new settings.")
    )
    return sentences(*parts)


def verify_in_force(machine: Machine, wanted: Mapping[str, str]) -> list[str]:
    """Why the settings ``wanted`` ("section.key" -> value) are not in force in the WSL that runs now; [] if all are.

    Compares what the VM has (memory, swap, processors, networking mode) with what was wanted and looks into the
    user's file for the reason. A figure that is not known gives no reason. Only for WSL 2.
    """
    if machine.wsl is None or not machine.is_wsl2:
        return []
    missing = [key for key, value in wanted.items() if _differs(machine, key, value)]
    if not missing:
        return []
    wsl = machine.wsl
    if wsl.wslconfig_path is None:
        return [
            _(
                "The file cannot be checked from here: the Windows profile folder is not known ({why}). See that {name} lies in %USERPROFILE%, then type wsl --shutdown in PowerShell."
            ).format(why=wsl.windows_profile.reason or _("no reason given"), name=NAME)
        ]
    where = _windows_name(machine)
    if wsl.wslconfig_bytes is None:
        reasons = [
            _(
                "There is no {where}: WSL reads that file and no other (the proposal has to be copied there, under exactly this name)."
            ).format(where=where)
        ]
        if wsl.windows_profile_candidates:
            reasons.append(
                _("This computer has several Windows users: the file of the one who starts WSL counts.")
            )
        return reasons
    parsed = parse(wsl.wslconfig_bytes, "wslconfig", wsl.host_memory_bytes.value, wsl.host_logical_cpus.value)
    if not parsed.readable:
        return [labelled(where, parsed.problems[0].message)]
    if parsed.fatal is not None:
        return [labelled(where, parsed.fatal)]
    reasons = [reason for key in missing for reason in _why(machine, parsed, key, wanted[key], where)]
    if not reasons:
        reasons.append(
            _(
                "{where} asks for it ({keys}), but this WSL was started before: type wsl --shutdown in PowerShell, wait until wsl --list --running shows nothing (about 8 seconds), and start it again."
            ).format(where=where, keys=", ".join(f"{k}={wanted[k]}" for k in missing))
        )
    return list(dict.fromkeys(reasons))


def _windows_name(machine: Machine) -> str:
    profile = machine.wsl.windows_profile_windows.value if machine.wsl is not None else None
    return profile.rstrip("\\") + "\\" + NAME if profile else "%USERPROFILE%\\" + NAME


def _differs(machine: Machine, name: str, value: str) -> bool:
    """Whether the running VM is known not to have this setting."""
    wsl = machine.wsl
    size = keys.parse_size(value)
    if name == "wsl2.memory":
        total = machine.memory.total_bytes.value
        if total is None or not size:
            return False
        size = min(size, wsl.host_memory_bytes.value or size) if wsl is not None else size
        return not size * (1 - _KERNEL_SHARE) - _KERNEL_BYTES <= total <= size + GIB // 16
    if name == "wsl2.swap":
        swap = machine.memory.swap_total_bytes.value
        return swap is not None and size is not None and abs(swap - size) > max(size // 100, 1 << 20)
    if name == "wsl2.processors":
        count, cpus = keys.parse_int(value), machine.cpu.logical_count.value
        return cpus is not None and count is not None and count > 0 and cpus != count
    if name == "wsl2.networkingMode":
        mode = wsl.networking_mode.value if wsl is not None else None
        return mode is not None and _network_name(mode) != _network_name(value)
    return False


def _network_name(mode: str) -> str:
    return {"virtioproxy": "consomme"}.get(mode.lower(), mode.lower())


def _why(machine: Machine, parsed: Parsed, name: str, value: str, where: str) -> list[str]:
    """Reasons within the file for one setting that is not in force; [] when the file is right."""
    key = keys.find(name, "wslconfig")
    wsl = machine.wsl
    if key is None or wsl is None:
        return []
    now = parsed.get(name)
    if now is None:
        return [_not_accepted(parsed, key, where)]
    if _value(key, now.raw) != _value(key, value):
        return [
            _("{where} line {line} says {key}={raw}, not {value}.").format(
                where=where, line=now.line, key=key.name, raw=now.raw, value=value
            )
        ]
    host_ram, host_cpus = wsl.host_memory_bytes.value, wsl.host_logical_cpus.value
    size = keys.parse_size(value)
    if name == "wsl2.memory" and host_ram is not None and size is not None and size > host_ram:
        return [
            _(
                "{key}={value} is more than the {ram:.1f} GiB that Windows has: WSL takes that much and says nothing."
            ).format(key=name, value=value, ram=host_ram / GIB)
        ]
    count = keys.parse_int(value)
    if name == "wsl2.processors" and host_cpus is not None and count is not None and count > host_cpus:
        return [
            _(
                "{key}={value} is more than the {cpus} logical processors of this machine: WSL uses {cpus}."
            ).format(key=name, value=value, cpus=host_cpus)
        ]
    if name == "wsl2.swap":
        return _why_swap(machine, parsed)
    if name == "wsl2.networkingMode":
        return [
            _(
                "{where} asks for {key}={value}: type wsl --shutdown in PowerShell and start WSL again; if it stays as it is, the computer's policy forbids it (WSL then says so when it starts)."
            ).format(where=where, key=name, value=value)
        ]
    return []


def _why_swap(machine: Machine, parsed: Parsed) -> list[str]:
    effective = parsed.effective
    if machine.memory.swap_total_bytes.value != 0 or effective is None:
        return []
    if effective.swap_bytes == 0:
        return [_("safeMode is on: WSL then makes no swap.")]
    if effective.swap_file:
        return [
            _(
                "There is no swap at all: WSL could not make {file} (is its folder there, and is its disk full?), or it was not restarted since."
            ).format(file=effective.swap_file)
        ]
    return []


def _value(key: keys.Key, raw: str) -> object:
    return (
        keys.parse_size(raw)
        if key.kind == "size"
        else keys.parse_int(raw)
        if key.kind == "int"
        else raw.lower()
    )


def _not_accepted(parsed: Parsed, key: keys.Key, where: str) -> str:
    """Why a key that should count does not."""
    tail = key.name.rpartition(".")[2].lower()
    section = key.name.partition(".")[0]
    refused = next((r for r in parsed.rejected if r.key == key.name), None)
    if refused is not None:
        return _(
            "{where} line {line}: WSL refuses {raw!r} for {key}, and a later line of the same key does not count either."
        ).format(where=where, line=refused.line, raw=refused.raw, key=key.name)
    for item in parsed.items:
        if isinstance(item, Entry) and item.name.rpartition(".")[2].lower() == tail:
            return _(
                "{where} line {line}: {name} stands in the wrong section; it counts under [{section}] only."
            ).format(where=where, line=item.line, name=item.name, section=section)
    broken = next((p for p in parsed.problems if p.key is None and p.line is not None), None)
    if broken is not None:
        return _("{where} has no {key} that counts; line {line} is broken: {message}").format(
            where=where, key=key.name, line=broken.line, message=broken.message
        )
    return _("{where} has no {key}: it was written elsewhere, or taken out since.").format(
        where=where, key=key.name
    )


__all__ = ["NAME", "HandCopy", "hand_copy", "shutdown_text", "to_filespec", "verify_in_force"]
