"""Durations, groups and ancestors of slices, per mean steady step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.breakdown.closed import ON_DEVICE
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.program_lines import has_program_line
from stepwhy.analyse.steps.counters import series
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.nesting import climb, inherit
from stepwhy.base.columns.sums import counts_of, sums_of
from stepwhy.base.columns.types import AnyRows, Ints, Times
from stepwhy.result import CATEGORIES, Evidence
from stepwhy.trace import NULL, Kind


class Group(msgspec.Struct, frozen=True):
    """Slices of one name: the name, their number and their summed duration in ns."""

    name: str
    count: int
    total_ns: int


def has_known_steps(facts: Facts) -> bool:
    """Whether the steps are known; a trace that is known to be one step counts."""
    return facts.steps.source != "whole-trace" or "whole-step" in facts.trace.meta.signals


def steady(facts: Facts) -> Intervals:
    """The steady steps as intervals."""
    steps = facts.steps
    return Intervals.of(steps.starts[steps.steady], steps.ends[steps.steady])


def mean_within(facts: Facts, time: Intervals) -> int:
    """Time of the mean steady step that some intervals cover, ns."""
    return facts.mean_ns((time & steady(facts)).total_ns)


def on_scale(facts: Facts, recorded_ns: int, *categories: str) -> int:
    """Scale a recorded time per step to the time scale of the breakdown, ns.

    If unprofiled steps were observed, the breakdown describes those, and the overhead of the
    profiler has to be removed from recorded times. On a busy machine, the recorded steps may have
    been shorter than others: then their parts are longer there, too, but by no more than the step.

    Args:
        facts: Facts of the run.
        recorded_ns: Time per mean recorded step.
        categories: Categories of the breakdown that the time belongs to; all by default.
    """
    recorded = sum(facts.recorded[c] for c in categories or CATEGORIES)
    unprofiled = sum(facts.breakdown[c] for c in categories or CATEGORIES)
    longest = max(facts.wall_ns / max(sum(facts.recorded.values()), 1), 1.0)
    ratio = min(unprofiled / recorded, longest) if recorded else 1.0
    return min(round(recorded_ns * ratio), facts.wall_ns)


def idle(facts: Facts) -> Intervals:
    """Time of the steady steps in which none of the leading devices works."""
    rest = steady(facts)
    for activity in facts.leading:
        rest = rest - activity.busy
    return rest


def idle_ns(facts: Facts) -> int:
    """Time of the mean step, as the breakdown describes it, in which no leading device works."""
    return facts.wall_ns - sum(facts.breakdown[category] for category in ON_DEVICE)


def by_string(facts: Facts, names: NDArray[Any], times_ns: Times) -> list[Group]:
    """Times grouped by a string, longest sum first.

    Args:
        facts: Facts of the run.
        names: Index of a string for each time; (times,).
        times_ns: The times, ns; (times,).
    """
    keys, place = numbered(names)
    sums, counts = sums_of(times_ns, place, len(keys)), counts_of(place, len(keys))
    each = zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True)
    return _longest_first([Group(facts.trace.string(key), *rest) for key, *rest in each])


def by_name(facts: Facts, rows: AnyRows) -> list[Group]:
    """Slices grouped by name, longest sum first."""
    return by_string(facts, facts.trace.slices.name[rows], facts.trace.slices.dur_ns[rows])


def grouped(names: Iterable[tuple[str, int]]) -> list[Group]:
    """Slices grouped by name, longest sum first.

    Args:
        names: Name and duration in ns of each slice.
    """
    return merged((name, Group(name, 1, dur_ns)) for name, dur_ns in names)


def merged(groups: Iterable[tuple[str, Group]]) -> list[Group]:
    """Rename groups and merge those of the same name, longest sum first.

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


def times(facts: Facts, what: str, groups: Iterable[Group]) -> tuple[Evidence, ...]:
    """The time per step of each group on the scale of the breakdown, with its name as the place.

    Args:
        facts: Facts of the run.
        what: What is measured.
        groups: The groups.
    """
    named = ((group.name, on_scale(facts, facts.mean_ns(group.total_ns))) for group in groups)
    return tuple(Evidence(what, time_ns, "ns", name) for name, time_ns in named)


def nearest(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """For each slice, itself or its nearest ancestor of some kinds; (slices,).

    NULL if there is none.
    """
    return facts.nearest(kinds)


def nearest_of(facts: Facts, rows: AnyRows, *kinds: Kind) -> Ints:
    """For each of the given slices, itself or its nearest ancestor of some kinds; (rows,).

    NULL if there is none.
    """
    return climb(facts.nesting, rows, facts.trace.is_kind(*kinds))


def outermost(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """For each slice, its outermost ancestor of some kinds, or itself; (slices,).

    NULL if there is none.
    """
    parent, own = facts.nesting.parent, nearest(facts, *kinds)
    around = np.append(own, np.int32(NULL))[parent]
    is_outermost = (around == NULL) & facts.trace.is_kind(*kinds)
    return inherit(facts.nesting.parent, np.where(is_outermost, own, np.int32(NULL)), null=NULL)


def source_lines(facts: Facts, rows: AnyRows) -> NDArray[np.int32]:
    """For each of the given slices, its source line or that of its nearest ancestor; (rows,).

    Strings. Lines of the framework and of the standard library do not count. NULL if there is none.
    """
    found = climb(facts.nesting, rows, has_program_line(facts.trace))
    return np.where(found == NULL, NULL, facts.trace.slices.source[found])


def enclosing(facts: Facts, row: int, *kinds: Kind) -> int:
    """The nearest ancestor of some kinds of a slice; NULL if there is none."""
    above = int(facts.nesting.parent[row])
    while above >= 0 and facts.trace.slices.kind[above] not in kinds:
        above = int(facts.nesting.parent[above])
    return above


def name_of(facts: Facts, row: int) -> str:
    """Name of a slice, '' for NULL."""
    return facts.trace.string(int(facts.trace.slices.name[row])) if row >= 0 else ""


def time_of(facts: Facts, rows: AnyRows) -> Intervals:
    """Union of the times of some slices."""
    return intervals_of(facts.trace, rows)


def contention_ns(facts: Facts, cost_ns: int, competitors: float) -> int:
    """Time that the rest of the step loses because it shares the cores with other threads, ns.

    Args:
        facts: Facts of the run.
        cost_ns: Part of the step that is not in the rest.
        competitors: Mean number of other threads or processes that keep a core busy each.
    """
    cores = series(facts.trace, "cores").last
    # Operations on the CPU use all of its cores; an accelerator needs one, for launches.
    needed = competitors + (1 if facts.has_accelerator else cores or 1)
    if cores is None or needed <= cores:
        return 0
    return round((facts.wall_ns - cost_ns) * (1 - cores / needed))
