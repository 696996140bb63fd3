"""Copies are equal, proven and complete, whatever the source looks like."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.models import move_tools as t
from wizard.errors import BadInput, WizardError
from wizard.models import move, move_engine, move_worker

pytestmark = pytest.mark.skipif(os.name != "posix", reason="models are moved on Linux")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few hundred kilobytes go through the line for large files, in several stretches."""
    monkeypatch.setattr(move_engine, "BLOCK", 16384)
    monkeypatch.setattr(move_engine, "STRETCH", 65536)
    monkeypatch.setattr(move_engine, "SMALL", 32768)
    monkeypatch.setattr(move, "SMALL", 32768)


def test_folder(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    before = t.stamps(src)
    result = t.run(tmp_path, src, tmp_path / "dst")
    assert result.state is move.MoveState.PROVEN
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    assert t.stamps(src) == before
    for rel in ("config.json", "model-00001-of-00002.safetensors"):
        assert (tmp_path / "dst" / rel).stat().st_mtime_ns == (src / rel).stat().st_mtime_ns
    assert result.bytes_copied == result.bytes_total
    assert result.warnings == ()


@pytest.mark.usefixtures("small_pieces")
def test_large_files_in_stretches(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src", shards=3, shard_bytes=400_000)
    (src / "exact.bin").write_bytes(t.noise(65536 * 3, 5))
    (src / "one-more.bin").write_bytes(t.noise(65536 * 3 + 1, 6))
    assert t.run(tmp_path, src, tmp_path / "dst").state is move.MoveState.PROVEN
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_nothing_else_is_left_in_the_destination_and_the_record_lies_beside_it(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    t.run(tmp_path, src, tmp_path / "models" / "dst")
    assert sorted(p.name for p in (tmp_path / "models").iterdir()) == [move.RECORDS, "dst"]
    record = next((tmp_path / "models" / move.RECORDS).iterdir())
    assert not (record / "data").exists()
    assert move.status(str(tmp_path / "models" / "dst")).state is move.MoveState.PROVEN


def test_odd_names(tmp_path: Path) -> None:
    src = tmp_path / "a model's \"folder\" $HOME\nsecond line"
    src.mkdir()
    raw = os.fsencode(str(src))
    names = [
        b"with space",
        b"new\nline",
        b"tab\there",
        b"quote'\"`",
        b"$(touch x)",
        b"-rf",
        "模型 – ü".encode(),
        b"not-utf8-\xff\xfe",
        b"back\\slash",
        b"*?[x]",
        b".hidden",
        b"a" * 255,
    ]
    for name in names:
        with open(os.path.join(raw, name), "wb") as handle:
            handle.write(b"content of " + name)
    os.mkdir(os.path.join(raw, b"dir \xff\n"))
    with open(os.path.join(raw, b"dir \xff\n", b"inner\x80"), "wb") as handle:
        handle.write(b"deep")
    t.run(tmp_path, src, tmp_path / "dst here")
    assert t.snapshot(tmp_path / "dst here") == t.snapshot(src)
    result = move.delete_source(move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst here"), env={}))
    assert result.kept == ()
    assert not src.exists()


def test_links_inside_stay_links_and_links_outside_are_taken_along(tmp_path: Path) -> None:
    outside = tmp_path / "store"
    (outside / "folder").mkdir(parents=True)
    (outside / "weights.bin").write_bytes(t.noise(1000))
    (outside / "folder" / "note").write_bytes(b"in a linked folder")
    src = t.model_folder(tmp_path / "src")
    (src / "relative").symlink_to("config.json")
    (src / "tokenizer" / "up").symlink_to("../config.json")
    (src / "absolute").symlink_to(src / "config.json")
    (src / "to-folder").symlink_to("tokenizer")
    (src / "outside.bin").symlink_to(outside / "weights.bin")
    (src / "outside-folder").symlink_to(outside / "folder")
    (src / "nowhere").symlink_to("does/not/exist")
    (src / "ring").symlink_to("..")
    t.run(tmp_path, src, tmp_path / "dst")
    got = t.snapshot(tmp_path / "dst")
    assert got["relative"] == ("link", "config.json")
    assert got["tokenizer/up"] == ("link", "../config.json")
    assert got["absolute"] == ("link", "config.json")
    assert got["to-folder"] == ("link", "tokenizer")
    assert got["nowhere"] == ("link", "does/not/exist")
    assert got["outside.bin"] == t.snapshot(outside)["weights.bin"]
    assert got["outside-folder/note"] == t.snapshot(outside)["folder/note"]
    move.delete_source(move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}))
    assert (outside / "weights.bin").exists(), "what a link points to is not part of the source"
    assert (outside / "folder" / "note").exists()


def test_a_link_round_in_a_ring_ends(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "a" / "src")
    (tmp_path / "a" / "back").symlink_to(tmp_path / "a")
    (src / "ring").symlink_to(tmp_path / "a")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    assert plan.files_total < 100


@pytest.mark.usefixtures("small_pieces")
def test_sparse_files_stay_equal_and_sparse(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    with (src / "sparse.bin").open("wb") as handle:
        handle.write(b"head")
        handle.seek(8 * t.MIB)
        handle.write(b"middle")
        handle.truncate(16 * t.MIB + 5)
    with (src / "all-hole.bin").open("wb") as handle:
        handle.truncate(4 * t.MIB)
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    if (src / "sparse.bin").stat().st_blocks * 512 < 2 * t.MIB:
        assert (tmp_path / "dst" / "sparse.bin").stat().st_blocks * 512 < 4 * t.MIB


def test_empty_folders_and_empty_files(tmp_path: Path) -> None:
    src = tmp_path / "src"
    (src / "a" / "b" / "c").mkdir(parents=True)
    (src / "zero").write_bytes(b"")
    result = t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    assert result.bytes_total == 0


def test_permissions_of_a_windows_drive_are_not_taken_over(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "drive" / "src")
    for path in src.rglob("*"):
        path.chmod(0o777)
    there = t.machine(
        tmp_path,
        (t.mount("/", t.MountKind.LINUX), t.mount(tmp_path / "drive", t.MountKind.WINDOWS_DRIVE, "D:\\")),
    )
    plan = move.plan_move(there, str(src), str(tmp_path / "dst"), env={}, sample=False)
    move.Mover(plan).run()
    assert (tmp_path / "dst" / "config.json").stat().st_mode & 0o777 == 0o644
    t.run(tmp_path, src, tmp_path / "dst2")
    assert (tmp_path / "dst2" / "config.json").stat().st_mode & 0o700 == 0o700


# --- caches


def loads_by_name(hub: Path, revision: str, rel: str) -> bytes:
    """What huggingface_hub finds: the snapshot's link leads into the blobs of the same entry."""
    place = hub / "models--Qwen--Qwen3-Test" / "snapshots" / revision / rel
    assert place.is_symlink()
    assert not os.path.isabs(os.readlink(place))
    real = place.resolve()
    assert real.parent == (hub / "models--Qwen--Qwen3-Test" / "blobs").resolve()
    return real.read_bytes()


@pytest.mark.parametrize("linked", [True, False])
def test_hugging_face_entry(tmp_path: Path, linked: bool) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", linked)
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    assert plan.kind is move.MoveKind.HUGGINGFACE
    assert plan.dst == str(hub / entry.name)
    assert plan.name == "Qwen/Qwen3-Test"
    move.Mover(plan).run()
    weights = t.safetensors(200_000, 1)
    assert loads_by_name(hub, "a" * 40, "model.safetensors") == weights
    assert loads_by_name(hub, "b" * 40, "config.json") == b'{"architectures": ["Other"]}'
    assert loads_by_name(hub, "b" * 40, "sub/vocab.json") == t.noise(1000, 2)
    blobs = {p.name for p in (hub / entry.name / "blobs").iterdir()}
    assert hashlib.sha256(weights).hexdigest() in blobs
    assert t.git_blob(b'{"architectures": ["Other"]}') in blobs
    assert len(blobs) == 5, "two revisions share what is the same"
    assert (hub / entry.name / "refs" / "main").read_text() == "b" * 40
    assert sorted(p.name for p in hub.iterdir()) == [entry.name], "the cache holds nothing of ours"
    assert move.delete_source(plan).kept == ()
    assert not entry.exists()


@pytest.mark.parametrize("linked", [True, False])
def test_huggingface_hub_itself_finds_the_moved_model(tmp_path: Path, linked: bool) -> None:
    hub_library = pytest.importorskip("huggingface_hub")
    entry = t.hub_entry(tmp_path / "drive" / "hub", linked)
    hub = tmp_path / ".cache" / "huggingface" / "hub"
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    mover = move.Mover(plan)
    mover.cancel()
    mover.run()
    hub.mkdir(exist_ok=True)
    assert not hub_library.scan_cache_dir(hub).warnings, "an unfinished move does not disturb it"
    move.Mover(plan).run()
    found = hub_library.scan_cache_dir(hub)
    assert not found.warnings
    assert [r.repo_id for r in found.repos] == ["Qwen/Qwen3-Test"]
    assert {rev.commit_hash for r in found.repos for rev in r.revisions} == {"a" * 40, "b" * 40}
    place = hub_library.try_to_load_from_cache("Qwen/Qwen3-Test", "model.safetensors", cache_dir=hub)
    assert Path(place).read_bytes() == t.safetensors(200_000, 1)


def test_a_snapshot_means_its_whole_entry(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    snapshot = entry / "snapshots" / ("b" * 40)
    plan = move.plan_move(t.machine(tmp_path), str(snapshot), env={})
    assert plan.src == str(entry)
    moved = move.moved_paths(plan)
    assert moved[str(snapshot)] == plan.dst + "/snapshots/" + "b" * 40
    assert move.rewrite_path(str(snapshot) + "/config.json", moved).startswith(plan.dst)


def test_half_of_a_cache_with_links_half_without(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    place = entry / "snapshots" / ("a" * 40) / "config.json"
    data = place.read_bytes()
    place.unlink()
    place.write_bytes(data)
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    move.Mover(plan).run()
    assert loads_by_name(Path(plan.dst).parent, "a" * 40, "config.json") == data


def test_blobs_kept_elsewhere_are_brought_in(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    store = tmp_path / "store"
    (entry / "blobs").rename(store)
    for place in (entry / "snapshots").rglob("*"):
        if place.is_symlink():
            blob = Path(os.readlink(place)).name
            place.unlink()
            place.symlink_to(store / blob)
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    move.Mover(plan).run()
    assert loads_by_name(Path(plan.dst).parent, "a" * 40, "model.safetensors") == t.safetensors(200_000, 1)
    assert len(list((Path(plan.dst) / "blobs").iterdir())) == 5


def test_a_second_revision_joins_the_entry_that_is_there(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    move.Mover(plan).run()
    more = entry / "snapshots" / ("c" * 40)
    more.mkdir()
    (entry / "blobs" / t.git_blob(b"new")).write_bytes(b"new")
    (more / "README.md").symlink_to(f"../../blobs/{t.git_blob(b'new')}")
    (entry / "refs" / "main").write_text("c" * 40)
    second = move.plan_move(t.machine(tmp_path), str(entry), env={})
    assert second.ok
    result = move.Mover(second).run()
    hub = Path(plan.dst).parent
    assert loads_by_name(hub, "c" * 40, "README.md") == b"new"
    assert loads_by_name(hub, "b" * 40, "config.json") == b'{"architectures": ["Other"]}'
    assert (Path(plan.dst) / "refs" / "main").read_text() == "b" * 40
    assert any("refs/main" in w for w in result.warnings)


def test_a_branch_that_leads_nowhere_is_replaced(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    there = tmp_path / ".cache" / "huggingface" / "hub" / entry.name
    (there / "refs").mkdir(parents=True)
    (there / "refs" / "main").write_text("f" * 40)
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    move.Mover(plan).run()
    assert (there / "refs" / "main").read_text() == "b" * 40
    assert loads_by_name(there.parent, "b" * 40, "config.json")


def test_the_umask_counts(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src", shard_bytes=3 * t.MIB)
    before = os.umask(0o077)
    try:
        t.run(tmp_path, src, tmp_path / "dst")
    finally:
        os.umask(before)
    modes = {p.stat().st_mode & 0o777 for p in (tmp_path / "dst").rglob("*") if p.is_file()}
    assert modes == {0o600}


def test_a_damaged_blob_is_named_and_nothing_is_switched(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    blob = entry / "blobs" / hashlib.sha256(t.safetensors(200_000, 1)).hexdigest()
    data = bytearray(blob.read_bytes())
    data[150_000] ^= 1
    blob.write_bytes(data)
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    with pytest.raises(WizardError, match="damaged in the source already"):
        move.Mover(plan).run()
    assert not Path(plan.dst).exists()
    with pytest.raises(WizardError, match="not proven"):
        move.delete_source(plan)
    assert blob.exists()


def test_the_record_of_a_download_is_held_against_the_file(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    shard = src / "model-00001-of-00002.safetensors"
    record = src / ".cache" / "huggingface" / "download" / (shard.name + ".metadata")
    record.parent.mkdir(parents=True)
    right = hashlib.sha256(shard.read_bytes()).hexdigest()
    record.write_text(f"{'a' * 40}\n{right}\n{time.time() + 5}\n")
    assert t.run(tmp_path, src, tmp_path / "dst").state is move.MoveState.PROVEN
    record.write_text(f"{'a' * 40}\n{'0' * 64}\n{time.time() + 5}\n")
    with pytest.raises(WizardError, match="damaged in the source"):
        t.run(tmp_path, src, tmp_path / "other")
    record.write_text(f"{'a' * 40}\n{'0' * 64}\n1000.0\n")
    assert t.run(tmp_path, src, tmp_path / "third").state is move.MoveState.PROVEN, "edited after the download"


def test_modelscope_entry_keeps_its_dotted_link(tmp_path: Path) -> None:
    org = tmp_path / "drive" / "modelscope" / "hub" / "models" / "Qwen"
    src = t.model_folder(org / "Qwen2___5-1___5B")
    (src / ".msc").write_bytes(b"\x80\x04")
    (org / "Qwen2.5-1.5B").symlink_to(src.name)
    plan = move.plan_move(t.machine(tmp_path), str(org / "Qwen2.5-1.5B"), env={})
    assert plan.kind is move.MoveKind.MODELSCOPE
    assert plan.name == "Qwen/Qwen2.5-1.5B"
    there = tmp_path / ".cache" / "modelscope" / "hub" / "models" / "Qwen"
    assert plan.dst == str(there / src.name)
    move.Mover(plan).run()
    assert (there / "Qwen2.5-1.5B" / "config.json").exists()
    assert sorted(p.name for p in there.iterdir()) == ["Qwen2.5-1.5B", "Qwen2___5-1___5B"]
    assert move.moved_paths(plan)[str(org / "Qwen2.5-1.5B")] == plan.dst
    assert move.delete_source(plan).kept == ()
    assert list(org.iterdir()) == []


def test_single_gguf(tmp_path: Path) -> None:
    src = tmp_path / "drive" / "lm studio" / "Model-Q4_K_M.gguf"
    src.parent.mkdir(parents=True)
    src.write_bytes(b"GGUF" + t.noise(100_000))
    (src.parent / "other.gguf").write_bytes(b"GGUF")
    plan = move.plan_move(t.machine(tmp_path), str(src), env={})
    assert plan.dst == str(tmp_path / "models" / src.name)
    move.Mover(plan).run()
    assert Path(plan.dst).read_bytes() == src.read_bytes()
    assert move.delete_source(plan).deleted_files == 1
    assert sorted(p.name for p in src.parent.iterdir()) == ["other.gguf"]


def test_split_gguf_moves_all_parts_only(tmp_path: Path) -> None:
    folder = tmp_path / "drive"
    folder.mkdir()
    for n in range(3):
        (folder / f"Big-Q8_0-{n + 1:05d}-of-00003.gguf").write_bytes(b"GGUF" + t.noise(1000, n))
    (folder / "Big-Q8_0-00001-of-00002.gguf").write_bytes(b"another split")
    (folder / "mmproj-F16.gguf").write_bytes(b"GGUF")
    plan = move.plan_move(t.machine(tmp_path), str(folder / "Big-Q8_0-00001-of-00003.gguf"), env={})
    assert plan.dst == str(tmp_path / "models" / "Big-Q8_0")
    assert plan.files_total == 3
    assert any("mmproj" in w for w in plan.warnings)
    move.Mover(plan).run()
    first = str(folder / "Big-Q8_0-00001-of-00003.gguf")
    assert Path(move.rewrite_path(first, move.moved_paths(plan))).read_bytes() == Path(first).read_bytes()
    move.delete_source(plan)
    assert sorted(p.name for p in folder.iterdir()) == ["Big-Q8_0-00001-of-00002.gguf", "mmproj-F16.gguf"]


def test_a_small_blob_that_is_not_what_its_name_says_is_reported(tmp_path: Path) -> None:
    entry = t.hub_entry(tmp_path / "drive" / "hub", True)
    blob = entry / "blobs" / t.git_blob(t.noise(1000, 2))
    blob.write_bytes(t.noise(1000, 3))
    plan = move.plan_move(t.machine(tmp_path), str(entry), env={})
    result = move.Mover(plan).run()
    assert any(blob.name in w for w in result.warnings)


@pytest.mark.usefixtures("small_pieces")
def test_several_large_files_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "lanes_for", lambda rate, cores: 3)
    src = t.model_folder(tmp_path / "src", shards=5, shard_bytes=300_000)
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_shares_are_even_and_complete() -> None:
    tasks = [move_engine.Task(move.MoveFile(str(n), "", size, 0), "") for n, size in enumerate([5, 9, 1, 7, 3])]
    for lanes in (1, 2, 3, 9):
        dealt = move_engine.shares(tasks, lanes)
        assert sorted(x.file.rel for share in dealt for x in share) == ["0", "1", "2", "3", "4"]
        assert len(dealt) == min(lanes, 5)
    assert move_engine.shares([], 2) == []
    assert move_engine.lanes_for(1e9, 8) == 2
    assert move_engine.lanes_for(250e6, 8) == move_engine.lanes_for(None, 8) == move_engine.lanes_for(1e9, 2) == 1


# --- the copy is checked


def test_bad_safetensors_headers_are_reported_and_keep_the_source(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    good = src / "model-00001-of-00002.safetensors"
    good.write_bytes(good.read_bytes()[:-10])
    before = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    assert any("cut off" in w and good.name in w for w in before.warnings), "known before hours of copying"
    result = move.Mover(before).run()
    assert result.state is move.MoveState.PROVEN, "the copy is what the source is"
    assert any("cut off" in w and good.name in w for w in result.warnings)
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    with pytest.raises(WizardError, match="not a sound model"):
        move.delete_source(plan)
    assert good.exists()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "shorter"),
        (b"\xff" * 100, "bytes long"),
        ((20).to_bytes(8, "little") + b"{not json at all}   ", "not what safetensors writes"),
        ((2).to_bytes(8, "little") + b"{}" + b"rest", "longer than its header"),
        ((2).to_bytes(8, "little") + b"{}", ""),
        ((2).to_bytes(8, "little") + b"[]", "not what safetensors writes"),
    ],
)
def test_header_faults(content: bytes, fault: str) -> None:
    from wizard.models.move_scan import safetensors_fault

    said = safetensors_fault(content[:8], content[8:], len(content))
    assert (fault in said) if fault else said == ""


@given(st.binary(max_size=300))
def test_any_bytes_are_judged_without_an_exception(data: bytes) -> None:
    from wizard.models.move_scan import safetensors_fault

    assert isinstance(safetensors_fault(data[:8], data[8:], len(data)), str)


@pytest.mark.usefixtures("small_pieces")
def test_a_disk_that_returns_other_bytes_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.models import move_io

    src = t.model_folder(tmp_path / "src", shards=2, shard_bytes=300_000)
    real = move_io.Target.read

    def flipping(self: move_io.Target, buffer: move_io.Buffer, count: int, offset: int) -> int:
        got = real(self, buffer, count, offset)
        if offset >= 131072:
            buffer.view[5] ^= 1
        return got

    monkeypatch.setattr(move_io.Target, "read", flipping)
    with pytest.raises(WizardError, match="read back differently"):
        t.run(tmp_path, src, tmp_path / "dst")
    assert not (tmp_path / "dst").exists()
    monkeypatch.setattr(move_io.Target, "read", real)
    assert t.run(tmp_path, src, tmp_path / "dst").state is move.MoveState.PROVEN
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


@pytest.mark.parametrize("together", [True, False])
def test_a_small_file_read_back_wrong_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    src = t.model_folder(tmp_path / "src")
    real_single, real_queue = move_worker.read_back_whole, move_worker._AioQueue.read

    def flipping(path: str, view: memoryview) -> tuple[int, bool]:
        got = real_single(path, view)
        if path.endswith("config.json"):
            view[0] ^= 1
        return got

    def flipping_queue(queue: move_worker._AioQueue, wanted: list[tuple[int, int, int]]) -> list[int]:
        counts = real_queue(queue, wanted)
        for fd, place, _length in wanted:
            name = os.readlink(f"/proc/self/fd/{fd}")
            if name.endswith("config.json") and not name.startswith(str(src)):
                queue.view[place] ^= 1
        return counts

    monkeypatch.setattr(move_worker, "read_back_whole", flipping)
    if together:
        monkeypatch.setattr(move_worker._AioQueue, "read", flipping_queue)
    else:
        monkeypatch.setattr(move_worker._AioQueue, "open", lambda view: None)
    with pytest.raises(WizardError, match=r"config\.json was read back differently"):
        t.run(tmp_path, src, tmp_path / "dst")
    assert not (tmp_path / "dst").exists()


def many_files(root: Path, count: int) -> Path:
    src = t.model_folder(root)
    for n in range(count):
        (src / f"part-{n % 7}").mkdir(exist_ok=True)
        (src / f"part-{n % 7}" / f"{n} '\xfc'.json").write_bytes(t.noise(n * 13, n))
    with open(os.fsencode(src) + b"/not-utf8-\xff", "wb") as handle:
        handle.write(b"x" * 4096)
    return src


def test_many_small_files_go_through_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_engine, "PROCESSES_FROM", 50)
    src = many_files(tmp_path / "src", 300)
    started: list[object] = []
    real = move_engine.subprocess.Popen

    def noted(*args: Any, **more: Any) -> Any:
        started.append(args)
        return real(*args, **more)

    monkeypatch.setattr(move_engine.subprocess, "Popen", noted)
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    assert len(started) == move_engine.SMALL_WORKERS


def test_without_processes_threads_do_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_engine, "PROCESSES_FROM", 50)
    monkeypatch.setattr(move_engine.sys, "executable", "")
    src = many_files(tmp_path / "src", 100)
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_a_fault_in_a_process_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_engine, "PROCESSES_FROM", 50)
    src = many_files(tmp_path / "src", 100)
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    (src / "part-3" / "3 '\xfc'.json").write_bytes(b"longer than before, by far and away: it grew meanwhile")
    with pytest.raises(WizardError, match=r"part-3/3 .* changed while it was copied"):
        move.Mover(plan).run()
    again = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    (src / "part-4" / "4 '\xfc'.json").unlink()
    with pytest.raises(WizardError, match=r"part-4/4 .* cannot be read"):
        move.Mover(again).run()
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


@pytest.mark.parametrize("together", [True, False])
def test_a_small_file_that_changes_and_keeps_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    if not together:
        monkeypatch.setattr(move_worker._AioQueue, "open", lambda view: None)
    src = t.model_folder(tmp_path / "src")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}, sample=False)
    config = src / "config.json"
    config.write_bytes(bytes(reversed(config.read_bytes())))
    os.utime(config, ns=(5, 5))
    with pytest.raises(WizardError, match=r"config\.json changed while it was copied"):
        move.Mover(plan).run()
    assert not (tmp_path / "dst").exists()


def test_a_kernel_that_refuses_or_shortens_what_is_asked_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is then read on its own, and the copy is the same."""
    real = move_worker._AioQueue.read
    calls = 0

    def moody(queue: move_worker._AioQueue, wanted: list[tuple[int, int, int]]) -> list[int]:
        nonlocal calls
        calls += 1
        counts = real(queue, wanted)
        return [-22 if (n + calls) % 3 == 0 else count // 2 if (n + calls) % 3 == 1 else count for n, count in enumerate(counts)]

    monkeypatch.setattr(move_worker._AioQueue, "read", moody)
    src = many_files(tmp_path / "src", 120)
    t.run(tmp_path, src, tmp_path / "dst")
    assert calls
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_names_that_share_their_content_arrive_each(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    os.link(src / "config.json", src / "config-again.json")
    wanted = t.snapshot(src)
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == wanted
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}, sample=False)
    assert not move.delete_source(plan).kept
    assert not src.exists()


def test_processes_that_are_killed_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_engine, "PROCESSES_FROM", 50)
    src = many_files(tmp_path / "src", 100)
    real = move_engine.subprocess.Popen

    def dying(*args: Any, **more: Any) -> Any:
        process = real(*args, **more)
        process.kill()
        return process

    with monkeypatch.context() as patch:
        patch.setattr(move_engine.subprocess, "Popen", dying)
        with pytest.raises(WizardError, match="ended from outside"):
            t.run(tmp_path, src, tmp_path / "dst")
    t.run(tmp_path, src, tmp_path / "dst")
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


def test_without_direct_io_the_copy_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.models import move_io

    monkeypatch.setattr(move_io, "_O_DIRECT", 0)
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    src = t.model_folder(tmp_path / "src", shard_bytes=3 * t.MIB)
    result = t.run(tmp_path, src, tmp_path / "dst")
    assert result.past_page_cache is False
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)


# --- control


def paced(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Every read of a large file takes this long."""
    from wizard.models import move_io

    real = move_io.read_at

    def slow(fd: int, view: memoryview, offset: int) -> int:
        if threading.current_thread().name.startswith("move-read"):
            time.sleep(seconds)
        return real(fd, view, offset)

    monkeypatch.setattr(move_io, "read_at", slow)


@pytest.mark.usefixtures("small_pieces")
def test_cancel_keeps_what_is_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch, 0.01)
    src = t.model_folder(tmp_path / "src", shards=4, shard_bytes=400_000)
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})

    def stop(progress: move.Progress) -> None:
        if progress.bytes_done > plan.bytes_total // 3:
            mover.cancel()

    mover = move.Mover(plan, on_progress=stop, interval_s=0.02)
    result = mover.run()
    assert result.state is move.MoveState.PARTIAL
    assert not (tmp_path / "dst").exists()
    waiting = move.status(str(tmp_path / "dst"))
    assert waiting.state is move.MoveState.PARTIAL
    assert waiting.bytes_done > plan.bytes_total // 3
    assert [p.dst for p in move.pending_moves(str(tmp_path), {})] == [str(tmp_path / "dst")]
    again = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    assert again.bytes_already == waiting.bytes_done
    assert again.space.needed_bytes == plan.bytes_total - waiting.bytes_done
    second = move.Mover(again).run()
    assert second.bytes_copied <= plan.bytes_total - waiting.bytes_done + 65536 * 4
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    assert move.pending_moves(str(tmp_path), {}) == ()


