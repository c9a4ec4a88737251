"""How busy the machine was while a captured run was observed.

A step that waits for a CPU core is slow for a reason outside the program, and no comparison of two
such runs means anything. The kernel counts how long a process was ready to run but had no core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.findings import HostLoad

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace


def host_load(trace: Trace) -> HostLoad | None:
    """The load of the machine, None where none was sampled."""
    running, waiting = _growth(trace, "cpu_ns"), _growth(trace, "run_delay_ns")
    resident, cores = _values(trace, "resident_bytes"), _values(trace, "cores")
    if running is None and not len(resident):
        return None
    share = None
    if running is not None and waiting is not None and running + waiting > 0:
        share = round(waiting / (running + waiting), 3)
    return HostLoad(
        share,
        _background(trace),
        int(cores[-1]) if len(cores) else None,
        int(resident.max()) if len(resident) else None,
    )


def _background(trace: Trace) -> float | None:
    machine, job = _growth(trace, "machine_busy_ns"), _growth(trace, "job_cpu_ns")
    times = _times(trace, "machine_busy_ns")
    if machine is None or job is None or times[-1] <= times[0]:
        return None
    return round(max(machine - job, 0) / int(times[-1] - times[0]), 2)


def _rows(trace: Trace, name: str) -> NDArray[np.int64]:
    return np.flatnonzero(np.isin(trace.counters.name, trace.strings_where([name])))


def _values(trace: Trace, name: str) -> NDArray[np.int64]:
    values: NDArray[np.int64] = trace.counters.value[_rows(trace, name)]
    return values


def _times(trace: Trace, name: str) -> NDArray[np.int64]:
    times: NDArray[np.int64] = trace.counters.time_ns[_rows(trace, name)]
    return times


def _growth(trace: Trace, name: str) -> int | None:
    """How much a running total grew between its first and last sample."""
    values = _values(trace, name)
    return int(values[-1] - values[0]) if len(values) > 1 else None
