"""From what should stand in files to files on disk: diff, backup, atomic write, undo.

``prepare`` compares each :class:`FileSpec` with the disk and shows what would change; ``write`` reads again
and stops if a file changed since it was shown, keeps what it replaces in a journal, writes every new content
to a temporary file beside its target and only then renames them all; ``undo`` puts back what was there.
Only this module and the mover write to the machine.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from wizard import program
from wizard.errors import BadInput, WizardError
from wizard.i18n import _, ngettext, sentences
from wizard.outputs.spec import FileSpec
from wizard.plain_text import printable

KEPT_WRITES = 30  # so many writes can be undone; older backups are dropped
DIFF_LIMIT_BYTES = 1_000_000  # a larger file is named but not compared line by line
APP = "vllm-wizard"
FORMAT = 1


class State(str, Enum):
    NEW = "new"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True)
class Change:
    """One file, compared with the disk. ``path`` is what is shown; ``target`` is what a link at it leads to."""

    spec: FileSpec
    path: str
    target: str
    state: State
    after: bytes = field(repr=False)
    before: bytes | None = field(repr=False)  # None: the file does not exist
    mode_before: int | None  # permission bits
    mode_after: int | None  # None: a new file that is not secret, where the umask has its say
    diff: str = ""  # unified; no secret stands in it
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    path: str
    target: str
    state: State
    backup: str | None = None  # the copy of what was there before


@dataclass(frozen=True)
class Receipt:
    """What one write did. ``id`` is empty when nothing had to be written."""

    id: str
    when: float  # seconds since 1970
    files: tuple[Written, ...]
    notes: tuple[str, ...] = ()
    status: str = "done"  # "started" (it was interrupted), "done", "undone"


@dataclass(frozen=True)
class Undone:
    path: str
    action: str  # "restored", "removed", "unchanged"
    kept: str | None = None  # where a changed content that was overwritten by force is kept


# -- comparing ------------------------------------------------------------------------------------------------


def prepare(specs: Iterable[FileSpec], out_dir: str | os.PathLike[str]) -> list[Change]:
    """What writing ``specs`` would do. Relative paths are taken from ``out_dir``.

    Raises WizardError when a target cannot be written (a folder, a device, a path below a file) or when the
    user's own file changed since it was read for editing.
    """
    folder = os.path.abspath(os.fspath(out_dir))
    changes = [_compare(spec, os.path.join(folder, spec.path)) for spec in specs]
    seen: dict[str, str] = {}
    for change in changes:
        if change.target in seen:
            raise WizardError(
                _("{a} and {b} lead to the same file ({target}). Remove one of the links.").format(
                    a=seen[change.target], b=change.path, target=change.target
                )
            )
        seen[change.target] = change.path
    return changes


def _compare(spec: FileSpec, path: str) -> Change:
    target = os.path.realpath(path)
    before, mode = _read(target, path)
    if spec.edited and before != spec.expected_bytes:
        raise WizardError(
            _(
                "{path} changed since it was read. Nothing was written; start again to see the new state."
            ).format(path=path)
        )
    after = spec.content
    if spec.keep_existing and before is not None:
        after = merge_env(before, spec.content)
    mode_after = _mode_after(spec, mode)
    if before is None:
        state = State.NEW
    elif before != after or (mode_after is not None and mode_after != mode):
        state = State.CHANGED
    else:
        state = State.SAME
    notes = []
    if state is not State.SAME:
        if os.path.islink(path):
            text = _("{path} is a link to {target}: the file it points to is changed, and the link stays.")
            notes.append(text.format(path=path, target=target))
        if mode is not None and not mode & 0o222:
            text = _("{path} is read-only (mode {mode:04o}): it is replaced all the same, and keeps its mode.")
            notes.append(text.format(path=path, mode=mode))
        kind = _foreign_mount(target)
        if kind:
            notes.append(
                _(
                    "{path} lies on a {kind} mount: the file is replaced in one step, but whether that survives a power failure, and the file's mode, depend on that drive."
                ).format(path=path, kind=kind)
            )
    return Change(
        spec=spec,
        path=path,
        target=target,
        state=state,
        after=after,
        before=before,
        mode_before=mode,
        mode_after=mode_after,
        diff="" if state is State.SAME else _diff(path, before, after, spec.secret, mode, mode_after),
        notes=tuple(notes),
    )


def _read(target: str, path: str) -> tuple[bytes | None, int | None]:
    """The content and permission bits of a regular file; (None, None) when there is none."""
    try:
        info = os.stat(target)
    except FileNotFoundError:
        _parent_can_be(target, path)
        return None, None
    except OSError as error:
        raise _explained(error, path) from error
    if stat.S_ISDIR(info.st_mode):
        raise WizardError(
            _(
                "{path} is a folder; a file is to be written there. Rename it or choose another folder."
            ).format(path=path)
        )
    if not stat.S_ISREG(info.st_mode):
        raise WizardError(
            _("{path} is not a regular file (a device, pipe or socket). Choose another folder.").format(
                path=path
            )
        )
    try:
        with open(target, "rb") as file:
            return file.read(), stat.S_IMODE(info.st_mode)
    except OSError as error:
        raise _explained(error, path) from error


def _parent_can_be(target: str, path: str) -> None:
    """Stop early when the folder neither is there nor can be made below the nearest existing one."""
    above = os.path.dirname(target)
    while not os.path.lexists(above) and os.path.dirname(above) != above:
        above = os.path.dirname(above)
    if not os.path.isdir(above):
        raise WizardError(
            _("{path} cannot be written: {above} is not a folder. Choose another folder.").format(
                path=path, above=above
            )
        )


def _mode_after(spec: FileSpec, mode: int | None) -> int | None:
    if mode is None:
        return spec.mode if spec.secret else None
    if spec.secret:
        return mode & spec.mode
    # The user's own bits stay; what must be executable becomes so for those who can read it.
    return mode | ((mode & 0o444) >> 2 & spec.mode)


_MOUNT_KINDS = {
    "9p": "Windows",
    "drvfs": "Windows",
    "virtiofs": "Windows or shared",
    "cifs": "network",
    "smb3": "network",
    "nfs": "network",
    "nfs4": "network",
    "fuse.sshfs": "network",
    "vfat": "FAT",
    "exfat": "FAT",
    "msdos": "FAT",
}


def _foreign_mount(path: str) -> str:
    """The kind of a mount that keeps no Linux promises on renames and modes; empty for an ordinary one."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    for line in lines:
        left, _sep, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) < 5 or not rest:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
        if (path + "/").startswith(point.rstrip("/") + "/") and len(point) >= best:
            best, kind = len(point), _MOUNT_KINDS.get(rest[0], "")
    return kind


