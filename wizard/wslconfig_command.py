"""``vllm-wizard wslconfig``: check, edit, size and verify the settings of WSL."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.counts import whole_number
from wizard.errors import BadInput, WizardError
from wizard.i18n import _, ngettext, sentences
from wizard.program import spelt
from wizard.regular_file import require_regular

if TYPE_CHECKING:
    import argparse

    from wizard.facts import Machine, Wsl
    from wizard.outputs.wslconfig import Mode, Parsed, Problem, WslAdvice

GIB = 1 << 30
# Windows Server 2025 ends at 4 PB and 2048 logical processors; a figure far above was mistyped.
MAX_RAM_BYTES, MAX_CPUS = 1 << 53, 1 << 16
LIMIT_BYTES = 64 << 20  # a device or a pipe may have no end
ACTIONS = ("check", "edit", "tune", "verify")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words and options of ``vllm-wizard wslconfig``."""
    parser.add_argument(
        "action",
        choices=ACTIONS,
        help=_(
            "check: read a file as WSL does; edit: set single keys; tune: size the machine for a model; verify: are the settings in force"
        ),
    )
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="FILE | KEY=VALUE",
        help=_(
            "the file (- is standard input; without one: the file of this machine), and for edit what to set"
        ),
    )
    parser.add_argument(
        "--host-ram-bytes", type=whole_number(1, MAX_RAM_BYTES), metavar="N", help=_("RAM of the Windows machine, in bytes")
    )
    parser.add_argument(
        "--host-cpus", type=whole_number(1, MAX_CPUS), metavar="N", help=_("logical processors of the Windows machine")
    )
    parser.add_argument(
        "--wsl-conf", action="store_true", help=_("the file is an /etc/wsl.conf, whatever its name")
    )
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="KEY",
        help=_("edit: take a key out; may be repeated"),
    )
    parser.add_argument("--yes", "-y", action="store_true", help=_("edit: write without asking"))
    parser.add_argument("--dry-run", action="store_true", help=_("edit: show what would change and write nothing"))
    parser.add_argument(
        "--weights-gib", type=_figure, metavar="N", help=_("tune: size of the model's weights")
    )
    parser.add_argument("--gpus", type=whole_number(), metavar="N", help=_("tune: how many GPUs serve it"))
    parser.add_argument(
        "--offload-gib",
        type=_figure,
        default=0.0,
        metavar="N",
        help=_("tune: weights kept in RAM (CPU offload)"),
    )
    parser.add_argument(
        "--multimodal", action="store_true", help=_("tune: the model takes images, video or audio")
    )
    parser.add_argument(
        "--keep-alive", action="store_true", help=_("tune: keep WSL running when no terminal is open")
    )


def _figure(text: str) -> float:
    import argparse
    import math

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise argparse.ArgumentTypeError(_("“{text}” is no number of GiB").format(text=text))
    return number


def run(args: argparse.Namespace) -> int:
    """Do what ``args`` (of :func:`add_arguments`, ``--json`` and ``--machine``) asks for; the exit code."""
    return {"check": _check, "edit": _edit, "tune": _tune, "verify": _verify}[args.action](args)


# -- check ----------------------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    from wizard.outputs.wslconfig import parse

    name, data, machine = _input(args)
    mode = _mode(name, args.wsl_conf)
    ram, cpus = _host_figures(args, machine)
    parsed = parse(data or b"", mode, ram, cpus)
    if args.json:
        _print_json({"file": name, "present": data is not None, **to_json(parsed)})
    elif data is None:
        print(_("There is no {file} yet: WSL uses its defaults.").format(file=name))
    else:
        print("\n".join(report(name, parsed)))
    return 1 if parsed.problems or parsed.fatal is not None or not parsed.readable else 0


def _input(args: argparse.Namespace) -> tuple[str, bytes | None, Machine | None]:
    """The file to look at: its name, its content (None: not there yet), and the machine where one was asked."""
    if len(args.words) > 1:
        raise BadInput(_("Give one file, not {count}.").format(count=len(args.words)))
    if args.words:
        machine = _machine(args) if args.machine else None
        return args.words[0], _read(args.words[0]), machine
    machine = _machine(args)
    wsl = machine.wsl
    if wsl is None or wsl.wslconfig_path is None:
        raise BadInput(
            _(
                "No .wslconfig can be found from here{why}. Name the file: vllm-wizard wslconfig check FILE"
            ).format(
                why=f" ({wsl.windows_profile.reason})"
                if wsl is not None and wsl.windows_profile.reason
                else ""
            )
        )
    return wsl.wslconfig_path, wsl.wslconfig_bytes, machine


