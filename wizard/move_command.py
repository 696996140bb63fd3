"""``vllm-wizard move SRC [DST]``: plan, run and finish a move from the command line."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from wizard.counts import size_text
from wizard.errors import BadInput, WizardError
from wizard.i18n import _, ngettext
from wizard.plain_text import printable
from wizard.program import spelt

if TYPE_CHECKING:
    import argparse

    from wizard.apply import Change
    from wizard.facts import Machine
    from wizard.host import Host
    from wizard.models.move import MovePlan, Mover, MoveResult, MoveStatus, Progress

GIB = 1 << 30
MIB = 1 << 20
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words and options of ``vllm-wizard move``."""
    parser.add_argument(
        "src",
        nargs="?",
        metavar="SRC",
        help=_("what to move: a model folder, a cache entry (models--org--name), or a .gguf file"),
    )
    parser.add_argument(
        "dst",
        nargs="?",
        metavar="DST",
        help=_("its new place (default: ~/models/NAME, or the same cache in the Linux home)"),
    )
    parser.add_argument(
        "--exact", action="store_true", help=_("DST is the model's own new place, even if a folder is there already")
    )
    parser.add_argument("--yes", "-y", action="store_true", help=_("begin, or with --discard throw away, without asking"))
    parser.add_argument(
        "--delete-source",
        action="store_true",
        help=_("delete the source once every byte of the copy is proven"),
    )
    switch = parser.add_mutually_exclusive_group()
    switch.add_argument(
        "--switch",
        action="store_true",
        help=_("name the new place in the scripts and answers written earlier, without asking (--yes does so, too)"),
    )
    switch.add_argument("--no-switch", action="store_true", help=_("leave them as they are"))
    parser.add_argument("--dry-run", action="store_true", help=_("show what would be done and write nothing"))
    parser.add_argument("--list", action="store_true", help=_("list moves that were begun and not finished"))
    parser.add_argument(
        "--discard", metavar="DST", help=_("throw away the unfinished copy for DST; the source is not touched")
    )
    parser.add_argument(
        "--vhdx-drive",
        metavar="LETTER",
        help=_("on WSL2: the Windows drive that holds the distro's disk, when it is not C"),
    )


def run(args: argparse.Namespace | Sequence[str]) -> int:
    """Do what ``args`` asks for: parsed arguments, or the words behind ``move``. Returns the exit code."""
    import argparse

    if not isinstance(args, argparse.Namespace):
        args = _parse(args)
    if args.discard:
        return _discard(args)
    if args.list:
        return _list(args.json)
    if not args.src:
        raise BadInput(_("say what to move: vllm-wizard move SRC [DST]"))
    try:
        return _move(args)
    except WizardError as error:
        if args.json:
            # The last of the events; the words stand on standard error as well, as with every command.
            kind = "bad_input" if isinstance(error, BadInput) else "failed"
            told = {"kind": kind, "message": str(error), "exit_code": error.exit_code}
            _line({"event": "error", "message": str(error), "exit_code": error.exit_code, "error": told})
            print(printable(f"vllm-wizard: {error}"), file=sys.stderr)
            return error.exit_code
        raise


def _parse(words: Sequence[str]) -> argparse.Namespace:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> None:  # type: ignore[override]
            raise BadInput(message)

    parser = Parser(prog="vllm-wizard move", allow_abbrev=False)
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--machine", metavar="DIR")
    return parser.parse_intermixed_args(list(words))


# --- the move


def _move(args: argparse.Namespace) -> int:
    from wizard.models.move import MoveKind, Mover, MoveState, moved_paths, plan_move
    from wizard.models.move_scan import looks_like_model

    host, machine = _machine(args.machine)
    looking = _Looking(args.src)
    try:
        plan = plan_move(
            machine, args.src, args.dst, host=host, env=host.env, vhdx_drive=args.vhdx_drive, exact=args.exact, on_look=looking
        )
    finally:
        looking.end()
    if args.json:
        _line({"event": "plan", **plan.to_json()})
    else:
        print(describe(plan))
    if plan.refusals:
        from wizard.models.move import refusal_error

        raise refusal_error(plan)
    if args.dry_run:
        return 0
    strange = plan.kind is MoveKind.FOLDER and not looks_like_model(plan.files)
    if strange and args.yes:
        raise BadInput(
            _("{path} does not look like a model (no config, no weights), so it is not moved without asking. Leave out --yes.").format(
                path=_shown(plan.src)
            )
        )
    if not _may(args, plan.simulated, _("Begin?"), default=not strange):
        return 1
    show = _JsonProgress() if args.json else _Bar() if sys.stdout.isatty() else _Lines()
    mover = Mover(plan, on_progress=show, interval_s=0.25 if args.json else 0.1, simulated_seconds=2.0)
    with _signals(mover) as caught:
        result = mover.run()
    show.end()
    if args.json:
        _line({"event": "result", **result.to_json(), "simulated": plan.simulated, "moved_paths": moved_paths(plan)})
    if result.state is MoveState.PARTIAL:
        if not args.json:
            print(_("Stopped. What is proven is kept: the same command goes on from there."))
        return INTERRUPTED if signal.SIGINT in caught else 1
    if not args.json:
        print(_finished(plan, result, deletes=args.delete_source and (args.yes or not _asks())))
    if not plan.simulated:
        _switch(args, plan)
    return _maybe_delete(args, plan)


