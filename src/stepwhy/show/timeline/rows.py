"""Rows of a timeline: one per track, with lanes in which slices do not overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import by_code
from stepwhy.base.columns.lanes import assign_lanes
from stepwhy.result.timeline import TimelineRow
from stepwhy.trace import NULL, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.result.timeline import RowRole
    from stepwhy.trace import Trace

    Ints = NDArray[np.int64]


def track_rows(facts: Facts) -> tuple[list[TimelineRow], Ints]:
    """A row for each track that has slices; executors of one device with one name share a row.

    Returns:
        The rows, with those of the driving thread first, then devices, then other threads; and the
        strip of each slice, which numbers the lanes of all rows in that order; (slices,).
    """
    trace = facts.trace
    shown = _shared_tracks(trace)[trace.slices.track]
    order, begins = by_code(shown)
    groups = np.split(order, begins[1:]) if len(order) else []
    of_track = {int(shown[rows[0]]): rows for rows in groups}
    depth = _depths(facts.nesting.parent)
    is_cut = set(trace.slices.track[facts.nesting.cut].tolist())
    strip = np.empty(len(trace.slices), dtype=np.int64)
    starts, durations = trace.slices.start_ns, trace.slices.dur_ns
    found, first = [], 0
    for track in sorted(of_track, key=lambda one: _order(facts, one)):
        rows = of_track[track]
        is_tree = trace.tracks.role[track] == Role.HOST_THREAD and track not in is_cut
        lane = depth[rows] if is_tree else lanes_of(starts[rows], durations[rows])
        counts = np.bincount(lane).tolist()
        strip[rows] = lane + first
        first += len(counts)
        found.append(row_of(trace, track, counts))
    return found, strip


def _shared_tracks(trace: Trace) -> Ints:
    """The track on whose row each track is drawn; (tracks,).

    Each traced step of a session has executors of its own, which differ only by their numbers.
    """
    tracks = trace.tracks
    first: dict[tuple[int, int, int], int] = {}
    shown = np.arange(len(tracks))
    for track in np.flatnonzero(tracks.role == Role.EXECUTOR).tolist():
        key = int(tracks.device[track]), int(tracks.process[track]), int(tracks.name[track])
        shown[track] = first.setdefault(key, track)
    return shown


def _depths(parent: NDArray[np.int32]) -> Ints:
    """Nesting depth of each slice; (slices,)."""
    depth = np.zeros(len(parent), dtype=np.int64)
    inside = np.flatnonzero(parent != NULL)
    around = parent[inside]
    while len(inside):
        depth[inside] += 1
        further = parent[around] != NULL
        inside, around = inside[further], parent[around[further]]
    return depth


def lanes_of(starts: Ints, durations: Ints) -> Ints:
    """Lanes for the slices of a track, which may overlap; (slices,).

    Args:
        starts: Their starts; (slices,).
        durations: Their durations; (slices,).
    """
    if (starts[1:] >= np.maximum.accumulate(starts + durations)[:-1]).all():
        return np.zeros(len(starts), dtype=np.int64)
    return assign_lanes(starts, durations).astype(np.int64)


def _order(facts: Facts, track: int) -> tuple[int, int, int]:
    """The driving threads come first, then devices, then other threads."""
    tracks = facts.trace.tracks
    if track in facts.threads.all:
        return 0, int(track != facts.threads.driving), track
    if tracks.role[track] in {Role.STREAM, Role.EXECUTOR}:
        return 1, int(tracks.device[track]), track
    return 2, int(tracks.process[track]), track


def row_of(trace: Trace, track: int, lanes: list[int]) -> TimelineRow:
    """The row of a track; lanes are their numbers of slices."""
    tracks = trace.tracks
    device, process = int(tracks.device[track]), int(tracks.process[track])
    on_device = tracks.role[track] in {Role.STREAM, Role.EXECUTOR} and device != NULL
    host = "Host" if process == NULL else f"Host, process {process}"
    group = trace.string(int(trace.devices.name[device])) if on_device else host
    role: RowRole = "stream" if on_device else "thread"
    return TimelineRow(trace.string(int(tracks.name[track])), group, role, tuple(lanes))
