"""Inspection of files as they lie on a machine: whole ones, broken ones, odd ones."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fit.published import MODELS
from wizard.host import RealHost
from wizard.models import gguf
from wizard.models.inspect import from_config, inspect, kinds_of, max_length, read_adapter, repo_id_of
from wizard.models.safetensors import HeaderError, parse_header, read_header

HOST = RealHost()
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4976698672\n"


def shard(tensors: dict[str, tuple[str, list[int], int]], cut: int = 0) -> bytes:
    """A safetensors file with zeros as weights."""
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, size) in tensors.items():
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(table).encode()
    raw = struct.pack("<Q", len(head)) + head + bytes(at)
    return raw[: len(raw) - cut] if cut else raw


TINY = {
    "model.embed_tokens.weight": ("BF16", [32, 8], 512),
    "model.layers.0.self_attn.q_proj.weight": ("BF16", [8, 8], 128),
    "model.layers.0.mlp.gate_proj.weight": ("BF16", [16, 8], 256),
    "model.norm.weight": ("BF16", [8], 16),
    "lm_head.weight": ("BF16", [32, 8], 512),
}


def folder(tmp_path: Path, config: dict[str, Any] | None = None, **files: bytes | str) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config or MODELS["Qwen3-0.6B"]))
    for name, content in files.items():
        target = path / name.replace("__", ".").replace("_of_", "-of-")
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def codes(path: Path) -> list[str]:
    return [issue.code for issue in inspect(HOST, str(path)).issues]


def test_a_whole_folder(tmp_path: Path) -> None:
    path = folder(
        tmp_path, model__safetensors=shard(TINY), generation_config__json='{"temperature": 0.6, "top_k": 20, "eos_token_id": [1]}',
        tokenizer_config__json='{"chat_template": "x"}', README__md="---\nlicense: apache-2.0\nextra_gated_prompt: please\n---\n# Hi\n",
    )  # fmt: skip
    info = inspect(HOST, str(path))
    assert info.servable
    assert info.issues == ()
    assert info.weight_bytes == sum(size for _, _, size in TINY.values())
    assert info.weight_source == "safetensors headers"
    assert info.weight_bytes_by_kind == {"embedding": 512, "attention": 128, "mlp": 256, "other": 16, "lm_head": 512}
    assert (info.architecture, info.model_type, info.dtype) == ("Qwen3ForCausalLM", "qwen3", "bfloat16")
    assert info.generation_defaults == {"temperature": 0.6, "top_k": 20}
    assert (info.chat_template, info.license, info.gated) == (True, "apache-2.0", True)


def test_config_alone_is_enough_for_the_arithmetic(tmp_path: Path) -> None:
    info = inspect(HOST, str(folder(tmp_path)))
    assert info.servable
    assert info.weight_bytes == pytest.approx(596_049_920 * 2, rel=1e-4)
    assert info.weight_source == "computed from config"
    assert [i.code for i in info.issues] == ["no_weights"]
    assert not info.issues[0].fatal


def test_an_index_tells_the_size_when_no_shard_is_there(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 1_192_099_840}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}
    path = folder(tmp_path)
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    info = inspect(HOST, str(path))
    assert (info.weight_bytes, info.weight_source) == (1_192_099_840, "index")


def test_a_shard_that_the_index_names_and_that_is_missing(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "model-00001-of-00002.safetensors").write_bytes(shard(TINY))
    table = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (path / "model.safetensors.index.json").write_text(json.dumps(table))
    info = inspect(HOST, str(path))
    assert [(i.code, i.file) for i in info.issues] == [("shard_missing", "model-00002-of-00002.safetensors")]
    assert not info.servable


def test_a_shard_missing_by_its_number_without_an_index(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "model-00001-of-00003.safetensors").write_bytes(shard(TINY))
    (path / "model-00003-of-00003.safetensors").write_bytes(shard(TINY))
    assert [(i.code, i.file) for i in inspect(HOST, str(path)).issues] == [("shard_missing", "model-00002-of-00003.safetensors")]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (shard(TINY, cut=1), "truncated"),
        (shard(TINY)[:30], "truncated"),
        (shard(TINY)[:5], "truncated"),
        (b"", "empty"),
        (LFS, "lfs_pointer"),
        (struct.pack("<Q", 2**62) + b"{}", "bad_header"),
        (struct.pack("<Q", 4) + b"nope", "bad_header"),
        (struct.pack("<Q", 2) + b"[]", "bad_header"),
        (struct.pack("<Q", 15) + b'{"a": {"x": 1}}', "bad_header"),
    ],
)
def test_broken_shards_are_named(tmp_path: Path, content: bytes, code: str) -> None:
    info = inspect(HOST, str(folder(tmp_path, model__safetensors=content)))
    assert [(i.code, i.file) for i in info.issues] == [(code, "model.safetensors")]
    assert not info.servable
    assert info.issues[0].message


def test_a_download_that_did_not_finish(tmp_path: Path) -> None:
    path = folder(tmp_path)
    (path / "model-00001-of-00001.safetensors.incomplete").write_bytes(b"x")
    assert "incomplete_download" in codes(path)


@pytest.mark.parametrize("place", [".cache/huggingface/download", "../../blobs"])
def test_a_download_that_broke_off_beside_the_folder(tmp_path: Path, place: str) -> None:
    entry = tmp_path / "models--org--half" / "snapshots"
    entry.mkdir(parents=True)
    path = folder(entry)
    (path / place).mkdir(parents=True)
    (path / place / "0123abcd.incomplete").write_bytes(b"x")
    assert "incomplete_download" in codes(path)
    (path / "model.safetensors").write_bytes(shard(TINY))
    # what is whole is not spoiled by an older try
    assert codes(path) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"null", LFS])
def test_a_config_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    path = folder(tmp_path)
    (path / "config.json").write_bytes(content)
    info = inspect(HOST, str(path))
    assert not info.servable
    assert info.issues[0].file == "config.json"


def test_mlx_is_not_servable(tmp_path: Path) -> None:
    block = {"group_size": 64, "bits": 4}
    info = inspect(HOST, str(folder(tmp_path, {**MODELS["Qwen3-0.6B"], "quantization": block, "quantization_config": block}, model__safetensors=shard(TINY))))
    assert (info.quantization, info.servable) == ("mlx", False)
    assert info.issues[0].code == "mlx"


def test_hugging_face_cache(tmp_path: Path) -> None:
    entry = tmp_path / "models--Qwen--Qwen3-0.6B"
    blobs, snapshot = entry / "blobs", entry / "snapshots" / "abc123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text("abc123\n")
    (blobs / "one").write_text(json.dumps(MODELS["Qwen3-0.6B"]))
    (blobs / "two").write_bytes(shard(TINY))
    (snapshot / "config.json").symlink_to("../../blobs/one")
    (snapshot / "model.safetensors").symlink_to("../../blobs/two")
    info = inspect(HOST, str(entry))
    assert info.repo_id == "Qwen/Qwen3-0.6B"
    assert info.servable
    (blobs / "two").unlink()
    info = inspect(HOST, str(entry))
    assert [(i.code, i.file) for i in info.issues] == [("shard_missing", "model.safetensors")]


def test_a_repository_id_is_looked_up_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--Qwen--Qwen3-0.6B" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(MODELS["Qwen3-0.6B"]))
    (snapshot / "model.safetensors").write_bytes(shard(TINY))
    host = RealHost()
    info = inspect(host, "Qwen/Qwen3-0.6B")
    assert (info.source, info.repo_id, info.num_layers) == ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B", 28)
    missing = inspect(host, "Qwen/Qwen3-8B")
    assert [(i.code, i.fatal) for i in missing.issues] == [("not_on_disk", False)]
    assert missing.num_layers is None
    assert inspect(host, "Qwen/Qwen3-8B", recipe_facts=MODELS["Qwen3-8B"]).num_layers == 36


def test_cache_paths_name_their_repository() -> None:
    assert repo_id_of("/home/user/.cache/huggingface/hub/models--Qwen--Qwen3-VL-8B-Instruct/snapshots/ab") == "Qwen/Qwen3-VL-8B-Instruct"
    assert repo_id_of("/home/user/.cache/modelscope/hub/models/Qwen/Qwen2___5-7B") == "Qwen/Qwen2.5-7B"
    assert repo_id_of("/data/models/Qwen3") is None


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "adapter"
    path.mkdir()
    (path / "adapter_config.json").write_text(json.dumps({"r": 16, "target_modules": ["q_proj", "experts.gate_up_proj"], "base_model_name_or_path": "Qwen/Qwen3-30B-A3B", "rank_pattern": {"x": 32}}))
    (path / "adapter_model.safetensors").write_bytes(shard({"base_model.model.model.layers.0.mlp.experts.0.up_proj.lora_A.weight": ("F32", [4, 4], 64)}))
    info = inspect(HOST, str(path))
    assert not info.servable
    assert info.issues[0].code == "adapter"
    assert "Qwen/Qwen3-30B-A3B" in info.issues[0].message
    adapter = read_adapter(HOST, str(path))
    assert adapter is not None
    assert (adapter.rank, adapter.touches_experts, adapter.base_model) == (32, True, "Qwen/Qwen3-30B-A3B")


def test_adapters_beside_a_model(tmp_path: Path) -> None:
    path = folder(tmp_path, model__safetensors=shard(TINY))
    (path / "lora").mkdir()
    (path / "lora" / "adapter_config.json").write_text('{"r": 8, "target_modules": "all-linear"}')
    found = inspect(HOST, str(path)).lora_adapters
    assert [(a.name, a.rank, a.touches_experts) for a in found] == [("lora", 8, False)]


def test_mistral_format(tmp_path: Path) -> None:
    path = tmp_path / "mistral"
    path.mkdir()
    (path / "params.json").write_text(json.dumps({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "head_dim": 128, "hidden_dim": 14336, "vocab_size": 32768}))
    (path / "consolidated.safetensors").write_bytes(shard(TINY))
    (path / "tekken.json").write_text("{}")
    info = inspect(HOST, str(path))
    assert (info.num_layers, info.num_kv_heads, info.chat_template) == (32, 8, True)
    assert info.weight_source == "safetensors headers"


def test_nothing_there(tmp_path: Path) -> None:
    assert not inspect(HOST, str(tmp_path)).servable
    gone = inspect(HOST, str(tmp_path / "gone"))
    assert [i.code for i in gone.issues] == ["not_on_disk"]


# --- lengths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 32768}, 32768),
        ({"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 4.0}}, 16384),
        ({"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}, 131072),
        ({"max_position_embeddings": 40960, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072),
        ({"max_position_embeddings": 131072, "rope_scaling": {"type": "longrope", "factor": 32}}, 131072),
        ({"max_position_embeddings": 262144, "rope_parameters": {"rope_type": "default", "rope_theta": 1e7}}, 262144),
        ({"n_positions": 1024, "max_position_embeddings": 2048}, 1024),
        ({}, None),
    ],
)
def test_longest_context(config: dict[str, Any], length: int | None) -> None:
    assert max_length(config) == length


# --- properties ----------------------------------------------------------------------------------------------

json_values = st.recursive(st.none() | st.booleans() | st.integers(-10, 10**7) | st.floats(allow_nan=False) | st.text(max_size=8), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12)  # fmt: skip
KEYS = sorted({k for c in MODELS.values() for k in c} | {k for c in MODELS.values() for k in c.get("text_config", {})})


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), json_values, max_size=12))
def test_odd_configs_never_raise(config: dict[str, Any]) -> None:
    from_config(config, source="/models/x")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(MODELS)), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=3), st.data())
def test_damaged_configs_never_raise(model: str, damage: dict[str, Any], data: st.DataObject) -> None:
    config = {**MODELS[model], **damage}
    if isinstance(config.get("text_config"), dict) and data.draw(st.booleans()):
        config["text_config"] = {**config["text_config"], **damage}
    from_config(config, source="/models/x")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_header_parser_only_raises_its_own_error(raw: bytes) -> None:
    class Reader:
        def read_bytes(self, path: str, limit: int | None = None) -> bytes:
            return raw[:limit]

    try:
        header = read_header(Reader(), "x", len(raw))
    except HeaderError as fault:
        assert fault.code in ("lfs_pointer", "empty", "truncated", "bad_header")  # noqa: PT017
    else:
        assert header.file_bytes <= len(raw)


@settings(max_examples=50, deadline=None)
@given(json_values)
def test_header_tables_only_raise_their_own_error(table: Any) -> None:
    try:
        parse_header(json.dumps(table).encode())
    except HeaderError as fault:
        assert fault.code == "bad_header"  # noqa: PT017


def test_kinds_by_name() -> None:
    names = {
        "model.language_model.layers.3.mlp.experts.gate_up_proj": "experts", "model.visual.blocks.0.attn.qkv.weight": "vision", "mtp.layers.0.mlp.up_proj.weight": "mtp",
        "model.layers.1.linear_attn.in_proj_qkvz.weight": "attention", "audio_tower.layers.0.fc1.weight": "audio", "model.layers.0.input_layernorm.weight": "other",
        "lm_head.weight": "lm_head", "model.layers.0.mlp.shared_expert.up_proj.weight": "mlp",
    }  # fmt: skip
    for tensor, kind in names.items():
        assert kinds_of({tensor: 1}) == {kind: 1}, tensor


# --- GGUF ----------------------------------------------------------------------------------------------------


def gguf_bytes(pairs: dict[str, Any], tensors: dict[str, tuple[list[int], int]], version: int = 3) -> bytes:
    def text(s: str) -> bytes:
        return struct.pack("<Q", len(s)) + s.encode()

    def value(v: Any) -> bytes:
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        if isinstance(v, list):
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(text(x) for x in v)
        return struct.pack("<II", 4, v)

    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    for key, v in pairs.items():
        out += text(key) + value(v)
    for tensor, (shape, kind) in tensors.items():
        out += text(tensor) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, 0)
    return out


LLAMA_GGUF = {
    "general.architecture": "llama", "general.name": "Tiny", "llama.block_count": 2, "llama.embedding_length": 64, "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2, "llama.feed_forward_length": 128, "llama.context_length": 4096, "general.file_type": 15,
    "tokenizer.ggml.tokens": [f"t{i}" for i in range(300)], "tokenizer.chat_template": "x",
}  # fmt: skip
GGUF_TENSORS = {"token_embd.weight": ([64, 300], 14), "blk.0.attn_q.weight": ([64, 64], 12), "blk.0.ffn_up.weight": ([64, 128], 12)}


def test_gguf(tmp_path: Path) -> None:
    path = tmp_path / "tiny-Q4_K_M.gguf"
    head = gguf_bytes(LLAMA_GGUF, GGUF_TENSORS)
    sizes = 300 * 64 // 256 * 210 + 64 * 64 // 256 * 144 + 64 * 128 // 256 * 144
    path.write_bytes(head + bytes(sizes))
    info = inspect(HOST, str(path))
    assert (info.quantization, info.quant_detail, info.architecture) == ("gguf", "Q4_K_M", "LlamaForCausalLM")
    assert (info.num_layers, info.num_kv_heads, info.vocab_size, info.max_model_len) == (2, 2, 300, 4096)
    assert info.weight_bytes == sizes
    assert info.servable
    assert info.chat_template
    path.write_bytes(head)
    assert [i.code for i in inspect(HOST, str(path)).issues] == ["truncated"]
    path.write_bytes(head[:200])
    assert [i.code for i in inspect(HOST, str(path)).issues] == ["bad_header"]
    path.write_bytes(b"not a gguf file at all")
    assert not inspect(HOST, str(path)).servable


def test_gguf_in_several_files_must_be_merged(tmp_path: Path) -> None:
    head = gguf_bytes(LLAMA_GGUF, GGUF_TENSORS)
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(head)
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(gguf_bytes({}, {"blk.1.attn_q.weight": ([64, 64], 12)}))
    info = inspect(HOST, str(tmp_path / "m-00001-of-00002.gguf"))
    assert [i.code for i in info.issues] == ["gguf_split"]
    assert not info.servable


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 400))
def test_gguf_parser_only_raises_its_own_errors(noise: bytes, at: int) -> None:
    whole = gguf_bytes(LLAMA_GGUF, GGUF_TENSORS)
    raw = whole[:at] + noise + whole[at + len(noise) :]

    class Reader:
        def read_bytes(self, path: str, limit: int | None = None) -> bytes:
            return raw[:limit]

    try:
        gguf.read(Reader(), "x")  # type: ignore[arg-type]
    except gguf.GgufError as fault:
        assert str(fault)  # noqa: PT017
