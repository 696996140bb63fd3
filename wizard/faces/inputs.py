"""From the command line's options to a session: answers with their layers, secrets, the machine, the models."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput
from wizard.i18n import _, labelled, sentences
from wizard.regular_file import require_regular
from wizard.session import (
    SECRET_ENV,
    SECRET_KEYS,
    Answers,
    Layer,
    Secrets,
    Session,
    Value,
    id_of_page,
    load_answers,
    load_pinned,
)
from wizard.steps import QUESTIONS, Question, kind_words, parse_value, set_answer

if TYPE_CHECKING:
    from wizard.host import Host
    from wizard.plan_types import Plan


def open_machine(args: argparse.Namespace) -> Host:
    """This machine, or the recorded one of ``--machine``."""
    from wizard.host import open_host

    return open_host(args.machine)


def is_recorded(args: argparse.Namespace) -> bool:
    return args.machine is not None


def answers_from(args: argparse.Namespace) -> Answers:
    """The answers of ``--answers`` and of the other options, typed; raises BadInput naming what is wrong.

    What is no question is kept as text: whether the release has such an option is known once it is chosen.
    """
    file: dict[str, Value] = {}
    pinned: frozenset[str] = frozenset()
    if args.answers is not None:
        path = Path(args.answers).expanduser()
        require_regular(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInput(
                _("{path} cannot be read: {reason}.").format(path=path, reason=error.strerror or error)
            ) from error
        file = {k: _typed(k, v, str(path)) for k, v in load_answers(data, str(path)).items()}
        pinned = load_pinned(data)
    from wizard.plan import values

    cli: dict[str, Value] = {}
    for pair in args.set:
        key, sep, text = pair.partition("=")
        name = key.strip().lstrip("-").replace("-", "_")
        if not sep or not name:
            raise BadInput(_("--set {pair}: write it as KEY=VALUE.").format(pair=_short(pair)))
        if name in SECRET_KEYS or name.upper() in SECRET_ENV.values():
            raise BadInput(
                _(
                    "--set {key}: a secret on a command line can be read by others. Put it into the environment ({variables}) and add --secrets-from-env."
                ).format(key=key.strip(), variables=", ".join(SECRET_ENV.values()))
            )
        question = QUESTIONS.get(name)
        if name in values.PATHS and not is_recorded(args):
            text = local_source(text)
        if name == "nodes_file" and text and not text.startswith("~"):
            text = os.path.abspath(text)  # noqa: PTH100 - a text, links in it are kept; it is read here, whichever machine is planned for
        cli[name] = text if question is None else parse_value(question, text, name)
    if args.model is not None:
        cli["model"] = args.model if is_recorded(args) else local_source(args.model)
    if args.release is not None:
        cli["release"] = args.release
    if args.runtime is not None:
        cli["runtime"] = args.runtime
    if getattr(args, "out", None) is not None:
        cli["out_dir"] = out_folder(args.out)
    for table in (file, cli):
        if isinstance(table.get("model"), str):
            table["model"] = id_of_page(str(table["model"]))
        release = table.get("release")
        if isinstance(release, str) and release[:1] in "vV":
            table["release"] = release[1:]
    return Answers(file=file, cli=cli, pinned=pinned)


def out_folder(text: str, *, is_option: bool = True) -> str:
    """The absolute folder that ``--out`` means, or (not ``is_option``) the folder that a command is given."""
    if not text or "\0" in text:
        raise BadInput(_("--out: give the folder to write to.") if is_option else _("Name a folder: an empty text is none."))
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - a text, kept as it was given


def local_source(source: str) -> str:
    """A relative path means the folder that the user stands in, also one that looks like a repository id."""
    relative = not source.startswith(("/", "~")) and "\0" not in source
    return os.path.abspath(source) if relative and source and os.path.exists(source) else source  # noqa: PTH100, PTH110


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _typed(key: str, value: Value, name: str) -> Value:
    """``value`` as the question's kind wants it; texts are read as ``--set`` reads them."""
    question = QUESTIONS.get(key)
    if question is None:
        return value
    kind = question.kind
    if isinstance(value, str):
        try:
            return parse_value(question, value, key)
        except BadInput as error:
            raise BadInput(_("{name}: {error}").format(name=name, error=error)) from None
    if kind == "multi" and type(value) is int:
        return (str(value),)
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
        "multi": isinstance(value, tuple),
        "list": isinstance(value, tuple),
    }.get(kind, isinstance(value, (int, float)) and not isinstance(value, bool))
    if not fits:
        raise BadInput(
            _("{name}: the value of “{key}” is of the wrong kind. What can stand there: {kind}.").format(
                name=name, key=key, kind=kind_words(kind)
            )
        )
    return str(value) if kind in ("text", "path", "choice", "model") else value


def secrets_from(args: argparse.Namespace, environment: Mapping[str, str]) -> Secrets:
    """The secrets in the environment, when ``--secrets-from-env`` asks for them."""
    secrets = Secrets()
    if not getattr(args, "secrets_from_env", False):
        return secrets
    for key, variable in SECRET_ENV.items():
        value = environment.get(variable, "").strip()
        if not value:
            continue
        if not all(c.isascii() and (c.isalnum() or c in "-_.:/+=@~") for c in value):
            raise BadInput(
                _(
                    "{variable} in the environment holds a character that an environment file cannot hold. Only letters, digits and - _ . : / + = @ ~ can stand there."
                ).format(variable=variable)
            )
        secrets = secrets.with_value(key, value)
    return secrets


