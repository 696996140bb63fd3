"""What the files of a model tell: config.json, headers, indexes, cards -> :class:`ModelInfo`.

Nothing is imported from the model and no weights are read: only small JSON files and the first bytes of
safetensors and GGUF files, all through the :class:`~wizard.host.Host` that is passed in.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.host import DirEntry, Host
from wizard.i18n import _
from wizard.models import arch as arch_reader
from wizard.models import formats, weights
from wizard.models.info import ESTIMATED, Issue, KvLayer, LoraAdapter, ModelInfo
from wizard.models.quant import FOREIGN_METHODS, Quant, detect
from wizard.models.safetensors import LFS_PREFIX, Header, HeaderError, read_header

MAX_JSON_BYTES = 64 * 2**20  # an index of a very large mixture model has some 30 MB
CONFIG_NAMES = ("config.json",)


# --- from a config alone -------------------------------------------------------------------------------------


def from_config(
    config: Mapping[str, Any],
    *,
    source: str,
    weight_bytes: int | None = None,
    weight_source: str | None = None,
    is_local: bool = False,
    repo_id: str | None = None,
    name: str | None = None,
    modelopt: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    sentence_files: bool = False,
) -> ModelInfo:
    """The record of a model of which only ``config.json`` (as read) and perhaps the size are known.

    ``weight_bytes`` are the bytes of all tensors as stored; without them sizes are computed from the shapes.
    Never raises on odd configs: what is missing is None, ``kv_layout_known`` is False and ``notes`` say why.
    """
    config = dict(config)
    name = name or repo_id or posixpath.basename(source.rstrip("/"))
    architecture = _first_text(config.get("architectures"))
    text = arch_reader.text_config(config)
    quant = detect(config, modelopt)
    notes: list[str] = []
    anatomy: arch_reader.Arch | None
    try:
        anatomy = arch_reader.read_once(config)
        notes += anatomy.notes
    except arch_reader.ConfigError as fault:
        anatomy = None
        notes.append(str(fault))
    dtype = _dtype(config, text)
    size = weights.DTYPE_BYTES.get(dtype or "", 2.0)
    computed = weights.by_kind(anatomy, quant, size) if anatomy is not None else {}
    total_computed = sum(v for k, v in computed.items()) or None
    model_type = _text(config.get("model_type")) or _text(text.get("model_type"))
    tool, reasoning = formats.parsers(model_type or "", name)
    rope = arch_reader.rope_parameters(text)
    experts = anatomy.experts if anatomy is not None else 0
    known = anatomy is not None and anatomy.layout_known
    issues: list[Issue] = []
    if not quant.servable:
        issues.append(Issue(quant.method or "unknown", "config.json", _("{format} weights: vLLM cannot serve them").format(format=FOREIGN_METHODS.get(quant.method or "", quant.detail or quant.method))))
    if weight_bytes is not None:
        total: int | None = weight_bytes
        kinds = _scaled(computed, weight_bytes)
        came_from = weight_source or "recipe"
    else:
        total = total_computed
        kinds = computed
        came_from = "computed from config" if total_computed else ""
    return ModelInfo(
        source=source,
        is_local=is_local,
        repo_id=repo_id,
        config=config,
        architecture=architecture,
        model_type=model_type,
        dtype=dtype,
        quantization=quant.method,
        quant_detail=quant.detail or None,
        servable=quant.servable,
        parameters=weights.parameters(anatomy) if anatomy is not None else None,
        weight_bytes=total,
        weight_bytes_by_kind=kinds,
        weight_source=came_from,
        num_layers=len(anatomy.blocks) if anatomy is not None else arch_reader.integer(text, "num_hidden_layers"),
        hidden_size=anatomy.hidden if anatomy is not None else arch_reader.integer(text, "hidden_size"),
        intermediate_size=anatomy.inter if anatomy is not None else arch_reader.integer(text, "intermediate_size"),
        num_heads=anatomy.heads if anatomy is not None else arch_reader.integer(text, "num_attention_heads"),
        num_kv_heads=anatomy.kv_heads if anatomy is not None else arch_reader.integer(text, "num_key_value_heads"),
        head_dim=anatomy.head_dim if anatomy is not None else arch_reader.integer(text, "head_dim"),
        vocab_size=anatomy.vocab if anatomy is not None else arch_reader.integer(text, "vocab_size"),
        tied_embeddings=anatomy.tied if anatomy is not None else None,
        kv_layers=anatomy.kv_layers() if anatomy is not None else (),
        kv_layout_known=known,
        num_experts=experts or None,
        experts_per_token=(anatomy.experts_per_token or None) if anatomy is not None else None,
        max_model_len=max_length(text),
        rope_scaling=_rope_text(rope),
        modalities=modalities(config, architecture or ""),
        is_moe=bool(experts),
        task=formats.task_of(architecture or "", config, name, sentence_files),
        mtp_layers=anatomy.mtp_layers if anatomy is not None else 0,
        tool_parser=tool,
        reasoning_parser=reasoning,
        needs_remote_code=bool(config.get("auto_map")),
        generation_defaults=_generation(generation or {}),
        issues=tuple(issues),
        notes=tuple(notes),
    )


def from_published(repo_id: str) -> ModelInfo | None:
    """The record of a repository from its published shapes alone; None where they are not known here."""
    from wizard.models.known import known

    hit = known(repo_id)
    if hit is None:
        return None
    info = from_config(hit.config, source=repo_id, repo_id=repo_id)
    note = _("its shapes are those that are published ({source}); its files were not looked at").format(source=hit.source)
    if hit.rough:
        info = replace(info, weight_source=ESTIMATED)
    return replace(info, notes=(*info.notes, note))


def _scaled(computed: dict[str, int], total: int) -> dict[str, int]:
    """The computed sizes by kind, brought to a known total by what is quantizable; empty when far off."""
    have = sum(computed.values())
    if not have:
        return {}
    ratio = total / have
    if not 0.5 <= ratio <= 2:
        return {}
    return {k: round(v * ratio) for k, v in computed.items()}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_text(value: Any) -> str | None:
    if isinstance(value, (list, tuple)):
        return next((x for x in value if isinstance(x, str) and x), None)
    return _text(value)


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    for place in (config, text):
        for key in ("torch_dtype", "dtype"):
            value = place.get(key)
            if isinstance(value, str) and value:
                return value.removeprefix("torch.")
    return None


def _rope_text(rope: Mapping[str, Any]) -> str | None:
    kind = _text(rope.get("rope_type")) or _text(rope.get("type"))
    if kind in (None, "default"):
        return None
    factor = rope.get("factor")
    return f"{kind} x{factor:g}" if isinstance(factor, (int, float)) else kind


_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
                "max_sequence_length", "max_seq_length", "seq_len", "n_ctx")  # fmt: skip


def max_length(text: Mapping[str, Any]) -> int | None:
    """The longest context that vLLM derives from the config: the smallest stated, rope scaling counted."""
    stated = [v for key in _LENGTH_KEYS if (v := arch_reader.integer(text, key)) is not None and v > 0]
    if not stated:
        return None
    length: float = min(stated)
    rope = arch_reader.rope_parameters(text)
    kind = rope.get("rope_type") or rope.get("type")
    factor = rope.get("factor")
    # llama3, longrope and mrope state the scaled length already; Gemma 3 likewise
    if kind in ("linear", "dynamic", "yarn") and isinstance(factor, (int, float)) and factor > 0 and "gemma3" not in str(text.get("model_type")):
        if kind == "yarn":
            length = arch_reader.integer(rope, "original_max_position_embeddings") or length
        length *= factor
    return int(length)


def modalities(config: Mapping[str, Any], architecture: str) -> tuple[str, ...]:
    out = ["text"]
    places = [config]
    thinker = config.get("thinker_config")
    if isinstance(thinker, Mapping):
        places.append(thinker)

    def has(*keys: str) -> bool:
        return any(isinstance(p.get(k), Mapping) and p.get(k) for p in places for k in keys)

    if has("vision_config", "visual", "vision_tower_config", "vit_config") or any("image_token_id" in p or "image_token_index" in p for p in places):
        out.append("image")
        if any("video_token_id" in p or "video_token_index" in p for p in places):
            out.append("video")
    if has("audio_config", "speech_config", "sound_config") or architecture.startswith(("Whisper", "Voxtral", "UltravoxModel")):
        out.append("audio")
    return tuple(out)


def _generation(data: Mapping[str, Any]) -> dict[str, Any]:
    keep = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "max_new_tokens", "presence_penalty")
    return {k: data[k] for k in keep if isinstance(data.get(k), (int, float)) and not isinstance(data.get(k), bool)}


# --- from files ----------------------------------------------------------------------------------------------


def inspect(host: Host, source: str, *, recipe_facts: Mapping[str, Any] | None = None) -> ModelInfo:
    """The record of the model at ``source``: a folder, a cache entry, a GGUF file or a repository id.

    ``recipe_facts`` (a config with at least what a recipe carries) is used where the machine holds no config.
    Never raises on what the files hold: faults are ``issues``, with the file's name.
    """
    path = _expand(host, source)
    if path is None:
        found = cached_repository(host, source)
        if found is None:
            return _not_here(source, recipe_facts)
        return replace(_inspect_folder(host, found, recipe_facts), source=source, repo_id=source)
    try:
        stat = host.stat(path)
    except OSError:
        return replace(_not_here(path, recipe_facts), is_local=True)
    if stat.is_file:
        if path.lower().endswith(".gguf"):
            from wizard.models.gguf import inspect_gguf

            return inspect_gguf(host, path)
        return ModelInfo(path, True, servable=False, issues=(Issue("not_a_model", path, _("not a model folder and not a GGUF file")),))
    return _inspect_folder(host, resolve_entry(host, path), recipe_facts)


def _expand(host: Host, source: str) -> str | None:
    """An absolute path, or None for what can only be a repository id."""
    if source.startswith("~"):
        return host.home.rstrip("/") + source[1:]
    if source.startswith("/"):
        return source
    if re.match(r"^[A-Za-z]:[\\/]", source):
        return source
    if host.exists(source):
        return source
    return None if re.fullmatch(r"[\w.-]+(/[\w.-]+)?", source) else source


def _not_here(source: str, facts: Mapping[str, Any] | None) -> ModelInfo:
    issue = Issue("not_on_disk", source, _("not on this machine: it would be downloaded when it is first served"), fatal=False)
    if facts:
        return replace(from_config(facts, source=source, repo_id=source), issues=(issue,))
    published = from_published(source)
    if published is not None:
        return replace(published, issues=(*published.issues, issue))
    return ModelInfo(source, False, repo_id=source, kv_layout_known=False, issues=(issue,))


def cache_roots(host: Host) -> list[str]:
    """Where the Hugging Face cache lies on that machine, most specific first."""
    roots = [host.env.get("HF_HUB_CACHE"), host.env.get("HUGGINGFACE_HUB_CACHE")]
    home = host.env.get("HF_HOME")
    roots.append(posixpath.join(home, "hub") if home else None)
    cache = host.env.get("XDG_CACHE_HOME") or posixpath.join(host.home, ".cache")
    roots.append(posixpath.join(cache, "huggingface", "hub"))
    out: list[str] = []
    for root in roots:
        if root and root not in out:
            out.append(root)
    return out


def cached_repository(host: Host, repo_id: str) -> str | None:
    """The snapshot folder of a repository in the Hugging Face cache, if it is there."""
    folder = "models--" + repo_id.replace("/", "--")
    for root in cache_roots(host):
        path = posixpath.join(root, folder)
        if host.exists(path):
            snapshot = resolve_entry(host, path)
            if snapshot != path:
                return snapshot
    return None


def resolve_entry(host: Host, path: str) -> str:
    """The folder that holds the files: the snapshot of a Hugging Face cache entry, else ``path``."""
    snapshots = posixpath.join(path, "snapshots")
    if not host.exists(snapshots):
        return path
    revision = _read_text(host, posixpath.join(path, "refs", "main"))
    if revision and host.exists(posixpath.join(snapshots, revision.strip())):
        return posixpath.join(snapshots, revision.strip())
    entries = [e for e in _list(host, snapshots) if e.is_dir]
    dated = sorted(entries, key=lambda e: _mtime(host, e.path))
    return dated[-1].path if dated else path


def _mtime(host: Host, path: str) -> float:
    try:
        return host.stat(path).mtime
    except OSError:
        return 0.0


def repo_id_of(path: str) -> str | None:
    """The repository id that a cache path names."""
    match = re.search(r"models--([^/\\]+?)--([^/\\]+)(?:[/\\]|$)", path)
    if match:
        return f"{match.group(1)}/{match.group(2)}"
    match = re.search(r"modelscope/hub/(?:models/)?([^/]+)/([^/]+?)/?$", path)
    if match:
        return f"{match.group(1)}/{match.group(2).replace('___', '.')}"
    return None


def _inspect_folder(host: Host, path: str, facts: Mapping[str, Any] | None) -> ModelInfo:
    try:
        entries = {e.name: e for e in host.list_dir(path)}
    except PermissionError:
        why = _("this folder may not be read: ls -ld shows whose it is")
        return ModelInfo(path, True, repo_id_of(path), servable=False, kv_layout_known=False, issues=(Issue("unreadable", path, why),))
    except OSError:
        entries = {}
    issues: list[Issue] = []
    if "adapter_config.json" in entries and "config.json" not in entries:
        return _adapter_only(host, path)
    config = _json(host, posixpath.join(path, "config.json"), issues) if "config.json" in entries else None
    if config is None and "params.json" in entries:
        params = _json(host, posixpath.join(path, "params.json"), issues)
        config = from_mistral(params) if params is not None else None
    if config is None:
        gguf = sorted(n for n in entries if n.lower().endswith(".gguf") and "mmproj" not in n.lower())
        if gguf:
            from wizard.models.gguf import inspect_gguf

            return inspect_gguf(host, posixpath.join(path, gguf[0]))
        if "weights.npz" in entries:
            issues.append(Issue("mlx", "weights.npz", _("MLX (Apple) weights: vLLM cannot serve them")))
        elif not issues:
            issues.append(Issue("no_config", "config.json", _("there is no config.json: not a model that vLLM can read")))
        if facts is None:
            return ModelInfo(path, True, repo_id_of(path), servable=False, kv_layout_known=False, issues=tuple(issues))
        config = dict(facts)
    modelopt = _json(host, posixpath.join(path, "hf_quant_config.json"), []) if "hf_quant_config.json" in entries else None
    generation = _json(host, posixpath.join(path, "generation_config.json"), []) if "generation_config.json" in entries else None
    card = _card(host, path, entries)
    repo = repo_id_of(path)
    sizes = _weights_on_disk(host, path, entries, issues)
    info = from_config(
        config, source=path, is_local=True, repo_id=repo, name=repo or card.get("name") or posixpath.basename(path), modelopt=modelopt,
        generation=generation, sentence_files="modules.json" in entries or "1_Pooling" in entries,
        weight_bytes=sizes.total, weight_source=sizes.source,
    )  # fmt: skip
    if sizes.by_kind:
        info = replace(info, weight_bytes_by_kind=sizes.by_kind)
    if sizes.parameters:
        info = replace(info, parameters=sizes.parameters)
    found_issues = (*info.issues, *issues)
    return replace(
        info,
        chat_template=_has_template(host, path, entries),
        lora_adapters=_adapters(host, path, entries),
        license=card.get("license"),
        gated=card.get("gated"),
        issues=found_issues,
        servable=info.servable and not any(i.fatal for i in found_issues),
    )


def _list(host: Host, path: str) -> list[DirEntry]:
    try:
        return list(host.list_dir(path))
    except OSError:
        return []


def _read_text(host: Host, path: str, limit: int = 2**20) -> str | None:
    try:
        return host.read_text(path, limit=limit)
    except OSError:
        return None


def _json(host: Host, path: str, issues: list[Issue]) -> dict[str, Any] | None:
    """A JSON table, or None with an issue added."""
    name = posixpath.basename(path)
    try:
        raw = host.read_bytes(path, limit=MAX_JSON_BYTES)
    except OSError as fault:
        issues.append(Issue("unreadable", name, _("cannot be read: {why}").format(why=fault.strerror or fault)))
        return None
    if raw.startswith(LFS_PREFIX):
        issues.append(Issue("lfs_pointer", name, _("a Git LFS pointer, not the file: run `git lfs pull` in the folder")))
        return None
    try:
        data = json.loads(raw.decode("utf-8", "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        issues.append(Issue("bad_json", name, _("is not valid JSON: download it again")))
        return None
    if not isinstance(data, dict):
        issues.append(Issue("bad_json", name, _("is not a JSON table: download it again")))
        return None
    return data


class _Sizes:
    def __init__(self) -> None:
        self.total: int | None = None
        self.by_kind: dict[str, int] = {}
        self.parameters: int | None = None
        self.source = ""


def _weights_on_disk(host: Host, path: str, entries: Mapping[str, DirEntry], issues: list[Issue]) -> _Sizes:
    """Sizes of the weights from the headers of the shards; faults of the files are added to ``issues``."""
    out = _Sizes()
    for name in sorted(entries):
        if name.endswith((".incomplete", ".part", ".tmp", ".crdownload")) and "safetensors" in name:
            issues.append(Issue("incomplete_download", name, _("a download that did not finish: start it again")))
    index = None
    for name in ("model.safetensors.index.json", "consolidated.safetensors.index.json"):
        if name in entries:
            index = _json(host, posixpath.join(path, name), issues)
            break
    wanted = _shards(index) if index is not None else []
    present = sorted(n for n in entries if n.endswith(".safetensors") and not entries[n].is_dir)
    if wanted:
        shards = [n for n in wanted if n in entries]
        missing = [n for n in wanted if n not in entries]
    else:
        standard = [n for n in present if n.startswith("model") or re.search(r"-\d{5}-of-\d{5}", n)]
        shards = [n for n in (standard or present) if n != "adapter_model.safetensors"]
        missing = _missing_by_number(shards)
    pending = _unfinished(host, path) if missing or not shards else 0
    if pending:
        issues.append(Issue("incomplete_download", path, _("a download of {n} files did not finish: start it again").format(n=pending)))
    if missing and shards:
        for name in missing[:20]:
            issues.append(Issue("shard_missing", name, _("named by the index but not there: the download is not complete")))
    headers: dict[str, Header] = {}
    for name in shards:
        header = _header(host, posixpath.join(path, name), name, issues)
        if header is not None:
            headers[name] = header
    if headers and len(headers) == len(shards) and not missing:
        tensors = {t.name: t for h in headers.values() for t in h.tensors}
        out.total = sum(t.bytes for t in tensors.values())
        out.by_kind = kinds_of({t.name: t.bytes for t in tensors.values()})
        out.source = "safetensors headers"
        return out
    if index is not None:
        if not shards:
            issues.append(_no_weights(path))
        meta = index.get("metadata")
        total = meta.get("total_size") if isinstance(meta, Mapping) else None
        if isinstance(total, (int, float)) and not isinstance(total, bool) and total > 0:
            out.total, out.source = int(total), "index"
            return out
    if not shards:
        _other_formats(host, path, entries, issues, out)
    return out


def _unfinished(host: Host, path: str) -> int:
    """Files that a broken download left half done: beside the cache's blobs, or in a folder's own download cache."""
    places = [posixpath.join(path, ".cache", "huggingface", "download")]
    if "/snapshots/" in path:
        places.append(posixpath.join(path.rsplit("/snapshots/", 1)[0], "blobs"))
    return sum(e.name.endswith(".incomplete") for place in places for e in _list(host, place))


def _no_weights(path: str) -> Issue:
    return Issue("no_weights", path, _("no weights are there: only the configuration"), fatal=False)


def _other_formats(host: Host, path: str, entries: Mapping[str, DirEntry], issues: list[Issue], out: _Sizes) -> None:
    binaries = [n for n in entries if re.fullmatch(r"pytorch_model.*\.bin|model.*\.bin|consolidated.*\.pth", n)]
    if binaries:
        sizes = [_size(host, posixpath.join(path, n)) for n in binaries]
        out.total = sum(s for s in sizes if s is not None) or None
        out.source = "file sizes"
        return
    if not any(issue.code == "no_weights" for issue in issues):
        issues.append(_no_weights(path))


def _size(host: Host, path: str) -> int | None:
    try:
        return host.stat(path).size_bytes
    except OSError:
        return None


def _shards(index: Mapping[str, Any]) -> list[str]:
    table = index.get("weight_map")
    if not isinstance(table, Mapping):
        return []
    return sorted({v for v in table.values() if isinstance(v, str) and "/" not in v and "\\" not in v})


def _missing_by_number(shards: list[str]) -> list[str]:
    """Shards that ``-00001-of-00004`` names imply and that are not there."""
    have: dict[tuple[str, str], set[int]] = {}
    for name in shards:
        match = re.fullmatch(r"(.*)-(\d{5})-of-(\d{5})\.safetensors", name)
        if match:
            have.setdefault((match.group(1), match.group(3)), set()).add(int(match.group(2)))
    out = []
    for (stem, total), numbers in have.items():
        out += [f"{stem}-{n:05d}-of-{total}.safetensors" for n in range(1, min(int(total), 10_000) + 1) if n not in numbers]
    return out


def _header(host: Host, path: str, name: str, issues: list[Issue]) -> Header | None:
    try:
        size = host.stat(path).size_bytes
        return read_header(host, path, size)
    except HeaderError as fault:
        issues.append(Issue(fault.code, name, _HEADER_TEXTS[fault.code]().format(detail=str(fault))))
    except OSError as fault:
        # a cache link whose blob is not there is a download that did not finish
        issues.append(Issue("shard_missing", name, _("cannot be read: {why}").format(why=fault.strerror or fault)))
    return None


_HEADER_TEXTS: dict[str, Any] = {
    "lfs_pointer": lambda: _("a Git LFS pointer, not the weights: run `git lfs pull` in the folder"),
    "empty": lambda: _("the file is empty: download it again"),
    "truncated": lambda: _("the file is cut off ({detail}): download it again"),
    "bad_header": lambda: _("not a safetensors file ({detail}): download it again"),
}


_KIND_RULES: tuple[tuple[str, str], ...] = (
    (r"(^|\.)mtp\.|\.mtp\.|nextn|eh_proj", "mtp"),
    (r"vision|visual|image|multi_modal_projector|mm_projector|vit\.|siglip|aligner", "vision"),
    (r"audio|speech|sound|encoder\.conv", "audio"),
    (r"lm_head|^output\.weight", "lm_head"),
    (r"embed_tokens|word_embeddings|wte|tok_embeddings|embed_in|embedding", "embedding"),
    (r"\.experts?\.|experts_|\.experts$|block_sparse_moe\.experts", "experts"),
    (r"norm|router|gate\.weight|gate\.e_score|gate\.bias|A_log|dt_bias", "other"),
    (r"attn|attention|mixer|conv1d|mamba|\.wq|\.wk|\.wv|\.wo", "attention"),
    (r"mlp|feed_forward|ffn|shared_expert|block_sparse_moe", "mlp"),
)
_KIND_PATTERNS = tuple((re.compile(pattern), kind) for pattern, kind in _KIND_RULES)


def kinds_of(sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes by kind, from the tensors' names."""
    out: dict[str, int] = {}
    for name, size in sizes.items():
        kind = next((k for pattern, k in _KIND_PATTERNS if pattern.search(name)), "other")
        out[kind] = out.get(kind, 0) + size
    return out


