"""Plan a move: what goes where, whether it fits, how long it takes, and what speaks against it. Writes nothing."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from wizard.counts import size_text
from wizard.errors import BadInput, WizardError
from wizard.facts import Machine, Mount, MountKind
from wizard.i18n import _, ngettext
from wizard.models import move_record as record
from wizard.models.move_place import place_in, typical_rate
from wizard.models.move_scan import RECORDS, HostTree, RealTree, Scan, Tree, entry_root, scan_source, show
from wizard.models.move_types import (
    MoveFile,
    MoveKind,
    MoveLink,
    MovePlan,
    MoveState,
    Refusal,
    Space,
)
from wizard.probes.disks import PSEUDO
from wizard.program import spelt

if TYPE_CHECKING:
    from wizard.host import Host

MIB = 1024 * 1024
GIB = 1024 * MIB
THIS_MACHINE = "this machine"

# Bytes a second when nothing could be measured, and the time that one small file costs on top. The figure for
# a Windows drive is the one that the project's benchmark throttles to; a network drive is a gigabit line.
_WINDOWS_RESERVE = 2 * GIB


def plan_move(
    machine: Machine,
    src: str,
    dst: str | None = None,
    *,
    host: Host | None = None,
    env: Mapping[str, str] | None = None,
    vhdx_drive: str | None = None,
    sample: bool = True,
    exact: bool = False,
    on_look: Callable[[int], None] | None = None,
) -> MovePlan:
    """How ``src`` would be moved.

    ``machine``: the facts; only its home, mounts and WSL facts are used. ``dst``: the place it shall have (a
    name ending in ``/``, or an existing folder that is no model, takes it inside); None: ``~/models/<name>``, or
    the same kind of cache in the Linux home for a cache entry. ``host`` is needed for a recorded machine, whose
    files are read through it. ``env``: the environment, for the caches' places. ``vhdx_drive``: the letter of
    the Windows drive that holds the distro's virtual disk, when it is not C. ``sample``: measure the read rate
    (at most half a second). ``exact``: ``dst`` is the model's own new place, whatever is there.
    ``on_look`` is told how many entries of the source were seen, while it is looked through.

    Raises BadInput when there is nothing to plan; everything else that is in the way is in ``refusals``.
    """
    simulated = machine.name not in (THIS_MACHINE, "")
    if simulated and host is None:
        raise BadInput(_("a move on a recorded machine needs its files: no host was given"))
    tree: Tree = HostTree(host) if simulated and host is not None else RealTree()
    environment = env if env is not None else (host.env if host is not None else os.environ)
    asked = _absolute(machine, src)
    scan: Scan | None
    try:
        _refuse_no_place_of_a_model(machine, tree, entry_root(tree, tree.realpath(asked)))
        scan = scan_source(tree, asked, on_look)
    except OSError as error:
        gone = None if simulated else _plan_without_source(machine, asked, dst, environment, error)
        if gone is not None:
            return gone
        raise BadInput(_source_gone(machine, src, asked, error)) from error
    target, notes = _destination(machine, tree, scan, dst, environment, exact)
    plan = MovePlan(
        machine=machine.name,
        kind=scan.kind,
        name=scan.name,
        src=scan.root,
        dst=target,
        work_dir="",
        files=tuple(scan.files),
        links=tuple(scan.links),
        dirs=tuple(scan.dirs),
        src_is_file=scan.is_file,
        asked_src=asked,
        src_mount=_mount_kind(machine, scan.root),
        dst_mount=_mount_kind(machine, target),
        src_windows_path=_windows_path(machine, scan.root),
        bytes_total=sum(f.size_bytes for f in scan.files),
        files_total=len(scan.files),
        refusals=tuple(scan.refusals),
        warnings=(*scan.warnings, *notes),
        simulated=simulated,
    )
    plan = replace(plan, aliases=_aliases(plan, machine), alias_links=_alias_links(plan, tree))
    if simulated:
        plan = replace(plan, work_dir=posixpath.join(posixpath.dirname(target), RECORDS))
    else:
        plan = _with_record(replace(plan, work_dir=record.work_dir_for(target, scan.kind)))
    plan = _with_refusals(plan, machine, tree)
    plan = replace(plan, space=_space(plan, machine, host if simulated else None, vhdx_drive))
    plan = replace(plan, refusals=(*plan.refusals, *_space_refusals(plan)))
    return _with_estimate(plan, measure=sample and not simulated)


# --- where from, where to


def _absolute(machine: Machine, path: str) -> str:
    """An absolute Linux path: ``~`` and Windows spellings of mounted drives are understood."""
    if not path or "\0" in path:
        raise BadInput(_("the path is empty or holds a zero byte"))
    windows = re.match(r"^[A-Za-z]:[\\/]|^\\\\", path)
    if windows:
        return _from_windows(machine, path)
    if path == "~" or path.startswith("~/"):
        path = machine.home.rstrip("/") + path[1:]
    if not path.startswith("/"):
        if machine.name not in (THIS_MACHINE, ""):
            path = posixpath.join(machine.home, path)
        else:
            path = os.path.join(os.getcwd(), path)
    return posixpath.normpath(path)


def _from_windows(machine: Machine, path: str) -> str:
    from wizard.probes.disks import to_linux_path

    found = to_linux_path(path, machine.mounts)
    if found is not None:
        return posixpath.normpath(found)
    raise BadInput(
        _("{path} is a Windows path, and no mount of that drive was found here; give the path as Linux sees it").format(
            path=path
        )
    )


def _windows_path(machine: Machine, path: str) -> str:
    mount = machine.mount_of(path)
    if mount is None or not mount.windows_path:
        return ""
    rest = path[len(mount.path.rstrip("/")) :].strip("/").replace("/", "\\")
    return mount.windows_path.rstrip("\\") + "\\" + rest


def _mount_kind(machine: Machine, path: str) -> str:
    mount = machine.mount_of(path)
    return mount.kind.value if mount is not None else MountKind.OTHER.value


def _refuse_no_place_of_a_model(machine: Machine, tree: Tree, root: str) -> None:
    """Before a folder is looked through, which may take for ever."""
    mount = machine.mount_of(root)
    if mount is not None and mount.fstype in PSEUDO:
        raise BadInput(
            _("{path} shows what the system itself is doing ({fstype}): no model lies there").format(path=root, fstype=mount.fstype)
        )
    roots = {m.path.rstrip("/") or "/" for m in machine.mounts} | {"/", machine.home.rstrip("/")}
    # A single file that is mounted into a container is a mount point, too.
    if (root.rstrip("/") or "/") in roots and not tree.stat(root).is_file:
        raise BadInput(_("{path} is a whole drive or a home folder: name the model in it").format(path=root))


def hub_cache(machine: Machine, env: Mapping[str, str]) -> str:
    """The Hugging Face hub cache, found as huggingface_hub finds it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if env.get(name):
            return _absolute(machine, env[name])
    if env.get("HF_HOME"):
        return posixpath.join(_absolute(machine, env["HF_HOME"]), "hub")
    base = env.get("XDG_CACHE_HOME") or posixpath.join(machine.home, ".cache")
    return posixpath.join(_absolute(machine, base), "huggingface", "hub")


