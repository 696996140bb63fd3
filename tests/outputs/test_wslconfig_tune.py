"""The size of the WSL 2 machine: the rule, the user's own values, and the warnings."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.outputs.wsl_machine import wsl_machine
from wizard.facts import Fact, Mount, MountKind
from wizard.outputs.wslconfig import WslAdvice, edit, parse, tune

GIB = 1 << 30


def advise(
    ram: float | None = 32, cpus: int | None = 16, weights: float | None = 5, gpus: int = 1, **more: object
) -> WslAdvice:
    existing = more.pop("existing", None)
    return tune(
        host_ram_bytes=None if ram is None else round(ram * GIB),
        host_cpus=cpus,
        weights_bytes=None if weights is None else round(weights * GIB),
        gpu_count=gpus,
        existing=existing.encode() if isinstance(existing, str) else existing,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


def value(advice: WslAdvice, key: str) -> str | None:
    setting = advice.setting(key)
    return setting.value if setting is not None else None


@pytest.mark.parametrize(
    ("ram", "weights", "gpus", "memory", "swap"),
    [
        (16, 2, 1, "10GB", "4GB"),  # 8 needed, 10 with the weights
        (16, 20, 1, "12GB", "4GB"),  # Windows keeps 4
        (32, 5, 1, "16GB", "4GB"),  # half of the RAM is WSL's own default
        (32, 10.5, 1, "19GB", "5GB"),
        (32, 40, 1, "24GB", "6GB"),
        (64, 40, 2, "48GB", "12GB"),
        (128, 10, 1, "64GB", "16GB"),
        (256, 300, 2, "232GB", "58GB"),  # Windows never needs more than 24
        (8, 3, 1, "4GB", "4GB"),
        (31.8, 40, 1, "23GB", "6GB"),
        (31.8, 5, 1, "16GB", "4GB"),
        (64, None, 1, "32GB", "8GB"),
    ],
)
def test_memory_and_swap(ram: float, weights: float | None, gpus: int, memory: str, swap: str) -> None:
    advice = advise(ram, 16, weights, gpus)
    assert (value(advice, "wsl2.memory"), value(advice, "wsl2.swap")) == (memory, swap)


@pytest.mark.parametrize(("cpus", "wanted"), [(4, None), (8, None), (9, "7"), (32, "30"), (None, None)])
def test_processors(cpus: int | None, wanted: str | None) -> None:
    assert value(advise(cpus=cpus), "wsl2.processors") == wanted


def test_offload_and_multimodal_are_needed() -> None:
    plain, both = (
        advise(128, weights=60),
        advise(128, weights=60, cpu_offload_bytes=30 * GIB, multimodal=True),
    )
    assert both.need_bytes - plain.need_bytes == 38 * GIB
    assert value(both, "wsl2.memory") == "104GB"
    assert both.fits is True  # 46 are needed, 106 with the weights, 104 can be had


def test_a_need_above_the_cap_is_said() -> None:
    advice = advise(16, weights=4, cpu_offload_bytes=12 * GIB)
    assert advice.fits is False
    assert value(advice, "wsl2.memory") == "12GB"
    assert "20 GiB" in advice.warnings[0]
    setting = advice.setting("wsl2.memory")
    assert setting is not None
    assert "do not fit" in setting.reason


def test_without_the_hosts_ram_nothing_is_made_up() -> None:
    advice = advise(ram=None, keep_alive=True)
    assert advice.question
    assert advice.fits is None
    assert set(advice.changes) == {"wsl2.processors", "wsl2.vmIdleTimeout", "general.instanceIdleTimeout"}


@pytest.mark.parametrize(
    ("own", "kept", "memory"),
    [
        ("20GB", True, "20GB"),  # more than we would take
        ("13GB", True, "13GB"),  # less than half of the RAM, but enough
        ("26GB", True, "26GB"),  # above the cap; Windows has 6 left
        ("29GB", False, "16GB"),  # Windows would have 3 left
        ("32GB", False, "16GB"),
        ("99GB", False, "16GB"),
        ("9GB", False, "16GB"),  # the weights would not fit into the cache
        ("0", False, "16GB"),
        ("16 GB", False, "16GB"),
    ],
)
def test_own_memory(own: str, kept: bool, memory: str) -> None:
    advice = advise(32, weights=5, existing=f"[wsl2]\nmemory={own}\n")
    setting = advice.setting("wsl2.memory")
    assert setting is not None
    assert (setting.value, not setting.change) == (memory, kept)
    assert setting.current == own
    assert own in setting.reason or own == "0"


@pytest.mark.parametrize(("own", "swap"), [("0", "4GB"), ("2GB", "4GB"), ("4GB", "4GB"), ("64GB", "64GB")])
def test_own_swap(own: str, swap: str) -> None:
    advice = advise(32, weights=5, existing=f"[wsl2]\nswap={own}\n")
    assert value(advice, "wsl2.swap") == swap
    assert ("wsl2.swap" in advice.changes) == (own != swap)
    assert any("swap=0" in w for w in advice.warnings) == (own == "0")


@pytest.mark.parametrize(
    ("own", "cpus", "wanted"),
    [("2", 16, "14"), ("4", 16, "4"), ("16", 16, "16"), ("17", 16, "14"), ("2", 8, "8"), ("0", 16, "0")],
)
def test_own_processors(own: str, cpus: int, wanted: str) -> None:
    advice = advise(cpus=cpus, existing=f"[wsl2]\nprocessors={own}\n")
    assert value(advice, "wsl2.processors") == wanted


def test_keep_alive_keeps_what_is_there() -> None:
    advice = advise(keep_alive=True, existing="[general]\ninstanceIdleTimeout=-5\n[wsl2]\nvmIdleTimeout=9\n")
    assert "general.instanceIdleTimeout" not in advice.changes
    assert advice.changes["wsl2.vmIdleTimeout"] == "-1"
    assert not any("last terminal" in n for n in advice.notes)
    assert any("last terminal" in n for n in advise().notes)


def test_the_users_choice_takes_the_place_of_ours() -> None:
    own = "[wsl2]\nprocessors=3\n"
    advice = advise(existing=own).with_value("wsl2.memory", "18GB", "you chose")
    advice = advice.with_value("wsl2.processors", None, "you chose")
    assert advice.changes["wsl2.memory"] == "18GB"
    assert advice.changes["wsl2.processors"] is None
    assert "processors" not in edit(own.encode(), advice.changes).decode()
    assert not advise().with_value("wsl2.processors", None, "you chose").changes.get("wsl2.processors")


def test_warnings_name_what_hurts() -> None:
    text = "[wsl2]\nnetworkingMode=mirrored\nmemory=64GB\nswapFile=D:\\\\s.vhdx\nswap=50GB\ngpuSupport=false\n[experimental]\nsparseVhd=true\n"
    drive = Mount(
        "/mnt/d", "9p", MountKind.WINDOWS_DRIVE, "D:\\", free_bytes=Fact(10 * GIB), windows_path="D:\\"
    )
    machine = wsl_machine(desktop=True, mounts=(drive,))
    advice = advise(existing=text, machine=machine)
    found = " ".join(advice.warnings)
    for word in ("sparseVhd", "mirrored", "memory=64GB", "D:", "gpuSupport"):
        assert word in found
    assert any("Docker Desktop" in n for n in advice.notes)
    without_docker = replace(machine, docker=replace(machine.docker, cli=Fact(None, "", "not installed")))
    assert not any(
        "mirrored" in w
        for w in advise(existing="[wsl2]\nnetworkingMode=mirrored", machine=without_docker).warnings
    )
    assert not advise(existing="[wsl2]\nmemory=16GB\n", machine=wsl_machine()).warnings


def test_the_swap_file_needs_room_on_the_system_drive() -> None:
    machine = wsl_machine()
    assert machine.wsl is not None
    full = replace(machine, wsl=replace(machine.wsl, host_free_disk_bytes=Fact(3 * GIB)))
    assert any("3.0 GiB free" in w for w in advise(machine=full).warnings)
    assert not advise(machine=machine).warnings
    # On a drive that is not seen nothing is known; on a network drive it is slow.
    assert not advise(existing="[wsl2]\nswapFile=Q:\\\\s.vhdx\n", machine=full).warnings
    assert any(
        "network" in w
        for w in advise(existing="[wsl2]\nswapFile=\\\\\\\\nas\\\\s.vhdx\n", machine=machine).warnings
    )
    share = Mount("/mnt/z", "9p", MountKind.NETWORK, "Z:\\", windows_path="Z:\\")
    shared = advise(existing="[wsl2]\nswapFile=z:\\\\s.vhdx\n", machine=wsl_machine(mounts=(share,)))
    assert any("network" in w for w in shared.warnings)


SIZES = st.integers(0, 1500 << 10).map(lambda mib: mib / 1024)  # GiB


@settings(deadline=None)
@given(SIZES.map(lambda gib: gib + 2), SIZES, st.integers(0, 8), SIZES, st.booleans(), st.integers(1, 512))
def test_the_rule_holds_for_every_machine(
    ram: float, weights: float, gpus: int, offload: float, multimodal: bool, cpus: int
) -> None:
    advice = advise(ram, cpus, weights, gpus, cpu_offload_bytes=round(offload * GIB), multimodal=multimodal)
    data = edit(None, advice.changes)
    effective = parse(data, "wslconfig", round(ram * GIB), cpus).effective
    assert effective is not None
    assert effective.memory_bytes is not None
    keeps = min(max(ram / 4, 4), 24)
    cap = ram - keeps
    need = 6 + 2 * gpus + offload + (8 if multimodal else 0)
    assert advice.windows_keeps_bytes == round(keeps * GIB)
    exact = max(min(cap, need + weights), min(cap, ram / 2))
    assert effective.memory_bytes % GIB == 0 or ram < 2
    got = effective.memory_bytes / GIB
    assert got == 1 or (exact - 1 < got < exact + 1 and got <= cap)
    assert effective.swap_bytes == max(4, math.ceil(got / 4)) * GIB
    assert advice.fits == (need <= cap)
    again = tune(
        host_ram_bytes=round(ram * GIB),
        host_cpus=cpus,
        weights_bytes=round(weights * GIB),
        gpu_count=gpus,
        cpu_offload_bytes=round(offload * GIB),
        multimodal=multimodal,
        existing=data,
    )
    assert not again.changes or ram < 8
