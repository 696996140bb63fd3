"""Docker: which engine answers, whether it gives GPUs, and why none answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.facts import DOCKER_FAULTS
from wizard.probes import docker
from wizard.probes.docker import COMPOSE, IMAGES, INFO, INFO_TEXT, from_info, parse_info_text

HAS = {"docker": "/usr/bin/docker"}
WSL = {
    "/proc/sys/kernel/osrelease": "6.6.87.2-microsoft-standard-WSL2",
    "/proc/self/mountinfo": r"75 66 8:48 / / rw - ext4 /dev/sdd rw"
    + "\n"
    + r"97 75 0:5 / /mnt/c rw - 9p C:\134 rw,aname=drvfs;path=C:\134"
    + "\n",
}
DESKTOP = {"/mnt/c/Program Files/Docker/Docker/Docker Desktop.exe": ""}


def answer(**info: Any) -> dict[str, Any]:
    client = {
        "Version": "29.1.3",
        "Plugins": [{"Name": "buildx", "Version": "v0.30"}, {"Name": "compose", "Version": "v5.0.1"}],
    }
    return {"stdout": json.dumps({"ClientInfo": client, **info}) + "\n"}


ENGINE = {
    "ServerVersion": "29.1.3",
    "OperatingSystem": "Ubuntu 24.04.3 LTS",
    "KernelVersion": "6.8.0-79-generic",
    "Runtimes": {"runc": {}, "io.containerd.runc.v2": {}},
    "DockerRootDir": "/data/docker",
    "MemTotal": 2**35,
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "OSType": "linux",
}


def test_an_engine_with_everything(make_host: Any) -> None:
    host = make_host(
        commands={
            INFO: answer(
                **{**ENGINE, "Runtimes": {"nvidia": {}, "runc": {}}, "SecurityOptions": ["name=rootless"]}
            ),
            IMAGES: "hello-world:latest\nvllm/vllm-openai:v0.33.0\nghcr.io/me/vllm-fork:1\nvllm/vllm-openai:<none>\n",
        },
        programs=HAS,
    )
    facts = docker.probe(host)
    assert (facts.cli.value, facts.engine.value, facts.compose.value) == ("29.1.3", "29.1.3", "5.0.1")
    assert facts.nvidia_runtime.value is True
    assert facts.rootless.value is True
    assert facts.is_desktop.value is False
    assert facts.root_dir.value == "/data/docker"
    assert facts.local_images == ("vllm/vllm-openai:v0.33.0", "ghcr.io/me/vllm-fork:1")
    assert facts.fault == ""
    assert host.misses == []


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, False),
        ({"Runtimes": {"nvidia": {}, "runc": {}}}, True),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}, True),
        ({"DiscoveredDevices": [{"Source": "cdi", "ID": "docker.com/gpu=webgpu"}]}, False),
        (
            {
                "OperatingSystem": "Docker Desktop",
                "KernelVersion": "6.6.87.2-microsoft-standard-WSL2",
                "Runtimes": {"nvidia": {}},
            },
            True,
        ),
        ({"OperatingSystem": "Docker Desktop", "KernelVersion": "5.15.90.1-microsoft-standard-WSL2"}, False),
        # the virtual machine of Docker Desktop for Linux or macOS lists what it cannot give
        (
            {
                "OperatingSystem": "Docker Desktop",
                "KernelVersion": "6.10.14-linuxkit",
                "Runtimes": {"nvidia": {}},
            },
            False,
        ),
    ],
)
def test_gpus_for_containers(info: dict[str, Any], expected: bool) -> None:
    fact = from_info({**ENGINE, **info}).nvidia_runtime
    assert fact.value is expected
    assert expected or fact.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("tcp://me:pw@box.example:2375", "tcp://box.example:2375"),
        ("ssh://me@box", "ssh://box"),
        ("tcp://127.0.0.1:2375", ""),
        ("unix:///run/user/1000/docker.sock", ""),
        ("", ""),
    ],
)
def test_an_engine_on_another_computer(make_host: Any, value: str, expected: str) -> None:
    host = make_host(commands={INFO: answer(**ENGINE), IMAGES: ""}, programs=HAS, env={"DOCKER_HOST": value})
    assert docker.probe(host).remote == expected


def test_a_cdi_file_counts(make_host: Any) -> None:
    host = make_host(
        files={"/etc/cdi/nvidia.yaml": "cdiVersion: 0.6.0\n"},
        commands={INFO: answer(**ENGINE), IMAGES: ""},
        programs=HAS,
    )
    assert docker.probe(host).nvidia_runtime.value is True


DAEMON = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("reply", "files", "fault"),
    [
        ({"stderr": DAEMON, "returncode": 1}, {}, "not_running"),
        ({**answer(ServerErrors=[DAEMON]), "stderr": DAEMON, "returncode": 1}, {}, "not_running"),
        ({**answer(ServerErrors=[DAEMON]), "returncode": 1}, {**WSL, **DESKTOP}, "desktop_not_running"),
        (
            answer(
                ServerErrors=[
                    "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock"
                ]
            ),
            {},
            "permission_denied",
        ),
        (
            {
                "stdout": "\nThe command 'docker' could not be found in this WSL 1 distro.\nWe recommend to convert",
                "returncode": 1,
            },
            WSL,
            "integration_off",
        ),
        (
            answer(
                ServerErrors=[
                    "failed to connect to the docker API at npipe:////./pipe/dockerDesktopLinuxEngine"
                ]
            ),
            {},
            "desktop_not_running",
        ),
        ({"stdout": "", "delay_s": 60}, {}, "hang"),
        ({"stdout": "panic: runtime error\n", "returncode": 2}, {}, "error"),
        ({"stderr": "exec format error", "returncode": 126}, {}, "error"),
    ],
)
def test_why_no_engine_answers(
    make_host: Any, reply: dict[str, Any], files: dict[str, str], fault: str
) -> None:
    other = {
        INFO_TEXT: reply,
        ("docker", "--version"): "Docker version 28.0.1, build 0\n",
        COMPOSE: "2.33.0\n",
    }
    host = make_host(files=files, commands={INFO: reply, **other}, programs=HAS)
    facts = docker.probe(host)
    assert facts.fault == fault
    assert fault in DOCKER_FAULTS
    assert facts.engine.value is None
    assert facts.engine.reason
    assert facts.nvidia_runtime.value is None


@pytest.mark.parametrize(
    ("files", "entries", "fault"),
    [
        ({}, {}, "not_installed"),
        ({**WSL, **DESKTOP}, {}, "integration_off"),
        (WSL, {}, "not_installed"),
        (
            {**WSL, **DESKTOP},
            {"/usr/bin/docker": {"link_to": "/mnt/wsl/docker-desktop/cli-tools/usr/bin/docker"}},
            "desktop_not_running",
        ),
    ],
)
def test_no_docker_command(
    make_host: Any, files: dict[str, str], entries: dict[str, Any], fault: str
) -> None:
    facts = docker.probe(make_host(files=files, entries=entries))
    assert facts.fault == fault
    assert facts.desktop_on_windows == (DESKTOP.keys() <= files.keys())


def test_podman_in_dockers_clothes(make_host: Any) -> None:
    podman = '{"host": {"arch": "amd64", "buildahVersion": "1.33"}, "version": {"Version": "4.9.3"}}\n'
    host = make_host(commands={INFO: podman, ("docker", "--version"): "podman version 4.9.3\n"}, programs=HAS)
    facts = docker.probe(host)
    assert (facts.fault, facts.cli.value) == ("podman", "podman 4.9.3")


def test_windows_containers(make_host: Any) -> None:
    host = make_host(commands={INFO: answer(**{**ENGINE, "OSType": "windows"}), IMAGES: ""}, programs=HAS)
    assert docker.probe(host).fault == "windows_containers"


def test_the_old_compose_is_no_compose(make_host: Any) -> None:
    info = {"stdout": json.dumps({**ENGINE, "ClientInfo": {"Version": "24.0.5", "Plugins": []}})}
    host = make_host(
        commands={
            INFO: info,
            IMAGES: "",
            COMPOSE: {"stderr": "docker: 'compose' is not a docker command.\n", "returncode": 1},
            ("docker-compose", "--version"): "docker-compose version 1.29.2, build unknown\n",
        },
        programs={**HAS, "docker-compose": "/usr/bin/docker-compose"},
    )
    fact = docker.probe(host).compose
    assert fact.value is None
    assert "1.29.2" in fact.reason


TEXT = """\
Client: Docker Engine - Community
 Version:    27.5.1
 Context:    default
 Plugins:
  compose: Docker Compose (Docker Inc.)
    Version:  v2.32.4
    Path:     /usr/libexec/docker/cli-plugins/docker-compose