def _modelscope_cache(machine: Machine, env: Mapping[str, str]) -> str:
    base = env.get("MODELSCOPE_CACHE")
    if base:
        return _absolute(machine, base)
    return posixpath.join(machine.home, ".cache", "modelscope", "hub")


_SLOW = (MountKind.WINDOWS_DRIVE.value, MountKind.NETWORK.value)


def _destination(
    machine: Machine, tree: Tree, scan: Scan, dst: str | None, env: Mapping[str, str], exact: bool
) -> tuple[str, list[str]]:
    """The place that the model gets, links of the folders above followed; and notes about the choice."""
    notes: list[str] = []
    if dst is None:
        target = _default_destination(machine, scan, env, notes)
    else:
        target = _absolute(machine, dst)
        if not exact:
            slash = "/" if dst.endswith(("/", "\\")) else ""
            placed = place_in(scan.root if scan.is_file or scan.kind is not MoveKind.GGUF else scan.name, target + slash, machine.home)
            target = posixpath.join(target, _own_name(scan)) if placed == target and _is_container(tree, scan, target) else placed
    if scan.kind is MoveKind.HUGGINGFACE and not posixpath.basename(target).startswith("models--"):
        notes.append(
            _("Hugging Face's tools find the model there only under its own name, {name}").format(name=_own_name(scan))
        )
    parent = tree.realpath(posixpath.dirname(target))
    return posixpath.join(parent, posixpath.basename(target)), notes


