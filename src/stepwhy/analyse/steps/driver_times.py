"""What the driving thread does in a typical step that runs without a profiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.steps.uneven import comes_in_bursts
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace


class DriverTimes(msgspec.Struct, frozen=True):
    """Times of the driving thread in a typical step, ns; None for what was not measured.

    Args:
        outside_ns: Median time outside the framework's run call (TF1: the Python between runs);
            None if steps have no such call.
        input_wait_ns: Time that it waited for batches; None if no loader was observed.
        cpu_ns: Its CPU time.
        core_wait_ns: Time in which it was ready to run, but had no core.
        compile_ns: Time in tracing or compiling.
    """

    outside_ns: int | None = None
    input_wait_ns: int | None = None
    cpu_ns: int | None = None
    core_wait_ns: int | None = None
    compile_ns: int | None = None

    @property
    def runnable_ns(self) -> int | None:
        """Time in which the thread ran or waited for a core."""
        return None if self.cpu_ns is None else self.cpu_ns + (self.core_wait_ns or 0)


def driver_times(
    trace: Trace, rows: NDArray[np.int64], *, in_call: bool = False, uneven: bool, bursts: bool
) -> DriverTimes:
    """The times in a typical one of some steps.

    Args:
        trace: The trace.
        rows: Rows of its `marks` of steady unprofiled steps, ascending; (steps,).
        in_call: Whether each step has a run call.
        uneven: Whether the mean step is described, and not the median one.
        bursts: Whether batches may come in bursts, so that only some steps wait for one.
    """
    marks = trace.marks
    outside = np.median(marks.dur_ns[rows] - marks.graph_ns[rows]) if in_call else None
    # This wait is measured in some of the steps only, if these are short.
    waits_ns = trace.marks.run_delay_ns
    known = rows[waits_ns[rows] != NULL]
    values = waits_ns[_typical_rows(trace, known, uneven=uneven)]
    core_wait = round(float(values.mean())) if len(values) else None
    return DriverTimes(
        None if outside is None else round(float(outside)),
        _typical_wait(trace, rows, uneven=uneven)
        if bursts
        else _typical(trace, rows, marks.input_wait_ns, uneven=uneven),
        _typical(trace, rows, marks.cpu_ns, uneven=uneven),
        core_wait,
        _typical(trace, rows, marks.compile_ns, uneven=uneven),
    )


def _typical_wait(trace: Trace, rows: NDArray[np.int64], *, uneven: bool) -> int | None:
    """Wait for a batch in a typical step; None if unknown.

    Where batches come in bursts, the steps that wait may be rare among those that were fully
    observed, or frequent: both recur at regular intervals. The rest of a step differs less, so the
    mean wait is what the mean of all steps takes beyond it.
    """
    full = _fully_observed(trace, rows)
    durations_ns, waits_ns = trace.marks.dur_ns, trace.marks.input_wait_ns
    if not uneven or not comes_in_bursts(durations_ns[full], waits_ns[full]):
        return _typical(trace, rows, waits_ns, uneven=uneven)
    known = full[waits_ns[full] != NULL]
    rest_ns = float((durations_ns - waits_ns)[known].mean())
    return max(round(float(durations_ns[rows].mean()) - rest_ns), 0)


def _fully_observed(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps that were not only timed; the wait of a step before such a one may be missing, too."""
    light = np.append(trace.marks.light, 0)
    full: NDArray[np.int64] = rows[(light[rows] == 0) & (light[rows + 1] == 0)]
    return full


def _typical(
    trace: Trace, rows: NDArray[np.int64], values_ns: NDArray[np.int64], *, uneven: bool = False
) -> int | None:
    """Mean of a value over the middle half of the steps by length; None if any is unknown.

    The wall time is that of the median step, so waits in longer steps must not count. If the steps
    are uneven, it is that of the mean step, and all fully observed steps count.
    """
    full = _fully_observed(trace, rows)
    values = values_ns[_typical_rows(trace, full, uneven=uneven)]
    if not len(values) or (values == NULL).any():
        return None
    return round(float(values.mean()))


def _typical_rows(trace: Trace, rows: NDArray[np.int64], *, uneven: bool) -> NDArray[np.int64]:
    """The middle half of some steps by length; all of them if they are uneven."""
    if uneven or not len(rows):
        return rows
    durations_ns = trace.marks.dur_ns[rows]
    low, high = np.percentile(durations_ns, [25, 75])
    found: NDArray[np.int64] = rows[(durations_ns >= low) & (durations_ns <= high)]
    return found
