"""What a rule cannot say with patterns: figures held against each other, names looked up in the catalogue.

A check gets a :class:`~wizard.diagnose.engine.Match`, may change its cause, texts, fields and fixes, and returns
whether the rule fits at all.
"""

from __future__ import annotations

import re

from wizard.diagnose import network
from wizard.diagnose.engine import Fix, Match, fixes_of
from wizard.diagnose.run_facts import NAMES
from wizard.i18n import N_, _

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS = {"B": 2**-30, "KiB": 2**-20, "MiB": 2**-10, "GiB": 1.0, "TiB": 1024.0, "KB": 2**-20, "MB": 2**-10, "GB": 1.0}
# What a desktop, a driver and the contexts of an idle machine hold; more belongs to a program.
_IDLE_GIB = 3.0


def _gib(number: str, unit: str) -> float:
    return float(number) * _UNITS.get(unit, 1.0)


# -- arguments ------------------------------------------------------------------------------------------------


def unrecognized(match: Match) -> bool:
    """``unrecognized arguments``: a comment, a doubled command, or an option that came, went or never was."""
    rest = str(match.fields.get("rest", "")).strip()
    words = rest.split()
    match.fields["rest"] = rest
    if not words:
        return True
    if words[0].startswith("#"):
        match.extra_fixes.append(Fix(_("Move the comments out of the block, or write the command as a list, one item an argument.")))
        return _become(match, "compose_comment_in_folded_scalar", _COMMENT)
    if words[0] == "serve" or words[:2] == ["vllm", "serve"]:
        match.extra_fixes.append(Fix(_("Give the container only the model and options, without “vllm serve”.")))
        return _become(match, "docker_double_entrypoint", _DOUBLE)
    flags = [w for w in words if w.startswith("--")]
    if not flags:
        if any(w.startswith("-") for w in words):
            match.fields["flag"] = words[0]
            return _become(match, "flag_never_existed", _NEVER)
        match.fields["flag"] = rest
        return _become(match, "compose_json_quoting" if any(c in rest for c in "{}[]\"'") else "flag_never_existed", _STRAY)
    ranked = sorted((_judge(match, flag) for flag in flags), key=lambda j: j[0])
    _rank, cause, flag, texts, fields, fix = ranked[0]
    match.fields.update(fields, flag=flag)
    if len(flags) > 1:
        match.evidence.append(_("refused: {flags}").format(flags=" ".join(flags)))
    if fix is not None:
        match.extra_fixes.append(fix)
    return _become(match, cause, texts)


def _judge(match: Match, given: str) -> tuple[int, str, str, tuple[str, str], dict[str, str], Fix | None]:
    """(rank, cause, flag, texts, fields, fix): what is to be said of one refused option."""
    from wizard import releases

    flag = given.partition("=")[0].replace("_", "-")
    flag = flag.split(".")[0] if flag.startswith("--") else flag
    runs = releases.flag_spans(flag)
    release = match.case.release
    if not runs:
        close = _near_flag(flag)
        if close:
            fix = Fix(_("Write {right} instead of {wrong}.").format(right=close, wrong=flag), {flag: None, close: True})
            return 0, "flag_typo", flag, _TYPO, {"close": close}, fix
        fix = Fix(_("Take {flag} out of the command.").format(flag=flag), {flag: None})
        return 1, "flag_never_existed", flag, _NEVER, {}, fix
    fields = {"first": runs[0][0], "until": runs[-1][1]}
    gone = Fix(_("Take {flag} out of the command.").format(flag=flag), {flag: None})
    key = releases.version_key(release) if release else None
    if key is not None and key[0] != (-1,):
        later = [a for a, _b in runs if releases.version_key(a) > key]
        earlier = [b for _a, b in runs if releases.version_key(b) < key]
        if later and not earlier:
            return 2, "flag_too_new", flag, _TOO_NEW, {**fields, "first": later[0]}, _upgrade(later[0])
        within_span = any(releases.version_key(a) <= key <= releases.version_key(b) for a, b in runs)
        if earlier and not within_span:
            return 2, "flag_removed", flag, _REMOVED, {**fields, "until": earlier[-1]}, _replacement(match, flag, gone)
        # That release takes the option: the one that refused it is another than the log's.
    if runs[-1][1] != releases.newest():
        return 2, "flag_removed", flag, _REMOVED, fields, _replacement(match, flag, gone)
    if len(runs) > 1:  # away for some releases in between
        return 2, "flag_removed", flag, _REMOVED, {**fields, "until": runs[0][1]}, gone
    return 2, "flag_too_new", flag, _TOO_NEW, fields, _upgrade(runs[-1][0])


