"""Edges of the graph: why a node cannot begin earlier than it did."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.groups import by_code, looked_up
from stepwhy.predict.points import Point, Points
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Mask, Rows, Times
    from stepwhy.trace import Trace


# Work that starts this soon after the end of other work may have waited for it, ns.
COINCIDENCE_NS = 10_000
# With this many launches in the queue, one that takes long waits for room. The queue of CUDA holds
# 1,024, but room is made for several at a time, so that the end of the wait coincides with nothing.
_FULL_QUEUE = 500
# Clocks are rounded: a cause may seem to end this much after its effect begins, ns.
_ROUNDING_NS = 2_000
NEVER_NS = -(2**61)
"""Lag of an edge that does not count."""


class Cause(IntEnum):
    """Why the target of an edge cannot begin earlier."""

    HOST = 0  # the host does one thing after the other
    LAUNCH = 1  # device work is launched before it runs
    STREAM = 2  # a stream runs its work in order
    WAIT = 3  # a call returns when device work has ended
    QUEUE = 4  # a launch returns when the queue has room, because earlier work has begun
    EVENT = 5  # a stream waits for another one
    PLACE = 6  # something unrecorded lets it begin where it was in its step


_IN_ORDER = (Cause.HOST, Cause.LAUNCH, Cause.STREAM)


class Evidence(IntEnum):
    """How it is known that an edge exists."""

    RECORDED = 0
    INFERRED = 1  # from times that coincide
    ASSUMED = 2


class Nodes(msgspec.Struct, frozen=True):
    """The nodes of a graph: the points on the host, then the slices of device work.

    Args:
        points: The points.
        rows: Slices of device work, ascending; (device slices,).
        calls: The call that launched each of them, NULL if unknown; (device slices,).
        stream: Track of each of them; (device slices,).
        start_ns: Recorded start of each node; (nodes,).
        duration_ns: Duration; of a point, the host work until the next point; (nodes,).
    """

    points: Points
    rows: Rows
    calls: Rows
    stream: NDArray[np.int32]
    start_ns: Times
    duration_ns: Times

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.start_ns)

    @property
    def first(self) -> int:
        """Number of the first node that is device work."""
        return len(self.points)

    @property
    def end_ns(self) -> Times:
        """Recorded end of each node, ns; (nodes,)."""
        ends: Times = self.start_ns + self.duration_ns
        return ends


class Edges(msgspec.Struct, frozen=True):
    """Edges as columns, (edges,) each.

    Args:
        source, target: Nodes.
        from_end: True if the target waits for the end of the source, False if for its start.
        lag_ns: Least time in between; negative if the target may begin earlier.
        cause: `Cause`.
        evidence: `Evidence`.
    """

    source: Rows
    target: Rows
    from_end: Mask
    lag_ns: Times
    cause: NDArray[np.int8]
    evidence: NDArray[np.int8]

    def only(self, chosen: Mask | Rows) -> Edges:
        """Some of the edges, by mask or position."""
        return Edges(
            self.source[chosen],
            self.target[chosen],
            self.from_end[chosen],
            self.lag_ns[chosen],
            self.cause[chosen],
            self.evidence[chosen],
        )

    def reached_ns(self, nodes: Nodes) -> Times:
        """When each edge let its target begin, at the recorded times, ns; (edges,)."""
        reached: Times = (
            nodes.start_ns[self.source]
            + self.from_end * nodes.duration_ns[self.source]
            + self.lag_ns
        )
        return reached

    def by_target(self) -> Edges:
        """The edges sorted by target; those of one target keep their order."""
        return self.only(np.argsort(self.target, kind="stable"))

    def possible(self, nodes: Nodes) -> Edges:
        """The edges that the recorded times do not contradict.

        None of them leads back in time; of two nodes at one time, to the later one on its thread or
        stream, or from the host to the device. So they make no circle.
        """
        since, start = nodes.start_ns[self.source], nodes.start_ns[self.target]
        is_forward = (since < start) | ((since == start) & np.isin(self.cause, _IN_ORDER))
        is_possible = is_forward & (self.reached_ns(nodes) <= start + _ROUNDING_NS)
        return self if is_possible.all() else self.only(is_possible)


def edges(
    source: Rows,
    target: Rows,
    cause: Cause,
    evidence: Evidence = Evidence.RECORDED,
    *,
    from_end: bool | Mask = True,
    lag_ns: int | Times = 0,
) -> Edges:
    """Edges of one cause."""
    count = len(source)
    return Edges(
        source.astype(np.int64),
        target.astype(np.int64),
        np.broadcast_to(from_end, count).astype(np.bool_),
        np.broadcast_to(lag_ns, count).astype(np.int64),
        np.full(count, cause, dtype=np.int8),
        np.full(count, evidence, dtype=np.int8),
    )


def joined(parts: Sequence[Edges]) -> Edges:
    """Several sets of edges as one."""
    columns = zip(
        *((e.source, e.target, e.from_end, e.lag_ns, e.cause, e.evidence) for e in parts),
        strict=True,
    )
    return Edges(*(np.concatenate(column) for column in columns))


def latest_ns(nodes: Nodes, parts: Sequence[Edges]) -> Times:
    """The latest begin that the edges of each node ask for, its own if it has none; (nodes,)."""
    latest = np.full(len(nodes), NEVER_NS, dtype=np.int64)
    for some in parts:
        np.maximum.at(latest, some.target, some.reached_ns(nodes))
    return np.where(latest > NEVER_NS, latest, nodes.start_ns)


def of_host(nodes: Nodes) -> Edges:
    """The driving threads take turns, so their points follow each other."""
    points = np.arange(nodes.first)
    return edges(points[:-1], points[1:], Cause.HOST)


def of_launches(trace: Trace, nodes: Nodes) -> Edges:
    """Device work begins after its launch begins.

    What another thread launches follows the last point of the driving threads before it.
    """
    known = np.flatnonzero(nodes.calls != NULL)
    launches = nodes.points.of(Point.LAUNCH)
    point = looked_up(nodes.points.row[launches], launches, nodes.calls[known], NULL)
    own = point != NULL
    others = known[~own]
    began = trace.slices.start_ns[nodes.calls[others]]
    before = np.searchsorted(nodes.points.time_ns, began, side="right") - 1
    others, before = others[before >= 0], before[before >= 0]
    return joined(
        [
            edges(point[own], nodes.first + known[own], Cause.LAUNCH, from_end=False),
            edges(before, nodes.first + others, Cause.LAUNCH, Evidence.ASSUMED, from_end=False),
        ]
    )


def of_streams(nodes: Nodes) -> Edges:
    """A stream runs its slices in order.

    Slices that overlap a little (programmatic launches) keep their overlap; what overlaps by more
    runs at the same time, and only begins in order.
    """
    order, _ = by_code(nodes.stream)
    follows = nodes.stream[order[1:]] == nodes.stream[order[:-1]]
    one, other = (nodes.first + rows[follows] for rows in (order[:-1], order[1:]))
    overlap = nodes.end_ns[one] - nodes.start_ns[other]
    beside = overlap > nodes.duration_ns[one] // 2
    lag_ns = np.where(beside, nodes.start_ns[other] - nodes.start_ns[one], np.minimum(-overlap, 0))
    return edges(one, other, Cause.STREAM, from_end=~beside, lag_ns=lag_ns)


def of_waits(trace: Trace, nodes: Nodes) -> Edges:
    """A call that waits returns after its copy, or after the work that ends last before it does."""
    ends = nodes.points.of(Point.WAIT_END)
    if not len(nodes.rows):
        return of_host(nodes).only(np.zeros(max(nodes.first - 1, 0), dtype=bool))
    calls = nodes.points.row[ends]
    device_ends = nodes.end_ns[nodes.first :]
    by_end = np.argsort(device_ends, kind="stable")
    place = np.searchsorted(device_ends[by_end], nodes.points.time_ns[ends], side="right") - 1
    last = np.where(place >= 0, by_end[place], NULL)
    is_launch = trace.slices.kind[calls] == Kind.LAUNCH
    copy = np.where(is_launch, _device_work_of(nodes, calls), NULL)
    awaited = np.where(copy != NULL, copy, last)
    waited = (awaited != NULL) & (device_ends[awaited] > trace.slices.start_ns[calls])
    return edges(nodes.first + awaited[waited], ends[waited], Cause.WAIT, Evidence.INFERRED)


def _device_work_of(nodes: Nodes, calls: Rows) -> Rows:
    """Position of the last device slice that each call launched, NULL for none; (calls,)."""
    last_first = np.flatnonzero(nodes.calls != NULL)[::-1]
    return looked_up(nodes.calls[last_first], last_first, calls, NULL)


def of_copies(trace: Trace, nodes: Nodes) -> Edges:
    """A call that stages a copy of pageable memory returns while its copy runs, or after it."""
    ends = nodes.points.of(Point.LAUNCH_END)
    own = _device_work_of(nodes, nodes.points.row[ends])
    ends, own = ends[own != NULL], own[own != NULL]
    is_copy = trace.slices.kind[nodes.rows[own]] == Kind.MEMCPY
    lag_ns = nodes.points.time_ns[ends] - nodes.start_ns[nodes.first + own]
    within = is_copy & (lag_ns >= 0)
    return edges(
        nodes.first + own[within],
        ends[within],
        Cause.WAIT,
        Evidence.INFERRED,
        from_end=False,
        lag_ns=lag_ns[within],
    )


def of_queues(trace: Trace, nodes: Nodes) -> Edges:
    """A launch that a full queue held up returns when other work has begun."""
    ends, begins = nodes.points.of(Point.LAUNCH_END), nodes.start_ns[nodes.first :]
    time_ns = nodes.points.time_ns[ends]
    place = np.searchsorted(begins, time_ns, side="right") - 1
    near = place >= 0
    near[near] = time_ns[near] - begins[place[near]] <= COINCIDENCE_NS
    # Launches whose work has not begun, at each time.
    launched = np.sort(trace.slices.start_ns[nodes.calls[nodes.calls != NULL]])
    begun = np.sort(nodes.start_ns[nodes.first :][nodes.calls != NULL])
    queued = np.searchsorted(launched, time_ns) - np.searchsorted(begun, time_ns)
    near |= (place >= 0) & (queued >= _FULL_QUEUE)
    work = nodes.first + place[near]
    return edges(work, ends[near], Cause.QUEUE, Evidence.INFERRED, from_end=False)


def of_recorded_waits(trace: Trace, nodes: Nodes) -> Edges:
    """What a stream runs after a wait begins after what another one ran before its event."""
    waits, start_ns = trace.waits, trace.slices.start_ns
    known = (waits.waiting != NULL) & (waits.awaited != NULL)
    known &= (waits.event != NULL) & (waits.slice != NULL)
    rows = np.flatnonzero(known)
    launched = np.where(nodes.calls != NULL, start_ns[nodes.calls], start_ns[nodes.rows])
    before = _nearest_on_stream(
        nodes, launched, waits.awaited[rows], start_ns[waits.event[rows]], -1
    )
    after = _nearest_on_stream(nodes, launched, waits.waiting[rows], start_ns[waits.slice[rows]], 0)
    both = (before != NULL) & (after != NULL)
    return edges(nodes.first + before[both], nodes.first + after[both], Cause.EVENT)


def _nearest_on_stream(
    nodes: Nodes, launched: Times, streams: NDArray[np.int32], times_ns: Times, offset: int
) -> Rows:
    """The slice on each stream that was launched first after a time (offset 0), or last before it.

    Positions among the device slices; NULL for none; (streams,).
    """
    found = np.full(len(streams), NULL, dtype=np.int64)
    for stream in np.flatnonzero(np.bincount(streams)) if len(streams) else []:
        mine, asked = np.flatnonzero(nodes.stream == stream), np.flatnonzero(streams == stream)
        mine = mine[np.argsort(launched[mine], kind="stable")]
        place = np.searchsorted(launched[mine], times_ns[asked]) + offset
        inside = (place >= 0) & (place < len(mine))
        found[asked[inside]] = mine[place[inside]]
    return found


def of_events(nodes: Nodes, latest: Times) -> Edges:
    """A stream begins where another one's work ends, and nothing else explains why so late.

    For traces that do not record which stream waits for which.

    Args:
        nodes: The nodes.
        latest: `latest_ns` of all other edges.
    """
    late = np.flatnonzero((nodes.start_ns - latest)[nodes.first :] > COINCIDENCE_NS)
    order, first = by_code(nodes.stream)
    found = [edges(late[:0], late[:0], Cause.EVENT)]
    for mine in np.split(order, first[1:]):
        waiting = late[nodes.stream[late] != nodes.stream[mine[0]]] if len(mine) else late[:0]
        ends = nodes.end_ns[nodes.first + mine]
        by_end = np.argsort(ends, kind="stable")
        begins = nodes.start_ns[nodes.first + waiting]
        place = np.searchsorted(ends[by_end], begins, side="right") - 1
        end_ns = ends[by_end][place]
        near = (place >= 0) & (begins - end_ns <= COINCIDENCE_NS)
        near &= end_ns > latest[nodes.first + waiting]
        source, target = mine[by_end][place[near]], waiting[near]
        found.append(
            edges(nodes.first + source, nodes.first + target, Cause.EVENT, Evidence.INFERRED)
        )
    return joined(found)
