"""Read a source tree: what kind of model it is, and which files, links and folders it has.

Works through a small view of a file system, so that a recorded machine is read in the same way as this one.
"""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wizard.errors import BadInput
from wizard.i18n import _
from wizard.models.move_types import BlobRule, MoveFile, MoveKind, MoveLink, Refusal

if TYPE_CHECKING:
    from wizard.host import Host

RECORDS = ".vllm-wizard-moves"  # the folder that holds unfinished copies and the records of finished ones

_HF_ENTRY = re.compile(r"^models--[^/]+$")
_SPLIT_GGUF = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_SHA1 = re.compile(r"^[0-9a-f]{40}$")
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".ckpt", ".onnx")
_MODEL_SIGNS = ("config.json", "params.json", "adapter_config.json", "model_index.json", "tekken.json")
SIGNLESS_LIMIT = 10_000  # entries after which a folder without a config or weights in it or in one of its folders is no model
ENTRY_LIMIT = 200_000  # entries of any folder: the largest models have some hundreds
_WEIGHTS_FROM_BYTES = 1024 * 1024
HEADER_LIMIT = 100_000_000  # the largest header that the safetensors format allows
_LFS_FROM_BYTES = 10 * 1024 * 1024  # the Hub takes no larger file into plain git

# The patterns of the .gitattributes that the Hub puts into a new model repository.
_HUB_LFS_PATTERNS = (
    "*.7z", "*.arrow", "*.bin", "*.bin.*", "*.bz2", "*.ckpt", "*.ftz", "*.gz", "*.h5", "*.joblib",
    "*.lfs.*", "*.mlmodel", "*.model", "*.msgpack", "*.npy", "*.npz", "*.onnx", "*.ot", "*.parquet", "*.pb",
    "*.pickle", "*.pkl", "*.pt", "*.pth", "*.rar", "*.safetensors", "*.tar.*", "*.tar", "*.tflite", "*.tgz",
    "*.wasm", "*.xz", "*.zip", "*.zst", "*tfevents*", "*.gguf", "tokenizer.json",
)


class Node(NamedTuple):
    """One entry of a folder, links not followed."""

    name: str
    path: str
    is_dir: bool
    is_file: bool
    is_link: bool


class NodeStat(NamedTuple):
    """What is asked of one file or folder. (Light on purpose: there may be thousands.)"""

    size_bytes: int
    mtime_ns: int
    mode: int
    is_dir: bool
    is_file: bool
    sparse: bool = False
    device: int = 0


class Tree(Protocol):
    """What the mover asks of a file system before it copies. Missing things raise OSError."""

    def entries(self, path: str) -> list[Node]: ...

    def stat(self, path: str) -> NodeStat: ...

    def readlink(self, path: str) -> str: ...

    def realpath(self, path: str) -> str: ...

    def head(self, path: str, limit: int) -> bytes: ...

    def readable(self, path: str) -> bool: ...

    def lexists(self, path: str) -> bool: ...


class RealTree:
    """This machine's own files."""

    def entries(self, path: str) -> list[Node]:
        nodes = []
        with os.scandir(path) as found:
            for entry in found:
                link = entry.is_symlink()
                nodes.append(
                    Node(
                        entry.name,
                        entry.path,
                        entry.is_dir(follow_symlinks=False),
                        entry.is_file(follow_symlinks=False),
                        link,
                    )
                )
        return sorted(nodes, key=lambda n: n.name)

    def stat(self, path: str) -> NodeStat:
        st = os.stat(path)
        blocks = getattr(st, "st_blocks", None)
        return NodeStat(
            st.st_size,
            st.st_mtime_ns,
            stat.S_IMODE(st.st_mode),
            stat.S_ISDIR(st.st_mode),
            stat.S_ISREG(st.st_mode),
            sparse=blocks is not None and st.st_size >= 65536 and blocks * 512 < st.st_size - 4096,
            device=st.st_dev,
        )

    def readlink(self, path: str) -> str:
        return os.readlink(path)

    def realpath(self, path: str) -> str:
        return os.path.realpath(path)

    def head(self, path: str, limit: int) -> bytes:
        with open(path, "rb") as handle:
            return handle.read(limit)

    def readable(self, path: str) -> bool:
        return os.access(path, os.R_OK)

    def lexists(self, path: str) -> bool:
        return os.path.lexists(path)


