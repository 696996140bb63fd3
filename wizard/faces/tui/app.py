"""The full-screen walk's application. It is light: the first picture stands before the heavy rooms are loaded."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.filter import Monochrome
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.widgets import Static

from wizard.errors import BadInput, WizardError
from wizard.faces.tui import look, toast
from wizard.i18n import _, sentences, set_language

if TYPE_CHECKING:
    from pathlib import Path

    from wizard.faces.tui.screen import WalkScreen
    from wizard.faces.tui.walk import Walk
    from wizard.faces.tui.work import Wizard
    from wizard.host import Host
    from wizard.session import Answers, Secrets


LOADING_S = 60.0  # so long at most no garbage is looked for at the start
GRACE_S = 5.0  # so long the end of the walk may take once it was told to end from outside


class Start(NamedTuple):
    """What a walk starts from."""

    host: Host
    answers: Answers
    secrets: Secrets | None = None
    out_dir: str | None = None
    recipe_dirs: tuple[str, ...] = ()
    first_step: str | None = None
    log: str | None = None  # of a start that failed: it is opened at once


class FirstScreen(Screen[None]):
    """The walk's frames while its rooms are being loaded: the same picture, still empty."""

    AUTO_FOCUS = None

    def compose(self) -> ComposeResult:
        yield Static("vllm-wizard", id="header", markup=False)
        with Horizontal(id="zones"):
            with Vertical(id="rail", classes="frame") as rail:
                rail.border_title = _("Steps")
            with Vertical(id="main", classes="frame") as main:
                main.border_title = "1 " + _("This machine")
                yield Static(_("Asking this machine") + "...", id="waiting", markup=False)
            with Vertical(id="plan", classes="frame") as plan:
                plan.border_title = _("Plan")
        yield Static(id="footer")

    def on_mount(self) -> None:
        width = self.app.size.width
        self.set_class(bool(getattr(self.app, "ascii_only", False)), "-ascii")
        look.set_width_classes(self, width)


