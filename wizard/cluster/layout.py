"""How a model is spread over nodes: every sensible layout is planned and computed, and the best that fits is taken.

Tensor parallelism stays inside a node, where GPUs talk fast; pipeline stages lie on different nodes, since only
the hidden state crosses from one to the next; mixture models can spread their experts over all GPUs instead
(data parallel attention, expert parallel experts); a model that fits a node needs no other node at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wizard.cluster.types import Layout, Sized
from wizard.facts import Gpu, Machine
from wizard.fit_layout import experts_problem, layout_of, takes_experts, takes_pipeline, tp_problem
from wizard.fit_types import FitRequest
from wizard.i18n import _
from wizard.models.info import ModelInfo
from wizard.plan import plan as make_plan
from wizard.plan_types import Plan
from wizard.session import Layer, Session, Value

# Between nodes, below this many Gbit/s, the experts' traffic (two exchanges a layer) costs more than the
# pipeline's (one hand-over a stage): vLLM's own guide asks for RDMA networks for expert parallelism.
FAST_NETWORK_GBPS = 100.0
PARALLEL_KEYS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "enable_expert_parallel")
# Bytes of the activations that cross: vLLM computes in 16 bit whatever the weights are quantized to.
ACTIVATION_BYTES = 2
# vLLM hands a stage's hidden state and its residual to the next one.
STAGE_TENSORS = 2


def session_for(session: Session, machine: Machine, gpus: tuple[Gpu, ...], nodes: int = 1) -> Session:
    """The session as if all of the nodes' GPUs were in ``machine``, and no others: so the layout over them is planned
    and judged."""
    # The answer that chose them numbers them as they lie in the whole machine.
    session = session.forget("gpus")
    if not gpus:
        return replace(session, machine=machine)
    every = tuple(replace(gpu, index=at, uuid=None) for at, gpu in enumerate(gpus * nodes)) if nodes > 1 else gpus
    return replace(session, machine=replace(machine, gpu=replace(machine.gpu, gpus=every)))


def sized(session: Session, layout: Layout, reason: str) -> Sized:
    """The plan for ``layout``, with the sizes that the fit allows. ``session`` has all of the layout's GPUs."""
    wanted: dict[str, Value] = {"tensor_parallel_size": layout.tensor}
    if layout.pipeline > 1:
        wanted["pipeline_parallel_size"] = str(layout.pipeline)
    if layout.data > 1:
        wanted["data_parallel_size"] = str(layout.data)
    if layout.expert_parallel:
        wanted["enable_expert_parallel"] = "true"
    made = _plan_with(session, wanted)
    if made.fit_request is not None and not _is(made.fit_request, layout):
        # What was left open was filled in another way: say all of it.
        every: dict[str, Value] = {"pipeline_parallel_size": str(layout.pipeline), "data_parallel_size": str(layout.data)}
        every["enable_expert_parallel"] = "true" if layout.expert_parallel else "false"
        wanted = {**every, **wanted}
        made = _plan_with(session, wanted)
    made = _explained(made, wanted, reason)
    traffic = traffic_per_token(made.model, layout) if made.model is not None else 0
    return Sized(layout, replace(made, session=session), made.fit_request, made.fit, traffic, reason, whole=True)


def _plan_with(session: Session, wanted: dict[str, Value]) -> Plan:
    asked = _alone(without_parallel(session))
    for key, value in wanted.items():
        asked = asked.answer(key, value, Layer.USER)
    return make_plan(asked)


def _alone(session: Session) -> Session:
    """The session with no other variant of the model: comparing them anew for every layout takes most of the time."""
    given = session.answers.get("model")
    info = session.models.get(str(given[0])) if given is not None else None
    if given is None:
        return session
    hit = session.recipes.find(info if info is not None else str(given[0]))
    if hit is None:
        return session
    own = tuple(v for v in hit[0].variants if v.model_id == hit[1].model_id)
    return replace(session, recipes=replace(session.recipes, recipes=(replace(hit[0], variants=own),)))


