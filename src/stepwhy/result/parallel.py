"""Efficiency of several devices together."""

from __future__ import annotations

import msgspec


class ParallelUse(msgspec.Struct, frozen=True):
    """How well several devices, or ranks, are used together over the mean steady step.

    Args:
        devices: Number of devices that compute; one that only serves variables does not count.
        efficiency: Parallel efficiency: mean share of the step in which a device computes, 0..1.
            `load_balance` times `communication_efficiency`.
        load_balance: Mean compute time relative to that of the busiest device, 0..1.
        communication_efficiency: Share of the step in which the busiest device computes, 0..1.
    """

    devices: int
    efficiency: float
    load_balance: float
    communication_efficiency: float