def _upgrade(release: str) -> Fix:
    return Fix(_("Take vLLM {release} or newer.").format(release=release), commands=[f"pip install -U 'vllm>={release}'"])


def _replacement(match: Match, flag: str, gone: Fix) -> Fix:
    from wizard import releases

    try:
        problems = releases.check_argv(["some/model", flag], match.case.release or "latest")
    except Exception:  # the catalogue must not keep a diagnosis from being told
        problems = []
    for problem in problems:
        if problem.flag == flag and problem.replacement:
            return Fix(problem.message, {flag: None})
    return gone


def _near_flag(flag: str) -> str | None:
    import difflib

    from wizard.releases import load, newest

    known = [f for o in load(newest()).options for f in o.flags if f.startswith("--")]
    close = difflib.get_close_matches(flag, known, 1, 0.86)
    return close[0] if close else None


def _become(match: Match, cause: str, texts: tuple[str, str]) -> bool:
    match.cause = cause
    match.title, match.explanation = texts
    return True


_TYPO = (
    N_("{flag} is misspelt; {close} is meant"),
    N_("vLLM reads its options before anything else and stops at the first one that it does not know. No release has {flag}, and {close} is spelt nearly the same."),
)
_NEVER = (
    N_("{flag} is no option of any vLLM release"),
    N_("vLLM stops at an option that it does not know. {flag} has never existed, whatever an article may say; it has to go from the command."),
)
_REMOVED = (
    N_("{flag} is no longer an option of vLLM (last in {until})"),
    N_("vLLM stops at an option that it does not know. {flag} existed from {first} to {until} and was then removed."),
)
_TOO_NEW = (
    N_("{flag} needs a newer vLLM (from {first} on)"),
    N_("vLLM stops at an option that it does not know. {flag} came with {first}; the release in use is older."),
)
_COMMENT = (
    N_("A comment stands inside the multi-line command"),
    N_("In YAML a # inside a folded or literal block (> or |) is not a comment: its words were handed to vLLM as arguments."),
)
_DOUBLE = (
    N_("The command repeats “vllm serve”, which the image already runs"),
    N_("The image starts with “vllm serve” by itself, so the container's command must hold only the model and options. With the words repeated, “serve” is taken for an argument that nothing knows."),
)
_STRAY = (
    N_("“{flag}” reached vLLM as an argument of its own"),
    N_("A value was torn apart on its way: usually a JSON value whose quotes were lost in the shell or the compose file, or a word too many. Write JSON values in single quotes, or as dotted options (--option.key value)."),
)


# -- memory ---------------------------------------------------------------------------------------------------


