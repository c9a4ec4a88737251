"""Which threads drive the training loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# How much a slice of a kind says 'this thread runs the loop': a step marker settles it, then what
# only the loop does, then the time spent in framework calls.
_MARKS = {Kind.STEP: 10**18, Kind.INPUT: 10**15, Kind.FRAMEWORK: 10**3}
_WORK = (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC, Kind.FRAMEWORK, Kind.PYTHON)


@dataclass(frozen=True, slots=True)
class Threads:
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
    scores = {int(track): 0.0 for track in hosts}
    for kind, weight in _MARKS.items():
        for track, count in _count_by_track(trace, kind).items():
            if track in scores:
                scores[track] += float(weight) * count
    work = np.isin(trace.slices.kind, [int(k) for k in _WORK])
    for track in scores:
        scores[track] += (
            float(trace.slices.dur_ns[work & (trace.slices.track == track)].sum()) / 1e3
        )
    driving = max(scores, key=lambda track: (scores[track], -track))
    if scores[driving] == 0:
        return Threads(-1, ())
    return Threads(driving, _autograd(trace, driving, hosts))


def _count_by_track(trace: Trace, kind: Kind) -> dict[int, int]:
    tracks, counts = np.unique(trace.slices.track[trace.slices.kind == kind], return_counts=True)
    return dict(zip(tracks.tolist(), counts.tolist(), strict=True))


def _autograd(trace: Trace, driving: int, hosts: NDArray[np.int64]) -> tuple[int, ...]:
    process = trace.tracks.process[driving]
    backward = (trace.slices.phase == Phase.BACKWARD) & (trace.slices.kind == Kind.OP)
    tracks = np.unique(trace.slices.track[backward])
    return tuple(
        int(t) for t in tracks if t != driving and t in hosts and trace.tracks.process[t] == process
    )
