"""Takes names, serial numbers and secrets out of texts that leave this machine.

What is replaced, everywhere the same way: home folders and user names, the computer's name, tokens and keys
(by their shape, and by the values of variables named so), UUIDs and MAC addresses, public addresses, and user
names or passwords inside URLs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping

SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
REPLACED = "SCRUBBED"

# Shapes of the tokens of Hugging Face, OpenAI-like services, GitHub, GitLab, NVIDIA, Slack, AWS, Google, and JWTs.
_TOKENS = re.compile(
    r"hf_[A-Za-z0-9]{8,}|\bsk-[A-Za-z0-9_-]{8,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{12,}"
    r"|\bnvapi-[\w-]{16,}|\bxox[abprs]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}|\bdckr_(?:pat|oat)_[\w-]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/_=.~-]{12,}")
_ASSIGNED = re.compile(
    r"(?i)\b([A-Z0-9_]*(?:TOKEN|API_?KEY|ACCESS_?KEY|SECRET|PASSWORD|PASSWD)[A-Z0-9_]*)(\s*[=:]\s*)(\"[^\"\n]{4,}\"|'[^'\n]{4,}'|[^\s\"',;]{6,})"
)
_URL_USER = re.compile(r"(\w[\w+.-]*://)[^\s/@\"']+@")
_UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
_MAC = re.compile(r"(?<![0-9A-Fa-f:.-])(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:.-])")
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_SERIAL = re.compile(
    r"(?i)(\"?\b(?:asic_|board_|product_|fru_)?(?:serial(?:[ _]?(?:number|no))?|fru_id)\"?\s*[:=]\s*)(\"?)(?!N/A|0x0\b)[\w-]{4,}"
)
_FOLDER_OF_PERSON = r"([\\/]+(?:home|Users)[\\/]+)({names}[^\\/\s:;\"'<>|,*?]+)"
_SHARED_FOLDERS = frozenset({"public", "default", "default user", "all users", "shared", "linuxbrew"})
# Words that occur in outputs for reasons of their own: as a name they are only replaced inside paths.
_COMMON_WORDS = frozenset(
    str.split(
        """root user users admin administrator ubuntu debian fedora docker linux wsl windows python vllm nvidia cuda gpu
    amd intel model models data home host server local localhost test demo dev ai ml llm lab work workstation desktop
    laptop node default guest pi vm main master worker build runner ci opt usr bin lib var tmp mnt etc proc sys"""
    )
)


class Scrubber:
    """Replaces the same thing by the same stand-in, so that scrubbed files still fit together."""

    def __init__(
        self,
        home: str = "",
        user_names: Iterable[str] = (),
        host_names: Iterable[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._people: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        self._home = home.rstrip("/\\")
        own = re.split(r"[\\/]", self._home)[-1] if self._home else ""
        self._folders = re.compile(_FOLDER_OF_PERSON.format(names=""), re.IGNORECASE)
        # The owner is "user"; whoever else appears is "user2" and so on.
        for name in [own, *user_names]:
            self.person(name, owner=True)
        self._names = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE), stand_in)
            for names, stand_in in (([own, *user_names], "user"), (list(host_names), "host"))
            for name in sorted(
                {n for n in names if len(n) >= 3 and n.casefold() not in _COMMON_WORDS}, key=len, reverse=True
            )
        ]
        values = (env or {}).items()
        self._secrets = sorted(
            {v for k, v in values if SECRET_NAME.search(k) and is_secret(v)}, key=len, reverse=True
        )

    def text(self, text: str) -> str:
        """The text without names, numbers and secrets."""
        text = self.secrets(text)
        text = _SERIAL.sub(lambda m: m.group(1) + m.group(2) + REPLACED, text)
        text = _UUID.sub(
            lambda m: self._numbered(m.group(0).lower(), "00000000-0000-0000-0000-{:012d}"), text
        )
        text = _MAC.sub(
            lambda m: self._numbered(
                m.group(0).lower(), "02-00-00-00-00-{:02d}" if "-" in m.group(0) else "02:00:00:00:00:{:02d}"
            ),
            text,
        )
        text = _IPV4.sub(lambda m: self._address(m.group(0)), text)
        return self.names(text)

    def secrets(self, text: str) -> str:
        for value in self._secrets:
            text = text.replace(value, REPLACED)
        text = _TOKENS.sub(REPLACED, text)
        text = _BEARER.sub(lambda m: f"{m.group(1)} {REPLACED}", text)
        text = _ASSIGNED.sub(_unless_harmless, text)
        return _URL_USER.sub(rf"\1{REPLACED}@", text)

    def names(self, text: str) -> str:
        """The text with people's folders and names, and the computer's name, replaced."""
        if self._home and self._home not in ("/root", "/"):
            stand_in = "C:\\Users\\user" if "\\" in self._home else "/home/user"
            text = re.sub(rf"{re.escape(self._home)}(?=[\\/\s:;,\"']|$)", lambda m: stand_in, text)
        text = self._folders.sub(lambda m: m.group(1) + self._stand_in(m.group(2)), text)
        for pattern, stand_in in self._names:
            text = pattern.sub(stand_in, text)
        return text

    def data(self, data: bytes) -> bytes:
        """Binary content: only secrets, by bytes of the same number, so that lengths and offsets stay true."""
        text = data.decode("latin-1")
        for value in self._secrets:
            coded = value.encode().decode("latin-1")
            text = text.replace(coded, "x" * len(coded))
        return _TOKENS.sub(lambda m: "x" * len(m.group(0)), text).encode("latin-1")

    def person(self, name: str, owner: bool = False) -> None:
        """Make a person's folder name known, which matters where it holds spaces."""
        if (
            not name
            or name == "root"
            or name.casefold() in _SHARED_FOLDERS
            or name.casefold() in self._people
        ):
            return
        if owner:
            self._people[name.casefold()] = "user"
        else:
            self._stand_in(name)
        longest_first = sorted(self._people, key=len, reverse=True)
        names = "".join(rf"{re.escape(n)}(?!\w)|" for n in longest_first)
        self._folders = re.compile(_FOLDER_OF_PERSON.format(names=names), re.IGNORECASE)

    def _stand_in(self, name: str) -> str:
        if name.casefold() in _SHARED_FOLDERS or re.fullmatch(r"user\d*", name):
            return name
        known = self._people.get(name.casefold())
        if known is None:
            others = set(self._people.values()) - {"user"}
            known = self._people[name.casefold()] = f"user{len(others) + 2}"
        return known

    def _numbered(self, value: str, form: str) -> str:
        if set(value) <= set("0-:"):
            return value
        if value not in self._numbers:
            self._numbers[value] = form.format(len(self._numbers) + 1)
        return self._numbers[value]

    def _address(self, text: str) -> str:
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            return text
        # Four-part version numbers ("10.0.26100.1") are mostly no addresses, or private ones.
        if not address.is_global:
            return text
        return text if _looks_like_version(text) else "192.0.2.1"


def _looks_like_version(text: str) -> bool:
    """Versions of WSL, drivers and Windows have small first numbers ("2.6.1.0", "1.0.66.0")."""
    return int(text.split(".")[0]) < 12


def _unless_harmless(match: re.Match[str]) -> str:
    value = match.group(3).strip("\"'")
    if (
        value.lower() in ("true", "false", "none", "null", "enabled", "disabled")
        or value.isdigit()
        or value == REPLACED
    ):
        return match.group(0)
    return match.group(1) + match.group(2) + REPLACED


def is_secret(value: str) -> bool:
    """Whether the value of a variable with a secret's name is one: paths, switches and short words are not."""
    return len(value) >= 6 and not value.startswith(("/", "~", "C:\\")) and not value.isdigit()
