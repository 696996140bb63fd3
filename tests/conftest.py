"""Nothing that a test does may reach the state, the kept answers or the caches of whoever runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A push must not fail by the luck of the draw: CI runs the same examples each time. By hand every run draws new
# ones; HYPOTHESIS_PROFILE=fuzz draws many.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=5000, deadline=None)
settings.register_profile("default", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder: Path = tmp_path_factory.getbasetemp() / "xdg"
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(folder / name.lower()))
    # However pytest was started: texts name the program as if it stood on the PATH (tests/test_program.py tells more).
    monkeypatch.setattr("wizard.program.words", lambda: ("vllm-wizard",))
    monkeypatch.setenv("COLUMNS", "80")  # whatever terminal the tests are started from
    for name in ("HF_TOKEN", "HF_HOME", "VLLM_API_KEY", "NO_COLOR", "LANGUAGE", "VLLM_WIZARD_CONFIG_DIR", "VLLM_WIZARD_STATE_DIR", "VLLM_WIZARD_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
