"""``vllm-wizard fit``: what a model takes on a GPU, whether it fits, and what to do when it does not."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.counts import LONGEST, is_longest, number_above_zero, whole_number
from wizard.errors import BadInput, WizardError
from wizard.facts import Vendor
from wizard.fit_settings import apply_settings, share_of
from wizard.fit_types import (
    CPU_PROCESS_BYTES,
    Calibration,
    FitRequest,
    FitResult,
    Interval,
    share_words,
    surely_too_large,
)
from wizard.i18n import _, labelled, sentence, sentences

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from wizard.facts import Machine
    from wizard.fit_store import Calibrations
    from wizard.host import Host
    from wizard.models.info import ModelInfo

GIB = 1 << 30
# Sizes that boxes name. A card reports some two percent less: 79.19 of "80", 23.5 of "24", 31.4 of "32".
NOMINAL_GIB = frozenset((4, 6, 8, 10, 11, 12, 16, 20, 22, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 192, 288))
NOMINAL_SHARE = {80: 79.19 / 80, 141: 139.8 / 141, 40: 39.39 / 40}
NOMINAL_USUAL = 0.98


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``vllm-wizard fit``."""
    parser.add_argument("--model", metavar="PATH_OR_ID", help=_("a model folder (a config.json is enough), a .gguf file, or a repository id of a recipe"))
    parser.add_argument("--gpu", metavar="NAME", help=_("the kind of GPU, such as “RTX 4090” or H100 (default: this machine's)"))
    parser.add_argument("--gpu-memory-gib", type=number_above_zero(100_000), metavar="X", help=_("memory of one GPU; a whole number is taken as the nominal size"))
    parser.add_argument("--gpu-free-gib", type=number_above_zero(100_000), metavar="Y", help=_("how much of it is free"))
    parser.add_argument("--gpus", type=whole_number(1, 1024), metavar="N", help=_("how many such GPUs there are"))
    parser.add_argument("--release", metavar="V", help=_("the vLLM release (default: the newest known)"))
    parser.add_argument("--tp", type=whole_number(1, 1024), metavar="N", help=_("tensor parallel size (default: what fits)"))
    parser.add_argument("--pp", type=whole_number(1, 1024), default=1, metavar="N", help=_("pipeline parallel size"))
    parser.add_argument("--gpu-memory-utilization", type=share_of, metavar="U", help=_("share of the GPU's memory that vLLM may use"))
    parser.add_argument("--max-model-len", metavar="L", help=_("context length, such as 32768 or 32k; auto: the longest that fits"))
    parser.add_argument("--kv-cache-dtype", default="auto", metavar="T", help=_("type of the KV cache: auto, fp8 ..."))
    parser.add_argument("--set", action="append", default=[], metavar="FLAG=VALUE", help=_("any other option of vllm serve; may be repeated"))
    parser.add_argument("--wsl", action="store_true", help=_("on WSL2: the Windows desktop shares the GPU"))
    parser.add_argument("--calibrate", metavar="LOG", help=_("take measured figures from a vLLM start-up log (- is standard input) and keep them for this machine"))