# --- what pointed to the old place


def switch_changes(plan: MovePlan) -> tuple[list[Change], tuple[str, ...]]:
    """Our own files (scripts, answers) that name the old place, as they would become; and those that cannot be
    changed word by word. Nothing is written: ``wizard.apply.write`` does that, and ``undo`` takes it back."""
    from pathlib import Path

    from wizard import apply
    from wizard.models.move import moved_paths
    from wizard.outputs.moved import LIMIT_BYTES, switch_files

    files: dict[str, bytes] = {}
    for path in apply.files_on_record():
        with suppress(OSError):
            if Path(path).stat().st_size <= LIMIT_BYTES:
                files[path] = Path(path).read_bytes()
    found = switch_files(files, moved_paths(plan))
    return apply.prepare(found.specs, "/"), found.by_hand


def _switch(args: argparse.Namespace, plan: MovePlan) -> None:
    """Show what would change in files that name the old place, and change it with consent."""
    from wizard import apply

    try:
        changes, by_hand = switch_changes(plan)
        wanted = bool(changes) and (args.switch or args.yes) and not args.no_switch
        if not args.json:
            for change in changes:
                print(change.diff, end="")
            for path in by_hand:
                print(_("{path} names the old place in a way that cannot be changed word by word: write it anew.").format(path=_shown(path)))
            if changes and not wanted and not args.no_switch and _asks():
                wanted = _question(
                    ngettext(
                        "Name the new place in this file?", "Name the new place in these {n} files?", len(changes)
                    ).format(n=len(changes)),
                    default=True,
                )
        receipt = apply.write(changes) if wanted else None
        if not changes and not by_hand:
            return
    except WizardError as error:
        # The model is moved and proven all the same.
        if args.json:
            _line({"event": "switch", "files": [], "by_hand": [], "written": False, "error": str(error)})
        else:
            print(_("warning: {text}").format(text=error))
        return
    if args.json:
        files = [{"path": c.path, "diff": c.diff} for c in changes]
        _line({"event": "switch", "files": files, "by_hand": list(by_hand), "written": receipt is not None, "error": ""})
    elif receipt is not None:
        print(spelt(_("The new place is named in them now. vllm-wizard undo takes that back.")))
    elif changes:
        print(_("They were left as they are. The same command with --switch changes them."))


def _maybe_delete(args: argparse.Namespace, plan: MovePlan) -> int:
    from wizard.models.move import delete_source

    asks = _asks() and not args.yes and not args.json
    if args.delete_source:
        wanted = not asks or _question(_("Delete {src}?").format(src=_shown(plan.src)), default=False)
    else:
        wanted = asks and _question(
            _("The copy is proven. Delete the source, {src}?").format(src=_shown(plan.src)), default=False
        )
    if not wanted:
        return 0
    result = delete_source(plan)
    if args.json:
        _line({"event": "deleted", **result.to_json()})
    else:
        count = ngettext("{n} file", "{n} files", result.deleted_files).format(n=result.deleted_files)
        print(
            _("Deleted from the old place: {count}, {size}.").format(count=count, size=size_text(result.freed_bytes))
        )
        for line in result.kept:
            print("  " + _("kept: {what}").format(what=line))
    return 1 if result.kept else 0


def _machine(recorded: str | None) -> tuple[Host, Machine]:
    """The host, and as much of the machine's facts as a move needs: a recorded one is read as a whole."""
    from wizard import facts
    from wizard.host import open_host
    from wizard.probes import disks, run_all
    from wizard.probes.system import detect_kind

    host = open_host(recorded)
    if recorded is not None:
        return host, run_all(host)
    why: facts.Fact[Any] = facts.unknown(_("not asked for a move"))
    return host, facts.Machine(
        name=host.name,
        system=detect_kind(host),
        os_name=why,
        kernel=why,
        home=host.home,
        cpu=facts.Cpu(why, why, host.machine),
        memory=facts.Memory(why, why, why, why),
        gpu=facts.GpuStack(),
        docker=facts.Docker(why, why, why, why, why),
        python=facts.PythonFacts(why, why, why),
        mounts=disks.probe(host),
    )


