"""A server that says it is ready is asked real questions: models, an answer, an image, each adapter, a vector."""

from __future__ import annotations

import base64
import json
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wizard.i18n import _

if TYPE_CHECKING:
    from wizard.launch.target import Target

ANSWER_S = 300.0  # the first request may compile kernels
SHORT_S = 15.0
ANSWER_TOKENS = 16
IMAGE_PIXELS = 64  # a side; some processors refuse much smaller ones
MAX_ANSWER_BYTES = 4 << 20
# Sent to the model, in the language that every model was trained on: not translated.
PROMPT = "Say hello in one short sentence."
IMAGE_PROMPT = "Which colour is this picture?"


@dataclass(frozen=True)
class Check:
    """One question that was asked. ``text`` is the answer's own text, ``fault`` why it failed."""

    name: str  # "models" "answer" "image" "adapter" "embedding" "score" "transcription"
    ok: bool
    seconds: float
    about: str = ""  # the model or adapter that was asked
    text: str = ""
    fault: str = ""


class RequestFailed(Exception):
    """The server refused or did not answer; the text says why."""

    def __init__(self, status: int | None, text: str) -> None:
        super().__init__(text)
        self.status = status


def is_healthy(url: str, timeout_s: float = 3.0) -> bool:
    """Whether ``/health`` of the server at ``url`` answers 200."""
    try:
        _ask(url, "/health", None, None, timeout_s)
    except RequestFailed:
        return False
    return True


def prove(target: Target, api_key: str | None = None, on_check: Callable[[Check], None] = lambda c: None) -> list[Check]:
    """Ask everything that this kind of model should answer; stops early when the models list fails."""
    checks: list[Check] = []

    def run(name: str, about: str, question: Callable[[], str]) -> bool:
        started = time.monotonic()
        try:
            text, fault = question(), ""
        except RequestFailed as error:
            text, fault = "", str(error)
        check = Check(name, not fault, time.monotonic() - started, about, text, fault)
        checks.append(check)
        on_check(check)
        return check.ok

    models: list[str] = []

    def list_models() -> str:
        data = _ask(target.url, "/v1/models", None, api_key, SHORT_S)
        rows = data.get("data") if isinstance(data, dict) else None
        models.extend(str(row["id"]) for row in rows or () if isinstance(row, dict) and "id" in row)
        if not models:
            raise RequestFailed(None, _("the list of models is empty"))
        return ", ".join(models)

    if not run("models", target.name, list_models):
        return checks
    name = target.name if target.name in models else models[0]
    if target.task == "generate":
        run("answer", name, lambda: _text_answer(target.url, name, api_key))
        if target.images:
            run("image", name, lambda: _image_answer(target.url, name, api_key))
        for adapter in target.adapters:
            run("adapter", adapter, lambda adapter=adapter: _adapter_answer(target.url, adapter, models, api_key))  # type: ignore[misc]
    elif target.task == "embed":
        run("embedding", name, lambda: _embedding(target.url, name, api_key))
    elif target.task in ("rerank", "classify"):
        run("score", name, lambda: _score(target.url, name, target.task, api_key))
    elif target.task == "transcribe":
        run("transcription", name, lambda: _transcription(target.url, name, api_key))
    return checks


# -- questions ------------------------------------------------------------------------------------------------


def _text_answer(url: str, model: str, api_key: str | None) -> str:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": ANSWER_TOKENS}
    try:
        return _chat_text(_ask(url, "/v1/chat/completions", body, api_key, ANSWER_S))
    except RequestFailed as error:
        # A base model has no chat template: it completes text instead.
        if error.status not in (400, 404, 405, 500, 501) or ("template" not in str(error).lower() and error.status != 404):
            raise
    body = {"model": model, "prompt": PROMPT, "max_tokens": ANSWER_TOKENS}
    data = _ask(url, "/v1/completions", body, api_key, ANSWER_S)
    return _first_choice(data).get("text") or _no_text(data)


def _adapter_answer(url: str, adapter: str, models: list[str], api_key: str | None) -> str:
    if adapter not in models:
        raise RequestFailed(None, _("the server does not list an adapter of this name"))
    return _text_answer(url, adapter, api_key)


def _image_answer(url: str, model: str, api_key: str | None) -> str:
    picture = "data:image/png;base64," + base64.b64encode(red_png(IMAGE_PIXELS)).decode()
    parts = [{"type": "image_url", "image_url": {"url": picture}}, {"type": "text", "text": IMAGE_PROMPT}]
    body = {"model": model, "messages": [{"role": "user", "content": parts}], "max_tokens": ANSWER_TOKENS}
    return _chat_text(_ask(url, "/v1/chat/completions", body, api_key, ANSWER_S))


def _embedding(url: str, model: str, api_key: str | None) -> str:
    data = _ask(url, "/v1/embeddings", {"model": model, "input": PROMPT}, api_key, ANSWER_S)
    rows = data.get("data") if isinstance(data, dict) else None
    vector = rows[0].get("embedding") if isinstance(rows, list) and rows and isinstance(rows[0], dict) else None
    if not isinstance(vector, list) or not vector:
        raise RequestFailed(None, _("the answer holds no vector"))
    return _("a vector of {count} numbers").format(count=len(vector))