def _own_name(scan: Scan) -> str:
    if scan.kind is MoveKind.GGUF:
        return posixpath.basename(scan.root) if scan.is_file else scan.name
    return posixpath.basename(scan.root)


def _default_destination(machine: Machine, scan: Scan, env: Mapping[str, str], notes: list[str]) -> str:
    own = _own_name(scan)
    if scan.kind is MoveKind.HUGGINGFACE:
        hub = hub_cache(machine, env)
        if _mount_kind(machine, hub) in _SLOW:
            usual = hub_cache(machine, {})
            notes.append(
                _("the Hugging Face cache is set to {slow}; the model goes to {usual}, so HF_HOME must be set to {home}").format(
                    slow=hub, usual=usual, home=posixpath.dirname(usual)
                )
            )
            hub = usual
        return posixpath.join(hub, own)
    if scan.kind is MoveKind.MODELSCOPE:
        hub = _modelscope_cache(machine, env)
        if _mount_kind(machine, hub) in _SLOW:
            hub = _modelscope_cache(machine, {})
        org_folder = posixpath.dirname(scan.root)
        middle = ["models"] if posixpath.basename(posixpath.dirname(org_folder)) == "models" else []
        return posixpath.join(hub, *middle, posixpath.basename(org_folder), own)
    return posixpath.join(machine.home, "models", own)


def _is_container(tree: Tree, scan: Scan, target: str) -> bool:
    """Whether the destination is meant as the folder to put the model into, as ``mv`` would take it."""
    try:
        if not tree.stat(target).is_dir:
            return False
        names = {n.name for n in tree.entries(target)}
    except OSError:
        return False
    if scan.is_file:
        return True
    if posixpath.basename(target) == _own_name(scan) or names & {"config.json", "snapshots", "blobs"}:
        return False
    if any(n.endswith((".safetensors", ".gguf")) for n in names):
        return False
    # A model without any of these was put there by an earlier run of the same command.
    return isinstance(tree, HostTree) or not record.is_destination_of(os.path.realpath(target), scan.root)


def _aliases(plan: MovePlan, machine: Machine) -> tuple[tuple[str, str], ...]:
    """Every way in which the old place may have been written, with the new one."""
    pairs: dict[str, str] = {}

    def add(old: str, new: str) -> None:
        if old and old != new:
            pairs.setdefault(old, new)

    def both(old: str, new: str) -> None:
        add(old, new)
        add(_windows_path(machine, old), new)

    if plan.kind is MoveKind.GGUF and not plan.src_is_file:
        for file in plan.files:
            both(file.source, posixpath.join(plan.dst, file.rel))
        asked = plan.asked_src
        add(asked, posixpath.join(plan.dst, posixpath.basename(asked)))
        return tuple(pairs.items())
    both(plan.src, plan.dst)
    if plan.asked_src != plan.src:
        inside = plan.asked_src.startswith(plan.src + "/")
        add(plan.asked_src, plan.dst + plan.asked_src[len(plan.src) :] if inside else plan.dst)
    if plan.kind is MoveKind.HUGGINGFACE:
        for rel in plan.dirs:
            if rel.startswith("snapshots/") and rel.count("/") == 1:
                both(posixpath.join(plan.src, rel), posixpath.join(plan.dst, rel))
    return tuple(pairs.items())


