"""A small made-up machine and plan: pictures and quick tests that do not depend on what the real plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wizard.facts import (
    Cpu,
    Docker,
    Gpu,
    GpuStack,
    Machine,
    Memory,
    Mount,
    MountKind,
    ProbeRun,
    Problem,
    PythonFacts,
    Severity,
    SystemKind,
    Vendor,
    Wsl,
    known,
    unknown,
)
from wizard.fit_types import FitResult, Interval, Line, WayOut
from wizard.models.info import FoundModel, ModelInfo
from wizard.plan_types import Choice, Decision, FlagRow, MovePlanHint, Plan, Step
from wizard.session import Session, Value

GIB = 1024**3
HOME = "/home/user"
SMALL, LARGE, ON_D = f"{HOME}/models/Small-4B-Instruct", f"{HOME}/models/Large-70B-Instruct", "/mnt/d/models/Vision-8B"
DOWNLOAD = "maker/Coder-12B-FP8"


def machine(trouble: bool = True) -> Machine:
    gpu = Gpu(0, "NVIDIA GeForce RTX 4090", Vendor.NVIDIA, known(24 * GIB, "test"), known(int(22.5 * GIB), "test"), known("8.9", "test"))
    problem = Problem(
        "docker_no_nvidia_runtime",
        Severity.WARNING,
        "Docker cannot give GPUs to containers",
        "The NVIDIA Container Toolkit is not set up for this engine. A local environment works without it.",
        ("sudo apt-get install -y nvidia-container-toolkit", "sudo nvidia-ctk runtime configure --runtime=docker", "sudo systemctl restart docker"),
    )
    lines = (
        ("system", "Ubuntu 24.04 LTS, WSL2", 0.1),
        ("gpu", "NVIDIA GeForce RTX 4090 24.0 GiB (22.5 GiB free), driver 591.86, CUDA up to 13.1", 0.4),
        ("cpu", "13th Gen Intel(R) Core(TM) i9-13900KS, 32 threads", 0.0),
        ("memory", "31.2 GiB, 29.0 GiB available, swap 8.0 GiB", 0.0),
        ("wsl", "Ubuntu, 2.6.1.0, nat", 0.0),
        ("disks", "828.9 GiB free on /, Windows drives: /mnt/c, /mnt/d", 0.0),
        ("docker", "Docker 28.5.1, Compose 2.40.2, no GPUs", 0.0),
    )
    none: Any = unknown("not asked")
    return Machine(
        name="example",
        system=SystemKind.WSL2,
        os_name=known("Ubuntu 24.04 LTS", "test"),
        kernel=known("6.6.87.2-microsoft-standard-WSL2", "test"),
        home=HOME,
        cpu=Cpu(known("Intel i9", "test"), known(32, "test"), "x86_64"),
        memory=Memory(known(31 * GIB, "test"), known(29 * GIB, "test"), known(8 * GIB, "test"), known(8 * GIB, "test")),
        gpu=GpuStack((gpu,), Vendor.NVIDIA, known("591.86", "test"), known("13.1", "test")),
        docker=Docker(known("28.5.1", "test"), known("28.5.1", "test"), known("2.40.2", "test"), known(False, "test"), known(not trouble, "test")),
        python=PythonFacts(known("3.12.3", "test"), known("/usr/bin/python3", "test"), known("0.9.8", "test")),
        mounts=(
            Mount("/", "ext4", MountKind.LINUX, "/dev/sdc"),
            Mount("/mnt/d", "9p", MountKind.WINDOWS_DRIVE, "D:\\", windows_path="D:\\"),
        ),
        wsl=Wsl(known("Ubuntu", "test"), known("2.6.1.0", "test"), none, known("nat", "test"), known(True, "test"), host_memory_bytes=known(64 * GIB, "test"), host_logical_cpus=known(32, "test")),
        used_ports=frozenset({8080}),
        runs=tuple(ProbeRun(name, seconds, True, summary=told) for name, told, seconds in lines),
        problems=(problem,) if trouble else (),
    )


class NoRecipes:
    """A book of recipes that knows none."""

    def find(self, source: str) -> None:
        return None


def info(source: str, weight_gib: float, **more: Any) -> ModelInfo:
    return ModelInfo(
        source, True, repo_id=f"maker/{source.rsplit('/', 1)[-1]}", architecture="ExampleForCausalLM", dtype="bfloat16",
        parameters=int(weight_gib * GIB / 2), weight_bytes=int(weight_gib * GIB), max_model_len=131072, **more,
    )  # fmt: skip


MODELS = {
    SMALL: info(SMALL, 7.6),
    LARGE: info(LARGE, 131.4),
    ON_D: info(ON_D, 16.3, modalities=("text", "image", "video")),
    DOWNLOAD: info(DOWNLOAD, 12.4, quantization="fp8"),
}


def session(trouble: bool = True) -> Session:
    found = (
        FoundModel(SMALL, "maker/Small-4B-Instruct", "huggingface", int(7.6 * GIB)),
        FoundModel(LARGE, "maker/Large-70B-Instruct", "folder", int(131.4 * GIB)),
        FoundModel(ON_D, "Vision-8B", "folder", int(16.3 * GIB), mount_kind="windows-drive"),
        FoundModel(f"{HOME}/models/half", "half", "folder", 3 * GIB, complete=False, problem="shard 2 of 4 is missing"),
    )
    return Session(machine=machine(trouble), recipes=NoRecipes(), found=found, models=MODELS)  # type: ignore[arg-type]


def planner(held: Session) -> Plan:
    """A plan that follows the answers in a plain way, as fast as can be."""
    table: dict[str, tuple[Value, str]] = {
        "model": (SMALL, "the best that lies on this machine and fits"),
        "runtime": ("local", "Docker cannot give GPUs to containers here"),
        "release": ("0.33.0", "the newest release, and nothing speaks against it"),
        "venv": (f"{HOME}/vllm/venv", "an environment of its own"),
        "image": ("vllm/vllm-openai:v0.33.0", "the official image of this release"),
        "intent": ("chat", "the most common use"),
        "max_num_seqs": (8, "enough for this purpose; more only wait for their turn"),
        "gpu_memory_utilization": (0.91, "the Windows desktop holds 1.5 GiB of 24.0 GiB"),
        "kv_cache_dtype": ("auto", "the model's own type"),
        "tools": (False, "not needed for this purpose"),
        "reasoning": (True, "its reasoning format is known"),
        "served_model_name": ("Small-4B-Instruct", "the model's own name"),
        "trust_remote_code": (False, "vLLM knows this architecture"),
        "wsl_write": (True, "the lines that a server needs"),
        "wsl_memory_gib": (40, "Windows keeps 24.0 of 64.0 GiB"),
        "wsl_swap_gib": (10, "a quarter of the memory, at least 4 GiB"),
        "wsl_processors": (30, "two are left to Windows"),
        "wsl_keep_alive": (True, "a server should go on when the last terminal is closed"),
        "port": (8000, "vLLM's usual port"),
        "access": ("local", "only programs on this machine reach the server"),
        "out_dir": (f"{HOME}/vllm/small-4b-instruct", "a folder of its own for each model"),
        "move": (True, "it lies on a Windows drive, where loading takes many times as long"),
        "move_to": (f"{HOME}/models/Vision-8B", "in the Linux file system"),
    }  # fmt: skip
    intent = held.answers.get("intent")
    long = intent is not None and intent[0] == "long"
    table["max_model_len"] = (65536 if long else 16384, "as long as fits" if long else "enough for this purpose; the model itself allows 131072")
    decisions: list[Decision] = []
    for key, (proposed, reason) in table.items():
        given = held.answers.get(key)
        if given is None:
            decisions.append(Decision(key, proposed, reason, "detected"))
        else:
            decisions.append(Decision(key, given[0], f"chosen by you; vllm-wizard would take {proposed}", given[1].value, proposed=proposed))
    values = {d.key: d.value for d in decisions}
    source = str(values["model"])
    model = held.models.get(source)
    argv = (source, "--served-model-name", str(values["served_model_name"]), "--max-model-len", str(values["max_model_len"]), "--max-num-seqs", str(values["max_num_seqs"]))
    if values["tools"]:
        argv += ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    for key, (given_value, _layer) in ((k, held.answers.get(k) or ("", None)) for k in ("seed", "block_size")):
        if given_value != "":
            argv += (f"--{key.replace('_', '-')}", str(given_value))
    seed = held.answers.get("seed")
    made = Plan(
        session=held,
        machine=held.machine,
        device="nvidia",
        model=model,
        model_argument=source,
        host_model_path=source,
        runtime=str(values["runtime"]),
        release=None,
        image=None,
        image_reference=None,
        argv=argv,
        env={"VLLM_LOGGING_LEVEL": "INFO"},
        decisions=tuple(decisions),
        gpus=(0,),
        choices=CHOICES,
        fit=fit(model.weight_bytes or 0) if model is not None else None,
        flag_rows=tuple(replace(r, value=str(seed[0])) if r.dest == "seed" and seed is not None else r for r in FLAG_ROWS),
        after=(
            Step("Let WSL2 take its new resources", ("wsl --shutdown",), "powershell", "Ends every running distribution. Save your work first."),
            Step("Start the server", (f"cd {HOME}/vllm/small-4b-instruct", "./launch.sh"), consequence="Ready when it says “Application startup complete”."),
        ),
    )  # fmt: skip
    if source == ON_D:
        hint = MovePlanHint(ON_D, str(values["move_to"]), int(16.3 * GIB), "windows-drive", 117.0, "it lies on a Windows drive", bool(values["move"]))
        made = replace(made, move=hint)
    if made.fit is not None and not made.fit.fits:
        blocker = Problem("does_not_fit", Severity.BLOCKER, "The model does not fit.", made.fit.problems[0])
        made = replace(made, blockers=(blocker,))
    return made


def fit(weights: int) -> FitResult:
    budget = int(0.91 * 24 * GIB)
    rest = int(2.2 * GIB)
    pool = float(max(0, budget - weights - rest))
    fits = pool > GIB
    return FitResult(
        fits=fits, fits_best=fits, certain=True, utilization=0.91, utilization_reason="", budget_bytes=budget, weights_bytes=weights,
        activation_bytes=rest // 2, non_torch_bytes=rest // 4, cuda_graph_bytes=rest // 4, lora_bytes=0, draft_bytes=0,
        kv_cache_bytes=Interval(pool, pool * 0.9, pool * 1.1), kv_cache_tokens=Interval(pool / 131072, pool / 140000, pool / 120000),
        kv_bytes_per_token=131072, max_model_len=16384, max_model_len_that_fits=65536, concurrency=pool / 131072 / 16384,
        lines=(Line("held_by_others", int(1.5 * GIB), "the desktop"),),
        problems=() if fits else ("weights (131.4 GiB) leave no room for the cache in 21.8 GiB",),
        ways_out=() if fits else (WayOut("variant", "maker/Coder-12B-FP8 fits (12.4 GiB)"), WayOut("more_gpus", "8 GPUs of this kind hold it")),
    )  # fmt: skip


CHOICES = {
    "model": (
        Choice(SMALL, "maker/Small-4B-Instruct", "here, 7.6 GiB", recommended=True),
        Choice(ON_D, "Vision-8B", "here, on a slow drive, 16.3 GiB"),
        Choice(LARGE, "maker/Large-70B-Instruct", "here, 131.4 GiB", against="does not fit"),
        Choice(DOWNLOAD, DOWNLOAD, "is downloaded at the first start, 12.4 GiB"),
    ),
    "runtime": (
        Choice("docker", "Docker image", "everything in it; nothing is installed on this machine", "the engine has no NVIDIA runtime", disabled=True),
        Choice("local", "Local environment", "made with uv at the first start", recommended=True),
    ),
    "release": (
        Choice("0.33.0", "0.33.0", "newest", recommended=True),
        Choice("0.32.0", "0.32.0"),
        Choice("0.29.0", "0.29.0", against="the default start on WSL2 fails (set right in the command)"),
        Choice("0.19.1", "0.19.1", "last with CUDA 12 images"),
    ),
    "intent": (
        Choice("chat", "Chat", "one or a few people writing", recommended=True),
        Choice("agent", "Coding agent with tools", "long prompts, tool calls"),
        Choice("long", "Longest context", "one request as long as fits"),
        Choice("throughput", "Most throughput", "many short requests at once"),
    ),
    "kv_cache_dtype": (Choice("auto", "auto"), Choice("fp8", "fp8", "half the size")),
    "access": (
        Choice("local", "This machine only", "also from Windows itself", recommended=True),
        Choice("network", "The network", "with an API key"),
    ),
}  # fmt: skip

FLAG_ROWS = (
    FlagRow("block_size", "--block-size", "Tokens in one block of the KV cache.", "16", None, "none", "int"),
    FlagRow("enable_prefix_caching", "--enable-prefix-caching", "Keep the cache of common beginnings.", "true", None, "none; it uses the pool", "flag"),
    FlagRow("seed", "--seed", "The seed of sampling.", "0", None, "none", "int"),
)
