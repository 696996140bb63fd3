"""Whether a command's model fits this machine's GPUs with these options: the fit's own arithmetic."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wizard import program
from wizard.i18n import _, sentences, stopped
from wizard.models.quant import quantization_conflict
from wizard.outputs.quoting import bash_line
from wizard.releases.parse import BadValue, human_int
from wizard.releases.types import ArgProblem
from wizard.session import expand

from .container import model_on_host
from .judge import Verdict

if TYPE_CHECKING:
    from wizard.facts import Gpu, Machine
    from wizard.fit_types import FitRequest, FitResult
    from wizard.host import Host
    from wizard.models.info import ModelInfo

GIB = 1 << 30


def conflicts(verdict: Verdict, machine: Machine, host: Host) -> list[ArgProblem]:
    """What the machine's GPUs are too small for, or a tensor parallel size that does not divide the model."""
    model = model_on_host(verdict, machine.home)
    info = model_info(model, machine, host)
    uneven = undividable(verdict, info)
    if uneven is not None:
        return [uneven]
    gpus = _same_gpus(machine)
    if not gpus or not model or "$" in model or verdict.command.kind == "kubernetes":
        return []
    from wizard.fit import fit
    from wizard.fit_calibrate import load

    request = fit_request(verdict, machine, gpus)
    if info is None:
        return _of_unknown(model, request, there=not model.startswith(("/", "~")))

    calibration = load(host, request, info.repo_id or info.source)
    result = fit(info, request, calibration)
    if not result.certain:
        return _of_unknown(model, request)
    if result.fits or not result.problems:
        return []
    share = _free_share(request, result)
    if share is None:
        return [_too_little(result)]
    # A share that is not free says nothing of the model: that is held against what is.
    lower = fit(info, replace(request, gpu_memory_utilization=share), calibration)
    helps = lower.fits_best or lower.max_model_len_that_fits  # by itself, or with the shorter context named below
    wrong = _share_not_free(result, share if helps else None)
    return [wrong] if lower.fits or not lower.problems else [wrong, _too_little(lower)]


def _of_unknown(model: str, request: FitRequest, *, there: bool = True) -> list[ArgProblem]:
    """What can be said of a model whose memory is not known: whether the share of the GPU that is asked for is free, and
    that no more was judged (``there``: as far as it is known to be anywhere)."""
    from wizard.fit import fit
    from wizard.models.info import ModelInfo

    told = _("how much memory this model needs is not known here, and was not judged; {command} tells it of a model that is downloaded or can be looked up")
    fit_it = bash_line([*program.words(), "fit", "--model", model])
    unjudged = [ArgProblem(model, "ok", told.format(command=fit_it))] if there else []
    result = fit(ModelInfo(source=model, is_local=False, repo_id=model, kv_layout_known=False), request)
    share = _free_share(request, result)
    return unjudged if share is None or not result.problems else [_share_not_free(result, share), *unjudged]


def _share_not_free(result: FitResult, share: float | None) -> ArgProblem:
    told = _("not enough GPU memory: {problem}").format(problem=result.problems[0])
    replacement = f"--gpu-memory-utilization {share:.2f}" if share is not None else None
    return ArgProblem("--gpu-memory-utilization", "conflict", told, replacement=replacement, accepted=True, stops=True)


def undividable(verdict: Verdict, info: ModelInfo | None) -> ArgProblem | None:
    """A tensor parallel size that does not divide the model."""
    if info is None:
        return None
    from wizard.fit import tp_problem

    values = _values(verdict)
    told = tp_problem(info, _whole(values, "tensor_parallel_size") or 1, expert_parallel="enable_expert_parallel" in values)
    return ArgProblem("--tensor-parallel-size", "conflict", told, accepted=True, stops=True) if told else None