@contextmanager
def _signals(mover: Mover) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the move in order, with all that is proven kept."""
    caught: list[int] = []

    def stop(number: int, _frame: object) -> None:
        caught.append(number)
        # Not from inside the handler: it may have interrupted the very lock that is needed.
        threading.Thread(target=mover.cancel, daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    numbers = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])
    before = {n: signal.signal(n, stop) for n in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- other actions


def _discard(args: argparse.Namespace) -> int:
    from pathlib import Path

    from wizard.models.move import discard, has_copy

    path = str(Path(args.discard).expanduser().absolute())
    if has_copy(path) and not _may(args, False, _("Throw away the unfinished copy for {dst}?").format(dst=_shown(path)), default=False):
        return 1
    there = discard(path)
    if args.json:
        _line({"event": "discarded", "dst": path, "there": there})
    elif there:
        print(_("The unfinished copy for {dst} is gone.").format(dst=path))
    else:
        print(_("There is no unfinished copy for {dst}.").format(dst=path))
    return 0 if there else 1


def _list(as_json: bool) -> int:
    from wizard.models.move import pending_moves

    pending = pending_moves()
    if as_json:
        print(json.dumps([p.to_json() for p in pending]))
        return 0
    if not pending:
        print(_("No move is unfinished."))
    for p in pending:
        print(_pending_line(p))
    return 0


def _pending_line(p: MoveStatus) -> str:
    state = _("running now") if p.running else _("stopped") if p.source_there else _("stopped, source not there now")
    return _("{name}: {done} of {total}, {state}\n  from {src}\n  to   {dst}").format(
        name=_shown(p.name),
        done=size_text(p.bytes_done),
        total=size_text(p.bytes_total),
        state=state,
        src=_shown(p.src),
        dst=_shown(p.dst),
    )


# --- texts


def describe(plan: MovePlan) -> str:
    """The plan for people, in several lines."""
    from wizard.models.move import MoveState, summary
    from wizard.models.move_place import about_seconds

    lines = [summary(plan)]
    if plan.simulated:
        lines.append(_("  (a recorded machine: the move is only played through, nothing is copied)"))
    if plan.state is MoveState.PARTIAL:
        lines.append(
            "  " + _("goes on: {size} are proven from an earlier run").format(size=size_text(plan.bytes_already))
        )
    if plan.state in (MoveState.PROVEN, MoveState.DELETED):
        lines.append("  " + _("moved already; the copy is looked at again"))
    elif plan.seconds_estimate is not None and plan.ok:
        lines.append(
            "  "
            + _("about {time} at {rate:.0f} MB/s ({source})").format(
                time=duration(about_seconds(plan.seconds_estimate)), rate=(plan.rate_bytes_per_s or 0) / 1e6, source=plan.rate_source
            )
        )
    space = plan.space
    if space.free_bytes is not None:
        lines.append(
            "  "
            + _("room: {need} needed, {free} free").format(need=size_text(space.needed_bytes), free=size_text(space.free_bytes))
        )
    lines += ["  " + _("note: {text}").format(text=n) for n in space.notes]
    lines += ["  " + _("warning: {text}").format(text=w) for w in plan.warnings]
    lines += ["  " + _("cannot: {text}").format(text=r.message) for r in plan.refusals[1:6]]
    return "\n".join(lines)


def _finished(plan: MovePlan, result: MoveResult, *, deletes: bool = False) -> str:
    from wizard.models.move import moved_paths

    if plan.simulated:
        return _("Played through. On the real machine this move would take about {time}.").format(
            time=duration(result.seconds)
        )
    size = size_text(result.bytes_total)
    if result.proven_at is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(result.proven_at))
        told = _("Done already: {size} at {dst}, every byte verified on {when} and unchanged since.")
        lines = [told.format(size=size, dst=_shown(result.dst), when=when)]
    else:
        lines = [_("Done: {size} at {dst}, every byte read back and equal.").format(size=size, dst=_shown(result.dst))]
    if result.bytes_copied and result.seconds > 0:
        lines.append(
            "  "
            + _("{time}, {rate:.0f} MB/s with the proof").format(
                time=duration(result.seconds), rate=result.bytes_copied / result.seconds / 1e6
            )
        )
    if result.past_page_cache is False:
        lines.append("  " + _("(this file system gave no way past the page cache to read it back)"))
    lines += ["  " + _("warning: {text}").format(text=w) for w in result.warnings]
    lines += [f"  {_shown(old)} -> {_shown(new)}" for old, new in list(moved_paths(plan).items())[:6]]
    if not deletes:
        lines.append(_("The source is still there: {src}").format(src=_shown(plan.src)))
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """``1 h 02 min``, ``3 min 05 s``, ``12 s``."""
    whole = int(seconds + 0.5)
    if whole >= 3600:
        return _("{h} h {m:02d} min").format(h=whole // 3600, m=whole % 3600 // 60)
    if whole >= 60:
        return _("{m} min {s:02d} s").format(m=whole // 60, s=whole % 60)
    return _("{s} s").format(s=whole)


def _shown(path: str) -> str:
    from wizard.models.move_scan import show

    return show(path)


def _line(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


def _asks() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _may(args: argparse.Namespace, simulated: bool, question: str, default: bool) -> bool:
    """Whether to go on: --yes, or a yes on the terminal. Raises BadInput where there is nobody to ask."""
    if args.yes or simulated:
        return True
    if args.json or not _asks():
        raise BadInput(
            _("move asks before it begins or throws away, and there is no terminal to ask on. Add --yes to go on, or --dry-run to look.")
        )
    return _question(question, default)


def _question(text: str, default: bool) -> bool:
    """A yes-or-no question on the terminal; the end of input means no."""
    hint = _("[Y/n]") if default else _("[y/N]")
    try:
        answer = input(f"{text} {hint} ").strip().lower()
    except EOFError:
        return False
    if not answer:
        return default
    return answer in ("y", "yes", _("y"), _("yes"))


# --- progress


class _Looking:
    """How much of the source was looked through, on standard error, when it takes longer than a second."""

    INTERVAL_S = 1.0

    def __init__(self, src: str) -> None:
        self._src = src
        self._next = time.monotonic() + self.INTERVAL_S
        self._width = 0

    def __call__(self, seen: int) -> None:
        now = time.monotonic()
        if now < self._next or sys.stderr is None:
            return
        self._next = now + self.INTERVAL_S
        text = _("Looking through {src}: {n} files and folders so far").format(src=_shown(self._src), n=seen)
        if sys.stderr.isatty():
            text = text[: shutil.get_terminal_size((80, 24)).columns - 1]
            print("\r" + text.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(text)
        else:
            self._next = now + 10 * self.INTERVAL_S
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._width:
            print("\r" + " " * self._width, end="\r", file=sys.stderr, flush=True)


class _JsonProgress:
    def __call__(self, progress: Progress) -> None:
        _line({"event": "progress", **progress.to_json()})

    def end(self) -> None:
        return


class _Bar:
    """One line that is drawn over itself."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        columns = shutil.get_terminal_size((80, 24)).columns - 1
        text = bar_line(progress, columns)
        padding = " " * max(0, self._width - len(text))
        sys.stdout.write(f"\r{text}{padding}")
        sys.stdout.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            sys.stdout.write("\n")
            sys.stdout.flush()


