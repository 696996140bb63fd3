"""One line of a log without what stands around the message: colours, container and journal prefixes, process
names, levels."""

from __future__ import annotations

from wizard.diagnose.lazy import Lazy

# Colour codes as they are, and as they look when the escape character was lost on the way.
_ANSI = Lazy(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|(?:\^\[|\\x1b|\\u001b|\\033)?\[\d{1,3}(?:;\d{1,3})*m")
_OUTER = Lazy(
    r"(?P<service>[A-Za-z0-9][\w.-]{0,63})\s{0,40}\|(?: |$)"  # docker compose
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: |$)"  # docker logs -t, journald ISO
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


_LOG_STARTS = frozenset("DIWEC[0123456789")


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


def _may_be_coloured(text: str) -> bool:
    return "\x1b" in text or "[0m" in text or "[0;" in text or "[1;" in text or "[3" in text


def _may_have_outer(text: str) -> bool:
    """Whether a prefix of a container, journal or quotation may stand at the beginning."""
    first = text[:1]
    if first.isdigit() and text[4:5] == "-":
        return True
    if first in (">", "[") or (text[3:4] == " " and ":" in text[5:12]):
        return True
    bar = text.find("|", 0, 110)
    return bar > 0 and " " not in text[:bar].rstrip()


def _may_have_level(text: str, first: str) -> bool:
    return first in "[0123456789" or text.startswith(("INFO:", "ERROR:", "WARNING:", "DEBUG:", "CRITICAL:", "INFO ", "ERROR ", "WARNING "))


def parse(raw: str) -> Parsed:
    """Take one line apart. Never raises."""
    text = raw
    if _may_be_coloured(text):
        text = _ANSI.compiled.sub("", text)
    if "\r" in text:
        text = text.rstrip("\r")
        text = text[text.rfind("\r") + 1 :]  # what the terminal shows in the end
    service = proc = name = level = src = ""
    for _round in range(6):
        first = text[:1]
        if first == "(":
            found = _PROC.match(text)
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
            found = _LOG.match(text) or (_PLAIN_LOG.match(text) if _may_have_level(text, first) else None)
        if found is not None:
            if level and first in " \t":
                break
            level = found["level"]
            src = found.groupdict().get("src") or src
            text = text[found.end() :]
            continue
        found = None if level or not _may_have_outer(text) else _OUTER.match(text)
        if found is None:
            break
        service = found["service"] or service
        text = text[found.end() :]
    return Parsed(text, proc, name, service, level, src)
