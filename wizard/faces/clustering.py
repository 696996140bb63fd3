"""``vllm-wizard cluster``: plan and write for several machines, Kubernetes, or several servers on one machine."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wizard import columns
from wizard.errors import BadInput, WizardError
from wizard.faces import batch, inputs, writing
from wizard.i18n import _, bracketed, clauses, labelled, listed, ngettext, sentence, sentences, stopped
from wizard.plain_text import printable

if TYPE_CHECKING:
    from wizard.apply import Change
    from wizard.cluster import ClusterPlan, Inventory
    from wizard.cluster.types import Way
    from wizard.plan_types import Plan
    from wizard.session import Answers, Session

GIB = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("plan", "generate"), help=_("plan: what each way costs and what is written; generate: write it")
    )
    parser.add_argument("--out", metavar="DIR", help=_("the folder to write to"))
    parser.add_argument("--yes", "-y", action="store_true", help=_("write without asking"))
    parser.add_argument("--dry-run", action="store_true", help=_("show what would change and write nothing"))


def run(args: argparse.Namespace) -> int:
    """Exit 0: done. 1: something stands in the way, told node by node, and nothing was written. 2: the input is wrong."""
    writes = args.action == "generate" and not args.dry_run
    asks = writes and not args.yes
    if asks and (args.json or not batch._can_ask()):
        raise BadInput(_("cluster generate asks before it writes, and there is no terminal to ask on. Add --yes to write, or --dry-run to look."))
    session, inventory = load(args)
    if args.action == "generate" and args.out is None and (inputs.is_recorded(args) or any(n.record != "this" for n in inventory.nodes[:1])):
        raise BadInput(_("The files are for another machine than this one: say where to write them, --out DIR."))
    session, made, changes = prepared(session, inventory, given_out=args.out is not None)
    if made.blockers:
        if args.json:
            batch.print_json(document(made, None, written=False))
        else:
            print(printable(text(made, None)), end="")
            print(_("Nothing was written: this stands in the way.") if args.action == "generate" else _("This stands in the way:"), file=sys.stderr)
            print(printable(writing.notices(made.blockers)), end="", file=sys.stderr)
        return 1
    if not writes:
        if args.json:
            batch.print_json(document(made, changes, written=False))
            return 0
        print(printable(text(made, changes)), end="")
        if args.action == "generate":
            print(printable("\n" + batch.changes_text(changes or [], made.plan)), end="")
            print(_("Nothing was written (--dry-run)."))
        return 0
    assert changes is not None
    if asks:
        print(printable(text(made, changes) + "\n" + batch.changes_text(changes, made.plan)), end="")
        if not batch._confirmed(_("Write these files? [y/N] ")):
            print(_("Nothing was written."))
            return 1
    return _write(args, made, changes)


def show(args: argparse.Namespace, session: Session) -> int:
    """What ``vllm-wizard plan`` shows when the answers say that it does not run on this machine alone."""
    _session, made, changes = prepared(session, _inventory_of(session.answers, args.answers), given_out=args.out is not None)
    if args.json:
        batch.print_json(document(made, changes, written=False))
    else:
        print(printable(text(made, changes)), end="")
    if made.blockers and not args.json:
        print(printable(_("This stands in the way") + "\n" + writing.notices(made.blockers)), end="")
    return 1 if made.blockers else 0


def _write(args: argparse.Namespace, made: ClusterPlan, changes: list[Change]) -> int:
    from wizard.apply import write

    receipt = write(changes)
    if args.json:
        batch.print_json(document(made, changes, written=True) | {"id": receipt.id or None, "notes": list(receipt.notes)})
        return 0
    print(printable(writing.done(receipt, made.warnings, made.after)), end="")
    return 0


# -- what is asked for ----------------------------------------------------------------------------------------------


def load(args: argparse.Namespace) -> tuple[Session, Inventory]:
    """The session on the head (or on this machine), and the nodes."""
    inventory = _inventory_of(inputs.answers_from(args), args.answers)
    if inventory.nodes and inputs.is_recorded(args):
        raise BadInput(_("--machine names one machine, and the nodes name theirs. Leave one of them out."))
    known = next((n.host for n in inventory.nodes if n.host is not None), None)
    if inventory.nodes and known is None:
        raise BadInput(_("No node's machine is known. {problems}").format(problems=sentences(*(part for p in inventory.problems for part in (p.title, p.detail)))))
    session, _plan = inputs.load_session(known or inputs.open_machine(args), args)
    return session, inventory


def _inventory_of(answers: Answers, file: str | None) -> Inventory:
    """The nodes of the file that the answers name, else of the answers file itself (``file``)."""
    from wizard.cluster import Inventory, read_inventory
    from wizard.steps import OVER_NODES

    given, way = answers.get("nodes_file"), answers.get("run_on")
    # For a way that has no such question its answer is kept, and left out.
    named = given is not None and given[0] and (way is None or way[0] in ("", *OVER_NODES))
    if given is not None and named:
        file = str(given[0])
    if file is None:
        return Inventory()
    path = Path(file).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(_("{path} cannot be read: {reason}.").format(path=path, reason=error.strerror or error)) from error
    return read_inventory(data, str(path), str(path.parent), must_list=bool(named))


def prepared(session: Session, inventory: Inventory, *, given_out: bool) -> tuple[Session, ClusterPlan, list[Change] | None]:
    """The plan, and what writing would do; None where another machine's folder cannot be looked at from here."""
    from wizard.apply import prepare
    from wizard.cluster import cluster_files, plan_cluster

    made = plan_cluster(session, inventory)
    if made.blockers:
        return session, made, None
    out = str(made.plan.value("out_dir"))
    complete = writing.complete_secrets(session, made.plan, out)
    if complete is not session:
        made = plan_cluster(complete, inventory)
    recorded = session.machine.name != "this machine"
    if recorded and not given_out:
        return complete, made, None
    changes = prepare(cluster_files(made), out)
    after = writing.beside_what_is_there(made.after, made.plan, changes, out)
    return complete, replace(made, after=after, warnings=(*made.warnings, *writing.left_over(changes, out))), changes


