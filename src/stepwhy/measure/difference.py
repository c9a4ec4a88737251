"""Differences of two programs, by category of the breakdown and by op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from stepwhy.measure.stats import paired_difference
from stepwhy.result import CategoryDifference, OpDifference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.sample import Sample

_MOST_OPS = 40
# Share of the step; ops that differ by less are left out.
_LEAST_SHARE = 0.002


def category_differences(
    a: Sequence[Sample], b: Sequence[Sample], *, level: float, drift: float = 0.0
) -> tuple[CategoryDifference, ...]:
    """Difference of each category that either program has, largest first.

    Args:
        a: Runs of the first program.
        b: Runs of the second one, paired with those of the first.
        level: Confidence of the intervals.
        drift: Change of the machine that may look like one of the programs, as a fraction.
    """
    names = list(dict.fromkeys([*a[0].breakdown, *b[0].breakdown]))
    found = [_category(name, a, b, level, drift) for name in names]
    present = [c for c in found if c.a_ns or c.b_ns]
    return tuple(sorted(present, key=lambda c: -abs(c.difference_ns)))


def _category(
    name: str, a: Sequence[Sample], b: Sequence[Sample], level: float, drift: float
) -> CategoryDifference:
    sides = [[float(s.breakdown.get(name, 0)) for s in side] for side in (a, b)]
    means = [round(float(np.mean(side))) for side in sides]
    interval = paired_difference(*sides, level=level, drift=drift * max(means))
    if interval is None:
        return CategoryDifference(name, means[0], means[1], means[1] - means[0])
    return CategoryDifference(
        name,
        means[0],
        means[1],
        means[1] - means[0],
        round(interval.low),
        round(interval.high),
        sure=interval.low > 0 or interval.high < 0,
    )


def op_differences(
    a: Sequence[Sample], b: Sequence[Sample], *, level: float, drift: float = 0.0
) -> tuple[OpDifference, ...]:
    """Ops that only one program runs, and ops whose time differs significantly.

    Op tables are bounded, so a short op may be missing from one run by chance. An op counts as
    added or removed only if no run of the other program has it.

    Args:
        a: Runs of the first program.
        b: Runs of the second one, paired with those of the first.
        level: Confidence that a changed op's difference is not zero.
        drift: Change of the machine that may look like one of the programs, as a fraction.
    """
    least = _LEAST_SHARE * float(np.mean([s.summary.median_ns for s in a]))
    names = dict.fromkeys(name for s in (*a, *b) for name in s.ops)
    found = [op for name in names if (op := _op(name, a, b, level, least, drift=drift))]
    return tuple(sorted(found, key=lambda op: -abs(op.difference_ns))[:_MOST_OPS])


def _op(
    name: str, a: Sequence[Sample], b: Sequence[Sample], level: float, least: float, *, drift: float
) -> OpDifference | None:
    sides = [[float(s.ops.get(name, 0)) for s in side] for side in (a, b)]
    has_a, has_b = (any(name in s.ops for s in side) for side in (a, b))
    means = [round(float(np.mean(side))) for side in sides]
    difference = means[1] - means[0]
    if has_a and has_b:
        interval = paired_difference(*sides, level=level, drift=drift * max(means))
        sure = interval is None or interval.low > 0 or interval.high < 0
        if not sure or abs(difference) < least:
            return None
    change: Literal["added", "removed", "changed"] = (
        "changed" if has_a and has_b else "added" if has_b else "removed"
    )
    return OpDifference(
        name, change, means[0] if has_a else None, means[1] if has_b else None, difference
    )
