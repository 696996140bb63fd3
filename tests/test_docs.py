"""The pages, the manual page and the help say what the program does."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from wizard import i18n, options
from wizard.errors import BadInput
from wizard.faces import manual
from wizard.faces.help_topics import COMMAND_TEXTS, TOPICS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
GENERATED = ("commands", "answers", "files", "exit-codes", "environment", "notices", "diagnosis")


@pytest.fixture(autouse=True)
def _english() -> None:
    i18n.set_language("en")


@pytest.fixture(scope="module")
def reference() -> Any:
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- the manual page --------------------------------------------------------------------------------------------


def test_the_manual_page_is_current() -> None:
    assert manual.PAGE.read_text("utf-8") == manual.man_page(), "run python -m wizard.faces.manual"


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_the_manual_page_is_sound_roff() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(manual.PAGE)], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("text", [".starts with a dot", "'quote", "a\\b", "--flag", "“quoted”"])
def test_roff_takes_nothing_for_a_request(text: str) -> None:
    made = manual._escaped(text)
    assert not made.startswith((".", "'"))
    assert not re.search(r"\\(?![e\-(&])", made)


# -- help -------------------------------------------------------------------------------------------------------


def test_every_command_is_explained() -> None:
    assert set(COMMAND_TEXTS) == {name for name, _help, _where in options.COMMANDS}
    assert {"files", "exit-codes", "environment", "wsl", "offline", "mirrors", "privacy", "answers"} <= set(TOPICS)


# -- the pages --------------------------------------------------------------------------------------------------


def _commands(path: Path) -> list[str]:
    """Commands of the program in the code blocks and spans of a page."""
    text = path.read_text("utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines()]
    lines += re.findall(r"`(vllm-wizard [^`]*)`", text)
    found = []
    for line in lines:
        line = re.sub(r"^(?:\w+=\S+ )+", "", line.strip())
        if line == "vllm-wizard" or line.startswith("vllm-wizard "):
            found.append(line)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_commands_on_the_pages_are_understood(path: Path) -> None:
    for line in _commands(path):
        words = shlex.split(line, comments=True)[1:]
        if "..." in words or "|" in words:
            words = words[: next(i for i, w in enumerate(words) if w in ("...", "|"))]
        name, rest = options.split_words(words)
        try:
            options.parse_words(name, rest)
        except BadInput as error:
            pytest.fail(f"{path.name}: {line}: {error}")


@pytest.mark.parametrize("path", [*PAGES, *sorted((ROOT / "docs" / "reference").glob("*.md"))], ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text("utf-8")):
        if "://" in target:
            continue
        assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_page_is_on_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert f"- {path.name}\n" in menu
    for name in GENERATED:
        assert f"- reference/{name}.md\n" in menu


def test_the_reference_holds_what_the_program_has(reference: Any) -> None:
    from wizard.steps import QUESTIONS

    pages = reference.pages()
    assert set(pages) == set(GENERATED)
    assert {p.stem for p in reference.FOLDER.glob("*.md")} == set(GENERATED)
    for name, text in pages.items():
        assert (reference.FOLDER / f"{name}.md").read_text("utf-8") == text, "run python -m wizard.faces.manual"
    for name, _help, _where in options.COMMANDS:
        assert f"\n## {name}\n" in pages["commands"]
        for action in manual.own_actions(name):
            assert all(f"`{o}`" in pages["commands"] for o in action.option_strings)
    assert all(f"| `{key}` |" in pages["answers"] for key in QUESTIONS)
    codes = {
        problem if isinstance(problem, str) else problem["code"]
        for expected in (ROOT / "tests" / "machines").glob("*/expect.json")
        for problem in json.loads(expected.read_text("utf-8")).get("problems", ())
    }
    assert codes
    assert {c for c in codes if f"| `{c}` |" not in pages["notices"]} == set()


def test_the_example_of_a_rule_is_a_rule() -> None:
    from ruamel.yaml import YAML

    from wizard.diagnose.compile import compile_rule

    text = (ROOT / "docs" / "add-a-rule.md").read_text("utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.S)
    (rule,) = YAML(typ="safe", pure=True).load(block)
    compiled = compile_rule(rule, "add-a-rule.md")
    (pattern,) = [row[0] for row in compiled["any"]]
    assert all(re.search(pattern, line) for line in rule["match"])
    assert not any(re.search(pattern, line) for line in rule["no_match"])


# -- what the pages show is what is printed ---------------------------------------------------------------------

LOG = """\
INFO 11-30 04:40:05 [api_server.py:1896] vLLM API server version 0.19.1
INFO 11-30 04:40:05 [utils.py:253] non-default args: {'model_tag': 'Qwen/Qwen3-8B', 'max_model_len': 131072}
(EngineCore pid=412) INFO 11-30 04:40:12 [gpu_model_runner.py:3259] Starting to load model Qwen/Qwen3-8B...
(EngineCore pid=412) INFO 11-30 04:40:40 [gpu_worker.py:423] Available KV cache memory: 3.10 GiB
(EngineCore pid=412) ERROR 11-30 04:40:41 [core.py:1108] EngineCore failed to start.
(EngineCore pid=412) ERROR 11-30 04:40:41 [core.py:1108] Traceback (most recent call last):
(EngineCore pid=412) ERROR 11-30 04:40:41 [core.py:1108]   File "/x/vllm/v1/core/kv_cache_utils.py", line 712, in check
(EngineCore pid=412) ERROR 11-30 04:40:41 [core.py:1108]     raise ValueError(
(EngineCore pid=412) ERROR 11-30 04:40:41 [core.py:1108] ValueError: To serve at least one request with the models's max seq len (131072), (18.00 GiB KV cache is needed, which is larger than the available KV cache memory (3.10 GiB). Based on the available memory, the estimated maximum model length is 22560. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
SHOWN: list[tuple[str, int, str, list[str]]] = [
    ("first-start-wsl2.md", 0, "wsl2-rtx3060-model-on-d", ["detect"]),
    ("first-start-wsl2.md", 1, "wsl2-rtx3060-model-on-d", ["plan"]),
    ("failed-start.md", 0, "", ["diagnose", "LOG"]),
    ("failed-start.md", 1, "", ["check", "--", "vllm", "serve", "Qwen/Qwen3-8B", "--swap-space", "4"]),
    ("move-a-model.md", 0, "wsl2-rtx3060-model-on-d", ["move", "/mnt/d/models/Qwen3-VL-4B-Instruct-FP8", "--dry-run"]),
    (
        "lora.md", 0, "native-rtx5090",
        ["plan", "--model", "Qwen/Qwen3-8B", "--set", "intent=lora", "--set", "lora_adapters=sql=/home/user/adapters/sql"],
    ),
    ("several-gpus.md", 0, "wsl2-2x-rtx3090", ["plan", "--model", "Qwen/Qwen3-32B-AWQ"]),
    ("memory.md", 0, "", ["fit", "--model", "Qwen/Qwen3-8B", "--gpu", "RTX 4090"]),
]  # fmt: skip


@pytest.mark.parametrize(("page", "number", "machine", "words"), SHOWN, ids=[f"{s[0]}-{s[1]}" for s in SHOWN])
def test_what_a_page_shows_is_what_is_printed(
    page: str,
    number: int,
    machine: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from wizard.__main__ import main

    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    log = tmp_path / "server.log"
    log.write_text(LOG)
    where = ["--machine", str(ROOT / "tests" / "machines" / machine)] if machine else []
    assert main([*where, *(str(log) if w == "LOG" else w for w in words)]) in (0, 1)
    printed = " ".join(capfd.readouterr().out.split())
    blocks = re.findall(r"```text\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.S)
    for line in blocks[number].splitlines():
        shown = " ".join(line.split()).removesuffix("...").rstrip(" ,")
        assert shown in printed