def without_parallel(session: Session) -> Session:
    """The session without answers to how the model is spread."""
    for key in PARALLEL_KEYS:
        session = session.forget(key)
    return session


def _is(request: FitRequest, layout: Layout) -> bool:
    found = layout_of(request)
    return (found.tp, found.pp, found.dp, found.ep) == (layout.tensor, layout.pipeline, layout.data, layout.expert_parallel)


def of_plan(plan: Plan) -> Layout:
    """The layout of a plan for one machine."""
    if plan.fit_request is None:
        return Layout(1, 1)
    found = layout_of(plan.fit_request)
    return Layout(1, found.gpus, found.tp, found.pp, found.dp, found.ep)


def _explained(made: Plan, wanted: dict[str, Value], reason: str) -> Plan:
    """The wizard chose the layout, so its decisions carry the layout's reason and not “chosen by you”."""
    decisions = tuple(
        replace(d, reason=reason, source="detected", proposed=None, chosen=False) if d.key in wanted else d for d in made.decisions
    )
    return replace(made, decisions=decisions)


# -- what crosses between nodes -----------------------------------------------------------------------------------


def traffic_per_token(info: ModelInfo, layout: Layout) -> int:
    """Bytes that cross between nodes for one token: estimated from the shapes, without headers and retries.

    A stage hands over its hidden state and residual. Expert parallelism gathers every token's hidden state to all
    ranks and scatters the sums back, once in each mixture layer (vLLM's default all-to-all backend). Tensor parallelism
    that a user stretches over nodes adds up two hidden states in each layer, around a ring of all nodes, twice.
    """
    if layout.nodes <= 1:
        return 0
    hidden = (info.hidden_size or 0) * ACTIVATION_BYTES
    crossings = min(layout.pipeline, layout.nodes) - 1
    total = crossings * STAGE_TENSORS * hidden
    if layout.tensor > layout.gpus_per_node:
        ring = -(-layout.tensor // layout.gpus_per_node)
        total += 2 * 2 * ring * hidden * (info.num_layers or 0)
    if layout.expert_parallel:
        total += 2 * (layout.nodes - 1) * hidden * (info.num_layers or 0)
    return total


# -- which layouts there are ----------------------------------------------------------------------------------------


def sizes(info: ModelInfo, gpus: int, *, expert_parallel: bool = False) -> list[int]:
    """Tensor parallel sizes that divide the model, of ``gpus`` GPUs at most, smallest first."""
    return [n for n in range(1, gpus + 1) if tp_problem(info, n, expert_parallel=expert_parallel) is None]


def splits(info: ModelInfo, gpus: int, *, expert_parallel: bool = False) -> list[int]:
    """Tensor parallel sizes that divide the model and a node's GPUs evenly, smallest first."""
    return [n for n in sizes(info, gpus, expert_parallel=expert_parallel) if gpus % n == 0]


def layouts(info: ModelInfo, request: FitRequest, nodes: int, gpus: int) -> Iterator[Layout]:
    """Layouts that use ``gpus`` GPUs of each of ``nodes`` nodes, in the order in which they are wanted.

    A mixture model's experts go over all GPUs, its attention is repeated in as many ranks as have room. Another
    model that fits a node is copied, as often as it can be. What fits no node goes over all in stages.
    """
    if takes_experts(info, request, nodes * gpus):
        for tensor in splits(info, gpus, expert_parallel=True):
            if nodes * (gpus // tensor) > 1:
                yield Layout(nodes, gpus, tensor, 1, nodes * (gpus // tensor), True)
    elif not info.is_moe:
        for tensor in splits(info, gpus):
            if nodes * (gpus // tensor) > 1:
                yield Layout(nodes, gpus, tensor, 1, nodes * (gpus // tensor))
    for tensor in reversed(splits(info, gpus)):
        stages = nodes * (gpus // tensor)
        if takes_pipeline(info, stages, request.release):
            yield Layout(nodes, gpus, tensor, stages)


def reason_for(layout: Layout, info: ModelInfo, *, cpu: bool = False) -> str:
    """Why a model would be spread like this."""
    if cpu:
        return _("it fits one node: {data} copies share the requests, and no token crosses between nodes").format(data=layout.data)
    if layout.expert_parallel:
        return _("a mixture model: its {experts} experts are spread over {gpus} GPUs, attention runs {data} times in parallel").format(
            experts=info.num_experts, gpus=layout.gpus, data=layout.data
        )
    if layout.data > 1 and layout.tensor == 1:
        return _("it fits one GPU: {data} copies share the requests, and no token crosses between nodes").format(data=layout.data)
    if layout.data > 1:
        return _("it fits {n} GPUs of one node: {data} copies share the requests, and no token crosses between nodes").format(n=layout.tensor, data=layout.data)
    if layout.tensor == 1:
        return _("its layers are spread over {stages} stages, each on one GPU: only the hidden state crosses between nodes").format(stages=layout.pipeline)
    return _("split over {tensor} GPUs inside a node, its layers over {stages} stages: only the hidden state crosses between nodes").format(
        tensor=layout.tensor, stages=layout.pipeline
    )


def asked_layout(session: Session, nodes: int, gpus: int) -> Layout | None:
    """The layout that the user's own answers fix; None where they leave it open."""
    answers = session.answers.without_pins()
    values = {key: answers.get(key) for key in PARALLEL_KEYS}
    if all(v is None for v in values.values()):
        return None

    def number(key: str, default: int) -> int:
        given = values[key]
        return max(1, int(str(given[0]))) if given is not None and str(given[0]).isdigit() else default

    expert = values["enable_expert_parallel"]
    on = expert is not None and str(expert[0]).lower() in ("true", "yes", "on", "1", "")
    tensor = number("tensor_parallel_size", 1 if values["data_parallel_size"] is not None else gpus)
    data = number("data_parallel_size", 1)
    rest = nodes * gpus // (tensor * data) if nodes * gpus % (tensor * data) == 0 else 1
    return Layout(nodes, gpus, tensor, number("pipeline_parallel_size", rest), data, on)


def best(session: Session, one: Plan, nodes: int, gpus: int, network_gbps: float | None) -> Sized:
    """The layout to take over ``nodes`` nodes: the first wanted one that fits; where none does, the last one tried.

    ``session`` has all of the nodes' GPUs; ``one`` is the plan for one node, which tells what the model is.
    """
    info, request = one.model, one.fit_request
    if info is None or request is None:
        return Sized(Layout(nodes, max(1, gpus)), one, request, one.fit, 0, "")
    asked = asked_layout(session, nodes, max(1, gpus))
    if asked is not None:
        return sized(session, asked, _("chosen by you"))
    wanted = list(layouts(info, request, nodes, max(1, gpus)))
    slow = network_gbps is not None and network_gbps < FAST_NETWORK_GBPS
    if slow:
        wanted.sort(key=lambda layout: layout.expert_parallel)
    tried: Sized | None = None
    for layout in wanted:
        tried = sized(session, layout, reason_for(layout, info, cpu=request.cpu))
        if tried.fits and (tried.result is None or tried.result.concurrency is None or tried.result.concurrency >= 1):
            break
    if tried is None:
        return Sized(Layout(nodes, max(1, gpus)), one, request, one.fit, 0, _("vLLM cannot spread this model over several nodes"))
    if slow and not tried.layout.expert_parallel and any(layout.expert_parallel for layout in wanted):
        why = _("{reason}; at {gbps:g} Gbit/s between the nodes the experts' traffic would cost more").format(reason=tried.reason, gbps=network_gbps or 0)
        tried = replace(tried, reason=why)
    elif info.is_moe and not tried.layout.expert_parallel:
        against = experts_problem(info, request, nodes * max(1, gpus)) or _("no such layout fits")
        tried = replace(tried, reason=_("{reason}; its experts are not spread over all GPUs: {why}").format(reason=tried.reason, why=against))
    return tried
