"""How well predictions fit, in numbers: errors, coverage and width, of any group of pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.units import format_fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import Accuracy, PairAccuracy


class Fit(msgspec.Struct, frozen=True):
    """How well the predictions of some pairs fit; all but counts are shares of the step.

    Args:
        pairs: Number of pairs.
        inside: Number of them whose interval held the measured step.
        middle, most: Error of the predicted step, median and 90th percentile.
        width: Median width of the interval.
        naive_middle, naive_most: The same errors of the step minus the cost.
        noise: Median half-width of the interval of the measured gain.
    """

    pairs: int
    inside: int
    middle: float
    most: float
    width: float
    naive_middle: float
    naive_most: float
    noise: float


def fit(pairs: Sequence[PairAccuracy]) -> Fit | None:
    """How well some pairs fit; None if none of them counts.

    Args:
        pairs: The pairs; those that do not count are left out.
    """
    judged = [pair for pair in pairs if pair.counts and pair.is_inside is not None]
    if not judged:
        return None
    errors, naive = [error_of(p) or 0.0 for p in judged], [naive_error(p) or 0.0 for p in judged]
    return Fit(
        pairs=len(judged),
        inside=sum(bool(pair.is_inside) for pair in judged),
        middle=_percentile(errors, 0.5),
        most=_percentile(errors, 0.9),
        width=_percentile([width_of(p) or 0.0 for p in judged], 0.5),
        naive_middle=_percentile(naive, 0.5),
        naive_most=_percentile(naive, 0.9),
        noise=_percentile([pair.noise or 0.0 for pair in judged], 0.5),
    )


_DIFFERENT = 0.03
"""Share of the step; a measurement cannot distinguish predictions that differ by less."""


class Contest(msgspec.Struct, frozen=True):
    """Predictions against the step minus the cost.

    Args:
        pairs: Number of pairs.
        no_worse: Pairs whose prediction is not worse beyond the noise of the measurement.
        different: Pairs in which both differ by more than 3 % of the step.
        better: Those of them whose prediction is closer.
    """

    pairs: int
    no_worse: int
    different: int
    better: int


def contest(pairs: Sequence[PairAccuracy]) -> Contest:
    """How predictions compare with the naive ones, in the pairs that count.

    Args:
        pairs: The pairs.
    """
    judged = [pair for pair in pairs if pair.counts and pair.is_inside is not None]
    errors = [(error_of(p) or 0.0, naive_error(p) or 0.0, p.noise or 0.0) for p in judged]
    apart = [
        (error, naive)
        for pair, (error, naive, _) in zip(judged, errors, strict=True)
        if abs((pair.remaining_ns or 0) - (pair.naive_ns or 0)) > _DIFFERENT * pair.step_ns
    ]
    return Contest(
        pairs=len(judged),
        no_worse=sum(error <= naive + noise for error, naive, noise in errors),
        different=len(apart),
        better=sum(error < naive for error, naive in apart),
    )


def error_of(pair: PairAccuracy) -> float | None:
    """How far the predicted step is off, as a share of the step before the fix."""
    return _off(pair, pair.remaining_ns)


def naive_error(pair: PairAccuracy) -> float | None:
    """The same of the step minus the cost."""
    return _off(pair, pair.naive_ns)


def width_of(pair: PairAccuracy) -> float | None:
    """Width of the predicted interval, as a share of the step before the fix."""
    if pair.inputs is None or pair.low_ns is None or pair.high_ns is None:
        return None
    return (pair.high_ns - pair.low_ns) / pair.inputs.step_ns


def why_left_out(pair: PairAccuracy) -> str:
    """Why a pair does not count; '' if it does."""
    if pair.error:
        return pair.error
    if pair.inputs is None or pair.remaining_ns is None:
        return pair.refusal
    if pair.quiet is False:
        return "The machine was busy."
    return "" if pair.counts else "The measured gain is too uncertain."


def fit_cells(found: Fit) -> tuple[str, ...]:
    """A row of the table of errors."""
    shares = (found.middle, found.most, found.width, found.naive_middle, found.naive_most)
    return (
        f"{found.inside} of {found.pairs}",
        *map(format_fraction, shares),
        format_fraction(found.noise),
    )


def sentences(accuracy: Accuracy) -> list[str]:
    """The result in words."""
    found = fit(accuracy.pairs)
    left_out = sum(why_left_out(pair) != "" for pair in accuracy.pairs)
    if found is None:
        return [f"None of {len(accuracy.pairs)} pairs was both predicted and measured well."]
    held = f"{found.inside} of {found.pairs} intervals held the measured step"
    error = f"Error: {_both(found.middle, found.most)}"
    naive = f"of the step minus the cost: {_both(found.naive_middle, found.naive_most)}"
    return [
        f"{held}; their median width is {format_fraction(found.width)} of the step.",
        f"{error}; {naive}.",
        f"The measured steps are uncertain by {format_fraction(found.noise)}.",
        _against_naive(contest(accuracy.pairs)),
        f"{left_out} of {len(accuracy.pairs)} pairs are left out.",
    ]


def _against_naive(found: Contest) -> str:
    better = f", and better in {found.better} of {found.different} that differ by more than 3 %"
    return (
        f"Not worse than the step minus the cost, beyond that uncertainty, in {found.no_worse} of "
        f"{found.pairs}{better if found.different else ''}."
    )


def _both(middle: float, most: float) -> str:
    return (
        f"{format_fraction(middle)} of the step in the median, {format_fraction(most)} in 9 of 10"
    )


def _off(pair: PairAccuracy, predicted_ns: int | None) -> float | None:
    if pair.inputs is None or predicted_ns is None or pair.error:
        return None
    return abs(predicted_ns - pair.measured_ns) / pair.inputs.step_ns


def _percentile(values: Sequence[float], level: float) -> float:
    """The smallest value that a share of the values does not exceed."""
    return sorted(values)[max(math.ceil(level * len(values)) - 1, 0)]
