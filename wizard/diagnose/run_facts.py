"""What one run in a log tells about itself: release, command, model, GPU, how far it came."""

from __future__ import annotations

from wizard.diagnose.lazy import Lazy
from wizard.diagnose.lines import LONGEST_MESSAGE_CHARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

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
_LINES_A_WORD = 30
_CONTINUED_LINES = 60

_MULTILINE = 8  # re.MULTILINE
_RELEASE = (
    Lazy(r"vLLM API server version (\S+)", ("API server version",)),
    Lazy(r"LLM engine \(v?([0-9][\w.+]*)\)", ("LLM engine (",)),
    Lazy(r"█.*version\s+v?([0-9][\w.+]*)", ("  version ",)),
    Lazy(r"(?i)vllm version\W{1,40}v?([0-9]+\.[0-9]+[\w.+]*)", ("LLM Version", "LLM version", "llm version")),
    Lazy(r"vllm-openai(?:-\w+)?:v([0-9]+\.[0-9]+[\w.+]*)", ("vllm-openai",)),
    Lazy(r"\bvllm==([0-9]+\.[0-9]+[\w.+]*)", ("vllm==",)),
    Lazy(r"(?i)\bvllm[ -]?v?([0-9]+\.[0-9]+\.[0-9]+[\w.+]*)", ("vllm", "vLLM", "VLLM")),
)
_MODEL = (
    Lazy(r"with config: (?:VllmConfig\()?model(?:_config)?='([^']+)'", ("with config: ",)),
    Lazy(r"'model(?:_tag)?': '([^']+)'", ("'model",)),
    Lazy(r"█.*model\s+(\S+)", ("  model ",)),
    Lazy(r"Namespace\(.*?model(?:_tag)?='([^']+)'", ("Namespace(",)),
    Lazy(r"Starting to load model (\S+?)\.\.\.", ("Starting to load model",)),
    Lazy(r"vllm serve (?:\\\s+)?(?=\S*[/.\d~_$-])([^\s\-`\\<][^\s`]*)", ("vllm serve ",)),
    Lazy(r"--model[ =]([^\s\\`<]+)", ("--model",)),
)
_GPU = (
    Lazy(r"GPU 0: ([^\n(]{3,60}?)(?: \(|\s*$)", ("GPU 0: ",), _MULTILINE),
    Lazy(r"Your (.{3,60}?) GPU has compute capability", ("GPU has compute capability",)),
    Lazy(r"\b((?:NVIDIA )?(?:GeForce )?(?:RTX|GTX)(?: PRO)? ?\d{3,4}(?: ?Ti| ?SUPER| ?Laptop)*)\b", ("RTX", "GTX")),
    Lazy(r"\b(?:NVIDIA )?((?:A100|H100|H200|B200|L40S?|A10G?|A6000|T4|V100)(?:-\w+)*)\b", ("A100", "H100", "H200", "B200", "L40", "A10", "A6000", "T4", "V100")),
)
_UTILIZATION = (
    Lazy(r"gpu[-_]memory[-_]utilization'?\"?[=: ]{1,3}(0?\.\d+|1\.0|1)\b", ("memory-utilization", "memory_utilization")),
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
_CPU = ("cpu_worker.py", "cpu_model_runner.py", "Automatically detected platform cpu", "device_config=cpu", "vllm-openai-cpu", "CPU_KVCACHE_SPACE")
_DOCKER = ("docker", "container", "vllm/vllm-openai", "dist-packages/vllm", "/vllm-workspace")


class _Part:
    """Some of a run's lines, searched as one text."""

    __slots__ = ("indices", "text")

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.text = ""

    def read(self, rows: list[str]) -> None:
        text = "\n".join([rows[index] for index in self.indices])
        # Python searches ASCII several times as fast.
        self.text = text if text.isascii() else text.encode("ascii", "replace").decode("ascii")

    def index_of(self, at: int) -> int:
        return self.indices[self.text.count("\n", 0, at)]

    def find(self, word: str, begin: int, logged: bool) -> int:
        """Where the word stands; ``logged``: on a line of a logger, not in what somebody says of it."""
        at = self.text.find(word, begin)
        while logged and at >= 0:
            start = self.text.rfind("\n", 0, at) + 1
            if "INFO" in self.text[start:at] or not self.text[start:at].strip():
                break
            at = self.text.find(word, at + 1)
        return at

    def indices_with(self, needles: tuple[str, ...]) -> list[int]:
        out = set()
        for needle in needles:
            at = self.text.find(needle)
            for _turn in range(_LINES_A_WORD):
                if at < 0:
                    break
                out.add(self.index_of(at))
                at = self.text.find("\n", at)
                at = self.text.find(needle, at) if at >= 0 else -1
        return sorted(out)


class Run:
    """Lines ``first`` to ``last`` (exclusive) of the kept lines: one start of a server, or all of them."""

    def __init__(self, lines: NumberedLines, first: int, last: int) -> None:
        self.lines = lines
        self.first = first
        self.last = last
        self._text: str | None = None
        self._quiet = _Part()
        self._errors = _Part()
        self._marks: list[tuple[int, int]] | None = None
        self._found: dict[object, str | None] = {}
        self._progress: dict[tuple[str, int], int] = {}
        self._arguments: dict[str, str] | None = None

    @property
    def text(self) -> str:
        """The run's lines (of a huge one the beginning and the end)."""
        if self._text is None:
            text = "\n".join(self.lines.lines[self.first : self.last])
            if len(text) > 2 * _CONTEXT_CHARS:
                text = text[:_CONTEXT_CHARS] + "\n" + text[-_CONTEXT_CHARS:]
            self._text = text
        return self._text

    @property
    def marks(self) -> list[tuple[int, int]]:
        """(stage, index of the line that shows it), rising."""
        if self._marks is None:
            self._look_through()
        return self._marks or []

    def says(self, word: str) -> bool:
        """Whether a line holds the word, but for what a server at work says again and again. ASCII only."""
        if self._marks is None:
            self._look_through()
        return word in self._quiet.text or word in self._errors.text

    def _look_through(self) -> None:
        quiet, errors = self._quiet, self._errors
        working = -1
        rows = self.lines.lines
        for index in range(self.first, self.last):
            row = rows[index]
            if "HTTP/1.1" in row or "throughput: " in row:
                if working < 0 and ('HTTP/1.1" 200' in row or "throughput: " in row):
                    working = index
            elif " ERROR " in row:
                errors.indices.append(index)
            else:
                quiet.indices.append(index)
        quiet.read(rows)
        errors.read(rows)
        self._marks = marks = []
        reached, begin = self.first, 0
        for stage, (_name, words) in enumerate(STAGES):
            places = [at for at in [quiet.find(word, begin, stage == READY) for word in words] if at >= 0]
            indices = [quiet.index_of(min(places))] if places else []
            if stage == len(STAGES) - 1 and working >= 0:
                indices.append(working)
            if indices and min(indices) >= reached:
                reached = min(indices)
                begin = min(places, default=begin)
                marks.append((stage, reached))

    def stage_at(self, index: int) -> int:
        """The stage that was reached before the line ``index``; -1 when nothing tells."""
        reached = -1
        for stage, at in self.marks:
            if at < index:
                reached = stage
        return reached

    def last_progress(self, own: str, stage: int) -> int:
        """Index of the last line that shows a later stage than this one; -1 without. ``own``: words of the process
        that must stand on it; "" any but a worker, which goes on for a while when others have failed."""
        key = (own, stage)
        if key not in self._progress:
            words = [word for _name, more in STAGES[stage + 1 :] for word in more]
            rows = self.lines.lines
            self._progress[key] = -1
            for index in range(self.last - 1, self.first - 1, -1):
                row = rows[index]
                if " ERROR " not in row and (own in row if own else "Worker" not in row[:40]) and any(word in row for word in words):
                    self._progress[key] = index
                    break
        return self._progress[key]

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

    def find(self, patterns: tuple[Lazy, ...]) -> str | None:
        """The first group of the first pattern that matches a line; None when none does."""
        if patterns not in self._found:
            self._found[patterns] = self._search(patterns)
        return self._found[patterns]

    def _search(self, patterns: tuple[Lazy, ...]) -> str | None:
        for pattern in patterns:
            for row in self._lines_with(pattern.needles):
                found = pattern.search(row)
                if found is not None:
                    return str(found[1]).strip().rstrip(".,;:'\")")
        return None

    def _lines_with(self, needles: tuple[str, ...]) -> Iterator[str]:
        """Lines that hold one of the words, errors last; only the first few with each."""
        if self._marks is None:
            self._look_through()
        for part in (self._quiet, self._errors):
            for index in part.indices_with(needles):
                yield self._continued(index)[:LONGEST_MESSAGE_CHARS]

    def _continued(self, index: int) -> str:
        """A line with those behind it that a backslash at its end makes part of it."""
        rows = self.lines.lines
        text = rows[index]
        for more in rows[index + 1 : min(self.last, index + _CONTINUED_LINES)]:
            if not text.endswith("\\"):
                break
            text = text[:-1].rstrip() + " " + more.strip()
        return text

    @property
    def release(self) -> str | None:
        return self.find(_RELEASE)

    @property
    def model(self) -> str | None:
        return self.find(_MODEL)

    @property
    def gpu(self) -> str | None:
        return self.find(_GPU)

    @property
    def command(self) -> str | None:
        found = self.find((_COMMAND,))
        return found.strip("`")[:2000] if found else None

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
        return self.says("non-default args") or self.says("args: Namespace") or self.command is not None

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the "non-default args" line, by name."""
        if self._arguments is None:
            at = self.text.find("non-default args: {")
            line = self.text[at : self.text.find("\n", at)] if at >= 0 else ""
            self._arguments = {m[1]: m[2].strip("'\" ") for m in _FLAG.compiled.finditer(line)}
        return self._arguments

    def value_of(self, name: str) -> str | None:
        """The value that the option ``name`` (its dest) was given, by the log's arguments or its command; None: none seen."""
        found = self.arguments.get(name)
        if found is not None or self.command is None:
            return found
        import re

        hits = re.findall(rf"--(?:{_spelt(name)})[ =]+['\"]?([^\s'\"\\]+)", self.command)
        return hits[-1] if hits else None

    def given(self, name: str) -> bool:
        """Whether the option ``name`` (its dest) was given with a value: by the log's arguments, or its command."""
        if self.arguments.get(name, "None") != "None":
            return True
        import re  # a log whose rules ask for nothing of the kind is read without it

        if self.command is not None and re.search(rf"--(?:{_spelt(name)})(?=[ =])", self.command):
            return True
        at = self.text.find("args: Namespace(")
        line = self.text[at:].split("\n", 1)[0] if at >= 0 else ""
        return re.search(rf"[( ]{name}=(?!None\b)", line) is not None

    @property
    def cpu(self) -> bool:
        """Whether vLLM ran on the processor alone."""
        return any(self.says(word) for word in _CPU)

    @property
    def wsl(self) -> bool | None:
        return True if any(self.says(word) for word in _WSL) else None

    @property
    def docker(self) -> bool | None:
        return True if any(self.says(word) for word in _DOCKER) else None


def _spelt(name: str) -> str:
    """The spellings of an option, for an expression: vLLM takes "-" and "_" alike."""
    return f"{name}|{name.replace('_', '-')}"


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