def _listed_in_walk(answers: Answers) -> Inventory:
    """The nodes of the walk's answers; where nothing is answered it runs on this machine alone."""
    from wizard.cluster import Inventory

    return _inventory_of(answers, None) if answers.get("run_on") is not None else Inventory()


def changes_in_walk(session: Session, plan: Plan, out_dir: str, *, apply_wslconfig: bool = False) -> tuple[list[Change], Plan]:
    """What writing would do where the walk's answer is not this machine alone; :class:`WizardError` says what stands
    in the way, node by node."""
    from wizard.apply import prepare
    from wizard.cluster import cluster_files, plan_cluster

    inventory = _listed_in_walk(session.answers)
    made = plan_cluster(session, inventory)
    if made.blockers:
        raise WizardError(_("This stands in the way:") + "\n" + writing.notices(made.blockers).rstrip())
    complete = writing.complete_secrets(session, made.plan, out_dir)
    if complete is not session:
        made = plan_cluster(complete, inventory)
    shown = replace(plan, session=complete, after=made.after, warnings=made.warnings)
    changes = prepare(cluster_files(made, apply_wslconfig=apply_wslconfig), out_dir)
    shown = replace(shown, after=writing.beside_what_is_there(made.after, made.plan, changes, out_dir), warnings=(*made.warnings, *writing.left_over(changes, out_dir)))
    return changes, writing.without_copying(shown) if apply_wslconfig else shown


def plan_in_walk(session: Session, plan: Plan) -> Plan:
    """The plan that the walk shows where its answer is more than one server: that of one of them, as it is written,
    with what is typed next for all. ``plan`` is the one of a single server on this machine; it is shown as long as
    the others cannot be planned (with what stands in their way) or lie on other machines."""
    from wizard.cluster import KUBERNETES, REPLICAS, plan_cluster
    from wizard.steps import OVER_NODES

    if plan.value("run_on") in OVER_NODES:
        return _over_nodes(session, plan)
    if plan.value("run_on") not in (REPLICAS, KUBERNETES):
        return plan
    try:
        made = plan_cluster(session, _listed_in_walk(session.answers))
    except WizardError:
        return plan
    if made.blockers:
        return replace(plan, blockers=made.blockers)
    return _of_one_server(made, plan)


