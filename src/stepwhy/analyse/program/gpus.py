"""Devices that the framework named, and devices that only the GPU driver named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.columns.groups import distinct
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import Trace

PREFIX = "nvml:"
"""Prefix of the names of devices that only the driver named; a number follows."""


def framework_devices(trace: Trace) -> list[int]:
    """Rows of the devices that the framework named, without those that were only sampled.

    The driver numbers GPUs in its own way, so the same GPU may have a second row.
    """
    names = [trace.string(int(name)) for name in trace.devices.name]
    return [row for row, name in enumerate(names) if not name.startswith(PREFIX)]


def sampled_gpus(trace: Trace) -> list[tuple[int, str]]:
    """Row and name ('nvml:0') of every device with samples from the driver."""
    sampled = distinct(trace.counters.device)
    rows = [int(row) for row in sampled if row != NULL]
    named = [(row, trace.string(int(trace.devices.name[row]))) for row in rows]
    return [(row, name) for row, name in named if name.startswith(PREFIX)]
