"""What one run in a log tells about itself: release, command, model, GPU, how far it came."""

from __future__ import annotations

from wizard.diagnose.lazy import Lazy

TYPE_CHECKING = False
if TYPE_CHECKING:

    from wizard.diagnose.reader import NumberedLines

# In the order in which a start passes them; the words are those of vLLM 0.4 to 0.33.
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("arguments", ("API server version", "  version ", "non-default args", "args: Namespace", "Automatically detected platform")),
    ("configuration", ("Resolved architecture", "Using max model len", "Chunked prefill is enabled", "Defaulting to use mp", "This model supports multiple tasks")),
    ("engine", ("Initializing a V1 LLM engine", "Initializing a V0 LLM engine", "Initializing an LLM engine", "Initializing an V1 LLM engine", "llm_engine.py")),
    ("loading", ("Starting to load model", "Loading safetensors checkpoint", "Loading pt checkpoint", "Loading weights", "Loading model weights", "Loading the weights")),
    ("profiling", ("Model loading took", "Loading model weights took", "model weights take", "Dynamo bytecode transform", "Memory profiling", "Initial profiling", "Encoder cache will be initialized", "torch.compile takes")),
    ("kv_cache", ("Available KV cache memory", "KV cache size:", "# GPU blocks:", "# cuda blocks:", "GiB for KV cache", "num_gpu_blocks_override", "num_gpu_blocks is")),
    ("graphs", ("Capturing CUDA graph", "Capturing cudagraphs", "Capturing the model for CUDA graphs", "Graph capturing finished")),
    ("ready", ("Application startup complete", "Uvicorn running on")),
    ("serving", ('HTTP/1.1" 200', "Avg prompt throughput", "Engine 000:", "Processed prompts: 100%")),
)  # fmt: skip
READY = len(STAGES) - 2
NAMES = tuple(name for name, _words in STAGES)
_CONTEXT_CHARS = 2 << 20

_MULTILINE = 8  # re.MULTILINE
_RELEASE = (
    Lazy(r"vLLM API server version (\S+)", ("API server version",)),
    Lazy(r"LLM engine \(v?([0-9][\w.+]*)\)", ("LLM engine (",)),
    Lazy(r"█.*version\s+v?([0-9][\w.+]*)", ("█",)),
    Lazy(r"(?i)vllm version\W{1,8}v?([0-9]+\.[0-9]+[\w.+]*)", ("ersion",)),
    Lazy(r"vllm-openai(?:-\w+)?:v([0-9]+\.[0-9]+[\w.+]*)", ("vllm-openai",)),
    Lazy(r"\bvllm==([0-9]+\.[0-9]+[\w.+]*)", ("vllm==",)),
    Lazy(r"(?i)\bvllm[ -]?v?([0-9]+\.[0-9]+\.[0-9]+[\w.+]*)", ("vllm", "vLLM", "VLLM")),
)
_MODEL = (
    Lazy(r"with config: (?:VllmConfig\()?model(?:_config)?='([^']+)'", ("with config: ",)),
    Lazy(r"'model(?:_tag)?': '([^']+)'", ("'model",)),
    Lazy(r"█.*model\s+(\S+)", ("█",)),
    Lazy(r"Namespace\(.*?model(?:_tag)?='([^']+)'", ("Namespace(",)),
    Lazy(r"Starting to load model (\S+?)\.\.\.", ("Starting to load model",)),
    Lazy(r"vllm serve (?:\\\s+)?([^\s\-`\\<][^\s`]*)", ("vllm serve ",)),
    Lazy(r"--model[ =]([^\s\\`<]+)", ("--model",)),
)
_GPU = (
    Lazy(r"GPU 0: ([^\n(]{3,60}?)(?: \(|\s*$)", ("GPU 0: ",), _MULTILINE),
    Lazy(r"Your (.{3,60}?) GPU has compute capability", ("GPU has compute capability",)),
    Lazy(r"\b((?:NVIDIA )?(?:GeForce )?(?:RTX|GTX)(?: PRO)? ?\d{3,4}(?: ?Ti| ?SUPER| ?Laptop)*)\b", ("RTX", "GTX")),
    Lazy(r"\b(?:NVIDIA )?((?:A100|H100|H200|B200|L40S?|A10G?|A6000|T4|V100)(?:-\w+)*)\b", ("A100", "H100", "H200", "B200", "L40", "A10", "A6000", "T4", "V100")),
)
_UTILIZATION = (
    Lazy(r"gpu[-_]memory[-_]utilization'?\"?[=: ]{1,3}(0?\.\d+|1\.0|1)\b", ("memory",)),
    Lazy(r"gpu_memory_utilization \((0?\.\d+)\)", ("gpu_memory_utilization (",)),
    Lazy(r"desired GPU memory utilization \((0?\.\d+)", ("desired GPU memory",)),
)
_COMMAND = Lazy(
    r"(?:^|[\s$#`])((?:vllm serve|python3? -m vllm\.entrypoints\.openai\.api_server|docker run .*vllm)\b.*)$",
    ("vllm serve", "vllm.entrypoints.openai.api_server", "docker run"),
    _MULTILINE,
)
_STOPPED = ("     Shutting down", "received signal=SIG", "Waiting for application shutdown", "Received SIGINT", "Received SIGTERM")
_FLAG = Lazy(r"'(\w+)': ('(?:[^'\\]|\\.)*'|[^,{}\[\]]+)")
_WSL = ("WSL is detected", "microsoft-standard-WSL2", "WSL2", "/mnt/c/", "/mnt/d/", "/mnt/e/", "wsl: ", "dxgkio", "dxgk:", "/usr/lib/wsl/", ".wslconfig")
_DOCKER = ("docker", "container", "dist-packages/vllm", "/vllm-workspace")