# -- environment files ----------------------------------------------------------------------------------------

_ENV_LINE = re.compile(rb"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)$", re.DOTALL)
_ENV_COMMENTED = re.compile(rb"^\s*#\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*$")


def env_values(content: bytes) -> dict[str, str]:
    """The ``KEY=value`` lines of an environment file; the last of a key counts, as Docker reads it."""
    values = {}
    for line in content.splitlines():
        match = _ENV_LINE.match(line)
        if match:
            values[match[1].decode()] = match[2].decode("utf-8", "surrogateescape").strip()
    return values


def merge_env(existing: bytes, wanted: bytes) -> bytes:
    """``existing`` with the values that ``wanted`` brings: its other lines stay byte for byte.

    A key of ``wanted`` that holds a value is put in place of the old line (or of a commented, empty one);
    one that is not there yet is added at the end, with the comment that stands above it. A key that
    ``wanted`` only has commented out keeps whatever ``existing`` says.
    """
    end = b"\r\n" if b"\r\n" in existing else b"\n"
    lines = existing.splitlines(keepends=True)
    comment: list[bytes] = []
    added: list[bytes] = []
    for line in wanted.splitlines():
        match = _ENV_LINE.match(line)
        if match is None:
            blank = not line.strip() or _ENV_COMMENTED.match(line) is not None
            comment = [] if blank else [*comment, line]
            continue
        key, value = match[1], match[2].strip()
        at = _last_line_of(lines, key)
        if at is None:
            known = {x.rstrip(b"\r\n") for x in lines}
            added += [x for x in comment if x not in known]
            added.append(line)
        else:
            found = _ENV_LINE.match(lines[at].rstrip(b"\r\n"))
            # A commented line sets nothing: even an empty value takes its place.
            if found is None or (value and found[2].strip() != value):
                tail = lines[at][len(lines[at].rstrip(b"\r\n")) :]
                lines[at] = line + tail
        comment = []
    if added:
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            lines[-1] += end
        lines += [x + end for x in added]
    return b"".join(lines)


