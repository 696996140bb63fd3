"""One line of a log without what stands around the message: colours, container and journal prefixes, process
names, levels."""

from __future__ import annotations

from wizard.diagnose.lazy import Lazy, from_json

# Colour codes as they are, and as they look when the escape character was lost on the way.
_ANSI = Lazy(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|(?:\^\[|\\x1b|\\u001b|\\033)?\[\d{1,3}(?:;\d{1,3})*m")
_OUTER = Lazy(
    r"(?P<service>[A-Za-z0-9][\w.-]{0,63})\s{0,40}\|(?: |$)"  # docker compose
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP])?(?: |$)"  # docker logs -t, journald ISO, Kubernetes
    r"|[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d(?:\.\d+)?\s\S+\s[\w@.\-/]+(?:\[\d+\])?:(?: |$)"  # journalctl
    r"|\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\] (?=[^-\s])"  # build servers
    r"|\[pod/[^\]]+\] "
    r"|>\s?"
)
_PROC = Lazy(r"\((?P<name>[A-Za-z][\w.-]*)?(?: ?[a-z_]+=[\w.-]+)*? ?pid=(?P<pid>\d+)(?:, ip=[^)]*)?\) ?")
_RANK = Lazy(r"\[rank(?P<rank>\d+)\]:(?:\[[A-Z][^\]]{0,60}\] ?)? ?")
_LOG = Lazy(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)? \[?(?P<src>[\w./<>-]+:\d+)\] ?"
)
_PLAIN_LOG = Lazy(
    r"(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*\]?\s*(?:-\s*)?)?\[?(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?(?::\s{1,9}|:[\w.]+:|\s+-\s+)"
)

# A program that starts vLLM and logs its output line by line: "2026-05-29 09:14:45,594 - INFO - [container] ...".
_FOREIGN_LOGGER = Lazy(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z? - (?:[\w.-]+ - ){0,2}(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: -|:) (?:\[[\w ./-]{1,60}\] ?)?"
)

# Of a longer message only its beginning is looked at: many expressions take the square of the time for twice the length.
LONGEST_MESSAGE_CHARS = 1 << 13

_LOG_STARTS = frozenset("DIWEC[0123456789")
_LEVELS = ("INFO", "ERROR", "WARNING", "DEBUG", "CRITICAL")
_BLANKS = frozenset(" \t")


class Parsed:
    """``body`` is the message with its own indentation; ``proc`` names the process as the log does ("" unknown)."""

    __slots__ = ("body", "level", "name", "proc", "service", "src")

    def __init__(self, body: str, proc: str, name: str, service: str, level: str, src: str) -> None:
        self.body = body
        self.proc = proc
        self.name = name
        self.service = service
        self.level = level
        self.src = src


def without_colours(text: str) -> str:
    """The text without terminal codes."""
    return _ANSI.compiled.sub("", text) if _may_be_coloured(text) else text


def without_foreign_logger(text: str) -> str:
    """The line without what another program's logger put before it."""
    found = _FOREIGN_LOGGER.match(text)
    return text[found.end() :] if found is not None else text


def _message_of_json(raw: str) -> str:
    """Docker's own log files hold one JSON object a line."""
    try:
        return str(from_json(raw)["log"]).rstrip("\n")
    except (ValueError, KeyError, StopIteration):
        return raw  # cut off


def _may_be_coloured(text: str) -> bool:
    return "\x1b" in text or "[0m" in text or "[0;" in text or "[1;" in text or "[3" in text


def _may_have_outer(text: str) -> bool:
    """Whether a prefix of a container, journal or quotation may stand at the beginning."""
    first = text[:1]
    if first.isdigit() and text[4:5] == "-":
        return True
    if first == ">" or (first == "[" and (text[1:5].isdigit() or text.startswith("[pod/"))):
        return True
    if first.isupper() and text[3:4] == " " and text[4:6].strip().isdigit() and ":" in text[7:12]:
        return True
    bar = text.find("|", 0, 110)
    return bar > 0 and " " not in text[:bar].rstrip()


