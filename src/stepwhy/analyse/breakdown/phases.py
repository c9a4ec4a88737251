"""Forward, backward, optimizer: the phase of every slice.

The importer sets phases that are clear from a name. Here they are passed on: down the call tree,
from a host call to the device work that it launched, and to everything on the autograd threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.selection import mask, of_role, of_threads
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.nesting import inherit
from stepwhy.trace import Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.analyse.activity.threads import Threads
    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace


def find_phases(
    trace: Trace, threads: Threads, nesting: Nesting, launches: Launches
) -> NDArray[np.int8]:
    """Phase of every slice, as `Phase` values; (slices,)."""
    slices = trace.slices
    phase = inherit(nesting.parent, _marked(trace, threads))
    closures = closure_time(trace)
    if len(closures):
        rows = np.flatnonzero((phase == Phase.OPTIMIZER) & (slices.phase == Phase.UNKNOWN))
        starts = slices.start_ns[rows]
        phase[rows[closures.within(starts, starts + 1) > 0]] = Phase.UNKNOWN
    _rest_of_host(trace, phase)
    work, calls = launches.joined
    unmarked = slices.phase[work] == Phase.UNKNOWN
    phase[work[unmarked]] = phase[calls[unmarked]]
    phase[slices.kind == Kind.COLLECTIVE] = Phase.COMMUNICATION
    return phase


def closure_time(trace: Trace) -> Intervals:
    """When calls of `Optimizer.step` run a closure, which computes the loss and its gradients.

    It ends with the last node of a backward pass that begins within the call.
    """
    slices = trace.slices
    calls = np.flatnonzero(mask(trace, (Kind.FRAMEWORK,)) & (slices.phase == Phase.OPTIMIZER))
    nodes = np.flatnonzero(mask(trace, (Kind.OP,)) & (slices.phase == Phase.BACKWARD))
    if not len(calls) or not len(nodes):
        return Intervals.empty()
    starts, ends = slices.start_ns[calls], trace.ends(calls)
    last = np.maximum(np.searchsorted(slices.start_ns[nodes], ends) - 1, 0)
    inside = (starts <= slices.start_ns[nodes[last]]) & (slices.start_ns[nodes[last]] < ends)
    reach = np.minimum(np.maximum.accumulate(trace.ends(nodes))[last], ends)
    return Intervals.of(starts[inside], reach[inside])


def _marked(trace: Trace, threads: Threads) -> NDArray[np.int8]:
    """The phases known from names, and backward on the autograd threads; (slices,)."""
    slices, autograd = trace.slices, of_threads(trace, threads.autograd)
    phase: NDArray[np.int8] = slices.phase.copy()
    if autograd.any():
        phase[autograd[slices.track] & (phase == Phase.UNKNOWN)] = Phase.BACKWARD
    return phase


def _rest_of_host(trace: Trace, phase: NDArray[np.int8]) -> None:
    """Set operations of unknown phase to forward, if the trace distinguishes phases.

    If no backward operation is recorded (inference, or a trace without autograd), they stay
    unknown.
    """
    host = of_role(trace, Role.HOST_THREAD)
    if host[trace.slices.track[phase == Phase.BACKWARD]].any():
        calls = mask(trace, (Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC), host)
        phase[calls & (phase == Phase.UNKNOWN)] = Phase.FORWARD
