"""Which devices of a trace the framework named, and which the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.columns.groups import distinct
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import Trace

PREFIX = "nvml:"
"""How the name of a device begins that only the driver named; its number follows."""


def framework_devices(trace: Trace) -> list[int]:
    """Rows of the devices that the framework named, without those that were only sampled.

    The driver counts GPUs in its own way, so the same GPU has another row under its name.
    """
    names = [trace.string(int(name)) for name in trace.devices.name]
    return [row for row, name in enumerate(names) if not name.startswith(PREFIX)]


def sampled_gpus(trace: Trace) -> list[tuple[int, str]]:
    """Row and name ('nvml:0') of every device that the driver told of."""
    sampled = distinct(trace.counters.device)
    rows = [int(row) for row in sampled if row != NULL]
    named = [(row, trace.string(int(trace.devices.name[row]))) for row in rows]
    return [(row, name) for row, name in named if name.startswith(PREFIX)]
