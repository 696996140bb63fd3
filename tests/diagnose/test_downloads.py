"""What could not be fetched before vLLM ran (the environment, the image) is not taken for the model, and the other way round."""

from __future__ import annotations

import json

import pytest

from tests.diagnose.test_engine import OOM, cause, told, traceback

INSTALL, REGISTRY, HUB = "environment_install_unreachable", "docker_registry_unreachable", "hf_hub_unreachable"
BEGIN = "Installing vLLM 0.31.0 into /home/user/env.\n"
CAUSED = "\n  Caused by: Request failed after 3 retries\n  Caused by: error sending request for url ({url})\n  Caused by: client error (Connect)\n  Caused by: {why}"
DNS = "dns error: failed to lookup address information: Temporary failure in name resolution"
PIP = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken by "
    "'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/uv/"
)
PIP_END = "\nERROR: Could not find a version that satisfies the requirement uv (from versions: none)\nERROR: No matching distribution found for uv"


def uv(url: str, why: str = DNS) -> str:
    return BEGIN + f"error: Failed to fetch: `{url}`" + CAUSED.format(url=url, why=why)


INSTALLS = {
    "python": ("github.com", BEGIN + "error: Failed to download https://github.com/astral-sh/python-build-standalone/releases/download/20251010/cpython-3.12.tar.gz" + CAUSED.format(url="https://github.com/astral-sh/x", why=DNS)),
    "python, the other way round": ("github.com", BEGIN + "error: Request failed after 3 retries\n  Caused by: Failed to download https://github.com/astral-sh/python-build-standalone/releases/x.tar.gz\n  Caused by: operation timed out"),
    "index": ("index.example", uv("https://index.example/simple/vllm/")),
    "index alone": ("index.example", "error: Failed to fetch: `https://index.example/simple/vllm/`"),
    "wheels": ("wheels.vllm.ai", uv("https://wheels.vllm.ai/0.32.0/cu129/vllm/", "tcp connect error: Network is unreachable (os error 101)")),
    "torch": ("download.pytorch.org", BEGIN + "  × Failed to download `torch==2.9.0+cu129`\n  ├─▶ Failed to fetch:\n  │   `https://download.pytorch.org/whl/cu129/torch-2.9.0.whl`\n  ├─▶ Request failed after 3 retries\n  ╰─▶ operation timed out"),
    "torch in one line": ("download.pytorch.org", BEGIN + "  × Failed to download `torch==2.9.0+cu129`\n  ├─▶ Failed to fetch: `https://download.pytorch.org/whl/cu129/torch-2.9.0.whl`\n  ╰─▶ operation timed out"),
    "refused": ("mirror.example", uv("https://mirror.example/simple/vllm/", "tcp connect error: Connection refused (os error 111)")),
    "proxy": ("index.example", uv("https://index.example/simple/vllm/", "tunnel error: proxy authorization required")),
    "407": ("index.example", BEGIN + "error: Failed to fetch: `https://index.example/simple/vllm/`\n  Caused by: HTTP status client error (407 Proxy Authentication Required) for url (https://index.example/simple/vllm/)"),
    "certificate": ("index.example", uv("https://index.example/simple/vllm/", "invalid peer certificate: UnknownIssuer")),
    "a package of the Hub's": ("index.example", uv("https://index.example/simple/huggingface-hub/")),
    "pip": ("?", BEGIN + PIP + PIP_END),
    "pip's index": ("mirror.example", BEGIN + "Looking in indexes: https://mirror.example/simple\n" + PIP + PIP_END),
    "pip 25": ("index.example", PIP.replace("NewConnectionError('<", 'NameResolutionError("<').replace("object at 0x7f>", "(host='index.example', port=443)>").replace("Failed to establish a new connection:", "Failed to resolve 'index.example'") + PIP_END),
    "pip's time": ("files.pythonhosted.org", traceback("", "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Read timed out.", ("/x/pip/_vendor/urllib3/response.py", "_error_catcher", "yield"))),
    "pip's file": ("files.pythonhosted.org", "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='files.pythonhosted.org', port=443): Max retries exceeded with url: /packages/ab/vllm.whl (Caused by ConnectTimeoutError('timed out'))"),
    "pip's proxy": ("?", PIP.replace("NewConnectionError", "ProxyError").replace("Failed to establish a new connection: [Errno -3] Temporary failure in name resolution", "OSError('Tunnel connection failed: 407 Proxy Authentication Required')") + PIP_END),
    "pip's certificate": ("index.example", "Could not fetch URL https://index.example/simple/uv/: There was a problem confirming the ssl certificate: HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded with url: /simple/uv/ (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed')))  - skipping" + PIP_END),
}  # fmt: skip


