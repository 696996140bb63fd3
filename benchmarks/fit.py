"""Weights and KV pool as predicted, by us and by the peers, against measured start-ups: one table.

    python benchmarks/fit.py [--peers PYTHON] [--markdown FILE]

PYTHON is the interpreter of an environment with the peers: ``pip install ridgepoint kvfit hf-mem llmfit vllm-wizard``
(the last one is another project of that name). They are run as their users run them, with the model's config.json
and a safetensors header served locally (``fit_hub.py``). Peers that predict no pool get the naive one: utilization
times total, less their weights.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fit.measured import ROWS, Row  # noqa: E402
from tests.fit.published import MODELS  # noqa: E402
from wizard.fit import GIB, FitRequest, fit  # noqa: E402
from wizard.models.arch import read  # noqa: E402
from wizard.models.inspect import from_config  # noqa: E402
from wizard.models.quant import detect  # noqa: E402
from wizard.models.weights import all_weights, element_bytes  # noqa: E402

HUB = Path(__file__).with_name("fit_hub.py")
PEERS = ("ridgepoint", "kvfit", "hf-mem", "llmfit", "vllm-wizard (PyPI)")
# llmfit knows models by name only; of ours it knows these
LLMFIT_NAMES = {"Llama-3.1-8B": "meta-llama/Llama-3.1-8B-Instruct", "Llama-3-8B": "meta-llama/Meta-Llama-3-8B-Instruct", "Qwen2.5-7B": "Qwen/Qwen2.5-7B-Instruct", "Qwen3-8B": "Qwen/Qwen3-8B", "Qwen3-14B": "Qwen/Qwen3-14B", "Qwen3-32B": "Qwen/Qwen3-32B", "Qwen3-0.6B": "Qwen/Qwen3-0.6B"}  # fmt: skip


@dataclass
class Score:
    name: str
    weights: list[float] = field(default_factory=list)  # signed relative errors
    pools: list[float] = field(default_factory=list)
    refused: int = 0

    def line(self, rows: int) -> list[str]:
        def mean(values: list[float]) -> str:
            return f"{100 * statistics.mean(abs(v) for v in values):.2f} %" if values else "-"

        worst = f"{100 * max(self.pools):+.1f} %" if self.pools else "-"
        over = str(sum(v > 0.03 for v in self.pools)) if self.pools else "-"
        return [self.name, f"{rows - self.refused} of {rows}", mean(self.weights), mean(self.pools), worst, over]


def facts(name: str) -> dict[str, Any]:
    """What a hub would serve of a model: its config and a header with tensors of the right sizes."""
    config = MODELS[name]
    arch, quant = read(config), detect(config)
    header: dict[str, Any] = {}
    at = 0
    for i, weight in enumerate(w for w in all_weights(arch) if w.kind != "mtp"):
        size = element_bytes(weight, quant, 2.0)
        amount = int(weight.elements * size)
        kind = "BF16" if size == 2 else "F32" if size == 4 else "F8_E4M3" if size == 1 else "U8"
        shape = [amount] if kind == "U8" else [weight.stack, weight.rows, weight.cols] if weight.stack > 1 else [weight.rows, weight.cols]
        label = {"experts": "mlp.experts", "embedding": "embed_tokens", "lm_head": "lm_head"}.get(weight.kind, "self_attn")
        header[f"model.layers.{i}.{label}.weight"] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + amount]}
        at += amount
    return {"config": config, "header": header, "bytes": at}


class Peers:
    """Runs the peers; every answer is (weights GiB per GPU or None, pool GiB per GPU or None)."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python = python
        self.folder = folder
        used = sorted({r.model for r in ROWS})
        table = {f"org/{n}": facts(n) for n in used}
        (folder / "facts.json").write_text(json.dumps(table))
        for repo, known in table.items():
            entry = folder / "hf/hub" / ("models--" + repo.replace("/", "--"))
            snapshot = entry / "snapshots" / ("0" * 40)
            snapshot.mkdir(parents=True)
            (entry / "refs").mkdir()
            (entry / "refs/main").write_text("0" * 40)
            (snapshot / "config.json").write_text(json.dumps(known["config"]))
        self.env = {**os.environ, "HUB_FACTS": str(folder / "facts.json"), "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}

    def _json(self, *argv: str) -> dict[str, Any] | None:
        done = subprocess.run(argv, capture_output=True, text=True, env=self.env, timeout=120, check=False)
        start = done.stdout.find("{")
        try:
            found = json.loads(done.stdout[start:], strict=False) if start >= 0 else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def _module(self, entry: str, *words: str) -> dict[str, Any] | None:
        return self._json(self.python, str(HUB), entry, *words)

    def ask(self, peer: str, row: Row) -> tuple[float | None, float | None]:
        budget = row.total * row.utilization
        if peer == "ridgepoint":
            gpu = {"RTX 3090": "rtx-3090", "RTX 4090": "rtx-4090", "L4": "l4"}.get(row.gpu, "h100-80gb")
            got = self._module("ridgepoint.cli:main", "fit", f"org/{row.model}", "--gpu", f"{gpu}:{row.tp}", "--ctx", str(row.length), *_ridgepoint_dtype(row.model), "--json")
            if got is None:
                return None, None
            memory = got["memory"]
            # it computes with its own utilization: what ours differs by is added in its favour
            share = got["engine"]["util"]
            return memory["weights_bytes"]["best"] / GIB / row.tp, memory["kv_pool_bytes"]["best"] / GIB / row.tp + row.total * (row.utilization - share)
        if peer == "kvfit":
            words = ["--gpus", str(row.tp), "--tp", str(row.tp), "--context", str(row.length), "--utilization", str(row.utilization), "--device-memory-gib", str(row.total), "--json"]
            got = self._module("kvfit.cli:main", f"org/{row.model}", "--hardware", "h100-80gb", *words)
            layout = ((got or {}).get("concurrency") or {}).get("best_any_fabric") or {}
            layout = layout.get("layout") or {}
            if "weights_per_rank_gib" not in layout:
                return None, None
            return layout["weights_per_rank_gib"], layout["budget_per_rank_gib"] - layout["weights_per_rank_gib"]
        if peer == "hf-mem":
            got = self._module("hf_mem.cli:main", "--model-id", f"org/{row.model}", "--experimental", "--max-model-len", str(row.length), "--json-output")
            if got is None or "memory" not in got:
                return None, None
            weights = got["memory"] / GIB / row.tp
            return weights, budget - weights
        if peer == "llmfit":
            name = LLMFIT_NAMES.get(row.model)
            if name is None:
                return None, None
            got = self._json(str(Path(self.python).with_name("llmfit")), "--json", "plan", name, "--context", str(row.length), "--quant", "F16")
            if got is None or not got.get("disk_size_gb"):
                return None, None
            weights = got["disk_size_gb"] / row.tp
            return weights, budget - weights
        path = self.folder / "hf/hub" / f"models--org--{row.model}" / "snapshots" / ("0" * 40)
        words = ["--gpu", "H100", "--vram-gb", str(row.total), "--gpus", str(row.tp), "--tensor-parallel-size", str(row.tp), "--max-model-len", str(row.length), "--gpu-memory-utilization", str(row.utilization)]  # fmt: skip
        billions = (from_config(MODELS[row.model], source="x").parameters or 0) / 1e9
        quant = detect(MODELS[row.model])
        told_quant = {"gptq": "gptq", "awq": "awq", "fp8": "fp8"}.get(quant.method or "", "none")
        if quant.method == "compressed-tensors":
            told_quant = "fp8" if "FP8" in quant.detail else "int8"
        words += ["--quantization", told_quant]
        got = self._json(str(Path(self.python).with_name("vllm-wizard")), "plan", "--model", str(path), *words, "--params-b", f"{billions:.3f}", "--json")
        if got is None or "feasibility" not in got:
            return None, None
        told = got["feasibility"]
        return told["weights_gb"], budget - told["weights_gb"] - told["overhead_gb"] / row.tp


def _ridgepoint_dtype(model: str) -> list[str]:
    """Its --dtype must be told what the checkpoint is."""
    quant = detect(MODELS[model])
    return ["--dtype", "fp8" if quant.bits == 8 else "awq"] if quant.method else []


def ours(row: Row) -> tuple[float, float]:
    info = from_config(MODELS[row.model], source=row.model)
    request = FitRequest(
        row.release, int(row.total * GIB), gpu_name=row.gpu, gpu_memory_utilization=row.utilization, tensor_parallel_size=row.tp, pipeline_parallel_size=row.pp,
        max_model_len=row.length, **row.more,
    )  # fmt: skip
    result = fit(info, request)
    return result.weights_bytes / GIB, result.kv_cache_bytes.best / GIB


def table(scores: list[Score], rows: int) -> str:
    head = ["tool", "answered", "weights, mean error", "KV pool, mean error", "KV pool, worst too high", "rows more than 3 % too high"]
    lines = [head, ["---"] * len(head), *(s.line(rows) for s in scores)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--markdown", metavar="FILE")
    args = parser.parse_args()
    # on-the-fly dtype and quantization are left out: the peers cannot be told of them
    rows = [r for r in ROWS if r.pool and not (set(r.more) & {"dtype", "quantization"})]
    mine = Score("this project")
    for row in rows:
        weights, pool = ours(row)
        if row.weights:
            mine.weights.append(weights / row.weights - 1)
        mine.pools.append(pool / (row.pool or 1) - 1)
    scores = [mine]
    if args.peers:
        with tempfile.TemporaryDirectory() as name:
            peers = Peers(args.peers, Path(name))
            for peer in PEERS:
                score = Score(peer)
                for row in rows:
                    w, p = peers.ask(peer, row)
                    if w is None or p is None:
                        score.refused += 1
                        continue
                    if row.weights:
                        score.weights.append(w / row.weights - 1)
                    score.pools.append(p / (row.pool or 1) - 1)
                scores.append(score)
    text = table(scores, len(rows))
    print(text)
    if args.markdown:
        Path(args.markdown).write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
