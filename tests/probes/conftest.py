"""A small recorded machine, made on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from wizard.host import FakeHost

MakeHost = Callable[..., FakeHost]


@pytest.fixture
def make_host(tmp_path: Path) -> MakeHost:
    """``make_host(files={path: text}, commands={("a", "b"): "stdout" or {...}}, **host_json)``."""
    count = iter(range(1000))

    def make(
        files: Mapping[str, str | bytes] | None = None,
        commands: Mapping[tuple[str, ...], str | dict[str, Any]] | None = None,
        delays: bool = False,
        **host: Any,
    ) -> FakeHost:
        folder = tmp_path / f"machine{next(count)}"
        folder.mkdir()
        for path, content in (files or {}).items():
            target = folder / "files" / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.encode() if isinstance(content, str) else content)
        memory = {"total_bytes": 2**34, "available_bytes": 2**33, "swap_total_bytes": 0, "swap_free_bytes": 0}
        data = {"memory": memory, "cpu_count": 4, **host}
        rows = [
            {"argv": list(argv), **({"stdout": answer} if isinstance(answer, str) else answer)}
            for argv, answer in (commands or {}).items()
        ]
        (folder / "host.json").write_text(json.dumps(data), "utf-8")
        (folder / "commands.json").write_text(json.dumps(rows), "utf-8")
        return FakeHost(folder, delays)

    return make
