"""How this very program is called from a shell: by its name where that runs it, else by its path.

Texts and plans write ``vllm-wizard``. It is the right word only where the PATH leads to the program that runs now:
not in a virtual environment that was not activated, nor beside another installation.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from pathlib import Path

NAME = "vllm-wizard"
_FILES = (NAME, NAME + ".exe")
# The words that follow the name where it is meant to be typed; elsewhere it is only a name.
COMMANDS = (
    "detect", "plan", "generate", "cluster", "launch", "status", "stop", "logs", "undo", "fit", "recipes", "releases",
    "check", "wslconfig", "windows", "move", "record", "diagnose", "completion", "help",
)  # fmt: skip
_known: list[tuple[str, ...]] = []


def state_folder() -> Path:
    """Where journals, backups, records of servers and unfinished moves are kept: ``VLLM_WIZARD_STATE_DIR``, else the
    platform's own place, which ``XDG_STATE_HOME`` moves."""
    from pathlib import Path

    chosen = os.environ.get("VLLM_WIZARD_STATE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir(NAME, appauthor=False))


def words() -> tuple[str, ...]:
    """The words that start this program: ("vllm-wizard",), ("/home/user/.venv/bin/vllm-wizard",), or a Python with
    ``-m wizard`` where no script of ours stands beside it."""
    if not _known:
        _known.append(_look())
    return _known[0]


def _look() -> tuple[str, ...]:
    script = _script()
    if script is None:
        return (sys.executable or "python3", "-m", "wizard")
    found = _on_path()
    return (NAME,) if found is not None and _same(found, script) else (script,)


def words_on(machine_name: str) -> tuple[str, ...]:
    """The same for a plan: a recorded machine has the program on its PATH, for all that is known."""
    return words() if machine_name in ("this machine", "") else (NAME,)


def command() -> str:
    """The words for a shell, quoted."""
    if os.name == "nt":
        return _for_powershell(words())
    return " ".join(map(_quoted, words()))


def _for_powershell(parts: tuple[str, ...]) -> str:
    """A path with a blank has to be called with ``&`` there."""
    first, *more = parts
    return " ".join([f"& '{first}'" if " " in first else first, *more])


def _quoted(word: str) -> str:
    # shlex would load the regular expressions, which --help does without.
    plain = all(c.isascii() and (c.isalnum() or c in "/._-+:@%") for c in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"


def spelt(text: str) -> str:
    """``text`` with each of our commands in it as it can be typed here."""
    if NAME not in text or words() == (NAME,):
        return text
    return typed().sub(lambda _match: command(), text)


def typed() -> re.Pattern[str]:
    """Where our name stands as the first word of a command."""
    import re

    return re.compile(rf"(?<![\w./\\~-]){NAME}(?= (?:--[a-z]|(?:{'|'.join(COMMANDS)})\b))", re.ASCII)


def _script() -> str | None:
    """The script that runs, or the one that stands beside the Python that runs; None without one."""
    started = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""  # noqa: PTH100
    beside = [os.path.join(os.path.dirname(sys.executable or ""), name) for name in _FILES]  # noqa: PTH118, PTH120
    candidates = [path for path in (started, started + ".exe") if os.path.basename(path) in _FILES]  # noqa: PTH119
    return next((path for path in (*candidates, *beside) if os.path.isfile(path)), None)  # noqa: PTH113


def _on_path() -> str | None:
    """What a shell would run by the name (shutil takes longer to import than all of ``--help``)."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        for name in _FILES if folder else ():
            path = os.path.join(folder, name)  # noqa: PTH118
            if os.path.isfile(path) and os.access(path, os.X_OK):  # noqa: PTH113
                return path
    return None


def _same(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)
