"""Reading a file that has an end: what never ends, or waits for somebody to write, is refused before it is opened."""

from __future__ import annotations

import os

from wizard.errors import BadInput
from wizard.i18n import _

STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise BadInput for a folder, pipe, socket or device; standard input under its names may be any of them.

    A path that is not there, or may not be looked at, passes: whoever opens it says so.
    """
    import stat

    name = os.fspath(path)
    if name in STANDARD_INPUT:
        return
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116  (a str is what may hold a zero byte)
    except (OSError, ValueError):
        return
    if stat.S_ISDIR(mode):
        raise BadInput(_("{path} is a folder; a file is needed there.").format(path=name))
    if not stat.S_ISREG(mode):
        raise BadInput(
            _("{path} is not a regular file (a device, pipe or socket). Name a file, or - for standard input where the command takes it.").format(path=name)
        )
