"""Editing single keys: the new value counts, and every other byte is as it was."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from wizard.errors import BadInput, WizardError
from wizard.outputs.wslconfig import edit, keys, parse
from wizard.outputs.wslconfig.edit import head, quote
from wizard.wsl_grammar import Entry, Fault

MEMORY = {"wsl2.memory": "20GB"}


def test_a_new_file_has_a_header_and_the_settings() -> None:
    text = edit(
        None, {"wsl2.memory": "20GB", "wsl2.swap": "5GB", "general.instanceIdleTimeout": "-1"}
    ).decode()
    assert text.startswith(head().decode())
    assert text.endswith("[wsl2]\nmemory=20GB\nswap=5GB\n\n[general]\ninstanceIdleTimeout=-1\n")
    assert edit(None, {}) == b""
    assert edit(None, {"wsl2.memory": None}) == b""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[wsl2]\nmemory=8GB\n", "[wsl2]\nmemory=20GB\n"),
        ("[WSL2]\r\n MEMORY =\t8GB  # mine\r\nx\r\n", "[WSL2]\r\n MEMORY =\t20GB  # mine\r\nx\r\n"),
        # The first one counts, whatever stands in it.
        ("[wsl2]\nmemory=8 GB\nmemory=20GB\n", "[wsl2]\nmemory=20GB\nmemory=20GB\n"),
        ("[wsl2]\nmemory=#none\n", "[wsl2]\nmemory=20GB #none\n"),
        ("[wsl2]\nmemory=8\\\nGB\nswap=0", "[wsl2]\nmemory=20GB\nswap=0"),
        # Not there yet: behind the last key of the section, or behind its header.
        ("[wsl2]\nswap=0 # s\n\n# e\n[general]\n", "[wsl2]\nswap=0 # s\nmemory=20GB\n\n# e\n[general]\n"),
        ("[wsl2] # w\n# note\n", "[wsl2] # w\nmemory=20GB\n# note\n"),
        ("# only a note", "# only a note\n\n[wsl2]\nmemory=20GB"),
        ("[general]\r\nx=1\r\n", "[general]\r\nx=1\r\n\r\n[wsl2]\r\nmemory=20GB\r\n"),
        ("", "[wsl2]\nmemory=20GB\n"),
        ("[wsl2]", "[wsl2]\nmemory=20GB"),
        # Where WSL would not look: before a Ctrl-Z, past a comment that a lone CR does not end.
        ("[wsl2]\nswap=0\n\x1aold", "[wsl2]\nswap=0\nmemory=20GB\n\x1aold"),
        ("[general]\x1aold", "[general]\n\n[wsl2]\nmemory=20GB\n\x1aold"),
        # The end of this file is a continued value.
        ("[wsl2]\nswap=0\n[general]\nx=\\", "[wsl2]\nswap=0\nmemory=20GB\n[general]\nx=\\"),
        ("[general]\nx=\\", "[wsl2]\nmemory=20GB\n[general]\nx=\\"),
        # So is this one's, and its last line end is part of it.
        ("x=a\\\n", "x=a\\\n\n[wsl2]\nmemory=20GB\n"),
        # A key without a section must not come under ours.
        ("swap=1\n[general]\nx=\\", "swap=1\n[wsl2]\nmemory=20GB\n[general]\nx=\\"),
    ],
)
def test_one_value(before: str, after: str) -> None:
    assert edit(before.encode(), MEMORY).decode() == after
    assert edit(after.encode(), MEMORY).decode() == after


def test_an_older_place_of_the_key_is_edited_where_it_stands() -> None:
    before = b"[experimental]\nnetworkingMode=mirrored # m\n[wsl2]\nnetworkingMode=nat\n"
    after = edit(before, {"wsl2.networkingMode": "Nat"})
    assert after == before.replace(b"mirrored", b"Nat")


def test_a_value_that_counts_already_is_not_rewritten() -> None:
    before = b"[wsl2]\nmemory=20480MB\nguiApplications=1\nvmIdleTimeout=0x10\n"
    same = {"wsl2.memory": "20GB", "wsl2.guiApplications": "true", "wsl2.vmIdleTimeout": "16"}
    assert edit(before, same) == before


def test_encodings_stay() -> None:
    text = "[wsl2]\r\n# größer\r\nswap=0\r\n"
    wanted = text.replace("swap=0\r\n", "swap=0\r\nmemory=20GB\r\n")
    for bom, codec in ((b"", "utf-8"), (b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le")):
        assert edit(bom + text.encode(codec), MEMORY) == bom + wanted.encode(codec)
    # Bytes that are no UTF-8 stay as they are.
    assert edit(b"# \xe9\xff\n[wsl2]\n", MEMORY) == b"# \xe9\xff\n[wsl2]\nmemory=20GB\n"


def test_removal_takes_all_of_them_and_keeps_their_comments() -> None:
    before = b"[wsl2]\n  memory=8GB\nswap=0\nmemory=9GB # why\n\tMemory = x\\\ny\r\n"
    assert edit(before, {"wsl2.memory": None}) == b"[wsl2]\nswap=0\n# why\n"
    assert edit(before, {"wsl2.kernel": None}) == before


def test_wsl_conf_is_edited_before_the_line_that_stops_it() -> None:
    before = b"[user]\ndefault=ann\n; old\n[boot]\nx=1\n"
    after = edit(before, {"boot.systemd": "true"}, "wslconf")
    assert parse(after, "wslconf").get("boot.systemd") is not None
    assert after.endswith(before)
    stopped = b"; old\n[boot]\nsystemd=false\n"
    assert edit(stopped, {"boot.systemd": "true"}, "wslconf") == b"[boot]\nsystemd=true\n" + stopped


def test_what_cannot_be_edited_says_why() -> None:
    with pytest.raises(WizardError, match="UTF-8"):
        edit(b"\xfe\xff\0[", MEMORY)
    with pytest.raises(WizardError, match="macAddress"):
        edit(b"[wsl2]\nmacAddress=1\n", MEMORY)
    fixed = edit(b"[wsl2]\nmacAddress=1\n", {**MEMORY, "wsl2.macAddress": None})
    assert fixed == b"[wsl2]\nmemory=20GB\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wsl2.swapFile", "C:\\Users\\José\\swap.vhdx"),
        ("wsl2.memory", "20 GB"),
        ("wsl2.memory", ""),
        ("wsl2.processors", "all"),
        ("wsl2.swapFile", "a\rb"),
        ("wsl2.swapFile", "a\x1ab"),
        ("wsl2.swapFile", "a\0b"),
        ("wsl2.pageReporting", "true"),
        ("memory", "1GB"),
    ],
)
def test_wrong_wishes_are_refused(key: str, value: str) -> None:
    with pytest.raises(BadInput):
        edit(b"[wsl2]\n", {key: value})


@settings(deadline=None)
@given(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(
        lambda t: t + "\n\t\b"[: len(t) % 4]
    )
)
@example('C:\\new "dir"\\# x ')
def test_any_text_can_be_written_and_is_read_back(text: str) -> None:
    data = edit(b"[wsl2]\n", {"wsl2.kernelCommandLine": text})
    setting = parse(data).get("wsl2.kernelCommandLine")
    assert setting is not None
    assert setting.value == text
    assert "\n" not in quote(text)


LINES = st.sampled_from(
    ["[wsl2]", "[general]", "[experimental]", "[WSL2] # w", "[wsl2 x]", "[bad", "# note", "## größe 内", "", "  ", "memory=8GB",
     "Memory = 16 GB # m", "memory=", "swap=0", "processors=4 # p", "kernel=C:\\\\k", "kernel=C:\\k", 'kernel="a # b"',
     'kernel="open', "kernel=a \\", "networkingMode=nat", "networkingMode=mirrored", "unknown=1", "; no comment", "vmIdleTimeout=-1",
     "instanceIdleTimeout=1", "\tautoProxy=false", "memory", "dnsTunneling=x", "x=\\"]
)  # fmt: skip
FILES = st.builds(
    lambda lines, end, last, form: form(end.join(lines) + (end if last else "")),
    st.lists(LINES, max_size=9),
    st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    st.booleans(),
    st.sampled_from(
        [
            lambda t: t.encode(),
            lambda t: t.encode("utf-8-sig"),
            lambda t: b"\xff\xfe" + t.encode("utf-16-le"),
            lambda t: t.encode() + b"\x1amemory=1GB\n",
        ]
    ),
)
CHANGES = st.dictionaries(
    st.sampled_from(
        ["wsl2.memory", "wsl2.swap", "wsl2.networkingMode", "general.instanceIdleTimeout", "wsl2.kernel"]
    ),
    st.just(""),
    min_size=1,
    max_size=3,
).flatmap(lambda d: st.tuples(st.just(list(d)), st.lists(st.booleans(), min_size=len(d), max_size=len(d))))
GOOD = {
    "wsl2.memory": "20GB",
    "wsl2.swap": "5GB",
    "wsl2.networkingMode": "Nat",
    "general.instanceIdleTimeout": "-1",
    "wsl2.kernel": "C:\\k # x",
}
VALUES = {**GOOD, "wsl2.memory": str(20 << 30), "wsl2.swap": str(5 << 30)}


def said(data: bytes, without: set[str]) -> list[tuple[str, object]]:
    """All that a file says, in order, but for some keys."""
    rest: list[tuple[str, object]] = []
    for item in parse(data).items:
        if isinstance(item, Fault):
            rest.append((item.kind, item.detail))
        elif isinstance(item, Entry):
            key = keys.find(item.name, "wslconfig")
            if key is None or key.name not in without:
                rest.append((item.name, item.raw))
    return rest


@settings(deadline=None)
@given(FILES, CHANGES)
def test_any_file_survives_but_for_the_keys_we_set(data: bytes, chosen: tuple[list[str], list[bool]]) -> None:
    wanted = {key: None if remove else GOOD[key] for key, remove in zip(*chosen, strict=True)}
    try:
        after = edit(data, wanted)
    except WizardError:
        assert b"\\\r" in data or b"\\\n" in data  # continued into the end of the file: no place for a line
        return
    parsed = parse(after)
    for key, value in wanted.items():
        setting = parsed.get(key)
        if value is None:
            assert setting is None
        else:
            assert setting is not None
            assert setting.value == VALUES[key]
    assert said(after, set(wanted)) == said(data, set(wanted))
    assert edit(after, wanted) == after
    assert parsed.encoding == parse(data).encoding


@settings(deadline=None)
@given(FILES, st.sampled_from(sorted(GOOD)))
def test_one_change_touches_one_place_only(data: bytes, name: str) -> None:
    try:
        after = edit(data, {name: GOOD[name]})
    except WizardError:
        # Only a value that is continued into the end of the file leaves no place to put a line.
        assert b"\\\r" in data or b"\\\n" in data
        return
    assume(after != data)
    prefix = next(
        (i for i, (a, b) in enumerate(zip(data, after, strict=False)) if a != b), min(len(data), len(after))
    )
    suffix = len(data) - prefix
    while suffix and data[len(data) - suffix :] != after[len(after) - suffix :]:
        suffix -= 1
    key = keys.find(name, "wslconfig")
    assert key is not None
    names = {n.lower() for n in key.names}
    old = [i for i in parse(data).items if isinstance(i, Entry) and i.name.lower() in names]
    if old:
        # Nothing outside the first one's value.
        assert prefix >= old[0].value_start
        assert len(data) - suffix <= old[0].value_end
    else:
        # Something is put in, nothing taken out.
        assert prefix + suffix >= len(data)


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_bytes_of_any_kind_are_edited_or_refused(data: bytes) -> None:
    try:
        after = edit(data, MEMORY)
    except WizardError:
        return
    setting = parse(after).get("wsl2.memory")
    assert setting is not None
    assert setting.value == str(20 << 30)
    assert edit(after, MEMORY) == after


@pytest.mark.parametrize(("name", "right"), [("memory", "wsl2.memory"), ("autoMemoryReclaim", "experimental.autoMemoryReclaim"), ("foo.memory", "wsl2.memory")])
def test_a_key_without_its_section_is_named_with_it(name: str, right: str) -> None:
    with pytest.raises(BadInput, match=f"named {name}.*: {right}$"):
        edit(b"", {name: "1GB"})
