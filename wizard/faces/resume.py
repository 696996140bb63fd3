"""The answers of the last walk, kept in the platform's config folder so that the next start can go on from them.

Pure helpers, shared by the full-screen and the plain walk. Only explicit answers are kept, with the step that
the walk had come to; what the plan decided by itself is decided anew. Secrets are never kept.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _, listed
from wizard.session import FORMAT, SECRET_KEYS, Value, load_answers

APP_NAME = "vllm-wizard"
FINISHED = "finished"  # kept as the step once the files were written
THIS_MACHINE = "this machine"  # the name of the host that the wizard runs on


@dataclass(frozen=True)
class Saved:
    """What was kept: explicit answers, the step reached (its id), when (local time, as text), and which secrets were given."""

    answers: Mapping[str, Value] = field(default_factory=dict)
    step: str = ""
    when: str = ""
    secrets: tuple[str, ...] = ()  # names of those that were given; their values are kept nowhere


def config_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder for kept answers; ``VLLM_WIZARD_CONFIG_DIR`` overrides the platform's own."""
    from wizard.apply import config_folder

    return config_folder(environ)


def session_path(machine_name: str = THIS_MACHINE, folder: Path | None = None) -> Path:
    """The file of kept answers; a recorded machine has its own, so that a demo never mixes with the real one."""
    folder = config_dir() if folder is None else folder
    if machine_name == THIS_MACHINE:
        return folder / "session.toml"
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in machine_name)
    return folder / f"session-{safe}.toml"


def dump(answers: Mapping[str, Value], step: str, when: datetime | None = None, secrets: Iterable[str] = ()) -> bytes:
    """The bytes of a file of kept answers (TOML, readable by ``load_answers`` as well)."""
    import tomli_w

    for key in answers:
        if key in SECRET_KEYS:
            raise ValueError(f"{key} is a secret and is never kept")
    moment = (datetime.now(timezone.utc) if when is None else when).astimezone()
    document: dict[str, Any] = {
        "format": FORMAT,
        "step": step,
        "saved": moment.strftime("%Y-%m-%d %H:%M"),
        "secrets": sorted(k for k in secrets if k in SECRET_KEYS),
        "answers": {k: (list(v) if isinstance(v, tuple) else v) for k, v in sorted(answers.items())},
    }
    heading = "# Answers of the last walk through vllm-wizard. No secrets are kept here.\n\n"
    return (heading + tomli_w.dumps(document)).encode()


def parse(data: bytes, name: str) -> Saved:
    """The kept answers in ``data``; :class:`BadInput` names what is wrong with the file ``name``."""
    answers = load_answers(data, name)
    # load_answers has checked that this is valid TOML; only the two texts beside the answers are left to read.
    document = _toml(data)
    step, when, given = document.get("step"), document.get("saved"), document.get("secrets")
    return Saved(
        answers,
        step if isinstance(step, str) else "",
        when if isinstance(when, str) else "",
        tuple(k for k in given if isinstance(k, str) and k in SECRET_KEYS) if isinstance(given, list) else (),
    )


def not_kept(names: Iterable[str]) -> str:
    """What to say of secrets that were given and have to be given again; "" without any."""
    from wizard.steps import QUESTIONS

    labels = listed([_(QUESTIONS[name].label) for name in names if name in QUESTIONS])
    return _("Not kept, because it is secret, and to be given again on the step “Access”: {names}.").format(names=labels) if labels else ""


def _toml(data: bytes) -> dict[str, Any]:
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(data.decode("utf-8-sig"))


def save(path: Path, answers: Mapping[str, Value], step: str, secrets: Iterable[str] = ()) -> str | None:
    """Keep the answers at ``path``; the reason (for people) when that cannot be done, else None."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(dump(answers, step, secrets=secrets))
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        return _("The answers could not be kept in {path}: {error}").format(
            path=path, error=error.strerror or error
        )
    return None


def load(path: Path) -> tuple[Saved | None, str | None]:
    """What is kept at ``path`` (None: nothing), and a text when the file cannot be used."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, _("The kept answers in {path} cannot be read: {error}").format(
            path=path, error=error.strerror or error
        )
    try:
        return parse(data, str(path)), None
    except BadInput as error:
        return None, str(error)


def forget(path: Path) -> None:
    """Remove the kept answers, if there are any."""
    with contextlib.suppress(OSError):
        path.unlink()
