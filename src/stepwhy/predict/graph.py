"""The graph of a trace's dependencies: what had to happen before each piece of work began.

Nodes are points on the host and slices of device work; `edges` says what each of them waited for.
What remains between the latest of that and the recorded start is the node's own delay: the latency
of a launch, or something that was not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.groups import group_rows
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.longest import Network, network
from stepwhy.predict.edges import (
    NEVER_NS,
    Cause,
    Edges,
    Evidence,
    Nodes,
    edges,
    joined,
    latest_ns,
    of_copies,
    of_events,
    of_host,
    of_launches,
    of_queues,
    of_recorded_waits,
    of_streams,
    of_waits,
)
from stepwhy.predict.points import Point, find_points
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.base.columns.types import Rows, Times


OPAQUE_NS = 50_000
"""A delay above this is more than the latency of a launch or a wait: its cause is unknown, ns."""


MOST_WORK = 1 << 17
"""Device slices of a replay: of longer traces the first steps are replayed.

More steps take time and memory, and do not change the prediction by as much as its error.
"""

# Share of the step from which on a delay without a known cause may have kept its work in its place.
_PLACED = 0.01


class Graph(msgspec.Struct, frozen=True):
    """The dependencies of the recorded steps.

    Args:
        nodes: The nodes.
        edges: The edges, in the order of `net`; those of `Cause.PLACE` do not count by default.
        net: Order of nodes and edges.
        delay_ns: Recorded start of each node after all that it waited for; (nodes,).
        binding: The edge that decided when each node began, -1 for none; (nodes,).
        group: Nodes with equal numbers have delays of the same kind; (nodes,).
        step: Step that launched each device slice, NULL outside of all; (device slices,).
        steps: The steps that are replayed: all, or the first of a long trace.
    """

    nodes: Nodes
    edges: Edges
    net: Network
    delay_ns: Times
    binding: Rows
    group: NDArray[np.int32]
    step: NDArray[np.int32]
    steps: StepTable

    @property
    def steady(self) -> slice:
        """Which steps are steady."""
        return self.steps.steady

    def mean_ns(self, sums: float) -> float:
        """A sum over the steady steps as a mean per step."""
        return sums / max(len(self.steps.starts[self.steady]), 1)


def build_graph(facts: Facts) -> Graph:
    """The graph of a trace."""
    trace, steps = facts.trace, _replayed_steps(facts)
    nodes = _nodes(facts, steps)
    waits = joined([of_waits(trace, nodes), of_copies(trace, nodes), of_queues(trace, nodes)])
    waits = waits.possible(nodes)
    nodes = _drop_waits(nodes, waits)
    found = _edges(facts, steps, nodes, waits).by_target()
    net = network(len(nodes), found.source, found.target)
    latest, binding = _latest(nodes, found)
    # The step in which each device slice was launched, or began if its launch is unknown.
    since = trace.slices.start_ns[np.where(nodes.calls != NULL, nodes.calls, nodes.rows)]
    step = windows_at(since, steps.host_starts, steps.host_ends)
    # Number of the kind of delay of each node: by cause, kind of work, and stream.
    kinds = np.concatenate([-1 - nodes.points.kind.astype(np.int64), trace.slices.kind[nodes.rows]])
    streams = np.concatenate([np.full(nodes.first, NULL), nodes.stream])
    causes = np.where(binding >= 0, found.cause[binding], NULL)
    group = group_rows(kinds, streams, causes)[1]
    return Graph(
        nodes=nodes,
        edges=found,
        net=net,
        delay_ns=nodes.start_ns - latest,
        binding=binding,
        group=group,
        step=step,
        steps=steps,
    )


def _replayed_steps(facts: Facts) -> StepTable:
    """The first steps, with about as much device work as a replay may have."""
    steps, work = facts.steps, len(facts.launches.device_rows)
    if work <= MOST_WORK:
        return steps
    return steps.first(steps.warm_up + max(MOST_WORK * len(steps.starts) // work, 1))


def _edges(facts: Facts, steps: StepTable, nodes: Nodes, waits: Edges) -> Edges:
    """All edges: the given ones, those that were recorded, and what explains the delays left."""
    trace = facts.trace
    others = (
        of_host(nodes),
        of_launches(trace, nodes),
        of_streams(nodes),
        of_recorded_waits(trace, nodes),
    )
    parts = [waits, *(some.possible(nodes) for some in others)]
    parts.append(of_events(nodes, latest_ns(nodes, parts)).possible(nodes))
    delay_ns = nodes.start_ns - latest_ns(nodes, parts)
    late = np.flatnonzero(delay_ns > max(OPAQUE_NS, _PLACED * facts.wall_ns))
    return joined([*parts, _places(steps, nodes, late)])


def _nodes(facts: Facts, steps: StepTable) -> Nodes:
    slices = facts.trace.slices
    rows, calls = facts.launches.device_rows, facts.launches.call_row
    until_ns = int(np.iinfo(np.int64).max)
    if len(steps.starts) < len(facts.steps.starts):
        until_ns = int(steps.host_ends[-1])
        began = slices.start_ns[np.where(calls != NULL, calls, rows)] < until_ns
        rows, calls = rows[began], calls[began]
    points = find_points(facts, steps, until_ns)
    until_next = np.diff(points.time_ns, append=points.time_ns[-1:])
    return Nodes(
        points,
        rows.astype(np.int64),
        calls.astype(np.int64),
        slices.track[rows],
        np.concatenate([points.time_ns, slices.start_ns[rows]]),
        np.concatenate([until_next, slices.dur_ns[rows]]).astype(np.int64),
    )


def _drop_waits(nodes: Nodes, waits: Edges) -> Nodes:
    """Nodes in whose waits for the device, or for room in its queue, the host does nothing."""
    duration_ns, kind = nodes.duration_ns.copy(), nodes.points.kind
    before = waits.target - 1
    duration_ns[before[kind[before] == Point.WAIT_BEGIN]] = 0
    held = before[(kind[before] == Point.LAUNCH) & (kind[before + 1] == Point.LAUNCH_END)]
    if len(held):
        usual = int(np.median(duration_ns[nodes.points.of(Point.LAUNCH)]))
        duration_ns[held] = np.minimum(duration_ns[held], usual)
    return Nodes(nodes.points, nodes.rows, nodes.calls, nodes.stream, nodes.start_ns, duration_ns)


def _places(steps: StepTable, nodes: Nodes, late: Rows) -> Edges:
    """Edges from the begin of the step that keep some nodes where they were in it."""
    step = windows_at(nodes.start_ns[late], steps.host_starts, steps.host_ends)
    late, step = late[step != NULL], step[step != NULL]
    begin = nodes.points.of(Point.STEP_BEGIN)[step]
    lag_ns = nodes.start_ns[late] - nodes.start_ns[begin]
    found = edges(begin, late, Cause.PLACE, Evidence.ASSUMED, from_end=False, lag_ns=lag_ns)
    return found.possible(nodes)


def _latest(nodes: Nodes, some: Edges) -> tuple[Times, Rows]:
    """The latest that the edges of each node reach, and the edge; (nodes,) each.

    A node without an edge that counts begins at its own time, and has no such edge: `NULL`.
    """
    reached_ns = np.where(some.cause == Cause.PLACE, NEVER_NS, some.reached_ns(nodes))
    latest = np.full(len(nodes), NEVER_NS, dtype=np.int64)
    np.maximum.at(latest, some.target, reached_ns)
    binding = np.full(len(nodes), NULL, dtype=np.int64)
    decides = np.flatnonzero((reached_ns == latest[some.target]) & (reached_ns > NEVER_NS))
    binding[some.target[decides][::-1]] = decides[::-1]
    return np.where(latest > NEVER_NS, latest, nodes.start_ns), binding
