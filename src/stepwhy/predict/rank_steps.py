"""Predicts the step of a job from the traces of its ranks, which wait for the slowest of them.

Ranks that exchange data in every step take equally long: each step ends when the rank that works
longest outside of communication has ended its work. What shortens the longest work of a step
shortens the step. Only durations are compared, so the clocks of the ranks need not agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepwhy.base.units import format_fraction
from stepwhy.result.predictions import Prediction, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.ranks.rank_times import Rank
    from stepwhy.result.edits import Edit

    Times = NDArray[np.float64]

# Of the step. Those of ranks that wait for each other in every step are equal, except for noise.
_MOST_SPREAD: Final = 0.1
# Of the step: a model of whole steps is not exact to less than this, however alike the ranks are.
_LEAST_ERROR: Final = 0.01
_ONE_RANK: Final = "Predict it from the trace of one rank."
_EXCHANGES: Final = (
    "Exchanges in traces of ranks are not replayed one by one: that needs the operations of all "
    "ranks in one table."
)
_UNKNOWN: Final[dict[str, str]] = {
    "link": _EXCHANGES,
    "group": _EXCHANGES,
    "stage": (
        "What stages of a pipeline wait for is known only where the operations of all ranks are in "
        "one table."
    ),
    "ranks": "How long exchanges take among more ranks was not recorded.",
}
_ONCE: Final = (
    "The ranks are taken to wait for the slowest of them once per step, by the time that each "
    "spends outside of communication."
)


class _Steps(msgspec.Struct, frozen=True):
    """The steps of all ranks.

    Args:
        numbers: The ranks.
        own_ns: Time of each step outside of communication; (ranks, steps). One mean step where the
            ranks recorded different numbers of steps.
        step_ns: Mean time of a step.
        waits_ns: Longest mean time that a rank spends in communication, so the most to be gained.
        error: Difference between the steps of the ranks, as a fraction.
    """

    numbers: tuple[int, ...]
    own_ns: Times
    step_ns: float
    waits_ns: float
    error: float


def price_steps(ranks: Sequence[Rank | None], edits: Sequence[Edit]) -> Prediction | Refusal:
    """Predict the step of a job after some edits, or say why that is not possible.

    Args:
        ranks: The ranks of the job, None for those whose record does not show their steps.
        edits: The edits, made together; at least one.
    """
    edits = tuple(edits)
    for edit in edits:
        if (reason := _not_modelled(edit)) is not None:
            return Refusal(edits, *reason)
    steps = _steps([rank for rank in ranks if rank is not None], len(ranks))
    if isinstance(steps, str):
        return Refusal(edits, steps)
    own_ns = steps.own_ns.copy()
    for edit in edits:
        reason_ = _apply(steps, own_ns, edit)
        if reason_:
            return Refusal(edits, reason_)
    return _prediction(steps, edits, own_ns)


def _not_modelled(edit: Edit) -> tuple[str, str] | None:
    """Why steps as a whole do not show what an edit does, and what to do; None if they may."""
    if edit.what in {"rank", "variance"} or edit.change == "balanced":
        return None
    reason = _UNKNOWN.get(edit.what)
    if reason is not None:
        return reason, ""
    return f"What {edit} does is predicted of one rank, not of several together.", _ONE_RANK


def _steps(ranks: Sequence[Rank], count: int) -> _Steps | str:
    """The steps of the ranks, or why they do not show what the ranks wait for."""
    if len(ranks) < max(count, 2):
        return "The steps of some ranks are not recorded."
    if len({rank.stage for rank in ranks}) > 1:
        return "Stages of a pipeline wait for each other several times per step."
    if not any(rank.exchange_ns for rank in ranks):
        return "No exchange between the ranks is recorded."
    walls_ns = [rank.wall_ns for rank in ranks]
    step_ns = max(float(np.mean(walls_ns)), 1.0)
    error = (max(walls_ns) - min(walls_ns)) / step_ns
    if error > _MOST_SPREAD:
        return (
            f"The steps of the ranks differ by {format_fraction(error)}, so that the ranks do not "
            "wait for each other in every step."
        )
    waits_ns = max(rank.exchange_ns for rank in ranks)
    numbers = tuple(rank.number for rank in ranks)
    return _Steps(numbers, _own_ns(ranks), step_ns, float(waits_ns), error)


def _own_ns(ranks: Sequence[Rank]) -> Times:
    """Time outside of communication; (ranks, steps). Profiled steps are scaled to unprofiled."""
    scales = [rank.work_ns / max(float(rank.own_ns.mean()), 1.0) for rank in ranks]
    if len({len(rank.own_ns) for rank in ranks}) > 1:
        return np.array([[float(rank.work_ns)] for rank in ranks])
    return np.array([rank.own_ns * scale for rank, scale in zip(ranks, scales, strict=True)])


def _apply(steps: _Steps, own_ns: Times, edit: Edit) -> str:
    """Change the times in place; return why that is not possible, a sentence, or ''."""
    if edit.what == "variance":
        if own_ns.shape[1] < 2:
            return "The ranks did not record the same number of steps, at least two."
        own_ns[:] = own_ns.mean(axis=1, keepdims=True)
    elif not edit.pattern or edit.change == "balanced":
        own_ns[:] = own_ns.mean(axis=0)
    elif edit.pattern in map(str, steps.numbers):
        row = [str(number) for number in steps.numbers].index(edit.pattern)
        own_ns[row] = steps.own_ns.mean(axis=0)
    else:
        return f"No rank is recorded that {edit} would change."
    return ""


def _prediction(steps: _Steps, edits: tuple[Edit, ...], own_ns: Times) -> Prediction:
    gain_ns = float((steps.own_ns.max(axis=0) - own_ns.max(axis=0)).mean())
    gain_ns = min(max(gain_ns, 0.0), steps.waits_ns)
    remaining_ns = steps.step_ns - gain_ns
    margin_ns = max(steps.error, _LEAST_ERROR) * steps.step_ns
    lost_ns = (steps.own_ns - own_ns).mean(axis=1).max(initial=0.0)
    return Prediction(
        edits=edits,
        step_ns=round(steps.step_ns),
        remaining_ns=round(remaining_ns),
        low_ns=round(max(remaining_ns - margin_ns, 0.0)),
        high_ns=round(min(remaining_ns + margin_ns, steps.step_ns)),
        family="device",
        method="ranks",
        structural_low_ns=round(remaining_ns),
        structural_high_ns=round(remaining_ns),
        naive_ns=round(steps.step_ns - float(lost_ns)),
        notes=(_ONCE,),
    )
