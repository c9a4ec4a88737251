"""Changes and verdicts of a comparison in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_fraction

if TYPE_CHECKING:
    from stepwhy.measure.stats import Outcome, Ratio, SingleRatio

# Relative change; a percentage above it is not meaningful.
_BEYOND = 9.0


def signed_change(change: float) -> str:
    """A relative change with its sign: '+9.8 %'."""
    if change > _BEYOND:
        return f"more than {_BEYOND + 1:.0f} times"
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{format_fraction(abs(change))}"


def change_words(change: float) -> str:
    """A relative change in words: 'takes 9.8 % longer'."""
    if change >= 0.995:  # rounds to 100 %
        return f"takes {change + 1:.1f} times as long"
    return f"takes {format_fraction(abs(change))} {'longer' if change > 0 else 'less time'}"


def detectable_words(change: float) -> str:
    """The smallest change that would have been found."""
    if change > _BEYOND:
        return "the noise would hide any change"
    return f"only a change of {format_fraction(change)} would be detected"


def sentence_of_pairs(verdict: Outcome, ratio: Ratio, margin: float) -> str:
    """The verdict of alternating runs in one sentence."""
    size = change_words(ratio.change)
    ends = f"{signed_change(ratio.low)} to {signed_change(ratio.high)}"
    where = f"({ends}, {ratio.pairs} pairs of runs)"
    match verdict:
        case "same":
            return f"The same within {100 * margin:g} %: B {size} {where}."
        case "cannot tell":
            return f"Cannot tell: B {size} {where}; {detectable_words(ratio.detectable)}."
        case _:
            return f"B is {verdict}: it {size} {where}."


def sentence_of_single_runs(
    verdict: Outcome, change: float, ratio: SingleRatio | None, runs: tuple[int, int] = (1, 1)
) -> str:
    """What one run each shows, in one sentence."""
    size = change_words(change)
    made = "one run each" if max(runs) == 1 else f"{runs[0]} and {runs[1]} runs"
    if ratio is None:
        return f"Cannot tell: B {size}; {made}, with too few steps for an interval."
    where = f"({signed_change(ratio.low)} to {signed_change(ratio.high)})"
    if verdict == "cannot tell":
        usual = format_fraction(ratio.chance)
        return (
            f"Cannot tell: B {size} {where}; {made}, and two runs of one program can differ "
            f"by {usual}."
        )
    return f"B is {verdict}: it {size} {where}; {made}, so drift of the machine is not excluded."
