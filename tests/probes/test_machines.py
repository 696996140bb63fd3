"""Every recorded machine: what must be found on it, that nothing unrecorded is asked, and that it can be recorded
again without a difference."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import Any

import pytest

from wizard.facts import Fact, Machine, to_json
from wizard.host import FakeHost
from wizard.models.find import find
from wizard.models.info import FoundModel
from wizard.models.inspect import inspect
from wizard.probes import PROBE_NAMES, run_all
from wizard.record import Recorder, scrubber_for, write

MACHINES = Path(__file__).parent.parent / "machines"
NAMES = sorted(p.name for p in MACHINES.iterdir() if (p / "host.json").exists())


def look_up(machine: Machine, path: str) -> Any:
    """The value at "gpu.gpus.0.name"; ``count`` is a length, ``runs.gpu`` the run of that name."""
    here: Any = machine
    for part in path.split("."):
        if part == "count":
            here = len(here)
        elif isinstance(here, tuple):
            here = here[int(part)] if part.isdigit() else next(r for r in here if r.name == part)
        else:
            here = getattr(here, part)
    if isinstance(here, Fact):
        here = here.value
    plain = to_json(here)
    return plain


def plain(machine: Machine) -> Any:
    """The machine as data, without the times that its probes took."""
    data = to_json(machine)
    for run in data["runs"]:
        run["seconds"] = 0
    return data


@functools.cache
def probed(name: str) -> tuple[FakeHost, Recorder, Machine, list[FoundModel]]:
    """Each machine is probed and searched once for all tests, through a recorder."""
    host = FakeHost(MACHINES / name)
    recorder = Recorder(host)
    machine = run_all(recorder)
    return host, recorder, machine, list(find(recorder, machine))


def test_all_machines_are_there() -> None:
    assert len(NAMES) >= 17


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found(name: str) -> None:
    host, recorder, machine, found = probed(name)
    expect = json.loads((MACHINES / name / "expect.json").read_text("utf-8"))
    mounts, problems, models = (expect.pop(k, None) for k in ("mounts", "problems", "models"))
    wrong = {
        path: (look_up(machine, path), wanted)
        for path, wanted in expect.items()
        if look_up(machine, path) != wanted
    }
    assert not wrong
    if mounts:
        kinds = {m.path: m.kind.value for m in machine.mounts}
        assert {p: kinds.get(p) for p in mounts} == mounts
    assert sorted(p.code for p in machine.problems) == sorted(problems or [])
    assert sorted(m.name for m in found if m.origin != "gguf") == sorted(models or [])
    for model in found:
        info = inspect(recorder, model.path)
        assert model.is_adapter or not info.issues
    assert host.misses == []
    assert [run.name for run in machine.runs] == list(PROBE_NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_unknown_says_why(name: str) -> None:
    def check(thing: Any, where: str) -> None:
        if isinstance(thing, dict):
            if set(thing) == {"value", "source", "reason"} and thing["value"] is None:
                assert thing["reason"] not in ("", "not asked"), where
            for key, value in thing.items():
                check(value, f"{where}.{key}")
        elif isinstance(thing, list):
            for number, value in enumerate(thing):
                check(value, f"{where}[{number}]")

    check(to_json(probed(name)[2]), name)


@pytest.mark.parametrize("name", NAMES)
def test_recording_a_recording_changes_nothing(name: str, tmp_path: Path) -> None:
    _host, recorder, first, models = probed(name)
    for model in models:
        inspect(recorder, model.path)
    write(recorder, tmp_path / name, scrubber_for(recorder))
    again = FakeHost(tmp_path / name)
    second = run_all(again)
    one, two = (json.dumps(plain(m), ensure_ascii=False) for m in (first, second))
    # The one name that is no "user" is taken out; two people's folders only change places.
    one = one.replace("Jürgen 王", "user")
    if name == "wsl2-interop-off-custom-root":
        two = two.replace("Users/user", "Users/guest").replace("Users/guest2", "Users/user")
        one, two = "".join(sorted(one)), "".join(sorted(two))
    assert two == one
    assert list(find(again, second)) == models
    assert [inspect(again, m.path) for m in models] == [inspect(recorder, m.path) for m in models]
    assert again.misses == []


@pytest.mark.parametrize(
    "name", [n for n in NAMES if "rtx" in n or n in ("native-t4", "native-v100", "native-4x-h200")]
)
def test_nvidia_smi_tells_what_nvml_tells(name: str) -> None:
    by_nvml = probed(name)[2].gpu
    host = FakeHost(MACHINES / name)
    host._nvml = "NVML: Unknown Error"
    by_smi = run_all(host).gpu
    assert host.misses == []
    for one, two in zip(by_nvml.gpus, by_smi.gpus, strict=True):
        assert (one.name, one.uuid, one.vram_total_bytes.value, one.vram_free_bytes.value) == (
            two.name,
            two.uuid,
            two.vram_total_bytes.value,
            two.vram_free_bytes.value,
        )
        assert one.compute_capability.value == two.compute_capability.value
        assert one.display_attached.value == two.display_attached.value
    assert by_nvml.driver_version.value == by_smi.driver_version.value
    assert by_nvml.cuda_driver_version.value == by_smi.cuda_driver_version.value
    assert by_nvml.nvlink.value == by_smi.nvlink.value


def test_a_hanging_driver_costs_only_its_own_facts() -> None:
    host = FakeHost(MACHINES / "nvidia-smi-hangs", delays=True)
    seen: list[str] = []
    started = time.monotonic()
    machine = run_all(host, on_result=lambda run: seen.append(run.name), timeout_s=1.0)
    assert time.monotonic() - started < 1.5
    assert set(seen) == set(PROBE_NAMES)
    assert seen[-1] == "gpu"
    run = next(r for r in machine.runs if r.name == "gpu")
    assert (run.ok, run.timed_out) == (False, True)
    assert "1 s" in run.reason
    assert machine.gpu.gpus == ()
    assert not machine.gpu.driver_version.known
    assert machine.memory.total_bytes.known
    assert machine.docker.engine.known
    assert [p.code for p in machine.problems] == ["gpu_driver_hangs"]


def test_the_recordings_are_what_their_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was changed by hand would be lost when the script writes it again."""
    monkeypatch.syspath_prepend(str(MACHINES.parent))
    import build_machines

    monkeypatch.setattr(build_machines, "OUT", tmp_path)
    assert build_machines.main([]) == 0
    for name in NAMES:
        written, kept = (
            {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
            for root in (tmp_path / name, MACHINES / name)
        )
        assert sorted(written) == sorted(kept)
        assert [p for p in written if written[p] != kept[p]] == []


def test_a_machine_that_the_script_does_not_know_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(MACHINES.parent))
    import build_machines

    assert build_machines.main(["no-such"]) == 2
    assert "no-such" in capsys.readouterr().err