def run(args: argparse.Namespace) -> int:
    """Compute and print; whether it fits is in what is printed. Raises BadInput and WizardError."""
    from wizard.fit_core import fit
    from wizard.fit_layout import layout_of

    host, machine = _machine(args)
    if args.calibrate:
        return _calibrate(args, host, machine)
    if not args.model:
        raise BadInput(_("Which model? Give --model with a folder, a .gguf file or a repository id."))
    info, variants = _model(args, host, machine)
    notes: list[str] = []
    _check_options(args)
    request = _request(args, machine, notes)
    _check_layout(args, info, request, machine)
    calibrations = _kept(host, args)
    if args.tp is None and request.gpus > 1 and layout_of(request).gpus == 1:
        request = _spread(info, request, calibrations, notes, longest=is_longest(args.max_model_len))
    calibration = _measured(calibrations, info, request)
    result = fit(info, request, calibration)
    if is_longest(args.max_model_len) and result.max_model_len_that_fits and request.max_model_len is None:
        request = replace(request, max_model_len=result.max_model_len_that_fits)
        result = fit(info, request, calibration)
        notes.append(_("max model len {answer}: vLLM takes the longest context that fits; {n} tokens surely do").format(answer=args.max_model_len, n=request.max_model_len))
    if not result.fits:
        from wizard.fit_choose import ways_out

        result = replace(result, ways_out=ways_out(info, request, variants=variants, calibration=calibrations, gpus=request.gpus))
    result = replace(result, notes=(*notes, *result.notes))
    if args.json:
        print(json.dumps(as_json(info, request, result, calibration), indent=2, ensure_ascii=False))
    else:
        print("\n".join(as_text(info, request, result, calibration)))
    return 0


# --- what is asked -------------------------------------------------------------------------------------------


def _machine(args: argparse.Namespace) -> tuple[Host, Machine | None]:
    from wizard.host import open_host

    host = open_host(args.machine)
    if args.gpu or args.gpu_memory_gib:
        return host, None
    from wizard.probes import run_all

    return host, run_all(host)


def _model(args: argparse.Namespace, host: Host, machine: Machine | None) -> tuple[ModelInfo, list[ModelInfo]]:
    from wizard import recipes as recipes_room
    from wizard.models.inspect import inspect
    from wizard.session import expand, id_of_page, is_repo_id, looks_like_path, model_named, no_model_at

    source: str = model_named(args.model, machine) if machine is not None else id_of_page(args.model)
    home = machine.home if machine is not None else host.home
    path = expand(source, home)
    if looks_like_path(source) or host.exists(path):
        if not host.exists(path):
            raise no_model_at(path, machine)
        info = inspect(host, path)
        if not info.config and any(issue.fatal for issue in info.issues):
            issue = next(issue for issue in info.issues if issue.fatal)
            raise BadInput(_("{path}: {message}").format(path=_place(path, issue.file), message=issue.message))
        _check_config(info.config, f"{path.rstrip('/')}/config.json")
        for issue in info.issues:
            if issue.fatal and issue.code in ("truncated", "bad_header"):
                raise BadInput(_("{path}: {message}").format(path=_place(path, issue.file), message=issue.message))
        if not info.architecture and not info.kv_layout_known and info.weight_bytes is None:
            raise BadInput(_("{path} does not describe a model: config.json names no architecture, and there are no weights. Give the folder that holds both.").format(path=path))
        return info, []
    folders = getattr(args, "recipes", None)
    book = recipes_room.load([Path(folders)] if isinstance(folders, str) else [Path(f) for f in folders or ()])
    hit = book.find(source)
    if hit is not None:
        recipe, variant = hit
        others = [v.model_info() for v in recipe.variants if v.model_id != variant.model_id]
        return variant.model_info(), [v for v in others if v.kv_layout_known]
    if not is_repo_id(source):
        raise BadInput(_("“{source}” is neither a folder nor a repository id (owner/name). Give the full path, starting with / or ~.").format(source=source))
    info = inspect(host, source)
    if not args.machine and any(issue.code == "not_on_disk" for issue in info.issues):
        from wizard.models.remote import inspect_remote

        info = inspect_remote(source, host.env)
    if info.config:
        return info, []
    why = next((issue.message for issue in info.issues if issue.fatal), "")
    raise WizardError(_("{source} is not on this machine and no recipe knows it.").format(source=source) + (f" {why}." if why else ""))


def _place(path: str, file: str) -> str:
    """Where a fault lies: the file's own path, or its name below the model's folder."""
    return file if "/" in file or file in ("", path) else f"{path.rstrip('/')}/{file}"


