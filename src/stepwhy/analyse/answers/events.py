"""Traces, compilations and graph changes, grouped by their cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import group_rows, rows_by_group
from stepwhy.base.columns.intervals import Intervals
from stepwhy.result import EventGroup
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace


_TIMELESS = (
    "session",
    "pair-line",
    "parameters",
    "batch",
    "batch-arguments",
    "batch-line",
    "batched-branches",
    "changing-lines",
    "child",
    "copy",
    "dense-table",
    "dense-table-work",
    "fsync",
    "gradient-use",
    "gradient-walk",
    "graph-loop",
    "hooks",
    "independent-calls",
    "iterable",
    "made",
    "polled-save",
    "repeated-gradient",
    "same-arguments",
    "semantic-step",
    "separate-products",
    "setting",
    "stable-functions",
    "tensor-maker",
    "unowned-call",
    "unowned-parameters",
    "zero-argument",
)


def find_events(trace: Trace) -> tuple[EventGroup, ...]:
    """The events of a run grouped by kind, name and source line, in order of first occurrence.

    Sessions, types of parameters, sizes of batches and copied arrays are left out: they take no
    time themselves. So are waits for the disk and for child processes, as they cause nothing to be
    compiled, and what the observer notes for a diagnosis.
    """
    events = trace.events
    happened = np.flatnonzero(~np.isin(events.kind, trace.strings_where(_TIMELESS)))
    if not len(happened):
        return ()
    keys = (events.kind[happened], events.name[happened], events.source[happened])
    first, group = group_rows(*keys)
    groups = rows_by_group(group, len(first))[1]
    return tuple(_group(trace, happened[rows]) for rows in groups)


def _group(trace: Trace, rows: NDArray[np.integer]) -> EventGroup:
    """Summary of the events in some rows, all of one kind, name and source line."""
    events = trace.events
    starts, ends = events.start_ns[rows], events.start_ns[rows] + events.dur_ns[rows]
    reasons = list(dict.fromkeys(int(r) for r in events.reason[rows] if r != NULL))
    kind = trace.string(int(events.kind[rows[0]]))
    added = events.count[rows]
    return EventGroup(
        kind=kind,
        name=trace.string(int(events.name[rows[0]])),
        source=trace.string(int(events.source[rows[0]])),
        count=len(rows),
        total_ns=Intervals.of(starts, ends).total_ns,
        steps_affected=_affected(trace, starts, ends),
        first_reason=trace.string(reasons[0]) if reasons else "",
        reasons=len(reasons),
        first_step=_step_at(trace, int(starts[0])),
        last_step=_step_at(trace, int(starts[-1])),
        added=int(added[added != NULL].sum()) if kind == "graph" else None,
    )


def _affected(trace: Trace, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Number of steps that overlap any interval [start, end] of the events."""
    marks = trace.marks
    if not len(marks):
        return 0
    mark_ends = np.maximum.accumulate(marks.start_ns + marks.dur_ns)
    first = np.searchsorted(mark_ends, starts, side="right")
    last = np.searchsorted(marks.start_ns, np.maximum(ends, starts + 1), side="left")
    touched = np.zeros(len(marks) + 1, dtype=np.int64)
    np.add.at(touched, first, 1)
    np.add.at(touched, np.maximum(last, first), -1)
    return int((np.cumsum(touched) > 0).sum())


def _step_at(trace: Trace, time_ns: int) -> int | None:
    """Number of the step in or after which a time is, from 1; 0 before all; None without steps."""
    starts = trace.marks.start_ns
    return int(np.searchsorted(starts, time_ns, side="right")) if len(starts) else None
