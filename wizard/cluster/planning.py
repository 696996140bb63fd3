"""Session + inventory -> ClusterPlan: the layout, what every way costs, why one is recommended, what stands in the way."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from wizard import releases
from wizard.cluster import layout as layouts
from wizard.cluster import nodes as node_room
from wizard.cluster.types import (
    KUBERNETES,
    NATIVE,
    RAY,
    REPLICAS,
    THIS,
    WAYS,
    ClusterPlan,
    Inventory,
    Layout,
    Node,
    Settings,
    Sized,
    Way,
)
from wizard.errors import BadInput
from wizard.facts import Gpu, Severity
from wizard.i18n import _, labelled, ngettext, sentence, sentences
from wizard.models.move_scan import split_gguf_stem
from wizard.outputs.command import BASE_START_SECONDS, SLOW_READ_RATES, start_seconds
from wizard.outputs.quoting import slug
from wizard.outputs.reach import reach_of
from wizard.plan import entry_of, nodes_unread
from wizard.plan import plan as make_plan
from wizard.plan.access import access_choices
from wizard.plan.draft import convert
from wizard.plan.runtime import device_of, docker_objection
from wizard.plan.sizing import named_gpus, usable_gpus
from wizard.plan_types import WAY_IMPOSSIBLE, Decision, Notice, Plan, with_gpu_variables
from wizard.session import THIS_MACHINE, Layer, Session, Value
from wizard.steps import CLUSTER_KEYS, HERE, MACHINE, OVER_NODES, unknown_gpus

MOST_REPLICAS = 64
# Sizes follow from the layout: a replayed file's own figures for them are no choice of the user's.
_SIZES = (*layouts.PARALLEL_KEYS, "max_model_len", "max_num_seqs", "gpu_memory_utilization", "kv_cache_dtype")
# Ray left vLLM's requirements, and so its images, with 0.18.0 (read from the packages' metadata).
LAST_WITH_RAY = (0, 17, 1)
STAND_IN_HOME = "/home/user"  # what vllm-wizard record writes for any home folder
READY_VARIABLE, READY_S = "VLLM_ENGINE_READY_TIMEOUT_S", 600
DATA_PARALLEL_RAY = "--data-parallel-backend"


def plan_cluster(session: Session, inventory: Inventory, run_on: str | None = None) -> ClusterPlan:
    """The plan for ``run_on`` (default: the answer, else what the nodes speak for), with every other way beside it.

    Raises :class:`BadInput` for an answer that is wrong in itself. What is wrong with a node is a blocker that
    names it; nothing is ever written beside blockers.
    """
    given = session = _without_size_pins(session)
    chosen = run_on or asked_way(session, inventory)
    copies_wanted, storage = copies_asked(session), storage_of(session)
    for key in CLUSTER_KEYS:
        # Each machine's own part is planned as what it is: one server.
        session = session.forget(key)
    warnings: list[Notice] = []
    blockers: list[Notice] = list(inventory.problems)
    nodes = tuple(_with_choice(n, given) for n in inventory.nodes if n.machine is not None)
    if chosen in OVER_NODES and not inventory.nodes:
        raise BadInput(
            _("To run on several machines, list them in a file with [[nodes]] (name, address, machine). “vllm-wizard help nodes” shows one.")
        )
    head = session if chosen == THIS else _of_one_model(session)
    if nodes and nodes[0].machine is not None:
        # On every node the same number of GPUs is taken, whichever they are; see Node.chosen_gpus.
        head = replace(head.forget("gpus"), machine=nodes[0].machine)
    device = device_of(head.machine)
    gpus = node_room.common_gpus(nodes, device) if nodes else usable_gpus(head.machine, device)
    base = layouts.session_for(head, head.machine, gpus) if nodes else head
    one = make_plan(layouts.without_parallel(base) if nodes else base)
    gpus = gpus if nodes else _planned_gpus(one)
    if chosen == THIS:
        base = _of_one_model(base, one)  # what the other ways cost is said of the same model
    shape = _Shape(base, nodes, inventory.settings, one, gpus, copies_wanted)
    ways, found = _ways(shape, len(inventory.nodes))
    entry = found[chosen]
    wanted = entry.layout.gpus_per_node if chosen in OVER_NODES else None
    if inventory.nodes:
        release = entry.plan.release.version if entry.plan.release is not None else None
        bad, odd = node_room.check_nodes(nodes, inventory.settings, device, entry.plan.runtime, release, _usual_gpus(nodes, device, wanted))
        blockers += bad
        warnings += odd
        path = entry.plan.host_model_path
        shared = _is_shared(inventory.settings, head, path)
        if path is not None and (chosen in OVER_NODES or storage == "hostpath"):
            blockers += node_room.missing_models(nodes, path, shared)
        if nodes and nodes[0].host is not None and _asks_reach(inventory):
            blockers += node_room.unreachable(nodes[1:], nodes[0].host)
    else:
        shared = False
    start_s = _start_s(storage, chosen, entry.plan)
    entry = _patient(_with_answers(entry, given, chosen, _gpus_decision(one, given, nodes, chosen)), chosen, start_s)
    if chosen not in HERE:
        entry = _reached(entry, chosen)
    if chosen == KUBERNETES:
        # A pod is given GPUs of its own; which ones this machine would take says nothing of them.
        entry = replace(entry, plan=with_gpu_variables(entry.plan, ()))
    if chosen == KUBERNETES and storage == "pvc":
        entry = _in_volume(entry)
    way = next(w for w in ways if w.key == chosen)
    told = any(b.code == "node_unreachable" for b in inventory.problems) and chosen in OVER_NODES
    if not way.possible and not entry.plan.blockers and not told:
        blockers.append(Notice(WAY_IMPOSSIBLE, Severity.BLOCKER, _("{way} cannot be done.").format(way=way.title), way.reason))
    blockers += [b for b in entry.plan.blockers if b not in blockers]
    # What WSL2 of this machine is like is nothing to the pods of a cluster.
    unread = nodes_unread(given, chosen) if given.answers.get("run_on") is not None else None
    warnings += [unread] if unread is not None else []
    warnings += [w for w in entry.plan.warnings if w not in warnings and not (chosen == KUBERNETES and w.code.startswith("wsl"))]
    warnings += _more_warnings(chosen, entry, inventory.settings)
    warnings += _stand_in_home(chosen, nodes, entry.plan, inventory.settings)
    made = ClusterPlan(
        run_on=chosen,
        sized=entry,
        nodes=nodes,
        settings=inventory.settings,
        ways=ways,
        copies=way.copies,
        shares=gpu_shares(gpus, entry.layout.tensor, way.copies) if chosen == REPLICAS else (),
        shared_storage=shared,
        start_s=start_s,
        decisions=_decisions(chosen, entry, way, nodes),
        warnings=tuple(warnings),
        blockers=tuple(_unique(blockers)),
        notes=_notes(chosen, entry, shared),
    )
    from wizard.cluster.after import next_steps

    return replace(made, after=next_steps(made))


def _of_one_model(session: Session, planned: Plan | None = None) -> Session:
    """The session without the other models: comparing them all anew for every layout would take most of the time."""
    given = session.answers.get("model")
    model = given[0] if given is not None else (planned or make_plan(session)).value("model")
    if model is None:
        return session
    info = session.models.get(str(model))
    hit = session.recipes.find(info if info is not None else str(model))
    only = replace(session.recipes, recipes=(hit[0],) if hit is not None else ())
    kept = {str(model): info} if info is not None else {}
    asked = session if given is not None else session.answer("model", str(model), Layer.FILE)
    return replace(asked, recipes=only, found=(), models=kept)


def _chosen_gpus(session: Session) -> tuple[str, ...]:
    """The GPUs that the user named; none where he left them to the plan."""
    given = session.answers.without_pins().get("gpus")
    named = convert("gpus", given[0]) if given is not None else None
    return named if isinstance(named, tuple) else ()


def _with_choice(node: Node, session: Session) -> Node:
    """The node with the GPUs that the user chose, where it is the machine whose GPUs he was asked about."""
    named = _chosen_gpus(session)
    if node.machine is None or not named or unknown_gpus(node.machine, named):
        return node
    # What is free on it has changed since, and how long the probes took is nothing of the machine.
    here = node.record == "this" and session.machine.name == THIS_MACHINE
    return replace(node, chosen_gpus=named) if here or replace(node.machine, runs=()) == replace(session.machine, runs=()) else node


def _planned_gpus(one: Plan) -> tuple[Gpu, ...]:
    """The GPUs of this machine that may be taken: those of the answer, of which one server may well need only some."""
    named = one.value("gpus")
    if one.device == "cpu" or not named:
        return usable_gpus(one.machine, one.device)
    return named_gpus(one.machine, named)


def _gpus_decision(one: Plan, session: Session, nodes: tuple[Node, ...], chosen: str) -> Decision | None:
    """Which GPUs it was decided to take: what a layout was computed on says nothing of it. A pod or a node takes any
    unless the user named some, which a replayed file then has to hold."""
    if nodes:
        named = next((n.chosen_gpus for n in nodes if n.chosen_gpus), ())
        given = session.answers.get("gpus")
        return Decision("gpus", named, _("chosen by you"), given[1].value, chosen=True) if named and given is not None else None
    found = one.decision("gpus")
    return found if found is not None and (found.chosen or chosen in HERE) else None


def _with_answers(entry: Sized, session: Session, chosen: str, gpus: Decision | None) -> Sized:
    """The plan with the session as it was given, and the answers that are the cluster's among its decisions."""
    added = [gpus] if gpus is not None else []
    for key in CLUSTER_KEYS:
        answered = session.answers.get(key)
        # The nodes stand in the answers file itself.
        if key != "nodes_file" and (answered is not None or key == "run_on"):
            value = chosen if key == "run_on" or answered is None else answered[0]
            added.append(Decision(key, value, _("chosen by you"), answered[1].value if answered is not None else "default", chosen=True))
    own = tuple(d for d in entry.plan.decisions if d.key != "gpus")
    plan = replace(entry.plan, decisions=(*own, *added), session=replace(session, machine=entry.plan.session.machine))
    if chosen == KUBERNETES and gpus is not None:
        # Whether there were GPUs to choose from is a question of the whole machine, not of the part that was planned on.
        plan = replace(plan, machine=session.machine)
    return replace(entry, plan=plan)