@pytest.mark.parametrize("name", INSTALLS)
def test_an_environment_that_cannot_be_fetched_is_not_the_model(name: str) -> None:
    host, text = INSTALLS[name]
    (found,) = told(text).findings
    assert (found.cause, found.confidence) == (INSTALL, "high")
    assert host == "?" or host in found.title
    every = json.dumps(found.as_json())
    assert "HF_" not in every
    assert "Hugging Face could" not in every
    assert all(not fix.env for fix in found.fixes)  # they are for the shell that installs, never for the server
    commands = " ".join(c for fix in found.fixes for c in fix.commands)
    assert "HTTPS_PROXY" in commands
    assert "--runtime docker" in commands
    wanted = {"github.com": "UV_PYTHON_INSTALL_MIRROR", "wheels.vllm.ai": "", "download.pytorch.org": ""}.get(host, "PIP_INDEX_URL" if "pip" in name else "UV_DEFAULT_INDEX")
    assert wanted in commands
    assert wanted or "INDEX" not in commands  # an index in place of PyPI does not stand for these


@pytest.mark.parametrize(
    "text",
    [
        # The index answers: it has no such thing.
        "error: Failed to fetch: `https://wheels.vllm.ai/9.9.9/cu129/vllm/`\n  Caused by: HTTP status client error (404 Not Found) for url (https://wheels.vllm.ai/9.9.9/cu129/vllm/)",
        # What a server fetches for its requests.
        "(APIServer pid=1) ERROR 11-05 03:12:46 [media.py:1] Failed to fetch https://pictures.example/a.jpg",
        "Failed to download https://pictures.example/a.jpg",
        # It went on.
        PIP + "\nSuccessfully installed uv-0.9.0\n" + traceback("(EngineCore pid=1) ERROR 11-05 03:12:47 [core.py:900] ", OOM),
    ],
)
def test_what_answers_was_reached(text: str) -> None:
    assert cause(text)[0] not in (INSTALL, HUB)


HF_URL = "https://huggingface.co/Qwen/Qwen3-8B/resolve/main/config.json"


@pytest.mark.parametrize(
    "text",
    [
        f"reqwest error: error sending request for url ({HF_URL})",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='hf-mirror.com', port=443): Max retries exceeded with url: /Qwen/Qwen3-8B/resolve/main/config.json",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='models.example', port=443): Max retries exceeded with url: /api/models/Qwen/Qwen3-8B",
        "export HF_ENDPOINT=https://inner.example\nrequests.exceptions.ReadTimeout: HTTPSConnectionPool(host='inner.example', port=443): Read timed out.",
        traceback("", "httpx.ConnectError: [Errno -3] Temporary failure in name resolution", ("/x/huggingface_hub/file_download.py", "get", "go()")),
    ],
)
def test_the_hub_is_told_by_its_host_or_its_own_code(text: str) -> None:
    (found,) = told(text).findings
    assert (found.cause, found.confidence) == (HUB, "high")


def test_a_network_failure_that_names_nobody_is_a_guess() -> None:
    (found,) = told("httpx.ConnectError: [Errno -3] Temporary failure in name resolution").findings
    assert (found.cause, found.confidence) == (HUB, "medium")


@pytest.mark.parametrize("host", ["www.modelscope.cn", "pictures.example"])
def test_another_host_is_named_as_what_it_is(host: str) -> None:
    (found,) = told(f"requests.exceptions.ConnectionError: HTTPSConnectionPool(host='{host}', port=443): Max retries exceeded with url: /x").findings
    assert found.cause == "network_unreachable"
    assert host in found.title
    assert "HF_" not in json.dumps(found.as_json())


def test_a_private_registry_is_signed_in_to() -> None:
    (found,) = told(DAEMON + 'Head "https://ghcr.io/v2/acme/vllm/manifests/x": denied').findings
    assert "docker login ghcr.io" in [c for fix in found.fixes for c in fix.commands]


# -- images ----------------------------------------------------------------------------------------------------

HUB_URL = 'Get "https://registry-1.docker.io/v2/": '
LOOKUP = "dial tcp: lookup registry-1.docker.io on 127.0.0.53:53: no such host"
FROM = "Unable to find image 'vllm/vllm-openai:v0.31.0' locally\n"
DAEMON = "docker: Error response from daemon: "
RESOLVE = 'failed to resolve reference "docker.io/vllm/vllm-openai:v0.31.0": '
HEAD = 'failed to do request: Head "https://registry-1.docker.io/v2/vllm/vllm-openai/manifests/v0.31.0": '
PODMAN = "Trying to pull docker.io/vllm/vllm-openai:v0.31.0...\nError: initializing source docker://vllm/vllm-openai:v0.31.0: "
COMPOSE = " Image vllm/vllm-openai:v0.31.0 Pulling \n"

