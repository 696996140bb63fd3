"""The same walk in plain lines of text: each step with its answers and their reasons, any of which can be changed.

Without a change a step takes one Enter, so that a whole walk takes about ten. Only what has no answer is asked.
An accepted proposal is not kept as an answer, as in the full-screen walk: Enter alone gives the same files as
``generate --yes``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput, WizardError
from wizard.faces import inputs, resume, writing
from wizard.faces.prompts import Check, InputEnded, Option, Prompter, prompter, say
from wizard.faces.tui.walk import Walk, same
from wizard.i18n import _, bracketed, clause, labelled, listed, ngettext
from wizard.plan.after import MOVE_MODEL
from wizard.session import Answers, Layer, Value, expand, look_at_model, model_named
from wizard.steps import QUESTIONS, WHERE, Question, Step, parse_value, set_answer, value_words

if TYPE_CHECKING:
    from wizard.apply import Change
    from wizard.facts import ProbeRun
    from wizard.host import Host
    from wizard.plan_types import Plan

_OTHER = "\0other"
_MORE = "\0more"
_GO_ON, _ADVANCED, _ANY = "\0on", "\0advanced", "\0any"
SHOWN = 9  # so many choices are listed at first; the others are one choice away


def run(args: argparse.Namespace) -> int:
    """The plain walk. Exit 1 when it ends without files."""
    ask = prompter()
    say(writing.wrapped(_("vllm-wizard: sets up a vLLM server on this machine.")))
    say(writing.wrapped(_("Enter takes what is proposed. Ctrl-C leaves; nothing is written before you say so.")))
    say()
    return _Walk(args, ask).run()


class _Walk:
    def __init__(self, args: argparse.Namespace, ask: Prompter) -> None:
        self.args = args
        self.ask = ask
        self.host: Host = inputs.open_machine(args)
        self.recorded = inputs.is_recorded(args)
        self.walk = Walk()
        self.count = 0  # of the steps, when the last one was shown
        self.kept: Path = resume.session_path(self.host.name if self.recorded else resume.THIS_MACHINE)

    # -- the course of it ---------------------------------------------------------------------------------------

    def run(self) -> int:
        try:
            self._look(self._offer_saved())
            if self._machine_is_blocked():
                return 1
            self._through()
            return self._review()
        except KeyboardInterrupt:
            say()
            if self.walk.written:
                say(writing.wrapped(_("Left. Nothing more was written; your answers are kept for the next start.")))
            else:
                say(writing.wrapped(_("Left. Nothing was written; your answers are kept for the next start.")))
            if secrets := resume.not_kept(self.walk.secrets_given()):
                say(writing.wrapped(secrets))
            raise

    def _through(self) -> None:
        """All steps that were not shown yet, in order. Answers open and close steps, also before the one they are
        given on: those come next."""
        while True:
            steps = [s.id for s in self.walk.steps()]
            step_id = next((s for s in steps[:-1] if s not in self.walk.visited), None)
            if step_id is None:
                return
            self._tell_count(step_id, steps)
            self._step(step_id)

    def _tell_count(self, step_id: str, steps: list[str]) -> None:
        """Say where the numbers of the steps do not go on as before."""
        before, self.count = self.count, len(steps)
        at, last = steps.index(step_id), self.walk.step_id
        if last in self.walk.visited and last in steps and steps.index(last) > at:
            say(writing.wrapped(_("Your answer adds a step before that one: it comes now. There are {count} steps now.").format(count=len(steps))))
        elif before and before != len(steps):
            say(writing.wrapped(_("With what you answered there are {count} steps now instead of {before}.").format(count=len(steps), before=before)))
        else:
            return
        say()

    @property
    def plan(self) -> Plan:
        assert self.walk.plan is not None
        return self.walk.plan

    def _offer_saved(self) -> Mapping[str, Value]:
        """The answers of the last walk, if there are any and the user wants to go on from them."""
        given = self.args
        if given.answers or given.model or given.set or given.release or given.runtime:
            return {}
        saved, wrong = resume.load(self.kept)
        if wrong:
            say(writing.wrapped(wrong))
        if saved is None:
            return {}
        answers = {k: v for k, v in saved.answers.items() if k != "out_dir" or given.out is None}
        if not answers:
            return {}
        say(
            writing.wrapped(
                _("There are answers of an earlier walk ({when}): {keys}.").format(
                    when=saved.when or "?", keys=listed(_(QUESTIONS[k].label) if k in QUESTIONS else k for k in sorted(answers))
                )
            )
        )
        if saved.secrets:
            say(writing.wrapped(resume.not_kept(saved.secrets)))
        go_on = self.ask.confirm(_("Go on from them?"), True, "")
        say()
        return answers if go_on else {}

    def _look(self, saved: Mapping[str, Value]) -> None:
        """Probe the machine, telling each answer as it comes, and make the first plan."""
        say(_("Looking at this machine ..."))
        session, _plan = inputs.load_session(self.host, self.args, on_probe=_tell_probe)
        self.walk.secrets = session.secrets
        self.walk.answers = session.answers
        if saved:
            session, answers = _with_saved(session, self.host, saved)
            self.walk.answers = answers
        self.walk.use(session)
        say()

    def _machine_is_blocked(self) -> bool:
        """Whether the machine itself stands in the way and the user does not want to look on."""
        codes = {p.code for p in self.plan.machine.problems}
        blockers = [b for b in self.plan.blockers if b.code in codes]
        if not blockers:
            return False
        say(_("This machine cannot serve a model yet:"))
        say(writing.notices(blockers))
        if self.ask.confirm(_("Look through the steps all the same? Nothing can be written."), False, ""):
            return False
        say(writing.wrapped(_("Nothing was written. Start again when this is cured.")))
        return True

    # -- one step -----------------------------------------------------------------------------------------------

    def _step(self, step_id: str) -> None:
        step = next((s for s in self.walk.steps() if s.id == step_id), None)
        if step is None:
            return
        self.walk.step_id = step_id
        self.walk.visited.add(step_id)
        self._head(step)
        if step_id == "machine":
            self._tell_machine()
        elif step_id == WHERE.id:
            self._tell_ways()
        for question in self.walk.questions(step):
            if question.kind == "model":
                self._question(question)
        self._change(step)
        self._foot(step)
        wrong = resume.save(self.kept, self._keepable(), step_id, self.walk.secrets_given())
        if wrong and step_id == "machine":
            say(writing.wrapped(wrong))

    def _keepable(self) -> dict[str, Value]:
        """What was answered; what the command line says is said there again, or not meant any more."""
        given = self.walk.answers.layer(Layer.CLI)
        return {k: v for k, v in self.walk.answers.flat().items() if k not in given or k in self.walk.answers.user}

    def _head(self, step: Step) -> None:
        steps = self.walk.steps()
        number = 1 + [s.id for s in steps].index(step.id)
        say(writing.wrapped(_("Step {number} of {count}: {title}").format(number=number, count=len(steps), title=_(step.title))))
        say(writing.wrapped(_(step.intro)))
        say()

    def _change(self, step: Step) -> None:
        """Show the answers of a step and change those that the user picks, until he goes on."""
        asked: set[str] = set()
        all_of_them = False
        label = _("Go on, or change something")
        while True:
            # Answers open and close questions, so the list is looked at anew each time.
            open_ones = [q for q in self.walk.questions(step) if q.kind != "model"]
            missing = next((q for q in open_ones if q.key not in asked and self._lacks_answer(q)), None)
            if missing is not None:
                asked.add(missing.key)
                self._question(missing)
                continue
            shown = [q for q in open_ones if all_of_them or not q.advanced]
            options = [Option(_GO_ON, _("go on")), *(Option(q.key, self._answer_line(q)) for q in shown)]
            if len(shown) < len(open_ones):
                options.append(Option(_ADVANCED, _("more settings of this step")))
            if step.id == "flags":
                options.append(Option(_ANY, _("another option of vllm serve, as name=value")))
            if len(options) == 1:
                return
            picked = self.ask.choose(label, options, _GO_ON, "")
            say()
            if picked == _GO_ON:
                return
            if picked == _ADVANCED:
                all_of_them = True
            elif picked == _ANY:
                self._any_option()
            else:
                asked.add(picked)
                self._question(QUESTIONS[picked])

    def _lacks_answer(self, question: Question) -> bool:
        """Whether nothing stands for a question that cannot be left open, or from which others follow."""
        if question.asked_first:
            return question.current(self.plan) is None
        if self.plan.decision(question.key) is not None:
            return False  # where the plan itself leaves it open, with its reason
        if question.optional or question.secret or question.advanced or question.kind in ("bool", "list", "multi"):
            return False
        return question.current(self.plan) in (None, "")

    def _answer_line(self, question: Question) -> str:
        """A question with what stands for it now, and why."""
        label = _(question.label)
        if question.secret:
            held = self.walk.secrets.get(question.key) is not None
            made = _("none given: a random one is made when the files are written") if question.key == "api_key" else _("none given")
            return labelled(label, _("given") if held else made)
        value = value_words(question, self.plan, question.current(self.plan)) or _("nothing")
        text = f"{label} {value}" if label.endswith(("?", "？")) else labelled(label, value)
        reason = self.plan.reason(question.key)
        return bracketed(text, clause(reason)) if reason else text

    def _question(self, question: Question) -> None:
        while True:
            try:
                if question.secret:
                    self._ask_secret(question)
                elif question.kind == "model":
                    self._ask_model(question)
                else:
                    self._ask_value(question)
                return
            except InputEnded:
                raise
            except BadInput as error:
                say(writing.wrapped(str(error), "  "))

    def _explain(self, question: Question) -> None:
        say(writing.wrapped(_(question.help), "  "))
        decision = self.plan.decision(question.key)
        if decision is not None and decision.reason and not _says_the_same(decision.reason, _(question.help)):
            say(writing.wrapped(_("Why: {reason}").format(reason=decision.reason), "  "))

    def _ask_value(self, question: Question) -> None:
        current = question.current(self.plan)
        label = bracketed(_(question.label), question.unit) if question.unit else _(question.label)
        self._explain(question)
        if question.key == "run_on" and self.walk.step_id != WHERE.id:
            self._tell_ways()
        options = self._options(question)
        value: Value
        if question.kind == "bool":
            value = self.ask.confirm(label, bool(current), question.key)
        elif question.kind == "choice" and options:
            usable = [o.value for o in options if not o.disabled]
            shown = str(current)
            if shown not in [o.value for o in options]:
                # A value from the command line that is not among those proposed.
                options.insert(0, Option(shown, shown))
            elif shown not in usable:
                if not usable:
                    say(
                        writing.wrapped(
                            _("None of these is possible here: {why}").format(why=options[0].disabled), "  "
                        )
                    )
                    return
                shown = usable[0]
            if question.key == "release":
                options = [*options, Option(_OTHER, _("another release"))]
            picked = self._choose(label, options, shown, question.key)
            if picked == _OTHER:
                picked = self.ask.text(label, shown, self._checker(question, shown), question.key)
            value = picked
        else:
            for option in options:
                say(writing.wrapped(option.title, "    ", "  "))
            shown = _editable(current)
            if question.asked_first and not shown:
                say("  " + _("Enter leaves it open."))
            typed = self.ask.text(label, shown, self._checker(question, shown), question.key)
            if typed == shown:
                say()
                return
            value = self._value(question, typed)
        self._take(question.key, value)
        say()

    def _value(self, question: Question, typed: str) -> Value:
        if not typed:
            return () if question.kind in ("list", "multi") else ""
        value = parse_value(question, typed)
        if question.kind != "path":
            return value
        # The files lie on this machine, also when another one is planned for.
        home = str(Path.home()) if question.key == "out_dir" and self.recorded else self.plan.machine.home
        return expand(str(value), home)

    def _take(self, key: str, value: Value) -> None:
        current = self.plan.value(key)
        if same(value, current) or (current is None and value in ("", (), False)):
            return
        before = self.plan
        self.walk.answer(key, value)
        self._tell_blocked(before)

    def _tell_blocked(self, before: Plan) -> None:
        """What an answer brought into the way, with its ways out: to be put right at once, not at the review."""
        new = [b for b in self.plan.blockers if b not in before.blockers]
        if new:
            say(_("This stands in the way:"))
            say(writing.notices(new).rstrip())

    def _checker(self, question: Question, shown: str) -> Any:
        def check(typed: str) -> str | None:
            if typed == shown:
                return None
            if not typed:
                return None if question.optional else _("This may not be left empty.")
            try:
                value = parse_value(question, typed)
            except BadInput as error:
                return str(error)
            return None if question.key == "release" else question.error(self.plan, value)

        return check

    def _options(self, question: Question) -> list[Option]:
        return [
            Option(
                c.value,
                _title(c.label, c.note, c.against if not c.disabled else ""),
                c.against if c.disabled else "",
            )
            for c in question.choices(self.plan)
        ]

    def _choose(self, label: str, options: list[Option], shown: str, key: str, typed: Check | None = None) -> str:
        """One of ``options``; a long list is shown in full only when that is asked for."""
        first = options
        if len(options) > SHOWN + 2:
            last = [o for o in options[SHOWN:] if o.value in (_OTHER, shown)]
            more = Option(_MORE, _("show all {n}").format(n=len(options)))
            first = [*options[:SHOWN], *last, more]
        picked = self.ask.choose(label, first, shown, key, typed)
        return self.ask.choose(label, options, shown, key, typed) if picked == _MORE else picked

    def _ask_secret(self, question: Question) -> None:
        say(writing.wrapped(_(question.help), "  "))
        held = self.walk.secrets.get(question.key) is not None
        label = (
            bracketed(_(question.label), _("Enter keeps the one given") if held else _("Enter leaves it out"))
        )
        typed = self.ask.secret(
            label, lambda text: None if not text else question.check(self.plan, text), question.key
        )
        if typed:
            self.walk.set_secret(question.key, typed)
        say()

    def _ask_model(self, question: Question) -> None:
        self._explain(question)
        current = question.current(self.plan)
        options = self._options(question)
        source: str
        if options:
            values = [o.value for o in options]
            shown = str(current) if current is not None else values[0]
            if shown not in values:
                options.insert(0, Option(shown, shown))
            options.append(Option(_OTHER, _("another: a path or a repository id")))
            source = self._choose(_(question.label), options, shown, question.key, self._checker(question, shown))
        else:
            source = _OTHER
        before = self.plan
        while True:
            if source == _OTHER:
                source = self.ask.text(_("Path or repository id"), "", self._checker(question, ""), question.key)
            if not source:
                # Enter at the empty field: the review then says that a model is missing.
                say("  " + _("No model is chosen."))
                say()
                return
            try:
                self._take_model(source)
                break
            except BadInput as error:
                # Only what was typed is asked for again: the list was read once.
                say(writing.wrapped(str(error), "  "))
                source = _OTHER
        self._tell_fit()
        self._tell_blocked(before)
        say()

    def _take_model(self, source: str) -> None:
        if not self.recorded:
            source = inputs.local_source(source)
        source = model_named(source, self.plan.machine)
        current = QUESTIONS["model"].current(self.plan)
        if current is None or source != str(current):
            assert self.walk.session is not None
            self.walk.use(look_at_model(self.walk.session, self.host, source))
            self.walk.answer("model", source)

    def _any_option(self) -> None:
        """Options of vllm serve that no question is about."""
        say(writing.wrapped(_("Any other option of vllm serve, as name=value. Enter goes on."), "  "))
        while True:
            typed = self.ask.text(_("Option"), "", self._check_option, "")
            if not typed:
                say()
                return
            self._set_option(typed)

    def _check_option(self, typed: str) -> str | None:
        if not typed:
            return None
        key, sep, value = typed.partition("=")
        if not sep:
            return _("Write it as name=value.")
        assert self.walk.session is not None
        try:
            probed = set_answer(self.walk.session, self.plan, key, value, Layer.USER)
        except BadInput as error:
            return str(error)
        *_before, name = probed.answers.user  # the last one given
        question = QUESTIONS.get(name)
        if question is not None:
            return question.error(self.plan, probed.answers.user[name])
        return self.walk.new_fault(self.plan, probed)

    def _set_option(self, typed: str) -> None:
        assert self.walk.session is not None
        key, _sep, value = typed.partition("=")
        session = set_answer(self.walk.session, self.plan, key, value, Layer.USER)
        before = self.plan
        self.walk.answers = session.answers
        self.walk.use(session)
        self._tell_blocked(before)

    # -- what is told ---------------------------------------------------------------------------------------------

    def _tell_machine(self) -> None:
        problems = self.plan.machine.problems
        if problems:
            say(ngettext("{n} thing to know:", "{n} things to know:", len(problems)).format(n=len(problems)))
            say(writing.notices(problems))
        else:
            say(_("Nothing stands in the way."))
            say()

    def _tell_ways(self) -> None:
        """What each way to run it costs."""
        from wizard.faces.clustering import ways_in_walk

        assert self.walk.session is not None
        try:
            ways = ways_in_walk(self.walk.session)
        except WizardError as error:  # what an answer lacks
            say(writing.wrapped(str(error), "  "))
            ways = []
        for title, paragraphs in ways:
            say(writing.wrapped(title, "    ", "  "))
            for words in paragraphs:
                say(writing.wrapped(words, "      "))
        say()

    def _tell_fit(self) -> None:
        from wizard.faces.batch import fit_rows

        if self.plan.fit is not None:
            for label, text in fit_rows(self.plan):
                say(writing.wrapped(labelled(label, text), "  "))

    def _foot(self, step: Step) -> None:
        if step.id == "flags" and self.plan.argv:
            from wizard.faces.batch import command_text

            self._tell_fit()
            say(_("The command so far:"))
            say(command_text(self.plan))

    # -- review and writing ---------------------------------------------------------------------------------------

    def _review(self) -> int:
        from wizard.steps import REVIEW

        self._head(REVIEW)
        self._propose_folder()
        while True:
            if self.plan.blockers:
                say(writing.wrapped(_("This stands in the way, so nothing can be written:")))
                say(writing.notices(self.plan.blockers))
                if not self._change_something(_("leave")):
                    say(_("Nothing was written."))
                    return 1
                continue
            done = self._offer_writing()
            if done is not None:
                return done

    def _offer_writing(self) -> int | None:
        """Show what would be written and act on what the user says; None: look again."""
        assert self.walk.session is not None
        out = str(self.plan.value("out_dir"))
        try:
            changes, plan = writing.changes_for(self.walk.with_proposals(self.walk.session), self.plan, out)
        except WizardError as error:
            # Something beside the plan: a node of the cluster, a folder that cannot be looked at.
            say(writing.wrapped(str(error)))
            if self._change_something(_("leave")):
                return None
            say(_("Nothing was written."))
            return 1
        self._tell_changes(changes, plan)
        in_place = self._own_wslconfig(plan)
        own = (
            [Option("own", _("write them, and change {path} itself").format(path=in_place))]
            if in_place
            else []
        )
        picked = self.ask.choose(
            _("What now?"),
            [
                Option("write", _("write these files")),
                *own,
                Option("show", _("show every file line by line")),
                Option("change", _("change an answer")),
                Option("folder", _("write to another folder")),
                Option("leave", _("leave without writing")),
            ],
            "write",
            "",
        )
        say()
        if picked == "write":
            return self._write(plan, changes)
        if picked == "own":
            changes, plan = writing.changes_for(self.walk.with_proposals(self.walk.session), self.plan, out, apply_wslconfig=True)
            return self._write(plan, changes)
        if picked == "show":
            for change in changes:
                say(writing.shown_diff(change, plan))
        elif picked == "change":
            self._change_something(_("back to the review"))
        elif picked == "folder":
            self._question(QUESTIONS["out_dir"])
        else:
            say(writing.wrapped(_("Nothing was written. Your answers are kept for the next start.")))
            return 1
        return None

    def _own_wslconfig(self, plan: Plan) -> str | None:
        """The user's own .wslconfig, when it can be changed from here and has to be."""
        wsl = plan.machine.wsl
        return None if self.recorded or wsl is None or not plan.wsl_changes else wsl.wslconfig_path

    @staticmethod
    def _tell_changes(changes: list[Change], plan: Plan) -> None:
        from wizard.apply import State

        for change in changes:
            say("  " + writing.change_head(change))
            for note in change.notes:
                say(writing.wrapped(note, "    "))
        say()
        for change in changes:
            own_settings = change.spec.path == ".wslconfig" and change.state is State.NEW
            if change.state is State.CHANGED or own_settings:
                say(writing.shown_diff(change, plan))
        if plan.warnings:
            say(_("Warnings:"))
            say(writing.notices(plan.warnings))

    def _propose_folder(self) -> None:
        if self.recorded and "out_dir" not in self.walk.proposed and self.walk.session is not None:
            # A recorded machine's home is not here: proposed, so that it is no choice of the user's.
            below = inputs.out_folder(f"vllm-{self.host.name}")
            self.walk.proposed = {"out_dir": (below, _("a recorded machine's files go below the current folder"))}
            self.walk.use(self.walk.session)
        folder = QUESTIONS["out_dir"]
        say(writing.wrapped(self._answer_line(folder)))
        say()

    def _change_something(self, leave: str) -> bool:
        """Go through one step again. False: the user would rather not."""
        from wizard.steps import REVIEW

        options = [Option(s.id, _(s.title)) for s in self.walk.steps() if s.id != REVIEW.id]
        picked = self.ask.choose(_("Which step?"), [*options, Option(_OTHER, leave)], _OTHER, "")
        say()
        if picked == _OTHER:
            return False
        self._step(picked)
        self._through()
        return True

    def _write(self, plan: Plan, changes: list[Change]) -> int:
        from wizard.apply import write

        receipt = write(changes)
        self.walk.written = True
        resume.save(self.kept, self._keepable(), resume.FINISHED)
        say(writing.written(receipt))
        after = list(plan.after)
        if plan.move is not None and plan.move.wanted and not self.recorded and self._copy_model(plan):
            after = [s for s in after if s.key != MOVE_MODEL]
        if after:
            say(_("Next:"))
            say(writing.next_steps(after))
        return 0

    def _copy_model(self, plan: Plan) -> bool:
        """Copy the model now if the user wants it; True when it is there afterwards."""
        move = plan.move
        assert move is not None
        say(writing.wrapped(_("The model is still on the slow drive: {source}.").format(source=move.source)))
        try:
            if not self.ask.confirm(_("Copy it now to {to}?").format(to=move.destination), True, ""):
                return False
        except InputEnded:  # nobody there any more; what was to be written is
            return False
        from wizard import move_command

        try:
            # Consent was given above; the original is never deleted here.
            return move_command.run(["--yes", "--", move.source, move.destination]) == 0
        except WizardError as error:
            say(str(error))
        except KeyboardInterrupt:
            say(writing.wrapped(_("Paused. The same command goes on from here.")))
        return False


