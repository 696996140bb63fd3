"""answers.toml: the answers in force, so that the same files can be made again."""

from __future__ import annotations

from wizard.i18n import _
from wizard.outputs.spec import FileSpec
from wizard.plan_types import Plan
from wizard.program import spelt, words, words_on
from wizard.session import SECRET_KEYS, Value, dump_answers

NAME = "answers.toml"
# Where the files go is no part of what they hold.
LEFT_OUT = SECRET_KEYS | {"out_dir"}


def answers_file(plan: Plan) -> FileSpec:
    """All answers in force, asked or proposed; replaying them gives the same files."""
    from wizard import steps

    values: dict[str, Value] = {}
    for step in steps.visible_steps(plan):
        for question in steps.asked(step, plan):
            # A default that nothing decided (this machine alone) is no answer.
            value = plan.value(question.key)
            if question.secret:
                continue
            if question.key not in LEFT_OUT and value is not None:
                values[question.key] = value
    if plan.release is not None:
        dests = {o.dest for o in plan.release.options}
        for key, value in plan.session.answers.flat().items():
            if (key in dests or key.startswith("env.")) and key not in values and key not in LEFT_OUT:
                values[key] = value
    explicit = plan.session.answers.without_pins().keys()
    decided = {d.key for d in plan.decisions if not d.chosen}
    chosen = [k for k in values if k in explicit and (k not in decided or k not in steps.QUESTIONS)]
    heading = _(
        "Answers of vllm-wizard. The same files again: vllm-wizard generate --yes --answers answers.toml --out FOLDER\nNo secret stands here."
    )
    heading = spelt(heading) if words_on(plan.machine.name) == words() else heading
    return FileSpec(
        path=NAME,
        content=dump_answers(values, heading=heading, chosen=chosen),
        mode=0o644,
        title=_("the answers, to replay"),
    )
