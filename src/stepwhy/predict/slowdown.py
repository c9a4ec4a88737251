"""How much longer the steps of a job take than ideal ones, and what makes them longer.

Source: "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025,
sections 3 to 5.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.result.predictions import Slowdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepwhy.predict.operations import Schedule, Times

    Rows = Mapping[str, Sequence[int]]

# Of the ranks, at least one: the published share for the slowest workers of a job.
_SLOWEST = 0.03
# Of the ideal step. Shares of a smaller slowdown would divide the error of the replay by itself.
_LEAST = 0.01
_BETWEEN_STAGES = regex(r"(forward|backward)-(?:send|recv)")


def slowdown_of(schedule: Schedule) -> Slowdown:
    """Replay the steps with only some operations as recorded, and all others ideal.

    Args:
        schedule: The operations of all ranks.
    """
    operations, numbers = schedule.operations, schedule.data_rank
    stages = _grouped([str(one.stage) for one in operations])
    types = _grouped([_type(one.name) for one in operations])
    data_ranks = _grouped([str(numbers[one.rank]) for one in operations])
    replayed_ns, ideal_ns = schedule.steps_ns([schedule.work_ns, schedule.usual_ns()])
    by_stage, by_operation, by_data_rank = (
        _slowdowns(schedule, rows, ideal_ns) for rows in (stages, types, data_ranks)
    )
    slowest = _slowest(schedule, by_stage, by_data_rank)
    last = stages[max(stages, key=int)]
    slow = [row for row, one in enumerate(operations) if one.rank in slowest]
    last_share, slowest_share = _shares(schedule, (last, slow), replayed_ns, ideal_ns)
    return Slowdown(
        replayed_ns=round(replayed_ns),
        ideal_ns=round(ideal_ns),
        slowdown=replayed_ns / max(ideal_ns, 1.0),
        by_stage=by_stage,
        by_operation=by_operation,
        by_data_rank=by_data_rank,
        last_stage_share=last_share,
        slowest_ranks_share=slowest_share,
        slowest_ranks=slowest,
    )


def _type(name: str) -> str:
    """The type of an operation; what one stage sends is what the next one receives."""
    match = _BETWEEN_STAGES.fullmatch(name)
    return f"{match[1]}-pp-comm" if match else name


def _grouped(names: Sequence[str]) -> dict[str, list[int]]:
    """Operations by the name of their part, the parts in natural order."""
    rows = defaultdict(list)
    for row, name in enumerate(names):
        rows[name].append(row)
    return {name: rows[name] for name in sorted(rows, key=lambda name: (len(name), name))}


def _slowdowns(schedule: Schedule, parts: Rows, ideal_ns: float) -> dict[str, float]:
    """Slowdown of each part."""
    steps_ns = schedule.steps_ns(_only(schedule, rows) for rows in parts.values())
    return {name: ns / max(ideal_ns, 1.0) for name, ns in zip(parts, steps_ns, strict=True)}


def _only(schedule: Schedule, rows: Sequence[int]) -> Times:
    """Times of the ideal step, with those of some operations as recorded."""
    work_ns = schedule.usual_ns()
    work_ns[rows] = schedule.work_ns[rows]
    return work_ns


def _slowest(
    schedule: Schedule, by_stage: Mapping[str, float], by_data_rank: Mapping[str, float]
) -> tuple[int, ...]:
    """The slowest ranks: each is as slow as the less slow one of its stage and its data rank."""
    stage_of = {one.rank: one.stage for one in schedule.operations}
    slowdown = {
        rank: min(by_stage[str(stage_of[rank])], by_data_rank[str(number)])
        for rank, number in schedule.data_rank.items()
    }
    count = math.ceil(_SLOWEST * len(slowdown))
    return tuple(sorted(slowdown, key=lambda rank: (-slowdown[rank], rank))[:count])


def _shares(
    schedule: Schedule, parts: Sequence[Sequence[int]], replayed_ns: float, ideal_ns: float
) -> list[float | None]:
    """Share of the slowdown that goes when a part is ideal, of each part."""
    slower_ns = replayed_ns - ideal_ns
    if slower_ns < _LEAST * ideal_ns:
        return [None for _ in parts]
    without = schedule.steps_ns(schedule.with_usual(rows) for rows in parts)
    return [(replayed_ns - ns) / slower_ns for ns in without]