class HostTree:
    """The files of a machine that is asked through :class:`wizard.host.Host`, a recorded one for instance."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def entries(self, path: str) -> list[Node]:
        listed = self._host.list_dir(path)
        nodes = [Node(e.name, e.path, e.is_dir and not e.is_symlink, e.is_file and not e.is_symlink, e.is_symlink) for e in listed]
        return sorted(nodes, key=lambda n: n.name)

    def stat(self, path: str) -> NodeStat:
        st = self._host.stat(path)
        return NodeStat(st.size_bytes, int(st.mtime * 1e9), st.mode & 0o7777, st.is_dir, st.is_file, device=st.device)

    def readlink(self, path: str) -> str:
        return self._host.readlink(path)

    def realpath(self, path: str) -> str:
        return self._host.realpath(path)

    def head(self, path: str, limit: int) -> bytes:
        return self._host.read_bytes(path, limit)

    def readable(self, path: str) -> bool:
        return True

    def lexists(self, path: str) -> bool:
        try:
            self._host.stat(path, follow_symlinks=False)
        except OSError:
            return False
        return True


@dataclass
class Scan:
    """What was found at the source."""

    kind: MoveKind
    name: str
    root: str  # absolute, links followed
    is_file: bool = False
    files: list[MoveFile] = field(default_factory=list)
    links: list[MoveLink] = field(default_factory=list)
    dirs: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    on_look: Callable[[int], None] | None = None  # told the number of entries seen so far
    seen: int = 0


def scan_source(tree: Tree, path: str, on_look: Callable[[int], None] | None = None) -> Scan:
    """Everything below ``path`` (absolute). Raises BadInput when it is not something to move, OSError when gone.
    ``on_look`` is told how many entries were seen, each time there are some hundreds more."""
    real = tree.realpath(path)
    found = tree.stat(real)
    if found.is_file:
        scan = _scan_gguf(tree, real)
    elif not found.is_dir:
        raise BadInput(_("{path} is neither a folder nor a file").format(path=path))
    else:
        scan = _scan_folder(tree, entry_root(tree, real), on_look)
    if not scan.files and not scan.refusals:
        scan.refusals.append(Refusal("empty", _("{path} holds no files").format(path=scan.root)))
    return scan


def entry_root(tree: Tree, real: str) -> str:
    """The cache entry that a snapshot (or anything else inside an entry) belongs to; else the path itself."""
    probe = real
    while True:
        if _HF_ENTRY.match(posixpath.basename(probe)) and _is_dir(tree, posixpath.join(probe, "snapshots")):
            return probe
        parent = posixpath.dirname(probe)
        if parent == probe:
            return real
        probe = parent


def _is_dir(tree: Tree, path: str) -> bool:
    try:
        return tree.stat(path).is_dir
    except OSError:
        return False


def _scan_gguf(tree: Tree, real: str) -> Scan:
    folder, base = posixpath.split(real)
    if not base.lower().endswith(".gguf"):
        raise BadInput(
            _("{path} is a single file: only a GGUF file is moved alone; give the model's folder").format(path=real)
        )
    split = _SPLIT_GGUF.match(base)
    if split is None:
        scan = Scan(MoveKind.GGUF, base[: -len(".gguf")], real, is_file=True)
        _add_file(tree, scan, base, real)
    else:
        scan = Scan(MoveKind.GGUF, split["stem"], folder)
        wanted = re.compile(
            re.escape(split["stem"]) + r"-\d{5}-of-" + split["count"] + r"\.gguf$", re.IGNORECASE
        )
        parts = [n for n in tree.entries(folder) if wanted.match(n.name)]
        for part in parts:
            _add_file(tree, scan, part.name, part.path)
        if len(parts) != int(split["count"]):
            scan.warnings.append(
                _("{found} of {count} parts of {name} are there; the model is not complete").format(
                    found=len(parts), count=int(split["count"]), name=split["stem"]
                )
            )
    try:
        projectors = [n.name for n in tree.entries(folder) if re.match(r"(?i)mmproj.*\.gguf$", n.name)]
    except OSError:
        projectors = []
    if projectors and not base.lower().startswith("mmproj"):
        scan.warnings.append(
            _("a vision projector lies beside it and is not moved: {names}; move the folder to take it along").format(
                names=", ".join(projectors)
            )
        )
    return scan


def _scan_folder(tree: Tree, root: str, on_look: Callable[[int], None] | None) -> Scan:
    base = posixpath.basename(root)
    nodes = tree.entries(root)
    names = {n.name for n in nodes}
    if any(_HF_ENTRY.match(n) for n in names) and "config.json" not in names:
        count = sum(1 for n in names if _HF_ENTRY.match(n))
        raise BadInput(
            _("{path} is a whole cache with {count} models: name one of the folders in it").format(
                path=root, count=count
            )
        )
    if _HF_ENTRY.match(base) and "snapshots" in names:
        scan = Scan(MoveKind.HUGGINGFACE, base[len("models--") :].replace("--", "/", 1), root)
    elif names & {".msc", ".mv", ".mdl"}:
        org = posixpath.basename(posixpath.dirname(root))
        scan = Scan(MoveKind.MODELSCOPE, f"{org}/{base}".replace("___", "."), root)
    else:
        scan = Scan(MoveKind.FOLDER, base or root, root)
    scan.on_look = on_look
    _walk(tree, scan, root, "", nodes, frozenset({root}))
    if scan.kind is MoveKind.HUGGINGFACE:
        _mark_blobs(tree, scan)
    else:
        _expect_hashes(tree, scan)
        if not looks_like_model(scan.files):
            scan.warnings.append(_("{path} does not look like a model (no config, no weights)").format(path=root))
    _check_weights(tree, scan)
    return scan


def looks_like_model(files: Iterable[MoveFile]) -> bool:
    """Whether a config or weights lie in the folder or in one of its folders. Deeper down any tree of programs has such
    names, and a small .bin may be anything."""
    for file in files:
        name, ending = posixpath.basename(file.rel), posixpath.splitext(file.rel)[1].lower()
        sure = name in _MODEL_SIGNS or ending in (".safetensors", ".gguf")
        if file.rel.count("/") <= 1 and (sure or (ending in _WEIGHTS and file.size_bytes >= _WEIGHTS_FROM_BYTES)):
            return True
    return False


def _walk(tree: Tree, scan: Scan, folder: str, rel: str, nodes: list[Node], above: frozenset[str]) -> None:
    """Add what is in ``folder``; ``above`` are the real folders on the way down (links could make a ring)."""
    for node in nodes:
        if node.name == RECORDS:
            continue
        _count(scan)
        inner = f"{rel}/{node.name}" if rel else node.name
        try:
            if node.is_link:
                _add_link(tree, scan, node, inner, above)
            elif node.is_dir:
                _add_dir(tree, scan, node.path, inner, above | {node.path})
            elif node.is_file:
                _add_file(tree, scan, inner, node.path)
            else:
                scan.warnings.append(
                    _("{path} is not a regular file (a pipe, socket or device) and is left where it is").format(
                        path=show(node.path)
                    )
                )
        except OSError as error:
            _unreadable(scan, node.path, error)


def _count(scan: Scan) -> None:
    """One more entry. Raises BadInput where there are more than a model has, before memory and hours go into them."""
    scan.seen += 1
    if scan.on_look is not None and scan.seen % 200 == 0:
        scan.on_look(scan.seen)
    if scan.seen == SIGNLESS_LIMIT and scan.kind is MoveKind.FOLDER and not looks_like_model(scan.files):
        raise BadInput(
            _("{path} does not look like a model: no config and no weights among its first {n} entries. Name the model's own folder.").format(
                path=scan.root, n=scan.seen
            )
        )
    if scan.seen > ENTRY_LIMIT:
        raise BadInput(
            _("{path} holds more than {n} files and folders, which no model does. Name the model's own folder.").format(
                path=scan.root, n=ENTRY_LIMIT
            )
        )


def _add_dir(tree: Tree, scan: Scan, path: str, rel: str, above: frozenset[str]) -> None:
    nodes = tree.entries(path)
    scan.dirs.append(rel)
    _walk(tree, scan, path, rel, nodes, above)


def _add_file(tree: Tree, scan: Scan, rel: str, path: str) -> None:
    st = tree.stat(path)
    # On a Windows drive each question is a trip: ask only where the permission bits leave it open.
    if st.mode & 0o444 != 0o444 and not tree.readable(path):
        _unreadable(scan, path, PermissionError(13, "Permission denied"))
        return
    scan.files.append(MoveFile(rel, path, st.size_bytes, st.mtime_ns, st.mode, sparse=st.sparse))


def _unreadable(scan: Scan, path: str, error: OSError) -> None:
    scan.refusals.append(
        Refusal(
            "unreadable",
            _("{path} cannot be read: {why}").format(path=show(path), why=error.strerror or str(error)),
        )
    )


def _add_link(tree: Tree, scan: Scan, node: Node, rel: str, above: frozenset[str]) -> None:
    """A link into the tree stays a link; what lies outside is taken along as if it were there."""
    text = tree.readlink(node.path)
    # Links that Windows made (with "\" between folders); one that begins at a drive's root means nothing here.
    windows = "\\" in text and not text.startswith("\\") and not tree.lexists(_beside(node.path, text))
    target = text.replace("\\", "/") if windows else text
    real = tree.realpath(_beside(node.path, target))
    root = scan.root
    inside = real == root or real.startswith(root.rstrip("/") + "/")
    try:
        st = tree.stat(real)
    except OSError:
        st = None
    if st is None:
        scan.links.append(MoveLink(rel, node.path, target))
        scan.warnings.append(
            _("{path} points to something that is not there ({target})").format(
                path=show(node.path), target=show(target)
            )
        )
    elif inside:
        here = posixpath.join(root, posixpath.dirname(rel))
        straight = posixpath.normpath(posixpath.join(here, target))
        keeps = not target.startswith("/") and (straight == root or straight.startswith(root.rstrip("/") + "/"))
        scan.links.append(MoveLink(rel, node.path, target if keeps else posixpath.relpath(real, here)))
    elif st.is_file:
        _add_file(tree, scan, rel, node.path)
        blob = posixpath.basename(real)
        if scan.files and scan.files[-1].rel == rel:
            scan.files[-1] = _expecting(scan.files[-1], blob)
    elif st.is_dir and real not in above:
        _add_dir(tree, scan, node.path, rel, above | {real})
    else:
        scan.warnings.append(
            _("{path} is a link that leads round in a ring; it is left out").format(path=show(node.path))
        )


def _beside(link: str, target: str) -> str:
    return target if target.startswith("/") else posixpath.join(posixpath.dirname(link), target)


def _expecting(file: MoveFile, blob: str) -> MoveFile:
    """The same file with the hash that its blob's name promises."""
    if _SHA256.match(blob):
        return _replace(file, expect_sha256=blob)
    if _SHA1.match(blob):
        return _replace(file, expect_git=blob)
    return file


