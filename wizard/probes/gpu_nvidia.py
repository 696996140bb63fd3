"""NVIDIA GPUs: NVML first, ``nvidia-smi`` as the fallback, both read with suspicion.

On WSL the header of ``nvidia-smi`` shows two versions: that of the tool's own Linux stub and that of the
Windows driver. The second ("Driver Version", "KMD Version" in newer tools) is the one that counts.
"""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.facts import Fact, Gpu, GpuStack, Vendor, known, unknown
from wizard.host import CommandResult, Host
from wizard.i18n import _
from wizard.probes.common import (
    ENGLISH,
    MIB,
    as_dict,
    as_list,
    as_size,
    as_text,
    failure,
    gib,
    version_tuple,
)
from wizard.probes.gpu_names import (
    compute_capability_of,
    cuda_of_driver,
    is_capability,
    shares_system_memory,
)

# Eight GPUs without persistence mode are woken one after the other: 10 s and more are common.
SMI_TIMEOUT_S = 14.0
# The driver that has just failed to answer NVML is not given the whole time again.
SMI_TIMEOUT_AFTER_HANG_S = 1.5
# The table of links is a help only: it may not cost what the driver has told already.
TOPOLOGY_TIMEOUT_S = 1.5
WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
QUERY_FIELDS = (
    "index",
    "name",
    "uuid",
    "driver_version",
    "memory.total",
    "memory.free",
    "compute_cap",
    "display_active",
)
_NOT_THERE = re.compile(
    r"^\W*(n/?a|not supported|unknown error|err!?|gpu requires reset|insufficient.*|not found)?\W*$", re.I
)


def probe(host: Host) -> GpuStack:
    """NVIDIA's GPUs; without any, ``reason`` and ``fault`` say why."""
    nvml_reason, nvml_hung = "", False
    try:
        stack = from_nvml(host.nvml())
        if stack.gpus:
            return _finish(host, stack)
        nvml_reason = _("NVML found no NVIDIA GPU")
    except TimeoutError as fault:
        nvml_reason, nvml_hung = str(fault), True
    except OSError as fault:
        nvml_reason = str(fault)
    stack = from_smi(host, SMI_TIMEOUT_AFTER_HANG_S if nvml_hung else SMI_TIMEOUT_S)
    if stack.gpus:
        return _finish(host, stack)
    if nvml_hung:
        return replace(stack, fault="hang", reason=f"{nvml_reason}; {stack.reason}")
    if stack.fault == "no_driver":
        # The loader's own words ("cannot open shared object file") only say the same at length.
        missing = "libnvidia-ml" in nvml_reason or "nvml.dll" in nvml_reason
        reason = _("no NVIDIA driver") if missing else _("no NVIDIA driver: {why}").format(why=nvml_reason)
        return replace(stack, reason=reason)
    return stack


def smi_program(host: Host) -> str | None:
    """``nvidia-smi`` by its name where it is on PATH, else WSL's copy by its path."""
    if host.which("nvidia-smi"):
        return "nvidia-smi"
    return WSL_SMI if host.exists(WSL_SMI) else None


# ---- NVML ------------------------------------------------------------------------------------------------


