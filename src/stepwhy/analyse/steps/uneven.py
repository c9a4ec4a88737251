"""Steps of which only some wait, for the work of all: the median is then not the time of a step.

A host that runs ahead of the device waits for it now and then. Several workers deliver batches at
about the same time, so the step after such a burst waits for the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# If the host runs ahead, long steps wait for the work that short steps launched. Then every stretch
# of one of these lengths contains such long steps.
_STRETCHES = (32, 128, 512)  # steps
_FEWEST_STEPS = 16
# Noise of a shared machine raises the mean of the steps by less than this over the median.
_UNEVEN = 1.3
# If the waits are rarer than that, most of the time is in long steps, even without the longest one.
_MOSTLY_LONG = 2.0
# Share of what the mean step takes longer than the median that is a wait for batches.
_MOSTLY_WAITS = 0.7


def waits(
    recorded: StepTable, durations_ns: NDArray[np.int64], has_accelerator: bool
) -> tuple[bool, bool]:
    """Whether the host waits for the device only in some steps, and whether such were profiled."""
    if not waits_in_some_steps(durations_ns):
        return False, True
    # The profile holds waits if its steps are nearer to the mean than to the median step.
    profiled = recorded.durations_ns[recorded.steady]
    middle = float(np.sqrt(np.median(durations_ns) * durations_ns.mean()))
    wait_traced = bool(len(profiled) and profiled.mean() > middle)
    if has_accelerator and not wait_traced:
        # The device keeps up with the short steps, so the long ones do not wait for it.
        return False, True
    return True, wait_traced


def comes_in_bursts(durations_ns: NDArray[np.int64], waits_ns: NDArray[np.int64]) -> bool:
    """Whether steps differ because batches come in bursts, so that only some wait for one.

    Args:
        durations_ns: Wall time of each step.
        waits_ns: Its wait for a batch; NULL in light steps, which may be most of those that wait.
    """
    known = waits_ns != NULL
    compared = durations_ns[known], waits_ns[known]
    if not all(map(waits_in_some_steps, (durations_ns, compared[0]))):
        return False
    of_all, of_waits = (float(times.mean() - np.median(times)) for times in compared)
    return of_waits > _MOSTLY_WAITS * of_all


def lacks_waits(trace: Trace, recorded: StepTable, durations_ns: NDArray[np.int64]) -> bool:
    """Whether unprofiled steps lack waits of a host that runs ahead of the device.

    So it is in short runs, most of whose steps are profiled. In longer ones, the other steps
    include waits as well, and profiled steps are longer because of the profiler.
    """
    profiled = recorded.durations_ns[recorded.steady]
    return (
        "host-ahead" in trace.meta.signals
        and len(profiled) > len(durations_ns)
        and bool(profiled.mean() > _UNEVEN * durations_ns.mean())
    )


def waits_in_some_steps(durations_ns: NDArray[np.int64]) -> bool:
    """Whether long steps recur so regularly that the median is not the time of a step."""
    if len(durations_ns) < _FEWEST_STEPS:
        return False
    median = float(np.median(durations_ns))

    def everywhere(size: int) -> bool:
        stretches = np.array_split(durations_ns, max(len(durations_ns) // size, 1))
        # The longest step of each is excluded, because a single one may be a pause.
        return all((d.sum() - d.max()) / (len(d) - 1) > _UNEVEN * median for d in stretches)

    sizes = [_STRETCHES[0], *(size for size in _STRETCHES[1:] if size <= len(durations_ns))]
    without_longest = (durations_ns.sum() - durations_ns.max()) / (len(durations_ns) - 1)
    return any(map(everywhere, sizes)) or without_longest > _MOSTLY_LONG * median
