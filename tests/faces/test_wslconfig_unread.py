"""A .wslconfig that could not be read is not shown as if there were none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan.conftest import session_of
from wizard.faces.tui.files import wslconfig_diff
from wizard.faces.writing import changes_for, shown_diff
from wizard.host import FakeHost
from wizard.outputs.wslconfig.deliver import hand_copy
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.probes import wsl as probe
from wizard.session import Session

UNREAD = "your own could not be read"
INTEROP_OFF = "wsl2-interop-off-custom-root"


def session_with(**changes: object) -> Session:
    session = session_of("wsl2-rtx4090-desktop")
    assert session.machine.wsl is not None
    return replace(session, machine=replace(session.machine, wsl=replace(session.machine.wsl, **changes)))  # type: ignore[arg-type]


def shown(made: Plan, out: Path) -> list[str]:
    changes, complete = changes_for(made.session, made, str(out))
    return [shown_diff(c, complete) for c in changes if c.spec.path == ".wslconfig"] + [wslconfig_diff(made)[1].plain]


def test_unknown_profile_folder(tmp_path: Path) -> None:
    made = plan(session_of(INTEROP_OFF).answer("host_memory_gib", 32))
    assert made.wsl_changes
    for text in shown(made, tmp_path):
        assert UNREAD in text.splitlines()[0], text
        assert "/dev/null" not in text


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    made = plan(session_with(wslconfig_bytes=None, wslconfig_unread="Permission denied"))
    assert made.wsl_changes
    assert all(UNREAD in text for text in shown(made, tmp_path))
    assert "could not be read" in hand_copy(made.machine, "/home/user/vllm").note


def test_where_there_is_certainly_none_it_is_new(tmp_path: Path) -> None:
    made = plan(session_with(wslconfig_bytes=None))
    assert made.wsl_changes
    assert all(UNREAD not in text for text in shown(made, tmp_path))


def test_the_probe_keeps_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost(Path(__file__).parent.parent / "machines" / "wsl2-rtx4090-desktop")
    real = host.read_bytes

    def read_bytes(path: str, limit: int = 1 << 20) -> bytes:
        if path.endswith("/.wslconfig"):
            raise PermissionError(13, "Permission denied")
        return real(path, limit)

    monkeypatch.setattr(host, "read_bytes", read_bytes)
    found = probe.probe(host)
    assert found is not None
    assert (found.wslconfig_bytes, found.wslconfig_unread) == (None, "Permission denied")


def test_the_difference_names_both_files(tmp_path: Path) -> None:
    made = plan(session_of("wsl2-rtx3060-model-on-d"))
    assert made.wsl is not None
    assert made.machine.wsl is not None
    changes, complete = changes_for(made.session, made, str(tmp_path))
    diff = next(shown_diff(c, complete) for c in changes if c.spec.path == ".wslconfig")
    own, proposal = diff.splitlines()[:2]
    assert own == f"--- {made.machine.wsl.wslconfig_path} (your own)"
    assert proposal == f"+++ {tmp_path / '.wslconfig'} (the proposal)"
