"""A failed start -> its diagnosis -> changed answers -> files -> another start, never in a circle."""

import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.launch.conftest import FAKE, free_port
from tests.launch.tiny_folder import make_model
from wizard import releases
from wizard.diagnose.engine import Finding, Fix
from wizard.launch import loop, processes, record, repair
from wizard.launch import run as launching
from wizard.launch.target import fingerprint, from_plan


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 0.2)
    monkeypatch.setattr(launching, "HEALTH_S", 0.2)
    monkeypatch.setattr(launching, "POLL_S", 0.05)


@pytest.fixture(scope="module")
def base():
    """A session of this machine, probed once, without recipes (all of them would be ranked in every plan)."""
    from wizard.host import RealHost
    from wizard.probes import run_all
    from wizard.recipes import RecipeBook
    from wizard.session import Session

    return Session(machine=run_all(RealHost()), recipes=RecipeBook(()))


@pytest.fixture
def environment(tmp_path) -> Path:
    """A local environment whose ``vllm`` is the stand-in."""
    bin_dir = tmp_path / "venv" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python").write_text("#!/bin/sh\necho 0.32.0\n")
    (bin_dir / "vllm").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    for path in bin_dir.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return bin_dir.parent


class Made:
    """A generated folder with its session and plan."""

    def __init__(self, host, base, folder: Path, **answers) -> None:
        from wizard.apply import prepare, write
        from wizard.outputs import files
        from wizard.plan import plan
        from wizard.session import Answers, look_at_model

        known = Answers(cli={"release": "0.32.0", "runtime": "local", "out_dir": str(folder), **answers})
        self.session = look_at_model(replace(base, answers=known), host, answers["model"])
        self.plan = plan(self.session)
        assert not self.plan.blockers, self.plan.blockers
        write(prepare(files(self.plan), folder))
        self.folder = folder

    @property
    def target(self):
        return from_plan(self.plan, self.folder)


@pytest.fixture
def made(host, base, tmp_path, environment):
    model = tmp_path / "models" / "Qwen3-0.6B"
    make_model(model)

    def make(**answers) -> Made:
        return Made(host, base, tmp_path / "out", model=str(model), venv=str(environment), port=free_port(), **answers)

    return make


def run(made: Made, host, accept=True, **options):
    shown = []

    def consent(diagnosis, step):
        shown.append(step)
        return accept

    result = loop.launch(
        made.target, host, plan=made.plan, session=made.session, asks=loop.Asks(consent), timeout_s=240.0, **options
    )
    if result.outcome.ok:
        result.launch.stop()
    return result, shown


def test_a_length_over_the_cache_is_shortened_and_starts(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "kv")
    monkeypatch.setenv("FAKE_KV_TOKENS", "3000")
    folder = made(max_model_len=8192)
    before = (folder.folder / "launch.sh").read_text()
    result, shown = run(folder, host)
    assert result.proven
    assert [t.diagnosis.findings[0].cause for t in result.tries] == ["max_model_len_exceeds_kv"]
    assert shown[0].changed == {"max_model_len": "3000"}
    after = (folder.folder / "launch.sh").read_text()
    assert "8192" in before
    assert "--max-model-len 3000" in after
    assert "max_model_len = 3000" in (folder.folder / "answers.toml").read_text()
    # What was tried is kept, and what the good start measured as well.
    rows = record.load(result.launch.id).attempts
    assert [(r.outcome, r.cause) for r in rows] == [("failed", "max_model_len_exceeds_kv"), ("ready", None)]
    assert rows[0].changed == {"max_model_len": "3000"}
    assert result.calibration is not None


def test_a_flag_put_into_the_script_by_hand_is_taken_out(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "flag")
    folder = made()
    script = folder.folder / "launch.sh"
    script.write_text(script.read_text().replace("  --max-model-len", "  --single-process\n  --max-model-len"))
    assert "--single-process" in script.read_text()
    result, _shown = run(folder, host)
    assert result.proven
    assert "--single-process" not in script.read_text()


def test_a_port_that_is_taken_meanwhile_is_exchanged(made, host):
    import socket

    folder = made()
    port = folder.target.port
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", port))
        sock.listen()
        result, shown = run(folder, host)
    assert result.proven, result.tries
    assert set(shown[0].changed) == {"port"}
    assert result.launch.target.port != port


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("launch.sh: Port 8000 is in use already.", "port_in_use"),
        ("launch.sh: The model is not at /m/x.", "path_missing"),
        ("launch.sh: This script is for vLLM 0.33.0; the environment holds 0.32.0.", "environment_mismatch"),
        ("launch.sh: something else", "script_check_failed"),
    ],
)
def test_what_the_script_itself_says(line, cause, host):
    findings = repair.examine(f"Starting\n\n{line}\n  ss -ltnp\nmore\n", None, host).findings
    assert [(f.cause, f.line, f.line_number) for f in findings] == [(cause, line, 3)]
    assert [f.summary for f in findings[0].fixes] == ["ss -ltnp"]


