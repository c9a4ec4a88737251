"""The step after a fix, where operations run on CPUs or batches are waited for.

What remains is predicted, not what is gained. What survives a fix is often faster than it was: the
threads of the removed work no longer take cores from it, and caches stay warm. So the longer the
removed work was, the less certain is the rest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.input.overlap import displaced_ns
from stepwhy.predict.calibration import OUTSIDE, Structure, calibrated
from stepwhy.predict.inputs import gather
from stepwhy.result.predictions import Prediction, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.calibration import Record
    from stepwhy.result.accuracy import PricingInputs
    from stepwhy.result.edits import Edit

# The measured step as a multiple of the predicted one, before calibration. Source: 27 pairs of
# programs on two CPU cores, of which these intervals held 93 %; for loaders beside an accelerator,
# ResNet-50 with 0 and with 4 workers on five machines, of which they held all.
_COST_ERROR = 0.05  # of the cost
_MOSTLY = 0.55  # of the step; if more of it disappears, what survives was slowed down most
_FASTER_REST = 0.60  # of the rest, at most: what survives without what slowed it down
_SLOWER_REST = 1.10
# Source: threads beside operations in five pairs on two cores, 0.92 to 1.25 of what was predicted.
_OVERLAPPED = (0.90, 1.20)
_OVERLAPPED_ON_ACCELERATOR = (1.00, 1.10)
_PACKED = 0.95  # of the CPU time divided among all cores, at least
_FLOOR = 0.75  # of the shortest times of operations, which are of few steps, with cold caches
# Of the step, for an interval. Work that takes the place of other work is not modelled, so its time
# has to be known better before it is called a prediction.
_WIDEST = 0.5
_WIDEST_REPLACED = 0.4
TOO_WIDE = "Fixes of this kind differ so much that the step after one cannot be predicted."
"""Why there is no prediction although there is a model."""
_MEASURE = "Measure it with 'stepwhy try' or 'stepwhy compare'."
_REPLACED_LEAST = 0.85
_REPLACED_SAVED = 0.25  # of the cost, at least: the other work takes the rest of it


class Bounds(msgspec.Struct, frozen=True):
    """What the step after a fix cannot be less or more than, ns."""

    least_ns: int
    most_ns: int


def price(facts: Facts, edits: Sequence[Edit], record: Record) -> Prediction | Refusal:
    """Predict the step after some edits.

    Args:
        facts: Facts of the run.
        edits: The edits, made together; at least one.
        record: Measured fixes that the interval is calibrated with.
    """
    inputs = gather(facts, edits)
    if isinstance(inputs, Refusal):
        return inputs
    found = predict(inputs, record, tuple(edits))
    if is_too_wide(found):
        return Refusal(tuple(edits), TOO_WIDE, _MEASURE)
    return _widened(found, hard_bounds(inputs))


def _widened(found: Prediction, bounds: Bounds) -> Prediction:
    """A prediction whose interval holds in programs outside of the lab, too."""
    least, most = found.gain_ns
    # Of a step that nearly disappears, most of what remains is needed all the same.
    low_ns = math.floor(max(found.step_ns - OUTSIDE * most, found.low_ns / 2))
    low_ns = max(low_ns, min(bounds.least_ns, found.low_ns))
    high_ns = math.ceil(found.step_ns - least / OUTSIDE)
    return msgspec.structs.replace(found, low_ns=low_ns, high_ns=high_ns)


def is_too_wide(prediction: Prediction) -> bool:
    """Whether an interval says too little to be called a prediction."""
    widest = _WIDEST_REPLACED if prediction.family == "replaced" else _WIDEST
    return prediction.high_ns - prediction.low_ns > widest * prediction.step_ns


def predict(inputs: PricingInputs, record: Record, edits: tuple[Edit, ...] = ()) -> Prediction:
    """Predict the step from what is known of the run.

    Args:
        inputs: What the prediction depends on.
        record: Measured fixes that the interval is calibrated with.
        edits: The edits, for the result.
    """
    model, bounds = structure(inputs), hard_bounds(inputs)
    low, high = calibrated(model, inputs.family, record)
    return Prediction(
        edits=edits,
        step_ns=inputs.step_ns,
        remaining_ns=model.remaining_ns,
        low_ns=min(max(low, bounds.least_ns), model.remaining_ns),
        high_ns=max(min(high, bounds.most_ns), model.remaining_ns),
        family=inputs.family,
        method="cpu",
        structural_low_ns=model.low_ns,
        structural_high_ns=model.high_ns,
        naive_ns=inputs.step_ns - inputs.cost_ns,
        notes=record.sentences(inputs.family),
    )


def structure(inputs: PricingInputs) -> Structure:
    """The step that the model predicts, with the interval of the model alone.

    Args:
        inputs: What the prediction depends on.
    """
    step, cost = inputs.step_ns, inputs.cost_ns
    if not cost:
        return Structure(step, step, step)
    bounds = hard_bounds(inputs)
    match inputs.family:
        case "removed":
            rest, centre = _rest_of_removal(inputs)
            least = 1 - _FASTER_REST * _caused(inputs)
            low, high = least * rest, _SLOWER_REST * rest + _COST_ERROR * cost
        case "overlapped":
            centre = _overlapped_ns(inputs)
            factors = _OVERLAPPED_ON_ACCELERATOR if inputs.on_accelerator else _OVERLAPPED
            low, high = factors[0] * centre, factors[1] * centre
        case _:
            centre = step - cost
            low, high = _REPLACED_LEAST * centre, step - _REPLACED_SAVED * cost
    least, centre, most = (
        min(max(round(ns), bounds.least_ns), bounds.most_ns) for ns in (low, centre, high)
    )
    return Structure(centre, min(least, centre), max(most, centre))


def hard_bounds(inputs: PricingInputs) -> Bounds:
    """What no calibration may exceed.

    Work that only moves still has to be done: by the cores, and operations at their shortest.

    Args:
        inputs: What the prediction depends on.
    """
    least = 0.0
    if inputs.family == "overlapped" and inputs.cpu_ns is not None and inputs.cores:
        least = _PACKED * inputs.cpu_ns / inputs.cores
    if not inputs.inflates_operations and inputs.floor_ns is not None:
        least = max(least, _FLOOR * inputs.floor_ns)
    # Measured before the fix, so that they may be longer than what is left of the step.
    return Bounds(min(math.floor(least), inputs.step_ns - inputs.cost_ns), inputs.step_ns)


def _caused(inputs: PricingInputs) -> float:
    """How much of the disturbance of the rest the removed work can have caused, 0..1.

    A short part of the step cannot have caused all of it.
    """
    return min(inputs.cost_ns / (_MOSTLY * inputs.step_ns), 1.0)


def _rest_of_removal(inputs: PricingInputs) -> tuple[float, float]:
    """The step without the work as it was beside it, and as it is expected without it, ns.

    Operations leave the others as they were, since they run mostly in turn, in the same threads.
    Other work, such as a loader, runs beside the operations and takes cores from them.
    """
    if inputs.removes_operations:
        rest = float(inputs.step_ns - inputs.cost_ns)
        return rest, rest
    # The step without the work, and without the waits for cores that it caused. Other programs
    # cause waits, too, by the cores that they keep busy.
    waits = _caused(inputs) * (inputs.run_delay_share or 0.0)
    own, others = inputs.runnable_threads or 0.0, inputs.background_cores or 0.0
    if own > 0:
        waits *= own / (own + others)
    rest = (inputs.step_ns - inputs.cost_ns) * (1 - waits)
    return rest, rest * _undisturbed(inputs)


def _undisturbed(inputs: PricingInputs) -> float:
    """What operations take if nothing disturbs them, relative to their mean, 0..1.

    Between their shortest times and their mean ones: the shortest step may have been disturbed less
    than it is usual even without the problem.
    """
    if inputs.floor_ns is None or not inputs.compute_ns:
        return 1.0
    shortest = min(inputs.floor_ns / inputs.compute_ns, 1.0)
    return math.pow(shortest, _caused(inputs) / 2)


def _overlapped_ns(inputs: PricingInputs) -> int:
    """The step with some of its work beside it, ns."""
    return displaced_ns(
        inputs.step_ns,
        inputs.cost_ns,
        inputs.cost_ns if inputs.work_ns is None else inputs.work_ns,
        inputs.workers or 1,
        cpu_ns=None if inputs.on_accelerator else inputs.cpu_ns,
        cores=inputs.cores,
    )