def _has_template(host: Host, path: str, entries: Mapping[str, DirEntry]) -> bool | None:
    if "chat_template.jinja" in entries or "chat_template.json" in entries or "additional_chat_templates" in entries:
        return True
    if "tokenizer_config.json" not in entries:
        return True if "tekken.json" in entries else None
    text = _read_text(host, posixpath.join(path, "tokenizer_config.json"), limit=16 * 2**20)
    if text is None:
        return None
    return '"chat_template"' in text or "tekken.json" in entries


def _adapters(host: Host, path: str, entries: Mapping[str, DirEntry]) -> tuple[LoraAdapter, ...]:
    out = []
    for name, entry in sorted(entries.items()):
        if entry.is_dir and host.exists(posixpath.join(path, name, "adapter_config.json")):
            adapter = read_adapter(host, posixpath.join(path, name))
            if adapter is not None:
                out.append(adapter)
    return tuple(out)


_EXPERT_TARGETS = re.compile(r"expert|\bw[123]\b|gate_up_proj|moe")


def read_adapter(host: Host, path: str) -> LoraAdapter | None:
    """A LoRA adapter folder (PEFT's layout), or None when it has no readable ``adapter_config.json``."""
    data = _json(host, posixpath.join(path, "adapter_config.json"), [])
    if data is None:
        return None
    raw = data.get("target_modules")
    modules = tuple(x for x in raw if isinstance(x, str)) if isinstance(raw, (list, tuple)) else ((raw,) if isinstance(raw, str) else ())
    parameters = data.get("target_parameters")
    named = modules + (tuple(x for x in parameters if isinstance(x, str)) if isinstance(parameters, (list, tuple)) else ())
    touches = any(_EXPERT_TARGETS.search(m) for m in named)
    size = None
    for name in ("adapter_model.safetensors", "adapter_model.bin"):
        size = _size(host, posixpath.join(path, name))
        if size is not None:
            if name.endswith(".safetensors"):
                header = _header(host, posixpath.join(path, name), name, [])
                if header is not None:
                    touches = touches or any(".experts." in t.name for t in header.tensors)
            break
    rank = arch_reader.integer(data, "r")
    patterns = data.get("rank_pattern")
    if isinstance(patterns, Mapping):
        ranks = [v for v in patterns.values() if type(v) is int]
        rank = max([r for r in [rank, *ranks] if r is not None], default=None)
    return LoraAdapter(posixpath.basename(path.rstrip("/")), path, rank, modules, _text(data.get("base_model_name_or_path")), touches, size)


