"""launch, status, stop and logs on a plain terminal."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.counts import number_above_zero, whole_number
from wizard.errors import BadInput, WizardError
from wizard.faces import inputs, writing
from wizard.i18n import _, labelled, listed, ngettext
from wizard.plain_text import printable
from wizard.program import spelt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wizard.diagnose.engine import Diagnosis
    from wizard.host import Host
    from wizard.launch.loop import Result
    from wizard.launch.prove import Check
    from wizard.launch.record import Record
    from wizard.launch.repair import Repair
    from wizard.launch.run import Launch, MemoryUse, Outcome
    from wizard.launch.stages import StageEvent
    from wizard.launch.target import Target
    from wizard.plan_types import Plan
    from wizard.session import Session

GIB = 1 << 30
QUESTION_S = 20.0  # after which an unanswered “Stop the server?” lapses


def add_options(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of ``launch``, ``status``, ``stop`` or ``logs`` beside the common ones."""
    if name == "launch":
        parser.add_argument("dir", nargs="?", metavar="DIR", help=_("the folder with launch.sh (default: this folder, or the only one in ~/vllm)"))
        parser.add_argument("--yes", "-y", action="store_true", help=_("carry out repairs without asking"))
        parser.add_argument("--detach", "-d", action="store_true", help=_("go on without a terminal once it answers: systemd, Compose, or in the background"))
        parser.add_argument("--timeout", type=number_above_zero(10_000_000), metavar="S", help=_("give up when it is not ready after S seconds (default: by the model's size)"))
        parser.add_argument("--no-repair", action="store_true", help=_("only say why it failed; change nothing"))
        parser.add_argument("--show-log", action="store_true", help=_("print the server's log as it grows"))
        return
    what = {
        "status": _("a folder or name (default: all servers)"),
        "stop": _("a folder or name (default: the only one that runs)"),
        "logs": _("a folder or name (default: the one started last)"),
    }[name]
    parser.add_argument("dir", nargs="?", metavar="DIR", help=what)
    if name == "stop":
        parser.add_argument("--all", action="store_true", help=_("every server that vllm-wizard started"))
    if name == "logs":
        parser.add_argument("--follow", "-f", action="store_true", help=_("go on as the log grows"))
        parser.add_argument("--lines", "-n", type=whole_number(0), default=40, metavar="N", help=_("the last N lines (default 40; 0: all)"))


# -- launch ---------------------------------------------------------------------------------------------------


def _asks_for_several(folder: Path) -> bool:
    """Whether the answers in a written folder are those of several servers."""
    from wizard.session import load_answers

    try:
        return load_answers((folder / "answers.toml").read_bytes(), "answers.toml").get("run_on") == "replicas"
    except (OSError, BadInput):
        return False


def launch(args: argparse.Namespace) -> int:
    """Start the files of a folder and prove that they serve. 0: it answers (and, in the foreground, was stopped
    on request); 1: it failed and could not be repaired, or died."""
    from wizard.launch import detach, loop
    from wizard.launch.run import Callbacks

    if inputs.is_recorded(args):
        raise BadInput(_("launch starts a server on this machine; leave --machine out."))
    host = inputs.open_machine(args)
    folder = _folder(args)
    several = (folder / "nginx.conf").is_file() and (folder / "compose.yaml").is_file()
    if several and _asks_for_several(folder):
        raise BadInput(
            _("{folder} holds several servers behind a router, and launch starts one. Start them with: cd {folder} && docker compose up -d").format(folder=folder)
        )
    if not (folder / "launch.sh").is_file():
        raise BadInput(
            _("There is no launch.sh in {folder}. Make it first: vllm-wizard generate --yes --out {folder}").format(folder=folder)
        )
    target, plan, session = _prepared(args, host, folder)
    screen = _Screen(quiet=args.json, show_log=args.show_log)
    with Interrupts(screen) as interrupts:
        result = loop.launch(
            target,
            host,
            plan=plan,
            session=session,
            callbacks=Callbacks(screen.stage, screen.line, screen.memory, screen.check),
            asks=loop.Asks(lambda d, r: _consent(args, screen, interrupts, r), screen.failure, screen.start),
            timeout_s=args.timeout,
            way=detach.ways(target, host)[0] if args.detach else "script",
            cancelled=interrupts.cancelled,
            hurry=interrupts.hurry,
            leaves=interrupts.wants_detach,
            repair=not args.no_repair,
        )
        try:
            return _after(args, result, screen, interrupts, host)
        except BaseException:
            result.launch.abandon(interrupts.hurry)
            raise


