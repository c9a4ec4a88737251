"""Small questions that several diagnoses ask of the facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.findings import CATEGORIES
from stepwhy.passes.devices import intervals_of
from stepwhy.passes.intervals import Intervals
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Group:
    """Slices that belong together: their name, number and summed duration in ns."""

    name: str
    count: int
    total_ns: int


def steady(facts: Facts) -> Intervals:
    """The steady steps as a set of time."""
    steps = facts.steps
    return Intervals.of(steps.starts[steps.steady], steps.ends[steps.steady])


def mean_within(facts: Facts, time: Intervals) -> int:
    """How much of a set of time lies in the mean steady step, ns."""
    return facts.mean_ns((time & steady(facts)).total_ns)


def on_scale(facts: Facts, recorded_ns: int, *categories: str) -> int:
    """A recorded time per step on the time scale of the breakdown, never longer.

    Where unprofiled steps were observed, the breakdown is theirs, and what the profiler added to
    the recorded ones has to go.

    Args:
        facts: Facts of the run.
        recorded_ns: Time per mean recorded step.
        categories: The categories of the breakdown that it is a part of; all by default.
    """
    recorded = sum(facts.recorded[c] for c in categories or CATEGORIES)
    unprofiled = sum(facts.breakdown[c] for c in categories or CATEGORIES)
    ratio = min(unprofiled / recorded, 1.0) if recorded else 1.0
    return min(round(recorded_ns * ratio), facts.wall_ns)


def idle(facts: Facts) -> Intervals:
    """The steady steps without what the leading devices do."""
    rest = steady(facts)
    for activity in facts.leading:
        rest = rest - activity.busy
    return rest


def steady_rows(facts: Facts, *kinds: Kind) -> NDArray[np.int64]:
    """Slices of some kinds that start in a steady step, ascending; (slices,)."""
    return facts.in_steady(facts.trace.rows(*kinds))


def grouped(names: Iterable[tuple[str, int]]) -> list[Group]:
    """Groups by name, longest first.

    Args:
        names: Name and duration in ns of every slice.
    """
    sums: dict[str, list[int]] = {}
    for name, dur_ns in names:
        entry = sums.setdefault(name, [0, 0])
        entry[0] += 1
        entry[1] += dur_ns
    groups = [Group(name, *entry) for name, entry in sums.items()]
    return sorted(groups, key=lambda g: (-g.total_ns, g.name))


def by_name(facts: Facts, rows: NDArray[np.int64]) -> list[Group]:
    """Some slices grouped by their name, longest first."""
    slices = facts.trace.slices
    pairs = zip(slices.name[rows].tolist(), slices.dur_ns[rows].tolist(), strict=True)
    return grouped((facts.trace.string(name), dur_ns) for name, dur_ns in pairs)


def enclosing(facts: Facts, row: int, *kinds: Kind) -> int:
    """The nearest slice of some kinds around a slice, NOWHERE when there is none."""
    above = int(facts.nesting.parent[row])
    while above >= 0 and facts.trace.slices.kind[above] not in kinds:
        above = int(facts.nesting.parent[above])
    return above


def name_of(facts: Facts, row: int) -> str:
    """Name of a slice, '' for NOWHERE."""
    return facts.trace.string(int(facts.trace.slices.name[row])) if row >= 0 else ""


def source_line(facts: Facts, row: int) -> str:
    """The source line that a slice was called from: its own, or that of the Python around it."""
    at = row
    while at >= 0:
        source = int(facts.trace.slices.source[at])
        is_framework = facts.trace.slices.kind[at] == Kind.FRAMEWORK
        if source != NULL and not is_framework:
            return facts.trace.string(source)
        at = int(facts.nesting.parent[at])
    return ""


def time_of(facts: Facts, rows: NDArray[np.int64]) -> Intervals:
    """The union of some slices."""
    return intervals_of(facts.trace, rows)


def scopes_among(facts: Facts, rows: NDArray[np.int64], nodes: frozenset[str]) -> NDArray[np.int64]:
    """Those of the rows whose graph node is one of the given; (slices,)."""
    wanted = facts.trace.strings_where(nodes)
    return rows[np.isin(facts.trace.slices.scope[rows], wanted)]