def _replace(
    file: MoveFile, *, expect_sha256: str = "", expect_git: str = "", blob_rule: BlobRule | None = None
) -> MoveFile:
    return MoveFile(
        file.rel,
        file.source,
        file.size_bytes,
        file.mtime_ns,
        file.mode,
        expect_sha256 or file.expect_sha256,
        expect_git or file.expect_git,
        file.blob_rule if blob_rule is None else blob_rule,
        file.sparse,
    )


def _mark_blobs(tree: Tree, scan: Scan) -> None:
    """Blobs promise their hash by name; a file that lies in a snapshot itself becomes a blob with a link."""
    attributes: dict[str, list[tuple[str, bool]]] = {}
    loose = 0
    for i, file in enumerate(scan.files):
        parts = file.rel.split("/")
        if parts[0] == "blobs" and len(parts) == 2:
            scan.files[i] = _expecting(file, parts[1])
        elif parts[0] == "snapshots" and len(parts) >= 3:
            revision = "/".join(parts[:2])
            if revision not in attributes:
                attributes[revision] = _lfs_rules(tree, scan, revision)
            within = "/".join(parts[2:])
            lfs = bool(file.expect_sha256) or (
                not file.expect_git and is_lfs(within, file.size_bytes, attributes[revision])
            )
            scan.files[i] = _replace(file, blob_rule=BlobRule.SHA256 if lfs else BlobRule.GIT)
            loose += 1
    if loose:
        scan.warnings.append(
            _("this cache has {count} files without links, as Windows makes them: they become blobs with links").format(
                count=loose
            )
        )
    if any(f.rel.endswith(".incomplete") for f in scan.files):
        scan.warnings.append(_("a download into this cache entry is not finished"))
    if not any(f.rel.startswith("refs/") for f in scan.files):
        scan.warnings.append(_("no branch points to a snapshot: loading it by its name will ask the Hub first"))