def longer_than_the_model(verdict: Verdict, info: ModelInfo | None) -> ArgProblem | None:
    """A context beyond the model's own as the repaired command has it, at which vLLM stops unless a variable allows it."""
    values = _values(verdict)
    longest = _longest(values, info.max_model_len) if info is not None and info.max_model_len else None
    if longest is None or "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in verdict.env:
        return None
    try:
        asked = human_int(values.get("max_model_len", ""))
    except BadValue:
        return None
    if asked <= longest:
        return None
    told = _("the model itself allows {longest} tokens; {asked} are asked for").format(longest=longest, asked=asked)
    return ArgProblem("--max-model-len", "conflict", told, replacement=f"--max-model-len {longest}", accepted=True, stops=True)


_LENGTHS = ("rope_scaling", "rope_parameters", "max_position_embeddings")  # keys of config.json that the longest context comes from


def _longest(values: dict[str, str], own: int) -> int | None:
    """The longest context with what is put into the model's configuration, as vLLM works it out; None: not known."""
    if not values.keys() & {"hf_overrides", "rope_scaling"}:
        return own
    try:
        put = json.loads(values.get("hf_overrides") or "{}")
        rope = json.loads(values["rope_scaling"]) if "rope_scaling" in values else None
    except ValueError:
        return None
    if not isinstance(put, dict) or not (rope or put.keys() & set(_LENGTHS)):
        return None
    rope = rope or put.get("rope_parameters") or put.get("rope_scaling") or {}
    longest: Any = put.get("max_position_embeddings", own)
    if not isinstance(rope, dict) or not isinstance(longest, int):
        return None
    kind, factor = str(rope.get("rope_type", rope.get("type", "default"))), rope.get("factor", 1.0)
    if kind == "yarn":
        longest = rope.get("original_max_position_embeddings")  # without it vLLM does not take the rest
    known = kind in ("default", "linear", "dynamic", "yarn") and isinstance(factor, (int, float)) and isinstance(longest, int)
    return int(longest * factor) if known else None


def not_quantized_so(verdict: Verdict, machine: Machine | None, host: Host | None) -> ArgProblem | None:
    """A method of quantization that needs a checkpoint of its own, for a model that is known to be none."""
    given = next((p.source for p in verdict.pieces if p.words and p.source and p.source.option and p.source.option.dest == "quantization" and p.source.values), None)
    if machine is not None and host is not None:
        info = model_info(model_on_host(verdict, machine.home), machine, host)
    else:
        info = known_model(verdict.model)
    if given is None or info is None or (info.repo_id != verdict.model and not info.is_local):
        return None  # a recipe is found by the name alone: another's checkpoint may be quantized
    if host is not None and info.is_local and any(host.exists(f"{info.source}/{name}") for name in ("quant_config.json", "quantize_config.json")):
        return None  # written beside config.json, as older tools did
    told = quantization_conflict(info, given.values[0])
    return ArgProblem(given.flag, "conflict", sentences(stopped(told), _("It was left out.")), accepted=True, stops=True) if told else None


def known_model(model: str | None) -> ModelInfo | None:
    """The model as a recipe knows it, whatever lies on this machine."""
    if not model or "$" in model or model.startswith(("/", "~", ".")):
        return None
    from wizard import recipes

    hit = recipes.load([]).find(model)
    return hit[1].model_info() if hit is not None else None


def _free_share(request: FitRequest, result: FitResult) -> float | None:
    """The largest utilization that is free, in steps of 0.01; None where the one that is asked for is."""
    free = request.gpu_free_bytes
    if free is None or result.budget_bytes <= free or request.kv_cache_memory_bytes is not None:
        return None
    return int(100 * free / request.gpu_total_bytes) / 100


def _too_little(result: FitResult) -> ArgProblem:
    fitting = result.max_model_len_that_fits
    return ArgProblem(
        "--max-model-len" if fitting else "--model",
        "conflict",
        _("not enough GPU memory: {problem}").format(problem=result.problems[0]),
        replacement=f"--max-model-len {fitting}" if fitting else None,
        accepted=True,
        stops=not result.fits_best,
        doubtful=result.fits_best,
    )