@pytest.mark.usefixtures("small_pieces")
def test_pause_and_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch, 0.005)
    src = t.model_folder(tmp_path / "src", shards=2, shard_bytes=600_000)
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    seen: list[move.Progress] = []
    started = threading.Event()

    def note(progress: move.Progress) -> None:
        seen.append(progress)
        if progress.bytes_done > 0:
            started.set()

    mover = move.Mover(plan, on_progress=note, interval_s=0.01)
    worker = threading.Thread(target=mover.run)
    worker.start()
    assert started.wait(10)
    mover.pause()
    time.sleep(0.3)
    still = mover._counters.bytes_read
    time.sleep(0.3)
    assert mover._counters.bytes_read == still, "nothing is read while paused"
    assert worker.is_alive()
    assert any(p.stage is move.Stage.PAUSED for p in seen)
    mover.resume()
    worker.join(20)
    assert not worker.is_alive()
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    done = [p.bytes_done for p in seen if p.stage is not move.Stage.PAUSED]
    assert done == sorted(done), "progress never goes back"
    assert seen[-1].stage is move.Stage.DONE
    assert seen[-1].bytes_done == plan.bytes_total
    assert seen[-1].files_done == plan.files_total


def test_cancel_while_paused_ends(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    mover = move.Mover(move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}))
    mover.pause()
    results: list[move.MoveResult] = []
    worker = threading.Thread(target=lambda: results.append(mover.run()))
    worker.start()
    time.sleep(0.2)
    mover.cancel()
    worker.join(10)
    assert results
    assert results[0].state is move.MoveState.PARTIAL


