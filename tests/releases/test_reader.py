"""Reading a release's files: small made-up releases of the layouts that real ones have had."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wizard import releases
from wizard.errors import BadInput, WizardError
from wizard.host import CommandResult
from wizard.releases import build, probe, sources
from wizard.releases.extract import UnreadableRelease, read_release
from wizard.releases.interpreter import NotReadable, Opaque, Reader

ARGPARSE = '''
from argparse import ArgumentParser, BooleanOptionalAction
class PairAction(BooleanOptionalAction):
    _inverse_prefixes = {"--enable-": "--disable-"}
class FlexibleArgumentParser(ArgumentParser):
    def __init__(self):
        self.register("action", BooleanOptionalAction, PairAction)
    def parse_args(self, args):
        def create_nested_dict(keys, value): ...
        if key.endswith("+"): ...
        processed_args += ["--optimization-level", level]
        rest_start_idx = 1
'''
CONFIG = '''
from dataclasses import field
from enum import Enum
from typing import Literal, Optional, Union
from pydantic import Field, SkipValidation
from pydantic.dataclasses import dataclass
from .names import Mode, MORE
def config(cls): return dataclass(cls, config=ConfigDict(extra="forbid"))
class Kind(Enum):
    A = "a"
    B = "b"
Both = Literal[Mode, "z"]
@config
class Base:
    inherited: int = 1
    """From the base."""
@config
class Inner:
    size: int = 3
    name: Optional[str] = None
    made: int = field(default=0, init=False)
@config
class ModelConfig(Base):
    length: SkipValidation[int] = Field(default=None)
    """Longest."""
    mode: Both = "x"
    """[DEPRECATED] no longer used."""
    switch: bool = False
    ratio: "float" = 0.5
    inner: Inner = field(default_factory=Inner)
    words: list[str] | None = None
    free: str | dict[str, int] = ""
'''
ARG_UTILS = '''
import argparse, json
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Literal, Union, get_args, get_origin
from types import UnionType
import torch
from vllm.config import Kind, ModelConfig
from vllm.platforms import current_platform
def optional_type(return_type):
    def _optional_type(val):
        return None if val == "None" else return_type(val)
    return _optional_type
def human_readable_int(value): return int(value)
def hints_of(t):
    if get_origin(t) in {Union, UnionType}:
        return {h for a in get_args(t) for h in hints_of(a)}
    return {t}
def get_kwargs(cls):
    docs = get_attr_docs(cls)
    out = {}
    for f in fields(cls):
        hints = hints_of(f.type)
        default = f.default
        if default is MISSING: default = f.default_factory()
        out[f.name] = {"default": default, "help": docs[f.name]}
        data = next((h for h in hints if is_dataclass(h)), None)
        if data is not None:
            def parse_dataclass(val, cls=data): return cls
            out[f.name]["type"] = parse_dataclass
        elif bool in hints: out[f.name]["action"] = argparse.BooleanOptionalAction
        elif any(get_origin(h) is Literal for h in hints):
            out[f.name]["choices"] = sorted(get_args(next(h for h in hints if get_origin(h) is Literal)))
        elif any(get_origin(h) is list for h in hints): out[f.name].update(type=str, nargs="+")
        elif int in hints: out[f.name]["type"] = human_readable_int if f.name == "length" else int
        elif float in hints: out[f.name]["type"] = float
        else: out[f.name]["type"] = optional_type(str) if type(None) in hints else str
    return out
class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        group = parser.add_argument_group(title="x")
        kw = get_kwargs(ModelConfig)
        for name, value in kw.items():
            if name == "words": value["choices"] += ["p"] if False else []
            group.add_argument(f"--{name.replace('_', '-')}", **value)
        group.add_argument("--kind", "-k", choices=[k.value for k in Kind], default=Kind.A)
        group.add_argument("--raw", type=json.loads, default=torch.inf)
        group.add_argument("--enable-x", action=argparse.BooleanOptionalAction, help="This flag is deprecated.")
        if current_platform.is_cuda():
            group.add_argument("--only-cuda")
        return parser
'''
SERVE = '''
from vllm.engine.arg_utils import EngineArgs
class ServeSubcommand:
    name = "serve"
    def subparser_init(self, subparsers):
        p = subparsers.add_parser(self.name, help="x")
        p.add_argument("model_tag", nargs="?")
        return make_arg_parser(p)
def make_arg_parser(parser):
    parser.add_argument("--headless", action="store_true")
    return EngineArgs.add_cli_args(parser)
'''
FILES = {
    "vllm/__init__.py": "",
    "vllm/utils/argparse_utils.py": ARGPARSE,
    "vllm/config/__init__.py": CONFIG,
    "vllm/config/names.py": 'from typing import Literal\nMode = Literal["x", "y"]\nMORE = ["q"]\nMORE.append("r")\n',
    "vllm/engine/arg_utils.py": ARG_UTILS,
    "vllm/entrypoints/cli/serve.py": SERVE,
    "vllm/envs.py": 'import os\nenvironment_variables = {"VLLM_PORT": lambda: os.getenv("VLLM_PORT", "1")}\n',
    "vllm/other.py": 'import os\nx = os.environ.get("VLLM_ELSEWHERE")\n',
    "vllm/model_executor/models/registry.py": '_TEXT_GENERATION_MODELS = {"A": 1, "B": 2}\n_PREVIOUSLY_SUPPORTED_MODELS = {"Old": 1}\n',
    "vllm/model_executor/layers/quantization/__init__.py": 'from typing import Literal, get_args\nQuantizationMethods = Literal["awq", "fp8"]\nQUANTIZATION_METHODS = list(get_args(QuantizationMethods))\n',
    "vllm/tool_parsers/a.py": '@ToolParserManager.register_module(["one", "two"])\nclass P: ...\n',
    "vllm/reasoning/__init__.py": '_REASONING_PARSERS_TO_REGISTER = {"r1": ("m", "C")}\nReasoningParserManager = 1\n',
    "requirements/cuda.txt": "torch==2.9.0\n",
    "requirements/common.txt": "transformers >= 4.5, < 5  # why\n",
    "PKG-INFO": "Requires-Python: <3.14,>=3.10\n",
    "docker/Dockerfile": "ARG CUDA_VERSION=12.9.1\nARG torch_cuda_arch_list='7.0 8.0 9.0+PTX'\nFROM a AS vllm-openai\nENTRYPOINT [\"vllm\", \"serve\"]\n",
    ".buildkite/release-pipeline.yaml": (
        "env:\n  CUDA_ARCH_X86_CU130: \"8.0 12.0\"\nsteps:\n"
        "  - label: x\n    docker build --build-arg CUDA_VERSION=13.0.1 --build-arg torch_cuda_arch_list=\"${CUDA_ARCH_X86_CU130}\" --target vllm-openai -f docker/Dockerfile .\n"
        "    docker push repo/vllm-release-repo:$BUILDKITE_COMMIT-$(uname -m)-cu130\n"
    ),
    ".buildkite/scripts/publish-release.sh": "docker push vllm/vllm-openai:v${RELEASE_VERSION}-cu130\ndocker push vllm/vllm-openai-cpu:v${V}\n",
}  # fmt: skip


def test_an_option_of_the_module_alone_is_read_too() -> None:
    only_module = 'import sys\n' + ARG_UTILS.replace(
        "        return parser\n", "        if 'serve' not in sys.argv[1:]:\n            group.add_argument('--model')\n        return parser\n"
    )
    data = read_release(FILES | {"vllm/engine/arg_utils.py": only_module}, "9.9.9")
    assert [o for o in data["options"] if o["flags"] == ["--model"]]


def test_options_of_a_made_up_release() -> None:
    data = read_release(FILES, "9.9.9")
    options = {o["flags"][0]: o for o in data["options"]}
    assert options["--inherited"]["default"] == 1
    assert options["--length"]["type"] == "human_int"
    assert options["--mode"]["choices"] == ["x", "y", "z"]
    assert options["--mode"]["deprecated"] is True
    assert options["--switch"]["flags"] == ["--switch", "--no-switch"]
    assert options["--ratio"]["type"] == "float"
    assert options["--inner"]["keys"] == {"size": ["int"], "name": ["null", "str"]}
    assert options["--inner"]["closed"] is True
    assert options["--words"]["nargs"] == "+"
    assert options["--kind"]["choices"] == ["a", "b"]
    assert options["--kind"]["default"] == "a"
    assert options["--kind"]["flags"] == ["--kind", "-k"]
    assert options["--raw"]["default_computed"] is True
    assert options["--enable-x"]["flags"] == ["--enable-x", "--no-enable-x", "--disable-x"]
    assert options["--enable-x"]["deprecated"] is True
    assert "--only-cuda" not in options
    assert any("is_cuda" in note for note in data["notes"])  # what depends on the machine is said, not guessed
    assert data["parser"]["dotted"]
    assert data["parser"]["optimization_level"]


def test_registries_and_image_of_a_made_up_release() -> None:
    data = read_release(FILES, "9.9.9")
    assert data["architectures"] == {"text generation": ["A", "B"]}
    assert data["env"] == ["VLLM_ELSEWHERE", "VLLM_PORT"]
    assert data["quantization"] == ["awq", "fp8"]
    assert data["tool_parsers"] == ["one", "two"]
    assert data["reasoning_parsers"] == ["r1"]
    assert (data["torch"], data["transformers"], data["requires_python"]) == ("2.9.0", ">=4.5,<5", "<3.14,>=3.10")
    image = data["image"]
    assert image["cuda"] == "12.9.1"
    assert image["variants"] == {"cu130": {"arch_list": ["8.0", "12.0"], "cuda": "13.0.1", "published": True}}
    assert image["cpu"]
    assert not image["rocm"]


def test_what_is_laid_out_in_no_known_way_is_said() -> None:
    with pytest.raises(UnreadableRelease):
        read_release({"vllm/__init__.py": ""}, "9.9.9")


def test_the_interpreter_runs_nothing_that_it_does_not_know() -> None:
    reader = Reader({"m.py": "import os\nimport subprocess\na = os.system('touch /x')\nb = subprocess.run(['x'])\nc = open('/etc/passwd')\nd = __import__('os')\ne = 9 ** 9 ** 9\n"})
    module = reader.module("m")
    assert module is not None
    for name in "abcde":
        assert isinstance(reader.lookup(module, name), Opaque)


def test_endless_code_ends() -> None:
    reader = Reader({"m.py": "def f(n): return f(n + 1)\nx = f(0)\n"})
    module = reader.module("m")
    assert module is not None
    assert isinstance(reader.lookup(module, "x"), Opaque)
    with pytest.raises(NotReadable):
        reader.lookup(module, "f")(0)


# --- the index -------------------------------------------------------------------------------------------------


def test_index_of_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:pw@mirror.example/simple/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///local https://second.example/simple")
    monkeypatch.setattr(sources, "_pip_settings", dict)
    assert sources.index_urls() == ["https://user:pw@mirror.example/simple", "https://second.example/simple"]


def test_index_of_pips_configuration_else_pips_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sources, "_pip", lambda *a: "global.index-url='https://a.example/simple'\n" if a[0] == "config" else "")
    assert sources.index_urls() == ["https://a.example/simple"]
    help_text = "  -i, --index-url <url>  Base URL of the Python Package\n   Index (default\n https://b.example/simple). This"
    monkeypatch.setattr(sources, "_pip", lambda *a: "" if a[0] == "config" else help_text)
    assert sources.index_urls() == ["https://b.example/simple"]
    monkeypatch.setattr(sources, "_pip", lambda *a: "")
    with pytest.raises(WizardError, match="PIP_INDEX_URL"):
        sources.index_urls()


def test_both_forms_of_an_index_page() -> None:
    page = json.dumps({"files": [{"filename": "vllm-1.0.tar.gz", "url": "../x/vllm-1.0.tar.gz"}]}).encode()
    assert sources._parse_index(page, "application/vnd.pypi.simple.v1+json", "https://a.example/simple/vllm/")[0]["url"] == "https://a.example/simple/x/vllm-1.0.tar.gz"
    html = b'<a href="https://f.example/vllm-1.1-cp38-abi3-linux_x86_64.whl#sha256=0">vllm-1.1-cp38-abi3-linux_x86_64.whl</a>'
    files = sources._parse_index(html, "text/html", "https://a.example/")
    best = sources.released_versions([*files, {"filename": "vllm-1.0.tar.gz", "url": "u"}, {"filename": "vllm-1.0-cp38-abi3-any.whl", "url": "w"}])
    assert {v: f["url"] for v, f in best.items()} == {"1.1": "https://f.example/vllm-1.1-cp38-abi3-linux_x86_64.whl", "1.0": "u"}


def test_no_index_is_an_error_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLLM_WIZARD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setattr(sources, "_pip_settings", dict)
    from wizard.releases import commands

    with pytest.raises(WizardError, match="package index"):
        commands.run(["update"])
    assert list(tmp_path.iterdir()) == []


# --- installed vLLMs -------------------------------------------------------------------------------------------


class _Host:
    """Answers a probe with the made-up release."""

    env: Mapping[str, str] = {}

    def __init__(self, result: CommandResult) -> None:
        self.result = result
        self.help = CommandResult((), 1, b"", b"no torch here")
        self.help_ways: tuple[str, ...] = ("--help=all", "--help")
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], timeout_s: float = 5.0, **_more: Any) -> CommandResult:
        self.asked.append(list(argv))
        if "inspect" in argv:
            return CommandResult(tuple(argv), 0, b"sha256:0")
        if "serve" in argv:
            return self.help if argv[-1] in self.help_ways else CommandResult(tuple(argv), 2, b"", b"no such option")
        return self.result


def _answer(version: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for path, text in FILES.items():
            if path.endswith(".py"):
                archive.writestr(path, text)
    facts = json.dumps({"version": version, "location": "/x"})
    return f"hello\nVLLM-FILES-BEGIN\n{facts}\n{base64.b64encode(held.getvalue()).decode()}\nVLLM-FILES-END\n".encode()


@pytest.fixture
def own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("VLLM_WIZARD_DATA_DIR", str(tmp_path))
    releases.forget_cached()
    yield tmp_path
    monkeypatch.undo()
    releases.forget_cached()


def test_a_probed_vllm_becomes_a_release(own_data: Path) -> None:
    newest = releases.newest()
    host = _Host(CommandResult((), 0, _answer("0.99.1.dev3+g1234")))
    data = probe.probe_python(host, "/x/python")  # type: ignore[arg-type]
    build.write_user_release(data)
    releases.forget_cached()
    release = releases.load("0.99.1.dev3+g1234")
    assert release.exact
    assert release.option("--headless") is not None
    assert releases.newest() == newest  # a nightly is no release
    assert releases.first_with_flag("--headless") != "0.99.1.dev3+g1234"
    assert releases.flag_spans("--inherited") == [("0.99.1.dev3+g1234", "0.99.1.dev3+g1234")]
    assert releases.load("0.99.2").version == newest


def test_an_image_is_asked_without_network_and_never_pulled() -> None:
    host = _Host(CommandResult((), 0, _answer("0.99.1")))
    probe.probe_image(host, "vllm/vllm-openai:nightly")  # type: ignore[arg-type]
    assert host.asked[1][:6] == ["docker", "run", "--rm", "--network", "none", "--entrypoint"]
    with pytest.raises(BadInput):
        probe.probe_image(host, "--privileged")  # type: ignore[arg-type]


def _help(*more: str) -> bytes:
    """What a made-up server prints for --help: the release's own options, some fillers, and ``more``."""
    lines = ["usage: vllm serve [model_tag] [options]", "", "options:", "  -h, --help            show this help message and exit"]
    lines += ["  --headless            Run without a server; see --port-of-nothing.", "  --mode {a,b}          Which."]
    lines += [f"  --filler-{n} FILLER_{n}" for n in range(40)]
    return "\n".join([*lines, *more]).encode()


