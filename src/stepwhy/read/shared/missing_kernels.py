"""Traces of runs on an accelerator whose profiler delivered no kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.trace.health import KERNELS_MISSING

if TYPE_CHECKING:
    from stepwhy.trace import Health

_HELP = (
    "The profiler recorded no kernel of the device that the run used. Record in a new process, and "
    "without another tool that profiles the device, such as nsys, ncu or DCGM."
)


def count_missing_kernels(health: Health) -> None:
    """Count a trace without the kernels that its run launched."""
    health.count(KERNELS_MISSING, "error", _HELP, dropped=False)