Server:
 Server Version: 27.5.1
 Runtimes: io.containerd.runc.v2 nvidia runc
 Security Options:
  seccomp
   Profile: builtin
  rootless
 Kernel Version: 6.1.0-30-amd64
 Operating System: Debian GNU/Linux 12 (bookworm)
 OSType: linux
 Total Memory: 62.7GiB
 Name: buildhost
 Docker Root Dir: /home/user/.local/share/docker
 Discovered Devices:
  cdi: nvidia.com/gpu=0
"""


def test_the_plain_text_is_read_where_there_is_no_json(make_host: Any) -> None:
    client = ("docker", "--version")
    host = make_host(
        commands={
            INFO: "template parsing error\n",
            INFO_TEXT: TEXT,
            IMAGES: "",
            client: "Docker version 27.5.1, build x\n",
        },
        programs=HAS,
    )
    facts = docker.probe(host)
    assert (facts.engine.value, facts.compose.value, facts.cli.value) == ("27.5.1", "2.32.4", "27.5.1")
    assert facts.nvidia_runtime.value is True
    assert facts.rootless.value is True
    assert facts.memory_bytes.value == int(62.7 * 2**30)
    assert facts.root_dir.value == "/home/user/.local/share/docker"
    assert host.misses == []


@given(st.text(max_size=300))
def test_any_text_is_survived(text: str) -> None:
    from_info(parse_info_text(text))


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda x: st.lists(x, max_size=2) | st.dictionaries(st.text(max_size=6), x, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*ENGINE, "DiscoveredDevices", "Name"]), _VALUE))
def test_any_json_is_survived(data: dict[str, Any]) -> None:
    from_info(data)
