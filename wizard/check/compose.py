"""vLLM services of a compose file: their command as an argument list, and the faults of the file around it."""

from __future__ import annotations

import dataclasses
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard.errors import BadInput
from wizard.i18n import _, sentences
from wizard.releases.types import ArgProblem

from . import container, history
from .extract import Command, from_text, is_shell_script, no_command, strip_entrypoint
from .judge import SECRET_NAME, SECRET_VALUE
from .lexer import Word, lex

if TYPE_CHECKING:
    from wizard.facts import Machine

_VLLM = re.compile(r"vllm", re.I)
_MAX_DEPTH = 40
_DURATION = re.compile(r"^(\d+(\.\d+)?(us|ms|s|m|h))+$")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
START_PERIOD_S = 600  # a first download and a load from a slow disk take this long


def load_yaml(text: str, name: str) -> Any:
    """The file as ruamel keeps it (comments, order, anchors); BadInput with the line for what is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.allow_duplicate_keys = False
    try:
        data = yaml.load(text)
        _measure(data, 0, [0])
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise BadInput(_("{name}, line {line}: {problem}").format(name=name, line=line, problem=error.problem or error.context)) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadInput(_("{name}: not readable as YAML: {problem}").format(name=name, problem=str(error)[:200])) from None
    return data


def _measure(node: Any, depth: int, count: list[int]) -> None:
    """Stop at files that unfold without end: nesting, or anchors in anchors."""
    count[0] += 1
    if depth > _MAX_DEPTH or count[0] > 200_000:
        raise ValueError(_("too deeply nested, or too many anchors in anchors"))
    if isinstance(node, Mapping):
        for value in node.values():
            _measure(value, depth + 1, count)
    elif isinstance(node, list):
        for value in node:
            _measure(value, depth + 1, count)


def commands_of(data: Any, text: str, name: str) -> list[Command]:
    """One command for every service that runs vLLM."""
    services = data.get("services") if isinstance(data, Mapping) else None
    if not isinstance(services, Mapping):
        raise BadInput(_("{name}: services is no mapping of names to services.").format(name=name))
    found = []
    for key, service in services.items():
        if isinstance(service, Mapping) and _runs_vllm(service):
            for part in ("command", "entrypoint"):
                if isinstance(service.get(part), Mapping):
                    at = f"{name}: services.{key}.{part}"
                    raise BadInput(sentences(no_command(at), _("A list or a text is needed there.")))
            if not _serves_nothing(service):
                found.append(_command(str(key), service, text))
    return found


def idle_services(data: Any) -> list[str]:
    """The services that are vLLM's by their image, and whose script starts no server: the other nodes of a Ray cluster."""
    services = data.get("services") if isinstance(data, Mapping) else None
    rows = services.items() if isinstance(services, Mapping) else ()
    return [str(k) for k, s in rows if isinstance(s, Mapping) and _runs_vllm(s) and _serves_nothing(s)]


def _serves_nothing(service: Mapping[str, Any]) -> bool:
    """Whether a shell script is run in which no vLLM command stands."""
    texts = [w.text for w in _words(service.get("entrypoint")) + _words(service.get("command"))]
    return is_shell_script(texts) and not from_text(texts[2], script=False) and "vllm serve" not in " ".join(texts[3:])


def _runs_vllm(service: Mapping[str, Any]) -> bool:
    words = " ".join(str(service.get(k, "")) for k in ("image", "command", "entrypoint"))
    if _VLLM.search(words):
        return True
    build = service.get("build")
    return build is not None and any(str(k).startswith("VLLM_") for k in environment_of(service))


def environment_of(service: Mapping[str, Any]) -> dict[str, str]:
    """``environment`` in either form, values as text; a name without a value is taken from the shell."""
    held = service.get("environment")
    if isinstance(held, Mapping):
        return {str(k): "" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for k, v in held.items()}
    if isinstance(held, list):
        pairs = (str(item).partition("=") for item in held)
        return {key: value if equals else f"${{{key}}}" for key, equals, value in pairs}
    return {}


