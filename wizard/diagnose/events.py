"""Lines -> what happened, per process: exceptions with their frames and chains, and other lines of note.

Tracebacks of several processes may be interleaved; each process has its own state here. A pasted excerpt may
begin in the middle of a traceback or have lost its indentation.
"""

from __future__ import annotations

from wizard.diagnose.lazy import Lazy
from wizard.diagnose.lines import LONGEST_MESSAGE_CHARS, Parsed, parse, without_foreign_logger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wizard.diagnose.reader import NumberedLines

# How exceptions' names end; classes are recognized by it outside of tracebacks.
_ENDINGS = (
    "Error", "Exception", "Interrupt", "Exit", "Failed", "Failure", "Timeout", "Fault", "NotFound", "Unsupported",
    "Died", "Killed", "StopIteration", "NotImplemented", "Warning", "OutOfMemory", "SerializationException",
)  # fmt: skip


def is_frame(text: str) -> bool:
    """``File "x.py", line 3, in run``"""
    if not text.startswith('File "'):
        return False
    name, found, rest = text[6:].partition('", line ')
    if not found or not name or '"' in name:
        return False
    number, comma, where = rest.partition(", in ")
    return number.isdigit() and (not comma or bool(where))


def exception_of(text: str, inside: bool = False) -> tuple[str, str] | None:
    """(type, message) of ``some.module.SomeError: message``; ``inside`` a traceback any name will do."""
    kind, _colon, message = text.partition(":")
    name = kind
    if name.endswith(")"):
        name, _bracket, more = name.partition("(")
        if not _is_dotted(more[:-1] or "x"):
            return None
    if not _is_dotted(name):
        return None
    if inside:
        if message and not message[0].isspace():
            return None
        return kind, message.strip()
    last = name.rpartition(".")[2]
    if not (last[0].isupper() or last[0] == "_") or not last.endswith(_ENDINGS):
        return None
    if last in _ENDINGS and last == name and last != "Exception":
        return None  # a word of its own, as in "Warning: ..."
    return kind, message.strip()


def _is_dotted(name: str) -> bool:
    if name.isidentifier():
        return True
    return "." in name and all(part.isidentifier() for part in name.split("."))


# An exception in the middle of prose, as people quote it.
_QUOTED = Lazy(r"(?<![\w.])(?P<type>(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)): (?P<message>\S.*)$", ("Error: ", "Exception: ", "Interrupt: "))
_MARKS = frozenset("^~ \t")
_CONTINUED_LINES = 60
_FOREIGN_LINES = 400
_SAMPLE_LINES = 200
MAX_EVENTS_A_RUN = 4000

# What a line is: an exception, the code it stands at, a line of its message, an error or warning of a logger, a
# message of another program (compiler, NCCL, docker, shell ...), any other line, prose that quotes an exception.
EXC, CODE, DETAIL, ERROR, WARNING, TOOL, PLAIN, PROSE, INFO = (
    "exception", "code", "detail", "error", "warning", "tool", "plain", "prose", "info",
)  # fmt: skip
_TOOL = Lazy(
    r"\bNCCL WARN\b|\[[EF]\d* ?[^\]]*ProcessGroupNCCL|ProcessGroupNCCL's watchdog|Watchdog caught|Heartbeat monitor|(?i:\b(?:fatal )?error\s?:)|\bfatal\s*:|^wsl: |^docker: |^(?:Error response from daemon: |Could not fetch URL |Caused by: |├─▶|╰─▶)|dxgk|^(?:\S+: line \d+:\s+\d+ )?Killed\b|Killed process|^Terminated\b"
    r"|^curl: |^ninja: |/ld: |ptxas|[Ss]egmentation fault|Segfault|Fatal Python|core dumped|^(?:\./|/usr/bin/|/bin/|env: |bash: )"
    r"|cannot open shared object|ioctl|No such file or directory|Permission denied|^! |^\S+ \| ERROR|terminate called|CMake Error|LLVM ERROR|libc\+\+abi",
    ("NCCL", "Watchdog", "Heartbeat", "rror", "fatal", "wsl: ", "docker: ", "from daemon: ", "fetch URL ", "Caused by: ", "─▶", "dxgk", "Killed", "Terminated", "curl: ", "ninja: ", "/ld: ", "ptxas", "egmentation", "Segfault", "Fatal", "core dumped",
     "/bin/", "./", "env: ", "bash: ", "cannot open", "ioctl", "No such file", "Permission", "! ", "terminate called", "libc++abi"),
)


