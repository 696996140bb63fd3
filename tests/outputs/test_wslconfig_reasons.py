"""Reasons in ``.wslconfig``: above each line that the wizard sets, and nothing else of the user's own file touched."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.outputs.test_wslconfig_edit import CHANGES, FILES, GOOD, said
from wizard.errors import WizardError
from wizard.outputs.wslconfig import edit, parse
from wizard.outputs.wslconfig.edit import MARK

MEMORY = {"wsl2.memory": "20GB"}
WHY = {"wsl2.memory": "16.0 GiB for Linux and 4.0 GiB for the weights"}


def test_a_new_file_says_why_each_line_is_there() -> None:
    text = edit(None, {**MEMORY, "general.instanceIdleTimeout": "-1"}, reasons={**WHY, "general.instanceIdleTimeout": "it stays"}).decode()
    assert text.endswith(
        f"[wsl2]\n{MARK}{WHY['wsl2.memory']}\nmemory=20GB\n\n[general]\n{MARK}it stays\ninstanceIdleTimeout=-1\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[wsl2]\nswap=0\n# end\n", "[wsl2]\nswap=0\n{why}memory=20GB\n# end\n"),
        ("[wsl2]\n# mine\nmemory=8GB\nswap=0\n", "[wsl2]\n# mine\n{why}memory=20GB\nswap=0\n"),
        # What was said of the old value is not said of the new one.
        ("[wsl2]\nmemory=8GB  # half of what Docker wants\n", "[wsl2]\n{why}memory=20GB  # was 8GB: half of what Docker wants\n"),
        ("[wsl2]\nmemory=8GB #half\n", "[wsl2]\n{why}memory=20GB # was 8GB: half\n"),
        # The reason of an earlier edit goes; a comment that only looks like a part of it stays.
        (f"[wsl2]\n{MARK}old\n#     more of it\nmemory=8GB # was 4GB: x\n", "[wsl2]\n{why}memory=20GB # was 4GB: x\n"),
        ("[wsl2]\n#     set in\nmemory=8GB\n", "[wsl2]\n#     set in\n{why}memory=20GB\n"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("form", ["utf-8", "utf-8-sig", "utf-16"])
def test_one_line_of_an_own_file(before: str, after: str, end: str, form: str) -> None:
    def packed(text: str) -> bytes:
        changed = " (before: 8GB)" if "memory=8GB" in before else ""
        text = text.replace("{why}", f"{MARK}{WHY['wsl2.memory']}{changed}\n").replace("\n", end)
        return b"\xff\xfe" + text.encode("utf-16-le") if form == "utf-16" else text.encode(form)

    done = edit(packed(before), MEMORY, reasons=WHY)
    assert done == packed(after)
    assert edit(done, MEMORY, reasons={"wsl2.memory": "another reason"}) == done


def test_an_old_value_that_the_reason_names_is_not_named_twice() -> None:
    done = edit(b"[wsl2]\nmemory=8GB\n", MEMORY, reasons={"wsl2.memory": "your own 8GB is too little"})
    assert done == f"[wsl2]\n{MARK}your own 8GB is too little\nmemory=20GB\n".encode()


def test_editing_again_replaces_the_reason_and_taking_out_takes_it_along() -> None:
    own = b"[wsl2]\nswap=9GB\n"
    first = edit(own, MEMORY, reasons=WHY)
    second = edit(first, {"wsl2.memory": "24GB"}, reasons={"wsl2.memory": "x " * 90})
    assert second.decode().count(MARK) == 1
    assert max(map(len, second.decode().splitlines())) <= 100
    assert edit(second, {"wsl2.memory": None}) == own


def test_letters_that_the_file_does_not_hold_are_not_put_into_it() -> None:
    assert "内存".encode() in edit(b"[wsl2]\n", MEMORY, reasons={"wsl2.memory": "内存"})
    assert edit(b"# \xe9\xff\n[wsl2]\n", MEMORY, reasons={"wsl2.memory": "内存"}) == b"# \xe9\xff\n[wsl2]\nmemory=20GB\n"


@settings(deadline=None)
@given(FILES, CHANGES, st.text(max_size=150))
def test_any_file_keeps_all_it_says_with_reasons_too(data: bytes, chosen: tuple[list[str], list[bool]], reason: str) -> None:
    wanted = {key: None if remove else GOOD[key] for key, remove in zip(*chosen, strict=True)}
    reasons = dict.fromkeys(wanted, reason)
    try:
        plain = edit(data, wanted)
    except WizardError:
        return
    after = edit(data, wanted, reasons=reasons)
    assert said(after, set(wanted)) == said(data, set(wanted))
    # (Where several lines are new, their order is nobody's wish.)
    assert sorted(a.key + a.value for a in parse(after).accepted) == sorted(a.key + a.value for a in parse(plain).accepted)
    assert edit(after, wanted, reasons=reasons) == after


def test_of_the_users_lines_only_the_needed_ones_change() -> None:
    own = "# top\n[wsl2]\nmemory=8GB # small\nkernel=C:\\\\k\n\n[general]\nx=1 # y\n"
    after = edit(own.encode(), MEMORY, reasons=WHY).decode()
    gone = [line for line in difflib.ndiff(own.splitlines(), after.splitlines()) if line.startswith("- ")]
    assert gone == ["- memory=8GB # small"]
