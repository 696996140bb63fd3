"""Records of a cluster's nodes, made as ``vllm-wizard record`` writes them, and answers files that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests import build_machines as build
from tests.build_machines import Machine

KERNEL = "6.8.0-79-generic"
MODEL = "/data/models/Llama-3.1-8B-Instruct"


def node(
    folder: Path,
    name: str,
    address: str = "10.0.0.1",
    *,
    gpus: int = 4,
    gpu: str = "NVIDIA GeForce RTX 4090",
    total_mib: int = 24564,
    capability: str = "8.9",
    driver: str = "580.95.05",
    interface: str = "eth0",
    docker: bool = True,
    model: bool = False,
    nvlink: bool = False,
    network: bool = True,
    pings: dict[str, bool] | None = None,
) -> Path:
    """A node of 4 RTX 4090 unless said otherwise, recorded into ``folder/name``."""
    m = Machine(name)
    build.ubuntu(m, "24.04", KERNEL, build.EPYC, build.AVX512_BF16, 64)
    m.memory(503.5, 480.0, 0, 64)
    build.native(m, 3800, 3000, "40 28 259:5 / /data rw,relatime shared:50 - xfs /dev/nvme1n1 rw\n")
    m.disk("/data", 3800, 3000)
    if gpus:
        build.nvidia(m, gpu, gpus, total_mib, total_mib - 500, capability, driver, "13.0", nvlink=nvlink)
    if docker:
        build.docker(m, kernel=KERNEL)
    if model:
        m.model_folder(MODEL, build.llama("8B"))
    if network:
        rows = f"1: lo    inet 127.0.0.1/8 scope host lo\n2: {interface}    inet {address}/24 brd 10.0.0.255 scope global {interface}\n3: docker0    inet 172.17.0.1/16 scope global docker0\n"
        m.command(["ip", "-o", "-4", "addr", "show"], rows)
    for other, answers in (pings or {}).items():
        m.command(["ping", "-c", "1", "-W", "2", other], "" if answers else "100% packet loss\n", returncode=0 if answers else 1)
    kept, build.OUT = build.OUT, folder
    try:
        m.write()
    finally:
        build.OUT = kept
    return folder / name


def address_of(at: int) -> str:
    return f"10.0.{at // 250}.{at % 250 + 1}"


def answers_text(nodes: list[tuple[str, str, Any]], *, cluster: dict[str, Any] | None = None, **answers: Any) -> str:
    """An answers file: ``nodes`` are (name, address, record), perhaps with interface and release behind."""
    import tomli_w

    rows = []
    for row in nodes:
        made = {"name": row[0], "address": row[1], "machine": str(row[2])}
        if len(row) > 3:
            made["interface"] = row[3]
        if len(row) > 4:
            made["release"] = row[4]
        rows.append(made)
    document: dict[str, Any] = {"format": 1, "answers": answers}
    if cluster:
        document["cluster"] = cluster
    if rows:
        document["nodes"] = rows
    return tomli_w.dumps(document)
