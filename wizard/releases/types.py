"""Records of what one vLLM release accepts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OptionKind = Literal["flag", "optional_flag", "int", "float", "str", "json", "list", "dict", "choice", "human_int"]
# flag: takes no value (has a --no- twin where `flags` lists one); optional_flag: may take one;
# human_int: "32k", "1M", and the like are read too.


@dataclass(frozen=True)
class Option:
    """One option of ``vllm serve``, with every spelling that its parser takes."""

    flags: tuple[str, ...]  # ("--gpu-memory-utilization",), long first; "--no-..." twins included
    dest: str
    kind: OptionKind
    choices: tuple[str, ...] | None = None
    default: object = None
    deprecated: bool = False
    nargs: str | None = None  # argparse's nargs: "*", "+", "?" or None
    computed_choices: bool = False  # the real parser computes them; ours are the known ones
    dotted: bool = False  # --option.key VALUE is understood (dataclass/JSON options)
    also_auto: bool = False  # takes "auto" (or -1) besides a number
    value_type: str = "str"  # how one value is read: see ``parse.READERS``
    optional: bool = False  # "" and "None" are read as no value
    action: str | None = None  # argparse's action or the release's own, where it is not "store"
    keys: tuple[str, ...] = ()  # known top-level keys of a JSON option
    closed: bool = False  # other keys than those are refused
    key_types: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)  # see extract._simple_type
    none_choice: bool = False  # "no value" is among the choices
    known_values: tuple[str, ...] = ()  # named values of an option that takes others too
    default_computed: bool = False  # the default is computed when the server starts
    start_values: tuple[str, ...] = ()  # what the start takes, where the parser takes any text; () where not known
    limits: Mapping[str, float] = field(default_factory=dict, compare=False)  # {"gt": 0, "le": 1}: what the start takes
    limits_with: str = ""  # dest of the option without which nothing looks at those limits
    start_others: str = ""  # who brings more of them: "plugins", "classes" (dotted names), "" (nobody)

    @property
    def flag(self) -> str:
        """The full spelling that we write."""
        return self.flags[0]


@dataclass(frozen=True)
class ImageInfo:
    repository: str  # "vllm/vllm-openai"
    tag: str  # "v0.33.0"
    cuda: str | None  # "13.0.3"
    min_driver: str | None  # "580"
    arch_list: tuple[str, ...]  # ("7.5", "8.0", ..., "12.0"), "+PTX" on the last where it is
    ptx: bool
    entrypoint: tuple[str, ...]  # ("vllm", "serve") or ("python3", "-m", "vllm.entrypoints.openai.api_server")

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.tag}"

    @property
    def serves_with_model_flag(self) -> bool:
        """Whether the model must be given as ``--model`` (the entrypoint is the old API server)."""
        return self.entrypoint[:1] != ("vllm",)


@dataclass(frozen=True)
class ParserRules:
    """How a release rewrites arguments before argparse reads them."""

    dotted: bool = False  # --option.key VALUE becomes JSON
    dotted_list: bool = False  # --option.key+ VALUE appends
    model_flag: Literal["plain", "refused", "moved"] = "moved"  # what ``vllm serve --model X`` does
    optimization_level: bool = False  # -O3 means --optimization-level 3 (before: --compilation-config)
    o_flag: Literal["attached", "level", "mode", "optimization_level"] = "attached"  # what -O3 is made into
    o_dotted: bool = False  # -O.key still means --compilation-config.key
    human_dotted: bool = False  # 80g and the like after a dotted key
    dash_after_dot_kept: bool = False  # "_" is only read as "-" before the first dot


@dataclass(frozen=True, eq=False)  # one record a release: identity is enough, and hashing stays cheap
class Release:
    version: str
    options: tuple[Option, ...]
    env: frozenset[str]  # VLLM_* variables it reads
    architectures: frozenset[str]  # model classes in its registry
    quantization: tuple[str, ...]
    kv_cache_dtypes: tuple[str, ...]
    tool_parsers: tuple[str, ...]
    reasoning_parsers: tuple[str, ...]
    torch: str | None
    requires_python: str | None
    image: ImageInfo
    transformers: str | None = None  # its requirement
    released: str | None = None  # ISO date
    exact: bool = True  # False: this is the nearest older release's data for a release not known
    asked: str | None = None  # the version asked for, when not exact
    notes: tuple[str, ...] = field(default=())
    parser: ParserRules = ParserRules()
    architecture_kinds: tuple[tuple[str, frozenset[str]], ...] = ()  # ("text generation", {...}) ...
    image_facts: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    def option(self, flag: str) -> Option | None:
        """The option with exactly this spelling."""
        return next((o for o in self.options if flag in o.flags), None)


@dataclass(frozen=True)
class ArgProblem:
    """One thing that a release's parser would refuse, or that is wrong all the same."""

    flag: str
    kind: str  # ok deprecated renamed removed not_yet never_existed misspelt bad_value unknown_value bad_quoting conflict
    message: str
    since: str | None = None
    until: str | None = None
    replacement: str | None = None
    accepted: bool = False  # the parser takes it all the same
    stops: bool = False  # taken by the parser, but the server then does not start
    doubtful: bool = False  # taken by the parser, and the server may then not start

    @property
    def counts(self) -> bool:
        """Whether it is a fault, and no mere note."""
        return self.kind not in ("ok", "deprecated")

    @property
    def refused(self) -> bool:
        """Whether the parser stops at it."""
        return self.counts and not self.accepted


@dataclass(frozen=True)
class KnownFault:
    """A fault of a range of releases under stated conditions, with what avoids it."""

    id: str
    first: str | None  # first release that has it (None: from the beginning)
    last: str | None  # last release that has it (None: still)
    title: str
    conditions: tuple[str, ...]  # all must hold: "wsl", "lora", "moe", "multi_gpu", "dense", "quantization:mxfp4", "!device:cpu" ...
    env: dict[str, str] = field(default_factory=dict, compare=False)
    flags: tuple[tuple[str, str | None], ...] = ()
    avoid: bool = False  # better take another release
    explanation: str = ""
    source: str = ""
