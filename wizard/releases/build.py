"""Build the catalogue's data files: ``python -m wizard.releases.build VERSION...`` (or ``--all``).

A release's files are fetched through the user's own package index and read without importing vLLM (see
``sources``, ``extract``). Each release becomes one JSON file with one option a line, and ``index.json``
says when each flag, architecture, variable and parser name came and went.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wizard.errors import BadInput, WizardError
from wizard.i18n import _

from . import DATA_FOLDER, user_data_folder, version_key
from .extract import UnreadableRelease, read_release
from .sources import fetch_files, project_files, released_versions

FIRST_VERSION = "0.6.3.post1"
_INFERRED = (
    "cuda", "arch_list", "entrypoint", "variants", "cpu", "rocm", "xpu",
    "cpu_entrypoint", "rocm_entrypoint", "xpu_entrypoint",
)  # fmt: skip


def build_release(version: str, file: Mapping[str, Any], cache: Path | None) -> dict[str, Any]:
    """Read one release; raises :class:`WizardError` where its sources are not understood."""
    files = fetch_files(dict(file), cache, progress=lambda text: print(text, file=sys.stderr))
    try:
        data = read_release(files, version)
    except (UnreadableRelease, SyntaxError) as error:
        raise WizardError(_("vLLM {version} could not be read: {problem}").format(version=version, problem=error)) from error
    data["released"] = str(file.get("upload-time") or "")[:10] or None
    return data


def dump_release(data: Mapping[str, Any]) -> str:
    """The text of a data file: compact, one option a line, so that two releases can be compared."""
    lines = []
    for key, value in data.items():
        if key == "options":
            options = ",\n".join("  " + _compact(o) for o in value)
            lines.append(f' "options": [\n{options}\n ]')
        else:
            lines.append(f" {_compact(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fill_images(folder: Path) -> None:
    """Where a release came without a Dockerfile, take the image facts that both neighbours agree on."""
    releases = {p.stem: json.loads(p.read_text("utf-8")) for p in _release_files(folder)}
    order = sorted(releases, key=version_key)
    for position, version in enumerate(order):
        image = releases[version]["image"]
        if image.get("cuda") and not image.get("inferred"):
            continue
        own = [v for v in order if releases[v]["image"].get("cuda") and not releases[v]["image"].get("inferred")]
        before = next((v for v in reversed(order[:position]) if v in own), None)
        after = next((v for v in order[position + 1 :] if v in own), None)
        neighbours = [releases[v]["image"] for v in (before, after) if v]
        if not neighbours:
            continue
        for key in _INFERRED:
            values = [n.get(key) for n in neighbours]
            image[key] = values[0] if all(v == values[0] for v in values) else None
        image["inferred"] = [v for v in (before, after) if v]
        (folder / f"{version}.json").write_text(dump_release(releases[version]), "utf-8")


def _release_files(folder: Path) -> list[Path]:
    return [p for p in folder.glob("*.json") if p.stem[:1].isdigit()]


def build_index(*folders: Path) -> dict[str, Any]:
    """Spans of releases for every spelling, architecture, variable and parser name in the folders."""
    releases = {p.stem: json.loads(p.read_text("utf-8")) for folder in folders for p in _release_files(folder)}
    order = sorted(releases, key=version_key)
    index: dict[str, Any] = {"versions": order, "released": {v: releases[v].get("released") for v in order}}
    flags: dict[str, list[int]] = {}
    architectures: dict[str, list[int]] = {}
    env: dict[str, list[int]] = {}
    parsers: dict[str, dict[str, list[int]]] = {"tool": {}, "reasoning": {}}
    for position, version in enumerate(order):
        data = releases[version]
        for option in data["options"]:
            for flag in option["flags"]:
                flags.setdefault(flag, []).append(position)
        for classes in data["architectures"].values():
            for name in classes:
                architectures.setdefault(name, []).append(position)
        for name in data["env"]:
            env.setdefault(name, []).append(position)
        for kind in ("tool", "reasoning"):
            for name in data[f"{kind}_parsers"]:
                parsers[kind].setdefault(name, []).append(position)
    index["flags"] = _spans(flags)
    index["architectures"] = _spans(architectures)
    index["env"] = _spans(env)
    index["tool_parsers"] = _spans(parsers["tool"])
    index["reasoning_parsers"] = _spans(parsers["reasoning"])
    return index


def _spans(seen: Mapping[str, Iterable[int]]) -> dict[str, list[list[int]]]:
    """Runs of positions: {"--x": [[0, 12], [40, 57]]}."""
    out = {}
    for name in sorted(seen):
        runs: list[list[int]] = []
        for position in sorted(set(seen[name])):
            if runs and runs[-1][1] == position - 1:
                runs[-1][1] = position
            else:
                runs.append([position, position])
        out[name] = runs
    return out


def dump_index(index: Mapping[str, Any]) -> str:
    lines = []
    for key, value in index.items():
        if isinstance(value, dict) and key != "released":
            entries = ",\n".join(f"  {_compact(k)}:{_compact(v)}" for k, v in value.items())
            lines.append(f' "{key}": {{\n{entries}\n }}')
        else:
            lines.append(f" {_compact(key)}: {_compact(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_user_release(data: Mapping[str, Any]) -> Path:
    """Keep a release's data in the user's folder, and an index there that covers the package's releases too."""
    folder = user_data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{data['version']}.json"
        _replace(path, dump_release(data))
        _replace(folder / "index.json", dump_index(build_index(DATA_FOLDER, folder)))
    except OSError as error:
        raise WizardError(_("{folder} cannot be written: {problem}").format(folder=folder, problem=error)) from error
    return path


def _replace(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8")
    part.replace(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m wizard.releases.build", description=_("Build the catalogue's data files."))
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--all", action="store_true", help=_("every release from {first} on").format(first=FIRST_VERSION))
    parser.add_argument("--out", type=Path, default=DATA_FOLDER, help=_("folder of the data files"))
    parser.add_argument("--cache", type=Path, help=_("folder where the read files of each release are kept"))
    chosen = parser.parse_args(arguments)
    try:
        return _build(chosen.versions, chosen.all, chosen.out, chosen.cache)
    except WizardError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _build(versions: list[str], everything: bool, out: Path, cache: Path | None) -> int:
    available = released_versions(project_files())
    if everything:
        versions = [v for v in available if version_key(v) >= version_key(FIRST_VERSION)]
    if not versions:
        raise BadInput(_("Name at least one release, or --all."))
    missing = [v for v in versions if v not in available]
    if missing:
        raise BadInput(_("Not on the package index: {versions}").format(versions=", ".join(missing)))
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for version in sorted(versions, key=version_key):
        try:
            data = build_release(version, available[version], cache)
        except WizardError as error:
            print(error, file=sys.stderr)
            failed += 1
            continue
        (out / f"{version}.json").write_text(dump_release(data), "utf-8")
        print(
            _("{version}: {options} options, {notes} notes").format(
                version=version, options=len(data["options"]), notes=len(data["notes"])
            )
        )
    fill_images(out)
    (out / "index.json").write_text(dump_index(build_index(out)), "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
