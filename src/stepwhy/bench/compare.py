"""Compare two measured programs: verdict, interval, and the source of the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy import __version__
from stepwhy.bench.difference import category_differences, op_differences
from stepwhy.bench.summary import measurement, valid_or_all, valid_pairs, was_quiet
from stepwhy.findings import Comparison
from stepwhy.stats import judge, paired_ratio
from stepwhy.units import format_fraction, format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.bench.sample import Sample
    from stepwhy.stats import Ratio

# One comparison in a hundred may be wrong: a comparison in CI runs with every change.
LEVEL = 0.99
# Relative change; a percentage above it is not meaningful.
_BEYOND = 9.0


def compare(
    labels: tuple[str, str],
    a: Sequence[Sample],
    b: Sequence[Sample],
    *,
    margin: float,
    requested: int = 1,
    batch_size: int | None = None,
) -> Comparison:
    """Compare the runs of two programs.

    Runs are paired in the order they were made; a pair is valid if both of its runs are.

    Args:
        labels: Names of the two programs.
        a: Runs of the first program, at least one.
        b: Runs of the second one, at least one.
        margin: Largest change that counts as the same, such as 0.03.
        requested: Number of valid pairs that were requested.
        batch_size: Examples per step, if known.
    """
    pairs = valid_pairs(a, b)
    good = valid_or_all(a), valid_or_all(b)
    if pairs:
        good = [x for x, _ in pairs], [y for _, y in pairs]
    sides = tuple(measurement(n, s, batch_size) for n, s in zip(labels, (a, b), strict=True))
    ratio = _ratio(good) if pairs else None
    change = ratio.change if ratio else sides[1].step_ns / sides[0].step_ns - 1
    verdict = judge(ratio, margin)
    quiet = _quiet(a, b, pairs=len(pairs), requested=requested)
    return Comparison(
        a=sides[0],
        b=sides[1],
        verdict=verdict,
        sentence=_sentence(verdict, change, ratio, margin),
        change=change,
        low=ratio.low if ratio else None,
        high=ratio.high if ratio else None,
        level=LEVEL,
        margin=margin,
        detectable=ratio.detectable if ratio else None,
        pairs=len(pairs),
        quiet=quiet,
        categories=category_differences(*good, level=LEVEL),
        ops=op_differences(*good, level=LEVEL),
        notes=_notes(a, b, len(pairs), quiet=quiet),
        stepwhy=__version__,
    )


def _ratio(good: tuple[Sequence[Sample], Sequence[Sample]]) -> Ratio | None:
    medians = [[float(s.summary.median_ns) for s in side] for side in good]
    return paired_ratio(medians[0], medians[1], level=LEVEL)


def _quiet(a: Sequence[Sample], b: Sequence[Sample], *, pairs: int, requested: int) -> bool | None:
    known = was_quiet([*a, *b], 0)
    return None if known is None else pairs >= requested


def _sentence(verdict: str, change: float, ratio: Ratio | None, margin: float) -> str:
    size = _change(change)
    if ratio is None:
        return f"Cannot tell: B {size} in a single run each; the variation between runs is unknown."
    where = f"({_signed(ratio.low)} to {_signed(ratio.high)}, {ratio.pairs} pairs of runs)"
    match verdict:
        case "same":
            return f"The same within {100 * margin:g} %: B {size} {where}."
        case "cannot tell":
            return f"Cannot tell: B {size} {where}; {_detectable(ratio.detectable)}."
        case _:
            return f"B is {verdict}: it {size} {where}."


def _change(change: float) -> str:
    """The change in words: 'takes 9.8 % longer'."""
    if change >= 1:
        return f"takes {change + 1:.1f} times as long"
    return f"takes {format_fraction(abs(change))} {'longer' if change > 0 else 'less time'}"


def _detectable(change: float) -> str:
    if change > _BEYOND:
        return "the noise would hide any change"
    return f"only a change of {format_fraction(change)} would be detected"


def _signed(change: float) -> str:
    if change > _BEYOND:
        return f"more than {_BEYOND + 1:.0f} times"
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{format_fraction(abs(change))}"


def _notes(
    a: Sequence[Sample], b: Sequence[Sample], pairs: int, *, quiet: bool | None
) -> tuple[str, ...]:
    notes = []
    if quiet is False:
        notes.append("Void: the machine was busy during too many runs.")
    left_out = max(len(a), len(b)) - pairs
    if left_out and pairs:
        notes.append(f"{left_out} runs without a valid counterpart were left out.")
    ratio = _means(a) / _means(b) / (_medians(a) / _medians(b)) if pairs else 1.0
    if not 0.95 < ratio < 1.05:
        means = f"{format_ns(_means(a))} and {format_ns(_means(b))}"
        notes.append(f"The mean step times disagree ({means}): rare long steps differ.")
    return tuple(notes)


def _means(samples: Sequence[Sample]) -> float:
    return sum(s.summary.mean_ns for s in samples) / len(samples)


def _medians(samples: Sequence[Sample]) -> float:
    return sum(s.summary.median_ns for s in samples) / len(samples)
