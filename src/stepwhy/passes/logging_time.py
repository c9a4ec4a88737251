"""Time that the driving thread spends in libraries that log, by its stack samples."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.passes.breakdown import counted_as
from stepwhy.passes.sampled_lines import LOGGERS, driver_packages

if TYPE_CHECKING:
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
