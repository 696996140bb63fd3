"""Read ``.wslconfig`` or ``/etc/wsl.conf`` as WSL does: what counts, what is refused, and what comes of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from wizard import wsl_grammar as grammar
from wizard.i18n import _, ngettext, sentences, stopped
from wizard.outputs.wslconfig import keys
from wizard.wsl_grammar import Entry, Fault, Item, Mode

MIB, GIB = 1 << 20, 1 << 30
LISTED = 10_000  # problems of one file that are told one by one: more are no help to anybody
_SENTINEL = (1 << 64) - 1

# Kinds of problems beside those of the grammar.
UNKNOWN_KEY = "unknown_key"
DUPLICATE_KEY = "duplicate_key"
UNREADABLE = "unreadable_encoding"
PROCESSORS = "too_many_processors"
SAFE_MODE = "safe_mode"
MORE = "more_problems"
VIRTIO9P = "virtio9p_disabled"
NEEDS_VIRTIO = "consomme_requires_virtio"
INVALID = {
    "size": "invalid_memory",
    "int": "invalid_integer",
    "bool": "invalid_boolean",
    "enum": "invalid_value",
    "mac": "invalid_mac_address",
    "ipv4": "invalid_ip",
    "ports": "invalid_integer",
}


@dataclass(frozen=True)
class Accepted:
    """A setting that counts. ``key`` in WSL's own spelling, ``raw`` after quotes and escapes, ``value`` as WSL
    took it: bytes for sizes, decimal for integers, "true"/"false", the canonical name of an enum."""

    key: str
    raw: str
    value: str
    line: int


@dataclass(frozen=True)
class Rejected:
    """A setting whose value WSL refused; later duplicates of it are refused too."""

    key: str
    raw: str
    line: int


@dataclass(frozen=True)
class Problem:
    """What WSL warns of. ``line`` is None when it is about the whole file; ``key`` when no key was reached."""

    line: int | None
    key: str | None
    kind: str
    message: str


@dataclass(frozen=True)
class Effective:
    """What the virtual machine gets. None where it depends on the host and the host's figure is not known."""

    memory_bytes: int | None
    swap_bytes: int | None
    processors: int | None
    networking_mode: str
    auto_memory_reclaim: str
    sparse_vhd: bool
    gpu_support: bool
    localhost_forwarding: bool
    vm_idle_timeout_ms: int
    instance_idle_timeout_ms: int
    dns_tunneling: bool
    firewall: bool
    virtiofs: bool
    ignored_ports: tuple[int, ...]
    swap_file: str
    kernel: str


@dataclass(frozen=True)
class Parsed:
    """The whole verdict on one file.

    ``encoding`` is "utf-8", "utf-8-bom", "utf-16-le", "utf-16-be" (unreadable for WSL) or "bytes" (wsl.conf).
    ``fatal`` is set when a line keeps WSL from starting at all. ``complete`` is False when reading stopped
    early (wsl.conf's first invalid line). ``effective`` is None for wsl.conf. ``notes`` are hints that WSL
    itself does not give (a value that is clamped silently, a key of the other file).
    """

    mode: Mode
    encoding: str
    readable: bool
    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]
    problems: tuple[Problem, ...]
    fatal: str | None
    complete: bool
    effective: Effective | None
    notes: tuple[Problem, ...] = ()
    items: tuple[Item, ...] = field(default=(), repr=False)

    def get(self, key: str) -> Accepted | None:
        """The accepted setting of that name (any case, old places too)."""
        found = keys.find(key, self.mode)
        return next((a for a in self.accepted if found is not None and a.key == found.name), None)

    def is_set(self, key: str) -> bool:
        return self.get(key) is not None


@functools.lru_cache(maxsize=32)
def _scanned(data: bytes, mode: Mode) -> tuple[grammar.Text, tuple[Item, ...]]:
    # A plan is made anew at every key press, and reads the same file each time.
    text = grammar.decode(data, mode)
    return text, grammar.scan(text, mode)