def _after(args: argparse.Namespace, result: Result, screen: _Screen, interrupts: Interrupts, host: Host) -> int:
    current = result.launch
    if not result.outcome.ok:
        if result.outcome.state == "stopped" and interrupts.wants_detach():
            # Left before it was ready: "status" tells when it is.
            screen.say(background_words(current))
            if args.json:
                _print_json(result)
            return 0
        if args.json:
            _print_json(result)
        else:
            screen.gave_up(result)
        return 130 if result.outcome.state == "stopped" else 1
    if interrupts.cancelled() and not interrupts.wants_detach():
        _stop(current, screen, interrupts)
        return 130
    if not args.json:
        screen.serving(result, host)
    if args.detach or interrupts.wants_detach():
        current.leave_running()
        if args.json:
            _print_json(result)
        else:
            screen.say(background_words(current))
        return 0 if result.proven else 1
    if args.json:
        _print_json(result)
    screen.say(_("It serves until you stop it with Ctrl-C (twice)."))
    ended = current.serve(interrupts.cancelled)
    if ended.state == "stopped":
        if interrupts.wants_detach():
            current.leave_running()
            screen.say(background_words(current))
        else:
            _stop(current, screen, interrupts)
        return 0 if result.proven else 1
    from wizard.launch.repair import examine

    diagnosis = examine(current.log_text(), current.target.release, host, ended.returncode)
    best = diagnosis.findings[0] if diagnosis.findings else None
    current.attempt(ended, best.cause if best else None, best.title if best else "")
    screen.failure(current, ended, diagnosis)
    screen.say(_("A server that should come back by itself: vllm-wizard launch --detach, or docker compose up -d."))
    return 1


def background_words(current: Launch) -> str:
    """What is said of a server that was given out of hand."""
    kept = current.record
    out = [_("It goes on in the background. vllm-wizard status, logs and stop work on it.")]
    if kept is None or kept.how == "script":
        out.append(_("Nothing brings it back when it dies; systemd or docker compose up -d would."))
    elif kept.how == "systemd":
        out.append(_("systemd brings it back when it dies (unit {unit}).").format(unit=kept.unit))
        out.append(_("To have it after a restart of the machine without logging in: loginctl enable-linger"))
    else:
        out.append(_("Docker brings it back when it dies, and after a restart of the machine."))
    return "\n".join(out)


def _stop(current: Launch, screen: _Screen, interrupts: Interrupts) -> None:
    screen.say(_("Stopping ... (Ctrl-C again kills it at once)"))
    how = current.stop(interrupts.hurry)
    screen.say(stopped_words(how))


def stopped_words(how: str) -> str:
    """What was needed to stop a server, in words."""
    return {
        "gone": _("It had ended already."),
        "interrupt": _("Stopped."),
        "terminate": _("Stopped; it needed a SIGTERM."),
        "kill": _("Stopped; it had to be killed."),
    }.get(how, _("Something of it could not be killed; see ps."))


def _folder(args: argparse.Namespace) -> Path:
    if args.dir is not None:
        return Path(inputs.out_folder(args.dir, is_option=False))
    here = Path.cwd()
    if (here / "launch.sh").is_file():
        return here
    # Where generate writes when it is not told where: a folder for each model.
    made = sorted(p.parent for p in (Path.home() / "vllm").glob("*/launch.sh"))
    if len(made) > 1:
        raise BadInput(_("Which one? Name the folder: {folders}").format(folders=", ".join(str(p) for p in made)))
    return made[0] if made else here


