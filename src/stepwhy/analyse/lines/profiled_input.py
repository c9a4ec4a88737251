"""What recording operations adds to the wait for input, by line.

A loader that collates a batch of many samples calls hundreds of short operations. To record one
takes microseconds, so that the line of the loop seems to take longer beside those that make the
samples. How long the wait is in unprofiled steps is measured, and the difference belongs to the
lines whose operations were recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# What it takes to record one, at most; a larger difference between steps has other causes.
_MOST_NS = 5_000


def unprofiled_input(facts: Facts, starts: Ints, line: Ints, times: Floats) -> Floats:
    """Times of the input in recorded steps without what the profiler has added to them, ns.

    Args:
        facts: Facts of the run.
        starts: Start of each part of the driving thread's time, ns, ascending; (parts,).
        line: Its line; (parts,).
        times: Its time in the wait for input, ns; (parts,).

    Returns:
        The times; (parts,). They stay as they are where the wait of unprofiled steps was not
        measured, or a device may compute meanwhile.
    """
    if facts.observed is None or facts.observed.driver.input_wait_ns is None:
        return times
    if facts.has_accelerator:
        return times
    recorded_ns, usual_ns = facts.recorded["input_wait"], facts.breakdown["input_wait"]
    added = times.sum() * max(1 - usual_ns / recorded_ns, 0.0) if recorded_ns else 0.0
    events = _events(facts, starts)[times > 0]
    if not added or not events.sum():
        return times
    each_ns = min(added / events.sum(), _MOST_NS)
    _, of_line = np.unique(line[times > 0], return_inverse=True)
    sums = np.bincount(of_line, times[times > 0])
    kept = np.maximum(1 - each_ns * np.bincount(of_line, events) / sums, 0.0)
    usual = times.copy()
    usual[times > 0] *= kept[of_line]
    return usual


def _events(facts: Facts, starts: Ints) -> Ints:
    """Number of operations of the driving thread that begin in each part; (parts,)."""
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[facts.trace.slices.track[rows] == facts.threads.driving]
    part = np.searchsorted(starts, facts.trace.slices.start_ns[rows], side="right") - 1
    return np.bincount(part[part >= 0], minlength=len(starts))