@pytest.mark.usefixtures("small_pieces")
def test_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch, 0.02)
    src = t.model_folder(tmp_path / "src", shards=2, shard_bytes=400_000)
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    begun = threading.Event()
    first = move.Mover(plan, on_progress=lambda p: begun.set() if p.stage is move.Stage.COPY else None)
    worker = threading.Thread(target=first.run)
    worker.start()
    assert begun.wait(10)
    assert move.status(str(tmp_path / "dst")).running
    with pytest.raises(WizardError, match="already moving"):
        move.Mover(plan).run()
    with pytest.raises(WizardError, match="already moving"):
        move.delete_source(plan)
    worker.join(20)
    assert t.snapshot(tmp_path / "dst") == t.snapshot(src)
    assert move.Mover(plan).run().state is move.MoveState.PROVEN, "the second comes late and finds it done"


def test_discard(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    dst = tmp_path / "models" / "dst"
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    mover = move.Mover(plan)
    mover.cancel()
    assert mover.run().state is move.MoveState.PARTIAL
    assert move.discard(str(dst)) is True
    assert move.discard(str(dst)) is False
    assert list((tmp_path / "models").iterdir()) == []
    t.run(tmp_path, src, dst)
    with pytest.raises(WizardError, match="not an unfinished copy"):
        move.discard(str(dst))
    assert t.snapshot(dst) == t.snapshot(src)


# --- deletion


def moved(tmp_path: Path) -> tuple[Path, Path, move.MovePlan]:
    src, dst = t.model_folder(tmp_path / "src"), tmp_path / "dst"
    plan = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    move.Mover(plan).run()
    return src, dst, plan


def test_delete_needs_a_proven_copy(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={})
    with pytest.raises(WizardError, match="not proven"):
        move.delete_source(plan)
    assert t.snapshot(src)["config.json"][0] == "file"


def test_delete_refuses_when_the_copy_was_changed(tmp_path: Path) -> None:
    src, dst, plan = moved(tmp_path)
    shard = dst / "model-00001-of-00002.safetensors"
    times = shard.stat()
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(times.st_mtime_ns, times.st_mtime_ns))
    with pytest.raises(WizardError, match="not as it was proven"):
        move.delete_source(plan)
    assert (src / shard.name).exists()
    shard.unlink()
    with pytest.raises(WizardError, match="not as it was proven"):
        move.delete_source(plan)
    assert (src / shard.name).exists()


