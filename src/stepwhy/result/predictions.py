"""Predictions of what a change of the program would gain, and why one cannot be predicted."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepwhy.result.edits import Edit, Family  # noqa: TC001 - the schema reads them

WHATIF_SCHEMA = "stepwhy.whatif/1"

Method = Literal["replay", "cpu", "ranks"]


class Prediction(msgspec.Struct, frozen=True):
    """The predicted step after some edits.

    All times are per mean steady step, in ns, and unprofiled where the run was observed.

    Args:
        edits: The edits, applied together.
        step_ns: The step as it is.
        remaining_ns: The predicted step; the centre of the interval.
        low_ns, high_ns: Interval of the predicted step.
        family: Kind of edit, whose record the interval is calibrated with.
        method: 'replay': a dependency graph of the recorded step was replayed; 'cpu': by CPU work,
            cores and what has to remain; 'ranks': by the durations of all ranks.
        structural_low_ns, structural_high_ns: The interval of the model alone, before calibration
            with measured gains.
        naive_ns: What subtracting the cost would leave, for comparison.
        notes: What the reader should know about how it was made, in sentences.
        finding: Id of the finding whose fix it is; '' for none.
    """

    edits: tuple[Edit, ...]
    step_ns: int
    remaining_ns: int
    low_ns: int
    high_ns: int
    family: Family
    method: Method
    structural_low_ns: int
    structural_high_ns: int
    naive_ns: int
    notes: tuple[str, ...] = ()
    finding: str = ""

    @property
    def gain_ns(self) -> tuple[int, int]:
        """Interval of the gain per step, ns, not below 0."""
        return max(self.step_ns - self.high_ns, 0), max(self.step_ns - self.low_ns, 0)


class Refusal(msgspec.Struct, frozen=True):
    """Why edits cannot be priced.

    Args:
        edits: The edits.
        reason: What was not recorded, or why no model fits, in one sentence.
        todo: What to do about it, an imperative sentence; '' if nothing helps.
        finding: Id of the finding whose fix it is; '' for none.
    """

    edits: tuple[Edit, ...]
    reason: str
    todo: str = ""
    finding: str = ""


class Replay(msgspec.Struct, frozen=True):
    """Whether the recorded steps can be replayed on a graph of their dependencies.

    Args:
        qualifies: Whether they can.
        reasons: What was not recorded, in sentences, if they cannot.
        joined_share: Share of the device work whose launch is known, 0..1; None without any.
        opaque_share: Share of the critical path whose cause was not recorded, 0..1; None if the
            graph was not built.
        median_error: Error of the median step if each delay is replaced by the median of its
            class, as a fraction of the step; None if the graph was not built.
        worst_error: Largest error of the end of a step, as a fraction of the mean step.
        device_share: Share of the critical path that is work of the device.
    """

    qualifies: bool
    reasons: tuple[str, ...] = ()
    joined_share: float | None = None
    opaque_share: float | None = None
    median_error: float | None = None
    worst_error: float | None = None
    device_share: float | None = None


class Slowdown(msgspec.Struct, frozen=True):
    """How much longer the steps of a job take than ideal ones, and what makes them longer.

    In an ideal step, each computation takes the mean time of its type over all ranks and steps,
    and each exchange the median time of its type, without waits. All steps are replayed. A slowdown
    of 1.2 is a step that takes 1.2 times the ideal one. Those of a part are of steps in which only
    the operations of this part take as long as recorded, and all others the ideal time.

    Source: "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025.

    Args:
        replayed_ns: Mean time of the replayed steps as recorded.
        ideal_ns: Time of the ideal step.
        slowdown: The one divided by the other, S.
        by_stage: Slowdown of each pipeline stage.
        by_operation: Slowdown of each type of operation; sends and receives between the stages in
            one direction are one type, such as 'forward-pp-comm'.
        by_data_rank: Slowdown of each data-parallel rank: of the ranks with the same number among
            those of their stage.
        last_stage_share: Share of the slowdown that goes when the last stage is ideal, M_S; above 1
            where the other stages are faster than the mean. None where the job is hardly slower
            than ideal.
        slowest_ranks_share: Share of the slowdown that goes when the slowest 3 % of the ranks are
            ideal, M_W; None likewise.
        slowest_ranks: These ranks, at least one.
    """

    replayed_ns: int
    ideal_ns: int
    slowdown: float
    by_stage: dict[str, float]
    by_operation: dict[str, float]
    by_data_rank: dict[str, float]
    last_stage_share: float | None
    slowest_ranks_share: float | None
    slowest_ranks: tuple[int, ...]


class WhatIfResult(msgspec.Struct, frozen=True):
    """The result of `stepwhy whatif`.

    Args:
        path: The trace or run directory.
        step_ns: The mean steady step.
        replay: Whether its steps can be replayed; None if no device work was recorded.
        predictions: What could be predicted, in the order that was asked for.
        refusals: What could not, and why.
        slowdown: What makes the steps of a job longer than ideal ones; None unless the operations
            of all its ranks are in one table.
    """

    path: str
    step_ns: int
    replay: Replay | None
    predictions: tuple[Prediction, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    slowdown: Slowdown | None = None
    schema: str = WHATIF_SCHEMA
    stepwhy: str = ""
