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
