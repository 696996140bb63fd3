"""What each vLLM release accepts: options, variables, architectures, images and known faults.

Data files are built from the released sources by :mod:`wizard.releases.build`; a user's own folder may hold
newer ones (``vllm-wizard releases update`` and ``probe``). Only what is asked for is read.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from wizard.errors import BadInput
from wizard.i18n import _

from .images import DriverNeed, driver_needed, image_for, image_of, runs_on
from .types import ArgProblem, ImageInfo, KnownFault, Option, ParserRules, Release

DATA_FOLDER = Path(__file__).with_name("data")

_VERSION = re.compile(
    r"v?(?P<numbers>\d+(?:\.\d+)*)(?:[.-]?(?P<pre>a|b|rc)\.?(?P<pre_number>\d+))?"
    r"(?:[.-]?post\.?(?P<post>\d+))?(?:[.-]?dev\.?(?P<dev>\d+))?(?P<rest>[+-].*)?$",
    re.IGNORECASE,
)
_NEWEST = frozenset(("latest", "newest", "stable"))
_MOVING = frozenset(("nightly", "main", "dev", "master"))


def version_key(version: str) -> tuple[Any, ...]:
    """A key that orders versions as PEP 440 does (enough of it for released and nightly vLLM)."""
    found = _VERSION.match(version.strip())
    if not found:
        return ((-1,), 0, 0, 0, version)
    numbers = tuple(int(n) for n in found["numbers"].split("."))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    pre = (0, found["pre"].lower(), int(found["pre_number"])) if found["pre"] else (1, "", 0)
    post = int(found["post"]) if found["post"] else -1
    dev = int(found["dev"]) if found["dev"] else sys.maxsize
    if found["dev"] and not found["pre"] and post < 0:
        pre = (-1, "", 0)  # 0.33.1.dev5 comes before 0.33.1rc1
    return (numbers, pre, post, dev)


def user_data_folder() -> Path:
    """Where ``releases update`` and ``probe`` write; VLLM_WIZARD_DATA_DIR moves it."""
    chosen = os.environ.get("VLLM_WIZARD_DATA_DIR")
    if chosen:
        return Path(chosen) / "releases"
    import platformdirs

    return Path(platformdirs.user_data_dir("vllm-wizard", appauthor=False)) / "releases"


@lru_cache(maxsize=1)
def _user_files() -> dict[str, Path]:
    folder = user_data_folder()
    try:
        return {p.stem: p for p in folder.glob("*.json") if p.stem[:1].isdigit()}
    except OSError:
        return {}


@lru_cache(maxsize=1)
def _index() -> dict[str, Any]:
    packaged = _read_json(DATA_FOLDER / "index.json")
    own = user_data_folder() / "index.json"
    if _user_files() and own.exists():
        try:
            candidate = _read_json(own)
        except (OSError, ValueError):
            return packaged
        # The user's index covers ours too unless the package has become newer since it was written.
        if set(packaged["versions"]) <= set(candidate.get("versions", ())):
            return candidate
    return packaged


def _read_json(path: Path) -> dict[str, Any]:
    data = json.loads(path.read_text("utf-8"))
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not an object")
    return data


def forget_cached() -> None:
    """Read the data files again on next use (after an update)."""
    for cached in (_user_files, _index, versions, load):
        cached.cache_clear()


@lru_cache(maxsize=1)
def versions() -> tuple[str, ...]:
    """Every release that is known, oldest first."""
    # The files' names say it: the index, which is large, is not read for this.
    names = {p.stem for p in DATA_FOLDER.glob("*.json") if p.stem[:1].isdigit()} | set(_user_files())
    return tuple(sorted(names, key=version_key))


def newest() -> str:
    """The newest proper release that is known."""
    return next((v for v in reversed(versions()) if _is_release(v)), versions()[-1])


def _is_release(version: str) -> bool:
    found = _VERSION.match(version)
    return bool(found and not found["pre"] and not found["dev"] and not found["rest"])


def resolve(asked: str) -> tuple[str, bool]:
    """(the known release that stands for what was asked, whether it is that very release).

    Takes "0.33.0", "v0.33", image tags ("v0.24.0-cu129", "nightly-<commit>"), "latest". What is not known is
    the nearest older release. Raises :class:`BadInput` for text that names no version.
    """
    text = asked.strip()
    lowered = text.lower()
    if lowered in _NEWEST or re.match(r"latest-", lowered):
        return newest(), True
    if lowered in _MOVING or re.match(r"(nightly|main|dev)[-_]", lowered):
        return newest(), False
    known = versions()
    if text in known:
        return text, True
    found = _VERSION.match(text)
    if not found:
        raise BadInput(
            _("{asked!r} is no vLLM release: say it as 0.33.0, or latest. Known: {first} to {last}.").format(
                asked=asked, first=known[0], last=known[-1]
            )
        )
    plain = text.lower().lstrip("v")
    rest = found["rest"] or ""
    if rest:
        plain = plain[: -len(rest)]
    if plain in known:
        return plain, True
    wanted = version_key(plain)
    exact = [v for v in known if version_key(v) == wanted]
    if exact:
        return exact[-1], True
    if re.fullmatch(r"\d+(\.\d+)?", plain):  # "0.10": the newest release of that series
        series = [v for v in known if v.startswith(plain + ".") and _is_release(v)]
        if series:
            return series[-1], True
    older = [v for v in known if version_key(v) <= wanted and _is_release(v)]
    return (older[-1] if older else known[0]), False


def stand_in(release: Release) -> str:
    """A release that stands for one that is not known, as words: "0.33.0, the nearest older release"."""
    from wizard.i18n import _

    asked = str(release.asked or "").strip()
    older = _VERSION.match(asked) is not None and version_key(asked) < version_key(versions()[0])
    words = _("{version}, the oldest known release") if older else _("{version}, the nearest older release")
    return words.format(version=release.version)


@lru_cache(maxsize=16)
def load(version: str = "latest") -> Release:
    """The release; an unknown one gives the nearest older one's data with ``exact`` False and ``asked`` set."""
    name, exact = resolve(version)
    path = _user_files().get(name, DATA_FOLDER / f"{name}.json")
    packaged = DATA_FOLDER / f"{name}.json"
    if packaged.exists():
        path = packaged
    data = _read_json(path)
    asked = None if exact else version.strip()
    return _release(data, exact, asked)


