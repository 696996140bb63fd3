"""Values of vLLM's own options that its parser takes and the start then dies of: told before anything is written."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence

from wizard.errors import BadInput
from wizard.i18n import _, sentence
from wizard.releases import start_values
from wizard.releases.parse import NO, YES, check_argv, find_option, human_int
from wizard.releases.start_values import PLUGIN_METHODS, taken
from wizard.releases.types import Option, Release

# The least that makes sense for options that any whole number passes the parser of (vLLM's own configuration
# classes refuse less, or the engine fails later).
LEAST: dict[str, int] = {
    "max_num_batched_tokens": 1,
    "block_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "data_parallel_size_local": 0,
    "prefill_context_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "max_loras": 1,
    "max_lora_rank": 1,
    "max_cpu_loras": 1,
    "max_num_partial_prefills": 1,
    "max_long_partial_prefills": 1,
    "long_prefill_token_threshold": 0,
    "max_parallel_loading_workers": 1,
    "max_seq_len_to_capture": 1,
    "max_logprobs": -1,
    "kv_cache_memory_bytes": 1,
    "num_gpu_blocks_override": 1,
    "stream_interval": 1,
    "cpu_offload_gb": 0,
    "swap_space": 0,
    "mm_processor_cache_gb": 0,
    "nnodes": 1,
    "node_rank": 0,
}  # fmt: skip
# Options whose value is a file or folder of this machine, if it is a path at all.
PATHS = frozenset(
    {
        "chat_template", "tokenizer", "tool_parser_plugin", "reasoning_parser_plugin", "ssl_keyfile", "ssl_certfile",
        "ssl_ca_certs", "hf_config_path", "generation_config", "allowed_local_media_path",
    }
)  # fmt: skip
# The working folder of vLLM's images: what lies there (templates, examples) comes with them.
IMAGE_FOLDER = "/vllm-workspace/"


def wrong(option: Option, text: str, release: Release) -> str | None:
    """Why ``text`` cannot be the value of ``option``, with what may stand there; None where nothing speaks against it."""
    raw = text.strip()
    if "\0" in raw:
        return _("It holds a zero byte, which no command can carry.")
    if option.kind in ("flag", "optional_flag"):
        return None if raw.lower() in (*YES, *NO) else _("It must be yes or no.")
    if option.dest == "quantization" and release.quantization and raw not in ("", "None", *release.quantization, *PLUGIN_METHODS):
        return _("Must be one of: {names}.").format(names=", ".join(release.quantization))
    if option.start_others != "plugins" and not taken(raw, option):
        return _("Must be one of: {names}.").format(names=_named(raw, option.start_values))
    if option.value_type in ("json", "json_or_str") and raw[:1] in ("{", "["):
        try:
            json.loads(raw)
        except ValueError as error:
            return _("It is not valid JSON: {why}.").format(why=error)
    if option.dest == "hf_overrides" and raw and raw[:1] != "{":
        return _("It must be a JSON object, such as {example}.").format(example='{"rope_theta": 1000000}')
    if start_values.outside(raw, option):
        return sentence(start_values.within(option))
    # 0 is no length; -1 is the longest that fits, to releases that know it.
    least = 1 if option.dest == "max_model_len" and raw == "0" else LEAST.get(option.dest)
    if least is not None:
        number = _number(raw)
        if number is not None and number < least:
            return _("Must be at least {minimum}.").format(minimum=least)
    return None


def refused(name: str, text: str, release: Release) -> str | None:
    """Why ``text`` cannot be given for the option called ``name`` (its dest, or a flag without its dashes); None where
    the release takes it. An option that it does not have is refused too."""
    key = name.replace("-", "_")
    flag = "--" + name.replace("_", "-")
    option = next((o for o in release.options if o.dest == key), None)
    if option is not None and flag not in option.flags:
        flag = option.flag
    if option is None:
        option = find_option(release, flag)[0]
    raw = text.strip()
    if option is not None and option.kind in ("flag", "optional_flag"):
        return wrong(option, raw, release)
    if key == "kv_cache_dtype" and release.kv_cache_dtypes and raw not in release.kv_cache_dtypes:
        # A plugin may bring another type; of its size nothing is known here, and a plan does not take it either.
        return _("Must be one of: {names}.").format(names=", ".join(release.kv_cache_dtypes))
    for problem in check_argv(["model", f"{flag}={raw}"], release.version):
        if problem.refused:
            return sentence(problem.message)
    return wrong(option, raw, release) if option is not None else None


SHOWN = 12


def _named(raw: str, names: Sequence[str]) -> str:
    """The names that may stand there; of very many those that are nearest to what was given, and how many more."""
    if len(names) <= SHOWN + 2:
        return ", ".join(names)
    plain = {n.lower(): n for n in names}
    near = [plain[n] for n in difflib.get_close_matches(raw.lower(), plain, SHOWN, 0.3)]
    shown = list(dict.fromkeys([*near, *names]))[:SHOWN]
    return _("{names} and {n} more").format(names=", ".join(shown), n=len(names) - SHOWN)


def _number(raw: str) -> float | None:
    try:
        return human_int(raw)
    except (ValueError, TypeError, BadInput):
        try:
            return float(raw)
        except ValueError:
            return None


def path_of(dest: str, text: str, home: str) -> str | None:
    """The full path that the value of an option names, ``~`` replaced; None where it is no path of this machine."""
    from wizard.session import expand

    raw = text.strip()
    if dest not in PATHS or not raw or "\n" in raw or (dest == "chat_template" and any(c in raw for c in "{}")):
        return None
    path = expand(raw, home)
    return path if path.startswith("/") and not path.startswith(IMAGE_FOLDER) else None