def from_nvml(data: Mapping[str, Any]) -> GpuStack:
    """The stack of what :meth:`Host.nvml` told; fields that are missing or odd become unknown."""
    gpus = []
    for number, device in enumerate(as_list(data.get("devices"))):
        device = as_dict(device)
        name = as_text(device.get("name"))
        if name is None:
            continue
        gpus.append(
            _gpu(
                index=device["index"] if isinstance(device.get("index"), int) else number,
                name=name,
                uuid=as_text(device.get("uuid")),
                total=as_size(device.get("memory_total")),
                free=_count(device.get("memory_free")),
                capability=as_text(device.get("compute_capability")),
                display=_yes_no(device.get("display_active")),
                source="NVML",
                processes=tuple(_process(as_dict(p)) for p in as_list(device.get("processes"))),
                mig=_yes_no(device.get("mig_enabled")),
            )
        )
    links = [_count(as_dict(d).get("nvlinks")) for d in as_list(data.get("devices"))]
    return _stack(
        gpus, as_text(data.get("driver_version")), as_text(data.get("cuda_driver_version")), "NVML", links
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _yes_no(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _process(process: dict[str, Any]) -> str:
    name = as_text(process.get("name")) or "?"
    used = as_size(process.get("used"))
    title = _("{name} (pid {pid})").format(name=re.split(r"[\\/]", name)[-1], pid=process.get("pid", "?"))
    return f"{title}: {gib(used)}" if used is not None else title


def _gpu(
    index: int,
    name: str,
    uuid: str | None,
    total: int | None,
    free: int | None,
    capability: str | None,
    display: bool | None,
    source: str,
    processes: tuple[str, ...] = (),
    mig: bool | None = None,
) -> Gpu:
    told = _("the driver does not tell")
    if capability is not None and is_capability(capability):
        cc = known(capability, source)
    else:
        by_name = compute_capability_of(name)
        cc = known(by_name, _("NVIDIA's list of GPUs")) if by_name else unknown(told, source)
    return Gpu(
        index=index,
        name=name,
        vendor=Vendor.NVIDIA,
        vram_total_bytes=known(total, source) if total else unknown(told, source),
        vram_free_bytes=known(free, source) if free is not None and total else unknown(told, source),
        compute_capability=cc,
        uuid=uuid,
        display_attached=unknown(told, source) if display is None else known(display, source),
        processes=processes,
        mig_enabled=unknown(told, source) if mig is None else known(mig, source),
        unified_memory=shares_system_memory(name),
    )


def _stack(
    gpus: list[Gpu], driver: str | None, cuda: str | None, source: str, links: list[int | None] | None = None
) -> GpuStack:
    told = _("the driver does not tell")
    if cuda is not None and re.fullmatch(r"\d+\.\d+", cuda):
        cuda_fact = known(cuda, source)
    else:
        guess = cuda_of_driver(driver)
        cuda_fact = known(guess, _("driver {version}").format(version=driver)) if guess else unknown(told)
    nvlink: Fact[bool]
    if len(gpus) < 2:
        nvlink = known(False, _("one GPU"))
    elif links and any(count is not None for count in links):
        nvlink = known(sum(1 for count in links if count) > 1, source)
    else:
        nvlink = unknown(told, source)
    return GpuStack(
        gpus=tuple(gpus),
        vendor=Vendor.NVIDIA,
        driver_version=known(driver, source) if driver and version_tuple(driver) else unknown(told, source),
        cuda_driver_version=cuda_fact,
        rocm_version=unknown(_("not an AMD GPU")),
        nvlink=nvlink,
    )


def _finish(host: Host, stack: GpuStack) -> GpuStack:
    """Add what the first source did not tell: NVLink from the topology table, memory that is the computer's."""
    if len(stack.gpus) > 1 and not stack.nvlink.known:
        stack = replace(stack, nvlink=_nvlink_of_topology(host))
    if any(g.unified_memory and not g.vram_total_bytes.known for g in stack.gpus):
        try:
            ram = host.memory()
        except OSError:
            return stack
        source = _("shares the computer's memory")
        gpus = [
            replace(
                g,
                vram_total_bytes=known(ram.total_bytes, source),
                vram_free_bytes=known(ram.available_bytes, source),
            )
            if g.unified_memory and not g.vram_total_bytes.known
            else g
            for g in stack.gpus
        ]
        stack = replace(stack, gpus=tuple(gpus))
    return stack


def _nvlink_of_topology(host: Host) -> Fact[bool]:
    program = smi_program(host)
    if program is None:
        return unknown(_("nvidia-smi was not found"))
    result = host.run([program, "topo", "-m"], TOPOLOGY_TIMEOUT_S, env=ENGLISH)
    linked = parse_topology(result.text) if result.ok else None
    if linked is None:
        return unknown(
            failure(result) if not result.ok else _("its table shows no GPUs"), "nvidia-smi topo -m"
        )
    return known(linked, "nvidia-smi topo -m")


def parse_topology(text: str) -> bool | None:
    """Whether two GPUs of the table of ``nvidia-smi topo -m`` are joined by NVLink; None without a table."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*GPU\d+\s", line)]
    rows = [row for row in rows if "X" in row]
    if not rows:
        return None
    return any(re.fullmatch(r"NV\d+", cell) for row in rows for cell in row[1 : len(rows) + 1])


# ---- nvidia-smi ------------------------------------------------------------------------------------------


def from_smi(host: Host, timeout_s: float) -> GpuStack:
    """What ``nvidia-smi`` tells: its CSV query, then its table for what the query lacks."""
    program = smi_program(host)
    if program is None:
        return _no(_("nvidia-smi was not found"), "no_driver")
    query = [program, f"--query-gpu={','.join(QUERY_FIELDS)}", "--format=csv,noheader,nounits"]
    started = time.monotonic()

    def left_s() -> float:
        return max(1.0, started + timeout_s - time.monotonic())

    result = host.run(query, timeout_s, env=ENGLISH)
    fields: tuple[str, ...] = QUERY_FIELDS
    if not result.ok and not result.timed_out and "compute_cap" in result.text + result.error_text:
        # Drivers before 510 do not know this field and then answer nothing at all.
        fields = tuple(f for f in QUERY_FIELDS if f != "compute_cap")
        result = host.run([program, f"--query-gpu={','.join(fields)}", query[2]], left_s(), env=ENGLISH)
    if result.timed_out:
        return _no(failure(result), "hang")
    rows = parse_query(result.text, fields) if result.ok else []
    table = host.run([program], left_s(), env=ENGLISH)
    driver, cuda = parse_header(table.text)
    if rows:
        driver = next((r["driver_version"] for r in rows if r.get("driver_version")), None) or driver
        return _stack([_gpu_of_row(r, n) for n, r in enumerate(rows)], driver, cuda, "nvidia-smi")
    gpus = parse_table(table.text)
    if gpus:
        return _stack(gpus, driver, cuda, "nvidia-smi")
    return _smi_fault(result, table)


def _no(reason: str, fault: str) -> GpuStack:
    missing: Fact[str] = unknown(reason)
    return GpuStack(driver_version=missing, cuda_driver_version=missing, reason=reason, fault=fault)


def _smi_fault(result: CommandResult, table: CommandResult) -> GpuStack:
    said = "\n".join((result.text, result.error_text, table.text, table.error_text))
    checks = (
        ("mismatch", r"driver/library version mismatch"),
        ("blocked", r"gpu access blocked"),
        ("not_loaded", r"couldn't communicate with the nvidia driver|driver not loaded|driver is not loaded"),
        ("no_devices", r"no devices were found"),
    )
    for fault, pattern in checks:
        match = re.search(f"(?i)[^\\n]*(?:{pattern})[^\\n]*", said)
        if match:
            return _no(_("nvidia-smi said: {said}").format(said=match.group(0).strip()[:300]), fault)
    if table.timed_out:
        return _no(failure(table), "hang")
    if table.returncode < 0 or table.returncode > 128 or result.returncode < 0 or result.returncode > 128:
        return _no(_("nvidia-smi crashed (exit code {code})").format(code=table.returncode), "crash")
    if not table.ok:
        return _no(failure(table), "rubbish" if table.stdout.strip() else "crash")
    return _no(_("nvidia-smi answered something that cannot be read"), "rubbish")


def _value(text: str | None) -> str | None:
    return None if text is None or _NOT_THERE.match(text) else text.strip()


def parse_query(text: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
    """The rows of the CSV query, by field; fields without a value ("[N/A]") are left out."""
    rows = []
    for cells in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(cells) != len(fields):
            continue
        row = {field: value for field, cell in zip(fields, cells, strict=True) if (value := _value(cell))}
        if "name" in row and row.get("index", "").isdecimal():
            rows.append(row)
    return rows


def _gpu_of_row(row: Mapping[str, str], number: int) -> Gpu:
    display = row.get("display_active", "").lower()
    total = as_size(row.get("memory.total"))
    free_text = row.get("memory.free", "")
    free = int(free_text) * MIB if re.fullmatch(r"\d{1,12}", free_text) else None
    return _gpu(
        index=int(row["index"]) if len(row["index"]) < 6 else number,
        name=row["name"],
        uuid=row.get("uuid"),
        total=total * MIB if total else None,
        free=free,
        capability=row.get("compute_cap"),
        display={"enabled": True, "yes": True, "on": True, "disabled": False, "no": False, "off": False}.get(
            display
        ),
        source="nvidia-smi",
    )


_HEADER_DRIVER = re.compile(r"(?:Driver|KMD) Version:\s*(\d[\d.]*)")
_HEADER_CUDA = re.compile(r"CUDA(?: UMD)? Version:\s*(\d+\.\d+)")


def parse_header(text: str) -> tuple[str | None, str | None]:
    """Driver version and newest CUDA version of the table's header."""
    driver, cuda = _HEADER_DRIVER.search(text), _HEADER_CUDA.search(text)
    return (driver.group(1).rstrip(".") if driver else None), (cuda.group(1) if cuda else None)


_CARD_LINE = re.compile(
    r"^\|\s*(\d+)\s+(\S.*?)\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\|\s*(\S+)\s+(On|Off|N/A)?\s*\|"
)
_MEMORY_LINE = re.compile(r"(\d+)\s*MiB\s*/\s*(\d+)\s*MiB")
_PROCESS_LINE = re.compile(
    r"^\|\s*(\d+)\s+(?:\S+\s+\S+\s+)?(\d+)\s+([CGM+]+)\s+(\S.*?)\s+(?:(\d+)MiB|N/A)\s*\|"
)


def parse_table(text: str) -> list[Gpu]:
    """The GPUs of the plain table. Long names are cut there ("Tesla V100-SXM2...")."""
    cards: list[tuple[int, str, bool | None]] = []
    memory: dict[int, tuple[int, int]] = {}
    processes: dict[int, list[str]] = {}
    in_processes = False
    for line in text.splitlines():
        if "Processes:" in line:
            in_processes = True
        if in_processes:
            match = _PROCESS_LINE.match(line)
            if match:
                used = int(match.group(5)) * MIB if match.group(5) else None
                one = _process({"pid": int(match.group(2)), "name": match.group(4), "used": used})
                processes.setdefault(int(match.group(1)), []).append(one)
            continue
        match = _CARD_LINE.match(line)
        if match:
            cards.append(
                (int(match.group(1)), match.group(2), {"On": True, "Off": False}.get(match.group(5) or ""))
            )
            continue
        match = _MEMORY_LINE.search(line)
        if match and cards:
            memory.setdefault(cards[-1][0], (int(match.group(1)) * MIB, int(match.group(2)) * MIB))
    gpus = []
    for index, name, display in cards:
        used, total = memory.get(index, (None, None))
        free = total - used if total is not None and used is not None and used <= total else None
        gpus.append(
            _gpu(index, name, None, total, free, None, display, "nvidia-smi", tuple(processes.get(index, ())))
        )
    return gpus