def _last_line_of(lines: Sequence[bytes], key: bytes) -> int | None:
    """Where ``key`` is set (the last place counts); else where it stands commented out and empty."""
    commented = None
    for number in range(len(lines) - 1, -1, -1):
        text = lines[number].rstrip(b"\r\n")
        match = _ENV_LINE.match(text)
        if match and match[1] == key:
            return number
        match = _ENV_COMMENTED.match(text)
        if match and match[1] == key and commented is None:
            commented = number
    return commented


# -- showing --------------------------------------------------------------------------------------------------

HIDDEN = "********"
_TOKENS = re.compile(
    r"\bhf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{16,}|\bghp_[A-Za-z0-9]{20,}"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
)
_NAMED = re.compile(
    r"""(?ix) \b ( [a-z0-9_]* (?: hf_token | hugging_face_hub_token | api_key | access_token | secret | passw(?:or)?d ) )
        ( ["']? \s* [=:] \s* ["']? ) (?! \s | \$ | ["'] | $ ) ( [^\s"']{6,} )"""
)


def mask(text: str) -> str:
    """``text`` without anything that looks like a token, key or password."""
    return _NAMED.sub(lambda m: m[1] + m[2] + HIDDEN, _TOKENS.sub(HIDDEN, text))


def diff_texts(name: str, before: bytes | None, after: bytes) -> str:
    """A unified diff of two contents of one file, for showing; empty when they are the same."""
    return "" if before == after else _diff(name, before, after, False, None, None)


def _decode(raw: bytes) -> str | None:
    """The text of a file: UTF-8 or UTF-16 with a mark; None for anything else."""
    try:
        if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
            return raw.decode("utf-16")
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _hide(lines: Sequence[str], others: Sequence[str], note: str) -> list[str]:
    """The lines of a secret file with every value hidden; one that ``others`` lacks gets ``note``."""
    known = set(others)
    out = []
    for line in lines:
        key, sep, value = line.partition("=")
        if not sep or not re.fullmatch(r"\s*#?\s*(?:export\s+)?\w+\s*", key):
            # Comments of ours hold no values; anything else in such a file may be part of a secret.
            out.append(mask(line) if line.lstrip().startswith("#") or not line.strip() else HIDDEN)
        elif not value.strip():
            out.append(line)
        else:
            out.append(key + sep + HIDDEN + ("" if line in known else " " + note))
    return out


def _diff(
    path: str,
    before: bytes | None,
    after: bytes,
    secret: bool,
    mode_before: int | None,
    mode_after: int | None,
) -> str:
    """A unified diff for people; ends with a line end unless it is empty."""
    import difflib

    head = ""
    if mode_before is not None and mode_after is not None and mode_before != mode_after:
        head = f"mode {mode_before:04o} -> {mode_after:04o}\n"
    old, new = b"" if before is None else before, after
    if old == new:
        return head
    texts = (_decode(old), _decode(new))
    if texts[0] is None or texts[1] is None or max(len(old), len(new)) > DIFF_LIMIT_BYTES:
        return (
            head
            + _("(not shown line by line: {old} bytes become {new} bytes)").format(old=len(old), new=len(new))
            + "\n"
        )
    a, b = texts[0].split("\n"), texts[1].split("\n")
    # Carriage returns are only worth showing where the two files disagree about them.
    if all(x.endswith("\r") for x in a[:-1] + b[:-1]):
        a, b = [x.removesuffix("\r") for x in a], [x.removesuffix("\r") for x in b]
    open_a, open_b = bool(a[-1]), bool(b[-1])
    a, b = (a if open_a else a[:-1]), (b if open_b else b[:-1])
    if secret:
        a, b = _hide(a, b, _("(old value, not shown)")), _hide(b, a, _("(new value, not shown)"))
    # The mark makes a missing last line end a difference of that line, as in diff(1).
    mark = "\n\\ " + _("No line end at the end of the file")
    if open_a:
        a[-1] += mark
    if open_b:
        b[-1] += mark
    name = printable(path)
    lines = difflib.unified_diff(a, b, "/dev/null" if before is None else name, name, lineterm="", n=3)
    shown = []
    for number, line in enumerate(lines):
        text, sep, rest = line.partition("\n")
        shown.append((text if number < 2 else printable(text if secret else mask(text))) + sep + rest)
    if not shown:
        # Same text, other bytes: a byte order mark or an encoding.
        return head + _("(only the encoding changes)") + "\n"
    return head + "\n".join(shown) + "\n"