def _patient(entry: Sized, chosen: str, start_s: int) -> Sized:
    """vLLM gives its engines 600 s to come up (from 0.14.1 on): a large model on slow storage needs more, and so do
    nodes that are started by hand one after the other."""
    plan = entry.plan
    wait_s = start_s + (READY_S if chosen in OVER_NODES or entry.layout.nodes > 1 else 0)
    if chosen == THIS or wait_s <= READY_S or plan.release is None or READY_VARIABLE not in plan.release.env or READY_VARIABLE in plan.env:
        return entry
    reason = _("vLLM itself gives up after {n} s; loading the model may take this long here").format(n=READY_S)
    added = {READY_VARIABLE: str(wait_s)}
    decision = Decision("env." + READY_VARIABLE, str(wait_s), reason, "detected")
    return replace(entry, plan=replace(plan, env={**plan.env, **added}, container_env={**plan.container_env, **added}, decisions=(*plan.decisions, decision)))


def _reached(entry: Sized, chosen: str) -> Sized:
    """Who reaches the server, said of where it runs: each machine's part is planned as if it stood alone."""
    plan = entry.plan
    words = reach_of(plan.machine, plan.runtime, chosen)
    decision = plan.decision("access")
    if decision is None:
        return entry
    told = replace(decision, reason=words.opened if decision.value == "network" else words.reason)
    decisions = tuple(told if d.key == "access" else replace(d, reason=told.reason) if d.key == "host" else d for d in plan.decisions)
    return replace(entry, plan=replace(plan, decisions=decisions, choices={**plan.choices, "access": access_choices(words)}))


