"""A start-up log, line by line -> the stages that the start passes, with times, progress and rates.

Pure: it is fed lines and clock readings and answers with events. The words are those that launch.sh, Docker, uv
and vLLM 0.6 to 0.33 print; texts of several ages stand side by side, and unknown lines are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from wizard.i18n import N_

GIB = 1 << 30


@dataclass(frozen=True)
class StageEvent:
    """One thing that happened. ``state``: "started", "progress", "done" or "failed"."""

    stage: str
    state: str
    at_s: float  # seconds since the start, by the caller's clock
    detail: str = ""  # figures as the log gives them: "14.99 GiB", "22,528 tokens"
    fraction: float | None = None  # 0..1, where the log shows progress
    rate_bytes_s: float | None = None
    seconds: float | None = None  # how long the stage took, once it is done


@dataclass
class Stage:
    """What is known of one stage so far, for display."""

    name: str
    started_s: float
    ended_s: float | None = None
    detail: str = ""
    fraction: float | None = None
    rate_bytes_s: float | None = None
    failed: bool = False

    def seconds(self, now_s: float) -> float:
        return max(0.0, (now_s if self.ended_s is None else self.ended_s) - self.started_s)


# In the order in which a start passes them; a start leaves out what it does not need.
TITLES: dict[str, str] = {
    "check": N_("Checks"),
    "install": N_("Environment"),
    "pull": N_("Image"),
    "engine": N_("Engine start"),
    "download": N_("Model download"),
    "weights": N_("Weights"),
    "compile": N_("Compile"),
    "profiling": N_("Memory profiling"),
    "kv_cache": N_("KV cache"),
    "graphs": N_("CUDA graphs"),
    "ready": N_("Ready"),
}
ORDER = {name: number for number, name in enumerate(TITLES)}
# Stages whose length depends on the network, not on the model: no start-up time-out counts in them.
UNBOUNDED = frozenset({"check", "install", "pull", "download"})

_PERCENT = r"\d{1,3}%"
_SIGNS: tuple[tuple[str, str], ...] = (
    ("install", r"^Installing vLLM \S+ into |^Resolved \d+ packages|^Prepared \d+ packages|^Installed \d+ packages|^Downloading (?!shards)\S+ \([\d.]+ ?[KMG]iB\)|^Using CPython |^Creating virtual environment"),
    ("pull", r"^Unable to find image |Pulling from |: Pulling fs layer|: (?:Download|Pull) complete|: (?:Downloading|Extracting)\b|^\s*\S+ Pull(?:ing|ed)\b|^Status: Downloaded newer image"),
    ("engine", r"vLLM API server version|non-default args: |args: Namespace\(|Initializing an? (?:V[01] )?LLM engine|Waiting for core engine|█.*version \d"),
    ("download", rf"Fetching \d+ files:\s+{_PERCENT}|\.safetensors:\s+{_PERCENT}|Downloading shards:\s+{_PERCENT}|Time spent downloading weights for"),
    ("weights", rf"Starting to load model |Loading (?:\w+ )?(?:safetensors|pt|npcache|bitsandbytes|gguf)?\s*(?:checkpoint )?(?:using .* )?shards:\s+{_PERCENT}|Loading weights took|Loading model weights took|Model loading took|model weights take|Loading weights with"),
    ("compile", r"torch_compile_cache|Dynamo bytecode transform time|Compiling a graph for|Directly load the compiled graph|torch\.compile t(?:akes|ook)|Warming up model for the compilation|Compiling model again|saved AOT compiled function|Cache the graph (?:for|of)|Warming up done"),
    ("profiling", r"Memory profiling (?:takes|results?)|Initial profiling/warmup run took|profiling run took|Encoder cache will be initialized|the rest of the memory reserved for KV Cache|Profiling CUDA graph memory"),
    ("kv_cache", r"Available KV cache memory|KV cache size: |# (?:GPU|cuda|CPU|cpu) blocks: |GiB for KV cache|Maximum concurrency for"),
    ("graphs", rf"Capturing (?:the model for )?(?:CUDA |cuda|encoder CUDA )?(?:graph|cudagraph)[^:]*:\s+{_PERCENT}|Capturing (?:the model for )?(?:CUDA ?graphs?|cudagraphs?)\b|Capturing [\w ]*CUDA graphs|Graph capturing finished"),
    # launch.sh names these words in quotes before anything has started.
    ("ready", r"Application startup complete(?!”)|Uvicorn running on"),
)  # fmt: skip
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _SIGNS)
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What stands before vLLM's own text: compose's service name, the process, the level, the time, the file.
_PREFIX = re.compile(
    r"^(?:[\w.-]+\s*\|\s)?(?:\([^)]*pid=\d+\)\s)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]\s*)?(?:\d\d-\d\d \d\d:\d\d:\d\d\s)?(?:\[[^\]]*\]\s?)?"
)
_DETAILS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("weights", re.compile(r"(?:Model loading took|Loading model weights took) ([\d.]+) ?(?:GiB|GB)"), "{} GiB"),
    ("weights", re.compile(r"model weights take\s+([\d.]+) ?GiB"), "{} GiB"),
    ("kv_cache", re.compile(r"KV cache size: ([\d,]+) tokens"), "{} tokens"),
    ("kv_cache", re.compile(r"# (?:GPU|cuda) blocks: (\d+)"), "{} blocks"),
    ("compile", re.compile(r"torch\.compile t(?:akes|ook) ([\d.]+) s"), "{} s"),
    ("graphs", re.compile(r"Graph capturing finished in \d+ secs?, took ([\d.]+) GiB"), "{} GiB"),
    ("engine", re.compile(r"LLM engine \(v?([\w.+]+)\)"), "vLLM {}"),
    ("engine", re.compile(r"vLLM API server version (\S+)"), "vLLM {}"),
    ("engine", re.compile(r"█.*version (\d\S*)"), "vLLM {}"),
)
_LOADED_IN = re.compile(r"Loading weights took ([\d.]+) seconds|Model loading took [\d.]+ ?(?:GiB|GB)(?: memory)? and ([\d.]+) seconds")
_LAYER = re.compile(r"^([0-9a-f]{8,12}): (Pulling fs layer|Download complete|Pull complete|Already exists)")


@dataclass
class StageReader:
    """Reads a log as it grows. ``weight_bytes`` (of the whole model) lets the rate of loading be told."""

    weight_bytes: int | None = None
    stages: dict[str, Stage] = field(default_factory=dict)
    current: str | None = None
    _layers: dict[str, str] = field(default_factory=dict)
    _loaded_s: float | None = None

    @property
    def ready(self) -> bool:
        return "ready" in self.stages and not self.stages["ready"].failed

    def begin(self, at_s: float = 0.0) -> list[StageEvent]:
        """The start itself: launch.sh makes its checks first."""
        return self._enter("check", at_s)

    def feed(self, line: str, at_s: float) -> list[StageEvent]:
        """What one line tells; mostly nothing."""
        text = _PREFIX.sub("", _ANSI.sub("", line), count=1) if line else ""
        for name, pattern in _COMPILED:
            found = pattern.search(text)
            if found:
                return self._seen(name, text, found, at_s)
        return []

    def feed_all(self, lines: Iterable[str], at_s: float) -> list[StageEvent]:
        return [event for line in lines for event in self.feed(line, at_s)]

    def finish(self, at_s: float, failed: bool) -> list[StageEvent]:
        """The process is gone, or the start is given up."""
        if self.current is None:
            return []
        stage = self.stages[self.current]
        if stage.ended_s is not None and not failed:
            return []
        stage.ended_s = at_s
        stage.failed = failed
        return [StageEvent(stage.name, "failed" if failed else "done", at_s, stage.detail, seconds=stage.seconds(at_s))]

    def _seen(self, name: str, text: str, found: re.Match[str], at_s: float) -> list[StageEvent]:
        events: list[StageEvent] = []
        if self.current is None or ORDER[name] > ORDER[self.current]:
            events += self._enter(name, at_s)
        stage = self.stages.get(name)
        if stage is None:
            return events  # a word of a stage that was passed without being seen: a late worker
        for of, pattern, form in _DETAILS:
            figure = pattern.search(text) if of == name else None
            if figure:
                stage.detail = form.format(figure.group(1))
        told = self._progress(stage, text, found, at_s)
        if told or (stage.detail and not events):
            events.append(StageEvent(name, "progress", at_s, stage.detail, stage.fraction, stage.rate_bytes_s))
        return events

    def _progress(self, stage: Stage, text: str, found: re.Match[str], at_s: float) -> bool:
        bar = re.search(r"(\d{1,3})%", found.group()) if stage.name in ("weights", "download", "graphs") else None
        if stage.name == "pull":
            return self._layer(stage, text)
        loaded = _LOADED_IN.search(text) if stage.name == "weights" else None
        if loaded:
            seconds = float(loaded.group(1) or loaded.group(2))
            stage.fraction = 1.0
            # Workers load side by side: the slowest of them is what was waited for.
            self._loaded_s = max(seconds, self._loaded_s or 0.0)
            if self.weight_bytes and self._loaded_s > 0:
                stage.rate_bytes_s = self.weight_bytes / self._loaded_s
            return True
        if bar is None:
            return False
        fraction = min(1.0, int(bar.group(1)) / 100)
        if stage.fraction is not None and fraction < stage.fraction:
            return False  # another worker's bar, or a second round of graphs
        stage.fraction = fraction
        passed = at_s - stage.started_s
        if stage.name in ("weights", "download") and self.weight_bytes and fraction and passed > 0.5:
            stage.rate_bytes_s = self.weight_bytes * fraction / passed
        return True

    def _layer(self, stage: Stage, text: str) -> bool:
        found = _LAYER.search(text)
        if found is None:
            return False
        self._layers[found.group(1)] = found.group(2)
        done = sum(state in ("Pull complete", "Already exists") for state in self._layers.values())
        half = sum(state == "Download complete" for state in self._layers.values())
        stage.fraction = (done + half / 2) / len(self._layers)
        return True

    def _enter(self, name: str, at_s: float) -> list[StageEvent]:
        events = []
        if self.current is not None:
            before = self.stages[self.current]
            before.ended_s = at_s
            events.append(
                StageEvent(before.name, "done", at_s, before.detail, before.fraction, before.rate_bytes_s, before.seconds(at_s))
            )
        self.current = name
        self.stages[name] = Stage(name, at_s)
        if name == "ready":
            self.stages[name].ended_s = at_s
            return [*events, StageEvent(name, "done", at_s, seconds=at_s)]
        return [*events, StageEvent(name, "started", at_s)]


def split_lines(buffer: str) -> tuple[list[str], str]:
    """Whole lines of a growing log, and the rest; a carriage return ends a line as well (progress bars)."""
    parts = re.split(r"\r\n|\n|\r", buffer)
    return [part for part in parts[:-1] if part], parts[-1]