def free_memory(match: Match) -> bool:
    """Free memory below the wanted share: taken by another program, or simply too large a share."""
    fields = match.fields
    try:
        free, total, wanted = float(fields["free"]), float(fields["total"]), float(fields["wanted"])
    except (KeyError, ValueError):
        return True
    if total <= 0:
        return True
    used = total - free
    share = max(0.0, int((free - 0.15) / total * 100) / 100)
    fields.update(used=f"{used:.2f}", share=f"{share:.2f}")
    match.evidence.append(
        _("{used:.2f} of {total:.2f} GiB were already taken when vLLM started; {wanted:.2f} GiB were wanted").format(used=used, total=total, wanted=wanted)
    )
    if used > _IDLE_GIB and used > total * 0.06:
        match.cause = "gpu_mem_in_use_by_other_process"
        match.title = N_("Another program already holds {used} GiB of the GPU's memory")
        match.explanation = N_(
            "vLLM reserves a fixed share of the GPU's whole memory. Something else held {used} GiB of it when vLLM started, more than a desktop needs: often a second server, a notebook, or a vLLM process that was left behind."
        )
    fits = [Fix(_("Take a smaller share: {share} fits what was free.").format(share=f"{share:.2f}"), {"--gpu-memory-utilization": f"{share:.2f}"})] if share > 0.1 else []
    see = Fix(_("See what holds the memory, and end it if it is not needed."), commands=["nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"])
    # With figures of its own the log needs no usual ones, which may ask for more than is free.
    match.extra_fixes, match.drop_fixes = ([see, *fits] if match.cause == "gpu_mem_in_use_by_other_process" else [*fits, see]), True
    return True


def no_cache_blocks(match: Match) -> bool:
    """No memory for the KV cache: the share is too small, or the model too large for the GPU."""
    run = match.case.run
    util = run.utilization
    offload = "CPU offload" in run.text or "cpu_offload_gb" in run.text
    if util is not None:
        match.fields["util"] = f"{util:g}"
        match.evidence.append(_("--gpu-memory-utilization was {util}").format(util=f"{util:g}"))
    low = util < 0.7 if util is not None else not (offload or run.arguments_seen)
    if low:
        match.cause = "gpu_mem_util_too_low"
        match.title = N_("Too small a share of the GPU's memory: nothing is left for the KV cache")
        match.confidence = "high" if util is not None else "medium"
        if util is not None:
            match.extra_fixes.append(Fix(_("Raise the share to 0.9."), {"--gpu-memory-utilization": "0.9"}))
        else:
            match.extra_fixes.append(Fix(_("Raise the share, to 0.9 where nothing else needs the GPU."), {"--gpu-memory-utilization": "0.9"}))
    return True


_ALLOCATE = re.compile(r"Tried to allocate ([\d.]+) ([KMGT]?i?B)")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) ([KMGT]?i?B) of which ([\d.]+) ([KMGT]?i?B) is free")
_OWN = re.compile(r"this process has ([\d.]+) ([KMGT]?i?B) memory in use")
_OTHERS = re.compile(r"Process \d+ has ([\d.]+) ([KMGT]?i?B) memory in use")
_TORCH = re.compile(r"(?<![\d.])([\d.]+) ([KMGT]?i?B) (?:is )?allocated by PyTorch")
_VISION = re.compile(r"(?i)visual|vision|multi_?modal|_mm_|image|video|mllama|encoder|pixel|embed_multimodal|get_multimodal|audio")
_LOADING = re.compile(r"load_model|load_weights|initialize_model|create_weights|model_loader|process_weights_after_loading|make_layers|_load_model")
_PROFILING = re.compile(r"profile_run|determine_available_memory|determine_num_available_blocks|_dummy_run|_dummy_sampler_run|profile_")
_CAPTURE = re.compile(r"capture_model|capture_graph|cuda_graph\.capture|CUDAGraph|cudagraph|torch\.cuda\.graph|graph_capture|_capture_cudagraphs|cuda/graphs\.py")
_CACHE = re.compile(r"initialize_kv_cache|_allocate_kv_cache|allocate_kv_cache|CacheEngine|cache_engine|initialize_cache")
_WARMUP_SAMPLER = re.compile(r"_dummy_sampler_run|warming up sampler")
_LARGE_GIB = 4.0  # no single weight of a usual model is that large; activations of dummy images are