def parse(
    data: bytes,
    mode: Mode = "wslconfig",
    host_ram_bytes: int | None = None,
    host_cpus: int | None = None,
) -> Parsed:
    """Read ``data`` as WSL reads it; never raises. Without the host's figures what depends on them is None."""
    text, items = _scanned(bytes(data), mode)
    reading = _Reading(mode, bytes(data), text.encoding)
    if not text.readable:
        reading.problem(None, None, UNREADABLE, _unreadable_message(text.encoding))
    reading.take(items)
    effective = reading.effective(host_ram_bytes, host_cpus) if mode == "wslconfig" else None
    if reading.unlisted:
        message = ngettext("{n} more problem is not listed", "{n} more problems are not listed", reading.unlisted)
        reading.problems.append(Problem(None, None, MORE, message.format(n=reading.unlisted)))
    stopped = mode == "wslconf" and any(isinstance(item, Fault) for item in items)
    return Parsed(
        mode=mode,
        encoding=text.encoding,
        readable=text.readable,
        accepted=tuple(reading.accepted),
        rejected=tuple(reading.rejected),
        problems=tuple(reading.problems),
        fatal=reading.fatal,
        complete=text.readable and not stopped and reading.fatal is None,
        effective=effective,
        notes=tuple(_notes(data, text.encoding, items, reading, host_ram_bytes)),
        items=items,
    )


def _notes(
    data: bytes, encoding: str, items: tuple[Item, ...], reading: _Reading, host_ram_bytes: int | None
) -> Iterator[Problem]:
    """What WSL does without a word and the user would want to know."""
    if encoding == grammar.UTF8 and b"\0" in data[:64]:
        message = _(
            "this looks like UTF-16 without a byte order mark, which WSL reads as rubbish: save the file as UTF-8"
        )
        yield Problem(None, None, "utf16_without_mark", message)
    counting = {a.line: a for a in reading.accepted}
    for entry in (i for i in items if isinstance(i, Entry) and i.line in counting):
        if reading.mode == "wslconfig" and not entry.raw.isascii():
            message = _("letters outside ASCII are cut to something else by WSL: this path will not be found")
            yield Problem(entry.line, counting[entry.line].key, "not_ascii", message)
    if reading.mode == "wslconf":
        yield from _wslconf_notes(reading)
    for setting in reading.accepted:
        key = keys.find(setting.key, reading.mode)
        if key is None or key.kind != "size":
            continue
        size = int(setting.value)
        if 0 < size < MIB:
            message = _("{raw} means {size} bytes: write a unit, like {raw}GB").format(
                raw=setting.raw, size=size
            )
            yield Problem(setting.line, setting.key, "bytes_without_unit", message)
        if setting.key == "wsl2.memory" and host_ram_bytes is not None and size > host_ram_bytes:
            message = _(
                "more than the machine has ({ram:.1f} GiB): WSL takes all of it and Windows starves"
            ).format(ram=host_ram_bytes / GIB)
            yield Problem(setting.line, setting.key, "memory_above_host", message)
        elif setting.key == "wsl2.memory" and host_ram_bytes is not None and host_ram_bytes - size < windows_keeps_bytes(host_ram_bytes):
            message = _("leaves Windows only {left:.1f} of {ram:.1f} GiB; it should keep {keeps:.1f} GiB: with less, all that runs on it slows down or is ended").format(
                left=(host_ram_bytes - size) / GIB, ram=host_ram_bytes / GIB, keeps=windows_keeps_bytes(host_ram_bytes) / GIB
            )
            yield Problem(setting.line, setting.key, "memory_leaves_little", message)