# -- writing --------------------------------------------------------------------------------------------------


def state_folder() -> Path:
    """Where the journal and the backups are kept."""
    return program.state_folder() / "writes"


def config_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder for kept answers; ``VLLM_WIZARD_CONFIG_DIR`` overrides the platform's own."""
    chosen = (os.environ if environ is None else environ).get("VLLM_WIZARD_CONFIG_DIR")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir(APP, appauthor=False))


def files_on_record(*, state_dir: Path | None = None) -> list[str]:
    """The files that were written and not taken back, and the kept answers of the last walk, as they lie now."""
    written = [f.target for r in history(state_dir=state_dir) if r.status == "done" for f in r.files]
    kept = [str(p) for p in sorted(config_folder().glob("session.toml"))]
    return [p for p in dict.fromkeys([*written, *kept]) if os.path.isfile(p)]


def write(changes: Sequence[Change], *, state_dir: Path | None = None) -> Receipt:
    """Write what ``prepare`` showed: all of it or nothing. Raises WizardError with what to do."""
    todo = [c for c in changes if c.state is not State.SAME]
    if not todo:
        return Receipt("", time.time(), tuple(Written(c.path, c.target, c.state) for c in changes))
    _still_as_shown(todo)
    folder = state_dir or state_folder()
    with _locked(folder):
        journal = _Journal.start(folder, todo)
        try:
            temporary = _write_temporaries(todo, journal.id)
            _back_up_beside(todo, journal)
            _still_as_shown(todo)
            _replace_all(todo, temporary, journal)
        except BaseException as error:
            left = journal.roll_back()
            if left:
                raise WizardError(
                    _(
                        "Writing failed ({error}), and these files could not be put back: {files}. Their backups are in {folder}."
                    ).format(error=error, files=", ".join(left), folder=journal.folder)
                ) from error
            raise
        journal.finish()
        _prune(folder)
    notes = [n for c in todo for n in c.notes] + _readable_secrets(todo)
    backups = {e.target: e.backup for e in journal.entries}
    files = tuple(
        Written(c.path, c.target, c.state, str(journal.folder / b) if (b := backups.get(c.target)) else None)
        for c in changes
    )
    return Receipt(journal.id, journal.when, files, tuple(dict.fromkeys(notes)))


def _still_as_shown(changes: Sequence[Change]) -> None:
    for change in changes:
        if (
            os.path.realpath(change.path) != change.target
            or _read(change.target, change.path)[0] != change.before
        ):
            raise WizardError(
                _(
                    "{path} changed after it was shown. Nothing was written; look at the changes again."
                ).format(path=change.path)
            )


def _temporary(target: str, token: str) -> str:
    """The name beside ``target`` under which its new content is written; short, whatever the target's name."""
    import zlib

    name = os.path.basename(target)
    return os.path.join(os.path.dirname(target), f".{APP}.{token}.{zlib.crc32(os.fsencode(name)):08x}.tmp")


def _write_temporaries(changes: Sequence[Change], token: str) -> list[str]:
    names = []
    for change in changes:
        name = _temporary(change.target, token)
        try:
            os.makedirs(os.path.dirname(change.target), exist_ok=True)
            _write_file(name, change.after, change.mode_after, change.spec.mode, _owner(change.target))
        except OSError as error:
            raise _explained(error, change.path, nothing_written=True) from error
        names.append(name)
    return names