class Event:
    """Something that a rule may name as the cause.

    ``index`` is the place among the lines that were kept, ``text`` the message itself; ``frames`` joins the
    files, functions and code of the traceback (innermost last); ``chain`` numbers the chain of exceptions that
    it belongs to, ``link`` says how it follows the one before ("cause" or "context").
    """

    __slots__ = ("apart", "bare", "chain", "frames", "has_traceback", "index", "kind", "level", "link", "name", "next_index", "proc", "text", "times", "type")

    def __init__(self, kind: str, index: int, text: str, parsed: Parsed) -> None:
        self.kind = kind
        self.index = index
        self.text = text
        self.proc = parsed.proc
        self.name = parsed.name
        self.level = parsed.level
        self.type = ""
        self.frames = ""
        self.chain = 0
        self.link = ""
        self.apart = False  # a blank line stands between it and the exception whose message it may belong to
        self.bare = False
        self.has_traceback = False
        self.next_index = -1  # first continued line of the message
        self.times = 1


class _Stream:
    """One process' traceback in the making."""

    __slots__ = ("apart", "chain", "code_index", "code_text", "continued", "exc", "expects_code", "foreign", "frames", "ignored", "level", "link", "open", "parsed")

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.open = False
        self.expects_code = False
        self.code_index = -1
        self.code_text = ""
        self.chain = 0
        self.link = ""
        self.exc: Event | None = None
        self.level = ""
        self.continued = 0
        self.apart = False
        self.foreign = 0
        self.ignored = False
        self.parsed: Parsed | None = None

    def start(self) -> None:
        self.frames = []
        self.open = True
        self.expects_code = False
        self.code_index = -1
        self.code_text = ""
        self.exc = None
        self.foreign = 0


