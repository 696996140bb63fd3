"""What stops a move loses nothing: kill -9, power loss, a full disk, a drive that is pulled."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models import move_tools as t
from wizard.errors import WizardError
from wizard.models import move, move_engine, move_io, move_record, move_worker

pytestmark = pytest.mark.skipif(os.name != "posix", reason="models are moved on Linux")
ROOT = Path(__file__).resolve().parents[2]
STRETCH = 65536


@pytest.fixture(autouse=True)
def _small_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(move_engine, "BLOCK", 16384)
    monkeypatch.setattr(move_engine, "STRETCH", STRETCH)
    monkeypatch.setattr(move_engine, "SMALL", 32768)
    monkeypatch.setattr(move, "SMALL", 32768)


# --- kill -9

# The program that is killed: the mover with small stretches and slowed-down reads, so that many points are met.
_VICTIM = """
import sys, time
sys.path.insert(0, {root!r})
from wizard.models import move, move_engine, move_io
move_engine.BLOCK, move_engine.STRETCH, move_engine.SMALL, move.SMALL = 16384, 65536, 32768, 32768
move_engine.SMALL_BATCH, move_engine.PROCESSES_FROM = 8, {processes}
real = move_io.read_at
def slow(fd, view, offset):
    time.sleep({pause})
    return real(fd, view, offset)
move_io.read_at = slow
from tests.models import move_tools as t
plan = move.plan_move(t.machine({home!r}), {src!r}, {dst!r}, env={{}}, sample=False)
assert plan.ok, plan.refusals
result = move.Mover(plan).run()
print(result.bytes_copied)
"""


def victim(home: Path, src: Path, dst: Path, pause: float) -> subprocess.Popen[bytes]:
    code = _VICTIM.format(root=str(ROOT), home=str(home), src=str(src), dst=str(dst), pause=pause, processes=random.choice([1, 1000]))
    return subprocess.Popen(
        [sys.executable, "-S", "-c", "import site; site.main()\n" + code], stdout=subprocess.PIPE, cwd=ROOT
    )


def source_for_kills(root: Path, kind: str) -> Path:
    if kind == "hub":
        return t.hub_entry(root, linked=False, shard_bytes=900_000)
    src = t.model_folder(root / "src", shards=3, shard_bytes=400_000)
    for n in range(60):
        (src / f"small-{n}.json").write_bytes(t.noise(500 + n, n))
    (src / "link").symlink_to("config.json")
    return src


def complete(src: Path, dst: Path) -> None:
    """The destination has every byte of the source: links resolved, so that a rebuilt cache counts too."""

    def contents(root: Path) -> dict[str, bytes]:
        return {
            os.path.relpath(os.path.join(folder, name), root): Path(folder, name).read_bytes()
            for folder, _dirs, names in os.walk(root)
            for name in names
        }

    wanted, got = contents(src), contents(dst)
    assert {k: v for k, v in got.items() if k in wanted} == wanted


def kill_until(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill the mover at ``kills`` random points, going on each time; whenever it ends, everything must be there."""
    dice = random.Random(seed)
    done = rounds = 0
    while done < kills:
        rounds += 1
        here = tmp_path / f"round-{rounds}"
        here.mkdir()
        src = source_for_kills(here, dice.choice(["folder", "hub"]))
        dst = here / "models" / src.name
        before = t.snapshot(src)
        times = t.stamps(src)
        while True:
            process = victim(here, src, dst, dice.choice([0.0, 0.002, 0.006]))
            # Most of the first tenths of a second go into starting Python: aim behind that, too.
            try:
                process.wait(dice.uniform(0.05, 1.2) if done < kills else 60)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
            assert t.stamps(src) == times, "the source was touched"
            if process.returncode == 0:
                break
            assert process.returncode == -signal.SIGKILL, "it failed by itself"
            done += 1
            state = move.status(str(dst))
            if dst.exists():
                complete(src, dst)
            if state.state is move.MoveState.PROVEN:
                assert dst.exists()
        assert t.snapshot(src) == before
        complete(src, dst)
        assert move.status(str(dst)).state is move.MoveState.PROVEN
        shutil.rmtree(here)


def test_killed_at_eight_random_points(tmp_path: Path) -> None:
    kill_until(tmp_path, 8, seed=random.SystemRandom().randrange(10**6))


@pytest.mark.slow
def test_killed_at_a_hundred_random_points(tmp_path: Path) -> None:
    kill_until(tmp_path, 100, seed=random.SystemRandom().randrange(10**6))


class _Killed(BaseException):
    """Ends a run in this process as a kill would: nothing of the mover's own clean-up may matter."""


_STEPS = ["os.rename", "os.replace", "os.symlink", "os.unlink", "os.fsync", "os.makedirs"]


