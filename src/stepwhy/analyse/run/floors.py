"""The least that the operations of a step take, by the shortest time of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.sums import sums_of
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts

FEWEST_STEPS = 3  # profiled steps; the shortest of two is nearly their mean
_OPERATIONS = (Kind.KERNEL, Kind.OP)


def operations_floor_ns(facts: Facts) -> int | None:
    """Computing time of a step in which each operation takes as long as in its shortest step.

    Operations are distinguished by name and place in the graph. Those that run at the same time
    overlap as much as in the mean step.

    Returns:
        ns per mean steady step, on the scale of its breakdown; None with too few profiled steps, or
        if no operation is in all of them.
    """
    steps = facts.steady_count
    if steps < FEWEST_STEPS:
        return None
    rows = facts.slices(*_OPERATIONS, steady=True)
    if not len(rows):
        return None
    slices, steady = facts.trace.slices, facts.steps.starts[facts.steps.steady]
    step = np.searchsorted(steady, slices.start_ns[rows], side="right") - 1
    names = numbered(slices.name[rows])[1].astype(np.int64)
    scopes, place = numbered(slices.scope[rows])
    kinds, kind = numbered(names * len(scopes) + place)
    sums = sums_of(facts.nesting.self_ns(rows), kind * steps + step, len(kinds) * steps)
    per_step = np.asarray(sums).reshape(len(kinds), steps)
    shortest = float(per_step.min(axis=1).sum())
    if not shortest:
        return None
    share = shortest / float(per_step.mean(axis=1).sum())
    return round(min(share, 1.0) * facts.breakdown["compute"])
