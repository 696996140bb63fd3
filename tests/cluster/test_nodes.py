"""The list of nodes: read, and every fault named with its node before anything is written."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import machines
from tests.cluster.conftest import DENSE, cluster, made, rows
from wizard.cluster import cluster_files, read_inventory
from wizard.errors import BadInput

NODE = '[[nodes]]\nname = "a"\naddress = "10.0.0.1"\nmachine = "x"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nodes = 3", "[[nodes]]"),
        ("[[nodes]]\nname = 'a'\nmachine = 'x'", "node a: “address” is missing"),
        ("[[nodes]]\naddress = '10.0.0.1'\nmachine = 'x'", "number 1"),
        ("[[nodes]]\nname = 'a'\naddress = '10.0.0.1'", "“machine” is missing"),
        (NODE + "interfaces = 'eth0'", "“interfaces”"),
        (NODE + "interface = 'eth0,eth1'", "“eth0,eth1”"),
        (NODE + "interface = '$(reboot)'", "no name of a network interface"),
        (NODE.replace("10.0.0.1", "127.0.0.1"), "no IPv4 address that other nodes can reach"),
        (NODE.replace("10.0.0.1", "node1.local"), "“node1.local”"),
        (NODE.replace('"a"', '"../a"'), "lower-case letters"),
        (NODE.replace('"a"', "7"), "“name” must be text"),
        (NODE + NODE.replace("10.0.0.1", "10.0.0.2"), "same name: a"),
        (NODE + NODE.replace('"a"', '"b"'), "same address: 10.0.0.1"),
        ("[cluster]\nstorage = 'nfs'", "[cluster] has no “storage”"),
        ("[cluster]\nshared_storage = 'yes'", "shared_storage"),
        ("[cluster]\nnetwork_gbps = 0", "network_gbps"),
        ("[cluster]\nrouter = 'apache'", "router"),
        ("[cluster]\nhome = '/home/al ice'", "home"),
        ("cluster = 1", "“cluster” must be a table"),
        ("[[nodes]", "not valid TOML"),
    ],
)
def test_a_wrong_form_is_named(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as fault:
        read_inventory(text.encode(), "nodes.toml", str(tmp_path))
    assert words in str(fault.value)
    assert "nodes.toml" in str(fault.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadInput):
        assert read_inventory(data, "nodes.toml", "/nowhere") is not None


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_any_texts_are_safe_or_refused(name: str, address: str, interface: str) -> None:
    import tomli_w

    row = {"name": name, "address": address, "interface": interface, "machine": "x"}
    try:
        found = read_inventory(tomli_w.dumps({"nodes": [row]}).encode(), "nodes.toml", "/nowhere")
    except BadInput:
        return
    node = found.nodes[0]
    assert not set(node.name + node.address + str(node.interface)) & set(" '\"$`\\/\n;&|<>()")


def faults(records: Path, second: tuple[Any, ...], settings: dict[str, Any] | None = None, **answers: Any) -> list[Any]:
    text = machines.answers_text([rows(records, 1)[0], second], cluster=settings)
    plan = made(text, records, **{"model": DENSE, **answers})
    assert cluster_files(plan) == [] or not plan.blockers
    return list(plan.blockers)


@pytest.mark.parametrize(
    ("second", "code", "words"),
    [
        (("b", "10.0.0.2", "nowhere"), "node_unreachable", "nowhere"),
        (("b", "10.0.0.2", "three"), "gpu_short", "3 usable GPUs, and 4"),
        (("b", "10.0.0.2", "driver"), "drivers_differ", "570.86.15"),
        (("b", "10.0.0.2", "nodocker"), "node_docker", "Docker"),
        (("b", "10.0.0.2", "ib", "eth0"), "interface_missing", "no network interface eth0"),
        (("b", "10.0.0.9", "n2"), "interface_missing", "10.0.0.9"),
        (("b", "10.0.0.2", "n2", "docker0"), "interface_missing", "does not have the address"),
    ],
)
def test_a_bad_node_is_named_and_nothing_is_written(records: Path, second: tuple[Any, ...], code: str, words: str) -> None:
    found = faults(records, second)
    hits = [b for b in found if b.code == code]
    assert hits, [b.code for b in found]
    assert hits[0].title.startswith("Node b: ")
    assert words in hits[0].title + hits[0].detail


def test_all_bad_nodes_are_named_at_once(records: Path) -> None:
    text = machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", "driver"), ("c", "10.0.0.3", "gone"), ("d", "10.0.0.2".replace("2", "4"), "n2")])
    plan = made(text, records, model=DENSE)
    named = {b.title.split(":")[0] for b in plan.blockers}
    assert {"Node b", "Node c", "Node d"} <= named


def test_different_drivers_can_be_accepted(records: Path) -> None:
    assert [b.code for b in faults(records, ("b", "10.0.0.2", "driver"), {"mixed_drivers": True})] == []


def test_another_release_is_named(records: Path) -> None:
    text = machines.answers_text([rows(records, 1)[0], (*rows(records, 2)[1], "eth0", "0.30.0")])
    plan = made(text, records, model=DENSE, release="0.33.0")
    assert [(b.code, "0.30.0" in b.title) for b in plan.blockers] == [("releases_differ", True)]


def test_a_model_that_is_missing_on_a_node_is_named(records: Path) -> None:
    plan = cluster(records, 3, model=machines.MODEL)
    assert [(b.code, b.title[:8]) for b in plan.blockers] == [("model_missing", "Node n3:")]
    assert "rsync" in plan.blockers[0].commands[0]
    shared = cluster(records, 3, model=machines.MODEL, settings={"shared_storage": True})
    assert shared.blockers == ()
    assert shared.shared_storage


def test_a_node_that_does_not_answer_is_named(records: Path) -> None:
    text = machines.answers_text([("head", "10.0.0.1", "pings"), ("b", "10.0.0.2", "n2"), ("c", "10.0.0.3", "n3")], cluster={"check_reach": True})
    plan = made(text, records, model=DENSE)
    assert [(b.code, b.title[:7]) for b in plan.blockers] == [("node_unreachable", "Node b:")]


def test_wsl_behind_its_own_network_is_named(records: Path) -> None:
    folder = Path(__file__).parent.parent / "machines"
    codes = [{b.code for b in faults(records, ("b", "10.0.0.2", folder / name))} for name in ("wsl2-rtx4090-desktop", "wsl2-2x-rtx3090")]
    assert ["node_wsl_network" in c for c in codes] == [True, False]  # the second mirrors Windows' network


def test_nodes_are_not_pinged_from_afar(records: Path) -> None:
    text = machines.answers_text([("head", "10.0.0.1", "pings"), ("b", "10.0.0.2", "n2")])
    assert made(text, records, model=DENSE).blockers == ()


def test_the_interface_that_carries_the_address_is_chosen(records: Path) -> None:
    text = machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", "ib")])
    plan = made(text, records, model=DENSE)
    assert [n.network_interface for n in plan.nodes] == ["eth0", "ib0"]


def test_the_command_says_it_and_writes_nothing(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wizard.cli import run

    file = tmp_path / "nodes.toml"
    file.write_text(machines.answers_text([rows(records, 1)[0], ("b", "10.0.0.2", records / "driver")], model=DENSE))
    out = tmp_path / "out"
    assert run(["cluster", "generate", "--yes", "--answers", str(file), "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert "Node b: its GPU driver is 570.86.15" in said.err
    assert not out.exists()
    file.write_text(file.read_text().replace("10.0.0.2", "10.0.0.1"))
    with pytest.raises(BadInput):
        run(["cluster", "generate", "--yes", "--answers", str(file), "--out", str(out)])
    assert not out.exists()
