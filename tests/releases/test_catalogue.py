"""The catalogue's data and its loader."""

from __future__ import annotations

import json
import time

import pytest

from wizard import releases
from wizard.errors import BadInput
from wizard.releases import commands
from wizard.releases.help import help_for, offered
from wizard.releases.images import driver_key


def test_every_release_of_the_index_is_there() -> None:
    known = releases.versions()
    assert len(known) >= 60
    assert list(known) == sorted(known, key=releases.version_key)
    assert known[0] == "0.6.3.post1"
    for version in ("0.15.1", "0.8.5.post1", "0.10.1.1", "0.33.0"):
        assert version in known


@pytest.mark.parametrize("version", ["0.6.3.post1", "0.8.5.post1", "0.15.1", "0.33.0"])
def test_no_release_was_read_only_in_part(version: str) -> None:
    release = releases.load(version)
    assert release.notes == ()
    assert len(release.options) > 100
    assert len(release.architectures) > 80
    assert "awq" in release.quantization
    assert len({o.dest for o in release.options}) == len(release.options)


@pytest.mark.parametrize(
    ("asked", "version", "exact"),
    [
        ("0.33.0", "0.33.0", True),
        ("v0.33", "0.33.0", True),
        ("latest", releases.newest(), True),
        ("v0.24.0-cu129", "0.24.0", True),
        ("v0.21.0-cu129-ubuntu2404", "0.21.0", True),
        ("0.8.5.post1", "0.8.5.post1", True),
        ("nightly", releases.newest(), False),
        ("nightly-2f4a8e", releases.newest(), False),
        ("0.17.2", "0.17.1", False),
        ("0.20.0rc1", "0.19.1", False),
        ("0.20.1.dev7+g12ab", "0.20.0", False),
        ("0.5.5", "0.6.3.post1", False),
        ("99.0", releases.newest(), False),
    ],
)
def test_what_is_asked_for_is_found_or_said(asked: str, version: str, exact: bool) -> None:
    release = releases.load(asked)
    assert (release.version, release.exact) == (version, exact)
    assert release.asked == (None if exact else asked)


def test_no_version_is_bad_input() -> None:
    with pytest.raises(BadInput, match="banana"):
        releases.load("banana")


def test_spans_of_flags_over_releases() -> None:
    assert releases.flag_spans("--disable-log-requests") == [("0.6.3.post1", "0.16.0"), ("0.33.0", releases.newest())]
    assert releases.last_with_flag("--swap_space") == "0.17.1"
    assert releases.first_with_flag("--skip-mm-profiling") == "0.10.1"
    assert releases.first_with_flag("--disable-uvloop") is None
    assert releases.first_with_architecture("Qwen3VLForConditionalGeneration") == "0.11.0"
    assert releases.first_with_architecture("NoSuchModel") is None


def test_generated_twins_of_0_33() -> None:
    option = releases.load("0.33.0").option("--enable-log-requests")
    assert option is not None
    assert set(option.flags) == {"--enable-log-requests", "--no-enable-log-requests", "--disable-log-requests"}
    before = releases.load("0.32.0").option("--enable-log-requests")
    assert before is not None
    assert "--disable-log-requests" not in before.flags


def test_effective_defaults() -> None:
    def default(version: str, flag: str) -> object:
        option = releases.load(version).option(flag)
        assert option is not None
        return option.default

    assert default("0.19.1", "--gpu-memory-utilization") == 0.9
    assert default("0.20.0", "--gpu-memory-utilization") == 0.92
    assert default("0.33.0", "--port") == 8000


def test_fixed_lora_ranks() -> None:
    option = releases.load("0.32.0").option("--max-lora-rank")
    assert option is not None
    assert set(option.choices or ()) == {"1", "8", "16", "32", "64", "128", "256", "320", "512"}


def test_one_release_loads_in_20_ms() -> None:
    releases.load.cache_clear()
    started = time.perf_counter()
    releases.load("0.33.0")
    assert time.perf_counter() - started < 0.1  # 20 ms is measured; a loaded machine gets some room


