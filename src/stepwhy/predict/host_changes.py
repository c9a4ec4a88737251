"""Edits of what the host does: its work, its input, its launches and its waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.input.batch_work import find_batch_work
from stepwhy.predict.change import Change, NothingToChangeError, kept_share, matcher, shorten_host
from stepwhy.predict.edges import NEVER_NS, Cause
from stepwhy.predict.points import Point

if TYPE_CHECKING:
    from stepwhy.result.edits import Edit


def change_host(change: Change, edit: Edit) -> None:
    """A category of host work."""
    facts = change.facts
    where = facts.evidence[edit.what]
    total = facts.recorded[edit.what]
    if not len(where) or not total:
        raise NothingToChangeError(f"The steps spend no time in {edit.what}")
    kept = 0.0 if edit.change == "overlapped" else kept_share(edit)
    if edit.cost_ns is not None:
        kept = 1 - (1 - kept) * min(edit.cost_ns / max(facts.breakdown[edit.what], 1), 1.0)
    shorten_host(change, where, kept)
    if edit.change == "overlapped":
        change.floor_ns = max(change.floor_ns, float((1 - kept) * total))


def change_input(change: Change, edit: Edit) -> None:
    """The next batch is ready, or prepared beside the step."""
    facts = change.facts
    where = facts.evidence["input_wait"]
    if not len(where):
        raise NothingToChangeError("The steps do not wait for input")
    shorten_host(change, where, 0.0)
    if edit.change in {"workers", "prefetch"}:
        work = find_batch_work(facts)
        work_ns = work.work_ns if work is not None else facts.usual_input_wait_ns
        change.floor_ns = max(change.floor_ns, work_ns / (edit.count or 1))


def change_launches(change: Change, edit: Edit) -> None:
    """Calls that launch device work."""
    trace, points = change.facts.trace, change.graph.nodes.points
    calls = points.row[points.of(Point.LAUNCH)]
    calls = np.setdiff1d(calls, change.facts.launches.blocking_calls)
    if not len(calls):
        raise NothingToChangeError("The driving threads launch nothing")
    shorten_host(change, intervals_of(trace, calls), kept_share(edit))


def change_waits(change: Change, edit: Edit) -> None:
    """Calls that wait for the device no longer do."""
    graph = change.graph
    points, edges, trace = graph.nodes.points, graph.edges, change.facts.trace
    ends = points.of(Point.WAIT_END)
    if edit.pattern:
        names = trace.slices.name[points.row[ends]]
        ends = ends[trace.matches(names, matcher(edit.pattern))]
    if not len(ends):
        of = f" of the name {edit.pattern}" if edit.pattern else ""
        raise NothingToChangeError(f"The driving threads do not wait for the device in calls{of}")
    is_end = np.zeros(len(graph.nodes), dtype=bool)
    is_end[ends] = True
    waits = is_end[edges.target] & (edges.cause == Cause.WAIT)
    change.lag_ns[waits] = NEVER_NS
    change.delay_ns[ends] = 0