def out_of_memory(match: Match) -> bool:
    """The GPU is out of memory: at which point of the start, and who holds it."""
    event, case = match.event, match.case
    text, frames = event.text, event.frames
    stage = case.run.stage_at(event.index)
    name = NAMES[stage] if stage >= 0 else ""
    wanted = _ALLOCATE.search(text)
    size = _gib(wanted[1], wanted[2]) if wanted else None
    capacity = _CAPACITY.search(text)
    free = _gib(capacity[3], capacity[4]) if capacity else None
    own, torch = _OWN.search(text), _TORCH.search(text)
    held = [_gib(a, b) for a, b in _OTHERS.findall(text)]
    mine = _gib(own[1], own[2]) if own else (_gib(torch[1], torch[2]) if torch else None)
    if own is None and mine is not None:
        # In a container the process itself is listed by a number of the host.
        held = [h for h in held if not mine * 0.9 <= h <= mine + 2.5]
    others = sum(held)
    match.fields["others"] = f"{others:.1f}"
    total = _gib(capacity[1], capacity[2]) if capacity else None
    if others > _IDLE_GIB and (mine is None or others > 0.25 * (total or 4 * others)):
        match.evidence.append(_("other processes hold {others:.1f} GiB of the GPU").format(others=others))
        return _become(match, "gpu_mem_in_use_by_other_process", _OTHER)
    if case.wsl and size is not None and size < 0.25 and (free is None or free > 1.0):
        match.evidence.append(_("only {size} was asked for, on WSL: the memory of the machine, not of the GPU, is the usual reason").format(size=f"{wanted[1]} {wanted[2]}" if wanted else "?"))
        match.confidence = "medium"
        return _become(match, "host_ram_starvation_wsl", _STARVED)
    if "profile_cudagraph_memory" in frames:
        return _become(match, "cudagraph_profiling_oom", _GRAPH_PROFILE)
    if case.run.ready_index >= 0 or name in ("ready", "serving"):
        return _become(match, "runtime_oom_util_too_high", _RUNTIME)
    if _CAPTURE.search(frames):
        return _become(match, "cudagraph_capture_oom", _GRAPH)
    if _PROFILING.search(frames) or (frames and _VISION.search(frames.rpartition("\n")[0]) and not _LOADING.search(frames)):
        if _VISION.search(frames):
            return _become(match, "mm_profiling_oom", _MM)
        if size is not None and size >= _LARGE_GIB:
            match.confidence = "medium"
            return _become(match, "mm_profiling_oom", _MM)
        match.confidence = "medium"
        return _become(match, "kv_cache_no_memory", _ACTIVATIONS)
    if _CACHE.search(frames):
        if _WARMUP_SAMPLER.search(frames):
            return _become(match, "runtime_oom_util_too_high", _RUNTIME)
        match.confidence = "medium"
        return _become(match, "gpu_mem_util_too_high", _POOL)
    if _LOADING.search(frames):
        return _weights(match, sure=True)
    if name == "graphs":
        return _become(match, "cudagraph_capture_oom", _GRAPH)
    if size is not None and size >= _LARGE_GIB:
        match.confidence = "medium"
        match.evidence.append(_("a single piece of {size} is an activation of the profiling run, not a weight").format(size=f"{wanted[1]} {wanted[2]}" if wanted else "?"))
        return _become(match, "mm_profiling_oom", _MM)
    if name == "kv_cache":
        match.confidence = "medium"
        return _become(match, "gpu_mem_util_too_high", _POOL)
    if name == "profiling":
        match.confidence = "medium"
        return _become(match, "kv_cache_no_memory", _ACTIVATIONS)
    match.confidence = "high" if name == "loading" else "low"
    return _weights(match, sure=name == "loading")


def _weights(match: Match, sure: bool) -> bool:
    """Smaller batches and a shorter context make no weights smaller: they are no cures where it is certain, and come
    last where it is not."""
    own = fixes_of(match.case, match.rule.fixes, match.fields)
    help_little = [fix for fix in own if fix.flags]
    match.extra_fixes = [*(fix for fix in own if not fix.flags), *([] if sure else help_little)]
    match.drop_fixes = True
    return _become(match, "weights_oom", _WEIGHTS)


