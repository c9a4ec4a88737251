"""A tower of the graph never runs, because no fetched result needs it.

## What it means
The program builds several towers, one per device, but `Session.run` fetches the result of only some
of them. TensorFlow prunes what no fetched result needs, so the other towers do not run.

## Why it costs
The measured program is not the one that was built: fewer towers do all the work, or part of the
batch is never computed. Times and examples per second cannot be compared.

## How it is measured
A tower counts if it contains operations that do the work of the model, none of its operations ran,
and those of another tower did. No cost is given: fetching the tower makes the step longer, not
shorter, but then it does the work that it was built for. Where the runs of a session were recorded,
the evidence divides the time of one run, so that the wall clock and the timeline can be compared.

## Fix
Fetch a result that needs all towers, and leave the first runs out of the mean.

## Fix risk
None.

## When it abstains
Without a record of the placement, or if no tower ran. It does not apply to a graph without towers.
"""

from __future__ import annotations

from collections import defaultdict

from stepwhy.analyse.program.placement import Node, placed_nodes
from stepwhy.analyse.program.session_parts import find_session_parts
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.session_evidence import session_evidence

RULE = Rule(
    __name__,
    name="Towers that never run",
    found="Fetch every tower: part of the graph never runs",
    clear="Every tower of the graph runs",
    needs=(("placement",),),
)


def diagnose(facts: Facts) -> Finding:
    """Judge whether all towers of the graph run."""
    nodes = placed_nodes(facts)
    towers = {node.tower for node in nodes if node.tower}
    if not towers:
        return RULE.not_applicable("The graph has no towers (scopes such as 'tower_0').")
    if not any(node.actual for node in nodes if node.tower):
        return RULE.no_data("towers", "None of the towers ran in this trace.")
    idle = _idle_towers(nodes)
    if not idle:
        return RULE.nothing((Evidence("towers that run", len(towers), "count"),))
    parts = find_session_parts(facts)
    around = () if parts is None else session_evidence(facts, parts)
    return RULE.finding(None, (*_unused(idle), *around), RULE.fix())


def _idle_towers(nodes: list[Node]) -> dict[str, int]:
    """Number of operations of each tower that never ran while another tower did."""
    built: dict[str, set[str]] = defaultdict(set)
    working: set[str] = set()
    ran: set[str] = set()
    for node in nodes:
        if node.tower:
            built[node.tower].add(node.name)
            working.update({node.tower} if node.is_model_work else ())
            ran.update({node.tower} if node.actual else ())
    return {
        t: len(names) for t, names in sorted(built.items()) if t in working - ran and ran & working
    }


def _unused(idle: dict[str, int]) -> list[Evidence]:
    return [
        Evidence(f"{tower}: built, but none of it ran", count, "count", "operations")
        for tower, count in idle.items()
    ]