def _alias_links(plan: MovePlan, tree: Tree) -> tuple[MoveLink, ...]:
    """ModelScope keeps ``a.b`` as folder ``a___b`` with a link of the real name beside it: the link moves too."""
    base = posixpath.basename(plan.src)
    if plan.kind is not MoveKind.MODELSCOPE or "___" not in base or posixpath.basename(plan.dst) != base:
        return ()
    dotted = base.replace("___", ".")
    there = posixpath.join(posixpath.dirname(plan.src), dotted)
    if not tree.lexists(there):
        return ()
    return (MoveLink(posixpath.join(posixpath.dirname(plan.dst), dotted), there, base),)


# --- what an earlier run left


def _with_record(plan: MovePlan) -> MovePlan:
    """The plan with what the destination's record says: proven bytes, or a finished move."""
    manifest = record.load_manifest(plan.work_dir)
    if manifest is None:
        return plan
    if manifest.state in ("proven", "deleted") and not os.path.lexists(plan.dst):
        return plan  # moved once, and the copy has gone since: the old record says nothing about a new move
    if not _same_source(manifest, plan):
        if manifest.state in ("proven", "deleted"):
            return plan
        return replace(
            plan,
            refusals=(
                *plan.refusals,
                Refusal(
                    "other_move_unfinished",
                    spelt(
                        _(
                            "an unfinished move of {src} to {dst} is there; finish it, or throw it away with "
                            "vllm-wizard move --discard {dst}"
                        )
                    ).format(src=manifest.src, dst=plan.dst),
                ),
            ),
        )
    if manifest.state in ("proven", "deleted"):
        if _unchanged(manifest, plan):
            return replace(plan, state=manifest.public_state, bytes_already=plan.bytes_total)
        return plan
    done = record.Journal(plan.work_dir).load()
    already = sum(proven_bytes(f, done) for f in plan.files)
    gone = {f.rel for f in manifest.files} - {f.rel for f in plan.files}
    warnings = plan.warnings
    if gone:
        warnings += (
            _("the source no longer has {names}, which it had when the move began: they are left out").format(
                names=", ".join(show(rel) for rel in sorted(gone)[:3]) + (", ..." if len(gone) > 3 else "")
            ),
        )
    return replace(plan, state=MoveState.PARTIAL, bytes_already=already, warnings=warnings)


def proven_bytes(file: MoveFile, done: Mapping[str, record.Proven]) -> int:
    """How many bytes of a file an earlier run has proven; 0 when the source's file changed since."""
    p = done.get(file.rel)
    if p is None or p.size_bytes != file.size_bytes or p.mtime_ns != file.mtime_ns:
        return 0
    return file.size_bytes if p.whole else min(p.upto, file.size_bytes)


def _same_source(manifest: record.Manifest, plan: MovePlan) -> bool:
    """The same folder, or (a drive that got another letter) the same files with the same sizes and times."""
    if manifest.src == plan.src:
        return True
    listed = {(f.rel, f.size_bytes, f.mtime_ns) for f in manifest.files}
    return listed == {(f.rel, f.size_bytes, f.mtime_ns) for f in plan.files}


def _unchanged(manifest: record.Manifest, plan: MovePlan) -> bool:
    """Nothing was added to or changed in the source since it was moved (parts may have been deleted)."""
    listed = {(f.rel, f.size_bytes, f.mtime_ns) for f in manifest.files}
    return all((f.rel, f.size_bytes, f.mtime_ns) in listed for f in plan.files)