def _over_nodes(session: Session, plan: Plan) -> Plan:
    """The plan of this machine with what the nodes that are listed say: what stands in their way, and which way is
    recommended for them."""
    from wizard.cluster import plan_cluster
    from wizard.facts import Severity
    from wizard.plan.draft import chosen_instead
    from wizard.plan_types import WAY_IMPOSSIBLE, Choice, Notice
    from wizard.steps import QUESTIONS

    chosen = str(plan.value("run_on"))
    labels = {c.value: c for c in QUESTIONS["run_on"].choices(plan)}
    try:
        inventory = _listed_in_walk(session.answers)
        # Whether the nodes answer is asked for the review; not after every key.
        made = plan_cluster(session, replace(inventory, settings=replace(inventory.settings, check_reach=False)))
    except WizardError as error:
        title = _("{way} cannot be done.").format(way=labels[chosen].label)
        return replace(plan, blockers=(*plan.blockers, Notice(WAY_IMPOSSIBLE, Severity.BLOCKER, title, str(error))))
    against = [b if b.code == "does_not_fit" else replace(b, code=WAY_IMPOSSIBLE) for b in made.blockers if b not in plan.blockers]
    best, decision = made.recommended, plan.decision("run_on")
    decisions, choices = plan.decisions, dict(plan.choices)
    if best is not None and decision is not None:
        label: Choice = labels[best.key]
        reason = best.reason if best.key == chosen else chosen_instead(_("“{label}”").format(label=label.label), best.reason)
        told = replace(decision, reason=reason, proposed=None if best.key == chosen else best.key)
        decisions = tuple(told if d.key == "run_on" else d for d in decisions)
        choices["run_on"] = tuple(replace(c, recommended=c.value == best.key) for c in labels.values())
    return replace(plan, blockers=(*plan.blockers, *against), decisions=decisions, choices=choices)


def _of_one_server(made: ClusterPlan, plan: Plan) -> Plan:
    """The cluster's plan with what ``plan`` knows of the whole: what can be chosen, and why what was chosen was."""
    from wizard.steps import CLUSTER_KEYS

    one, whole = made.plan, ("model", "gpus", *CLUSTER_KEYS)
    own = {d.key: d for d in one.decisions if d.key not in whole}
    decisions = [own.pop(d.key, d) for d in plan.decisions if d.key in own or d.key in whole]
    changes = plan.wsl_changes and one.wsl_changes
    return replace(
        one,
        session=plan.session,
        machine=plan.machine,
        decisions=(*decisions, *own.values()),
        choices={**one.choices, **{k: c for k, c in plan.choices.items() if k in whole}},
        wsl_changes=changes,
        warnings=made.warnings,
        notes=tuple(dict.fromkeys((*_each_of(made), *made.notes))),
        copies=made.copies,
        after=made.after,
    )


def _each_of(made: ClusterPlan) -> list[str]:
    """Of which servers the plan is."""
    if made.copies < 2:
        return []
    n = made.layout.gpus
    told = _("This is the plan of each of the {n} servers.").format(n=made.copies)
    has = ngettext("Each has {n} GPU.", "Each has {n} GPUs.", n).format(n=n)
    shared = len({g for share in made.shares for g in share}) < made.copies * n if made.shares else False
    return [sentences(told, "" if shared or not n else has)]


def ways_in_walk(session: Session) -> list[tuple[str, list[str]]]:
    """What each way to run it costs, for the walk: its title, and paragraphs."""
    from wizard.cluster import Inventory, plan_cluster

    try:
        made = plan_cluster(session, _listed_in_walk(session.answers))
    except WizardError:
        # What the chosen way lacks is told as what stands in its way; the others have their price all the same.
        chosen = session.answers.get("run_on")
        made = replace(plan_cluster(session.answer("run_on", "this"), Inventory()), run_on=str(chosen[0]) if chosen else "this")
    return [_way_words(w, made) for w in made.ways]