def load_session(
    host: Host, args: argparse.Namespace, *, on_probe: Callable[[Any], None] | None = None
) -> tuple[Session, Plan]:
    """The session that the options describe, checked, and the plan over it."""
    from dataclasses import replace

    from wizard.plan import plan as make_plan
    from wizard.session import gather, look_at_adapters

    answers = answers_from(args)
    loose = {
        layer: {k: v for k, v in answers.layer(layer).items() if k not in QUESTIONS}
        for layer in (Layer.FILE, Layer.CLI)
    }
    known = Answers(
        file={k: v for k, v in answers.file.items() if k in QUESTIONS},
        cli={k: v for k, v in answers.cli.items() if k in QUESTIONS},
        pinned=answers.pinned,
    )
    session = gather(host, known, recipe_dirs=args.recipes, on_probe=on_probe)
    session = replace(session, secrets=secrets_from(args, os.environ))
    plan = make_plan(session)
    if any(loose.values()):
        for layer, table in loose.items():
            for key, value in table.items():
                session = set_given(session, plan, key, value, layer, args.answers)
        plan = make_plan(session)
    looked = look_at_adapters(session)
    if looked is not session:
        session, plan = looked, make_plan(looked)
    check_answers(session, plan, args.answers)
    check_paths(host, session, plan)
    return session, plan


def set_given(session: Session, plan: Plan, key: str, value: Value, layer: Layer, answers_file: str | None = None) -> Session:
    """The session with an option of vLLM as a file or ``--set`` gives it; what is wrong in a file is said with its name."""
    try:
        return set_answer(session, plan, key, as_text(value), layer)
    except BadInput as error:
        if layer is not Layer.FILE:
            raise
        raise BadInput(labelled(answers_file or _("answers file"), str(error))) from None


def check_paths(host: Host, session: Session, plan: Plan) -> None:
    """Raise BadInput for the first LoRA adapter or file of an option that was named and is not there."""
    from wizard.plan import values
    from wizard.session import lora_paths

    home = plan.machine.home
    for key in ("lora_adapters", "lora_modules"):
        given = session.answers.get(key)
        for path in lora_paths(given[0], home) if given is not None else ():
            if _is_missing(host, path):
                raise BadInput(
                    _("{key}: there is no folder {path}. Give the folder that holds adapter_config.json.").format(
                        key=key, path=path
                    )
                )
    for key in sorted(session.answers.keys() & values.PATHS):
        found = session.answers.get(key)
        named = values.path_of(key, as_text(found[0]), home) if found is not None else None
        if named is not None and _is_missing(host, named):
            raise BadInput(_("{key}: there is no {path}.").format(key=key, path=named))


def _is_missing(host: Host, path: str) -> bool:
    """Whether nothing lies there. A recording holds not every file: there, only where not even its root is known."""
    from wizard.session import THIS_MACHINE

    if host.name != THIS_MACHINE:
        path = "/" + path.strip("/").split("/", 1)[0]
    return not host.exists(path)


def as_text(value: Value) -> str:
    """A value as ``--set`` spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def check_answers(session: Session, plan: Plan, answers_file: str | None = None) -> None:
    """Raise BadInput for the first explicit answer whose form is wrong.

    What only this machine speaks against (a port in use, a runtime that is not installed) is left to the
    plan, which says so as a warning or blocker: the answer itself is well formed.
    """
    from wizard import releases

    pinned = session.answers.get("release")
    if pinned is not None:
        releases.load(str(pinned[0]))  # says what a release is called, when this is none
    if session.answers.keys() - QUESTIONS.keys():
        # Only options that were set by hand can be refused: the wizard's own are held against the release before.
        for blocker in plan.blockers:
            if blocker.code in ("flag_refused", "bad_value"):
                raise BadInput(sentences(blocker.title, blocker.detail))
    for key in sorted(session.answers.keys() & QUESTIONS.keys()):
        given = session.answers.get(key)
        assert given is not None
        value, layer = given
        wrong = _malformed(QUESTIONS[key], plan, value)
        if wrong:
            where = (answers_file or _("answers file")) if layer is Layer.FILE else "--set"
            raise BadInput(
                _("{where}: {key}={value}: {wrong}").format(
                    where=where, key=key, value=_short(as_text(value)), wrong=wrong
                )
            )


def _malformed(question: Question, plan: Plan, value: Value) -> str | None:
    if question.kind == "choice":
        names = [c.value for c in question.choices(plan)]
        # A release need not be among those proposed: the nearest known one is then used, and said.
        if question.key == "release" or not names or str(value) in names:
            return None
        from wizard.plan.intents import BY_KEY

        if question.key == "intent" and str(value) in BY_KEY and plan.model is not None:
            return _("{model} cannot be set up for that; it can be for: {names}.").format(
                model=plan.model.repo_id or plan.model.source, names=", ".join(names)
            )
        return _("Must be one of: {names}.").format(names=", ".join(names))
    if question.key == "port":
        return (
            None if isinstance(value, int) and 1 <= value <= 65535 else _("Must be a port from 1 to 65535.")
        )
    return question.error(plan, value)
