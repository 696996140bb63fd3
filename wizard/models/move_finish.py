"""After the copying: links and headers, the switch to the final name, and the deletion of the source.

Everything here can be interrupted at any point and done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Mapping
from typing import Any

from wizard.errors import WizardError
from wizard.i18n import _
from wizard.models import move_io as io
from wizard.models.move_record import DATA, Manifest, Proven, save_manifest, sync_folder
from wizard.models.move_scan import HEADER_LIMIT, safetensors_fault, show
from wizard.models.move_types import BlobRule, DeleteResult, MoveFile, MoveKind, MovePlan

_MTIME_SLACK_NS = 2_000_000_000  # the coarsest file system keeps even seconds


def blob_rel(file: MoveFile, proven: Proven) -> str:
    """Where a file that lies in a snapshot itself goes among the blobs."""
    name = proven.prefix_sha256 if file.blob_rule is BlobRule.SHA256 else proven.git_sha1
    return f"blobs/{name}"


def staged_path(root: str, file: MoveFile, proven: Proven | None) -> str | None:
    """Where the finished copy of a file lies below ``root``; None when it is not there as it should be."""
    candidates = [os.path.join(root, file.rel)]
    if proven is not None and file.blob_rule is not BlobRule.NONE:
        candidates.append(os.path.join(root, blob_rel(file, proven)))
    for path in candidates:
        try:
            st = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(st.st_mode) and st.st_size == file.size_bytes:
            return path
    return None


def is_intact(path: str, file: MoveFile) -> bool:
    """Whether a finished copy still looks as it was left: the time of the source, put on it, has not moved."""
    try:
        st = os.lstat(path)
    except OSError:
        return False
    return st.st_size == file.size_bytes and abs(st.st_mtime_ns - file.mtime_ns) < _MTIME_SLACK_NS


def hash_file(path: str, expected_size: int, check: Callable[[], None] = lambda: None) -> str:
    """SHA-256 of a file, read from the disk where the system lets us; "" when its size is another."""
    buffer = io.Buffer(4 * 1024 * 1024)
    hasher = hashlib.sha256()
    done = 0
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if os.fstat(fd).st_size != expected_size:
            return ""
        os.fsync(fd)
        io.drop_cached(fd, 0, 0)
        while done < expected_size:
            check()
            count = io.read_at(fd, buffer.view, done)
            if count == 0:
                return ""
            hasher.update(buffer.view[:count])
            done += count
        io.drop_cached(fd, 0, 0)
    finally:
        os.close(fd)
    return hasher.hexdigest()


def prune(data: str, plan: MovePlan, done: Mapping[str, Proven]) -> None:
    """Take out of an unfinished copy what the source no longer has, so that it does not come along."""
    if not done and not any(os.scandir(data)):
        return
    wanted = {x.rel for x in plan.links} | set(plan.dirs)
    for file in plan.files:
        wanted.add(file.rel)
        if file.blob_rule is not BlobRule.NONE and file.rel in done:
            wanted.add(blob_rel(file, done[file.rel]))
    wanted |= {rel[: i] for rel in list(wanted) for i, char in enumerate(rel) if char == "/"}
    for folder, dirs, names in os.walk(data, topdown=False):
        for name in names + dirs:
            path = os.path.join(folder, name)
            if os.path.relpath(path, data) in wanted:
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)


# --- links and headers, still under the working name


def make_links(manifest: Manifest, root: str, done: Mapping[str, Proven]) -> None:
    """Turn loose snapshot files into blobs with links, and make the links of the source anew."""
    for rel in manifest.dirs:
        os.makedirs(os.path.join(root, rel), exist_ok=True)
    for file in manifest.files:
        if file.blob_rule is not BlobRule.NONE:
            _file_to_blob(root, file, done[file.rel])
    for link in manifest.links:
        _symlink(link.target, os.path.join(root, link.rel))


def _file_to_blob(root: str, file: MoveFile, proven: Proven) -> None:
    target = blob_rel(file, proven)
    here, blob = os.path.join(root, file.rel), os.path.join(root, target)
    if os.path.isfile(here) and not os.path.islink(here):
        os.makedirs(os.path.dirname(blob), exist_ok=True)
        # Two revisions with the same content: the second copy replaces the first, which is its equal.
        os.replace(here, blob)
    _symlink(posixpath.relpath(target, posixpath.dirname(file.rel)), here)


def _symlink(target: str, path: str) -> None:
    try:
        if os.readlink(path) == target:
            return
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError:
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def check_headers(manifest: Manifest, root: str, done: Mapping[str, Proven]) -> list[str]:
    """What is wrong with the safetensors files of the copy: one text each. The bytes are the source's own."""
    faults = []
    for file in manifest.files:
        if not file.rel.endswith(".safetensors") and not _linked_as_safetensors(manifest, file):
            continue
        path = staged_path(root, file, done.get(file.rel))
        if path is None:
            continue
        with open(path, "rb") as handle:
            head = handle.read(8)
            length = int.from_bytes(head, "little")
            # A length that cannot be true is named as such, without reading what is no header.
            header = handle.read(length) if length <= min(HEADER_LIMIT, file.size_bytes) else b""
        fault = safetensors_fault(head, header, file.size_bytes)
        if fault:
            faults.append(_("{path}: {fault}").format(path=show(file.rel), fault=fault))
    return faults