class WizardApp(App[None]):
    """The application: themes, the first picture, and how it ends. The walk itself is ``wizard``."""

    CSS = look.FRAME_CSS
    ENABLE_COMMAND_PALETTE = False
    TITLE = "vllm-wizard"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("ctrl+c", "leave_hint", show=False, priority=True),
    ]

    def __init__(
        self,
        prepare: Callable[[], Start],
        *,
        ascii_only: bool = False,
        theme: str = look.DARK.name,
        debug: bool = False,
        **more: Any,
    ) -> None:
        """``prepare`` is called in a thread once the first picture stands; ``more`` goes to the walk."""
        super().__init__()
        self.animation_level = "none"
        ScrollBar.renderer = look.WholeCells
        toast.install()
        for each in look.THEMES:
            self.register_theme(each)
        self.theme = theme
        self.ascii_only = ascii_only
        self.glyphs = look.ASCII if ascii_only else look.UNICODE
        if self.no_color:
            no_colours = look.NoColours(lambda: self.theme == look.ANSI.name)
            self._filters = [no_colours if isinstance(f, Monochrome) else f for f in self._filters]
        if ascii_only:
            self._filters.append(look.AsciiFilter())
        self.debug_errors = debug
        self.crash: BaseException | None = None
        self.refusal: WizardError | None = None  # why there is nothing to walk through
        self.wizard: Wizard | None = None
        self._gc_threshold = gc.get_threshold()
        self.on_its_own = False  # whether the process is this walk and nothing else
        self.over = threading.Event()
        self.last_key_s = 0.0  # when a key was last pressed, or the mouse moved; time.monotonic()
        self._prepare, self._more = prepare, more
        self._pasted_first, self._walk_there = "", False

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.InputEvent):
            self.last_key_s = time.monotonic()
        # A key pressed before the first screen stands has nowhere to go, and Textual would stop on it.
        if isinstance(event, events.InputEvent) and not self.screen_stack:
            return
        await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        return FirstScreen()

    def on_mount(self) -> None:
        self._heed_signals()
        # The rooms that are loaded now make a great many objects that stay. Looking through them for garbage again
        # and again would stop the walk for a tenth of a second each time.
        gc.disable()
        self.set_timer(LOADING_S, self.keep_for_good)  # whatever is in view by then
        # A timer, not call_after_refresh: the first picture must be on the terminal before the loading begins.
        self.set_timer(0.02, self._begin)

    def keep_for_good(self) -> None:
        """All is loaded: what stands now is kept to the end, and garbage is only looked for in what comes after, and
        seldom: a plan is many objects, and few of them are garbage that has to be looked for."""
        if gc.isenabled():
            return
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)
        gc.enable()

    def on_unmount(self) -> None:
        gc.unfreeze()
        gc.set_threshold(*self._gc_threshold)
        gc.enable()

    def _heed_signals(self) -> None:
        """A closed terminal or a kill leaves the full screen and keeps the answers, as Ctrl+Q does; a server that was
        started here is stopped."""
        import asyncio
        import signal

        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is None:
                continue
            try:
                loop.add_signal_handler(number, self._ended_by, int(number))
            except (NotImplementedError, RuntimeError, ValueError):
                return  # Windows, or not the main thread: the default action stays

    def _ended_by(self, number: int) -> None:
        if self.wizard is not None:
            self.wizard.save_now()
            self.wizard.stop_work()
            if self.wizard.server is not None:
                self.wizard.server.stop()
        self.exit(return_code=128 + number)
        if self.on_its_own:
            threading.Thread(target=self._end_anyway, args=(128 + number,), daemon=True).start()

    def _end_anyway(self, code: int) -> None:
        """A terminal that is gone can hold Textual's own end up for ever: its output is never taken, and its input never
        ends. All that matters is kept by then."""
        if self.over.wait(GRACE_S):
            return
        with contextlib.suppress(OSError):
            _no_orphan(self)
        os._exit(code)

    def _begin(self) -> None:
        self.run_worker(self._load, thread=True, group="load")

    def _load(self) -> None:
        """In a thread: load the rooms, and read what was given on the command line."""
        try:
            from wizard.faces.tui.work import Wizard

            start = self._prepare()
        except WizardError as error:
            self.call_from_thread(self.refuse, error)
            return
        self.call_from_thread(self._walk_begins, Wizard, start)  # type: ignore[arg-type]

    def refuse(self, error: WizardError) -> None:
        """Leave at once; the error is raised to whoever started the walk."""
        self.refusal = error
        self.exit(return_code=error.exit_code)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted before there is a walk: it is read once there is."""
        if not self._walk_there:
            self._pasted_first += event.text

    async def _walk_begins(self, kind: type[Wizard], start: Start) -> None:
        self.wizard = kind(self, start, **self._more)
        await self.push_screen(self.wizard.walk_screen)
        self._walk_there = True
        if self._pasted_first:
            from wizard.faces.tui.text import with_newlines

            self.wizard.walk_screen.take_paste(with_newlines(self._pasted_first).strip())
        if start.log is not None:
            self.wizard.open_screen("diagnose", start.log, alone=True)

    @property
    def walk(self) -> Walk:
        """The walk's state; only there once it has begun."""
        assert self.wizard is not None
        return self.wizard.walk

    @property
    def walk_screen(self) -> WalkScreen:
        assert self.wizard is not None
        return self.wizard.walk_screen

    async def action_quit(self) -> None:
        if self.wizard is None:
            self.exit(return_code=0)
        else:
            await self.wizard.leave()

    def action_leave_hint(self) -> None:
        if self.wizard is not None and self.wizard.interrupted():
            return
        self.notify(_("Ctrl+Q leaves; your answers are kept."), timeout=3)

    def _fatal_error(self) -> None:
        """A crash ends the app with exit code 1. Textual's own report shows local variables, and so secrets."""
        self.crash = sys.exc_info()[1] or self._exception
        if self.wizard is not None and self.wizard.server is not None:
            self.wizard.server.give_up()
        self._close_messages_no_wait()


