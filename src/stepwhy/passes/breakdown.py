"""The closed breakdown: every nanosecond of a step in exactly one category.

The device decides first; what the host did explains only the time in which the device is idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.findings import CATEGORIES
from stepwhy.passes.intervals import Intervals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.devices import Activity
    from stepwhy.passes.evidence import Evidence
    from stepwhy.passes.steps import StepTable

_HOST_CATEGORIES = ("input_wait", "compile", "sync", "dispatch", "python", "storage")


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of the whole trace into categories: disjoint, together the span.

    Args:
        sets: One set of time per category of `findings.CATEGORIES`.
    """

    sets: dict[str, Intervals]

    def per_step(self, steps: StepTable) -> NDArray[np.int64]:
        """Time per step and category, ns; (steps, categories). Rows sum to the steps' wall time."""
        columns = [self.sets[c].within(steps.starts, steps.ends) for c in CATEGORIES]
        return np.stack(columns, axis=1)


def partition(
    activities: list[Activity], evidence: Evidence, start_ns: int, end_ns: int
) -> Partition:
    """Partition [start, end) for one device, or for the union of several.

    Args:
        activities: The devices; time in which any of them computes is compute.
        evidence: What the host was doing.
        start_ns: Start of the span.
        end_ns: Its end.
    """
    rest = Intervals.single(start_ns, end_ns)
    sets: dict[str, Intervals] = {}

    def claim(category: str, claimed: Intervals) -> None:
        nonlocal rest
        mine = rest & claimed
        sets[category] = sets.get(category, Intervals.empty()) | mine
        rest = rest - mine

    claim("compute", _union([a.compute for a in activities]))
    claim("communication", _union([a.communication for a in activities]))
    claim("transfer", _union([a.transfer for a in activities]))
    for category in _HOST_CATEGORIES[:1]:
        claim(category, evidence[category])
    claim("communication", evidence["communication"])
    for category in _HOST_CATEGORIES[1:]:
        claim(category, evidence[category])
    sets["unexplained"] = rest
    return Partition(sets)


def unexplained(start_ns: int, end_ns: int) -> Partition:
    """The partition of [start, end) of which nothing is known."""
    sets = dict.fromkeys(CATEGORIES, Intervals.empty())
    return Partition(sets | {"unexplained": Intervals.single(start_ns, end_ns)})


def _union(sets: list[Intervals]) -> Intervals:
    result = Intervals.empty()
    for one in sets:
        result = result | one
    return result


def mean_exact(
    per_step: NDArray[np.int64], wall_ns: NDArray[np.int64]
) -> tuple[int, dict[str, int]]:
    """Means over steps as integers that still sum exactly to the mean wall time.

    Rounding leaves a few nanoseconds over; they go to the largest category.

    Args:
        per_step: Time per step and category, ns; (steps, categories).
        wall_ns: Wall time per step, ns; (steps,).
    """
    if not len(wall_ns):
        return 0, dict.fromkeys(CATEGORIES, 0)
    wall = round(int(wall_ns.sum()) / len(wall_ns))
    sums = per_step.sum(axis=0)
    means = [round(int(s) / len(wall_ns)) for s in sums]
    means[int(np.argmax(sums))] += wall - sum(means)
    return wall, dict(zip(CATEGORIES, means, strict=True))
