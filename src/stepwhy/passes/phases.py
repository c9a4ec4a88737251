"""Forward, backward, optimizer: the phase of every slice.

The importer marks what names say by themselves. Here the marks spread: down the call tree, from a
host call to the device work that it launched, and to everything on the autograd threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.passes.launches import NO_CALL
from stepwhy.passes.nesting import inherit
from stepwhy.trace import Kind, Phase, Role, among

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.passes.launches import Launches
    from stepwhy.passes.nesting import Nesting
    from stepwhy.passes.threads import Threads
    from stepwhy.trace import Trace


def find_phases(
    trace: Trace, threads: Threads, nesting: Nesting, launches: Launches
) -> NDArray[np.int8]:
    """Phase of every slice, as `Phase` values; (slices,)."""
    slices = trace.slices
    own = slices.phase.copy()
    autograd = among(slices.track, threads.autograd) & (own == Phase.UNKNOWN)
    own[autograd] = Phase.BACKWARD
    phase = inherit(nesting, own)
    _rest_of_host(trace, phase)
    known = launches.call_row != NO_CALL
    rows = launches.device_rows
    marked = slices.phase[rows] != Phase.UNKNOWN
    take = known & ~marked
    phase[rows[take]] = phase[launches.call_row[take]]
    collective = slices.kind == Kind.COLLECTIVE
    phase[collective] = Phase.COMMUNICATION
    return phase


def _rest_of_host(trace: Trace, phase: NDArray[np.int8]) -> None:
    """Operations without a mark are forward, provided that the trace tells phases apart at all.

    Where no backward operation is recorded (inference, or a trace without autograd marks), calling
    everything forward would claim more than is known, so it stays unknown.
    """
    slices = trace.slices
    host = trace.tracks.role[slices.track] == Role.HOST_THREAD if len(slices) else slices.kind == 0
    if not ((phase == Phase.BACKWARD) & host).any():
        return
    calls = trace.is_kind(Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC)
    phase[host & calls & (phase == Phase.UNKNOWN)] = Phase.FORWARD
