"""Recipes x machines x releases: whatever is planned, the release's rules accept it. A sample; the whole is slow."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.plan.conftest import NAMES, bare
from wizard import releases
from wizard.plan import plan
from wizard.recipes import Recipe, Variant

SERVING = [n for n in NAMES if plan(bare(n)).blockers == ()]
INTENTS = (None, "chat", "agent", "vision", "image_only", "lora", "embedding", "longest", "throughput")


def variants() -> list[tuple[Recipe, Variant]]:
    return list(bare(NAMES[0]).recipes.variants())


def supported(recipe: Recipe, variant: Variant) -> list[str]:
    """The releases from the recipe's first supported one on."""
    first = recipe.min_release_for(variant)
    known = first if first and first[:1].isdigit() else releases.versions()[-1]
    return [v for v in releases.versions() if releases.version_key(v) >= releases.version_key(known)]


def refusals(name: str, variant: Variant, release: str, intent: str | None) -> Iterator[str]:
    session = bare(name).with_model(variant.model_id, variant.model_info())
    session = session.answer("model", variant.model_id).answer("release", release)
    if intent is not None:
        session = session.answer("intent", intent)
    made = plan(session)
    yield from (f"{b.title} {b.detail}" for b in made.blockers if b.code == "flag_refused")
    for argv in (made.argv, made.container_argv):
        yield from (f"{p.flag}: {p.message}" for p in releases.check_argv(list(argv), release) if p.refused)


def test_a_sample_is_accepted_by_the_catalogue() -> None:
    chosen = random.Random(20261130)
    wrong = []
    for recipe, variant in chosen.sample(variants(), 20):
        found = supported(recipe, variant)
        if not found:
            continue
        for release in {found[0], found[-1], chosen.choice(found)}:
            name, intent = chosen.choice(SERVING), chosen.choice(INTENTS)
            wrong += [
                f"{variant.model_id} {release} {name} {intent}: {r}"
                for r in refusals(name, variant, release, intent)
            ]
    assert wrong == []


@pytest.mark.slow
def test_the_whole_product_is_accepted_by_the_catalogue() -> None:
    wrong = []
    for recipe, variant in variants():
        for release in supported(recipe, variant):
            for name in SERVING:
                wrong += [
                    f"{variant.model_id} {release} {name}: {r}"
                    for r in refusals(name, variant, release, None)
                ]
    assert wrong == []
