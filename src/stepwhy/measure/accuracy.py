"""What was predicted for a fix, and what was measured when it was made."""

from __future__ import annotations

import math
import os
import platform
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from stepwhy.measure.lab import reported_step_ns
from stepwhy.measure.stats import expected_spread, moderated_mean
from stepwhy.result import PairAccuracy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from stepwhy.measure.sample import Sample
    from stepwhy.result import LabResult, PricingInputs


def accuracy_of(
    judged: LabResult,
    runs: Sequence[tuple[Sample, Sample]],
    inputs: Sequence[PricingInputs],
    *,
    edit: str,
    refusal: str,
    size: str,
) -> PairAccuracy:
    """The record of one pair; what is predicted is computed from it later.

    Args:
        judged: The measured pair.
        runs: The valid pairs of runs, of the faulty and of the fixed program.
        inputs: What the prediction depends on, in the runs of the faulty program in which there is
            one.
        edit: The edit that was priced, as text.
        refusal: Why nothing was predicted, if no run has inputs.
        size: Size of the programs.
    """
    return PairAccuracy(
        name=judged.name,
        diagnosis=judged.diagnosis,
        edit=edit,
        inputs=typical(inputs) if inputs else None,
        refusal="" if inputs else refusal,
        faulty_steps_ns=tuple(round(reported_step_ns(faulty)) for faulty, _ in runs),
        fixed_steps_ns=tuple(round(reported_step_ns(fixed)) for _, fixed in runs),
        gain_ns=judged.measured_ns,
        gain_low_ns=judged.measured_low_ns,
        gain_high_ns=judged.measured_high_ns,
        quiet=judged.comparison.quiet,
        repeats=judged.comparison.pairs,
        faulty_runs=judged.faulty_runs,
        found_first=judged.found_first,
        fixed_runs=judged.fixed_runs,
        false_alarms=judged.false_alarms,
        fixed_reach_ns=_reach_ns([fixed for _, fixed in runs]),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions=judged.versions,
        stepwhy=judged.stepwhy,
        date=judged.date,
        size=size,
    )


def _reach_ns(fixed: Sequence[Sample]) -> int | None:
    """Half-width of the 95 % interval of the mean step of some runs; None with a single one."""
    if len(fixed) < 2:
        return None
    steps_ns = [reported_step_ns(run) for run in fixed]
    # The expected spread is that of a ratio of two runs.
    spread = expected_spread([run.durations_ns for run in fixed], "mean") / math.sqrt(2)
    mean = moderated_mean(steps_ns, spread * fmean(steps_ns))
    return None if mean is None else round(mean.reach(0.95))


def failed(name: str, diagnosis: str, error: str, *, day: date) -> PairAccuracy:
    """The record of a pair whose programs could not be measured.

    Args:
        name: Name of the pair.
        diagnosis: Id of the diagnosis of its fault.
        error: Why.
        day: Day of the attempt.
    """
    return PairAccuracy(name, diagnosis, error=error, date=day.isoformat())


def typical(inputs: Sequence[PricingInputs]) -> PricingInputs:
    """One set of inputs for several runs: the median of each number that all of them know.

    Args:
        inputs: The inputs of each run, at least one.
    """
    runs = [asdict(each) for each in inputs]
    return replace(inputs[0], **{name: _middle([run[name] for run in runs]) for name in runs[0]})


def _middle(values: Sequence[Any]) -> Any:
    if any(value is None or isinstance(value, (str, bool)) for value in values):
        return None if None in values else values[0]
    middle = median(values)
    return round(middle) if all(isinstance(value, int) for value in values) else middle
