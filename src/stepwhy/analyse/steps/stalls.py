"""Logged events that make steps stall: compilations, checkpoints, and workers that start again.

If only some of the steps have such events, the median step has none, although they may take most of
the training time. The step time is then that of the steps without events, plus the mean time of the
events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.intervals import Intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Rows = NDArray[np.int64]
    Times = NDArray[np.int64]

CATEGORIES = {"trace": "compile", "compile": "compile", "save": "storage"}
"""Category of the breakdown by kind of event."""

# Name of the events of kind "gc" that search all objects; see `record.watchers.garbage`.
_OLDEST_GENERATION = "generation 2"

LOADING = ("epoch", "workers")
"""Kinds of the events of loaders."""
# The observer logs no more events, so later steps are unknown.
_MOST_EVENTS = 2000
MOST_OF_A_KIND = 400
"""Events of loaders that are logged, and of evaluations."""
_LIMITED = ((*LOADING, "iterator"), ("evaluation",))
# Steps; the median of fewer steps without an event is not reliable.
_FEWEST_FREE = 8
# Steps; fewer stalls do not recur: an evaluation that is compiled, a checkpoint at the end.
_FEWEST_STALLS = 3
# Times the compilation; the first run of a new function optimises its graph and allocates memory.
_LONGEST_FIRST_RUN = 4
# Share of the time of the steps; below it, the median step is the step time.
_LEAST_SHARE = 0.05

# Share of the mean step that steps which stall take longer than their stalls, if they also wait.
_WAITED = 0.2
# A first step of an epoch waits if it takes so many times the usual one, as most of them do.
_LATE, _MOSTLY = 1.5, 0.8


class StepEvents(msgspec.Struct, frozen=True):
    """Events of an observed run in some of its steps.

    Args:
        rows: Rows of the trace's `events` that begin in one of the steps; (events,).
        steps: Rows of `marks`; (steps,).
        durations_ns: Wall time of each step; (steps,).
        inside_ns: Time of the events in each step, overlapping ones once; (steps,).
    """

    rows: Rows
    steps: Rows
    durations_ns: Times
    inside_ns: Times

    @property
    def mean_ns(self) -> int:
        """Time of the events per step, over all steps."""
        return round(float(self.inside_ns.mean())) if len(self.inside_ns) else 0

    @property
    def affected(self) -> NDArray[np.bool_]:
        """Mask of the steps that have an event; (steps,)."""
        found: NDArray[np.bool_] = self.inside_ns > 0
        return found

    def affects(self, steps: Rows) -> NDArray[np.bool_]:
        """Which of some rows of `marks` have an event; (rows,)."""
        return np.isin(steps, self.steps[self.affected])

    @property
    def share(self) -> float:
        """Share of the time of all steps, 0..1."""
        total = int(self.durations_ns.sum())
        return int(self.inside_ns.sum()) / total if total else 0.0

    @property
    def recur(self) -> bool:
        """Whether they are in several steps and take a relevant share of the time."""
        return bool(self.affected.sum() >= _FEWEST_STALLS and self.share >= _LEAST_SHARE)

    @property
    def per_affected_ns(self) -> int:
        """Mean time of the events in a step that has any."""
        return round(int(self.inside_ns.sum()) / max(int(self.affected.sum()), 1))

    @property
    def excess_ns(self) -> int:
        """By how much steps with events are longer, per step; 0 with too few without any."""
        free, longer = self.durations_ns[~self.affected], self.durations_ns[self.affected]
        if len(free) < _FEWEST_FREE or not len(longer):
            return 0
        excess = max(float(np.median(longer)) - float(np.median(free)), 0.0)
        return round(excess * len(longer) / len(self.durations_ns))

    @property
    def with_first_runs_ns(self) -> int:
        """Time of compilations per step, with the slower first runs of what they compiled.

        If the steps with compilations are longer by many times that, they do other work as well,
        such as an evaluation for which something is compiled.
        """
        is_first_run = self.excess_ns <= _LONGEST_FIRST_RUN * self.mean_ns
        return max(self.mean_ns, self.excess_ns if is_first_run else 0)


class Stalls(msgspec.Struct, frozen=True):
    """Time that rare events add to the mean step.

    Args:
        free: Rows of `marks` of the steps without such events; of all steps if too few have none.
        mean_ns: Time per step of the events that recur, by category of the breakdown.
    """

    free: Rows
    mean_ns: dict[str, int]


def rows_of_kinds(trace: Trace, *kinds: str) -> Rows:
    """Rows of the events of some kinds, ascending."""
    return np.flatnonzero(np.isin(trace.events.kind, trace.strings_where(kinds)))


def restarts(trace: Trace) -> Rows:
    """Rows of the events in which a loader starts workers, until its first batch; ascending."""
    events = trace.events
    epochs, starts = (rows_of_kinds(trace, kind) for kind in LOADING)
    begins, ends = events.start_ns[epochs], events.start_ns[epochs] + events.dur_ns[epochs]
    started = events.start_ns[starts]
    found: Rows = epochs[np.searchsorted(started, begins) < np.searchsorted(started, ends)]
    return found


def stalling(trace: Trace) -> Rows:
    """Rows of all events that make steps stall, ascending."""
    return np.union1d(rows_of_kinds(trace, *CATEGORIES), restarts(trace))


def time_of(trace: Trace, rows: Rows) -> Intervals:
    """The time of some events."""
    starts = trace.events.start_ns[rows]
    return Intervals.of(starts, starts + trace.events.dur_ns[rows])


def time_of_kinds(trace: Trace, *kinds: str) -> Intervals:
    """Time of the events of some kinds."""
    return time_of(trace, rows_of_kinds(trace, *kinds))


def events_in(trace: Trace, steps: Rows, rows: Rows) -> StepEvents:
    """The events that begin in some steps.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
        rows: Rows of its `events`; (events,).
    """
    marks, events = trace.marks, trace.events
    if len(events) >= _MOST_EVENTS or any(_is_full(trace, rows, kinds) for kinds in _LIMITED):
        # The observer of each kind has a limit of its own, and other kinds go on after it.
        last = rows[-1] if len(rows) >= _MOST_EVENTS else -1
        steps = steps[marks.start_ns[steps] <= events.start_ns[last]]
    starts, ends = marks.start_ns[steps], marks.start_ns[steps] + marks.dur_ns[steps]
    begins = events.start_ns[rows]
    step = np.searchsorted(starts, begins, side="right") - 1
    is_inside = (step >= 0) & (begins < np.append(ends, 0)[step])
    begins, lasts = begins[is_inside], events.dur_ns[rows[is_inside]]
    inside = Intervals.of(begins, begins + lasts).within(starts, ends)
    return StepEvents(rows[is_inside], steps, marks.dur_ns[steps], inside)


def _is_full(trace: Trace, rows: Rows, kinds: tuple[str, ...]) -> bool:
    """Whether some events include ones of kinds that were logged up to a limit of their own."""
    limited = rows_of_kinds(trace, *kinds)
    return len(limited) >= MOST_OF_A_KIND and bool(np.isin(rows, limited).any())


def first_of_keras_epochs(trace: Trace) -> NDArray[np.bool_]:
    """Mask of the steps before which the loop of Keras' `fit` pauses: an epoch begins; (marks,)."""
    marks = trace.marks
    if trace.meta.framework != "tensorflow":
        return np.zeros(len(marks), dtype=np.bool_)
    ends = np.append(marks.start_ns[:1], (marks.start_ns + marks.dur_ns)[:-1])
    first: NDArray[np.bool_] = (marks.start_ns > ends) & (marks.input_wait_ns <= 0)
    return first


