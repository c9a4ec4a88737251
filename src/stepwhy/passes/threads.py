"""Which threads drive the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.passes.devices import intervals_of
from stepwhy.passes.grouping import distinct
from stepwhy.trace import Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# How much a slice of a kind says 'this thread runs the loop': a step marker settles it, then what
# only the loop does, then the time spent in framework calls.
_MARKS = {Kind.STEP: 10**18, Kind.INPUT: 10**15, Kind.FRAMEWORK: 10**3}
_WORK = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.FRAMEWORK, Kind.PYTHON)
# Where operations were not recorded, the calls of the device API stand for them.
_BACKWARD = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC)
# A thread whose work is backward operations to at least this share is the engine's: the loop's
# own thread runs forward and optimizer, too.
_ENGINE = 0.8
# Slices that are added up at a time.
_PIECE = 1 << 16


class Threads(msgspec.Struct, frozen=True):
    """The threads that explain device idle time.

    Args:
        driving: Track of the thread that runs the loop; -1 when no host thread was recorded.
        autograd: Tracks of the threads that run backward operations on its behalf.
    """

    driving: int
    autograd: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        """The driving thread first."""
        return (self.driving, *self.autograd) if self.driving >= 0 else self.autograd


def find_threads(trace: Trace) -> Threads:
    """Find the driving thread by markers, input fetches and time in framework calls."""
    hosts = np.flatnonzero(trace.tracks.role == Role.HOST_THREAD)
    if not len(hosts):
        return Threads(-1, ())
    scores = dict(zip(hosts.tolist(), (_work_ns(trace)[hosts] / 1e3).tolist(), strict=True))
    for track in _engine(trace):
        scores[track] = 0.0
    loaders = _loaders(trace)
    for kind, weight in _MARKS.items():
        for track, count in _count_by_track(trace, kind).items():
            if track in scores and not (kind is Kind.INPUT and track in loaders):
                scores[track] += float(weight) * count
    driving = max(scores, key=lambda track: (scores[track], -track))
    if scores[driving] == 0:
        return Threads(-1, ())
    return Threads(driving, _autograd(trace, driving, hosts))


def _work_ns(trace: Trace) -> NDArray[np.float64]:
    """Sum of the durations of framework calls and Python per track, ns; (tracks,)."""
    slices, work = trace.slices, trace.is_kind(*_WORK)
    found = np.zeros(len(trace.tracks))
    for first in range(0, len(work), _PIECE):
        some = first + np.flatnonzero(work[first : first + _PIECE])
        found += np.bincount(slices.track[some], slices.dur_ns[some], len(found))
    return found


def _engine(trace: Trace) -> list[int]:
    """Threads that do nothing but run backward operations, unless every thread does."""
    slices = trace.slices
    work = trace.is_kind(*_WORK)
    marked = work & _is_backward(trace)
    busy = set(distinct(slices.track[work]).tolist())
    engine = [
        int(track)
        for track in distinct(slices.track[marked])
        if _covered_ns(trace, marked & (slices.track == track))
        >= _ENGINE * _covered_ns(trace, work & (slices.track == track))
    ]
    return engine if busy - set(engine) else []


def _is_backward(trace: Trace) -> NDArray[np.bool_]:
    """Whether each slice is a backward operation, or a call by the thread that runs them."""
    calls = trace.is_kind(*_BACKWARD)
    result: NDArray[np.bool_] = calls & (trace.slices.phase == Phase.BACKWARD)
    return result


def _covered_ns(trace: Trace, chosen: NDArray[np.bool_]) -> int:
    return intervals_of(trace, np.flatnonzero(chosen)).total_ns


def _loaders(trace: Trace) -> frozenset[int]:
    """Threads that never launch device work, where others do: they prepare batches ahead."""
    launches = trace.rows(Kind.LAUNCH, role=Role.HOST_THREAD)
    launching = set(distinct(trace.slices.track[launches]).tolist())
    if not launching:
        return frozenset()
    return frozenset(set(range(len(trace.tracks))) - launching)


def _count_by_track(trace: Trace, kind: Kind) -> dict[int, int]:
    counts = np.bincount(trace.slices.track[trace.slices.kind == kind])
    return {track: int(counts[track]) for track in np.flatnonzero(counts).tolist()}


def _autograd(trace: Trace, driving: int, hosts: NDArray[np.int64]) -> tuple[int, ...]:
    process = trace.tracks.process[driving]
    tracks = distinct(trace.slices.track[_is_backward(trace)])
    return tuple(
        int(t) for t in tracks if t != driving and t in hosts and trace.tracks.process[t] == process
    )
