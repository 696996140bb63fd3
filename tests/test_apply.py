"""Writing and taking back: diffs without secrets, all or nothing, modes, links, and undo."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wizard import apply
from wizard.apply import State, env_values, history, merge_env, prepare, undo, write
from wizard.errors import WizardError
from wizard.outputs.spec import FileSpec

TOKEN = "hf_" + "Ab1" * 10
NEW_TOKEN = "hf_" + "Zy9" * 10


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def spec(path: str, content: bytes | str, mode: int = 0o644, **more: object) -> FileSpec:
    data = content.encode() if isinstance(content, str) else content
    return FileSpec(path, data, mode, **more)  # type: ignore[arg-type]


def env(text: str) -> FileSpec:
    return spec("vllm.env", text, 0o600, secret=True, keep_existing=True)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def tree(folder: Path) -> dict[str, tuple[str, bytes | str, int]]:
    """Everything below ``folder``: kind, content or link target, mode."""
    held: dict[str, tuple[str, bytes | str, int]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            held[name] = ("link", str(path.readlink()), 0)
        elif path.is_dir():
            held[name] = ("dir", b"", mode_of(path))
        else:
            held[name] = ("file", path.read_bytes(), mode_of(path))
    return held


# -- comparing --------------------------------------------------------------------------------------------------


def test_states_and_diffs(out: Path) -> None:
    out.mkdir()
    (out / "a").write_text("one\ntwo\n")
    (out / "b").write_text("same\n")
    changed, same, new = prepare([spec("a", "one\n2\n"), spec("b", "same\n"), spec("c", "x\n")], out)
    assert [c.state for c in (changed, same, new)] == [State.CHANGED, State.SAME, State.NEW]
    assert "-two\n" in changed.diff
    assert "+2\n" in changed.diff
    assert same.diff == ""
    assert new.diff.splitlines()[0] == "--- /dev/null"


def test_missing_last_line_end_is_shown(out: Path) -> None:
    out.mkdir()
    (out / "a").write_text("one")
    (change,) = prepare([spec("a", "one\n")], out)
    assert "-one\n\\ " in change.diff


def test_line_ends_are_only_shown_where_they_differ(out: Path) -> None:
    out.mkdir()
    (out / "a").write_bytes(b"one\r\ntwo\r\n")
    assert "^M" not in prepare([spec("a", b"one\r\n2\r\n")], out)[0].diff
    assert "^M" in prepare([spec("a", b"one\ntwo\n")], out)[0].diff


def test_binary_and_other_encodings_are_named_not_printed(out: Path) -> None:
    out.mkdir()
    (out / "a").write_bytes(b"\x00\xff\xfe\x80")
    assert "4 bytes become 2 bytes" in prepare([spec("a", b"x\n")], out)[0].diff
    (out / "b").write_bytes("key=1\n".encode("utf-16"))
    assert "-key=1\n" in prepare([spec("b", "key=2\n".encode("utf-16"))], out)[0].diff


def test_a_file_cannot_drive_the_terminal(out: Path) -> None:
    out.mkdir()
    (out / "a").write_bytes(b"\x1b]0;title\x07\n\xc2\x9b31m\n")
    diff = prepare([spec("a", "x\n")], out)[0].diff
    assert "\x1b" not in diff
    assert "\x07" not in diff
    assert "\x9b" not in diff


def test_no_secret_in_any_diff(out: Path) -> None:
    out.mkdir()
    (out / "vllm.env").write_text(f"HF_TOKEN={TOKEN}\n#old {TOKEN}\nVLLM_API_KEY=topsecretvalue\n{TOKEN}\n")
    (out / "launch.sh").write_text(f"export HF_TOKEN={TOKEN}\nexport MY_API_KEY='topsecretvalue'\n")
    changes = prepare(
        [env(f"HF_TOKEN={NEW_TOKEN}\nVLLM_API_KEY=othersecret\n"), spec("launch.sh", "x\n")], out
    )
    for change in changes:
        assert change.state is State.CHANGED
        for secret in (TOKEN, NEW_TOKEN, "topsecretvalue", "othersecret"):
            assert secret not in change.diff
    assert "-HF_TOKEN=" in changes[0].diff
    assert "+HF_TOKEN=" in changes[0].diff
    assert TOKEN not in repr(changes)
    assert NEW_TOKEN not in repr(write(changes, state_dir=out / "state"))


@given(st.text(alphabet="abcXYZ019_-.", min_size=12, max_size=40))
@settings(max_examples=30)
def test_a_secret_file_never_shows_a_value(secret: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "vllm.env").write_text(f"A={secret}\n export B = {secret}\n{secret}\n")
        (change,) = prepare([spec("vllm.env", "C=1\n", 0o600, secret=True)], folder)
        assert secret not in change.diff.replace(folder, "")


# -- writing ----------------------------------------------------------------------------------------------------


def test_modes(out: Path, state: Path) -> None:
    old = os.umask(0o022)
    try:
        write(
            prepare([spec("launch.sh", "x\n", 0o755), env("A=1\n"), spec("c", "c\n")], out), state_dir=state
        )
    finally:
        os.umask(old)
    assert [mode_of(out / n) for n in ("launch.sh", "vllm.env", "c")] == [0o755, 0o600, 0o644]


def test_an_existing_files_mode_is_kept_and_a_wide_secret_narrowed(out: Path, state: Path) -> None:
    out.mkdir()
    for name, mode in (("a", 0o640), ("vllm.env", 0o644), ("launch.sh", 0o644)):
        (out / name).write_text("old\n")
        (out / name).chmod(mode)
    changes = prepare([spec("a", "new\n"), env("A=1\n"), spec("launch.sh", "new\n", 0o755)], out)
    write(changes, state_dir=state)
    assert mode_of(out / "a") == 0o640
    assert mode_of(out / "vllm.env") == 0o600
    assert mode_of(out / "launch.sh") == 0o755


def test_only_the_mode_of_a_secret_file_is_wrong(out: Path, state: Path) -> None:
    out.mkdir()
    (out / "vllm.env").write_text("A=1\n")
    (out / "vllm.env").chmod(0o664)
    (change,) = prepare([env("A=1\n")], out)
    assert change.state is State.CHANGED
    assert change.diff == "mode 0664 -> 0600\n"
    write([change], state_dir=state)
    assert mode_of(out / "vllm.env") == 0o600


def test_a_secret_is_never_readable_while_it_is_written(
    out: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode):
            seen.append(stat.S_IMODE(info.st_mode))
        real(descriptor)

    opened: list[int] = []
    real_open = os.open

    def watch_open(path: str, flags: int, mode: int = 0o777, **more: object) -> int:
        if flags & os.O_CREAT:
            opened.append(mode)
        return real_open(path, flags, mode, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", watch)
    monkeypatch.setattr(os, "open", watch_open)
    old = os.umask(0)
    try:
        write(prepare([env(f"HF_TOKEN={TOKEN}\n")], out), state_dir=state)
    finally:
        os.umask(old)
    assert set(opened) == {0o600}
    assert set(seen) == {0o600}


def test_nothing_is_written_when_a_file_changed_since_it_was_shown(out: Path, state: Path) -> None:
    out.mkdir()
    (out / "b").write_text("old\n")
    changes = prepare([spec("a", "new\n"), spec("b", "new\n")], out)
    (out / "b").write_text("mine\n")
    with pytest.raises(WizardError, match="changed after it was shown"):
        write(changes, state_dir=state)
    assert tree(out) == {"b": ("file", b"mine\n", mode_of(out / "b"))}
    assert history(state_dir=state) == []


def test_an_edited_file_that_changed_since_it_was_read_is_refused(out: Path) -> None:
    out.mkdir()
    (out / ".wslconfig").write_text("[wsl2]\nmemory=8GB\n")
    wanted = spec(".wslconfig", "[wsl2]\nmemory=16GB\n", edited=True, expected_bytes=b"[wsl2]\n")
    with pytest.raises(WizardError, match="changed since it was read"):
        prepare([wanted], out)


def test_a_change_between_the_temporary_files_and_the_renames_survives(
    out: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.mkdir()
    (out / "a").write_text("old\n")
    changes = prepare([spec("new/b", "b\n"), spec("a", "ours\n")], out)
    real = apply._write_temporaries

    def meanwhile(*args: object) -> list[str]:
        names = real(*args)  # type: ignore[arg-type]
        (out / "a").write_text("theirs\n")
        return names

    monkeypatch.setattr(apply, "_write_temporaries", meanwhile)
    with pytest.raises(WizardError):
        write(changes, state_dir=state)
    assert set(tree(out)) == {"a"}
    assert (out / "a").read_text() == "theirs\n"


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failing_rename_puts_everything_back(
    out: Path, state: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    out.mkdir()
    (out / "a").write_text("old a\n")
    (out / "a").chmod(0o640)
    before = tree(out)
    changes = prepare([spec("a", "A\n"), spec("sub/b", "B\n"), env("C=1\n")], out)
    real, calls = os.replace, [0]

    def replace(source: str, target: str) -> None:
        if "journal" not in str(target):
            calls[0] += 1
            if calls[0] == failing:
                raise OSError(5, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WizardError, match="Nothing was written"):
        write(changes, state_dir=state)
    assert tree(out) == before


def test_disk_full_while_writing_leaves_everything_as_it_was(
    out: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out.mkdir()
    (out / "a").write_text("old\n")
    changes = prepare([spec("a", "new\n"), spec("b", "new\n")], out)
    real, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if path.startswith(str(out)) and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            calls[0] += 1
            if calls[0] == 2:
                raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WizardError, match=r"No space is left.*Nothing was written"):
        write(changes, state_dir=state)
    assert set(tree(out)) == {"a"}


def test_an_interrupt_puts_everything_back(out: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = prepare([spec("x/a", "A\n"), spec("x/b", "B\n")], out)
    real = os.replace

    def replace(source: str, target: str) -> None:
        real(source, target)
        if str(target).endswith("/a"):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write(changes, state_dir=state)
    assert not out.exists()


def test_links_are_followed_not_replaced(out: Path, state: Path, tmp_path: Path) -> None:
    out.mkdir()
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "launch.sh").write_text("old\n")
    (out / "launch.sh").symlink_to("../dotfiles/launch.sh")
    (out / "new").symlink_to("../dotfiles/not-there-yet")
    changes = prepare([spec("launch.sh", "new\n"), spec("new", "new\n")], out)
    write(changes, state_dir=state)
    assert (out / "launch.sh").is_symlink()
    assert (tmp_path / "dotfiles" / "launch.sh").read_text() == "new\n"
    assert (tmp_path / "dotfiles" / "not-there-yet").read_text() == "new\n"
    undo(state_dir=state)
    assert (tmp_path / "dotfiles" / "launch.sh").read_text() == "old\n"
    assert not (tmp_path / "dotfiles" / "not-there-yet").exists()


def test_two_names_for_one_file_are_refused(out: Path) -> None:
    out.mkdir()
    (out / "a").write_text("x")
    (out / "b").symlink_to("a")
    with pytest.raises(WizardError, match="same file"):
        prepare([spec("a", "1"), spec("b", "2")], out)


def test_targets_that_cannot_be_written_are_named(out: Path, tmp_path: Path) -> None:
    out.mkdir()
    (out / "launch.sh").mkdir()
    (tmp_path / "file").write_text("x")
    os.mkfifo(out / "pipe")
    (out / "loop").symlink_to("loop")
    for folder, name, words in (
        (out, "launch.sh", "is a folder"),
        (tmp_path / "file" / "x", "a", "not a folder"),
        (out, "pipe", "not a regular file"),
        (out, "loop", "leads back to itself"),
        (out, "n" * 300, "too long"),
    ):
        with pytest.raises(WizardError, match=words):
            prepare([spec(name, "x")], folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(out: Path, state: Path) -> None:
    out.mkdir()
    out.chmod(0o500)
    with pytest.raises(WizardError, match="No permission"):
        write(prepare([spec("a", "x")], out), state_dir=state)


def test_without_a_place_for_backups_nothing_is_written(out: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(WizardError, match="XDG_STATE_HOME"):
        write(prepare([spec("a", "x")], out), state_dir=tmp_path / "state" / "writes")
    assert not out.exists()


def test_writing_the_same_again_does_nothing(out: Path, state: Path) -> None:
    specs = [spec("a", "x\n"), env("A=1\n")]
    write(prepare(specs, out), state_dir=state)
    receipt = write(prepare(specs, out), state_dir=state)
    assert receipt.id == ""
    assert [f.state for f in receipt.files] == [State.SAME, State.SAME]
    assert len(history(state_dir=state)) == 1


def test_an_edited_file_gets_a_backup_beside_it(out: Path, state: Path) -> None:
    out.mkdir()
    (out / ".wslconfig").write_bytes(b"[wsl2]\r\n")
    wanted = spec(".wslconfig", b"[wsl2]\r\nmemory=8GB\r\n", edited=True, expected_bytes=b"[wsl2]\r\n")
    write(prepare([wanted], out), state_dir=state)
    copies = list(out.glob(".wslconfig.*.bak"))
    assert [c.read_bytes() for c in copies] == [b"[wsl2]\r\n"]
    undo(state_dir=state)
    assert set(tree(out)) == {".wslconfig"}
    assert (out / ".wslconfig").read_bytes() == b"[wsl2]\r\n"


def test_a_mount_that_keeps_no_promises_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_foreign_mount", lambda path: "Windows")
    (change,) = prepare([spec("a", "x")], out)
    assert "power failure" in change.notes[0]


def test_concurrent_writers_leave_one_whole_state(out: Path, state: Path) -> None:
    def once(text: str) -> None:
        with contextlib.suppress(WizardError):
            write(prepare([spec("a", text), spec("b", text)], out), state_dir=state)

    threads = [threading.Thread(target=once, args=(f"{n}\n" * 1000,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (out / "a").read_bytes() == (out / "b").read_bytes()
    assert set(tree(out)) == {"a", "b"}


# -- environment files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "wanted", "merged"),
    [
        ("HF_TOKEN=mine\n", "#HF_TOKEN=\n", "HF_TOKEN=mine\n"),
        ("HF_TOKEN=mine\n", "HF_TOKEN=new\n", "HF_TOKEN=new\n"),
        ("#HF_TOKEN=\nX=1\n", "HF_TOKEN=new\n", "HF_TOKEN=new\nX=1\n"),
        ("X=1", "# why\nK=2\n", "X=1\n# why\nK=2\n"),
        ("X=1\r\n", "K=2\n", "X=1\r\nK=2\r\n"),
        ("# why\nX=1\n", "# why\nK=2\n", "# why\nX=1\nK=2\n"),
        ("K=1\nK=2\n", "K=3\n", "K=1\nK=3\n"),
        ("export K=2\n", "K=2\n", "export K=2\n"),
        ("", "K=2\n", "K=2\n"),
    ],
)
def test_merging(existing: str, wanted: str, merged: str) -> None:
    assert merge_env(existing.encode(), wanted.encode()).decode() == merged


_lines = st.lists(
    st.one_of(
        st.from_regex(rb"\A(?:export )?[A-D]=[a-z0-9]{0,4}\Z"),
        st.from_regex(rb"\A# ?[A-D ]{0,3}=?\Z"),
        st.binary(max_size=6).filter(lambda b: not set(b) & set(b"\r\n\x0b\x0c\x1c\x1d\x1e\x85")),
    ),
    max_size=6,
)


@given(_lines, _lines)
@example([b"#A="], [b"A="])
def test_merging_keeps_what_is_there_and_settles(existing: list[bytes], wanted: list[bytes]) -> None:
    once = {env_line.split(b"=")[0].removeprefix(b"export "): env_line for env_line in wanted}
    old, new = b"\n".join(existing) + b"\n", b"\n".join(once.values()) + b"\n"
    merged = merge_env(old, new)
    assert merge_env(merged, new) == merged
    # The last line of a key counts; one that is given without a value changes nothing that is there.
    held, given_ = env_values(old), env_values(new)
    expected = held | {k: v for k, v in given_.items() if v or k not in held}
    assert env_values(merged) == expected
    kept = [x for x in old.splitlines() if x.startswith(b"#") and not x.endswith(b"=")]
    assert [x for x in merged.splitlines() if x in kept][: len(kept)] == kept


# -- undo -----------------------------------------------------------------------------------------------------


def test_undo_refuses_what_was_changed_since_and_force_keeps_it(out: Path, state: Path) -> None:
    out.mkdir()
    (out / "a").write_text("first\n")
    write(prepare([spec("a", "second\n"), spec("b", "b\n")], out), state_dir=state)
    (out / "a").write_text("edited by hand\n")
    with pytest.raises(WizardError, match="--force"):
        undo(state_dir=state)
    assert (out / "b").exists()
    done = undo(state_dir=state, force=True)
    assert (out / "a").read_text() == "first\n"
    kept = next(u.kept for u in done if u.path.endswith("a"))
    assert kept is not None
    assert Path(kept).read_text() == "edited by hand\n"


def test_undo_of_several_writes(out: Path, state: Path) -> None:
    out.mkdir()
    before = tree(out)
    for text in ("1\n", "2\n", "3\n"):
        write(prepare([spec("a", text)], out), state_dir=state)
    undo(2, state_dir=state)
    assert (out / "a").read_text() == "1\n"
    undo(state_dir=state)
    assert tree(out) == before
    with pytest.raises(WizardError, match="nothing to undo"):
        undo(state_dir=state)


def test_undo_after_the_folder_was_removed(out: Path, state: Path) -> None:
    write(prepare([spec("a", "x\n")], out), state_dir=state)
    (out / "a").unlink()
    out.rmdir()
    assert [u.action for u in undo(state_dir=state)] == ["unchanged"]


def test_a_write_that_was_cut_off_can_be_undone(
    out: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power failure between two renames: no roll-back ran."""
    out.mkdir()
    (out / "a").write_text("old\n")
    before = tree(out)
    monkeypatch.setattr(apply._Journal, "roll_back", lambda self: [])
    real = os.replace

    def replace(source: str, target: str) -> None:
        if str(target).endswith("/b"):
            raise OSError(5, "gone")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(WizardError):
        write(prepare([spec("a", "new\n"), spec("b", "new\n")], out), state_dir=state)
    monkeypatch.undo()
    assert (out / "a").read_text() == "new\n"
    assert history(state_dir=state)[0].status == "started"
    undo(state_dir=state)
    assert tree(out) == before


