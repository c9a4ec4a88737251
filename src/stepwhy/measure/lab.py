"""Judge a pair of the lab: was the fault found, its fix clean, and the gain as predicted?"""

from __future__ import annotations

import math
import platform
from collections import Counter
from statistics import mean, median
from typing import TYPE_CHECKING

from stepwhy import __version__
from stepwhy.measure.compare import compare
from stepwhy.measure.stats import expected_spread, paired_difference
from stepwhy.measure.summary import valid_or_all, valid_pairs
from stepwhy.result import LabResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from stepwhy.measure.sample import Sample
    from stepwhy.result import Saving

_MARGIN = 0.03
_LEVEL = 0.95


def judge_pair(
    name: str,
    title: str,
    diagnosis: str,
    faulty: Sequence[Sample],
    fixed: Sequence[Sample],
    *,
    requested: int,
    day: date,
) -> LabResult:
    """Result of one pair of the lab.

    Args:
        name: Name of the pair.
        title: Its title.
        diagnosis: Id of the diagnosis of the planted fault.
        faulty: Runs of the faulty program, at least one.
        fixed: Runs of the fixed program, alternating with those of the faulty one.
        requested: Number of valid pairs of runs that were requested.
        day: Day of the measurement.
    """
    bad, good = valid_or_all(faulty), valid_or_all(fixed)
    first = [next((f.id for f in s.findings if f.verdict == "found"), "") for s in bad]
    alarms = sum(_saving_or_found(s, diagnosis) is not None for s in good)
    found_first = first.count(diagnosis)
    comparison = compare(
        (f"{name}, faulty", f"{name}, fixed"), faulty, fixed, margin=_MARGIN, requested=requested
    )
    low, high, edit = _predicted(bad, diagnosis)
    pairs = valid_pairs(faulty, fixed)
    gain = paired_difference(
        [reported_step_ns(fixed) for _, fixed in pairs],
        [reported_step_ns(faulty) for faulty, _ in pairs],
        level=_LEVEL,
        expected=_expected_ns(pairs),
    )
    return LabResult(
        name=name,
        title=title,
        diagnosis=diagnosis,
        faulty_runs=len(bad),
        found_first=found_first,
        fixed_runs=len(good),
        false_alarms=alarms,
        other_first=tuple(n for n, _ in Counter(f for f in first if f != diagnosis).most_common()),
        predicted_low_ns=low,
        predicted_high_ns=high,
        edit=edit,
        measured_ns=round(
            gain.estimate if gain else reported_step_ns(bad[0]) - reported_step_ns(good[0])
        ),
        measured_low_ns=round(gain.low) if gain else None,
        measured_high_ns=round(gain.high) if gain else None,
        passed=None if comparison.quiet is False else 2 * found_first > len(bad) and not alarms,
        comparison=comparison,
        date=day.isoformat(),
        versions={"python": platform.python_version(), "framework": bad[0].framework},
        stepwhy=__version__,
    )


def reported_step_ns(sample: Sample) -> float:
    """Step time of the report, ns, from which findings predict savings.

    Usually the median step, but the mean if some steps compile, save or start workers.
    """
    return float(sum(sample.breakdown.values()))


def _expected_ns(pairs: Sequence[tuple[Sample, Sample]]) -> float | None:
    """Expected standard deviation of a pair's gain, from the drift within the runs."""
    if not pairs:
        return None
    runs = [s for pair in pairs for s in pair]
    # Of the ratio of two runs; each of them has half of the variance.
    spread = expected_spread([s.durations_ns for s in runs], "mean") / math.sqrt(2)
    return spread * math.hypot(*(mean(reported_step_ns(p[side]) for p in pairs) for side in (0, 1)))


def _saving_or_found(sample: Sample, diagnosis: str) -> Saving | bool | None:
    """Predicted saving of a diagnosis; True if found without one, None if not found."""
    for finding in sample.findings:
        if finding.id == diagnosis and finding.verdict == "found":
            return finding.saving or True
    return None


def _predicted(samples: Sequence[Sample], diagnosis: str) -> tuple[int | None, int | None, str]:
    """Medians of the lower and upper ends of the predicted savings, and their edit."""
    found = [_saving_or_found(s, diagnosis) for s in samples]
    savings = [f for f in found if f is not None and not isinstance(f, bool)]
    if not savings:
        return None, None, ""
    low, high = (
        round(median(ends)) for ends in zip(*((s.low_ns, s.high_ns) for s in savings), strict=True)
    )
    return low, high, savings[0].edit