def _plan_without_source(
    machine: Machine, asked: str, dst: str | None, env: Mapping[str, str], error: OSError
) -> MovePlan | None:
    """The plan of an earlier run whose source cannot be reached now; None when there is no such run."""
    for work_dir in _candidate_records(machine, dst, env):
        try:
            manifest = record.load_manifest(work_dir)
        except WizardError:
            continue
        if manifest is None or asked not in (manifest.src, *(f.source for f in manifest.files)):
            continue
        done = record.Journal(work_dir).load()
        already = sum(proven_bytes(f, done) for f in manifest.files)
        total = sum(f.size_bytes for f in manifest.files)
        if manifest.state in ("proven", "deleted"):
            already = total
        refusals: tuple[Refusal, ...] = ()
        missing = any(f.rel not in done or not done[f.rel].whole for f in manifest.files)
        if missing and manifest.state == "partial":
            refusals = (
                Refusal(
                    "source_gone",
                    _(
                        "{src} is not there now ({why}); {done:.1f} of {total:.1f} GiB are safe in the copy. Bring "
                        "the drive back and run the same command again"
                    ).format(
                        src=manifest.src,
                        why=error.strerror or str(error),
                        done=already / GIB,
                        total=total / GIB,
                    ),
                ),
            )
        return MovePlan(
            machine=machine.name,
            kind=manifest.kind,
            name=manifest.name,
            src=manifest.src,
            dst=manifest.dst,
            work_dir=work_dir,
            files=tuple(manifest.files),
            links=tuple(manifest.links),
            dirs=tuple(manifest.dirs),
            src_is_file=manifest.src_is_file,
            asked_src=asked,
            src_mount=_mount_kind(machine, manifest.src),
            dst_mount=_mount_kind(machine, manifest.dst),
            bytes_total=total,
            files_total=len(manifest.files),
            bytes_already=already,
            refusals=refusals,
            warnings=(_("the source is not there now"),),
            state=manifest.public_state,
            alias_links=tuple(manifest.alias_links),
        )
    return None


def _candidate_records(machine: Machine, dst: str | None, env: Mapping[str, str]) -> list[str]:
    """Work folders of moves that may be meant: of the destination given, else all that are known."""
    if dst is not None:
        target = _absolute(machine, dst)
        parent = os.path.realpath(os.path.dirname(target))
        exact = record.work_dir_for(os.path.join(parent, os.path.basename(target)), MoveKind.FOLDER)
        return [exact, *record.records_below(target)]
    return known_records(machine.home, env)


def known_records(home: str, env: Mapping[str, str]) -> list[str]:
    """All work folders in the usual places and in the user's own list."""
    machine_hub = env.get("HF_HOME") or os.path.join(home, ".cache", "huggingface")
    places = [
        os.path.join(home, "models"),
        machine_hub,
        os.path.join(machine_hub, "hub"),
        os.path.join(home, ".cache", "modelscope"),
    ]
    found = [w for place in places for w in record.records_below(place)]
    found += [w for w in record.remembered() if os.path.isfile(os.path.join(w, record.MANIFEST))]
    return list(dict.fromkeys(found))


def _source_gone(machine: Machine, src: str, asked: str, error: OSError) -> str:
    mount = machine.mount_of(asked)
    if mount is not None and mount.kind in (MountKind.WINDOWS_DRIVE, MountKind.NETWORK):
        return _("{src} cannot be read: {why}. Is the drive still connected?").format(
            src=src, why=error.strerror or str(error)
        )
    return _("{src} cannot be read: {why}").format(src=src, why=error.strerror or str(error))


# --- what speaks against it


