"""The steps of optimizers in unprofiled steps of PyTorch, which take a smaller share there.

Recording the shapes of operations allocates memory between them. The temporary tensors of an
optimizer then get fresh pages each time: with Adam on a CPU, `step` had three times as many page
faults as without a profiler, and took 1.3 to 1.6 times as long. So its time is measured in the
unprofiled steps that are fully observed, and what is recorded of it is weighed accordingly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.breakdown.phases import closure_time
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts

_STEP = regex(r"Optimizer\.step#")
# Fewer unprofiled steps do not show the usual one.
_FEWEST = 8
# Of those that are fully observed. If fewer have run an optimizer, as where several marked steps
# accumulate gradients, no step is the usual one.
_LEAST_WITH_ONE = 0.9
# A larger difference has other causes, such as an optimizer that steps in some of the steps only.
_MOST = 4.0


class OptimizerTime(msgspec.Struct, frozen=True):
    """Time inside the steps of optimizers.

    Args:
        recorded: When, in the recorded steps.
        recorded_ns: Its length in the mean recorded step, ns.
        usual_ns: The same in an unprofiled step, ns.
        weight: Weight of a recorded time inside, relative to one outside, in an unprofiled step.
    """

    recorded: Intervals
    recorded_ns: int
    usual_ns: int
    weight: float


def optimizer_time(facts: Facts) -> OptimizerTime | None:
    """The time inside the steps of optimizers; None if unprofiled steps do not tell it.

    None on accelerators as well, where the host does not decide how long a step takes, and where
    the steps run closures, whose time is not logged.
    """
    share = _usual_share(facts)
    if facts.observed is None or facts.has_accelerator or share is None:
        return None
    rows = facts.slices(Kind.FRAMEWORK, Kind.ANNOTATION, steady=True)
    rows = rows[facts.trace.matches(facts.trace.slices.name[rows], _STEP.match)]
    rows = rows[facts.trace.slices.track[rows] == facts.threads.driving]
    recorded = Intervals.of_slices(facts.trace.slices.start_ns, facts.trace.slices.dur_ns, rows)
    steady = facts.steps.steady
    whole_ns = int((facts.steps.host_ends - facts.steps.host_starts)[steady].sum())
    inside_ns = recorded.total_ns
    if not 0 < inside_ns < whole_ns or len(recorded & closure_time(facts.trace)):
        return None
    weight = share / (1 - share) * (whole_ns - inside_ns) / inside_ns
    if not 1 / _MOST <= weight <= _MOST:
        return None
    usual_ns = round(share * facts.observed.without_stalls_ns)
    return OptimizerTime(recorded, facts.mean_ns(inside_ns), usual_ns, weight)


def _usual_share(facts: Facts) -> float | None:
    """Share of the steps of optimizers in the median unprofiled step; None if unknown."""
    marks, rows = facts.trace.marks, facts.unprofiled_rows
    full = rows[(marks.light[rows] == 0) & (marks.dur_ns[rows] > 0)]
    known = full[marks.optimizer_ns[full] != NULL]
    if len(known) < max(_FEWEST, _LEAST_WITH_ONE * len(full)):
        return None
    share = float(np.median(marks.optimizer_ns[known] / marks.dur_ns[known]))
    return share if 0 < share < 1 else None
