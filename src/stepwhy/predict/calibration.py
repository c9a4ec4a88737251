"""Intervals of predictions, from how far off earlier ones were.

The model alone gives a centre and an interval. The score of a measured fix is where the measured
step lies in that interval: 0 at the centre, -1 and 1 at its ends, on a logarithmic scale. Quantiles
of the scores replace -1 and 1 (weighted conformal prediction). A new fix is one of them with equal
probability, so an interval between quantiles that leave out 15 % holds 85 % of new fixes, without
any assumption about their distribution.

Source: Tibshirani et al., "Conformal Prediction Under Covariate Shift", NeurIPS 2019, section 2
(weights, and unit mass at infinity for the new point); Barber et al., "Predictive Inference with
the Jackknife+", Annals of Statistics 49 (2021) (leaving one out).
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepwhy.result.edits import Family  # noqa: TC001 - the JSON decoder reads it

if TYPE_CHECKING:
    from collections.abc import Sequence

COVERAGE: Final = 0.85
"""Share of new fixes that an interval should hold."""

OUTSIDE: Final = 1.056
"""Factor by which the ends of a gain lie farther out, so that it holds outside of the lab, too.

Source: the half of `lab/world` for tuning, 30 programs that nobody wrote for these predictions.
Their intervals held 24 of the measured gains, and with this factor 27, which makes `COVERAGE` of
new programs likely (split conformal prediction).
"""

# Weights of measured fixes, relative to the new one: own family 1, others less, and ever less the
# more is known of the own family.
_OTHER_FAMILY = 0.25
_FADES_FROM = 4  # fixes of the own family
_SAME_MACHINE = 3.0  # a fix on this machine tells more than one on a machine of the lab
# An interval that excludes its own centre, or nearly, would claim more than the model knows.
_NARROWEST = 0.1
_LEAST_WIDTH = 0.02  # of the step, each side; scores in a narrower interval have no scale
CALIBRATION_FILE: Final = "calibration.json"


class Structure(msgspec.Struct, frozen=True):
    """A predicted step with the interval of the model alone, ns."""

    remaining_ns: int
    low_ns: int
    high_ns: int


class Measured(msgspec.Struct, frozen=True):
    """A fix that was predicted and measured.

    Args:
        name: The pair of the lab, or the program.
        family: Kind of its edit.
        score: Where the measured step lies in the interval of the model.
        error: Predicted minus measured step, as a share of the step before the fix.
        inside: Whether the interval that was calibrated with all others held it; None if unknown.
        on_this_machine: Whether it was measured here.
    """

    name: str
    family: Family
    score: float
    error: float
    inside: bool | None = None
    on_this_machine: bool = False


class GpuGain(msgspec.Struct, frozen=True):
    """A gain that was predicted and measured on a GPU.

    Args:
        name: The pair of the GPU lab.
        ratio: The measured gain as a multiple of the highest predicted one.
    """

    name: str
    ratio: float


# What a fix of each family does, and what several do.
_DOES: dict[Family, tuple[str, str]] = {
    "removed": ("removes work", "remove work"),
    "overlapped": ("moves work beside the step", "move work beside the step"),
    "replaced": ("does other work", "do other work"),
    "device": ("changes work of the device", "change work of the device"),
}


class Record(msgspec.Struct, frozen=True):
    """The measured fixes that predictions are calibrated with.

    Args:
        fixes: Those on CPUs, and those of the user.
        on_gpu: Those on a GPU, which calibrate replays of a GPU's work and nothing else.
    """

    fixes: tuple[Measured, ...] = ()
    on_gpu: tuple[GpuGain, ...] = ()

    def without(self, name: str) -> Record:
        """The record without what was measured on one program."""
        return Record(tuple(fix for fix in self.fixes if fix.name != name), self.on_gpu)

    def sentences(self, family: Family) -> tuple[str, ...]:
        """How well predictions of a kind of edit fitted so far; () if none was measured."""
        known = [fix for fix in self.fixes if fix.family == family]
        if not known:
            return ()
        errors = sorted(abs(fix.error) for fix in known)
        middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
        judged = [fix.inside for fix in known if fix.inside is not None]
        held = (
            f", and {sum(judged)} of {len(judged)} gains were within the predicted range"
            if judged
            else ""
        )
        off = f"{100 * middle:.0f} % of the step"
        does = _DOES[family]
        if len(known) == 1:
            return (f"One fix that {does[0]} was measured: the error was {off}{held}.",)
        count = f"{len(known)} fixes that {does[1]}, of various causes, were measured"
        return (f"{count}: the median error was {off}{held}.",)


def score(model: Structure, measured_ns: float) -> float:
    """Where a measured step lies in the interval of the model: -1 and 1 are its ends.

    Args:
        model: The prediction.
        measured_ns: The step after the fix.
    """
    ratio = math.log(max(measured_ns, 1.0) / max(model.remaining_ns, 1))
    below, above = _scales(model)
    return ratio / (below if ratio < 0 else above)


def calibrated(model: Structure, family: Family, record: Record) -> tuple[int, int]:
    """The interval of a predicted step, ns.

    Args:
        model: The prediction of the model alone.
        family: Kind of its edit.
        record: The measured fixes.
    """
    if model.low_ns == model.high_ns:
        return model.low_ns, model.high_ns
    low, high = _quantiles(family, record.fixes)
    below, above = _scales(model)
    centre = max(model.remaining_ns, 1)
    return (
        math.floor(centre * math.exp(min(low, -_NARROWEST) * below)),
        math.ceil(centre * math.exp(max(high, _NARROWEST) * above)),
    )


def _scales(model: Structure) -> tuple[float, float]:
    """Logarithmic widths of the model's interval below and above its centre."""
    centre = max(model.remaining_ns, 1)
    below = math.log(centre / max(model.low_ns, 1))
    above = math.log(max(model.high_ns, 1) / centre)
    return max(below, _LEAST_WIDTH), max(above, _LEAST_WIDTH)


