"""Sessions of the recorded machines, made once for a test run: probing and finding do not change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from wizard.host import FakeHost
from wizard.session import Answers, Session, Value, gather, look_at_model

MACHINES = Path(__file__).parent.parent / "machines"
NAMES = sorted(p.name for p in MACHINES.iterdir() if (p / "host.json").exists())


@cache
def bare(name: str) -> Session:
    return gather(FakeHost(MACHINES / name), Answers())


def session_of(name: str, **answers: Value) -> Session:
    """The session of a recorded machine with answers as if typed; the model is looked at."""
    session = bare(name)
    for key, value in answers.items():
        session = session.answer(key, value)
    if "model" in answers:
        session = look_at_model(session, FakeHost(MACHINES / name), str(answers["model"]))
    return session
