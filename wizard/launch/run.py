"""Start what was generated, watch it come up, prove that it answers, and stop it without leaving anything.

A :class:`Launch` is driven by its owner: ``start``, ``wait`` (until ready or failed), ``prove``, ``serve``
(until it ends), ``stop``. Everything that happens is told through callbacks, in the thread that calls; the
full-screen face runs it in a worker thread, the plain one in its own.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.launch import detach, processes, record
from wizard.launch.prove import Check, is_healthy, prove
from wizard.launch.stages import UNBOUNDED, StageEvent, StageReader, split_lines
from wizard.launch.target import Target, fingerprint

if TYPE_CHECKING:
    from wizard.host import Host
    from wizard.launch.record import Attempt

POLL_S = 0.2
HEALTH_S = 1.0
MEMORY_S = 2.0
STATE_S = 1.0  # between two questions to systemd or Docker
UNBOUNDED_S = 4 * 3600.0  # for what the network decides: an image, an environment, a download
ENGINE_GONE_S = 20.0  # an API process whose engine vanished never gets ready (measured on 0.32)
READ_BYTES = 1 << 20
LAST_LINES_S = 1.5


@dataclass(frozen=True)
class MemoryUse:
    """Memory in use: of a GPU ("GPU 0"), or of the server's processes ("RAM")."""

    label: str
    used_bytes: int
    total_bytes: int | None


@dataclass(frozen=True)
class Outcome:
    """How a start (or a time of serving) ended. ``state``: "ready", "failed", "timeout", "died", "stopped"."""

    state: str
    seconds: float
    returncode: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "ready"


@dataclass
class Callbacks:
    """What is told while a server starts. All of them are called in the thread that drives the launch."""

    on_stage: Callable[[StageEvent], None] = lambda event: None
    on_line: Callable[[str], None] = lambda line: None
    on_memory: Callable[[list[MemoryUse]], None] = lambda uses: None
    on_check: Callable[[Check], None] = lambda check: None


