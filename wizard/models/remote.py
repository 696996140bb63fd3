"""A repository on the Hugging Face Hub, known by its small files: config, index, headers. No weights are fetched.

Only asked when the user names a repository that is neither on this machine nor in a recipe. Without the network it
says what is missing. ``HF_ENDPOINT`` names a mirror, ``HF_TOKEN`` opens gated repositories.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.i18n import _
from wizard.models.info import Issue, ModelInfo
from wizard.models.inspect import card_facts, from_config, from_published, kinds_of
from wizard.models.safetensors import MAX_HEADER_BYTES, HeaderError, parse_header

TIMEOUT_S = 6.0
MAX_SMALL_BYTES = 64 * 2**20
MAX_SHARDS = 64  # headers of more shards are not fetched one by one: the index's total is used


class Unreachable(OSError):
    """The hub did not answer: no network, a proxy, or a mirror that is down."""


class _Hub:
    def __init__(self, repo_id: str, env: Mapping[str, str], revision: str) -> None:
        endpoint = (env.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        if not endpoint.startswith(("https://", "http://")):
            endpoint = "https://huggingface.co"
        self.base = f"{endpoint}/{urllib.parse.quote(repo_id)}/resolve/{urllib.parse.quote(revision, safe='')}/"
        self.token = env.get("HF_TOKEN")

    def get(self, name: str, first: int | None = None, last: int | None = None) -> bytes | None:
        """The file (or a part of it); None when it is not there. Raises PermissionError and Unreachable."""
        headers = {"User-Agent": "vllm-wizard"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if first is not None:
            headers["Range"] = f"bytes={first}-{last}"
        try:
            request = urllib.request.Request(self.base + urllib.parse.quote(name), headers=headers)  # noqa: S310  (http or https only)
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:  # noqa: S310
                return bytes(reply.read(MAX_SMALL_BYTES if last is None or first is None else last - first + 1))
        except urllib.error.HTTPError as fault:
            if fault.code == 404:
                return None
            if fault.code in (401, 403):
                raise PermissionError(name) from None
            raise Unreachable(f"HTTP {fault.code}") from None
        except (urllib.error.URLError, TimeoutError, OSError, ValueError) as fault:
            reason = getattr(fault, "reason", fault)
            raise Unreachable(str(reason)) from None

    def table(self, name: str) -> dict[str, Any] | None:
        raw = self.get(name)
        if raw is None:
            return None
        try:
            data = json.loads(raw)
        except ValueError:
            return None
        return data if isinstance(data, dict) else None


def inspect_remote(repo_id: str, env: Mapping[str, str], *, revision: str = "main") -> ModelInfo:
    """The record of a repository. What cannot be had is an issue; nothing is raised."""
    hub = _Hub(repo_id, env, revision)
    try:
        config = hub.table("config.json")
        if config is None:
            return _failed(repo_id, "no_config", _("the hub has no config.json for {repo}: is the name right?").format(repo=repo_id))
        modelopt = hub.table("hf_quant_config.json")
        generation = hub.table("generation_config.json")
        sizes, source = _sizes(hub)
        readme = hub.get("README.md", 0, 65_535) or b""
        template = hub.get("chat_template.jinja", 0, 63) is not None or b'"chat_template"' in (hub.get("tokenizer_config.json") or b"")
        modules = hub.get("modules.json", 0, 63) is not None
    except PermissionError:
        return replace(_without_hub(repo_id, "gated", _("{repo} is gated: accept its terms on the hub and set HF_TOKEN").format(repo=repo_id)), gated=True)
    except Unreachable as fault:
        return _without_hub(repo_id, "offline", _("the hub cannot be reached ({why}): without it nothing is known of {repo}. Give a folder with its config.json").format(why=fault, repo=repo_id))
    total = sum(sizes.values()) or None
    info = from_config(
        config, source=repo_id, repo_id=repo_id, modelopt=modelopt, generation=generation, sentence_files=modules, weight_bytes=total, weight_source=source if total else None
    )  # fmt: skip
    card = card_facts(readme.decode("utf-8", "replace"))
    kinds = kinds_of(sizes) if source == "safetensors headers" else info.weight_bytes_by_kind
    note = Issue("not_on_disk", repo_id, _("not on this machine: it would be downloaded when it is first served"), fatal=False)
    return replace(
        info, chat_template=template, license=card.get("license"), gated=card.get("gated"), weight_bytes_by_kind=kinds, issues=(*info.issues, note)
    )  # fmt: skip


def _failed(repo_id: str, code: str, message: str) -> ModelInfo:
    return ModelInfo(repo_id, False, repo_id=repo_id, kv_layout_known=False, issues=(Issue(code, repo_id, message),))


def _without_hub(repo_id: str, code: str, message: str) -> ModelInfo:
    """What is published of a well-known model, with what keeps its files from being looked at; else only the latter."""
    published = from_published(repo_id)
    if published is None:
        return _failed(repo_id, code, message)
    return replace(published, issues=(*published.issues, Issue(code, repo_id, message, fatal=False)))


def _sizes(hub: _Hub) -> tuple[dict[str, int], str]:
    """(bytes by tensor, where from): headers of all shards, or the index's total under one name."""
    index = hub.table("model.safetensors.index.json")
    table = index.get("weight_map") if index is not None else None
    shards = sorted({v for v in table.values() if isinstance(v, str)}) if isinstance(table, dict) else ["model.safetensors"]
    if len(shards) <= MAX_SHARDS:
        sizes: dict[str, int] = {}
        for shard in shards:
            found = _header(hub, shard)
            if found is None:
                sizes = {}
                break
            sizes.update(found)
        if sizes:
            return sizes, "safetensors headers"
    meta = index.get("metadata") if index is not None else None
    total = meta.get("total_size") if isinstance(meta, dict) else None
    if isinstance(total, (int, float)) and not isinstance(total, bool) and total > 0:
        return {"all": int(total)}, "index"
    return {}, ""


def _header(hub: _Hub, shard: str) -> dict[str, int] | None:
    start = hub.get(shard, 0, 7)
    if start is None or len(start) < 8:
        return None
    length = int.from_bytes(start[:8], "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        return None
    raw = hub.get(shard, 8, 7 + length)
    if raw is None:
        return None
    try:
        return {t.name: t.bytes for t in parse_header(raw).tensors}
    except HeaderError:
        return None
