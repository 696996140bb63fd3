"""Where a moved model comes to lie: one rule for the plan, which only knows names, and for the mover."""

from __future__ import annotations

import posixpath

from wizard.models.move_scan import split_gguf_stem
from wizard.program import words_on


def own_name(root: str) -> str:
    """The name that a model keeps in a folder of models; the parts of a split GGUF share one folder."""
    base = posixpath.basename(root.rstrip("/"))
    return split_gguf_stem(base) or base


def place_in(root: str, wanted: str, home: str) -> str:
    """The place for the model at ``root`` when the user answers ``wanted``; both absolute.

    ``wanted`` is the model's new path itself. It is a folder to put the model into, under its own name, when it
    ends with a slash, when it is one of the folders that hold models (the home, ``~/models``, a cache's
    ``hub``) or lies above the home, and when a single GGUF file would have to become a folder.
    """
    path = posixpath.normpath(wanted)
    name = own_name(root)
    if posixpath.basename(path) == name:
        return path
    home = home.rstrip("/") or "/"
    holds_models = (
        wanted.endswith(("/", "\\"))
        or path in (home, f"{home}/models")
        or (home + "/").startswith(path.rstrip("/") + "/")
        or posixpath.basename(path) == "hub"
        or (name.lower().endswith(".gguf") and not path.lower().endswith(".gguf"))
    )
    return posixpath.join(path, name) if holds_models else path


def move_words(source: str, destination: str, machine_name: str) -> list[str]:
    """The command that moves ``source`` to exactly ``destination`` on that machine."""
    exact = [] if posixpath.basename(destination) == own_name(source) else ["--exact"]
    return [*words_on(machine_name), "move", *exact, source, destination]


# (bytes a second, seconds more for each small file) of what a model is copied from. From a Windows drive public reports
# give 60 to 250 MB/s.
_RATES: dict[str, tuple[float, float]] = {
    "windows-drive": (150e6, 0.002),
    "network": (110e6, 0.005),
    "linux": (500e6, 0.0005),
    "memory": (2e9, 0.0002),
}
_OTHER_RATE = (150e6, 0.002)


def typical_rate(mount_kind: str) -> tuple[float, float]:
    """(bytes a second, seconds more for each small file) that a copy from such a mount usually reaches."""
    return _RATES.get(mount_kind, _OTHER_RATE)


def about_seconds(seconds: float) -> int:
    """An estimate for people: from 20 s on in steps of 5, from 5 min on in steps of 30."""
    step = 1 if seconds < 20 else 5 if seconds < 300 else 30
    return max(1, int(seconds / step + 0.5) * step)
