"""LoRA adapters: which ones a model is served with, however they were named, and whether they are there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from wizard.i18n import _, listed
from wizard.models.info import LoraAdapter, ModelInfo
from wizard.plan.draft import Draft
from wizard.session import THIS_MACHINE, Answers, Session, Value, expand, lora_words

ADAPTERS, MODULES = "lora_adapters", "lora_modules"


def last_part(path: str) -> str:
    """The name at the end of a path of the machine (which need not be a path of this one)."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def adapters_for(session: Session, info: ModelInfo) -> tuple[LoraAdapter, ...]:
    """The adapters that were made for this model: those that lie in it, and those that name it as their base."""
    names = {
        (info.repo_id or "").lower(),
        last_part(info.source).lower(),
        last_part(info.repo_id or "").lower(),
    } - {""}
    beside = {a.path: a for a in info.lora_adapters}
    for adapter in session.adapters:
        base = (adapter.base_model or "").lower()
        if base and (base in names or last_part(base) in names):
            beside.setdefault(adapter.path, adapter)
    return tuple(beside.values())


def known_adapters(session: Session, info: ModelInfo) -> dict[str, LoraAdapter]:
    """Every adapter whose files were read, by its path: found ones, and those that an answer names."""
    named = {path: adapter for path, adapter in session.named_adapters.items() if adapter is not None}
    return {**{a.path: a for a in session.adapters}, **{a.path: a for a in adapters_for(session, info)}, **named}


def take_modules(draft: Draft) -> None:
    """Adapters that were named by vLLM's own option become answers like those of the wizard's question.

    So they get all that belongs to them: ``--enable-lora``, a rank, slots in the memory, a bind mount.
    """
    given = draft.session.answers.get(MODULES)
    if given is None:
        return
    draft.used.add(MODULES)
    words, wrong, left = read_modules(given[0])
    if wrong:
        draft.block("bad_value", _("The answer “{key}” cannot be “{value}”.").format(key=MODULES, value=wrong), _("Write each adapter as name=path."))
    if left:
        draft.notes.append(_("Of an adapter only name and path are taken over; left out: {names}.").format(names=listed(left)))
    asked = draft.session.answers.get(ADAPTERS)
    first = asked[0] if asked is not None and isinstance(asked[0], tuple) else ()
    names = {item.partition("=")[0].strip() for item in first}
    merged = (*first, *(w for w in words if w.partition("=")[0] not in names))
    answers = draft.session.answers.without(MODULES)
    layer = asked[1] if asked is not None else given[1]
    draft.session = replace(draft.session, answers=answers.with_value(ADAPTERS, merged, layer) if merged else answers)


def read_modules(value: Value) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """(each adapter as name=path, a word that is none, keys of JSON forms that have no place) of ``--lora-modules``."""
    out: list[str] = []
    left: set[str] = set()
    for word in lora_words(value):
        name, path = "", ""
        if word.startswith("{"):
            try:
                table = json.loads(word)
            except ValueError:
                return (), word, ()
            name, path = (str(table.get(k) or "").strip() for k in ("name", "path"))
            left |= {k for k, v in table.items() if k not in ("name", "path") and v is not None}
        else:
            name, _sep, path = (part.strip() for part in word.partition("="))
        if not name or not path:
            return (), word, ()
        out.append(f"{name}={path}")
    return tuple(out), "", tuple(sorted(left))


def choose_adapters(draft: Draft, info: ModelInfo) -> tuple[tuple[str, str], ...]:
    """(name, path) of the adapters to load."""
    by_option = draft.session.answers.get(MODULES) is not None
    if by_option:
        take_modules(draft)
    if info.task != "generate" and not by_option:
        return ()
    fitting = adapters_for(draft.session, info) if info.task == "generate" else ()
    proposed = tuple(f"{a.name}={a.path}" for a in fitting)
    intent = draft.session.answers.get("intent")
    offered = proposed if intent is None or intent[0] == "lora" else ()
    reason = (
        _("found on this machine, made for this model")
        if proposed
        else _("no adapter was found for this model")
    )
    picked = draft.decide(ADAPTERS, offered, reason, source="detected")
    out: list[tuple[str, str]] = []
    for item in picked if isinstance(picked, tuple) else ():
        name, sep, path = item.partition("=")
        if not sep or not name.strip() or not path.strip() or "\0" in item:
            draft.block(
                "bad_answer",
                _("The answer “{key}” cannot be “{value}”.").format(key=ADAPTERS, value=item),
                _("Write each adapter as name=path."),
            )
            continue
        if name.strip() in (known for known, _path in out):
            draft.block("adapter_twice", _("Two LoRA adapters are called {name}; clients could not tell them apart.").format(name=name.strip()))
            continue
        out.append((name.strip(), expand(path.strip(), draft.machine.home)))
    _missing(draft, out)
    if out and _is_off(draft.session.answers):
        draft.block(
            "lora_off",
            _("LoRA adapters are named, and --enable-lora is turned off."),
            _("Forget one of the two: enable_lora, or lora_adapters."),
        )
    return tuple(out)


def _missing(draft: Draft, named: Iterable[tuple[str, str]]) -> None:
    """Say which of the adapters are not where they were named."""
    session = draft.session
    for name, path in named:
        if path not in session.named_adapters or session.named_adapters[path] is not None:
            continue
        title = _("The LoRA adapter {name} is not at {path}.").format(name=name, path=path)
        if session.host is not None and session.host.name == THIS_MACHINE:
            draft.block("adapter_missing", title, _("Give the folder that holds adapter_config.json."))
        else:
            draft.warn("adapter_missing", title, _("This machine is a recording, which need not hold every file."))


def _is_off(answers: Answers) -> bool:
    given = answers.get("enable_lora")
    return given is not None and str(given[0]).lower() in ("false", "no", "off", "0")