# What every shape is computed from; a config that has one of them wrong describes nothing.
_SHAPES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
_NESTED = ("text_config", "llm_config", "language_config", "text_model_config")


def _check_config(config: Mapping[str, Any], path: str) -> None:
    """Raise BadInput for the first field of config.json that cannot be a size, naming it."""
    parts = [("", config)] + [(f"{key}.", config[key]) for key in _NESTED if isinstance(config.get(key), dict)]
    for prefix, table in parts:
        for key in _SHAPES:
            value = table.get(key)
            if value is None or isinstance(value, list):
                continue  # not given; or one number for each layer
            whole = isinstance(value, int) and not isinstance(value, bool)
            # Models without attention write 0 heads, and then no hidden layer has any.
            least = 0 if key.endswith("_heads") and not table.get("num_attention_heads", 1) and _has_no_attention(table) else 1
            if not whole or value < least:
                raise BadInput(
                    _("{path}: {field} is {value}: a whole number above 0 must stand there.").format(
                        path=path, field=prefix + key, value=json.dumps(value)
                    )
                )


def _has_no_attention(table: Mapping[str, Any]) -> bool:
    return "mamba" in str(table.get("model_type", "")).lower() or "rwkv" in str(table.get("model_type", "")).lower()


def _release(asked: str | None) -> str:
    from wizard import releases

    if asked is None:
        return releases.newest()
    text = asked.strip().lstrip("vV")
    if not re.match(r"\d+\.\d+", text):
        raise BadInput(_("--release: “{text}” is not a version such as 0.33.0.").format(text=asked))
    return re.sub(r"\.x$", ".0", text)


def _check_options(args: argparse.Namespace) -> None:
    """Raise BadInput for the first option of vLLM that the release does not take as it is given, naming it."""
    from wizard import releases
    from wizard.plan.values import refused

    release = releases.load(_release(args.release))
    given = [(f"--kv-cache-dtype {args.kv_cache_dtype}", "kv_cache_dtype", args.kv_cache_dtype)]
    if is_longest(args.max_model_len):
        if refused("max_model_len", LONGEST, release) is not None:
            raise BadInput(labelled(f"--max-model-len {args.max_model_len}", _("It came with vLLM 0.14.0. Without it, the model's own length is computed with.")))
    elif args.max_model_len:
        given.append((f"--max-model-len {args.max_model_len}", "max_model_len", args.max_model_len))
    for setting in args.set:
        name, _sep, value = setting.partition("=")
        given.append((f"--set {setting}", name, value))
    for shown, name, value in given:
        # A variable in capitals is none of its options, nor is "device": so a log says that it is of a processor.
        key = name.strip().lstrip("-").replace("-", "_")
        wrong = None if not key or key.isupper() or key == "device" else refused(key, value, release)
        if wrong is not None:
            raise BadInput(labelled(shown, wrong))


def _check_layout(args: argparse.Namespace, info: ModelInfo, request: FitRequest, machine: Machine | None) -> None:
    """Raise BadInput for sizes that cannot be: more GPUs than there are, or what the model cannot be divided by."""
    from wizard.fit_layout import layout_of, over_gpus, smaller_tp, tp_problem

    layout = layout_of(request)
    # Of a kind of GPU that is only named there are as many as the sizes need.
    count = args.gpus or (layout.gpus if machine is None or request.cpu else _of_machine(machine)[4])
    wrong = over_gpus(layout, count)
    dividing = tp_problem(info, layout.tp, expert_parallel=layout.ep) if wrong is None and info.num_heads else None
    if dividing is not None:
        way = _("Take a tensor parallel size that divides them, such as {one}.").format(one=smaller_tp(info, layout))
        wrong = sentences(sentence(dividing), way)
    if wrong is not None:
        raise BadInput(labelled("--tp" if args.tp else "--pp" if args.pp > 1 else "--set", wrong))


