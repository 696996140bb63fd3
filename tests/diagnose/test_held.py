"""Cures that name the log's own model, and that ask for no more than the machine at hand has free."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard.__main__ import main
from wizard.diagnose.engine import Diagnosis, Known, diagnose
from wizard.diagnose.held import FLAG, free_share, hold
from wizard.diagnose.placeholders import filled
from wizard.diagnose.reader import read_bytes
from wizard.facts import Fact, Gpu, GpuStack

MACHINES = Path(__file__).parent.parent / "machines"
GIB = 1 << 30
BANNER = "(APIServer pid=1) INFO 11-05 03:10:00 [api_server.py:1] vLLM API server version 0.31.0"
TOO_LONG = (
    "ValueError: To serve at least one request with the model's max seq len (65536), (9.0 GiB KV cache is needed, which is larger than "
    "the available KV cache memory (3.1 GiB). Based on the available memory, the estimated maximum model length is 22528."
)
DAMAGED = "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered"


def log(model: str, *rows: str, arguments: str = "") -> str:
    return "\n".join([BANNER, f"(APIServer pid=1) INFO 11-05 03:10:00 [utils.py:233] non-default args: {{'model': '{model}'{arguments}}}", *rows])


def told(text: str) -> Diagnosis:
    return diagnose(read_bytes(text.encode()), Known())


def stack(total_gib: float, free_gib: float | None, name: str = "NVIDIA GeForce RTX 3060") -> GpuStack:
    free: Fact[int] = Fact(None, "", "no") if free_gib is None else Fact(int(free_gib * GIB), "t")
    return GpuStack(gpus=(Gpu(index=0, vendor="nvidia", name=name, vram_total_bytes=Fact(int(total_gib * GIB), "t"), vram_free_bytes=free),))


def shares(diagnosis: Diagnosis) -> list[str]:
    return [fix.flags[FLAG] for finding in diagnosis.findings for fix in finding.fixes if FLAG in fix.flags]


def test_a_larger_share_is_at_most_what_is_free() -> None:
    found = told(log("/home/user/m", TOO_LONG, arguments=", 'gpu_memory_utilization': 0.8"))
    hold(found, stack(12, 10.9))
    assert shares(found) == ["0.89"]
    assert any("0.89 is free" in fix.summary for fix in found.findings[0].fixes)


def test_a_larger_share_is_no_way_out_where_no_more_is_free() -> None:
    found = told(log("/home/user/m", TOO_LONG, arguments=", 'gpu_memory_utilization': 0.9"))
    hold(found, stack(12, 10.9))
    assert shares(found) == []
    assert any("89%" in text for text in found.findings[0].look)


def test_the_default_share_counts_where_none_was_given() -> None:
    found = told(log("/home/user/m", TOO_LONG))
    hold(found, stack(12, 10.9))
    assert shares(found) == []


def test_an_idle_card_gets_what_the_rule_says() -> None:
    found = told(log("/home/user/m", TOO_LONG))
    hold(found, stack(24, 23.9))
    assert shares(found) == ["0.94"]


def test_another_gpu_than_the_log_s_says_nothing() -> None:
    row = "INFO 11-05 03:10:00 [x.py:1] GPU 0: NVIDIA GeForce RTX 4090"
    found = told(log("/home/user/m", row, TOO_LONG))
    assert found.gpu is not None
    hold(found, stack(12, 6))
    assert shares(found) == ["0.94"]
    hold(found, stack(24, 22, "NVIDIA GeForce RTX 4090"))
    assert shares(found) == []


def test_on_windows_no_figure_is_given_that_nothing_speaks_for() -> None:
    found = told(log("/mnt/c/m", TOO_LONG))
    assert found.wsl
    hold(found, GpuStack())
    assert shares(found) == []
    assert any("0.93 at most" in fix.summary for fix in found.findings[0].fixes)


def test_a_start_on_the_processor_is_not_told_of_the_gpu() -> None:
    row = "(Worker pid=2) INFO 11-05 03:10:00 [cpu_model_runner.py:68] Starting to load model /home/user/m..."
    found = told(log("/home/user/m", row, TOO_LONG))
    assert shares(found) == []
    assert [fix.env for fix in found.findings[0].fixes if fix.env] == [{"VLLM_CPU_KVCACHE_SPACE": "4"}]


@given(st.floats(1, 200), st.floats(0, 1))
def test_a_share_that_is_given_is_free(total: float, part: float) -> None:
    share = free_share(stack(total, total * part), None)
    assert share is not None
    assert share * int(total * GIB) <= int(total * part * GIB)
    found = told(log("/home/user/m", TOO_LONG))
    hold(found, stack(total, total * part))
    assert all(float(s) <= share for s in shares(found))


def test_the_machine_is_asked_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "vllm.log"
    path.write_text(log("/home/user/m", TOO_LONG, arguments=", 'gpu_memory_utilization': 0.7"))
    assert main(["diagnose", str(path), "--machine", str(MACHINES / "wsl2-rtx3060-model-on-d")]) == 0
    out = capsys.readouterr().out
    assert "0.94" not in out
    assert "--gpu-memory-utilization 0.89" in out


# -- the model's own name in commands -------------------------------------------------------------------------------


def commands(model: str, error: str = DAMAGED) -> list[str]:
    return [c for fix in told(log(model, error)).findings[0].fixes for c in fix.commands]


def test_the_folder_and_what_a_recipe_calls_it_stand_in_the_commands() -> None:
    assert commands("/home/user/models/Qwen3-8B")[:2] == [
        "ls -la /home/user/models/Qwen3-8B",
        "hf download Qwen/Qwen3-8B --local-dir /home/user/models/Qwen3-8B --force-download",
    ]


def test_a_repository_s_files_lie_in_the_cache() -> None:
    assert commands("someone/a-model")[:2] == [
        "ls -la ~/.cache/huggingface/hub/models--someone--a-model/snapshots/*/",
        "hf download someone/a-model --force-download",
    ]
    path = "/home/user/.cache/huggingface/hub/models--someone--a-model/snapshots/0123abc"
    assert commands(path)[:2] == [f"ls -la {path}", "hf download someone/a-model --force-download"]


def test_a_word_that_stays_is_explained() -> None:
    found = told(log("/home/user/models/own-finetune", DAMAGED)).findings[0]
    assert any("REPOSITORY stands for" in text for text in found.look)
    assert not any("MODEL_FOLDER" in c for fix in found.fixes for c in fix.commands)


def test_no_fix_sets_an_option_to_a_word_that_has_to_be_replaced() -> None:
    from wizard.diagnose import rulebook

    for rule in rulebook.load().rules:
        for row in rule.fixes:
            assert not any("REPOSITORY" in str(v) or "FOLDER" in str(v) for v in row.get("flags", {}).values()), rule.id


@given(st.text(min_size=1, max_size=40))
def test_a_folder_s_name_is_one_word_of_the_command(name: str) -> None:
    made = filled(["ls -la MODEL_FOLDER"], "/" + name)[0]
    if "MODEL_FOLDER" not in made and "snapshots" not in made:
        assert shlex.split(made) == ["ls", "-la", "/" + name]


TOO_FEW_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
COMMAND = "$ vllm serve /home/user/m --kv-cache-memory-bytes 1M"
NAMESPACE = "INFO 11-05 03:10:00 [api_server.py:1] args: Namespace(model='/home/user/m', kv_cache_memory_bytes=1048576, port=8000)"


@pytest.mark.parametrize("failure", [TOO_LONG, TOO_FEW_BLOCKS])
@pytest.mark.parametrize(
    "text",
    [
        log("/home/user/m", "{failure}", arguments=", 'kv_cache_memory_bytes': 1048576"),
        f"{COMMAND}\n{BANNER}\n{{failure}}",
        f"{BANNER}\n{NAMESPACE}\n{{failure}}",
    ],
)
def test_a_cache_whose_size_was_set_by_hand_is_set_free_first(text: str, failure: str) -> None:
    found = told(text.replace("{failure}", failure))
    fixes = found.findings[0].fixes
    assert fixes[0].flags == {"--kv-cache-memory-bytes": None}
    assert "--kv-cache-memory-bytes" in fixes[0].summary
    # what the flag overrides is no cure while it stands
    assert shares(found) == []
    assert not any(fix.env for fix in fixes)


def test_a_number_of_blocks_that_was_set_by_hand_is_set_free_first() -> None:
    found = told(log("/home/user/m", TOO_LONG, arguments=", 'num_gpu_blocks_override': 64"))
    assert found.findings[0].fixes[0].flags == {"--num-gpu-blocks-override": None}


@pytest.mark.parametrize("more", ["", ", 'kv_cache_memory_bytes': None"])
def test_a_flag_that_was_not_given_is_not_spoken_of(more: str) -> None:
    for name in (log("/home/user/m", TOO_LONG, arguments=more), f"{NAMESPACE.replace('1048576', 'None')}\n{TOO_LONG}"):
        assert not any("--kv-cache-memory-bytes" in fix.flags for fix in told(name).findings[0].fixes)


@pytest.mark.parametrize(("free", "most"), [("15.2", 15.2 / 23.99), ("21.0", 21.0 / 23.99)])
def test_no_fix_asks_for_more_than_the_log_says_was_free(free: str, most: float) -> None:
    line = (
        f"ValueError: Free memory on device cuda:0 ({free}/23.99 GiB) on startup is less than desired GPU memory utilization (0.91, 21.83 GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    found = diagnose(read_bytes(("ERROR 11-30 10:00:00 [core.py:8] EngineCore failed to start.\n" + line).encode()), Known()).findings[0]
    shares = [float(str(fix.flags[FLAG])) for fix in found.fixes if FLAG in fix.flags]
    assert shares
    assert max(shares) <= most
    assert sum("nvidia-smi" in " ".join(fix.commands) for fix in found.fixes) == 1