def test_the_help_of_a_probed_vllm_adds_what_its_files_do_not_show() -> None:
    host = _Host(CommandResult((), 0, _answer("0.99.1")))
    host.help = CommandResult((), 0, _help(
        "  --from-a-plugin, --no-from-a-plugin",
        "                        Text that names --another-one.",
        "  --parser {one,two} or name registered in --parser-plugin",
        "  --steps STEPS [STEPS ...], -st STEPS [STEPS ...]",
    ))
    host.help_ways = ("--help",)  # a release that knows no --help=all
    data = probe.probe_python(host, "/x/python")  # type: ignore[arg-type]
    rows = {r["flags"][0]: r for r in data["options"]}
    assert rows["--from-a-plugin"]["flags"] == ["--from-a-plugin", "--no-from-a-plugin"]
    assert rows["--from-a-plugin"]["kind"] == "flag"
    assert rows["--parser"]["kind"] == "str"  # others than the listed ones are taken
    assert rows["--steps"] == {"flags": ["--steps", "-st"], "dest": "steps", "type": "str", "kind": "list"}
    assert "--another-one" not in rows
    assert "--parser-plugin" not in rows
    assert any("only in its own help" in note for note in data["notes"])


def test_a_vllm_that_cannot_print_its_help_is_read_from_its_files() -> None:
    host = _Host(CommandResult((), 0, _answer("0.99.1")))
    data = probe.probe_python(host, "/x/python")  # type: ignore[arg-type]
    assert any("no torch here" in note for note in data["notes"])
    assert any("--headless" in r["flags"] for r in data["options"])


@pytest.mark.parametrize(
    "result",
    [
        CommandResult((), 1, b"", b"no vllm package in /x"),
        CommandResult((), 127),
        CommandResult((), 124, timed_out=True),
        CommandResult((), 0, b"nothing"),
        CommandResult((), 0, b"VLLM-FILES-BEGIN\n{}\n!!!\nVLLM-FILES-END\n"),
        CommandResult((), 0, _answer("")),
    ],
)
def test_odd_answers_are_errors(result: CommandResult) -> None:
    with pytest.raises(WizardError):
        probe.probe_python(_Host(result), "/x/python")  # type: ignore[arg-type]


def test_images_of_a_release_without_dockerfile_come_from_its_neighbours() -> None:
    release = releases.load("0.15.1")
    assert release.image_facts["inferred"] == ["0.14.1", "0.16.0"]
    assert release.image.cuda == "12.9.1"


def test_data_files_are_one_option_a_line() -> None:
    text = build.dump_release(read_release(FILES, "9.9.9"))
    assert json.loads(text)["version"] == "9.9.9"
    assert sum(line.startswith('  {"flags"') for line in text.splitlines()) == len(json.loads(text)["options"])