def _linked_as_safetensors(manifest: Manifest, file: MoveFile) -> bool:
    if manifest.kind is not MoveKind.HUGGINGFACE or not file.rel.startswith("blobs/"):
        return False
    ending = "/" + file.rel
    return any(x.rel.endswith(".safetensors") and x.target.endswith(ending) for x in manifest.links)


# --- the switch


def switch(manifest: Manifest, work_dir: str, done: Mapping[str, Proven], check: Callable[[], None]) -> None:
    """Give the finished copy its final name, and write down what proves it."""
    data = os.path.join(work_dir, DATA)
    staged = os.path.join(data, manifest.files[0].rel) if manifest.src_is_file else data
    if os.path.lexists(staged) and os.path.lexists(manifest.dst):
        _refuse_conflicts(manifest, data, done, check)
    if manifest.state != "switching":
        manifest.state = "switching"
        save_manifest(work_dir, manifest)
    if os.path.lexists(staged):
        os.makedirs(os.path.dirname(manifest.dst), exist_ok=True)
        if os.path.lexists(manifest.dst):
            _merge(manifest, data, done)
        else:
            os.rename(staged, manifest.dst)
    sync_folder(os.path.dirname(manifest.dst))
    for link in manifest.alias_links:
        if not os.path.lexists(link.rel):
            with contextlib.suppress(OSError):
                os.symlink(link.target, link.rel)
    manifest.proofs = _proofs(manifest, done)
    manifest.state = "proven"
    save_manifest(work_dir, manifest)
    shutil.rmtree(data, ignore_errors=True)


def _final(manifest: Manifest, rel: str) -> str:
    return manifest.dst if manifest.src_is_file else os.path.join(manifest.dst, rel)


def _placed(manifest: Manifest, done: Mapping[str, Proven]) -> list[tuple[str, str, int]]:
    """Every plain file of the copy once: path below the root, SHA-256, size."""
    found: dict[str, tuple[str, str, int]] = {}
    for file in manifest.files:
        proven = done[file.rel]
        rel = file.rel if file.blob_rule is BlobRule.NONE else blob_rel(file, proven)
        found[rel] = (rel, proven.prefix_sha256, file.size_bytes)
    return list(found.values())


def _all_links(manifest: Manifest, done: Mapping[str, Proven]) -> list[tuple[str, str]]:
    links = [(x.rel, x.target) for x in manifest.links]
    for file in manifest.files:
        if file.blob_rule is not BlobRule.NONE:
            target = posixpath.relpath(blob_rel(file, done[file.rel]), posixpath.dirname(file.rel))
            links.append((file.rel, target))
    return links


def _may_differ(manifest: Manifest, rel: str) -> bool:
    """What a cache entry may hold in another version: which revision a branch points to, and notes of absences."""
    return manifest.kind is MoveKind.HUGGINGFACE and rel.split("/")[0] in ("refs", ".no_exist")