def check_terminal() -> None:
    """Raise BadInput when the full-screen walk cannot be drawn here; the message names what to use instead."""
    if not _tty(sys.stdin) or not _tty(sys.stderr):
        raise BadInput(
            _("The full-screen walk needs a terminal. Use --plain to be asked line by line, or “generate --yes --out DIR” to be asked nothing.")
        )
    if os.environ.get("TERM", "") == "dumb":
        raise BadInput(_("This terminal cannot draw a full screen (TERM=dumb). Use --plain to be asked line by line."))


def _tty(stream: Any) -> bool:
    try:
        return stream is not None and bool(stream.isatty())
    except ValueError:
        return False


def run(
    host: Host,
    answers: Answers,
    *,
    out_dir: str | Path | None = None,
    recipe_dirs: Iterable[str] = (),
    lang: str | None = None,
    first_step: str | None = None,
    secrets: Secrets | None = None,
    debug: bool = False,
) -> int:
    """Walk through the wizard in full screen, and return the exit code.

    Raises BadInput when there is no terminal that it can be drawn on.
    """
    folder = None if out_dir is None else str(out_dir)
    dirs = tuple(str(d) for d in recipe_dirs)
    return walk_from(lambda: Start(host, answers, secrets, folder, dirs, first_step), lang=lang, debug=debug)


def walk_from(prepare: Callable[[], Start], *, lang: str | None = None, debug: bool = False) -> int:
    """The same, where host and answers are made only after the first picture stands.

    A WizardError of ``prepare`` is raised here, after the screen was left.
    """
    check_terminal()
    if lang is not None:
        set_language(lang)
    app = WizardApp(
        prepare, ascii_only=look.wants_ascii(), theme=look.choose_theme(os.environ), debug=debug, keep_answers=True
    )
    app.on_its_own = True
    try:
        app.run()
    finally:
        app.over.set()
        _no_orphan(app)
    if app.refusal is not None:
        raise app.refusal
    _last_words(app)
    return app.return_code or 0


def _no_orphan(app: WizardApp) -> None:
    """However the application ended: a server that was not left running on purpose does not outlive it."""
    server = app.wizard.server if app.wizard is not None else None
    if server is not None:
        if server.live:
            print(_("Stopping the server that was started here ..."), file=sys.stderr)
            server.give_up()
        server.wait_over()


def _last_words(app: WizardApp) -> None:
    """What stays in the terminal after the walk."""
    if app.crash is not None:
        if app.debug_errors:
            import traceback

            traceback.print_exception(app.crash)
        print(
            _("vllm-wizard has stopped because of an error of its own ({kind}). Your answers are kept. Run it again with --debug to see the details, and please report them.").format(
                kind=type(app.crash).__name__
            ),
            file=sys.stderr,
        )
        return
    if app.wizard is None or app.wizard.opens_with_log:
        return
    receipt, plan = app.wizard.receipt, app.walk.plan
    if app.wizard.left_copying:
        print(_("The copy of the model was stopped ({state}); what was copied is kept. Go on with it:").format(state=app.wizard.left_copying))
        print("  " + app.wizard.copy_command())
    if receipt is not None and plan is not None:
        from wizard.faces.writing import next_steps, written

        print(written(receipt), end="")
        server = app.wizard.server
        if server is not None and server.shown.state == "left":
            print("\n" + server.last_words())
            return
        left = app.wizard.to_type()
        if left:
            print(_("Next:"))
            print(next_steps(left), end="")
    else:
        from wizard.faces import resume

        kept = _("Nothing was written. Your answers are kept: vllm-wizard goes on from them.")
        print(sentences(kept, resume.not_kept(app.walk.secrets_given())))