class Collector:
    """Feed lines one by one; :attr:`events` holds what came of them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._streams: dict[str, _Stream] = {}
        self._chains = 0
        self._ignores = ""
        self._seen: dict[tuple[str, str], Event] = {}

    def feed(self, index: int, raw: str) -> None:
        line = parse(raw)
        body = line.body
        text = body.strip()[:LONGEST_MESSAGE_CHARS]
        key = f"{line.service}|{line.proc}"
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream()
        if not text:
            if stream.exc is not None and not stream.exc.bare and not line.level:
                stream.continued += 5
                stream.apart = True
            return
        if "Traceback (most recent call last)" in text:
            if text[0] != "T":
                self._loose(stream, index, line, text)
            self._begin(stream, line)
            stream.ignored = self._ignores == key
            return
        # Python goes on after what it says this of.
        self._ignores = key if text.startswith("Exception ignored ") else ""
        first = text[0]
        if first == "F" and is_frame(text):
            self._frame(stream, line, text)
            return
        if first in "DT" and self._link(stream, text):
            return
        if stream.open:
            if self._inside(stream, index, line, body, text):
                return
        elif stream.exc is not None and self._continues(stream, line, body, text):
            exc = stream.exc
            if exc.next_index < 0:
                exc.next_index = index
            event = Event(DETAIL, index, text, line)
            event.level, event.apart = exc.level, stream.apart
            event.frames, event.chain, event.has_traceback = exc.frames, exc.chain, exc.has_traceback
            if not _is_exception(text):
                self._add(event)
                return
            stream.exc = None
        self._loose(stream, index, line, text)

    def skip(self) -> None:
        """A line of the main process' logger that tells nothing; it ends the message of an exception before it."""
        stream = self._streams.get("|")
        if stream is not None:
            stream.exc = None

    def finish(self) -> None:
        """Close what is still open: an excerpt may end before its exception."""
        for stream in self._streams.values():
            if stream.open:
                self._unfinished(stream)
            stream.open = False

    def _unfinished(self, stream: _Stream) -> None:
        """A traceback whose exception does not come: the innermost code is what there is."""
        if not stream.code_text or stream.parsed is None:
            return
        event = Event(CODE, stream.code_index, stream.code_text, stream.parsed)
        event.frames = "\n".join(stream.frames)
        event.has_traceback = True
        event.chain = stream.chain
        self._add(event)

    # -- parts of a traceback ---------------------------------------------------------------------------------

    def _begin(self, stream: _Stream, line: Parsed) -> None:
        if stream.open:
            self._unfinished(stream)
        link, chain = stream.link, stream.chain
        stream.start()
        stream.link = link
        if link:
            stream.chain = chain
        else:
            self._chains += 1
            stream.chain = self._chains
        stream.level = line.level
        stream.parsed = line

    def _frame(self, stream: _Stream, line: Parsed, text: str) -> None:
        if not stream.open:
            if stream.exc is not None and stream.exc.level == line.level and stream.exc.has_traceback and stream.continued < _CONTINUED_LINES:
                # Compilers add where in the user's code it was: part of the message, not another traceback.
                stream.exc.frames += "\n" + text
                return
            self._begin(stream, line)
        stream.parsed = line
        stream.expects_code = True
        if len(stream.frames) < 400:
            stream.frames.append(text)
        stream.foreign = 0

    def _link(self, stream: _Stream, text: str) -> bool:
        if text.startswith("During handling of the above exception"):
            stream.link = "context"
        elif text.startswith("The above exception was the direct cause"):
            stream.link = "cause"
        else:
            return False
        stream.exc = None
        return True

    def _inside(self, stream: _Stream, index: int, line: Parsed, body: str, text: str) -> bool:
        """Whether the line is part of the open traceback."""
        if line.level != stream.level and line.level:
            stream.foreign += 1
            if stream.foreign > _FOREIGN_LINES:
                stream.open = False
            return False
        indented = body[:1] in " \t"
        # Python names its own exceptions without a module; whatever is unindented behind frames ends the traceback.
        found = exception_of(text) if not indented or stream.expects_code is False else None
        if found is None and not indented and stream.frames and not stream.expects_code:
            found = exception_of(text, inside=True)
        if found is not None and not (stream.expects_code and indented):
            self._exception(stream, index, line, text, found)
            return True
        if stream.expects_code:
            stream.expects_code = False
            stream.code_index, stream.code_text = index, text
            stream.frames.append(text)
            return True
        if not set(text) - _MARKS or text.startswith("[Previous line repeated"):
            return True
        if indented:
            if len(stream.frames) < 400:
                stream.frames.append(text)
            return True
        stream.foreign += 1
        if stream.foreign > _FOREIGN_LINES:
            stream.open = False
        return False

    def _exception(self, stream: _Stream, index: int, line: Parsed, text: str, found: tuple[str, str]) -> None:
        event = Event(EXC, index, text, line)
        event.type, message = found
        event.frames = "\n".join(stream.frames)
        event.has_traceback = True
        if line.level in ("WARNING", "INFO", "DEBUG"):
            event.kind = WARNING  # it was caught, and told for what it is worth
        event.chain, event.link = stream.chain, stream.link
        event.bare = not message
        if stream.ignored:
            stream.open = stream.ignored = False
            return
        if event.bare and stream.code_text:
            code = Event(CODE, stream.code_index, stream.code_text, line)
            code.type = event.type
            code.frames, code.chain, code.link, code.has_traceback = event.frames, event.chain, event.link, True
            self._add(code)
        self._add(event)
        stream.open = False
        stream.link = ""
        stream.exc = event
        stream.continued = 0
        stream.apart = False

    def _continues(self, stream: _Stream, line: Parsed, body: str, text: str) -> bool:
        exc = stream.exc
        if exc is None or line.level != exc.level:
            stream.exc = None
            return False
        stream.continued += 1
        if stream.continued > _CONTINUED_LINES:
            stream.exc = None
            return False
        return True

    # -- lines outside of tracebacks --------------------------------------------------------------------------

    def _loose(self, stream: _Stream, index: int, line: Parsed, text: str) -> None:
        found = exception_of(text)
        if found is not None and line.level in ("", "ERROR", "CRITICAL") and not found[0].endswith("Warning"):
            event = Event(EXC, index, text, line)
            event.type, message = found
            event.bare = not message
            self._chains += 1
            event.chain, event.link = (stream.chain, stream.link) if stream.link else (self._chains, "")
            stream.link = ""
            self._add(event)
            stream.exc = event
            stream.continued = 0
            stream.apart = False
            return
        if line.level in ("ERROR", "CRITICAL"):
            kind = ERROR
        elif line.level == "WARNING" or (not line.level and "Warning: " in text):
            kind = WARNING
        elif line.level:
            kind = INFO
        else:
            kind = TOOL if _TOOL.search(text) else PLAIN
        if kind == PLAIN and (text.startswith("import ") or (text.startswith("from ") and " import " in text)):
            return  # a script that was pasted along
        event = Event(kind, index, text, line)
        if kind in (PLAIN, TOOL) and ": " in text:
            quoted = _QUOTED.search(text)
            if quoted is not None and (kind == PLAIN or _is_prose(text[: quoted.start()])):
                event.kind, event.type = PROSE, quoted["type"]
        self._add(event)

    def _add(self, event: Event) -> None:
        # The same words again, as every worker and every layer prints them, tell nothing new.
        key = (event.kind, event.text)
        known = self._seen.get(key)
        if known is not None:
            known.times += 1
            if event.frames and not known.frames:
                # Told first by its message alone, then with where it came from.
                known.frames, known.has_traceback = event.frames, event.has_traceback
                known.chain, known.link = event.chain, event.link
            return
        if len(self._seen) >= MAX_EVENTS_A_RUN:
            return
        self._seen[key] = event
        self.events.append(event)

    def count(self, event: Event) -> int:
        """How often the same message came."""
        known = self._seen.get((event.kind, event.text))
        return known.times if known is not None else 1


