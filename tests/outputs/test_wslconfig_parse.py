"""``.wslconfig`` and ``/etc/wsl.conf`` read as WSL reads them: one small case for each corner of the grammar."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wizard import wsl_grammar
from wizard.outputs.wslconfig import Parsed, keys, parse
from wizard.outputs.wslconfig.parse import default_swap_bytes

GIB = 1 << 30
HOST = {"host_ram_bytes": 64 * GIB, "host_cpus": 24}


def read(text: str | bytes, mode: str = "wslconfig") -> Parsed:
    data = text.encode() if isinstance(text, str) else text
    return parse(data, mode, **HOST)  # type: ignore[arg-type]


def values(parsed: Parsed) -> dict[str, str]:
    return {a.key: a.value for a in parsed.accepted}


def problems(parsed: Parsed) -> list[tuple[int | None, str]]:
    return [(p.line, p.kind) for p in parsed.problems]


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        ("12GB", 12 * GIB),
        ("12G", 12 * GIB),
        ("6144MB", 6 * GIB),
        ("3T", 3 << 40),
        ("5K", 5 << 10),
        ("77B", 77),
        ("9", 9),
        ('"12GB"', 12 * GIB),
        ("+4GB", 4 * GIB),
        ("012GB", 12 * GIB),
        ("0", 0),
        ("0GB", 0),
        ("12 GB", None),
        ("12gb", None),
        ("12GiB", None),
        ("1.5GB", None),
        ("000", None),
        ("+0", None),
        ("0x4GB", None),
        ("", None),
        ("GB", None),
        # C's arithmetic: too large a figure is the largest one, and the product wraps.
        ("99999999999999999999999", (1 << 64) - 1),
        ("17179869184GB", 0),
        ("-1", (1 << 64) - 1),
    ],
)
def test_sizes(raw: str, size: int | None) -> None:
    parsed = read(f"[wsl2]\nswap={raw}\n")
    assert values(parsed) == ({} if size is None else {"wsl2.swap": str(size)})
    assert problems(parsed) == ([(2, "invalid_memory")] if size is None else [])
    assert [r.key for r in parsed.rejected] == (["wsl2.swap"] if size is None else [])


@pytest.mark.parametrize(
    ("raw", "number"),
    [("12", 12), ("0x1F", 31), ("017", 15), ("-5", -5), ("0", 0), ('" 7"', 7), ("09", None), ("1e2", None),
     ("", None), ("7 s", None), ("0x", None), ("2147483648", None), ("-2147483648", -(1 << 31)), ('"7 "', None)],
)  # fmt: skip
def test_integers(raw: str, number: int | None) -> None:
    parsed = read(f"[wsl2]\nkernelBootTimeout={raw}\n")
    assert values(parsed) == ({} if number is None else {"wsl2.kernelBootTimeout": str(number)})


@pytest.mark.parametrize(
    ("raw", "flag"),
    [("TRUE", "true"), ("1", "true"), ("False", "false"), ("0", "false"), ("on", None), ("2", None)],
)
def test_booleans(raw: str, flag: str | None) -> None:
    parsed = read(f"[wsl2]\ndhcp={raw}\n")
    assert values(parsed) == ({} if flag is None else {"wsl2.dhcp": flag})
    assert problems(parsed) == ([(2, "invalid_boolean")] if flag is None else [])


def test_the_first_duplicate_wins_even_when_it_is_invalid() -> None:
    parsed = read("[wsl2]\nprocessors=many\nPROCESSORS=4\nprocessors=5\nmemory=9GB\nmemory=8GB\n")
    assert values(parsed) == {"wsl2.memory": str(9 * GIB)}
    assert problems(parsed) == [
        (2, "invalid_integer"),
        (3, "duplicate_key"),
        (4, "duplicate_key"),
        (6, "duplicate_key"),
    ]
    assert parsed.effective is not None
    assert parsed.effective.processors == 24


def test_the_old_section_of_a_key_is_the_same_key() -> None:
    parsed = read("[experimental]\ndnsTunneling=false\n[wsl2]\ndnsTunneling=true\n")
    assert values(parsed) == {"wsl2.dnsTunneling": "false"}
    assert problems(parsed) == [(4, "duplicate_key")]


def test_keys_in_the_wrong_section_or_file_are_named_with_the_right_one() -> None:
    parsed = read("[wsl2]\nautoMemoryReclaim=gradual\nsystemd=true\nnonsense=1\n[automount]\nroot=/w/\n")
    assert problems(parsed) == [(line, "unknown_key") for line in (2, 3, 4, 6)]
    messages = [p.message for p in parsed.problems]
    assert "[experimental]" in messages[0]
    assert "/etc/wsl.conf" in messages[1]
    assert "boot.systemd" in messages[1]
    assert "/etc/wsl.conf" in messages[3]
    other = read("[boot]\nmemory=4GB\n", "wslconf")
    assert problems(other) == [(2, "unknown_key")]
    assert ".wslconfig" in other.problems[0].message


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("kernel=a # b", "a"),
        ("kernel=a#b", "a"),
        ('kernel="a # b"', "a # b"),
        ('kernel=" a "', " a "),
        ('kernel=a" b "c', "a b c"),
        (r"kernel=\"a\"", '"a"'),
        (r"kernel=C:\\k", r"C:\k"),
        (r"kernel=a\tb\nc\bd", "a\tb\nc\bd"),
        ("kernel=a\\\nb", "ab"),
        ("kernel=a  \\\n  b  ", "a    b"),
        ("kernel =\t a b \t", "a b"),
        ("kernel=", ""),
        ("kernel=a;b", "a;b"),
        ("kernel=a=b", "a=b"),
        ("kernel=a\0b", "a"),
    ],
)
def test_values(text: str, raw: str) -> None:
    parsed = read(f"[wsl2]\n{text}\nmemory=4GB")
    assert [a.raw for a in parsed.accepted] == [raw, "4GB"]
    assert not parsed.problems


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("; memory=4GB", "invalid_key_name"),
        ("2memory=4GB", "invalid_key_name"),
        ("mem-ory=4GB", "expected"),
        ("mem_ory=4GB", "expected"),
        ("memory: 4GB", "expected"),
        ("memory", "expected"),
        ('memory="4GB', "expected"),
        (r"kernel=C:\Kernel", "invalid_escape"),
        ("\0memory=4GB", "invalid_key_name"),
        ("memoria\u0301=4GB", "expected"),
    ],
)
def test_a_bad_line_is_skipped(line: str, kind: str) -> None:
    parsed = read(f"[wsl2]\n{line}\nprocessors=3\n")
    assert problems(parsed) == [(2, kind)]
    assert values(parsed) == {"wsl2.processors": "3"}
    assert parsed.accepted[0].line == 3


@pytest.mark.parametrize(
    ("header", "kind", "prefix"),
    [
        ("[general x]", "expected", "gene."),  # its letters stand in for the old section's
        ("[gen]x", "expected", "gen"),  # shorter than the old one: cut off where it ends
        ("[ general]", "invalid_section_name", "wsl2."),
        ("[2]", "invalid_section_name", "wsl2."),
        ("[wsl2 ]", "expected", "wsl2."),
        ("[]", "invalid_section_name", "wsl2."),
    ],
)
def test_a_broken_header_changes_the_prefix_of_what_follows(header: str, kind: str, prefix: str) -> None:
    parsed = read(f"[wsl2]\nswap=1GB\n{header}\nnope=4\n")
    name = prefix + ("nope" if prefix.endswith(".") else "")
    assert [(p.line, p.kind, p.key) for p in parsed.problems] == [(3, kind, None), (4, "unknown_key", name)]


def test_a_broken_first_header_leaves_keys_without_a_section() -> None:
    parsed = read("[wsl2\nmemory=4GB\n")
    assert [(p.line, p.key) for p in parsed.problems] == [(1, None), (2, "memory")]


def test_line_ends_and_line_numbers() -> None:
    lines = ["[wsl2]", "memory=4GB", "", "processors=3"]
    for end in ("\n", "\r\n"):
        assert [a.line for a in read(end.join(lines)).accepted] == [2, 4]
    # With a lone CR blank lines are not counted, and a comment runs on to the next LF.
    assert [a.line for a in read("\r".join(lines)).accepted] == [2, 3]
    assert values(read("[wsl2]\rmemory=4GB # x\rprocessors=3\nswap=0")) == {
        "wsl2.memory": str(4 * GIB),
        "wsl2.swap": "0",
    }
    # A continued value counts as lying on its last line.
    assert [a.line for a in read("[wsl2]\nkernel=a\\\nb\\\nc\nmemory=4GB").accepted] == [4, 5]


def test_encodings() -> None:
    text = "[wsl2]\r\n# größer 内存\r\nmemory=4GB\r\n"
    expected = {"wsl2.memory": str(4 * GIB)}
    for data, name in (
        (text.encode(), "utf-8"),
        (text.encode("utf-8-sig"), "utf-8-bom"),
        (b"\xff\xfe" + text.encode("utf-16-le"), "utf-16-le"),
        (b"\xff\xfe" + text.encode("utf-16-le") + b"x", "utf-16-le"),
        (text.encode("gbk", "ignore"), "utf-8"),
    ):
        parsed = read(data)
        assert (values(parsed), parsed.encoding, problems(parsed)) == (expected, name, [])
    unreadable = read(b"\xfe\xff" + text.encode("utf-16-be"))
    assert (unreadable.readable, values(unreadable)) == (False, {})
    assert problems(unreadable) == [(None, "unreadable_encoding")]
    assert unreadable.effective is not None
    assert unreadable.effective.memory_bytes == 32 * GIB
    unmarked = read(text.encode("utf-16-le"))
    assert not unmarked.accepted
    assert unmarked.problems
    assert "utf16_without_mark" in [n.kind for n in unmarked.notes]


def test_ctrl_z_ends_the_file() -> None:
    assert values(read("[wsl2]\nmemory=4GB\n\x1aprocessors=3\n")) == {"wsl2.memory": str(4 * GIB)}


def test_letters_outside_ascii_are_cut() -> None:
    parsed = read("[wsl2]\nswapFile=D:\\\\Größe\\\\s.vhdx\nkernel=镜\n")
    assert parsed.accepted[0].raw == "D:\\Gr\ufffd\ufffde\\s.vhdx"
    assert parsed.accepted[1].raw == "\\"  # U+955C keeps its low byte only
    assert [n.line for n in parsed.notes if n.kind == "not_ascii"] == [2]
    assert values(read("[user]\ndefault=josé\n", "wslconf")) == {"user.default": "josé"}


def test_enums_ports_and_addresses() -> None:
    parsed = read(
        "[wsl2]\nnetworkingMode=MIRRORED\n[experimental]\nignoredPorts=8000,,x,9001 , 0\nautoMemoryReclaim=slow\n"
        "dnsTunnelingIpAddress=10.1.2.03\n"
    )
    assert values(parsed) == {"wsl2.networkingMode": "Mirrored"}
    assert problems(parsed) == [
        (4, "invalid_integer"),
        (4, "invalid_integer"),
        (5, "invalid_value"),
        (6, "invalid_ip"),
    ]
    assert parsed.effective is not None
    assert parsed.effective.ignored_ports == (8000, 9001)
    assert parsed.effective.dns_tunneling is False
    assert parsed.effective.auto_memory_reclaim == "DropCache"
    nat = read("[experimental]\nignoredPorts=8000\ndnsTunnelingIpAddress=10.1.2.3\n").effective
    assert nat is not None
    assert (nat.ignored_ports, nat.dns_tunneling) == ((), True)


def test_settings_that_switch_others_off() -> None:
    safe = read("[wsl2]\nsafeMode=true\nswap=9GB\nkernel=k\nnetworkingMode=bridged\n")
    assert safe.effective is not None
    assert problems(safe) == [(None, "safe_mode")]
    assert (safe.effective.swap_bytes, safe.effective.kernel, safe.effective.gpu_support) == (0, "", False)
    assert safe.effective.networking_mode == "None"
    plain = read("[wsl2]\nvirtio=false\nvirtiofs=true\nvirtio9p=true\nnetworkingMode=virtioproxy\n")
    assert plain.effective is not None
    assert problems(plain) == [(None, "consomme_requires_virtio")]
    assert (plain.effective.virtiofs, plain.effective.networking_mode) == (False, "Nat")
    bridged = read("[wsl2]\nnetworkingMode=bridged\nfirewall=false\n").effective
    assert bridged is not None
    assert (bridged.dns_tunneling, bridged.firewall) == (False, False)
    mirrored = read("[wsl2]\nnetworkingMode=mirrored\nfirewall=false\n").effective
    assert mirrored is not None
    assert mirrored.firewall is True


def test_clamps_and_defaults() -> None:
    def figures(text: str) -> tuple[int | None, int | None, int | None]:
        effective = read("[wsl2]\n" + text).effective
        assert effective is not None
        return effective.memory_bytes, effective.swap_bytes, effective.processors

    assert figures("") == (32 * GIB, 8 * GIB, 24)
    assert figures("memory=1GB\nprocessors=0") == (GIB, GIB, 24)
    assert figures("memory=16\nprocessors=-3") == (256 << 20, GIB, 24)
    assert figures("memory=2T\nswap=0\nprocessors=25") == (64 * GIB, 0, 24)
    assert figures("memory=0") == (32 * GIB, 8 * GIB, 24)
    assert figures("memory=4GB\nswap=18446744073709551615") == (4 * GIB, GIB, 24)
    assert problems(read("[wsl2]\nprocessors=25")) == [(None, "too_many_processors")]
    assert [n.kind for n in read("[wsl2]\nmemory=65GB").notes] == ["memory_above_host"]
    assert [n.kind for n in read("[wsl2]\nmemory=16").notes] == ["bytes_without_unit"]
    unknown = parse(b"").effective
    assert unknown is not None
    assert (unknown.memory_bytes, unknown.swap_bytes, unknown.processors) == (None, None, None)
    assert default_swap_bytes(5 * GIB) == 2 * GIB


def test_a_bad_mac_address_keeps_wsl_from_starting() -> None:
    parsed = read("[wsl2]\nmemory=4GB\nmacAddress=00:15:5d:01:02\nprocessors=3\n")
    assert parsed.fatal is not None
    assert "3" in parsed.fatal
    assert problems(parsed) == [(3, "invalid_mac_address")]
    assert values(parsed) == {"wsl2.memory": str(4 * GIB)}
    good = read("[wsl2]\nmacAddress=00-15-5d-01-02-0a\n")
    assert values(good) == {"wsl2.macAddress": "00:15:5D:01:02:0A"}
    assert good.fatal is None


def test_wsl_conf_stops_at_the_first_bad_line() -> None:
    parsed = read("[boot]\nsystemd=yes\nsystemd=true\ninitTimeout=0x20\n[user\ndefault=ann\n", "wslconf")
    assert values(parsed) == {"boot.initTimeout": "32"}
    assert problems(parsed) == [(2, "invalid_boolean"), (3, "duplicate_key"), (5, "expected")]
    assert not parsed.complete
    assert parsed.effective is None


def test_wsl_conf_notes_what_a_server_would_miss() -> None:
    bare = {n.kind for n in read("", "wslconf").notes}
    assert bare == {"no_systemd", "no_metadata"}
    text = "[boot]\nsystemd=true\n[interop]\nenabled=false\n[automount]\noptions=metadata,umask=22\n[gpu]\nenabled=false"
    assert {n.kind for n in read(text, "wslconf").notes} == {"no_interop", "no_gpu"}
    assert {n.kind for n in read("[automount]\nenabled=0", "wslconf").notes} == {"no_systemd", "no_automount"}
    assert not read("", "wslconfig").notes


def test_wsl_conf_counts_a_crlf_after_a_value_twice() -> None:
    parsed = read("[automount]\r\ncgroups=v2\r\nroot=/w/\r\n", "wslconf")
    assert [(a.key, a.line) for a in parsed.accepted] == [("automount.cgroups", 3), ("automount.root", 5)]


def test_every_key_of_the_table_is_found_by_each_of_its_names() -> None:
    for mode in ("wslconfig", "wslconf"):
        for key in keys.table(mode):  # type: ignore[arg-type]
            for name in key.names:
                assert keys.find(name.upper(), mode) == key  # type: ignore[arg-type]


WORDS = st.sampled_from(
    ["[wsl2]", "[experimental]", "[wsl2", "[x]y", "memory", "swap", "=", " = ", "8GB", '"', "\\", "\\n", "\\q", "#", "\n",
     "\r\n", "\r", " ", "\t", ";", "é", "镜", "\0", "\x1a", "macAddress=1", "ignoredPorts=1,x", "\\\n", "\U0001f600"]
)  # fmt: skip


@settings(deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.lists(WORDS, max_size=25).map(lambda w: "".join(w).encode())),
    st.booleans(),
)
def test_reading_never_fails(data: bytes, conf: bool) -> None:
    parsed = parse(data, "wslconf" if conf else "wslconfig", **HOST)
    assert all(p.message for p in parsed.problems)
    lines = data.count(b"\n") * 2 + data.count(b"\r") + 2
    assert all(1 <= a.line <= lines for a in parsed.accepted)


@settings(deadline=None)
@given(st.lists(WORDS, max_size=25).map("".join))
def test_the_same_text_says_the_same_in_every_encoding(text: str) -> None:
    forms = (text.encode(), text.encode("utf-8-sig"), b"\xff\xfe" + text.encode("utf-16-le"))
    if text.startswith("\ufeff"):
        return
    seen = {(p.accepted, p.rejected, p.problems) for p in map(read, forms)}
    assert len(seen) == 1


PIECES = [b"\r", b"\n", b"\x1a", b"\0", b"\xff", b"\x80", b"\xe2\x82\xac", b"\xe2\x82", b"\xf0\x9f\x98\x80", b"\xf0\x9f", b"\xed\xa0\x80", b"\xef\xbf\xbd", b"a", b"#", b"="]


@given(st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
def test_each_unit_knows_its_place(mark: bytes, body: bytes) -> None:
    """Character by character from the front: what is no UTF-8 counts byte for byte."""
    data = mark + body
    units, starts, at = [], [], len(mark)
    while at < len(data):
        length = next((n for n in (1, 2, 3, 4) if _is_character(data[at : at + n])), 0)
        here = data[at : at + length].decode() if length else "\ufffd"
        if here == "\x1a":
            break
        if here == "\n" and at > len(mark) and data[at - 1 : at] == b"\r":
            units[-1] = 10
        else:
            for unit in memoryview(here.encode("utf-16-le")).cast("H"):
                units.append(unit)
                starts.append(at)
        at += length or 1
    found = wsl_grammar.decode(data, "wslconfig")
    assert list(found.units) == units
    assert list(found.starts) == [*starts, at]


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


def test_what_is_no_end_of_problems_is_cut_short() -> None:
    found = parse(b"x\n" * 10_050)
    assert len(found.problems) == 10_001
    assert (found.problems[-1].line, found.problems[-1].kind) == (None, "more_problems")
    assert "50" in found.problems[-1].message


@pytest.mark.parametrize("form", ["utf-8", "utf-16"])
def test_a_wrong_value_is_quoted_as_it_stands_in_the_file(form: str) -> None:
    found = parse("[wsl2]\nswap=8GB2. 重启WSL生效 # x\n".encode(form))
    (problem,) = found.problems
    assert "8GB2. 重启WSL生效'" in problem.message
