"""Where models lie on a machine: the usual folders, scanned fast, cancellable, slow drives with a time-out."""

from __future__ import annotations

import json
import posixpath
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wizard.facts import Machine, MountKind
from wizard.host import DirEntry, Host
from wizard.i18n import _
from wizard.models.info import FoundModel
from wizard.models.inspect import cache_roots, repo_id_of, resolve_entry
from wizard.models.quant import FOREIGN_METHODS, detect

WINDOWS_TIMEOUT_S = 8.0
FOLDER_DEPTH = 4
WINDOWS_DEPTH = 3
MAX_FOLDERS = 20_000
CONFIG_LIMIT = 4 * 2**20

# folders that never hold models and may hold a great many files
_SKIP = {".git", "node_modules", "__pycache__", "site-packages", "$recycle.bin", "system volume information", "windows", "program files",
         "program files (x86)", "programdata", "appdata", "proc", "sys", "dev", "venv", ".venv", ".cache", "snapshots", "blobs", ".vllm-wizard-moves"}  # fmt: skip
_WEIGHT_ENDINGS = (".safetensors", ".bin", ".pth", ".pt", ".npz")
_NUMBERED = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")


@dataclass(frozen=True)
class Root:
    """One place to look: ``origin`` as in :class:`FoundModel`, how deep, and whether it may be slow."""

    path: str
    origin: str
    depth: int
    slow: bool = False


def usual_roots(host: Host, machine: Machine) -> list[Root]:
    """The places where models usually lie on that machine, in order."""
    home = host.home.rstrip("/") or "/"
    out = [Root(path, "huggingface", 1) for path in cache_roots(host)]
    scope = host.env.get("MODELSCOPE_CACHE") or posixpath.join(home, ".cache/modelscope")
    out += [Root(posixpath.join(scope, "hub/models"), "modelscope", 3), Root(posixpath.join(scope, "hub"), "modelscope", 3), Root(posixpath.join(scope, "models"), "modelscope", 3)]
    out += [Root(posixpath.join(home, p), "lmstudio", 4) for p in (".lmstudio/models", ".cache/lm-studio/models")]
    here = host.env.get("PWD")
    folders = [posixpath.join(home, "models"), *([posixpath.join(here, "models")] if here else []), "/data/models", "/models", "/mnt/models", "/opt/models", "/srv/models"]
    out += [Root(p, "folder", FOLDER_DEPTH) for p in dict.fromkeys(folders)]
    for mount in machine.mounts:
        if mount.kind is MountKind.WINDOWS_DRIVE and mount.windows_path:
            out += _windows_roots(host, mount.path)
    return out


def _windows_roots(host: Host, drive: str) -> list[Root]:
    base = drive.rstrip("/")
    out = [Root(posixpath.join(base, name), "folder", WINDOWS_DEPTH, slow=True) for name in ("models", "Models", "AI", "ai", "LLM", "llm", "LLMs", "huggingface", "AI/models")]
    users = posixpath.join(base, "Users")
    out.append(Root(users, "windows-users", 0, slow=True))
    return out


def _user_roots(host: Host, users: str) -> list[Root]:
    out = []
    for entry in _list(host, users):
        if not entry.is_dir or entry.name.lower() in ("public", "default", "default user", "all users"):
            continue
        out.append(Root(posixpath.join(entry.path, ".cache/huggingface/hub"), "huggingface", 1, slow=True))
        out += [Root(posixpath.join(entry.path, p), "lmstudio", 4, slow=True) for p in (".lmstudio/models", ".cache/lm-studio/models")]
        out.append(Root(posixpath.join(entry.path, ".cache/modelscope/hub"), "modelscope", 3, slow=True))
        out += [Root(posixpath.join(entry.path, p), "folder", 2, slow=True) for p in ("models", "Models", "Downloads", "Documents/models")]
    return out


