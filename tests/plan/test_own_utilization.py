"""Reasons of sizes: the user's own utilization as the cause, and how a number of requests follows from the room."""

from __future__ import annotations

import re

import pytest

from tests.fit.test_layout import CHAT, DEEPSEEK_V3, H200, chosen, model
from tests.plan.conftest import session_of
from wizard.cluster.layout import best, session_for
from wizard.fit import GIB, FitRequest, GpuMemory
from wizard.fit_layout import experts_problem, takes_experts
from wizard.models.inspect import from_config
from wizard.plan import plan


def test_a_low_utilization_of_ones_own_is_named_as_the_cause() -> None:
    card = GpuMemory(int(31.4 * GIB), int(31.0 * GIB), "RTX 5090", "12.0")
    base = FitRequest("0.33.0", card.total_bytes, gpu_memory_utilization=0.5)
    low = chosen(model("Qwen3-8B"), card, 1, CHAT, base=base, ram_free_bytes=64 * GIB)
    picked = next(p for p in low.picks if p.key == "cpu_offload_gb")
    assert "your own GPU memory utilization of 0.5 is the cause" in picked.reason
    length = next(p for p in low.picks if p.key == "max_model_len")
    assert length.value == "16384" or "utilization of 0.5 leaves less room" in length.reason
    free = chosen(model("Qwen3-8B"), card, 1, CHAT, ram_free_bytes=64 * GIB)
    assert free.value("cpu_offload_gb") is None
    small = GpuMemory(int(15.6 * GIB), int(15.2 * GIB), "RTX 4060 Ti 16GB", "8.9")
    last = next(p for p in chosen(model("Qwen3-8B"), small, 1, CHAT, ram_free_bytes=64 * GIB).picks if p.key == "cpu_offload_gb")
    assert "the last resort" in last.reason


@pytest.mark.parametrize("machine", ["native-rtx5090", "native-4x-h200"])
def test_the_number_of_requests_follows_from_its_reason(machine: str) -> None:
    made = plan(session_of(machine))
    seqs, reason = int(str(made.value("max_num_seqs"))), made.reason("max_num_seqs")
    room = re.search(r"holds ([\d.]+) requests of full length, taken down to a multiple of 8", reason)
    assert room is not None, reason
    assert seqs == int(float(room[1])) // 8 * 8


def test_why_experts_are_not_spread_is_said() -> None:
    session = session_of("native-4x-h200", model="Qwen/Qwen3.5-122B-A10B")
    one = plan(session)
    found = best(session_for(session, session.machine, session.machine.gpu.gpus, 2), one, 2, 4, None)
    assert found.layout.expert_parallel or "its experts are not spread over all GPUs: vLLM spreads none beside LoRA adapters" in found.reason
    info, request = from_config(DEEPSEEK_V3, source="x"), FitRequest("0.33.0", H200.total_bytes)
    assert takes_experts(info, request, 8)
    assert "256 experts for 512 GPUs" in (experts_problem(info, request, 512) or "")