_OTHER = (
    N_("Another program holds {others} GiB of the GPU's memory"),
    N_("The GPU ran out of memory while other processes held {others} GiB of it. vLLM counts on the whole share that it was given."),
)
_STARVED = (
    N_("The memory of WSL ran out, though the message names CUDA"),
    N_("On WSL2 the GPU driver needs ordinary memory for what it maps. When the memory that .wslconfig gives to WSL is full, even a tiny request fails and is reported as “CUDA out of memory”."),
)
_GRAPH_PROFILE = (
    N_("Out of GPU memory while estimating the memory of CUDA graphs"),
    N_("Before it sizes the KV cache vLLM captures a few CUDA graphs to learn what they take. Weights and activations had left too little even for that."),
)
_GRAPH = (
    N_("Out of GPU memory while capturing CUDA graphs"),
    N_("The model was loaded and the KV cache reserved; the recorded GPU graphs that speed up decoding come on top and did not fit any more. Fewer graph sizes, a smaller share for the cache, or no graphs at all leave room for them."),
)
_MM = (
    N_("Out of GPU memory in the trial run with images"),
    N_("A multimodal model is tried out at start-up with the largest images or videos that its limits allow, to learn what they take. That trial run did not fit. Smaller limits, fewer parallel sequences or a shorter context make it smaller."),
)
_ACTIVATIONS = (
    N_("Out of GPU memory in the trial run"),
    N_("After loading the weights vLLM runs the largest batch that its limits allow, to learn what activations take. Weights and that batch together exceed the GPU: take smaller limits, a smaller or quantized model, or more GPUs."),
)
_POOL = (
    N_("Out of GPU memory while reserving the KV cache"),
    N_("vLLM reserves the cache up to the share of memory that it was given. Something needed more than was measured before, so that share is too large."),
)
_WEIGHTS = (
    N_("The weights do not fit into the GPU's memory"),
    N_("The GPU ran out of memory while the model was being loaded. What is left after the desktop and other programs is smaller than the weights: take a quantized or smaller model, or split it over several GPUs."),
)
_RUNTIME = (
    N_("Out of GPU memory while serving"),
    N_("The server started, but a larger batch or a longer prompt needed more than the start had measured. Nothing was left because nearly all memory had been given to vLLM's cache."),
)


# -- WSL ------------------------------------------------------------------------------------------------------

_MOVED = {"wslconfig_missing_section": 0, "wslconfig_wrong_file": 1, "wslconfig_wrong_section": 2, "wslconfig_typo": 3}


