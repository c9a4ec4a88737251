"""Stages of a pipeline, and the time in which they wait for each other.

Stage s takes k(s) for a forward and a backward pass of one micro-batch. With n of them per step, a
schedule that alternates both takes sum(k) + (n - 1) * max(k): each stage once to fill and drain the
pipeline, and the longest one for all other micro-batches. In an interleaved schedule, passes are of
one model chunk, which makes k smaller and n larger.

Source: "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021,
section 2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.ranks.rank_times import Rank


class Stages(msgspec.Struct, frozen=True):
    """The stages of a pipeline in a mean step; times are means of the ranks of a stage.

    Args:
        passes: Forward passes of each rank per step.
        pass_ns: Time of one forward and one backward pass on each stage; (stages,).
        idle_ns: Time in which a stage only exchanges data or waits, mean of all stages. All of them
            take part in the same step: one whose record ends early waits for the longest.
        wall_ns: Time of the step on the stage where it takes longest.
    """

    passes: float
    pass_ns: tuple[float, ...]
    idle_ns: int
    wall_ns: int

    @property
    def longest(self) -> int:
        """The stage whose passes take longest."""
        return self.pass_ns.index(max(self.pass_ns))

    @property
    def mean_ns(self) -> float:
        """Mean time of one forward and one backward pass."""
        return sum(self.pass_ns) / len(self.pass_ns)

    @property
    def fill_ns(self) -> int:
        """Time that stages of equal length need to fill and drain the pipeline."""
        return round((len(self.pass_ns) - 1) * self.mean_ns)

    @property
    def fill_share(self) -> float:
        """Share of the step in which stages of equal length fill and drain the pipeline, 0..1."""
        others = len(self.pass_ns) - 1
        return others / (self.passes + others)

    @property
    def imbalance_ns(self) -> int:
        """How much longer the step takes than with stages of equal length."""
        return round((self.passes - 1) * (max(self.pass_ns) - self.mean_ns))

    def waits_ns(self, stage: int) -> int:
        """How long a stage waits for the longest one."""
        return round((self.passes - 1) * (max(self.pass_ns) - self.pass_ns[stage]))


def find_stages(ranks: Sequence[Rank]) -> Stages | None:
    """The stages of a pipeline; None if there are no two, or if not all of them are known.

    Args:
        ranks: The ranks.
    """
    count = max((rank.stage for rank in ranks), default=0) + 1
    of_stage = [[rank for rank in ranks if rank.stage == stage] for stage in range(count)]
    if count < 2 or not all(of_stage) or any(rank.passes is None for rank in ranks):
        return None
    passes = {round(rank.passes or 0) for rank in ranks}
    if len(passes) > 1 or min(passes) < 1:
        return None  # the stages do not pass the same micro-batches
    means = [_mean([rank.passes_ns for rank in stage]) for stage in of_stage]
    works = [_mean([rank.work_ns for rank in stage]) for stage in of_stage]
    wall_ns = max(rank.wall_ns for rank in ranks)
    return Stages(
        passes=float(passes.pop()),
        pass_ns=tuple(mean / (ranks[0].passes or 1) for mean in means),
        idle_ns=round(wall_ns - _mean(works)),
        wall_ns=wall_ns,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