def _adapter_only(host: Host, path: str) -> ModelInfo:
    adapter = read_adapter(host, path)
    message = _("a LoRA adapter, not a model: serve its base model{base} and load this with --lora-modules").format(
        base=f" ({adapter.base_model})" if adapter is not None and adapter.base_model else ""
    )
    adapters = (adapter,) if adapter is not None else ()
    return ModelInfo(path, True, servable=False, kv_layout_known=False, lora_adapters=adapters, issues=(Issue("adapter", "adapter_config.json", message),))


def _card(host: Host, path: str, entries: Mapping[str, DirEntry]) -> dict[str, Any]:
    """Licence, gating and base model from the front matter of README.md."""
    if "README.md" not in entries:
        return {}
    return card_facts(_read_text(host, posixpath.join(path, "README.md"), limit=64 * 1024) or "")


def card_facts(text: str) -> dict[str, Any]:
    """Licence ("license") and gating ("gated") from the front matter of a model card."""
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    if not text.startswith("---\n"):
        return {}
    front = text[4:].split("\n---", 1)[0]
    out: dict[str, Any] = {}
    for line in front.split("\n"):
        match = re.match(r"^(license|license_name|extra_gated_prompt|extra_gated_heading|extra_gated_fields|gated)\s*:\s*(.*)$", line)
        if not match:
            continue
        key, value = match.group(1), match.group(2).strip().strip("'\"")
        if key in ("license", "license_name") and value:
            if key == "license_name" or "license" not in out:
                out["license"] = value
        elif key != "license":
            out["gated"] = True
    return out


