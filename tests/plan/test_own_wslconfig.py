"""What the plan says about the user's own .wslconfig."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wizard.host import open_host
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.session import Answers, Session, gather

MACHINE = Path(__file__).parents[1] / "machines" / "wsl2-rtx4090-desktop"


@pytest.fixture(scope="module")
def session() -> Session:
    return gather(open_host(MACHINE), Answers(cli={"model": "Qwen/Qwen3-8B"}), scan=False)


def with_file(session: Session, content: bytes | None) -> Plan:
    wsl = session.machine.wsl
    assert wsl is not None
    return plan(replace(session, machine=replace(session.machine, wsl=replace(wsl, wslconfig_bytes=content))))


def test_limits_that_are_not_in_force_are_said_with_the_reason(session: Session) -> None:
    made = with_file(session, b"[wsl2]\nmemory=3GB\nprocessors=1\n")
    found = [w for w in made.warnings if w.code == "wsl_not_in_force"]
    assert len(found) == 1
    assert "wsl --shutdown" in found[0].detail
    assert not [w for w in with_file(session, None).warnings if w.code == "wsl_not_in_force"]


def test_lines_that_wsl_ignores_are_named(session: Session) -> None:
    made = with_file(session, b"[wsl2]\nmemory=20 GB\npageReporting=false\n[experimental]\nmemory=20GB\n")
    found = [w.title for w in made.warnings if w.code == "wslconfig_problem"]
    assert [t.split(": ")[0].rsplit(":", 1)[1] for t in found] == ["2", "3", "5"]
    assert made.wsl_changes["wsl2.memory"] is not None


@pytest.mark.parametrize("content", [b"\xfe\xff\0[", b"[wsl2]\nmacAddress=1\n", b"\x1a", bytes(range(256))])
def test_no_file_content_stops_the_plan(session: Session, content: bytes) -> None:
    assert with_file(session, content).wsl is not None
