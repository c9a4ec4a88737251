"""The mean steady step: as recorded, on the time scale of unprofiled steps, and corrected."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.activity.callbacks import callback_time
from stepwhy.analyse.breakdown.corrections import BY_OTHER_EVIDENCE, TO_UNPROFILED, Known, apply
from stepwhy.analyse.breakdown.disk_syncs import NO_SYNCS, ExposedSyncs, exposed_syncs
from stepwhy.analyse.breakdown.rescaling import Scale
from stepwhy.base.columns.intervals import Intervals, Measure

if TYPE_CHECKING:
    from stepwhy.analyse.breakdown.closed import Partition
    from stepwhy.analyse.breakdown.corrections import Applied
    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.analyse.steps.stalls import Rows
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.result.reasons import Corrected
    from stepwhy.trace import Trace


class MeanStep(msgspec.Struct, frozen=True, dict=True):
    """The mean steady step; breakdowns are ns per category.

    Args:
        trace: The trace.
        sampled: The trace with only the stack samples of the described stretch.
        steps: The recorded steps.
        partition: Its time span, divided among the categories.
        recorded: The breakdown of the mean recorded step.
        observed: The unprofiled steps; None if none were observed.
        rows: Rows of `marks` of the steady unprofiled steps, ascending; (steps,).
        on_accelerator: Whether an accelerator decides the breakdown.
    """

    trace: Trace
    sampled: Trace
    steps: StepTable
    partition: Partition
    recorded: dict[str, int]
    observed: Observed | None
    rows: Rows
    on_accelerator: bool

    @cached_property
    def syncs(self) -> ExposedSyncs:
        """Waits until files are on disk, while nothing computes."""
        if self.observed is None:
            return NO_SYNCS
        storage = self.partition.sets["storage"]
        return exposed_syncs(self.trace, self.steps, storage, self.rows, self.observed)

    def unprofiled(self, breakdown: dict[str, int]) -> dict[str, int]:
        """A breakdown of recorded steps on the time scale of unprofiled ones, if observed."""
        scaled = self._scaled(breakdown)
        return scaled[-1].after if scaled else breakdown

    def _scaled(self, breakdown: dict[str, int]) -> tuple[Applied, ...]:
        if self.observed is None:
            return ()
        observed = self.observed.shortened(self.syncs.usual_ns)
        scale = Scale(breakdown, observed, self.on_accelerator, self.syncs)
        return apply(breakdown, TO_UNPROFILED, scale)

    @cached_property
    def corrections(self) -> tuple[Applied, ...]:
        """How the breakdown comes about: every correction of the recorded one, in order."""
        scaled = self._scaled(self.recorded)
        unprofiled = scaled[-1].after if scaled else self.recorded
        known = Known(self.sampled, self.rows, self.observed)
        if known.has_gaps:
            known = replace(known, callback_ns=self.callback_ns)
        return scaled + apply(unprofiled, BY_OTHER_EVIDENCE, known)

    @property
    def breakdown(self) -> dict[str, int]:
        """The breakdown after all corrections."""
        return self.corrections[-1].after

    def moved(self, why: Corrected, category: str) -> int:
        """Time that a correction moved to a category, ns."""
        return next(one.changes.get(category, 0) for one in self.corrections if one.why is why)

    @cached_property
    def callback_ns(self) -> int:
        """Python time that is in callbacks while nothing computes, ns."""
        called = self.partition.sets["python"] & callback_time(self.trace)
        starts, ends = self.steps.starts[self.steps.steady], self.steps.ends[self.steps.steady]
        called_ns = Measure(Intervals.of(starts, ends)).common_ns(called)
        within = round(called_ns / max(len(starts), 1))
        # Rescaling may move unexplained time to Python, but not to compute.
        recorded, scaled = self.recorded, self.unprofiled(self.recorded)
        ratios = [scaled[c] / recorded[c] for c in ("compute", "python") if recorded[c]]
        return min(round(within * min(ratios, default=1.0)), scaled["python"])