def test_images_and_variants() -> None:
    new, old = releases.load("0.24.0"), releases.load("0.9.2")
    plain = releases.image_for(new)
    assert plain is not None
    assert (plain.reference, plain.min_driver) == ("vllm/vllm-openai:v0.24.0", "580")
    assert not plain.serves_with_model_flag
    variant = releases.image_for(new, "nvidia", "cu129")
    assert variant is not None
    assert (variant.tag, variant.cuda, variant.min_driver) == ("v0.24.0-cu129", "12.9.1", "575")
    assert releases.image_for(new, "nvidia", "cu124") is None
    assert releases.image_for(releases.load("0.33.0"), "nvidia", "cu129") is None  # no longer published
    first = releases.image_for(old)
    assert first is not None
    assert first.serves_with_model_flag
    assert releases.image_for(old, "amd") is None
    rocm = releases.image_for(new, "amd")
    assert rocm is not None
    assert rocm.reference == "vllm/vllm-openai-rocm:v0.24.0"
    with pytest.raises(BadInput):
        releases.image_for(new, "apple")


@pytest.mark.parametrize(
    ("version", "capability", "runs"),
    [
        ("0.33.0", "7.0", False),
        ("0.19.1", "7.0", True),
        ("0.33.0", "8.6", True),
        ("0.9.2", "8.6", True),
        ("0.33.0", "12.1", True),
        ("0.8.5.post1", "12.0", True),  # through +PTX
        ("0.6.6", "6.1", False),
        ("0.24.0", "13.0", False),
    ],
)
def test_kernels_run_on_the_same_major_and_higher_minors(version: str, capability: str, runs: bool) -> None:
    image = releases.image_for(releases.load(version))
    assert image is not None
    assert releases.runs_on(image, capability)[0] is runs


def test_drivers() -> None:
    thirteen = releases.driver_needed(releases.load("0.33.0").image)
    assert thirteen is not None
    assert thirteen.accepts("580.65.06")[0]
    assert not thirteen.accepts("576.80")[0]
    twelve = releases.driver_needed(releases.load("0.19.1").image)
    assert twelve is not None
    assert twelve.accepts("576.80")[0]
    assert not twelve.accepts("550.54.15", consumer=True)[0]
    assert twelve.accepts("550.54.15", consumer=False)[0]
    assert twelve.accepts("535.104.05", image=False)[0]
    assert not twelve.accepts("470.82", image=False)[0]
    assert driver_key("580.65.06") > driver_key("575.57.08")


def test_known_faults_need_release_and_conditions() -> None:
    def ids(version: str, *conditions: str) -> set[str]:
        return {f.id for f in releases.known_faults(version, conditions)}

    assert "wsl-uva" in ids("0.24.0", "wsl")
    assert "wsl-uva" not in ids("0.24.0")
    assert "wsl-uva" not in ids("0.30.0", "wsl")
    assert "wsl-uva" in ids("0.24.0", "wsl", "device:nvidia")
    assert "wsl-uva" not in ids("0.24.0", "wsl", "device:cpu")
    lora = releases.known_faults("0.17.1", {"lora", "moe", "unquantized"})
    assert ("--moe-backend", "triton") in lora[0].flags
    assert ids("0.20.0", "lora", "moe", "unquantized") == set()
    assert "fp8-kv-before-ada" in ids("0.33.0", "kv_cache_dtype:fp8", "compute_capability:8.6")
    assert "fp8-kv-before-ada" not in ids("0.33.0", "kv_cache_dtype:fp8", "compute_capability:8.9")


def test_every_flag_of_a_known_fault_exists_in_its_releases() -> None:
    from wizard.releases.faults import all_faults

    for fault in all_faults():
        assert fault.source
        for version in (fault.first, fault.last):
            for flag, value in fault.flags:
                if version is not None:
                    argv = ["m", flag, *([value] if value else [])]
                    assert releases.check_argv(argv, version) == [], (fault.id, version)


def test_offered_options_have_help_and_exist() -> None:
    dests = {o.dest for v in releases.versions() for o in releases.load(v).options}
    for dest in offered():
        words = help_for(dest)
        assert words is not None
        assert words.meaning
        assert dest in dests, dest


def test_show_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(["show", "0.33.0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    for key in ("version", "options", "env", "architectures", "quantization", "tool_parsers", "reasoning_parsers", "image"):
        assert data[key]
    assert {"flags", "dest", "kind", "choices", "default", "deprecated"} <= set(data["options"][0])


def test_commands_refuse_nonsense(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput):
        commands.run(["show", "0.33.0", "0.32.0"])
    with pytest.raises(BadInput):
        commands.run(["list", "0.33.0"])
    assert commands.run(["show", "0.33.0", "--flag=--no-such-flag"]) == 1
    assert commands.run(["show", "0.33.0", "--flag=--gpu-mem"]) == 0
    assert "--gpu-memory-utilization" in capsys.readouterr().out
