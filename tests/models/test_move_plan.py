"""A move as it is planned: what is recognised, where it goes, what is refused, how long it takes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.models import move_tools as t
from wizard.errors import BadInput
from wizard.facts import Machine, MountKind, SystemKind, Wsl, known, unknown
from wizard.models import move, move_scan
from wizard.models.move_scan import is_lfs, show

pytestmark = pytest.mark.skipif(os.name != "posix", reason="models are moved on Linux")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def wsl_machine(tmp_path: Path, **more: Any) -> Machine:
    """WSL2 with drive D under tmp_path/mnt/d and a network share beside it."""
    for name in ("c", "d", "nas"):
        (tmp_path / "mnt" / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "home").mkdir(exist_ok=True)
    mounts = (
        t.mount("/", MountKind.LINUX),
        t.mount(tmp_path / "mnt/c", MountKind.WINDOWS_DRIVE, "C:\\"),
        t.mount(tmp_path / "mnt/d", MountKind.WINDOWS_DRIVE, "D:\\"),
        t.mount(tmp_path / "mnt/nas", MountKind.NETWORK, "\\\\nas\\models"),
    )
    why = unknown("not asked")
    wsl = Wsl(known("Ubuntu", "test"), why, why, why, known(True, "test"), **more)
    return t.machine(tmp_path / "home", mounts, system=SystemKind.WSL2, wsl=wsl)


def plan(tmp_path: Path, src: Path | str, dst: str | None = None, **options: Any) -> move.MovePlan:
    options = {"env": {}, "sample": False, **options}
    return move.plan_move(wsl_machine(tmp_path), str(src), dst, **options)


def codes(planned: move.MovePlan) -> list[str]:
    return [r.code for r in planned.refusals]


def on_d(tmp_path: Path) -> Path:
    wsl_machine(tmp_path)
    return t.model_folder(tmp_path / "mnt" / "d" / "models" / "Qwen3-Test")


# --- where to


def test_default_destination_of_a_folder(tmp_path: Path) -> None:
    planned = plan(tmp_path, on_d(tmp_path))
    assert planned.dst == str(tmp_path / "home" / "models" / "Qwen3-Test")
    assert planned.ok
    assert planned.src_mount == "windows-drive"
    assert planned.dst_mount == "linux"
    assert planned.files_total == 5
    assert planned.bytes_total == sum(f.stat().st_size for f in (tmp_path / "mnt/d").rglob("*") if f.is_file())


@pytest.mark.parametrize("spelt", ["D:\\models\\Qwen3-Test", "d:/models/Qwen3-Test", "D:\\models\\qwen3-test\\..\\Qwen3-Test"])
def test_windows_spelling_of_the_source(tmp_path: Path, spelt: str) -> None:
    src = on_d(tmp_path)
    planned = plan(tmp_path, spelt)
    assert planned.src == str(src)
    moved = move.moved_paths(planned)
    assert moved["D:\\models\\Qwen3-Test"] == planned.dst
    assert move.rewrite_path("D:\\models\\Qwen3-Test\\config.json", moved) == planned.dst + "/config.json"


def test_a_windows_path_without_a_mount_is_explained(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no mount of that drive"):
        plan(tmp_path, "Q:\\models\\x")


@pytest.mark.parametrize(
    ("env", "hub"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "{home}/cache"}, "home/cache/huggingface/hub"),
        ({"HF_HOME": "{home}/hf"}, "home/hf/hub"),
        ({"HF_HUB_CACHE": "{home}/hub2", "HF_HOME": "/elsewhere"}, "home/hub2"),
        ({"HUGGINGFACE_HUB_CACHE": "~/old"}, "home/old"),
        ({"HF_HOME": "{root}/mnt/d/hf"}, "home/.cache/huggingface/hub"),
    ],
)
def test_hub_cache(tmp_path: Path, env: dict[str, str], hub: str) -> None:
    wsl_machine(tmp_path)
    entry = t.hub_entry(tmp_path / "mnt/d/hf/hub", linked=False)
    values = {k: v.format(home=tmp_path / "home", root=tmp_path) for k, v in env.items()}
    planned = plan(tmp_path, entry, env=values)
    assert planned.dst == str(tmp_path / hub / entry.name)
    assert any("HF_HOME must be set" in w for w in planned.warnings) == (env.get("HF_HOME", "").startswith("{root}"))


def test_destination_names(tmp_path: Path) -> None:
    src = on_d(tmp_path)
    home = tmp_path / "home"
    (home / "models").mkdir()
    (home / "empty" / "Qwen3-Test").mkdir(parents=True)
    assert plan(tmp_path, src, str(home / "models")).dst == str(home / "models" / "Qwen3-Test")
    assert plan(tmp_path, src, str(home / "new")).dst == str(home / "new")
    assert plan(tmp_path, src, str(home / "new") + "/").dst == str(home / "new" / "Qwen3-Test")
    assert plan(tmp_path, src, str(home / "empty" / "Qwen3-Test")).dst == str(home / "empty" / "Qwen3-Test")
    assert plan(tmp_path, src, "~/x").dst == str(home / "x")
    (home / "models" / "link").symlink_to(home / "empty")
    assert plan(tmp_path, src, str(home / "models" / "link" / "y")).dst == str(home / "empty" / "y")


def test_a_file_goes_into_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    src = on_d(tmp_path) / "one.gguf"
    src.write_bytes(b"GGUF")
    assert plan(tmp_path, src, "~/gguf").dst == str(tmp_path / "home" / "gguf" / "one.gguf")
    assert plan(tmp_path, src, "~/gguf/two.gguf").dst == str(tmp_path / "home" / "gguf" / "two.gguf")


def test_the_same_command_twice_means_the_same_place(tmp_path: Path) -> None:
    src = tmp_path / "plain"
    src.mkdir()
    (src / "anything").write_text("x")
    first = plan(tmp_path, src, "~/there")
    move.Mover(first).run()
    again = plan(tmp_path, src, "~/there")
    assert again.dst == first.dst
    assert again.state is move.MoveState.PROVEN


def test_source_given_through_a_link(tmp_path: Path) -> None:
    src = on_d(tmp_path)
    link = tmp_path / "home" / "qwen"
    link.symlink_to(src)
    planned = plan(tmp_path, link)
    assert planned.src == str(src)
    moved = move.moved_paths(planned)
    assert moved[str(link)] == moved[str(src)] == planned.dst


# --- what is refused


def test_refused_places(tmp_path: Path) -> None:
    src = on_d(tmp_path)
    assert codes(plan(tmp_path, src, str(src))) == ["same_place", "destination_windows_drive"]
    assert "into_itself" in codes(plan(tmp_path, src, str(src / "deeper" / "x")))
    assert codes(plan(tmp_path, src, str(tmp_path / "mnt/c/models/x"))) == ["destination_windows_drive"]
    assert codes(plan(tmp_path, src, "C:\\models\\x")) == ["destination_windows_drive"]
    assert codes(plan(tmp_path, src, str(tmp_path / "mnt/nas/x"))) == ["destination_network"]
    (tmp_path / "home" / "to-c").symlink_to(tmp_path / "mnt/c")
    assert codes(plan(tmp_path, src, str(tmp_path / "home" / "to-c" / "x"))) == ["destination_windows_drive"]
    inner = t.model_folder(tmp_path / "home" / "outer" / "outer")
    assert "into_itself" in codes(plan(tmp_path, inner, str(tmp_path / "home" / "outer")))
    (tmp_path / "home" / "plain").write_text("x")
    assert codes(plan(tmp_path, src, str(tmp_path / "home" / "plain"))) == ["destination_not_a_folder"]


def test_a_link_to_the_source_is_the_source(tmp_path: Path) -> None:
    src = on_d(tmp_path)
    (tmp_path / "home" / "there").symlink_to(src)
    assert "same_place" in codes(plan(tmp_path, src, str(tmp_path / "home" / "there")))


@pytest.mark.parametrize("change", ["config", "size", "extra", "file"])
def test_another_model_is_never_overwritten(tmp_path: Path, change: str) -> None:
    src = on_d(tmp_path)
    dst = tmp_path / "home" / "models" / "Qwen3-Test"
    if change == "file":
        src = src / "one.gguf"
        src.write_bytes(b"GGUF" * 10)
        dst = dst.with_name("one.gguf")
        dst.parent.mkdir()
        dst.write_bytes(b"another")
    else:
        t.model_folder(dst)
        if change == "config":
            (dst / "config.json").write_text('{"architectures": ["Qwen4ForCausalLM"]}')
        elif change == "size":
            (dst / "model-00001-of-00002.safetensors").write_bytes(b"short")
        else:
            (dst / "model-00003-of-00003.safetensors").write_bytes(b"not of this model")
    planned = plan(tmp_path, src)
    assert codes(planned) == ["different_model"]
    with pytest.raises(BadInput):
        move.Mover(planned).run()


def test_nothing_to_move(tmp_path: Path) -> None:
    wsl_machine(tmp_path)
    d = tmp_path / "mnt/d"
    (d / "empty").mkdir()
    assert codes(plan(tmp_path, d / "empty")) == ["empty"]
    t.hub_entry(d / "hub", linked=False)
    with pytest.raises(BadInput, match="whole cache"):
        plan(tmp_path, d / "hub")
    with pytest.raises(BadInput, match="whole drive"):
        plan(tmp_path, d)
    (tmp_path / "home" / "x").write_text("")
    with pytest.raises(BadInput, match="whole drive or a home"):
        plan(tmp_path, tmp_path / "home")
    (d / "notes.txt").write_text("x")
    with pytest.raises(BadInput, match="only a GGUF file"):
        plan(tmp_path, d / "notes.txt")
    with pytest.raises(BadInput, match="still connected"):
        plan(tmp_path, d / "never there")
    for bad in ("", "a\0b"):
        with pytest.raises(BadInput):
            plan(tmp_path, bad)


# --- room and time


def with_free(monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], default: int) -> None:
    import shutil

    def usage(path: str) -> Any:
        free = next((v for k, v in sizes.items() if str(path).startswith(k)), default)
        return shutil._ntuple_diskusage(10**13, 0, free)  # type: ignore[attr-defined]

    monkeypatch.setattr(shutil, "disk_usage", usage)


def big(tmp_path: Path, gib: float) -> Path:
    src = on_d(tmp_path)
    with (src / "model-00001-of-00002.safetensors").open("r+b") as handle:
        handle.truncate(int(gib * t.GIB))
    return src


def test_not_enough_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = big(tmp_path, 2)
    with_free(monkeypatch, {str(tmp_path / "home"): int(1.9 * t.GIB)}, 10**13)
    assert codes(plan(tmp_path, src)) == ["not_enough_space"]
    with_free(monkeypatch, {str(tmp_path / "home"): 3 * t.GIB}, 10**13)
    assert plan(tmp_path, src).ok


def test_the_windows_drive_below_the_virtual_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = big(tmp_path, 2)
    with_free(monkeypatch, {str(tmp_path / "mnt/c"): 3 * t.GIB}, 10**13)
    planned = plan(tmp_path, src)
    assert codes(planned) == ["windows_disk_full"]
    assert planned.space.windows_free_bytes == 3 * t.GIB
    assert any("does not shrink" in n for n in planned.space.notes)
    other = plan(tmp_path, src, vhdx_drive="d:")
    assert other.ok
    assert any("same Windows drive" in n for n in other.space.notes)
    with_free(monkeypatch, {str(tmp_path / "mnt/c"): 5 * t.GIB}, 10**13)
    assert plan(tmp_path, src).ok


def test_the_windows_drive_is_watched_while_copying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wizard.errors import WizardError

    planned = plan(tmp_path, on_d(tmp_path))
    assert planned.space.windows_watch == str(tmp_path / "mnt/c")
    with_free(monkeypatch, {str(tmp_path / "mnt/c"): t.GIB // 2}, 10**13)
    with pytest.raises(WizardError, match="nearly full"):
        move.Mover(planned)._watch_space()


def test_windows_figures_from_the_facts(tmp_path: Path) -> None:
    machine = wsl_machine(tmp_path, host_free_disk_bytes=known(5 * t.GIB, "powershell"))
    machine = replace(machine, mounts=tuple(m for m in machine.mounts if m.windows_path != "C:\\"))
    planned = move.plan_move(machine, str(on_d(tmp_path)), env={}, sample=False)
    assert planned.space.windows_free_bytes == 5 * t.GIB
    assert planned.space.windows_source == "powershell"


def test_native_linux_has_no_virtual_disk(tmp_path: Path) -> None:
    src = t.model_folder(tmp_path / "src")
    planned = move.plan_move(t.machine(tmp_path), str(src), str(tmp_path / "dst"), env={}, sample=False)
    assert planned.space.windows_free_bytes is None
    assert planned.space.notes == ()


def test_estimates_name_their_source(tmp_path: Path) -> None:
    src = on_d(tmp_path)
    planned = plan(tmp_path, src)
    assert planned.rate_bytes_per_s == 150e6
    assert "not measured" in planned.rate_source
    (src / "model-00001-of-00002.safetensors").write_bytes(t.noise(1) * (70 * t.MIB))
    measured = plan(tmp_path, src, sample=True)
    assert measured.rate_source.startswith("measured")
    assert measured.seconds_estimate is not None
    assert measured.rate_bytes_per_s is not None


def test_a_drive_that_hangs_does_not_hang_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading
    import time

    from wizard.models import move_plan

    src = on_d(tmp_path)
    (src / "model-00001-of-00002.safetensors").write_bytes(bytes(70 * t.MIB))
    real = open
    stuck = threading.Event()

    def hanging(path: Any, *args: Any, **more: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            stuck.wait(20)
        return real(path, *args, **more)

    monkeypatch.setattr(move_plan, "open", hanging, raising=False)
    begin = time.monotonic()
    planned = plan(tmp_path, src, sample=True)
    assert time.monotonic() - begin < 5
    assert "not measured" in planned.rate_source
    stuck.set()


# --- recorded machines


def recorded(folder: Path, files: dict[str, int], links: dict[str, str]) -> Any:
    from wizard.host import FakeHost

    folder.mkdir()
    mountinfo = folder / "files" / "proc" / "self" / "mountinfo"
    mountinfo.parent.mkdir(parents=True)
    mountinfo.write_text(
        "70 60 8:32 / / rw,relatime - ext4 /dev/sdc rw,discard\n"
        "101 70 0:50 / /mnt/d rw,noatime - 9p D:\\134 rw,aname=drvfs;path=D:\\134;uid=1000,trans=fd\n"
    )
    entries: dict[str, Any] = {p: {"size_bytes": n, "mtime": 1700000000.5} for p, n in files.items()}
    entries.update({p: {"link_to": target} for p, target in links.items()})
    host = {
        "name": "a-recorded-one",
        "home": "/home/user",
        "memory": dict.fromkeys(("total_bytes", "available_bytes", "swap_total_bytes", "swap_free_bytes"), 0),
        "entries": entries,
        "disks": {"/": {"total_bytes": 10**12, "free_bytes": 5 * 10**11}, "/mnt/d": {"total_bytes": 10**12, "free_bytes": 10**11}},
    }
    (folder / "host.json").write_text(json.dumps(host))
    (folder / "commands.json").write_text("[]")
    return FakeHost(folder)


def recorded_machine(host: Any) -> Machine:
    from wizard.probes import disks

    return t.machine(host.home, disks.probe(host), name=host.name, system=SystemKind.WSL2)


def test_a_recorded_machine_is_planned_and_played_through(tmp_path: Path) -> None:
    shard = 5_000_000_000
    host = recorded(
        tmp_path / "rec",
        {"/mnt/d/models/M/config.json": 900, **{f"/mnt/d/models/M/model-{n}.safetensors": shard for n in range(4)}},
        {},
    )
    machine = recorded_machine(host)
    planned = move.plan_move(machine, "/mnt/d/models/M", host=host)
    assert planned.simulated
    assert planned.dst == "/home/user/models/M"
    assert planned.bytes_total == 4 * shard + 900
    assert planned.seconds_estimate == pytest.approx(133, rel=0.05)
    assert planned.ok
    seen: list[move.Progress] = []
    result = move.Mover(planned, on_progress=seen.append, simulated_seconds=0.5).run()
    assert result.state is move.MoveState.PROVEN
    assert result.seconds == planned.seconds_estimate
    assert all(p.simulated for p in seen)
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)
    assert seen[-1].stage is move.Stage.DONE
    half = next(p for p in seen if p.bytes_done >= planned.bytes_total // 2)
    assert half.eta_s == pytest.approx(67, rel=0.3)
    assert move.delete_source(planned).freed_bytes == planned.bytes_total
    assert not Path("/home/user/models/M").exists()
    mover = move.Mover(planned, simulated_seconds=5)
    mover.cancel()
    assert mover.run().state is move.MoveState.PARTIAL


def test_a_recorded_cache_entry_with_links(tmp_path: Path) -> None:
    blob = "a" * 64
    base = "/mnt/d/hf/hub/models--Org--Name"
    host = recorded(
        tmp_path / "rec",
        {f"{base}/blobs/{blob}": 10**9, f"{base}/refs/main": 40},
        {f"{base}/snapshots/{'b' * 40}/model.safetensors": f"../../blobs/{blob}"},
    )
    planned = move.plan_move(recorded_machine(host), base + "/snapshots/" + "b" * 40, host=host)
    assert planned.kind is move.MoveKind.HUGGINGFACE
    assert planned.name == "Org/Name"
    assert [x.target for x in planned.links] == [f"../../blobs/{blob}"]
    assert next(f for f in planned.files if f.rel.startswith("blobs/")).expect_sha256 == blob


def test_a_recorded_machine_without_the_model(tmp_path: Path) -> None:
    host = recorded(tmp_path / "rec", {}, {})
    with pytest.raises(BadInput):
        move.plan_move(recorded_machine(host), "/mnt/d/models/none", host=host)
    with pytest.raises(BadInput, match="no host"):
        move.plan_move(recorded_machine(host), "/mnt/d/models/none")


# --- small parts


@pytest.mark.parametrize(
    ("path", "size", "lfs"),
    [
        ("model.safetensors", 100, True),
        ("config.json", 100, False),
        ("tokenizer.json", 11_000_000, True),
        ("deep/er/model.bin", 10, True),
        ("README.md", 10, False),
    ],
)
def test_lfs_by_the_hubs_own_patterns(path: str, size: int, lfs: bool) -> None:
    from wizard.models.move_scan import _HUB_LFS_PATTERNS

    assert is_lfs(path, size, [(p, True) for p in _HUB_LFS_PATTERNS]) is lfs


def test_the_last_matching_pattern_decides() -> None:
    rules = [("*.bin", True), ("small.bin", False), ("onnx/*.bin", True)]
    assert is_lfs("a.bin", 1, rules)
    assert not is_lfs("small.bin", 1, rules)
    assert is_lfs("onnx/small.bin", 1, rules)


@given(st.text())
def test_any_name_can_be_shown(text: str) -> None:
    said = show(text)
    assert said.isprintable()
    said.encode("utf-8", "strict")


@example("0", "/")
@given(st.text(min_size=1), st.text(min_size=1))
def test_rewriting_keeps_other_paths(path: str, old: str) -> None:
    moved = {"/mnt/d/models/X": "/home/user/models/X"}
    if not path.startswith("/mnt/d/models/X"):
        assert move.rewrite_path(path, moved) == path
    # Slashes at the end name the same folder.
    assert move.rewrite_path("/mnt/d/models/X/" + old, moved).rstrip("/") == ("/home/user/models/X/" + old).rstrip("/")
    assert move.rewrite_path("/mnt/d/models/XY", moved) == "/mnt/d/models/XY"


def test_the_mover_is_imported_without_posix_modules() -> None:
    """On Windows the module must import: the plan of a recorded machine is shown there, too."""
    import subprocess
    import sys

    code = (
        "import sys\n"
        "for name in ('fcntl', 'pwd', 'grp', 'resource', 'termios'): sys.modules[name] = None\n"
        "import wizard.models.move, wizard.move_command\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[2])


# --- what is no model


def test_what_the_kernel_shows_of_itself_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_scan.RealTree, "entries", lambda *_: pytest.fail("looked through"))
    proc = replace(t.mount("/proc", MountKind.VIRTUAL), fstype="proc")
    machine = t.machine(tmp_path, (t.mount("/", MountKind.LINUX), proc))
    for src in ("/proc", "/proc/self", "/proc/self/fd"):
        with pytest.raises(BadInput, match="no model lies there"):
            move.plan_move(machine, src, env={}, sample=False)
    with pytest.raises(BadInput, match="whole drive"):
        move.plan_move(machine, "/", env={}, sample=False)


def test_a_folder_that_is_no_model_is_not_walked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_scan, "SIGNLESS_LIMIT", 40)
    monkeypatch.setattr(move_scan, "ENTRY_LIMIT", 120)
    src = tmp_path / "photos"
    for folder in range(10):
        (src / f"{folder:02d}").mkdir(parents=True)
        for number in range(20):
            (src / f"{folder:02d}" / f"{number}.jpg").touch()
    seen = []
    stat = move_scan.RealTree.stat
    monkeypatch.setattr(move_scan.RealTree, "stat", lambda self, path: seen.append(path) or stat(self, path))  # type: ignore[func-returns-value]
    with pytest.raises(BadInput, match="does not look like a model"):
        plan(tmp_path, src)
    assert len(seen) < 60
    (src / "00" / "config.json").mkdir()
    (src / "00" / "config.json" / "config.json").write_text("{}")
    with pytest.raises(BadInput, match="does not look like a model"):
        plan(tmp_path, src)
    (src / "00" / "a.safetensors").touch()
    with pytest.raises(BadInput, match="more than 120"):
        plan(tmp_path, src)
    small = tmp_path / "notes"
    small.mkdir()
    (small / "a.txt").touch()
    assert any("does not look like a model" in w for w in plan(tmp_path, small).warnings), "a small one is the user's to judge"