# -- shown ----------------------------------------------------------------------------------------------------------


def document(made: ClusterPlan, changes: list[Change] | None, *, written: bool) -> dict[str, Any]:
    """The plan as JSON; stable keys."""
    from wizard.cluster import cluster_files
    from wizard.facts import to_json

    plan = made.plan
    if changes is not None:
        files = [batch.change_json(c, plan) for c in changes]
    else:
        files = [
            {"path": s.path, "state": None, "mode": f"{s.mode:04o}", "title": s.title, "secret": s.secret} | batch._content_json(s.content, s.secret)
            for s in cluster_files(made)
        ]
    return {
        "run_on": made.run_on,
        "written": written,
        "out": plan.value("out_dir"),
        "release": plan.release.version if plan.release is not None else None,
        "image": plan.image_reference,
        "model": plan.model.source if plan.model is not None else None,
        "cluster": {
            "nodes": [
                {"name": n.name, "address": n.address, "interface": n.network_interface, "machine": n.machine.name if n.machine is not None else None, "head": at == 0}
                for at, n in enumerate(made.nodes)
            ],
            "layout": layout_json(made),
            "copies": made.copies,
            "shared_storage": made.shared_storage,
            "start_s": made.start_s,
            "ways": [way_json(w, on_cpu=plan.device == "cpu") for w in made.ways],
            "recommended": made.recommended.key if made.recommended is not None else None,
            "decisions": [batch._decision_json(d) for d in made.decisions],
        },
        "files": files,
        "warnings": to_json(made.warnings),
        "blockers": to_json(made.blockers),
        "notes": list(made.notes),
        "after": to_json(made.after),
    }


def layout_json(made: ClusterPlan) -> dict[str, Any]:
    layout = made.layout
    return {
        "nodes": layout.nodes, "gpus_per_node": layout.gpus_per_node, "tensor_parallel_size": layout.tensor, "pipeline_parallel_size": layout.pipeline,
        "data_parallel_size": layout.data, "expert_parallel": layout.expert_parallel, "reason": made.sized.reason,
    }  # fmt: skip


def way_json(way: Way, *, on_cpu: bool = False) -> dict[str, Any]:
    result = way.sized.result if way.sized is not None else None
    return {
        "key": way.key,
        "title": way.title,
        "possible": way.possible,
        "recommended": way.recommended,
        "reason": way.reason,
        "needs": list(way.needs),
        "copies": way.copies,
        "gpus": 0 if on_cpu else way.gpus,
        "weights_gib_per_gpu": round(result.weights_bytes / GIB, 2) if result is not None and result.weights_known else None,
        "kv_cache_gib_per_gpu": round(result.kv_cache_bytes.best / GIB, 2) if result is not None and result.weights_known else None,
        "kv_cache_tokens": way.cache_tokens,
        "max_model_len": way.max_model_len,
        "traffic_bytes_per_token": way.sized.traffic_bytes_per_token if way.sized is not None else None,
    }


def text(made: ClusterPlan, changes: list[Change] | None) -> str:
    """The plan for people, at most 79 columns wide."""
    parts = [_facts(made), _("What each way costs") + "\n" + "".join(_way_text(w, made) for w in made.ways)]
    reasons = [d for d in made.decisions if d.reason and d.key in ("run_on", "head")]
    if reasons and not made.blockers:
        parts.append(_("Why") + "\n" + "".join(batch._reason_text(d) for d in reasons))
    if made.notes and not made.blockers:
        parts.append(_("Notes") + "\n" + "".join(writing.wrapped(n, "  ", "- ") + "\n" for n in made.notes))
    if made.warnings:
        parts.append(_("Warnings") + "\n" + writing.notices(made.warnings))
    if not made.blockers:
        from wizard.cluster import cluster_files

        rows = [f"  {writing.state_word(c):<10}{c.path}\n" for c in changes] if changes is not None else [f"  {s.path:<34}{s.title}\n" for s in cluster_files(made)]
        parts.append(_("Files") + "\n" + "".join(rows))
        if made.after:
            parts.append(_("After writing them") + "\n" + writing.next_steps(made.after))
    return "\n".join(parts)


