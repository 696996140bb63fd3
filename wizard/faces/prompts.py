"""How the plain walk asks: questionary on a terminal, numbered lines of text anywhere else.

Both give the same answers for the same keys: Enter alone takes what is proposed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from wizard import columns
from wizard.errors import BadInput
from wizard.faces import writing
from wizard.i18n import _, bracketed, labelled
from wizard.plain_text import printable
from wizard.program import spelt

Check = Callable[[str], "str | None"]  # an error text for what was typed, or None


@dataclass(frozen=True)
class Option:
    """One thing to choose. ``title`` is one line; ``against`` (if it cannot be chosen) says why."""

    value: str
    title: str
    disabled: str = ""


class Prompter(Protocol):
    """Asks one thing. ``key`` is the answer's name, for the text when the input ends.

    The ``default`` of ``choose`` is one of the options, and not a disabled one.
    """

    def text(self, label: str, default: str, check: Check, key: str) -> str: ...

    def confirm(self, label: str, default: bool, key: str) -> bool: ...

    def secret(self, label: str, check: Check, key: str) -> str: ...

    def choose(self, label: str, options: Sequence[Option], default: str, key: str, typed: Check | None = None) -> str:
        """``typed`` checks what is typed instead of a number, where that may be an answer too."""
        ...


class InputEnded(BadInput):
    """Standard input ended where an answer was needed; asking again would never end."""


def say(text: str = "") -> None:
    """One block of text on standard output, seen at once."""
    print(printable(spelt(text)), flush=True)


def ended(label: str, key: str) -> InputEnded:
    command = "vllm-wizard generate --yes --out DIR" + (f" --set {key}=VALUE" if key else "")
    return InputEnded(
        _("Standard input ended at “{label}”, so nothing was written. This writes without questions: {command}").format(
            label=label, command=command
        )
    )


def prompter() -> Prompter:
    """The best way to ask here; raises BadInput, naming the flag to use, when nothing can be asked at all."""
    stdin, stdout = sys.stdin, sys.stdout
    if stdin is None or stdin.closed or stdout is None:
        raise _nobody_there()
    if not stdin.isatty():
        # Look without taking anything: an empty input (as from /dev/null) is better told before probing.
        peek = getattr(getattr(stdin, "buffer", None), "peek", None)
        try:
            if peek is not None and not peek(1):
                raise _nobody_there()
        except OSError:
            raise _nobody_there() from None
        return Lines()
    if not stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return Lines()
    try:
        return Questionary()
    except Exception:
        # prompt_toolkit knows many terminals and raises many things on the others; lines work on all.
        return Lines()


def _nobody_there() -> BadInput:
    return BadInput(
        _(
            "There is nobody to ask: standard input is empty or closed. Use vllm-wizard generate --yes --out DIR to write the files without questions; --set KEY=VALUE answers one."
        )
    )


def _asking(label: str, hint: str = "") -> str:
    """The label of a prompt with its end: a question mark, or a colon."""
    return label + hint if label.endswith(("?", "？")) and not hint else labelled(label + hint, "").rstrip()


class Lines:
    """Numbered questions on standard input: for terminals that cannot move the cursor, pipes and screen readers."""

    def _read(self, prompt: str, label: str, key: str) -> str:
        print(printable(prompt), end="", flush=True)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise BadInput(_("What was typed is not valid text: {error}.").format(error=error)) from None
        if not line:
            print(flush=True)
            raise ended(label, key)
        if not sys.stdin.isatty():
            print(flush=True)
        return line.rstrip("\r\n")

    def text(self, label: str, default: str, check: Check, key: str) -> str:
        while True:
            shown = f" [{default}]" if default else ""
            typed = self._read(f"{_asking(label, shown)} ", label, key).strip() or default
            wrong = check(typed)
            if wrong is None:
                return typed
            say(writing.wrapped(wrong, "  "))

    def confirm(self, label: str, default: bool, key: str) -> bool:
        words = {"y": True, "yes": True, "n": False, "no": False}
        words |= {_("yes").lower(): True, _("no").lower(): False}
        hint = _("[Y/n]") if default else _("[y/N]")
        while True:
            typed = self._read(f"{_asking(label, chr(32) + hint)} ", label, key).strip().lower()
            if not typed:
                return default
            if typed in words:
                return words[typed]
            say("  " + _("Please answer yes or no."))

    def secret(self, label: str, check: Check, key: str) -> str:
        while True:
            if sys.stdin.isatty():
                import getpass

                try:
                    typed = getpass.getpass(f"{_asking(label)} ", sys.stdout).strip()
                except EOFError:
                    raise ended(label, "") from None
            else:
                typed = self._read(f"{_asking(label)} ", label, "").strip()
            wrong = check(typed)
            if wrong is None:
                return typed
            say(writing.wrapped(wrong, "  "))

    def choose(self, label: str, options: Sequence[Option], default: str, key: str, typed: Check | None = None) -> str:
        for number, option in enumerate(options, 1):
            title = bracketed(option.title, _("proposed")) if option.value == default else option.title
            off = " - " + _("not possible: {why}").format(why=option.disabled) if option.disabled else ""
            say(writing.wrapped(title + off, "     ", f"  {number}. "))
        at = next((n for n, o in enumerate(options, 1) if o.value == default), 1)
        while True:
            text = self._read(f"{_asking(label, f' [{at}]')} ", label, key).strip() or str(at)
            hit = next((o for o in options if o.value == text), None)
            is_number = text.isascii() and text.isdigit()
            if hit is None and is_number and 1 <= int(text[:6]) <= len(options):
                hit = options[int(text) - 1]
            if hit is None and typed is not None and not is_number:
                wrong = typed(text)
                if wrong is None:
                    return text
                say(writing.wrapped(wrong, "  "))
            elif hit is None:
                say("  " + _("Please give a number from 1 to {n}.").format(n=len(options)))
            elif hit.disabled:
                say(writing.wrapped(hit.disabled, "  "))
            else:
                return hit.value


class Questionary:
    """Prompts with line editing, lists and completion, by questionary (prompt_toolkit)."""

    def __init__(self) -> None:
        import questionary

        self._q = questionary
        self._style = questionary.Style([("qmark", ""), ("instruction", ""), ("disabled", "italic")])

    def _ask(self, question: object, label: str, key: str) -> object:
        try:
            return question.unsafe_ask()  # type: ignore[attr-defined]
        except EOFError:
            raise ended(label, key) from None

    def text(self, label: str, default: str, check: Check, key: str) -> str:
        def validate(typed: str) -> bool | str:
            wrong = check(typed.strip())
            return True if wrong is None else wrong

        if default.replace(".", "", 1).isdigit():
            # A figure is typed anew and not edited: what is typed would stand before or behind the old one.
            mark, asked = _last_line(_asking(label, f" [{default}]"), 2)
            question = self._q.text(asked, validate=lambda typed: validate(typed.strip() or default), qmark=mark, style=self._style)
            return str(self._ask(question, label, key)).strip() or default
        mark, asked = _last_line(_asking(label), columns.width(default) + 2)
        question = self._q.text(asked, default=default, validate=validate, qmark=mark, style=self._style)
        return str(self._ask(question, label, key)).strip()

    def confirm(self, label: str, default: bool, key: str) -> bool:
        # The answer is shown in words that questionary takes from its own module, in English only.
        vars(sys.modules["questionary.prompts.confirm"]).update(YES=_("Yes"), NO=_("No"))
        mark, asked = _last_line(label, 16)
        question = self._q.confirm(asked, default=default, qmark=mark, style=self._style, instruction=_("(Y/n)") if default else _("(y/N)"))
        return bool(self._ask(question, label, key))

    def secret(self, label: str, check: Check, key: str) -> str:
        def validate(typed: str) -> bool | str:
            wrong = check(typed.strip())
            return True if wrong is None else wrong

        mark, asked = _last_line(_asking(label), 24)
        question = self._q.password(asked, validate=validate, qmark=mark, style=self._style)
        return str(self._ask(question, label, "")).strip()

    def choose(self, label: str, options: Sequence[Option], default: str, key: str, typed: Check | None = None) -> str:
        rows = [self._q.Choice(_row(o), value=o.value, disabled=bool(o.disabled)) for o in options]  # type: ignore[arg-type]  # a text would be shown a second time
        instruction = _("(arrow keys, Enter)")
        mark, asked = _last_line(_asking(label), columns.width(" " + instruction))
        question = self._q.select(
            asked,
            choices=rows,
            default=default,
            qmark=mark,
            pointer=">",
            instruction=instruction,
            style=self._style,
            use_shortcuts=False,
            use_jk_keys=False,
            # What was chosen is told below instead, broken between words.
            erase_when_done=True,
        )
        picked = str(self._ask(question, label, key))
        title = next((o.title for o in options if o.value == picked), picked)
        say("\n".join(columns.wrap(f"{mark} {asked} {title}", _room(), "", "  ")))
        return picked


def _room() -> int:
    """How many columns a line may take: as everywhere, or less on a narrower terminal."""
    import shutil

    return max(20, min(writing.WIDTH, shutil.get_terminal_size().columns - 1))


def _last_line(label: str, beside: int) -> tuple[str, str]:
    """(mark, last line) of a label that is too long for one line, ``beside`` columns left free; the lines before it are
    said above."""
    *above, last = columns.wrap(label, _room() - beside - len("? ")) or [label]
    if above:
        say("\n  ".join(["? " + above[0], *above[1:]]))
    return (" " if above else "?"), last


def _row(option: Option) -> str:
    """An option of a list, in lines of its own; why it cannot be chosen stands with it."""
    text = option.title
    if option.disabled:
        text += " - " + _("not possible: {why}").format(why=option.disabled)
    return "\n".join(columns.wrap(text, _room() - (5 if option.disabled else 3), "", "     "))