def _prepared(args: argparse.Namespace, host: Host, folder: Path) -> tuple[Target, Plan | None, Session | None]:
    """The target, with the plan behind it as far as the folder's answers still give one."""
    from wizard.launch.target import from_files, from_plan

    answers = folder / "answers.toml"
    if not answers.is_file():
        return from_files(folder), None, None
    wanted = argparse.Namespace(
        answers=str(answers), set=[], model=None, release=None, runtime=None, secrets_from_env=False, out=str(folder),
        machine=None, recipes=args.recipes,
    )  # fmt: skip
    try:
        session, plan = inputs.load_session(host, wanted)
        complete = writing.complete_secrets(session, plan, str(folder))
    except WizardError as error:
        print(printable(_("The answers cannot be used, so nothing can be repaired: {why}").format(why=error)), file=sys.stderr)
        return from_files(folder), None, None
    if complete is not session:
        from wizard.plan import plan as make_plan

        session, plan = complete, make_plan(complete)
    return from_plan(plan, folder), plan, session


def _consent(args: argparse.Namespace, screen: _Screen, interrupts: Interrupts, repair: Repair) -> bool:
    screen.repair(repair)
    if args.yes:
        return True
    if args.json or not _can_ask():
        screen.say(_("Add --yes to carry it out."))
        return False
    with interrupts.as_usual():
        try:
            return input(_("Write this and start again? [y/N] ")).strip().lower() in ("y", "yes", _("yes"))
        except (EOFError, KeyboardInterrupt):
            print()
            return False


def _can_ask() -> bool:
    try:
        return bool(sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty())
    except ValueError:
        return False


class Interrupts:
    """Ctrl-C: the first asks, the second stops, the third kills. SIGTERM and SIGHUP stop without asking."""

    def __init__(self, screen: _Screen) -> None:
        self._screen = screen
        self._count = 0
        self._stop = False
        self._asked_at: float | None = None
        self._before: dict[int, Any] = {}
        self._detach = False

    def __enter__(self) -> Interrupts:
        names = ("SIGINT", "SIGTERM", "SIGHUP")
        for number in (getattr(signal, n) for n in names if hasattr(signal, n)):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    @contextlib.contextmanager
    def as_usual(self) -> Iterator[None]:
        """Ctrl-C as Python has it, while a question waits for an answer."""
        mine = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, mine)

    def _take(self, number: int, _frame: object) -> None:
        self._count += 1
        if number != signal.SIGINT:
            self._stop = True

    def wants_detach(self) -> bool:
        """Whether the answer was to leave the server running."""
        return self._detach

    def hurry(self) -> bool:
        return self._count > 2

    def cancelled(self) -> bool:
        """Whether to stop; asks when Ctrl-C was pressed once."""
        if self._stop or self._count > 1 or (self._count and not _can_ask()):
            self._stop = True
            return True
        if not self._count:
            return False
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            self._screen.say(_("Stop the server? Ctrl-C again or y stops it, d leaves it running without this terminal, Enter goes on."))
        answer = _typed_line()
        if answer is None and time.monotonic() - self._asked_at < QUESTION_S:
            return False
        word = (answer or "").strip().lower()
        self._asked_at, self._count = None, 0
        if word in ("y", "yes", _("yes"), "d"):
            self._detach = word == "d"
            self._stop = True
            return True
        self._screen.say(_("Going on."))
        return False


def _typed_line() -> str | None:
    """A line that was typed since, or None; never waits."""
    import select

    try:
        if not select.select([sys.stdin], [], [], 0)[0]:
            return None
        return sys.stdin.readline()
    except (OSError, ValueError):
        return None


# -- what is shown --------------------------------------------------------------------------------------------


