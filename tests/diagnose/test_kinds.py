"""Failures of every kind in every form in which logs reach us: the class and the line that tells it."""

from __future__ import annotations

import json
import random

import pytest

from tests.diagnose.test_engine import ENGINE, WRAPPER, told

# class, where it is raised ("file:function"; "" anywhere), what is raised.
KINDS: list[tuple[str, str, str]] = [
    ("config_wrong_type", "", "ValueError: Unknown tokenizer mode: fast2. Must be one of ('auto', 'slow', 'mistral')."),
    ("config_wrong_type", "/opt/vllm/config/cache.py:_verify_args", "ValueError: CPU offload space must be non-negative, but got -4"),
    ("unsupported_feature_combo", "", "ValueError: max_cpu_loras (2) must be >= max_loras (4)"),
    ("unsupported_feature_combo", "", "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface."),
    ("kv_dtype_conflict", "", "NotImplementedError: FlashAttention backend does not support fp8 kv-cache."),
    ("kv_dtype_conflict", "", "ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints."),
    ("gguf_unsupported_layout", "", "ValueError: GGUF model with architecture qwen3moe is not supported yet."),
    ("gguf_unsupported_layout", "", "RuntimeError: Unknown gguf model_type: gemma3"),
    ("tp_not_dividing_quant_block", "", "ValueError: Weight input_size_per_partition = 4864 is not divisible by min_thread_k = 128. Consider reducing tensor_parallel_size or running with --quantization gptq."),
    ("tp_not_dividing_quant_block", "", "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."),
    ("tp_not_dividing_heads", "", "AssertionError: 15 is not divisible by 4"),
    ("tp_not_dividing_heads", "", "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8)."),
    ("triton_kernel_compile_error", "", "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help."),
    ("triton_kernel_compile_error", "", "triton.compiler.errors.CompilationError: at 50:8:"),
    ("cutlass_kernel_error", "", "RuntimeError: Error Internal"),
    ("cutlass_kernel_error", "", "RuntimeError: cutlass_scaled_mm failed: Invalid status"),
    ("cuda_device_assert", "", "RuntimeError: CUDA error: device-side assert triggered"),
    ("cuda_illegal_memory_access", "", "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
    ("flashinfer_moe_backend_crash", "/opt/flashinfer/fused_moe/core.py:cutlass_fused_moe", "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: Unsupported shape"),
    ("flashinfer_moe_backend_crash", "", "tvm.error.InternalError: Error in function 'TrtllmGenBatchedGemmRunner' at trtllm_batched_gemm_runner.cu:124: No kernel found for the given options"),
    ("hf_processor_incompatible", "", "TypeError: Qwen2VLProcessor.__init__() got multiple values for argument 'image_processor'"),
    ("hf_processor_incompatible", "", "RuntimeError: Failed to apply Gemma3Processor on data={'text': '', 'images': []} with kwargs={}"),
    ("model_config_not_found", "", "ValueError: Invalid repository ID or local directory specified: '/models/x'."),
    ("model_config_not_found", "", "OSError: /models/x does not appear to have a file named config.json. Checkout 'https://huggingface.co//models/opt/tree/None' for available files."),
    ("model_weights_not_found", "", "RuntimeError: Cannot find any model weights with `/models/x`"),
    ("model_weights_not_found", "", "FileNotFoundError: [Errno 2] No such file or directory: '/models/opt/model-00003-of-00007.safetensors'"),
    ("model_needs_newer_transformers", "", "ValueError: The checkpoint you are trying to load has model type `qwen3_5` but Transformers does not recognize this architecture."),
    ("model_needs_newer_transformers", "", "ImportError: cannot import name 'Gemma3Config' from 'transformers' (/opt/transformers/__init__.py)"),
    ("model_needs_newer_vllm", "", "ValueError: Model architectures ['Step9ForCausalLM'] are not supported for now. Supported architectures: dict_keys(['A'])"),
    ("model_needs_newer_vllm", "", "ValueError: Step9ForCausalLM has no vLLM implementation and the Transformers implementation is not compatible with vLLM."),
    ("remote_code_incompatible", "", "ValueError: Loading /models/x requires you to execute the configuration file in that repo on your local machine. Make sure you have read the code there to avoid malicious use, then set the option `trust_remote_code=True` to remove this error."),
    ("remote_code_incompatible", "/root/.cache/huggingface/modules/transformers_modules/opt/modeling_x.py:forward", "AttributeError: 'DynamicCache' object has no attribute 'seen_tokens'"),
    ("weight_name_mismatch", "", "ValueError: There is no module or parameter named 'lm_head.weight_scale' in LlamaForCausalLM"),
    ("weight_name_mismatch", "", "ValueError: Following weights were not initialized from checkpoint: {'model.layers.0.mlp.gate.weight'}"),
    ("weight_shape_mismatch", "", "AssertionError: Attempted to load weight (torch.Size([4096, 1024])) into parameter (torch.Size([4096, 2048]))"),
    ("weight_shape_mismatch", "/opt/vllm/model_executor/layers/linear.py:weight_loader", "ASSERT:assert param_data.shape == loaded_weight.shape"),
    ("corrupt_or_unexpected_file", "", "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization"),
    ("corrupt_or_unexpected_file", "", "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered"),
    ("hf_gated_model", "", "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-abc)"),
    ("hf_gated_model", "", "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/meta/x.\n401 Client Error."),
    ("hf_hub_unreachable", "", "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files."),
    ("hf_hub_unreachable", "", "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache. Please check your connection and try again"),
    ("docker_shm_too_small", "", "RuntimeError: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nError while creating shared memory segment /dev/shm/nccl-abc (size 9637888), error: No space left on device (28)"),
    ("nccl_init_failed", "", "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"),
    ("nccl_init_failed", "", "RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers"),
    ("nccl_device_not_visible", "", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, invalid usage, NCCL version 2.27.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"),
    ("nccl_device_not_visible", "", "torch.AcceleratorError: CUDA error: invalid device ordinal"),
    ("rpc_timeout", "", "TimeoutError: RPC call to sample_tokens timed out."),
    ("rpc_timeout", "", "TimeoutError: RPC call to execute_model timed out."),
    ("hip_runtime_error", "", "RuntimeError: HIP error: invalid device function"),
    ("hip_runtime_error", "", "torch.AcceleratorError: HIP error: the operation cannot be performed in the present state"),
    ("tpu_init_failed", "", "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy"),
    ("tpu_kernel_compile_error", "", "jax.errors.JaxRuntimeError: INTERNAL: Mosaic failed to compile TPU kernel: unsupported shape cast"),
    ("missing_dependency", "", "ModuleNotFoundError: No module named 'timm'"),
    ("missing_dependency", "", "ImportError: Please install vllm[audio] for audio support."),
    ("vllm_extension_missing", "", "ModuleNotFoundError: No module named 'vllm._C'"),
    ("vllm_extension_missing", "", "AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'"),
    ("gpu_not_visible", "", "ValueError: Tensor parallel size (4) cannot be larger than the number of available GPUs (2)."),
    ("gpu_not_visible", "/opt/vllm/config/parallel.py:__post_init__", "ValueError: World size (8) is larger than the number of available GPUs (4) in this node. If this is intentional and you are using:"),
    ("ray_placement_no_gpu", "", "ValueError: Cannot provide a placement group of placement_group_specs=[{'GPU': 1.0}] within 1800 seconds."),
    ("ray_dag_timeout", "", "ray.exceptions.RayChannelTimeoutError: System error: If the execution is expected to take a long time, increase RAY_CGRAPH_get_timeout which is currently 300 seconds."),
    ("device_type_not_detected", "", "RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."),
    ("device_type_not_detected", "", "RuntimeError: Device string must not be empty"),
    ("driver_too_old_for_cuda", "", "RuntimeError: The NVIDIA driver on your system is too old (found version 12020). Please update your GPU driver"),
    ("driver_too_old_for_cuda", "", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / cuda driver combination"),
    ("torch_abi_mismatch", "", "ImportError: /opt/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEa"),
    ("torch_abi_mismatch", "", "ImportError: /opt/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"),
    ("ld_library_path_conflict", "", "ImportError: /opt/nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12"),
    ("cuda_runtime_lib_mismatch", "", "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory"),
    ("cuda_runtime_lib_mismatch", "", "ImportError: libcublas.so.12: cannot open shared object file: No such file or directory"),
    ("os_too_old_glibc", "", "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.32' not found (required by /opt/vllm/_C.abi3.so)"),
    ("flashinfer_jit_no_nvcc", "", "RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist"),
    ("flashinfer_jit_no_nvcc", "", "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"),
    ("ninja_not_on_path", "", "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"),
    ("missing_system_headers", "", "RuntimeError: Failed to find C compiler. Please specify via CC environment variable or set triton.knobs.build.impl."),
    ("missing_system_headers", "", "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++')"),
    ("cache_not_writable", "", "PermissionError: [Errno 13] Permission denied: '/.cache'"),
    ("cache_not_writable", "", "PermissionError: [Errno 13] Permission denied: '/root/.cache/vllm/torch_compile_cache'"),
    ("compile_cache_corrupt", "/opt/torch/_inductor/codecache.py:load", "EOFError: Ran out of input"),
    ("compile_cache_corrupt", "", "AssertionError: failed to get the hash of the compiled graph"),
    ("cuda_fork", "", "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"),
    ("path_missing", "", "ValueError: The supplied chat template (/templates/x.jinja) looks like a file path, but it failed to be opened. Reason: [Errno 2] No such file or directory: '/templates/x.jinja'"),
    ("path_missing", "", "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'. Use `repo_type` argument if needed."),
    ("mm_batch_too_small", "", "ValueError: Chunked MM input disabled but max_tokens_per_mm_item (16384) is larger than max_num_batched_tokens (8192). Please increase max_num_batched_tokens."),
    ("max_model_len_exceeds_model", "", "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n  Value error, User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=40960 or model_max_length=None in model's config.json). [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"),
    ("gpu_mem_in_use_by_other_process", "", "AssertionError: Error in memory profiling. Initial free memory 22.1 GiB, current free memory 22.5 GiB. This happens when other processes sharing the same container release GPU memory while vLLM is profiling during initialization."),
    ("quant_unsupported_gpu", "", "ValueError: The quantization method modelopt_fp4 is not supported for the current GPU. Minimum capability: 100. Current capability: 89."),
    ("quant_unsupported_platform", "", "ValueError: awq quantization is currently not supported in rocm."),
    ("quant_unsupported_platform", "", "ValueError: Quantization method specified in the model config (fp8) does not match the quantization method specified in the `quantization` argument (awq)."),
    ("dtype_unsupported_gpu", "", "ValueError: torch.bfloat16 is not supported for quantization method gptq. Supported dtypes: [torch.float16]"),
    ("lora_rank_too_high", "", "ValueError: LoRA rank 128 is greater than max_lora_rank 16."),
    ("moe_lora_unsupported", "", "AssertionError: GptOssForCausalLM does not support LoRA for fused MoE experts"),
    ("port_in_use", "", "OSError: [Errno 98] Address already in use"),
    ("parser_name_invalid", "", "KeyError: 'invalid tool call parser: qwen3coder (chose from { hermes,mistral })'"),
    ("parser_name_invalid", "", "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  Value error, invalid reasoning parser: qwen35 (chose from { deepseek_r1 }) [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]"),
    ("vllm_internal_bug", "/opt/vllm/v1/core/sched/scheduler.py:schedule", "AssertionError:"),
    ("vllm_internal_bug", "/opt/vllm/v1/worker/gpu_model_runner.py:_prepare_inputs", "IndexError: list index out of range"),
    ("engine_ready_timeout", "", "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight loading for large models. Waited 600s (configured by VLLM_ENGINE_READY_TIMEOUT_S)."),
    ("host_oom_killed", "", "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9663676416 bytes. Error code 12 (Cannot allocate memory)"),
    ("gpu_arch_not_in_build", "", "RuntimeError: CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasGemmEx`"),
    ("wsl_nvml_limited", "", "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1154, please report a bug to PyTorch."),
    ("quant_unsupported_gpu", "", "ValueError: No MXFP8 MoE backends available."),
    ("gpu_mem_in_use_by_other_process", "", "ValueError: Free memory on device (3.1/23.6 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."),
    ("weights_oom", "/opt/vllm/model_executor/model_loader/base_loader.py:load_model", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 260.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 112.00 MiB is free."),
    ("cudagraph_capture_oom", "/opt/vllm/v1/worker/gpu_model_runner.py:_capture_cudagraphs", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 12.00 MiB is free."),
    ("docker_shm_too_small", "", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error, NCCL version 2.26.2\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nError while attaching to shared memory segment /dev/shm/nccl-Ab1 (size 0), error: No such file or directory (2)"),
    ("wsl_uva_v2_runner", "", "RuntimeError: UVA is not available"),
    ("ld_library_path_conflict", "", "ImportError: /opt/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister"),
    ("tmpfs_full", "", "OSError: [Errno 28] No space left on device"),
    ("tmpfs_full", "", "RuntimeError: Data processing error: CAS service error : IO Error: No space left on device (os error 28)"),
    ("flashinfer_toolkit_too_old", "", "RuntimeError: FlashInfer requires GPUs with sm75 or higher"),
    ("engine_ready_timeout", "", "TimeoutError: Timed out waiting for engines to send initial message on input socket."),
    ("ray_placement_no_gpu", "", "ValueError: Ray does not allocate any GPUs on the driver node. Consider adjusting the Ray placement group or running the driver on a GPU node."),
    ("max_model_len_exceeds_kv", "", "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (20480). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."),
    ("flashinfer_toolkit_too_old", "", "RuntimeError: Ninja build failed. Ninja output:\nnvcc fatal   : Unknown option '--compress-mode=size'"),
]
START = """(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:299]  █ █  version 0.17.0
(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:233] non-default args: {'model': '/models/x', 'gpu_memory_utilization': 0.9}
(EngineCore_DP0 pid=11) INFO 11-05 03:10:05 [core.py:90] Initializing a V1 LLM engine (v0.17.0) with config: model='/models/x'"""
HEALTHY = """(APIServer pid=1) INFO:     Application startup complete.
(APIServer pid=1) INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK
(APIServer pid=1) INFO:     Shutting down"""


def raised(place: str, message: str) -> list[str]:
    file, _colon, function = (place or "/opt/vllm/v1/worker/gpu_worker.py:init_device").partition(":")
    code = "do_something(x)"
    if message.startswith("ASSERT:"):
        code, message = message.removeprefix("ASSERT:"), "AssertionError"
    return [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/engine/core.py", line 890, in run_engine_core',
        "    engine_core = EngineCoreProc(*args, **kwargs)",
        "                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        f'  File "{file}", line 3, in {function}',
        f"    {code}",
        *message.split("\n"),
    ]


def one_process(rows: list[str]) -> str:
    engine = [ENGINE + "EngineCore failed to start.", *(ENGINE + row for row in rows), "(EngineCore_DP0 pid=11) Process EngineCore_DP0:", *("(EngineCore_DP0 pid=11) " + row for row in rows)]
    return "\n".join([START, *engine, "(APIServer pid=1) Traceback (most recent call last):", f"(APIServer pid=1) {WRAPPER}"])


def four_workers(rows: list[str]) -> str:
    """Tensor parallel workers that all fail, their lines mixed at random."""
    queues = [[f"(Worker_TP{n} pid={100 + n}) ERROR 11-05 03:12:46 [multiproc_executor.py:700] {row}" for row in ("WorkerProc failed to start.", *rows)] for n in range(4)]
    chosen, mixed = random.Random(len(rows[-1])), []
    while any(queues):
        mixed.append(chosen.choice([q for q in queues if q]).pop(0))
    engine = ["EngineCore failed to start.", "Traceback (most recent call last):", "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."]
    return "\n".join([START, *mixed, *(ENGINE + row for row in engine), f"(APIServer pid=1) {WRAPPER}", "resource_tracker: There appear to be 1 leaked shared_memory objects"])


def before_version_one(rows: list[str]) -> str:
    line = "ERROR 11-05 03:12:46 engine.py:366] "
    return "\n".join(["INFO 11-05 03:10:00 api_server.py:592] vLLM API server version 0.6.6", *(line + row for row in rows), "Process SpawnProcess-1:", *rows, "RuntimeError: Engine process failed to start. See stack trace for the root cause."])


def prefixed(prefix: str, text: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n"))


FORMS = {
    "one process": one_process,
    "four workers": four_workers,
    "0.6": before_version_one,
    "compose": lambda rows: prefixed("vllm-1  | ", four_workers(rows)),
    "journal": lambda rows: prefixed("Nov 05 03:12:46 box vllm[77]: ", one_process(rows)),
    "kubernetes": lambda rows: prefixed("[pod/vllm-0/vllm] ", one_process(rows)),
    "time stamps": lambda rows: prefixed("2026-11-05T03:12:46.123456789Z ", four_workers(rows)),
    "colours": lambda rows: one_process(rows).replace(" ERROR ", " \x1b[31mERROR\x1b[0m ").replace("(EngineCore_DP0 pid=11)", "\x1b[1;36m(EngineCore_DP0 pid=11)\x1b[0;0m"),
    "another logger": lambda rows: prefixed("2026-05-29 09:14:45,594 - INFO - [container] ", one_process(rows)),
    "a named logger": lambda rows: prefixed("2025-06-27 12:57:45,345 - __main__ - INFO - ", before_version_one(rows)),
    "Kubernetes' files": lambda rows: prefixed("2026-05-29T09:14:45.594000000Z stderr F ", one_process(rows)),
    "Docker's files": lambda rows: "\n".join(json.dumps({"log": line + "\n", "stream": "stderr"}, separators=(",", ":")) for line in one_process(rows).split("\n")),
    "CRLF": lambda rows: one_process(rows).replace("\n", "\r\n"),
    "prose": lambda rows: f"### It fails since the update, maybe CUDA out of memory?\n\n```text\n{one_process(rows)}\n```\nSimilar to RuntimeError: CUDA error: an illegal memory access was encountered elsewhere.",
    "begins late": lambda rows: "\n".join(one_process(rows).split("\n")[5:]),
    "ends early": lambda rows: one_process(rows).rpartition("(APIServer pid=1) Traceback")[0],
    "second run": lambda rows: f"{START}\n{HEALTHY}\n{one_process(rows)}",
}


def shown(line: str) -> str:
    return json.loads(line)["log"] if line.startswith("{") else line


@pytest.mark.parametrize("form", FORMS)
def test_each_kind_in_this_form(form: str) -> None:
    wrong = []
    for cause, place, message in KINDS:
        rows = raised(place, message)
        found = told(FORMS[form](rows)).findings
        told_rows = [row.strip() for row in rows[5:]]
        if not found or found[0].cause != cause or not any(row in shown(found[0].line) for row in told_rows if row):
            wrong.append((cause, message, found[0].cause if found else None, found[0].line if found else None))
    assert wrong == []


def test_wide_characters() -> None:
    cause, place, message = KINDS[0]
    assert told(one_process(raised(place, message)).encode("utf-16")).findings[0].cause == cause