def _with_refusals(plan: MovePlan, machine: Machine, tree: Tree) -> MovePlan:
    found = list(plan.refusals)
    warnings = list(plan.warnings)
    src, dst = plan.src, plan.dst
    real_dst = tree.realpath(dst)
    mount = machine.mount_of(real_dst)
    if real_dst == src:
        found.append(Refusal("same_place", _("{path} is where it lies already").format(path=src)))
    elif real_dst.startswith(src.rstrip("/") + "/") and not plan.src_is_file:
        found.append(
            Refusal("into_itself", _("{dst} lies inside {src}: a model cannot be moved into itself").format(dst=dst, src=src))
        )
    elif src.startswith(real_dst.rstrip("/") + "/"):
        found.append(
            Refusal(
                "into_itself",
                _("{src} lies inside {dst}: it cannot take the place of a folder that holds it").format(dst=dst, src=src),
            )
        )
    found += _mount_refusals(plan, mount)
    if plan.src_mount in (MountKind.LINUX.value, MountKind.MEMORY.value):
        warnings.append(_("{src} is already on a fast file system: moving it gains no speed").format(src=src))
    if plan.dst_mount == MountKind.MEMORY.value:
        warnings.append(_("{dst} is in memory and gone at the next restart").format(dst=dst))
    elif machine.lost_with_container(real_dst):
        warnings.append(_("{dst} lies in this container itself and is lost when the container is removed").format(dst=dst))
    if not found and plan.state in (MoveState.NONE,) and tree.lexists(dst):
        found += _different_model(plan, tree)
    return replace(plan, refusals=tuple(found), warnings=tuple(dict.fromkeys(warnings)))


def _mount_refusals(plan: MovePlan, mount: Mount | None) -> list[Refusal]:
    if mount is None:
        return []
    if mount.kind is MountKind.WINDOWS_DRIVE:
        return [
            Refusal(
                "destination_windows_drive",
                _("{dst} is on a Windows drive too ({mount}): choose a place on the Linux file system").format(
                    dst=plan.dst, mount=mount.path
                ),
            )
        ]
    if mount.kind is MountKind.NETWORK:
        return [
            Refusal(
                "destination_network",
                _("{dst} is on a network drive ({mount}): choose a place on a local Linux file system").format(
                    dst=plan.dst, mount=mount.path
                ),
            )
        ]
    if mount.kind is MountKind.VIRTUAL or mount.read_only:
        return [
            Refusal(
                "destination_read_only",
                _("nothing can be stored at {dst}: {mount} is {kind}").format(
                    dst=plan.dst, mount=mount.path, kind=_("read-only") if mount.read_only else mount.fstype
                ),
            )
        ]
    return []


def _different_model(plan: MovePlan, tree: Tree) -> list[Refusal]:
    """Why what lies at the destination is not (part of) this model; nothing when it may be completed."""

    def refuse(why: str) -> list[Refusal]:
        return [
            Refusal(
                "different_model",
                _("{dst} exists already and is something else ({why}); choose another place or move it away").format(
                    dst=plan.dst, why=why
                ),
            )
        ]

    try:
        there = tree.stat(plan.dst)
    except OSError:
        return refuse(_("a link to nowhere"))
    if plan.src_is_file:
        if there.is_dir:
            return refuse(_("a folder"))
        return [] if there.size_bytes == plan.bytes_total else refuse(_("a file of another size"))
    if not there.is_dir:
        return [Refusal("destination_not_a_folder", _("{dst} is a file").format(dst=plan.dst))]
    existing = _sizes_below(tree, plan.dst)
    planned = {f.rel: f for f in plan.files}
    links = {x.rel for x in plan.links}
    if plan.kind is MoveKind.HUGGINGFACE:
        # A cache entry of the same name is the same repository: revisions are put side by side.
        clash = [r for r, size in existing.items() if r.startswith("blobs/") and r in planned and planned[r].size_bytes != size]
        return refuse(_("{name} has another size there").format(name=show(clash[0]))) if clash else []
    for rel, size in sorted(existing.items()):
        if rel in planned and planned[rel].size_bytes != size:
            return refuse(_("{name} has another size there").format(name=show(rel)))
        if rel not in planned and rel not in links and _is_weight_or_config(rel):
            return refuse(_("{name} does not belong to this model").format(name=show(rel)))
    config = planned.get("config.json")
    if config is not None and "config.json" in existing:
        try:
            limit = config.size_bytes + 1
            if tree.head(config.source, limit) != tree.head(posixpath.join(plan.dst, "config.json"), limit):
                return refuse(_("another config.json"))
        except OSError:
            return refuse(_("a config.json that cannot be read"))
    return []


