"""What the fake Windows programs of this folder do. Each of them calls :func:`main` under its own name.

``FAKEWIN`` names a JSON file: ``{"root": folder that plays C:, "profile": ..., "programs": {name: how}}``. ``how``
may hold ``delay_s``, ``exit``, ``fault`` ("hang", "crash", "rubbish", "empty") and the answers below. Every call
is appended to ``FAKEWIN + ".log"`` as a JSON line, so that a test can see what was asked, and from where.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

UNC_WARNING = (
    "'\\\\wsl.localhost\\Ubuntu\\home\\user'\r\nCMD.EXE was started with the above path as the current directory.\r\n"
    "UNC paths are not supported.  Defaulting to Windows directory.\r\n"
)
WSL_VERSION = (
    "WSL version: {wsl}\r\nKernel version: 6.6.87.2-1\r\nWSLg version: 1.0.66\r\nMSRDC version: 1.2.6353\r\n"
    "Direct3D version: 1.611.1-81528511\r\nDXCore version: 10.0.26100.1-240331-1435.ge-release\r\n"
    "Windows version: 10.0.{build}\r\n"
)


def main() -> None:
    name = Path(sys.argv[0]).name
    settings = json.loads(Path(os.environ["FAKEWIN"]).read_text("utf-8"))
    how: dict[str, Any] = settings.get("programs", {}).get(name, {})
    with Path(os.environ["FAKEWIN"] + ".log").open("a", encoding="utf-8") as log:
        log.write(json.dumps({"name": name, "argv": sys.argv[1:], "cwd": str(Path.cwd())}) + "\n")
    time.sleep(how.get("delay_s", 0.0))
    fault = how.get("fault")
    if fault == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    if fault == "crash":
        os.abort()
    if fault == "rubbish":
        put(bytes(range(256)) * 3)
    elif fault != "empty":
        PROGRAMS[name](settings, how)
    sys.exit(how.get("exit", 0))


def put(raw: bytes) -> None:
    sys.stdout.buffer.write(raw)
    sys.stdout.flush()


def on_windows_drive(settings: dict[str, Any]) -> bool:
    return Path.cwd().is_relative_to(settings["root"])


def cmd(settings: dict[str, Any], how: dict[str, Any]) -> None:
    """``/u`` makes UTF-16LE of what is echoed; without it letters outside the OEM code page are lost."""
    words = [w.lower() for w in sys.argv[1:]]
    line = sys.argv[-1]
    text = ""
    if not on_windows_drive(settings):
        put(UNC_WARNING.encode("ascii"))
    if line.lower().startswith("echo "):
        text = line[5:].replace("%USERPROFILE%", settings["profile"])
    elif line.lower() == "ver":
        text = "\r\nMicrosoft Windows [Version 10.0.22631.4317]"
    put((text + "\r\n").encode("utf-16-le") if "/u" in words else (text + "\r\n").encode("cp437", "replace"))


def powershell(settings: dict[str, Any], how: dict[str, Any]) -> None:
    if "answer" in how:
        put(how["answer"].encode("utf-8"))
        return
    if "-Command" not in sys.argv or "Win32_ComputerSystem" not in sys.argv[-1]:
        sys.exit("unknown command")
    put(f"{settings.get('ram', 34276237312)} {settings.get('cpus', 24)} 10.0.22631.0\r\n".encode("cp437"))


def wsl(settings: dict[str, Any], how: dict[str, Any]) -> None:
    asked = sys.argv[1:]
    if how.get("old"):
        # The wsl.exe that came with Windows prints its help, and fails, for what it does not know.
        encode("Invalid command line option: " + " ".join(asked) + "\r\n")
        sys.exit(255)
    if asked == ["--version"]:
        encode(how.get("text", WSL_VERSION.format(wsl="2.6.1.0", build="22631.4317")))
    elif asked in (["-l", "-v"], ["--list", "--verbose"]):
        encode("  NAME      STATE           VERSION\r\n* Ubuntu    Running         2\r\n")
    else:
        sys.exit(1)


def encode(text: str) -> None:
    put(text.encode("utf-8" if os.environ.get("WSL_UTF8") == "1" else "utf-16-le"))


def wslpath(settings: dict[str, Any], how: dict[str, Any]) -> None:
    path = sys.argv[-1]
    drives: dict[str, str] = settings.get("drives", {"C": settings["root"]})
    if sys.argv[1] != "-u" or path[1:3] != ":\\" or path[0].upper() not in drives:
        sys.exit(f"wslpath: {path}")
    put((drives[path[0].upper()] + path[2:].replace("\\", "/") + "\n").encode("utf-8"))


def wslinfo(settings: dict[str, Any], how: dict[str, Any]) -> None:
    answers = {"--version": "2.6.1", "--networking-mode": how.get("network", "nat")}
    if len(sys.argv) != 2 or sys.argv[1] not in answers:
        sys.exit("Invalid command line argument")
    put((answers[sys.argv[1]] + ("\n" if how.get("newline", True) else "")).encode("ascii"))


PROGRAMS = {
    "cmd.exe": cmd,
    "powershell.exe": powershell,
    "wsl.exe": wsl,
    "wslpath": wslpath,
    "wslinfo": wslinfo,
}