def test_an_environment_with_another_release_is_planned_for(made, host, environment):
    folder = made()
    (environment / "bin" / "python").write_text("#!/bin/sh\necho 0.31.0\n")
    result, shown = run(folder, host)
    assert result.proven, result.tries
    assert shown[0].changed == {"release": "0.31.0"}


def test_declined_nothing_is_written(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "kv")
    monkeypatch.setenv("FAKE_KV_TOKENS", "3000")
    folder = made(max_model_len=8192)
    before = fingerprint(folder.folder)
    result, shown = run(folder, host, accept=False)
    assert not result.outcome.ok
    assert len(shown) == 1
    assert fingerprint(folder.folder) == before


def test_without_repair_it_only_says_why(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "kv")
    monkeypatch.setenv("FAKE_KV_TOKENS", "3000")
    result, shown = run(made(max_model_len=8192), host, repair=False)
    assert shown == []
    assert result.tries[0].diagnosis.findings[0].cause == "max_model_len_exceeds_kv"


def test_never_in_a_circle(made, host, monkeypatch):
    # The same failure whatever is done: every start has other files, and it ends.
    monkeypatch.setenv("FAKE_MODE", "fail:ValueError: To serve at least one request with the model's max seq len (8192), estimated maximum model length is 3000.")
    marks = []
    folder = made(max_model_len=8192)
    asks = loop.Asks(lambda d, r: True, on_start=lambda launch, number: marks.append(fingerprint(folder.folder)))
    result = loop.launch(folder.target, host, plan=folder.plan, session=folder.session, asks=asks, timeout_s=240.0)
    assert not result.outcome.ok
    assert 1 < len(marks) <= repair.MAX_STARTS
    assert len(set(marks)) == len(marks)


def test_a_server_that_dies_of_its_first_request_does_not_count_as_running(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "poison")
    result, _shown = run(made(), host)
    assert not result.proven
    assert result.outcome.state == "died"
    assert "Unsupported CPU attention" in (result.tries[0].diagnosis.findings[0].line or "")


def test_an_unknown_failure_changes_nothing(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "fail:FrobnicationError: the frobnicator is out of order")
    result, shown = run(made(), host)
    assert shown == []
    assert len(result.tries) == 1


# -- proposals without a server -------------------------------------------------------------------------------


def finding(cause: str, *fixes: Fix) -> Finding:
    made = Finding(cause, "t", None, None, "high")
    made.fixes = list(fixes)
    return made


def test_an_environment_variable_becomes_an_answer_and_lands_in_the_files(made, host):
    folder = made()
    step = repair.propose(
        _diagnosis(finding("x", Fix("s", env={"VLLM_LOGGING_LEVEL": "DEBUG"}))), folder.session, folder.plan, folder.folder, host, frozenset()
    )
    assert step is not None
    assert step.changed == {"env.VLLM_LOGGING_LEVEL": "DEBUG"}
    repair.apply(step)
    assert "export VLLM_LOGGING_LEVEL=DEBUG" in (folder.folder / "launch.sh").read_text()
    # It is there again when the answers are replayed, and can be taken back.
    again = repair.with_answers(step.session, step.plan, {"env.VLLM_LOGGING_LEVEL": None})
    from wizard.plan import plan

    assert "VLLM_LOGGING_LEVEL" in step.plan.env
    assert "VLLM_LOGGING_LEVEL" not in plan(again).env


def test_a_vanished_engine_gets_less_memory(made, host):
    folder = made(max_model_len=8192, max_num_seqs=64)
    steps = repair.candidates(finding("host_oom_killed"), folder.session, folder.plan, host)
    assert steps
    assert steps[0][1]["max_num_seqs"] == "16"
    assert int(steps[-1][1]["max_model_len"]) < 8192


def test_what_no_answer_can_say_is_no_repair(made, host):
    folder = made()
    fixes = [Fix("install a driver", commands=["sudo apt install nvidia-driver"]), Fix("edit", files=[{"path": ".wslconfig", "key": "memory"}])]
    assert repair.candidates(finding("driver_too_old_for_cuda", *fixes), folder.session, folder.plan, host) == []
    # A flag that the release does not have is not tried at all.
    # What holds a word in the place of a value is advice; to work offline the model must be here.
    words = [Fix("p", env={"HTTPS_PROXY": "http://PROXY:PORT"}), Fix("m", env={"HF_ENDPOINT": "https://YOUR-MIRROR"})]
    assert repair.candidates(finding("x", *words), folder.session, folder.plan, host) == []
    offline = finding("x", Fix("o", env={"HF_HUB_OFFLINE": "1"}))
    assert folder.plan.model is not None
    assert bool(repair.candidates(offline, folder.session, folder.plan, host)) is folder.plan.model.is_local
    away = replace(folder.plan, model=replace(folder.plan.model, source="a/M", repo_id="a/M", is_local=False))
    assert not away.model.is_local
    assert repair.candidates(offline, folder.session, away, host) == []
    assert repair.candidates(finding("x", Fix("s", flags={"--no-such-flag": "1"})), folder.session, folder.plan, host) == []