def _is_weight_or_config(rel: str) -> bool:
    return posixpath.basename(rel) in ("config.json", "params.json") or rel.lower().endswith(
        (".safetensors", ".gguf", ".bin", ".pt", ".pth")
    )


def _sizes_below(tree: Tree, root: str, rel: str = "", depth: int = 0) -> dict[str, int]:
    """Size of every plain file below ``root``, by path."""
    found: dict[str, int] = {}
    if depth > 20:
        return found
    try:
        nodes = tree.entries(posixpath.join(root, rel) if rel else root)
    except OSError:
        return found
    for node in nodes:
        inner = f"{rel}/{node.name}" if rel else node.name
        if node.is_dir:
            found.update(_sizes_below(tree, root, inner, depth + 1))
        elif node.is_file:
            try:
                found[inner] = tree.stat(node.path).size_bytes
            except OSError:
                continue
    return found


# --- room and time


def _space(plan: MovePlan, machine: Machine, host: Host | None, vhdx_drive: str | None) -> Space:
    needed = max(0, plan.bytes_total - plan.bytes_already)
    if plan.state in (MoveState.PROVEN, MoveState.DELETED):
        needed = 0
    free, source = _free_bytes(plan, machine, host)
    mount = machine.mount_of(plan.dst)
    notes: list[str] = []
    windows_free: int | None = None
    windows_source = watch = ""
    on_vhdx = machine.is_wsl2 and (mount is None or (mount.kind is MountKind.LINUX and not mount.path.startswith("/mnt/wsl/")))
    if on_vhdx:
        letter = (vhdx_drive or "C").strip(":\\/ ").upper()[:1] or "C"
        windows_free, windows_source, watch = _windows_free(machine, letter, host)
        notes.append(
            _(
                "the distro's disk is a file on a Windows drive that grows as it is filled (1 TB at most unless you "
                "enlarged it) and does not shrink by itself: what df shows free here may not be free on Windows"
            )
        )
        if windows_free is not None:
            notes.append(
                _("drive {letter}: has {gib:.1f} GiB free ({source}); the distro's disk is taken to lie there").format(
                    letter=letter, gib=windows_free / GIB, source=windows_source
                )
            )
        else:
            notes.append(_("how much is free on the Windows drive is not known: look before a large move"))
        if plan.src_windows_path[:2].upper() == f"{letter}:":
            notes.append(_("source and copy lie on the same Windows drive until the source is deleted"))
    return Space(needed, free, source, windows_free, windows_source, watch, tuple(notes))


def _free_bytes(plan: MovePlan, machine: Machine, host: Host | None) -> tuple[int | None, str]:
    if host is None:
        place = record.nearest_existing(os.path.dirname(plan.dst))
        try:
            return shutil.disk_usage(place).free, f"statvfs {place}"
        except OSError as error:
            return None, error.strerror or str(error)
    mount = machine.mount_of(plan.dst)
    if mount is not None and mount.free_bytes.known:
        return mount.free_bytes.value, mount.free_bytes.source
    try:
        return host.disk_usage(posixpath.dirname(plan.dst)).free_bytes, "disk_usage"
    except OSError as error:
        return None, error.strerror or str(error)


def _windows_free(machine: Machine, letter: str, host: Host | None) -> tuple[int | None, str, str]:
    """Free bytes of a Windows drive, their source, and a path to look at again while copying."""
    for mount in machine.mounts:
        if mount.kind is MountKind.WINDOWS_DRIVE and (mount.windows_path or "")[:1].upper() == letter:
            if host is None:
                try:
                    return shutil.disk_usage(mount.path).free, f"statvfs {mount.path}", mount.path
                except OSError:
                    break
            if mount.free_bytes.known:
                return mount.free_bytes.value, mount.free_bytes.source, ""
    if letter == "C" and machine.wsl is not None and machine.wsl.host_free_disk_bytes.known:
        return machine.wsl.host_free_disk_bytes.value, machine.wsl.host_free_disk_bytes.source, ""
    return None, "", ""


