"""The launch on the screen: stages and log while it starts, the proof when it serves, the repair when it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Log

from wizard.faces.tui import launch_text, look
from wizard.faces.tui.dialogs import Reader
from wizard.faces.tui.launch_text import STATE_STYLES, STATE_WORDS
from wizard.faces.tui.server import Server, make, why_not
from wizard.faces.tui.text import DIM, TEXT, clip_left, content, duration
from wizard.faces.tui.whole import WHOLE_CSS, Choose, Key, WholeScreen, help_lines
from wizard.faces.tui.widgets import Panel, PushButton
from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.faces.tui.server import Shown
    from wizard.faces.tui.work import Wizard

TICK_S = 0.2  # between two looks at times, memory and log
BESIDE = 110  # columns from which the log stands beside the stages

# In which states which buttons are there; the first has the focus.
_BUTTONS = {
    "starting": ("stop", "leave"),
    "proving": ("stop", "leave"),
    "asking": ("apply", "diff", "decline"),
    "serving": ("curl", "python", "leave", "stop"),
    "stopping": (),
    "leaving": (),
    "stopped": ("again", "back"),
    "failed": ("again", "diagnosis", "back"),
    "died": ("again", "diagnosis", "back"),
    "left": ("curl", "finish", "back"),
    "refused": ("again", "back"),
}


class LaunchScreen(WholeScreen):
    """One server: watched, asked, repaired, stopped or left running."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", show=False),
        Binding("c", "copy_curl", show=False),
        Binding("p", "copy_python", show=False),
        Binding("s", "ask('stop')", show=False),
        Binding("d", "ask('leave')", show=False),
        Binding("enter", "default", show=False),
    ]
    CSS = WHOLE_CSS + """
#launch-log-frame { border: round $wz-line; border-title-color: $wz-dim; border-subtitle-color: $wz-dim; background: $surface; height: 7; padding: 0 0 0 1; }
.-ascii #launch-log-frame { border: ascii $wz-line; }
#launch-log { background: $surface; color: $wz-dim; height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
.whole-zones.-log #launch-log { overflow-x: auto; }
#launch-log:focus { color: $wz-text; }
#launch-body { height: auto; }
.whole-zones.-beside #launch-log-frame { width: 2fr; height: 1fr; }
.whole-zones.-beside #whole-main { width: 3fr; }
.whole-zones.-settled #launch-log-frame { display: none; }
.whole-zones.-beside.-settled #launch-log-frame { display: block; }
.whole-zones.-log #launch-log-frame, .whole-zones.-beside.-log #launch-log-frame { display: block; height: 1fr; width: 1fr; }
.whole-zones.-log #whole-main { display: none; }
"""

    def __init__(self, wizard: Wizard, server: Server, *, start: bool = True) -> None:
        """``start`` False: show the server as it is (pictures)."""
        super().__init__(wizard)
        self.server = server
        self.title_text = _("Launch: {name}").format(name=server.target.name)
        self._start = start
        self._frame = 0
        self._drawn = ("", 0)
        self._ticker: Timer | None = None
        self._dialog: Choose | None = None

    @property
    def shown(self) -> Shown:
        return self.server.shown

    # -- composing --------------------------------------------------------------------------------------------

    def body(self) -> Iterator[Widget]:
        yield Panel(id="launch-body")

    def beside(self) -> Iterator[Widget]:
        from textual.containers import Vertical

        with Vertical(id="launch-log-frame") as frame:
            frame.border_title = _("Log")
            log = Log(id="launch-log", max_lines=4000)
            yield log

    def buttons(self) -> Iterator[PushButton]:
        for name, label in (
            ("apply", _("Apply and start again")), ("diff", _("Show the diff")), ("decline", _("Leave it")),
            ("curl", _("Copy curl")), ("python", _("Copy Python")), ("leave", _("Leave it running")), ("stop", _("Stop")),
            ("again", _("Start again")), ("diagnosis", _("Diagnosis")), ("finish", _("Finish")), ("back", _("Back")),
        ):  # fmt: skip
            yield PushButton(label, id=f"launch-{name}")

    def on_mount(self) -> None:
        super().on_mount()
        self.server.on_change = self.draw
        if self._start:
            self._ticker = self.set_interval(TICK_S, self._tick)
            self.server.begin()
        self.draw()

    def on_unmount(self) -> None:
        self.server.on_change = lambda: None
        if self.server.live:
            # The application ends without having asked (a crash): nothing of the server stays.
            self.server.give_up()

    # -- drawing ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._frame += 1
        if self.server.lines:
            self.write_log(self.server.take_lines())
        if self.shown.live:
            self.draw()

    def write_log(self, lines: list[str]) -> None:
        """Put new lines of the log on the screen."""
        from wizard.diagnose.report import printable

        clean = [printable(line) for line in lines]
        if self.wizard.ascii_only:
            clean = [look.to_ascii(line) for line in clean]
        self.query_one("#launch-log", Log).write_lines(clean)

    def draw(self) -> None:
        if not self.drawable:
            return
        shown = self.shown
        zones = self.query_one("#whole-zones")
        zones.set_class(self.size.width >= BESIDE, "-beside")
        zones.set_class(shown.state not in ("starting", "proving", "stopping", "leaving"), "-settled")
        self.query_one("#launch-body", Panel).put(launch_text.body(shown, self.glyphs, self.room(), self._frame))
        names = _BUTTONS[shown.state]
        if not shown.python:
            names = tuple(n for n in names if n != "python")
        if not shown.curl:
            names = tuple(n for n in names if n != "curl")
        self.show_buttons([f"launch-{name}" for name in names])
        self._draw_header()
        self._draw_places()
        self.draw_keys()
        if (shown.state, shown.number) != self._drawn:
            self._state_changed(names)
        self.call_after_refresh(self.draw_more)

    def _state_changed(self, names: tuple[str, ...]) -> None:
        """Another state is another page: from its top, and its first button in focus."""
        self._drawn = (self.shown.state, self.shown.number)
        self.query_one("#whole-body").scroll_home(animate=False)
        if self.server.lines:
            self.write_log(self.server.take_lines())
        if names and not self.query_one("#whole-zones").has_class("-log"):
            self.query_one(f"#launch-{names[0]}").focus(scroll_visible=False)
        if self._dialog is not None and not self.shown.live:
            self._dialog.dismiss(None)
        self.call_after_refresh(self.draw)  # once more, in the room that the log gave up or took

    def _draw_header(self) -> None:
        shown = self.shown
        told = _(STATE_WORDS[shown.state])
        if shown.state in ("starting", "proving"):
            told += "  " + duration(shown.clock())
        if shown.number > 1 and shown.live:
            told = _("start {number}").format(number=shown.number) + "  " + told
        self.draw_header([(told, f"bold {STATE_STYLES.get(shown.state, TEXT)}")])

    def _draw_places(self) -> None:
        """Where the files and the log lie, on the frames."""
        for name, path in (("whole-main", self.shown.folder), ("launch-log-frame", self.shown.log)):
            frame = self.query_one(f"#{name}")
            told = clip_left(short_home(path), max(8, frame.size.width - 8), self.glyphs.ellipsis)
            if str(frame.border_subtitle or "") != told:
                frame.border_subtitle = told

    def keys(self) -> list[Key]:
        focused = self.focused
        label = str(focused.content) if isinstance(focused, PushButton) and focused.display else ""
        keys: list[Key] = [("Enter", label, "default")] if label else []
        keys.append(("L", _("Log"), "log"))
        if self.shown.live:
            keys.append(("^C", _("Leave it") if self.shown.state == "asking" else _("Stop"), "app.leave_hint"))
        else:
            keys.append(("Esc", _("Back"), "leave"))
        keys.append(("F1", _("Help"), "help"))
        keys.append(("^Q", _("Quit"), "app.quit"))
        return keys

    def help_text(self) -> Content:
        return help_lines(
            _("The server is started as launch.sh starts it, watched until it answers, and asked real questions. It stops with this program unless you leave it running."),
            [
                ("L", _("show the log in full, or fold it again")),
                ("C, P", _("copy the curl or the Python lines, once it serves")),
                ("S", _("stop it: asks first")),
                ("D", _("leave it running without this program")),
                ("Ctrl+C", _("once asks, twice stops, three times kills")),
                ("Tab", _("next button, or the log")),
                ("PgUp, PgDn", _("scroll")),
                ("Ctrl+Q", _("quit; asks what becomes of the server")),
            ],
        )

    def on_descendant_focus(self) -> None:
        self.draw_keys()

    # -- keys and buttons -------------------------------------------------------------------------------------

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        self.press((event.button.id or "").removeprefix("launch-"))

    def press(self, name: str) -> None:
        """What a button does."""
        if name in ("apply", "decline"):
            self.server.answer(name == "apply")
        elif name == "diff":
            self._show_diff()
        elif name == "curl":
            self.action_copy_curl()
        elif name == "python":
            self.action_copy_python()
        elif name in ("stop", "leave"):
            self.action_ask(name)
        elif name == "again":
            self.query_one("#launch-log", Log).clear()
            self.server.begin()
        elif name == "diagnosis":
            from wizard.faces.tui.diagnosis import open_screen

            open_screen(self.wizard, self.shown.log)
        elif name == "finish":
            self.wizard.finish()
        elif name == "back":
            self.action_leave()

    def _show_diff(self) -> None:
        repair, before = self.shown.repair, self.shown.before
        if repair is not None and before is not None:
            self.app.push_screen(
                Reader(_("Repair"), lambda width: launch_text.repair_whole(repair, before, self.glyphs, width), full=True)
            )

    def action_log(self) -> None:
        """The log in full, or folded again."""
        zones = self.query_one("#whole-zones")
        zones.toggle_class("-log")
        if zones.has_class("-log"):
            self.query_one("#launch-log").focus()
        else:
            self.set_focus(None)
        self.call_after_refresh(self.draw)

    def action_copy_curl(self) -> None:
        self._copy(self.shown.curl)

    def action_copy_python(self) -> None:
        self._copy(self.shown.python)

    def _copy(self, code: str) -> None:
        if code:
            self.app.copy_to_clipboard(code)
            self.notify(_("Copied. A terminal that forbids it: the lines are printed again when you leave."), timeout=4)

    def action_default(self) -> None:
        """Enter, or a click on it in the footer: the button in focus; without one nothing is done by chance."""
        if isinstance(self.focused, PushButton):
            self.focused.action_press()

    def action_leave(self) -> None:
        if self.query_one("#whole-zones").has_class("-log"):
            self.action_log()
        elif self.shown.live:
            self.action_ask("stay")
        else:
            self.dismiss(None)

    # -- stopping and leaving ---------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Ctrl-C: the first asks, the second stops, the third kills."""
        state = self.shown.state
        if state == "stopping":
            self.server.stop()
        elif state == "asking":
            self.server.answer(False)
        elif not self.shown.live:
            self.notify(_("Ctrl+Q leaves; your answers are kept."), timeout=3)
        elif state == "leaving":
            return
        elif self._dialog is not None:
            self._dialog.dismiss("stop")
        else:
            self.action_ask("stop")

    def action_ask(self, at: str = "stop", then_quit: bool = False) -> None:
        """Ask what becomes of the server; ``at`` is the answer under the cursor at first."""
        state = self.shown.state
        if state == "asking":
            if then_quit:
                self.server.when_over = self.wizard.finish
            self.server.answer(False)
            return
        if state in ("stopping", "leaving"):
            if then_quit:
                self.server.when_over = self.wizard.finish
            return
        if not self.shown.live or self._dialog is not None:
            return
        dialog = Choose(self._question(then_quit), self._told(), self._options(then_quit), at)
        self._dialog = dialog

        def answered(chosen: str | None) -> None:
            self._dialog = None
            self._carry_out(chosen, then_quit)

        self.app.push_screen(dialog, answered)

    def _question(self, then_quit: bool) -> str:
        return _("Quit: what becomes of the server?") if then_quit else _("Stop the server?")

    def _told(self) -> Content:
        starting = self.shown.state != "serving"
        told = _("It is still starting.") if starting else _("It serves at {url}/v1.").format(url=self.shown.url)
        return content([(told + "\n", TEXT if starting else DIM)])

    def _options(self, then_quit: bool) -> list[tuple[str, str, str]]:
        options = [
            ("stop", _("Stop it"), _("Everything that it started ends. Ctrl+C again does the same.")),
            ("leave", _("Leave it running"), _("It goes on in the background as it is; nothing brings it back when it dies.")),
        ]
        more = {
            "systemd": (_("Hand it to systemd"), _("It is started once more, as a unit of this user, and comes back when it dies.")),
            "compose": (_("Hand it to Docker Compose"), _("It is started once more with “up -d”, and comes back when it dies or the machine restarts.")),
        }
        if self.shown.way == "script":
            options += [(way, *more[way]) for way in self.server.ways if way in more][:1]
        stay = _("Do not quit") if then_quit else _("Go on")
        return [*options, ("stay", stay, _("Nothing changes."))]

    def _carry_out(self, chosen: str | None, then_quit: bool) -> None:
        if chosen in (None, "stay") or not self.shown.live:
            if chosen in ("stop", "leave") and then_quit:
                self.wizard.finish()  # it ended by itself meanwhile
            return
        if then_quit:
            self.server.when_over = self.wizard.finish
        if chosen == "stop":
            self.server.stop()
        elif chosen == "leave":
            self.server.leave_running()
        elif chosen is not None:
            self.server.hand_over(chosen)


