"""How much device work of the steps a trace lacks: launches without work, and work without time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.graph_captures import capture_time
from stepwhy.analyse.activity.lost_work import MOST_AFTER
from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.analyse.activity.selection import Rows
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# Calls that always cause work. Of other calls, it is expected only if the file has work of at least
# one call with the same name: no profiler records the work of every function of the API.
_ALWAYS = regex(r"(?i)launch\w*kernel|kernel\w*launch")
# Calls that cause work only sometimes: no bytes to fill, only a mark, or a function of the host.
_SOMETIMES = regex(r"(?i)memset|event|wait|hostfunc|callback")
# A single launch without work may be one that failed.
_FEWEST_LOST = 2
# Profilers that count microseconds write 0 for what takes less. Where no other kernel of that name
# takes as little as this (ns), a duration of 0 is none.
_LONGEST_ROUNDED_NS = 2_000
_MICROSECOND_NS = 1_000


class MissingWork(msgspec.Struct, frozen=True):
    """Device work of the steady steps that a trace lacks.

    Args:
        launches: Launches of kernels, graphs and copies.
        lost: Those of them whose work was not recorded.
        recorded: Kernels and copies that were recorded.
        untimed: Kernels that were recorded without their duration.
    """

    launches: int = 0
    lost: int = 0
    recorded: int = 0
    untimed: int = 0

    @property
    def count(self) -> int:
        """Number of launches and kernels whose time on the device is missing."""
        return self.untimed + (self.lost if self.lost >= _FEWEST_LOST else 0)

    @property
    def share(self) -> float:
        """Share of all kernels and copies of the steps whose time is missing, 0..1.

        What the launches show is assumed of all device work: which kernels of a graph were lost
        does not show, for example.
        """
        lost = self.lost / self.launches if self.lost >= _FEWEST_LOST else 0.0
        return lost + (1 - lost) * self.untimed / max(self.recorded, 1)


def find_missing_work(trace: Trace, launches: Launches, steps: StepTable) -> MissingWork:
    """Compare the launches in the steady steps with the work that was recorded.

    Args:
        trace: The trace.
        launches: Its launch join.
        steps: Its steps.
    """
    rows = launches.device_rows
    rows = rows[steps.in_steady(trace.slices.start_ns[rows])]
    made, lost = _launched(trace, launches, steps)
    return MissingWork(made, lost, len(rows), _untimed(trace, rows))


def _launched(trace: Trace, launches: Launches, steps: StepTable) -> tuple[int, int]:
    """Number of launches in the steady steps that cause work, and of those without any."""
    ids, start_ns = trace.slices.correlation, trace.slices.start_ns
    calls = rows_of(trace, (Kind.LAUNCH,), of_role(trace, Role.HOST_THREAD))
    calls = calls[ids[calls] > 0]
    has_work = np.zeros(len(trace.slices), dtype=bool)
    has_work[launches.joined[1]] = True
    if has_work[calls].all():
        return len(calls), 0
    # Calls of whose name each one causes work on a device.
    names, working = trace.slices.name[calls], set(trace.slices.name[calls[has_work[calls]]])
    always = trace.matches(names, _ALWAYS.search) | np.isin(names, list(working))
    causes_work: NDArray[np.bool_] = always & ~trace.matches(names, _SOMETIMES.search)
    calls = calls[causes_work]
    steady = steps.host_starts[steps.steady], steps.host_ends[steps.steady]
    calls = calls[windows_at(start_ns[calls], *steady) != NULL]
    ran = np.flatnonzero(has_work[calls])
    if len(ran) and ran[-1] + 1 >= (1 - MOST_AFTER) * len(calls):
        calls = calls[: ran[-1] + 1]  # the profile ended before the work of the others
    lost = calls[~has_work[calls]]
    captured = capture_time(trace)
    lost = lost[windows_at(start_ns[lost], captured.starts, captured.ends) == NULL]
    # A runtime call and the driver call inside it have the same id, and only one is joined.
    lost_ids = np.setdiff1d(ids[lost], ids[launches.device_rows])
    return int(has_work[calls].sum()) + len(lost_ids), len(lost_ids)


def _untimed(trace: Trace, rows: Rows) -> int:
    """Number of kernels among some slices whose duration is missing, not just short."""
    rows = rows[among(trace.slices.kind[rows], (Kind.KERNEL, Kind.COLLECTIVE))]
    durations = trace.slices.dur_ns[rows]
    untimed = durations <= 0
    if not untimed.any() or untimed.all() or (durations % _MICROSECOND_NS).any():
        return int(untimed.sum())
    # The shortest time of each name: it is rounded to 1 us where others are rounded to 0.
    _, place = numbered(trace.slices.name[rows])
    unknown = np.iinfo(np.int64).max
    shortest = np.full(int(place.max()) + 1, unknown)
    np.minimum.at(shortest, place[~untimed], durations[~untimed])
    is_longer = (shortest > _LONGEST_ROUNDED_NS) & (shortest < unknown)
    return int((untimed & is_longer[place]).sum())
