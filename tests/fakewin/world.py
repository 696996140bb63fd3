"""A WSL 2 of which the Windows programs are real processes and only the kernel's own files are made up.

The programs of ``bin`` are linked to where Windows has them, on a folder that plays drive C: (a mountinfo line says
so) and on PATH. :class:`FakeWindows` is this machine's :class:`RealHost`, but for the few files under ``/proc`` and
``/etc`` that make a Linux a WSL.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wizard.host import RealHost

BIN = Path(__file__).parent / "bin"
PLACES = {
    "cmd.exe": "Windows/System32/cmd.exe",
    "wsl.exe": "Windows/System32/wsl.exe",
    "powershell.exe": "Windows/System32/WindowsPowerShell/v1.0/powershell.exe",
}
NO_VERSIONS = ("wsl.exe", "wslinfo")  # missing programs that a test about the profile does not need
KERNEL = "6.6.87.2-microsoft-standard-WSL2"


class FakeWindows(RealHost):
    """``folder`` receives drives, PATH and settings; ``how`` is each program's behaviour (see ``fake_windows``)."""

    def __init__(
        self,
        folder: Path,
        *,
        profile: str = "C:\\Users\\user",
        users: tuple[str, ...] = ("user", "Public", "Default"),
        drives: str = "CD",
        interop: bool | None = True,
        missing: tuple[str, ...] = (),
        wsl_conf: str = "",
        how: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.drives = {letter: folder / "mnt" / letter.lower() for letter in drives}
        for place in self.drives.values():
            place.mkdir(parents=True)
        path = folder / "bin"
        path.mkdir()
        # Behind a version manager's shim every fake program would cost a quarter of a second.
        (path / "python3").symlink_to(Path(sys.executable).resolve())
        for name in ("wslpath", "wslinfo"):
            if name not in missing:
                _program(BIN / name, path / name)
        for name, where in PLACES.items():
            if name not in missing and "C" in self.drives:
                _program(BIN / name, self.drives["C"] / where)
        for user in users:
            (self.drives["C"] / "Users" / user).mkdir(parents=True)
            if user not in ("Public", "Default"):
                (self.drives["C"] / "Users" / user / "AppData").mkdir()
        self.settings = folder / "settings.json"
        self.write_settings(profile=profile, programs={k: dict(v) for k, v in (how or {}).items()})
        self.env = {
            "PATH": f"{path}:{os.environ.get('PATH', os.defpath)}",
            "FAKEWIN": str(self.settings),
            "WSL_DISTRO_NAME": "Ubuntu",
            "HOME": str(folder),
        }
        self.made_up: dict[str, bytes | None] = {
            "/proc/sys/kernel/osrelease": KERNEL.encode(),
            "/proc/self/mountinfo": self._mountinfo().encode(),
            "/proc/mounts": None,
            "/proc/1/cgroup": b"0::/init.scope\n",
            "/proc/sys/fs/binfmt_misc/WSLInterop": None
            if interop is None
            else (b"enabled\ninterpreter /init\nflags: PF\n" if interop else b"disabled\n"),
            "/proc/sys/fs/binfmt_misc/WSLInterop-late": None,
            "/etc/wsl.conf": wsl_conf.encode() if wsl_conf else None,
            "/dev/dxg": b"",
            "/run/systemd/container": None,
            "/run/.containerenv": None,
            "/.dockerenv": None,
        }

    def write_settings(self, **settings: Any) -> None:
        drives = {letter: str(place) for letter, place in self.drives.items()}
        root = drives.get("C", str(self.folder))
        self.settings.write_text(json.dumps({"root": root, "drives": drives, **settings}), "utf-8")

    def calls(self) -> list[dict[str, Any]]:
        """What was asked so far: name, argv, cwd."""
        log = Path(str(self.settings) + ".log")
        return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []

    def _mountinfo(self) -> str:
        lines = ["80 79 8:48 / / rw,relatime - ext4 /dev/sdd rw,discard"]
        for number, (letter, place) in enumerate(self.drives.items()):
            point = str(place).replace("\\", "\\134").replace(" ", "\\040")
            options = (
                f"rw,dirsync,aname=drvfs;path={letter}:\\134;uid=1000;symlinkroot=/mnt/,cache=5,trans=fd"
            )
            lines.append(
                f"{90 + number} 80 0:{40 + number} / {point} rw,noatime - 9p {letter}:\\134 {options}"
            )
        return "\n".join(lines) + "\n"

    def read_bytes(self, path: str, limit: int | None = None) -> bytes:
        if path in self.made_up:
            content = self.made_up[path]
            if content is None:
                raise FileNotFoundError(path)
            return content if limit is None else content[:limit]
        return super().read_bytes(path, limit)

    def exists(self, path: str) -> bool:
        if path in self.made_up:
            return self.made_up[path] is not None
        return super().exists(path)


def _program(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(source)
