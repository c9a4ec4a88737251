"""Operations run on a different device than the enclosing scope requested.

## What it means
The program requested a worker or an accelerator, but an inner device scope, meant for variables,
also contains operations. They run where the variables are.

## Why it costs
The requested devices are idle meanwhile, all towers compete for one device, and every input and
result of the operations is copied.

## How it is measured
A node is misplaced when its actual device contradicts the request of an enclosing device scope, and
it works with the weights and with data: variables, their reads, initialisers, assignments,
regularisers and updates belong where the variables are, and what prepares the input may run on the
CPU. A scope that combines the results of several devices is right to use one. The device must be a
worse choice: a CPU in place of an accelerator, the parameter host in place of a worker, or one
device in place of several. A layer that is colocated with a variable is compared with what the rest
of its tower requests, because a colocation clears the device scopes.

The diagnosis adds up the time in which these nodes run, whatever their types, and the exposed time
of the copies to and from them. It is a finding from 5 % of the step on. The cost is the time in
which the requested devices compute nothing meanwhile, and the exposed copies. Where no time was
recorded, it is a finding if they are at least 5 % of the operations that do the model's work.

Without a record of the placement, it counts heavy operations on the CPU of a run that has an
accelerator, which is weaker evidence.

## Fix
Close the inner scope before the operations, or place only variables with a device function.

## Fix risk
None for the result.

## When it abstains
Without a record of the placement and without an accelerator. `incomplete` when device scopes were
not recorded, because then the requested devices are unknown, or when a few operations are misplaced
and their time was not recorded. What soft placement moved is the subject of
`soft-placement-fallback`.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.analyse.program.placement import (
    Node,
    conflicts,
    fallen,
    forward_of,
    misplaced,
    misplaced_names,
    node_times,
    placed_nodes,
    written,
)
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.placement import (
    COPIED_FOR_OPS,
    SAME_CORES,
    SHARE,
    Elsewhere,
    by_time,
    elsewhere,
    example,
    listed,
    share_their_cores,
    types_run,
    unrequested,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import strings_of
from stepwhy.trace import Kind, Role

RULE = Rule(
    __name__,
    name="Operations on the wrong device",
    found="Move the operations to the requested device",
    clear="Operations run on the requested devices",
)

# Without a graph, what the model does is known by type alone.
_HEAVY = regex(
    r"_?(Fused|Batch|Sparse|Quantized|Depthwise)*(MatMul|Conv\w*|Depthwise\w+|Einsum)\w*"
    r"|\w*Backprop\w*|FusedBatchNorm\w*|CudnnRNN\w*|\w*LSTM\w*|\w*GRU\w*|LRN\w*|(Max|Avg)Pool\w*"
    r"|BiasAdd\w*|Relu\w*|Elu|Selu|Sigmoid\w*|Tanh\w*|Softmax\w*|LogSoftmax"
    r"|\w*SoftmaxCrossEntropy\w*"
)
LEAST_SAVED = 0.3  # of the cost; the work has to be done on the other devices, which may be slower
KNOWN = 0.5  # of the operations' time; with less, what matters may have unknown requests


_GRADIENTS = (
    "The gradients follow only with colocate_gradients_with_ops=True, or when they are computed "
    "inside the scope of each tower."
)
_MORE = "It can save more than its cost: the devices then work at the same time."
_SHARED = (
    "CPU devices of one process share its cores: the step gets faster only where they stand for "
    "devices of their own."
)


def diagnose(facts: Facts) -> Finding:
    """Judge every placed node against the scopes around it."""
    if "placement" not in facts.trace.meta.signals:
        return _by_timeline(facts)
    nodes = placed_nodes(facts)
    wrong = misplaced(facts)
    if wrong:
        return _judge(facts, nodes, wrong)
    if len({node.actual for node in nodes if node.actual}) == 1:
        return RULE.not_applicable("All operations run on the only device.")
    if not any(node.line or node.source or node.requested for node in nodes):
        return RULE.incomplete("requested-devices", "The requested devices are not recorded.")
    return _nothing(facts, nodes)


def _judge(facts: Facts, nodes: list[Node], wrong: list[Node]) -> Finding:
    """Whether misplaced nodes matter: by their time and copies, or by their number."""
    cost = elsewhere(facts, wrong, {n.outer for n in wrong if n.outer})
    if node_times(facts):
        return _found(facts, wrong, cost) if cost.matters(facts) else _small(facts, nodes, wrong)
    work = sum(n.is_model_work for n in nodes)
    if len(wrong) >= SHARE * work:
        return _found(facts, wrong, cost)
    counted = Evidence("operations on a different device than requested", len(wrong), "count")
    reason = "A few operations run on another device than requested; their time is not recorded."
    return RULE.incomplete("device-time", reason, (counted,))


def _nothing(facts: Facts, nodes: list[Node]) -> Finding:
    """Clear, if the requests of most of the work are known and were met."""
    spent = node_times(facts)
    unknown = sum(spent.get(name, 0) for name in unrequested(facts))
    if unknown > (1 - KNOWN) * sum(spent.values()):
        reason = "The requested devices of most of the work are not recorded."
        return RULE.incomplete("requested-devices", reason)
    if fallen(facts):
        return RULE.not_applicable("No device scope moves operations; soft placement does.")
    ran = sum(bool(node.actual) for node in nodes)
    return RULE.nothing((Evidence("placed operations", ran, "count"),))


def _small(facts: Facts, nodes: list[Node], wrong: list[Node]) -> Finding:
    spent = node_times(facts)
    ran = [n for n in wrong if n.actual]
    found = _nothing(facts, nodes)
    evidence = (
        Evidence("operations on a different device than requested", len(ran), "count"),
        Evidence("their time per step", sum(spent.get(n.name, 0) for n in ran), "ns"),
    )
    clear = "Operations on another device than requested take little time"
    return replace(found, title=clear, evidence=(*found.evidence, *evidence))


def _found(facts: Facts, wrong: list[Node], cost: Elsewhere) -> Finding:
    ns = cost.cost_ns(facts)
    asked = {n.outer for n in wrong} - {""}
    ran = {n.place for n in wrong} - {""}
    shared = share_their_cores(asked | ran)
    gain = None
    if ns:
        # Devices that share their cores do not work beside each other any faster.
        least, most = (0, ns) if shared else (LEAST_SAVED * ns, max(ns, cost.most_ns(facts)))
        gain = saving("move misplaced operations to the device asked for", least, most)
        gain = replace(gain, note=_MORE) if most > ns else gain
    device = next((node.outer for node in wrong if node.outer), "")
    edit = Edit("ops", "moved", device=device) if device and not shared else None
    fix = _fix(wrong, _GRADIENTS if _has_gradients_beside(facts) else "", _SHARED if shared else "")
    return RULE.finding(ns, _evidence(facts, wrong, cost, shared=shared), fix, gain, edit)


def _has_gradients_beside(facts: Facts) -> bool:
    """Whether gradients of misplaced operations run beside them, without a request of their own.

    After the fix they would still run there, away from their operations.
    """
    nodes, names = placed_nodes(facts), misplaced_names(facts)
    named = {n.name: n for n in nodes}
    unasked = (n for n in nodes if n.actual and not n.requested and not n.colocated)
    pairs = ((forward_of(n.name, named), n) for n in unasked if n.is_compute)
    return any(f and f.name in names and not conflicts(f.place, n.actual) for f, n in pairs)


def _evidence(
    facts: Facts, wrong: list[Node], cost: Elsewhere, *, shared: bool
) -> tuple[Evidence, ...]:
    types = by_time(facts, wrong)
    order = {group.name: place for place, group in enumerate(types)}
    ran_as = types_run(facts, wrong)
    named = listed(
        n.name for n in sorted(wrong, key=lambda n: (not n.outer, order[ran_as[n.name]]))
    )
    lines = listed(n.line for n in wrong)
    asked, ran = listed(n.outer for n in wrong), listed(n.actual for n in wrong)
    found = [
        Evidence("operations on a different device than requested", len(wrong), "count", named),
        Evidence("device requested by the enclosing scope", asked, ""),
        Evidence("device they ran on", ran, ""),
    ]
    if lines:
        found.append(Evidence("responsible device scope", lines, ""))
    if len(cost.rows):
        found.append(Evidence("time in which they run", cost.running_ns, "ns"))
    if cost.copies.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, cost.copies.bytes, "bytes"))
    found.append(Evidence("copies to and from them per step", cost.copies.count, "count"))
    if shared:
        found.append(Evidence("these devices", SAME_CORES, ""))
    found.extend(
        Evidence(f"{g.name} operations", g.count, "count", example(wrong, g.name, ran_as))
        for g in types[:4]
    )
    return tuple(found)


def _fix(wrong: list[Node], *advice: str) -> Fix:
    asked = written(next((n.outer for n in wrong if n.outer), "GPU:0"))
    keeps = written(next((n.requested or n.actual for n in wrong), "CPU:0"))
    line = next((n.line for n in wrong if n.line), "")
    where = f" at {line}" if line else ""
    fix = RULE.fix(where=where, advice="".join(f" {sentence}" for sentence in advice if sentence))
    return replace(fix, code=fix.code.replace("/cpu:0", keeps).replace("/gpu:0", asked))


def _by_timeline(facts: Facts) -> Finding:
    """Without a placement record: heavy operations on the CPU beside an accelerator."""
    unknown = RULE.lacks("placement")
    if not facts.has_accelerator:
        return unknown
    rows = _heavy_on_cpu(facts)
    time = time_of(facts, rows)
    for activity in facts.leading:
        time = time - activity.busy
    cost = on_scale(facts, mean_within(facts, time))
    if not cost or cost < SHARE * facts.wall_ns:
        return unknown
    evidence = (
        Evidence("heavy operations on the CPU beside an idle accelerator", len(rows), "count"),
        Evidence("requested device", ("not recorded: the program may have requested the CPU"), ""),
        *times(facts, "time on the CPU", by_name(facts, rows)[:4]),
    )
    gain = saving("move misplaced operations to the accelerator", 0, cost)
    return RULE.finding(cost, evidence, _fix([]), gain, Edit("ops", "moved", device="GPU:0"))


def _heavy_on_cpu(facts: Facts) -> AnyRows:
    """Heavy operations that a CPU's executor ran in the steady steps; (slices,)."""
    trace, names = facts.trace, facts.trace.slices.name
    heavy = np.zeros(len(trace.strings) + 1, dtype=bool)
    names_used = strings_of(facts, names, Kind.KERNEL)
    heavy[[name for name in names_used if _HEAVY.fullmatch(trace.string(name))]] = True
    rows = facts.in_steady(rows_of(trace, (Kind.KERNEL,), of_role(trace, Role.EXECUTOR)))
    found: AnyRows = rows[heavy[names[rows]]]
    return found