@dataclass
class Launch:
    """One start of one folder. ``timeout_s`` bounds the whole start; without it, what the model's size allows.

    ``way`` is one of :func:`wizard.launch.detach.ways`: "script" (launch.sh as a child of ours), or what brings
    the server back when it dies, "systemd" and "compose"."""

    target: Target
    host: Host
    callbacks: Callbacks = field(default_factory=Callbacks)
    timeout_s: float | None = None
    way: str = "script"
    record: record.Record | None = None
    reader: StageReader = field(init=False)
    log: Path | None = field(init=False, default=None)
    _process: Any = field(init=False, default=None)
    _leader: processes.Leader | None = field(init=False, default=None)
    _started: float = field(init=False, default=0.0)
    _offset: int = field(init=False, default=0)
    _rest: str = field(init=False, default="")
    _memory: _MemoryWatch | None = field(init=False, default=None)
    _bounded_from: float | None = field(init=False, default=None)
    _engine_seen: bool = field(init=False, default=False)
    _engine_gone: float | None = field(init=False, default=None)
    _asked_at: float = field(init=False, default=0.0)
    _was_free: bool = field(init=False, default=False)
    _left: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.reader = StageReader(self.target.weight_bytes)

    @property
    def id(self) -> str:
        return record.record_id(self.target.folder)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started if self._started else 0.0

    @property
    def api_key(self) -> str | None:
        """The key that stands in the folder's vllm.env."""
        from wizard.apply import env_values
        from wizard.outputs.env import NAME
        from wizard.session import SECRET_ENV

        try:
            return env_values((self.target.folder / NAME).read_bytes()).get(SECRET_ENV["api_key"]) or None
        except OSError:
            return None

    # -- starting -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start launch.sh in a session of its own. Raises WizardError when there is none, or it runs already."""
        if self.host.platform == "win32":
            raise WizardError(_("vLLM does not run on Windows itself. Start vllm-wizard inside WSL."))
        if not self.target.script.is_file():
            raise WizardError(
                _("There is no launch.sh in {folder}. Make it first: vllm-wizard generate --out {folder}").format(
                    folder=self.target.folder
                )
            )
        before = self.record or record.load(self.id)
        if before is not None and detach.is_running(before, self.host):
            raise WizardError(
                _("It runs already, on port {port}. See vllm-wizard status; stop it with vllm-wizard stop {folder}.").format(
                    port=before.port, folder=self.target.folder
                )
            )
        self._was_free = not is_healthy(self.target.url, 2.0)
        self.log = record.new_log(self.id)
        self._started = time.monotonic()
        try:
            self._begin(self.log, before.attempts if before is not None else ())
        except BaseException:
            # Whatever was started by then is nobody's.
            self.abandon()
            raise
        self._memory = _MemoryWatch(self)
        self._tell(self.reader.begin(0.0))

    def _begin(self, log: Path, attempts: tuple[Attempt, ...]) -> None:
        kept = record.Record(
            id=self.id, folder=str(self.target.folder), how=self.way, name=self.target.name, port=self.target.port, url=self.target.url,
            started=time.time(), status="starting", log=str(log), container=self.target.container, attempts=attempts,
        )  # fmt: skip
        if self.way == "systemd":
            kept = replace(kept, unit=detach.start_unit(self.target, self.host, self.id, log))
        elif self.way == "compose":
            container = detach.container_of(self.target) or self.target.container or "vllm"
            self.record = kept = replace(kept, container=container)
            self._spawn(detach.compose_command(self.target, container, log.with_suffix(".up")), log, self.id + ".log")
        else:
            self._spawn(["bash", str(self.target.script)], log, self.id)
            assert self._leader is not None
            kept = replace(kept, pid=self._leader.pid, created=self._leader.created)
        self.record = kept
        record.save(kept)

    def wait(self, cancelled: Callable[[], bool] = lambda: False) -> Outcome:
        """Until the server answers on /health, fails, takes too long, or ``cancelled`` says so."""
        next_health = 0.0
        while True:
            self._pump()
            code = self._returncode()
            if code is not None:
                self._pump()
                return self._ended("failed", code)
            if cancelled():
                return Outcome("stopped", self.elapsed_s)
            now = self.elapsed_s
            if now >= next_health:
                next_health = now + HEALTH_S
                healthy = is_healthy(self.target.url, 2.0)
                # Another server on this port answers until launch.sh has found that out.
                self._was_free = self._was_free or not healthy
                if healthy and self._was_free and self._returncode() is None:
                    self._pump()
                    self._tell(self.reader.feed("Application startup complete", self.elapsed_s))
                    self._mark("serving")
                    return Outcome("ready", self.elapsed_s)
                if self._engine_is_gone():
                    return self._ended("failed", None, _("the engine process is gone, and the server waits for it for ever"))
            if self._too_late():
                return self._ended("timeout", None, _("not ready after {seconds:.0f} s").format(seconds=self.elapsed_s))
            time.sleep(POLL_S)

    def prove(self, cancelled: Callable[[], bool] = lambda: False) -> list[Check]:
        """Real questions to the server that is ready; what was answered until ``cancelled``."""
        answered: list[Check] = []
        told = 0
        # In a thread of its own: the first answer may take minutes, and Ctrl-C and the log must not wait for it.
        asker = threading.Thread(target=prove, args=(self.target, self.api_key, answered.append), daemon=True)
        asker.start()
        while True:
            alive = asker.is_alive()
            for check in answered[told:]:
                told += 1
                self.callbacks.on_check(check)
            if not alive or cancelled():
                return list(answered)
            self._pump()
            asker.join(POLL_S)

    def serve(self, cancelled: Callable[[], bool] = lambda: False) -> Outcome:
        """Until the server ends ("died", whatever its exit code) or ``cancelled`` says so."""
        while True:
            self._pump()
            code = self._returncode()
            if code is not None:
                self._pump()
                return self._ended("died", code)
            if cancelled():
                return Outcome("stopped", self.elapsed_s)
            time.sleep(POLL_S)

    def stop(self, now: Callable[[], bool] = lambda: False) -> str:
        """End the server and everything that it started; returns what was needed (see ``processes.stop``).

        ``now`` is asked again and again: true hurries to SIGKILL."""
        if self._memory is not None:
            self._memory.end()
        how = "gone"
        if self.way != "script":
            self._end_follower()
            if self.record is not None:
                how = detach.stop(self.record, self.host)
        elif self._leader is not None:
            if self.target.container:
                _stop_container(self.host, self.target.container)
            how = processes.stop(self._leader, self.id, now=now, reap=self._returncode)
            if self.target.container:
                _remove_container(self.host, self.target.container)
        self._pump()
        self._mark("stopped")
        return how

    def abandon(self, now: Callable[[], bool] = lambda: False) -> None:
        """After an error on this side: end what was started, unless it was given out of hand. Never raises."""
        if not self._left:
            with contextlib.suppress(Exception):
                self.stop(now)

    def leave_running(self) -> None:
        """Give the server out of hand: it goes on without this program."""
        self._left = True
        self._pump()
        if self._memory is not None:
            self._memory.end()
        if self.way == "compose":
            self._end_follower()
        elif self._process is not None:
            # The child is not ours to wait for any more; without this Python would warn about it.
            self._process.returncode = 0

    def log_text(self, limit_bytes: int = 16 << 20) -> str:
        """The log so far."""
        if self.log is None:
            return ""
        try:
            return self.log.read_bytes()[:limit_bytes].decode("utf-8", "replace")
        except OSError:
            return ""

    def attempt(self, outcome: Outcome, cause: str | None = None, title: str = "", fix: str = "", changed: dict[str, Any] | None = None) -> None:
        """Keep how this start went."""
        if self.record is None:
            return
        row = record.Attempt(
            time.time(), fingerprint(self.target.folder), outcome.state, round(outcome.seconds, 1), str(self.log or ""), cause, title, fix, changed or {}
        )
        self.record = record.with_attempt(self.record, row)
        record.save(self.record)

    def _spawn(self, argv: list[str], log: Path, mark: str) -> None:
        try:
            self._process, self._leader = processes.spawn(argv, self.target.folder, log, mark)
        except OSError as error:
            raise WizardError(_("bash cannot be started: {reason}.").format(reason=error.strerror or error)) from error

    # -- inside ---------------------------------------------------------------------------------------------

    def _tell(self, events: list[StageEvent]) -> None:
        for event in events:
            self.callbacks.on_stage(event)

    def _returncode(self) -> int | None:
        """The exit code of the server, once it has ended."""
        code = self._process.poll() if self._process is not None else None
        if self.way == "script":
            return None if code is None else int(code)
        now = time.monotonic()
        if now - self._asked_at < STATE_S:
            return None
        self._asked_at = now
        assert self.record is not None
        if self.way == "compose":
            if self.log is None or not self.log.with_suffix(".up").exists():
                # Compose itself is at work (pulling), or failed.
                return None if code in (None, 0) else int(code)
            return detach.compose_exit(self.record.container or "", self.host)
        assert self.record.unit is not None
        main, ended = detach.unit_state(self.record.unit, self.host)
        if main is not None and self._leader is None:
            self._leader = processes.leader_of(main)
        return ended

    def _end_follower(self) -> None:
        if self._process is not None and self._leader is not None:
            processes.stop(self._leader, self.id + ".log", now=lambda: True, reap=self._process.poll)

    def _pump(self) -> None:
        """Read what the log grew by, and tell it."""
        if self.log is None:
            return
        with contextlib.suppress(OSError), self.log.open("rb") as stream:
            stream.seek(self._offset)
            while chunk := stream.read(READ_BYTES):
                self._offset += len(chunk)
                lines, self._rest = split_lines(self._rest + chunk.decode("utf-8", "replace"))
                if len(self._rest) > READ_BYTES:
                    self._rest = self._rest[-READ_BYTES:]
                for line in lines:
                    self.callbacks.on_line(line)
                    self._tell(self.reader.feed(line, self.elapsed_s))
        if self._memory is not None:
            uses = self._memory.take()
            if uses:
                self.callbacks.on_memory(uses)

    def _ended(self, state: str, code: int | None, reason: str = "") -> Outcome:
        seconds = self.elapsed_s
        if self._memory is not None:
            self._memory.end()
        if self.way == "compose" and code is not None:
            # The last lines, with the reason, may still be on their way.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(LAST_LINES_S)
        if code is None or self.way != "script":
            self.stop(now=lambda: True)
        elif self._leader is not None:
            processes.sweep(self._leader, self.id)
            if self.target.container:
                _remove_container(self.host, self.target.container)
            self._pump()
        self._tell(self.reader.finish(seconds, failed=True))
        self._mark("failed")
        return Outcome(state, seconds, code, reason)

    def _mark(self, status: str) -> None:
        if self.record is not None:
            self.record = replace(self.record, status=status)
            record.save(self.record)

    def _too_late(self) -> bool:
        now = self.elapsed_s
        if self.timeout_s is not None:
            return now > self.timeout_s
        if self.reader.current in UNBOUNDED:
            self._bounded_from = None
            return now > UNBOUNDED_S
        if self._bounded_from is None:
            self._bounded_from = now
        return now - self._bounded_from > self.target.start_s

    def _engine_is_gone(self) -> bool:
        """The engine process was there, is not any more, and the API process waits for it."""
        if self.target.container or self._leader is None:
            return False
        now = self.elapsed_s
        if processes.has_engine(processes.members(self._leader, self.id)):
            self._engine_seen, self._engine_gone = True, None
        elif self._engine_seen and self._engine_gone is None:
            self._engine_gone = now
        return self._engine_gone is not None and now - self._engine_gone > ENGINE_GONE_S