def margin_bytes(needed: int) -> int:
    """What must stay free beside the copy: for folders, the journal, and the file system's own records."""
    return min(GIB, max(16 * MIB, needed // 100))


def _space_refusals(plan: MovePlan) -> list[Refusal]:
    space = plan.space
    if space.needed_bytes == 0:
        return []
    wanted = space.needed_bytes + margin_bytes(space.needed_bytes)
    if space.free_bytes is not None and space.free_bytes < wanted:
        return [
            Refusal(
                "not_enough_space",
                _("{need:.1f} GiB are needed at {dst}, {free:.1f} GiB are free").format(
                    need=wanted / GIB, dst=plan.dst, free=space.free_bytes / GIB
                ),
            )
        ]
    if space.windows_free_bytes is not None and space.windows_free_bytes < space.needed_bytes + _WINDOWS_RESERVE:
        return [
            Refusal(
                "windows_disk_full",
                _(
                    "the distro's disk would have to grow by {need:.1f} GiB, but its Windows drive has only {free:.1f} GiB "
                    "free (2 GiB must stay). Make room, or name the drive that really holds it with --vhdx-drive"
                ).format(need=space.needed_bytes / GIB, free=space.windows_free_bytes / GIB),
            )
        ]
    return []


def _with_estimate(plan: MovePlan, measure: bool) -> MovePlan:
    typical, per_file = typical_rate(plan.src_mount)
    rate: float | None = None
    source = ""
    if measure and plan.ok and plan.space.needed_bytes > 64 * MIB:
        rate, source = _sample_rate(plan)
    if rate is None:
        rate = typical
        source = _("typical of such a mount ({kind}), not measured").format(kind=plan.src_mount)
    small = sum(1 for f in plan.files if f.size_bytes < MIB)
    seconds = plan.space.needed_bytes / rate + (small * per_file if plan.space.needed_bytes else 0.0)
    return replace(plan, rate_bytes_per_s=rate, rate_source=source, seconds_estimate=seconds)


def _sample_rate(plan: MovePlan) -> tuple[float | None, str]:
    """Read a little of the largest file and take the time. A drive that hangs costs two seconds, no more."""
    largest = max(plan.files, key=lambda f: f.size_bytes)
    if largest.size_bytes < 16 * MIB:
        return None, ""
    result: list[tuple[int, float]] = []

    def read() -> None:
        try:
            with open(largest.source, "rb", buffering=0) as handle:
                start = (largest.size_bytes // 2) & ~(MIB - 1)
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(handle.fileno(), start, 0, os.POSIX_FADV_DONTNEED)
                handle.seek(start)
                buffer = bytearray(MIB)
                done = 0
                begin = time.perf_counter()
                while time.perf_counter() - begin < 0.4 and done < 48 * MIB:
                    count = handle.readinto(buffer)
                    if not count:
                        break
                    done += count
                result.append((done, time.perf_counter() - begin))
        except OSError:
            return

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(2.0)
    if not result or result[0][0] < 4 * MIB or result[0][1] <= 0:
        return None, ""
    done, seconds = result[0]
    return done / seconds, _("measured: {mib} MiB of {file} in {seconds:.2f} s").format(
        mib=done // MIB, file=show(posixpath.basename(largest.rel)), seconds=seconds
    )


def summary(plan: MovePlan) -> str:
    """The move in one line, for people."""
    count = ngettext("{n} file", "{n} files", plan.files_total).format(n=plan.files_total)
    return _("{name}: {size} in {count}, from {src} to {dst}").format(
        name=show(plan.name), size=size_text(plan.bytes_total), count=count, src=show(plan.src), dst=show(plan.dst)
    )

