"""Decisions under answers: seeds' cases, pinned releases, odd answers, paths that need quoting."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.plan.conftest import bare, session_of
from wizard import releases
from wizard.facts import GpuStack, Vendor, known, unknown
from wizard.models.info import ModelInfo
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan.choose_model import recipe_for
from wizard.steps import QUESTIONS, asked, visible_steps


def option(argv: tuple[str, ...], flag: str) -> str | None:
    return argv[argv.index(flag) + 1] if flag in argv else None


def test_qwen3_vl_on_wsl_needs_no_invented_flag_and_leaves_the_windows_drive() -> None:
    made = plan(
        session_of(
            "wsl2-rtx3060-model-on-d", model="/mnt/d/models/Qwen3-VL-8B-Instruct-AWQ-4bit", max_model_len=512
        )
    )
    assert made.move is not None
    assert made.move.wanted
    assert (made.host_model_path or "").startswith("/home/user/models/")
    assert json.loads(option(made.argv, "--limit-mm-per-prompt") or "{}")["video"] == 0
    assert made.value("wsl_memory_gib") > 8


@pytest.mark.parametrize(
    ("release", "form"),
    [
        ("0.7.3", "image=4,video=0"),
        ("0.9.2", '{"image": 4, "video": 0}'),
        ("0.33.0", '{"image": 4, "video": 0}'),
    ],
)
def test_limits_are_written_as_the_release_reads_them(release: str, form: str) -> None:
    from wizard.plan.arguments import limits_value

    assert limits_value({"image": 4, "video": 0}, releases.load(release)) == form


def test_lora_on_a_mixture_model_takes_a_release_that_has_the_fix() -> None:
    made = plan(session_of("native-4x-h200"))
    assert made.value("intent") == "lora"
    assert "--enable-lora" in made.argv
    assert option(made.argv, "--tensor-parallel-size") == "4"
    assert releases.version_key(made.release.version) >= releases.version_key("0.20.0")


def test_lora_on_a_mixture_model_with_a_pinned_older_release_gets_the_workaround() -> None:
    made = plan(session_of("native-4x-h200", release="0.17.1"))
    assert option(made.argv, "--moe-backend") == "triton"
    reason = next(d.reason for d in made.decisions if d.flag == "--moe-backend")
    assert "LoRA" in reason
    assert made.decision("release").proposed is not None


@pytest.mark.parametrize("release", ["0.24.0", "0.27.1", "0.29.0"])
def test_wsl_start_of_the_releases_without_uva_is_cured(release: str) -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", release=release))
    assert (
        made.env.get("VLLM_WSL2_ENABLE_PIN_MEMORY") == "1" or made.env.get("VLLM_USE_V2_MODEL_RUNNER") == "0"
    )


def test_a_cpu_plan_is_not_told_of_what_only_gpus_suffer_from() -> None:
    made = plan(session_of("wsl2-no-gpu", release="0.24.0"))
    assert made.device == "cpu"
    assert "VLLM_WSL2_ENABLE_PIN_MEMORY" not in made.env
    assert not [c for c in made.choices["release"] if "UVA" in c.note + c.against]


def test_the_relief_stands_before_the_fault() -> None:
    notes = [c.note for c in plan(session_of("wsl2-rtx4090-desktop")).choices["release"] if "UVA" in c.note]
    assert notes
    assert all(note.startswith("works with a cure: ") for note in notes)


def test_the_same_release_needs_no_cure_on_plain_linux() -> None:
    made = plan(session_of("native-rtx5090", release="0.24.0"))
    assert "VLLM_WSL2_ENABLE_PIN_MEMORY" not in made.env


def test_a_v100_gets_the_last_release_with_its_kernels_and_half_precision() -> None:
    made = plan(session_of("native-v100"))
    assert releases.version_key(made.release.version) < releases.version_key("0.20.0")
    assert option(made.argv, "--dtype") == "half"


def test_an_old_driver_gets_an_image_with_an_older_cuda() -> None:
    made = plan(session_of("wsl2-rtx5070-laptop-old-driver"))
    assert made.image is not None
    assert (made.image.cuda or "").startswith("12.")


def test_two_gpus_are_used_when_one_is_too_small() -> None:
    made = plan(session_of("wsl2-2x-rtx3090"))
    assert option(made.argv, "--tensor-parallel-size") == "2"


def test_tensor_parallel_size_above_the_gpus_is_a_blocker() -> None:
    made = plan(session_of("wsl2-2x-rtx3090", tensor_parallel_size=4))
    assert "tp_over_gpus" in {b.code for b in made.blockers}


def test_a_length_over_the_models_own_is_a_blocker() -> None:
    made = plan(session_of("native-rtx5090", max_model_len=10_000_000))
    assert "max_model_len_exceeds_model" in {b.code for b in made.blockers}


def test_a_port_in_use_is_a_blocker_and_a_free_one_is_proposed() -> None:
    session = bare("native-rtx5090")
    busy = replace(session, machine=replace(session.machine, used_ports=frozenset({8000, 8001})))
    assert plan(busy).value("port") == 8002
    assert "bad_answer" in {b.code for b in plan(busy.answer("port", 8001)).blockers}


def test_an_answer_equal_to_the_proposal_changes_nothing() -> None:
    plain = plan(bare("wsl2-rtx4090-desktop"))
    session = bare("wsl2-rtx4090-desktop")
    for step in visible_steps(plain):
        for question in asked(step, plain):
            value = question.current(plain)
            if value is not None and question.key != "model":
                session = session.answer(question.key, value)
    assert [f.content for f in files(plan(session))] == [f.content for f in files(plain)]


def test_an_extra_option_wins_and_is_written_in_full() -> None:
    made = plan(session_of("native-rtx5090", max_num_batched_tokens="4096", enforce_eager="true"))
    assert option(made.argv, "--max-num-batched-tokens") == "4096"
    assert "--enforce-eager" in made.argv


def test_a_value_that_the_release_refuses_is_a_blocker() -> None:
    made = plan(session_of("native-rtx5090", load_format="no-such-format", max_num_batched_tokens="many"))
    assert "flag_refused" in {b.code for b in made.blockers}


def test_network_access_on_nat_wsl_gives_both_ways_of_the_proxy() -> None:
    made = plan(session_of("wsl2-interop-off-custom-root", access="network"))
    lines = [line for step in made.after for line in step.commands]
    assert any("portproxy add" in line for line in lines)
    assert any("portproxy delete" in step.consequence for step in made.after)
    assert not any("delete" in line for line in lines)
    assert all(
        step.where == "powershell-admin"
        for step in made.after
        if any("portproxy" in c for c in step.commands)
    )


def test_network_access_listens_on_all_addresses_and_needs_a_key() -> None:
    made = plan(session_of("native-rtx5090", access="network"))
    text = {f.path: f.content.decode() for f in files(made)}
    assert "0.0.0.0:8001:8000" in text["compose.yaml"]
    assert "VLLM_API_KEY=" in text["vllm.env"]
    key = text["vllm.env"].split("VLLM_API_KEY=")[1].splitlines()[0]
    assert len(key) >= 32
    assert all(key not in content for path, content in text.items() if path != "vllm.env")


def test_a_model_of_the_same_shape_from_another_family_gets_no_recipe() -> None:
    session = bare("native-t4")
    distill = session.recipes.find("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B")
    assert distill is not None
    info = distill[1].model_info()
    other = replace(info, repo_id="someone/Mystery-7B", source="/home/user/models/Mystery-7B")
    assert recipe_for(session, info) is not None
    assert recipe_for(session, other) is None


@pytest.mark.parametrize(
    "folder", ["a b", "it's", 'quo"te', "do$lar", "back\\slash", "new\nline", "comma,s", "模型", "-dash"]
)
def test_odd_folder_names_reach_the_container_whole(folder: str) -> None:
    session = bare("native-rtx5090")
    path = f"/home/user/models/{folder}"
    source = next(f.path for f in session.found if f.complete)
    info = replace(session.models[source], source=path)
    made = plan(session.with_model(path, info).answer("model", path))
    assert made.blockers == ()
    assert made.mounts[0][0] == path
    assert all(word.isprintable() for word in made.argv)
    assert files(made)


values = st.one_of(
    st.text(max_size=12),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=True, allow_infinity=True),
    st.booleans(),
    st.lists(st.text(max_size=6), max_size=3).map(tuple),
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(
        st.sampled_from([*QUESTIONS, "enforce_eager", "no_such_thing", "limit_mm_per_prompt"]),
        values,
        max_size=5,
    )
)
@example({"served_model_name": "\0"})
def test_plan_never_raises(answers: dict[str, object]) -> None:
    session = bare("wsl2-rtx4090-desktop")
    for key, value in answers.items():
        session = session.answer(key, value)  # type: ignore[arg-type]
    made = plan(session)
    files(made)
    json.dumps([str(d.value) for d in made.decisions])


def test_a_model_known_by_name_only_is_never_said_to_fit() -> None:
    session = bare("native-rtx5090")
    named = ModelInfo(
        source="someone/unheard-of", is_local=False, repo_id="someone/unheard-of", kv_layout_known=False
    )
    made = plan(session.with_model("someone/unheard-of", named).answer("model", "someone/unheard-of"))
    assert {"fit_unknown", "fit_uncertain", "does_not_fit"} & {
        n.code for n in (*made.warnings, *made.blockers)
    }


@pytest.mark.parametrize("name", ["wsl2-rtx4090-desktop", "native-4x-h200"])
def test_no_single_flag_is_a_secret_and_each_has_a_meaning(name: str) -> None:
    rows = plan(bare(name)).flag_rows
    assert len(rows) > 30
    assert not {"api_key", "hf_token"} & {row.dest for row in rows}
    assert all(row.meaning and row.memory for row in rows)


def test_a_secret_given_as_an_option_never_reaches_the_command() -> None:
    from wizard.errors import BadInput
    from wizard.steps import set_answer

    session = bare("native-rtx5090")
    with pytest.raises(BadInput, match="secret"):
        set_answer(session, plan(session), "api-key", "planted-secret")


def test_the_rank_of_an_adapter_that_was_found_is_used() -> None:
    session = bare("native-4x-h200")
    rank = max(a.rank or 0 for a in session.adapters)
    assert option(plan(session).argv, "--max-lora-rank") == str(rank)


@pytest.mark.parametrize(
    ("host", "access"),
    [("0.0.0.0", "network"), ("127.0.0.1", "local"), ("::1", "local"), ("192.168.1.5", "network")],
)
def test_an_address_that_is_open_to_the_network_needs_a_key(host: str, access: str) -> None:
    made = plan(session_of("wsl2-rtx4090-desktop", model="Qwen/Qwen3-8B", runtime="local", host=host))
    assert made.value("access") == access
    assert option(made.argv, "--host") == host
    env = next(f.content.decode() for f in files(made) if f.path == "vllm.env")
    assert ("VLLM_API_KEY=" in env) == (access == "network")


def test_open_address_and_local_access_contradict() -> None:
    made = plan(session_of("native-rtx5090", host="0.0.0.0", access="local"))
    assert "bad_answer" in {b.code for b in made.blockers}


def test_a_processor_without_avx512_is_offered_no_quantized_model() -> None:
    session = bare("cpu-only-laptop")
    plain = replace(session.machine.cpu, flags=frozenset({"avx2"}))
    made = plan(replace(session, machine=replace(session.machine, cpu=plain), found=()))
    assert made.model is not None
    assert made.model.quantization is None


def test_the_cpu_plan_leaves_room_for_the_server_itself() -> None:
    made = plan(bare("wsl2-no-gpu"))
    free = made.machine.memory.available_bytes.or_else(0)
    taken = (made.model.weight_bytes or 0) + int(made.env["VLLM_CPU_KVCACHE_SPACE"]) * (1 << 30)
    assert taken < free - 3 * (1 << 30)


def test_the_figures_know_the_processor() -> None:
    session = bare("wsl2-no-gpu")
    made = plan(session)
    assert made.fit_request is not None
    assert "avx512_bf16" in (made.fit_request.cpu_flags or ())
    blank = replace(session.machine.cpu, flags=frozenset())
    made = plan(replace(session, machine=replace(session.machine, cpu=blank)))
    assert made.fit_request is not None
    assert made.fit_request.cpu_flags is None


def test_intent_lora_without_an_adapter_says_so() -> None:
    assert "no_adapter" in {w.code for w in plan(session_of("native-rtx5090", intent="lora")).warnings}


def test_a_release_newer_than_the_catalogue_is_named_alike_everywhere() -> None:
    made = plan(session_of("native-rtx5090", release="99.9", runtime="local"))
    text = "".join(f.content.decode() for f in files(made))
    assert "vllm==99.9" in text
    assert "vllm==0" not in text
    assert ":v99.9" in text


def test_a_tag_that_is_no_version_runs_with_docker_only() -> None:
    assert "release_not_a_version" in {
        b.code for b in plan(session_of("wsl2-container", release="nightly")).blockers
    }


def test_the_try_line_reads_the_key_where_it_stands() -> None:
    made = plan(session_of("native-rtx5090", access="network"))
    lines = [line for step in made.after for line in step.commands if line.startswith("curl")]
    assert all("vllm.env" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("native-rtx5090", "max_model_len", 10_000_000),
        ("native-rtx5090", "max_num_seqs", 9_999_999),
        ("wsl2-2x-rtx3090", "tensor_parallel_size", 4),
    ],
)
def test_what_the_plan_would_refuse_is_said_beside_the_field(name: str, key: str, value: int) -> None:
    made = plan(bare(name))
    assert QUESTIONS[key].error(made, value)
    assert QUESTIONS[key].error(made, made.value(key)) is None


def test_an_intel_card_gets_the_image_for_it() -> None:
    session = bare("native-rtx5090")
    card = replace(
        session.machine.gpu.gpus[0], name="Intel(R) Arc(TM) Pro B60", vendor=Vendor.INTEL, vram_total_bytes=known(24 << 30, "test"),
        vram_free_bytes=known(23 << 30, "test"), compute_capability=unknown("not an NVIDIA GPU"),
    )  # fmt: skip
    stack = GpuStack((card,), Vendor.INTEL)
    made = plan(replace(session, machine=replace(session.machine, gpu=stack)))
    assert made.blockers == ()
    assert made.device == "intel"
    assert (made.image_reference or "").startswith("vllm/vllm-openai-xpu:v")
    text = {f.path: f.content.decode() for f in files(made)}
    assert "/dev/dri" in text["compose.yaml"]
    assert "--device /dev/dri" in text["launch.sh"]
    assert "nvidia" not in text["compose.yaml"]


def test_a_typed_model_does_not_make_all_others_be_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import wizard.plan as room

    session = bare("native-rtx5090")
    plan(session)

    def again(*_args: object) -> object:
        raise AssertionError("judged again")

    monkeypatch.setattr(room, "candidates", again)
    variant = next(v for _r, v in session.recipes.variants() if v.model_id == "Qwen/Qwen3-VL-8B-Instruct")
    typed = session.with_model(variant.model_id, variant.model_info()).answer("model", variant.model_id)
    assert plan(typed).value("model") == variant.model_id


def test_every_command_that_is_to_be_typed_has_a_line_of_its_own() -> None:
    """A command within a sentence is broken where the sentence is."""
    made = plan(session_of("native-rtx5090", access="network"))
    started = next(step for step in made.after if any(line.startswith("vllm-wizard launch") for line in step.commands))
    assert started.commands == (f"vllm-wizard launch {made.value('out_dir')}",)
    assert not any("vllm-wizard" in step.consequence for step in made.after)