def test_files_tried_before_are_not_proposed_again(made, host):
    folder = made(max_model_len=8192)
    diagnosis = _diagnosis(finding("x", Fix("s", flags={"--max-model-len": "4096"})))
    step = repair.propose(diagnosis, folder.session, folder.plan, folder.folder, host, frozenset())
    assert step is not None
    assert repair.propose(diagnosis, folder.session, folder.plan, folder.folder, host, frozenset({step.fingerprint})) is None
    repair.apply(step)
    assert fingerprint(folder.folder) == step.fingerprint


def test_another_copy_of_a_damaged_model_is_taken(made, host, tmp_path):
    from wizard.models.info import FoundModel
    from wizard.models.inspect import inspect

    folder = made()
    copy = tmp_path / "backup" / "Qwen3-0.6B"
    make_model(copy)
    session = replace(folder.session, found=(FoundModel(str(copy), "Qwen3-0.6B", "folder", 65536),))
    session = session.with_model(str(copy), inspect(host, str(copy)))
    step = repair.propose(_diagnosis(finding("corrupt_or_unexpected_file")), session, folder.plan, folder.folder, host, frozenset())
    assert step is not None
    assert step.changed == {"model": str(copy)}


def _diagnosis(*findings: Finding):
    from wizard.diagnose.engine import Diagnosis

    made = Diagnosis()
    made.findings = list(findings)
    return made


def test_secrets_stay_in_their_file(made, host, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "kv")
    monkeypatch.setenv("FAKE_KV_TOKENS", "3000")
    folder = made(max_model_len=8192)
    env = folder.folder / "vllm.env"
    env.write_bytes(env.read_bytes() + b"\nHF_TOKEN=hf_notarealtoken\n")
    result, _shown = run(folder, host)
    assert result.proven
    assert b"hf_notarealtoken" in env.read_bytes()
    texts = [p.read_text() for p in record.state_folder().rglob("*") if p.is_file()]
    assert not any("hf_notarealtoken" in t for t in texts)
    assert env.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("log", ["", "(APIServer pid=1) WARNING 11-30 09:07:36 [interface.py:1457] Unknown vLLM environment variable detected: VLLM_OLD\n"])
@pytest.mark.parametrize("code", [-9, 137])
def test_killed_without_a_word(host, log, code):
    found = repair.examine(log, "0.32.0", host, code)
    assert found.findings[0].cause == "host_oom_killed"
    assert repair.examine("", "0.32.0", host, 1).findings == []


@pytest.mark.parametrize(
    ("flag", "answer"),
    [
        ("--no-enable-prefix-caching", {"enable_prefix_caching": "false"}),
        ("--disable-log-requests", {"enable_log_requests": "false"}),
        ("--enforce-eager", {"enforce_eager": "true"}),
    ],
)
def test_a_fix_that_turns_a_switch_off_is_the_answer_no(made, flag, answer):
    plan = replace(made().plan, release=releases.load("0.33.0"))
    assert repair._answers_of(Fix("x", {flag: True}), plan) == answer


def test_a_cure_that_lowers_figures_never_raises_them() -> None:
    from wizard.diagnose.engine import only_less

    fix = {"--max-num-seqs": "16", "--max-num-batched-tokens": "2048", "--enforce-eager": True}
    assert only_less(fix, {"max_num_seqs": "8"}.get) == {"--max-num-seqs": "4", "--max-num-batched-tokens": "2048", "--enforce-eager": True}
    assert only_less(fix, {"max_num_seqs": "256"}.get)["--max-num-seqs"] == "16"
    assert only_less({"--max-num-seqs": "16"}, {"max_num_seqs": "1"}.get) == {}
    assert only_less({"--max-model-len": "8192"}, {"max_model_len": "auto"}.get) == {"--max-model-len": "8192"}


def test_a_cure_of_a_log_is_held_against_the_plan() -> None:
    from tests.plan.conftest import session_of
    from wizard.plan import plan

    made = plan(session_of("wsl2-rtx3060-model-on-d"))
    fewer = Fix("Fewer", {"--max-num-seqs": "16"}, less=True)
    assert made.value("max_num_seqs") == 8
    assert repair._answers_of(fewer, made) == {"max_num_seqs": "4"}
    assert repair._answers_of(Fix("So many", {"--max-num-seqs": "16"}), made) == {"max_num_seqs": "16"}
