"""Summarise the runs of a program in numbers and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy import __version__
from stepwhy.base.units import format_ns
from stepwhy.measure.stats import median_interval
from stepwhy.result import BenchResult, Measurement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.sample import Sample

LEVEL = 0.95
"""Confidence level of the interval of one program."""


VOID = "Void, the machine was busy: "
"""How the sentence about runs begins that do not count."""


def valid_or_all(samples: Sequence[Sample]) -> list[Sample]:
    """The valid runs; all runs if none is valid, so that a number can be shown."""
    return [s for s in samples if s.is_valid] or list(samples)


def valid_pairs(a: Sequence[Sample], b: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Pairs of runs that are both valid, in the order they were made.

    Args:
        a: All runs of the first program.
        b: All runs of the second one.
    """
    return [(x, y) for x, y in zip(a, b, strict=False) if x.is_valid and y.is_valid]


def measurement(
    label: str, samples: Sequence[Sample], batch_size: int | None = None
) -> Measurement:
    """The runs of a program as one measurement.

    Args:
        label: Name of the program.
        samples: Its runs, at least one.
        batch_size: Examples per step, if known.
    """
    good = valid_or_all(samples)
    interval = median_interval([s.durations_ns for s in good], level=LEVEL)
    return Measurement(
        label=label,
        command=good[0].command,
        runs=tuple(s.summary for s in samples),
        step_ns=round(interval.estimate),
        low_ns=round(interval.low),
        high_ns=round(interval.high),
        level=LEVEL,
        mean_ns=round(float(np.concatenate([s.durations_ns for s in good]).mean())),
        batch_size=batch_size,
        breakdown=mean_breakdown(good),
        machines=tuple(dict.fromkeys(s.machine for s in samples)),
    )


def mean_breakdown(samples: Sequence[Sample]) -> dict[str, int]:
    """Mean of each category over runs, in ns.

    Args:
        samples: The runs, at least one.
    """
    names = samples[0].breakdown
    return {n: round(float(np.mean([s.breakdown.get(n, 0) for s in samples]))) for n in names}


def was_quiet(samples: Sequence[Sample], requested: int) -> bool | None:
    """Whether enough runs were made on a quiet machine; None if the load was not recorded.

    Args:
        samples: The runs.
        requested: Number of valid runs that were requested.
    """
    if all(s.summary.background_cores is None for s in samples):
        return None
    return sum(s.is_valid for s in samples) >= requested


def summarise(
    label: str, samples: Sequence[Sample], requested: int, batch_size: int | None = None
) -> BenchResult:
    """The summary that `stepwhy bench` prints.

    Args:
        label: Name of the program.
        samples: Its runs, at least one.
        requested: Number of valid runs that were requested.
        batch_size: Examples per step, if known.
    """
    found = measurement(label, samples, batch_size)
    quiet = was_quiet(samples, requested)
    return BenchResult(
        found, quiet, _sentence(found, quiet=quiet), _notes(found, samples), stepwhy=__version__
    )


def _sentence(found: Measurement, *, quiet: bool | None) -> str:
    low, high = format_ns(found.low_ns), format_ns(found.high_ns)
    good = sum(not run.void for run in found.runs) or len(found.runs)
    runs = "one run" if good == 1 else f"{good} runs"
    text = f"A step takes {format_ns(found.step_ns)} (95 %: {low} to {high}, {runs})"
    if found.batch_size:
        slowest, fastest = (found.batch_size / ns * 1e9 for ns in (found.high_ns, found.low_ns))
        rate = found.batch_size / found.step_ns * 1e9
        text += f", {rate:.4g} examples/s ({slowest:.4g} to {fastest:.4g})"
    return f"{text}." if quiet is not False else f"{VOID}{text}."


def _notes(found: Measurement, samples: Sequence[Sample]) -> tuple[str, ...]:
    notes = []
    invalid = sum(not s.is_valid for s in samples)
    if invalid:
        reasons = ", ".join(dict.fromkeys(s.summary.void for s in samples if s.summary.void))
        notes.append(f"{invalid} of {len(samples)} runs are not valid: {reasons}.")
    if len(samples) == 1:
        notes.append("A single run: the interval does not include the variation between runs.")
    if found.mean_ns > 1.1 * found.step_ns:
        notes.append(
            f"The mean step takes {format_ns(found.mean_ns)}: some steps are much longer than the "
            "median one."
        )
    return tuple(notes)