class _Screen:
    """Lines on standard output; on a terminal the last one is the stage at work, redrawn in place."""

    def __init__(self, quiet: bool, show_log: bool) -> None:
        self._out = sys.stderr if quiet else sys.stdout
        self._live = not show_log and self._out is not None and self._out.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self._show_log = show_log
        self._drawn = False
        self._launch: Launch | None = None
        self._memory = ""
        self._drawn_at = 0.0

    def say(self, text: str) -> None:
        if text:
            self._clear()
            print(printable(spelt(text)), file=self._out, flush=True)

    def start(self, launch: Launch, number: int) -> None:
        self._launch = launch
        self._memory = ""
        if number > 1:
            self.say("\n" + _("Start {number}").format(number=number))
        self.say(_("Log: {path}").format(path=launch.log))

    def line(self, line: str) -> None:
        if self._show_log:
            print(printable(line), file=self._out, flush=True)
        elif self._live and self._launch is not None:
            self._draw(self._launch)

    def stage(self, event: StageEvent) -> None:
        if event.state in ("done", "failed"):
            self.say(stage_line(event))
        elif self._live and self._launch is not None:
            self._draw(self._launch, at_once=event.state == "started")

    def memory(self, uses: list[MemoryUse]) -> None:
        self._memory = memory_text(uses)
        if self._live and self._launch is not None:
            self._draw(self._launch)

    def check(self, check: Check) -> None:
        self.say(check_line(check))

    def failure(self, launch: Launch, outcome: Outcome, diagnosis: Diagnosis) -> None:
        from wizard.diagnose.report import as_text

        self.say("\n" + outcome_words(outcome))
        if diagnosis.findings or outcome.returncode is None:
            self.say("\n".join(as_text(diagnosis)))
            return
        self.say(_("The log does not say why. Its last lines:"))
        for line in [x for x in launch.log_text().splitlines() if x.strip()][-12:]:
            self.say("  " + line[:400])

    def repair(self, repair: Repair) -> None:
        self.say("\n" + _("Repair: {what}").format(what=repair.summary))
        for key, value in repair.changed.items():
            self.say("  " + (_("{key}: decided anew").format(key=key) if value is None else f"{key} = {value}"))
        for change in repair.changes:
            self.say(labelled(writing.state_word(change), change.path) + "\n" + writing.shown_diff(change, repair.plan).rstrip("\n"))

    def gave_up(self, result: Result) -> None:
        if result.outcome.state == "stopped":
            self.say(_("Stopped before it was ready."))
            return
        count = len(result.tries)
        if all(t.diagnosis.findings and t.diagnosis.findings[0].rule == "launch-script" for t in result.tries):
            told = ngettext(
                "It does not run: launch.sh stopped before vLLM. The log is kept:",
                "It does not run: launch.sh stopped before vLLM {n} times. The logs are kept:",
                count,
            )
        else:
            told = ngettext(
                "It does not run. {n} start was made; its log is kept:", "It does not run. {n} starts were made; their logs are kept:", count
            )
        self.say("\n" + told.format(n=count))
        for one in result.tries:
            self.say("  " + one.log)

    def serving(self, result: Result, host: Host) -> None:
        from wizard.launch.prove import ready_made

        current = result.launch
        if result.proven:
            self.say("\n" + _("It answers: {url}/v1").format(url=current.target.url))
        else:
            self.say("\n" + _("It runs, but not every question was answered: {url}/v1").format(url=current.target.url))
        if result.calibration is not None:
            self.say(_("Memory: {verdict}").format(verdict=result.calibration[1]))
        model = result.checks[1].about if len(result.checks) > 1 else current.target.name
        curl, python = ready_made(current.target, model, current.api_key is not None)
        self.say("\n" + curl)
        if python:
            self.say("\n" + python)
        self.say("")

    def _draw(self, launch: Launch, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._drawn_at < 0.1:
            return
        self._drawn_at = now
        import shutil

        text = current_line(launch)
        if self._memory:
            text += "   " + self._memory
        width = shutil.get_terminal_size().columns - 1
        print("\r\x1b[K" + printable(text)[:width], end="", file=self._out, flush=True)
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            print("\r\x1b[K", end="", file=self._out)
            self._drawn = False


def stage_line(event: StageEvent) -> str:
    """One finished stage: how long it took and what it gave."""
    from wizard.launch.stages import TITLES

    parts = [event.detail] if event.detail else []
    if event.rate_bytes_s:
        parts.append(_("{rate:.2f} GiB/s").format(rate=event.rate_bytes_s / GIB))
    title = _(TITLES[event.stage])
    state = _("failed") if event.state == "failed" else ""
    return f"  {columns.pad(title, 20)}{event.seconds or 0.0:>8.1f} s  {', '.join(p for p in [state, *parts] if p)}".rstrip()


def current_line(launch: Launch) -> str:
    """The stage at work: elapsed time, progress, rate."""
    from wizard.launch.stages import TITLES

    reader = launch.reader
    if reader.current is None:
        return ""
    stage = reader.stages[reader.current]
    text = f"  {columns.pad(_(TITLES[stage.name]), 20)}{stage.seconds(launch.elapsed_s):>8.0f} s"
    if stage.fraction is not None:
        text += f"  {stage.fraction:4.0%}"
    if stage.rate_bytes_s:
        text += "  " + _("{rate:.2f} GiB/s").format(rate=stage.rate_bytes_s / GIB)
    return text


def address_words(kept: Record) -> str:
    """Where a server is asked; only its port where no address was kept."""
    return f"{kept.url}/v1" if kept.url else _("port {port}").format(port=kept.port)


def memory_text(uses: list[MemoryUse]) -> str:
    parts = []
    for use in uses:
        total = f" / {use.total_bytes / GIB:.1f}" if use.total_bytes else ""
        parts.append(f"{use.label} {use.used_bytes / GIB:.1f}{total} GiB")
    return listed(parts)


def check_line(check: Check) -> str:
    """One answered question."""
    names = {
        "models": _("Models"), "answer": _("Answer"), "image": _("Picture"), "adapter": _("Adapter"),
        "embedding": _("Embedding"), "score": _("Score"), "transcription": _("Transcription"),
    }  # fmt: skip
    head = f"  {columns.pad(names.get(check.name, check.name), 20)}{check.seconds:>8.1f} s  "
    about = labelled(check.about, "") if check.name in ("adapter", "answer", "image") and check.about else ""
    return head + (about + " ".join(check.text.split())[:160] if check.ok else labelled(_("failed"), about + check.fault))


def outcome_words(outcome: Outcome) -> str:
    """Why a start (or a time of serving) ended."""
    if outcome.state == "timeout":
        return _("It was given up: {why}.").format(why=outcome.reason)
    if outcome.state == "died":
        return _("The server ended by itself after {seconds:.0f} s (exit code {code}).").format(seconds=outcome.seconds, code=outcome.returncode)
    if outcome.returncode is None:
        return _("It failed: {why}.").format(why=outcome.reason)
    return _("It failed after {seconds:.0f} s (exit code {code}).").format(seconds=outcome.seconds, code=outcome.returncode)


def _print_json(result: Result) -> None:
    from wizard.faces.batch import print_json
    from wizard.launch.prove import ready_made

    current = result.launch
    document: dict[str, Any] = {
        "state": result.outcome.state,
        "proven": result.proven,
        "seconds": round(result.outcome.seconds, 1),
        "returncode": result.outcome.returncode,
        "reason": result.outcome.reason,
        "url": f"{current.target.url}/v1",
        "model": current.target.name,
        "log": str(current.log) if current.log else None,
        "stages": [
            {"stage": s.name, "seconds": round(s.seconds(current.elapsed_s), 1), "detail": s.detail, "rate_bytes_s": s.rate_bytes_s, "failed": s.failed}
            for s in current.reader.stages.values()
        ],
        "checks": [c.__dict__ for c in result.checks],
        "tries": [_try_json(one) for one in result.tries],
        "calibration": None if result.calibration is None else {"match": result.calibration[0], "verdict": result.calibration[1]},
    }
    if result.outcome.ok:
        model = result.checks[1].about if len(result.checks) > 1 else current.target.name
        document["curl"], document["python"] = ready_made(current.target, model, current.api_key is not None)
    print_json(document)


def _try_json(one: Any) -> dict[str, Any]:
    return {
        "state": one.outcome.state,
        "seconds": round(one.outcome.seconds, 1),
        "returncode": one.outcome.returncode,
        "log": one.log,
        "diagnosis": one.diagnosis.as_json(),
        "repair": None
        if one.repair is None
        else {
            "summary": one.repair.summary,
            "changed": one.repair.changed,
            "accepted": one.accepted,
            "diff": "\n".join(c.diff for c in one.repair.changes),
        },
    }


# -- status, stop, logs ---------------------------------------------------------------------------------------


def status(args: argparse.Namespace) -> int:
    """Every server that was started from here, and how it is. 0 when one runs, 1 when none does."""
    from wizard.launch import record
    from wizard.launch.detach import is_running
    from wizard.launch.prove import is_healthy

    host = inputs.open_machine(args)
    records = [_one(args.dir)] if args.dir is not None else record.load_all()
    rows = []
    for kept in records:
        running = is_running(kept, host)
        healthy = running and is_healthy(kept.url or f"http://127.0.0.1:{kept.port}")
        state = "serving" if healthy else "starting" if running else ("failed" if kept.status == "failed" else "stopped")
        rows.append((kept, state))
    if args.json:
        from dataclasses import asdict

        from wizard.faces.batch import print_json

        print_json([{**asdict(kept), "state": state} for kept, state in rows])
    elif not rows:
        print(spelt(_("No server was started with vllm-wizard launch.")))
    words = {"serving": _("serving"), "starting": _("starting"), "failed": _("failed"), "stopped": _("stopped")}
    for kept, state in rows if not args.json else ():
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.started))
        print(printable(f"{columns.pad(words[state], 10)} {kept.name or '-'}  {address_words(kept)}  {kept.how}  {since}\n           {kept.folder}"))
        last = kept.attempts[-1] if kept.attempts else None
        if state == "failed" and last is not None and last.title:
            print(printable(f"           {last.title}"))
    return 0 if any(state in ("serving", "starting") for _kept, state in rows) else 1


