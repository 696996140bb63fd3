"""Large logs: what is kept, line numbers, memory; small ones come through whole."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.diagnose import reader
from wizard.diagnose.engine import diagnose
from wizard.diagnose.reader import read, read_bytes, scanner

CRASH = b"ValueError: LoRA rank 64 is greater than max_lora_rank 16.\n"
CALM = b"(APIServer pid=1) INFO 11-05 04:00:00 [loggers.py:257] all is well, nothing to tell\n"


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("CHUNK_BYTES", 4096), ("BLOCK_BYTES", 1024), ("HEAD_BYTES", 8192), ("PINNED_BYTES", 4096), ("TAIL_BYTES", 8192)):
        monkeypatch.setattr(reader, name, value)


def test_a_small_log_comes_through_whole() -> None:
    got = read_bytes(b"a\nb\n\nc")
    assert got.lines == ["a", "b", "", "c"]
    assert list(got.numbers) == [1, 2, 3, 4]
    assert (got.total, got.whole) == (4, True)
    assert read_bytes(b"").lines == []


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("place", [0, 3, 500, 1999, 2000])
def test_the_failure_of_a_large_log_is_kept_with_its_number(place: int) -> None:
    rows = [CALM] * 2000
    rows.insert(place, CRASH)
    got = read_bytes(b"".join(rows))
    assert not got.whole
    assert got.total == 2001
    assert len(got.lines) < 700
    assert got.lines[list(got.numbers).index(place + 1)] == CRASH.decode().rstrip()
    assert diagnose(got).findings[0].line_number == place + 1


@pytest.mark.usefixtures("small_limits")
def test_of_a_crash_loop_the_last_and_the_first_stay() -> None:
    rows = [b"run %d " % i + CRASH for i in range(3000)]
    got = read_bytes(b"".join(rows))
    assert got.lines[0].startswith("run 0 ")
    assert got.lines[-1].startswith("run 2999 ")
    assert list(got.numbers)[-1] == 3000
    assert sum(map(len, got.lines)) < 30_000
    for number, line in zip(got.numbers, got.lines, strict=True):
        assert line.startswith(f"run {number - 1} ")


@pytest.mark.usefixtures("small_limits")
def test_how_a_large_log_ends_is_kept() -> None:
    got = read_bytes(CALM * 2000 + b"the very end")
    assert got.lines[-1] == "the very end"
    assert got.total == 2001


@pytest.mark.usefixtures("small_limits")
def test_a_line_without_end_takes_no_memory() -> None:
    class Endless(io.RawIOBase):
        left = 60

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: bytearray) -> int:
            if not self.left:
                return 0
            self.left -= 1
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    got = read(io.BufferedReader(Endless(), 4096))
    assert sum(map(len, got.lines)) < 10 * reader.LONGEST_LINE_CHARS


@pytest.mark.usefixtures("small_limits")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([CALM, CRASH, b"\n", b"plain words\n", b"x" * 3000 + b"\n"]), max_size=60), st.integers(0, 10**6))
def test_numbers_are_those_of_the_file(rows: list[bytes], seed: int) -> None:
    data = b"".join(rows)
    whole = data.decode().split("\n")
    step = random.Random(seed)

    class Ragged(io.RawIOBase):
        at = 0

        def readinto(self, buffer: bytearray) -> int:
            part = data[self.at : self.at + min(len(buffer), step.randint(1, 3000))]
            self.at += len(part)
            buffer[: len(part)] = part
            return len(part)

    got = read(Ragged())  # type: ignore[arg-type]
    for number, line in zip(got.numbers, got.lines, strict=True):
        assert whole[number - 1] == line
    assert all(a < b for a, b in zip(got.numbers, list(got.numbers)[1:], strict=False))


@pytest.mark.parametrize("native", [True, False])
def test_scanners_agree(native: bool) -> None:
    scan = scanner(native)
    for word in reader.SUSPICIOUS:
        assert scan(b"some text " + word + b" more"), word
    assert not scan(CALM * 100)
    assert not scan(b"")


def test_a_gzip_bomb_is_read_in_pieces() -> None:
    import gzip

    got = read_bytes(gzip.compress(CALM * 200_000 + CRASH))
    assert got.total == 200_001
    assert sum(map(len, got.lines)) < 8 << 20
    assert diagnose(got).findings[0].cause == "lora_rank_too_high"
