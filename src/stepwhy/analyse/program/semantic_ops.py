"""Carry what the semantic step shows of operations over to the recorded steps.

Both run the same program. Operations match by name, and by how many of that name came before them
in their step. The semantic step sees what lies below autograd, the profiler also what is inside
that, so that only the outermost operations of these names count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns import nesting
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

REFUSED = "semantic-step"
"""Kind of the event that says why there was no semantic step."""


class Matched(msgspec.Struct, frozen=True):
    """Operations of the steady steps that the semantic step ran as well.

    Args:
        rows: Slices of the operations; (matched,).
        places: Rows of `step_ops`; NULL where the step ran another number of operations of that
            name; (matched,).
    """

    rows: NDArray[np.int64]
    places: NDArray[np.int64]


def has_semantics(facts: Facts) -> bool:
    """Whether the operations of a step were looked at."""
    return len(facts.trace.step_ops) > 0


def why_none(facts: Facts) -> str:
    """Why the operations of no step were looked at, a clause; '' if it is not known."""
    events = facts.trace.events
    rows = np.flatnonzero(np.isin(events.kind, facts.trace.strings_where({REFUSED})))
    return facts.trace.string(int(events.reason[rows[-1]])) if len(rows) else ""


def matched_ops(facts: Facts) -> Matched:
    """The operations that both show; see the module."""
    return facts.derived(_matched)


def _matched(facts: Facts) -> Matched:
    slices, known = facts.trace.slices, facts.trace.step_ops.name
    rows = _outermost(facts, known)
    step = np.searchsorted(facts.steps.starts, slices.start_ns[rows], side="right")
    # Step and name in one number, to find the place of each operation among its like.
    group = step.astype(np.int64) * (len(facts.trace.strings) + 1) + slices.name[rows]
    nth, count = _ranks(group)
    known_nth, known_count = _ranks(known.astype(np.int64))
    order = np.lexsort((known_nth, known))
    first = order[np.searchsorted(known[order], slices.name[rows])]
    is_equal = known_count[first] == count
    position = np.searchsorted(known[order], slices.name[rows]) + np.where(is_equal, nth, 0)
    return Matched(rows, np.where(is_equal, order[position], NULL))


def _outermost(facts: Facts, names: NDArray[np.int32]) -> NDArray[np.int64]:
    """Operations of some names in the steady steps that are in no other of them, ascending."""
    slices = facts.trace.slices
    is_named = np.isin(slices.name, names) & facts.trace.is_kind(Kind.OP)
    around = nesting.nearest(facts.nesting, is_named)
    above = np.append(around, np.int32(NULL))[facts.nesting.parent]
    return np.flatnonzero(is_named & (above == NULL) & facts.is_steady)


def _ranks(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each key, how many equal ones come before it, and how many there are; (keys,) twice."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(starts, append=len(keys))
    nth, count = np.empty((2, len(keys)), dtype=np.int64)
    nth[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    count[order] = np.repeat(counts, counts)
    return nth, count


def work_ns(facts: Facts, matched: Matched) -> NDArray[np.int64]:
    """Time of each operation, or of its kernels on an accelerator, ns; (matched,)."""
    slices = facts.trace.slices
    if not facts.has_accelerator:
        own: NDArray[np.int64] = slices.dur_ns[matched.rows]
        return own
    is_matched = np.zeros(len(slices), dtype=bool)
    is_matched[matched.rows] = True
    kernels, calls = facts.launches.joined
    ops = nesting.nearest(facts.nesting, is_matched)[calls]
    place = np.searchsorted(matched.rows, ops)
    times = np.zeros(len(matched.rows) + 1, dtype=np.int64)
    np.add.at(times, np.where(ops == NULL, len(matched.rows), place), slices.dur_ns[kernels])
    return times[:-1]


def shares_of(facts: Facts, matched: Matched, values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Value of each operation; the mean of its name where the operations do not match; (matched,).

    Args:
        facts: Facts of the run.
        matched: The operations.
        values: A value of each operation of the semantic step; (step_ops,).
    """
    names = facts.trace.step_ops.name
    sums, counts = (np.zeros(len(facts.trace.strings), dtype=np.float64) for _ in range(2))
    np.add.at(sums, names, values)
    np.add.at(counts, names, 1)
    mean = (sums / np.maximum(counts, 1))[facts.trace.slices.name[matched.rows]]
    return np.where(matched.places == NULL, mean, values[matched.places])
