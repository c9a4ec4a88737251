"""All facts that diagnoses may use, each computed once and on demand."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from stepwhy.analyse.activity.devices import Activity, Totals, find_activities, total
from stepwhy.analyse.activity.launches import Launches, join_launches, owned_devices
from stepwhy.analyse.activity.selection import mask, of_role, rows_of
from stepwhy.analyse.activity.threads import Threads, find_threads
from stepwhy.analyse.breakdown.closed import (
    ON_DEVICE,
    IdleTime,
    Partition,
    mean_exact,
    partition,
    unexplained,
)
from stepwhy.analyse.breakdown.evidence import Evidence, find_evidence
from stepwhy.analyse.breakdown.mean_step import MeanStep
from stepwhy.analyse.breakdown.ops import OpTable, op_table
from stepwhy.analyse.breakdown.phases import find_phases
from stepwhy.analyse.ranks.calls import RunCalls, calls_of
from stepwhy.analyse.steps.clocks import clocks_disagree
from stepwhy.analyse.steps.missing_work import MissingWork, find_missing_work
from stepwhy.analyse.steps.observed import Observed, find_observed
from stepwhy.analyse.steps.regimes import Regimes, find_regimes, samples_within, within
from stepwhy.analyse.steps.step_search import StepTable, find_steps, steady_mask
from stepwhy.base.columns import nesting
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.base.columns.sums import LARGEST
from stepwhy.result import CATEGORIES
from stepwhy.result.reasons import Corrected
from stepwhy.trace import DeviceKind, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.ranks.rank_times import Rank
    from stepwhy.analyse.ranks.untraced_ranks import UntracedRank
    from stepwhy.trace import Trace

T = TypeVar("T")


class Facts:
    """The facts of one trace; each is computed at its first use.

    Args:
        trace: The trace.
        ranks: All ranks of the run with this one, if several were traced.
        calls: The collectives that all of them have entered; None for those of the trace.
        untraced: All ranks of the run with this one, if the steps of several were only timed.
    """

    def __init__(
        self,
        trace: Trace,
        ranks: Sequence[Rank] = (),
        calls: RunCalls | None = None,
        untraced: Sequence[UntracedRank] = (),
    ) -> None:
        self.trace = trace
        self.ranks = ranks
        self.untraced = untraced
        self._calls = calls
        self._nearest: dict[tuple[Kind, ...], NDArray[np.int32]] = {}
        self._derived: dict[Callable[[Facts], Any], Any] = {}

    def derived(self, compute: Callable[[Facts], T]) -> T:
        """The result of a function of these facts, computed once.

        Args:
            compute: A pure function.
        """
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        return cast("T", self._derived[compute])

    def known(self, compute: Callable[[Facts], T]) -> T | None:
        """The result of `derived` if it was computed before, else None.

        Args:
            compute: The function.
        """
        return cast("T | None", self._derived.get(compute))

    @cached_property
    def calls(self) -> RunCalls:
        """The collectives that the ranks have entered, and where they stood in a long step."""
        return calls_of(self.trace) if self._calls is None else self._calls

    @cached_property
    def nesting(self) -> nesting.Nesting:
        """The call trees."""
        return nesting.nest(self.trace.slices, self.trace.tracks.role != Role.STREAM)

    @cached_property
    def launches(self) -> Launches:
        """The host call that caused each device slice."""
        return join_launches(self.trace)

    @cached_property
    def missing_work(self) -> MissingWork:
        """Device work of the steady steps that the trace lacks."""
        return find_missing_work(self.trace, self.launches, self.steps)

    @cached_property
    def threads(self) -> Threads:
        """The threads that drive the loop."""
        return find_threads(self.trace)

    @cached_property
    def recorded_steps(self) -> StepTable:
        """The steps that the trace records, of the whole run."""
        return find_steps(self.trace, self.threads, self.nesting, self.launches)

    @cached_property
    def regimes(self) -> Regimes:
        """The stretches between lasting changes of the step time, and the described one."""
        return find_regimes(self.trace, self.recorded_steps)

    @cached_property
    def steps(self) -> StepTable:
        """The recorded steps of the described stretch."""
        return within(self.trace, self.recorded_steps, self.regimes)

    @cached_property
    def sampled(self) -> Trace:
        """The trace with only the stack samples of the described stretch."""
        return samples_within(self.trace, self.regimes)

    @cached_property
    def steady_count(self) -> int:
        """Number of steady steps."""
        return len(self.steps.starts[self.steps.steady])

    @cached_property
    def in_input(self) -> NDArray[np.bool_]:
        """Mask of the slices in the input region; (slices,)."""
        return nesting.inside(self.nesting, mask(self.trace, (Kind.INPUT,)))

    def nearest(self, kinds: tuple[Kind, ...]) -> NDArray[np.int32]:
        """Row of the nearest slice of some kinds around each slice, or of itself; (slices,).

        NULL if there is none.
        """
        if kinds not in self._nearest:
            self._nearest[kinds] = nesting.nearest(self.nesting, mask(self.trace, kinds))
        return self._nearest[kinds]

    @cached_property
    def activities(self) -> list[Activity]:
        """Activity of every device, accelerators first."""
        return find_activities(self.trace, self.nesting)

    @cached_property
    def leading(self) -> list[Activity]:
        """The devices that decide the breakdown: the accelerators, or the CPUs if none ran.

        If a file merges several ranks, only the devices of the driving process count.
        """
        accelerators = [a for a in self.activities if a.kind is not DeviceKind.CPU]
        if accelerators and self.launches.reused:
            return []
        if accelerators and self.merged_processes > 1:
            owned = owned_devices(self.trace, self.launches, self.threads.driving)
            return [a for a in accelerators if owned[a.index]]
        return accelerators or self.activities

    @cached_property
    def merged_processes(self) -> int:
        """Number of processes with their own step markers; above one, the file merges ranks."""
        rows = rows_of(self.trace, (Kind.STEP,), of_role(self.trace, Role.HOST_THREAD))
        return len(distinct(self.trace.tracks.process[self.trace.slices.track[rows]]))

    @cached_property
    def clocks_disagree(self) -> bool:
        """Whether the file's device rows cannot be compared with its host rows."""
        return clocks_disagree(self.trace, self.launches, self.steps, self.activities)

    @cached_property
    def has_accelerator(self) -> bool:
        """Whether work of an accelerator was recorded."""
        return any(a.kind is not DeviceKind.CPU for a in self.activities)

    @cached_property
    def names_nodes(self) -> bool:
        """Whether any slice belongs to a known node of a graph."""
        scope = self.trace.slices.scope
        return bool((scope >= 0).any())

    @cached_property
    def evidence(self) -> Evidence:
        """Host activity by category."""
        computing = [a.compute for a in self.activities if a.kind is not DeviceKind.CPU]
        return find_evidence(
            self.trace,
            self.threads,
            self.nesting,
            self.launches,
            self.steps,
            computing=Intervals.union(computing) if computing else None,
        )

    @cached_property
    def span(self) -> tuple[int, int]:
        """First start and last end of anything in the trace or its steps, ns."""
        slices, steps = self.trace.slices, self.steps
        starts = [*slices.start_ns[:1].tolist(), *steps.starts.tolist()]
        ends = [self.trace.last_end_ns] if len(slices) else []
        return min(starts), max(ends + steps.ends.tolist())

    @cached_property
    def partition(self) -> Partition:
        """The breakdown of the leading devices together, over the whole trace.

        If the device that was used was not recorded, its idle time is unknown, so all time stays
        unexplained.
        """
        if not self._is_explained:
            return unexplained(*self.span)
        return partition(self.leading, self.evidence, *self.span)

    @property
    def _is_of_one_device(self) -> bool:
        """Whether the breakdown covers the only device."""
        return len(self.leading) == len(self.activities) == 1

    @property
    def _is_explained(self) -> bool:
        """Whether the record can show where a step's time goes."""
        meta = self.trace.meta
        return not meta.limit and (bool(self.leading) or not meta.device_expected)

    @cached_property
    def device_partitions(self) -> list[Partition]:
        """The breakdown of each device of `activities`, over the whole trace.

        For many devices, `breakdown_of` computes the means in less time.
        """
        if self._is_of_one_device and self._is_explained:
            return [self.partition]
        return [partition([a], self.evidence, *self.span) for a in self.activities]

    @cached_property
    def steady_time(self) -> Measure:
        """The time in steady steps."""
        steady = self.steps.steady
        return Measure(Intervals.of(self.steps.starts[steady], self.steps.ends[steady]))

    @cached_property
    def idle_time(self) -> IdleTime:
        """Host activity in the steady steps."""
        return IdleTime(partition([], self.evidence, *self.span), self.steps)

    def breakdown_of(self, activity: Activity) -> dict[str, int]:
        """Mean steady step of one device as recorded: ns per category."""
        if self._is_of_one_device and self._is_explained:
            return self.recorded
        return self.idle_time.mean_of(activity)

    @cached_property
    def per_step(self) -> NDArray[np.int64]:
        """Time per step and category, ns; (steps, categories)."""
        return self.partition.per_step(self.steps)

    @cached_property
    def observed(self) -> Observed | None:
        """The steps that ran without a profiler; None if stepwhy did not observe any."""
        rows = self.regimes.current.rows
        return find_observed(
            self.trace,
            self.steps,
            rows,
            has_accelerator=self.has_accelerator,
            device_ns=sum(self.recorded[c] for c in ON_DEVICE) if self.has_accelerator else 0,
        )

    @cached_property
    def recorded(self) -> dict[str, int]:
        """Mean steady step as recorded (profiled, if a profiler ran): ns per category."""
        return self.mean_of(self.partition)

    @cached_property
    def unprofiled_rows(self) -> NDArray[np.int64]:
        """Rows of `marks` of the unprofiled steady steps that the result describes."""
        rows = np.arange(len(self.trace.marks), dtype=np.int64)[self.regimes.current.rows]
        rows = rows[self.trace.marks.profiled[rows] == 0]
        found: NDArray[np.int64] = rows[self.observed.warm_up if self.observed else 0 :]
        return found

    @cached_property
    def mean_step(self) -> MeanStep:
        """The mean steady step, with the corrections of its recorded breakdown."""
        return MeanStep(
            self.trace,
            self.sampled,
            self.steps,
            self.partition,
            self.recorded,
            self.observed,
            self.unprofiled_rows,
            self.has_accelerator,
        )

    @property
    def breakdown(self) -> dict[str, int]:
        """Mean steady step, on the time scale of unprofiled steps if observed: ns per category."""
        return self.mean_step.breakdown

    @property
    def logging_ns(self) -> int:
        """Time of the mean step in libraries that log, by stack samples, ns."""
        return self.mean_step.moved(Corrected.LOGGING, "storage")

    @property
    def lock_wait_ns(self) -> int:
        """The part of the input wait that is a wait for the interpreter's lock or a core, ns."""
        return self.mean_step.moved(Corrected.LOCK_WAIT, "input_wait")

    @property
    def syncing_ns(self) -> int:
        """Time of the mean step in waits until files are on disk, while nothing computes, ns."""
        return self.mean_step.syncs.usual_ns

    @property
    def callback_ns(self) -> int:
        """Python time of the mean step that is in callbacks while nothing computes, ns."""
        return self.mean_step.callback_ns

    @property
    def usual_input_wait_ns(self) -> int:
        """The wait for input in the mean steady step, without the restarts of workers."""
        stalls = self.observed.stalls_ns if self.observed else {}
        return max(self.breakdown["input_wait"] - stalls.get("input_wait", 0), 0)

    @cached_property
    def wall_ns(self) -> int:
        """Wall time of the mean steady step; the categories of `breakdown` sum to it."""
        return sum(self.breakdown.values())

    def mean_of(self, partition: Partition) -> dict[str, int]:
        """Mean steady step of a partition: ns per category."""
        steady = self.steps.steady
        per_step = partition.per_step(self.steps)[steady]
        return mean_exact(per_step, self.steps.durations_ns[steady])[1]

    def share(self, category: str) -> float:
        """Share of a category in the mean steady step, 0..1."""
        return self.breakdown[category] / self.wall_ns if self.wall_ns else 0.0

    @cached_property
    def phases(self) -> NDArray[np.int8]:
        """Phase of every slice; (slices,)."""
        return find_phases(self.trace, self.threads, self.nesting, self.launches)

    @cached_property
    def ops(self) -> OpTable:
        """Operations over the steady steps."""
        return op_table(self.trace, self.nesting, self.phases, self.is_steady)

    @cached_property
    def totals(self) -> list[Totals]:
        """Totals of each device over the whole file."""
        return [total(self.trace, a) for a in self.activities]

    def mean_ns(self, sums: float) -> int:
        """A sum over the steady steps as a mean per step."""
        return min(round(sums / max(self.steady_count, 1)), LARGEST)

    def slices(self, *kinds: Kind, steady: bool = False) -> NDArray[np.int64]:
        """Rows of slices of some kinds, ascending.

        Args:
            kinds: The kinds.
            steady: Only those that start inside a steady step.
        """
        found = mask(self.trace, kinds)
        return np.flatnonzero(found & self.is_steady if steady else found)

    def in_steady(self, rows: NDArray[np.signedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
        """The rows whose slice starts inside a steady step."""
        steady: NDArray[np.signedinteger[Any]] = rows[self.is_steady[rows]]
        return steady

    @cached_property
    def is_steady(self) -> NDArray[np.bool_]:
        """Mask of the slices that start inside a steady step; (slices,)."""
        return steady_mask(self.steps, self.trace.slices.start_ns)


__all__ = ["CATEGORIES", "Facts"]
