"""How efficiently several devices are used together.

Source: the POP metrics (Performance Optimisation and Productivity, Centre of Excellence in HPC):
parallel efficiency is load balance times communication efficiency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.result import ParallelUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import Device

# A device that computes less than this share of the busiest one is not counted: it only serves the
# others, as a parameter server does.
_SERVES = 0.05


def parallel_use(devices: Sequence[Device], wall_ns: int) -> ParallelUse | None:
    """How efficiently the devices of a step are used together; None if fewer than two compute.

    Args:
        devices: All devices, over the mean steady step. If any is an accelerator, only
            accelerators count.
        wall_ns: Length of that step.
    """
    accelerators = [d for d in devices if d.kind != "cpu"]
    compute = sorted(d.compute_ns for d in accelerators or devices)
    busiest = compute[-1] if compute else 0
    working = [ns for ns in compute if ns > _SERVES * busiest]
    if len(working) < 2 or not wall_ns:
        return None
    mean = sum(working) / len(working)
    return ParallelUse(
        devices=len(working),
        efficiency=round(mean / wall_ns, 3),
        load_balance=round(mean / busiest, 3),
        communication_efficiency=round(busiest / wall_ns, 3),
    )