def stop(args: argparse.Namespace) -> int:
    """End servers; nothing of them stays."""
    from wizard.launch import detach, record
    from wizard.launch.detach import is_running

    host = inputs.open_machine(args)
    if args.all:
        chosen = [r for r in record.load_all() if is_running(r, host)]
    elif args.dir is not None:
        chosen = [_one(args.dir)]
    else:
        chosen = [r for r in record.load_all() if is_running(r, host)]
        if len(chosen) > 1:
            raise BadInput(
                _("Several servers run: {names}. Name one, or use --all.").format(names=", ".join(r.folder for r in chosen))
            )
    if not chosen:
        print(_("No server runs."))
        return 0
    left = False
    for kept in chosen:
        how = detach.stop(kept, host)
        left = left or how == "left"
        print(printable(labelled(kept.folder, stopped_words(how))))
    return 1 if left else 0


def logs(args: argparse.Namespace) -> int:
    """The log of a server."""
    from wizard.launch import detach, record

    host = inputs.open_machine(args)
    if args.dir is not None:
        kept = _one(args.dir)
    else:
        found = record.load_all()
        if not found:
            raise WizardError(_("No server was started with vllm-wizard launch."))
        kept = found[0]
    command = detach.log_command(kept)
    if command is not None:
        return _docker_logs(command, args, host)
    if kept.log is None or not Path(kept.log).is_file():
        raise WizardError(_("The log of {folder} is gone.").format(folder=kept.folder))
    return _tail(Path(kept.log), args.lines, args.follow)