def _in_volume(entry: Sized) -> Sized:
    """The model under a plain name: what is copied into a cluster's volume needs no entry of the Hugging Face cache
    around it, whose files are links."""
    plan = entry.plan
    path = plan.host_model_path
    root, inside = entry_of(path) if path is not None else ("", "")
    if path is None or not inside or not plan.container_argv:
        return entry
    folder, file = posixpath.split(path) if path.endswith(".gguf") else (path, "")
    source, place, word = folder, f"/models/{slug(posixpath.basename(root).split('--', 2)[-1])}", ""
    if file and split_gguf_stem(file):
        word = "/" + file
    elif file:
        source, place = path, f"/models/{slug(file.removesuffix('.gguf'))}.gguf"
    mounts = tuple((source, place, read_only) if host == root else (host, target, read_only) for host, target, read_only in plan.mounts)
    model = place + word
    made = replace(plan, mounts=mounts, container_argv=(model, *plan.container_argv[1:]))
    if plan.runtime == "docker":
        made = replace(made, model_argument=model, argv=(model, *plan.argv[1:]))
    return replace(entry, plan=made)


class _Shape:
    """What all ways are judged by."""

    def __init__(self, session: Session, nodes: tuple[Node, ...], settings: Settings, one: Plan, cards: tuple[Gpu, ...], copies: int | None) -> None:
        self.session, self.nodes, self.settings, self.one, self.cards, self.copies = session, nodes, settings, one, cards, copies

    @property
    def gpus(self) -> int:
        """GPUs on each node."""
        return len(self.cards)

    @property
    def smallest_first(self) -> tuple[Gpu, ...]:
        """The GPUs as servers are sized for them: all have the same options, and whoever chose unequal GPUs has one
        server on the smallest."""
        return tuple(sorted(self.cards, key=lambda g: g.vram_total_bytes.value or 0))

    @property
    def too_few_chosen(self) -> str:
        """That there would be more GPUs, had the user not left them out; empty where none are left out."""
        if self.nodes or self.gpus >= len(usable_gpus(self.session.machine, self.one.device)):
            return ""
        return ngettext("only {n} GPU was chosen on the step “{step}”", "only {n} GPUs were chosen on the step “{step}”", self.gpus).format(n=self.gpus, step=_(MACHINE.title))

    def over(self, nodes: int) -> Sized:
        """The best layout over so many nodes."""
        session = layouts.session_for(self.session, self.session.machine, self.cards, nodes)
        return layouts.best(session, self.one, nodes, self.gpus, self.settings.network_gbps)


