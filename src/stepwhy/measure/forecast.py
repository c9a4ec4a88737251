"""What a number of runs can find, said before they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_fraction
from stepwhy.measure.looks import LEVEL
from stepwhy.measure.stats import USUAL_SPREAD, detectable_change, expected_spread, pairs_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.sample import Sample

# A fix that is worth less is rarely tried; a forecast that finds it needs no warning.
_WORTH_FINDING = 0.15
# The slowdown of taking it back, in which a forecast counts.
_SLOWDOWN = 1 / (1 - _WORTH_FINDING) - 1
# Runs that drift by more hide any change that an optimisation makes.
_HOPELESS = 1.0


def forecast(pairs: int, runs: Sequence[Sample] = ()) -> str:
    """A warning if so many pairs of runs will probably not answer; '' if they will.

    Args:
        pairs: Number of pairs that are planned.
        runs: Runs made so far, whose drift shows how noisy the machine is; () before the first.
    """
    if pairs < 2:
        return (
            "One run each gives no interval: it cannot show whether a difference is chance. "
            "Make at least 2 pairs of runs, better 4."
        )
    # Repeated looks cost about as many pairs as early answers save: they are not counted.
    measured = expected_spread([s.durations_ns for s in runs]) if runs else USUAL_SPREAD
    found = detectable_change(pairs, measured, level=LEVEL)
    if found <= _SLOWDOWN:
        return ""
    noise = "With the drift of these runs" if runs else "With usual noise"
    needed = pairs_needed(_SLOWDOWN, measured, level=LEVEL)
    enough = (
        f"a slowdown of {format_fraction(_SLOWDOWN)} needs {needed} pairs"
        if needed
        else "try a quieter machine"
    )
    if found > _HOPELESS:
        return f"{noise}, {pairs} pairs of runs detect only a doubled step; {enough}."
    return (
        f"{noise}, {pairs} pairs of runs detect only slowdowns of {format_fraction(found)} or "
        f"more; {enough}."
    )