def test_delete_accepts_a_copy_that_was_only_touched(tmp_path: Path) -> None:
    src, dst, plan = moved(tmp_path)
    (dst / "config.json").touch()
    assert move.delete_source(plan).kept == ()
    assert not src.exists()


def test_delete_leaves_what_was_not_copied(tmp_path: Path) -> None:
    src, _dst, plan = moved(tmp_path)
    (src / "new-after.txt").write_text("mine")
    (src / "config.json").write_text("edited")
    result = move.delete_source(plan)
    assert sorted(p.name for p in src.iterdir()) == ["config.json", "new-after.txt"]
    assert any("config.json" in k for k in result.kept)
    assert any("new-after.txt" in k for k in result.kept)


def test_delete_again_after_it_was_interrupted(tmp_path: Path) -> None:
    src, dst, _plan = moved(tmp_path)
    (src / "config.json").unlink()
    (src / "tokenizer" / "merges.txt").unlink()
    again = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    assert again.state is move.MoveState.PROVEN
    move.Mover(again).run()
    assert move.delete_source(again).kept == ()
    assert not src.exists()
    gone = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    assert gone.state is move.MoveState.DELETED
    assert move.Mover(gone).run().state is move.MoveState.DELETED


def test_move_again_is_nothing_to_do(tmp_path: Path) -> None:
    src, dst, _plan = moved(tmp_path)
    before = t.stamps(dst)
    again = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    assert again.state is move.MoveState.PROVEN
    assert again.space.needed_bytes == 0
    result = move.Mover(again).run()
    assert result.bytes_copied == 0
    assert t.stamps(dst) == before