def _without_size_pins(session: Session) -> Session:
    pins = session.answers.pins()
    for key in _SIZES:
        if key in pins:
            session = session.forget(key)
    return session


def _text(session: Session, key: str) -> str | None:
    given = session.answers.get(key)
    return None if given is None or given[0] == "" else str(given[0])


def asked_way(session: Session, inventory: Inventory) -> str:
    """The answer to where it runs; without one: the nodes that are listed, or this machine."""
    asked = _text(session, "run_on")
    if asked is not None:
        if asked not in WAYS:
            raise BadInput(_("run_on={asked}: it must be one of {known}.").format(asked=asked, known=", ".join(WAYS)))
        return asked
    return NATIVE if len(inventory.nodes) > 1 else THIS


def copies_asked(session: Session) -> int | None:
    """The answer to how many servers; None: as many as fit. :class:`BadInput` when it is no sensible number."""
    asked = _text(session, "replicas")
    if asked is None:
        return None
    if not asked.isdigit() or not 1 <= int(asked) <= MOST_REPLICAS:
        raise BadInput(_("replicas={asked}: it must be a number from 1 to {most}.").format(asked=asked, most=MOST_REPLICAS))
    return int(asked)


def storage_of(session: Session) -> str:
    asked = _text(session, "storage") or "pvc"
    if asked not in ("pvc", "hostpath"):
        raise BadInput(_("storage={asked}: it must be pvc or hostpath.").format(asked=asked))
    return asked


# -- the ways ---------------------------------------------------------------------------------------------------


def _ways(shape: _Shape, listed: int) -> tuple[tuple[Way, ...], dict[str, Sized]]:
    alone = Sized(layouts.of_plan(shape.one), shape.one, shape.one.fit_request, shape.one.fit, 0, _("no other machine is needed"))
    found: dict[str, Sized] = {THIS: alone}
    ways = [_way_this(shape, alone)]
    replicas, found[REPLICAS] = _way_replicas(shape, alone)
    ways.append(replicas)
    over = shape.over(len(shape.nodes)) if len(shape.nodes) > 1 else replace(alone, layout=replace(alone.layout, nodes=max(1, listed)))
    for key in (NATIVE, RAY):
        found[key] = over
        ways.append(_way_nodes(shape, key, over, listed - len(shape.nodes)))
    kubernetes, found[KUBERNETES] = _way_kubernetes(shape, alone, over)
    ways.append(kubernetes)
    return _recommended(tuple(ways), shape), found