def find(
    host: Host,
    machine: Machine,
    *,
    roots: Sequence[str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    windows_timeout_s: float = WINDOWS_TIMEOUT_S,
) -> Iterator[FoundModel]:
    """Models on that machine, as they are found: fast places first, Windows drives last and with a time-out.

    ``roots`` replaces the usual places. ``cancelled`` is asked often; when it says True the scan ends.
    """
    places = [Root(p, "folder", FOLDER_DEPTH) for p in roots] if roots is not None else usual_roots(host, machine)
    seen: set[str] = set()
    fast = [r for r in places if not r.slow]
    slow = [r for r in places if r.slow]
    for root in fast:
        yield from _scan(host, machine, root, cancelled, seen)
        if cancelled():
            return
    if slow and not cancelled():
        yield from _in_background(host, machine, slow, cancelled, seen, windows_timeout_s)


def _in_background(
    host: Host, machine: Machine, roots: list[Root], cancelled: Callable[[], bool], seen: set[str], timeout_s: float
) -> Iterator[FoundModel]:
    """Scan slow drives in a thread of their own: a drive that hangs is given up, not waited for."""
    found: queue.SimpleQueue[FoundModel | None] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            for root in roots:
                for model in _scan(host, machine, root, lambda: stop.is_set() or cancelled(), seen):
                    found.put(model)
        finally:
            found.put(None)

    threading.Thread(target=work, name="find-models", daemon=True).start()
    deadline = time.monotonic() + timeout_s
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or cancelled():
            stop.set()
            return
        try:
            model = found.get(timeout=min(left, 0.1))
        except queue.Empty:
            continue
        if model is None:
            return
        yield model


def _list(host: Host, path: str) -> list[DirEntry]:
    try:
        return list(host.list_dir(path))
    except OSError:
        return []


def _scan(host: Host, machine: Machine, root: Root, cancelled: Callable[[], bool], seen: set[str]) -> Iterator[FoundModel]:
    if not host.exists(root.path):
        return
    if root.origin == "windows-users":
        for inner in _user_roots(host, root.path):
            if cancelled():
                return
            yield from _scan(host, machine, inner, cancelled, seen)
        return
    if root.origin == "huggingface":
        yield from _scan_cache(host, machine, root, cancelled, seen)
        return
    level = [root.path]
    visited = 0
    for depth in range(root.depth + 1):
        deeper: list[str] = []
        for folder in level:
            visited += 1
            if cancelled() or visited > MAX_FOLDERS:
                return
            entries = _list(host, folder)
            models = list(_models_in(host, machine, folder, entries, root.origin))
            for model in models:
                real = _real(host, model.path)
                if real not in seen:
                    seen.add(real)
                    yield model
            if models and not any(m.origin == "gguf" for m in models):
                continue
            if depth < root.depth:
                deeper += [e.path for e in entries if e.is_dir and e.name.lower() not in _SKIP and not (e.name.startswith(".") and depth > 0)]
                if any(e.name.startswith("models--") for e in entries):
                    yield from _scan_cache(host, machine, Root(folder, "huggingface", 1), cancelled, seen)
        level = [p for p in deeper if not posixpath.basename(p).startswith("models--")]


def _scan_cache(host: Host, machine: Machine, root: Root, cancelled: Callable[[], bool], seen: set[str]) -> Iterator[FoundModel]:
    for entry in sorted(_list(host, root.path), key=lambda e: e.name):
        if cancelled():
            return
        if not entry.name.startswith("models--") or not entry.is_dir:
            continue
        folder = resolve_entry(host, entry.path)
        if folder == entry.path:
            continue
        half_done = any(e.name.endswith(".incomplete") for e in _list(host, posixpath.join(entry.path, "blobs")))
        for model in _models_in(host, machine, folder, _list(host, folder), "huggingface"):
            real = _real(host, model.path)
            if real in seen:
                continue
            seen.add(real)
            if half_done and model.complete:
                model = replace(model, complete=False, problem=_("a download that did not finish"))
            yield model


def _real(host: Host, path: str) -> str:
    try:
        return host.realpath(path)
    except OSError:
        return path


def _models_in(host: Host, machine: Machine, folder: str, entries: list[DirEntry], origin: str) -> Iterator[FoundModel]:
    """The models that this folder itself is or holds as GGUF files."""
    names = {e.name: e for e in entries if not e.is_dir}
    mount = _mount_kind(host, machine, folder)
    label = repo_id_of(folder) or _label(folder, origin)
    weight_names = [n for n in names if n.endswith(_WEIGHT_ENDINGS)]
    if "model_index.json" in names:
        return  # an image generator's pipeline: nothing that vLLM serves
    if "config.json" in names and (weight_names or origin == "huggingface" or any(n.endswith(".index.json") for n in names)):
        yield _folder_model(host, folder, names, weight_names, label, origin, mount)
        return
    if "adapter_config.json" in names:
        yield FoundModel(folder, label, origin, _total(host, folder, weight_names), mount_kind=mount, is_adapter=True, problem=_("a LoRA adapter: needs its base model"))
        return
    if "params.json" in names and weight_names:
        yield FoundModel(folder, label, origin, _total(host, folder, weight_names), "MistralForCausalLM", "mistral", mount_kind=mount)
        return
    for name in sorted(names):
        low = name.lower()
        if not low.endswith(".gguf") or "mmproj" in low:
            continue
        part = re.search(r"-(\d{5})-of-\d{5}\.gguf$", low)
        if part and part.group(1) != "00001":
            continue
        path = posixpath.join(folder, name)
        problem = _("in several files: merge them first") if part else ""
        yield FoundModel(path, name[:-5], "gguf", _total(host, folder, [name]), quantization="gguf", mount_kind=mount, problem=problem, complete=not part)


def _label(folder: str, origin: str) -> str:
    name = posixpath.basename(folder.rstrip("/"))
    if origin in ("lmstudio", "modelscope"):
        owner = posixpath.basename(posixpath.dirname(folder.rstrip("/")))
        return f"{owner}/{name}" if owner not in ("models", "hub") else name
    return name


def _mount_kind(host: Host, machine: Machine, folder: str) -> str:
    mount = machine.mount_of(_real(host, folder))
    return mount.kind.value if mount is not None else MountKind.LINUX.value


def _sizes(host: Host, folder: str, names: Sequence[str]) -> dict[str, int]:
    """Bytes of those files that can be looked at."""
    out = {}
    for name in names:
        try:
            out[name] = host.stat(f"{folder}/{name}").size_bytes
        except OSError:
            continue
    return out


def _total(host: Host, folder: str, names: Sequence[str]) -> int | None:
    return sum(_sizes(host, folder, names).values()) or None


def _folder_model(
    host: Host, folder: str, names: dict[str, DirEntry], weight_names: list[str], label: str, origin: str, mount: str
) -> FoundModel:
    config: dict[str, Any] = {}
    problem = ""
    try:
        data = json.loads(host.read_bytes(posixpath.join(folder, "config.json"), limit=CONFIG_LIMIT))
        config = data if isinstance(data, dict) else {}
    except (OSError, ValueError, RecursionError):
        problem = _("config.json cannot be read")
    quant = detect(config)
    architectures = config.get("architectures")
    architecture = architectures[0] if isinstance(architectures, list) and architectures and isinstance(architectures[0], str) else None
    tensors = [n for n in weight_names if n.endswith(".safetensors")] or weight_names
    complete = True
    if not quant.servable:
        problem = _("{format} weights: vLLM cannot serve them").format(format=FOREIGN_METHODS.get(quant.method or "", quant.detail))
    sizes = _sizes(host, folder, tensors)
    missing = _missing(names, sizes)
    if missing:
        complete = False
        problem = _("{n} files of the weights are missing").format(n=missing)
    elif any(n.endswith((".incomplete", ".part", ".crdownload")) for n in names):
        complete = False
        problem = _("a download that did not finish")
    elif not tensors:
        complete = False
        problem = _("no weights are there")
    model_type = config.get("model_type")
    return FoundModel(
        folder, label, origin, sum(sizes.values()) or None, architecture, model_type if isinstance(model_type, str) else None, quant.method, mount, complete, problem
    )  # fmt: skip


def _missing(names: dict[str, DirEntry], sizes: Mapping[str, int]) -> int:
    """How many shards the numbered names imply that are not there; a link whose target is gone has no size."""
    numbered = [m for n in names if n.endswith(".safetensors") and (m := _NUMBERED.fullmatch(n))]
    lost = sum(match.group(0) not in sizes for match in numbered)
    for stem, total in {(m.group(1), m.group(3)) for m in numbered}:
        have = sum(1 for m in numbered if m.group(1) == stem and m.group(3) == total)
        lost += max(0, min(int(total), 100_000) - have)
    return lost


def ollama_store(host: Host) -> str | None:
    """Ollama's own store, if it is there: its models are blobs that vLLM cannot serve from where they lie."""
    for path in (host.env.get("OLLAMA_MODELS"), posixpath.join(host.home, ".ollama/models"), "/usr/share/ollama/.ollama/models"):
        if path and host.exists(posixpath.join(path, "manifests")):
            return path
    return None
