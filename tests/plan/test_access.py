"""Who reaches the server is said as it is where the server really runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.conftest import session_of
from wizard.facts import known
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.session import Session, Value


def choice(made: Plan, value: str) -> tuple[str, str]:
    hit = next(c for c in made.choices["access"] if c.value == value)
    return hit.label, hit.note


def text_of(made: Plan, name: str) -> str:
    return next(f for f in files(made) if f.path == name).content.decode()


def test_a_server_inside_a_container_does_not_claim_to_be_reached_from_windows() -> None:
    made = plan(session_of("wsl2-container"))
    assert made.runtime == "local"
    assert made.argv[made.argv.index("--host") + 1] == "127.0.0.1"
    label, note = choice(made, "local")
    assert label == "This container only"
    assert "Windows" not in note
    assert "container" in made.reason("access")
    assert "-p" in choice(made, "network")[1]
    tried = next(s for s in made.after if "curl" in " ".join(s.commands))
    assert "-p 8000:8000" in tried.consequence
    assert "nothing outside it reaches" in text_of(made, "launch.sh")


def test_opened_to_the_network_inside_a_container_names_the_published_port() -> None:
    made = plan(session_of("wsl2-container", access="network"))
    script = text_of(made, "launch.sh")
    assert "-p 8000:8000" in script
    assert "address of Windows" not in script


def test_an_engine_outside_the_container_publishes_outside_of_it() -> None:
    session = session_of("wsl2-container")
    engine = replace(session.machine.docker, cli=known("28.0", "x"), engine=known("28.0", "x"), nvidia_runtime=known(True, "x"), fault="")
    made = plan(replace(session, machine=replace(session.machine, docker=engine)))
    assert made.runtime == "docker"
    assert choice(made, "local") == ("The machine of the Docker engine only", "not this container itself")
    assert "docker_outside" in {w.code for w in made.warnings}
    tried = next(s for s in made.after if "curl" in " ".join(s.commands))
    assert "not in this container" in tried.consequence
    assert "not of this container" in text_of(made, "launch.sh")


def with_wsl(name: str, mode: str | None, wslconfig: bytes | None) -> Session:
    session = session_of(name, runtime="local")
    wsl = session.machine.wsl
    assert wsl is not None
    wsl = replace(wsl, wslconfig_bytes=wslconfig)
    if mode:
        wsl = replace(wsl, networking_mode=known(mode, "made up"))
    return replace(session, machine=replace(session.machine, wsl=wsl))


@pytest.mark.parametrize(
    ("mode", "own", "reached"),
    [
        (None, None, True),
        ("nat", b"[wsl2]\nlocalhostForwarding=false\n", False),
        ("mirrored", b"[wsl2]\nlocalhostForwarding=false\n", True),
        ("none", None, False),
    ],
)
def test_windows_reaches_what_wsl2_passes_on(mode: str | None, own: bytes | None, reached: bool) -> None:
    label, note = choice(plan(with_wsl("wsl2-rtx4090-desktop", mode, own)), "local")
    assert ("also from Windows" in note) is reached
    assert (label == "This machine only") is reached


WAYS = [(name, way) for name in ("wsl2-no-gpu", "wsl2-rtx4090-desktop", "native-rtx5090") for way in ("docker", "local")]


@pytest.mark.parametrize(("name", "runtime"), [*WAYS, ("wsl2-rtx5070-laptop-old-driver", "local")])
def test_what_stands_above_an_open_port_does_not_say_that_it_is_closed(name: str, runtime: str) -> None:
    answers: dict[str, Value] = {"access": "network", "runtime": runtime}
    made = plan(session_of(name, **answers))
    assert made.can_serve
    for file in ("compose.yaml", "launch.sh"):
        lines = text_of(made, file).splitlines()
        at = next(i for i, line in enumerate(lines) if "0.0.0.0" in line and not line.lstrip().startswith("#"))
        at -= lines[at - 1].strip() == "ports:"
        above: list[str] = []
        while lines[at - 1 - len(above)].lstrip().startswith("#"):
            above.insert(0, lines[at - 1 - len(above)].strip(" #"))
        words = " ".join(above)
        assert "other machines reach the server" in words
        assert "only programs" not in words
        assert "take local" not in words
