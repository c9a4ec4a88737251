"""Time that the driving thread spends in the program and its generators, by its stack samples.

A thread that computes in Python leaves no record between two framework calls, and its CPU time does
not distinguish Python from kernels. Stack samples do: they show how often the thread was in a line
of the program, outside the framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.breakdown.closed import counted_as
from stepwhy.analyse.steps.cores import CONTENDED, run_delay_share
from stepwhy.analyse.steps.sampled_lines import (
    FEWEST_SAMPLES,
    GENERATOR,
    driver_lines,
    input_entries,
)
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from collections import Counter

    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.trace import Trace

GENERATED = ("python", "unexplained")
"""Categories in which the record shows the time of a generator."""
# If other programs compete for the cores, a thread may wait for one on any line. Unexplained time
# then counts as Python only if at least this share of the samples is in the program.
_LEAST_IF_CONTENDED = 0.5
# Least share of its runnable time that a thread is on a core; lower figures are too imprecise.
_LEAST_ON_CORE = 0.1


def own_share(lines: Counter[tuple[str, bool]]) -> float:
    """Share of the driving thread's samples in lines of the program outside the framework, 0..1.

    Lines called by an input pipeline do not count. Operations that a line calls directly do,
    as they have no Python frame of their own: the share is an upper bound.

    Args:
        lines: Samples from `driver_lines`.
    """
    own = sum(n for (line, in_framework), n in lines.items() if line and not in_framework)
    return own / lines.total()


def as_generated(breakdown: dict[str, int], trace: Trace) -> dict[str, int]:
    """The breakdown with the time in which the driving thread makes batches as input wait.

    A generator of the program leaves no record, so its share of the samples decides. At most the
    time in Python, and the time without evidence, can be its own.

    Args:
        breakdown: ns per category of the mean step.
        trace: The trace, with the samples of the stretch that is described.
    """
    wanted_ns = round(generator_share(trace) * sum(breakdown.values()))
    missing_ns = wanted_ns - breakdown["input_wait"]
    return counted_as(breakdown, "input_wait", missing_ns, *GENERATED)


def generator_share(trace: Trace) -> float:
    """Share of the driving thread's samples in generators that make its batches, 0..1."""
    samples = trace.samples
    drives = samples.role == SampleRole.DRIVER
    total = int(samples.count[drives].sum())
    if total < FEWEST_SAMPLES:
        return 0.0
    makes = drives & np.isin(input_entries(trace), trace.strings_where({GENERATOR}))
    return int(samples.count[makes].sum()) / total


def as_python(
    breakdown: dict[str, int], trace: Trace, observed: Observed, callback_ns: int = 0
) -> dict[str, int]:
    """Count unexplained time as Python, up to the share that the samples show.

    A thread that sleeps or waits is in a line of the program, too, so Python is also limited to the
    time in which the thread used a core or waited for one.

    Args:
        breakdown: ns per category of the mean step.
        trace: The trace, with the samples of the described stretch.
        observed: Its unprofiled steps.
        callback_ns: Python time in callbacks, whose samples do not count as own lines.
    """
    lines = driver_lines(trace)
    if lines is None or not observed.driver.cpu_ns or not breakdown["unexplained"]:
        return breakdown
    share = own_share(lines)
    delayed = run_delay_share(trace) or 0.0
    if delayed >= CONTENDED and share < _LEAST_IF_CONTENDED:
        return breakdown
    runnable_ns = float(observed.driver.runnable_ns or 0)
    if observed.driver.core_wait_ns is None:
        runnable_ns = observed.driver.cpu_ns / max(1.0 - delayed, _LEAST_ON_CORE)
    longest = round(min(share * sum(breakdown.values()), runnable_ns))
    missing_ns = longest - (breakdown["python"] - callback_ns)
    return counted_as(breakdown, "python", missing_ns, "unexplained")
