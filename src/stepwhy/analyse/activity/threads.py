"""Find the threads that drive the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.selection import mask, of_role, rows_of
from stepwhy.base.columns.sums import sums_of
from stepwhy.trace import Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.selection import Rows
    from stepwhy.trace import Trace

# Weight of a slice as evidence that its thread runs the loop: step markers decide, then what only
# the loop does, then the time spent in framework calls.
_MARKS = {Kind.STEP: 10**18, Kind.INPUT: 10**15, Kind.FRAMEWORK: 10**3}
_WORK = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.FRAMEWORK, Kind.PYTHON)
# If operations were not recorded, device API calls are used instead.
_BACKWARD = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC)
# A thread whose share of backward operations is at least this belongs to the autograd engine: the
# thread of the loop also runs forward and optimizer.
_ENGINE = 0.8


class Threads(msgspec.Struct, frozen=True):
    """The threads that explain device idle time.

    Args:
        driving: Track of the thread that runs the loop; -1 if no host thread was recorded.
        autograd: Tracks of the threads that run backward operations on its behalf.
    """

    driving: int
    autograd: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """All tracks, the driving thread first."""
        return (self.driving, *self.autograd) if self.driving >= 0 else self.autograd


def find_threads(trace: Trace) -> Threads:
    """Find the driving thread by markers, input fetches and time in framework calls."""
    hosts = np.flatnonzero(trace.tracks.role == Role.HOST_THREAD)
    if not len(hosts):
        return Threads(-1, ())
    slices = trace.slices
    work_ns = sums_of(slices.dur_ns, slices.track, len(trace.tracks), where=mask(trace, _WORK))
    scores = dict(zip(hosts.tolist(), (work_ns[hosts] / 1e3).tolist(), strict=True))
    for track in _engine(trace):
        scores[track] = 0.0
    loaders = _loaders(trace)
    for kind, weight in _MARKS.items():
        counts = np.bincount(trace.slices.track[rows_of(trace, (kind,))])
        for track in np.flatnonzero(counts).tolist():
            if track in scores and not (kind is Kind.INPUT and track in loaders):
                scores[track] += float(weight) * int(counts[track])
    driving = max(scores, key=lambda track: (scores[track], -track))
    if scores[driving] == 0:
        return Threads(-1, ())
    return Threads(driving, _autograd(trace, driving, hosts))


def _engine(trace: Trace) -> list[int]:
    """Threads that run only backward operations, unless every thread does."""
    backward = _backward(trace)
    if not len(backward):
        return []
    busy = rows_of(trace, _WORK)
    engine = [
        track
        for track in _tracks_of(trace, backward)
        if _busy_ns(trace, backward, track) >= _ENGINE * _busy_ns(trace, busy, track)
    ]
    return engine if set(_tracks_of(trace, busy)) - set(engine) else []


def _busy_ns(trace: Trace, rows: Rows, track: int) -> int:
    """Time in which any of some slices runs on a track, ns."""
    return intervals_of(trace, rows[trace.slices.track[rows] == track]).total_ns


def _backward(trace: Trace) -> Rows:
    """Rows of backward operations, and of device API calls in the backward pass."""
    is_backward = trace.slices.phase == Phase.BACKWARD
    return np.flatnonzero(is_backward & mask(trace, _BACKWARD))


def _loaders(trace: Trace) -> frozenset[int]:
    """Threads that never launch device work, where others do: they prepare batches ahead."""
    launches = rows_of(trace, (Kind.LAUNCH,), of_role(trace, Role.HOST_THREAD))
    launching = set(_tracks_of(trace, launches))
    if not launching:
        return frozenset()
    return frozenset(set(range(len(trace.tracks))) - launching)


def _tracks_of(trace: Trace, rows: Rows) -> list[int]:
    """The tracks of some slices, ascending."""
    tracks: list[int] = np.flatnonzero(np.bincount(trace.slices.track[rows])).tolist()
    return tracks


def _autograd(trace: Trace, driving: int, hosts: NDArray[np.int64]) -> tuple[int, ...]:
    process = trace.tracks.process[driving]
    return tuple(
        track
        for track in _tracks_of(trace, _backward(trace))
        if track != driving and track in hosts and trace.tracks.process[track] == process
    )