def wslconfig_key(match: Match) -> bool:
    """``Unknown key``: no section above it, another section's, /etc/wsl.conf's, or misspelt."""
    key = str(match.fields.get("key", ""))
    tables = _wsl_keys()
    section, dot, name = key.rpartition(".")
    lowered = name.lower()
    ours = {n.rpartition(".")[2].lower(): n for n in tables["wslconfig"]}
    conf = {n.rpartition(".")[2].lower(): n for n in tables["wslconf"]}
    match.fields.update(key=key, name=name)
    if not dot:
        match.cause = "wslconfig_missing_section"
        match.fields["right"] = ours.get(lowered, f"wsl2.{name}").rpartition(".")[0]
        match.title = N_(".wslconfig: {key} stands above every section, so WSL ignores it")
        match.extra_fixes.append(Fix(_("Put a line [{section}] above it.").format(section=match.fields["right"]), files=[{"path": ".wslconfig", "text": f"[{match.fields['right']}]"}], commands=["wsl --shutdown"]))
        return True
    if f"{section.lower()}.{lowered}" in {n.lower() for n in tables["wslconf"]} or (lowered not in ours and lowered in conf):
        match.cause = "wslconfig_wrong_file"
        match.fields["right"] = conf[lowered]
        match.title = N_(".wslconfig: {name} belongs into /etc/wsl.conf")
        right_section, _dot, right_name = conf[lowered].rpartition(".")
        match.extra_fixes.append(Fix(_("Write it into /etc/wsl.conf, section [{section}].").format(section=right_section), files=[{"path": "/etc/wsl.conf", "section": right_section, "key": right_name}], commands=["wsl --shutdown"]))
        return True
    # Settings that only newer WSL versions know, or that left it again, are in no list here.
    experimental = {"hostaddressloopback", "sparsevhd", "automemoryreclaim", "dnstunneling", "firewall", "autoproxy", "networkingmode", "usewindowsdnscache", "bestefforrtdnsparsing", "initialautoproxytimeout", "ignoredports", "pagereporting", "setversiondebug"}
    if lowered in ours or lowered in experimental:
        right = ours.get(lowered, f"experimental.{name}")
        right_section = right.rpartition(".")[0]
        if right_section.lower() == section.lower():
            right_section = "experimental" if section.lower() == "wsl2" else "wsl2"
        match.cause = "wslconfig_wrong_section"
        match.fields["right"] = right_section
        match.title = N_(".wslconfig: {name} belongs into [{right}]")
        match.extra_fixes.append(Fix(_("Move it into [{section}].").format(section=right_section), files=[{"path": ".wslconfig", "section": right_section, "key": name}], commands=["wsl --shutdown"]))
        return True
    import difflib

    close = difflib.get_close_matches(lowered, [*ours, *conf], 1, 0.7)
    match.cause = "wslconfig_typo"
    match.title = N_(".wslconfig: there is no setting {key}")
    if close:
        right = ours.get(close[0]) or conf[close[0]]
        match.extra_fixes.append(Fix(_("Spell it {name}.").format(name=right.rpartition(".")[2]), files=[{"path": ".wslconfig", "key": right.rpartition(".")[2]}], commands=["wsl --shutdown"]))
    return True


def wslconfig_in_force(match: Match) -> bool:
    """The memory that ``free`` shows, held against the one that a .wslconfig in the same text asks for."""
    if "total" not in match.fields:
        return True  # the file has another name than the one that WSL reads
    asked = re.search(r"(?im)^[ \t]*memory[ \t]*=[ \t]*(\d+)[ \t]*([GM])B", match.case.run.text)
    if asked is None:
        return False
    wanted = int(asked[1]) / (1 if asked[2].upper() == "G" else 1024)
    total = float(match.fields["total"])
    match.evidence.append(_(".wslconfig asks for {wanted:.1f} GiB; the machine has {total:.1f} GiB").format(wanted=wanted, total=total))
    return abs(wanted - total) > max(1.0, 0.1 * wanted)


def _wsl_keys() -> dict[str, list[str]]:
    import json
    from importlib import resources

    data = json.loads(resources.files("wizard.outputs").joinpath("data/wslconfig_keys.json").read_text("utf-8"))
    return {mode: [name for row in data[mode] for name in row["keys"]] for mode in ("wslconfig", "wslconf")}


# -- models ---------------------------------------------------------------------------------------------------


def architecture(match: Match) -> bool:
    """An architecture that is refused: too new for the release, or broken by an import that failed before."""
    from wizard import releases

    found = re.search(r"\[\s*['\"]?(\w+)", match.event.text) or re.search(r"architecture[s]?\W+(\w+)", match.event.text)
    name = found[1] if found else ""
    match.fields["architecture"] = name or "?"
    first = releases.first_with_architecture(name) if name else None
    release = match.case.release
    if first is None:
        if "failed to be inspected" in match.event.text:
            return _become(match, "model_import_error_masked", _MASKED)
        match.fields["first"] = "?"
        return _become(match, "model_needs_newer_vllm", _UNKNOWN_ARCHITECTURE)
    match.fields["first"] = first
    known = releases.version_key(release) if release else None
    newer = known is not None and known[0] != (-1,) and known < releases.version_key(first)
    if newer and first != releases.versions()[0]:
        match.extra_fixes.append(_upgrade(first))
        return _become(match, "model_needs_newer_vllm", _NEWER)
    if "failed to be inspected" in match.event.text or (known is not None and known[0] != (-1,)) or first == releases.versions()[0]:
        return _become(match, "model_import_error_masked", _MASKED)
    match.extra_fixes.append(_upgrade(first))
    return _become(match, "model_needs_newer_vllm", _NEWER)


