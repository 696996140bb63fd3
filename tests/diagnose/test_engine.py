"""From logs to causes: structure before words. All logs here are made up, in the forms that vLLM prints."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard.diagnose.engine import Diagnosis, Known, diagnose
from wizard.diagnose.reader import read_bytes
from wizard.diagnose.spans import accepts, within

WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
EMPTY_WRAPPER = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
BANNER = "(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:299]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.31.0"
ARGS = "(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:233] non-default args: {'model': '/home/user/m', 'port': 8000}"
READY = "INFO:     Application startup complete."


def told(text: str | bytes, **known: object) -> Diagnosis:
    data = text if isinstance(text, bytes) else text.encode()
    return diagnose(read_bytes(data), Known(**known))  # type: ignore[arg-type]


def cause(text: str | bytes, **known: object) -> tuple[str | None, str | None]:
    findings = told(text, **known).findings
    return (findings[0].cause, findings[0].line) if findings else (None, None)


def traceback(prefix: str, message: str, *frames: tuple[str, str, str]) -> str:
    rows = ["Traceback (most recent call last):"]
    for file, func, code in frames or (("/opt/vllm/vllm/v1/engine/core.py", "run", "go()"),):
        rows += [f'  File "{file}", line 7, in {func}', f"    {code}", "    ^^^^"]
    return "\n".join(prefix + row for row in (*rows, message))


WORKER = "(Worker_TP1 pid=22) ERROR 11-05 03:12:46 [multiproc_executor.py:800] "
ENGINE = "(EngineCore_DP0 pid=11) ERROR 11-05 03:12:47 [core.py:900] "
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.50 GiB of which 900.00 MiB is free."
LOAD = ("/opt/vllm/vllm/v1/worker/gpu_worker.py", "load_model", "self.model_runner.load_model()")


# -- which line is the root ------------------------------------------------------------------------------------


def test_wrappers_of_the_layers_above_are_never_the_root() -> None:
    log = "\n".join(
        [
            WORKER + "WorkerProc failed to start.",
            traceback(WORKER, OOM, LOAD),
            ENGINE + "EngineCore failed to start.",
            traceback(ENGINE, "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."),
            traceback("(APIServer pid=1) ", WRAPPER),
        ]
    )
    assert cause(log) == ("weights_oom", WORKER + OOM)
    found = told(log)
    assert found.findings[0].line_number == 6
    assert {row["text"][:9] for row in found.wrappers} >= {"WorkerPro", "RuntimeEr"}


def test_the_first_of_a_direct_chain_is_the_cause_and_not_the_last() -> None:
    log = "\n".join(
        [
            traceback("", "safetensors_rust.SafetensorError: Error while deserializing header: header too large"),
            "",
            "The above exception was the direct cause of the following exception:",
            "",
            traceback("", "RuntimeError: could not get the model ready"),
        ]
    )
    assert cause(log) == ("corrupt_or_unexpected_file", "safetensors_rust.SafetensorError: Error while deserializing header: header too large")
    assert [row["follows"] for row in told(log).chains] == [None, "cause"]


def test_a_lookup_that_failed_on_the_way_is_not_the_cause() -> None:
    log = "\n".join(
        [
            traceback("", "KeyError: 'thing'"),
            "\nDuring handling of the above exception, another exception occurred:\n",
            traceback("", "RuntimeError: the frobnicator is of an odd size"),
        ]
    )
    assert cause(log) == ("unknown", "RuntimeError: the frobnicator is of an odd size")


def test_interleaved_workers_are_taken_apart() -> None:
    a = traceback("(Worker_TP0 pid=1) ERROR 11-05 03:12:46 [x.py:1] ", "ValueError: Total number of attention heads (30) must be divisible by tensor parallel size (4).").split("\n")
    b = traceback("(Worker_TP1 pid=2) ERROR 11-05 03:12:46 [x.py:1] ", "torch.distributed.DistNetworkError: Connection reset by peer").split("\n")
    mixed = [line for pair in zip(b, a, strict=True) for line in pair]
    name, line = cause("\n".join(mixed))
    assert name == "tp_not_dividing_heads"
    assert line is not None
    assert line.startswith("(Worker_TP0 pid=1)")


def test_a_bare_assertion_is_shown_by_its_code() -> None:
    log = traceback(WORKER, "AssertionError", ("/opt/vllm/vllm/some/place.py", "check", "assert width % 3 == 0"))
    assert cause(log) == ("vllm_internal_bug", WORKER + "    assert width % 3 == 0")


def test_an_empty_exception_is_shown_by_the_line_below_it() -> None:
    log = traceback("", "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig") + "\n  Value error, the moon is in the wrong phase [type=value_error]"
    assert cause(log)[1] == "  Value error, the moon is in the wrong phase [type=value_error]"


def test_what_follows_a_crash_is_not_the_crash() -> None:
    log = "\n".join(
        [
            traceback("(Worker_TP0 pid=1) ERROR 11-05 03:12:46 [x.py:1] ", "RuntimeError: CUDA error: no kernel image is available for execution on the device"),
            "[rank1]:[E1105 03:22:47 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)",
            "(APIServer pid=1) KeyboardInterrupt: terminated",
            "Killed",
        ]
    )
    assert cause(log)[0] == "gpu_arch_not_in_build"


def test_words_in_prose_and_scripts_do_not_outweigh_a_traceback() -> None:
    log = "\n".join(
        [
            "# [Bug]: crash, maybe RuntimeError: UVA is not available?",
            "I start it with LLM('x/y', trust_remote_code=True) and --kv-cache-dtype fp8; see unrecognized arguments: --foo",
            "```text",
            traceback(ENGINE, "ValueError: LoRA rank 64 is greater than max_lora_rank 16."),
            "```",
        ]
    )
    assert cause(log)[0] == "lora_rank_too_high"


def test_a_pasted_script_is_no_failure() -> None:
    script = "from vllm import LLM\nfrom transformers import AutoProcessor\nllm = LLM('x/y', trust_remote_code=True, kv_cache_dtype='fp8')\n"
    assert told(script).findings == []
    assert cause(script + "RuntimeError: CUDA error: unknown error")[0] == "two_servers_one_gpu"


def test_an_excerpt_may_end_before_its_exception() -> None:
    frames = '  File "/x/vllm/lora/layers/fused_moe.py", line 164, in _inject_lora_into_fused_moe\n    assert isinstance(m.impl.fused_experts, TritonExperts)'
    later = "Traceback (most recent call last):\n" + WRAPPER
    assert cause(frames)[0] == "moe_lora_backend_mismatch"
    assert cause(frames + "\n" + later) == ("moe_lora_backend_mismatch", "    assert isinstance(m.impl.fused_experts, TritonExperts)")


def test_an_unknown_failure_is_shown_as_it_is() -> None:
    log = traceback(ENGINE, "RuntimeError: the frobnicator is of an odd size") + "\n" + traceback("(APIServer pid=1) ", WRAPPER)
    found = told(log).findings[0]
    assert (found.cause, found.confidence) == ("unknown", "low")
    assert found.line == ENGINE + "RuntimeError: the frobnicator is of an odd size"


# -- how it ended ----------------------------------------------------------------------------------------------


def test_an_engine_that_vanished_is_a_guess_with_what_to_look_at() -> None:
    found = told("\n".join([BANNER, ARGS, traceback("", EMPTY_WRAPPER)])).findings[0]
    assert (found.cause, found.confidence, found.line) == ("host_oom_killed", "low", None)
    assert any("dmesg" in text for text in found.look)
    assert any("Failed core proc" in text for text in found.evidence)


def test_an_empty_list_of_processes_proves_nothing_when_a_cause_stands_above() -> None:
    log = traceback(ENGINE, "ValueError: Free memory on device cuda:0 (7.1/8.0 GiB) on startup is less than desired GPU memory utilization (0.92, 7.36 GiB). Decrease it.") + "\n" + EMPTY_WRAPPER
    assert cause(log)[0] == "gpu_mem_util_too_high"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("(APIServer pid=1) KeyboardInterrupt: terminated", "sigterm_received"),
        (traceback("", "KeyboardInterrupt"), "interrupted_by_user"),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.", "host_oom_killed"),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -11), shutting down executor.", "worker_segfault"),
        ("Worker proc VllmWorker-0 died unexpectedly (exit code: -15), shutting down executor.", "sigterm_received"),
        ("[ 99.1] Memory cgroup out of memory: Killed process 77 (vllm)", "host_oom_killed"),
    ],
)
def test_signals_are_told_apart(text: str, name: str) -> None:
    log = "\n".join([BANNER, ARGS, text if "\n" in text or text[0] == "(" or text[0] == "[" else ENGINE + text])
    assert cause(log)[0] == name


def test_a_healthy_log_has_no_finding() -> None:
    log = "\n".join(
        [
            BANNER,
            ARGS,
            "WARNING 11-05 03:10:01 [envs.py:1] Unknown vLLM environment variable detected: VLLM_OLD",
            "E0000 00:00:1 cuda_dnn.cc:8310] Unable to register cuDNN factory: already registered",
            "(EngineCore pid=2) INFO 11-05 03:11:00 [gpu_model_runner.py:1] Model loading took 4.2 GiB",
            READY,
            "ERROR 11-05 03:20:00 [serving_chat.py:1] Error in preprocessing prompt inputs",
            traceback("ERROR 11-05 03:20:00 [serving_chat.py:1] ", "ValueError: The decoder prompt (length 9000) is longer than the maximum model length of 4096."),
            'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
            "INFO:     Shutting down",
            "KeyboardInterrupt",
        ]
    )
    found = told(log)
    assert found.findings == []
    assert found.ready
    assert found.release == "0.31.0"
    assert found.model == "/home/user/m"


def test_a_server_that_died_while_serving_is_diagnosed() -> None:
    log = "\n".join(
        [
            BANNER,
            ARGS,
            READY,
            ENGINE + "EngineCore encountered a fatal error.",
            traceback(ENGINE, OOM, ("/opt/vllm/vllm/v1/worker/gpu_model_runner.py", "execute_model", "x = self.model(y)")),
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        ]
    )
    assert cause(log)[0] == "runtime_oom_util_too_high"


def test_a_server_that_was_stopped_did_not_die() -> None:
    died = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    assert told("\n".join([BANNER, ARGS, READY, "INFO:     Shutting down", died])).findings == []
    assert told("\n".join([BANNER, ARGS, READY, died])).findings[0].cause == "host_oom_killed"


def test_of_several_runs_the_last_one_that_failed_counts() -> None:
    first = "\n".join([BANNER, ARGS, "OSError: [Errno 98] Address already in use"])
    second = "\n".join([BANNER, ARGS, traceback(ENGINE, "ValueError: LoRA rank 64 is greater than max_lora_rank 16."), WRAPPER])
    found = told(first + "\n" + second)
    assert (found.runs, found.run, found.findings[0].cause) == (2, 2, "lora_rank_too_high")
    assert told(second + "\n" + first + "\n" + "\n".join([BANNER, ARGS, READY])).findings == []
    # The container was started again and stopped: what matters is the failure before.
    stopped = "\n".join([BANNER, ARGS, "(APIServer pid=1) KeyboardInterrupt: terminated"])
    causes = [f.cause for f in told(second + "\n" + stopped).findings]
    assert causes[:2] == ["lora_rank_too_high", "sigterm_received"]


# -- forms of logs ---------------------------------------------------------------------------------------------

SAMPLE = "\n".join([BANNER, ARGS, traceback(ENGINE, "ValueError: LoRA rank 64 is greater than max_lora_rank 16."), WRAPPER])
WANTED = ENGINE + "ValueError: LoRA rank 64 is greater than max_lora_rank 16."


@pytest.mark.parametrize(
    "prefix",
    ["vllm-1  | ", "2026-11-05T03:12:46.123456789Z ", "Nov 05 03:12:46 host vllm[77]: ", "> ", "[2026-11-05T03:12:46Z] ", "[pod/a/b] ", "vllm | 2026-11-05T03:12:46Z ", "\x1b[36m"],
)
def test_prefixes_do_not_hide_the_message(prefix: str) -> None:
    log = "\n".join(prefix + line for line in SAMPLE.split("\n"))
    assert cause(log) == ("lora_rank_too_high", prefix + WANTED)


def test_encodings_and_line_ends() -> None:
    import gzip

    for data in (
        SAMPLE.encode("utf-16"),
        SAMPLE.encode("utf-16-le"),
        SAMPLE.encode("utf-16-be"),
        b"\xef\xbb\xbf" + SAMPLE.encode(),
        SAMPLE.replace("\n", "\r\n").encode(),
        gzip.compress(SAMPLE.encode()),
        gzip.compress(SAMPLE.encode())[:-5],
        SAMPLE.encode() + b"\n\xff\xff\x00",
    ):
        found = told(data)
        assert found.findings, data[:20]
        assert found.findings[0].line == WANTED
        assert found.findings[0].line_number == 7


@pytest.mark.parametrize("damage", [lambda packed: packed[: len(packed) // 2], lambda packed: packed[: len(packed) // 2] + b"\xff" * 99 + packed[len(packed) // 2 + 99 :], lambda packed: packed])
def test_a_compressed_log_that_ends_too_early_says_so(damage: Callable[[bytes], bytes]) -> None:
    import gzip

    from wizard.diagnose.report import as_text

    calm = "\n".join(f"INFO 11-30 04:39:{n % 60:02d} [core.py:{n * 37 % 1000}] vLLM API server version 0.33.0, step {n * 7919 % 100003}" for n in range(3000))
    packed = gzip.compress(calm.encode())
    data = damage(packed)
    found = told(data)
    assert found.cut is (data != packed)
    assert ("cut or damaged" in " ".join(as_text(found))) is found.cut
    assert ("it may still be starting" in " ".join(as_text(found))) is not found.cut


def test_colours_between_the_parts() -> None:
    log = SAMPLE.replace("(EngineCore_DP0 pid=11)", "\x1b[0;36m(EngineCore_DP0 pid=11)\x1b[0;0m").replace("ERROR", "\x1b[31mERROR\x1b[0m")
    assert cause(log)[0] == "lora_rank_too_high"
    lost = log.replace("\x1b", "")
    assert cause(lost)[0] == "lora_rank_too_high"


# -- what is known besides the log -----------------------------------------------------------------------------


def test_flags_are_judged_by_the_release() -> None:
    line = "vllm: error: unrecognized arguments: --disable-log-requests"
    assert cause(line, release="0.20.0")[0] == "flag_removed"
    assert cause("vllm: error: unrecognized arguments: --kv-cache-memory-bytes 5", release="0.9.2")[0] == "flag_too_new"
    # The release that refused it cannot be the one that the log names elsewhere.
    assert cause("vllm: error: unrecognized arguments: --all2all-backend x", release="0.32.0")[0] == "flag_too_new"
    assert cause("vllm: error: unrecognized arguments: --gpu-memory-utilisation 0.9")[0] == "flag_typo"
    assert cause("vllm: error: unrecognized arguments: --frobnicate")[0] == "flag_never_existed"
    assert cause("api_server.py: error: unrecognized arguments: # the port")[0] == "compose_comment_in_folded_scalar"
    assert cause("vllm: error: unrecognized arguments: serve /models/x")[0] == "docker_double_entrypoint"


def test_an_architecture_is_judged_by_the_catalogue() -> None:
    line = "ValueError: Model architectures ['Qwen3ForCausalLM'] are not supported for now."
    assert cause(line, release="0.6.3")[0] == "model_needs_newer_vllm"
    assert cause(line, release="0.30.0")[0] == "model_import_error_masked"
    assert cause("ValueError: Model architectures ['NovaNineForCausalLM'] are not supported for now.")[0] == "model_needs_newer_vllm"


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([("/x/gpu_model_runner.py", "profile_cudagraph_memory", "a()")], "cudagraph_profiling_oom"),
        ([("/x/gpu_model_runner.py", "capture_model", "a()")], "cudagraph_capture_oom"),
        ([("/x/gpu_model_runner.py", "profile_run", "a()"), ("/x/models/qwen2_vl.py", "embed_multimodal", "self.visual(p)")], "mm_profiling_oom"),
        ([("/x/gpu_model_runner.py", "load_model", "a()")], "weights_oom"),
    ],
)
def test_running_out_of_gpu_memory_is_told_by_the_place(frames: list[tuple[str, str, str]], name: str) -> None:
    assert cause(traceback(ENGINE, OOM, *frames))[0] == name


def test_memory_of_others_is_named() -> None:
    busy = OOM + " Process 4321 has 14.00 GiB memory in use. Including non-PyTorch memory, this process has 8.00 GiB memory in use."
    assert cause(traceback(ENGINE, busy, LOAD))[0] == "gpu_mem_in_use_by_other_process"
    line = "ValueError: Free memory on device cuda:0 ({}/23.68 GiB) on startup is less than desired GPU memory utilization (0.92, 21.79 GiB). Decrease it."
    assert cause(line.format("9.5"))[0] == "gpu_mem_in_use_by_other_process"
    found = told(line.format("21.4")).findings[0]
    assert found.cause == "gpu_mem_util_too_high"
    assert any(fix.flags == {"--gpu-memory-utilization": "0.89"} for fix in found.fixes)


def test_fixes_hold_the_figures_of_the_log() -> None:
    log = "ValueError: To serve at least one request with the model's max seq len (65536), (9.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.1 GiB). Based on the available memory, the estimated maximum model length is 22528. Try increasing it."
    fixes = told(log, release="0.31.0").findings[0].fixes
    assert fixes[0].flags == {"--max-model-len": "22528"}
    assert {"--max-model-len": "auto"} in [f.flags for f in fixes]
    assert {"--max-model-len": "auto"} not in [f.flags for f in told(log, release="0.10.0").findings[0].fixes]


def test_lora_and_experts_by_release() -> None:
    log = traceback(WORKER, "AssertionError", ("/opt/vllm/lora/layers/fused_moe.py", "_inject_lora_into_fused_moe", "assert isinstance(m.impl.fused_experts, TritonExperts)"))
    early, late, fixed = (told(log, release=r).findings[0].fixes for r in ("0.16.0", "0.18.1", "0.24.0"))
    assert not any("--moe-backend" in f.flags for f in early)
    assert any(f.flags.get("--moe-backend") == "triton" for f in late)
    assert "0.20.0" in early[0].summary
    assert not any("0.20.0" in f.summary for f in fixed)


def test_releases_of_rules() -> None:
    assert within("0.24.0", ">=0.24.0,<0.30")
    assert not within("0.30.1", ">=0.24.0,<0.30")
    assert within("nightly", "<0.1")
    assert within("0.33.1.dev5+g12", ">=0.33.0")
    assert accepts("0.31.0", "--max-model-len")
    assert not accepts("0.20.0", "--swap-space")
    assert accepts("0.99.0", "--max-model-len")
    assert not accepts("0.31.0", "--frobnicate")


def test_json_has_the_promised_fields() -> None:
    data = json.loads(json.dumps(told(SAMPLE).as_json()))
    assert {"release", "model", "stage", "findings"} <= set(data)
    finding = data["findings"][0]
    assert {"cause", "title", "line", "line_number", "confidence", "evidence", "explanation", "fixes"} <= set(finding)
    assert {"summary", "flags", "env", "files", "commands"} == set(finding["fixes"][0])


# -- nothing raises --------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_answered(data: bytes) -> None:
    told(data)


PIECES = [
    "Traceback (most recent call last):", '  File "/x/a.py", line 1, in f', "    assert x", "AssertionError", WRAPPER, READY, BANNER, OOM, "", "Killed",
    "The above exception was the direct cause of the following exception:", "During handling of the above exception, another exception occurred:",
    "(EngineCore pid=1) ", "ERROR 11-05 03:12:46 [x.py:1] ", "wsl: Unknown key '' in :1", "error: unrecognized arguments: ", "error: unrecognized arguments: -", "KeyError: ''",
    "Free memory on device cuda:0 (0/0 GiB) on startup is less than desired GPU memory utilization (0.9, 0 GiB)",
]  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["\n", "\r\n", ""]))
def test_any_order_of_pieces_is_answered(pieces: list[str], between: str) -> None:
    found = told(between.join(pieces))
    json.dumps(found.as_json())
    for finding in found.findings:
        assert finding.confidence in ("high", "medium", "low")
        assert finding.line is None or finding.line in between.join(pieces)


# -- what is told twice, and by whom ---------------------------------------------------------------------------


def test_a_message_that_comes_first_alone_keeps_the_place_it_came_from() -> None:
    """Releases up to 0.10 log the message, then its traceback."""
    frame = ("/home/user/.cache/huggingface/modules/transformers_modules/x/modeling_x.py", "forward", "self.y(z)")
    line = "ERROR 11-05 03:12:46 engine.py:366] "
    log = line + "AttributeError: 'Cache' object has no attribute 'seen'\n" + traceback(line, "AttributeError: 'Cache' object has no attribute 'seen'", frame)
    assert cause(log) == ("remote_code_incompatible", line + "AttributeError: 'Cache' object has no attribute 'seen'")


def test_a_person_who_mentions_another_error_below_the_log() -> None:
    log = traceback(ENGINE, "ValueError: max_cpu_loras (1) must be >= max_loras (4).") + "\nAny idea? Similar to RuntimeError: CUDA error: an illegal memory access was encountered elsewhere."
    assert cause(log)[0] == "unsupported_feature_combo"


def test_an_exception_that_is_named_by_its_ending_alone() -> None:
    assert cause("torch._dynamo.exc.Unsupported: call_method X")[0] == "vllm_internal_bug"
    assert told("Warning: something\nError: is a word").findings == []


def test_the_start_script_says_what_is_wrong_and_what_to_do() -> None:
    found = told("vllm-1  | launch.sh: Port 8000 is in use already.\nvllm-1  |   ss -ltnp | grep :8000\nvllm-1  | bye").findings[0]
    assert (found.cause, found.confidence) == ("port_in_use", "high")
    assert [f.summary for f in found.fixes] == ["ss -ltnp | grep :8000"]
    assert found.title == "Port 8000 is in use already."


def test_facts_stand_on_any_line_of_a_run() -> None:
    shell = "$ vllm serve \\\n  /home/user/m/Grün --port 8000\n"
    assert told(shell + "RuntimeError: UVA is not available").model == "/home/user/m/Grün"
    banner = told(BANNER + "\n(APIServer pid=1) ERROR 11-05 03:12:46 [a.py:1] x").release
    assert banner == "0.31.0"


def test_a_log_that_lacks_the_line_that_matters_is_not_explained() -> None:
    begun = "\n".join(WORKER + row for row in ("Traceback (most recent call last):", '  File "/x/vllm/v1/executor/multiproc_executor.py", line 796, in worker_busy_loop', "    output = func(*args, **kwargs)"))
    found = told(begun + "\n...\n\n" + WRAPPER).findings
    assert [(f.cause, f.rule, f.confidence) for f in found] == [("unknown", "cut-off", "low")]
    assert found[0].line is not None
    assert found[0].line.endswith("output = func(*args, **kwargs)")


def test_a_warning_does_not_explain_an_engine_that_vanished() -> None:
    warning = "WARNING 11-05 03:10:01 [envs.py:1] Unknown vLLM environment variable detected: VLLM_OLD"
    found = told("\n".join([BANNER, ARGS, warning, traceback("", EMPTY_WRAPPER)])).findings
    assert [f.cause for f in found] == ["host_oom_killed"]
    assert told("\n".join([BANNER, ARGS, warning])).findings[0].cause == "removed_env_var"


def test_a_question_with_an_environment_pasted_along_is_no_failure() -> None:
    found = told("vLLM Version                 : 0.11.2\nCUDA runtime version         : Could not collect\nHow do I set the port? I run vllm serve and it works.")
    assert (found.release, found.model, found.findings) == ("0.11.2", None, [])
    assert told("I run `vllm serve gpt2-large --port 80`").model == "gpt2-large"


# -- errors that a start survives ------------------------------------------------------------------------------

LOADED = "(EngineCore_DP0 pid=11) INFO 11-05 03:11:00 [gpu_model_runner.py:1] Model loading took 4.2 GiB"
ENDED = traceback(ENGINE, "RuntimeError: the frobnicator is of an odd size") + "\n(APIServer pid=1) " + WRAPPER


@pytest.mark.parametrize(
    "caught",
    [
        traceback("(APIServer pid=1) ERROR 11-05 03:10:02 [registry.py:1] ", "FileNotFoundError: [Errno 2] No such file or directory: '/root/.cache/vllm/modelinfos/x.json'"),
        traceback(ENGINE, "requests.exceptions.ConnectionError: Max retries exceeded"),
        traceback("(APIServer pid=1) WARNING 11-05 03:10:02 [a.py:1] ", "ValueError: LoRA rank 64 is greater than max_lora_rank 16."),
        "Exception ignored in: <function Foo.__del__ at 0x7f>\n" + traceback("", "AttributeError: 'Foo' object has no attribute 'bar'"),
        "ERROR: ld.so: object 'libtcmalloc.so.4' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.",
    ],
)
def test_an_error_that_was_caught_is_not_the_cause(caught: str) -> None:
    assert cause("\n".join([BANNER, ARGS, caught, LOADED, ENDED])) == ("unknown", ENGINE + "RuntimeError: the frobnicator is of an odd size")
    assert told("\n".join([BANNER, ARGS, caught, LOADED])).findings == []


def test_workers_that_go_on_for_a_while_do_not_excuse_the_one_that_failed() -> None:
    failed = traceback("(Worker_TP0 pid=1) ERROR 11-05 03:10:46 [x.py:1] ", "ValueError: LoRA rank 64 is greater than max_lora_rank 16.")
    other = "(Worker_TP1 pid=2) INFO 11-05 03:11:00 [gpu_model_runner.py:1] Model loading took 4.2 GiB"
    later = traceback("(Worker_TP1 pid=2) ERROR 11-05 03:11:46 [x.py:1] ", "RuntimeError: the frobnicator is of an odd size")
    assert cause("\n".join([BANNER, ARGS, failed, other, later, WRAPPER]))[0] == "lora_rank_too_high"


def test_the_only_error_counts_even_if_the_start_went_on() -> None:
    caught = traceback(ENGINE, "ValueError: LoRA rank 64 is greater than max_lora_rank 16.")
    assert cause("\n".join([BANNER, ARGS, caught, LOADED, "(APIServer pid=1) " + WRAPPER]))[0] == "lora_rank_too_high"


def test_talk_of_a_server_that_is_up_is_no_server_that_is_up() -> None:
    log = traceback(ENGINE, "ValueError: LoRA rank 64 is greater than max_lora_rank 16.") + "\n(APIServer pid=1) " + WRAPPER
    assert cause("It used to say Application startup complete, now it fails:\n" + log)[0] == "lora_rank_too_high"
    # A container that is started again and again, in a log that lacks the banners.
    assert cause(READY + "\n" + log)[0] == "lora_rank_too_high"


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        # A sentence of an article, alone and below a quoted exception, is hearsay; the same words from a program are not.
        ("从标题和路径看，问题指向 _inject_lora_into_fused_moe 强制要求 TritonExperts，但实际自动选中的是 FlashInferExperts。", "medium"),
        ("RuntimeError: Engine core initialization failed. See root cause above.\n\n问题指向 _inject_lora_into_fused_moe 强制要求 TritonExperts，实际选中的是 FlashInferExperts。", "medium"),
        ("ERROR 11-05 03:12:46 [core.py:900] AssertionError: _inject_lora_into_fused_moe needs TritonExperts, not FlashInferExperts", "high"),
        ("launch.sh: 端口 8000 已被占用，请换一个端口再试一次。", "high"),
    ],
)
def test_a_sentence_of_an_article_proves_nothing(text: str, sure: str) -> None:
    (finding, *_more) = told(text).findings
    assert finding.confidence == sure


def test_a_command_over_several_lines_is_one() -> None:
    found = told("$ vllm serve \\\n  ~/models/Qwen3-VL \\\n    --max-model-len 8192 \\\n    --port 8001\nValueError: x\n--not-its-own 1\n")
    assert found.command == "vllm serve ~/models/Qwen3-VL --max-model-len 8192 --port 8001"
    assert found.model == "~/models/Qwen3-VL"


def fixes(text: str, **known: object) -> list[str]:
    return [" ".join([fix.summary, *(f"{k} {v}" for k, v in fix.flags.items())]) for fix in told(text, **known).findings[0].fixes]


def test_a_step_of_fewer_tokens_than_sequences_is_not_cured_by_chunks() -> None:
    found = told("ValueError: max_num_batched_tokens (4) must be greater than or equal to max_num_seqs (8).").findings[0]
    assert [fix.flags for fix in found.fixes][:2] == [{"--max-num-batched-tokens": "8"}, {"--max-num-seqs": "4"}]
    assert "sequences" in found.title


def test_the_triton_experts_are_offered_where_the_option_is() -> None:
    text = "lora/layers/fused_moe.py in _inject_lora_into_fused_moe: AssertionError"
    assert any("--moe-backend triton" in fix for fix in fixes(text, release="0.17.0"))
    assert not any("--moe-backend" in fix for fix in fixes(text, release="0.16.0"))


def test_a_length_that_vllm_chooses_is_offered_where_it_can() -> None:
    text = "ValueError: The model's max seq len (8192) is larger than the maximum number of tokens that can be stored in KV cache (4096)."
    assert "--max-model-len auto" in " ".join(fixes(text, release="0.14.0"))
    assert "--max-model-len auto" not in " ".join(fixes(text, release="0.13.0"))
    assert fixes(text, release="0.13.0")[0].endswith("--max-model-len 4096")
    assert any("0.14.0 and newer" in fix for fix in fixes(text) if "auto" in fix)