def _leads_nowhere(manifest: Manifest, rel: str) -> bool:
    """Whether a branch at the destination names a revision that is not there: ours is better then."""
    if manifest.kind is not MoveKind.HUGGINGFACE or rel.split("/")[0] != "refs":
        return False
    try:
        with open(_final(manifest, rel), "rb") as handle:
            revision = handle.read(200).decode("ascii", "replace").strip()
    except OSError:
        return False
    if not revision or "/" in revision or revision in (".", ".."):
        return True
    mine = f"snapshots/{revision}" in manifest.dirs
    return not mine and not os.path.isdir(os.path.join(manifest.dst, "snapshots", revision))


def _refuse_conflicts(
    manifest: Manifest, data: str, done: Mapping[str, Proven], check: Callable[[], None]
) -> None:
    """Stop before anything is placed when the destination holds a different file of the same name."""
    clashes = []
    for rel, sha256, size in _placed(manifest, done):
        final = _final(manifest, rel)
        if not os.path.lexists(final):
            continue
        if not os.path.lexists(os.path.join(data, rel)) and manifest.state == "switching":
            continue
        same = os.path.isfile(final) and hash_file(final, size, check) == sha256
        if not same:
            if _leads_nowhere(manifest, rel):
                continue
            if _may_differ(manifest, rel):
                text = _("{path} at the destination differs and was kept as it is").format(path=show(final))
                if text not in manifest.warnings:
                    manifest.warnings.append(text)
            else:
                clashes.append(final)
    for rel, target in _all_links(manifest, done):
        final = _final(manifest, rel)
        if os.path.lexists(final) and not _link_fits(manifest, final, rel, target):
            clashes.append(final)
    if clashes:
        raise WizardError(
            _(
                "the copy is complete in {work}, but the destination holds something else under the same name: {path}. "
                "Move that away and run the same command again"
            ).format(work=show(data), path=", ".join(show(c) for c in clashes[:3]))
        )


def _link_fits(manifest: Manifest, final: str, rel: str, target: str) -> bool:
    if os.path.islink(final):
        return os.readlink(final) == target
    # A plain file where we would make a link: fine when it holds the same bytes.
    blob = posixpath.normpath(posixpath.join(posixpath.dirname(rel), target))
    return os.path.isfile(final) and _same_content(final, _final(manifest, blob))


def _same_content(a: str, b: str) -> bool:
    try:
        size = os.stat(a).st_size
        return os.stat(b).st_size == size and hash_file(a, size) == hash_file(b, size)
    except OSError:
        return False


def _merge(manifest: Manifest, data: str, done: Mapping[str, Proven]) -> None:
    """Put the copy's files beside what is there already. Conflicts were looked for before."""
    if not manifest.src_is_file:
        for rel in manifest.dirs:
            os.makedirs(os.path.join(manifest.dst, rel), exist_ok=True)
    for rel, _sha256, _size in _placed(manifest, done):
        staged, final = os.path.join(data, rel), _final(manifest, rel)
        if not os.path.lexists(staged) or (os.path.lexists(final) and not _leads_nowhere(manifest, rel)):
            continue
        os.makedirs(os.path.dirname(final), exist_ok=True)
        os.rename(staged, final)
    for rel, target in _all_links(manifest, done):
        final = _final(manifest, rel)
        if not os.path.lexists(final):
            _symlink(target, final)
    io.sync_filesystem(os.path.dirname(manifest.dst))


def _proofs(manifest: Manifest, done: Mapping[str, Proven]) -> dict[str, list[Any]]:
    """What each file of the destination looks like now that it is proven."""
    proofs: dict[str, list[Any]] = {}
    for rel, sha256, size in _placed(manifest, done):
        final = _final(manifest, rel)
        try:
            st = os.lstat(final)
        except OSError as error:
            raise WizardError(
                _("{path} is missing at the destination; run the same command again").format(path=show(final))
            ) from error
        if st.st_size != size and not _may_differ(manifest, rel):
            raise WizardError(_("{path} does not have the size that it should have").format(path=show(final)))
        proofs[rel] = [st.st_size, st.st_mtime_ns, st.st_ctime_ns, sha256]
    for rel, _target in _all_links(manifest, done):
        if not os.path.lexists(_final(manifest, rel)):
            raise WizardError(
                _("{path} is missing at the destination; run the same command again").format(path=show(rel))
            )
    return proofs


