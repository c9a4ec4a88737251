"""Rounds of a host that runs ahead: the steps between two times at which the device had caught up.

Such a host launches steps faster than the device computes them, so that the time of a single step
says nothing about its work. From one time at which the device had finished all earlier steps to the
next, it did exactly the work of the steps between them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.stalls import (
    Stalls,
    events_in,
    find_stalls,
    rows_of_kinds,
    stalling,
    time_of,
)
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.trace import NULL, Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

    Rows = NDArray[np.int64]
    Times = NDArray[np.int64]

# By how much the device may be behind at the end of a step that counts as caught up, if that is
# computed: a share of its work in a step.
_CAUGHT_UP = 0.25
# Shares of the recorded work that a step may have without a profiler; the first one is tried first.
# With too much work, small errors would add up to a backlog; with too little, the device seems to
# catch up too early, but then each step of a full queue lasts as long as its work.
_SHARES_OF_WORK = (0.98, 0.9, 0.8)
# Share of the steps at whose end the device is behind; with fewer, each step has its own time.
_LEAST_AHEAD = 0.1
# Fewer steps do not show the usual one.
_FEWEST_STEPS = 8
# Share of the steps that whole rounds must cover to stand for all of them.
_LEAST_COVERED = 0.25
# XLA lets a host run at most 32 computations ahead. In ten times as many steps, the queue that is
# left at the end is a small part of the work.
_LONG_RUN = 320
# Rounds that take this many times as long as the median one contain a pause, such as an evaluation.
_PAUSE = 1.8
_MOST_PAUSED = 0.1  # of the steps; more are no exceptions


class Rounds(msgspec.Struct, frozen=True):
    """The steps of whole rounds.

    Args:
        rows: Their rows of `marks`, ascending; (steps,).
        means_ns: Mean step of the round of each; (steps,).
        stalls: Compilations and checkpoints in them.
        with_profiled: Whether profiled steps are among them.
        whole: Whether the rounds are whole. Otherwise the device was behind at the end, and the
            means are too low.
    """

    rows: Rows
    means_ns: Times
    stalls: Stalls
    with_profiled: bool = False
    whole: bool = True

    @property
    def usual_ns(self) -> Times:
        """The means without rounds that contain a pause; (steps,)."""
        usual = self.means_ns <= _PAUSE * np.median(self.means_ns)
        return self.means_ns[usual] if usual.mean() >= 1 - _MOST_PAUSED else self.means_ns


def with_rounds(trace: Trace, rows: Rows, device_ns: int) -> tuple[Trace, Rounds | None]:
    """The rounds of some steps, and the trace with `marks.drained` as they follow from it.

    Args:
        trace: The trace of an observed run.
        rows: Rows of its `marks`, ascending and consecutive; (steps,).
        device_ns: Time that the device works in a recorded step; 0 if unknown.

    Returns:
        The trace as it is, and None, if each step has its own time, or nothing else is known.
    """
    marks = trace.marks
    if not device_ns or not len(marks) or (marks.drained != NULL).any():
        return trace, find_rounds(trace, rows)
    for share in _SHARES_OF_WORK:
        drained = _with_backlog(trace, share * device_ns)
        rounds = find_rounds(drained, rows, computed=True)
        if rounds is not None:
            return drained, rounds
    return trace, None


def _with_backlog(trace: Trace, device_ns: float) -> Trace:
    """The trace with `marks.drained` as far as it follows from the device's work in a step.

    In each step the device can do as much work as the step lasts. What is left of the work that the
    steps so far have launched is its backlog; it has caught up when nothing is left.
    """
    marks = trace.marks
    starts, ends = marks.start_ns, marks.start_ns + marks.dur_ns
    lasts = np.append(starts[1:], ends[-1]) - starts
    sums = np.cumsum(device_ns - lasts)
    backlog = sums - np.minimum.accumulate(np.minimum(sums, 0))
    drained = (backlog <= _CAUGHT_UP * device_ns).astype(marks.drained.dtype)
    return replace(trace, marks=Columns(**{**vars(marks), "drained": drained}))


def find_rounds(trace: Trace, rows: Rows, *, computed: bool = False) -> Rounds | None:
    """The rounds of some steps; None if each step has its own time, or nothing else is known.

    Args:
        trace: The trace of an observed run.
        rows: Rows of its `marks`, ascending and consecutive; (steps,).
        computed: Whether it was computed where the device had caught up. If it then seems to catch
            up nowhere, its work was rather longer under the profiler, as where ranks wait for each
            other.
    """
    marks = trace.marks
    known = marks.drained[rows] != NULL
    if known.sum() < _FEWEST_STEPS or (marks.drained[rows[known]] == 0).mean() < _LEAST_AHEAD:
        return None
    profiled = marks.profiled[rows] == 1
    free = _whole(trace, rows, profiled)
    if _covers(free.rows, (~profiled).sum()):
        return free
    if computed:
        return None
    every = _whole(trace, rows, np.zeros(len(rows), dtype=bool))
    if _covers(every.rows, len(rows)):
        return replace(every, with_profiled=True)
    if (~profiled).sum() >= _LONG_RUN:
        return None
    return _cut_short(trace, rows)


def _covers(rows: Rows, steps: int) -> bool:
    return len(rows) >= max(_FEWEST_STEPS, _LEAST_COVERED * steps)


def _whole(trace: Trace, rows: Rows, left_out: NDArray[np.bool_]) -> Rounds:
    """The whole rounds of steady steps without any step that is left out."""
    marks = trace.marks
    starts, durations = marks.start_ns[rows], marks.dur_ns[rows].astype(np.int64)
    number, bounded = _numbered(trace, rows)
    kept = _in_all(number, bounded & ~left_out)
    warm_up = count_warm_up(_means(number, durations)[kept])
    left_out = left_out | (np.cumsum(kept) <= warm_up)
    stalls = _stalls(trace, rows[_in_all(number, bounded & ~left_out)])
    collecting = rows_of_kinds(trace, *(("gc",) if "python" in stalls.mean_ns else ()))
    stalling_rows = np.union1d(stalling(trace), collecting)
    stalled = time_of(trace, stalling_rows).within(starts, starts + durations)
    if stalls.mean_ns:
        durations -= stalled
    else:
        left_out |= stalled > 0
    kept = _in_all(number, bounded & ~left_out)
    return Rounds(rows[kept], _means(number, durations)[kept], stalls)


def _means(number: Rows, durations_ns: Times) -> Times:
    """Mean step of the round of each step; (steps,)."""
    means = np.bincount(number, durations_ns) / np.bincount(number)
    rounded: Times = np.rint(means).astype(np.int64)[number]
    return rounded


def _stalls(trace: Trace, rows: Rows) -> Stalls:
    """What stalls some steps, with the time of compilations alone.

    Steps that compile may be longer than others because of their wait alone.
    """
    stalls = find_stalls(trace, rows)
    compiled = events_in(trace, rows, rows_of_kinds(trace, "trace", "compile"))
    only = {c: compiled.mean_ns if c == "compile" else ns for c, ns in stalls.mean_ns.items()}
    return Stalls(stalls.free, only)


def _numbered(trace: Trace, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """The round of each step, and whether the device had caught up at both of its ends."""
    marks = trace.marks
    starts, ends = marks.start_ns[rows], marks.start_ns[rows] + marks.dur_ns[rows]
    caught_up = marks.drained[rows] == 1
    follows = np.append(False, starts[1:] == ends[:-1])
    begins_idle = follows & np.append(False, caught_up[:-1])
    begins_idle[0] = rows[0] == 0 or marks.drained[rows[0] - 1] == 1
    begins = begins_idle | ~follows
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    number = np.cumsum(begins) - 1
    bounded: NDArray[np.bool_] = (begins_idle[first] & caught_up[last])[number]
    return number, bounded


def _in_all(number: Rows, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the steps in rounds all of whose steps are kept."""
    dropped = np.bincount(number, ~kept) > 0
    found: NDArray[np.bool_] = ~dropped[number]
    return found


def _cut_short(trace: Trace, rows: Rows) -> Rounds:
    """All steady steps as if they were one round, although the device was behind at its end."""
    durations = trace.marks.dur_ns[rows]
    steady = rows[count_warm_up(durations) :]
    stalls = find_stalls(trace, steady)
    mean = round(float(trace.marks.dur_ns[stalls.free].mean()))
    return Rounds(steady, np.full(len(steady), mean), Stalls(stalls.free, {}), whole=False)


def is_cut(trace: Trace, recorded: StepTable) -> bool:
    """Whether the device was behind when the recorded steps ended.

    Args:
        trace: The trace of an observed run.
        recorded: The steps that were profiled.
    """
    marks = trace.marks
    ends = marks.start_ns + marks.dur_ns
    nearest = int(np.abs(ends - recorded.host_ends[-1]).argmin())
    return bool(marks.drained[nearest] == 0)