def interpolate(value: str) -> str:
    """A value with ${NAME:-default} replaced by its default, as far as one stands there; $$ is a $."""
    value = re.sub(r"\$\{\w+:?-([^}]*)\}", r"\1", value)
    return value.replace("$$", "$")


def _command(key: str, service: Mapping[str, Any], text: str) -> Command:
    raw = service.get("command")
    entry = service.get("entrypoint")
    words = _words(raw)
    image = interpolate(str(service["image"])) if service.get("image") else None
    command = Command("compose", [], "image", image=image, env=environment_of(service))
    command.facts["service"] = key
    command.facts["gpu_count"] = gpu_count(service)
    command.facts["ports"] = [interpolate(p) for p in _ports(service)]
    command.facts["mounts"] = [(interpolate(a), interpolate(b)) for a, b in container.mounts_of_service(service)]
    if entry is not None:
        joined = _words(entry) + words
        texts = [w.text for w in joined]
        command.facts["entrypoint"] = True
        if is_shell_script(texts):
            inner = from_text(texts[2], script=False)
            if inner:
                inner[0].kind, inner[0].image, inner[0].env = "compose", image, {**command.env, **inner[0].env}
                inner[0].facts.update(command.facts)
                inner[0].facts["shell"] = True
                return inner[0]
        command.words = joined
        strip_entrypoint(command, own_entrypoint=True)
        return command
    command.words = words
    command.source = str(raw).replace("\n", " ") if isinstance(raw, str) else ""
    first = [w.text for w in words[:3]]
    if first[:1] and first[0].rsplit("/", 1)[-1] in ("bash", "sh"):
        return command
    return strip_entrypoint(command)


def _ports(service: Mapping[str, Any]) -> Iterator[str]:
    """What a service publishes, in the short form: [address:]port:inside."""
    held = service.get("ports")
    for entry in held if isinstance(held, list) else []:
        if isinstance(entry, Mapping):
            parts = (entry.get("host_ip"), entry.get("published"), entry.get("target"))
            yield ":".join(str(p) for p in parts if p is not None)
        else:
            yield str(entry)


def _words(value: Any) -> list[Word]:
    """A command or entrypoint as words: list form as it stands, string form split as Compose splits it."""
    if value is None:
        return []
    if isinstance(value, list):
        parts = ["" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in value]
    else:
        return _split_text(str(value))
    words = []
    position = 0
    for part in parts:
        plain = interpolate(part)
        words.append(Word(plain, part, position, position + len(part), dynamic="$" in plain))
        position += len(part) + 1
    return words


def _split_text(raw: str) -> list[Word]:
    """A command that is one text, as Compose splits it; a # and what follows it up to the next option is left out."""
    text = re.sub(r"(?:(?<=\s)|^)#.*?(?=\s--?[A-Za-z]|\Z)", lambda m: " " * len(m.group()), raw.replace("\n", " "), flags=re.S)
    words: list[Word] = []
    position = 0
    while position < len(text):
        found = lex(text, position, script=True)
        for word in found.words:
            plain = interpolate(word.text)
            words.append(dataclasses.replace(word, text=plain, dynamic="$" in plain))
        position = max(found.end, position) + 1
    return words


def gpu_count(service: Mapping[str, Any]) -> int | None:
    """How many GPUs the service reserves; None: all, or not said."""
    for device in _devices(service):
        if isinstance(device.get("device_ids"), list):
            return len(device["device_ids"])
        count = device.get("count")
        if isinstance(count, int) and not isinstance(count, bool):
            return count
        if isinstance(count, str) and count.isdigit():
            return int(count)
    return None


