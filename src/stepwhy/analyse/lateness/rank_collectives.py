"""Find the collectives of a rank, with their roles, steps and order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.analyse.activity.selection import rows_of
from stepwhy.analyse.ranks.collectives import ALL_RANKS, Collectives, Role
from stepwhy.base.columns.groups import count_distinct, distinct_rows, looked_up
from stepwhy.base.columns.nesting import climb
from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names.collectives import collective_of
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace

    Ints = NDArray[np.int64]
    Rows = NDArray[np.signedinteger[Any]]

# Some dozen groups are usual for a rank; with more of them, the record is damaged.
_MOST_ROLES = 4096
# The number of a step in the name of its marker, such as 'ProfilerStep#12'.
_NUMBER = regex(r"(\d{1,15})\D*$")
# Ranges around the launch of a collective. Kernels for several operations share a name.
_RANGE = regex(r"nccl:|xccl:|hccl:")


def find_collectives(facts: Facts) -> Collectives | None:
    """The collectives in the steady steps of a rank.

    None if its number is not known, if it uses several devices, each of which takes part by itself,
    or if there are more groups than any program has.
    """
    if facts.trace.meta.rank == NULL:
        return None
    numbers, numbering = step_numbers(facts)
    rows, step = _in_steps(facts)
    if count_distinct(facts.trace.tracks.device[facts.trace.slices.track[rows]]) > 1:
        return None
    roles, role = _roles(facts, rows)
    if len(roles) > _MOST_ROLES:
        return None
    slices = facts.trace.slices
    return Collectives(
        roles=tuple(roles),
        role=role,
        step=numbers[step],
        start_ns=slices.start_ns[rows].astype(np.int64),
        dur_ns=slices.dur_ns[rows].astype(np.int64),
        bytes=slices.bytes[rows].astype(np.int64),
        steps=numbers[facts.steps.steady],
        numbering=numbering,
    )


def step_numbers(facts: Facts) -> tuple[Ints, str]:
    """Numbers of the recorded steps, ascending, and where they come from, see `Collectives`.

    Each rank opens its window when its own loop has warmed up, so that the profiler's numbers may
    differ for the same step; those of the log of steps do not.
    """
    for numbering, numbers in (("log", _logged(facts)), ("marker", _marked(facts))):
        if numbers is not None:
            return numbers, numbering
    return np.arange(len(facts.steps.starts)), "order"


def _logged(facts: Facts) -> Ints | None:
    """Place of each recorded step among the logged ones; None if not each has one; (steps,)."""
    marks, steps = facts.trace.marks, facts.steps
    if not len(marks) or not len(steps.host_starts):
        return None
    middle = (steps.host_starts + steps.host_ends) // 2
    found = np.searchsorted(marks.start_ns, middle, side="right") - 1
    is_inside = (found >= 0) & (marks.start_ns[found] + marks.dur_ns[found] > middle)
    return found if is_inside.all() and (np.diff(found) > 0).all() else None


def _marked(facts: Facts) -> Ints | None:
    """Numbers of the steps by the names of their markers; None if not all have one; (steps,)."""
    trace, starts = facts.trace, facts.steps.host_starts
    if facts.steps.source != "marker" or not len(starts):
        return None
    rows = rows_of(trace, (Kind.STEP,))
    rows = rows[trace.slices.track[rows] == facts.threads.driving]
    marked = trace.slices.start_ns[rows]
    # A step begins with its marker, or a rounding error later, where the last one ends. Of markers
    # that begin together, the first is the outermost.
    begun = marked[np.maximum(np.searchsorted(marked, starts, side="right") - 1, 0)]
    place = np.searchsorted(marked, begun)
    found = [_NUMBER.search(trace.string(int(n))) for n in trace.slices.name[rows[place]]]
    numbers = np.array([int(m[1]) if m else NULL for m in found], dtype=np.int64)
    return numbers if (numbers >= 0).all() and (np.diff(numbers) > 0).all() else None


def _in_steps(facts: Facts) -> tuple[Rows, Ints]:
    """Collectives of the steady steps in the order of their launches, and the step of each.

    A collective belongs to the step that launched it: ranks launch the same ones in each step, but
    a late one may run when another rank's next step has begun.
    """
    rows, steps = facts.slices(Kind.COLLECTIVE), facts.steps
    calls = facts.launches.calls_of(rows)
    start_ns = facts.trace.slices.start_ns
    launched = np.where(calls == NULL, start_ns[rows], start_ns[calls])
    of_host = np.searchsorted(steps.host_starts, launched, side="right") - 1
    of_device = np.searchsorted(steps.starts, start_ns[rows], side="right") - 1
    step = np.where(calls == NULL, of_device, of_host)
    first, stop, _ = steps.steady.indices(len(steps.starts))
    ends = np.where(calls == NULL, steps.ends[step], steps.host_ends[step])
    chosen = np.flatnonzero((step >= first) & (step < stop) & (launched < ends))
    order = chosen[np.argsort(launched[chosen], kind="stable")]
    return rows[order], step[order].astype(np.int64)


def _roles(facts: Facts, rows: Rows) -> tuple[list[Role], Ints]:
    """The different roles of some collectives, and the role of each; (rows,)."""
    table, trace = facts.trace.collectives, facts.trace
    names = ("operation", "group", "members", "description", "ranks")
    columns = [looked_up(table.slice, getattr(table, name), rows, NULL) for name in names]
    distinct, code = distinct_rows(trace.slices.name[rows], _ranges(facts, rows), *columns)
    found: dict[Role, int] = {}
    usual = _size_of_only_group(trace)
    places = [
        found.setdefault(
            _role([trace.string(text) for text in key[:-1]], usual if key[-1] == NULL else key[-1]),
            len(found),
        )
        for key in distinct
    ]
    return list(found), np.array(places, dtype=np.int64)[code]


def _size_of_only_group(trace: Trace) -> int:
    """Number of ranks in the only process group that the rank has used, if it is that of all.

    NULL if there are several, or if its calls are not listed. Traces of Gloo name no groups.
    """
    calls, world_size = trace.collective_calls, trace.meta.world_size
    mine = np.flatnonzero(calls.p2p == 0)
    if not len(mine) or len(np.unique(calls.group[mine])) > 1:
        return NULL
    is_of_all = trace.string(int(calls.description[mine[0]])) == ALL_RANKS
    return world_size if is_of_all or int(calls.size[mine[0]]) == world_size else NULL


def _role(texts: Sequence[str], size: int) -> Role:
    """The role of a collective.

    Args:
        texts: Its name, that of the range that launched it, its operation, the name, members and
            description of its group; '' for what is not recorded.
        size: Number of ranks in the group.
    """
    name, around, operation, group, members, description = texts
    known = filter(None, map(collective_of, (operation, around, name)))
    return Role(next(known, operation or name), group, members, description, size)


def _ranges(facts: Facts, rows: Rows) -> Rows:
    """Name of the range in which each collective was launched, NULL without one; (rows,)."""
    trace, found = facts.trace, np.full(len(rows), NULL, dtype=np.int64)
    calls = facts.launches.calls_of(rows)
    known = np.flatnonzero(calls != NULL)
    if not len(known):
        return found
    ranges = facts.slices(Kind.FRAMEWORK)
    is_range = np.zeros(len(trace.slices), dtype=bool)
    is_range[ranges] = trace.matches(trace.slices.name[ranges], _RANGE.match)
    if is_range.any():
        around = climb(facts.nesting, calls[known], is_range)
        inside = around != NULL
        found[known[inside]] = trace.slices.name[around[inside]]
    return found