def _first_blocker(plan: Plan) -> str:
    return sentences(sentence(plan.blockers[0].title), plan.blockers[0].detail) if plan.blockers else ""


def _why_not(entry: Sized) -> str:
    """Why a layout does not fit."""
    if not entry.plan.blockers and entry.offloads:
        return _("a part of the weights would have to stay in RAM")
    return _first_blocker(entry.plan)


def _way_this(shape: _Shape, alone: Sized) -> Way:
    title = _("This machine, one server") if not shape.nodes else _("One node, one server")
    if alone.plan.blockers:
        return Way(THIS, title, False, _first_blocker(alone.plan), alone)
    return Way(THIS, title, True, _("the simplest: one script, no router, no traffic between machines"), alone)


def _way_replicas(shape: _Shape, alone: Sized) -> tuple[Way, Sized]:
    title = _("Several servers on one machine, behind a router")
    needs = (_("Docker with Compose"),)
    if shape.one.model is None or not shape.gpus:
        words = _("two servers on one processor only share its memory bandwidth: one with more requests at once does better")
        return Way(REPLICAS, title, False, words if shape.one.model is not None else _first_blocker(shape.one), alone, 1, needs), alone
    against = docker_objection(shape.session.machine, shape.one.device) or shape.one.docker_lacks or None
    if against is not None:
        return Way(REPLICAS, title, False, against, alone, 1, needs), alone
    entry = _smallest(shape, shape.gpus // 2 if shape.copies is None else shape.gpus // shape.copies)
    if entry is not None:
        tensor = entry.layout.tensor
        copies = shape.copies or shape.gpus // tensor
        reason = ngettext(
            "each of the {n} servers has a GPU of its own; one can fail or be restarted while the others answer",
            "each of the {n} servers has {gpus} GPUs of its own; one can fail or be restarted while the others answer",
            tensor,
        ).format(n=copies, gpus=tensor)
        return Way(REPLICAS, title, True, reason, entry, copies, needs), entry
    copies = shape.copies or 2
    entry, reason = _sharing(shape, copies)
    if not entry.fits:
        told = ngettext("{n} servers do not fit {gpus} GPU", "{n} servers do not fit {gpus} GPUs", shape.gpus).format(n=copies, gpus=shape.gpus)
        if any(b.code == "does_not_fit" for b in entry.plan.blockers):
            told = shape.too_few_chosen or told
        entry, why = _too_many(shape, entry)
        reason = labelled(told, why)
    return Way(REPLICAS, title, entry.fits, reason, entry, copies, needs, shared_gpus=min(copies, shape.gpus)), entry


def _too_many(shape: _Shape, shared: Sized) -> tuple[Sized, str]:
    """Why so many servers do not fit, by what one needs of the whole machine: ``shared`` was sized for a single GPU,
    and its ways out ("2 such GPUs instead of 1") speak of a machine that is not this one."""
    if not any(b.code == "does_not_fit" for b in shared.plan.blockers):
        return shared, _why_not(shared)
    alone = _smallest(shape, shape.gpus)
    if alone is None:
        blockers = tuple(b for b in shape.one.blockers if b.code == "does_not_fit") or shared.plan.blockers
        told = replace(shared, plan=replace(shared.plan, blockers=blockers))
        return told, _why_not(told)
    most = shape.gpus // alone.layout.tensor
    why = ngettext(
        "one server takes {gpus} of them, so there is room for {n} server (replicas={n})",
        "one server takes {gpus} of them, so there is room for {n} servers (replicas={n})",
        most,
    ).format(gpus=alone.layout.tensor, n=most)
    rest = tuple(b for b in shared.plan.blockers if b.code != "does_not_fit")
    return replace(shared, plan=replace(shared.plan, blockers=rest)), why


def _smallest(shape: _Shape, most: int) -> Sized | None:
    """The plan on as few GPUs as hold the model, ``most`` at most; None where that many do not."""
    assert shape.one.model is not None
    # They need not divide the machine's GPUs evenly: one that is left over lies idle, as beside a single server.
    for tensor in layouts.sizes(shape.one.model, most):
        session = layouts.session_for(shape.session, shape.session.machine, shape.smallest_first[:tensor])
        entry = layouts.sized(session, Layout(1, tensor, tensor), _("as few GPUs as hold it, so that each server has its own"))
        if entry.fits:
            return _on_all(entry, shape)
    return None


def _on_all(entry: Sized, shape: _Shape) -> Sized:
    """The plan on the whole machine: its other GPUs are the other servers'."""
    return replace(entry, plan=replace(entry.plan, machine=shape.session.machine, session=shape.session))


def _sharing(shape: _Shape, copies: int) -> tuple[Sized, str]:
    """Servers that share GPUs: each is given its part of the memory."""
    on_each = -(-copies // max(1, shape.gpus))
    each = int(float(shape.one.value("gpu_memory_utilization", 0.9)) / on_each * 100) / 100
    reason = _("{n} servers on a GPU: each may take {share:.2f} of its memory").format(n=on_each, share=each)
    session = layouts.session_for(shape.session, shape.session.machine, shape.smallest_first[:1]).answer("gpu_memory_utilization", max(each, 0.05))
    entry = layouts.sized(session, Layout(1, 1, 1), reason)
    fixed = tuple(replace(d, reason=reason, chosen=False, proposed=None, source="detected") if d.key == "gpu_memory_utilization" else d for d in entry.plan.decisions)
    return _on_all(replace(entry, plan=replace(entry.plan, decisions=fixed)), shape), reason


def gpu_shares(gpus: tuple[Gpu, ...], tensor: int, copies: int) -> tuple[tuple[int, ...], ...]:
    """Which of ``gpus`` each copy has: ``tensor`` of its own where there are enough, else shared in turn."""
    indices = [g.index for g in gpus]
    if not indices:
        return ((),) * copies
    if copies * tensor <= len(indices):
        return tuple(tuple(indices[at * tensor : (at + 1) * tensor]) for at in range(copies))
    return tuple((indices[at % len(indices)],) for at in range(copies))


def native_objection(version: str, layout: Layout) -> str | None:
    """Why vLLM's own multi-node start cannot do ``layout`` in this release, or None."""
    needed = ["--data-parallel-size-local", "--data-parallel-start-rank", "--headless"] if layout.data > 1 else ["--nnodes", "--node-rank", "--master-addr", "--headless"]
    known = {f for o in releases.load(version).options for f in o.flags}
    missing = [f for f in needed if f not in known]
    if not missing:
        return None
    first = releases.first_with_flag(missing[0])
    return _("vLLM {version} has no {flag} (it came with {first})").format(version=version, flag=missing[0], first=first or "?")


def ray_objection(version: str, layout: Layout, device: str) -> str | None:
    """Why Ray cannot do ``layout`` in this release, or None."""
    if device == "cpu":
        return _("vLLM's CPU build does not run through Ray")
    known = {f for o in releases.load(version).options for f in o.flags}
    if layout.data > 1 and DATA_PARALLEL_RAY not in known:
        return _("vLLM {version} cannot start data parallel ranks through Ray (it came with {first})").format(version=version, first=releases.first_with_flag(DATA_PARALLEL_RAY) or "?")
    return None


def ray_in_image(version: str) -> bool:
    """Whether the release brings Ray along."""
    numbers = tuple(int(p) for p in version.split(".")[:3] if p.isdigit())
    return numbers <= LAST_WITH_RAY


def _way_nodes(shape: _Shape, key: str, over: Sized, unknown: int) -> Way:
    title = _("Several machines, vLLM's own multi-node start") if key == NATIVE else _("Several machines, through Ray")
    needs = [_("the same release everywhere"), _("the model on every machine, or on shared storage")]
    if not shape.nodes:
        return Way(key, title, False, _("no nodes are listed"), None, 1, tuple(needs))
    if unknown > 0:
        # A layout over fewer nodes than are listed says nothing.
        reason = ngettext("the machine of {n} node is not known", "the machines of {n} nodes are not known", unknown)
        return Way(key, title, False, reason.format(n=unknown), over, 1, tuple(needs))
    version = over.plan.release.version if over.plan.release is not None else None
    if not over.fits or version is None:
        return Way(key, title, False, _why_not(over) or _("no release serves it"), over, 1, tuple(needs))
    if over.layout.gpus != over.layout.nodes * over.layout.gpus_per_node or (over.layout.data > 1 and over.layout.data % over.layout.nodes):
        uneven = _("{tensor} x {pipeline} x {data} do not come to the same number of GPUs on each of {nodes} nodes with {gpus}").format(
            tensor=over.layout.tensor, pipeline=over.layout.pipeline, data=over.layout.data, nodes=over.layout.nodes, gpus=over.layout.gpus_per_node
        )
        return Way(key, title, False, uneven, over, 1, tuple(needs))
    against = native_objection(version, over.layout) if key == NATIVE else ray_objection(version, over.layout, over.plan.device)
    if key == RAY and not ray_in_image(version):
        needs.append(_("Ray added to the image or environment: vLLM {version} does not bring it").format(version=version))
    if against is not None:
        return Way(key, title, False, against, over, 1, tuple(needs))
    return Way(key, title, True, over.reason, over, 1, tuple(needs))


def _way_kubernetes(shape: _Shape, alone: Sized, over: Sized) -> tuple[Way, Sized]:
    title = _("Kubernetes")
    size = len(shape.nodes) or shape.settings.group_size or 1
    cpu = shape.one.device == "cpu"
    needs = [_("a Kubernetes cluster") if cpu else _("a cluster with the vendor's GPU device plugin")]
    entry = replace(alone, reason=_("one pod has all that the model needs"))
    if not entry.fits and size > 1:
        group = over if len(shape.nodes) > 1 else shape.over(size)
        if group.fits:
            entry = group
            needs.append(_("the LeaderWorkerSet controller"))
    if not entry.fits:
        return Way(KUBERNETES, title, False, _first_blocker(entry.plan), entry, shape.copies or 1, tuple(needs)), entry
    # Listed nodes hold as many pods as their GPUs allow; without nodes: one, or what the user says.
    per_node = max(1, shape.gpus // max(1, entry.layout.gpus_per_node))
    copies = shape.copies or (1 if entry.layout.nodes > 1 else len(shape.nodes) * per_node or 1)
    reason = ngettext("restarts, roll-outs and scaling are the cluster's work; {n} copy", "restarts, roll-outs and scaling are the cluster's work; {n} copies", copies).format(n=copies)
    return Way(KUBERNETES, title, True, reason, entry, copies, tuple(needs)), entry


def _recommended(ways: tuple[Way, ...], shape: _Shape) -> tuple[Way, ...]:
    """The simplest that serves: one server where the machines are one or one of them holds the model and would have to
    send each token to the others; else all nodes where there are several."""
    order = [THIS, REPLICAS, NATIVE, RAY, KUBERNETES]
    if len(shape.nodes) > 1 and _crosses_for_nothing(ways):
        told = _("one node holds the model: a server of its own on each node answers as many requests, and no token crosses between them")
        ways = tuple(replace(w, reason=told) if w.key == THIS else w for w in ways)
    elif len(shape.nodes) > 1:
        order = [NATIVE, RAY, KUBERNETES, THIS, REPLICAS]
    elif shape.copies is not None and shape.copies > 1:
        order = [REPLICAS, THIS, KUBERNETES, NATIVE, RAY]
    best = next((k for k in order if any(w.key == k and w.possible for w in ways)), None)
    return tuple(replace(w, recommended=w.key == best) for w in ways)


def _crosses_for_nothing(ways: tuple[Way, ...]) -> bool:
    """Whether one node holds the model, and the server over all of them would still send every token across."""
    by_key = {w.key: w for w in ways}
    over = by_key[NATIVE].sized
    return by_key[THIS].possible and over is not None and over.fits and over.traffic_bytes_per_token > 0


# -- the rest -----------------------------------------------------------------------------------------------------


def _usual_gpus(nodes: tuple[Node, ...], device: str, wanted: int | None) -> int | None:
    """How many GPUs a node must have: what most nodes have, so that the odd one out is named; no more than were chosen
    on one of them."""
    counts = [len(node_room.gpus_of(n, device)) for n in nodes]
    if not counts:
        return wanted
    return min([max(counts, key=lambda c: (counts.count(c), c)), *(len(node_room.gpus_of(n, device)) for n in nodes if n.chosen_gpus)])


def _is_shared(settings: Settings, head: Session, path: str | None) -> bool:
    if settings.shared_storage is not None:
        return settings.shared_storage
    mount = head.machine.mount_of(path) if path is not None else None
    return mount is not None and mount.kind.value == "network"


def _asks_reach(inventory: Inventory) -> bool:
    if inventory.settings.check_reach is not None:
        return inventory.settings.check_reach
    return any(n.record == "this" for n in inventory.nodes)


def _start_s(storage: str, chosen: str, plan: Plan) -> int:
    """As for one server; a volume of a Kubernetes cluster is taken to be network storage."""
    seconds = start_seconds(plan)
    if chosen != KUBERNETES or storage == "hostpath":
        return seconds
    size = plan.model.weight_bytes if plan.model is not None else None
    rate = SLOW_READ_RATES["network" if plan.host_model_path is not None else "download"]
    over_network = BASE_START_SECONDS + (size or 20e9) / rate
    return max(seconds, int(-(-over_network // 60) * 60))


def _decisions(chosen: str, entry: Sized, way: Way, nodes: tuple[Node, ...]) -> tuple[Decision, ...]:
    made = [Decision("run_on", chosen, way.reason, "user" if not way.recommended else "detected")]
    layout = entry.layout
    numbers: dict[str, Value] = {
        "nodes": layout.nodes, "gpus_per_node": layout.gpus_per_node, "tensor_parallel_size": layout.tensor,
        "pipeline_parallel_size": layout.pipeline, "data_parallel_size": layout.data, "enable_expert_parallel": layout.expert_parallel, "copies": way.copies,
    }  # fmt: skip
    made += [Decision(key, value, entry.reason or way.reason, "detected") for key, value in numbers.items()]
    if chosen in OVER_NODES and nodes:
        made.append(Decision("head", nodes[0].name, _("the first node that is listed; clients talk to it, the others connect to it"), "file"))
    return tuple(made)


def _stand_in_home(chosen: str, nodes: tuple[Node, ...], plan: Plan, settings: Settings) -> list[Notice]:
    """A record has /home/user in place of the real home folder: paths below it must be put right."""
    recorded = [n for n in nodes if n.record != "this" and n.machine is not None and n.machine.home == STAND_IN_HOME]
    if chosen not in OVER_NODES or settings.home is not None or not recorded:
        return []
    below = [source for source, _target, _read_only in plan.mounts if source.startswith(STAND_IN_HOME + "/")]
    if not below:
        return []
    return [
        Notice(
            "stand_in_home", Severity.WARNING, _("{home} stands for the real home folder in the records, and in these files.").format(home=STAND_IN_HOME),
            _("Write the real one as home = \"/home/...\" under [cluster]. These lie below it: {paths}.").format(paths=", ".join(below)),
        )
    ]  # fmt: skip


def _more_warnings(chosen: str, entry: Sized, settings: Settings) -> list[Notice]:
    out = []
    if chosen == KUBERNETES and entry.plan.value("access") != "network":
        out.append(
            Notice(
                "kubernetes_open", Severity.WARNING, _("Every pod of the cluster can use the server without a key."),
                _("Choose “{label}” on the step “Access”, or --set access=network: a key is then made and asked for.").format(label=reach_of(entry.plan.machine, entry.plan.runtime, chosen).network_label),
            )
        )  # fmt: skip
    if chosen in OVER_NODES:
        out.append(
            Notice(
                "cluster_network", Severity.WARNING, _("The nodes talk to each other without encryption or passwords."),
                _("Whoever reaches their ports can run code there: use a network of their own, or a firewall that lets only the nodes in."),
            )
        )  # fmt: skip
        if entry.layout.spans_nodes and settings.network_gbps is not None and settings.network_gbps < 10:
            out.append(Notice("slow_network", Severity.WARNING, _("At {gbps:g} Gbit/s the network between the nodes will set the pace.").format(gbps=settings.network_gbps), entry.reason))
    return out


def _notes(chosen: str, entry: Sized, shared: bool) -> tuple[str, ...]:
    notes = list(entry.plan.notes)
    if chosen in OVER_NODES and shared:
        notes.append(_("The model's folder is shared storage: it is looked for on each node when its script starts."))
    return tuple(notes)


def _unique(items: list[Notice]) -> list[Notice]:
    out: list[Notice] = []
    for item in items:
        if item not in out:
            out.append(item)
    return out
