"""The record of predictions, from what was measured in the lab; each pair without itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.predict.calibration import Measured, Record, score
from stepwhy.predict.cpu import TOO_WIDE, is_too_wide, predict, structure
from stepwhy.predict.gpu_gains import gains_of

if TYPE_CHECKING:
    from stepwhy.result.accuracy import Accuracy, PairAccuracy
    from stepwhy.result.gpu import GpuGrade


def recomputed(accuracy: Accuracy) -> Accuracy:
    """The same measurements, with what is predicted now, from the recorded inputs.

    The interval of each pair is calibrated with all others.

    Args:
        accuracy: The measured pairs.
    """
    record = Record(tuple(_fix(pair) for pair in accuracy.pairs if pair.counts))
    pairs = sorted(accuracy.pairs, key=lambda pair: pair.name)
    return replace(accuracy, pairs=tuple(_predicted(pair, record) for pair in pairs))


def record_of(accuracy: Accuracy, grade: GpuGrade | None = None) -> Record:
    """The fixes that calibrate predictions.

    Args:
        accuracy: The measured pairs, with what is predicted for each without itself.
        grade: What was measured on a GPU; None for nothing.
    """
    fixes = tuple(_fix(pair) for pair in accuracy.pairs if pair.counts)
    return Record(fixes, () if grade is None else gains_of(grade))


def _predicted(pair: PairAccuracy, record: Record) -> PairAccuracy:
    if pair.inputs is None:
        return pair
    found = predict(pair.inputs, record.without(pair.name))
    if is_too_wide(found):
        none = dict.fromkeys(("remaining_ns", "low_ns", "high_ns", "naive_ns"))
        return replace(pair, refusal=TOO_WIDE, **none)
    return replace(
        pair,
        refusal="",
        remaining_ns=found.remaining_ns,
        low_ns=found.low_ns,
        high_ns=found.high_ns,
        naive_ns=found.naive_ns,
    )


def _fix(pair: PairAccuracy) -> Measured:
    if pair.inputs is None:
        raise ValueError(f"{pair.name} has no inputs to predict from")
    model = structure(pair.inputs)
    return Measured(
        name=pair.name,
        family=pair.inputs.family,
        score=round(score(model, pair.measured_ns), 4),
        error=round((model.remaining_ns - pair.measured_ns) / pair.inputs.step_ns, 4),
        inside=pair.is_inside,
    )