def _may_have_level(text: str, first: str) -> bool:
    if first not in "[0123456789":
        return text.startswith(("INFO:", "ERROR:", "WARNING:", "DEBUG:", "CRITICAL:", "INFO ", "ERROR ", "WARNING "))
    begin = text[:64]
    for level in _LEVELS:  # noqa: SIM110  (a generator takes twice as long)
        if level in begin:
            return True
    return False


# The usual forms are read by hand: compiling the expressions above takes longer than to read a short log with them.


def _usual_process(text: str) -> tuple[str, str, int] | None:
    """(pid, name, length) of ``(EngineCore_DP0 pid=11) `` at the beginning."""
    end = text.find(")", 1, 80)
    name, found, pid = text[1:end].rpartition("pid=")
    name = name.rstrip()
    if end < 0 or not found or not pid.isdigit() or not (not name or (name.isascii() and name[0].isalpha() and name.replace("-", "_").replace(".", "_").isidentifier())):
        return None
    return pid, name, end + (2 if text[end + 1 : end + 2] == " " else 1)


def _usual_level(text: str) -> tuple[str, str, int] | None:
    """(level, source, length) of ``ERROR 11-05 03:12:46 [core.py:900] `` or ``INFO:     `` at the beginning."""
    for level in _LEVELS:
        if text.startswith(level):
            break
    else:
        return None
    at = len(level)
    if text[at : at + 1] == ":":
        blank = at + 1
        while blank < at + 10 and text[blank : blank + 1] in _BLANKS:
            blank += 1
        return (level, "", blank) if blank > at + 1 else None
    if text[at : at + 1] + text[at + 3 : at + 4] + text[at + 6 : at + 7] + text[at + 9 : at + 10] + text[at + 15 : at + 16] != " - : ":
        return None
    at += 17 if text[at + 16 : at + 17] == "[" else 16
    end = text.find("]", at, at + 100)
    if end < 0 or not text[text.rfind(":", at, end) + 1 : end].isdigit() or " " in text[at:end]:
        return None
    return level, text[at:end], end + (2 if text[end + 1 : end + 2] == " " else 1)


def _usual_service(text: str) -> tuple[str, int] | None:
    """(service, length) of Docker Compose's ``vllm-1  | `` at the beginning."""
    bar = text.find("|", 1, 104)
    name = text[:bar].rstrip(" ")
    if bar < 0 or len(name) > 64 or bar - len(name) > 40 or text[bar + 1 : bar + 2] not in ("", " "):
        return None
    if not name[:1].isalnum() or not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        return None
    return name, min(bar + 2, len(text))


def parse(raw: str) -> Parsed:
    """Take one line apart. Never raises."""
    text = _message_of_json(raw) if raw.startswith('{"log":"') else raw
    if _may_be_coloured(text):
        text = _ANSI.compiled.sub("", text)
    if "\r" in text:
        text = text.rstrip("\r")
        text = text[text.rfind("\r") + 1 :]  # what the terminal shows in the end
    service = proc = name = level = src = ""
    for _round in range(6):
        first = text[:1]
        if first == "(":
            usual = _usual_process(text)
            if usual is not None:
                proc, name, at = usual[0], usual[1] or name, usual[2]
                text = text[at:]
                continue
            found = _PROC.match(text) if "pid=" in text else None
            if found is None:
                break
            proc, name = found["pid"], found["name"] or name
            text = text[found.end() :]
            continue
        if first == "[" and text.startswith("[rank"):
            found = _RANK.match(text)
            if found is None:
                break
            proc = proc or f"rank{found['rank']}"
            text = text[found.end() :]
            continue
        found = None
        if first in _LOG_STARTS:
            usual = _usual_level(text)
            if usual is not None:
                level, src, at = usual[0], usual[1] or src, usual[2]
                text = text[at:]
                continue
            may = _may_have_level(text, first)
            found = (_LOG.match(text) or _PLAIN_LOG.match(text)) if may else None
        if found is not None:
            if level and first in " \t":
                break
            level = found["level"]
            src = found.groupdict().get("src") or src
            text = text[found.end() :]
            continue
        if level or not _may_have_outer(text):
            break
        outer = _usual_service(text)
        if outer is not None:
            service, at = outer
            text = text[at:]
            continue
        found = _OUTER.match(text)
        if found is None:
            break
        service = found["service"] or service
        text = text[found.end() :]
    return Parsed(text, proc, name, service, level, src)
