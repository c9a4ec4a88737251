"""Layers that run again inside the backward pass, as activation checkpointing makes them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.diagnose.not_needed.shared.backward_time import cost_per_step_ns, launched_within
from stepwhy.diagnose.shared.backward_nodes import NodeCalls, callers, is_operation, node_calls
from stepwhy.diagnose.shared.measure import steady
from stepwhy.trace import Phase

# Of the operations of a node: checkpointing adds few to those of the forward pass. The code of a
# custom function, or of a hook, has other operations one after the other.
_SAME = 0.8
# Operations that checkpointing adds, and leaves out: it detaches its inputs and what it keeps.
_ADDED = ("aten::detach", "detach", "aten::clone")


class RepeatedLayers(msgspec.Struct, frozen=True):
    """Operations of the forward pass that run again inside nodes of the backward pass.

    Args:
        rows: The operations, of all steps; (operations,).
        nodes: The node inside which each runs; (operations,).
        time: When the host runs them, with the Python code between them.
        work: Device slices of the steady steps that they launched; (slices,).
    """

    rows: AnyRows
    nodes: AnyRows
    time: Intervals
    work: AnyRows

    def cost_ns(self, facts: Facts) -> int:
        """Time of the mean step that they take, ns."""
        host = self.time & steady(facts)
        return cost_per_step_ns(facts, host, self.work, facts.steady_count)


def repeated_layers(facts: Facts) -> RepeatedLayers | None:
    """The layers that run again; None if there are none."""
    calls = node_calls(facts)
    if calls is None:
        return None
    chosen = calls.is_numbered & ~calls.builds_graph
    chosen[chosen] = _repeats_forward(facts, calls.rows[chosen], calls.nodes[chosen])
    if not chosen.any():
        return None
    time = _time(facts, calls, chosen)
    work = facts.in_steady(launched_within(facts, time))
    return RepeatedLayers(calls.rows[chosen], calls.nodes[chosen], time, work)


def _repeats_forward(facts: Facts, rows: AnyRows, nodes: AnyRows) -> Mask:
    """Whether operations follow each other in their node as some of the forward pass do; (rows,).

    Args:
        facts: Facts of the run.
        rows: Operations, by node and then in order of time; (rows,).
        nodes: Their nodes; (rows,).
    """
    kept = ~np.isin(facts.trace.slices.name[rows], facts.trace.strings_where(_ADDED))
    is_same = np.zeros(len(rows), dtype=bool)
    is_same[kept] = _is_known(facts, rows[kept], nodes[kept])
    keys, place = numbered(nodes)
    same, all_ = (np.bincount(place[m], minlength=len(keys)) for m in (is_same, kept))
    found: Mask = ((same >= _SAME * all_) & (same > 0))[place]
    return found


def _is_known(facts: Facts, rows: AnyRows, nodes: AnyRows) -> Mask:
    """Whether an operation and a neighbour of it in its node are neighbours in the forward pass.

    The only operation of a node has to occur in the forward pass; (rows,).
    """
    known, names = _of_forward(facts)
    own = facts.trace.slices.name[rows]
    joined = nodes[1:] == nodes[:-1]
    is_pair = joined & np.isin(_pairs(facts, own), known)
    neighbours, pairs = (
        np.append(False, mask) | np.append(mask, False) for mask in (joined, is_pair)
    )
    found: Mask = np.where(neighbours, pairs, np.isin(own, names))
    return found


def _of_forward(facts: Facts) -> tuple[Ints, AnyRows]:
    """Pairs of operations that follow each other in the forward pass, and all names of them."""
    slices = facts.trace.slices
    rows = np.flatnonzero(is_operation(facts) & (facts.phases == Phase.FORWARD))
    rows = rows[~np.isin(slices.name[rows], facts.trace.strings_where(_ADDED))]
    around, names = callers(facts)[rows], slices.name[rows]
    order = np.lexsort((rows, slices.track[rows], around))
    around, names, track = around[order], names[order], slices.track[rows][order]
    joined = (around[1:] == around[:-1]) & (track[1:] == track[:-1])
    return np.unique(_pairs(facts, names)[joined]), np.unique(names)


def _pairs(facts: Facts, names: NDArray[Any]) -> Ints:
    """A number for each pair of neighbouring names; (names - 1,)."""
    found: Ints = names[:-1].astype(np.int64) * len(facts.trace.strings) + names[1:]
    return found


def _time(facts: Facts, calls: NodeCalls, chosen: Mask) -> Intervals:
    """When a node runs some operations: up to its next one, and from its start for the first."""
    slices, same = facts.trace.slices, calls.nodes[1:] == calls.nodes[:-1]
    starts, ends = slices.start_ns[calls.rows], facts.trace.ends(calls.rows)
    follows, is_first = np.append(same, False), ~np.append(False, same)
    until = np.where(follows, np.append(starts[1:], 0), ends)
    since = np.where(is_first, slices.start_ns[calls.nodes], starts)
    return Intervals.of(since[chosen], np.maximum(until, ends)[chosen])