def _request(args: argparse.Namespace, machine: Machine | None, notes: list[str]) -> FitRequest:
    from wizard.counts import parse_count
    from wizard.fit_constants import gpu_model

    total: int | None = None
    free: int | None = None
    name, cc, gpus, wsl, cpu, nvlink = args.gpu or "", None, args.gpus or 1, bool(args.wsl), False, None
    if args.gpu:
        known = gpu_model(args.gpu)
        if known is None and not args.gpu_memory_gib:
            raise BadInput(_("--gpu: “{name}” is not known here. Give its memory with --gpu-memory-gib.").format(name=args.gpu))
        if known is not None:
            total, cc = known.total_bytes, known.compute_capability
    if args.gpu_memory_gib:
        total = _total(args.gpu_memory_gib, notes)
    if total is None and machine is not None:
        total, free, name, cc, count, cpu, nvlink = _of_machine(machine)
        gpus = args.gpus or count
        wsl = wsl or machine.is_wsl2
    if total is None:
        raise WizardError(_("This machine has no GPU that can be read. Name one with --gpu or --gpu-memory-gib."))
    if args.gpu_free_gib:
        # A nominal size may also be given as what is free: it is no more than all of the card.
        if args.gpu_free_gib * GIB > max(total, (args.gpu_memory_gib or 0) * GIB):
            raise BadInput(_("--gpu-free-gib: {free:g} GiB cannot be free of {total:.1f} GiB.").format(free=args.gpu_free_gib, total=total / GIB))
        free = min(int(args.gpu_free_gib * GIB), total)
    request = FitRequest(
        release=_release(args.release), gpu_total_bytes=total, gpu_free_bytes=free, gpu_name=name, compute_capability=cc, gpus=max(gpus, (args.tp or 1) * args.pp),
        tensor_parallel_size=args.tp or 1, pipeline_parallel_size=args.pp, gpu_memory_utilization=args.gpu_memory_utilization, kv_cache_dtype=args.kv_cache_dtype,
        max_model_len=parse_count("--max-model-len", args.max_model_len) if args.max_model_len and not is_longest(args.max_model_len) else None, wsl=wsl, cpu=cpu, nvlink=nvlink,
        cpu_flags=machine.cpu.known_flags if machine is not None else None,
        amd=machine is not None and any(g.vendor is Vendor.AMD and g.name == name for g in machine.gpu.gpus),
    )  # fmt: skip
    return apply_settings(request, args.set, notes)


def _total(gib: float, notes: list[str]) -> int:
    if gib == int(gib) and int(gib) in NOMINAL_GIB:
        real = gib * NOMINAL_SHARE.get(int(gib), NOMINAL_USUAL)
        notes.append(_("{nominal:.0f} GiB is a nominal size: cards of that size report about {real:.1f} GiB, and that is computed with").format(nominal=gib, real=real))
        return int(real * GIB)
    return int(gib * GIB)


def _of_machine(machine: Machine) -> tuple[int | None, int | None, str, str | None, int, bool, bool | None]:
    """(total, free, name, compute capability, how many, CPU, NVLink) of the largest group of equal GPUs, else the RAM."""
    groups: dict[str, list[Any]] = {}
    for gpu in machine.gpu.gpus:
        if gpu.vram_total_bytes.value:
            groups.setdefault(gpu.name, []).append(gpu)
    if not groups:
        memory = machine.memory
        available = memory.available_bytes.value
        return memory.total_bytes.value, None if available is None else max(0, available - CPU_PROCESS_BYTES), "CPU", None, 1, True, None
    best = max(groups.values(), key=lambda g: sum(x.vram_total_bytes.value or 0 for x in g))
    frees = [g.vram_free_bytes.value for g in best]
    free = min(f for f in frees if f is not None) if all(f is not None for f in frees) else None
    total = min(g.vram_total_bytes.value or 0 for g in best)
    return total, free, best[0].name, best[0].compute_capability.value, len(best), False, machine.gpu.nvlink.value