def _read(name: str) -> bytes:
    require_regular(name)
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
            data = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError as error:
        raise BadInput(_("There is no file {file}.").format(file=name)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(_("{file} cannot be read: {reason}").format(file=name, reason=reason)) from error
    if len(data) > LIMIT_BYTES:
        raise BadInput(
            _("{file} is larger than {mib} MiB: that is no settings file of WSL.").format(file=name, mib=LIMIT_BYTES >> 20)
        )
    return data


def _mode(name: str, forced: bool) -> Mode:
    return "wslconf" if forced or name.lower().endswith(("wsl.conf", ".wslconf")) else "wslconfig"


def _host_figures(args: argparse.Namespace, machine: Machine | None) -> tuple[int | None, int | None]:
    """The RAM and the processors of Windows: as given, else as the machine says."""
    ram, cpus = args.host_ram_bytes, args.host_cpus
    if machine is not None and machine.wsl is not None:
        ram = ram if ram is not None else machine.wsl.host_memory_bytes.value
        cpus = cpus if cpus is not None else machine.wsl.host_logical_cpus.value
    return ram, cpus


def to_json(parsed: Parsed) -> dict[str, Any]:
    """The verdict as plain data: what ``check --json`` prints."""
    import dataclasses

    effective = None
    if parsed.effective is not None:
        effective = {
            k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(parsed.effective).items()
        }
    return {
        "mode": parsed.mode,
        "encoding": parsed.encoding,
        "readable": parsed.readable,
        "complete": parsed.complete,
        "fatal": parsed.fatal,
        "accepted": [dataclasses.asdict(a) for a in parsed.accepted],
        "rejected": [dataclasses.asdict(r) for r in parsed.rejected],
        "problems": [dataclasses.asdict(p) for p in parsed.problems],
        "notes": [dataclasses.asdict(n) for n in parsed.notes],
        "effective": effective,
    }


def report(name: str, parsed: Parsed) -> list[str]:
    """The verdict for people, as lines."""
    count = len(parsed.accepted)
    lines = [
        _("{file} ({encoding}): {settings}").format(
            file=name,
            encoding=parsed.encoding.upper(),
            settings=ngettext("{n} setting counts", "{n} settings count", count).format(n=count),
        )
    ]
    width = max((len(a.key) for a in parsed.accepted), default=0)
    lines += [f"  {a.line:>4}  {a.key:<{width}}  {a.raw}" for a in parsed.accepted]
    lines += _listed(_("What WSL warns of or ignores:"), parsed.problems)
    lines += _listed(_("Worth knowing:"), parsed.notes)
    if parsed.fatal is not None:
        lines.append(_("WSL does not start with this file."))
    elif not parsed.complete:
        lines.append(_("WSL does not read this file to its end."))
    if parsed.effective is not None:
        lines.append(_effective_line(parsed))
    if not parsed.problems:
        lines.append(_("WSL itself warns of nothing.") if parsed.notes else _("No problems."))
    return lines


def _listed(title: str, problems: Iterable[Problem]) -> list[str]:
    rows = []
    for problem in problems:
        line = "" if problem.line is None else str(problem.line)
        key = f"{problem.key}: " if problem.key and problem.key not in problem.message else ""
        rows.append(f"  {line:>4}  {key}{problem.message}")
    return [title, *rows] if rows else []


def _effective_line(parsed: Parsed) -> str:
    effective = parsed.effective
    assert effective is not None
    unknown, unknown_cpus = (_("not known without {option}").format(option=o) for o in ("--host-ram-bytes", "--host-cpus"))
    memory = effective.memory_bytes
    swap = effective.swap_bytes
    return _(
        "The virtual machine gets: memory {memory}, swap {swap}, processors {processors}, network {network}."
    ).format(
        memory=unknown if memory is None else _gib(memory),
        swap=unknown if swap is None else _gib(swap),
        processors=unknown_cpus if effective.processors is None else effective.processors,
        network=effective.networking_mode,
    )


def _gib(size_bytes: int) -> str:
    return _("{gib:.1f} GiB").format(gib=size_bytes / GIB)


# -- edit -----------------------------------------------------------------------------------------------------


def _edit(args: argparse.Namespace) -> int:
    from wizard import apply
    from wizard.outputs.spec import FileSpec
    from wizard.outputs.wslconfig import edit, parse

    if args.machine:
        raise BadInput(_("A recorded machine is not edited. Name a file, or leave --machine out."))
    pairs = [w for w in args.words if "=" in w]
    files = [w for w in args.words if "=" not in w]
    if len(files) != 1:
        raise BadInput(_("Give the file and what to set: vllm-wizard wslconfig edit FILE wsl2.memory=24GB"))
    changes: dict[str, str | None] = {
        key.strip(): value for key, _eq, value in (p.partition("=") for p in pairs)
    }
    changes |= dict.fromkeys(args.remove)
    if not changes:
        raise BadInput(_("Say what to set (wsl2.memory=24GB) or to take out (--remove wsl2.memory)."))
    path = str(Path(files[0]).absolute())
    if not Path(path).parent.is_dir():
        raise BadInput(_("There is no folder {folder}. Make it first, or name another file.").format(folder=Path(path).parent))
    before = _read_or_none(files[0])
    content = edit(before, changes, _mode(files[0], args.wsl_conf))
    spec = FileSpec(path=path, content=content, edited=True, expected_bytes=before)
    shown = apply.prepare([spec], ".")
    writes = before != content and not args.dry_run
    asks = writes and not args.yes
    if asks and (args.json or not _can_ask()):
        raise BadInput(_("wslconfig edit asks before it writes, and there is no terminal to ask on. Add --yes to write, or --dry-run to look."))
    hints = _hints_of(parse(content, _mode(files[0], args.wsl_conf), args.host_ram_bytes, args.host_cpus), changes)
    if args.json:
        if writes:
            apply.write(shown)
        _print_json({"file": path, "state": shown[0].state.value, "written": writes, "diff": shown[0].diff, "notes": [h.message for h in hints]})
        return 0
    if before == content:
        print(_("{file} says so already; nothing to write.").format(file=path))
    else:
        print(shown[0].diff, end="")
    for line in _listed(_("Worth knowing:"), hints):
        print(line)
    if before == content:
        return 0
    if not writes:
        print(_("Nothing was written (--dry-run)."))
        return 0
    if asks and not _confirmed():
        print(_("Nothing was written."))
        return 1
    apply.write(shown)
    print(spelt(_("Written. vllm-wizard undo takes it back. It counts after wsl --shutdown (in PowerShell).")))
    return 0


def _hints_of(parsed: Parsed, changes: dict[str, str | None]) -> list[Problem]:
    """What is to be said of the settings that are changed, as they would stand in the file."""
    keys = {key.lower() for key in changes}
    return [p for p in (*parsed.problems, *parsed.notes) if p.key is not None and p.key.lower() in keys]


def _can_ask() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()


def _confirmed() -> bool:
    try:
        return input(_("Write this file? [y/N] ")).strip().lower() in ("y", "yes", _("yes"))
    except EOFError:
        print()
        return False


def _read_or_none(name: str) -> bytes | None:
    return _read(name) if Path(name).exists() else None


# -- tune and verify ------------------------------------------------------------------------------------------


def _machine(args: argparse.Namespace) -> Machine:
    from wizard.host import open_host
    from wizard.probes import run_all

    return run_all(open_host(args.machine))


def _tune(args: argparse.Namespace) -> int:
    from wizard.outputs.wslconfig import tune

    if args.words:
        raise BadInput(_("tune takes no file: it looks at this machine, or at --machine DIR."))
    machine = _machine(args)
    ram, cpus = _host_figures(args, machine)
    weights = None if args.weights_gib is None else round(args.weights_gib * GIB)
    advice = tune(
        host_ram_bytes=ram,
        host_cpus=cpus,
        weights_bytes=weights,
        gpu_count=args.gpus if args.gpus is not None else max(len(machine.gpu.gpus), 1),
        cpu_offload_bytes=round(args.offload_gib * GIB),
        multimodal=args.multimodal,
        existing=machine.wsl.wslconfig_bytes if machine.wsl is not None else None,
        keep_alive=args.keep_alive,
        machine=machine,
    )
    if args.json:
        import dataclasses

        _print_json({**dataclasses.asdict(advice), "changes": advice.changes})
    else:
        print("\n".join(_advice_lines(advice)))
        if weights is None:
            text = _("Note: {text}").format(text=_("The size of the model's weights was not given (--weights-gib N), so no memory is kept for them. vllm-wizard plan knows the model, and sizes WSL for it."))
            print(*columns.wrap(spelt(text), columns.of_prose(), "", "  "), sep="\n")
    return 1 if advice.question or advice.fits is False else 0


def _advice_lines(advice: WslAdvice) -> list[str]:
    lines = []
    for setting in advice.settings:
        mark = "*" if setting.change else " "
        value = _("(left out)") if setting.value is None else setting.value
        lines.append(f"{mark} {setting.key}={value}")
        lines += columns.wrap(setting.reason, columns.of_prose(), "    ", "    ")
    told = [_("Warning: {text}").format(text=w) for w in advice.warnings]
    told += [_("Note: {text}").format(text=n) for n in advice.notes]
    if advice.question:
        told.insert(0, sentences(advice.question, _("Give it with --host-ram-bytes N.")))
    if advice.changes:
        told.append(_("Lines with * are new; they count after wsl --shutdown (in PowerShell)."))
    return [*lines, *(line for text in told for line in columns.wrap(text, columns.of_prose(), "", "  "))]


def _verify(args: argparse.Namespace) -> int:
    """Whether what the user's own file asks for, or a proposal that waits for it, is in force in this WSL."""
    if args.words:
        raise BadInput(_("verify takes no file: it looks at this machine, or at --machine DIR."))
    machine = _machine(args)
    if not machine.is_wsl2:
        raise WizardError(_("This is not WSL 2; there is nothing to verify."))
    wsl = machine.wsl
    if wsl is None or wsl.wslconfig_path is None:
        raise WizardError(
            _(
                "The user's .wslconfig cannot be found from here ({why}), so there is nothing to compare with."
            ).format(why=wsl.windows_profile.reason if wsl is not None else _("no WSL"))
        )
    wanted, reasons = in_force(machine, recorded=bool(args.machine))
    absent = _not_there(wsl, wsl.wslconfig_path, recorded=bool(args.machine))
    # Where there is no file, what is wrong with single settings says no more than that.
    reasons = absent if wsl.wslconfig_bytes is None else [*absent, *reasons]
    if args.json:
        _print_json({"wanted": wanted, "in_force": not reasons, "reasons": reasons})
    elif reasons:
        print("\n".join(reasons))
    else:
        print(_("What the file asks for is in force, as far as it can be seen from inside."))
    return 1 if reasons else 0


def _not_there(wsl: Wsl, path: str, *, recorded: bool) -> list[str]:
    """Why nothing can be in force: there is no file of the user's, or none that can be read, or what was proposed after
    it was never copied there (of which most cannot be seen from inside). Empty where there is nothing of the kind."""
    if wsl.wslconfig_bytes is None and wsl.wslconfig_unread:
        return [_("{file} cannot be read: {reason}").format(file=path, reason=wsl.wslconfig_unread)]
    proposal = None if recorded else _waiting_proposal(path)
    told = [] if wsl.wslconfig_bytes is not None else [_("There is no {file}, so nothing of it can be in force: WSL uses its defaults.").format(file=path)]
    own = _asked_by(wsl.wslconfig_bytes)
    if wsl.wslconfig_bytes is None and wsl.windows_profile_candidates:
        told.append(_("This computer has several Windows users: the file of the one who starts WSL counts."))
    if proposal is not None and any(own.get(key) != value for key, value in _asked_by(proposal).items()):
        told.append(
            _("A proposal waits: {proposal}. Copy it to {file}, under exactly this name, then type wsl --shutdown in PowerShell.").format(proposal=proposal, file=path)
        )
    return told


def _asked_by(file: Path | bytes | None) -> dict[str, str]:
    """What a .wslconfig says that counts ("section.key" -> value); nothing where there is none, or none to be read."""
    from wizard.outputs.wslconfig import parse

    try:
        data = file.read_bytes() if isinstance(file, Path) else file
    except OSError:
        data = None
    return {a.key: a.raw for a in parse(data or b"").accepted}


def in_force(machine: Machine, *, recorded: bool) -> tuple[dict[str, str], list[str]]:
    """What WSL should have ("section.key" -> value), and why it has not; no reasons when all of it is in force.

    Wanted is what the user's own file says. A proposal that was written later than that file counts before it:
    it was meant to be copied there. A recorded machine has no such record.
    """
    from wizard.outputs.wslconfig import verify_in_force

    wsl = machine.wsl
    wanted = _asked_by(wsl.wslconfig_bytes if wsl is not None else None)
    if wsl is not None and not recorded:
        waiting = _waiting_proposal(wsl.wslconfig_path)
        wanted |= _asked_by(waiting)
    return wanted, verify_in_force(machine, wanted)


def _waiting_proposal(own_path: str | None) -> Path | None:
    """The last proposal on record, when it is newer than the user's own file; None otherwise."""
    from wizard import apply

    for path in apply.files_on_record():
        if Path(path).name != ".wslconfig":
            continue
        try:
            own_time = Path(own_path).stat().st_mtime if own_path is not None and Path(own_path).exists() else 0.0
            return Path(path) if path != own_path and Path(path).stat().st_mtime > own_time else None
        except OSError:
            return None
    return None


def _print_json(data: Any) -> None:
    json.dump(data, sys.stdout, ensure_ascii=False, indent=1)
    print()
