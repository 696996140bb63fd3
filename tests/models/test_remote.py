"""A repository known over the network, from a hub on the loopback interface."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tests.fit.published import MODELS
from wizard.models.remote import inspect_remote

HEADER = json.dumps({"__metadata__": {}, "model.embed_tokens.weight": {"dtype": "BF16", "shape": [8, 4], "data_offsets": [0, 64]}, "model.layers.0.mlp.up_proj.weight": {"dtype": "BF16", "shape": [4, 4], "data_offsets": [64, 96]}}).encode()


class Hub(BaseHTTPRequestHandler):
    files: ClassVar[dict[str, bytes]] = {}
    gated: ClassVar[set[str]] = set()
    seen: ClassVar[list[tuple[str, str | None]]] = []

    def do_GET(self) -> None:
        name = self.path.split("/resolve/main/")[-1]
        repo = self.path.split("/resolve/")[0].lstrip("/")
        self.seen.append((name, self.headers.get("Authorization")))
        if repo in self.gated and not self.headers.get("Authorization"):
            self.send_error(401)
            return
        data = self.files.get(name)
        if data is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        if wanted:
            first, last = wanted.split("=")[1].split("-")
            data = data[int(first) : int(last) + 1]
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def endpoint() -> Iterator[str]:
    Hub.files = {
        "config.json": json.dumps(MODELS["Qwen3-0.6B"]).encode(), "model.safetensors": struct.pack("<Q", len(HEADER)) + HEADER,
        "generation_config.json": b'{"temperature": 0.7}', "README.md": b"---\nlicense: mit\n---\n", "tokenizer_config.json": b'{"chat_template": "x"}',
    }  # fmt: skip
    Hub.gated, Hub.seen = set(), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_repository_is_known_from_its_small_files(endpoint: str) -> None:
    info = inspect_remote("Qwen/Qwen3-0.6B", {"HF_ENDPOINT": endpoint})
    assert (info.num_layers, info.repo_id, info.is_local) == (28, "Qwen/Qwen3-0.6B", False)
    assert (info.weight_bytes, info.weight_source) == (96, "safetensors headers")
    assert info.weight_bytes_by_kind == {"embedding": 64, "mlp": 32}
    assert (info.license, info.chat_template, info.generation_defaults) == ("mit", True, {"temperature": 0.7})
    assert [(i.code, i.fatal) for i in info.issues] == [("not_on_disk", False)]


def test_an_index_of_very_many_shards_is_enough(endpoint: str) -> None:
    Hub.files["model.safetensors.index.json"] = json.dumps({"metadata": {"total_size": 1_192_099_840}, "weight_map": {f"t{i}": f"model-{i}.safetensors" for i in range(100)}}).encode()
    info = inspect_remote("Qwen/Qwen3-0.6B", {"HF_ENDPOINT": endpoint})
    assert (info.weight_bytes, info.weight_source) == (1_192_099_840, "index")


def test_gated_repositories_ask_for_a_token(endpoint: str) -> None:
    Hub.gated = {"meta/secret"}
    info = inspect_remote("meta/secret", {"HF_ENDPOINT": endpoint})
    assert ([i.code for i in info.issues], info.gated) == (["gated"], True)
    assert inspect_remote("meta/secret", {"HF_ENDPOINT": endpoint, "HF_TOKEN": "hf_x"}).num_layers == 28
    assert ("config.json", "Bearer hf_x") in Hub.seen


def test_what_is_not_there(endpoint: str) -> None:
    Hub.files = {}
    assert [i.code for i in inspect_remote("no/such", {"HF_ENDPOINT": endpoint}).issues] == ["no_config"]


@pytest.mark.parametrize("where", ["http://127.0.0.1:9", "http://[", "ftp://x"])
def test_no_network_says_what_is_missing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wizard.models.remote.TIMEOUT_S", 0.5)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    info = inspect_remote("a/b", {"HF_ENDPOINT": where})
    assert [i.code for i in info.issues] == ["offline"]
    assert "config.json" in info.issues[0].message


def test_damaged_files_are_taken_as_missing(endpoint: str) -> None:
    Hub.files["model.safetensors"] = b"\xff" * 64
    Hub.files["generation_config.json"] = b"{"
    info = inspect_remote("Qwen/Qwen3-0.6B", {"HF_ENDPOINT": endpoint})
    assert info.weight_source == "computed from config"
