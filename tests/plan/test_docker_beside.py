"""compose.yaml beside a local environment: an image that Docker here takes, or first what Docker lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.check.test_here import place
from tests.plan.conftest import session_of
from wizard.check.commands import check_text, check_words, lines_of
from wizard.facts import known
from wizard.outputs import files
from wizard.plan import plan
from wizard.plan_types import Plan
from wizard.releases import driver_needed, image_of
from wizard.session import Session, Value

OLD_DRIVER = "wsl2-rtx5070-laptop-old-driver"
NO_RUNTIME = "wsl2-interop-off-custom-root"
LARGE_DRIVER = "native-rtx5090"


def compose(made: Plan) -> str:
    return next(f for f in files(made) if f.path == "compose.yaml").content.decode()


def head(made: Plan) -> str:
    text = compose(made)
    return " ".join(line.lstrip("# ") for line in text[: text.index("services:")].splitlines())


def with_driver(session: Session, version: str) -> Session:
    gpu = replace(session.machine.gpu, driver_version=known(version, "test"))
    return replace(session, machine=replace(session.machine, gpu=gpu))


def test_a_driver_that_is_too_old_for_the_image_is_named_before_anything_else() -> None:
    made = plan(session_of(OLD_DRIVER))
    assert made.runtime == "local"
    assert "575 or newer" in made.docker_lacks
    assert head(made).startswith("Docker cannot run this here yet: ")
    assert "575 or newer" in head(made)
    assert "cannot run it here yet" in next(f for f in files(made) if f.path == "compose.yaml").title


def test_what_docker_itself_lacks_is_named_as_well() -> None:
    made = plan(session_of(NO_RUNTIME, runtime="local"))
    assert "NVIDIA" in made.docker_lacks
    assert head(made).startswith("Docker cannot run this here yet: ")


@pytest.mark.parametrize("answers", [{}, {"runtime": "local"}])
def test_where_docker_takes_the_image_nothing_is_said(answers: dict[str, Value]) -> None:
    made = plan(session_of(LARGE_DRIVER, **answers))
    assert made.docker_lacks == ""
    assert "cannot run" not in compose(made)


def test_the_image_beside_a_local_environment_is_one_that_the_driver_starts() -> None:
    session = with_driver(session_of(LARGE_DRIVER, runtime="local", release="0.32.0"), "575.57.08")
    made = plan(session)
    image = next(line.split()[-1].strip('"') for line in compose(made).splitlines() if "image:" in line)
    found = image_of(image)
    assert found is not None
    need = driver_needed(found)
    assert need is not None
    assert need.accepts("575.57.08", True)[0]
    assert made.docker_lacks == ""


def test_the_written_file_is_checked_as_generate_judges_it() -> None:
    here = place(OLD_DRIVER)
    report = check_text(compose(plan(session_of(OLD_DRIVER))), "compose.yaml", None, here)
    lines = lines_of(report)
    assert "does not start" in lines[0]
    assert "575 or newer" in "\n".join(lines)


IMAGES = ("vllm/vllm-openai:v0.32.0-cu129", "docker.io/vllm/vllm-openai:v0.32.0", "mirror.example/vllm/vllm-openai:v0.32.0")


@pytest.mark.parametrize("image", IMAGES)
def test_the_image_of_a_docker_command_is_held_against_the_driver(image: str) -> None:
    words = ["docker", "run", "--gpus", "all", "--ipc=host", image, "Qwen/Qwen3-0.6B", "--max-model-len", "2048"]
    lines = lines_of(check_words(words, None, place(OLD_DRIVER)))
    assert "does not start" in lines[0]
    assert "which asks for" in " ".join("\n".join(lines).split())


@pytest.mark.parametrize("image", ["vllm/vllm-openai-cpu:v0.32.0", "vllm/vllm-openai:nightly", "someone/else:v0.32.0"])
def test_an_image_of_which_nothing_is_known_is_not_spoken_of(image: str) -> None:
    assert image_of(image) is None


def test_a_plain_command_has_no_image_to_judge() -> None:
    lines = lines_of(check_words(["vllm", "serve", "m", "--max-model-len", "2048", "--gpu-memory-utilization", "0.8"], "0.32.0", place(OLD_DRIVER)))
    assert "would start" in lines[0]