@pytest.mark.parametrize("kind", ["folder", "hub", "merge"])
def test_stopped_before_every_single_step_of_the_end(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links, switch and record: stop before the n-th call that changes the disk, for every n, and go on."""
    src = t.hub_entry(tmp_path / "src", linked=False) if kind == "hub" else t.model_folder(tmp_path / "src")
    dst = tmp_path / "models" / src.name
    if kind == "merge":
        dst.mkdir(parents=True)
        (dst / "config.json").write_bytes((src / "config.json").read_bytes())
    wanted = t.snapshot(src)
    from wizard.models import move_finish

    calls = 0
    stop_at = 0

    def counted(name: str) -> None:
        module_name, _dot, attribute = name.partition(".")
        assert module_name == "os"
        real = getattr(os, attribute)

        def step(*args: object, **more: object) -> object:
            nonlocal calls
            import threading

            if threading.current_thread() is threading.main_thread():
                calls += 1
                if calls == stop_at:
                    raise _Killed
            return real(*args, **more)

        monkeypatch.setattr(os, attribute, step)

    assert move_finish is not None
    for name in _STEPS:
        counted(name)
    for stop_at in range(1, 400):
        calls = 0
        plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
        assert plan.ok, (stop_at, plan.refusals)
        try:
            move.Mover(plan).run()
        except _Killed:
            assert t.snapshot(src) == wanted
            continue
        break
    else:
        raise AssertionError("it never came to an end")
    stop_at = -1
    assert move.status(str(dst)).state is move.MoveState.PROVEN
    complete(src, dst)
    assert t.snapshot(src) == wanted


# --- power loss: what was not flushed may be anything


def stop_in_the_middle(tmp_path: Path, src: Path, dst: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped half-way; returns its work folder."""
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)

    def stop(progress: move.Progress) -> None:
        if progress.bytes_done > plan.bytes_total * 0.4:
            mover.cancel()

    slow = move_io.read_at

    def paced(fd: int, view: memoryview, offset: int) -> int:
        time.sleep(0.004)
        return slow(fd, view, offset)

    with monkeypatch.context() as patch:
        patch.setattr(move_io, "read_at", paced)
        mover = move.Mover(plan, on_progress=stop, interval_s=0.01)
        assert mover.run().state is move.MoveState.PARTIAL
    return Path(plan.work_dir)


def test_unflushed_bytes_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    with (src / "model-00001-of-00004.safetensors").open("r+b") as handle:
        handle.truncate(3_000_000)  # a hole behind the data
    dst = tmp_path / "dst"
    work = stop_in_the_middle(tmp_path, src, dst, monkeypatch)
    proven = move_record.Journal(str(work)).load()
    assert any(not p.whole for p in proven.values()), "a file was stopped in its middle"
    for path in (work / "data").rglob("*"):
        if not path.is_file():
            continue
        known = proven.get(str(path.relative_to(work / "data")))
        upto = 0 if known is None else known.upto
        data = path.read_bytes()
        if known is None or not known.whole:
            path.write_bytes(data[:upto] + bytes(b ^ 0x55 for b in data[upto:]))
    # The journal's last line was cut by the power loss, and rubbish stands behind it.
    journal = work / "journal"
    journal.write_bytes(journal.read_bytes()[:-7] + b"\0\0\0\0 deadbeef\n[[1,2")
    result = t.run(tmp_path, src, dst)
    assert t.snapshot(dst) == t.snapshot(src)
    assert result.bytes_copied < result.bytes_total, "what was proven was used"


def test_proven_bytes_that_rot_are_found_when_they_are_built_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    dst = tmp_path / "dst"
    work = stop_in_the_middle(tmp_path, src, dst, monkeypatch)
    for rel, known in move_record.Journal(str(work)).load().items():
        if not known.whole and known.upto > 100:
            with (work / "data" / rel).open("r+b") as handle:
                handle.seek(known.upto - 50)
                handle.write(b"rotten")
    t.run(tmp_path, src, dst)
    assert t.snapshot(dst) == t.snapshot(src)


def test_a_copy_that_vanished_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    work = stop_in_the_middle(tmp_path, src, tmp_path / "dst", monkeypatch)
    shutil.rmtree(work / "data")
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 1}', b'{"version": 99}', b"\xff\xfe", b"[]", b"null"])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    work = stop_in_the_middle(tmp_path, src, tmp_path / "dst", monkeypatch)
    (work / "manifest.json").write_bytes(content)
    with pytest.raises(WizardError, match=r"manifest\.json"):
        t.run(tmp_path, src, tmp_path / "dst")
    assert move.status(str(tmp_path / "dst")).warnings