def _devices(service: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    node: Any = service
    for key in ("deploy", "resources", "reservations", "devices"):
        node = node.get(key) if isinstance(node, Mapping) else None
    return [d for d in node if isinstance(d, Mapping)] if isinstance(node, list) else []


# --- faults ----------------------------------------------------------------------------------------------------


def faults(data: Any, text: str, command: Command, machine: Machine | None = None) -> list[ArgProblem]:
    """What is wrong around the command of one service, each named by the key it stands at."""
    key = command.facts["service"]
    service = data["services"][key]
    found: list[ArgProblem] = []
    for check in (_of_file, _gpu, _memory, _lifetime, _environment, _image, _command_text, _tokens):
        found += check(data, service, key, text, command)
    if machine is not None:
        found += _size(command, machine)
    return found


def _fault(
    at: str, kind: str, message: str, replacement: str | None = None, accepted: bool = True, stops: bool = False
) -> ArgProblem:
    return ArgProblem(at, kind, message, replacement=replacement, accepted=accepted, stops=stops)


def _of_file(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    if "version" in data:
        yield _fault("version", "deprecated", _("the version key is obsolete: Compose only warns about it"))
    for other, block in data["services"].items():
        waits = block.get("depends_on") if isinstance(block, Mapping) else None
        if isinstance(waits, Mapping) and isinstance(waits.get(key), Mapping) and waits[key].get("condition") == "service_healthy":
            period = _start_period(service)
            if period is not None and period < START_PERIOD_S:
                yield _fault(
                    f"services.{other}.depends_on", "conflict",
                    _("{other} waits until {key} is healthy, but {key} is given {seconds:.0f} s to start: a first download makes the whole stack fail").format(other=other, key=key, seconds=period),
                )  # fmt: skip


def _start_period(service: Mapping[str, Any]) -> float | None:
    health = service.get("healthcheck")
    if not isinstance(health, Mapping) or health.get("disable"):
        return None
    period = _seconds(health.get("start_period", "0s")) or 0.0
    interval = _seconds(health.get("interval", "30s")) or 30.0
    retries = health.get("retries", 3)
    return float(period + interval * (retries if isinstance(retries, int) else 3))


def _seconds(value: Any) -> float | None:
    text = str(value)
    if not _DURATION.match(text):
        return None
    return sum(float(n) * _SECONDS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)", text))


def _gpu(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    at = f"services.{key}"
    devices = _devices(service)
    gpus, runtime = service.get("gpus"), service.get("runtime")
    mapped = service.get("devices")
    if not devices and gpus is None and runtime != "nvidia" and container.wants_nvidia(command.image) and not mapped:
        yield container.no_gpu(f"{at}.deploy", "deploy.resources.reservations.devices: [{driver: nvidia, count: all, capabilities: [gpu]}]")
    if gpus == "all":
        yield _fault(f"{at}.gpus", "conflict", _("gpus: all needs Compose 2.30 or newer; the reservation under deploy works everywhere"))
    elif gpus is not None and not isinstance(gpus, list):
        yield _fault(f"{at}.gpus", "bad_value", _("gpus takes all or a list of devices, not {value!r}").format(value=str(gpus)), accepted=False)
    if runtime == "nvidia" and devices:
        yield _fault(f"{at}.runtime", "conflict", _("runtime: nvidia and the reservation under deploy both ask for the GPU: one is enough"))
    for device in devices:
        where = f"{at}.deploy.resources.reservations.devices"
        capabilities = device.get("capabilities")
        if not isinstance(capabilities, list) or not any("gpu" in str(c) for c in capabilities):
            yield _fault(where, "bad_value", _("capabilities: [gpu] is missing: Compose refuses the reservation"), "capabilities: [gpu]", accepted=False)
        if "count" in device and "device_ids" in device:
            yield _fault(where, "bad_value", _("count and device_ids cannot both stand there"), accepted=False)


def _memory(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    at = f"services.{key}"
    if container.is_cpu(command.image):
        return
    shm, ipc = service.get("shm_size"), service.get("ipc")
    binds = [str(v) for v in service.get("volumes") or [] if not isinstance(v, Mapping)]
    bound = any(re.search(r"(^|:)/dev/shm(:|$)", v) for v in binds)
    if ipc == "host" and shm is not None:
        yield _fault(f"{at}.shm_size", "conflict", _("shm_size is ignored with ipc: host"))
    if ipc == "host" and bound:
        yield _fault(f"{at}.volumes", "conflict", _("/dev/shm is the host's already with ipc: host; the bind mount is not needed"))  # noqa: S108
    if ipc != "host" and shm is None and not bound:
        yield container.little_shared_memory(f"{at}.ipc", "ipc: host", "shm_size")


def _lifetime(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    at = f"services.{key}"
    if service.get("restart") in ("always", True):
        yield _fault(f"{at}.restart", "conflict", _("restart: always starts a failing server again and again without end; this gives up after three times"), "restart: on-failure:3")
    health = service.get("healthcheck")
    if isinstance(health, Mapping):
        for name in ("interval", "timeout", "start_period", "start_interval"):
            if name in health and _seconds(health[name]) is None:
                yield _fault(f"{at}.healthcheck.{name}", "bad_value", _("{value!r} is no duration: it needs a unit, as in 30s").format(value=str(health[name])), f"{health[name]}s", accepted=False)
        period = _start_period(service)
        if period is not None and period < START_PERIOD_S and not health.get("disable"):
            yield _fault(
                f"{at}.healthcheck.start_period", "conflict",
                _("{seconds:.0f} s until the server counts as unhealthy: loading, and a first download, take longer").format(seconds=period), "start_period: 30m",
            )  # fmt: skip
    grace = service.get("stop_grace_period")
    if grace is not None and _seconds(grace) is None:
        yield _fault(f"{at}.stop_grace_period", "bad_value", _("{value!r} is no duration: it needs a unit, as in 60s").format(value=str(grace)), accepted=False)


def _environment(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    at = f"services.{key}.environment"
    for name, value in environment_of(service).items():
        if re.search(r"(?<!\$)\$(?![\w${])", value):
            yield _fault(f"{at}.{name}", "bad_quoting", _("a single $ is Compose's own: write $$"))
    folder = command.facts.get("folder")
    for path in _env_files(service):
        if folder is None or "$" in path or not (Path(folder) / path).expanduser().exists():
            yield _fault(f"services.{key}.env_file", "ok", _("the start fails when {file} is not there").format(file=path))


def _env_files(service: Mapping[str, Any]) -> Iterator[str]:
    """The environment files that a service cannot start without."""
    held = service.get("env_file")
    for entry in held if isinstance(held, list) else [held] if held else []:
        path = entry.get("path") if isinstance(entry, Mapping) and entry.get("required", True) else entry
        if isinstance(path, str):
            yield interpolate(path)


def _image(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    image = command.image
    if image is None:
        return
    at = f"services.{key}.image"
    tag = command.tag or ""
    if re.search(r"aarch64|arm64", image, re.I) and "platform" not in service:
        yield _fault(at, "conflict", _("{image} is an image for ARM: on an x86 machine it ends in \"exec format error\"").format(image=image))
    if re.match(r"(nightly|main|dev)", tag):
        yield _fault(at, "conflict", _("{tag} is another build every day: name a release").format(tag=tag))
    elif tag.startswith("latest") or not tag:
        yield _fault(at, "ok", _("latest changes with every release: naming one keeps the options valid"))


def _command_text(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    """What YAML or Compose does to the text of the command."""
    at = f"services.{key}.command"
    raw = service.get("command")
    if isinstance(raw, list):
        for item in raw:
            if not isinstance(item, str):
                yield _fault(at, "bad_value", _("{value!r} is no string: Compose wants every item of a list in quotes").format(value=item), f'"{str(item).lower()}"', accepted=False)
            elif " " in item and re.match(r"--?[A-Za-z][\w.-]* ", item):
                flag, _space, value = item.partition(" ")
                yield _fault(at, "bad_quoting", _("{item!r} is one argument with a blank in it: option and value are two items").format(item=item), f'"{flag}", "{value.strip()}"', accepted=False)
    elif isinstance(raw, str):
        if re.search(r"(^|\s)#", raw):
            yield _fault(at, "bad_quoting", _("a # inside a folded text starts no comment: its words become arguments"), accepted=False)
        if re.search(r"[{,]\s*\"", raw) and not re.search(r"'[^']*\"[^']*'", raw):
            yield _fault(at, "bad_quoting", _("JSON loses its quotes in a command that is one text: write the command as a list"), accepted=False)
        try:
            shlex.split(raw)
        except ValueError:
            yield _fault(at, "bad_quoting", _("a quote is opened and not closed"), accepted=False)
    items = raw if isinstance(raw, list) else [raw] if raw else []
    for item in items:
        for name in re.findall(r"(?<!\$)\$(?!\$|\{)(\w+)", str(item)):
            yield _fault(at, "bad_quoting", _("${name} is replaced by Compose itself, by nothing where it is not set: write $${name} to leave it to the container").format(name=name))


def _tokens(data: Any, service: Any, key: str, text: str, command: Command) -> Iterator[ArgProblem]:
    """Secrets in the open, and gated models without a token."""
    env = environment_of(service)
    for name, value in env.items():
        if SECRET_NAME.search(name) and (SECRET_VALUE.match(value) or (len(value) > 7 and "$" not in value)):
            yield _fault(f"services.{key}.environment.{name}", "conflict", _("a secret stands in the open; keep it in an environment file that only you can read (mode 600)"), f"${{{name}}}")
    model = _model(command)
    if model is None or not history.is_gated(model):
        return
    names = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HF_HUB_TOKEN")
    held = [env[n] for n in names if n in env]
    empty = bool(held) and all(interpolate(v) == "" for v in held)
    files = service.get("env_file") or service.get("secrets")
    if (not held and not files) or empty:
        commented = re.search(r"^\s*#.*(HF_TOKEN|HUGGING_?FACE\w*TOKEN)", text, re.M)
        message = (
            _("{model} needs a Hugging Face token, and its line is a comment: the download ends with error 401")
            if commented
            else _("{model} needs a Hugging Face token, and it may be empty here: the download then ends with error 401")
            if empty
            else _("{model} needs a Hugging Face token, and none is set: the download ends with error 401")
        )
        yield _fault(f"services.{key}.environment.HF_TOKEN", "conflict", message.format(model=model), "HF_TOKEN: ${HF_TOKEN:?}")


def _model(command: Command) -> str | None:
    texts = command.argv
    for position, text in enumerate(texts):
        if text == "--model" and position + 1 < len(texts):
            return texts[position + 1]
        if text.startswith("--model="):
            return text.partition("=")[2]
    if texts and not texts[0].startswith("-"):
        return texts[0]
    return command.env.get("VLLM_MODEL") or command.env.get("MODEL") or None


def _size(command: Command, machine: Machine) -> list[ArgProblem]:
    """Weights that cannot lie on this machine's GPUs, reckoned from the model's name alone."""
    model = _model(command)
    sizes = [g.vram_total_bytes.value for g in machine.gpu.gpus if g.vram_total_bytes.value]
    billions = re.search(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)[bB](?![a-z])", model or "")
    if model is None or not sizes or billions is None:
        return []
    bytes_each = 2.0
    if re.search(r"fp8|int8|w8a8|8bit", model, re.I):
        bytes_each = 1.0
    elif re.search(r"awq|gptq|int4|4bit|w4a16|nvfp4|mxfp4|gpt-oss", model, re.I):
        bytes_each = 0.56
    weights = float(billions[1]) * 1e9 * bytes_each
    total = sum(sizes)
    if weights <= total * 0.97:
        return []
    return [
        _fault(
            "model", "conflict",
            _("{model}: about {weights:.0f} GiB of weights do not fit into {total:.0f} GiB of GPU memory").format(
                model=model, weights=weights / (1 << 30), total=math.floor(total / (1 << 30))
            ),
            stops=True,
        )
    ]  # fmt: skip