def _lfs_rules(tree: Tree, scan: Scan, revision: str) -> list[tuple[str, bool]]:
    """The patterns of the revision's own .gitattributes, each with whether it means LFS; or the Hub's usual ones."""
    try:
        text = tree.head(posixpath.join(scan.root, revision, ".gitattributes"), 65536).decode("utf-8", "replace")
    except OSError:
        return [(p, True) for p in _HUB_LFS_PATTERNS]
    rules = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and not line.lstrip().startswith("#"):
            if "filter=lfs" in words[1:]:
                rules.append((words[0], True))
            elif "-filter" in words[1:] or "!filter" in words[1:]:
                rules.append((words[0], False))
    return rules


def is_lfs(path: str, size_bytes: int, rules: list[tuple[str, bool]]) -> bool:
    """Whether the Hub keeps this file in LFS: by size, else the last matching pattern decides, as in git."""
    if size_bytes > _LFS_FROM_BYTES:
        return True
    lfs = False
    for pattern, means_lfs in rules:
        subject = path if "/" in pattern else posixpath.basename(path)
        if fnmatch.fnmatchcase(subject, pattern.lstrip("/").replace("**/", "*")):
            lfs = means_lfs
    return lfs


def _expect_hashes(tree: Tree, scan: Scan) -> None:
    """Hashes that plain folders carry: git-lfs objects, and the records that ``hf download`` leaves."""
    by_rel = {f.rel: i for i, f in enumerate(scan.files)}
    for i, file in enumerate(list(scan.files)):
        parts = file.rel.split("/")
        if parts[0] == "blobs" or ("lfs" in parts and "objects" in parts):
            if _SHA256.match(parts[-1]):
                scan.files[i] = _replace(file, expect_sha256=parts[-1])
        elif file.rel.startswith(".cache/huggingface/download/") and file.rel.endswith(".metadata"):
            subject = file.rel[len(".cache/huggingface/download/") : -len(".metadata")]
            index = by_rel.get(subject)
            if index is None:
                continue
            try:
                lines = tree.head(file.source, 4096).decode("ascii", "replace").split("\n")
                etag, when = lines[1].strip(), float(lines[2])
            except (OSError, IndexError, ValueError):
                continue
            # An edit after the download makes the record worthless, as huggingface_hub itself holds.
            if _SHA256.match(etag) and scan.files[index].mtime_ns / 1e9 - 1 <= when:
                scan.files[index] = _replace(scan.files[index], expect_sha256=etag)


