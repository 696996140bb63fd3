"""The scenes of the launch and of the diagnosis: real logs of a start, told to the real screens; nothing is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

GIB = 1 << 30
FOLDER = "/home/user/vllm"
# (seconds since the start, line): a start of vLLM 0.33 on one GPU, up to the weights, and from there on.
LOADING: tuple[tuple[float, str], ...] = (
    (0.0, "Starting vLLM 0.33.0 in the container vllm-qwen3."),
    (1.4, "0.33.0: Pulling from vllm/vllm-openai"),
    (1.5, "7c3b88808835: Pulling fs layer"),
    (61.0, "7c3b88808835: Pull complete"),
    (62.0, "Status: Downloaded newer image for vllm/vllm-openai:v0.33.0"),
    (71.0, "(APIServer pid=1) INFO 11-30 04:39:12 [api_server.py:1971] vLLM API server version 0.33.0"),
    (72.0, "(APIServer pid=1) INFO 11-30 04:39:13 [utils.py:253] non-default args: {'max_model_len': 16384}"),
    (80.0, "(EngineCore pid=131) INFO 11-30 04:39:21 [core.py:94] Initializing a V1 LLM engine (v0.33.0) with config: model='/models/Qwen3'"),
    (84.0, "(EngineCore pid=131) INFO 11-30 04:39:25 [gpu_model_runner.py:3467] Starting to load model /models/Qwen3..."),
    (90.0, "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:06<00:18,  6.1s/it]"),
    (96.0, "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:12<00:12,  6.0s/it]"),
)  # fmt: skip
THE_REST: tuple[tuple[float, str], ...] = (
    (108.0, "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:24<00:00,  6.0s/it]"),
    (108.2, "(EngineCore pid=131) INFO 11-30 04:39:49 [default_loader.py:291] Loading weights took 24.02 seconds"),
    (108.5, "(EngineCore pid=131) INFO 11-30 04:39:49 [gpu_model_runner.py:3549] Model loading took 16.78 GiB memory and 24.4 seconds"),
    (116.0, "(EngineCore pid=131) INFO 11-30 04:39:57 [backends.py:643] Dynamo bytecode transform time: 6.10 s"),
    (131.0, "(EngineCore pid=131) INFO 11-30 04:40:12 [monitor.py:34] torch.compile takes 21.40 s in total"),
    (133.0, "(EngineCore pid=131) INFO 11-30 04:40:14 [gpu_worker.py:375] Available KV cache memory: 3.21 GiB"),
    (133.1, "(EngineCore pid=131) INFO 11-30 04:40:14 [kv_cache_utils.py:1291] GPU KV cache size: 23,376 tokens"),
    (135.0, "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|##########| 51/51 [00:04<00:00, 12.1it/s]"),
    (139.0, "(EngineCore pid=131) INFO 11-30 04:40:20 [gpu_model_runner.py:4450] Graph capturing finished in 5 secs, took 0.61 GiB"),
    (141.0, "(APIServer pid=1) INFO:     Application startup complete."),
)  # fmt: skip
KV_ERROR = (
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] EngineCore failed to start.",
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] Traceback (most recent call last):",
    '(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936]   File "/usr/local/lib/python3.12/dist-packages/vllm/v1/core/kv_cache_utils.py", line 697, in _check_enough_kv_cache_memory',
    "(EngineCore pid=131) ERROR 11-30 04:40:14 [core.py:936] ValueError: To serve at least one request with the models's max seq len (24576), (3.38 GiB KV cache is needed, which is larger than the available KV cache memory (2.8 GiB). Based on the available memory, the estimated maximum model length is 20384. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
    "(APIServer pid=1) Traceback (most recent call last):",
    '(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/utils.py", line 918, in wait_for_engine_startup',
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}",
)  # fmt: skip


def failing_log() -> str:
    """A whole log of a start that fails for its length."""
    rows = [line for _at, line in (*LOADING, *THE_REST[:5])]
    return "\n".join([*rows, *KV_ERROR]) + "\n"


async def _screen(app: Any, pilot: Any, lines: Sequence[tuple[float, str]], at_s: float) -> Any:
    """The launch screen as it stands ``at_s`` seconds after the start, having seen ``lines``."""
    from wizard.faces.tui.launching import LaunchScreen
    from wizard.faces.tui.server import Server
    from wizard.launch.stages import StageReader
    from wizard.launch.target import from_plan

    plan, session = app.walk.plan, app.walk.session
    target = replace(from_plan(plan, Path(FOLDER)), runtime=plan.runtime)
    server = Server(app.wizard, target, plan, session)
    reader = StageReader(target.weight_bytes)
    reader.begin(0.0)
    for when, line in lines:
        reader.feed(line, when)
    server.shown.reader, server.shown.clock = reader, lambda: at_s
    server.shown.log = "/home/user/.local/state/vllm-wizard/servers/vllm-1f0c2d3e/20261130T043801.log"
    app.wizard.server = server
    screen = LaunchScreen(app.wizard, server, start=False)
    app.push_screen(screen)
    await pilot.pause(0.2)
    screen.write_log([line for _at, line in lines])
    return screen


def _memory(used_gib: float) -> Any:
    from wizard.launch.run import MemoryUse

    return (MemoryUse("GPU 0", int(used_gib * GIB), 24 * GIB),)


async def running(app: Any, pilot: Any) -> None:
    screen = await _screen(app, pilot, LOADING, 98.0)
    screen.shown.memory = _memory(6.1)
    screen.draw()
    await pilot.pause(0.2)


async def serving(app: Any, pilot: Any) -> None:
    from wizard.launch.prove import Check, ready_made

    screen = await _screen(app, pilot, (*LOADING, *THE_REST), 143.0)
    shown, target = screen.shown, screen.server.target
    shown.memory = _memory(21.3)
    shown.checks = [
        Check("models", True, 0.0, target.name, target.name),
        Check("answer", True, 0.9, target.name, "Hello! How can I help you today?"),
    ]
    if target.images:
        shown.checks.append(Check("image", True, 1.4, target.name, "The picture is red."))
    shown.curl, shown.python = ready_made(target, target.name, False)
    shown.verdict = "log and prediction match: the largest difference is 2.8 %"
    shown.state = "serving"
    screen.draw()
    await pilot.pause(0.2)


async def failing(app: Any, pilot: Any) -> Any:
    """A start that fails for its length, with its repair."""
    import tempfile

    from wizard.faces.tui.server import Tried
    from wizard.launch.repair import examine, propose
    from wizard.launch.run import Outcome

    screen = await _screen(app, pilot, (*LOADING, *THE_REST[:5]), 136.0)
    shown = screen.shown
    screen.write_log(list(KV_ERROR))
    shown.reader.finish(136.0, failed=True)
    shown.outcome = Outcome("failed", 136.0, 1)
    shown.diagnosis = examine(failing_log(), "0.33.0", app.wizard.host, 1)
    plan, session = app.walk.plan, app.walk.session
    with tempfile.TemporaryDirectory() as empty:
        from wizard.apply import prepare
        from wizard.outputs import files

        for change in prepare([s for s in files(plan) if not s.edited], Path(empty)):
            path = Path(change.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change.after)
            path.chmod(change.spec.mode)
        step = propose(shown.diagnosis, session, plan, Path(empty), app.wizard.host, frozenset())
        assert step is not None
        shown.repair = replace(step, changes=tuple(replace(c, path=c.path.replace(empty, FOLDER), diff=c.diff.replace(empty, FOLDER)) for c in step.changes))
    shown.before = plan
    shown.tried = [Tried(1, 136.0, shown.diagnosis.findings[0].title)]
    shown.state = "asking"
    screen.draw()
    await pilot.pause(0.2)
    return screen


async def repair_diff(app: Any, pilot: Any) -> None:
    screen = await failing(app, pilot)
    screen.press("diff")
    await pilot.pause(0.3)


async def stopping(app: Any, pilot: Any) -> None:
    """Ctrl-C while it serves."""
    await serving(app, pilot)
    app.wizard.server.ways = ("compose", "systemd", "script")
    app.screen.action_ask("stop")
    await pilot.pause(0.2)


async def diagnose(app: Any, pilot: Any) -> None:
    from wizard.faces.tui.diagnosis import DiagnoseScreen, Reading

    screen = DiagnoseScreen(app.wizard)
    app.push_screen(screen)
    await pilot.pause(0.2)
    reading = Reading("vllm.log", failing_log())
    screen.read(reading)
    while reading.diagnosis is None or len(reading.usable) < len(reading.diagnosis.findings):
        await pilot.pause(0.1)
    await pilot.pause(0.2)


async def ask_for_log(app: Any, pilot: Any) -> None:
    app.wizard.open_screen("diagnose")
    await pilot.pause(0.3)
    screen = app.screen
    from textual.widgets import TextArea

    screen.query_one("#log-text", TextArea).text = failing_log()
    await pilot.pause(0.2)
