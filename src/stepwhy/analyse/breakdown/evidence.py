"""Host activity as sets of time: the evidence that explains device idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.callbacks import callback_time
from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.graph_captures import capture_time
from stepwhy.analyse.activity.launches import FIRST_USE_NS
from stepwhy.analyse.activity.selection import mask, of_role, of_threads, rows_of
from stepwhy.analyse.activity.staging import staging_time
from stepwhy.analyse.steps.stalls import time_of_kinds
from stepwhy.base.columns.groups import keep_codes
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.nesting import callers, climb, innermost_time
from stepwhy.trace import NULL, Kind, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.analyse.activity.selection import Rows, Tracks
    from stepwhy.analyse.activity.threads import Threads
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace

# Between two framework calls a thread runs Python. In a gap longer than this (ns) it may be
# blocked, so the gap stays unexplained.
LONGEST_PYTHON_GAP_NS = 1_000_000

Evidence = dict[str, Intervals]

# Fewer steps than this do not show what every step does.
_FEWEST_STEPS = 3

_CALLS = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.FRAMEWORK)


def find_evidence(
    trace: Trace,
    threads: Threads,
    nesting: Nesting,
    launches: Launches,
    steps: StepTable,
    *,
    computing: Intervals | None,
) -> Evidence:
    """Set of time per category of host activity; if sets overlap, the breakdown decides.

    Args:
        trace: The trace.
        threads: Its driving threads.
        nesting: Its call trees.
        launches: Its launch join (copies that block are synchronisations).
        steps: Its steps (what every step does is no first use).
        computing: Time in which accelerators compute; None if the op executors are the device (a
            CPU-only run).
    """
    storage = _of(trace, threads, Kind.STORAGE) | _executors(trace, Kind.STORAGE)
    storage = storage | time_of_kinds(trace, "save", "fsync")
    python = _innermost(trace, threads.all, nesting, Kind.PYTHON) | _executors(trace, Kind.PYTHON)
    python = python | range_time(trace, threads, nesting)
    dispatch = _innermost(trace, threads.all, nesting, *_CALLS)
    dispatch = dispatch | _autograd_gaps(trace, threads, nesting) | _graph_runs(trace)
    compiling = _of(trace, threads, Kind.COMPILE) | _first_use(trace, threads, launches, steps)
    compiling = compiling | capture_time(trace)
    staging = Intervals.empty()
    if computing is not None:
        staging = staging_time(trace, computing)
        dispatch = dispatch | _executors(trace, Kind.KERNEL, Kind.OP)
        compiling = compiling | _slow_launching(trace, threads, nesting, steps)
    # Short gaps in which no driving thread is inside a framework call.
    kinds = (*_CALLS, Kind.SYNC, Kind.INPUT, Kind.COMPILE)
    gaps = _of(trace, threads, *kinds).gaps_up_to(LONGEST_PYTHON_GAP_NS)
    if _records_code(trace, threads):
        python = python | gaps
    else:
        dispatch = dispatch | gaps
    collecting = time_of_kinds(trace, "gc")
    python, called = python | collecting, callback_time(trace) | collecting
    unrecorded = _unrecorded(trace, threads, nesting)
    collectives = rows_of(trace, (Kind.COLLECTIVE,), of_role(trace, Role.HOST_THREAD))
    return {
        "communication": _executors(trace, Kind.WAIT) | intervals_of(trace, collectives),
        "input_wait": _of(trace, threads, Kind.INPUT) | _executors(trace, Kind.INPUT),
        "transfer": staging - python - storage,
        "compile": compiling | time_of_kinds(trace, "trace", "compile"),
        "sync": (_of(trace, threads, Kind.SYNC) | _blocked(trace, threads, launches)) - called,
        "dispatch": dispatch - storage - called - unrecorded,
        "python": python - storage - unrecorded,
        "storage": storage,
    }


def _rows(trace: Trace, tracks: tuple[int, ...], *kinds: Kind) -> Rows:
    return rows_of(trace, kinds, of_threads(trace, tracks))


def _of(trace: Trace, threads: Threads, *kinds: Kind) -> Intervals:
    return intervals_of(trace, _rows(trace, threads.all, *kinds))


def _executors(trace: Trace, *kinds: Kind) -> Intervals:
    return intervals_of(trace, rows_of(trace, kinds, of_role(trace, Role.EXECUTOR)))


def _blocked(trace: Trace, threads: Threads, launches: Launches) -> Intervals:
    """Copy calls that block a driving thread; other threads stage batches ahead."""
    calls = launches.blocking_calls
    return intervals_of(trace, calls[among(trace.slices.track[calls], threads.all)])


def _first_use(trace: Trace, threads: Threads, launches: Launches, steps: StepTable) -> Intervals:
    """Calls that are so long that they must initialise something.

    They are device API calls, or graph operations on the host, which only launch device work.
    """
    calls = _long(trace, of_threads(trace, threads.all), Kind.RUNTIME, Kind.LAUNCH)
    calls = np.setdiff1d(calls, launches.blocking_calls, assume_unique=True)
    graph_ops = _long(trace, of_role(trace, Role.HOST_THREAD), Kind.OP)
    graph_ops = graph_ops[trace.slices.scope[graph_ops] != NULL]
    # Copy calls are long at any use if they wait or stage memory.
    copies = trace.matches(trace.slices.name[calls], lambda name: "memcpy" in name.lower())
    rows = np.concatenate([calls[~copies], graph_ops])
    return intervals_of(trace, rows[~_in_most_steps(trace, rows, steps)])


def _slow_launching(
    trace: Trace, threads: Threads, nesting: Nesting, steps: StepTable
) -> Intervals:
    """Long silences in operations that launch device work, but not in most steps.

    In them, the operation compiles or loads a library. An operation that computes on the host
    launches nothing.
    """
    tracks = of_threads(trace, threads.all)
    chosen = np.zeros(len(trace.slices), dtype=bool)
    slow = _long(trace, tracks, Kind.OP)
    slow = slow[~_in_most_steps(trace, slow, steps)]
    slow = slow[nesting.self_ns(slow) >= FIRST_USE_NS] if len(slow) else slow
    if not len(slow):
        return Intervals.empty()
    chosen[slow] = True
    launching = np.unique(climb(nesting, rows_of(trace, (Kind.LAUNCH,), tracks), chosen))
    chosen[:] = False
    chosen[launching[launching != NULL]] = True
    own = innermost_time(nesting, chosen)
    silent = own.ends - own.starts >= FIRST_USE_NS
    return Intervals(own.starts[silent], own.ends[silent])


def _long(trace: Trace, tracks: Tracks, *kinds: Kind) -> Rows:
    """Slices of some kinds on some tracks that take as long as a first use."""
    is_long = trace.slices.dur_ns >= FIRST_USE_NS
    return np.flatnonzero(is_long & mask(trace, kinds, tracks))


def _in_most_steps(trace: Trace, rows: NDArray[np.int64], steps: StepTable) -> NDArray[np.bool_]:
    """Mask of calls whose name is slow in most steps, so not because of first use; (rows,)."""
    if not len(rows) or len(steps.host_starts) < _FEWEST_STEPS:
        return np.zeros(len(rows), dtype=bool)
    names = trace.slices.name[rows]
    step = np.searchsorted(steps.host_starts, trace.slices.start_ns[rows], side="right")
    seen = np.unique(np.stack([names, step], axis=1), axis=0)
    usual, count = np.unique(seen[:, 0], return_counts=True)
    return np.isin(names, usual[count > len(steps.host_starts) / 2])


def _innermost(trace: Trace, tracks: tuple[int, ...], nesting: Nesting, *kinds: Kind) -> Intervals:
    """Time in which the innermost slice on some threads is of some kinds."""
    return innermost_time(nesting, mask(trace, kinds, of_threads(trace, tracks)))


def _unrecorded(trace: Trace, threads: Threads, nesting: Nesting) -> Intervals:
    """Time at the end of a cut trace into which only functions reach that had called others.

    A profiler that records the functions that a function calls would have recorded the next one.
    """
    tracks = of_threads(trace, threads.all) | of_role(trace, Role.STREAM, Role.EXECUTOR)
    functions = mask(trace, (Kind.PYTHON, Kind.FRAMEWORK), tracks)
    calling = callers(nesting, functions) & functions
    work = ~mask(trace, (Kind.STEP, Kind.ANNOTATION, Kind.DEVICE_ANNOTATION)) & ~calling
    keep_codes(work, trace.slices.track, tracks)
    last, end = trace.last_end_of(work), trace.last_end_of(calling)
    if last is None or end is None or end - last <= LONGEST_PYTHON_GAP_NS:
        return Intervals.empty()
    return Intervals.single(last, end)


def _autograd_gaps(trace: Trace, threads: Threads, nesting: Nesting) -> Intervals:
    """Gaps between backward operations, in which the autograd engine itself runs.

    Gaps between two backward passes are excluded: then the driving thread is working.
    """
    if not threads.autograd:
        return Intervals.empty()
    rows = _rows(trace, threads.autograd, *_CALLS, Kind.SYNC)
    gaps = intervals_of(trace, rows).gaps_up_to(LONGEST_PYTHON_GAP_NS)
    working = _innermost(trace, (threads.driving,), nesting, *_CALLS, Kind.PYTHON)
    at_work = working.within(gaps.starts, gaps.ends)
    return Intervals(gaps.starts[at_work == 0], gaps.ends[at_work == 0])


def _graph_runs(trace: Trace) -> Intervals:
    """Time of the runs of a graph: between their operations, the framework schedules."""
    ops = np.flatnonzero(trace.slices.scope != NULL)
    if not len(ops):
        return Intervals.empty()
    runs = rows_of(trace, (Kind.STEP,))
    if len(runs):
        return intervals_of(trace, runs)
    return Intervals.single(int(trace.slices.start_ns[ops[0]]), int(trace.ends(ops).max()))


def range_time(trace: Trace, threads: Threads, nesting: Nesting) -> Intervals:
    """Time in the program's own ranges, where nothing but calls of the device API was recorded.

    Without those calls, or around other ranges, the time may be a wait.
    """
    tracks = of_threads(trace, threads.all)
    if "runtime-calls" not in trace.meta.signals or _records_code(trace, threads):
        return Intervals.empty()
    ranges = mask(trace, (Kind.ANNOTATION,), tracks)
    return innermost_time(nesting, ranges & ~callers(nesting, ranges))


def _records_code(trace: Trace, threads: Threads) -> bool:
    """Whether more than device API calls was recorded of the driving threads.

    Otherwise, code between two calls may be the framework instead of Python.
    """
    kinds = (Kind.OP, Kind.FRAMEWORK, Kind.PYTHON)
    return bool(mask(trace, kinds, of_threads(trace, threads.all)).any())
