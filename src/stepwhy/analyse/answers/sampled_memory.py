"""Memory over a whole run, as sampled from the GPU driver and the operating system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.analyse.steps.counters import Series, series
from stepwhy.result import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.trace import Trace

_MOST_POINTS = 200
_FEWEST_SAMPLES = 2


def sampled_memory(trace: Trace) -> Iterator[MemoryUse]:
    """Memory use of every sampled GPU, by the process if known, and its resident memory.

    Args:
        trace: The trace.
    """
    for device, name in sampled_gpus(trace):
        own = series(trace, "gpu process_bytes", device)
        used = own if len(own.values) else series(trace, "gpu used_bytes", device)
        if len(used.values) >= _FEWEST_SAMPLES:
            capacity = series(trace, "gpu total_bytes", device).largest
            yield _use(name, "device", used, capacity)
    resident = series(trace, "resident_bytes")
    if len(resident.values) >= _FEWEST_SAMPLES:
        capacity = series(trace, "machine_memory_bytes").largest
        process = _use("process", "host", resident, capacity)
        yield replace(process, swapped_bytes=series(trace, "swap_bytes").largest)


def _use(name: str, kind: str, levels: Series, capacity: int | None) -> MemoryUse:
    start_ns = int(levels.times_ns[0])
    at = int(levels.values.argmax())
    return MemoryUse(
        name=name,
        kind="device" if kind == "device" else "host",
        over="run",
        span_ns=int(levels.times_ns[-1]) - start_ns,
        base_bytes=int(levels.values[0]),
        peak_bytes=int(levels.values[at]),
        peak_ns=int(levels.times_ns[at]) - start_ns,
        capacity_bytes=capacity,
        series=tuple(_thinned(levels, start_ns)),
    )


def _thinned(levels: Series, start_ns: int) -> Iterator[tuple[int, int]]:
    """Time since the start and value of the highest sample in each group of neighbours."""
    groups = np.array_split(np.arange(len(levels.values)), min(len(levels.values), _MOST_POINTS))
    for group in groups:
        at = int(group[levels.values[group].argmax()])
        yield int(levels.times_ns[at]) - start_ns, int(levels.values[at])
