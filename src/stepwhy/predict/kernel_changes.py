"""Edits of kernels, and of what operations launch.

Where it is not certain what an edit does, it is applied twice, once at its best and once at its
least: fused kernels take as long as the longest of them, or half of the others as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.selection import of_threads, rows_of
from stepwhy.base.columns.groups import by_code, group_rows
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.predict.change import (
    Change,
    NothingToChangeError,
    kept_share,
    matcher,
    remove_work,
    scale,
    shorten_host,
    stop_work,
    work_of_kinds,
)
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Rows
    from stepwhy.result.edits import Edit


# What fusing costs at most: this share of the kernels that the longest one replaces.
_NOT_FUSED = 0.5


def change_work(change: Change, edit: Edit) -> None:
    """Kernels, or what operations launch."""
    chosen = (
        _launched_by_ops(change, edit)
        if edit.what == "ops"
        else work_of_kinds(change, edit, Kind.KERNEL, Kind.MEMSET)
    )
    if edit.change == "fused" and edit.pattern:
        kept = _fuse(change, chosen, of_ops=edit.what == "ops")
        if edit.what == "ops":
            # At least, what the host does between these operations stays.
            where = _ops(change, edit.pattern)
            if not change.best:
                where = where & intervals_of(change.facts.trace, _driving_slices(change, Kind.OP))
            shorten_host(change, where, kept)
    elif edit.cost_ns is not None:
        _shorten_all(change, chosen, edit)
    elif edit.change == "fused":
        _fuse(change, chosen)
    elif edit.change == "gone":
        remove_work(change, chosen)
        if edit.what == "ops":
            shorten_host(change, _ops(change, edit.pattern), 0.0)
    else:
        scale(change, chosen, kept_share(edit))


def _ops(change: Change, pattern: str = "") -> Intervals:
    """The time of the matching operations on the driving threads, or of all."""
    trace, rows = change.facts.trace, _driving_slices(change, Kind.OP, Kind.FRAMEWORK)
    if pattern:
        rows = rows[trace.matches(trace.slices.name[rows], matcher(pattern))]
    if not len(rows):
        raise NothingToChangeError(f"The trace has no operation of the name {pattern}")
    return intervals_of(trace, rows)


def _driving_slices(change: Change, *kinds: Kind) -> Rows:
    """Slices of some kinds on the driving threads, ascending."""
    facts = change.facts
    return rows_of(facts.trace, kinds, of_threads(facts.trace, facts.threads.all))


def _launched_by_ops(change: Change, edit: Edit) -> Rows:
    """Device slices that the matching operations launched, as positions."""
    nodes, within = change.graph.nodes, _ops(change, edit.pattern)
    known = np.flatnonzero(nodes.calls != NULL)
    start_ns = change.facts.trace.slices.start_ns[nodes.calls[known]]
    inside = Measure(within).within(start_ns, start_ns + 1) > 0
    return known[inside]


def _shorten_all(change: Change, chosen: Rows, edit: Edit) -> None:
    """Some of the chosen kernels save a part of the step: all become shorter by as much.

    So does the host where it runs the operations that disappear. Of what fusing could save, at
    least half is saved.
    """
    nodes, facts = change.graph.nodes, change.facts
    steady = chosen[facts.is_steady[nodes.rows[chosen]]]
    total = change.graph.mean_ns(_busiest_device_ns(change, steady))
    share = (edit.cost_ns or 0) * (1 - kept_share(edit)) / max(total, 1)
    sure = 1.0 if change.best or edit.change != "fused" else 1 - _NOT_FUSED
    scale(change, chosen, 1 - min(sure * share, 1.0))
    if edit.what == "ops" and edit.change == "gone":
        shorten_host(change, _ops(change, edit.pattern), 1 - min(share, 1.0))
    elif edit.host_ns:
        _shorten_ops(change, sure * edit.host_ns)


def _busiest_device_ns(change: Change, chosen: Rows) -> float:
    """Time of some device slices on the device that spends most in them, ns: others overlap."""
    nodes, trace = change.graph.nodes, change.facts.trace
    devices = trace.tracks.device[trace.slices.track[nodes.rows[chosen]]]
    _, place = group_rows(devices)
    each = np.bincount(place, weights=change.duration_ns[nodes.first + chosen])
    return float(each.max(initial=0.0))


def _shorten_ops(change: Change, host_ns: float) -> None:
    """Operations of the driving threads take less time per step, all of them the same share."""
    facts, ops = change.facts, _ops(change)
    total = facts.mean_ns(float(facts.steady_time.common_ns(ops)))
    shorten_host(change, ops, 1 - min(host_ns / max(total, 1), 1.0))


def _fuse(change: Change, chosen: Rows, *, of_ops: bool = False) -> float:
    """Runs of chosen kernels that follow each other on a stream become one launch each.

    Args:
        change: The change.
        chosen: The kernels, as positions among the device slices.
        of_ops: Whether kernels of one name are of different tensors, so that all of their work has
            to be done.

    Returns:
        Share of the launches that is left.
    """
    nodes, names = change.graph.nodes, change.facts.trace.slices.name
    is_chosen = np.zeros(len(nodes.rows), dtype=bool)
    is_chosen[chosen] = True
    order, first = by_code(nodes.stream)
    breaks = ~is_chosen[order]
    breaks[first] = True
    run = np.cumsum(breaks | ~np.append(False, is_chosen[order][:-1]))[is_chosen[order]]
    rows = order[is_chosen[order]]
    duration_ns = change.duration_ns[nodes.first + rows]
    _, number = group_rows(run)
    total = np.bincount(number, weights=duration_ns).astype(np.int64)
    part = names[nodes.rows[rows]] if of_ops else np.arange(len(rows))
    longest = _longest_part(number, part, duration_ns, len(total))
    begins = np.append(True, number[1:] != number[:-1])[: len(rows)]
    fused = longest if change.best else longest + np.rint(_NOT_FUSED * (total - longest))
    # The host's time in operations that run less often includes their launches.
    (stop_work if of_ops else remove_work)(change, rows[~begins])
    change.duration_ns[nodes.first + rows[begins]] = fused
    change.note("A fused kernel takes as long as its longest part, and up to half of the others.")
    return len(total) / max(len(rows), 1)


def _longest_part(
    run: NDArray[np.signedinteger[Any]],
    part: NDArray[np.signedinteger[Any]],
    duration_ns: Rows,
    runs: int,
) -> Rows:
    """Time of the part of each run that takes longest; (runs,).

    Args:
        run: Number of the run of each kernel; (kernels,).
        part: What each kernel is a part of; (kernels,).
        duration_ns: Duration of each; (kernels,).
        runs: How many runs there are.
    """
    firsts, place = group_rows(run, part)
    longest = np.zeros(runs, dtype=np.int64)
    times = np.bincount(place, weights=duration_ns, minlength=len(firsts)).astype(np.int64)
    np.maximum.at(longest, run[firsts], times)
    return longest
