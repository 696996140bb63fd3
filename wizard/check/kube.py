"""vLLM containers of Kubernetes manifests: their command, and the faults that stop a start there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _, sentences
from wizard.releases.types import ArgProblem

from .extract import Command, from_text, is_shell_script, no_command, strip_entrypoint
from .judge import SECRET_NAME, SECRET_VALUE, Verdict
from .lexer import Word

START_S = 600  # a load from a network disk, or a first download, takes this long


def load_all(text: str, name: str) -> list[Any]:
    """Every document of the file, comments kept."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    try:
        return list(yaml.load_all(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise BadInput(_("{name}, line {line}: {problem}").format(name=name, line=line, problem=error.problem or error.context)) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise BadInput(_("{name}: not readable as YAML: {problem}").format(name=name, problem=str(error)[:200])) from None


def containers(node: Any, depth: int = 0) -> Iterator[Any]:
    """Containers anywhere in a manifest that run vLLM."""
    if depth > 40:
        return
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "containers" and isinstance(value, list):
                yield from (c for c in value if isinstance(c, Mapping) and _runs_vllm(c) and not _serves_nothing(c))
            else:
                yield from containers(value, depth + 1)
    elif isinstance(node, list):
        for value in node:
            yield from containers(value, depth + 1)


def _runs_vllm(container: Mapping[str, Any]) -> bool:
    return "vllm" in " ".join(str(container.get(k, "")) for k in ("image", "command", "args")).lower()


def idle_containers(node: Any) -> list[str]:
    """Names of the containers that are vLLM's by their image, and whose script starts no server."""
    held = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    found: list[str] = []
    for key, value in held:
        if key == "containers" and isinstance(value, list):
            found += [str(c.get("name", "?")) for c in value if isinstance(c, Mapping) and _runs_vllm(c) and _serves_nothing(c)]
        else:
            found += idle_containers(value)
    return found


def _serves_nothing(container: Mapping[str, Any]) -> bool:
    texts = [str(part) for key in ("command", "args") for part in _list(container, key)]
    return is_shell_script(texts) and not from_text(texts[2], script=False)


def _list(container: Mapping[str, Any], key: str) -> list[Any]:
    """``command`` or ``args``; BadInput for what is no list."""
    value = container.get(key)
    if value is not None and not isinstance(value, list):
        raise BadInput(sentences(no_command(f"containers.{container.get('name', '?')}.{key}"), _("A list is needed there.")))
    return value or []


def command_of(container: Mapping[str, Any]) -> Command:
    """The container's command, its variables and its faults."""
    words: list[Word] = []
    for key in ("command", "args"):
        for part in _list(container, key):
            text = str(part)
            words.append(Word(text, text, 0, 0, dynamic="$(" in text))
    env = {
        str(e.get("name")): str(e["value"]) if "value" in e else f"${{{e.get('name')}}}"
        for e in container.get("env") or []
        if isinstance(e, Mapping)
    }
    command = Command("kubernetes", words, "image", image=str(container.get("image") or "") or None, env=env)
    command.facts["container"] = container
    texts = [w.text for w in words]
    limits = (container.get("resources") or {}).get("limits") or {}
    count = str(limits.get("nvidia.com/gpu") or "")
    command.facts["gpu_count"] = int(count) if count.isdigit() else None
    if len(texts) >= 3 and texts[0].rsplit("/", 1)[-1] in ("sh", "bash") and texts[1].startswith("-"):
        inner = from_text(texts[2], script=False)
        if inner:
            command.words, command.entry = inner[0].words, inner[0].entry
            command.facts["shell"] = True
    else:
        strip_entrypoint(command, own_entrypoint=bool(container.get("command")))
    command.problems = list(_faults(container, limits))
    return command


def _faults(container: Mapping[str, Any], limits: Mapping[str, Any]) -> Iterator[ArgProblem]:
    at = f"containers.{container.get('name', '?')}"
    if not any("gpu" in str(k) for k in limits) and "cpu" not in str(container.get("image")):
        yield ArgProblem(f"{at}.resources", "conflict", _("no GPU is asked for: the pod sees none"), replacement="nvidia.com/gpu: 1", accepted=True, doubtful=True)
    probe = container.get("livenessProbe")
    if isinstance(probe, Mapping) and not isinstance(container.get("startupProbe"), Mapping):
        patience = _patience(probe)
        if patience < START_S:
            yield ArgProblem(
                f"{at}.livenessProbe", "conflict",
                _("a server that is still loading is stopped after {seconds:.0f} s: give it a startupProbe").format(seconds=patience), accepted=True,
            )  # fmt: skip
    for entry in container.get("env") or []:
        if isinstance(entry, Mapping) and SECRET_NAME.search(str(entry.get("name"))) and SECRET_VALUE.match(str(entry.get("value", ""))):
            yield ArgProblem(f"{at}.env.{entry['name']}", "conflict", _("a secret stands in the open: take it from a Secret with valueFrom"), accepted=True)


def _patience(probe: Mapping[str, Any]) -> float:
    def number(key: str, default: float) -> float:
        value = probe.get(key, default)
        return float(value) if isinstance(value, (int, float)) else default

    return number("initialDelaySeconds", 0) + number("periodSeconds", 10) * number("failureThreshold", 3)


def rewrite(verdict: Verdict) -> None:
    """Put the repaired arguments and variables into the container."""
    container = verdict.command.facts["container"]
    if verdict.command.facts.get("shell") or not verdict.changed:
        return
    argv = list(verdict.argv)
    if verdict.command.entry == "image":
        if verdict.release.image.serves_with_model_flag and verdict.model is not None and argv[:1] == [verdict.model]:
            argv = ["--model", *argv]
        container["args"] = argv
    elif container.get("command"):
        container["command"] = ["vllm", "serve"]
        container["args"] = argv
    if verdict.env_removed:
        container["env"] = [e for e in container["env"] if e.get("name") not in verdict.env_removed]
    names = {e.get("name") for e in container.get("env") or []}
    for name, value in verdict.env.items():
        if name not in names:
            container.setdefault("env", []).append({"name": name, "value": value})


def dump_all(documents: list[Any], text: str) -> str:
    """The documents as one file again."""
    from .rewrite import dump_yaml

    return "---\n".join(dump_yaml(d, text) for d in documents)