def model_info(model: str | None, machine: Machine, host: Host) -> ModelInfo | None:
    """The model as it lies on the machine, or as a recipe knows it; None where neither is so."""
    if not model or "$" in model:
        return None
    from wizard.models.inspect import inspect

    path = expand(model, machine.home)
    if path.startswith("/"):
        return inspect(host, path) if host.exists(path) else None
    return known_model(model)


def _same_gpus(machine: Machine) -> list[Gpu]:
    """The largest group of equal GPUs whose memory is known."""
    groups: dict[str, list[Gpu]] = {}
    for gpu in machine.gpu.gpus:
        if gpu.vram_total_bytes.value:
            groups.setdefault(gpu.name, []).append(gpu)
    return max(groups.values(), key=len, default=[])


def fit_request(verdict: Verdict, machine: Machine, gpus: list[Gpu]) -> Any:
    """The options of the repaired command, as the fit takes them."""
    from wizard.fit import FitRequest

    values = _values(verdict)
    frees = [g.vram_free_bytes.value for g in gpus]
    free = min(f for f in frees if f is not None) if all(f is not None for f in frees) else None
    tensor = _whole(values, "tensor_parallel_size") or 1
    pipeline = _whole(values, "pipeline_parallel_size") or 1
    data = _whole(values, "data_parallel_size") or 1
    lora = "enable_lora" in values
    return FitRequest(
        release=verdict.release.version,
        gpu_total_bytes=min(g.vram_total_bytes.value or 0 for g in gpus),
        gpu_free_bytes=free,
        gpu_name=gpus[0].name,
        compute_capability=gpus[0].compute_capability.value,
        gpus=max(len(gpus), tensor * pipeline * data),
        tensor_parallel_size=tensor,
        pipeline_parallel_size=pipeline,
        data_parallel_size=data,
        expert_parallel="enable_expert_parallel" in values,
        gpu_memory_utilization=_number(values, "gpu_memory_utilization"),
        kv_cache_memory_bytes=_whole(values, "kv_cache_memory_bytes"),
        max_model_len=_whole(values, "max_model_len"),
        max_num_seqs=_whole(values, "max_num_seqs"),
        max_num_batched_tokens=_whole(values, "max_num_batched_tokens"),
        kv_cache_dtype=values.get("kv_cache_dtype") or "auto",
        dtype=values.get("dtype") or "auto",
        quantization=values.get("quantization"),
        enforce_eager="enforce_eager" in values,
        cpu_offload_bytes=int((_number(values, "cpu_offload_gb") or 0) * GIB),
        lora_slots=(_whole(values, "max_loras") or 1) if lora else 0,
        max_lora_rank=_whole(values, "max_lora_rank") or 16,
        limit_mm_per_prompt=_limits(values.get("limit_mm_per_prompt")),
        skip_mm_profiling="skip_mm_profiling" in values,
        language_model_only="language_model_only" in values,
        wsl=machine.is_wsl2,
        nvlink=machine.gpu.nvlink.value,
    )


def _values(verdict: Verdict) -> dict[str, str]:
    from wizard.releases.parse import take_apart

    found: dict[str, str] = {}
    for argument in take_apart(verdict.argv, verdict.release):
        option = argument.option
        if option is None or argument.keys:
            continue
        if option.kind == "flag" and argument.flag.startswith(("--no-", "--disable-")) and argument.flag != option.flag:
            found.pop(option.dest, None)
            continue
        found[option.dest] = argument.values[0] if argument.values else ""
    return found


def _whole(values: dict[str, str], dest: str) -> int | None:
    try:
        number = human_int(values[dest])
    except (KeyError, BadValue):
        return None
    return number if number > 0 else None


def _number(values: dict[str, str], dest: str) -> float | None:
    try:
        return float(values[dest])
    except (KeyError, ValueError):
        return None


def _limits(text: str | None) -> dict[str, int] | None:
    try:
        data = json.loads(text or "")
    except ValueError:
        return None
    return {str(k): v for k, v in data.items() if isinstance(v, int)} if isinstance(data, dict) else None
