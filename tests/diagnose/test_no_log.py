"""What is no log is said to be none; what is one, however short or damaged, is diagnosed."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import threading
import time
from pathlib import Path

import pytest

from wizard.__main__ import main
from wizard.diagnose.engine import Diagnosis, diagnose
from wizard.diagnose.reader import NoText, read, read_bytes

POEM = b"The kettle sings, the window rains,\nand nobody has called.\n"
PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + random.Random(7).randbytes(40_000)
PROGRAM = b"\x7fELF\2\1\1" + (b"\0" * 9 + b"\3\0\x3e\0\1\0\0\0") * 4000 + b"libc.so.6\0error: \0vllm\0"


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n", POEM, PICTURE, PROGRAM, b"\x1f\x8b no archive", b"\0" * 5_000_000, gzip.compress(POEM)],
    # Names, not contents: a compressed text holds the time at which it was made, and no worker makes it at another's.
    ids=["empty", "blank", "poem", "picture", "program", "no-archive", "zeros", "compressed-poem"],
)
def test_no_log(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(content)
    assert main(["diagnose", str(log)]) == 2
    out, err = capsys.readouterr()
    assert "This is no log of vLLM" in err
    assert out == ""
    assert main(["diagnose", str(log), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == []
    assert "no log of vLLM" in document["note"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_without_end_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "/dev/zero"]) == 2
    assert "it is no text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-05 03:12:46 [api_server.py:1] vLLM API server version 0.32.0",
        "vllm-1  | Starting",
        "Status: Downloaded newer image for vllm/vllm-openai:v0.32.0",
        "a1b2c3d4: Pull complete",
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.2s/it]",
        "2026-05-29T09:14:45Z level=info msg=started",
        "Nov 05 03:12:46 box dockerd[12]: ready",
        "(EngineCore pid=12) hello",
        "Fetching 12 files:  25%|██▌       | 3/12",
    ],
)
def test_one_line_of_a_log_is_a_log(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "x.log"
    log.write_text(line + "\n", "utf-8")
    assert main(["diagnose", str(log)]) == 0
    assert "No failure found" in capsys.readouterr().out


HEALTHY = "INFO 11-05 03:12:46 [api_server.py:1] vLLM API server version 0.32.0\nINFO:     Application startup complete.\n"


def test_a_log_that_was_emptied_while_it_was_written_begins_with_a_hole() -> None:
    found = read_bytes(b"\0" * 3_000_000 + HEALTHY.encode())
    assert found.lines[0].startswith("INFO")
    assert diagnose(found).ready


def test_the_raw_stream_of_docker_is_text() -> None:
    rows = [b"\1\0\0\0\0\0\0" + bytes([len(r)]) + r.encode() + b"\n" for r in HEALTHY.splitlines()]
    assert diagnose(read_bytes(b"".join(rows))).release == "0.32.0"
    with pytest.raises(NoText):
        read(io.BytesIO(PICTURE), text_only=True)
    read_bytes(PICTURE)  # a server's own log is looked at whatever it holds


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_by_diagnose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(HEALTHY,))
    writer.start()
    assert main(["diagnose", str(pipe)]) == 0
    writer.join()
    assert "The server came up" in capsys.readouterr().out


TOO_LONG = (
    "ERROR 11-05 03:12:48 [core.py:900] ValueError: To serve at least one request with the model's max seq len (65536), "
    "(9.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.1 GiB). Based on the available "
    "memory, the estimated maximum model length is 22528.\n"
)
WORK = "INFO 11-05 03:12:47 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 0 reqs\n"


def test_an_error_that_no_server_at_work_prints_is_the_cause() -> None:
    version = HEALTHY.splitlines(keepends=True)[0]
    found = diagnose(read_bytes((version + WORK * 3 + TOO_LONG).encode()))
    assert [f.cause for f in found.findings] == ["max_model_len_exceeds_kv"]
    # With work behind it, it was quoted, or of another server.
    assert diagnose(read_bytes((version + WORK + TOO_LONG + WORK).encode())).findings == []
    # A request that was refused says nothing of the server.
    refused = "ERROR 11-05 03:13:48 [serving.py:9] ValueError: This model's maximum context length is 4096 tokens.\n"
    assert diagnose(read_bytes((HEALTHY + WORK + refused).encode())).findings == []


def test_one_endless_word_costs_hardly_more_than_a_log_of_its_size() -> None:
    """Against a log of as many bytes in the same run: an expression that takes the square of a word's length takes
    hundreds of times as long."""
    log = b"INFO 11-05 03:12:46 [core.py:900] Available KV cache memory: 3.2 GiB\nValueError: cannot do that\n" * 2000

    def seconds(data: bytes) -> float:
        from wizard.diagnose.recognise import is_log

        begin = time.perf_counter()
        lines = read_bytes(data)
        is_log(Diagnosis(), lines)
        diagnose(lines)
        return time.perf_counter() - begin

    seconds(log)  # the expressions are compiled
    usual = seconds(log) + 0.02
    for unit in (b"a", b"A1_", b"1.", b"/", b"x=", b"a-b.", b"aError", b" ", b"\t|", b"[1;", b"(pid=1", b"vllm"):
        assert seconds((unit * len(log))[: len(log)]) < 20 * usual, unit