def _tell_probe(result: ProbeRun) -> None:
    from wizard.probes import PROBE_NAMES

    label = _(PROBE_NAMES.get(result.name, result.name))
    text = result.summary if result.ok or not result.reason else (result.summary or result.reason)
    if result.timed_out:
        text = _("no answer: {reason}").format(reason=result.reason)
    say(writing.wrapped(labelled(label, text or "-"), "    ", "  "))


def _with_saved(session: Any, host: Host, saved: Mapping[str, Value]) -> tuple[Any, Answers]:
    """The session with answers of an earlier walk; a model that is gone meanwhile is left out.

    What was said on the command line now counts more than what was answered then.
    """
    given = session.answers.flat()
    values = {k: v for k, v in saved.items() if k not in given}
    model = values.get("model")
    if model is not None:
        try:
            session = look_at_model(session, host, str(model))
        except BadInput as error:
            say(writing.wrapped(str(error)))
            del values["model"]
    answers = session.answers.with_values(values, Layer.USER)
    return replace(session, answers=answers), answers


def _says_the_same(reason: str, help_: str) -> bool:
    return reason.strip(" .").casefold() in help_.casefold()


def _editable(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    return repr(value) if isinstance(value, float) else str(value)


def _title(label: str, note: str, against: str) -> str:
    text = labelled(label, note) if note else label
    return bracketed(text, _("but: {against}").format(against=against)) if against else text