def from_mistral(params: Mapping[str, Any]) -> dict[str, Any]:
    """A ``config.json`` for Mistral's own ``params.json`` format."""
    names = {
        "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "n_kv_heads": "num_key_value_heads",
        "head_dim": "head_dim", "hidden_dim": "intermediate_size", "vocab_size": "vocab_size", "tied_embeddings": "tie_word_embeddings",
        "max_position_embeddings": "max_position_embeddings", "max_seq_len": "max_position_embeddings", "sliding_window": "sliding_window",
    }  # fmt: skip
    out: dict[str, Any] = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16"}
    for old, new in names.items():
        if old in params:
            out[new] = params[old]
    mixture = params.get("moe")
    if isinstance(mixture, Mapping):
        out["architectures"] = ["MixtralForCausalLM"]
        out["model_type"] = "mixtral"
        out["num_local_experts"] = mixture.get("num_experts")
        out["num_experts_per_tok"] = mixture.get("num_experts_per_tok")
    vision = params.get("vision_encoder")
    if isinstance(vision, Mapping):
        out = {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "torch_dtype": "bfloat16", "text_config": out,
               "vision_config": {**vision, "model_type": "pixtral"}}  # fmt: skip
    return out


__all__ = ["KvLayer", "Quant", "cached_repository", "from_config", "inspect", "read_adapter", "resolve_entry"]
