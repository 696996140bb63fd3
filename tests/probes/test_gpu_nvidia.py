"""NVIDIA: what NVML and nvidia-smi say, in all the shapes in which they say it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.facts import GPU_FAULTS
from wizard.probes import gpu
from wizard.probes.gpu_names import compute_capability_of, cuda_of_driver, gfx_of_target
from wizard.probes.gpu_nvidia import (
    QUERY_FIELDS,
    WSL_SMI,
    from_nvml,
    parse_header,
    parse_query,
    parse_table,
    parse_topology,
    probe,
)

MIB = 1024**2
QUERY = ("nvidia-smi", f"--query-gpu={','.join(QUERY_FIELDS)}", "--format=csv,noheader,nounits")
SMI = {"nvidia-smi": "/usr/bin/nvidia-smi"}

# Two GPUs, an old driver's column widths, cut names, processes of two kinds, a missing figure.
OLD_TABLE = """\
Tue May  6 10:00:00 2024
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.199.02   Driver Version: 470.199.02   CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    0 |
| N/A   34C    P0    55W / 300W |    500MiB / 32510MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
|   1  NVIDIA TITAN V      Off  | 00000000:1B:00.0  On |                  N/A |
| 28%   40C    P8    25W / 250W |   ERR! / 12066MiB    |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|=============================================================================|
|    0   N/A  N/A      1234      C   /opt/My Tools/python              480MiB |
|    1   N/A  N/A      2345    C+G   ...\\\\Windows\\\\explorer.exe    N/A      |
+-----------------------------------------------------------------------------+
"""
# Newer tools call the driver KMD; a Windows card shows its driver model where Linux shows persistence.
NEW_TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 595.71.01              KMD Version: 596.36        CUDA UMD Version: 13.2     |
+-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA RTX PRO 6000 Blac...  WDDM  |   00000000:01:00.0  On |                  Off |
| 30%   31C    P8             14W /  600W |    1623MiB /  97887MiB |      2%      Default |
+-----------------------------------------------------------------------------------------+
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OLD_TABLE, ("470.199.02", "11.4")),
        (NEW_TABLE, ("596.36", "13.2")),
        ("| NVIDIA-SMI 590.48  Driver Version: 591.59  CUDA Version: 13.1 |", ("591.59", "13.1")),
        ("| NVIDIA-SMI 535.1  Driver Version: 535.1  CUDA Version: N/A |", ("535.1", None)),
        ("Segmentation fault", (None, None)),
    ],
)
def test_header(text: str, expected: tuple[str | None, str | None]) -> None:
    assert parse_header(text) == expected


def test_old_table() -> None:
    first, second = parse_table(OLD_TABLE)
    assert (first.index, first.name, first.compute_capability.value) == (0, "Tesla V100-SXM2...", "7.0")
    assert first.vram_total_bytes.value == 32510 * MIB
    assert first.vram_free_bytes.value == (32510 - 500) * MIB
    assert first.display_attached.value is False
    assert first.processes == ("python (pid 1234): 0.5 GiB",)
    assert (second.name, second.display_attached.value) == ("NVIDIA TITAN V", True)
    assert second.vram_total_bytes.value is None
    assert second.vram_total_bytes.reason
    assert second.processes == ("explorer.exe (pid 2345)",)


def test_new_table() -> None:
    (one,) = parse_table(NEW_TABLE)
    assert one.vram_total_bytes.value == 97887 * MIB
    assert one.compute_capability.value == "12.0"


@given(st.text(alphabet=st.sampled_from("|+- 0123456789MiBNVIDA/GPUOnf.\n:[]"), max_size=400))
def test_any_table_is_survived(text: str) -> None:
    for one in parse_table(text):
        total, free = one.vram_total_bytes.value, one.vram_free_bytes.value
        assert free is None or total is not None
    parse_header(text)
    parse_topology(text)


@given(st.lists(st.text(max_size=20), max_size=12).map(", ".join) | st.text(max_size=200))
def test_any_csv_is_survived(text: str) -> None:
    for row in parse_query(text, QUERY_FIELDS):
        assert row["name"]


def test_fields_without_value_are_unknown(make_host: Any) -> None:
    row = "0, NVIDIA GeForce RTX 3080, [N/A], 581.80, [Unknown Error], [N/A], [Not Supported], [N/A]\n"
    host = make_host(commands={QUERY: row, ("nvidia-smi",): ""}, programs=SMI)
    stack = probe(host)
    (one,) = stack.gpus
    assert one.uuid is None
    assert not one.vram_total_bytes.known
    assert not one.vram_free_bytes.known
    assert not one.display_attached.known
    assert one.compute_capability.value == "8.6"
    assert stack.driver_version.value == "581.80"
    # The table said nothing, so that CUDA comes from the driver's branch.
    assert stack.cuda_driver_version.value == "13.0"


def test_no_free_memory_left_is_zero_not_unknown(make_host: Any) -> None:
    row = "0, NVIDIA L4, GPU-1, 580.1, 23034, 0, 8.9, Disabled\n"
    host = make_host(commands={QUERY: row, ("nvidia-smi",): ""}, programs=SMI)
    (one,) = probe(host).gpus
    assert one.vram_free_bytes.value == 0


def test_an_old_driver_without_the_compute_cap_field(make_host: Any) -> None:
    fields = [f for f in QUERY_FIELDS if f != "compute_cap"]
    refused = {"stdout": 'Field "compute_cap" is not a valid field to query.\n\n', "returncode": 2}
    host = make_host(
        commands={
            QUERY: refused,
            (
                QUERY[0],
                f"--query-gpu={','.join(fields)}",
                QUERY[2],
            ): "0, Tesla T4, GPU-1, 450.51, 15109, 15000, Off\n",
            ("nvidia-smi",): "",
        },
        programs=SMI,
    )
    stack = probe(host)
    assert stack.gpus[0].compute_capability.value == "7.5"
    assert stack.cuda_driver_version.value == "11.0"
    assert host.misses == []


def test_the_copy_of_wsl_is_found_by_its_path(make_host: Any) -> None:
    row = "0, NVIDIA GeForce RTX 3070, GPU-1, 591.86, 8192, 7000, 8.6, Enabled\n"
    host = make_host(
        files={WSL_SMI: ""},
        commands={(WSL_SMI, *QUERY[1:]): row, (WSL_SMI,): NEW_TABLE.replace("596.36", "591.86")},
    )
    stack = probe(host)
    assert stack.gpus[0].vram_total_bytes.value == 8192 * MIB
    assert stack.driver_version.value == "591.86"


def test_the_table_helps_where_the_query_fails(make_host: Any) -> None:
    crash = {"stdout": "", "returncode": -11}
    host = make_host(commands={QUERY: crash, ("nvidia-smi",): OLD_TABLE}, programs=SMI)
    stack = probe(host)
    assert [g.name for g in stack.gpus] == ["Tesla V100-SXM2...", "NVIDIA TITAN V"]
    assert stack.driver_version.value == "470.199.02"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (
            {"stdout": "Failed to initialize NVML: Driver/library version mismatch\n", "returncode": 18},
            "mismatch",
        ),
        (
            {
                "stdout": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
                "that the latest NVIDIA driver is installed and running.\n",
                "returncode": 9,
            },
            "not_loaded",
        ),
        ({"stdout": "No devices were found\n", "returncode": 6}, "no_devices"),
        (
            {
                "stdout": "Failed to initialize NVML: GPU access blocked by the operating system\n",
                "returncode": 17,
            },
            "blocked",
        ),
        ({"stdout": "", "returncode": -11}, "crash"),
        ({"stdout": "", "stderr": "Segmentation fault (core dumped)", "returncode": 139}, "crash"),
        ({"stdout": "@@@@ ~~~~\n"}, "rubbish"),
        ({"stdout": "", "delay_s": 60}, "hang"),
    ],
)
def test_what_is_wrong_with_the_driver(make_host: Any, answer: dict[str, Any], fault: str) -> None:
    host = make_host(commands={QUERY: answer, ("nvidia-smi",): answer}, programs=SMI)
    stack = gpu.probe(host)
    assert (stack.gpus, stack.fault) == ((), fault)
    assert fault in GPU_FAULTS
    assert stack.reason
    assert stack.driver_version.reason


def test_nvml_that_hangs_is_named(make_host: Any) -> None:
    host = make_host(nvml={"devices": []}, nvml_delay_s=60)
    stack = gpu.probe(host)
    assert stack.fault == "hang"
    assert "NVML" in stack.reason


def test_odd_nvml_data() -> None:
    stack = from_nvml(
        {
            "driver_version": 5,
            "cuda_driver_version": "what",
            "devices": [
                None,
                {"name": None},
                {"name": "NVIDIA L4", "memory_total": -1, "memory_free": "x", "compute_capability": "eight"},
                {
                    "name": "NVIDIA L4",
                    "index": 7,
                    "memory_total": 10,
                    "memory_free": 0,
                    "processes": [None, {"pid": 3}],
                },
            ],
        }
    )
    one, two = stack.gpus
    assert (one.index, one.vram_total_bytes.value, one.compute_capability.value) == (2, None, "8.9")
    assert (two.index, two.vram_free_bytes.value) == (7, 0)
    assert not stack.driver_version.known
    assert not stack.cuda_driver_version.known


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
_DEVICE = st.dictionaries(
    st.sampled_from(
        ["name", "index", "memory_total", "memory_free", "compute_capability", "nvlinks", "processes"]
    ),
    _JSON,
)


@given(
    st.fixed_dictionaries({"devices": st.lists(_DEVICE | _JSON, max_size=3) | _JSON, "driver_version": _JSON})
)
def test_any_nvml_data_is_survived(data: dict[str, Any]) -> None:
    from_nvml(data)


def test_unified_memory_takes_the_computers(make_host: Any) -> None:
    device = {
        "index": 0,
        "name": "NVIDIA GB10",
        "memory_total": None,
        "memory_free": None,
        "compute_capability": "12.1",
    }
    host = make_host(nvml={"driver_version": "580.95", "cuda_driver_version": "13.0", "devices": [device]})
    (one,) = probe(host).gpus
    assert one.unified_memory
    assert one.vram_total_bytes.value == 2**34
    assert one.vram_free_bytes.value == 2**33


def test_topology() -> None:
    pcie = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-7\nGPU1\tPHB\t X \t0-7\n"
    assert parse_topology(pcie) is False
    assert parse_topology(pcie.replace("PHB", "NV4")) is True
    # NVLink to a network card is no link between GPUs.
    assert parse_topology("GPU0\t X \tPHB\tNV4\nGPU1\tPHB\t X \tSYS\nNIC0\tNV4\tSYS\t X \n") is False
    assert parse_topology("nothing") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA RTX 5000 Ada Generation", "8.9"),
        ("Quadro RTX 4000", "7.5"),
        ("NVIDIA RTX A4000", "8.6"),
        ("NVIDIA RTX PRO 4000 Blackwell", "12.0"),
        ("NVIDIA GeForce RTX 5080 Laptop GPU", "12.0"),
        ("NVIDIA GeForce RTX 4060 Ti", "8.9"),
        ("NVIDIA GeForce RTX 2050", "8.6"),
        ("NVIDIA GeForce RTX 2080 Ti", "7.5"),
        ("NVIDIA A100-SXM4-40GB", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA B300 SXM6 AC", "10.3"),
        ("Tesla P100-PCIE-16GB", "6.0"),
        ("NVIDIA GeForce GTX 1080", "6.1"),
        ("Microsoft Basic Display", None),
    ],
)
def test_compute_capability_by_name(name: str, expected: str | None) -> None:
    assert compute_capability_of(name) == expected


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("572.70", "12.8"),
        ("591.86", "13.1"),
        ("556.12", "12.5"),
        ("535.183.01", "12.2"),
        ("", None),
        (None, None),
        ("31.0.15", None),
    ],
)
def test_cuda_by_driver(driver: str | None, cuda: str | None) -> None:
    assert cuda_of_driver(driver) == cuda


def test_gfx_names() -> None:
    assert gfx_of_target(90402) == "gfx942"
    assert gfx_of_target(90010) == "gfx90a"
    assert gfx_of_target(110000) == "gfx1100"
    assert gfx_of_target(120001) == "gfx1201"
    assert gfx_of_target(0) is None


def test_many_gpus_that_are_woken_one_by_one_are_waited_for(make_host: Any) -> None:
    row = "0, NVIDIA H200, GPU-1, 580.1, 143771, 143000, 9.0, Disabled\n"
    slow = make_host(commands={QUERY: {"stdout": row, "delay_s": 11}, ("nvidia-smi",): ""}, programs=SMI)
    assert probe(slow).gpus
    device = {"index": 0, "name": "NVIDIA H200", "memory_total": 143771 * MIB, "memory_free": 143000 * MIB}
    assert probe(make_host(nvml={"devices": [device]}, nvml_delay_s=11)).gpus


def test_the_whole_gpu_probe_ends_within_the_time_of_all() -> None:
    from wizard.host import NVML_TIMEOUT_S
    from wizard.probes import DEFAULT_TIMEOUT_S
    from wizard.probes.gpu_nvidia import SMI_TIMEOUT_AFTER_HANG_S, SMI_TIMEOUT_S, TOPOLOGY_TIMEOUT_S

    assert NVML_TIMEOUT_S + max(SMI_TIMEOUT_AFTER_HANG_S, TOPOLOGY_TIMEOUT_S) < DEFAULT_TIMEOUT_S
    assert SMI_TIMEOUT_S + 1 + TOPOLOGY_TIMEOUT_S < DEFAULT_TIMEOUT_S