def _is_prose(text: str) -> bool:
    """Words of a person rather than of a program."""
    words = text.split()
    return bool(words) and all(word.strip(",.?!'\"`():;").isalpha() for word in words)


_PROSE_WORDS = 20  # a message of a program that is no exception is shorter, or holds names and figures
_WIDE_CHARS = 5


def is_running_text(event: Event) -> bool:
    """Whether the line is what somebody wrote about a failure: nothing shows that a program printed it (no level, no
    process, no traceback, no program's name before it), and it reads as sentences."""
    told = event.kind in (EXC, CODE) or (event.kind == DETAIL and not event.apart)
    if told or event.level or event.proc or (event.has_traceback and not event.apart):
        return False
    head, colon, _rest = event.text.partition(": ")
    if colon and head.isascii() and (" " not in head or head == "Error response from daemon"):
        return False  # "launch.sh: ...", "docker: ..."
    if sum(1 for c in event.text if "\u3040" <= c <= "\u9fff" or "\uac00" <= c <= "\ud7af") >= _WIDE_CHARS:
        return True
    words = [word.strip(",.?!'\"`():;") for word in event.text.split()]
    plain = sum(1 for word in words if word.isalpha())
    return len(words) >= _PROSE_WORDS and plain >= 0.75 * len(words)


def _is_exception(text: str) -> bool:
    return exception_of(text) is not None


def _holds(row: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110  (a generator takes twice as long)
        if word in row:
            return True
    return False


def _is_handed_on(rows: list[str]) -> bool:
    """Whether another program's logger wrote most of the lines, vLLM's own among them."""
    foreign = [row for row in rows if row[:4].isdigit() and " - " in row[19:60]]
    if len(foreign) * 2 <= len([row for row in rows if row.strip()]):
        return False
    for row in foreign:
        inner = parse(without_foreign_logger(row))
        if inner.proc or inner.src:
            return True
    return False


def collect(lines: NumberedLines, first: int, last: int, info_words: tuple[str, ...] = ()) -> Collector:
    """Everything of note in ``lines[first:last]``; of lines at the level INFO only those with one of the words."""
    collector = Collector()
    rows = lines.lines
    handed_on = _is_handed_on(rows[first : min(last, first + _SAMPLE_LINES)])
    for index in range(first, last):
        row = without_foreign_logger(rows[index]) if handed_on else rows[index]
        at = row.find("INFO", 0, 140)
        if at >= 0 and (at == 0 or row[at - 1] in " m") and not (info_words and _holds(row, info_words)):
            if at < 3:
                collector.skip()
            continue
        collector.feed(index, row)
    collector.finish()
    return collector
