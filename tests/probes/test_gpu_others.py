"""AMD and Intel GPUs, and machines where none can be used."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.facts import Vendor
from wizard.probes import gpu, gpu_amd, gpu_intel

GIB = 1024**3
STATIC, MEMORY, ROCM = gpu_amd.AMD_SMI_STATIC, gpu_amd.AMD_SMI_MEMORY, gpu_amd.ROCM_SMI


def test_amd_smi_with_the_newer_outer_object(make_host: Any) -> None:
    row = {
        "gpu": 3,
        "asic": {"market_name": "AMD Radeon PRO W7900", "target_graphics_version": "gfx1100"},
        "vram": {"size": {"value": 46064, "unit": "MB"}},
        "driver": {"name": "amdgpu", "driver_version": "6.16.6"},
    }
    used = {
        "gpu": 3,
        "mem_usage": {"total_vram": "N/A", "used_vram": {"value": 64, "unit": "MB"}, "free_vram": "N/A"},
    }
    host = make_host(
        commands={
            STATIC: "WARNING: run as root\n" + json.dumps({"gpu_data": [row]}),
            MEMORY: json.dumps([used]),
        },
        programs={"amd-smi": "/usr/bin/amd-smi"},
    )
    stack = gpu.probe(host)
    (one,) = stack.gpus
    assert (stack.vendor, one.index, one.gfx_arch.value) == (Vendor.AMD, 3, "gfx1100")
    assert one.vram_total_bytes.value == 46064 * 1024**2
    assert one.vram_free_bytes.value == (46064 - 64) * 1024**2
    assert stack.driver_version.value == "6.16.6"
    assert not stack.rocm_version.known


def test_rocm_smi(make_host: Any) -> None:
    data = {
        "card0": {
            "VRAM Total Memory (B)": "21458059264",
            "VRAM Total Used Memory (B)": "27856896",
            "Card Series": "Radeon RX 7900 XT",
            "GFX Version": "gfx1100",
        },
        "card1": {"Card series": "Raphael", "VRAM Total Memory (B)": "536870912", "GFX Version": "gfx1036"},
        "system": {"Driver version": "6.10.5"},
    }
    host = make_host(commands={ROCM: json.dumps(data)}, programs={"rocm-smi": "/opt/rocm/bin/rocm-smi"})
    stack = gpu_amd.probe(host)
    (one,) = stack.gpus
    assert one.name == "Radeon RX 7900 XT"
    assert one.vram_free_bytes.value == 21458059264 - 27856896
    assert stack.other_gpus == ("Raphael",)
    assert stack.driver_version.value == "6.10.5"


def test_the_kernels_own_files(make_host: Any) -> None:
    node = "/sys/class/kfd/kfd/topology/nodes"
    host = make_host(
        files={
            "/sys/class/drm/card1/device/vendor": "0x1002\n",
            "/sys/class/drm/card1/device/mem_info_vram_total": "17163091968\n",
            "/sys/class/drm/card1/device/mem_info_vram_used": "1048576\n",
            "/sys/class/drm/card1-HDMI-A-1/status": "connected\n",
            f"{node}/0/properties": "cpu_cores_count 32\ngfx_target_version 0\n",
            f"{node}/1/properties": "simd_count 128\ngfx_target_version 120001\n",
            "/sys/module/amdgpu/version": "6.14.14\n",
        }
    )
    stack = gpu.probe(host)
    (one,) = stack.gpus
    assert (one.gfx_arch.value, one.vram_total_bytes.value) == ("gfx1201", 17163091968)
    assert one.vram_free_bytes.value == 17163091968 - 1048576
    assert stack.driver_version.value == "6.14.14"


def test_rocminfo_under_wsl(make_host: Any) -> None:
    text = (
        "WSL environment detected.\n=====\nHSA Agents\n=====\n*******\nAgent 1\n*******\n"
        "  Name:                    CPU\n  Device Type:             CPU\n"
        "*******\nAgent 2\n*******\n"
        "  Name:                    gfx1101\n  Marketing Name:          AMD Radeon RX 7800 XT\n"
        "  Device Type:             GPU\n"
        "    Pool 1\n      Segment:                 GLOBAL; FLAGS: COARSE GRAINED\n"
        "      Size:                    16723968(0xff3000) KB\n"
    )
    host = make_host(commands={("rocminfo",): text}, programs={"rocminfo": "/usr/bin/rocminfo"})
    (one,) = gpu_amd.probe(host).gpus
    assert (one.name, one.gfx_arch.value) == ("AMD Radeon RX 7800 XT", "gfx1101")
    assert one.vram_total_bytes.value == 16723968 * 1024
    assert not one.vram_free_bytes.known


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"value": 2, "unit": "GB"}, 2 * GIB),
        ({"value": "512", "unit": "MB"}, GIB // 2),
        ("196592 MB", 196592 * 1024**2),
        ({"value": "N/A", "unit": ""}, None),
        ("N/A", None),
        (None, None),
        (True, None),
        ({"value": -1}, None),
        ({"value": float("nan")}, None),
    ],
)
def test_amounts(value: Any, expected: int | None) -> None:
    assert gpu_amd.amount(value) == expected


@given(st.text(max_size=300))
def test_any_rocminfo_is_survived(text: str) -> None:
    gpu_amd.parse_rocminfo(text)


@pytest.mark.parametrize(
    "answer", ["", "[]", "{}", "[null, 3]", '{"gpu_data": 7}', "not json", '[{"gpu": "x", "asic": []}]']
)
def test_odd_answers_of_amd_smi(make_host: Any, answer: str) -> None:
    host = make_host(commands={STATIC: answer, MEMORY: answer}, programs={"amd-smi": "/usr/bin/amd-smi"})
    stack = gpu_amd.probe(host)
    assert all(not g.vram_total_bytes.known for g in stack.gpus)


def test_a_discrete_intel_card(make_host: Any) -> None:
    host = make_host(
        files={
            "/sys/class/drm/card0/device/vendor": "0x8086\n",
            "/sys/class/drm/card0/device/device": "0xa780\n",
            "/sys/class/drm/card1/device/vendor": "0x8086\n",
            "/sys/class/drm/card1/device/device": "0xe20b\n",
        },
        commands={("xpu-smi", "discovery", "-d", "0", "-j"): '{"memory_physical_size_byte": "12809404416"}'},
        programs={"xpu-smi": "/usr/bin/xpu-smi"},
        entries={"/sys/class/drm/card1/device/driver": {"link_to": "../../../bus/pci/drivers/xe"}},
    )
    stack = gpu_intel.probe(host)
    (one,) = stack.gpus
    assert (one.name, one.vram_total_bytes.value) == ("Intel Arc B580", 12809404416)
    assert (stack.vendor, stack.kernel_module) == (Vendor.INTEL, "xe")
    assert stack.other_gpus == ("Intel integrated graphics",)


def test_a_card_without_its_driver(make_host: Any) -> None:
    slot = "/sys/bus/pci/devices/0000:01:00.0"
    files = {f"{slot}/class": "0x030000\n", f"{slot}/vendor": "0x10de\n", f"{slot}/device": "0x2684\n"}
    bare = gpu.probe(make_host(files=files))
    assert (bare.fault, bare.kernel_module) == ("no_driver", None)
    assert "0000:01:00.0" in bare.reason
    link = {f"{slot}/driver": {"link_to": "../../../bus/pci/drivers/nouveau"}}
    nouveau = gpu.probe(make_host(files=files, entries=link))
    assert (nouveau.fault, nouveau.kernel_module) == ("no_driver", "nouveau")


def test_a_network_card_is_no_gpu(make_host: Any) -> None:
    slot = "/sys/bus/pci/devices/0000:02:00.0"
    host = make_host(
        files={f"{slot}/class": "0x020000\n", f"{slot}/vendor": "0x8086\n", f"{slot}/device": "0x15f3\n"}
    )
    stack = gpu.probe(host)
    assert stack.other_gpus == ()
    assert stack.fault == ""
    assert stack.reason == "no NVIDIA driver; no AMD GPU; no Intel GPU"
