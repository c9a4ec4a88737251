"""The closed breakdown: every nanosecond of a step in exactly one category.

The device decides first; host activity explains only the time in which the device is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.columns.intervals import Intervals, Measure, first_of
from stepwhy.result import CATEGORIES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.devices import Activity
    from stepwhy.analyse.breakdown.evidence import Evidence
    from stepwhy.analyse.steps.step_search import StepTable

# Staging an array is what calls that only wait, or launch work that needs it, wait for.
_AFTER_COMMUNICATION = ("compile", "transfer", "sync", "dispatch", "python", "storage")


class Partition(msgspec.Struct, frozen=True):
    """A partition of the time span of a trace: each category has its own disjoint set of time.

    Args:
        sets: One set of time per category of `result.CATEGORIES`.
    """

    sets: dict[str, Intervals]

    def per_step(self, steps: StepTable) -> NDArray[np.int64]:
        """Time per step and category, ns; (steps, categories). Rows sum to the steps' wall time."""
        columns = [self.sets[c].within(steps.starts, steps.ends) for c in CATEGORIES]
        return np.stack(columns, axis=1)


# Time in these is work of a device, or of the links between devices.
ON_DEVICE = ("compute", "communication", "transfer")


def partition(
    activities: list[Activity], evidence: Evidence, start_ns: int, end_ns: int
) -> Partition:
    """Partition [start, end) for one device, or for the union of several.

    Args:
        activities: The devices; time in which any of them computes is compute.
        evidence: Host activity by category.
        start_ns: Start of the span, which contains all activity.
        end_ns: Its end.
    """
    claims = [
        ("compute", Intervals.union([a.compute for a in activities])),
        ("communication", Intervals.union([a.communication for a in activities])),
        ("transfer", Intervals.union([a.transfer for a in activities])),
        ("input_wait", evidence["input_wait"]),
        ("communication", evidence["communication"]),
        *((category, evidence[category]) for category in _AFTER_COMMUNICATION),
        ("unexplained", Intervals.single(start_ns, end_ns)),
    ]
    parts: dict[str, list[Intervals]] = {category: [] for category in CATEGORIES}
    owned = first_of([claimed for _, claimed in claims])
    for (category, _), part in zip(claims, owned, strict=True):
        parts[category].append(part)
    return Partition({category: Intervals.union(part) for category, part in parts.items()})


def counted_as(
    breakdown: dict[str, int], category: str, time_ns: int, *sources: str
) -> dict[str, int]:
    """The breakdown with time of other categories counted as one, as far as they have so much.

    Args:
        breakdown: ns per category.
        category: What to count it as.
        time_ns: How much to count; negative for nothing.
        sources: Categories that lose it, the first one first.
    """
    moved, left = dict(breakdown), max(time_ns, 0)
    for source in sources:
        part = min(moved[source], left)
        moved[source] -= part
        moved[category] += part
        left -= part
    return moved


def unexplained(start_ns: int, end_ns: int) -> Partition:
    """The partition in which all of [start, end) is unexplained."""
    sets = dict.fromkeys(CATEGORIES, Intervals.empty())
    return Partition(sets | {"unexplained": Intervals.single(start_ns, end_ns)})


class IdleTime:
    """Host activity in the steady steps, shared by the breakdowns of any number of devices.

    The time to compute the breakdown of a device grows with its own work, not with the trace.

    Args:
        host: The partition of the trace without any device.
        steps: The steps.
    """

    def __init__(self, host: Partition, steps: StepTable) -> None:
        starts, ends = steps.starts[steps.steady], steps.ends[steps.steady]
        steady = Intervals.of(starts, ends)
        self._count, self._wall_ns = len(starts), int((ends - starts).sum())
        self._sets = {category: Measure(host.sets[category] & steady) for category in CATEGORIES}
        self._steady = Measure(steady)

    def mean_of(self, device: Activity) -> dict[str, int]:
        """Mean steady step of a device: ns per category."""
        compute, busy = device.compute, device.busy
        communication = device.communication - compute
        transfer = device.transfer - (compute | device.communication)
        sums = {c: found.total_ns - found.common_ns(busy) for c, found in self._sets.items()}
        sums["compute"] += self._steady.common_ns(compute)
        sums["communication"] += self._steady.common_ns(communication)
        sums["transfer"] += self._steady.common_ns(transfer)
        return means_of([sums[c] for c in CATEGORIES], self._wall_ns, self._count)[1]


def mean_exact(
    per_step: NDArray[np.int64], wall_ns: NDArray[np.int64]
) -> tuple[int, dict[str, int]]:
    """Means over steps as integers that still sum exactly to the mean wall time.

    Args:
        per_step: Time per step and category, ns; (steps, categories).
        wall_ns: Wall time per step, ns; (steps,).
    """
    return means_of(per_step.sum(axis=0).tolist(), int(wall_ns.sum()), len(wall_ns))


def means_of(sums: list[int], wall_ns: int, steps: int) -> tuple[int, dict[str, int]]:
    """Means of sums over steps as integers that still sum exactly to the mean wall time.

    Rounding leaves a few nanoseconds over; they go to the largest category.

    Args:
        sums: Time per category of `result.CATEGORIES`, ns.
        wall_ns: Their sum, ns.
        steps: Number of steps.
    """
    if not steps:
        return 0, dict.fromkeys(CATEGORIES, 0)
    wall = round(wall_ns / steps)
    means = [round(s / steps) for s in sums]
    means[sums.index(max(sums))] += wall - sum(means)
    return wall, dict(zip(CATEGORIES, means, strict=True))