def test_a_spoilt_backup_is_not_used(out: Path, state: Path) -> None:
    out.mkdir()
    (out / "a").write_text("old\n")
    receipt = write(prepare([spec("a", "new\n")], out), state_dir=state)
    backup = receipt.files[0].backup
    assert backup is not None
    Path(backup).write_text("rubbish")
    with pytest.raises(WizardError, match="backup"):
        undo(state_dir=state)
    assert (out / "a").read_text() == "new\n"


def test_rubbish_in_the_state_folder_is_passed_over(out: Path, state: Path) -> None:
    write(prepare([spec("a", "x\n")], out), state_dir=state)
    (state / "99999999T000000.0-1").mkdir()
    (state / "99999999T000001.0-1").mkdir()
    (state / "99999999T000001.0-1" / "journal.json").write_text('{"format": 99, "files": 3')
    assert len(history(state_dir=state)) == 1
    undo(state_dir=state)
    assert not out.exists()


def test_old_writes_are_dropped(out: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "KEPT_WRITES", 3)
    for number in range(5):
        write(prepare([spec("a", f"{number}\n")], out), state_dir=state)
    assert len(history(state_dir=state)) == 3


def test_backups_are_the_owners_alone(out: Path, state: Path) -> None:
    out.mkdir()
    (out / "vllm.env").write_text(f"HF_TOKEN={TOKEN}\n")
    write(prepare([env(f"HF_TOKEN={NEW_TOKEN}\n")], out), state_dir=state)
    assert mode_of(state) == 0o700
    holders = [p for p in state.rglob("*") if p.is_file() and TOKEN.encode() in p.read_bytes()]
    assert [p.name for p in holders] == ["vllm.env"]
    assert mode_of(holders[0]) == 0o600


_names = st.sampled_from(["a", "b", "sub/c", "sub/deeper/d", "täst €", "-x"])
_modes = st.sampled_from([0o644, 0o600, 0o755, 0o640, 0o444])
_files = st.dictionaries(_names, st.tuples(st.binary(max_size=20), _modes), max_size=5)


@given(_files, st.lists(_files, min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_write_then_undo_restores_the_tree(
    present: dict[str, tuple[bytes, int]], writes: list[dict[str, tuple[bytes, int]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out, state = Path(folder, "out"), Path(folder, "state")
        out.mkdir()
        for name, (content, mode) in present.items():
            path = out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(mode)
        before = tree(out)
        done = 0
        for files in writes:
            specs = [spec(n, c, m, secret=m == 0o600) for n, (c, m) in files.items()]
            receipt = write(prepare(specs, out), state_dir=state)
            done += bool(receipt.id)
            for name, (content, _mode) in files.items():
                assert (out / name).read_bytes() == content
        if done:
            undo(done, state_dir=state)
        assert tree(out) == before
