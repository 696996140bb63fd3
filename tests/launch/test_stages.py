"""Stages of a start, read from logs as several releases, Docker and uv print them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.launch.stages import ORDER, TITLES, UNBOUNDED, StageReader, split_lines

GIB = 1 << 30

OLD = """
INFO 07-01 10:00:00 api_server.py:585] vLLM API server version 0.6.3.post1
INFO 07-01 10:00:00 api_server.py:586] args: Namespace(model_tag='/models/a', port=8000)
INFO 07-01 10:00:05 llm_engine.py:237] Initializing an LLM engine (v0.6.3.post1) with config: model='/models/a'
INFO 07-01 10:00:06 model_runner.py:1056] Starting to load model /models/a...
Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]
Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:04<00:04, 2.00s/it]
Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:08<00:00, 2.00s/it]
INFO 07-01 10:00:15 model_runner.py:1067] Loading model weights took 14.9888 GB
INFO 07-01 10:00:18 gpu_executor.py:122] # GPU blocks: 2048, # CPU blocks: 512
INFO 07-01 10:00:20 model_runner.py:1395] Capturing the model for CUDA graphs. This may lead to unexpected consequences
INFO 07-01 10:00:40 model_runner.py:1523] Graph capturing finished in 20 secs.
INFO:     Application startup complete.
"""

NEW = """
\x1b[0;36m(APIServer pid=7)\x1b[0;0m INFO 11-30 04:39:48 [api_utils.py:286] non-default args: {'model_tag': 'a/b'}
(EngineCore pid=9) INFO 11-30 04:39:56 [core.py:133] Initializing a V1 LLM engine (v0.33.0) with config: model='a/b'
(Worker_TP0 pid=11) INFO 11-30 04:40:05 [gpu_model_runner.py:5040] Starting to load model a/b...
(Worker_TP0 pid=11) INFO 11-30 04:40:06 [weight_utils.py:533] Time spent downloading weights for a/b: 31.5 seconds
(Worker_TP0 pid=11) INFO 11-30 04:40:09 [default_loader.py:502] Loading weights took 2.00 seconds
(Worker_TP1 pid=12) INFO 11-30 04:40:10 [default_loader.py:502] Loading weights took 4.00 seconds
(Worker_TP0 pid=11) INFO 11-30 04:40:10 [gpu_model_runner.py:5150] Model loading took 8.5 GiB memory and 4.100000 seconds
(Worker_TP0 pid=11) INFO 11-30 04:40:20 [backends.py:1] Using cache directory: /root/.cache/vllm/torch_compile_cache/x for vLLM's torch.compile
(Worker_TP0 pid=11) INFO 11-30 04:40:30 [monitor.py:1] torch.compile took 12.34 s in total
(Worker_TP0 pid=11) INFO 11-30 04:40:31 [monitor.py:91] Initial profiling/warmup run took 0.31 s
(Worker_TP0 pid=11) INFO 11-30 04:40:33 [gpu_worker.py:760] Available KV cache memory: 5.2 GiB
(EngineCore pid=9) INFO 11-30 04:40:33 [kv_cache_utils.py:2327] GPU KV cache size: 77,008 tokens, Maximum concurrency for 4,096 tokens per request: 18.80x
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  40%|████      | 2/5 [00:00<00:00, 4.0it/s]
(Worker_TP0 pid=11) INFO 11-30 04:40:39 [gpu_model_runner.py:6582] Graph capturing finished in 6 secs, took 0.61 GiB
(APIServer pid=7) INFO:     Application startup complete.
"""


def read(log: str, weight_bytes: int | None = None):
    reader, events = StageReader(weight_bytes), []
    events += reader.begin(0.0)
    for number, line in enumerate(split_lines(log)[0], 1):
        events += reader.feed(line, float(number))
    return reader, events


@pytest.mark.parametrize(
    ("log", "stages"),
    [
        (OLD, ["check", "engine", "weights", "kv_cache", "graphs", "ready"]),
        (NEW, ["check", "engine", "weights", "compile", "profiling", "kv_cache", "graphs", "ready"]),
    ],
)
def test_stages_in_order(log, stages):
    reader, events = read(log)
    assert list(reader.stages) == stages
    assert reader.ready
    assert [e.stage for e in events if e.state == "done"] == stages
    ended = [reader.stages[s].ended_s for s in stages]
    assert None not in ended
    assert ended == sorted(ended)


def test_figures_are_told():
    reader, _events = read(NEW)
    assert reader.stages["engine"].detail == "vLLM 0.33.0"
    assert reader.stages["weights"].detail == "8.5 GiB"
    assert reader.stages["kv_cache"].detail == "77,008 tokens"
    assert reader.stages["graphs"].fraction == 0.4
    assert reader.stages["graphs"].detail == "0.61 GiB"
    old, _events = read(OLD)
    assert old.stages["kv_cache"].detail == "2048 blocks"
    assert old.stages["weights"].detail == "14.9888 GiB"


def test_rate_is_that_of_the_slowest_worker():
    reader, _events = read(NEW, 16 * GIB)
    assert reader.stages["weights"].rate_bytes_s == pytest.approx(16 * GIB / 4.1)


def test_rate_while_loading_comes_from_the_bar():
    reader = StageReader(8 * GIB)
    reader.feed("INFO 07-01 10:00:06 model_runner.py:1056] Starting to load model /m...", 10.0)
    events = reader.feed("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:04<00:04, 2.00s/it]", 14.0)
    assert events[-1].fraction == 0.5
    assert events[-1].rate_bytes_s == pytest.approx(GIB)
    # Another worker's slower bar does not turn it back.
    assert reader.feed("Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:04<00:04, 2.00s/it]", 15.0) == []


def test_docker_pull_shows_layers():
    reader = StageReader()
    reader.begin()
    for line in (
        "Unable to find image 'vllm/vllm-openai:v0.33.0' locally",
        "v0.33.0: Pulling from vllm/vllm-openai",
        "aaaaaaaaaaaa: Pulling fs layer",
        "bbbbbbbbbbbb: Pulling fs layer",
        "aaaaaaaaaaaa: Download complete",
    ):
        reader.feed(line, 1.0)
    assert reader.current == "pull"
    assert reader.stages["pull"].fraction == 0.25
    reader.feed("aaaaaaaaaaaa: Pull complete", 2.0)
    assert reader.stages["pull"].fraction == 0.5


def test_an_environment_being_made_is_not_the_model():
    reader = StageReader()
    for line in (
        "Installing vLLM 0.33.0 into /home/user/.venvs/vllm.",
        "Using CPython 3.12.8",
        "Resolved 148 packages in 2.1s",
        "Downloading torch (840.5MiB)",
        "Installed 148 packages in 900ms",
    ):
        reader.feed(line, 1.0)
    assert list(reader.stages) == ["install"]
    assert "install" in UNBOUNDED


def test_what_launch_sh_says_beforehand_is_not_ready():
    reader = StageReader()
    reader.feed("It is ready when it says “Application startup complete”: http://127.0.0.1:8000/v1", 1.0)
    assert not reader.ready


def test_a_failed_start_fails_in_its_stage():
    reader, _events = read(NEW.split("torch.compile took")[0])
    events = reader.finish(99.0, failed=True)
    assert [(e.stage, e.state) for e in events] == [("compile", "failed")]
    assert reader.stages["compile"].failed
    assert not reader.ready


def test_compose_prefix_and_progress_bar_with_carriage_returns():
    lines, rest = split_lines("vllm  | \rLoading pt checkpoint shards:  10% Completed\rLoading pt checkpoint shards: 100% Completed\nhalf a li")
    assert rest == "half a li"
    reader = StageReader()
    reader.feed_all(lines, 1.0)
    assert reader.stages["weights"].fraction == 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([x for x in (OLD + NEW).splitlines() if x])), max_size=40))
def test_any_lines_keep_the_order(lines):
    reader = StageReader(GIB)
    passed = [e.stage for e in reader.begin()]
    for number, line in enumerate(lines):
        for event in reader.feed(line, float(number)):
            assert event.stage in TITLES
            assert event.fraction is None or 0 <= event.fraction <= 1
            if event.state == "started":
                passed.append(event.stage)
    assert [ORDER[s] for s in passed] == sorted(ORDER[s] for s in passed)
    assert len(passed) == len(set(passed))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab\r\n", max_size=40), st.integers(1, 7))
def test_splitting_in_pieces_gives_the_same_lines(text, size):
    whole, rest = split_lines(text + "\n")
    pieces, buffer = [], ""
    data = text + "\n"
    for at in range(0, len(data), size):
        lines, buffer = split_lines(buffer + data[at : at + size])
        pieces += lines
    assert (pieces, buffer) == (whole, rest)