def _quantiles(family: Family, fixes: Sequence[Measured]) -> tuple[float, float]:
    """Scores between which a new fix lies with the probability `COVERAGE`.

    With too few fixes of the kind, all kinds count alike, and the interval is at least that of the
    model. With too few of any kind, it is that of the model, or reaches the scores farther out.
    """
    own = sum(fix.family == family for fix in fixes)
    other = _OTHER_FAMILY * min(1.0, _FADES_FROM / (own + 1))
    scores = [fix.score for fix in fixes]
    machine = [_SAME_MACHINE if fix.on_this_machine else 1.0 for fix in fixes]
    kind = [1.0 if fix.family == family else other for fix in fixes]
    weights = [one * two for one, two in zip(machine, kind, strict=True)]
    return (
        -_upper([-each for each in scores], weights, machine),
        _upper(scores, weights, machine),
    )


def _upper(scores: Sequence[float], weights: Sequence[float], pooled: Sequence[float]) -> float:
    """The score that a new fix exceeds with half of the probability that `COVERAGE` leaves out."""
    level = 1 - (1 - COVERAGE) / 2
    found = weighted_quantile(scores, weights, level)
    if found is not None:
        return found
    found = weighted_quantile(scores, pooled, level)
    return max(1.0, *scores, 1.0) if found is None else max(1.0, found)


def weighted_quantile(
    values: Sequence[float], weights: Sequence[float], level: float
) -> float | None:
    """The smallest value up to which the weights reach a share, with the new point at infinity.

    The new point weighs as much as those that are most like it, and at least 1.

    Args:
        values: The values.
        weights: Weight of each.
        level: The share, 0..1.

    Returns:
        None if only infinity reaches it.
    """
    total, reached = sum(weights) + max([1.0, *weights]), 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= level * total:
            return value
    return None


@cache
def shipped_record() -> Record:
    """The fixes of the lab, as they were last measured; none if there is no record."""
    file = Path(__file__).with_name(CALIBRATION_FILE)
    if not file.is_file():
        return Record()
    return msgspec.json.decode(file.read_bytes(), type=Record)
