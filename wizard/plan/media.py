"""Limits of images and videos in one request, however they were given: by question, or by vLLM's own option."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wizard.i18n import _
from wizard.models.info import ModelInfo
from wizard.plan.draft import Draft
from wizard.session import Answers, Layer, Value

OPTION = "limit_mm_per_prompt"
QUESTIONS = {"image": "limit_images", "video": "limit_videos"}


def read_limits(text: str) -> dict[str, Any] | None:
    """A count (or vLLM's table with a count and sizes) by kind, from JSON or ``image=2,video=0``; None: neither."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        pairs = [p.partition("=") for p in text.split(",")]
        fine = all(k.strip() and v.strip().isascii() and v.strip().isdigit() and len(v.strip()) < 10 for k, _sep, v in pairs)
        return {k.strip(): int(v) for k, _sep, v in pairs} if fine else None
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict) or not table:
        return None
    return table if all(_is_limit(v) for v in table.values()) else None


def _is_limit(value: Any) -> bool:
    if isinstance(value, dict):
        return "count" not in value or _is_limit(value["count"])
    return type(value) is int and value >= 0


def take_limits(draft: Draft, info: ModelInfo) -> dict[str, Any]:
    """Make the option's parts the answers of the questions that own them; give what no question owns.

    That is other kinds, and the sizes beside a count: they are written as they were given.
    """
    given = draft.session.answers.get(OPTION)
    if given is None or info.task != "generate" or not isinstance(given[0], str):
        return {}
    owned = [kind for kind in QUESTIONS if kind in info.modalities]
    if not owned:
        return {}
    draft.used.add(OPTION)
    answers = draft.session.answers
    table = read_limits(given[0])
    if table is None:
        draft.block(
            "bad_value",
            _("The answer “{key}” cannot be “{value}”.").format(key=OPTION, value=given[0]),
            _("Write a number for each kind, as in {example}.").format(example='{"image": 2, "video": 0}'),
        )
        draft.session = replace(draft.session, answers=answers.without(OPTION))
        return {}
    for kind in owned:
        count = table[kind].get("count") if isinstance(table.get(kind), dict) else table.get(kind)
        if count is not None and not _asked_later(answers, QUESTIONS[kind]):
            answers = answers.without(QUESTIONS[kind]).with_value(QUESTIONS[kind], count, given[1])
    draft.session = replace(draft.session, answers=answers.without(OPTION))
    sizes = {k: {n: v for n, v in table[k].items() if n != "count"} for k in owned if isinstance(table.get(k), dict)}
    others = {k: v for k, v in table.items() if k not in owned}
    return {**{k: v for k, v in sizes.items() if v}, **others}


def _asked_later(answers: Answers, question: str) -> bool:
    """Whether the question was answered after the option, or in a layer that counts for more.

    In a file the question counts: what the wizard writes there is what was in force.
    """
    asked, option = answers.get(question), answers.get(OPTION)
    if asked is None or option is None:
        return False
    if asked[1] is not option[1]:
        order = (Layer.FILE, Layer.CLI, Layer.USER)
        return order.index(asked[1]) > order.index(option[1])
    keys = list(answers.layer(asked[1]))
    return asked[1] is Layer.FILE or keys.index(question) > keys.index(OPTION)


def counts_of(rest: Mapping[str, Any]) -> dict[str, int]:
    """The counts among what no question owns, for the memory."""
    counts = {k: v.get("count") if isinstance(v, dict) else v for k, v in rest.items()}
    return {k: v for k, v in counts.items() if type(v) is int}


def joined(limits: Mapping[str, int], rest: Mapping[str, Any]) -> dict[str, Value | dict[str, Any]]:
    """What is written: the questions' counts, with the rest put in."""
    out: dict[str, Any] = {k: {"count": n, **rest[k]} if isinstance(rest.get(k), dict) else n for k, n in limits.items()}
    return {**out, **{k: v for k, v in rest.items() if k not in limits}}
