"""What the host was doing, as sets of time: the evidence that explains device idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.groups import numbered
from stepwhy.columns.intervals import Intervals
from stepwhy.columns.nesting import innermost_time
from stepwhy.passes.devices import intervals_of
from stepwhy.passes.launches import FIRST_USE_NS
from stepwhy.passes.selection import mask, of_role, of_threads, rows_of
from stepwhy.passes.stalls import time_of_kinds
from stepwhy.trace import NULL, Kind, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.columns.nesting import Nesting
    from stepwhy.passes.launches import Launches
    from stepwhy.passes.selection import Rows, Tracks
    from stepwhy.passes.steps import StepTable
    from stepwhy.passes.threads import Threads
    from stepwhy.trace import Trace

# Between two framework calls a thread runs Python; it may as well be blocked when the silence
# lasts longer than this (ns), and then nothing is claimed.
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
    host_is_device: bool,
) -> Evidence:
    """Sets of time per category of host activity; they may overlap, the breakdown's order decides.

    Args:
        trace: The trace.
        threads: Its driving threads.
        nesting: Its call trees.
        launches: Its launch join (copies that block are synchronisations).
        steps: Its steps (what every step does is no first use).
        host_is_device: Whether the op executors are the device (a CPU-only run).
    """
    storage = _of(trace, threads, Kind.STORAGE) | _executors(trace, Kind.STORAGE)
    storage = storage | time_of_kinds(trace, "save")
    python = _innermost(trace, threads.all, nesting, Kind.PYTHON) | _executors(trace, Kind.PYTHON)
    dispatch = _innermost(trace, threads.all, nesting, *_CALLS)
    dispatch = dispatch | _autograd_silence(trace, threads, nesting) | _graph_runs(trace)
    if not host_is_device:
        dispatch = dispatch | _executors(trace, Kind.KERNEL, Kind.OP)
    silence = _short_silence(trace, threads)
    if _tells_code(trace, threads):
        python = python | silence
    else:
        dispatch = dispatch | silence
    collectives = rows_of(trace, (Kind.COLLECTIVE,), of_role(trace, Role.HOST_THREAD))
    return {
        "communication": _executors(trace, Kind.WAIT) | intervals_of(trace, collectives),
        "input_wait": _of(trace, threads, Kind.INPUT) | _executors(trace, Kind.INPUT),
        "compile": _of(trace, threads, Kind.COMPILE)
        | _first_use(trace, threads, launches, steps)
        | time_of_kinds(trace, "trace", "compile"),
        "sync": _of(trace, threads, Kind.SYNC) | _blocked(trace, threads, launches),
        "dispatch": dispatch - storage,
        "python": python - storage,
        "storage": storage,
    }


def _rows(trace: Trace, tracks: tuple[int, ...], *kinds: Kind) -> Rows:
    return rows_of(trace, kinds, of_threads(trace, tracks))


def _of(trace: Trace, threads: Threads, *kinds: Kind) -> Intervals:
    return intervals_of(trace, _rows(trace, threads.all, *kinds))


def _executors(trace: Trace, *kinds: Kind) -> Intervals:
    return intervals_of(trace, rows_of(trace, kinds, of_role(trace, Role.EXECUTOR)))


def _blocked(trace: Trace, threads: Threads, launches: Launches) -> Intervals:
    """Copy calls that wait; on a thread that stages batches ahead they hold nobody up."""
    calls = launches.blocking_calls
    return intervals_of(trace, calls[among(trace.slices.track[calls], threads.all)])


def _first_use(trace: Trace, threads: Threads, launches: Launches, steps: StepTable) -> Intervals:
    """Calls so long that they initialise something.

    Device API calls, and the host side of graph operations whose work is on an accelerator: their
    part is to launch it.
    """
    calls = _long(trace, of_threads(trace, threads.all), Kind.RUNTIME, Kind.LAUNCH)
    calls = np.setdiff1d(calls, launches.blocking_calls, assume_unique=True)
    graph_ops = _long(trace, of_role(trace, Role.HOST_THREAD), Kind.OP)
    graph_ops = graph_ops[trace.slices.scope[graph_ops] != NULL]
    rows = np.concatenate([calls[~_copies(trace, calls)], graph_ops])
    return intervals_of(trace, rows[~_in_most_steps(trace, rows, steps)])


def _long(trace: Trace, tracks: Tracks, *kinds: Kind) -> Rows:
    """Slices of some kinds on some tracks that take as long as a first use."""
    is_long = trace.slices.dur_ns >= FIRST_USE_NS
    return np.flatnonzero(is_long & mask(trace, kinds, tracks))


def _copies(trace: Trace, calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Copy calls: a long one waits for the device or stages pageable memory, at any use."""
    names, group = numbered(trace.slices.name[calls])
    copies = np.asarray(["memcpy" in trace.string(int(n)).lower() for n in names], dtype=bool)
    result: NDArray[np.bool_] = copies[group]
    return result