class Run:
    """Lines ``first`` to ``last`` (exclusive) of the kept lines: one start of a server, or all of them."""

    def __init__(self, lines: NumberedLines, first: int, last: int) -> None:
        self.lines = lines
        self.first = first
        self.last = last
        self.marks: list[tuple[int, int]] = []  # (stage, index of the line that shows it), rising
        self.cut = False  # whether ``text`` lacks the middle
        self._text: str | None = None
        self._ascii: str | None = None
        self._arguments: dict[str, str] | None = None
        self._mark()

    def _mark(self) -> None:
        text = self.ascii
        if self.cut:
            self._mark_lines()
            return
        reached = -1
        for stage, (_name, words) in enumerate(STAGES):
            places = [at for at in (text.find(word) for word in words) if at >= 0]
            if not places:
                continue
            at = min(places)
            if at > reached:
                reached = at
                self.marks.append((stage, self.first + text.count("\n", 0, at)))

    def _mark_lines(self) -> None:
        """The same, line by line."""
        reached = -1
        for index in range(self.first, self.last):
            row = self.lines.lines[index]
            for stage in range(reached + 1, len(STAGES)):
                if any(word in row for word in STAGES[stage][1]):
                    self.marks.append((stage, index))
                    reached = stage
                    break

    @property
    def text(self) -> str:
        """The run's lines (of a huge one the beginning and the end)."""
        if self._text is None:
            text = "\n".join(self.lines.lines[self.first : self.last])
            if len(text) > 2 * _CONTEXT_CHARS:
                self.cut = True
                text = text[:_CONTEXT_CHARS] + "\n" + text[-_CONTEXT_CHARS:]
            self._text = text
        return self._text

    def stage_at(self, index: int) -> int:
        """The stage that was reached before the line ``index``; -1 when nothing tells."""
        reached = -1
        for stage, at in self.marks:
            if at < index:
                reached = stage
        return reached

    def stopped_before(self, index: int) -> bool:
        """Whether the server, once up, was told to stop before the line ``index``."""
        rows = self.lines.lines
        return any(word in row for row in rows[self.ready_index : index] for word in _STOPPED if self.ready_index >= 0)

    @property
    def stage(self) -> int:
        return self.marks[-1][0] if self.marks else -1

    @property
    def ready_index(self) -> int:
        """Index of the line that says that the server is up, or -1."""
        return next((at for stage, at in self.marks if stage >= READY), -1)

    @property
    def ascii(self) -> str:
        """The text with "?" for whatever is not ASCII: Python searches that several times as fast."""
        if self._ascii is None:
            text = self.text
            self._ascii = text if text.isascii() else text.encode("ascii", "replace").decode("ascii")
        return self._ascii

    def find(self, patterns: tuple[Lazy, ...], limit: int = _CONTEXT_CHARS) -> str | None:
        text = self.text[:limit] if len(self.text) > limit else self.text
        for pattern in patterns:
            found = pattern.search(text)
            if found is not None:
                return found[1].strip().rstrip(".,;:'\")")
        return None

    @property
    def release(self) -> str | None:
        return self.find(_RELEASE)

    @property
    def model(self) -> str | None:
        return self.find(_MODEL)

    @property
    def gpu(self) -> str | None:
        return self.find(_GPU, 1 << 16)

    @property
    def command(self) -> str | None:
        found = _COMMAND.search(self.text)
        return found[1].strip().strip("`")[:2000] if found else None

    @property
    def utilization(self) -> float | None:
        """As the log gives it; the default is not filled in."""
        value = self.find(_UTILIZATION)
        try:
            return float(value) if value else None
        except ValueError:
            return None

    @property
    def arguments_seen(self) -> bool:
        return "non-default args" in self.text or "args: Namespace" in self.text or self.command is not None

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the "non-default args" line, by name."""
        if self._arguments is None:
            at = self.text.find("non-default args: {")
            line = self.text[at : self.text.find("\n", at)] if at >= 0 else ""
            self._arguments = {m[1]: m[2].strip("'\" ") for m in _FLAG.compiled.finditer(line)}
        return self._arguments

    @property
    def wsl(self) -> bool | None:
        return True if any(word in self.text for word in _WSL) else None

    @property
    def docker(self) -> bool | None:
        return True if any(word in self.text for word in _DOCKER) else None


def _announces(row: str) -> bool:
    return "API server version" in row or ("█" in row and " version " in row)


def runs_of(lines: NumberedLines) -> list[Run]:
    """The runs in a log, in order: a new one begins where a server announces itself after another one ended."""
    rows = lines.lines
    if sum([_announces(row) for row in rows if "version" in row]) < 2:
        return [Run(lines, 0, len(rows))] if rows else []
    starts = [0]
    ended = announced = False
    for index, row in enumerate(rows):
        if "version" in row and _announces(row):
            if announced and ended:
                starts.append(index)
                ended = False
            announced = True
        elif not ended and ("Traceback" in row or "rror:" in row or "Shutting down" in row or "startup complete" in row or "Killed" in row or "initialization failed" in row):
            ended = True
    ends = [*starts[1:], len(rows)]
    return [Run(lines, a, b) for a, b in zip(starts, ends) if b > a]  # noqa: B905  (strict= is not in 3.9; equal by making)
