"""Replay a graph: when everything begins after durations, delays or edges have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.longest import Paths, longest_paths
from stepwhy.predict.edges import NEVER_NS, Cause
from stepwhy.predict.points import Point
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Times
    from stepwhy.predict.graph import Graph


class Schedule(msgspec.Struct, frozen=True):
    """What a replay may change: all as recorded at first.

    Args:
        duration_ns: Duration of each node; (nodes,).
        delay_ns: Delay of each node; (nodes,).
        lag_ns: Lag of each edge, `NEVER_NS` for those that do not count; (edges,).
    """

    duration_ns: Times
    delay_ns: Times
    lag_ns: Times


class Replayed(msgspec.Struct, frozen=True):
    """Start and end of each step of a replay, ns; (steps,)."""

    begin_ns: Times
    end_ns: Times

    def mean_ns(self, steady: slice) -> float:
        """Mean duration of the steady steps."""
        return float((self.end_ns - self.begin_ns)[steady].mean())


def recorded(graph: Graph) -> Schedule:
    """Everything as it was recorded; delays move with what they follow.

    Durations and delays are those of the graph, lags a copy.
    """
    is_place = graph.edges.cause == Cause.PLACE
    lag_ns = np.where(is_place, NEVER_NS, graph.edges.lag_ns)
    return Schedule(graph.nodes.duration_ns, graph.delay_ns, lag_ns)


def delays_in_place(graph: Graph, schedule: Schedule) -> Schedule:
    """The schedule in which delays without a known cause stay where they were in their step."""
    is_place = graph.edges.cause == Cause.PLACE
    delay_ns = schedule.delay_ns.copy()
    delay_ns[graph.edges.target[is_place]] = 0
    lag_ns = np.where(is_place, graph.edges.lag_ns, schedule.lag_ns)
    return replace(schedule, delay_ns=delay_ns, lag_ns=lag_ns)


def usual_delays(graph: Graph) -> Schedule:
    """The recorded schedule, with each delay replaced by the median of its kind."""
    order = np.lexsort((graph.delay_ns, graph.group))
    groups = graph.group[order]
    begin = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    count = np.diff(begin, append=len(groups))
    medians = graph.delay_ns[order][begin + count // 2]
    return replace(recorded(graph), delay_ns=medians[graph.group])


def run(graph: Graph, schedule: Schedule) -> Paths:
    """Start of every node, ns, and the edge that decided it."""
    earliest = np.full(len(graph.nodes), NEVER_NS, dtype=np.int64)
    free = graph.binding == NULL
    earliest[free] = graph.nodes.start_ns[free] - graph.delay_ns[free]
    return longest_paths(
        graph.net,
        from_end=graph.edges.from_end,
        lag=schedule.lag_ns,
        duration=schedule.duration_ns,
        delay=schedule.delay_ns,
        earliest=earliest,
    )


def steps_of(graph: Graph, starts_ns: Times, duration_ns: Times) -> Replayed:
    """The steps of a replay: each lasts from the end of the one before, or from its own begin.

    A step ends with its device work, or on the host if that is later.

    Args:
        graph: The graph.
        starts_ns: Start of each node; (nodes,).
        duration_ns: Duration of each node; (nodes,).
    """
    points = graph.nodes.points
    host_begin, host_end = (starts_ns[points.of(k)] for k in (Point.STEP_BEGIN, Point.STEP_END))
    work_end = np.full(len(host_begin), NEVER_NS, dtype=np.int64)
    device = slice(graph.nodes.first, None)
    ends = starts_ns[device] + duration_ns[device]
    inside = graph.step != NULL
    np.maximum.at(work_end, graph.step[inside], ends[inside])
    end = np.maximum.accumulate(np.maximum(work_end, host_end))
    first = max(int(host_begin[0]), int(ends[_backlog(graph)].max(initial=NEVER_NS)))
    begin = np.maximum(host_begin, np.append(first, end[:-1]))
    return Replayed(np.minimum(begin, end), end)


def _backlog(graph: Graph) -> NDArray[np.bool_]:
    """Mask of the work that the device still had to do when the first step began; (device slices,).

    Where the steps are those of the host, it is a part of the first step.
    """
    starts_ns, of_step = graph.nodes.start_ns[graph.nodes.first :], graph.step != NULL
    if not graph.steps.device_side or not of_step.any():
        return np.zeros(len(starts_ns), dtype=np.bool_)
    before: NDArray[np.bool_] = starts_ns < starts_ns[of_step].min()
    return before


def recorded_steps(graph: Graph) -> Replayed:
    """The steps as they were recorded."""
    return steps_of(graph, graph.nodes.start_ns, graph.nodes.duration_ns)


def replayed(graph: Graph, schedule: Schedule) -> Replayed:
    """The steps of a schedule."""
    return steps_of(graph, run(graph, schedule).start, schedule.duration_ns)
