"""What is said of several devices together."""

from __future__ import annotations

import msgspec


class ParallelUse(msgspec.Struct, frozen=True):
    """How well several devices, or ranks, are used together over the mean steady step.

    Args:
        devices: Those that compute; one that only serves the others (variables) is none.
        efficiency: Parallel efficiency: share of the step in which they compute, on average, 0..1.
            `load_balance` times `communication_efficiency`.
        load_balance: Mean time in computation over that of the busiest one, 0..1.
        communication_efficiency: Share of the step in which the busiest one computes, 0..1.
    """

    devices: int
    efficiency: float
    load_balance: float
    communication_efficiency: float
