"""The nodes that each node of a graph reads from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.columns.groups import distinct_rows
from stepwhy.trace import NULL, FlowKind

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts


def reads_of(facts: Facts) -> dict[str, list[str]]:
    """Nodes that each node read from, in the order of its inputs; empty if not recorded.

    Args:
        facts: Facts of the run.
    """
    trace, flows = facts.trace, facts.trace.flows
    is_data = flows.kind == FlowKind.DATA
    sources, targets = (trace.slices.scope[r[is_data]] for r in (flows.source, flows.target))
    reads: dict[str, dict[str, None]] = {}
    for source, target in distinct_rows(sources, targets)[0]:  # every step repeats them
        if NULL not in {source, target}:
            reads.setdefault(trace.string(target), {})[trace.string(source)] = None
    return {node: list(inputs) for node, inputs in reads.items()}