def _release(data: Mapping[str, Any], exact: bool, asked: str | None) -> Release:
    kinds = tuple((kind, frozenset(names)) for kind, names in data["architectures"].items())
    rules = {k: v for k, v in data.get("parser", {}).items() if k in ParserRules.__dataclass_fields__}
    rules_record = ParserRules(**rules)
    release = Release(
        version=data["version"],
        options=tuple(_option(o, rules_record) for o in data["options"]),
        env=frozenset(data["env"]),
        architectures=frozenset().union(*(names for _kind, names in kinds)),
        quantization=tuple(data["quantization"]),
        kv_cache_dtypes=tuple(data["kv_cache_dtypes"]),
        tool_parsers=tuple(data["tool_parsers"]),
        reasoning_parsers=tuple(data["reasoning_parsers"]),
        torch=data.get("torch"),
        requires_python=data.get("requires_python"),
        image=_image(data),
        transformers=data.get("transformers"),
        released=data.get("released"),
        exact=exact,
        asked=asked,
        notes=tuple(data.get("notes", ())),
        parser=rules_record,
        architecture_kinds=kinds,
        image_facts=data.get("image") or {},
    )
    return release


def _image(data: Mapping[str, Any]) -> ImageInfo:
    from .images import cuda_image

    return cuda_image(data["version"], data.get("image") or {})


_JSON_TYPES = frozenset(("json", "dataclass", "json_or_str", "json_or_key_values", "json_or_level"))


def _option(data: Mapping[str, Any], rules: ParserRules) -> Option:
    choices = data.get("choices")
    return Option(
        flags=tuple(data["flags"]),
        dest=data["dest"],
        kind=data["kind"],
        choices=None if choices is None else tuple("None" if c is None else str(c) for c in choices),
        default=data.get("default"),
        deprecated=data.get("deprecated", False),
        nargs=data.get("nargs"),
        computed_choices=data.get("computed", False),
        dotted=rules.dotted and data.get("type") in _JSON_TYPES,
        also_auto=data.get("auto", False),
        value_type=data.get("type", "str"),
        optional=data.get("optional", False),
        action=data.get("action"),
        keys=tuple(data.get("keys", ())),
        closed=data.get("closed", False),
        key_types=data.get("keys", {}),
        none_choice=choices is not None and None in choices,
        known_values=tuple(data.get("known", ())),
        default_computed=data.get("default_computed", False),
        start_values=tuple(data.get("takes", ())),
        start_others=data.get("others", ""),
        limits={k: v for k, v in data.get("limits", {}).items() if k != "with"},
        limits_with=data.get("limits", {}).get("with", ""),
    )


# --- across releases -----------------------------------------------------------------------------------------


def spans(kind: str, name: str) -> list[tuple[str, str]]:
    """Runs of releases (first, last) that have a thing; ``kind``: flags, architectures, env, tool_parsers ..."""
    index = _index()
    order = index["versions"]
    return [(order[a], order[b]) for a, b in index[kind].get(name, ())]


def _long(flag: str) -> str:
    name = flag.split("=", 1)[0]
    head, dot, _tail = name.partition(".")
    name = head if dot and head.startswith("--") else name
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def flag_spans(flag: str) -> list[tuple[str, str]]:
    """Runs of releases that take this spelling ("_" is read as "-", dotted keys are cut off)."""
    return spans("flags", _long(flag))


def first_with_flag(flag: str) -> str | None:
    """The first release that takes this spelling; None: no known one does."""
    found = flag_spans(flag)
    return found[0][0] if found else None


def last_with_flag(flag: str) -> str | None:
    """The last release that takes this spelling; None: no known one does."""
    found = flag_spans(flag)
    return found[-1][1] if found else None


def first_with_architecture(architecture: str) -> str | None:
    """The first release whose registry has that model class; None: no known one has."""
    found = spans("architectures", architecture)
    return found[0][0] if found else None


def supports_architecture(version: str, architecture: str) -> bool:
    return architecture in load(version).architectures


def next_version(version: str) -> str | None:
    """The release after ``version``, or None for the newest."""
    known = versions()
    return known[known.index(version) + 1] if version in known[:-1] else None


from .faults import known_faults  # noqa: E402
from .parse import check_argv, find_option  # noqa: E402

__all__ = [
    "ArgProblem", "DriverNeed", "ImageInfo", "KnownFault", "Option", "Release", "check_argv", "driver_needed",
    "find_option", "first_with_architecture", "first_with_flag", "flag_spans", "image_for", "image_of",
    "known_faults", "last_with_flag", "load", "newest", "next_version", "resolve", "runs_on", "spans", "stand_in", "supports_architecture",
    "user_data_folder", "version_key", "versions",
]  # fmt: skip