def epoch_starts(trace: Trace, steps: Rows) -> StepEvents:
    """What first steps of epochs of Keras wait for: the input pipeline, which begins again.

    `fit` asks for batches inside of a compiled function, so that no wait is logged. Its loop pauses
    between epochs. The wait is what a first step takes longer than others, if most of them do.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
    """
    marks = trace.marks
    durations, waits = marks.dur_ns[steps], np.zeros(len(steps), dtype=np.int64)
    late = StepEvents(np.zeros(0, dtype=np.int64), steps, durations, waits)
    if not len(steps):
        return late
    first = first_of_keras_epochs(trace)[steps]
    first &= ~events_in(trace, steps, stalling(trace)).affects(steps)
    if first.any() and not first.all():
        usual = round(float(np.median(durations[~first])))
        if (durations[first] > _LATE * usual).mean() >= _MOSTLY:
            waits[first] = np.maximum(durations[first] - usual, 0)
    return late


def find_stalls(trace: Trace, steps: Rows) -> Stalls:
    """Time that rare events add to the mean of some steps.

    These are compilations, checkpoints, restarted workers, epochs that begin late, and collections
    of garbage.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
    """
    # In most steps, collections are part of the usual step, as the profiled steps show it. Those of
    # the oldest generation may be rare all the same.
    every_one = rows_of_kinds(trace, "gc")
    names = trace.events.name[every_one]
    oldest = every_one[np.isin(names, trace.strings_where([_OLDEST_GENERATION]))]
    late = epoch_starts(trace, steps)
    for collections in (every_one, oldest, every_one[:0]):
        collected = events_in(trace, steps, collections)
        some = collections if collected.recur else collections[:0]
        every = events_in(trace, steps, np.union1d(stalling(trace), some))
        free = every.steps[~every.affected & ~late.affects(every.steps)]
        if len(free) >= _FEWEST_FREE:
            break
    else:
        return Stalls(steps, {})
    compiled = events_in(trace, steps, rows_of_kinds(trace, "trace", "compile"))
    saved = events_in(trace, steps, rows_of_kinds(trace, "save"))
    restarted = events_in(trace, steps, restarts(trace))
    restarted = restarted if restarted.recur else late
    found = {
        "compile": (compiled, compiled.with_first_runs_ns),
        "storage": (saved, saved.mean_ns),
        "input_wait": (restarted, restarted.mean_ns),
        "python": (collected, collected.mean_ns),
    }
    return Stalls(free, {c: ns for c, (events, ns) in found.items() if events.recur})


def find_saves(trace: Trace, steps: Rows) -> Stalls:
    """Time that checkpoints add to the mean of some steps, if only some of them save.

    Args:
        trace: The trace of an observed run of TensorFlow 1 sessions.
        steps: Rows of its `marks`, ascending; (steps,).
    """
    saved = events_in(trace, steps, rows_of_kinds(trace, "save"))
    free = saved.steps[~saved.affected]
    if len(free) < _FEWEST_FREE or not saved.recur:
        return Stalls(steps, {})
    return Stalls(free, {"storage": saved.mean_ns})


def usual_times(trace: Trace, steps: Rows, stalls: Stalls) -> Times:
    """Wall time of the steps that do not stall; (usual steps,).

    A host that runs ahead may wait for the device only in the steps that stall, such as those that
    save. Then it is the time of every step without what stalls it.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
        stalls: What makes them stall.
    """
    durations: Times = trace.marks.dur_ns[steps]
    free: Times = trace.marks.dur_ns[stalls.free]
    if not stalls.mean_ns:
        return free
    stalled = events_in(trace, steps, stalling(trace))
    if len(stalled.steps) < len(steps):
        return free  # later stalls were not logged
    rest: Times = durations - stalled.inside_ns
    return rest if rest.mean() - free.mean() > _WAITED * durations.mean() else free
