"""Grade the pairs of the GPU lab: what was found, and whether the predicted gain was measured."""

from __future__ import annotations

import math
from statistics import median, variance
from typing import TYPE_CHECKING, Literal

from stepwhy.measure.grade import grade_pair
from stepwhy.result.gpu import GpuPair, Overhead

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from stepwhy.result import Result

_REACH = 2.3  # standard errors of the 95 % interval of a difference of five blocks each
_NS_PER_MS = 1e6


def gpu_pair(
    name: str,
    diagnoses: Sequence[str],
    faulty: Sequence[Result],
    fixed: Sequence[Result],
    steps_ms: Mapping[str, Sequence[float]],
    *,
    day: date,
    planned_share: float | None = None,
    clocks_mhz: tuple[float, float] | None = None,
    error: str = "",
) -> GpuPair:
    """What was reported and measured about one pair.

    Args:
        name: Name of the pair.
        diagnoses: Ids that are right as the first finding, the usual one first; '' for none.
        faulty: Results of the runs of the faulty program.
        fixed: Results of the runs of the fixed program.
        steps_ms: For 'faulty' and 'fixed', steps in some blocks, by the programs' own clocks.
        day: Day of the runs.
        planned_share: Computed share of the fault in the step.
        clocks_mhz: Median clock of the GPU during both programs.
        error: Why a program could not be run or explained.
    """
    first = [_first(result) for result in faulty]
    diagnosis = max(diagnoses, key=first.count)
    graded = grade_pair(name, diagnosis, faulty, fixed, day=day, error=error)
    low, high = _predicted(faulty, diagnosis)
    gain, reach = _gain(steps_ms["faulty"], steps_ms["fixed"])
    sides = [round(_NS_PER_MS * median(side)) if side else None
             for side in (steps_ms["faulty"], steps_ms["fixed"])]  # fmt: skip
    return GpuPair(
        graded=graded,
        faulty_ns=sides[0],
        fixed_ns=sides[1],
        predicted_low_ns=low,
        predicted_high_ns=high,
        gain_ns=gain,
        gain_low_ns=None if gain is None else gain - reach,
        gain_high_ns=None if gain is None else gain + reach,
        kept=_kept(low, high, gain, reach),
        planned_share=planned_share,
        clocks_mhz=clocks_mhz,
    )


def overhead(program: str, alone_ms: Sequence[float], observed_ms: Sequence[float]) -> Overhead:
    """What observing a program costs its steps.

    Args:
        program: Its name.
        alone_ms: Mean step of each run without stepwhy.
        observed_ms: Mean step of each run with it.
    """
    alone, observed = (round(_NS_PER_MS * median(side)) for side in (alone_ms, observed_ms))
    return Overhead(program, alone, observed, min(len(alone_ms), len(observed_ms)))


def _first(result: Result) -> str:
    """Id of the first finding that no other one explains; '' for none."""
    found = (f.id for f in result.findings if f.verdict == "found" and not f.explained_by)
    return next(found, "")


def _predicted(results: Sequence[Result], diagnosis: str) -> tuple[int | None, int | None]:
    """Medians of both ends of the predicted saving."""
    savings = [
        finding.saving
        for result in results
        for finding in result.findings
        if finding.id == diagnosis and finding.verdict == "found" and finding.saving is not None
    ]
    if not savings:
        return None, None
    return round(median(s.low_ns for s in savings)), round(median(s.high_ns for s in savings))


def _gain(faulty_ms: Sequence[float], fixed_ms: Sequence[float]) -> tuple[int | None, int]:
    """Measured gain and half of its interval, ns; None if a program was not measured."""
    if not faulty_ms or not fixed_ms:
        return None, 0
    sides = (faulty_ms, fixed_ms)
    spread = math.sqrt(sum(variance(side) / len(side) for side in sides if len(side) > 1))
    # In some runs, the profiler ends in one of the blocks.
    gain = median(faulty_ms) - median(fixed_ms)
    return round(_NS_PER_MS * gain), round(_NS_PER_MS * _REACH * spread)


def _kept(
    low: int | None, high: int | None, gain: int | None, reach: int
) -> Literal["yes", "overlap", "no", ""]:
    if low is None or high is None or gain is None:
        return ""
    if low <= gain <= high:
        return "yes"
    return "overlap" if gain - reach <= high and gain + reach >= low else "no"
