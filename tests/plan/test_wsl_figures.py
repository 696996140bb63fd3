"""WSL2's memory: the reason adds up, and what cannot be is an error beside its field."""

from __future__ import annotations

import re

import pytest

from tests.plan.conftest import session_of
from wizard.__main__ import main
from wizard.outputs import files
from wizard.outputs.wslconfig import tune
from wizard.plan import plan
from wizard.steps import QUESTIONS

GIB = 1 << 30
WSL = ["wsl2-rtx4090-desktop", "wsl2-2x-rtx3090", "wsl2-rtx5070-laptop-old-driver", "wsl2-rtx3060-model-on-d"]


def reason(ram: float, weights: float | None, **more: int) -> tuple[str, int]:
    size = None if weights is None else int(weights * GIB)
    advice = tune(host_ram_bytes=int(ram * GIB), host_cpus=8, weights_bytes=size, gpu_count=1, **more)  # type: ignore[arg-type]
    setting = advice.setting("wsl2.memory")
    assert setting is not None
    assert setting.value is not None
    return setting.reason, int(setting.value.removesuffix("GB"))


def test_half_of_the_memory_is_called_that() -> None:
    text, gib = reason(127.9, 18.0)
    assert gib == 64
    assert "Half of the 127.9 GiB" in text
    assert "26.0 GiB" in text  # 8 and 18
    assert "18.0 GiB" in text


def test_what_is_wanted_is_added_up() -> None:
    text, gib = reason(32.0, 12.3)
    assert gib == 21
    assert "20.3 GiB, rounded up" in text
    assert "8 GiB for Linux" in text
    assert "12.3 GiB" in text
    assert "Windows keeps 11.0 of 32.0 GiB" in text


def test_all_that_can_be_spared_is_called_that() -> None:
    text, gib = reason(32.0, 40.0)
    assert gib == 24
    assert "keeps 8.0 of 32.0 GiB" in text
    assert "Wanted are 48.0 GiB" in text


@pytest.mark.parametrize("ram", [8, 16, 31.9, 64, 127.9, 256])
@pytest.mark.parametrize("weights", [None, 0.5, 7, 30, 200])
def test_every_reason_names_what_its_figure_follows_from(ram: float, weights: float | None) -> None:
    text, gib = reason(ram, weights)
    figures = [float(x) for x in re.findall(r"(\d+(?:\.\d+)?) GiB", text)]
    half, rounded = any(abs(f / 2 - gib) < 1.01 for f in figures), any(0 <= gib - f < 1.01 for f in figures)
    left = any(abs(float(a) + gib - float(b)) < 0.11 for a, b in re.findall(r"keeps ([\d.]+) of ([\d.]+)", text))
    assert ("Half" in text and half) or ("rounded up" in text and rounded) or left, text


@pytest.mark.parametrize("name", WSL)
def test_the_written_file_gives_the_reason_of_each_line(name: str) -> None:
    made = plan(session_of(name))
    text = next(f for f in files(made) if f.path == ".wslconfig").content.decode()
    lines = text.splitlines()
    for key in made.wsl_changes:
        at = next(i for i, line in enumerate(lines) if line.startswith(key.split(".")[1] + "="))
        assert lines[at - 1].startswith(("# vllm-wizard: ", "#     ")), text


def test_more_memory_than_windows_has_is_an_error_beside_the_field() -> None:
    made = plan(session_of(WSL[0]))
    assert made.wsl is not None
    assert made.wsl.host_ram_bytes is not None
    there = made.wsl.host_ram_bytes // GIB
    assert "Windows has only" in (QUESTIONS["wsl_memory_gib"].error(made, there + 1) or "")
    assert QUESTIONS["wsl_memory_gib"].error(made, there) is None
    assert "bad_answer" in {b.code for b in plan(session_of(WSL[0], wsl_memory_gib=there + 1)).blockers}


def test_an_impossible_size_of_windows_is_an_error_beside_the_field() -> None:
    made = plan(session_of("wsl2-interop-off-custom-root"))
    ask = QUESTIONS["host_memory_gib"]
    assert "Look again" in (ask.error(made, 3216.0) or "")
    assert "must have more" in (ask.error(made, 8.0) or "")
    assert ask.error(made, 32.0) is None
    assert ask.error(made, 128.0) is None


def test_on_the_command_line_it_is_wrong_input(capsys: pytest.CaptureFixture[str]) -> None:
    machine = "tests/machines/wsl2-rtx4090-desktop"
    assert main(["plan", "--machine", machine, "--set", "wsl_memory_gib=4000"]) == 2
    assert "wsl_memory_gib" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*WSL, "wsl2-no-gpu"])
def test_the_parts_of_the_memory_add_up_and_name_the_model(name: str) -> None:
    made = plan(session_of(name))
    text = made.reason("wsl_memory_gib")
    parts = re.search(r"([\d.]+) GiB for Linux and vLLM's processes \((.+?)\) and ([\d.]+) GiB so that the weights of (\S+) stay", text)
    assert parts is not None, text
    assert round(sum(float(part.split()[0]) for part in parts[2].split(", ")), 1) == float(parts[1])
    wanted = re.search(r"([\d.]+) GiB(?:, rounded up| that are wanted| \()", text)
    assert wanted is not None, text
    assert round(float(parts[1]) + float(parts[3]), 1) == float(wanted[1])
    assert made.model is not None
    assert parts[4] in (made.model.repo_id, made.model.source.rsplit("/", 1)[-1])


def test_a_size_of_the_users_own_is_judged_by_what_it_leaves_to_windows() -> None:
    name = "wsl2-rtx3060-model-on-d"
    made = plan(session_of(name, wsl_memory_gib=31))
    assert any("leave Windows only 0.9 of 31.9 GiB" in w.title and "8.0 GiB" in w.detail for w in made.warnings)
    text = next(f for f in files(made) if f.path == ".wslconfig").content.decode()
    assert "Windows keeps 0.9 of 31.9 GiB" in " ".join(text.replace("#    ", "").split())
    assert "Windows keeps 10.9" not in text
    assert not any(w.code == "wsl_memory_too_large" for w in plan(session_of(name, wsl_memory_gib=23)).warnings)


UNSEEN = "wsl2-interop-off-custom-root"


def test_what_cannot_be_read_says_where_windows_shows_it() -> None:
    made = plan(session_of(UNSEEN))
    assert "Task Manager of Windows shows it (Performance, Memory)" in made.reason("host_memory_gib")
    assert "Task Manager of Windows shows it (Performance, CPU)" in made.reason("host_cpus")
    assert "Task Manager" not in plan(session_of(UNSEEN, host_memory_gib=32)).reason("host_memory_gib")


def test_the_warning_names_the_step_and_the_field() -> None:
    told = next(w for w in plan(session_of(UNSEEN)).warnings if w.code == "wsl_host_unknown").detail
    assert "on the step “WSL2 resources”, field “Memory of the Windows machine”" in told
    assert "--set host_memory_gib=" in told


def test_the_restart_of_wsl_is_called_by_what_the_file_sets() -> None:
    unsized, sized = plan(session_of(UNSEEN)), plan(session_of(UNSEEN, host_memory_gib=64))
    assert set(unsized.wsl_changes) == {"wsl2.vmIdleTimeout", "general.instanceIdleTimeout"}
    titles = [s.title for s in unsized.after if "wsl --shutdown" in s.commands]
    assert titles == ["Let WSL2 take its new settings"]
    assert [s.title for s in sized.after if "wsl --shutdown" in s.commands] == ["Let WSL2 take its new resources"]
