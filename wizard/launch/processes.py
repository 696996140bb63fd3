"""Processes of a started server: found again, signalled, and none left behind.

vLLM's engine and workers set their own titles, which destroys their visible environment; so a process belongs to
a server by its session (the starter opens one), by descent, or by a variable in its environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

# The environment variable that names the launch; vLLM warns of a VLLM_... that it does not know.
MARK = "LAUNCHED_BY_VLLM_WIZARD"
INTERRUPT_S = 20.0  # given to a Ctrl-C; a server that is loading weights takes that long
TERMINATE_S = 8.0
KILL_S = 10.0
SWEEP_S = 3.0  # given to what is left when the server itself has ended


@dataclass(frozen=True)
class Leader:
    """The process that was started. ``created`` tells it from a later one with the same number."""

    pid: int
    created: float


def spawn(argv: list[str], cwd: Path, log: Path, mark: str) -> tuple[Any, Leader]:
    """Start ``argv`` in a session of its own, output appended to ``log``: it outlives this process if need be."""
    import subprocess

    import psutil

    with log.open("ab") as stream:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, MARK: mark, "PYTHONUNBUFFERED": "1"},
            # A job started with & has Ctrl-C ignored and hands that on: it could not be stopped gently then.
            preexec_fn=_default_signals if signal.getsignal(signal.SIGINT) == signal.SIG_IGN else None,
        )
    try:
        created = float(psutil.Process(process.pid).create_time())
    except psutil.Error:
        created = time.time()
    return process, Leader(process.pid, created)


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def leader_of(pid: int) -> Leader | None:
    """The process of this number, as it is now."""
    import psutil

    try:
        return Leader(pid, float(psutil.Process(pid).create_time()))
    except psutil.Error:
        return None


def is_alive(leader: Leader) -> bool:
    """Whether the started process still runs (a zombie does not)."""
    import psutil

    try:
        process = psutil.Process(leader.pid)
        return abs(process.create_time() - leader.created) < 1.5 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def members(leader: Leader, mark: str) -> list[Any]:
    """All live processes of the launch (psutil.Process), wherever they went."""
    import psutil

    own = os.getpid()
    found: dict[int, Any] = {}
    for process in psutil.process_iter():
        if process.pid in (own, 0):
            continue
        with contextlib.suppress(psutil.Error, OSError):
            if process.create_time() < leader.created - 1.5 or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if os.getsid(process.pid) == leader.pid or process.environ().get(MARK) == mark:
                found[process.pid] = process
    for process in list(found.values()):
        with contextlib.suppress(psutil.Error, OSError):
            for child in process.children(recursive=True):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.setdefault(child.pid, child)
    return list(found.values())


def memory_bytes(processes: Iterable[Any]) -> int:
    """Main memory that the processes hold, shared pages counted once where the kernel tells."""
    import psutil

    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            full = process.memory_full_info()
            total += int(getattr(full, "pss", 0) or full.uss)
    return total


def has_engine(processes: Iterable[Any]) -> bool:
    """Whether vLLM's engine process is among them (it names itself)."""
    import psutil

    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            # The first word alone: a folder may be called anything.
            if is_engine_title((process.cmdline() or [process.name()])[0]):
                return True
    return False


def is_engine_title(title: str) -> bool:
    """Whether a process calls itself vLLM's engine: "VLLM::EngineCore", with "_DP0" and the like behind."""
    return title.startswith(("VLLM::EngineCore", "VLLM::DPCoordinator"))


def stop(
    leader: Leader,
    mark: str,
    *,
    now: Callable[[], bool] = lambda: False,
    reap: Callable[[], object] = lambda: None,
    interrupt_s: float = INTERRUPT_S,
    terminate_s: float = TERMINATE_S,
) -> str:
    """End every process of the launch: as Ctrl-C does, then SIGTERM, then SIGKILL. Returns what was needed:
    "gone", "interrupt", "terminate", "kill", or "left" when something cannot be killed. ``now`` hurries."""
    if not members(leader, mark):
        return "gone"
    if not now():
        _signal_group(leader, signal.SIGINT)
        if _wait_gone(leader, mark, interrupt_s, now, reap):
            return "interrupt"
    if not now():
        _signal_all(leader, mark, signal.SIGTERM)
        if _wait_gone(leader, mark, terminate_s, now, reap):
            return "terminate"
    until = time.monotonic() + KILL_S
    while time.monotonic() < until:
        # Again and again: a process that is being born while its parent dies is only seen the next time.
        _signal_all(leader, mark, signal.SIGKILL)
        if _wait_gone(leader, mark, 0.5, lambda: False, reap):
            return "kill"
    return "left"


def sweep(leader: Leader, mark: str) -> int:
    """Kill what is left when the started process has ended by itself; returns how many were killed."""
    if _wait_gone(leader, mark, SWEEP_S, lambda: False, lambda: None):
        return 0
    left = len(members(leader, mark))
    _signal_all(leader, mark, signal.SIGKILL)
    _wait_gone(leader, mark, KILL_S, lambda: False, lambda: None)
    return left


def _wait_gone(
    leader: Leader, mark: str, timeout_s: float, now: Callable[[], bool], reap: Callable[[], object]
) -> bool:
    until = time.monotonic() + timeout_s
    while True:
        reap()
        if not members(leader, mark):
            return True
        if time.monotonic() >= until or now():
            return False
        time.sleep(0.1)


def _signal_group(leader: Leader, number: int) -> None:
    if is_alive(leader):
        with contextlib.suppress(OSError):
            os.killpg(leader.pid, number)


def _signal_all(leader: Leader, mark: str, number: int) -> None:
    for process in members(leader, mark):
        with contextlib.suppress(Exception):  # gone in between, or another user's
            process.send_signal(number)