def windows_keeps_bytes(host_ram_bytes: int) -> int:
    """The RAM that should stay with Windows: a quarter, at least 4 and at most 24 GiB."""
    return min(max(host_ram_bytes // 4, 4 * GIB), 24 * GIB)


def _wslconf_notes(reading: _Reading) -> Iterator[Problem]:
    """What a server inside the distribution would miss."""
    lines = {a.key: a.line for a in reading.accepted}

    def note(key: str, kind: str, message: str) -> Problem:
        return Problem(lines.get(key), key, kind, message)

    if not reading.flag("boot.systemd"):
        message = _(
            "systemd is off: services (a Docker engine of this distribution, vLLM as a service) do not start by themselves; systemd=true under [boot] turns it on"
        )
        yield note("boot.systemd", "no_systemd", message)
    if not reading.flag("interop.enabled"):
        message = _(
            "Windows programs cannot be started from here: the wizard can then neither ask Windows for its RAM nor find the Windows profile"
        )
        yield note("interop.enabled", "no_interop", message)
    if not reading.flag("gpu.enabled"):
        yield note("gpu.enabled", "no_gpu", _("the GPU is kept from this distribution: vLLM cannot see it"))
    if not reading.flag("automount.enabled"):
        message = _("Windows drives are not mounted: models on them cannot be found or copied")
        yield note("automount.enabled", "no_automount", message)
    elif "metadata" not in reading.values.get("automount.options", "").split(","):
        message = _(
            "without metadata in the automount options a file on a Windows drive cannot be closed to others (chmod does nothing there): keep secrets off those drives"
        )
        yield note("automount.options", "no_metadata", message)


def value_of(key: keys.Key, raw: str) -> str | None:
    """The value that WSL takes for ``raw``, as text; None when it refuses it."""
    value: Any
    if key.kind == "size":
        value = keys.parse_size(raw)
    elif key.kind == "int":
        value = keys.parse_int(raw)
    elif key.kind == "bool":
        flag = keys.parse_bool(raw)
        value = None if flag is None else str(flag).lower()
    elif key.kind == "enum":
        value = keys.parse_enum(key, raw)
    elif key.kind == "mac":
        value = keys.parse_mac(raw)
    elif key.kind == "ipv4":
        value = keys.parse_ipv4(raw)
    elif key.kind == "ports":
        value = None if keys.parse_ports(raw)[1] else raw
    else:
        value = raw
    return None if value is None else str(value)


class _Reading:
    """What WSL's key table holds while the lines come in."""

    def __init__(self, mode: Mode, data: bytes, encoding: str) -> None:
        self.mode = mode
        self._data, self._encoding = data, encoding
        self.accepted: list[Accepted] = []
        self.rejected: list[Rejected] = []
        self.problems: list[Problem] = []
        self.fatal: str | None = None
        self.seen: dict[str, Entry] = {}
        self.values: dict[str, str] = {}
        self.ports: frozenset[int] = frozenset()
        self.bad_dns_ip = False
        self.unlisted = 0

    def problem(self, line: int | None, key: str | None, kind: str, message: str) -> None:
        if len(self.problems) < LISTED:
            self.problems.append(Problem(line, key, kind, message))
        else:
            self.unlisted += 1

    def take(self, items: tuple[Item, ...]) -> None:
        told: dict[tuple[str, str], str] = {}
        for item in items:
            if isinstance(item, Fault):
                what = item.kind, item.detail
                if what not in told:
                    told[what] = _fault_message(item, self.mode)
                self.problem(item.line, None, item.kind, told[what])
            elif isinstance(item, Entry):
                self._entry(item)
                if self.fatal is not None:
                    return

    def _entry(self, entry: Entry) -> None:
        key = keys.find(entry.name, self.mode)
        if key is None:
            self.problem(entry.line, entry.name, UNKNOWN_KEY, _unknown_message(entry.name, self.mode))
            return
        first = self.seen.get(key.name)
        if first is not None:
            self.problem(entry.line, key.name, DUPLICATE_KEY, _duplicate_message(key.name, first, entry))
            return
        raw = entry.raw_text
        value = value_of(key, raw)
        if key.kind == "mac" and value is None:
            self.fatal = _(
                "line {line}: WSL does not start at all while {key} is {raw!r}; it must look like 00:15:5D:01:02:03"
            ).format(line=entry.line, key=key.name, raw=raw)
            self.problem(entry.line, key.name, INVALID["mac"], self.fatal)
            self.rejected.append(Rejected(key.name, raw, entry.line))
            return
        self.seen[key.name] = entry
        if key.kind == "ports":
            self.ports, refused = keys.parse_ports(raw)
        else:
            refused = int(value is None)
        if value is None:
            for _again in range(refused):
                self.problem(entry.line, key.name, INVALID[key.kind], _invalid_message(key, self._as_it_stands(entry)))
            self.rejected.append(Rejected(key.name, raw, entry.line))
            self.bad_dns_ip = self.bad_dns_ip or key.kind == "ipv4"
            return
        self.values[key.name] = value
        self.accepted.append(Accepted(key.name, raw, value, entry.line))

    def _as_it_stands(self, entry: Entry) -> str:
        """The value as the user knows it: what WSL makes of letters outside ASCII is nothing to recognise it by."""
        raw = entry.raw_text
        if raw.isascii() and raw.isprintable():
            return raw
        own = self._data[entry.value_start : entry.value_end]
        return own.decode("utf-16-le" if self._encoding == grammar.UTF16LE else "utf-8", "replace")

    def effective(self, host_ram_bytes: int | None, host_cpus: int | None) -> Effective:
        """What WSL makes of the values: defaults, clamps, and settings that switch others off."""
        safe = self.flag("wsl2.safeMode")
        processors = self._processors(host_cpus)
        memory = self._memory(host_ram_bytes)
        swap = self._swap(memory)
        mode = self.values.get("wsl2.networkingMode", "Nat")
        firewall = mode == "Mirrored" or self.flag("wsl2.firewall")
        dns = self.flag("wsl2.dnsTunneling") and not self.bad_dns_ip
        virtio = self.flag("wsl2.virtio", default=True)
        virtiofs = self.flag("wsl2.virtiofs")
        virtio9p = self.flag("wsl2.virtio9p")
        gpu = self.flag("wsl2.gpuSupport")
        kernel = self.values.get("wsl2.kernel", "")
        if safe:
            self.problem(
                None,
                "wsl2.safeMode",
                SAFE_MODE,
                _("wsl2.safeMode is on: WSL switches GPU support, swap, networking and more off"),
            )
            virtio = gpu = dns = False
            swap, mode, kernel = 0, "None", ""
        if not virtio:
            virtiofs = virtio9p = False
            if mode == "Consomme":
                mode = "Nat"
                self.problem(
                    None,
                    "wsl2.networkingMode",
                    NEEDS_VIRTIO,
                    _("networkingMode=Consomme (VirtioProxy) needs wsl2.virtio; WSL falls back to NAT"),
                )
        if virtio9p:
            self.problem(
                None,
                "wsl2.virtio9p",
                VIRTIO9P,
                _("wsl2.virtio9p is switched off in this WSL; drives are shared through plain 9p"),
            )
        if mode not in ("Nat", "Mirrored", "Consomme"):
            dns = False
        return Effective(
            memory_bytes=memory,
            swap_bytes=swap,
            processors=processors,
            networking_mode=mode,
            auto_memory_reclaim=self.values.get("experimental.autoMemoryReclaim", "DropCache"),
            sparse_vhd=self.flag("experimental.sparseVhd"),
            gpu_support=gpu,
            localhost_forwarding=self.flag("wsl2.localhostForwarding"),
            vm_idle_timeout_ms=self._int("wsl2.vmIdleTimeout"),
            instance_idle_timeout_ms=self._int("general.instanceIdleTimeout"),
            dns_tunneling=dns,
            firewall=firewall,
            virtiofs=virtiofs,
            ignored_ports=tuple(sorted(self.ports)) if mode == "Mirrored" else (),
            swap_file=self.values.get("wsl2.swapFile", ""),
            kernel=kernel,
        )

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean's value, else its default in the key table, else ``default``."""
        value = self.values.get(name)
        if value is not None:
            return value == "true"
        key = keys.find(name, self.mode)
        return default if key is None or key.default is None else bool(key.default)

    def _int(self, name: str) -> int:
        value = self.values.get(name)
        if value is not None:
            return int(value)
        key = keys.find(name, self.mode)
        return 0 if key is None else int(key.default)

    def _memory(self, host_ram_bytes: int | None) -> int | None:
        wanted = int(self.values.get("wsl2.memory", "0"))
        if wanted == 0:
            return None if host_ram_bytes is None else host_ram_bytes // 2
        wanted = max(wanted, 256 * MIB)
        return wanted if host_ram_bytes is None else min(wanted, host_ram_bytes)

    def _swap(self, memory: int | None) -> int | None:
        wanted = int(self.values.get("wsl2.swap", str(_SENTINEL)))
        if wanted != _SENTINEL:
            return wanted
        return None if memory is None else default_swap_bytes(memory)

    def _processors(self, host_cpus: int | None) -> int | None:
        wanted = self._int("wsl2.processors")
        if wanted <= 0:
            return host_cpus
        if host_cpus is not None and wanted > host_cpus:
            self.problem(
                None,
                "wsl2.processors",
                PROCESSORS,
                _(
                    "wsl2.processors is {wanted}, but the machine has {cpus} logical processors; WSL uses {cpus}"
                ).format(wanted=wanted, cpus=host_cpus),
            )
            return host_cpus
        return wanted


def default_swap_bytes(memory_bytes: int) -> int:
    """The swap that WSL makes when none is asked for: a quarter of the VM's memory, rounded up to a GiB."""
    return -(-(memory_bytes // 4) // GIB) * GIB


def _unreadable_message(encoding: str) -> str:
    return _(
        "WSL cannot read a file in {encoding}: it uses its defaults for everything. Save the file as UTF-8."
    ).format(encoding=encoding.upper())


def _fault_message(fault: Fault, mode: Mode) -> str:
    if fault.kind == grammar.INVALID_KEY:
        text = _("a line must begin with a letter, '[' or '#' (a comment with ';' is none for WSL)")
    elif fault.kind == grammar.INVALID_SECTION:
        text = _("a section name must begin with a letter")
    elif fault.kind == grammar.INVALID_ESCAPE:
        text = _("'\\{char}' is no escape that WSL knows: write a backslash as '\\\\'").format(
            char=fault.detail
        )
    elif fault.detail == '"':
        text = _("a quotation mark is opened and never closed")
    elif fault.detail == "=":
        text = _("'=' is missing after the key (a key has letters and digits only)")
    elif fault.detail == "]":
        text = _("']' is missing after the section name (it has letters and digits only, without spaces)")
    else:
        text = _("nothing but a comment may follow a section name")
    if mode == "wslconf":
        return sentences(stopped(text), _("WSL ignores the rest of the file from here."))
    return sentences(stopped(text), _("WSL skips this line."))


def _unknown_message(name: str, mode: Mode) -> str:
    other: Mode = "wslconf" if mode == "wslconfig" else "wslconfig"
    there = keys.find(name, other)
    here = keys.elsewhere(name, mode)
    if there is None and here is None:
        there = keys.elsewhere(name, other)
    if there is not None:
        file = "/etc/wsl.conf" if other == "wslconf" else ".wslconfig"
        return _("WSL does not know {name} in this file: {key} belongs into {file}").format(
            name=name, key=there.name, file=file
        )
    if here is not None:
        section = here.name.partition(".")[0]
        return _("WSL does not know {name}: it belongs under [{section}]").format(name=name, section=section)
    return _("WSL does not know {name}; it ignores this line").format(name=name)


def _duplicate_message(key: str, first: Entry, entry: Entry) -> str:
    return _(
        "{key} was already set on line {first} (even a value that WSL refused counts): this line is ignored"
    ).format(key=key, first=first.line)


def _invalid_message(key: keys.Key, raw: str) -> str:
    if key.kind == "size":
        return _(
            "{raw!r} is no size that WSL reads for {key}: write it like 16GB or 512MB, whole and without a space"
        ).format(raw=raw, key=key.name)
    if key.kind == "int":
        return _("{raw!r} is no whole number for {key}").format(raw=raw, key=key.name)
    if key.kind == "bool":
        return _("{raw!r} is neither true nor false for {key}").format(raw=raw, key=key.name)
    if key.kind == "ipv4":
        return _("{raw!r} is no IPv4 address for {key}; DNS tunnelling is switched off").format(
            raw=raw, key=key.name
        )
    if key.kind == "ports":
        return _("{raw!r} for {key} holds something that is no port from 1 to 65535").format(
            raw=raw, key=key.name
        )
    valid = ", ".join(spelling for spelling, _value in key.values)
    return _("{raw!r} is no value for {key}: it may be {valid}").format(raw=raw, key=key.name, valid=valid)
