"""A command that was found somewhere: pasted, checked against the chosen release, and taken over as answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import TextArea

from wizard.errors import BadInput
from wizard.faces.tui import text
from wizard.faces.tui.dialogs import Dialog
from wizard.faces.tui.text import ACCENT, BAD, DIM, OK, TEXT, WARN, Part, content, one_width, with_newlines
from wizard.faces.tui.widgets import Panel, PushButton, glyphs_of
from wizard.i18n import N_, _, listed, sentence, sentences, stopped
from wizard.plan_types import VISIBLE_DEVICES
from wizard.session import SECRET_ENV, Layer, Value
from wizard.steps import QUESTIONS, set_answer

if TYPE_CHECKING:
    from wizard.plan_types import Plan

MODEL_DESTS = frozenset({"model_tag", "model"})
# What the wizard decides with its own questions, or may not keep in answers.
WHY_LEFT_OUT = {
    "api_key": N_("a secret: give it on the step “Access”, once the network is chosen there"),
    "hf_token": N_("a secret: give it on the step “Access”"),
}


@dataclass(frozen=True)
class LeftOut:
    """A part of the command that is not taken over, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Pasted:
    """A repaired command: what follows ``vllm serve``; its model; what the repair took away; and what stands around it:
    variables, and docker's own words as far as the image."""

    argv: tuple[str, ...]
    model: str | None = None
    removed: tuple[LeftOut, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    docker: tuple[str, ...] = ()


class PasteArea(TextArea):
    """A field for a long paste. PgUp and PgDn scroll the page, for what is said of the text stands below it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "screen.page(-1)", show=False),
        Binding("pagedown", "screen.page(1)", show=False),
        Binding("ctrl+home", "to_start", show=False),
        Binding("ctrl+end", "to_end", show=False),
    ]

    def __init__(self, *, id: str, soft_wrap: bool) -> None:
        super().__init__(id=id, tab_behavior="focus", show_line_numbers=False, soft_wrap=soft_wrap)

    def _on_paste(self, event: events.Paste) -> None:  # type: ignore[override]
        event.text = one_width(with_newlines(event.text))
        if not self.text:
            # Read from its first line; the cursor is at the end all the same, where Enter is pressed.
            self.call_after_refresh(self.scroll_home, animate=False)

    def take(self, given: str) -> None:
        """Put a text in at the end, as if it had been pasted here, and the cursor behind it."""
        self.focus()
        self.text = self.text + one_width(with_newlines(given))
        self.action_to_end()
        self.call_after_refresh(self.scroll_home, animate=False)

    def action_to_start(self) -> None:
        self.move_cursor((0, 0))

    def action_to_end(self) -> None:
        self.move_cursor(self.document.end)


class CommandArea(PasteArea):
    """The same for a command: as in a shell, Enter at its end runs it; after a line that goes on it does not."""

    async def _on_key(self, event: events.Key) -> None:
        whole = self.text.rstrip(" \t")  # what was copied mostly ends with its line, so an empty last line is an end, too
        if event.key == "enter" and self.cursor_location == self.document.end and not whole.endswith("\\"):
            event.prevent_default()
            event.stop()
            await self.screen.run_action("default")
            return
        await super()._on_key(event)


class PasteDialog(Dialog[Pasted]):
    """Gives the command that was pasted, repaired, once it is taken over."""

    full = True

    def __init__(self, plan: Plan, given: str = "") -> None:
        super().__init__()
        self.plan = plan
        self.given = given  # what was pasted elsewhere
        self.title_text = _("Paste a command you found")
        self.hint = _("Enter at the end checks it, Esc closes")
        self.verdict: Any = None

    def body(self) -> Iterator[Widget]:
        yield Panel(id="paste-told", classes="block")
        area = CommandArea(id="paste-text", soft_wrap=True)
        area.text = with_newlines(self.given)
        yield area
        yield Panel(id="paste-report", classes="block")

    def buttons(self) -> Iterator[PushButton]:
        yield PushButton(_("Check it"), id="check")
        yield PushButton(_("Take it over"), id="take")

    def on_mount(self) -> None:
        super().on_mount()
        version = self.plan.release.version if self.plan.release is not None else ""
        self.query_one("#paste-told", Panel).put(
            Content.styled(
                _("A vllm serve or docker run line, or a whole article with one in it. It is checked against vLLM {version}.").format(version=version), DIM
            )
        )
        self.query_one("#take", PushButton).display = False
        if self.given:
            area = self.query_one("#paste-text", CommandArea)
            area.move_cursor(area.document.end)
            self.call_after_refresh(self.check)

    def first(self) -> Widget | None:
        return self.query_one("#paste-text", TextArea)

    def action_default(self) -> None:
        self.check()

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        if event.button.id == "take" and self.verdict is not None:
            self.dismiss(pasted(self.verdict))
        else:
            self.check()

    def check(self) -> None:
        """Find the command in the text, and say what is wrong with it and what it becomes."""
        from wizard.check.commands import check_text

        pasted = self.query_one("#paste-text", TextArea).text
        asked = self.plan.release.version if self.plan.release is not None else None
        report = self.query_one("#paste-report", Panel)
        take = self.query_one("#take", PushButton)
        try:
            found = check_text(pasted, _("the pasted text"), asked)
        except BadInput as error:
            self.verdict = None
            take.display = False
            report.put(content([("\n" + glyphs_of(self).attention + " ", BAD), (str(error), TEXT)]))
            return
        self.verdict = found.verdicts[0] if found.verdicts else None
        self.query_one("#paste-text").set_class(self.verdict is not None, "-checked")
        self.hint = _("Enter at the end checks it, Esc closes") if self.verdict is None else _("Enter takes it over, Esc closes")
        self._mark_more_later()
        report.put(self._told(found))
        take.display = self.verdict is not None
        (take if self.verdict is not None else self.query_one("#check", PushButton)).focus()

    def _told(self, found: Any) -> Content:
        from wizard.check.commands import kind_words
        from wizard.check.rewrite import quote

        glyphs = glyphs_of(self)
        parts: list[Part] = []
        for verdict in found.verdicts[:1]:
            mark, style, state = {
                "refused": (glyphs.blocked, BAD, _("vLLM {version} refuses it as it stands.")),
                "stops": (glyphs.blocked, BAD, _("vLLM {version} takes it as it stands, and then does not start.")),
                "doubtful": (glyphs.attention, WARN, _("vLLM {version} takes it as it stands, and may then not start.")),
                "flawed": (glyphs.attention, WARN, _("vLLM {version} takes it as it stands, but not all of it is right.")),
                "starts": (glyphs.done, OK, _("vLLM {version} takes it as it stands.")),
            }[verdict.outcome]
            parts.append((f"\n{mark} " + state.format(version=verdict.release.version), f"bold {style}"))
            for problem in verdict.problems:
                parts.append((f"\n{glyphs.bullet} {problem.flag}  ", ACCENT))
                kind = stopped(kind_words(problem.kind))
                parts.append((kind, WARN))
                parts.append((sentences(kind, sentence(problem.message))[len(kind) :], TEXT))
                if problem.replacement and problem.replacement not in problem.message:
                    parts.append(("  " + _("Instead: {flag}").format(flag=problem.replacement), OK))
            if verdict.changed:
                lines = "\n".join(text.command_lines(verdict.argv, quote))
                parts += [("\n\n" + _("It becomes:") + "\n", f"bold {ACCENT}"), (lines, TEXT)]
        for note in found.notes:
            parts.append((f"\n\n{glyphs.bullet} {note}", WARN))
        if len(found.verdicts) > 1:
            parts.append(("\n" + _("The text holds {n} commands; this is the first.").format(n=len(found.verdicts)), DIM))
        return content(parts)


def pasted(verdict: Any) -> Pasted:
    """What a judged command gives."""
    from wizard.check.commands import kind_words
    from wizard.check.container import mounts, on_host

    kept = {p.partition("=")[0] for p in verdict.argv}
    removed = []
    for problem in verdict.problems:
        if problem.kind in ("removed", "never_existed", "not_yet") and problem.flag not in kept:
            instead = _("Instead: {flag}").format(flag=problem.replacement) if problem.replacement else ""
            removed.append(LeftOut(problem.flag, sentences(stopped(kind_words(problem.kind)), instead) if instead else kind_words(problem.kind)))
    docker = _container_words(verdict.command)
    model = on_host(verdict.model, mounts(verdict.command)) or verdict.model if verdict.model is not None else None
    return Pasted(tuple(verdict.argv), model, tuple(removed), dict(verdict.env), docker)


def _container_words(command: Any) -> tuple[str, ...]:
    """docker's own words, also of a Compose service: what it publishes and mounts, and its image."""
    if command.kind != "compose" or command.image is None:
        return tuple(w.text for w in command.docker)
    published = [word for port in command.facts.get("ports", ()) for word in ("--publish", port)]
    mounted = [word for outside, inside in command.facts.get("mounts", ()) if outside for word in ("--volume", f"{outside}:{inside}")]
    return ("docker", "run", *published, *mounted, command.image)


def answers_around(plan: Plan, command: Pasted) -> tuple[dict[str, Value], list[LeftOut]]:
    """What stands around the command, as answers: variables, and the port that docker publishes; and what is not taken
    over, with the reason."""
    from wizard.check.extract import docker_run

    answers: dict[str, Value] = {}
    left: list[LeftOut] = []
    for name, value in command.env.items():
        if name in SECRET_ENV.values():
            left.append(LeftOut(name, _(WHY_LEFT_OUT["api_key" if name == SECRET_ENV["api_key"] else "hf_token"])))
            continue
        if name in VISIBLE_DEVICES.values():
            gpus = _gpus_named(plan, value)
            answers.update(gpus or {})
            if gpus is None:
                left.append(LeftOut(name, _("which GPUs are used is chosen on the step “This machine”")))
            continue
        try:
            set_answer(plan.session, plan, f"env.{name}", value, Layer.USER)
        except BadInput as error:
            left.append(LeftOut(name, str(error)))
        else:
            answers[f"env.{name}"] = value
    others: list[str] = []
    options, at = docker_run(command.docker) or ([], 0)
    for name, value in options:
        *address, port, _inside = ["", *value.split("/")[0].split(":")] if value.count(":") else ["", "", ""]
        if name == "--publish" and port.isdigit():
            answers["port"] = int(port)
            answers |= _who_may_reach(plan, address[-1] or "0.0.0.0")  # noqa: S104 - what docker takes
        elif name == "--gpus" and (named := _gpus_named(plan, value.strip("\"'").removeprefix("device="))) is not None:
            answers.update(named)
        elif name != "--env":
            others.append(f"{name} {value}".strip() if name in ("--publish", "--volume") else name)
    if others:
        left.append(LeftOut(listed(dict.fromkeys(others)), _("what docker needs is written by the wizard itself")))
    if command.docker and command.docker[at] != plan.image_reference:
        left.append(LeftOut(command.docker[at], _("the release is chosen on the step “vLLM version”; now it is {version}").format(version=plan.release.version if plan.release else "-")))
    return answers, left


def answers_of(plan: Plan, argv: Sequence[str]) -> tuple[dict[str, Value], list[LeftOut]]:
    """The answers that a repaired command stands for, one for each option that the chosen release has; and what of
    it is not taken over, with the reason.

    The model is not among them (see ``copy_here``), and secrets are never taken from a command line.
    """
    from wizard.plan import values
    from wizard.releases.parse import switch_text, take_apart

    answers: dict[str, Value] = {}
    left: list[LeftOut] = []
    if plan.release is None:
        return answers, left
    for argument in take_apart(argv, plan.release):
        option = argument.option
        if argument.how == "positional" or (option is not None and option.dest in MODEL_DESTS):
            continue
        if option is None or argument.keys:
            left.append(LeftOut(argument.flag, _("the wizard has no single answer for it")))
            continue
        if option.dest in WHY_LEFT_OUT:
            left.append(LeftOut(argument.flag, _(WHY_LEFT_OUT[option.dest])))
            continue
        if option.dest == "host" and len(argument.values) == 1:
            answers.update(_who_may_reach(plan, argument.values[0]))
            continue
        # A switch is taken by its own name, whichever of its spellings was pasted.
        value = switch_text(option, argument.flag, " ".join(argument.values) or "true")
        try:
            given = set_answer(plan.session, plan, option.dest, value, Layer.USER).answers.get(option.dest)
        except BadInput as error:
            left.append(LeftOut(argument.flag, str(error)))
            continue
        question = QUESTIONS.get(option.dest)
        wrong = question.error(plan, given[0]) if question is not None and given is not None else None
        if question is None and given is not None and plan.release is not None:
            wrong = values.wrong(option, value, plan.release)
        if wrong:
            left.append(LeftOut(argument.flag, wrong))
        elif given is not None:
            answers[option.dest] = given[0]
    return answers, left


def _gpus_named(plan: Plan, text: str) -> dict[str, Value] | None:
    """The answer that a list of GPUs ("0,1") stands for; None where it names none of this machine."""
    known = {str(g.index) for g in plan.machine.gpu.gpus}
    given = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if not given or not set(given) <= known:
        return None
    return {"gpus": given} if len(known) > 1 else {}


def _who_may_reach(plan: Plan, host: str) -> dict[str, Value]:
    """What the address that a command listens on says of the step “Access”."""
    from wizard.plan.access import is_every_address, is_loopback

    local = is_loopback(host)
    answers: dict[str, Value] = {"access": "local" if local else "network"}
    if not (local or is_every_address(host)) or plan.session.answers.get("host") is not None:
        answers["host"] = host
    return answers


def told_of(answers: Mapping[str, Value], left: Sequence[LeftOut]) -> Content:
    """What was taken over of a pasted command, and what was not."""
    parts: list[Part] = [(_("Taken over:"), f"bold {ACCENT}")]
    parts += [(f"\n  {key} = {text.value_text(value)}", TEXT) for key, value in answers.items()] or [("\n  " + _("nothing"), TEXT)]
    parts.append(("\n\n" + _("Left out:"), f"bold {WARN}"))
    for item in left:
        parts += [("\n  " + item.name, TEXT), ("  " + item.why, DIM)]
    return content(parts)