def test_a_source_file_that_changed_between_two_runs_is_copied_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    stop_in_the_middle(tmp_path, src, tmp_path / "dst", monkeypatch)
    for n in (1, 2):
        shard = src / f"model-{n:05d}-of-00004.safetensors"
        shard.write_bytes(t.safetensors(shard.stat().st_size - 100, 77 + n))
    (src / "config.json").unlink()
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_a_file_that_changes_while_it_is_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = t.model_folder(tmp_path / "src", shards=1, shard_bytes=500_000)
    shard = src / "model-00001-of-00001.safetensors"
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}, sample=False)
    real = move_io.read_at

    def meddled(fd: int, view: memoryview, offset: int) -> int:
        if offset >= STRETCH * 2:
            os.utime(shard, ns=(1, 1))
        return real(fd, view, offset)

    with monkeypatch.context() as patch:
        patch.setattr(move_io, "read_at", meddled)
        with pytest.raises(WizardError, match="changed while it was copied"):
            move.Mover(plan).run()
    assert not (tmp_path / "dst").exists()
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


# --- a full disk


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / "tiny"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, leave: int) -> Path:
    filler = place / "filler"
    free = shutil.disk_usage(place).free
    filler.write_bytes(bytes(max(0, free - leave)))
    return filler


def test_a_disk_that_really_fills_up(tiny_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "_FREE_FLOOR", 0)
    monkeypatch.setattr("wizard.models.move_plan.margin_bytes", lambda needed: 0)
    src = t.model_folder(tmp_path / "src", shards=3, shard_bytes=500_000)
    dst = tiny_disk / "dst"
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    assert plan.ok
    filler = fill(tiny_disk, 900_000)
    with pytest.raises(WizardError, match="the disk is full"):
        move.Mover(plan).run()
    assert not dst.exists()
    second = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    assert [r.code for r in second.refusals] == ["not_enough_space"]
    filler.unlink()
    again = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    assert again.ok
    move.Mover(again).run()
    assert t.snapshot(dst) == t.snapshot(src)


@pytest.mark.parametrize("where", ["allocate", "pwritev", "small", "fsync", "journal"])
def test_no_space_at_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    src = t.model_folder(tmp_path / "src", shards=3, shard_bytes=300_000)
    count = 0

    def failing(real: object) -> object:
        def call(*args: object) -> object:
            nonlocal count
            count += 1
            if count > (1 if where == "small" else 4):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args)  # type: ignore[operator]

        return call

    targets = {
        "allocate": (move_io, "allocate"),
        "pwritev": (move_io, "write_at"),
        "small": (move_worker, "write_copy"),
        "fsync": (move_io.Target, "sync"),
        "journal": (move_record, "write_all"),
    }
    owner, name = targets[where]
    if where == "allocate":
        count = 3
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing(getattr(owner, name)))
        with pytest.raises(WizardError, match="the disk is full"):
            t.run(tmp_path, src, tmp_path / "dst")
    assert not (tmp_path / "dst").exists()
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_space_is_watched_while_copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "src")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}, sample=False)
    mover = move.Mover(plan)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 99, 1))  # type: ignore[attr-defined]
    with pytest.raises(WizardError, match="the disk is full"):
        mover._watch_space()


# --- a source that goes away


@pytest.mark.parametrize("point", [0.0, 0.2, 0.5, 0.8, 0.98])
def test_a_source_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: float) -> None:
    src = t.model_folder(tmp_path / "drive" / "src", shards=4, shard_bytes=300_000)
    wanted = t.snapshot(src)
    dst = tmp_path / "dst"
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    read = 0
    real_read, real_open, real_small = move_io.read_at, move_io.open_source, move_worker.read_source

    def gone() -> bool:
        return read >= plan.bytes_total * point

    def read_at(fd: int, view: memoryview, offset: int) -> int:
        nonlocal read
        if os.readlink(f"/proc/self/fd/{fd}").startswith(str(src)):
            if gone():
                raise OSError(errno.EIO, "Input/output error")
            read += len(view)
        return real_read(fd, view, offset)

    def open_source(path: str) -> int:
        if gone():
            raise OSError(errno.ENOENT, "No such file or directory")
        return real_open(path)

    def read_source(path: str, view: memoryview, size: int, mtime_ns: int) -> bool:
        if gone():
            raise OSError(errno.ENOENT, "No such file or directory")
        return real_small(path, view, size, mtime_ns)

    with monkeypatch.context() as patch:
        patch.setattr(move_worker, "read_source", read_source)
        patch.setattr(move_worker._AioQueue, "open", lambda view: None)
        patch.setattr(move_io, "read_at", read_at)
        patch.setattr(move_io, "open_source", open_source)
        with pytest.raises(WizardError, match="cannot be read"):
            move.Mover(plan).run()
    assert not dst.exists()
    # The whole drive is away now: the plan says so, and knows what is safe.
    (tmp_path / "drive").rename(tmp_path / "unplugged")
    away = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    assert [r.code for r in away.refusals] == ["source_gone"]
    with pytest.raises(WizardError, match="run the same command again"):
        move.Mover(away).run()
    (tmp_path / "unplugged").rename(tmp_path / "drive")
    result = t.run(tmp_path, src, dst)
    assert t.snapshot(dst) == wanted
    if point >= 0.5:
        assert result.bytes_copied < result.bytes_total