IMAGES = [
    (REGISTRY, FROM + DAEMON + HUB_URL + LOOKUP + "."),
    (REGISTRY, FROM + DAEMON + RESOLVE + HEAD + "dial tcp 104.16.100.215:443: i/o timeout"),
    (REGISTRY, FROM + DAEMON + HUB_URL + "net/http: TLS handshake timeout."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "context deadline exceeded."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "dial tcp 127.0.0.1:7890: connect: connection refused."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "proxyconnect tcp: dial tcp 10.0.0.1:3128: i/o timeout."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "Proxy Authentication Required."),
    (REGISTRY, FROM + DAEMON + HUB_URL + "tls: failed to verify certificate: x509: certificate signed by unknown authority."),
    (REGISTRY, FROM + DAEMON + "error pulling image configuration: download failed after attempts=6: dial tcp: lookup production.cloudflare.docker.com: no such host"),
    (REGISTRY, FROM + 'docker: failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://production.cloudflare.docker.com/x": dial tcp 1.2.3.4:443: connect: network is unreachable'),
    (REGISTRY, FROM + DAEMON + "received unexpected HTTP status: 503 Service Unavailable"),
    (REGISTRY, PODMAN + "pinging container registry registry-1.docker.io: " + HUB_URL + LOOKUP),
    (REGISTRY, COMPOSE + " Image vllm/vllm-openai:v0.31.0 Error " + HUB_URL + LOOKUP + "\nError response from daemon: " + HUB_URL + LOOKUP),
    ("docker_pull_rate_limit", COMPOSE + "Error response from daemon: toomanyrequests: You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit"),
    ("docker_pull_rate_limit", PODMAN + "reading manifest v0.31.0 in docker.io/vllm/vllm-openai: toomanyrequests: You have reached your unauthenticated pull rate limit."),
    ("docker_image_no_access", FROM + DAEMON + "pull access denied for acme/vllm, repository does not exist or may require 'docker login': denied: requested access to the resource is denied."),
    ("docker_image_no_access", COMPOSE + "Error response from daemon: pull access denied for acme/vllm, repository does not exist or may require 'docker login': denied: requested access to the resource is denied"),
    ("docker_image_no_access", FROM + DAEMON + "unauthorized: authentication required"),
    ("docker_image_no_access", FROM + DAEMON + 'Head "https://ghcr.io/v2/acme/vllm/manifests/x": denied'),
    ("docker_image_no_access", PODMAN + "reading manifest v0.31.0 in docker.io/acme/vllm: requested access to the resource is denied"),
    ("docker_image_no_access", FROM + DAEMON + RESOLVE + "unexpected status from HEAD request to https://mirror.example/v2/vllm/vllm-openai/manifests/v0.31.0: 403 Forbidden"),
    ("docker_image_not_found", FROM + DAEMON + "manifest for vllm/vllm-openai:v0.31.9 not found: manifest unknown: manifest unknown."),
    ("docker_image_not_found", FROM + DAEMON + RESOLVE + "docker.io/vllm/vllm-openai:v0.31.0: not found"),
    ("docker_image_not_found", PODMAN + "reading manifest v0.31.9 in docker.io/vllm/vllm-openai: manifest unknown"),
    ("disk_full", FROM + "docker: failed to register layer: write /usr/local/lib/python3.12/x.so: no space left on device"),
    ("disk_full", FROM + DAEMON + "write /var/lib/docker/tmp/GetImageBlob12: no space left on device."),
    ("disk_full", 'docker: failed to extract layer (application/vnd.oci.image.layer.v1.tar+gzip sha256:ab) to overlayfs: write /x: no space left on device'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), IMAGES)
def test_an_image_that_cannot_be_pulled(name: str, text: str) -> None:
    for form in (text, text + "\n\nRun 'docker run --help' for more information"):
        (found,) = told(form).findings
        assert (found.cause, found.confidence) == (name, "high")
        assert any(fix.commands or fix.files for fix in found.fixes)
        assert all(not fix.env for fix in found.fixes)


def test_the_registry_is_named_and_never_a_command_of_the_logs() -> None:
    (found,) = told(DAEMON + HUB_URL + LOOKUP).findings
    assert "registry-1.docker.io" in found.title
    (found,) = told(DAEMON + 'Get "https://x.io$(reboot)/v2/": dial tcp: i/o timeout').findings
    assert not any("reboot" in c for fix in found.fixes for c in fix.commands)


@pytest.mark.parametrize(
    "text",
    [
        "error during connect: Head \"http://localhost:2375/_ping\": dial tcp 127.0.0.1:2375: connect: connection refused",
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    ],
)
def test_docker_itself_is_no_registry(text: str) -> None:
    assert cause(text)[0] != REGISTRY


def test_a_pull_that_was_tried_again_is_no_failure() -> None:
    text = 'time="2026-01-01" level=warning msg="Failed, retrying in 1s ... (1/3). Error: initializing source docker://vllm/vllm-openai: pinging container registry registry-1.docker.io: ' + HUB_URL.replace('"', '\\"') + LOOKUP + '"\n'
    assert told(text + "(APIServer pid=1) INFO 11-05 03:10:00 [api_server.py:1] vLLM API server version 0.31.0\nINFO:     Application startup complete.").findings == []
