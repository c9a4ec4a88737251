"""The runs of a graph in a file that was merged from several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Times = NDArray[np.int64]

SOURCE = "_SOURCE"
"""Scope of the operation with which TensorFlow begins each run, on each device."""


def find_runs(trace: Trace) -> tuple[Times, Times] | None:
    """Starts and ends of the runs of a graph; None unless there are several, one after another.

    Nothing is recorded between two runs that were merged by hand, and a run begins with its source.
    """
    if "whole-step" not in trace.meta.signals:
        return None
    begins = _begins(trace)
    if len(begins) < 2:
        return None
    starts = trace.slices.start_ns
    reached = np.maximum.accumulate(trace.ends(np.arange(len(starts))))
    silent = np.flatnonzero(starts[1:] > reached[:-1]) + 1
    if not np.isin(begins[1:], starts[silent]).all():
        return None
    first = np.append(0, np.searchsorted(starts, begins[1:]))
    return starts[first], reached[np.append(first[1:], len(starts)) - 1]


def _begins(trace: Trace) -> Times:
    """When each run begins on the first of its devices, ascending; empty if devices disagree."""
    sources = np.flatnonzero(np.isin(trace.slices.scope, trace.strings_where({SOURCE})))
    device = trace.tracks.device[trace.slices.track[sources]]
    starts = [trace.slices.start_ns[sources[device == d]] for d in np.unique(device)]
    if len({len(times) for times in starts}) != 1:
        return np.empty(0, dtype=np.int64)
    found: Times = np.min(starts, axis=0)
    return found
