"""Points on the host at which the device's time can depend on the host's, or the reverse.

Of a host thread only these points become nodes of the graph: launches, both ends of waits, the ends
of launches that a full queue held up, and the borders of steps. The time between two points is
host work.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.selection import of_threads, rows_of
from stepwhy.base.columns.groups import distinct
from stepwhy.trace import NULL, Kind, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.base.columns.types import Rows, Times


class Point(IntEnum):
    """What a point is; of several at one time, the order in which they happen."""

    WAIT_END = 0
    LAUNCH_END = 1  # of a launch that a full queue held up
    STEP_END = 2
    STEP_BEGIN = 3
    LAUNCH = 4
    WAIT_BEGIN = 5


class Points(msgspec.Struct, frozen=True):
    """The points of the driving threads, which take turns, in order of time.

    Args:
        time_ns: When; (points,).
        kind: `Point`; (points,).
        row: Slice of the call, or number of the step; (points,).
    """

    time_ns: Times
    kind: NDArray[np.int8]
    row: Rows

    def __len__(self) -> int:
        """Number of points."""
        return len(self.time_ns)

    def of(self, kind: Point) -> Rows:
        """The points of a kind, ascending."""
        return np.flatnonzero(self.kind == kind)


# A launch is held up by a full queue if it takes this many times the median launch, and this long.
_HELD_UP = 5
_HELD_UP_NS = 50_000


def find_points(facts: Facts, steps: StepTable, until_ns: int) -> Points:
    """The points of the driving threads in some steps.

    Args:
        facts: Facts of the run.
        steps: The steps.
        until_ns: Leave out calls from this time on.
    """
    trace = facts.trace
    start, duration = trace.slices.start_ns, trace.slices.dur_ns
    launches, waits = (
        calls[start[calls] < until_ns] for calls in (driving_launches(facts), driving_waits(facts))
    )
    held = held_up(duration[launches])
    numbers = np.arange(len(steps.host_starts))
    found = [
        (Point.STEP_BEGIN, steps.host_starts, numbers),
        (Point.STEP_END, steps.host_ends, numbers),
        (Point.LAUNCH, start[launches], launches),
        (Point.LAUNCH_END, trace.ends(launches[held]), launches[held]),
        (Point.WAIT_BEGIN, start[waits], waits),
        (Point.WAIT_END, trace.ends(waits), waits),
    ]
    time_ns = np.concatenate([times for _, times, _ in found])
    kind = np.repeat(np.array([k for k, _, _ in found], np.int8), [len(t) for _, t, _ in found])
    row = np.concatenate([rows for _, _, rows in found]).astype(np.int64)
    order = np.lexsort((kind, time_ns))
    return Points(time_ns[order], kind[order], row[order])


def driving_launches(facts: Facts) -> Rows:
    """Calls of the driving threads that launched recorded device work, ascending."""
    calls = distinct(facts.launches.joined[1])
    return calls[among(facts.trace.slices.track[calls], facts.threads.all)]


def driving_waits(facts: Facts) -> Rows:
    """Calls of the driving threads that wait for the device, the outermost ones, ascending."""
    trace = facts.trace
    syncs = rows_of(trace, (Kind.SYNC,), of_threads(trace, facts.threads.all))
    blocking = facts.launches.blocking_calls
    blocking = blocking[among(trace.slices.track[blocking], facts.threads.all)]
    rows = distinct(np.concatenate([syncs, blocking]))
    is_wait = np.zeros(len(trace.slices), dtype=bool)
    is_wait[rows] = True
    parent = facts.nesting.parent[rows]
    outermost: Rows = rows[~(is_wait[parent] & (parent != NULL))]
    return outermost


def held_up(durations_ns: Times) -> NDArray[np.bool_]:
    """Mask of launches that take so long that a full queue may have held them up; (launches,)."""
    if not len(durations_ns):
        return np.zeros(0, dtype=bool)
    least = max(_HELD_UP * float(np.median(durations_ns)), _HELD_UP_NS)
    held: NDArray[np.bool_] = durations_ns >= least
    return held
