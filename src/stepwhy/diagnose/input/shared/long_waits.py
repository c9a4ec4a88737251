"""Waits for batches that come in few of the steps, by the step log."""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.types import Ints
from stepwhy.base.units import format_count
from stepwhy.result import Evidence
from stepwhy.trace import NULL

BEGINS = ("begin an epoch late", "waiting for the first batch")
"""What `epoch_starts` finds, for `summary`."""
FEWEST_STEPS = 16  # fewer do not show which steps wait
FEW = 0.2  # of the steps; if more wait, waiting is usual
MOST = 0.8  # of all waiting, in few steps
REGULAR = 0.8  # of the distances between those steps are equal


def long_waits(facts: Facts) -> tuple[Evidence, ...]:
    """Which few steps have most of the wait, and how long they wait; () if many wait."""
    steps, waits_ns = _waits(facts)
    total = int(waits_ns.sum())
    if len(steps) < FEWEST_STEPS or total <= 0:
        return ()
    order = np.argsort(-waits_ns, kind="stable")
    count = int(np.searchsorted(np.cumsum(waits_ns[order]), MOST * total)) + 1
    # Steps that wait as long as these belong to them.
    count = int((2 * waits_ns >= waits_ns[order[count - 1]]).sum())
    if count > FEW * len(steps):
        return ()
    longest, others = order[:count], order[count:]
    which = f"of {format_count(len(steps))} steps{_pattern(np.sort(steps[longest]))}"
    return (
        Evidence("steps that wait long", count, "count", which),
        Evidence("wait of such a step, median", round(float(np.median(waits_ns[longest]))), "ns"),
        Evidence(
            "wait of the other steps, median", round(float(np.median(waits_ns[others]))), "ns"
        ),
    )


def _waits(facts: Facts) -> tuple[Ints, Ints]:
    """Number and wait of each steady unprofiled step; from its length where it was only timed."""
    marks, observed = facts.trace.marks, facts.observed
    none = np.zeros(0, dtype=np.int64)
    if observed is None:
        return none, none
    rows = np.arange(len(marks), dtype=np.int64)[facts.regimes.current.rows]
    rows = rows[marks.profiled[rows] == 0][observed.warm_up :]
    waits_ns, durations_ns = marks.input_wait_ns[rows], marks.dur_ns[rows]
    known = waits_ns != NULL
    if known.sum() < FEWEST_STEPS:
        return none, none
    rest_ns = np.median((durations_ns - waits_ns)[known])
    beyond_ns = np.maximum(durations_ns - round(float(rest_ns)), 0)
    return rows, np.where(known, waits_ns, beyond_ns)


def _pattern(steps: Ints) -> str:
    """', every 12 steps' if most of them follow each other at this distance; else ''."""
    distances = np.diff(steps)
    usual = int(np.median(distances)) if len(distances) > 1 else 0
    is_regular = usual > 1 and (distances % usual == 0).mean() >= REGULAR
    return f", every {usual} steps" if is_regular else ""
