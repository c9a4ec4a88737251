"""Operations run on a different device than the enclosing scope requested.

## What it means
The program requested a worker or an accelerator, but an inner device scope, meant for variables,
also contains operations. They run where the variables are.

## Why it costs
The requested devices are idle meanwhile, all towers compete for one device, and every input and
result of the operations is copied.

## How it is measured
A node is misplaced when its actual device contradicts the request of an enclosing device scope, and
the node computes: variables, their reads, initialisers, assignments and the optimizer's update
belong where the variables are. The diagnosis counts the nodes, the copies to and from them with
their bytes, and the time in which they run while the requested devices compute nothing. Without a
record of the placement, it counts heavy operations on the CPU of a run that has an accelerator,
which is weaker evidence.

## Fix
Close the inner scope before the operations, or place only variables with a device function.

## Fix risk
None for the result.

## When it abstains
Without a record of the placement and without an accelerator. `incomplete` when device scopes were
not recorded, because then the requested devices are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnoses.shared.placement import COPIED_FOR_OPS, by_op, listed
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import scopes_among, strings_of
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.placement import conflicts, copies_around, is_heavy, misplaced, placed_nodes
from stepwhy.passes.selection import of_role, rows_of
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from stepwhy.diagnoses.shared.measure import Group
    from stepwhy.diagnoses.shared.slices import Rows
    from stepwhy.findings import Finding, Saving
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import CopyTotals, Node

RULE = Rule(
    id="misplaced-op",
    family="placement",
    name="Operations on the wrong device",
    found="Move the operations to the requested device",
    clear="Operations run on the requested devices",
)

SHARE = 0.05  # of the step; heavy work on the CPU beside an accelerator, without placement record
LEAST_SAVED = 0.3  # of the cost; the work has to be done on the other devices, which may be slower


def diagnose(facts: Facts) -> Finding:
    """Judge every placed node against the scopes around it."""
    if "placement" not in facts.trace.meta.signals:
        return _by_timeline(facts)
    nodes = placed_nodes(facts)
    wrong = misplaced(nodes)
    if any(node.is_heavy for node in wrong):
        return _found(facts, wrong)
    if len({node.actual for node in nodes if node.actual}) == 1:
        return RULE.not_applicable("All operations run on the only device.")
    if not any(node.line or node.source or node.requested for node in nodes):
        return RULE.incomplete("requested-devices", "The requested devices are not recorded.")
    ran = sum(bool(node.actual) for node in nodes)
    return RULE.nothing((Evidence("placed operations", ran, "count"),))


def _found(facts: Facts, wrong: list[Node]) -> Finding:
    copied = copies_around(facts, wrong)
    rows = scopes_among(facts, frozenset(n.name for n in wrong), Kind.KERNEL)
    cost = _cost_ns(facts, _alone_ns(facts, rows, wrong), copied)
    gain = _saving(facts, cost, rows, copied) if cost else None
    device = next((node.outer for node in wrong if node.outer), "")
    edit = Edit("ops", "moved", device=device) if device else None
    return RULE.finding(cost, _evidence(facts, wrong, copied, rows), _fix(wrong), gain, edit)


def _alone_ns(facts: Facts, rows: Rows, wrong: list[Node]) -> int | None:
    """Time in which the nodes run while the requested devices compute nothing, ns per step."""
    if not len(rows):
        return None
    time = time_of(facts, rows)
    for activity in facts.activities:
        if any(n.outer and not conflicts(n.outer, activity.name) for n in wrong):
            time = time - activity.compute
    return on_scale(facts, mean_within(facts, time), "compute")


def _cost_ns(facts: Facts, alone: int | None, copied: CopyTotals) -> int | None:
    """Time on the wrong device plus exposed time of the copies; None if neither is known."""
    if alone is None and copied.dur_ns is None:
        return None
    exposed = facts.breakdown["transfer"] + facts.breakdown["communication"]
    return min((alone or 0) + min(copied.dur_ns or 0, exposed), facts.wall_ns)


def _saving(facts: Facts, cost: int, rows: Rows, copied: CopyTotals) -> Saving:
    """Up to the full time of the nodes: towers that no longer share one device overlap better."""
    together = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    most = max(cost, _cost_ns(facts, together, copied) or 0)
    edit = "move misplaced operations to the device asked for"
    return saving(edit, LEAST_SAVED * cost, most)


def _evidence(
    facts: Facts, wrong: list[Node], copied: CopyTotals, rows: Rows
) -> tuple[Evidence, ...]:
    types = _heaviest_first(wrong)
    order = {group.name: place for place, group in enumerate(types)}
    named = listed(n.name for n in sorted(wrong, key=lambda n: order[n.op]))
    lines = listed(n.line for n in wrong)
    asked, ran = listed(n.outer for n in wrong), listed(n.actual for n in wrong)
    found = [
        Evidence("operations on a different device than requested", len(wrong), "count", named),
        Evidence("device requested by the enclosing scope", asked, ""),
        Evidence("device they ran on", ran, ""),
    ]
    if lines:
        found.append(Evidence("responsible device scope", lines, ""))
    if copied.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, copied.bytes, "bytes"))
    found.append(Evidence("copies to and from them per step", copied.count, "count"))
    if len(rows):
        running = facts.mean_ns(time_of(facts, rows).total_ns)
        found.append(Evidence("time in which they run", running, "ns"))
    found.extend(
        Evidence(f"{group.name} operations", group.count, "count", _example(wrong, group.name))
        for group in types[:4]
    )
    return tuple(found)


def _heaviest_first(wrong: list[Node]) -> list[Group]:
    return sorted(by_op(wrong), key=lambda g: (not is_heavy(g.name), -g.count, g.name))


def _example(wrong: list[Node], op: str) -> str:
    node = next(n for n in wrong if n.op == op)
    return f"{node.name} ({node.source})" if node.source else node.name


def _fix(wrong: list[Node]) -> Fix:
    asked = next((n.outer for n in wrong if n.outer), "/gpu:0")
    keeps = next((n.requested or n.actual for n in wrong), "/cpu:0")
    line = next((n.line for n in wrong if n.line), "")
    where = f" at {line}" if line else ""
    return Fix(
        f"Close the inner device scope{where} right after the variables, so that the operations "
        "stay on the device of the tower; or place only the variables by a device function.",
        f'with tf.device("{keeps}"):\n'
        "    weights = tf.get_variable(...)      # only variables in here\n"
        "output = tf.matmul(inputs, weights)     # runs on the tower's device\n"
        "# or\n"
        "def place(op):\n"
        '    is_variable = op.type in ("VariableV2", "VarHandleOp")\n'
        f'    return "{keeps}" if is_variable else "{asked}"\n'
        "with tf.device(place):\n"
        "    ...",
        "none",
    )


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


def _heavy_on_cpu(facts: Facts) -> Rows:
    """Heavy operations that a CPU's executor ran in the steady steps; (slices,)."""
    trace, names = facts.trace, facts.trace.slices.name
    heavy = np.zeros(len(trace.strings) + 1, dtype=bool)
    names_used = strings_of(facts, names, Kind.KERNEL)
    heavy[[name for name in names_used if is_heavy(trace.string(name))]] = True
    rows = facts.in_steady(rows_of(trace, (Kind.KERNEL,), of_role(trace, Role.EXECUTOR)))
    found: Rows = rows[heavy[names[rows]]]
    return found
