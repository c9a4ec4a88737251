"""Predicts the step of a job of several ranks, from the durations of all of them."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stepwhy.predict.operations import UnknownScheduleError, schedule_of
from stepwhy.predict.operations_of import rows_of, unpriced
from stepwhy.result.predictions import Prediction, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.operations import Schedule
    from stepwhy.result.edits import Edit
    from stepwhy.trace import Meta, Trace

    Times = NDArray[np.float64]

# Operation tables have this signal: whole forward and backward passes were timed.
_PASSES: Final = "passes"
# Of the step: a replay is not exact to less than this, however well it fits the recorded step.
_LEAST_ERROR: Final = 0.01
# Replays that are further off have missed what the ranks wait for.
_MOST_ERROR: Final = 0.1
_EVEN: Final = ("even", "balanced")
_MEASURE: Final = "Measure the changed program with 'stepwhy compare'."


def is_table(metas: Sequence[Meta]) -> bool:
    """Whether whole passes of every rank were timed, so that the steps of a job may be replayed.

    Args:
        metas: Facts about every rank.
    """
    return all(_PASSES in meta.signals for meta in metas)


class Job:
    """A job whose ranks are all recorded.

    Args:
        traces: The trace of every rank, on one clock.
        step_ns: Mean time of its steps.
    """

    def __init__(self, traces: Sequence[Trace], step_ns: float) -> None:
        self.traces = traces
        self.step_ns = step_ns

    @cached_property
    def schedule(self) -> Schedule | Refusal:
        """What its operations wait for, or why that is not known."""
        if not self.is_table:
            return Refusal(
                (),
                "What ranks wait for is known only where the operations of all ranks are in one "
                "table.",
                "Predict from the trace of one rank.",
            )
        try:
            return schedule_of(self.traces)
        except UnknownScheduleError as error:
            return Refusal((), f"These steps cannot be replayed: {error}.", _MEASURE)

    @property
    def is_table(self) -> bool:
        """Whether whole passes of every rank were timed, so that its steps may be replayed."""
        return is_table([trace.meta for trace in self.traces])

    def price(self, edits: Sequence[Edit]) -> Prediction | Refusal:
        """Predict the step after some edits, or say why that is not possible.

        Args:
            edits: The edits, made together; at least one.
        """
        edits, schedule = tuple(edits), self.schedule
        if isinstance(schedule, Refusal):
            return replace(schedule, edits=edits)
        work_ns = schedule.work_ns.copy()
        for edit in edits:
            reason = unpriced(schedule, edit)
            if reason:
                return Refusal(edits, reason, _MEASURE)
            rows = rows_of(schedule, edit)
            if not rows:
                return Refusal(edits, f"No operation is recorded that {edit} would change.")
            _apply(edit, schedule, work_ns, rows)
        return _prediction(schedule, edits, work_ns, self.step_ns)


def job_of(ranks: Sequence[Facts]) -> Job:
    """The job of some ranks.

    Args:
        ranks: Facts of every rank of the job, on one clock.
    """
    step_ns = float(np.mean([facts.wall_ns for facts in ranks]))
    return Job([facts.trace for facts in ranks], step_ns)


def price_ranks(ranks: Sequence[Facts], edits: Sequence[Edit]) -> Prediction | Refusal:
    """Predict the step of a job after some edits, or say why that is not possible.

    Args:
        ranks: Facts of every rank of the job, on one clock.
        edits: The edits, made together; at least one.
    """
    return job_of(ranks).price(edits)


def _prediction(
    schedule: Schedule, edits: tuple[Edit, ...], work_ns: Times, step_ns: float
) -> Prediction | Refusal:
    """The prediction that the replays of the recorded and of the changed step make."""
    base_ns, changed_ns = (schedule.step_ns(each) for each in (schedule.work_ns, work_ns))
    error = abs(base_ns / step_ns - 1)
    if error > _MOST_ERROR:
        reason = f"A replay of the recorded steps is {error:.0%} off."
        return Refusal(edits, reason, _MEASURE)
    # What is in no operation, such as delays of launches, may shrink with the step, or stay.
    ends = [step_ns * changed_ns / base_ns, step_ns - (base_ns - changed_ns)]
    low, high = (min(max(end, 0.0), step_ns) for end in sorted(ends))
    margin = max(error, _LEAST_ERROR) * step_ns
    # The time that operations of a rank lose per step, of the rank that loses most.
    lost: defaultdict[int, float] = defaultdict(float)
    for row, operation in enumerate(schedule.operations):
        lost[operation.rank] += float((schedule.work_ns[row] - work_ns[row]).mean())
    removed_ns = max(0.0, *lost.values())
    return Prediction(
        edits=edits,
        step_ns=round(step_ns),
        remaining_ns=round((low + high) / 2),
        low_ns=round(max(low - margin, 0.0)),
        high_ns=round(min(high + margin, step_ns)),
        family="device",
        method="ranks",
        structural_low_ns=round(low),
        structural_high_ns=round(high),
        naive_ns=round(max(step_ns - removed_ns, 0.0)),
        notes=_notes(edits),
    )


def _apply(edit: Edit, schedule: Schedule, work_ns: Times, rows: list[int]) -> None:
    """Change the times of some operations in place."""
    if edit.what == "variance":
        work_ns[rows] = work_ns[rows].mean(axis=1, keepdims=True)
    elif edit.change in _EVEN:
        work_ns[rows] = schedule.usual_ns()[rows]
    else:
        work_ns[rows] *= 1 / edit.factor if edit.factor else 0.0


def _notes(edits: Sequence[Edit]) -> tuple[str, ...]:
    return tuple(
        f"The work that {edit.what} {edit.pattern} loses is not added to the others; "
        f"{edit.what}=even shares all work evenly."
        for edit in edits
        if edit.change == "even" and edit.pattern
    )
