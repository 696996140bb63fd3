"""Programs that start the program named behind them and their own options, as ``sudo`` and ``nohup`` do."""

from __future__ import annotations

import re

STARTERS = frozenset((
    "sudo", "doas", "env", "nohup", "time", "exec", "nice", "ionice", "numactl", "taskset", "timeout", "setsid", "stdbuf",
    "chrt", "command", "export", "uv", "uvx", "poetry", "pipenv", "pixi", "conda", "mamba", "micromamba", "wsl", "systemd-run",
    "srun", "mpirun", "torchrun", "screen", "tmux", "unbuffer", "proxychains", "proxychains4", "nsys", "ncu", "strace",
    "bash", "sh", "zsh", "start", "cmd", "powershell", "pwsh",
))  # fmt: skip


def base_of(word: str) -> str:
    """The program's name in its path."""
    return re.split(r"[/\\]", word)[-1].removesuffix(".exe")
