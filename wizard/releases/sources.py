"""Fetch the files of a released vLLM through the user's own package index, keeping only what is read.

The index is the one that pip is set up with (environment, configuration file), else pip's own default,
asked from pip. Source distributions are streamed; of a wheel only the wanted members are fetched, through
range requests, since a CUDA wheel is hundreds of megabytes.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from wizard.errors import WizardError
from wizard.i18n import _

TIMEOUT_S = 60.0
MAX_MEMBER_BYTES = 4 << 20
Progress = Callable[[str], None]


def wanted(path: str) -> bool:
    """Whether a file of the archive (path below its top folder) is read."""
    if path.startswith("vllm/"):
        return path.endswith(".py") and not path.startswith(("vllm/third_party/", "vllm/vllm_flash_attn/"))
    if path in ("CMakeLists.txt", "pyproject.toml", "PKG-INFO", "Dockerfile"):
        return True
    if path.startswith(".buildkite/"):  # which images are published, and with what
        return path == ".buildkite/release-pipeline.yaml" or ("scripts/" in path and "release" in path)
    return path.startswith(("requirements", "docker/Dockerfile", "Dockerfile"))


# --- the index -------------------------------------------------------------------------------------------


def index_urls() -> list[str]:
    """Simple-API addresses in the order to ask: environment, pip's configuration, pip's own default."""
    found: list[str] = []
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if os.environ.get(name):
            found.append(os.environ[name])
            break
    settings = _pip_settings()
    if not found:
        for key in ("install.index-url", "global.index-url", "download.index-url"):
            if settings.get(key):
                found.append(settings[key])
                break
    extra = os.environ.get("PIP_EXTRA_INDEX_URL") or settings.get("global.extra-index-url", "")
    if not found:
        default = _pip_default()
        if default:
            found.append(default)
    found.extend(extra.split())
    usable = [u.rstrip("/") for u in found if u.startswith(("https://", "http://"))]
    if not usable:
        raise WizardError(
            _("No package index is known: pip is not there and no index is configured. Set PIP_INDEX_URL to the address of one.")
        )
    return list(dict.fromkeys(usable))


def _pip(*arguments: str) -> str:
    try:
        result = subprocess.run(
            [sys.executable, "-m", "pip", *arguments], capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.decode("utf-8", "replace")


def _pip_settings() -> dict[str, str]:
    settings = {}
    for line in _pip("config", "list").splitlines():
        key, separator, value = line.partition("=")
        if separator:
            settings[key.strip()] = value.strip().strip("'\"")
    return settings


def _pip_default() -> str | None:
    """What ``pip download --help`` names as its default index."""
    text = re.sub(r"\s+", " ", _pip("download", "--help"))
    found = re.search(r"Package Index \(default (https?://[^\s)]+)\)", text)
    return found.group(1) if found else None


def _open(url: str, headers: dict[str, str] | None = None) -> Any:
    parts = urllib.parse.urlsplit(url)
    sent = {"User-Agent": "vllm-setup-wizard", **(headers or {})}
    if parts.username:
        secret = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        sent["Authorization"] = "Basic " + base64.b64encode(secret.encode()).decode()
        host = parts.hostname or ""
        netloc = host + (f":{parts.port}" if parts.port else "")
        url = urllib.parse.urlunsplit(parts._replace(netloc=netloc))
    if parts.scheme not in ("http", "https"):
        raise WizardError(_("{url}: not an http address").format(url=url))
    cafile = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE") or None
    context = ssl.create_default_context(cafile=cafile if cafile and Path(cafile).exists() else None)
    request = urllib.request.Request(url, headers=sent)  # noqa: S310 - the scheme was checked
    return urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context)  # noqa: S310


def project_files(project: str = "vllm") -> list[dict[str, Any]]:
    """The index's list of a project's files (``filename``, ``url``, ``upload-time`` ...), JSON or HTML."""
    problem = ""
    for index in index_urls():
        address = f"{index}/{project}/"
        try:
            accept = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
            with _open(address, {"Accept": accept}) as answer:
                raw, kind = answer.read(), answer.headers.get("Content-Type", "")
                address = answer.geturl()
        except (OSError, ValueError) as error:
            problem = _tell(error)
            continue
        files = _parse_index(raw, kind, address)
        if files:
            return files
        problem = _("it lists no files of {project}").format(project=project)
    raise WizardError(
        _("The package index could not be asked for {project}: {problem}").format(project=project, problem=problem)
    )


def _tell(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error) or type(error).__name__


def _parse_index(raw: bytes, kind: str, address: str) -> list[dict[str, Any]]:
    if "json" in kind:
        data = json.loads(raw)
        files = [f for f in data.get("files", []) if isinstance(f, dict) and "url" in f]
    else:
        files = []
        for link, name in re.findall(rb"""<a\s[^>]*href=["']([^"'#]+)[^>]*>\s*([^<]+?)\s*</a>""", raw, re.I):
            files.append({"filename": name.decode("utf-8", "replace"), "url": link.decode("utf-8", "replace")})
    for file in files:
        file["url"] = urllib.parse.urljoin(address, file["url"])
    return files


def released_versions(files: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """version -> its best file: the source distribution, else the smallest usable wheel."""
    best: dict[str, dict[str, Any]] = {}
    for file in files:
        name = file["filename"]
        sdist = re.fullmatch(r"vllm-(\d[\w.]*?)\.(?:tar\.gz|zip)", name)
        wheel = re.fullmatch(r"vllm-(\d[\w.]*?)-[^-]+-[^-]+-(\S+)\.whl", name)
        version = sdist.group(1) if sdist else wheel.group(1) if wheel else None
        if version is None or file.get("yanked"):
            continue
        if sdist or version not in best or (
            best[version]["filename"].endswith(".whl") and "x86_64" in name
        ):
            best[version] = file
    return best


# --- reading archives ------------------------------------------------------------------------------------


def fetch_files(file: dict[str, Any], cache: Path | None = None, progress: Progress = lambda text: None) -> dict[str, str]:
    """Text of the wanted files of one release (path -> text); kept in ``cache`` as a small zip."""
    stored = cache / (re.sub(r"\.(tar\.gz|whl|zip)$", "", file["filename"]) + ".files.zip") if cache else None
    if stored is not None and stored.exists():
        with zipfile.ZipFile(stored) as archive:
            return {n: archive.read(n).decode("utf-8", "replace") for n in archive.namelist()}
    progress(_("reading {name}").format(name=file["filename"]))
    try:
        if file["filename"].endswith(".whl"):
            found = dict(_wheel_members(file["url"]))
        else:
            with _open(file["url"]) as stream:
                found = dict(_sdist_members(stream))
    except (OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise WizardError(
            _("{name} could not be read from the package index: {problem}").format(
                name=file["filename"], problem=_tell(error)
            )
        ) from error
    if stored is not None:
        stored.parent.mkdir(parents=True, exist_ok=True)
        part = stored.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, text in found.items():
                archive.writestr(path, text)
        part.replace(stored)
    return found


def _sdist_members(stream: IO[bytes]) -> Iterator[tuple[str, str]]:
    with tarfile.open(fileobj=stream, mode="r|gz") as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            if member.isfile() and member.size <= MAX_MEMBER_BYTES and wanted(path):
                content = archive.extractfile(member)
                if content is not None:
                    yield path, content.read().decode("utf-8", "replace")


class _RemoteFile(io.RawIOBase):
    """A file behind http range requests, as ``zipfile`` wants it: seekable, read in large blocks."""

    BLOCK_BYTES = 1 << 20

    def __init__(self, url: str) -> None:
        self.url = url
        with _open(url, {"Range": "bytes=0-0"}) as answer:
            total = answer.headers.get("Content-Range", "").rpartition("/")[2]
            if answer.status != 206 or not total.isdigit():
                raise OSError(_("the index does not serve parts of files, which reading a wheel needs"))
            self.size = int(total)
        self.position = 0
        self.blocks: dict[int, bytes] = {}

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = offset + (0, self.position, self.size)[whence]
        return self.position

    def read(self, size: int = -1) -> bytes:
        end = self.size if size is None or size < 0 else min(self.size, self.position + size)
        parts = []
        while self.position < end:
            number, offset = divmod(self.position, self.BLOCK_BYTES)
            chunk = self._block(number)[offset : offset + end - self.position]
            parts.append(chunk)
            self.position += len(chunk)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self.blocks:
            first = number * self.BLOCK_BYTES
            last = min(self.size, first + self.BLOCK_BYTES) - 1
            for attempt in range(3):
                try:
                    with _open(self.url, {"Range": f"bytes={first}-{last}"}) as answer:
                        self.blocks[number] = answer.read()
                    break
                except urllib.error.URLError:
                    if attempt == 2:
                        raise
                    time.sleep(1 + attempt)
            while len(self.blocks) > 64:
                self.blocks.pop(next(iter(self.blocks)))
        return self.blocks[number]


def _wheel_members(url: str) -> Iterator[tuple[str, str]]:
    with zipfile.ZipFile(_RemoteFile(url)) as archive:
        # In the order they lie in the archive, so that neighbouring files share a request.
        for info in sorted(archive.infolist(), key=lambda i: i.header_offset):
            path = info.filename
            if path.endswith(".dist-info/METADATA"):
                yield "METADATA", archive.read(info).decode("utf-8", "replace")
            elif info.file_size <= MAX_MEMBER_BYTES and wanted(path):
                yield path, archive.read(info).decode("utf-8", "replace")


def local_files(root: Path) -> dict[str, str]:
    """The same from an unpacked release, or from the site-packages folder of an installed one."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and wanted(name) and path.stat().st_size <= MAX_MEMBER_BYTES:
            found[name] = path.read_text("utf-8", "replace")
    return found


def decompress(raw: bytes) -> bytes:
    return gzip.decompress(raw)