def _owner(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_uid, info.st_gid


def _write_file(
    name: str, content: bytes, mode: int | None, umask_mode: int, owner: tuple[int, int] | None
) -> None:
    """Make ``name`` (it must not exist) with ``content`` safely on disk.

    With a ``mode`` the file is the owner's alone until all of it is written and only then gets that mode;
    without, ``umask_mode`` is cut by the umask.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(name, flags, umask_mode if mode is None else 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if mode is not None and hasattr(os, "geteuid"):
                if owner is not None and owner != (os.geteuid(), os.getegid()):
                    # Only root may give a file away; otherwise it becomes ours, as with any editor.
                    with contextlib.suppress(OSError):
                        os.fchown(descriptor, *owner)
                # A Windows drive without metadata refuses modes or forgets them: looked at after writing.
                with contextlib.suppress(OSError):
                    os.fchmod(descriptor, mode)
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _replace_all(changes: Sequence[Change], temporary: Sequence[str], journal: _Journal) -> None:
    for change, name in zip(changes, temporary, strict=True):
        # Told before it happens: an interrupt between the two must not leave a file that nobody puts back.
        journal.replaced.add(change.target)
        try:
            os.replace(name, change.target)
        except OSError as error:
            journal.replaced.discard(change.target)
            raise _explained(error, change.path, nothing_written=True) from error
    for folder in sorted({os.path.dirname(c.target) for c in changes}):
        _sync_folder(folder)


def _back_up_beside(changes: Sequence[Change], journal: _Journal) -> None:
    for change, entry in zip(changes, journal.entries, strict=True):
        if entry.beside is not None and change.before is not None:
            try:
                _write_file(entry.beside, change.before, change.mode_before, 0o600, _owner(change.target))
            except FileExistsError:
                continue
            except OSError as error:
                raise _explained(error, entry.beside, nothing_written=True) from error


def _sync_folder(folder: str) -> None:
    """Make renames in ``folder`` last; not every system can (Windows cannot open folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _readable_secrets(changes: Sequence[Change]) -> list[str]:
    notes = []
    for change in changes:
        if change.spec.secret and os.name == "posix":
            with contextlib.suppress(OSError):
                mode = stat.S_IMODE(os.stat(change.target).st_mode)
                if mode & 0o077:
                    notes.append(
                        _(
                            "{path} holds secrets, but this drive does not keep file modes: others may read it (mode {mode:04o}). Choose a folder in the Linux file system."
                        ).format(path=change.path, mode=mode)
                    )
    return notes


def _explained(error: OSError, path: str, *, nothing_written: bool = False) -> WizardError:
    """An OSError in words: what, and what to do."""
    code = error.errno
    if code == errno.EROFS:
        text = _("{path} lies on a read-only file system. Choose another folder with --out.")
    elif code in (errno.EACCES, errno.EPERM):
        text = _(
            "No permission to write {path}. Choose another folder with --out, or change its owner or mode."
        )
    elif code in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        text = _("No space is left for {path}. Free some space or choose another folder with --out.")
    elif code == errno.ENOTDIR:
        text = _("{path} cannot be written: a part of the path is a file, not a folder.")
    elif code == errno.EISDIR:
        text = _("{path} is a folder; a file is to be written there.")
    elif code == errno.ENAMETOOLONG:
        text = _("The path {path} is too long for the file system. Choose a shorter one.")
    elif code == errno.ELOOP:
        text = _("{path} is a link that leads back to itself. Remove it or choose another folder.")
    else:
        text = _("{path} cannot be written or read: {reason}.")
    message = text.format(path=path, reason=error.strerror or error)
    return WizardError(sentences(message, _("Nothing was written.") if nothing_written else ""))


# -- the journal ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """One file of a write, as the journal keeps it. Hashes are SHA-256 of the content; None: no file."""

    path: str
    target: str
    state: str
    before: str | None
    after: str
    mode_before: int | None
    owner: tuple[int, int] | None
    backup: str | None  # below the journal's folder
    beside: str | None  # a second backup, next to a file of the user's own
    made_folders: tuple[str, ...]  # outermost first


class _Journal:
    """A folder with ``journal.json`` and the backups of one write; written before anything is touched."""

    def __init__(self, folder: Path, when: float, entries: Sequence[_Entry], status: str) -> None:
        self.folder = folder
        self.id = folder.name
        self.when = when
        self.entries = tuple(entries)
        self.status = status
        self.replaced: set[str] = set()  # targets that this process replaced

    @classmethod
    def start(cls, state: Path, changes: Sequence[Change]) -> _Journal:
        when = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(when))
        folder = state / f"{stamp}.{time.time_ns() % 10**9:09d}-{os.getpid()}"
        try:
            folder.mkdir(parents=True, mode=0o700)
            entries = [cls._keep(folder, number, change) for number, change in enumerate(changes)]
            journal = cls(folder, when, entries, "started")
            journal._save()
        except OSError as error:
            raise WizardError(
                _(
                    "The backup cannot be kept in {folder} ({reason}), so nothing was written. Set XDG_STATE_HOME to a folder that you can write."
                ).format(folder=state, reason=error.strerror or error)
            ) from error
        return journal

    @staticmethod
    def _keep(folder: Path, number: int, change: Change) -> _Entry:
        backup = None
        if change.before is not None:
            # The file's own name, so that a person finds it again.
            backup = f"{number}/{os.path.basename(change.target)}"
            (folder / str(number)).mkdir(mode=0o700)
            _write_file(str(folder / backup), change.before, 0o600, 0o600, None)
        return _Entry(
            path=change.path,
            target=change.target,
            state=change.state.value,
            before=None if change.before is None else _hash(change.before),
            after=_hash(change.after),
            mode_before=change.mode_before,
            owner=_owner(change.target),
            backup=backup,
            beside=f"{change.target}.{folder.name[:15]}.bak" if change.spec.edited and backup else None,
            made_folders=tuple(_missing_folders(os.path.dirname(change.target))),
        )

    def _save(self) -> None:
        document = {
            "format": FORMAT,
            "when": self.when,
            "status": self.status,
            "files": [e.__dict__ for e in self.entries],
        }
        name = self.folder / "journal.json"
        temporary = self.folder / "journal.json.tmp"
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        # ASCII escapes keep a path that is not UTF-8 (surrogates) intact.
        _write_file(str(temporary), json.dumps(document, indent=1).encode(), 0o600, 0o600, None)
        os.replace(temporary, name)
        _sync_folder(str(self.folder))

    def finish(self) -> None:
        self.status = "done"
        self._save()

    def roll_back(self) -> list[str]:
        """Put back what this write did so far; the paths that could not be."""
        left = []
        for entry in self.entries:
            try:
                # What was not replaced is not touched: somebody else may be writing it.
                if entry.target in self.replaced:
                    self.restore(entry)
                else:
                    self.tidy(entry)
            except (OSError, WizardError):
                left.append(entry.path)
        if not left:
            with contextlib.suppress(OSError):
                _remove_tree(self.folder)
        return left

    def restore(self, entry: _Entry) -> str:
        """Bring one file back to what it was; "restored", "removed" or "unchanged"."""
        now, mode = _hash_of(entry.target)
        if entry.before is None:
            action = "unchanged"
            if now is not None:
                os.unlink(entry.target)
                action = "removed"
            self.tidy(entry)
            return action
        self.tidy(entry)
        if now == entry.before and mode == entry.mode_before:
            return "unchanged"
        assert entry.backup is not None
        content = (self.folder / entry.backup).read_bytes()
        if _hash(content) != entry.before:
            raise WizardError(
                _("The backup {file} was changed and is not used.").format(file=self.folder / entry.backup)
            )
        os.makedirs(os.path.dirname(entry.target), exist_ok=True)
        name = _temporary(entry.target, self.id)
        _write_file(name, content, entry.mode_before, 0o600, entry.owner)
        os.replace(name, entry.target)
        _sync_folder(os.path.dirname(entry.target))
        return "restored"

    def tidy(self, entry: _Entry) -> None:
        """Remove what the write made around the file: temporary file, backup beside it, folders now empty."""
        with contextlib.suppress(OSError):
            os.unlink(_temporary(entry.target, self.id))
        if entry.beside is not None and self._hash_or_none(entry.beside) == entry.before:
            with contextlib.suppress(OSError):
                os.unlink(entry.beside)
        for folder in reversed(entry.made_folders):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    @staticmethod
    def _hash_or_none(path: str) -> str | None:
        try:
            return _hash_of(path)[0]
        except WizardError:
            return None

    @classmethod
    def load(cls, folder: Path) -> _Journal | None:
        """The journal in ``folder``; None when it cannot be read (a write that never began)."""
        try:
            document: dict[str, Any] = json.loads((folder / "journal.json").read_text("utf-8"))
            if document.get("format") != FORMAT:
                return None
            entries = [
                _Entry(
                    **{
                        **e,
                        "owner": tuple(e["owner"]) if e["owner"] else None,
                        "made_folders": tuple(e["made_folders"]),
                    }
                )
                for e in document["files"]
            ]
            return cls(folder, float(document["when"]), entries, str(document["status"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _hash_of(target: str) -> tuple[str | None, int | None]:
    content, mode = _read(target, target)
    return (None if content is None else _hash(content)), mode


def _missing_folders(folder: str) -> list[str]:
    missing: list[str] = []
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing


def _remove_tree(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time. Where files cannot be locked (Windows, some network drives) it goes without."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = (folder / "lock").open("wb")
    except OSError as error:
        raise WizardError(
            _(
                "The backup cannot be kept in {folder} ({reason}), so nothing was written. Set XDG_STATE_HOME to a folder that you can write."
            ).format(folder=folder, reason=error.strerror or error)
        ) from error
    with file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        yield


def _journals(folder: Path) -> list[_Journal]:
    """Newest first."""
    try:
        names = sorted((p for p in folder.iterdir() if p.is_dir()), reverse=True)
    except OSError:
        return []
    return [j for j in map(_Journal.load, names) if j is not None]


def _prune(folder: Path) -> None:
    for journal in _journals(folder)[KEPT_WRITES:]:
        _remove_tree(journal.folder)


def history(*, state_dir: Path | None = None) -> list[Receipt]:
    """The writes that are known, newest first."""
    return [
        Receipt(
            j.id,
            j.when,
            tuple(
                Written(e.path, e.target, State(e.state), str(j.folder / e.backup) if e.backup else None)
                for e in j.entries
            ),
            status=j.status,
        )
        for j in _journals(state_dir or state_folder())
    ]


def last_writes(n: int = 1, *, state_dir: Path | None = None) -> list[Receipt]:
    """The last ``n`` writes that were not taken back, the newest first: what :func:`undo` would take back.

    Raises WizardError when none is on record, BadInput when there are fewer than ``n``.
    """
    folder = state_dir or state_folder()
    known = [r for r in history(state_dir=folder) if r.status != "undone"]
    if not known:
        raise WizardError(
            _("There is nothing to undo: no write of vllm-wizard is on record in {folder}.").format(
                folder=folder
            )
        )
    if n > len(known):
        raise BadInput(
            ngettext(
                "Only {n} write is on record, not {asked}. Nothing was undone; vllm-wizard undo --list shows it.",
                "Only {n} writes are on record, not {asked}. Nothing was undone; vllm-wizard undo --list shows them.",
                len(known),
            ).format(n=len(known), asked=n)
        )
    return known[: max(n, 1)]


def undo(
    n: int = 1,
    *,
    force: bool = False,
    state_dir: Path | None = None,
    shown: Sequence[str] | None = None,
) -> list[Undone]:
    """Take back the last ``n`` writes, the newest first.

    Refuses, before anything is touched, when a file was changed since; ``force`` puts the old content back
    all the same and keeps the changed one with the backups. Raises BadInput when fewer than ``n`` writes are on
    record. ``shown``: the ids that the user agreed to; when others are the last ones by now, nothing is touched.
    """
    folder = state_dir or state_folder()
    last_writes(n, state_dir=folder)  # before the lock is made, which would make the folder
    with _locked(folder):
        wanted = {r.id for r in last_writes(n, state_dir=folder)}
        chosen = [j for j in _journals(folder) if j.id in wanted]
        if shown is not None and wanted != set(shown):
            raise WizardError(_("Something was written meanwhile. Nothing was undone; start again to see the new state."))
        changed = _changed_since(chosen)
        if changed and not force:
            raise WizardError(
                _(
                    "Changed since it was written: {files}. Nothing was undone. Add --force to put the old content back all the same."
                ).format(files=", ".join(changed))
            )
        done = []
        for journal in chosen:
            for entry in journal.entries:
                try:
                    kept = _set_aside(journal, entry) if entry.path in changed else None
                    done.append(Undone(entry.path, journal.restore(entry), kept))
                except OSError as error:
                    raise _explained(error, entry.path) from error
            journal.status = "undone"
            try:
                journal._save()
            except OSError as error:
                raise _explained(error, str(journal.folder)) from error
        return done


def _changed_since(journals: Sequence[_Journal]) -> list[str]:
    """The files whose content is neither what was written nor what was there before."""
    now: dict[str, str | None] = {}
    changed = []
    for journal in journals:
        for entry in journal.entries:
            current = now[entry.target] if entry.target in now else _hash_of(entry.target)[0]
            gone = current is None and entry.before is None
            if current not in (entry.after, entry.before) and not gone:
                changed.append(entry.path)
            now[entry.target] = entry.before
    return list(dict.fromkeys(changed))


def _set_aside(journal: _Journal, entry: _Entry) -> str | None:
    content = _read(entry.target, entry.path)[0]
    if content is None:
        return None
    place = journal.folder / f"changed-{journal.entries.index(entry)}"
    place.mkdir(mode=0o700, exist_ok=True)
    name = place / os.path.basename(entry.target)
    with contextlib.suppress(FileNotFoundError):
        name.unlink()
    _write_file(str(name), content, 0o600, 0o600, None)
    return str(name)