class _MemoryWatch:
    """Asks for memory in a thread of its own: a driver that hangs must not stop the log."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._latest: list[MemoryUse] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def take(self) -> list[MemoryUse]:
        with self._lock:
            latest, self._latest = self._latest, []
        return latest

    def end(self) -> None:
        self._end.set()

    def _run(self) -> None:
        while not self._end.wait(MEMORY_S):
            uses = memory_now(self._launch.host, self._launch.target, self._launch._leader, self._launch.id)
            with self._lock:
                self._latest = uses


def memory_now(
    host: Host, target: Target, leader: processes.Leader | None, mark: str
) -> list[MemoryUse]:
    """GPU memory as the driver tells it; on a machine without a GPU the RAM of the server's processes."""
    if target.device == "nvidia":
        return _nvidia_memory(host, target.gpus)
    if leader is None or target.container:
        return []
    used = processes.memory_bytes(processes.members(leader, mark))
    try:
        total: int | None = host.memory().total_bytes
    except OSError:
        total = None
    return [MemoryUse("RAM", used, total)]


def _nvidia_memory(host: Host, gpus: tuple[int, ...]) -> list[MemoryUse]:
    program = host.which("nvidia-smi") or "/usr/lib/wsl/lib/nvidia-smi"
    found = host.run([program, "--query-gpu=index,memory.used,memory.total", "--format=csv,noheader,nounits"], timeout_s=5.0)
    uses = []
    for line in found.text.splitlines() if found.ok else ():
        words = [w.strip() for w in line.split(",")]
        if len(words) == 3 and all(w.isdigit() for w in words) and (not gpus or int(words[0]) in gpus):
            uses.append(MemoryUse(f"GPU {words[0]}", int(words[1]) << 20, int(words[2]) << 20))
    return uses


def _stop_container(host: Host, name: str) -> None:
    host.run(["docker", "stop", "--time", "30", name], timeout_s=45.0)


def _remove_container(host: Host, name: str) -> None:
    # launch.sh starts it with --rm, but a client that was killed leaves it behind.
    host.run(["docker", "rm", "--force", name], timeout_s=30.0)
