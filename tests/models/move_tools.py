"""What the tests of the mover share: machines, trees, comparisons."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from wizard.facts import (
    Cpu,
    Docker,
    Fact,
    GpuStack,
    Machine,
    Memory,
    Mount,
    MountKind,
    PythonFacts,
    SystemKind,
    known,
    unknown,
)
from wizard.models import move

MIB = 1024 * 1024
GIB = 1024 * MIB


def machine(home: Path | str, mounts: tuple[Mount, ...] = (), **more: Any) -> Machine:
    """A machine of which only what the mover asks is known."""
    why: Fact[Any] = unknown("not asked")
    fields: dict[str, Any] = {"name": "this machine", "system": SystemKind.NATIVE, **more}
    return Machine(
        os_name=why,
        kernel=why,
        home=str(home),
        cpu=Cpu(why, why, "x86_64"),
        memory=Memory(why, why, why, why),
        gpu=GpuStack(),
        docker=Docker(why, why, why, why, why),
        python=PythonFacts(why, why, why),
        mounts=mounts,
        **fields,
    )


def mount(path: Path | str, kind: MountKind, windows_path: str | None = None, free: int | None = None) -> Mount:
    room: Fact[int] = unknown("not asked") if free is None else known(free, "test")
    return Mount(str(path), "9p" if windows_path else "ext4", kind, "test", False, room, room, windows_path)


def run(home: Path, src: Path | str, dst: Path | str | None = None, **options: Any) -> move.MoveResult:
    plan = move.plan_move(machine(home), str(src), None if dst is None else str(dst), env={}, sample=False)
    return move.Mover(plan, **options).run()


def snapshot(root: Path | str) -> dict[str, tuple[str, Any]]:
    """Everything below a folder (or a single file): kind, and content hash or link target. Raw names."""
    top = os.fsencode(str(root))
    found: dict[str, tuple[str, Any]] = {}

    def add(path: bytes, rel: bytes) -> None:
        st = os.lstat(path)
        name = os.fsdecode(rel)
        if stat.S_ISLNK(st.st_mode):
            found[name] = ("link", os.fsdecode(os.readlink(path)))
        elif stat.S_ISDIR(st.st_mode):
            found[name] = ("dir", None)
            for inner in os.listdir(path):
                add(os.path.join(path, inner), os.path.join(rel, inner))
        else:
            with open(path, "rb") as handle:
                found[name] = ("file", (st.st_size, hashlib.sha256(handle.read()).hexdigest()))

    add(top, b"")
    return found


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file: that nothing was touched."""
    return {
        os.fsdecode(os.path.join(folder, name)): (s.st_size, s.st_mtime_ns)
        for folder, _dirs, names in os.walk(os.fsencode(str(root)))
        for name in names
        for s in [os.lstat(os.path.join(folder, name))]
    }


def safetensors(size: int, seed: int = 0) -> bytes:
    """A sound safetensors file with ``size`` bytes of data."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + noise(size, seed)


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes without a pattern, the same for the same seed."""
    import random

    return random.Random(seed).randbytes(size)


def model_folder(root: Path, shards: int = 2, shard_bytes: int = 300_000) -> Path:
    """A small model as it comes from the Hub."""
    root.mkdir(parents=True)
    (root / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    (root / "tokenizer").mkdir()
    (root / "tokenizer" / "merges.txt").write_bytes(noise(5000, 99))
    (root / "empty.txt").write_bytes(b"")
    for n in range(shards):
        name = f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
        (root / name).write_bytes(safetensors(shard_bytes + n * 7, n))
    return root


def git_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def hub_entry(hub: Path, linked: bool, shard_bytes: int = 200_000) -> Path:
    """A Hugging Face cache entry with two revisions that share a shard; without links as Windows keeps it."""
    entry = hub / "models--Qwen--Qwen3-Test"
    files = {
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        ".gitattributes": b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
        "model.safetensors": safetensors(shard_bytes, 1),
        "sub/vocab.json": noise(1000, 2),
    }
    revisions = {"a" * 40: files, "b" * 40: {**files, "config.json": b'{"architectures": ["Other"]}'}}
    (entry / "refs").mkdir(parents=True)
    (entry / "refs" / "main").write_text("b" * 40)
    (entry / "blobs").mkdir()
    for revision, content in revisions.items():
        for rel, data in content.items():
            place = entry / "snapshots" / revision / rel
            place.parent.mkdir(parents=True, exist_ok=True)
            if linked:
                lfs = rel.endswith(".safetensors")
                blob = hashlib.sha256(data).hexdigest() if lfs else git_blob(data)
                (entry / "blobs" / blob).write_bytes(data)
                place.symlink_to(os.path.relpath(entry / "blobs" / blob, place.parent))
            else:
                place.write_bytes(data)
    return entry