def test_move_again_after_the_copy_was_deleted(tmp_path: Path) -> None:
    import shutil

    src, dst, _plan = moved(tmp_path)
    shutil.rmtree(dst)
    assert move.status(str(dst)).state is move.MoveState.NONE
    assert t.run(tmp_path, src, dst).bytes_copied > 0
    assert t.snapshot(dst) == t.snapshot(src)


def test_a_file_added_to_the_source_later_is_taken_over(tmp_path: Path) -> None:
    src, dst, _plan = moved(tmp_path)
    (src / "generation_config.json").write_text("{}")
    again = move.plan_move(t.machine(tmp_path), str(src), str(dst), env={})
    assert again.ok
    move.Mover(again).run()
    assert t.snapshot(dst) == t.snapshot(src)


def test_a_destination_that_holds_the_same_model_is_completed(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    dst = tmp_path / "src-copy"
    dst.mkdir()
    for name in ("config.json", "model-00001-of-00002.safetensors"):
        (dst / name).write_bytes((src / name).read_bytes())
    t.run(tmp_path, src, dst)
    assert t.snapshot(dst) == t.snapshot(src)


def test_a_destination_with_the_same_sizes_but_other_bytes_is_kept(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    dst = tmp_path / "other"
    dst.mkdir()
    (dst / "config.json").write_bytes((src / "config.json").read_bytes())
    shard = dst / "model-00001-of-00002.safetensors"
    shard.write_bytes(bytes((src / shard.name).stat().st_size))
    with pytest.raises(WizardError, match="something else under the same name"):
        t.run(tmp_path, src, dst)
    assert set(shard.read_bytes()) == {0}
    shard.unlink()
    t.run(tmp_path, src, dst)
    assert t.snapshot(dst) == t.snapshot(src)


def test_refusals_are_raised_by_run(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    plan = move.plan_move(t.machine(tmp_path), str(src), str(src / "inside"), env={})
    with pytest.raises(BadInput, match="inside"):
        move.Mover(plan).run()


def test_records_are_plain_json(tmp_path: Path) -> None:
    _src, dst, plan = moved(tmp_path)
    for thing in (plan.to_json(), plan.to_json(with_files=True), move.status(str(dst)).to_json()):
        assert json.loads(json.dumps(thing)) == thing


# --- any tree

_NAME = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=20
).filter(lambda s: s not in (".", "..", move.RECORDS) and len(s.encode()) < 200)
_LEAF = st.one_of(
    st.binary(max_size=2000),
    st.integers(0, 200_000).map(lambda n: t.noise(n, n)),
    st.tuples(st.just("link"), _NAME),
)
_TREE = st.recursive(_LEAF, lambda inner: st.dictionaries(_NAME, inner, max_size=4), max_leaves=12)


def build(root: Path, tree: object) -> None:
    if isinstance(tree, dict):
        root.mkdir()
        for name, inner in tree.items():
            build(root / name, inner)
    elif isinstance(tree, tuple):
        root.symlink_to(tree[1])
    else:
        assert isinstance(tree, bytes)
        root.write_bytes(tree)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=st.dictionaries(_NAME, _TREE, min_size=1, max_size=4))
@example(tree={"0": ("link", "\\"), "00": b""})  # no link to the root of all
@pytest.mark.usefixtures("small_pieces")
def test_any_tree_arrives_as_it_was(tree: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("tree")
    build(root / "src", tree)
    plan = move.plan_move(t.machine(root), str(root / "src"), str(root / "dst"), env={}, sample=False)
    before = t.snapshot(root / "src")
    if not plan.files_total:
        assert [r.code for r in plan.refusals] == ["empty"]
        return
    move.Mover(plan).run()
    after = t.snapshot(root / "dst")
    assert {k: v for k, v in after.items() if v[0] != "link"} == {k: v for k, v in before.items() if v[0] != "link"}
    assert set(after) == set(before)
    assert t.snapshot(root / "src") == before
