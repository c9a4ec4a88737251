"""Compare two measured programs: verdict, interval, and the source of the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import structs

from stepwhy import __version__
from stepwhy.base.units import format_ns
from stepwhy.measure.difference import category_differences, op_differences
from stepwhy.measure.looks import LEVEL
from stepwhy.measure.stats import expected_spread, judge, paired_ratio, single_ratio, usual_change
from stepwhy.measure.structure import machine_differences, structural_differences
from stepwhy.measure.summary import VOID, measurement, valid_or_all, valid_pairs, was_quiet
from stepwhy.measure.words import sentence_of_pairs, sentence_of_single_runs
from stepwhy.result import Comparison

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.sample import Sample
    from stepwhy.measure.stats import Outcome, Ratio, SingleRatio

# Categories and operations are many: each interval is wider.
_DETAIL_LEVEL = 0.99


class _Change(msgspec.Struct, frozen=True):
    """The change of the step time: fields of a `Comparison`."""

    verdict: Outcome
    sentence: str
    change: float
    low: float | None
    high: float | None
    detectable: float | None


def compare(
    labels: tuple[str, str],
    a: Sequence[Sample],
    b: Sequence[Sample],
    *,
    margin: float,
    requested: int = 1,
    batch_size: int | None = None,
    level: float = LEVEL,
    alternated: bool = True,
) -> Comparison:
    """Compare the runs of two programs.

    Runs are paired in the order they were made; a pair is valid if both of its runs are. Without
    two valid pairs, all pairs count, and the comparison is not quiet.

    Args:
        labels: Names of the two programs.
        a: Runs of the first program, at least one.
        b: Runs of the second one, at least one.
        margin: Largest change that counts as the same, such as 0.03.
        requested: Number of valid pairs that were requested.
        batch_size: Examples per step, if known.
        level: Confidence level of the interval; higher than `LEVEL` if the runs were ended by an
            answer (`Trial.level`).
        alternated: Whether the runs of the two programs were made in turns. If not, a change of the
            machine between them may look like one of the programs, so the intervals are wider.
    """
    pairs = valid_pairs(a, b)
    counted = pairs if len(pairs) > 1 else list(zip(a, b, strict=False))
    good = [x for x, _ in counted], [y for _, y in counted]
    drift = 0.0 if alternated else usual_change([s.durations_ns for s in (*good[0], *good[1])])
    first, second = (measurement(n, s, batch_size) for n, s in zip(labels, (a, b), strict=True))
    ratio = ratio_of_pairs(counted, level, drift)
    medians = first.step_ns, second.step_ns
    change = _compare_pairs(ratio, margin) if ratio else _compare_single_runs(a, b, medians, margin)
    unlike = machine_differences(a, b)
    known = was_quiet([*a, *b], 0)
    quiet = None if known is None else len(counted) == len(pairs) >= requested
    if quiet is False:
        change = structs.replace(change, sentence=f"{VOID}{change.sentence}")
    environment = _environment_notes(unlike, alternated=alternated)
    return Comparison(
        a=first,
        b=second,
        **structs.asdict(change),
        **_differences(*good, drift=drift),
        level=LEVEL,
        margin=margin,
        pairs=len(counted),
        quiet=quiet,
        comparable=alternated or not unlike,
        notes=(*environment, *_notes(a, b, counted, quiet=quiet, alternated=alternated)),
        stepwhy=__version__,
    )


def _compare_pairs(ratio: Ratio, margin: float) -> _Change:
    """The change that pairs of runs show."""
    verdict = judge(ratio, margin)
    sentence = sentence_of_pairs(verdict, ratio, margin)
    return _Change(verdict, sentence, ratio.change, ratio.low, ratio.high, ratio.detectable)


def _compare_single_runs(
    a: Sequence[Sample], b: Sequence[Sample], medians: tuple[int, int], margin: float
) -> _Change:
    """The change that all steps show, where there are no pairs of runs.

    Args:
        a: Runs of the first program.
        b: Runs of the second one.
        medians: Their step times, for the change if there are too few steps for an interval.
        margin: Largest change that counts as the same.
    """
    found = single_ratio(_steps(a), _steps(b), level=LEVEL)
    verdict = _single_verdict(found, margin)
    change = found.change if found else medians[1] / medians[0] - 1
    runs = len(valid_or_all(a)), len(valid_or_all(b))
    sentence = sentence_of_single_runs(verdict, change, found, runs)
    low, high = (found.low, found.high) if found else (None, None)
    return _Change(verdict, sentence, change, low, high, detectable=None)


def _differences(a: Sequence[Sample], b: Sequence[Sample], *, drift: float) -> dict[str, Any]:
    """Where the programs differ: fields of a `Comparison`."""
    return {
        "categories": category_differences(a, b, level=_DETAIL_LEVEL, drift=drift),
        "ops": op_differences(a, b, level=_DETAIL_LEVEL, drift=drift),
        "certain": structural_differences(a, b),
    }


def ratio_of_pairs(
    pairs: Sequence[tuple[Sample, Sample]], level: float, drift: float = 0.0
) -> Ratio | None:
    """Ratio of the step times of pairs of runs; None for fewer than two pairs.

    Args:
        pairs: The pairs.
        level: Confidence level.
        drift: Change of the machine, as a logarithm, that may look like one of the programs.
    """
    if len(pairs) < 2:
        return None
    first, second = ([float(p[side].summary.median_ns) for p in pairs] for side in (0, 1))
    expected = expected_spread([s.durations_ns for pair in pairs for s in pair])
    return paired_ratio(first, second, level=level, expected=expected, drift=drift)


def _steps(samples: Sequence[Sample]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([s.durations_ns for s in valid_or_all(samples)])


def _single_verdict(ratio: SingleRatio | None, margin: float) -> Outcome:
    """Verdict on one run each; the interval includes what two runs usually differ by."""
    if ratio is None or abs(ratio.change) <= margin or ratio.low <= 0 <= ratio.high:
        return "cannot tell"
    return "slower" if ratio.low > 0 else "faster"


def _environment_notes(unlike: Sequence[str], *, alternated: bool) -> tuple[str, ...]:
    """A warning on unlike environments; in runs that alternated, they are part of the programs."""
    if not unlike:
        return ()
    what = (
        "Unlike environments, which are part of the difference"
        if alternated
        else "Unlike environments, so the step times do not compare"
    )
    return (f"{what}: {'; '.join(unlike)}.",)


def _notes(
    a: Sequence[Sample],
    b: Sequence[Sample],
    counted: Sequence[tuple[Sample, Sample]],
    *,
    quiet: bool | None,
    alternated: bool,
) -> tuple[str, ...]:
    notes = []
    busy = sum(not s.is_valid for s in (*a, *b))
    if quiet is False:
        notes.append(
            f"Other programs kept the machine busy during {busy} of {len(a) + len(b)} runs. "
            "On a quiet machine the change may be different."
        )
    left_out = max(len(a), len(b)) - len(counted)
    if left_out and len(counted) > 1:  # a single pair is compared by all valid steps
        runs = "1 run" if left_out == 1 else f"{left_out} runs"
        notes.append(f"Left out: {runs} without a valid counterpart.")
    if not alternated and len(counted) > 1:
        notes.append(
            "The runs did not alternate: the interval allows for the usual change of a machine "
            "between runs, but a larger one looks like a difference of the programs."
        )
    ratio = _means(a) / _means(b) / (_medians(a) / _medians(b))
    if not 0.95 < ratio < 1.05:
        means = f"{format_ns(_means(a))} and {format_ns(_means(b))}"
        notes.append(f"The mean step times disagree ({means}): rare long steps differ.")
    return tuple(notes)


def _means(samples: Sequence[Sample]) -> float:
    return sum(s.summary.mean_ns for s in samples) / len(samples)


def _medians(samples: Sequence[Sample]) -> float:
    return sum(s.summary.median_ns for s in samples) / len(samples)