_MASKED = (
    N_("{architecture} is supported, but importing its code failed"),
    N_("vLLM loads a model's code when it is asked for it. That import failed, and the failure is only told further up in the log (or not at all); what is shown is that the model “is not supported”. Usually torchvision, transformers or flash-attn do not fit the installed torch."),
)
_NEWER = (
    N_("{architecture} needs vLLM {first} or newer"),
    N_("Every release of vLLM knows a fixed list of model architectures. This model's came with {first}; the release in use is older."),
)
_UNKNOWN_ARCHITECTURE = (
    N_("This vLLM does not know the architecture {architecture}"),
    N_("Every release of vLLM knows a fixed list of model architectures, and this one is not in it. A newer release may have it; otherwise only an engine made for that model can run it."),
)


def unknown_variable(match: Match) -> bool:
    """A VLLM_ variable that the release does not read."""
    from wizard import releases

    name = str(match.fields.get("variable", ""))
    try:
        runs = releases.spans("env", name)
    except KeyError:
        runs = []
    if runs:
        match.fields.update(first=runs[0][0], until=runs[-1][1])
        match.evidence.append(_("{name} was read from {first} to {until}").format(name=name, first=runs[0][0], until=runs[-1][1]))
    match.extra_fixes.append(Fix(_("Take {name} out of the environment.").format(name=name), env={name: None}))
    if name == "VLLM_ATTENTION_BACKEND":
        match.extra_fixes.insert(0, Fix(_("Use the option --attention-backend instead."), {"--attention-backend": "FLASH_ATTN"}, {name: None}))
    return True


def exit_code(match: Match) -> bool:
    """A worker process that died by a signal: which one tells who did it."""
    code = str(match.fields.get("code", ""))
    if code in ("-6", "134") and any(w in match.case.run.text for w in ("Watchdog caught", "watchdog got stuck", "Heartbeat monitor timed out")):
        return False  # NCCL's watchdog ends the process so when an exchange hangs
    if code in ("-9", "137"):
        return _become(match, "host_oom_killed", _KILLED)
    if code in ("-11", "-6", "-7", "-4", "139", "134", "135"):
        return _become(match, "worker_segfault", _SEGFAULT)
    if code in ("-15", "143"):
        return _become(match, "sigterm_received", _TERMINATED)
    return False


_KILLED = (
    N_("A worker process was killed (SIGKILL)"),
    N_("Nothing in vLLM sends this signal to a worker that is starting: the kernel does when memory runs out, or when a container reaches its limit. The log cannot tell more; the kernel's log can."),
)
_SEGFAULT = (
    N_("A worker process crashed in native code"),
    N_("The process died by a signal that comes from a fault in compiled code: a broken driver or library, a kernel that does not fit the GPU, or a bug. Python has no traceback of that."),
)
_TERMINATED = (
    N_("A worker process was told to stop (SIGTERM)"),
    N_("Something asked the process to end: a container that was stopped, a health check, systemd, a closed WSL session. That is no fault of vLLM's."),
)


def tensor_parallel(match: Match) -> bool:
    """Which sizes divide the heads."""
    try:
        heads = int(match.fields["heads"])
    except (KeyError, ValueError):
        return True
    sizes = [str(n) for n in range(1, min(heads, 16) + 1) if heads % n == 0]
    match.fields["sizes"] = ", ".join(sizes)
    size = match.fields.get("size")
    smaller = [n for n in sizes if size and int(n) < int(size)]
    if smaller:
        match.fields["smaller"] = smaller[-1]
    return True


def lora_rank(match: Match) -> bool:
    """The smallest allowed rank that holds the adapter."""
    try:
        rank = int(match.fields["rank"])
    except (KeyError, ValueError):
        return True
    match.fields["allowed"] = next((str(n) for n in (1, 8, 16, 32, 64, 128, 256, 320, 512) if n >= rank), str(rank))
    return True


