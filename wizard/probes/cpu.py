"""The processor: its name, how many threads this process may use, and the instructions that matter."""

from __future__ import annotations

import re

from wizard.facts import Cpu, Fact, known, unknown
from wizard.host import Host
from wizard.i18n import _
from wizard.probes.common import read, words

# The instruction sets that vLLM's CPU build, its quantized kernels or a choice of ours depend on.
FLAGS_THAT_MATTER = words(
    """sse4_2 avx avx2 avx_vnni fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni avx512_bf16 avx512_fp16
    amx_tile amx_bf16 amx_int8 asimd asimddp bf16 i8mm sve sve2 neon altivec vsx"""
)


def probe(host: Host) -> Cpu:
    text = read(host, "/proc/cpuinfo") if host.platform.startswith("linux") else None
    name, flags = parse_cpuinfo(text or "")
    if name is None:
        model = _named_by_system(host)
    else:
        model = known(name, "/proc/cpuinfo")
    count = host.cpu_count()
    return Cpu(
        model=model,
        logical_count=known(count, "scheduler") if count > 0 else unknown(_("the system does not say")),
        architecture=host.machine,
        flags=flags,
    )


def parse_cpuinfo(text: str) -> tuple[str | None, frozenset[str]]:
    """The processor's name and those of its flags that matter, of the text of ``/proc/cpuinfo``."""
    name: str | None = None
    flags: frozenset[str] = frozenset()
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if name is None and value and key in ("model name", "cpu model", "hardware", "cpu"):
            name = re.sub(r"\s+", " ", value)
        if not flags and key in ("flags", "features"):
            flags = FLAGS_THAT_MATTER & frozenset(value.lower().split())
    return name, flags


def _named_by_system(host: Host) -> Fact[str]:
    if host.platform == "win32":
        key = "HKLM\\HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0"
        result = host.run(["reg.exe", "query", key, "/v", "ProcessorNameString"], 3)
        match = re.search(r"REG_SZ\s+(\S.*)", result.text)
        if match:
            return known(match.group(1).strip(), "registry")
        name = host.env.get("PROCESSOR_IDENTIFIER")
        return known(name, "PROCESSOR_IDENTIFIER") if name else unknown(_("the registry does not say"))
    if host.platform == "darwin":
        result = host.run(["sysctl", "-n", "machdep.cpu.brand_string"], 3)
        if result.ok and result.text.strip():
            return known(result.text.strip(), "sysctl")
    return unknown(_("/proc/cpuinfo does not name it"))
