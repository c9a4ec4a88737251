"""A tower of the graph never runs, because no fetched result needs it.

## What it means
The program builds several towers, one per device, but `Session.run` fetches the result of only some
of them. TensorFlow prunes what no fetched result needs, so the other towers do not run.

## Why it costs
The measurement is of another program than the one that was built: fewer towers do all the work, or
part of the batch is never computed. Times and examples per second cannot be compared.

## How it is measured
A tower counts when operations that compute were placed in it, none of its operations ran, and
operations of another tower did. The cost is the time in `Session.run` in which no operation runs:
the wall clock includes it, the timeline of the towers does not.

## Fix
Fetch a result that needs all towers, and leave the first runs out of the mean.

## Fix risk
None.

## When it abstains
Without the runs of a session from start to end. It does not apply to a graph without towers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.feeds import parts_or_reason
from stepwhy.diagnoses.shared.placement import placed_nodes
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.session_evidence import session_evidence
from stepwhy.findings import Evidence, Finding, Fix

if TYPE_CHECKING:
    from stepwhy.diagnoses.shared.placement import Node
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="unfetched-tower",
    family="measurement",
    name="Towers that never run",
    found="Fetch every tower: part of the graph never runs",
    clear="Every tower of the graph runs",
    needs=(("device-time",), ("steps",)),
)


def diagnose(facts: Facts) -> Finding:
    """Judge whether all towers of the graph run."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    nodes = placed_nodes(facts)
    towers = {node.tower for node in nodes if node.tower}
    if not towers:
        return RULE.not_applicable("The graph has no towers.")
    idle = _idle_towers(nodes)
    if not idle:
        return RULE.nothing((Evidence("towers that run", len(towers), "count"),))
    gain = saving("feed and fetch less", 0, parts.gap_ns)
    evidence = (*_unused(idle), *session_evidence(facts, parts))
    return RULE.finding(parts.gap_ns, evidence, _FIX, gain)


def _idle_towers(nodes: list[Node]) -> dict[str, int]:
    """Operations of each tower of which none ran, where another one's did."""
    built: dict[str, set[str]] = defaultdict(set)
    heavy: set[str] = set()
    ran: set[str] = set()
    for node in nodes:
        if node.tower:
            built[node.tower].add(node.name)
            heavy.update({node.tower} if node.is_heavy else ())
            ran.update({node.tower} if node.actual else ())
    return {t: len(names) for t, names in sorted(built.items()) if t in heavy - ran and ran & heavy}


def _unused(idle: dict[str, int]) -> list[Evidence]:
    return [
        Evidence(f"{tower}: built, but none of it ran", count, "count", "operations")
        for tower, count in idle.items()
    ]


_FIX = Fix(
    "Fetch what needs all towers: what no fetched result needs is pruned and does not run. Leave "
    "the first runs out of the mean, and give each tower its share of the batch.",
    "parts = enumerate(tf.split(batch, towers))\n"
    "logits = [tower(i, images) for i, images in parts]\n"
    "for _ in range(10):\n"
    "    session.run(logits)  # not timed\n"
    "session.run(logits)",
    "none",
)