def _facts(made: ClusterPlan) -> str:
    plan, layout = made.plan, made.layout
    rows = [(_("Where"), next(w.title for w in made.ways if w.key == made.run_on))]
    if plan.model is not None:
        size = plan.model.weight_bytes
        rows.append((_("Model"), bracketed(plan.model.source, _("{gib:.1f} GiB of weights").format(gib=size / GIB)) if size else plan.model.source))
    if plan.release is not None:
        rows.append((_("vLLM"), listed([plan.release.version, *([plan.image_reference] if plan.image_reference and plan.runtime == "docker" else [])])))
    if made.nodes:
        rows.append((_("Nodes"), ", ".join(f"{n.name} ({n.address}{', ' + n.network_interface if n.network_interface else ''})" for n in made.nodes)))
    rows.append(
        (
            _("Layout"),
            _("on the CPU, in RAM")
            if plan.device == "cpu"
            else _("GPUs: {gpus}; tensor parallel {tensor}, pipeline stages {pipeline}, data parallel {data}").format(
                gpus=len({g for share in made.shares for g in share}) or layout.gpus * made.copies, tensor=layout.tensor, pipeline=layout.pipeline, data=layout.data
            )
            + (listed(("", _("experts spread over all"))) if layout.expert_parallel else ""),
        )
    )
    wide = max(columns.width(label) for label, _text in rows) + 2
    return "".join(writing.wrapped(value or "-", " " * wide, columns.pad(label, wide)) + "\n" for label, value in rows)


def _way_text(way: Way, made: ClusterPlan) -> str:
    head, said = _way_words(way, made)
    lines = [writing.wrapped(labelled(way.key, head), "      ", "  "), *(writing.wrapped(words, "      ") for words in said)]
    return "\n".join(lines) + "\n"


def _way_words(way: Way, made: ClusterPlan) -> tuple[str, list[str]]:
    """A way's title with its marks, and what is to be said of it, a paragraph each."""
    run_on = made.run_on
    marks = [_("recommended")] if way.recommended else []
    marks += [_("chosen")] if way.key == run_on else []
    head = bracketed(way.title, listed(marks)) if marks else way.title
    if not way.possible:
        return head, [_("Not possible: {why}").format(why=way.reason or "?")]
    cpu = made.plan.device == "cpu"
    price = [_("the CPU")] if cpu else [ngettext("{n} GPU", "{n} GPUs", way.gpus).format(n=way.gpus)] if way.gpus else []
    result = way.sized.result if way.sized is not None else None
    if result is not None and result.weights_known:
        left = _("{gib:.1f} GiB of RAM for the KV cache") if cpu else _("{gib:.1f} GiB of each left for the KV cache")
        price.append(left.format(gib=max(0.0, result.kv_cache_bytes.best) / GIB))
    if way.cache_tokens:
        price.append(_("{n:,} tokens in all").format(n=way.cache_tokens))
    traffic = way.sized.traffic_bytes_per_token if way.sized is not None else 0
    price.append(_("about {kib:.0f} KiB between machines for each token").format(kib=traffic / 1024) if traffic else _("nothing crosses between machines for a token"))
    said = [stopped(clauses(price)), sentence(way.reason)]
    usual = made.recommended.max_model_len if made.recommended is not None else None
    if usual is not None and way.max_model_len is not None and way.max_model_len < usual:
        words = _("The context is shorter this way: {length:,} tokens for a request, not {usual:,}.")
        said.append(words.format(length=way.max_model_len, usual=usual))
    if way.needs:
        said.append(_("Needs: {needs}.").format(needs=clauses(way.needs)))
    return head, said


