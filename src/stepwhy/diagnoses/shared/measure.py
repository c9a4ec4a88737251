"""Durations, groups and surroundings of slices, as mean steady steps have them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.columns.groups import numbered
from stepwhy.columns.intervals import Intervals
from stepwhy.columns.nesting import climb, inherit
from stepwhy.columns.sums import sums_of
from stepwhy.findings import CATEGORIES
from stepwhy.passes.counters import series
from stepwhy.passes.devices import intervals_of
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.signedinteger[Any]]
    Times = NDArray[np.int64]


class Group(msgspec.Struct, frozen=True):
    """Slices that belong together: their name, number and summed duration in ns."""

    name: str
    count: int
    total_ns: int


def tells_steps(facts: Facts) -> bool:
    """Whether the steps are known, be it that the whole record is known to be one."""
    return facts.steps.source != "whole-trace" or "whole-step" in facts.trace.meta.signals


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


def by_string(facts: Facts, names: NDArray[Any], times_ns: Times) -> list[Group]:
    """Times grouped by a string, longest first.

    Args:
        facts: Facts of the run.
        names: A string of each; (times,).
        times_ns: The times, ns; (times,).
    """
    keys, place = numbered(names)
    sums, counts = sums_of(times_ns, place, len(keys)), np.bincount(place, minlength=len(keys))
    each = zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True)
    return _longest_first([Group(facts.trace.string(key), *rest) for key, *rest in each])


def by_name(facts: Facts, rows: Rows) -> list[Group]:
    """Some slices grouped by their name, longest first."""
    return by_string(facts, facts.trace.slices.name[rows], facts.trace.slices.dur_ns[rows])


def grouped(names: Iterable[tuple[str, int]]) -> list[Group]:
    """Groups by name, longest first.

    Args:
        names: Name and duration in ns of every slice.
    """
    return merged((name, Group(name, 1, dur_ns)) for name, dur_ns in names)


def merged(groups: Iterable[tuple[str, Group]]) -> list[Group]:
    """Groups under new names, longest first; those of one name become one.

    Args:
        groups: New name and group.
    """
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, group in groups:
        known = sums[name]
        known[0] += group.count
        known[1] += group.total_ns
    return _longest_first([Group(name, *known) for name, known in sums.items()])


def _longest_first(groups: list[Group]) -> list[Group]:
    return sorted(groups, key=lambda g: (-g.total_ns, g.name))


def nearest(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """For every slice, itself or the nearest slice around it of some kinds; (slices,).

    NULL where there is none.
    """
    return facts.nearest(kinds)


def nearest_of(facts: Facts, rows: Rows, *kinds: Kind) -> NDArray[np.int64]:
    """For some slices, themselves or the nearest slice around them of some kinds; (rows,).

    NULL where there is none.
    """
    return climb(facts.nesting, rows, facts.trace.is_kind(*kinds))


def outermost(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """For every slice, the outermost slice of some kinds around it, or itself; (slices,).

    NULL where there is none.
    """
    parent, own = facts.nesting.parent, nearest(facts, *kinds)
    around = np.append(own, np.int32(NULL))[parent]
    is_outermost = (around == NULL) & facts.trace.is_kind(*kinds)
    return inherit(facts.nesting, np.where(is_outermost, own, np.int32(NULL)), null=NULL)


def source_lines(facts: Facts, rows: Rows) -> NDArray[np.int32]:
    """For some slices, the string of their source line or that of the Python around; (rows,).

    The framework's own lines do not count. NULL where there is none.
    """
    slices = facts.trace.slices
    tells = (slices.kind != Kind.FRAMEWORK) & (slices.source != NULL)
    found = climb(facts.nesting, rows, tells)
    return np.where(found == NULL, NULL, slices.source[found])


def enclosing(facts: Facts, row: int, *kinds: Kind) -> int:
    """The nearest slice of some kinds around a slice, NULL when there is none."""
    above = int(facts.nesting.parent[row])
    while above >= 0 and facts.trace.slices.kind[above] not in kinds:
        above = int(facts.nesting.parent[above])
    return above


def name_of(facts: Facts, row: int) -> str:
    """Name of a slice, '' for NULL."""
    return facts.trace.string(int(facts.trace.slices.name[row])) if row >= 0 else ""


def time_of(facts: Facts, rows: Rows) -> Intervals:
    """The union of some slices."""
    return intervals_of(facts.trace, rows)


def taken_from_the_rest(facts: Facts, cost_ns: int, rivals: float) -> int:
    """How much longer what remains of the step takes for want of a core, at an equal share, ns.

    Args:
        facts: Facts of the run.
        cost_ns: The part of the step that does not remain.
        rivals: Threads or processes beside the training that keep a core busy, on average.
    """
    cores = series(facts.trace, "cores").last
    # Operations on the CPU use all of its cores; those of a device, one for launching.
    wanted = rivals + (1 if facts.has_accelerator else cores or 1)
    if cores is None or wanted <= cores:
        return 0
    return round((facts.wall_ns - cost_ns) * (1 - cores / wanted))
