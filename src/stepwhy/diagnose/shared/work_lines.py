"""The lines of the program behind some work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.shared.measure import Group, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.sampled import launching_lines
from stepwhy.result import Evidence
from stepwhy.trace import NULL

_SHOWN = 2
_WORK = ("compute", "dispatch")


def work_lines(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Time per step of some slices by line, longest first.

    Where no line is known, the lines at which the driving thread is most often.
    """
    return times_at_lines(facts, rows) or launching_lines(facts)


def times_at_lines(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Time per step of some slices by line, longest first; () where no line is known."""
    longest = groups_at_lines(facts, rows)[:_SHOWN]
    return tuple(Evidence("time at the line", one.total_ns, "ns", one.name) for one in longest)


def groups_at_lines(facts: Facts, rows: AnyRows) -> list[Group]:
    """Lines of some slices, their number, and the time of the mean step, longest first."""
    lines = lines_of(facts, rows)
    known = lines != NULL
    strings, place = numbered(lines[known])
    found = []
    for number, key in enumerate(strings.tolist()):
        of_line = rows[known][place == number]
        # A union: several threads may work for one line at the same time.
        spent = on_scale(facts, mean_within(facts, time_of(facts, of_line)), "compute")
        found.append(Group(facts.trace.string(key), len(of_line), spent))
    return sorted(found, key=lambda group: -group.total_ns)


def lines_of(facts: Facts, rows: AnyRows) -> NDArray[np.int32]:
    """The line behind each of some slices, NULL where it is not known; (rows,)."""
    lines = facts.derived(slice_lines)[rows]
    return np.where(lines == NULL, _of_nodes(facts, rows), lines)


def groups_of_events(facts: Facts, kind: str) -> list[Group]:
    """Lines that events of a kind name, and the time that they work, ns per step; longest first.

    Empty if no such event was recorded, or none of the lines works in the step.
    """
    trace = facts.trace
    known = set(trace.events.source[rows_of_kinds(trace, kind)].tolist()) - {NULL}
    lines = facts.derived(line_breakdown) if known else None
    names = {trace.string(name) for name in known}
    found = (
        Group(row.line, 1, sum(row.categories.get(category, 0) for category in _WORK))
        for row in (lines.lines if lines else ())
        if row.kind == "line" and row.line in names
    )
    return sorted((one for one in found if one.total_ns), key=lambda one: -one.total_ns)


def _of_nodes(facts: Facts, rows: AnyRows) -> NDArray[np.int32]:
    """Line that made the graph node of each slice; NULL where it is not known; (rows,)."""
    nodes, scopes = facts.trace.nodes, facts.trace.slices.scope[rows]
    lines = np.full(len(facts.trace.strings) + 1, NULL, dtype=np.int32)
    lines[nodes.name] = nodes.source
    return np.where(scopes == NULL, NULL, lines[scopes])