def short_home(path: str) -> str:
    """The path with "~" for the home folder."""
    home = str(Path.home())
    return "~" + path[len(home) :] if path.startswith(home + "/") else path


def press_start(wizard: Wizard) -> None:
    """“Start it now” on the last step."""
    why = why_not(wizard)
    if why:
        wizard.app.notify(why, severity="warning", timeout=8)
        return
    if wizard.server is None or not wizard.server.live:
        wizard.server = make(wizard)
    wizard.app.push_screen(LaunchScreen(wizard, wizard.server))


def screen_of(wizard: Wizard) -> LaunchScreen | None:
    """The launch screen, wherever it stands in the stack."""
    return next((s for s in reversed(wizard.app.screen_stack) if isinstance(s, LaunchScreen)), None)


def interrupt(wizard: Wizard) -> bool:
    """Ctrl-C; False when no launch is on the screen."""
    screen = screen_of(wizard)
    if screen is None:
        return False
    screen.interrupt()
    return True


def holds_quit(wizard: Wizard) -> bool:
    """Ctrl-Q: True when it is asked first what becomes of the server."""
    screen = screen_of(wizard)
    if screen is None or not screen.shown.live:
        return False
    while wizard.app.screen is not screen and len(wizard.app.screen_stack) > 1:
        wizard.app.pop_screen()
    screen._dialog = None
    screen.action_ask("stop", then_quit=True)
    return True