def _measured(calibrations: Calibrations | None, info: ModelInfo, request: FitRequest) -> Calibration | None:
    return calibrations.find(request, info.repo_id or info.source) if calibrations is not None else None


def _spread(info: ModelInfo, request: FitRequest, calibrations: Calibrations | None, notes: list[str], *, longest: bool) -> FitRequest:
    """Over the GPUs there are, as the plan would: by what divides and by the links. The reasons go to ``notes``.

    Without a length vLLM takes the model's own, unless it is to find the ``longest`` that fits: where what holds a
    usual one does not hold that, it is spread wider.
    """
    from wizard import releases
    from wizard.fit_choose import spread
    from wizard.fit_core import fit
    from wizard.fit_layout import ALL_OPTIONS, Aim

    known = {option.dest for option in releases.load(request.release).options}
    aim = Aim(request.max_model_len, request.max_num_seqs)
    chosen, reasons = spread(info, request, request.gpus, aim, ALL_OPTIONS & known, calibration=calibrations)
    if request.max_model_len is None and info.max_model_len and not longest and not fit(info, chosen, _measured(calibrations, info, chosen)).fits:
        whole, why = spread(info, request, request.gpus, Aim(info.max_model_len, request.max_num_seqs), ALL_OPTIONS & known, calibration=calibrations)
        if fit(info, whole, _measured(calibrations, info, whole)).fits:
            chosen, reasons = whole, why
    notes += [f"{flag.replace('_', ' ')}: {reason}" for flag, reason in reasons.items()]
    return chosen


# --- calibration ---------------------------------------------------------------------------------------------


def _kept(host: Host, args: argparse.Namespace) -> Calibrations | None:
    if args.gpu or args.gpu_memory_gib:
        return None  # another machine's GPU: this machine's figures say nothing of it
    from wizard.fit_calibrate import load_all

    return load_all(host)


def _calibrate(args: argparse.Namespace, host: Host, machine: Machine | None) -> int:
    from wizard import fit_calibrate
    from wizard.fit_core import fit

    text = _log_text(args.calibrate)
    figures = fit_calibrate.read_log(text)
    if figures.empty:
        raise WizardError(_("{log} holds none of vLLM's memory figures (“Model loading took ...”, “Available KV cache memory ...”): is it a start-up log?").format(log=args.calibrate))
    if not args.model:
        args.model = figures.model
    if not args.model:
        raise BadInput(_("The log does not name its model: give it with --model."))
    info, _variants = _model(args, host, machine)
    notes: list[str] = []
    if args.release is None and figures.release:
        args.release = figures.release
    _check_options(args)
    for key in ("max_num_seqs", "max_num_batched_tokens", "dtype", "quantization", "enforce_eager", "kv_cache_memory_bytes", "enable_prefix_caching", "block_size", "mamba_ssm_cache_dtype"):
        value = figures.arguments.get(key)
        if isinstance(value, (int, str, float, bool)) and value is not None and not any(s.replace("-", "_").startswith(key + "=") for s in args.set):
            args.set = [*args.set, f"{key}={str(value).lower() if isinstance(value, bool) else value}"]
    if args.tp is None and type(figures.arguments.get("tensor_parallel_size")) is int:
        args.tp = figures.arguments["tensor_parallel_size"]
    if args.gpu_memory_utilization is None:
        args.gpu_memory_utilization = figures.utilization
    if args.max_model_len is None and type(figures.arguments.get("max_model_len")) is int:
        args.max_model_len = str(figures.arguments["max_model_len"])
    if args.kv_cache_dtype == "auto" and isinstance(figures.arguments.get("kv_cache_dtype"), str):
        args.kv_cache_dtype = figures.arguments["kv_cache_dtype"]
    if figures.cpu:
        args.set = [*args.set, "device=cpu"]
    request = _request(args, machine, notes)
    if figures.total_bytes:
        request = replace(request, gpu_total_bytes=figures.total_bytes)
    if figures.cpu and figures.kv_cache_bytes:
        request = replace(request, kv_cache_memory_bytes=figures.kv_cache_bytes)
    predicted = fit(info, request)
    pairs = fit_calibrate.compare(figures, predicted)
    good, words = fit_calibrate.verdict(pairs)
    solved = fit_calibrate.solve(figures, request, predicted)
    fit_calibrate.save(host, request, info.repo_id or info.source, solved)
    if args.json:
        data = {
            "match": good, "verdict": words, "release": request.release, "model": info.repo_id or info.source,
            "figures": {p.key: {"logged": _number(p.logged, p.unit), "predicted": _number(p.predicted, p.unit), "percent": round(p.percent, 2), "unit": p.unit} for p in pairs},
            "calibration": {k.replace("_bytes", "_gib"): round(v / GIB, 3) if k.endswith("_bytes") else v for k, v in solved.__dict__.items() if v is not None},
            "kept": True,
        }  # fmt: skip
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        print(f"{'':18}{_('log'):>14}{_('predicted'):>14}{_('difference'):>13}")
        for pair in pairs:
            digits = 2 if pair.unit == "GiB" else 0
            print(f"{pair.key:18}{pair.logged:>14,.{digits}f}{pair.predicted:>14,.{digits}f}{pair.percent:>+12.1f}%  {pair.unit}")
        print(words)
        print(_("Kept for this machine, this model and this release."))
    return 0