def _score(url: str, model: str, task: str, api_key: str | None) -> str:
    if task == "classify":
        data = _ask(url, "/classify", {"model": model, "input": [PROMPT]}, api_key, ANSWER_S)
    else:
        body = {"model": model, "query": "greeting", "documents": [PROMPT]}
        data = _ask(url, "/v1/rerank", body, api_key, ANSWER_S)
    rows = (data.get("results") or data.get("data")) if isinstance(data, dict) else None
    if not isinstance(rows, list) or not rows:
        raise RequestFailed(None, _("the answer holds no score"))
    return json.dumps(rows[0], ensure_ascii=False)[:200]


def _transcription(url: str, model: str, api_key: str | None) -> str:
    edge = "vllm-wizard-form"
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n'.encode(),
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'.encode(),
        silent_wav(),
        f"\r\n--{edge}--\r\n".encode(),
    ]
    data = _ask(
        url, "/v1/audio/transcriptions", b"".join(parts), api_key, ANSWER_S, f"multipart/form-data; boundary={edge}"
    )
    if not isinstance(data, dict) or not isinstance(data.get("text"), str):
        raise RequestFailed(None, _("the answer holds no text"))
    return data["text"] or _("(nothing was said)")


def red_png(side: int) -> bytes:
    """A red square as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\xff\0\0" * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def silent_wav() -> bytes:
    """One second of silence: 16 kHz, 16 bit, mono."""
    samples = b"\0\0" * 16000
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data", len(samples))
    return head + samples


# -- HTTP -----------------------------------------------------------------------------------------------------


def _ask(
    url: str, path: str, body: Any, api_key: str | None, timeout_s: float, kind: str = "application/json"
) -> Any:
    """The JSON that the server on this machine answers; RequestFailed with its own words when it refuses."""
    import http.client
    import ssl
    import urllib.error
    import urllib.request

    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data)  # noqa: S310 - http or https, made by us
    if data is not None:
        request.add_header("Content-Type", kind)
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    # A proxy of the environment is not asked for this machine's own server.
    # Its certificate names a host, and this is the machine itself.
    unchecked = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())  # noqa: S323
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), unchecked)
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            raw = answer.read(MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        raise RequestFailed(error.code, _refusal(error.code, error.read(20_000))) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise RequestFailed(None, _("no answer: {reason}").format(reason=reason)) from error
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        raise RequestFailed(None, _("the answer is not JSON")) from error


def _refusal(code: int, raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").strip()
    try:
        data = json.loads(text)
        inner = data.get("error", data) if isinstance(data, dict) else data
        text = str(inner.get("message", inner)) if isinstance(inner, dict) else str(inner)
    except ValueError:
        pass
    return _("HTTP {code}: {text}").format(code=code, text=text[:400] or "?")


def _first_choice(data: Any) -> dict[str, Any]:
    rows = data.get("choices") if isinstance(data, dict) else None
    return rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}


def _chat_text(data: Any) -> str:
    message = _first_choice(data).get("message")
    if not isinstance(message, dict):
        raise RequestFailed(None, _("the answer holds no message"))
    # A thinking model may spend all of the few tokens on its reasoning.
    text = message.get("content") or message.get("reasoning_content") or message.get("reasoning")
    return str(text) if text else _no_text(data)


def _no_text(data: Any) -> str:
    usage = data.get("usage") if isinstance(data, dict) else None
    made = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if not made:
        raise RequestFailed(None, _("the answer is empty"))
    return _("({count} tokens that show as nothing)").format(count=made)


# -- lines to copy --------------------------------------------------------------------------------------------


def ready_made(target: Target, model: str, with_key: bool) -> tuple[str, str]:
    """A curl line and a Python program that ask this server, to be copied."""
    key = ' -H "Authorization: Bearer $VLLM_API_KEY"' if with_key else ""
    base = f"{target.url}/v1"
    insecure = " --insecure" if target.scheme == "https" else ""
    if target.task == "generate":
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
        path = "/chat/completions"
        call = f"client.chat.completions.create(model={model!r}, messages=[{{'role': 'user', 'content': {PROMPT!r}}}])"
        shown = "answer.choices[0].message.content"
    elif target.task == "transcribe":
        curl = f"curl -s{insecure} {base}/audio/transcriptions{key} -F model={_quoted(model)} -F file=@speech.wav"
        call, shown = f"client.audio.transcriptions.create(model={model!r}, file=open('speech.wav', 'rb'))", "answer.text"
        return curl, _python(base, with_key, call, shown)
    elif target.task == "embed":
        body, path = {"model": model, "input": PROMPT}, "/embeddings"
        call, shown = f"client.embeddings.create(model={model!r}, input={PROMPT!r})", "len(answer.data[0].embedding)"
    else:
        body = {"model": model, "query": "greeting", "documents": [PROMPT]}
        curl = f"curl -s{insecure} {base}/rerank{key} -H 'Content-Type: application/json' -d {_quoted(json.dumps(body, ensure_ascii=False))}"
        return curl, ""
    curl = f"curl -s{insecure} {base}{path}{key} -H 'Content-Type: application/json' -d {_quoted(json.dumps(body, ensure_ascii=False))}"
    return curl, _python(base, with_key, call, shown)


def _quoted(text: str) -> str:
    from wizard.outputs.quoting import bash_word

    return bash_word(text)


def _python(base: str, with_key: bool, call: str, shown: str) -> str:
    key = "os.environ['VLLM_API_KEY']" if with_key else "'none'"
    first = ["import os"] if with_key else []
    lines = [*first, "from openai import OpenAI", f"client = OpenAI(base_url={base!r}, api_key={key})", f"answer = {call}", f"print({shown})"]
    return "\n".join(lines)