def container_limit(match: Match) -> bool:
    """A health check that gave up or a memory watchdog are named when the log shows them."""
    for words, told in (
        (("PROTECT", "stability"), N_("a watchdog says that it stopped the container")),
        (("NV_ERR_NO_MEMORY",), N_("the kernel log shows that the driver ran out of host memory")),
        (("unhealthy",), N_("a health check called the container unhealthy")),
    ):
        if all(w in match.case.run.text for w in words):
            match.evidence.append(_(told))
    return True


def gpu_runtime(match: Match) -> bool:
    """No GPU for containers: Docker Desktop has lost it, or the toolkit was never installed."""
    if "Failed to initialize NVML" in match.case.run.text or "Docker Desktop" in match.case.run.text:
        match.cause = "docker_desktop_gpu_stale"
        match.title = N_("Docker Desktop has lost the GPU")
        match.explanation = N_("Docker Desktop hands the GPU through WSL. After a driver or WSL update, or when WSL was started in another order, it no longer sees it until both are started anew.")
        match.drop_fixes = True
        match.extra_fixes = [Fix(_("Start WSL and Docker Desktop anew: Docker Desktop first."), commands=["wsl --update", "wsl --shutdown"])]
    return True


def arguments_value(match: Match) -> bool:
    """``argument --x: ...``: a parser's name, JSON, or a wrong kind of value."""
    flag = str(match.fields.get("flag", ""))
    rest = str(match.fields.get("problem", ""))
    if "parser" in flag and "invalid choice" in rest:
        return _become(match, "parser_name_invalid", _PARSER)
    if "{" in rest or "json" in rest.lower() or "loads" in rest or "cannot be converted" in rest:
        return _become(match, "compose_json_quoting", _JSON)
    return _become(match, "config_wrong_type", _TYPE)


_PARSER = (
    N_("{flag}: there is no parser of that name"),
    N_("Each release knows a fixed list of parsers for tool calls and reasoning; names from other servers or newer releases are refused."),
)
_JSON = (
    N_("{flag}: the value did not arrive as JSON"),
    N_("The option wants JSON, and its quotes were lost or changed on the way through the shell or the compose file. In a shell put it in single quotes; in compose write the command as a list; or use dotted options (--option.key value)."),
)
_TYPE = (
    N_("{flag}: the value is of the wrong kind"),
    N_("vLLM checks every option before it starts, and this value is not of the kind that the option takes."),
)


def launch_script(match: Match) -> bool:
    """What launch.sh found wrong, with what it says to do: the indented lines below."""
    from wizard.diagnose.lines import parse
    from wizard.diagnose.script import cause_of

    match.cause = cause_of(str(match.fields["what"]).strip())
    rows = match.case.run.lines.lines
    for index in range(match.event.index + 1, min(match.case.run.last, match.event.index + 12)):
        hint = parse(rows[index]).body
        if not hint.startswith("  ") or not hint.strip():
            break
        above = match.extra_fixes[-1] if match.extra_fixes else None
        if above is not None and above.summary.endswith((":", "：")):
            above.commands.append(hint.strip())  # what stands below “Type:” is what is typed
        else:
            match.extra_fixes.append(Fix(hint.strip()))
    return True


CHECKS: dict[str, Callable[[Match], bool]] = {
    "unrecognized": unrecognized,
    "free_memory": free_memory,
    "no_cache_blocks": no_cache_blocks,
    "out_of_memory": out_of_memory,
    "wslconfig_key": wslconfig_key,
    "architecture": architecture,
    "unknown_variable": unknown_variable,
    "exit_code": exit_code,
    "tensor_parallel": tensor_parallel,
    "lora_rank": lora_rank,
    "container_limit": container_limit,
    "gpu_runtime": gpu_runtime,
    "arguments_value": arguments_value,
    "launch_script": launch_script,
    "wslconfig_in_force": wslconfig_in_force,
    **network.CHECKS,
}