class _Lines:
    """Without a terminal: a line at each tenth, and at each stage."""

    def __init__(self) -> None:
        self._last: tuple[str, int] = ("", -1)

    def __call__(self, progress: Progress) -> None:
        tenth = int(10 * fraction(progress))
        if (progress.stage.value, tenth) != self._last:
            self._last = (progress.stage.value, tenth)
            print(bar_line(progress, 100), flush=True)

    def end(self) -> None:
        return


def fraction(progress: Progress) -> float:
    """How much is done, 0 to 1."""
    if progress.bytes_total > 0:
        return progress.bytes_done / progress.bytes_total
    return progress.files_done / progress.files_total if progress.files_total else 1.0


def stage_text(stage: str) -> str:
    """What a stage is called for people."""
    return {
        "check": _("looking again"),
        "copy": _("copying"),
        "finish": _("linking"),
        "switch": _("switching"),
        "done": _("done"),
        "paused": _("paused"),
        "cancelled": _("stopped"),
        "failed": _("failed"),
    }.get(stage, stage)


def bar_line(progress: Progress, columns: int) -> str:
    """The progress in one line of at most ``columns`` characters."""
    share = fraction(progress)
    facts = [f"{int(100 * share):3d} %", _size_text(progress)]
    if progress.rate_bytes_per_s is not None and progress.stage.value == "copy":
        facts.append(f"{progress.rate_bytes_per_s / 1e6:.0f} MB/s")
        if progress.eta_s is not None:
            facts.append(_("{time} left").format(time=duration(progress.eta_s)))
    right = "  ".join([*facts, stage_text(progress.stage.value)])
    room = columns - len(right) - 4
    if room < 8:
        return right[:columns]
    width = min(room, 40)
    filled = int(width * share)
    return f"[{'#' * filled}{'.' * (width - filled)}]  {right}"


def _size_text(progress: Progress) -> str:
    if progress.bytes_total >= GIB:
        return _("{done:.1f} of {total:.1f} GiB").format(
            done=progress.bytes_done / GIB, total=progress.bytes_total / GIB
        )
    return _("{done:.1f} of {total:.1f} MiB").format(
        done=progress.bytes_done / MIB, total=progress.bytes_total / MIB
    )