def test_the_same_drive_under_another_letter_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "e" / "src", shards=4, shard_bytes=500_000)
    stop_in_the_middle(tmp_path, src, tmp_path / "dst", monkeypatch)
    (tmp_path / "e").rename(tmp_path / "f")
    other = tmp_path / "f" / "src"
    plan = move.plan_move(t.machine(tmp_path), str(other), str(tmp_path / "dst"), env={}, sample=False)
    assert plan.state is move.MoveState.PARTIAL
    assert plan.bytes_already > 0
    move.Mover(plan).run()
    assert t.snapshot(tmp_path / "dst") == t.snapshot(other)


def test_another_model_does_not_go_on_in_an_unfinished_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=500_000)
    stop_in_the_middle(tmp_path, src, tmp_path / "dst", monkeypatch)
    other = t.model_folder(tmp_path / "other", shards=1)
    plan = move.plan_move(t.machine(tmp_path), str(other), str(tmp_path / "dst"), env={}, sample=False)
    assert [r.code for r in plan.refusals] == ["other_move_unfinished"]


def test_all_is_copied_and_then_the_source_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to be read: the switch needs no source."""
    src = t.model_folder(tmp_path / "drive" / "src", shards=2, shard_bytes=200_000)
    wanted = t.snapshot(src)
    dst = tmp_path / "dst"

    def stopped(*_args: object) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        patch.setattr(move, "switch", stopped)
        with pytest.raises(_Killed):
            t.run(tmp_path, src, dst)
    (tmp_path / "drive").rename(tmp_path / "away")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={}, sample=False)
    assert plan.ok, plan.refusals
    move.Mover(plan).run()
    assert t.snapshot(dst) == wanted


def test_unreadable_files_are_named_before_anything_is_copied() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch).chmod(0o755)
        src = t.model_folder(Path(scratch) / "src")
        (src / "secret.bin").write_bytes(b"x")
        (src / "secret.bin").chmod(0)
        (src / "closed").mkdir(mode=0)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            # Root may read everything: ask as somebody else.
            try:
                if os.getuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                plan = move.plan_move(t.machine(scratch), str(src), scratch + "/dst", env={}, sample=False)
                said = repr([(r.code, r.message) for r in plan.refusals])
            except BaseException as error:
                said = repr(error)
            os.write(writing, said.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as handle:
            said = handle.read()
        os.waitpid(child, 0)
        (src / "closed").chmod(0o755)
    assert said.count("'unreadable'") == 2, said
    assert "secret.bin" in said
    assert "closed" in said


def test_a_file_that_a_windows_program_holds_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = t.model_folder(tmp_path / "src", shards=2, shard_bytes=200_000)
    real = move_io.open_source

    def held(path: str) -> int:
        if path.endswith("2-of-00002.safetensors"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    monkeypatch.setattr(move_io, "open_source", held)
    with pytest.raises(WizardError, match=r"00002-of-00002.*Windows program"):
        t.run(tmp_path, src, tmp_path / "dst")


def test_a_pipe_in_the_source_does_not_hang(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    os.mkfifo(src / "pipe")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    assert any("pipe" in w for w in plan.warnings)
    move.Mover(plan).run()
    assert not (tmp_path / "dst" / "pipe").exists()
    assert any("pipe" in k for k in move.delete_source(plan).kept)
    assert (src / "pipe").exists()


def test_the_journal_survives_any_cut(tmp_path: Path) -> None:
    journal = move_record.Journal(str(tmp_path))
    journal.open()
    for n in range(5):
        journal.add([(f"f{n}", move_record.Proven(10, 1, 10, "a" * 64, True)), ("big", move_record.Proven(100, 1, n * 10, "b" * 64, False))])
    journal.close()
    whole = (tmp_path / "journal").read_bytes()
    for cut in [*range(0, len(whole), 7), len(whole)]:
        (tmp_path / "journal").write_bytes(whole[:cut])
        found = journal.load()
        assert all(p.size_bytes in (10, 100) for p in found.values())
    assert json.dumps(found)
    assert found["big"].upto == 40
