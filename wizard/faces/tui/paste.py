"""A command that was found somewhere: pasted, checked against the chosen release, and taken over as answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from textual.content import Content
from textual.widget import Widget
from textual.widgets import TextArea

from wizard.errors import BadInput
from wizard.faces.tui.dialogs import Dialog
from wizard.faces.tui.text import ACCENT, BAD, DIM, OK, TEXT, WARN, Part, content
from wizard.faces.tui.widgets import Panel, PushButton, glyphs_of
from wizard.i18n import _
from wizard.session import Layer, Value
from wizard.steps import QUESTIONS, set_answer

if TYPE_CHECKING:
    from wizard.plan_types import Plan

# What the wizard decides with its own questions, or may not be asked to keep in answers.
LEFT_OUT = frozenset({"model_tag", "model", "api_key", "hf_token", "host"})


class PasteDialog(Dialog[Mapping[str, Value]]):
    """Gives the answers that the pasted command stands for, once they are taken over."""

    full = True

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.title_text = _("Paste a command you found")
        self.hint = _("Tab leaves the field, Esc closes")
        self.verdict: Any = None

    def body(self) -> Iterator[Widget]:
        yield Panel(id="paste-told", classes="block")
        yield TextArea(id="paste-text", tab_behavior="focus", show_line_numbers=False, soft_wrap=True)
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

    def first(self) -> Widget | None:
        return self.query_one("#paste-text", TextArea)

    def action_default(self) -> None:
        self.check()

    def on_push_button_pressed(self, event: PushButton.Pressed) -> None:
        event.stop()
        if event.button.id == "take" and self.verdict is not None:
            self.dismiss(answers_of(self.plan, self.verdict.argv))
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
        report.put(self._told(found))
        take.display = self.verdict is not None
        (take if self.verdict is not None else self.query_one("#check", PushButton)).focus()

    def _told(self, found: Any) -> Content:
        from wizard.check.commands import kind_words

        glyphs = glyphs_of(self)
        parts: list[Part] = []
        for verdict in found.verdicts[:1]:
            state = _("vLLM {version} takes it as it stands.") if verdict.accepted else _("vLLM {version} refuses it as it stands.")
            mark, style = (glyphs.done, OK) if verdict.accepted else (glyphs.blocked, BAD)
            parts.append((f"\n{mark} " + state.format(version=verdict.release.version), f"bold {style}"))
            for problem in verdict.problems:
                parts.append((f"\n{glyphs.bullet} {problem.flag}  ", ACCENT))
                parts.append((kind_words(problem.kind) + ". ", WARN))
                parts.append((problem.message, TEXT))
                if problem.replacement and problem.replacement not in problem.message:
                    parts.append(("  " + _("Instead: {flag}").format(flag=problem.replacement), OK))
        if len(found.verdicts) > 1:
            parts.append(("\n" + _("The text holds {n} commands; this is the first.").format(n=len(found.verdicts)), DIM))
        return content(parts)


def answers_of(plan: Plan, argv: list[str]) -> dict[str, Value]:
    """The answers that a repaired command stands for: one for each option that the chosen release has.

    The model is left as it is chosen in its own step, and secrets are never taken from a command line.
    """
    from wizard.releases.parse import take_apart

    answers: dict[str, Value] = {}
    if plan.release is None:
        return answers
    for argument in take_apart(argv, plan.release):
        option = argument.option
        if option is None or option.dest in LEFT_OUT or argument.keys:
            continue
        text = " ".join(argument.values)
        if not argument.values:
            text = "false" if argument.flag.startswith("--no-") else "true"
        with contextlib.suppress(BadInput):
            given = set_answer(plan.session, plan, option.dest, text, Layer.USER).answers.get(option.dest)
            question = QUESTIONS.get(option.dest)
            if given is not None and (question is None or question.error(plan, given[0]) is None):
                answers[option.dest] = given[0]
    return answers
