"""Answers huggingface.co for one tool run, from a table of published facts: run inside the tool's own interpreter.

Usage: HUB_FACTS=facts.json python fit_hub.py module:function ARGS...

Only what the tools ask for is served: config.json, the file list, and a safetensors header (no weights). So every
tool is given the same model as ours is, and nothing depends on the network.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import struct
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(Path(os.environ["HUB_FACTS"]).read_text("utf-8"))
COMMIT = "0" * 40


def answer(url: str) -> bytes | None:
    path = url.split("huggingface.co/", 1)[1].split("?")[0]
    parts = path.split("/")
    if path.startswith("api/models/"):
        facts = FACTS.get("/".join(parts[2:4]))
        if facts is None:
            return None
        if "/tree/" in path:
            return json.dumps([{"type": "file", "path": n, "size": 1} for n in ("config.json", "model.safetensors")]).encode()
        files = [{"rfilename": "config.json"}, {"rfilename": "model.safetensors", "size": facts["bytes"]}]
        return json.dumps({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": files}).encode()
    facts = FACTS.get("/".join(parts[:2]))
    if facts is None:
        return None
    if parts[-1] == "config.json":
        return json.dumps(facts["config"]).encode()
    if parts[-1] == "model.safetensors":
        header = json.dumps(facts["header"]).encode()
        return struct.pack("<Q", len(header)) + header
    return None


def part_of(data: bytes, wanted: str | None) -> bytes:
    if not wanted:
        return data
    first, last = wanted.split("=")[1].split("-")
    return data[int(first) : int(last) + 1 if last else None]


class Reply(io.BytesIO):
    def __init__(self, data: bytes, status: int) -> None:
        super().__init__(data)
        self.status = status
        self.headers = {"Content-Length": str(len(data)), "x-repo-commit": COMMIT}

    def getcode(self) -> int:
        return self.status


def urlopen(request: Any, *_more: Any, **_options: Any) -> Reply:
    url = request if isinstance(request, str) else request.full_url
    data = answer(url)
    if data is None:
        raise urllib.error.HTTPError(url, 404, "Not Found", {}, io.BytesIO())  # type: ignore[arg-type]
    wanted = None if isinstance(request, str) else request.get_header("Range")
    return Reply(part_of(data, wanted), 206 if wanted else 200)


class Opener:
    def open(self, request: Any, *_more: Any, **_options: Any) -> Reply:
        return urlopen(request)


def install() -> None:
    urllib.request.urlopen = urlopen
    urllib.request.build_opener = lambda *_handlers: Opener()  # type: ignore[assignment,return-value]
    try:
        httpx2 = importlib.import_module("httpx2")
    except ImportError:
        return
    real = httpx2.AsyncClient.__init__

    def handler(request: Any) -> Any:
        data = answer(str(request.url))
        if data is None:
            return httpx2.Response(404, request=request)
        wanted = request.headers.get("range")
        return httpx2.Response(206 if wanted else 200, content=part_of(data, wanted), request=request)

    def init(self: Any, *more: Any, **options: Any) -> None:
        options.pop("http2", None)
        real(self, *more, **{**options, "transport": httpx2.MockTransport(handler)})

    httpx2.AsyncClient.__init__ = init


if __name__ == "__main__":
    install()
    module, _, function = sys.argv[1].partition(":")
    sys.argv = sys.argv[1:]
    sys.exit(getattr(importlib.import_module(module), function)())
