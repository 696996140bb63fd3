"""Finding models: where they lie, what they are, fast, cancellable, and never stuck on a slow drive."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wizard.facts import (
    Cpu,
    Docker,
    GpuStack,
    Machine,
    Memory,
    Mount,
    MountKind,
    PythonFacts,
    SystemKind,
    unknown,
)
from wizard.host import DirEntry, RealHost
from wizard.models.find import find, ollama_store, usual_roots
from wizard.models.info import FoundModel

U = unknown("not asked")
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


def machine(*mounts: Mount) -> Machine:
    root = Mount("/", "ext4", MountKind.LINUX, "/dev/sda1")
    return Machine("test", SystemKind.WSL2, U, U, "/home/user", Cpu(U, U, "x86_64"), Memory(U, U, U, U), GpuStack(), Docker(U, U, U, U, U), PythonFacts(U, U, U), mounts=(root, *mounts))


def host(home: Path, **env: str) -> RealHost:
    out = RealHost()
    out.home = str(home)
    out.env = env
    return out


def model(path: Path, config: dict[str, Any] | None = None, shards: int = 1, size: int = 10) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config or LLAMA))
    for i in range(shards):
        name = "model.safetensors" if shards == 1 else f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        (path / name).write_bytes(bytes(size))
    return path


def cache_entry(hub: Path, name: str, *, blob: bool = True) -> Path:
    entry = hub / ("models--" + name.replace("/", "--"))
    snapshot = entry / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (entry / "blobs").mkdir()
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    if blob:
        (entry / "blobs" / "w").write_bytes(bytes(20))
    (snapshot / "model-00001-of-00001.safetensors").symlink_to("../../blobs/w")
    return entry


def by_name(models: Iterator[FoundModel]) -> dict[str, FoundModel]:
    return {m.name: m for m in models}


def test_the_usual_places(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cache_entry(home / ".cache/huggingface/hub", "Qwen/Qwen3-8B")
    model(home / "models/Llama", shards=3)
    model(home / "models/deep/er/down", {**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})
    model(home / ".cache/modelscope/hub/models/Qwen/Qwen2___5-7B")
    model(home / ".lmstudio/models/mlx-community/Llama-4bit", {**LLAMA, "quantization": {"bits": 4, "group_size": 64}})
    (home / ".lmstudio/models/bartowski/L-GGUF").mkdir(parents=True)
    (home / ".lmstudio/models/bartowski/L-GGUF/L-Q4_K_M.gguf").write_bytes(bytes(30))
    (home / ".lmstudio/models/bartowski/L-GGUF/mmproj-L-f16.gguf").write_bytes(b"x")
    found = by_name(find(host(home), machine()))
    assert set(found) == {"Qwen/Qwen3-8B", "Llama", "down", "Qwen/Qwen2.5-7B", "mlx-community/Llama-4bit", "L-Q4_K_M"}
    assert (found["Qwen/Qwen3-8B"].origin, found["Qwen/Qwen3-8B"].size_bytes, found["Qwen/Qwen3-8B"].complete) == ("huggingface", 20, True)
    assert (found["Llama"].size_bytes, found["Llama"].architecture) == (30, "LlamaForCausalLM")
    assert found["down"].quantization == "awq"
    assert "MLX" in found["mlx-community/Llama-4bit"].problem
    assert (found["L-Q4_K_M"].origin, found["L-Q4_K_M"].quantization, found["L-Q4_K_M"].path.endswith(".gguf")) == ("gguf", "gguf", True)


def test_environment_moves_the_cache(tmp_path: Path) -> None:
    cache_entry(tmp_path / "elsewhere/hub", "a/b")
    assert set(by_name(find(host(tmp_path / "home", HF_HOME=str(tmp_path / "elsewhere")), machine()))) == {"a/b"}
    assert set(by_name(find(host(tmp_path / "home", HF_HUB_CACHE=str(tmp_path / "elsewhere/hub")), machine()))) == {"a/b"}


def test_what_is_not_whole(tmp_path: Path) -> None:
    hub = tmp_path / ".cache/huggingface/hub"
    cache_entry(hub, "gone/blob", blob=False)
    half = cache_entry(hub, "half/done")
    (half / "blobs" / "x.incomplete").write_bytes(b"")
    missing = model(tmp_path / "models/missing", shards=4)
    (missing / "model-00002-of-00004.safetensors").unlink()
    (model(tmp_path / "models/broken") / "config.json").write_text("{")
    found = by_name(find(host(tmp_path), machine()))
    assert [found[n].complete for n in ("gone/blob", "half/done", "missing")] == [False, False, False]
    assert "1 " in found["missing"].problem
    assert found["broken"].problem
    assert all(found[n].problem for n in found)


def test_adapters_and_what_is_no_model(tmp_path: Path) -> None:
    lora = tmp_path / "models/lora"
    lora.mkdir(parents=True)
    (lora / "adapter_config.json").write_text("{}")
    (lora / "adapter_model.safetensors").write_bytes(bytes(5))
    (tmp_path / "models/notes").mkdir()
    (tmp_path / "models/notes/config.json").write_text("{}")
    pipeline = model(tmp_path / "models/sdxl")
    (pipeline / "model_index.json").write_text("{}")
    found = by_name(find(host(tmp_path), machine()))
    assert set(found) == {"lora"}
    assert found["lora"].is_adapter


def test_given_roots_replace_the_usual_ones(tmp_path: Path) -> None:
    model(tmp_path / "models/a")
    model(tmp_path / "other/b")
    assert set(by_name(find(host(tmp_path), machine(), roots=[str(tmp_path / "other")]))) == {"b"}
    assert list(find(host(tmp_path), machine(), roots=[str(tmp_path / "nowhere")])) == []


def test_one_model_is_listed_once(tmp_path: Path) -> None:
    model(tmp_path / "data/a")
    (tmp_path / "models").symlink_to(tmp_path / "data")
    assert len(list(find(host(tmp_path), machine(), roots=[str(tmp_path / "models"), str(tmp_path / "data")]))) == 1


def test_windows_drives_are_scanned_and_named(tmp_path: Path) -> None:
    drive = tmp_path / "mnt/d"
    model(drive / "models/Llama")
    model(drive / "Users/max/.lmstudio/models/org/M")
    cache_entry(drive / "Users/max/.cache/huggingface/hub", "x/y")
    (drive / "Windows/System32").mkdir(parents=True)
    mount = Mount(str(drive), "9p", MountKind.WINDOWS_DRIVE, "D:\\", windows_path="D:\\")
    found = by_name(find(host(tmp_path / "home"), machine(mount)))
    assert set(found) == {"Llama", "org/M", "x/y"}
    assert {m.mount_kind for m in found.values()} == {"windows-drive"}


class StuckHost(RealHost):
    """A drive whose folders never answer."""

    def __init__(self, stuck: str) -> None:
        super().__init__()
        self.stuck = stuck
        self.release = threading.Event()

    def exists(self, path: str) -> bool:
        return path.startswith(self.stuck) or super().exists(path)

    def list_dir(self, path: str) -> list[DirEntry]:
        if path.startswith(self.stuck):
            self.release.wait(5)
            return []
        return super().list_dir(path)


def test_a_drive_that_hangs_is_given_up(tmp_path: Path) -> None:
    model(tmp_path / "models/a")
    stuck = StuckHost("/mnt/stuck")
    stuck.home, stuck.env = str(tmp_path), {}
    mount = Mount("/mnt/stuck", "9p", MountKind.WINDOWS_DRIVE, "E:\\", windows_path="E:\\")
    start = time.monotonic()
    found = [m.name for m in find(stuck, machine(mount), windows_timeout_s=0.3)]
    assert time.monotonic() - start < 2
    assert found == ["a"]
    stuck.release.set()


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    for i in range(30):
        model(tmp_path / f"models/m{i:02d}")
    seen: list[str] = []
    for m in find(host(tmp_path), machine(), cancelled=lambda: len(seen) >= 3):
        seen.append(m.name)
    assert len(seen) == 3


def test_usual_roots_are_absolute_and_asked_once(tmp_path: Path) -> None:
    roots = [r.path for r in usual_roots(host(tmp_path, PWD="/srv/place"), machine())]
    assert "/srv/place/models" in roots
    assert all(r.startswith("/") for r in roots)
    assert len(roots) == len(set(roots))


def test_ollama_is_named(tmp_path: Path) -> None:
    assert ollama_store(host(tmp_path)) is None
    (tmp_path / ".ollama/models/manifests").mkdir(parents=True)
    assert ollama_store(host(tmp_path)) == str(tmp_path / ".ollama/models")


@pytest.mark.slow
def test_a_hundred_thousand_files_in_two_seconds(tmp_path: Path) -> None:
    for a in range(100):
        folder = model(tmp_path / f"models/org{a}/m", shards=20, size=0)
        for i in range(980):
            (folder / f"f{i}.txt").touch()
    everything = host(tmp_path)
    list(find(everything, machine()))
    start = time.process_time()
    assert len(list(find(everything, machine()))) == 100
    assert time.process_time() - start < 2