def _number(value: float, unit: str) -> float | int:
    return round(value, 3) if unit == "GiB" else int(value)


def _log_text(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as fault:
        raise BadInput(_("{path} cannot be read: {why}").format(path=path, why=fault.strerror or fault)) from None


# --- what is shown -------------------------------------------------------------------------------------------


def _gib(value: float) -> float:
    return round(value / GIB, 3)


def _interval_gib(value: Interval) -> dict[str, float]:
    return {"best": _gib(value.best), "low": _gib(value.low), "high": _gib(value.high)}


def as_json(info: ModelInfo, request: FitRequest, result: FitResult, calibration: Calibration | None = None) -> dict[str, Any]:
    """Everything as plain JSON data. Sizes are GiB per GPU, on the fullest GPU."""
    return {
        "model": info.repo_id or info.source,
        "release": request.release,
        "gpu": request.gpu_name or None,
        "gpus": request.gpus,
        "tensor_parallel_size": request.tensor_parallel_size,
        "pipeline_parallel_size": request.pipeline_parallel_size,
        "data_parallel_size": request.data_parallel_size,
        "expert_parallel": request.expert_parallel,
        "gpu_total_gib": _gib(request.gpu_total_bytes),
        "gpu_free_gib": _gib(request.gpu_free_bytes) if request.gpu_free_bytes is not None else None,
        "gpu_memory_utilization": result.utilization,
        "budget_gib": _gib(result.budget_bytes),
        "weights_gib": _gib(result.weights_bytes) if result.weights_known else None,
        "activation_gib": _gib(result.activation_bytes),
        "non_torch_gib": _gib(result.non_torch_bytes),
        "cuda_graph_gib": _gib(result.cuda_graph_bytes),
        "lora_gib": _gib(result.lora_bytes),
        "draft_gib": _gib(result.draft_bytes),
        "kv_cache_gib": _interval_gib(result.kv_cache_bytes) if result.weights_known else None,
        "kv_cache_tokens": {"best": int(result.kv_cache_tokens.best), "low": int(result.kv_cache_tokens.low), "high": int(result.kv_cache_tokens.high)},
        "kv_bytes_per_token": result.kv_bytes_per_token,
        "max_model_len": result.max_model_len,
        "max_model_len_that_fits": result.max_model_len_that_fits,
        "concurrency": round(result.concurrency, 2) if result.concurrency is not None else None,
        "max_num_seqs": result.max_num_seqs,
        "max_num_batched_tokens": result.max_num_batched_tokens,
        "fits": result.fits,
        "fits_best": result.fits_best,
        "certain": result.certain,
        "calibrated": calibration is not None,
        "weight_source": info.weight_source or None,
        "lines": [{"key": line.key, "gib": _gib(line.bytes), "reason": line.reason, "source": line.source} for line in result.lines],
        "notes": list(result.notes),
        "problems": list(result.problems),
        "ways_out": [{"kind": w.kind, "text": w.text, "changes": w.changes} for w in result.ways_out],
    }


LETTERS = {"weights": "W", "activation": "a", "non_torch": "n", "cuda_graph": "g", "lora": "L", "draft": "d", "kv_cache": "K", "processes": "p", "held_by_others": "x"}


def bar(result: FitResult, total_bytes: int, width: int = 60) -> str:
    """A stacked bar in letters: readable without colour. "." is free or above the budget."""
    cells: list[str] = []
    for line in result.lines:
        share = line.bytes / total_bytes * width if total_bytes else 0
        count = max(1, round(share)) if line.bytes else 0
        cells += [LETTERS.get(line.key, "?")] * count
    cells = cells[:width]
    return "[" + "".join(cells).ljust(width, ".") + "]"


def as_text(info: ModelInfo, request: FitRequest, result: FitResult, calibration: Calibration | None = None) -> list[str]:
    """The answer for people, at most 79 columns where figures allow."""
    card = request.gpu_name or _("GPU")
    split = request.tensor_parallel_size * request.pipeline_parallel_size * request.data_parallel_size
    head = _("{model} on {n} x {gpu} ({total:.1f} GiB), vLLM {release}, utilization {u} ({why})")
    out = columns.wrap(head.format(model=info.repo_id or info.source, n=split, gpu=card, total=request.gpu_total_bytes / GIB, release=request.release, u=share_words(result.utilization), why=result.utilization_reason), columns.of_prose())
    out.append("")
    for line in result.lines:
        out.append(f"  {LETTERS.get(line.key, '?')} {columns.pad(line.title, 18)}{line.bytes / GIB:>8.2f} GiB  ")
        out += columns.wrap(line.reason, columns.of_prose(), "      ", "      ")
    out += ["", "  " + bar(result, request.gpu_total_bytes), ""]
    tokens = result.kv_cache_tokens
    if result.certain and tokens.best:
        out.append(_("KV cache: {best:,} tokens (surely {low:,})").format(best=int(tokens.best), low=int(tokens.low)))
        if result.max_model_len and result.concurrency is not None:
            out.append(_("at {n:,} tokens per request: {many:.2f} requests at once").format(n=result.max_model_len, many=result.concurrency))
        if result.max_model_len_that_fits:
            out.append(_("longest context that surely fits: {n:,} tokens").format(n=result.max_model_len_that_fits))
    if result.fits:
        out.append(_("It fits, also at the pessimistic end."))
    elif result.fits_best:
        out.append(_("It may fit, but not at the pessimistic end."))
    elif not result.weights_known:
        out.append(_("Whether it fits is not known."))
    elif not result.certain:
        out.append(_("Not certain."))
    elif not surely_too_large(result):
        out.append(_("It is not sure that the model fits."))
    else:
        out.append(_("It does not fit."))
    for problem in result.problems:
        out += columns.wrap(problem, columns.of_prose(), "- ", "  ")
    if result.ways_out:
        out.append(_("Ways out:"))
        for number, way in enumerate(result.ways_out, 1):
            out += columns.wrap(way.text, columns.of_prose(), f"{number}. ", "   ")
    if calibration is not None:
        out.append(_("Figures measured on this machine are used."))
    for note in result.notes:
        out += columns.wrap(_("note: {text}").format(text=note), columns.of_prose(), "", "  ")
    return out
