"""Our own one-line meaning of the options that the wizard offers, and what each does to memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wizard.i18n import N_, _

MemoryEffect = Literal["more", "less", "none", "depends"]


@dataclass(frozen=True)
class OptionHelp:
    """What an option is for. Texts are translated when asked for."""

    dest: str
    meaning: str
    effect: MemoryEffect
    memory: str


# dest -> (meaning, effect on GPU memory as it is raised or switched on, in words)
_HELP: dict[str, tuple[str, MemoryEffect, str]] = {
    "model": (N_("The model: a folder or a repository id."), "depends", N_("its weights take most of the memory")),
    "served_model_name": (N_("The name that requests call the model by."), "none", N_("none")),
    "host": (N_("The address that the server listens on; 127.0.0.1 is this machine only."), "none", N_("none")),
    "port": (N_("The TCP port that the server listens on."), "none", N_("none")),
    "api_key": (N_("A key that every request must carry."), "none", N_("none")),
    "max_model_len": (N_("The longest context, prompt and answer together, in tokens; auto takes what fits."), "more", N_("longer contexts need more KV cache for each request")),
    "gpu_memory_utilization": (N_("The share of each GPU's memory that vLLM may use."), "more", N_("whatever weights leave of that share becomes KV cache")),
    "kv_cache_memory_bytes": (N_("The size of the KV cache itself, instead of a share of the GPU."), "more", N_("exactly that much; the share is not looked at then")),
    "tensor_parallel_size": (N_("Over how many GPUs each layer is split."), "less", N_("weights and KV cache are divided by it, plus about 2 GiB for communication")),
    "pipeline_parallel_size": (N_("Into how many groups the layers are split, one after the other."), "less", N_("weights and KV cache are divided by it")),
    "data_parallel_size": (N_("How many copies of the model run side by side."), "none", N_("each copy needs its own GPUs")),
    "enable_expert_parallel": (N_("Spread the experts of a mixture model over the GPUs instead of splitting each."), "depends", N_("about the same in all; how even depends on the experts")),
    "distributed_executor_backend": (N_("What runs the workers: mp on one machine, ray on several."), "none", N_("none")),
    "dtype": (N_("The number type of weights that are not quantized; auto takes the model's own."), "depends", N_("float32 takes twice as much as bfloat16 or half")),
    "quantization": (N_("How weights are quantized; read from the model when it says so itself."), "less", N_("fp8 halves the weights, 4-bit types quarter them")),
    "kv_cache_dtype": (N_("The number type of the KV cache; fp8 needs an RTX 40, Hopper or newer card."), "less", N_("fp8 halves the KV cache")),
    "max_num_seqs": (N_("How many requests run at once at most."), "more", N_("a little more for activations and CUDA graphs")),
    "max_num_batched_tokens": (N_("How many tokens are worked on in one step at most."), "more", N_("more activation memory is set aside")),
    "enable_prefix_caching": (N_("Keep the KV cache of common beginnings for later requests."), "none", N_("none: it uses free blocks")),
    "enable_chunked_prefill": (N_("Work on long prompts in pieces, between the answers of others."), "less", N_("less activation memory for long prompts")),
    "enforce_eager": (N_("Do without CUDA graphs and compilation: starts faster, answers slower."), "less", N_("saves the memory of the CUDA graphs")),
    "cpu_offload_gb": (N_("How much of the weights (GiB per GPU) lies in main memory; much slower."), "less", N_("that much less on the GPU, that much more in RAM")),
    "kv_offloading_size": (N_("How much main memory (GiB) takes KV cache that the GPU has no room for."), "none", N_("none on the GPU; that much RAM")),
    "swap_space": (N_("Main memory (GiB) for paused requests, in releases that still have it."), "none", N_("none on the GPU; that much RAM")),
    "block_size": (N_("How many tokens one block of the KV cache holds."), "none", N_("almost none")),
    "trust_remote_code": (N_("Run Python code that comes with the model. Only for models that you trust."), "none", N_("none")),
    "load_format": (N_("How the weight files are read."), "none", N_("none")),
    "safetensors_load_strategy": (N_("How weight files are read from disk; prefetch helps on slow or network drives."), "none", N_("none on the GPU")),
    "download_dir": (N_("Where downloaded models are kept."), "none", N_("none")),
    "tokenizer": (N_("The tokenizer, when it is not the model's own."), "none", N_("none")),
    "tokenizer_mode": (N_("Which kind of tokenizer; mistral for Mistral's own format."), "none", N_("none")),
    "config_format": (N_("Which kind of configuration file; mistral for Mistral's own format."), "none", N_("none")),
    "revision": (N_("A branch, tag or commit of the model's repository."), "none", N_("none")),
    "seed": (N_("The seed of random choices."), "none", N_("none")),
    "chat_template": (N_("A file with the chat template, when it is not the model's own."), "none", N_("none")),
    "chat_template_content_format": (N_("How message contents are given to the chat template."), "none", N_("none")),
    "default_chat_template_kwargs": (N_("Settings of the chat template for all requests, such as thinking on or off."), "none", N_("none")),
    "enable_auto_tool_choice": (N_("Let the model decide when it calls a tool; needs a tool-call parser."), "none", N_("none")),
    "tool_call_parser": (N_("Which format the model writes tool calls in."), "none", N_("none")),
    "tool_parser_plugin": (N_("A Python file with a tool-call parser of your own."), "none", N_("none")),
    "reasoning_parser": (N_("Which format the model writes its reasoning in, so that it comes apart from the answer."), "none", N_("none")),
    "structured_outputs_config": (N_("How answers are held to a JSON schema or grammar."), "none", N_("none")),
    "enable_lora": (N_("Serve LoRA adapters beside the model."), "more", N_("room for the adapters is set aside")),
    "lora_modules": (N_("The adapters to load: name=path."), "none", N_("none beyond the slots")),
    "max_loras": (N_("How many adapters are used in one batch at most."), "more", N_("one slot each, set aside at the start")),
    "max_lora_rank": (N_("The highest rank of any adapter."), "more", N_("each slot grows with it")),
    "max_cpu_loras": (N_("How many adapters are kept in main memory."), "none", N_("none on the GPU; their size in RAM")),
    "fully_sharded_loras": (N_("Split the adapters over the GPUs as well."), "less", N_("smaller slots on each GPU")),
    "limit_mm_per_prompt": (N_("How many images, videos and so on one request may have; 0 switches a kind off."), "less", N_("a lower limit shrinks what the start-up sets aside for them")),
    "mm_processor_kwargs": (N_("Settings of the image or audio preprocessor, such as the largest picture."), "depends", N_("smaller pictures take less")),
    "mm_processor_cache_gb": (N_("Main memory (GiB) for preprocessed pictures."), "none", N_("none on the GPU; that much RAM for each process")),
    "mm_encoder_tp_mode": (N_("Whether the vision tower is split over the GPUs or copied to each."), "more", N_("data copies the tower to every GPU")),
    "skip_mm_profiling": (N_("Do not measure the vision tower's peak at the start; you answer for the room it needs."), "less", N_("nothing is set aside for it: it can run out later")),
    "language_model_only": (N_("Leave the vision and audio parts out: text only."), "less", N_("their weights and working memory are saved")),
    "allowed_local_media_path": (N_("A folder from which requests may name local pictures."), "none", N_("none")),
    "runner": (N_("What the model is for: generate text, or pooling (embedding, scoring)."), "none", N_("none")),
    "convert": (N_("Turn a generating model into an embedding, scoring or reward model."), "none", N_("none")),
    "pooler_config": (N_("How an embedding model makes one vector of many."), "none", N_("none")),
    "hf_overrides": (N_("Values that replace those of the model's config.json."), "depends", N_("depends on what is replaced")),
    "override_generation_config": (N_("Sampling defaults that replace the model's own."), "none", N_("none")),
    "generation_config": (N_("Where sampling defaults come from: auto (the model), vllm (none), or a folder."), "none", N_("none")),
    "speculative_config": (N_("Guess several tokens ahead with a draft model or n-grams, as JSON."), "more", N_("the draft model's weights and KV cache")),
    "attention_backend": (N_("Which attention kernels are used; chosen by itself as a rule."), "none", N_("almost none")),
    "moe_backend": (N_("Which kernels run the experts of a mixture model; chosen by itself as a rule."), "none", N_("almost none")),
    "compilation_config": (N_("Details of torch.compile and CUDA graphs, as JSON."), "depends", N_("more graph sizes take more memory")),
    "optimization_level": (N_("How much is compiled at the start, 0 to 3: higher starts slower and answers faster."), "more", N_("a little more with CUDA graphs")),
    "max_cudagraph_capture_size": (N_("The largest batch that has its own CUDA graph."), "more", N_("each captured size takes some memory")),
    "async_scheduling": (N_("Plan the next step while the GPU works on this one."), "none", N_("none")),
    "enable_log_requests": (N_("Write every request to the log."), "none", N_("none")),
    "disable_log_stats": (N_("Do not write throughput to the log."), "none", N_("none")),
    "uvicorn_log_level": (N_("How much the web server writes to the log."), "none", N_("none")),
    "allowed_origins": (N_("Web pages of which origins may call the server, as a JSON list."), "none", N_("none")),
    "nnodes": (N_("Over how many machines the model is spread."), "less", N_("weights and KV cache are divided over them")),
    "node_rank": (N_("Which of those machines this one is, counted from 0."), "none", N_("none")),
    "master_addr": (N_("Address of the first machine."), "none", N_("none")),
    "headless": (N_("Only work for another machine's server; answer no requests here."), "none", N_("none")),
    "config": (N_("A YAML file with options; those on the command line count more."), "none", N_("none")),
}  # fmt: skip


# dest -> help, its texts marked for translation and translated where they are shown.
HELP: dict[str, OptionHelp] = {
    dest: OptionHelp(dest, meaning, effect, memory) for dest, (meaning, effect, memory) in _HELP.items()
}


def help_for(dest: str) -> OptionHelp | None:
    """Our help for an option, translated; None where the wizard does not offer it."""
    entry = HELP.get(dest)
    if entry is None:
        return None
    return OptionHelp(dest, _(entry.meaning), entry.effect, _(entry.memory))


def offered() -> tuple[str, ...]:
    """The options that have a help text."""
    return tuple(HELP)