# --- is it still proven, and may the source go


def unproven(manifest: Manifest, check: Callable[[], None] = lambda: None) -> list[str]:
    """Files of the destination that are not what was proven. One that was touched since is hashed again."""
    wrong = []
    for rel, (size, mtime_ns, ctime_ns, sha256) in manifest.proofs.items():
        final = _final(manifest, rel)
        try:
            st = os.lstat(final)
            fits = (st.st_size, st.st_mtime_ns, st.st_ctime_ns) == (size, mtime_ns, ctime_ns)
            if not fits and not _may_differ(manifest, rel):
                fits = hash_file(final, size, check) == sha256
        except OSError:
            fits = False
        if not fits and not _may_differ(manifest, rel):
            wrong.append(final)
    for link in manifest.links:
        if not os.path.lexists(_final(manifest, link.rel)):
            wrong.append(_final(manifest, link.rel))
    for file in manifest.files:
        if file.blob_rule is not BlobRule.NONE and not os.path.exists(_final(manifest, file.rel)):
            wrong.append(_final(manifest, file.rel))
    return wrong


def delete_files(manifest: Manifest) -> DeleteResult:
    """Delete exactly what was copied, as long as it is unchanged. Nothing else in the source is touched."""
    kept: list[str] = []
    count = freed = 0
    root = os.path.realpath(os.path.dirname(manifest.src) if manifest.src_is_file else manifest.src)
    own_folders: dict[str, bool] = {}

    def is_own(path: str) -> bool:
        """Whether a path lies in the source itself, not behind a link that leads out of it."""
        folder = os.path.dirname(path)
        if folder not in own_folders:
            real = os.path.realpath(folder)
            own_folders[folder] = real == root or real.startswith(root.rstrip("/") + "/")
        return own_folders[folder]

    for link in manifest.links:
        if os.path.islink(link.source) and is_own(link.source):
            kept += _try(os.unlink, link.source)
    for link in manifest.alias_links:
        if os.path.islink(link.source):
            kept += _try(os.unlink, link.source)
    for file in manifest.files:
        if not is_own(file.source):
            continue
        try:
            own = os.lstat(file.source)
        except FileNotFoundError:
            continue
        except OSError as error:
            kept.append(_kept(file.source, error.strerror or str(error)))
            continue
        through_link = os.path.islink(file.source)
        if not through_link and (own.st_size != file.size_bytes or own.st_mtime_ns != file.mtime_ns):
            kept.append(_kept(file.source, _("it changed after it was copied")))
            continue
        failed = _try(os.unlink, file.source)
        kept += failed
        if not failed:
            count += 1
            freed += 0 if through_link else file.size_bytes
    if manifest.kind is not MoveKind.GGUF:
        for folder in [os.path.join(manifest.src, d) for d in reversed(manifest.dirs)]:
            if is_own(folder):
                kept += _remove_folder(folder)
        kept += _remove_folder(manifest.src)
    return DeleteResult(count, freed, tuple(kept))


def _remove_folder(folder: str) -> list[str]:
    if os.path.islink(folder):
        return _try(os.unlink, folder)
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        try:
            rest = sorted(os.listdir(folder))
        except OSError:
            rest = []
        if rest:
            return [_kept(folder, _("it holds what was not copied: {names}").format(names=", ".join(map(show, rest[:5]))))]
        return [_kept(folder, error.strerror or str(error))]
    return []


def _try(action: Callable[[str], None], path: str) -> list[str]:
    try:
        action(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [_kept(path, error.strerror or str(error))]
    return []


def _kept(path: str, why: str) -> str:
    return _("{path}: {why}").format(path=show(path), why=why)
