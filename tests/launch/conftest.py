"""A generated folder whose launch.sh starts the stand-in server, and a state folder of its own."""

import contextlib
import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from wizard.host import RealHost
from wizard.launch.target import Target

FAKE = Path(__file__).with_name("fake_vllm.py")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    for name in ("STATE", "CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("FAKE_OWNER", str(tmp_path))
    for name in ("FAKE_MODE", "VLLM_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path) -> Path:
    """launch.sh without a plan: the shape that wizard.outputs.launch gives it."""
    made = tmp_path / "served model"
    made.mkdir()
    (made / "launch.sh").write_text(
        "#!/usr/bin/env bash\nset -euo pipefail\n"
        f"port={free_port()}\n"
        "echo 'Starting vLLM 0.32.0.' >&2\n"
        f'exec "{sys.executable}" "{FAKE}" serve /m/tiny --port "$port" --served-model-name tiny ${{EXTRA-}}\n'
    )
    return made


@pytest.fixture
def target(folder) -> Target:
    from wizard.launch.target import from_files

    made = from_files(folder)
    return Target(**{**made.__dict__, "name": "tiny", "start_s": 240.0})


@pytest.fixture
def host():
    return RealHost()


@pytest.fixture(autouse=True)
def nothing_left(tmp_path):
    """No process that a test started outlives it; other tests may run at the same time."""
    yield
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid != os.getpid() and process.environ().get("FAKE_OWNER") == str(tmp_path):
                left.append(" ".join(process.cmdline()))
                process.kill()
    assert not left
