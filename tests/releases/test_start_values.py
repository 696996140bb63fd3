"""Tables that a release looks values up in when it starts, read from made-up sources."""

from __future__ import annotations

from typing import Any

from wizard.releases import start_values
from wizard.releases.types import Option

FILES = {
    "vllm/v1/attention/backends/registry.py": """
class AttentionBackendEnum(Enum):
    FAST = "a.b.Fast"
    FASTER = (
        "a.b."
        "Faster"
    )
    _ignored = 1
    def get(self): ...
""",
    "vllm/model_executor/model_loader/__init__.py": "_LOAD_FORMAT_TO_MODEL_LOADER: dict[str, type] = {'auto': A, 'pt': B}\n",
    "vllm/tokenizers/registry.py": """
_VLLM_TOKENIZERS = {"hf": ("hf", "T")}
def get(tokenizer_mode):
    if tokenizer_mode in ("slow", "fast"): ...
    if self.tokenizer_mode == "odd": self.tokenizer_mode = "made"
    if other_mode == "no": ...
""",
    "tests/registry.py": "_LOAD_FORMAT_TO_MODEL_LOADER = {'never': A}\n",
}


def marked(files: dict[str, str], **more: Any) -> dict[str, Any]:
    option = {"kind": "str", **more}
    start_values.mark(files, [option], ["awq", "gptq"])
    return option


def test_each_kind_of_table_is_found() -> None:
    assert marked(FILES, dest="attention_backend") == {"kind": "str", "dest": "attention_backend", "takes": ["FAST", "FASTER", "auto"]}
    assert marked(FILES, dest="load_format")["takes"] == ["auto", "pt"]
    assert marked(FILES, dest="load_format")["others"] == "plugins"
    assert marked(FILES, dest="tokenizer_mode", known=["mistral"])["takes"] == ["auto", "fast", "hf", "made", "mistral", "odd", "slow"]
    assert marked(FILES, dest="quantization")["takes"] == ["awq", "gptq"]
    assert marked(FILES, dest="distributed_executor_backend", known=["mp"])["others"] == "classes"


def test_what_is_not_found_is_not_guessed() -> None:
    assert "takes" not in marked({}, dest="attention_backend")
    assert "takes" not in marked({}, dest="tokenizer_mode", known=["auto"])
    assert "takes" not in marked({}, dest="kv_cache_dtype")
    assert "takes" not in marked(FILES, dest="served_model_name", known=["x"])
    assert "takes" not in marked({**FILES}, dest="load_format", choices=["auto"])


def test_an_option_without_a_table_takes_anything() -> None:
    assert start_values.taken("whatever", Option(("--x",), "x", "str"))
    table = Option(("--x",), "x", "str", start_values=("FAST", "slow"))
    assert [start_values.taken(v, table) for v in ("fast", "SLOW", "Fast", "none", "", "$X", "${X}")] == [True, True, True, False, True, True, True]


LIMITED = {
    "vllm/config/cache.py": """
class CacheConfig:
    share: float = Field(default=0.9, gt=0, le=1)
    blocks: int | None = pydantic.Field(default=None, ge=-1)
    free: int = 3
    def __post_init__(self):
        if self.swap > 4.0:
            raise ValueError
        if self.swap > self.share:
            raise ValueError
        if self.free < 0:
            logger.warning("odd")
class LoRAConfig:
    ranks: int = Field(default=1, ge=1)
class MultiModalConfig:
    pictures: int = Field(default=1, ge=1)
class OtherConfig:
    share: float = Field(default=1, le=7)
""",
    "vllm/other.py": "class CacheConfig:\n    free: int = Field(default=1, le=2)\n",
    "vllm/engine/arg_utils.py": """
def add(parser):
    cache = get_kwargs(CacheConfig)
    lora, pictures = 1, 2
    lora = get_kwargs(LoRAConfig)
    pictures = get_kwargs(MultiModalConfig)
    group.add_argument("--share", "-s", **cache["share"])
    group.add_argument("--blocks", **{**cache["blocks"], "default": None})
    group.add_argument("--free", **cache["free"])
    group.add_argument("--swap", **cache["swap"])
    group.add_argument("--ranks", **lora["ranks"])
    group.add_argument("--pictures", **pictures["pictures"])
    group.add_argument("--text", **cache["share"])
""",
}


def limited(files: dict[str, str], flag: str, kind: str = "int") -> dict[str, Any] | None:
    option: dict[str, Any] = {"flags": [flag], "dest": flag.strip("-"), "kind": kind}
    start_values.mark_limits(files, [option])
    return option.get("limits")


def test_limits_are_those_of_the_class_that_the_option_is_declared_from() -> None:
    assert limited(LIMITED, "--share", "float") == {"gt": 0, "le": 1}
    assert limited(LIMITED, "--blocks") == {"ge": -1}
    assert limited(LIMITED, "--swap", "float") == {"le": 4.0}
    assert limited(LIMITED, "--ranks") == {"ge": 1, "with": "enable_lora"}
    assert limited(LIMITED, "--port") == {"ge": 0, "le": 65535}
    for flag in ("--free", "--pictures", "--unknown"):
        assert limited(LIMITED, flag) is None
    assert limited(LIMITED, "--text", "str") is None


def test_before_the_classes_declared_options_the_name_of_the_field_says_it() -> None:
    old = {name: text for name, text in LIMITED.items() if "arg_utils" not in name}
    assert limited(old, "--swap", "float") == {"le": 4.0}
    assert limited(old, "--share", "float") == {"gt": 0, "le": 1}  # OtherConfig's is filled from elsewhere
    twice = {**old, "vllm/config/model.py": "class ModelConfig:\n    share: float = Field(default=1, le=2)\n"}
    assert limited(twice, "--share", "float") is None
    by_hand = {**LIMITED, "vllm/engine/arg_utils.py": "group.add_argument('--swap', type=float)"}
    assert limited(by_hand, "--swap", "float") == {"le": 4.0}


def test_a_number_is_held_against_the_limits() -> None:
    share = Option(("--share",), "share", "float", limits={"gt": 0, "le": 1})
    assert [start_values.outside(v, share) for v in ("0", "0.5", "1", "1.01", "-3", "90", "auto", "$X", "")] == [True, False, False, True, True, True, False, False, False]
    assert [start_values.share_of(v, share) for v in ("90", "0.9", "1000", "1.2", "x")] == ["0.9", None, None, None, None]
    assert start_values.within(share) == "it must be more than 0 and at most 1"
    count = Option(("--n",), "n", "human_int", limits={"ge": 1})
    assert [start_values.outside(v, count) for v in ("0", "1", "4k", "-4k", "1.5")] == [True, False, False, False, False]
    assert start_values.share_of("90", count) is None
    assert not start_values.outside("-7", Option(("--n",), "n", "int"))