def _check_weights(tree: Tree, scan: Scan) -> None:
    """Faults that are better known before hours of copying: pointer files, cut-off shards."""
    named_by_link = {posixpath.basename(x.target): x.rel for x in scan.links if x.rel.startswith("snapshots/")}
    for file in scan.files:
        name = named_by_link.get(posixpath.basename(file.rel), file.rel)
        ending = posixpath.splitext(name)[1].lower()
        if ending not in _WEIGHTS:
            continue
        try:
            head = tree.head(file.source, 128)
            if head.startswith(b"version https://git-lfs"):
                scan.warnings.append(
                    _("{path} is a git-lfs pointer, not the weights: run git lfs pull first").format(path=show(name))
                )
            elif ending == ".safetensors" and len(head) >= min(file.size_bytes, 8):
                fault = _header_fault(tree, file, head)
                if fault:
                    scan.warnings.append(
                        _("{path} is not a sound safetensors file: {fault}").format(path=show(name), fault=fault)
                    )
        except OSError:
            continue


def _header_fault(tree: Tree, file: MoveFile, head: bytes) -> str:
    length = int.from_bytes(head[:8], "little")
    whole = tree.head(file.source, 8 + length) if length <= min(file.size_bytes, HEADER_LIMIT) else head
    return safetensors_fault(head[:8], whole[8:], file.size_bytes)


def safetensors_fault(head: bytes, header: bytes, size_bytes: int) -> str:
    """What is wrong with a safetensors file, "" if nothing. ``head``: first 8 bytes; ``header``: the JSON after."""
    if len(head) < 8:
        return _("shorter than a safetensors header")
    length = int.from_bytes(head, "little")
    if length > size_bytes - 8:
        return _("its header is said to be {length} bytes long, the file has {size}").format(
            length=length, size=size_bytes
        )
    if length > HEADER_LIMIT:
        return _("its header is larger than the format allows")
    try:
        data = json.loads(header[:length].decode("utf-8"))
        ends = [int(v["data_offsets"][1]) for k, v in data.items() if k != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return _("its header is not what safetensors writes")
    wanted = 8 + length + max(ends, default=0)
    if wanted > size_bytes:
        return _("cut off: the header wants {wanted} bytes, the file has {size}").format(
            wanted=wanted, size=size_bytes
        )
    if wanted < size_bytes:
        return _("longer than its header says: {wanted} bytes wanted, {size} there").format(
            wanted=wanted, size=size_bytes
        )
    return ""


def show(path: str) -> str:
    """A path as it can be printed: odd bytes and control characters are escaped."""
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in path)


def split_gguf_stem(name: str) -> str | None:
    """``model`` for ``model-00001-of-00003.gguf``; None for any other name."""
    match = _SPLIT_GGUF.match(name)
    return match["stem"] if match else None