def _docker_logs(command: list[str], args: argparse.Namespace, host: Host) -> int:
    import subprocess

    words = [*command[:2], *(["--follow"] if args.follow else []), *(["--tail", str(args.lines)] if args.lines else []), *command[2:]]
    try:
        return subprocess.run(words, check=False).returncode
    except OSError as error:
        raise WizardError(_("docker cannot be started: {reason}.").format(reason=error.strerror or error)) from error


def _tail(path: Path, count: int, follow: bool) -> int:
    with path.open("rb") as stream:
        lines = stream.read().decode("utf-8", "replace").splitlines()
        for line in lines[-count:] if count else lines:
            print(printable(line))
        rest = ""
        while follow:
            chunk = stream.read()
            if not chunk:
                sys.stdout.flush()
                time.sleep(0.3)
                continue
            *whole, rest = (rest + chunk.decode("utf-8", "replace")).split("\n")
            for line in whole:
                print(printable(line))
    return 0


def _one(word: str) -> Record:
    """The record of a folder, or of a name as status prints it."""
    from wizard.launch import record

    kept = record.load(record.record_id(os.path.abspath(os.path.expanduser(word))))  # noqa: PTH100, PTH111
    if kept is None:
        named = [r for r in record.load_all() if word in (r.id, r.name)]
        if len(named) > 1:
            raise BadInput(_("Several servers are called {name}. Give the folder.").format(name=word))
        kept = named[0] if named else None
    if kept is None:
        raise WizardError(_("No server was started from {folder}.").format(folder=word))
    return kept
