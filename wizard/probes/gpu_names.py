"""What a GPU's name tells when its driver does not: NVIDIA's compute capability, AMD's architecture.

Figures: NVIDIA's published list of CUDA GPUs and their compute capability; the CUDA Toolkit release notes
(which driver branch brought which CUDA); AMD's ROCm list of supported GPUs; the kernel's and Mesa's lists of
Intel device numbers.
"""

from __future__ import annotations

import re

from wizard.probes.common import version_tuple

# First match wins, so the special names stand before the general ones.
_COMPUTE_CAPABILITY: tuple[tuple[str, str], ...] = (
    (r"RTX \w+ (?:SFF )?Ada|Ada Generation", "8.9"),
    (r"Quadro RTX|TITAN RTX", "7.5"),
    (r"\bG?B300\b", "10.3"),
    (r"\bG?B[12]00\b", "10.0"),
    (r"\bGB10\b|DGX Spark", "12.1"),
    (r"\bThor\b", "11.0"),
    (r"RTX PRO \d{4}|\bRTX 50[5-9]0\b", "12.0"),
    (r"\b(?:GH200|H[12]00|H800|H20)\b", "9.0"),
    (r"\bL(?:2|4|20|40|40S|40G)\b|\bRTX 40[5-9]0\b", "8.9"),
    (r"\bOrin\b", "8.7"),
    (r"\bA(?:2|10|10G|10M|16|40)\b|\bRTX 30[5-9]0\b|\bRTX 2050\b|RTX A\d{3,4}|\bMX570\b", "8.6"),
    (r"\bA(?:30|100|800)X?\b|CMP 170HX", "8.0"),
    (r"\bT4G?\b|\bRTX 20[5-8]0\b|\bGTX 16\d\d\b|\bT(?:400|500|550|600|1000|1200|2000)\b", "7.5"),
    (r"\bMX(?:450|550)\b", "7.5"),
    (r"\bXavier\b", "7.2"),
    (r"\bV100\b|TITAN V\b|GV100", "7.0"),
    (r"\bP100\b|GP100", "6.0"),
    (r"\bGTX 10\d\d\b|\bGT 10\d0\b|\bP(?:4|6|40)\b|TITAN Xp?\b|Quadro P\d+|\bMX(?:150|2\d0|3\d0)\b", "6.1"),
    (r"\bM(?:4|6|10|40|60)\b|\bGTX 9\d0M?\b|GTX TITAN X|Quadro M\d+", "5.2"),
    (r"\bK80\b", "3.7"),
    (r"\bK(?:20|40)\w?\b", "3.5"),
)
_CAPABILITIES = tuple((re.compile(pattern, re.IGNORECASE), cc) for pattern, cc in _COMPUTE_CAPABILITY)


def compute_capability_of(name: str) -> str | None:
    """The compute capability of an NVIDIA GPU by its name ("NVIDIA GeForce RTX 4090" -> "8.9"), or None."""
    return next((cc for pattern, cc in _CAPABILITIES if pattern.search(name)), None)


def is_capability(text: str) -> bool:
    return re.fullmatch(r"\d{1,2}\.\d", text) is not None


def shares_system_memory(name: str) -> bool:
    """Whether the GPU has no memory of its own (Grace-Blackwell desktops and the Jetson boards)."""
    return re.search(r"\bGB10\b|\bThor\b|\bOrin\b|\bXavier\b|DGX Spark", name) is not None


# The branch of a driver tells the newest CUDA that it runs; same numbers on Linux and Windows from 450 on.
_CUDA_OF_BRANCH: tuple[tuple[int, str], ...] = (
    (595, "13.2"),
    (590, "13.1"),
    (580, "13.0"),
    (575, "12.9"),
    (570, "12.8"),
    (565, "12.7"),
    (560, "12.6"),
    (555, "12.5"),
    (550, "12.4"),
    (545, "12.3"),
    (535, "12.2"),
    (530, "12.1"),
    (525, "12.0"),
    (520, "11.8"),
    (515, "11.7"),
    (510, "11.6"),
    (495, "11.5"),
    (470, "11.4"),
    (465, "11.3"),
    (460, "11.2"),
    (455, "11.1"),
    (450, "11.0"),
)


def cuda_of_driver(version: str | None) -> str | None:
    """The newest CUDA that a driver of this version runs ("576.80" -> "12.9"); None for one not known."""
    numbers = version_tuple(version)
    if not numbers or numbers[0] >= 1000:
        return None
    return next((cuda for branch, cuda in _CUDA_OF_BRANCH if numbers[0] >= branch), None)


def gfx_of_target(number: int) -> str | None:
    """``gfx942`` of the kernel's gfx_target_version 90402: the last two places are written in base 16."""
    if number <= 0:
        return None
    major, minor, step = number // 10000, number // 100 % 100, number % 100
    return f"gfx{major}{minor:x}{step:x}"


# Graphics inside a processor: some MiB of carved-out memory, no kernels in vLLM's ROCm build.
INTEGRATED_GFX = frozenset(
    {
        "gfx902",
        "gfx909",
        "gfx90c",
        "gfx1013",
        "gfx1033",
        "gfx1035",
        "gfx1036",
        "gfx1037",
        "gfx1103",
        "gfx1152",
        "gfx1153",
    }
)
# Big processors with graphics that do compute out of the computer's memory.
UNIFIED_GFX = frozenset({"gfx1150", "gfx1151"})

# Discrete Intel cards by PCI device number.
INTEL_CARDS: dict[int, str] = {
    0x56A0: "Intel Arc A770",
    0x56A1: "Intel Arc A750",
    0x56A2: "Intel Arc A580",
    0x56A5: "Intel Arc A380",
    0x56A6: "Intel Arc A310",
    0x5690: "Intel Arc A770M",
    0x5691: "Intel Arc A730M",
    0x5692: "Intel Arc A550M",
    0x5693: "Intel Arc A370M",
    0x5694: "Intel Arc A350M",
    0x56B0: "Intel Arc Pro A30M",
    0x56B1: "Intel Arc Pro A40/A50",
    0x56B2: "Intel Arc Pro A60M",
    0x56B3: "Intel Arc Pro A60",
    0x56C0: "Intel Data Center GPU Flex 170",
    0x56C1: "Intel Data Center GPU Flex 140",
    0xE20B: "Intel Arc B580",
    0xE20C: "Intel Arc B570",
    0xE210: "Intel Arc Pro B50/B60",
    0xE211: "Intel Arc Pro B60",
    0xE212: "Intel Arc Pro B50",
    0xE223: "Intel Arc Pro B70",
    0x0BD5: "Intel Data Center GPU Max 1550",
    0x0BDA: "Intel Data Center GPU Max 1100",
}
