"""Time that the driving thread spends in libraries that log, and in checkpoints that are logged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.analyse.breakdown.closed import counted_as
from stepwhy.analyse.steps.sampled_lines import LOGGERS, driver_packages
from stepwhy.analyse.steps.stalls import events_in, rows_of_kinds

if TYPE_CHECKING:
    from stepwhy.analyse.steps.stalls import Rows
    from stepwhy.trace import Trace


def logging_lines(trace: Trace) -> tuple[Counter[tuple[str, str]], float]:
    """Samples of the driving thread by line and library that logs, and their share of all, 0..1.

    Args:
        trace: The trace, with the samples of the described stretch.
    """
    packages = driver_packages(trace)
    lines = {key: count for key, count in packages.items() if key[1] in LOGGERS}
    return Counter(lines), sum(lines.values()) / max(packages.total(), 1)


def as_storage(breakdown: dict[str, int], trace: Trace) -> dict[str, int]:
    """Count time in libraries that log as storage; it was unexplained, or Python.

    Args:
        breakdown: ns per category of the mean step.
        trace: The trace, with the samples of the described stretch.
    """
    logging_ns = round(logging_lines(trace)[1] * sum(breakdown.values()))
    return counted_as(breakdown, "storage", logging_ns, "unexplained", "python")


def with_saves(breakdown: dict[str, int], trace: Trace, steps: Rows) -> dict[str, int]:
    """The breakdown of steps that were only timed, with the checkpoints that were logged in them.

    Args:
        breakdown: Mean step: ns per category.
        trace: The trace of an observed run.
        steps: Rows of its `marks` that the breakdown describes, ascending; (steps,).
    """
    saved = events_in(trace, steps, rows_of_kinds(trace, "save"))
    time_ns = round(saved.share * sum(breakdown.values())) if saved.recur else 0
    return counted_as(breakdown, "storage", time_ns - breakdown["storage"], "unexplained")