def _in_most_steps(trace: Trace, rows: NDArray[np.int64], steps: StepTable) -> NDArray[np.bool_]:
    """Whether calls of the same name take as long in most steps: then none is a first use."""
    if not len(rows) or len(steps.host_starts) < _FEWEST_STEPS:
        return np.zeros(len(rows), dtype=bool)
    names = trace.slices.name[rows]
    step = np.searchsorted(steps.host_starts, trace.slices.start_ns[rows], side="right")
    seen = np.unique(np.stack([names, step], axis=1), axis=0)
    usual, count = np.unique(seen[:, 0], return_counts=True)
    return np.isin(names, usual[count > len(steps.host_starts) / 2])


def _innermost(trace: Trace, tracks: tuple[int, ...], nesting: Nesting, *kinds: Kind) -> Intervals:
    """When the innermost slice on some threads is of some kinds."""
    return innermost_time(nesting, mask(trace, kinds, of_threads(trace, tracks)))


def _autograd_silence(trace: Trace, threads: Threads, nesting: Nesting) -> Intervals:
    """Between two backward operations the engine itself runs: framework code.

    Not between two backward passes: then the driving thread is at work, not blocked in one.
    """
    if not threads.autograd:
        return Intervals.empty()
    rows = _rows(trace, threads.autograd, *_CALLS, Kind.SYNC)
    gaps = intervals_of(trace, rows).gaps_up_to(LONGEST_PYTHON_GAP_NS)
    working = _innermost(trace, (threads.driving,), nesting, *_CALLS, Kind.PYTHON)
    at_work = working.within(gaps.starts, gaps.ends)
    return Intervals(gaps.starts[at_work == 0], gaps.ends[at_work == 0])


def _graph_runs(trace: Trace) -> Intervals:
    """When a run of a graph was under way: between its operations, the framework schedules."""
    ops = np.flatnonzero(trace.slices.scope != NULL)
    if not len(ops):
        return Intervals.empty()
    runs = rows_of(trace, (Kind.STEP,))
    if len(runs):
        return intervals_of(trace, runs)
    return Intervals.single(int(trace.slices.start_ns[ops[0]]), int(trace.ends(ops).max()))


def _tells_code(trace: Trace, threads: Threads) -> bool:
    """Whether more than calls of the device API was recorded of the driving threads.

    Without operations, what runs between two calls may as well be the framework.
    """
    kinds = (Kind.OP, Kind.FRAMEWORK, Kind.PYTHON)
    return bool(mask(trace, kinds, of_threads(trace, threads.all)).any())


def _short_silence(trace: Trace, threads: Threads) -> Intervals:
    """Short gaps between framework calls, on all driving threads taken together."""
    kinds = (*_CALLS, Kind.SYNC, Kind.INPUT, Kind.COMPILE)
    return _of(trace, threads, *kinds).gaps_up_to(LONGEST_PYTHON_GAP_NS)
